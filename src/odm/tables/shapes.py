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

    ``_LEVELS`` names the column of offsets of each level and those of the items below it: another column of
    offsets, or the values.
    """

    _LEVELS: ClassVar[tuple[tuple[str, str], ...]] = ()
    _PLAIN: ClassVar[tuple[str, ...]] = ()

    def __len__(self) -> int:
        return len(getattr(self, self._LEVELS[0][0])) - 1

    def take(self, rows: NDArray[Any]) -> Self:
        """Return the columns with the rows at `rows`, a mask or row numbers."""
        row_numbers = np.arange(len(self))[rows]
        if (
            len(row_numbers)
            and row_numbers[-1] - row_numbers[0] == len(row_numbers) - 1
            and (np.diff(row_numbers) == 1).all()
        ):
            return self._part(int(row_numbers[0]), int(row_numbers[-1]) + 1)
        columns: dict[str, Any] = {name: getattr(self, name)[row_numbers] for name in self._PLAIN}
        items = {self._LEVELS[0][0]: row_numbers}
        for name, below in self._LEVELS:
            first, column = getattr(self, name), getattr(self, below)
            if below == "text":  # numbers of all bytes would take eight times as much memory
                columns[name], columns[below] = _take_texts(first, column, row_numbers)
                continue
            above, size = items.get(name, row_numbers), first[1:2].sum()
            if column.ndim == 2 and (np.diff(first) == size).all():
                # Rows of one length are copied whole, which is several times as fast.
                columns[name], width = np.arange(len(above) + 1) * size, column.shape[1]
                rows_of = column.reshape(len(first) - 1, size * width)
                columns[below] = rows_of.take(above, axis=0).reshape(-1, width)
                continue
            columns[name], items[below] = _taken(first, above)
        for name in self.__struct_fields__:
            columns.setdefault(name, getattr(self, name)[items[name]] if name in items else None)
        return type(self)(**{name: _frozen(column) for name, column in columns.items()})

    def _part(self, start: int, stop: int) -> Self:
        """Return the columns with the rows `start` to `stop`, without copying values."""
        columns: dict[str, Any] = {name: getattr(self, name)[start:stop] for name in self._PLAIN}
        ends = {self._LEVELS[0][0]: (start, stop)}
        for name, below in self._LEVELS:
            begin, end = ends.get(name, (start, stop))
            offsets = getattr(self, name)[begin : end + 1]
            ends[below] = int(offsets[0]), int(offsets[-1])
            columns[name] = offsets - offsets[0]
        for name in self.__struct_fields__:
            columns.setdefault(name, getattr(self, name)[slice(*ends[name])] if name in ends else None)
        return type(self)(**{name: _frozen(column) for name, column in columns.items()})

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenate several tables."""
        offsets = dict(cls._LEVELS)
        columns = {
            name: _joined_offsets([getattr(part, name) for part in parts])
            if name in offsets
            else np.concatenate([getattr(part, name) for part in parts])
            for name in cls.__struct_fields__
        }
        return cls(**{name: _frozen(column) for name, column in columns.items()})


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
    def of_outlines(cls, xy: Floats, corners: Longs, kind: ShapeKind = ShapeKind.POLYGONS) -> Shapes:
        """Make the shapes of boxes with one outline each: all corners (k, 2), and (n,) the number of
        corners of each box.
        """
        n = len(corners)
        ends = np.concatenate([[0], np.cumsum(corners)]).astype(np.int64)
        zero = np.zeros(n + 1, np.int64)
        return cls(np.full(n, kind, np.uint8), np.arange(n + 1), ends, xy, zero, np.zeros(0, np.uint8))

    @classmethod
    def of_boxes(cls, xyxy: Floats, kind: ShapeKind = ShapeKind.POLYGONS) -> Shapes:
        """Make the shapes of boxes (n, 4) whose outlines are their rectangles."""
        corners = xyxy[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 2)
        return cls.of_outlines(corners, np.full(len(xyxy), 4), kind)

    @classmethod
    def of_masks(cls, text: NDArray[np.uint8], first: Longs) -> Shapes:
        """Make the shapes of boxes with a mask each, the text of box i is ``text[first[i]:first[i + 1]]``."""
        n, zero = len(first) - 1, np.zeros(len(first), np.int64)
        return cls(np.full(n, ShapeKind.MASK, np.uint8), zero, zero[:1], np.zeros((0, 2)), first, text)

    def polygons(self, row: int) -> list[Floats]:
        """Return the outlines of a box, each (corners, 2); an oriented box has one of four, a mask none."""
        outlines = range(int(self.ring[row]), int(self.ring[row + 1]))
        return [self.xy[self.point[j] : self.point[j + 1]] for j in outlines]

    def four_cornered(self) -> NDArray[np.bool_]:
        """(n,) mask of the boxes with one outline of four corners, which `corners` can return."""
        is_four_cornered: NDArray[np.bool_] = (np.diff(self.ring) == 1) & (
            np.diff(self.point[self.ring]) == 4
        )
        return is_four_cornered

    def corners(self, rows: NDArray[Any]) -> Floats:
        """(n, 4, 2) corners of oriented boxes, by a mask or row numbers."""
        first = self.point[self.ring[:-1][rows]]
        if len(first) and (np.diff(first) == 4).all():  # one after the other: no value is copied
            return self.xy[first[0] : first[-1] + 4].reshape(-1, 4, 2)
        corners: Floats = np.take(self.xy, first[:, None] + np.arange(4), axis=0)
        return corners

    def counts(self, row: int) -> bytes:
        """The run lengths of a mask as COCO's compressed text; empty for another shape."""
        return self.text[self.mask[row] : self.mask[row + 1]].tobytes()

    def edges(self) -> Floats:
        """(n, 4) left, top, right and bottom of the corners of each box; NaN for a box without corners."""
        edges = np.full((len(self), 4), np.nan)
        first = self.point[self.ring]
        rows = np.flatnonzero(first[1:] > first[:-1])
        edges[rows] = _edges(self.xy, first[rows])
        return edges

    def scaled(self, factor: Floats) -> Shapes:
        """Multiply all corners by the factors of their box, (n, 2)."""
        n_corners = np.diff(self.point[self.ring])
        return replace(self, xy=_frozen(self.xy * np.repeat(factor, n_corners, axis=0)))

    def without_short_parts(self) -> Shapes:
        """Drop outlines of fewer than three corners; a box whose outlines are all dropped has no shape."""
        n_corners = np.diff(self.point)
        is_kept = n_corners >= 3
        if is_kept.all():
            return self
        n_outlines = np.bincount(
            np.repeat(np.arange(len(self)), np.diff(self.ring))[is_kept], minlength=len(self)
        )
        is_emptied = (n_outlines == 0) & (np.diff(self.ring) > 0)
        return replace(
            self,
            kind=_frozen(np.where(is_emptied, ShapeKind.NONE, self.kind).astype(np.uint8)),
            ring=_frozen(np.append(0, np.cumsum(n_outlines))),
            point=_frozen(np.append(0, np.cumsum(n_corners[is_kept]))),
            xy=_frozen(self.xy[np.repeat(is_kept, n_corners)]),
        )

    def replaced(self, rows: NDArray[Any], other: Shapes) -> Shapes:
        """Replace the shapes at these row numbers by the shapes of `other`, in order."""
        if len(rows) == len(self) and (np.diff(rows) > 0).all():
            return other
        source = np.arange(len(self))
        source[rows] = len(self) + np.arange(len(rows))
        return Shapes.joined([self, other]).take(source)

    def runs(self, height: Longs, width: Longs, *, between: tuple[int, int] | None = None) -> Runs:
        """Return all shapes as masks, empty for boxes without a shape.

        `height` and `width` of each box's image, (n,).

        With `between` only the pixels from one column up to another. ValueError if an outline passes more
        columns than `MOST_HELD`.
        """
        from odm.masks.polygons import rasterise_all
        from odm.masks.runs import Runs

        is_mask = self.kind == ShapeKind.MASK
        masks = Runs.of_texts(self.text, self.mask)
        if between is not None:
            masks = masks.between(*(np.minimum(column, width) * height for column in between))
        if is_mask.all():
            return masks
        outlines = rasterise_all(self.xy, self.point, self.ring, height, width, between=between)
        if not is_mask.any():
            return outlines
        # A box has a mask or corners, and is empty in the other set.
        edge = np.concatenate([masks.edge, outlines.edge])
        both = Runs(np.concatenate([masks.first, outlines.first[1:] + masks.first[-1]]), edge)
        return both.take(np.arange(len(self)) + np.where(is_mask, 0, len(self)))

    def extents(self, height: Longs, width: Longs) -> tuple[Longs, Longs]:
        """(n,) pixels of all shapes as masks, and (n, 4) left, top, width and height, zeros for none.

        They are measured in bounded memory, without making the masks; those too large for it have -1 pixels.
        """
        from odm.masks.polygons import measure_all

        area, box = measure_all(self.xy, self.point, self.ring, height, width)
        masks = self.measured(height)
        return area + masks.area, box + masks.box

    def known_extents(self, rows: NDArray[Any], height: Longs) -> tuple[Longs, Longs] | None:
        """Return the `extents` of the boxes at `rows`; None unless all are masks, and measured before."""
        measured: Measured | None = getattr(self, "_measured", None)
        if (
            measured is None
            or (self.kind[rows] != ShapeKind.MASK).any()
            or (measured.height[rows] != height).any()
        ):
            return None
        return measured.area[rows], measured.box[rows]

    def run_bounds(self, width: Longs) -> Longs:
        """(n,) how many runs each shape has as a mask at the most; `width` of each image, (n,)."""
        from odm.masks.polygons import count_columns

        return count_columns(self.xy, self.point, self.ring, width) + np.diff(self.mask)

    def column_cuts(self, width: Longs, most: int) -> list[int]:
        """Columns between which `runs` fills about `most` columns of sides at a time."""
        from odm.masks.polygons import cut_columns

        return cut_columns(self.xy, self.point, self.ring, width, most)

    def drawn(self, height: Longs, width: Longs) -> Shapes:
        """Fill outlines and return them as masks. Raises ValueError if one is among `unfillable`."""
        from odm.masks.polygons import write_outlines

        return Shapes.of_masks(*write_outlines(self.xy, self.point, self.ring, height, width))

    def unfillable(self, width: Longs, *, is_held: bool = False) -> tuple[Longs, list[int], int]:
        """Return the rows of outlines that cannot be filled, the columns that their sides pass, and the
        limit.

        With `is_held`, those of which `runs` cannot hold the whole mask.
        """
        from odm.masks.polygons import MOST_COLUMNS, MOST_HELD

        most = MOST_HELD if is_held else MOST_COLUMNS
        rows = np.flatnonzero(np.diff(self.point[self.ring]) * (width + 1) > most)
        with np.errstate(invalid="ignore"):  # of corners that are not finite, an error of their own
            columns = self.take(rows).run_bounds(width[rows])
        is_large = columns > most
        return rows[is_large], columns[is_large].tolist(), most

    def measured(self, height: Longs) -> Measured:
        """Return the measures of the masks for images of these heights, (n,).

        It is remembered, as reading, checks and evaluation ask one after the other.
        """
        from odm.masks.runs import measure

        measured: Measured | None = getattr(self, "_measured", None)
        if measured is None or (measured.height != height)[self.kind == ShapeKind.MASK].any():
            measured = measure(self.text, self.mask, height)
            force_setattr(self, "_measured", measured)
        return measured

    def row_keys(self) -> list[bytes]:
        """A key for the shape of each box; equal shapes have equal keys."""
        first = self.point[self.ring].tolist()
        return [
            bytes([kind])
            + np.diff(self.point[self.ring[i] : self.ring[i + 1] + 1]).tobytes()
            + self.xy[first[i] : first[i + 1]].tobytes()
            + self.counts(i)
            for i, kind in enumerate(self.kind.tolist())
        ]


