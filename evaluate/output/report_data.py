"""Compute the data of a report page: outcomes by class and score, misses, confusion at each score.

A report has a score slider. Its positions are `ReportData.levels`: k / 100 for scores in 0..1, and the score
of the operating point. All counts here are of ``score >= level``, so a position shows what ``at_score`` with
that level gives. Dropping low scores changes no earlier match, so counts by level follow from one matching;
the pairs of the confusion matrix are made again at every level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.evaluate.analysis.errors import DetectionTable
from odm.evaluate.analysis.overlaps import BACKGROUND as BACKGROUND  # noqa: PLC0414 -- part of the page
from odm.evaluate.analysis.overlaps import SUSPICION as SUSPICION  # noqa: PLC0414 -- part of the page
from odm.evaluate.matching.confusion import Counts as Counts  # noqa: PLC0414 -- part of `ReportData`
from odm.evaluate.matching.confusion import count_keys, counts_as_nothing, find_overlapping
from odm.evaluate.matching.matches import OUTCOMES, REASONS
from odm.evaluate.matching.order import first_of_runs, match_one_to_one
from odm.evaluate.matching.prepare import prepare
from odm.evaluate.matching.sides import Joined, Mask, split_images
from odm.evaluate.output.report_ious import AtIou, find_outcome_kinds
from odm.evaluate.scores.protocols import Protocol
from odm.evaluate.scores.set_ups import AreaBits
from odm.masks.runs import expand_ranges, split_by_size
from odm.tables import Floats, Ints, Longs

KINDS = (OUTCOMES[0], *REASONS, OUTCOMES[2])
"""What a detection can be: a true positive, a false positive of some reason, or ignored."""

MISSES = ("assigned", "class", "localisation", "undetected")
"""Why an object was never found: every detection that reaches the threshold went to another object; only
detections of other classes reach it; one of its class overlaps, but too little; none of these."""

SIDES = (16, 32, 48, 64, 96, 128, 192, 256)
"""Bounds of the groups of sizes: the side of a square of the same area, in pixels."""

CONFUSION_IOU = 0.5
"""IoU from which on a detection and an object are paired in the confusion matrix."""

AT_ONCE = 2**20
"""Pairs that are chosen from at once."""

POSITIONS = 100
"""The most steps that a score slider has."""


class TruthTable(msgspec.Struct, frozen=True, eq=False):
    """A row per ground truth box, by image; where a class hierarchy is applied also for every ancestor."""

    row: Ints
    """(n,) row in the ground truth's dataset."""
    image: Ints
    category: Ints
    xyxy: Floats
    counts: Mask
    """(n,) whether it is an object to be found. Where a class counts once per image (corloc, imagenet-loc)
    this is one box per image and class: the one that was hit, else the first."""
    found_by: Ints
    """(n,) row in the `DetectionTable` of the true positive that it was matched with, -1 = none. This column
    alone is of the IoU of `ReportData.with_iou`; ``score`` and ``miss`` stay those of the protocol."""
    score: Floats
    """(n,) the score of that detection, so the highest score from which on it is found; NaN = never."""
    same_iou: Floats
    """(n,) highest IoU with a detection of its class; 0 if below `BACKGROUND`."""
    other_iou: Floats
    """(n,) the same with detections of other classes."""
    miss: NDArray[np.int8]
    """(n,) number in `MISSES` for objects that are never found, -1 for the others."""

    def __len__(self) -> int:
        return len(self.row)


class Pairing(msgspec.Struct, frozen=True, eq=False):
    """The detections and objects that the confusion matrix pairs, in the order in which pairs are taken.

    ``det`` and ``gt`` (n,) are rows of the two tables. At any score the pairs of what is left are gone
    through once, and each takes both its sides if both are free.
    """

    det: Ints
    gt: Ints
    spared: Mask
    """(detections,) which overlap an ignored box: unmatched, they are not false positives."""
    eligible: Mask
    """(ground truths,) which are in the matrix."""


