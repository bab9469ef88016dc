"""Rules of scores: who has them, and in which range."""

from __future__ import annotations

from typing import Any

import numpy as np

from odm.checks.rules import (
    NO_ROWS,
    DerivedColumns,
    Found,
    FoundBoxes,
    box_rule,
    common_location,
    number,
    set_rule,
)
from odm.codes import SCORE_NOT_FINITE, SOME_SCORES
from odm.issues import PERCENT, Code, Trusted


def _score_of(columns: DerivedColumns, row: int) -> dict[str, Any]:
    score = columns.boxes.score[row]
    return {"value": Trusted("none" if np.isnan(score) else number(score))}


@box_rule(SCORE_NOT_FINITE, field="score", needs=("scores",))
def not_finite(columns: DerivedColumns) -> FoundBoxes:
    scored = columns.dataset.kind == "det"
    rows = np.flatnonzero(~np.isfinite(columns.boxes.score)) if scored else NO_ROWS
    return rows, lambda row: _score_of(columns, row)


@box_rule(
    "score-beyond-one",
    "warning",
    "expected a score in 0..1, found {value}",
    "write confidences between 0 and 1",
    "AP depends only on the order of the scores, but thresholds, curves and other formats expect "
    "confidences between 0 and 1.",
    field="score",
    needs=("scores",),
)
def beyond_one(columns: DerivedColumns) -> FoundBoxes:
    score, rows = columns.boxes.score, NO_ROWS
    # Nearly always none is, which the two ends tell soonest.
    if columns.dataset.kind == "det" and len(score) and not (score.min() >= 0 and score.max() <= 1):
        rows = np.flatnonzero(((score < 0) | (score > 1)) & np.isfinite(score))
    return rows, lambda row: _score_of(columns, row)


@set_rule(SOME_SCORES, needs=("scores",))
def truth_scored(columns: DerivedColumns) -> Found:
    if columns.dataset.kind == "gt":
        scored = ~np.isnan(columns.boxes.score)
        values = {"found": int(scored.sum()), "total": len(columns.boxes)}
        yield columns.dataset.location(int(scored.argmax())), values


@set_rule(PERCENT, needs=("scores",), explains=beyond_one.code)
def percentages(columns: DerivedColumns) -> Found:
    if columns.dataset.kind == "det" and columns.boxes.in_percent:
        above = columns.boxes.score > 1
        n, largest = int(above.sum()), Trusted(number(columns.boxes.score.max()))
        yield columns.dataset.location(int(above.argmax())), {"n": n, "total": len(above), "value": largest}


EQUAL = Code(
    "equal-scores",
    "warning",
    "all {n} detections have the same score, {value}",
    "write the detector's confidences",
    "Average precision depends on the ranking by score. If all scores are equal, the ranking is the order "
    "of the file, and the result means nothing.",
)


@set_rule(EQUAL, needs=("scores",), explains=beyond_one.code)
def no_confidences(columns: DerivedColumns) -> Found:
    """Find scores that are all one number and no confidence, such as the -1 of trackers."""
    score = columns.boxes.score
    if columns.dataset.kind != "det" or len(score) < 2 or columns.boxes.in_percent:
        return
    if np.isfinite(score[0]) and not 0 <= score[0] <= 1 and (score == score[0]).all():
        yield common_location(columns.dataset), {"n": len(score), "value": Trusted(number(score[0]))}


@set_rule(EQUAL, needs=("scores",), validate_only=True, explains=beyond_one.code)
def equal(columns: DerivedColumns) -> Found:
    score = columns.boxes.score
    if columns.dataset.kind != "det" or len(score) < 10:
        return
    if 0 <= score[0] <= 1 and (score == score[0]).all():
        yield common_location(columns.dataset), {"n": len(score), "value": Trusted(number(score[0]))}
