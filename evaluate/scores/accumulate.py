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
    compute_miss_rates,
    find_best_f1s,
    find_operating_points,
    find_shared_points,
    read_at_confidences,
    share,
)
from odm.evaluate.scores.protocols import Protocol
from odm.evaluate.scores.score_order import (
    BLOCK,
    Counted,
    Ranked,
    Weights,
    group_rows_by_class,
    rank_pooled,
    rank_rows,
)
from odm.parallel import map_by_threads
from odm.tables import FREQUENCIES, Floats, Ints, Longs

_SUMMED = ("gt", "gt_ignored", "det", "tp", "fp", "ignored")
"""Counts of classes that are added up in the row of all classes."""


def accumulate(
    matches: Matches, protocol: Protocol | None = None, *, at_score: float | None = None
) -> Result:
    """Compute the numbers of a protocol.

    Parameters
    ----------
    matches
        The matches of all images, in any order of shards: the result does not depend on it.
    protocol
        The protocol that they must be under; not checked if None.
    at_score
        The score of the operating point; None = that of the best F1 of all classes together.

    Raises
    ------
    ValueError
        If the matches are of another protocol.
    """
    rules = matches.protocol
    if protocol is not None and protocol != rules:
        raise ValueError(f"these are matches under {rules.name}, not under {protocol.name}")
    # The operating point is that of the best F1 of all classes in one ranking (as if they were one class),
    # unless a score was chosen; a shared score is found by `make_result`.
    order = rank_rows(matches)
    (all_classes,) = Ranked.iter_blocks(matches, order, np.array([len(order)]))
    npos = matches.npos[:, :1].sum(axis=0)  # (1,) of all classes
    reference = all_classes.count_at_reference(rules)
    (best_score,), (best_f1,) = find_best_f1s(matches, all_classes, reference, npos)
    score = at_score
    if score is None and not rules.shared_score:
        score = float(best_score)
    class_counts = count_classes(matches, score, order=order)
    overall_point = find_operating_points(
        matches, all_classes, reference, npos, math.nan if score is None else score
    )
    return make_result(matches, class_counts, overall_point[0], (float(best_f1), float(best_score)), at_score)


def count_classes(
    matches: Matches,
    at_score: float | None,
    weights: Weights | None = None,
    order: Longs | None = None,
) -> ClassCounts:
    """Count and average each class: AP, recall, TP, FP, curves. `matches` must hold all images.

    With `weights` there is one class, and its rows stand for several detections each. `order` (n,) are the
    rows of all detections by rank; None = rank them here. The operating points are at `at_score`; NaN or None
    takes all detections.
    """
    order = rank_rows(matches) if order is None else order
    rows, counts = group_rows_by_class(matches, order)
    ranked = list(Ranked.iter_blocks(matches, rows, counts, BLOCK, weights))
    blocks = map_by_threads(functools.partial(_count_classes, matches, at_score), ranked)
    class_counts = ClassCounts.concatenate(blocks, matches.protocol)
    if matches.protocol.shared_score:
        class_counts = replace(
            class_counts, at_confidences=read_at_confidences(matches, order, at_score, weights)
        )
    return class_counts


def make_result(
    matches: Matches,
    class_counts: ClassCounts,
    overall_point: OperatingPoint,
    overall_best: tuple[float, float],
    at_score: float | None,
) -> Result:
    """Make the result from the counts of each class; of `matches` only the totals are used.

    `overall_point` is the operating point of all classes together, which protocols with a `shared_score`
    compute here instead. `overall_best` is the best F1 of all classes together, and its score.
    """
    # `ClassCounts.ap` is (thresholds, areas, classes), `npos` (classes, areas); area 0 is the first range.
    rules, npos, points = matches.protocol, matches.npos[:, 0], class_counts.points
    if class_counts.at_confidences is not None:
        points, overall_point = find_shared_points(class_counts.at_confidences, npos, at_score)

    summary, errors = summarize(matches, class_counts.ap, class_counts.recall, overall_point)
    if rules.rates:  # miss rates take the place of the APs
        summary = {
            key: mean_of_defined(rates)
            for key, rates in zip(miss_keys(rules), class_counts.miss, strict=True)
        }
    if matches.jaccard is not None:
        index = float(jaccard_index(matches.jaccard)[0])
        summary = {"AP": mean_of_defined(class_counts.ap[0, 0]), **summary, "JI": index}

    rows = _make_rows(matches, class_counts, points)
    sums = {key: sum(getattr(row, key) for row in rows) for key in _SUMMED}
    ap = next(iter(summary.values())) if rules.metric in ("ap", "pooled") else math.nan  # the main metric
    # With miss rates the main metric is no AP.
    ap = mean_of_defined(class_counts.ap[0, 0]) if rules.rates else ap
    overall = Row(
        name="", **sums, ap=ap, best_f1=overall_best[0], best_f1_score=overall_best[1], **overall_point
    )
    return Result(
        rules=rules,
        summary=summary,
        classes=rows,
        overall=overall,
        curves=class_counts.curves,
        errors=errors,
        dropped={reason: n for reason, n in matches.dropped if n},
        matches=matches,
        at_score=at_score,
    )


