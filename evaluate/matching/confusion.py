"""The confusion matrix: which class was taken for which."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.evaluate.matching.ground_truth import Truth
from odm.evaluate.matching.order import match_one_to_one
from odm.evaluate.matching.prepare import prepare
from odm.evaluate.matching.shapes import iterate_pairs
from odm.evaluate.matching.sides import Joined, Mask, merge_classes, split_images
from odm.evaluate.scores.protocols import Protocol
from odm.issues import UsageError, shorten, spell
from odm.tables import Floats, Ints, Longs

Of = Literal["gt", "det"]

MOST_CELLS = 2**22
"""A matrix of more cells is not written out."""

SPARSE = 2**17
"""Keys are counted in a table of all of them if it is no larger than this and a few entries per key."""

MOST_PAIRS = 2**22
"""The most overlapping pairs of one image; with more, a confusion matrix is refused."""


class Counts(msgspec.Struct, frozen=True, eq=False):
    """A sparse table of counts: only the m cells that are not 0.

    ``shape`` is that of the whole table, ``index`` the (m,) positions of the cells along each axis, ``n``
    their counts, (m,).
    """

    shape: tuple[int, ...]
    index: tuple[Longs, ...]
    n: Longs

    @classmethod
    def from_columns(cls, shape: tuple[int, ...], *columns: NDArray[np.integer]) -> Counts:
        """Count how often each combination of positions occurs; a column (rows,) for each axis of `shape`."""
        cells = np.ravel_multi_index(tuple(c.astype(np.int64) for c in columns), shape)
        keys, n = count_keys(cells, math.prod(shape))
        return cls(shape, tuple(np.unravel_index(keys, shape)), n)

    def dense(self) -> Longs:
        """Return the whole table, of ``shape``, with its zeros."""
        array = np.zeros(self.shape, np.int64)
        array[self.index] = self.n
        return array

    @property
    def key(self) -> Longs:
        """(m,) ascending positions of the cells in the flattened array."""
        return np.ravel_multi_index(self.index, self.shape).astype(np.int64)


class Confusion(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Counts of ground truths by their class and the class of the detection.

    ``table`` is sparse, (classes + 1, classes + 1): a row per class of the ground truth and a last one for
    the background (false positives), a column per class of the detections and a last one for what was missed.
    """

    classes: tuple[str, ...]
    table: Counts
    score: float
    """The least score of the detections; NaN where each class has its own."""
    iou: float

    @functools.cached_property
    def counts(self) -> Longs:
        """The whole table. Raises UsageError if it is too large."""
        if math.prod(self.table.shape) > MOST_CELLS:
            raise UsageError(
                f"{len(self.classes)} classes are too many for a whole confusion matrix: choose some with "
                f"{spell('only_classes')}; the confusion.csv of {spell('save')} lists the pairs that occur"
            )
        return self.table.dense()

    def cell_shares(self, of: Of) -> Floats:
        """(m,) the count of each of the m cells that are not 0, divided by the sum of its row (``gt``) or
        column.
        """
        line_of_cell = self.table.index[0 if of == "gt" else 1]
        sums = np.bincount(line_of_cell, weights=self.table.n)
        return self.table.n / sums[line_of_cell]

    def shares(self, of: Of) -> Floats:
        """The counts divided by the sum of their row (``gt``) or column (``det``); NaN where it is 0."""
        sums = self.counts.sum(axis=1 if of == "gt" else 0, keepdims=True)
        with np.errstate(invalid="ignore"):
            shares: Floats = self.counts / sums
        return shares

    def to_dict(self, of: Of | None = None) -> dict[str, Any]:
        """The matrix as plain data: counts, and beside them shares `of` one side, None where undefined.

        Rows are classes of the ground truth, columns those of the detections; the last of each is the
        background.
        """
        data = {
            "score": self.score if math.isfinite(self.score) else None,
            "iou": self.iou,
            "classes": list(self.classes),
            "counts": self.counts.tolist(),
        }
        if of is not None:
            shares = self.shares(of).tolist()
            data["shares_of"] = of
            data["shares"] = [[None if math.isnan(v) else v for v in row] for row in shares]
        return data


def count_keys(keys: Longs, n: int) -> tuple[Longs, Longs]:
    """Return the distinct keys, which are below `n`, ascending, and how often each occurs."""
    if n > 8 * len(keys) + SPARSE:  # most entries of a table of all keys would be 0
        unique_keys, n_times = np.unique(keys, return_counts=True)
        return unique_keys, n_times.astype(np.int64)
    counts = np.bincount(keys, minlength=n)
    occurring = np.flatnonzero(counts)
    return occurring, counts[occurring]


def counts_as_nothing(joined: Joined, rules: Protocol) -> Mask:
    """(n,) mask of the ground truths that do not count as objects: crowds, groups and ignored ones.

    Ignored are those that count as nothing in the first area range, that of all sizes.
    """
    truth = Truth(joined, rules)
    nothing: Mask = truth.is_outside[0] | truth.is_group  # crowds are among `is_outside`
    return nothing


