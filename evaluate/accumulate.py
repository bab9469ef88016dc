"""From matches to numbers: rankings, precision and recall, averages, operating points.

Precision is needed at true positives alone: between them it only falls. The false positives before one are
the detections before it that would be false if they matched nothing, less those that did match.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.match import Matches, threshold_bits, word_blocks
from odm.evaluate.order import argsort_descending, argsort_int
from odm.evaluate.pairs import Mask
from odm.evaluate.protocols import Protocol, recall_points
from odm.evaluate.results import Curve, Result, Row
from odm.parallel import in_order, worker_count
from odm.tables import FREQUENCIES, Floats, Longs

NAN = float("nan")
Counts = NDArray[np.int32]

BLOCK = 2**16
"""Hits that are counted at a time: their columns stay in the processor's cache."""

WORTH_SHARING = 2**14
"""Hits that are worth another process; making one takes a few milliseconds."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class CurveArrays:
    """The arrays of pycocotools: T thresholds, R recalls, K classes, A area ranges, M detection caps.

    The value -1 stands where a class has no ground truth (in all of odm's other results that is NaN).
    """

    precision: Floats
    """(T, R, K, A, M)"""
    recall: Floats
    """(T, K, A, M)"""


class _Ranked:
    """Detections by class and falling score, and the hits among them.

    ``rows`` (n,) are rows of the matches, ``counts`` and ``starts`` (classes,) say which of them belong to
    a class; ``at`` (hits,) are the places of the hits in ``rows``, ``hits`` their numbers in the matches.
    """

    def __init__(
        self, first_class: int, rows: Longs, counts: Longs, at: Longs, hits: Longs, matches: Matches
    ) -> None:
        self.first_class = first_class
        self.rows, self.counts, self.at, self.hits = rows, counts, at, hits
        self.n_classes = len(counts)
        self.starts = np.cumsum(counts) - counts
        self.first_hit = np.searchsorted(at, self.starts)
        self.hit_class = np.repeat(np.arange(len(counts)), np.diff(np.append(self.first_hit, len(at))))
        self.positive = matches.positive[hits]
        self.matched = self.positive | matches.ignored[hits]
        self.live = None if matches.live is None else matches.live[rows]

    @classmethod
    def of(
        cls, matches: Matches, rows: Longs, counts: Longs, block: int = 2**62
    ) -> Iterator[Callable[[], _Ranked]]:
        """Makers of the rankings of consecutive classes with about `block` hits each.

        `rows` are those of all classes.
        """
        hit_of_row = np.full(len(matches.score), -1, np.int32)
        hit_of_row[matches.hit] = np.arange(len(matches.hit), dtype=np.int32)
        hits = hit_of_row[rows]
        at = np.flatnonzero(hits >= 0)
        of_hits = hits[at].astype(np.int64)
        ends = np.cumsum(counts)
        hit_ends = np.searchsorted(at, ends)
        k = 0
        while k < len(counts):
            start, first = (int(ends[k - 1]), int(hit_ends[k - 1])) if k else (0, 0)
            after = max(k + 1, int(np.searchsorted(hit_ends, first + block, side="right")))
            stop, last = int(ends[after - 1]), int(hit_ends[after - 1])
            own = rows[start:stop], counts[k:after], at[first:last] - start, of_hits[first:last]
            yield functools.partial(cls, k, *own, matches)
            k = after

    def alive(self, area: int) -> _Alive:
        """What would be false positives in an area range."""
        if self.live is None:
            before = np.arange(len(self.rows) + 1, dtype=np.int32)
            return _Alive(before, before[self.at], np.ones(len(self.at), np.bool_))
        live = self.live & np.uint8(1 << area) != 0
        before = np.zeros(len(live) + 1, np.int32)
        np.cumsum(live, out=before[1:])
        return _Alive(before, before[self.at], live[self.at])

    def counted(self, word: int, bit: np.uint64, alive: _Alive) -> _Counted:
        """True and false positives under one threshold and area range."""
        positive = np.flatnonzero(self.positive[:, word] & bit != 0)  # of booleans, which is far quicker
        spared = np.zeros(len(self.at) + 1, np.int32)
        np.cumsum((self.matched[:, word] & bit != 0) & alive.hits, out=spared[1:])
        return _Counted(self, alive, spared, positive)

    def reference(self, rules: Protocol) -> _Counted:
        """Those of the protocol's reference threshold and first area range."""
        blocks = word_blocks(rules)
        w = next(i for i, block in enumerate(blocks) if rules.reference in block)
        return self.counted(w, threshold_bits(blocks[w], 1, rules.reference), self.alive(0))


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Alive:
    """The detections that would be false positives if they matched nothing."""

    before: Counts
    """(n + 1,) how many of them are among the first rows."""
    before_hits: Counts
    """(hits,) the same before each hit."""
    hits: Mask
    """(hits,) whether a hit is one."""


class _Counted:
    """The true positives under one threshold and area range, and the false positives at any place."""

    def __init__(self, ranked: _Ranked, alive: _Alive, spared: Counts, positive: Longs) -> None:
        self.ranked = ranked
        self.alive, self.spared, self.positive = alive, spared, positive
        self.category = ranked.hit_class[positive]
        last_hit = np.append(ranked.first_hit[1:], len(ranked.at))
        self.starts = np.searchsorted(positive, ranked.first_hit)
        self.tp = np.searchsorted(positive, last_hit) - self.starts
        # What the class begins with, to be taken off.
        self.base = alive.before[ranked.starts] - spared[ranked.first_hit]
        self.fp = alive.before[ranked.starts + ranked.counts] - spared[last_hit] - self.base

    def at_positives(self) -> tuple[Longs, Longs]:
        """True and false positives from the top of the class down to each true positive."""
        true = np.arange(1, len(self.positive) + 1) - self.starts[self.category]
        false = self.alive.before_hits[self.positive] - self.spared[self.positive]
        return true, false - self.base[self.category]

    def tp_among(self, kept: Mask) -> Longs:
        """(classes,) how many of the true positives, (true positives,), are kept."""
        n: Longs = np.add.reduceat(np.append(kept, False), self.starts, dtype=np.int64)
        n[self.tp == 0] = 0  # an empty stretch is answered with what follows it
        return n

    def down_to(self, end: Longs, category: Longs) -> tuple[Longs, Longs]:
        """True and false positives from the top of each class down to, not with, the place `end`."""
        at = self.ranked.at
        hits = np.searchsorted(at, end)
        true = np.searchsorted(at[self.positive], end) - self.starts[category]
        return true, self.alive.before[end] - self.spared[hits] - self.base[category]


def accumulate(
    matches: Matches, protocol: Protocol | None = None, *, at_score: float | None = None
) -> Result:
    """The numbers of a protocol.

    Parameters
    ----------
    matches
        Those of all images, in any order of shards: the result does not depend on it.
    protocol
        The one they were made under, if it is to be checked.
    at_score
        The score of the operating point; without it that of the best F1.

    Raises
    ------
    ValueError
        If the matches are of another protocol.
    """
    rules = matches.protocol
    if protocol is not None and protocol != rules:
        raise ValueError(f"these are matches under {rules.name}, not under {protocol.name}")
    order = _order(matches)
    npos, has_ap = matches.npos, rules.metric == "ap"
    blocks, (overall_point,) = _rank(matches, order, at_score)
    none = np.zeros((len(rules.caps), len(rules.ious), len(rules.areas), 0))
    recall = np.concatenate([none, *(block.recall for block in blocks)], axis=-1)
    ap = np.concatenate([np.zeros(none.shape[1:]), *(block.ap for block in blocks)], axis=-1)
    det, tp, fp = (
        np.concatenate([np.zeros(0, np.int64), *(getattr(block, name) for block in blocks)])
        for name in ("det", "tp", "fp")
    )
    points = [point for block in blocks for point in block.points]
    curves = {name: curve for block in blocks for name, curve in block.curves.items()}
    summary, errors = _summary(matches, ap, recall)
    rows = tuple(
        Row(
            name=name,
            gt=int(npos[k, 0]),
            gt_ignored=int(matches.gt_ignored[k]),
            det=int(det[k]),
            tp=int(tp[k]),
            fp=int(fp[k]),
            ignored=int(det[k] - tp[k] - fp[k]),
            ap=_mean(ap[:, 0, k]),
            **points[k],
            extra=_extra(
                rules,
                ap[:, :, k],
                recall[:, :, :, k],
                int(tp[k]),
                int(npos[k, 0]),
                matches.frequency[k] if matches.frequency else "",
            ),
        )
        for k, name in enumerate(matches.classes)
    )
    overall = Row(
        name="",
        gt=sum(r.gt for r in rows),
        gt_ignored=sum(r.gt_ignored for r in rows),
        det=sum(r.det for r in rows),
        tp=sum(r.tp for r in rows),
        fp=sum(r.fp for r in rows),
        ignored=sum(r.ignored for r in rows),
        ap=next(iter(summary.values())) if has_ap or rules.metric == "pooled" else NAN,
        **overall_point,
    )
    return Result(
        rules=rules,
        summary=summary,
        classes=rows,
        overall=overall,
        curves=curves,
        errors=errors,
        dropped=dict(matches.dropped),
        matches=matches,
        at_score=at_score,
    )


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Block:
    """The numbers of some consecutive classes; arrays end with the classes' axis."""

    ap: Floats
    """(thresholds, areas, classes)"""
    recall: Floats
    """(caps, thresholds, areas, classes)"""
    det: Longs
    tp: Longs
    fp: Longs
    points: list[dict[str, Any]]
    curves: dict[str, Curve]


def _rank(
    matches: Matches, order: Longs, at_score: float | None
) -> tuple[list[_Block], list[dict[str, Any]]]:
    """The numbers of all classes and the operating point of all together, by several processes if need be."""
    rows, counts = _by_class(matches, order)
    n_hits = len(matches.hit)
    worth = n_hits >= WORTH_SHARING
    makers = _Ranked.of(
        matches, rows, counts, min(BLOCK, n_hits // (2 * worker_count()) + 1) if worth else BLOCK
    )
    tasks: list[Callable[[], Any]] = [functools.partial(_overall_point, matches, order, at_score)]
    tasks += (functools.partial(_count, matches, at_score, maker) for maker in makers)
    if worth:
        point, *blocks = in_order(operator.call, tasks)
    else:
        point, *blocks = map(operator.call, tasks)
    return blocks, point


def _overall_point(matches: Matches, order: Longs, at_score: float | None) -> list[dict[str, Any]]:
    together = next(_Ranked.of(matches, order, np.array([len(order)])))()
    npos = matches.npos[:, :1].sum(axis=0)
    return _operating_points(matches, together, together.reference(matches.protocol), npos, at_score)


def _count(matches: Matches, at_score: float | None, rank_block: Callable[[], _Ranked]) -> _Block:
    rules, ranked = matches.protocol, rank_block()
    own = slice(ranked.first_class, ranked.first_class + ranked.n_classes)
    npos = matches.npos[own]
    rank = matches.hit_rank[ranked.hits]
    shape = len(rules.ious), len(rules.areas), ranked.n_classes
    ap, recall = np.full(shape, np.nan), np.full((len(rules.caps), *shape), np.nan)
    for a in range(len(rules.areas)):
        alive = ranked.alive(a)
        reading = _Reading(rules, npos[:, a])
        for w, t, bit in _combinations(rules, a):
            counted = ranked.counted(w, bit, alive)
            if rules.metric == "ap":
                ap[t, a] = reading.average(counted)
            for m, cap in enumerate(rules.caps):
                found = counted.tp
                if cap != rules.max_dets:
                    found = counted.tp_among(rank[counted.positive] < cap)
                recall[m, t, a] = _share(found, npos[:, a])
    reference = ranked.reference(rules)
    return _Block(
        ap,
        recall,
        det=ranked.counts,
        tp=reference.tp,
        fp=reference.fp,
        points=_operating_points(matches, ranked, reference, npos[:, 0], at_score),
        curves=_curves(matches, ranked, reference, npos[:, 0], matches.classes[own]),
    )


def _order(matches: Matches) -> Longs:
    """Rows by falling score, then image, then input."""
    if matches.order is not None:
        return matches.order
    image, row = matches.image, matches.row
    rises = (image[1:] > image[:-1]) | ((image[1:] == image[:-1]) & (row[1:] > row[:-1]))
    if rises.all():
        return argsort_descending(matches.score)
    base = np.lexsort((row, image))
    return base[argsort_descending(matches.score[base])]


def _by_class(matches: Matches, order: Longs) -> tuple[Longs, Longs]:
    """Rows by class and falling score, and how many there are of each class."""
    n_classes = len(matches.classes)
    rows = order[argsort_int(matches.category[order], max(n_classes, 1))]
    return rows, np.bincount(matches.category, minlength=n_classes)


def _combinations(rules: Protocol, area: int) -> Iterator[tuple[int, int, np.uint64]]:
    """Word, threshold and bit of every threshold in one area range."""
    for w, block in enumerate(word_blocks(rules)):
        for t in block:
            yield w, t, threshold_bits(block, 1, t) << np.uint64(area * len(block))


def _share(n: Longs, of: Longs) -> Floats:
    """N / of, NaN where `of` is 0."""
    share: Floats = np.divide(n, of, out=np.full(len(of), np.nan), where=of > 0)
    return share


def _mean(values: Floats) -> float:
    """The mean of what is defined, NaN if nothing is."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else NAN


# ------------------------------------------------------------------------------------ average precision


class _Reading:
    """Where precision is read on its envelope, for classes with `npos` ground truths."""

    def __init__(self, rules: Protocol, npos: Longs) -> None:
        self.npos = npos
        self.epsilon = float(np.spacing(1)) if rules.guarded else 0.0
        points = recall_points(rules.interpolation)
        self.needed: Longs | None = None
        if points is not None:
            # The fewest true positives whose recall, as it is computed, reaches each point.
            of = np.maximum(npos, 1)[:, None]
            needed = np.maximum(np.ceil(points[None] * of).astype(np.int64), 1)
            needed -= (needed > 1) & ((needed - 1) / of >= points)
            needed += needed / of < points
            self.needed = needed

    def precision(self, counted: _Counted) -> Floats:
        """(true positives,) precision at each."""
        true, false = counted.at_positives()
        precision: Floats = true / (false + true + self.epsilon)
        return precision

    def at_points(self, counted: _Counted) -> Floats:
        """(classes, points) the highest precision at each recall or more; 0 where it is not reached."""
        assert self.needed is not None
        padded = np.append(self.precision(counted), 0.0)
        reached = self.needed <= counted.tp[:, None]
        place = counted.starts[:, None] + np.where(reached, self.needed - 1, counted.tp[:, None])
        if not place.size:
            return np.zeros(place.shape)
        # The highest between this point and the next; then the highest of all that follow.
        highest = np.maximum.reduceat(padded, place.ravel()).reshape(place.shape)
        highest[~reached] = 0
        envelope: Floats = np.maximum.accumulate(highest[:, ::-1], axis=1)[:, ::-1]
        return envelope

    def average(self, counted: _Counted) -> Floats:
        """(classes,) average precision, NaN without ground truth."""
        if self.needed is not None:
            average: Floats = self.at_points(counted).mean(axis=1)
        else:
            precision = self.precision(counted)
            average = np.zeros(len(self.npos))
            for k in np.flatnonzero((counted.tp > 0) & (self.npos > 0)).tolist():
                own = precision[counted.starts[k] : counted.starts[k] + counted.tp[k]]
                average[k] = np.maximum.accumulate(own[::-1]).sum() / self.npos[k]
        average[self.npos == 0] = np.nan
        return average


def _pooled_ap(matches: Matches) -> float:
    """AP of all classes with ground truth in one ranking; ties by class, image, input."""
    rules = matches.protocol
    rows = np.flatnonzero((matches.npos[:, 0] > 0)[matches.category])
    rows = rows[np.lexsort((matches.row[rows], matches.image[rows], matches.category[rows]))]
    rows = rows[argsort_descending(matches.score[rows])]
    ranked = next(_Ranked.of(matches, rows, np.array([len(rows)])))()
    npos = matches.npos[:, :1].sum(axis=0)
    return float(_Reading(rules, npos).average(ranked.reference(rules))[0])


def curve_arrays(matches: Matches) -> CurveArrays:
    """Precision and recall of every threshold, class, area range and detection cap.

    See `CurveArrays`; K is the order of `Matches.classes`. Where precision is read at all points there is
    no such array: R is 0.
    """
    rules = matches.protocol
    n_classes = len(matches.classes)
    rows, counts = _by_class(matches, _order(matches))
    points = recall_points(rules.interpolation)
    caps: Sequence[int | None] = rules.caps or (rules.max_dets,)
    n_points = 0 if points is None else len(points)
    shape = (len(rules.ious), n_points, n_classes, len(rules.areas), len(caps))
    precision = np.full(shape, -1.0)
    recall = np.full((shape[0], *shape[2:]), -1.0)
    place = _places(matches, rows) if len(caps) > 1 else None
    for m, cap in enumerate(caps):
        within = rows if place is None or cap is None else rows[place[rows] < cap]
        if within is not rows:
            counts = np.bincount(matches.category[within], minlength=n_classes)
        done = 0
        for make in _Ranked.of(matches, within, counts, BLOCK):
            ranked = make()
            for a in range(len(rules.areas)):
                npos = matches.npos[done : done + ranked.n_classes, a]
                some = np.flatnonzero(npos > 0)
                reading = _Reading(rules, npos)
                alive = ranked.alive(a)
                for w, t, bit in _combinations(rules, a):
                    counted = ranked.counted(w, bit, alive)
                    recall[t, done + some, a, m] = counted.tp[some] / npos[some]
                    if n_points:
                        precision[t, :, done + some, a, m] = reading.at_points(counted)[some]
            done += ranked.n_classes
    return CurveArrays(precision, recall)


def _places(matches: Matches, rows: Longs) -> Longs:
    """(n,) the place of every detection among those of its image and class; `rows` are ranked."""
    image, category = matches.image[rows], matches.category[rows]
    by_image = argsort_int(image, int(image.max(initial=0)) + 1)
    image, category = image[by_image], category[by_image]
    new = np.concatenate([[True], (image[1:] != image[:-1]) | (category[1:] != category[:-1])])[: len(rows)]
    first = np.flatnonzero(new)
    place = np.empty(len(matches.score), np.int64)
    place[rows[by_image]] = np.arange(len(rows)) - np.repeat(first, np.diff(np.append(first, len(rows))))
    return place


# --------------------------------------------------------------------------- curves and operating points


def _curves(
    matches: Matches, ranked: _Ranked, counted: _Counted, npos: Longs, classes: Sequence[str]
) -> dict[str, Curve]:
    if matches.protocol.metric in ("corloc", "top-k"):
        return {}
    true, false = counted.at_positives()
    recall = true / np.maximum(npos, 1)[counted.category]
    precision = true / (true + false)
    score = matches.score[ranked.rows[ranked.at[counted.positive]]]
    curves = {}
    for k in np.flatnonzero(npos > 0).tolist():
        own = slice(int(counted.starts[k]), int(counted.starts[k] + counted.tp[k]))
        curves[classes[k]] = Curve(recall[own], precision[own], score[own])
    return curves


def _operating_points(
    matches: Matches, ranked: _Ranked, counted: _Counted, npos: Longs, at_score: float | None
) -> list[dict[str, Any]]:
    """Score, precision, recall and F1 of every class, NaN without a true positive."""
    points: list[dict[str, Any]]
    points = [{"score": NAN, "precision": NAN, "recall": NAN, "f1": NAN} for _ in range(ranked.n_classes)]
    score = matches.score[ranked.rows]
    if at_score is not None:
        category = np.arange(ranked.n_classes)
        taken = np.concatenate([[0], np.cumsum(score >= at_score)])
        end = ranked.starts + taken[ranked.starts + ranked.counts] - taken[ranked.starts]
        where = np.full(ranked.n_classes, at_score)
    else:
        category = counted.category
        at = ranked.at[counted.positive]
        # All detections of one score are taken together.
        last = np.ones(len(score), np.bool_)
        last[:-1] = score[1:] != score[:-1]
        last[(ranked.starts + ranked.counts - 1)[ranked.counts > 0]] = True
        lasts = np.flatnonzero(last)
        end = lasts[np.searchsorted(lasts, at)] + 1
        where = score[at]
    true, false = counted.down_to(end, category)
    of = npos[category]
    some = (true > 0) & (of > 0)
    true, false, of, category, where = true[some], false[some], of[some], category[some], where[some]
    f1 = 2 * true / (true + false + of)
    if not len(f1):
        return points
    first = np.flatnonzero(np.concatenate([[True], category[1:] != category[:-1]]))
    best = np.maximum.reduceat(f1, first)
    equal = np.flatnonzero(f1 == np.repeat(best, np.diff(np.append(first, len(f1)))))
    chosen = equal[np.concatenate([[True], category[equal[1:]] != category[equal[:-1]]])]
    for i in chosen.tolist():
        points[category[i]] = {
            "score": float(where[i]),
            "precision": float(true[i] / (true[i] + false[i])),
            "recall": float(true[i] / of[i]),
            "f1": float(f1[i]),
        }
    return points


# ---------------------------------------------------------------------------------------------- summary


def _summary(matches: Matches, ap: Floats, recall: Floats) -> tuple[dict[str, float], dict[str, list[float]]]:
    rules = matches.protocol
    if rules.metric == "top-k":
        return _guess_errors(matches)
    if rules.metric == "corloc":
        found = _reference_found(matches)
        return {"CorLoc": _mean(_share(found, matches.npos[:, 0]))}, {}
    if rules.metric == "pooled":
        return {"AP": _pooled_ap(matches)}, {}
    if not rules.averaged:
        return {"mAP": _mean(ap[0, 0])}, {}
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
    undefined = np.full((len(rules.ious), len(rules.areas), 1), NAN)
    return _averages(rules, undefined, np.stack([undefined] * max(len(rules.caps), 1)), frequency)


def _averages(
    rules: Protocol, ap: Floats, recall: Floats, frequency: NDArray[np.str_] | None = None
) -> dict[str, float]:
    """The numbers of COCO; `ap` is (T, A, ...), `recall` (M, T, A, ...).

    With the frequency of each class, ``ap`` being (T, A, K), also those of LVIS.
    """

    def at(iou: float) -> float:
        near = np.flatnonzero(np.isclose(rules.ious, iou, rtol=0, atol=1e-9))
        return _mean(ap[near[0], 0]) if len(near) else NAN

    areas = {a.name: i for i, a in enumerate(rules.areas) if i}
    caps = {cap: i for i, cap in enumerate(rules.caps)}
    summary = {"AP": _mean(ap[:, 0]), "AP50": at(0.5), "AP75": at(0.75)}
    for letter, name in (("s", "small"), ("m", "medium"), ("l", "large")):
        summary[f"AP{letter}"] = _mean(ap[:, areas[name]]) if name in areas else NAN
    if rules.by_frequency and frequency is not None:
        for letter in FREQUENCIES:
            summary[f"AP{letter}"] = _mean(ap[:, 0, frequency == letter])
    for cap in sorted({*(() if rules.cap_of == "image" else (1, 10, 100)), *caps}):
        summary[f"AR{cap}"] = _mean(recall[caps[cap], :, 0]) if cap in caps else NAN
    for letter, name in (("s", "small"), ("m", "medium"), ("l", "large")):
        summary[f"AR{letter}"] = _mean(recall[-1, :, areas[name]]) if name in areas and caps else NAN
    return summary


def _extra(
    rules: Protocol, ap: Floats, recall: Floats, tp: int, npos: int, frequency: str
) -> dict[str, float | str | list[float]]:
    """What only some protocols say of a class."""
    if rules.metric == "corloc":
        return {"corloc": tp / npos if npos else NAN}
    if not rules.averaged:
        return {}
    numbers = _averages(rules, ap, recall)
    del numbers["AP"]
    more = {"frequency": frequency} if rules.by_frequency else {}
    return {**numbers, "ap_per_iou": ap[:, 0].tolist(), **more}


def _reference_found(matches: Matches) -> Longs:
    """(classes,) true positives at the reference threshold."""
    found = (matches.positive[:, 0] & np.uint64(1)) != 0
    return np.bincount(matches.category[matches.hit[found]], minlength=len(matches.classes))


def _guess_errors(matches: Matches) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Share of the images with ground truth where none of the first k guesses is right."""
    n_guesses = matches.protocol.max_dets or 0
    errors = {
        what: [
            float(np.mean(matches.guesses[:, column] >= k)) if len(matches.guesses) else NAN
            for k in range(1, n_guesses + 1)
        ]
        for column, what in enumerate(("cls", "loc"))
    }
    summary = {
        f"top{k}_{what}": errors[what][k - 1] if k <= n_guesses else NAN
        for what in ("cls", "loc")
        for k in (1, 5)
    }
    return summary, errors
