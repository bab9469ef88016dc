"""The rows of YOLO label files: boxes and outlines, and which column is the confidence."""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from odm.codes import NUMBERED_CLASSES, SCORE_MISSING, SCORE_UNEXPECTED
from odm.formats._shared.class_lists import add_list
from odm.formats._shared.codes import OUTLINES, RELATIVE_RANGE, SCORE_RANGE, UNKNOWN_CLASS, WRONG_COUNT
from odm.formats._shared.gather import decide_kind
from odm.formats._shared.shapes.fractions import FAR, are_far
from odm.formats._shared.text.tokens import (
    Cell,
    Chunk,
    Rows,
    Say,
    are_all_true,
    check_number,
    explain_rows,
    read_chunks,
)
from odm.formats.yolo.first_rows import may_be_points
from odm.formats.yolo.layouts import Plan
from odm.issues import Code, Log, Trusted, first_few, plural, printable, spell
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


class _Columns(NamedTuple):
    """The columns of the valid rows of some label files; `ParsedRows` says what each is."""

    id: Longs
    columns: Floats
    is_outline: NDArray[np.bool_]
    is_far: NDArray[np.bool_]
    n_values: Ints
    may_be_joined: NDArray[np.bool_]
    track: Longs
    n_shape_values: Longs
    file: Ints
    line: Ints

    @classmethod
    def none(cls) -> _Columns:
        """Return the columns of no rows."""
        ints, longs, flags = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, bool)
        box, pair = np.zeros((0, 5)), np.zeros((0, 2), bool)
        return cls(longs, box, flags, flags, ints, pair, longs, longs, ints, ints)


