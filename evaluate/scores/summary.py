"""The numbers of a protocol over all classes, and the keys that they have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.matching.matches import Matches
from odm.evaluate.scores.curves import OperatingPoint, PrecisionReader, share
from odm.evaluate.scores.protocols import Protocol
from odm.evaluate.scores.ranking import Ranked, pooled_rows
from odm.tables import FREQUENCIES, Floats, Longs

Mean = Callable[[Floats], Any]

OVER_COCO_IOUS = "mAP50-95"
"""What people call the mean over COCO's IoU thresholds."""
SHARED_KEYS = (OVER_COCO_IOUS, "mAP50", "mAP75", "P", "R", "score")
"""The summary of protocols with one operating point for all classes; ``score`` is its confidence."""
ALIASES = {OVER_COCO_IOUS: "AP", "mAP50": "AP50", "mAP75": "AP75"}
"""Common names of COCO's numbers, understood where a metric is named."""


def summarize(
    matches: Matches, ap: Floats, recall: Floats, point: OperatingPoint
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """The numbers over all classes, and those of ``top-k`` by number of guesses.

    `ap` is (thresholds, areas, classes), `recall` has the caps before; `point` is that of all classes.
    """
    rules = matches.protocol
    if rules.metric == "top-k":
        # Share of the images with ground truth where none of the first k guesses is right.
        n_guesses, missed = rules.max_dets or 0, matches.guesses
        errors = {
            what: [
                float(np.mean(missed[:, column] >= k)) if len(missed) else math.nan
                for k in range(1, n_guesses + 1)
            ]
            for column, what in enumerate(("cls", "loc"))
        }
        summary = {
            f"top{k}_{what}": errors[what][k - 1] if k <= n_guesses else math.nan
            for what in ("cls", "loc")
            for k in (1, 5)
        }
        return summary, errors
    if rules.metric == "corloc":
        hits = matches.hit[(matches.positive[:, 0] & np.uint64(1)) != 0]
        found = np.bincount(matches.category[hits], minlength=len(matches.classes))
        return {"CorLoc": mean_of_defined(share(found, matches.npos[:, 0]))}, {}
    if rules.metric == "pooled":  # AP of all classes with ground truth in one ranking
        rows = pooled_rows(matches)
        (ranked,) = Ranked.of(matches, rows, np.array([len(rows)]))
        reader = PrecisionReader(rules, matches.npos[:, :1].sum(axis=0))
        return {"AP": float(reader.average(ranked.reference(rules))[0])}, {}
    if not rules.averaged:
        named = {f"mAP@{a.name}": mean_of_defined(ap[0, i]) for i, a in rules.named_areas.items()}
        return {"mAP": mean_of_defined(ap[0, 0]), **named}, {}
    if rules.shared_score:  # what ``yolo val`` prints, and the confidence that P and R are read at
        aps = mean_of_defined(ap[:, 0]), *(_ap_at(rules, ap, iou, mean_of_defined) for iou in (0.5, 0.75))
        numbers = *aps, point["precision"], point["recall"], point["score"]
        return dict(zip(SHARED_KEYS, numbers, strict=True)), {}
    return _averages(rules, ap, recall, mean_of_defined, np.array(matches.frequency)), {}


def summary_keys(rules: Protocol) -> tuple[str, ...]:
    """The keys of a protocol's summary, its main metric first."""
    if rules.metric == "top-k":
        return "top1_cls", "top5_cls", "top1_loc", "top5_loc"
    if rules.metric == "corloc":
        return ("CorLoc",)
    if rules.metric == "pooled":
        return ("AP",)
    if rules.shared_score:
        return SHARED_KEYS
    if not rules.averaged:
        return "mAP", *(f"mAP@{a.name}" for a in rules.named_areas.values())
    return tuple(_no_averages(rules, np.array([""])))


def class_keys(rules: Protocol) -> tuple[str, ...]:
    """The keys of a protocol's class rows that hold a number from 0 to 1."""
    keys = ["precision", "recall", "f1", "score"]
    if rules.metric == "ap":
        keys.insert(0, "ap")
    if rules.metric == "corloc":
        keys.append("corloc")
    if rules.shared_score:
        return (*keys, "AP50", "AP75")
    if not rules.averaged:
        return *keys, *(f"AP@{a.name}" for a in rules.named_areas.values())
    return *keys, *(key for key in _no_averages(rules) if key != "AP")


def _no_averages(rules: Protocol, frequency: NDArray[np.str_] | None = None) -> dict[str, float]:
    undefined = np.full((len(rules.ious), len(rules.areas), 1), math.nan)
    recall = np.stack([undefined] * max(len(rules.caps), 1))
    return _averages(rules, undefined, recall, mean_of_defined, frequency)


def _averages(
    rules: Protocol,
    ap: Floats,
    recall: Floats,
    mean: Mean,
    frequency: NDArray[np.str_] | None = None,
) -> dict[str, Any]:
    """The numbers of COCO; `ap` is (T, A, K), `recall` (M, T, A, K).

    With the frequency of each class also those of LVIS. Each is a `mean` of (T, K) or (K,) numbers, if not of
    all then of each class.
    """
    areas = {a.name: i for i, a in enumerate(rules.areas) if i}
    caps = {cap: i for i, cap in enumerate(rules.caps)}
    summary = {
        "AP": mean(ap[:, 0]),
        "AP50": _ap_at(rules, ap, 0.5, mean),
        "AP75": _ap_at(rules, ap, 0.75, mean),
    }
    for letter, name in (("s", "small"), ("m", "medium"), ("l", "large")):
        summary[f"AP{letter}"] = mean(ap[:, areas[name]]) if name in areas else math.nan
    if rules.by_frequency and frequency is not None:
        for letter in FREQUENCIES:
            summary[f"AP{letter}"] = mean(ap[:, 0, frequency == letter])
    for cap in sorted({*rules.recall_at, *caps}):
        summary[f"AR{cap}"] = mean(recall[caps[cap], :, 0]) if cap in caps else math.nan
    for letter, name in (("s", "small"), ("m", "medium"), ("l", "large")):
        summary[f"AR{letter}"] = mean(recall[-1, :, areas[name]]) if name in areas and caps else math.nan
    for i, own in rules.named_areas.items():
        summary |= {
            f"AP@{own.name}": mean(ap[:, i]),
            f"AP50@{own.name}": _ap_at(rules, ap, 0.5, mean, i),
        }
        if caps:
            summary[f"AR{rules.max_dets}@{own.name}"] = mean(recall[-1, :, i])
    if rules.tubes:
        return {key: summary[key] for key in ("AP", "AP50", "AP75")} | {"AR": summary[f"AR{rules.max_dets}"]}
    return summary


def _ap_at(rules: Protocol, ap: Floats, iou: float, mean: Mean, area: int = 0) -> Any:
    """The AP at one IoU and in one area range; `ap` is (T, A, K)."""
    near = np.flatnonzero(np.isclose(rules.ious, iou, rtol=0, atol=1e-9))
    return mean(ap[near[0], area]) if len(near) else math.nan


def class_numbers(matches: Matches, ap: Floats, recall: Floats, tp: Longs) -> list[dict[str, Any]]:
    """Class metrics that only some protocols have, by class; `ap` is (T, A, K), `recall` (M, T, A, K)."""
    rules = matches.protocol
    columns: dict[str, Any]
    if rules.metric == "corloc":
        columns = {"corloc": share(tp, matches.npos[:, 0])}
    elif not rules.averaged:
        columns = {f"AP@{own.name}": ap[0, i] for i, own in rules.named_areas.items()}
    elif rules.shared_score:
        columns = {f"AP{n}": _ap_at(rules, ap, n / 100, mean_of_classes) for n in (50, 75)}
        columns["ap_per_iou"] = ap[:, 0].T
    else:
        columns = _averages(rules, ap, recall, mean_of_classes)
        del columns["AP"]
        columns["ap_per_iou"] = ap[:, 0].T
        if rules.by_frequency:
            columns["frequency"] = np.array(matches.frequency or [""] * len(tp), object)
    undefined = np.full(len(tp), math.nan)
    lists = [(undefined if isinstance(column, float) else column).tolist() for column in columns.values()]
    rows = zip(*lists, strict=True) if lists else ((),) * len(tp)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def mean_of_defined(values: Floats) -> float:
    """The mean of what is defined, NaN if nothing is."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else math.nan


def mean_of_classes(values: Floats) -> Floats:
    """(K,) the same of each column of (T, K) values; those of (K,) are their own means."""
    if values.ndim == 1:
        return values
    rows = np.ascontiguousarray(values.T)  # each row is summed as if it stood on its own, to the last bit
    partly = np.isnan(rows).any(axis=1) & ~np.isnan(rows).all(axis=1)
    means: Floats = rows.mean(axis=1) if rows.shape[1] else np.full(len(rows), math.nan)
    means[partly] = [mean_of_defined(row) for row in rows[partly]]
    return means
