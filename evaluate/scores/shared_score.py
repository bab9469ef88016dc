"""One operating point for all classes: the confidence at which ``yolo val`` reads precision and recall.

Precision and recall of a class are read on straight lines over the score, at a thousand confidences. The one
where the mean F1 of all classes, smoothed, is highest counts for all of them.
"""

from __future__ import annotations

import math

import numpy as np

from odm.evaluate.matching.matches import OUTCOMES, Matches, outcomes
from odm.evaluate.matching.order import argsort_int
from odm.evaluate.scores.curves import OperatingPoint
from odm.evaluate.scores.ranking import Weights
from odm.tables import Floats, Longs

_CONFIDENCES = np.linspace(0, 1, 1000)
_SMOOTHED_OVER = 101


def shared_points(
    read: Floats, npos: Longs, at_score: float | None
) -> tuple[list[OperatingPoint], OperatingPoint]:
    """The operating point of every class, NaN without ground truth, and the means over those that have some.

    `read` is that of `read_classes`. The score is that of the best mean F1, unless one is given.
    """
    known = np.flatnonzero(npos > 0)
    undefined = OperatingPoint(score=math.nan, precision=math.nan, recall=math.nan, f1=math.nan)
    points = [undefined] * len(npos)
    if not len(known):
        return points, undefined
    precision, recall = read[known, 0], read[known, 1]
    f1 = 2 * precision * recall / (precision + recall + 1e-16)
    i = int(_smooth(f1.mean(axis=0)).argmax()) if at_score is None else 0
    score = float(_confidences(at_score)[i])
    columns = precision[:, i], recall[:, i], f1[:, i]
    for k, *numbers in zip(known.tolist(), *(column.tolist() for column in columns), strict=True):
        points[k] = _point(score, *numbers)
    return points, _point(score, *(float(column.mean()) for column in columns))


def _confidences(at_score: float | None) -> Floats:
    return _CONFIDENCES if at_score is None else np.array([at_score])


def _point(score: float, precision: float, recall: float, f1: float) -> OperatingPoint:
    return OperatingPoint(score=score, precision=precision, recall=recall, f1=f1)


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


def _smooth(values: Floats) -> Floats:
    """A moving average, the ends being repeated."""
    padded = np.pad(values, _SMOOTHED_OVER // 2, "edge")
    smooth: Floats = np.convolve(padded, np.ones(_SMOOTHED_OVER) / _SMOOTHED_OVER, "valid")
    return smooth
