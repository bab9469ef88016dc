"""Match by ground truth as KITTI's program does: each object, in the order of the file, takes a detection.

The program matches twice. Where no score is too low, each object takes its detection of the highest score;
the scores of these true positives give the limits, about 41 of them, a fortieth of recall apart. Then it
matches once for each limit, and each object takes the detection that overlaps it most. All limits are matched
at once here, each a bit of a word:

    bits 0-62  detections with at least the score of the limit; limit 0 is the highest
    bit 63     all detections, which gives the outcomes of the tables and reports
"""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from odm.evaluate.matching.matches import Hits, Words
from odm.evaluate.matching.order import argsort_int, first_of_runs, rank_in_runs
from odm.evaluate.matching.pairs import Pairs, find_pairs
from odm.evaluate.matching.prepare import get_column, map_evaluated_classes
from odm.evaluate.matching.sides import Joined, Mask, SideTable
from odm.evaluate.scores.protocols import Protocol
from odm.masks.runs import expand_ranges
from odm.tables import Floats, Ints, Longs, distinct

_ALL = np.uint64(2**64 - 1)
_EVERY_SCORE = np.uint64(1 << 63)
_UNKNOWN_ANGLE = -10
"""The alpha of objects whose direction is not known."""


class _Candidates(msgspec.Struct, frozen=True, eq=False):
    """Pairs of an object and a detection that overlap enough; a row of each column is a pair.

    Objects and detections are copied into further classes, see `_find_candidates`: `gt` and `det` are
    positions among the copies, `object` and `detection` those among the boxes of the sides.
    """

    category: Ints
    image: Ints
    gt: Longs
    det: Longs
    object: Longs
    detection: Longs
    iou: Floats
    score: Floats
    is_nothing: Mask
    """(areas, pairs) whether the object counts as nothing."""
    is_small: Mask
    """(areas, pairs) whether the detection is too low to count."""
    is_able: Mask
    """(areas, pairs) whether the detection is of the class, or small."""

    def take(self, rows: Longs) -> _Candidates:
        """Return the pairs at `rows`, (m,) positions."""
        columns = {name: getattr(self, name) for name in self.__struct_fields__}
        return _Candidates(**{name: column[..., rows] for name, column in columns.items()})


class TruthMatches(msgspec.Struct, frozen=True, eq=False):
    """The outcomes with all detections, and the curves at the score limits."""

    hits: Hits
    is_counting: Mask
    """(areas, detections) which detections are false positives if they match no object."""
    curves: Floats
    """(2, areas, classes, limits) precision and orientation similarity, 0 beyond the last limit."""


