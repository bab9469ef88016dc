"""The protocols as data: what counts, what is ignored and how it is averaged. One engine runs them all.

Sources of the definitions: the development kits of Pascal VOC (2007, 2012) and of ILSVRC, pycocotools,
lvis-api, the object detection metrics of the TensorFlow models repository, which hold those of Open
Images, ``utils/metrics.py``, ``engine/validator.py`` and ``models/yolo/detect/val.py`` of Ultralytics
8.0.227 to 8.4.190, and ``val.py`` and ``utils/metrics.py`` of YOLOv5.

`coco` agrees with pycocotools but for what is a fault there: a ground truth whose annotation id is 0 is
matched like any other, an empty set of detections gives 0 instead of a crash, an unknown category is refused
by the reader instead of dropped, and a missing ``iscrowd``, ``area`` or annotation ``id`` is read as 0, width
times height, and none. Undefined numbers are NaN instead of -1 (`Result.arrays` keeps the -1). `lvis` agrees
with lvis-api, but for the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.evaluate.scores.protocol_words import FLAG_WORDS, describe
from odm.evaluate.scores.set_ups import AREAS, EVERY_AREA, AreaRange, Bound
from odm.tables import Flag, Floats

Metric = Literal["ap", "pooled", "corloc", "top-k"]
Interpolation = Literal["all", "11", "101"]
Pixels = Literal["edges", "inclusive"]
Reading = Literal["steps", "trapezoids", "ramp", "between", "limits"]
RateReading = Literal["last", "wrapped", "first"]
Field = Literal["general use", "driving", "faces and people", "aerial images", "tracks"]
Measure = Literal["bbox", "segm", "boundary", "oks", "pose", "quads", "probiou"]
IouType = Literal["bbox", "segm", "keypoints", "obb", "boundary"]

NO_FLAG = Flag(0)


class Protocol(msgspec.Struct, frozen=True):
    """How one metric is computed.

    Attributes
    ----------
    metric
        ``ap``: average precision per class; ``pooled``: of all classes in one ranking; ``corloc``: share of
        the images with a class whose top detection of it hits; ``top-k``: share of images that none of k
        guesses hits. For the last two a class counts once per image: ``gt`` are the images that contain it,
        ``tp`` those where it was found, ``fp`` the top detections or guesses that hit nothing, and all other
        detections are ignored.
    ious
        Thresholds; a detection matches at ``IoU >= threshold``.
    averaged
        Whether AP is averaged over `ious` (else there is one).
    pixels
        ``edges``: width = right - left; ``inclusive``: width = right - left + 1.
    as_given
        Whether widths and heights are taken as the source gives them (COCO) or from the corners.
    match
        ``best``: the ground truth of highest IoU, even if it is taken; ``free``: of highest IoU among the
        free ones; ``greatest``: not by score, but the two that overlap most of all that are free; ``truth``:
        each ground truth takes a detection, see `odm.evaluate.matching.by_truth`.
    last_of_equals
        Which ground truth wins among those of equal IoU: the first, or the last.
    size_threshold
        Whether small ground truths have a lower threshold, w h / ((w + 10) (h + 10)).
    ignored
        Flags of ground truths that count as nothing.
    crowd_flags
        Flags of ground truths that any number of detections may match, by intersection over the detection's
        own area.
    group_weight
        None, or what a group-of box is worth that was hit by detections that found nothing else.
    interpolation
        Where precision is read: at ``all`` points, or at 11 or 101 recalls.
    reading
        ``steps``: AP is the mean of the precision at those recalls; ``trapezoids``: the area under the
        straight lines between them, precision being 0 from the highest recall on; ``ramp``: the same, but
        precision falls from its last value to 0 at recall 1; ``between``: the area under the straight lines
        from each detection to the next, the precision of each as it is, without what lies left of the first;
        ``limits``: precision is known only at `n_limits` scores.
    shared_score
        Whether all classes have one operating point, where their mean F1 is highest after smoothing, and the
        summary is that of ``yolo val``.
    areas
        The first range is that of AP and of all counts; those after COCO's own were named by the user.
    max_dets
        How many detections of an image and class are looked at; for ``top-k`` the guesses of an image.
    recall_at
        Recall is also averaged over the best 1, 10, ... detections of an image and class.
    cap_of
        ``class``: `max_dets` are of an image and class, and all others ignored; ``image``: they are of all
        classes of an image together, and all others dropped before; ``file``: the same, but not the best, but
        the first of the file.
    drop_empty
        Whether detections without area are dropped before.
    drop_empty_truth
        Whether ground truths without area are dropped before, by the area that they give or else width times
        height.
    drop_flags
        Flags of ground truths that are dropped before.
    drop_repeated
        Whether ground truths are dropped before that repeat another of their image, class and box.
    score_above
        None, or detections of this score or a lower one are dropped before.
    labelled_only
        Whether detections are dropped whose class is neither boxed nor labelled on their image.
    exempt_partial
        Whether detections that match nothing are ignored where not all objects of their class on the image
        have a box.
    by_frequency
        Whether AP is also averaged over the rare, the common and the frequent classes.
    hierarchical
        Whether a class hierarchy is applied where one is given.
    epsilon
        What is added to the denominator of precision; pycocotools adds `numpy.spacing` (1).
    single
        Whether boxes, scores, IoUs and thresholds are 32-bit floats, 1e-7 being added to the union.
    whole_corners
        Whether ground truths are the boxes from their first to their third corner, cut to whole numbers.
    mean_over
        The classes that AP is averaged over, if these are fixed; one without ground truth has an AP of 0.
    apart
        Whether the summary has a number for each threshold and area range, which are not averaged.
    field
        What people use it for.
    stands_for
        The program and its versions whose numbers these are, where the name does not say it.
    tubes
        Whether tracks are measured by their volumes, and videos stand in place of images.
    switched
        What the user changed, in words.
    scale
        What coordinates are multiplied by for `single`, so that 1e-7 is as little to fractions as to pixels.
    measure
        What overlaps are those of: boxes, masks (``segm``, or ``boundary`` where they are also those of the
        bands along the inside of their edges), keypoints (``oks`` as pycocotools, ``pose`` as
        Ultralytics computes it), or oriented boxes (``quads`` by their areas, ``probiou`` as Ultralytics).
    sigmas
        Of keypoints: how far each may lie from where it should.
    strict
        Whether a detection matches only above the threshold.
    ignored_fields
        Fields of the source that mark a ground truth that counts as nothing, where they are not 0.
    ignored_by_ioa
        Whether any number of detections may match what counts as nothing, by IoA.
    rates
        Numbers of false positives per image at which the miss rate is read; the summary is then that of the
        literature on pedestrians, exp of the mean of the logarithms for each of `areas`.
    rate_reading
        The point of the curve that is read: the ``last`` at or below the rate, recall being 0 where there is
        none; ``wrapped``: the same, but where there is none the very last; ``first``: the first at or above
        the rate, or the very last.
    least_miss
        The lowest miss rate whose logarithm is taken.
    jaccard
        Scores above which the Jaccard index (JI) is computed, see `odm.evaluate.matching.jaccard`; the
        highest is that of the summary, after AP and the miss rate.
    clipped
        Whether boxes of both sides are cut at the edges of their image, which they touch at least.
    added_area
        What is added to the denominators of IoU and IoA.
    region_flags
        Flags of ground truths that belong to every class and count as nothing: any number of detections that
        match nothing else may match them, by IoA over the detection's own area; ``greatest`` has none.
    class_ious
        Thresholds of single classes in place of that of `ious`.
    only, never
        The classes that are evaluated, however their letters are written, if these are fixed, and those that
        are not; boxes of all others are dropped.
    neighbours
        Pairs of classes: objects of the first count as nothing for the second.
    covered
        None, or the share of a box from which on it is dropped where regions to ignore cover its pixels.
    counts_ignored
        Whether the objects of `crowd_flags` count for recall, although no detection finds them.
    by_images
        Whether each class weighs as many images as contain it.
    detections_in
        The order in which detections are matched: by ``score``, equal ones in that of the file; ``reverse``:
        by score, equal ones from the last of the file, and equal ones of several images from the last image;
        ``file``: as the file has them, a score counting as no lower than those after it.
    detected_only
        Whether ground truths are left out on whose image there is no detection of their class.
    exempt_empty
        Whether detections are ignored on images without ground truth, whatever counts there.
    n_limits
        How many scores precision is known at.
    approximate
        The areas where the source lacks the fields that those of `areas` are about.
    plain
        What changes if the oddities of the program are left out that nobody wants outside its challenge.
    """

    name: str
    metric: Metric = "ap"
    ious: tuple[float, ...] = (0.5,)
    averaged: bool = False
    pixels: Pixels = "edges"
    as_given: bool = False
    match: Literal["best", "free", "greatest", "truth"] = "best"
    last_of_equals: bool = False
    size_threshold: bool = False
    ignored: Flag = NO_FLAG
    crowd_flags: Flag = NO_FLAG
    group_weight: int | None = None
    interpolation: Interpolation = "all"
    reading: Reading = "steps"
    shared_score: bool = False
    areas: tuple[AreaRange, ...] = (EVERY_AREA,)
    max_dets: int | None = None
    recall_at: tuple[int, ...] = ()
    cap_of: Literal["class", "image", "file"] = "class"
    drop_empty: bool = False
    drop_empty_truth: bool = False
    drop_flags: Flag = NO_FLAG
    drop_repeated: bool = False
    score_above: float | None = None
    labelled_only: bool = False
    exempt_partial: bool = False
    by_frequency: bool = False
    hierarchical: bool = False
    epsilon: float = 0.0
    single: bool = False
    stands_for: str = ""
    tubes: bool = False
    switched: tuple[str, ...] = ()
    scale: float = 1.0
    measure: Measure = "bbox"
    sigmas: tuple[float, ...] = ()
    strict: bool = False
    region_flags: Flag = Flag.REGION
    ignored_fields: tuple[str, ...] = ()
    ignored_by_ioa: bool = False
    rates: tuple[float, ...] = ()
    rate_reading: RateReading = "last"
    least_miss: float = 0.0
    field: Field = "general use"
    apart: bool = False
    whole_corners: bool = False
    mean_over: tuple[str, ...] = ()
    jaccard: tuple[float, ...] = ()
    clipped: bool = False
    added_area: float = 0.0
    class_ious: tuple[tuple[str, float], ...] = ()
    only: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    neighbours: tuple[tuple[str, str], ...] = ()
    covered: float | None = None
    counts_ignored: bool = False
    by_images: bool = False
    detections_in: Literal["score", "reverse", "file"] = "score"
    detected_only: bool = False
    exempt_empty: bool = False
    n_limits: int = 0
    approximate: tuple[AreaRange, ...] = ()
    plain: tuple[tuple[str, Any], ...] = ()

    @property
    def pixel(self) -> int:
        """The number added to right - left and bottom - top: 1 where boxes include their last pixel, or 0."""
        return int(self.pixels == "inclusive")

    def crowds(self, flags: NDArray[np.uint16]) -> NDArray[np.bool_]:
        """(n,) crowds and, if `match` is free or truth, regions: any number of detections may match them."""
        crowd_flags = self.crowd_flags | (self.region_flags if self.match in ("free", "truth") else NO_FLAG)
        return np.asarray(flags & np.uint16(crowd_flags), np.bool_)

    def groups(self, flags: NDArray[np.uint16]) -> NDArray[np.bool_]:
        """(n,) groups and, if `match` is best, regions: they take only detections that match no object."""
        group_flags = NO_FLAG if self.group_weight is None else Flag.GROUP_OF
        group_flags |= self.region_flags if self.match == "best" else NO_FLAG
        is_group: NDArray[np.bool_] = (flags & np.uint16(group_flags)) != 0
        return is_group

    def by_ioa(self, flags: NDArray[np.uint16]) -> NDArray[np.bool_]:
        """(n,) ground truths compared by IoA; by `ignored_by_ioa` all, as an area range may ignore any."""
        return self.crowds(flags) | self.groups(flags) | self.ignored_by_ioa

    @property
    def fields(self) -> frozenset[str]:
        """The fields that the protocol needs from the files of the ground truth."""
        bound_fields = {bound.column for a in self.areas for bound in a.also}
        return frozenset(self.ignored_fields) | (bound_fields - {"height"})

    @property
    def has_regions(self) -> bool:
        """Whether there is a rule for regions to ignore."""
        return bool(self.region_flags) or self.covered is not None

    @property
    def without_groups(self) -> Protocol:
        """A copy of the protocol that takes every ground truth as a single object, not a group."""
        changes: dict[str, Any] = {"crowd_flags": NO_FLAG, "group_weight": None, "region_flags": NO_FLAG}
        return replace(self, **changes, ignored_by_ioa=False)

    @property
    def least(self) -> tuple[float, ...]:
        """The lowest IoU of boxes that matches, for each of `ious`."""
        return tuple(map(self._least, self.ious))

    def _least(self, iou: float) -> float:
        return math.nextafter(iou, math.inf) if self.strict and self.measure == "bbox" else iou

    def least_of(self, classes: Sequence[str]) -> Floats:
        """(classes,) the lowest IoU of boxes of each class that matches, under the first of `ious`."""
        ious = {name.casefold(): iou for name, iou in self.class_ious}
        return np.array([self._least(ious.get(name.casefold(), self.ious[0])) for name in classes])

    @property
    def iou_type(self) -> IouType:
        """What the measure compares, in the words of pycocotools."""
        return _IOU_TYPES.get(self.measure, "bbox")

    @property
    def drop_words(self) -> str:
        """The words for `drop_flags`."""
        return ", ".join(FLAG_WORDS[f] for f in Flag if f & self.drop_flags)

    @property
    def reference(self) -> int:
        """The index in `ious` of the threshold for counts, curves and operating points: of .5, else 0."""
        return self.ious.index(0.5) if 0.5 in self.ious else 0

    @property
    def caps(self) -> tuple[int, ...]:
        """The detection caps that recall is averaged at, the last being `max_dets`; none where it is not."""
        if not self.averaged or self.max_dets is None or self.shared_score:
            return ()
        if self.cap_of != "class":
            return (self.max_dets,)
        return tuple(sorted({c for c in self.recall_at if c < self.max_dets} | {self.max_dets}))

    @property
    def named_areas(self) -> dict[int, AreaRange]:
        """The ranges that the user named, by position in `areas`."""
        return {i: a for i, a in enumerate(self.areas) if i and a.name not in AREAS and a.first is None}

    @property
    def definition(self) -> str:
        """What the numbers mean, in one line."""
        return describe(self, COCO_SIGMAS)


_TENTHS = 0.26, 0.25, 0.25, 0.35, 0.35, 0.79, 0.79, 0.72, 0.72, 0.62, 0.62, 1.07, 1.07, 0.87, 0.87, 0.89, 0.89
COCO_SIGMAS = tuple(tenths / 10 for tenths in _TENTHS)
"""Of the 17 keypoints of COCO's people."""
_IOU_TYPES: dict[Measure, IouType] = {
    "segm": "segm",
    "boundary": "boundary",
    "oks": "keypoints",
    "pose": "keypoints",
    "quads": "obb",
    "probiou": "obb",
}

