"""Ultralytics NDJSON: a dataset of the Ultralytics Platform, one JSON record per line.

Specification: "Ultralytics NDJSON format" in the documentation of Ultralytics
(https://docs.ultralytics.com/datasets/detect/#ultralytics-ndjson-format) and its own reader
(``convert_ndjson_to_yolo``)::

    {"type": "dataset", "task": "detect", "name": "Streets", "class_names": {"0": "person"}}
    {"type": "image", "file": "a.jpg", "width": 640, "height": 480, "split": "train",
     "annotations": {"boxes": [[0, 0.1, 0.25, 0.15, 0.4]]}}

Each record is on one line, and the first describes the dataset. A box is the number of its class, the centre
and the size, relative to the size of the image; they are multiplied by ``width`` and ``height``. If these are
missing, the size comes from ``--images``, ``--image-size`` or ``--image-sizes``. ``segments`` and ``obb``
have the class and the corners of an outline or oriented box; where only boxes are needed, the box around them
is read, with a warning. A ``pose`` has a box and keypoints, each x, y and perhaps its visibility. Classes of
whole images are counted but not read.

Detections have a confidence as their last number, as in YOLO text; Ultralytics does not write them. If
all boxes have one, the file contains detections.

``split`` is train, val or test; ``--split`` selects one. ``url`` is not followed.

Writing: a record for the dataset and one per image. Ultralytics trains only on images with a split; a note
says if there are others.
"""

from __future__ import annotations

import contextlib

