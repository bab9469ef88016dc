"""Match detections with ground truth, image by image: tables that can be concatenated.

All combinations of IoU threshold and area range are matched at once: each is a bit of a word. Where a
detection takes the best free ground truth, the k-th detections of all images and classes are matched in one
round.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.join import Joined, Side, boxed_in_part, expand, keep_wanted, labelled
from odm.evaluate.order import argsort_descending, argsort_int
from odm.evaluate.pairs import SPARSE, Mask, Pairs, best_of_each, find_pairs, geometry
from odm.evaluate.protocols import AreaRange, Protocol
from odm.parallel import in_order
from odm.tables import Flag, Floats, Ints, Longs

Words = NDArray[np.uint64]

PAIRS_OF_PART = 2**17
"""Pairs that are matched at a time."""

MANY = 32
"""With more pairs than this a detection is matched by itself, its pairs not sorted."""

CEILING = 1 - 1e-10
"""The highest IoU that `coco` asks for, as in pycocotools."""

EMPTY_TRUTHS = "ground truths without area"
"""What is dropped that is not a detection, as `Matches.dropped` names it."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Matches:
    """What became of every detection under one protocol; tables of shards can be concatenated.

    The first four columns have a row per detection. ``hit`` names the rows that matched something; bit
    ``area * len(block) + iou - block.start`` of the word of each `word_blocks` says under which threshold
    and area range.
    """

    protocol: Protocol
    classes: tuple[str, ...]
    category: Ints
    score: Floats
    image: Ints
    row: Ints
    """Row in the detections' dataset."""
    live: NDArray[np.uint8] | None
    """Bit per area range: a detection that matches nothing is a false positive. None = all are."""
    hit: Longs
    positive: Words
    """(hits, words): true positive."""
    ignored: Words
    """(hits, words): matched to what counts as nothing."""
    hit_rank: Ints
    """Place of the hit among the detections of its image and class."""
    hit_gt: Ints
    """Row in the ground truth's dataset that was matched at the protocol's reference IoU, -1 = none."""
    npos: Longs
    """(classes, areas) ground truths that count."""
    gt_ignored: Longs
    """(classes,) ground truths that do not."""
    guesses: Longs
    """``top-k``: for every image with ground truth the first guess with the right class, and with a hit."""
    dropped: tuple[tuple[str, int], ...]
    """What was left out before, and how many."""
    frequency: tuple[str, ...] = ()
    """How frequent each class is, empty where that is not known; of protocols that ask for it."""
    order: Longs | None = None
    """Rows by falling score, ties as they rank, where that is known."""


def concatenate(parts: Sequence[Matches]) -> Matches:
    """The matches of disjoint sets of images as one.

    Raises
    ------
    ValueError
        If there are none, or they are of different protocols or classes.
    """
    if not parts:
        raise ValueError("nothing to concatenate")
    first = parts[0]
    if any(p.protocol != first.protocol or p.classes != first.classes for p in parts):
        raise ValueError("matches of different protocols or classes cannot be concatenated")

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(p, name) for p in parts])

    starts = np.cumsum([0] + [len(p.score) for p in parts])
    dropped: dict[str, int] = {}
    for p in parts:
        for what, n in p.dropped:
            dropped[what] = dropped.get(what, 0) + n
    live = None
    if any(p.live is not None for p in parts):
        full = np.uint8(2 ** len(first.protocol.areas) - 1)
        live = np.concatenate([np.full(len(p.score), full) if p.live is None else p.live for p in parts])
    return Matches(
        protocol=first.protocol,
        classes=first.classes,
        live=live,
        hit=np.concatenate([p.hit + start for p, start in zip(parts, starts.tolist(), strict=False)]),
        npos=np.sum([p.npos for p in parts], axis=0),
        gt_ignored=np.sum([p.gt_ignored for p in parts], axis=0),
        dropped=tuple(dropped.items()),
        frequency=first.frequency,
        **{
            name: column(name)
            for name in (
                "category",
                "score",
                "image",
                "row",
                "positive",
                "ignored",
                "hit_rank",
                "hit_gt",
                "guesses",
            )
        },
    )


