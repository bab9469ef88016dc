"""Whether scores are probabilities: the detection expected calibration error (D-ECE).

Definition from Küppers et al., "Multivariate Confidence Calibration for Object Detection" (2020), over
scores: detections that are true or false positives fall into equally wide bins of score, and the error is the
mean distance between precision and mean score of the bins, weighted by their detections. Bins are open on the
left, (k/M, (k+1)/M]; a score of 0 belongs to the first.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from odm.evaluate.analysis.outcome_table import IGNORED, TP
from odm.evaluate.analysis.table import Table
from odm.evaluate.results import plain
from odm.issues import UsageError

BINS = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Bin:
    """The detections with scores above `low` up to `high`; NaN where there are none."""

    low: float
    high: float
    n: int
    score: float
    """Mean score."""
    precision: float

    def to_dict(self) -> dict[str, Any]:
        """The bin, None for what is undefined."""
        return {key: plain(value) for key, value in dataclasses.asdict(self).items()}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """The calibration of all classes together, and of each.

    Attributes
    ----------
    dece, mce
        Weighted mean and maximum of |precision - mean score| over the bins; NaN without detections.
    classes
        D-ECE by class name.
    reason
        Why it is undefined.
    """

    dece: float
    mce: float
    bins: list[Bin]
    classes: dict[str, float]
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON contract."""
        return {
            "dece": plain(self.dece),
            "mce": plain(self.mce),
            "bins": [one.to_dict() for one in self.bins],
            "classes": [{"class": name, "dece": plain(value)} for name, value in self.classes.items()],
            **({"reason": self.reason} if self.reason else {}),
        }


def calibration(table: Table, *, bins: int = BINS) -> Calibration:
    """The calibration of true and false positives; undefined where a score is outside 0..1.

    Parameters
    ----------
    table
        Of all images.
    bins
        How many, from 1.
    """
    if bins < 1:
        raise UsageError(f"bins {bins}: expected a whole number of at least 1")
    rows = np.flatnonzero(table.outcome != IGNORED)
    score = table.score[rows]
    if len(score) and not (score.min() >= 0 and score.max() <= 1):
        outside = int(((score < 0) | (score > 1)).sum())
        return Calibration(
            math.nan,
            math.nan,
            [],
            dict.fromkeys(table.classes, math.nan),
            f"{outside} of {len(score)} scores are outside 0..1",
        )
    edges = np.arange(bins + 1) / bins
    at = np.maximum(np.searchsorted(edges, score, side="left") - 1, 0)
    n_classes = max(len(table.classes), 1)
    key = table.category[rows].astype(np.int64) * bins + at
    right = (table.outcome[rows] == TP).astype(np.float64)
    n = np.bincount(key, minlength=n_classes * bins).reshape(n_classes, bins)
    total = np.bincount(key, weights=score, minlength=n_classes * bins).reshape(n_classes, bins)
    true = np.bincount(key, weights=right, minlength=n_classes * bins).reshape(n_classes, bins)
    count, sums, hits = n.sum(axis=0), total.sum(axis=0), true.sum(axis=0)
    some = count > 0
    gaps = np.abs(hits[some] - sums[some]) / count[some]
    of_class = n.sum(axis=1)
    per_class = np.divide(
        np.abs(true - total).sum(axis=1), of_class, out=np.full(n_classes, np.nan), where=of_class > 0
    )
    share = np.maximum(count, 1)
    return Calibration(
        dece=float(np.abs(hits - sums).sum() / count.sum()) if some.any() else math.nan,
        mce=float(gaps.max()) if some.any() else math.nan,
        bins=[
            Bin(
                float(edges[i]),
                float(edges[i + 1]),
                int(count[i]),
                float(sums[i] / share[i]) if count[i] else math.nan,
                float(hits[i] / share[i]) if count[i] else math.nan,
            )
            for i in range(bins)
        ],
        classes=dict(zip(table.classes, per_class.tolist(), strict=False)),
    )
