"""ODVG JSON lines: detection and grounding data for Grounding DINO and MM Grounding DINO.

Specification: "Data preparation" of MM Grounding DINO in MMDetection
(https://github.com/open-mmlab/mmdetection) and of Open-GroundingDino::

    {"filename": "a.jpg", "height": 480, "width": 640, "detection": {"instances": [
        {"bbox": [10.0, 20.0, 110.0, 220.0], "label": 0, "category": "person"}]}}
    {"filename": "b.jpg", "height": 480, "width": 640, "grounding": {"caption": "A dog runs.", "regions": [
        {"bbox": [10.0, 20.0, 110.0, 220.0], "phrase": "A dog"}]}}

Each record is on one line. ``bbox`` is left, top, right and bottom in pixels, read and written unchanged. The
class is ``category``, or else the number ``label``; in grounding data it is ``phrase``, and a region may have
a list of boxes. ``instance`` is read as ``instances``. Captions are counted but not kept. A ``score``, which
these programs do not write, is that of a detection.

Writing: detection data, ``label`` being the id of the class in the source or its position; in a folder with
``label_map.json``, which the programs ask for.
"""

from __future__ import annotations

import contextlib

from odm.files import Output, Source
from odm.formats._contract import SURE
from odm.formats._shared.json.items import BadRecord, Item, Row, iter_images, list_class_ids, read_line_items
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.values import Reader, check_classes, choose_files, dump
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import ImageOptions
from odm.issues import Log
from odm.tables import Builder, Dataset

_KEYS = declare_keys(
    "filename width height detection grounding instances instance regions bbox label category phrase score "
    "caption"
)
_SUFFIXES = (".jsonl", ".json", ".odvg")
_EDGES = "4 numbers: left, top, right, bottom"


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Recognise records of a detection or grounding by the keys of the first one and how values begin."""
    keys = preview.keys if preview.top == "{" else preview.first.get("", {})  # of a list
    has_objects = "{" in (keys.get("detection"), keys.get("grounding"))  # one of them is an object
    if keys.get("filename") != '"' or not has_objects:
        return None
    if any(key in head for key in (b'"instances"', b'"instance"', b'"regions"')):
        return SURE, "its records have a filename and a detection or grounding, as ODVG has"
    return None


def read(source: Source, builder: Builder, log: Log, options: ImageOptions) -> None:
    """Read the records one by one."""
    reader = Reader(source, builder, log, options, sized=True, keys=_KEYS)  # the files state image sizes
    for file in log.track(choose_files(source, looks_like, "ODVG", log, _SUFFIXES), "reading"):
        for record in read_line_items(reader, file):
            with contextlib.suppress(BadRecord):
                _read_record(record)
    reader.finish()


def _read_record(record: Item) -> None:
    """Add the image of a record, with the boxes of its detection and its grounding."""
    image = record.image("filename", size=record.size("width", "height"))
    if "detection" in record:
        detection = record.object("detection")
        key = detection.first_key("instances", "instance")
        detection.rows(key).read(image, _read_instance, "category")
    if "grounding" in record:
        grounding = record.object("grounding")
        if grounding.get("caption"):
            record.reader.count("captions")
        grounding.rows("regions").read(image, _read_instance, "phrase")


def _read_instance(box: Row, key: str) -> None:
    """Add the box of an instance, or each box of a phrase; `key` holds the class name.

    Without a name, the class is named by its number, the ``label``.
    """
    box.need("bbox")
    if key in box or "label" not in box:  # without either, the missing name is reported
        category = box.category_with_id(key, "label")
    else:
        # Without a list of classes the number is the name.
        category = box.category_number(box.get("label"), box.location / "label", classes={})
    score, values = box.score("score"), box.array("bbox")
    if values and isinstance(values[0], list):  # several boxes of a phrase in the plural
        location = box.location / "bbox"
        boxes = [box.reader.check_numbers(value, 4, _EDGES, location / i) for i, value in enumerate(values)]
    else:
        boxes = [box.number_list("bbox", 4, _EDGES)]
    if None in boxes:  # of `check_numbers`, after an issue
        box.mark_bad()
    for edges in boxes:
        if edges is not None:
            left, top, right, bottom = edges
            box.add(category, (left, top, right, bottom), score=score)


def write(dataset: Dataset, target: Output, log: Log, _: ImageOptions) -> None:
    """Write a record for each image, and in a folder a map of class numbers to names."""
    # "" is the target itself, which as a single file leaves no room for the map.
    records_file, map_file = ("", None) if target.single else ("odvg.jsonl", "label_map.json")
    is_writable = check_classes(dataset, log)
    if map_file is not None:
        is_writable &= target.plan([records_file, map_file], ["the records", "the classes"], log)
    if not is_writable:
        return
    class_numbers = list_class_ids(dataset)
    texts = []
    for image in iter_images(dataset):
        instances = [
            {"bbox": box.xyxy, "label": class_numbers[box.label], "category": box.label}
            | box.score_field("score")
            for box in image.boxes
        ]
        record = {"filename": image.name, **image.size, "detection": {"instances": instances}}
        texts.append(f"{dump(record)}\n")
    target.write(records_file, "".join(texts).encode())
    if map_file is not None:
        target.write(map_file, dump({str(id_): label for label, id_ in class_numbers.items()}).encode())


FORMAT = json_format_of(
    __name__,
    title="ODVG JSON lines",
    use="training",
    written_by="MMDetection (coco2odvg.py and the like), Open-GroundingDino",
    suffixes=(".jsonl",),
    looks_at=_SUFFIXES,
    single=True,
    holds=("detection", "grounding"),
    keeps=frozenset("size extension empty score category_id".split()),
)
