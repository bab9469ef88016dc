"""ICDAR text detection: one ``.txt`` file per image, one word or line of text per line.

::

    377,117,463,117,465,130,378,130,Genaxis Theatre
    493,115,519,115,519,131,493,131,###

Syntax: the tasks of the Robust Reading Competition (https://rrc.cvc.uab.es), challenges 2 (ICDAR 2013), 4
(ICDAR 2015) and 8 and 15 (multi-lingual text, MLT 2017 and 2019), and RCTW-17. Coordinates are pixels,
unchanged:

- 2015: ``x1,y1,x2,y2,x3,y3,x4,y4,transcription``, four corners, clockwise
- 2013: ``left, top, right, bottom, "transcription"``, between commas or spaces
- MLT: ``x1,...,y4,script,transcription``
- RCTW: ``x1,...,y4,difficulty,"transcription"``, with a difficulty of 0 or 1

Results have no transcription but may have a confidence: ``x1,...,y4,confidence`` or
``left,top,right,bottom,confidence``. Anything after the confidence is a transcription, or the script of MLT.

Reading
-------
- A folder of files, flat or with ``gt/`` beside ``images/``, or one file. The file name without ``.txt``, and
  without ``gt_`` or ``res_`` if all files begin with it, is the image name; an empty file is an image without
  text.
- The transcription ``###`` ("do not care") means that evaluations ignore the text: it is read as crowd. Other
  transcriptions are counted but not kept.
- Four corners are an oriented box, and the box is the one around them. If all are upright, they are plain
  boxes. Where only boxes are needed, there is a warning if one is larger than its text, and the rotation is
  counted as lost.
- All rows of a source have the same layout, which the first rows of its files show. Files named ``res_*`` are
  detections, files named ``gt_*`` ground truth; with other names, rows with a number in 0..1 after the
  coordinates are detections. ``--kind`` overrides this.
- Detections without a confidence are an error, because metrics rank by it; ``-O score=1`` gives all of them
  the same.
- The class is ``text``, in MLT the script. With ``--classes FILE``, or a ``classes.txt`` in the folder, of
  several names, the class is where MLT has the script; a list of one name gives the class of all.
- Image sizes come from ``--images``, ``--image-size`` or ``--image-sizes``, or the pictures in the folder.

Writing
-------
``gt_<image>.txt``, or ``res_<image>.txt`` for detections, in the layout of 2015, or of 2013 with ``-O
style=2013``. The transcription is ``text``, or ``###`` for crowd boxes. If there is any class but ``text``,
the classes are written where MLT has the script, and listed in ``classes.txt``. Official programs read only
whole numbers: ``-O round=true`` writes these.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.files import Output, Source
from odm.formats._contract import Sniff, format_of, option
from odm.formats._shared.class_lists import UNWRITABLE, class_list_option, read_class_list
from odm.formats._shared.codes import UNKNOWN_CLASS, WRONG_COUNT
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text import label_rows
from odm.formats._shared.text.numbers import round_edges, to_decimals
from odm.formats._shared.text.tokens import EMPTY, NUMBER, Chunk
from odm.issues import Code, Log
from odm.names import refuse_class
from odm.tables import Builder, Dataset, Flag, Kind

NO_CONFIDENCE = Code(
    "icdar-no-confidence",
    "error",
    "expected detections with a confidence, but no row has one ({n})",
    "add the confidences, or give all detections the same with -O score=1",
    "Results of ICDAR may lack the confidence, but most metrics rank detections by it. With the same "
    "confidence for all, precision and recall are still meaningful, average precision is not.",
)
CLASS = "text"
IGNORED = (b"###", b'"###"')
SCRIPTS = frozenset(
    b"Arabic Latin Chinese Japanese Korean Bangla Hindi Symbols Mixed None".split()
)  # of MLT 2017 and 2019
FIELDS = {8: ("x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4"), 4: ("left", "top", "right", "bottom")}
_SECOND_ROW = re.compile(rb'[^\s,]"[\s,]*-?[0-9.]+(?:[\s,]+-?[0-9.]+){3}[\s,]')
"""The quote that ends a transcription, and four numbers of a row whose line break was lost."""
_KINDS: dict[str, Kind] = {"gt_": "gt", "res_": "det"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class IcdarOptions(ImageOptions):
    """Options of ICDAR."""

    classes: str | None = class_list_option()
    score: float | None = option(None, "confidence of detections that have none", side="read")
    style: str = option("2015", "layout of the rows", choices=("2015", "2013"), side="write")
    round: bool = option(False, "write whole numbers only", side="write")


# ---------------------------------------------------------------------------------------------- the layout


class Layout(msgspec.Struct, frozen=True):
    """The columns of the rows of a source, in order."""

    sep: str | None = ","
    width: int = 8
    """Coordinates: 8 or 4."""
    scored: bool = False
    """Whether a confidence follows the coordinates."""
    marked: bool = False
    """Whether a difficulty follows the coordinates."""
    classed: bool = False
    """Whether a class comes before the transcription."""

    @property
    def needed(self) -> int:
        """The number of values before the transcription."""
        return self.width + self.scored + self.marked + self.classed

    def __str__(self) -> str:
        """The columns in words, as in "8 numbers, a difficulty and a transcription"."""
        parts = [f"{self.width} numbers"]
        parts += ["a confidence"] * self.scored + ["a difficulty"] * self.marked + ["a class"] * self.classed
        # Rows with a score, which are results, need no transcription.
        *others, last = parts if self.scored else [*parts, "a transcription"]
        return f"{', '.join(others)} and {last}"


def _count_numbers(cells: Sequence[bytes]) -> int:
    """Count the numbers at the beginning of a row, at most eight."""
    return next((i for i, cell in enumerate(cells[:8]) if not NUMBER.fullmatch(cell)), min(8, len(cells)))


def _sample_rows(source: Source, files: Sequence[str]) -> tuple[str | None, int, list[list[bytes]], int]:
    """The layout of some of the first rows of some files.

    Returns the separator and the number of coordinates, 8 or 4, of most rows, the cells of the rows that have
    so many, and the number of rows looked at.
    """
    by_comma, by_blank = (list(label_rows.sample_rows(source, files, sep)) for sep in (b",", None))
    n_fitting = [sum(_count_numbers(cells) >= 4 for cells in rows) for rows in (by_comma, by_blank)]
    sep, rows = (",", by_comma) if n_fitting[0] >= n_fitting[1] else (None, by_blank)
    rows_of_eight = [cells for cells in rows if _count_numbers(cells) == 8]
    if 2 * len(rows_of_eight) >= max(n_fitting) > 0:  # at least half of the rows with 4 numbers have 8
        return sep, 8, rows_of_eight, len(rows)
    return sep, 4, [cells for cells in rows if _count_numbers(cells) >= 4], len(rows)


def _guess_layout(source: Source, files: Sequence[str], kind: Kind | None, names: Sequence[str]) -> Layout:
    """Guess the layout of the rows from the first ones.

    `kind` is what the user asked for, None for either; `names` are those of a list of classes, if any. What
    most rows have counts; a number after the coordinates is a confidence in files of detections, or in 0..1.
    """
    sep, width, rows, _ = _sample_rows(source, files)
    other_cells = [cells[width:] for cells in rows]  # after the coordinates
    file_kind = _KINDS.get(label_rows.find_common_prefix(source, files, GRAMMAR))

    def are_most(n_rows: int) -> bool:
        return 2 * n_rows > len(other_cells)

    rows_with_number = [r for r in other_cells if r and NUMBER.fullmatch(r[0])]
    # A difficulty and a text: 0,"words".
    rows_with_two = [r for r in rows_with_number if r[0] in (b"0", b"1") and len(r) > 1]
    n_with_difficulty = sum(r[1].startswith(b'"') for r in rows_with_two)
    marked = width == 8 and file_kind != "det" and are_most(n_with_difficulty)
    if file_kind == "gt" or marked:
        scored = False
    elif file_kind == "det" or kind == "det":
        scored = are_most(len(rows_with_number))
    else:
        scored = are_most(sum(0 <= float(r[0]) <= 1 for r in rows_with_number))
    last_cells = [r[scored + marked :] for r in other_cells]  # a class, a text, or both
    class_names = {name.encode() for name in names} or SCRIPTS  # without a list, the classes of MLT
    # A class comes before the transcription, which only rows without a score have: one cell, or two.
    n_needed = 1 if scored else 2
    n_with_class = sum(len(r) >= n_needed and r[0] in class_names for r in last_cells)
    classed = len(names) > 1 or are_most(n_with_class)  # a list of one name is the class of all rows
    return Layout(sep, width, scored, marked, classed)


def sniff(source: Source) -> Sniff | None:
    """Recognise rows of four corners and a text, or of edges and a text in quotes.

    Files named gt_* or res_* need no text after their rows of coordinates between commas.
    """
    if not label_rows.are_text(source):
        return None
    files = label_rows.find_label_files(source, GRAMMAR)
    sep, width, rows, n_lines = _sample_rows(source, files)
    prefix = label_rows.find_common_prefix(source, files, GRAMMAR)
    other_cells = [cells[width:] for cells in rows]
    n_quoted = sum(bool(r) and r[0].startswith(b'"') for r in other_cells)
    n_with_text = sum(any(cell and not NUMBER.fullmatch(cell) for cell in r) for r in other_cells)
    is_fitting = [width == 4 or _are_corners(list(map(float, cells[:8]))) for cells in rows]
    is_quoted = width == 4 and 2 * n_quoted > len(rows)
    is_comma_row = sep is not None and (prefix != "" or (n_with_text > 0 and width == 8))
    if not (is_quoted or is_comma_row):
        return None
    coordinates = "four corners" if width == 8 else "left, top, right and bottom"
    tail = " and a text" if n_with_text else f", and the files are named {prefix}*"
    return label_rows.sniff_lines(sum(is_fitting), n_lines, f"{coordinates}{tail}, as in ICDAR")


def _are_corners(values: list[float]) -> bool:
    """Whether x1, y1, ..., x4, y4 go round a convex shape: all turns are to the same side."""
    points = np.reshape(values, (4, 2))
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite makes no corners
        # Corners (0, 0), (4, 0), (4, 2), (0, 2): sides (4, 0), (0, 2), (-4, 0), (0, -2); turns 8, 8, 8, 8,
        # the cross products of a side and the next, positive for a turn to the right in image coordinates.
        sides = np.roll(points, -1, axis=0) - points
        following = np.roll(sides, -1, axis=0)
        turns = sides[:, 0] * following[:, 1] - sides[:, 1] * following[:, 0]
    return bool((min(turns) >= 0 or max(turns) <= 0) and turns.any())


def _decode_class(name: bytes) -> str | None:
    """The text of a class, which may be any words; None if the value is unusable."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return None
    return None if name == EMPTY or refuse_class(text) is not None else text


