"""Join groups of shapes, as annotation tools store them, to objects; the option that decides it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from odm.formats._contract import option
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.shapes.box_shapes import Drawn, join_shapes
from odm.formats._shared.split_names import SplitOptions
from odm.issues import Log, plural, printable, spell_setting
from odm.tables import Builder, Floats
from odm.tables.groups import find_objects

POINTS = "point shapes"
"""The name under which keypoints that are not read are counted."""


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
        """The numbers of the groups of an image that have names."""
        self._points: dict[tuple[int, int], dict[str, tuple[float, float, int]]] = {}
        """The keypoints of an image and group by their names."""

    def find_number(self, image: int, name: str) -> int:
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
        image, category, group, part_kind = table[:, [0, 1, 13, 14]].T
        # For each object its rows and the one that is its rectangle, -1 without one.
        objects = find_objects(image, category, group, part_kind == 1, part_kind == 0, table[:, 2:6])
        # new_track_of[t + 1] is the track that track t has become; -1, which is no track, has the place 0.
        new_track_of, is_kept = np.arange(-1, int(table[:, 12].max()) + 1), np.ones(len(table), np.bool_)
        for rows, box_row in objects:
            self._join_rows(table, shapes, rows, box_row)
            # The first row's track takes the place of all tracks of the object.
            new_track_of[table[rows, 12].astype(int) + 1] = table[rows[0], 12]
            part_kind[rows[0]], is_kept[rows[1:]] = int(box_row < 0), False  # 0: a rectangle
        new_track_of[0] = -1  # which objects with rows without a track have changed
        table[:, 12] = new_track_of[table[:, 12].astype(int) + 1]
        if objects:
            n = sum(len(rows) for rows, _ in objects)
            self._log.note(
                f"{printable(self._path)}: {n} shapes of groups are read as {plural(len(objects), 'object')} "
                f"({spell_setting('groups=ignore')} reads shapes one by one)"
            )
        self._tie_points(table, part_kind, np.flatnonzero(is_kept & (group >= 0)).tolist(), shapes)
        return np.flatnonzero(is_kept)

    def _join_rows(
        self, table: Floats, shapes: list[Drawn | None], rows: Sequence[int], box_row: int
    ) -> None:
        """Join the rows of one object in the first: its shape, box, score (the highest) and flags.

        The box is that of `box_row`, the object's rectangle; if this is -1, it is around all rows, and has no
        exact width and height. `table` and `shapes` are those of `join`.
        """
        row, members, parts = rows[0], table[rows], [shapes[i] for i in rows if i != box_row]
        member_bounds = [*members[:, 2:4].min(axis=0), *members[:, 4:6].max(axis=0), np.nan, np.nan]
        shapes[row] = join_shapes(parts, self._builder.image_size(int(table[row, 0])))
        if shapes[row] is None and any(parts):  # a part without a shape: the others are read as boxes
            self._builder.extras["segmentation"] += len(parts) - parts.count(None)
        table[row, 2:8] = member_bounds if box_row < 0 else table[box_row, 2:8]
        table[row, 8] = np.fmax.reduce(members[:, 8])
        table[row, 9] = np.bitwise_or.reduce(members[:, 9].astype(int))

    def _tie_points(
        self, table: Floats, part_kind: Floats, rows: list[int], shapes: list[Drawn | None]
    ) -> None:
        """Give the keypoints of each group to its only rectangle, else its only object, that contains them.

        `table` and `shapes` are those of `join`, `part_kind` (n,) is its column 14, and `rows` are the rows
        of objects with a group. Changes `shapes` in place.
        """
        rows_of_group: dict[tuple[float, float], list[int]] = {}  # by image and group
        for row in rows:
            rows_of_group.setdefault((table[row, 0], table[row, 13]), []).append(row)

        # The row of each group of keypoints, and these by name; other keypoints stay counted as unread.
        tied: list[tuple[int, dict[str, tuple[float, float, int]]]] = []
        for key, points in self._points.items():
            candidates = rows_of_group.get(key, [])
            candidates = [row for row in candidates if part_kind[row] == 0] or candidates
            if len(candidates) > 1:
                xy = np.array([point[:2] for point in points.values()])
                # Left <= min x, top <= min y, -right <= -max x and -bottom <= -max y: the box has all points.
                inner_bounds = np.concatenate([xy.min(axis=0), -xy.max(axis=0)])
                candidates = [
                    row for row in candidates if (table[row, 2:6] * [1, 1, -1, -1] <= inner_bounds).all()
                ]
            if len(candidates) == 1:
                self._builder.extras[POINTS] -= len(points)
                tied.append((candidates[0], points))
        if not self._builder.wants:
            self._builder.extras["keypoints"] += len(tied)  # objects that lose theirs
            tied = []
        self._builder.extras = +self._builder.extras  # without the counts that have become 0

        # All boxes of a class have its labels in one order; a keypoint that one lacks is 0, 0, 0.
        labels_of_category: dict[int, dict[str, None]] = {}
        for row, points in tied:
            labels_of_category.setdefault(int(table[row, 1]), {}).update(dict.fromkeys(points))
        for category, labels in labels_of_category.items():
            self._builder.describe_points(category, list(labels))
        for row, points in tied:
            shapes[row] = shape = shapes[row] or Drawn()
            shape.points = [
                points.get(name, (0.0, 0.0, 0)) for name in labels_of_category[int(table[row, 1])]
            ]
