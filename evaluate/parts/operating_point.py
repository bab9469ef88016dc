"""The operating point of all classes together, of detections that are not in memory at once.

Each task counts its true and false positives by bins of scores. Only the bins in which the best F1 may lie
are then looked at detection by detection.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.matching.matches import Matches
from odm.evaluate.matching.order import first_of_runs
from odm.evaluate.matching.sides import Mask
from odm.evaluate.scores.curves import OperatingPoint
from odm.tables import Floats, Longs

N_BINS = 4096


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ScoreBins:
    """Scores from one of the `edges` up to, not with, the next; the first bin lies below all of them."""

    edges: Floats

    @classmethod
    def of(cls, quantiles: Sequence[Floats], at_score: float | None) -> ScoreBins:
        """Bins with about as many detections each, by the quantiles of parts; `at_score` begins one."""
        known = np.sort(np.concatenate([np.zeros(0), *quantiles]))
        edges = known[np.linspace(0, len(known) - 1, N_BINS + 1).astype(np.int64)] if len(known) else known
        return cls(np.unique(np.concatenate([edges, [] if at_score is None else [at_score]])))

    def bin_of(self, score: Floats) -> Longs:
        """(n,) the bin of each score."""
        bins: Longs = np.searchsorted(self.edges, score, side="right")
        return bins

    def tally(self, score: Floats, is_true: Mask, is_false: Mask) -> Longs:
        """(2, bins) how many true and false positives each bin has."""
        at, n = self.bin_of(score), len(self.edges) + 1
        return np.stack([np.bincount(at[some], minlength=n) for some in (is_true, is_false)])


def point_columns(matches: Matches, is_true: Mask, is_false: Mask) -> dict[str, NDArray[Any]]:
    """The scores of the detections that count, and which of them are true."""
    counts = is_true | is_false
    return {"score": matches.score[counts], "is_true": is_true[counts].astype(np.uint8)}


def at_given_score(bins: ScoreBins, tally: Longs, npos: int, at_score: float) -> OperatingPoint:
    """The operating point at a score that begins a bin."""
    first = int(np.searchsorted(bins.edges, at_score, side="left")) + 1
    tp, fp = (int(n) for n in tally[:, first:].sum(axis=1))
    return _point(at_score, tp, fp, npos) if tp and npos else UNDEFINED


def bins_of_best(tally: Longs, npos: int) -> Mask:
    """(bins,) in which the best F1 may lie: at best, a bin has its true positives before the false ones."""
    true, false = tally[:, ::-1]
    tp, fp = np.cumsum(true), np.cumsum(false)
    with np.errstate(invalid="ignore", divide="ignore"):
        reached = 2 * tp / (tp + fp + npos)
        bound = 2 * tp / (tp + (fp - false) + npos)
    best = reached[true > 0].max(initial=0.0)
    possible: Mask = ((bound >= best) & (true > 0))[::-1]
    return possible


def best_point(bins: ScoreBins, tally: Longs, score: Floats, is_true: Mask, npos: int) -> OperatingPoint:
    """The point of the best F1; `score` and `is_true` are the detections of the bins in which it may lie."""
    if not npos or not is_true.any():
        return UNDEFINED
    order = np.argsort(-score, kind="stable")
    score, is_true = score[order], is_true[order]
    at = bins.bin_of(score)
    above = np.cumsum(tally[:, ::-1], axis=1)[:, ::-1] - tally
    first = first_of_runs(at)
    counts = np.stack([np.cumsum(is_true), np.cumsum(~is_true)])
    before: Longs = counts[:, first] - np.stack([is_true[first], ~is_true[first]])
    run = np.cumsum(np.isin(np.arange(len(at)), first)) - 1
    tp, fp = counts - before[:, run] + above[:, at]
    same = first_of_runs(score)
    last = np.append(same[1:], len(score)) - 1
    some = last[np.add.reduceat(is_true, same, dtype=np.int64) > 0]
    f1 = 2 * tp[some] / (tp[some] + fp[some] + npos)
    i = some[int(np.argmax(f1))]
    return _point(float(score[i]), int(tp[i]), int(fp[i]), npos)


def _point(score: float, tp: int, fp: int, npos: int) -> OperatingPoint:
    counts = np.array([tp, fp, npos])  # whose quotients are those of the columns of one process
    return OperatingPoint(
        score=score,
        precision=float(counts[0] / (counts[0] + counts[1])),
        recall=float(counts[0] / counts[2]),
        f1=float(2 * counts[0] / counts.sum()),
    )


UNDEFINED = OperatingPoint(score=math.nan, precision=math.nan, recall=math.nan, f1=math.nan)
