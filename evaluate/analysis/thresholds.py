"""Which detections to keep: score thresholds chosen by a rule, per class, and the file that holds them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from odm.evaluate.analysis.operating import (
    Candidates,
    candidates,
    candidates_together,
    require_ap,
    single_threshold,
)
from odm.evaluate.analysis.table import Table
from odm.evaluate.results import plain
from odm.issues import UsageError, shorten
from odm.tables import Floats

VERSION = 1

RULES = "f1, fbeta:B, precision:P, recall:R, cost:FP:FN or lrp"


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """How a threshold is chosen.

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
    """A rule from its text, such as ``fbeta:0.5``. UsageError if it is none."""
    name, *given = text.strip().split(":")
    try:
        values = tuple(float(value) for value in given)
    except ValueError:
        values = (math.nan,)
    good = name in _VALUES and len(values) == _VALUES[name] and all(map(math.isfinite, values))
    if good:
        good = {
            "fbeta": lambda: values[0] > 0,
            "precision": lambda: 0 <= values[0] <= 1,
            "recall": lambda: 0 <= values[0] <= 1,
            "cost": lambda: min(values) >= 0 and max(values) > 0,
        }.get(name, lambda: True)()
    if not good:
        raise UsageError(f"thresholds {shorten(text)}: give {RULES}, as in fbeta:0.5 or cost:1:5")
    return Rule(name, values)


@dataclasses.dataclass(frozen=True, slots=True)
class Threshold:
    """The chosen score and what it gives.

    ``score`` is NaN where no candidate meets the rule, or nothing is to be kept; then precision is NaN and
    recall 0. ``value`` is what the rule optimised: F score, recall, precision, cost or LRP error.
    """

    score: float
    precision: float
    recall: float
    n: int
    """Ground truths that count."""
    value: float

    def to_dict(self) -> dict[str, Any]:
        """As in the file; None for what is undefined."""
        return {key: plain(getattr(self, key)) for key in ("score", "precision", "recall", "n")}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Thresholds:
    """The thresholds of all classes with ground truth, and one for all classes together."""

    rule: str
    protocol: str
    iou: float
    default: Threshold
    classes: dict[str, Threshold]

    @property
    def unreachable(self) -> list[str]:
        """The classes whose threshold is undefined."""
        return [name for name, own in self.classes.items() if math.isnan(own.score)]

    def to_dict(self) -> dict[str, Any]:
        """The contents of the file."""
        return {
            "version": VERSION,
            "rule": self.rule,
            "protocol": self.protocol,
            "iou": self.iou,
            "default": plain(self.default.score),
            "classes": {name: own.to_dict() for name, own in self.classes.items()},
        }


def choose_thresholds(table: Table, rule: Rule | str) -> Thresholds:
    """Choose the score threshold of every class with ground truth, and one for all classes together.

    Raises
    ------
    UsageError
        If the rule does not exist, or the protocol cannot have it.
    """
    rule = parse_rule(rule) if isinstance(rule, str) else rule
    require_ap(table, "choosing thresholds")
    if rule.name == "lrp" and (reason := single_threshold(table)):
        raise UsageError(f"thresholds lrp: {reason}")
    of_classes = candidates(table)
    return Thresholds(
        rule=str(rule),
        protocol=table.rules.name,
        iou=table.threshold,
        default=_choose(candidates_together(table), rule, table.threshold),
        classes={
            name: _choose(own, rule, table.threshold)
            for name, own in zip(table.classes, of_classes, strict=True)
            if own.n
        },
    )


def _choose(own: Candidates, rule: Rule, iou: float) -> Threshold:
    """The best candidate; higher scores come first, and the first of the best is taken."""
    n, tp, fp = max(own.n, 1), own.tp, own.fp
    precision = tp / np.maximum(tp + fp, 1)
    recall = tp / n
    allowed = np.ones(len(tp), np.bool_)
    value: Floats
    if rule.name in ("f1", "fbeta"):
        beta = rule.values[0] ** 2 if rule.values else 1.0
        value = (1 + beta) * tp / (beta * own.n + tp + fp)
        allowed = tp > 0
    elif rule.name == "precision":
        value, allowed = recall, (precision >= rule.values[0]) & (tp > 0)
    elif rule.name == "recall":
        value, allowed = precision, recall >= rule.values[0]
    elif rule.name == "cost":
        value = -(rule.values[0] * fp + rule.values[1] * (own.n - tp))
        nothing = -rule.values[1] * own.n
        if not len(value) or nothing >= value.max():
            return Threshold(math.nan, math.nan, 0.0 if own.n else math.nan, own.n, -nothing)
    else:
        value = -(own.loss / (1 - iou) + fp + own.n - tp) / np.maximum(own.n + fp, 1)
        allowed = tp > 0
    if not allowed.any():
        return Threshold(math.nan, math.nan, 0.0 if own.n else math.nan, own.n, math.nan)
    best = int(np.where(allowed, value, -np.inf).argmax())
    found = float(value[best])
    return Threshold(
        float(own.score[best]),
        float(precision[best]),
        float(recall[best]),
        own.n,
        -found if rule.name in ("cost", "lrp") else found,
    )


def read_thresholds(data: Any) -> tuple[dict[str, float], float]:
    """The score of each class, and that of all others, from the contents of a file; NaN keeps nothing.

    Raises
    ------
    UsageError
        If it is not what `Thresholds.to_dict` gives.
    """

    def score(value: Any, where: str) -> float:
        if value is None:
            return math.nan
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise UsageError(f"thresholds: {where}: expected a finite number or null, found {value!r}")
        return float(value)

    if not isinstance(data, Mapping) or data.get("version") != VERSION:
        raise UsageError("thresholds: expected a file of `odm eval --save-thresholds`, version 1")
    classes = data.get("classes")
    if not isinstance(classes, Mapping) or "default" not in data:
        raise UsageError("thresholds: expected 'default' and 'classes'")
    found = {}
    for name, own in classes.items():
        if not isinstance(own, Mapping) or "score" not in own:
            raise UsageError(f"thresholds: classes: {shorten(name)}: expected an object with 'score'")
        found[name] = score(own["score"], f"classes: {shorten(name)}: score")
    return found, score(data["default"], "default")
