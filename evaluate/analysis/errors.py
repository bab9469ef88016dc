"""Kinds of errors, and every detection with its outcome and the reason of each false positive.

Kinds and their order from Bolya et al., "TIDE: A General Toolbox for Identifying Object Detection Errors"
(2020). False positives, and detections that an ignored ground truth took, are classified against the
ground truths that count; with threshold t, the ends of all ranges included:

1. no such ground truth on the image: background
2. highest IoU with its class from 0.1 to t: localisation
3. highest IoU with another class t or more: class
4. IoU of t or more with a ground truth of its class that is taken: duplicate
5. highest IoU with any up to 0.1: background
6. else both
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.evaluate.analysis.outcome_table import FP, IGNORED, OutcomeTable, Truths
from odm.evaluate.analysis.overlaps import BACKGROUND, Overlaps
from odm.evaluate.matching.matches import OUTCOMES, REASONS, Matches
from odm.evaluate.matching.sides import Joined, Mask
from odm.tables import Floats, Ints
from odm.views import TableMixin, import_late

KINDS = ("Cls", "Loc", "Both", "Dupe", "Bkg")
"""The kinds of false positives."""

CLS, LOC, BOTH, DUPE, BKG = range(5)
_REASONS_OF_KINDS = ("class", "localisation", "both", "duplicate", "background")
_NUMBERS = np.array([REASONS.index(name) for name in _REASONS_OF_KINDS], np.int8)


class DetectionTable(TableMixin, msgspec.Struct, frozen=True, eq=False):
    """A row per detection, in the order of the input; detections that were dropped before are not there."""

    images: tuple[str, ...]
    classes: tuple[str, ...]
    row: Ints
    """(n,) row in the detections' dataset."""
    image: Ints
    """(n,) number in ``images``."""
    category: Ints
    score: Floats
    xyxy: Floats
    best_iou: Floats
    """(n,) highest IoU with any ground truth of the same image and class, 0 where there is none."""
    gt: Ints
    """(n,) row in the ground truth's dataset that was matched, -1 = none."""
    outcome: NDArray[np.uint8]
    """(n,) number in `OUTCOMES`."""
    reason: NDArray[np.int8]
    """(n,) number in `REASONS` for false positives, -1 for the others."""
    truth: Truths
    at: Ints
    """(n,) position in ``truth`` that was matched, -1 = none."""
    truth_ious: tuple[Floats, Floats]
    """(g,) highest IoU of each ground truth with detections of its class, and of the others."""
    counting_ious: tuple[Floats, Floats]
    """(n,) highest IoU with the counting ground truths of its class, and of the others."""
    has_truth: Mask
    """(n,) whether its image has a counting ground truth."""
    result: Any = None
    """The result that it is of."""

    def __repr__(self) -> str:
        return f"<DetectionTable: {len(self)} detections of {len(self.images)} images>"

    def __len__(self) -> int:
        return len(self.row)

    def columns(self) -> dict[str, list[Any]]:
        """The values of each column of ``detections.csv``, by its name; None where there is none."""
        columns: dict[str, list[Any]] = import_late("evaluate.output.render").make_detection_frame(
            self.result
        )
        return columns


def find_kinds(
    threshold: float, has_truth: Mask, same_iou: Floats, other_iou: Floats, is_taken: Mask
) -> NDArray[np.int8]:
    """(n,) the kind that each detection would be as an error, a number in `KINDS`.

    From the IoU `threshold` on a detection finds an object. `has_truth` (n,) says whether there is a counting
    ground truth on the image, `same_iou` and `other_iou` (n,) are the highest IoU with those of its class and
    with the others, and `is_taken` (n,) says whether one of its class that another detection took reaches the
    threshold.
    """
    return np.select(
        [
            ~has_truth,
            (same_iou >= BACKGROUND) & (same_iou <= threshold),
            other_iou >= threshold,
            is_taken,
            np.maximum(same_iou, other_iou) <= BACKGROUND,
        ],
        [np.int8(BKG), np.int8(LOC), np.int8(CLS), np.int8(DUPE), np.int8(BKG)],
        np.int8(BOTH),
    )


def find_reasons(kind: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return (n,) numbers in `REASONS` for (n,) numbers in `KINDS`."""
    return _NUMBERS[kind]


def find_error_types(table: OutcomeTable, overlaps: Overlaps) -> NDArray[np.int8]:
    """(n,) the kind of each error, an index in `KINDS`; -1 for detections that are no error.

    False positives are errors, and so are detections that an ignored object took.
    """
    # Whether an object of its class that a true positive took is reached: then it is a duplicate.
    is_taken = overlaps.matched.iou >= table.threshold
    kind = find_kinds(table.threshold, _has_truth(table), overlaps.same.iou, overlaps.other.iou, is_taken)
    is_ignored_hit = (table.outcome == IGNORED) & (table.gt >= 0)
    return np.where((table.outcome == FP) | is_ignored_hit, kind, np.int8(-1))


def _has_truth(table: OutcomeTable) -> Mask:
    """(n,) mask of the detections on images with a counting ground truth."""
    has_truth = np.zeros(len(table.images), np.bool_)
    has_truth[table.truth.image[table.counting]] = True
    of_detection: Mask = has_truth[table.image]
    return of_detection


def make_detection_table(joined: Joined, matches: Matches, overlaps: Overlaps) -> DetectionTable:
    """Make the table of the outcome of each detection of `joined`, under the protocol of `matches`."""
    table = OutcomeTable.of(joined, matches)
    kind = find_error_types(table, overlaps)
    reason = np.where((table.outcome == OUTCOMES.index("FP")) & (kind >= 0), find_reasons(kind), np.int8(-1))
    # The matches may be of shards in any order; the input's rows tell which detection is which.
    rows = np.argsort(matches.row)
    gt = np.where(table.gt >= 0, table.truth.row[table.gt], -1) if len(table.truth) else table.gt
    return DetectionTable(
        images=joined.images,
        classes=matches.classes,
        row=matches.row[rows],
        image=matches.image[rows],
        category=matches.category[rows],
        score=matches.score[rows],
        xyxy=table.xyxy[rows],
        best_iou=overlaps.same_any_iou[rows],
        gt=gt[rows].astype(np.int32),
        outcome=table.outcome[rows],
        reason=reason[rows],
        truth=table.truth,
        at=table.gt[rows],
        truth_ious=(overlaps.truth_same.iou, overlaps.truth_other.iou),
        counting_ious=(overlaps.same.iou[rows], overlaps.other.iou[rows]),
        has_truth=_has_truth(table)[rows],
    )