class ParsedRows:
    """The n valid rows of some label files, before it is decided which column is the confidence.

    Faulty rows are reported, and counted in the builder.
    """

    def __init__(self, plan: Plan, files: list[str], builder: Builder, log: Log) -> None:
        """Read the rows of the label `files`, which are relative to the source of the plan.

        Faulty rows are reported and counted in ``builder.skipped``.
        """
        self.plan, self.builder, self.log = plan, builder, log
        self.classes: list[int] = []
        """The category rows by the numbers of the classes, if these have names; set by `add_categories`."""
        column_parts, value_parts = [_Columns.none()], [np.zeros(0)]
        for chunk in read_chunks(plan.source, files, log):
            chunk_columns, values, faulty_rows = _split_rows(
                chunk, plan.n_point_numbers, plan.tracks, wants_points=bool(builder.wants)
            )
            column_parts.append(chunk_columns)
            value_parts.append(values)
            builder.skipped += len(faulty_rows)
            if len(faulty_rows):
                explain_rows(chunk, faulty_rows, plan.source, files, log, _explain)
        columns: list[Any] = [*map(np.concatenate, zip(*column_parts, strict=True))]
        parsed = _Columns(*columns)
        self.id = parsed.id  # (n,) the number of the class
        self.columns = parsed.columns
        """(n, 5) what follows the id, NaN where a row has four; of an outline its left, top, right, bottom
        and confidence."""
        self.is_outline = parsed.is_outline
        self.is_far = parsed.is_far
        """(n,) whether the row is an outline with a coordinate far beyond 1."""
        self.n_values = parsed.n_values
        """(n,) how many values the row has, without the id of a track."""
        self.may_be_joined = parsed.may_be_joined
        """(n, 2) whether the values may be several rows of five, or of six, whose line breaks were lost."""
        self.track = parsed.track
        """(n,) the id of the track, `NO_ID` where the row has none."""
        self.n_shape_values = parsed.n_shape_values
        """(n,) how many of `shape_values` are of the row."""
        self.shape_values: Floats = np.concatenate(value_parts)
        """The coordinates of outlines, and the keypoints after boxes, row by row; empty if the builder wants
        no shapes."""
        self.file, self.line = parsed.file, parsed.line
        self._locations = Rows(plan.source, files, self.file, self.line)

    def report(self, code: Code, is_wrong: NDArray[np.bool_], describe: Say) -> None:
        """Report the rows where `is_wrong`, (n,); `describe` turns the cells of a row into message fields."""
        if is_wrong.any():
            self._locations.report(self.log, code, np.flatnonzero(is_wrong), describe)

    def choose_columns(self, conf_column: str | None) -> tuple[NDArray[np.bool_], Floats, Floats]:
        """Decide whether rows are detections, and which column is the confidence.

        Rows that do not fit are reported. Returns (n,) which rows are valid, (n, 4) boxes and (n,) scores;
        boxes are centre and size, of outlines left, top, right and bottom.
        """
        has_score = ~np.isnan(self.columns[:, 4])
        is_det = decide_kind(self.builder, int(has_score.sum()), len(has_score))
        box, score = self.columns[:, :4], np.array(self.columns[:, 4])
        size, score_position, is_second = 6 if is_det else 5, -1, False

        # Lines that are several rows of this size, if all other lines are boxes; they look like outlines.
        is_joined = self.is_outline & self.may_be_joined[:, size - 5]  # columns: rows of 5, rows of 6
        if (self.is_outline & ~is_joined).any() or self.is_outline.all():
            is_joined[:] = False

        if is_det:
            rows_of_six = np.flatnonzero(has_score & ~self.is_outline & (self.n_values == 6))
            if is_second := self._choose_second(rows_of_six, conf_column):
                score_position, box = 1, box.copy()
                # columns of these rows: confidence, centre and size
                box[rows_of_six] = self.columns[rows_of_six, 1:]
                score[rows_of_six] = self.columns[rows_of_six, 0]

        describe_score = functools.partial(_describe_score, position=score_position)
        self.report(WRONG_COUNT, is_joined, functools.partial(_describe_joined, size=size))
        if is_det:
            self.report(SCORE_MISSING, ~has_score & ~is_joined, lambda _: {})
            is_outside = has_score & ~is_joined & ~((score >= 0) & (score <= 1))
            self.report(SCORE_RANGE, is_outside, describe_score)
            is_valid = has_score & ~is_joined & ~is_outside
        else:
            is_odd_outline = has_score & self.is_outline & ~is_joined
            expected = "a class id and 4 numbers, or pairs of coordinates"  # the outline has a number more
            self.report(
                WRONG_COUNT,
                is_odd_outline,
                lambda cells: {"expected": expected, "found": f"{len(cells)} values"},
            )
            self.report(SCORE_UNEXPECTED, has_score & ~is_odd_outline & ~is_joined, describe_score)
            is_valid = ~has_score & ~is_joined
        is_far = is_valid & np.where(self.is_outline, self.is_far, are_far(box))
        self.report(RELATIVE_RANGE, is_far, functools.partial(_describe_far, is_second=is_second))
        return is_valid & ~is_far, box, score

    def _choose_second(self, rows_of_six: NDArray[Any], conf_column: str | None) -> bool:
        """Choose, with a note, whether the confidence is the second column of these rows of six values.

        `conf_column` decides if given, without a note. Else it is the column with which more rows have a
        confidence in 0..1 and their box in the image, the last one in a tie.
        """
        if conf_column is not None or not len(rows_of_six):
            return conf_column == "second"
        values, n = self.columns[rows_of_six], len(rows_of_six)  # (n, 5) what follows the class
        n_last = int((_lies_in_image(values[:, :4]) & (values[:, 4] >= 0) & (values[:, 4] <= 1)).sum())
        n_second = int((_lies_in_image(values[:, 1:]) & (values[:, 0] >= 0) & (values[:, 0] <= 1)).sum())
        if n_last == n_second == n:
            row = [f"{v:.6g}" for v in values[0].tolist()]
            note = (
                "the confidence is read from the last column, although the second is also possible. "
                f"The first row is read as confidence {row[4]} and box {' '.join(row[:4])}, not as "
                f"confidence {row[0]} and box {' '.join(row[1:])} "
                f"(otherwise use {spell('conf_column')} second)"
            )
        else:
            column = "second" if n_second > n_last else "last"
            n_plausible, n_other_way = max(n_second, n_last), min(n_second, n_last)
            note = (
                f"the confidence is read from the {column} column, because {n_plausible} of {n} rows are "
                f"plausible that way and {n_other_way} the other way (otherwise use {spell('conf_column')})"
            )
        self.log.note(f"{printable(self.plan.source.path)}: {note}")
        return n_second > n_last

    def make_corners(self, is_valid: NDArray[np.bool_], box: Floats) -> tuple[Floats, Floats]:
        """Return relative edges (m, 4), and width and height (m, 2), of the m valid boxes.

        `box` (n, 4) are centre and size, of outlines left, top, right and bottom.
        """
        box, is_outline = box[is_valid], self.is_outline[is_valid]
        wh = box[:, 2:].copy()
        corners = np.concatenate([box[:, :2] - wh / 2, box[:, :2] + wh / 2], axis=1)
        if is_outline.any():
            corners[is_outline] = box[is_outline]
            wh[is_outline] = box[is_outline, 2:] - box[is_outline, :2]
        return corners, wh

    def add_categories(self, is_valid: NDArray[np.bool_]) -> tuple[Ints, NDArray[np.bool_]]:
        """Add the classes to the builder; return (n,) category rows, and (n,) whether a row has one.

        Names are those of the plan, else those above the source, if enough; else numbers are names. Rows with
        a number beyond the names, or with a refused name, have no class, which is reported where `is_valid`.
        """
        plan, builder, log = self.plan, self.builder, self.log
        used_ids = self.id[is_valid]
        hint = self._take_names_above(used_ids)
        if plan.names is None:
            ids = np.unique(used_ids)
            builder.named = False
            for class_id in ids.tolist():
                builder.category(str(class_id), source_id=class_id)
            if len(ids) and plan.is_sound:
                shown = first_few(ids, 10)
                log.report(NUMBERED_CLASSES, plan.source.path, value=shown, near=Trusted(hint))
            # `ids` rise, so the position of an id is its category row; that of an invalid row says nothing
            return np.searchsorted(ids, self.id).astype(np.int32), np.ones(len(self.id), bool)
        category_rows = np.array(add_list(plan.names, builder, log, plan.names_from), np.int32)
        # A list that begins with a placeholder counts from 1: rows of class 0 mean the second name.
        lacks_first = len(category_rows) > 0 and category_rows[0] < 0
        if lacks_first and len(used_ids) and used_ids.min() == 0 and used_ids.max() < len(plan.names):
            log.report(NAMES_FROM_1, plan.names_from, field="names")
            category_rows = category_rows[1:]
        self.classes = category_rows.tolist()
        has_class = self.id < len(category_rows)
        has_class[has_class] = category_rows[self.id[has_class]] >= 0

        def describe_class(cells: list[Cell]) -> dict[str, Any]:
            column, value = cells[0] if cells else (0, b"")
            location = {"column": column, "field": "class", "value": value}
            return {**location, "n": len(category_rows), "where": plan.names_from}

        self.report(UNKNOWN_CLASS, is_valid & ~has_class, describe_class)
        return category_rows[np.where(has_class, self.id, 0)], has_class

    def _take_names_above(self, used_ids: Longs) -> str:
        """Take the names above the source into the plan, with a note, if there are any.

        A description is what a trainer goes by. A mere list may belong to other labels: with fewer names than
        `used_ids` needs, it is left out, and a hint at it, in brackets, is returned.
        """
        plan = self.plan
        if plan.names_above is None:
            return ""
        path, names = plan.names_above
        has_all_names = not len(used_ids) or int(used_ids.max()) < len(names)
        if not has_all_names and not path.lower().endswith((".yaml", ".yml")):
            return f" ({printable(path)} has fewer names)"
        plan.names_from, plan.names = plan.names_above
        self.log.note(f"{printable(plan.source.path)}: class names are from {printable(path)}")
        return ""

    def report_outlines(self, is_valid: NDArray[np.bool_]) -> None:
        """Report the outlines that are read as their boxes, and count them in ``builder.extras``."""
        outline_rows = np.flatnonzero(is_valid & self.is_outline)
        # a class and four corners, perhaps with a confidence
        n_rotated = int(((self.n_values[outline_rows] == 9) | (self.n_values[outline_rows] == 10)).sum())
        if n_rotated:
            self.builder.extras["rotation"] = n_rotated
        if n_rotated < len(outline_rows):
            self.builder.extras["segmentation"] = len(outline_rows) - n_rotated
        noun = "outlines" if n_rotated else "polygons"
        if n_rotated == len(outline_rows):
            noun = "rotated boxes"
        if not n_rotated and may_be_points(self._locations.source, list(self._locations.files)):
            noun += " (if they are boxes with keypoints, set kpt_shape in data.yaml)"
        values = {"n": len(outline_rows), "total": int(is_valid.sum()), "what": Trusted(noun)}
        self._locations.report(self.log, OUTLINES, outline_rows[:1], lambda _: values)


