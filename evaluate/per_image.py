"""Protocols that ask of an image whether something was found on it: CorLoc and top-k errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.matches import Hits, one_bit
from odm.evaluate.order import argsort_int
from odm.evaluate.pairs import Mask, Pairs, best_of_each
from odm.evaluate.protocols import Protocol
from odm.evaluate.sides import Joined
from odm.tables import Ints, Longs


def images_per_class(joined: Joined) -> Longs:
    """(classes,) how many images have ground truth of each class."""
    n_classes = max(len(joined.classes), 1)
    keys = np.unique(joined.truth.image.astype(np.int64) * n_classes + joined.truth.category)
    per_class: Longs = np.bincount(keys % n_classes, minlength=len(joined.classes))
    return per_class


def _best_hits(pairs: Pairs, protocol: Protocol, eligible: Mask) -> tuple[Ints, Ints]:
    """The eligible detections that reach the threshold with any ground truth, and their best one."""
    keep = (pairs.iou >= protocol.ious[0]) & eligible[pairs.det]
    det, gt, iou = pairs.det[keep], pairs.gt[keep], pairs.iou[keep]
    best = best_of_each(det, iou)
    return det[best], gt[best]


def match_top_detections(joined: Joined, protocol: Protocol, pairs: Pairs) -> tuple[Hits, NDArray[np.uint8]]:
    """The best detection of every image and class that has ground truth; all others are ignored."""
    del joined
    top = pairs.rank == 0
    det, gt = _best_hits(pairs, protocol, top)
    return Hits(det, *one_bit(np.ones(len(det), np.bool_), np.zeros(len(det), np.bool_)), gt), top.astype(
        np.uint8
    )


def match_guesses(
    joined: Joined, protocol: Protocol, pairs: Pairs, order: Longs
) -> tuple[Hits, NDArray[np.uint8], Longs]:
    """The best detections of every image with ground truth, whatever their class.

    The first hit of an image and class is a true positive, further ones are ignored, as are the detections
    beyond the guesses.
    """
    assert protocol.max_dets is not None
    detections, n_images = joined.detections, len(joined.images)
    asked = np.zeros(n_images, np.bool_)
    asked[joined.truth.image] = True
    rows = order[asked[detections.image[order]]]
    rows = rows[argsort_int(detections.image[rows], max(n_images, 1))]
    image = detections.image[rows]
    if detections.rank_in_image is None:
        counts = np.bincount(image, minlength=n_images)
        place = np.arange(len(rows)) - (np.cumsum(counts) - counts)[image]
    else:
        place = detections.rank_in_image[rows]
    within = place < protocol.max_dets
    rows, image, place = rows[within], image[within], place[within]

    guess = np.zeros(len(detections), np.bool_)
    guess[rows] = True
    det, gt = _best_hits(pairs, protocol, guess)
    best_gt = np.full(len(detections), -1, np.int32)
    best_gt[det] = gt
    first = np.full((n_images, 2), protocol.max_dets, np.int64)
    hits = best_gt[rows] >= 0
    for column, good in enumerate((pairs.rank[rows] >= 0, hits)):
        first[image[good][::-1], column] = place[good][::-1]
    det = rows[hits].astype(np.int32)
    key = detections.image[det].astype(np.int64) * len(joined.classes) + detections.category[det]
    takes = np.zeros(len(det), np.bool_)
    takes[np.unique(key, return_index=True)[1]] = True
    return Hits(det, *one_bit(takes, ~takes), best_gt[det]), guess.astype(np.uint8), first[asked]