def _make_rows(
    matches: Matches, class_counts: ClassCounts, points: Sequence[OperatingPoint]
) -> tuple[Row, ...]:
    """Make the row of each class, with its operating point in `points`."""
    counts = (
        matches.npos[:, 0],
        matches.gt_ignored,
        class_counts.det,
        class_counts.tp,
        class_counts.fp,
        mean_of_classes(class_counts.ap[:, 0]),
    )
    columns = zip(*(column.tolist() for column in counts), strict=True)
    extras = make_class_extras(matches, class_counts.ap, class_counts.recall, class_counts.tp)
    for key, values in zip(miss_keys(matches.protocol), class_counts.miss.tolist(), strict=True):
        for extra, value in zip(extras, values, strict=True):
            extra[key] = value
    best_columns = [
        {"best_f1": f1, "best_f1_score": score}
        for f1, score in zip(class_counts.best_f1.tolist(), class_counts.best_f1_score.tolist(), strict=True)
    ]
    # What is neither a true nor a false positive is ignored: det - tp - fp.
    return tuple(
        Row(name, gt, gt_ignored, det, tp, fp, det - tp - fp, ap, extra=extra, **point, **best)
        for name, (gt, gt_ignored, det, tp, fp, ap), best, point, extra in zip(
            matches.classes, columns, best_columns, points, extras, strict=True
        )
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
    at_confidences: Floats | None = None
    """(classes, 4, confidences) see `read_at_confidences`; only under protocols with a `shared_score`."""

    @classmethod
    def concatenate(cls, blocks: Sequence[ClassCounts], rules: Protocol) -> ClassCounts:
        """Concatenate the counts of blocks of classes; there may be none."""
        shape, no_counts = (len(rules.ious), len(rules.areas), 0), np.zeros(0, np.int64)
        miss = np.zeros((len(miss_keys(rules)), 0))
        empty_arrays = (  # in the order of `_ARRAYS`
            np.zeros(shape),
            np.zeros((len(rules.caps), *shape)),
            miss,
            *[no_counts] * 3,
            *[np.zeros(0)] * 2,
        )
        arrays = {
            name: np.concatenate([empty_array, *(getattr(block, name) for block in blocks)], axis=-1)
            for name, empty_array in zip(_ARRAYS, empty_arrays, strict=True)
        }
        at_confidences = [block.at_confidences for block in blocks if block.at_confidences is not None]
        return cls(
            **arrays,
            points=[point for block in blocks for point in block.points],
            curves={name: curve for block in blocks for name, curve in block.curves.items()},
            at_confidences=np.concatenate(at_confidences) if at_confidences else None,
        )

    def reorder(self, order: Longs, names: Sequence[str]) -> ClassCounts:
        """Return the classes in another order: `order` are positions, `names` the names in it."""
        return ClassCounts(
            **{name: getattr(self, name)[..., order] for name in _ARRAYS},
            points=[self.points[i] for i in order.tolist()],
            curves={name: self.curves[name] for name in names if name in self.curves},
            at_confidences=None if self.at_confidences is None else self.at_confidences[order],
        )


_ARRAYS = ("ap", "recall", "miss", "det", "tp", "fp", "best_f1", "best_f1_score")


def _count_classes(matches: Matches, at_score: float | None, ranked: Ranked) -> ClassCounts:
    """Count and average the consecutive classes of `ranked`; operating points are at `at_score`."""
    rules = matches.protocol
    class_slice = slice(ranked.first_class, ranked.first_class + ranked.n_classes)
    npos = matches.npos[class_slice]
    hit_rank = matches.hit_rank[ranked.hit_numbers]

    # ap: (thresholds, areas, classes), recall: (caps, thresholds, areas, classes), miss: (areas, classes)
    shape = len(rules.ious), len(rules.areas), ranked.n_classes
    ap, recall = np.full(shape, np.nan), np.full((len(rules.caps), *shape), np.nan)
    miss = np.full((len(miss_keys(rules)), ranked.n_classes), np.nan)
    for a in range(len(rules.areas)):
        unmatched = ranked.count_unmatched(a)
        reader = PrecisionReader(rules, npos[:, a])
        for t, (word, bit) in enumerate(bits_of_area(rules, a)):
            counted = ranked.count(word, bit, unmatched)
            if rules.reading == "limits" and matches.curves is None:  # KITTI's curves are there already
                scores = matches.score[ranked.rows]
                ap[t, a] = average_at_limits(rules, counted, ranked, scores, npos[:, a], matches.score_range)
            elif rules.metric == "ap" and matches.curves is None:
                ap[t, a] = reader.average(counted)
            if rules.rates:
                n_true, n_false = counted.at_positives()
                weight = np.ones_like(n_true)  # each true positive stands for itself
                hit_columns = counted.category, n_false, weight, npos[:, a]
                miss[a] = compute_miss_rates(rules, *hit_columns, matches.n_images)
            for m, cap in enumerate(rules.caps):
                n_hits = counted.tp if cap == rules.max_dets else _count_within_cap(counted, hit_rank, cap)
                recall[m, t, a] = share(n_hits, npos[:, a])
    # `Matches.curves` is (precision or similarity, areas, classes, limits); R40 is without limit 0.
    if matches.curves is not None:
        ap[0] = matches.curves[0, :, class_slice, 1:].mean(axis=-1)
    if rules.detected_only:  # a class whose ground truths are all ignored has an AP of 0, not NaN
        ap[0, 0, (npos[:, 0] == 0) & (matches.gt_ignored[class_slice] > 0)] = 0
    # A class of a fixed list has an AP of 0, not NaN, where it has no ground truth.
    is_fixed = np.array([name in rules.mean_over for name in matches.classes[class_slice]], np.bool_)
    ap[:, :, is_fixed] = np.nan_to_num(ap[:, :, is_fixed])

    # Curves and operating points are at the reference threshold, in the first area range.
    reference = ranked.count_at_reference(rules)
    curves = {}
    if rules.metric not in ("corloc", "top-k"):
        curves = _make_curves(matches, ranked, reference, npos[:, 0], matches.classes[class_slice])
    best_score, best_f1 = find_best_f1s(matches, ranked, reference, npos[:, 0])
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
        points=find_operating_points(matches, ranked, reference, npos[:, 0], threshold),
        curves=curves,
    )


