"""Count and measure a dataset: objects per class, sizes of images and boxes, scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.tables import Dataset, Flag, Floats, Keypoints, Kind, ShapeKind, Shapes, distinct, region_classes
from odm.views import Shown

VERSION = 1
"""Version of the JSON output."""

AREAS = {"small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2), "large": (96.0**2, float("inf"))}
"""COCO's area ranges in square pixels; here the lower end belongs to a range, so that they add up."""

ASPECTS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Bounds of the groups of width / height."""

SCORES = tuple(i / 10 for i in range(1, 10))
"""Bounds of the groups of scores."""


class Distribution(msgspec.Struct, frozen=True):
    """The smallest, median, mean and largest of n values; None if there are no values."""

    n: int
    min: float | None
    median: float | None
    mean: float | None
    max: float | None

    @classmethod
    def of(cls, values: NDArray[Any]) -> Distribution:
        """Describe a flat array; values that are not finite are left out."""
        finite = np.asarray(values, np.float64)
        finite = finite[np.isfinite(finite)]
        if not len(finite):
            return cls(n=0, min=None, median=None, mean=None, max=None)
        measures = (np.min, np.median, np.mean, np.max)  # in the order of the fields
        return cls(len(finite), *(float(measure(finite)) for measure in measures))


class ValueRange(msgspec.Struct, frozen=True):
    """The number of values in ``lower <= value < upper``; None is no bound."""

    lower: float | None
    upper: float | None
    n: int


class ClassStatistics(msgspec.Struct, frozen=True):
    """One class: its boxes, the images that show it, and its boxes per area range."""

    name: str
    boxes: int
    images: int
    small: int
    medium: int
    large: int
    share: float | None
    """Of all boxes, in 0..1; None if there are none."""


class TrackCounts(msgspec.Struct, frozen=True):
    """Counts of the videos and tracks of a dataset."""

    videos: int
    frames: int
    """Images that are frames of a video."""
    tracks: int
    one_frame: int
    """Tracks with a single box."""
    boxes_without_track: int
    length: Distribution
    """Boxes of a track."""
    span: Distribution
    """Frame numbers from the first to the last box of a track, both counted."""
    boxes_per_frame: Distribution

    @classmethod
    def of(cls, dataset: Dataset) -> TrackCounts | None:
        """Count the videos and tracks of a dataset; None if it has neither."""
        images, boxes, n_tracks = dataset.images, dataset.boxes, len(dataset.tracks)
        if images.video is None and boxes.track is None:
            return None
        is_frame = np.zeros(len(images), np.bool_) if images.video is None else images.video >= 0
        per_frame = np.bincount(boxes.image, minlength=len(images))[is_frame]
        track = np.full(len(boxes), -1) if boxes.track is None else boxes.track
        tracked_rows = np.flatnonzero(track >= 0)
        length = np.bincount(track[tracked_rows], minlength=n_tracks)
        spans: NDArray[Any] = np.zeros(0)
        if images.frame is not None and n_tracks:
            frame_of_box = images.frame[boxes.image[tracked_rows]]
            # (tracks,) the lowest and highest frame number; a track without one keeps -1 as the highest.
            first_frame, last_frame = np.full(n_tracks, 2**31, np.int64), np.full(n_tracks, -1, np.int64)
            has_frame = frame_of_box >= 0
            np.minimum.at(first_frame, track[tracked_rows][has_frame], frame_of_box[has_frame])
            np.maximum.at(last_frame, track[tracked_rows][has_frame], frame_of_box[has_frame])
            spans = (last_frame - first_frame + 1)[last_frame >= 0]
        return cls(
            videos=len(dataset.videos),
            frames=int(np.count_nonzero(is_frame)),
            tracks=int(np.count_nonzero(length)),
            one_frame=int(np.count_nonzero(length == 1)),
            boxes_without_track=len(boxes) - len(tracked_rows),
            length=Distribution.of(length[length > 0]),
            span=Distribution.of(spans),
            boxes_per_frame=Distribution.of(per_frame),
        )


class PointCounts(msgspec.Struct, frozen=True):
    """One keypoint of a class, and how often it is labelled."""

    category: str
    name: str
    visible: int
    hidden: int
    objects: int
    """Objects of the class that have keypoints."""


class ShapeCounts(msgspec.Struct, frozen=True):
    """The shapes of a dataset's boxes."""

    outlined: int
    """Boxes with outlines."""
    outlines: int
    several: int
    """Boxes with several outlines."""
    corners: int
    masks: int
    oriented: int
    with_points: int
    """Boxes with keypoints."""
    points: tuple[PointCounts, ...]

    @classmethod
    def of(cls, dataset: Dataset) -> ShapeCounts | None:
        """Count the shapes and keypoints of a dataset; None if no box has any."""
        boxes = dataset.boxes
        if boxes.shapes is None and boxes.keypoints is None:
            return None
        shapes = boxes.shapes or Shapes.none(len(boxes))
        is_outlined = shapes.kind == ShapeKind.POLYGONS
        n_rings = np.diff(shapes.ring)[is_outlined]
        points = boxes.keypoints
        return cls(
            outlined=int(np.count_nonzero(is_outlined)),
            outlines=int(n_rings.sum()),
            several=int(np.count_nonzero(n_rings > 1)),
            corners=int(np.diff(shapes.point[shapes.ring])[is_outlined].sum()),
            masks=int(np.count_nonzero(shapes.kind == ShapeKind.MASK)),
            oriented=int(np.count_nonzero(shapes.kind == ShapeKind.ORIENTED)),
            with_points=0 if points is None else int(np.count_nonzero(points.counts())),
            points=() if points is None else tuple(_count_points(dataset, points)),
        )


