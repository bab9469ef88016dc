"""Match by ground truth as KITTI's program does: each object, in the order of the file, takes a detection.

The program matches twice. Where no score is too low, each object takes its detection of the highest score;
the scores of these true positives give the limits, about 41 of them, a fortieth of recall apart. Then it
matches once for each limit, and each object takes the detection that overlaps it most. All limits are matched
at once here, each a bit of a word:

    bits 0-62  detections with at least the score of the limit; limit 0 is the highest
    bit 63     all detections, which gives the outcomes of the tables and reports
"""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from odm.evaluate.matching.matches import Hits, Words
from odm.evaluate.matching.order import argsort_int, first_of_runs, rank_in_runs
from odm.evaluate.matching.pairs import Pairs, find_pairs
from odm.evaluate.matching.prepare import column_of, evaluated_rows
from odm.evaluate.matching.sides import Joined, Mask, SideTable
from odm.evaluate.scores.protocols import Protocol
from odm.tables import Floats, Ints, Longs, distinct

_ALL = np.uint64(2**64 - 1)
_EVERY_SCORE = np.uint64(1 << 63)
_UNKNOWN_ANGLE = -10
"""The alpha of objects whose direction is not known."""


class _Candidates(msgspec.Struct, frozen=True, eq=False):
    """Pairs of an object and a detection that overlap enough; a row of each column is a pair.

    Objects and detections are copied into further classes, see `_copies`: `gt` and `det` are positions among
    the copies, `object` and `detection` those among the boxes of the sides.
    """

    category: Ints
    image: Ints
    gt: Longs
    det: Longs
    object: Longs
    detection: Longs
    iou: Floats
    score: Floats
    nothing: Mask
    """(areas, pairs) whether the object counts as nothing."""
    small: Mask
    """(areas, pairs) whether the detection is too low to count."""
    able: Mask
    """(areas, pairs) whether the detection is of the class, or small."""

    def take(self, rows: Longs) -> _Candidates:
        """Some of the pairs."""
        columns = {name: getattr(self, name) for name in self.__struct_fields__}
        return _Candidates(**{name: column[..., rows] for name, column in columns.items()})


class TruthMatches(msgspec.Struct, frozen=True, eq=False):
    """The outcomes with all detections, and the curves at the score limits."""

    hits: Hits
    counting: Mask
    """(areas, detections) which are false positives if they match nothing."""
    curves: Floats
    """(2, areas, classes, limits) precision and orientation similarity, 0 beyond the last limit."""


