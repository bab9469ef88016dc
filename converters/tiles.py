"""Cut images into tiles with what lies in each, and put tiles together again.

The tiles are those of SAHI's `slice_coco`: of one size, from the left and the top, the last of a row or of a
column moved back inside the image. Their names say where they lie: ``a_x512_y0_of_4000x3000.jpg`` begins at
column 512 of ``a.jpg``, whose size is 4000 x 3000.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.codes import GIVE_SIZES
from odm.converters.ledger import Ledger
from odm.converters.shapes import clip_outlines
from odm.files import Unreadable, open_binary
from odm.issues import (
    DataError,
    Log,
    PathError,
    UsageError,
    first_few,
    listed,
    plural,
    printable,
    shorten,
    spell,
)
from odm.masks.runs import Runs, expand_ranges, write_texts
from odm.names import stem
from odm.tables import NO_ID, Boxes, Dataset, Flag, Floats, Images, Longs, Shapes, first_index_of, freeze
from odm.tables.extra_fields import SHAPES, count_extra
from odm.tables.quadrilaterals import shared_areas
from odm.tables.shapes import ShapeKind

OVERLAP, LEAST, SAME = 0.2, 0.1, 0.5
"""Shares: of a tile that the next one covers too, of an object that a tile must have, and of the smaller of
two detections that the other covers if they are one object."""
_NAME = re.compile(r"(.+)_x([0-9]{1,9})_y([0-9]{1,9})_of_([0-9]{1,9})x([0-9]{1,9})(\.[^./]*)?", re.DOTALL)
MOST_FAULTS = 50
"""How many damaged image files a message names."""
_PAIRS_AT_A_TIME = 2**20


class Tiling(msgspec.Struct, frozen=True):
    """How images are cut. UsageError for values that leave no tile."""

    width: int
    height: int
    overlap: float = OVERLAP
    """The share of a tile that the next one covers too."""
    min_share: float = LEAST
    """The share of its area that a box must have in a tile to be kept there."""

    def __post_init__(self) -> None:
        if not 0 <= self.overlap < 1:
            raise UsageError(f"{spell('overlap')} {self.overlap}: expected a share from 0 to below 1")
        if not 0 <= self.min_share <= 1:
            raise UsageError(f"{spell('tile_min')} {self.min_share}: expected a share from 0 to 1")

    @classmethod
    def of_text(cls, text: str, overlap: float, min_share: float) -> Tiling:
        """The tiling of ``640x480``, or ``640`` for squares."""
        match = re.fullmatch(r"([1-9][0-9]{0,5})(?:x([1-9][0-9]{0,5}))?", text.strip(), re.ASCII)
        if not match:
            raise UsageError(f"{spell('tile')} {shorten(text)}: expected WxH in pixels, as in 640x640")
        return cls(int(match[1]), int(match[2] or match[1]), overlap, min_share)

    def find_starts(self, length: int, size: int) -> Longs:
        """Return the first pixel of each tile of `size` pixels along a side of `length` pixels, ascending."""
        # Length 1000, size 400, step 320: 600 / 320 is 2, rounded up, and the starts 0, 320 and 640 -> 600.
        step = max(1, size - int(self.overlap * size))
        n = 1 + max(0, -(-(length - size) // step))
        return np.minimum(np.arange(n) * step, max(0, length - size))


class _Tiles(msgspec.Struct, frozen=True):
    """The tiles of all images, those of one image together, from left to right and then down.

    `image`, `left`, `top`, `width` and `height` have a value for each tile, in pixels of its image.
    """

    tile_starts: Longs
    """(images + 1,) the row of the first tile of each image, and the number of tiles."""
    image: Longs
    left: Longs
    top: Longs
    width: Longs
    height: Longs


def cut(dataset: Dataset, tiling: Tiling, ledger: Ledger, log: Log) -> tuple[Dataset, Cuts]:
    """Return the dataset of the tiles, and the `Cuts` that make their pictures; both take the same paths.

    A box is in each tile that it touches, cut at its edges, unless the tile has a smaller share of its area
    than `Tiling.min_share`, which crowds and regions to ignore are allowed; keypoints outside become
    unlabelled. Raises DataError if the size of an image is not known.
    """
    sizes = dataset.limits()  # (images, 2) width and height; all 1 if coordinates are fractions (`relative`)
    unknown = np.flatnonzero((sizes <= 0).any(axis=1)) if not dataset.relative else np.arange(len(sizes))
    if len(unknown):
        names = listed([dataset.images.name[row] for row in unknown.tolist()])
        n_images = plural(len(unknown), "image")
        raise DataError(f"{spell('tile')}: the size of {n_images} is not known: {names}; {GIVE_SIZES}", log)
    _book_whole_images(dataset, ledger)
    tiles = _make_grid(sizes, tiling)
    rows, tile = _pair_boxes(dataset, tiles, tiling, sizes)  # a box that touches k tiles has k of these rows
    images, cuts = _make_tile_images(dataset.images, tiles, sizes)
    boxes, share = _cut_boxes(dataset, rows, tile, tiles, sizes, ledger)
    tiled = _replace_images(dataset, images, boxes)
    # Crowds and regions stay however small their part in the tile is, but not without any.
    is_left_out = (share < tiling.min_share) & ~boxes.has(Flag.CROWD | Flag.REGION) | (share <= 0)
    n_boxes = len(np.unique(rows))
    ledger.pieces = len(rows) - n_boxes
    ledger.change("boxes cut at the edge of a tile", int(np.count_nonzero((share < 1) & ~is_left_out)))
    if n_boxes < len(dataset):
        ledger.left_out["boxes outside their image"] = len(dataset) - n_boxes
    reason = (
        f"boxes with less than {100 * tiling.min_share:g} % of their area in a tile ({spell('tile_min')})"
    )
    return ledger.leave_out(tiled, is_left_out, reason), cuts


def _book_whole_images(dataset: Dataset, ledger: Ledger) -> None:
    """Book as lost what concerns whole images and videos, which `_replace_images` drops."""
    track, video = dataset.boxes.track, dataset.images.video
    reason = "as tiles are no video"
    ledger.lose(f"tracks of boxes, {reason}", 0 if track is None else int(np.count_nonzero(track >= 0)))
    n_scores = int(np.count_nonzero(~np.isnan(dataset.tracks.score)))
    ledger.lose(f"scores of tracks, {reason}", n_scores)
    n_frames = 0 if video is None else int(np.count_nonzero(video >= 0))
    ledger.lose(f"videos and frame numbers of images, {reason}", n_frames)
    ledger.lose("labels of whole images", len(dataset.labels.image))
    for name, n in count_extra(dataset.images.extra).items():
        ledger.lose(f"{name} of whole images", n)


def _make_grid(sizes: Longs, tiling: Tiling) -> _Tiles:
    """Return the tiles of all images; `sizes` (images, 2) are their widths and heights."""
    columns: list[list[Longs]] = []
    counts = np.zeros(len(sizes), np.int64)
    corners_of_size: dict[tuple[int, int], tuple[Longs, Longs]] = {}
    for row, (width, height) in enumerate(sizes.tolist()):
        if (width, height) not in corners_of_size:
            x, y = tiling.find_starts(width, tiling.width), tiling.find_starts(height, tiling.height)
            corners_of_size[width, height] = np.tile(x, len(y)), np.repeat(y, len(x))
        left, top = corners_of_size[width, height]
        counts[row] = len(left)
        columns.append([left, top])
    image = np.repeat(np.arange(len(sizes)), counts)
    # Without images `image` is empty, as the columns are then.
    left, top = (np.concatenate([c[k] for c in columns]) if columns else image for k in (0, 1))
    width = np.minimum(tiling.width, sizes[image, 0])
    height = np.minimum(tiling.height, sizes[image, 1])
    return _Tiles(np.append(0, np.cumsum(counts)), image, left, top, width, height)


def _pair_boxes(dataset: Dataset, tiles: _Tiles, tiling: Tiling, sizes: Longs) -> tuple[Longs, Longs]:
    """Return two columns, the row of a box and the row of a tile that it touches, sorted by tile, then box.

    A box without area counts as one with a small area. `sizes` (images, 2) are widths and heights.
    """
    boxes, pairs = dataset.boxes, []
    size_of_box = sizes[boxes.image]
    low = np.minimum(boxes.xyxy[:, :2], boxes.xyxy[:, 2:])
    high = np.maximum(np.maximum(boxes.xyxy[:, :2], boxes.xyxy[:, 2:]), low + 1e-9)
    # Boxes on images of one size are taken together, as these have the same grid of tiles.
    unique, group = np.unique(size_of_box, axis=0, return_inverse=True)
    for k, (width, height) in enumerate(unique.tolist()):
        rows = np.flatnonzero(group.reshape(-1) == k)
        column_starts = tiling.find_starts(width, tiling.width)
        row_starts = tiling.find_starts(height, tiling.height)
        first_column, n_columns = _find_touched(
            column_starts, min(tiling.width, width), low[rows, 0], high[rows, 0]
        )
        first_row, n_rows = _find_touched(row_starts, min(tiling.height, height), low[rows, 1], high[rows, 1])
        # The tiles that a box touches are a block of the grid. In a grid of 4 columns, a block of 2 x 2 that
        # begins in row 1, column 1 has the tiles 5 6 9 10, with the positions 0 1 2 3 in the block.
        position, index = expand_ranges(np.zeros(len(rows), np.int64), n_columns * n_rows)
        block_row, block_column = np.divmod(position, np.maximum(n_columns[index], 1))
        tile_of_image = (
            (first_row[index] + block_row) * len(column_starts) + first_column[index] + block_column
        )
        pairs.append(np.stack([rows[index], tiles.tile_starts[boxes.image[rows[index]]] + tile_of_image]))
    box_rows, tile = np.concatenate(pairs, axis=1) if pairs else np.zeros((2, 0), np.int64)
    order = np.lexsort((box_rows, tile))
    return box_rows[order], tile[order]


def _find_touched(starts: Longs, size: int, low: Floats, high: Floats) -> tuple[Longs, Longs]:
    """Return (n,) the first tile along one side that each box touches, and how many it touches there.

    `starts` are the first pixels of the tiles, of `size` pixels each; `low` and `high` (n,) edges of boxes.
    """
    # The first tile that ends after the low edge, and the first that does not begin before the high edge.
    first_tile = np.searchsorted(starts + size, low, side="right")
    tile_end = np.searchsorted(starts, high, side="left")
    return first_tile, np.maximum(tile_end - first_tile, 0)


def _make_tile_images(images: Images, tiles: _Tiles, sizes: Longs) -> tuple[Images, Cuts]:
    """Return the tiles as images, and the `Cuts` that make their pictures from the paths of these images.

    No such file exists: the tile of ``/d/a.jpg`` at column 512 is ``/d/a.jpg/_x512_y0_of_4000x3000.jpg``.
    """
    rows = tiles.image.tolist()
    names, paths, cuts = [], [], {}
    corners = zip(
        rows,
        tiles.left.tolist(),
        tiles.top.tolist(),
        tiles.width.tolist(),
        tiles.height.tolist(),
        strict=True,
    )
    for i, left, top, width, height in corners:
        name, path = images.name[i], images.path[i]
        suffix = f"_x{left}_y{top}_of_{sizes[i, 0]}x{sizes[i, 1]}"
        names.append(f"{stem(name)}{suffix}{name[len(stem(name)) :]}")
        paths.append(f"{path}/{suffix}{os.path.splitext(path)[1]}" if path else "")
        if path:
            share = width * height / float(sizes[i].prod())
            cuts[paths[-1]] = path, (left, top, left + width, top + height), share
    source_images = images.take(tiles.image)
    return replace(
        source_images, name=tuple(names), path=tuple(paths), width=freeze(tiles.width.astype(np.int32)),
        height=freeze(tiles.height.astype(np.int32)), source_id=freeze(np.full(len(rows), NO_ID)),
        video=None, frame=None, extra={},
    ), Cuts(cuts)  # fmt: skip


def _replace_images(dataset: Dataset, images: Images, boxes: Boxes) -> Dataset:
    """Replace the images and boxes of a dataset, and drop its videos, tracks and labels of whole images."""
    blank = Dataset.from_arrays(images=(), categories=(), image=[], category=[], ltwh=np.zeros((0, 4)))
    nothing = {"labels": blank.labels, "videos": blank.videos, "tracks": blank.tracks}
    return replace(dataset, images=images, boxes=boxes, **nothing)


def _cut_boxes(
    dataset: Dataset, rows: Longs, tile: Longs, tiles: _Tiles, sizes: Longs, ledger: Ledger
) -> tuple[Boxes, Floats]:
    """Return a box for each pair of `rows` and `tile`, cut at the edges of the tile, in pixels of the tile,
    and (n,) the share of its area that each keeps. `sizes` (images, 2) are those of the whole images.
    """
    source_boxes = _drop_json_shapes(dataset.boxes, ledger).take(rows)
    source_areas = _measure_areas(source_boxes)
    origin = np.stack([tiles.left, tiles.top], axis=1)[tile].astype(np.float64)
    limit = np.stack([tiles.width, tiles.height], axis=1)[tile]  # (n, 2) the size of the tile
    boxes = _move_boxes(source_boxes, -origin, sizes[source_boxes.image], limit)
    boxes = replace(boxes, image=freeze(tile.astype(np.int32)))

    # Cut the shapes, then the boxes, and draw these around what is left of their shapes.
    uncut = boxes
    if boxes.shapes is not None or boxes.keypoints is not None:
        unused_ledger = Ledger("", "")  # `cut` books boxes that are cut
        tiled = _replace_images(dataset, _resize_images(dataset.images, tiles), boxes)
        boxes = clip_outlines(tiled, np.ones(len(rows), np.bool_), unused_ledger).boxes
    xyxy = np.clip(boxes.xyxy, 0, np.tile(limit, 2))
    xyxy = _shrink_to_shapes(boxes, uncut, xyxy, limit[:, 1])
    boxes = _unlabel_outside(boxes, limit, ledger)
    is_cut = (xyxy != boxes.xyxy).any(axis=1)
    wh = xyxy[:, 2:] - xyxy[:, :2]
    boxes = replace(
        boxes, xyxy=freeze(xyxy), wh=freeze(np.where(is_cut[:, None], wh, boxes.wh)),
        wh_given=None if boxes.wh_given is None else freeze(boxes.wh_given & ~is_cut[:, None]),
        area=freeze(np.where(is_cut, np.nan, boxes.area)), track=None,
        source_id=freeze(np.full(len(rows), NO_ID)),
    )  # fmt: skip

    # The share of the area that is kept. Oriented boxes are not cut, but measured as if they were.
    areas = _measure_areas(boxes)
    if uncut.shapes is not None and boxes.shapes is not None:
        areas[(uncut.shapes.kind > 0) & (boxes.shapes.kind == 0)] = 0  # the outline lies beside the tile
        oriented = np.flatnonzero(uncut.shapes.kind == ShapeKind.ORIENTED)
        unit_corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
        tile_corners = limit[oriented, None] * unit_corners  # (boxes, 4, 2)
        areas[oriented] = shared_areas(uncut.shapes.corners(oriented), tile_corners.astype(np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        return boxes, np.where(source_areas > 0, np.minimum(areas / source_areas, 1), 1.0)


def _shrink_to_shapes(boxes: Boxes, uncut: Boxes, xyxy: Floats, height: Longs) -> Floats:
    """Return `xyxy` (n, 4), with boxes that a tile cuts drawn close around the part of their shape in it.

    `uncut` are the boxes before they were cut, and `height` (n,) that of their tile, both in its pixels.
    """
    if boxes.shapes is None:
        return xyxy
    kind = boxes.shapes.kind
    is_cut = (xyxy != uncut.xyxy).any(axis=1)
    around = boxes.shapes.edges()
    masks = np.flatnonzero((kind == ShapeKind.MASK) & is_cut)
    ltwh = boxes.shapes.take(masks).measure_masks(height[masks]).box
    around[masks] = np.hstack([ltwh[:, :2], ltwh[:, :2] + ltwh[:, 2:]])
    is_shrunk = is_cut & ((kind == ShapeKind.MASK) | (kind == ShapeKind.POLYGONS))
    edges = np.hstack([np.maximum(xyxy[:, :2], around[:, :2]), np.minimum(xyxy[:, 2:], around[:, 2:])])
    edges[:, 2:] = np.maximum(edges[:, :2], edges[:, 2:])  # 0 wide or high if the shape is beside its box
    return np.where(is_shrunk[:, None], edges, xyxy)


def _drop_json_shapes(boxes: Boxes, ledger: Ledger) -> Boxes:
    """Return the boxes without the shapes that are kept as JSON only, as these cannot be moved."""
    extra = {key: column for key, column in boxes.extra.items() if key not in SHAPES}
    for key in boxes.extra.keys() - extra.keys():
        ledger.lose(f"{key} that was not read as shapes", count_extra({key: boxes.extra[key]}).get(key, 0))
    return replace(boxes, extra=extra)


def _resize_images(images: Images, tiles: _Tiles) -> Images:
    """Return an image of the size of each tile, otherwise as the image it is cut from."""
    width, height = tiles.width.astype(np.int32), tiles.height.astype(np.int32)
    return replace(images.take(tiles.image), width=freeze(width), height=freeze(height))


def _measure_areas(boxes: Boxes) -> Floats:
    """Return (n,) the area of each shape in square pixels; of a box without a shape, width * height."""
    areas: Floats = np.abs(boxes.wh[:, 0] * boxes.wh[:, 1])
    shapes = boxes.shapes
    if shapes is None:
        return areas
    # The shoelace formula for all outlines at once. Corners 0 1 2 | 3 4 5 are followed by 1 2 0 | 4 5 3, and
    # sums over an outline are differences of one running sum. Relative to its first corner, values are small.
    n_corners = np.diff(shapes.point)
    next_corner = np.arange(len(shapes.xy)) + 1
    has_corners = n_corners > 0
    next_corner[shapes.point[1:][has_corners] - 1] = shapes.point[:-1][has_corners]
    first_corner = np.repeat(shapes.xy[shapes.point[:-1][has_corners]], n_corners[has_corners], axis=0)
    x, y = (shapes.xy - first_corner).T
    doubled = np.append(0, np.cumsum(x * y[next_corner] - y * x[next_corner])) if len(x) else np.zeros(1)
    ring_areas = np.abs(np.diff(doubled[shapes.point])) / 2
    area_before = np.append(0, np.cumsum(ring_areas))
    is_outline = (shapes.kind == ShapeKind.POLYGONS) | (shapes.kind == ShapeKind.ORIENTED)
    areas[is_outline] = np.diff(area_before[shapes.ring])[is_outline]
    mask_rows = np.flatnonzero(shapes.kind == ShapeKind.MASK)
    masks = shapes.take(mask_rows)
    areas[mask_rows] = Runs.of_texts(masks.text, masks.mask).areas()
    return areas


def _move_boxes(boxes: Boxes, offset: Floats, size: Longs, new_size: Longs) -> Boxes:
    """Move boxes, with their shapes and keypoints, onto images of another size.

    `offset` (n, 2) are pixels to the right and down; `size` and `new_size` (n, 2) are widths and heights of
    images.
    """
    xyxy = boxes.xyxy + np.tile(offset, 2)
    shapes, points = boxes.shapes, boxes.keypoints
    if shapes is not None:
        # `ring` has the first outline of each box, `point` the first corner of each outline.
        n_corners = np.diff(shapes.point[shapes.ring])
        shapes = replace(shapes, xy=freeze(shapes.xy + np.repeat(offset, n_corners, axis=0)))
        mask_rows = np.flatnonzero(shapes.kind == ShapeKind.MASK)
        if len(mask_rows):
            masks = shapes.take(mask_rows)
            runs = Runs.of_texts(masks.text, masks.mask)
            height = size[mask_rows, 1]
            moved_runs = move_runs(runs, offset[mask_rows].astype(np.int64), height, new_size[mask_rows])
            text, run_starts = write_texts(*moved_runs.counts(new_size[mask_rows].prod(axis=1)))
            shapes = shapes.replace_rows(mask_rows, Shapes.of_masks(text, run_starts))
    if points is not None:  # those that are not labelled (v = 0) have no position to be moved
        shift = np.repeat(offset, points.counts(), axis=0) * (points.xyv[:, 2:] > 0)
        points = replace(points, xyv=freeze(points.xyv + np.column_stack([shift, np.zeros(len(shift))])))
    return replace(boxes, xyxy=freeze(xyxy), shapes=shapes, keypoints=points)


def move_runs(runs: Runs, offset: Longs, height: Longs, new_size: Longs) -> Runs:
    """Move the pixels of masks onto images of another size, and cut them there.

    `offset` (n, 2) are columns and rows, `height` (n,) is that of the image of each mask, and `new_size`
    (n, 2) are width and height of the image that it is moved onto.
    """
    # A run is [start, end) in pixels counted down the columns: pixel = column * h + row. It is
    # divided at the ends of columns; of each piece `low` is the first row, `high` the row after the last.
    mask_number = np.repeat(np.arange(len(runs)), np.diff(runs.starts) // 2)
    start, end = runs.edge[0::2], runs.edge[1::2]
    h = height[mask_number]
    column, run = expand_ranges(start // h, (end - 1) // h - start // h + 1)  # a run may pass several columns
    mask_number, h = mask_number[run], h[run]
    low = np.maximum(start[run] - column * h, 0) + offset[mask_number, 1]
    high = np.minimum(end[run] - column * h, h) + offset[mask_number, 1]
    width, new_height = new_size[mask_number].T
    low, high = np.clip(low, 0, new_height), np.clip(high, 0, new_height)
    column = column + offset[mask_number, 0]
    is_kept = (column >= 0) & (column < width) & (high > low)
    # Pixels again; a key is mask number << 32 | pixel.
    edges = np.stack([low, high], axis=1)[is_kept] + (column * new_height)[is_kept, None]
    return Runs.of_keys((np.repeat(mask_number[is_kept], 2) << 32) | edges.reshape(-1), len(runs))


def _unlabel_outside(boxes: Boxes, limit: Longs, ledger: Ledger) -> Boxes:
    """Make keypoints outside their tile points that are not labelled; `limit` (n, 2) are sizes of tiles."""
    points = boxes.keypoints
    if points is None:
        return boxes
    x, y, v = points.xyv.T
    width, height = np.repeat(limit, points.counts(), axis=0).T
    is_outside = (v > 0) & ((x < 0) | (y < 0) | (x > width) | (y > height))
    ledger.change("keypoints outside the tile of their box, not labelled", int(np.count_nonzero(is_outside)))
    # Numbers of labelled points that the source states (`stated`) no longer hold: -1, none.
    xyv = np.where(is_outside[:, None], 0, points.xyv)
    return replace(boxes, keypoints=replace(points, xyv=freeze(xyv), stated=freeze(np.full(len(boxes), -1))))


class Cuts:
    """Cuts the pictures of tiles: knows the image file and the window of each, by the path of the tile.

    The third value of `windows` is the share of the image file's area that a tile has.
    """

    def __init__(self, windows: dict[str, tuple[str, tuple[int, int, int, int], float]]) -> None:
        self._windows = windows
        self._open: tuple[str, Any] = ("", None)
        self._faults: dict[str, str] = {}
        """What is wrong with image files that cannot be cut."""

    def __contains__(self, path: object) -> bool:
        return path in self._windows

    def __len__(self) -> int:
        return len(self._windows)

    def find_source(self, path: str) -> tuple[str, float]:
        """Return the image file of a tile, and the share of its area that the tile has."""
        source, _, share = self._windows[path]
        return source, share

    def picture(self, path: str) -> bytes:
        """The bytes of a tile in the format of its source; none if unreadable, which is kept for `check`."""
        from PIL import ImageOps

        from odm.pictures import open_picture

        source, window, _ = self._windows[path]
        target = io.BytesIO()
        if source in self._faults:
            return b""
        try:
            open_path, opened = self._open
            if open_path != source:  # tiles of one image follow one another
                with open_binary(source) as stream, open_picture(stream) as image:
                    kind = image.format
                    upright = ImageOps.exif_transpose(image)
                    upright.load()
                # An MPO file holds several JPEG pictures, of which the first is cut.
                opened = upright, {"MPO": "JPEG"}.get(str(kind), kind)
                self._open = source, opened
            upright, kind = opened
            upright.crop(window).save(target, kind, **({"quality": 95} if kind in ("JPEG", "WEBP") else {}))
        except Unreadable as e:
            self._faults[source] = str(e)
        except Exception as e:  # noqa: BLE001 -- a damaged picture makes Pillow raise almost anything
            self._faults[source] = f"damaged, {type(e).__name__}"
        return target.getvalue()

    def check(self) -> None:
        """Raise PathError, which names every image file that could not be cut."""
        if self._faults:
            named = [f"{printable(source)} ({shorten(fault)})" for source, fault in self._faults.items()]
            files = plural(len(named), "image file")
            raise PathError(f"{files} cannot be cut into tiles: {first_few(named, MOST_FAULTS, str)}")


# ------------------------------------------------------------------------------------------ back together


def find_origin(name: str) -> str:
    """The name of the image that a tile was cut from; a name of another kind is returned as it is."""
    match = _NAME.fullmatch(name)
    return match[1] + (match[6] or "") if match else name


def join(dataset: Dataset, share: float, ledger: Ledger) -> Dataset:
    """Return the dataset with the boxes of tiles on whole images, without duplicates where tiles overlap.

    Of two boxes of one class from different tiles, the one of the lower score, or the smaller one of labels,
    is left out where they share at least `share` of the area of the smaller one. Raises UsageError for
    another share than above 0 and up to 1, and for images that have no name of a tile.
    """
    if not 0 < share <= 1:
        raise UsageError(f"{spell('untile')} {share}: expected a share above 0 and up to 1")
    images = dataset.images
    origins, start, whole_size = _parse_names(images.name)

    # The whole images, in the order of their first tiles, and the row in them of each tile's image.
    row_of_name = {name: k for k, name in enumerate(dict.fromkeys(origins))}
    image_of_tile = np.array([row_of_name[name] for name in origins], np.int64)
    first_tile = first_index_of(image_of_tile, len(row_of_name))
    size = whole_size[first_tile].astype(np.int32)
    joined = replace(
        images.take(first_tile), name=tuple(row_of_name), path=("",) * len(row_of_name),
        width=freeze(size[:, 0].copy()), height=freeze(size[:, 1].copy()),
        source_id=freeze(np.full(len(first_tile), NO_ID)), video=None, frame=None, extra={},
    )  # fmt: skip

    tile = dataset.boxes.image.astype(np.int64)  # of each box
    boxes = _drop_json_shapes(dataset.boxes, ledger)
    moved = _move_boxes(boxes, start[tile].astype(np.float64), dataset.limits()[tile], whole_size[tile])
    moved = replace(moved, image=freeze(image_of_tile[tile].astype(np.int32)), track=None)
    is_dropped = _find_repeated(moved, tile, share)
    _book_whole_images(dataset, ledger)
    ledger.change("boxes put back from tiles onto their images", len(boxes))
    reason = f"boxes that another tile has too (they share {share:g} of the smaller one, {spell('untile')})"
    return ledger.leave_out(_replace_images(dataset, joined, moved), is_dropped, reason)


def check_reference(dataset: Dataset, reference: Dataset | None, target: str, *, of_tiles: bool) -> None:
    """Raise UsageError if detections need ids of a ground truth that has none of their images.

    A results file on tiles has the ids of the tiles, and one on whole images those of the images.
    """
    names = set(map(stem, dataset.images.name))
    if reference is None or dataset.kind != "det" or not names.isdisjoint(map(stem, reference.images.name)):
        return
    images_text, option = "the tiles" if of_tiles else "the whole images", spell("gt")
    raise UsageError(
        f"{printable(target)}: detections get their ids from {option}, which has none of {images_text}; "
        f"write txt or yolo with {spell('to')}, which name image files, and convert these with {option} "
        f"of {images_text}"
    )


def _parse_names(names: Sequence[str]) -> tuple[list[str], Longs, Longs]:
    """Parse the names of tiles, such as ``a_x512_y0_of_4000x3000.jpg``.

    Returns the names of the whole images (``a.jpg``), and in pixels (tiles, 2) x and y where each tile begins
    and (tiles, 2) width and height of its whole image. Raises UsageError for other names.
    """
    matches = [_NAME.fullmatch(name) for name in names]
    other_names = [name for name, match in zip(names, matches, strict=True) if match is None]
    if other_names:
        raise UsageError(
            f"{spell('untile')}: {plural(len(other_names), 'image')} of other names than those of tiles, "
            f"which end with _x512_y0_of_4000x3000: {listed(other_names[:3])}"
        )
    numbers = np.array([match.group(2, 3, 4, 5) for match in matches if match]).astype(np.int64)
    numbers = numbers.reshape(-1, 4)  # also of no names
    return [find_origin(name) for name in names], numbers[:, :2], numbers[:, 2:]


def _find_repeated(boxes: Boxes, tile: Longs, min_shared: float) -> NDArray[np.bool_]:
    """Return (n,) True for boxes that are left out, as a better one from a different tile is the same object.

    The better one has the higher score, or of labels the larger area. Boxes that are left out suppress no
    others. `tile` (n,) is the row of the tile of each box, `min_shared` the smallest share of the smaller box
    that both cover.
    """
    area = boxes.wh[:, 0] * boxes.wh[:, 1]
    best_first = np.argsort(-np.where(np.isnan(boxes.score), area, boxes.score), kind="stable")
    rank = np.empty(len(area), np.int64)
    rank[best_first] = np.arange(len(area))

    # The pairs that are one object, (2, pairs): the row of the better box, and that of the other one.
    pairs = [np.zeros((2, 0), np.int64)]
    for rows, later_rows in _find_neighbours(boxes):
        is_apart = tile[rows] != tile[later_rows]
        row_a, row_b = rows[is_apart], later_rows[is_apart]
        inner_low = np.maximum(boxes.xyxy[row_a, :2], boxes.xyxy[row_b, :2])
        inner_high = np.minimum(boxes.xyxy[row_a, 2:], boxes.xyxy[row_b, 2:])
        shared = np.maximum(inner_high - inner_low, 0).prod(axis=1)
        is_same = (shared >= min_shared * np.minimum(area[row_a], area[row_b])) & (shared > 0)
        duplicates = np.stack([row_a, row_b])[:, is_same]
        pairs.append(np.where(rank[duplicates[0]] < rank[duplicates[1]], duplicates, duplicates[::-1]))

    better_row, worse_row = np.concatenate(pairs, axis=1)
    return _suppress(better_row, worse_row, len(area))


def _suppress(better_row: Longs, worse_row: Longs, n: int) -> NDArray[np.bool_]:
    """Return (n,) True for boxes with a better box that stays. Pairs are `better_row[i]` and `worse_row[i]`.

    All boxes that can be decided are decided at once: of the pairs 0-1 and 1-2, 0 stays and drops 1 in the
    first round, and 2 stays in the second.
    """
    is_dropped = np.zeros(n, np.bool_)
    is_undecided = np.ones(n, np.bool_)
    while True:
        # A box waits while a better one is undecided; one that stays decides those that it suppresses.
        is_waiting = np.zeros(n, np.bool_)
        is_waiting[worse_row[is_undecided[better_row]]] = True
        is_staying = is_undecided & ~is_waiting
        if not is_staying.any():
            return is_dropped
        is_undecided &= ~is_staying
        is_dropped[worse_row[is_staying[better_row]]] = True
        is_undecided &= ~is_dropped


def _find_neighbours(boxes: Boxes) -> Iterator[Longs]:
    """Yield in blocks the rows (2, n) of boxes of one image and class that share columns of pixels."""
    _, group = np.unique(boxes.image.astype(np.int64) << 32 | boxes.category, return_inverse=True)
    edges = np.floor(boxes.xyxy[:, [0, 2]]).astype(np.int64)
    edges -= edges.min(initial=0)
    # A group is an image and a class. Sorted by group and left edge, a box pairs with those after it that
    # begin before it ends. Where a group has 10 columns, 0-4 2-9 6-8 of group 0 and 1-8 of group 1 lie at
    # 0-4 2-9 6-8 11-18: the first two boxes pair with one more each, the others with none.
    left_key, right_key = (group * (edges.max(initial=0) + 1) + edges.T).astype(np.int64)
    order = np.argsort(left_key, kind="stable")
    positions = np.arange(len(order))
    n_next = np.maximum(np.searchsorted(left_key[order], right_key[order], side="right") - positions - 1, 0)
    # Divide the positions into blocks of about so many pairs (-(-a // b) rounds up).
    n_blocks = -(-int(n_next.sum()) // _PAIRS_AT_A_TIME)
    bounds = np.searchsorted(np.cumsum(n_next), np.arange(1, n_blocks) * _PAIRS_AT_A_TIME)
    for block in np.split(positions, bounds):
        next_position, index = expand_ranges(block + 1, n_next[block])
        yield order[np.stack([block[index], next_position])]
