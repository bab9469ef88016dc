"""Metrics as people type them, ``mAP``, ``AP[person]``, ``coco:AP50``, ``voc2012@0.3:mAP``, and gates.

Gates are numbers that a result must reach, for continuous integration.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence

import msgspec
from msgspec.structs import replace

from odm.evaluate.results import Evaluation
from odm.evaluate.scores.accumulate import ALIASES, OVER_COCO_IOUS, class_keys, miss_keys, summary_keys
from odm.evaluate.scores.protocols import PROTOCOLS, Protocol
from odm.issues import UsageError, hint, shorten, spell

_KEY = r"[^\s\[\]=:@]+(?:@[^\s\[\]=:]+(?:=[^\W\d][^\s\[\]=:]*)?)?"
PATTERN = rf"\s*(?:(?P<where>[^\s\[\]=:]+):)?(?P<key>{_KEY})\s*(?:\[(?P<category>.+)\])?\s*"
"""A metric; after it may stand ``=`` and a number. A key may hold ``=`` and a word: ``MR@All_occ=heavy``."""

_TYPED = {"ap": "AP", "f1": "F1", "corloc": "CorLoc"}
"""Keys of classes as people type them."""


class MetricName(msgspec.Struct, frozen=True):
    """A metric as it was typed: its key or another name of it, and what it is limited to."""

    key: str
    category: str | None = None
    protocol: str = ""
    iou: float | None = None

    def __str__(self) -> str:
        """The metric as users type it: ``voc2012@0.3:AP[person]``."""
        result_name = self.protocol if self.iou is None else f"{self.protocol}@{self.iou:g}"
        category = "" if self.category is None else f"[{self.category}]"
        return f"{result_name}:{self.key}{category}" if result_name else f"{self.key}{category}"

    def find_key(self, keys: Collection[str]) -> str | None:
        """Return which of the `keys` the name means; None if there is no such key.

        The key itself is tried before the key that it is an alias of.
        """
        name, separator, area = self.key.partition("@")
        # mAP50@tiny: first the key itself, then AP50@tiny.
        for key in (self.key, f"{ALIASES.get(name, name)}{separator}{area}"):
            if key in keys:
                return key
            if self.category is not None and key.lower() in keys:  # AP[person] is ``ap`` of a class row
                return key.lower()
        return None

    def find_key_of(self, rules: Protocol) -> str | None:
        """Return the key in the results of a protocol that the name means.

        None if they do not have it, or if the name is limited to another protocol or IoU.
        """
        if self.protocol and self.protocol != rules.name:
            return None
        if self.iou is not None and (rules.averaged or not math.isclose(self.iou, rules.ious[0])):
            return None
        return None if self.means_other_ious(rules) else self.find_key(list_keys(rules, self))

    def means_other_ious(self, rules: Protocol) -> bool:
        """Whether this is the mean from IoU .50 to .95, and the protocol's mean is over other IoUs."""
        return (
            self.key.partition("@")[0] == OVER_COCO_IOUS
            and rules.averaged
            and rules.ious != PROTOCOLS["coco"].ious
        )


def list_keys(rules: Protocol, name: MetricName) -> tuple[str, ...]:
    """List the keys of a protocol's summary, or of its class rows if the name is of a class."""
    return summary_keys(rules) if name.category is None else class_keys(rules)


def parse_metric(text: str) -> MetricName | None:
    """Parse a metric such as ``voc2012@0.3:mAP``; None if the text is not one."""
    match = re.fullmatch(PATTERN, text, re.DOTALL)
    if match is None:
        return None
    protocol, separator, iou = (match["where"] or "").partition("@")
    try:
        return MetricName(match["key"], match["category"], protocol, float(iou) if separator else None)
    except ValueError:
        return None


