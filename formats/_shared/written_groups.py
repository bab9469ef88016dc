"""Groups of shapes, written for annotation tools: an object of several outlines is a group of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.formats._shared.items import Image, images_of
from odm.tables import Boxes, Dataset, ShapeKind


def images_with_groups(dataset: Dataset, least: int) -> Iterator[Image]:
    """Every image with its boxes, one for each outline; their groups are numbers from `least` on."""
    groups = groups_to_write(dataset.boxes, least).tolist()
    for image in images_of(dataset):
        boxes = []
        for box in image.boxes:
            parts = range(max(1, len(box.outlines)))
            boxes += [replace(box, group=groups[box.row], part=part) for part in parts]
        yield image._replace(boxes=boxes)


def groups_to_write(boxes: Boxes, least: int) -> NDArray[np.int64]:
    """(n,) the group of each box in its image, below `least` = none.

    An object of several outlines without a group gets a new one. Where `least` is 1 and an image has a group
    0, all its groups move up by one.
    """
    n_images = int(boxes.image.max(initial=-1)) + 1
    group = np.full(len(boxes), -1, np.int64) if boxes.group is None else boxes.group.astype(np.int64)
    low, top = np.full(n_images, least), np.full(n_images, least - 1)
    np.minimum.at(low, boxes.image[group >= 0], group[group >= 0])
    group[group >= 0] += (least - low)[boxes.image[group >= 0]]
    np.maximum.at(top, boxes.image, group)
    if boxes.shapes is not None:
        several = (boxes.shapes.kind == ShapeKind.POLYGONS) & (np.diff(boxes.shapes.ring) > 1) & (group < 0)
        rows = np.flatnonzero(several)
        rows = rows[np.argsort(boxes.image[rows], kind="stable")]
        image = boxes.image[rows]
        # image 3 3 5 5 5, first 0 0 2 2 2: arange - first = 0 1 0 1 2
        group[rows] = top[image] + 1 + np.arange(len(rows)) - np.searchsorted(image, image)
    return np.where(group < least, least - 1, group)