class Keypoints(_Ragged, frozen=True):
    """The keypoints of boxes, one row for each box."""

    first: Longs
    """(n + 1,) the points of box i are ``first[i]`` to ``first[i + 1]``, in the order of its class."""
    xyv: Floats
    """(points, 3) x and y in pixels, and 0 = not labelled, 1 = hidden, 2 = visible; of detections what the
    source says."""
    stated: Any = None
    """(n,) how many points the source says are labelled, -1 where it does not say."""

    _LEVELS = (("first", "xyv"),)
    _PLAIN = ("stated",)

    def __post_init__(self) -> None:
        if self.stated is None:
            force_setattr(self, "stated", _frozen(np.full(len(self), -1)))

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
        edges[rows] = _edges(points[:, :2], counted_before[rows])
        return edges

    def scaled(self, factor: Floats) -> Keypoints:
        """Multiply x and y by the factors of their box, (n, 2)."""
        xyv = self.xyv.copy()
        xyv[:, :2] *= np.repeat(factor, self.counts(), axis=0)
        return Keypoints(self.first, _frozen(xyv), self.stated)

    def labelled(self) -> Longs:
        """(n,) how many keypoints of each box are labelled."""
        labelled_before = np.concatenate([[0], np.cumsum(self.xyv[:, 2] > 0)])
        return np.diff(labelled_before[self.first])

    def labelled_as_stated(self) -> Longs:
        """(n,) how many keypoints are labelled: the number that the source states, else counted."""
        return np.where(self.stated < 0, self.labelled(), self.stated)

    def row_keys(self) -> list[bytes]:
        """A key for the keypoints of each box; equal keypoints have equal keys."""
        ends = self.first.tolist()
        return [self.xyv[a:b].tobytes() for a, b in itertools.pairwise(ends)]


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


