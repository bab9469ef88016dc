"""Groups of boxes: which boxes of a group are the parts of one object. Readers join them; converters ask."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
RIM = 1.0
"""Pixels by which the outlines of an object may reach beyond the rectangle around them."""


def find_objects(
    image: NDArray[Any], category: NDArray[Any], group: NDArray[Any], is_part: Mask, is_box: Mask, xyxy: Any
) -> list[tuple[list[int], int]]:
    """Find the boxes that are one object: the outlines and masks of one image, class and group.

    The smallest rectangle of that group and class that goes around them all is the box of the object. Other
    boxes stay apart. All columns are (n,), `xyxy` (n, 4); `group` is -1 for none, `is_part` and `is_box` are
    masks of the outlines and masks, and of the rectangles without a shape. Returns the rows of each object of
    several boxes, ascending, and of them the one that is its box, -1 = none.
    """
    rows_by_group: dict[tuple[Any, ...], list[int]] = {}
    for row in np.flatnonzero((group >= 0) & (is_part | is_box)).tolist():
        rows_by_group.setdefault((image[row], category[row], group[row]), []).append(row)
    objects = []
    for rows in rows_by_group.values():
        parts = [row for row in rows if is_part[row]] if len(rows) > 1 else []
        if not parts:
            continue
        # A box goes around all parts if its left, top, -right and -bottom are no larger than these.
        inner = np.concatenate([xyxy[parts, :2].min(axis=0) + RIM, RIM - xyxy[parts, 2:].max(axis=0)])
        boxes = [row for row in rows if is_box[row] and (xyxy[row] * [1, 1, -1, -1] <= inner).all()]
        box = min(boxes, key=lambda i: np.prod(xyxy[i, 2:] - xyxy[i, :2]), default=-1)
        members = sorted({*parts, box} - {-1})
        if len(members) > 1:
            objects.append((members, box))
    return objects