def match_by_truth(
    sides: Joined, protocol: Protocol, pairs: Pairs, is_outside: Mask, is_counting: Mask
) -> TruthMatches:
    """Match the objects of prepared sides, which have a copy of each region to ignore for each class.

    Of `pairs`, those of these sides, only those with regions to ignore are used. `is_outside` and
    `is_counting`, (areas, objects), say which objects count as nothing in an area range, and which count.
    """
    # A detection takes part in an area range (is "able") if it is of the object's class, or lower than the
    # range asks for ("small"), whatever its class. If eligible and unused, it is a false positive.
    truth, detections, n_classes = sides.truth, sides.detections, len(sides.classes)
    is_region = protocol.crowds(truth.flags)
    iou_min = protocol.least_of(sides.classes)
    heights_by_area = [[b.low for b in area.also if b.column == "height"] for area in protocol.areas]
    # least_height: (areas,), 0 = any; is_small: (areas, detections). Whole pixels are compared: 25 for the
    # bound "height > 25", which is the float next to 25.
    least_height = np.floor([max(area_heights, default=0) for area_heights in heights_by_area])
    is_small = np.floor(detections.wh[:, 1])[None] < least_height[:, None]
    is_covered = np.zeros(len(detections), np.bool_)
    if pairs.ioa is not None:
        is_covering = is_region[pairs.gt] & (pairs.ioa >= iou_min[detections.category[pairs.det]])
        is_covered[pairs.det[is_covering]] = True
    is_evaluated = map_evaluated_classes(sides.classes, protocol) >= 0
    is_eligible = ~is_small & ~is_covered & is_evaluated[detections.category]

    candidates = _find_candidates(sides, protocol, np.flatnonzero(~is_region), is_outside, is_small, iou_min)
    similarity = _measure_similarities(truth, detections, candidates)  # in the order of `candidates`
    n_objects = np.stack([np.bincount(truth.category[rows], minlength=n_classes) for rows in is_counting])

    # First with all scores: each object takes its detection of the highest score. Bit a of a word of
    # `taken_areas`, (pairs,), stands for area range a.
    score_order = np.lexsort((candidates.det, -candidates.score, candidates.gt, candidates.category))
    by_score = candidates.take(score_order)
    area_bit = (np.uint64(1) << np.arange(len(protocol.areas), dtype=np.uint64))[:, None]
    able_areas = np.bitwise_or.reduce(np.where(by_score.is_able, area_bit, np.uint64(0)))
    taken_areas = _take_in_turn(by_score, able_areas)

    curves = np.zeros((2, len(protocol.areas), n_classes, protocol.n_limits))
    hits = Hits.unmatched(np.arange(len(detections), dtype=np.int32), 1)  # a word: bit a of area range a
    for area in range(len(protocol.areas)):
        is_true = (taken_areas & area_bit[area]) != 0
        is_true &= ~(by_score.is_nothing[area] | by_score.is_small[area])
        limits = [
            _choose_limits(by_score.score[is_true & (by_score.category == k)], int(n), protocol.n_limits)
            for k, n in enumerate(n_objects[area].tolist())
        ]
        # Then under each limit: true positives, and all that are no false positives as they were taken.
        overlap_order, by_overlap, taken_words = _take_by_overlap(candidates, area, limits)
        is_void = by_overlap.is_nothing[area] | by_overlap.is_small[area]
        true_words = np.where(is_void, np.uint64(0), taken_words)
        is_used = is_eligible[area][by_overlap.detection] & ~by_overlap.is_small[area]
        used_words = np.where(is_used, taken_words, np.uint64(0))

        for k, class_limits in enumerate(limits):
            rows = np.flatnonzero(by_overlap.category == k)
            scores = detections.score[is_eligible[area] & (detections.category == k)]
            pair_columns = true_words[rows], used_words[rows], similarity[overlap_order][rows]
            curves[:, area, k, : len(class_limits)] = _measure_curves(class_limits, scores, *pair_columns)
        curves[:, area, n_objects[area] == 0] = np.nan  # classes without objects
        _record_hits(hits, area, by_overlap, taken_words, true_words, detections.category)
    if np.isnan(similarity).any():  # the direction of a detection is not known
        curves[1] = np.nan
    hits = hits.take(np.flatnonzero((hits.positive | hits.ignored)[:, 0]))
    return TruthMatches(hits, is_eligible, curves)


def _take_by_overlap(
    candidates: _Candidates, area: int, limits: list[Floats]
) -> tuple[Longs, _Candidates, Words]:
    """Let each object take, under each limit, the detection of the highest IoU, those too low last of all.

    Returns (pairs,) the order in which pairs are tried, the candidates in it, and (pairs,) the bits of the
    limits under which each pair is taken.
    """
    is_low = candidates.is_small[area]
    by_iou = np.where(is_low, 0, -candidates.iou)  # those too low are all equal: the first of the file
    order = np.lexsort((candidates.det, by_iou, is_low, candidates.gt, candidates.category))
    by_overlap = candidates.take(order)
    limit_bits = _find_reached_limits(by_overlap.score, by_overlap.category, limits)
    able_words = np.where(by_overlap.is_able[area], limit_bits, np.uint64(0))
    return order, by_overlap, _take_in_turn(by_overlap, able_words)


def _record_hits(
    hits: Hits, area: int, candidates: _Candidates, taken_words: Words, true_words: Words, det_class: Ints
) -> None:
    """Set the bit of an area range in `hits` for the detections that are taken with all scores: as positive
    where the pair is true, else as ignored. Only pairs in their own class, `det_class` (detections,), count.
    The words are (pairs,), by `candidates`.
    """
    rows = np.flatnonzero((taken_words & _EVERY_SCORE) != 0)
    rows = rows[candidates.category[rows] == det_class[candidates.detection[rows]]]
    det, is_true = candidates.detection[rows], (true_words[rows] & _EVERY_SCORE) != 0
    hits.positive[det[is_true], 0] |= np.uint64(1 << area)
    hits.ignored[det[~is_true], 0] |= np.uint64(1 << area)
    if area == 0:  # the range that tables and reports are about
        hits.gt[det] = candidates.object[rows]


