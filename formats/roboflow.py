"""Roboflow's inference: the responses of its servers and packages, one JSON file per image.

Reference: the responses of object detection in the documentation of Roboflow Inference
(https://inference.roboflow.com)::

    {"inference_id": "4b39", "time": 0.05, "image": {"width": 640, "height": 480}, "predictions": [
        {"x": 60, "y": 120, "width": 100, "height": 200, "confidence": 0.9,
         "class": "person", "class_id": 0, "detection_id": "500623ad"}]}

``x`` and ``y`` are the centre of the box, in pixels. A prediction may have ``points``, its outline, or
``keypoints``. Lists of responses are read too, and the outputs of workflows, whose ``predictions`` are such a
response.

The image is called ``image_path`` in the predictions, as the package ``roboflow`` writes it, or else as the
file, with the extension of its picture if one is found.

This format is only read. If no prediction has a ``confidence``, the files contain ground truth.
"""

from __future__ import annotations

import contextlib
from typing import Any

from odm.files import Source
from odm.formats._contract import SURE
from odm.formats._shared.gather import add_extension
from odm.formats._shared.image_names import Place, name_images
from odm.formats._shared.json.items import BadRecord, Item, Row, read_items
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.values import Reader, choose_files, strip_parents
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text.records import to_numbers
from odm.issues import Log
from odm.tables import Builder

_KEYS = declare_keys(
    "inference_id time image predictions x y width height confidence class class_id detection_id parent_id "
    "image_path prediction_type points keypoints class_confidence visualization* frame_id"
)


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Recognise a response, or a list of them, by its predictions or its image and how these begin."""
    keys = preview.keys if preview.top == "{" else preview.first.get("", {})  # of a list
    if keys.get("predictions") not in ("[", "{"):
        return None
    has_boxes = preview.first.get("predictions", {}).keys() >= {"x", "y", "width", "height", "class"}
    is_deeper = preview.top == "[" or keys["predictions"] == "{"  # so that the preview has no prediction
    has_words = is_deeper and b'"confidence"' in head and b'"x"' in head
    if has_boxes or has_words or keys.get("image") == "{":
        return SURE, "it has an image and predictions with x, y and class, as Roboflow's inference has"
    return None


def read(source: Source, builder: Builder, log: Log, options: ImageOptions) -> None:
    """Read the file, or those of a folder."""
    reader = Reader(source, builder, log, options, keys=_KEYS)
    files = choose_files(source, looks_like, "responses of Roboflow", log)
    places = name_images(source, files, reader.pictures)
    for file, image_place in zip(log.track(files, "reading"), places, strict=True):
        for response in read_items(reader, file, "a response, or a list of them", may_be_object=True):
            with contextlib.suppress(BadRecord):
                _read_response(response, image_place)
    reader.finish(field="confidence")


def _read_response(response: Item, image_place: Place) -> None:
    """Add an image and its predictions; `image_place` has its name by the path of the file.

    Responses of models that classify whole images are reported instead.
    """
    response.need("predictions")
    if isinstance(response.get("predictions"), dict):  # the output of a workflow
        response = response.object("predictions")
    values = response.get("predictions")
    # Classes are a list, or an object by name: {"cat": {...}}, without the "predictions" of a workflow.
    if (isinstance(values, list) and values and _is_class(values[0])) or "predictions" not in response:
        remedy = "give the responses of a model that detects objects"
        response.reader.report_task(response.location.path, "classes of whole images, by Roboflow", remedy)
        return
    size_item = response.object("image", optional=True)
    size_item.record = to_numbers(size_item.record, "width", "height")
    predictions = response.rows("predictions")
    path = next((row.get("image_path") for row in predictions if row.get("image_path")), None)
    picture = response.reader.find_picture(image_place.key, response.location, image_place.picture)
    name = add_extension(image_place.key, picture) if path is None else path
    if isinstance(name, str) and path is not None:
        name = strip_parents(name)
    image = response.image_named(name, size=size_item.size("width", "height"))
    predictions.read(image, _read_prediction)


def _is_class(prediction: Any) -> bool:
    """Whether a prediction is a class of the whole image, because it has no place."""
    return isinstance(prediction, dict) and prediction.keys() <= {"class", "class_id", "confidence"}


def _read_prediction(row: Row) -> None:
    """Add a prediction from its centre and size in pixels, with its keypoints or polygon."""
    category, score = row.category_with_id("class", "class_id"), row.score("confidence")
    x, y, width, height = row.numbers("x", "y", "width", "height")
    if row.wants and row.get("keypoints"):
        # 2 is visible: the responses do not say it.
        row.set_keypoints([[*point.numbers("x", "y"), 2] for point in row.items("keypoints")])
    if row.wants and row.get("points"):
        points = [point.numbers("x", "y") for point in row.items("points")]
        row.draw("polygons", [points], counted_as="polygons")
    corners = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    row.add(category, corners, wh=(width, height), score=score)


FORMAT = json_format_of(
    __name__,
    title="Responses of Roboflow's inference",
    use="results",
    written_by="Roboflow's hosted API, its inference server and workflows, and the packages roboflow and "
    "inference-sdk",
    holds=("predictions",),
    keeps=frozenset("size empty score category_id polygon keypoints".split()),
)
