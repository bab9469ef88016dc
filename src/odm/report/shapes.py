"""Shapes and keypoints of the boxes on a page: outlines, oriented boxes and masks, packed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.report.columns import HUGE
from odm.tables import Boxes, Dataset, Keypoints, Longs, Shapes

BLANK: dict[str, Any] = {"shape": 0, "points": []}
"""What each column has for a box without shape or without keypoints."""


def make_shape_columns(*sides: tuple[Boxes | None, NDArray[Any]]) -> dict[str, list[Any]]:
    """Return the shapes and keypoints of boxes as a page takes them; empty if there are none.

    Each side has boxes and (n,) rows of these, -1 = the box is of another side, or its shape is not drawn.
    ``shape`` has for each 0, a mask as COCO's compressed text, or outlines: lists of x and y in tenths of a
    pixel, each number the difference from that of the corner before. ``points`` has x, y and visibility of
    keypoints one after the other.
    """
    columns: dict[str, list[Any]] = {}
    for boxes, rows in sides:
        if boxes is None:
            continue
        shapes, points = boxes.shapes, boxes.keypoints
        shown_rows = np.flatnonzero(rows >= 0).tolist()
        if shapes is not None:
            column = columns.setdefault("shape", [BLANK["shape"]] * len(rows))
            for i in shown_rows:
                column[i] = _pack_shape(shapes, int(rows[i]))
        if points is not None:
            column = columns.setdefault("points", [BLANK["points"]] * len(rows))
            for i in shown_rows:
                column[i] = _pack_points(points, int(rows[i]))
    return columns


def _pack_points(points: Keypoints, row: int) -> list[int]:
    """Return the keypoints of a box: x, y, visibility, x, y, ...; x and y in tenths of a pixel."""
    xyv = points.points(row)
    flat: list[int] = np.column_stack([_round_to_tenths(xyv[:, :2]), xyv[:, 2]]).astype(int).ravel().tolist()
    return flat


def _round_to_tenths(xy: NDArray[Any]) -> Longs:
    """Round coordinates to whole tenths of a pixel; NaN becomes 0."""
    tenths: Longs = np.round(np.clip(np.nan_to_num(xy), -HUGE, HUGE) * 10).astype(np.int64)
    return tenths


def _pack_shape(shapes: Shapes, row: int) -> Any:
    """Return the shape of a box as in a column of `make_shape_columns`: text of a mask, outlines, or 0."""
    if text := shapes.counts(row):
        return text.decode("ascii", "replace")
    rings = [
        np.diff(_round_to_tenths(ring), axis=0, prepend=0).ravel().tolist() for ring in shapes.polygons(row)
    ]
    return rings or 0


def collect_skeletons(*sides: Dataset | None) -> dict[str, Any]:
    """Return, by class, the pairs of keypoints that are joined by a line."""
    lines: dict[str, Any] = {}
    for side in sides:
        if side is not None and side.categories.skeleton is not None:
            for name, pairs in zip(side.categories.name, side.categories.skeleton, strict=True):
                if pairs:
                    lines[name] = [list(pair) for pair in pairs]
    return lines
