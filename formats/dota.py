"""DOTA: oriented boxes in aerial images, one ``.txt`` file per image, one object per line.

::

    imagesource:GoogleEarth
    gsd:0.146343590398
    x1 y1 x2 y2 x3 y3 x4 y4 category difficult

Syntax: https://captain-whu.github.io/DOTA/dataset.html and of its tasks (``tasks.html`` there): four corners
in pixels, clockwise, starting at any corner, unchanged. The two header lines may be missing.

Reading
-------
- A folder of files, flat or with ``labelTxt/`` beside ``images/``, or one file. The file name without
  ``.txt`` is the image name; an empty file, or one with only the header lines, is an image without objects.
- The four corners, in any order, are an oriented box, and the box is the one around them. If all are
  upright, they are plain boxes. Where only boxes are needed, there is a warning if one is larger than its
  object, and the rotation is counted as lost.
- ``difficult`` is 0 or 1 and may be missing; 2 is read as 1.
- Category names may have several words.
- Results are files ``Task1_<category>.txt`` of ``image score x1 y1 ... x4 y4`` or ``Task2_<category>.txt``
  of ``image score xmin ymin xmax ymax``. In files per image, a score after ``difficult`` makes a row a
  detection.
- Image sizes come from ``--images``, ``--image-size`` or ``--image-sizes``, or the pictures in the folder.

Writing
-------
The corners of oriented boxes, and of others from the top left one on, in one file per image without the
header lines; detections have their score at the end. Categories with spaces, at which other programs split
the line, are refused; ``-O spaces=underscore`` writes underscores for them. ``-O results=true`` writes
detections as ``Task1_<category>.txt`` instead, or ``Task2`` if none is oriented.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.codes import SCORE_UNEXPECTED
from odm.files import Output, Source
from odm.formats._contract import SURE, Sniff, format_of, option
from odm.formats._shared.class_lists import UNWRITABLE, note_spaces, spaces_option
from odm.formats._shared.codes import BAD_FLAG
from odm.formats._shared.gather import Gather, Location
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text import label_rows
from odm.formats._shared.text.numbers import to_decimals
from odm.formats._shared.text.tokens import NUMBER
from odm.issues import Log, UsageError, plural
from odm.names import BAD_NAME, stem
from odm.tables import Builder, Dataset, Flag

FIELDS = ("x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4")
EDGES = ("xmin", "ymin", "xmax", "ymax")
_RESULT = re.compile(r"Task([12])_([^/]+)\.txt")
_HEADERS = (b"imagesource:", b"gsd:")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DotaOptions(ImageOptions):
    """Options of DOTA."""

    results: bool = option(False, "write Task1_ or Task2_<category>.txt, one file per category", side="write")
    spaces: str = spaces_option()


def sniff(source: Source) -> Sniff | None:
    """Recognise lines of eight numbers, a word, and 0, 1 or 2; or files named like DOTA results."""
    # If there are files in folders labelTxt, `find_label_files` returns only these: the first one shows it.
    files = label_rows.find_label_files(source, GRAMMAR) if source.is_dir else []
    in_folder = any(map(GRAMMAR.folders.fullmatch, files[0].split("/")[:-1])) if files else False
    if not (in_folder or label_rows.are_text(source)):
        return None
    if results := _find_results(source):
        n_files = plural(len(results), "file is", "files are")
        return Sniff(SURE, f"{n_files} named like DOTA results, Task1_<category>.txt or Task2_<category>.txt")
    n_rows = n_fitting = n_with_class = 0
    for cells in label_rows.sample_rows(source, label_rows.find_label_files(source, GRAMMAR)):
        if cells[0].startswith(_HEADERS):
            continue
        n_rows += 1
        if len(cells) >= 9 and all(map(NUMBER.fullmatch, cells[:8])):
            n_with_class += not NUMBER.fullmatch(cells[8])
            last_numbers = [float(cell) for cell in cells[-2:] if NUMBER.fullmatch(cell)]
            # without a difficulty, or with one at the end or before a score
            n_fitting += len(cells) == 9 or not {0, 1, 2}.isdisjoint(last_numbers)
    description = "four corners, a category and a difficulty, as in DOTA"
    return label_rows.sniff_lines(n_fitting, n_rows, description) if n_with_class else None


def _find_results(source: Source, kind: str | None = None) -> list[str]:
    """The result files of a source; none beside a ``labelTxt`` folder, unless detections are asked for."""
    files = source.with_suffix(".txt") if source.is_dir else [source.path.replace("\\", "/")]
    folders = {folder for file in files for folder in file.split("/")[:-1]}
    if kind != "det" and any(map(GRAMMAR.folders.fullmatch, folders)):
        return []
    return [f for f in files if _RESULT.fullmatch(f.rsplit("/", 1)[-1])]


def _choose_columns(n_cells: int, kind: label_rows.KindOf) -> label_rows.Shape | None:
    """The columns of a row: 8 numbers, a category of one or more words, then difficulty and score if any.

    "x1 ... y4 large vehicle 0 0.9" has 12 cells: 8, 2 of the category, and 2 numbers at the end.
    """
    if n_cells < 9:
        return None
    end = n_cells  # of the category
    while end > max(9, n_cells - 2) and kind(end - 1) == "number":
        end -= 1
    difficult = [end] if end < n_cells else []
    score = n_cells - 1 if end == n_cells - 2 else -1
    return label_rows.Shape([*range(8), *difficult], score, name=(8, end - 8))


GRAMMAR = label_rows.Grammar(
    _choose_columns,
    (*FIELDS, "difficult"),
    "8 numbers, a category, and 0 or 1",
    named="category",
    headers=_HEADERS,
    folders=re.compile("labelTxt.*", re.IGNORECASE),
)


def read(source: Source, builder: Builder, log: Log, options: DotaOptions) -> None:
    """Read a folder of label files, or one; or result files, if `_find_results` finds any."""
    if results := _find_results(source, builder.kind):
        # A single file has the name "" in its source.
        _read_results(source, results if source.is_dir else [""], builder, log, options)
        return
    files = label_rows.find_label_files(source, GRAMMAR)
    label_rows.report_files(source, files, log)
    labels = label_rows.read_labels(label_rows.gather_labels(source, builder, log, options), files, GRAMMAR)
    is_valid = labels.settle_kind()
    difficulty = labels.values[:, 8]
    has_bad_difficulty = is_valid & ~np.isin(difficulty, (0, 1, 2))  # 2 is read as 1
    position = -2 if builder.kind == "det" else -1  # from the end: the score is after it
    labels.report(BAD_FLAG, has_bad_difficulty, position, field="difficult", expected="0 or 1")
    is_valid &= ~has_bad_difficulty
    flags = (difficulty > 0) * np.uint16(Flag.DIFFICULT)
    xyxy, shapes = labels.find_upright(is_valid)
    labels.add(is_valid, labels.find_classes(is_valid), xyxy, flags=flags, shapes=shapes)


def _read_results(source: Source, files: list[str], builder: Builder, log: Log, options: DotaOptions) -> None:
    """Read the detections of result files, one per category; each row names its image.

    Files of Task 1 have four corners, of Task 2 edges. As ground truth, all rows are reported and left out.
    """
    gather = Gather(source, builder, log, options)
    builder.kind = kind = builder.kind or "det"
    for file in files:
        match = _RESULT.fullmatch((file or source.path.replace("\\", "/")).rsplit("/", 1)[-1])
        assert match is not None
        task, category_name = match.groups()
        fields = FIELDS if task == "1" else EDGES
        width = len(fields)

        def choose_columns(n_cells: int, _: label_rows.KindOf, width: int = width) -> label_rows.Shape | None:
            """The columns of a row: an image name of one or more words, a score, and `width` numbers."""
            start = n_cells - width
            name = (0, start - 1)  # its first word, and how many it has
            return label_rows.Shape(range(start, n_cells), start - 1, name) if n_cells >= width + 2 else None

        expected = f"an image, a score and {width} numbers"
        # named="": a row with a bad image name is reported as one with a wrong number of values.
        grammar = label_rows.Grammar(choose_columns, fields, expected, named="")
        labels = label_rows.read_labels(gather, [file], grammar)
        file_number = builder.file(source.full(file))
        image_of_box = _add_named_images(labels, source.full(file), file_number)[labels.name]
        has_image = image_of_box >= 0
        if kind == "gt":
            labels.report(SCORE_UNEXPECTED, has_image, position=1, field="score")
            has_image[:] = False
        category = np.full(len(labels), builder.category(category_name))
        xyxy, shapes = labels.find_upright(has_image, oriented=True) if task == "1" else (labels.values, None)
        columns = {"file": file_number, "score": labels.score, "shapes": shapes}
        labels.add_rows(has_image, image=image_of_box, category=category, xyxy=xyxy, **columns)
    gather.finish()


def _add_named_images(labels: label_rows.Labels, path: str, file_number: int) -> NDArray[np.int32]:
    """Add the images that the rows of a result file name, if new.

    Returns (names,) the image row of each of `labels.texts`, -1 after an issue for a bad name.
    """
    gather, columns = labels.gather, dict[str, Any](field="image", file=file_number)
    # labels.name has the position in labels.texts of each box's name; reversed, its first line stays.
    names_and_lines = zip(labels.name[::-1].tolist(), labels.rows.line[::-1].tolist(), strict=True)
    first_line_of_name = dict(names_and_lines)
    image_rows = np.full(len(labels.texts), -1, np.int32)
    for name_index in dict.fromkeys(labels.name.tolist()):
        name = labels.texts[name_index]
        row = labels.builder.image_row(name)
        if row is None:
            location = Location(path, line=first_line_of_name[name_index])
            picture = gather.pictures.find(name)
            row = gather.image(name, location, picture=picture, line=location.line, **columns)
        image_rows[name_index] = -1 if row is None else row
    return image_rows


def write(dataset: Dataset, target: Output, log: Log, options: DotaOptions) -> None:
    """Write one file per image, or with ``results`` one per category."""
    boxes, classes = dataset.boxes, dataset.categories.name
    if options.results:
        _write_results(dataset, target, log)
        return
    if not label_rows.plan_files(dataset, target, log):
        return
    texts = to_decimals(label_rows.find_corners(dataset).ravel())
    difficult = ["1" if d else "0" for d in boxes.has(Flag.DIFFICULT).tolist()]
    columns = [texts[i::8] for i in range(8)]  # x1 of all boxes, y1 of all boxes, ...
    columns += [[classes[c] for c in boxes.category.tolist()], difficult]
    if dataset.kind == "det":
        columns.append(to_decimals(boxes.score))
    label_rows.write_files(dataset, target, log, columns, " ")


def _write_results(dataset: Dataset, target: Output, log: Log) -> None:
    """Write the detections of each category to a file of its own; with any shape as Task1, else as Task2.

    Raises UsageError for ground truth. Nothing is written, after an issue, if a name would be misread.
    """
    if dataset.kind != "det":
        raise UsageError("results=true writes detections, but this is ground truth")
    boxes, classes = dataset.boxes, dataset.categories.name
    task = 2 if boxes.shapes is None else 1
    file_names = [f"Task{task}_{name}.txt" for name in classes]
    errors_before = log.errors
    for row, name in enumerate(dataset.images.name):
        reason = ""
        if label_rows.parse_class_name(stem(name).encode()) is None:
            reason = "a number after its first word would be read as the score"
        elif "  " in name or stem(name) != stem(name).strip(" \t"):
            reason = "leading, trailing and consecutive spaces are lost"
        if reason:
            path, line, pointer = dataset.image_place(row)
            log.report(BAD_NAME, path, line=line, pointer=pointer, value=name, reason=reason)
    for name in classes:
        if "/" in name or "\\" in name:
            reason = "a class used in a file name cannot contain a slash"
            log.report(UNWRITABLE, "", value=name, reason=reason, way="rename the class")
    if not target.plan(file_names, classes, log) or log.errors > errors_before:
        return
    # A line for each box: image score x1 y1 x2 y2 x3 y3 x4 y4, or the edges.
    coordinates = boxes.xyxy if task == 2 else label_rows.find_corners(dataset)
    texts, n_coordinates = to_decimals(coordinates.ravel()), coordinates.shape[1]
    image_stems = [stem(name) for name in dataset.images.name]
    columns = (
        [image_stems[i] for i in boxes.image.tolist()],
        to_decimals(boxes.score),
        *(texts[i::n_coordinates] for i in range(n_coordinates)),  # the first of all boxes, the second, ...
    )
    note_spaces(dataset.images.name, log)
    lines = list(map(" ".join, zip(*columns, strict=True)))
    for row, name in enumerate(file_names):
        rows_of_class = np.flatnonzero(boxes.category == row).tolist()
        target.write(name, "".join(f"{lines[i]}\n" for i in rows_of_class).encode())


def adapt(options: DotaOptions) -> dict[str, object]:
    """Declare what result files keep: no images without objects and no difficulty."""
    if not options.results:
        return {}
    return {"keeps": frozenset({"score", "unused", "oriented"}), "boxes_as_shapes": False}


FORMAT = format_of(
    __name__,
    title="DOTA oriented boxes",
    expects=("x1 y1 x2 y2 x3 y3 x4 y4 class difficult",),
    use="challenges",
    written_by="DOTA (label files, Task 1 and 2 results), Roboflow OBB",
    suffixes=(".txt",),
    keeps=frozenset("empty score difficult oriented".split()),
    shape_is_box=True,
    boxes_as_shapes=True,
)