class ReportData(msgspec.Struct, frozen=True, eq=False):
    """The data of a report page of one result, as `report_data` returns it.

    Attributes
    ----------
    levels
        (L,) rising scores, the positions of a slider: k / 100 for scores in 0..1, else round numbers that
        span all scores; and `best_score`.
    level
        (detections,) the highest level that a detection's score reaches.
    outcomes
        Detections by class, number in `KINDS` and `level`; (classes, kinds, L).
    objects
        Objects by class, group of `SIDES` and 1 + the level from which on they are found, 0 = never;
        (classes, sizes, 1 + L).
    confusion
        The confusion matrix at every level: (L, classes + 1, classes + 1), as `Confusion.counts`.
    best_score
        That of the operating point of all classes; NaN where there is none.
    """

    classes: tuple[str, ...]
    images: tuple[str, ...]
    levels: Floats
    detections: DetectionTable
    kind: NDArray[np.int8]
    """(detections,) number in `KINDS`."""
    level: Longs
    truth: TruthTable
    outcomes: Counts
    objects: Counts
    pairing: Pairing
    confusion: Counts
    best_score: float

    def level_of(self, score: float) -> int:
        """Return the highest level that a score reaches; the lowest if it reaches none."""
        return max(0, int(np.searchsorted(self.levels, score, side="right")) - 1)

    @property
    def best(self) -> int:
        """The level of the operating point of all classes, a position in `levels`."""
        return 0 if math.isnan(self.best_score) else self.level_of(self.best_score)

    def is_found_at(self, level: int) -> Mask:
        """Return (ground truths,) whether a detection of at least a level finds each."""
        det_row = self.truth.found_by
        is_found: Mask = det_row >= 0
        if len(self.level):  # a row of -1 reads the last level, but is not found anyway
            is_found &= self.level[det_row] >= level
        return is_found

    def find_errors(self, level: int) -> tuple[Longs, Longs, Longs]:
        """Return the errors at a level, where detections below it are left out.

        These are the rows of false positives in `detections`, the rows of missed objects in `truth`, and
        (images,) how many of both each image has.
        """
        n = len(self.images)
        is_false = (self.kind > 0) & (self.kind < len(KINDS) - 1)  # between true positives and ignored ones
        false_rows = np.flatnonzero(is_false & (self.level >= level))
        missed_rows = np.flatnonzero(self.truth.counts & ~self.is_found_at(level))
        n_false = np.bincount(self.detections.image[false_rows], minlength=n)
        n_missed = np.bincount(self.truth.image[missed_rows], minlength=n)
        return false_rows, missed_rows, n_false + n_missed

    @property
    def wrong_images(self) -> list[int]:
        """Return L numbers: how many images have a false positive or a missed object at each level."""
        n_levels, detections, truth = len(self.levels), self.detections, self.truth
        # An image is wrong up to its surest false positive, and above the level that finds all its objects.
        is_false = (self.kind > 0) & (self.kind < len(KINDS) - 1)  # between true positives and ignored ones
        last_false = np.full(len(self.images), -1, np.int64)
        np.maximum.at(last_false, detections.image[is_false], self.level[is_false])
        # The level up to which each object is found; the row -1 reads the last level, which is replaced.
        det_row = truth.found_by[truth.counts]
        last_level_of_object = np.where(det_row >= 0, self.level[det_row] if len(self.level) else -1, -1)
        last_all_found = np.full(len(self.images), n_levels, np.int64)
        np.minimum.at(last_all_found, truth.image[truth.counts], last_level_of_object)
        # Right are the levels after last_false up to last_all_found: +1 where they begin, -1 after them.
        right_steps = np.zeros(n_levels + 1, np.int64)
        has_right_levels = last_false < last_all_found
        np.add.at(right_steps, last_false[has_right_levels] + 1, 1)
        np.add.at(right_steps, np.minimum(last_all_found[has_right_levels] + 1, n_levels), -1)
        return (len(self.images) - np.cumsum(right_steps)[:n_levels]).tolist()  # type: ignore[no-any-return]

    def with_iou(self, iou: AtIou) -> ReportData:
        """Return the data under another IoU threshold; the confusion matrix stays that of `CONFUSION_IOU`."""
        truth = replace(self.truth, found_by=iou.found_by)
        n_classes, n_levels = len(self.classes), len(self.levels)
        shape = n_classes, len(KINDS), n_levels
        return replace(
            self,
            kind=iou.kind,
            truth=truth,
            outcomes=Counts.from_columns(shape, self.detections.category, iou.kind, self.level),
            objects=_count_objects(truth, self.level, n_classes, n_levels),
        )


