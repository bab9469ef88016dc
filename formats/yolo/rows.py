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
    are_all_true,
    check_number,
    explain_rows,
    parse_floats,
    read_chunks,
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
    """The n valid rows of some label files, before it is decided which column is the confidence.

    Faulty rows are reported, and counted in the builder.
    """

    def __init__(self, plan: Plan, files: list[str], builder: Builder, log: Log) -> None:
        """Read the rows of the label `files`, which are relative to the source of the plan.

        Faulty rows are reported and counted in ``builder.skipped``.
        """
        self.plan, self.builder, self.log = plan, builder, log
        self.classes: list[int] = []
        """The rows of the classes by their numbers, if the classes have names."""
        no_ints = np.zeros(0, np.int32)
        no_longs, no_flags = no_ints.astype(np.int64), no_ints == 1
        # The columns of `_split_rows`; the first part is empty, for files without rows.
        column_parts: list[tuple[NDArray[Any], ...]] = [
            (
                no_longs,
                np.zeros((0, 5)),
                no_flags,
                no_flags,
                no_ints,
                np.zeros((0, 2), bool),
                no_longs,
                no_longs,
                no_ints,
                no_ints,
            )
        ]
        value_parts: list[Floats] = [np.zeros(0)]
        for chunk in read_chunks(plan.source, files, log):
            chunk_columns, values, faulty = _split_rows(
                chunk, plan.n_point_numbers, plan.tracks, bool(builder.wants)
            )
            column_parts.append(chunk_columns)
            value_parts.append(values)
            builder.skipped += len(faulty)
            if len(faulty):
                explain_rows(chunk, faulty, plan.source, files, log, _explain)
        columns: list[Any] = [*map(np.concatenate, zip(*column_parts, strict=True))]
        self.id: Longs = columns[0]
        self.columns: Floats = columns[1]
        """(n, 5) what follows the id, NaN where a row has four; of an outline its left, top, right, bottom
        and confidence."""
        self.is_outline: NDArray[np.bool_] = columns[2]
        self.is_far: NDArray[np.bool_] = columns[3]
        """(n,) whether the row is an outline with a coordinate far beyond 1."""
        self.n_values: Ints = columns[4]
        """(n,) how many values the row has."""
        self.may_be_joined: NDArray[np.bool_] = columns[5]
        """(n, 2) whether the values may be several rows of five, or of six, whose line breaks were lost."""
        self.track: Longs = columns[6]
        """(n,) the id of the track, `NO_ID` where the row has none."""
        self.n_shape_values: Longs = columns[7]
        """(n,) how many of `shape_values` are of the row."""
        self.shape_values: Floats = np.concatenate(value_parts)
        """The coordinates of outlines, and the keypoints after boxes, row by row; empty if the builder wants
        no shapes."""
        self.file: Ints = columns[8]
        self.line: Ints = columns[9]
        self._locations = Rows(plan.source, files, self.file, self.line)

    def report(self, code: Code, is_wrong: NDArray[np.bool_], describe: Say) -> None:
        """Report the rows where `is_wrong`, (n,); `describe` turns the cells of a row into message fields."""
        if is_wrong.any():
            self._locations.report(self.log, code, np.flatnonzero(is_wrong), describe)

    def choose_columns(self, conf_column: str | None) -> tuple[NDArray[np.bool_], Floats, Floats]:
        """Decide whether rows are detections, and which column is the confidence.

        Rows that do not fit are reported. Returns (n,) which rows are valid, (n, 4) boxes and (n,) scores.
        """
        has_score = ~np.isnan(self.columns[:, 4])
        is_det = decide_kind(self.builder, int(has_score.sum()), len(has_score))
        box, score = self.columns[:, :4], np.array(self.columns[:, 4])
        size, score_position, is_second = 6 if is_det else 5, -1, False
        # Several rows of this size in one line would be outlines, where the others are boxes.
        is_joined = self.is_outline & self.may_be_joined[:, size - 5]  # columns: rows of 5, rows of 6
        if (self.is_outline & ~is_joined).any() or self.is_outline.all():
            is_joined[:] = False
        if is_det:
            rows_of_six = np.flatnonzero(has_score & ~self.is_outline & (self.n_values == 6))
            if is_second := self._is_second(rows_of_six, conf_column):
                score_position, box = 1, box.copy()
                box[rows_of_six], score[rows_of_six] = (
                    self.columns[rows_of_six, 1:],
                    self.columns[rows_of_six, 0],
                )

        def describe_score(cells: list[Cell]) -> dict[str, Any]:
            column, value = cells[score_position] if len(cells) > abs(score_position) else (0, b"")
            return {"column": column, "field": "score", "value": value}

        def describe_joined(cells: list[Cell]) -> dict[str, Any]:
            shown = f"{len(cells)} values, as of {len(cells) // size} rows (was a line break lost?)"
            expected = "a class id and 4 numbers" + (", and a confidence" if is_det else "")
            column = cells[size][0] if len(cells) > size else 0
            return {"column": column, "expected": expected, "found": Trusted(shown)}

        def describe_odd_count(cells: list[Cell]) -> dict[str, Any]:
            expected = "a class id and 4 numbers, or pairs of coordinates"
            return {"expected": expected, "found": f"{len(cells)} values"}

        def describe_far(cells: list[Cell]) -> dict[str, Any]:
            for i, (column, value) in enumerate(cells[2:6] if is_second and len(cells) == 6 else cells[1:]):
                if not 1 - FAR <= float(value) <= FAR:
                    field = _BOX_FIELDS[i] if len(cells) <= 6 else ""
                    return {"column": column, "field": field, "value": value}
            return {"value": b""}

        self.report(WRONG_COUNT, is_joined, describe_joined)
        if is_det:
            self.report(SCORE_MISSING, ~has_score & ~is_joined, lambda _: {})
            is_outside = has_score & ~is_joined & ~((score >= 0) & (score <= 1))
            self.report(SCORE_RANGE, is_outside, describe_score)
            is_valid = has_score & ~is_joined & ~is_outside
        else:
            is_outline = has_score & self.is_outline & ~is_joined
            self.report(WRONG_COUNT, is_outline, describe_odd_count)
            self.report(SCORE_UNEXPECTED, has_score & ~is_outline & ~is_joined, describe_score)
            is_valid = ~has_score & ~is_joined
        is_far = is_valid & np.where(self.is_outline, self.is_far, are_far(box))
        self.report(RELATIVE_RANGE, is_far, describe_far)
        return is_valid & ~is_far, box, score

    def _is_second(self, rows_of_six: NDArray[Any], conf_column: str | None) -> bool:
        """Whether the confidence is the second column of these rows of six values.

        `conf_column` decides if given. Else it is where more rows have it in 0..1 and their box in the image,
        the last column in a tie, and that is noted.
        """
        if conf_column is not None or not len(rows_of_six):
            return conf_column == "second"
        values, n = self.columns[rows_of_six], len(rows_of_six)
        n_last = int((_lies_in_image(values[:, :4]) & (values[:, 4] >= 0) & (values[:, 4] <= 1)).sum())
        n_second = int((_lies_in_image(values[:, 1:]) & (values[:, 0] >= 0) & (values[:, 0] <= 1)).sum())
        if n_last == n_second == n:
            row = [f"{v:.6g}" for v in values[0].tolist()]
            note = (
                "the confidence is read from the last column, although the second is also possible. "
                f"The first row is read as confidence {row[4]} and box {' '.join(row[:4])}, not as "
                f"confidence {row[0]} and box {' '.join(row[1:])} (otherwise use --conf-column second)"
            )
        else:
            column, n_plausible, n_other_way = (
                ("second", n_second, n_last) if n_second > n_last else ("last", n_last, n_second)
            )
            note = (
                f"the confidence is read from the {column} column, because {n_plausible} of {n} rows are "
                f"plausible that way and {n_other_way} the other way (otherwise use --conf-column)"
            )
        self.log.note(f"{printable(self.plan.source.path)}: {note}")
        return n_second > n_last

    def make_corners(self, is_valid: NDArray[np.bool_], box: Floats) -> tuple[Floats, Floats]:
        """Relative edges (m, 4), and width and height (m, 2), of the m valid boxes."""
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
        a number beyond the names, or with a refused name, have no class; of `is_valid` rows it is reported.
        """
        plan, builder, log, hint = self.plan, self.builder, self.log, ""
        used_ids = self.id[is_valid]
        if plan.names_above is not None:
            path, names = plan.names_above
            # A description is what a trainer goes by; a list may belong to other labels.
            has_all_names = not len(used_ids) or int(used_ids.max()) < len(names)
            if has_all_names or path.lower().endswith((".yaml", ".yml")):
                plan.names_from, plan.names = plan.names_above
                log.note(f"{printable(plan.source.path)}: class names are from {printable(path)}")
            else:
                hint = f" ({printable(path)} has fewer names)"
        if plan.names is None:
            ids = np.unique(used_ids)
            builder.named = False
            for class_id in ids.tolist():
                builder.category(str(class_id), source_id=class_id)
            if len(ids) and plan.is_sound:
                shown = first_few(ids, 10)
                log.report(NUMBERED_CLASSES, plan.source.path, value=shown, near=Trusted(hint))
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

    def report_outlines(self, is_valid: NDArray[np.bool_]) -> None:
        """Report the outlines that are read as their boxes, and count them in ``builder.extras``."""
        outline_rows = np.flatnonzero(is_valid & self.is_outline)
        # a class and four corners, perhaps with a confidence
        n_rotated = int(((self.n_values[outline_rows] == 9) | (self.n_values[outline_rows] == 10)).sum())
        if n_rotated:
            self.builder.extras["rotation"] = n_rotated
        if n_rotated < len(outline_rows):
            self.builder.extras["segmentation"] = len(outline_rows) - n_rotated
        noun = "rotated boxes" if n_rotated == len(outline_rows) else "outlines" if n_rotated else "polygons"
        if not n_rotated and may_be_points(self._locations.source, list(self._locations.files)):
            noun += " (if they are boxes with keypoints, set kpt_shape in data.yaml)"
        values = {"n": len(outline_rows), "total": int(is_valid.sum()), "what": Trusted(noun)}
        self._locations.report(self.log, OUTLINES, outline_rows[:1], lambda _: values)


def _split_rows(
    chunk: Chunk, n_point_numbers: int, track_parities: frozenset[int], wants_points: bool
) -> tuple[tuple[NDArray[Any], ...], Floats, NDArray[Any]]:
    """Split a chunk of label files into columns, and report nothing.

    `n_point_numbers` keypoint numbers follow a box, and `track_parities` are those of `find_tracks`. Returns
    the columns of `ParsedRows` for the valid rows, their shape values if `wants_points`, and the numbers of
    the faulty rows.
    """
    n = len(chunk.first)
    track = _find_track_ids(chunk, n_point_numbers, track_parities) if track_parities else np.full(n, NO_ID)
    n_values = chunk.count - (track != NO_ID)
    is_sound = n_values >= 5
    ids = np.full(n, np.nan)
    columns = np.full((n, 5), np.nan)
    is_outline, is_far, is_box = np.zeros((3, n), bool)
    may_be_joined = np.zeros((n, 2), bool)
    value_parts: list[tuple[NDArray[Any], NDArray[Any], Floats]] = []
    # Rows of boxes: a class, a box, perhaps keypoints, perhaps a confidence. All other rows are outlines.
    for size in dict.fromkeys((5, 6, 5 + n_point_numbers, 6 + n_point_numbers)):
        rows = np.flatnonzero(n_values == size)
        if not len(rows):
            continue
        is_box[rows] = True
        positions = np.arange(5) if size in {5, 5 + n_point_numbers} else np.array([0, 1, 2, 3, 4, size - 1])
        if with_points := wants_points and size > 6:
            positions = np.arange(size)
        values, not_numbers = chunk.parse_numbers((chunk.first[rows, None] + positions).ravel())
        table = values.reshape(len(rows), len(positions))
        if with_points:
            points = table[:, 5 : 5 + n_point_numbers]
            table = np.delete(table, np.arange(5, 5 + n_point_numbers), axis=1)
            value_parts.append((rows, np.full(len(rows), n_point_numbers), points.ravel()))
        ids[rows] = table[:, 0]
        columns[rows, : table.shape[1] - 1] = table[:, 1:]
        is_finite = are_all_true(np.isfinite(table[:, 1:5]))
        if table.shape[1] == 6:
            is_finite &= np.isfinite(table[:, 5])
        if with_points:
            is_finite &= np.isfinite(points).all(axis=1)
        is_finite[not_numbers // len(positions)] = False  # the rows of these values
        is_sound[rows] = is_finite
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
    sound_rows = np.flatnonzero(is_sound)
    columns_of_rows = (
        columns, is_outline, is_far, n_values.astype(np.int32), may_be_joined, track, n_shape_values,
        chunk.file, chunk.line,
    )  # fmt: skip
    row_columns = ids[sound_rows].astype(np.int64), *(column[sound_rows] for column in columns_of_rows)
    return row_columns, values, np.flatnonzero(~is_sound)


def _join_values(
    value_parts: list[tuple[NDArray[Any], NDArray[Any], Floats]], is_sound: NDArray[np.bool_]
) -> tuple[Longs, Floats]:
    """Sort values by row: (n,) how many each row has, and all values of the rows where `is_sound`, (n,).

    Each of `value_parts` is (rows, how many values each of these rows has, these values).
    """
    n_shape_values = np.zeros(len(is_sound), np.int64)
    if not value_parts:
        return n_shape_values, np.zeros(0)
    for rows, n, _ in value_parts:
        n_shape_values[rows] = n
    row_of_value = np.concatenate([np.repeat(rows, n) for rows, n, _ in value_parts])
    values = np.concatenate([v for *_, v in value_parts])[order := np.argsort(row_of_value, kind="stable")]
    return n_shape_values, values[is_sound[row_of_value[order]]]


def _find_track_ids(chunk: Chunk, n_point_numbers: int, track_parities: frozenset[int]) -> Longs:
    """Return (n,) the track id at the end of each row, `NO_ID` for none; see `find_tracks` for parities."""
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
    confidence, (m,) whether it may be joined rows of boxes, (m,) how many coordinates it has, and these
    coordinates one after another.
    """
    n_values = n_values - 1
    # Rows of 3 and 2 values: n_values 3 2, row_starts 0 3, row_of_value 0 0 0 1 1, rank_in_row 0 1 2 0 1.
    row_starts = np.cumsum(n_values) - n_values
    token_rows = np.repeat(chunk.first[rows] + 1 - row_starts, n_values) + np.arange(int(n_values.sum()))
    values, not_numbers = chunk.parse_numbers(token_rows)
    values[not_numbers] = np.nan
    row_of_value = np.repeat(np.arange(len(rows)), n_values)
    is_sound = np.ones(len(rows), bool)
    is_sound[row_of_value[~np.isfinite(values)]] = False
    rank_in_row = np.arange(len(values)) - row_starts[row_of_value]
    has_score = n_values % 2 == 1
    is_score = has_score[row_of_value] & (rank_in_row == n_values[row_of_value] - 1)
    columns = np.full((len(rows), 5), np.nan)
    columns[has_score, 4] = values[is_score]
    may_be_joined = np.zeros((len(rows), 2), bool)
    is_whole = values == np.rint(values)
    for k, size in enumerate((5, 6)):  # the first value of each row in the line would be an id
        may_be_joined[:, k] = (n_values + 1) % size == 0
        may_be_joined[row_of_value[((rank_in_row + 1) % size == 0) & ~is_whole], k] = False
    values = np.where(np.isfinite(values), values, 0)
    coordinates = values[~is_score]
    n_coordinates = n_values - has_score
    coordinate_starts = np.cumsum(n_coordinates) - n_coordinates
    xs, ys = coordinates[0::2], coordinates[1::2]  # x y x y; the length of every row is even
    columns[:, 0], columns[:, 2] = (
        np.minimum.reduceat(xs, coordinate_starts // 2),
        np.maximum.reduceat(xs, coordinate_starts // 2),
    )
    columns[:, 1], columns[:, 3] = (
        np.minimum.reduceat(ys, coordinate_starts // 2),
        np.maximum.reduceat(ys, coordinate_starts // 2),
    )
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


# ------------------------------------------------------------------- what the first files show


def find_tracks(source: Source, files: list[str], n_point_numbers: int, *, is_det: bool) -> frozenset[int]:
    """Find from the first files which rows end in the id of a track, as `yolo track` writes them.

    Returns the parities, 1 or 0, of the number of values after the box and its `n_point_numbers`. Rows with
    an odd number, 1, end in an id where others have a confidence; those with an even number, 0, in a
    confidence and an id where others have the corners of an outline. An id is a whole number from 1, and no
    file has one twice. More than half of all rows have one.
    """
    rows_by_parity: dict[int, list[tuple[str, list[float]]]] = {0: [], 1: []}
    n_rows = 0
    for file, row in _sample_rows(source, files):
        n_rows += 1
        n_extra = len(row) - 5 - n_point_numbers
        if n_extra > 0:
            rows_by_parity[n_extra % 2].append((file, row))
    rows_by_parity = {
        parity: rows
        for parity, rows in rows_by_parity.items()
        if rows and _are_tracks(rows, parity, is_det=is_det)
    }
    return frozenset(rows_by_parity if 2 * sum(map(len, rows_by_parity.values())) > n_rows else ())


def _are_tracks(rows: list[tuple[str, list[float]]], parity: int, *, is_det: bool) -> bool:
    """Whether the last values of rows, each with its file, are track ids; `parity` as in `find_tracks`."""
    ids = {(file, row[-1]) for file, row in rows}
    if len(ids) < len(rows) or not all(id_ >= 1 and id_ % 1 == 0 for _, id_ in ids):
        return False
    if any(id_ > 1 for _, id_ in ids):
        return parity == 1 or all(0 <= row[-2] <= 1 for _, row in rows)
    # One object in every file, or a confidence of 1, or an outline that ends at the edge of the image.
    if parity == 1:
        return not is_det and len(rows) > 1
    # A class, a box, a confidence and an id: the box lies in the image.
    return all(len(row) == 7 and 0 <= row[5] <= 1 for _, row in rows) and all(
        abs(row[k] - 0.5) + row[k + 2] / 2 <= 0.5 + _NEAR for _, row in rows for k in (1, 2)
    )


def guess_point_layout(source: Source, files: list[str], kind: str | None) -> tuple[int, int]:
    """Return how many keypoint numbers follow a box, and how many each point has, for rows with keypoints.

    Of the possible readings, 2 or 3 numbers a point, with or without a confidence at the end, that with most
    points in their boxes wins, then the first. 0 numbers if rows differ in length.
    """
    table = _sample_table(source, files)
    best = 0.0, 0, 3  # the share of points in boxes, n, numbers per point
    if table is None:
        return best[1:]
    for n_scores, numbers_per_point in ((0, 3), (0, 2), (1, 3), (1, 2)):
        n = table.shape[1] - 5 - n_scores
        # Ground truth has no confidence, and detections have one.
        if n <= 0 or n % numbers_per_point or n_scores == {"gt": 1, "det": 0}.get(kind or ""):
            continue
        points = table[:, 5 : 5 + n].reshape(len(table), -1, numbers_per_point)
        is_inside = _find_inside(table[:, 1:5], points)
        if numbers_per_point == 3:
            is_inside = (is_inside | (points[:, :, 2] <= 0)) & (points[:, :, 2] <= 2)
        best = max(best, (float(is_inside.mean()), n, numbers_per_point), key=lambda reading: reading[0])
    return best[1:]


def find_key_points(source: Source, files: list[str], kind: str | None = None) -> int:
    """Guess how many numbers of keypoints follow each box, from the first files; 0 if rows have none.

    All rows must have the same length, every third number must be 0, 1 or 2, and each box must hold the
    points that are visible: a polygon has no such rows. In detections, of two points and more, every third
    number and the last one are confidences, and nearly all points that are likely must lie in their box.
    """
    table = _sample_table(source, files)
    if table is None or table.shape[1] < 8 or (n_scores := (table.shape[1] - 5) % 3) > 1:
        return 0
    n = table.shape[1] - 5 - n_scores
    points = table[:, 5 : 5 + n].reshape(len(table), -1, 3)
    is_inside, third_numbers = _find_inside(table[:, 1:5], points), points[:, :, 2]
    if not n_scores:
        is_visible = third_numbers > 0
        return (
            n
            if np.isin(third_numbers, (0, 1, 2)).all() and is_visible.any() and is_inside[is_visible].all()
            else 0
        )
    is_likely = third_numbers > 0.5
    if kind == "gt" or n < 6 or len(table) < _ROWS or not is_likely.any():
        return 0
    rates = np.column_stack([third_numbers, table[:, -1]])
    return n if ((rates >= 0) & (rates <= 1)).all() and is_inside[is_likely].mean() >= 0.9 else 0


def may_be_points(source: Source, files: list[str]) -> bool:
    """Whether rows read as polygons may be boxes with keypoints of two numbers each.

    Several rows must have the same length, and each box must hold all of its points. Rows of 9 or 10 values
    are not taken for it, as they may be the four corners of a rotated box.
    """
    table = _sample_table(source, files)
    if table is None or len(table) < _ROWS or table.shape[1] < 7 or table.shape[1] in (8, 9, 10):
        return False
    if (table.shape[1] - 5) % 2:
        return False
    return bool(_find_inside(table[:, 1:5], table[:, 5:].reshape(len(table), -1, 2)).all())


def _find_inside(box: Floats, points: Floats) -> NDArray[np.bool_]:
    """Return (n, k) True for points, (n, k, 2 or more), that lie in the boxes, (n, 4) centre and size."""
    half_size = (0.5 + _NEAR) * box[:, None, 2:]
    is_near = np.abs(points[:, :, :2] - box[:, None, :2]) <= half_size
    return is_near[:, :, 0] & is_near[:, :, 1]


def _sample_table(source: Source, files: list[str]) -> Floats | None:
    """Return the rows of the first files as (n, k); None if they differ in length or are not all numbers."""
    rows: list[list[float]] = []
    for _, row in _sample_rows(source, files[:_FILES]):
        if len(row) < 7 or (rows and len(row) != len(rows[0])) or not np.isfinite(row[-1]):
            return None
        rows.append(row)
    table = np.array(rows)
    return table if rows and np.isfinite(table).all() else None


def _sample_rows(source: Source, files: list[str]) -> Iterator[tuple[str, list[float]]]:
    """Yield file and numbers of each row of about 50 files, spread evenly; NaN for other values."""
    for file in files[:: max(1, len(files) // _FILES)][:_FILES]:
        text = source.head(file)
        lines = text.split(b"\n")
        for line in lines if len(text) < 2**16 else lines[:-1]:
            if cells := line.split():
                yield file, parse_floats(cells)[0].tolist()