def find_result(name: MetricName, protocols: Sequence[Protocol], option: str) -> tuple[int, str]:
    """Return the index of the result that a metric name means, and the key of the metric in it.

    `protocols` are in the order of the results; `option` begins the message of an error. Raises UsageError if
    none has the metric, or several have.
    """
    matching = [
        (i, key) for i, protocol in enumerate(protocols) if (key := name.find_key_of(protocol)) is not None
    ]
    if len(matching) == 1:
        return matching[0]
    if matching:
        # Several results of one protocol differ in their IoU, which the suggested names then include.
        all_names = [protocol.name for protocol in protocols]
        matching_protocols = [(protocols[i], all_names.count(protocols[i].name) > 1) for i, _ in matching]
        full_names = [
            replace(name, protocol=p.name, iou=p.ious[0] if is_ambiguous else None)
            for p, is_ambiguous in matching_protocols
        ]
        texts = ", ".join(map(str, full_names))
        raise UsageError(f"{option}: {shorten(str(name))} fits {len(matching)} results; name one of {texts}")

    # No result has the metric: name the keys that there are, and the likely reason.
    candidates = [protocol for protocol in protocols if name.protocol in ("", protocol.name)]
    keys = dict.fromkeys(key for protocol in candidates for key in list_keys(protocol, name))
    if not keys:
        names = dict.fromkeys(protocol.name for protocol in protocols)
        raise UsageError(
            f"{option}: no result is of the protocol {shorten(name.protocol)!r}"
            f"{hint(name.protocol, names)}; there are: {', '.join(names)}"
        )
    row_kind = "summary" if name.category is None else "class row"
    protocols_with_key = [p.name for p in PROTOCOLS.values() if name.find_key(list_keys(p, name)) is not None]
    is_alias = bool(protocols_with_key) and name.key in ALIASES
    shown_keys = [_TYPED.get(key, key) for key in keys]
    aliases = [alias for alias, key in ALIASES.items() if name.category is None and key in keys]
    if any(name.means_other_ious(protocol) for protocol in candidates):
        advice = f" (the mean over IoU 0.50:0.95: leave out {spell('iou')})"
    elif is_alias:
        advice = f" ({spell('protocol')} {' or '.join(protocols_with_key)} has it)"
    elif name.key.casefold() == "map" and "AP" in shown_keys[0]:
        # By spelling, mAP75 would be nearer than the mean over all thresholds.
        advice = hint(shown_keys[0], shown_keys[:1])
    else:
        advice = hint(name.key, [*aliases, *shown_keys])
    raise UsageError(
        f"{option}: no {row_kind} has {shorten(name.key)!r}{advice}; there are: {', '.join(shown_keys)}"
    )


# ----------------------------------------------------------------------------------------------- gates

TOLERANCE = 1e-9
"""A number this little below its bound reaches it: AP is a mean of fractions and of rounded sums, so that of
perfect detections can be 0.9999999999999999."""


class Gate(msgspec.Struct, frozen=True):
    """A metric of one result must be at least ``bound``."""

    name: MetricName
    bound: float

    def __str__(self) -> str:
        return f"{self.name}={self.bound:.15g}"


def parse_gate(text: str) -> Gate:
    """Parse a gate, ``mAP=0.5`` or ``AP[person]=0.4``. Raises UsageError if the text is anything else."""
    match = re.fullmatch(rf"({PATTERN})=\s*(?P<bound>[^=\s]+)\s*", text, re.DOTALL)
    name = parse_metric(match[1]) if match else None
    if match and name:
        text_of_bound = match["bound"]
        try:
            bound = float(text_of_bound.removesuffix("%")) / (100 if text_of_bound.endswith("%") else 1)
        except ValueError:
            bound = math.nan
        if 0 <= bound <= 1 and "_" not in text_of_bound:  # `float` reads 0_5 as 5
            return Gate(name, bound)
    raise UsageError(
        f"{spell('fail_under')} {shorten(text)}: give a metric and a bound in 0..1, as in mAP=0.5 or "
        "AP[person]=0.4; a percentage ends with %, as in mAP=50%"
    )


def find_failures(evaluation: Evaluation, gates: list[Gate]) -> tuple[list[str], list[str]]:
    """Return the gates that fail, and those about a class that the result does not have, a line each.

    A line is like ``AP50 0.608 < 0.7``. An undefined number fails. Raises UsageError if no result, or more
    than one, has the metric of a gate.
    """
    lines, unknown_classes = [], []
    protocols = [result.rules for result in evaluation.results]
    for gate in gates:
        name = gate.name
        result_index, key = find_result(name, protocols, f"--fail-under {gate}")
        result_data = evaluation.results[result_index].to_dict()
        row = result_data["summary"]
        if name.category is not None:
            rows = {row["class"]: row for row in result_data["classes"]}
            if name.category not in rows:
                shown_names = ", ".join(shorten(row_name, 30) for row_name in list(rows)[:20])
                unknown_classes.append(
                    f"--fail-under {gate}: no result has {shorten(name.category)!r}"
                    f"{hint(name.category, rows)}; there are: {shown_names}"
                    f"{', ...' if len(rows) > 20 else ''}"
                )
                continue
            row = rows[name.category]
        value = row[key]
        is_lower_better = key in miss_keys(protocols[result_index])
        if value is None:
            lines.append(
                f"{name} is undefined, not {gate.bound:.15g} or {'less' if is_lower_better else 'more'}"
            )
        elif is_lower_better and value > gate.bound + TOLERANCE:
            lines.append(f"{name} {value:.3f} > {gate.bound:.15g}")
        elif not is_lower_better and value < gate.bound - TOLERANCE:
            # With three decimals, or as many more as it takes to see that it is below the bound.
            texts = (f"{value:.{decimals}f}" for decimals in range(3, 17))
            text = next((text for text in texts if float(text) < gate.bound), repr(value))
            lines.append(f"{name} {text} < {gate.bound:.15g}")
    return lines, unknown_classes
