"""The tables of a dataset, and what their columns hold."""

from __future__ import annotations

import enum
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import msgspec
import numpy as np
from msgspec.structs import force_setattr, replace
from numpy.typing import NDArray

from odm.tables.extra_fields import ExtraFields, take_extra
from odm.tables.shapes import Keypoints, Shapes
from odm.views import TableMixin, import_late

NO_ID = int(np.iinfo(np.int64).min)
"""The value of a ``source_id`` that the source did not give."""

Kind = Literal["gt", "det"]
Id = int | str
Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


class Flag(enum.IntFlag):
    """An attribute of an annotation; a bit of ``boxes.flags``."""

    CROWD = 1
    DIFFICULT = 2
    TRUNCATED = 4
    OCCLUDED = 8
    GROUP_OF = 16
    DEPICTION = 32
    INSIDE = 64
    REGION = 128
    """A region to ignore: whatever its class, detections of any class in it count neither way."""


GROUPS = Flag.CROWD | Flag.GROUP_OF | Flag.REGION
"""Flags of boxes that stand for no single object."""


FLAGS = {flag.name.lower(): flag for flag in Flag if flag.name}
"""Flags by their column in a table of boxes: ``crowd``, ``difficult``, ``truncated``, ..."""


class LabelState(enum.IntEnum):
    """An image-level label of a class."""

    ABSENT = 0
    """It was looked for, and there is none."""
    PRESENT = 1
    """It was looked for, and there is one."""
    PARTIAL = 2
    """Not all of its objects there have a box."""


FREQUENCIES = ("r", "c", "f")
"""How many images of a training set show a class: rare (up to 10), common (up to 100), frequent."""


class SourceFile(msgspec.Struct, frozen=True):
    """A file that rows were read from.

    ``pointer`` is empty for files with lines; for JSON it is the pointer of the list that the rows came
    from (``/annotations``; ``/`` where the whole file is the list), and the ``line`` of a row is then its
    index in that list.
    """

    path: str
    pointer: str = ""
    extra: Mapping[str, bytes] = msgspec.field(default_factory=dict)
    """The members of the file beside its rows, such as ``info``: by key, the JSON of the value."""

    def location(self, line: int) -> tuple[str, int, str]:
        """Return path, line and JSON pointer of a row; 0 or ``""`` for what it has not of the last two."""
        if not self.pointer:
            return self.path, line, ""
        return self.path, 0, f"{self.pointer.rstrip('/')}/{line}"


class _Table(msgspec.Struct, frozen=True, eq=False):
    """A table: each field is a column with a value for each row, or None, or a fact about the whole table."""

    def __len__(self) -> int:
        return len(getattr(self, self.__struct_fields__[0]))

    def __repr__(self) -> str:
        names = getattr(self, "name", None)
        return f"<{type(self).__name__}: {len(self) if names is None else listed_names(names)}>"


class _Rows(_Table, frozen=True):
    """A table with `take`, which selects rows but does not renumber the references in them."""

    def take(self, rows: NDArray[Any]) -> Self:
        """Return the table with the rows at `rows`, a mask or row numbers."""
        # Names and other fields are tuples, which take numbers only; other tables save the time.
        has_lists = hasattr(self, "name") or getattr(self, "extra", None)
        row_numbers = np.arange(len(self))[rows].tolist() if has_lists else []
        columns: dict[str, Any] = {name: getattr(self, name) for name in self.__struct_fields__}
        for name, column in columns.items():
            if isinstance(column, np.ndarray):
                columns[name] = freeze(column[rows])
            elif isinstance(column, tuple):
                columns[name] = tuple(column[i] for i in row_numbers)
            elif name == "extra":
                columns[name] = take_extra(column, row_numbers)
            elif isinstance(column, Shapes | Keypoints):
                columns[name] = column.take(rows)
        return type(self)(**columns)


_FORMER_EXTRA = property(operator.attrgetter("extra"), doc="The former name of `extra`.")


