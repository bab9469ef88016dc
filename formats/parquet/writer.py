"""Parquet as it is written: a row per box in the order of the images, the classes in the metadata."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.formats._shared.column_roles import FLAGS
from odm.formats.parquet.arrow import METADATA_KEY, pyarrow
from odm.tables import NO_ID, Dataset, Longs

ROWS_OF_GROUP = 2**20
"""Rows of a row group: what is read at a time."""


def to_bytes(dataset: Dataset) -> Any:
    """The file: a row for every box, and one without a box for every image that has none."""
    pa = pyarrow()
    table = _table(dataset)
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(
        table,
        sink,
        row_group_size=ROWS_OF_GROUP,
        compression="zstd",
        write_page_checksum=True,
        use_dictionary=[
            name for name in table.schema.names if pa.types.is_dictionary(table.schema.field(name).type)
        ],
    )
    return sink.getvalue()


def _rows(dataset: Dataset) -> tuple[Longs, Longs]:
    """The image of each row, and its box, -1 for none."""
    image = dataset.boxes.image.astype(np.int64)
    empty = np.setdiff1d(np.arange(len(dataset.images)), image)
    owner = np.concatenate([image, empty])
    box = np.concatenate([np.arange(len(image)), np.full(len(empty), -1)])
    order = np.argsort(owner, kind="stable")
    return owner[order], box[order]


def _table(dataset: Dataset) -> Any:
    pa = pyarrow()
    images, boxes, categories = dataset.images, dataset.boxes, dataset.categories
    image, box = _rows(dataset)
    none = box < 0

    def of_boxes(values: NDArray[Any], unknown: NDArray[np.bool_] | None = None, kind: Any = None) -> Any:
        taken = values[box] if len(values) else np.zeros(len(box), values.dtype)
        return pa.array(taken, kind, mask=none if unknown is None or not len(values) else none | unknown[box])

    def named(codes: NDArray[Any], names: Any, missing: NDArray[np.bool_] | None = None) -> Any:
        return pa.DictionaryArray.from_arrays(
            pa.array(codes.astype(np.int32), mask=missing), pa.array(list(names), pa.string())
        )

    columns = {"image": named(image, images.name)}
    known = (images.width > 0) & (images.height > 0)
    if known.any():
        for name, side in (("width", images.width), ("height", images.height)):
            columns[name] = pa.array(side[image], mask=~known[image])
    columns |= _image_columns(dataset, image)
    category = boxes.category[box] if len(boxes) else np.zeros(len(box), np.int32)
    columns["class"] = named(category, categories.name, none)
    if dataset.kind == "det":
        columns["score"] = of_boxes(boxes.score, np.isnan(boxes.score))
    columns |= {name: of_boxes(values) for name, values in _coordinates(dataset).items()}
    for name, flag in FLAGS.items():
        marked = boxes.has(flag)
        if marked.any():
            columns[name] = of_boxes(marked)
    if not np.isnan(boxes.area).all():
        columns["area"] = of_boxes(boxes.area, np.isnan(boxes.area))
    if (boxes.source_id != NO_ID).any():
        columns["id"] = of_boxes(boxes.source_id, boxes.source_id == NO_ID)
    return pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(_metadata(dataset)).encode()})


def _image_columns(dataset: Dataset, image: Longs) -> dict[str, Any]:
    """Ids and splits of the images, where any has one."""
    pa, images = pyarrow(), dataset.images
    columns = {}
    ids = images.source_id.tolist()
    if any(i != NO_ID for i in ids):
        plain = all((isinstance(i, int) and abs(i) < 2**63) or i == NO_ID for i in ids)
        values = [None if i == NO_ID else i if plain else str(i) for i in ids]
        columns["image_id"] = pa.array(values, pa.int64() if plain else pa.string()).take(pa.array(image))
    if any(images.split):
        columns["split"] = pa.array([s or None for s in images.split], pa.string()).take(pa.array(image))
    return columns


def _coordinates(dataset: Dataset) -> dict[str, NDArray[Any]]:
    """Edges, or corner and size, or both: what gives back the same bits."""
    xyxy, wh = dataset.boxes.xyxy, dataset.boxes.wh
    low, high = xyxy[:, :2], xyxy[:, 2:]
    edges = {"left": low[:, 0], "top": low[:, 1], "right": high[:, 0], "bottom": high[:, 1]}
    sizes = {"box_width": wh[:, 0], "box_height": wh[:, 1]}
    with np.errstate(all="ignore"):
        if (high - low == wh).all():
            return edges
        if (low + wh == high).all():
            return {"left": low[:, 0], "top": low[:, 1], **sizes}
    return edges | sizes


def _metadata(dataset: Dataset) -> dict[str, Any]:
    """The classes in their order, each with its id and frequency where it has one."""
    categories = dataset.categories
    classes = []
    for name, number, frequency in zip(
        categories.name, categories.source_id.tolist(), categories.frequency, strict=True
    ):
        entry: dict[str, Any] = {"name": name}
        if number != NO_ID:
            entry["id"] = number
        if frequency:
            entry["frequency"] = frequency
        classes.append(entry)
    return {"version": 1, "kind": dataset.kind, "classes": classes}
