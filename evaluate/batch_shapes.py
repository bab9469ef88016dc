"""Read the masks, keypoints and oriented boxes of a batch; `BatchReader` calls it for a `Metric` of shapes.

The shapes of a batch are one array of values and the number of values of each box: a mask is COCO's
compressed text, keypoints are triples x, y, visibility, and an oriented box is its four corners.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.arrays import to_array
from odm.masks import compress_runs, encode, read_runs
from odm.tables import Floats, Keypoints, Longs, ShapeKind, Shapes
from odm.tables.shapes import rectangle_corners

FIELDS = {"segm": "masks", "boundary": "masks", "keypoints": "keypoints", "obb": "obb"}
"""The field of a mapping that holds the shapes, by ``iou_type``."""


def read_shapes(values: Any, name: str, kind: str, n: int) -> tuple[dict[str, NDArray[Any]], Floats]:
    """Return the columns of n shapes of a `kind` (an ``iou_type``), and the boxes around them, (n, 4) edges.

    The columns are ``shape``, ``n_values`` and ``mask_size`` of `ImageBoxes`, and of masks their ``area``.
    Raises ValueError if there are not n shapes, or one cannot be read; the message begins with `name`.
    """
    field = FIELDS[kind]
    if field == "masks":
        return _read_masks(values, f"{name}: masks", n)
    array = to_array(values, f"{name}: {field}").astype(np.float64)
    read_points = _read_keypoints if field == "keypoints" else _read_corners
    points, boxes = read_points(array, name, n)
    if not np.isfinite(points).all():
        raise ValueError(f"{name}: {field}: expected finite numbers")
    n_values = np.full(n, points[0].size if n else 0, np.int64)  # the same number for every shape
    return {"shape": points.reshape(-1), "n_values": n_values, "mask_size": np.zeros((n, 2), np.int32)}, boxes


def _read_keypoints(array: Floats, name: str, n: int) -> tuple[Floats, Floats]:
    """Return (n, k, 3) x, y and visibility of keypoints, and (n, 4) the boxes around the labelled ones.

    Raises ValueError if the array has another shape.
    """
    if n == 0:
        return np.zeros((0, 0, 3)), np.zeros((0, 4))
    if array.ndim != 3 or array.shape[0] != n or array.shape[1] == 0 or array.shape[2] != 3:
        raise ValueError(f"{name}: keypoints has shape {array.shape}, expected ({n}, k, 3)")
    # Points that are not labelled have no place; a box without labelled points is around all of them.
    # Hidden points bound nothing: at infinity for the left top corner, at -infinity for the other.
    is_labelled = array[:, :, 2:] > 0
    is_hidden = ~is_labelled & is_labelled.any(axis=1, keepdims=True)
    low, high = (np.where(is_hidden, beyond, array[:, :, :2]) for beyond in (np.inf, -np.inf))
    return array, np.hstack([low.min(axis=1), high.max(axis=1)])


def _read_corners(array: Floats, name: str, n: int) -> tuple[Floats, Floats]:
    """Return (n, 4, 2) the corners of oriented boxes, and (n, 4) the upright boxes around them.

    A row of five numbers is centre, width, height and angle in radians. Raises ValueError for other shapes.
    """
    if n == 0:
        array = np.zeros((0, 4, 2))
    elif array.shape == (n, 5):
        array = rectangle_corners(array)
    elif array.shape not in ((n, 8), (n, 4, 2)):
        raise ValueError(f"{name}: obb has shape {array.shape}, expected ({n}, 5), ({n}, 8) or ({n}, 4, 2)")
    corners = array.reshape(n, 4, 2)
    return corners, np.hstack([corners.min(axis=1), corners.max(axis=1)])


def _read_masks(values: Any, name: str, n: int) -> tuple[dict[str, NDArray[Any]], Floats]:
    """Return the columns and boxes of `read_shapes`, from one of the two forms of masks.

    `values` are boolean arrays (n, height, width), or n dictionaries of COCO's run lengths. Raises
    ValueError for anything else.
    """
    if isinstance(values, Mapping):
        raise ValueError(f"{name}: expected a list of run lengths, found a single one")  # noqa: TRY004
    if isinstance(values, Sequence) and len(values) and all(isinstance(mask, Mapping) for mask in values):
        masks: Sequence[Any] = values
    else:
        array = to_array(values, name)
        if array.size and array.dtype.kind == "f":
            raise ValueError(f"{name}: expected boolean arrays, found {array.dtype}; use masks > 0.5")
        if array.ndim != 3 and array.size:
            raise ValueError(f"{name} has shape {array.shape}, expected ({n}, height, width)")
        masks = encode(array) if array.ndim == 3 and len(array) else []  # type: ignore[assignment]
    if len(masks) != n:
        raise ValueError(f"{name} has {len(masks)} entries for {n} labels")
    try:
        runs, height, width = read_runs(masks)
    except ValueError as e:
        raise ValueError(f"{name}: {e}") from None
    texts = [mask["counts"].encode() for mask in compress_runs(runs, height, width)]
    ltwh = runs.boxes(height).astype(np.float64).reshape(-1, 4)
    columns: dict[str, NDArray[Any]] = {
        "shape": np.frombuffer(b"".join(texts), np.uint8),
        "n_values": np.array([*map(len, texts)], np.int64),
        "mask_size": np.stack([height, width], axis=1).astype(np.int32),
        "area": runs.areas().astype(np.float64),
    }
    return columns, np.hstack([ltwh[:, :2], ltwh[:, :2] + ltwh[:, 2:]])


def check_sizes(image: Longs, size: NDArray[np.int32], names: Sequence[str]) -> None:
    """Check that all masks of an image have one `size`, (n, 2). Raises ValueError if they do not.

    `image` (n,) is the image of each mask, a position in `names`.
    """
    size_of_image = find_image_sizes(image, size, len(names))
    is_different = (size != size_of_image[image]).any(axis=1)
    if is_different.any():
        row = int(is_different.argmax())
        (height, width), (row_height, row_width) = size_of_image[image[row]].tolist(), size[row].tolist()
        raise ValueError(
            f"{names[image[row]]}: masks: expected one size for an image, "
            f"found {row_width}x{row_height} and {width}x{height}"
        )


def find_image_sizes(image: Longs, size: NDArray[np.int32], n: int) -> NDArray[np.int32]:
    """(n, 2) height and width of images, from those of the masks on them; zeros for images without any."""
    sizes = np.zeros((n, 2), np.int32)
    np.maximum.at(sizes, image, size)
    return sizes


def make_shape_tables(kind: str, shape: NDArray[Any], n_values: Longs) -> dict[str, Any]:
    """Make the columns of a dataset that hold shapes of one kind, by name.

    `shape` are the values of all shapes, `n_values` (n,) how many of them each shape has.
    """
    n = len(n_values)
    value_starts = np.concatenate([[0], np.cumsum(n_values)]).astype(np.int64)
    if FIELDS[kind] == "masks":
        kinds = np.full(n, ShapeKind.MASK, np.uint8)
        text = shape.astype(np.uint8)
        return {"shapes": replace(Shapes.none(n), kind=kinds, mask=value_starts, text=text)}
    values = shape.astype(np.float64)
    if kind == "keypoints":
        point_starts = value_starts // 3  # a point has three values: x, y and visibility
        return {"keypoints": Keypoints(point_starts, values.reshape(-1, 3))}
    corners = np.full(n, 4, np.int64)
    return {"shapes": Shapes.of_outlines(values.reshape(-1, 2), corners, ShapeKind.ORIENTED)}
