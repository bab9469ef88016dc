"""Which images a report shows, where it does not show all of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.issues import UsageError
from odm.report.build import Page
from odm.report.columns import HUGE
from odm.report.pictures import Picture
from odm.tables import Floats, Ints, Longs

IMAGES = 200
"""How many images a report shows, unless another number is given."""

RESERVED = 4
"""One in so many images is kept for what the images with the most errors do not show."""


def choose(
    n_images: int,
    weight: Longs,
    cells: Iterable[Mapping[Hashable, Sequence[int]]],
    limit: int,
) -> list[int]:
    """Numbers of at most `limit` images, those of the highest weight first.

    Parameters
    ----------
    n_images
        How many there are.
    weight
        (n_images,) how much there is to see in each.
    cells
        For whatever can be asked for (a class with a kind of error) the images that show it, best first.
        Three quarters of the images are those of the highest weight; the rest is taken from the cells in
        turn, so that few of them are left without an image.
    """
    limit = min(limit, n_images)
    order = np.argsort(-weight, kind="stable").tolist()
    chosen = dict.fromkeys(order[: limit - limit // RESERVED])
    lists = [images for table in cells for images in table.values() if images]
    depth = 0
    while len(chosen) < limit and lists:
        for images in lists:
            if len(chosen) >= limit:
                break
            chosen.setdefault(images[depth])
        depth += 1
        lists = [images for images in lists if len(images) > depth]
    for image in order:
        if len(chosen) >= limit:
            break
        chosen.setdefault(image)
    return sorted(chosen, key=lambda i: (-int(weight[i]), i))


class Shown:
    """The images that a page shows, chosen as `choose` says, and how far their boxes reach.

    ``images`` are their numbers; UsageError if `limit` is below 1.
    """

    def __init__(
        self, n_images: int, weight: Longs, cells: Iterable[Mapping[Hashable, Sequence[int]]], limit: int
    ) -> None:
        if limit < 1:
            raise UsageError(f"report_images {limit}: expected a number of at least 1")
        self.images = choose(n_images, weight, cells, limit)
        self.number: Ints = np.full(max(n_images, 1), -1, np.int32)
        """(n_images,) the number of each on the page, -1 = not shown."""
        self.number[self.images] = np.arange(len(self.images), dtype=np.int32)
        self._extents = np.zeros((len(self.images), 2))

    def boxes(self, image: NDArray[Any], xyxy: Floats) -> Ints:
        """(n,) the numbers on the page of the images of some boxes, whose edges count for `page`."""
        number: Ints = self.number[image]
        own = (number >= 0) & (np.abs(xyxy) < HUGE).all(axis=1)
        np.maximum.at(self._extents, number[own], xyxy[own, 2:])
        return number

    def page(self, kind: str, data: dict[str, Any], pictures: Sequence[Picture]) -> Page:
        """The page of these images; `pictures` are those of all."""
        extents = np.ceil(self._extents).astype(int).tolist()
        return Page(kind, data, [pictures[i] for i in self.images], extents)


def by_cell(keys: Iterable[Hashable], images: Iterable[int], most: int = 12) -> dict[Hashable, list[int]]:
    """The first distinct images of every key, at most so many."""
    cells: dict[Hashable, list[int]] = {}
    for key, image in zip(keys, images, strict=True):
        found = cells.setdefault(key, [])
        if len(found) < most and image not in found:
            found.append(image)
    return cells
