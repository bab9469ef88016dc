"""Masks: compressed, measured, compared, drawn from outlines and traced, as pycocotools does it, bit for bit.

A mask is a boolean array (height, width), or compressed as in COCO files: ``{"size": [height, width],
"counts": ...}`` with the lengths of its runs down the columns, as COCO's text (str or bytes) or as a list of
numbers.

>>> import numpy as np
>>> from odm import masks
>>> square = np.zeros((20, 20), bool)
>>> square[3:9, 2:12] = True
>>> masks.encode(square)
{'size': [20, 20], 'counts': '[16>00000000000000000m4'}
>>> masks.area(masks.rasterise([[2, 3, 12, 3, 12, 9, 2, 9]], 20, 20))
60
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from odm.masks.runs import (
    MOST_PIXELS,
    Floats,
    Longs,
    Runs,
    count_shared_pixels,
    offsets,
    read_texts,
    sum_groups,
    write_texts,
)

__all__ = ["area", "boxes", "decode", "encode", "iou", "outlines", "rasterise"]

Compressed = Mapping[str, Any]


def encode(mask: ArrayLike) -> dict[str, Any] | list[dict[str, Any]]:
    """Compress a mask (height, width), or each of (n, height, width); what is not 0 is inside.

    Raises
    ------
    ValueError
        If the array has another number of dimensions, or holds anything but numbers.

    Examples
    --------
    >>> encode([[0, 0, 1], [0, 0, 1]])
    {'size': [2, 3], 'counts': '42'}
    """
    values = np.asarray(mask)
    if values.dtype.kind not in "biufc":
        raise ValueError(f"a mask is an array of numbers, not of {values.dtype}")
    array = values != 0
    if array.ndim not in (2, 3):
        raise ValueError(f"a mask has 2 dimensions, or 3 for many; this array has {array.ndim}")
    masks = array if array.ndim == 3 else array[None]
    height, width = masks.shape[1:]
    edges = [_find_edges(pixels) for pixels in masks]
    runs = Runs(offsets(np.array([len(e) for e in edges])), np.concatenate([np.zeros(0, np.int64), *edges]))
    compressed = compress_runs(runs, np.full(len(masks), height), np.full(len(masks), width))
    return compressed if array.ndim == 3 else compressed[0]


def decode(mask: Compressed | Sequence[Compressed]) -> NDArray[np.bool_]:
    """A compressed mask as (height, width), or several of one size as (n, height, width).

    Raises
    ------
    ValueError
        If one is no compressed mask or cannot be decoded, its runs do not add up to its size, or sizes
        differ.

    Examples
    --------
    >>> decode({"size": [2, 2], "counts": [0, 2, 1, 1]}).tolist()
    [[True, False], [True, True]]
    """
    runs, height, width = read_runs(mask)
    sizes = set(zip(height.tolist(), width.tolist(), strict=True))
    if len(sizes) > 1:
        raise ValueError(f"masks of {len(sizes)} different sizes cannot be one array")
    h, w = sizes.pop() if sizes else (0, 0)
    pixels = np.zeros((len(runs), w * h), bool)
    for row, (start, stop) in zip(pixels, zip(runs.starts[:-1], runs.starts[1:], strict=True), strict=True):
        # Edges 2 4 5 6 of a mask of 7 pixels:  step  0 0 1 0 -1 1 -1,  running sums  0 0 1 1 0 1 0
        step = np.zeros(w * h + 1, np.int8)
        step[runs.edge[start:stop:2]] = 1
        step[runs.edge[start + 1 : stop : 2]] -= 1
        row[:] = np.cumsum(step[:-1], dtype=np.int8)
    masks = pixels.reshape(len(runs), w, h).transpose(0, 2, 1)  # runs go down the columns
    return masks[0] if isinstance(mask, Mapping) else masks


def area(mask: Compressed | Sequence[Compressed]) -> Any:
    """Count the pixels of a compressed mask, int, or of several, (n,). Raises ValueError as `decode` does.

    Examples
    --------
    >>> area({"size": [2, 2], "counts": [0, 2, 1, 1]})
    3
    """
    runs, _, _ = read_runs(mask)
    areas = runs.areas()
    return int(areas[0]) if isinstance(mask, Mapping) else areas


def boxes(mask: Compressed | Sequence[Compressed]) -> Longs:
    """Return left, top, width and height in pixels of a compressed mask, (4,), or of several, (n, 4).

    Zeros for a mask without pixels. ValueError as for `decode`.

    Examples
    --------
    >>> boxes({"size": [4, 4], "counts": [5, 2, 9]}).tolist()
    [1, 1, 1, 2]
    """
    runs, height, _ = read_runs(mask)
    ltwh = runs.boxes(height)
    return ltwh[0] if isinstance(mask, Mapping) else ltwh


def iou(
    detections: Sequence[Compressed], truths: Sequence[Compressed], crowd: ArrayLike | None = None
) -> Floats:
    """(n, m) intersection over union of n detections and m truths; over the detection's area with a crowd.

    Parameters
    ----------
    crowd
        (m,) which of `truths` stand for many objects.

    Raises
    ------
    ValueError
        As for `decode`, if not all masks are of images of one size, or if `crowd` is not one value for each
        of `truths`.

    Examples
    --------
    >>> left, right = {"size": [1, 4], "counts": [0, 3, 1]}, {"size": [1, 4], "counts": [1, 3]}
    >>> iou([left], [left, right]).tolist()
    [[1.0, 0.5]]
    """
    detection_runs, height, width = read_runs(detections)
    truth_runs, *truth_size = read_runs(truths)
    # The sizes (height, width) of all masks of both sides: more than one?
    if len({*zip(height.tolist(), width.tolist()), *zip(*(v.tolist() for v in truth_size))}) > 1:  # noqa: B905
        raise ValueError("masks of different sizes cannot be compared")
    n, m = len(detection_runs), len(truth_runs)
    detection_rows, truth_rows = (v.ravel() for v in np.indices((n, m)))
    n_shared = count_shared_pixels(detection_runs, detection_rows, truth_runs, truth_rows)
    det_area = detection_runs.areas()[detection_rows]
    is_crowd = np.zeros(m, bool) if crowd is None else np.asarray(crowd)
    if is_crowd.shape != (m,) or (is_crowd.dtype.kind not in "biuf" and m):
        raise ValueError(f"crowd is one truth value for each of the {m} others, not {crowd!r:.80}")
    is_crowd = is_crowd.astype(bool)
    divisor = np.where(is_crowd[truth_rows], det_area, det_area + truth_runs.areas()[truth_rows] - n_shared)
    return np.divide(n_shared, divisor, out=np.zeros(n * m), where=n_shared > 0).reshape(n, m)


def rasterise(outlines: Sequence[ArrayLike], height: int, width: int) -> dict[str, Any]:
    """The compressed mask of an object: the union of its outlines, each filled by the even-odd rule.

    Parameters
    ----------
    outlines
        Corners in pixels, each (k, 2) or as a flat list ``[x, y, x, y, ...]``.

    Raises
    ------
    ValueError
        If an outline has fewer than three corners or a value that is not a finite number, if the size is not
        two whole numbers, or if the image or the outlines are too large.

    Examples
    --------
    >>> area(rasterise([[2, 3, 12, 3, 12, 9, 2, 9]], 20, 20))
    60
    """
    from odm.masks.polygons import write_outlines

    if isinstance(outlines, str | bytes | Mapping) or not isinstance(outlines, Iterable):
        raise ValueError(f"outlines are a list of outlines, not {type(outlines).__name__}")  # noqa: TRY004
    corners = [_parse_corners(outline) for outline in outlines]
    height, width = _parse_size(height, width)
    xy = np.concatenate([np.zeros((0, 2)), *corners])
    point, ring = offsets(np.array([len(c) for c in corners])), np.array([0, len(corners)])  # one object
    text, _ = write_outlines(xy, point, ring, np.array([height]), np.array([width]))
    return {"size": [height, width], "counts": text.tobytes().decode()}


def outlines(mask: Compressed) -> list[Floats]:
    """The outlines of a compressed mask along the edges of its pixels, each (corners, 2); not closed.

    Filled by `rasterise` they give the same pixels. Parts that touch only at a corner are separate outlines,
    and a hole is joined to the outline around it by a bridge of no width. ValueError as for `decode`.

    Examples
    --------
    >>> [corners.tolist() for corners in outlines({"size": [3, 3], "counts": [4, 1, 4]})]
    [[[1.0, 2.0], [1.0, 1.0], [2.0, 1.0], [2.0, 2.0]]]
    """
    from odm.masks.trace import trace_all

    if not isinstance(mask, Mapping):
        raise ValueError(f"expected one compressed mask, not {type(mask).__name__}")  # noqa: TRY004
    runs, height, _ = read_runs(mask)
    return trace_all(runs, height)[0]


def _find_edges(mask: NDArray[np.bool_]) -> Longs:
    """Return the pixels, down the columns of a mask (height, width), where a run begins or has ended."""
    column_pixels = np.concatenate([[False], mask.T.ravel(), [False]])
    return np.flatnonzero(column_pixels[1:] != column_pixels[:-1])


def _parse_corners(outline: ArrayLike) -> Floats:
    """Return the corners (k, 2) of an outline, which may be flat. Raises ValueError if it is none."""
    try:
        corners = np.asarray(outline, np.float64)
    except (TypeError, OverflowError) as e:
        raise ValueError(f"an outline is 3 or more pairs of x and y: {e}") from None
    is_flat_or_pairs = corners.ndim == 1 or corners.shape[1:] == (2,)
    if corners.size % 2 or corners.size < 6 or not is_flat_or_pairs:
        raise ValueError(f"an outline is 3 or more pairs of x and y, not an array of shape {corners.shape}")
    if not np.isfinite(corners).all():
        raise ValueError("an outline has a corner that is not finite")
    return corners.reshape(-1, 2)


def _parse_size(height: Any, width: Any) -> tuple[int, int]:
    """Return the size of a mask as two int. Raises ValueError if it is none, or too large."""
    try:
        height, width = operator.index(height), operator.index(width)
    except TypeError:
        raise ValueError(f"the size {height!r:.40} x {width!r:.40} is not two whole numbers") from None
    if min(height, width) < 0 or max(height, width, height * width) >= MOST_PIXELS:
        raise ValueError(f"a mask of {width} x {height} pixels: the size must be below 2^32 pixels")
    return height, width


def read_runs(masks: Compressed | Sequence[Compressed]) -> tuple[Runs, Longs, Longs]:
    """Return the runs of n compressed masks, and their heights and widths, (n,) each; errors as `decode`."""
    if not isinstance(masks, Iterable):
        raise ValueError(f"expected compressed masks, not {type(masks).__name__}")  # noqa: TRY004
    mask_list = [masks] if isinstance(masks, Mapping) else list(masks)
    pairs = []
    for i, mask in enumerate(mask_list):
        try:
            height, width = mask["size"]
            mask["counts"]  # must be there
        except (KeyError, TypeError, ValueError, IndexError):
            raise ValueError(f"mask {i}: a compressed mask has size [height, width] and counts") from None
        pairs.append(_parse_size(height, width))
    sizes = np.array(pairs, np.int64).reshape(-1, 2)
    texts = [_counts_to_text(mask["counts"], i) for i, mask in enumerate(mask_list)]
    length_starts, counts, is_wrong = read_texts(
        np.frombuffer(b"".join(texts), np.uint8), offsets(np.array([*map(len, texts)]))
    )
    n_pixels = sum_groups(counts, length_starts)
    has_negative = sum_groups(counts < 0, length_starts) > 0
    for i in np.flatnonzero(is_wrong | has_negative).tolist():  # of the first one
        raise ValueError(f"mask {i}: counts cannot be decoded")
    for i in np.flatnonzero(n_pixels != sizes[:, 0] * sizes[:, 1]).tolist():
        height, width = sizes[i]
        raise ValueError(
            f"mask {i}: its runs have {n_pixels[i]} pixels, not {width} x {height} = {width * height}"
        )
    return Runs.of_counts(length_starts, counts), sizes[:, 0], sizes[:, 1]


def _counts_to_text(counts: str | bytes | Sequence[int], i: int) -> bytes:
    """Return the compressed text of the counts of mask `i`. Raises ValueError if they are none."""
    if isinstance(counts, bytes):
        return counts
    if isinstance(counts, str):
        return counts.encode("utf-8", "surrogatepass")
    try:
        numbers = np.asarray(counts)
    except ValueError:  # lists of different lengths
        numbers = np.zeros((0, 0))
    is_valid = numbers.ndim == 1 and (numbers.dtype.kind in "iu" or not numbers.size)
    if not is_valid or ((numbers < 0) | (numbers >= MOST_PIXELS)).any():
        raise ValueError(f"mask {i}: counts must be text, or a list of whole numbers")
    return write_texts(np.array([0, len(numbers)]), numbers.astype(np.int64))[0].tobytes()


def compress_runs(runs: Runs, height: Longs, width: Longs) -> list[dict[str, Any]]:
    """Return each of n masks as in COCO files; `height` and `width` of their images, (n,)."""
    text, text_starts = write_texts(*runs.counts(height * width))
    starts = text_starts.tolist()
    return [
        {"size": [int(h), int(w)], "counts": text[a:b].tobytes().decode()}
        for h, w, a, b in zip(height, width, starts[:-1], starts[1:], strict=True)
    ]
