"""One operating point for all classes: the confidence at which ``yolo val`` reads precision and recall.

Precision and recall of a class are read on straight lines over the score, at a thousand confidences. The one
where the mean F1 of all classes, smoothed, is highest counts for all of them.
"""

from __future__ import annotations

import math

import numpy as np

from odm.evaluate.curves import OperatingPoint
from odm.evaluate.matches import Matches
from odm.evaluate.order import argsort_int
from odm.evaluate.outcomes import OUTCOMES, outcomes
from odm.tables import Floats, Longs

_CONFIDENCES = np.linspace(0, 1, 1000)
_SMOOTHED_OVER = 101


def shared_points(
    matches: Matches, order: Longs, at_score: float | None
) -> tuple[list[OperatingPoint], OperatingPoint]:
    """The operating point of every class, NaN without ground truth, and the means over those that have some.

    `order` are all rows as they rank. The score is that of the best mean F1, unless one is given.
    """
    npos = matches.npos[:, 0]
    known = np.flatnonzero(npos > 0)
    undefined = OperatingPoint(score=math.nan, precision=math.nan, recall=math.nan, f1=math.nan)
    points = [undefined] * len(npos)
    if not len(known):
        return points, undefined
    confidences = _CONFIDENCES if at_score is None else np.array([at_score])
    precision, recall = _read(matches, order, known, confidences)
    f1 = 2 * precision * recall / (precision + recall + 1e-16)
    i = int(_smooth(f1.mean(axis=0)).argmax()) if at_score is None else 0
    score = float(confidences[i])
    columns = precision[:, i], recall[:, i], f1[:, i]
    for k, *numbers in zip(known.tolist(), *(column.tolist() for column in columns), strict=True):
        points[k] = _point(score, *numbers)
    return points, _point(score, *(float(column.mean()) for column in columns))


def _point(score: float, precision: float, recall: float, f1: float) -> OperatingPoint:
    return OperatingPoint(score=score, precision=precision, recall=recall, f1=f1)


def _read(matches: Matches, order: Longs, known: Longs, confidences: Floats) -> tuple[Floats, Floats]:
    """Precision and recall of the `known` classes, each (classes, confidences)."""
    npos = matches.npos[:, 0]
    outcome, _ = outcomes(matches)
    order = order[outcome[order] != OUTCOMES.index("ignored")]
    rows = order[argsort_int(matches.category[order], len(npos))]
    counts = np.bincount(matches.category[order], minlength=len(npos))
    starts = np.cumsum(counts) - counts
    read = np.zeros((2, len(known), len(confidences)))
    for i, k in enumerate(known.tolist()):
        own = rows[starts[k] : starts[k] + counts[k]]
        if not len(own):
            continue
        true = (outcome[own] == OUTCOMES.index("TP")).cumsum()
        score = -matches.score[own].astype(np.float32)
        columns = (true / np.arange(1, len(own) + 1), 1), (true / npos[k], 0)
        for side, (values, above_the_top) in zip(read, columns, strict=True):
            side[i] = np.interp(-confidences, score, values, left=above_the_top)
    return read[0], read[1]


def _smooth(values: Floats) -> Floats:
    """A moving average, the ends being repeated."""
    padded = np.pad(values, _SMOOTHED_OVER // 2, "edge")
    smooth: Floats = np.convolve(padded, np.ones(_SMOOTHED_OVER) / _SMOOTHED_OVER, "valid")
    return smooth
