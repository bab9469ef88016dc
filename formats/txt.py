"""Plain text: one ``.txt`` file per image, one box per line.

Ground truth   ``<class> <4 numbers>``
Detections     ``<class> <confidence> <4 numbers>``

The file name without ``.txt`` is the image name; an empty file is an image without objects. Class names may
contain spaces: the numbers are taken from the right. Values are separated by any run of spaces or tabs, or by
``--sep``, in which case a class may end in a number (``route 66,10,20,30,40``). A byte order mark, CRLF,
blank lines, trailing spaces, ``.88``, ``1e-3`` and a missing final newline are accepted. Quotes around a
class are an error, because the format has no quotes.

What the four numbers mean
    ``--box ltrb`` (left top right bottom), ``ltwh`` (left top width height) or ``cxcywh`` (centre, width,
    height); ``--coords abs`` (pixels) or ``rel`` (fractions of the width and height of the image, which
    require image sizes: ``--image-size``, ``--images``, ``--image-sizes``). If these options are omitted:

    - if all values are in 0..1, they are ``rel``, and ``rel`` means ``cxcywh``;
    - pixels are ``ltrb`` if no row has right < left or bottom < top, and ``ltwh`` if at least one row in 20
      has (and three rows, or all of a small set). Anything in between is an error that gives both counts.

    The decision is made for the whole folder, in an evaluation for both sides together, and printed as a
    note.

Ground truth or detections
    The majority of the rows decides, or ``--kind``; rows of the other kind are errors. Confidences are in
    0..1.

Classes
    Words are class names. Whole numbers are names too, unless ``--classes FILE`` (one name per line, or a
    ``data.yaml``) gives their names. Class names are kept exactly, except for leading and trailing spaces.

Writing
    ``<class> <4 numbers>`` or ``<class> <confidence> <4 numbers>``, ltrb in pixels unless ``--box`` and
    ``--coords`` are given; numbers have the fewest digits that read back exactly. With ``--coords rel`` they
    have enough decimals to preserve pixels within 1e-6.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.codes import COORDINATES_DIFFER, NO_SIZE, SCORE_MISSING, SCORE_UNEXPECTED
from odm.files import Output, Source
from odm.formats._contract import LIKELY, POOR, Format, Sniff, option
from odm.formats._shared.class_lists import UNWRITABLE, add_list, read_list
from odm.formats._shared.codes import (
    COMMENTED,
    NOT_A_NUMBER,
    RELATIVE_RANGE,
    SCORE_RANGE,
    UNKNOWN_CLASS,
    WRONG_COUNT,
)
from odm.formats._shared.gather import At, Gather, decide_kind, own_folder, with_extension
from odm.formats._shared.number_text import Cells, decimal_cells, fixed_cells, short_wh
from odm.formats._shared.pictures import (
    FAR,
    LINKED_PICTURE,
    ImageOptions,
    are_far,
    relative_to_images,
)
from odm.formats._shared.text_tokens import (
    EMPTY,
    NON_FINITE,
    NUMBER,
    Chunk,
    Rows,
    check_number,
    chunks,
    every,
    explain_rows,
    lines_are,
    listing,
    pages,
    relative,
    report_others,
    sample,
    second_row,
)
from odm.issues import Code, Log, Trusted, plural, printable, shorten
from odm.names import BAD_CLASS_NAME, refuse_class, stem
from odm.tables import Builder, Dataset, Floats, Ints, Kind, distinct

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
    "If a data set seems to contain both relative coordinates and pixels, it is unclear which of them it "
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
DAMAGED = re.compile(r".*[ \t][+-]?\.?[0-9][^ \t]*")
PLAIN = re.compile(r"0|[1-9][0-9]*")
"""A class that is only a number."""
BOXES = ("ltrb", "ltwh", "cxcywh")

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


def parse_sep(text: str) -> str:
    r"""A separator: one or more characters, or ``tab``, ``comma``, ``semicolon``, ``pipe``, ``space``."""
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
    """What the four numbers mean, and how the values are separated."""

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
    decided: Decided | None = dataclasses.field(default=None, repr=False, compare=False)
    """What the source and the other side of an evaluation mean together; no option of the user."""


# ----------------------------------------------------------------------------------------------- sniffing


def sniff(source: Source) -> Sniff | None:
    """Class words or pixels in ``.txt`` files."""
    labels = _labels(source)
    if not labels or any(f.lower().endswith(".xml") for f in source.files):
        return None
    found = sample(source, labels)
    if not found.lines:
        return Sniff(
            LIKELY,
            f"the {found.files} .txt files looked at are empty"
            if found.files > 1
            else "its .txt file is empty",
        )
    if 2 * found.separated > found.lines:
        what = lines_are(found.separated, found.lines)
        return Sniff(LIKELY, f"{what} a class and numbers with separators")
    mine = found.named + found.pixels
    if mine < found.relative or not _numbers_follow(found.counts):
        return None
    what = f"{lines_are(found.rows, found.lines)} a class and numbers"
    if not found.rows:
        return Sniff(POOR, f"these are .txt files with numbers, although {what}")
    if found.named >= found.pixels:
        return Sniff(LIKELY, f"{what}, and the classes are words")
    return Sniff(LIKELY, f"{what} in pixels")


def _numbers_follow(counts: dict[int, int]) -> bool:
    """Whether most lines have at least two numbers: other text has not."""
    return 2 * sum(n for count, n in counts.items() if count >= 2) > sum(counts.values())


def _labels(source: Source) -> list[str]:
    if not source.is_dir:
        return [""] if source.path.lower().endswith(".txt") else []
    return listing(source).labels


# ------------------------------------------------------------------------------------------------ reading


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class ParsedRows:
    """All rows of one source, before anyone decided what the numbers mean."""

    source: Source
    log: Log
    files: list[str]
    names: list[str]
    name: Ints
    """(n,) row in `names`."""
    score: Floats
    """(n,) NaN where there is none."""
    box: Floats
    """(n, 4) the last four numbers."""
    file: Ints
    line: Ints
    lost: int
    """Rows that are faulty whatever the numbers mean; they are in `log`."""
    rows: Rows


def read(source: Source, builder: Builder, log: Log, options: TxtOptions) -> None:
    """Read a folder of text files, or one."""
    decided = options.decided or _decide([_parse(source, log, options)], log, options)[0]
    parsed, meaning = decided.parsed, decided.meaning
    log.extend(parsed.log)
    if source.is_dir:
        report_others(source, listing(source), log)
    builder.skipped += parsed.lost
    log.extend(decided.log)
    for reason in meaning.reasons:
        log.note(f"{printable(source.path)}: {reason}")
    where = parsed.rows
    good = _check_scores(parsed, where, builder, log)
    files = np.array([builder.file(source.full(f)) for f in parsed.files], np.int32)
    gather = Gather(source, builder, log, options, own_folder(source), ask_other="needed")
    images, sizes = _add_images(parsed, files, gather, needed=meaning.is_relative)
    good &= images[parsed.file] >= 0 if len(parsed.file) else good
    category, known = _add_categories(parsed, where, good, builder, log, options)
    good &= known
    good &= meaning.clear
    _report_comments(parsed, good, log)
    corners, wh = _corners(parsed.box, meaning.box)
    if meaning.is_relative:
        far = good & are_far(parsed.box)
        where.report(log, RELATIVE_RANGE, np.flatnonzero(far), _report_far)
        good &= ~far
        size = sizes[parsed.file]
        unknown = good & (size[:, 0] == 0)
        for file in distinct(parsed.file[unknown]).tolist():
            code = LINKED_PICTURE if source.picture_links else NO_SIZE
            log.report(code, source.full(parsed.files[file]), value=_image_name(source, parsed.files[file]))
        good &= ~unknown
        corners = corners * np.tile(size, 2)
        wh = wh * size if wh is not None else None
    builder.skipped += int(len(good) - good.sum())
    gather.add(
        image=images[parsed.file][good],
        category=category[good],
        xyxy=corners[good],
        wh=None if wh is None else wh[good],
        score=parsed.score[good],
        file=files[parsed.file][good] if len(files) else parsed.file,
        line=parsed.line[good],
    )
    gather.finish()


def _parse(source: Source, log: Log, options: TxtOptions) -> ParsedRows:
    """All rows of a source."""
    own = log.fresh()
    files = _labels(source) if source.is_dir else [""]
    if options.classes is not None:
        # The list of classes may lie among the labels under any name.
        listed = os.path.realpath(options.classes)
        files = [f for f in files if not f or os.path.realpath(source.full(f)) != listed]
    names = _Names(bool(options.sep))
    parts: list[tuple[Ints, Floats, Floats, Ints, Ints]] = []
    lost = 0
    for chunk in chunks(source, files, own, sep=options.sep or None):
        part, faulty = _rows(chunk, names)
        parts.append(part)
        explain_rows(chunk, faulty, source, files, own, functools.partial(_explain, sep=chunk.separated))
        lost += len(faulty)
    if not parts:
        none = np.zeros(0, np.int32)
        parts.append((none, np.zeros(0), np.zeros((0, 4)), none, none))
    name, score, box, file, line = (np.concatenate(column) for column in zip(*parts, strict=True))
    rows = Rows(source, files, file, line, options.sep or None)
    return ParsedRows(source, own, files, names.texts, name, score, box, file, line, lost, rows)


class _Names:
    """The distinct class names met so far, judged once each."""

    def __init__(self, separated: bool) -> None:
        self.texts: list[str] = []
        self.row: dict[bytes, int] = {}
        self._separated = separated

    def rows(self, found: list[bytes], chunk: Chunk) -> Ints:
        for name in dict.fromkeys(found):
            if name not in self.row:
                text = name_of(chunk.plain(name), self._separated)
                self.row[name] = -1 if text is None else len(self.texts)
                if text is not None:
                    self.texts.append(text)
        return np.array(list(map(self.row.__getitem__, found)), np.int32)


def name_of(name: bytes, separated: bool) -> str | None:
    """The text of a class name; None if it cannot be one."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return None
    if name == EMPTY or refuse_class(text) is not None or (len(text) > 1 and QUOTED.fullmatch(text)):
        return None
    return None if not separated and _too_many(name) else text


