"""Guess from a sample of YOLO label files which values after the box are keypoints or ids of tracks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from odm.files import Source
from odm.formats._shared.text.tokens import parse_floats
from odm.tables import Floats

_FILES = 50
"""Files in which columns after the box are looked for."""
_ROWS = 3
"""Rows that hardly happen to be alike."""
_NEAR = 0.05
"""By how much of the box's size a visible point may lie outside it."""


def find_tracks(source: Source, files: list[str], n_point_numbers: int, *, is_det: bool) -> frozenset[int]:
    """Find from the first files which rows end in the id of a track, as `yolo track` writes them.

    Returns the parities, 1 or 0, of the number of values after the box and its `n_point_numbers`. Rows with
    an odd number, 1, end in an id where others have a confidence; those with an even number, 0, in a
    confidence and an id where others have the corners of an outline. An id is a whole number from 1, and no
    file has one twice. More than half of all rows have one.
    """
    rows_by_parity: dict[int, list[tuple[str, list[float]]]] = {0: [], 1: []}  # each with its file
    n_rows = 0
    for file, row in _sample_rows(source, files):
        n_rows += 1
        n_extra = len(row) - 5 - n_point_numbers
        if n_extra > 0:
            rows_by_parity[n_extra % 2].append((file, row))
    parities = [
        parity for parity, rows in rows_by_parity.items() if rows and _are_tracks(rows, parity, is_det=is_det)
    ]
    n_tracked = sum(len(rows_by_parity[parity]) for parity in parities)
    return frozenset(parities if 2 * n_tracked > n_rows else ())


def _are_tracks(rows: list[tuple[str, list[float]]], parity: int, *, is_det: bool) -> bool:
    """Whether the last values of rows, each with its file, are track ids.

    `parity` is 1 for rows that end in an id alone, 0 for those that end in a confidence and an id.
    """
    ids = {(file, row[-1]) for file, row in rows}
    if len(ids) < len(rows) or not all(id_ >= 1 and id_ % 1 == 0 for _, id_ in ids):
        return False
    if any(id_ > 1 for _, id_ in ids):
        return parity == 1 or all(0 <= row[-2] <= 1 for _, row in rows)
    # All are 1: one object in every file, or a confidence, or an outline that ends at the edge of the image.
    if parity == 1:
        return not is_det and len(rows) > 1
    # A class, a box, a confidence and an id, where the box, centre and size, lies in the image.
    have_confidence = all(len(row) == 7 and 0 <= row[5] <= 1 for _, row in rows)
    return have_confidence and all(
        abs(row[k] - 0.5) + row[k + 2] / 2 <= 0.5 + _NEAR for _, row in rows for k in (1, 2)
    )


def guess_point_layout(source: Source, files: list[str], kind: str | None) -> tuple[int, int]:
    """Return how many keypoint numbers follow a box, and how many each point has, for rows with keypoints.

    Of the possible readings, 2 or 3 numbers a point, with or without a confidence at the end, that with most
    points in their boxes wins, then the first. 0 numbers if rows differ in length.
    """
    table = _sample_table(source, files)  # class, centre and size, then the numbers
    best_share, best_n, best_numbers_per_point = 0.0, 0, 3
    if table is None:
        return best_n, best_numbers_per_point
    # Ground truth has no confidence, and detections have one; of an unknown kind both are tried.
    excluded_n_scores = {"gt": 1, "det": 0}.get(kind or "")
    for n_scores, numbers_per_point in ((0, 3), (0, 2), (1, 3), (1, 2)):
        n = table.shape[1] - 5 - n_scores
        if n <= 0 or n % numbers_per_point or n_scores == excluded_n_scores:
            continue
        points = table[:, 5 : 5 + n].reshape(len(table), -1, numbers_per_point)
        is_inside = _find_inside(table[:, 1:5], points)
        if numbers_per_point == 3:
            visibility = points[:, :, 2]  # 0, 1 or 2; a point of 0 may lie anywhere
            is_inside = (is_inside | (visibility <= 0)) & (visibility <= 2)
        share = float(is_inside.mean())
        if share > best_share:
            best_share, best_n, best_numbers_per_point = share, n, numbers_per_point
    return best_n, best_numbers_per_point


def find_key_points(source: Source, files: list[str], kind: str | None = None) -> int:
    """Guess how many numbers of keypoints follow each box, from the first files; 0 if rows have none.

    All rows must have the same length, every third number must be 0, 1 or 2, and each box must hold the
    points that are visible: a polygon has no such rows. In detections, of two points and more, every third
    number and the last one are confidences, and nearly all points that are likely must lie in their box.
    """
    table = _sample_table(source, files)
    if table is None or table.shape[1] < 8:
        return 0
    n_scores = (table.shape[1] - 5) % 3  # after a class, a box and points of three numbers
    if n_scores > 1:
        return 0
    n = table.shape[1] - 5 - n_scores
    points = table[:, 5 : 5 + n].reshape(len(table), -1, 3)
    is_inside, third_numbers = _find_inside(table[:, 1:5], points), points[:, :, 2]
    if not n_scores:
        is_visible = third_numbers > 0
        are_visibilities = np.isin(third_numbers, (0, 1, 2)).all() and is_visible.any()
        return n if are_visibilities and is_inside[is_visible].all() else 0
    # Detections, whose rows end in the confidence of the box. One point, or few rows, may look so by chance.
    is_likely = third_numbers > 0.5
    if kind == "gt" or n < 6 or len(table) < _ROWS or not is_likely.any():
        return 0
    confidences = np.column_stack([third_numbers, table[:, -1]])
    are_in_range = ((confidences >= 0) & (confidences <= 1)).all()
    return n if are_in_range and is_inside[is_likely].mean() >= 0.9 else 0


def may_be_points(source: Source, files: list[str]) -> bool:
    """Whether rows read as polygons may be boxes with keypoints of two numbers each.

    Several rows must have the same length, and each box must hold all of its points. Rows of 9 values are not
    taken for it, as they may be a class and the four corners of a rotated box.
    """
    table = _sample_table(source, files)
    if table is None or len(table) < _ROWS:
        return False
    n_values = table.shape[1]  # of a row: a class, a box and the points
    if n_values < 7 or n_values == 9 or (n_values - 5) % 2:
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
        # a row without keypoints, a row of another length, or one with a word at its end
        if len(row) < 7 or (rows and len(row) != len(rows[0])) or not np.isfinite(row[-1]):
            return None
        rows.append(row)
    table = np.array(rows)
    return table if rows and np.isfinite(table).all() else None


def _sample_rows(source: Source, files: list[str]) -> Iterator[tuple[str, list[float]]]:
    """Yield file and numbers of each row of about 50 files, spread evenly; NaN for other values.

    Only the beginning of a long file is read, without its last line, which may be cut.
    """
    for file in files[:: max(1, len(files) // _FILES)][:_FILES]:
        text = source.head(file)
        lines = text.split(b"\n")
        for line in lines if len(text) < 2**16 else lines[:-1]:  # 2**16 is the length of a head
            if cells := line.split():
                yield file, parse_floats(cells)[0].tolist()
