"""The one model that every format is read into and written from: columns, not objects.

A `Dataset` holds tables of NumPy columns: images, categories, boxes, and what else is said of whole images.
Rows refer to each other by row number: ``boxes.image`` and ``boxes.category`` are rows of the image and the
category table. Arrays are read-only once built.

Coordinates are pixels with the origin at the image's top left corner, exactly as the source gives them;
nothing is shifted, rounded or clipped on the way in. A dataset can hold wrong boxes: `odm.checks` judges.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    """Where the picture lies on the disk, empty where nobody looked or it was not found."""
    split: tuple[str, ...]
    """``train``, ``val``, ...; empty where the source knows none."""
    file: Ints
    """Row in `Dataset.files` where the image was named, -1 = none; (n,)."""
    line: Ints
    video: Ints | None = None
    """Row of the video that the image is a frame of, -1 = none; (n,). None where no image has one."""
    frame: Ints | None = None
    """Its number in that video as the source counts, -1 = not given; (n,). None where no image has one."""

    def __repr__(self) -> str:
        return f"<Images: {_listed(self.name)}>"

    def __len__(self) -> int:
        return len(self.name)


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
    """Rows that the reader saw and could not make a box of; each is an error in the log."""
    labels: ImageLabels = dataclasses.field(default_factory=lambda: _image_labels([]))
    videos: Videos = dataclasses.field(default_factory=lambda: _videos(Builder()))
    tracks: Tracks = dataclasses.field(default_factory=lambda: _tracks(Builder()))

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

    def groups_by_video(self) -> tuple[str, ...]:
        """(images,) what a split must not tear apart: the video of each image, else the image by its name."""
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
        builder = Builder()
        n_images = len(images)
        builder.add_images(
            images,
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


class Builder:
    """Builds the tables. A reader passes what it reads; rows keep that order.

    ``counterpart`` gives the other side of an evaluation, or the ground truth that a results file refers to,
    and reads it at the first call; it returns None if there is none.
    """

    def __init__(self, counterpart: Callable[[], Dataset | None] | None = None) -> None:
        self.kind: Kind | None = None
        self.named = True
        self.extras: dict[str, int] = {}
        self.skipped = 0
        self._counterpart = counterpart
        self._files: list[SourceFile] = []
        self._image_rows: dict[str, int] = {}
        self._image_columns: dict[str, list[Any]] = {
            k: [] for k in ("width", "height", "source_id", "path", "split", "file", "line")
        }
        self._frames: list[tuple[int, dict[str, Any]]] = []
        """First image, and the videos and frame numbers of the images from there on."""
        self._videos: dict[str, int] = {}
        self._lengths: list[int] = []
        self._video_ids: list[Id] = []
        self._tracks: dict[tuple[int, Id], int] = {}
        self._track_scores: dict[int, float] = {}
        self._category_rows: dict[str, int] = {}
        self._category_ids: list[Id] = []
        self._parents: list[int] = []
        self._frequencies: list[str] = []
        self._labels: list[NDArray[np.int32]] = []
        self._chunks: list[dict[str, NDArray[Any]]] = []

    def counterpart(self) -> Dataset | None:
        """The dataset on the other side, if there is one."""
        return self._counterpart() if self._counterpart else None

    def file(self, path: str, pointer: str = "") -> int:
        """Register a file that rows come from; its number goes into the ``file`` columns."""
        self._files.append(SourceFile(path, pointer))
        return len(self._files) - 1

    def add_files(self, paths: Iterable[str], *pointers: str) -> int:
        """Register many files, each under these pointers in turn; the number of the first."""
        first = len(self._files)
        self._files += [SourceFile(path, pointer) for path in paths for pointer in pointers or ("",)]
        return first

    def location(self, file: int, line: int) -> tuple[str, int, str]:
        """Path, line and JSON pointer of a row of a file; the empty ones of the last two are 0 and ``""``."""
        return self._files[file].location(line)

    def image(
        self,
        name: str,
        *,
        width: int = 0,
        height: int = 0,
        source_id: Id | None = None,
        path: str = "",
        split: str = "",
        file: int = -1,
        line: int = 0,
        video: int = -1,
        frame: int = -1,
    ) -> int:
        """Add an image and return its row. ValueError if the name is there already."""
        row = len(self._image_rows)
        if self._image_rows.setdefault(name, row) != row:
            raise ValueError(f"two images are named {name!r}")
        columns = self._image_columns
        columns["width"].append(width)
        columns["height"].append(height)
        columns["source_id"].append(NO_ID if source_id is None else source_id)
        columns["path"].append(path)
        columns["split"].append(split)
        columns["file"].append(file)
        columns["line"].append(line)
        if video >= 0 or frame >= 0:
            self.set_frames(row, [video], [frame])
        return row

    def add_images(
        self,
        names: Sequence[str],
        *,
        width: NDArray[Any],
        height: NDArray[Any],
        source_id: Sequence[Id] | None = None,
        path: Sequence[str] | None = None,
        split: Sequence[str] | None = None,
        file: int | Iterable[int] = -1,
        line: Iterable[int] | None = None,
        video: Sequence[int] | Longs | Ints | None = None,
        frame: Sequence[int] | Longs | Ints | None = None,
    ) -> int:
        """Add many images at once and return the first one's row. ValueError if a name is there already."""
        first, n = len(self._image_rows), len(names)
        if width.shape != (n,) or height.shape != (n,) or (source_id is not None and len(source_id) != n):
            raise ValueError(f"width, height and source_id must have {n} rows, as names has")
        self._image_rows.update(zip(names, range(first, first + n), strict=True))
        if len(self._image_rows) != first + n:
            raise ValueError("two images have the same name")
        columns = self._image_columns
        columns["width"].extend(width.tolist())
        columns["height"].extend(height.tolist())
        columns["source_id"].extend([NO_ID] * n if source_id is None else source_id)
        columns["path"].extend([""] * n if path is None else path)
        columns["split"].extend([""] * n if split is None else split)
        columns["file"].extend([file] * n if isinstance(file, int) else file)
        columns["line"].extend(range(n) if line is None else line)
        if video is not None or frame is not None:
            none = np.full(n, -1, np.int32)
            self.set_frames(first, none if video is None else video, none if frame is None else frame)
        return first

    def set_frames(
        self, first: int, video: Sequence[int] | NDArray[Any], frame: Sequence[int] | NDArray[Any]
    ) -> None:
        """Give images from row `first` on the rows of their videos and their frame numbers, -1 = none."""
        self._frames.append((first, {"video": video, "frame": frame}))

    def video(self, name: str, *, length: int = 0, source_id: Id | None = None) -> int:
        """The row of the video of that name, added if it is new; the first `length` that is given holds."""
        row = self._videos.setdefault(name, len(self._videos))
        if row == len(self._lengths):
            self._lengths.append(length)
            self._video_ids.append(NO_ID if source_id is None else source_id)
        self._lengths[row] = self._lengths[row] or length
        return row

    @property
    def video_names(self) -> list[str]:
        """The names of the videos so far, by row."""
        return list(self._videos)

    def frame_rows(self) -> tuple[Longs, Longs]:
        """Frames that are images, as video * 2**31 + frame, ascending; and the rows of the images."""
        video, frame = self._frame_columns()
        if video is None or frame is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows = np.flatnonzero((video >= 0) & (frame >= 0))
        keys = video[rows] * np.int64(2**31) + frame[rows]
        order = np.argsort(keys, kind="stable")
        return keys[order], rows[order]

    def track(self, video: int, source_id: Id, *, score: float = np.nan) -> int:
        """The row of the track with that id in a video (-1 = in none), added if it is new."""
        row = self._tracks.setdefault((video, source_id), len(self._tracks))
        if score == score:  # noqa: PLR0124 -- no NaN
            self._track_scores[row] = score
        return row

    def score_track(self, video: int, source_id: Id, score: float) -> None:
        """Give the track of that id in a video (-1 = in any) a score of its own, if it is there."""
        if video >= 0:
            keys = [(video, source_id)] if (video, source_id) in self._tracks else []
        else:
            keys = [key for key in self._tracks if key[1] == source_id]
        for key in keys:
            self._track_scores[self._tracks[key]] = score

    def tracks(self, video: NDArray[Any], source_id: NDArray[Any] | Sequence[Id | None]) -> Ints:
        """(n,) rows of the tracks of n boxes by the video and id of each; None and `NO_ID` are no track."""
        found = np.full(len(video), -1, np.int32)
        if not isinstance(source_id, np.ndarray) or source_id.dtype == object:
            for i, (own, id_) in enumerate(zip(video.tolist(), list(source_id), strict=True)):
                if id_ is not None and id_ != NO_ID:
                    found[i] = self.track(own, id_)
            return found
        has = np.flatnonzero(source_id != NO_ID)
        ids, of = source_id[has].astype(np.int64), video[has].astype(np.int64)
        if len(ids) and int(ids.min()) > -(2**31) and int(ids.max()) < 2**31:
            _, first, which = np.unique((of << 32) + ids, return_index=True, return_inverse=True)
        else:
            keys = np.stack([of, ids], axis=1)
            _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        rows = np.empty(len(first), np.int32)
        for k in np.argsort(first).tolist():  # in the order of their first boxes
            rows[k] = self.track(int(of[first[k]]), int(ids[first[k]]))
        found[has] = rows[which.reshape(-1)]
        return found

    def tracks_of_images(self, image: NDArray[Any], source_id: NDArray[Any] | Sequence[Id | None]) -> Ints:
        """The same by the image of each box, whose video was given."""
        video, _ = self._frame_columns()
        at = np.full(len(image), -1, np.int32) if video is None else video[image]
        return self.tracks(at, source_id)

    def image_video(self, row: int) -> int:
        """The row of the video of an image that was added, -1 = none."""
        for first, columns in reversed(self._frames):
            if first <= row < first + len(columns["video"]):
                return int(columns["video"][row - first])
        return -1

    def _frame_columns(self) -> tuple[Ints | None, Ints | None]:
        """The columns ``video`` and ``frame`` of the images so far; None where no image has one."""
        columns: list[Ints | None] = []
        for key in ("video", "frame"):
            column = np.full(self.n_images, -1, np.int32)
            for first, given in self._frames:
                column[first : first + len(given[key])] = given[key]
            columns.append(frozen(column) if (column >= 0).any() else None)
        return columns[0], columns[1]

    def image_size(self, row: int) -> tuple[int, int]:
        """Width and height of an image that was added, 0 where unknown."""
        return self._image_columns["width"][row], self._image_columns["height"][row]

    def image_row(self, name: str) -> int | None:
        """The row of the image of that name, if it was added."""
        return self._image_rows.get(name)

    def category(
        self, name: str, *, source_id: Id | None = None, parent: int = -1, frequency: str = ""
    ) -> int:
        """The row of the category of that name, added if it is new."""
        row = self._category_rows.get(name)
        if row is None:
            row = self._category_rows[name] = len(self._category_ids)
            self._category_ids.append(NO_ID if source_id is None else source_id)
            self._parents.append(parent)
            self._frequencies.append(frequency)
        return row

    def category_row(self, name: str) -> int | None:
        """The row of the category of that name, if it was added."""
        return self._category_rows.get(name)

    def labels(self, *, image: ArrayLike, category: ArrayLike, verdict: ArrayLike) -> None:
        """Say `LabelState` of n categories on images: (n,) row numbers, and (n,) verdicts or one for all.

        ValueError if the shapes disagree or a number is no `LabelState`.
        """
        columns = np.asarray(image, np.int32), np.asarray(category, np.int32), np.asarray(verdict, np.int32)
        self._labels.append(np.stack(np.broadcast_arrays(*columns), axis=-1).reshape(-1, 3))
        if not np.isin(columns[2], list(LabelState)).all():
            raise ValueError("a verdict is none of " + ", ".join(f"{v.value} ({v.name})" for v in LabelState))

    @property
    def n_files(self) -> int:
        """How many files were registered so far."""
        return len(self._files)

    @property
    def n_images(self) -> int:
        """How many images were added so far."""
        return len(self._image_rows)

    @property
    def image_names(self) -> list[str]:
        """The names of the images so far, by row."""
        return list(self._image_rows)

    @property
    def n_categories(self) -> int:
        """How many categories were added so far."""
        return len(self._category_ids)

    def boxes(
        self,
        *,
        image: NDArray[Any],
        category: NDArray[Any],
        xyxy: Floats,
        wh: Floats | None = None,
        score: Floats | None = None,
        flags: NDArray[Any] | None = None,
        area: Floats | None = None,
        source_id: NDArray[Any] | None = None,
        file: NDArray[Any] | int = -1,
        line: NDArray[Any] | int = 0,
        track: NDArray[Any] | None = None,
    ) -> None:
        """Add n boxes: ``image``, ``category`` (n,) row numbers; ``xyxy`` (n, 4); the rest (n,) or left out.

        ValueError if the shapes disagree.
        """
        n = len(image)
        if xyxy.shape != (n, 4):  # before wh is derived from it
            raise ValueError(f"xyxy has shape {xyxy.shape}, not ({n}, 4)")
        chunk: dict[str, NDArray[Any]] = {
            "image": np.asarray(image, np.int32),
            "category": np.asarray(category, np.int32),
            "xyxy": np.asarray(xyxy, np.float64),
            "wh": _extent(xyxy) if wh is None else np.asarray(wh, np.float64),
            "score": np.full(n, np.nan) if score is None else np.asarray(score, np.float64),
            "flags": np.zeros(n, np.uint16) if flags is None else np.asarray(flags, np.uint16),
            "area": np.full(n, np.nan) if area is None else np.asarray(area, np.float64),
            "source_id": np.full(n, NO_ID) if source_id is None else np.asarray(source_id, np.int64),
            "file": np.full(n, file, np.int32) if isinstance(file, int) else np.asarray(file, np.int32),
            "line": np.full(n, line, np.int32) if isinstance(line, int) else np.asarray(line, np.int32),
        }
        if track is not None:
            chunk["track"] = np.asarray(track, np.int32)
        for name, values in chunk.items():
            shape = (n, *_INNER.get(name, ()))
            if values.shape != shape:
                raise ValueError(f"{name} has shape {values.shape}, not {shape}")
        self._chunks.append(chunk)

    def build(self) -> Dataset:
        """The finished, read-only tables. ValueError if a row number is out of range."""
        names = tuple(f.name for f in dataclasses.fields(Boxes))
        if not self._chunks:
            none = np.zeros(0, np.int64)
            self.boxes(image=none, category=none, xyxy=np.zeros((0, 4)))
        columns = {}
        if any("track" in chunk for chunk in self._chunks):
            for chunk in self._chunks:
                chunk.setdefault("track", np.full(len(chunk["image"]), -1, np.int32))
        else:
            names = tuple(name for name in names if name != "track")
        for name in names:
            parts = [chunk.pop(name) for chunk in self._chunks]
            columns[name] = frozen(parts[0] if len(parts) == 1 else np.concatenate(parts))
            parts.clear()
        boxes, labels = Boxes(**columns), _image_labels(self._labels)
        for table in (boxes, labels):
            for rows, limit in ((table.image, self.n_images), (table.category, self.n_categories)):
                if len(rows) and (rows.min() < 0 or rows.max() >= limit):
                    raise ValueError(f"a row number is outside 0..{limit - 1}")
        if boxes.track is not None and len(boxes) and boxes.track.max() >= len(self._tracks):
            raise ValueError(f"a track is outside 0..{len(self._tracks) - 1}")
        kind = self.kind
        if kind is None:
            kind = "det" if len(boxes) and not np.isnan(boxes.score).all() else "gt"
        image = self._image_columns
        video, frame = self._frame_columns() if self._frames else (None, None)
        return Dataset(
            images=Images(
                name=tuple(self._image_rows),
                width=frozen(np.array(image["width"], np.int32)),
                height=frozen(np.array(image["height"], np.int32)),
                source_id=frozen(_id_column(image["source_id"])),
                path=tuple(image["path"]),
                split=tuple(image["split"]),
                file=frozen(np.array(image["file"], np.int32)),
                line=frozen(np.array(image["line"], np.int32)),
                video=video,
                frame=frame,
            ),
            categories=Categories(
                name=tuple(self._category_rows),
                source_id=frozen(_id_column(self._category_ids)),
                parent=frozen(np.array(self._parents, np.int32)),
                frequency=tuple(self._frequencies),
                named=self.named,
            ),
            boxes=boxes,
            kind=kind,
            files=tuple(self._files),
            extras=dict(self.extras),
            skipped=self.skipped,
            labels=labels,
            videos=_videos(self),
            tracks=_tracks(self),
        )


