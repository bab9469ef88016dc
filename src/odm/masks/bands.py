"""The band along the inside of the edges of masks, as Boundary AP compares it."""

from __future__ import annotations

import numpy as np

from odm.masks.runs import Longs, Mask, Runs, offsets

WIDTH = 0.02
"""The width of a band, as a share of the diagonal of the image."""


def find_bands(masks: Runs, height: Longs, width: Longs) -> Runs:
    """Return the band of each mask: its pixels within 2 % of the image's diagonal of its edge.

    They are those that an erosion by a square removes. `height` and `width`, (n,), are those of the images,
    whose outside is background.
    """
    radius = np.maximum(np.rint(WIDTH * np.hypot(height, width)), 1).astype(np.int64)
    boxes = masks.boxes(height)
    edges = [np.zeros(0, np.int64)]
    n = np.zeros(len(masks), np.int64)
    for i, (left, top, w, h) in enumerate(boxes.tolist()):
        if not w:
            continue
        size, first_pixel = int(height[i]), left * int(height[i])
        mask_edges = masks.edge[masks.starts[i] : masks.starts[i + 1]] - first_pixel
        # The mask is the running sum of a step up or down at each edge, as in `odm.masks.decode`.
        steps = np.zeros(w * size + 1, np.int8)
        steps[mask_edges[0::2]] += 1
        steps[mask_edges[1::2]] -= 1
        # Only the columns of the box are unpacked, (w, size), and eroded one axis after the other.
        columns = np.cumsum(steps[:-1], dtype=np.int8).reshape(w, size)
        box = columns[:, top : top + h] > 0
        columns[:, top : top + h] = box & ~_erode_rows(_erode_rows(box, int(radius[i])).T, int(radius[i])).T
        changes = np.flatnonzero(np.diff(columns.ravel(), prepend=0, append=0))
        edges.append(changes + first_pixel)
        n[i] = len(changes)
    return Runs(offsets(n), np.concatenate(edges))


def _erode_rows(mask: Mask, radius: int) -> Mask:
    """Erode a mask (rows, columns) along rows: keep pixels with `radius` mask pixels on both sides."""
    # A window is all mask if its sum is its width; one column more gives the sum before the first window.
    padded = np.pad(mask, ((0, 0), (radius + 1, radius)))
    sums = np.cumsum(padded, axis=1, dtype=np.int32)
    window = 2 * radius + 1
    is_kept: Mask = sums[:, window:] - sums[:, :-window] == window
    return is_kept