def _too_many(name: bytes) -> bool:
    """Whether a class name of several words holds values that belong to the numbers after it."""
    words = name.split()
    if len(words) < 2:
        return False
    if second_row(words, 4):
        return True
    last = words[-1]
    if NON_FINITE.fullmatch(last):
        return True
    return NUMBER.fullmatch(last) is not None and (
        not last.isdigit() or all(NUMBER.fullmatch(word) for word in words)
    )


def _rows(chunk: Chunk, names: _Names) -> tuple[tuple[Ints, Floats, Floats, Ints, Ints], NDArray[Any]]:
    """Name, score, box, file and line of the rows of a chunk that are sound, and which are not."""
    separated = chunk.separated
    enough = (chunk.count >= 5) & (chunk.count <= 6) if separated else chunk.count >= 5
    rows = np.flatnonzero(enough)
    count = chunk.count[rows]
    at = chunk.first[rows] + count - 4
    values, bad = chunk.numbers((at[:, None] + np.arange(4)).ravel())
    box = values.reshape(-1, 4)
    sound = every(np.isfinite(box))
    sound[bad // 4] = False
    scored = count >= 6
    if not separated:
        scored[scored] = chunk.looks_numeric(at[scored] - 1)
    score = np.full(len(rows), np.nan)
    candidates = np.flatnonzero(scored)
    score[candidates], bad = chunk.numbers(at[candidates] - 1)
    if separated:
        sound[candidates[bad]] = False
    else:
        scored[candidates[bad]] = False  # a word that only begins like a number
        score[candidates[bad]] = np.nan
    sound &= ~scored | np.isfinite(score)
    words = count - 4 - scored
    if bool((words == 1).all()):
        texts = chunk.pick(chunk.first[rows])
    else:
        mixed: NDArray[Any] = np.empty(len(rows), object)
        one = words == 1
        mixed[one] = chunk.pick(chunk.first[rows[one]])
        mixed[~one] = chunk.span(rows[~one], words[~one])
        texts = mixed.tolist()
    name = names.rows(texts, chunk)
    sound &= name >= 0
    kept = rows[sound]
    enough[rows[~sound]] = False
    faulty = np.flatnonzero(~enough)
    return (name[sound], score[sound], box[sound], chunk.file[kept], chunk.line[kept]), faulty


def _explain(cells: list[tuple[int, bytes]], path: str, line: int, log: Log, *, sep: bool) -> None:
    """Report what is wrong with one row: the slow twin of `_rows`."""
    expected = "a class and 4 numbers, or a class, a confidence and 4 numbers"
    n = len(cells)
    if n < 5 or (sep and n > 6):
        found = plural(n, "value")
        if n == 1 and not sep:
            for mark in (",", ";", "|"):
                if cells[0][1].count(mark.encode()) >= 4:
                    found += f" (if the columns are separated by {mark!r}, say --sep {mark!r})"
                    break
        log.report(WRONG_COUNT, path, line=line, column=cells[0][0], expected=expected, found=found)
        return
    fields = ("score", *BOX_FIELDS)[-(n - 1) :] if sep else BOX_FIELDS
    for field, cell in zip(fields, cells[-len(fields) :], strict=True):
        if not check_number(cell, log, path, line, field):
            return
    scored = n >= 6 and NUMBER.fullmatch(cells[-5][1]) is not None
    if scored and not check_number(cells[-5], log, path, line, "score"):
        return
    words = cells[: n - 4 - scored]
    text = b" ".join(word for _, word in words)
    if not sep and _too_many(text):
        if NON_FINITE.fullmatch(words[-1][1]):
            check_number(words[-1], log, path, line, "score")
            return
        found = f"{sum(NUMBER.fullmatch(word) is not None for _, word in cells)} numbers"
        at = second_row([word for _, word in words], 4)
        if at:
            found = (
                f"a second row in the same line, from {shorten(words[at][1])!r} on (was a line break lost?)"
            )
        column = words[at or -1][0]
        log.report(WRONG_COUNT, path, line=line, column=column, expected=expected, found=Trusted(found))
        return
    try:
        name = text.decode()
    except UnicodeDecodeError:
        return  # the file's encoding has been reported
    reason = refuse_class(name) or "this format has no quotes; write the name without them"
    log.report(BAD_CLASS_NAME, path, line=line, column=words[0][0], field="class", value=name, reason=reason)


BOX_FIELDS = ("box[0]", "box[1]", "box[2]", "box[3]")


@dataclasses.dataclass(frozen=True, slots=True)
class Meaning:
    """What the four numbers mean, and why."""

    is_relative: bool
    box: str
    reasons: tuple[str, ...] = ()
    clear: bool = True
    """False where it could not be decided; the issue is in the log, and no box can be made."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Decided:
    """The rows of a source, what they mean, and the issues of deciding that."""

    parsed: ParsedRows
    meaning: Meaning
    log: Log


def _decide(sides: list[ParsedRows], log: Log, options: TxtOptions) -> list[Decided]:
    """What the numbers of all sides mean; the first side's log gets the issues."""
    own = log.fresh()
    meaning = _find_meaning(sides, own, options)
    return [Decided(side, meaning, own if side is sides[0] else log.fresh()) for side in sides]


def decide_together(
    source: Source, other: Source, log: Log, options: TxtOptions
) -> tuple[TxtOptions, TxtOptions]:
    """The options for two sides of an evaluation, which are usually written by one tool."""
    both = _decide([_parse(source, log, options), _parse(other, log, options)], log, options)
    one, two = (dataclasses.replace(options, decided=decided) for decided in both)
    return one, two


SURE_ALONE = 20
"""Boxes of which one at least would be inverted, most likely, if they were widths and heights."""


def _find_meaning(sides: list[ParsedRows], log: Log, options: TxtOptions) -> Meaning:
    n = sum(len(side.box) for side in sides)
    together = " (both sides together)" if sum(len(side.box) > 0 for side in sides) > 1 else ""
    reasons: list[str] = []
    is_relative = options.coords == "rel"
    if options.coords is None:
        decided = _find_coords(sides, log)
        if decided is None:
            return Meaning(is_relative=False, box="ltrb", clear=False)
        is_relative = decided
        if is_relative:
            boxes = "the one box is" if n == 1 else f"all {n} boxes are"
            reasons.append(
                f"{boxes} in 0..1{together}, so coordinates are read as relative (otherwise use --coords abs)"
            )
    if options.box is not None:
        return Meaning(is_relative, options.box, tuple(reasons))
    if is_relative:
        reasons.append("relative boxes are read as centre, width and height (otherwise use --box)")
        return Meaning(is_relative=True, box="cxcywh", reasons=tuple(reasons))
    inverted = [np.flatnonzero((s.box[:, 2] < s.box[:, 0]) | (s.box[:, 3] < s.box[:, 1])) for s in sides]
    k = sum(map(len, inverted))
    if k == 0:
        because = "its one box is not" if n == 1 else f"none of {n} boxes is"
        because += f" inverted that way{together}"
        return Meaning(
            is_relative=False,
            box="ltrb",
            reasons=(f"read as ltrb, because {because} (otherwise use --box)",) if n else (),
        )
    if 20 * k >= n and (k >= 3 or k == n):
        because = f"{k} of {n} boxes would be inverted as ltrb{together}"
        for side, rows in zip(sides, inverted, strict=True):
            if not len(rows) and len(side.box) >= SURE_ALONE:
                (other,) = (s for s in sides if s is not side)
                path, m = other.source.path, len(other.box)
                log.report(LAYOUTS_MAY_DIFFER, side.source.path, n=len(side.box), inverted=k, m=m, other=path)
        return Meaning(
            is_relative=False, box="ltwh", reasons=(f"read as ltwh, because {because} (otherwise use --box)",)
        )
    for side, rows in zip(sides, inverted, strict=True):
        if len(rows):
            side.rows.report(log, LAYOUT_UNCLEAR, rows[:1], lambda _: {"inverted": k, "n": n})
            break
    return Meaning(is_relative=False, box="ltrb", clear=False)


def _find_coords(sides: list[ParsedRows], log: Log) -> bool | None:
    """Whether coordinates are relative; None, and an issue, if it is unclear."""
    sides = [side for side in sides if len(side.box)]
    if not sides:
        return False
    outside = [np.flatnonzero(~every((s.box >= 0) & (s.box <= 1))) for s in sides]
    if not any(map(len, outside)):
        return True
    for side, rows in zip(sides, outside, strict=True):
        # Fractions in 0..1 are the sign of relative coordinates; whole numbers there may be tiny boxes.
        whole = every(side.box == np.rint(side.box))
        if not len(rows) and not whole.all():
            other = next(s for s, o in zip(sides, outside, strict=True) if len(o))
            log.report(
                COORDINATES_DIFFER,
                side.source.path,
                relative="all boxes here",
                small="",
                absolute=f"those of {other.source.path!r}",
                large="",
            )
            return None
        clear = ~whole
        clear[rows] = False
        small = bool((np.abs(side.box) <= FAR).all()) and not whole.all()
        if len(rows) and (small or 2 * int(clear.sum()) > len(side.box)):
            found = {"inside": len(side.box) - len(rows), "outside": len(rows)}
            side.rows.report(log, COORDS_UNCLEAR, rows[:1], lambda _, found=found: found)  # type: ignore[misc]
            return None
    return False


def _check_scores(parsed: ParsedRows, where: Rows, builder: Builder, log: Log) -> NDArray[np.bool_]:
    """Decide on the kind, and report rows of the other one and scores outside 0..1; which rows are good."""
    scored = ~np.isnan(parsed.score)
    if not decide_kind(builder, int(scored.sum()), len(scored)):
        unlike = scored & (parsed.score >= 0) & (parsed.score <= 1)
        where.report(log, SCORE_UNEXPECTED, np.flatnonzero(unlike), _report_score)
        where.report(log, WRONG_COUNT, np.flatnonzero(scored & ~unlike), _report_extra)
        return ~scored
    # A value such as 0,9 or 1_0 before the box is a word to the grammar, and a damaged score to the user.
    damaged = np.array([DAMAGED.fullmatch(name) is not None for name in parsed.names] or [False])
    damaged_rows = ~scored & damaged[parsed.name]
    where.report(log, NOT_A_NUMBER, np.flatnonzero(damaged_rows), _report_score)
    where.report(log, SCORE_MISSING, np.flatnonzero(~scored & ~damaged_rows), lambda _: {})
    outside = scored & ~((parsed.score >= 0) & (parsed.score <= 1))
    where.report(log, SCORE_RANGE, np.flatnonzero(outside), _report_score)
    return scored & ~outside


def _report_score(cells: list[tuple[int, bytes]]) -> dict[str, Any]:
    column, value = cells[-5] if len(cells) >= 5 else (0, b"")
    return {"column": column, "field": "score", "value": value}


def _report_extra(cells: list[tuple[int, bytes]]) -> dict[str, Any]:
    column, value = cells[-5] if len(cells) >= 5 else (0, b"")
    way = f"if {shorten(value)} is part of the class name, separate the columns by tabs and use --sep tab"
    return {"column": column, "expected": "a class and 4 numbers", "found": f"5 numbers ({way})"}


def _report_far(cells: list[tuple[int, bytes]]) -> dict[str, Any]:
    for i, (column, value) in enumerate(cells[-4:]):
        if NUMBER.fullmatch(value) and not 1 - FAR <= float(value) <= FAR:
            return {"column": column, "field": BOX_FIELDS[i], "value": value}
    return {"value": b""}


def _image_name(source: Source, file: str) -> str:
    name = file or source.path.replace("\\", "/").rsplit("/", 1)[-1]
    return name[:-4] if name.lower().endswith(".txt") else name


def _add_images(
    parsed: ParsedRows, files: Ints, gather: Gather, *, needed: bool
) -> tuple[Ints, NDArray[Any]]:
    """The image row of each file (-1 = refused), and the (n, 2) sizes, 0 where unknown."""
    source = parsed.source
    mask = np.zeros(len(parsed.files), bool)
    mask[parsed.file] = needed
    used, numbers = mask.tolist(), files.tolist()
    rows = np.full(len(parsed.files), -1, np.int32)
    sizes = np.zeros((len(parsed.files), 2), np.int64)
    for i, (file, number) in enumerate(zip(parsed.files, numbers, strict=True)):
        key, at = _image_name(source, file), At(source.full(file))
        picture = gather.picture(key, at)
        name = with_extension(key, picture)
        row = gather.image(name, at, picture=picture, needed=used[i], file=number)
        if row is not None:
            rows[i] = row
            if gather.asks or used[i]:
                sizes[i] = gather.builder.image_size(row)
    return rows, sizes


def _add_categories(
    parsed: ParsedRows, where: Rows, good: NDArray[np.bool_], builder: Builder, log: Log, options: TxtOptions
) -> tuple[Ints, NDArray[np.bool_]]:
    """The category row of each box, and which boxes have one."""
    used = distinct(parsed.name[good])
    texts = [parsed.names[i] for i in used.tolist()]
    table = np.full(len(parsed.names) + 1, -1, np.int32)
    if options.classes is not None:
        source = Source(options.classes, follow_links=True)
        names = read_list(source, "", log)
        if names is None:
            return np.zeros(len(parsed.name), np.int32), np.zeros(len(parsed.name), bool)
        listed = add_list(names, builder, log, options.classes)
        for i, text in zip(used.tolist(), texts, strict=True):
            if re.fullmatch(r"[0-9]+(\.0*)?", text) and (PLAIN.fullmatch(text) or text not in names):
                number = text.split(".")[0]
                table[i] = listed[int(number)] if len(number) < 10 and int(number) < len(listed) else -1
            else:
                table[i] = builder.category(text)
        column = table[parsed.name]
        unknown = good & (column < 0)
        where.report(
            log,
            UNKNOWN_CLASS,
            np.flatnonzero(unknown),
            lambda cells: {
                "column": cells[0][0] if cells else 0,
                "field": "class",
                "value": cells[0][1] if cells else b"",
                "n": len(listed),
                "where": options.classes,
            },
        )
        return column, column >= 0
    numbers = bool(texts) and all(PLAIN.fullmatch(text) and len(text) < 19 for text in texts)
    pairs = list(zip(texts, used.tolist(), strict=True))
    if numbers:
        pairs.sort(key=lambda pair: int(pair[0]))
    for text, i in pairs:
        table[i] = builder.category(text, source_id=int(text) if numbers else None)
    if numbers:
        builder.named = False
        log.note(
            f"{printable(where.source.path)}: there are no class names, only numbers, which are used as "
            "names (--classes FILE gives the names)"
        )
    return table[parsed.name], np.ones(len(parsed.name), bool)


def _report_comments(parsed: ParsedRows, good: NDArray[np.bool_], log: Log) -> None:
    """Say which classes look like rows that somebody commented out."""
    for i, name in enumerate(parsed.names):
        if name.startswith("#"):
            rows = np.flatnonzero(good & (parsed.name == i))
            n = len(rows)
            what = "a class" if n == 1 else f"a class of {n} boxes; this is the first"
            values = {"field": "class", "value": name, "what": Trusted(what)}
            parsed.rows.report(
                log,
                COMMENTED,
                rows[:1],
                lambda cells, v=values: {"column": cells[0][0], **v},  # type: ignore[misc]
            )


def _corners(box: Floats, layout: str) -> tuple[Floats, Floats | None]:
    """Left, top, right and bottom of (n, 4) numbers, and the width and height where they are given."""
    if layout == "ltrb":
        return box, None
    wh = box[:, 2:]
    low = box[:, :2] if layout == "ltwh" else box[:, :2] - wh / 2
    high = box[:, :2] + (wh if layout == "ltwh" else wh / 2)
    return np.concatenate([low, high], axis=1), wh


# ------------------------------------------------------------------------------------------------ writing


def write(dataset: Dataset, target: Output, log: Log, options: TxtOptions) -> None:
    """Write one text file per image."""
    names = [f"{stem(name)}.txt" for name in dataset.images.name]
    fits = target.plan(names, dataset.images.name, log)
    is_relative = options.coords == "rel"
    box = options.box or ("cxcywh" if is_relative else "ltrb")
    boxes = dataset.boxes
    used = distinct(boxes.category).tolist() if len(boxes) else []
    for row in used:
        refused = _unwritable(dataset.categories.name[row], options.sep, dataset.kind)
        if refused is not None:
            reason, way = refused
            log.report(UNWRITABLE, "", value=dataset.categories.name[row], reason=reason, way=way)
            fits = False
    pixels = _numbers(dataset, box, is_relative)
    values = relative_to_images(dataset, pixels, log) if is_relative else pixels
    if not fits or values is None:
        return
    if is_relative:
        cells = relative(values, dataset.images.width[boxes.image], dataset.images.height[boxes.image])
    else:  # a centre is computed, so it carries rounding: nine decimals hide it
        cells = fixed_cells(values.ravel(), 9) if box == "cxcywh" else decimal_cells(values.ravel())
    columns: list[Sequence[str] | Cells] = [[dataset.categories.name[c] for c in boxes.category.tolist()]]
    if dataset.kind == "det":
        columns.append(decimal_cells(boxes.score))
    columns += [cells[i::4] for i in range(4)]
    written = pages(len(names), boxes.image, columns, options.sep or " ")
    for name, data in zip(log.track(names, "writing"), written, strict=True):
        target.write(name, data)


def _numbers(dataset: Dataset, box: str, is_relative: bool) -> Floats:
    """(n, 4) numbers in pixels, in the layout that is written."""
    boxes = dataset.boxes
    xyxy = boxes.xyxy
    if box == "ltrb":
        return xyxy
    wh = short_wh(boxes) if box == "ltwh" and not is_relative else boxes.wh
    first = xyxy[:, :2] if box == "ltwh" else (xyxy[:, :2] + xyxy[:, 2:]) / 2
    return np.concatenate([first, wh], axis=1)


def _unwritable(name: str, sep: str, kind: Kind) -> tuple[str, str] | None:
    """Why a class name would not be read back, and the way out; None if it would."""
    reason = refuse_class(name)
    if reason is not None:
        return reason, "rename the class"
    if len(name) > 1 and QUOTED.fullmatch(name):
        return "this format has no quotes", "rename the class"
    if name != name.strip(" \t"):
        return "leading and trailing spaces are lost", "rename the class"
    if sep:
        return ("it contains the separator", "use another --sep") if sep in name else None
    words = name.encode().split(b" ")
    if name_of(name.encode(), separated=False) is None or (
        kind == "gt" and len(words) > 1 and NUMBER.fullmatch(words[-1])
    ):
        return (
            "numbers in it would be read as coordinates",
            "use --sep tab, or rename the class",
        )
    return None


FORMAT = Format(
    name="txt",
    title="Plain text, one file per image",
    use="results",
    written_by="the object-detection-metrics tools (Cartucho mAP, Padilla), one file per image",
    doc=__doc__ or "",
    suffixes=(".txt",),
    single=False,
    sniff=sniff,
    read=read,
    decide_together=decide_together,
    write=write,
    options=TxtOptions,
    keeps=frozenset({"score", "empty"}),
)