def _count_within_cap(counted: Counted, hit_rank: Ints, cap: int) -> Longs:
    """(classes,) the true positives among the first `cap` detections of their image and class.

    `hit_rank` (hits,) is the rank of each hit among these.
    """
    # `reduceat` answers an empty stretch with the item at its start, which is of the next class (or the
    # appended False): starts 0 2 2 of 1 1 1 give 2 1 1, where tp is 2 0 1.
    is_within_cap = np.append(hit_rank[counted.positive_hits] < cap, False)
    n_hits = np.add.reduceat(is_within_cap, counted.starts, dtype=np.int64)
    n_hits[counted.tp == 0] = 0
    return n_hits


def _make_curves(
    matches: Matches, ranked: Ranked, counted: Counted, npos: Longs, names: Sequence[str]
) -> dict[str, Curve]:
    """Make the curve of each class with ground truth, `npos` (classes,), by its name."""
    n_true, n_false = counted.at_positives()
    recall = n_true / np.maximum(npos, 1)[counted.category]
    precision = n_true / (n_true + n_false)
    score = matches.score[ranked.rows[ranked.hit_positions[counted.positive_hits]]]
    curves = {}
    for k in np.flatnonzero(npos > 0).tolist():
        class_hits = slice(int(counted.starts[k]), int(counted.starts[k] + counted.tp[k]))
        curves[names[k]] = Curve(recall[class_hits], precision[class_hits], score[class_hits])
    return curves


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

    `ap` is (thresholds, areas, classes), `recall` (caps, thresholds, areas, classes); `point` is the
    operating point of all classes together.
    """
    rules = matches.protocol
    if rules.metric == "top-k":
        return _summarize_guesses(matches.guesses, rules.max_dets or 0)
    if rules.metric == "corloc":
        hits = matches.hit[(matches.positive[:, 0] & np.uint64(1)) != 0]  # bit 0 is the only threshold
        n_hits = np.bincount(matches.category[hits], minlength=len(matches.classes))
        return {"CorLoc": mean_of_defined(share(n_hits, matches.npos[:, 0]))}, {}
    if rules.metric == "pooled":  # AP of all classes with ground truth in one ranking
        rows = rank_pooled(matches)
        (ranked,) = Ranked.iter_blocks(matches, rows, np.array([len(rows)]))
        reader = PrecisionReader(rules, matches.npos[:, :1].sum(axis=0))
        return {"AP": float(reader.average(ranked.count_at_reference(rules))[0])}, {}
    mean = mean_of_defined
    if matches.class_images is not None:
        mean = functools.partial(weighted_mean, weights=matches.class_images)
    if level_keys(rules):
        return {key: mean(values) for key, values in compute_level_aps(matches, ap).items()}, {}
    if rules.mean_over:  # a class that the data lack has an AP of 0
        ap_by_class = dict(zip(matches.classes, ap[0, 0].tolist(), strict=True))
        return {"mAP": sum(ap_by_class.get(name, 0) for name in rules.mean_over) / len(rules.mean_over)}, {}
    if not rules.averaged:
        named_aps = {f"mAP@{a.name}": mean_of_defined(ap[0, i]) for i, a in rules.named_areas.items()}
        return {"mAP": mean_of_defined(ap[0, 0]), **named_aps}, {}
    if rules.shared_score:  # what ``yolo val`` prints, and the confidence that P and R are read at
        aps = (
            mean_of_defined(ap[:, 0]),
            *(_average_at_iou(rules, ap, iou, mean_of_defined) for iou in (0.5, 0.75)),
        )
        numbers = *aps, point["precision"], point["recall"], point["score"]
        area_aps = [_average_area(rules, ap, mean_of_defined, i) for i in rules.named_areas]
        area_numbers = dict(
            zip(_list_shared_area_keys(rules), itertools.chain.from_iterable(area_aps), strict=True)
        )
        return dict(zip(SHARED_KEYS, numbers, strict=True)) | area_numbers, {}
    if rules.apart:
        return _summarize_apart(rules, ap, recall, mean_of_defined), {}
    return _compute_averages(rules, ap, recall, mean, np.array(matches.frequency)), {}


def _summarize_guesses(guesses: Longs, n_guesses: int) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Compute the top-1 and top-5 errors, and those with 1 to `n_guesses` guesses: the share of the images
    where none of them has the right class (``cls``), or hits as well (``loc``). See `Matches.guesses`.
    """
    errors: dict[str, list[float]] = {}
    for column, kind in enumerate(("cls", "loc")):  # of each image the number of guesses before the right one
        n_failed = guesses[:, column]
        errors[kind] = [
            float(np.mean(n_failed >= k)) if len(n_failed) else math.nan for k in range(1, n_guesses + 1)
        ]
    summary = {
        f"top{k}_{kind}": errors[kind][k - 1] if k <= n_guesses else math.nan
        for kind in ("cls", "loc")
        for k in (1, 5)
    }
    return summary, errors


