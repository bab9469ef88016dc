"""Match detections with ground truth: one protocol, or several that share the comparison of boxes.

The rules; `tests/matching_rules.py` states them plainly, one box after the other:

- free: a detection takes the best ground truth that is still free (COCO, LVIS, ILSVRC detection)
- best: it goes to its best ground truth, taken or not (VOC, TensorFlow, Open Images)
- greatest: the two that overlap most are a pair, then the two of the rest that do (spatio-temporal tubes)
- per image: whether anything was detected on an image (CorLoc, top-k errors), see `by_image.py`

All combinations of IoU threshold and area range are matched at once, each a bit of a word, see `Matches`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.matching.by_image import find_best_hits, match_guesses
from odm.evaluate.matching.by_truth import match_by_truth
from odm.evaluate.matching.ground_truth import Truth
from odm.evaluate.matching.jaccard import jaccard_ratios
from odm.evaluate.matching.matches import OVER, Hits, Matches, Words, join_hits, threshold_bits
from odm.evaluate.matching.order import (
    argsort_descending,
    argsort_int,
    best_of_each,
    first_of_runs,
    match_one_to_one,
    rank_in_runs,
)
from odm.evaluate.matching.pairs import CEILING, SPARSE, Pairs, find_iou_floor
from odm.evaluate.matching.prepare import (
    compared_areas,
    find_left_out,
    has_label,
    prepare,
)
from odm.evaluate.matching.shapes import find_shape_pairs
from odm.evaluate.matching.sides import Joined, Mask
from odm.evaluate.scores.protocols import Protocol
from odm.evaluate.scores.set_ups import AreaBits
from odm.tables import Floats, Ints, LabelState, Longs, distinct, first_index_of


def match(
    joined: Joined, protocol: Protocol, *, pairs: Pairs | None = None, order: Longs | None = None
) -> Matches:
    """Match the detections of `joined` under `protocol`.

    Parameters
    ----------
    joined
        Both sides, or a shard of them.
    protocol
        The rules.
    pairs
        The pairs of the prepared sides that overlap by `find_iou_floor` of the protocol, if already known.
    order
        (n,) positions of the detections of the prepared sides by descending score; only needed if equal
        scores are to be ordered otherwise than by position.

    Examples
    --------
    The stages of `odm.evaluate.evaluate` one by one:

    >>> from odm.evaluate import accumulate, join, resolve
    >>> from odm.tables import Dataset
    >>> same = {"images": ["a.jpg"], "categories": ["person"], "image": [0], "category": [0]}
    >>> truth = Dataset.from_arrays(**same, ltwh=[[10, 10, 20, 20]])
    >>> detections = Dataset.from_arrays(**same, ltwh=[[12, 10, 20, 20]], score=[0.9])
    >>> matches = match(join(truth, detections), *resolve("voc2012"))
    >>> accumulate(matches).summary
    {'mAP': 1.0}
    """
    sides, dropped = prepare(joined, protocol)
    if order is None:
        order = _sort_by_score(sides.detections.score, protocol)
    is_beyond_cap = find_beyond_cap(sides, protocol, order)
    if pairs is None:
        pairs = _find_pairs(sides, protocol, find_iou_floor(protocol), order, is_beyond_cap)
    return _match(sides, protocol, dropped, order, pairs, is_beyond_cap, _find_score_range(joined))


def _sort_by_score(score: Floats, protocol: Protocol) -> Longs:
    """(n,) positions by descending score; equal scores by position, or last first if the protocol says so."""
    if protocol.detections_in == "reverse":
        return len(score) - 1 - argsort_descending(score[::-1])
    return argsort_descending(score)


def _find_score_range(joined: Joined) -> tuple[float, float]:
    """Return the lowest and the highest score of the detections."""
    score = joined.detections.score
    return float(score.min(initial=np.inf)), float(score.max(initial=-np.inf))


def _find_pairs(
    sides: Joined, protocol: Protocol, floor: float, order: Longs, is_beyond_cap: Mask | None
) -> Pairs:
    """Find the pairs that reach `floor`, without the detections under the mask `is_beyond_cap`, (n,).

    Only the best pair of each detection is found where the protocol never lets it take another one.
    """
    takes_part = None if is_beyond_cap is None else ~is_beyond_cap
    best_only = protocol.match not in ("free", "truth")  # `greatest` is for tubes, whose pairs are known
    return find_shape_pairs(sides, protocol, floor, order, among=takes_part, best_only=best_only)


def match_all(joined: Joined, protocols: Sequence[Protocol]) -> Iterator[Matches]:
    """Yield the matches under each protocol.

    Protocols that measure the same boxes alike share the comparison of boxes: pairs are found once, from the
    lowest IoU that any of them needs, and each protocol takes those above its own.
    """
    # By the settings that decide (`_preparation_key`, `_pairing_key`): prepared sides and what was dropped;
    # orders by score; and the lowest IoU, its pairs and the detections beyond the cap.
    prepared: dict[tuple[Any, ...], tuple[Joined, tuple[tuple[str, int], ...]]] = {}
    orders: dict[tuple[int, bool], Longs] = {}
    pairs_of_settings: dict[tuple[Any, ...], tuple[float, Pairs, Mask | None]] = {}
    for rules in protocols:
        if _preparation_key(rules) not in prepared:
            prepared[_preparation_key(rules)] = prepare(joined, rules)
        sides, dropped = prepared[_preparation_key(rules)]
        # Preparations share the tables that they leave as they are, hence the ids.
        detections_key = id(sides.detections), rules.detections_in == "reverse"
        if detections_key not in orders:
            orders[detections_key] = _sort_by_score(sides.detections.score, rules)
        order = orders[detections_key]
        pairs_key = id(sides.truth), *detections_key, *_pairing_key(rules)
        if pairs_key not in pairs_of_settings:
            floor = min(find_iou_floor(q) for q in protocols if _pairing_key(q) == _pairing_key(rules))
            is_beyond_cap = find_beyond_cap(sides, rules, order)
            pairs = _find_pairs(sides, rules, floor, order, is_beyond_cap)
            pairs_of_settings[pairs_key] = floor, pairs, is_beyond_cap
        floor, pairs, is_beyond_cap = pairs_of_settings[pairs_key]
        if floor < find_iou_floor(rules):
            pairs = pairs.above(find_iou_floor(rules))
        yield _match(sides, rules, dropped, order, pairs, is_beyond_cap, _find_score_range(joined))


def _preparation_key(p: Protocol) -> tuple[Any, ...]:
    """Cache key: the settings of a protocol that `prepare` depends on.

    A setting that matters only beside another one stands as ``other and setting``.
    """
    cap = p.cap_of, p.max_dets if p.cap_of != "class" else None
    on_empty = p.drop_empty and (p.as_given, p.drop_empty_truth)
    drops = (
        on_empty,
        p.drop_flags,
        p.drop_repeated,
        p.score_above,
        p.region_flags,
        p.whole_corners,
        p.clipped,
    )
    selection = p.only, p.never, p.covered, p.detections_in == "file", p.match == "truth"
    return p.hierarchical, drops, p.labelled_only, cap, p.single, bool(p.jaccard), selection


def _pairing_key(p: Protocol) -> tuple[Any, ...]:
    """Cache key: the settings of a protocol that `_find_pairs` depends on, as in `_preparation_key`."""
    as_given = p.as_given and p.pixels == "edges"
    grouping = p.crowd_flags, p.group_weight is not None, p.region_flags
    matching = p.match, p.match == "best" and p.last_of_equals
    measuring = p.measure, p.sigmas, p.strict and p.ious, p.added_area, p.class_ious
    return p.pixels, as_given, p.single and p.ious, *grouping, *matching, find_cap_per_class(p), measuring


def _match(
    sides: Joined,
    protocol: Protocol,
    dropped: tuple[tuple[str, int], ...],
    order: Longs,
    pairs: Pairs,
    is_beyond_cap: Mask | None,
    score_range: tuple[float, float],
) -> Matches:
    """Match the prepared sides and put the outcome into `Matches`.

    `dropped` is what `prepare` left out, (what, how many); `order` (n,) the positions of the detections by
    descending score; `is_beyond_cap` (n,) which of them exceed the limit of their image and class, None if
    none does; `score_range` the lowest and the highest score before any was dropped.
    """
    guesses = np.zeros((0, 3), np.int64)
    curves: Floats | None = None
    detections, n_classes = sides.detections, len(sides.classes)
    if protocol.metric in ("corloc", "top-k"):
        hits, is_candidate, guesses = _match_images(sides, protocol, order, pairs)
        # A class counts once per image, and what is no candidate is ignored.
        npos = _count_images(sides)[:, None]
        gt_ignored = np.zeros(n_classes, np.int64)
        fp_if_unmatched: NDArray[AreaBits] | None = is_candidate.astype(AreaBits)
    else:
        truth = Truth(sides, protocol)
        if is_beyond_cap is not None:
            n_beyond = int(np.count_nonzero(is_beyond_cap))
            dropped += ((f"{OVER}{protocol.max_dets} per image and class", n_beyond),)
        within_cap = pairs if is_beyond_cap is None else pairs.of_detections(~is_beyond_cap)
        hits, fp_if_unmatched, curves = _match_single(sides, protocol, truth, within_cap, is_beyond_cap)

        # Column 0 of npos, (classes, areas), is of all sizes; the other objects, but no regions, are ignored.
        npos = truth.count(n_classes)
        is_object = (sides.truth.flags & np.uint16(protocol.region_flags)) == 0
        object_category = sides.truth.category[is_object]
        gt_ignored = np.bincount(object_category, minlength=n_classes) - npos[:, 0]

    # Positions in the sides become rows of the dataset.
    hit_gt = np.full(len(hits.det), -1, np.int32)
    has_truth = hits.gt >= 0
    hit_gt[has_truth] = sides.truth.row[hits.gt[has_truth]]
    frequency = tuple(sides.frequency.get(name, "") for name in sides.classes)
    return Matches(
        protocol=protocol,
        classes=sides.classes,
        category=detections.category,
        score=detections.score,
        image=detections.image,
        row=detections.row,
        fp_if_unmatched=fp_if_unmatched,
        hit=hits.det.astype(np.int64),
        positive=hits.positive,
        ignored=hits.ignored,
        hit_rank=pairs.rank[hits.det],
        hit_gt=hit_gt,
        npos=npos,
        n_images=len(sides.evaluated),
        gt_ignored=gt_ignored,
        guesses=guesses,
        dropped=dropped,
        frequency=frequency if protocol.by_frequency else (),
        # In reverse, equal scores of an image are ranked otherwise than matched, see `rank_rows`.
        order=None if protocol.detections_in == "reverse" else order,
        curves=curves,
        class_images=_count_images(sides) if protocol.by_images else None,
        score_range=score_range,
        jaccard=jaccard_ratios(sides, protocol, pairs) if protocol.jaccard else None,
    )


def _match_images(sides: Joined, protocol: Protocol, order: Longs, pairs: Pairs) -> tuple[Hits, Mask, Longs]:
    """Match by image, for CorLoc or top-k errors: the hits, (n,) which detections are candidates, and
    `Matches.guesses`, of which CorLoc has none.
    """
    if protocol.metric == "top-k":
        return match_guesses(sides, protocol, pairs, order)
    # CorLoc: the best detection of every image and class that has ground truth.
    is_candidate = pairs.rank == 0
    det, gt = find_best_hits(pairs, protocol, is_candidate)
    return Hits.of_one_bit(det, np.ones(len(det), np.bool_), gt), is_candidate, np.zeros((0, 3), np.int64)


def _match_single(
    sides: Joined, protocol: Protocol, truth: Truth, pairs: Pairs, is_beyond_cap: Mask | None
) -> tuple[Hits, NDArray[AreaBits] | None, Floats | None]:
    """Match boxes one to one, by the rule of the protocol.

    Returns the hits, (n,) the bits of the area ranges in which an unmatched detection is a false positive
    (None = all), and `TruthMatches.curves`, None unless the protocol matches by ground truth.
    """
    if protocol.match == "truth":
        by_truth = match_by_truth(sides, protocol, pairs, truth.is_outside, truth.is_counting)
        return by_truth.hits, _set_area_bits(~by_truth.is_counting, is_exempt=None), by_truth.curves
    return _match_boxes(sides, protocol, truth, pairs), _find_fp_areas(sides, protocol, is_beyond_cap), None


def _match_boxes(sides: Joined, protocol: Protocol, truth: Truth, pairs: Pairs) -> Hits:
    """Match each detection with at most one ground truth, as `Protocol.match` says.

    ``free`` removes the bits of those taken from `Truth.free_bits`.
    """
    rule = {"free": _match_free, "best": _match_best, "greatest": _match_greatest}[protocol.match]
    hits, detections = rule(pairs, protocol, truth), sides.detections
    # Only ``free`` leaves large groups (see `_find_pairs`): a bounded number of pairs at a time, which take
    # the ground truths that are left.
    if pairs.large:
        parts = [hits]
        for group in pairs.large:
            parts += (_match_free(piece, protocol, truth) for piece in pairs.split_group(group))
        hits = join_hits(parts)
        det = hits.det  # in the order of `Pairs`: by image, class and rank
        hits = hits.take(np.lexsort((pairs.rank[det], detections.category[det], detections.image[det])))
    if protocol.group_weight:
        # A group-of box whose best detection scores 0 or less is not found, as in the TensorFlow program.
        is_unsure = (hits.gt >= 0) & truth.is_group[hits.gt] & (detections.score[hits.det] <= 0)
        hits.ignored[is_unsure] |= hits.positive[is_unsure]
        hits.positive[is_unsure] = 0
    return hits


# ----------------------------------------------------------------------------- what counts, and the limits


def _find_fp_areas(sides: Joined, protocol: Protocol, is_beyond_cap: Mask | None) -> NDArray[AreaBits] | None:
    """(n,) a bit per area range: whether an unmatched detection is a false positive there.

    Where its area is outside the range, it is ignored. Ignored in every range are those beyond the limit and,
    if the protocol says so, those of a class that is not annotated exhaustively on their image and those on
    images without objects. None if nothing is ignored.
    """
    detections, is_exempt = sides.detections, is_beyond_cap
    if protocol.exempt_partial:
        is_partial = has_label(sides, LabelState.PARTIAL)
        is_exempt = is_partial if is_beyond_cap is None else is_beyond_cap | is_partial
    if protocol.exempt_empty:
        is_object = (sides.truth.flags & np.uint16(protocol.region_flags)) == 0
        is_empty_image = ~np.isin(detections.image, sides.truth.image[is_object])
        is_exempt = is_empty_image if is_exempt is None else is_exempt | is_empty_image
    area = compared_areas(detections, protocol)
    is_outside = [(area < a.low) | (area > a.high) | find_left_out(detections, a) for a in protocol.areas]
    return _set_area_bits(np.stack(is_outside), is_exempt)


def _set_area_bits(is_outside: Mask, is_exempt: Mask | None) -> NDArray[AreaBits] | None:
    """(n,) a word for each detection: bit a is set unless it is outside area range a, or exempt.

    `is_outside` is (areas, n), `is_exempt` (n,) or None. None if every bit is set.
    """
    if is_exempt is None and not is_outside.any():
        return None
    bits = np.zeros(is_outside.shape[1], AreaBits)
    for area, is_outside_area in enumerate(is_outside):
        bits |= np.left_shift(~is_outside_area, AreaBits(area), dtype=AreaBits)
    if is_exempt is not None:
        bits[is_exempt] = 0
    return bits


def _count_images(sides: Joined) -> Longs:
    """(classes,) on how many images each class has ground truth."""
    n_classes = max(len(sides.classes), 1)
    return np.bincount(distinct(sides.keys_of(sides.truth)) % n_classes, minlength=len(sides.classes))


def find_cap_per_class(protocol: Protocol) -> int | None:
    """Return the number of detections of an image and class that count, None if all do.

    CorLoc and top-k errors limit the guesses of an image instead, see `by_image.py`.
    """
    capped = protocol.cap_of == "class" and protocol.metric not in ("corloc", "top-k")
    return protocol.max_dets if capped else None


def find_beyond_cap(joined: Joined, protocol: Protocol, order: Longs) -> Mask | None:
    """(n,) mask of the detections that exceed the limit of their image and class; None if there are none.

    `order` are the positions of the detections by descending score.
    """
    detections, cap = joined.detections, find_cap_per_class(protocol)
    if cap is None or not len(detections):
        return None
    if np.bincount(detections.image).max() <= cap:
        return None
    group = joined.keys_of(detections)  # numbers that may be too large for a table of all of them
    if int(group.max()) <= 4 * len(detections) + SPARSE:
        n_det = np.bincount(group)
    else:
        _, group, n_det = np.unique(group, return_inverse=True, return_counts=True)
    if n_det.max() <= cap:
        return None
    # The detections of the few images and classes that have too many, by group and then by score.
    rows = order[(n_det > cap)[group][order]]
    group = group[rows]
    by_group = np.argsort(group, kind="stable")
    rank = rank_in_runs(first_of_runs(group[by_group]), len(rows))
    is_beyond = np.zeros(len(detections), np.bool_)
    is_beyond[rows[by_group][rank >= cap]] = True
    return is_beyond


# ------------------------------------------------------------------------------------------------------ free
# Each detection takes the best free ground truth. The first detections of all images and classes are matched
# together, then the second ones, and so on.


MANY_PAIRS = 32
"""With more pairs than this a detection is matched by itself, its pairs not sorted."""


def _match_free(pairs: Pairs, protocol: Protocol, truth: Truth) -> Hits:
    """Match each detection with the best free ground truth, one that counts before one that is ignored.

    Bits of the ground truths taken are removed from `truth.free_bits`.
    """
    det, gt, iou, ioa = _list_reaching_pairs(pairs, protocol, truth)
    pair_starts = first_of_runs(det)  # of the pairs of each detection
    n_pairs = np.diff(pair_starts, append=len(det))
    _sort_by_iou(pair_starts, n_pairs, gt, iou, ioa, last_of_equals=protocol.last_of_equals)
    hits = Hits.unmatched(det[pair_starts], len(truth.blocks))
    if not len(pair_starts):
        return hits
    rounds = _plan_rounds(pair_starts, n_pairs, gt, truth.group_key)
    for word_index in range(len(truth.blocks)):
        taking = _Taking(pair_starts, n_pairs, gt, iou, truth, protocol, word_index, hits)
        if ioa is not None:
            taking.covered_bits = taking.find_bits(ioa)
        if truth.kept_bits:  # area ranges that leave a detection out are not reached by it
            taking.reached_bits &= truth.kept_bits[word_index][det]
            taking.covered_bits &= truth.kept_bits[word_index][det]
        for rows in rounds:
            has_many = n_pairs[rows] > MANY_PAIRS
            for row in rows[has_many].tolist():
                taking.take_one(row)
            few_rows = rows[~has_many]
            if len(few_rows):
                taking.take(few_rows, counting=True)
                if taking.any_nothing:
                    taking.take(few_rows, counting=False)
    return hits


def _list_reaching_pairs(
    pairs: Pairs, protocol: Protocol, truth: Truth
) -> tuple[Ints, Ints, Floats, Floats | None]:
    """Return detection, ground truth, IoU (of crowds IoA) and IoA of the pairs that reach any threshold.

    IoA is None unless the protocol ignores by IoA: then it decides alone whether a ground truth that counts
    as nothing is reached.
    """
    iou = pairs.iou
    if pairs.ioa is not None:
        iou = np.where(truth.is_crowd[pairs.gt], pairs.ioa, iou)
    ioa = pairs.ioa if protocol.ignored_by_ioa else None
    reaching = np.flatnonzero((iou if ioa is None else np.maximum(iou, ioa)) >= find_iou_floor(protocol))
    return pairs.det[reaching], pairs.gt[reaching], iou[reaching], None if ioa is None else ioa[reaching]


def _sort_by_iou(
    pair_starts: Longs, n_pairs: Longs, gt: Ints, iou: Floats, ioa: Floats | None, *, last_of_equals: bool
) -> None:
    """Sort the pairs of each detection by descending IoU, in place: `gt`, `iou` and `ioa`, each (pairs,).

    Pairs come by ground truth, and stay so where a detection has more than `MANY_PAIRS`.
    """
    to_sort = np.flatnonzero(np.repeat((n_pairs > 1) & (n_pairs <= MANY_PAIRS), n_pairs))
    if not len(to_sort):
        return
    tie_breaker = -gt[to_sort] if last_of_equals else gt[to_sort]
    detection = np.repeat(pair_starts, n_pairs)[to_sort]
    sorted_rows = to_sort[np.lexsort((tie_breaker, -iou[to_sort], detection))]
    gt[to_sort], iou[to_sort] = gt[sorted_rows], iou[sorted_rows]
    if ioa is not None:
        ioa[to_sort] = ioa[sorted_rows]


def _plan_rounds(pair_starts: Longs, n_pairs: Longs, gt: Ints, group_key: Longs) -> list[Longs]:
    """Divide the detections into rounds, in which no two compete for a ground truth; return their rows.

    The round of a detection is its rank among those of its image and class (`group_key` of the ground truth)
    that have pairs. Where neither it nor its ground truth has another pair, it is in the first round.
    """
    round_of_detection = np.zeros(len(pair_starts), np.int64)
    has_to_wait = np.flatnonzero((n_pairs > 1) | (np.bincount(gt)[gt[pair_starts]] > 1))
    if len(has_to_wait):
        group_starts = first_of_runs(group_key[gt[pair_starts[has_to_wait]]])
        round_of_detection[has_to_wait] = rank_in_runs(group_starts, len(has_to_wait))
    by_round = argsort_int(round_of_detection, int(round_of_detection.max()) + 1)
    return np.split(by_round, np.cumsum(np.bincount(round_of_detection))[:-1])


class _Taking:
    """Detections taking ground truths, under the thresholds and area ranges of one word (see `Matches`).

    The pairs of detection i begin at ``pair_starts[i]`` and are ``n_pairs[i]``, by descending IoU unless they
    are more than `MANY_PAIRS`. ``gt`` and ``iou`` (for crowds the IoA) are (pairs,). What the detections take
    is written to `Truth.free_bits` and to `hits`, in place.
    """

    def __init__(
        self,
        pair_starts: Longs,
        n_pairs: Longs,
        gt: Ints,
        iou: Floats,
        truth: Truth,
        protocol: Protocol,
        word_index: int,
        hits: Hits,
    ) -> None:
        block, n_areas = truth.blocks[word_index], len(truth.is_outside)  # the thresholds of the word
        self.pair_starts, self.n_pairs, self.gt, self.iou = pair_starts, n_pairs, gt, iou
        self.is_crowd, self.last_of_equals = truth.is_crowd, protocol.last_of_equals
        self.free_bits = truth.free_bits[word_index]
        self.positive, self.ignored = hits.positive[:, word_index], hits.ignored[:, word_index]
        self.hit_gt = hits.gt
        # An overlap that reaches a threshold reaches all lower ones, so it is enough to count them: the bits
        # under which the first n thresholds of the word are reached, n = 0, 1, ...
        self.bits = np.array([threshold_bits(block, n_areas, *block[:n]) for n in range(len(block) + 1)])
        # COCO's program asks for no more than `CEILING`, so that perfect boxes reach a threshold of 1.
        self.ious = np.minimum(protocol.least, CEILING if protocol.averaged else 1)[block.start : block.stop]
        self.reached_bits: Words
        """(pairs,) the bits of the thresholds that the overlap reaches."""
        if truth.has_thresholds:  # one threshold, which each ground truth has for itself
            self.reached_bits = self.bits[(iou >= truth.thresholds[gt]).astype(np.int64)]
        else:
            self.reached_bits = self.find_bits(iou)
        self.covered_bits = self.reached_bits
        """(pairs,) the same for ground truths that count as nothing."""
        self.by_ioa = protocol.ignored_by_ioa
        self.all_bits = self.bits[-1]
        self.nothing_bits = truth.nothing_bits[word_index]
        """(ground truths,) where they count as nothing."""
        self.any_nothing = bool(self.nothing_bits[gt].any())
        self.reference = np.uint64(0)
        """The bit of the threshold whose matched ground truths are remembered."""
        if protocol.reference in block:
            self.reference = threshold_bits(block, 1, protocol.reference)

    def find_bits(self, overlap: Floats) -> Words:
        """(pairs,) the bits of the thresholds that these overlaps reach."""
        return self.bits[np.searchsorted(self.ious, overlap, side="right")]

    def find_available(self, gt: Ints) -> Words:
        """(n,) the bits under which ground truths that count as nothing can be taken.

        Crowds, and all of them where the protocol ignores by IoA, can be taken any number of times.
        """
        return np.where(self.is_crowd[gt] | self.by_ioa, self.all_bits, self.free_bits[gt])

    def take(self, rows: Longs, *, counting: bool) -> None:
        """Match each detection in `rows` with its best free ground truth.

        This is done under every threshold and area range where the detection has none yet: with `counting`
        among the ground truths that count, without it among those that are ignored. No two of `rows` share a
        ground truth.
        """
        # In each pass, `new_bits` are those under which a detection is still open, reaches the threshold with
        # its next best ground truth, and that ground truth is free.
        starts, n_pairs = self.pair_starts[rows], self.n_pairs[rows]
        taken_words = self.positive if counting else self.ignored
        open_words = np.full(len(rows), self.all_bits) if counting else self.all_bits & ~self.positive[rows]
        for preference in range(int(n_pairs.max())):
            has_pair = np.flatnonzero(n_pairs > preference) if preference else slice(None)
            pair_rows = starts[has_pair] + preference
            gt = self.gt[pair_rows]
            if counting:
                new_bits = open_words[has_pair] & self.reached_bits[pair_rows] & self.free_bits[gt]
                if self.any_nothing:
                    new_bits &= ~self.nothing_bits[gt]
            else:
                new_bits = open_words[has_pair] & self.covered_bits[pair_rows] & self.nothing_bits[gt]
                new_bits &= self.find_available(gt)
            # No two detections of a round share a ground truth, so none is written twice.
            self.free_bits[gt] &= ~new_bits
            taken_words[rows[has_pair]] |= new_bits
            open_words[has_pair] &= ~new_bits
            if self.reference:
                is_reference = (new_bits & self.reference) != 0
                self.hit_gt[rows[has_pair][is_reference]] = gt[is_reference]

    def take_one(self, row: int) -> None:
        """Match one detection with more than `MANY_PAIRS` pairs, sorted by ground truth instead of IoU; see
        `take`.
        """
        pair_slice = slice(int(self.pair_starts[row]), int(self.pair_starts[row] + self.n_pairs[row]))
        gt, iou, reaches, covers = (
            self.gt[pair_slice],
            self.iou[pair_slice],
            self.reached_bits[pair_slice],
            self.covered_bits[pair_slice],
        )
        nothing = self.nothing_bits[gt]
        for counting, taken_words in ((True, self.positive), (False, self.ignored)):
            if counting:
                able_bits = reaches & self.free_bits[gt] & ~nothing
            else:
                able_bits = covers & nothing & ~self.positive[row] & self.find_available(gt)
            # The best pair takes all bits under which it is able; the next best pairs are left the others.
            while len(able_pairs := np.flatnonzero(able_bits)):
                if self.last_of_equals:
                    able_pairs = able_pairs[::-1]
                best_pair = int(able_pairs[np.argmax(iou[able_pairs])])
                new_bits = able_bits[best_pair]
                taken_words[row] |= new_bits
                self.free_bits[gt[best_pair]] &= ~new_bits
                able_bits &= ~new_bits
                if new_bits & self.reference:
                    self.hit_gt[row] = gt[best_pair]


# ------------------------------------------------------------------------------------------------------ best
# Each detection goes to its best ground truth, even if that is taken: then it is a false positive.


def _match_best(pairs: Pairs, protocol: Protocol, truth: Truth) -> Hits:
    """Match each detection with its best ground truth, plain ones before group-of boxes and regions."""
    hits = _match_plain(pairs, protocol, truth)
    return hits if pairs.ioa is None else join_hits([hits, _match_groups(pairs, protocol, truth, hits)])


def _match_plain(pairs: Pairs, protocol: Protocol, truth: Truth) -> Hits:
    """Match each detection with its best ground truth that is no group-of box or region.

    That is one true positive, for the first detection; for others the match counts as none, so that they are
    false positives.
    """
    is_plain = ~truth.is_group[pairs.gt] & (pairs.iou >= find_iou_floor(protocol))
    det, gt, iou = pairs.det[is_plain], pairs.gt[is_plain], pairs.iou[is_plain]
    best_pairs = best_of_each(det, iou, last=protocol.last_of_equals)
    det, gt, iou = det[best_pairs], gt[best_pairs], iou[best_pairs]
    hits = Hits.unmatched(det, len(truth.blocks))
    positive, ignored = hits.positive, hits.ignored
    has_match = np.zeros(len(det), np.bool_)
    for word_index, block in enumerate(truth.blocks):
        nothing_bits = truth.nothing_bits[word_index][gt]
        for threshold in block:
            iou_min = truth.thresholds[gt] if protocol.class_ious else protocol.least[threshold]
            reaching_rows = np.flatnonzero(iou >= iou_min)
            bit = threshold_bits(block, len(protocol.areas), threshold)
            first_rows = reaching_rows[_is_first_of_each(gt[reaching_rows], len(truth.is_group))]
            positive[first_rows, word_index] |= bit & ~nothing_bits[first_rows]
            ignored[reaching_rows, word_index] |= bit & nothing_bits[reaching_rows]
            if threshold == protocol.reference:
                # `hits.gt` names what is matched here: first hits, and those ignored in area range 0.
                first_area_bit = np.uint64(1 << (threshold - block.start))
                has_match[reaching_rows] = (ignored[reaching_rows, word_index] & first_area_bit) != 0
                has_match[first_rows] = True
    hits.gt[has_match] = gt[has_match]
    return hits.take(np.flatnonzero((positive | ignored).any(axis=1)))


def _match_groups(pairs: Pairs, protocol: Protocol, truth: Truth, hits: Hits) -> Hits:
    """Match detections, where they have no hit, with the group-of box or region that covers them best.

    Returns the hits of detections that are not among `hits`; for the others, sets bits of `hits.ignored`.
    `pairs.ioa` must be known. Protocols with groups have one threshold, so only the first word is used.
    """
    assert pairs.ioa is not None
    # Row in `hits` of each detection, -1 = none; and the bits under which it has no hit.
    all_bits = threshold_bits(truth.blocks[0], len(protocol.areas), *truth.blocks[0])
    hit_of_det = np.full(len(pairs.rank), -1)
    hit_of_det[hits.det] = np.arange(len(hits.det))
    open_bits = np.full(len(pairs.rank), all_bits)
    open_bits[hits.det] &= ~(hits.positive | hits.ignored)[:, 0]
    iou_min = truth.thresholds[pairs.gt] if protocol.class_ious else protocol.ious[0]
    is_group_pair = truth.is_group[pairs.gt] & (pairs.ioa >= iou_min) & (open_bits[pairs.det] != 0)
    det, gt, ioa = pairs.det[is_group_pair], pairs.gt[is_group_pair], pairs.ioa[is_group_pair]
    best_pairs = best_of_each(det, ioa)
    det, gt = det[best_pairs], gt[best_pairs]

    # A group that counts is one true positive, with the best of its detections, under bit 0 alone: the first
    # area range. Under all other bits its detections are ignored.
    is_true_positive = (
        _is_first_of_each(gt, len(truth.is_group)) & (truth.weight > 0) & ~truth.is_outside[0][gt]
    )
    ignored_bits, is_new = open_bits[det] & ~is_true_positive.astype(np.uint64), hit_of_det[det] < 0
    hits.ignored[hit_of_det[det[~is_new]], 0] |= ignored_bits[~is_new]
    words = is_true_positive.astype(np.uint64)[:, None], ignored_bits[:, None]
    return Hits(det, *words, gt).take(is_new)


def _is_first_of_each(gt: Ints, n: int) -> Mask:
    """(rows,) mask of the rows that are the first of their ground truth.

    `gt` (rows,) are ground truths below `n`, ordered by the descending score of their detections.
    """
    is_first: Mask = first_index_of(gt, n)[gt] == np.arange(len(gt))
    return is_first


# -------------------------------------------------------------------------------------------------- greatest
# Pairs by descending IoU.


def _match_greatest(pairs: Pairs, protocol: Protocol, truth: Truth) -> Hits:
    """Take pairs by descending IoU; of equal pairs the first ground truth, then the best-ranked detection.

    They are taken once, down to the lowest threshold: those of a higher threshold are the first of them.
    """
    pair_rows = np.flatnonzero(pairs.iou >= find_iou_floor(protocol))
    det, gt, iou = pairs.det[pair_rows], pairs.gt[pair_rows], pairs.iou[pair_rows]
    order = np.lexsort((pairs.rank[det], gt, -iou))  # the last key decides first
    order = order[match_one_to_one(det[order], gt[order])]
    order = order[np.argsort(det[order], kind="stable")]
    det, gt, iou = det[order], gt[order], iou[order]
    hits = Hits.unmatched(det, len(truth.blocks))
    for word_index, block in enumerate(truth.blocks):
        nothing_bits = truth.nothing_bits[word_index][gt]
        for threshold in block:
            bit = threshold_bits(block, len(protocol.areas), threshold)
            reached_bits = np.where(iou >= protocol.ious[threshold], bit, np.uint64(0))
            hits.positive[:, word_index] |= reached_bits & ~nothing_bits
            hits.ignored[:, word_index] |= reached_bits & nothing_bits
    hits.gt[:] = np.where(iou >= protocol.ious[protocol.reference], gt, -1)
    return hits
