"""Outlines filled pixel by pixel, as pycocotools fills them: bit for bit the same masks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Self

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.masks.runs import (
    Floats,
    Longs,
    Mask,
    Runs,
    expand_ranges,
    offsets,
    split_by_size,
    sum_groups,
    write_long_text,
    write_texts,
)

_EDGES_AT_A_TIME = 2**17
COLUMNS_AT_A_TIME = 2**20
"""Columns of pixels that are filled together; a column counts once for each side that passes it."""
MOST_COLUMNS = 2**28
"""Columns that the sides of one object may pass if its pixels are needed: some twenty seconds."""
STEPS_COST = 8
"""How many times as long as a column it takes to find a step of a side."""
MOST_HELD = 2**25
"""Columns that the sides of one object may pass if all runs of its mask are held: 0.3 GB at most."""


class TooLargeToFill(ValueError):
    """The sides of an object pass more columns than are filled."""

    def __init__(self, columns: int, limit: int) -> None:
        super().__init__(f"the sides of its outline pass {columns} columns of pixels, more than {limit}")


def rasterise_all(
    xy: Floats,
    point: Longs,
    ring: Longs,
    height: Longs,
    width: Longs,
    *,
    column_range: tuple[int, int] | None = None,
) -> Runs:
    """Make the masks of n objects, each the union of its outlines, which are filled by the even-odd rule.

    `xy` (corners, 2) are finite corners in pixels; those of outline j are ``point[j]`` to ``point[j + 1]``,
    and the outlines of object i are ``ring[i]`` to ``ring[i + 1]``. `height` and `width` (n,) are of each
    object's image. Masks are clipped to the columns of `column_range`, (start, stop). Raises TooLargeToFill
    if one object passes more than `MOST_HELD` columns.

    The result is that of ``rleFrPoly`` and ``rleMerge`` of pycocotools: corners on a grid of a fifth of a
    pixel, and a pixel's column is passed where the outline crosses the middle of it.
    """
    sides = _Sides.from_outlines(xy, point, ring, width)
    if column_range is not None:
        sides = sides.clip_columns(*column_range)
    n_columns = sides.count_columns(len(height))
    if n_columns.max(initial=0) > MOST_HELD:
        raise TooLargeToFill(int(n_columns.max()), MOST_HELD)
    # ``object << 32 | pixel`` of each edge, as `Runs.of_keys` takes them; `first` is the first object filled.
    keys = [((first + np.repeat(np.arange(len(runs)), np.diff(runs.starts))) << 32) | runs.edge
            for (first, _), runs in _fill(sides, n_columns, ring, height)]  # fmt: skip
    return Runs.of_keys(np.concatenate([np.zeros(0, np.int64), *keys]), len(height))


def cut_columns(xy: Floats, point: Longs, ring: Longs, width: Longs, limit: int) -> list[int]:
    """Return the columns at which to cut the image into strips, from 0 to 2^32, which is beyond all.

    All sides together pass about `limit` columns in each strip.
    """
    sides = _Sides.from_outlines(xy, point, ring, width)
    inner = sides.find_cuts(limit)[1:-1] if len(sides.owner) else []  # without where sides begin and end
    return [0, *inner, 2**32]


def write_outlines(
    xy: Floats, point: Longs, ring: Longs, height: Longs, width: Longs
) -> tuple[NDArray[np.uint8], Longs]:
    """Write the masks of `rasterise_all` as `write_texts` does, in bounded memory beside the texts.

    Raises TooLargeToFill if one object passes more than `MOST_COLUMNS` columns.
    """
    n_columns = count_columns(xy, point, ring, width)
    if n_columns.max(initial=0) > MOST_COLUMNS:
        raise TooLargeToFill(int(n_columns.max()), MOST_COLUMNS)
    texts, text_sizes = [], []
    for batch in split_by_size(n_columns, COLUMNS_AT_A_TIME):
        rings = ring[batch.start : batch.stop + 1]
        corners = point[rings[0] : rings[-1] + 1]
        outlines = (xy[corners[0] : corners[-1]], corners - corners[0], rings - rings[0])
        heights, widths = height[batch], width[batch]
        is_one_large_object = len(heights) == 1 and n_columns[batch.start] > COLUMNS_AT_A_TIME
        if not is_one_large_object:
            masks = rasterise_all(*outlines, heights, widths)
            text, text_starts = write_texts(*masks.counts(heights * widths))
        else:  # its runs come strip by strip and are written as they come
            sides = _Sides.from_outlines(*outlines, widths)
            runs = (runs for _, runs in _fill(sides, sides.count_columns(1), rings - rings[0], heights))
            text = write_long_text(runs, int(heights[0] * widths[0]))
            text_starts = np.array([0, len(text)])
        texts.append(text)
        text_sizes.append(np.diff(text_starts))
    text = np.concatenate([np.zeros(0, np.uint8), *texts])
    return text, offsets(np.concatenate([np.zeros(0, np.int64), *text_sizes]))


def measure_all(xy: Floats, point: Longs, ring: Longs, height: Longs, width: Longs) -> tuple[Longs, Longs]:
    """Measure objects without making their masks: (n,) areas in pixels, and (n, 4) left, top, width and
    height.

    Areas are those of the masks that `rasterise_all` makes, but larger objects can be measured. An object
    whose sides pass more than `MOST_COLUMNS` columns and rows has the area -1.
    """
    n = len(height)
    area, ltrb = np.zeros(n, np.int64), np.tile([[2**32, 2**32, 0, 0]], (n, 1))
    sides = _Sides.from_outlines(xy, point, ring, width)
    n_columns = sides.count_columns(n)

    # Large objects are measured by rows if that is faster.
    is_large = n_columns > COLUMNS_AT_A_TIME
    steps = _Steps.from_sides(sides.take(np.flatnonzero(is_large[sides.owner])), height)
    n_steps = steps.count_columns(n)
    is_by_rows = is_large & (STEPS_COST * n_steps < n_columns)
    area[np.where(is_by_rows, n_steps, n_columns) > MOST_COLUMNS] = -1

    # An object whose sides pass far fewer rows than columns is measured row by row, and its box comes as top,
    # left, height and width. Of each form: the sides, the objects (n,), the size along a line of pixels, and
    # the order that makes boxes left, top, width, height.
    forms = (sides, ~is_by_rows, height, [0, 1, 2, 3]), (steps, is_by_rows, width, [1, 0, 3, 2])
    for form, uses_form, size, box_columns in forms:
        measured = form.take(np.flatnonzero((uses_form & (area >= 0))[form.owner]))
        for (start, stop), runs in _fill(measured, measured.count_columns(n), ring, size):
            area[start:stop] += runs.areas()
            box = runs.boxes(size[start:stop])[:, box_columns]
            has_pixels = box[:, 2] > 0
            rows, box = start + np.flatnonzero(has_pixels), box[has_pixels]
            ltrb[rows, :2] = np.minimum(ltrb[rows, :2], box[:, :2])
            ltrb[rows, 2:] = np.maximum(ltrb[rows, 2:], box[:, :2] + box[:, 2:])
    ltrb[:, 2:] -= ltrb[:, :2]
    ltrb[area <= 0] = 0
    return area, ltrb


def count_columns(xy: Floats, point: Longs, ring: Longs, width: Longs) -> Longs:
    """(n,) columns that the sides of each object pass, which is what filling it takes."""
    return _Sides.from_outlines(xy, point, ring, width).count_columns(len(width))


class _Sides(msgspec.Struct, frozen=True, eq=False):
    """The sides of outlines that pass the middle of a column, by outline, on a grid of a fifth of a pixel."""

    owner: Longs
    """The number of the object."""
    outline: Longs
    x: Longs
    """The end from which a side is walked: upwards along its longer direction."""
    y: Longs
    slope: Floats
    """The step along the shorter direction for each step along the longer one."""
    is_steep: Mask
    """Whether y is the longer direction."""
    first: Longs
    """The first and the last column that it passes."""
    last: Longs

    @classmethod
    def from_outlines(cls, xy: Floats, point: Longs, ring: Longs, width: Longs) -> _Sides:
        """Return the sides of all outlines, in the order of `xy`; parameters as for `rasterise_all`."""
        n_corners = np.diff(point)
        outline = np.repeat(np.arange(len(n_corners)), n_corners)
        owner = np.repeat(np.arange(len(width)), np.diff(ring))[outline]
        grid = np.clip(5 * xy + 0.5, -(2.0**31), 2.0**31 - 1).astype(np.int64)  # truncated, as C does
        x0, y0 = np.ascontiguousarray(grid.T)
        # The corner after each; the last one of an outline is followed by its first.
        following = np.arange(1, len(xy) + 1)
        following[point[1:][n_corners > 0] - 1] = point[:-1][n_corners > 0]
        x1, y1 = x0[following], y0[following]

        # Column c is passed on the way from u = 5 c + 2 to 5 c + 3.
        first = np.maximum((np.minimum(x0, x1) + 2) // 5, 0)
        last = np.minimum((np.maximum(x0, x1) - 3) // 5, width[owner] - 1)
        passing = np.flatnonzero(last >= first)
        x0, y0, x1, y1 = (v[passing] for v in (x0, y0, x1, y1))

        # Sides that go down along their longer direction are walked from their other end.
        dx, dy = x1 - x0, y1 - y0
        is_steep = np.abs(dx) < np.abs(dy)
        is_flipped = np.where(is_steep, dy, dx) < 0
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(is_flipped, -1, 1) * np.where(is_steep, dx / np.abs(dy), dy / np.abs(dx))
        x, y = np.where(is_flipped, x1, x0), np.where(is_flipped, y1, y0)
        return cls(owner[passing], outline[passing], x, y, slope, is_steep, first[passing], last[passing])

    def take(self, rows: Longs | slice) -> Self:
        """Return the sides at these row numbers."""
        columns = {name: getattr(self, name)[rows] for name in _Sides.__struct_fields__}
        return replace(self, **columns)

    def count_columns(self, n: int) -> Longs:
        """Return (n,) how many columns the sides of each of n objects pass."""
        return sum_groups(self.last - self.first + 1, np.searchsorted(self.owner, np.arange(n + 1)))

    def clip_columns(self, start: int, stop: int) -> _Sides:
        """Clip the sides to the columns `start` to ``stop - 1``; those that pass none are left out."""
        sides = self.take(np.flatnonzero((self.first < stop) & (self.last >= start)))
        return replace(sides, first=np.maximum(sides.first, start), last=np.minimum(sides.last, stop - 1))

    def find_cuts(self, limit: int) -> list[int]:
        """Return the columns that cut the sides into strips of about `limit` crossings, or of one column."""
        # column       [0, 2, 5]   where sides begin and end
        # n_sides      [3, 5]      sides that pass each column from there on
        # n_crossings  [0, 6, 21]  columns passed before each
        column = np.concatenate([self.first, self.last + 1])
        order = np.argsort(column, kind="stable")
        column = column[order]
        n_sides = np.cumsum(np.where(order < len(self.first), 1, -1))[:-1]
        n_crossings = np.concatenate([[0], np.cumsum(n_sides * np.diff(column))])
        target_crossings = np.arange(limit, int(n_crossings[-1]), limit)
        stretch = np.searchsorted(n_crossings, target_crossings, side="right") - 1
        inner_cuts = column[stretch] + (target_crossings - n_crossings[stretch]) // n_sides[stretch]
        return [*np.unique(np.concatenate([column[:1], inner_cuts])).tolist(), int(column[-1])]

    def find_crossings(self, height: Longs) -> Longs:
        """Return where sides pass columns, as ``outline << 32 | pixel``, sorted; `height` by object."""
        keys = [np.zeros(0, np.int64)]
        count = self.last - self.first + 1
        for piece in split_by_size(count, _EDGES_AT_A_TIME):
            column, side_rows = expand_ranges(self.first[piece], count[piece])
            row_count, sides = height[self.owner[piece]][side_rows], side_rows + piece.start
            keys.append(
                (self.outline[piece] << 32)[side_rows]
                + column * row_count
                + self.find_rows(sides, column, row_count)
            )
        key = np.concatenate(keys)
        key.sort(kind="stable")  # merges ascending parts, which is several times as fast
        return key

    def find_rows(self, side_rows: Longs, column: Longs, height: Longs) -> Longs:
        """(n,) the first row below side `side_rows[i]` where it passes `column[i]`, at most ``height[i]``."""
        x, y, slope, u = self.x[side_rows], self.y[side_rows], self.slope[side_rows], 5 * column + 2
        # y at the upper end of the step from u to u + 1, which is u + 1 where the slope is negative.
        with np.errstate(invalid="ignore"):  # of steep sides, which are put right
            v = (y + slope * (u - x + (slope < 0)) + 0.5).astype(np.int64)
        # Steps of steep sides go along y: the last one before the side has passed from u to u + 1.
        steep = np.flatnonzero(self.is_steep[side_rows])
        v[steep] = y[steep] - 1 + _find_step_beyond(x[steep], slope[steep], u[steep])
        # The middle of row r is 5 r + 2: the first row with a middle of v or more.
        row: Longs = np.minimum(np.maximum(v + 2, 0) // 5, height)
        return row


class _Steps(_Sides, frozen=True, eq=False):
    """Sides as rows of pixels, `first` to `last`, each a straight sequence of steps from column to column.

    A row of an outline is inside and outside by turns: it changes at the steps of sides, and at corners
    between the rows of the two sides that meet there. Two columns have other values than in `_Sides`: ``y``
    is 1 for a side that falls to the right, 0 for one that rises, -1 for a corner; ``x`` is the number of the
    side in `sides`, or the column of the corner.
    """

    sides: _Sides
    height: Longs
    """(n,) of the images of objects."""

    @classmethod
    def from_sides(cls, sides: _Sides, height: Longs) -> _Steps:
        """Return the same outlines as rows, by object; `height` (objects,) is that of each object's image."""
        all_sides, height_of_side = np.arange(len(sides.owner)), height[sides.owner]
        left_row, right_row = (
            sides.find_rows(all_sides, c, height_of_side) for c in (sides.first, sides.last)
        )
        # From the row of an end on, its column is a border: those of two sides cancel below the lower one.
        column, row = np.concatenate([sides.first, sides.last + 1]), np.concatenate([left_row, right_row])
        outline = np.tile(sides.outline, 2)
        order = np.lexsort((row, column, outline))
        upper, lower = order[0::2], order[1::2]  # in each column the ends of an outline come in pairs
        owner = np.concatenate([sides.owner, np.tile(sides.owner, 2)[upper]])
        steps = cls(
            owner=owner,
            outline=np.concatenate([sides.outline, outline[upper]]),
            x=np.concatenate([all_sides, column[upper]]),
            y=np.concatenate([right_row > left_row, np.full(len(upper), -1)]),
            slope=np.zeros(len(owner)),
            is_steep=np.zeros(len(owner), bool),
            first=np.concatenate([np.minimum(left_row, right_row), row[upper]]),
            last=np.concatenate([np.maximum(left_row, right_row), row[lower]]) - 1,
            sides=sides,
            height=height,
        )
        by_owner = np.argsort(owner, kind="stable")
        return steps.take(by_owner[(steps.last >= steps.first)[by_owner]])

    def find_crossings(self, height: Longs) -> Longs:
        """Return where rows change between outside and inside, as ``outline << 32 | pixel`` along the rows,
        sorted.

        `height` is the size along a row, by object.
        """
        row, step_rows = expand_ranges(self.first, self.last - self.first + 1)
        column = self.x[step_rows]
        moving = np.flatnonzero(self.y[step_rows] >= 0)  # all but corners, whose column is `x`
        side, falls = column[moving], self.y[step_rows[moving]] > 0
        low, high = self.sides.first[side], self.sides.last[side] + 1
        # Halve low..high until it is the first column where the side has passed the row.
        while (open_rows := np.flatnonzero(low < high)).size:
            middle = (low[open_rows] + high[open_rows]) // 2
            image_height = self.height[self.sides.owner[side[open_rows]]]
            below = self.sides.find_rows(side[open_rows], middle, image_height) <= row[moving[open_rows]]
            further = below == falls[open_rows]  # not passed yet: the row is below a side that falls
            low[open_rows[further]] = middle[further] + 1
            high[open_rows[~further]] = middle[~further]
        column[moving] = low
        key = (self.outline[step_rows] << 32) + row * height[self.owner[step_rows]] + column
        key.sort(kind="stable")  # merges ascending parts, which is several times as fast
        return key


