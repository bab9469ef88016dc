"""Gates: numbers that a result must reach, for continuous integration."""

from __future__ import annotations

import dataclasses
import math
import re

from odm.evaluate.protocols import Protocol
from odm.evaluate.results import Evaluation
from odm.evaluate.summary import class_keys, summary_keys
from odm.issues import UsageError, hint, shorten

TOLERANCE = 1e-9
"""A number this little below its bound reaches it: AP is a mean of fractions and of rounded sums, so that of
perfect detections can be 0.9999999999999999."""


@dataclasses.dataclass(frozen=True, slots=True)
class Gate:
    """``key`` of every result that has it, or the AP of class ``category``, must be at least ``bound``."""

    key: str
    bound: float
    category: str | None = None

    def __str__(self) -> str:
        name = self.key if self.category is None else f"{self.key}[{self.category}]"
        return f"{name}={self.bound:.15g}"


def parse_gate(text: str) -> Gate:
    """A gate from ``mAP=0.5`` or ``AP[person]=0.4``. UsageError if the text is anything else."""
    match = re.fullmatch(r"\s*([\w.@-]+)\s*(?:\[(.+)\])?\s*=\s*([^=\s]+)\s*", text, re.DOTALL)
    if match:
        try:
            bound = float(match[3].removesuffix("%")) / (100 if match[3].endswith("%") else 1)
        except ValueError:
            bound = math.nan
        if 0 <= bound <= 1 and "_" not in match[3]:
            return Gate(match[1], bound, match[2])
    raise UsageError(
        f"--fail-under {shorten(text)}: give a metric and a bound in 0..1, as in mAP=0.5 or AP[person]=0.4"
    )


def check_gates(gates: list[Gate], rules: list[Protocol]) -> None:
    """Make sure, before anything is read, that some result will have what each gate is about.

    Raises
    ------
    UsageError
        If none has; it lists the keys there are.
    """
    for gate in gates:
        known = dict.fromkeys(
            key for one in rules for key in (summary_keys(one) if gate.category is None else class_keys(one))
        )
        if gate.key not in known and (gate.category is None or gate.key.lower() not in known):
            what = "summary" if gate.category is None else "class row"
            raise UsageError(
                f"--fail-under {gate}: no {what} has {shorten(gate.key)!r}{hint(gate.key, known)}; "
                f"there are: {', '.join(known)}"
            )


def failures(evaluation: Evaluation, gates: list[Gate]) -> tuple[list[str], list[str]]:
    """What is wrong with the gates, a line each, when all of them were looked at.

    Returns
    -------
    list of str
        The gates that a result does not reach; an undefined number reaches none.
    list of str
        The gates about a metric or a class that no result has.
    """
    lines, unknown = [], []
    for gate in gates:
        found: list[tuple[str, float | None]] = []
        known: dict[str, None] = {}
        for result in evaluation.results:
            plain = result.to_dict()
            where = (
                f"{plain['protocol']} at IoU {plain['iou']:g}"
                if isinstance(plain["iou"], float)
                else plain["protocol"]
            )
            if gate.category is None:
                known.update(dict.fromkeys(plain["summary"]))
                if gate.key in plain["summary"]:
                    found.append((where, plain["summary"][gate.key]))
                continue
            for row in plain["classes"]:
                known[row["class"]] = None
                value = _class_value(row, gate.key)
                if row["class"] == gate.category and not isinstance(value, str):
                    found.append((where, value))
        if not found:
            wanted = gate.category if gate.category is not None else gate.key
            some = ", ".join(shorten(name, 30) for name in list(known)[:20]) + (
                ", ..." if len(known) > 20 else ""
            )
            unknown.append(
                f"--fail-under {gate}: no result has {shorten(wanted)!r}{hint(wanted, known)}; "
                f"there are: {some}"
            )
        lines += [
            f"{gate} is not reached under {where}: {_below(value, gate.bound)}"
            for where, value in found
            if value is None or value < gate.bound - TOLERANCE
        ]
    return lines, unknown


def _below(value: float | None, bound: float) -> str:
    """A number with six decimals, or as many more as it takes to see that it is below the bound."""
    if value is None:
        return "undefined"
    texts = (f"{value:.{decimals}f}" for decimals in range(6, 17))
    return next((text for text in texts if float(text) < bound), repr(value))


def _class_value(row: dict[str, object], key: str) -> float | str | None:
    """The number of a class under a key, ``AP`` or that of the row itself; a str where there is none."""
    name = key if key in row else key.lower()
    value = row.get(name, "")
    return value if value is None or isinstance(value, (int, float)) else ""
