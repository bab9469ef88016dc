"""What a protocol leaves out before it compares anything, what counts, and what is beyond its cap."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.matching.labels import expand, has_label
from odm.evaluate.matching.matches import TRUTHS, Words, threshold_bits, word_blocks
from odm.evaluate.matching.order import argsort_descending, argsort_int, first_of_runs, rank_in_runs
from odm.evaluate.matching.pairs import SPARSE, geometry
from odm.evaluate.matching.sides import Joined, Mask, SideTable, keep_wanted
from odm.evaluate.scores.protocols import AreaBits, AreaRange, Protocol
from odm.tables import Floats, LabelState, Longs


def prepare(joined: Joined, protocol: Protocol) -> tuple[Joined, tuple[tuple[str, int], ...]]:
    """What a protocol changes before it compares anything, and what it may leave out and how many of it."""
    if protocol.hierarchical:
        joined = expand(joined)
    joined = keep_wanted(joined)
    dropped: list[tuple[str, int]] = []

    def keep(what: str, **sides: Mask) -> None:
        nonlocal joined
        n = sum(int(np.count_nonzero(~mask)) for mask in sides.values())
        dropped.append((what, n))
        if n:
            joined = joined.only(**sides)

    if protocol.single:
        # Scores as 32-bit floats: the shortest decimals that stand for them, so that 0.9 is shown as 0.9.
        single = joined.detections.score.astype(np.float32)
        exact = single.astype(np.float64)
        short = np.round(exact, 7)
        score = np.where(short.astype(np.float32) == single, short, exact)
        joined = dataclasses.replace(joined, detections=dataclasses.replace(joined.detections, score=score))
    if protocol.drop_flags:
        dropped_flags = joined.truth.flags & np.uint16(protocol.drop_flags)
        keep(f"{TRUTHS}flagged as {protocol.drop_words}", truth=dropped_flags == 0)
    if protocol.drop_repeated:
        truth = joined.truth  # of those of one image, class and box the first
        columns: list[NDArray[Any]] = [truth.image, truth.category]
        columns += geometry(truth.xyxy, truth.wh, protocol)[:4]
        order = np.lexsort(columns[::-1])  # equal ones stay in their order
        first = np.zeros(len(truth), np.bool_)
        first[order[first_of_runs(*(column[order] for column in columns))]] = True
        keep(f"{TRUTHS}that duplicate another", truth=first)
    if protocol.score_above is not None:
        above = joined.detections.score > protocol.score_above
        keep(f"score {protocol.score_above:g} or lower", detections=above)
    if protocol.cap_of == "image" and protocol.max_dets is not None:
        best = _best_of_images(joined.detections, protocol.max_dets)
        keep(f"over the limit of {protocol.max_dets} per image", detections=best)
    if protocol.drop_empty:
        boxes = joined.detections
        has_area: Mask = boxes.wh[:, 0] * boxes.wh[:, 1] > 0
        if not protocol.as_given:
            has_area = np.all(boxes.xyxy[:, 2:] > boxes.xyxy[:, :2], axis=1)
        keep("without area", detections=has_area)
    if protocol.drop_empty_truth:
        keep(f"{TRUTHS}without area", truth=areas_of(joined.truth) > 0)
    if protocol.labelled_only:
        mask = has_label(joined, LabelState.PRESENT, LabelState.ABSENT, boxed=True)
        keep("class neither annotated nor labelled on the image", detections=mask)
    return joined, tuple(dropped)


def _best_of_images(detections: SideTable, cap: int) -> Mask:
    """(n,) the best `cap` detections of every image, of all classes; equal scores in their order."""
    if detections.rank_in_image is not None:
        return detections.rank_in_image < cap
    n = np.bincount(detections.image, minlength=1)
    if n.max() <= cap:
        return np.ones(len(detections), np.bool_)
    order = argsort_descending(detections.score)
    order = order[argsort_int(detections.image[order], len(n))]
    keep = np.zeros(len(detections), np.bool_)
    keep[order[rank_in_runs(np.cumsum(n) - n, len(order)) < cap]] = True
    return keep


def cap_per_class(protocol: Protocol) -> int | None:
    """How many detections of an image and class count, None = all."""
    capped = protocol.cap_of != "image" and protocol.metric not in ("corloc", "top-k")
    return protocol.max_dets if capped else None


def beyond_cap(joined: Joined, protocol: Protocol, order: Longs) -> Mask | None:
    """The detections that are too many of their image and class; None if there are none.

    `order` are the positions of the detections by descending score.
    """
    detections, cap = joined.detections, cap_per_class(protocol)
    if cap is None or not len(detections):
        return None
    key = joined.keys_of(detections)[order]
    if int(key.max()) <= 4 * len(detections) + SPARSE:
        n = np.bincount(key)
    else:
        _, key, n = np.unique(key, return_inverse=True, return_counts=True)
    if n.max() <= cap:
        return None
    # The detections of the few images and classes that have too many.
    crowded = np.flatnonzero((n > cap)[key])
    rows, key = order[crowded], key[crowded]
    by_key = np.argsort(key, kind="stable")
    rank = rank_in_runs(first_of_runs(key[by_key]), len(rows))
    beyond = np.zeros(len(detections), np.bool_)
    beyond[rows[by_key][rank >= cap]] = True
    return beyond


# ------------------------------------------------------------------------------------- what counts


class Truth:
    """What the ground truths are to a protocol, as words of bits."""

    def __init__(self, joined: Joined, protocol: Protocol) -> None:
        side = joined.truth
        self.side, self.protocol = side, protocol
        self.blocks = word_blocks(protocol)
        self.group_key = joined.keys_of(side)
        self.crowd = protocol.crowds(side.flags)
        self.group = protocol.groups(side.flags)
        nothing = self.crowd | ((side.flags & np.uint16(protocol.ignored)) != 0)
        area = areas_of(side)
        self.outside = np.stack([nothing | outside_range(area, a) for a in protocol.areas])
        """(areas, n) what counts as nothing."""
        self.weight = protocol.group_weight or 0
        self.counting = ~(self.outside | (self.group & (self.weight == 0)))
        """(areas, n) what counts."""
        per_block = [2 ** len(block) - 1 for block in self.blocks]
        self.nothing: list[Words] = [
            np.bitwise_or.reduce(
                [outside * np.uint64(bits << (a * len(block))) for a, outside in enumerate(self.outside)]
            )
            for block, bits in zip(self.blocks, per_block, strict=True)
        ]
        """Per word (n,) the bits under which a ground truth counts as nothing."""

    @functools.cached_property
    def free(self) -> list[Words]:
        """Per word (n,) the bits under which a ground truth is still free: at first all of them."""
        n_areas, n = self.outside.shape
        return [np.full(n, threshold_bits(block, n_areas, *block), np.uint64) for block in self.blocks]

    @functools.cached_property
    def own_threshold(self) -> Floats:
        """(n,) the lower threshold of small ground truths."""
        left, top, right, bottom, _ = geometry(self.side.xyxy, self.side.wh, self.protocol)
        w, h = right - left + self.protocol.pixel, bottom - top + self.protocol.pixel
        with np.errstate(invalid="ignore", divide="ignore"):
            own: Floats = np.fmin(w * h / ((w + 10) * (h + 10)), self.protocol.ious[0])
        return own


def areas_of(side: SideTable) -> Floats:
    """(n,) areas as given, else width times height."""
    return np.where(np.isnan(side.area), side.wh[:, 0] * side.wh[:, 1], side.area)


def outside_range(area: Floats, bounds: AreaRange) -> Mask:
    """(n,) which areas are not in a range."""
    outside: Mask = (area < bounds.low) | (area > bounds.high)
    return outside


def fp_areas(detections: SideTable, protocol: Protocol, exempt: Mask | None) -> NDArray[AreaBits] | None:
    """Bit per area range: whether a detection that matches nothing is a false positive there.

    The `exempt` ones never are. None where all are everywhere.
    """
    area = detections.wh[:, 0] * detections.wh[:, 1]
    outside = [outside_range(area, a) for a in protocol.areas]
    if exempt is None and not any(o.any() for o in outside):
        return None
    bits = np.zeros(len(detections), AreaBits)
    for a, o in enumerate(outside):
        bits |= np.left_shift(~o, AreaBits(a), dtype=AreaBits)
    if exempt is not None:
        bits[exempt] = 0
    return bits