def report_data(joined: Joined, rules: Protocol, table: DetectionTable, best_score: float) -> ReportData:
    """Compute what a report shows of a result, for all images and every score of a slider.

    `best_score` is that of the operating point of all classes together.
    """
    joined, _ = prepare(joined, rules)
    levels = np.union1d(choose_score_levels(table.score), [] if math.isnan(best_score) else [best_score])
    level = np.maximum(np.searchsorted(levels, table.score, side="right") - 1, 0)
    kind = find_outcome_kinds(table.outcome, table.reason)
    truth = _make_truth_table(rules, table)
    n_classes, n_levels = len(table.classes), len(levels)
    pairing = _pair_boxes(joined, rules)
    return ReportData(
        classes=table.classes,
        images=table.images,
        levels=levels,
        detections=table,
        kind=kind,
        level=level,
        truth=truth,
        outcomes=Counts.from_columns((n_classes, len(KINDS), n_levels), table.category, kind, level),
        objects=_count_objects(truth, level, n_classes, n_levels),
        pairing=pairing,
        confusion=_compute_confusions(table, truth, pairing, level, n_levels),
        best_score=best_score,
    )


def _count_objects(truth: TruthTable, level: Longs, n_classes: int, n_levels: int) -> Counts:
    """Count the objects by class, size and the number of levels at which they are hit.

    An object that a detection of level 4 hits is hit at the levels 0 to 4, which are 5; one never hit, at 0.
    `level` (detections,) is that of each detection.
    """
    side = np.sqrt(np.maximum(0.0, np.prod(truth.xyxy[:, 2:] - truth.xyxy[:, :2], axis=1)))
    size = np.searchsorted(SIDES, side, side="right")
    n_levels_hit = np.where(truth.found_by >= 0, 1 + level[truth.found_by] if len(level) else 0, 0)
    is_counted = truth.counts
    shape = n_classes, len(SIDES) + 1, 1 + n_levels
    return Counts.from_columns(shape, truth.category[is_counted], size[is_counted], n_levels_hit[is_counted])


def choose_score_levels(score: Floats) -> Floats:
    """Choose (L,) the scores at which a slider stops.

    k / 100 if all lie in 0..1, else the multiples of 1, 2 or 5 times a power of ten that span them in at
    most `POSITIONS` steps. Each is the number that its shortest decimal text means.
    """
    if not len(score) or (score.min() >= 0 and score.max() <= 1):
        return np.arange(POSITIONS + 1) / POSITIONS
    low, high = float(score.min()), float(score.max())
    # At least a hundredth of the span, enough to tell two floats apart, and not 0, which has no logarithm.
    step_min = max((high - low) / POSITIONS, abs(high) * 1e-12, abs(low) * 1e-12, 1e-300)
    power = math.floor(math.log10(step_min))
    for exponent in (power, power + 1):
        for digit in (1, 2, 5):
            unit = 10.0**exponent * digit
            first_multiple, last_multiple = math.floor(low / unit), math.ceil(high / unit)
            if last_multiple - first_multiple <= POSITIONS:
                texts = [f"{k * digit}e{exponent}" for k in range(first_multiple, last_multiple + 1)]
                return np.array([float(text) for text in texts])
    return np.linspace(low, high, POSITIONS + 1)  # not reached: a power of ten above `step_min` fits


