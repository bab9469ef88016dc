"""Videos in COCO files: frames and tracks beside images and boxes, or whole tracks as records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.codes import ALL_SCORED, SCORE_MISSING, SOME_SCORES
from odm.formats._shared.codes import (
    BAD_FRAME,
    DUPLICATE_BOX_ID,
    MISSING_KEY,
    UNKNOWN_CATEGORY,
    WRONG_BOX_TYPE,
    WRONG_TYPE,
)
from odm.formats._shared.json.columns import _PYTHON, Document, show
from odm.formats._shared.json.preview import JsonPreview, glance
from odm.formats._shared.json.record_types import NONE, Chunk, Column, Field
from odm.formats.coco.ids import add_other_type, as_list, choose_reading, list_category_readings, pack_ids
from odm.formats.coco.values import ROW, TRACK, TRACK_KEYS, VIDEO, Values
from odm.issues import Code, Log, Trusted
from odm.names import accept_name
from odm.tables import NO_ID, Builder, Dataset, Id

UNKNOWN_VIDEO = Code(
    "unknown-video-id",
    "error",
    "the video_id {value} is not in the list of videos",
    "add the video, or correct the id",
    "A track belongs to a video by its id, and no video has this one.",
)
OUTSIDE_COUNTS = Code(
    "outside-boxes-read",
    "warning",
    "boxes that are marked outside are read like any other: {n} of {total}",
    "remove them if the object cannot be seen in these frames",
    "Some tools keep a box after the object has left the view, and mark it as outside. The evaluation that "
    "this layout comes from counts such boxes too.",
)
TUBE = (
    Field("video_id", "id", required=True),
    Field("category_id", "id", required=True),
    Field("track", "raw", required=True),
    Field("id", "id"),
    Field("confidence", "number"),
    Field("score", "number"),
)


def has_tubes(preview: JsonPreview) -> bool:
    """Whether the records of a file are tracks with a list of boxes each."""
    if preview.top == "[":
        return preview.first.get("", {}).get("track") == "["
    if preview.top != "{" or "images" in preview.keys or preview.keys.get("videos") != "[":
        return False
    return preview.first.get("annotations", {}).get("track") == "["


def is_tubes(data: bytes) -> bool:
    """Whether a JSON text is in the layout of tubes; behind a long list of videos any ``track`` is a sign."""
    preview = glance(data[: 2**16])
    if has_tubes(preview):
        return True
    # The annotations lie beyond the preview, or so does the beginning of the first of them.
    undecided = preview.top == "{" and "images" not in preview.keys and "annotations" not in preview.first
    return undecided and preview.keys.get("videos") == "[" and b'"track"' in data


# --------------------------------------------------------------------------------------- frames and tracks


class Frames:
    """Which frames of which videos the images of one file are; ids are resolved when all lists were read."""

    def __init__(self, builder: Builder) -> None:
        """Start without videos and images."""
        self._builder = builder
        self._rows: dict[Id, int] = {}  # of videos, by id
        self._frames_of_images: list[tuple[int, Any, int]] = []
        """Row of an image, ascending, the id of its video and its number there."""

    def find_row(self, video: Id | None) -> int:
        """Return the row of a video by its id, -1 for an unknown id or None."""
        return -1 if video is None else self._rows.get(video, -1)

    def note_frame(self, row: int, record: Mapping[str, Any]) -> None:
        """Note the video and frame number in the record of an image that has this row."""
        frame = parse_frame_number(record.get("frame_id"))
        frame = frame if frame >= 0 else parse_frame_number(record.get("frame_index"))
        self._frames_of_images.append((row, record["video_id"], frame))

    def add_other_type(self, ids: Iterable[Any], path: str, log: Log) -> None:
        """Resolve ids of another type than those in the list of videos, such as ``"7"`` for 7."""
        valid_ids = [id_ for id_ in ids if type(id_) in (int, str)]
        self._rows = add_other_type(self._rows, valid_ids, "video_id", path, log)

    def finish(self, path: str, log: Log) -> None:
        """Resolve the ids of videos, add unlisted ones, and give the builder the frame of each image."""
        if not self._frames_of_images:
            return
        self.add_other_type((id_ for _, id_, _ in self._frames_of_images), path, log)
        # Images between the first and the last that belong to no video have -1.
        first_row, last_row = self._frames_of_images[0][0], self._frames_of_images[-1][0]
        n = last_row - first_row + 1
        videos, frames = [-1] * n, [-1] * n
        for row, id_, frame in self._frames_of_images:
            if isinstance(id_, (int, str)) and not isinstance(id_, bool):  # else, as for null, no video
                if id_ not in self._rows:
                    self._rows[id_] = self._builder.video(str(id_), source_id=id_)
                videos[row - first_row], frames[row - first_row] = self._rows[id_], frame
        self._builder.set_frames(first_row, videos, frames)

    def read_videos(self, document: Document, values: Values) -> dict[int, tuple[int, int]]:
        """Add the list of videos that begins here; return the frame sizes that it states, by video row."""
        sizes: dict[int, tuple[int, int]] = {}
        for i, record in values.read_entries(document, "/videos", VIDEO, count=False):
            location = f"/videos/{i}"
            id_ = values.parse_id(record, "id", location)
            if id_ is None:
                continue
            if id_ in self._rows:
                values.report_duplicate_id(location, id_, "this list")
                continue
            name = next((record[key] for key in ("name", "file_name") if record.get(key)), None)
            if name is not None and not isinstance(name, str):
                values.report_wrong(WRONG_TYPE, location, "name", "text", name)
                name = None
            if name is not None and not accept_name(name, values.log, values.path, pointer=location):
                name = None
            length = max(0, parse_frame_number(record.get("length")))
            self._rows[id_] = self._builder.video(name or str(id_), length=length, source_id=id_)
            size = parse_frame_number(record.get("width")), parse_frame_number(record.get("height"))
            if min(size) > 0:
                sizes[self._rows[id_]] = size
        return sizes


def parse_frame_number(value: Any) -> int:
    """Return a value that is a whole number from 0 below 2^31; else -1."""
    return value if type(value) is int and 0 <= value < 2**31 else -1


def read_scores(document: Document, values: Values) -> list[tuple[Id, Id | None, float]]:
    """Return id, video id (None if not stated) and score of those tracks in the list that have a score."""
    scores: list[tuple[Id, Id | None, float]] = []
    for i, record in values.read_entries(document, "/tracks", TRACK, count=False):
        id_ = values.parse_id(record, "id", f"/tracks/{i}")
        score: Any = record.get("score")
        if id_ is not None and type(score) in (int, float) and score == score:  # noqa: PLR0124 -- no NaN
            scores.append((id_, record.get("video_id"), float(score)))
    return scores


def merge_track_ids(columns: dict[str, Column]) -> dict[str, Column]:
    """Merge the track ids of annotations, from several keys or their attributes, in one column ``track_id``.

    `columns` is changed in place and returned; the keys and the attributes are removed.
    """
    attributes: Any = columns.pop("attributes", None)
    id_columns: list[Any] = [columns.pop(key) for key in TRACK_KEYS if key in columns]
    if attributes is not None and b'"track_id"' in b"".join(attributes):
        id_columns.append(_find_attribute_ids(attributes))
    if len(id_columns) > 1:
        # the first id that a box has: columns [7, NONE] and [NONE, 8] become [7, 8]
        rows = zip(*map(as_list, id_columns), strict=True)
        id_columns = [pack_ids([next((id_ for id_ in row if id_ != NONE), NONE) for row in rows])]
    if id_columns:
        columns["track_id"] = id_columns[0]
    return columns


def _find_attribute_ids(attributes: list[Any]) -> Any:
    """Return the column of the ``track_id`` in the JSON of attributes, `NONE` for records without one."""
    import msgspec

    record = msgspec.defstruct("Attributes", [("track_id", int | str | None, None)], gc=False)
    decode = msgspec.json.Decoder(record).decode
    ids: list[Id] = []
    for text in attributes:
        try:
            value = getattr(decode(text), "track_id") if len(text) else None  # noqa: B009 -- made at run time
        except msgspec.ValidationError:
            value = None
        ids.append(NONE if value is None else value)
    return pack_ids(ids)


# ------------------------------------------------------------------------------------ tracks as records


class TubeReader:
    """Reads the layout of which every record is a track with a list of boxes, each a frame and a bbox."""

    def __init__(
        self, values: Values, builder: Builder, log: Log, split: str, reference: Dataset | None
    ) -> None:
        """Start without tracks; with a `reference`, the ground truth, the file is a list of results."""
        self._values, self._builder, self._log, self._split = values, builder, log, split
        self._reference = reference
        self._frames = Frames(builder)
        self._sizes: dict[int, tuple[int, int]] = {}  # width and height of frames, by video row
        self._categories: dict[Id, int] = {}  # rows by id
        self._pointer = "" if reference is not None else "/annotations"
        self._tubes: list[tuple[int, Id, Id, Id, float]] = []
        """Index in the list, and ids of video, category and track (`NONE` for none), and score of each track;
        `_resolve_ids` makes repeated ids different."""
        self._chunks: list[tuple[NDArray[Any], NDArray[Any]]] = []
        """(n,) index in `_tubes` of each box, and (n, 6): frame, left, top, width, height and score."""
        self._n_outside = 0  # boxes marked as outside of the picture

    @property
    def n_boxes(self) -> int:
        """The number of boxes."""
        return sum(len(tube_of_box) for tube_of_box, _ in self._chunks)

    @property
    def n_scored(self) -> int:
        """The number of boxes that have a score."""
        return sum(int(np.count_nonzero(~np.isnan(rows[:, 5]))) for _, rows in self._chunks)

    def read(self, document: Document) -> None:
        """Read a file: an object with the lists of videos, classes and tracks, or just a list of tracks."""
        if document.top == "[":
            self._read_tubes(document)
            document.check_end()
            return
        present_keys = set()
        for key, first_char in document.members():
            if key in ("videos", "annotations", "categories") and first_char == "[":
                present_keys.add(key)
                if key == "videos":
                    self._sizes = self._frames.read_videos(document, self._values)
                elif key == "categories":
                    self._categories = self._values.read_categories(document, count=False)
                else:
                    self._read_tubes(document)
            elif key not in ("info", "licenses"):
                self._values.count({key: 1})
        for key in ("videos", "categories"):
            if key not in present_keys:
                self._log.report(MISSING_KEY, self._values.path, value=key)

    def _read_tubes(self, document: Document) -> None:
        """Read the list of tracks that begins here: a slice at once if it is usual, else one by one."""
        for chunk in document.records(TUBE):
            n_unread = {key: n for key, n in chunk.extras.items() if key != "track"}
            self._values.count(n_unread)
            if chunk.records is None:
                columns = {key: as_list(column) for key, column in chunk.columns.items()}
                boxes = _decode_boxes(columns["track"])
                if boxes is not None:
                    self._add(chunk, columns, boxes)
                    continue
                # Back to the records. Values that one lacks are NONE or NaN, which is not equal to itself.
                columns["track"] = [_PYTHON.decode(str(t, "utf-8")) for t in map(bytes, columns["track"])]
                rows = [zip(columns, row, strict=True) for row in zip(*columns.values(), strict=True)]
                records = [{k: v for k, v in row if v != NONE and v == v} for row in rows]  # noqa: PLR0124
            else:
                records = chunk.records
            for i, record in enumerate(records, chunk.start):
                self._add_slowly(record, i)

    def _add(self, chunk: Chunk, columns: dict[str, Any], boxes: tuple[Any, Any, int]) -> None:
        """Add the tracks of a chunk and `boxes`: how many each has, (boxes, 6) values, and number outside.

        A box without a score gets that of its track, ``confidence`` before ``score``.
        """
        n, first_tube = chunk.n, len(self._tubes)
        none, nan = [NONE] * n, [float("nan")] * n
        scores = [
            score if confidence != confidence else confidence  # noqa: PLR0124 -- NaN
            for confidence, score in zip(
                columns.get("confidence", nan), columns.get("score", nan), strict=True
            )
        ]
        record_indices = range(chunk.start, chunk.start + n)
        ids = columns.get("id", none)
        self._tubes += zip(
            record_indices, columns["video_id"], columns["category_id"], ids, scores, strict=True
        )
        counts, table, n_outside = boxes  # table: (boxes, 6), the last column is the score
        track_rows = np.repeat(np.arange(n), counts)
        table[:, 5] = np.where(np.isnan(table[:, 5]), np.array(scores, np.float64)[track_rows], table[:, 5])
        self._chunks.append((first_tube + track_rows, table))
        self._n_outside += n_outside

    def _add_slowly(self, record: Any, i: int) -> None:
        """Add one track, the i-th record, and check each value; after an error its boxes are skipped.

        A box without a score gets that of its track, ``confidence`` before ``score``.
        """
        values, location = self._values, f"{self._pointer}/{i}"
        n_errors = self._log.errors
        if not values.is_object(record, location, ROW):
            self._builder.skipped += 1
            return
        video = values.parse_id(record, "video_id", location, ROW)
        category = values.parse_id(record, "category_id", location, ROW)
        track_id = values.parse_id(record, "id", location, ROW) if "id" in record else NONE
        score = float("nan")
        for key in ("score", "confidence"):  # the last that is there counts
            if record.get(key) is not None:
                score = values.parse_number(record[key], location, key)
        rows = []
        track = record.get("track")
        if not isinstance(track, list):
            values.report_wrong(WRONG_BOX_TYPE, location, "track", "a list of boxes", track)
            track = []
        for k, box in enumerate(track):
            row = self._parse_box(box, f"{location}/track/{k}")
            if row is not None:
                rows.append(row)
        if self._log.errors > n_errors or video is None or category is None or track_id is None:
            self._builder.skipped += max(1, len(track))
            return
        table = np.array(rows, np.float64).reshape(-1, 6)
        table[:, 5] = np.where(np.isnan(table[:, 5]), score, table[:, 5])
        self._chunks.append((np.full(len(rows), len(self._tubes)), table))
        self._tubes.append((i, video, category, track_id, score))

    def _parse_box(self, box: Any, location: str) -> tuple[float, ...] | None:
        """Return frame, bbox and score, six numbers, of a box of a track; None, after an issue, if faulty."""
        values = self._values
        if not values.is_object(box, location, ROW):
            return None
        frame = box.get("frame")
        if type(frame) is not int or not 0 <= frame < 2**31:
            issue_args: dict[str, Any] = {"pointer": f"{location}/frame", "field": "frame"}
            self._log.report(
                BAD_FRAME, values.path, **issue_args, value=Trusted(show(frame)), among=", from 0"
            )
            return None
        numbers = values.parse_box(box, location)
        score_key = next((key for key in ("confidence", "score") if box.get(key) is not None), None)
        score = (
            float("nan") if score_key is None else values.parse_number(box[score_key], location, score_key)
        )
        self._n_outside += bool(box.get("outside"))
        return (frame, *numbers, score) if len(numbers) == 4 else None

    # -- when all was read

    def add_to(self, builder: Builder, n_scored: int, total: int) -> None:
        """Add images, tracks and boxes to the builder; `n_scored` of the `total` boxes of all files have a
        score. Scores are left out, with a warning, unless the builder's kind is ``det``.
        """
        index = np.array([i for i, *_ in self._tubes], np.int32)
        if self._n_outside:
            self._log.report(OUTSIDE_COUNTS, self._values.path, n=self._n_outside, total=self.n_boxes)
        video, category, is_valid = self._resolve_ids(builder)
        chunks = self._chunks or [(np.zeros(0, np.int64), np.zeros((0, 6)))]
        tube_of_box = np.concatenate([tubes for tubes, _ in chunks])
        box_values = np.concatenate([rows for _, rows in chunks])
        is_det = builder.kind == "det"
        score = box_values[:, 5]  # columns: frame, left, top, width, height, score
        if not is_det and self.n_scored:
            first_scored = tube_of_box[int(np.argmax(~np.isnan(score)))]
            pointer = f"{self._pointer}/{index[first_scored]}"
            issue_args: dict[str, Any] = {"pointer": pointer, "field": "confidence"}
            if n_scored < total:
                self._log.report(SOME_SCORES, self._values.path, **issue_args, found=n_scored, total=total)
            elif not self._log.counts[ALL_SCORED.name]:  # once, however many files there are
                self._log.report(ALL_SCORED, self._values.path, **issue_args, n=total)

        # Without the boxes of invalid tracks and, in detections, those without a score.
        is_kept = is_valid[tube_of_box] if len(tube_of_box) else np.zeros(0, np.bool_)
        if is_det:
            lacks_score = np.isnan(score) & is_kept
            for tube_index in dict.fromkeys(tube_of_box[lacks_score].tolist()):
                pointer = f"{self._pointer}/{index[tube_index]}"
                self._log.report(SCORE_MISSING, self._values.path, pointer=pointer, field="confidence")
            is_kept &= ~lacks_score
        builder.skipped += int(np.count_nonzero(~is_kept))
        tube_of_box, box_values, score = tube_of_box[is_kept], box_values[is_kept], score[is_kept]

        image = self._find_or_add_images(builder, video[tube_of_box], box_values[:, 0].astype(np.int64))
        track_of_tube = self._add_tracks(builder, video, is_valid)
        wh = box_values[:, 3:5]
        with np.errstate(over="ignore"):
            xyxy = np.concatenate([box_values[:, 1:3], box_values[:, 1:3] + wh], axis=1)
        builder.boxes(
            image=image,
            category=category[tube_of_box],
            xyxy=xyxy,
            wh=wh,
            score=score if is_det else None,
            track=track_of_tube[tube_of_box],
            file=builder.file(self._values.path, self._pointer or "/"),
            line=index[tube_of_box],
        )

    def _add_tracks(self, builder: Builder, video: NDArray[Any], is_valid: NDArray[np.bool_]) -> NDArray[Any]:
        """Add the valid tracks; return (tracks,) their rows in the builder, -1 for the others.

        `video` (tracks,) are video rows, and `is_valid` too is by track. One without an id is named by its
        position.
        """
        rows = np.full(len(self._tubes), -1, np.int64)
        for tube_index, (i, _, _, id_, score) in enumerate(self._tubes):
            if is_valid[tube_index]:
                name = i + 1 if id_ == NONE else id_
                score_or_nan = score if builder.kind == "det" else float("nan")
                rows[tube_index] = builder.track(int(video[tube_index]), name, score=score_or_nan)
        return rows

    def _resolve_ids(self, builder: Builder) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
        """Look up the ids of all tracks; return (tracks,) video rows, category rows, and True if both exist.

        A track whose id is repeated is reported, and gets an unused id in `_tubes`. Results get the videos of
        the ground truth by name or id, and others are added to the builder.
        """
        reference, log, path = self._reference, self._log, self._values.path
        categories, row_of_video = self._read_ids()
        video, category = np.full((2, len(self._tubes)), -1, np.int64)
        is_valid = np.ones(len(self._tubes), np.bool_)
        index_of_id: dict[Id, int] = {}
        last_used_id = max((id_ for *_, id_, _ in self._tubes if type(id_) is int), default=0)
        for tube_index, (i, video_id, category_id, id_, score) in enumerate(self._tubes):
            if reference is None:
                video[tube_index] = self._frames.find_row(video_id)
                if video[tube_index] < 0:
                    log.report(UNKNOWN_VIDEO, path, **self._describe_id(i, "video_id", video_id))
                    is_valid[tube_index] = False
            else:
                row = row_of_video.get(video_id, -1)
                video[tube_index] = builder.video(reference.videos.name[row] if row >= 0 else str(video_id))
            category[tube_index] = categories.get(category_id, -1)
            if category[tube_index] < 0:
                log.report(
                    UNKNOWN_CATEGORY, path, **self._describe_id(i, "category_id", category_id), near=""
                )
                is_valid[tube_index] = False
            if id_ != NONE and index_of_id.setdefault(id_, i) != i:
                first_pointer = Trusted(f"#{self._pointer}/{index_of_id[id_]}")
                log.report(DUPLICATE_BOX_ID, path, **self._describe_id(i, "id", id_), first=first_pointer)
                last_used_id += 1  # a track of its own
                self._tubes[tube_index] = (i, video_id, category_id, last_used_id, score)
        return video, category, is_valid

    def _describe_id(self, i: int, key: str, id_: Id) -> dict[str, Any]:
        """Return the keywords of `Log.report` for the id under `key` in the i-th record."""
        return {"pointer": f"{self._pointer}/{i}/{key}", "field": key, "value": Trusted(show(id_))}

    def _read_ids(self) -> tuple[Mapping[Id, int], Mapping[Id, int]]:
        """Return the rows of categories and of the videos of the ground truth by the ids that mean them.

        Without a ground truth the second is empty: `_frames` has the videos. Ids of another type than those
        that are listed, such as ``"7"`` for 7, are resolved, with a note.
        """
        reference, log, path = self._reference, self._log, self._values.path
        video_ids = [video_id for _, video_id, *_ in self._tubes]
        category_ids = [category_id for _, _, category_id, *_ in self._tubes]
        categories = self._categories
        row_of_video: dict[Id, int] = {}
        if reference is None:
            self._frames.add_other_type(video_ids, path, log)
        else:
            if self._tubes:
                categories, _ = choose_reading(
                    pack_ids(category_ids),
                    reference.categories.source_id,
                    lambda: list_category_readings(reference),
                    "category_id",
                    path,
                    log,
                )
            row_of_video = {name: row for row, name in enumerate(reference.videos.name)}
            ids = reference.videos.source_id.tolist()
            row_of_video |= {id_: row for row, id_ in enumerate(ids) if id_ != NO_ID}
            row_of_video = add_other_type(row_of_video, video_ids, "video_id", path, log)
        return add_other_type(categories, category_ids, "category_id", path, log), row_of_video

    def _find_or_add_images(self, builder: Builder, video: Any, frame: Any) -> Any:
        """Return (n,) image rows of the boxes in (n,) frames of (n,) video rows.

        A frame without an image becomes one, named after its video.
        """
        # a key holds the video row in the high bits and the frame in the low 31; `known_keys` rise
        keys = video * 2**31 + frame
        distinct_keys, key_of_box = np.unique(keys, return_inverse=True)
        known_keys, known_rows = builder.frame_rows()
        row_of_key = np.full(len(distinct_keys), -1)
        if len(known_keys):
            positions = np.minimum(np.searchsorted(known_keys, distinct_keys), len(known_keys) - 1)
            row_of_key = np.where(known_keys[positions] == distinct_keys, known_rows[positions], -1)
        new_positions = np.flatnonzero(row_of_key < 0)
        if len(new_positions):
            video_rows = (distinct_keys[new_positions] >> 31).tolist()
            frames = (distinct_keys[new_positions] & (2**31 - 1)).tolist()
            names = builder.video_names
            sizes = np.array([self._sizes.get(v, (0, 0)) for v in video_rows], np.int32).reshape(-1, 2)
            first_new = builder.add_images(
                [f"{names[v]}/{f:06d}" for v, f in zip(video_rows, frames, strict=True)],
                width=sizes[:, 0],
                height=sizes[:, 1],
                split=[self._split] * len(new_positions),
                line=[0] * len(new_positions),
                video=video_rows,
                frame=frames,
            )
            row_of_key[new_positions] = first_new + np.arange(len(new_positions))
        return row_of_key[key_of_box.reshape(-1)]


def _decode_boxes(tracks: list[Any]) -> tuple[Any, Any, int] | None:
    """Decode the boxes of all tracks, JSON lists, at once; None if a value is of a wrong type, or a frame
    not in 0 to 2^31 - 1.

    Returns (tracks,) numbers of boxes, (boxes, 6) frame, left, top, width, height and score, and the number
    of boxes that are marked outside.
    """
    import msgspec

    numbers = tuple[float, float, float, float]
    nan = float("nan")
    fields: list[Any] = [("frame", int), ("bbox", numbers), ("confidence", float, nan), ("score", float, nan)]
    box = msgspec.defstruct("TrackBox", [*fields, ("outside", msgspec.Raw, msgspec.Raw(b""))], gc=False)
    try:
        lists = msgspec.json.decode(b"[" + b",".join(map(bytes, tracks)) + b"]", type=list[list[box]])  # type: ignore[valid-type]
    except (msgspec.DecodeError, RecursionError):
        return None
    counts = np.array([len(boxes) for boxes in lists], np.int64)
    boxes: list[Any] = [b for boxes in lists for b in boxes]
    table = np.empty((len(boxes), 6))
    frames = [b.frame for b in boxes]
    if frames and (min(frames) < 0 or max(frames) >= 2**31):
        return None
    # table: (boxes, 6) frame, left, top, width, height, score; a confidence counts before a score
    table[:, 0] = frames
    table[:, 1:5] = np.array([b.bbox for b in boxes]).reshape(-1, 4)
    confidence = np.array([b.confidence for b in boxes])
    table[:, 5] = np.where(np.isnan(confidence), np.array([b.score for b in boxes]), confidence)
    n_outside = sum(bytes(b.outside) not in (b"", b"0", b"false", b"null") for b in boxes)
    return counts, table, n_outside
