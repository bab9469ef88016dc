"""The rows of YOLO label files: boxes and outlines, and which column is the confidence."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.codes import NUMBERED_CLASSES, SCORE_MISSING, SCORE_UNEXPECTED
from odm.files import Source
from odm.formats._shared.class_lists import add_list
from odm.formats._shared.codes import OUTLINES, RELATIVE_RANGE, SCORE_RANGE, UNKNOWN_CLASS, WRONG_COUNT
from odm.formats._shared.gather import decide_kind
from odm.formats._shared.pictures import FAR, are_far
from odm.formats._shared.text_tokens import Chunk, Rows, check_number, chunks, every, explain_rows, floats
from odm.formats.yolo.layouts import Plan, YoloOptions
from odm.issues import Code, Log, Trusted, first_few, plural, printable
from odm.tables import NO_ID, Builder, Floats, Ints, Longs

BAD_ID = Code(
    "yolo-class-id",
    "error",
    "expected a class number, found {value!r}",
    "write the position of the class in the list of names, from 0",
    "The first value of a row is the class id, a whole number from 0.",
    row=True,
)
_SLACK = 0.01
"""How far a plausible box may leave the image."""
_WHOLE = re.compile(rb"\+?[0-9]{1,18}(?:\.0*)?")
_BOX_FIELDS = ("cx", "cy", "w", "h")
_FILES = 50
"""Files in which columns after the box are looked for."""
_ROWS = 3
"""Rows that hardly happen to be alike."""
_NEAR = 0.05
"""By how much of the box's size a visible point may lie outside it."""


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class ParsedRows:
    """All rows, before anyone decided which column is the confidence."""

    id: Longs
    columns: Floats
    """(n, 5) what follows the id, NaN where a row has four; of an outline its left, top, right, bottom and
    confidence."""
    outline: NDArray[np.bool_]
    far: NDArray[np.bool_]
    """Of outlines, whether a coordinate is far beyond 1."""
    count: Ints
    """(n,) how many values the row has."""
    joined: NDArray[np.bool_]
    """(n, 2) whether the values may be several rows of five, or of six, whose line breaks were lost."""
    track: Longs
    """(n,) the id of the track, `NO_ID` where the row has none; (0,) where no row has one."""
    file: Ints
    line: Ints
    lost: int
    second: bool = False


def parse_rows(source: Source, files: list[str], log: Log, plan: Plan) -> ParsedRows:
    """Read all rows of these label files; faulty ones are reported."""
    parts: list[tuple[NDArray[Any], ...]] = []
    lost = 0
    for chunk in chunks(source, files, log):
        part, faulty = _rows(chunk, plan.key_points, plan.tracks)
        parts.append(part)
        lost += len(faulty)
        explain_rows(chunk, faulty, source, files, log, _explain)
    if not parts:
        none = np.zeros(0, np.int32)
        flags = np.zeros(0, bool)
        joined = np.zeros((0, 2), bool)
        longs = none.astype(np.int64)
        parts.append((longs, np.zeros((0, 5)), flags, flags, none, joined, longs, none, none))
    columns: list[Any] = [*map(np.concatenate, zip(*parts, strict=True)), lost]
    return ParsedRows(*columns)


