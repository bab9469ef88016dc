"""MMDetection JSON: the images of a dataset with their instances, and predictions of its inferencer.

Specification: "Customize Datasets" in the documentation of MMDetection 3
(https://mmdetection.readthedocs.io) and ``BaseDataset`` of MMEngine::

    {"metainfo": {"classes": ["person", "dog"]},
     "data_list": [{"img_path": "a.jpg", "height": 480, "width": 640, "instances": [
         {"bbox": [10, 20, 110, 220], "bbox_label": 0, "ignore_flag": 0}]}]}

``bbox`` is left, top, right and bottom in pixels, read and written unchanged; ``bbox_label`` is a position in
``metainfo.classes`` (``CLASSES``). ``ignore_flag`` 1 is read as crowd, and with a ``bbox_label`` of -1 as a
region to ignore, which concerns all classes. A ``mask`` is counted but not read.

The middle format of MMDetection 2 and the predictions of the inferencer, one file per image in ``preds/``,
are read too::

    [{"filename": "a.jpg", "width": 640, "height": 480,
      "ann": {"bboxes": [[10, 20, 110, 220]], "labels": [0], "bboxes_ignore": [], "labels_ignore": []}}]

    {"labels": [0], "scores": [0.9], "bboxes": [[10, 20, 110, 220]]}

Their classes have no names: ``--classes`` gives them, else the numbers are the names, and ``ignored`` for
boxes to be ignored that have none, which are regions to ignore. Predictions are of the image that their file
is named after. Other detections have a ``bbox_score`` in every instance.

Pickled files (``.pkl``) are never read, because they can run programs.

Writing: the layout of MMDetection 3.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE
from odm.formats._shared.class_lists import add_list, class_list_option, read_class_list
from odm.formats._shared.codes import WRONG_COUNT
from odm.formats._shared.gather import add_extension
from odm.formats._shared.json.items import (
    BadRecord,
    Item,
    Origin,
    Row,
    Rows,
    iter_images,
    plan_file,
    read_items,
)
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.values import Reader, choose_files, dump, join_records
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import ImageOptions
from odm.issues import Log, Trusted
from odm.tables import Builder, Dataset, Flag, region_classes

_KEYS = declare_keys(
    "metainfo dataset_type task_name classes CLASSES palette data_list img_path file_name img_id width "
    "height instances bbox bbox_label ignore_flag bbox_score filename ann bboxes labels scores "
    "bboxes_ignore labels_ignore"
)
IGNORED = "ignored"
_Labels = dict[str, int]
"""Rows of classes by number, as text; empty where the numbers are the names of the classes."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MmdetOptions(ImageOptions):
    """Options of MMDetection JSON."""

    classes: str | None = class_list_option()


def looks_like(preview: JsonPreview, _: bytes) -> tuple[int, str] | None:
    """Recognise MMDetection 3, its predictions, and MMDetection 2 by keys and how their values begin."""
    first_image = preview.first.get("", {})  # of an outermost list
    if preview.top == "{" and preview.keys.get("data_list") == "[":
        return SURE, "it has a data_list, as in MMDetection"
    if preview.top == "{" and {"labels", "scores", "bboxes"} <= preview.keys.keys():
        return SURE, "it has labels, scores and bboxes, as predictions of MMDetection have"
    if preview.top == "[" and first_image.get("filename") == '"' and first_image.get("ann") == "{":
        return SURE, "its records have a filename and ann, as in MMDetection 2"
    return None


def read(source: Source, builder: Builder, log: Log, options: MmdetOptions) -> None:
    """Read the file, or those of a folder, in any of the three layouts."""
    reader = Reader(source, builder, log, options, sized=False, keys=_KEYS)  # predictions have no sizes
    names, path = read_class_list(options.classes, source, list_of_source="", log=log)
    rows = add_list(names, builder, log, path) if names else []
    listed_classes = {str(class_number): row for class_number, row in enumerate(rows)}
    for file in log.track(choose_files(source, looks_like, "MMDetection JSON", log), "reading"):
        for record in read_items(reader, file, "a list of images", may_be_object=True):
            with contextlib.suppress(BadRecord):
                if "ann" in record:
                    _read_old(record, listed_classes)
                elif "data_list" in record or "metainfo" in record:
                    _read_list(record, listed_classes)
                else:
                    _read_predictions(record, file, listed_classes)
    reader.finish(field="bbox_score")


def _read_list(record: Item, listed_classes: _Labels) -> None:
    """Add the images of an annotation file; its own classes are used if no list of them was given."""
    metainfo = record.object("metainfo", optional=True)
    labels = listed_classes or metainfo.classes(metainfo.first_key("classes", "CLASSES"))
    record.need("data_list")
    for image in record.items("data_list"):
        with contextlib.suppress(BadRecord):
            boxes = image.rows("instances")
            row = image.image(image.first_key("img_path", "file_name"), size=image.size("width", "height"))
            boxes.read(row, _read_instance, labels)


