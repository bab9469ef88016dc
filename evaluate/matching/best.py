"""Each detection goes to its best ground truth, taken or not: VOC, TensorFlow and Open Images.

`rules.py` states the rule for one detection after the other.
"""

from __future__ import annotations

import numpy as np

from odm.evaluate.matching.counting import Truth
from odm.evaluate.matching.matches import Hits, join_hits, threshold_bits
from odm.evaluate.matching.order import best_of_each
from odm.evaluate.matching.pairs import Pairs, floor_of
from odm.evaluate.matching.sides import Mask, SideTable
from odm.evaluate.scores.protocols import Protocol
from odm.tables import Ints


def match_best(pairs: Pairs, protocol: Protocol, truth: Truth) -> Hits:
    """Each detection goes to its best ground truth, even if that is taken: then it is a false positive."""
    plain = ~truth.group[pairs.gt] & (pairs.iou >= floor_of(protocol))
    det, gt, iou = pairs.det[plain], pairs.gt[plain], pairs.iou[plain]
    best = best_of_each(det, iou, last=protocol.last_of_equals)
    det, gt, iou = det[best], gt[best], iou[best]
    hits = Hits.none(det, len(truth.blocks))
    positive, ignored = hits.positive, hits.ignored
    marked = np.zeros(len(det), np.bool_)
    for w, block in enumerate(truth.blocks):
        nothing = truth.words(block)[gt]
        for t in block:
            reaches = np.flatnonzero(iou >= protocol.ious[t])
            bit = threshold_bits(block, len(protocol.areas), t)
            first = reaches[_first_of_each(gt[reaches], len(truth.group))]
            positive[first, w] |= bit & ~nothing[first]
            ignored[reaches, w] |= bit & nothing[reaches]
            if t == protocol.reference:
                marked[reaches] = ignored[reaches, w] & np.uint64(1 << (t - block.start)) != 0
                marked[first] = True
    hits.gt[marked] = gt[marked]
    hits = hits.take(np.flatnonzero((positive | ignored).any(axis=1)))
    return hits if protocol.group_weight is None else _match_groups(pairs, protocol, truth, hits)


def _first_of_each(gt: Ints, n: int) -> Mask:
    """Which of the rows, by image, class and descending score, are the first of their ground truth."""
    taker = np.zeros(n, np.int64)
    taker[gt[::-1]] = np.arange(len(gt))[::-1]
    first: Mask = taker[gt] == np.arange(len(gt))
    return first


def _match_groups(pairs: Pairs, protocol: Protocol, truth: Truth, hits: Hits) -> Hits:
    """Detections that found nothing else go to the group-of box that covers them best."""
    if pairs.ioa is None:
        return hits
    used = np.zeros(len(pairs.rank), np.bool_)
    used[hits.det] = True
    among = truth.group[pairs.gt] & (pairs.ioa >= protocol.ious[0]) & ~used[pairs.det]
    det, gt, ioa = pairs.det[among], pairs.gt[among], pairs.ioa[among]
    best = best_of_each(det, ioa)
    det, gt = det[best], gt[best]
    # A group that counts is one true positive, with the best of its detections.
    takes = _first_of_each(gt, len(truth.group)) & (truth.weight > 0) & ~truth.outside[0][gt]
    return join_hits([hits, Hits.of_one_bit(det, takes, gt)])


def forget_unsure_groups(hits: Hits, truth: Truth, detections: SideTable) -> None:
    """A group-of box whose best detection scores 0 or less is not found, as in the TensorFlow program."""
    unsure = (hits.gt >= 0) & truth.group[hits.gt] & (detections.score[hits.det] <= 0)
    hits.ignored[unsure] |= hits.positive[unsure]
    hits.positive[unsure] = 0
