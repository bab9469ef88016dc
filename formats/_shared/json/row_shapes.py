"""Give a row of JSON its shape, which becomes a column, or is read as its bounding box."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from odm.formats._shared.gather import Corners
from odm.formats._shared.json.values import (
    NUMBER_TYPES,
    Reader,
    find_bounds,
    find_ellipse_bounds,
    is_upright,
    simplify,
)
from odm.formats._shared.known_keys import EMPTY_VALUES
from odm.formats._shared.shapes.box_shapes import Drawn, Points
from odm.formats._shared.shapes.pixel_masks import BadMask, encode_in_image
from odm.tables import Floats


class DrawnRow:
    """The methods of `items.Row` about its shape."""

    __slots__ = tuple[str, ...]()

    if TYPE_CHECKING:
        is_bad: bool
        drawn: Drawn | None
        outlined: str
        owner: Any  # `items.Rows`, which this may not import
        reader: Reader
        record: dict[str, Any]

    @property
    def wants(self) -> bool:
        """Whether shapes are wanted, and this row may still have one."""
        return bool(self.reader.builder.wants) and not self.is_bad

    def group(self, key: str, group_min: int = 1) -> int:
        """The number of the group under a key, -1 where there is none.

        A group named by text gets a number within its image. Anything else but a whole number of at least
        `group_min` is counted as unread.
        """
        value: Any = self.record.get(key)
        if type(value) is str and value:
            return self.reader.groups.find_number(self.owner.image, value)
        if type(value) in NUMBER_TYPES and group_min <= value < 2**31 and value == int(value):
            return int(value)
        if value not in EMPTY_VALUES and value != 0:
            self.reader.count(key)
        return -1

    def note_outline(self, kind: str) -> None:
        """Note that a shape of the row, called `kind`, is read as its box; see `Reader.count_outline`."""
        self.outlined = kind

    def draw(self, kind: Literal["polygons", "oriented", "mask"], value: Any, counted_as: str) -> None:
        """Set the shape of the row, as the method `kind` of `ShapeRows` takes it.

        If no shapes are wanted, `counted_as` is counted as read as its bounding box.
        """
        if not self.wants:
            self.note_outline(counted_as)
            return
        self.drawn = self.drawn or Drawn()
        self.drawn.kind, self.drawn.value = kind, value

    def paint(
        self, item: Any, key: str, pixels: Callable[[Any], Any], left: float, top: float
    ) -> tuple[int, int]:
        """Set the mask of the row: `pixels` decodes the value under a key, pasted at `left`, `top` in pixels.

        Returns the width and height of the decoded mask, (0, 0) after an issue. If no shapes are wanted, or
        the size of the image is unknown, the mask is counted as read as its bounding box.
        """
        size = self.reader.builder.image_size(self.owner.image)
        try:
            pasted = pixels(item.get(key))
            if not self.wants or min(size) < 1:
                self.note_outline("masks")
            else:
                self.draw("mask", encode_in_image(pasted, math.floor(left), math.floor(top), *size), "masks")
        except BadMask as e:
            item.report_wrong(key, str(e))
            return 0, 0
        return pasted.shape[1], pasted.shape[0]

    def set_keypoints(self, points: Points) -> None:
        """Set the keypoints of the row: x, y and visibility of each. To be called only if `wants`."""
        self.drawn = self.drawn or Drawn()
        self.drawn.points = points

    def set_only_keypoints(self, points: Points) -> Corners:
        """Set the keypoints of a row without a box, and count it; return the box around the labelled ones."""
        self.reader.around_points += 1
        if self.wants:
            self.set_keypoints(points)
        else:
            self.reader.count("keypoints")
        return find_bounds([point for point in points if point[2]])  # with a visibility above 0

    def draw_around(self, points: Points, kind: str) -> Corners:
        """Return the box around points, and set the shape: a polygon, or an oriented box of four points where
        `kind` is rotated boxes.

        An upright rectangle gets no oriented box, and a polygon only if shapes are wanted.
        """
        is_oriented = kind == "rotated boxes" and len(points) == 4
        if not is_upright(points) and is_oriented:
            self.draw("oriented", points, kind)
        # An upright polygon is its box, so it is not counted as lost where shapes are not wanted.
        elif not is_upright(points) or (self.wants and not is_oriented):
            self.draw("polygons", [points], kind)
        return find_bounds(points)

    def draw_oriented(self, corners: Floats) -> Corners:
        """Set an oriented box by its (4, 2) corners, which need pixels; return the box around it."""
        points = corners.tolist()
        self.reader.need_pixels(self.owner.image)
        self.draw("oriented", points, "rotated boxes")
        return find_bounds(points)

    def draw_ellipse(
        self, x: float, y: float, rx: float, ry: float, turn: float = 0.0, kind: str = ""
    ) -> Corners:
        """Set the outline of an ellipse, turned by `turn` radians (of pixels); return the box around it.

        If no shapes are wanted, `kind` is counted as read as its bounding box.
        """
        if turn:  # in fractions of width and height it would be another one
            self.reader.need_pixels(self.owner.image)
        if self.wants:
            self.drawn = self.reader.make_ellipse(x, y, rx, ry, turn)
        else:
            self.note_outline(kind or "ellipses")
        return find_ellipse_bounds(x, y, rx, ry, turn)


def have_area(points: Points) -> bool:
    """Whether the box around the labelled keypoints has an area; each point is x, y and visibility."""
    labelled = [point for point in points if point[2]] or [(0, 0)]  # without any there is no area
    left, top, right, bottom = find_bounds(labelled)
    return right > left and bottom > top


def to_pixels(numbers: Sequence[float], size: tuple[int, int]) -> list[float]:
    """Multiply fractions of the width and height in turn, such as x, y, x, y, by the `size` in pixels."""
    return [n * size[i % 2] for i, n in enumerate(numbers)]


def divide_points(points: Sequence[Sequence[float]], size: tuple[int, int]) -> list[list[float | int]]:
    """Points [x, y] relative to the width and height of the image."""
    return [[simplify(x / size[0]), simplify(y / size[1])] for x, y in points]
