"""Bring ground truth and detections together over one list of images and one of classes.

`odm.pairing` decides which image and which class is which. What cannot be joined is never a silent zero: it
is an error, a warning with the nearest name, or a count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.matching.admission import DetectionSummary, check_sides
from odm.evaluate.matching.labels import (
    added_classes,
    ancestors,
    check_hierarchy,
    own_labels,
    with_labelled_images,
    with_labels,
)
from odm.evaluate.matching.selection import Choice, ExtraImages, image_numbers, narrow
from odm.evaluate.matching.sides import Joined, JoinReport, Label, SideTable
from odm.evaluate.scores.switches import check_scores
from odm.issues import DataError, Log, UsageError
from odm.pairing import (
    Pairing,
    check_numbers,
    pair,
    report_classes,
    report_conventions,
    report_empty_images,
    report_images,
    report_splits,
    source_of,
)
from odm.tables import NO_ID, Boxes, Dataset, Longs


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
        What an image is that only the detections have: an ``error``, or ``background`` whose boxes are all
        false positives, or nothing (``ignore``): it is left out.
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
    """
    if extra_images not in ("error", "background", "ignore"):
        raise UsageError(f"extra_images {extra_images}: choose error, background or ignore")
    check_scores(score_min=score_min)
    log = log or Log()
    if image_labels is not None:
        image_labels = list(image_labels)
    admitted = admit(
        truth,
        detections,
        DetectionSummary.of(detections),
        log,
        extra_images=extra_images,
        only_classes=only_classes,
        only_images=only_images,
        image_labels=image_labels,
        unit=unit,
    )
    numbers = admitted.det_numbers()
    joined = admitted.joined(numbers, admitted.det_classes(), detections.boxes)
    joined = dataclasses.replace(
        joined,
        hierarchy=None if hierarchy is None else ancestors(hierarchy),
        report=dataclasses.replace(joined.report, unit=unit),
    )
    here = joined.images[: joined.n_truth_images] if extra_images == "ignore" else joined.images
    choice = Choice(
        drop_extra=extra_images == "ignore",
        classes=only_classes,
        images=None if only_images is None else image_numbers(here, only_images),
        score_min=score_min,
    )
    joined, kept = narrow(joined, choice)
    kept.report(choice, joined.report.images_det_only, source_of(detections), log)
    return with_what_is_known(joined, image_labels, log)