def count_confusions(
    joined: Joined, rules: Protocol, *, score: float | Floats, iou: float = 0.5
) -> Confusion:
    """Count which class was taken for which.

    Pairs of one image are taken one to one: those of one class first, then the others, by descending
    IoU. Ground truths that count as nothing are left out, and so are the detections that lie on them. `rules`
    say how boxes are measured and what is ignored; `score` is the least score of a detection, of all or
    (classes,) of each class, `iou` the least IoU of a pair. Raises UsageError if one is out of range.
    """
    if not 0 < iou <= 1 or (isinstance(score, float) and not math.isfinite(score)):
        raise UsageError(
            f"confusion matrix at score {score} and IoU {iou}: expected a finite score and an IoU in 0..1"
        )
    joined, _ = prepare(joined, rules)
    score_min = np.broadcast_to(score, len(joined.classes))
    with np.errstate(invalid="ignore"):  # a class whose score is NaN keeps no detection
        joined = joined.only(detections=joined.detections.score >= score_min[joined.detections.category])
    is_nothing = counts_as_nothing(joined, rules)
    n_classes = len(joined.classes)

    # Row and column of the table for each pair, false positive and missed object; the last are background.
    rows, columns = [], []
    for gt_start, _, chunk in split_images(joined):
        is_void = is_nothing[gt_start : gt_start + len(chunk.truth)]
        det, gt, det_on_void = find_overlapping(chunk, rules, is_void, iou)
        pair_rows = match_one_to_one(det, gt)
        det, gt = det[pair_rows], gt[pair_rows]
        det_class, gt_class = chunk.detections.category, chunk.truth.category
        # Detections become false positives unless paired or on a void; objects are missed unless paired.
        is_unpaired, is_missed = np.ones(len(chunk.detections), np.bool_), ~is_void
        is_unpaired[det_on_void] = is_unpaired[det] = is_missed[gt] = False
        background_row = np.full(int(is_unpaired.sum()), n_classes)
        background_column = np.full(int(is_missed.sum()), n_classes)
        rows += [gt_class[gt], background_row, gt_class[is_missed]]
        columns += [det_class[det], det_class[is_unpaired], background_column]

    no_rows = [np.zeros(0, np.int64)]
    positions = np.concatenate(rows or no_rows), np.concatenate(columns or no_rows)
    table = Counts.from_columns((n_classes + 1, n_classes + 1), *positions)
    common_score = float(score_min[0]) if len(score_min) and (score_min == score_min[0]).all() else math.nan
    return Confusion(joined.classes, table, common_score, iou)


def find_overlapping(chunk: Joined, rules: Protocol, is_void: Mask, iou: float) -> tuple[Ints, Ints, Ints]:
    """Find the pairs of any class that overlap by `iou`, and the detections on what counts as nothing.

    `chunk` are prepared sides of a few images, of which `is_void` (ground truths,) count as nothing. Returns
    (pairs,) detection and (pairs,) ground truth, in the order in which pairs are taken: those of one class
    first, then by descending IoU; and the detections that lie on a void ground truth, with repeats. Raises
    UsageError if an image has more than `MOST_PAIRS` pairs.
    """
    columns: list[tuple[Ints, Ints, Floats]] = []
    det_on_void = [np.zeros(0, np.int32)]
    n_pairs = 0
    for pairs in iterate_pairs(merge_classes(chunk), rules, iou):
        overlap_or_ioa = pairs.iou if pairs.ioa is None else np.maximum(pairs.iou, pairs.ioa)
        det_on_void.append(pairs.det[is_void[pairs.gt] & (overlap_or_ioa >= iou)])
        is_pair = ~is_void[pairs.gt] & (pairs.iou >= iou)
        columns.append((pairs.det[is_pair], pairs.gt[is_pair], pairs.iou[is_pair]))
        n_pairs += len(columns[-1][0])
        if n_pairs > MOST_PAIRS:  # of a single image: several together never have so many, see `split_images`
            name = shorten(chunk.images[int(chunk.detections.image[pairs.det[-1]])])
            sides = f"{len(chunk.detections)} detections and {len(chunk.truth)} objects"
            raise UsageError(
                f"{name!r}: its {sides} overlap in more than {MOST_PAIRS} pairs, too many for a confusion "
                f"matrix or report: drop some with {spell('score_min')}, or leave the image out with "
                f"{spell('only_images')}"
            )
    det, gt, overlap = map(np.concatenate, zip(*columns, strict=True))
    is_other_class = chunk.detections.category[det] != chunk.truth.category[gt]
    # By the last key first: same class, then descending overlap; equal pairs as they stand.
    order = np.lexsort((-overlap, is_other_class))
    return det[order], gt[order], np.concatenate(det_on_void)
