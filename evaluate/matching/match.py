"""Match detections with ground truth: one protocol, or several that share the comparison of boxes.

The rules are stated plainly, one box after the other, in `rules.py`; `match` must agree with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from odm.evaluate.matching.labels import boxed_in_part
from odm.evaluate.matching.matches import Matches, Outcome, join_hits
from odm.evaluate.matching.order import argsort_descending
from odm.evaluate.matching.pairs import Pairs, find_pairs, floor_of
from odm.evaluate.matching.prepare import Truth, beyond_cap, cap_per_class, fp_areas, prepare
from odm.evaluate.matching.rules import (
    all_free,
    forget_unsure_groups,
    match_best,
    match_free,
    match_greatest,
    match_guesses,
    match_top_detections,
)
from odm.evaluate.matching.sides import Joined, Mask
from odm.evaluate.scores.protocols import Protocol
from odm.tables import Longs


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
        The pairs of the prepared sides at `floor_of` the protocol or lower, if they are known already.
    order
        Positions of the detections of the prepared sides by descending score, if ties do not stand as there.
    """
    sides, dropped = prepare(joined, protocol)
    if order is None:
        order = argsort_descending(sides.detections.score)
    return _match(sides, protocol, dropped, order, pairs)


def match_all(joined: Joined, protocols: Sequence[Protocol]) -> Iterator[Matches]:
    """The matches under each protocol; protocols that measure the same boxes alike share the comparison."""
    prepared: dict[tuple[Any, ...], tuple[Joined, tuple[tuple[str, int], ...]]] = {}
    orders: dict[int, Longs] = {}
    found: dict[tuple[Any, ...], tuple[float, Pairs]] = {}
    for p in protocols:
        if _prepared_as(p) not in prepared:
            prepared[_prepared_as(p)] = prepare(joined, p)
        sides, dropped = prepared[_prepared_as(p)]
        same_detections = id(sides.detections)
        if same_detections not in orders:
            orders[same_detections] = argsort_descending(sides.detections.score)
        order = orders[same_detections]
        key = id(sides.truth), same_detections, *_measured_as(p)
        if key not in found:
            floor = min(floor_of(q) for q in protocols if _measured_as(q) == _measured_as(p))
            found[key] = floor, _find(sides, p, floor, order, beyond_cap(sides, p, order))
        floor, pairs = found[key]
        if floor < floor_of(p):
            pairs = pairs.above(floor_of(p))
        yield _match(sides, p, dropped, order, pairs)


def _prepared_as(p: Protocol) -> tuple[Any, ...]:
    """What `prepare` asks of a protocol."""
    cap = p.max_dets if p.cap_of == "image" else None
    empty = p.drop_empty and (p.as_given, p.drop_empty_truth)
    dropped = empty, p.drop_flags, p.drop_repeated, p.score_above
    return p.hierarchical, dropped, p.labelled_only, cap, p.single


def _measured_as(p: Protocol) -> tuple[Any, ...]:
    """What finding pairs asks of a protocol."""
    as_given = p.as_given and p.pixels == "edges"
    many = p.crowd_flags, p.group_weight is not None
    one = p.match, p.match == "best" and p.last_of_equals
    return p.pixels, as_given, p.single and p.ious, *many, *one, cap_per_class(p)


def _find(sides: Joined, protocol: Protocol, floor: float, order: Longs, beyond: Mask | None) -> Pairs:
    """The pairs that the rules of a protocol look at."""
    among = None if beyond is None else ~beyond
    return find_pairs(sides, protocol, floor, order, among=among, best_only=protocol.match != "free")


def _match(
    sides: Joined,
    protocol: Protocol,
    dropped: tuple[tuple[str, int], ...],
    order: Longs,
    pairs: Pairs | None,
) -> Matches:
    """The matches of prepared sides, whose detections stand in `order` by descending score."""
    beyond = beyond_cap(sides, protocol, order)
    if pairs is None:
        pairs = _find(sides, protocol, floor_of(protocol), order, beyond)
    if protocol.metric == "top-k":
        outcome = match_guesses(sides, protocol, pairs, order)
    elif protocol.metric == "corloc":
        outcome = match_top_detections(sides, protocol, pairs)
    else:
        outcome = _match_boxes(sides, protocol, pairs, beyond)
    detections, hits = sides.detections, outcome.hits
    hit_gt = np.full(len(hits.det), -1, np.int32)
    matched = hits.gt >= 0
    hit_gt[matched] = sides.truth.row[hits.gt[matched]]
    frequency = tuple(sides.frequency.get(name, "") for name in sides.classes)
    return Matches(
        protocol=protocol,
        classes=sides.classes,
        category=detections.category,
        score=detections.score,
        image=detections.image,
        row=detections.row,
        fp_if_unmatched=outcome.fp_if_unmatched,
        hit=hits.det.astype(np.int64),
        positive=hits.positive,
        ignored=hits.ignored,
        hit_rank=pairs.rank[hits.det],
        hit_gt=hit_gt,
        npos=outcome.npos,
        gt_ignored=outcome.gt_ignored,
        guesses=outcome.guesses,
        dropped=dropped,
        frequency=frequency if protocol.by_frequency else (),
        order=order,
    )


def _match_boxes(sides: Joined, protocol: Protocol, pairs: Pairs, beyond: Mask | None) -> Outcome:
    """Each detection with at most one ground truth; those `beyond` the cap are ignored."""
    truth = Truth(sides, protocol)
    exempt = beyond
    if protocol.exempt_partial:
        partial = boxed_in_part(sides)
        exempt = partial if beyond is None else beyond | partial
    if beyond is not None:
        pairs = pairs.of(~beyond)
    rule = {"free": match_free, "best": match_best, "greatest": match_greatest}[protocol.match]
    hits = rule(pairs, protocol, truth)
    if pairs.large:  # a bounded number of pairs at a time, which take what is left
        found, free = [hits], all_free(truth)
        for group in pairs.large:
            found += (match_free(piece, protocol, truth, free) for piece in pairs.pieces_of(group))
        hits, detections = join_hits(found), sides.detections
        of = hits.det
        hits = hits.take(np.lexsort((pairs.rank[of], detections.category[of], detections.image[of])))
    if protocol.group_weight:
        forget_unsure_groups(hits, truth, sides.detections)
    no_guesses = np.zeros((0, 2), np.int64)
    return Outcome(hits, fp_areas(sides.detections, protocol, exempt), *truth.counts(sides), no_guesses)