_KITTI_AVERAGES = {"AP_R40": (0, slice(1, None)), "AP_R11": (0, slice(0, None, 4))}
_KITTI_AVERAGES |= {key.replace("AP", "AOS"): (1, entries) for key, (_, entries) in _KITTI_AVERAGES.items()}
"""By key: the curve over 41 score limits (0 precision, 1 similarity), and its entries that are averaged."""


def level_keys(rules: Protocol) -> tuple[str, ...]:
    """Return the keys of the summary, and of classes, of protocols with levels of difficulty; else none."""
    if rules.reading != "limits":  # which KITTI and WIDER FACE have
        return ()
    # Only KITTI, where ground truths choose their detections, has several averages.
    kinds = _KITTI_AVERAGES if rules.match == "truth" else ("AP",)
    return tuple(f"{kind}@{a.name}" for kind in kinds for a in rules.areas)


def compute_level_aps(matches: Matches, ap: Floats) -> dict[str, Floats]:
    """Return the APs at each level of difficulty, (classes,), by the keys of `level_keys`.

    `ap` is (thresholds, areas, classes).
    """
    if matches.curves is None:
        aps = [ap[0]]
    else:
        aps = [matches.curves[i][..., entries].mean(axis=-1) for i, entries in _KITTI_AVERAGES.values()]
    return dict(zip(level_keys(matches.protocol), np.concatenate(aps), strict=True))


