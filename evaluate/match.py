"""Match detections with ground truth: one protocol, or several that share the comparison of boxes.

The rules are stated plainly, one box after the other, in `odm.evaluate.rules`; `match` must agree with them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.counting import Truth, fp_areas
from odm.evaluate.labels import boxed_in_part
from odm.evaluate.match_best import forget_unsure_groups, match_best
from odm.evaluate.match_free import all_free, match_free
from odm.evaluate.matches import Hits, Matches, join_hits
from odm.evaluate.order import argsort_descending
from odm.evaluate.pairs import Mask, Pairs, find_pairs, floor_of
from odm.evaluate.per_image import images_per_class, match_guesses, match_top_detections
from odm.evaluate.prepare import beyond_cap, cap_per_class, prepare
from odm.evaluate.protocols import Protocol
from odm.evaluate.sides import Joined, SideTable
from odm.parallel import in_order
from odm.tables import Longs

PAIRS_OF_PART = 2**17
"""Pairs that are matched at a time."""


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
    beyond = beyond_cap(joined, protocol, order)
    if pairs is None:
        pairs = _find(joined, protocol, floor_of(protocol), order, beyond)
    truth = Truth(joined, protocol)
    guesses = np.zeros((0, 2), np.int64)
    may_be_fp: NDArray[np.uint8] | None
    if protocol.metric == "top-k":
        hits, may_be_fp, guesses = match_guesses(joined, protocol, pairs, order)
    elif protocol.metric == "corloc":
        hits, may_be_fp = match_top_detections(joined, protocol, pairs)
    else:
        silent = beyond
        if protocol.exempt_partial:
            spared = boxed_in_part(joined)
            silent = spared if beyond is None else beyond | spared
        may_be_fp = fp_areas(detections, protocol, silent)
        if beyond is not None:
            pairs = pairs.of(~beyond)
        hits = _match_pairs(pairs, protocol, truth, detections)
        if protocol.group_weight:
            forget_unsure_groups(hits, truth, detections)
    npos, gt_ignored = truth.counts(joined)
    if protocol.metric in ("corloc", "top-k"):
        npos, gt_ignored = images_per_class(joined)[:, None], np.zeros(len(joined.classes), np.int64)
    return Matches(
        protocol=protocol,
        classes=joined.classes,
        category=detections.category,
        score=detections.score,
        image=detections.image,
        row=detections.row,
        fp_if_unmatched=may_be_fp,
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
            found[key] = _find(side, p, floor, order, beyond_cap(side, p, order))
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
        p.crowd_flags,
        p.group_weight is not None,
        p.match,
        cap_per_class(p),
    )


def _match_pairs(pairs: Pairs, protocol: Protocol, truth: Truth, detections: SideTable) -> Hits:
    """The matches of all pairs, those of large groups a bounded number at a time."""
    if not pairs.large:
        return _match_held(pairs, protocol, truth)
    hits = [_match_held(pairs, protocol, truth)]
    free = all_free(truth)
    for group in pairs.large:
        hits += (match_free(piece, protocol, truth, free) for piece in pairs.pieces_of(group))
    joined = join_hits(hits)
    of = joined.det
    order = np.lexsort((pairs.rank[of], detections.category[of], detections.image[of]))
    return Hits(*(getattr(joined, f.name)[order] for f in dataclasses.fields(Hits)))


def _match_held(pairs: Pairs, protocol: Protocol, truth: Truth) -> Hits:
    """The matches of the pairs that are held, by several processes if there are many."""
    work = match_free if protocol.match == "free" else match_best
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
    return join_hits(hits)
