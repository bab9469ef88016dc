"""Detection by detection down the precision-recall curve: what is counted up to each, and what that gives."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from odm.evaluate.matching.sides import Mask
from odm.evaluate.scores.outcomes import OUTCOMES, outcomes
from odm.evaluate.scores.ranking import pooled_rows, ranked_rows, rows_by_class
from odm.tables import Floats, Ints, Longs

if TYPE_CHECKING:
    from odm.evaluate.results import Result


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CurveTable:
    """A row per detection, by class and descending score; under ``tf-weighted`` all classes are one ranking.

    Outcomes are those at the IoU threshold that the curves are of. A detection that is ignored is neither a
    true nor a false positive, and changes no sum.
    """

    row: Ints
    """(n,) row in the detections' dataset."""
    image: Ints
    """(n,) number in `Joined.images`."""
    category: Ints
    """(n,) number in `Joined.classes`."""
    rank: Longs
    """(n,) position on its curve, from 1."""
    score: Floats
    tp: Mask
    fp: Mask
    accumulated_tp: Longs
    """(n,) true positives from the first of the curve down to this one."""
    accumulated_fp: Longs
    precision: Floats
    """(n,) NaN before the first true or false positive."""
    recall: Floats
    """(n,) NaN without ground truth that counts."""

    def __len__(self) -> int:
        return len(self.row)


def curve_table(result: Result) -> CurveTable:
    """The table of a result; empty under ``corloc`` and ``imagenet-loc``, which have no curve."""
    matches, metric = result.matches, result.rules.metric
    npos = matches.npos[:, 0]
    if metric == "pooled":
        rows = pooled_rows(matches)
        counts, npos = np.array([len(rows)]), npos.sum(keepdims=True)
    else:
        rows, counts = rows_by_class(matches, ranked_rows(matches))
    if metric in ("corloc", "top-k"):
        rows, counts = rows[:0], counts * 0
    starts = np.cumsum(counts) - counts
    outcome = outcomes(matches)[0][rows]
    tp, fp = outcome == OUTCOMES.index("TP"), outcome == OUTCOMES.index("FP")

    def accumulated(chosen: Mask) -> Longs:
        """How many are chosen down to each row, from the start of its curve."""
        total = np.concatenate([[0], np.cumsum(chosen)])
        sums: Longs = total[1:] - np.repeat(total[starts], counts)
        return sums

    true, false = accumulated(tp), accumulated(fp)
    of = np.repeat(npos, counts)
    return CurveTable(
        row=matches.row[rows],
        image=matches.image[rows],
        category=matches.category[rows],
        rank=np.arange(1, len(rows) + 1) - np.repeat(starts, counts),
        score=matches.score[rows],
        tp=tp,
        fp=fp,
        accumulated_tp=true,
        accumulated_fp=false,
        precision=_ratio(true, true + false),
        recall=_ratio(true, of),
    )


def _ratio(part: Longs, whole: Longs) -> Floats:
    """Part / whole, NaN where the whole is 0."""
    ratio: Floats = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return ratio
