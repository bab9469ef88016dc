"""Both sides of an evaluation over one list of images and one of classes, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.evaluate.matching.order import first_of_runs, rank_in_runs
from odm.issues import Code, Log, Trusted, UsageError, hint, plural, spell
from odm.masks.runs import split_by_size
from odm.names import stem
from odm.pairing import index_unique_keys, list_first_three
from odm.tables import Boxes, Floats, Ints, Longs, distinct

Label = tuple[str, str, bool]
"""Image, class, and whether the class is stated to be present or absent there."""

Mask = NDArray[np.bool_]

Labels = tuple[Longs, Longs, NDArray[np.uint8]]


class SideTable(msgspec.Struct, frozen=True, eq=False):
    """The boxes of one side, ordered by image, then by input.

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
    place: Longs | None = None
    """(n,) the position of a detection among all of its image, in the order of the file; None where no rule
    asks for that."""
    source: Boxes | None = None
    """The boxes that ``row`` names, where they have shapes, keypoints or other fields."""

    def __len__(self) -> int:
        return len(self.image)

    def take(self, rows: NDArray[Any] | slice) -> SideTable:
        """Return the boxes at `rows`: a mask (n,), row numbers or a slice."""
        if isinstance(rows, slice):
            return replace(self, **{name: values[rows] for name, values in self.columns().items()})
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows  # faster than a mask
        columns = {name: column.take(rows, axis=0) for name, column in self.columns().items()}
        return replace(self, **columns)

    def columns(self) -> dict[str, Any]:
        """Return the columns by name, without those that are None."""
        columns = {name: getattr(self, name) for name in self.__struct_fields__ if name != "source"}
        return {name: column for name, column in columns.items() if column is not None}


class JoinReport(msgspec.Struct, frozen=True, eq=False):
    """Counts of the images and classes that were joined, and of those on one side only."""

    images_both: int
    images_gt_only: tuple[str, ...]
    images_det_only: tuple[str, ...]
    classes_both: tuple[str, ...]
    classes_gt_only: tuple[str, ...]
    classes_det_only: tuple[str, ...]
    how: Mapping[str, int]
    """How many images were matched by each of ``name``, ``name without extension``, ``last part``, ``id``."""
    hints: Mapping[str, str]
    """The nearest class of the ground truth for classes that only the detections have."""
    unit: str = "images"
    """What the names of images are: ``images``, or ``videos`` where tracks are measured."""
    images_empty: int = 0
    """How many of the images of both have no detection."""

    def to_dict(self) -> dict[str, Any]:
        """Return the ``join`` object of the JSON contract."""
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


class Joined(msgspec.Struct, frozen=True, eq=False):
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
    frequency: Mapping[str, str] = msgspec.field(default_factory=dict)
    """How frequent each class of the ground truth is, where that is known."""
    hierarchy: Mapping[str, frozenset[str]] | None = None
    """The ancestors of each class that has any."""
    added: tuple[str, ...] = ()
    """The classes that the hierarchy adds to `classes`, decided for all images, so that shards agree."""
    wanted: frozenset[str] | None = None
    """The classes to keep, where that waits for the hierarchy to be applied."""
    chosen: Longs | None = None
    """Numbers of the images that are evaluated, ascending; None = all."""
    relative: bool = False
    """Whether coordinates are fractions of the image because its size is unknown."""
    sizes: Longs | None = None
    """(2, images, 2) height and width of each image as either side has them, 0 = not known."""
    regions: SideTable | None = None
    """The regions to ignore of the ground truth, whose classes mean nothing; None where there are none."""

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
        """Return the sides with only these boxes (masks, or ascending positions); a slice keeps all."""
        return replace(
            self,
            truth=self.truth if isinstance(truth, slice) else self.truth.take(truth),
            detections=self.detections if isinstance(detections, slice) else self.detections.take(detections),
        )

    def shard(self, images: NDArray[Any] | Iterable[int]) -> Joined:
        """Return the sides with only the boxes on some `images` (numbers): a part of the work."""
        is_chosen = np.zeros(len(self.images), np.bool_)
        is_chosen[np.fromiter(images, np.int64)] = True
        return self.only(truth=is_chosen[self.truth.image], detections=is_chosen[self.detections.image])


# ---------------------------------------------------------------------- all boxes as if of one class

AT_A_TIME = 2**20
"""Pairs of detections and ground truths of any class that are looked at together."""


