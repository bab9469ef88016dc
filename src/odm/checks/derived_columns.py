"""What several rules ask of one dataset."""

from __future__ import annotations

import functools
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from odm.checks.duplicates import CHUNK, NO_ROWS, equal_boxes, nearly_equal_boxes
from odm.tables import Dataset, Floats

RELATIVE = 640
"""Pixels of the side of an image for which a tolerance in pixels is meant where no size is known."""
_TOO_LARGE = 1e100
"""Pixels; products of areas of such numbers can still be held."""


class DerivedColumns:
    """What several rules ask of one dataset, each computed once and only if it is asked for."""

    def __init__(self, dataset: Dataset, tolerance: float, options: Collection[str] = ()) -> None:
        self.dataset = dataset
        self.options = options
        self.boxes = dataset.boxes
        self.tolerance = tolerance / RELATIVE if dataset.relative else tolerance

    @functools.cached_property
    def limits(self) -> Floats:
        """(n_images, 2) width and height, 1 of relative coordinates; unknown ones are infinite."""
        sizes = self.dataset.limits().astype(np.float64)
        sizes[sizes <= 0] = np.inf
        return sizes

    @functools.cached_property
    def sized(self) -> bool:
        """Whether all images with boxes have a size."""
        known = (self.dataset.images.width > 0) & (self.dataset.images.height > 0)
        return bool(known.all() or known[self.boxes.image].all())

    @functools.cached_property
    def suspects(self) -> NDArray[np.intp]:
        """Rows of the boxes that are not plainly inside their image with a positive width and height.

        The arrays are looked at in pieces that stay in the cache; nearly always this is all that is needed.
        """
        boxes, low = self.boxes, -self.tolerance
        width, height = self.limits.T + self.tolerance
        found = []
        for start in range(0, len(boxes), CHUNK):
            piece = slice(start, start + CHUNK)
            left, top, right, bottom = boxes.xyxy[piece].T
            image = boxes.image[piece]
            good = right > left
            good &= bottom > top
            good &= left >= low
            good &= top >= low
            good &= right <= width[image]
            good &= bottom <= height[image]
            given_width, given_height = boxes.wh[piece].T
            good &= given_width >= 0
            good &= given_height >= 0
            good &= given_width + given_height < _TOO_LARGE
            if not good.all():
                found.append(np.flatnonzero(~good) + start)
        return np.concatenate(found) if found else NO_ROWS

    @functools.cached_property
    def not_finite(self) -> NDArray[np.intp]:
        """Rows with an edge, a width, a height or an area that no file can hold."""
        rows = self.suspects
        values = np.concatenate([self.boxes.xyxy[rows], self.boxes.wh[rows]], axis=1)
        wrong = ~(np.abs(values) < _TOO_LARGE).all(axis=1)
        rows = rows[wrong]
        infinite = np.flatnonzero(np.isinf(self.boxes.area))
        return np.union1d(rows, infinite) if len(infinite) else rows

    @functools.cached_property
    def inverted(self) -> NDArray[np.intp]:
        """Rows of finite boxes whose edges are in the wrong order."""
        rows = np.setdiff1d(self.suspects, self.not_finite, assume_unique=True)
        xyxy, wh = self.boxes.xyxy[rows], self.boxes.wh[rows]
        return rows[(xyxy[:, 2:] < xyxy[:, :2]).any(axis=1) | (wh < 0).any(axis=1)]

    @functools.cached_property
    def upright(self) -> NDArray[np.bool_]:
        """(n,) mask of the boxes that are finite and not inverted."""
        mask = np.ones(len(self.boxes), np.bool_)
        mask[self.not_finite] = False
        mask[self.inverted] = False
        return mask

    @functools.cached_property
    def normalised(self) -> bool:
        """Whether the numbers look relative to the size of the image: all in 0..1, and not all whole."""
        xyxy = self.boxes.xyxy
        if self.dataset.relative or len(xyxy) < 3 or not (xyxy[:3] <= 1.01).all() or len(self.inverted):
            return False
        inside = xyxy.max() <= 1.01 and xyxy.min() >= -0.01
        return bool(inside and (xyxy != np.rint(xyxy)).any())

    @functools.cached_property
    def upright_suspects(self) -> NDArray[np.intp]:
        """The suspects that are finite and not inverted."""
        return self.suspects[self.upright[self.suspects]]

    @functools.cached_property
    def beyond(self) -> Floats:
        """By how many pixels each of `upright_suspects` leaves its image at the most, 0 if not at all."""
        rows = self.upright_suspects
        xyxy, size = self.boxes.xyxy[rows], self.limits[self.boxes.image[rows]]
        over: Floats = np.concatenate([-xyxy[:, :2], xyxy[:, 2:] - size], axis=1).max(axis=1, initial=0)
        return over

    @functools.cached_property
    def outside(self) -> NDArray[np.intp]:
        """Rows of the boxes that leave their image by more than the tolerance."""
        return self.upright_suspects[self.beyond > self.tolerance]

    @functools.cached_property
    def duplicates(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows of the boxes that are equal to an earlier one, and the rows of the first such."""
        return equal_boxes(self.dataset, self.not_finite)

    @functools.cached_property
    def near_duplicates(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
        """Rows of the boxes that nearly are an earlier one of their class, the rows of that, and the IoU."""
        usable = self.upright.copy()
        usable[self.duplicates[0]] = False
        return nearly_equal_boxes(self.dataset, usable)
