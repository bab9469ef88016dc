"""Azure: JSON lines of Azure Machine Learning, and images and predictions of Custom Vision.

Specification: "Data schemas to train computer vision models with automated machine learning" and the API of
Custom Vision in Microsoft's documentation (https://learn.microsoft.com/azure). A line for each image::

    {"image_url": "azureml://subscriptions/s/resourcegroups/r/workspaces/w/datastores/d/paths/photos/a.jpg",
     "image_details": {"format": "jpg", "width": "640px", "height": "480px"},
     "label": [{"label": "person", "topX": 0.1, "topY": 0.2, "bottomX": 0.3, "bottomY": 0.4, "isCrowd": 0}]}

    {"filename": "photos/a.jpg", "boxes": [
        {"box": {"topX": 0.1, "topY": 0.2, "bottomX": 0.3, "bottomY": 0.4}, "label": "person", "score": 0.9}]}

The second kind is predictions, which are detections. Custom Vision returns a list of images, or the
predictions for one image, which is then named after the file::

    [{"id": "7f2b", "width": 640, "height": 480, "originalImageUri": "https://host/i/a.jpg?x",
      "regions": [{"tagName": "person", "left": 0.1, "top": 0.2, "width": 0.2, "height": 0.2}]}]

    {"project": "p", "iteration": "i", "predictions": [{"tagName": "person", "probability": 0.9,
        "boundingBox": {"left": 0.1, "top": 0.2, "width": 0.2, "height": 0.2}}]}

Coordinates are relative to the size of the image and are multiplied by it. If the file does not give it, it
comes from ``--images``, ``--image-size``, ``--image-sizes`` or the other side of an evaluation. ``isCrowd``
is the flag *crowd*. A ``polygon`` is an outline, of one part or several; where only boxes are needed, the box
around it is read, with a warning.

The image name is what follows ``/paths/`` or ``AmlDatastore://``, or the last part of another URL; without a
URL, images of Custom Vision have the name of their ``id``.

Writing: JSON lines of Azure Machine Learning. ``-O prefix=azureml://...`` is put before the image names.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE, option
from odm.formats._shared.gather import add_extension
from odm.formats._shared.image_names import choose_url_names, unquote
from odm.formats._shared.json.items import (
    BadRecord,
    Item,
    Row,
    Size,
    check_sizes,
    iter_images,
    make_relative,
    plan_file,
    read_item,
    read_line_items,
)
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.row_shapes import divide_points, to_pixels
from odm.formats._shared.json.values import Reader, choose_files, dump, find_bounds
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text.records import to_number
from odm.issues import Log
from odm.tables import Builder, Dataset, Flag

_KEYS = declare_keys(
    "image_url image_details width height format label label_confidence topX topY bottomX bottomY isCrowd "
    "polygon box boxes score filename id created resizedImageUri thumbnailUri originalImageUri imageUri "
    "tags tagId tagName tagType regions regionId imageId left top project iteration predictions "
    "probability boundingBox"
)
_SUFFIXES = (".jsonl", ".json")
_NAMES = ("image_url", "filename", "originalImageUri", "imageUri", "id")
_EDGES = ("topX", "topY", "bottomX", "bottomY")
_PLACE = ("left", "top", "width", "height")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AzureOptions(ImageOptions):
    """Options of Azure's JSON."""

    prefix: str = option("", "prefix of the image names, as in azureml://.../paths", side="write")


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Recognise records of Azure's two services by the keys of the first one and how their values begin."""
    keys = preview.keys if preview.top == "{" else preview.first.get("", {})  # "": of the outermost list
    if keys.get("image_url") == '"' and keys.get("label") == "[":
        return SURE, "its records have an image_url and a list of labels, as in Azure Machine Learning"
    if "boxes" in keys and b'"topX"' in head:
        return SURE, "its records have boxes from topX to bottomX, as predictions of Azure have"
    if keys.get("predictions") == "[" and {"project", "iteration"} <= keys.keys():
        return SURE, "it has predictions of an iteration, as in Custom Vision"
    has_uri = keys.keys() & {"originalImageUri", "resizedImageUri", "imageUri"}
    if preview.top == "[" and "regions" in keys and has_uri:
        return SURE, "its records have regions and image URIs, as in Custom Vision"
    return None


def read(source: Source, builder: Builder, log: Log, options: AzureOptions) -> None:
    """Read the records of each file: one per line or in a list, or a file of predictions, one record."""
    reader = Reader(source, builder, log, options, borrow_sizes=True, keys=_KEYS)  # for relative coordinates
    for file in log.track(choose_files(source, looks_like, "JSON of Azure", log, _SUFFIXES), "reading"):
        first_bytes = source.head(file).lstrip(b"\xef\xbb\xbf \t\r\n")
        # A response of Custom Vision, which is one object on any number of lines.
        is_single = b'"predictions"' in first_bytes and first_bytes.startswith(b"{")
        with contextlib.suppress(BadRecord):
            records = [read_item(reader, file)] if is_single else list(read_line_items(reader, file))
            texts = (record.get(_find_url_key(record)) for record in records)
            name_of = choose_url_names(texts, parse_image_name, source.full(file), log)
            for record in records:
                with contextlib.suppress(BadRecord):
                    _read_record(record, file, name_of)
    reader.finish()


def parse_image_name(url: str) -> str:
    """The name of an image from its address in Azure's storage.

    That is a path, as after azureml://.../paths/ or AmlDatastore://, or the last part of another URL.
    """
    if "/paths/" in url:
        return url.split("/paths/", 1)[1]
    if "://" not in url:
        return url
    kind, _, path = url.partition("://")
    return path if kind.lower() == "amldatastore" else unquote(path.partition("?")[0]).rpartition("/")[2]


