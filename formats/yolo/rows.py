"""The rows of YOLO label files: boxes and outlines, and which column is the confidence."""

from __future__ import annotations

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
from odm.formats._shared.shapes.fractions import FAR, are_far
from odm.formats._shared.text.tokens import (
    Cell,
    Chunk,
    Rows,
    Say,
    check_number,
    chunks,
    every,
    explain_rows,
    floats,
)
from odm.formats.yolo.layouts import Plan
from odm.issues import Code, Log, Trusted, first_few, plural, printable
from odm.tables import NO_ID, Builder, Floats, Ints, Longs

NAMES_FROM_1 = Code(
    "yolo-names-from-1",
    "warning",
    "the names count from 1 and the classes of the label files from 0, so the names are taken in their order",
    "number the names from 0",
    "Trainers count classes from 0. With these numbers they stop, or call each class as the one before it.",
)
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


class ParsedRows:
    """All valid rows of some label files, before it is decided which column is the confidence.

    Faulty rows are reported, and counted in the builder.
    """

    def __init__(self, plan: Plan, files: list[str], builder: Builder, log: Log) -> None:
        self.plan, self.builder, self.log = plan, builder, log
        self.classes: list[int] = []
        """The rows of the classes by their numbers, if the classes have names."""
        none = np.zeros(0, np.int32)
        longs, flags = none.astype(np.int64), none == 1
        parts: list[tuple[NDArray[Any], ...]] = [
            (longs, np.zeros((0, 5)), flags, flags, none, np.zeros((0, 2), bool), longs, longs, none, none)
        ]
        after: list[Floats] = [np.zeros(0)]
        for chunk in chunks(plan.source, files, log):
            part, values, faulty = _rows(chunk, plan.key_points, plan.tracks, bool(builder.wants))
            parts.append(part)
            after.append(values)
            builder.skipped += len(faulty)
            if len(faulty):
                explain_rows(chunk, faulty, plan.source, files, log, _explain)
        columns: list[Any] = [*map(np.concatenate, zip(*parts, strict=True))]
        self.id: Longs = columns[0]
        self.columns: Floats = columns[1]
        """(n, 5) what follows the id, NaN where a row has four; of an outline its left, top, right, bottom
        and confidence."""
        self.outline: NDArray[np.bool_] = columns[2]
        self.far: NDArray[np.bool_] = columns[3]
        """Of outlines, whether a coordinate is far beyond 1."""
        self.count: Ints = columns[4]
        """(n,) how many values the row has."""
        self.joined: NDArray[np.bool_] = columns[5]
        """(n, 2) whether the values may be several rows of five, or of six, whose line breaks were lost."""
        self.track: Longs = columns[6]
        """(n,) the id of the track, `NO_ID` where the row has none."""
        self.n_after: Longs = columns[7]
        """(n,) how many of the values `after` are of the row."""
        self.after: Floats = np.concatenate(after)
        """If shapes are wanted: the coordinates of outlines, and the keypoints after boxes."""
        self.file: Ints = columns[8]
        self.line: Ints = columns[9]
        self._where = Rows(plan.source, files, self.file, self.line)

    def report(self, code: Code, is_wrong: NDArray[np.bool_], say: Say) -> None:
        """Report the rows that are wrong, with what `say` answers of their values."""
        if is_wrong.any():
            self._where.report(self.log, code, np.flatnonzero(is_wrong), say)

    def choose_columns(self, conf_column: str | None) -> tuple[NDArray[np.bool_], Floats, Floats]:
        """Decide whether rows are detections, and which column is the confidence.

        Returns (n,) which rows are valid, (n, 4) boxes and (n,) scores.
        """
        scored = ~np.isnan(self.columns[:, 4])
        is_det = decide_kind(self.builder, int(scored.sum()), len(scored))
        box, score = self.columns[:, :4], np.array(self.columns[:, 4])
        size, at, second = 6 if is_det else 5, -1, False
        # Several rows of this size in one line would be outlines, where the others are boxes.
        joined = self.outline & self.joined[:, size - 5]
        if (self.outline & ~joined).any() or self.outline.all():
            joined[:] = False
        if is_det:
            six = np.flatnonzero(scored & ~self.outline & (self.count == 6))
            if second := self._is_second(six, conf_column):
                at, box = 1, box.copy()
                box[six], score[six] = self.columns[six, 1:], self.columns[six, 0]

        def say_score(cells: list[Cell]) -> dict[str, Any]:
            column, value = cells[at] if len(cells) > abs(at) else (0, b"")
            return {"column": column, "field": "score", "value": value}

        def say_joined(cells: list[Cell]) -> dict[str, Any]:
            shown = f"{len(cells)} values, as of {len(cells) // size} rows (was a line break lost?)"
            expected = "a class id and 4 numbers" + (", and a confidence" if is_det else "")
            column = cells[size][0] if len(cells) > size else 0
            return {"column": column, "expected": expected, "found": Trusted(shown)}

        def say_odd(cells: list[Cell]) -> dict[str, Any]:
            expected = "a class id and 4 numbers, or pairs of coordinates"
            return {"expected": expected, "found": f"{len(cells)} values"}

        def say_far(cells: list[Cell]) -> dict[str, Any]:
            for i, (column, value) in enumerate(cells[2:6] if second and len(cells) == 6 else cells[1:]):
                if not 1 - FAR <= float(value) <= FAR:
                    field = _BOX_FIELDS[i] if len(cells) <= 6 else ""
                    return {"column": column, "field": field, "value": value}
            return {"value": b""}

        self.report(WRONG_COUNT, joined, say_joined)
        if is_det:
            self.report(SCORE_MISSING, ~scored & ~joined, lambda _: {})
            outside = scored & ~joined & ~((score >= 0) & (score <= 1))
            self.report(SCORE_RANGE, outside, say_score)
            is_valid = scored & ~joined & ~outside
        else:
            is_outline = scored & self.outline & ~joined
            self.report(WRONG_COUNT, is_outline, say_odd)
            self.report(SCORE_UNEXPECTED, scored & ~is_outline & ~joined, say_score)
            is_valid = ~scored & ~joined
        far = is_valid & np.where(self.outline, self.far, are_far(box))
        self.report(RELATIVE_RANGE, far, say_far)
        return is_valid & ~far, box, score

    def _is_second(self, six: NDArray[Any], conf_column: str | None) -> bool:
        """Whether the confidence is the second column of these rows of six values."""
        if conf_column is not None or not len(six):
            return conf_column == "second"
        values, n = self.columns[six], len(six)
        last = int((_fits(values[:, :4]) & (values[:, 4] >= 0) & (values[:, 4] <= 1)).sum())
        second = int((_fits(values[:, 1:]) & (values[:, 0] >= 0) & (values[:, 0] <= 1)).sum())
        if last == second == n:
            row = [f"{v:.6g}" for v in values[0].tolist()]
            note = (
                "the confidence is read from the last column, although the second is also possible. "
                f"The first row is read as confidence {row[4]} and box {' '.join(row[:4])}, not as "
                f"confidence {row[0]} and box {' '.join(row[1:])} (otherwise use --conf-column second)"
            )
        else:
            column, fits, others = ("second", second, last) if second > last else ("last", last, second)
            note = (
                f"the confidence is read from the {column} column, because {fits} of {n} rows are "
                f"plausible that way and {others} the other way (otherwise use --conf-column)"
            )
        self.log.note(f"{printable(self.plan.source.path)}: {note}")
        return second > last

    def corners(self, is_valid: NDArray[np.bool_], box: Floats) -> tuple[Floats, Floats]:
        """Relative edges (m, 4), and width and height (m, 2), of the m valid boxes."""
        box, outline = box[is_valid], self.outline[is_valid]
        wh = box[:, 2:].copy()
        corners = np.concatenate([box[:, :2] - wh / 2, box[:, :2] + wh / 2], axis=1)
        if outline.any():
            corners[outline] = box[outline]
            wh[outline] = box[outline, 2:] - box[outline, :2]
        return corners, wh

    def add_categories(self, is_valid: NDArray[np.bool_]) -> tuple[Ints, NDArray[np.bool_]]:
        """The category row of each box, and which boxes have one."""
        plan, builder, log, hint = self.plan, self.builder, self.log, ""
        used = self.id[is_valid]
        if plan.names_above is not None:
            path, names = plan.names_above
            # A description is what a trainer goes by; a list may belong to other labels.
            if not len(used) or int(used.max()) < len(names) or path.lower().endswith((".yaml", ".yml")):
                plan.names_from, plan.names = plan.names_above
                log.note(f"{printable(plan.source.path)}: class names are from {printable(path)}")
            else:
                hint = f" ({printable(path)} has fewer names)"
        if plan.names is None:
            ids = np.unique(used)
            builder.named = False
            for number in ids.tolist():
                builder.category(str(number), source_id=number)
            if len(ids) and plan.sound:
                shown = first_few(ids, 10)
                log.report(NUMBERED_CLASSES, plan.source.path, value=shown, near=Trusted(hint))
            return np.searchsorted(ids, self.id).astype(np.int32), np.ones(len(self.id), bool)
        rows = np.array(add_list(plan.names, builder, log, plan.names_from), np.int32)
        if rows[:1] < 0 and len(used) and used.min() == 0 and used.max() < len(plan.names):
            log.report(NAMES_FROM_1, plan.names_from, field="names")
            rows = rows[1:]
        self.classes = rows.tolist()
        known = self.id < len(rows)
        known[known] = rows[self.id[known]] >= 0

        def say(cells: list[Cell]) -> dict[str, Any]:
            column, value = cells[0] if cells else (0, b"")
            place = {"column": column, "field": "class", "value": value}
            return {**place, "n": len(rows), "where": plan.names_from}

        self.report(UNKNOWN_CLASS, is_valid & ~known, say)
        return rows[np.where(known, self.id, 0)], known

    def report_outlines(self, is_valid: NDArray[np.bool_]) -> None:
        """Report and count the rows that have a shape which is read as its box."""
        outlines = np.flatnonzero(is_valid & self.outline)
        rotated = int(((self.count[outlines] == 9) | (self.count[outlines] == 10)).sum())
        if rotated:
            self.builder.extras["rotation"] = rotated
        if rotated < len(outlines):
            self.builder.extras["segmentation"] = len(outlines) - rotated
        what = "rotated boxes" if rotated == len(outlines) else "outlines" if rotated else "polygons"
        if not rotated and may_be_points(self._where.source, list(self._where.files)):
            what += " (if they are boxes with keypoints, set kpt_shape in data.yaml)"
        values = {"n": len(outlines), "total": int(is_valid.sum()), "what": Trusted(what)}
        self._where.report(self.log, OUTLINES, outlines[:1], lambda _: values)


