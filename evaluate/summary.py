"""The numbers of a protocol over all classes, and the keys that they have."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.curves import PrecisionReader
from odm.evaluate.matches import Matches
from odm.evaluate.order import argsort_descending
from odm.evaluate.protocols import Protocol
from odm.evaluate.ranking import Ranked
from odm.tables import FREQUENCIES, Floats, Longs


def summarize(
    matches: Matches, ap: Floats, recall: Floats
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """The numbers over all classes, and those of ``top-k`` by number of guesses.

    `ap` is (thresholds, areas, classes), `recall` has the caps before.
    """
    rules = matches.protocol
    if rules.metric == "top-k":
        return _guess_errors(matches)
    if rules.metric == "corloc":
        found = _reference_found(matches)
        return {"CorLoc": mean_of_defined(share(found, matches.npos[:, 0]))}, {}
    if rules.metric == "pooled":
        return {"AP": _pooled_ap(matches)}, {}
    if not rules.averaged:
        return {"mAP": mean_of_defined(ap[0, 0])}, {}
    return _averages(rules, ap, recall, np.array(matches.frequency)), {}


def summary_keys(rules: Protocol) -> tuple[str, ...]:
    """The keys of a protocol's summary."""
    if rules.metric == "top-k":
        return "top1_cls", "top5_cls", "top1_loc", "top5_loc"
    if rules.metric == "corloc":
        return ("CorLoc",)
    if rules.metric == "pooled":
        return ("AP",)
    return tuple(_no_averages(rules, np.array([""]))) if rules.averaged else ("mAP",)


def class_keys(rules: Protocol) -> tuple[str, ...]:
    """The keys of a protocol's class rows that hold a number from 0 to 1."""
    keys = ["precision", "recall", "f1", "score"]
    if rules.metric == "ap":
        keys.insert(0, "ap")
    if rules.metric == "corloc":
        keys.append("corloc")
    return (*keys, *(key for key in (_no_averages(rules) if rules.averaged else ()) if key != "AP"))


def _no_averages(rules: Protocol, frequency: NDArray[np.str_] | None = None) -> dict[str, float]:
    undefined = np.full((len(rules.ious), len(rules.areas), 1), math.nan)
    return _averages(rules, undefined, np.stack([undefined] * max(len(rules.caps), 1)), frequency)


def _averages(
    rules: Protocol, ap: Floats, recall: Floats, frequency: NDArray[np.str_] | None = None
) -> dict[str, float]:
    """The numbers of COCO; `ap` is (T, A, ...), `recall` (M, T, A, ...).

    With the frequency of each class, ``ap`` being (T, A, K), also those of LVIS.
    """

    def at(iou: float) -> float:
        near = np.flatnonzero(np.isclose(rules.ious, iou, rtol=0, atol=1e-9))
        return mean_of_defined(ap[near[0], 0]) if len(near) else math.nan

    areas = {a.name: i for i, a in enumerate(rules.areas) if i}
    caps = {cap: i for i, cap in enumerate(rules.caps)}
    summary = {"AP": mean_of_defined(ap[:, 0]), "AP50": at(0.5), "AP75": at(0.75)}
    for letter, name in (("s", "small"), ("m", "medium"), ("l", "large")):
        summary[f"AP{letter}"] = mean_of_defined(ap[:, areas[name]]) if name in areas else math.nan
    if rules.by_frequency and frequency is not None:
        for letter in FREQUENCIES:
            summary[f"AP{letter}"] = mean_of_defined(ap[:, 0, frequency == letter])
    for cap in sorted({*(() if rules.cap_of == "image" else (1, 10, 100)), *caps}):
        summary[f"AR{cap}"] = mean_of_defined(recall[caps[cap], :, 0]) if cap in caps else math.nan
    for letter, name in (("s", "small"), ("m", "medium"), ("l", "large")):
        summary[f"AR{letter}"] = (
            mean_of_defined(recall[-1, :, areas[name]]) if name in areas and caps else math.nan
        )
    if rules.tubes:
        return {key: summary[key] for key in ("AP", "AP50", "AP75")} | {"AR": summary[f"AR{rules.max_dets}"]}
    return summary


def class_numbers(
    rules: Protocol, ap: Floats, recall: Floats, tp: int, npos: int, frequency: str
) -> dict[str, float | str | list[float]]:
    """What only some protocols say of a class."""
    if rules.metric == "corloc":
        return {"corloc": tp / npos if npos else math.nan}
    if not rules.averaged:
        return {}
    numbers = _averages(rules, ap, recall)
    del numbers["AP"]
    more = {"frequency": frequency} if rules.by_frequency else {}
    return {**numbers, "ap_per_iou": ap[:, 0].tolist(), **more}


def _pooled_ap(matches: Matches) -> float:
    """AP of all classes with ground truth in one ranking; ties by class, image, input."""
    rules = matches.protocol
    rows = np.flatnonzero((matches.npos[:, 0] > 0)[matches.category])
    rows = rows[np.lexsort((matches.row[rows], matches.image[rows], matches.category[rows]))]
    rows = rows[argsort_descending(matches.score[rows])]
    ranked = next(Ranked.of(matches, rows, np.array([len(rows)])))()
    npos = matches.npos[:, :1].sum(axis=0)
    return float(PrecisionReader(rules, npos).average(ranked.reference(rules))[0])


def _reference_found(matches: Matches) -> Longs:
    """(classes,) true positives at the reference threshold."""
    found = (matches.positive[:, 0] & np.uint64(1)) != 0
    return np.bincount(matches.category[matches.hit[found]], minlength=len(matches.classes))


def _guess_errors(matches: Matches) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Share of the images with ground truth where none of the first k guesses is right."""
    n_guesses = matches.protocol.max_dets or 0
    errors = {
        what: [
            float(np.mean(matches.guesses[:, column] >= k)) if len(matches.guesses) else math.nan
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


def share(n: Longs, of: Longs) -> Floats:
    """N / of, NaN where `of` is 0."""
    share: Floats = np.divide(n, of, out=np.full(len(of), np.nan), where=of > 0)
    return share


def mean_of_defined(values: Floats) -> float:
    """The mean of what is defined, NaN if nothing is."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else math.nan