# --------------------------------------------------------------------------------------------- the misses


def _make_truth_table(rules: Protocol, table: DetectionTable) -> TruthTable:
    """Return the ground truth boxes, with the detection that hits each, and why the others are missed.

    Under ``corloc`` and ``top-k`` only one box of each image and class counts.
    """
    side = table.truth
    counts = (side.counts & AreaBits(1)) != 0  # bit 0 is the first area range

    # The true positive that each was matched with, and its score.
    hits = np.flatnonzero((table.outcome == OUTCOMES.index("TP")) & (table.at >= 0))
    found_by = np.full(len(side), -1, np.int32)
    found_by[table.at[hits]] = hits
    is_found = found_by >= 0
    if rules.metric in ("corloc", "top-k"):
        # One box of every image and class: the one that was hit, else the first.
        order = np.lexsort((~is_found, side.category, side.image))
        counts = np.zeros(len(side), np.bool_)
        counts[order[first_of_runs(side.image[order], side.category[order])]] = True
    score = np.full(len(side), np.nan)
    score[is_found] = table.score[found_by[is_found]]

    # Why it is missed, a number in `MISSES`: the first condition that holds.
    same_iou, other_iou = (np.where(iou >= BACKGROUND, iou, 0.0) for iou in table.truth_ious)
    threshold = rules.ious[rules.reference]
    miss = np.select(
        [same_iou >= threshold, other_iou >= threshold, same_iou >= BACKGROUND],
        [np.int8(0), np.int8(1), np.int8(2)],
        np.int8(3),
    )
    return TruthTable(
        row=side.row,
        image=side.image,
        category=side.category,
        xyxy=side.xyxy,
        counts=counts,
        found_by=found_by,
        score=score,
        same_iou=same_iou,
        other_iou=other_iou,
        miss=np.where(counts & ~is_found, miss, np.int8(-1)),
    )


# ------------------------------------------------------------------------------------------- the confusion


def _pair_boxes(joined: Joined, rules: Protocol) -> Pairing:
    """Return the pairs of the confusion matrix, as `odm.evaluate.matching.confusion` defines them."""
    is_void = counts_as_nothing(joined, rules)
    # Of each prepared detection its row in the table, which is sorted by the row in the dataset.
    table_row = np.empty(len(joined.detections), np.int32)
    table_row[np.argsort(joined.detections.row)] = np.arange(len(joined.detections), dtype=np.int32)
    is_spared = np.zeros(len(joined.detections), np.bool_)
    dets, gts = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for gt_start, det_start, shard in split_images(joined):
        # Positions in the shard: `det` and `gt` of pairs, `on_void` of detections on an ignored box.
        det, gt, on_void = find_overlapping(shard, rules, is_void[gt_start:], CONFUSION_IOU)
        is_spared[table_row[det_start + on_void]] = True
        dets.append(table_row[det_start + det])
        gts.append((gt_start + gt).astype(np.int32))
    return Pairing(det=np.concatenate(dets), gt=np.concatenate(gts), spared=is_spared, eligible=~is_void)


