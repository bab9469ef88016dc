"""From matches to numbers: the classes in blocks, by several processes if there are many hits."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from odm.evaluate.curves import Curve, PrecisionReader, class_curves, operating_points
from odm.evaluate.matches import Matches
from odm.evaluate.protocols import Protocol
from odm.evaluate.ranking import BLOCK, Ranked, combinations, ranked_rows, rows_by_class
from odm.evaluate.results import Result, Row
from odm.evaluate.summary import class_numbers, mean_of_defined, share, summarize
from odm.parallel import in_order, worker_count
from odm.tables import Floats, Longs

WORTH_SHARING = 2**14
"""Hits that are worth another process; making one takes a few milliseconds."""


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
    order = ranked_rows(matches)
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
    summary, errors = summarize(matches, ap, recall)
    rows = tuple(
        Row(
            name=name,
            gt=int(npos[k, 0]),
            gt_ignored=int(matches.gt_ignored[k]),
            det=int(det[k]),
            tp=int(tp[k]),
            fp=int(fp[k]),
            ignored=int(det[k] - tp[k] - fp[k]),
            ap=mean_of_defined(ap[:, 0, k]),
            **points[k],
            extra=class_numbers(
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
        ap=next(iter(summary.values())) if has_ap or rules.metric == "pooled" else math.nan,
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
    rows, counts = rows_by_class(matches, order)
    n_hits = len(matches.hit)
    worth = n_hits >= WORTH_SHARING
    makers = Ranked.of(
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
    together = next(Ranked.of(matches, order, np.array([len(order)])))()
    npos = matches.npos[:, :1].sum(axis=0)
    return operating_points(matches, together, together.reference(matches.protocol), npos, at_score)


def _count(matches: Matches, at_score: float | None, rank_block: Callable[[], Ranked]) -> _Block:
    rules, ranked = matches.protocol, rank_block()
    own = slice(ranked.first_class, ranked.first_class + ranked.n_classes)
    npos = matches.npos[own]
    rank = matches.hit_rank[ranked.hits]
    shape = len(rules.ious), len(rules.areas), ranked.n_classes
    ap, recall = np.full(shape, np.nan), np.full((len(rules.caps), *shape), np.nan)
    for a in range(len(rules.areas)):
        unmatched = ranked.unmatched(a)
        reading = PrecisionReader(rules, npos[:, a])
        for w, t, bit in combinations(rules, a):
            counted = ranked.counted(w, bit, unmatched)
            if rules.metric == "ap":
                ap[t, a] = reading.average(counted)
            for m, cap in enumerate(rules.caps):
                found = counted.tp
                if cap != rules.max_dets:
                    found = counted.tp_among(rank[counted.positive] < cap)
                recall[m, t, a] = share(found, npos[:, a])
    reference = ranked.reference(rules)
    return _Block(
        ap,
        recall,
        det=ranked.counts,
        tp=reference.tp,
        fp=reference.fp,
        points=operating_points(matches, ranked, reference, npos[:, 0], at_score),
        curves=class_curves(matches, ranked, reference, npos[:, 0], matches.classes[own]),
    )
