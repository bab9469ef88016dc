"""Check that shapes can be compared: every box has one, and sizes, sigmas and areas are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from odm.codes import GIVE_SIZES, report_unfillable
from odm.evaluate.matching.shapes import POSE_AREA, measured_areas, unfillable
from odm.evaluate.matching.sides import Choice, Joined, Mask, SideTable, narrow
from odm.evaluate.scores.protocols import COCO_SIGMAS, IouType, Protocol
from odm.issues import Code, DataError, Log, Trusted, UsageError, plural, spell
from odm.masks.runs import MOST_PIXELS
from odm.pairing import some
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


def missing_shapes(boxes: Boxes, iou_type: IouType) -> Mask:
    """(n,) mask of the boxes without the shape that is compared.

    An outline of four corners is an oriented box, and so are boxes none of which has a shape.
    """
    if iou_type == "bbox" or (iou_type == "obb" and boxes.shapes is None):
        return np.zeros(len(boxes), np.bool_)
    if iou_type == "keypoints":
        points = boxes.keypoints
        return np.ones(len(boxes), np.bool_) if points is None else points.counts() == 0
    shapes = boxes.shapes
    if shapes is None:
        return np.ones(len(boxes), np.bool_)
    missing: Mask = shapes.kind == ShapeKind.NONE
    if iou_type == "obb":
        missing = ~shapes.four_cornered()
    return missing


def report_missing(dataset: Dataset, iou_type: IouType, log: Log, among: Mask | None = None) -> Mask:
    """Report the boxes (`among` some) without the shape that is compared, and answer which they are, (n,)."""
    missing = missing_shapes(dataset.boxes, iou_type)
    if among is not None:
        missing &= among
    if missing.any():
        words = {"what": Trusted(_WORDS[iou_type]), "value": Trusted(iou_type)}
        log.report_rows(SHAPE_MISSING, dataset, np.flatnonzero(missing), lambda _: words)
    return missing


def report_unfit(dataset: Dataset, iou_type: IouType, log: Log, among: Mask) -> Mask:
    """Report as `report_missing` does, and for masks also the outlines too large to fill on images of a
    known size.
    """
    wrong = report_missing(dataset, iou_type, log, among)
    if iou_type in ("segm", "boundary") and dataset.boxes.shapes is not None:
        rows = np.flatnonzero(among & ~wrong)
        width = dataset.limits()[dataset.boxes.image[rows], 0]
        large, columns, most = dataset.boxes.shapes.take(rows).unfillable(
            width, is_held=iou_type == "boundary"
        )
        report_unfillable(dataset, rows[large], columns, most, log)
        wrong[rows[large]] = True
    return wrong


def with_points(dataset: Dataset) -> Mask:
    """(n,) mask of the classes that have keypoints: names of keypoints, or a box with some."""
    names = dataset.categories.keypoints or ((),) * len(dataset.categories)
    has_points = np.array([len(point_names) > 0 for point_names in names], np.bool_)
    if dataset.boxes.keypoints is not None:
        has_points[dataset.boxes.category[dataset.boxes.keypoints.counts() > 0]] = True
    return has_points


def _only_with_points(joined: Joined, truth: Dataset, detections: Dataset, log: Log) -> Joined:
    """Drop the classes without keypoints, with a note; keep all if no class has any."""
    has = np.zeros(len(joined.classes), np.bool_)
    for side, table in ((detections, joined.detections), (truth, joined.truth)):
        has[joined.truth.category] = False  # the ground truth decides about its classes
        has[table.category[with_points(side)[side.boxes.category[table.row]]]] = True
    if has.all() or not has[joined.truth.category].any():
        return joined
    kept, left = (
        [joined.classes[i] for i in np.flatnonzero(has == keeps).tolist()] for keeps in (True, False)
    )
    joined, counted = narrow(joined, Choice(classes=kept))
    n_objects, n_detections = (counted.counts[1, :2] - counted.counts[1, 2:]).tolist()
    log.note(
        f"left out {plural(len(left), 'class')} without keypoints, with {plural(n_objects, 'object')} and "
        f"{plural(n_detections, 'detection')}: {some(left)}"
    )
    return joined


def ready_for(
    joined: Joined,
    rules: Sequence[Protocol],
    truth: Dataset,
    detections: Dataset,
    log: Log,
    *,
    drop: bool = False,
) -> tuple[Joined, list[Protocol]]:
    """Return the sides with the areas of their shapes, and the protocols with the sigmas of their keypoints.

    With `drop`, classes without keypoints are left out where these are compared and other classes have some.

    Raises
    ------
    DataError
        If a box lacks what is compared, or sizes of images are not known or differ; the log says where.
    UsageError
        If sigmas are needed, or are of another number than the points.
    """
    iou_type, errors = rules[0].iou_type, log.errors
    if iou_type == "bbox":
        return joined, list(rules)
    if iou_type == "keypoints" and drop:
        joined = _only_with_points(joined, truth, detections, log)
    if joined.regions is not None:
        joined = _with_drawn_regions(joined, joined.regions, truth.boxes, iou_type, log)
    for side, table in ((truth, joined.truth), (detections, joined.detections)):
        among = np.zeros(len(side), np.bool_)
        among[table.row] = True
        report_missing(side, iou_type, log, among)
    if iou_type in ("segm", "boundary") and log.errors == errors:
        _check_sizes(joined, truth, log)
        if log.errors == errors:
            for side, table in ((truth, joined.truth), (detections, joined.detections)):
                report_unfillable(side, *unfillable(joined, table, iou_type), log)
    if log.errors > errors:
        raise DataError("the shapes of the ground truth and the detections cannot be compared", log)
    if iou_type == "keypoints":
        return _with_person_areas(joined, rules, log), _with_sigmas(joined, rules, truth, log)
    if iou_type == "obb":
        for side, what in ((truth, "ground truth"), (detections, "detections")):
            if side.boxes.shapes is None and len(side):
                log.note(f"no box of the {what} is oriented: they are compared as upright rectangles")
        joined = replace(joined, detections=_with_areas(joined, joined.detections, iou_type))
    elif np.isnan(joined.detections.area).any() and len(rules[0].areas) > 1:
        log.note(BOX_AREAS)
    return replace(joined, truth=_with_areas(joined, joined.truth, iou_type)), list(rules)


BOX_AREAS = (
    "the areas of detections, which decide between small, medium and large, are those of their boxes, as in "
    "pycocotools; Detectron2 and MMDetection use those of the masks (--det-O boxes=shapes)"
)


def _check_sizes(joined: Joined, truth: Dataset, log: Log) -> None:
    """Report images with masks to compare whose size is unknown, too large or not the same on both sides."""
    if joined.sizes is None:
        return
    ours, theirs = joined.sizes
    of_truth = joined.truth.image
    if joined.regions is not None:
        of_truth = np.concatenate([of_truth, joined.regions.image])
    both = np.intersect1d(of_truth, joined.detections.image)
    known = (ours > 0).all(axis=1) & (theirs > 0).all(axis=1)
    for i in both[(known & (ours != theirs).any(axis=1))[both]].tolist():
        one, other = (Trusted(f"{w} x {h}") for h, w in (ours[i], theirs[i]))
        log.report(MASK_SIZES_DIFFER, truth.path, value=joined.images[i], ours=one, theirs=other)
    size = np.where(ours > 0, ours, theirs)
    used = np.union1d(joined.truth.image, both)
    for i in used[((size == 0).any(axis=1) | (size.prod(axis=1) >= MOST_PIXELS))[used]].tolist():
        log.report(MASK_SIZE_UNKNOWN, truth.path, value=joined.images[i])


def _with_drawn_regions(
    joined: Joined, regions: SideTable, boxes: Boxes, iou_type: IouType, log: Log
) -> Joined:
    """Return the sides with the boxes of regions to ignore without a shape as their outlines."""
    missing = missing_shapes(boxes, iou_type)[regions.row]
    if not missing.any():
        return joined
    if iou_type == "keypoints" or boxes.shapes is None:
        n = plural(int(missing.sum()), "region to ignore", "regions to ignore")
        log.note(f"{n} without {_WORDS[iou_type]} left out")
        return replace(joined, regions=regions.take(~missing))
    rows = regions.row[missing]
    source = replace(boxes, shapes=boxes.shapes.replaced(rows, Shapes.of_boxes(boxes.xyxy[rows])))
    sides = {name: replace(getattr(joined, name), source=source) for name in ("truth", "regions")}
    return replace(joined, **sides)


def _with_areas(joined: Joined, side: SideTable, iou_type: IouType) -> SideTable:
    """The side with the area of the shape where none is given."""
    absent = np.flatnonzero(np.isnan(side.area))
    if not len(absent):
        return side
    area = side.area.copy()
    area[absent] = measured_areas(joined, side.take(absent), iou_type)
    return replace(side, area=area)


def _with_person_areas(joined: Joined, rules: Sequence[Protocol], log: Log) -> Joined:
    truth = joined.truth
    absent = np.isnan(truth.area)
    if not absent.any() or all(p.measure == "pose" for p in rules):
        return joined
    log.note(f"{int(absent.sum())} objects have no area: {POSE_AREA} of the area of their boxes is used")
    area = np.where(absent, truth.wh[:, 0] * truth.wh[:, 1] * POSE_AREA, truth.area)
    return replace(joined, truth=replace(truth, area=area))


def _with_sigmas(joined: Joined, rules: Sequence[Protocol], truth: Dataset, log: Log) -> list[Protocol]:
    """Return the protocols with a sigma for each keypoint."""
    point_counts = [side.source.keypoints.counts()[side.row] for side in (joined.truth, joined.detections)
             if side.source is not None and side.source.keypoints is not None]  # fmt: skip
    counts = np.unique(np.concatenate([np.zeros(0, np.int64), *point_counts])).tolist()
    if len(counts) > 1:
        listed = ", ".join(map(str, counts[:-1]))
        raise UsageError(
            f"{spell('iou_type')} keypoints: some objects have {listed} keypoints and others {counts[-1]}, "
            f"but a list of sigmas fits one number only: choose classes with {spell('only_classes')}"
        )
    k = counts[0] if counts else 0
    ready: list[Protocol] = []
    for p in rules:
        sigmas: tuple[Any, ...] = p.sigmas * k if len(p.sigmas) == 1 else p.sigmas
        if sigmas and k and len(sigmas) != k:
            raise UsageError(
                f"{spell('sigmas')}: {k} are needed, one for each keypoint, but {len(sigmas)} are given"
            )
        if not sigmas and k == len(COCO_SIGMAS):
            sigmas = COCO_SIGMAS
            names = {point_names for point_names in truth.categories.keypoints or () if point_names}
            if names - {COCO_POINTS}:
                log.note(f"{p.name}: the sigmas are those of COCO's 17 points, but these have other names")
        elif not sigmas and p.measure == "pose":
            sigmas = (1 / k,) * k if k else ()
        elif not sigmas and k:
            raise UsageError(
                f"{spell('sigmas')}: {k} are needed, one for each keypoint ({spell('sigmas')} "
                "0.025,0.05,... or a file with one per line); only those of COCO's 17 points are known"
            )
        ready.append(replace(p, sigmas=sigmas))
    return ready


_LIMBS = "eye", "ear", "shoulder", "elbow", "wrist", "hip", "knee", "ankle"
COCO_POINTS = ("nose", *(f"{side}_{limb}" for limb in _LIMBS for side in ("left", "right")))
"""Of COCO's people."""
