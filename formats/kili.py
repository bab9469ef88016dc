"""Kili: the JSON export of a project in Kili's raw format.

Specification: "Kili data format" and "Object detection" in the documentation of Kili
(https://docs.kili-technology.com)::

    [{"externalId": "a.jpg", "content": "https://host/a.jpg", "resolution": {"width": 640, "height": 480},
      "labels": [{"labelType": "DEFAULT", "createdAt": "2026-01-01T10:00:00Z", "jsonResponse": {
          "OBJECT_DETECTION_JOB": {"annotations": [
              {"type": "rectangle", "categories": [{"name": "PERSON", "confidence": 100}],
               "boundingPoly": [{"normalizedVertices": [{"x": 0.1, "y": 0.6}, {"x": 0.1, "y": 0.2},
                                                        {"x": 0.3, "y": 0.2}, {"x": 0.3, "y": 0.6}]}]}]}}}]}]

A list of assets, one asset (the files in ``labels/`` of an export), or a folder of such files. Vertices are
relative to the size of the image and are multiplied by it; if ``resolution`` does not say it, it comes from
``--images``, ``--image-size``, ``--image-sizes`` or the other side of an evaluation. Polygons and masks
(``semantic``, with their holes) are outlines; where only boxes are needed, the box around them is read, with
a warning. So is the box around the points of a ``pose``. Other annotations and classifications are counted
but not read.

The newest label of an asset is read: of those drawn by people, which are ground truth, or, if a project has
none, of the types ``PREDICTION`` and ``INFERENCE``, which are detections with ``confidence`` in percent.
``--kind det`` reads these in any case. The image name is ``externalId``.

Writing: one label for each image, of the job ``OBJECT_DETECTION_JOB``.
"""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import Any

import numpy as np

