"""Quadrilaterals, (n, 4, 2) corners: areas, shared areas of pairs, and smallest rectangles around points."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odm.tables.shapes import Floats, as_rectangles, rectangle_corners

Mask = NDArray[np.bool_]

AT_A_TIME = 2**13
"""Pairs that are cut at a time: their corners stay in the processor's cache."""


def signed_areas(corners: Floats) -> Floats:
    """(n,) areas of quadrilaterals (n, 4, 2), negative if the corners run counter-clockwise on the screen."""
    diagonal, other_diagonal = corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1]
    return (diagonal[:, 0] * other_diagonal[:, 1] - diagonal[:, 1] * other_diagonal[:, 0]) / 2


def is_convex(corners: Floats) -> Mask:
    """(n,) whether the corners (n, 4, 2) go around the quadrilateral without a turn the other way."""
    x, y = corners.transpose(2, 1, 0).copy()  # (4, n) each, as NumPy is slow along short rows
    dx, dy = x[[1, 2, 3, 0]] - x, y[[1, 2, 3, 0]] - y
    turn = dx * dy[[1, 2, 3, 0]] - dy * dx[[1, 2, 3, 0]]
    is_one_way: Mask = (turn >= 0).all(axis=0) | (turn <= 0).all(axis=0)
    return is_one_way


def make_convex(corners: Floats) -> Floats:
    """Replace quadrilaterals (n, 4, 2) that are not convex by their hull, which may have a corner twice."""
    is_concave = ~is_convex(corners)
    if not is_concave.any():
        return corners
    result = corners.copy()
    for row in np.flatnonzero(is_concave).tolist():
        hull = convex_hull(corners[row])  # of fewer than four corners the last one is repeated
        result[row] = hull[np.minimum(np.arange(4), len(hull) - 1)]
    return result


def shared_areas(a: Floats, b: Floats) -> Floats:
    """(n,) the areas that pairs of convex quadrilaterals ``a[i]`` and ``b[i]``, (n, 4, 2), have in common.

    ``a[i]`` is cut along the four sides of ``b[i]`` (Sutherland and Hodgman, 1974), relative to a corner of
    it, so that no digits are lost far from the origin.
    """
    areas = np.empty(len(a))
    for start in range(0, len(a), AT_A_TIME):
        chunk = slice(start, start + AT_A_TIME)
        areas[chunk] = _clip_and_measure(a[chunk] - b[chunk, :1], b[chunk] - b[chunk, :1])
    return areas


def _clip_and_measure(a: Floats, b: Floats) -> Floats:
    """(n,) shared areas: each quadrilateral of `a` is clipped at the sides of its partner in `b`."""
    direction = np.where(signed_areas(b) < 0, -1.0, 1.0)  # so that inside is positive whichever way they go
    # x and y are (corners, pairs): column p holds the polygon of pair p in its first n_corners[p] rows.
    x, y = (np.ascontiguousarray(a[..., axis].T) for axis in (0, 1))
    n_corners = np.full(len(a), 4)
    for k in range(4):
        side = (b[:, (k + 1) % 4] - b[:, k]) * direction[:, None]
        x, y, n_corners = _cut_at_side(x, y, n_corners, b[:, k], side)
    is_used, following = _find_next_rows(len(x), n_corners)
    next_corner = following * len(a) + np.arange(len(a))
    # The shoelace formula: twice the area is the sum of the cross products of corners and the next ones.
    doubled_terms = np.where(is_used, x * y.take(next_corner) - y * x.take(next_corner), 0)
    areas: Floats = np.abs(doubled_terms.sum(axis=0)) / 2
    return areas


