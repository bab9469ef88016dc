"""Localisation recall precision (LRP) error: localisation, false positives and misses in one number.

Definitions from Oksuz et al., "Localization Recall Precision (LRP): A New Performance Metric for Object
Detection" (2018), and "One Metric to Measure them All" (2021): with IoU threshold t and s = sum over true
positives of (1 - IoU) / (1 - t),

    LRP = (s + FP + FN) / (TP + FP + FN)

The optimal LRP is the least over all score thresholds; equal scores are taken together.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from odm.evaluate.analysis.operating import Candidates, candidates, single_threshold
from odm.evaluate.analysis.table import Table
from odm.evaluate.results import plain
from odm.tables import Floats

NAN = float("nan")


@dataclasses.dataclass(frozen=True, slots=True)
class Lrp:
    """The optimal LRP error of one class, or the mean over classes with ground truth.

    Attributes
    ----------
    olrp
        Least LRP, from 0 (perfect) to 1 (nothing found).
    loc, fp, fn
        At its threshold: mean 1 - IoU of the true positives, FP / (TP + FP), FN / ground truths.
    score
        The threshold; NaN where no detection is right, so nothing is kept. Also NaN for the mean.
    """

    olrp: float = NAN
    loc: float = NAN
    fp: float = NAN
    fn: float = NAN
    score: float = NAN

    def to_dict(self) -> dict[str, Any]:
        """The numbers, None for what is undefined."""
        return {key: plain(getattr(self, key)) for key in ("olrp", "loc", "fp", "fn")}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LrpTable:
    """The optimal LRP of all classes."""

    mean: Lrp
    classes: dict[str, Lrp]
    """By name; NaN throughout for a class without ground truth."""
    reason: str = ""
    """Why there is none."""

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON contract; classes without ground truth are left out."""
        data: dict[str, Any] = self.mean.to_dict()
        if self.reason:
            return data | {"reason": self.reason}
        data["classes"] = [
            {"class": name, **own.to_dict(), "score": plain(own.score)}
            for name, own in self.classes.items()
            if own.olrp == own.olrp
        ]
        return data


def lrp(table: Table) -> LrpTable:
    """The optimal LRP error at the protocol's reference IoU.

    Where the protocol has no single threshold below 1, everything is NaN and the reason is given.
    """
    reason = single_threshold(table)
    if reason:
        return LrpTable(Lrp(), {name: Lrp() for name in table.classes}, reason)
    classes = {
        name: _of_class(own, table.threshold)
        for name, own in zip(table.classes, candidates(table), strict=True)
    }
    return LrpTable(
        Lrp(**{key: _mean([getattr(own, key) for own in classes.values()]) for key in _NUMBERS}), classes
    )


_NUMBERS = ("olrp", "loc", "fp", "fn")


def _of_class(own: Candidates, threshold: float) -> Lrp:
    if not own.n:
        return Lrp()
    some = np.flatnonzero(own.tp > 0)
    if not len(some):
        return Lrp(olrp=1.0, fn=1.0)
    tp, fp, loss = own.tp[some], own.fp[some], own.loss[some]
    fn = own.n - tp
    errors: Floats = (loss / (1 - threshold) + fp + fn) / (tp + fp + fn)
    best = int(errors.argmin())  # the first, which has the highest score
    return Lrp(
        olrp=float(errors[best]),
        loc=float(loss[best] / tp[best]),
        fp=float(fp[best] / (tp[best] + fp[best])),
        fn=float(fn[best] / own.n),
        score=float(own.score[some[best]]),
    )


def _mean(values: list[float]) -> float:
    defined = [value for value in values if value == value]  # noqa: PLR0124 -- not NaN
    return sum(defined) / len(defined) if defined else NAN
