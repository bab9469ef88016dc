"""Why a detection is wrong: the reasons of TIDE, and the confusion matrix. Computed only when asked for.

Reasons follow Bolya et al., "TIDE: A General Toolbox for Identifying Object Detection Errors" (2020), in
this order: localisation, class, duplicate, background, both.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.counting import Truth
from odm.evaluate.matches import Matches, threshold_bits, word_blocks
from odm.evaluate.order import first_of_runs
from odm.evaluate.pairs import Pairs, find_pairs
from odm.evaluate.prepare import prepare
from odm.evaluate.protocols import Protocol
from odm.evaluate.sides import Joined, Mask, SideTable
from odm.issues import UsageError
from odm.tables import Flag, Floats, Ints, Longs

OUTCOMES = ("TP", "FP", "ignored")
REASONS = ("localisation", "class", "duplicate", "background", "both")

BACKGROUND = 0.1
"""A detection that overlaps with no ground truth as much as this lies on the background."""

CONFUSION_SCORE = 0.25
"""The least score of a detection in the confusion matrix, unless one is given."""

AT_A_TIME = 2**20
"""Pairs of detections and ground truths of any class that are looked at together."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class DetectionTable:
    """A row per detection, in the order of the input; detections that were dropped before are not there."""

    images: tuple[str, ...]
    classes: tuple[str, ...]
    row: Ints
    """(n,) row in the detections' dataset."""
    image: Ints
    """(n,) number in ``images``."""
    category: Ints
    score: Floats
    xyxy: Floats
    best_iou: Floats
    """(n,) highest IoU with any ground truth of the same image and class, 0 where there is none."""
    gt: Ints
    """(n,) row in the ground truth's dataset that was matched, -1 = none."""
    outcome: NDArray[np.uint8]
    """(n,) number in `OUTCOMES`."""
    reason: NDArray[np.int8]
    """(n,) number in `REASONS` for false positives, -1 for the others."""


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


def collapsed(joined: Joined, name: str = "") -> Joined:
    """The same boxes as if all were of one class."""

    def one(side: SideTable) -> SideTable:
        return dataclasses.replace(side, category=np.zeros(len(side), np.int32))

    return dataclasses.replace(
        joined, classes=(name,), truth=one(joined.truth), detections=one(joined.detections)
    )


def parts(joined: Joined) -> Iterator[tuple[int, int, Joined]]:
    """Consecutive images of a bounded number of pairs: first ground truth, first detection, the sides."""
    n_images = len(joined.images)
    edges = np.arange(n_images + 1)
    gt_edge = np.searchsorted(joined.truth.image, edges)
    det_edge = np.searchsorted(joined.detections.image, edges)
    pairs = np.concatenate([[0], np.cumsum(np.diff(gt_edge) * np.diff(det_edge))])
    start = 0
    while start < n_images:
        stop = max(start + 1, int(np.searchsorted(pairs, pairs[start] + AT_A_TIME, side="right")) - 1)
        gt = slice(int(gt_edge[start]), int(gt_edge[stop]))
        det = slice(int(det_edge[start]), int(det_edge[stop]))
        part = dataclasses.replace(
            joined, truth=joined.truth.take(gt), detections=joined.detections.take(det)
        )
        yield gt.start, det.start, part
        start = stop


def _highest(pairs: Pairs, among: Mask, highest: Floats) -> None:
    """Write the highest IoU of each detection with the ground truths `among` its pairs into `highest`."""
    if len(pairs.det):
        first = first_of_runs(pairs.det)
        highest[pairs.det[first]] = np.maximum.reduceat(np.where(among, pairs.iou, 0), first)


def detection_table(joined: Joined, matches: Matches) -> DetectionTable:
    """What became of every detection of `joined`, under the protocol of `matches`."""
    rules = matches.protocol
    joined, _ = prepare(joined, rules)
    counts_as_nothing = _nothing(joined, rules)
    plain = dataclasses.replace(rules, crowd_flags=Flag(0), group_weight=None)
    n = len(joined.detections)
    same, same_counting, other_counting = np.zeros(n), np.zeros(n), np.zeros(n)
    for gt_start, det_start, part in parts(joined):
        own = slice(det_start, det_start + len(part.detections))
        for pairs in find_pairs(collapsed(part), plain, 0.0).pieces():
            of_class = part.detections.category[pairs.det] == part.truth.category[pairs.gt]
            counting = ~counts_as_nothing[pairs.gt + gt_start]
            _highest(pairs, of_class, same[own])
            _highest(pairs, of_class & counting, same_counting[own])
            _highest(pairs, ~of_class & counting, other_counting[own])

    # The matches may be of shards in any order; the input's rows tell which detection is which.
    by_row = np.argsort(joined.detections.row)
    of_matches = np.argsort(matches.row)
    outcome, gt = outcomes(matches)
    outcome, gt = outcome[of_matches], gt[of_matches]
    same, same_counting, other_counting = same[by_row], same_counting[by_row], other_counting[by_row]
    threshold = rules.ious[rules.reference]
    reason = np.select(
        [
            (same_counting >= BACKGROUND) & (same_counting < threshold),
            other_counting >= threshold,
            same_counting >= threshold,
            np.maximum(same_counting, other_counting) < BACKGROUND,
        ],
        [np.int8(0), np.int8(1), np.int8(2), np.int8(3)],
        np.int8(4),
    )
    side = joined.detections.take(by_row)
    return DetectionTable(
        images=joined.images,
        classes=joined.classes,
        row=side.row,
        image=side.image,
        category=side.category,
        score=side.score,
        xyxy=side.xyxy,
        best_iou=same,
        gt=gt,
        outcome=outcome,
        reason=np.where(outcome == OUTCOMES.index("FP"), reason, np.int8(-1)),
    )


def _nothing(joined: Joined, rules: Protocol) -> Mask:
    """(n,) ground truths that do not count as objects."""
    truth = Truth(joined, rules)
    nothing: Mask = truth.outside[0] | truth.group
    return nothing


def outcomes(matches: Matches) -> tuple[NDArray[np.uint8], Ints]:
    """(n,) the outcome at the reference threshold and the matched ground truth of every row."""
    rules = matches.protocol
    blocks = word_blocks(rules)
    w = next(i for i, block in enumerate(blocks) if rules.reference in block)
    bit = threshold_bits(blocks[w], 1, rules.reference)
    outcome = np.full(len(matches.score), OUTCOMES.index("FP"), np.uint8)
    if matches.fp_if_unmatched is not None:
        outcome[matches.fp_if_unmatched & np.uint8(1) == 0] = OUTCOMES.index("ignored")
    for words, what in ((matches.ignored, "ignored"), (matches.positive, "TP")):
        outcome[matches.hit[words[:, w] & bit != 0]] = OUTCOMES.index(what)
    gt = np.full(len(matches.score), -1, np.int32)
    gt[matches.hit] = matches.hit_gt
    return outcome, gt


def confusion(
    joined: Joined, rules: Protocol, *, score: float = CONFUSION_SCORE, iou: float = 0.5
) -> Confusion:
    """Which class was taken for which.

    Pairs of one image are taken one to one: those of one class first, then the others, each by falling
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
            f"confusion matrix at score {score} and IoU {iou}: give a finite score and an IoU in 0..1"
        )
    joined, _ = prepare(joined, rules)
    joined = joined.only(detections=joined.detections.score >= score)
    nothing = _nothing(joined, rules)
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
