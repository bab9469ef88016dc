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
    """Whether SciPy is installed, which pairs boxes so that the sum of IoUs is the greatest."""
    return importlib.util.find_spec("scipy") is not None


def jaccard_ratios(sides: Joined, protocol: Protocol, pairs: Pairs) -> Floats:
    """(images, limits) the ratio of each image of prepared sides above each score of `Protocol.jaccard`.

    It is NaN where an image has nothing to pair, and everywhere without SciPy. `pairs` are all pairs of the
    sides that reach the first threshold of the protocol, which is the only one that counts.
    """
    n_images = len(sides.images)
    ratios = np.full((n_images, len(protocol.jaccard)), np.nan)
    if not can_pair():
        return ratios

    # The edges that may become pairs, by image, and the detections that something ignored covers.
    truth, detections, iou_min = sides.truth, sides.detections, protocol.least[0]
    is_object = ~protocol.crowds(truth.flags)
    is_covered = np.zeros(len(detections), np.bool_)
    edges: list[tuple[Ints, Ints, Floats]] = []
    for piece in pairs.pieces():
        is_on_object = is_object[piece.gt]
        is_covered[_find_covered(piece, ~is_on_object, iou_min)] = True
        is_edge = is_on_object & (piece.iou >= iou_min)
        edges.append((piece.det[is_edge], piece.gt[is_edge], piece.iou[is_edge]))
    det, gt, iou = (np.concatenate(column) for column in zip(*edges, strict=True))
    by_image = np.argsort(detections.image[det], kind="stable")
    det, gt, iou = det[by_image], gt[by_image], iou[by_image]
    gt_covered = _find_covered_objects(sides, protocol, is_object)

    # Above each limit, the pairs of each image, and all boxes that count there.
    for i, score_limit in enumerate(protocol.jaccard):
        is_above = detections.score > score_limit
        edges_above = np.flatnonzero(is_above[det])
        columns = detections.image[det[edges_above]], det[edges_above], gt[edges_above], iou[edges_above]
        paired_edges = edges_above[_pair_edges(*columns)]
        # Covered boxes do not count, unless they are in a pair.
        det_counts, gt_counts = is_above & ~is_covered, is_object & ~gt_covered
        det_counts[det[paired_edges]] = gt_counts[gt[paired_edges]] = True
        n_paired = np.bincount(detections.image[det[paired_edges]], minlength=n_images)
        n_detections = np.bincount(detections.image[det_counts], minlength=n_images)
        n_objects = np.bincount(truth.image[gt_counts], minlength=n_images)
        has_boxes = n_objects + n_detections > 0
        ratios[has_boxes, i] = (n_paired / (n_objects + n_detections - n_paired + _ADDED))[has_boxes]
    return ratios


def _find_covered_objects(sides: Joined, protocol: Protocol, is_object: Mask) -> Mask:
    """(ground truths,) mask of the objects, under the mask `is_object`, that something ignored covers."""
    truth, objects = sides.truth, np.flatnonzero(is_object)
    # Objects take the part of the detections, and are compared with the ignored ground truths.
    objects_on_ignored = replace(sides, truth=truth.take(~is_object), detections=truth.take(objects))
    is_covered = np.zeros(len(truth), np.bool_)
    any_order = np.arange(len(objects))  # they are not ranked: objects have no scores
    for piece in find_pairs(objects_on_ignored, protocol, protocol.ious[0], any_order).pieces():
        by_ignored = np.ones(len(piece.gt), np.bool_)
        is_covered[objects[_find_covered(piece, by_ignored, protocol.least[0])]] = True
    return is_covered


def jaccard_index(ratios: Floats, weights: Longs | None = None) -> Floats:
    """(weightings,) the Jaccard index: the mean of (images, limits) `ratios` at the best score limit.

    `weights` are (weightings, images) how often each image counts. NaN where no image has anything to pair.
    """
    n_times = np.ones((1, len(ratios)), np.int64) if weights is None else weights
    n_images = n_times @ ~np.isnan(ratios)
    sums = n_times @ np.nan_to_num(ratios)
    means = np.divide(sums, n_images, out=np.full(sums.shape, -np.inf), where=n_images > 0)
    highest: Floats = means.max(axis=1)
    return np.where(np.isfinite(highest), highest, np.nan)


