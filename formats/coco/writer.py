"""COCO JSON as it is written: an object with images and categories, or a list of results."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.formats._shared.frames import box_tracks, track_numbers
from odm.formats._shared.number_text import short_wh
from odm.formats._shared.own_fields import of_images
from odm.formats.coco.ids import box_ids, own_ids
from odm.issues import Log
from odm.tables import Dataset, Flag, Floats, Id

_BATCH = 4096
"""Records that are encoded at once; what they take stays in the cache."""


def results_of(
    dataset: Dataset, rows: NDArray[Any], image_ids: list[Id], category_ids: list[Id], log: Log
) -> bytes:
    """The boxes of these rows as a list of results, with the ids of images and categories by their rows."""
    import msgspec

    boxes = dataset.boxes
    image, category = boxes.image[rows], boxes.category[rows]
    columns: dict[str, NDArray[Any]] = {}
    heads: list[bytes] = []
    if any(isinstance(id_, str) for id_ in (*image_ids, *category_ids)):
        encode = msgspec.json.encode
        ours = [b'"image_id":' + encode(id_) for id_ in image_ids]
        theirs = [b',"category_id":' + encode(id_) for id_ in category_ids]
        heads = [ours[i] + theirs[k] for i, k in zip(image.tolist(), category.tolist(), strict=True)]
    else:
        columns["image_id"] = np.array(image_ids, np.int64)[image]
        columns["category_id"] = np.array(category_ids, np.int64)[category]
    columns["bbox"] = _ltwh(dataset, rows)
    columns["score"] = boxes.score[rows] + 0.0
    _, tracks = tracks_of(dataset, rows, log)
    return b"".join([*_array(_lines(columns, "write detections", log, heads, optional=tracks)), b"\n"])


def object_of(dataset: Dataset, image_rows: NDArray[Any], box_rows: NDArray[Any], log: Log) -> bytes:
    """These images and boxes, with all categories, as one object."""
    import msgspec

    categories = dataset.categories
    image_ids = own_ids(dataset.images.source_id[image_rows], 0)
    category_ids = own_ids(categories.source_id, 0)
    members, own = of_images(dataset, image_rows)
    image_lines = _with_fields(_image_lines(dataset, image_rows, image_ids), own)
    category = msgspec.defstruct("Category", ["id", "name"], gc=False)
    category_lines = msgspec.json.Encoder().encode_lines(list(map(category, category_ids, categories.name)))
    category_lines = _with_fields(category_lines, categories.own)
    ids_by_row = np.zeros(len(dataset.images), np.int64)
    ids_by_row[image_rows] = image_ids
    columns = _box_columns(dataset, box_rows, ids_by_row, np.array(category_ids, np.int64))
    lists, tracks = tracks_of(dataset, box_rows, log)
    return b"".join(
        [
            b"{",
            b",".join(_member(key, value) for key, value in members.items()),
            b",\n",
            *lists,
            b'"images":',
            *_array([image_lines[:-1].replace(b"\n", b",\n")]),
            b',\n"annotations":',
            *_array(_lines(columns, "write annotations", log, optional=tracks, same=_NO_OUTLINE)),
            b',\n"categories":',
            *_array([category_lines[:-1].replace(b"\n", b",\n")]),
            b"}\n",
        ]
    )


_NO_OUTLINE = {"segmentation": b"[]"}
"""What every annotation has besides: some tools ask for the key, or for an empty list if there is no mask."""


def _member(key: str, value: bytes) -> bytes:
    import msgspec

    return msgspec.json.encode(key) + b":" + value


def _with_fields(lines: bytes, own: Mapping[str, Sequence[bytes]]) -> bytes:
    """Records, one a line, with more fields; where one is empty the record has none."""
    if not own:
        return lines
    heads = {key: b"," + _member(key, b"") for key in own}
    records = []
    for line, *values in zip(lines.splitlines(), *own.values(), strict=True):
        more = [head + value for head, value in zip(heads.values(), values, strict=True) if value]
        records.append(line[:-1] + b"".join(more) + b"}\n")
    return b"".join(records)


def _image_lines(dataset: Dataset, image_rows: NDArray[Any], image_ids: list[int]) -> bytes:
    """The images, one a line."""
    import msgspec

    images = dataset.images
    image = msgspec.defstruct(
        "Image",
        [
            "id",
            "file_name",
            ("width", int, 0),
            ("height", int, 0),
            ("video_id", int, -1),
            ("frame_id", int, -1),
        ],
        omit_defaults=True,
        gc=False,
    )
    return msgspec.json.Encoder().encode_lines(
        list(
            map(
                image,
                image_ids,
                [images.name[row] for row in image_rows.tolist()],
                images.width[image_rows].tolist(),
                images.height[image_rows].tolist(),
                *frame_columns(dataset, image_rows),
            )
        )
    )


def _box_columns(
    dataset: Dataset, box_rows: NDArray[Any], image_ids: NDArray[Any], category_ids: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """The fields of the annotations; the ids are by row."""
    boxes = dataset.boxes
    ltwh = _ltwh(dataset, box_rows)
    area = boxes.area[box_rows]
    with np.errstate(over="ignore"):
        area = np.where(np.isnan(area), ltwh[:, 2] * ltwh[:, 3], area)
    area = np.nan_to_num(area) + 0.0  # an infinite product becomes the largest number
    columns: dict[str, NDArray[Any]] = {
        "id": np.array(box_ids(boxes.source_id[box_rows]), np.int64),
        "image_id": image_ids[boxes.image[box_rows]],
        "category_id": category_ids[boxes.category[box_rows]],
        "bbox": ltwh,
        "area": area,
        "iscrowd": ((boxes.flags[box_rows] & np.uint16(Flag.CROWD)) != 0).astype(int),
    }
    if dataset.kind == "det":
        columns["score"] = boxes.score[box_rows] + 0.0
    return columns


def frame_columns(dataset: Dataset, rows: NDArray[Any]) -> list[list[int]]:
    """The ids of the videos and the frame numbers of some images, -1 = none."""
    images, none = dataset.images, [-1] * len(rows)
    if images.video is None:
        return [none, none]
    ids = np.array([*own_ids(dataset.videos.source_id, 0), -1], np.int64)
    frame = none if images.frame is None else images.frame[rows].tolist()
    return [ids[images.video[rows]].tolist(), frame]


def tracks_of(dataset: Dataset, rows: NDArray[Any], log: Log) -> tuple[list[bytes], dict[str, NDArray[Any]]]:
    """The lists of videos and of tracks with a score as members, and the column of the boxes' tracks."""
    import msgspec

    encode = msgspec.json.encode
    videos, tracks = dataset.videos, dataset.tracks
    members: list[bytes] = []
    video_ids = own_ids(videos.source_id, 0)
    if len(videos):
        records = [
            {"id": id_, "name": name} | ({"length": length} if length else {})
            for id_, name, length in zip(video_ids, videos.name, videos.length.tolist(), strict=True)
        ]
        members += [b'"videos":', *_array([b",\n".join(map(encode, records))]), b",\n"]
    if dataset.boxes.track is None:
        return members, {}
    numbers = track_numbers(dataset, log)
    scored = np.flatnonzero(~np.isnan(tracks.score)).tolist()
    if scored:
        rest = [
            {"id": int(numbers[i]), "video_id": video_ids[tracks.video[i]], "score": float(tracks.score[i])}
            for i in scored
        ]
        members += [b'"tracks":', *_array([b",\n".join(map(encode, rest))]), b",\n"]
    column = box_tracks(dataset, numbers, -1)
    return members, {} if column is None else {"track_id": column[rows]}


