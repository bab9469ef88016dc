"""Pair the images and the boxes of two versions of annotations, and tell how paired boxes differ."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.analysis.agree import Annotations, pair_boxes
from odm.masks.runs import sum_groups
from odm.pairing import index_unique_keys, pair_images
from odm.tables import Boxes, Dataset, Floats, Keypoints, Longs, Shapes, rows_without


class Change(enum.IntFlag):
    """How a box differs; a bit of `Differences.change`."""

    ADDED = 1
    REMOVED = 2
    MOVED = 4
    RELABELLED = 8
    FLAGS = 16
    IMAGE_ADDED = 32
    """Only the new version has its image."""
    IMAGE_REMOVED = 64
    SHAPE = 128
    """Its outlines, mask, oriented box or keypoints."""


WORDS = {change: str(change.name).lower() for change in Change}
OF_BOTH = (Change.ADDED, Change.REMOVED, Change.MOVED, Change.RELABELLED, Change.FLAGS, Change.SHAPE)
"""What happens to the boxes of images that both versions have."""


def describe_change(bits: int) -> str:
    """Return the bits of `Change` in words: ``moved, flags``."""
    return ", ".join(word for change, word in WORDS.items() if bits & change)


def pair_versions(old: Dataset, new: Dataset) -> tuple[Longs, NDArray[np.bool_]]:
    """Pair images; returns (new images,) the row of the old image, -1 = none, and whether it was renamed.

    Images are taken for renamed where an added and a removed one have equal boxes, and no other image has.
    """
    partner, _ = pair_images(old.images, new.images)
    renamed = np.zeros(len(partner), np.bool_)
    removed_rows = rows_without(len(old.images), partner[partner >= 0])
    added_rows = np.flatnonzero(partner < 0)
    if len(removed_rows) and len(added_rows):
        number_of_class = _number_classes(old, new)
        # By the key of the boxes of an image its position in `removed_rows` or `added_rows`.
        old_position = index_unique_keys(_make_content_keys(old, removed_rows, number_of_class))
        new_position = index_unique_keys(_make_content_keys(new, added_rows, number_of_class))
        for key, position in new_position.items():
            if key and key in old_position:  # images without boxes have the empty key
                partner[added_rows[position]] = removed_rows[old_position[key]]
                renamed[added_rows[position]] = True
    return partner, renamed


def _number_classes(old: Dataset, new: Dataset) -> dict[str, int]:
    """Number the classes of both versions by name."""
    return {name: i for i, name in enumerate(dict.fromkeys([*old.categories.name, *new.categories.name]))}


def _make_content_keys(dataset: Dataset, images: Longs, number_of_class: Mapping[str, int]) -> list[bytes]:
    """Make a key of the boxes of each image, by class and corners, whatever their order."""
    boxes = dataset.boxes
    rows = np.flatnonzero(np.isin(boxes.image, images))
    category = np.array([number_of_class[name] for name in dataset.categories.name], np.int64)[
        boxes.category[rows]
    ]
    # Columns: the cells of four edges (+ 0.0 makes 0 of -0), class, image.
    table = np.column_stack([_find_cells(boxes.xyxy[rows]) + 0.0, category, boxes.image[rows]])
    table = table[np.lexsort(table.T)]  # by image, then class and place
    row_bounds = np.searchsorted(table[:, -1], np.stack([images, images + 1]))  # from, to
    return [table[start:stop, :-1].tobytes() for start, stop in row_bounds.T.tolist()]


def pair_boxes_of(
    old: Dataset, new: Dataset, images: tuple[Longs, Longs], *, iou: float, tolerance: float
) -> tuple[Longs, Longs, Longs]:
    """Pair boxes; returns (n,) rows of the old version, rows of the new version, and bits of `Change`.

    `images` are (old images,) and (new images,) numbers, the same for the same image, -1 = only one has it.
    Boxes of one class and place are paired first, with equal flags before others, then the rest as those of
    annotators are.
    """
    number_of_class = _number_classes(old, new)
    old_side = _select_boxes(old, images[0], number_of_class)
    new_side = _select_boxes(new, images[1], number_of_class)
    old_flags, new_flags = (
        side.boxes.flags[boxes.row].astype(np.int64) for side, boxes in ((old, old_side), (new, new_side))
    )
    # Positions in the sides of the boxes that are not paired yet.
    old_free, new_free = np.arange(len(old_side)), np.arange(len(new_side))
    pairs: list[tuple[Longs, Longs]] = []
    # Equal boxes with equal flags (as labels), then with any (all 0), each on two grids; the rest by IoU.
    # `factor` 1 takes the flags as labels, 0 makes all labels 0, and None stands for the round by IoU.
    for factor, shift in ((1, 0), (1, 0.5), (0, 0), (0, 0.5), (None, 0)):
        unpaired = old_side.take(old_free), new_side.take(new_free)
        if factor is None:
            old_positions, new_positions = (rows.astype(np.int64) for rows in pair_boxes(*unpaired, iou)[:2])
        else:
            labels = factor * old_flags[old_free], factor * new_flags[new_free]
            old_positions, new_positions = _pair_equal_boxes(unpaired, labels, tolerance, shift)
        pairs.append((old_free[old_positions], new_free[new_positions]))
        old_free, new_free = np.delete(old_free, old_positions), np.delete(new_free, new_positions)
    old_positions, new_positions = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
    order = np.argsort(old_positions)
    old_positions, new_positions = old_positions[order], new_positions[order]

    old_side, new_side = old_side.take(old_positions), new_side.take(new_positions)
    change = np.zeros(len(order), np.int64)
    change[_are_apart(old_side.xyxy, new_side.xyxy, tolerance)] |= Change.MOVED
    change[old_side.category != new_side.category] |= Change.RELABELLED
    change[old_flags[old_positions] != new_flags[new_positions]] |= Change.FLAGS
    has_other_shape = _compare_shapes(old.boxes, new.boxes, old_side.row, new_side.row, tolerance)
    change[has_other_shape] |= Change.SHAPE
    return old_side.row, new_side.row, change


def _select_boxes(dataset: Dataset, image: Longs, number_of_class: Mapping[str, int]) -> Annotations:
    """Return the boxes on the images whose number in `image` (images,) is not -1, with these numbers."""
    boxes = dataset.boxes
    rows = np.flatnonzero(image[boxes.image] >= 0)
    category = np.array([number_of_class[name] for name in dataset.categories.name], np.int64)
    return Annotations.from_arrays(
        image[boxes.image[rows]], category[boxes.category[rows]], boxes.xyxy[rows], rows
    )


def _compare_shapes(
    old: Boxes, new: Boxes, old_rows: Longs, new_rows: Longs, tolerance: float
) -> NDArray[np.bool_]:
    """Return (n,) whether the polygons, masks, oriented boxes or keypoints of paired boxes differ."""
    is_different = np.zeros(len(old_rows), np.bool_)
    if old.shapes is not None or new.shapes is not None:
        old_shapes = (old.shapes or Shapes.none(len(old))).take(old_rows)
        new_shapes = (new.shapes or Shapes.none(len(new))).take(new_rows)
        is_different |= _compare_outlines(old_shapes, new_shapes, tolerance)
    if old.keypoints is not None or new.keypoints is not None:
        old_points = (old.keypoints or Keypoints.none(len(old))).take(old_rows)
        new_points = (new.keypoints or Keypoints.none(len(new))).take(new_rows)
        is_different |= _compare_keypoints(old_points, new_points, tolerance)
    return is_different


def _compare_outlines(old: Shapes, new: Shapes, tolerance: float) -> NDArray[np.bool_]:
    """Return (n,) whether shapes differ in kind, in a number of their parts, or in a part."""
    # Kinds and numbers of rings, points and bytes first: only equal numbers can be compared one by one.
    # Of each box `ring` has the first outline, ``point[ring]`` the first corner, `mask` the first byte.
    is_different: NDArray[np.bool_] = (old.kind != new.kind) | _compare_lengths(old.ring, new.ring)
    is_different |= _compare_lengths(old.mask, new.mask)
    is_different |= _compare_lengths(old.point[old.ring], new.point[new.ring])
    equal_so_far = np.flatnonzero(~is_different)
    old, new = old.take(equal_so_far), new.take(equal_so_far)
    for starts, part_differs in (
        (old.ring, _compare_lengths(old.point, new.point)),
        (old.point[old.ring], _are_apart(old.xy, new.xy, tolerance)),
        (old.mask, old.text != new.text),
    ):
        is_different[equal_so_far[sum_groups(part_differs, starts) > 0]] = True
    return is_different


def _compare_keypoints(old: Keypoints, new: Keypoints, tolerance: float) -> NDArray[np.bool_]:
    """Return (n,) whether keypoints differ in their number, place or visibility."""
    is_different = _compare_lengths(old.first, new.first)
    equal_so_far = np.flatnonzero(~is_different)
    old, new = old.take(equal_so_far), new.take(equal_so_far)
    is_apart = _are_apart(old.xyv, new.xyv, tolerance)
    is_different[equal_so_far[sum_groups(is_apart, old.first) > 0]] = True
    return is_different


def _compare_lengths(old_starts: Longs, new_starts: Longs) -> NDArray[np.bool_]:
    """(n,) whether n pairs of lists differ in length; `old_starts` and `new_starts` are (n + 1,) offsets."""
    is_different: NDArray[np.bool_] = np.diff(old_starts) != np.diff(new_starts)
    return is_different


def _pair_equal_boxes(
    sides: Sequence[Annotations], labels_of_sides: Sequence[Longs], tolerance: float, shift: float
) -> tuple[Longs, Longs]:
    """Find pairs of boxes with equal image, class and edges, and equal labels, (boxes,) of each side.

    They are looked for in cells of a grid; edges near the border of one are found with another `shift`.
    """
    labelled = zip(sides, labels_of_sides, strict=True)
    keys = [_make_keys(side, labels, tolerance, shift) for side, labels in labelled]
    order = [np.argsort(key, kind="stable") for key in keys]
    in_order = [key[positions] for key, positions in zip(keys, order, strict=True)]
    # The first box of a key is paired with the first of the same key, the second with the second, ...
    # in_order[0] = k k k m m n:  arange 0 1 2 3 4 5  less  first of the key 0 0 0 3 3 5  =  rank 0 1 2 0 1 0
    rank = np.arange(len(keys[0])) - np.searchsorted(in_order[0], in_order[0])
    partner_position = np.searchsorted(in_order[1], in_order[0]) + rank
    has_partner = partner_position < np.searchsorted(in_order[1], in_order[0], side="right")
    first_rows, other_rows = order[0][has_partner], order[1][partner_position[has_partner]]
    first_boxes, other_boxes = sides[0].take(first_rows), sides[1].take(other_rows)
    is_equal = (
        (first_boxes.image == other_boxes.image)
        & (first_boxes.category == other_boxes.category)
        & (labels_of_sides[0][first_rows] == labels_of_sides[1][other_rows])
    )
    is_equal &= ~_are_apart(first_boxes.xyxy, other_boxes.xyxy, tolerance)
    return first_rows[is_equal], other_rows[is_equal]


def _make_keys(side: Annotations, labels: Longs, tolerance: float, shift: float) -> NDArray[np.uint64]:
    """(n,) a hash of the image, class, cells of the edges, and label of each box; `shift` is in cells."""
    key = np.zeros(len(side), np.uint64)
    with np.errstate(invalid="ignore", over="ignore"):
        for column in (side.image, side.category, labels, *_find_cells(side.xyxy, tolerance, shift).T):
            # Multiplying by an odd number near 2**64 / 1.618 spreads the bits upwards, shifting downwards.
            key = (key ^ column.astype(np.int64).astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
    return key


CELL = 0.0123
"""Pixels of a cell, much more than rounding moves an edge; coordinates seldom lie on a border of these."""


def _find_cells(xyxy: Floats, tolerance: float = 0, shift: float = 0) -> Floats:
    """Return (n, 4) the grid cells, whole numbers, of the edges of boxes, moved by `shift` cells.

    Cells are `CELL` wide, or 20 times a larger `tolerance`, so that equal edges seldom lie in two.
    """
    return np.rint(xyxy / max(CELL, 20 * tolerance) + shift)


def _are_apart(a: Floats, b: Floats, tolerance: float) -> NDArray[np.bool_]:
    """(n,) mask of the rows of `a` and `b`, both (n, m), in which a coordinate differs by more."""
    is_apart: NDArray[np.bool_] = np.abs(a - b).max(axis=1, initial=0) > tolerance
    return is_apart
