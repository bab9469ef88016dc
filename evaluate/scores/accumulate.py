"""From matches to numbers: classes are counted in blocks that the processor's cache holds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from odm.evaluate.matching.matches import Matches
from odm.evaluate.results import Result, Row
from odm.evaluate.scores.curves import (
    Curve,
    OperatingPoint,
    PrecisionReader,
    class_curves,
    operating_points,
    read_classes,
    share,
    shared_points,
)
from odm.evaluate.scores.protocols import Protocol
from odm.evaluate.scores.ranking import BLOCK, Ranked, Weights, combinations, ranked_rows, rows_by_class
from odm.evaluate.scores.summary import class_numbers, mean_of_classes, summarize
from odm.tables import Floats, Longs

_SUMMED = ("gt", "gt_ignored", "det", "tp", "fp", "ignored")
"""Counts of classes that are added up in the row of all classes."""


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
    counted = count_classes(matches, at_score, order=order)
    if rules.shared_score:
        counted, overall_point = with_shared_points(counted, matches.npos[:, 0], at_score)
    else:
        together = next(Ranked.of(matches, order, np.array([len(order)])))()
        npos = matches.npos[:, :1].sum(axis=0)
        (overall_point,) = operating_points(matches, together, together.reference(rules), npos, at_score)
    return finish(matches, counted, overall_point, at_score)


def count_classes(
    matches: Matches,
    at_score: float | None,
    weights: Weights | None = None,
    order: Longs | None = None,
) -> ClassCounts:
    """The numbers of the classes of `matches`, which are those of all images.

    With `weights` there is one class, and its rows stand for several detections each. `order` are all rows
    as they rank, if that is known.
    """
    order = ranked_rows(matches) if order is None else order
    rows, counts = rows_by_class(matches, order)
    makers = Ranked.of(matches, rows, counts, BLOCK, weights)
    counted = ClassCounts.together([_count_classes(matches, at_score, m) for m in makers], matches.protocol)
    if matches.protocol.shared_score:
        counted = dataclasses.replace(counted, read=read_classes(matches, order, at_score, weights))
    return counted


def with_shared_points(
    counted: ClassCounts, npos: Longs, at_score: float | None
) -> tuple[ClassCounts, OperatingPoint]:
    """The numbers of all classes with the operating points at one score for all, and that of all together."""
    assert counted.read is not None
    points, overall_point = shared_points(counted.read, npos, at_score)
    return dataclasses.replace(counted, points=points), overall_point


def finish(
    matches: Matches, counted: ClassCounts, overall_point: OperatingPoint, at_score: float | None
) -> Result:
    """The result of what was counted for each class; of `matches` only the totals are looked at."""
    rules = matches.protocol
    summary, errors = summarize(matches, counted.ap, counted.recall, overall_point)
    rows = _class_rows(matches, counted)
    sums = {key: sum(getattr(row, key) for row in rows) for key in _SUMMED}
    ap = next(iter(summary.values())) if rules.metric in ("ap", "pooled") else math.nan
    overall = Row(name="", **sums, ap=ap, **overall_point)
    return Result(
        rules=rules,
        summary=summary,
        classes=rows,
        overall=overall,
        curves=counted.curves,
        errors=errors,
        dropped=dict(matches.dropped),
        matches=matches,
        at_score=at_score,
    )


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClassCounts:
    """The numbers of some classes; arrays end with the classes' axis."""

    ap: Floats
    """(thresholds, areas, classes)"""
    recall: Floats
    """(caps, thresholds, areas, classes)"""
    det: Longs
    tp: Longs
    fp: Longs
    points: list[OperatingPoint]
    curves: dict[str, Curve]
    read: Floats | None = None
    """(classes, 2, confidences) precision and recall, where all classes have one operating point."""

    @classmethod
    def together(cls, blocks: Sequence[ClassCounts], rules: Protocol) -> ClassCounts:
        """All classes; there may be none."""
        shape = len(rules.caps), len(rules.ious), len(rules.areas), 0
        no_counts = np.zeros(0, np.int64)
        read = [b.read for b in blocks if b.read is not None]
        return cls(
            ap=np.concatenate([np.zeros(shape[1:]), *(b.ap for b in blocks)], axis=-1),
            recall=np.concatenate([np.zeros(shape), *(b.recall for b in blocks)], axis=-1),
            det=np.concatenate([no_counts, *(b.det for b in blocks)]),
            tp=np.concatenate([no_counts, *(b.tp for b in blocks)]),
            fp=np.concatenate([no_counts, *(b.fp for b in blocks)]),
            points=[point for b in blocks for point in b.points],
            curves={name: curve for b in blocks for name, curve in b.curves.items()},
            read=np.concatenate(read) if read else None,
        )

    def ordered(self, order: Longs, names: Sequence[str]) -> ClassCounts:
        """The classes in another order, by their positions; `names` are those of the new order."""
        return ClassCounts(
            ap=self.ap[..., order],
            recall=self.recall[..., order],
            det=self.det[order],
            tp=self.tp[order],
            fp=self.fp[order],
            points=[self.points[i] for i in order.tolist()],
            curves={name: self.curves[name] for name in names if name in self.curves},
            read=None if self.read is None else self.read[order],
        )


def _class_rows(matches: Matches, counted: ClassCounts) -> tuple[Row, ...]:
    npos = matches.npos[:, 0]
    counts = npos, matches.gt_ignored, counted.det, counted.tp, counted.fp, mean_of_classes(counted.ap[:, 0])
    extra = class_numbers(matches, counted.ap, counted.recall, counted.tp)
    columns = zip(matches.classes, *(column.tolist() for column in counts), strict=True)
    return tuple(
        Row(
            name=name,
            gt=gt,
            gt_ignored=gt_ignored,
            det=det,
            tp=tp,
            fp=fp,
            ignored=det - tp - fp,
            ap=ap,
            **point,
            extra=own,
        )
        for (name, gt, gt_ignored, det, tp, fp, ap), point, own in zip(
            columns, counted.points, extra, strict=True
        )
    )


def _count_classes(matches: Matches, at_score: float | None, rank_block: Callable[[], Ranked]) -> ClassCounts:
    rules, ranked = matches.protocol, rank_block()
    own = slice(ranked.first_class, ranked.first_class + ranked.n_classes)
    npos = matches.npos[own]
    rank = matches.hit_rank[ranked.hits]
    shape = len(rules.ious), len(rules.areas), ranked.n_classes
    ap, recall = np.full(shape, np.nan), np.full((len(rules.caps), *shape), np.nan)
    for a in range(len(rules.areas)):
        unmatched = ranked.unmatched(a)
        reader = PrecisionReader(rules, npos[:, a])
        for w, t, bit in combinations(rules, a):
            counted = ranked.counted(w, bit, unmatched)
            if rules.metric == "ap":
                ap[t, a] = reader.average(counted)
            for m, cap in enumerate(rules.caps):
                found = counted.tp
                if cap != rules.max_dets:
                    found = counted.tp_among(rank[counted.positive] < cap)
                recall[m, t, a] = share(found, npos[:, a])
    reference = ranked.reference(rules)
    return ClassCounts(
        ap,
        recall,
        det=ranked.n_detections,
        tp=reference.tp,
        fp=reference.fp,
        points=operating_points(matches, ranked, reference, npos[:, 0], at_score),
        curves=class_curves(matches, ranked, reference, npos[:, 0], matches.classes[own]),
    )
