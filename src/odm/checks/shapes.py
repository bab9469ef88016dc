"""Rules about polygons, masks, oriented boxes and keypoints."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.checks.rules import NO_ROWS, TOO_LARGE, BoxRule, DerivedColumns, FoundBoxes, box_rule, number
from odm.codes import KEYPOINT_COUNT, MASK_SYNTAX
from odm.issues import Trusted, first_few
from odm.masks.runs import Measured, pieces, sums
from odm.tables import Floats, Keypoints, Longs, ShapeKind, Shapes, first_index_of
from odm.tables.quadrilaterals import is_convex, off_rectangle

Mask = NDArray[np.bool_]

_CORNERS_AT_A_TIME = 2**16
_OFF = 2.0
"""Pixels by which a box may differ from its shape, or corners from a rectangle."""


class DrawnColumns:
    """Columns derived from the shapes of a dataset that several rules need.

    Each is computed at its first use.
    """

    def __init__(self, columns: DerivedColumns) -> None:
        self.columns = columns
        self.boxes = boxes = columns.boxes
        self.n = len(boxes)
        self.source_shapes = boxes.shapes or Shapes.none(self.n)
        self.shapes = self.source_shapes.without_short_parts()
        """Those that are used: all other rules look at these."""
        self.points = boxes.keypoints or Keypoints.none(self.n)
        self.kind = self.shapes.kind
        size = columns.dataset.limits()[boxes.image]
        self.width, self.height = size[:, 0], size[:, 1]
        self.sized: Mask = size.min(axis=1, initial=1) > 0

    @functools.cached_property
    def masks(self) -> Measured:
        """The measures of the masks."""
        return self.shapes.measured(self.height)

    @property
    def undecodable(self) -> Mask:
        """(n,) masks whose text cannot be decoded."""
        return self.masks.wrong

    @property
    def overlong(self) -> Mask:
        """(n,) masks whose runs do not add up to the image."""
        other = self.masks.total != self.width * self.height
        is_overlong: Mask = (self.kind == ShapeKind.MASK) & self.sized & ~self.undecodable & other
        return is_overlong

    @functools.cached_property
    def short(self) -> NDArray[np.intp]:
        """Rows with a part of an outline of fewer than three corners."""
        return np.flatnonzero(np.diff(self.shapes.ring) < np.diff(self.source_shapes.ring))

    @functools.cached_property
    def wild(self) -> NDArray[np.intp]:
        """Rows with a corner or a keypoint that is not finite, or too far away to compute with."""
        is_near, is_finite = np.abs(self.shapes.xy) < TOO_LARGE, np.isfinite(self.points.xyv)
        if is_near.all() and is_finite.all():
            return NO_ROWS
        far, endless = ~is_near.all(axis=1), ~is_finite.all(axis=1)
        n_wild = sums(far, self.shapes.point[self.shapes.ring]) + sums(endless, self.points.first)
        return np.flatnonzero(n_wild)

    @functools.cached_property
    def usable(self) -> Mask:
        """(n,) mask of the boxes whose shape has no error."""
        usable: Mask = (self.kind != ShapeKind.NONE) & ~self.undecodable & ~self.overlong
        usable[self.wild] = False
        return usable

    @functools.cached_property
    def pixels(self) -> Longs:
        """(n,) pixels of masks and outlines; -1 where the image has no size, and of oriented boxes.

        -2 where they take too long to count.
        """
        pixels = np.where(self.usable & (self.kind == ShapeKind.MASK), self.masks.area, -1)
        sized = self.sized & (not self.columns.dataset.relative)  # fractions of an image cover no pixel
        rows = np.flatnonzero(self.usable & sized & (self.kind == ShapeKind.POLYGONS))
        for piece in pieces(np.diff(self.shapes.point[self.shapes.ring])[rows], _CORNERS_AT_A_TIME):
            block = rows[piece]
            area = self.shapes.take(block).extents(self.height[block], self.width[block])[0]
            pixels[block] = np.where(area < 0, -2, area)
        return pixels

    @functools.cached_property
    def edges(self) -> Floats:
        """(n, 4) left, top, right and bottom of each shape, NaN without a shape or with an empty mask."""
        edges = np.full((self.n, 4), np.nan)
        rows = np.flatnonzero(self.usable)
        part = self.shapes.take(rows)
        edges[rows] = part.edges()
        masks = rows[(part.kind == ShapeKind.MASK) & self.sized[rows]]
        ltwh = self.masks.box[masks].astype(np.float64)
        ltwh[(ltwh[:, 2:] == 0).any(axis=1)] = np.nan
        edges[masks] = np.concatenate([ltwh[:, :2], ltwh[:, :2] + ltwh[:, 2:]], axis=1)
        return edges

    @functools.cached_property
    def outline_area(self) -> Floats:
        """(n,) area of the outlines by their corners, NaN of masks; parts that overlap count twice."""
        areas, shapes = np.full(self.n, np.nan), self.shapes
        n = np.diff(shapes.point)
        first, last = shapes.point[:-1][n > 0], shapes.point[1:][n > 0] - 1
        x, y = (shapes.xy - np.repeat(shapes.xy[first], n[n > 0], axis=0)).T
        next_x, next_y = np.roll(x, -1), np.roll(y, -1)
        next_x[last], next_y[last] = x[first], y[first]
        cross = np.bincount(np.repeat(np.arange(len(n)), n), x * next_y - y * next_x, len(n))
        rows = np.flatnonzero(self.usable & (self.kind != ShapeKind.MASK))
        areas[rows] = sums(np.abs(cross) / 2, shapes.ring)[rows]
        return areas

    @functools.cached_property
    def quads(self) -> tuple[NDArray[np.intp], Floats]:
        """Rows of the oriented boxes, and their corners."""
        rows = np.flatnonzero(self.usable & (self.kind == ShapeKind.ORIENTED))
        return rows, self.shapes.corners(rows)

    @functools.cached_property
    def point_rows(self) -> Longs:
        """The box of each keypoint."""
        return np.repeat(np.arange(self.n), self.points.counts())


def _rule(
    *words: Any, needs: tuple[str, ...] = ("shapes",), validate_only: bool = False
) -> Callable[[Callable[[DrawnColumns], FoundBoxes]], BoxRule]:
    """Decorate a rule about shapes, as `box_rule` does.

    The function takes `DrawnColumns`, made once for all rules.
    """

    def derived(columns: DerivedColumns) -> DrawnColumns:
        cache: dict[str, Any] = columns.__dict__
        if "drawn" not in cache:
            cache["drawn"] = DrawnColumns(columns)
        shape_columns: DrawnColumns = cache["drawn"]
        return shape_columns

    make = box_rule(*words, field="", needs=needs, validate_only=validate_only)
    return lambda find: make(lambda columns: find(derived(columns)))


def _bounds(edges: Floats) -> Trusted:
    return Trusted(", ".join(number(round(v, 2)) for v in edges.tolist()))


@_rule(
    "outline-short",
    "warning",
    "expected at least 3 corners in each part of the outline, found {value}, left out",
    "remove the part, or draw it again",
    "Fewer than three corners enclose nothing. pycocotools counts such a part as no pixel, and takes one of "
    "two corners that comes first for a box.",
)
def short_outline(drawn: DrawnColumns) -> FoundBoxes:
    def values(row: int) -> dict[str, Any]:
        corners = [*map(len, drawn.source_shapes.polygons(row))]
        short = [f"{n} in part {part} of {len(corners)}" for part, n in enumerate(corners, 1) if n < 3]
        return {"value": Trusted(first_few(short, 5, str))}

    return drawn.short, values


@_rule(
    "shape-not-finite",
    "error",
    "expected finite coordinates of the shape, found {value}",
    "correct the outline or the keypoints",
    "A corner or keypoint that is not a number, or is infinitely far away, has no position.",
    needs=("shapes", "keypoints"),
)
def wild_corner(drawn: DrawnColumns) -> FoundBoxes:
    def values(row: int) -> dict[str, Any]:
        parts = [*drawn.shapes.polygons(row), drawn.points.points(row)]
        flat = np.concatenate([part.ravel() for part in parts])
        return {"value": Trusted(number(flat[~(np.abs(flat) < TOO_LARGE)][0]))}

    return drawn.wild, values


@_rule(MASK_SYNTAX)
def undecodable_mask(drawn: DrawnColumns) -> FoundBoxes:
    def values(row: int) -> dict[str, Any]:
        text = drawn.shapes.counts(row).decode("utf-8", "replace")
        return {"value": f"counts that cannot be decoded: {text[:40]!r}"}

    return np.flatnonzero(drawn.undecodable), values


@_rule(
    "mask-length",
    "error",
    "expected a mask of {expected} pixels in all, found runs of {value}",
    "write the mask again for this image",
    "The run lengths of a mask, inside and outside, add up to the pixels of its image. A mask with another "
    "sum is damaged or was made for another size; pycocotools accepts it silently.",
)
def overlong_mask(drawn: DrawnColumns) -> FoundBoxes:
    def values(row: int) -> dict[str, Any]:
        expected = int(drawn.width[row] * drawn.height[row])
        return {"expected": expected, "value": int(drawn.masks.total[row])}

    return np.flatnonzero(drawn.overlong), values


@_rule(
    "shape-empty",
    "warning",
    "the shape covers no pixel",
    "remove the object, or check its outline",
    "A shape without a pixel, or an outline without area, cannot be seen and can never be matched.",
)
def empty_shape(drawn: DrawnColumns) -> FoundBoxes:
    unknown = (drawn.pixels == -1) & (drawn.outline_area == 0)
    return np.flatnonzero(drawn.usable & ((drawn.pixels == 0) | unknown)), lambda _: {}


@_rule(
    "outline-outside",
    "warning",
    "the outline extends {value} px beyond the image",
    "check the size of the image, or clip it (convert --clip)",
    "Corners beyond the image belong to another size of it, or to another image.",
)
def outline_outside(drawn: DrawnColumns) -> FoundBoxes:
    return _beyond_image(drawn, drawn.edges)


def _beyond_image(drawn: DrawnColumns, edges: Floats) -> FoundBoxes:
    """Find boxes whose `edges` (n, 4), around a shape or its points, reach beyond the image."""
    limit = drawn.columns.limits[drawn.boxes.image]
    over = np.concatenate([-edges[:, :2], edges[:, 2:] - limit], axis=1).max(axis=1)
    rows = np.flatnonzero(over > drawn.columns.tolerance)
    return rows, lambda row: {"value": Trusted(f"{over[row]:.6g}")}


@_rule(
    "outline-crosses",
    "warning",
    "the outline crosses itself",
    "check the order of its corners",
    "Inside and outside change places where an outline crosses itself; usually its corners are out of order.",
    validate_only=True,
)
def outline_crosses(drawn: DrawnColumns) -> FoundBoxes:
    rows = np.flatnonzero(drawn.usable & (drawn.kind == ShapeKind.POLYGONS))
    crossing = [row for row in rows.tolist() if any(map(_crosses, drawn.shapes.polygons(row)))]
    return np.array(crossing, np.intp), lambda _: {}


def _crosses(outline: Floats) -> bool:
    """Whether two sides of an outline that are no neighbours cross at a point within both."""
    n = len(outline)
    if n < 4 or n > 2000:  # a traced mask has bridges, and never crosses
        return False
    a, b = outline, np.roll(outline, -1, axis=0)
    sides = b - a
    # side[i, j]: on which side of side i corner j lies.
    side = sides[:, None, 0] * (outline[None, :, 1] - a[:, None, 1]) - sides[:, None, 1] * (
        outline[None, :, 0] - a[:, None, 0]
    )
    is_parted = side * np.roll(side, -1, axis=1) < 0
    return bool((is_parted & is_parted.T).any())


@_rule(
    "shape-box-differs",
    "warning",
    "the box {box} is not the one around its shape: {value}",
    "compute the box again (-O boxes=shapes does so when COCO or LVIS is read)",
    "Box and shape of an object belong together. Where they differ, one was edited without the other.",
)
def box_differs(drawn: DrawnColumns) -> FoundBoxes:
    xyxy = drawn.boxes.xyxy
    allowed = np.maximum(_OFF, 0.05 * np.abs(np.tile(xyxy[:, 2:] - xyxy[:, :2], 2)))
    rows = np.flatnonzero((np.abs(drawn.edges - xyxy) > allowed).any(axis=1))
    return rows, lambda row: {"box": _bounds(xyxy[row]), "value": _bounds(drawn.edges[row])}


@_rule(
    "shape-area-differs",
    "warning",
    "the area is given as {value}, but the shape has {expected}",
    "recompute the area of the object",
    "The area decides whether an object counts as small, medium or large.",
    validate_only=True,
)
def area_differs(drawn: DrawnColumns) -> FoundBoxes:
    area = drawn.boxes.area
    pixels = np.where(drawn.kind == ShapeKind.ORIENTED, drawn.outline_area, drawn.pixels)
    pixels[pixels <= 0] = np.nan
    difference = np.stack([np.abs(area - pixels), np.abs(area - drawn.outline_area)])
    is_near = (difference <= 10) | (difference <= 0.05 * np.abs(area))
    rows = np.flatnonzero(~np.isnan(difference[0]) & ~is_near.any(axis=0))
    return rows, lambda row: {
        "value": Trusted(number(area[row])),
        "expected": Trusted(number(pixels[row])),
    }


@_rule(
    "not-a-rectangle",
    "warning",
    "the corners of the oriented box are up to {value} px from those of a rectangle",
    "check its corners",
    "An oriented box is a rotated rectangle. Formats with an angle hold the smallest rectangle around it.",
)
def not_a_rectangle(drawn: DrawnColumns) -> FoundBoxes:
    rows, corners = drawn.quads
    distance = off_rectangle(corners)
    far = np.zeros(len(drawn.boxes))
    far[rows] = distance
    is_off = np.flatnonzero(distance > _OFF)
    return rows[is_off[is_convex(corners[is_off])]], lambda row: {"value": Trusted(f"{far[row]:.3g}")}


@_rule(
    "corners-cross",
    "warning",
    "the four corners of the oriented box are not in order around it",
    "put the corners in order",
    "The sides cross, or one corner lies between the others. Such a box is measured by the convex hull of "
    "its corners.",
)
def corners_cross(drawn: DrawnColumns) -> FoundBoxes:
    rows, corners = drawn.quads
    return rows[~is_convex(corners)], lambda _: {}


@_rule(KEYPOINT_COUNT, needs=("keypoints",))
def keypoint_count(drawn: DrawnColumns) -> FoundBoxes:
    boxes, names = drawn.boxes, drawn.columns.dataset.categories.keypoints
    n = drawn.points.counts()
    has = np.flatnonzero(n)
    first = first_index_of(boxes.category[has], len(drawn.columns.dataset.categories))
    n_expected = np.append(n[has], 0)[first]  # as many as the first box of the class has; -1 takes the 0
    if names is not None:
        listed = np.array([*map(len, names)], np.int64)
        n_expected = np.where(listed > 0, listed, n_expected)
    rows = has[n[has] != n_expected[boxes.category[has]]]
    return rows, lambda row: {
        "expected": f"{n_expected[boxes.category[row]]} keypoints, as its class has",
        "value": int(n[row]),
    }


@_rule(
    "keypoint-visibility",
    "error",
    "expected a visibility of 0, 1 or 2, found {value}",
    "correct the keypoints: x, y and 0 = not labelled, 1 = hidden, 2 = visible",
    "The third number of a keypoint of ground truth says whether it is labelled. Other numbers are usually "
    "scores, or the numbers are in another order.",
    needs=("keypoints",),
)
def keypoint_visibility(drawn: DrawnColumns) -> FoundBoxes:
    if drawn.columns.dataset.kind == "det":
        return NO_ROWS, lambda _: {}
    visibility = drawn.points.xyv[:, 2]
    is_odd = ~np.isin(visibility, (0, 1, 2))
    rows = np.unique(drawn.point_rows[is_odd])

    def values(row: int) -> dict[str, Any]:
        return {"value": Trusted(number(visibility[is_odd & (drawn.point_rows == row)][0]))}

    return rows, values


@_rule(
    "labelled-keypoints",
    "warning",
    "num_keypoints is {value}, but {expected} of the keypoints are labelled",
    "correct num_keypoints, or the visibility of the keypoints",
    "COCO ignores an object whose num_keypoints is 0, and compares the keypoints whose visibility is not 0. "
    "Where the two disagree, programs differ in whether the object counts.",
    needs=("keypoints",),
    validate_only=True,
)
def labelled_keypoints(drawn: DrawnColumns) -> FoundBoxes:
    labelled, stated = drawn.points.labelled(), drawn.points.stated
    rows = np.flatnonzero((stated >= 0) & (stated != labelled))
    return rows, lambda row: {"value": int(stated[row]), "expected": int(labelled[row])}


@_rule(
    "keypoint-outside",
    "warning",
    "a labelled keypoint lies {value} px beyond the image",
    "check the size of the image, or the keypoints",
    "Nobody can label what is not in the picture.",
    needs=("keypoints",),
)
def keypoint_outside(drawn: DrawnColumns) -> FoundBoxes:
    return _beyond_image(drawn, drawn.points.edges(drawn.points.xyv[:, 2] > 0))


@_rule(
    "keypoints-off-box",
    "warning",
    "most of the labelled keypoints lie far outside the box",
    "check whether the box and the keypoints belong to the same object",
    "Keypoints belong to the object in the box. If most are further away than half its size, they belong "
    "to another object or are in other units.",
    needs=("keypoints",),
    validate_only=True,
)
def keypoints_off_box(drawn: DrawnColumns) -> FoundBoxes:
    box_rows = drawn.point_rows
    box = drawn.boxes.xyxy[box_rows]
    room = (box[:, 2:] - box[:, :2]) / 2
    xy, seen = drawn.points.xyv[:, :2], drawn.points.xyv[:, 2] > 0
    away = seen & ((xy < box[:, :2] - room) | (xy > box[:, 2:] + room)).any(axis=1)
    n, n_off = np.bincount(box_rows, seen, len(drawn.boxes)), np.bincount(box_rows, away, len(drawn.boxes))
    return np.flatnonzero(n_off * 2 > n), lambda _: {}


RULES = (
    short_outline,
    wild_corner,
    undecodable_mask,
    overlong_mask,
    keypoint_count,
    keypoint_visibility,
    empty_shape,
    outline_outside,
    outline_crosses,
    box_differs,
    area_differs,
    not_a_rectangle,
    corners_cross,
    labelled_keypoints,
    keypoint_outside,
    keypoints_off_box,
)
"""In the order in which they are reported."""
