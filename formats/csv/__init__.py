"""CSV: one row per box, in a file or in every ``.csv`` or ``.tsv`` file of a folder.

The header names the columns, in any order. The separator is a comma, semicolon or tab (auto-detected, or
``--sep``); quoting follows RFC 4180. Values are never converted to another type: a class or image called
``00012``, ``NA``, ``null``, ``true`` or ``1.0`` keeps that name. A byte order mark, UTF-16 with a byte order
mark, CR and CRLF, blank lines, a missing final newline, and a first line ``sep=;`` as written by spreadsheets
are accepted.

The canonical form, which is also the default for writing::

    image,width,height,class,score,left,top,right,bottom,difficult,truncated,occluded,crowd,group_of

Coordinates are pixels, unchanged; a cell is empty if the value is unknown. An image without objects is a row
with its name and empty box cells. If there are videos or tracks, the columns ``track,video,frame`` follow:
the track id of the box, the video of the image and its frame number. Flags are 0 or 1. Boxes with a score are
detections. Other dialects are recognised by their headers:

- TF Object Detection ``filename,width,height,class,xmin,ymin,xmax,ymax``: pixels, or relative if all values
  are in 0..1, with a note; ``--coords abs|rel`` overrides this.
- Open Images boxes ``ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,...``: relative to
  image sizes (``--images``, ``--image-size``, ``--image-sizes``); if no image has one, coordinates stay
  fractions, as those of ``yolo``. ``Confidence`` is not a score.
  Flags are 0, 1, or -1 for unknown. ``--classes`` takes the class descriptions that map MIDs to names; a file
  ``*class-descriptions*.csv`` or ``classes.csv`` in the folder is used automatically. Of the lists of images
  (``ImageID,Subset,OriginalURL,...``), those whose pictures lie in the folder are images without objects.
- Open Images masks ``MaskPath,ImageID,LabelName,BoxID,BoxXMin,...`` (FiftyOne's ``segmentations.csv``):
  masks of the boxes of the other files, found by image, class and edges. They are read where their PNG files
  lie in the folder, otherwise counted as lost. Without another file, their boxes are read.
- Open Images predictions ``ImageID,LabelName,Score,XMin,XMax,YMin,YMax``, and ``ImageId,PredictionString``
  with groups of ``label score xmin ymin xmax ymax`` separated by spaces.
- keras-RetinaNet, which has no header: ``path,x1,y1,x2,y2,class``, and ``path,,,,,`` for images without
  objects; SKU110K (``image,x1,y1,x2,y2,class,image_width,image_height``) and makesense.ai
  (``label,x,y,width,height,image,image_width,image_height``), which have none either.

In a folder, ``train``, ``val`` or ``test`` in the name of a file, or else of its folder, is the split of its
images; ``--split`` selects one. An image in two splits is an error.

Any other header is read if its columns have common names (``xmin``, ``left`` or ``x1``; ``label`` or
``class``; ``filename``, ``image`` or ``path``; ``x,y,w,h``; ``bbox`` for four numbers in one cell; in any
case). Without right and bottom, ``width`` and ``height`` beside a left and top are those of the box. A cell
may hold a list of boxes: objects such as ``{'x': 1, 'y': 2, 'width': 3, 'height': 4}``, whose keys are read
as columns, or lists of four numbers. All other headers are read with ``-O columns=image:frame,left:x0,...``.
The roles are image, width, height, class, score, left, top, right, bottom, box_width, box_height, center_x,
center_y, track, video, frame and the flags; ``-O columns=class:=person`` gives every box the same class. A
row without a box whose class is ``No finding``, ``background`` or ``none`` is an image without objects.

Decimal commas (inside quotes, or between semicolons) are read if the file has no decimal point, with a note;
both in one file is an error. ``--classes`` also takes a plain list of names, or lines of ``name,id``: this
sets the order of the classes, and any other class is an error.

Names are written unchanged, so a cell may begin with ``=``, ``+``, ``-`` or ``@``, which a spreadsheet treats
as a formula. ``-O excel-safe=true`` writes an apostrophe before such image and class names, and removes it
when reading, so that names are preserved exactly; without the option the apostrophe is read as part of the
name.

``-O dialect=tfod|openimages|predictionstring|retinanet`` writes these dialects instead of the canonical form;
what they cannot hold is lost. Open Images is written with image ids without extension, and with enough
decimals to preserve a box within a millionth of a pixel.
"""