from odm.files import Output, Source
from odm.formats._contract import SURE
from odm.formats._shared.gather import NAN
from odm.formats._shared.json.items import (
    BadRecord,
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
from odm.formats._shared.json.values import Reader, choose_files, dump, find_bounds, join_records
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.shapes.box_shapes import join_rings
from odm.issues import Log
from odm.tables import Builder, Dataset, Floats

_KEYS = declare_keys(
    "id externalId content jsonContent jsonMetadata* resolution width height labels latestLabel labelType "
    "author email createdAt isLatestLabelForUser modelName jsonResponse{} annotations categories name "
    "confidence type mid boundingPoly normalizedVertices x y point points code children*"
)
_JOB = "OBJECT_DETECTION_JOB"
_BY_MACHINES = ("PREDICTION", "INFERENCE")
"""Types of labels that are detections."""
_KINDS = {"rectangle": "", "polygon": "polygons", "semantic": "masks"}
"""Types of annotations with outlines, and what these are counted as where only boxes are read."""


def looks_like(preview: JsonPreview, _: bytes) -> tuple[int, str] | None:
    """Recognise assets with an externalId and labels by the keys of the first one and how values begin."""
    keys = preview.first.get("", {}) if preview.top == "[" else preview.keys
    if keys.get("externalId") == '"' and keys.keys() & {"labels", "latestLabel"}:
        return SURE, "its assets have an externalId and labels, as in Kili"
    return None


def read(source: Source, builder: Builder, log: Log, options: ImageOptions) -> None:
    """Read the file, or those of a folder; images after all files, when the kind of the data is known."""
    reader = Reader(source, builder, log, options, borrow_sizes=True, keys=_KEYS)  # for relative coordinates
    files = choose_files(source, looks_like, "JSON of Kili", log)
    assets: list[tuple[Item, tuple[list[Item], list[Item]]]] = []
    """Each with its labels by people and by machines."""
    for file in log.track(files, "reading"):
        for asset in read_items(reader, file, "a list of assets", may_be_object=True):
            with contextlib.suppress(BadRecord):
                labels = list(asset.items("labels")) or [asset.object("latestLabel", optional=True)]
                labels_by_kind: tuple[list[Item], list[Item]] = ([], [])
                for label in labels:
                    if label.get("jsonResponse"):  # False is 0, by people, and True 1, by machines
                        labels_by_kind[label.get("labelType") in _BY_MACHINES].append(label)
                assets.append((asset, labels_by_kind))
    if builder.kind is None:
        has_truth, has_predictions = (any(labels_by_kind[k] for _, labels_by_kind in assets) for k in (0, 1))
        builder.kind = "det" if has_predictions and not has_truth else "gt"
    for asset, labels_by_kind in assets:
        with contextlib.suppress(BadRecord):
            labels = labels_by_kind[builder.kind == "det"]
            labels = sorted(labels, key=lambda label: str(label.get("createdAt", "")))
            _read_asset(asset, labels[-1] if labels else None)  # the newest of this kind
    reader.finish(field="confidence")


def _read_asset(asset: Item, label: Item | None) -> None:
    """Add the image of an asset, and the objects of one of its labels, if it has any."""
    size = asset.object("resolution", optional=True).size("width", "height")
    image = asset.image("externalId", size=size)
    for _, job in label.object("jsonResponse").objects() if label else ():
        if "annotations" not in job:
            asset.reader.count("classifications of images")
            continue
        job.rows("annotations").read_relative(image, asset, asset.get("externalId"), size, _read_annotation)


def _read_annotation(shape: Row, size: Size) -> None:
    """Add an object, whose coordinates are relative to the `size` of its image in pixels.

    The keypoints of a pose are an object if they span an area; annotations of other kinds are counted.
    """
    kind = shape.text("type") if "type" in shape else "rectangle"
    points: list[Any] = []
    if kind == "pose":
        node_points = [node.object("point") for node in shape.items("points")]
        points = [(*to_pixels(node_point.numbers("x", "y"), size), 2) for node_point in node_points]
    if kind not in _KINDS and not have_area(points):
        shape.reader.count(f"{kind} annotations")
        return
    classes = shape.all_objects("categories", "a list with the class")
    category, score = classes[0].category("name"), NAN
    if shape.reader.builder.kind == "det":  # people's labels have a confidence too: 100
        score = _from_percent(classes[0].score("confidence"))
    if points:
        shape.add(category, shape.set_only_keypoints(points), score=score)
        return
    rings: list[Any] = []
    for polygon in shape.all_objects("boundingPoly", "a list of outlines"):
        vertices = polygon.all_objects("normalizedVertices", "a list of points")
        rings.append([to_pixels(point.numbers("x", "y"), size) for point in vertices])
    if kind != "rectangle" and not shape.is_bad:
        shape.draw("polygons", join_rings(rings), counted_as=_KINDS[kind])
    shape.add(category, find_bounds([point for ring in rings for point in ring]), score=score)


def _to_percent(score: float) -> float:
    """A score in percent, without the rounding errors of binary fractions: 57.0 for 0.57."""
    return float(Decimal(repr(score)) * 100)


def _from_percent(percent: float) -> float:
    """A score in 0..1 from percent, without the rounding errors of binary fractions."""
    return float(Decimal(repr(percent)) / 100)


def _round_scores(scores: Floats) -> Floats:
    """(n,) scores as they are read back after writing in percent, where the last digit may be lost."""
    return np.array([_from_percent(_to_percent(score)) for score in scores.tolist()], np.float64)


def write(dataset: Dataset, target: Output, log: Log, _: ImageOptions) -> None:
    """Write a list of assets, each with one label of rectangles and polygons."""
    name = plan_file(dataset, target, "data.json", "assets", log)
    if not check_sizes(dataset, log) or name is None:
        return
    ltrb_of_row = make_relative(dataset, form="ltrb")
    texts = []
    for image in iter_images(dataset):
        annotations = []
        for box in image.boxes:
            left, top, right, bottom = ltrb_of_row(box.row)
            # Of a rectangle, clockwise from the bottom left corner.
            relative_corners: Any = ((left, bottom), (left, top), (right, top), (right, bottom))
            if box.outlines:  # only one, as `keeps` has no parts
                relative_corners = divide_points(box.outlines[0], (image.width, image.height))
            vertices = [{"x": x, "y": y} for x, y in relative_corners]
            percent = 100 if box.score is None else _to_percent(box.score)
            annotation: dict[str, Any] = {"categories": [{"name": box.label, "confidence": percent}]}
            annotation["type"] = "polygon" if box.outlines else "rectangle"
            annotations.append({**annotation, "boundingPoly": [{"normalizedVertices": vertices}]})
        kind = "DEFAULT" if dataset.kind == "gt" else "PREDICTION"
        label = {"labelType": kind, "jsonResponse": {_JOB: {"annotations": annotations}}}
        size = {"resolution": image.size} if image.size else {}
        texts.append(dump({"externalId": image.name, **size, "labels": [label]}))
    target.write(name, f"{join_records(iter(texts))}\n".encode())


FORMAT = json_format_of(
    __name__,
    title="Kili JSON",
    use="annotation tools",
    written_by="Kili (raw format, one file or one per asset)",
    single=True,
    holds=("externalId",),
    keeps=frozenset("size extension empty score polygon".split()),
    shape_is_box=True,
    max_error_px=1e-6,
    stored_scores=_round_scores,
    needs_size=True,
)