def with_what_is_known(joined: Joined, image_labels: Sequence[Label] | None, log: Log) -> Joined:
    """The sides with labels of whole images, and the classes that their hierarchy adds."""
    if image_labels is not None:
        joined = with_labels(joined, image_labels, log)
    check_hierarchy(joined)
    return dataclasses.replace(joined, added=added_classes(joined))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Admitted:
    """Which images and classes of the two sides are the same; decided without comparing any box."""

    truth: Dataset
    detections: Dataset
    pairing: Pairing
    order: Longs
    """The images of the ground truth in the order that decides ties."""
    used: NDArray[np.intp]
    """The rows of the images that have detections."""
    det_only: Sequence[str]
    """The classes that only the detections have."""
    hints: Mapping[str, str]

    def det_numbers(self) -> Longs:
        """(images,) the number of each image of the detections."""
        partner, number = self.pairing.image, self._truth_numbers()
        numbers = np.where(partner >= 0, number[partner] if len(number) else partner, 0)
        extra = np.flatnonzero(partner < 0)
        numbers[extra] = len(number) + np.arange(len(extra))
        return numbers

    def _truth_numbers(self) -> Longs:
        number = np.empty(len(self.order), np.int64)
        number[self.order] = np.arange(len(self.order))
        return number

    @property
    def classes(self) -> list[str]:
        """The classes of the ground truth, then those that only the detections have."""
        return [*dict.fromkeys(self.pairing.gt_names), *self.det_only]

    def det_classes(self) -> list[int]:
        """The number of each class of the detections, -1 of one without a box."""
        rows = {name: i for i, name in enumerate(self.classes)}
        return [rows.get(name, -1) for name in self.pairing.det_names]

    def joined(self, det_number: Longs, det_class: Sequence[int], boxes: Boxes) -> Joined:
        """Both sides, with these boxes of the detections, whose images and classes have these numbers."""
        number = self._truth_numbers()
        truth, detections, pairing = self.truth, self.detections, self.pairing
        partner, gt_names, det_names = pairing.image, pairing.gt_names, pairing.det_names
        extra_names = tuple(detections.images.name[i] for i in np.flatnonzero(partner < 0).tolist())
        classes = self.classes
        class_row = {name: i for i, name in enumerate(classes)}
        gt_class = [class_row[name] for name in gt_names]
        in_detections = set(det_names)
        alone = np.ones(len(truth.images), np.bool_)
        alone[partner[partner >= 0]] = False
        return Joined(
            images=tuple(truth.images.name[i] for i in self.order.tolist()) + extra_names,
            n_truth_images=len(number),
            classes=tuple(classes),
            truth=side_table(truth.boxes, number, gt_class),
            detections=side_table(boxes, det_number, det_class),
            report=JoinReport(
                images_both=len(partner) - len(extra_names),
                images_gt_only=tuple(truth.images.name[i] for i in np.flatnonzero(alone).tolist()),
                images_det_only=extra_names,
                classes_both=tuple(name for name in gt_names if name in in_detections),
                classes_gt_only=tuple(name for name in gt_names if name not in in_detections),
                classes_det_only=tuple(self.det_only),
                how=pairing.how,
                hints=self.hints,
                images_empty=len(partner) - len(extra_names) - int((partner[self.used] >= 0).sum()),
            ),
            relative=truth.relative,
            image_labels=own_labels(truth, number, gt_class),
            frequency={n: f for n, f in zip(gt_names, truth.categories.frequency, strict=True) if f},
        )


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
    """Decide what belongs together.

    Of `detections` only the images, the classes and a sample of the boxes are looked at: the first of each
    class and those of the highest scores. `summary` is that of all of them.

    Raises
    ------
    DataError
        If the two sides do not belong together; the log says why.
    """
    errors_before = log.errors
    order = _order_of(truth.images.source_id)
    if image_labels is not None:
        truth = with_labelled_images(truth, image_labels, log)
        order = np.r_[order, len(order) : len(truth.images)]
    check_sides(truth, detections, log, summary)
    pairing = pair(truth, detections, log)
    if extra_images == "error" or (pairing.image < 0).all():
        report_images(truth, detections, pairing, log, each=False, unit=unit[:-1])
    if only_images is None:
        report_splits(truth, detections, pairing, log, summary.images)
        if log.errors == errors_before:
            report_empty_images(truth, pairing, log, summary.images, unit=unit)
    used: NDArray[np.bool_] | None = None
    counts: Longs | None = summary.per_class
    if extra_images == "ignore" and (pairing.image < 0).any():
        used, counts = pairing.image[detections.boxes.image] >= 0, None
    asked = None if only_classes is None else set(only_classes)
    misread = unit == "images" and log.errors == errors_before
    misread = misread and check_numbers(truth, detections, pairing, log)
    if unit == "images" and log.errors == errors_before:
        report_conventions(truth, detections, pairing, log)
    det_only, hints = (
        ([], {})
        if misread
        else report_classes(truth, detections, pairing, log, used=used, asked=asked, counts=counts)
    )
    if log.errors > errors_before:
        raise DataError("the ground truth and the detections cannot be compared", log)
    return Admitted(truth, detections, pairing, order, summary.images, det_only, hints)


def _order_of(ids: NDArray[Any]) -> Longs:
    """(n,) rows in the order that decides ties: by id, numbers before text, if all have one."""
    if ids.dtype != object:
        if len(ids) == 0 or (ids == NO_ID).any():
            return np.arange(len(ids))
        return np.argsort(ids, kind="stable").astype(np.int64)
    listed = ids.tolist()
    if NO_ID in listed:
        return np.arange(len(ids))
    keys = [(isinstance(i, str), i) for i in listed]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def class_ranks(joined: Joined, truth: Dataset) -> Longs:
    """(classes,) ranks of the classes: by id where the ground truth has ids, else as they stand."""
    by_id = [truth.categories.name[row] for row in _order_of(truth.categories.source_id).tolist()]
    known = {name: rank for rank, name in reversed(list(enumerate(by_id)))}
    return np.array([known.get(name, len(by_id) + k) for k, name in enumerate(joined.classes)], np.int64)


def side_table(boxes: Boxes, image_number: Longs, class_number: Sequence[int]) -> SideTable:
    """The boxes by image, with the numbers that images and classes have on both sides."""
    image = image_number.astype(np.int32)[boxes.image] if len(boxes) else boxes.image
    category = np.array(class_number, np.int32)[boxes.category] if len(boxes) else boxes.category
    row = np.arange(len(boxes), dtype=np.int32)
    side = SideTable(image, category, boxes.xyxy, boxes.wh, boxes.score, boxes.flags, boxes.area, row)
    return side if (image[1:] >= image[:-1]).all() else side.take(np.argsort(image, kind="stable"))