# ---------------------------------------------------------------------------------------------- matching


def prepare(joined: Joined, protocol: Protocol) -> tuple[Joined, tuple[tuple[str, int], ...]]:
    """What a protocol changes before it compares anything, and what it left out."""
    dropped = []
    if protocol.hierarchical:
        joined = expand(joined)
    joined = keep_wanted(joined)
    if protocol.cap_of == "image" and protocol.max_dets is not None:
        keep = _best_of_images(joined.detections, protocol.max_dets)
        if not keep.all():
            what = f"beyond the best {protocol.max_dets} of the image"
            dropped.append((what, int(np.count_nonzero(~keep))))
            joined = joined.only(detections=keep)
    if protocol.drop_empty:
        keep = _with_area(joined.detections, protocol)
        if not keep.all():
            dropped.append(("without area", int(np.count_nonzero(~keep))))
            joined = joined.only(detections=keep)
    if protocol.drop_empty_truth:
        keep = _areas(joined.truth) > 0
        if not keep.all():
            dropped.append((EMPTY_TRUTHS, int(np.count_nonzero(~keep))))
            joined = joined.only(truth=keep)
    if protocol.labelled_only:
        keep = labelled(joined)
        if not keep.all():
            dropped.append(("class neither boxed nor labelled on the image", int(np.count_nonzero(~keep))))
            joined = joined.only(detections=keep)
    return joined, tuple(dropped)


def _with_area(side: Side, protocol: Protocol) -> Mask:
    if protocol.as_given:
        positive: Mask = side.wh[:, 0] * side.wh[:, 1] > 0
        return positive
    return (side.xyxy[:, 2] > side.xyxy[:, 0]) & (side.xyxy[:, 3] > side.xyxy[:, 1])


def _best_of_images(detections: Side, cap: int) -> Mask:
    """(n,) the best `cap` detections of every image, of all classes; equal scores in their order."""
    if detections.place is not None:
        return detections.place < cap
    n = np.bincount(detections.image, minlength=1)
    if n.max() <= cap:
        return np.ones(len(detections), np.bool_)
    order = argsort_descending(detections.score)
    order = order[argsort_int(detections.image[order], len(n))]
    keep = np.zeros(len(detections), np.bool_)
    keep[order[np.arange(len(order)) - np.repeat(np.cumsum(n) - n, n) < cap]] = True
    return keep


