"""Measure the agreement of two annotators: pair boxes by IoU whatever their class, then compare classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from odm.evaluate.analysis.box_pairs import box_columns
from odm.evaluate.matching.order import match_one_to_one
from odm.evaluate.matching.pairs import find_pairs, intersection
from odm.evaluate.matching.sides import Joined, JoinReport, SideTable
from odm.evaluate.results import to_plain
from odm.evaluate.scores.protocols import Protocol
from odm.issues import UsageError, spell
from odm.masks.runs import split_by_size
from odm.pairing import pair_images
from odm.tables import GROUPS, Dataset, Floats, Ints, Longs, rows_without
from odm.views import Shown, TableMixin

IOU = 0.5


class Annotations(msgspec.Struct, frozen=True, eq=False):
    """The boxes of one annotator, with numbers of images and classes that both share."""

    image: Longs
    category: Longs
    xyxy: Floats
    row: Longs
    """Their rows in the dataset."""

    @classmethod
    def from_arrays(
        cls, image: ArrayLike, category: ArrayLike, xyxy: ArrayLike, row: ArrayLike | None = None
    ) -> Annotations:
        """Take (n,) images and classes, (n, 4) boxes in pixels, and their rows if these are not all."""
        images = np.asarray(image, np.int64)
        return cls(
            images,
            np.asarray(category, np.int64),
            np.asarray(xyxy, np.float64).reshape(-1, 4),
            np.arange(len(images)) if row is None else np.asarray(row, np.int64),
        )

    def take(self, rows: NDArray[Any]) -> Annotations:
        """Return the boxes in these rows."""
        return Annotations(self.image[rows], self.category[rows], self.xyxy[rows], self.row[rows])

    def __len__(self) -> int:
        return len(self.image)


class Agreement(TableMixin, msgspec.Struct, frozen=True, eq=False):
    """The agreement of two annotators: counts, F1 and kappa, and the pairs of boxes.

    Attributes
    ----------
    boxes, pairs
        Boxes of each annotator, and how many were paired.
    f1_location
        2 m / (boxes of both), m being the pairs: agreement on where objects are.
    f1
        The same for pairs of one class.
    mean_iou
        Of all pairs.
    kappa
        Cohen's kappa (1960) of the classes of the pairs; NaN if chance would explain full agreement. Boxes
        that only one drew have no part in it, since what neither drew cannot be counted.
    classes
        By name: ``f1``, boxes of each annotator and pairs in which both have the class.
    confusion
        (classes + 1, classes + 1) pairs by class, a row per class of the first annotator; the last row and
        column are boxes that only the other drew.
    first, other
        (pairs,) positions of the paired boxes, and ``iou`` of each pair.
    sides
        The datasets and what was compared of them, for `columns`; nothing where there are none.
    """

    names: tuple[str, ...]
    iou_least: float
    boxes: tuple[int, int]
    pairs: int
    f1_location: float
    f1: float
    mean_iou: float
    kappa: float
    classes: dict[str, dict[str, Any]]
    confusion: Longs
    first: Ints
    other: Ints
    iou: Floats
    sides: tuple[tuple[Dataset, Annotations], ...] = ()

    _repr_html_ = Shown._repr_html_

    def __repr__(self) -> str:
        n_first, n_other = self.boxes
        numbers = f"F1 {self.f1:.4f}, mean IoU {self.mean_iou:.4f}, kappa {self.kappa:.4f}"
        return f"<Agreement: {n_first} and {n_other} boxes, {self.pairs} pairs, {numbers}>"

    def columns(self) -> dict[str, list[Any]]:
        """The list of pairs as columns, image by image, and of the boxes that only one drew.

        Of both boxes class, edges, flags, file and line; None where there is no box. Raises UsageError if the
        datasets are not known.
        """
        if not self.sides:
            raise UsageError("an agreement computed from arrays has no list of pairs: give datasets")
        (first_dataset, first_boxes), (other_dataset, other_boxes) = self.sides
        only_first = rows_without(len(first_boxes), self.first)
        only_other = rows_without(len(other_boxes), self.other)
        # The pairs, then the boxes that only the first drew, then those that only the other drew.
        first_rows = np.concatenate(
            [first_boxes.row[self.first], first_boxes.row[only_first], np.full(len(only_other), -1)]
        )
        other_rows = np.concatenate(
            [other_boxes.row[self.other], np.full(len(only_first), -1), other_boxes.row[only_other]]
        )
        image = np.concatenate(
            [first_boxes.image[self.first], first_boxes.image[only_first], other_boxes.image[only_other]]
        )
        iou = np.append(self.iou, np.full(len(image) - len(self.iou), math.nan))
        order = np.argsort(image, kind="stable")
        return {
            "image": [first_dataset.images.name[i] for i in image[order].tolist()],
            "iou": to_plain(iou[order].tolist()),
            **box_columns(first_dataset, first_rows[order], "first"),
            **box_columns(other_dataset, other_rows[order], "other"),
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain data; None for what is undefined. Only pairs of classes that occur are in ``confusion``."""
        names = (*self.names, None)  # None: there is no box, as in the last row and column
        rows, columns = self.confusion.nonzero()
        return {
            "version": 1,
            "iou": self.iou_least,
            "boxes": list(self.boxes),
            "pairs": self.pairs,
            **{key: to_plain(getattr(self, key)) for key in ("f1_location", "f1", "mean_iou", "kappa")},
            "classes": [
                {"class": name, **{key: to_plain(value) for key, value in counts.items()}}
                for name, counts in self.classes.items()
            ],
            "confusion": [
                {"first": names[i], "other": names[j], "count": int(self.confusion[i, j])}
                for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
            ],
        }


