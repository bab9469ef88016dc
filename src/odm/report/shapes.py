"""Shapes and key points of the boxes on a page: outlines, oriented boxes and masks, packed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.report.columns import HUGE
from odm.tables import Boxes, Dataset, Longs, Shapes


def shape_columns(
    boxes: Boxes | None, rows: NDArray[Any], drawn: NDArray[np.bool_] | None = None
) -> dict[str, Any]:
    """The shapes and key points of some rows of boxes, as a page takes them; nothing where there are none.

    ``shape`` has for each 0, a mask as COCO's compressed text, or outlines: lists of x and y in tenths of a
    pixel, each number the difference from that of the corner before. ``points`` has x, y and visibility of
    key points one after the other. Only those of `drawn` (n,) are taken.
    """
    found: dict[str, Any] = {}
    if boxes is None:
        return found
    taken = [-1 if drawn is not None and not drawn[i] else row for i, row in enumerate(rows.tolist())]
    shapes, points = boxes.shapes, boxes.keypoints
    if shapes is not None:
        found["shape"] = [_shape(shapes, row) if row >= 0 else 0 for row in taken]
    if points is not None:
        flat = [_tenths(points.points(row)[:, :2]) if row >= 0 else None for row in taken]
        seen = [points.points(row)[:, 2] for row in rows.tolist()]
        found["points"] = [
            [] if xy is None else np.column_stack([xy, v]).astype(int).ravel().tolist()
            for xy, v in zip(flat, seen, strict=True)
        ]
    return found


def _tenths(xy: NDArray[Any]) -> Longs:
    whole: Longs = np.round(np.clip(np.nan_to_num(xy), -HUGE, HUGE) * 10).astype(np.int64)
    return whole


def _shape(shapes: Shapes, row: int) -> Any:
    if text := shapes.counts(row):
        return text.decode("ascii", "replace")
    rings = [np.diff(_tenths(ring), axis=0, prepend=0).ravel().tolist() for ring in shapes.polygons(row)]
    return rings or 0


def skeletons(*sides: Dataset | None) -> dict[str, Any]:
    """By class the pairs of key points that are joined by a line."""
    found: dict[str, Any] = {}
    for side in sides:
        if side is not None and side.categories.skeleton is not None:
            pairs = zip(side.categories.name, side.categories.skeleton, strict=True)
            found |= {name: [list(pair) for pair in own] for name, own in pairs if own}
    return found
