"""Trace masks along the edges of their pixels; the outlines, filled again, give the same pixels."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.masks.runs import Floats, Longs, Mask, Runs, expand_ranges


def trace_all(masks: Runs, height: Longs) -> list[list[Floats]]:
    """Return the outlines of each mask, each (corners, 2) in whole pixels; `height` of each image, (n,).

    Parts that touch at a corner are outlines of their own. A hole is joined to the outline around it by a
    bridge of no width, there and back.
    """
    edges = _find_upright_edges(masks, height)
    following = _find_following_edges(edges)
    first_edges = _find_first_edges(following)
    # The first edge of an outline is its leftmost: with the mask to its left, it goes around a hole.
    is_hole = ~edges.has_mask_right[first_edges]
    holes = first_edges[is_hole]

    # Corner 2 e is the start of edge e, 2 e + 1 its end; `following_corner` has the next one on the outline.
    x, start, stop = edges.x.tolist(), edges.start.tolist(), edges.stop.tolist()
    corners = [corner for upright in zip(zip(x, start), zip(x, stop)) for corner in upright]  # noqa: B905
    following_corner = [0] * len(corners)
    following_corner[0::2] = range(1, len(corners), 2)
    following_corner[1::2] = (2 * following).tolist()
    previous_edge = np.argsort(following)
    for hole, corner in zip(holes.tolist(), _find_bridges(edges, holes).tolist(), strict=True):
        # ... corner -> hole, around it, hole -> corner ...: the last two are written once more.
        n = len(corners)
        corners += [corners[2 * hole], corners[corner]]
        following_corner += [n + 1, following_corner[corner]]
        following_corner[2 * int(previous_edge[hole]) + 1] = n
        following_corner[corner] = 2 * hole

    # Walk around each outline, from its first edge until that comes again.
    outlines: list[list[Floats]] = [[] for _ in range(len(masks))]
    for edge, mask in zip(
        first_edges[~is_hole].tolist(), edges.mask[first_edges[~is_hole]].tolist(), strict=True
    ):
        outline, corner_index = [corners[2 * edge]], following_corner[2 * edge]
        while corner_index != 2 * edge:
            outline.append(corners[corner_index])
            corner_index = following_corner[corner_index]
        outlines[mask].append(np.array(outline, np.float64))
    return outlines


class _Edges(msgspec.Struct, frozen=True, eq=False):
    """Maximal upright stretches of the border between inside and outside, sorted by mask, x and y."""

    mask: Longs
    x: Longs
    top: Longs
    bottom: Longs
    has_mask_right: Mask
    """Whether the mask lies to its right; the edge is walked upwards then, and downwards otherwise."""

    @property
    def start(self) -> Longs:
        """Return (edges,) the y at which the walk along each begins."""
        return np.where(self.has_mask_right, self.bottom, self.top)

    @property
    def stop(self) -> Longs:
        """Return (edges,) the y at which the walk along each ends."""
        return np.where(self.has_mask_right, self.top, self.bottom)


def _find_upright_edges(masks: Runs, height: Longs) -> _Edges:
    """Return the upright edges of all masks; `height` of their images, (n,)."""
    n_runs = np.diff(masks.starts) // 2
    owner = np.repeat(np.arange(len(masks)), n_runs)
    height_of_run = height[owner]
    run_start, run_stop = masks.edge[0::2], masks.edge[1::2]
    first_column, last_column = run_start // height_of_run, (run_stop - 1) // height_of_run
    # Runs are cut where a column ends.
    column, run_rows = expand_ranges(first_column, last_column - first_column + 1)
    piece_height = height_of_run[run_rows]
    top = np.where(column == first_column[run_rows], run_start[run_rows] - column * piece_height, 0)
    bottom = np.where(
        column == last_column[run_rows], run_stop[run_rows] - column * piece_height, piece_height
    )

    # Down each upright line of the grid: +1 where a run of the column to its right begins, -1 where it ends,
    # and the reverse for the column to its left. Where the sum is not 0, only one side is inside.
    mask = np.tile(owner[run_rows], 4)
    x = np.concatenate([column, column, column + 1, column + 1])
    y = np.concatenate([top, bottom, top, bottom])
    step = np.repeat([1, -1, -1, 1], len(column))
    order = np.lexsort((y, x, mask))
    mask, x, y, level = mask[order], x[order], y[order], np.cumsum(step[order])
    # Several steps may be at one point: the sum after the last of them counts.
    point_ends = np.flatnonzero(_find_changes(mask, x, y)[1:])
    mask, x, y, level = mask[point_ends], x[point_ends], y[point_ends], level[point_ends]

    # Stretches that touch and have the mask on the same side are one edge, from the first to the last.
    starts = np.flatnonzero(level)
    mask, x, top, bottom, inside = mask[starts], x[starts], y[starts], y[starts + 1], level[starts] > 0
    begins_edge = _find_changes(mask, x, inside)[:-1]
    begins_edge[1:] |= top[1:] != bottom[:-1]
    first_rows = np.flatnonzero(begins_edge)
    last_rows = np.append(first_rows[1:], len(begins_edge))[: len(first_rows)] - 1
    return _Edges(mask[first_rows], x[first_rows], top[first_rows], bottom[last_rows], inside[first_rows])


def _find_changes(*columns: NDArray[Any]) -> Mask:
    """(n + 1,) whether a row differs from the one before it; true before the first and after the last."""
    differs = np.ones(len(columns[0]) + 1, bool)
    differs[1:-1] = False
    for column in columns:
        differs[1:-1] |= column[1:] != column[:-1]
    return differs


def _find_following_edges(edges: _Edges) -> Longs:
    """(edges,) the number of the edge that follows each on its outline."""
    # Edge e has two ends: number e is its start, n + e its stop. On one line y the ends, sorted by x, form
    # pairs that a level piece of the outline joins. In each pair one is a stop: the other's edge follows it.
    n_edges = len(edges.x)
    y = np.concatenate([edges.start, edges.stop])
    order = np.lexsort((np.tile(edges.has_mask_right, 2), np.tile(edges.x, 2), y, np.tile(edges.mask, 2)))
    left_end, right_end = order[0::2], order[1::2]
    left_stops = left_end >= n_edges
    stops, partners = np.where(left_stops, left_end, right_end), np.where(left_stops, right_end, left_end)
    following = np.empty(n_edges, np.int64)
    following[stops - n_edges] = partners
    return following


def _find_first_edges(following: Longs) -> Longs:
    """Return the lowest edge number of every closed outline, ascending; `following` is (edges,)."""
    following_edge, is_visited, first_edges = following.tolist(), bytearray(len(following)), []
    for i in range(len(following_edge)):
        if not is_visited[i]:
            first_edges.append(i)
            while not is_visited[i]:
                is_visited[i] = 1
                i = following_edge[i]  # noqa: PLW2901
    return np.array(first_edges, np.int64)


def _find_bridges(edges: _Edges, holes: Longs) -> Longs:
    """Find the corner to which each hole is joined, (holes,): ``2 * edge``, plus 1 for the end of that edge.

    `holes` are the first edges of the holes, (holes,). The corner is the nearer end of the next edge to the
    left, which is on the outline around the hole, or on a hole further left.
    """
    # A line of a mask is one number, mask << 32 | y, so that one search finds the lines that an edge passes.
    line_keys, line_of_hole = np.unique((edges.mask[holes] << 32) | edges.top[holes], return_inverse=True)
    facing_edges = np.flatnonzero(edges.has_mask_right)
    first_line = np.searchsorted(line_keys, (edges.mask[facing_edges] << 32) | edges.top[facing_edges])
    end_line = np.searchsorted(line_keys, (edges.mask[facing_edges] << 32) | edges.bottom[facing_edges])
    # Each edge with each of the lines that it passes, sorted by line, then by x.
    line, passing = expand_ranges(first_line, end_line - first_line)
    key = (line << 32) | edges.x[facing_edges[passing]]
    order = np.argsort(key)
    # The last edge on the line of a hole that is left of it.
    left_neighbour = np.searchsorted(key[order], (line_of_hole << 32) | edges.x[holes]) - 1
    right_edges = facing_edges[passing[order[left_neighbour]]]
    y = edges.top[holes]
    joint: Longs = 2 * right_edges + (
        np.abs(edges.stop[right_edges] - y) < np.abs(edges.start[right_edges] - y)
    )
    return joint
