"""Bring ground truth and detections together over one list of images and one of classes.

`odm.pairing` decides which image and which class is which. What cannot be joined is never a silent zero: it
is an error, a warning with the nearest name, or a count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from odm.evaluate.admission import check_sides
from odm.evaluate.labels import (
    added_classes,
    ancestors,
    check_hierarchy,
    own_labels,
    with_labelled_images,
    with_labels,
)
from odm.evaluate.protocols import check_scores
from odm.evaluate.selection import (
    ExtraImages,
    keep_classes,
    keep_images,
    keep_scores,
    report_if_nothing_left,
    without_extra_images,
)
from odm.evaluate.sides import Joined, JoinReport, Label, SideTable
from odm.issues import DataError, Log, UsageError
from odm.pairing import (
    Pairing,
    check_numbers,
    pair,
    report_classes,
    report_images,
    report_splits,
    source_of,
)
from odm.tables import NO_ID, Boxes, Dataset, Images, Longs


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
    errors_before = log.errors
    order = _image_order(truth.images)
    if image_labels is not None:
        image_labels = list(image_labels)
        truth = with_labelled_images(truth, image_labels, log)
        order = np.r_[order, len(order) : len(truth.images)]
    check_sides(truth, detections, log)
    pairing = pair(truth, detections, log)
    if extra_images == "error" or (pairing.image < 0).all():
        report_images(truth, detections, pairing, log, each=False)
    if only_images is None:
        report_splits(truth, detections, pairing, log)
    used = None
    if extra_images == "ignore" and (pairing.image < 0).any():
        used = pairing.image[detections.boxes.image] >= 0
    asked = None if only_classes is None else set(only_classes)
    misread = unit == "images" and log.errors == errors_before
    misread = misread and check_numbers(truth, detections, pairing, log)
    det_only, hints = (
        ([], {}) if misread else report_classes(truth, detections, pairing, log, used=used, asked=asked)
    )
    if log.errors > errors_before:
        raise DataError("the ground truth and the detections cannot be compared", log)

    joined = _joined(truth, detections, pairing, order, det_only, hints)
    joined = dataclasses.replace(
        joined,
        hierarchy=None if hierarchy is None else ancestors(hierarchy),
        report=dataclasses.replace(joined.report, unit=unit),
    )
    if extra_images == "ignore" and joined.report.images_det_only:
        joined = without_extra_images(joined, log)
    path = source_of(detections)
    if only_classes is not None:
        before, joined = joined, keep_classes(joined, only_classes)
        if joined.wanted is None:  # else the classes are left out after the hierarchy was applied
            report_if_nothing_left(before, joined, "--only-classes", path, log)
    if only_images is not None:
        before, joined = joined, keep_images(joined, only_images)
        report_if_nothing_left(before, joined, "--only-images", path, log)
    if score_min is not None:
        joined = keep_scores(joined, score_min, path, log)
    if image_labels is not None:
        joined = with_labels(joined, image_labels, log)
    check_hierarchy(joined)
    return dataclasses.replace(joined, added=added_classes(joined))


def _joined(
    truth: Dataset,
    detections: Dataset,
    pairing: Pairing,
    order: Longs,
    det_only: Sequence[str],
    hints: Mapping[str, str],
) -> Joined:
    """Both sides with all their boxes: the images of the ground truth in `order`, then those without one.

    `det_only` are the classes that only the detections have.
    """
    partner, gt_names, det_names = pairing.image, pairing.gt_names, pairing.det_names
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    extra = np.flatnonzero(partner < 0)
    det_number = np.where(partner >= 0, number[partner] if len(number) else partner, 0)
    det_number[extra] = len(order) + np.arange(len(extra))
    extra_names = tuple(detections.images.name[i] for i in extra.tolist())
    classes = [*dict.fromkeys(gt_names), *det_only]
    class_row = {name: i for i, name in enumerate(classes)}
    gt_class = [class_row[name] for name in gt_names]
    in_detections = set(det_names)
    return Joined(
        images=tuple(truth.images.name[i] for i in order.tolist()) + extra_names,
        n_truth_images=len(order),
        classes=tuple(classes),
        truth=_side(truth.boxes, number, gt_class),
        detections=_side(detections.boxes, det_number, [class_row.get(name, -1) for name in det_names]),
        report=JoinReport(
            images_both=len(partner) - len(extra),
            images_gt_only=_without_partner(truth.images, partner),
            images_det_only=extra_names,
            classes_both=tuple(name for name in gt_names if name in in_detections),
            classes_gt_only=tuple(name for name in gt_names if name not in in_detections),
            classes_det_only=tuple(det_only),
            how=pairing.how,
            hints=hints,
        ),
        image_labels=own_labels(truth, number, gt_class),
        frequency={n: f for n, f in zip(gt_names, truth.categories.frequency, strict=True) if f},
    )


def _image_order(images: Images) -> Longs:
    """(n,) rows in the order that decides ties."""
    ids = images.source_id
    if ids.dtype != object:
        if len(ids) == 0 or (ids == NO_ID).any():
            return np.arange(len(ids))
        return np.argsort(ids, kind="stable").astype(np.int64)
    listed = ids.tolist()
    if NO_ID in listed:
        return np.arange(len(ids))
    keys = [(isinstance(i, str), i) for i in listed]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def _without_partner(images: Images, partner: Longs) -> tuple[str, ...]:
    alone = np.ones(len(images), np.bool_)
    alone[partner[partner >= 0]] = False
    return tuple(images.name[i] for i in np.flatnonzero(alone).tolist())


def _side(boxes: Boxes, image_number: Longs, class_number: Sequence[int]) -> SideTable:
    """The boxes by image, with the numbers that images and classes have on both sides."""
    image = image_number.astype(np.int32)[boxes.image] if len(boxes) else boxes.image
    category = np.array(class_number, np.int32)[boxes.category] if len(boxes) else boxes.category
    row = np.arange(len(boxes), dtype=np.int32)
    side = SideTable(image, category, boxes.xyxy, boxes.wh, boxes.score, boxes.flags, boxes.area, row)
    return side if (image[1:] >= image[:-1]).all() else side.take(np.argsort(image, kind="stable"))