class Images(_Rows, TableMixin, frozen=True):
    """One row per image; the row number is the internal id."""

    name: tuple[str, ...]
    """Unique; a ``/``-separated relative path, with its extension where the source gives one."""
    width: Ints
    """Pixels, 0 = unknown; (n,)."""
    height: Ints
    source_id: NDArray[Any]
    """(n,) int64 with `NO_ID` for none, or object holding int and str where some ids are strings."""
    path: tuple[str, ...]
    """Path of the picture, empty if it was not looked for or not found."""
    split: tuple[str, ...]
    """``train``, ``val``, ...; empty where the source knows none."""
    file: Ints
    """Row in `Dataset.files` where the image was named, -1 = none; (n,)."""
    line: Ints
    video: Ints | None = None
    """Row of the video that the image is a frame of, -1 = none; (n,). None where no image has one."""
    frame: Ints | None = None
    """Its number in that video as the source counts, -1 = not given; (n,). None where no image has one."""
    extra: ExtraFields = msgspec.field(default_factory=dict)
    """Fields of the source beyond the model, by key, if the reader keeps them."""
    own = _FORMER_EXTRA

    def columns(self) -> dict[str, Any]:
        """``image``, ``width``, ``height`` (None = unknown), and if there are any ``split``, ``path``."""
        sizes = {"width": self.width, "height": self.height}
        columns: dict[str, Any] = {"image": list(self.name)}
        columns |= {name: [n if n > 0 else None for n in size.tolist()] for name, size in sizes.items()}
        for name, texts in (("split", self.split), ("path", self.path)):
            if any(texts):
                columns[name] = [text or None for text in texts]
        return columns


class Categories(_Table, frozen=True):
    """One row per category, in the source's order."""

    name: tuple[str, ...]
    source_id: NDArray[Any]
    """(n,) int64 with `NO_ID` for none, or object holding int and str where some ids are strings."""
    parent: Ints
    """Row of the parent category, -1 = none; (n,)."""
    frequency: tuple[str, ...]
    """One of `FREQUENCIES` for each, empty where the source has none."""
    named: bool = True
    """False where the source gave only numbers: the names are then those numbers."""
    ordered: bool = True
    """False where the order is that of first appearance, so that a class number is meaningless."""
    extra: ExtraFields = msgspec.field(default_factory=dict)
    """Fields of the source beyond the model, by key, if the reader keeps them."""
    own = _FORMER_EXTRA
    keypoints: tuple[tuple[str, ...], ...] | None = None
    """The names of the keypoints of each, in their order; None where no category has any."""
    skeleton: tuple[tuple[tuple[int, int], ...], ...] | None = None
    """Pairs of keypoints of each that are joined by a line, counted from 0; None where there are none."""


class Boxes(_Rows, TableMixin, frozen=True, dict=True):
    """One row per box, in the order of the source."""

    image: Ints
    category: Ints
    xyxy: Floats
    """(n, 4) left, top, right, bottom in pixels; the order is not enforced."""
    wh: Floats
    """(n, 2) width and height as the source gives them, else right - left and bottom - top."""
    score: Floats
    """(n,) NaN = ground truth."""
    flags: NDArray[np.uint16]
    area: Floats
    """(n,) NaN = width * height."""
    source_id: Longs
    file: Ints
    """Row in `Dataset.files`, -1 = none; (n,)."""
    line: Ints
    """Line in that file from 1, or index from 0 where the file has a ``pointer``; (n,)."""
    track: Ints | None = None
    """Row of the track, -1 = none; (n,). None where no box has one."""
    wh_given: NDArray[np.bool_] | None = None
    """(n, 2) which of `wh` the source gives, to be written as they are. None where it gives none."""
    extra: ExtraFields = msgspec.field(default_factory=dict)
    """Fields of the source beyond the model, such as ``attributes``, by key, if the reader keeps them."""
    own = _FORMER_EXTRA
    shapes: Shapes | None = None
    """Outlines, masks and oriented boxes. None where no box has one, or they were not asked for."""
    keypoints: Keypoints | None = None
    """None where no box has keypoints, or they were not asked for."""
    group: Ints | None = None
    """The number of its group in its image, -1 = none; (n,). None where no box has one."""

    def named(self, images: tuple[str, ...], categories: tuple[str, ...], *, scored: bool) -> Boxes:
        """Return these boxes with the names of the images and classes of their dataset, for `columns`, and
        whether it shows their scores.

        Boxes without names, or with these very tuples, are returned themselves. Those with other names, which
        belong to another dataset, are copied.
        """
        names = (images, categories, scored)
        previous = getattr(self, "_names", names)
        is_same = previous[0] is images and previous[1] is categories and previous[2] is scored
        boxes = self if is_same else replace(self)
        force_setattr(boxes, "_names", names)
        return boxes

    def columns(self) -> dict[str, NDArray[Any]]:
        """``image``, ``class``, ``left``, ``top``, ``right``, ``bottom``, and where there are any ``score``,
        ``area`` and `FLAGS`. Raises UsageError if the boxes are in no dataset, which has the names.
        """
        if not hasattr(self, "_names"):
            raise import_late("issues").UsageError(
                "these boxes are in no Dataset, so their images and classes have no names"
            )
        images, categories, scored = self._names
        columns: dict[str, NDArray[Any]] = {
            "image": np.array(images, object)[self.image],
            "class": np.array(categories, object)[self.category],
        }
        columns |= dict(zip(("left", "top", "right", "bottom"), self.xyxy.T.copy(), strict=True))
        if scored:
            columns["score"] = self.score
        if not np.isnan(self.area).all():
            columns["area"] = self.area
        marks = {name: self.has(flag) for name, flag in FLAGS.items()}
        return columns | {name: marked for name, marked in marks.items() if marked.any()}

    def short_wh(self) -> Floats:
        """(n, 2) widths and heights to be written: the source's numbers, or the shortest ones that give the
        same edges.

        A width that is only ``right - left`` carries rounding (0.30000000000000004); it is replaced by the
        number of fewest decimals that, added to the left edge, gives the same right edge.
        """
        low, high, wh = self.xyxy[:, :2], self.xyxy[:, 2:], self.wh
        is_derived = np.full(wh.shape, True) if self.wh_given is None else ~self.wh_given
        if not is_derived.any():
            return wh
        short_values = wh.copy()
        # 0.30000000000000004 from left edge 0.1 to right edge 0.4: with 0 decimals 0.1 + 0.0 misses 0.4, with
        # 1 decimal 0.1 + 0.3 hits it. The others are tried with one decimal more.
        undecided = np.nonzero(is_derived & (wh != np.rint(wh)))
        for places in range(17):
            if not len(undecided[0]):
                break
            rounded = np.round(wh[undecided], places)
            is_exact = low[undecided] + rounded == high[undecided]
            decided = tuple(index[is_exact] for index in undecided)
            short_values[decided] = rounded[is_exact]
            undecided = tuple(index[~is_exact] for index in undecided)
        return short_values

    def has(self, flag: Flag | int) -> NDArray[np.bool_]:
        """(n,) mask of the boxes with any bit of `flag`."""
        is_flagged: NDArray[np.bool_] = (self.flags & np.uint16(flag)) != 0
        return is_flagged

    @property
    def in_percent(self) -> bool:
        """Whether the scores look like percentages: from 0 to 100, most above 1 and some above 10."""
        score = self.score
        if not len(score) or not (10 < score.max() <= 100 and score.min() >= 0):
            return False
        return int(np.count_nonzero(score > 1)) * 2 > len(score)