def match_by_truth(
    sides: Joined, protocol: Protocol, pairs: Pairs, outside: Mask, counting: Mask
) -> TruthMatches:
    """Match the objects of prepared sides with detections.

    Parameters
    ----------
    sides
        Prepared sides, with a copy of each region to ignore for each class.
    protocol
        The rules.
    pairs
        The pairs of these sides, of which those with regions are looked at.
    outside, counting
        (areas, objects) which objects count as nothing, and which count.
    """
    truth, detections, n_classes = sides.truth, sides.detections, len(sides.classes)
    is_region = protocol.crowds(truth.flags)
    least = protocol.least_of(sides.classes)
    heights = [[b.low for b in a.also if b.column == "height"] for a in protocol.areas]
    lowest = np.floor([max(of_area, default=0) for of_area in heights])
    small = np.floor(detections.wh[:, 1])[None] < lowest[:, None]
    is_covered = np.zeros(len(detections), np.bool_)
    if pairs.ioa is not None:
        covering = is_region[pairs.gt] & (pairs.ioa >= least[detections.category[pairs.det]])
        is_covered[pairs.det[covering]] = True
    evaluated = evaluated_rows(sides.classes, protocol) >= 0
    eligible = ~small & ~is_covered & evaluated[detections.category]

    candidates = _candidates(sides, protocol, np.flatnonzero(~is_region), outside, small, least)
    similarity = _similarities(truth, detections, candidates)
    n_objects = np.stack([np.bincount(truth.category[rows], minlength=n_classes) for rows in counting])
    by_score = candidates.take(
        np.lexsort((candidates.det, -candidates.score, candidates.gt, candidates.category))
    )
    bits = (np.uint64(1) << np.arange(len(protocol.areas), dtype=np.uint64))[:, None]
    taken = _take_in_turn(by_score, np.bitwise_or.reduce(np.where(by_score.able, bits, np.uint64(0))))
    curves = np.zeros((2, len(protocol.areas), n_classes, protocol.n_limits))
    hits = Hits.none(np.arange(len(detections), dtype=np.int32), 1)
    for a in range(len(protocol.areas)):
        is_true = (taken & bits[a]) != 0
        is_true &= ~(by_score.nothing[a] | by_score.small[a])
        limits = [
            _limits(by_score.score[is_true & (by_score.category == k)], int(n), protocol.n_limits)
            for k, n in enumerate(n_objects[a].tolist())
        ]
        low = candidates.small[a]
        keys = candidates.det, np.where(low, 0, -candidates.iou), low, candidates.gt, candidates.category
        order = np.lexsort(keys)
        ranked = candidates.take(order)
        reached = _reached(ranked.score, ranked.category, limits)
        words = _take_in_turn(ranked, np.where(ranked.able[a], reached, np.uint64(0)))
        true = np.where(ranked.nothing[a] | ranked.small[a], np.uint64(0), words)
        used = np.where(eligible[a][ranked.detection] & ~ranked.small[a], words, np.uint64(0))
        for k, of_class in enumerate(limits):
            pairs_of_class = np.flatnonzero(ranked.category == k)
            scores = np.sort(detections.score[eligible[a] & (detections.category == k)])
            at_least = len(scores) - np.searchsorted(scores, of_class)
            n_true, n_used, similar = _sums(
                len(of_class), true[pairs_of_class], used[pairs_of_class], similarity[order][pairs_of_class]
            )
            n = n_true + at_least - n_used
            for curve, total in zip(curves[:, a, k], (n_true, similar), strict=True):
                shares = np.divide(total, n, out=np.zeros(len(n)), where=n > 0)
                curve[: len(n)] = np.maximum.accumulate(shares[::-1])[::-1]
        curves[:, a, n_objects[a] == 0] = np.nan
        at = np.flatnonzero((words & _EVERY_SCORE) != 0)
        at = at[ranked.category[at] == detections.category[ranked.detection[at]]]  # no copies
        is_hit = (true[at] & _EVERY_SCORE) != 0
        hits.positive[ranked.detection[at[is_hit]], 0] |= np.uint64(1 << a)
        hits.ignored[ranked.detection[at[~is_hit]], 0] |= np.uint64(1 << a)
        if a == 0:
            hits.gt[ranked.detection[at]] = ranked.object[at]
    if np.isnan(similarity).any():
        curves[1] = np.nan
    hits = hits.take(np.flatnonzero((hits.positive | hits.ignored)[:, 0]))
    return TruthMatches(hits, eligible, curves)


def _candidates(
    sides: Joined, protocol: Protocol, objects: Longs, outside: Mask, small: Mask, least: Floats
) -> _Candidates:
    """The pairs that overlap enough: of a class, its neighbours, and small detections of every class."""
    truth, detections = sides.truth, sides.detections
    evaluated = evaluated_rows(sides.classes, protocol).tolist()
    rows = {sides.classes[row].casefold(): row for row in evaluated if row >= 0}
    parts = [(objects, truth.category[objects], np.zeros(len(objects), np.bool_))]
    for one, other in protocol.neighbours:
        if one.casefold() in rows and other.casefold() in rows:
            at = objects[truth.category[objects] == rows[one.casefold()]]
            category = np.full(len(at), rows[other.casefold()], np.int32)
            parts.append((at, category, np.ones(len(at), np.bool_)))
    order = np.argsort(np.concatenate([at for at, *_ in parts]), kind="stable")  # of the file
    gt_at = np.concatenate([at for at, *_ in parts])[order]
    gt_class = np.concatenate([category for _, category, _ in parts])[order]
    neighbour = np.concatenate([copied for *_, copied in parts])[order]

    keys = distinct(truth.image[gt_at].astype(np.int64) * max(len(sides.classes), 1) + gt_class)
    image, of_class = np.divmod(keys, max(len(sides.classes), 1))
    low = np.flatnonzero(small.any(axis=0))
    first, end = (np.searchsorted(detections.image[low], image, side) for side in ("left", "right"))
    n = end - first
    copied = low[np.repeat(first - np.cumsum(n) + n, n) + np.arange(n.sum())]
    copied_class = np.repeat(of_class, n).astype(np.int32)
    foreign = detections.category[copied] != copied_class
    det_at = np.concatenate([np.arange(len(detections)), copied[foreign]])
    det_class = np.concatenate([detections.category, copied_class[foreign]])
    order = np.argsort(det_at, kind="stable")
    det_at, det_class = det_at[order], det_class[order]

    both = replace(
        sides,
        truth=replace(truth.take(gt_at), category=gt_class.astype(np.int32)),
        detections=replace(detections.take(det_at), category=det_class.astype(np.int32)),
    )
    pieces = list(find_pairs(both, protocol, float(least.min(initial=1))).pieces())
    gt, det, iou = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("gt", "det", "iou")
    )
    keep = iou >= least[gt_class[gt]]
    gt, det, iou = gt[keep].astype(np.int64), det[keep].astype(np.int64), iou[keep]
    is_small = small[:, det_at[det]]
    native = det_class[det] == detections.category[det_at[det]]
    return _Candidates(
        category=gt_class[gt],
        image=truth.image[gt_at[gt]],
        gt=gt,
        det=det,
        object=gt_at[gt],
        detection=det_at[det],
        iou=iou,
        score=detections.score[det_at[det]],
        nothing=outside[:, gt_at[gt]] | neighbour[gt],
        small=is_small,
        able=is_small | native,
    )


