"""Every detection with its outcome, and the reason of each false positive."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.analysis.overlaps import overlaps_of
from odm.evaluate.analysis.table import tabulate
from odm.evaluate.analysis.tide import KINDS, error_types
from odm.evaluate.matching.matches import Matches
from odm.evaluate.matching.sides import Joined
from odm.evaluate.scores.outcomes import OUTCOMES, REASONS
from odm.tables import Floats, Ints


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class DetectionTable:
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


_REASON_OF = {
    "Loc": "localisation",
    "Cls": "class",
    "Dupe": "duplicate",
    "Bkg": "background",
    "Both": "both",
}


def detection_table(joined: Joined, matches: Matches) -> DetectionTable:
    """What became of every detection of `joined`, under the protocol of `matches`."""
    table = tabulate(joined, matches)
    overlaps = overlaps_of(joined, table)
    number = np.array([REASONS.index(_REASON_OF[kind]) for kind in KINDS], np.int8)
    kind = error_types(table, overlaps)
    reason = np.where((table.outcome == OUTCOMES.index("FP")) & (kind >= 0), number[kind], np.int8(-1))
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
    )
