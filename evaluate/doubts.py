"""Warnings that make a result doubtful, wherever they come from, and those that need the whole evaluation."""

from __future__ import annotations

from odm.codes import CATEGORY_POSITION_GUESSED
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
    "none of the {n} detections matches any of the {total} ground-truth objects",
    "run `odm validate GT --against DET` to see where the two sides differ",
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

DOUBTFUL = (
    CATEGORY_POSITION_GUESSED,
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
)
"""The warnings that make a result doubtful: they are to be seen wherever it is."""
