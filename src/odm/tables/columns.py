"""The tables of a `Dataset`, and what their columns hold."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from odm.tables.own import Own, take_own

if TYPE_CHECKING:
    from odm.tables.builder import Builder

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


GROUPS = Flag.CROWD | Flag.GROUP_OF
"""Flags of boxes that stand for many objects."""


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


@dataclasses.dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that rows were read from.

    ``pointer`` is empty for files with lines; for JSON it is the pointer of the list that the rows came
    from (``/annotations``; ``/`` where the whole file is the list), and the ``line`` of a row is then its
    index in that list.
    """

    path: str
    pointer: str = ""
    own: Mapping[str, bytes] = dataclasses.field(default_factory=dict, compare=False)
    """What it says of itself beyond its rows: by key, the JSON of the value."""

    def location(self, line: int) -> tuple[str, int, str]:
        """Path, line and JSON pointer of a row; the empty ones of the last two are 0 and ``""``."""
        if not self.pointer:
            return self.path, line, ""
        return self.path, 0, f"{self.pointer.rstrip('/')}/{line}"


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Images:
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
    own: Own = dataclasses.field(default_factory=dict)
    """Other fields of the source, if the reader was asked to keep them."""

    def __repr__(self) -> str:
        return f"<Images: {_listed(self.name)}>"

    def __len__(self) -> int:
        return len(self.name)

    def take(self, rows: NDArray[np.intp]) -> Images:
        """The images at these rows."""
        columns: dict[str, Any] = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        listed = rows.tolist()
        for key, column in columns.items():
            if isinstance(column, np.ndarray):
                columns[key] = frozen(column[rows])
            elif isinstance(column, tuple):
                columns[key] = tuple(column[i] for i in listed)
        return Images(**{**columns, "own": take_own(self.own, listed)})


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Categories:
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
    own: Own = dataclasses.field(default_factory=dict)
    """Other fields of the source, if the reader was asked to keep them."""

    def __repr__(self) -> str:
        return f"<Categories: {_listed(self.name)}>"

    def __len__(self) -> int:
        return len(self.name)


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Boxes:
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

    def __repr__(self) -> str:
        return f"<Boxes: {len(self)}>"

    def __len__(self) -> int:
        return len(self.image)

    def take(self, rows: NDArray[Any]) -> Boxes:
        """The boxes at `rows`, a mask or row numbers."""
        columns: dict[str, Any] = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        taken: dict[str, Any] = {k: None if v is None else frozen(v[rows]) for k, v in columns.items()}
        return Boxes(**taken)

    def has(self, flag: Flag | int) -> NDArray[np.bool_]:
        """(n,) mask of the boxes with any bit of `flag`."""
        found: NDArray[np.bool_] = (self.flags & np.uint16(flag)) != 0
        return found

    @property
    def in_percent(self) -> bool:
        """Whether the scores look like percentages: from 0 to 100, most above 1 and some above 10."""
        score = self.score
        if not len(score) or not (10 < score.max() <= 100 and score.min() >= 0):
            return False
        return int(np.count_nonzero(score > 1)) * 2 > len(score)


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class ImageLabels:
    """Image-level labels, one row per image and class; most sources have none."""

    image: Ints
    category: Ints
    verdict: NDArray[np.uint8]
    """(n,) `LabelState`; several may hold of one class and image."""

    def __repr__(self) -> str:
        return f"<ImageLabels: {len(self)}>"

    def __len__(self) -> int:
        return len(self.image)

    def take(self, rows: NDArray[Any]) -> ImageLabels:
        """The labels at `rows`, a mask or row numbers."""
        return ImageLabels(*(frozen(getattr(self, f.name)[rows]) for f in dataclasses.fields(self)))


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Videos:
    """One row per video; images are their frames."""

    name: tuple[str, ...]
    """Unique."""
    length: Ints
    """How many frames it has, 0 = not given; (n,)."""
    source_id: NDArray[Any]
    """(n,) int64 with `NO_ID` for none, or object holding int and str where some ids are strings."""

    def __repr__(self) -> str:
        return f"<Videos: {_listed(self.name)}>"

    def __len__(self) -> int:
        return len(self.name)


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tracks:
    """One row per object tracked through a video; its boxes refer to it by row."""

    video: Ints
    """Row of the video, -1 = none; (n,)."""
    source_id: NDArray[Any]
    """(n,) int64, or object holding int and str where some ids are strings; unique within a video."""
    score: Floats
    """(n,) the track's own confidence, NaN = only its boxes have one."""

    def __repr__(self) -> str:
        return f"<Tracks: {len(self)}>"

    def __len__(self) -> int:
        return len(self.video)


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dataset:
    """Images, categories and boxes of one source, ground truth (``gt``) or detections (``det``)."""

    images: Images
    categories: Categories
    boxes: Boxes
    kind: Kind = "gt"
    files: tuple[SourceFile, ...] = ()
    extras: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Source fields outside this model, with counts: ``{"pose": 12, "segmentation": 3}``."""
    path: str = ""
    """What the user named, for messages about the whole."""
    skipped: int = 0
    """Rows that could not be read as boxes; each is an error in the log."""
    labels: ImageLabels = dataclasses.field(
        default_factory=lambda: ImageLabels(_empty(np.int32), _empty(np.int32), _empty(np.uint8))
    )
    videos: Videos = dataclasses.field(default_factory=lambda: Videos((), _empty(np.int32), _empty(np.int64)))
    tracks: Tracks = dataclasses.field(
        default_factory=lambda: Tracks(_empty(np.int32), _empty(np.int64), _empty(np.float64))
    )
    relative: bool = False
    """Whether no image has a size and all coordinates are fractions of their image's width and height."""

    def __repr__(self) -> str:
        what = "detections" if self.kind == "det" else "ground truth"
        where = f" of {self.path!r}" if self.path else ""
        return (
            f"<Dataset: {what}{where}, {len(self.boxes)} boxes, "
            f"images {_listed(self.images.name)}, categories {_listed(self.categories.name)}>"
        )

    def __len__(self) -> int:
        return len(self.boxes)

    def location(self, row: int) -> tuple[str, int, str]:
        """Path, line and JSON pointer of box `row`; the empty ones of the last two are 0 and ``""``."""
        return self._location(int(self.boxes.file[row]), int(self.boxes.line[row]))

    def image_place(self, row: int) -> tuple[str, int, str]:
        """The same of image `row`."""
        return self._location(int(self.images.file[row]), int(self.images.line[row]))

    def _location(self, file: int, line: int) -> tuple[str, int, str]:
        if file < 0:
            return "", 0, ""
        return self.files[file].location(line)

    def limits(self) -> Longs:
        """(images, 2) width and height in the unit of the coordinates: pixels (0 = unknown), or 1 of each."""
        size = np.stack([self.images.width, self.images.height], axis=1).astype(np.int64)
        return np.ones_like(size) if self.relative else size

    def groups_by_video(self) -> tuple[str, ...]:
        """(images,) what a split keeps together: the video of each image, or else its name."""
        names = self.images.name
        if self.images.video is None:
            return names
        pairs = zip(self.images.video.tolist(), names, strict=True)
        return tuple(self.videos.name[video] if video >= 0 else name for video, name in pairs)

    def take(self, rows: NDArray[Any]) -> Dataset:
        """The same images and categories with only the boxes at `rows`, a mask or row numbers."""
        return dataclasses.replace(self, boxes=self.boxes.take(rows))

    @classmethod
    def from_arrays(
        cls,
        *,
        images: Sequence[str],
        categories: Sequence[str],
        image: ArrayLike,
        category: ArrayLike,
        xyxy: ArrayLike | None = None,
        ltwh: ArrayLike | None = None,
        score: ArrayLike | None = None,
        flags: ArrayLike | None = None,
        area: ArrayLike | None = None,
        source_id: ArrayLike | None = None,
        width: ArrayLike | None = None,
        height: ArrayLike | None = None,
        image_ids: Sequence[Id] | None = None,
        category_ids: Sequence[int] | None = None,
        frequency: Sequence[str] | None = None,
        labels: Iterable[tuple[int, int, int]] = (),
        video: Sequence[str] | None = None,
        frame: ArrayLike | None = None,
        track: Sequence[Id | None] | None = None,
        kind: Kind | None = None,
    ) -> Dataset:
        """Make a dataset in memory.

        Parameters
        ----------
        images, categories
            Unique names; `image` and `category` are (n,) row numbers into them.
        xyxy, ltwh
            (n, 4) boxes in pixels, one of the two.
        score
            (n,) confidences; without it the boxes are ground truth.
        width, height
            Image sizes in pixels, one per image.
        frequency
            One of `FREQUENCIES`, or empty, per category.
        labels
            Image-level labels: rows of an image, a category and a `LabelState`.
        video, frame
            The name of each image's video, empty for none, and its frame number, -1 for none.
        track
            The id of each box's track, None for none; ids are unique within a video.

        Raises
        ------
        ValueError
            If shapes disagree, a row number is out of range, or names are not unique.
        """
        from odm.tables.builder import Builder

        builder = Builder()
        n_images = len(images)
        builder.add_images(
            [name.replace("\\", "/") for name in images],
            width=np.zeros(n_images, np.int32) if width is None else np.array(width),
            height=np.zeros(n_images, np.int32) if height is None else np.array(height),
            source_id=image_ids,
            video=None if video is None else [builder.video(name) if name else -1 for name in video],
            frame=None if frame is None else _row_numbers(np.array(frame) + 1, "frame") - 1,
        )
        _add_categories(builder, categories, category_ids, frequency)
        corners, wh = _corners(xyxy, ltwh)
        image = _row_numbers(image, "image")
        builder.boxes(
            image=image,
            category=_row_numbers(category, "category"),
            xyxy=corners,
            wh=wh,
            score=None if score is None else np.array(score, np.float64),
            flags=None if flags is None else np.array(flags).astype(np.uint16),
            area=None if area is None else np.array(area, np.float64),
            source_id=None if source_id is None else np.array(source_id, np.int64),
            track=None if track is None else builder.tracks_of_images(image, track),
        )
        rows = np.array(list(labels)).reshape(-1, 3)
        builder.labels(
            image=_row_numbers(rows[:, 0], "labels"),
            category=_row_numbers(rows[:, 1], "labels"),
            verdict=rows[:, 2],
        )
        builder.kind = kind or ("gt" if score is None else "det")
        return builder.build()


