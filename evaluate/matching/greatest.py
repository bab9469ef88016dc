"""The two that overlap most are a pair, then the two of the rest that do, and so on: spatio-temporal tubes.

`rules.py` states the rule for one pair after the other. Here all pairs are found together that
are the best for both of their ends, and those of the rest in the next round: that gives the same pairs.
"""

from __future__ import annotations

import numpy as np

from odm.evaluate.matching.counting import Truth
from odm.evaluate.matching.matches import Hits, threshold_bits
from odm.evaluate.matching.pairs import Pairs, floor_of
from odm.evaluate.scores.protocols import Protocol
from odm.tables import Longs


def match_greatest(pairs: Pairs, protocol: Protocol, truth: Truth) -> Hits:
    """Pairs of greatest IoU first; of equals the first ground truth, then the best-ranked detection.

    A lower threshold only goes on where a higher one ended, so the pairs of the lowest are those of all.
    """
    keep = np.flatnonzero(pairs.iou >= floor_of(protocol))
    det, gt, iou = pairs.det[keep], pairs.gt[keep], pairs.iou[keep]
    order = np.lexsort((pairs.rank[det], gt, -iou))
    det, gt, iou = det[order], gt[order], iou[order]
    taken = _taken(det.astype(np.int64), gt.astype(np.int64))
    det, gt, iou = det[taken], gt[taken], iou[taken]
    by_det = np.argsort(det, kind="stable")
    det, gt, iou = det[by_det], gt[by_det], iou[by_det]
    hits = Hits.none(det, len(truth.blocks))
    for w, block in enumerate(truth.blocks):
        nothing = truth.words(block)[gt]
        for t in block:
            bit = threshold_bits(block, len(protocol.areas), t)
            reached = np.where(iou >= protocol.ious[t], bit, np.uint64(0))
            hits.positive[:, w] |= reached & ~nothing
            hits.ignored[:, w] |= reached & nothing
    hits.gt[:] = np.where(iou >= protocol.ious[protocol.reference], gt, -1)
    return hits


def _taken(det: Longs, gt: Longs) -> Longs:
    """Which pairs, the best first, are left when each takes both of its ends; ascending."""
    left = np.arange(len(det))
    taken = []
    first_det = np.empty(int(det.max(initial=-1)) + 1, np.int64)
    first_gt = np.empty(int(gt.max(initial=-1)) + 1, np.int64)
    while len(left):
        d, g = det[left], gt[left]
        first_det[d[::-1]] = left[::-1]
        first_gt[g[::-1]] = left[::-1]
        mutual = (first_det[d] == left) & (first_gt[g] == left)
        taken.append(left[mutual])
        # The ends that were taken, by the pair that took them.
        is_taken = np.zeros(len(det), np.bool_)
        is_taken[left[mutual]] = True
        left = left[~(is_taken[first_det[d]] | is_taken[first_gt[g]])]
    return np.sort(np.concatenate(taken)) if taken else left
