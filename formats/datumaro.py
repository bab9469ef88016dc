"""Datumaro JSON: the format of Datumaro and OpenVINO's training tools, which CVAT exports too.

Reference: "Datumaro format" in the documentation of Datumaro (https://github.com/open-edge-platform/datumaro)
and its exporter. A dataset has a file ``annotations/SUBSET.json`` for each subset::

    {"dm_format_version": "1.0", "media_type": 2, "infos": {},
     "categories": {"label": {"labels": [{"name": "person", "parent": "", "attributes": []}]}},
     "items": [{"id": "a", "image": {"path": "a.jpg", "size": [480, 640]}, "annotations": [
         {"id": 1, "type": "bbox", "label_id": 0, "bbox": [10.0, 20.0, 100.0, 200.0], "group": 0,
          "z_order": 0, "attributes": {"occluded": false}}]}]}

``bbox`` is left, top, width and height in pixels, read and written unchanged; ``size`` is height and width.
Polygons and ellipses are outlines and ``rotated_bbox`` (centre, size and degrees) is an oriented box; where
only boxes are needed, the box around them is read, with a warning. So are masks, and ``points`` and skeletons
with an area that have no ``bbox`` of their class and group; other points, lines, captions, labels of whole
images and the like are counted but not read. A ``bbox`` with CVAT's attributes ``occluded`` and a
``rotation`` that is not 0 is an oriented box, turned clockwise by these degrees about its centre (``-O
rotation=ignore`` turns this off).

Polygons and masks of one class and ``group`` (not 0) are the parts of one object, and a ``bbox`` of that
group around them is its box, with a note; ``-O groups=ignore`` reads them one by one.

Of the attributes, ``difficult``, ``crowd`` (``is_crowd``), ``truncated``, ``occluded``, ``group_of``,
``depiction`` and ``inside`` are flags and ``score`` is the score of a detection; others are counted but not
kept. If every object has a score, the file contains detections. If only some have one, it is read as ground
truth without the scores, with a warning.

CVAT writes ``info`` and no ``dm_format_version``, panlabel neither; both are read.

The image is named by ``id``, with the extension of ``path``. The name of the file is the split, ``default``
means none; ``--split`` selects one.

Writing: ``annotations/SUBSET.json`` for each split.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE
from odm.formats._shared.codes import UNKNOWN_SHAPE
from odm.formats._shared.gather import NAN, Corners, add_extension
from odm.formats._shared.json.items import BadRecord, Box, Item, Row, read_item
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.row_shapes import have_area
from odm.formats._shared.json.values import (
    FLAG_NAMES,
    Reader,
    check_classes,
    choose_files,
    dump,
    join_records,
)
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.shapes.box_shapes import rotate_box, split_rotation
from odm.formats._shared.shapes.groups import GroupSplitOptions
from odm.formats._shared.shapes.pixel_masks import BadMask, check_mask
from odm.formats._shared.shapes.rotation import RotationOptions
from odm.formats._shared.shapes.written_groups import iter_group_images
from odm.formats._shared.split_names import select_split
from odm.issues import Log
from odm.names import stem
from odm.tables import Builder, Dataset, Flag

_KEYS = declare_keys(
    "dm_format_version media_type infos* info* point_cloud* categories label labels name parent attributes* "
    "label_groups* points mask* rle counts elements items id annotations image media attr* path size type "
    "group label_id z_order bbox visibility object_id"
)
_FLAGS = {**FLAG_NAMES, "is_crowd": Flag.CROWD}
_OTHER = frozenset({"polyline", "label", "caption", "cuboid_3d", "super_resolution"})


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DatumaroOptions(GroupSplitOptions, RotationOptions):
    """Options of Datumaro JSON."""


def looks_like(preview: JsonPreview, _: bytes) -> tuple[int, str] | None:
    """Recognise a Datumaro dataset by its version, or by its items and categories and how these begin."""
    if preview.top == "{" and (
        "dm_format_version" in preview.keys
        or (preview.keys.get("items") == "[" and preview.keys.get("categories") == "{")
    ):
        return SURE, "it has the keys of a dataset of Datumaro"
    return None


def _split_of(path: str) -> str:
    """The split that the name of a file states, such as ``train`` for ``annotations/train.json``."""
    name = path.replace("\\", "/").rpartition("/")[2].rpartition(".")[0]
    return "" if name == "default" else name


def read(source: Source, builder: Builder, log: Log, options: DatumaroOptions) -> None:
    """Read the file, or those of a folder."""
    reader = Reader(source, builder, log, options, sized=True, keys=_KEYS)  # the files state image sizes
    files = choose_files(source, looks_like, "Datumaro JSON", log)
    # A single file has the name "" in its source.
    files = select_split(files, lambda file: _split_of(file or source.path), options.split, source, log)
    for file in log.track(files, "reading"):
        with contextlib.suppress(BadRecord):
            document = read_item(reader, file)
            categories = document.object("categories", optional=True)
            classes: dict[str, int] = {}
            for i, label in enumerate(list(categories.object("label", optional=True).items("labels"))):
                row = reader.category(label.get("name"), label.location / "name", listed=True)
                classes[str(i)] = -1 if row is None else row
            document.need("items")
            for item in document.items("items"):
                with contextlib.suppress(BadRecord):
                    _read_item(item, _split_of(file or source.path), classes)
    reader.finish()


def _read_item(item: Item, split: str, classes: dict[str, int]) -> None:
    """Add an image and its annotations; `classes` are rows of classes by label id, -1 for unusable ones."""
    rows = item.rows("annotations")
    groups_with_box = {  # label and group of boxes, to which points of the same group belong
        (str(annotation.get("label_id")), str(annotation["group"]))
        for annotation in item.array("annotations")
        if isinstance(annotation, dict) and annotation.get("type") == "bbox" and annotation.get("group")
    }
    media = item.object(item.first_key("image", "media"), optional=True)
    if len(height_width := media.array("size")) == 2:  # for `media.size`, which reads two keys
        media.record.update(height=height_width[0], width=height_width[1])
    size = media.size("width", "height")
    name, path = item.get("id"), media.get("path")
    if isinstance(name, str) and isinstance(path, str):  # ids lack the extension, which the path has
        file_name = path.replace("\\", "/").rpartition("/")[2]
        extension = file_name[len(stem(file_name)) :]
        name += "" if name.lower().endswith(extension.lower()) else extension
    picture, pictures = None, item.reader.pictures
    if isinstance(name, str) and pictures:  # which lie in images/<subset>/, or in images/
        picture = pictures.find_exact(name, f"images/{split}", "images")
        picture = picture or pictures.find(f"images/{split}/{name}")  # if `name` has no extension
        name = add_extension(name, picture)
    image = item.image_named(name, field="id", size=size, split=split, picture=picture)
    rows.read(image, _read_annotation, classes, groups_with_box)


def _read_annotation(shape: Row, classes: dict[str, int], groups_with_box: set[tuple[str, str]]) -> None:
    """Add the object of an annotation, or count it if its kind is not read.

    Keypoints are an object of their own unless a box has their label and group, in `groups_with_box`.
    """
    kind = shape.text("type")
    points: list[Any] = []  # keypoints
    if kind in ("points", "skeleton"):
        points = _read_keypoints(shape, kind)
    is_boxed = (str(shape.get("label_id")), str(shape.get("group"))) in groups_with_box
    if kind in _OTHER or (kind in ("points", "skeleton") and (is_boxed or not have_area(points))):
        shape.reader.count(f"{kind} annotations")
        return
    shape.need("label_id")
    category = shape.category_number(shape.get("label_id"), shape.location / "label_id", classes)
    attributes = shape.object("attributes", optional=True)
    if points:
        corners, wh = shape.set_only_keypoints(points), None
    else:
        corners, wh = _read_shape(shape, kind, attributes)  # wh is None for all but upright boxes
    score = attributes.score("score")
    flag_attributes = {key: value for key, value in attributes.record.items() if key != "score"}
    # In a group, polygons and masks are parts of an object, and a bbox is its box; None for other shapes.
    is_turned = kind == "rotated_bbox" or (kind == "bbox" and wh is None)
    is_part = None if is_turned or points else kind != "bbox"
    if not shape.is_bad:
        shape.add(
            category,
            corners,
            wh=wh,
            score=score,
            flags=shape.reader.flags(flag_attributes, _FLAGS, unsaid=(False,)),  # false is not counted
            group=shape.group("group"),
            is_part=is_part,
        )


def _read_shape(shape: Row, kind: str, attributes: Item) -> tuple[Corners, tuple[float, float] | None]:
    """Give an annotation its shape, if it is no upright box.

    Returns the corners of the box around it, and the width and height of an upright box. A rotation in the
    attributes is removed from them. Raises BadRecord, after an issue, for an unknown kind.
    """
    if kind == "bbox":
        corners, wh = shape.ltwh("bbox")
        if turn := shape.reader.parse_turn(attributes.record):  # radians
            del attributes.record["rotation"]
            return shape.draw_oriented(rotate_box(*corners[:2], *wh, turn)), None
        return corners, wh
    if kind == "polygon":
        points = _read_points(shape) or [(NAN, NAN)]  # without points the box is NaN, which is reported
        return shape.draw_around(points, "polygons"), None
    if kind == "ellipse":
        left, top, right, bottom = shape.ltrb("points")
        x, y, rx, ry = (left + right) / 2, (top + bottom) / 2, (right - left) / 2, (bottom - top) / 2
        return shape.draw_ellipse(x, y, rx, ry), None
    if kind == "mask":
        return _read_mask(shape), None
    if kind == "rotated_bbox":
        x, y, width, height, angle = shape.number_list("bbox", 5, "5 numbers: centre, width, height, degrees")
        left, top = x - width / 2, y - height / 2
        return shape.draw_oriented(rotate_box(left, top, width, height, math.radians(angle))), None
    shape.report(UNKNOWN_SHAPE, "type", value=kind, shapes="bbox or polygon")
    raise BadRecord


def _read_points(shape: Item) -> list[tuple[float, float]]:
    """The points of a shape. Raises BadRecord, after an issue, if they are not numbers x, y, x, y, ..."""
    values = shape.any_numbers("points")
    if len(values) % 2:
        shape.report_wrong("points", "x and y of each point")
        raise BadRecord
    return list(zip(values[0::2], values[1::2], strict=True))


def _read_keypoints(shape: Item, kind: str) -> list[Any]:
    """The (x, y, visibility 0..2) of keypoints, or of all the elements of a skeleton, in pixels."""
    if kind == "skeleton":
        return [point for element in shape.items("elements") for point in _read_keypoints(element, "points")]
    pairs, visibilities = _read_points(shape), shape.array("visibility")
    visibilities = visibilities if len(visibilities) == len(pairs) else [2] * len(pairs)
    return [(x, y, v if v in (0, 1) else 2) for (x, y), v in zip(pairs, visibilities, strict=True)]


def _read_mask(shape: Row) -> Corners:
    """Give a shape its mask, and return the corners around. Raises BadRecord, after an issue, without one."""
    rle = shape.object("rle")
    size = rle.array("size")
    try:
        if len(size) != 2 or any(type(n) is not int or n < 1 for n in size):
            raise BadMask("a mask with the size of its image")
        text, (left, top, width, height) = check_mask(rle.get("counts"), size, width=size[1], height=size[0])
    except BadMask as e:
        rle.report_wrong("counts", str(e))
        raise BadRecord from None
    shape.draw("mask", text, counted_as="masks")
    return left, top, left + width, top + height


def _format_shape(box: Box) -> dict[str, Any]:
    """The fields of an annotation that hold its kind and its numbers: a polygon, oriented box or box."""
    if box.outlines:  # one: `iter_group_images` makes a box of each
        return {"type": "polygon", "points": [value for point in box.outlines[0] for value in point]}
    if box.corners:
        (left, top, width, height), degrees = split_rotation(box.corners)
        cxcywh_angle = [left + width / 2, top + height / 2, width, height, degrees]
        return {"type": "rotated_bbox", "bbox": cxcywh_angle}
    return {"type": "bbox", "bbox": [*box.xyxy[:2], *box.wh]}


def write(dataset: Dataset, target: Output, log: Log, _: DatumaroOptions) -> None:
    """Write a dataset for each split, with its images and annotations."""
    items_of_split: dict[str, list[str]] = {s: [] for s in dict.fromkeys(dataset.images.split) or ("",)}
    files = {split: f"annotations/{split or 'default'}.json" for split in items_of_split}
    is_writable = check_classes(dataset, log)
    is_writable &= target.plan(list(files.values()), [f"the split {split}" for split in files], log)
    if not is_writable:
        return
    label_ids = {label: label_id for label_id, label in enumerate(dataset.categories.name)}
    flag_names = sorted({*FLAG_NAMES} - {"crowd"})
    for image in iter_group_images(dataset, group_min=1):  # group 0 is none
        annotations = []
        for box in image.boxes:
            attributes = {**dict.fromkeys(box.list_flags(flag_names), True), **box.score_field("score")}
            attributes |= {"is_crowd": True} if box.flags & Flag.CROWD else {}
            common_fields = {"id": box.row + 1, "attributes": attributes, "group": box.group}
            label = {"label_id": label_ids[box.label], "z_order": 0}
            annotations.append({**common_fields, **label, **_format_shape(box)})
        size = {"size": [image.height, image.width]} if image.size else {}
        item = {"id": stem(image.name), "annotations": annotations, "image": {"path": image.name, **size}}
        items_of_split[dataset.images.split[image.row]].append(dump(item))
    labels = [{"name": label, "parent": "", "attributes": []} for label in label_ids]
    categories = {"label": {"labels": labels, "label_groups": [], "attributes": []}}
    head = dump({"dm_format_version": "1.0", "media_type": 2, "infos": {}, "categories": categories})
    for split, items in items_of_split.items():  # the items go before the brace that ends the head
        target.write(files[split], f'{head[:-1]},\n"items": {join_records(iter(items))}}}\n'.encode())


FORMAT = json_format_of(
    __name__,
    title="Datumaro JSON",
    use="training",
    written_by="Datumaro, CVAT (Datumaro 1.0), panlabel, OpenVINO Training Extensions and Geti",
    holds=("dm_format_version", '"items"', "categories"),
    keeps=frozenset({*"size extension empty unused order score split wh".split(), *FLAG_NAMES})
    | {"polygon", "parts", "group", "oriented", "rectangle"},
    shape_is_box=True,
)
