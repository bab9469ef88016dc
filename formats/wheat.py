"""Kaggle wheat CSV: one row per box of the Global Wheat Detection competition.

::

    image_id,width,height,bbox,source
    b6ab77fd7,1024,1024,"[834.0, 222.0, 56.0, 36.0]",usask_1

Syntax: ``train.csv`` and ``sample_submission.csv`` of https://www.kaggle.com/c/global-wheat-detection: left,
top, width and height in pixels, unchanged. Submissions are detections::

    image_id,PredictionString
    aac893a91,0.95 834 222 56 36 0.5 10 20 30 40

Reading
-------
- A file, or every CSV file of a folder with one of these headers. If both exist, the ground truth is read;
  ``--kind det`` reads the submission.
- The image is named after its id, with the extension of its picture, if one is found.
- An image with an empty ``bbox`` or string, or ``[]``, has no objects.
- The class is ``wheat``, unless there is a column ``class``; a column ``score`` means detections. ``source``
  is counted but not kept.

Writing
-------
The columns of ``train.csv``, with ``class`` if there are other classes than wheat, and ``score`` for
detections. ``-O results=true`` writes detections of wheat as a submission.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from odm.files import COLLISION, Output, Source
from odm.formats._contract import SURE, Sniff, format_of, option
from odm.formats._shared.class_lists import UNWRITABLE
from odm.formats._shared.codes import WRONG_COUNT
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.tables.column_roles import FORMS
from odm.formats._shared.tables.csv_files import (
    NO_HEADER,
    Quote,
    Rows,
    format_box_lines,
    is_number,
    iter_cells,
    read_head_rows,
    read_tables,
)
from odm.formats._shared.tables.rows import Columns, TableReader
from odm.formats._shared.text.numbers import to_decimals
from odm.issues import Log, UsageError, spell
from odm.names import stem
from odm.tables import Builder, Dataset

HEADER = ["image_id", "width", "height", "bbox", "source"]
SUBMISSION = ["image_id", "PredictionString"]
CLASS = "wheat"
_ROLES = ("image", *FORMS["ltwh"], "class", "score", "width", "height")
LAYOUT = Columns(
    columns=("image", "bbox[0]", "bbox[1]", "bbox[2]", "bbox[3]", *_ROLES[5:]),
    roles={role: k for k, role in enumerate(_ROLES)},
    form="ltwh",
    has_ids=True,
    lenient=True,
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WheatOptions(ImageOptions):
    """Options of Kaggle's wheat competition."""

    results: bool = option(False, "write detections as a submission: image_id,PredictionString", side="write")


def _find_layout(header: list[str]) -> str | None:
    """The layout of a file by its header: ``boxes`` of train.csv, ``strings`` of a submission, or None."""
    if header == SUBMISSION:
        return "strings"
    columns = {*HEADER, "class", "score"}
    return "boxes" if set(HEADER[:4]) <= set(header) <= columns and len(set(header)) == len(header) else None


def sniff(source: Source) -> Sniff | None:
    """Recognise the header of train.csv, or that of a submission with five numbers for each box."""
    headers: list[str] = []
    for file in source.with_suffix(".csv")[:20]:
        rows = read_head_rows(source, file)
        kind = _find_layout(rows[0]) if rows else None
        if kind == "strings":
            words = [cells[1].split() for cells in rows[1:] if len(cells) == 2]
            has_fives = any(words) and not any(len(w) % 5 for w in words)
            if not has_fives or not all(is_number(x) for w in words for x in w):
                continue
        if kind is not None:
            headers.append(",".join(rows[0]))
    return Sniff(SURE, f"the header is {headers[0]}, as in Kaggle's wheat competition") if headers else None


def read(source: Source, builder: Builder, log: Log, options: WheatOptions) -> None:
    """Read a file, or the CSV files of a folder: submissions only as detections or if there are no others."""
    table = TableReader(source, builder, log, options)
    files: dict[str, tuple[str, Rows]] = {}
    for path, rows in read_tables(source, builder, log, options):
        header = [cell.strip(" \t") for cell in rows[0][1]] if rows else []
        if (kind := _find_layout(header)) is not None:
            files[path] = kind, rows
        else:
            shown = repr(",".join(header)) if header else "an empty file"
            log.report(NO_HEADER, path, line=rows[0][0] if rows else 0, found=shown)
    kinds = {kind for kind, _ in files.values()}
    kinds_to_read = kinds
    if len(kinds) > 1:
        kinds_to_read = {"strings"} if builder.kind == "det" else {"boxes"}
        note = f"contains both boxes and submissions; boxes are read unless {spell('kind')} det is given"
        log.note(f"{source.path}: {note}")
    for path, (kind, rows) in files.items():
        if kind in kinds_to_read:
            add_rows = _add_boxes if kind == "boxes" else _add_strings
            add_rows(path, rows, table)
    if builder.kind is None and kinds_to_read == {"strings"}:
        builder.kind = "det"
    table.finish()


