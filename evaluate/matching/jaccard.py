"""The Jaccard index (JI) of crowds: each image's pairs, of all that it has to pair.

Above a score the detections of an image and its objects become pairs, so that their IoUs have the greatest
sum; the ratio of an image is that of the pairs to all objects and detections together. What is not in a pair
and lies in something ignored does not count.
"""

from __future__ import annotations

import importlib.util

import numpy as np
from msgspec.structs import replace

from odm.evaluate.matching.order import first_of_runs
from odm.evaluate.matching.pairs import Pairs, find_pairs
from odm.evaluate.matching.sides import Joined, Mask
from odm.evaluate.scores.protocols import Protocol
from odm.tables import Floats, Ints, Longs

_ADDED = 1e-6
"""What CrowdDet adds to the denominator."""


def can_pair() -> bool:
    """Whether SciPy is there, which finds the pairs."""
    return importlib.util.find_spec("scipy") is not None


def jaccard_ratios(sides: Joined, protocol: Protocol, pairs: Pairs) -> Floats:
    """Compute the ratio of each image above each score of `Protocol.jaccard`.

    Parameters
    ----------
    sides
        Prepared sides, boxes ordered by image.
    protocol
        The rules; of its thresholds the first counts.
    pairs
        All pairs of the sides that reach it.

    Returns
    -------
    ndarray of float64
        (images, limits); NaN where an image has nothing to pair, and everywhere without SciPy.
    """
    n_images = len(sides.images)
    ratios = np.full((n_images, len(protocol.jaccard)), np.nan)
    if not can_pair():
        return ratios
    truth, detections, least = sides.truth, sides.detections, protocol.least[0]
    is_object = ~protocol.crowds(truth.flags)
    is_covered = np.zeros(len(detections), np.bool_)
    edges: list[tuple[Ints, Ints, Floats]] = []
    for piece in pairs.pieces():
        of_object = is_object[piece.gt]
        is_covered[_covered(piece, ~of_object, least)] = True
        edge = of_object & (piece.iou >= least)
        edges.append((piece.det[edge], piece.gt[edge], piece.iou[edge]))
    det, gt, iou = (np.concatenate(column) for column in zip(*edges, strict=True))
    by_image = np.argsort(detections.image[det], kind="stable")
    det, gt, iou = det[by_image], gt[by_image], iou[by_image]

    objects = np.flatnonzero(is_object)
    ignored = truth.take(np.flatnonzero(~is_object))
    alone = replace(sides, truth=ignored, detections=truth.take(objects))
    gt_covered = np.zeros(len(truth), np.bool_)
    for piece in find_pairs(alone, protocol, protocol.ious[0], np.arange(len(objects))).pieces():
        gt_covered[objects[_covered(piece, np.ones(len(piece.gt), np.bool_), least)]] = True

    for i, limit in enumerate(protocol.jaccard):
        kept = detections.score > limit
        edge = kept[det]
        paired = _pair(detections.image[det[edge]], det[edge], gt[edge], iou[edge])
        det_counts, gt_counts = kept & ~is_covered, is_object & ~gt_covered
        det_counts[det[edge][paired]] = gt_counts[gt[edge][paired]] = True
        k, n, m = (
            np.bincount(image, minlength=n_images)
            for image in (
                detections.image[det[edge][paired]],
                detections.image[det_counts],
                truth.image[gt_counts],
            )
        )
        some = m + n > 0
        ratios[some, i] = (k / (m + n - k + _ADDED))[some]
    return ratios


def jaccard_index(ratios: Floats, weights: Longs | None = None) -> Floats:
    """(weightings,) the highest mean of (images, limits) ratios; `weights` are (weightings, images).

    NaN where no image has anything to pair.
    """
    times = np.ones((1, len(ratios)), np.int64) if weights is None else weights
    n = times @ ~np.isnan(ratios)
    sums = times @ np.nan_to_num(ratios)
    means = np.divide(sums, n, out=np.full(sums.shape, -np.inf), where=n > 0)
    highest: Floats = means.max(axis=1)
    return np.where(np.isfinite(highest), highest, np.nan)


def _covered(pairs: Pairs, by_ignored: Mask, least: float) -> Ints:
    """The detections that lie in something ignored."""
    if pairs.ioa is None:
        return pairs.det[:0]
    return pairs.det[by_ignored & (pairs.ioa >= least)]


def _pair(image: Ints, det: Ints, gt: Ints, iou: Floats) -> Longs:
    """The edges of the greatest sum of IoUs of each image; all columns are (edges,), ordered by image."""
    from scipy.optimize import linear_sum_assignment  # an extra

    of_object, is_decided = _pair_stars(gt, det, iou)
    left = np.flatnonzero(~is_decided)
    of_detection, is_decided = _pair_stars(det[left], gt[left], iou[left])
    paired = [of_object, left[of_detection]]
    left = left[~is_decided]
    image, det, gt, iou = image[left], det[left], gt[left], iou[left]
    first = first_of_runs(image)
    ends = np.append(first[1:], len(image))[: len(first)]
    for start, stop in zip(first.tolist(), ends.tolist(), strict=True):
        (d, row), (g, column) = (np.unique(ids[start:stop], return_inverse=True) for ids in (det, gt))
        gains = np.zeros((len(d), len(g)))
        edge_at = np.full(gains.shape, -1)
        gains[row, column] = iou[start:stop]
        edge_at[row, column] = np.arange(start, stop)
        chosen = edge_at[linear_sum_assignment(gains, maximize=True)]
        paired.append(left[chosen[chosen >= 0]])
    return np.concatenate(paired)


def _pair_stars(centre: Ints, leaf: Ints, iou: Floats) -> tuple[Longs, Mask]:
    """Return the pairs of boxes whose others have no other edge, and (edges,) which edges that decides.

    Such a box is paired with the one of the highest IoU. Where two have it, nothing is decided.
    """
    most = np.zeros(int(centre.max(initial=-1)) + 1, np.int64)
    np.maximum.at(most, centre, np.bincount(leaf)[leaf])
    edges = np.flatnonzero(most[centre] == 1)
    edges = edges[np.lexsort((-iou[edges], centre[edges]))]
    first = first_of_runs(centre[edges])
    second = np.minimum(first + 1, max(len(edges) - 1, 0))
    is_tied = np.diff(first, append=len(edges)) > 1
    is_tied &= iou[edges[second]] == iou[edges[first]]
    decided = np.zeros(len(most), np.bool_)
    decided[centre[edges[first[~is_tied]]]] = True
    is_decided: Mask = decided[centre] & (most[centre] == 1)
    return edges[first[~is_tied]], is_decided