_COCO = Protocol(
    "coco",
    ious=tuple(np.linspace(0.5, 0.95, 10).tolist()),
    averaged=True,
    as_given=True,
    match="free",
    last_of_equals=True,
    crowd_flags=Flag.CROWD,
    interpolation="101",
    areas=tuple(AREAS.values()),
    max_dets=100,
    recall_at=(1, 10, 100),
    epsilon=float(np.spacing(1)),
)
DEFAULT: Literal["voc2012"] = "voc2012"
"""The protocol of commands and functions that are given none."""

_VOC = Protocol(DEFAULT, pixels="inclusive", ignored=Flag.DIFFICULT)
_TF = Protocol("tf-voc", ignored=Flag.DIFFICULT, drop_empty=True)
_ULTRALYTICS = Protocol(
    "ultralytics",
    ious=_COCO.ious,
    averaged=True,
    match="free",
    interpolation="101",
    reading="trapezoids",
    shared_score=True,
    max_dets=300,
    cap_of="image",
    drop_flags=Flag.CROWD,
    region_flags=NO_FLAG,
    drop_repeated=True,
    score_above=0.001,
    single=True,
    stands_for="yolo val of Ultralytics 8.4.176 and later",
)
_OPEN_IMAGES = replace(_TF, name="openimages", group_weight=0, hierarchical=True)
_DOTA_CLASSES = (
    *("plane", "baseball-diamond", "bridge", "ground-track-field", "small-vehicle", "large-vehicle", "ship"),
    *("tennis-court", "basketball-court", "storage-tank", "soccer-ball-field", "roundabout", "harbor"),
    *("swimming-pool", "helicopter"),
)


