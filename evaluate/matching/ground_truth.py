"""Keep which ground truths count, are ignored and are still free under a protocol."""

from __future__ import annotations

import functools

import numpy as np

from odm.evaluate.matching.matches import Words, threshold_bits, word_blocks
from odm.evaluate.matching.pairs import measure_boxes
from odm.evaluate.matching.prepare import find_left_out, find_outside, get_column
from odm.evaluate.matching.sides import Joined, Mask
from odm.evaluate.scores.protocols import Protocol
from odm.tables import Floats, Longs


class Truth:
    """The ground truths under a protocol: which count, are ignored and are still free, as words of bits.

    Masks and words are (ground truths,) unless another shape is stated.
    """

    def __init__(self, joined: Joined, protocol: Protocol) -> None:
        side = joined.truth
        self.side, self.protocol, self.classes = side, protocol, joined.classes
        self.has_thresholds = protocol.size_threshold or bool(protocol.class_ious)
        self.blocks = word_blocks(protocol)
        self.group_key = joined.keys_of(side)
        """(n,) a number for the image and class."""
        self.is_crowd = protocol.crowds(side.flags)
        self.is_group = protocol.groups(side.flags)

        # What counts as nothing whatever its area: crowds, ignored boxes and regions; objects without a
        # labelled point; where the protocol says so, classes not detected on the image and ignored fields.
        is_nothing = self.is_crowd | ((side.flags & np.uint16(protocol.ignored | protocol.region_flags)) != 0)
        if protocol.measure == "oks" and side.source is not None and side.source.keypoints is not None:
            is_nothing |= side.source.keypoints.count_labelled_or_stated()[side.row] == 0
        if protocol.detected_only:
            is_nothing |= ~np.isin(self.group_key, joined.keys_of(joined.detections))
        for field in protocol.ignored_fields:
            is_nothing |= np.nan_to_num(get_column(side, field)) != 0
        self.is_outside = np.stack([is_nothing | find_outside(side, a) for a in protocol.areas])
        """(areas, n) which ground truths count as nothing."""

        self.weight = protocol.group_weight or 0
        self.is_counting = ~(self.is_outside | (self.is_group & (self.weight == 0)))
        """(areas, n) which ground truths count."""
        if protocol.counts_ignored:  # for recall, although a detection that matches one is ignored
            self.is_counting |= (side.flags & np.uint16(protocol.crowd_flags)) != 0

        self.nothing_bits: list[Words] = [_set_bits(self.is_outside, block) for block in self.blocks]
        """Per word (n,) the bits under which a ground truth counts as nothing."""
        n_areas, n_truth = self.is_outside.shape
        all_bits = [threshold_bits(block, n_areas, *block) for block in self.blocks]
        self.free_bits: list[Words] = [np.full(n_truth, bits, np.uint64) for bits in all_bits]
        """Per word (n,) the bits under which a ground truth is still free: at first all of them."""
        is_kept = np.stack([~find_left_out(joined.detections, a) for a in protocol.areas])
        self.kept_bits: list[Words] = (
            [] if is_kept.all() else [_set_bits(is_kept, block) for block in self.blocks]
        )
        """Per word (detections,) the bits of the set-ups that keep a detection; empty if all do."""

    def count(self, n_classes: int) -> Longs:
        """Return (classes, areas) how many ground truths count."""
        category = self.side.category
        counts = [np.bincount(category[counting], minlength=n_classes) for counting in self.is_counting]
        return np.stack(counts, axis=1)

    @functools.cached_property
    def thresholds(self) -> Floats:
        """(n,) the thresholds where they differ: those of classes, or lower ones of small ground truths.

        Those of ILSVRC are w * h / ((w + 10) * (h + 10)), but at most the protocol's first threshold. Crowds
        have the first threshold, whatever their size.
        """
        if self.protocol.class_ious:
            return self.protocol.least_of(self.classes)[self.side.category]
        left, top, right, bottom, _ = measure_boxes(self.side.xyxy, self.side.wh, self.protocol)
        w, h = right - left + self.protocol.pixel, bottom - top + self.protocol.pixel
        with np.errstate(invalid="ignore", divide="ignore"):
            # `fmin` takes the protocol's threshold where the quotient is NaN.
            thresholds: Floats = np.fmin(w * h / ((w + 10) * (h + 10)), self.protocol.ious[0])
        return np.where(self.is_crowd, self.protocol.ious[0], thresholds)


def _set_bits(mask: Mask, block: range) -> Words:
    """(n,) words with the bits of all thresholds of a block, in the areas where `mask` (areas, n) is True."""
    # 10 thresholds; True in area 0 and 2 of 4: bits 0-9 and 20-29 are set
    all_thresholds = 2 ** len(block) - 1
    words = [area_mask * np.uint64(all_thresholds << (a * len(block))) for a, area_mask in enumerate(mask)]
    bits: Words = np.bitwise_or.reduce(words)
    return bits
