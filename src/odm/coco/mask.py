"""The functions of ``pycocotools.mask``, with its types: counts are bytes, and masks lie along the last axis.

`odm.masks` has the same for arrays of (n, height, width), and more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm import masks
from odm.issues import UsageError
from odm.masks.polygons import rasterise_all
from odm.masks.runs import offsets, write_texts

Rle = dict[str, Any]

__all__ = ["area", "decode", "encode", "frPyObjects", "iou", "merge", "toBbox"]


def encode(bimask: NDArray[Any]) -> Rle | list[Rle]:
    """A mask (height, width) as RLE, or those of (height, width, n) as a list."""
    array = np.asarray(bimask)
    if array.ndim == 3:
        return [_encode_counts(rle) for rle in masks.encode(array.transpose(2, 0, 1))]
    return _encode_counts(masks.encode(array))


def decode(rleObjs: Rle | Sequence[Rle]) -> NDArray[np.uint8]:  # noqa: N803 -- pycocotools' word
    """RLE as (height, width), or a list of them as (height, width, n)."""
    decoded = masks.decode(rleObjs).astype(np.uint8)
    return decoded if isinstance(rleObjs, dict) else np.asfortranarray(decoded.transpose(1, 2, 0))


def area(rleObjs: Rle | Sequence[Rle]) -> Any:  # noqa: N803
    """Pixels of RLE, or of a list of them (n,)."""
    areas = masks.area(rleObjs)
    return np.uint32(areas) if isinstance(rleObjs, dict) else areas.astype(np.uint32)


def toBbox(rleObjs: Rle | Sequence[Rle]) -> NDArray[np.float64]:  # noqa: N802, N803
    """Left, top, width and height around the pixels of RLE, (4,), or of a list of them, (n, 4)."""
    return masks.boxes(rleObjs).astype(np.float64)


def merge(rleObjs: Sequence[Rle], intersect: bool = False) -> Rle:  # noqa: N803
    """The union, or the intersection, of masks; an empty mask of no size if their sizes differ."""
    if len({tuple(rle["size"]) for rle in rleObjs}) != 1:
        return {"size": [0, 0], "counts": b""}
    if len(rleObjs) == 1:
        return _encode_counts(rleObjs[0])
    runs, height, width = masks.read_runs(rleObjs)
    merged = runs.merge(len(rleObjs) if intersect else 1)  # pixels of at least so many masks
    return _encode_counts(masks.compress_runs(merged, height[:1], width[:1])[0])


def iou(dt: Any, gt: Any, pyiscrowd: Sequence[int]) -> Any:
    """(n, m) intersection over union of masks, or of boxes (n, 4) of left, top, width and height.

    Masks whose boxes overlap, but whose sizes differ, have -1; ``[]`` if one side is empty. `pyiscrowd` has a
    value for each of `gt`. Raises UsageError if that or the shapes of the sides do not fit.
    """
    # The sides that are boxes: none, one of the two, which is refused, or both.
    boxes = [np.asarray(side, np.float64) for side in (dt, gt) if len(side) and not isinstance(side[0], dict)]
    for side in boxes:
        if side.ndim != 2 or side.shape[1] != 4:
            raise UsageError(f"expected masks, or boxes (n, 4), found an array of shape {side.shape}")
    if not len(dt) or not len(gt):
        return []
    crowd = np.asarray(pyiscrowd).astype(bool)
    if len(crowd) != len(gt):
        raise UsageError(
            f"pyiscrowd: expected one value for each ground truth, {len(gt)}, found {len(crowd)}"
        )
    if len(boxes) == 1:
        raise UsageError("expected masks or boxes, found masks on one side and boxes on the other")
    return box_iou(boxes[0], boxes[1], crowd) if boxes else _mask_iou(dt, gt, crowd)


def _mask_iou(dt: Sequence[Rle], gt: Sequence[Rle], crowd: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return (n, m) IoU of masks, -1 where boxes overlap but sizes differ; `crowd` (m,) is of `gt`."""
    det_size, gt_size = (np.array([rle["size"] for rle in side]) for side in (dt, gt))
    if (det_size == gt_size[0]).all() and (gt_size == gt_size[0]).all():
        return masks.iou(dt, gt, crowd)
    ious = np.where(box_iou(toBbox(dt), toBbox(gt), crowd) > 0, -1.0, 0.0)
    for size in np.unique(det_size, axis=0):
        rows, columns = (np.flatnonzero((sizes == size).all(axis=1)) for sizes in (det_size, gt_size))
        detections, truths = [dt[i] for i in rows.tolist()], [gt[i] for i in columns.tolist()]
        ious[np.ix_(rows, columns)] = masks.iou(detections, truths, crowd[columns])
    return ious