from odm.files import Output, Source
from odm.formats._contract import SURE
from odm.formats._shared.codes import WRONG_COUNT
from odm.formats._shared.gather import NAN
from odm.formats._shared.json.items import (
    BadRecord,
    Item,
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
from odm.formats._shared.json.row_shapes import divide_points, to_pixels
from odm.formats._shared.json.values import Reader, choose_files, dump
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.split_names import SplitOptions, normalise_split, report_missing_split
from odm.issues import Log, Trusted, plural, spell
from odm.tables import Builder, Dataset, ShapeKind

_KEYS = declare_keys(
    "type task name description url version class_names* file width height split annotations boxes "
    "segments obb pose"
)
_SUFFIXES = (".ndjson", ".jsonl")
_KINDS = ("boxes", "segments", "obb", "pose")


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Recognise the record of a dataset or image by the keys of the first one and how values begin."""
    keys = preview.keys
    if preview.top != "{" or keys.get("type") != '"':
        return None
    if ("task" in keys or "class_names" in keys) and b'"dataset"' in head:
        return SURE, "its first record describes a dataset, as in Ultralytics NDJSON"
    if keys.get("file") == '"' and keys.get("annotations") == "{":
        return SURE, "its records have a file and annotations, as in Ultralytics NDJSON"
    return None


def read(source: Source, builder: Builder, log: Log, options: SplitOptions) -> None:
    """Read the records one by one; that of the dataset, the first of a file, has the class names."""
    reader = Reader(source, builder, log, options, sized=True, keys=_KEYS)  # the files state image sizes
    chosen_split, splits = normalise_split(options.split), set[str]()
    for file in log.track(choose_files(source, looks_like, "Ultralytics NDJSON", log, _SUFFIXES), "reading"):
        classes: dict[str, int] = {}
        for record in read_line_items(reader, file):
            with contextlib.suppress(BadRecord):
                if record.get("type") == "dataset":
                    classes = record.classes("class_names")
                else:
                    _read_image(record, classes, chosen_split, splits)
    if splits:
        report_missing_split(chosen_split, splits, source, log)
    reader.finish(field="confidence")


def _read_image(record: Item, classes: dict[str, int], chosen_split: str | None, splits: set[str]) -> None:
    """Add an image and its labels, if it is in the wanted split; its split is added to `splits`."""
    split = record.text("split") if record.get("split") else ""
    splits.add(split)
    if chosen_split not in (None, split):
        return
    annotations = record.object("annotations", optional=True)
    labels = {}
    for kind in _KINDS:  # a label is a list of numbers, and a row an object with it
        objects = [{kind: label} for label in annotations.array(kind)]
        labels[kind] = Rows(record.reader, annotations.location / kind, objects, record.origin)
    size = record.size("width", "height")
    image = record.image("file", size=size, split=split)
    for kind, rows in labels.items():
        rows.read_relative(image, record, record.get("file"), size, _read_label, kind, classes)


def _read_label(label: Row, size: Size, kind: str, classes: dict[str, int]) -> None:
    """Add a box or shape from a list: class number, relative coordinates, and at the end a score if any."""
    numbers = label.any_numbers(kind)
    class_number, *values = numbers or [NAN]  # an empty list has the wrong count below
    n_values, score = len(values), NAN  # without the class
    if kind in ("segments", "obb"):
        has_right_count, expected = n_values >= 6, "a class and at least three points"
    else:
        # x y width height, a score or not; or those and keypoints.
        has_right_count = n_values in (4, 5) or (kind == "pose" and n_values > 5)
        expected = "a class, a centre and a size"
    if not has_right_count:
        label.report(WRONG_COUNT, expected=Trusted(expected), found=len(numbers))
        raise BadRecord
    if kind in ("segments", "obb"):
        score = values.pop() if n_values % 2 else NAN  # after an even number of coordinates
        values = to_pixels(values, size)
        points = list(zip(values[0::2], values[1::2], strict=True))
        corners = label.draw_around(points, "polygons" if kind == "segments" else "rotated boxes")
    else:
        x, y, width, height = to_pixels(values[:4], size)
        corners = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        score = values[4] if n_values == 5 else NAN
        if n_values > 5 and label.wants:
            label.set_keypoints(_parse_key_points(values[4:], size))
        elif n_values > 5:
            label.reader.count("keypoints")
    label.add(label.category_number(class_number, label.location / kind, classes), corners, score=score)


def _parse_key_points(values: list[float], size: Size) -> list[list[float]]:
    """The [x, y, visibility 0..2] of keypoints, in pixels, from numbers relative to the image size.

    There are three numbers a point if that fits, else two: then all points but (0, 0) are visible.
    """
    n_per_point = 2 if len(values) % 3 else 3
    points = []
    for i in range(0, len(values) - n_per_point + 1, n_per_point):
        x, y = to_pixels(values[i : i + 2], size)
        default = 2.0 if x or y else 0.0
        points.append([x, y, values[i + 2] if n_per_point == 3 else default])
    return points


def write(dataset: Dataset, target: Output, log: Log, _: SplitOptions) -> None:
    """Write the record of the dataset, and one for each image with boxes relative to its size."""
    name = plan_file(dataset, target, "dataset.ndjson", "records", log)
    if not check_sizes(dataset, log) or name is None:
        return
    classes = dataset.categories.name
    class_numbers = {label: class_number for class_number, label in enumerate(classes)}
    cxcywh_of_row = make_relative(dataset, form="cxcywh")
    shapes = dataset.boxes.shapes
    kinds = set() if shapes is None else set(shapes.kind.tolist())
    tasks = {ShapeKind.POLYGONS: "segment", ShapeKind.ORIENTED: "obb"}
    task = next((task for kind, task in tasks.items() if kind in kinds), "detect")
    names = {str(class_number): label for label, class_number in class_numbers.items()}
    texts = [dump({"type": "dataset", "task": task, "name": "odm", "class_names": names})]
    for image in iter_images(dataset):
        split = normalise_split(dataset.images.split[image.row])
        image_annotations: dict[str, list[list[float | int]]] = {"boxes": []}
        for box in image.boxes:
            kind, ring = ("segments", box.outlines[0]) if box.outlines else ("obb", box.corners)
            points = divide_points(ring, (image.width, image.height))
            shape_xy = [value for point in points for value in point]  # [] for an upright box
            numbers = [*(shape_xy or cxcywh_of_row(box.row)), *box.score_field("confidence").values()]
            row = [class_numbers[box.label], *numbers]
            image_annotations.setdefault(kind if shape_xy else "boxes", []).append(row)
        record = {"type": "image", "file": image.name, **image.size}
        record |= {"split": split} if split else {}
        texts.append(dump({**record, "annotations": image_annotations}))
    if n := sum(not split for split in dataset.images.split):
        log.note(
            f"{plural(n, 'image')} without a split, on which Ultralytics does not train "
            f"({spell('split_into')})"
        )
    target.write(name, "".join(f"{text}\n" for text in texts).encode())


FORMAT = json_format_of(
    __name__,
    title="Ultralytics NDJSON",
    use="training",
    written_by="Ultralytics Platform and HUB exports (detect, segment, obb and pose)",
    suffixes=(".ndjson",),
    looks_at=_SUFFIXES,
    single=True,
    holds=('"dataset"', '"file"'),
    keeps=frozenset("size extension empty unused order score split polygon oriented".split()),
    split_names=frozenset(("train", "val", "test", "valid", "validation")),
    shape_is_box=True,
    max_error_px=1e-6,
    needs_size=True,
)
