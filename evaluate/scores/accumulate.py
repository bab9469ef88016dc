"""From matches to numbers: classes are counted in blocks that the processor's cache holds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from odm.evaluate.matching.matches import Matches
from odm.evaluate.results import Result, Row
from odm.evaluate.scores.curves import (
    UNDEFINED,
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
    overall_point = UNDEFINED
    if not rules.shared_score:
        (together,) = Ranked.of(matches, order, np.array([len(order)]))
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
    blocks = [
        _count_classes(matches, at_score, ranked)
        for ranked in Ranked.of(matches, rows, counts, BLOCK, weights)
    ]
    counted = ClassCounts.together(blocks, matches.protocol)
    if matches.protocol.shared_score:
        counted = dataclasses.replace(counted, read=read_classes(matches, order, at_score, weights))
    return counted


def finish(
    matches: Matches, counted: ClassCounts, overall_point: OperatingPoint, at_score: float | None
) -> Result:
    """The result of what was counted for each class; of `matches` only the totals are looked at.

    Where all classes have one operating point, it is found here, and `overall_point` is not looked at.
    """
    rules, npos, points = matches.protocol, matches.npos[:, 0], counted.points
    if counted.read is not None:
        points, overall_point = shared_points(counted.read, npos, at_score)
    summary, errors = summarize(matches, counted.ap, counted.recall, overall_point)
    counts = npos, matches.gt_ignored, counted.det, counted.tp, counted.fp, mean_of_classes(counted.ap[:, 0])
    columns = zip(*(column.tolist() for column in counts), strict=True)
    own = class_numbers(matches, counted.ap, counted.recall, counted.tp)
    rows = tuple(
        Row(name, gt, gt_ignored, det, tp, fp, ignored=det - tp - fp, ap=ap, **point, extra=extra)
        for name, (gt, gt_ignored, det, tp, fp, ap), point, extra in zip(
            matches.classes, columns, points, own, strict=True
        )
    )
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
        dropped={what: n for what, n in matches.dropped if n},
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
        shape, no_counts = (len(rules.ious), len(rules.areas), 0), np.zeros(0, np.int64)
        none = np.zeros(shape), np.zeros((len(rules.caps), *shape)), *[no_counts] * 3
        arrays = {
            name: np.concatenate([empty, *(getattr(b, name) for b in blocks)], axis=-1)
            for name, empty in zip(_ARRAYS, none, strict=True)
        }
        read = [b.read for b in blocks if b.read is not None]
        return cls(
            **arrays,
            points=[point for b in blocks for point in b.points],
            curves={name: curve for b in blocks for name, curve in b.curves.items()},
            read=np.concatenate(read) if read else None,
        )

    def ordered(self, order: Longs, names: Sequence[str]) -> ClassCounts:
        """The classes in another order, by their positions; `names` are those of the new order."""
        return ClassCounts(
            **{name: getattr(self, name)[..., order] for name in _ARRAYS},
            points=[self.points[i] for i in order.tolist()],
            curves={name: self.curves[name] for name in names if name in self.curves},
            read=None if self.read is None else self.read[order],
        )


_ARRAYS = ("ap", "recall", "det", "tp", "fp")


def _count_classes(matches: Matches, at_score: float | None, ranked: Ranked) -> ClassCounts:
    rules = matches.protocol
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
                    within = np.append(rank[counted.positive] < cap, False)
                    found = np.add.reduceat(within, counted.starts, dtype=np.int64)
                    found[counted.tp == 0] = 0  # an empty stretch is answered with what follows it
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