def merge_classes(joined: Joined, name: str = "", ranks: Longs | None = None) -> Joined:
    """Return the sides with all boxes in one class, called `name`.

    With `ranks`, (classes,), the boxes of an image are ordered by the rank of their class.
    """

    def collapse(side: SideTable) -> SideTable:
        """Return the side with class 0 for all boxes."""
        if ranks is not None:
            side = side.take(np.lexsort((ranks[side.category], side.image)))
        return replace(side, category=np.zeros(len(side), np.int32))

    return replace(
        joined, classes=(name,), truth=collapse(joined.truth), detections=collapse(joined.detections)
    )


def split_images(joined: Joined) -> Iterator[tuple[int, int, Joined]]:
    """Yield the sides of a few consecutive images at a time, with at most `AT_A_TIME` possible pairs.

    Yields (position of the first ground truth in `joined`, position of the first detection, sides). A single
    image may have more pairs.
    """
    image_edges = np.arange(len(joined.images) + 1)  # boxes are ordered by image
    gt_starts = np.searchsorted(joined.truth.image, image_edges)
    det_starts = np.searchsorted(joined.detections.image, image_edges)
    for image_range in split_by_size(np.diff(gt_starts) * np.diff(det_starts), AT_A_TIME):
        gt = slice(int(gt_starts[image_range.start]), int(gt_starts[image_range.stop]))
        det = slice(int(det_starts[image_range.start]), int(det_starts[image_range.stop]))
        chunk = replace(joined, truth=joined.truth.take(gt), detections=joined.detections.take(det))
        yield gt.start, det.start, chunk


# ------------------------------------------------------------------ a part of the images, classes and scores


NOTHING_LEFT = Code(
    "nothing-left",
    "warning",
    "{option} leaves none of the {n} {what}",
    "check the value",
    "Without detections every metric is 0, and without ground truth it is undefined, whatever the detector "
    "does.",
)

ExtraImages = Literal["error", "background", "ignore"]


class Choice(msgspec.Struct, frozen=True, eq=False):
    """The part of the sides that is evaluated."""

    drop_extra: bool = False
    """Whether images that only the detections have are left out."""
    classes: Sequence[str] | None = None
    images: Sequence[int] | None = None
    """Numbers of images."""
    score_min: float | None = None


class Kept(msgspec.Struct, frozen=True, eq=False):
    """Counts of what a `Choice` leaves of the sides; counts of parts can be added."""

    counts: Longs
    """(4, 4) a row for each choice: extra images, classes, images, scores. In columns how many ground truths
    and detections there were before it, then after it."""
    highest: float
    """The highest score before scores were chosen, -inf where there was none."""

    @classmethod
    def merge(cls, summaries: Sequence[Kept]) -> Kept:
        """Add up the counts of several parts of the images."""
        return cls(
            sum((p.counts for p in summaries), np.zeros((4, 4), np.int64)), max(p.highest for p in summaries)
        )

    def report(self, choice: Choice, extra: Sequence[str], path: str, log: Log) -> None:
        """Note what was dropped, and report options that leave nothing.

        `extra` are the names of the images that only the detections have, `path` the file that is blamed.
        """
        n_dropped_detections = self.counts[:, 1] - self.counts[:, 3]  # by each choice: before, less after
        if choice.drop_extra and extra:
            log.note(
                f"{plural(len(extra), 'image')} only in the detections left out, with "
                f"{plural(int(n_dropped_detections[0]), 'detection')}: {list_first_three(extra)}"
            )
        if choice.classes is not None:  # row 1 of `counts`
            self._report_nothing_left(1, spell("only_classes"), path, log)
        if choice.images is not None:
            self._report_nothing_left(2, spell("only_images"), path, log)
        if choice.score_min is not None and n_dropped_detections[3]:
            lowest = choice.score_min
            log.note(f"{int(n_dropped_detections[3])} detections with a score below {lowest:g} were dropped")
            option = f"{spell('score_min')} {lowest:g}, above the highest score, {self.highest:g},"
            self._report_nothing_left(3, option, path, log)

    def _report_nothing_left(self, step: int, option: str, path: str, log: Log) -> None:
        """Report an option, whose choice is row `step` of the counts, if it leaves a side without boxes."""
        before_counts, after_counts = self.counts[step, :2].tolist(), self.counts[step, 2:].tolist()
        for n_before, n_after, noun in zip(
            before_counts, after_counts, ("ground truth boxes", "detections"), strict=True
        ):
            if n_before and not n_after:
                log.report(NOTHING_LEFT, path, option=Trusted(option), n=n_before, what=Trusted(noun))


