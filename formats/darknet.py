"""darknet's ``result.json``: the detections in each image, as ``darknet detector test -out`` writes them.

Reference: the writer of the program (``detection_to_json`` in https://github.com/AlexeyAB/darknet)::

    [{"frame_id": 1, "filename": "data/dog.jpg", "objects": [
        {"class_id": 16, "name": "dog", "confidence": 0.977956,
         "relative_coordinates": {"center_x": 0.29, "center_y": 0.66, "width": 0.28, "height": 0.56}}]}]

Coordinates are relative to the size of the image, and are multiplied by it; the size comes from ``--images``,
``--image-size``, ``--image-sizes`` or the other side of an evaluation. ``confidence`` is the score. If no
object has one, the file contains ground truth.

Writing: the same, with enough decimals to preserve pixels within 1e-6, and without ``confidence`` for ground
truth. ``class_id`` is the id of the class in the source or its position.
"""

from __future__ import annotations

import contextlib

from odm.files import Output, Source
from odm.formats._contract import SURE
from odm.formats._shared.json.items import (
    BadRecord,
    Item,
    Row,
    Size,
    check_sizes,
    iter_images,
    list_class_ids,
    make_relative,
    plan_file,
    read_items,
)
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.row_shapes import to_pixels
from odm.formats._shared.json.values import Reader, choose_files, dump, join_records
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import ImageOptions
from odm.issues import Log
from odm.tables import Builder, Dataset

_KEYS = declare_keys(
    "frame_id filename objects class_id name relative_coordinates center_x center_y width height confidence"
)
_PLACE = ("center_x", "center_y", "width", "height")


def looks_like(preview: JsonPreview, _: bytes) -> tuple[int, str] | None:
    """Recognise a list of images with a frame_id or filename and listed objects by the first one's keys."""
    keys = preview.first.get("", {})  # "": of the outermost list
    if preview.top == "[" and keys.get("objects") == "[" and {"frame_id", "filename"} & keys.keys():
        return SURE, "its records have a frame_id and objects, as darknet's result.json has"
    return None


def read(source: Source, builder: Builder, log: Log, options: ImageOptions) -> None:
    """Read the file, or those of a folder."""
    reader = Reader(source, builder, log, options, borrow_sizes=True, keys=_KEYS)  # for relative coordinates
    for file in log.track(choose_files(source, looks_like, "darknet's result.json", log), "reading"):
        for frame in read_items(reader, file, "a list of images"):
            with contextlib.suppress(BadRecord):
                _read_frame(frame)
    reader.finish(field="confidence")


def _read_frame(frame: Item) -> None:
    """Add an image and its objects."""
    objects = frame.rows("objects")
    image = frame.image("filename")
    # The size, which the file does not state, is looked for.
    objects.read_relative(image, frame, frame.get("filename"), size=None, read=_read_object)


def _read_object(row: Row, size: Size) -> None:
    """Add an object from its centre and size, relative to the `size` of its image in pixels."""
    category, score = row.category_with_id("name", "class_id"), row.score("confidence")
    x, y, width, height = to_pixels(row.object("relative_coordinates").numbers(*_PLACE), size)
    corners = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    row.add(category, corners, score=score)


def write(dataset: Dataset, target: Output, log: Log, _: ImageOptions) -> None:
    """Write a list of images, with the centres and sizes of their boxes relative to the image size."""
    name = plan_file(dataset, target, "result.json", "detections", log)
    if not check_sizes(dataset, log) or name is None:
        return
    class_numbers = list_class_ids(dataset)
    cxcywh_of_row = make_relative(dataset, form="cxcywh")
    texts = []
    for image in iter_images(dataset):
        objects = [
            {"class_id": class_numbers[box.label], "name": box.label}
            | {"relative_coordinates": dict(zip(_PLACE, cxcywh_of_row(box.row), strict=True))}
            | box.score_field("confidence")
            for box in image.boxes
        ]
        texts.append(dump({"frame_id": image.row + 1, "filename": image.name, "objects": objects}))
    target.write(name, f"{join_records(iter(texts))}\n".encode())


FORMAT = json_format_of(
    __name__,
    title="darknet result.json",
    use="results",
    written_by="darknet detector test -ext_output -out result.json",
    single=True,
    holds=("objects",),
    keeps=frozenset({"extension", "empty", "score", "category_id"}),
    max_error_px=1e-6,
    needs_size=True,
)
