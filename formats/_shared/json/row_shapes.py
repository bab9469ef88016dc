"""What a reader of JSON says of the shape of a row, which becomes a column or is read as its box."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from odm.formats._shared.gather import Corners
from odm.formats._shared.json.values import (
    NUMBER_TYPES,
    Reader,
    around_ellipse,
    bounds,
    is_upright,
    number,
)
from odm.formats._shared.known_keys import EMPTY_VALUES
from odm.formats._shared.shapes.box_shapes import Drawn, Points
from odm.formats._shared.shapes.pixel_masks import BadMask, in_image
from odm.tables import Floats


class DrawnRow:
    """What `items.Row` can say of its shape."""

    __slots__ = tuple[str, ...]()

    if TYPE_CHECKING:
        bad: bool
        drawn: Drawn | None
        outlined: str
        owner: Any  # `items.Rows`, which this may not import
        reader: Reader
        record: dict[str, Any]

    @property
    def wants(self) -> bool:
        """Whether shapes are wanted, and this row may still have one."""
        return bool(self.reader.builder.wants) and not self.bad

    def group(self, key: str, least: int = 1) -> int:
        """The number of the group under a key, -1 where there is none.

        Text is numbered by the image; what is neither text nor a number from `least` on is counted.
        """
        value: Any = self.record.get(key)
        if type(value) is str and value:
            return self.reader.groups.number(self.owner.image, value)
        if type(value) in NUMBER_TYPES and least <= value < 2**31 and value == int(value):
            return int(value)
        if value not in EMPTY_VALUES and value != 0:
            self.reader.count(key)
        return -1

    def outline(self, what: str) -> None:
        """Say that this is a shape that is read as its bounding box, in the words of `Reader.outline`."""
        self.outlined = what

    def draw(self, kind: Literal["polygons", "oriented", "mask"], value: Any, what: str) -> None:
        """Give this the shape that `ShapeRows` calls so; if none is wanted, say that its box is read."""
        if not self.wants:
            self.outline(what)
            return
        self.drawn = self.drawn or Drawn()
        self.drawn.kind, self.drawn.value = kind, value

    def paint(
        self, item: Any, key: str, pixels: Callable[[Any], Any], left: float, top: float
    ) -> tuple[int, int]:
        """Give this a mask: what `pixels` makes of the value under a key of an `Item`, from a pixel on.

        Width and height of what is pasted. Where none is wanted, or the size of the image is not known, it is
        said that it is read as its box.
        """
        size = self.reader.builder.image_size(self.owner.image)
        try:
            pasted = pixels(item.get(key))
            if not self.wants or min(size) < 1:
                self.outline("masks")
            else:
                self.draw("mask", in_image(pasted, math.floor(left), math.floor(top), *size), "masks")
        except BadMask as e:
            item.wrong(key, str(e))
            return 0, 0
        return pasted.shape[1], pasted.shape[0]

    def key_points(self, points: Points) -> None:
        """Give this keypoints: x, y and visibility of each; only where shapes are wanted."""
        self.drawn = self.drawn or Drawn()
        self.drawn.points = points

    def only_points(self, points: Points) -> Corners:
        """The box around the labelled keypoints of this, which has nothing else."""
        self.reader.around_points += 1
        if self.wants:
            self.key_points(points)
        else:
            self.reader.count("keypoints")
        return bounds([point for point in points if point[2]])

    def around(self, points: Points, what: str) -> Corners:
        """The box around points: an outline, or corners where `what` is rotated boxes.

        Where no shapes are wanted, they are `what` is read as it, unless they are its corners.
        """
        four = what == "rotated boxes" and len(points) == 4
        if not is_upright(points) and four:
            self.draw("oriented", points, what)
        elif not is_upright(points) or (self.wants and not four):
            self.draw("polygons", [points], what)
        return bounds(points)

    def oriented(self, corners: Floats) -> Corners:
        """The box around the four corners of an oriented box."""
        points = corners.tolist()
        self.reader.need_pixels(self.owner.image)
        self.draw("oriented", points, "rotated boxes")
        return bounds(points)

    def ellipse(self, x: float, y: float, rx: float, ry: float, turn: float = 0.0, what: str = "") -> Corners:
        """The box around an ellipse, whose first axis is turned by so many radians."""
        if turn:
            self.reader.need_pixels(self.owner.image)
        if self.wants:
            self.drawn = self.reader.ellipse(x, y, rx, ry, turn)
        else:
            self.outline(what or "ellipses")
        return around_ellipse(x, y, rx, ry, turn)


def have_area(points: Points) -> bool:
    """Whether the box around the labelled ones of keypoints, x, y and visibility of each, has an area."""
    left, top, right, bottom = bounds([point for point in points if point[2]] or [(0, 0)])
    return right > left and bottom > top


def in_pixels(numbers: Sequence[float], size: tuple[int, int]) -> list[float]:
    """Numbers that are relative to the width and height in turn, in pixels."""
    return [n * size[i % 2] for i, n in enumerate(numbers)]


def relative_points(points: Sequence[Sequence[float]], size: tuple[int, int]) -> list[list[float | int]]:
    """Points [x, y] relative to the width and height of the image."""
    return [[number(x / size[0]), number(y / size[1])] for x, y in points]
