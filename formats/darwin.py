"""V7 Darwin JSON: one file per image.

Specification: "Darwin JSON" in the documentation of V7 (https://docs.v7labs.com/reference/darwin-json)::

    {"version": "2.0",
     "item": {"name": "a.jpg", "path": "/street",
              "slots": [{"type": "image", "slot_name": "0", "width": 640, "height": 480,
                         "source_files": [{"file_name": "a.jpg"}]}]},
     "annotations": [{"name": "person", "slot_names": ["0"],
                      "bounding_box": {"x": 10, "y": 20, "w": 100, "h": 200}}]}

The older version 1.0 has ``"image": {"filename": "a.jpg", "path": "/street", "width": 640, "height": 480}``
instead of ``item``; panlabel writes ``slots`` beside ``item``. ``x`` and ``y`` are the top left corner, in
pixels, read and written unchanged.

Polygons and ellipses are outlines, the masks of a raster layer are masks, and the nodes of a skeleton are
keypoints. Where only boxes are needed, shapes with a ``bounding_box`` are counted and read as this box, with
a warning. A shape without one, as in old files, or with one of nulls, as in those of darwin-py, is read as
its own bounding box. Tags, lines, single keypoints and the like have none and are counted but not read. The
image name is the item's path and name. Of an item with several slots, only the first is read; annotations in
other slots are counted.

An item whose annotations have ``frames`` is a video. Its frame 0 is the image ``NAME/0000000.png``, as
darwin-py calls it, and each annotation is a track. The boxes of an annotation that is ``interpolated`` are
interpolated in frames that it leaves out.

Detections have the ``confidence`` of their ``inference``. If every box has one, the files contain detections.
If only some have one, they are read as ground truth without the confidences, with a warning. ``--kind``
overrides this.

A file may hold a list of such objects. In a folder, the files of this format are read; a folder called
``train``, ``val``, ``test`` or similar gives the split. Writing: ``NAME.json`` for each image, in version
2.0.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from odm.files import Output, Source
from odm.formats._contract import SURE
from odm.formats._shared.gather import Corners
from odm.formats._shared.json.items import BadRecord, Item, Row, Rows, Size, iter_images, read_items
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.values import (
    NUMBER_TYPES,
    Reader,
    check_classes,
    choose_files,
    dump,
    find_bounds,
)
from odm.formats._shared.json.videos import Track, fill_frames, parse_frame, read_video
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.shapes.box_shapes import join_rings
from odm.formats._shared.shapes.pixel_masks import MOST, BadMask, find_edges
from odm.formats._shared.split_names import SplitOptions, find_split, select_split
from odm.issues import Log
from odm.tables import Builder, Dataset

_KEYS = declare_keys(
    "version schema_ref dataset item image annotations name path source_info item_id slug team workview_url "
    "workview_link slots type slot_name width height thumbnail_url source_files file_name url seq filename "
    "original_filename storage_key id properties* slot_names bounding_box h w x y inference confidence "
    "model polygon complex_polygon paths ellipse center radius angle skeleton nodes occluded instance_id "
    "value tag* line* keypoint* frames* mask* raster_layer* annotators* reviewers* ranges interpolated "
    "interpolate_algorithm frame_count fps frame_urls* frame_manifest* global_sub_types* keyframe"
)
_PLACE = ("x", "y", "w", "h")
Layers = dict[str, tuple[Item, Any]]
"""By the id of an annotation that is a mask: its raster layer, and the value that its pixels have there."""
_ANNOTATION = frozenset(
    {
        *("id", "name", "slot_names", "bounding_box", "polygon", "complex_polygon", "inference"),
        *("annotators", "reviewers", "ranges", "keyframe"),
    }
)
_OF_VIDEO = frozenset({"frames", "ranges", "interpolated", "interpolate_algorithm", "global_sub_types"})


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Recognise Darwin 2.0 by an item with slots, 1.0 by an image with a file name, and how values begin."""
    keys = preview.keys if preview.top == "{" else preview.first.get("", {})  # "": of the outermost list
    # The annotations may follow behind the first bytes.
    if preview.top not in ("{", "[") or keys.get("annotations", "[") != "[":
        return None
    if keys.get("item") == "{" and b'"slots"' in head:
        return SURE, "it has an item with slots, as V7 Darwin has"
    is_image = keys.get("image") == "{" and "annotations" in keys
    if is_image and (b'"filename"' in head or b'"original_filename"' in head):
        return SURE, "it has the annotations of one image, as Darwin 1.0 has"
    return None