def _fill(
    sides: _Sides, n_columns: Longs, ring: Longs, height: Longs
) -> Iterator[tuple[tuple[int, int], Runs]]:
    """Fill consecutive objects, a bounded number of columns at a time: yields (first, stop) of the objects
    and their runs.

    An object that passes more comes several times, with the columns from left to right. In each column an
    outline has an even number of crossings, so that no run of one piece depends on another.
    """
    side_starts = np.searchsorted(sides.owner, np.arange(len(height) + 1))
    for objects in split_by_size(n_columns, COLUMNS_AT_A_TIME):
        object_sides = sides.take(slice(int(side_starts[objects.start]), int(side_starts[objects.stop])))
        cuts = [0, 2**32]  # one strip with all columns
        if int(n_columns[objects.start]) > COLUMNS_AT_A_TIME:
            cuts = object_sides.find_cuts(COLUMNS_AT_A_TIME)
        for start, stop in itertools.pairwise(cuts):
            strip = object_sides if len(cuts) == 2 else object_sides.clip_columns(start, stop)
            n_outlines = np.diff(ring[objects.start : objects.stop + 1])
            # Outlines are counted from the first one of these objects.
            key = strip.find_crossings(height) - (int(ring[objects.start]) << 32)
            yield (objects.start, objects.stop), _unite(Runs.of_keys(key, int(n_outlines.sum())), n_outlines)


