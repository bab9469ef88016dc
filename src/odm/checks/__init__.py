"""The rules for tables: one list of them for `convert`, `eval` and `validate`.

Readers report what does not parse; what was read is checked here. A rule is data: a `Code` and a function
from the tables to the rows it concerns. Those marked `validate_only` are run by `validate` only; the others
cost one pass over the columns and run before every conversion and evaluation.
"""

from __future__ import annotations

import functools
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from odm.checks import boxes, conventions, datasets, scores, tracks
from odm.checks.derived_columns import DerivedColumns
from odm.checks.pairs import compare
from odm.checks.pictures import compare_pictures
from odm.checks.rules import BoxRule, SetRule
from odm.issues import Log
from odm.tables import Dataset

__all__ = [
    "FOLLOWS",
    "RULES",
    "TOLERANCE",
    "BoxRule",
    "DerivedColumns",
    "SetRule",
    "compare",
    "compare_pictures",
    "report_similar_classes",
    "run",
]

TOLERANCE = 0.5
"""Pixels by which a box may reach beyond its image: half of what rounding can do."""

RULES: tuple[BoxRule | SetRule, ...] = (
    boxes.NOT_FINITE,
    boxes.INVERTED_BOX,
    scores.NO_SCORE,
    boxes.EMPTY,
    boxes.OUTSIDE,
    boxes.DUPLICATE,
    scores.BEYOND_ONE,
    boxes.NEGATIVE_AREA,
    boxes.AREA_DIFFERS,
    scores.TRUTH_SCORED,
    conventions.NORMALISED,
    datasets.SIMILAR_IMAGES,
    datasets.SIMILAR_CLASSES,
    boxes.TINY,
    boxes.ASPECT,
    boxes.NEAR_DUPLICATE,
    scores.PERCENTAGES,
    scores.NO_CONFIDENCES,
    scores.EQUAL_SCORES,
    datasets.RARE_CLASS,
    datasets.NO_SIZES,
    datasets.ID_ZERO,
    datasets.SAME_LAST_PART,
    conventions.LOOKS_LTWH,
    conventions.LOOKS_LTRB,
    conventions.LOOKS_SWAPPED,
    conventions.OFF_BY_ONE,
    tracks.TWICE,
    tracks.CHANGES_CLASS,
    tracks.FRAME_TWICE,
    tracks.FRAME_BEYOND,
    tracks.DETECTIONS_CHANGE_CLASS,
    tracks.WITHOUT_TRACK,
    tracks.ONE_FRAME,
)
"""Every rule for one dataset, in the order in which faults are reported."""

FOLLOWS = {
    rule.code.name: rule.explains.name
    for rule in RULES
    if isinstance(rule, SetRule) and rule.explains is not None
}
"""What a rule explains that another reports box by box, by the names of the two codes."""


def run(
    dataset: Dataset,
    log: Log,
    options: Collection[str] = (),
    *,
    all_rules: bool = False,
    tolerance: float = TOLERANCE,
) -> NDArray[np.bool_]:
    """Check a dataset.

    Parameters
    ----------
    log
        Takes the issues.
    options
        Names of the options by which the reader could be told otherwise, such as ``box``; only these are
        given as advice.
    all_rules
        Whether the rules that only `validate` asks for are run too.
    tolerance
        Pixels by which a box may reach beyond its image.

    Returns
    -------
    (n,) mask of the boxes that have an error.
    """
    columns = DerivedColumns(dataset, tolerance, options)
    wrong = np.zeros(len(dataset), np.bool_)
    with np.errstate(invalid="ignore", over="ignore"):
        rules = [rule for rule in RULES if all_rules or not rule.validate_only]
        found = {
            rule: list(rule.find(columns))
            for rule in rules
            if isinstance(rule, SetRule) and not any(log.counts[name] for name in rule.unless)
        }
        reasons = {FOLLOWS[r.code.name]: r.code.name for r in found if found[r] and r.code.name in FOLLOWS}
        for rule in rules:
            if isinstance(rule, SetRule):
                for (path, line, pointer), values in found.get(rule, ()):
                    log.report(rule.code, path, line=line, pointer=pointer, **values)
                continue
            rows = rule.find(columns)
            if len(rows):
                values_of = functools.partial(rule.values, columns)
                error = rule.code.severity == "error"
                reason = "" if error else reasons.get(rule.code.name, "")
                log.report_rows(rule.code, dataset, rows, values_of, field=rule.field, reason=reason)
                if error:
                    wrong[rows] = True
        if all_rules:
            tracks.note_gaps(columns, log)
    return wrong


def report_similar_classes(dataset: Dataset, log: Log) -> None:
    """Report classes whose names are alike; what was reported of the names before is withdrawn."""
    log.withdraw(datasets.SIMILAR_CLASSES.code.name)
    for (path, line, pointer), values in datasets.similar_classes(DerivedColumns(dataset, TOLERANCE)):
        log.report(datasets.SIMILAR_CLASSES.code, path, line=line, pointer=pointer, **values)
