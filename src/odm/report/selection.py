"""Which images a report shows, where it does not show all of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from odm.tables import Longs

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


def by_cell(keys: Iterable[Hashable], images: Iterable[int], most: int = 12) -> dict[Hashable, list[int]]:
    """The first distinct images of every key, at most so many."""
    cells: dict[Hashable, list[int]] = {}
    for key, image in zip(keys, images, strict=True):
        found = cells.setdefault(key, [])
        if len(found) < most and image not in found:
            found.append(image)
    return cells
