"""MegaDetector results: the animals, people and vehicles in the images of camera traps, in one JSON file.

Specification: "MegaDetector output format" (https://lila.science/megadetector-output-format), which Timelapse
and AddaxAI read too::

    {"info": {"format_version": "1.4", "detector": "md_v5a.0.0.pt"},
     "detection_categories": {"1": "animal", "2": "person", "3": "vehicle"},
     "images": [{"file": "site 1/a.jpg", "detections": [
         {"category": "1", "conf": 0.926, "bbox": [0.0156, 0.0417, 0.1563, 0.4167]}]}]}

``bbox`` is left, top, width and height, relative to the size of the image, and is multiplied by it; the size
is that of the record (``width``, ``height``), or comes from ``--images``, ``--image-size``, ``--image-sizes``
or the other side of an evaluation. ``conf`` is the score. If no detection has one, the file contains ground
truth.

An image with a ``failure`` is left out, with a warning. Classifications, and detections in frames of videos,
are counted but not read. The list of newer versions is read too; its boxes are edges in pixels::

    [{"file": "site 1/a.jpg", "detections": [
        {"category": "animal", "confidence": 0.926, "bbox": [10.0, 20.0, 110.0, 220.0]}]}]

Writing: the former, with enough decimals to preserve pixels within 1e-6, and without ``conf`` for ground
truth. Categories have the ids of the source, or numbers from 0.
"""

from __future__ import annotations

import contextlib

from odm.files import Output, Source
from odm.formats._contract import SURE
from odm.formats._shared.json import items
from odm.formats._shared.json.items import BadRecord, Item, Row
from odm.formats._shared.json.preview import JsonPreview, glance, json_format_of
from odm.formats._shared.json.row_shapes import to_pixels
from odm.formats._shared.json.values import Reader, choose_files, dump, join_records
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text.records import to_number
from odm.issues import Code, Log
from odm.tables import Builder, Dataset

FAILED = Code(
    "megadetector-failure",
    "warning",
    "the detector failed on {value!r}: {reason}",
    "repair the picture and run the detector again, or ignore this",
    "The detector could not read the picture, so nobody knows what it shows. The image is left out.",
)
_KEYS = declare_keys(
    "info* detection_categories{} classification_categories* classification_category_descriptions* images "
    "file detections category conf confidence bbox failure max_detection_conf width height"
)


def looks_like(preview: JsonPreview, _: bytes) -> tuple[int, str] | None:
    """Recognise results by their categories, or by the first image's keys and how values begin."""
    # The key "" stands for an outermost list, as in newer versions.
    first_image = preview.first.get("images" if preview.top == "{" else "", {})
    is_image = first_image.get("file") == '"' and {"detections", "failure"} & first_image.keys()
    if is_image or {"images", "detection_categories"} <= preview.keys.keys():
        return SURE, "its images have a file and detections, as MegaDetector's results have"
    return None


def read(source: Source, builder: Builder, log: Log, options: ImageOptions) -> None:
    """Read the file, or those of a folder."""
    reader = Reader(source, builder, log, options, borrow_sizes=True, keys=_KEYS)  # for relative coordinates
    for file in log.track(choose_files(source, looks_like, "results of MegaDetector", log), "reading"):
        with contextlib.suppress(BadRecord):
            if glance(source.head(file)).top == "{":
                results = items.read_item(reader, file)
                classes, images = results.classes("detection_categories"), results.items("images")
            else:
                classes, images = None, items.read_items(reader, file, "a list of images")
            for image in images:
                with contextlib.suppress(BadRecord):
                    _read_image(image, classes)
    reader.finish(field="conf")


def _read_image(image: Item, classes: dict[str, int] | None) -> None:
    """Add an image and its detections; `classes` are rows of classes by number, None in a list of images."""
    if reason := image.get("failure"):
        image.report(FAILED, "failure", value=image.text("file"), reason=str(reason))
        return
    size, detections = image.size("width", "height"), image.rows("detections")
    image_row = image.image("file", size=size)
    if classes is None:
        detections.read(image_row, _read_pixels)
    else:
        name = image.get("file")  # by which the size is looked up if the record has none
        detections.read_relative(image_row, image, name, size, _read_fractions, classes)


def _read_pixels(row: Row) -> None:
    """Add a detection of a list of images: a class name, and edges in pixels."""
    row.add(row.category("category"), row.ltrb("bbox"), score=row.score("confidence"))


def _read_fractions(row: Row, size: items.Size, classes: dict[str, int]) -> None:
    """Add a detection, relative to the `size` of its image in pixels; those of videos are left out."""
    if "frame_number" in row:  # of a video
        return
    row.need("category")
    class_number = to_number(str(row.get("category")))  # "1", as in the keys of detection_categories
    category = row.category_number(class_number, row.location / "category", classes)
    (left, top, right, bottom), _ = row.ltwh("bbox")
    left, top, right, bottom = to_pixels([left, top, right, bottom], size)
    row.add(category, (left, top, right, bottom), score=row.score("conf"))


def write(dataset: Dataset, target: Output, log: Log, _: ImageOptions) -> None:
    """Write the results for all images, with boxes relative to the image size."""
    name = items.plan_file(dataset, target, "megadetector.json", "detections", log)
    if not items.check_sizes(dataset, log) or name is None:
        return
    category_ids = {label: str(id_) for label, id_ in items.list_class_ids(dataset).items()}
    xywh_of_row, texts = items.make_relative(dataset), []
    for image in items.iter_images(dataset):
        detections = [
            {"category": category_ids[box.label], **box.score_field("conf"), "bbox": xywh_of_row(box.row)}
            for box in image.boxes
        ]
        texts.append(dump({"file": image.name, **image.size, "detections": detections}))
    names = dump({category_id: label for label, category_id in category_ids.items()})
    head = f'{{"info": {{"format_version": "1.4"}}, "detection_categories": {names}, "images": '
    target.write(name, f"{head}{join_records(iter(texts))}}}\n".encode())


FORMAT = json_format_of(
    __name__,
    title="MegaDetector results",
    use="results",
    written_by="MegaDetector (run_detector_batch, and the list of megadetector detect), AddaxAI",
    single=True,
    holds=("detection_categories", '"detections"', '"failure"'),
    keeps=frozenset("size extension empty unused order score".split()),
    max_error_px=1e-6,
    needs_size=True,
)