from __future__ import annotations

import re
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import LIKELY, POOR, SURE, Sniff, format_of
from odm.formats._shared.split_names import select_split
from odm.formats._shared.tables.column_roles import ROLES
from odm.formats._shared.tables.csv_files import NO_HEADER, Quote, read_head_rows, to_utf8
from odm.formats._shared.text.tokens import NUMBER_TEXT
from odm.formats.csv.layouts import (
    CsvOptions,
    HeaderFaults,
    Layout,
    find_class_names,
    find_layout,
    is_class_list,
    read_class_labels,
)
from odm.formats.csv.masks import has_masks
from odm.formats.csv.writer import BLOCK, DIALECTS, can_be_relative
from odm.issues import Log, UsageError, hint, printable, shorten
from odm.tables import Builder, Dataset

_QUOTED = re.compile(r'"[-+.0-9eE]*+[^"]++"')
"""Text in quotes that is no number."""


def _is_table(text: str) -> bool:
    """Whether the text is a header of at least five names, and rows most of which have four numbers.

    Any of the usual separators will do.
    """
    lines = text.strip("\n").split("\n", 21)[:21]  # a header and 20 rows
    header, *rows = [re.split(r"[,;\t|]", _QUOTED.sub("", line)) for line in lines]
    counts = [sum(NUMBER_TEXT.fullmatch(cell.strip(' "')) is not None for cell in row) for row in rows]
    is_header = len(header) > 4 and not any(map(NUMBER_TEXT.fullmatch, header))
    return is_header and 2 * sum(n >= 4 for n in counts) > len(rows)