def read(source: Source, builder: Builder, log: Log, options: SplitOptions) -> None:
    """Read the files one by one, each with one record or a list of them."""
    folders = (source.full("images"),) if source.is_dir else ()
    reader = Reader(source, builder, log, options, folders, sized=True, keys=_KEYS)  # files state sizes
    files = choose_files(source, looks_like, "V7 Darwin JSON", log)
    files = select_split(files, find_split, options.split, source, log)
    for file in log.track(files, "reading"):
        for record in read_items(reader, file, "an object, or a list of them", may_be_object=True):
            with contextlib.suppress(BadRecord):
                _read_file(record, find_split(file))
    reader.finish(field="inference")


def _read_file(record: Item, split: str) -> None:
    """Add the image of a record with its annotations, or the frames of a video.

    Of an item with several slots the first is read. Nothing is added after an issue in the record itself.
    """
    errors_before = record.reader.log.errors
    boxes = record.rows("annotations")
    item = record.object(record.first_key("item", "image"))
    # panlabel writes slots beside item.
    slots_owner = record if "slots" not in item and "slots" in record else item
    # What has the size: the first slot, or in version 1.0 the image itself; None for an item without slots.
    size_owner = next(slots_owner.items("slots"), None) if "item" in record else item
    size = None if size_owner is None else size_owner.size("width", "height")
    # The item itself is no slot: then annotations of all slots are read.
    slot_name = size_owner.get("slot_name") if size_owner is not item and size_owner is not None else None
    # The name, in version 2.0 with a folder.
    name_key = "name" if "item" in record else item.first_key("original_filename", "filename")
    name, folder = item.get(name_key), item.get("path")
    if isinstance(name, str) and isinstance(folder, str) and folder.strip("/"):
        name = f"{folder.strip('/')}/{name}"
    if record.reader.log.errors > errors_before:
        return
    layers: dict[int, Layers] = {}  # by frame; 0 for an image
    if any("frames" in row for row in boxes):
        tracks: list[Track] = []
        # The 0 is no image: _read_track adds no boxes, and only None would skip the rows.
        boxes.read(0, _read_track, tracks, layers, slot_name)

        def read_frame(rows: Rows, image: int | None, frame: int) -> None:
            rows.read(image, _read_annotation, slot_name, layers.get(frame, {}), size)

        n_frames = size_owner.get("frame_count") if size_owner is not None else 0
        n_frames = n_frames if type(n_frames) is int else 0
        video_frames: Any = {"length": n_frames, "frame_name": "{:07d}.png"}  # as darwin-py calls them
        read_video(item, name, tracks, read_frame, size=size, split=split, **video_frames)
        return
    for row in boxes:
        if "raster_layer" in row:
            _add_layer(row.object("raster_layer"), layers.setdefault(0, {}))
    image = item.image_named(name, field=name_key, size=size, split=split)
    boxes.read(image, _read_annotation, slot_name, layers.get(0, {}), size)


def _add_layer(layer: Item, layers: Layers) -> None:
    """Note in `layers` the raster layer of each annotation that it has, and the value of its pixels there."""
    for annotation_id, pixel_value in layer.object("mask_annotation_ids_mapping").record.items():
        layers[annotation_id] = layer, pixel_value