def _find_candidates(
    sides: Joined, protocol: Protocol, objects: Longs, is_outside: Mask, is_small: Mask, iou_min: Floats
) -> _Candidates:
    """Find the pairs that overlap enough, with neighbouring classes and small detections of any class.

    An object is copied into each class that is a neighbour of its own (where it counts as nothing), a small
    detection into each class of the objects of its image. `objects` are the rows of the ground truths that
    are no regions to ignore; `is_outside` (areas, ground truths) says which count as nothing, `is_small`
    (areas, detections) which are too low to count; `iou_min` (classes,) is the least IoU.
    """
    truth, detections = sides.truth, sides.detections
    gt_rows, gt_category, is_neighbour = _copy_to_neighbours(sides, protocol, objects)
    keys = distinct(truth.image[gt_rows].astype(np.int64) * max(len(sides.classes), 1) + gt_category)
    image, category = np.divmod(keys, max(len(sides.classes), 1))  # with objects
    small_rows = np.flatnonzero(is_small.any(axis=0))
    det_rows, det_category = _copy_to_classes(detections, small_rows, image, category.astype(np.int32))

    copies = replace(
        sides,
        truth=replace(truth.take(gt_rows), category=gt_category.astype(np.int32)),
        detections=replace(detections.take(det_rows), category=det_category.astype(np.int32)),
    )
    pieces = list(find_pairs(copies, protocol, float(iou_min.min(initial=1))).pieces())
    gt, det, iou = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("gt", "det", "iou")
    )
    is_reaching = iou >= iou_min[gt_category[gt]]
    gt, det, iou = gt[is_reaching].astype(np.int64), det[is_reaching].astype(np.int64), iou[is_reaching]
    is_small_pair = is_small[:, det_rows[det]]
    is_native = det_category[det] == detections.category[det_rows[det]]  # not a copy in another class
    return _Candidates(
        category=gt_category[gt],
        image=truth.image[gt_rows[gt]],
        gt=gt,
        det=det,
        object=gt_rows[gt],
        detection=det_rows[det],
        iou=iou,
        score=detections.score[det_rows[det]],
        is_nothing=is_outside[:, gt_rows[gt]] | is_neighbour[gt],
        is_small=is_small_pair,
        is_able=is_small_pair | is_native,
    )


def _copy_to_neighbours(sides: Joined, protocol: Protocol, objects: Longs) -> tuple[Longs, Ints, Mask]:
    """Copy objects of neighbouring classes into the classes that they are neighbours of.

    Returns, each (m,) in the order of the file, the rows of the `objects` and of their copies, the class of
    each, and which are copies.
    """
    category = sides.truth.category
    rows_as_evaluated = map_evaluated_classes(sides.classes, protocol).tolist()
    row_of_class = {sides.classes[row].casefold(): row for row in rows_as_evaluated if row >= 0}
    all_rows, all_classes = [objects], [category[objects]]
    for neighbour_name, class_name in protocol.neighbours:  # Van, Car: each van is copied into Car
        neighbour, class_row = (row_of_class.get(name.casefold()) for name in (neighbour_name, class_name))
        if neighbour is not None and class_row is not None:
            all_rows.append(objects[category[objects] == neighbour])
            all_classes.append(np.full(len(all_rows[-1]), class_row, np.int32))
    rows = np.concatenate(all_rows)
    file_order = np.argsort(rows, kind="stable")
    is_copy = np.arange(len(rows)) >= len(objects)
    return rows[file_order], np.concatenate(all_classes)[file_order], is_copy[file_order]


def _copy_to_classes(
    detections: SideTable, small_rows: Longs, image: Longs, category: Ints
) -> tuple[Longs, Ints]:
    """Copy the detections at `small_rows` into each class of the objects of their image.

    `image` and `category`, each (keys,), are the images and classes with objects. Returns, each (m,) in the
    order of the file, the rows of the detections and of their copies, and the class of each.
    """
    start, end = (np.searchsorted(detections.image[small_rows], image, side) for side in ("left", "right"))
    small_positions, key_index = expand_ranges(start, end - start)
    copied_rows, copied_class = small_rows[small_positions], category[key_index]
    is_foreign = detections.category[copied_rows] != copied_class
    rows = np.concatenate([np.arange(len(detections)), copied_rows[is_foreign]])
    file_order = np.argsort(rows, kind="stable")
    classes = np.concatenate([detections.category, copied_class[is_foreign]])
    return rows[file_order], classes[file_order]


def _measure_similarities(truth: SideTable, detections: SideTable, candidates: _Candidates) -> Floats:
    """(pairs,) how alike the directions are, from 0 to 1; all NaN if that of any detection is not known."""
    angles = get_column(detections, "alpha")
    if (np.isnan(angles) | (angles == _UNKNOWN_ANGLE)).any():
        return np.full(len(candidates.gt), np.nan)
    difference = get_column(truth, "alpha")[candidates.object] - angles[candidates.detection]
    return (1 + np.cos(difference)) / 2


def _choose_limits(scores: Floats, n_objects: int, n_limits: int) -> Floats:
    """Choose the scores at which precision is measured, descending, at most `n_limits`.

    `scores` are those of the true positives, of `n_objects` objects. Each limit is the score whose recall is
    nearest to the next step of 1 / (n_limits - 1); the lowest score is always a limit.
    """
    ranked = np.sort(scores)[::-1]
    limits: list[float] = []
    recall = 0.0  # the step that is due
    for i, score in enumerate(ranked.tolist()):
        recall_here = (i + 1) / n_objects
        recall_next = (i + 2) / n_objects
        if i < len(ranked) - 1 and recall_next - recall < recall - recall_here:
            continue  # the next score is nearer to the step
        limits.append(score)
        recall += 1 / (n_limits - 1.0)
    return np.array(limits[:n_limits])