_VISDRONE_CLASSES = (
    *("pedestrian", "people", "bicycle", "car", "van", "truck"),
    *("tricycle", "awning-tricycle", "bus", "motor"),
)


def _make_areas(**sides: tuple[float, float]) -> tuple[AreaRange, ...]:
    """Make area ranges; `sides` are the sides of the smallest and the largest square of each, in pixels."""
    return tuple(AreaRange(name, float(low) ** 2, float(high) ** 2) for name, (low, high) in sides.items())


_CITYPERSONS = Protocol(
    "citypersons",
    field="faces and people",
    as_given=True,
    match="free",
    last_of_equals=True,
    ignored=Flag.CROWD,
    ignored_fields=("ignore",),
    ignored_by_ioa=True,
    areas=tuple(
        AreaRange(name, 0, math.inf, (Bound("height", low, high, 1.25), Bound("vis_ratio", lowest, highest)))
        for name, low, high, lowest, highest in (
            ("Reasonable", 50, math.inf, 0.65, math.inf),
            ("Reasonable_small", 50, 75, 0.65, math.inf),
            ("Reasonable_occ=heavy", 50, math.inf, 0.2, 0.65),
            ("All", 20, math.inf, 0.2, math.inf),
        )
    ),
    max_dets=1000,
    rates=(0.01, 0.0178, 0.0316, 0.0562, 0.1, 0.1778, 0.3162, 0.5623, 1.0),
    rate_reading="wrapped",
    plain=(("rate_reading", "last"),),
    stands_for="eval_MR_multisetup.py of CityPersons",
)

PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in (
        _VOC,
        replace(_VOC, name="voc2007", interpolation="11"),
        _COCO,
        replace(
            _COCO,
            name="lvis",
            ignored=Flag.DIFFICULT,
            crowd_flags=NO_FLAG,
            drop_empty=True,
            drop_empty_truth=True,
            max_dets=300,
            recall_at=(),
            cap_of="image",
            labelled_only=True,
            exempt_partial=True,
            by_frequency=True,
        ),
        _TF,
        replace(_TF, name="tf-weighted", metric="pooled"),
        _OPEN_IMAGES,
        replace(_OPEN_IMAGES, name="openimages-challenge", group_weight=1, labelled_only=True),
        Protocol("corloc", metric="corloc", drop_empty=True, region_flags=NO_FLAG),
        Protocol("imagenet-loc", metric="top-k", pixels="inclusive", max_dets=5, region_flags=NO_FLAG),
        Protocol("imagenet-det", pixels="inclusive", match="free", size_threshold=True),
        _ULTRALYTICS,
        replace(
            _ULTRALYTICS,
            name="yolov5",
            match="best",
            last_of_equals=True,
            reading="ramp",
            stands_for="val.py of YOLOv5 and yolo val of Ultralytics 8.0 to 8.4.36",
        ),
        _CITYPERSONS,
        replace(
            _COCO,
            name="tinyperson",
            field="faces and people",
            ious=(0.25, 0.5, 0.75),
            apart=True,
            ignored=Flag.CROWD,
            ignored_fields=("ignore", "uncertain"),
            ignored_by_ioa=True,
            crowd_flags=NO_FLAG,
            areas=_make_areas(
                all=(1, 1e5),
                tiny=(1, 20),
                tiny1=(1, 8),
                tiny2=(8, 12),
                tiny3=(12, 20),
                small=(20, 32),
                reasonable=(32, 1e5),
            ),
            max_dets=200,
            recall_at=(200,),
            stands_for="cocoeval.py of TinyBenchmark",
        ),
        replace(
            _COCO,
            name="aitod",
            field="aerial images",
            areas=_make_areas(all=(0, 1e5), verytiny=(0, 8), tiny=(8, 16), small=(16, 32), medium=(32, 1e5)),
            max_dets=1500,
            recall_at=(1, 100, 1500),
            stands_for="cocoapi-aitod",
        ),
        replace(
            _VOC,
            name="dota-hbb",
            field="aerial images",
            strict=True,
            interpolation="11",
            whole_corners=True,
            mean_over=_DOTA_CLASSES,
            stands_for="task 2 of DOTA_devkit",
        ),
        replace(
            _COCO,
            name="soda-d",
            field="driving",
            areas=(
                *_make_areas(Small=(0, 32), eS=(0, 12), rS=(12, 20), gS=(20, 32)),
                AreaRange("Normal", 32**2, 2000),
            ),
            recall_at=(100,),
            stands_for="SODA-mmdetection",
        ),
        replace(
            _CITYPERSONS,
            name="caltech",
            rates=tuple((10 ** np.arange(-2, 0.25, 0.25)).tolist()),
            rate_reading="last",
            plain=(),
            least_miss=1e-10,
            stands_for="bbGt.m of Piotr Dollar's toolbox",
        ),
        Protocol(
            "crowdhuman",
            field="faces and people",
            match="free",
            strict=True,
            crowd_flags=Flag.CROWD,
            clipped=True,
            added_area=1e-6,
            reading="between",
            rates=(0.01, 0.0178, 0.0316, 0.0562, 0.1, 0.1778, 0.3162, 0.5623, 1.0),
            rate_reading="first",
            jaccard=tuple(0.1 * i for i in range(10)),
            stands_for="CrowdDet",
        ),
        Protocol(
            "kitti",
            field="driving",
            match="truth",
            strict=True,
            class_ious=tuple((name, 0.7) for name in ("Car", "Van", "Truck", "Tram")),
            only=("Car", "Pedestrian", "Cyclist", "Van", "Truck", "Person_sitting", "Tram"),
            neighbours=(
                *(("Van", "Car"), ("Person_sitting", "Pedestrian")),
                *(("Car", "Van"), ("Pedestrian", "Person_sitting")),
            ),
            areas=tuple(
                AreaRange(
                    name,
                    0,
                    math.inf,
                    (
                        Bound("height", math.nextafter(height, math.inf)),
                        Bound("occluded", high=occluded),
                        Bound("truncated", high=truncated),
                    ),
                )
                for name, height, occluded, truncated in (
                    ("moderate", 25, 1, 0.3),
                    ("easy", 40, 0, 0.15),
                    ("hard", 25, 2, 0.5),
                )
            ),
            reading="limits",
            n_limits=41,
            stands_for="eval_kitti, with R40 and R11",
        ),
        replace(
            _COCO,
            name="visdrone",
            field="aerial images",
            ious=tuple(0.5 + 0.05 * i for i in range(10)),
            interpolation="all",
            epsilon=0.0,
            only=_VISDRONE_CLASSES,
            region_flags=NO_FLAG,
            covered=0.5,
            areas=(EVERY_AREA, *(AreaRange(f"first {n}", 0, math.inf, first=n) for n in (100, 10, 1))),
            max_dets=500,
            recall_at=(),
            cap_of="file",
            counts_ignored=True,
            by_images=True,
            plain=(("counts_ignored", False),),
            stands_for="VisDrone2018-DET-toolkit",
        ),
        replace(
            _VOC,
            name="widerface",
            field="faces and people",
            ignored=NO_FLAG,
            areas=tuple(
                AreaRange(name, 0, math.inf, (Bound(name, 1),)) for name in ("hard", "medium", "easy")
            ),
            approximate=tuple(
                AreaRange(name, 0, math.inf, (Bound("height", low),))
                for name, low in (("hard", 10), ("medium", 30), ("easy", 50))
            ),
            detections_in="file",
            exempt_empty=True,
            reading="limits",
            n_limits=1000,
            stands_for="WiderFace-Evaluation",
        ),
        replace(
            _VOC,
            name="xview",
            field="aerial images",
            pixels="edges",
            ignored=NO_FLAG,
            score_above=0.0,
            never=("75", "82", "87"),
            detections_in="reverse",
            detected_only=True,
            plain=(("detected_only", False),),
            epsilon=_COCO.epsilon,
            stands_for="xView1_baseline",
        ),
    )
}
"""All protocols that measure boxes, by name."""