def _make_grammar(layout: Layout, name: str = CLASS) -> label_rows.Grammar:
    """The grammar of rows with a layout; `name` is the class where rows have none."""
    width, n_before_text = layout.width, layout.needed

    def choose_columns(n_cells: int, kind: label_rows.KindOf) -> label_rows.Shape | None:
        """The columns of a row; None if it has too few values, or two rows on a line.

        Seven numbers in turn in the text belong to a second row whose first one is part of a word: of
        "1,1,9,1,9,5,1,5,stop2,2,8,2,8,6,2,6,go" the second row is "2,2,8,2,8,6,2,6,go".
        """
        score = width if layout.scored else -1
        name = (n_before_text - 1, int(layout.classed))  # the first value of the class, and how many it has
        if n_cells < n_before_text:
            return None
        n_in_turn = 0
        may_have_second_row = width == 8 and n_cells >= n_before_text + width
        for position in range(n_before_text, n_cells if may_have_second_row else 0):
            n_in_turn = n_in_turn + 1 if kind(position) == "number" else 0
            if n_in_turn == width - 1:
                return None
        return label_rows.Shape(range(width + layout.marked), score, name)

    def mark_texts(chunk: Chunk, rows: NDArray[Any]) -> NDArray[Any]:
        """Look at the transcriptions of (n,) rows of a chunk; return (n, 3) marks, 0 or 1.

        A mark says that the row is ignored, that it has a text, and that the text contains a second row.
        The values of row r are `chunk.count[r]`, from position `chunk.first[r]` on.
        """
        marks = np.zeros((len(rows), 3))
        # The first value of each text, in rows that have any; it is ignored only if it is the whole text.
        has_text = chunk.count[rows] > n_before_text
        transcriptions = chunk.pick((chunk.first[rows] + n_before_text)[has_text])
        ignored_and_present = [(text in IGNORED, text != EMPTY) for text in transcriptions]
        marks[has_text, :2] = ignored_and_present or np.zeros((0, 2))  # [] has no columns to assign
        marks[chunk.count[rows] != n_before_text + 1, 0] = 0  # only the start of a transcription
        # `_SECOND_ROW` needs four numbers, so only texts of more than three values can have one in them.
        long_rows = np.flatnonzero(chunk.count[rows] > n_before_text + 3)
        lines = chunk.join_spans(rows[long_rows], chunk.count[rows[long_rows]]) if len(long_rows) else []
        marks[long_rows, 2] = [_SECOND_ROW.search(chunk.restore(line)) is not None for line in lines]
        return marks

    return label_rows.Grammar(
        choose_columns,
        (*FIELDS[width], "difficulty"),
        str(layout),
        score="confidence",
        label=name.encode(),
        flags=("difficulty",),
        more=(mark_texts, 3),
        sep=layout.sep,
        folders=re.compile("gts?|labels|annotations", re.IGNORECASE),
        prefixes=tuple(_KINDS),
        name=_decode_class,
    )