def _find_url_key(record: Item) -> str:
    """The key of a record that names its image."""
    return next((key for key in _NAMES if record.get(key)), _NAMES[0])


def _read_record(record: Item, file: str, name_of: Callable[[str], str]) -> None:
    """Add an image and its boxes. Predictions, which name no image, take the name of their file.

    `name_of` turns the URL of an image into its name.
    """
    reader = record.reader
    size = record.size("width", "height")
    if "predictions" in record:
        image_stem = reader.source.relative(file).rpartition(".")[0]
        name = add_extension(image_stem, reader.pictures.find(image_stem))
        name_key, list_key = "", "predictions"  # no key has the name
    else:
        name_key = _find_url_key(record)
        name = name_of(url) if isinstance(url := record.get(name_key), str) else url
        list_key = record.first_key("label", "boxes", "regions")
    is_label = list_key in ("label", "boxes")
    size = (_read_details(record) if is_label else None) or size
    image = record.image_named(name, field=name_key, size=size)
    record.rows(list_key).read_relative(image, record, name, size, _read_label if is_label else _read_region)


def _read_details(record: Item) -> Size | None:
    """The (width, height) in ``image_details``, whose numbers may be text as in 640px; None if not given."""
    details = record.object("image_details", optional=True)
    sides = {key: details.get(key) for key in ("width", "height") if key in details}
    texts = {key: to_number(text.removesuffix("px")) for key, text in sides.items() if isinstance(text, str)}
    details.record = {**details.record, **texts}
    return details.size("width", "height")


def _read_label(label: Row, size: Size) -> None:
    """Add an object with a polygon, or edges, relative to the `size` of its image in pixels."""
    category, score = label.category("label"), label.score("score")
    if "polygon" in label:
        flat_rings = label.array("polygon")  # of x, y, x, y, ...
        if not any(flat_rings) or not all(map(_are_pairs, flat_rings)):
            label.report_wrong("polygon", "lists of x and y of each point")
            raise BadRecord
        pixels = [to_pixels(ring, size) for ring in flat_rings if ring]
        rings = [list(zip(ring[0::2], ring[1::2], strict=True)) for ring in pixels]
        corners = find_bounds([point for ring in rings for point in ring])
        label.draw("polygons", rings, counted_as="polygons")
    else:
        edges = label.object("box") if "box" in label else label
        left, top, right, bottom = to_pixels(edges.numbers(*_EDGES), size)
        corners = left, top, right, bottom
    flags = Flag.CROWD if label.flag("isCrowd") else Flag(0)
    label.add(category, corners, score=score, flags=int(flags))


def _are_pairs(values: object) -> bool:
    """Whether a value is a list of numbers only, and of an even number of them."""
    return (
        isinstance(values, list)
        and len(values) % 2 == 0
        and all(type(value) in (int, float) for value in values)
    )


def _read_region(region: Row, size: Size) -> None:
    """Add a region or prediction of Custom Vision, relative to the `size` of its image in pixels."""
    category, score = region.category("tagName"), region.score("probability")
    edges = region.object("boundingBox") if "boundingBox" in region else region
    left, top, width, height = to_pixels(edges.numbers(*_PLACE), size)
    region.add(category, (left, top, left + width, top + height), score=score)


def write(dataset: Dataset, target: Output, log: Log, options: AzureOptions) -> None:
    """Write JSON lines of Azure Machine Learning, one for each image."""
    name = plan_file(dataset, target, "labels.jsonl", "records", log)
    if not check_sizes(dataset, log) or name is None:
        return
    prefix = options.prefix.rstrip("/") + "/" if options.prefix else ""
    ltrb_of_row = make_relative(dataset, form="ltrb")
    texts = []
    for image in iter_images(dataset):
        labels = []
        for box in image.boxes:
            edges: dict[str, Any] = dict(zip(_EDGES, ltrb_of_row(box.row), strict=True))
            size = image.width, image.height
            relative_rings = [divide_points(ring, size) for ring in box.outlines]
            parts = [[v for point in ring for v in point] for ring in relative_rings]  # x, y, x, y, ...
            polygon: dict[str, Any] = {"polygon": parts} if parts else {}
            if dataset.kind == "det":
                labels.append({"box": edges, "label": box.label, **polygon, **box.score_field("score")})
            else:
                crowd = int(bool(box.flags & Flag.CROWD))
                # A polygon stands in the place of the edges; in detections it stands beside them.
                labels.append({"label": box.label, **(polygon or edges), "isCrowd": crowd})
        name_key, list_key = ("filename", "boxes") if dataset.kind == "det" else ("image_url", "label")
        details = {"image_details": image.size} if image.size else {}
        texts.append(dump({name_key: prefix + image.name, **details, list_key: labels}) + "\n")
    target.write(name, "".join(texts).encode())


FORMAT = json_format_of(
    __name__,
    title="Azure ML JSON lines and Custom Vision",
    use="annotation tools",
    written_by="Azure Machine Learning (labels, predictions), Azure Custom Vision (images, predictions)",
    suffixes=(".jsonl",),
    looks_at=_SUFFIXES,
    single=True,
    holds=("image_url", "topX", "predictions", "mageUri"),
    keeps=frozenset("size extension empty score crowd polygon parts".split()),
    shape_is_box=True,
    max_error_px=1e-6,
    needs_size=True,
)