def _ltwh(dataset: Dataset, rows: NDArray[Any]) -> Floats:
    boxes = dataset.boxes
    # Adding zero turns -0.0 into 0, which is what a reader of "-0" sees.
    return np.concatenate([boxes.xyxy[rows, :2], short_wh(boxes)[rows]], axis=1) + 0.0


def _lines(
    columns: Mapping[str, NDArray[Any]],
    what: str,
    log: Log,
    heads: Sequence[bytes] = (),
    *,
    optional: Mapping[str, NDArray[Any]] | None = None,
    same: Mapping[str, bytes] | None = None,
) -> list[bytes]:
    """Records of numbers as JSON, one a line, separated by commas; in parts, which are to be joined.

    ``heads`` are the first members of every record as JSON, where they are not only numbers. Of `optional`
    columns of whole numbers -1 is left out. ``same`` is JSON that every record has.
    """
    import msgspec

    optional, same = optional or {}, same or {}
    members: list[Any] = [*columns, *same, *((key, int, -1) for key in optional)]
    record = msgspec.defstruct("Record", members, omit_defaults=True, gc=False)
    constant = [itertools.repeat(msgspec.Raw(value)) for value in same.values()]
    encode = msgspec.json.Encoder().encode_lines
    parts: list[bytes] = []
    starts = range(0, len(next(iter(columns.values()))), _BATCH)
    for start in log.track(starts, what) if len(starts) > 1 else starts:
        batch, more = (
            [_shortest(column[start : start + _BATCH]) for column in part.values()]
            for part in (columns, optional)
        )
        text = encode(list(map(record, *batch, *constant, *more)))[:-1].replace(b"\n", b",\n")
        if heads:
            lines = zip(heads[start : start + _BATCH], text.split(b"\n"), strict=True)
            text = b"\n".join([b"{" + head + b"," + line[1:] for head, line in lines])
        parts += (b",\n", text) if parts else (text,)
    return parts


def _shortest(column: NDArray[Any]) -> list[Any]:
    """The numbers as they are written: whole ones without a point, of those that have no exponent."""
    if column.dtype.kind == "f":
        whole = (column == np.rint(column)) & (np.abs(column) < 1e16)
        wholes = column[whole].astype(np.int64)
        column = column.astype(object)
        column[whole] = wholes
    found: list[Any] = column.tolist()
    return found


def _array(lines: list[bytes]) -> list[bytes]:
    return [b"[\n", *lines, b"\n]"] if any(lines) else [b"[]"]
