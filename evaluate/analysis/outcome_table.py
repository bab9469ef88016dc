"""What became of each detection, and which ground truths count: the columns that every analysis reads.

They are made from the two joined sides and their matches. Analyses need not know how matches are stored.
"""

from __future__ import annotations

import functools
from typing import Self

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.evaluate.matching.ground_truth import Truth
from odm.evaluate.matching.matches import Matches, find_outcomes
from odm.evaluate.matching.prepare import areas_of, prepare
from odm.evaluate.matching.shapes import measure_overlaps
from odm.evaluate.matching.sides import Joined, Mask, SideTable
from odm.evaluate.scores.protocols import Protocol
from odm.evaluate.scores.score_order import group_rows_by_class, rank_rows
from odm.evaluate.scores.set_ups import AreaBits
from odm.tables import Floats, Ints, Longs

TP, FP, IGNORED = range(3)
"""The numbers of `Table.outcome`."""


class Truths(msgspec.Struct, frozen=True, eq=False):
    """The ground truths, one row each, ordered by image; all columns are (g,) but for the boxes."""

    row: Ints
    """Row in the ground truth's dataset."""
    image: Ints
    category: Ints
    xyxy: Floats
    """(g, 4) pixels."""
    area: Floats
    """Square pixels: that of the annotation, else width times height."""
    flags: NDArray[np.uint16]
    counts: NDArray[AreaBits]
    """Bit per area range: whether it counts there."""

    def __len__(self) -> int:
        return len(self.row)


class OutcomeTable(msgspec.Struct, frozen=True, eq=False, dict=True):
    """What became of every detection under one protocol, and the ground truths.

    ``outcome``, ``gt`` and ``iou`` are those at the protocol's reference IoU and in its first area range.
    Tables of disjoint shards of the images can be put together.
    """

    matches: Matches
    images: tuple[str, ...]
    truth: Truths
    xyxy: Floats
    """(n, 4) boxes of the detections in pixels, in the order of the matches' rows."""
    outcome: NDArray[np.uint8]
    """(n,) `TP`, `FP` or `IGNORED`."""
    gt: Ints
    """(n,) position in ``truth`` of what was matched, -1 = nothing."""
    iou: Floats
    """(n,) IoU of each TP with its ground truth, NaN for the others."""
    guess_image: Ints
    """Image of each row of ``matches.guesses``."""
    chosen: Longs | None = None
    """Numbers of the images that were evaluated, None = all; the others have no boxes here."""

    @property
    def rules(self) -> Protocol:
        """The protocol."""
        return self.matches.protocol

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.matches.classes

    @property
    def threshold(self) -> float:
        """The reference IoU."""
        return self.rules.ious[self.rules.reference]

    @property
    def score(self) -> Floats:
        """(n,) scores."""
        return self.matches.score

    @property
    def image(self) -> Ints:
        """(n,) numbers in ``images``."""
        return self.matches.image

    @property
    def category(self) -> Ints:
        """(n,) numbers in ``classes``."""
        return self.matches.category

    @property
    def evaluated(self) -> Longs:
        """Numbers of the images that were evaluated."""
        return np.arange(len(self.images)) if self.chosen is None else self.chosen

    @functools.cached_property
    def counting(self) -> Mask:
        """(g,) the ground truths that count."""
        counting: Mask = self.truth.counts & AreaBits(1) != 0
        return counting

    @functools.cached_property
    def is_found(self) -> Mask:
        """(g,) mask of the ground truths that a true positive is matched to."""
        is_found = np.zeros(len(self.truth), np.bool_)
        is_found[self.gt[self.outcome == TP]] = True
        return is_found

    @property
    def found(self) -> Mask:
        """The former name of `is_found`."""
        return self.is_found

    @property
    def missed(self) -> Mask:
        """(g,) mask of the ground truths that count and have no true positive."""
        return self.counting & ~self.is_found

    @functools.cached_property
    def n(self) -> Longs:
        """(classes,) ground truths that count."""
        return np.bincount(self.truth.category[self.counting], minlength=len(self.classes))

    @functools.cached_property
    def order(self) -> Longs:
        """(n,) rows by descending score, then image, then input."""
        return rank_rows(self.matches)

    @functools.cached_property
    def ranked(self) -> tuple[Longs, Longs]:
        """(n,) rows by class, then as in `order`; (classes + 1,) where each class begins."""
        rows, counts = group_rows_by_class(self.matches, self.order)
        return rows, np.concatenate([[0], np.cumsum(counts)])

    @classmethod
    def of(cls, joined: Joined, matches: Matches) -> Self:
        """Build the table from both sides, or a shard of them, and their matches."""
        rules = matches.protocol
        joined, _ = prepare(joined, rules)
        sides = Truth(joined, rules)
        truth, detections = joined.truth, joined.detections
        counts = np.zeros(len(truth), AreaBits)  # bit k: counts in area range k
        for area, counts_in_area in enumerate(sides.is_counting):
            counts |= np.left_shift(counts_in_area, AreaBits(area), dtype=AreaBits)
        if not np.array_equal(matches.row, detections.row):
            by_row = np.argsort(detections.row)
            # The detections in the order of the matches.
            detections = detections.take(by_row[np.searchsorted(detections.row[by_row], matches.row)])
        outcome, gt_row = find_outcomes(matches)
        gt = _find_positions(truth, matches, gt_row)

        # The IoU of true positives; in a group it is the share of the detection that lies inside.
        iou = np.full(len(outcome), np.nan)
        tp_rows = np.flatnonzero((outcome == TP) & (gt >= 0))
        iou[tp_rows], share = measure_overlaps(
            replace(joined, detections=detections), rules, tp_rows, gt[tp_rows]
        )
        in_group = sides.is_group[gt[tp_rows]]
        iou[tp_rows[in_group]] = share[in_group]
        boxes = truth.row, truth.image, truth.category, truth.xyxy
        return cls(
            matches=matches,
            images=joined.images,
            truth=Truths(*boxes, areas_of(truth), truth.flags, counts),
            xyxy=detections.xyxy,
            outcome=outcome,
            gt=gt,
            iou=iou,
            guess_image=matches.guesses[:, 2].astype(np.int32),  # its columns: class rank, hit rank, image
            chosen=joined.chosen,
        )


def _find_positions(truth: SideTable, matches: Matches, gt_row: Longs | Ints) -> Ints:
    """Return (n,) the position in `truth` of the ground truth that each detection matched, -1 = none.

    `gt_row` (n,) are rows of the dataset. With a class hierarchy, one row is a ground truth of several
    classes, so that row and class together tell which it is.
    """
    n_classes = len(matches.classes)
    position = np.full(len(gt_row), -1, np.int32)
    matched_rows = np.flatnonzero(gt_row >= 0)
    key = truth.row.astype(np.int64) * n_classes + truth.category
    by_key = np.argsort(key)
    matched_keys = gt_row[matched_rows].astype(np.int64) * n_classes + matches.category[matched_rows]
    position[matched_rows] = by_key[np.searchsorted(key[by_key], matched_keys)]
    return position