def _read_track(row: Row, tracks: list[Track], layers: dict[int, Layers], slot_name: Any) -> None:
    """Add to `tracks` an annotation of a video, as an annotation of an image in each of its frames.

    Raster layers are added to the `layers` of their frames instead.
    """
    if _is_elsewhere(row, slot_name):
        return
    if "frames" not in row:
        row.reader.count("annotations of whole videos")
        return
    shared_fields = {key: value for key, value in row.record.items() if key not in _OF_VIDEO}
    frames = row.object("frames")
    # By frame: the key in ``frames`` ("" if interpolated) and the annotation; and the numbers of `_PLACE`.
    object_of_frame: dict[int, tuple[int | str, dict[str, Any]]] = {}
    place_of_frame: dict[int, list[float]] = {}
    for key, content in frames.objects():
        if (frame := parse_frame(frames, value=key, key=key)) < 0:
            continue
        if "raster_layer" in content:
            _add_layer(content.object("raster_layer"), layers.setdefault(frame, {}))
            continue
        object_of_frame[frame] = key, shared_fields | content.record
        xywh = content.get("bounding_box")
        if isinstance(xywh, dict) and NUMBER_TYPES.issuperset(map(type, map(xywh.get, _PLACE))):
            place_of_frame[frame] = [xywh[key] for key in _PLACE]
    if row.get("interpolated") is True and len(place_of_frame) == len(object_of_frame):  # all have boxes
        for frame, values in fill_frames(place_of_frame, goes_on=place_of_frame).items():
            xywh = {"bounding_box": dict(zip(_PLACE, values, strict=True))}
            object_of_frame.setdefault(frame, ("", shared_fields | xywh))
    id_ = row.get("id")
    if object_of_frame and not row.is_bad:
        track = id_ if isinstance(id_, str | int) else len(tracks)
        tracks.append(Track(frames.location, track, object_of_frame))


def _is_elsewhere(box: Row, slot_name: Any) -> bool:
    """Whether an annotation is in other slots than the one that is read. Such annotations are counted."""
    slots = box.get("slot_names")
    if slot_name is None or not isinstance(slots, list) or not slots or slot_name in slots:
        return False
    box.reader.count("annotations in other slots")
    return True


def _read_annotation(box: Row, slot_name: Any, layers: Layers, size: Size | None) -> None:
    """Add the object of an annotation, from its box, else its shape; `size` is (width, height) in pixels.

    `layers` has the raster layer of masks by the ids of annotations, and the value of their pixels there.
    """
    if _is_elsewhere(box, slot_name):
        return
    box.text("name")  # BadRecord, after an issue, without a class
    if box.record.get("bounding_box") == dict.fromkeys("hwxy"):  # four nulls, as of annotations without a box
        del box.record["bounding_box"]
    shape_key = next((key for key in ("polygon", "complex_polygon") if key in box), "")
    has_drawing = "ellipse" in box or "skeleton" in box
    # Masks, whose pixels are in a layer; and annotations without a place, such as tags, which are counted.
    if "raster_layer" in box:  # in `layers` already
        return
    if "mask" in box and not shape_key and size and (id_ := str(box.get("id"))) in layers:
        corners, category = _paint(box, *layers[id_], *size), box.category("name")
        box.add(category, corners, score=box.object("inference", optional=True).score("confidence"))
        return
    if "bounding_box" not in box and not shape_key and not has_drawing:
        other_kinds = ("frames", "tag", "line", "keypoint")
        box.reader.count(f"{next((key for key in other_kinds if key in box), 'other')} annotations")
        return
    # The shape, if it is wanted or there is no box, and the box.
    category, wh = box.category("name"), None
    shape_corners: Corners | None = None
    if shape_key and (box.wants or "bounding_box" not in box):
        rings = _read_rings(box.object(shape_key))
        shape_corners = find_bounds([point for ring in rings for point in ring])
        if box.wants:
            box.draw("polygons", join_rings(rings), counted_as="polygons")
    elif has_drawing:
        shape_corners = _read_drawn(box)
    if "bounding_box" in box:
        corners, wh = box.object("bounding_box").xywh(*_PLACE)
    else:
        assert shape_corners is not None
        corners = shape_corners
    score = box.object("inference", optional=True).score("confidence")
    # The polygon or ellipse of a mask is read in its place; `draw_ellipse` counts an ellipse that is not. Any
    # other mask is still here if no layer has it, or if the size is not known.
    if shape_key and not box.wants:
        box.note_outline("polygons")
    elif "mask" in box and not shape_key and "ellipse" not in box:
        box.note_outline("outlines")
    box.count_unread(_ANNOTATION | ({"ellipse", "skeleton"} if has_drawing else set()))
    box.add(category, corners, wh=wh, score=score)