def agree(first: Annotations, other: Annotations, classes: Sequence[str], *, iou: float = IOU) -> Agreement:
    """Pair the boxes of two annotators and compare.

    Pairs are taken one to one, greedily by descending IoU, whatever the classes; of equal IoU the pair with
    the lower sum of positions within the image, then with the lower first position. `first` and `other` are
    without boxes that stand for many objects, `classes` the names that their numbers mean, and `iou` is the
    least of a pair, above 0 up to 1. Raises UsageError if it is out of range, or there are too many classes
    or overlapping boxes to compare.
    """
    if not 0 < iou <= 1:
        raise UsageError(f"{spell('iou')} {iou}: expected an IoU above 0 and up to 1, as in 0.5")
    n_classes = len(classes)
    if n_classes > MOST_CLASSES:
        raise UsageError(
            f"there are {n_classes} classes, more than {MOST_CLASSES}: the table of all pairs of classes "
            "does not fit into memory"
        )
    first_rows, other_rows, overlap = pair_boxes(first, other, iou)
    n_first = np.bincount(first.category, minlength=n_classes)
    n_other = np.bincount(other.category, minlength=n_classes)
    confusion = np.zeros((n_classes + 1, n_classes + 1), np.int64)
    paired = confusion[:n_classes, :n_classes]  # a view; the last row and column follow from it
    np.add.at(paired, (first.category[first_rows], other.category[other_rows]), 1)
    confusion[:n_classes, n_classes] = n_first - paired.sum(axis=1)
    confusion[n_classes, :n_classes] = n_other - paired.sum(axis=0)
    n_same_class, n_of_class = np.diag(paired), n_first + n_other
    n_pairs, n_boxes = len(first_rows), len(first) + len(other)
    return Agreement(
        names=tuple(classes),
        iou_least=iou,
        boxes=(len(first), len(other)),
        pairs=n_pairs,
        f1_location=2 * n_pairs / n_boxes if n_boxes else math.nan,
        f1=float(2 * n_same_class.sum() / n_boxes) if n_boxes else math.nan,
        mean_iou=float(overlap.mean()) if n_pairs else math.nan,
        kappa=_compute_kappa(paired),
        classes={
            name: {
                "f1": float(2 * n_same_class[i] / n_of_class[i]) if n_of_class[i] else math.nan,
                "first": int(n_first[i]),
                "other": int(n_other[i]),
                "pairs": int(n_same_class[i]),
            }
            for i, name in enumerate(classes)
        },
        confusion=confusion,
        first=first_rows,
        other=other_rows,
        iou=overlap,
    )


