"""Overlaps of detections and ground truths of any class, from which kinds of errors are told apart."""

from __future__ import annotations

import msgspec
import numpy as np

from odm.evaluate.analysis.outcome_table import OutcomeTable
from odm.evaluate.matching.order import argsort_int, first_of_runs
from odm.evaluate.matching.prepare import prepare
from odm.evaluate.matching.shapes import iterate_pairs, measure_overlaps
from odm.evaluate.matching.sides import Joined, merge_classes, split_images
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
    """Measure the overlaps of `joined`, of which `table` is, in the geometry of the table's protocol."""
    rules = table.rules
    joined, _ = prepare(joined, rules)
    n_det, n_gt = len(table.score), len(table.truth)
    is_counting_truth, is_found = table.counting, table.is_found
    # The row of the table of each detection of the prepared sides.
    by_row = np.argsort(table.matches.row)
    table_rows = by_row[np.searchsorted(table.matches.row[by_row], joined.detections.row)]

    # What is measured, in rows of the table: the five columns `Best` of detections and the two of ground
    # truths, as `Overlaps` has them.
    best_truths = [Best(np.full(n_det, -1, np.int32), np.zeros(n_det)) for _ in range(5)]
    best_detections = [Best(np.full(n_gt, -1, np.int32), np.zeros(n_gt)) for _ in range(2)]
    same_any_iou, any_iou, ignored_cover = np.zeros(n_det), np.zeros(n_det), np.zeros(n_det)
    # Of detections with equal IoU, a ground truth takes the one of the lowest rank.
    rank = np.empty(n_det, np.int64)
    rank[table.order] = np.arange(n_det)

    # Some images at a time: `gt_start` and `det_start` are the positions of their first boxes in `joined`.
    for gt_start, det_start, chunk in split_images(joined):
        plain_rules = rules.without_groups  # IoU for all pairs: groups would be compared by IoA
        # All that overlap, whatever their classes: some at a time, and no detection comes twice.
        for pairs in iterate_pairs(merge_classes(chunk), plain_rules, 0.0):
            chunk_det, chunk_gt, iou = pairs.det, pairs.gt, pairs.iou
            is_same_class = chunk.detections.category[chunk_det] == chunk.truth.category[chunk_gt]
            det, gt = table_rows[chunk_det + det_start], chunk_gt + gt_start

            # The pairs in order of their detections, as `iterate_pairs` yields them.
            is_counting = is_counting_truth[gt]
            is_missed = is_counting & ~is_found[gt]
            masks = (  # of `same`, `other`, `matched`, `same_missed` and `other_missed`
                is_same_class & is_counting,
                ~is_same_class & is_counting,
                is_same_class & is_counting & ~is_missed,
                is_same_class & is_missed & (iou <= table.threshold),  # above it the place is right
                ~is_same_class & is_missed,
            )
            for best, mask in zip(best_truths, masks, strict=True):
                _update_best(best, det[mask], gt[mask], iou[mask])
            _update_highest(any_iou, det, iou)
            _update_highest(same_any_iou, det[is_same_class], iou[is_same_class])
            ignored_pairs = np.flatnonzero(~is_counting)
            _, cover = measure_overlaps(chunk, rules, chunk_det[ignored_pairs], chunk_gt[ignored_pairs])
            _update_highest(ignored_cover, det[ignored_pairs], cover)

            # The pairs in order of their ground truths.
            pairs_by_truth = argsort_int(gt, n_gt)
            for best, mask in zip(
                best_detections, (is_same_class[pairs_by_truth], ~is_same_class[pairs_by_truth]), strict=True
            ):
                rows = pairs_by_truth[mask]
                _update_best(best, gt[rows], det[rows], iou[rows], rank)
    same, other, matched, same_missed, other_missed = best_truths
    ious = same_any_iou, any_iou, ignored_cover
    return Overlaps(same, other, matched, same_missed, other_missed, *ious, *best_detections)


def _update_best(
    best: Best, box: Longs | Ints, partner: Longs | Ints, iou: Floats, rank: Longs | None = None
) -> None:
    """Write the partner of highest IoU of each box, the first of equals; equal `box` stand together.

    With the `rank` of all partners, the first is that of the lowest rank, and a box that has a partner
    already keeps it unless the new one is better: by IoU, then by rank.
    """
    box_starts = first_of_runs(box)
    if not len(box_starts):
        return
    # Each box's highest IoU beside all its rows; of the rows that reach it, the first of each box.
    n_partners = np.diff(np.append(box_starts, len(box)))
    tied_rows = np.flatnonzero(iou == np.repeat(np.maximum.reduceat(iou, box_starts), n_partners))
    if rank is not None:
        tied_rows = tied_rows[np.lexsort((rank[partner[tied_rows]], box[tied_rows]))]
    best_rows = tied_rows[first_of_runs(box[tied_rows])]
    if rank is not None:
        old_partner, old_iou = best.at[box[best_rows]], best.iou[box[best_rows]]
        is_better = (old_partner < 0) | (iou[best_rows] > old_iou)
        is_better |= (iou[best_rows] == old_iou) & (rank[partner[best_rows]] < rank[old_partner])
        best_rows = best_rows[is_better]
    best.at[box[best_rows]] = partner[best_rows]
    best.iou[box[best_rows]] = iou[best_rows]


def _update_highest(values: Floats, box: Longs | Ints, iou: Floats) -> None:
    """Write into `values` the highest IoU of each `box`, of which equal ones stand together.

    What a box had before is replaced.
    """
    starts = first_of_runs(box)
    if len(starts):
        values[box[starts]] = np.maximum.reduceat(iou, starts)