def join_ragged(table: type[Any], parts: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Concatenate the shapes or keypoints of tables of these sizes, None for a table without any.

    None if none has any.
    """
    if all(part is None for part in parts):
        return None
    tables = [table.none(n) if part is None else part for part, n in zip(parts, sizes, strict=True)]
    return tables[0] if len(tables) == 1 else table.joined(tables)


def shapes_of_arrays(
    n: int,
    polygons: Sequence[Sequence[ArrayLike]] | None,
    masks: Sequence[Any] | None,
    oriented: ArrayLike | None,
    keypoints: Sequence[ArrayLike] | None,
) -> dict[str, Any]:
    """Return the columns of n boxes for the arguments of `Dataset.from_arrays`.

    Raises ValueError if they are wrong.
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
        array = np.asarray(oriented, np.float64)
        for corners in array if array.ndim == 3 else rectangles(array.reshape(-1, 5)):
            rows.oriented(corners)
    return {"shapes": rows.table(), "keypoints": None if keypoints is None else keypoints_of(keypoints)}


def rectangles(cxcywhr: Floats) -> Floats:
    """(n, 4, 2) corners of rectangles given as (n, 5) centre, width, height and angle.

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
    """(n, 5) centre, width, height and angle in radians of oriented boxes (n, 4, 2).

    The width is the first side, and the angle its direction, from the x to the y axis, in -pi to pi.
    """
    first, second, third, fourth = corners.transpose(1, 2, 0).copy()  # x and y of each, (2, n)
    centre = (first + second + third + fourth) / 4
    along = (second - first + third - fourth) / 2
    down = (fourth - first + third - second) / 2
    width = np.hypot(*along)
    angle = np.arctan2(along[1], along[0])
    # A height that points the other way belongs to corners in the other direction.
    height = down[1] * np.cos(angle) - down[0] * np.sin(angle)
    return np.column_stack([*centre, width, height, angle])


def edges_of(corners: Floats) -> Floats:
    """(n, 4) left, top, right and bottom of quadrilaterals (n, 4, 2)."""
    columns = corners.transpose(1, 2, 0).copy()  # (4, 2, n), as NumPy is slow along short rows
    return np.concatenate([columns.min(axis=0), columns.max(axis=0)]).T.copy()


def bridged(parts: Sequence[Floats]) -> Floats:
    """Join several outlines (k, 2) into one, each by a bridge to the nearest corner of those before.

    The outline goes over each bridge twice, there and back.

    Of thousands of outlines the last ones are all joined to one corner: the nearest takes too long to find.
    """
    outline, distances = parts[0], 0
    for n, part in enumerate(parts[1:], 1):
        distances += len(outline) * len(part)
        if distances > _MOST_DISTANCES:
            rest = (corners for ring in parts[n:] for corners in (ring, ring[:1], outline[-1:]))
            return np.concatenate([outline, *rest])
        i, j = _nearest(outline, part)
        around = np.concatenate([part[j:], part[: j + 1]])
        outline = np.concatenate([outline[: i + 1], around, outline[i:]])
    return outline


_MOST_DISTANCES = 2**27
"""Distances between corners that are computed for one object, which takes a second."""


def _nearest(a: Floats, b: Floats) -> tuple[int, int]:
    """Return the indices of the nearest points of two sets (n, 2) and (m, 2).

    Distances are computed a bounded number at a time.
    """
    step = max(1, 2**20 // len(b))
    best, pair = np.inf, (0, 0)
    for start in range(0, len(a), step):
        block = a[start : start + step]
        squared = (block[:, None, 0] - b[:, 0]) ** 2 + (block[:, None, 1] - b[:, 1]) ** 2
        i, j = divmod(int(squared.argmin()), len(b))
        if squared[i, j] < best:
            best, pair = float(squared[i, j]), (start + i, j)
    return pair


def keypoints_of(rows: Sequence[ArrayLike]) -> Keypoints | None:
    """Keypoints read one box at a time, each (k, 3) or flat, empty for none; None where no box has any."""
    parts = [np.asarray(row, np.float64).reshape(-1, 3) for row in rows]
    first = np.concatenate([[0], np.cumsum([*map(len, parts)])]).astype(np.int64)
    return Keypoints(first, np.concatenate(parts)) if parts and first[-1] else None


def _edges(xy: Floats, first: Longs) -> Floats:
    """(n, 4) left, top, right and bottom of n groups of points (k, 2), which begin at ``first[i]``."""
    if not len(first):
        return np.zeros((0, 4))
    if len(xy) == 4 * len(first) and (np.diff(first) == 4).all():
        return edges_of(xy.reshape(-1, 4, 2))
    return np.concatenate([np.minimum.reduceat(xy, first), np.maximum.reduceat(xy, first)], axis=1)


def _taken(first: Longs, rows: Longs) -> tuple[Longs, Longs]:
    """Return the offsets of some rows, and the positions of their items.

    Offsets 0 2 5 6 and rows 2 1: the items are 5, 2 3 4, so the result is 0 1 4 and 5 2 3 4.
    """
    n = first[rows + 1] - first[rows]
    begin = np.concatenate([[0], np.cumsum(n)]).astype(np.int64)
    return begin, np.arange(int(begin[-1])) + np.repeat(first[rows] - begin[:-1], n)


def _take_texts(first: Longs, text: NDArray[np.uint8], rows: Longs) -> tuple[Longs, NDArray[np.uint8]]:
    """Return the offsets of some rows, and their texts joined."""
    begin, end = first[rows], first[rows + 1]
    texts = map(text.data.__getitem__, map(slice, begin.tolist(), end.tolist()))
    return np.concatenate([[0], np.cumsum(end - begin)]), np.frombuffer(b"".join(texts), np.uint8)


def _joined_offsets(parts: Sequence[Longs]) -> Longs:
    """Concatenate columns of offsets: 0 2 5 and 0 1 give 0 2 5 6."""
    items_before = np.concatenate([[0], np.cumsum([int(part[-1]) for part in parts])])
    ends = [part[1:] + n for part, n in zip(parts, items_before[:-1], strict=True)]
    return np.concatenate([np.zeros(1, np.int64), *ends]).astype(np.int64)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only and return it."""
    array.flags.writeable = False
    return array
