"""Turn matches into the numbers of a protocol.

Classes are counted in blocks that fit the processor's cache.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.evaluate.matching.jaccard import jaccard_index
from odm.evaluate.matching.matches import Matches, bits_of_area
from odm.evaluate.results import Result, Row
from odm.evaluate.scores.curves import (
    Curve,
    OperatingPoint,
    PrecisionReader,
    average_at_limits,
    best_f1s,
    miss_rates,
    operating_points,
    read_classes,
    share,
    shared_points,
)
from odm.evaluate.scores.protocols import Protocol
from odm.evaluate.scores.score_order import BLOCK, Ranked, Weights, pooled_rows, ranked_rows, rows_by_class
from odm.parallel import by_threads
from odm.tables import FREQUENCIES, Floats, Longs

_SUMMED = ("gt", "gt_ignored", "det", "tp", "fp", "ignored")
"""Counts of classes that are added up in the row of all classes."""


def accumulate(
    matches: Matches, protocol: Protocol | None = None, *, at_score: float | None = None
) -> Result:
    """Compute the numbers of a protocol.

    Parameters
    ----------
    matches
        Those of all images, in any order of shards: the result does not depend on it.
    protocol
        The one they were made under, if it is to be checked.
    at_score
        The score of the operating point; without it that of the best F1 of all classes together.

    Raises
    ------
    ValueError
        If the matches are of another protocol.
    """
    rules = matches.protocol
    if protocol is not None and protocol != rules:
        raise ValueError(f"these are matches under {rules.name}, not under {protocol.name}")
    order = ranked_rows(matches)
    (all_classes,) = Ranked.of(matches, order, np.array([len(order)]))
    npos = matches.npos[:, :1].sum(axis=0)
    reference = all_classes.reference(rules)
    (best_score,), (best_f1,) = best_f1s(matches, all_classes, reference, npos)
    score = at_score
    if score is None and not rules.shared_score:
        score = float(best_score)
    counted = count_classes(matches, score, order=order)
    overall_point = operating_points(
        matches, all_classes, reference, npos, math.nan if score is None else score
    )
    return finish(matches, counted, overall_point[0], (float(best_f1), float(best_score)), at_score)


def count_classes(
    matches: Matches,
    at_score: float | None,
    weights: Weights | None = None,
    order: Longs | None = None,
) -> ClassCounts:
    """Count and average each class: AP, recall, TP, FP, curves. `matches` must hold all images.

    With `weights` there is one class, and its rows stand for several detections each. `order` are all rows as
    they rank, if that is known. The operating points are at `at_score`, at all scores if it is NaN.
    """
    order = ranked_rows(matches) if order is None else order
    rows, counts = rows_by_class(matches, order)
    ranked = list(Ranked.of(matches, rows, counts, BLOCK, weights))
    blocks = by_threads(functools.partial(_count_classes, matches, at_score), ranked)
    counted = ClassCounts.together(blocks, matches.protocol)
    if matches.protocol.shared_score:
        counted = replace(counted, read=read_classes(matches, order, at_score, weights))
    return counted


def finish(
    matches: Matches,
    counted: ClassCounts,
    overall_point: OperatingPoint,
    overall_best: tuple[float, float],
    at_score: float | None,
) -> Result:
    """Make the result from the counts of each class; of `matches` only the totals are used.

    Where all classes are read at one confidence, it is found here, and `overall_point` is not looked at.
    `overall_best` is the best F1 of all classes together, and its score.
    """
    rules, npos, points = matches.protocol, matches.npos[:, 0], counted.points
    if counted.read is not None:
        points, overall_point = shared_points(counted.read, npos, at_score)
    summary, errors = summarize(matches, counted.ap, counted.recall, overall_point)
    if rules.rates:
        summary = {
            key: mean_of_defined(rates) for key, rates in zip(miss_keys(rules), counted.miss, strict=True)
        }
    if matches.jaccard is not None:
        index = float(jaccard_index(matches.jaccard)[0])
        summary = {"AP": mean_of_defined(counted.ap[0, 0]), **summary, "JI": index}
    counts = npos, matches.gt_ignored, counted.det, counted.tp, counted.fp, mean_of_classes(counted.ap[:, 0])
    columns = zip(*(column.tolist() for column in counts), strict=True)
    extras = class_numbers(matches, counted.ap, counted.recall, counted.tp)
    for key, values in zip(miss_keys(rules), counted.miss.tolist(), strict=True):
        for extra, value in zip(extras, values, strict=True):
            extra[key] = value
    bests = [
        {"best_f1": f1, "best_f1_score": score}
        for f1, score in zip(counted.best_f1.tolist(), counted.best_f1_score.tolist(), strict=True)
    ]
    rows = tuple(
        Row(name, gt, gt_ignored, det, tp, fp, det - tp - fp, ap, extra=extra, **point, **best)
        for name, (gt, gt_ignored, det, tp, fp, ap), best, point, extra in zip(
            matches.classes, columns, bests, points, extras, strict=True
        )
    )
    sums = {key: sum(getattr(row, key) for row in rows) for key in _SUMMED}
    ap = next(iter(summary.values())) if rules.metric in ("ap", "pooled") else math.nan
    ap = mean_of_defined(counted.ap[0, 0]) if rules.rates else ap
    overall = Row(
        name="", **sums, ap=ap, best_f1=overall_best[0], best_f1_score=overall_best[1], **overall_point
    )
    return Result(
        rules=rules,
        summary=summary,
        classes=rows,
        overall=overall,
        curves=counted.curves,
        errors=errors,
        dropped={what: n for what, n in matches.dropped if n},
        matches=matches,
        at_score=at_score,
    )


class ClassCounts(msgspec.Struct, frozen=True, eq=False):
    """The numbers of some classes; the last axis of each array is the classes."""

    ap: Floats
    """(thresholds, areas, classes)"""
    recall: Floats
    """(caps, thresholds, areas, classes)"""
    miss: Floats
    """(areas, classes) miss rates, of protocols that have `rates`; else (0, classes)."""
    det: Longs
    tp: Longs
    fp: Longs
    best_f1: Floats
    best_f1_score: Floats
    points: list[OperatingPoint]
    curves: dict[str, Curve]
    read: Floats | None = None
    """That of `read_classes`, where all classes are read at one confidence."""

    @classmethod
    def together(cls, blocks: Sequence[ClassCounts], rules: Protocol) -> ClassCounts:
        """Concatenate the counts of blocks of classes; there may be none."""
        shape, no_counts = (len(rules.ious), len(rules.areas), 0), np.zeros(0, np.int64)
        miss = np.zeros((len(miss_keys(rules)), 0))
        empty_arrays = (
            np.zeros(shape),
            np.zeros((len(rules.caps), *shape)),
            miss,
            *[no_counts] * 3,
            *[np.zeros(0)] * 2,
        )
        arrays = {
            name: np.concatenate([empty, *(getattr(b, name) for b in blocks)], axis=-1)
            for name, empty in zip(_ARRAYS, empty_arrays, strict=True)
        }
        read = [b.read for b in blocks if b.read is not None]
        return cls(
            **arrays,
            points=[point for b in blocks for point in b.points],
            curves={name: curve for b in blocks for name, curve in b.curves.items()},
            read=np.concatenate(read) if read else None,
        )

    def ordered(self, order: Longs, names: Sequence[str]) -> ClassCounts:
        """Return the classes in another order, by their positions; `names` are those of the new order."""
        return ClassCounts(
            **{name: getattr(self, name)[..., order] for name in _ARRAYS},
            points=[self.points[i] for i in order.tolist()],
            curves={name: self.curves[name] for name in names if name in self.curves},
            read=None if self.read is None else self.read[order],
        )


_ARRAYS = ("ap", "recall", "miss", "det", "tp", "fp", "best_f1", "best_f1_score")


def _count_classes(matches: Matches, at_score: float | None, ranked: Ranked) -> ClassCounts:
    """Count and average the consecutive classes of `ranked`."""
    rules = matches.protocol
    class_slice = slice(ranked.first_class, ranked.first_class + ranked.n_classes)
    npos = matches.npos[class_slice]
    rank = matches.hit_rank[ranked.hits]
    shape = len(rules.ious), len(rules.areas), ranked.n_classes
    ap, recall = np.full(shape, np.nan), np.full((len(rules.caps), *shape), np.nan)
    miss = np.full((len(miss_keys(rules)), ranked.n_classes), np.nan)
    for a in range(len(rules.areas)):
        unmatched = ranked.unmatched(a)
        reader = PrecisionReader(rules, npos[:, a])
        for t, word_bit in enumerate(bits_of_area(rules, a)):
            counted = ranked.counted(*word_bit, unmatched)
            if rules.reading == "limits" and matches.curves is None:
                scores = matches.score[ranked.rows]
                ap[t, a] = average_at_limits(rules, counted, ranked, scores, npos[:, a], matches.score_range)
            elif rules.metric == "ap" and matches.curves is None:
                ap[t, a] = reader.average(counted)
            if rules.rates:
                true, false = counted.at_positives()
                columns = counted.category, false, np.ones_like(true), npos[:, a]
                miss[a] = miss_rates(rules, *columns, matches.n_images)
            for m, cap in enumerate(rules.caps):
                hits = counted.tp
                if cap != rules.max_dets:
                    # `reduceat` answers an empty stretch with the item at its start, which is of the next
                    # class (or the appended False): starts 0 2 2 of 1 1 1 give 2 1 1, where tp is 2 0 1.
                    within = np.append(rank[counted.positive] < cap, False)
                    hits = np.add.reduceat(within, counted.starts, dtype=np.int64)
                    hits[counted.tp == 0] = 0
                recall[m, t, a] = share(hits, npos[:, a])
    if matches.curves is not None:
        ap[0] = matches.curves[0, :, class_slice, 1:].mean(axis=-1)
    if rules.detected_only:
        ap[0, 0, (npos[:, 0] == 0) & (matches.gt_ignored[class_slice] > 0)] = 0
    is_fixed = np.array([name in rules.mean_over for name in matches.classes[class_slice]], np.bool_)
    ap[:, :, is_fixed] = np.nan_to_num(ap[:, :, is_fixed])
    reference = ranked.reference(rules)
    curves = {}
    if rules.metric not in ("corloc", "top-k"):
        true, false = reference.at_positives()
        recall_at_hits = true / np.maximum(npos[:, 0], 1)[reference.category]
        precision = true / (true + false)
        score = matches.score[ranked.rows[ranked.at[reference.positive]]]
        for k in np.flatnonzero(npos[:, 0] > 0).tolist():
            class_hits = slice(int(reference.starts[k]), int(reference.starts[k] + reference.tp[k]))
            curves[matches.classes[class_slice][k]] = Curve(
                recall_at_hits[class_hits], precision[class_hits], score[class_hits]
            )
    best_score, best_f1 = best_f1s(matches, ranked, reference, npos[:, 0])
    threshold = math.nan if at_score is None else at_score
    return ClassCounts(
        ap,
        recall,
        miss,
        det=ranked.n_detections,
        tp=reference.tp,
        fp=reference.fp,
        best_f1=best_f1,
        best_f1_score=best_score,
        points=operating_points(matches, ranked, reference, npos[:, 0], threshold),
        curves=curves,
    )


# -------------------------------------------------------------- the numbers over all classes, and their keys


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
    """Compute the summary over all classes, and for ``top-k`` the errors by number of guesses.

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
        n_hits = np.bincount(matches.category[hits], minlength=len(matches.classes))
        return {"CorLoc": mean_of_defined(share(n_hits, matches.npos[:, 0]))}, {}
    if rules.metric == "pooled":  # AP of all classes with ground truth in one ranking
        rows = pooled_rows(matches)
        (ranked,) = Ranked.of(matches, rows, np.array([len(rows)]))
        reader = PrecisionReader(rules, matches.npos[:, :1].sum(axis=0))
        return {"AP": float(reader.average(ranked.reference(rules))[0])}, {}
    mean = mean_of_defined
    if matches.class_images is not None:
        mean = functools.partial(weighted_mean, weights=matches.class_images)
    if level_keys(rules):
        return {key: mean(values) for key, values in level_numbers(matches, ap).items()}, {}
    if rules.mean_over:
        of_class = dict(zip(matches.classes, ap[0, 0].tolist(), strict=True))
        return {"mAP": sum(of_class.get(name, 0) for name in rules.mean_over) / len(rules.mean_over)}, {}
    if not rules.averaged:
        named = {f"mAP@{a.name}": mean_of_defined(ap[0, i]) for i, a in rules.named_areas.items()}
        return {"mAP": mean_of_defined(ap[0, 0]), **named}, {}
    if rules.shared_score:  # what ``yolo val`` prints, and the confidence that P and R are read at
        aps = mean_of_defined(ap[:, 0]), *(_ap_at(rules, ap, iou, mean_of_defined) for iou in (0.5, 0.75))
        numbers = *aps, point["precision"], point["recall"], point["score"]
        by_area = [_of_area(rules, ap, mean_of_defined, i) for i in rules.named_areas]
        of_areas = dict(zip(_shared_area_keys(rules), itertools.chain.from_iterable(by_area), strict=True))
        return dict(zip(SHARED_KEYS, numbers, strict=True)) | of_areas, {}
    if rules.apart:
        return _apart(rules, ap, recall, mean_of_defined), {}
    return _averages(rules, ap, recall, mean, np.array(matches.frequency)), {}


