"""LabelMe JSON: one file per image, as written by the annotation tool.

Reference: the reader and writer of the tool (``labelme/label_file.py`` of
https://github.com/wkentaro/labelme)::

    {"version": "5.5.0", "flags": {},
     "shapes": [{"label": "person", "points": [[10, 20], [110, 220]], "group_id": null,
                 "description": "", "shape_type": "rectangle", "flags": {}, "mask": null}],
     "imagePath": "a.jpg", "imageData": null, "imageHeight": 480, "imageWidth": 640}

Coordinates are pixels from the top left corner of the image, including fractions, read and written unchanged.

Shapes: the two points of a ``rectangle`` are opposite corners in any order; four points, as written by
X-AnyLabeling, are read as well. A ``polygon``, a ``quadrilateral`` and a ``circle`` (its centre and a point
on it) are outlines, an ``oriented_rectangle`` of labelme and a ``rotation`` of X-AnyLabeling are oriented
boxes, and a ``mask`` is a PNG of the rectangle between two pixels. Where only boxes are needed, they are
counted and read as their bounding box, with a warning; a polygon that is an axis-aligned rectangle is read
without one. Without a ``shape_type``, as in old files, a shape with two points is a rectangle and any other a
polygon. ``point``, ``points``, ``line`` and ``linestrip`` have no area, and a ``cuboid`` is
three-dimensional; they are counted but not read. A null list is read as empty.

Groups: outlines and masks of one class and ``group_id`` are the parts of one object, and a rectangle of that
group around them is its box. A ``point`` with a ``group_id`` is a keypoint of the rectangle of that group,
or else of its one object, named by its label; with X-AnyLabeling's key ``difficult`` it is hidden. The class
has all the labels of its objects' points. A note says how many shapes became objects, and
``-O groups=ignore`` reads shapes one by one. Other rectangles of a group stay apart.

Flags: those in ``shapes[].flags`` called ``difficult``, ``crowd``, ``truncated``, ``occluded``, ``group_of``,
``depiction`` and ``inside``, and X-AnyLabeling's key ``difficult``. ``score`` of a shape, written by
X-AnyLabeling, is the score of a detection. If every shape has one, the files contain detections. If only some
have one, they are read as ground truth without the scores, with a warning. ``--kind`` overrides this.

The image is named after the JSON file, with the extension of ``imagePath`` (if the names differ, there is a
warning). ``imagePath`` may point to another folder and is not followed. ``imageData``, the picture itself, is
ignored. A size that is missing or 0 is taken from the picture beside the file or from ``--images``,
``--image-size``, ``--image-sizes``.

Writing: one ``.json`` per image, to be placed beside the pictures; ``imageData`` is null. The
outlines of an object get a ``group_id``. Keypoints are not written.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE
from odm.formats._shared.codes import FILE_NAME_DIFFERS, UNKNOWN_SHAPE
from odm.formats._shared.gather import add_extension
from odm.formats._shared.image_names import Place, drop_folder, name_images, note_folders
from odm.formats._shared.json.items import BadRecord, Box, Image, Item, Row, read_item
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.values import (
    FLAG_NAMES,
    Reader,
    check_classes,
    choose_files,
    dump,
    find_bounds,
    is_set,
    strip_parents,
)
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.shapes.groups import POINTS, GroupOptions
from odm.formats._shared.shapes.pixel_masks import decode_png, encode_png, unpack
from odm.formats._shared.shapes.written_groups import iter_group_images
from odm.issues import Log
from odm.names import accept_name, stem
from odm.tables import Builder, Dataset, Flag

_KEYS = declare_keys(
    "version flags{} shapes imagePath imageData imageHeight imageWidth label points shape_type difficult "
    "score group_id description mask direction"
)
_TOP = frozenset({"version", "flags", "shapes", "imagePath", "imageData", "imageHeight", "imageWidth"})
_SHAPE = frozenset(
    {"label", "points", "shape_type", "flags", "difficult", "score", "group_id", "description"}
)
_UNREAD = frozenset({"point", "points", "line", "linestrip", "cuboid"})
_ORIENTED = frozenset({"rotation", "oriented_rectangle"})
_OUTLINES = {
    "polygon": "polygons",
    "quadrilateral": "polygons",
    "mask": "masks",
    "circle": "circles",
    **dict.fromkeys(_ORIENTED, "rotated boxes"),
}


def looks_like(preview: JsonPreview, _: bytes) -> tuple[int, str] | None:
    """Recognise LabelMe by the shapes, or the image data, of one image, and how these values begin."""
    if preview.top != "{" or preview.keys.get("shapes", "[") not in ("[", "n"):
        return None
    # A picture in the file is longer than the first bytes, so that the shapes may be behind these.
    if preview.cut and preview.keys.get("imageData") == '"' and _TOP.issuperset(preview.keys):
        return SURE, "it has the imageData of one image, as LabelMe has"
    image_keys = preview.keys.keys() & {"imagePath", "imageData", "imageHeight", "imageWidth"}
    first_shape = preview.first.get("shapes", {}).keys()
    if "shapes" in preview.keys and (image_keys or "points" in first_shape):
        return SURE, "it has shapes of one image, as in LabelMe"
    return None


def read(source: Source, builder: Builder, log: Log, options: GroupOptions) -> None:
    """Read every JSON file, each the shapes of one image."""
    unique_keys = _TOP - {"version", "flags"}  # other formats have these two as well
    files = choose_files(source, looks_like, "LabelMe JSON", log, unique_keys=unique_keys)
    reader = Reader(source, builder, log, options, sized=True, keys=_KEYS)  # the files state image sizes
    places = name_images(source, files, reader.pictures)
    for file, image_place in zip(log.track(files, "reading"), places, strict=True):
        with contextlib.suppress(BadRecord):
            _read_image(read_item(reader, file), image_place)
    reader.finish()


def _read_image(record: Item, image_place: Place) -> None:
    """Add the image of a file and its shapes; `image_place` follows from the path of the JSON file."""
    record.need("shapes")
    shapes, name = record.rows("shapes"), _find_name(record, image_place)
    if name is not None:
        size = record.size("imageWidth", "imageHeight")
        shapes.read(record.image_named(name, size=size), _read_shape)


def _find_name(record: Item, image_place: Place) -> str | None:
    """The name of the image: that of the JSON file, with the extension in ``imagePath``.

    Without ``imagePath`` the extension is that of the image file, if one is found. A warning says so if
    ``imagePath`` has another name. None, after an issue, if it is unusable.
    """
    reader, location, path = record.reader, record.location, record.get("imagePath")
    if path is None or path == "":
        return add_extension(image_place.key, reader.pictures.find(image_place.picture, path=location.path))
    if not isinstance(path, str):
        record.report_wrong("imagePath", "text")
        return None
    file_name = strip_parents(path)
    if not accept_name(
        file_name, reader.log, location.path, warn=False, pointer="/imagePath", field="imagePath"
    ):
        return None
    key = drop_folder(image_place, path)  # without a folder of annotations that the path leaves by ../
    file_name = file_name.rpartition("/")[2]
    json_stem = key.rpartition("/")[2]
    if file_name == json_stem:  # a.jpg.json names a.jpg, with its extension
        return key
    file_stem = stem(file_name)
    name = key + file_name[len(file_stem) :]
    if file_stem != json_stem:
        record.report(FILE_NAME_DIFFERS, "imagePath", where="imagePath", value=path, name=name)
    return name


def _read_shape(shape: Row) -> None:
    """Add the object of a shape, or a keypoint to the object of its group; lines are counted.

    Without a type, two points are a rectangle. Raises BadRecord, after an issue, for an unknown type.
    """
    kind = shape.get("shape_type")
    if kind is None:
        raw_points = shape.get("points")
        kind = "rectangle" if isinstance(raw_points, list) and len(raw_points) == 2 else "polygon"
    elif not isinstance(kind, str):
        shape.report_wrong("shape_type", "text")
        raise BadRecord
    group = shape.group("group_id", group_min=0)  # -1 for none
    if kind == "point" and group >= 0:
        _read_point(shape, group)
        return
    if kind in _UNREAD:
        shape.reader.count(f"{kind} shapes")
        return
    if kind != "rectangle" and kind not in _OUTLINES:
        shape.report(UNKNOWN_SHAPE, "shape_type", value=kind, shapes="rectangle or polygon")
        raise BadRecord

    category, points = shape.category("label"), shape.points("points", n_min=2)
    score = shape.score("score")
    flags = _read_flags(shape)
    shape.count_unread((_SHAPE | {"mask", "direction"}) if shape.wants else _SHAPE)

    # The corners of the box around the shape.
    if kind == "circle":
        (x, y), (x2, y2) = points[:2]  # its centre, and a point on it
        radius = math.hypot(x2 - x, y2 - y)
        corners = shape.draw_ellipse(x, y, radius, radius, kind=_OUTLINES[kind])
    elif kind in ("rectangle", "mask"):
        corners = find_bounds(points)
    else:
        corners = shape.draw_around(points, _OUTLINES[kind])
    if kind == "mask":  # the points are pixels of it
        corners = (*corners[:2], corners[2] + 1, corners[3] + 1)
        shape.paint(shape, "mask", lambda text: decode_png(unpack(text)), *corners[:2])
    # In a group, outlines are parts of an object, and a rectangle is its box; None for oriented boxes.
    is_part = None if kind in _ORIENTED else kind != "rectangle"
    shape.add(category, corners, score=score, flags=int(flags), group=group, is_part=is_part)


def _read_flags(shape: Row) -> Flag:
    """The flags of a shape, ``difficult`` and those in ``flags``; unknown ones that are set are counted."""
    flags = FLAG_NAMES["difficult"] if shape.flag("difficult") else Flag(0)
    shape_flags = shape.object("flags", optional=True)
    for name, value in shape_flags.record.items():
        if name in FLAG_NAMES:
            flags |= FLAG_NAMES[name] if shape_flags.flag(name) else 0
        elif is_set(value):
            shape.reader.count("flags")
    return flags


def _read_point(shape: Row, group: int) -> None:
    """Add a keypoint to the object of its group. Hidden ones are marked difficult, as in X-AnyLabeling."""
    (x, y), *_ = shape.points("points", n_min=1)
    point, name = (x, y, 1 if shape.flag("difficult") else 2), shape.text("label")
    if not shape.is_bad:
        shape.reader.count(POINTS)
        shape.reader.groups.add_point(shape.owner.image, group, name, point)


def _format_shape(box: Box, image: Image) -> dict[str, Any]:
    """The fields of a shape that hold its kind, its points in pixels and its mask."""
    mask = None
    if (left_top_pixels := box.pixels(image)) is not None:
        left, top, pixels = left_top_pixels
        height, width = pixels.shape
        kind, points = "mask", [[left, top], [left + width - 1, top + height - 1]]
        mask = encode_png(pixels)
    elif box.outlines:  # one: `iter_group_images` makes a box of each
        kind, points = "polygon", box.outlines[0]
    elif box.corners:
        kind, points = "rotation", box.corners
    else:
        kind, points = "rectangle", [box.xyxy[:2], box.xyxy[2:]]
    return {"points": points, "shape_type": kind, "mask": mask}


def write(dataset: Dataset, target: Output, log: Log, _: GroupOptions) -> None:
    """Write one file per image."""
    files = [f"{stem(name)}.json" for name in dataset.images.name]
    if not target.plan(files, dataset.images.name, log) or not check_classes(dataset, log):
        return
    note_folders(dataset, log)
    names = sorted(FLAG_NAMES)
    for file, image in zip(log.track(files, "writing"), iter_group_images(dataset, group_min=0), strict=True):
        shapes = [
            {
                "label": box.label,
                **_format_shape(box, image),
                "group_id": box.group if box.group >= 0 else None,
                "description": "",
                "flags": dict.fromkeys(box.list_flags(names), True),
                **box.score_field("score"),
            }
            for box in image.boxes
        ]
        record: dict[str, Any] = {
            "version": "5.5.0",
            "flags": {},
            "shapes": shapes,
            "imagePath": image.name.rpartition("/")[2],
            "imageData": None,
            "imageHeight": image.height or None,
            "imageWidth": image.width or None,
        }
        target.write(file, f"{dump(record, indent=2)}\n".encode())


FORMAT = json_format_of(
    __name__,
    title="LabelMe JSON",
    expects=("shapes", "imagePath", "points"),
    use="annotation tools",
    written_by="labelme, AnyLabeling, X-AnyLabeling",
    holds=("shapes", "imageData"),
    keeps=frozenset("size extension empty score polygon parts mask oriented group".split()) | {*FLAG_NAMES},
    shape_is_box=True,
)
