"""Join ground truth and detections over one list of images and one of classes.

`odm.pairing` decides which image and which class is which. What cannot be joined is never a silent zero: it
is an error, a warning with the nearest name, or a count.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.codes import (
    ALL_SCORED,
    COORDINATES_DIFFER,
    COORDINATES_NOT_FINITE,
    NO_SCORES,
    NO_SIZE,
    SCORE_NOT_FINITE,
)
from odm.evaluate.matching.prepare import add_labelled_images, add_labels_and_ancestors, parse_hierarchy
from odm.evaluate.matching.sides import (
    ExtraImages,
    Joined,
    JoinReport,
    Label,
    SideTable,
    apply_choice,
    make_choice,
)
from odm.evaluate.scores.protocol_overrides import check_scores
from odm.issues import INVERTED, PERCENT, Code, DataError, Log, Trusted, UsageError, round_noise, spell
from odm.pairing import (
    Pairing,
    check_numbers,
    pair,
    report_classes,
    report_empty_images,
    report_images,
    report_splits,
    source_of,
)
from odm.tables import NO_ID, Boxes, Dataset, Flag, Longs, distinct, region_classes


def join(
    truth: Dataset,
    detections: Dataset,
    log: Log | None = None,
    *,
    extra_images: ExtraImages = "error",
    only_classes: Sequence[str] | None = None,
    only_images: Sequence[str] | None = None,
    score_min: float | None = None,
    image_labels: Iterable[Label] | None = None,
    hierarchy: Mapping[str, Any] | None = None,
    unit: str = "images",
) -> Joined:
    """Join ground truth and detections.

    Parameters
    ----------
    truth, detections
        The two sides.
    log
        Takes the issues and the notes.
    extra_images
        What to do with images that only the detections have: ``error``, ``background`` (their boxes are all
        false positives) or ``ignore`` (they are left out).
    only_classes, only_images
        Names to keep; an image's may lack the extension.
    score_min
        Detections of a lower score are dropped.
    image_labels
        Rows (image, class, whether it is there) beside those of the ground truth, for the protocols that
        use them. Images that only they name are images of the ground truth without boxes.
    hierarchy
        ``{"LabelName": ..., "Subcategory": [...]}``, nested, as Open Images publishes it.
    unit
        What the images are; boxes of anything but ``images`` do not show whether numbers were misread.

    Raises
    ------
    DataError
        If the two sides do not belong together; the log says why.
    UsageError
        If a name in `only_classes` or `only_images` exists on neither side, or a value is out of range.

    Examples
    --------
    >>> from odm.tables import Dataset
    >>> same = {"images": ["a.jpg"], "categories": ["person"], "image": [0], "category": [0]}
    >>> truth = Dataset.from_arrays(**same, ltwh=[[10, 10, 20, 20]])
    >>> detections = Dataset.from_arrays(**same, ltwh=[[12, 10, 20, 20]], score=[0.9])
    >>> join(truth, detections)
    <Joined: 1 images, 1 classes, 1 ground truths, 1 detections>
    """
    if extra_images not in ("error", "background", "ignore"):
        raise UsageError(f"{spell('extra_images')} {extra_images}: choose error, background or ignore")
    check_scores(score_min=score_min)
    log = log or Log()
    if image_labels is not None:
        image_labels = list(image_labels)
    admitted = admit(
        truth,
        detections,
        DetectionSummary.from_dataset(detections),
        log,
        extra_images=extra_images,
        only_classes=only_classes,
        only_images=only_images,
        image_labels=image_labels,
        unit=unit,
    )
    joined = admitted.join_boxes(detections.boxes, hierarchy, unit)
    selections: tuple[Any, ...] = (only_classes, only_images, score_min)
    if extra_images == "ignore" or any(value is not None for value in selections):
        choice = make_choice(joined, extra_images, only_classes, only_images, score_min)
        joined, kept_counts = apply_choice(joined, choice)
        kept_counts.report(choice, joined.report.images_det_only, source_of(detections), log)
    if image_labels is not None or hierarchy is not None:
        joined = add_labels_and_ancestors(joined, image_labels, log)
    return joined


class Admitted(msgspec.Struct, frozen=True, eq=False):
    """The images and classes of the two sides that correspond, decided without comparing any box."""

    truth: Dataset
    detections: Dataset
    pairing: Pairing
    order: Longs
    """The images of the ground truth in the order that decides ties."""
    gt_number: Longs
    """(images,) the number of each image of the ground truth: where it stands in that order."""
    det_number: Longs
    """(images,) the number of each image of the detections: that of its partner, or one beyond them."""
    classes: Mapping[str, int]
    """The numbers of the classes: those of the ground truth, then those that only the detections have."""
    images_with_detections: NDArray[np.intp]
    """The rows of the images that have detections."""
    det_only: Sequence[str]
    """The classes that only the detections have."""
    hints: Mapping[str, str]
    """The nearest class of the ground truth for each of them."""

    @property
    def det_classes(self) -> list[int]:
        """The number of each class of the detections, -1 of one without a box."""
        return [self.classes.get(name, -1) for name in self.pairing.det_names]

    def join_boxes(self, boxes: Boxes, hierarchy: Mapping[str, Any] | None, unit: str = "images") -> Joined:
        """Join the boxes of the ground truth with `boxes`, those of all detections or of a part of them.

        `hierarchy` and `unit` are as for `join`.
        """
        truth, detections, pairing, gt_number = self.truth, self.detections, self.pairing, self.gt_number
        # partner_rows: for each image of the detections the row of the ground truth's, -1 = none
        partner_rows, gt_names, det_names = pairing.image, pairing.gt_names, pairing.det_names
        extra_names = tuple(detections.images.name[i] for i in np.flatnonzero(partner_rows < 0).tolist())
        gt_class = [self.classes.get(name, -1) for name in gt_names]  # -1 of regions to ignore
        object_names = [name for name in gt_names if name in self.classes]
        objects, regions = _split_off_regions(make_side_table(truth.boxes, gt_number, gt_class))
        in_detections = set(det_names)
        labels, image_labels = truth.labels, None
        if len(labels):
            category = np.array(gt_class, np.int64)[labels.category]
            image_labels = gt_number[labels.image], category, labels.verdict
        is_unmatched = np.ones(len(truth.images), np.bool_)
        is_unmatched[partner_rows[partner_rows >= 0]] = False
        return Joined(
            images=tuple(truth.images.name[i] for i in self.order.tolist()) + extra_names,
            n_truth_images=len(gt_number),
            classes=tuple(self.classes),
            truth=objects,
            regions=regions,
            detections=make_side_table(boxes, self.det_number, self.det_classes),
            report=JoinReport(
                images_both=len(partner_rows) - len(extra_names),
                images_gt_only=tuple(truth.images.name[i] for i in np.flatnonzero(is_unmatched).tolist()),
                images_det_only=extra_names,
                classes_both=tuple(name for name in object_names if name in in_detections),
                classes_gt_only=tuple(name for name in object_names if name not in in_detections),
                classes_det_only=tuple(self.det_only),
                how=pairing.n_by_method,
                hints=self.hints,
                unit=unit,
                # Those of both sides, less those with detections.
                images_empty=len(partner_rows)
                - len(extra_names)
                - int((partner_rows[self.images_with_detections] >= 0).sum()),
            ),
            relative=truth.relative,
            sizes=self._make_sizes(len(gt_number) + len(extra_names)),
            image_labels=image_labels,
            hierarchy=None if hierarchy is None else parse_hierarchy(hierarchy),
            frequency={n: f for n, f in zip(gt_names, truth.categories.frequency, strict=True) if f},
        )

    def _make_sizes(self, n_images: int) -> Longs:
        """Make `Joined.sizes`, (2, n_images, 2): height and width of the joint images on either side."""
        sides = (self.truth, self.gt_number), (self.detections, self.det_number)
        sizes = np.zeros((2, n_images, 2), np.int64)
        for side_sizes, (side, numbers) in zip(sizes, sides, strict=True):
            side_sizes[numbers] = np.stack([side.images.height, side.images.width], axis=1)
        return sizes


def admit(
    truth: Dataset,
    detections: Dataset,
    summary: DetectionSummary,
    log: Log,
    *,
    extra_images: ExtraImages,
    only_classes: Sequence[str] | None,
    only_images: Sequence[str] | None,
    image_labels: Sequence[Label] | None,
    unit: str = "images",
) -> Admitted:
    """Decide which images and classes of the two sides correspond.

    `detections` need hold only a sample of the boxes, beside all images and classes: the first of each class
    and those of the highest scores. `summary` counts all of them. `unit` is ``images`` or ``videos``. With
    `image_labels` the ground truth has the images that only these name, too. Raises DataError if the two
    sides do not belong together; the log says why.
    """
    errors_before = log.errors
    order = _sort_by_id(truth.images.source_id)
    if image_labels is not None:
        truth = add_labelled_images(truth, image_labels, log)
        order = np.r_[order, len(order) : len(truth.images)]  # the images added come last
    _check_truth(truth, log)
    _check_scores(detections, log, summary)
    for side in (truth, detections):
        check_rows(side, log)
    if len(truth) and summary.n:
        _check_coordinates(truth, detections, log, summary)

    # Images of one side only; what follows is reported only if nothing before it explains it.
    pairing = pair(truth, detections, log)
    if extra_images == "error" or (pairing.image < 0).all():  # none in common is an error in any case
        report_images(truth, detections, pairing, log, one_by_one=False, unit=unit.removesuffix("s"))
    if only_images is None:
        report_splits(truth, detections, pairing, log, summary.images)
        if log.errors == errors_before:
            report_empty_images(truth, pairing, log, summary.images, unit=unit)
    is_misread = (
        unit == "images" and log.errors == errors_before and check_numbers(truth, detections, pairing, log)
    )

    det_only: Sequence[str] = ()
    hints: Mapping[str, str] = {}
    if not is_misread:
        is_used: NDArray[np.bool_] | None = None
        n_of_class: Longs | None = summary.per_class
        if extra_images == "ignore" and (pairing.image < 0).any():  # the summary counts boxes left out, too
            is_used, n_of_class = pairing.image[detections.boxes.image] >= 0, None
        requested = None if only_classes is None else set(only_classes)
        det_only, hints = report_classes(
            truth, detections, pairing, log, box_rows=is_used, requested=requested, counts=n_of_class
        )
    if log.errors > errors_before:
        raise DataError("the ground truth and the detections cannot be compared", log)

    gt_number, det_number = _number_images(order, pairing.image)
    object_names = itertools.compress(pairing.gt_names, ~region_classes(truth))
    classes = {name: i for i, name in enumerate(dict.fromkeys([*object_names, *det_only]))}
    numbers = gt_number, det_number, classes
    return Admitted(truth, detections, pairing, order, *numbers, summary.images, det_only, hints)


def _number_images(order: Longs, partner_rows: Longs) -> tuple[Longs, Longs]:
    """Number the images of the ground truth by their place in `order`; those of the detections have the
    numbers of their partners, (images,) `partner_rows`, and those without one (-1) come after all others.
    """
    gt_number = np.empty(len(order), np.int64)
    gt_number[order] = np.arange(len(order))
    extra_rows = np.flatnonzero(partner_rows < 0)
    # Row -1 reads the last number, which `where` replaces; an empty `gt_number` cannot be read.
    det_number = np.where(partner_rows >= 0, gt_number[partner_rows] if len(gt_number) else partner_rows, 0)
    det_number[extra_rows] = len(gt_number) + np.arange(len(extra_rows))
    return gt_number, det_number


def _sort_by_id(ids: NDArray[Any]) -> Longs:
    """(n,) row numbers in the order that decides ties: by id, numbers before text; as they stand if any row
    has none.
    """
    if ids.dtype != object:
        if len(ids) == 0 or (ids == NO_ID).any():
            return np.arange(len(ids))
        return np.argsort(ids, kind="stable").astype(np.int64)
    id_list = ids.tolist()
    if NO_ID in id_list:
        return np.arange(len(ids))
    keys = [(isinstance(i, str), i) for i in id_list]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def rank_classes(joined: Joined, truth: Dataset) -> Longs:
    """(classes,) the rank of each joint class: by id if the ground truth has ids, else by position."""
    names_by_id = [truth.categories.name[row] for row in _sort_by_id(truth.categories.source_id).tolist()]
    # From the last to the first, so that the first of equal names stays.
    ranks = {name: rank for rank, name in reversed(list(enumerate(names_by_id)))}
    # Classes that only the detections have come last.
    return np.array(
        [ranks.get(name, len(names_by_id) + k) for k, name in enumerate(joined.classes)], np.int64
    )


def make_side_table(boxes: Boxes, image_number: Longs, class_number: Sequence[int] | Longs) -> SideTable:
    """Return the boxes ordered by image, with the joint numbers of their images and classes.

    `image_number` (images,) and `class_number` (classes,) map rows of the dataset to the joint numbers.
    """
    image = image_number.astype(np.int32)[boxes.image] if len(boxes) else boxes.image
    category = np.array(class_number, np.int32)[boxes.category] if len(boxes) else boxes.category
    row = np.arange(len(boxes), dtype=np.int32)
    box_columns = boxes.xyxy, boxes.wh, boxes.score, boxes.flags, boxes.area
    has_more = boxes.shapes is not None or boxes.keypoints is not None or boxes.extra
    table = SideTable(image, category, *box_columns, row, source=boxes if has_more else None)
    is_sorted = (image[1:] >= image[:-1]).all()
    return table if is_sorted else table.take(np.argsort(image, kind="stable"))


def _split_off_regions(side: SideTable) -> tuple[SideTable, SideTable | None]:
    """Split a side into its objects and its regions to ignore, None if it has no regions."""
    is_region = (side.flags & np.uint16(Flag.REGION)) != 0
    return (side.take(~is_region), side.take(is_region)) if is_region.any() else (side, None)


# ------------------------------------------------------------------------------- what is refused, or doubted
# Two sides that do not belong together would give an evaluation of zeros; each reason has a code here.

NO_TRUTH = Code(
    "no-ground-truth",
    "error",
    "the ground truth contains no images",
    "check the path of the ground truth",
    "Without images there is nothing to compare the detections with.",
)

NO_BOXES = Code(
    "no-ground-truth-boxes",
    "warning",
    "the ground truth has {n} images but no boxes, so every metric is undefined",
    "check that this is intended",
    "Metrics are fractions of the ground-truth boxes, and here there are none.",
)

NO_DETECTIONS = Code(
    "no-detections",
    "warning",
    "found no detections: the result is 0 for every class with ground truth",
    "check the path of the detections",
    "A detector may find nothing, but it is more likely that its output was not written.",
)


class DetectionSummary(msgspec.Struct, frozen=True, eq=False):
    """Counts and extremes of the detections of a dataset or of its parts."""

    n: int
    scored: int
    """How many have a score."""
    low: float
    """The lowest score, NaN where there is none."""
    high: float
    above_one: int
    extent: float
    """The largest absolute value of a coordinate."""
    fractional: bool
    """Whether any coordinate is no whole number."""
    per_class: Longs
    """(classes,) detections of each class."""
    images: NDArray[np.intp]
    """The rows of the images that have detections."""

    @classmethod
    def from_dataset(cls, detections: Dataset) -> DetectionSummary:
        """Summarise a whole dataset."""
        boxes, n = detections.boxes, len(detections)
        score, xyxy = boxes.score, boxes.xyxy
        is_missing = np.isnan(score)
        known_scores = score[~is_missing] if is_missing.any() else score
        has_boxes = np.zeros(len(detections.images), np.bool_)
        has_boxes[boxes.image] = True
        return cls(
            n=n,
            scored=len(known_scores),
            low=float(known_scores.min()) if len(known_scores) else math.nan,
            high=float(known_scores.max()) if len(known_scores) else math.nan,
            above_one=int(np.count_nonzero(known_scores > 1)),
            extent=float(max(xyxy.max(), -xyxy.min())) if n else -math.inf,
            # A chunk at a time: nearly always the first one tells.
            fractional=any(
                bool((chunk != np.floor(chunk)).any())
                for chunk in (xyxy[start : start + 2**14] for start in range(0, n, 2**14))
            ),
            per_class=np.bincount(boxes.category, minlength=len(detections.categories)),
            images=np.flatnonzero(has_boxes),
        )

    @classmethod
    def merge(
        cls,
        summaries: Sequence[DetectionSummary],
        classes: Sequence[Longs],
        images: Sequence[Longs],
        n_classes: int,
    ) -> DetectionSummary:
        """Add up the summaries of several parts of the detections.

        `classes` and `images` have an array for each part, which maps its row numbers to those of the whole;
        `n_classes` is the number of classes of the whole.
        """
        per_class = np.zeros(n_classes, np.int64)
        for summary, rows in zip(summaries, classes, strict=True):
            np.add.at(per_class, rows, summary.per_class)
        image_rows = [rows[summary.images] for summary, rows in zip(summaries, images, strict=True)]
        return cls(
            n=sum(p.n for p in summaries),
            scored=sum(p.scored for p in summaries),
            low=float(np.fmin.reduce([math.nan, *(p.low for p in summaries)])),
            high=float(np.fmax.reduce([math.nan, *(p.high for p in summaries)])),
            above_one=sum(p.above_one for p in summaries),
            extent=max([-math.inf, *(p.extent for p in summaries)]),
            fractional=any(p.fractional for p in summaries),
            per_class=per_class,
            images=distinct(np.concatenate([np.zeros(0, np.int64), *image_rows])),
        )

    @property
    def in_percent(self) -> bool:
        """Whether the scores are percentages; see `Boxes.in_percent`."""
        return 10 < self.high <= 100 and self.low >= 0 and self.above_one * 2 > self.n


def _check_truth(truth: Dataset, log: Log) -> None:
    """Report ground truth without images or boxes, and one whose boxes are scored, as detections are."""
    if not len(truth.images):
        log.report(NO_TRUTH, source_of(truth))
    elif not len(truth):
        log.report(NO_BOXES, source_of(truth), n=len(truth.images))
    elif truth.kind == "det" or not np.isnan(truth.boxes.score).any():
        log.report(ALL_SCORED, source_of(truth), n=len(truth))


FILTERED = 0.25
"""Detections that all score at least this look as if a threshold had been applied."""


def _check_scores(detections: Dataset, log: Log, summary: DetectionSummary) -> None:
    """Report detections that cannot be ranked by score, scores in percent, and scores that look filtered."""
    score = detections.boxes.score
    if not summary.n:
        log.report(NO_DETECTIONS, source_of(detections))
        return
    if not summary.scored:
        log.report(NO_SCORES, source_of(detections), n=summary.n)
        return
    bad_rows = np.flatnonzero(~np.isfinite(score))
    if len(bad_rows):
        log.report_rows(
            SCORE_NOT_FINITE, detections, bad_rows, lambda row: {"value": float(score[row])}, field="score"
        )
        return
    low, high, n = summary.low, summary.high, summary.n
    if summary.in_percent and not log.counts[PERCENT.name]:  # else it was reported when the file was checked
        path, line, pointer = detections.location(int((detections.boxes.score > 1).argmax()))
        largest = Trusted(f"{high:g}")
        log.report(PERCENT, path, line=line, pointer=pointer, n=summary.above_one, total=n, value=largest)
    lowest_fraction = low / 100 if summary.in_percent else low  # above 100 scores are no probabilities
    # One or two detections tell nothing of how all are scored.
    if n >= 3 and lowest_fraction >= FILTERED and high <= 100:
        log.note(
            f"all {n} detections score at least {low:g}: they look already filtered, which lowers "
            f"recall and AP; if so, keep all of them (a threshold of 0.01 or less)"
        )
    if n >= 3 and low == high:
        log.note(f"all {n} detections have the score {low:g}, so only their order ranks them")


def check_rows(side: Dataset, log: Log) -> None:
    """Report boxes that cannot be compared: coordinates that are not numbers, or edges in the wrong order."""
    xyxy, wh = side.boxes.xyxy, side.boxes.wh
    is_finite: Any = True
    if not (np.isfinite(xyxy).all() and np.isfinite(wh).all()):
        is_finite = np.isfinite(np.c_[xyxy, wh]).all(axis=1)
        rows = np.flatnonzero(~is_finite)
        log.report_rows(COORDINATES_NOT_FINITE, side, rows, lambda row: {"value": str(xyxy[row].tolist())})
    left, top, right, bottom = xyxy.T
    rows = np.flatnonzero(((right < left) | (bottom < top) | (wh[:, 0] < 0) | (wh[:, 1] < 0)) & is_finite)
    if len(rows):

        def describe_edges(row: int) -> dict[str, Any]:
            """Return the fields of the message about a box whose edges are in the wrong order."""
            named_edges = zip(("left", "top", "right", "bottom"), xyxy[row].tolist(), strict=True)
            text = ", ".join(f"{name} {round_noise(value):.15g}" for name, value in named_edges)
            return {"value": Trusted(text), "option": Trusted("")}  # tables do not know whether --box helps

        log.report_rows(INVERTED, side, rows, describe_edges)


def _check_coordinates(truth: Dataset, detections: Dataset, log: Log, summary: DetectionSummary) -> None:
    """Report if one side is in pixels and the other in fractions of the image, 0..1.

    A side known to be relative is reported if the other is not; else the largest values decide. If both sides
    lie in 0..1, this is noted only.
    """
    if truth.relative or detections.relative:
        for side in (truth, detections) if truth.relative != detections.relative else ():
            if side.relative:
                path, line, pointer = side.image_place(int(side.boxes.image[0]))
                name = side.images.name[int(side.boxes.image[0])]
                log.report(NO_SIZE, path, line=line, pointer=pointer, value=name)
        return
    truth_xyxy = truth.boxes.xyxy
    # For the ground truth (0) and the detections (1): above 1.5 are pixels, as relative boxes may stick out.
    largest_values = [float(max(truth_xyxy.max(), -truth_xyxy.min())), summary.extent]
    are_fractional = [bool((truth_xyxy != np.floor(truth_xyxy)).any()), summary.fractional]
    if max(largest_values) <= 1.5:
        log.note(
            "all boxes of both sides are in 0..1: if they are relative, give the image sizes, because "
            "areas and inclusive pixels need real pixels"
        )
    for small, large, sides in (
        (0, 1, ("the ground truth's boxes", "the detections")),
        (1, 0, ("the detections", "the ground truth's boxes")),
    ):
        # Whole numbers may be pixels even here, of a single tiny box; fractions in 0..1 are no pixels. The
        # other side is surely in pixels only above 4.
        if largest_values[small] <= 1.5 and largest_values[large] > 4 and are_fractional[small]:
            log.report(
                COORDINATES_DIFFER,
                source_of((truth, detections)[small]),
                relative=sides[0],
                absolute=sides[1],
                small=f" (largest value {largest_values[small]:g})",
                large=f" (largest value {largest_values[large]:g})",
            )
