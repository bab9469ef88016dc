"""The class `Dataset`, and `Builder`, to which a reader passes rows or whole columns."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import force_setattr, replace
from numpy.typing import ArrayLike, NDArray

from odm.tables.columns import (
    FREQUENCIES,
    NO_ID,
    Boxes,
    Categories,
    Floats,
    Id,
    ImageLabels,
    Images,
    Ints,
    Kind,
    LabelState,
    Longs,
    SourceFile,
    Tracks,
    Videos,
    freeze,
    listed_names,
)
from odm.tables.extra_fields import join_extra, place_extra
from odm.tables.shapes import RAGGED, Keypoints, Shapes, join_ragged, shapes_of_arrays
from odm.views import DatasetViews


class Dataset(DatasetViews, msgspec.Struct, frozen=True, eq=False):
    """Images, categories and boxes of one source, ground truth (``gt``) or detections (``det``)."""

    images: Images
    categories: Categories
    boxes: Boxes
    kind: Kind = "gt"
    files: tuple[SourceFile, ...] = ()
    extras: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Source fields outside this model, with counts: ``{"pose": 12, "segmentation": 3}``."""
    path: str = ""
    """What the user named, for messages about the whole."""
    skipped: int = 0
    """Rows that could not be read as boxes; each is an error in the log."""
    labels: ImageLabels = msgspec.field(
        default_factory=lambda: ImageLabels(_empty(np.int32), _empty(np.int32), _empty(np.uint8))
    )
    videos: Videos = msgspec.field(default_factory=lambda: Videos((), _empty(np.int32), _empty(np.int64)))
    tracks: Tracks = msgspec.field(
        default_factory=lambda: Tracks(_empty(np.int32), _empty(np.int64), _empty(np.float64))
    )
    relative: bool = False
    """Whether no image has a size and all coordinates are fractions of their image's width and height."""
    margin: float | None = None
    """By how much a number of a label may leave 0..1 before trainers refuse its image; None: no limit."""
    protocol: str = ""
    """The protocol that data of this format are usually evaluated with."""
    reading_options: frozenset[str] = frozenset()
    """The names of the options with which its format can be read, for advice."""

    def __post_init__(self) -> None:
        scored = self.kind == "det"
        boxes = self.boxes.named(self.images.name, self.categories.name, scored=scored)
        force_setattr(self, "boxes", boxes)

    def __repr__(self) -> str:
        side = "detections" if self.kind == "det" else "ground truth"
        source = f" of {self.path!r}" if self.path else ""
        return (
            f"<Dataset: {side}{source}, {len(self.boxes)} boxes, "
            f"images {listed_names(self.images.name)}, categories {listed_names(self.categories.name)}>"
        )

    def __len__(self) -> int:
        return len(self.boxes)

    def location(self, row: int) -> tuple[str, int, str]:
        """Path, line and JSON pointer of box `row`; of data in memory the side and ``/row`` are its place."""
        if not self.files and not self.path:
            return "<detections>" if self.kind == "det" else "<ground truth>", 0, f"/{row}"
        return self._location(int(self.boxes.file[row]), int(self.boxes.line[row]))

    def image_place(self, row: int) -> tuple[str, int, str]:
        """Return path, line and JSON pointer of image `row`, as `location` does for a box."""
        return self._location(int(self.images.file[row]), int(self.images.line[row]))

    def _location(self, file: int, line: int) -> tuple[str, int, str]:
        return self.files[file].location(line) if file >= 0 else ("", 0, "")

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
        """Return the dataset with only the boxes at `rows`, a mask or row numbers.

        Images and categories stay.
        """
        return replace(self, boxes=self.boxes.take(rows))

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
        polygons: Sequence[Sequence[ArrayLike]] | None = None,
        masks: Sequence[Any] | None = None,
        oriented: ArrayLike | None = None,
        keypoints: Sequence[ArrayLike] | None = None,
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
            (n,) confidences; without it the boxes are ground truth, unless `kind` is ``"det"``.
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
        polygons
            For each box its outlines, each (k, 2) or flat; none for a box without.
        masks
            For each box its mask: COCO's compressed text, a dict with ``counts``, or a boolean array
            (height, width) of the whole image; None for none.
        oriented
            (n, 4, 2) corners, or (n, 5) centre, width, height and angle in radians. Of `polygons`, `masks`
            and `oriented` only one can be given.
        keypoints
            For each box (k, 3) x, y and visibility (0 not labelled, 1 hidden, 2 visible); empty for none.

        Raises
        ------
        ValueError
            If shapes disagree, a row number is out of range, or names are not unique.
        """
        builder = Builder()
        n_images = len(images)
        builder.add_images(
            [name.replace("\\", "/") for name in images],
            width=np.zeros(n_images, np.int32) if width is None else np.array(width),
            height=np.zeros(n_images, np.int32) if height is None else np.array(height),
            source_id=image_ids,
            video=None if video is None else [builder.video(name) if name else -1 for name in video],
            frame=None if frame is None else _parse_row_numbers(np.array(frame) + 1, "frame") - 1,  # from -1
        )
        _add_categories(builder, categories, category_ids, frequency)
        corners, wh = _parse_boxes(xyxy, ltwh)
        image = _parse_row_numbers(image, "image")
        builder.boxes(
            image=image,
            category=_parse_row_numbers(category, "category"),
            xyxy=corners,
            wh=wh,
            score=None if score is None else np.array(score, np.float64),
            flags=None if flags is None else np.array(flags).astype(np.uint16),
            area=None if area is None else np.array(area, np.float64),
            source_id=None if source_id is None else np.array(source_id, np.int64),
            track=None if track is None else builder.tracks_of_images(image, track),
            **shapes_of_arrays(len(image), polygons, masks, oriented, keypoints),
        )
        label_rows = np.array(list(labels)).reshape(-1, 3)
        image_rows, category_rows = (_parse_row_numbers(label_rows[:, i], "labels") for i in (0, 1))
        builder.labels(image=image_rows, category=category_rows, verdict=label_rows[:, 2])
        builder.kind = kind or ("gt" if score is None else "det")
        return builder.build()


class Builder:
    """Builds the tables of a dataset. A reader passes rows, whose order is kept.

    ``counterpart`` gives the other side of an evaluation, or the ground truth that a results file refers to,
    and reads it at the first call; it returns None if there is none.
    """

    def __init__(self, counterpart: Callable[[], Dataset | None] | None = None) -> None:
        self.kind: Kind | None = None
        self.named, self.relative, self.skipped, self.protocol = True, False, 0, ""
        self.margin: float | None = None
        self.extras: Counter[str] = Counter()
        self.wants: frozenset[str] = frozenset()
        """Requested shapes, of ``polygon``, ``mask``, ``oriented``, ``keypoints``; others may come too."""
        self.wants_fields = False
        """Whether numbers are asked for that only some protocols look at, such as degrees of truncation."""
        self.unlisted: frozenset[str] = frozenset()  # ids that the ground truth may lack, as ``image_id``
        self.keeps_extra = self.passes_shapes_on = False
        """Whether fields that the model has no column for are kept, and the JSON of shapes among them."""
        self._counterpart = counterpart
        self._files: list[SourceFile] = []
        self._image_rows: dict[str, int] = {}  # by name, in order; so are videos and categories
        self._image_columns: dict[str, list[Any]] = {
            k: [] for k in ("width", "height", "source_id", "path", "split", "file", "line")
        }
        # Rows of first images, and the videos and frame numbers of the images from there on.
        self._frames: list[tuple[int, dict[str, Any]]] = []
        self._videos: dict[str, int] = {}
        self._video_columns: dict[str, list[Any]] = {"length": [], "source_id": []}
        self._tracks: dict[tuple[int, Id], int] = {}  # the row of each (row of its video, id)
        self._track_scores: dict[int, float] = {}  # by row
        self._category_rows: dict[str, int] = {}
        self._category_columns: dict[str, list[Any]] = {"source_id": [], "parent": [], "frequency": []}
        self._points_by_category: dict[int, tuple[tuple[str, ...], tuple[tuple[int, int], ...]]] = {}
        self._labels: list[NDArray[np.int32]] = []
        self._chunks: list[dict[str, Any]] = []  # the columns of each call of `boxes`
        self._extra_of_boxes: list[Mapping[str, Sequence[bytes]]] = []
        self._extra: dict[str, list[tuple[Sequence[int], Mapping[str, Sequence[bytes]]]]] = {}

    def counterpart(self) -> Dataset | None:
        """The dataset on the other side, if there is one."""
        return self._counterpart() if self._counterpart else None

    def file(self, path: str, pointer: str = "") -> int:
        """Register a file that rows come from; its number goes into the ``file`` columns."""
        self._files.append(SourceFile(path, pointer))
        return len(self._files) - 1

    def describe(self, file: int, extra: Mapping[str, bytes]) -> None:
        """Keep the members of a file beside its rows, such as ``info``: the JSON of each value by key."""
        self._files[file] = replace(self._files[file], extra=extra)

    def add_extra(
        self,
        table: Literal["images", "categories"],
        rows: Sequence[int],
        extra: Mapping[str, Sequence[bytes]],
    ) -> None:
        """Keep fields beyond the model for some rows, as the JSON of their values by key; empty = none."""
        self._extra.setdefault(table, []).append((rows, extra))

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
        """Add an image and return its row. Raises ValueError if the name is there already."""
        row = len(self._image_rows)
        if self._image_rows.setdefault(name, row) != row:
            raise ValueError(f"two images are named {name!r}")
        id_ = NO_ID if source_id is None else source_id
        values = width, height, id_, path, split, file, line
        for column, value in zip(self._image_columns.values(), values, strict=True):
            column.append(value)
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
        """Add images, return the first row. ValueError: equal names, or not n widths, heights, source ids."""
        first_row, n = len(self._image_rows), len(names)
        if width.shape != (n,) or height.shape != (n,) or (source_id is not None and len(source_id) != n):
            raise ValueError(f"width, height and source_id must have {n} rows, as names has")
        self._image_rows.update(zip(names, range(first_row, first_row + n), strict=True))
        if len(self._image_rows) != first_row + n:
            raise ValueError("two images have the same name")
        new_columns: list[Iterable[Any]] = [
            width.tolist(),
            height.tolist(),
            [NO_ID] * n if source_id is None else source_id,
            [""] * n if path is None else path,
            [""] * n if split is None else split,
            [file] * n if isinstance(file, int) else file,
            range(n) if line is None else line,  # indices in the list of a JSON file
        ]
        for column, values in zip(self._image_columns.values(), new_columns, strict=True):
            column.extend(values)
        if video is not None or frame is not None:
            none = np.full(n, -1, np.int32)
            self.set_frames(first_row, none if video is None else video, none if frame is None else frame)
        return first_row

    def set_frames(
        self, first_row: int, video: Sequence[int] | NDArray[Any], frame: Sequence[int] | NDArray[Any]
    ) -> None:
        """Give images from `first_row` on the rows of their videos and their frame numbers, -1 = none."""
        self._frames.append((first_row, {"video": video, "frame": frame}))

    def video(self, name: str, *, length: int = 0, source_id: Id | None = None) -> int:
        """Return the row of the video of that name, added if it is new; the first `length` above 0 stays."""
        row = self._videos.setdefault(name, len(self._videos))
        lengths, ids = self._video_columns.values()
        if row == len(lengths):
            lengths.append(length)
            ids.append(NO_ID if source_id is None else source_id)
        lengths[row] = lengths[row] or length
        return row

    @property
    def video_names(self) -> list[str]:
        """The names of the videos so far, by row."""
        return list(self._videos)

    def frame_rows(self) -> tuple[Longs, Longs]:
        """Return the keys video * 2**31 + frame of all frames, ascending, and the image row of each."""
        video, frame = self._make_frame_columns()
        if video is None or frame is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows = np.flatnonzero((video >= 0) & (frame >= 0))
        keys = video[rows] * np.int64(2**31) + frame[rows]
        order = np.argsort(keys, kind="stable")
        return keys[order], rows[order]

    def track(self, video: int, source_id: Id, *, score: float = np.nan) -> int:
        """The row of the track with that id in a video (-1 = none), added if new; NaN leaves its score."""
        row = self._tracks.setdefault((video, source_id), len(self._tracks))
        if score == score:  # noqa: PLR0124 -- no NaN
            self._track_scores[row] = score
        return row

    def score_track(self, video: int, source_id: Id, score: float) -> None:
        """Set the score of the track with id `source_id` in a video (-1 = any), if there is such a track."""
        if video >= 0:
            keys = [(video, source_id)] if (video, source_id) in self._tracks else []
        else:
            keys = [(of_video, id_) for of_video, id_ in self._tracks if id_ == source_id]
        for key in keys:
            self._track_scores[self._tracks[key]] = score

    def tracks(self, video: NDArray[Any], source_id: NDArray[Any] | Sequence[Id | None]) -> Ints:
        """(n,) the row of each box's track, added if new, by video and id; -1 for the id None or `NO_ID`."""
        track_rows = np.full(len(video), -1, np.int32)
        if not isinstance(source_id, np.ndarray) or source_id.dtype == object:
            for i, (video_row, id_) in enumerate(zip(video.tolist(), list(source_id), strict=True)):
                if id_ is not None and id_ != NO_ID:
                    track_rows[i] = self.track(video_row, id_)
            return track_rows
        rows_with_id = np.flatnonzero(source_id != NO_ID)
        ids, video_rows = source_id[rows_with_id].astype(np.int64), video[rows_with_id].astype(np.int64)
        if len(ids) and int(ids.min()) > -(2**31) and int(ids.max()) < 2**31:  # both fit in one number
            _, box_rows, inverse = np.unique((video_rows << 32) + ids, return_index=True, return_inverse=True)
        else:
            keys = np.stack([video_rows, ids], axis=1)
            _, box_rows, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        new_rows = np.empty(len(box_rows), np.int32)
        for k in np.argsort(box_rows).tolist():  # in the order of the first boxes of tracks
            new_rows[k] = self.track(int(video_rows[box_rows[k]]), int(ids[box_rows[k]]))
        track_rows[rows_with_id] = new_rows[inverse.reshape(-1)]
        return track_rows

    def tracks_of_images(self, image: NDArray[Any], source_id: NDArray[Any] | Sequence[Id | None]) -> Ints:
        """Return rows of tracks as `tracks` does, by the image of each box, whose video is known."""
        video, _ = self._make_frame_columns()
        video_of_box = np.full(len(image), -1, np.int32) if video is None else video[image]
        return self.tracks(video_of_box, source_id)

    def _make_frame_columns(self) -> tuple[Ints | None, Ints | None]:
        """Make the columns ``video`` and ``frame`` of the images so far; None where no image has one."""
        columns: list[Ints | None] = []
        for key in ("video", "frame"):
            column = np.full(self.n_images, -1, np.int32)
            for first_row, values in self._frames:
                column[first_row : first_row + len(values[key])] = values[key]
            columns.append(freeze(column) if (column >= 0).any() else None)
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
            row = self._category_rows[name] = len(self._category_rows)
            values = NO_ID if source_id is None else source_id, parent, frequency
            for column, value in zip(self._category_columns.values(), values, strict=True):
                column.append(value)
        return row

    def describe_points(
        self, category: int, names: Sequence[str], skeleton: Iterable[tuple[int, int]] = ()
    ) -> None:
        """Name a category's keypoints, and pairs of them, from 0, that a line joins, unless it has some."""
        self._points_by_category.setdefault(category, (tuple(names), tuple(skeleton)))

    def size_image(self, row: int, width: int, height: int) -> None:
        """Set the size of an image that was added without one, from a mask."""
        self._image_columns["width"][row], self._image_columns["height"][row] = width, height

    def labels(self, *, image: ArrayLike, category: ArrayLike, verdict: ArrayLike) -> None:
        """Set the `LabelState` of n categories on images: (n,) row numbers, and (n,) verdicts or one for all.

        ValueError if the shapes disagree or a number is no `LabelState`.
        """
        rows = np.asarray(image, np.int32), np.asarray(category, np.int32)
        verdicts = np.asarray(verdict, np.int32)
        self._labels.append(np.stack(np.broadcast_arrays(*rows, verdicts), axis=-1).reshape(-1, 3))
        if not np.isin(verdicts, list(LabelState)).all():
            raise ValueError("a verdict is none of " + ", ".join(f"{v.value} ({v.name})" for v in LabelState))

    @property
    def n_images(self) -> int:
        """The number of images so far."""
        return len(self._image_rows)

    @property
    def image_names(self) -> list[str]:
        """The names of the images so far, by row."""
        return list(self._image_rows)

    @property
    def has_image_sizes(self) -> bool:
        """Whether the size of any image that was added is known."""
        return any(self._image_columns["width"])

    @property
    def n_categories(self) -> int:
        """The number of categories so far."""
        return len(self._category_rows)

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
        group: NDArray[Any] | None = None,
        shapes: Shapes | None = None,
        keypoints: Keypoints | None = None,
        extra: Mapping[str, Sequence[bytes]] | None = None,
    ) -> None:
        """Add n boxes: ``image``, ``category`` (n,) row numbers; ``xyxy`` (n, 4); the rest (n,) or left out.

        ``wh`` (n, 2) is what the source gives, NaN where it gives none; ``shapes`` and ``keypoints`` have n
        rows; ``extra`` is the JSON of other fields by key. Raises ValueError if the shapes disagree.
        """
        n = len(image)
        if xyxy.shape != (n, 4):  # before wh is derived from it
            raise ValueError(f"xyxy has shape {xyxy.shape}, not ({n}, 4)")
        chunk: dict[str, Any] = {
            "image": np.asarray(image, np.int32),
            "category": np.asarray(category, np.int32),
            "xyxy": np.asarray(xyxy, np.float64),
            "wh": _compute_wh(xyxy) if wh is None else np.asarray(wh, np.float64),
            "score": np.full(n, np.nan) if score is None else np.asarray(score, np.float64),
            "flags": np.zeros(n, np.uint16) if flags is None else np.asarray(flags, np.uint16),
            "area": np.full(n, np.nan) if area is None else np.asarray(area, np.float64),
            "source_id": np.full(n, NO_ID) if source_id is None else np.asarray(source_id, np.int64),
            "file": np.full(n, file, np.int32) if isinstance(file, int) else np.asarray(file, np.int32),
            "line": np.full(n, line, np.int32) if isinstance(line, int) else np.asarray(line, np.int32),
        }
        for name, numbers in (("track", track), ("group", group)):
            if numbers is not None:
                chunk[name] = np.asarray(numbers, np.int32)
        for name, values in chunk.items():
            shape = (n, *_INNER.get(name, ()))
            if values.shape != shape:
                raise ValueError(f"{name} has shape {values.shape}, not {shape}")
        if wh is not None:
            has_wh = ~np.isnan(chunk["wh"])
            if not has_wh.all():
                chunk["wh"] = np.where(has_wh, chunk["wh"], _compute_wh(xyxy))
            if has_wh.any():
                chunk["wh_given"] = has_wh
        for name, ragged in (("shapes", shapes), ("keypoints", keypoints)):
            if ragged is not None and len(ragged) != n:
                raise ValueError(f"{name} has {len(ragged)} rows, not {n}")
            if ragged is not None:
                chunk[name] = ragged
        self._chunks.append(chunk)
        self._extra_of_boxes.append(extra or {})

    def _join_boxes(self) -> Boxes:
        """Concatenate the boxes of all chunks, which are emptied column by column: none is held twice."""
        if not self._chunks:
            no_rows = np.zeros(0, np.int64)
            self.boxes(image=no_rows, category=no_rows, xyxy=np.zeros((0, 4)))
        for name, absent in _OPTIONAL.items():
            if any(name in chunk for chunk in self._chunks):
                for chunk in self._chunks:
                    chunk.setdefault(name, np.full((len(chunk["image"]), *_INNER.get(name, ())), absent))
        sizes = [len(chunk["image"]) for chunk in self._chunks]
        extra = join_extra(self._extra_of_boxes, sizes) if any(self._extra_of_boxes) else {}
        columns: dict[str, Any] = {}
        for name, table in RAGGED.items():
            per_chunk = [chunk.pop(name, None) for chunk in self._chunks]
            if any(column is not None for column in per_chunk):
                columns[name] = join_ragged(table, per_chunk, sizes)
        for name in list(self._chunks[0]):
            per_chunk = [chunk.pop(name) for chunk in self._chunks]
            columns[name] = freeze(per_chunk[0] if len(per_chunk) == 1 else np.concatenate(per_chunk))
            per_chunk.clear()
        return Boxes(**columns, extra=extra)

    def _make_keypoint_columns(self) -> dict[str, Any]:
        """Make the columns ``keypoints`` and ``skeleton`` of the categories."""
        rows = [self._points_by_category.get(row, ((), ())) for row in range(len(self._category_rows))]
        names, skeletons = zip(*rows, strict=True)
        return {"keypoints": names, "skeleton": skeletons if any(skeletons) else None}

    def build(self) -> Dataset:
        """Return the read-only tables, and give up the boxes. ValueError if a row number is out of range."""
        boxes = self._join_boxes()
        verdicts = np.concatenate([np.zeros((0, 3), np.int32), *self._labels])
        image, category, verdict = (freeze(np.ascontiguousarray(column)) for column in verdicts.T)
        labels = ImageLabels(image, category, freeze(verdict.astype(np.uint8)))
        n_images, n_categories = len(self._image_rows), len(self._category_rows)
        for table in (boxes, labels):
            for rows, limit in ((table.image, n_images), (table.category, n_categories)):
                if len(rows) and (rows.min() < 0 or rows.max() >= limit):
                    raise ValueError(f"a row number is outside 0..{limit - 1}")
        if boxes.track is not None and len(boxes) and boxes.track.max() >= len(self._tracks):
            raise ValueError(f"a track is outside 0..{len(self._tracks) - 1}")
        sizes = {"images": n_images, "categories": n_categories}
        extra = {table: place_extra(parts, sizes[table]) for table, parts in self._extra.items()}
        kind = self.kind
        if kind is None:  # the reader does not know: scores tell
            kind = "det" if len(boxes) and not np.isnan(boxes.score).all() else "gt"
        video, frame = self._make_frame_columns() if self._frames else (None, None)
        scores = np.full(len(self._tracks), np.nan)
        scores[list(self._track_scores)] = list(self._track_scores.values())
        videos, ids = zip(*self._tracks, strict=True) if self._tracks else ((), ())
        return Dataset(
            images=Images(
                name=tuple(self._image_rows),
                **_make_columns(self._image_columns),
                video=video,
                frame=frame,
                extra=extra.get("images", {}),
            ),
            categories=Categories(
                name=tuple(self._category_rows),
                **_make_columns(self._category_columns),
                **(self._make_keypoint_columns() if self._points_by_category else {}),
                named=self.named,
                extra=extra.get("categories", {}),
            ),
            boxes=boxes,
            kind=kind,
            files=tuple(self._files),
            extras=dict(self.extras),
            relative=self.relative,
            margin=self.margin,
            protocol=self.protocol,
            skipped=self.skipped,
            labels=labels,
            videos=Videos(name=tuple(self._videos), **_make_columns(self._video_columns)),
            tracks=Tracks(**_make_columns({"video": videos, "source_id": ids}), score=freeze(scores)),
        )