def _rows(
    chunk: Chunk, key_points: int, tracks: frozenset[int]
) -> tuple[tuple[NDArray[Any], ...], NDArray[Any]]:
    """The sound rows of a chunk, column by column, and which rows are not sound."""
    count, n = chunk.count, len(chunk)
    track = np.zeros(0, np.int64)
    if tracks:
        track = _tracks(chunk, key_points, tracks)
        count = count - (track != NO_ID)
    sound = count >= 5
    first = np.full(n, np.nan)
    columns = np.full((n, 5), np.nan)
    outline = np.zeros(n, bool)
    far = np.zeros(n, bool)
    joined = np.zeros((n, 2), bool)
    boxes = np.zeros(n, bool)
    for size in dict.fromkeys((5, 6, 5 + key_points, 6 + key_points)):
        rows = np.flatnonzero(count == size)
        if not len(rows):
            continue
        boxes[rows] = True
        used = np.arange(5) if size in {5, 5 + key_points} else np.array([0, 1, 2, 3, 4, size - 1])
        values, bad = chunk.numbers((chunk.first[rows, None] + used).ravel())
        table = values.reshape(len(rows), len(used))
        first[rows] = table[:, 0]
        columns[rows, : len(used) - 1] = table[:, 1:]
        finite = every(np.isfinite(table[:, 1:5]))
        if len(used) == 6:
            finite &= np.isfinite(table[:, 5])
        finite[bad // len(used)] = False
        sound[rows] = finite
    rest = np.flatnonzero(~boxes & sound)
    first[rest], bad = chunk.numbers(chunk.first[rest])
    sound[rest[bad]] = False
    with np.errstate(invalid="ignore"):
        sound &= (first >= 0) & (first < 2.0**53) & (first == np.rint(first)) & ~np.signbit(first)
    rest = np.flatnonzero(~boxes & sound)
    if len(rest):
        outline[rest] = True
        sound[rest], far[rest], columns[rest], joined[rest] = _outlines(chunk, rest, count[rest])
    kept = np.flatnonzero(sound)
    ids = first[kept].astype(np.int64)
    found = (ids, columns[kept], outline[kept], far[kept], count[kept].astype(np.int32), joined[kept])
    ends = track[kept] if tracks else track, chunk.file[kept], chunk.line[kept]
    return (*found, *ends), np.flatnonzero(~sound)


def _tracks(chunk: Chunk, key_points: int, tracks: frozenset[int]) -> Longs:
    """(n,) the id of the track that ends a row, `NO_ID` where the row has none."""
    found = np.full(len(chunk), NO_ID)
    extra = chunk.count - 5 - key_points
    rows = np.flatnonzero((extra > 0) & np.isin(extra % 2, list(tracks)))
    last, bad = chunk.numbers(chunk.first[rows] + chunk.count[rows] - 1)
    with np.errstate(invalid="ignore"):
        is_id = (last >= 1) & (last < 2.0**53) & (last == np.rint(last))
    is_id[bad] = False
    found[rows[is_id]] = last[is_id].astype(np.int64)
    return found


def _outlines(
    chunk: Chunk, rows: NDArray[Any], count: NDArray[Any]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Floats, NDArray[np.bool_]]:
    """Of rows with a `count` of 1 + 2n or 2 + 2n values: whether they are sound, whether a coordinate is far
    beyond 1, left, top, right, bottom and confidence, and whether they may be joined rows of boxes.
    """
    count = count - 1
    begin = np.cumsum(count) - count
    where = np.repeat(chunk.first[rows] + 1 - begin, count) + np.arange(int(count.sum()))
    values, bad = chunk.numbers(where)
    values[bad] = np.nan
    owner = np.repeat(np.arange(len(rows)), count)
    sound = np.ones(len(rows), bool)
    sound[owner[~np.isfinite(values)]] = False
    location = np.arange(len(values)) - begin[owner]
    has_score = count % 2 == 1
    is_score = has_score[owner] & (location == count[owner] - 1)
    columns = np.full((len(rows), 5), np.nan)
    columns[has_score, 4] = values[is_score]
    joined = np.zeros((len(rows), 2), bool)
    whole = values == np.rint(values)
    for k, size in enumerate((5, 6)):  # the first value of each row in the line would be an id
        joined[:, k] = (count + 1) % size == 0
        joined[owner[((location + 1) % size == 0) & ~whole], k] = False
    values = np.where(np.isfinite(values), values, 0)
    coordinates = values[~is_score]
    length = count - has_score
    starts = np.cumsum(length) - length
    xs, ys = coordinates[0::2], coordinates[1::2]  # every length is even
    columns[:, 0], columns[:, 2] = np.minimum.reduceat(xs, starts // 2), np.maximum.reduceat(xs, starts // 2)
    columns[:, 1], columns[:, 3] = np.minimum.reduceat(ys, starts // 2), np.maximum.reduceat(ys, starts // 2)
    return sound, are_far(columns[:, :4]), columns, joined


def _explain(cells: list[tuple[int, bytes]], path: str, line: int, log: Log) -> None:
    """Report what is wrong with a row that `_rows` refuses, by the same rules."""
    column, value = cells[0]
    if len(cells) < 5:
        expected = "a class id and 4 numbers, optionally followed by a confidence"
        found = plural(len(cells), "value")
        log.report(WRONG_COUNT, path, line=line, column=column, expected=expected, found=found)
        return
    if not _WHOLE.fullmatch(value) or float(value) >= 2.0**53:
        log.report(BAD_ID, path, line=line, column=column, field="class", value=value)
        return
    for i, cell in enumerate(cells[1:]):
        field = _BOX_FIELDS[i] if len(cells) == 5 else f"value {i + 2}"
        if not check_number(cell, log, path, line, field):
            return


def choose_columns(
    parsed: ParsedRows, where: Rows, builder: Builder, log: Log, options: YoloOptions
) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """Decide on the kind and on the column of the confidence: which rows are good, their boxes and scores."""
    scored = ~np.isnan(parsed.columns[:, 4])
    is_det = decide_kind(builder, int(scored.sum()), len(scored))
    box, score = parsed.columns[:, :4], np.array(parsed.columns[:, 4])
    joined = _joined(parsed, 6 if is_det else 5)
    if not is_det:
        odd = scored & parsed.outline & ~joined
        where.report(log, WRONG_COUNT, np.flatnonzero(joined), lambda cells: _report_joined(cells, 5))
        where.report(log, WRONG_COUNT, np.flatnonzero(odd), _report_odd)
        unlike = scored & ~odd & ~joined
        where.report(log, SCORE_UNEXPECTED, np.flatnonzero(unlike), lambda cells: _report(cells, -1))
        return ~scored & ~joined, box, score
    six = np.flatnonzero(scored & ~parsed.outline & (parsed.count == 6))
    parsed.second = _is_second(parsed, where, six, log, options)
    if parsed.second:
        box = box.copy()
        box[six] = parsed.columns[six, 1:]
        score[six] = parsed.columns[six, 0]
    where.report(log, WRONG_COUNT, np.flatnonzero(joined), lambda cells: _report_joined(cells, 6))
    where.report(log, SCORE_MISSING, np.flatnonzero(~scored & ~joined), lambda _: {})
    outside = scored & ~joined & ~((score >= 0) & (score <= 1))
    at = 1 if parsed.second else -1
    where.report(log, SCORE_RANGE, np.flatnonzero(outside), lambda cells: _report(cells, at))
    return scored & ~joined & ~outside, box, score


def _joined(parsed: ParsedRows, size: int) -> NDArray[np.bool_]:
    """Which rows are several of this size in one line: they would be outlines, and the others are boxes."""
    found = parsed.outline & parsed.joined[:, size - 5]
    if (parsed.outline & ~found).any() or parsed.outline.all():
        return np.zeros(len(found), bool)
    return found


def _report_joined(cells: list[tuple[int, bytes]], size: int) -> dict[str, Any]:
    n = len(cells) // size
    expected = "a class id and 4 numbers" + (", and a confidence" if size == 6 else "")
    found = f"{len(cells)} values, as of {n} rows (was a line break lost?)"
    return {
        "column": cells[size][0] if len(cells) > size else 0,
        "expected": expected,
        "found": Trusted(found),
    }


def _is_second(parsed: ParsedRows, where: Rows, six: NDArray[Any], log: Log, options: YoloOptions) -> bool:
    """Whether the confidence is the second column."""
    if options.conf_column is not None or not len(six):
        return options.conf_column == "second"
    values = parsed.columns[six]
    last = int((_fits(values[:, :4]) & _in_range(values[:, 4])).sum())
    second = int((_fits(values[:, 1:]) & _in_range(values[:, 0])).sum())
    shown = printable(where.source.path)
    n = len(six)
    if last == second == n:
        row = [f"{v:.6g}" for v in values[0].tolist()]
        log.note(
            f"{shown}: the confidence is read from the last column, although the second is also possible. "
            f"The first row is read as confidence {row[4]} and box {' '.join(row[:4])}, not as "
            f"confidence {row[0]} and box {' '.join(row[1:])} (otherwise use --conf-column second)"
        )
        return False
    is_second = second > last
    column, fits, others = ("second", second, last) if is_second else ("last", last, second)
    log.note(
        f"{shown}: the confidence is read from the {column} column, because {fits} of {n} rows are "
        f"plausible that way and {others} the other way (otherwise use --conf-column)"
    )
    return is_second


def _in_range(values: Floats) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (values >= 0) & (values <= 1)
    return inside


def _fits(box: Floats) -> NDArray[np.bool_]:
    """Which (n, 4) relative boxes are plausible: of some size, and within the image."""
    half = box[:, 2:] / 2
    inside = (box[:, :2] - half >= -_SLACK) & (box[:, :2] + half <= 1 + _SLACK) & (half >= 0)
    return np.array(inside.all(axis=1))


def _report(cells: list[tuple[int, bytes]], at: int) -> dict[str, Any]:
    column, value = cells[at] if len(cells) > abs(at) else (0, b"")
    return {"column": column, "field": "score", "value": value}


def _report_odd(cells: list[tuple[int, bytes]]) -> dict[str, Any]:
    expected = "a class id and 4 numbers, or pairs of coordinates"
    return {"expected": expected, "found": f"{len(cells)} values"}


def refuse_far(
    parsed: ParsedRows, where: Rows, good: NDArray[np.bool_], box: Floats, log: Log
) -> NDArray[np.bool_]:
    """Which of the good rows lie where relative coordinates can be; the others are reported."""
    far = good & are_far(box)
    if parsed.outline.any():
        far = np.where(parsed.outline, good & parsed.far, far)
    second = parsed.second
    where.report(log, RELATIVE_RANGE, np.flatnonzero(far), lambda cells: _report_far(cells, second=second))
    return good & ~far


def _report_far(cells: list[tuple[int, bytes]], *, second: bool) -> dict[str, Any]:
    values = cells[2:6] if second and len(cells) == 6 else cells[1:]
    for i, (column, value) in enumerate(values):
        if not 1 - FAR <= float(value) <= FAR:
            return {"column": column, "field": _BOX_FIELDS[i] if len(cells) <= 6 else "", "value": value}
    return {"value": b""}


def corners_of(box: Floats, outline: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Relative left, top, right, bottom, and width and height."""
    wh = box[:, 2:].copy()
    corners = np.concatenate([box[:, :2] - wh / 2, box[:, :2] + wh / 2], axis=1)
    if outline.any():
        corners[outline] = box[outline]
        wh[outline] = box[outline, 2:] - box[outline, :2]
    return corners, wh


def add_categories(
    parsed: ParsedRows, where: Rows, good: NDArray[np.bool_], plan: Plan, builder: Builder, log: Log
) -> tuple[Ints, NDArray[np.bool_]]:
    """The category row of each box, and which boxes have one."""
    hint = ""
    if plan.names_above is not None:
        path, names = plan.names_above
        if not good.any() or int(parsed.id[good].max()) < len(names):
            plan.names_from, plan.names = plan.names_above
            log.note(f"{printable(plan.source.path)}: class names are from {printable(path)}")
        else:
            hint = f" ({printable(path)} has fewer names)"
    if plan.names is not None:
        names_from = plan.names_from
        rows = np.array(add_list(plan.names, builder, log, names_from), np.int32)
        if (
            rows[:1] < 0
            and good.any()
            and not parsed.id[good].min()
            and parsed.id[good].max() < len(plan.names)
        ):
            log.note(
                f"{printable(names_from)}: names count from 1 and the classes of labels from 0, so the "
                "names are taken in their order"
            )
            rows = rows[1:]
        known = parsed.id < len(rows)
        known[known] = rows[parsed.id[known]] >= 0
        where.report(
            log,
            UNKNOWN_CLASS,
            np.flatnonzero(good & ~known),
            lambda cells: {
                "column": cells[0][0] if cells else 0,
                "field": "class",
                "value": cells[0][1] if cells else b"",
                "n": len(rows),
                "where": names_from,
            },
        )
        return rows[np.where(known, parsed.id, 0)], known
    ids = np.unique(parsed.id[good])
    builder.named = False
    for number in ids.tolist():
        builder.category(str(number), source_id=number)
    if len(ids) and plan.sound:
        shown = first_few(ids, 10)
        log.report(NUMBERED_CLASSES, plan.source.path, value=shown, near=Trusted(hint))
    return np.searchsorted(ids, parsed.id).astype(np.int32), np.ones(len(parsed.id), bool)


def report_outlines(
    parsed: ParsedRows, where: Rows, good: NDArray[np.bool_], builder: Builder, log: Log
) -> None:
    """Say how many rows were more than boxes, and count them."""
    outlines = np.flatnonzero(good & parsed.outline)
    if not len(outlines):
        return
    rotated = int(((parsed.count[outlines] == 9) | (parsed.count[outlines] == 10)).sum())
    if rotated:
        builder.extras["rotation"] = rotated
    if rotated < len(outlines):
        builder.extras["segmentation"] = len(outlines) - rotated
    plain = "polygons"
    if not rotated and may_be_points(where.source, list(where.files)):
        plain = "polygons (if they are boxes with key points, set kpt_shape in data.yaml)"
    what = plain if not rotated else "rotated boxes" if rotated == len(outlines) else "outlines"
    values = {"n": len(outlines), "total": int(good.sum()), "what": Trusted(what)}
    where.report(log, OUTLINES, outlines[:1], lambda _: values)


# ------------------------------------------------------------------- what the first files show


def find_tracks(source: Source, files: list[str], after_box: int, *, is_det: bool) -> frozenset[int]:
    """Which rows end in the id of a track, as `yolo track` writes them, from what the first files show.

    1 stands for rows with an odd number of values after the box and its `after_box` key points: an id, where
    others have a confidence. 0 stands for those with an even number: a confidence and an id, where others
    have the corners of an outline. An id is a whole number from 1, and no file has one twice. More than
    half of all rows have one.
    """
    found: dict[int, list[tuple[str, list[float]]]] = {0: [], 1: []}
    total = 0
    for file, row in _sampled(source, files):
        total += 1
        extra = len(row) - 5 - after_box
        if extra > 0:
            found[extra % 2].append((file, row))
    found = {kind: rows for kind, rows in found.items() if rows and _are_tracks(rows, kind, is_det=is_det)}
    return frozenset(found if 2 * sum(map(len, found.values())) > total else ())


def _are_tracks(rows: list[tuple[str, list[float]]], kind: int, *, is_det: bool) -> bool:
    ids = {(file, row[-1]) for file, row in rows}
    if len(ids) < len(rows) or not all(last >= 1 and last % 1 == 0 for _, last in ids):
        return False
    if any(last > 1 for _, last in ids):
        return kind == 1 or all(0 <= row[-2] <= 1 for _, row in rows)
    # One object in every file, or a confidence of 1, or an outline that ends at the edge of the image.
    if kind == 1:
        return not is_det and len(rows) > 1
    return all(len(row) == 7 and 0 <= row[5] <= 1 for _, row in rows) and all(
        abs(row[k] - 0.5) + row[k + 2] / 2 <= 0.5 + _NEAR for _, row in rows for k in (1, 2)
    )


def find_key_points(source: Source, files: list[str]) -> int:
    """How many numbers follow the box in rows with key points, 0 where the first files show no such rows.

    All rows must have the same length, every third number must be 0, 1 or 2, and each box must hold the
    points that are visible: a polygon has no such rows.
    """
    table = _table(source, files)
    if table is None or table.shape[1] < 8 or (table.shape[1] - 5) % 3:
        return 0
    box, points = table[:, 1:5], table[:, 5:].reshape(len(table), -1, 3)
    visible = points[:, :, 2] > 0
    if not (np.isin(points[:, :, 2], (0, 1, 2)).all() and visible.any()):
        return 0
    return table.shape[1] - 5 if _contains(box, points)[visible].all() else 0


def may_be_points(source: Source, files: list[str]) -> bool:
    """Whether rows read as polygons may be boxes with key points of two numbers each.

    Several rows must have the same length, and each box must hold all of its points. The four corners of a
    rotated box may look so too.
    """
    table = _table(source, files)
    if table is None or len(table) < _ROWS or table.shape[1] < 7 or table.shape[1] in (8, 9, 10):
        return False
    if (table.shape[1] - 5) % 2:
        return False
    return bool(_contains(table[:, 1:5], table[:, 5:].reshape(len(table), -1, 2)).all())


def _contains(box: Floats, points: Floats) -> NDArray[np.bool_]:
    """(n, k) which points of (n, k, 2 or more) lie in the (n, 4) boxes, of centre and size."""
    reach = (0.5 + _NEAR) * box[:, None, 2:]
    near = np.abs(points[:, :, :2] - box[:, None, :2]) <= reach
    return near[:, :, 0] & near[:, :, 1]


def _table(source: Source, files: list[str]) -> Floats | None:
    """The rows of the first files, None if they differ in length or are not finite numbers."""
    rows: list[list[float]] = []
    for _, row in _sampled(source, files[:_FILES]):
        if len(row) < 7 or (rows and len(row) != len(rows[0])) or not np.isfinite(row[-1]):
            return None
        rows.append(row)
    table = np.array(rows)
    return table if rows and np.isfinite(table).all() else None


def _sampled(source: Source, files: list[str]) -> Iterator[tuple[str, list[float]]]:
    """The rows of some files, spread evenly; NaN for what is not a number."""
    for file in files[:: max(1, len(files) // _FILES)][:_FILES]:
        text = source.head(file)
        lines = text.split(b"\n")
        for line in lines if len(text) < 2**16 else lines[:-1]:
            if cells := line.split():
                yield file, floats(cells)[0].tolist()
