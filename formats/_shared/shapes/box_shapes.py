"""The shape of one box as a reader collects it (polygons, mask, oriented box, keypoints), and its columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from odm.tables import Floats, ShapeRows, keypoints_of
from odm.tables.shapes import as_rectangles, join_by_bridges

Points = Sequence[Sequence[float]]
ELLIPSE = 64
"""Corners of the outline of an ellipse."""


class Drawn(msgspec.Struct, eq=False):
    """The shape and keypoints of one box."""

    kind: Literal["none", "polygons", "oriented", "mask"] = "none"
    value: Any = None
    """The argument of the method `kind` of `ShapeRows`."""
    points: Points = ()
    """x, y and visibility of its keypoints."""


def join_shapes(members: Sequence[Drawn | None], size: tuple[int, int]) -> Drawn | None:
    """Join the polygons and masks of one object, in an image of `size` (width, height) pixels.

    None if a part has no shape. Polygons alone stay polygons; with a mask among them the union is a mask.
    """
    parts_with_shape = [shape for shape in members if shape is not None and shape.kind != "none"]
    if len(parts_with_shape) < len(members) or not parts_with_shape:
        return None
    if all(shape.kind == "polygons" for shape in parts_with_shape):
        return Drawn("polygons", [outline for shape in parts_with_shape for outline in shape.value])
    from odm.masks.runs import write_texts

    rows = ShapeRows()  # a row for each part; the union of their masks is the mask of the object
    for shape in parts_with_shape:
        getattr(rows, shape.kind)(shape.value)  # a method for each kind
    (width, height), n, table = size, len(rows), rows.table()
    assert table is not None
    union = table.runs(np.full(n, height), np.full(n, width)).union()
    text, _ = write_texts(*union.counts(np.array([width * height])))
    return Drawn("mask", text.tobytes())


def make_shape_columns(shapes: Sequence[Drawn | None]) -> dict[str, Any]:
    """The columns ``shapes`` and ``keypoints`` of n boxes, without a column that would be empty.

    `shapes` has None for a box without either.
    """
    if not any(shapes):
        return {}
    rows = ShapeRows()
    for shape in shapes:
        if shape is None or shape.kind == "none":
            rows.none()
        else:
            getattr(rows, shape.kind)(shape.value)  # a method for each kind
    points = keypoints_of([() if shape is None else shape.points for shape in shapes])
    columns = {"shapes": rows.table(), "keypoints": points}
    return {name: column for name, column in columns.items() if column is not None}


def outline_ellipse(x: float, y: float, rx: float, ry: float, turn: float = 0.0) -> Floats:
    """(64, 2) corners at equal angles from the end of the first axis, which is turned by so many radians."""
    angle = np.arange(ELLIPSE) * (2 * math.pi / ELLIPSE)
    return rotate_points(np.stack([rx * np.cos(angle), ry * np.sin(angle)], axis=1), turn, (x, y))


def rotate_points(points: Any, turn: float, centre: Sequence[float]) -> Floats:
    """Turn (n, 2) `points`, relative to `centre`, by `turn` radians from the x to the y axis.

    Returns (n, 2) float64 in the coordinates of `centre`.
    """
    cos, sin = math.cos(turn), math.sin(turn)
    # Of points as rows: (x, y) becomes (x cos - y sin, x sin + y cos).
    rotation = np.array([[cos, sin], [-sin, cos]])
    rotated_points: Floats = np.asarray(points, np.float64) @ rotation + np.asarray(centre)
    return rotated_points


def rotate_box(left: float, top: float, width: float, height: float, turn: float) -> Floats:
    """(4, 2) the corners of a rectangle that is turned about its centre by so many radians."""
    half_size = np.array([width, height]) / 2
    return rotate_points(
        half_size * [[-1, -1], [1, -1], [1, 1], [-1, 1]], turn, (left + half_size[0], top + half_size[1])
    )


def join_rings(rings: Sequence[Points]) -> list[Floats]:
    """Convert rings that fill by the even-odd rule to outlines: a hole is joined to the ring around it."""
    outlines: list[Floats] = []
    for ring in rings:
        ring_points = np.asarray(ring, np.float64).reshape(-1, 2)
        # Only rings whose boxes meet can be around one another; all others stay outlines of their own.
        touching = [k for k, outline in enumerate(outlines) if _meet(ring_points, outline)]
        joined_outline = join_by_bridges([*(outlines[k] for k in touching), ring_points])
        outlines = [outline for k, outline in enumerate(outlines) if k not in touching] + [joined_outline]
    return outlines


def _meet(a: Floats, b: Floats) -> bool:
    """Whether the boxes around two rings, (n, 2) and (m, 2), overlap or touch."""
    return bool((a.min(axis=0) <= b.max(axis=0)).all() and (b.min(axis=0) <= a.max(axis=0)).all())


def split_rotation(corners: Any) -> tuple[list[float], float]:
    """Split an oriented box into a rectangle and the rotation about its centre.

    Returns left, top, width and height of the rectangle before it is rotated, and the degrees, from 0 to
    below 360.
    """
    x, y, width, height, turn = as_rectangles(np.asarray(corners, np.float64)[None])[0].tolist()
    height = abs(height)  # corners may go round the other way
    return [x - width / 2, y - height / 2, width, height], round(math.degrees(turn), 9) % 360
