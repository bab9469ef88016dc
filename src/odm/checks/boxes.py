"""Rules of single boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.checks.derived_columns import DerivedColumns
from odm.checks.rules import BoxRule, edges, location_text, number, option, values_of_edges
from odm.codes import COORDINATES_NOT_FINITE
from odm.issues import INVERTED, Code, Trusted
from odm.tables import Floats


def _not_finite_of(columns: DerivedColumns, row: int) -> dict[str, Any]:
    boxes = columns.boxes
    if np.isfinite(boxes.xyxy[row]).all():
        other = f"width {boxes.wh[row, 0]}, height {boxes.wh[row, 1]}, area {boxes.area[row]}"
        return {"value": Trusted(other)}
    return values_of_edges(columns, row)


NOT_FINITE = BoxRule(
    COORDINATES_NOT_FINITE,
    find=lambda columns: columns.not_finite,
    values=_not_finite_of,
)


def _inverted_of(columns: DerivedColumns, row: int) -> dict[str, Any]:
    return {"value": edges(columns, row), "option": option(columns, "box", " (--box)")}


INVERTED_BOX = BoxRule(
    INVERTED,
    find=lambda columns: columns.inverted,
    values=_inverted_of,
)


def _empty(columns: DerivedColumns) -> NDArray[np.intp]:
    rows = columns.upright_suspects
    xyxy = columns.boxes.xyxy[rows]
    empty: NDArray[np.intp] = rows[(xyxy[:, 2:] == xyxy[:, :2]).any(axis=1)]
    return empty


EMPTY = BoxRule(
    Code(
        "empty-box",
        "warning",
        "the box has no area: {value}",
        "remove it (validate --fix drop-empty), or check the annotation",
        "The width or height is 0. Many trainers refuse such a box, and no detection can ever match it.",
        row=True,
    ),
    find=_empty,
    values=values_of_edges,
)


def _outside_of(columns: DerivedColumns, row: int) -> dict[str, Any]:
    beyond = columns.beyond[np.searchsorted(columns.upright_suspects, row)]
    images, image = columns.dataset.images, columns.boxes.image[row]
    size = f"{images.width[image]}x{images.height[image]}" if images.width[image] > 0 else "of unknown size"
    unit = "times its size" if columns.dataset.relative else "px"
    return {"value": edges(columns, row), "beyond": Trusted(f"{beyond:.6g} {unit}"), "size": Trusted(size)}


OUTSIDE = BoxRule(
    Code(
        "outside-image",
        "warning",
        "the box extends {beyond} beyond the image ({size}): {value}",
        "check the image size and the box format, or clip it (convert --clip, validate --fix clip)",
        "The box lies partly or entirely outside its image, by more than the tolerance of half a pixel. "
        "Often the coordinates belong to another size of the image, or use another convention.",
        row=True,
    ),
    find=lambda columns: columns.outside,
    values=_outside_of,
)


def _duplicate_of(columns: DerivedColumns, row: int) -> dict[str, Any]:
    rows, first = columns.duplicates
    return {"first": location_text(columns.dataset, int(first[np.searchsorted(rows, row)]))}


DUPLICATE = BoxRule(
    Code(
        "duplicate-box",
        "warning",
        "duplicate of {first}",
        "remove one of the two (validate --fix dedupe)",
        "Image, class, coordinates and score equal those of an earlier box. A detector can match it only "
        "once, so the other counts as a miss or, among detections, as a false positive.",
        row=True,
    ),
    find=lambda columns: columns.duplicates[0],
    values=_duplicate_of,
    field="",
)


def _near_of(columns: DerivedColumns, row: int) -> dict[str, Any]:
    later, first, iou = columns.near_duplicates
    i = int(np.searchsorted(later, row))
    return {"first": location_text(columns.dataset, int(first[i])), "iou": Trusted(f"{iou[i]:.3f}")}


NEAR_DUPLICATE = BoxRule(
    Code(
        "near-duplicate-box",
        "warning",
        "nearly a duplicate of {first} (same class, IoU {iou})",
        "remove one of the two if they show the same object",
        "Two boxes of the same class with an IoU above 0.95 are almost always one object that was "
        "annotated, or detected, twice.",
        row=True,
    ),
    find=lambda columns: columns.near_duplicates[0],
    values=_near_of,
    validate_only=True,
)


def _negative_area(columns: DerivedColumns) -> NDArray[np.intp]:
    rows = np.flatnonzero(columns.boxes.area < 0)
    return rows[np.isfinite(columns.boxes.area[rows])]


def _area_of(columns: DerivedColumns, row: int) -> dict[str, Any]:
    return {"value": Trusted(number(columns.boxes.area[row]))}


NEGATIVE_AREA = BoxRule(
    Code(
        "negative-area",
        "warning",
        "expected an area of at least 0, found {value}",
        "remove the area, or recompute it",
        "The area determines the size range of an object; a negative area belongs to none.",
        row=True,
    ),
    find=_negative_area,
    values=_area_of,
    field="area",
)


def _most_area(wh: Floats) -> Floats:
    """(n,) pixels that boxes can touch at the most, those on both edges counted."""
    most: Floats = (wh[:, 0] + 1) * (wh[:, 1] + 1)
    return most


def _area_differs(columns: DerivedColumns) -> NDArray[np.intp]:
    area, wh = columns.boxes.area, columns.boxes.wh
    if not (area >= 0).any():
        return np.zeros(0, np.intp)
    rows = np.flatnonzero((area == 0) | (area > _most_area(wh)))
    if not len(rows) or columns.normalised or columns.dataset.relative:  # which is reported of the whole
        return rows[:0]
    differs = (area[rows] > 0) | (wh[rows] > 0).all(axis=1)
    return rows[differs & columns.upright[rows]]


def _area_differs_of(columns: DerivedColumns, row: int) -> dict[str, Any]:
    wh, area = columns.boxes.wh[row], columns.boxes.area[row]
    wanted = f"of at most {number(_most_area(wh[None])[0])}" if area else "above 0"
    width, height = map(number, wh)
    return {"value": Trusted(number(area)), "expected": Trusted(f"{wanted} for a box of {width} x {height}")}


AREA_DIFFERS = BoxRule(
    Code(
        "area-differs",
        "warning",
        "expected an area {expected}, found {value}",
        "recompute the area of the object, or remove it so that width * height is used",
        "The area determines whether an object counts as small, medium or large. That of a mask is smaller "
        "than its box, but neither 0 nor larger; such an area was computed for another size of the image.",
        row=True,
    ),
    find=_area_differs,
    values=_area_differs_of,
    field="area",
)


def _tiny(columns: DerivedColumns) -> NDArray[np.intp]:
    size = columns.boxes.xyxy[:, 2:] - columns.boxes.xyxy[:, :2]
    if columns.normalised or columns.dataset.relative:
        return np.zeros(0, np.intp)
    return np.flatnonzero((size > 0).all(axis=1) & (size < 1).any(axis=1) & columns.upright)


TINY = BoxRule(
    Code(
        "tiny-box",
        "warning",
        "the box is less than one pixel wide or high: {value}",
        "check the annotation, or remove it",
        "An object smaller than a pixel is not visible; usually the box is a slip of the mouse, or was "
        "rounded.",
        row=True,
    ),
    find=_tiny,
    values=values_of_edges,
    validate_only=True,
)


EXTREME = 50
"""Times that a box may be as long as wide."""


def _aspect(columns: DerivedColumns) -> NDArray[np.intp]:
    with np.errstate(invalid="ignore"):
        size = columns.boxes.xyxy[:, 2:] - columns.boxes.xyxy[:, :2]
    short, long = size.min(axis=1, initial=np.inf), size.max(axis=1, initial=0)
    return np.flatnonzero((short >= 1) & (long > EXTREME * short) & columns.upright)


def _aspect_of(columns: DerivedColumns, row: int) -> dict[str, Any]:
    size = columns.boxes.xyxy[row, 2:] - columns.boxes.xyxy[row, :2]
    return {"ratio": Trusted(f"{size.max() / size.min():.0f}"), "value": edges(columns, row)}


ASPECT = BoxRule(
    Code(
        "extreme-aspect-ratio",
        "warning",
        "the longer side of the box is {ratio} times the shorter: {value}",
        "check the annotation",
        "Few objects are more than 50 times as long as they are wide; usually an edge is misplaced.",
        row=True,
    ),
    find=_aspect,
    values=_aspect_of,
    validate_only=True,
)