def _find_reached_limits(score: Floats, category: Ints, limits: list[Floats]) -> Words:
    """(pairs,) the bits of the limits of its class that the score of each detection reaches.

    `limits` has the descending score limits of each class. Bit 63, that of all scores, is always set.
    """
    words = np.full(len(score), _EVERY_SCORE)
    for k, class_limits in enumerate(limits):
        pair_rows = np.flatnonzero(category == k)
        n_limits = len(class_limits)
        # Limits .9 .7 .5 (n_limits = 3) and a score of .8: it reaches two, bits 1 and 2: 0b111 & ~0b001.
        n_reached = np.searchsorted(class_limits[::-1], score[pair_rows], side="right")
        all_limits = np.uint64((1 << n_limits) - 1)
        words[pair_rows] |= all_limits & ~(
            (np.uint64(1) << (n_limits - n_reached).astype(np.uint64)) - np.uint64(1)
        )
    return words


def _take_in_turn(candidates: _Candidates, able_words: Words) -> Words:
    """(pairs,) the bits under which each pair is taken, a subset of the `able_words` of the pair, (pairs,).

    The pairs are ordered by class and object, those of an object by preference. The first objects of all
    images and classes take their detections together, then the second ones, and so on.
    """
    pair_starts = first_of_runs(candidates.category, candidates.gt)
    n_pairs = np.diff(pair_starts, append=len(able_words))
    group_starts = first_of_runs(candidates.category[pair_starts], candidates.image[pair_starts])
    turn_of_object = rank_in_runs(group_starts, len(pair_starts))
    taken_words = np.zeros(len(able_words), np.uint64)
    free_words = np.full(int(candidates.det.max(initial=-1)) + 1, _ALL)  # of each detection
    by_turn = argsort_int(turn_of_object, int(turn_of_object.max(initial=0)) + 1)
    # The objects of turn 0, then those of turn 1, ...
    for objects in np.split(by_turn, np.cumsum(np.bincount(turn_of_object))[:-1]):
        open_words = np.full(len(objects), _ALL)  # under which an object has taken none yet
        for preference in range(int(n_pairs[objects].max(initial=0))):
            next_objects = np.flatnonzero((n_pairs[objects] > preference) & (open_words != 0))
            if not len(next_objects):
                break
            pair_rows = pair_starts[objects[next_objects]] + preference
            # No two objects of a turn share a detection, so none is written twice.
            new_words = (
                open_words[next_objects] & able_words[pair_rows] & free_words[candidates.det[pair_rows]]
            )
            free_words[candidates.det[pair_rows]] &= ~new_words
            open_words[next_objects] &= ~new_words
            taken_words[pair_rows] = new_words
    return taken_words


def _measure_curves(
    limits: Floats, scores: Floats, true_words: Words, used_words: Words, similarities: Floats
) -> Floats:
    """(2, limits) precision and orientation similarity of a class at its score limits, which descend.

    Each is the highest at this or any lower limit. `scores` are those of the eligible detections; the other
    columns are (pairs,), as for `_sum_by_limit`.
    """
    scores = np.sort(scores)
    n_true, n_used, similarity_sums = _sum_by_limit(len(limits), true_words, used_words, similarities)
    # True positives, and the false ones: eligible detections at or above the limit that no object took.
    n_counted = n_true - n_used + len(scores) - np.searchsorted(scores, limits)
    totals = np.stack([n_true, similarity_sums])
    shares = np.divide(totals, n_counted, out=np.zeros(totals.shape), where=n_counted > 0)
    return np.maximum.accumulate(shares[:, ::-1], axis=1)[:, ::-1]


def _sum_by_limit(
    n_limits: int, true_words: Words, used_words: Words, similarity: Floats
) -> tuple[Longs, Longs, Floats]:
    """Sum over the pairs of a class, under each score limit (a bit of the words).

    Returns, each (limits,), the number of true positives, that of used detections, and the sum of the
    similarities of the true positives.
    """
    n_true, n_used = np.zeros(n_limits, np.int64), np.zeros(n_limits, np.int64)
    similarity_sums = np.zeros(n_limits)
    for i in range(n_limits):
        bit = np.uint64(1 << i)
        is_true = (true_words & bit) != 0
        n_true[i], n_used[i] = np.count_nonzero(is_true), np.count_nonzero(used_words & bit)
        similarity_sums[i] = similarity[is_true].sum()
    return n_true, n_used, similarity_sums
