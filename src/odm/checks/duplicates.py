"""Finding boxes that are there twice, exactly or nearly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.pairing import iou as iou_of
from odm.tables import Dataset, Floats
from odm.tables.own import SHAPES

CHUNK = 16_384
"""Boxes that are looked at together, so that their columns stay in the cache."""
NO_ROWS = np.zeros(0, np.intp)
NEAR = 0.95
"""IoU above which two boxes of one class are taken for one object."""

_MIX = [np.uint64(m) for m in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93,
                               0xA0761D6478BD642F, 0xE7037ED1A0B428DB)]  # fmt: skip


def _hashes(dataset: Dataset) -> NDArray[np.uint64]:
    """(n,) numbers that are equal for equal boxes, and nearly never for others."""
    boxes = dataset.boxes
    with_score = dataset.kind == "det"
    hashes = np.empty(len(boxes), np.uint64)
    shift = np.uint64(29)
    for start in range(0, len(boxes), CHUNK):
        piece = slice(start, start + CHUNK)
        total = boxes.image[piece].astype(np.uint64)
        total *= _MIX[0]
        total += boxes.category[piece].astype(np.uint64)
        columns = [*boxes.xyxy[piece].T]
        if with_score:
            columns.append(boxes.score[piece])
        for column, factor in zip(columns, _MIX[1:], strict=False):
            total *= factor
            total ^= total >> shift
            total += (column + 0.0).view(np.uint64)  # -0.0 is 0.0
        total *= _MIX[0]
        hashes[piece] = total
    return hashes


def equal_boxes(dataset: Dataset, ignored: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows of exact duplicates in ascending order, and for each the row of its first twin.

    Boxes are compared by image, category, edges, shape where it is known and, for detections, score. The
    hashes are only sorted; where two are equal the boxes themselves are compared, so none is found by chance.
    """
    hashes = _hashes(dataset)
    ordered = np.sort(hashes)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twice):
        return NO_ROWS, NO_ROWS
    rows = np.flatnonzero(np.isin(hashes, twice))
    if len(ignored):
        rows = np.setdiff1d(rows, ignored, assume_unique=True)
    if not len(rows):
        return NO_ROWS, NO_ROWS
    boxes = dataset.boxes
    keys = [boxes.image[rows], boxes.category[rows], *boxes.xyxy[rows].T]
    if dataset.kind == "det":
        keys.append(boxes.score[rows])
    for field in SHAPES & boxes.own.keys():
        numbers: dict[bytes, int] = {}
        keys.append(np.array([numbers.setdefault(boxes.own[field][i], len(numbers)) for i in rows.tolist()]))
    # In the order of the hashes, which is cheap; in that of the columns only if boxes of one hash differ.
    order = np.argsort(hashes[rows], kind="stable")
    equal = _equal_to_previous(keys, order)
    if not np.array_equal(equal, hashes[rows][order][1:] == hashes[rows][order][:-1]):
        order = np.lexsort(keys)
        equal = _equal_to_previous(keys, order)
    begins = np.concatenate([[True], ~equal])
    first = rows[order][np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))]
    later, first = rows[order][~begins], first[~begins]
    ascending = np.argsort(later, kind="stable")
    return later[ascending], first[ascending]


def _equal_to_previous(keys: Sequence[NDArray[Any]], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    equal = np.ones(max(0, len(order) - 1), np.bool_)
    for key in keys:
        column = key[order]
        equal &= column[1:] == column[:-1]
    return equal


def nearly_equal_boxes(
    dataset: Dataset, usable: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Rows, the row of the best earlier twin of each, and their IoU, of the boxes under the mask `usable`.

    Boxes of an IoU above t have widths and heights within a factor t of each other and left edges less than
    (1 - t) / t of a width apart, so only neighbours in the order of the left edges are compared.
    """
    boxes = dataset.boxes
    rows = np.flatnonzero(usable & (boxes.xyxy[:, 2:] > boxes.xyxy[:, :2]).all(axis=1))
    if len(rows) < 2:
        return NO_ROWS, NO_ROWS, np.zeros(0)
    group = boxes.image[rows].astype(np.int64) * len(dataset.categories) + boxes.category[rows]
    order = np.lexsort((boxes.xyxy[rows, 0], group))
    rows, group = rows[order], group[order]
    xyxy = np.ascontiguousarray(boxes.xyxy[rows].T)
    left, top, right, bottom = xyxy
    slack = (1 - NEAR) / NEAR * (1 + 1e-9)
    reach, fall = (right - left) * ((1 - NEAR) / NEAR), (bottom - top) * slack
    best, first = np.full(len(rows), NEAR), np.full(len(rows), -1)
    live = np.arange(len(rows) - 1)
    for step in range(1, len(rows)):
        live = live[live + step < len(rows)]
        other = live + step
        near = (group[live] == group[other]) & (left[other] - left[live] <= reach[live])
        live = live[near]
        if not len(live):
            break
        one = live[np.abs(top[live + step] - top[live]) <= fall[live]]
        two = one + step
        iou = iou_of(xyxy[:, one].T, xyxy[:, two].T)
        # Of equal ones the nearest in this order stays, and of those the one before the box.
        for later, twin in ((two, one), (one, two)):
            better = (rows[later] > rows[twin]) & (iou > best[later])
            best[later[better]], first[later[better]] = iou[better], rows[twin[better]]
        if step >= 1000:  # a thousand boxes with one left edge: enough is known of them
            break
    found = np.flatnonzero(first >= 0)
    found = found[np.argsort(rows[found])]
    return rows[found], first[found], best[found]
