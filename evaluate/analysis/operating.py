"""Counts at every score that could be a threshold, and what is left of a table at chosen ones."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from odm.evaluate.analysis.outcome_table import IGNORED, TP
from odm.evaluate.analysis.table import Table
from odm.evaluate.matching.sides import Mask
from odm.issues import UsageError
from odm.tables import Floats, Longs


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Candidates:
    """The distinct scores of one class, or of all together, descending; each column is (m,).

    A threshold keeps the detections that score no lower, so equal scores are taken together. Ignored
    detections count nowhere.
    """

    score: Floats
    tp: Longs
    fp: Longs
    loss: Floats
    """Sum of 1 - IoU over the true positives."""
    n: int
    """Ground truths that count."""


def candidates(table: Table) -> tuple[Candidates, ...]:
    """The candidates of every class, in the order of the classes."""
    rows, ends = table.ranked
    return tuple(
        _candidates(table, rows[start:stop], int(n))
        for start, stop, n in zip(ends[:-1].tolist(), ends[1:].tolist(), table.n.tolist(), strict=True)
    )


def candidates_together(table: Table) -> Candidates:
    """The candidates of one score for all classes, those without ground truth included."""
    return _candidates(table, table.order, int(table.n.sum()))


def _candidates(table: Table, rows: Longs, n: int) -> Candidates:
    outcome = table.outcome[rows]
    rows = rows[outcome != IGNORED]
    is_tp = table.outcome[rows] == TP
    score = table.score[rows]
    last = np.flatnonzero(np.concatenate([score[1:] != score[:-1], [True]])[: len(score)])
    tp = np.cumsum(is_tp)
    loss = np.cumsum(np.where(is_tp, 1 - table.iou[rows], 0.0))
    return Candidates(score[last], tp[last], last + 1 - tp[last], loss[last], n)


def fixed(table: Table, score: float | Mapping[str, float] | None, default: float = math.nan) -> Floats:
    """(classes,) one threshold for all, or that of each class by name, else `default`.

    NaN keeps nothing; None keeps everything.
    """
    if score is None:
        return np.full(len(table.classes), -math.inf)
    if isinstance(score, Mapping):
        return np.array([score.get(name, default) for name in table.classes], np.float64)
    return np.full(len(table.classes), float(score))


def kept(table: Table, thresholds: Floats) -> Mask:
    """(n,) the detections that reach the threshold of their class, of (classes,) `thresholds`."""
    with np.errstate(invalid="ignore"):
        keep: Mask = table.score >= thresholds[table.category]
    return keep


def single_threshold(table: Table) -> str:
    """Why a table has no localisation error: empty where it has one."""
    rules = table.rules
    if rules.metric in ("corloc", "top-k"):
        return f"{rules.name} does not count every object"
    if rules.size_threshold:
        return f"{rules.name} has a separate threshold for every ground truth"
    if table.threshold >= 1:
        return "at IoU 1 there is no localisation error"
    return ""


def require_ap(table: Table, what: str) -> None:
    """UsageError if the protocol has no AP per class."""
    if table.rules.metric != "ap":
        raise UsageError(f"{what} needs AP per class, which {table.rules.name} does not have")
