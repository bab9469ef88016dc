"""Encord: the JSON export of a project.

Specification: "JSON Format Export" in the documentation of Encord (https://docs.encord.com)::

    [{"label_hash": "l1", "data_title": "a.jpg", "data_type": "image", "data_units": {
        "d1": {"data_hash": "d1", "data_title": "a.jpg", "width": 640, "height": 480, "labels": {"objects": [
            {"name": "person", "value": "person", "shape": "bounding_box", "objectHash": "o1",
             "confidence": 1, "manualAnnotation": true,
             "boundingBox": {"x": 0.1, "y": 0.2, "w": 0.2, "h": 0.4}}]}}}}]

A label row has a data unit for each image, and these have the objects. Coordinates are relative to the size
of the image and are multiplied by it. Polygons are outlines, and a ``rotatableBoundingBox``, rotated by
``theta`` degrees about its centre, is an oriented box; where only boxes are needed, the box around them is
read, with a warning. So is the box around a skeleton. Points, lines, bitmasks and classifications are counted
but not read, and neither are videos.

The class is ``name``. Objects drawn by people have ``"manualAnnotation": true``. If all objects have
``false``, they are detections, and ``confidence`` is the score; otherwise it is ignored. ``--kind`` overrides
this.

Writing: a label row for each image.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE
from odm.formats._shared.gather import NAN
from odm.formats._shared.json.items import (
    BadRecord,
    Box,
    Image,
    Item,
    Row,
    Size,
    check_sizes,
    iter_images,
    make_relative,
    plan_file,
    read_items,
)
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.row_shapes import divide_points, have_area, to_pixels
from odm.formats._shared.json.values import Reader, choose_files, dump, join_records
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.shapes.box_shapes import rotate_box, split_rotation
from odm.issues import Log
from odm.tables import Builder, Dataset

_KEYS = declare_keys(
    "label_hash branch_name created_at last_edited_at data_hash data_title data_type dataset_hash "
    "dataset_title label_status data_units{} data_link data_sequence width height labels objects "
    "classifications* name color shape value objectHash featureHash confidence manualAnnotation createdAt "
    "createdBy lastEditedAt lastEditedBy reviews* uid boundingBox rotatableBoundingBox x y w h theta "
    "polygon polygons point skeleton color visibility object_answers* classification_answers* object_actions*"
)
_PLACE = ("x", "y", "w", "h")


def looks_like(preview: JsonPreview, _: bytes) -> tuple[int, str] | None:
    """Recognise label rows with data_units by the keys of the first one and how values begin."""
    keys = preview.first.get("", {}) if preview.top == "[" else preview.keys
    if keys.get("data_units") == "{":
        return SURE, "its label rows have data_units, as in Encord"
    return None


def read(source: Source, builder: Builder, log: Log, options: ImageOptions) -> None:
    """Read the file, or those of a folder; images after all files, when the kind of the data is known."""
    reader = Reader(source, builder, log, options, sized=True, keys=_KEYS)  # the files state image sizes
    files = choose_files(source, looks_like, "JSON of Encord", log)
    units_and_labels = []
    for file in log.track(files, "reading"):
        for row in read_items(reader, file, "a list of label rows", may_be_object=True):
            with contextlib.suppress(BadRecord):
                if row.get("data_type") == "video":
                    reader.count("videos")
                    continue
                units = (unit for _, unit in row.object("data_units").objects())
                units_and_labels += [(unit, _read_labels(unit)) for unit in units]
    if builder.kind is None:
        object_lists = [labels.get("objects") for _, labels in units_and_labels]
        builder.kind = "det" if _are_predictions(object_lists) else "gt"
    for unit, labels in units_and_labels:
        with contextlib.suppress(BadRecord):
            _read_unit(unit, labels)
    reader.finish(field="confidence")


def _are_predictions(lists: list[Any]) -> bool:
    """Whether these lists of objects, one per data unit, have objects, none of them drawn by a person."""
    values = itertools.chain.from_iterable(objects for objects in lists if isinstance(objects, list))
    objects = [value for value in values if isinstance(value, dict)]
    return bool(objects) and all(value.get("manualAnnotation") is False for value in objects)


def _read_labels(unit: Item) -> Item:
    """The labels of a data unit, an object with its ``objects``; classifications are counted."""
    labels = unit.object("labels", optional=True)
    if labels.get("classifications"):
        unit.reader.count("classifications of images")
    return labels


def _read_unit(unit: Item, labels: Item) -> None:
    """Add the image of a data unit and its objects."""
    size = unit.size("width", "height")
    image = unit.image("data_title", size=size)
    labels.rows("objects").read_relative(image, unit, unit.get("data_title"), size, _read_object)


def _read_object(row: Row, size: Size) -> None:
    """Add an object, whose coordinates are relative to the `size` of its image in pixels.

    A skeleton whose nodes span no area is read by its box; an object of another shape is counted.
    """
    # The key of its shape, boundingBox if it has none of these.
    reader, key = row.reader, row.first_key("boundingBox", "rotatableBoundingBox", "polygon", "skeleton")
    nodes = [node for _, node in row.object("skeleton").objects()] if key == "skeleton" else []
    keypoints = [(*to_pixels(node.numbers("x", "y"), size), _read_visibility(node)) for node in nodes]
    if key == "skeleton" and not have_area(keypoints):
        key = "boundingBox"
    if key not in row and row.get("shape") not in (None, "bounding_box"):
        reader.count(f"{row.get('shape')} objects")
        return
    category = row.category("name")
    score = row.score("confidence") if reader.builder.kind == "det" else NAN  # ground truth has 1 for all
    if key == "polygon":
        if isinstance(row.get(key), dict):
            vertices = [point for _, point in row.object(key).objects()]
        else:
            vertices = row.all_objects(key, "a list of points")
        points = [point.numbers("x", "y") for point in vertices]
        if not points:
            row.report_wrong("polygon", "points")
            raise BadRecord
        corners = row.draw_around([to_pixels(point, size) for point in points], "polygons")
    elif key == "skeleton":
        corners = row.set_only_keypoints(keypoints)
    else:
        rectangle = row.object(key)
        left, top, width, height = to_pixels(rectangle.numbers(*_PLACE), size)
        corners = (left, top, left + width, top + height)
        if theta := rectangle.number("theta", 0.0):
            corners = row.draw_oriented(rotate_box(left, top, width, height, math.radians(theta)))
    row.add(category, corners, score=score)


def _read_visibility(node: Item) -> int:
    """The visibility of a node of a skeleton: 0 invisible, 1 occluded, 2 visible."""
    return {"invisible": 0, "occluded": 1}.get(str(node.get("visibility")).lower(), 2)


def _format_shape(box: Box, image: Image, xywh_of_row: Callable[[int], list[float | int]]) -> dict[str, Any]:
    """The fields of an object that hold its shape, relative to the image size.

    `xywh_of_row` gives the relative left, top, width and height of the box with a row number.
    """
    size = image.width, image.height
    if box.outlines:
        points = divide_points(box.outlines[0], size)  # the only outline, as `keeps` has no parts
        return {"shape": "polygon", "polygon": {str(i): {"x": x, "y": y} for i, (x, y) in enumerate(points)}}
    if box.corners:
        (left, top, width, height), theta = split_rotation(box.corners)
        relative_xywh = [v for point in divide_points([(left, top), (width, height)], size) for v in point]
        rectangle = {**dict(zip(_PLACE, relative_xywh, strict=True)), "theta": theta}
        return {"shape": "rotatable_bounding_box", "rotatableBoundingBox": rectangle}
    return {"shape": "bounding_box", "boundingBox": dict(zip(_PLACE, xywh_of_row(box.row), strict=True))}


def write(dataset: Dataset, target: Output, log: Log, _: ImageOptions) -> None:
    """Write a list of label rows, each with one data unit: an image and its objects."""
    name = plan_file(dataset, target, "labels.json", "label rows", log)
    if not check_sizes(dataset, log) or name is None:
        return
    xywh_of_row = make_relative(dataset)
    texts = []
    for image in iter_images(dataset):
        objects = []
        for box in image.boxes:
            common_fields: dict[str, Any] = {"name": box.label, "value": box.label.lower().replace(" ", "_")}
            common_fields |= {"objectHash": f"o{box.row + 1}", "manualAnnotation": box.score is None}
            confidence = box.score_field("confidence") or {"confidence": 1}
            objects.append({**common_fields, **confidence, **_format_shape(box, image, xywh_of_row)})
        unit_id = f"d{image.row + 1}"
        title = {"data_title": image.name, "data_type": "image"}
        labels = {"objects": objects, "classifications": []}
        unit = {"data_hash": unit_id, **title, "data_sequence": 0, **image.size, "labels": labels}
        texts.append(dump({"label_hash": f"l{image.row + 1}", **title, "data_units": {unit_id: unit}}))
    target.write(name, f"{join_records(iter(texts))}\n".encode())


FORMAT = json_format_of(
    __name__,
    title="Encord JSON",
    use="annotation tools",
    written_by="Encord (images and image groups)",
    single=True,
    holds=("data_units",),
    keeps=frozenset("size extension empty score polygon oriented rectangle".split()),
    shape_is_box=True,
    max_error_px=1e-6,
    needs_size=True,
)
