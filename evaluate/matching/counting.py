"""Which ground truths count, and which detections are false positives if they match nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.matching.matches import Words, word_blocks
from odm.evaluate.matching.pairs import geometry
from odm.evaluate.matching.sides import Joined, Mask, SideTable
from odm.evaluate.scores.protocols import AreaBits, AreaRange, Protocol
from odm.tables import Floats, Longs


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
        w, h = right - left + self.protocol.pixel, bottom - top + self.protocol.pixel
        with np.errstate(invalid="ignore", divide="ignore"):
            own: Floats = np.fmin(w * h / ((w + 10) * (h + 10)), self.protocol.ious[0])
        return own

    def counts(self, joined: Joined) -> tuple[Longs, Longs]:
        """(classes, areas) ground truths that count, and (classes,) the others."""
        n_classes = len(joined.classes)
        category = joined.truth.category
        npos = np.stack([np.bincount(category[own], minlength=n_classes) for own in self.counting], axis=1)
        return npos, np.bincount(category, minlength=n_classes) - npos[:, 0]


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