def _compute_kappa(paired: Longs) -> float:
    """Return Cohen's kappa of (classes, classes) pairs; NaN without pairs, or if all are of one class."""
    # Kappa is (p_o - p_e) / (1 - p_e), with the observed and the expected share of pairs of one class. Both
    # are taken times n_pairs ** 2: in whole numbers p_e = 1 is exact, and so is the case of no pairs.
    n_pairs = int(paired.sum())
    n_of_first, n_of_other = (paired.sum(axis=axis).astype(object) for axis in (1, 0))
    expected = int((n_of_first * n_of_other).sum())
    observed = int(np.trace(paired)) * n_pairs
    return math.nan if expected == n_pairs**2 else (observed - expected) / (n_pairs**2 - expected)


AT_A_TIME = 2**20
"""Pairs of boxes that are compared, and the best pairs that are taken from, at a time."""
MOST_CLASSES = 2**13
"""Classes of which every pair is counted: half a gigabyte."""
MOST_PAIRS = 2**26
"""Overlapping pairs of one image that are looked at: with more it would take over fifteen seconds."""
SAMPLE = 256
"""Boxes whose overlaps are counted first."""
NOTHING_JOINED = JoinReport(0, (), (), (), (), (), {}, {})


def pair_boxes(first: Annotations, other: Annotations, iou_min: float) -> tuple[Ints, Ints, Floats]:
    """Pair boxes one to one, as `agree` says; returns (n,) rows of the first, rows of the other, and IoU."""
    sides = [_Side.from_annotations(first), _Side.from_annotations(other)]
    n_images = int(max(side.image.max(initial=-1) for side in sides)) + 1
    n_first, n_other = (np.bincount(side.image, minlength=n_images) for side in sides)
    row_pairs: list[tuple[Longs, Longs]] = [(sides[0].row[:0], sides[1].row[:0])]
    for image_range in split_by_size(n_first * n_other, AT_A_TIME):  # a slice of image numbers
        start, stop = image_range.start, image_range.stop
        first_chunk, other_chunk = (side.select_images(start, stop) for side in sides)
        first_positions, other_positions = _pair_greedily(first_chunk, other_chunk, iou_min)
        row_pairs.append((first_chunk.row[first_positions], other_chunk.row[other_positions]))
    first_rows, other_rows = (np.concatenate(rows) for rows in zip(*row_pairs, strict=True))
    overlap = iou_of(first.xyxy[first_rows], other.xyxy[other_rows])
    return first_rows.astype(np.int32), other_rows.astype(np.int32), overlap


class _Side(NamedTuple):
    """The boxes of one annotator, by image: the rank of each within its image, and its row in the input."""

    xyxy: Floats
    image: Longs
    rank: Longs
    row: Longs

    @classmethod
    def from_annotations(cls, side: Annotations) -> _Side:
        """Sort the boxes of an annotator by image, and rank each within its image in input order."""
        row = np.argsort(side.image, kind="stable")
        image = side.image[row]
        return cls(side.xyxy[row], image, np.arange(len(row)) - np.searchsorted(image, image), row)

    def select_images(self, start: int, stop: int) -> _Side:
        """Return the boxes of the images from number `start` up to `stop`."""
        rows = slice(*np.searchsorted(self.image, [start, stop]).tolist())
        return _Side(self.xyxy[rows], self.image[rows], self.rank[rows], self.row[rows])

    def to_side(self, rows: Longs) -> SideTable:
        """Return the boxes in these rows as a side of the matching, all of one class."""
        xyxy, zeros = self.xyxy[rows], np.zeros(len(rows))
        image, zero_numbers = self.image[rows].astype(np.int32), zeros.astype(np.int32)
        wh = xyxy[:, 2:] - xyxy[:, :2]
        return SideTable(
            *(image, zero_numbers, xyxy, wh),  # images, classes and boxes
            *(zeros, zeros.astype(np.uint16), zeros, zero_numbers),  # scores, flags, areas and rows: not used
        )