def _add_boxes(path: str, rows: Rows, table: TableReader) -> None:
    """Add the rows of train.csv, each with one box or none; malformed rows are reported and left out."""
    header = [cell.strip(" \t") for cell in rows[0][1]]
    counts = table.builder.extras
    kept_rows: Rows = []
    for line, cells in rows[1:]:
        # A good row is kept; `expected` and `shown` are for the message about any other.
        expected, shown = f"{len(header)} cells as in the header", str(len(cells))
        if len(cells) == len(header):
            row = {"class": CLASS, "score": "", "source": "", **dict(zip(header, cells, strict=True))}
            text = row["bbox"].strip(" \t").removeprefix("[").removesuffix("]").strip(" \t")
            numbers = [word.strip(" \t") for word in text.split(",")] if text else [""] * 4
            if len(numbers) == 4:
                other_cells = [row[name] for name in LAYOUT.columns[5:]]  # class, score, width, height
                kept_rows.append((line, [row["image_id"], *numbers, *other_cells]))
                if row["source"]:
                    counts["source"] += 1
                continue
            expected, shown = "[left, top, width, height]", f"{len(numbers)} values"
        table.log.report(WRONG_COUNT, path, line=line, field="bbox", expected=expected, found=shown)
        table.builder.skipped += 1
    table.add(path, LAYOUT, kept_rows)


def _add_strings(path: str, rows: Rows, table: TableReader) -> None:
    """Add the rows of a submission, which have all boxes of an image: score left top width height, ..."""
    kept_rows: Rows = []
    for line, cells in rows[1:]:
        words = cells[1].split() if len(cells) == 2 else []
        if len(cells) != 2 or len(words) % 5:
            shown = f"{len(words)} words" if len(cells) == 2 else f"{len(cells)} cells"
            expected, field = "an image and groups of five: score left top width height", "PredictionString"
            table.log.report(WRONG_COUNT, path, line=line, field=field, expected=expected, found=shown)
            table.builder.skipped += 1
            continue
        words = words or [""] * 5  # an image without boxes
        for i in range(0, len(words), 5):
            score, *box = words[i : i + 5]
            kept_rows.append((line, [cells[0], *box, CLASS, score, "", ""]))  # no width and height
    table.add(path, LAYOUT, kept_rows)


def write(dataset: Dataset, target: Output, log: Log, options: WheatOptions) -> None:
    """Write a row for each box and each empty image, or a submission with a row for each image."""
    is_detections = dataset.kind == "det"
    name = "" if target.single else ("submission.csv" if options.results else "train.csv")
    errors_before = log.errors
    if options.results and not is_detections:
        raise UsageError("results=true writes detections, but this is ground truth")
    boxes, images, classes = dataset.boxes, dataset.images, dataset.categories.name
    other_classes = [classes[c] for c in np.unique(boxes.category).tolist() if classes[c] != CLASS]
    for other_class in other_classes if options.results else ():
        reason, remedy = "a submission has no classes", "leave out results=true"
        log.report(UNWRITABLE, "", value=other_class, reason=reason, way=remedy)
    stems = [stem(name) for name in images.name]
    image_of_stem: dict[str, str] = {}
    for image, key in zip(images.name, stems, strict=True):
        if image_of_stem.setdefault(key, image) != image:
            log.report(COLLISION, "", first=image_of_stem[key], second=image, value=key)
    if (name and not target.plan([name], ["the boxes"], log)) or log.errors > errors_before:
        return
    # Left, top, width and height of box i are texts[4 * i : 4 * i + 4].
    quote = Quote(",")
    texts = to_decimals(np.concatenate([boxes.xyxy[:, :2], boxes.short_wh()], axis=1).ravel())
    scores = to_decimals(boxes.score) if is_detections else []
    image_rows = boxes.image.tolist()
    if options.results:
        words_of_image: list[list[str]] = [[] for _ in stems]
        for i, row in enumerate(image_rows):
            words_of_image[row] += [scores[i], *texts[4 * i : 4 * i + 4]]
        lines = [",".join(SUBMISSION)]
        pairs = zip(stems, words_of_image, strict=True)
        lines += [f"{quote(name)},{' '.join(words)}" for name, words in pairs]
    else:
        header = [*HEADER, *(["class"] if other_classes else []), *(["score"] if is_detections else [])]
        sizes = zip(stems, images.width.tolist(), images.height.tolist(), strict=True)
        # The columns up to height; then bbox, the empty source, and those that are optional.
        row_starts = [f"{quote(name)},{w or ''},{h or ''}" for name, w, h in sizes]
        bbox_cells = [f'"[{", ".join(texts[i : i + 4])}]"' for i in range(0, len(texts), 4)]
        columns = [iter_cells(row_starts, boxes.image), bbox_cells, [""] * len(boxes)]
        columns += [iter_cells([*map(quote, classes)], boxes.category)] if other_classes else []
        columns += [scores] if is_detections else []
        empty_rows = [start + "," * (len(header) - 3) for start in row_starts]  # 3 cells are in `row_starts`
        lines = [",".join(header), *format_box_lines(dataset, ",", columns, empty_rows)]
    target.write(name, "".join(f"{line}\n" for line in lines).encode())


def adapt(options: WheatOptions) -> dict[str, object]:
    """Declare what a submission keeps."""
    return {"keeps": frozenset({"empty", "score", "wh"})} if options.results else {}


FORMAT = format_of(
    __name__,
    title="Kaggle wheat CSV",
    expects=("image_id", "bbox"),
    use="challenges",
    written_by="Kaggle Global Wheat Detection 2020 (train.csv and submissions)",
    suffixes=(".csv",),
    single=True,
    keeps=frozenset("size empty score wh".split()),
)