_KITTI = {"AP_R40": (0, slice(1, None)), "AP_R11": (0, slice(0, None, 4))}
_KITTI |= {key.replace("AP", "AOS"): (1, entries) for key, (_, entries) in _KITTI.items()}
"""Of the curves at the score limits: precision or similarity, and the entries that are averaged."""


def level_keys(rules: Protocol) -> tuple[str, ...]:
    """Return the keys of the summary, and of classes, of protocols with levels of difficulty; else none."""
    if rules.reading != "limits":
        return ()
    kinds = _KITTI if rules.match == "truth" else ("AP",)
    return tuple(f"{kind}@{a.name}" for kind in kinds for a in rules.areas)


def level_numbers(matches: Matches, ap: Floats) -> dict[str, Floats]:
    """(classes,) the numbers by the keys of `level_keys`; `ap` is (thresholds, areas, classes)."""
    if matches.curves is None:
        numbers = [ap[0]]
    else:
        numbers = [matches.curves[i][..., entries].mean(axis=-1) for i, entries in _KITTI.values()]
    return dict(zip(level_keys(matches.protocol), np.concatenate(numbers), strict=True))


def _apart(rules: Protocol, ap: Floats, recall: Floats, mean: Mean) -> dict[str, Any]:
    """Return AP and recall at each threshold, the reference threshold first, in each area range.

    The parameters are those of `_averages`.
    """
    thresholds = sorted(range(len(rules.ious)), key=lambda t: t != rules.reference)
    cells = [
        (t, i, f"{100 * rules.ious[t]:g}_{a.name}") for t in thresholds for i, a in enumerate(rules.areas)
    ]
    numbers = {f"AP{name}": mean(ap[t, i]) for t, i, name in cells}
    return numbers | {f"AR{name}": mean(recall[-1, t, i]) for t, i, name in cells}