def _paint(box: Row, raster_layer: Item, pixel_value: Any, width: int, height: int) -> Corners:
    """Give an annotation its mask: the pixels that are `pixel_value` in a layer of `width` x `height` pixels.

    Returns the corners of the box around them. Raises BadRecord, after an issue, if the layer is malformed.
    """
    try:
        # [[0, 3], [7, 2], [0, 1]] are 3 pixels of nothing, 2 of the value 7 and 1 of nothing, in rows.
        runs = np.array(raster_layer.array("dense_rle"), np.int64).reshape(-1, 2)
        if width * height > MOST or runs.min(initial=0) < 0 or runs[:, 1].sum() != width * height:
            raise BadMask(f"a number and a length in turn, of {width} x {height} pixels")
        is_painted = np.repeat(runs[:, 0] == pixel_value, runs[:, 1]).reshape(height, width)
        corners = find_edges(is_painted)
    except (ValueError, TypeError, OverflowError) as e:
        raster_layer.report_wrong("dense_rle", str(e) if isinstance(e, BadMask) else "whole numbers")
        raise BadRecord from None
    box.paint(box, "mask", lambda _: is_painted, left=0, top=0)  # as large as the image
    return corners


def _read_rings(shape: Item) -> list[list[list[float]]]:
    """The points of each path of a polygon, in pixels. Raises BadRecord, after an issue, without any."""
    reader, paths = shape.reader, shape.get("path") or shape.get("paths")
    rings = paths if isinstance(paths, list) else []
    if rings and not isinstance(rings[0], list):  # one path of points, not a list of paths
        rings = [rings]
    if not any(rings):
        reader.report_wrong(shape.location, "a path of points", paths, in_box=True)
        raise BadRecord

    def read_points(ring: Any) -> list[list[float]]:
        """The (x, y) of the objects in a ring."""
        values = ring if isinstance(ring, list) else [ring]
        items = [Item(reader, point, shape.location, shape.origin, row=shape.row) for point in values]
        return [point.numbers("x", "y") for point in items]

    return [points for ring in rings if (points := read_points(ring))]


def _read_drawn(box: Row) -> Corners:
    """Give an annotation the outline of its ellipse or the keypoints of its skeleton; return the corners."""
    if "ellipse" in box:
        ellipse = box.object("ellipse")
        x, y = ellipse.object("center").numbers("x", "y")
        rx, ry = ellipse.object("radius").numbers("x", "y")
        return box.draw_ellipse(x, y, rx, ry, ellipse.number("angle", 0.0))
    nodes = box.object("skeleton").all_objects("nodes", "a list of nodes")
    points = [[*node.numbers("x", "y"), 1 if node.get("occluded") else 2] for node in nodes]
    return box.set_only_keypoints(points)


def write(dataset: Dataset, target: Output, log: Log, _: SplitOptions) -> None:
    """Write a file for each image, in a folder for its split if there are splits."""
    splits = dataset.images.split
    folders = [f"{split or 'unsplit'}/" if any(splits) else "" for split in splits]
    files = [f"{folder}{name}.json" for folder, name in zip(folders, dataset.images.name, strict=True)]
    if not check_classes(dataset, log) or not target.plan(files, dataset.images.name, log):
        return
    for file, image in zip(log.track(files, "writing"), iter_images(dataset), strict=True):
        annotations = []
        for box in image.boxes:
            xywh = dict(zip(_PLACE, [*box.xyxy[:2], *box.wh], strict=True))
            annotation: dict[str, Any] = {"name": box.label, "slot_names": ["0"], "bounding_box": xywh}
            if box.outlines:
                paths = [[{"x": x, "y": y} for x, y in outline] for outline in box.outlines]
                annotation["polygon"] = {"paths": paths}
            if confidence := box.score_field("confidence"):
                annotation["inference"] = confidence
            annotations.append(annotation)
        folder, _slash, name = image.name.rpartition("/")
        slot = {"type": "image", "slot_name": "0", "width": image.width, "height": image.height}
        slot["source_files"] = [{"file_name": name}]
        item = {"name": name, "path": f"/{folder}", "slots": [slot]}
        record = {"version": "2.0", "item": item, "annotations": annotations}
        target.write(file, f"{dump(record, indent=1)}\n".encode())


FORMAT = json_format_of(
    __name__,
    title="V7 Darwin JSON",
    expects=("item", "annotations", "bounding_box"),
    use="annotation tools",
    written_by="V7 Darwin JSON 1.0 and 2.0",
    holds=('"slots"', '"image"'),
    keeps=frozenset({"size", "extension", "empty", "score", "wh", "split", "polygon"}),
)
