"""Vertex AI JSON lines: files to import into a dataset of Google Cloud, and batch predictions.

Specification: "Prepare image training data for object detection" and "Interpret prediction results" in the
documentation of Vertex AI (https://cloud.google.com/vertex-ai/docs)::

    {"imageGcsUri": "gs://bucket/a.jpg",
     "boundingBoxAnnotations": [{"displayName": "person", "xMin": "0.1", "yMin": "0.2", "xMax": "0.3",
                                 "yMax": "0.4"}],
     "dataItemResourceLabels": {"aiplatform.googleapis.com/ml_use": "training"}}

    {"instance": {"content": "gs://bucket/a.jpg", "mimeType": "image/jpeg"},
     "prediction": {"displayNames": ["person"], "confidences": [0.97], "bboxes": [[0.1, 0.3, 0.2, 0.4]]}}

Each record is on one line. Coordinates are relative to the size of the image and are multiplied by it; the
size comes from ``--images``, ``--image-size``, ``--image-sizes`` or the other side of an evaluation. A
predicted box is x min, x max, y min, y max, in this order. Predictions are detections.

``gs://`` and the bucket are removed from the name of an image. ``ml_use`` is the split: training, validation
or test; ``--split`` selects one. The CSV of Vertex AI is the format ``automl``.

Writing: ``-O prefix=gs://bucket/folder`` is put before the image names; detections are written as
predictions.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE, option
from odm.formats._shared.codes import WRONG_COUNT
from odm.formats._shared.json.items import (
    BadRecord,
    Item,
    Origin,
    Row,
    Rows,
    Size,
    check_sizes,
    iter_images,
    make_relative,
    plan_file,
    read_line_items,
)
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.row_shapes import to_pixels
from odm.formats._shared.json.values import Reader, choose_files, dump
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.split_names import SplitOptions, report_missing_split
from odm.formats._shared.text.records import to_numbers
from odm.issues import Log, Trusted
from odm.tables import Builder, Dataset

_KEYS = declare_keys(
    "imageGcsUri boundingBoxAnnotations displayName xMin yMin xMax yMax dataItemResourceLabels instance "
    "content mimeType prediction displayNames confidences bboxes ids aiplatform.googleapis.com/ml_use"
)
_SUFFIXES = (".jsonl", ".ndjson")
_PLACE = ("xMin", "yMin", "xMax", "yMax")
_USE = "aiplatform.googleapis.com/ml_use"
_USES = {"training": "train", "validation": "val", "test": "test"}
_LISTS = ("displayNames", "confidences", "bboxes")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class VertexaiOptions(SplitOptions):
    """Options of Vertex AI JSON lines."""

    prefix: str = option("", "prefix of the image names, as in gs://bucket/folder", side="write")


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Recognise records of images or predictions by the keys of the first one."""
    # "classificationAnnotation" and the like, with c or C, are classes of whole images.
    if preview.top == "{" and "imageGcsUri" in preview.keys and b"lassificationAnnotation" not in head:
        return SURE, "its records have an imageGcsUri, as in Vertex AI"
    if preview.top == "{" and {"instance", "prediction"} <= preview.keys.keys() and b'"bboxes"' in head:
        return SURE, "its records have an instance and a prediction with bboxes, as in Vertex AI"
    return None


def read(source: Source, builder: Builder, log: Log, options: VertexaiOptions) -> None:
    """Read the records one by one."""
    reader = Reader(source, builder, log, options, borrow_sizes=True, keys=_KEYS)  # for relative coordinates
    # The splits have our names: --split training is train.
    chosen_split, splits = _USES.get(options.split or "", options.split), set[str]()
    files = choose_files(source, looks_like, "Vertex AI JSON lines", log, _SUFFIXES)
    for file in log.track(files, "reading"):
        for record in read_line_items(reader, file):
            with contextlib.suppress(BadRecord):
                _read_record(record, chosen_split, splits)
    if splits:
        report_missing_split(chosen_split, splits, source, log)
    reader.finish(field="confidences")


def _drop_bucket(path: str) -> str:
    """The image name: ``folder/a.jpg`` for ``gs://bucket/folder/a.jpg``, other texts unchanged."""
    return path.partition("://")[2].partition("/")[2] if path.startswith("gs://") else path