def _describe_score(cells: list[Cell], *, position: int) -> dict[str, Any]:
    """Return the message fields of a row whose confidence, at `position` in it, is wrong."""
    column, value = cells[position] if len(cells) > abs(position) else (0, b"")
    return {"column": column, "field": "score", "value": value}


def _describe_joined(cells: list[Cell], *, size: int) -> dict[str, Any]:
    """Return the message fields of a line that holds several rows of `size` values, 6 with a confidence."""
    shown = f"{len(cells)} values, as of {len(cells) // size} rows (was a line break lost?)"
    expected = "a class id and 4 numbers" + (", and a confidence" if size == 6 else "")
    column, _ = cells[size] if len(cells) > size else (0, b"")  # of the second row
    return {"column": column, "expected": expected, "found": Trusted(shown)}


def _describe_far(cells: list[Cell], *, is_second: bool) -> dict[str, Any]:
    """Return the message fields of the first coordinate far outside 0..1.

    Coordinates follow the class, or if `is_second` in a row of six the confidence.
    """
    for i, (column, value) in enumerate(cells[2:6] if is_second and len(cells) == 6 else cells[1:]):
        if not 1 - FAR <= float(value) <= FAR:
            field = _BOX_FIELDS[i] if len(cells) <= 6 else ""
            return {"column": column, "field": field, "value": value}
    return {"value": b""}


