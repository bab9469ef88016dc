"""Rules of scores: who has them, and in which range."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.checks.derived_columns import DerivedColumns
from odm.checks.duplicates import NO_ROWS
from odm.checks.rules import BoxRule, Found, SetRule, common_location, number
from odm.codes import SCORE_NOT_FINITE, SOME_SCORES
from odm.issues import PERCENT, Code, Trusted
from odm.tables import Floats


def _scoreless(columns: DerivedColumns) -> NDArray[np.intp]:
    if columns.dataset.kind != "det":
        return NO_ROWS
    return np.flatnonzero(~np.isfinite(columns.boxes.score))


def _score_of(columns: DerivedColumns, row: int) -> dict[str, Any]:
    score = columns.boxes.score[row]
    return {"value": Trusted("none" if np.isnan(score) else number(score))}


NO_SCORE = BoxRule(
    SCORE_NOT_FINITE,
    find=_scoreless,
    values=_score_of,
    field="score",
)


def _finite_beyond_one(columns: DerivedColumns) -> NDArray[np.intp]:
    rows = _beyond_one(columns)
    return rows[np.isfinite(columns.boxes.score[rows])]


def _beyond_one(columns: DerivedColumns) -> NDArray[np.intp]:
    score = columns.boxes.score
    if columns.dataset.kind != "det" or not len(score):
        return NO_ROWS
    return np.flatnonzero((score < 0) | (score > 1)) if not _within(score) else NO_ROWS


def _within(score: Floats) -> bool:
    return bool(score.min() >= 0 and score.max() <= 1)


BEYOND_ONE = BoxRule(
    Code(
        "score-beyond-one",
        "warning",
        "expected a score in 0..1, found {value}",
        "write confidences between 0 and 1",
        "AP depends only on the order of the scores, but thresholds, curves and other formats expect "
        "confidences between 0 and 1.",
        row=True,
    ),
    find=_finite_beyond_one,
    values=_score_of,
    field="score",
)


def _truth_scored(columns: DerivedColumns) -> Found:
    if columns.dataset.kind == "gt":
        scored = ~np.isnan(columns.boxes.score)
        if scored.any():
            yield (
                columns.dataset.location(int(scored.argmax())),
                {"found": int(scored.sum()), "total": len(columns.boxes)},
            )


TRUTH_SCORED = SetRule(
    SOME_SCORES,
    find=_truth_scored,
)


def _percent(columns: DerivedColumns) -> Found:
    if columns.dataset.kind == "det" and columns.boxes.in_percent:
        above = columns.boxes.score > 1
        n, largest = int(above.sum()), Trusted(number(columns.boxes.score.max()))
        yield columns.dataset.location(int(above.argmax())), {"n": n, "total": len(above), "value": largest}


PERCENTAGES = SetRule(
    PERCENT,
    find=_percent,
    explains=BEYOND_ONE.code,
)


EQUAL = Code(
    "equal-scores",
    "warning",
    "all {n} detections have the same score, {value}",
    "write the detector's confidences",
    "Average precision depends on the ranking by score. If all scores are equal, the ranking is the order "
    "of the file, and the result means nothing.",
)


def _no_confidences(columns: DerivedColumns) -> Found:
    """All scores are one number that is no confidence, such as the -1 of trackers."""
    boxes = columns.boxes
    if columns.dataset.kind != "det" or len(boxes) < 2 or boxes.in_percent:
        return
    score = boxes.score
    if np.isfinite(score[0]) and not 0 <= score[0] <= 1 and (score == score[0]).all():
        yield common_location(columns.dataset), {"n": len(score), "value": Trusted(number(score[0]))}


NO_CONFIDENCES = SetRule(EQUAL, _no_confidences, explains=BEYOND_ONE.code)


def _equal_scores(columns: DerivedColumns) -> Found:
    score = columns.boxes.score
    if columns.dataset.kind != "det" or len(score) < 10:
        return
    if 0 <= score[0] <= 1 and (score == score[0]).all():
        yield common_location(columns.dataset), {"n": len(score), "value": Trusted(number(score[0]))}


EQUAL_SCORES = SetRule(EQUAL, _equal_scores, validate_only=True, explains=BEYOND_ONE.code)
