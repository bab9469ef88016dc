"""The keys of the summary and of the classes that a `Plan` computes, and the quantities behind each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from odm.evaluate.scores.accumulate import miss_keys, summary_keys
from odm.evaluate.scores.protocols import Protocol

_LETTERS = {"s": "small", "m": "medium", "l": "large"}
"""The area ranges of COCO, by the letter that ends their keys."""


class Quantity(NamedTuple):
    """The numbers that a key of the summary is the mean of: their kind, and two positions."""

    kind: str
    """``ap``, ``recall``, ``miss``, ``frequency`` (AP of the classes with the last letter of the key), or
    ``AP`` and ``JI``, which are one number and have no positions."""
    column: int = 0
    """``ap``: IoU threshold, -1 = the mean of all. ``recall``: detection cap, of protocols that are
    `Protocol.apart` the threshold. ``miss``: area range."""
    area: int = 0
    """``recall``: area range; otherwise the position of the range in the areas of the plan."""


def list_keys(rules: Protocol, areas: Sequence[int] = (0,)) -> tuple[str, ...]:
    """Return the summary keys that a plan gives with the area ranges of the numbers `areas`."""
    return tuple(select_quantities(rules, areas)) if rules.metric == "ap" else summary_keys(rules)


def list_class_keys(rules: Protocol) -> dict[str, int]:
    """Return the metrics of each class, with the index of their IoU threshold, -1 for the mean over all.

    They are AP, and AP50 and AP75 where AP is a mean over thresholds.
    """
    if rules.metric != "ap":
        return {}
    several = rules.averaged and not rules.apart
    return {"AP": -1, **({f"AP{percent}": t for percent, t in _list_thresholds(rules)} if several else {})}


def _list_thresholds(rules: Protocol) -> list[tuple[int, int]]:
    """Return (50, index) and (75, index), as far as the protocol has the IoU thresholds .50 and .75."""
    indices_of_percent = [
        (percent, np.flatnonzero(np.isclose(rules.ious, percent / 100, rtol=0, atol=1e-9)))
        for percent in (50, 75)
    ]
    return [(percent, int(indices[0])) for percent, indices in indices_of_percent if len(indices)]


def select_quantities(rules: Protocol, areas: Sequence[int]) -> dict[str, Quantity]:
    """Map each summary key to its quantity, in the order of the summary; `areas` are those of the plan."""
    named = {i: rules.areas[a].name for i, a in enumerate(areas) if a in rules.named_areas}
    if rules.rates:
        keys = {miss_keys(rules)[area]: Quantity("miss", area, i) for i, area in enumerate(areas)}
        of_all = {key: Quantity(key) for key in ("AP", "JI")} if rules.jaccard else {}
        return of_all | keys
    if not rules.averaged:
        return {
            "mAP": Quantity("ap", -1),
            **{f"mAP@{name}": Quantity("ap", -1, i) for i, name in named.items()},
        }
    if rules.apart:
        # AP50_RANGE for each range, AP75_RANGE for each, then all AR50_RANGE and AR75_RANGE.
        # `i` is the position of a range in the plan, which AP needs, `a` its number, which recall needs.
        cells = [(t, 100 * iou, i, a) for t, iou in enumerate(rules.ious) for i, a in enumerate(areas)]
        aps = {f"AP{percent:g}_{rules.areas[a].name}": Quantity("ap", t, i) for t, percent, i, a in cells}
        ars = {f"AR{percent:g}_{rules.areas[a].name}": Quantity("recall", t, a) for t, percent, _, a in cells}
        return aps | ars
    return _select_coco_quantities(rules, areas, named)


def _select_coco_quantities(
    rules: Protocol, areas: Sequence[int], named: dict[int, str]
) -> dict[str, Quantity]:
    """Return `select_quantities` of a protocol like COCO's: AP, AP50, APs, AR1, ..., then the named ranges.

    `named` are the names of the ranges that the user named, by their position in `areas`.
    """
    mean_key, prefix = summary_keys(rules)[0], "mAP" if rules.shared_score else "AP"
    # Without range 0, which is of all boxes.
    index_of_name = {rules.areas[a].name: i for i, a in enumerate(areas) if a}
    letters = {letter: index_of_name[name] for letter, name in _LETTERS.items() if name in index_of_name}
    last_cap = len(rules.caps) - 1
    keys = {mean_key: Quantity("ap", -1)}
    keys |= {f"{prefix}{percent}": Quantity("ap", t) for percent, t in _list_thresholds(rules)}
    keys |= {f"AP{letter}": Quantity("ap", -1, i) for letter, i in letters.items()}
    if rules.by_frequency:
        keys |= {f"AP{letter}": Quantity("frequency") for letter in "rcf"}
    keys |= {f"AR{cap}": Quantity("recall", m) for m, cap in enumerate(rules.caps)}
    keys |= {  # ranges of the first detections of an image
        f"AR{rules.areas[a].first}": Quantity("recall", last_cap, a) for a in areas if rules.areas[a].first
    }
    if rules.caps:
        keys |= {f"AR{letter}": Quantity("recall", last_cap, areas[i]) for letter, i in letters.items()}
    for i, name in named.items():
        keys[f"{mean_key}@{name}"] = Quantity("ap", -1, i)
        if f"{prefix}50" in keys:
            keys[f"{prefix}50@{name}"] = keys[f"{prefix}50"]._replace(area=i)
        if rules.caps:
            keys[f"AR{rules.max_dets}@{name}"] = Quantity("recall", last_cap, areas[i])
    return keys
