"""What the first files show about columns after the box: key points (x, y and visibility), and tracks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from odm.files import Source
from odm.formats._shared.text_tokens import floats
from odm.tables import Floats

_FILES = 50
_ROWS = 3
"""Rows that hardly happen to be alike."""
_SLACK = 0.05
"""By how much of the box's size a visible point may lie outside it."""


def find_tracks(source: Source, files: list[str], after_box: int, *, is_det: bool) -> frozenset[int]:
    """Which rows end in the id of a track, as `yolo track` writes them, from what the first files show.

    1 stands for rows with an odd number of values after the box and its `after_box` key points: an id, where
    others have a confidence. 0 stands for those with an even number: a confidence and an id, where others
    have the corners of an outline. An id is a whole number from 1, and no file has one twice. More than
    half of all rows have one.
    """
    found: dict[int, list[tuple[str, list[float]]]] = {0: [], 1: []}
    total = 0
    for file, row in _rows(source, files):
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
        abs(row[k] - 0.5) + row[k + 2] / 2 <= 0.5 + _SLACK for _, row in rows for k in (1, 2)
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
    return table.shape[1] - 5 if _inside(box, points)[visible].all() else 0


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
    return bool(_inside(table[:, 1:5], table[:, 5:].reshape(len(table), -1, 2)).all())


def _inside(box: Floats, points: Floats) -> NDArray[np.bool_]:
    """(n, k) which points of (n, k, 2 or more) lie in the (n, 4) boxes, of centre and size."""
    reach = (0.5 + _SLACK) * box[:, None, 2:]
    near = np.abs(points[:, :, :2] - box[:, None, :2]) <= reach
    return near[:, :, 0] & near[:, :, 1]


def _table(source: Source, files: list[str]) -> Floats | None:
    """The rows of the first files, None if they differ in length or are not finite numbers."""
    rows: list[list[float]] = []
    for _, row in _rows(source, files[:_FILES]):
        if len(row) < 7 or (rows and len(row) != len(rows[0])) or not np.isfinite(row[-1]):
            return None
        rows.append(row)
    table = np.array(rows)
    return table if rows and np.isfinite(table).all() else None


def _rows(source: Source, files: list[str]) -> Iterator[tuple[str, list[float]]]:
    """The rows of some files, spread evenly; NaN for what is not a number."""
    for file in files[:: max(1, len(files) // _FILES)][:_FILES]:
        text = source.head(file)
        lines = text.split(b"\n")
        for line in lines if len(text) < 2**16 else lines[:-1]:
            if cells := line.split():
                yield file, floats(cells)[0].tolist()