def word_blocks(protocol: Protocol) -> list[range]:
    """Which of a protocol's IoU thresholds each word of its matches holds."""
    per_word = max(1, 64 // len(protocol.areas))
    n = len(protocol.ious)
    return [range(i, min(i + per_word, n)) for i in range(0, n, per_word)]


def threshold_bits(block: range, n_areas: int, *ious: int) -> np.uint64:
    """The bits of some thresholds of a word, for all area ranges."""
    one_area = sum(1 << (t - block.start) for t in ious)
    return np.uint64(sum(one_area << (a * len(block)) for a in range(n_areas)))


def floor_of(protocol: Protocol) -> float:
    """The lowest IoU that can matter to a protocol."""
    return 1e-9 if protocol.size_threshold else min(*protocol.ious, CEILING)


def match(joined: Joined, protocol: Protocol, *, pairs: Pairs | None = None) -> Matches:
    """Match the detections of `joined` under `protocol`.

    Parameters
    ----------
    joined
        Both sides, or a shard of them.
    protocol
        The rules.
    pairs
        The pairs of the prepared sides at `floor_of` the protocol or lower, if they are known already.
    """
    joined, dropped = prepare(joined, protocol)
    return _match(joined, protocol, dropped, pairs, None)


def _match(
    joined: Joined,
    protocol: Protocol,
    dropped: tuple[tuple[str, int], ...],
    pairs: Pairs | None,
    order: Longs | None,
) -> Matches:
    detections = joined.detections
    order = argsort_descending(detections.score) if order is None else order
    beyond = _beyond_cap(joined, protocol, order)
    if pairs is None:
        pairs = _find(joined, protocol, floor_of(protocol), order, beyond)
    truth = Truth(joined, protocol)
    guesses = np.zeros((0, 2), np.int64)
    live: NDArray[np.uint8] | None
    if protocol.metric == "top-k":
        hits, live, guesses = _first_guesses(joined, protocol, pairs, order)
    elif protocol.metric == "corloc":
        hits, live = _top_detections(joined, protocol, pairs)
    else:
        silent = beyond
        if protocol.spares_partial:
            spared = boxed_in_part(joined)
            silent = spared if beyond is None else beyond | spared
        live = _live(detections, protocol, silent)
        if beyond is not None:
            pairs = pairs.of(~beyond)
        hits = _match_pairs(pairs, protocol, truth, detections)
        if protocol.group_weight:
            _forget_unsure_groups(hits, truth, detections)
    npos, gt_ignored = truth.counts(joined)
    if protocol.metric in ("corloc", "top-k"):
        npos, gt_ignored = _images_per_class(joined)[:, None], np.zeros(len(joined.classes), np.int64)
    return Matches(
        protocol=protocol,
        classes=joined.classes,
        category=detections.category,
        score=detections.score,
        image=detections.image,
        row=detections.row,
        live=live,
        hit=hits.det.astype(np.int64),
        positive=hits.positive,
        ignored=hits.ignored,
        hit_rank=pairs.rank[hits.det],
        hit_gt=np.where(hits.gt >= 0, joined.truth.row[hits.gt], -1).astype(np.int32)
        if len(joined.truth)
        else np.full(len(hits.det), -1, np.int32),
        npos=npos,
        gt_ignored=gt_ignored,
        guesses=guesses,
        dropped=dropped,
        frequency=tuple(joined.frequency.get(name, "") for name in joined.classes)
        if protocol.by_frequency
        else (),
        order=order,
    )


def _find(joined: Joined, protocol: Protocol, floor: float, order: Longs, beyond: Mask | None) -> Pairs:
    """The pairs that the rules of a protocol look at."""
    among = None if beyond is None else ~beyond
    return find_pairs(joined, protocol, floor, order, among=among, best_only=protocol.match != "free")


def match_all(joined: Joined, protocols: Sequence[Protocol]) -> Iterator[Matches]:
    """The matches under each protocol; protocols that measure boxes alike share the comparison."""
    prepared: dict[tuple[Any, ...], tuple[Joined, tuple[tuple[str, int], ...], Longs]] = {}
    lowest: dict[tuple[Any, ...], float] = {}
    for p in protocols:
        key = _shared(p)
        lowest[key] = min(lowest.get(key, 1.0), floor_of(p))
    found: dict[tuple[Any, ...], Pairs] = {}
    usual: Longs | None = None
    for p in protocols:
        ready = _prepared_as(p)
        if ready not in prepared:
            side, dropped = prepare(joined, p)
            if side.detections is joined.detections:
                usual = argsort_descending(side.detections.score) if usual is None else usual
            own = usual if usual is not None and side.detections is joined.detections else None
            prepared[ready] = side, dropped, argsort_descending(side.detections.score) if own is None else own
        side, dropped, order = prepared[ready]
        key = _shared(p)
        # The same boxes measured in the same way, whatever was prepared.
        key = (id(side.truth), id(side.detections), *key[1:])
        if key not in found:
            floor = min(lowest[_shared(q)] for q in protocols if _shared(q)[1:] == _shared(p)[1:])
            found[key] = _find(side, p, floor, order, _beyond_cap(side, p, order))
        pairs = found[key]
        if len(protocols) > 1:
            pairs = pairs.above(floor_of(p))
        else:
            found.clear()
        yield _match(side, p, dropped, pairs, order)


def _prepared_as(p: Protocol) -> tuple[Any, ...]:
    cap = p.max_dets if p.cap_of == "image" else None
    return p.hierarchical, p.drop_empty and (p.as_given, p.drop_empty_truth), p.labelled_only, cap


def _shared(p: Protocol) -> tuple[Any, ...]:
    return (
        _prepared_as(p),
        p.pixels,
        p.as_given and p.pixels == "edges",
        p.many,
        p.group_weight is not None,
        p.match,
        _cap(p),
    )


class Truth:
    """What the ground truths are to a protocol, as words of bits."""

    def __init__(self, joined: Joined, protocol: Protocol) -> None:
        side = joined.truth
        self.side, self.protocol = side, protocol
        self.blocks = word_blocks(protocol)
        self.group_key = side.image.astype(np.int64) * max(len(joined.classes), 1) + side.category
        self.many = (side.flags & np.uint16(protocol.many)) != 0
        nothing = (side.flags & np.uint16(protocol.ignored | protocol.many)) != 0
        self.group = np.zeros(len(side), np.bool_)
        if protocol.group_weight is not None:
            self.group = (side.flags & np.uint16(Flag.GROUP_OF)) != 0
        area = _areas(side)
        self.outside = np.stack([nothing | _outside(area, a) for a in protocol.areas])
        """(areas, n) what counts as nothing."""
        self.weight = protocol.group_weight or 0
        self._words: dict[int, Words] = {}

    def words(self, block: range) -> Words:
        """(n,) the bits under which a ground truth counts as nothing."""
        if block.start in self._words:
            return self._words[block.start]
        bits = np.zeros(self.outside.shape[1], np.uint64)
        full = np.uint64(2 ** len(block) - 1)
        for a, outside in enumerate(self.outside):
            bits |= np.where(outside, full << np.uint64(a * len(block)), np.uint64(0))
        self._words[block.start] = bits
        return bits

    def own_threshold(self) -> Floats:
        """(n,) the lower threshold of small ground truths."""
        left, top, right, bottom, _ = geometry(self.side.xyxy, self.side.wh, self.protocol)
        w, h = right - left, bottom - top
        with np.errstate(invalid="ignore", divide="ignore"):
            own: Floats = np.fmin(w * h / ((w + 10) * (h + 10)), self.protocol.ious[0])
        return own

    def counts(self, joined: Joined) -> tuple[Longs, Longs]:
        """(classes, areas) ground truths that count, and (classes,) the others."""
        n_classes = len(joined.classes)
        category = joined.truth.category
        left_out = self.group & (self.weight == 0)
        npos = np.stack(
            [np.bincount(category[~(o | left_out)], minlength=n_classes) for o in self.outside], axis=1
        )
        return npos, np.bincount(category, minlength=n_classes) - npos[:, 0]


def _areas(side: Side) -> Floats:
    return np.where(np.isnan(side.area), side.wh[:, 0] * side.wh[:, 1], side.area)


def _outside(area: Floats, bounds: AreaRange) -> Mask:
    outside: Mask = (area < bounds.low) | (area > bounds.high)
    return outside


def _live(detections: Side, protocol: Protocol, silent: Mask | None) -> NDArray[np.uint8] | None:
    """Bit per area range: whether a detection that matches nothing is a false positive there.

    The `silent` ones never are.
    """
    area = detections.wh[:, 0] * detections.wh[:, 1]
    outside = [_outside(area, a) for a in protocol.areas]
    if silent is None and not any(o.any() for o in outside):
        return None
    live = np.zeros(len(detections), np.uint8)
    for a, o in enumerate(outside):
        live |= np.left_shift(~o, np.uint8(a), dtype=np.uint8)
    if silent is not None:
        live[silent] = 0
    return live


def _cap(protocol: Protocol) -> int | None:
    """How many detections of an image and class count, None = all."""
    capped = protocol.cap_of != "image" and protocol.metric not in ("corloc", "top-k")
    return protocol.max_dets if capped else None


def _beyond_cap(joined: Joined, protocol: Protocol, order: Longs) -> Mask | None:
    """The detections that are too many of their image and class; None if there are none."""
    detections, cap = joined.detections, _cap(protocol)
    if cap is None:
        return None
    n_classes = max(len(joined.classes), 1)
    if not len(detections):
        return None
    # Only an image with that many detections of all classes can have them of one.
    full = np.bincount(detections.image) > cap
    rows = order[full[detections.image[order]]]
    key = detections.image[rows].astype(np.int64) * n_classes + detections.category[rows]
    if len(full) * n_classes <= 4 * len(detections) + SPARSE:
        n = np.bincount(key, minlength=1)
    else:
        _, key, n = np.unique(key, return_inverse=True, return_counts=True)
    if not len(n) or n.max() <= cap:
        return None
    # What is left are the detections of the few images and classes that have too many.
    crowded = (n > cap)[key]
    rows, key = rows[crowded], key[crowded]
    _, group, counts = np.unique(key, return_inverse=True, return_counts=True)
    rows = rows[argsort_int(group, len(counts))]
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    beyond = np.zeros(len(detections), np.bool_)
    beyond[rows[place >= cap]] = True
    return beyond


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Hits:
    """The detections that matched something; bits as in `Matches`, `gt` a position in the joined truth."""

    det: Ints
    positive: Words
    ignored: Words
    gt: Ints


def _match_pairs(pairs: Pairs, protocol: Protocol, truth: Truth, detections: Side) -> _Hits:
    """The matches of all pairs, those of large groups a bounded number at a time."""
    if not pairs.large:
        return _match_held(pairs, protocol, truth)
    hits = [_match_held(pairs, protocol, truth)]
    free = _all_free(truth)
    for group in pairs.large:
        hits += (_match_free(piece, protocol, truth, free) for piece in pairs.pieces_of(group))
    joined = _joined(hits)
    of = joined.det
    order = np.lexsort((pairs.rank[of], detections.category[of], detections.image[of]))
    return _Hits(*(getattr(joined, f.name)[order] for f in dataclasses.fields(_Hits)))


def _match_held(pairs: Pairs, protocol: Protocol, truth: Truth) -> _Hits:
    """The matches of the pairs that are held, by several processes if there are many."""
    work = _match_free if protocol.match == "free" else _match_best
    n = len(pairs.det)
    if n < PAIRS_OF_PART:
        return work(pairs, protocol, truth)
    # No pair of one image and class must be torn from another.
    n_parts = -(-n // PAIRS_OF_PART)
    key = truth.group_key[pairs.gt]
    new = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    cuts = new[np.searchsorted(new, [n * i // n_parts for i in range(1, n_parts)], side="right") - 1]
    ends = [0, *cuts.tolist(), n]
    parts = [pairs.part(slice(a, b)) for a, b in itertools.pairwise(ends)]
    hits = in_order(lambda part: work(part, protocol, truth), parts)
    return _joined(hits)


def _joined(hits: Sequence[_Hits]) -> _Hits:
    return _Hits(*(np.concatenate([getattr(h, f.name) for h in hits]) for f in dataclasses.fields(_Hits)))


def _all_free(truth: Truth) -> list[Words]:
    """Per word the bits under which each ground truth is still free: all of them."""
    n_areas = len(truth.outside)
    return [
        np.full(len(truth.group), threshold_bits(block, n_areas, *block), np.uint64) for block in truth.blocks
    ]


def _match_best(pairs: Pairs, protocol: Protocol, truth: Truth) -> _Hits:
    """Each detection goes to its best ground truth, even if that is taken: then it is a false positive."""
    plain = ~truth.group[pairs.gt] & (pairs.iou >= floor_of(protocol))
    det, gt, iou = pairs.det[plain], pairs.gt[plain], pairs.iou[plain]
    best = best_of_each(det, iou)
    det, gt, iou = det[best], gt[best], iou[best]
    positive = np.zeros((len(det), len(truth.blocks)), np.uint64)
    ignored = np.zeros_like(positive)
    marked = np.zeros(len(det), np.bool_)
    for w, block in enumerate(truth.blocks):
        nothing = truth.words(block)[gt]
        for t in block:
            reaches = np.flatnonzero(iou >= protocol.ious[t])
            bit = threshold_bits(block, len(protocol.areas), t)
            first = reaches[_first_of_each(gt[reaches], len(truth.group))]
            positive[first, w] |= bit & ~nothing[first]
            ignored[reaches, w] |= bit & nothing[reaches]
            if t == protocol.reference:
                marked[reaches] = ignored[reaches, w] & np.uint64(1 << (t - block.start)) != 0
                marked[first] = True
    kept = np.flatnonzero((positive | ignored).any(axis=1))
    hits = _Hits(det[kept], positive[kept], ignored[kept], np.where(marked, gt, -1)[kept])
    return hits if protocol.group_weight is None else _match_groups(pairs, protocol, truth, hits)


def _first_of_each(gt: Ints, n: int) -> Mask:
    """Which of the rows, by image, class and falling score, are the first of their ground truth."""
    taker = np.zeros(n, np.int64)
    taker[gt[::-1]] = np.arange(len(gt))[::-1]
    first: Mask = taker[gt] == np.arange(len(gt))
    return first


def _match_groups(pairs: Pairs, protocol: Protocol, truth: Truth, hits: _Hits) -> _Hits:
    """Detections that found nothing else go to the group-of box that covers them best."""
    if pairs.cover is None:
        return hits
    used = np.zeros(len(pairs.rank), np.bool_)
    used[hits.det] = True
    among = truth.group[pairs.gt] & (pairs.cover >= protocol.ious[0]) & ~used[pairs.det]
    det, gt, cover = pairs.det[among], pairs.gt[among], pairs.cover[among]
    best = best_of_each(det, cover)
    det, gt = det[best], gt[best]
    # A group that counts is one true positive, with the best of its detections.
    takes = _first_of_each(gt, len(truth.group)) & (truth.weight > 0) & ~truth.outside[0][gt]
    positive, ignored = _one_bit(takes, ~takes)
    return _Hits(
        np.concatenate([hits.det, det]),
        np.concatenate([hits.positive, positive]),
        np.concatenate([hits.ignored, ignored]),
        np.concatenate([hits.gt, gt]),
    )


def _forget_unsure_groups(hits: _Hits, truth: Truth, detections: Side) -> None:
    """A group-of box whose best detection scores 0 or less is not found, as in the TensorFlow program."""
    unsure = (hits.gt >= 0) & truth.group[hits.gt] & (detections.score[hits.det] <= 0)
    hits.ignored[unsure] |= hits.positive[unsure]
    hits.positive[unsure] = 0


def _one_bit(positive: Mask, ignored: Mask) -> tuple[Words, Words]:
    return positive.astype(np.uint64)[:, None], ignored.astype(np.uint64)[:, None]


def _match_free(
    pairs: Pairs, protocol: Protocol, truth: Truth, still_free: list[Words] | None = None
) -> _Hits:
    """Each detection takes the best ground truth that is free, one that counts before one that does not.

    `still_free` is what better detections left, and is changed; without it all ground truths are free.
    """
    still_free = _all_free(truth) if still_free is None else still_free
    iou = pairs.iou
    if pairs.cover is not None:
        iou = np.where(truth.many[pairs.gt], pairs.cover, iou)
    floor = floor_of(protocol)
    keep = np.flatnonzero(iou >= floor)
    det, gt, iou = pairs.det[keep], pairs.gt[keep], iou[keep]
    if not len(det):
        none = np.zeros(0, np.int32)
        words = np.zeros((0, len(truth.blocks)), np.uint64)
        return _Hits(none, words, words, none)
    del keep
    # Pairs of each detection by falling IoU, unless there are many.
    new = np.concatenate([[True], det[1:] != det[:-1]])
    first = np.flatnonzero(new)
    n_pairs = np.diff(np.append(first, len(det)))
    several = np.flatnonzero(np.repeat((n_pairs > 1) & (n_pairs <= MANY), n_pairs))
    if len(several):
        owner = np.cumsum(new)[several]
        tie = -gt[several] if protocol.last_of_equals else gt[several]
        moved = several[np.lexsort((tie, -iou[several], owner))]
        gt[several], iou[several] = gt[moved], iou[moved]
    # The round of a detection: its place among the detections with pairs of its image and class.
    # Where neither the detection nor the ground truth has another pair, it need not wait for others.
    rounds = np.zeros(len(first), np.int64)
    waits = np.flatnonzero((n_pairs > 1) | (np.bincount(gt)[gt[first]] > 1))
    if len(waits):
        group = truth.group_key[gt[first[waits]]]
        starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
        rounds[waits] = np.arange(len(group)) - np.repeat(starts, np.diff(np.append(starts, len(group))))
    by_round = argsort_int(rounds, int(rounds.max()) + 1)
    limits = np.concatenate([[0], np.cumsum(np.bincount(rounds))])
    some_many = bool((n_pairs > MANY).any())
    reference = protocol.reference
    chosen = np.full(len(first), -1, np.int32)
    positive = np.zeros((len(first), len(truth.blocks)), np.uint64)
    ignored = np.zeros_like(positive)
    thresholds = np.minimum(protocol.ious, CEILING if protocol.averaged else 1)
    for w, block in enumerate(truth.blocks):
        n_areas = len(truth.outside)
        bits = np.array([threshold_bits(block, n_areas, *block[:n]) for n in range(len(block) + 1)])
        if protocol.size_threshold:
            reaches = bits[(iou >= truth.own_threshold()[gt]).astype(np.int64)]
        else:
            reaches = bits[np.searchsorted(thresholds[block.start : block.stop], iou, side="right")]
        marked = np.uint64(1) << np.uint64(reference - block.start) if reference in block else np.uint64(0)
        nothing = truth.words(block)
        free = still_free[w]
        some_nothing = bool(nothing[gt].any())
        for k in range(len(limits) - 1):
            rows = by_round[limits[k] : limits[k + 1]]
            if some_many:
                for row in rows[n_pairs[rows] > MANY].tolist():
                    own = slice(int(first[row]), int(first[row] + n_pairs[row]))
                    g = gt[own]
                    positive[row, w], ignored[row, w], marks = _take_best(
                        g, iou[own], reaches[own], nothing[g], truth.many[g], free, protocol.last_of_equals
                    )
                    for place, takes in marks:
                        if takes & marked:
                            chosen[row] = g[place]
                rows = rows[n_pairs[rows] <= MANY]
                if not len(rows):
                    continue
            starts, counts = first[rows], n_pairs[rows]
            open_ = np.full(len(rows), bits[-1])
            for stage in range(1 + some_nothing):
                for j in range(int(counts.max())):
                    having = np.flatnonzero(counts > j) if j else slice(None)
                    at = starts[having] + j
                    g = gt[at]
                    takes = open_[having] & reaches[at]
                    if stage == 0:
                        takes &= free[g] & ~nothing[g] if some_nothing else free[g]
                        free[g] &= ~takes
                        positive[rows[having], w] |= takes
                    else:
                        takes &= nothing[g]
                        takes &= np.where(truth.many[g], bits[-1], free[g])
                        free[g] &= ~takes
                        ignored[rows[having], w] |= takes
                    open_[having] &= ~takes
                    if marked:
                        seen = (takes & marked) != 0
                        chosen[rows[having][seen]] = g[seen]
    return _Hits(det[first], positive, ignored, chosen)


def _take_best(
    gt: Ints, iou: Floats, reaches: Words, nothing: Words, many: Mask, free: Words, last: bool
) -> tuple[np.uint64, np.uint64, list[tuple[int, np.uint64]]]:
    """What one detection takes of its pairs, whose ground truths rise: as true positives, and as nothing.

    Also at which of its pairs, and under which bits. Takes from `free`; of equals the `last` or the first.
    """
    taken = [np.uint64(0), np.uint64(0)]
    places: list[tuple[int, np.uint64]] = []
    for stage in range(2):
        if stage == 0:
            able = reaches & free[gt] & ~nothing
        else:
            able = reaches & nothing & ~taken[0]
            able &= np.where(many, ~np.uint64(0), free[gt])
        while len(able_at := np.flatnonzero(able)):
            if last:
                able_at = able_at[::-1]
            at = int(able_at[np.argmax(iou[able_at])])
            takes = able[at]
            taken[stage] |= takes
            free[gt[at]] &= ~takes
            able &= ~takes
            places.append((at, takes))
    return taken[0], taken[1], places


def _images_per_class(joined: Joined) -> Longs:
    """(classes,) how many images have ground truth of each class."""
    n_classes = max(len(joined.classes), 1)
    keys = np.unique(joined.truth.image.astype(np.int64) * n_classes + joined.truth.category)
    per_class: Longs = np.bincount(keys % n_classes, minlength=len(joined.classes))
    return per_class


def _best_hits(pairs: Pairs, protocol: Protocol, eligible: Mask) -> tuple[Ints, Ints]:
    """The eligible detections that reach the threshold with any ground truth, and their best one."""
    keep = (pairs.iou >= protocol.ious[0]) & eligible[pairs.det]
    det, gt, iou = pairs.det[keep], pairs.gt[keep], pairs.iou[keep]
    best = best_of_each(det, iou)
    return det[best], gt[best]


def _top_detections(joined: Joined, protocol: Protocol, pairs: Pairs) -> tuple[_Hits, NDArray[np.uint8]]:
    """The best detection of every image and class that has ground truth; all others are ignored."""
    del joined
    top = pairs.rank == 0
    det, gt = _best_hits(pairs, protocol, top)
    return _Hits(det, *_one_bit(np.ones(len(det), np.bool_), np.zeros(len(det), np.bool_)), gt), top.astype(
        np.uint8
    )


def _first_guesses(
    joined: Joined, protocol: Protocol, pairs: Pairs, order: Longs
) -> tuple[_Hits, NDArray[np.uint8], Longs]:
    """The best detections of every image with ground truth, whatever their class.

    The first hit of an image and class is a true positive, further ones are ignored, as are the detections
    beyond the guesses.
    """
    assert protocol.max_dets is not None
    detections, n_images = joined.detections, len(joined.images)
    asked = np.zeros(n_images, np.bool_)
    asked[joined.truth.image] = True
    rows = order[asked[detections.image[order]]]
    rows = rows[argsort_int(detections.image[rows], max(n_images, 1))]
    image = detections.image[rows]
    if detections.place is None:
        counts = np.bincount(image, minlength=n_images)
        place = np.arange(len(rows)) - (np.cumsum(counts) - counts)[image]
    else:
        place = detections.place[rows]
    within = place < protocol.max_dets
    rows, image, place = rows[within], image[within], place[within]

    guess = np.zeros(len(detections), np.bool_)
    guess[rows] = True
    det, gt = _best_hits(pairs, protocol, guess)
    best_gt = np.full(len(detections), -1, np.int32)
    best_gt[det] = gt
    first = np.full((n_images, 2), protocol.max_dets, np.int64)
    hits = best_gt[rows] >= 0
    for column, good in enumerate((pairs.rank[rows] >= 0, hits)):
        first[image[good][::-1], column] = place[good][::-1]
    det = rows[hits].astype(np.int32)
    key = detections.image[det].astype(np.int64) * len(joined.classes) + detections.category[det]
    takes = np.zeros(len(det), np.bool_)
    takes[np.unique(key, return_index=True)[1]] = True
    return _Hits(det, *_one_bit(takes, ~takes), best_gt[det]), guess.astype(np.uint8), first[asked]