def _listed(names: Sequence[str]) -> str:
    """How many names there are, and the first three."""
    shown = ", ".join(map(repr, names[:3]))
    return f"{len(names)} ({shown}{', ...' if len(names) > 3 else ''})" if names else "0"


_INNER = {"xyxy": (4,), "wh": (2,)}


def _extent(xyxy: Floats) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):  # wrong boxes can be held, quietly
        return xyxy[:, 2:] - xyxy[:, :2]


def _image_labels(chunks: Sequence[NDArray[np.int32]]) -> ImageLabels:
    table = np.concatenate([np.zeros((0, 3), np.int32), *chunks])
    image, category, verdict = (np.ascontiguousarray(column) for column in table.T)
    return ImageLabels(frozen(image), frozen(category), frozen(verdict.astype(np.uint8)))


def _videos(builder: Builder) -> Videos:
    """The videos that were added to a builder."""
    return Videos(
        name=tuple(builder._videos),  # noqa: SLF001 -- of this module
        length=frozen(np.array(builder._lengths, np.int32)),  # noqa: SLF001
        source_id=frozen(_id_column(builder._video_ids)),  # noqa: SLF001
    )


def _tracks(builder: Builder) -> Tracks:
    """The tracks that were added to a builder."""
    scores = np.full(len(builder._tracks), np.nan)  # noqa: SLF001 -- of this module
    for row, score in builder._track_scores.items():  # noqa: SLF001
        scores[row] = score
    keys = list(builder._tracks)  # noqa: SLF001
    return Tracks(
        video=frozen(np.array([video for video, _ in keys], np.int32)),
        source_id=frozen(_id_column([id_ for _, id_ in keys])),
        score=frozen(scores),
    )


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


def _id_column(ids: list[Id]) -> NDArray[Any]:
    if not any(isinstance(i, str) for i in ids):
        try:
            return np.array(ids, np.int64)
        except OverflowError:  # whole numbers beyond 64 bits stay exact as objects
            pass
    column = np.empty(len(ids), object)
    column[:] = ids
    return column


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
