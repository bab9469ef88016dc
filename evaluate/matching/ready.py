"""Check that shapes can be compared: every box has one, and sizes, sigmas and areas are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from odm.codes import GIVE_SIZES, report_unfillable
from odm.evaluate.matching.shapes import POSE_AREA, find_unfillable, measure_areas
from odm.evaluate.matching.sides import Choice, Joined, Mask, SideTable, apply_choice
from odm.evaluate.scores.protocols import COCO_SIGMAS, IouType, Protocol
from odm.issues import Code, DataError, Log, Trusted, UsageError, plural, spell, spell_setting
from odm.masks.runs import MOST_PIXELS
from odm.pairing import list_first_three
from odm.tables import Boxes, Dataset, ShapeKind, Shapes

SHAPE_MISSING = Code(
    "shape-missing",
    "error",
    "this box has no {what}, which --iou-type {value} compares",
    "leave such boxes out with --skip-bad, or compare the boxes (--iou-type bbox)",
    "Every object and every detection needs the shape that is compared: a box in place of an outline would "
    "count as a mask that nobody drew.",
    row=True,
)
MASK_SIZES_DIFFER = Code(
    "mask-sizes-differ",
    "error",
    "{value!r} is {theirs} in the detections and {ours} in the ground truth",
    "use masks of one size on both sides",
    "A mask lists the pixels of a whole image, so masks of images of different sizes cannot be compared.",
)
MASK_SIZE_UNKNOWN = Code(
    "mask-size-unknown",
    "error",
    "the size of image {value!r} is unknown, but masks are compared pixel by pixel",
    GIVE_SIZES,
    "Outlines are filled on the pixel grid of their image, and the runs of a mask go down its columns.",
)

_WORDS: dict[IouType, str] = {
    **dict.fromkeys(("segm", "boundary"), "mask or outline"),
    "keypoints": "keypoints",
    "obb": "oriented box",
}


def find_missing_shapes(boxes: Boxes, iou_type: IouType) -> Mask:
    """(n,) mask of the boxes without the shape that is compared.

    For ``obb`` an outline of four corners will do, and so will plain boxes if no box has a shape.
    """
    if iou_type == "bbox" or (iou_type == "obb" and boxes.shapes is None):
        return np.zeros(len(boxes), np.bool_)
    if iou_type == "keypoints":
        points = boxes.keypoints
        return np.ones(len(boxes), np.bool_) if points is None else points.counts() == 0
    shapes = boxes.shapes
    if shapes is None:
        return np.ones(len(boxes), np.bool_)
    is_missing: Mask = shapes.kind == ShapeKind.NONE
    if iou_type == "obb":
        is_missing = ~shapes.has_four_corners()
    return is_missing


def report_missing(dataset: Dataset, iou_type: IouType, log: Log, among: Mask | None = None) -> Mask:
    """Report the boxes without the shape that is compared, and return their mask, (n,).

    `among`, (n,), is a mask of the boxes that matter; None = all.
    """
    is_missing = find_missing_shapes(dataset.boxes, iou_type)
    if among is not None:
        is_missing &= among
    if is_missing.any():
        fields = {"what": Trusted(_WORDS[iou_type]), "value": Trusted(iou_type)}
        log.report_rows(SHAPE_MISSING, dataset, np.flatnonzero(is_missing), lambda _: fields)
    return is_missing


def report_unfit(dataset: Dataset, iou_type: IouType, log: Log, among: Mask) -> Mask:
    """Report the boxes `among` (n,) that cannot be compared; return (n,) which they are.

    These are the boxes of `report_missing` and, where shapes are compared by pixels (``segm``, ``boundary``),
    those with outlines too large to fill. Outlines are checked on images of known size.
    """
    is_unfit = report_missing(dataset, iou_type, log, among)
    if iou_type in ("segm", "boundary") and dataset.boxes.shapes is not None:
        rows = np.flatnonzero(among & ~is_unfit)
        width = dataset.limits()[dataset.boxes.image[rows], 0]
        large_rows, columns, highest = dataset.boxes.shapes.take(rows).find_unfillable(
            width,
            is_held=iou_type == "boundary",  # bands are made of whole masks
        )
        report_unfillable(dataset, rows[large_rows], columns, highest, log)
        is_unfit[rows[large_rows]] = True
    return is_unfit


def find_classes_with_points(dataset: Dataset) -> Mask:
    """(n,) mask of the classes that have keypoints: names of keypoints, or a box with some."""
    names = dataset.categories.keypoints or ((),) * len(dataset.categories)
    has_points = np.array([len(point_names) > 0 for point_names in names], np.bool_)
    if dataset.boxes.keypoints is not None:
        has_points[dataset.boxes.category[dataset.boxes.keypoints.counts() > 0]] = True
    return has_points


def _drop_classes_without_points(joined: Joined, truth: Dataset, detections: Dataset, log: Log) -> Joined:
    """Drop the classes without keypoints, with a note; keep all if no class has any."""
    has_points = np.zeros(len(joined.classes), np.bool_)
    # The detections first: the second pass resets the classes of the ground truth, which decides about them.
    for side, table in ((detections, joined.detections), (truth, joined.truth)):
        has_points[joined.truth.category] = False
        # The joint classes of the joined boxes whose class in the dataset has points.
        has_points[table.category[find_classes_with_points(side)[side.boxes.category[table.row]]]] = True
    if has_points.all() or not has_points[joined.truth.category].any():
        return joined
    kept_names, left_names = (
        [joined.classes[i] for i in np.flatnonzero(has_points == keeps).tolist()] for keeps in (True, False)
    )
    joined, kept_counts = apply_choice(joined, Choice(classes=kept_names))
    # Row 1 is that of the choice of classes: objects and detections before it, then after it.
    n_objects, n_detections = (kept_counts.counts[1, :2] - kept_counts.counts[1, 2:]).tolist()
    log.note(
        f"left out {plural(len(left_names), 'class')} without keypoints, with "
        f"{plural(n_objects, 'object')} and {plural(n_detections, 'detection')}: "
        f"{list_first_three(left_names)}"
    )
    return joined


def adapt_to_shapes(
    joined: Joined,
    rules: Sequence[Protocol],
    truth: Dataset,
    detections: Dataset,
    log: Log,
    *,
    drop: bool = False,
) -> tuple[Joined, list[Protocol]]:
    """Return the sides with the areas of their shapes, and the protocols with the sigmas of their keypoints.

    Nothing changes where boxes are compared. Regions to ignore get a shape each, or go. `truth` and
    `detections` are the datasets that `joined` was made of; `rules` compare shapes of one type. With `drop`,
    classes without keypoints are left out where these are compared and other classes have some.

    Raises DataError if a box lacks what is compared, an outline is too large to fill, or sizes of images are
    not known or differ; UsageError if sigmas are needed, or are of another number than the points.
    """
    iou_type, errors = rules[0].iou_type, log.errors
    if iou_type == "bbox":
        return joined, list(rules)
    if iou_type == "keypoints" and drop:
        joined = _drop_classes_without_points(joined, truth, detections, log)
    if joined.regions is not None:
        joined = _add_region_shapes(joined, joined.regions, truth.boxes, iou_type, log)
    for side, table in ((truth, joined.truth), (detections, joined.detections)):
        is_joined = np.zeros(len(side), np.bool_)
        is_joined[table.row] = True  # not the boxes that the user's choice left out
        report_missing(side, iou_type, log, is_joined)
    if iou_type in ("segm", "boundary") and log.errors == errors:
        _check_sizes(joined, truth, log)
        if log.errors == errors:
            for side, table in ((truth, joined.truth), (detections, joined.detections)):
                report_unfillable(side, *find_unfillable(joined, table, iou_type), log)
    if log.errors > errors:
        raise DataError("the shapes of the ground truth and the detections cannot be compared", log)
    if iou_type == "keypoints":
        return _fill_person_areas(joined, rules, log), _fill_sigmas(joined, rules, truth, log)
    if iou_type == "obb":
        for side, side_name in ((truth, "ground truth"), (detections, "detections")):
            if side.boxes.shapes is None and len(side):
                log.note(f"no box of the {side_name} is oriented: they are compared as upright rectangles")
        joined = replace(joined, detections=_fill_areas(joined, joined.detections, iou_type))
    elif np.isnan(joined.detections.area).any() and len(rules[0].areas) > 1:  # sizes are told apart
        log.note(f"{BOX_AREAS} ({spell_setting('boxes=shapes', 'det')})")
    return replace(joined, truth=_fill_areas(joined, joined.truth, iou_type)), list(rules)


BOX_AREAS = (
    "the areas of detections, which decide between small, medium and large, are those of their boxes, as in "
    "pycocotools; Detectron2 and MMDetection use those of the masks"
)


def _check_sizes(joined: Joined, truth: Dataset, log: Log) -> None:
    """Report images with masks to compare whose size is unknown, too large or not the same on both sides.

    Only images with boxes on both sides can differ; images with objects need a size. Nothing is checked
    if `Joined.sizes` is None.
    """
    if joined.sizes is None:
        return
    truth_sizes, detection_sizes = joined.sizes
    truth_images = joined.truth.image
    if joined.regions is not None:
        truth_images = np.concatenate([truth_images, joined.regions.image])
    images = np.intersect1d(truth_images, joined.detections.image)
    is_known = (truth_sizes > 0).all(axis=1) & (detection_sizes > 0).all(axis=1)
    is_different = is_known & (truth_sizes != detection_sizes).any(axis=1)
    for i in images[is_different[images]].tolist():
        truth_text, detection_text = (Trusted(f"{w} x {h}") for h, w in (truth_sizes[i], detection_sizes[i]))
        log.report(
            MASK_SIZES_DIFFER, truth.path, value=joined.images[i], ours=truth_text, theirs=detection_text
        )
    sizes = np.where(truth_sizes > 0, truth_sizes, detection_sizes)
    # Sizes that are too large are reported as unknown, too: both need the right size.
    is_unusable = (sizes == 0).any(axis=1) | (sizes.prod(axis=1) >= MOST_PIXELS)
    masked_images = np.union1d(joined.truth.image, images)
    for i in masked_images[is_unusable[masked_images]].tolist():
        log.report(MASK_SIZE_UNKNOWN, truth.path, value=joined.images[i])


def _add_region_shapes(
    joined: Joined, regions: SideTable, boxes: Boxes, iou_type: IouType, log: Log
) -> Joined:
    """Return the sides with a shape for every region to ignore: its box as an outline where it has none.

    Regions are left out with a note where keypoints are compared or no box has a shape.
    """
    is_missing = find_missing_shapes(boxes, iou_type)[regions.row]
    if not is_missing.any():
        return joined
    if iou_type == "keypoints" or boxes.shapes is None:
        n_text = plural(int(is_missing.sum()), "region to ignore", "regions to ignore")
        log.note(f"{n_text} without {_WORDS[iou_type]} left out")
        return replace(joined, regions=regions.take(~is_missing))
    rows = regions.row[is_missing]
    source = replace(boxes, shapes=boxes.shapes.replace_rows(rows, Shapes.of_boxes(boxes.xyxy[rows])))
    sides = {name: replace(getattr(joined, name), source=source) for name in ("truth", "regions")}
    return replace(joined, **sides)


def _fill_areas(joined: Joined, side: SideTable, iou_type: IouType) -> SideTable:
    """Return the side with areas filled in: those of the shapes where the file has none."""
    rows_without_area = np.flatnonzero(np.isnan(side.area))
    if not len(rows_without_area):
        return side
    area = side.area.copy()
    area[rows_without_area] = measure_areas(joined, side.take(rows_without_area), iou_type)
    return replace(side, area=area)


def _fill_person_areas(joined: Joined, rules: Sequence[Protocol], log: Log) -> Joined:
    """Return the sides with `POSE_AREA` of the box as the area of objects without one, with a note."""
    truth = joined.truth
    has_no_area = np.isnan(truth.area)
    if not has_no_area.any() or all(p.measure == "pose" for p in rules):  # pose looks at the boxes alone
        return joined
    log.note(f"{int(has_no_area.sum())} objects have no area: {POSE_AREA} of the area of their boxes is used")
    area = np.where(has_no_area, truth.wh[:, 0] * truth.wh[:, 1] * POSE_AREA, truth.area)
    return replace(joined, truth=replace(truth, area=area))


def _fill_sigmas(joined: Joined, rules: Sequence[Protocol], truth: Dataset, log: Log) -> list[Protocol]:
    """Return the protocols with a sigma for each keypoint.

    One sigma holds for all points; without any, 17 points have those of COCO, and Ultralytics' ``pose`` the
    same for all. Raises UsageError if the number of points varies, differs from that of the sigmas, or none
    are known for it.
    """
    n_points = _count_points(joined)
    adapted: list[Protocol] = []
    for protocol in rules:
        sigmas: tuple[Any, ...] = protocol.sigmas * n_points if len(protocol.sigmas) == 1 else protocol.sigmas
        if sigmas and n_points and len(sigmas) != n_points:
            raise UsageError(
                f"{spell('sigmas')}: {n_points} are needed, one for each keypoint, "
                f"but {len(sigmas)} are given"
            )
        if not sigmas and n_points == len(COCO_SIGMAS):
            sigmas = COCO_SIGMAS
            names = {point_names for point_names in truth.categories.keypoints or () if point_names}
            if names - {COCO_POINTS}:
                log.note(
                    f"{protocol.name}: the sigmas are those of COCO's 17 points, but these have other names"
                )
        elif not sigmas and protocol.measure == "pose":
            sigmas = (1 / n_points,) * n_points if n_points else ()
        elif not sigmas and n_points:
            raise UsageError(
                f"{spell('sigmas')}: {n_points} are needed, one for each keypoint ({spell('sigmas')} "
                "0.025,0.05,... or a file with one per line); only those of COCO's 17 points are known"
            )
        adapted.append(replace(protocol, sigmas=sigmas))
    return adapted


def _count_points(joined: Joined) -> int:
    """Return how many keypoints each object of both sides has; 0 if there are no objects.

    Raises UsageError if the number varies.
    """
    point_numbers: set[int] = set()
    for side in (joined.truth, joined.detections):
        if side.source is not None and side.source.keypoints is not None:
            point_numbers.update(np.unique(side.source.keypoints.counts()[side.row]).tolist())
    if len(point_numbers) > 1:
        *fewer, most = sorted(point_numbers)
        raise UsageError(
            f"{spell('iou_type')} keypoints: some objects have {', '.join(map(str, fewer))} keypoints and "
            f"others {most}, but a list of sigmas fits one number only: choose classes with "
            f"{spell('only_classes')}"
        )
    return max(point_numbers, default=0)


_LIMBS = "eye", "ear", "shoulder", "elbow", "wrist", "hip", "knee", "ankle"
COCO_POINTS = ("nose", *(f"{side}_{limb}" for limb in _LIMBS for side in ("left", "right")))
"""Of COCO's people."""
