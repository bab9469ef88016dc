"""Cut images into tiles with what lies in each, and put tiles together again.

The tiles are those of SAHI's `slice_coco`: of one size, from the left and the top, the last of a row or of a
column moved back inside the image. Their names say where they lie: ``a_x512_y0_of_4000x3000.jpg`` begins at
column 512 of ``a.jpg``, whose size is 4000 x 3000.
"""

from __future__ import annotations

import io
import os
import re
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.codes import GIVE_SIZES
from odm.converters.ledger import Ledger
from odm.converters.shapes import clip_outlines
from odm.files import Unreadable, open_binary
from odm.issues import DataError, Log, PathError, UsageError, listed, plural, printable, shorten, spell
from odm.masks.runs import Runs, read_texts, spread, write_texts
from odm.names import stem
from odm.tables import NO_ID, Boxes, Dataset, Flag, Floats, Images, Longs, Shapes, frozen
from odm.tables.extra_fields import SHAPES, count_extra
from odm.tables.quadrilaterals import shared_areas
from odm.tables.shapes import ShapeKind

OVERLAP, LEAST, SAME = 0.2, 0.1, 0.5
"""Shares: of a tile that the next one covers too, of an object that a tile must have, and of the smaller of
two detections that the other covers if they are one object."""
_NAME = re.compile(r"(.+)_x([0-9]{1,9})_y([0-9]{1,9})_of_([0-9]{1,9})x([0-9]{1,9})(\.[^./]*)?", re.DOTALL)
_PAIRS_AT_A_TIME = 2**22


