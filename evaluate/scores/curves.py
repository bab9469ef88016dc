"""Precision over recall: average precision, curves, operating points and the arrays of pycocotools."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict

import msgspec
import numpy as np

from odm.evaluate.matching.matches import OUTCOMES, Matches, bits_of_area, outcomes
from odm.evaluate.matching.order import argsort_int, best_of_each, first_of_runs, rank_in_runs
from odm.evaluate.matching.sides import Mask
from odm.evaluate.scores.protocols import Protocol, recall_points
from odm.evaluate.scores.ranking import (
    BLOCK,
    Counted,
    Ranked,
    Weights,
    pooled_rows,
    ranked_rows,
    rows_by_class,
)
from odm.tables import Floats, Ints, Longs


class OperatingPoint(TypedDict):
    """The score from which on all detections are taken, and what that gives."""

    score: float
    precision: float
    recall: float
    f1: float


UNDEFINED = OperatingPoint(score=math.nan, precision=math.nan, recall=math.nan, f1=math.nan)


class Curve(msgspec.Struct, frozen=True, eq=False):
    """Recall, precision and score at every true positive, by descending score; each (n,)."""

    recall: Floats
    precision: Floats
    score: Floats


class CurveArrays(msgspec.Struct, frozen=True, eq=False):
    """The arrays of pycocotools: T thresholds, R recalls, K classes, A area ranges, M detection caps.

    The value -1 stands where a class has no ground truth (in all of odm's other results that is NaN).
    """

    precision: Floats
    """(T, R, K, A, M)"""
    recall: Floats
    """(T, K, A, M)"""


class PrecisionReader:
    """Where precision is read on its envelope, for classes with `npos` ground truths."""

    def __init__(self, rules: Protocol, npos: Longs) -> None:
        self.npos = npos
        self.epsilon = rules.epsilon
        self.points = recall_points(rules.interpolation)
        self.reading = rules.reading
        self.needed: Longs | None = None
        if self.points is not None:
            points, of = self.points, np.maximum(npos, 1)[:, None]
            # The fewest true positives whose recall, as it is computed, reaches each point.
            needed = np.maximum(np.ceil(points[None] * of).astype(np.int64), 1)
            needed -= (needed > 1) & ((needed - 1) / of >= points)
            needed += needed / of < points
            if rules.reading != "steps":
                # Of two points of one recall `numpy.interp` reads the last, so the recall must be exceeded.
                # Between two true positives the envelope is level: only after the last one is there a slope.
                needed += needed / of == points
            self.needed = needed

    def precision(self, counted: Counted) -> Floats:
        """(true positives,) precision at each."""
        true, false = counted.at_positives()
        precision: Floats = true / (false + true + self.epsilon)
        return precision

    def at_points(self, counted: Counted) -> Floats:
        """(classes, points) the highest precision at each recall or more; 0 where it is not reached."""
        assert self.needed is not None and self.points is not None  # noqa: PT018
        reached = self.needed <= counted.tp[:, None]
        highest = np.zeros(reached.shape)
        if reached.any():
            # The highest between this point and the next that is reached, which for the last point of a class
            # is the first of the next class, needing one true positive; then the highest of all that follow.
            begin = (counted.starts[:, None] + self.needed - 1)[reached]
            highest[reached] = np.maximum.reduceat(self.precision(counted), begin)
        envelope: Floats = np.maximum.accumulate(highest[:, ::-1], axis=1)[:, ::-1]
        if self.reading == "ramp":
            # On the line from the last detection to precision 0 at recall 1.
            recall = counted.tp / np.maximum(self.npos, 1)
            precision = counted.tp / np.maximum(counted.tp + counted.fp, 1)
            envelope[~reached] = ramp(self.points, recall[:, None], precision[:, None])[~reached]
        return envelope

    def average(self, counted: Counted) -> Floats:
        """(classes,) average precision, NaN without ground truth."""
        average: Floats
        if self.points is not None:
            at_points = self.at_points(counted)
            average = (
                at_points.mean(axis=1)
                if self.reading == "steps"
                else area_under_lines(self.points, at_points)
            )
        else:
            precision = self.precision(counted)
            average = np.zeros(len(self.npos))
            for k in np.flatnonzero((counted.tp > 0) & (self.npos > 0)).tolist():
                own = precision[counted.starts[k] : counted.starts[k] + counted.tp[k]]
                # The envelope is the highest precision from here on: a running maximum from the end.
                average[k] = np.maximum.accumulate(own[::-1]).sum() / self.npos[k]
        average[self.npos == 0] = np.nan
        return average


def share(n: Longs | Floats, of: Longs | Floats) -> Floats:
    """N / of, NaN where `of` is 0."""
    share: Floats = np.divide(n, of, out=np.full(np.shape(n), np.nan), where=of > 0)
    return share


def area_under_lines(points: Floats, heights: Floats) -> Floats:
    """(...,) the area under the straight lines between the points, (points,), of (..., points) `heights`."""
    area: Floats = (np.diff(points) * (heights[..., 1:] + heights[..., :-1]) / 2).sum(axis=-1)
    return area


def ramp(points: Floats, recall: Floats, precision: Floats) -> Floats:
    """The heights at `points` of the line from one recall and precision to precision 0 at recall 1."""
    slope = np.divide(-precision, 1 - recall, out=np.zeros(recall.shape), where=recall < 1)
    heights: Floats = slope * (points - recall) + precision
    heights[..., points == 1] = 0
    return heights


def curve_arrays(matches: Matches) -> CurveArrays:
    """Precision and recall of every threshold, class, area range and detection cap.

    See `CurveArrays`; K is the order of `Matches.classes`. Where precision is read at all points there is
    no such array: R is 0.
    """
    rules = matches.protocol
    n_classes = len(matches.classes)
    rows, counts = rows_by_class(matches, ranked_rows(matches))
    points = recall_points(rules.interpolation)
    caps: Sequence[int | None] = rules.caps or (rules.max_dets,)
    n_points = 0 if points is None else len(points)
    shape = (len(rules.ious), n_points, n_classes, len(rules.areas), len(caps))
    precision = np.full(shape, -1.0)
    recall = np.full((shape[0], *shape[2:]), -1.0)
    rank = None
    if len(caps) > 1:  # of every detection among those of its image and class
        by_image = rows[argsort_int(matches.image[rows], int(matches.image.max(initial=0)) + 1)]
        first = first_of_runs(matches.image[by_image], matches.category[by_image])
        rank = np.empty(len(matches.score), np.int64)
        rank[by_image] = rank_in_runs(first, len(by_image))
    for m, cap in enumerate(caps):
        within = rows if rank is None or cap is None else rows[rank[rows] < cap]
        if within is not rows:
            counts = np.bincount(matches.category[within], minlength=n_classes)
        done = 0
        for ranked in Ranked.of(matches, within, counts, BLOCK):
            for a in range(len(rules.areas)):
                npos = matches.npos[done : done + ranked.n_classes, a]
                some = np.flatnonzero(npos > 0)
                reader = PrecisionReader(rules, npos)
                unmatched = ranked.unmatched(a)
                for t, word_bit in enumerate(bits_of_area(rules, a)):
                    counted = ranked.counted(*word_bit, unmatched)
                    recall[t, done + some, a, m] = counted.tp[some] / npos[some]
                    if n_points:
                        precision[t, :, done + some, a, m] = reader.at_points(counted)[some]
            done += ranked.n_classes
    return CurveArrays(precision, recall)


def operating_points(
    matches: Matches, ranked: Ranked, counted: Counted, npos: Longs, at_score: float | None
) -> list[OperatingPoint]:
    """Score, precision, recall and F1 of every class, NaN without a true positive."""
    score = matches.score[ranked.rows]
    if at_score is None:
        # Detections of one score are taken together: it ends where the next one differs, or its class ends.
        last = np.ones(len(score), np.bool_)
        last[:-1] = score[1:] != score[:-1]
        last[(ranked.starts + ranked.counts - 1)[ranked.counts > 0]] = True
        lasts, at = np.flatnonzero(last), ranked.at[counted.positive]
        category, end, chosen = counted.category, lasts[np.searchsorted(lasts, at)] + 1, score[at]
    else:
        category = np.arange(ranked.n_classes)
        taken = np.concatenate([[0], np.cumsum(score >= at_score)])
        end = ranked.starts + taken[ranked.starts + ranked.counts] - taken[ranked.starts]
        chosen = np.full(ranked.n_classes, at_score)
    # True and false positives from the top of the class down to, not with, `end`.
    true = np.searchsorted(ranked.at[counted.positive], end) - counted.starts[category]
    exempt = counted.exempt[np.searchsorted(ranked.at, end)]
    false = counted.unmatched.before[end] - exempt - counted.base[category]
    return best_points(chosen, true, false, category, npos)


def best_points(score: Floats, tp: Longs, fp: Longs, category: Longs, npos: Longs) -> list[OperatingPoint]:
    """Of points on the curves of classes, each (n,) and those of a class together, the one of the best F1.

    Of equals the first; NaN without a true positive. `npos` (classes,) are the ground truths.
    """
    some = np.flatnonzero((tp > 0) & (npos[category] > 0))
    tp, fp, score, category = tp[some], fp[some], score[some], category[some]
    f1 = 2 * tp / (tp + fp + npos[category])
    points = [UNDEFINED] * len(npos)
    for i in best_of_each(category, f1).tolist():
        points[category[i]] = OperatingPoint(
            score=float(score[i]),
            precision=float(tp[i] / (tp[i] + fp[i])),
            recall=float(tp[i] / npos[category[i]]),
            f1=float(f1[i]),
        )
    return points


# ---------------------------------------------------------------------------------- detection by detection


class CurveTable(msgspec.Struct, frozen=True, eq=False):
    """A row per detection, by class and descending score; under ``tf-weighted`` all classes are one ranking.

    Outcomes are those at the IoU threshold that the curves are of. A detection that is ignored is neither a
    true nor a false positive, and changes no sum.
    """

    row: Ints
    """(n,) row in the detections' dataset."""
    image: Ints
    """(n,) number in `Joined.images`."""
    category: Ints
    """(n,) number in `Joined.classes`."""
    rank: Longs
    """(n,) position on its curve, from 1."""
    score: Floats
    tp: Mask
    fp: Mask
    accumulated_tp: Longs
    """(n,) true positives from the first of the curve down to this one."""
    accumulated_fp: Longs
    precision: Floats
    """(n,) NaN before the first true or false positive."""
    recall: Floats
    """(n,) NaN without ground truth that counts."""

    def __len__(self) -> int:
        return len(self.row)


def curve_table(matches: Matches) -> CurveTable:
    """The table of all detections; empty under ``corloc`` and ``imagenet-loc``, which have no curve."""
    metric = matches.protocol.metric
    npos = matches.npos[:, 0]
    if metric == "pooled":
        rows = pooled_rows(matches)
        counts, npos = np.array([len(rows)]), npos.sum(keepdims=True)
    else:
        rows, counts = rows_by_class(matches, ranked_rows(matches))
    if metric in ("corloc", "top-k"):
        rows, counts = rows[:0], counts * 0
    starts = np.cumsum(counts) - counts
    outcome = outcomes(matches)[0][rows]
    tp, fp = outcome == OUTCOMES.index("TP"), outcome == OUTCOMES.index("FP")

    def accumulated(chosen: Mask) -> Longs:
        """How many are chosen down to each row, from the start of its curve."""
        total = np.concatenate([[0], np.cumsum(chosen)])
        sums: Longs = total[1:] - np.repeat(total[starts], counts)
        return sums

    true, false = accumulated(tp), accumulated(fp)
    of = np.repeat(npos, counts)
    return CurveTable(
        row=matches.row[rows],
        image=matches.image[rows],
        category=matches.category[rows],
        rank=np.arange(1, len(rows) + 1) - np.repeat(starts, counts),
        score=matches.score[rows],
        tp=tp,
        fp=fp,
        accumulated_tp=true,
        accumulated_fp=false,
        precision=share(true, true + false),
        recall=share(true, of),
    )


# --------------------------------------------------------------------------------- one score for all classes
# The confidence at which ``yolo val`` reads precision and recall. Those of a class are read on straight lines
# over the score, at a thousand confidences. The one where the mean F1 of all classes, smoothed, is highest
# counts for all of them.


_CONFIDENCES = np.linspace(0, 1, 1000)
_SMOOTHED_OVER = 101


def shared_points(
    read: Floats, npos: Longs, at_score: float | None
) -> tuple[list[OperatingPoint], OperatingPoint]:
    """The operating point of every class, NaN without ground truth, and the means over those that have some.

    `read` is that of `read_classes`. The score is that of the best mean F1, unless one is given.
    """
    known = np.flatnonzero(npos > 0)
    points = [UNDEFINED] * len(npos)
    if not len(known):
        return points, UNDEFINED
    precision, recall = read[known, 0], read[known, 1]
    f1 = 2 * precision * recall / (precision + recall + 1e-16)
    i = 0
    if at_score is None:  # of a moving average, the ends being repeated
        padded = np.pad(f1.mean(axis=0), _SMOOTHED_OVER // 2, "edge")
        i = int(np.convolve(padded, np.ones(_SMOOTHED_OVER) / _SMOOTHED_OVER, "valid").argmax())
    score = float(_confidences(at_score)[i])
    columns = precision[:, i], recall[:, i], f1[:, i]
    for k, *own in zip(known.tolist(), *(column.tolist() for column in columns), strict=True):
        points[k] = OperatingPoint(score=score, precision=own[0], recall=own[1], f1=own[2])
    means = [float(column.mean()) for column in columns]
    return points, OperatingPoint(score=score, precision=means[0], recall=means[1], f1=means[2])


def _confidences(at_score: float | None) -> Floats:
    return _CONFIDENCES if at_score is None else np.array([at_score])


def read_classes(
    matches: Matches, order: Longs, at_score: float | None, weights: Weights | None = None
) -> Floats:
    """(classes, 2, confidences) precision and recall at the confidences, 0 of a class without ground truth.

    `order` are all rows as they rank.
    """
    npos, confidences = matches.npos[:, 0], _confidences(at_score)
    outcome, _ = outcomes(matches)
    n = np.ones(len(order), np.int64) if weights is None else weights.false_in(0).copy()
    n[outcome == OUTCOMES.index("TP")] = 1
    order = order[(outcome[order] != OUTCOMES.index("ignored")) & (n[order] > 0)]
    rows = order[argsort_int(matches.category[order], len(npos))]
    counts = np.bincount(matches.category[order], minlength=len(npos))
    starts = np.cumsum(counts) - counts
    read = np.zeros((len(npos), 2, len(confidences)))
    for k in np.flatnonzero((npos > 0) & (counts > 0)).tolist():
        own = rows[starts[k] : starts[k] + counts[k]]
        true = (outcome[own] == OUTCOMES.index("TP")).cumsum()
        score = -matches.score[own].astype(np.float32)
        columns = (true / n[own].cumsum(), 1), (true / npos[k], 0)
        for i, (values, above_the_top) in enumerate(columns):
            read[k, i] = np.interp(-confidences, score, values, left=above_the_top)
    return read


def beside_confidences(score: Floats, at_score: float | None) -> Longs:
    """The positions, in descending `score`, between which precision and recall are read, and the ends."""
    if not len(score):
        return np.zeros(0, np.int64)
    after = np.searchsorted(-score.astype(np.float32), -_confidences(at_score), side="right")
    both = np.concatenate([[0, len(score) - 1], after - 1, after])
    return np.unique(np.clip(both, 0, len(score) - 1))