def _compute_confusions(
    table: DetectionTable, truth: TruthTable, pairing: Pairing, level: Longs, n_levels: int
) -> Counts:
    """Return the confusion matrix at every level, as a sparse (levels, classes + 1, classes + 1)."""
    n = len(table.classes)
    shape = (n_levels, n + 1, n + 1)
    # Of each pair the detection, the ground truth, and the levels low..high - 1 at which it is taken.
    det, gt, low, high = map(np.concatenate, zip(*_choose_pairs(pairing, level), strict=True))
    gt_class, det_class = truth.category[gt].astype(np.int64), table.category[det].astype(np.int64)
    is_unspared = ~pairing.spared
    counted_pairs = np.flatnonzero(is_unspared[det])

    # (levels, classes) how many detections and objects are in no pair: all that are there, less those paired.
    # A detection is there at the levels 0..level, an object at all.
    lowest = np.zeros(np.count_nonzero(is_unspared), np.int64)
    unmatched = _count_by_level(
        table.category[is_unspared].astype(np.int64), lowest, level[is_unspared] + 1, n, n_levels
    )
    unmatched -= _count_by_level(
        det_class[counted_pairs], low[counted_pairs], high[counted_pairs], n, n_levels
    )
    missed = np.bincount(truth.category[pairing.eligible], minlength=n)
    missed = missed - _count_by_level(gt_class, low, high, n, n_levels)

    # The cells of pairs, then those of the background and of what was missed. Keys: level * n_cells + cell.
    n_cells = (n + 1) ** 2
    levels, cell, count = _count_cells(gt_class * (n + 1) + det_class, low, high, n_cells, n_levels)
    keys, counts = [levels * n_cells + cell], [count]
    # The last row is the background, the last column what was missed: cell = row * (n + 1) + column, so the
    # cells of a row begin at n * (n + 1) and are 1 apart, those of a column begin at n and are n + 1 apart.
    for array, start, width in ((unmatched, n * (n + 1), 1), (missed, n, n + 1)):
        levels, category = array.nonzero()
        keys.append(levels * n_cells + start + width * category)
        counts.append(array[levels, category])
    key, count = np.concatenate(keys), np.concatenate(counts).astype(np.int64)
    order = np.argsort(key)
    return Counts(shape, tuple(np.unravel_index(key[order], shape)), count[order])


def _count_cells(
    cell: Longs, low: Longs, high: Longs, n_cells: int, n_levels: int
) -> tuple[Longs, Longs, Longs]:
    """Count pairs, each in one cell at the levels low..high - 1: levels, cells and counts above 0."""
    # Steps up and down of the cells of pairs, one after the other along the levels, add up to the counts.
    #   pairs of one cell at levels 0..2 and 1..2:  steps +1 at 0, +1 at 1, -2 at 3;  running count 1 2 0
    #   so the count of the cell is 1 at level 0 (to the next step), 2 at levels 1 and 2, and 0 from 3 on
    n_keys = n_cells * (n_levels + 1)
    low_key, n_low = count_keys(cell * (n_levels + 1) + low, n_keys)
    high_key, n_high = count_keys(cell * (n_levels + 1) + high, n_keys)
    step_key = np.concatenate([low_key, high_key])
    order = np.argsort(step_key, kind="stable")
    running_count = np.cumsum(np.concatenate([n_low, -n_high])[order])
    cell_of_step, step_level = np.divmod(step_key[order], n_levels + 1)
    # After the last step of a cell the count is 0, so its difference to the next cell's level is not used.
    n_of_step = np.where(running_count > 0, np.diff(step_level, append=0), 0)
    levels, of_step = expand_ranges(step_level, n_of_step)
    return levels, cell_of_step[of_step], running_count[of_step]


def _count_by_level(category: Longs, low: Longs, high: Longs, n_classes: int, n_levels: int) -> Longs:
    """Return (levels, classes) how many things of each class there are, each at the levels low..high - 1."""
    size = (n_levels + 1) * n_classes
    # Levels 1 and 2 of 0..3:  steps 0 +1 0 -1,  running sum 0 1 1 0.
    steps = np.bincount(low * n_classes + category, minlength=size)
    steps -= np.bincount(high * n_classes + category, minlength=size)
    return np.cumsum(steps.reshape(n_levels + 1, n_classes), axis=0)[:-1]


