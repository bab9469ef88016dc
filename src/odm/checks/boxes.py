"""Rules of single boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from odm.checks.rules import NO_ROWS, BoxFindings, DerivedColumns, box_rule, format_number
from odm.codes import COORDINATES_NOT_FINITE
from odm.issues import INVERTED, Trusted
from odm.tables import Floats


@box_rule(COORDINATES_NOT_FINITE, needs=("suspects", "areas"))
def not_finite(columns: DerivedColumns) -> BoxFindings:
    """Find boxes with an edge, width or height that is NaN, infinite or too large, or an infinite area."""

    def describe(row: int) -> dict[str, Any]:
        boxes = columns.boxes
        if np.isfinite(boxes.xyxy[row]).all():
            description = f"width {boxes.wh[row, 0]}, height {boxes.wh[row, 1]}, area {boxes.area[row]}"
            return {"value": Trusted(description)}
        return columns.describe_edges(row)

    return columns.not_finite, describe


@box_rule(INVERTED, needs=("suspects",))
def inverted(columns: DerivedColumns) -> BoxFindings:
    advice = columns.advise_option("box", " (--box)")
    return columns.inverted, lambda row: {"value": columns.format_edges(row), "option": advice}


@box_rule(
    "empty-box",
    "warning",
    "the box has no area: {value}",
    "remove it (validate --fix drop-empty), or check the annotation",
    "The width or height is 0. Many trainers refuse such a box, and no detection can ever match it.",
    needs=("suspects",),
)
def empty(columns: DerivedColumns) -> BoxFindings:
    rows = columns.upright_suspects
    xyxy = columns.boxes.xyxy[rows]
    return rows[(xyxy[:, 2:] == xyxy[:, :2]).any(axis=1)], columns.describe_edges


@box_rule(
    "outside-image",
    "warning",
    "the box extends {beyond} beyond the image ({size}): {value}",
    "check the image size and the box format, or clip it (convert --clip, validate --fix clip)",
    "The box lies partly or entirely outside its image, by more than the tolerance of half a pixel. "
    "Often the coordinates belong to another size of the image, or use another convention.",
    needs=("suspects",),
)
def outside(columns: DerivedColumns) -> BoxFindings:
    """Find boxes beyond their image, except those that `label_out_of_range` reports."""
    unit = "times its size" if columns.dataset.relative else "px"

    def describe(row: int) -> dict[str, Any]:
        distance = columns.beyond[np.searchsorted(columns.upright_suspects, row)]  # ascending rows
        images, image = columns.dataset.images, columns.boxes.image[row]
        has_size = images.width[image] > 0
        size = f"{images.width[image]}x{images.height[image]}" if has_size else "of unknown size"
        beyond = Trusted(f"{distance:.6g} {unit}")
        return {"value": columns.format_edges(row), "beyond": beyond, "size": Trusted(size)}

    return columns.outside[np.isnan(columns.refused_numbers[columns.outside])], describe


@box_rule(
    "label-out-of-range",
    "error",
    "expected numbers in {low:g}..{high:g}, found {value}",
    "correct the row, or clip the box (convert --clip, validate --fix clip)",
    "Ultralytics leaves out the whole image, with a line in its log, if a centre, width, height or keypoint "
    "of one of its labels is above 1.01 or below -0.01.",
    needs=("margin",),
)
def label_out_of_range(columns: DerivedColumns) -> BoxFindings:
    """Find upright boxes with a relative number that trainers refuse."""
    margin = columns.dataset.margin or 0.0
    rows = np.flatnonzero(~np.isnan(columns.refused_numbers) & columns.is_upright)
    return rows, lambda row: {
        "low": -margin,
        "high": 1 + margin,
        "value": Trusted(f"{columns.refused_numbers[row]:.6g}"),
    }


@box_rule(
    "duplicate-box",
    "warning",
    "duplicate of {first}",
    "remove one of the two (validate --fix dedupe)",
    "Image, class, coordinates and score equal those of an earlier box. A detector can match it only "
    "once, so the other counts as a miss or, among detections, as a false positive.",
    field="",
    needs=("duplicates",),
)
def duplicate(columns: DerivedColumns) -> BoxFindings:
    rows, first_rows = columns.duplicates
    return rows, lambda row: {"first": columns.format_location(int(first_rows[np.searchsorted(rows, row)]))}


@box_rule(
    "near-duplicate-box",
    "warning",
    "nearly a duplicate of {first} (same class, IoU {iou})",
    "remove one of the two if they show the same object",
    "Two boxes of the same class with an IoU above 0.95 are almost always one object that was "
    "annotated, or detected, twice.",
    validate_only=True,
)
def near_duplicate(columns: DerivedColumns) -> BoxFindings:
    """Find boxes whose IoU with an earlier box of their image and class is above `NEAR`."""
    later_rows, earlier_rows, iou = columns.near_duplicates

    def describe(row: int) -> dict[str, Any]:
        position = int(np.searchsorted(later_rows, row))
        return {
            "first": columns.format_location(int(earlier_rows[position])),
            "iou": Trusted(f"{iou[position]:.3f}"),
        }

    return later_rows, describe


@box_rule(
    "negative-area",
    "warning",
    "expected an area of at least 0, found {value}",
    "remove the area, or recompute it",
    "The area determines the size range of an object; a negative area belongs to none.",
    field="area",
    needs=("areas",),
)
def negative_area(columns: DerivedColumns) -> BoxFindings:
    area = columns.boxes.area
    rows = np.flatnonzero(area < 0)
    return rows[np.isfinite(area[rows])], lambda row: {"value": Trusted(format_number(area[row]))}


def _compute_max_area(wh: Floats) -> Floats:
    """(n,) largest number of pixels that boxes of width and height `wh` (n, 2) touch, both edges included."""
    pixels: Floats = (wh[:, 0] + 1) * (wh[:, 1] + 1)
    return pixels


@box_rule(
    "area-differs",
    "warning",
    "expected an area {expected}, found {value}",
    "recompute the area of the object, or remove it so that width * height is used",
    "The area determines whether an object counts as small, medium or large. The area of a mask "
    "is smaller than its box, but never 0 or larger; such an area was computed for another image size.",
    field="area",
    needs=("areas",),
)
def area_differs(columns: DerivedColumns) -> BoxFindings:
    """Find boxes whose recorded area is 0 though they have a size, or larger than any shape in them can be.

    None are reported for relative coordinates, recorded or suspected: their areas may be in pixels.
    """
    area, wh = columns.boxes.area, columns.boxes.wh

    def describe(row: int) -> dict[str, Any]:
        range_text = (
            f"of at most {format_number(_compute_max_area(wh[[row]])[0])}" if area[row] else "above 0"
        )
        width, height = map(format_number, wh[row])
        expected = Trusted(f"{range_text} for a box of {width} x {height}")
        return {"value": Trusted(format_number(area[row])), "expected": expected}

    rows = np.flatnonzero((area == 0) | (area > _compute_max_area(wh)))
    if not len(rows) or columns.normalised or columns.dataset.relative:
        return NO_ROWS, describe
    is_wrong = (area[rows] > 0) | (wh[rows] > 0).all(axis=1)  # 0 is right for a box without width or height
    return rows[is_wrong & columns.is_upright[rows]], describe


@box_rule(
    "tiny-box",
    "warning",
    "the box is less than one pixel wide or high: {value}",
    "check the annotation, or remove it",
    "An object smaller than a pixel is not visible; usually the box is a slip of the mouse, or was rounded.",
    validate_only=True,
)
def tiny(columns: DerivedColumns) -> BoxFindings:
    """Find upright boxes less than a pixel wide or high; none in relative coordinates."""
    size = columns.boxes.xyxy[:, 2:] - columns.boxes.xyxy[:, :2]
    is_tiny = (size > 0).all(axis=1) & (size < 1).any(axis=1) & columns.is_upright
    in_pixels = not (columns.normalised or columns.dataset.relative)
    return np.flatnonzero(is_tiny & in_pixels), columns.describe_edges


EXTREME = 50
"""Times that a box may be as long as wide."""


@box_rule(
    "extreme-aspect-ratio",
    "warning",
    "the longer side of the box is {ratio} times the shorter: {value}",
    "check the annotation",
    "Few objects are more than 50 times as long as they are wide; usually an edge is misplaced.",
    validate_only=True,
)
def extreme_aspect(columns: DerivedColumns) -> BoxFindings:
    """Find upright boxes, at least a pixel wide and high, whose sides have a ratio above `EXTREME`."""
    size = columns.boxes.xyxy[:, 2:] - columns.boxes.xyxy[:, :2]
    short_sides, long_sides = size.min(axis=1, initial=np.inf), size.max(axis=1, initial=0)
    rows = np.flatnonzero((short_sides >= 1) & (long_sides > EXTREME * short_sides) & columns.is_upright)
    return rows, lambda row: {
        "ratio": Trusted(f"{long_sides[row] / short_sides[row]:.0f}"),
        "value": columns.format_edges(row),
    }
