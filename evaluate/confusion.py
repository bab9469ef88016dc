"""The confusion matrix: which class was taken for which."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import numpy as np

from odm.evaluate.any_class import collapsed, parts
from odm.evaluate.counting import Truth
from odm.evaluate.pairs import find_pairs
from odm.evaluate.prepare import prepare
from odm.evaluate.protocols import Protocol
from odm.evaluate.sides import Joined, Mask
from odm.issues import UsageError
from odm.tables import Floats, Ints, Longs

Of = Literal["gt", "det"]

CONFUSION_SCORE = 0.25
"""The least score of a detection in the confusion matrix, unless one is given."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Confusion:
    """How often ground truth of one class was found as another.

    ``counts`` is (classes + 1, classes + 1): a row per class of the ground truth and a last one for the
    background (false positives), a column per class of the detections and a last one for what was missed.
    """

    classes: tuple[str, ...]
    counts: Longs
    score: float
    iou: float

    def shares(self, of: Of) -> Floats:
        """The counts divided by the sum of their row (``gt``) or column (``det``); NaN where it is 0."""
        sums = self.counts.sum(axis=1 if of == "gt" else 0, keepdims=True)
        shares: Floats = np.divide(
            self.counts,
            sums,
            out=np.full(self.counts.shape, np.nan),
            where=np.broadcast_to(sums > 0, self.counts.shape),
        )
        return shares

    def to_dict(self, of: Of | None = None) -> dict[str, Any]:
        """The matrix as plain data: counts, and beside them shares `of` one side, None where undefined.

        Rows are classes of the ground truth, columns those of the detections; the last of each is the
        background.
        """
        data = {
            "score": self.score,
            "iou": self.iou,
            "classes": list(self.classes),
            "counts": self.counts.tolist(),
        }
        if of is not None:
            shares = self.shares(of).tolist()
            data["shares_of"] = of
            data["shares"] = [[None if math.isnan(v) else v for v in row] for row in shares]
        return data


def counts_as_nothing(joined: Joined, rules: Protocol) -> Mask:
    """(n,) ground truths that do not count as objects."""
    truth = Truth(joined, rules)
    nothing: Mask = truth.outside[0] | truth.group
    return nothing


def confusion(
    joined: Joined, rules: Protocol, *, score: float = CONFUSION_SCORE, iou: float = 0.5
) -> Confusion:
    """Which class was taken for which.

    Pairs of one image are taken one to one: those of one class first, then the others, by descending
    IoU. Ground truths that count as nothing are left out, and so are the detections that lie on them.

    Parameters
    ----------
    joined
        Both sides.
    rules
        The protocol that says how boxes are measured and what is ignored.
    score, iou
        The least score of a detection and IoU of a pair.

    Raises
    ------
    UsageError
        If a value is out of range.
    """
    if not math.isfinite(score) or not 0 < iou <= 1:
        raise UsageError(
            f"confusion matrix at score {score} and IoU {iou}: expected a finite score and an IoU in 0..1"
        )
    joined, _ = prepare(joined, rules)
    joined = joined.only(detections=joined.detections.score >= score)
    nothing = counts_as_nothing(joined, rules)
    n = len(joined.classes)
    counts = np.zeros((n + 1, n + 1), np.int64)
    for gt_start, _, part in parts(joined):
        void = nothing[gt_start : gt_start + len(part.truth)]
        on_void = np.zeros(len(part.detections), np.bool_)
        found = []
        for pairs in find_pairs(collapsed(part), rules, iou).pieces():
            reaches = pairs.iou if pairs.ioa is None else np.maximum(pairs.iou, pairs.ioa)
            on_void[pairs.det[void[pairs.gt] & (reaches >= iou)]] = True
            kept = ~void[pairs.gt] & (pairs.iou >= iou)
            found.append((pairs.det[kept], pairs.gt[kept], pairs.iou[kept]))
        det, gt, overlap = (np.concatenate([f[i] for f in found]) for i in range(3))
        det_class, gt_class = part.detections.category, part.truth.category
        order = np.lexsort((gt, np.arange(len(det)), -overlap, det_class[det] != gt_class[gt]))
        det, gt = one_to_one(det[order], gt[order])
        np.add.at(counts, (gt_class[gt], det_class[det]), 1)
        alone = ~on_void
        alone[det] = False
        counts[n, :n] += np.bincount(det_class[alone], minlength=n)
        missed = ~void
        missed[gt] = False
        counts[:n, n] += np.bincount(gt_class[missed], minlength=n)
    return Confusion(joined.classes, counts, score, iou)


def one_to_one(det: Ints, gt: Ints) -> tuple[Ints, Ints]:
    """Pairs taken greedily from the first on, each detection and ground truth once.

    All pairs that come first for both their sides are taken at once, which gives the same.
    """
    taken: list[tuple[Ints, Ints]] = []
    while len(det):
        chosen = np.zeros(len(det), np.int8)
        for side in (det, gt):
            chosen[np.unique(side, return_index=True)[1]] += 1
        first = chosen == 2
        taken.append((det[first], gt[first]))
        left = ~(np.isin(det, det[first]) | np.isin(gt, gt[first]))
        det, gt = det[left], gt[left]
    if not taken:
        return det, gt
    return np.concatenate([d for d, _ in taken]), np.concatenate([g for _, g in taken])