def _split_rows(
    chunk: Chunk, n_point_numbers: int, track_parities: frozenset[int], *, wants_points: bool
) -> tuple[_Columns, Floats, NDArray[Any]]:
    """Split a chunk of label files into columns, and report nothing.

    `n_point_numbers` keypoint numbers follow a box, and rows may end in the id of a track if the number of
    values after these is odd or even, as 1 or 0 in `track_parities` says. Returns the columns of the valid
    rows, their shape values if `wants_points`, and the numbers of the faulty rows.
    """
    n = len(chunk.first)
    track = _find_track_ids(chunk, n_point_numbers, track_parities) if track_parities else np.full(n, NO_ID)
    n_values = chunk.count - (track != NO_ID)
    is_sound = n_values >= 5
    ids = np.full(n, np.nan)
    columns = np.full((n, 5), np.nan)
    is_outline, is_far, is_box = np.zeros((3, n), bool)
    may_be_joined = np.zeros((n, 2), bool)
    value_parts: list[tuple[NDArray[Any], NDArray[Any], Floats]] = []  # rows, how many each has, values

    # Rows of boxes, by their number of values. All other rows are outlines.
    for size in dict.fromkeys((5, 6, 5 + n_point_numbers, 6 + n_point_numbers)):
        rows = np.flatnonzero(n_values == size)
        if not len(rows):
            continue
        is_box[rows] = True
        table, points, is_sound[rows] = _parse_boxes(
            chunk, rows, size, n_point_numbers, wants_points=wants_points
        )
        ids[rows] = table[:, 0]
        columns[rows, : table.shape[1] - 1] = table[:, 1:]
        if points is not None:
            value_parts.append((rows, np.full(len(rows), n_point_numbers), points.ravel()))

    # The ids of outlines, and of all rows the check that they are whole numbers from 0, not -0.
    outline_rows = np.flatnonzero(~is_box & is_sound)
    ids[outline_rows], not_numbers = chunk.parse_numbers(chunk.first[outline_rows])
    is_sound[outline_rows[not_numbers]] = False
    with np.errstate(invalid="ignore"):
        is_sound &= (ids >= 0) & (ids < 2.0**53) & (ids == np.rint(ids)) & ~np.signbit(ids)

    outline_rows = np.flatnonzero(~is_box & is_sound)
    if len(outline_rows):
        is_outline[outline_rows] = True
        outlines = _parse_outlines(chunk, outline_rows, n_values[outline_rows])
        (
            is_sound[outline_rows],
            is_far[outline_rows],
            columns[outline_rows],
            may_be_joined[outline_rows],
            n_coordinates,
            coordinates,
        ) = outlines
        if wants_points:
            value_parts.append((outline_rows, n_coordinates, coordinates))

    n_shape_values, values = _join_values(value_parts, is_sound)
    rows = np.flatnonzero(is_sound)
    valid_columns = _Columns(
        ids[rows].astype(np.int64), columns[rows], is_outline[rows], is_far[rows],
        n_values[rows].astype(np.int32), may_be_joined[rows], track[rows], n_shape_values[rows],
        chunk.file[rows], chunk.line[rows],
    )  # fmt: skip
    return valid_columns, values, np.flatnonzero(~is_sound)