def _summarize_apart(rules: Protocol, ap: Floats, recall: Floats, mean: Mean) -> dict[str, Any]:
    """Return AP and recall at each threshold, the reference threshold first, in each area range.

    `ap` is (thresholds T, areas A, classes K), `recall` (caps M, T, A, K), of which the last cap is read;
    `mean` reduces (K,) numbers.
    """
    thresholds = sorted(range(len(rules.ious)), key=lambda t: t != rules.reference)  # False sorts first
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
        return *SHARED_KEYS, *_list_shared_area_keys(rules)
    if not rules.averaged:
        return "mAP", *(f"mAP@{a.name}" for a in rules.named_areas.values())
    # One class of unknown frequency: with any frequency, LVIS has the keys APr, APc and APf, too.
    return tuple(_make_nan_averages(rules, frequency=np.array([""])))


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
    return *keys, *(key for key in _make_nan_averages(rules) if key != "AP")


def _make_nan_averages(rules: Protocol, frequency: NDArray[np.str_] | None = None) -> dict[str, float]:
    """Return the averages of a protocol without any numbers, all NaN: only their keys are of use."""
    undefined = np.full((len(rules.ious), len(rules.areas), 1), math.nan)
    recall = np.stack([undefined] * max(len(rules.caps), 1))  # (caps, thresholds, areas, classes)
    if rules.apart:
        return _summarize_apart(rules, undefined, recall, mean_of_defined)
    return _compute_averages(rules, undefined, recall, mean_of_defined, frequency)


def _compute_averages(
    rules: Protocol,
    ap: Floats,
    recall: Floats,
    mean: Mean,
    frequency: NDArray[np.str_] | None = None,
) -> dict[str, Any]:
    """Return the averages of COCO; `ap` is (thresholds T, areas A, classes K), `recall` (caps M, T, A, K).

    With the frequency of each class also those of LVIS. `mean` reduces (T, K) or (K,) numbers to one number,
    or to one for each class.
    """
    index_by_area = {a.name: i for i, a in enumerate(rules.areas) if i}  # without the range of all numbers
    index_by_cap = {cap: i for i, cap in enumerate(rules.caps)}
    summary = {
        "AP": mean(ap[:, 0]),
        "AP50": _average_at_iou(rules, ap, 0.5, mean),
        "AP75": _average_at_iou(rules, ap, 0.75, mean),
    }
    # AP by size, and by how frequent classes are.
    for letter, name in (("s", "small"), ("m", "medium"), ("l", "large")):
        if name in index_by_area:
            summary[f"AP{letter}"] = mean(ap[:, index_by_area[name]])
    if rules.by_frequency and frequency is not None:
        for letter in FREQUENCIES:
            summary[f"AP{letter}"] = mean(ap[:, 0, frequency == letter])
    # Recall by number of detections, by IoU, and by size; the last cap is `max_dets`.
    # VisDrone has a range for the first n detections of an image in place of a cap.
    index_by_first_n = {a.first: i for i, a in enumerate(rules.areas) if a.first is not None}
    for first_n in sorted(index_by_first_n):
        summary[f"AR{first_n}"] = mean(recall[-1, :, index_by_first_n[first_n]])
    for cap in sorted({*rules.recall_at, *index_by_cap}):  # NaN at a cap above `max_dets`
        summary[f"AR{cap}"] = mean(recall[index_by_cap[cap], :, 0]) if cap in index_by_cap else math.nan
    for iou in (0.5, 0.75) if rules.measure == "oks" else ():
        summary[f"AR{rules.max_dets}@{100 * iou:.0f}"] = _average_at_iou(rules, recall[-1], iou, mean)
    for letter, name in (("s", "small"), ("m", "medium"), ("l", "large")):
        if name in index_by_area:
            summary[f"AR{letter}"] = mean(recall[-1, :, index_by_area[name]]) if index_by_cap else math.nan
    # Both in each range that the user named.
    for i, area in rules.named_areas.items():
        summary[f"AP@{area.name}"], summary[f"AP50@{area.name}"] = _average_area(rules, ap, mean, i)
        if index_by_cap:
            summary[f"AR{rules.max_dets}@{area.name}"] = mean(recall[-1, :, i])
    if rules.tubes:
        return {key: summary[key] for key in ("AP", "AP50", "AP75")} | {"AR": summary[f"AR{rules.max_dets}"]}
    return summary


