"""Choose score thresholds per class by a rule, compute the optimal LRP error, and read thresholds from JSON.

LRP, localisation recall precision, is localisation, false positives and misses in one number. Definitions
from Oksuz et al., "Localization Recall Precision (LRP): A New Performance Metric for Object Detection"
(2018), and "One Metric to Measure them All" (2021): with IoU threshold t and s = sum over true positives of
(1 - IoU) / (1 - t),

    LRP = (s + FP + FN) / (TP + FP + FN)

The optimal LRP is the least over all score thresholds; equal scores are taken together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from odm.evaluate.analysis.outcome_table import IGNORED, TP
from odm.evaluate.analysis.table import Table
from odm.evaluate.matching.sides import Mask
from odm.issues import UsageError, shorten, spell
from odm.tables import Floats, Longs

VERSION = 1

RULES = "f1, fbeta:B, precision:P, recall:R, cost:FP:FN or lrp"


class Candidates(msgspec.Struct, frozen=True, eq=False):
    """The m distinct scores of one class, or of all together, descending, with counts down to each; all (m,).

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


def list_candidates(table: Table) -> tuple[Candidates, ...]:
    """Make the candidates of every class, in the order of the classes."""
    rows, class_bounds = table.ranked
    return tuple(
        _make_candidates(table, rows[start:stop], int(n))
        for start, stop, n in zip(
            class_bounds[:-1].tolist(), class_bounds[1:].tolist(), table.n.tolist(), strict=True
        )
    )


def _make_candidates(table: Table, rows: Longs, n: int) -> Candidates:
    """Return the candidates of the detections in `rows`, by descending score; `n` ground truths count."""
    outcome = table.outcome[rows]
    rows = rows[outcome != IGNORED]
    is_tp = table.outcome[rows] == TP
    score = table.score[rows]
    # Scores .9 .8 .8 .5 have the tie_ends 0 2 3: the last detection of each score.
    tie_ends = np.flatnonzero(np.concatenate([score[1:] != score[:-1], [True]])[: len(score)])
    tp = np.cumsum(is_tp)
    loss = np.cumsum(np.where(is_tp, 1 - table.iou[rows], 0.0))
    return Candidates(score[tie_ends], tp[tie_ends], tie_ends + 1 - tp[tie_ends], loss[tie_ends], n)


def find_kept(table: Table, thresholds: Floats) -> Mask:
    """Return (n,) whether a detection reaches the threshold of its class, of (classes,) `thresholds`."""
    with np.errstate(invalid="ignore"):
        is_kept: Mask = table.score >= thresholds[table.category]
    return is_kept


def explain_no_error(table: Table) -> str:
    """Return the reason why a table has no localisation error; empty where it has one."""
    rules = table.rules
    if rules.metric in ("corloc", "top-k"):
        return f"{rules.name} does not count every object"
    if rules.size_threshold:
        return f"{rules.name} has a separate threshold for every ground truth"
    if table.threshold >= 1:
        return "at IoU 1 there is no localisation error"
    return ""


def require_ap(table: Table, purpose: str) -> None:
    """Refuse a protocol without AP per class. Raises UsageError."""
    if table.rules.metric != "ap":
        raise UsageError(f"{purpose} needs AP per class, which {table.rules.name} does not have")


# ------------------------------------------------------------------------------------------------- rules


class Rule(msgspec.Struct, frozen=True):
    """A rule by which a threshold is chosen.

    ``f1`` and ``fbeta:B`` take the highest F score; ``precision:P`` the highest recall with at least that
    precision; ``recall:R`` the highest precision with at least that recall; ``cost:FP:FN`` the least cost of
    false positives and misses, where keeping nothing is a choice; ``lrp`` the least LRP error. Of equally
    good thresholds the highest is taken.
    """

    name: str
    values: tuple[float, ...] = ()

    def __str__(self) -> str:
        return ":".join([self.name, *(f"{value:.15g}" for value in self.values)])


_VALUES = {"f1": 0, "fbeta": 1, "precision": 1, "recall": 1, "cost": 2, "lrp": 0}


def parse_rule(text: str) -> Rule:
    """Parse a rule, such as ``fbeta:0.5``. Raises UsageError for any other text."""
    name, *numbers = text.strip().split(":")
    try:
        values = tuple(float(value) for value in numbers)
    except ValueError:
        values = (math.nan,)
    is_valid = name in _VALUES and len(values) == _VALUES[name] and all(map(math.isfinite, values))
    if is_valid:
        is_valid = {
            "fbeta": lambda: values[0] > 0,
            "precision": lambda: 0 <= values[0] <= 1,
            "recall": lambda: 0 <= values[0] <= 1,
            "cost": lambda: min(values) >= 0 and max(values) > 0,
        }.get(name, lambda: True)()
    if not is_valid:
        raise UsageError(f"{spell('thresholds')} {shorten(text)}: give {RULES}, as in fbeta:0.5 or cost:1:5")
    return Rule(name, values)


