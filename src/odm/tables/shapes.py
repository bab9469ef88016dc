"""The shapes of boxes: outlines (polygons), masks and oriented boxes, and keypoints."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec
import numpy as np
from msgspec.structs import force_setattr, replace
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from odm.masks.runs import Measured, Runs

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]


class ShapeKind(enum.IntEnum):
    """The kind of shape of a box; a value of ``shapes.kind``."""

    NONE = 0
    POLYGONS = 1
    """One or more closed outlines, each filled by the even-odd rule; the object is their union."""
    MASK = 2
    """Pixels of the image, as run lengths."""
    ORIENTED = 3
    """Four corners in the order of the source; from the first to the second is the width."""


class _Ragged(msgspec.Struct, frozen=True, eq=False):
    """Columns in which a row has any number of items.

    ``_LEVELS`` has pairs of columns: one of offsets, and the column whose items it divides into rows, which
    is another column of offsets or the values. ``_PLAIN`` has the columns with one value for each row.
    """

    _LEVELS: ClassVar[tuple[tuple[str, str], ...]] = ()
    _PLAIN: ClassVar[tuple[str, ...]] = ()

    def __len__(self) -> int:
        return len(getattr(self, self._LEVELS[0][0])) - 1

    def take(self, rows: NDArray[Any]) -> Self:
        """Return the columns with the rows at `rows`, a mask or row numbers."""
        row_numbers = np.arange(len(self))[rows]
        if len(row_numbers):
            first, last = int(row_numbers[0]), int(row_numbers[-1])
            if last - first == len(row_numbers) - 1 and (np.diff(row_numbers) == 1).all():  # consecutive
                return self._slice_rows(first, last + 1)
        columns: dict[str, Any] = {name: getattr(self, name)[row_numbers] for name in self._PLAIN}
        # Of each column, the rows to take. Those of a lower level follow from the offsets of the one above.
        item_rows = {self._LEVELS[0][0]: row_numbers}
        for name, below in self._LEVELS:
            starts, column = getattr(self, name), getattr(self, below)
            if below == "text":  # numbers of all bytes would take eight times as much memory
                columns[name], columns[below] = _take_texts(starts, column, row_numbers)
                continue
            level_rows = item_rows.get(name, row_numbers)
            size = starts[1:2].sum()  # items of the first row; 0 without any rows
            if column.ndim == 2 and (np.diff(starts) == size).all():
                # Rows of one length are copied whole, which is several times as fast.
                columns[name], width = np.arange(len(level_rows) + 1) * size, column.shape[1]
                blocks = column.reshape(len(starts) - 1, size * width)
                columns[below] = blocks.take(level_rows, axis=0).reshape(-1, width)
                continue
            columns[name], item_rows[below] = _take_items(starts, level_rows)
        # What is missing are columns of values, of which the rows are known by now.
        for name in self.__struct_fields__:
            columns.setdefault(name, getattr(self, name)[item_rows[name]] if name in item_rows else None)
        return type(self)(**{name: _freeze(column) for name, column in columns.items()})

    def _slice_rows(self, start: int, stop: int) -> Self:
        """Return the columns with the rows `start` to ``stop - 1``, without copying values."""
        columns: dict[str, Any] = {name: getattr(self, name)[start:stop] for name in self._PLAIN}
        # Of each column, the first item that is kept and the end. ``mask`` is not there: as the first level
        # does, it has an entry for each row.
        ranges = {self._LEVELS[0][0]: (start, stop)}
        for name, below in self._LEVELS:
            item_start, item_stop = ranges.get(name, (start, stop))
            offsets = getattr(self, name)[item_start : item_stop + 1]
            ranges[below] = int(offsets[0]), int(offsets[-1])
            columns[name] = offsets - offsets[0]
        for name in self.__struct_fields__:
            columns.setdefault(name, getattr(self, name)[slice(*ranges[name])] if name in ranges else None)
        return type(self)(**{name: _freeze(column) for name, column in columns.items()})

    @classmethod
    def concatenate(cls, tables: Sequence[Self]) -> Self:
        """Concatenate several tables."""
        offsets = dict(cls._LEVELS)  # by name of the columns that are offsets
        columns = {
            name: _join_offsets([getattr(table, name) for table in tables])
            if name in offsets
            else np.concatenate([getattr(table, name) for table in tables])
            for name in cls.__struct_fields__
        }
        return cls(**{name: _freeze(column) for name, column in columns.items()})


class Shapes(_Ragged, frozen=True, dict=True):
    """The shapes of boxes, one row for each box."""

    kind: NDArray[np.uint8]
    """(n,) `ShapeKind`."""
    ring: Longs
    """(n + 1,) the outlines of box i are ``ring[i]`` to ``ring[i + 1]``; an oriented box has one."""
    point: Longs
    """(outlines + 1,) the corners of outline j are ``point[j]`` to ``point[j + 1]``."""
    xy: Floats
    """(corners, 2) pixels as the source gives them; outlines are not closed by a repeated corner."""
    mask: Longs
    """(n + 1,) the mask of box i is ``text[mask[i]:mask[i + 1]]``."""
    text: NDArray[np.uint8]
    """Run lengths down the columns of the whole image, as COCO's compressed text."""

    _LEVELS = (("ring", "point"), ("point", "xy"), ("mask", "text"))
    _PLAIN = ("kind",)

    def __repr__(self) -> str:
        n = np.bincount(self.kind, minlength=len(ShapeKind))
        return f"<Shapes: {', '.join(f'{n[kind]} {kind.name.lower()}' for kind in ShapeKind if n[kind])}>"

    @classmethod
    def none(cls, n: int) -> Shapes:
        """Make the shapes of n boxes without any."""
        zero = np.zeros(n + 1, np.int64)
        return cls(np.zeros(n, np.uint8), zero, zero[:1], np.zeros((0, 2)), zero, np.zeros(0, np.uint8))

    @classmethod
    def of_outlines(cls, xy: Floats, n_corners: Longs, kind: ShapeKind = ShapeKind.POLYGONS) -> Shapes:
        """Make the shapes of n boxes with one outline each.

        `xy`, (corners, 2), has the corners of all boxes, `n_corners`, (n,), their number for each box.
        """
        n = len(n_corners)
        corner_starts = np.concatenate([[0], np.cumsum(n_corners)]).astype(np.int64)
        zero = np.zeros(n + 1, np.int64)
        return cls(
            np.full(n, kind, np.uint8), np.arange(n + 1), corner_starts, xy, zero, np.zeros(0, np.uint8)
        )

    @classmethod
    def of_boxes(cls, xyxy: Floats, kind: ShapeKind = ShapeKind.POLYGONS) -> Shapes:
        """Make the shapes of boxes (n, 4) whose outlines are their rectangles."""
        corners = xyxy[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 2)  # left top, right top, right bottom, ...
        return cls.of_outlines(corners, np.full(len(xyxy), 4), kind)

    @classmethod
    def of_masks(cls, text: NDArray[np.uint8], text_starts: Longs) -> Shapes:
        """Make the shapes of boxes with a mask each, ``text[text_starts[i]:text_starts[i + 1]]`` of box i."""
        n, zero = len(text_starts) - 1, np.zeros(len(text_starts), np.int64)
        return cls(np.full(n, ShapeKind.MASK, np.uint8), zero, zero[:1], np.zeros((0, 2)), text_starts, text)

    def polygons(self, row: int) -> list[Floats]:
        """Return the outlines of a box, each (corners, 2); an oriented box has one of four, a mask none."""
        outlines = range(int(self.ring[row]), int(self.ring[row + 1]))
        return [self.xy[self.point[j] : self.point[j + 1]] for j in outlines]

    def has_four_corners(self) -> NDArray[np.bool_]:
        """(n,) mask of the boxes with one outline of four corners, which `corners` can return."""
        is_four_cornered: NDArray[np.bool_] = (np.diff(self.ring) == 1) & (
            np.diff(self.point[self.ring]) == 4
        )
        return is_four_cornered

    def corners(self, rows: NDArray[Any]) -> Floats:
        """(n, 4, 2) corners of the boxes at `rows`, a mask or row numbers; each must have four."""
        starts = self.point[self.ring[:-1][rows]]
        if len(starts) and (np.diff(starts) == 4).all():  # one after the other: no value is copied
            return self.xy[starts[0] : starts[-1] + 4].reshape(-1, 4, 2)
        corners: Floats = np.take(self.xy, starts[:, None] + np.arange(4), axis=0)
        return corners

    def counts(self, row: int) -> bytes:
        """The run lengths of a mask as COCO's compressed text; empty for another shape."""
        return self.text[self.mask[row] : self.mask[row + 1]].tobytes()

    def edges(self) -> Floats:
        """(n, 4) left, top, right and bottom of the corners of each box; NaN for a box without corners."""
        edges = np.full((len(self), 4), np.nan)
        corner_starts = self.point[self.ring]
        rows = np.flatnonzero(corner_starts[1:] > corner_starts[:-1])
        edges[rows] = _find_edges(self.xy, corner_starts[rows])
        return edges

    def scaled(self, factor: Floats) -> Shapes:
        """Multiply all corners by the factors of their box, (n, 2)."""
        n_corners = np.diff(self.point[self.ring])
        return replace(self, xy=_freeze(self.xy * np.repeat(factor, n_corners, axis=0)))

    def without_short_parts(self) -> Shapes:
        """Drop outlines of fewer than three corners; a box whose outlines are all dropped has no shape."""
        n_corners = np.diff(self.point)
        is_kept = n_corners >= 3
        if is_kept.all():
            return self
        box_of_outline = np.repeat(np.arange(len(self)), np.diff(self.ring))
        n_outlines = np.bincount(box_of_outline[is_kept], minlength=len(self))
        is_emptied = (n_outlines == 0) & (np.diff(self.ring) > 0)
        return replace(
            self,
            kind=_freeze(np.where(is_emptied, ShapeKind.NONE, self.kind).astype(np.uint8)),
            ring=_freeze(np.append(0, np.cumsum(n_outlines))),
            point=_freeze(np.append(0, np.cumsum(n_corners[is_kept]))),
            xy=_freeze(self.xy[np.repeat(is_kept, n_corners)]),
        )

    def replace_rows(self, rows: NDArray[Any], replacements: Shapes) -> Shapes:
        """Replace the shapes at these row numbers by those of `replacements`, in order."""
        if len(rows) == len(self) and (np.diff(rows) > 0).all():  # all rows, in order
            return replacements
        # Rows of both tables together: 0 to n - 1 are rows of this one, the replacements follow.
        source = np.arange(len(self))
        source[rows] = len(self) + np.arange(len(rows))
        return Shapes.concatenate([self, replacements]).take(source)

    def runs(self, height: Longs, width: Longs, *, column_range: tuple[int, int] | None = None) -> Runs:
        """Return all shapes as masks, empty for boxes without a shape.

        `height` and `width` of each image, (n,). With `column_range`, (start, stop), only the pixels of
        these columns. Raises ValueError if an outline passes more columns than `MOST_HELD`.
        """
        from odm.masks.polygons import rasterise_all
        from odm.masks.runs import Runs

        is_mask = self.kind == ShapeKind.MASK
        masks = Runs.of_texts(self.text, self.mask)
        if column_range is not None:
            masks = masks.clip_pixels(*(np.minimum(column, width) * height for column in column_range))
        if is_mask.all():
            return masks
        outlines = rasterise_all(self.xy, self.point, self.ring, height, width, column_range=column_range)
        if not is_mask.any():
            return outlines
        # A box has a mask or corners, and is empty in the other set; the outlines come after the masks.
        edge = np.concatenate([masks.edge, outlines.edge])
        masks_and_outlines = Runs(
            np.concatenate([masks.starts, outlines.starts[1:] + masks.starts[-1]]), edge
        )
        return masks_and_outlines.take(np.arange(len(self)) + np.where(is_mask, 0, len(self)))

    def extents(self, height: Longs, width: Longs) -> tuple[Longs, Longs]:
        """(n,) pixels of all shapes as masks, and (n, 4) left, top, width and height, zeros for none.

        They are measured in bounded memory, without making the masks; those too large for it have -1 pixels.
        """
        from odm.masks.polygons import measure_all

        area, box = measure_all(self.xy, self.point, self.ring, height, width)
        masks = self.measure_masks(height)
        # Each shape has outlines or a mask, never both: the other measure is 0.
        return area + masks.area, box + masks.box

    def known_extents(self, rows: NDArray[Any], height: Longs) -> tuple[Longs, Longs] | None:
        """Return the `extents` of the boxes at `rows`; None unless all are masks, already measured."""
        measured: Measured | None = getattr(self, "_measured", None)
        if (
            measured is None
            or (self.kind[rows] != ShapeKind.MASK).any()
            or (measured.height[rows] != height).any()
        ):
            return None
        return measured.area[rows], measured.box[rows]

    def bound_n_runs(self, width: Longs) -> Longs:
        """(n,) an upper bound of the number of runs of each shape as a mask; `width` of each image, (n,)."""
        from odm.masks.polygons import count_columns

        return count_columns(self.xy, self.point, self.ring, width) + np.diff(self.mask)

    def find_column_cuts(self, width: Longs, limit: int) -> list[int]:
        """Return the columns that cut the image into strips in which all sides pass about `limit` columns."""
        from odm.masks.polygons import cut_columns

        return cut_columns(self.xy, self.point, self.ring, width, limit)

    def fill_outlines(self, height: Longs, width: Longs) -> Shapes:
        """Fill outlines and return them as masks. Raises ValueError if one is among `find_unfillable`."""
        from odm.masks.polygons import write_outlines

        return Shapes.of_masks(*write_outlines(self.xy, self.point, self.ring, height, width))

    def find_unfillable(self, width: Longs, *, is_held: bool = False) -> tuple[Longs, list[int], int]:
        """Find boxes whose outlines are too large to fill; `width` of each image, (n,).

        Returns their rows, how many columns their sides pass, and the limit: `MOST_COLUMNS`, with `is_held`
        the `MOST_HELD` of `runs`, which holds whole masks in memory.
        """
        from odm.masks.polygons import MOST_COLUMNS, MOST_HELD

        limit = MOST_HELD if is_held else MOST_COLUMNS
        # A side passes no more columns than the image has; only boxes with many sides are counted exactly.
        rows = np.flatnonzero(np.diff(self.point[self.ring]) * (width + 1) > limit)
        with np.errstate(invalid="ignore"):  # of corners that are not finite, an error of their own
            columns = self.take(rows).bound_n_runs(width[rows])
        is_large = columns > limit
        return rows[is_large], columns[is_large].tolist(), limit

    def measure_masks(self, height: Longs) -> Measured:
        """Measure the masks for images of these heights, (n,).

        The result is cached: reading, checks and evaluation call this one after the other.
        """
        from odm.masks.runs import measure

        # Widths change nothing: runs go down the columns.
        measured: Measured | None = getattr(self, "_measured", None)
        if measured is None or (measured.height != height)[self.kind == ShapeKind.MASK].any():
            measured = measure(self.text, self.mask, height)
            force_setattr(self, "_measured", measured)
        return measured

    def row_keys(self) -> list[bytes]:
        """(n,) a key for the shape of each box; equal shapes have equal keys."""
        corner_starts = self.point[self.ring].tolist()
        return [  # kind, number of corners of each outline, corners, text of the mask
            bytes([kind])
            + np.diff(self.point[self.ring[i] : self.ring[i + 1] + 1]).tobytes()
            + self.xy[corner_starts[i] : corner_starts[i + 1]].tobytes()
            + self.counts(i)
            for i, kind in enumerate(self.kind.tolist())
        ]


