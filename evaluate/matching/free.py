"""Each detection takes the best ground truth that is still free: COCO, LVIS and ILSVRC detection.

`rules.py` states the rule for one detection after the other. Here the first detections of all
images and classes are matched together, then the second ones, and so on; and all combinations of threshold
and area range at once, a bit each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from odm.evaluate.matching.counting import Truth
from odm.evaluate.matching.matches import Hits, Words, threshold_bits
from odm.evaluate.matching.order import argsort_int, first_of_runs, lengths_of_runs, rank_in_runs
from odm.evaluate.matching.pairs import CEILING, Pairs, floor_of
from odm.evaluate.scores.protocols import Protocol
from odm.tables import Floats, Ints, Longs

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
    candidates = _Candidates.of(pairs, protocol, truth)
    hits = Hits.none(candidates.det, len(truth.blocks))
    if not len(candidates.det):
        return hits
    rounds = list(candidates.rounds(truth))
    for w in range(len(truth.blocks)):
        word = _Word(candidates, truth, protocol, w, still_free[w], hits)
        for rows in rounds:
            word.match(rows)
    return hits


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Candidates:
    """The pairs that reach the lowest threshold; those of a detection by descending IoU, unless many."""

    det: Ints
    """(detections,) positions in the joined side."""
    first: Longs
    """(detections,) the first pair of each."""
    n_pairs: Longs
    """(detections,) how many it has."""
    gt: Ints
    """(pairs,)"""
    iou: Floats
    """(pairs,) for crowds the IoA."""

    @classmethod
    def of(cls, pairs: Pairs, protocol: Protocol, truth: Truth) -> _Candidates:
        iou = pairs.iou
        if pairs.ioa is not None:
            iou = np.where(truth.crowd[pairs.gt], pairs.ioa, iou)
        keep = np.flatnonzero(iou >= floor_of(protocol))
        det, gt, iou = pairs.det[keep], pairs.gt[keep], iou[keep]
        first = first_of_runs(det)
        n_pairs = lengths_of_runs(first, len(det))
        several = np.flatnonzero(np.repeat((n_pairs > 1) & (n_pairs <= MANY_PAIRS), n_pairs))
        if len(several):
            tie = -gt[several] if protocol.last_of_equals else gt[several]
            by_iou = several[np.lexsort((tie, -iou[several], np.repeat(first, n_pairs)[several]))]
            gt[several], iou[several] = gt[by_iou], iou[by_iou]
        return cls(det[first], first, n_pairs, gt, iou)

    def rounds(self, truth: Truth) -> Iterator[Longs]:
        """The detections that can be matched together, as no two of them compete for a ground truth.

        The round of a detection is its rank among those of its image and class that have pairs. Where
        neither it nor its ground truth has another pair, it need not wait for others.
        """
        number = np.zeros(len(self.first), np.int64)
        waits = np.flatnonzero((self.n_pairs > 1) | (np.bincount(self.gt)[self.gt[self.first]] > 1))
        if len(waits):
            starts = first_of_runs(truth.group_key[self.gt[self.first[waits]]])
            number[waits] = rank_in_runs(starts, len(waits))
        by_round = argsort_int(number, int(number.max()) + 1)
        yield from np.split(by_round, np.cumsum(np.bincount(number))[:-1])


class _Word:
    """The matching under the thresholds and area ranges that one word holds a bit each of."""

    def __init__(
        self, candidates: _Candidates, truth: Truth, protocol: Protocol, w: int, free: Words, hits: Hits
    ) -> None:
        block, n_areas = truth.blocks[w], len(truth.outside)
        self.candidates, self.free = candidates, free
        self.crowd, self.last_of_equals = truth.crowd, protocol.last_of_equals
        self.positive, self.ignored, self.gt = hits.positive[:, w], hits.ignored[:, w], hits.gt
        # The bits under which the first n thresholds of the word are reached, n = 0, 1, ...
        bits = np.array([threshold_bits(block, n_areas, *block[:n]) for n in range(len(block) + 1)])
        if protocol.size_threshold:
            n_reached = (candidates.iou >= truth.own_threshold()[candidates.gt]).astype(np.int64)
        else:
            ious = np.minimum(protocol.ious, CEILING if protocol.averaged else 1)[block.start : block.stop]
            n_reached = np.searchsorted(ious, candidates.iou, side="right")
        self.reaches: Words = bits[n_reached]
        """(pairs,)"""
        self.every = bits[-1]
        self.nothing = truth.words(block)
        """(ground truths,) where they count as nothing."""
        self.some_nothing = bool(self.nothing[candidates.gt].any())
        self.reference = np.uint64(0)
        """The bit of the threshold whose matched ground truths are remembered."""
        if protocol.reference in block:
            self.reference = threshold_bits(block, 1, protocol.reference)

    def match(self, rows: Longs) -> None:
        """Match the detections of one round."""
        many = self.candidates.n_pairs[rows] > MANY_PAIRS
        if many.any():
            for row in rows[many].tolist():
                self._match_one(row)
            rows = rows[~many]
        if len(rows):
            self._take(rows, counting=True)
            if self.some_nothing:
                self._take(rows, counting=False)

    def _take(self, rows: Longs, *, counting: bool) -> None:
        """Give each detection, where it has none yet, its best free ground truth that counts, or does not."""
        starts, n_pairs = self.candidates.first[rows], self.candidates.n_pairs[rows]
        taken = self.positive if counting else self.ignored
        wanting = np.full(len(rows), self.every) if counting else self.every & ~self.positive[rows]
        for j in range(int(n_pairs.max())):
            having = np.flatnonzero(n_pairs > j) if j else slice(None)
            at = starts[having] + j
            g = self.candidates.gt[at]
            takes = wanting[having] & self.reaches[at]
            if not counting:
                takes &= self.nothing[g] & np.where(self.crowd[g], self.every, self.free[g])
            else:
                takes &= self.free[g] & ~self.nothing[g] if self.some_nothing else self.free[g]
            self.free[g] &= ~takes
            taken[rows[having]] |= takes
            wanting[having] &= ~takes
            if self.reference:
                seen = (takes & self.reference) != 0
                self.gt[rows[having][seen]] = g[seen]

    def _match_one(self, row: int) -> None:
        """The same for one detection, whose pairs stand by rising ground truth."""
        first = int(self.candidates.first[row])
        own = slice(first, first + int(self.candidates.n_pairs[row]))
        gt, iou, reaches = self.candidates.gt[own], self.candidates.iou[own], self.reaches[own]
        nothing = self.nothing[gt]
        for counting, taken in ((True, self.positive), (False, self.ignored)):
            if counting:
                able = reaches & self.free[gt] & ~nothing
            else:
                able = reaches & nothing & ~self.positive[row]
                able &= np.where(self.crowd[gt], self.every, self.free[gt])
            while len(able_at := np.flatnonzero(able)):
                if self.last_of_equals:
                    able_at = able_at[::-1]
                at = int(able_at[np.argmax(iou[able_at])])
                takes = able[at]
                taken[row] |= takes
                self.free[gt[at]] &= ~takes
                able &= ~takes
                if takes & self.reference:
                    self.gt[row] = gt[at]
