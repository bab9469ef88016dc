"""Rules of scores: who has them, and in which range."""

from __future__ import annotations

from typing import Any

import numpy as np

from odm.checks.rules import (
    NO_ROWS,
    BoxFindings,
    DerivedColumns,
    SetFindings,
    box_rule,
    find_common_location,
    format_number,
    set_rule,
)
from odm.codes import SCORE_NOT_FINITE, SOME_SCORES
from odm.issues import PERCENT, Code, Trusted


def _score_values(columns: DerivedColumns, row: int) -> dict[str, Any]:
    score = columns.boxes.score[row]
    return {"value": Trusted("none" if np.isnan(score) else format_number(score))}


@box_rule(SCORE_NOT_FINITE, field="score", needs=("scores",))
def not_finite(columns: DerivedColumns) -> BoxFindings:
    has_scores = columns.dataset.kind == "det"
    rows = np.flatnonzero(~np.isfinite(columns.boxes.score)) if has_scores else NO_ROWS
    return rows, lambda row: _score_values(columns, row)


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
def beyond_one(columns: DerivedColumns) -> BoxFindings:
    """Find detections with a finite score below 0 or above 1."""
    score, rows = columns.boxes.score, NO_ROWS
    # The smallest and largest score tell soonest that none is beyond, as nearly always.
    if columns.dataset.kind == "det" and len(score) and not (score.min() >= 0 and score.max() <= 1):
        rows = np.flatnonzero(((score < 0) | (score > 1)) & np.isfinite(score))
    return rows, lambda row: _score_values(columns, row)


@set_rule(SOME_SCORES, needs=("scores",))
def truth_scored(columns: DerivedColumns) -> SetFindings:
    """Report how many boxes of ground truth have a score; this runs only if some box has one (`needs`)."""
    if columns.dataset.kind == "gt":
        is_scored = ~np.isnan(columns.boxes.score)
        values = {"found": int(is_scored.sum()), "total": len(columns.boxes)}
        yield columns.dataset.location(int(is_scored.argmax())), values


@set_rule(PERCENT, needs=("scores",), explains=beyond_one.code)
def percentages(columns: DerivedColumns) -> SetFindings:
    """Report how many scores are above 1, if those of the detections look like 0 to 100."""
    if columns.dataset.kind == "det" and columns.boxes.in_percent:
        is_above_one = columns.boxes.score > 1
        n, largest = int(is_above_one.sum()), Trusted(format_number(columns.boxes.score.max()))
        yield (
            columns.dataset.location(int(is_above_one.argmax())),
            {"n": n, "total": len(is_above_one), "value": largest},
        )


EQUAL = Code(
    "equal-scores",
    "warning",
    "all {n} detections have the same score, {value}",
    "write the detector's confidences",
    "Average precision depends on the ranking by score. If all scores are equal, the ranking is the order "
    "of the file, and the result means nothing.",
)


@set_rule(EQUAL, needs=("scores",), explains=beyond_one.code)
def no_confidences(columns: DerivedColumns) -> SetFindings:
    """Find scores that are all one number and no confidence, such as the -1 of trackers."""
    score = columns.boxes.score
    if columns.dataset.kind != "det" or len(score) < 2 or columns.boxes.in_percent:
        return
    if np.isfinite(score[0]) and not 0 <= score[0] <= 1 and (score == score[0]).all():
        yield (
            find_common_location(columns.dataset),
            {"n": len(score), "value": Trusted(format_number(score[0]))},
        )


@set_rule(EQUAL, needs=("scores",), validate_only=True, explains=beyond_one.code)
def equal(columns: DerivedColumns) -> SetFindings:
    """Report ten or more detections that all have the same score, in 0..1."""
    score = columns.boxes.score
    if columns.dataset.kind != "det" or len(score) < 10:
        return
    if 0 <= score[0] <= 1 and (score == score[0]).all():
        yield (
            find_common_location(columns.dataset),
            {"n": len(score), "value": Trusted(format_number(score[0]))},
        )