def _find_covered(pairs: Pairs, by_ignored: Mask, ioa_min: float) -> Ints:
    """Return the detections of the pairs under `by_ignored` (pairs,) whose IoA is at least `ioa_min`."""
    if pairs.ioa is None:
        return pairs.det[:0]
    return pairs.det[by_ignored & (pairs.ioa >= ioa_min)]


def _pair_edges(image: Ints, det: Ints, gt: Ints, iou: Floats) -> Longs:
    """Return the rows of the edges that become pairs: of each image those of the greatest sum of IoUs.

    An edge joins a detection and an object that overlap. All columns are (edges,), ordered by image. Boxes
    whose best partner is beyond doubt are paired first, by `_pair_stars`; SciPy decides the rest.
    """
    from scipy.optimize import linear_sum_assignment  # an extra

    pairs_of_objects, is_decided = _pair_stars(gt, det, iou)
    undecided = np.flatnonzero(~is_decided)
    pairs_of_detections, is_decided = _pair_stars(det[undecided], gt[undecided], iou[undecided])
    paired = [pairs_of_objects, undecided[pairs_of_detections]]
    undecided = undecided[~is_decided]
    image, det, gt, iou = image[undecided], det[undecided], gt[undecided], iou[undecided]
    # One image at a time: a table of the undecided detections and objects, with 0 where there is no edge.
    image_starts = first_of_runs(image)
    image_ends = np.append(image_starts[1:], len(image))[: len(image_starts)]  # none if nothing is undecided
    for start, stop in zip(image_starts.tolist(), image_ends.tolist(), strict=True):
        (dets, row), (gts, column) = (np.unique(ids[start:stop], return_inverse=True) for ids in (det, gt))
        gains = np.zeros((len(dets), len(gts)))
        edge_of_cell = np.full(gains.shape, -1)
        gains[row, column] = iou[start:stop]
        edge_of_cell[row, column] = np.arange(start, stop)
        paired_edges = edge_of_cell[linear_sum_assignment(gains, maximize=True)]
        paired.append(undecided[paired_edges[paired_edges >= 0]])
    return np.concatenate(paired)


def _pair_stars(centre: Ints, leaf: Ints, iou: Floats) -> tuple[Longs, Mask]:
    """Pair each centre whose leaves all have this one edge with its leaf of the highest IoU.

    `centre`, `leaf` and `iou` are (edges,). Returns the rows of the edges that become pairs, and (edges,)
    which edges are decided by that. Where two leaves have the highest IoU, nothing is decided.
    """
    # An object with three detections that overlap nothing else is a star: it takes the best of them, and the
    # other two are left. max_degree is, for each centre, the highest number of edges of any of its leaves;
    # 1 = a star.
    max_degree = np.zeros(int(centre.max(initial=-1)) + 1, np.int64)
    np.maximum.at(max_degree, centre, np.bincount(leaf)[leaf])
    leaf_edges = np.flatnonzero(max_degree[centre] == 1)
    leaf_edges = leaf_edges[np.lexsort((-iou[leaf_edges], centre[leaf_edges]))]
    best = first_of_runs(centre[leaf_edges])  # positions in `leaf_edges`, which is by centre and falling IoU
    runner_up = np.minimum(best + 1, max(len(leaf_edges) - 1, 0))
    is_tied = np.diff(best, append=len(leaf_edges)) > 1  # there is a second leaf
    is_tied &= iou[leaf_edges[runner_up]] == iou[leaf_edges[best]]
    is_decided_centre = np.zeros(len(max_degree), np.bool_)
    is_decided_centre[centre[leaf_edges[best[~is_tied]]]] = True
    is_decided: Mask = is_decided_centre[centre] & (max_degree[centre] == 1)
    return leaf_edges[best[~is_tied]], is_decided
