"""Warnings that make a result doubtful, and the checks for them that need the whole evaluation."""

from __future__ import annotations

from odm.codes import CATEGORY_POSITION_GUESSED, LAYOUT_GUESSED
from odm.evaluate.matching.join import NO_BOXES, NO_DETECTIONS
from odm.evaluate.matching.sides import NOTHING_LEFT
from odm.evaluate.tubes import FRAMES_SHIFTED
from odm.issues import PERCENT, Code
from odm.pairing import (
    CLASS_ONLY_IN_DETECTIONS,
    CLASS_ORDER_GUESSED,
    FEW_IMAGES_DETECTED,
    SPLIT_WITHOUT_DETECTIONS,
)

GROUPS_AS_OBJECTS = Code(
    "groups-as-objects",
    "warning",
    "{what} under {protocols}, in the class{es} {classes}{alone}",
    "use --protocol {other}, which does not count them as objects, or select classes with --only-classes",
    "A detector cannot be expected to find a box around a crowd or group, or a region without annotations, "
    "as one object: counting it lowers recall and AP. A class with only such boxes has an AP of about 0, "
    "which is averaged like any other.",
)

NO_MATCH = Code(
    "no-match",
    "warning",
    "none of the {n} detections matches any of the {total} ground-truth objects, though {both} in both{only}",
    "draw both sides, image by image, with --report FILE.html, and check whether the boxes are of the same "
    "images and classes; --diagnose lists the other readings that were tried",
    "A detector is rarely always wrong. More often the two sides use the same names for different images or "
    "classes, or one has its boxes in another convention or for another image size.",
)

ORIENTED_AS_BOXES = Code(
    "oriented-as-boxes",
    "warning",
    "most boxes of both sides are oriented, but only the upright boxes around them are compared",
    "compare the oriented boxes themselves: --iou-type obb, with --protocol coco, dota or ultralytics",
    "Oriented boxes at very different angles can have the same upright box around them, so detectors of "
    "oriented boxes are judged by the oriented boxes themselves.",
)

LIKELY_CAUSE = Code(
    "likely-cause",
    "warning",
    "{what}: AP50 would be {better} instead of {value}{where}",
    "{remedy}",
    "The boxes of both sides agree far better if they are read in another way than the files say. The "
    "numbers shown are those of the files as they are.",
)

BEYOND_LIMIT = Code(
    "detections-beyond-limit",
    "warning",
    "under {protocol}, {what} do{es} not count",
    "count them too with --max-dets, or export fewer detections of each image",
    "Protocols count only so many detections, those with the highest scores. Objects that only the others "
    "find are missed.",
)

DEFAULT_PROTOCOL = Code(
    "default-protocol",
    "warning",
    "no protocol was chosen, so these are the numbers of {default}, not those of {program}",
    "give --protocol {usual}, or --protocol {default} to confirm these",
    "Files of COCO and LVIS are usually evaluated by their own programs. AP at an IoU of 0.5, as in Pascal "
    "VOC, is often far higher than theirs, which is the mean over ten thresholds.",
)

ALL_IGNORED = Code(
    "all-objects-ignored",
    "warning",
    "under {protocol}, no ground-truth object counts ({n} are ignored), so every metric is undefined",
    "check the flags crowd, difficult and group-of of the ground truth, and --area and --keep-difficult",
    "Objects that are flagged, or outside the area range, are ignored: they are neither found nor missed.",
)

CLASS_WITHOUT_OBJECTS = Code(
    "class-without-objects",
    "warning",
    "{what} of {classes} count{s} in no mean over classes: the ground truth has no object of the class{es}",
    "check that the ground truth is complete, or leave the class{es} out with --only-classes",
    "The AP of a class without objects is undefined and left out of the mean, however many false positives "
    "it has. They lower only the precision and F1 of all classes together.",
)

KEYPOINTS_WITHOUT_AREA = Code(
    "keypoints-without-area",
    "warning",
    "the area of {n} of the {total} ground-truth objects is 0, so no detection can match their keypoints",
    "give every object its area, as COCO does; without one, that of its box is taken",
    "OKS measures distances relative to the area of the object: with an area of 0, every distance is too "
    "large.",
)

DOUBTFUL = (
    CATEGORY_POSITION_GUESSED,
    LAYOUT_GUESSED,
    NO_BOXES,
    NO_DETECTIONS,
    SPLIT_WITHOUT_DETECTIONS,
    FEW_IMAGES_DETECTED,
    CLASS_ORDER_GUESSED,
    CLASS_ONLY_IN_DETECTIONS,
    PERCENT,
    LIKELY_CAUSE,
    GROUPS_AS_OBJECTS,
    ORIENTED_AS_BOXES,
    NOTHING_LEFT,
    NO_MATCH,
    FRAMES_SHIFTED,
    BEYOND_LIMIT,
    ALL_IGNORED,
    CLASS_WITHOUT_OBJECTS,
    DEFAULT_PROTOCOL,
    KEYPOINTS_WITHOUT_AREA,
)
"""The warnings that make a result doubtful: they are to be seen wherever it is."""