class Keypoints(_Ragged, frozen=True):
    """The keypoints of boxes, one row for each box."""

    first: Longs
    """(n + 1,) the points of box i are ``first[i]`` to ``first[i + 1]``, in the order of its class."""
    xyv: Floats
    """(points, 3) x and y in pixels, and visibility: 0 = not labelled, 1 = hidden, 2 = visible; of detections
    the third value of the source."""
    stated: Any = None
    """(n,) how many points are labelled according to the source, -1 where it gives no number."""

    _LEVELS = (("first", "xyv"),)
    _PLAIN = ("stated",)

    def __post_init__(self) -> None:
        if self.stated is None:
            force_setattr(self, "stated", _freeze(np.full(len(self), -1)))

    def __repr__(self) -> str:
        return f"<Keypoints: {len(self.xyv)} of {np.count_nonzero(np.diff(self.first))} boxes>"

    @classmethod
    def none(cls, n: int) -> Keypoints:
        """Make the keypoints of n boxes without any."""
        return cls(np.zeros(n + 1, np.int64), np.zeros((0, 3)))

    def points(self, row: int) -> Floats:
        """(k, 3) the points of a box."""
        return self.xyv[self.first[row] : self.first[row + 1]]

    def counts(self) -> Longs:
        """(n,) how many points each box has."""
        return np.diff(self.first)

    def edges(self, is_counted: NDArray[np.bool_]) -> Floats:
        """(n, 4) left, top, right and bottom of the counted points (points,) of each box; NaN without any."""
        edges = np.full((len(self), 4), np.nan)
        counted_before = np.concatenate([[0], np.cumsum(is_counted)])[self.first]
        rows = np.flatnonzero(np.diff(counted_before))
        points = self.xyv if is_counted.all() else np.compress(is_counted, self.xyv, axis=0)
        edges[rows] = _find_edges(points[:, :2], counted_before[rows])
        return edges

    def scaled(self, factor: Floats) -> Keypoints:
        """Multiply x and y by the factors of their box, (n, 2)."""
        xyv = self.xyv.copy()
        xyv[:, :2] *= np.repeat(factor, self.counts(), axis=0)
        return Keypoints(self.first, _freeze(xyv), self.stated)

    def count_labelled(self) -> Longs:
        """(n,) how many keypoints of each box are labelled."""
        labelled_before = np.concatenate([[0], np.cumsum(self.xyv[:, 2] > 0)])
        return np.diff(labelled_before[self.first])

    def count_labelled_or_stated(self) -> Longs:
        """(n,) how many keypoints are labelled: the number that the source states, else counted."""
        return np.where(self.stated < 0, self.count_labelled(), self.stated)

    def row_keys(self) -> list[bytes]:
        """(n,) a key for the keypoints of each box; equal keypoints have equal keys."""
        point_starts = self.first.tolist()
        return [self.xyv[a:b].tobytes() for a, b in itertools.pairwise(point_starts)]