def _rows(
    chunk: Chunk, key_points: int, tracks: frozenset[int], wanted: bool
) -> tuple[tuple[NDArray[Any], ...], Floats, NDArray[Any]]:
    """Split a chunk: the columns of its valid rows, their points if `wanted`, and the faulty rows."""
    n = len(chunk.first)
    track = _tracks(chunk, key_points, tracks) if tracks else np.full(n, NO_ID)
    count = chunk.count - (track != NO_ID)
    sound = count >= 5
    first = np.full(n, np.nan)
    columns = np.full((n, 5), np.nan)
    outline, far, boxes = np.zeros((3, n), bool)
    joined = np.zeros((n, 2), bool)
    after: list[tuple[NDArray[Any], NDArray[Any], Floats]] = []
    for size in dict.fromkeys((5, 6, 5 + key_points, 6 + key_points)):
        rows = np.flatnonzero(count == size)
        if not len(rows):
            continue
        boxes[rows] = True
        used = np.arange(5) if size in {5, 5 + key_points} else np.array([0, 1, 2, 3, 4, size - 1])
        if with_points := wanted and size > 6:
            used = np.arange(size)
        values, not_numbers = chunk.numbers((chunk.first[rows, None] + used).ravel())
        table = values.reshape(len(rows), len(used))
        if with_points:
            points = table[:, 5 : 5 + key_points]
            table = np.delete(table, np.arange(5, 5 + key_points), axis=1)
            after.append((rows, np.full(len(rows), key_points), points.ravel()))
        first[rows] = table[:, 0]
        columns[rows, : table.shape[1] - 1] = table[:, 1:]
        finite = every(np.isfinite(table[:, 1:5]))
        if table.shape[1] == 6:
            finite &= np.isfinite(table[:, 5])
        if with_points:
            finite &= np.isfinite(points).all(axis=1)
        finite[not_numbers // len(used)] = False
        sound[rows] = finite
    rest = np.flatnonzero(~boxes & sound)
    first[rest], not_numbers = chunk.numbers(chunk.first[rest])
    sound[rest[not_numbers]] = False
    with np.errstate(invalid="ignore"):
        sound &= (first >= 0) & (first < 2.0**53) & (first == np.rint(first)) & ~np.signbit(first)
    rest = np.flatnonzero(~boxes & sound)
    if len(rest):
        outline[rest] = True
        outlines = _outlines(chunk, rest, count[rest])
        sound[rest], far[rest], columns[rest], joined[rest], n_coordinates, coordinates = outlines
        if wanted:
            after.append((rest, n_coordinates, coordinates))
    n_after, values = _in_order(after, sound)
    kept = np.flatnonzero(sound)
    columns_of_rows = (
        columns,
        outline,
        far,
        count.astype(np.int32),
        joined,
        track,
        n_after,
        chunk.file,
        chunk.line,
    )
    part = first[kept].astype(np.int64), *(column[kept] for column in columns_of_rows)
    return part, values, np.flatnonzero(~sound)


def _in_order(
    after: list[tuple[NDArray[Any], NDArray[Any], Floats]], sound: NDArray[np.bool_]
) -> tuple[Longs, Floats]:
    """How many values each row has, and those of the sound rows one after the other.

    `after` has parts of them: the rows, how many values each of these has, and the values.
    """
    n_after = np.zeros(len(sound), np.int64)
    if not after:
        return n_after, np.zeros(0)
    for rows, n, _ in after:
        n_after[rows] = n
    owner = np.concatenate([np.repeat(rows, n) for rows, n, _ in after])
    values = np.concatenate([part for *_, part in after])[order := np.argsort(owner, kind="stable")]
    return n_after, values[sound[owner[order]]]


def _tracks(chunk: Chunk, key_points: int, tracks: frozenset[int]) -> Longs:
    """(n,) the id of the track that ends a row, `NO_ID` where the row has none."""
    track_ids = np.full(len(chunk.first), NO_ID)
    extra = chunk.count - 5 - key_points
    rows = np.flatnonzero((extra > 0) & np.isin(extra % 2, list(tracks)))
    last, not_numbers = chunk.numbers(chunk.first[rows] + chunk.count[rows] - 1)
    with np.errstate(invalid="ignore"):
        is_id = (last >= 1) & (last < 2.0**53) & (last == np.rint(last))
    is_id[not_numbers] = False
    track_ids[rows[is_id]] = last[is_id].astype(np.int64)
    return track_ids


def _outlines(
    chunk: Chunk, rows: NDArray[Any], count: NDArray[Any]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Floats, NDArray[np.bool_], Longs, Floats]:
    """Read m rows of outlines, with a `count` of 1 + 2n or 2 + 2n values (a class, points, a confidence).

    Returns (m,) whether a row is valid, (m,) whether a coordinate is far beyond 1, (m, 5) edges and
    confidence, (m,) whether it may be joined rows of boxes, (m,) how many coordinates it has, and these
    coordinates one after another.
    """
    count = count - 1
    begin = np.cumsum(count) - count
    where = np.repeat(chunk.first[rows] + 1 - begin, count) + np.arange(int(count.sum()))
    values, not_numbers = chunk.numbers(where)
    values[not_numbers] = np.nan
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
    return sound, are_far(columns[:, :4]), columns, joined, length, coordinates


def _explain(cells: list[Cell], path: str, line: int, log: Log) -> None:
    """Report what is wrong with a row that `_rows` refuses, by the same rules."""
    column, value = cells[0]
    if len(cells) < 5:
        expected = "a class id and 4 numbers, optionally followed by a confidence"
        shown = plural(len(cells), "value")
        log.report(WRONG_COUNT, path, line=line, column=column, expected=expected, found=shown)
        return
    if not _WHOLE.fullmatch(value) or float(value) >= 2.0**53:
        log.report(BAD_ID, path, line=line, column=column, field="class", value=value)
        return
    for i, cell in enumerate(cells[1:]):
        field = _BOX_FIELDS[i] if len(cells) == 5 else f"value {i + 2}"
        if not check_number(cell, log, path, line, field):
            return


def _fits(box: Floats) -> NDArray[np.bool_]:
    """Which (n, 4) relative boxes are plausible: of some size, and within the image."""
    half = box[:, 2:] / 2
    inside = (box[:, :2] - half >= -_SLACK) & (box[:, :2] + half <= 1 + _SLACK) & (half >= 0)
    return np.array(inside.all(axis=1))


# ------------------------------------------------------------------- what the first files show


def find_tracks(source: Source, files: list[str], after_box: int, *, is_det: bool) -> frozenset[int]:
    """Find from the first files which rows end in the id of a track, as `yolo track` writes them.

    1 stands for rows with an odd number of values after the box and its `after_box` keypoints: an id, where
    others have a confidence. 0 stands for those with an even number: a confidence and an id, where others
    have the corners of an outline. An id is a whole number from 1, and no file has one twice. More than
    half of all rows have one.
    """
    rows_by_kind: dict[int, list[tuple[str, list[float]]]] = {0: [], 1: []}
    total = 0
    for file, row in _sampled(source, files):
        total += 1
        extra = len(row) - 5 - after_box
        if extra > 0:
            rows_by_kind[extra % 2].append((file, row))
    rows_by_kind = {
        kind: rows for kind, rows in rows_by_kind.items() if rows and _are_tracks(rows, kind, is_det=is_det)
    }
    return frozenset(rows_by_kind if 2 * sum(map(len, rows_by_kind.values())) > total else ())


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


def points_by_hand(source: Source, files: list[str], kind: str | None) -> tuple[int, int]:
    """How many numbers of keypoints follow a box in rows that have some, and how many each point has.

    For rows that are known to have keypoints. Of the possible readings, 2 or 3 numbers a point, with or
    without a confidence at the end, the one in which most boxes contain their points wins, then the first.
    """
    table = _table(source, files)
    best = 0.0, 0, 3
    if table is None:
        return best[1:]
    for scored, dims in ((0, 3), (0, 2), (1, 3), (1, 2)):
        n = table.shape[1] - 5 - scored
        if n <= 0 or n % dims or scored == {"gt": 1, "det": 0}.get(kind or ""):
            continue
        points = table[:, 5 : 5 + n].reshape(len(table), -1, dims)
        fits = _contains(table[:, 1:5], points)
        if dims == 3:
            fits = (fits | (points[:, :, 2] <= 0)) & (points[:, :, 2] <= 2)
        best = max(best, (float(fits.mean()), n, dims), key=lambda one: one[0])
    return best[1:]


def find_key_points(source: Source, files: list[str], kind: str | None = None) -> int:
    """Guess how many numbers of keypoints follow each box, from the first files; 0 if rows have none.

    All rows must have the same length, every third number must be 0, 1 or 2, and each box must hold the
    points that are visible: a polygon has no such rows. In detections, of two points and more, every third
    number and the last one are confidences, and nearly all points that are likely must lie in their box.
    """
    table = _table(source, files)
    if table is None or table.shape[1] < 8 or (scored := (table.shape[1] - 5) % 3) > 1:
        return 0
    n = table.shape[1] - 5 - scored
    points = table[:, 5 : 5 + n].reshape(len(table), -1, 3)
    inside, third = _contains(table[:, 1:5], points), points[:, :, 2]
    if not scored:
        visible = third > 0
        return n if np.isin(third, (0, 1, 2)).all() and visible.any() and inside[visible].all() else 0
    likely = third > 0.5
    if kind == "gt" or n < 6 or len(table) < _ROWS or not likely.any():
        return 0
    rates = np.column_stack([third, table[:, -1]])
    return n if ((rates >= 0) & (rates <= 1)).all() and inside[likely].mean() >= 0.9 else 0


def may_be_points(source: Source, files: list[str]) -> bool:
    """Whether rows read as polygons may be boxes with keypoints of two numbers each.

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