def sniff(source: Source) -> Sniff | None:
    """Recognise files whose header, or without one the rows, are those of a known dialect."""
    files = source.with_suffix(".csv", ".tsv")
    layouts: list[Layout] = []
    header_faults: list[HeaderFaults] = []
    for file in files[:50]:
        head = source.head(file)
        # A long head is cut to whole characters, which take up to four bytes in UTF-16 and UTF-32.
        decoded = to_utf8(head if len(head) < 2**16 else head[: len(head) // 4 * 4])
        if isinstance(decoded, str):
            continue
        utf8_text, _ = decoded
        text = utf8_text.decode("utf-8", "replace")
        if len(head) >= 2**16 and "\n" in text:  # the last line may be cut
            text = text[: text.rindex("\n")]
        layout = find_layout(text, None)
        if isinstance(layout, Layout):
            layouts.append(layout)
        elif isinstance(layout, HeaderFaults) and (layout.has_box or (not source.is_dir and _is_table(text))):
            header_faults.append(layout)  # read where no other format knows the file, to say what it lacks
    if header_faults and not layouts:
        columns_text = ",".join(map(shorten, header_faults[0].columns[:8]))
        reason = "its header names the four coordinates of a box"
        if not header_faults[0].has_box:
            reason = "it is a table with a header and rows of numbers"
        return Sniff(POOR, f"{reason}: {columns_text}")
    if not layouts:
        return None
    first_layout = layouts[0]
    reason = f"{len(layouts)} CSV files fit, the first is" if len(layouts) > 1 else "it is"
    rows = "its header names" if first_layout.has_header else "its rows have"
    columns_text = ",".join(map(shorten, first_layout.columns[:8]))
    columns_text += ",..." if len(first_layout.columns) > 8 else ""
    title = first_layout.title.partition(" (")[0]  # reading says the rest
    return Sniff(SURE if first_layout.is_sure else LIKELY, f"{reason} {title}: {rows} {columns_text}")


def _has_no_boxes(source: Source, file: str) -> bool:
    """Whether a file, by its header, has the images of Open Images or their labels, but no boxes."""
    header = {cell for row in read_head_rows(source, file, 1) for cell in row}
    has_labels = header >= {"LabelName", "Confidence"} and "XMin" not in header
    return "ImageID" in header and ("OriginalURL" in header or has_labels)


def _lists_images(source: Source, file: str) -> bool:
    """Whether a file is a list of the images of Open Images."""
    return any("OriginalURL" in row for row in read_head_rows(source, file, 1))


def _drop_without_boxes(source: Source, files: list[str], log: Log) -> list[str]:
    """Drop Open Images' files without boxes, with a note, if there are others; lists of images go last."""
    without_boxes = [f for f in files if _has_no_boxes(source, f)]
    if not without_boxes or len(without_boxes) == len(files):
        return files
    image_lists = [f for f in without_boxes if _lists_images(source, f)]
    if unread := [f for f in without_boxes if f not in image_lists]:
        reason, names = "because Open Images has no boxes in them", ", ".join(map(printable, unread))
        log.note(f"{printable(source.path)}: not read, {reason}: {names}")
    return [f for f in files if f not in without_boxes] + image_lists


def read(source: Source, builder: Builder, log: Log, options: CsvOptions) -> None:
    """Read a file, or the CSV files of a folder: boxes, then masks, then the images of Open Images' lists.

    Lists of classes, and Open Images' files without boxes beside others, are no tables of boxes. Raises
    UsageError for an unknown role in the option `columns`.
    """
    from odm.formats.csv.reader import Reader

    for role in options.columns or ():
        if role not in ROLES:
            raise UsageError(f"columns: unknown role {role!r}{hint(role, ROLES)}")
    files = source.with_suffix(".csv", ".tsv") if source.is_dir else source.files
    descriptions = [f for f in files if source.is_dir and is_class_list(f)]
    class_names = find_class_names(source, descriptions, log, options.classes)
    reader = Reader(source, builder, log, options, class_names)

    skipped_paths = {options.image_sizes, options.classes}
    files_to_read = [f for f in files if f not in descriptions and source.full(f) not in skipped_paths]
    if len(files_to_read) > 1:
        files_to_read = _drop_without_boxes(source, files_to_read, log)
    if not files_to_read:
        log.report(NO_HEADER, source.path, found="no file that ends in .csv or .tsv")
    else:
        files_to_read = select_split(files_to_read, reader.split_of, options.split, source, log)

    # Of the files that are left of a split; a file that is alone is read for its boxes.
    image_lists = [file for file in files_to_read if len(files_to_read) > 1 and _lists_images(source, file)]
    mask_files = [file for file in files_to_read if has_masks(source, file)]
    box_files = [file for file in files_to_read if file not in (*mask_files, *image_lists)]
    for file in log.track(box_files, "reading CSV") if len(box_files) > 1 else box_files:
        reader.read_file(file, track=len(files_to_read) == 1)
    for file in mask_files:  # which may belong to the boxes of any other file
        reader.read_masks(file, with_boxes=not box_files)
    for file in image_lists:
        reader.read_images(file)
    reader.finish()


def adapt(options: CsvOptions) -> dict[str, Any]:
    """Return what the option ``dialect`` changes about the format."""
    dialect = DIALECTS[options.dialect]
    max_error = 1e-6 if dialect.is_relative else 0.0
    return {"keeps": dialect.keeps, "max_error_px": max_error, "needs_size": dialect.is_relative}


def write(dataset: Dataset, target: Output, log: Log, options: CsvOptions) -> None:
    """Write one file; rows are in the order of the images."""
    dialect = DIALECTS[options.dialect]
    sep = options.sep or ("\t" if target.target.lower().endswith(".tsv") else ",")
    name = "" if target.single else ("detections.csv" if dataset.kind == "det" else "annotations.csv")
    if dialect.has_strings and dataset.kind != "det":
        raise UsageError("dialect=predictionstring is for detections, but this is ground truth")
    if name and not target.plan([name], ["the boxes"], log):
        return
    if dialect.is_relative and not can_be_relative(dataset, log, has_strings=dialect.has_strings):
        return
    labels = read_class_labels(options.classes, log)
    quote = Quote(sep, safe=options.excel_safe)
    classes = [quote(labels.get(name, name)) for name in dataset.categories.name]
    header, lines = dialect.make_lines(dataset, classes, quote)
    if header:
        lines.insert(0, sep.join(header))
    data = bytearray()
    for start in range(0, len(lines), BLOCK):  # all lines as one text would be in memory thrice
        data += ("\n".join(lines[start : start + BLOCK]) + "\n").encode()
    target.write(name, memoryview(data))


FORMAT = format_of(
    __name__,
    title="CSV: canonical, TF Object Detection, Open Images, keras-RetinaNet",
    expects=("image", "class", "xmin", "ymin", "xmax", "ymax"),
    use="training",
    written_by="odm, TF Object Detection, Open Images, keras-RetinaNet, SKU110K, makesense.ai, PyLabel and "
    "Kaggle tables",
    suffixes=(".csv", ".tsv"),
    single=True,
    owns_suffix=True,
    keeps=DIALECTS["canonical"].keeps,
)
