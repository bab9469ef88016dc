"""SA-1B: the masks of Segment Anything, one JSON file per image.

Specification: the page of the dataset (https://ai.meta.com/datasets/segment-anything)::

    {"image": {"image_id": 2, "file_name": "sa_2.jpg", "width": 640, "height": 480},
     "annotations": [{"id": 7, "bbox": [10, 20, 100, 200], "area": 15000, "predicted_iou": 0.93,
                      "segmentation": {"size": [480, 640], "counts": "..."}}]}

``bbox`` is left, top, width and height in pixels. All objects are of the class ``object``, as there are no
others. ``predicted_iou`` and ``stability_score`` judge the masks of ground truth: they are no scores of
detections, and are counted but not kept. ``counts`` is COCO's text of a mask.

This format is only read, because it has no classes.
"""

from __future__ import annotations

import contextlib
from typing import Any

from odm.files import Source
from odm.formats._contract import SURE
from odm.formats._shared.json.items import BAD_SIZE, BadRecord, Item, Row, Size, read_item
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.values import Reader, choose_files
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.shapes.pixel_masks import BadMask, check_mask
from odm.issues import Log
from odm.tables import Builder

_KEYS = declare_keys(
    "image annotations image_id file_name width height bbox area segmentation size counts id"
)


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Recognise SA-1B by an image and annotations, whose first has the marks of an automatic mask."""
    first_mask = preview.first.get("annotations", {})
    is_cut_mask = preview.cut and "segmentation" in first_mask  # the marks may come later
    is_mask = {"predicted_iou", "stability_score"} & first_mask.keys() or is_cut_mask
    if preview.keys.get("image") == "{" and preview.keys.get("annotations") == "[" and b'"image_id"' in head:
        return (SURE, "it has an image and masks with predicted_iou, as SA-1B has") if is_mask else None
    return None


def read(source: Source, builder: Builder, log: Log, options: ImageOptions) -> None:
    """Read the file, or those of a folder."""
    reader = Reader(source, builder, log, options, sized=True, keys=_KEYS)  # the files state image sizes
    # A file with the key "image" that lacks others is read all the same, so that they are reported.
    files = choose_files(source, looks_like, "SA-1B", log, unique_keys=frozenset({"image"}))
    for file in log.track(files, "reading"):
        with contextlib.suppress(BadRecord):
            record = read_item(reader, file)
            image, masks = record.object("image"), record.rows("annotations")
            size = image.size("width", "height") or _get_mask_size(record)
            if size != BAD_SIZE:
                masks.read(image.image("file_name", size=size), _read_mask, size)
    reader.finish()


def _get_mask_size(record: Item) -> Size | None:
    """Return (width, height) of the first mask, which has the size of its image; None if it states none."""
    value: Any = record.get("annotations")
    for key in (0, "segmentation", "size"):
        is_there = value[:1] if isinstance(value, list) else isinstance(value, dict) and key in value
        value = value[key] if is_there else None
    if isinstance(value, list) and len(value) == 2 and all(type(n) is int and 0 < n < 2**31 for n in value):
        return value[1], value[0]
    return None


def _read_mask(row: Row, size: Size | None) -> None:
    """Add an object with a mask, if masks are wanted; `size` is (width, height) of its image."""
    corners, wh = row.ltwh("bbox")
    if row.wants and "segmentation" in row:
        mask = row.object("segmentation")
        try:  # a mask must have the size of its image; none has `BAD_SIZE`, for an unknown one
            text, _ = check_mask(mask.get("counts"), mask.get("size"), *(size or BAD_SIZE))
        except BadMask as e:
            mask.report_wrong("counts", str(e))
            return
        row.draw("mask", text, counted_as="masks")
    category = row.category_named("object", row.location)
    row.add(category, corners, wh=wh)


FORMAT = json_format_of(
    __name__,
    title="SA-1B masks",
    use="training",
    written_by="the SA-1B dataset, and programs that write masks like it",
    holds=("predicted_iou", '"segmentation"'),
    keeps=frozenset("size extension wh mask".split()),
)