GRAMMAR = _make_grammar(Layout())


def read(source: Source, builder: Builder, log: Log, options: IcdarOptions) -> None:
    """Read a folder of label files, or one.

    Detections without any confidence get `options.score`, or are errors, as are classes that no list has.
    """
    files = label_rows.find_label_files(source, GRAMMAR)
    label_rows.report_files(source, files, log)
    names, path = read_class_list(options.classes, source, "classes.txt", log)
    layout = _guess_layout(source, files, builder.kind, names or ())
    gather = label_rows.gather_labels(source, builder, log, options)
    labels = label_rows.read_labels(gather, files, _make_grammar(layout, names[0] if names else CLASS))
    file_kind = _KINDS.get(label_rows.find_common_prefix(source, files, GRAMMAR))
    if builder.kind is None and file_kind == "det":
        builder.kind = "det"
    # Detections without any confidence, and the kind of the rest.
    is_valid = np.ones(len(labels), bool)
    if builder.kind == "det" and len(labels) and np.isnan(labels.score).all():
        if options.score is not None:
            labels.score[:] = options.score
        elif file_kind != "gt":  # ground truth, read as detections by --kind, is reported row by row
            log.report(NO_CONFIDENCE, source.path, n=len(labels))
            is_valid[:] = False
    if is_valid.all():  # else all have been reported at once, and need not be one by one
        is_valid = labels.settle_kind()
    for name in names or ():
        builder.category(name)
    # `names` are [] without a list, and None, after an issue, for one that is not usable.
    # For each text, then for each row by the position of its text; [True] stands in where there are no rows.
    is_listed = np.array([not names or text in names for text in labels.texts] or [True], bool)
    has_known_class = is_listed[labels.name]
    if names is not None:
        has_unknown_class = is_valid & ~has_known_class
        position = layout.needed - 1  # the class is the last value before the text
        labels.report(UNKNOWN_CLASS, has_unknown_class, position, "class", n=len(names), where=path)
    is_valid &= has_known_class & (names is not None)
    # The columns after the coordinates: the difficulty, and the marks of `_make_grammar`.
    difficulty, ignored, has_text, is_joined = labels.values[:, layout.width :].T
    about = {"expected": str(layout), "found": "two rows on a line"}
    labels.report(WRONG_COUNT, is_valid & (is_joined > 0), position=0, field="", **about)
    is_valid &= is_joined == 0
    flags = (ignored > 0) * np.uint16(Flag.CROWD) | (difficulty > 0) * np.uint16(Flag.DIFFICULT)
    labels.count("transcriptions", is_valid & (has_text > ignored))  # all but ###
    xyxy, shapes = labels.find_upright(is_valid) if layout.width == 8 else (labels.values[:, :4], None)
    columns: dict[str, Any] = {"flags": None if builder.kind == "det" else flags, "shapes": shapes}
    labels.add(is_valid, labels.find_classes(is_valid), xyxy, **columns)


