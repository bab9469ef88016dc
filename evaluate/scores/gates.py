"""Gates: numbers that a result must reach, for continuous integration."""

from __future__ import annotations

import dataclasses
import math
import re

from odm.evaluate.results import Evaluation
from odm.evaluate.scores.metric_names import PATTERN, MetricName, parse_metric, the_one
from odm.evaluate.scores.protocols import Protocol
from odm.issues import UsageError, hint, shorten

TOLERANCE = 1e-9
"""A number this little below its bound reaches it: AP is a mean of fractions and of rounded sums, so that of
perfect detections can be 0.9999999999999999."""


@dataclasses.dataclass(frozen=True, slots=True)
class Gate:
    """A metric of one result must be at least ``bound``."""

    name: MetricName
    bound: float

    def __str__(self) -> str:
        return f"{self.name}={self.bound:.15g}"


def parse_gate(text: str) -> Gate:
    """A gate from ``mAP=0.5`` or ``AP[person]=0.4``. UsageError if the text is anything else."""
    match = re.fullmatch(rf"({PATTERN})=\s*(?P<bound>[^=\s]+)\s*", text, re.DOTALL)
    name = parse_metric(match[1]) if match else None
    if match and name:
        given = match["bound"]
        try:
            bound = float(given.removesuffix("%")) / (100 if given.endswith("%") else 1)
        except ValueError:
            bound = math.nan
        if 0 <= bound <= 1 and "_" not in given:
            return Gate(name, bound)
    raise UsageError(
        f"--fail-under {shorten(text)}: give a metric and a bound in 0..1, as in mAP=0.5 or AP[person]=0.4; "
        "a percentage ends with %, as in mAP=50%"
    )


def check_gates(gates: list[Gate], rules: list[Protocol]) -> None:
    """Make sure, before anything is read, that one result will have what each gate is about.

    Raises
    ------
    UsageError
        If none has, or several have; it lists the keys there are.
    """
    for gate in gates:
        the_one(gate.name, rules, f"--fail-under {gate}")


def failures(evaluation: Evaluation, gates: list[Gate]) -> tuple[list[str], list[str]]:
    """What is wrong with the gates, a line each, when all of them were looked at.

    Returns
    -------
    list of str
        The gates that fail, such as ``AP50 0.608 < 0.7``; an undefined number fails.
    list of str
        The gates about a class that the result does not have.
    """
    lines, unknown = [], []
    rules = [result.rules for result in evaluation.results]
    for gate in gates:
        name = gate.name
        i, key = the_one(name, rules, f"--fail-under {gate}")
        plain = evaluation.results[i].to_dict()
        row = plain["summary"]
        if name.category is not None:
            rows = {row["class"]: row for row in plain["classes"]}
            if name.category not in rows:
                some = ", ".join(shorten(one, 30) for one in list(rows)[:20])
                unknown.append(
                    f"--fail-under {gate}: no result has {shorten(name.category)!r}"
                    f"{hint(name.category, rows)}; there are: {some}{', ...' if len(rows) > 20 else ''}"
                )
                continue
            row = rows[name.category]
        value = row[key]
        if value is None:
            lines.append(f"{name} is undefined, not {gate.bound:.15g} or more")
        elif value < gate.bound - TOLERANCE:
            lines.append(f"{name} {_below(value, gate.bound)} < {gate.bound:.15g}")
    return lines, unknown


def _below(value: float, bound: float) -> str:
    """A number with three decimals, or as many more as it takes to see that it is below the bound."""
    texts = (f"{value:.{decimals}f}" for decimals in range(3, 17))
    return next((text for text in texts if float(text) < bound), repr(value))