def _pair_greedily(first: _Side, other: _Side, iou_min: float) -> tuple[Longs, Longs]:
    """Pair boxes by descending IoU; returns (n,) positions in both sides, ascending in the first.

    At most some multiples of `AT_A_TIME` candidate pairs are in memory at a time. Raises UsageError if far
    too many boxes of an image overlap.
    """
    free_first, free_other = np.arange(len(first.image)), np.arange(len(other.image))
    if len(free_first) * len(free_other) > MOST_PAIRS:
        _refuse_crowds(first, other, _estimate_overlaps(first, other))
    taken_first, taken_other = [free_first[:0]], [free_other[:0]]
    is_complete, n_compared = False, 0
    while not is_complete and len(free_first) and len(free_other):  # a round for the pairs that memory holds
        candidates, is_complete, n_compared = _find_best_pairs(
            first, other, free_first, free_other, iou_min, n_compared
        )
        pair_rows = match_one_to_one(candidates.first, candidates.other)
        taken_first.append(candidates.first[pair_rows])
        taken_other.append(candidates.other[pair_rows])
        free_first = np.setdiff1d(free_first, taken_first[-1])
        free_other = np.setdiff1d(free_other, taken_other[-1])
    i_first, i_other = np.concatenate(taken_first), np.concatenate(taken_other)
    order = np.argsort(i_first)
    return i_first[order], i_other[order]


class _Candidates(NamedTuple):
    """Candidate pairs of boxes, (n,): position in the first side, in the other, and IoU."""

    first: NDArray[Any]
    other: NDArray[Any]
    iou: Floats


def _find_best_pairs(
    first: _Side, other: _Side, free_first: Longs, free_other: Longs, iou_min: float, n_compared: int
) -> tuple[_Candidates, bool, int]:
    """Return the best pairs of free boxes in the order of `_sort_pairs`, and whether these are all.

    `free_first` and `free_other` are positions in the sides. `n_compared` counts the pairs of all rounds; it
    is returned too. Raises UsageError if it is far too large.
    """
    truth, detections = other.to_side(free_other), first.to_side(free_first)
    joined = Joined((), 0, ("",), truth, detections, NOTHING_JOINED)  # no names of images, one class
    order = np.arange(len(free_first))  # there are no scores
    pairs = find_pairs(joined, Protocol("agree"), iou_min, order)  # a protocol without any special rule
    # What still comes in: an IoU above `lowest`, or equal with a sum of ranks up to `rank_sum`; now any sum.
    is_complete, lowest, rank_sum = True, iou_min, len(first.rank) + len(other.rank)
    best = _Candidates(free_first[:0], free_other[:0], np.zeros(0))
    for piece in pairs.pieces():
        n_compared += len(piece.det)
        _refuse_crowds(first, other, n_compared / 2)  # half, as pairs come again in later rounds
        i_first, i_other, iou = free_first[piece.det], free_other[piece.gt], piece.iou
        is_tied = (iou == lowest) & (first.rank[i_first] + other.rank[i_other] <= rank_sum)
        is_kept = (iou > lowest) | is_tied
        better = i_first[is_kept], i_other[is_kept], iou[is_kept]
        best = _Candidates(*(np.concatenate(columns) for columns in zip(best, better, strict=True)))
        if len(best.iou) > 2 * AT_A_TIME:  # the others wait until these are taken
            best, is_complete = _sort_pairs(first, other, best, AT_A_TIME), False
            # Only pairs that are at least as good as the last one can still come in.
            lowest = float(best.iou[-1])
            rank_sum = int(first.rank[best.first[-1]] + other.rank[best.other[-1]])
    return _sort_pairs(first, other, best), is_complete, n_compared