def _similarities(truth: SideTable, detections: SideTable, candidates: _Candidates) -> Floats:
    """(pairs,) how alike the directions are, from 0 to 1; NaN where that of any detection is not known."""
    angles = column_of(detections, "alpha")
    if (np.isnan(angles) | (angles == _UNKNOWN_ANGLE)).any():
        return np.full(len(candidates.gt), np.nan)
    between = column_of(truth, "alpha")[candidates.object] - angles[candidates.detection]
    similarities: Floats = (1 + np.cos(between)) / 2
    return similarities


def _limits(scores: Floats, n_objects: int, most: int) -> Floats:
    """The scores at which precision is measured, descending: those of true positives about as far apart as
    `most` of them are on the way to recall 1.
    """
    ranked = np.sort(scores)[::-1]
    limits: list[float] = []
    recall = 0.0
    for i, score in enumerate(ranked.tolist()):
        before = (i + 1) / n_objects
        after = (i + 2) / n_objects
        if i < len(ranked) - 1 and after - recall < recall - before:
            continue
        limits.append(score)
        recall += 1 / (most - 1.0)
    return np.array(limits[:most])


def _reached(score: Floats, category: Ints, limits: list[Floats]) -> Words:
    """(pairs,) the bits of the limits of its class that the score of each detection reaches."""
    words = np.full(len(score), _EVERY_SCORE)
    for k, of_class in enumerate(limits):
        at = np.flatnonzero(category == k)
        n = len(of_class)
        lower = np.searchsorted(of_class[::-1], score[at], side="right")  # limits at or below the score
        every = np.uint64((1 << n) - 1)
        words[at] |= every & ~((np.uint64(1) << (n - lower).astype(np.uint64)) - np.uint64(1))
    return words


def _take_in_turn(candidates: _Candidates, able: Words) -> Words:
    """(pairs,) the bits under which each pair is made, of those under which it is `able`.

    The pairs stand by class and object, those of an object by preference.
    """
    first = first_of_runs(candidates.category, candidates.gt)
    n_pairs = np.diff(first, append=len(able))
    groups = first_of_runs(candidates.category[first], candidates.image[first])
    turn = rank_in_runs(groups, len(first))
    taken = np.zeros(len(able), np.uint64)
    free = np.full(int(candidates.det.max(initial=-1)) + 1, _ALL)
    by_turn = argsort_int(turn, int(turn.max(initial=0)) + 1)
    for rows in np.split(by_turn, np.cumsum(np.bincount(turn))[:-1]):
        wanting = np.full(len(rows), _ALL)
        for j in range(int(n_pairs[rows].max(initial=0))):
            having = np.flatnonzero((n_pairs[rows] > j) & (wanting != 0))
            if not len(having):
                break
            at = first[rows[having]] + j
            # No two objects of a turn share a detection, so none is written twice.
            takes = wanting[having] & able[at] & free[candidates.det[at]]
            free[candidates.det[at]] &= ~takes
            wanting[having] &= ~takes
            taken[at] = takes
    return taken


def _sums(n_limits: int, true: Words, used: Words, similarity: Floats) -> tuple[Longs, Longs, Floats]:
    """(limits,) how many pairs are true positives and how many use a detection, and their similarity."""
    n_true, n_used = np.zeros(n_limits, np.int64), np.zeros(n_limits, np.int64)
    similar = np.zeros(n_limits)
    for i in range(n_limits):
        bit = np.uint64(1 << i)
        is_true = (true & bit) != 0
        n_true[i], n_used[i] = np.count_nonzero(is_true), np.count_nonzero(used & bit)
        similar[i] = similarity[is_true].sum()
    return n_true, n_used, similar