def _average_area(rules: Protocol, ap: Floats, mean: Mean, area: int) -> tuple[Any, Any]:
    """Return the AP over all IoUs, and that at 0.5, in area range `area`; `ap` is (IoUs, areas, classes)."""
    return mean(ap[:, area]), _average_at_iou(rules, ap, 0.5, mean, area)


def _list_shared_area_keys(rules: Protocol) -> tuple[str, ...]:
    """Return the keys of area ranges in the summary of `SHARED_KEYS`: mAP50-95 and mAP50 of each."""
    return tuple(f"{key}@{a.name}" for a in rules.named_areas.values() for key in SHARED_KEYS[:2])


def _average_at_iou(rules: Protocol, ap: Floats, iou: float, mean: Mean, area: int = 0) -> Any:
    """Return the mean of `ap` at one IoU and in an area range, NaN if the protocol lacks the IoU.

    `ap` is AP, or recall at one cap, (thresholds, areas, classes).
    """
    indices = np.flatnonzero(np.isclose(rules.ious, iou, rtol=0, atol=1e-9))
    return mean(ap[indices[0], area]) if len(indices) else math.nan


def make_class_extras(matches: Matches, ap: Floats, recall: Floats, tp: Longs) -> list[dict[str, Any]]:
    """Return the class metrics that only some protocols have: for each class, by key.

    `ap` is (thresholds, areas, classes), `recall` (caps, thresholds, areas, classes), `tp` (classes,).
    """
    rules = matches.protocol
    columns: dict[str, Any]
    if rules.metric == "corloc":
        columns = {"corloc": share(tp, matches.npos[:, 0])}
    elif level_keys(rules):
        columns = dict(compute_level_aps(matches, ap))
    elif not rules.averaged:
        columns = {f"AP@{area.name}": ap[0, i] for i, area in rules.named_areas.items()}
    elif rules.shared_score:
        columns = {f"AP{n}": _average_at_iou(rules, ap, n / 100, mean_of_classes) for n in (50, 75)}
        columns |= {f"AP@{area.name}": mean_of_classes(ap[:, i]) for i, area in rules.named_areas.items()}
        columns["ap_per_iou"] = ap[:, 0].T
    elif rules.apart:
        columns = _summarize_apart(rules, ap, recall, lambda values: values)  # each class keeps its own
    else:
        columns = _compute_averages(rules, ap, recall, mean_of_classes)
        del columns["AP"]
        columns["ap_per_iou"] = ap[:, 0].T
        if rules.by_frequency:
            columns["frequency"] = np.array(matches.frequency or [""] * len(tp), object)
    # A float instead of a column is NaN: the protocol lacks the IoU or the cap.
    undefined = np.full(len(tp), math.nan)
    lists = [(undefined if isinstance(column, float) else column).tolist() for column in columns.values()]
    rows = zip(*lists, strict=True) if lists else ((),) * len(tp)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def mean_of_defined(values: Floats) -> float:
    """The mean of the values that are not NaN; NaN if all are."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else math.nan


def weighted_mean(values: Floats, weights: Longs) -> float:
    """The weighted mean of (..., classes) values that are not NaN, by the weights of the classes; or NaN."""
    defined_weights = np.where(np.isnan(values), 0, weights)
    if not defined_weights.any():
        return math.nan
    return float((np.nan_to_num(values) * defined_weights).sum() / defined_weights.sum())


def mean_of_classes(values: Floats) -> Floats:
    """(K,) the mean of the defined values of each column of (T, K); values (K,) are returned as they are."""
    if values.ndim == 1:
        return values
    rows = np.ascontiguousarray(values.T)  # each row is summed as if it stood on its own, to the last bit
    is_partly_defined = np.isnan(rows).any(axis=1) & ~np.isnan(rows).all(axis=1)
    means: Floats = rows.mean(axis=1) if rows.shape[1] else np.full(len(rows), math.nan)
    means[is_partly_defined] = [mean_of_defined(row) for row in rows[is_partly_defined]]
    return means