def miss_keys(rules: Protocol) -> tuple[str, ...]:
    """Return the keys of miss rates: one for each set-up of a protocol that has them."""
    return tuple(f"MR@{a.name}" if a.also else "MR" for a in rules.areas) if rules.rates else ()


def lower_keys(rules: Protocol) -> tuple[str, ...]:
    """Return the keys of the summary of which lower numbers are better."""
    return summary_keys(rules) if rules.metric == "top-k" else miss_keys(rules)


def summary_keys(rules: Protocol) -> tuple[str, ...]:
    """Return the keys of a protocol's summary, its main metric first."""
    if rules.jaccard:
        return "AP", *miss_keys(rules), "JI"
    if rules.rates:
        return miss_keys(rules)
    if levels := level_keys(rules):
        return levels
    if rules.metric == "top-k":
        return "top1_cls", "top5_cls", "top1_loc", "top5_loc"
    if rules.metric == "corloc":
        return ("CorLoc",)
    if rules.metric == "pooled":
        return ("AP",)
    if rules.shared_score:
        return *SHARED_KEYS, *_shared_area_keys(rules)
    if not rules.averaged:
        return "mAP", *(f"mAP@{a.name}" for a in rules.named_areas.values())
    return tuple(_no_averages(rules, np.array([""])))