def _count_points(dataset: Dataset, points: Keypoints) -> Iterator[PointCounts]:
    """Count for each keypoint of each class in how many boxes it is visible, and in how many hidden."""
    n_points = points.counts()
    category_of_box = dataset.boxes.category
    # Boxes of 3 and 2 keypoints: 0 1 2 3 4 minus where each box begins, 0 0 0 3 3, is 0 1 2 0 1.
    number_in_box = np.arange(len(points.xyv)) - np.repeat(points.first[:-1], n_points)
    category_of_point = np.repeat(category_of_box, n_points)
    names = dataset.categories.keypoints or ((),) * len(dataset.categories)
    for row in distinct(category_of_box[n_points > 0]).tolist():
        is_of_class = category_of_point == row
        n_objects = int(np.count_nonzero((category_of_box == row) & (n_points > 0)))
        for k in range(int(number_in_box[is_of_class].max()) + 1):
            flag = points.xyv[is_of_class & (number_in_box == k), 2]
            name = names[row][k] if k < len(names[row]) else str(k)
            visible, hidden = int(np.count_nonzero(flag > 1)), int(np.count_nonzero((flag > 0) & (flag <= 1)))
            yield PointCounts(dataset.categories.name[row], name, visible, hidden, n_objects)


class Statistics(msgspec.Struct, frozen=True):
    """The numbers of a dataset. Lengths are in pixels, areas in square pixels, aspect is width / height."""

    kind: Kind
    images: int
    images_without_boxes: int
    images_without_size: int
    boxes: int
    classes: tuple[ClassStatistics, ...]
    """In the order of the dataset."""
    splits: dict[str, int]
    """Images per split."""
    flags: dict[str, int]
    """Boxes per mark, where there are any."""
    image_sizes: tuple[tuple[int, int, int], ...]
    """Width, height and number of images, the most frequent first; unknown sizes are left out."""
    image_width: Distribution
    image_height: Distribution
    boxes_per_image: Distribution
    images_by_boxes: tuple[tuple[int, int], ...]
    """A number of boxes and how many images have it, for every number that occurs."""
    box_width: Distribution
    box_height: Distribution
    area: Distribution
    areas: dict[str, int]
    aspect: Distribution
    """Of boxes that have a width and a height."""
    aspects: tuple[ValueRange, ...]
    score: Distribution
    scores: tuple[ValueRange, ...]
    """Empty for ground truth."""
    tracks: TrackCounts | None = None
    """None where there are neither videos nor tracks."""
    relative: bool = False
    """Whether lengths and areas are fractions of images of unknown size, so that none is in an area range."""
    shapes: ShapeCounts | None = None
    """None if no box has a shape or keypoints."""

    _repr_html_ = Shown._repr_html_

    def __repr__(self) -> str:
        noun = "detections" if self.kind == "det" else "ground truth"
        return f"<Statistics: {noun}, {self.images} images, {self.boxes} boxes, {len(self.classes)} classes>"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as the JSON output has it; an undefined value is None."""
        data: dict[str, Any] = {"version": VERSION} | msgspec.to_builtins(self)
        data["image_sizes"] = [{"width": w, "height": h, "images": n} for w, h, n in self.image_sizes]
        for name in ("tracks", "shapes"):
            if data[name] is None:
                del data[name]
        data["images_by_boxes"] = [{"boxes": b, "images": n} for b, n in self.images_by_boxes]
        return data


def describe(dataset: Dataset) -> Statistics:
    """Count and measure a dataset.

    A box belongs to an area range by its own ``area`` where it has one, as in COCO, else by width * height.
    Regions to ignore are only counted among `Statistics.flags`.

    Examples
    --------
    >>> from odm.tables import Dataset
    >>> same = {"images": ["a.jpg"], "categories": ["person"], "image": [0], "category": [0]}
    >>> truth = Dataset.from_arrays(**same, ltwh=[[10, 10, 20, 20]])
    >>> [(row.name, row.boxes) for row in describe(truth).classes]
    [('person', 1)]
    """
    is_region, has_objects = dataset.boxes.has(Flag.REGION), ~region_classes(dataset)
    dataset = dataset.take(~is_region) if is_region.any() else dataset
    images, boxes = dataset.images, dataset.boxes
    n_images = len(images)
    n_boxes_of_image = np.bincount(boxes.image, minlength=n_images)
    box_counts, images_of_count = np.unique(n_boxes_of_image, return_counts=True)
    has_size = (images.width > 0) & (images.height > 0)
    sizes = Counter(zip(images.width[has_size].tolist(), images.height[has_size].tolist(), strict=True))
    sizes_by_count = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))  # items: (w, h), count
    area = areas_of(dataset)
    in_pixels = not dataset.relative  # else there are no areas in pixels
    is_in_range = {name: in_pixels & (area >= low) & (area < high) for name, (low, high) in AREAS.items()}
    aspect = aspects_of(dataset) if in_pixels else np.zeros(0)  # a ratio of two fractions means nothing
    known_scores = boxes.score[np.isfinite(boxes.score)] if dataset.kind == "det" else np.zeros(0)
    n_flagged = {flag: int(np.count_nonzero(boxes.has(flag))) for flag in Flag}
    n_flagged[Flag.REGION] = int(np.count_nonzero(is_region))
    return Statistics(
        kind=dataset.kind,
        relative=dataset.relative,
        images=n_images,
        images_without_boxes=int(np.count_nonzero(n_boxes_of_image == 0)),
        images_without_size=int(np.count_nonzero(~has_size)),
        boxes=len(boxes),
        classes=_count_classes(dataset, has_objects, is_in_range),
        splits={name: images.split.count(name) for name in dict.fromkeys(images.split) if name},
        flags={str(flag.name).lower(): n for flag, n in n_flagged.items() if n},
        image_sizes=tuple((w, h, n) for (w, h), n in sizes_by_count),
        image_width=Distribution.of(images.width[has_size]),
        image_height=Distribution.of(images.height[has_size]),
        boxes_per_image=Distribution.of(n_boxes_of_image),
        images_by_boxes=tuple(zip(box_counts.tolist(), images_of_count.tolist(), strict=True)),
        box_width=Distribution.of(boxes.wh[:, 0]),
        box_height=Distribution.of(boxes.wh[:, 1]),
        area=Distribution.of(area),
        areas={name: int(np.count_nonzero(mask)) for name, mask in is_in_range.items()},
        aspect=Distribution.of(aspect),
        aspects=_count_in_ranges(aspect, ASPECTS),
        score=Distribution.of(known_scores),
        scores=_count_in_ranges(known_scores, SCORES) if dataset.kind == "det" else (),
        tracks=TrackCounts.of(dataset),
        shapes=ShapeCounts.of(dataset),
    )


def _count_classes(
    dataset: Dataset, has_objects: NDArray[np.bool_], is_in_range: dict[str, NDArray[np.bool_]]
) -> tuple[ClassStatistics, ...]:
    """Count the boxes and images of each class in `has_objects` (classes,).

    `is_in_range` are masks (n,) of the boxes of each area range, by the names of fields of `ClassStatistics`.
    """
    boxes = dataset.boxes
    n_images, n_classes = max(len(dataset.images), 1), len(dataset.categories)
    n_boxes = np.bincount(boxes.category, minlength=n_classes)
    class_and_image = distinct(boxes.category.astype(np.int64) * n_images + boxes.image)
    images_of_class = np.bincount(class_and_image // n_images, minlength=n_classes)
    n_in_range = {
        name: np.bincount(boxes.category[mask], minlength=n_classes) for name, mask in is_in_range.items()
    }
    return tuple(
        ClassStatistics(
            name=name,
            boxes=int(n_boxes[i]),
            images=int(images_of_class[i]),
            **{key: int(counts[i]) for key, counts in n_in_range.items()},
            share=int(n_boxes[i]) / len(boxes) if len(boxes) else None,
        )
        for i, name in enumerate(dataset.categories.name)
        if has_objects[i]
    )


def areas_of(dataset: Dataset) -> Floats:
    """(n,) area of each box in square pixels: the one that the source states, else width * height."""
    boxes = dataset.boxes
    area: Floats = np.where(np.isnan(boxes.area), boxes.wh[:, 0] * boxes.wh[:, 1], boxes.area)
    return area


def aspects_of(dataset: Dataset) -> Floats:
    """(m,) width / height of the boxes that have both."""
    wh = dataset.boxes.wh
    wh = wh[np.all(wh > 0, axis=1)]
    aspect: Floats = wh[:, 0] / wh[:, 1]
    return aspect


def _count_in_ranges(values: Floats, bounds: tuple[float, ...]) -> tuple[ValueRange, ...]:
    """Count values between ascending bounds, and below the first and from the last on."""
    counts = np.bincount(np.searchsorted(bounds, values, side="right"), minlength=len(bounds) + 1)
    edges = (None, *bounds, None)
    return tuple(ValueRange(edges[i], edges[i + 1], n) for i, n in enumerate(counts.tolist()))
