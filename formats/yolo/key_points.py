"""Rows of pose labels where nothing says how many key points there are: a box, then x, y and visibility."""

from __future__ import annotations

import numpy as np

from odm.files import Source

_FILES = 50
_SLACK = 0.05
"""By how much of the box's size a visible point may lie outside it."""


def find_key_points(source: Source, files: list[str]) -> int:
    """How many numbers follow the box in rows with key points, 0 where the first files show no such rows.

    All rows must have the same length, every third number must be 0, 1 or 2, and each box must hold the
    points that are visible: a polygon has no such rows.
    """
    rows: list[list[float]] = []
    for file in files[:_FILES]:
        text = source.head(file)
        lines = text.split(b"\n")
        for line in lines if len(text) < 2**16 else lines[:-1]:
            cells = line.split()
            if not cells:
                continue
            if len(cells) < 8 or (len(cells) - 5) % 3 or (rows and len(cells) != len(rows[0])):
                return 0
            try:
                rows.append([float(cell) for cell in cells])
            except ValueError:
                return 0
    if not rows:
        return 0
    table = np.array(rows)
    box, points = table[:, 1:5], table[:, 5:].reshape(len(table), -1, 3)
    visible = points[:, :, 2] > 0
    if not (np.isin(points[:, :, 2], (0, 1, 2)).all() and visible.any() and np.isfinite(table).all()):
        return 0
    reach = (0.5 + _SLACK) * box[:, None, 2:]
    inside = (np.abs(points[:, :, :2] - box[:, None, :2]) <= reach).all(axis=2)
    return table.shape[1] - 5 if inside[visible].all() else 0