def box_iou(
    dt: NDArray[np.float64], gt: NDArray[np.float64], crowd: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """(n, m) intersection over union of boxes (n, 4) and (m, 4) of left, top, width and height.

    With a ground truth of the mask `crowd` (m,), the union is the area of the detection.
    """
    # fmin and fmax, as in pycocotools: of NaN and a number they return the number.
    low = np.fmax(dt[:, None, :2], gt[None, :, :2])
    high = np.fmin(dt[:, None, :2] + dt[:, None, 2:], gt[None, :, :2] + gt[None, :, 2:])
    sides = np.maximum(high - low, 0)
    intersection = sides[..., 0] * sides[..., 1]
    det_area, gt_area = dt[:, 2] * dt[:, 3], gt[:, 2] * gt[:, 3]
    union = np.where(crowd[None, :], det_area[:, None], det_area[:, None] + gt_area[None, :] - intersection)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(intersection > 0, intersection / union, 0.0)


def frPyObjects(pyobj: Any, h: int, w: int) -> Any:  # noqa: N802
    """Return the RLE of outlines, of uncompressed RLE or of boxes: one for one object, a list for a list.

    A flat list of four numbers is a box, a longer one an outline.
    """
    if isinstance(pyobj, dict):
        return frUncompressedRLE([pyobj], h, w)[0]
    if isinstance(pyobj, np.ndarray):
        return frBbox(pyobj, h, w)
    if not isinstance(pyobj, list):
        raise TypeError("input type is not supported")
    first_object = pyobj[0] if pyobj else ()
    if isinstance(first_object, dict):
        return frUncompressedRLE(pyobj, h, w)
    if np.ndim(first_object):  # a list of boxes or outlines, not the numbers of one
        return (frBbox if len(first_object) == 4 else frPoly)(pyobj, h, w)
    return (frBbox if len(pyobj) == 4 else frPoly)([pyobj], h, w)[0]


def frPoly(poly: Sequence[Any], h: int, w: int) -> list[Rle]:  # noqa: N802
    """The RLE of each outline ``[x, y, x, y, ...]``; an odd last number is dropped."""
    return fill_outlines([[outline] for outline in poly], np.full(len(poly), h), np.full(len(poly), w))


def frBbox(bb: Any, h: int, w: int) -> list[Rle]:  # noqa: N802
    """The RLE of each box (n, 4) of left, top, width and height."""
    ltwh = np.asarray(bb, np.float64).reshape(-1, 4)
    left, top, right, bottom = (*ltwh[:, :2].T, *(ltwh[:, :2] + ltwh[:, 2:]).T)
    return frPoly(np.stack([left, top, left, bottom, right, bottom, right, top], axis=1), h, w)  # type: ignore[arg-type]


def frUncompressedRLE(ucRles: Sequence[Rle], h: int, w: int) -> list[Rle]:  # noqa: N802, N803, ARG001
    """The RLE of each list of run lengths, written as text; `h` and `w` are not used, nor in pycocotools."""
    compressed = []
    for rle in ucRles:
        counts = rle["counts"]
        if not isinstance(counts, (str, bytes)):
            lengths = np.asarray(counts, np.uint32).astype(np.int64)
            counts = write_texts(np.array([0, len(lengths)]), lengths)[0].tobytes()
        compressed.append(_encode_counts({"size": rle["size"], "counts": counts}))
    return compressed


def fill_outlines(
    objects: Sequence[Sequence[Any]], height: NDArray[np.int64], width: NDArray[np.int64]
) -> list[Rle]:
    """The RLE of each of n objects, the union of its outlines; `height` and `width` of the images, (n,)."""
    outlines = [np.asarray(outline, np.float64).ravel() for outlines in objects for outline in outlines]
    corners = [outline[: len(outline) // 2 * 2].reshape(-1, 2) for outline in outlines]
    xy = np.concatenate([np.zeros((0, 2)), *corners])
    if not np.isfinite(xy).all():
        raise UsageError("an outline has a corner that is not finite")
    point, ring = offsets(np.array([*map(len, corners)])), offsets(np.array([*map(len, objects)]))
    runs = rasterise_all(xy, point, ring, height, width)
    return [_encode_counts(rle) for rle in masks.compress_runs(runs, height, width)]


def _toString(Rs: Sequence[Rle]) -> list[Rle]:  # noqa: N802, N803
    """RLE with counts as bytes."""
    return [_encode_counts(rle) for rle in Rs]


_frString = _toString  # noqa: N816


def _encode_counts(rle: Any) -> Rle:
    counts = rle["counts"]
    return {"size": list(rle["size"]), "counts": counts.encode() if isinstance(counts, str) else counts}
