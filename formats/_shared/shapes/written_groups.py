"""Write groups of shapes for annotation tools: an object of several outlines becomes a group of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.formats._shared.json.items import Image, iter_images
from odm.tables import Boxes, Dataset, ShapeKind


def iter_group_images(dataset: Dataset, group_min: int) -> Iterator[Image]:
    """Yield every image with a box for each outline of an object; group numbers begin at `group_min`."""
    groups = number_groups(dataset.boxes, group_min).tolist()
    for image in iter_images(dataset):
        boxes = []
        for box in image.boxes:
            parts = range(max(1, len(box.outlines)))  # one without outlines too
            boxes += [replace(box, group=groups[box.row], part=outline_index) for outline_index in parts]
        yield image._replace(boxes=boxes)


def number_groups(boxes: Boxes, group_min: int) -> NDArray[np.int64]:
    """Return (n,) int64, the group of each box: from `group_min` on, or ``group_min - 1`` for none.

    An object of several outlines without a group gets one of its own, after those that there are.
    """
    group = np.full(len(boxes), -1, np.int64) if boxes.group is None else boxes.group.astype(np.int64)
    has_group = group >= 0
    # Groups that begin below `group_min` are all shifted, so that the lowest is `group_min`.
    group[has_group] += group_min - group[has_group].min(initial=group_min)
    if boxes.shapes is not None:
        has_several_rings = np.diff(boxes.shapes.ring) > 1
        is_group = (boxes.shapes.kind == ShapeKind.POLYGONS) & has_several_rings & ~has_group
        group[is_group] = group.max(initial=group_min - 1) + 1 + np.arange(np.count_nonzero(is_group))
    return np.where(group < group_min, group_min - 1, group)
