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
    offsets,
    pieces,
    spread,
    sums,
    write_long_text,
    write_texts,
)

_EDGES_AT_A_TIME = 2**17
COLUMNS_AT_A_TIME = 2**20
"""Columns of pixels that are filled together, each counted for every side of an outline that passes it."""
MOST_COLUMNS = 2**28
"""Columns that the sides of one object may pass if its pixels are needed: some twenty seconds."""
STEPS_COST = 8
"""How many times as long as a column it takes to find a step of a side."""
MOST_HELD = 2**25
"""Columns that the sides of one object may pass if all runs of its mask are held: 0.3 GB at most."""


class TooLargeToFill(ValueError):
    """Raised if the sides of an object pass more columns than are filled."""

    def __init__(self, columns: int, most: int) -> None:
        super().__init__(f"the sides of its outline pass {columns} columns of pixels, more than {most}")


def rasterise_all(
    xy: Floats,
    point: Longs,
    ring: Longs,
    height: Longs,
    width: Longs,
    *,
    between: tuple[int, int] | None = None,
) -> Runs:
    """Masks of objects, each the union of its outlines, which are filled by the even-odd rule.

    Parameters
    ----------
    xy
        (corners, 2) in pixels, finite.
    point
        (outlines + 1,) the corners of outline j are ``point[j]`` to ``point[j + 1]``.
    ring
        (n + 1,) the outlines of object i are ``ring[i]`` to ``ring[i + 1]``.
    height, width
        (n,) of each object's image.
    between
        Only the pixels from one column up to another.

    Raises
    ------
    TooLargeToFill
        If one object passes more than `MOST_HELD` columns.

    The result is that of ``rleFrPoly`` and ``rleMerge`` of pycocotools: corners on a grid of a fifth of a
    pixel, and a pixel's column is passed where the outline crosses the middle of it.
    """
    sides = _Sides.of(xy, point, ring, width)
    if between is not None:
        sides = sides.between(*between)
    n_columns = sides.columns(len(height))
    if n_columns.max(initial=0) > MOST_HELD:
        raise TooLargeToFill(int(n_columns.max()), MOST_HELD)
    keys = [(objects[0] + np.repeat(np.arange(len(runs)), np.diff(runs.first)) << 32) | runs.edge
            for objects, runs in _filled(sides, n_columns, ring, height)]  # fmt: skip
    return Runs.of_keys(np.concatenate([np.zeros(0, np.int64), *keys]), len(height))


def cut_columns(xy: Floats, point: Longs, ring: Longs, width: Longs, most: int) -> list[int]:
    """Return the columns at which to cut the image into strips, from 0 to one beyond all.

    All sides together pass about `most` columns in each strip.
    """
    sides = _Sides.of(xy, point, ring, width)
    inner = sides.cuts(most)[1:-1] if len(sides.owner) else []
    return [0, *inner, 2**32]


def write_outlines(
    xy: Floats, point: Longs, ring: Longs, height: Longs, width: Longs
) -> tuple[NDArray[np.uint8], Longs]:
    """The masks of `rasterise_all` as `write_texts` writes them, in bounded memory beside the texts.

    Raises
    ------
    TooLargeToFill
        If one object passes more than `MOST_COLUMNS` columns.
    """
    columns = count_columns(xy, point, ring, width)
    if columns.max(initial=0) > MOST_COLUMNS:
        raise TooLargeToFill(int(columns.max()), MOST_COLUMNS)
    texts, text_sizes = [], []
    for batch in pieces(columns, COLUMNS_AT_A_TIME):
        rings = ring[batch.start : batch.stop + 1]
        corners = point[rings[0] : rings[-1] + 1]
        outlines = (xy[corners[0] : corners[-1]], corners - corners[0], rings - rings[0])
        sizes_of_images = height[batch], width[batch]
        if len(sizes_of_images[0]) > 1 or columns[batch.start] <= COLUMNS_AT_A_TIME:
            text, first = write_texts(
                *rasterise_all(*outlines, *sizes_of_images).counts(sizes_of_images[0] * sizes_of_images[1])
            )
        else:
            sides = _Sides.of(*outlines, sizes_of_images[1])
            runs = (runs for _, runs in _filled(sides, sides.columns(1), outlines[2], sizes_of_images[0]))
            text = write_long_text(runs, int(sizes_of_images[0][0] * sizes_of_images[1][0]))
            first = np.array([0, len(text)])
        texts.append(text)
        text_sizes.append(np.diff(first))
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
    sides = _Sides.of(xy, point, ring, width)
    n_columns = sides.columns(n)
    large = n_columns > COLUMNS_AT_A_TIME
    steps = _Steps.of_sides(sides.take(np.flatnonzero(large[sides.owner])), height)
    n_steps = steps.columns(n)
    by_rows = large & (STEPS_COST * n_steps < n_columns)
    area[np.where(by_rows, n_steps, n_columns) > MOST_COLUMNS] = -1
    # An object whose sides pass far fewer rows than columns is measured row by row.
    forms = (sides, ~by_rows, height, [0, 1, 2, 3]), (steps, by_rows, width, [1, 0, 3, 2])
    for form, uses_form, size, box_columns in forms:
        measured = form.take(np.flatnonzero((uses_form & (area >= 0))[form.owner]))
        for (begin, end), runs in _filled(measured, measured.columns(n), ring, size):
            area[begin:end] += runs.areas()
            box = runs.boxes(size[begin:end])[:, box_columns]
            rows = begin + np.flatnonzero(box[:, 2])
            box = box[box[:, 2] > 0]
            ltrb[rows, :2] = np.minimum(ltrb[rows, :2], box[:, :2])
            ltrb[rows, 2:] = np.maximum(ltrb[rows, 2:], box[:, :2] + box[:, 2:])
    ltrb[:, 2:] -= ltrb[:, :2]
    ltrb[area <= 0] = 0
    return area, ltrb


