"""Overlaps of detections and ground truths of any class, from which kinds of errors are told apart."""

from __future__ import annotations

import msgspec
import numpy as np

from odm.evaluate.analysis.outcome_table import OutcomeTable
from odm.evaluate.matching.order import argsort_int, first_of_runs
from odm.evaluate.matching.prepare import prepare
from odm.evaluate.matching.shapes import overlap, pieces_of
from odm.evaluate.matching.sides import Joined, collapsed, parts
from odm.tables import Floats, Ints, Longs

BACKGROUND = 0.1
"""A detection whose IoU with every ground truth is at most this lies on the background."""

SUSPICION = 0.5
"""The least suspicion of a label that is listed for review."""


class Best(msgspec.Struct, frozen=True, eq=False):
    """The best partner of each box: ``at`` (n,) its position, -1 = none, and ``iou`` (n,), 0 without."""

    at: Ints
    iou: Floats


class Overlaps(msgspec.Struct, frozen=True, eq=False):
    """The best overlaps of the boxes of a `odm.evaluate.analysis.table.Table`, row by row.

    Of ground truths with equal IoU the first is taken, of detections the one that ranks higher.
    """

    same: Best
    """Of each detection: the counting ground truth of its class."""
    other: Best
    """Of each detection: the counting ground truth of another class."""
    matched: Best
    """Of each detection: the counting ground truth of its class that a true positive took."""
    same_missed: Best
    """Of each detection: the missed ground truth of its class, among those with IoU up to the threshold."""
    other_missed: Best
    """Of each detection: the missed ground truth of another class."""
    same_any_iou: Floats
    """(n,) highest IoU with any ground truth of the same class, ignored ones included."""
    any_iou: Floats
    """(n,) highest IoU with any ground truth, ignored ones included."""
    ignored_cover: Floats
    """(n,) the highest share of a detection that lies in one ignored ground truth."""
    truth_same: Best
    """Of each ground truth: the detection of its class."""
    truth_other: Best
    """Of each ground truth: the detection of another class."""


def overlaps_of(joined: Joined, table: OutcomeTable) -> Overlaps:
    """Measure the overlaps of both sides, in the geometry of the table's protocol.

    Parameters
    ----------
    joined
        What the table was made from, or its shard.
    table
        Its table.
    """
    rules = table.rules
    joined, _ = prepare(joined, rules)
    n, g = len(table.score), len(table.truth)
    counting, is_found = table.counting, table.is_found
    # The row of the table of each detection of the prepared sides.
    by_row = np.argsort(table.matches.row)
    table_rows = by_row[np.searchsorted(table.matches.row[by_row], joined.detections.row)]
    details = [Best(np.full(n, -1, np.int32), np.zeros(n)) for _ in range(5)]
    of_truth = [Best(np.full(g, -1, np.int32), np.zeros(g)) for _ in range(2)]
    same_any_iou, any_iou, cover = np.zeros(n), np.zeros(n), np.zeros(n)
    rank = np.empty(n, np.int64)
    rank[table.order] = np.arange(n)
    for gt_start, det_start, part in parts(joined):
        plain = rules.without_groups
        # All that overlap, whatever their classes: some at a time, and no detection comes twice.
        for pairs in pieces_of(collapsed(part), plain, 0.0):
            near, near_gt, iou = pairs.det, pairs.gt, pairs.iou
            of_class = part.detections.category[near] == part.truth.category[near_gt]
            det, gt = table_rows[near + det_start], near_gt + gt_start
            counts = counting[gt]
            missed = counts & ~is_found[gt]
            masks = (
                of_class & counts,
                ~of_class & counts,
                of_class & counts & ~missed,
                of_class & missed & (iou <= table.threshold),
                ~of_class & missed,
            )
            for best, mask in zip(details, masks, strict=True):
                _best(best, det[mask], gt[mask], iou[mask])
            _highest(any_iou, det, iou)
            _highest(same_any_iou, det[of_class], iou[of_class])
            void = np.flatnonzero(~counts)
            _highest(cover, det[void], overlap(part, rules, near[void], near_gt[void])[1])
            by_truth = argsort_int(gt, g)
            for best, mask in zip(of_truth, (of_class[by_truth], ~of_class[by_truth]), strict=True):
                rows = by_truth[mask]
                _best(best, gt[rows], det[rows], iou[rows], rank)
    same, other, matched, same_missed, other_missed = details
    ious = same_any_iou, any_iou, cover
    return Overlaps(same, other, matched, same_missed, other_missed, *ious, *of_truth)


def _best(
    best: Best, of: Longs | Ints, partner: Longs | Ints, iou: Floats, rank: Longs | None = None
) -> None:
    """Write the partner of highest IoU of each box, the first of equals; equal `of` stand together.

    With the `rank` of all partners, the first is that of the lowest rank, and a box that has a partner
    already keeps it unless the new one is better: by IoU, then by rank.
    """
    first = first_of_runs(of)
    if not len(first):
        return
    # Each box's highest IoU beside all its rows; of the rows that reach it, the first of each box.
    n = np.diff(np.append(first, len(of)))
    equal = np.flatnonzero(iou == np.repeat(np.maximum.reduceat(iou, first), n))
    if rank is not None:
        equal = equal[np.lexsort((rank[partner[equal]], of[equal]))]
    chosen = equal[first_of_runs(of[equal])]
    if rank is not None:
        old_partner, old_iou = best.at[of[chosen]], best.iou[of[chosen]]
        better = (old_partner < 0) | (iou[chosen] > old_iou)
        better |= (iou[chosen] == old_iou) & (rank[partner[chosen]] < rank[old_partner])
        chosen = chosen[better]
    best.at[of[chosen]] = partner[chosen]
    best.iou[of[chosen]] = iou[chosen]


def _highest(values: Floats, of: Longs | Ints, iou: Floats) -> None:
    first = first_of_runs(of)
    if len(first):
        values[of[first]] = np.maximum.reduceat(iou, first)