def _cut_at_side(
    x: Floats, y: Floats, n_corners: NDArray[np.int64], corner: Floats, side: Floats
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Cut polygons along a line each, through `corner` in the direction of `side`, both (pairs, 2). Polygons,
    and the parts inside that are returned, are (corners, pairs): column p uses its first ``n_corners[p]``.
    """
    # Positive inside the side, and in proportion to the distance from it.
    inside = side[:, 0] * (y - corner[:, 1]) - side[:, 1] * (x - corner[:, 0])
    n_pairs = len(n_corners)
    is_used, following = _find_next_rows(len(x), n_corners)
    next_corner = following * n_pairs + np.arange(n_pairs)  # in flat arrays, which NumPy indexes faster
    next_inside = inside.take(next_corner)
    is_cut = is_used & ((inside >= 0) != (next_inside >= 0))
    share = np.divide(inside, inside - next_inside, out=np.zeros_like(inside), where=is_cut)
    # Of each side its first corner, if it is inside, then the point where it is cut; `target_row` is the
    # row to which each of these moves up: is_kept 1 0 1 1 -> target_row 0 . 1 2. Both are (2 * corners,
    # pairs), and flat positions in them are row * pairs + pair.
    is_kept = np.stack([is_used & (inside >= 0), is_cut], axis=1).reshape(-1, n_pairs)
    target_row = np.cumsum(is_kept, axis=0) - 1
    n_corners = target_row[-1] + 1
    kept_positions = np.flatnonzero(is_kept)
    target_positions = target_row.take(kept_positions) * n_pairs + kept_positions % max(n_pairs, 1)
    clipped = []
    for values in (x, y):
        step = share * (values.take(next_corner) - values)
        candidates = np.stack([values, values + step], axis=1)
        column_values = np.zeros((int(n_corners.max(initial=1)), n_pairs))
        column_values.put(target_positions, candidates.take(kept_positions))
        clipped.append(column_values)
    return clipped[0], clipped[1], n_corners


def _find_next_rows(n_rows: int, n_used: NDArray[np.int64]) -> tuple[Mask, NDArray[np.int64]]:
    """Return (n_rows, n) whether each column uses a row, and (n_rows, n) the row of the next corner.

    Column i uses its first ``n_used[i]`` rows, and the last of these is followed by row 0.
    """
    row = np.arange(n_rows)[:, None]
    return row < n_used, np.where(row + 1 < n_used, row + 1, 0)


def distances_from_rectangle(corners: Floats) -> Floats:
    """(n,) the largest distance of four corners (n, 4, 2) from those of a rectangle with the same first side.

    The rectangle has the same centre; its sides are the means of opposite ones.
    """
    dx, dy = (rectangle_corners(as_rectangles(corners)) - corners).transpose(2, 1, 0).copy()
    distance: Floats = np.sqrt(dx**2 + dy**2).max(axis=0, initial=0)
    return distance


def smallest_rectangle(points: Floats) -> Floats:
    """(4, 2) the corners of the rectangle of smallest area around points (n, 2).

    One side lies along an edge of their convex hull, the first of equals (Freeman and Shapira, 1975).
    """
    hull = convex_hull(points)
    if len(hull) < 3:  # a point or a line: the upright rectangle around it
        low, high = hull.min(axis=0), hull.max(axis=0)
        return np.array([low, [high[0], low[1]], high, [low[0], high[1]]])
    side = np.roll(hull, -1, axis=0) - hull
    edge_direction = side / np.hypot(*side.T)[:, None]
    normal = np.stack([-edge_direction[:, 1], edge_direction[:, 0]], axis=1)
    # For each edge (column) the rectangle along it around all corners (rows): u along the edge, v across.
    u, v = hull @ edge_direction.T, hull @ normal.T
    low_u, high_u, low_v, high_v = u.min(0), u.max(0), v.min(0), v.max(0)
    area = (high_u - low_u) * (high_v - low_v)
    best = int(np.flatnonzero(area <= area.min() * (1 + 1e-12))[0])  # equal but for rounding
    a, b = edge_direction[best], normal[best]
    corners_uv = [(low_u, low_v), (high_u, low_v), (high_u, high_v), (low_u, high_v)]
    return np.array([u_corner[best] * a + v_corner[best] * b for u_corner, v_corner in corners_uv])


def convex_hull(points: Floats) -> Floats:
    """(k, 2) the corners of the convex hull of points (n, 2), from the leftmost on.

    By Andrew's monotone chain (1979).
    """
    ordered = np.unique(points, axis=0)
    if len(ordered) < 3:
        return ordered

    def build_half(rows: list[list[float]]) -> list[list[float]]:
        """Return one half of the hull, without its end: a corner that does not turn left is dropped."""
        half_hull: list[list[float]] = []
        for x, y in rows:
            while len(half_hull) > 1:
                (ax, ay), (bx, by) = half_hull[-2], half_hull[-1]
                if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0:
                    break
                half_hull.pop()
            half_hull.append([x, y])
        return half_hull[:-1]

    rows = ordered.tolist()
    return np.array(build_half(rows) + build_half(rows[::-1]))