SHAPE_PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in (
        Protocol(
            "dota",
            field="aerial images",
            ignored=Flag.DIFFICULT,
            interpolation="11",
            measure="quads",
            strict=True,
            stands_for="task 1 of DOTA_devkit",
        ),
    )
}
"""Those that measure nothing but shapes."""

BY_IOU_TYPE: dict[IouType, dict[str, dict[str, Any]]] = {
    "segm": {name: {"measure": "segm"} for name in ("coco", "lvis")},
    "boundary": {name: {"measure": "boundary"} for name in ("coco", "lvis")},
    "keypoints": {
        "coco": {
            "measure": "oks",
            "max_dets": 20,
            "recall_at": (20,),
            "areas": tuple(AREAS[name] for name in ("all", "medium", "large")),
        },
        "ultralytics": {"measure": "pose"},
    },
    "obb": {"coco": {"measure": "quads"}, "dota": {}, "ultralytics": {"measure": "probiou"}},
}
"""What changes of a protocol that compares something else than boxes; no other protocol does."""


def group_names_by_field() -> dict[str, list[str]]:
    """Group the names of all protocols by what they are used for."""
    names_by_field: dict[str, list[str]] = {field: [] for field in get_args(Field)}
    for p in (*PROTOCOLS.values(), *SHAPE_PROTOCOLS.values(), *TUBE_PROTOCOLS.values()):
        names_by_field[p.field].append(p.name)
    return {field: names for field, names in names_by_field.items() if names}


TUBE_PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in (
        Protocol("stt", field="tracks", match="greatest", tubes=True, region_flags=NO_FLAG),
        replace(
            _COCO,
            name="tube",
            field="tracks",
            crowd_flags=NO_FLAG,
            region_flags=NO_FLAG,
            areas=(EVERY_AREA,),
            tubes=True,
        ),
    )
}
"""Those that measure tracks, see `odm.evaluate.tubes`."""


def recall_points(interpolation: Interpolation) -> Floats | None:
    """The recalls at which precision is read, (11,) or (101,); None for all points."""
    return None if interpolation == "all" else np.linspace(0, 1, int(interpolation))