class ShapeRows:
    """Collects shapes that are read one box at a time."""

    def __init__(self) -> None:
        self._kind: list[int] = []
        self._rings: list[int] = []
        self._points: list[int] = []
        self._xy: list[Floats] = []
        self._masks: list[bytes] = []

    def __len__(self) -> int:
        return len(self._kind)

    def none(self) -> None:
        """Add a box without a shape."""
        self._add(ShapeKind.NONE)

    def polygons(self, outlines: Iterable[ArrayLike]) -> None:
        """Add a box with outlines, each (k, 2) or flat; one without any has no shape."""
        parts = [np.asarray(outline, np.float64).reshape(-1, 2) for outline in outlines]
        self._add(ShapeKind.POLYGONS if parts else ShapeKind.NONE, parts)

    def oriented(self, corners: ArrayLike) -> None:
        """Add a box of four corners (4, 2)."""
        self._add(ShapeKind.ORIENTED, [np.asarray(corners, np.float64).reshape(4, 2)])

    def mask(self, counts: bytes) -> None:
        """Add a box with a mask, as COCO's compressed text."""
        self._add(ShapeKind.MASK, (), counts)

    def _add(self, kind: ShapeKind, parts: Sequence[Floats] = (), text: bytes = b"") -> None:
        """Add a box with outlines (k, 2), or the compressed text of a mask."""
        self._kind.append(kind)
        self._rings.append(len(parts))
        self._points += map(len, parts)
        self._xy += parts
        self._masks.append(text)

    def table(self) -> Shapes | None:
        """Return the shapes so far; None if no box has one."""
        if not any(self._kind):
            return None
        ring, point, mask = (
            np.concatenate([[0], np.cumsum(n)]).astype(np.int64)
            for n in (self._rings, self._points, [*map(len, self._masks)])
        )
        xy = np.concatenate([np.zeros((0, 2)), *self._xy])
        text = np.frombuffer(b"".join(self._masks), np.uint8)
        return Shapes(np.array(self._kind, np.uint8), ring, point, xy, mask, text)


