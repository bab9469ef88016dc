"""Boxes as if all were of one class, a bounded number of pairs at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from odm.evaluate.matching.sides import Joined, SideTable
from odm.tables import Longs

AT_A_TIME = 2**20
"""Pairs of detections and ground truths of any class that are looked at together."""


def collapsed(joined: Joined, name: str = "", ranks: Longs | None = None) -> Joined:
    """The same boxes as if all were of one class; those of an image by (classes,) `ranks`, if given."""

    def one(side: SideTable) -> SideTable:
        if ranks is not None:
            side = side.take(np.lexsort((ranks[side.category], side.image)))
        return dataclasses.replace(side, category=np.zeros(len(side), np.int32))

    return dataclasses.replace(
        joined, classes=(name,), truth=one(joined.truth), detections=one(joined.detections)
    )


def parts(joined: Joined) -> Iterator[tuple[int, int, Joined]]:
    """Consecutive images of a bounded number of pairs: first ground truth, first detection, the sides."""
    n_images = len(joined.images)
    edges = np.arange(n_images + 1)
    gt_edge = np.searchsorted(joined.truth.image, edges)
    det_edge = np.searchsorted(joined.detections.image, edges)
    pairs = np.concatenate([[0], np.cumsum(np.diff(gt_edge) * np.diff(det_edge))])
    start = 0
    while start < n_images:
        stop = max(start + 1, int(np.searchsorted(pairs, pairs[start] + AT_A_TIME, side="right")) - 1)
        gt = slice(int(gt_edge[start]), int(gt_edge[stop]))
        det = slice(int(det_edge[start]), int(det_edge[stop]))
        part = dataclasses.replace(
            joined, truth=joined.truth.take(gt), detections=joined.detections.take(det)
        )
        yield gt.start, det.start, part
        start = stop