def _parse_boxes(
    chunk: Chunk, rows: NDArray[Any], size: int, n_point_numbers: int, *, wants_points: bool
) -> tuple[Floats, Floats | None, NDArray[np.bool_]]:
    """Parse m rows of `size` values: a class, a box, perhaps keypoints, perhaps a confidence.

    Returns (m, 5 or 6) class, box and perhaps confidence; (m, n_point_numbers) keypoints, None if the rows
    have none or they are not wanted; and (m,) whether all these are numbers, and finite but for the class.
    """
    has_score = size not in {5, 5 + n_point_numbers}
    has_points = wants_points and size > 6
    # The positions of the values in a row; keypoints that are not wanted are not parsed.
    positions = np.array([0, 1, 2, 3, 4, size - 1]) if has_score else np.arange(5)
    if has_points:
        positions = np.arange(size)
    values, not_numbers = chunk.parse_numbers((chunk.first[rows, None] + positions).ravel())
    table, points = values.reshape(len(rows), len(positions)), None
    if has_points:
        points = table[:, 5 : 5 + n_point_numbers]
        table = np.delete(table, np.arange(5, 5 + n_point_numbers), axis=1)
    is_sound = are_all_true(np.isfinite(table[:, 1:5]))
    if has_score:
        is_sound &= np.isfinite(table[:, 5])
    if points is not None:
        is_sound &= np.isfinite(points).all(axis=1)
    is_sound[not_numbers // len(positions)] = False  # the rows of these values
    return table, points, is_sound


def _join_values(
    value_parts: list[tuple[NDArray[Any], NDArray[Any], Floats]], is_sound: NDArray[np.bool_]
) -> tuple[Longs, Floats]:
    """Sort values by row: (n,) how many each row has, and all values of the rows where `is_sound`, (n,).

    The values of a row keep their order. Each of `value_parts` is (rows, how many values each of these rows
    has, these values).
    """
    n_shape_values = np.zeros(len(is_sound), np.int64)
    if not value_parts:
        return n_shape_values, np.zeros(0)
    for rows, n, _ in value_parts:
        n_shape_values[rows] = n
    row_of_value = np.concatenate([np.repeat(rows, n) for rows, n, _ in value_parts])
    order = np.argsort(row_of_value, kind="stable")
    values = np.concatenate([values for _, _, values in value_parts])[order]
    return n_shape_values, values[is_sound[row_of_value[order]]]


def _find_track_ids(chunk: Chunk, n_point_numbers: int, track_parities: frozenset[int]) -> Longs:
    """Return (n,) the track id at the end of each row, `NO_ID` for none.

    Rows may end in one if the number of values after box and keypoints is odd or even, as 1 or 0 in
    `track_parities` says. A last value that is no whole number from 1 is no id.
    """
    track_ids = np.full(len(chunk.first), NO_ID)
    n_extra = chunk.count - 5 - n_point_numbers
    rows = np.flatnonzero((n_extra > 0) & np.isin(n_extra % 2, list(track_parities)))
    last_values, not_numbers = chunk.parse_numbers(chunk.first[rows] + chunk.count[rows] - 1)
    with np.errstate(invalid="ignore"):
        is_id = (last_values >= 1) & (last_values < 2.0**53) & (last_values == np.rint(last_values))
    is_id[not_numbers] = False
    track_ids[rows[is_id]] = last_values[is_id].astype(np.int64)
    return track_ids


def _parse_outlines(
    chunk: Chunk, rows: NDArray[Any], n_values: NDArray[Any]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Floats, NDArray[np.bool_], Longs, Floats]:
    """Parse m rows of outlines, of `n_values` 1 + 2n or 2 + 2n: a class, n points and perhaps a confidence.

    Returns (m,) whether a row is valid, (m,) whether a coordinate is far beyond 1, (m, 5) edges and
    confidence, (m, 2) whether it may be joined rows of five, or of six, values, (m,) how many coordinates it
    has, and these coordinates one after another.
    """
    n_values = n_values - 1  # without the class
    # Rows of 3 and 2 values: n_values 3 2, row_starts 0 3, row_of_value 0 0 0 1 1, rank_in_row 0 1 2 0 1.
    row_starts = np.cumsum(n_values) - n_values
    token_rows = np.repeat(chunk.first[rows] + 1 - row_starts, n_values) + np.arange(int(n_values.sum()))
    values, not_numbers = chunk.parse_numbers(token_rows)
    values[not_numbers] = np.nan
    row_of_value = np.repeat(np.arange(len(rows)), n_values)
    rank_in_row = np.arange(len(values)) - row_starts[row_of_value]
    is_sound = np.ones(len(rows), bool)
    is_sound[row_of_value[~np.isfinite(values)]] = False

    # The confidence is the last of an odd number of values.
    has_score = n_values % 2 == 1
    is_score = has_score[row_of_value] & (rank_in_row == n_values[row_of_value] - 1)
    columns = np.full((len(rows), 5), np.nan)
    columns[has_score, 4] = values[is_score]

    # Of joined rows, the first value of each would be an id, a whole number.
    may_be_joined = np.zeros((len(rows), 2), bool)
    is_whole = values == np.rint(values)
    for k, size in enumerate((5, 6)):
        may_be_joined[:, k] = (n_values + 1) % size == 0
        may_be_joined[row_of_value[((rank_in_row + 1) % size == 0) & ~is_whole], k] = False

    # The edges: reduceat takes the least, or greatest, of each run that begins at one of these positions.
    values = np.where(np.isfinite(values), values, 0)
    coordinates = values[~is_score]
    n_coordinates = n_values - has_score
    point_starts = (np.cumsum(n_coordinates) - n_coordinates) // 2
    for axis in (0, 1):  # x y x y; the length of every row is even
        columns[:, axis] = np.minimum.reduceat(coordinates[axis::2], point_starts)
        columns[:, axis + 2] = np.maximum.reduceat(coordinates[axis::2], point_starts)
    return is_sound, are_far(columns[:, :4]), columns, may_be_joined, n_coordinates, coordinates


def _explain(cells: list[Cell], path: str, line: int, log: Log) -> None:
    """Report what is wrong with a row that `_split_rows` refuses, by the same rules."""
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


def _lies_in_image(box: Floats) -> NDArray[np.bool_]:
    """Return (n,) True for relative boxes, (n, 4) centre and size, that are nearly within the image."""
    half_size = box[:, 2:] / 2
    is_inside = (
        (box[:, :2] - half_size >= -_SLACK) & (box[:, :2] + half_size <= 1 + _SLACK) & (half_size >= 0)
    )
    return np.array(is_inside.all(axis=1))