def choose_thresholds(table: Table, rule: Rule | str) -> dict[str, Any]:
    """Choose the score threshold of every class with ground truth, and one for all classes together.

    Returns the contents of the file: ``classes`` has by name the ``score``, its ``precision`` and ``recall``
    and the ground truths ``n`` that count; ``default`` is the score for all classes. A score is None where no
    candidate meets the rule, or nothing is to be kept. Raises UsageError if the rule does not exist, or the
    protocol cannot have it.
    """
    rule = parse_rule(rule) if isinstance(rule, str) else rule
    require_ap(table, "choosing thresholds")
    if rule.name == "lrp" and (reason := explain_no_error(table)):
        raise UsageError(f"{spell('thresholds')} lrp: {reason}")
    all_classes = _make_candidates(table, table.order, int(table.n.sum()))
    best_of_all, _ = find_best_candidate(all_classes, rule, table.threshold)
    classes = {}
    for name, choices in zip(table.classes, list_candidates(table), strict=True):
        if choices.n:
            k, _ = find_best_candidate(choices, rule, table.threshold)
            tp, n_kept = (int(choices.tp[k]), int(choices.tp[k] + choices.fp[k])) if k >= 0 else (0, 0)
            classes[name] = {
                "score": float(choices.score[k]) if k >= 0 else None,
                "precision": tp / n_kept if k >= 0 else None,
                "recall": tp / choices.n,
                "n": choices.n,
            }
    return {
        "version": VERSION,
        "rule": str(rule),
        "protocol": table.rules.name,
        "iou": table.threshold,
        "default": float(all_classes.score[best_of_all]) if best_of_all >= 0 else None,
        "classes": classes,
    }


def find_best_candidate(candidates: Candidates, rule: Rule, iou: float) -> tuple[int, float]:
    """Return the position of the best candidate (first of equals, -1 = none) and its value under the rule.

    That is the F score, recall, precision, cost or LRP error; NaN where no candidate meets the rule.
    """
    tp, fp = candidates.tp, candidates.fp
    precision, recall = tp / np.maximum(tp + fp, 1), tp / max(candidates.n, 1)
    is_allowed = tp > 0
    value: Floats
    if rule.name in ("f1", "fbeta"):
        beta_squared = rule.values[0] ** 2 if rule.values else 1.0
        value = (1 + beta_squared) * tp / (beta_squared * candidates.n + tp + fp)
    elif rule.name == "precision":
        value, is_allowed = recall, is_allowed & (precision >= rule.values[0])
    elif rule.name == "recall":
        value, is_allowed = precision, recall >= rule.values[0]  # a recall of 0 may be without any TP
    elif rule.name == "cost":
        fp_cost, miss_cost = rule.values
        # Costs are negative here, and so is the LRP error: the highest is taken.
        value = -(fp_cost * fp + miss_cost * (candidates.n - tp))
        value_of_nothing = -miss_cost * candidates.n
        if not len(value) or value_of_nothing >= value.max():
            return -1, -value_of_nothing
        is_allowed = np.ones(len(tp), np.bool_)
    else:  # LRP, as in the docstring of the module: TP + FP + FN = n + FP
        value = -(candidates.loss / (1 - iou) + fp + (candidates.n - tp)) / np.maximum(candidates.n + fp, 1)
    if not is_allowed.any():
        return -1, math.nan
    best = int(np.where(is_allowed, value, -np.inf).argmax())
    return best, float(-value[best] if rule.name in ("cost", "lrp") else value[best])


def lrp(table: Table) -> dict[str, Any]:
    """Compute the optimal LRP error at the reference IoU, as in the JSON contract; None is undefined.

    ``olrp`` is the least LRP, from 0 (perfect) to 1 (nothing found), and at its threshold ``loc`` is the mean
    1 - IoU of the true positives, ``fp`` FP / (TP + FP), and ``fn`` FN / ground truths: means over the
    classes with ground truth, of ``loc`` and ``fp`` over those with a true positive. ``classes`` has them for
    each, with the ``score`` that is the threshold. Where no detection is right ``olrp`` and ``fn`` are 1 and
    the others None. Where the protocol has no single IoU threshold below 1 all is None, and ``reason`` says
    why.
    """
    keys = ("olrp", "loc", "fp", "fn")
    if reason := explain_no_error(table):
        return {**dict.fromkeys(keys), "reason": reason}
    rows: list[dict[str, Any]] = []
    for name, choices in zip(table.classes, list_candidates(table), strict=True):
        if not choices.n:
            continue
        best, error = find_best_candidate(choices, Rule("lrp"), table.threshold)
        rows.append({"class": name, "olrp": 1.0, "loc": None, "fp": None, "fn": 1.0, "score": None})
        if best >= 0:
            tp, fp = int(choices.tp[best]), int(choices.fp[best])
            rows[-1] |= {
                "olrp": error,
                "loc": float(choices.loss[best] / tp),
                "fp": fp / (tp + fp),
                "fn": (choices.n - tp) / choices.n,
                "score": float(choices.score[best]),
            }
    defined = {key: [row[key] for row in rows if row[key] is not None] for key in keys}
    means = {key: sum(values) / len(values) if values else None for key, values in defined.items()}
    return {**means, "classes": rows}


def read_thresholds(data: Any) -> tuple[dict[str, float], float]:
    """Read the score of each class, and that of all others, from the contents of a file; NaN keeps nothing.

    Raises UsageError if these are not what `choose_thresholds` gives.
    """

    def score(value: Any, location: str) -> float:
        """Return a score as a number, NaN for null. Raises UsageError for anything else."""
        if value is None:
            return math.nan
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise UsageError(f"thresholds: {location}: expected a finite number or null, found {value!r}")
        return float(value)

    if not isinstance(data, Mapping) or data.get("version") != VERSION:
        raise UsageError("thresholds: expected a file of `odm eval --save-thresholds`, version 1")
    classes = data.get("classes")
    if not isinstance(classes, Mapping) or "default" not in data:
        raise UsageError("thresholds: expected 'default' and 'classes'")
    scores = {}
    for name, entry in classes.items():
        if not isinstance(entry, Mapping) or "score" not in entry:
            raise UsageError(f"thresholds: classes: {shorten(name)}: expected an object with 'score'")
        scores[name] = score(entry["score"], f"classes: {shorten(name)}: score")
    return scores, score(data["default"], "default")
