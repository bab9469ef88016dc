"""The band along the inside of the edges of masks, as Boundary AP compares it."""

from __future__ import annotations

import numpy as np

from odm.masks.runs import Longs, Mask, Runs, offsets

WIDTH = 0.02
"""Of a band, in diagonals of the image."""


def bands(masks: Runs, height: Longs, width: Longs) -> Runs:
    """Return the pixels within 2 % of the image's diagonal of each mask's edge: those that an erosion by a
    square removes.

    Everything outside the image, `height` and `width` (n,), is background.
    """
    reach = np.maximum(np.rint(WIDTH * np.hypot(height, width)), 1).astype(np.int64)
    boxes = masks.boxes(height)
    edges = [np.zeros(0, np.int64)]
    n = np.zeros(len(masks), np.int64)
    for i, (left, top, w, h) in enumerate(boxes.tolist()):
        if not w:
            continue
        size, begin = int(height[i]), left * int(height[i])
        mask_edges = masks.edge[masks.first[i] : masks.first[i + 1]] - begin
        steps = np.zeros(w * size + 1, np.int8)
        steps[mask_edges[0::2]] += 1
        steps[mask_edges[1::2]] -= 1
        columns = np.cumsum(steps[:-1], dtype=np.int8).reshape(w, size)
        box = columns[:, top : top + h] > 0
        columns[:, top : top + h] = box & ~_eroded(_eroded(box, int(reach[i])).T, int(reach[i])).T
        changes = np.flatnonzero(np.diff(columns.ravel(), prepend=0, append=0))
        edges.append(changes + begin)
        n[i] = len(changes)
    return Runs(offsets(n), np.concatenate(edges))


def _eroded(mask: Mask, reach: int) -> Mask:
    """Erode a mask (rows, columns) along rows: keep pixels with `reach` mask pixels on the left and right."""
    padded = np.pad(mask, ((0, 0), (reach + 1, reach)))
    sums = np.cumsum(padded, axis=1, dtype=np.int32)
    length = 2 * reach + 1
    kept: Mask = sums[:, length:] - sums[:, :-length] == length
    return kept