class ImageLabels(_Rows, frozen=True):
    """Image-level labels, one row per image and class; most sources have none."""

    image: Ints
    category: Ints
    verdict: NDArray[np.uint8]
    """(n,) `LabelState`; several may hold of one class and image."""


class Videos(_Table, frozen=True):
    """One row per video; images are their frames."""

    name: tuple[str, ...]
    """Unique."""
    length: Ints
    """How many frames it has, 0 = not given; (n,)."""
    source_id: NDArray[Any]
    """(n,) int64 with `NO_ID` for none, or object holding int and str where some ids are strings."""


class Tracks(_Table, frozen=True):
    """One row per object tracked through a video; its boxes refer to it by row."""

    video: Ints
    """Row of the video, -1 = none; (n,)."""
    source_id: NDArray[Any]
    """(n,) int64, or object holding int and str where some ids are strings; unique within a video."""
    score: Floats
    """(n,) the track's own confidence, NaN = only its boxes have one."""


def listed_names(names: Sequence[str]) -> str:
    """Format the number of names and the first three of them: ``5 ('a', 'b', 'c', ...)``."""
    shown = ", ".join(map(repr, names[:3]))
    return f"{len(names)} ({shown}{', ...' if len(names) > 3 else ''})" if names else "0"


def freeze(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only, as all columns of a dataset are, and return it."""
    array.flags.writeable = False
    return array


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct values of whole numbers (n,), ascending.

    Up to 65 536 numbers are sorted here: the first call of `numpy.unique` imports `numpy.ma`, which takes a
    tenth of the time of importing NumPy.
    """
    if len(values) > 2**16:
        return np.unique(values)
    values = np.sort(values)
    return values[np.concatenate([[True], values[1:] != values[:-1]])] if len(values) else values


def first_index_of(values: NDArray[Any], n: int) -> Longs:
    """(n,) for each number below `n`, the index of its first occurrence in `values` (m,), -1 if none."""
    # Written from the last entry to the first, so that the first one stays:
    #   values       [2, 0, 2]    writes, in this order:  [2] = 2,  [0] = 1,  [2] = 0
    #   first_index  [1, -1, 0]
    first_index = np.full(n, -1, np.int64)
    first_index[values[::-1]] = np.arange(len(values) - 1, -1, -1)
    return first_index


def rows_without(n: int, rows: NDArray[Any]) -> Longs:
    """Return the row numbers 0 to n - 1 without `rows`."""
    is_other = np.ones(n, np.bool_)
    is_other[rows] = False
    return np.flatnonzero(is_other)
