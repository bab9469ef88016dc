"""Read rows of plain text files, and decide from the options or all rows what their four numbers mean.

Plain text takes more lines than other formats because its files say nothing of this.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from odm.codes import COORDINATES_DIFFER
from odm.files import Source
from odm.formats._contract import option
from odm.formats._shared.class_lists import spaces_option
from odm.formats._shared.codes import WRONG_COUNT
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.shapes.fractions import FAR
from odm.formats._shared.text.label_files import list_files
from odm.formats._shared.text.label_rows import Grammar, KindOf, Labels, Shape
from odm.formats._shared.text.tokens import EMPTY, NON_FINITE, NUMBER, Cell, are_all_true, find_second_row
from odm.issues import Code, Log, Trusted, shorten, spell
from odm.names import BAD_CLASS_NAME, refuse_class
from odm.tables import Floats

LAYOUT_UNCLEAR = Code(
    "box-layout-unclear",
    "error",
    "read as ltrb, {inverted} of {n} boxes would have right < left or bottom < top, too many for ltrb and "
    "too few for ltwh; this is the first",
    "set --box ltrb or --box ltwh",
    "The four numbers are either two corners, or a corner and a size. If only a few boxes cannot be "
    "corners, either the layout is ltwh or those boxes are wrong.",
)
COORDS_UNCLEAR = Code(
    "coords-unclear",
    "error",
    "cannot tell pixels from relative coordinates: {inside} boxes are in 0..1 and {outside} are not; this "
    "is the first that is not",
    "set --coords rel or --coords abs",
    "If a dataset seems to contain both relative coordinates and pixels, it is unclear which of them it "
    "uses.",
)
LAYOUTS_MAY_DIFFER = Code(
    "box-layouts-may-differ",
    "warning",
    "none of the {n} boxes here is inverted when read as ltrb, but {inverted} of {m} boxes of {other!r} "
    "are; both are read as ltwh",
    "if this side has corners, set --gt-box and --det-box",
    "Both sides of an evaluation are usually written by the same tool, so their layout is decided together. "
    "If one side would be read differently on its own, the two may differ.",
)
QUOTED = re.compile(r"""(["']).*\1""", re.DOTALL)
DIFFICULT = b"difficult"
"""What Cartucho's mAP has after the numbers of an object that does not count."""
_EXPECTED = "a class and 4 numbers, or a class, a confidence and 4 numbers"
BOX_FIELDS = ("box[0]", "box[1]", "box[2]", "box[3]")
BOXES = ("ltrb", "ltwh", "cxcywh")

SURE_ALONE = 20
"""Boxes of which one at least would be inverted, most likely, if they were widths and heights."""

_SEPARATORS = {
    "tab": "\t",
    "\\t": "\t",
    "comma": ",",
    "semicolon": ";",
    "pipe": "|",
    "space": "",
    "blank": "",
    " ": "",
}


class Meaning(msgspec.Struct, frozen=True):
    """The meaning of the four numbers (layout, relative or pixels), and the reasons for it."""

    is_relative: bool
    box: str
    reasons: tuple[str, ...] = ()
    is_guessed: bool = False
    """Whether corners and sizes were told apart by inverted boxes, so that image sizes may show otherwise."""
    other_layouts: tuple[str, ...] = ()
    """The other layouts that the numbers of both sides allow, as far as sizes of images do not matter."""
    may_be_pixels: bool = False
    """Whether fractions are all 0 or 1, as the pixels of tiny boxes could be."""
    n_boxes: int = 0
    """How many boxes decided, of both sides."""
    is_clear: bool = True
    """False where it could not be decided; the issue is in the log, and no box can be made."""


class Decided(msgspec.Struct, frozen=True, eq=False):
    """The rows of a source, their meaning, and the issues found while it was decided."""

    labels: Labels
    meaning: Meaning
    log: Log


def parse_sep(text: str) -> str:
    """Parse a separator: characters, or the name of one (`_SEPARATORS`).

    Raises ValueError if it could be part of a value.
    """
    sep = _SEPARATORS.get(text, text)
    if sep and (not sep.isprintable() and sep != "\t"):
        raise ValueError("the separator is not printable")
    if any(c.isalnum() or c in "+-._\"' " for c in sep):
        raise ValueError(
            "letters, digits, spaces, quotes and + - . _ can be part of values and cannot be separators"
        )
    return sep


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TxtOptions(ImageOptions):
    """Options for the meaning of the four numbers, and for the separator of values."""

    box: str | None = option(None, "meaning of the four numbers", flag="--box", choices=BOXES)
    coords: str | None = option(
        None, "pixels, or fractions of the image's size", flag="--coords", choices=("abs", "rel")
    )
    sep: str = option(
        "",
        "separator of the values (tab, comma, ...); default: any run of spaces or tabs",
        flag="--sep",
        parse=parse_sep,
    )
    classes: str | None = option(
        None,
        "file with the class names, one per line, or a data.yaml, if classes are numbers",
        flag="--classes",
        side="read",
        path=True,
    )
    spaces: str = spaces_option("keep")
    decided: Decided | None = dataclasses.field(default=None, repr=False, compare=False)
    """What the source and the other side of an evaluation mean together; no option of the user."""


# ------------------------------------------------------------------------------------------------- rows


def parse(source: Source, log: Log, *, sep: str, classes: str | None) -> Labels:
    """Read all rows of a source. `classes` is the file of class names, which may be among the labels."""
    files = list_files(source).labels
    if classes is not None:
        # The list of classes may lie among the labels under any name.
        list_path = os.path.realpath(classes)
        files = [f for f in files if not f or os.path.realpath(source.full(f)) != list_path]
    return Labels(source, files, _make_grammar(sep), log.fresh())


def decode_name(name: bytes, *, separated: bool) -> str | None:
    """Return the text of a class name; None if it is not valid.

    Without a separator (`separated` False) numbers at its end are columns too many, so it is not valid.
    """
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return None
    if name == EMPTY or refuse_class(text) is not None or (len(text) > 1 and QUOTED.fullmatch(text)):
        return None
    return None if not separated and _has_too_many_words(name) else text


def _has_too_many_words(name: bytes) -> bool:
    """Whether a class name of several words holds values that belong to the numbers after it."""
    words = name.split()
    if len(words) < 2:
        return False
    if find_second_row(words, 4):
        return True
    last_word = words[-1]
    if NON_FINITE.fullmatch(last_word):
        return True
    # "route 66" is a name; "car 0.9" and "1 2" have values too many.
    return NUMBER.fullmatch(last_word) is not None and (
        not last_word.isdigit() or all(NUMBER.fullmatch(word) for word in words)
    )


def _make_grammar(sep: str) -> Grammar:
    """Return the grammar of rows of a class, perhaps a score, and four numbers; `sep` "" for blanks."""

    def find_shape(n: int, kind: KindOf) -> Shape | None:
        """Return the shape of n values: the last four are the box, before them a score if there is one."""
        if n < 5 or (sep and n > 6):
            return None
        has_score = n == 6 if sep else n > 5 and kind(n - 5) == "number"
        return Shape(range(n - 4, n), n - 5 if has_score else -1, name=(0, n - 4 - has_score))

    def explain(cells: list[Cell], shape: Shape | None, path: str, line: int, log: Log) -> bool:
        """Report a row with a special cause; return False for any other row. `shape` None: no shape fits."""
        first_column, first_value = cells[0]
        location: dict[str, Any] = {"line": line, "column": first_column}
        if shape is None:  # perhaps all values are one, as of "dog,1,2,3,4"
            marks = [m for m in (",", ";", "|") if len(cells) == 1 and first_value.count(m.encode()) >= 4]
            if not marks or sep:
                return False
            shown = f"1 value (if the columns are separated by {marks[0]!r}, use --sep {marks[0]!r})"
            log.report(WRONG_COUNT, path, **location, expected=_EXPECTED, found=shown)
            return True
        _, n_words = shape.name
        words = [word for _, word in cells[:n_words]]
        name = b" ".join(words)
        if not sep and _has_too_many_words(name):
            shown = f"{sum(NUMBER.fullmatch(word) is not None for _, word in cells)} numbers"
            if row_start := find_second_row(words, 4):
                first_word = repr(shorten(words[row_start]))
                shown = f"a second row in the same line, from {first_word} on (was a line break lost?)"
            location["column"], _ = cells[row_start or len(words) - 1]
            log.report(WRONG_COUNT, path, **location, expected=_EXPECTED, found=Trusted(shown))
        elif "\ufffd" in (text := name.decode(errors="replace")) or refuse_class(text) is not None:
            return False  # a cause that the caller reports, as in any format
        else:
            reason = "this format has no quotes; write the name without them"
            log.report(BAD_CLASS_NAME, path, **location, field="class", value=text, reason=reason)
        return True

    return Grammar(
        find_shape,
        BOX_FIELDS,
        _EXPECTED,
        sep=sep or None,
        name=functools.partial(decode_name, separated=bool(sep)),
        exact=True,  # several blanks within a name are kept
        last=(DIFFICULT, 6),  # a class, four numbers and this word
        explain=explain,
    )


# ------------------------------------------------------------------------------------ what the numbers mean


def find_corners(numbers: Floats, layout: str) -> tuple[Floats, Floats | None]:
    """Return (n, 4) edges of (n, 4) numbers in a layout, and (n, 2) sizes, None for ``ltrb``."""
    if layout == "ltrb":
        return numbers, None
    wh = numbers[:, 2:]
    left_top = numbers[:, :2] if layout == "ltwh" else numbers[:, :2] - wh / 2
    right_bottom = numbers[:, :2] + (wh if layout == "ltwh" else wh / 2)
    return np.concatenate([left_top, right_bottom], axis=1), wh


def find_alternatives(values: Floats, meaning: Meaning, size: Floats | None = None) -> tuple[str, ...]:
    """Return those of ``meaning.other_layouts`` that fit the (n, 4) `values` as well as its own layout.

    A layout does not fit a box that would be inverted, or reach out of its image by more than rounding.
    `size` (n, 2) is the image's, 0 where unknown. Of many boxes some would be inverted as corners if they
    were sizes, so with `size` corners are taken to be no sizes, unless images show that sizes fit as well.
    """
    limit = np.zeros((1, 2)) if size is None else size  # width and height of the image of each box
    if meaning.is_relative:
        limit = np.ones((1, 2))
    border = 0.02 * limit + (0 if meaning.is_relative else 1)
    upper_limit = np.where(limit > 0, limit + border, np.inf)
    n_bad = {}
    for layout in BOXES:
        edges, _ = find_corners(values, layout)
        is_upright = edges[:, 2:] >= edges[:, :2]
        is_fitting = is_upright & (edges[:, :2] >= -border) & (edges[:, 2:] <= upper_limit)
        n_bad[layout] = int((~is_fitting.all(axis=1)).sum())
    # so many corners, none of them inverted, and not all images show whether sizes fit
    is_sure = meaning.box == "ltrb" and meaning.n_boxes >= SURE_ALONE and not (limit > 0).all()
    # Layouts that fit as many boxes, and one at least.
    return tuple(
        layout
        for layout in meaning.other_layouts
        if layout != meaning.box
        and n_bad[layout] <= n_bad[meaning.box]
        and n_bad[layout] < len(values)
        and not (is_sure and size is not None and layout == "ltwh")
    )


def decide(sources: Sequence[Source], log: Log, options: TxtOptions) -> list[Decided]:
    """Decide the meaning of the numbers of all sources together: of one, or of both sides of an evaluation.

    Issues are in the log of the first.
    """
    sides = [parse(source, log, sep=options.sep, classes=options.classes) for source in sources]
    meaning_log = log.fresh()
    meaning = _find_meaning(sides, meaning_log, options)
    if meaning.is_clear:
        values = np.concatenate([side.values for side in sides])
        # in 0..1 and whole: only 0 and 1, as pixels may be
        is_whole = meaning.is_relative and options.coords is None and bool((values == np.rint(values)).all())
        other_layouts = BOXES if options.box is None else ()  # of which those that fit are kept
        meaning = replace(meaning, n_boxes=len(values), may_be_pixels=is_whole, other_layouts=other_layouts)
        meaning = replace(meaning, other_layouts=find_alternatives(values, meaning))
    return [Decided(side, meaning, meaning_log if side is sides[0] else log.fresh()) for side in sides]


def decide_together(
    source: Source, other_source: Source, log: Log, options: TxtOptions
) -> tuple[TxtOptions, TxtOptions]:
    """Return the options of both sides of an evaluation with the meaning that fits both, as of one tool."""
    sides = decide((source, other_source), log, options)
    first_options, second_options = (dataclasses.replace(options, decided=decided) for decided in sides)
    return first_options, second_options


def _find_meaning(sides: list[Labels], log: Log, options: TxtOptions) -> Meaning:
    """Decide the meaning of the numbers of all sides, with its reasons; not `is_clear` after an issue."""
    n_boxes = sum(len(side) for side in sides)
    both_text = " (both sides together)" if sum(len(side) > 0 for side in sides) > 1 else ""
    reasons: list[str] = []
    is_relative = options.coords == "rel"
    if options.coords is None:
        coords = _find_coords(sides, log)
        if coords is None:
            return Meaning(is_relative=False, box="ltrb", is_clear=False)
        is_relative = coords
        if is_relative:
            boxes = "the one box is" if n_boxes == 1 else f"all {n_boxes} boxes are"
            reasons.append(
                f"{boxes} in 0..1{both_text}, so coordinates are read as relative (otherwise use "
                f"{spell('coords')} abs)"
            )
    if options.box is not None:
        return Meaning(is_relative, options.box, tuple(reasons))
    if is_relative:
        reasons.append(f"relative boxes are read as centre, width and height (otherwise use {spell('box')})")
        return Meaning(is_relative=True, box="cxcywh", reasons=tuple(reasons))
    return _find_layout(sides, log, both_text)


def _find_layout(sides: list[Labels], log: Log, both_text: str) -> Meaning:
    """Tell corners from a corner and a size, in pixels, by the boxes that would be inverted as corners.

    If no box is, the numbers are corners; if many are, sizes; a few are an issue, since they may be faults.
    `sides` are one, or the two of an evaluation, and `both_text` is for messages.
    """
    n_boxes = sum(len(side) for side in sides)
    boxes_of = [side.values for side in sides]  # (n, 4) of each side
    inverted_rows = [np.flatnonzero((box[:, 2] < box[:, 0]) | (box[:, 3] < box[:, 1])) for box in boxes_of]
    n_inverted = sum(map(len, inverted_rows))
    if n_inverted == 0:
        because = "its one box is not" if n_boxes == 1 else f"none of {n_boxes} boxes is"
        because += f" inverted that way{both_text}"
        reason = f"read as ltrb, because {because} (otherwise use {spell('box')})"
        return Meaning(is_relative=False, box="ltrb", reasons=(reason,) if n_boxes else ())
    # One row in 20 is no fault any more, if it is three rows at least, or all.
    if 20 * n_inverted >= n_boxes and (n_inverted >= 3 or n_inverted == n_boxes):
        because = f"{n_inverted} of {n_boxes} boxes would be inverted as ltrb{both_text}"
        for side, rows in zip(sides, inverted_rows, strict=True):
            if not len(rows) and len(side) >= SURE_ALONE:  # alone it would be read as corners
                (other_side,) = (s for s in sides if s is not side)
                path, n_other = other_side.source.path, len(other_side)
                counts: dict[str, Any] = {"n": len(side), "inverted": n_inverted, "m": n_other}
                log.report(LAYOUTS_MAY_DIFFER, side.source.path, **counts, other=path)
        reason = f"read as ltwh, because {because} (otherwise use {spell('box')})"
        return Meaning(is_relative=False, box="ltwh", reasons=(reason,), is_guessed=True)
    for side, rows in zip(sides, inverted_rows, strict=True):
        if len(rows):
            side.rows.report(log, LAYOUT_UNCLEAR, rows[:1], lambda _: {"inverted": n_inverted, "n": n_boxes})
            break
    return Meaning(is_relative=False, box="ltrb", is_clear=False)


def _find_coords(sides: list[Labels], log: Log) -> bool | None:
    """Return whether the coordinates of all sides are relative; None, after an issue, if that is unclear.

    They are if all are in 0..1. It is unclear if that is so, with fractions, of one side alone, or of most
    boxes of a side, or if no coordinate is far outside 0..1.
    """
    sides = [side for side in sides if len(side)]
    if not sides:
        return False
    boxes_of = [side.values for side in sides]  # (n, 4) of each side
    rows_outside = [np.flatnonzero(~are_all_true((box >= 0) & (box <= 1))) for box in boxes_of]
    if not any(map(len, rows_outside)):
        return True
    for side, box, rows in zip(sides, boxes_of, rows_outside, strict=True):
        # Fractions in 0..1 are the sign of relative coordinates; whole numbers there may be tiny boxes.
        is_whole = are_all_true(box == np.rint(box))
        if not len(rows) and not is_whole.all():
            other = next(s for s, outside in zip(sides, rows_outside, strict=True) if len(outside))
            text_here, text_there = "all boxes here", f"those of {other.source.path!r}"
            values: dict[str, Any] = {"relative": text_here, "small": "", "absolute": text_there, "large": ""}
            log.report(COORDINATES_DIFFER, side.source.path, **values)
            return None
        has_fractions = ~is_whole  # of a box, in 0..1
        has_fractions[rows] = False
        are_all_near = bool((np.abs(box) <= FAR).all()) and not is_whole.all()
        if len(rows) and (are_all_near or 2 * int(has_fractions.sum()) > len(side)):
            counts = {"inside": len(side) - len(rows), "outside": len(rows)}
            side.rows.report(log, COORDS_UNCLEAR, rows[:1], lambda _, found=counts: found)  # type: ignore[misc]
            return None
    return False