def _unite(outlines: Runs, n_outlines: Longs) -> Runs:
    """Merge the masks of outlines into one mask per object, of which object i has ``n_outlines[i]``."""
    owner = np.repeat(np.arange(len(n_outlines)), n_outlines)
    mask = np.repeat(owner, np.diff(outlines.starts))
    key = (mask << 32) | outlines.edge
    is_shared = n_outlines[mask] > 1
    if not is_shared.any():
        return Runs(np.searchsorted(mask, np.arange(len(n_outlines) + 1)), outlines.edge)
    # Union: an outline is entered (+1) and left (-1); the object is where one or more are entered. The lowest
    # bit of a shared key is 1 for leaving, which sorts entering first: outlines that touch are one run.
    step = 1 - 2 * (np.arange(len(key)) & 1)  # the edges of every outline are even in number
    shared_key = key[is_shared] * 2 + (step[is_shared] < 0)
    shared_key.sort(kind="stable")
    step = 1 - 2 * (shared_key & 1)
    level = np.cumsum(step)
    shared_key = shared_key[(level == 0) | ((level == 1) & (step > 0))] >> 1
    return Runs.of_keys(
        np.sort(np.concatenate([key[~is_shared], shared_key]), kind="stable"), len(n_outlines)
    )


def _find_step_beyond(x: Longs, slope: Floats, u: Longs) -> Longs:
    """(n,) the first step t at which ``int(x + slope * t + .5)`` has passed from u to u + 1, or back."""
    exact = (u - x + 0.5) / slope
    t = np.ceil(exact)
    close: Longs = np.flatnonzero(np.abs(exact - np.rint(exact)) < 1e-6)
    if len(close):  # rounding decides: compute these steps as C does
        is_rising = slope[close] > 0
        for n_back in (1, 0):
            step = t[close] - n_back
            has_passed = ((x[close] + slope[close] * step + 0.5).astype(np.int64) > u[close]) == is_rising
            # One step back has passed already: take it. Not even this step has passed: take the next one.
            t[close] += np.where(has_passed, -1, 0) if n_back else np.where(has_passed, 0, 1)
    return t.astype(np.int64)