def _estimate_overlaps(first: _Side, other: _Side) -> float:
    """Estimate the number of pairs of boxes that overlap from a sample of up to `SAMPLE` boxes."""
    sampled_rows = np.random.default_rng(0).permutation(len(first.image))[:SAMPLE]
    left, top, right, bottom = other.xyxy.T
    n_overlaps = 0
    for image, (x0, y0, x1, y1) in zip(
        first.image[sampled_rows].tolist(), first.xyxy[sampled_rows].tolist(), strict=True
    ):
        is_overlapping = (left < x1) & (right > x0) & (top < y1) & (bottom > y0) & (other.image == image)
        n_overlaps += int(np.count_nonzero(is_overlapping))
    return n_overlaps / len(sampled_rows) * len(first.image)


def _refuse_crowds(first: _Side, other: _Side, n_pairs: float) -> None:
    """Raise UsageError if `n_pairs`, the number of overlapping pairs of the sides, is above `MOST_PAIRS`."""
    if n_pairs > MOST_PAIRS:
        raise UsageError(
            f"an image has {len(first.image)} and {len(other.image)} boxes that overlap in more than "
            f"{MOST_PAIRS} pairs, too many to compare: leave out repeated boxes (odm validate --fix "
            "duplicates), or the image"
        )


def _sort_pairs(first: _Side, other: _Side, pairs: _Candidates, n: int | None = None) -> _Candidates:
    """Return the best n pairs, or all: by falling IoU, then the sum of ranks, then the rank in `first`."""
    i_first, i_other, iou = pairs
    order = np.lexsort((first.rank[i_first], first.rank[i_first] + other.rank[i_other], -iou))[:n]
    return _Candidates(i_first[order], i_other[order], iou[order])


def iou_of(a: Floats, b: Floats) -> Floats:
    """Return (n,) the IoU of the boxes in the same rows of `a` and `b`, both (n, 4); 0 without overlap."""
    inter = intersection(tuple(a.T), tuple(b.T))
    union = (a[:, 2:] - a[:, :2]).prod(axis=1) + (b[:, 2:] - b[:, :2]).prod(axis=1) - inter
    iou: Floats = np.divide(inter, union, out=np.zeros(len(inter)), where=inter > 0)
    return iou


def select_shared_boxes(
    first: Dataset, other: Dataset
) -> tuple[Annotations, Annotations, tuple[str, ...], list[tuple[int, int]]]:
    """Return the boxes of two datasets on the images of both, numbered alike, and the names of all classes.

    Images are paired as `odm.pairing.pair_images` says. Boxes that stand for many objects (crowd, group-of)
    are left out. Returns both annotators, the names of the classes, and of each annotator how many images,
    which the other does not have, and how many boxes of many objects are left out. Raises UsageError if there
    is no image in common, or no class.
    """
    # For each image of one side the row of the same image on the other side, -1 = none.
    first_of_other, _ = pair_images(first.images, other.images)
    other_of_first = np.full(len(first.images), -1, np.int64)
    other_of_first[first_of_other[first_of_other >= 0]] = np.flatnonzero(first_of_other >= 0)
    if not (first_of_other >= 0).any():
        raise UsageError("the two sides have no image in common")
    names = tuple(dict.fromkeys([*first.categories.name, *other.categories.name]))
    if not set(first.categories.name) & set(other.categories.name):
        raise UsageError("the two sides have no class in common")
    number_of_name = {name: i for i, name in enumerate(names)}
    sides, n_left_out = [], []
    # The number of each image of either side is its row in `first`, -1 if only one side has it.
    image_numbers = (np.where(other_of_first >= 0, np.arange(len(other_of_first)), -1), first_of_other)
    for dataset, image in zip((first, other), image_numbers, strict=True):
        boxes = dataset.boxes
        category = np.array([number_of_name[name] for name in dataset.categories.name], np.int64)
        is_group = (boxes.flags & np.uint16(GROUPS)) != 0
        n_left_out.append((int((image < 0).sum()), int(is_group.sum())))
        rows = np.flatnonzero((image[boxes.image] >= 0) & ~is_group)
        sides.append(
            Annotations.from_arrays(
                image[boxes.image[rows]], category[boxes.category[rows]], boxes.xyxy[rows], rows
            )
        )
    return sides[0], sides[1], names, n_left_out