def _add_categories(
    builder: Builder,
    categories: Sequence[str],
    category_ids: Sequence[int] | None,
    frequency: Sequence[str] | None,
) -> None:
    """Add the categories of `Dataset.from_arrays`. ValueError for equal names or wrong values."""
    n = len(categories)
    if len(set(categories)) != n:
        raise ValueError("two categories have the same name")
    if category_ids is not None and len(category_ids) != n:
        raise ValueError(f"category_ids has {len(category_ids)} rows, not {n}")
    if frequency is not None and (len(frequency) != n or {*frequency} - {"", *FREQUENCIES}):
        raise ValueError(f"frequency must give one of {', '.join(FREQUENCIES)}, or '', to each category")
    for i, name in enumerate(categories):
        id_ = None if category_ids is None else category_ids[i]
        builder.category(name, source_id=id_, frequency="" if frequency is None else frequency[i])


_INNER = {"xyxy": (4,), "wh": (2,), "wh_given": (2,)}
"""The shape of a row of the columns of boxes whose rows are no single values."""
_OPTIONAL = {"track": np.int32(-1), "group": np.int32(-1), "wh_given": np.False_}
"""Columns that are None if no box has them, and the value of a box without, if other boxes have them."""


def _compute_wh(xyxy: Floats) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):  # wrong boxes can be held, quietly
        return xyxy[:, 2:] - xyxy[:, :2]


