"""Both sides of an evaluation over one list of images and one of classes, as columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.tables import Floats, Ints, Longs

Label = tuple[str, str, bool]
"""Image, class, and whether the class is stated to be present or absent there."""


Mask = NDArray[np.bool_]

Labels = tuple[Longs, Longs, NDArray[np.uint8]]


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class SideTable:
    """The boxes of one side, ordered by image, then as they were given.

    ``image`` and ``category`` are (n,) numbers in `Joined.images` and `Joined.classes`; ``row`` is the row
    in the dataset; the other columns are those of `odm.tables.Boxes`.
    """

    image: Ints
    category: Ints
    xyxy: Floats
    wh: Floats
    score: Floats
    flags: NDArray[np.uint16]
    area: Floats
    row: Ints
    rank_in_image: Longs | None = None
    """(n,) the rank by score among the detections of all classes of the image, 0 the best; None where no
    class was left out, so that it can be counted."""

    def __len__(self) -> int:
        return len(self.image)

    def take(self, rows: NDArray[Any] | slice) -> SideTable:
        """The boxes at `rows`: a mask, row numbers or a slice."""
        columns = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return SideTable(**{name: column[rows] for name, column in columns.items() if column is not None})


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class JoinReport:
    """What was joined, and what was found on one side only."""

    images_both: int
    images_gt_only: tuple[str, ...]
    images_det_only: tuple[str, ...]
    classes_both: tuple[str, ...]
    classes_gt_only: tuple[str, ...]
    classes_det_only: tuple[str, ...]
    how: Mapping[str, int]
    """How many images were matched by ``name``, ``name without extension``, ``last part``, ``id``."""
    hints: Mapping[str, str]
    """The nearest class of the ground truth for classes that only the detections have."""
    unit: str = "images"
    """What the names of images are: ``images``, or ``videos`` where tracks are measured."""
    images_empty: int = 0
    """How many of the images of both have no detection."""

    def to_dict(self) -> dict[str, Any]:
        """The ``join`` of the JSON contract."""
        return {
            self.unit: {
                "both": self.images_both,
                "without_detections": self.images_empty,
                "gt_only": list(self.images_gt_only),
                "det_only": list(self.images_det_only),
            },
            "classes": {
                "both": list(self.classes_both),
                "gt_only": list(self.classes_gt_only),
                "det_only": list(self.classes_det_only),
            },
        }


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Joined:
    """Both sides over one list of images and one list of classes.

    ``images`` stand in the order that decides ties: by id where the ground truth has ids (numbers before
    text), else as the ground truth lists them; images that only the detections have come last.
    ``classes`` are those of the ground truth in its order, then those that only the detections have.
    """

    images: tuple[str, ...]
    n_truth_images: int
    classes: tuple[str, ...]
    truth: SideTable
    detections: SideTable
    report: JoinReport
    image_labels: Labels | None = None
    """(n,) image, (n,) class and (n,) `LabelState`; None where there are no image labels."""
    frequency: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """How frequent each class of the ground truth is, where that is known."""
    hierarchy: Mapping[str, frozenset[str]] | None = None
    """The ancestors of each class that has any."""
    added: tuple[str, ...] = ()
    """The classes that the hierarchy adds to `classes`, for all images together; so those of shards agree."""
    wanted: frozenset[str] | None = None
    """The classes to keep, where that waits for the hierarchy to be applied."""
    chosen: Longs | None = None
    """Numbers of the images that are evaluated, ascending; None = all."""
    relative: bool = False
    """Whether coordinates are fractions of images of unknown size."""

    def __repr__(self) -> str:
        return (
            f"<Joined: {len(self.images)} images, {len(self.classes)} classes, {len(self.truth)} ground "
            f"truths, {len(self.detections)} detections>"
        )

    @property
    def evaluated(self) -> tuple[str, ...]:
        """The names of the images that are evaluated."""
        return self.images if self.chosen is None else tuple(self.images[i] for i in self.chosen.tolist())

    def keys_of(self, side: SideTable) -> Longs:
        """(n,) a number for the image and class of each box, by image, then class."""
        return side.image.astype(np.int64) * max(len(self.classes), 1) + side.category

    def only(
        self, *, truth: NDArray[Any] | slice = slice(None), detections: NDArray[Any] | slice = slice(None)
    ) -> Joined:
        """The same images and classes with only these boxes (masks, or ascending positions)."""
        return dataclasses.replace(
            self,
            truth=self.truth if isinstance(truth, slice) else self.truth.take(truth),
            detections=self.detections if isinstance(detections, slice) else self.detections.take(detections),
        )

    def shard(self, images: NDArray[Any] | Iterable[int]) -> Joined:
        """The same images and classes with only the boxes on some `images` (numbers): a part of the work."""
        chosen = np.zeros(len(self.images), np.bool_)
        chosen[np.fromiter(images, np.int64)] = True
        return self.only(truth=chosen[self.truth.image], detections=chosen[self.detections.image])


# ---------------------------------------------------------------------- all boxes as if of one class

AT_A_TIME = 2**20
"""Pairs of detections and ground truths of any class that are looked at together."""


def collapsed(joined: Joined, name: str = "", ranks: Longs | None = None) -> Joined:
    """The same boxes as if all were of one class; those of an image by (classes,) `ranks`, if given."""

    def one(side: SideTable) -> SideTable:
        if ranks is not None:
            side = side.take(np.lexsort((ranks[side.category], side.image)))
        return dataclasses.replace(side, category=np.zeros(len(side), np.int32))

    return dataclasses.replace(
        joined, classes=(name,), truth=one(joined.truth), detections=one(joined.detections)
    )


def parts(joined: Joined) -> Iterator[tuple[int, int, Joined]]:
    """Consecutive images of a bounded number of pairs: first ground truth, first detection, the sides."""
    n_images = len(joined.images)
    edges = np.arange(n_images + 1)
    gt_edge = np.searchsorted(joined.truth.image, edges)
    det_edge = np.searchsorted(joined.detections.image, edges)
    pairs = np.concatenate([[0], np.cumsum(np.diff(gt_edge) * np.diff(det_edge))])
    start = 0
    while start < n_images:
        stop = max(start + 1, int(np.searchsorted(pairs, pairs[start] + AT_A_TIME, side="right")) - 1)
        gt = slice(int(gt_edge[start]), int(gt_edge[stop]))
        det = slice(int(det_edge[start]), int(det_edge[stop]))
        part = dataclasses.replace(
            joined, truth=joined.truth.take(gt), detections=joined.detections.take(det)
        )
        yield gt.start, det.start, part
        start = stop
