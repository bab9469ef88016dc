"""Outlines filled pixel by pixel, as pycocotools fills them: bit for bit the same masks."""

from __future__ import annotations

import numpy as np

from odm.masks.runs import Floats, Longs, Runs, pieces, spread

_EDGES_AT_A_TIME = 2**17
_MOST_EDGES = 2**27
"""Columns that the outlines of one call may pass in all."""


def rasterise_all(xy: Floats, point: Longs, ring: Longs, height: Longs, width: Longs) -> Runs:
    """Masks of objects, each the union of its outlines, which are filled by the even-odd rule.

    Parameters
    ----------
    xy
        (corners, 2) in pixels, finite.
    point
        (outlines + 1,) the corners of outline j are ``point[j]`` to ``point[j + 1]``.
    ring
        (n + 1,) the outlines of object i are ``ring[i]`` to ``ring[i + 1]``.
    height, width
        (n,) of each object's image.

    Raises
    ------
    ValueError
        If the outlines pass more columns than fit into memory.

    The result is that of ``rleFrPoly`` and ``rleMerge`` of pycocotools: corners on a grid of a fifth of a
    pixel, and a pixel's column is passed where the outline crosses the middle of it.
    """
    n = np.diff(ring)
    owner = np.repeat(np.arange(len(n)), n)
    key = _edges(xy, point, height[owner], width[owner])
    key.sort()
    outlines = Runs.of_keys(key, len(owner))
    per_outline = np.diff(outlines.first)
    outline = np.repeat(np.arange(len(owner)), per_outline)
    mask = owner[outline]
    key = (mask << 32) | outlines.edge
    several = n[mask] > 1
    if not several.any():
        return Runs(np.searchsorted(mask, np.arange(len(n) + 1)), outlines.edge)
    # Union: an outline is entered (+1) and left (-1); the object is where one or more are entered. Sorted by
    # pixel, entering first, so that outlines which touch are one run.
    step = 1 - 2 * (np.arange(len(key)) & 1)  # the edges of every outline are even in number
    part = key[several] * 2 + (step[several] < 0)
    part.sort()
    step = 1 - 2 * (part & 1)
    level = np.cumsum(step)
    part = part[(level == 0) | ((level == 1) & (step > 0))] >> 1
    return Runs.of_keys(np.sort(np.concatenate([key[~several], part])), len(n))


def _edges(xy: Floats, point: Longs, height: Longs, width: Longs) -> Longs:
    """Where outlines pass columns, as ``outline << 32 | pixel``, unsorted; one size for each outline."""
    n = np.diff(point)
    ring = np.repeat(np.arange(len(n)), n)
    grid = np.clip(5 * xy + 0.5, -(2.0**31), 2.0**31 - 1).astype(np.int64)  # truncated, as C does
    x0, y0 = np.ascontiguousarray(grid.T)
    following = np.arange(1, len(xy) + 1)
    following[point[1:][n > 0] - 1] = point[:-1][n > 0]
    x1, y1 = x0[following], y0[following]
    # Column c is passed on the way from u = 5 c + 2 to 5 c + 3.
    first = np.maximum((np.minimum(x0, x1) + 2) // 5, 0)
    last = np.minimum((np.maximum(x0, x1) - 3) // 5, width[ring] - 1)
    passing = np.flatnonzero(last >= first)
    x0, y0, x1, y1, ring, first = (v[passing] for v in (x0, y0, x1, y1, ring, first))
    count = last[passing] - first + 1
    if int(count.sum()) > _MOST_EDGES:
        raise ValueError(f"outlines that pass {int(count.sum())} columns of pixels are too large to fill")
    dx, dy = x1 - x0, y1 - y0
    steep = np.abs(dx) < np.abs(dy)
    flip = np.where(steep, dy, dx) < 0  # an edge is walked upwards along its longer side
    xs, ys = np.where(flip, x1, x0), np.where(flip, y1, y0)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(flip, -1, 1) * np.where(steep, dx / np.abs(dy), dy / np.abs(dx))
    found = [np.zeros(0, np.int64)]
    for turned in (False, True):
        edges = np.flatnonzero(steep == turned)
        for piece in pieces(count[edges], _EDGES_AT_A_TIME):
            e = edges[piece]
            m = count[e]
            c, of = spread(first[e], m)
            e = e[of]
            if turned:
                v = ys[e] - 1 + _first_beyond(xs[e], slope[e], 5 * c + 2)
            else:
                steps = 5 * c + 2 - xs[e] + (slope[e] < 0)
                v = (ys[e] + slope[e] * steps + 0.5).astype(np.int64)
            h = height[ring[e]]
            y = np.minimum(np.maximum(v + 2, 0) // 5, h)
            found.append((ring[e] << 32) | (c * h + y))
    return np.concatenate(found)


def _first_beyond(x: Longs, slope: Floats, u: Longs) -> Longs:
    """The first step t at which ``int(x + slope * t + .5)`` has passed from u to u + 1, or back."""
    exact = (u - x + 0.5) / slope
    t = np.ceil(exact)
    near: Longs = np.flatnonzero(np.abs(exact - np.rint(exact)) < 1e-6)
    if len(near):  # rounding decides: compute these steps as C does
        rising = slope[near] > 0
        for back in (1, 0):
            at = t[near] - back
            passed = ((x[near] + slope[near] * at + 0.5).astype(np.int64) > u[near]) == rising
            t[near] += np.where(passed, -1, 0) if back else np.where(passed, 0, 1)
    found: Longs = t.astype(np.int64)
    return found
