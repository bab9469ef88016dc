"""Each detection takes the best ground truth that is still free: COCO, LVIS and ILSVRC detection."""

from __future__ import annotations

import numpy as np

from odm.evaluate.counting import Truth
from odm.evaluate.matches import Hits, Words, threshold_bits
from odm.evaluate.order import argsort_int
from odm.evaluate.pairs import CEILING, Mask, Pairs, floor_of
from odm.evaluate.protocols import Protocol
from odm.tables import Floats, Ints

MANY_PAIRS = 32
"""With more pairs than this a detection is matched by itself, its pairs not sorted."""


def all_free(truth: Truth) -> list[Words]:
    """Per word the bits under which each ground truth is still free: all of them."""
    n_areas = len(truth.outside)
    return [
        np.full(len(truth.group), threshold_bits(block, n_areas, *block), np.uint64) for block in truth.blocks
    ]


def match_free(pairs: Pairs, protocol: Protocol, truth: Truth, still_free: list[Words] | None = None) -> Hits:
    """Each detection takes the best ground truth that is free, one that counts before one that does not.

    `still_free` is what better detections left, and is changed; without it all ground truths are free.
    """
    still_free = all_free(truth) if still_free is None else still_free
    iou = pairs.iou
    if pairs.ioa is not None:
        iou = np.where(truth.crowd[pairs.gt], pairs.ioa, iou)
    floor = floor_of(protocol)
    keep = np.flatnonzero(iou >= floor)
    det, gt, iou = pairs.det[keep], pairs.gt[keep], iou[keep]
    if not len(det):
        none = np.zeros(0, np.int32)
        words = np.zeros((0, len(truth.blocks)), np.uint64)
        return Hits(none, words, words, none)
    del keep
    # Pairs of each detection by falling IoU, unless there are many.
    new = np.concatenate([[True], det[1:] != det[:-1]])
    first = np.flatnonzero(new)
    n_pairs = np.diff(np.append(first, len(det)))
    several = np.flatnonzero(np.repeat((n_pairs > 1) & (n_pairs <= MANY_PAIRS), n_pairs))
    if len(several):
        owner = np.cumsum(new)[several]
        tie = -gt[several] if protocol.last_of_equals else gt[several]
        moved = several[np.lexsort((tie, -iou[several], owner))]
        gt[several], iou[several] = gt[moved], iou[moved]
    # The round of a detection: its place among the detections with pairs of its image and class.
    # Where neither the detection nor the ground truth has another pair, it need not wait for others.
    rounds = np.zeros(len(first), np.int64)
    waits = np.flatnonzero((n_pairs > 1) | (np.bincount(gt)[gt[first]] > 1))
    if len(waits):
        group = truth.group_key[gt[first[waits]]]
        starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
        rounds[waits] = np.arange(len(group)) - np.repeat(starts, np.diff(np.append(starts, len(group))))
    by_round = argsort_int(rounds, int(rounds.max()) + 1)
    limits = np.concatenate([[0], np.cumsum(np.bincount(rounds))])
    some_many = bool((n_pairs > MANY_PAIRS).any())
    reference = protocol.reference
    chosen = np.full(len(first), -1, np.int32)
    positive = np.zeros((len(first), len(truth.blocks)), np.uint64)
    ignored = np.zeros_like(positive)
    thresholds = np.minimum(protocol.ious, CEILING if protocol.averaged else 1)
    for w, block in enumerate(truth.blocks):
        n_areas = len(truth.outside)
        bits = np.array([threshold_bits(block, n_areas, *block[:n]) for n in range(len(block) + 1)])
        if protocol.size_threshold:
            reaches = bits[(iou >= truth.own_threshold()[gt]).astype(np.int64)]
        else:
            reaches = bits[np.searchsorted(thresholds[block.start : block.stop], iou, side="right")]
        marked = np.uint64(1) << np.uint64(reference - block.start) if reference in block else np.uint64(0)
        nothing = truth.words(block)
        free = still_free[w]
        some_nothing = bool(nothing[gt].any())
        for k in range(len(limits) - 1):
            rows = by_round[limits[k] : limits[k + 1]]
            if some_many:
                for row in rows[n_pairs[rows] > MANY_PAIRS].tolist():
                    own = slice(int(first[row]), int(first[row] + n_pairs[row]))
                    g = gt[own]
                    positive[row, w], ignored[row, w], marks = _take_best(
                        g, iou[own], reaches[own], nothing[g], truth.crowd[g], free, protocol.last_of_equals
                    )
                    for place, takes in marks:
                        if takes & marked:
                            chosen[row] = g[place]
                rows = rows[n_pairs[rows] <= MANY_PAIRS]
                if not len(rows):
                    continue
            starts, counts = first[rows], n_pairs[rows]
            open_ = np.full(len(rows), bits[-1])
            for stage in range(1 + some_nothing):
                for j in range(int(counts.max())):
                    having = np.flatnonzero(counts > j) if j else slice(None)
                    at = starts[having] + j
                    g = gt[at]
                    takes = open_[having] & reaches[at]
                    if stage == 0:
                        takes &= free[g] & ~nothing[g] if some_nothing else free[g]
                        free[g] &= ~takes
                        positive[rows[having], w] |= takes
                    else:
                        takes &= nothing[g]
                        takes &= np.where(truth.crowd[g], bits[-1], free[g])
                        free[g] &= ~takes
                        ignored[rows[having], w] |= takes
                    open_[having] &= ~takes
                    if marked:
                        seen = (takes & marked) != 0
                        chosen[rows[having][seen]] = g[seen]
    return Hits(det[first], positive, ignored, chosen)


def _take_best(
    gt: Ints, iou: Floats, reaches: Words, nothing: Words, many: Mask, free: Words, last: bool
) -> tuple[np.uint64, np.uint64, list[tuple[int, np.uint64]]]:
    """What one detection takes of its pairs, whose ground truths rise: as true positives, and as nothing.

    Also at which of its pairs, and under which bits. Takes from `free`; of equals the `last` or the first.
    """
    taken = [np.uint64(0), np.uint64(0)]
    places: list[tuple[int, np.uint64]] = []
    for stage in range(2):
        if stage == 0:
            able = reaches & free[gt] & ~nothing
        else:
            able = reaches & nothing & ~taken[0]
            able &= np.where(many, ~np.uint64(0), free[gt])
        while len(able_at := np.flatnonzero(able)):
            if last:
                able_at = able_at[::-1]
            at = int(able_at[np.argmax(iou[able_at])])
            takes = able[at]
            taken[stage] |= takes
            free[gt[at]] &= ~takes
            able &= ~takes
            places.append((at, takes))
    return taken[0], taken[1], places