def _choose_pairs(pairing: Pairing, level: Longs) -> Iterator[tuple[Longs, Longs, Longs, Longs]]:
    """Yield pairs of the confusion matrix: detections, ground truths, and the levels low..high - 1 of each.

    Every array is (n,). A pair may come several times, with other levels, and there is at least one (empty)
    batch. `level` (detections,) is the highest level that the score of each detection reaches.
    """
    det, gt = pairing.det.astype(np.int64), pairing.gt.astype(np.int64)
    top_level = level[det]
    # The choice among pairs that share boxes changes only at levels of their detections. If the detections of
    # two pairs reach the levels 20 and 7, one choice is of the levels 8..20 (the first pair is alone), one of
    # the levels 0..7 (both are there). `low` and `top` are the levels of each choice.

    # The pairs by groups of connected boxes, outside of which no choice has a part.
    label = _find_connected(det, gt)
    by_label = np.argsort(label, kind="stable")
    det, gt, top_level, label = det[by_label], gt[by_label], top_level[by_label], label[by_label]
    group_starts = first_of_runs(label)
    n_pairs = np.diff(group_starts, append=len(label))
    group = np.repeat(np.arange(len(group_starts)), n_pairs)
    n_levels = int(level.max(initial=0)) + 1

    # One choice for each group and each distinct level in it, by group and rising level.
    keys = np.sort(group * n_levels + top_level)
    choice_group, top = np.divmod(keys[first_of_runs(keys)], n_levels)
    low = np.zeros_like(top)
    low[1:] = np.where(choice_group[1:] == choice_group[:-1], top[:-1] + 1, 0)
    # Of detections and of objects: the number of each pair's box in its group, and how many a group has.
    boxes = [_number_in_group(group, box) for box in (det, gt)]

    # Some choices at a time, with the pairs of their groups.
    for choice_range in split_by_size(n_pairs[choice_group], AT_ONCE) or [slice(0)]:
        groups = choice_group[choice_range]
        rows, choice = expand_ranges(group_starts[groups], n_pairs[groups])
        # Of each choice the pairs whose detection reaches its levels.
        is_present = top_level[rows] >= top[choice_range][choice]
        rows, choice = rows[is_present], choice[is_present]
        ids = []
        # Boxes are numbered through all choices, so that a pair takes a box in its own choice only.
        for box_number, n_boxes in boxes:
            n_boxes_before = np.cumsum(n_boxes[groups]) - n_boxes[groups]
            ids.append(box_number[rows] + n_boxes_before[choice])
        det_ids, gt_ids = ids
        chosen = match_one_to_one(det_ids, gt_ids)
        rows, choice = rows[chosen], choice[chosen]
        yield det[rows], gt[rows], low[choice_range][choice], top[choice_range][choice] + 1


def _find_connected(det: Longs, gt: Longs) -> Longs:
    """Return (n,) a number for each pair, the same for pairs that share boxes, directly or through others."""
    # The lowest ground truth that is known to be connected with each, passed on over detections.
    lowest = np.arange(int(gt.max(initial=-1)) + 1)
    while True:
        lowest_of_det = np.full(int(det.max(initial=-1)) + 1, len(lowest))
        np.minimum.at(lowest_of_det, det, lowest[gt])
        lower = lowest.copy()
        np.minimum.at(lower, gt, lowest_of_det[det])
        lower = lower[lower]  # that of the lowest known so far may be lower still
        if np.array_equal(lower, lowest):
            return lowest[gt]
        lowest = lower


def _number_in_group(group: Longs, box: Longs) -> tuple[Longs, Longs]:
    """Number the boxes of each group: (n,) the number of each pair's box, and (groups,) how many there are.

    `group` and `box` (n,) are the group and the box of each pair; `group` is ascending.
    """
    size = int(box.max(initial=0)) + 1
    key, key_index = np.unique(group * size + box, return_inverse=True)
    group_starts = first_of_runs(key // size)
    return key_index.reshape(-1) - group_starts[group], np.diff(group_starts, append=len(key))
