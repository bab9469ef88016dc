"""The set-ups of protocols as data: ranges of areas, and bounds on other columns."""

from __future__ import annotations

import math

import msgspec
import numpy as np


class Bound(msgspec.Struct, frozen=True):
    """Values of a column of objects from `low` to `high`, both ends inside.

    The column is ``height``, that of the box in pixels, or a field of the source that holds numbers; an
    object without that field is inside. With `widened`, detections are left out unless their own value is at
    least ``low / widened`` and below ``high * widened``.
    """

    column: str
    low: float = -math.inf
    high: float = math.inf
    widened: float | None = None

    def __str__(self) -> str:
        """``height 50..75``, as in the definition of a protocol."""
        if math.isfinite(self.low) and self.low != float(f"{self.low:g}"):  # the float next to a number
            return f"{self.column} > {self.low:g}"
        end_texts = (f"{end:g}" if math.isfinite(end) else "" for end in (self.low, self.high))
        return f"{self.column} {'..'.join(end_texts)}"


class AreaRange(msgspec.Struct, frozen=True):
    """A set-up: box areas from `low` to `high` square pixels, both ends inside, and bounds on other columns.

    Objects outside count as nothing; all set-ups of a protocol are matched at once. With `first`, only so
    many detections of an image take part, of all classes and in the order of the file.
    """

    name: str
    low: float
    high: float
    also: tuple[Bound, ...] = ()
    first: int | None = None

    @property
    def bounds(self) -> str:
        """``0..256``, in all the digits that it takes."""
        return "..".join(f"{v:g}" if float(f"{v:g}") == v else repr(v) for v in (self.low, self.high))

    @property
    def in_pixels(self) -> bool:
        """Whether the area or the height of a box in pixels decides what is inside."""
        has_range = self.low > 0 or self.high < LARGEST_AREA
        return has_range or any(bound.column == "height" for bound in self.also)


EVERY_AREA = AreaRange("all", 0, math.inf)
LARGEST_AREA = 1e10
"""Square pixels beyond which pycocotools and lvis-api ignore a box."""
AREAS = {
    a.name: a
    for a in (
        AreaRange("all", 0, LARGEST_AREA),
        AreaRange("small", 0, 32**2),
        AreaRange("medium", 32**2, 96**2),
        AreaRange("large", 96**2, LARGEST_AREA),
    )
}
"""The area ranges of COCO and LVIS; no other protocol has an upper limit."""
AreaBits = np.uint16
"""A bit for each area range of a protocol."""
