"""bbGt version 3: one text file per image, of Piotr's toolbox for Matlab (ExDark, KAIST, Caltech).

Syntax: ``bbGt.m`` of the toolbox (https://github.com/pdollar/toolbox)::

    % bbGt version=3
    person 10 20 100 200 0 0 0 0 0 0 0

After the class come left, top, width and height in pixels, from 0, read and written unchanged; whether the
object is occluded; the four numbers of its visible part; whether it is to be ignored; its angle in degrees.
An object to ignore is a crowd box. Visible parts and angles are counted but not kept. Classes may have
several words, although the toolbox has none: the columns are counted from the right.

A file without objects is an image without any. The name of the file without ``.txt`` is that of the image,
such as ``a.png.txt`` in ExDark. Detections have a score at the end of the line, which the toolbox writes into
files of its own.

Writing: version 3. Classes with spaces, at which the toolbox splits the line, are refused; ``-O
spaces=underscore`` writes underscores for them.
"""

from __future__ import annotations

import re

import numpy as np

from odm.files import Output, Source
from odm.formats._contract import SURE, Sniff, format_of
from odm.formats._shared.class_lists import SpacesOptions
from odm.formats._shared.text import label_rows
from odm.formats._shared.text.numbers import to_decimals
from odm.issues import Log
from odm.tables import Builder, Dataset, Flag

_HEAD = b"% bbGt version="
_FIELDS = (
    *("left", "top", "width", "height", "occluded"),
    *("visible left", "visible top", "visible width", "visible height", "ignore", "angle"),
)


def sniff(source: Source) -> Sniff | None:
    """Recognise text files of which two thirds begin with the header of bbGt."""
    if not label_rows.are_text(source):
        return None
    files = label_rows.find_label_files(source, GRAMMAR)[:50]
    n_fitting = sum(source.head(file).lstrip().startswith(_HEAD) for file in files)
    if not files or 3 * n_fitting < 2 * len(files):
        return None
    return Sniff(SURE, "its files begin with '% bbGt version='")


def _choose_columns(n_cells: int, kind: label_rows.KindOf) -> label_rows.Shape | None:
    """The columns of a row: a class of one or more words, 11 numbers, and a score if any.

    As the class may have several words, columns are counted from the right:
    "traffic light 10 20 100 200 0 0 0 0 0 0 0" has 13 cells, of which the first 2 are the class.
    """
    if n_cells < 12:
        return None
    # Two rows of 12 whose line break was lost: "cat 10 20 ... 0 0 dog 10 20 ... 0 0".
    if n_cells >= 24 and all(kind(k) == "number" for k in range(1, 11)):
        return None
    has_score = n_cells >= 13 and kind(n_cells - 12) == "number"
    n_words = n_cells - 11 - has_score
    score = n_cells - 1 if has_score else -1
    return label_rows.Shape(range(n_words, n_words + 11), score, name=(0, n_words))


GRAMMAR = label_rows.Grammar(
    _choose_columns,
    _FIELDS,
    "a class and 11 numbers, or 12 with a score",
    flags=("occluded", "ignore"),
    headers=(b"%",),
    folders=re.compile("annotations?", re.IGNORECASE),
)


def read(source: Source, builder: Builder, log: Log, options: SpacesOptions) -> None:
    """Read a folder of label files, or one."""
    files = label_rows.find_label_files(source, GRAMMAR)
    label_rows.report_files(source, files, log)
    labels = label_rows.read_labels(label_rows.gather_labels(source, builder, log, options), files, GRAMMAR)
    is_valid, values = labels.settle_kind(), labels.values
    # The columns are `_FIELDS`: 4 is occluded, 5 to 8 are the visible part, 9 is ignore and 10 the angle.
    labels.count("visible parts", is_valid & (values[:, 5:9] > 0).any(axis=1))
    labels.count("angles", is_valid & (values[:, 10] != 0))
    flags = (values[:, 4] > 0) * np.uint16(Flag.OCCLUDED) | (values[:, 9] > 0) * np.uint16(Flag.CROWD)
    xyxy, wh = label_rows.convert_ltwh(values)
    labels.add(is_valid, labels.find_classes(is_valid), xyxy, wh=wh, flags=flags)


def write(dataset: Dataset, target: Output, log: Log, _: SpacesOptions) -> None:
    """Write one file per image."""
    if not label_rows.plan_files(dataset, target, log):
        return
    boxes, classes = dataset.boxes, dataset.categories.name
    texts = to_decimals(np.concatenate([boxes.xyxy[:, :2], boxes.short_wh()], axis=1).ravel())
    columns = [
        [classes[category] for category in boxes.category.tolist()],
        *(texts[i::4] for i in range(4)),  # left, top, width and height of all boxes
        # Whether it is occluded and its visible part, unknown; then whether to ignore it and its angle.
        ["1 0 0 0 0" if occluded else "0 0 0 0 0" for occluded in boxes.has(Flag.OCCLUDED).tolist()],
        ["1 0" if crowd else "0 0" for crowd in boxes.has(Flag.CROWD).tolist()],
    ]
    if dataset.kind == "det":
        columns.append(to_decimals(boxes.score))
    label_rows.write_files(dataset, target, log, columns, " ", head=lambda _: _HEAD + b"3\n")


FORMAT = format_of(
    __name__,
    title="bbGt version 3",
    use="challenges",
    written_by="Piotr's toolbox for Matlab (bbGt.m, bbLabeler), ExDark, KAIST and Caltech pedestrians",
    suffixes=(".txt",),
    holds=("bbGt",),
    keeps=frozenset("empty score wh occluded crowd".split()),
)