def class_keys(rules: Protocol) -> tuple[str, ...]:
    """Return the keys of a protocol's class rows that hold a number from 0 to 1."""
    keys = ["precision", "recall", "f1", "score", "best_f1", "best_f1_score"]
    if rules.metric == "ap":
        keys.insert(0, "ap")
    if rules.metric == "corloc":
        keys.append("corloc")
    if rules.shared_score:
        return (*keys, "AP50", "AP75", *(f"AP@{a.name}" for a in rules.named_areas.values()))
    if levels := level_keys(rules):
        return *keys, *levels
    if not rules.averaged:
        return *keys, *(f"AP@{a.name}" for a in rules.named_areas.values()), *miss_keys(rules)
    return *keys, *(key for key in _no_averages(rules) if key != "AP")


def _no_averages(rules: Protocol, frequency: NDArray[np.str_] | None = None) -> dict[str, float]:
    """Return the averages of a protocol without any numbers, all NaN: only their keys are of use."""
    undefined = np.full((len(rules.ious), len(rules.areas), 1), math.nan)
    recall = np.stack([undefined] * max(len(rules.caps), 1))
    if rules.apart:
        return _apart(rules, undefined, recall, mean_of_defined)
    return _averages(rules, undefined, recall, mean_of_defined, frequency)