RAGGED: dict[str, type[Shapes | Keypoints]] = {"shapes": Shapes, "keypoints": Keypoints}
"""Columns of boxes in which a box has any number of values."""


def join_ragged(table: type[Any], columns: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Concatenate the shapes or keypoints of tables of `sizes` rows, None for a table without any.

    `table` is their class. Returns None if no table has any.
    """
    if all(column is None for column in columns):
        return None
    tables = [table.none(n) if column is None else column for column, n in zip(columns, sizes, strict=True)]
    return tables[0] if len(tables) == 1 else table.concatenate(tables)


def shapes_of_arrays(
    n: int,
    polygons: Sequence[Sequence[ArrayLike]] | None,
    masks: Sequence[Any] | None,
    oriented: ArrayLike | None,
    keypoints: Sequence[ArrayLike] | None,
) -> dict[str, Any]:
    """Make the columns ``shapes`` and ``keypoints`` of n boxes from arguments of `Dataset.from_arrays`.

    Raises ValueError if an argument has not n rows, or if there are several kinds of shapes.
    """
    columns: dict[str, Any] = {
        "polygons": polygons,
        "masks": masks,
        "oriented": oriented,
        "keypoints": keypoints,
    }
    for name, values in columns.items():
        if values is not None and len(values) != n:
            raise ValueError(f"{name} has {len(values)} rows, not {n}")
    if sum(columns[name] is not None for name in ("polygons", "masks", "oriented")) > 1:
        raise ValueError("pass only one of polygons, masks and oriented")
    rows = ShapeRows()
    for outlines in polygons or ():
        rows.polygons(outlines)
    for mask in masks or ():
        if mask is None:
            rows.none()
            continue
        if not isinstance(mask, str | bytes | Mapping):
            from odm.masks import encode

            mask = encode(mask)  # noqa: PLW2901
        counts = mask["counts"] if isinstance(mask, Mapping) else mask
        rows.mask(counts.encode() if isinstance(counts, str) else bytes(counts))
    if oriented is not None:
        array = np.asarray(oriented, np.float64)  # (n, 4, 2) corners, or (n, 5)
        for corners in array if array.ndim == 3 else rectangle_corners(array.reshape(-1, 5)):
            rows.oriented(corners)
    return {"shapes": rows.table(), "keypoints": None if keypoints is None else keypoints_of(keypoints)}


def rectangle_corners(cxcywhr: Floats) -> Floats:
    """(n, 4, 2) corners of rectangles (n, 5): centre x, centre y, width, height, angle.

    The angle is in radians from the x to the y axis, which is clockwise on the screen; the first corner is
    the top left one of the rectangle before it is turned.
    """
    centre_x, centre_y, w, h, angle = np.ascontiguousarray(cxcywhr.T)
    x, y = w / 2 * _SIDES[0], h / 2 * _SIDES[1]  # (4, n), as NumPy is slow along short rows
    cos, sin = np.cos(angle), np.sin(angle)
    corners = np.empty((len(cxcywhr), 4, 2))
    corners[..., 0] = (centre_x + (x * cos - y * sin)).T
    corners[..., 1] = (centre_y + (x * sin + y * cos)).T
    return corners


_SIDES = np.array([[-1, 1, 1, -1], [-1, -1, 1, 1]])[..., None]
"""On which side of the centre the corners of a box lie, by x and y."""


def as_rectangles(corners: Floats) -> Floats:
    """(n, 5) centre x and y, width, height and angle in radians of oriented boxes (n, 4, 2).

    The width is the first side, and the angle its direction, from the x to the y axis, in -pi to pi.
    """
    first, second, third, fourth = corners.transpose(1, 2, 0).copy()  # x and y of each, (2, n)
    centre = (first + second + third + fourth) / 4
    width_side = (second - first + third - fourth) / 2
    height_side = (fourth - first + third - second) / 2
    width = np.hypot(*width_side)
    angle = np.arctan2(width_side[1], width_side[0])
    # A height that points the other way belongs to corners in the other direction.
    height = height_side[1] * np.cos(angle) - height_side[0] * np.sin(angle)
    return np.column_stack([*centre, width, height, angle])


def edges_of(corners: Floats) -> Floats:
    """(n, 4) left, top, right and bottom of quadrilaterals (n, 4, 2)."""
    columns = corners.transpose(1, 2, 0).copy()  # (4, 2, n), as NumPy is slow along short rows
    return np.concatenate([columns.min(axis=0), columns.max(axis=0)]).T.copy()


def join_by_bridges(outlines: Sequence[Floats]) -> Floats:
    """Join outlines, (k, 2) each, into one (n, 2): each by a bridge to the nearest corner of those before.

    The outline goes over each bridge twice, there and back.

    Of thousands of outlines the last ones are all joined to one corner: the nearest takes too long to find.
    """
    # outline a b c, next ring p q r, nearest corners b and q:  a b [q r p q] b c
    outline, n_distances = outlines[0], 0
    for i_ring, ring in enumerate(outlines[1:], 1):
        n_distances += len(outline) * len(ring)
        if n_distances > _MOST_DISTANCES:
            # Each ring, back to its first corner, and from there to the last corner of the outline.
            remaining = (corners for ring in outlines[i_ring:] for corners in (ring, ring[:1], outline[-1:]))
            return np.concatenate([outline, *remaining])
        i, j = _find_nearest(outline, ring)
        detour = np.concatenate([ring[j:], ring[: j + 1]])
        outline = np.concatenate([outline[: i + 1], detour, outline[i:]])
    return outline


_MOST_DISTANCES = 2**27
"""Distances between corners that are computed for one object, which takes a second."""


def _find_nearest(a: Floats, b: Floats) -> tuple[int, int]:
    """Return the indices of the nearest points of two sets (n, 2) and (m, 2).

    Distances are computed a bounded number at a time.
    """
    step = max(1, 2**20 // len(b))
    smallest, nearest_indices = np.inf, (0, 0)
    for start in range(0, len(a), step):
        block = a[start : start + step]
        squared = (block[:, None, 0] - b[:, 0]) ** 2 + (block[:, None, 1] - b[:, 1]) ** 2
        i, j = divmod(int(squared.argmin()), len(b))
        if squared[i, j] < smallest:
            smallest, nearest_indices = float(squared[i, j]), (start + i, j)
    return nearest_indices


def keypoints_of(rows: Sequence[ArrayLike]) -> Keypoints | None:
    """Make `Keypoints` of one array for each box, (k, 3) or flat, empty for none; None if no box has any."""
    points = [np.asarray(row, np.float64).reshape(-1, 3) for row in rows]
    starts = np.concatenate([[0], np.cumsum([*map(len, points)])]).astype(np.int64)
    return Keypoints(starts, np.concatenate(points)) if points and starts[-1] else None


def _find_edges(xy: Floats, starts: Longs) -> Floats:
    """(n, 4) left, top, right and bottom of n groups of points; group i begins at ``xy[starts[i]]``."""
    if not len(starts):
        return np.zeros((0, 4))
    if len(xy) == 4 * len(starts) and (np.diff(starts) == 4).all():
        return edges_of(xy.reshape(-1, 4, 2))
    return np.concatenate([np.minimum.reduceat(xy, starts), np.maximum.reduceat(xy, starts)], axis=1)


def _take_items(starts: Longs, rows: Longs) -> tuple[Longs, Longs]:
    """Return the offsets of some rows, and the positions of their items.

    Offsets 0 2 5 6 and rows 2 1: the items are 5, 2 3 4, so the result is 0 1 4 and 5 2 3 4.
    """
    n_items = starts[rows + 1] - starts[rows]
    taken_starts = np.concatenate([[0], np.cumsum(n_items)]).astype(np.int64)
    return taken_starts, np.arange(int(taken_starts[-1])) + np.repeat(
        starts[rows] - taken_starts[:-1], n_items
    )


def _take_texts(starts: Longs, text: NDArray[np.uint8], rows: Longs) -> tuple[Longs, NDArray[np.uint8]]:
    """Return the offsets of some rows, and their texts joined; row i is ``text[starts[i]:starts[i + 1]]``."""
    text_starts, text_ends = starts[rows], starts[rows + 1]
    texts = map(text.data.__getitem__, map(slice, text_starts.tolist(), text_ends.tolist()))
    return np.concatenate([[0], np.cumsum(text_ends - text_starts)]), np.frombuffer(b"".join(texts), np.uint8)


def _join_offsets(columns: Sequence[Longs]) -> Longs:
    """Concatenate columns of offsets: 0 2 5 and 0 1 give 0 2 5 6."""
    items_before = np.concatenate([[0], np.cumsum([int(column[-1]) for column in columns])])
    row_ends = [column[1:] + n_before for column, n_before in zip(columns, items_before[:-1], strict=True)]
    return np.concatenate([np.zeros(1, np.int64), *row_ends]).astype(np.int64)


def _freeze(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only and return it."""
    array.flags.writeable = False
    return array
