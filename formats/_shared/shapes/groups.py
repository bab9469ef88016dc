"""Join groups of shapes, as annotation tools store them, to objects; the option that decides it."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from odm.formats._contract import option
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.shapes.box_shapes import Drawn, joined
from odm.formats._shared.split_names import SplitOptions
from odm.issues import Log, plural, printable
from odm.tables import Builder, Floats
from odm.tables.groups import find_objects

POINTS = "point shapes"
"""What keypoints that are not read are called."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GroupOptions(ImageOptions):
    """Options of a format whose shapes have groups."""

    groups: str = option(
        "objects",
        "outlines and masks of one class and group are one object (objects), or each is (ignore)",
        choices=("objects", "ignore"),
        side="read",
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GroupSplitOptions(SplitOptions, GroupOptions):
    """Options of a format whose shapes have groups and whose images have splits."""


class Groups:
    """The groups of the shapes of one source, joined to objects if the reader `joins` them."""

    def __init__(self, builder: Builder, log: Log, path: str, *, joins: bool) -> None:
        self._builder, self._log, self._path, self._joins = builder, log, path, joins
        self._numbers: dict[int, dict[str, int]] = {}
        self._points: dict[tuple[int, int], dict[str, tuple[float, float, int]]] = {}
        """The keypoints of an image and group by their names."""

    def number(self, image: int, name: str) -> int:
        """The number, from 1, of the group of an image that has a name in place of a number."""
        numbers = self._numbers.setdefault(image, {})
        return numbers.setdefault(name, len(numbers) + 1)

    def add_point(self, image: int, group: int, name: str, point: tuple[float, float, int]) -> None:
        """Add a keypoint, the first of its name, to a group of an image; `join` ties it to its object."""
        self._points.setdefault((image, group), {}).setdefault(name, point)

    def join(self, table: Floats, shapes: list[Drawn | None]) -> NDArray[np.int64] | None:
        """Join the shapes of each object, with its keypoints, in the object's first row.

        `table` (n, 15) float64 has the columns of `Gather.box`: 0 image, 1 category, 2-5 edges, 6-7 width and
        height, 8 score, 9 flags, 10 file, 11 line, 12 track, 13 group, 14 whether it is a part (1), a
        rectangle (0) or neither (-1). It and `shapes` are changed in place. Returns the rows of the objects,
        or None if no shape has a group.
        """
        if not self._joins or (table[:, 13] < 0).all():
            return None
        image, category, group, part = table[:, [0, 1, 13, 14]].T
        objects = find_objects(image, category, group, part == 1, part == 0, table[:, 2:6])
        tracks, left = np.arange(-1, int(table[:, 12].max()) + 1), np.ones(len(table), np.bool_)
        for rows, box in objects:
            row, some, parts = rows[0], table[rows], [shapes[i] for i in rows if i != box]
            around = [*some[:, 2:4].min(axis=0), *some[:, 4:6].max(axis=0), np.nan, np.nan]
            shapes[row] = joined(parts, self._builder.image_size(int(table[row, 0])))
            if shapes[row] is None and any(parts):
                self._builder.extras["segmentation"] += len(parts) - parts.count(None)
            table[row, 2:8] = around if box < 0 else table[box, 2:8]
            table[row, 8] = np.fmax.reduce(some[:, 8])
            table[row, 9] = np.bitwise_or.reduce(some[:, 9].astype(int))
            tracks[some[:, 12].astype(int) + 1] = some[0, 12]
            part[row], left[rows[1:]] = int(box < 0), False
        tracks[0] = -1  # of boxes without one
        table[:, 12] = tracks[table[:, 12].astype(int) + 1]
        if objects:
            n = sum(len(rows) for rows, _ in objects)
            self._log.note(
                f"{printable(self._path)}: {n} shapes of groups are read as {plural(len(objects), 'object')} "
                "(-O groups=ignore reads shapes one by one)"
            )
        self._tie_points(table, part, np.flatnonzero(left & (group >= 0)).tolist(), shapes)
        return np.flatnonzero(left)

    def _tie_points(self, table: Floats, part: Floats, rows: list[int], shapes: list[Drawn | None]) -> None:
        """Give the keypoints of a group to its only rectangle, else its only object, that contains them."""
        rows_of: dict[tuple[float, float], list[int]] = {}
        for row in rows:
            rows_of.setdefault((table[row, 0], table[row, 13]), []).append(row)
        tied: list[tuple[int, dict[str, tuple[float, float, int]]]] = []
        for key, points in self._points.items():
            here = rows_of.get(key, [])
            here = [row for row in here if part[row] == 0] or here
            if len(here) > 1:
                xy = np.array([point[:2] for point in points.values()])
                inner = np.concatenate([xy.min(axis=0), -xy.max(axis=0)])
                here = [row for row in here if (table[row, 2:6] * [1, 1, -1, -1] <= inner).all()]
            if len(here) == 1:
                self._builder.extras[POINTS] -= len(points)
                tied.append((here[0], points))
        if not self._builder.wants:
            self._builder.extras["keypoints"] += len(tied)
            tied = []
        self._builder.extras = +self._builder.extras
        names: dict[int, dict[str, None]] = {}
        for row, points in tied:
            names.setdefault(int(table[row, 1]), {}).update(dict.fromkeys(points))
        for category, labels in names.items():
            self._builder.describe_points(category, list(labels))
        for row, points in tied:
            shapes[row] = shape = shapes[row] or Drawn()
            shape.points = [points.get(name, (0.0, 0.0, 0)) for name in names[int(table[row, 1])]]