def _read_record(record: Item, chosen_split: str | None, splits: set[str]) -> None:
    """Add the image of a record and its boxes, if it is in the wanted split; note its split in `splits`."""
    labels = record.object("dataItemResourceLabels", optional=True)
    use = labels.get(_USE, "")
    split = _USES.get(use, use) if isinstance(use, str) else ""
    splits.add(split)
    if chosen_split not in (None, split):
        return
    if "prediction" in record:
        instance, key = record.object("instance"), "content"
        boxes = _collect_boxes(record.object("prediction"))
    else:
        instance, key = record, "imageGcsUri"
        boxes = record.rows("boundingBoxAnnotations")
    image = instance.image(key, _drop_bucket, split=split)
    name = _drop_bucket(str(instance.get(key)))
    boxes.read_relative(image, instance, name, size=None, read=_read_box)


def _collect_boxes(prediction: Item) -> Rows:
    """The boxes of a prediction as objects. Raises BadRecord, after an issue, if lists differ in length."""
    lists = [prediction.array(key) for key in _LISTS]
    location = prediction.location / "bboxes"
    if len(set(map(len, lists))) > 1:
        expected = Trusted(f"as many {_LISTS[0]} and {_LISTS[1]} as bboxes")
        counts = Trusted(" and ".join(str(len(values)) for values in lists))
        prediction.report(WRONG_COUNT, expected=expected, found=counts)
        raise BadRecord
    keys = ("displayName", "confidence", "bbox")
    records: list[Any] = [dict(zip(keys, values, strict=True)) for values in zip(*lists, strict=True)]
    return Rows(prediction.reader, location, records, Origin(prediction.reader.builder, location.path))


def _read_box(box: Row, size: Size) -> None:
    """Add a box, relative to the `size` of its image; predictions have both x before both y."""
    category, score = box.category("displayName"), box.score("confidence")
    if "bbox" in box:
        left, right, top, bottom = box.number_list("bbox", 4, "4 numbers: x min, x max, y min, y max")
    else:
        box.record = to_numbers(box.record, *_PLACE)
        left, top, right, bottom = box.numbers(*_PLACE)
    left, top, right, bottom = to_pixels((left, top, right, bottom), size)
    box.add(category, (left, top, right, bottom), score=score)


def write(dataset: Dataset, target: Output, log: Log, options: VertexaiOptions) -> None:
    """Write a record for each image, with annotations or a prediction relative to its size."""
    name = plan_file(dataset, target, "import.jsonl", "records", log)
    if not check_sizes(dataset, log) or name is None:
        return
    prefix = options.prefix.rstrip("/") + "/" if options.prefix else ""
    use_of_split = {split: use for use, split in _USES.items()}
    ltrb_of_row = make_relative(dataset, form="ltrb")
    texts = []
    for image in iter_images(dataset):
        split = dataset.images.split[image.row]
        labels = {"dataItemResourceLabels": {_USE: use_of_split.get(split, split)}} if split else {}
        if dataset.kind == "det":
            prediction = {
                "displayNames": [box.label for box in image.boxes],
                "confidences": [box.score for box in image.boxes],
                # x min, x max, y min, y max
                "bboxes": [[ltrb_of_row(box.row)[i] for i in (0, 2, 1, 3)] for box in image.boxes],
            }
            record = {"instance": {"content": prefix + image.name}, "prediction": prediction}
        else:
            boxes = [
                {"displayName": box.label, **dict(zip(_PLACE, ltrb_of_row(box.row), strict=True))}
                for box in image.boxes
            ]
            record = {"imageGcsUri": prefix + image.name, "boundingBoxAnnotations": boxes}
        texts.append(dump({**record, **labels}) + "\n")
    target.write(name, "".join(texts).encode())


FORMAT = json_format_of(
    __name__,
    title="Vertex AI JSON lines",
    use="annotation tools",
    written_by="Vertex AI (import files and exports, batch predictions)",
    suffixes=(".jsonl",),
    looks_at=_SUFFIXES,
    single=True,
    holds=("imageGcsUri", "prediction"),
    keeps=frozenset("extension empty score split".split()),
    max_error_px=1e-6,
    needs_size=True,
)