def _make_columns(columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Convert lists to columns: texts to tuples, numbers and ids to arrays; ids with texts to objects."""
    result: dict[str, Any] = {}
    column: NDArray[Any]
    for name, values in columns.items():
        if name in ("path", "split", "frequency"):
            result[name] = tuple(values)
            continue
        if name != "source_id":
            column = np.array(values, np.int32)
        else:
            column = np.empty(len(values), object)
            column[:] = values
            if not any(issubclass(kind, str) for kind in set(map(type, values))):
                with contextlib.suppress(OverflowError):  # whole numbers beyond 64 bits stay exact as objects
                    column = np.array(values, np.int64)
        result[name] = freeze(column)
    return result


def _empty(dtype: Any) -> NDArray[Any]:
    return freeze(np.zeros(0, dtype))


def _parse_boxes(xyxy: ArrayLike | None, ltwh: ArrayLike | None) -> tuple[Floats, Floats | None]:
    """(n, 4) edges, and (n, 2) widths and heights of `ltwh`; ValueError unless just one is an array."""
    if (xyxy is None) == (ltwh is None):
        raise ValueError("pass either xyxy or ltwh")
    if ltwh is None:
        return np.array(xyxy, np.float64).reshape(-1, 4), None
    values = np.array(ltwh, np.float64).reshape(-1, 4)
    wh = values[:, 2:]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.concatenate([values[:, :2], values[:, :2] + wh], axis=1), wh


def _parse_row_numbers(rows: ArrayLike, noun: str) -> Longs:
    """(n,) row numbers. Raises ValueError, whose message begins with `noun`, for other values."""
    array = np.array(rows).reshape(-1)
    if len(array) and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{noun} has type {array.dtype}, not row numbers")
    if len(array) and not 0 <= array.min() <= array.max() < 2**31:
        raise ValueError(f"{noun} contains values that are not row numbers")
    return array.astype(np.int64)
