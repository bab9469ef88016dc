"""What the rows of YOLO label files are beyond boxes: outlines, oriented boxes and keypoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.formats._shared.codes import WRONG_COUNT
from odm.formats.yolo.layouts import Plan
from odm.formats.yolo.rows import ParsedRows
from odm.issues import Code, Log, Trusted, printable, spell_setting
from odm.tables import Builder, Floats, Keypoints, ShapeKind, Shapes

SEVERAL_TASKS = Code(
    "several-tasks",
    "warning",
    "{n} of {total} rows are boxes, and the others outlines",
    "give every object an outline, or none; -O task=detect reads all as boxes",
    "Rows of five numbers are boxes, longer ones outlines. Ultralytics refuses a dataset that has both.",
)


def find_task(parsed: ParsedRows, is_valid: NDArray[np.bool_], task: str | None, log: Log) -> str:
    """Return the task of the rows: ``detect``, ``segment`` or ``obb``.

    The `task` of the options comes first, then that of the description; else outlines are oriented boxes if
    all have four corners, which is noted. Keypoints may follow boxes in any task.
    """
    is_outline = is_valid & parsed.is_outline
    task = task or parsed.plan.task
    if not is_outline.any() or task == "detect":
        return "detect"
    if task:
        return task
    if (parsed.n_shape_values[is_outline] != 8).any():
        return "segment"
    shown = printable(parsed.plan.source.path)
    otherwise = f"{spell_setting('task=segment')} reads them as outlines"
    log.note(f"{shown}: all outlines have 4 corners: oriented boxes ({otherwise})")
    return "obb"


def refuse_other_outlines(parsed: ParsedRows, is_valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Report valid rows whose outline has not four corners; return (n,) the valid rows without these."""
    is_no_oriented_box: NDArray[np.bool_] = is_valid & parsed.is_outline & (parsed.n_shape_values != 8)
    parsed.report(
        WRONG_COUNT,
        is_no_oriented_box,
        lambda cells: {"expected": Trusted("a class id and 4 corners"), "found": f"{len(cells)} values"},
    )
    is_kept: NDArray[np.bool_] = is_valid & ~is_no_oriented_box
    return is_kept


def make_columns(parsed: ParsedRows, is_valid: NDArray[np.bool_], size: Floats, task: str) -> dict[str, Any]:
    """Return the columns ``shapes`` and ``keypoints`` of the m valid rows, without a column that no row has.

    `size` is (m, 2) the width and height of the image of each in pixels. Boxes among outlines are reported.
    """
    values = parsed.shape_values[np.repeat(is_valid, parsed.n_shape_values)]
    n_values, is_outline = parsed.n_shape_values[is_valid], parsed.is_outline[is_valid]
    is_of_outline = np.repeat(is_outline, n_values)
    columns: dict[str, Any] = {}
    outline_rows = np.flatnonzero(is_outline)
    if len(outline_rows):
        n_corners = n_values[outline_rows] // 2
        xy = values[is_of_outline].reshape(-1, 2) * np.repeat(size[outline_rows], n_corners, axis=0)
        kind = ShapeKind.ORIENTED if task == "obb" else ShapeKind.POLYGONS
        outlines = Shapes.of_outlines(xy, n_corners, kind)
        columns["shapes"] = Shapes.none(len(n_values)).replace_rows(outline_rows, outlines)
        _report_plain_boxes(parsed, is_valid)

    # Keypoints follow the boxes; `points` is (points of all boxes, 2 or 3).
    numbers_per_point = parsed.plan.numbers_per_point
    if not n_values[~is_outline].any() or numbers_per_point not in (2, 3):
        return columns
    points = values[~is_of_outline].reshape(-1, numbers_per_point)
    n_points = np.where(is_outline, 0, n_values) // numbers_per_point
    xy = points[:, :2] * np.repeat(size, n_points, axis=0)
    # A point of two numbers is not labelled at 0 0 or a negative place, and else visible.
    is_hidden = (points < 0).any(axis=1) | (points == 0).all(axis=1)
    visibility = points[:, 2] if numbers_per_point == 3 else np.where(is_hidden, 0, 2)
    first_point = np.concatenate([[0], np.cumsum(n_points)]).astype(np.int64)
    columns["keypoints"] = Keypoints(first_point, np.column_stack([xy, visibility]))
    return columns


def _report_plain_boxes(parsed: ParsedRows, is_valid: NDArray[np.bool_]) -> None:
    """Report how many of the valid rows, among which are outlines, are plain boxes, at the first of these."""
    box_rows = np.flatnonzero(is_valid & ~parsed.is_outline)
    if len(box_rows):
        counts = {"n": len(box_rows), "total": int(np.count_nonzero(is_valid))}
        is_first_box = np.zeros(len(is_valid), bool)
        is_first_box[box_rows[0]] = True
        parsed.report(SEVERAL_TASKS, is_first_box, lambda _: counts)


def describe_points(plan: Plan, builder: Builder, category_rows: Sequence[int]) -> None:
    """Give the builder the keypoint names, and ``flip_idx``, of the description.

    `category_rows` are by class number, -1 for a refused class.
    """
    for class_number, names in plan.point_names.items():
        if class_number < len(category_rows) and category_rows[class_number] >= 0:
            builder.describe_points(category_rows[class_number], names)
    if plan.flip_idx is not None:
        path, flip = plan.flip_idx
        builder.describe(builder.file(path), {"flip_idx": str(flip).encode()})