class Tiling(msgspec.Struct, frozen=True):
    """How images are cut. UsageError for values that leave no tile."""

    width: int
    height: int
    overlap: float = OVERLAP
    least: float = LEAST

    def __post_init__(self) -> None:
        if not 0 <= self.overlap < 1:
            raise UsageError(f"{spell('overlap')} {self.overlap}: expected a share from 0 to below 1")
        if not 0 <= self.least <= 1:
            raise UsageError(f"{spell('tile_min')} {self.least}: expected a share from 0 to 1")

    @classmethod
    def of_text(cls, text: str, overlap: float, least: float) -> Tiling:
        """The tiling of ``640x480``, or ``640`` for squares."""
        match = re.fullmatch(r"([1-9][0-9]{0,5})(?:x([1-9][0-9]{0,5}))?", text.strip(), re.ASCII)
        if not match:
            raise UsageError(f"{spell('tile')} {shorten(text)}: expected WxH in pixels, as in 640x640")
        return cls(int(match[1]), int(match[2] or match[1]), overlap, least)

    def starts(self, length: int, size: int) -> Longs:
        """The first pixels of the tiles along a side of `length` pixels, ascending."""
        step = max(1, size - int(self.overlap * size))
        n = 1 + max(0, -(-(length - size) // step))
        return np.minimum(np.arange(n) * step, max(0, length - size))


class _Tiles(msgspec.Struct, frozen=True):
    """The tiles of all images, row by row of each image, in columns of one value for each tile."""

    first: Longs
    """(images + 1,) where the tiles of each image begin."""
    image: Longs
    left: Longs
    top: Longs
    width: Longs
    height: Longs


def cut(dataset: Dataset, tiling: Tiling, ledger: Ledger, log: Log) -> tuple[Dataset, Cuts]:
    """Return the dataset of the tiles, and what cuts their pictures, by the paths that the images have.

    A box is in each tile that it touches, cut at its edges, unless the tile has a smaller share of its area
    than `Tiling.least`. Crowds and regions to ignore are never left out, keypoints outside become unlabelled.

    Raises
    ------
    DataError
        If the size of an image is not known.
    """
    sizes = dataset.limits()
    unknown = np.flatnonzero((sizes <= 0).any(axis=1)) if not dataset.relative else np.arange(len(sizes))
    if len(unknown):
        names = listed([dataset.images.name[row] for row in unknown.tolist()])
        number = plural(len(unknown), "image")
        raise DataError(f"{spell('tile')}: the size of {number} is not known: {names}; {GIVE_SIZES}", log)
    ledger.lose("tracks of boxes, as tiles are no video", 0 if dataset.images.video is None else len(dataset))
    ledger.lose("labels of whole images", len(dataset.labels.image))
    tiles = _grid(sizes, tiling)
    rows, tile = _pairs(dataset, tiles, tiling, sizes)
    images, cuts = _tile_images(dataset.images, tiles, sizes)
    boxes, share = _boxes_in_tiles(dataset, rows, tile, tiles, sizes, ledger)
    tiled = _with_images(dataset, images, boxes)
    few = (share < tiling.least) & ~boxes.has(Flag.CROWD | Flag.REGION) | (share <= 0)
    whole = len(np.unique(rows))
    ledger.read += len(rows) - whole
    ledger.change("boxes that stand in more than one tile", len(rows) - whole)
    ledger.change("boxes cut at the edge of a tile", int(np.count_nonzero((share < 1) & ~few)))
    if whole < len(dataset):
        ledger.left_out["boxes outside their image"] = len(dataset) - whole
    reason = f"boxes with less than {100 * tiling.least:g} % of their area in a tile ({spell('tile_min')})"
    return ledger.leave_out(tiled, few, reason), cuts


def _grid(sizes: Longs, tiling: Tiling) -> _Tiles:
    """The tiles of images of these sizes, (images, 2)."""
    columns: list[list[Longs]] = []
    counts = np.zeros(len(sizes), np.int64)
    of_size: dict[tuple[int, int], tuple[Longs, Longs]] = {}
    for row, (width, height) in enumerate(sizes.tolist()):
        if (width, height) not in of_size:
            x, y = tiling.starts(width, tiling.width), tiling.starts(height, tiling.height)
            of_size[width, height] = np.tile(x, len(y)), np.repeat(y, len(x))
        left, top = of_size[width, height]
        counts[row] = len(left)
        columns.append([left, top])
    image = np.repeat(np.arange(len(sizes)), counts)
    left, top = (np.concatenate([c[k] for c in columns]) if columns else image for k in (0, 1))
    width = np.minimum(tiling.width, sizes[image, 0])
    height = np.minimum(tiling.height, sizes[image, 1])
    return _Tiles(np.append(0, np.cumsum(counts)), image, left, top, width, height)


def _pairs(dataset: Dataset, tiles: _Tiles, tiling: Tiling, sizes: Longs) -> tuple[Longs, Longs]:
    """The rows of boxes and the tiles that they touch, by box; one without area counts as a pixel."""
    boxes, pairs = dataset.boxes, []
    size_of_box = sizes[boxes.image]
    low = np.minimum(boxes.xyxy[:, :2], boxes.xyxy[:, 2:])
    high = np.maximum(np.maximum(boxes.xyxy[:, :2], boxes.xyxy[:, 2:]), low + 1e-9)
    unique, group = np.unique(size_of_box, axis=0, return_inverse=True)
    for k, (width, height) in enumerate(unique.tolist()):
        rows = np.flatnonzero(group.reshape(-1) == k)
        begin, n = [], []
        for axis, (length, size) in enumerate(((width, tiling.width), (height, tiling.height))):
            starts = tiling.starts(length, size)
            first = np.searchsorted(starts + min(size, length), low[rows, axis], side="right")
            last = np.searchsorted(starts, high[rows, axis], side="left")
            begin.append(first)
            n.append(np.maximum(last - first, 0))
        in_row = len(tiling.starts(width, tiling.width))
        place, of = spread(np.zeros(len(rows), np.int64), n[0] * n[1])
        down, across = np.divmod(place, np.maximum(n[0][of], 1))
        at = (begin[1][of] + down) * in_row + begin[0][of] + across
        pairs.append(np.stack([rows[of], tiles.first[boxes.image[rows[of]]] + at]))
    joined = np.concatenate(pairs, axis=1) if pairs else np.zeros((2, 0), np.int64)
    row, tile = joined[:, np.lexsort((joined[0], joined[1]))]
    return row, tile


def _tile_images(images: Images, tiles: _Tiles, sizes: Longs) -> tuple[Images, Cuts]:
    """The tiles as images, whose paths are those that `Cuts` takes."""
    of = tiles.image.tolist()
    names, paths, cuts = [], [], {}
    corners = zip(
        of, tiles.left.tolist(), tiles.top.tolist(), tiles.width.tolist(), tiles.height.tolist(), strict=True
    )
    for i, left, top, width, height in corners:
        name, path = images.name[i], images.path[i]
        place = f"_x{left}_y{top}_of_{sizes[i, 0]}x{sizes[i, 1]}"
        names.append(f"{stem(name)}{place}{name[len(stem(name)) :]}")
        paths.append(f"{path}/{place}{os.path.splitext(path)[1]}" if path else "")
        if path:
            cuts[paths[-1]] = path, (left, top, left + width, top + height)
    taken = images.take(tiles.image)
    return replace(
        taken, name=tuple(names), path=tuple(paths), width=frozen(tiles.width.astype(np.int32)),
        height=frozen(tiles.height.astype(np.int32)), source_id=frozen(np.full(len(of), NO_ID)),
        video=None, frame=None, extra={},
    ), Cuts(cuts)  # fmt: skip


def _with_images(dataset: Dataset, images: Images, boxes: Boxes) -> Dataset:
    """The dataset with other images and boxes, without videos, tracks and labels of whole images."""
    empty = Dataset.from_arrays(images=(), categories=(), image=[], category=[], ltwh=np.zeros((0, 4)))
    nothing = {"labels": empty.labels, "videos": empty.videos, "tracks": empty.tracks}
    return replace(dataset, images=images, boxes=boxes, **nothing)


def _boxes_in_tiles(
    dataset: Dataset, rows: Longs, tile: Longs, tiles: _Tiles, sizes: Longs, ledger: Ledger
) -> tuple[Boxes, Floats]:
    """The boxes at `rows`, cut at the edges of their tiles, and the share of its area that each keeps."""
    source = _without_json(dataset.boxes, ledger).take(rows)
    origin = np.stack([tiles.left, tiles.top], axis=1)[tile].astype(np.float64)
    limit = np.stack([tiles.width, tiles.height], axis=1)[tile]
    boxes = _moved(source, -origin, sizes[source.image], limit)
    before, corners = _areas(source), np.tile(limit, 2) * np.array([0, 0, 1, 1])
    boxes = replace(boxes, image=frozen(tile.astype(np.int32)))
    whole = boxes
    if boxes.shapes is not None or boxes.keypoints is not None:
        one = _with_images(dataset, _sized(dataset.images, tiles), boxes)
        boxes = clip_outlines(one, np.ones(len(rows), np.bool_), Ledger("", "")).boxes
    xyxy = np.clip(boxes.xyxy, corners[:, [0, 1, 0, 1]], corners[:, [2, 3, 2, 3]])
    xyxy = _around_parts(boxes, whole, xyxy, limit[:, 1])
    boxes = _unlabelled_outside(boxes, limit, ledger)
    is_cut = (xyxy != boxes.xyxy).any(axis=1)
    wh = xyxy[:, 2:] - xyxy[:, :2]
    boxes = replace(
        boxes, xyxy=frozen(xyxy), wh=frozen(np.where(is_cut[:, None], wh, boxes.wh)),
        wh_given=None if boxes.wh_given is None else frozen(boxes.wh_given & ~is_cut[:, None]),
        area=frozen(np.where(is_cut, np.nan, boxes.area)), track=None,
        source_id=frozen(np.full(len(rows), NO_ID)),
    )  # fmt: skip
    after = _areas(boxes)
    if whole.shapes is not None and boxes.shapes is not None:
        after[(whole.shapes.kind > 0) & (boxes.shapes.kind == 0)] = 0  # the outline lies beside the tile
        turned = np.flatnonzero(whole.shapes.kind == ShapeKind.ORIENTED)
        rectangles = corners[turned][:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)
        after[turned] = shared_areas(whole.shapes.corners(turned), rectangles.astype(np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        return boxes, np.where(before > 0, np.minimum(after / before, 1), 1.0)


def _around_parts(boxes: Boxes, whole: Boxes, xyxy: Floats, height: Longs) -> Floats:
    """The edges of boxes that a tile cuts, `xyxy`, drawn close around the part of their shape in it."""
    if boxes.shapes is None:
        return xyxy
    kind = boxes.shapes.kind
    is_cut = (xyxy != whole.xyxy).any(axis=1)
    around = boxes.shapes.edges()
    masks = np.flatnonzero((kind == ShapeKind.MASK) & is_cut)
    ltwh = boxes.shapes.take(masks).measured(height[masks]).box
    around[masks] = np.hstack([ltwh[:, :2], ltwh[:, :2] + ltwh[:, 2:]])
    is_cut &= (kind == ShapeKind.MASK) | (kind == ShapeKind.POLYGONS)
    edges = np.hstack([np.maximum(xyxy[:, :2], around[:, :2]), np.minimum(xyxy[:, 2:], around[:, 2:])])
    edges[:, 2:] = np.maximum(edges[:, :2], edges[:, 2:])
    return np.where(is_cut[:, None], edges, xyxy)


def _without_json(boxes: Boxes, ledger: Ledger) -> Boxes:
    """The boxes without shapes that are only kept as JSON, whose places are not known."""
    kept = {key: column for key, column in boxes.extra.items() if key not in SHAPES}
    for key in boxes.extra.keys() - kept.keys():
        ledger.lose(f"{key} that was not read as shapes", count_extra({key: boxes.extra[key]}).get(key, 0))
    return replace(boxes, extra=kept)


def _sized(images: Images, tiles: _Tiles) -> Images:
    width, height = tiles.width.astype(np.int32), tiles.height.astype(np.int32)
    return replace(images.take(tiles.image), width=frozen(width), height=frozen(height))


def _areas(boxes: Boxes) -> Floats:
    """(n,) the areas of shapes, of boxes without one that of the box."""
    areas: Floats = np.abs(boxes.wh[:, 0] * boxes.wh[:, 1])
    shapes = boxes.shapes
    if shapes is None:
        return areas
    areas = areas.copy()
    corners = np.diff(shapes.point)
    following = np.arange(len(shapes.xy)) + 1
    some = corners > 0
    following[shapes.point[1:][some] - 1] = shapes.point[:-1][some]
    base = np.repeat(shapes.xy[shapes.point[:-1][some]], corners[some], axis=0)
    x, y = (shapes.xy - base).T
    twice = np.append(0, np.cumsum(x * y[following] - y * x[following])) if len(x) else np.zeros(1)
    of_ring = np.abs(np.diff(twice[shapes.point])) / 2
    total = np.append(0, np.cumsum(of_ring))
    is_outline = (shapes.kind == ShapeKind.POLYGONS) | (shapes.kind == ShapeKind.ORIENTED)
    areas[is_outline] = np.diff(total[shapes.ring])[is_outline]
    is_mask = np.flatnonzero(shapes.kind == ShapeKind.MASK)
    masks = shapes.take(is_mask)
    areas[is_mask] = Runs.of_counts(*read_texts(masks.text, masks.mask)[:2]).areas()
    return areas


def _moved(boxes: Boxes, by: Floats, size: Longs, new_size: Longs) -> Boxes:
    """Boxes whose place on an image of one size is moved onto one of another size; (n, 2) all of them."""
    xyxy = boxes.xyxy + np.tile(by, 2)
    shapes, points = boxes.shapes, boxes.keypoints
    if shapes is not None:
        corners = np.diff(shapes.point[shapes.ring])
        shapes = replace(shapes, xy=frozen(shapes.xy + np.repeat(by, corners, axis=0)))
        rows = np.flatnonzero(shapes.kind == ShapeKind.MASK)
        if len(rows):
            masks = shapes.take(rows)
            runs = Runs.of_counts(*read_texts(masks.text, masks.mask)[:2])
            moved = move_runs(runs, by[rows].astype(np.int64), size[rows, 1], new_size[rows])
            text, first = write_texts(*moved.counts(new_size[rows].prod(axis=1)))
            shapes = shapes.replaced(rows, Shapes.of_masks(text, first))
    if points is not None:
        step = np.repeat(by, points.counts(), axis=0) * (points.xyv[:, 2:] > 0)
        points = replace(points, xyv=frozen(points.xyv + np.column_stack([step, np.zeros(len(step))])))
    return replace(boxes, xyxy=frozen(xyxy), shapes=shapes, keypoints=points)


def move_runs(runs: Runs, by: Longs, height: Longs, new_size: Longs) -> Runs:
    """Move the pixels of masks by columns and rows (n, 2) onto images of another size, and cut them there.

    `height` of the images that they are on, (n,), and `new_size`, width and height (n, 2), of the others.
    """
    owner = np.repeat(np.arange(len(runs)), np.diff(runs.first) // 2)
    begin, end = runs.edge[0::2], runs.edge[1::2]
    h = height[owner]
    column, run = spread(begin // h, (end - 1) // h - begin // h + 1)  # a run may pass several columns
    owner, h = owner[run], h[run]
    low = np.maximum(begin[run] - column * h, 0) + by[owner, 1]
    high = np.minimum(end[run] - column * h, h) + by[owner, 1]
    width, new_height = new_size[owner].T
    low, high = np.clip(low, 0, new_height), np.clip(high, 0, new_height)
    column = column + by[owner, 0]
    kept = (column >= 0) & (column < width) & (high > low)
    edges = np.stack([low, high], axis=1)[kept] + (column * new_height)[kept, None]
    return Runs.of_keys((np.repeat(owner[kept], 2) << 32) | edges.reshape(-1), len(runs))


def _unlabelled_outside(boxes: Boxes, limit: Longs, ledger: Ledger) -> Boxes:
    """The boxes with keypoints outside their tile as points that are not labelled."""
    points = boxes.keypoints
    if points is None:
        return boxes
    x, y, v = points.xyv.T
    width, height = np.repeat(limit, points.counts(), axis=0).T
    outside = (v > 0) & ((x < 0) | (y < 0) | (x > width) | (y > height))
    ledger.change("keypoints outside the tile of their box, not labelled", int(np.count_nonzero(outside)))
    xyv = np.where(outside[:, None], 0, points.xyv)
    return replace(boxes, keypoints=replace(points, xyv=frozen(xyv), stated=frozen(np.full(len(boxes), -1))))


class Cuts:
    """The pictures of tiles: the source and the window of each, by the path that stands for it."""

    def __init__(self, windows: dict[str, tuple[str, tuple[int, int, int, int]]]) -> None:
        self._windows = windows
        self._open: tuple[str, Any] = ("", None)

    def __contains__(self, path: object) -> bool:
        return path in self._windows

    def picture(self, path: str) -> bytes:
        """The bytes of a tile in the format of its source. Raises PathError if that cannot be read."""
        from PIL import ImageOps

        from odm.pictures import open_picture

        source, window = self._windows[path]
        try:
            if self._open[0] != source:  # tiles of one image follow one another
                with open_binary(source) as stream, open_picture(stream) as image:
                    kind = image.format
                    upright = ImageOps.exif_transpose(image)
                    upright.load()
                self._open = source, (upright, {"MPO": "JPEG"}.get(str(kind), kind))
            upright, kind = self._open[1]
            target = io.BytesIO()
            upright.crop(window).save(target, kind, **({"quality": 95} if kind in ("JPEG", "WEBP") else {}))
        except Unreadable as e:
            raise PathError(f"{printable(source)}: {e}") from None
        except Exception as e:  # noqa: BLE001 -- a damaged picture makes Pillow raise almost anything
            raise PathError(f"{printable(source)}: cannot be cut ({type(e).__name__})") from None
        return target.getvalue()


# ------------------------------------------------------------------------------------------ back together


def origin_of(name: str) -> str:
    """The name of the image that a tile was cut from; a name of another kind is returned as it is."""
    match = _NAME.fullmatch(name)
    return match[1] + (match[6] or "") if match else name


def join(dataset: Dataset, same: float, ledger: Ledger) -> Dataset:
    """Return the dataset with the boxes of tiles on whole images, without duplicates where tiles overlap.

    Of two boxes of one class from different tiles, the one of the lower score, or the smaller one of labels,
    is left out where they share at least `same` of the area of the smaller one.
    """
    if not 0 < same <= 1:
        raise UsageError(f"{spell('untile')} {same}: expected a share above 0 and up to 1")
    images, matches = dataset.images, [_NAME.fullmatch(name) for name in dataset.images.name]
    others = [name for name, match in zip(images.name, matches, strict=True) if match is None]
    if others:
        raise UsageError(
            f"{spell('untile')}: {plural(len(others), 'image')} of other names than those of tiles, which "
            f"end with _x512_y0_of_4000x3000: {listed(others[:3])}"
        )
    wholes = {name: k for k, name in enumerate(dict.fromkeys(map(origin_of, images.name)))}
    whole = np.array([wholes[origin_of(name)] for name in images.name], np.int64)
    place = np.array([[int(match[k]) for k in (2, 3, 4, 5)] for match in matches if match], np.int64).reshape(
        -1, 4
    )
    at = np.zeros(len(wholes), np.int64)
    at[whole[::-1]] = np.arange(len(whole))[::-1]
    size = place[at, 2:].astype(np.int32)
    joined = replace(
        images.take(at), name=tuple(wholes), path=("",) * len(wholes), width=frozen(size[:, 0].copy()),
        height=frozen(size[:, 1].copy()), source_id=frozen(np.full(len(at), NO_ID)), video=None, frame=None,
        extra={},
    )  # fmt: skip
    tile, boxes = dataset.boxes.image.astype(np.int64), dataset.boxes
    boxes = _without_json(boxes, ledger)
    moved = _moved(boxes, place[tile, :2].astype(np.float64), dataset.limits()[tile], place[tile, 2:])
    moved = replace(moved, image=frozen(whole[tile].astype(np.int32)), track=None)
    dropped = _repeated(moved, tile, same)
    ledger.change("boxes put back from tiles onto their images", len(boxes))
    reason = f"boxes that another tile has too (they share {same:g} of the smaller one, {spell('untile')})"
    return ledger.leave_out(_with_images(dataset, joined, moved), dropped, reason)


def _repeated(boxes: Boxes, tile: Longs, same: float) -> NDArray[np.bool_]:
    """(n,) which boxes another one from a different tile suppresses: by descending score, or by area."""
    area = boxes.wh[:, 0] * boxes.wh[:, 1]
    rank = np.argsort(np.argsort(-np.where(np.isnan(boxes.score), area, boxes.score), kind="stable"))
    order = np.lexsort((rank, boxes.category, boxes.image))
    key = np.stack([boxes.image, boxes.category], axis=1)[order]
    ends = np.append(np.flatnonzero((np.diff(key, axis=0) != 0).any(axis=1)) + 1, len(order))
    above: list[Longs] = []
    below: list[Longs] = []
    start = 0
    for end in ends.tolist():
        rows, start = order[start:end], end
        if len(rows) < 2 or (tile[rows] == tile[rows[0]]).all():
            continue
        step = max(1, _PAIRS_AT_A_TIME // len(rows))
        for begin in range(0, len(rows), step):
            part = rows[begin : begin + step]
            low = np.maximum(boxes.xyxy[part, None, :2], boxes.xyxy[None, rows, :2])
            high = np.minimum(boxes.xyxy[part, None, 2:], boxes.xyxy[None, rows, 2:])
            shared = np.maximum(high - low, 0).prod(axis=2)
            least = same * np.minimum(area[part, None], area[None, rows])
            near = (shared >= least) & (shared > 0) & (tile[part, None] != tile[None, rows])
            i, j = np.nonzero(near & (rank[part, None] < rank[None, rows]))
            above.append(part[i])
            below.append(rows[j])
    dropped = np.zeros(len(order), np.bool_)
    if not above:
        return dropped
    high_row, low_row = np.concatenate(above), np.concatenate(below)
    is_open = np.ones(len(order), np.bool_)
    while True:  # a box stays once no box above it is undecided; what it suppresses is decided then, too
        waits = np.zeros(len(order), np.bool_)
        waits[low_row[is_open[high_row] & ~dropped[high_row]]] = True
        stays = is_open & ~waits & ~dropped
        if not stays.any():
            return dropped
        is_open &= ~stays
        dropped[low_row[stays[high_row]]] = True
        is_open &= ~dropped
