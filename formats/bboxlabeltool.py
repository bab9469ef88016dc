"""BBox-Label-Tool and WiderPerson: one text file per image, which begins with the number of its boxes.

Syntax: the readme files of WiderPerson and BBox-Label-Tool (https://github.com/puzzledqs/BBox-Label-Tool)::

    2
    10 20 110 220 person
    300 40 351 141 person

The numbers are left, top, right and bottom in pixels, read and written unchanged. A class may follow, without
which it is ``object``. WiderPerson's files are called after the picture with its extension
(``000040.jpg.txt``), and have the number of the class before the box; numbers are used as names. Detections
have a score at the end, which neither writes.

A first line that announces another number of boxes is a warning.

Writing: the class after the box. Classes with spaces are refused; ``-O spaces=underscore`` writes underscores
for them.
"""

from __future__ import annotations

import re

import numpy as np

from odm.files import Output, Source
from odm.formats._contract import SURE, Sniff, format_of
from odm.formats._shared.class_lists import SpacesOptions
from odm.formats._shared.text import label_rows
from odm.formats._shared.text.numbers import to_decimals
from odm.formats._shared.text.tokens import NUMBER
from odm.issues import Code, Log
from odm.names import PICTURE_SUFFIXES
from odm.tables import Builder, Dataset

COUNT_DIFFERS = Code(
    "count-line-differs",
    "warning",
    "{value!r} is no first line with the number of the boxes in the file",
    "check that no box is missing, then correct the number",
    "Each of these files begins with the number of its boxes. If it has more or fewer, something was lost or "
    "added by hand.",
)
_COUNT = re.compile(rb"[0-9]{1,6}")
_FOLDERS = re.compile("labels|annotations", re.IGNORECASE)
_EDGES = ("left", "top", "right", "bottom")


def sniff(source: Source) -> Sniff | None:
    """Recognise text files that begin with the number of the lines below, which have four numbers or more.

    Two of three files must, of the first 50. More may be announced than there are rows in the sample.
    """
    if not label_rows.are_text(source):
        return None
    files = label_rows.find_label_files(source, _make_grammar(class_first=False))[:50]
    n_fitting = n_boxes = 0
    for file in files:
        head, *rows = list(label_rows.sample_rows(source, [file])) or [[]]
        is_count = len(head) == 1 and _COUNT.fullmatch(head[0]) is not None
        n_fitting += is_count and int(head[0]) >= len(rows)
        n_boxes += sum(sum(NUMBER.fullmatch(cell) is not None for cell in row) >= 4 for row in rows)
    if not n_boxes or 3 * n_fitting < 2 * len(files):
        return None
    return Sniff(SURE, "its files begin with the number of their boxes, as those of BBox-Label-Tool do")


def _make_grammar(*, class_first: bool) -> label_rows.Grammar:
    """The grammar of rows of four numbers, and a class and a score if any.

    With `class_first` the class is one value before the numbers, else one or more values after them.
    """

    def choose_columns(n_cells: int, kind: label_rows.KindOf) -> label_rows.Shape | None:
        """The columns of a row; a row of one value is the number of boxes."""
        if n_cells == 1:
            return label_rows.Shape([0])
        if n_cells < 4 or (class_first and n_cells > 6):
            return None
        has_score = n_cells >= 6 and kind(n_cells - 1) == "number"  # "10 20 110 220 cat 0.9", or cat first
        start = int(class_first and n_cells > 4)  # of the numbers: 1 after a class, else 0
        name = (0 if start else 4), n_cells - 4 - has_score  # its first word, and how many it has
        return label_rows.Shape(range(start, start + 4), n_cells - 1 if has_score else -1, name=name)

    expected = "four numbers, a class before" if class_first else "four numbers, or also a class"
    expected += ", and a score if any"
    return label_rows.Grammar(choose_columns, _EDGES, expected, default=np.nan, folders=_FOLDERS)


def read(source: Source, builder: Builder, log: Log, options: SpacesOptions) -> None:
    """Read a folder of label files, or one.

    Classes come first in files named after pictures with their extension, as in WiderPerson.
    """
    files = label_rows.find_label_files(source, _make_grammar(class_first=False))
    label_rows.report_files(source, files, log)
    names = [source.relative(file).lower().removesuffix(".txt") for file in files]
    class_first = bool(names) and all(name.endswith(tuple(PICTURE_SUFFIXES)) for name in names)
    gather = label_rows.gather_labels(source, builder, log, options)
    labels = label_rows.read_labels(gather, files, _make_grammar(class_first=class_first))
    # Rows of one value are the counts: their other numbers are NaN, the default of the grammar.
    is_count = np.isnan(labels.values[:, 1])
    # For each row, the number of boxes in its file: files [0, 0, 1] have [2, 1], the rows [2, 2, 1].
    n_boxes_in_file = np.bincount(labels.rows.file[~is_count], minlength=len(files))[labels.rows.file]
    # A line is the first of its file if the line before is in another file. Without lines none is.
    is_first_line = np.append(True, labels.rows.file[1:] != labels.rows.file[:-1])[: len(labels)]
    is_wrong_count = is_count & ~(is_first_line & (labels.values[:, 0] == n_boxes_in_file))
    if not labels.lost:  # else a count may differ because of a faulty row, which has been reported
        labels.report(COUNT_DIFFERS, is_wrong_count, position=0, field="count")
    labels.keep(~is_count)
    is_valid = labels.settle_kind()
    labels.add(is_valid, labels.find_classes(is_valid), labels.values)


def write(dataset: Dataset, target: Output, log: Log, _: SpacesOptions) -> None:
    """Write one file per image."""
    if not label_rows.plan_files(dataset, target, log):
        return
    boxes, classes = dataset.boxes, dataset.categories.name
    texts = to_decimals(boxes.xyxy.ravel())  # left, top, right, bottom, left, ...; texts[i::4] are one edge
    columns = [*(texts[i::4] for i in range(4)), [classes[category] for category in boxes.category.tolist()]]
    if dataset.kind == "det":
        columns.append(to_decimals(boxes.score))
    label_rows.write_files(dataset, target, log, columns, " ", head=lambda rows: b"%d\n" % rows.count(b"\n"))


FORMAT = format_of(
    __name__,
    title="BBox-Label-Tool and WiderPerson",
    use="annotation tools",
    written_by="BBox-Label-Tool, with one class and with several; WiderPerson",
    suffixes=(".txt",),
    keeps=frozenset("empty score".split()),
)
