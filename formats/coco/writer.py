"""COCO JSON as it is written: an object with images and categories, or a list of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.formats._shared.number_text import short_wh
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
    return b"".join([*_array(_lines(columns, "write detections", log, heads)), b"\n"])


def object_of(dataset: Dataset, image_rows: NDArray[Any], box_rows: NDArray[Any], log: Log) -> bytes:
    """These images and boxes, with all categories, as one object."""
    import msgspec

    images, categories, boxes = dataset.images, dataset.categories, dataset.boxes
    image_ids = own_ids(images.source_id[image_rows], 0)
    category_ids = own_ids(categories.source_id, 0)
    image = msgspec.defstruct(
        "Image", ["id", "file_name", ("width", int, 0), ("height", int, 0)], omit_defaults=True, gc=False
    )
    category = msgspec.defstruct("Category", ["id", "name"], gc=False)
    lines = msgspec.json.Encoder().encode_lines
    image_lines = lines(
        list(
            map(
                image,
                image_ids,
                [images.name[row] for row in image_rows.tolist()],
                images.width[image_rows].tolist(),
                images.height[image_rows].tolist(),
            )
        )
    )
    category_lines = lines(list(map(category, category_ids, categories.name)))
    ids_by_row = np.zeros(len(images), np.int64)
    ids_by_row[image_rows] = image_ids
    ltwh = _ltwh(dataset, box_rows)
    area = boxes.area[box_rows]
    with np.errstate(over="ignore"):
        area = np.where(np.isnan(area), ltwh[:, 2] * ltwh[:, 3], area)
    area = np.nan_to_num(area) + 0.0  # an infinite product becomes the largest number
    columns: dict[str, NDArray[Any]] = {
        "id": np.array(box_ids(boxes.source_id[box_rows]), np.int64),
        "image_id": ids_by_row[boxes.image[box_rows]],
        "category_id": np.array(category_ids, np.int64)[boxes.category[box_rows]],
        "bbox": ltwh,
        "area": area,
        "iscrowd": ((boxes.flags[box_rows] & np.uint16(Flag.CROWD)) != 0).astype(int),
    }
    if dataset.kind == "det":
        columns["score"] = boxes.score[box_rows] + 0.0
    return b"".join(
        [
            b'{"info":{},"licenses":[],\n"images":',
            *_array([image_lines[:-1].replace(b"\n", b",\n")]),
            b',\n"annotations":',
            *_array(_lines(columns, "write annotations", log)),
            b',\n"categories":',
            *_array([category_lines[:-1].replace(b"\n", b",\n")]),
            b"}\n",
        ]
    )


def _ltwh(dataset: Dataset, rows: NDArray[Any]) -> Floats:
    boxes = dataset.boxes
    # Adding zero turns -0.0 into 0, which is what a reader of "-0" sees.
    return np.concatenate([boxes.xyxy[rows, :2], short_wh(boxes)[rows]], axis=1) + 0.0


def _lines(
    columns: Mapping[str, NDArray[Any]], what: str, log: Log, heads: Sequence[bytes] = ()
) -> list[bytes]:
    """Records of numbers as JSON, one a line, separated by commas; in parts, which are to be joined.

    ``heads`` are the first members of every record as JSON, where they are not only numbers.
    """
    import msgspec

    record = msgspec.defstruct("Record", columns, gc=False)
    encode = msgspec.json.Encoder().encode_lines
    wholes = any(c.dtype.kind == "f" and bool((c == np.rint(c)).any()) for c in columns.values())
    parts: list[bytes] = []
    starts = range(0, len(next(iter(columns.values()))), _BATCH)
    for start in log.track(starts, what) if len(starts) > 1 else starts:
        batch = [column[start : start + _BATCH].tolist() for column in columns.values()]
        text = encode(list(map(record, *batch)))
        if wholes:
            # There is no text in these records, so a point and a zero before an end is a whole number.
            for mark in (b",", b"]", b"}"):
                text = text.replace(b".0" + mark, mark)
        text = text[:-1].replace(b"\n", b",\n")
        if heads:
            lines = zip(heads[start : start + _BATCH], text.split(b"\n"), strict=True)
            text = b"\n".join([b"{" + head + b"," + line[1:] for head, line in lines])
        parts += (b",\n", text) if parts else (text,)
    return parts


def _array(lines: list[bytes]) -> list[bytes]:
    return [b"[\n", *lines, b"\n]"] if any(lines) else [b"[]"]
