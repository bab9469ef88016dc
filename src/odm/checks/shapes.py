"""Rules about polygons, masks, oriented boxes and keypoints."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.checks.rules import NO_ROWS, TOO_LARGE, BoxFindings, BoxRule, DerivedColumns, box_rule, format_number
from odm.codes import KEYPOINT_COUNT, MASK_SYNTAX
from odm.issues import Trusted, first_few
from odm.masks.runs import Measured, split_by_size, sum_groups
from odm.tables import Floats, Keypoints, Longs, ShapeKind, Shapes, first_index_of
from odm.tables.quadrilaterals import distances_from_rectangle, is_convex

Mask = NDArray[np.bool_]

_CORNERS_AT_A_TIME = 2**16
_OFF = 2.0
"""Pixels by which a box may differ from its shape, or corners from a rectangle."""


class ShapeColumns:
    """Columns derived from the shapes of a dataset that several rules need.

    Each is computed at its first use; n is the number of boxes. In ``shapes``, ``ring`` (n + 1,) has the
    first outline of each box and ``point`` the first corner of each outline: ``point[ring]`` is the first
    corner of each box.
    """

    def __init__(self, columns: DerivedColumns) -> None:
        """Take the shapes and keypoints of the dataset of `columns`, and the sizes of the images."""
        self.derived = columns
        self.boxes = boxes = columns.boxes
        self.n = len(boxes)
        self.source_shapes = boxes.shapes or Shapes.none(self.n)
        self.shapes = self.source_shapes.without_short_parts()
        """The shapes without parts of fewer than three corners."""
        self.points = boxes.keypoints or Keypoints.none(self.n)
        self.kind = self.shapes.kind
        size = columns.dataset.limits()[boxes.image]
        self.width, self.height = size[:, 0], size[:, 1]
        self.has_size: Mask = size.min(axis=1, initial=1) > 0

    @functools.cached_property
    def masks(self) -> Measured:
        """The measures of the masks."""
        return self.shapes.measure_masks(self.height)

    @property
    def is_undecodable(self) -> Mask:
        """(n,) whether each box has a segmentation mask whose text cannot be decoded."""
        return self.masks.is_wrong

    @property
    def is_overlong(self) -> Mask:
        """(n,) whether each box has a segmentation mask whose runs do not add up to the image."""
        sum_differs = self.masks.n_run_pixels != self.width * self.height
        is_overlong: Mask = (self.kind == ShapeKind.MASK) & self.has_size & ~self.is_undecodable & sum_differs
        return is_overlong

    @functools.cached_property
    def short_rows(self) -> NDArray[np.intp]:
        """Rows with a part of an outline of fewer than three corners."""
        return np.flatnonzero(np.diff(self.shapes.ring) < np.diff(self.source_shapes.ring))

    @functools.cached_property
    def wild_rows(self) -> NDArray[np.intp]:
        """Rows with a corner or a keypoint that is not finite, or too far away to compute with."""
        is_near, is_finite = np.abs(self.shapes.xy) < TOO_LARGE, np.isfinite(self.points.xyv)
        if is_near.all() and is_finite.all():
            return NO_ROWS
        has_far, has_infinite = ~is_near.all(axis=1), ~is_finite.all(axis=1)
        n_wild = sum_groups(has_far, self.shapes.point[self.shapes.ring]) + sum_groups(
            has_infinite, self.points.first
        )
        return np.flatnonzero(n_wild)

    @functools.cached_property
    def is_usable(self) -> Mask:
        """(n,) mask of the boxes whose shape has no error."""
        is_usable: Mask = (self.kind != ShapeKind.NONE) & ~self.is_undecodable & ~self.is_overlong
        is_usable[self.wild_rows] = False
        return is_usable

    @functools.cached_property
    def pixels(self) -> Longs:
        """(n,) number of pixels of masks and outlines; -1 for oriented boxes and images without a size,
        -2 for outlines whose pixels take too long to count.
        """
        pixels = np.where(self.is_usable & (self.kind == ShapeKind.MASK), self.masks.area, -1)
        has_size = self.has_size & (not self.derived.dataset.relative)  # fractions of an image cover no pixel
        rows = np.flatnonzero(self.is_usable & has_size & (self.kind == ShapeKind.POLYGONS))
        for batch in split_by_size(np.diff(self.shapes.point[self.shapes.ring])[rows], _CORNERS_AT_A_TIME):
            batch_rows = rows[batch]
            batch_shapes = self.shapes.take(batch_rows)
            area, _ = batch_shapes.extents(self.height[batch_rows], self.width[batch_rows])
            pixels[batch_rows] = np.where(area < 0, -2, area)
        return pixels

    @functools.cached_property
    def edges(self) -> Floats:
        """(n, 4) left, top, right and bottom of each shape, NaN without a shape or with an empty mask."""
        edges = np.full((self.n, 4), np.nan)
        rows = np.flatnonzero(self.is_usable)
        usable_shapes = self.shapes.take(rows)
        edges[rows] = usable_shapes.edges()  # of corners, which masks do not have
        mask_rows = rows[(usable_shapes.kind == ShapeKind.MASK) & self.has_size[rows]]
        ltwh = self.masks.box[mask_rows].astype(np.float64)
        ltwh[(ltwh[:, 2:] == 0).any(axis=1)] = np.nan
        edges[mask_rows] = np.concatenate([ltwh[:, :2], ltwh[:, :2] + ltwh[:, 2:]], axis=1)
        return edges

    @functools.cached_property
    def outline_area(self) -> Floats:
        """(n,) area that the outlines enclose, NaN of masks; parts that overlap count twice."""
        areas, shapes = np.full(self.n, np.nan), self.shapes
        # Shoelace formula, per outline: half the sum of x * next_y - y * next_x over its corners, where the
        # corner after the last is the first. Corners are relative to the first, against rounding.
        n_corners = np.diff(shapes.point)
        outline_starts, outline_lasts = shapes.point[:-1][n_corners > 0], shapes.point[1:][n_corners > 0] - 1
        x, y = (shapes.xy - np.repeat(shapes.xy[outline_starts], n_corners[n_corners > 0], axis=0)).T
        next_x, next_y = np.roll(x, -1), np.roll(y, -1)
        next_x[outline_lasts], next_y[outline_lasts] = x[outline_starts], y[outline_starts]
        outline_of_corner = np.repeat(np.arange(len(n_corners)), n_corners)
        cross = np.bincount(outline_of_corner, weights=x * next_y - y * next_x, minlength=len(n_corners))
        rows = np.flatnonzero(self.is_usable & (self.kind != ShapeKind.MASK))
        areas[rows] = sum_groups(np.abs(cross) / 2, shapes.ring)[rows]
        return areas

    @functools.cached_property
    def quads(self) -> tuple[NDArray[np.intp], Floats]:
        """Rows of the oriented boxes, and their corners."""
        rows = np.flatnonzero(self.is_usable & (self.kind == ShapeKind.ORIENTED))
        return rows, self.shapes.corners(rows)

    @functools.cached_property
    def point_rows(self) -> Longs:
        """(n_keypoints,) row of the box of each keypoint."""
        return np.repeat(np.arange(self.n), self.points.counts())


def _shape_rule(
    *words: Any, needs: tuple[str, ...] = ("shapes",), validate_only: bool = False
) -> Callable[[Callable[[ShapeColumns], BoxFindings]], BoxRule]:
    """Decorate a rule about shapes, as `box_rule` does with `words`: a code, or its name, severity and texts.

    The function takes `ShapeColumns`, made once for all rules.
    """

    def derive(columns: DerivedColumns) -> ShapeColumns:
        """Return the shape columns of a dataset, which are kept with its other columns."""
        cache: dict[str, Any] = columns.__dict__
        if "shape_columns" not in cache:
            cache["shape_columns"] = ShapeColumns(columns)
        shape_columns: ShapeColumns = cache["shape_columns"]
        return shape_columns

    make = box_rule(*words, field="", needs=needs, validate_only=validate_only)
    return lambda find: make(lambda columns: find(derive(columns)))


def _format_edges(edges: Floats) -> Trusted:
    return Trusted(", ".join(format_number(round(v, 2)) for v in edges.tolist()))


@_shape_rule(
    "outline-short",
    "warning",
    "expected at least 3 corners in each part of the outline, found {value}, left out",
    "remove the part, or draw it again",
    "Fewer than three corners enclose nothing. pycocotools counts such a part as no pixel, and takes one of "
    "two corners that comes first for a box.",
)
def short_outline(columns: ShapeColumns) -> BoxFindings:
    """Find boxes with a part of an outline of fewer than three corners."""

    def describe(row: int) -> dict[str, Any]:
        corner_counts = [*map(len, columns.source_shapes.polygons(row))]
        texts = [
            f"{n} in part {outline_number} of {len(corner_counts)}"
            for outline_number, n in enumerate(corner_counts, 1)
            if n < 3
        ]
        return {"value": Trusted(first_few(texts, 5, str))}

    return columns.short_rows, describe


@_shape_rule(
    "shape-not-finite",
    "error",
    "expected finite coordinates of the shape, found {value}",
    "correct the outline or the keypoints",
    "A corner or keypoint that is not a number, or is infinitely far away, has no position.",
    needs=("shapes", "keypoints"),
)
def wild_corner(columns: ShapeColumns) -> BoxFindings:
    """Find boxes with a corner or a keypoint that is not finite or too far away."""

    def describe(row: int) -> dict[str, Any]:
        point_arrays = [*columns.shapes.polygons(row), columns.points.points(row)]
        coordinates = np.concatenate([points.ravel() for points in point_arrays])
        return {"value": Trusted(format_number(coordinates[~(np.abs(coordinates) < TOO_LARGE)][0]))}

    return columns.wild_rows, describe


@_shape_rule(MASK_SYNTAX)
def undecodable_mask(columns: ShapeColumns) -> BoxFindings:
    """Find masks whose text of run lengths cannot be decoded."""

    def describe(row: int) -> dict[str, Any]:
        text = columns.shapes.counts(row).decode("utf-8", "replace")
        return {"value": f"counts that cannot be decoded: {text[:40]!r}"}

    return np.flatnonzero(columns.is_undecodable), describe


@_shape_rule(
    "mask-length",
    "error",
    "expected a mask of {expected} pixels in all, found runs of {value}",
    "write the mask again for this image",
    "The run lengths of a mask, inside and outside, add up to the pixels of its image. A mask with another "
    "sum is damaged or was made for another size; pycocotools accepts it silently.",
)
def overlong_mask(columns: ShapeColumns) -> BoxFindings:
    """Find masks with more or fewer pixels than their image."""

    def describe(row: int) -> dict[str, Any]:
        expected = int(columns.width[row] * columns.height[row])
        return {"expected": expected, "value": int(columns.masks.n_run_pixels[row])}

    return np.flatnonzero(columns.is_overlong), describe


@_shape_rule(
    "shape-empty",
    "warning",
    "the shape covers no pixel",
    "remove the object, or check its outline",
    "A shape without a pixel, or an outline without area, cannot be seen and can never be matched.",
)
def empty_shape(columns: ShapeColumns) -> BoxFindings:
    """Find shapes without a pixel or, where pixels are not counted (-1), without an area."""
    is_flat = (columns.pixels == -1) & (columns.outline_area == 0)
    return np.flatnonzero(columns.is_usable & ((columns.pixels == 0) | is_flat)), lambda _: {}


@_shape_rule(
    "outline-outside",
    "warning",
    "the outline extends {value} px beyond the image",
    "check the size of the image, or clip it (convert --clip)",
    "Corners beyond the image belong to another size of it, or to another image.",
)
def outline_outside(columns: ShapeColumns) -> BoxFindings:
    return _find_beyond_image(columns, columns.edges)


def _find_beyond_image(columns: ShapeColumns, edges: Floats) -> BoxFindings:
    """Find boxes whose `edges` (n, 4), around a shape or its points, reach beyond the image."""
    limit = columns.derived.limits[columns.boxes.image]
    beyond = np.concatenate([-edges[:, :2], edges[:, 2:] - limit], axis=1).max(axis=1)
    rows = np.flatnonzero(beyond > columns.derived.tolerance)
    return rows, lambda row: {"value": Trusted(f"{beyond[row]:.6g}")}


@_shape_rule(
    "outline-crosses",
    "warning",
    "the outline crosses itself",
    "check the order of its corners",
    "Inside and outside change places where an outline crosses itself; usually its corners are out of order.",
    validate_only=True,
)
def outline_crosses(columns: ShapeColumns) -> BoxFindings:
    rows = np.flatnonzero(columns.is_usable & (columns.kind == ShapeKind.POLYGONS))
    crossing = [row for row in rows.tolist() if any(map(_crosses, columns.shapes.polygons(row)))]
    return np.array(crossing, np.intp), lambda _: {}


def _crosses(outline: Floats) -> bool:
    """Whether two sides of an outline (n, 2), no neighbours, cross within both; False above 2000 corners."""
    n = len(outline)
    if n < 4 or n > 2000:  # a traced mask has bridges, and never crosses
        return False
    starts, ends = outline, np.roll(outline, -1, axis=0)
    sides = ends - starts
    # side_of_corner[i, j]: positive or negative by the half-plane of side i in which corner j lies.
    side_of_corner = sides[:, None, 0] * (outline[None, :, 1] - starts[:, None, 1]) - sides[:, None, 1] * (
        outline[None, :, 0] - starts[:, None, 0]
    )
    # is_parted[i, j]: whether side j goes from one half-plane of side i to the other.
    is_parted = side_of_corner * np.roll(side_of_corner, -1, axis=1) < 0
    return bool((is_parted & is_parted.T).any())  # two sides cross if each goes across the line of the other


@_shape_rule(
    "shape-box-differs",
    "warning",
    "the box {box} is not the one around its shape: {value}",
    "compute the box again (-O boxes=shapes does so when COCO or LVIS is read)",
    "Box and shape of an object belong together. Where they differ, one was edited without the other.",
)
def box_differs(columns: ShapeColumns) -> BoxFindings:
    """Find boxes with an edge more than `_OFF` pixels and a twentieth of the side from that of the shape."""
    xyxy = columns.boxes.xyxy
    allowed = np.maximum(_OFF, 0.05 * np.abs(np.tile(xyxy[:, 2:] - xyxy[:, :2], 2)))
    rows = np.flatnonzero((np.abs(columns.edges - xyxy) > allowed).any(axis=1))
    return rows, lambda row: {"box": _format_edges(xyxy[row]), "value": _format_edges(columns.edges[row])}


@_shape_rule(
    "shape-area-differs",
    "warning",
    "the area is given as {value}, but the shape has {expected}",
    "recompute the area of the object",
    "The area decides whether an object counts as small, medium or large.",
    validate_only=True,
)
def area_differs(columns: ShapeColumns) -> BoxFindings:
    """Find boxes whose recorded area is that of the shape neither by its pixels nor by its corners.

    Areas are the same up to 10 pixels or a twentieth; a box or a shape without an area is not reported.
    """
    recorded_area = columns.boxes.area
    shape_area = np.where(columns.kind == ShapeKind.ORIENTED, columns.outline_area, columns.pixels)
    shape_area[shape_area <= 0] = np.nan  # empty, or pixels that were not counted (-1, -2)
    # difference: (2, n), from the pixels and from the area within the corners
    difference = np.stack([np.abs(recorded_area - shape_area), np.abs(recorded_area - columns.outline_area)])
    is_near = (difference <= 10) | (difference <= 0.05 * np.abs(recorded_area))
    rows = np.flatnonzero(~np.isnan(difference[0]) & ~is_near.any(axis=0))
    return rows, lambda row: {
        "value": Trusted(format_number(recorded_area[row])),
        "expected": Trusted(format_number(shape_area[row])),
    }


@_shape_rule(
    "not-a-rectangle",
    "warning",
    "the corners of the oriented box are up to {value} px from those of a rectangle",
    "check its corners",
    "An oriented box is a rotated rectangle. Formats with an angle hold the smallest rectangle around it.",
)
def not_a_rectangle(columns: ShapeColumns) -> BoxFindings:
    """Find oriented boxes with corners in order, but more than `_OFF` pixels from those of a rectangle."""
    rows, corners = columns.quads
    distance = distances_from_rectangle(corners)
    distance_by_row = np.zeros(len(columns.boxes))
    distance_by_row[rows] = distance
    far_positions = np.flatnonzero(distance > _OFF)
    return rows[far_positions[is_convex(corners[far_positions])]], lambda row: {
        "value": Trusted(f"{distance_by_row[row]:.3g}")
    }


@_shape_rule(
    "corners-cross",
    "warning",
    "the four corners of the oriented box are not in order around it",
    "put the corners in order",
    "The sides cross, or one corner lies between the others. Such a box is measured by the convex hull of "
    "its corners.",
)
def corners_cross(columns: ShapeColumns) -> BoxFindings:
    rows, corners = columns.quads
    return rows[~is_convex(corners)], lambda _: {}


@_shape_rule(KEYPOINT_COUNT, needs=("keypoints",))
def keypoint_count(columns: ShapeColumns) -> BoxFindings:
    """Find boxes without as many keypoints as their class names, or else as its first box has."""
    boxes, names = columns.boxes, columns.derived.dataset.categories.keypoints
    n_points = columns.points.counts()
    rows_with_points = np.flatnonzero(n_points)
    first_positions = first_index_of(
        boxes.category[rows_with_points], len(columns.derived.dataset.categories)
    )
    # For each class, the number of its first box with keypoints; if none has, -1 selects the appended 0.
    n_expected = np.append(n_points[rows_with_points], 0)[first_positions]
    if names is not None:
        n_listed = np.array([*map(len, names)], np.int64)
        n_expected = np.where(n_listed > 0, n_listed, n_expected)
    rows = rows_with_points[n_points[rows_with_points] != n_expected[boxes.category[rows_with_points]]]
    return rows, lambda row: {
        "expected": f"{n_expected[boxes.category[row]]} keypoints, as its class has",
        "value": int(n_points[row]),
    }


@_shape_rule(
    "keypoint-visibility",
    "error",
    "expected a visibility of 0, 1 or 2, found {value}",
    "correct the keypoints: x, y and 0 = not labelled, 1 = hidden, 2 = visible",
    "The third number of a keypoint of ground truth says whether it is labelled. Other numbers are usually "
    "scores, or the numbers are in another order.",
    needs=("keypoints",),
)
def keypoint_visibility(columns: ShapeColumns) -> BoxFindings:
    """Find boxes of ground truth with a keypoint whose visibility is not 0, 1 or 2."""
    if columns.derived.dataset.kind == "det":
        return NO_ROWS, lambda _: {}
    visibility = columns.points.xyv[:, 2]
    is_odd = ~np.isin(visibility, (0, 1, 2))
    rows = np.unique(columns.point_rows[is_odd])

    def describe(row: int) -> dict[str, Any]:
        return {"value": Trusted(format_number(visibility[is_odd & (columns.point_rows == row)][0]))}

    return rows, describe


@_shape_rule(
    "labelled-keypoints",
    "warning",
    "num_keypoints is {value}, but {expected} of the keypoints are labelled",
    "correct num_keypoints, or the visibility of the keypoints",
    "COCO ignores an object whose num_keypoints is 0, and compares the keypoints whose visibility is not 0. "
    "Where the two disagree, programs differ in whether the object counts.",
    needs=("keypoints",),
    validate_only=True,
)
def labelled_keypoints(columns: ShapeColumns) -> BoxFindings:
    n_labelled, n_recorded = columns.points.count_labelled(), columns.points.stated
    rows = np.flatnonzero((n_recorded >= 0) & (n_recorded != n_labelled))
    return rows, lambda row: {"value": int(n_recorded[row]), "expected": int(n_labelled[row])}


@_shape_rule(
    "keypoint-outside",
    "warning",
    "a labelled keypoint lies {value} px beyond the image",
    "check the size of the image, or the keypoints",
    "Nobody can label what is not in the picture.",
    needs=("keypoints",),
)
def keypoint_outside(columns: ShapeColumns) -> BoxFindings:
    return _find_beyond_image(columns, columns.points.edges(columns.points.xyv[:, 2] > 0))


@_shape_rule(
    "keypoints-off-box",
    "warning",
    "most of the labelled keypoints lie far outside the box",
    "check whether the box and the keypoints belong to the same object",
    "Keypoints belong to the object in the box. If most are further away than half its size, they belong "
    "to another object or are in other units.",
    needs=("keypoints",),
    validate_only=True,
)
def keypoints_off_box(columns: ShapeColumns) -> BoxFindings:
    """Find boxes with most of their labelled keypoints farther outside than half the size of the box."""
    box_rows = columns.point_rows
    box = columns.boxes.xyxy[box_rows]
    margin = (box[:, 2:] - box[:, :2]) / 2
    xy, is_labelled = columns.points.xyv[:, :2], columns.points.xyv[:, 2] > 0
    is_off = is_labelled & ((xy < box[:, :2] - margin) | (xy > box[:, 2:] + margin)).any(axis=1)
    n_labelled, n_off = (
        np.bincount(box_rows, weights=is_labelled, minlength=len(columns.boxes)),
        np.bincount(box_rows, weights=is_off, minlength=len(columns.boxes)),
    )
    return np.flatnonzero(n_off * 2 > n_labelled), lambda _: {}


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
