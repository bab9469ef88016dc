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

Rle = dict[str, Any]

__all__ = ["area", "decode", "encode", "frPyObjects", "iou", "merge", "toBbox"]


def encode(bimask: NDArray[Any]) -> Rle | list[Rle]:
    """A mask (height, width) as RLE, or those of (height, width, n) as a list."""
    array = np.asarray(bimask)
    if array.ndim == 3:
        return [_with_bytes(one) for one in masks.encode(array.transpose(2, 0, 1))]
    return _with_bytes(masks.encode(array))


def decode(rleObjs: Rle | Sequence[Rle]) -> NDArray[np.uint8]:  # noqa: N803 -- pycocotools' word
    """RLE as (height, width), or a list of them as (height, width, n)."""
    found = masks.decode(rleObjs).astype(np.uint8)
    return found if isinstance(rleObjs, dict) else np.asfortranarray(found.transpose(1, 2, 0))


def area(rleObjs: Rle | Sequence[Rle]) -> Any:  # noqa: N803
    """Pixels of RLE, or of a list of them (n,)."""
    found = masks.area(rleObjs)
    return np.uint32(found) if isinstance(rleObjs, dict) else found.astype(np.uint32)


def toBbox(rleObjs: Rle | Sequence[Rle]) -> NDArray[np.float64]:  # noqa: N802, N803
    """Left, top, width and height around the pixels of RLE, (4,), or of a list of them, (n, 4)."""
    return masks.boxes(rleObjs).astype(np.float64)


def merge(rleObjs: Sequence[Rle], intersect: bool = False) -> Rle:  # noqa: N803
    """The union, or the intersection, of masks of one size."""
    if not len(rleObjs):
        return {"size": [0, 0], "counts": b""}
    found = masks.decode(list(rleObjs))
    return _with_bytes(masks.encode(found.all(axis=0) if intersect else found.any(axis=0)))


def iou(dt: Any, gt: Any, pyiscrowd: Sequence[int]) -> Any:
    """(n, m) intersection over union of masks, or of boxes (n, 4) of left, top, width and height."""
    if not len(dt) or not len(gt):
        return []
    crowd = np.asarray(pyiscrowd).astype(bool)
    if len(crowd) != len(gt):
        raise UsageError(
            f"pyiscrowd: expected one value for each ground truth, {len(gt)}, found {len(crowd)}"
        )
    if isinstance(dt[0], dict):
        return masks.iou(dt, gt, crowd)
    return box_iou(
        np.asarray(dt, np.float64).reshape(-1, 4), np.asarray(gt, np.float64).reshape(-1, 4), crowd
    )


def box_iou(
    dt: NDArray[np.float64], gt: NDArray[np.float64], crowd: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """(n, m) intersection over union of boxes (n, 4) and (m, 4) of left, top, width and height."""
    # fmin and fmax, as there: a number that is not finite leaves the other one.
    low = np.fmax(dt[:, None, :2], gt[None, :, :2])
    high = np.fmin(dt[:, None, :2] + dt[:, None, 2:], gt[None, :, :2] + gt[None, :, 2:])
    side = np.maximum(high - low, 0)
    both = side[..., 0] * side[..., 1]
    own, other = dt[:, 2] * dt[:, 3], gt[:, 2] * gt[:, 3]
    whole = np.where(crowd[None, :], own[:, None], own[:, None] + other[None, :] - both)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(both > 0, both / whole, 0.0)


def frPyObjects(pyobj: Any, h: int, w: int) -> Any:  # noqa: N802
    """RLE of outlines, of uncompressed RLE or of boxes: one for one object, a list for a list."""
    first = pyobj[0] if isinstance(pyobj, list) and pyobj else None
    if isinstance(pyobj, np.ndarray) or (isinstance(first, (list, tuple, np.ndarray)) and len(first) == 4):
        return [_of_outline(_corners_of_box(box), h, w) for box in pyobj]
    if isinstance(first, dict):
        return [_compressed(one) for one in pyobj]
    if isinstance(pyobj, dict):
        return _compressed(pyobj)
    if isinstance(pyobj, list) and (not pyobj or isinstance(first, (list, tuple, np.ndarray))):
        return [_of_outline(one, h, w) for one in pyobj]
    if _is_box(pyobj):
        return _of_outline(_corners_of_box(pyobj), h, w)
    if isinstance(pyobj, list):
        return _of_outline(pyobj, h, w)
    raise TypeError("input type is not supported")


def _is_box(value: Any) -> bool:
    return bool(np.shape(value) == (4,))


def _corners_of_box(box: Any) -> list[float]:
    x, y, w, h = (float(value) for value in box)
    return [x, y, x, y + h, x + w, y + h, x + w, y]


def _of_outline(outline: Any, h: int, w: int) -> Rle:
    return _with_bytes(masks.rasterise([outline], h, w))


def _compressed(rle: Rle) -> Rle:
    """RLE with text, whose runs are not looked at if it has text already."""
    if isinstance(rle["counts"], (str, bytes)):
        return _with_bytes(rle)
    return _with_bytes(masks.encode(masks.decode(rle)))


def _with_bytes(rle: Any) -> Rle:
    counts = rle["counts"]
    return {"size": list(rle["size"]), "counts": counts.encode() if isinstance(counts, str) else counts}