def _averages(
    rules: Protocol,
    ap: Floats,
    recall: Floats,
    mean: Mean,
    frequency: NDArray[np.str_] | None = None,
) -> dict[str, Any]:
    """Return the averages of COCO; `ap` is (T, A, K), `recall` (M, T, A, K).

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
        if name in areas:
            summary[f"AP{letter}"] = mean(ap[:, areas[name]])
    if rules.by_frequency and frequency is not None:
        for letter in FREQUENCIES:
            summary[f"AP{letter}"] = mean(ap[:, 0, frequency == letter])
    area_of_first_n = {a.first: i for i, a in enumerate(rules.areas) if a.first is not None}
    for first_n in sorted(area_of_first_n):
        summary[f"AR{first_n}"] = mean(recall[-1, :, area_of_first_n[first_n]])
    for cap in sorted({*rules.recall_at, *caps}):
        summary[f"AR{cap}"] = mean(recall[caps[cap], :, 0]) if cap in caps else math.nan
    for iou in (0.5, 0.75) if rules.measure == "oks" else ():
        summary[f"AR{rules.max_dets}@{100 * iou:.0f}"] = _ap_at(rules, recall[-1], iou, mean)
    for letter, name in (("s", "small"), ("m", "medium"), ("l", "large")):
        if name in areas:
            summary[f"AR{letter}"] = mean(recall[-1, :, areas[name]]) if caps else math.nan
    for i, area in rules.named_areas.items():
        summary[f"AP@{area.name}"], summary[f"AP50@{area.name}"] = _of_area(rules, ap, mean, i)
        if caps:
            summary[f"AR{rules.max_dets}@{area.name}"] = mean(recall[-1, :, i])
    if rules.tubes:
        return {key: summary[key] for key in ("AP", "AP50", "AP75")} | {"AR": summary[f"AR{rules.max_dets}"]}
    return summary


def _of_area(rules: Protocol, ap: Floats, mean: Mean, area: int) -> tuple[Any, Any]:
    """Return the AP over all IoUs, and that at 0.5, in one area range; `ap` is (T, A, K)."""
    return mean(ap[:, area]), _ap_at(rules, ap, 0.5, mean, area)


def _shared_area_keys(rules: Protocol) -> tuple[str, ...]:
    """Return the keys of area ranges in the summary of `SHARED_KEYS`: mAP50-95 and mAP50 of each."""
    return tuple(f"{key}@{a.name}" for a in rules.named_areas.values() for key in SHARED_KEYS[:2])


def _ap_at(rules: Protocol, ap: Floats, iou: float, mean: Mean, area: int = 0) -> Any:
    """Return the AP at one IoU and in an area range, NaN if the protocol lacks the IoU; `ap` is (T, A, K)."""
    near = np.flatnonzero(np.isclose(rules.ious, iou, rtol=0, atol=1e-9))
    return mean(ap[near[0], area]) if len(near) else math.nan


def class_numbers(matches: Matches, ap: Floats, recall: Floats, tp: Longs) -> list[dict[str, Any]]:
    """Return the class metrics that only some protocols have, by class.

    `ap` is (T, A, K), `recall` (M, T, A, K).
    """
    rules = matches.protocol
    columns: dict[str, Any]
    if rules.metric == "corloc":
        columns = {"corloc": share(tp, matches.npos[:, 0])}
    elif level_keys(rules):
        columns = dict(level_numbers(matches, ap))
    elif not rules.averaged:
        columns = {f"AP@{area.name}": ap[0, i] for i, area in rules.named_areas.items()}
    elif rules.shared_score:
        columns = {f"AP{n}": _ap_at(rules, ap, n / 100, mean_of_classes) for n in (50, 75)}
        columns |= {f"AP@{area.name}": mean_of_classes(ap[:, i]) for i, area in rules.named_areas.items()}
        columns["ap_per_iou"] = ap[:, 0].T
    elif rules.apart:
        columns = _apart(rules, ap, recall, lambda values: values)
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
    """The mean of the values that are not NaN; NaN if all are."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else math.nan


def weighted_mean(values: Floats, weights: Longs) -> float:
    """The weighted mean of (..., classes) values that are not NaN, by the weights of the classes."""
    defined_weights = np.where(np.isnan(values), 0, weights)
    return (
        float((np.nan_to_num(values) * defined_weights).sum() / defined_weights.sum())
        if defined_weights.any()
        else math.nan
    )


def mean_of_classes(values: Floats) -> Floats:
    """(K,) the mean of the defined values of each column of (T, K); values (K,) are returned as they are."""
    if values.ndim == 1:
        return values
    rows = np.ascontiguousarray(values.T)  # each row is summed as if it stood on its own, to the last bit
    partly = np.isnan(rows).any(axis=1) & ~np.isnan(rows).all(axis=1)
    means: Floats = rows.mean(axis=1) if rows.shape[1] else np.full(len(rows), math.nan)
    means[partly] = [mean_of_defined(row) for row in rows[partly]]
    return means