def _read_instance(box: Row, labels: _Labels) -> None:
    """Add a box; the class number -1 of an ignored box means none."""
    box.need("bbox", "bbox_label")
    flags = int(Flag.CROWD) if box.flag("ignore_flag") else 0
    has_class = box.get("bbox_label") not in (None, -1)
    category, flags = _read_category(box, labels, flags, has_class=has_class)
    corners, score = box.ltrb("bbox"), box.score("bbox_score")
    box.add(category, corners, score=score, flags=flags)


def _read_category(box: Row, labels: _Labels, flags: int, *, has_class: bool) -> tuple[int, int]:
    """The category row and the flags of a box; `flags` are those of a crowd box if it is ignored, else 0.

    An ignored box without a class is a region; an ignored box with one stays a crowd box. Any other box
    without a class is reported.
    """
    location = box.location / "bbox_label"
    if not has_class and flags:
        return box.category_named(IGNORED, location), int(Flag.REGION)
    return box.category_number(box.get("bbox_label"), location, labels), flags


def _read_old(record: Item, labels: _Labels) -> None:
    """Add an image of MMDetection 2 with its boxes, which stand in arrays."""
    image = record.image("filename", size=record.size("width", "height"))
    ann = record.object("ann")
    _read_arrays(ann, image, labels, "bboxes", "labels")
    _read_arrays(ann, image, labels, "bboxes_ignore", "labels_ignore", flags=int(Flag.CROWD))


def _read_predictions(record: Item, file: str, labels: _Labels) -> None:
    """Add the detections of a file for one image, which is named after the file."""
    reader = record.reader
    key = reader.source.relative(file).removeprefix("preds/").removesuffix(".json")
    image = record.image_named(add_extension(key, reader.pictures.find(key, path=record.location.path)))
    record.need("bboxes", "labels", "scores")
    _read_arrays(record, image, labels, "bboxes", "labels")


def _read_arrays(
    item: Item, image: int | None, labels: _Labels, boxes_key: str, labels_key: str, flags: int = 0
) -> None:
    """Add boxes whose edges, class numbers and scores stand in lists; reported if these differ in length.

    Boxes with `flags` may lack classes.
    """
    boxes, numbers = item.array(boxes_key), item.array(labels_key)
    scores = item.array("scores") if boxes_key == "bboxes" else []
    records: list[dict[str, Any]] = [{"bbox": box} for box in boxes]
    for field, values in (("bbox_label", numbers), ("bbox_score", scores)):
        may_lack = field == "bbox_score" or flags != 0  # scores, and classes of ignored boxes, are optional
        if len(values) != len(boxes) and (values or not may_lack):
            key = labels_key if field == "bbox_label" else "scores"
            expected = Trusted(f"as many {key} as {boxes_key} ({len(boxes)})")
            item.report(WRONG_COUNT, boxes_key, expected=expected, found=len(values))
            item.reader.builder.skipped += len(boxes)
            return
        for box, value in zip(records, values, strict=False):  # `values` may be empty
            box[field] = value
    location = item.location / boxes_key
    origin = Origin(item.reader.builder, location.path, location.pointer)
    Rows(item.reader, location, records, origin).read(image, _read_array_box, labels, flags)


def _read_array_box(box: Row, labels: _Labels, flags: int) -> None:
    """Add a box that `_read_arrays` has put together."""
    has_class = box.get("bbox_label") is not None
    category, flags = _read_category(box, labels, flags, has_class=has_class)
    box.add(category, box.ltrb("bbox"), score=box.score("bbox_score"), flags=flags)


def write(dataset: Dataset, target: Output, log: Log, _: MmdetOptions) -> None:
    """Write the images of a dataset in the layout of MMDetection 3."""
    name = plan_file(dataset, target, "annotations.json", "annotations", log)
    if name is None:
        return
    # Classes that have only regions are no classes here, and are not numbered.
    object_classes = itertools.compress(dataset.categories.name, ~region_classes(dataset))
    class_numbers = {label: class_number for class_number, label in enumerate(object_classes)}
    texts = []
    for image in iter_images(dataset):
        instances = [
            {"bbox": box.xyxy, "bbox_label": -1 if box.flags & Flag.REGION else class_numbers[box.label]}
            | {"ignore_flag": int(bool(box.flags & (Flag.CROWD | Flag.REGION)))}
            | box.score_field("bbox_score")
            for box in image.boxes
        ]
        record = {"img_path": image.name, "img_id": image.row, **image.size}
        texts.append(dump({**record, "instances": instances}))
    metainfo = {"dataset_type": "CocoDataset", "task_name": "det", "classes": list(class_numbers)}
    text = f'{{"metainfo": {dump(metainfo)},\n"data_list": {join_records(iter(texts))}}}\n'
    target.write(name, text.encode())


FORMAT = json_format_of(
    __name__,
    title="MMDetection JSON",
    use="training",
    written_by="MMDetection 3 (data_list, predictions of the inferencer), MMDetection 2 (middle format)",
    single=True,
    holds=('"data_list"', '"scores"', '"ann"'),
    keeps=frozenset("size extension empty unused order score crowd region".split()),
    exclusive_region=True,
)