def apply_choice(joined: Joined, choice: Choice) -> tuple[Joined, Kept]:
    """Return the part of the sides that a choice leaves, and its counts.

    With a class hierarchy, classes are only marked as `Joined.wanted`: `keep_requested_classes` drops
    the others after the hierarchy was applied. Chosen classes also set `SideTable.rank_in_image`, by all
    classes. Raises UsageError if there is no such class.
    """
    counts = np.zeros((4, 4), np.int64)
    highest = float(joined.detections.score.max(initial=-np.inf))

    def count(step: int, narrowed: Joined) -> Joined:
        """Count the boxes of both sides before and after a step; return the sides after it."""
        counts[step] = (  # ground truths and detections before it, then after it
            *map(len, (joined.truth, joined.detections)),
            *map(len, (narrowed.truth, narrowed.detections)),
        )
        return narrowed

    if choice.drop_extra and len(joined.images) > joined.n_truth_images:
        is_kept = joined.detections.image < joined.n_truth_images
        images = joined.images[: joined.n_truth_images]
        joined = count(0, replace(joined.only(detections=is_kept), images=images))
    if choice.classes is not None:
        _check_class_names(choice.classes, joined)
        detections = replace(joined.detections, rank_in_image=_rank_in_images(joined.detections))
        kept_sides = replace(joined, detections=detections, wanted=frozenset(choice.classes))
        # With a hierarchy other classes stay for now, as their boxes may count for an ancestor that is kept.
        joined = count(1, kept_sides if joined.hierarchy else keep_requested_classes(kept_sides))
    if choice.images is not None:
        chosen = distinct(np.asarray(choice.images, np.int64))
        joined = count(2, replace(joined.shard(chosen), chosen=chosen))
    if choice.score_min is not None:
        highest = float(joined.detections.score.max(initial=-np.inf))
        is_kept = joined.detections.score >= choice.score_min
        joined = count(3, joined if is_kept.all() else joined.only(detections=is_kept))
    return joined, Kept(counts, highest)


def _check_class_names(names: Sequence[str], joined: Joined) -> None:
    """Raise UsageError if one of `names` is no class of the sides or of their hierarchy."""
    hierarchy = joined.hierarchy or {}
    known_names = {*joined.classes, *hierarchy}.union(*hierarchy.values())
    for name in names:
        if name not in known_names:
            raise UsageError(
                f"{spell('only_classes')}: there is no class {name!r}{hint(name, sorted(known_names))}"
            )


def _rank_in_images(detections: SideTable) -> Longs:
    """(n,) the rank of each detection by score among those of its image, of all classes, 0 the best."""
    score_order = np.lexsort((-detections.score, detections.image))
    rank = np.empty(len(score_order), np.int64)
    rank[score_order] = rank_in_runs(first_of_runs(detections.image[score_order]), len(score_order))
    return rank


def keep_requested_classes(joined: Joined) -> Joined:
    """Keep only the classes in `Joined.wanted`, their boxes and their image-level labels."""
    if joined.wanted is None:
        return joined
    classes = tuple(name for name in joined.classes if name in joined.wanted)
    row_of_class = {name: i for i, name in enumerate(classes)}
    # (classes,) the new number of each class, -1 = dropped.
    row_of = np.array([row_of_class.get(name, -1) for name in joined.classes], np.int32)
    sides = []
    for side in (joined.truth, joined.detections):
        category = row_of[side.category] if len(side) else side.category
        sides.append(replace(side, category=category).take(category >= 0))
    labels = joined.image_labels
    if labels is not None:
        image, label_class, state = labels
        is_kept = row_of[label_class] >= 0
        labels = (image[is_kept], row_of[label_class][is_kept].astype(np.int64), state[is_kept])
    return replace(
        joined, classes=classes, truth=sides[0], detections=sides[1], image_labels=labels, wanted=None
    )


def make_choice(
    joined: Joined,
    extra_images: ExtraImages,
    only_classes: Sequence[str] | None,
    only_images: Sequence[str] | None,
    score_min: float | None,
) -> Choice:
    """Make a choice from the options of a user, with images as row numbers in their order.

    `only_images` are names with or without extension; with `extra_images` ``ignore`` those of the ground
    truth alone. Raises UsageError if there is no such image.
    """
    image_rows: list[int] | None = None
    if only_images is not None:
        images = joined.images[: joined.n_truth_images] if extra_images == "ignore" else joined.images
        rows = {name: i for i, name in enumerate(images)}
        stems = index_unique_keys(stem(name) for name in images)
        image_rows = []
        for name in only_images:
            row = rows.get(name, stems.get(name))
            if row is None:
                raise UsageError(f"{spell('only_images')}: there is no image {name!r}{hint(name, images)}")
            image_rows.append(row)
    return Choice(extra_images == "ignore", only_classes, image_rows, score_min)
