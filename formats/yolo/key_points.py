"""Rows of pose labels with an unknown number of key points: a box, then x, y and visibility."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odm.files import Source
from odm.tables import Floats

_FILES = 50
_ROWS = 3
"""Rows that hardly happen to be alike."""
_SLACK = 0.05
"""By how much of the box's size a visible point may lie outside it."""


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
    for file in files[:_FILES]:
        text = source.head(file)
        lines = text.split(b"\n")
        for line in lines if len(text) < 2**16 else lines[:-1]:
            cells = line.split()
            if not cells:
                continue
            if len(cells) < 7 or (rows and len(cells) != len(rows[0])):
                return None
            try:
                rows.append([float(cell) for cell in cells])
            except ValueError:
                return None
    table = np.array(rows)
    return table if rows and np.isfinite(table).all() else None