def _listed(names: Sequence[str]) -> str:
    """How many names there are, and the first three."""
    shown = ", ".join(map(repr, names[:3]))
    return f"{len(names)} ({shown}{', ...' if len(names) > 3 else ''})" if names else "0"


def _empty(dtype: Any) -> NDArray[Any]:
    return frozen(np.zeros(0, dtype))


def _add_categories(
    builder: Builder,
    categories: Sequence[str],
    category_ids: Sequence[int] | None,
    frequency: Sequence[str] | None,
) -> None:
    """Add categories, with what is given of them; ValueError if it does not fit together."""
    if len(set(categories)) != len(categories):
        raise ValueError("two categories have the same name")
    if category_ids is not None and len(category_ids) != len(categories):
        raise ValueError(f"category_ids has {len(category_ids)} rows, not {len(categories)}")
    if frequency is not None and (len(frequency) != len(categories) or {*frequency} - {"", *FREQUENCIES}):
        raise ValueError(f"frequency must give one of {', '.join(FREQUENCIES)}, or '', to each category")
    for i, name in enumerate(categories):
        builder.category(
            name,
            source_id=None if category_ids is None else category_ids[i],
            frequency="" if frequency is None else frequency[i],
        )


def _corners(xyxy: ArrayLike | None, ltwh: ArrayLike | None) -> tuple[Floats, Floats | None]:
    """(n, 4) edges, and (n, 2) widths and heights if these were given; ValueError unless just one is."""
    if (xyxy is None) == (ltwh is None):
        raise ValueError("pass either xyxy or ltwh")
    if ltwh is None:
        return np.array(xyxy, np.float64).reshape(-1, 4), None
    given = np.array(ltwh, np.float64).reshape(-1, 4)
    wh = given[:, 2:]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.concatenate([given[:, :2], given[:, :2] + wh], axis=1), wh


def _row_numbers(rows: ArrayLike, what: str) -> Longs:
    array = np.array(rows).reshape(-1)
    if len(array) and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{what} has type {array.dtype}, not row numbers")
    if len(array) and not 0 <= array.min() <= array.max() < 2**31:
        raise ValueError(f"{what} contains values that are not row numbers")
    return array.astype(np.int64)


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, which can no longer be written to, as all columns of a dataset."""
    array.flags.writeable = False
    return array


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The distinct ones of some whole numbers, ascending.

    Few are not left to `numpy.unique`, whose first call imports `numpy.ma`, as long as a tenth of NumPy.
    """
    if len(values) > 2**16:
        return np.unique(values)
    values = np.sort(values)
    return values[np.concatenate([[True], values[1:] != values[:-1]])] if len(values) else values