def write(dataset: Dataset, target: Output, log: Log, options: IcdarOptions) -> None:
    """Write one file per image, and the list of classes if there is any but ``text``."""
    is_detections = dataset.kind == "det"
    boxes, classes = dataset.boxes, dataset.categories.name
    prefix = next(p for p, kind in _KINDS.items() if kind == dataset.kind)  # gt_ or res_
    has_classes = bool(set(classes) - {CLASS})
    # Also listed if a class has no boxes, and would be lost.
    listed_classes = classes if has_classes or len(np.unique(boxes.category)) < len(classes) else ()
    for name in (names_with_comma := [name for name in classes if "," in name]):
        reason = "the comma would end the class"
        log.report(UNWRITABLE, "", value=name, reason=reason, way="rename the class")
    is_planned = label_rows.plan_files(dataset, target, log, prefix=prefix, listed=listed_classes)
    if not is_planned or names_with_comma:
        return
    if options.round:
        boxes = replace(boxes, xyxy=round_edges(boxes.xyxy))
        dataset = replace(dataset, boxes=boxes)
    coordinates = label_rows.find_corners(dataset) if options.style == "2015" else boxes.xyxy
    texts = to_decimals((np.floor(coordinates + 0.5) if options.round else coordinates).ravel())
    # The first coordinate of all boxes, the second of all boxes, ...
    columns: list[Sequence[str]] = [texts[i :: coordinates.shape[1]] for i in range(coordinates.shape[1])]
    if is_detections:
        columns.append(to_decimals(boxes.score))
    if has_classes:
        columns.append([classes[c] for c in boxes.category.tolist()])
    if not is_detections:
        transcriptions = (CLASS, "###") if options.style == "2015" else (f'"{CLASS}"', '"###"')
        columns.append([transcriptions[crowd] for crowd in boxes.has(Flag.CROWD).tolist()])
    sep = "," if options.style == "2015" else ", "
    label_rows.write_files(dataset, target, log, columns, sep, prefix=prefix, listed=listed_classes)


def adapt(options: IcdarOptions) -> dict[str, Any]:
    """Declare that rows of 2013 hold upright boxes only."""
    edges_only = {"keeps": FORMAT.keeps - {"oriented"}, "shape_is_box": False, "boxes_as_shapes": False}
    return edges_only if options.style == "2013" else {}


FORMAT = format_of(
    __name__,
    title="ICDAR text detection",
    expects=("x1 y1 x2 y2 x3 y3 x4 y4 text",),
    use="challenges",
    written_by="ICDAR 2013 and 2015 (ground truth and results), MLT 2017 and 2019, RCTW-17",
    suffixes=(".txt",),
    keeps=frozenset("empty unused order score crowd oriented".split()),
    shape_is_box=True,
    boxes_as_shapes=True,
)
