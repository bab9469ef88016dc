"""Compute the AP that each kind of error costs (TIDE); `errors.py` defines the kinds."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import numpy as np

from odm.evaluate.analysis.errors import CLS, KINDS, LOC, find_error_types
from odm.evaluate.analysis.outcome_table import FP, TP
from odm.evaluate.analysis.overlaps import Overlaps
from odm.evaluate.analysis.table import Table
from odm.evaluate.analysis.thresholds import require_ap
from odm.evaluate.matching.order import argsort_int, first_of_runs
from odm.evaluate.matching.sides import Mask
from odm.evaluate.results import to_plain
from odm.evaluate.scores.accumulate import mean_of_defined
from odm.evaluate.scores.curves import area_under_lines, ramp
from odm.evaluate.scores.protocols import recall_points
from odm.tables import Floats, Ints, Longs

FIXES = (*KINDS, "Miss", "FalsePos", "FalseNeg")
"""What can be put right."""


class Fix(msgspec.Struct, frozen=True, eq=False):
    """What AP would gain if one kind of error were put right.

    Attributes
    ----------
    dap
        Gain of mean AP, as a fraction. At least 0 for the kinds of false positives and for Miss.
    count
        How many there are: false positives, or missed ground truths. None for FalsePos and FalseNeg.
    classes
        Gain of the AP of each class with ground truth, by name; None where its AP becomes undefined.
    """

    dap: float
    count: int | None
    classes: dict[str, float | None]


class Tide(msgspec.Struct, frozen=True, eq=False):
    """The AP at the reference IoU and what each kind of error costs."""

    ap: float
    fixes: dict[str, Fix]

    def to_dict(self, *, classes: bool = False) -> dict[str, Any]:
        """As in the JSON contract: ``dap`` and ``count`` by kind; None for what is undefined.

        With `classes` also the gain of each class by kind, in the list ``classes``.
        """
        by_kind: dict[str, Any] = {
            name: {"dap": to_plain(fix.dap), **({} if fix.count is None else {"count": fix.count})}
            for name, fix in self.fixes.items()
        }
        if not classes:
            return by_kind
        names = next(iter(self.fixes.values())).classes
        rows = [
            {"class": label, **{name: fix.classes[label] for name, fix in self.fixes.items()}}
            for label in names
        ]
        return {**by_kind, "classes": rows}


def tide(table: Table, overlaps: Overlaps, *, points: Floats | None = None) -> Tide:
    """Compute the AP that each kind of error costs, with the outcomes and interpolation of the protocol.

    `points` are the recalls at which precision is read, instead of the protocol's. Raises UsageError if the
    protocol has no AP per class.
    """
    require_ap(table, "TIDE")
    points = recall_points(table.rules.interpolation) if points is None else points
    kind = find_error_types(table, overlaps)
    n_gt, is_missed = table.n, table.missed
    # The ground truth that a localisation or class error is about, -1 for the others.
    target_truth = np.select([kind == LOC, kind == CLS], [overlaps.same.at, overlaps.other.at], np.int32(-1))
    is_claiming, is_lost = _find_claims(table, target_truth)
    is_tp, is_fp = table.outcome == TP, table.outcome == FP
    has_truth = n_gt > 0
    aps = _Aps(table, points)

    def measure_gain(
        is_ranked: Mask, is_tp: Mask, category: Longs | None, npos: Longs
    ) -> tuple[float, Floats]:
        """Return how far the mean AP rises above `mean_ap`, and (classes,) each AP above that in `class_ap`.

        Both are from before any fix. The parameters are those of `_Aps.compute`: without a `category` no
        detection changes its class.
        """
        ap = aps.compute(is_ranked, is_tp, category, npos)
        ap[~has_truth] = np.nan
        return mean_of_defined(ap) - mean_ap, ap - class_ap

    class_ap = aps.compute(is_tp | is_fp, is_tp, None, n_gt)
    class_ap[~has_truth] = np.nan
    mean_ap = mean_of_defined(class_ap)
    fixes: dict[str, Fix] = {}

    def add_fix(name: str, count: int | None, gains: tuple[float, Floats]) -> None:
        """Add the fix of a kind of error; with a `count` its gain is at least 0."""
        gain, class_gains = gains
        fixes[name] = Fix(
            gain if count is None or gain != gain else max(0.0, gain),  # noqa: PLR0124 -- NaN
            count,
            {table.classes[k]: to_plain(float(class_gains[k])) for k in np.flatnonzero(has_truth).tolist()},
        )

    # Errors of a kind are removed; those of class and place that claim a ground truth become right instead.
    for kind_index, name in enumerate(KINDS):
        is_kind = kind == kind_index
        is_fixed = is_kind & is_claiming if kind_index in (CLS, LOC) else np.zeros(len(is_kind), np.bool_)
        category = table.category.astype(np.int64)
        if kind_index == CLS:
            category[is_fixed] = table.truth.category[target_truth[is_fixed]]
        is_left = ((is_tp | is_fp) & ~is_kind) | is_fixed
        add_fix(name, int((is_kind & is_fp).sum()), measure_gain(is_left, is_tp | is_fixed, category, n_gt))
    # Missed ground truths do not count, then false positives are not there, then nothing is missed.
    is_ranked = is_tp | is_fp
    add_fix(
        "Miss",
        int(is_lost.sum()),
        measure_gain(is_ranked, is_tp, None, n_gt - _count_by_class(table, is_lost)),
    )
    add_fix("FalsePos", None, measure_gain(is_tp, is_tp, None, n_gt))
    add_fix("FalseNeg", None, measure_gain(is_ranked, is_tp, None, n_gt - _count_by_class(table, is_missed)))
    return Tide(mean_ap, fixes)


def _find_claims(table: Table, target_truth: Longs | Ints) -> tuple[Mask, Mask]:
    """Return (n,) which detections would find a missed ground truth, (g,) which ground truths none would.

    `target_truth` (n,) is the ground truth that an error is about, -1 = none; the first in rank claims it.
    """
    is_missed = table.missed
    rows = table.order[target_truth[table.order] >= 0]
    rows = rows[is_missed[target_truth[rows]]]
    is_claiming = np.zeros(len(target_truth), np.bool_)
    # `rows` are by rank, and `unique` returns the first row of each ground truth.
    is_claiming[rows[np.unique(target_truth[rows], return_index=True)[1]]] = True
    is_claimed = np.zeros(len(table.truth), np.bool_)
    is_claimed[target_truth[is_claiming]] = True
    return is_claiming, is_missed & ~is_claimed


def _count_by_class(table: Table, is_counted: Mask) -> Longs:
    """Return (classes,) the number of ground truths in the mask `is_counted`, (g,)."""
    return np.bincount(table.truth.category[is_counted], minlength=len(table.classes))


class _Aps:
    """Computes the AP of each class for changed outcomes of ranked detections."""

    def __init__(self, table: Table, points: Floats | None) -> None:
        self.table, self.points = table, points
        self.epsilon, self.reading = table.rules.epsilon, table.rules.reading

    def compute(self, is_ranked: Mask, is_tp: Mask, category: Longs | None, npos: Longs) -> Floats:
        """Return (classes,) AP; NaN without ground truth and detections, 0 with detections only.

        `is_ranked` (n,) marks the detections that are there, `is_tp` (n,) the true positives among them;
        `category` (n,) has their classes if changed, None = those of the table; `npos` (classes,) counts the
        ground truths.
        """
        table, n_classes = self.table, len(self.table.classes)
        if category is None:
            category, (rows, _) = table.category.astype(np.int64), table.ranked
        else:  # by their new classes, and within one by score as before
            rows = table.order[argsort_int(category[table.order], max(n_classes, 1))]
        rows = rows[is_ranked[rows]]
        row_class, is_right = category[rows], is_tp[rows]
        counts = np.bincount(row_class, minlength=n_classes)
        starts = np.cumsum(counts) - counts
        # Of each true positive: how many of its class there are down to it, and how many detections.
        #   is_right 1 0 1 of class 0, 0 1 of class 1:  tp_positions 0 2 4, n_true 1 2 1, n_seen 1 3 2
        tp_positions = np.flatnonzero(is_right)
        tp_class = row_class[tp_positions]
        first_tp = np.searchsorted(tp_class, np.arange(n_classes))
        n_true = np.arange(len(tp_positions)) - first_tp[tp_class] + 1
        n_seen = tp_positions - starts[tp_class] + 1
        precision = n_true / (n_seen + self.epsilon)
        ap = np.where((npos > 0) | (counts > 0), 0.0, np.nan)
        # Classes with ground truth but without true positives keep their 0.
        class_starts = first_of_runs(tp_class)
        for start, stop in itertools.pairwise([*class_starts.tolist(), len(tp_class)]):
            k = int(tp_class[start])
            if npos[k] > 0:
                envelope = np.maximum.accumulate(precision[start:stop][::-1])[::-1]
                last_precision = np.array([n_true[stop - 1] / counts[k]])
                ap[k] = self._average(envelope, n_true[start:stop] / npos[k], int(npos[k]), last_precision)
        return ap

    def _average(self, envelope: Floats, recall: Floats, npos: int, last: Floats) -> float:
        """Return the AP of a class from the envelope of precision and the recall at its true positives.

        Both are by ascending recall; `last` (1,) is the precision at its last detection, for ``ramp``.
        """
        if self.points is None:
            return float(envelope.sum() / npos)
        # At each point precision is read at the first true positive that reaches it; for lines, beyond it.
        if self.reading == "steps":
            position_of_point = np.searchsorted(recall, self.points, side="left")
            return float(np.append(envelope, 0.0)[position_of_point].sum() / len(self.points))
        position_of_point = np.searchsorted(recall, self.points, side="right")
        heights = np.append(envelope, 0.0)[position_of_point]
        if self.reading == "ramp":
            is_beyond = position_of_point == len(envelope)
            heights[is_beyond] = ramp(self.points[is_beyond], recall[-1:], last)
        return float(area_under_lines(self.points, heights))
