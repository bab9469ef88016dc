"""Compute precision over recall: average precision, curves, operating points and the arrays of
pycocotools.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict

import msgspec
import numpy as np

from odm.evaluate.matching.matches import OUTCOMES, Matches, bits_of_area, find_outcomes
from odm.evaluate.matching.order import argsort_int, best_of_each, first_of_runs, rank_in_runs
from odm.evaluate.matching.sides import Mask
from odm.evaluate.scores.protocols import Protocol, recall_points
from odm.evaluate.scores.score_order import (
    BLOCK,
    Counted,
    Ranked,
    Weights,
    group_rows_by_class,
    rank_pooled,
    rank_rows,
)
from odm.tables import Floats, Ints, Longs


class OperatingPoint(TypedDict):
    """A score threshold, and the counts, precision, recall and F1 of the detections at or above it."""

    score: float
    precision: float
    recall: float
    f1: float
    tp_at_score: int
    fp_at_score: int


def make_point(score: float, tp: int, fp: int, npos: int) -> OperatingPoint:
    """Return the operating point of some counts; a share is NaN only if it is a share of nothing."""
    return OperatingPoint(
        score=score,
        precision=tp / (tp + fp) if tp + fp else math.nan,
        recall=tp / npos if npos else math.nan,
        f1=2 * tp / (tp + fp + npos) if tp + fp + npos else math.nan,
        tp_at_score=tp,
        fp_at_score=fp,
    )


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
    scores: Floats = msgspec.field(default_factory=lambda: np.zeros((0,) * 5))
    """(T, R, K, A, M) of the detection that reaches the recall; 0 where none does."""


class PrecisionReader:
    """Reads precision on its envelope, at the recall points of a protocol.

    `npos` (classes,) are the ground truths of each class. ``n_needed`` (classes, points) are the true
    positives that reach each recall point, None where precision is read at all points.
    """

    def __init__(self, rules: Protocol, npos: Longs) -> None:
        """Compute the true positives that each recall point needs, for classes with `npos` ground truths."""
        self.npos = npos
        self.epsilon = rules.epsilon
        self.points = recall_points(rules.interpolation)
        self.reading = rules.reading
        self.n_needed: Longs | None = None
        if self.points is not None:
            points, n_truths = self.points, np.maximum(npos, 1)[:, None]
            # The fewest true positives whose recall, as it is computed, reaches each point: of 7 ground
            # truths 4 for recall 0.5, as 4 / 7 >= 0.5 > 3 / 7. `ceil` is nearly always right; rounding can
            # put it one too high or too low, which the two lines after it correct.
            n_needed = np.maximum(np.ceil(points[None] * n_truths).astype(np.int64), 1)
            n_needed -= (n_needed > 1) & ((n_needed - 1) / n_truths >= points)
            n_needed += n_needed / n_truths < points
            if rules.reading != "steps":
                # Of two points of one recall `numpy.interp` reads the last, so the recall must be exceeded.
                # Between two true positives the envelope is level: only after the last one is there a slope.
                n_needed += n_needed / n_truths == points
            self.n_needed = n_needed

    def compute_precision(self, counted: Counted) -> Floats:
        """(true positives,) precision at each true positive."""
        n_true, n_false = counted.at_positives()
        return n_true / (n_false + n_true + self.epsilon)

    def read_at_points(self, counted: Counted) -> Floats:
        """(classes, points) the highest precision at that recall or more.

        Where the recall is not reached it is 0, or if the reading is ``ramp`` on a line down to recall 1.
        """
        assert self.n_needed is not None and self.points is not None  # noqa: PT018
        is_reached = self.n_needed <= counted.tp[:, None]
        highest = np.zeros(is_reached.shape)
        if is_reached.any():
            # Each point has a stretch of true positives from the one that reaches it up to the next point's;
            # that of a class's last point ends with the class, as the next class's first needs only one.
            # `highest` is the maximum of each stretch, and the envelope the maximum of all from there on.
            #   precision at 5 true positives 1 .9 .7 .8 .6, points that need 1, 2, 4:  stretch_starts 0 1 3
            #   stretches [1] [.9 .7] [.8 .6]:  highest 1 .9 .8
            stretch_starts = (counted.starts[:, None] + self.n_needed - 1)[is_reached]
            highest[is_reached] = np.maximum.reduceat(self.compute_precision(counted), stretch_starts)
        envelope: Floats = np.maximum.accumulate(highest[:, ::-1], axis=1)[:, ::-1]
        if self.reading == "ramp":
            # On the line from the last detection to precision 0 at recall 1.
            recall = counted.tp / np.maximum(self.npos, 1)
            precision = counted.tp / np.maximum(counted.tp + counted.fp, 1)
            envelope[~is_reached] = ramp(self.points, recall[:, None], precision[:, None])[~is_reached]
        return envelope

    def read_scores_at_points(self, counted: Counted, score: Floats, ranked: Ranked) -> Floats:
        """(classes, points) the score of the detection that reaches each recall; 0 where none does.

        `score` are those of the ranked detections.
        """
        assert self.n_needed is not None and self.points is not None  # noqa: PT018
        is_reached = self.n_needed <= counted.tp[:, None]
        scores = np.zeros(is_reached.shape)
        # Number n of the true positives of a class is at its start + n - 1 among those of all classes.
        positive_scores = score[ranked.hit_positions[counted.positive_hits]]
        scores[is_reached] = positive_scores[(counted.starts[:, None] + self.n_needed - 1)[is_reached]]
        filled_classes = np.flatnonzero(ranked.counts)
        top_score = score[ranked.starts[filled_classes]]  # which reaches a recall of 0, whatever it is
        scores[np.ix_(filled_classes, np.flatnonzero(self.points == 0))] = top_score[:, None]
        return scores

    def average(self, counted: Counted) -> Floats:
        """(classes,) average precision, NaN without ground truth."""
        average: Floats
        if self.reading == "between":
            _, n_false = counted.at_positives()
            return compute_areas_between(counted.category, n_false, self.npos)
        if self.points is not None:
            precision_at_points = self.read_at_points(counted)
            average = (
                precision_at_points.mean(axis=1)
                if self.reading == "steps"
                else area_under_lines(self.points, precision_at_points)
            )
        else:
            precision = self.compute_precision(counted)
            average = np.zeros(len(self.npos))
            for k in np.flatnonzero((counted.tp > 0) & (self.npos > 0)).tolist():
                class_precision = precision[counted.starts[k] : counted.starts[k] + counted.tp[k]]
                # The envelope is the highest precision from here on: a running maximum from the end.
                #   precision 1 .5 .67, from the end: .67 .67 1; the sum / npos is the area under the steps
                average[k] = np.maximum.accumulate(class_precision[::-1]).sum() / self.npos[k]
        average[self.npos == 0] = np.nan
        return average


def compute_areas_between(category: Longs, n_false: Longs, npos: Longs) -> Floats:
    """(classes,) the area under the lines from each detection to the next; NaN without ground truth.

    `category` and `n_false` (true positives,): the class of each, rising, and the false positives before it.
    """
    # Between two points of the curve the area of a trapezium, 1 / npos wide: half the sum of the precision
    # at a true positive, t / (t + f), and at the detection before it, (t - 1) / (t - 1 + f).
    n_true = rank_in_runs(first_of_runs(category), len(category)) + 1
    n_before = n_true - 1 + n_false  # recall rises at true positives only: from the point of what precedes
    heights = (
        np.where(n_before > 0, n_true / (n_true + n_false) + (n_true - 1) / np.maximum(n_before, 1), 0) / 2
    )
    return share(np.bincount(category, heights, len(npos)), npos)


def average_at_limits(
    rules: Protocol,
    counted: Counted,
    ranked: Ranked,
    score: Floats,
    npos: Longs,
    score_range: tuple[float, float],
) -> Floats:
    """(classes,) average precision, read at `n_limits` equal steps of score; NaN without ground truth.

    `score` (rows,) is that of the ranked detections. Scores are spread over 0..1 by their range, if that does
    not reach from 0 to 1 already; if it is a single one, none reaches any limit.
    """
    average = np.full(len(npos), np.nan)
    # As in WIDER FACE's program, where the lowest score begins at 1 and the highest at 0.
    low, high = min(1.0, score_range[0]), max(0.0, score_range[1])
    limits = 1 - np.arange(1, rules.n_limits + 1) / rules.n_limits
    scaled_score = (score - low) / (high - low) if high > low else np.full(len(score), -1.0)
    for k in np.flatnonzero(npos > 0).tolist():
        start, n_rows = int(ranked.starts[k]), int(ranked.counts[k])
        class_scores = scaled_score[start : start + n_rows]
        # Where in the ranking the detections of each limit or more end.
        end_rows = np.full(len(limits), start)
        if high > low:
            end_rows += np.searchsorted(-class_scores, -limits, side="right")
        n_true, n_false = counted.count_down_to(ranked, k, end_rows)
        precision = np.divide(n_true, n_true + n_false, out=np.zeros(len(limits)), where=n_true + n_false > 0)
        recall = n_true / npos[k]
        envelope = np.maximum.accumulate(precision[::-1])[::-1]
        average[k] = (np.diff(recall, prepend=0) * envelope).sum()
    return average


def compute_miss_rates(
    rules: Protocol, category: Longs, n_false: Longs, weight: Longs, npos: Longs, n_images: int
) -> Floats:
    """(classes,) the miss rates over false positives per image, as one number; NaN without ground truth.

    `category`, `n_false` and `weight` (true positives,) are the class of each, the false positives before it,
    and how many it stands for. The number is exp of the mean of the logarithms at `Protocol.rates`.
    """
    n_images = max(n_images, 1)
    # The miss rate is read at the last point at or below a rate. Its true positives are all those before
    # which there are at most that many false positives: `counts_at_rates` is (rates, true positives).
    # ``first``: at the point where the rate is reached, which is a false positive: hits before it count.
    is_reached = np.less if rules.rate_reading == "first" else np.less_equal
    counts_at_rates = is_reached(n_false[None] / n_images, np.array(rules.rates)[:, None])
    n_hits = np.stack(
        [np.bincount(category, weight * counts_at_rate, len(npos)) for counts_at_rate in counts_at_rates]
    )
    if rules.rate_reading == "wrapped":  # without a point at or below a rate, the very last point is read
        # That is so if a false positive comes first and is already more per image than the rate.
        has_hit_first = np.bincount(category, weight * (n_false == 0), len(npos)) > 0
        has_no_point = ~has_hit_first & (1 / n_images > np.array(rules.rates)[:, None])
        n_hits = np.where(has_no_point, np.bincount(category, weight, len(npos)), n_hits)
    with np.errstate(divide="ignore"):
        logarithms = np.log(
            np.maximum(1 - share(n_hits, np.broadcast_to(npos, n_hits.shape)), rules.least_miss)
        )
    mean: Floats = np.exp(logarithms.mean(axis=0))
    return mean


class MissCurve(msgspec.Struct, frozen=True, eq=False):
    """The miss rate of a class in a set-up over false positives per image, each (n,), by descending score."""

    category: int
    area: int
    false_per_image: Floats
    miss_rate: Floats


MOST_MISS_CURVES = 12
"""Classes whose miss rates are drawn together."""


def compute_miss_curves(matches: Matches, *, all_curves: bool = False) -> list[MissCurve]:
    """Return the curves of all set-ups if one class has ground truth, else of the first set-up and the first
    `MOST_MISS_CURVES` classes with ground truth. With `all_curves` those of all classes and set-ups.
    """
    rules, n_images = matches.protocol, max(matches.n_images, 1)
    drawn_classes = np.flatnonzero(matches.npos.any(axis=1)).tolist()
    drawn_classes = drawn_classes if all_curves else drawn_classes[:MOST_MISS_CURVES]
    areas = range(len(rules.areas)) if all_curves or len(drawn_classes) == 1 else range(1)
    rows, counts = group_rows_by_class(matches, rank_rows(matches))
    (ranked,) = Ranked.iter_blocks(matches, rows, counts)
    curves = []
    for area in areas:
        word, bit = bits_of_area(rules, area)[rules.reference]
        counted = ranked.count(word, bit, ranked.count_unmatched(area))
        n_true, n_false = counted.at_positives()
        for k in drawn_classes:
            if not (npos := int(matches.npos[k, area])):
                continue
            class_rows = slice(int(counted.starts[k]), int(counted.starts[k] + counted.tp[k]))
            # From no detection, over each true positive, to all detections.
            n_hits = np.concatenate([[0], n_true[class_rows], counted.tp[k : k + 1]])
            false_per_image = np.concatenate([[0], n_false[class_rows], counted.fp[k : k + 1]]) / n_images
            curves.append(MissCurve(k, area, false_per_image, 1 - n_hits / npos))
    return curves


def share(n: Longs | Floats, total: Longs | Floats) -> Floats:
    """``n / total``, NaN where `total` is 0."""
    return np.divide(n, total, out=np.full(np.shape(n), np.nan), where=total > 0)


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


def make_curve_arrays(matches: Matches) -> CurveArrays:
    """Return precision, recall and score of every threshold, class, area range and detection cap.

    See `CurveArrays`; K is the order of `Matches.classes`. Where precision is read at all points there is
    no such array: R is 0.
    """
    rules = matches.protocol
    n_classes = len(matches.classes)
    rows, counts = group_rows_by_class(matches, rank_rows(matches))
    points = recall_points(rules.interpolation)
    caps: Sequence[int | None] = rules.caps or (rules.max_dets,)
    n_points = 0 if points is None else len(points)
    shape = (len(rules.ious), n_points, n_classes, len(rules.areas), len(caps))  # T, R, K, A, M
    precision, scores = np.full(shape, -1.0), np.full(shape, -1.0)
    recall = np.full((shape[0], *shape[2:]), -1.0)
    # A single cap is `max_dets`, beyond which detections are ignored or dropped already.
    rank = _rank_in_images(matches, rows) if len(caps) > 1 else None
    for m, cap in enumerate(caps):
        capped_rows = rows if rank is None or cap is None else rows[rank[rows] < cap]
        if capped_rows is not rows:
            counts = np.bincount(matches.category[capped_rows], minlength=n_classes)
        # A block of consecutive classes at a time; those without ground truth keep -1.
        for ranked in Ranked.iter_blocks(matches, capped_rows, counts, BLOCK):
            score = matches.score[ranked.rows]
            for a in range(len(rules.areas)):
                npos = matches.npos[ranked.first_class : ranked.first_class + ranked.n_classes, a]
                truth_classes = np.flatnonzero(npos > 0)
                k = ranked.first_class + truth_classes
                reader = PrecisionReader(rules, npos)
                unmatched = ranked.count_unmatched(a)
                for t, (word, bit) in enumerate(bits_of_area(rules, a)):
                    counted = ranked.count(word, bit, unmatched)
                    recall[t, k, a, m] = counted.tp[truth_classes] / npos[truth_classes]
                    if n_points:
                        precision[t, :, k, a, m] = reader.read_at_points(counted)[truth_classes]
                        scores_read = reader.read_scores_at_points(counted, score, ranked)
                        scores[t, :, k, a, m] = scores_read[truth_classes]
    return CurveArrays(precision, recall, scores)


def _rank_in_images(matches: Matches, rows: Longs) -> Longs:
    """(n,) the rank of every detection among those of its image and class; `rows` are by class and score."""
    by_image = rows[argsort_int(matches.image[rows], int(matches.image.max(initial=0)) + 1)]
    run_starts = first_of_runs(matches.image[by_image], matches.category[by_image])
    rank = np.empty(len(matches.score), np.int64)
    rank[by_image] = rank_in_runs(run_starts, len(by_image))
    return rank


def find_operating_points(
    matches: Matches, ranked: Ranked, counted: Counted, npos: Longs, at_score: float
) -> list[OperatingPoint]:
    """Return the operating point of every class at a score threshold; NaN takes all detections."""
    is_taken = ~(matches.score[ranked.rows] < at_score)  # nothing is less than NaN
    # A class ends after its first detections, as many of them as are taken.
    n_taken_before = np.concatenate([[0], np.cumsum(is_taken)])
    row_ends = ranked.starts + n_taken_before[ranked.starts + ranked.counts] - n_taken_before[ranked.starts]
    count_columns = (*_counts_down_to(ranked, counted, row_ends, np.arange(ranked.n_classes)), npos)
    return [
        make_point(at_score, *class_counts)
        for class_counts in zip(*(column.tolist() for column in count_columns), strict=True)
    ]


def find_best_f1s(matches: Matches, ranked: Ranked, counted: Counted, npos: Longs) -> tuple[Floats, Floats]:
    """(classes,) the score of the best F1 of every class, and that F1; see `find_best_points`."""
    score = matches.score[ranked.rows]
    # Detections of one score are taken together: it ends where the next one differs, or its class ends.
    is_last = np.ones(len(score), np.bool_)
    is_last[:-1] = score[1:] != score[:-1]
    is_last[(ranked.starts + ranked.counts - 1)[ranked.counts > 0]] = True
    last_positions = np.flatnonzero(is_last)
    hit_positions = ranked.hit_positions[counted.positive_hits]
    row_ends = last_positions[np.searchsorted(last_positions, hit_positions)] + 1
    tp, fp = _counts_down_to(ranked, counted, row_ends, counted.category)
    return find_best_points(score[hit_positions], tp, fp, counted.category, npos)


def _counts_down_to(
    ranked: Ranked, counted: Counted, row_ends: Longs, category: Longs
) -> tuple[Longs, Longs]:
    """(n,) true and false positives of classes, from the top of each class down to, and without, the
    positions `row_ends` (n,).
    """
    n_true = np.searchsorted(ranked.hit_positions[counted.positive_hits], row_ends) - counted.starts[category]
    n_exempt = counted.n_exempt[np.searchsorted(ranked.hit_positions, row_ends)]
    return n_true, counted.unmatched.n_before_row[row_ends] - n_exempt - counted.fp_before_class[category]


def find_best_points(
    score: Floats, tp: Longs, fp: Longs, category: Longs, npos: Longs
) -> tuple[Floats, Floats]:
    """(classes,) score and F1 of the point with the highest F1 on the curve of each class, the first of equal
    ones.

    The points are (n,), those of a class together; `npos` (classes,) are the ground truths. Without a true
    positive the F1 is 0 at no score (NaN), without ground truth it is undefined too.
    """
    candidates = np.flatnonzero((tp > 0) & (npos[category] > 0))
    best_score, best_f1 = np.full(len(npos), np.nan), np.where(npos > 0, 0.0, np.nan)
    f1 = 2 * tp[candidates] / (tp[candidates] + fp[candidates] + npos[category[candidates]])
    best_rows = best_of_each(category[candidates], f1)  # positions among the candidates
    best_points = candidates[best_rows]
    best_score[category[best_points]] = score[best_points]
    best_f1[category[best_points]] = f1[best_rows]
    return best_score, best_f1


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


def make_curve_table(matches: Matches) -> CurveTable:
    """Return the table of all detections; empty under ``corloc`` and ``imagenet-loc``, without a curve."""
    metric = matches.protocol.metric
    npos = matches.npos[:, 0]
    if metric == "pooled":
        rows = rank_pooled(matches)
        counts, npos = np.array([len(rows)]), npos.sum(keepdims=True)
    else:
        rows, counts = group_rows_by_class(matches, rank_rows(matches))
    if metric in ("corloc", "top-k"):
        rows, counts = rows[:0], counts * 0
    starts = np.cumsum(counts) - counts
    outcome = find_outcomes(matches)[0][rows]
    is_tp, is_fp = outcome == OUTCOMES.index("TP"), outcome == OUTCOMES.index("FP")

    def sum_down_curves(is_counted: Mask) -> Longs:
        """Count the chosen rows from the start of each curve down to each row."""
        running_count = np.concatenate([[0], np.cumsum(is_counted)])
        sums: Longs = running_count[1:] - np.repeat(running_count[starts], counts)
        return sums

    n_true, n_false = sum_down_curves(is_tp), sum_down_curves(is_fp)
    n_truths = np.repeat(npos, counts)
    return CurveTable(
        row=matches.row[rows],
        image=matches.image[rows],
        category=matches.category[rows],
        rank=np.arange(1, len(rows) + 1) - np.repeat(starts, counts),
        score=matches.score[rows],
        tp=is_tp,
        fp=is_fp,
        accumulated_tp=n_true,
        accumulated_fp=n_false,
        precision=share(n_true, n_true + n_false),
        recall=share(n_true, n_truths),
    )


# --------------------------------------------------------------------------------- one score for all classes
# The confidence at which ``yolo val`` reads precision and recall. Those of a class are read on straight lines
# over the score, at a thousand confidences. The one where the mean F1 of all classes, smoothed, is highest
# counts for all of them.


_CONFIDENCES = np.linspace(0, 1, 1000)
_SMOOTHED_OVER = 101
"""Confidences of which a moving average is the mean."""


def find_shared_points(
    at_confidences: Floats, npos: Longs, at_score: float | None
) -> tuple[list[OperatingPoint], OperatingPoint]:
    """Return the operating point of every class, and the means over the classes with ground truth.

    `at_confidences` is what `read_at_confidences` returned, for the same `at_score`. The score is `at_score`;
    if None, the one at which the moving average of the mean F1 is highest, NaN without ground truth.
    """
    # at_confidences: (classes, (precision, recall, tp, fp), confidences)
    has_truth = npos > 0
    best_index = 0  # the only one if `at_score` is given
    precision, recall = at_confidences[:, 0], at_confidences[:, 1]
    f1 = 2 * precision * recall / (precision + recall + 1e-16)  # as ``yolo val`` avoids 0 / 0
    if at_score is None and has_truth.any():  # where a moving average is highest, the ends being repeated
        padded = np.pad(f1[has_truth].mean(axis=0), _SMOOTHED_OVER // 2, "edge")
        best_index = int(np.convolve(padded, np.ones(_SMOOTHED_OVER) / _SMOOTHED_OVER, "valid").argmax())
    is_undefined = at_score is None and not has_truth.any()
    score = math.nan if is_undefined else float(_choose_confidences(at_score)[best_index])
    counts = np.vstack([at_confidences[:, 2:, best_index].T.astype(np.int64), npos])
    points = [make_point(score, *class_counts) for class_counts in counts.T.tolist()]
    overall = make_point(score, *counts.sum(axis=1).tolist())
    # The ratios of ``yolo val`` are interpolated between scores, so they differ from those of the counts.
    columns = precision[:, best_index], recall[:, best_index], f1[:, best_index]
    for k in np.flatnonzero(has_truth).tolist():
        points[k] = _replace_ratios(points[k], *(float(column[k]) for column in columns))
    means = [float(column[has_truth].mean()) if has_truth.any() else math.nan for column in columns]
    return points, _replace_ratios(overall, *means)


def _replace_ratios(point: OperatingPoint, precision: float, recall: float, f1: float) -> OperatingPoint:
    """Return a copy of the point with this precision, recall and F1 in place of those of its counts."""
    return {**point, "precision": precision, "recall": recall, "f1": f1}


def _choose_confidences(at_score: float | None) -> Floats:
    """Return the scores at which precision and recall are read: the requested one, else all thousand."""
    return _CONFIDENCES if at_score is None else np.array([at_score])


def read_at_confidences(
    matches: Matches, order: Longs, at_score: float | None, weights: Weights | None = None
) -> Floats:
    """(classes, 4, confidences) precision, recall, true and false positives at each confidence.

    Precision and recall are 0 for a class without ground truth. `order` (n,) are the rows of all detections
    by rank.
    """
    npos, confidences = matches.npos[:, 0], _choose_confidences(at_score)
    outcome, _ = find_outcomes(matches)
    n_of_row = np.ones(len(order), np.int64) if weights is None else weights.false_in(0).copy()
    n_of_row[outcome == OUTCOMES.index("TP")] = 1  # a hit stands for itself

    # The true and false positives, by class and then by rank.
    order = order[(outcome[order] != OUTCOMES.index("ignored")) & (n_of_row[order] > 0)]
    rows = order[argsort_int(matches.category[order], len(npos))]
    counts = np.bincount(matches.category[order], minlength=len(npos))
    starts = np.cumsum(counts) - counts

    at_confidences = np.zeros((len(npos), 4, len(confidences)))
    for k in np.flatnonzero(counts).tolist():
        class_rows = rows[starts[k] : starts[k] + counts[k]]
        n_true = (outcome[class_rows] == OUTCOMES.index("TP")).cumsum()
        negated_score = -matches.score[class_rows].astype(np.float32)  # in 32 bits, as ``yolo val`` does
        n_at_or_above = np.searchsorted(negated_score, -confidences, side="right")
        n_down_to = n_of_row[class_rows].cumsum()  # true and false positives
        at_confidences[k, 2] = np.append(0, n_true)[n_at_or_above]
        at_confidences[k, 3] = np.append(0, n_down_to - n_true)[n_at_or_above]
        if not npos[k]:
            continue
        # `left` is the value above the highest score, where there is no detection.
        at_confidences[k, 0] = np.interp(-confidences, negated_score, n_true / n_down_to, left=1)
        at_confidences[k, 1] = np.interp(-confidences, negated_score, n_true / npos[k], left=0)
    return at_confidences


def find_rows_beside_confidences(score: Floats, at_score: float | None) -> Longs:
    """Return the positions in `score` next to each confidence, and the first and last; ascending.

    `score` (n,) is descending. Precision at a confidence is read on the line between its two neighbours.
    """
    if not len(score):
        return np.zeros(0, np.int64)
    n_at_or_above = np.searchsorted(-score.astype(np.float32), -_choose_confidences(at_score), side="right")
    positions = np.concatenate([[0, len(score) - 1], n_at_or_above - 1, n_at_or_above])
    return np.unique(np.clip(positions, 0, len(score) - 1))