def count_columns(xy: Floats, point: Longs, ring: Longs, width: Longs) -> Longs:
    """(n,) columns that the sides of each object pass, which is what filling it takes."""
    return _Sides.of(xy, point, ring, width).columns(len(width))


class _Sides(msgspec.Struct, frozen=True, eq=False):
    """The sides of outlines that pass the middle of a column, by outline, on a grid of a fifth of a pixel."""

    owner: Longs
    """The object."""
    outline: Longs
    x: Longs
    """The end from which a side is walked: upwards along its longer direction."""
    y: Longs
    slope: Floats
    steep: Mask
    first: Longs
    """The columns that it passes."""
    last: Longs

    @classmethod
    def of(cls, xy: Floats, point: Longs, ring: Longs, width: Longs) -> _Sides:
        """Return the sides of all outlines, in the order of `xy`; the parameters are `rasterise_all`'s."""
        n_corners = np.diff(point)
        outline = np.repeat(np.arange(len(n_corners)), n_corners)
        owner = np.repeat(np.arange(len(width)), np.diff(ring))[outline]
        grid = np.clip(5 * xy + 0.5, -(2.0**31), 2.0**31 - 1).astype(np.int64)  # truncated, as C does
        x0, y0 = np.ascontiguousarray(grid.T)
        following = np.arange(1, len(xy) + 1)
        following[point[1:][n_corners > 0] - 1] = point[:-1][n_corners > 0]
        x1, y1 = x0[following], y0[following]
        # Column c is passed on the way from u = 5 c + 2 to 5 c + 3.
        first = np.maximum((np.minimum(x0, x1) + 2) // 5, 0)
        last = np.minimum((np.maximum(x0, x1) - 3) // 5, width[owner] - 1)
        passing = np.flatnonzero(last >= first)
        x0, y0, x1, y1 = (v[passing] for v in (x0, y0, x1, y1))
        dx, dy = x1 - x0, y1 - y0
        steep = np.abs(dx) < np.abs(dy)
        flip = np.where(steep, dy, dx) < 0
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(flip, -1, 1) * np.where(steep, dx / np.abs(dy), dy / np.abs(dx))
        x, y = np.where(flip, x1, x0), np.where(flip, y1, y0)
        return cls(owner[passing], outline[passing], x, y, slope, steep, first[passing], last[passing])

    def take(self, rows: Longs | slice) -> Self:
        """Return the sides at these row numbers."""
        columns = {name: getattr(self, name)[rows] for name in _Sides.__struct_fields__}
        return replace(self, **columns)

    def columns(self, n: int) -> Longs:
        """Return (n,) how many columns the sides of each of n objects pass."""
        return sums(self.last - self.first + 1, np.searchsorted(self.owner, np.arange(n + 1)))

    def between(self, left: int, right: int) -> _Sides:
        """The sides as far as they pass columns `left` to ``right - 1``."""
        near = self.take(np.flatnonzero((self.first < right) & (self.last >= left)))
        return replace(near, first=np.maximum(near.first, left), last=np.minimum(near.last, right - 1))

    def cuts(self, most: int) -> list[int]:
        """Return columns that divide the sides into parts of about `most` crossings, or of a single
        column.
        """
        # column       [0, 2, 5]   where sides begin and end
        # n_sides      [3, 5]      sides that pass each column from there on
        # n_crossings  [0, 6, 21]  columns passed before each
        column = np.concatenate([self.first, self.last + 1])
        order = np.argsort(column, kind="stable")
        column = column[order]
        n_sides = np.cumsum(np.where(order < len(self.first), 1, -1))[:-1]
        n_crossings = np.concatenate([[0], np.cumsum(n_sides * np.diff(column))])
        target_crossings = np.arange(most, int(n_crossings[-1]), most)
        stretch = np.searchsorted(n_crossings, target_crossings, side="right") - 1
        inner_cuts = column[stretch] + (target_crossings - n_crossings[stretch]) // n_sides[stretch]
        return [*np.unique(np.concatenate([column[:1], inner_cuts])).tolist(), int(column[-1])]

    def crossings(self, height: Longs) -> Longs:
        """Return where sides pass columns, as ``outline << 32 | pixel``, sorted; `height` by object."""
        keys = [np.zeros(0, np.int64)]
        count = self.last - self.first + 1
        for piece in pieces(count, _EDGES_AT_A_TIME):
            column, side_rows = spread(self.first[piece], count[piece])
            row_count, sides = height[self.owner[piece]][side_rows], side_rows + piece.start
            keys.append(
                (self.outline[piece] << 32)[side_rows]
                + column * row_count
                + self.rows_at(sides, column, row_count)
            )
        key = np.concatenate(keys)
        key.sort(kind="stable")  # merges ascending parts, which is several times as fast
        return key

    def rows_at(self, e: Longs, c: Longs, height: Longs) -> Longs:
        """(n,) the first row below each side where it passes a column, at most `height`.

        `e` are numbers of sides, `c` the columns, `height` the heights of their images, each (n,).
        """
        x, y, slope, u = self.x[e], self.y[e], self.slope[e], 5 * c + 2
        with np.errstate(invalid="ignore"):  # of steep sides, which are put right
            v = (y + slope * (u - x + (slope < 0)) + 0.5).astype(np.int64)
        steep = np.flatnonzero(self.steep[e])
        v[steep] = y[steep] - 1 + _first_beyond(x[steep], slope[steep], u[steep])
        row: Longs = np.minimum(np.maximum(v + 2, 0) // 5, height)
        return row


class _Steps(_Sides, frozen=True, eq=False):
    """Sides as rows, `first` to `last`, each a straight sequence of steps from column to column.

    A row of an outline is inside and outside by turns: it changes at the steps of sides, and at corners
    between the rows of the two sides that meet there. In other words than above, ``y`` is 1 for a side that
    falls to the right, 0 for one that rises, -1 for a corner; ``x`` is the number of the side in `sides`, or
    the column of the corner.
    """

    sides: _Sides
    height: Longs
    """(n,) of the images of objects."""

    @classmethod
    def of_sides(cls, sides: _Sides, height: Longs) -> _Steps:
        """Return the same outlines as rows, by object; `height` (objects,) is that of each object's image."""
        all_sides, height_of_side = np.arange(len(sides.owner)), height[sides.owner]
        left, right = (sides.rows_at(all_sides, c, height_of_side) for c in (sides.first, sides.last))
        # From the row of an end on, its column is a border: those of two sides cancel below the lower one.
        column, row = np.concatenate([sides.first, sides.last + 1]), np.concatenate([left, right])
        outline = np.tile(sides.outline, 2)
        order = np.lexsort((row, column, outline))
        upper, lower = order[0::2], order[1::2]
        owner = np.concatenate([sides.owner, np.tile(sides.owner, 2)[upper]])
        steps = cls(
            owner=owner,
            outline=np.concatenate([sides.outline, outline[upper]]),
            x=np.concatenate([all_sides, column[upper]]),
            y=np.concatenate([right > left, np.full(len(upper), -1)]),
            slope=np.zeros(len(owner)),
            steep=np.zeros(len(owner), bool),
            first=np.concatenate([np.minimum(left, right), row[upper]]),
            last=np.concatenate([np.maximum(left, right), row[lower]]) - 1,
            sides=sides,
            height=height,
        )
        by_owner = np.argsort(owner, kind="stable")
        return steps.take(by_owner[(steps.last >= steps.first)[by_owner]])

    def crossings(self, height: Longs) -> Longs:
        """Return where rows change between outside and inside, as ``outline << 32 | pixel`` along the rows,
        sorted.

        `height` is the size along a row, by object.
        """
        row, step_rows = spread(self.first, self.last - self.first + 1)
        column = self.x[step_rows]
        moving = np.flatnonzero(self.y[step_rows] >= 0)
        side, falls = column[moving], self.y[step_rows[moving]] > 0
        low, high = self.sides.first[side], self.sides.last[side] + 1
        # Halve low..high until it is the first column where the side has passed the row.
        while (open_rows := np.flatnonzero(low < high)).size:
            middle = (low[open_rows] + high[open_rows]) // 2
            image_height = self.height[self.sides.owner[side[open_rows]]]
            below = self.sides.rows_at(side[open_rows], middle, image_height) <= row[moving[open_rows]]
            further = below == falls[open_rows]
            low[open_rows[further]] = middle[further] + 1
            high[open_rows[~further]] = middle[~further]
        column[moving] = low
        key = (self.outline[step_rows] << 32) + row * height[self.owner[step_rows]] + column
        key.sort(kind="stable")  # merges ascending parts, which is several times as fast
        return key


def _filled(
    sides: _Sides, n_columns: Longs, ring: Longs, height: Longs
) -> Iterator[tuple[tuple[int, int], Runs]]:
    """Fill consecutive objects, a bounded number of columns at a time: yields (first, stop) of the objects
    and their runs.

    An object that passes more comes several times, with the columns from left to right. In each column an
    outline has an even number of crossings, so that no run of one piece depends on another.
    """
    side_starts = np.searchsorted(sides.owner, np.arange(len(height) + 1))
    for objects in pieces(n_columns, COLUMNS_AT_A_TIME):
        object_sides = sides.take(slice(int(side_starts[objects.start]), int(side_starts[objects.stop])))
        cuts = [0, 2**32]
        if int(n_columns[objects.start]) > COLUMNS_AT_A_TIME:
            cuts = object_sides.cuts(COLUMNS_AT_A_TIME)
        for left, right in itertools.pairwise(cuts):
            strip = object_sides if len(cuts) == 2 else object_sides.between(left, right)
            n_outlines = np.diff(ring[objects.start : objects.stop + 1])
            key = strip.crossings(height) - (int(ring[objects.start]) << 32)
            yield (objects.start, objects.stop), _united(Runs.of_keys(key, int(n_outlines.sum())), n_outlines)


def _united(outlines: Runs, n_outlines: Longs) -> Runs:
    """Merge the runs of n outlines each into one mask per object."""
    owner = np.repeat(np.arange(len(n_outlines)), n_outlines)
    mask = np.repeat(owner, np.diff(outlines.first))
    key = (mask << 32) | outlines.edge
    several = n_outlines[mask] > 1
    if not several.any():
        return Runs(np.searchsorted(mask, np.arange(len(n_outlines) + 1)), outlines.edge)
    # Union: an outline is entered (+1) and left (-1); the object is where one or more are entered. Sorted by
    # pixel, entering first, so that outlines which touch are one run.
    step = 1 - 2 * (np.arange(len(key)) & 1)  # the edges of every outline are even in number
    shared_key = key[several] * 2 + (step[several] < 0)
    shared_key.sort(kind="stable")
    step = 1 - 2 * (shared_key & 1)
    level = np.cumsum(step)
    shared_key = shared_key[(level == 0) | ((level == 1) & (step > 0))] >> 1
    return Runs.of_keys(np.sort(np.concatenate([key[~several], shared_key]), kind="stable"), len(n_outlines))


def _first_beyond(x: Longs, slope: Floats, u: Longs) -> Longs:
    """The first step t at which ``int(x + slope * t + .5)`` has passed from u to u + 1, or back."""
    exact = (u - x + 0.5) / slope
    t = np.ceil(exact)
    near: Longs = np.flatnonzero(np.abs(exact - np.rint(exact)) < 1e-6)
    if len(near):  # rounding decides: compute these steps as C does
        rising = slope[near] > 0
        for back in (1, 0):
            at = t[near] - back
            passed = ((x[near] + slope[near] * at + 0.5).astype(np.int64) > u[near]) == rising
            t[near] += np.where(passed, -1, 0) if back else np.where(passed, 0, 1)
    steps: Longs = t.astype(np.int64)
    return steps
