"""The rules for tables: one list of them for `convert`, `eval` and `validate`.

Readers report what does not parse; what was read is checked here. A rule is data: the words of a `Code`, and
below them a function from the tables to what it concerns. Those marked `validate_only` are run by `validate`
only; the others cost one pass over the columns and run before every conversion and evaluation.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from odm.checks import boxes, conventions, datasets, scores, shapes, tracks
from odm.checks.pairs import compare
from odm.checks.rules import BoxRule, DerivedColumns, SetRule
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
    "report_similar_classes",
    "run",
]

TOLERANCE = 0.5
"""Pixels by which a box may reach beyond its image: half of what rounding can do."""

RULES: tuple[BoxRule | SetRule, ...] = (
    boxes.not_finite,
    boxes.inverted,
    scores.not_finite,
    boxes.empty,
    boxes.outside,
    boxes.label_out_of_range,
    boxes.duplicate,
    scores.beyond_one,
    boxes.negative_area,
    boxes.area_differs,
    scores.truth_scored,
    conventions.normalised,
    datasets.similar_images,
    datasets.similar_classes,
    boxes.tiny,
    boxes.extreme_aspect,
    boxes.near_duplicate,
    scores.percentages,
    scores.no_confidences,
    scores.equal,
    datasets.rare_class,
    datasets.no_sizes,
    datasets.id_zero,
    datasets.same_last_part,
    conventions.looks_ltwh,
    conventions.looks_ltrb,
    conventions.looks_swapped,
    conventions.off_by_one,
    tracks.twice,
    tracks.changes_class,
    tracks.frame_twice,
    tracks.frame_beyond,
    tracks.detections_change_class,
    tracks.without_track,
    tracks.one_frame,
    *shapes.RULES,
)
"""Every rule for one dataset, in the order in which faults are reported."""

FOLLOWS = {
    rule.code.name: rule.explains.name
    for rule in RULES
    if isinstance(rule, SetRule) and rule.explains is not None
}
"""Code of a rule about the whole dataset -> the code, reported box by box, that it explains for all boxes."""


def run(
    dataset: Dataset,
    log: Log,
    options: Collection[str] = (),
    *,
    all_rules: bool = False,
    tolerance: float = TOLERANCE,
    also: Collection[str] = (),
    without: Collection[str] = (),
) -> NDArray[np.bool_]:
    """Run the rules on a dataset, report their findings, and return (n,) a mask of the boxes with an error.

    If a rule about the dataset explains the warnings of a rule about boxes, only the first of these is kept.

    Parameters
    ----------
    log
        Takes the issues.
    options
        Names of the reader's options, such as ``box``; messages advise only these.
    all_rules
        Whether the rules that only `validate` asks for are run too, and gaps in tracks are noted.
    tolerance
        Pixels by which a box may reach beyond its image.
    also
        Codes of further rules to run, of those that only `validate` asks for.
    without
        Codes of rules not to run, such as those about boxes that will be clipped anyway.
    """
    columns = DerivedColumns(dataset, tolerance, options)
    has_error = np.zeros(len(dataset), np.bool_)
    with np.errstate(invalid="ignore", over="ignore"):
        has_subject = _find_subjects(columns)
        rules = [
            rule
            for rule in RULES
            if (all_rules or not rule.validate_only or rule.code.name in also)
            and rule.code.name not in without
            and (not rule.needs or any(has_subject[name] for name in rule.needs))
        ]
        # Rules about the dataset are run first, as they may explain findings about boxes.
        findings = {
            rule: list(rule.find(columns))
            for rule in rules
            if isinstance(rule, SetRule) and not any(log.counts[name] for name in rule.unless)
        }
        reasons = {  # code of single boxes -> the code that explains all of them
            FOLLOWS[r.code.name]: r.code.name for r in findings if findings[r] and r.code.name in FOLLOWS
        }
        for rule in rules:
            if isinstance(rule, SetRule):
                for location, values in findings.get(rule, ()):
                    log.report(rule.code, location, **values)
                continue
            rows = _report_boxes(rule, columns, reasons.get(rule.code.name, ""), log)
            if rule.code.severity == "error":
                has_error[rows] = True
        if all_rules:
            tracks.note_gaps(columns, log)
    return has_error


def _find_subjects(columns: DerivedColumns) -> dict[str, bool]:
    """Return, by the words of `needs` of a rule, whether the data has what the rule is about.

    Usual data has none of these, so that most rules are skipped.
    """
    dataset = columns.dataset
    duplicate_rows, _ = columns.duplicates
    return {
        "suspects": len(columns.suspects) > 0,
        # A number beyond the margin within which trainers accept labels.
        "margin": dataset.margin is not None and not np.isnan(columns.refused_numbers).all(),
        "duplicates": len(duplicate_rows) > 0,
        "normalised": columns.normalised,
        "scores": dataset.kind == "det" or not np.isnan(dataset.boxes.score).all(),
        "areas": not np.isnan(dataset.boxes.area).all(),
        "shapes": dataset.boxes.shapes is not None,
        "keypoints": dataset.boxes.keypoints is not None,
    }


def _report_boxes(rule: BoxRule, columns: DerivedColumns, reason: str, log: Log) -> NDArray[np.intp]:
    """Report what a rule finds, and return the rows of these boxes.

    Of warnings with a `reason`, the code that explains all of them, only the first is kept.
    """
    dataset = columns.dataset
    rows, values_of = rule.find(columns)
    if not len(rows):
        return rows
    if rule.code.severity == "error":
        reason = ""  # each error is reported by itself
    batches = [(rows, reason)]
    if rule is boxes.outside and not reason and dataset.boxes.track is not None:
        # A track that leaves the image does so in frame after frame.
        is_tracked = dataset.boxes.track[rows] >= 0
        batches = [(rows[~is_tracked], ""), (rows[is_tracked], "boxes of tracks")]
    for batch_rows, batch_reason in batches:
        log.report_rows(rule.code, dataset, batch_rows, values_of, field=rule.field, reason=batch_reason)
    return rows


def report_similar_classes(dataset: Dataset, log: Log) -> None:
    """Withdraw reports of similar class names from `log`, and report those of `dataset` instead."""
    rule = datasets.similar_classes
    log.withdraw(rule.code.name)
    for location, values in rule.find(DerivedColumns(dataset, TOLERANCE)):
        log.report(rule.code, location, **values)
