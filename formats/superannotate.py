"""SuperAnnotate JSON: one file per image, or one for all, of a vector or pixel project.

Specification: "Vector JSON" in the documentation of SuperAnnotate
(https://doc.superannotate.com/docs/vector-json)::

    {"metadata": {"name": "a.jpg", "width": 640, "height": 480, "status": "Completed"},
     "instances": [{"type": "bbox", "classId": 1, "className": "person", "probability": 100,
                    "points": {"x1": 10, "y1": 20, "x2": 110, "y2": 220}, "attributes": []}],
     "tags": [], "comments": []}

``x1 y1`` and ``x2 y2`` are left, top, right and bottom in pixels, read and written unchanged. The older
export ``a.jpg___objects.json`` is only the list of instances, in which one with ``type`` ``meta``, called
``imageAttributes``, gives the size. The desktop application wrote one ``annotations.json`` for all images::

    {"___sa_version___": "1.0.0",
     "a.jpg": {"instances": [{"type": "bbox", "classId": 1, "points": {"x1": 10, "y1": 20, "x2": 110, ...}}],
               "tags": [], "metadata": {"name": "a.jpg", "status": "Completed"}}}

All of these are read. The points of a polygon are a list of x and y in turn, or ``{"x": [...], "y": [...]}``,
and may be called ``exterior``.

In a pixel project, ``a.jpg___save.png`` beside the file has the pixels of each instance in the colours of its
``parts``; they are its mask, and the box is around them::

    {"classId": 1, "className": "person", "parts": [{"color": "#000447"}], "attributes": []}

Polygons and ellipses are outlines, and rotated boxes are oriented boxes; where only boxes are needed, they
are counted and read as their bounding boxes, with a warning. So are the keypoints of a ``template``. Points,
polylines, cuboids, tags and attributes are counted but not read.

Polygons and ellipses of one class and ``groupId`` (not 0) are the parts of one object, and a box of that
group around them is its box, with a note; ``-O groups=ignore`` reads them one by one.

In a video project the timestamps of an instance are microseconds. ``-O fps=N`` says how many frames of a
second are images (1), counted from 1 as the SDK does; between timestamps boxes are interpolated. Each row of
``parameters``, a time in which the instance is seen, is a track::

    {"metadata": {"name": "a.mp4", "width": 640, "height": 480, "duration": 9000000},
     "instances": [{"meta": {"type": "bbox", "className": "person", "start": 0, "end": 2000000},
                    "parameters": [{"start": 0, "end": 2000000, "timestamps": [
                        {"timestamp": 0, "points": {"x1": 10, "y1": 20, "x2": 110, "y2": 220}}, ...]}]}]}

``classes.json``, in the folder or in ``classes/``, or beside the one file, gives the ids, names and order of
the classes. Boxes without ``className`` have the name of their ``classId`` there; in ``annotations.json`` the
number is the name if there is no list, with a warning.

Detections are instances whose ``creationType`` is ``Prediction`` or ``Preannotation``: their ``probability``,
0 to 100, divided by 100, is the score (a ``score`` beside it, written where the division would lose digits,
takes precedence). If all instances are, the files contain detections. If only some are, they are read as
ground truth without these, with a warning. ``--kind`` overrides this.

A folder called ``train``, ``val``, ``test`` or similar gives the split. Writing: ``IMAGE.json`` for each
image and ``classes/classes.json``, with ids from 1.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import posixpath
import re
from decimal import Decimal
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from odm.codes import NUMBERED_CLASSES
from odm.files import Output, Source
from odm.formats._contract import SURE, option
from odm.formats._shared.codes import NO_FILES, UNKNOWN_CLASS
from odm.formats._shared.gather import NAN, Corners, Location
from odm.formats._shared.json.items import BAD_SIZE, BadRecord, Box, Item, Origin, Row, Rows, read_items
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.row_shapes import have_area
from odm.formats._shared.json.values import (
    NUMBER_TYPES,
    Nothing,
    Reader,
    check_classes,
    choose_files,
    dump,
    find_bounds,
    simplify,
)
from odm.formats._shared.json.videos import MOST_FRAMES, Track, fill_frames, read_video
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.shapes.box_shapes import join_rings
from odm.formats._shared.shapes.groups import GroupSplitOptions
from odm.formats._shared.shapes.pixel_masks import BadMask, decode_png_colours, find_png
from odm.formats._shared.shapes.written_groups import iter_group_images
from odm.formats._shared.split_names import SplitOptions, find_split, select_split
from odm.issues import Log, PathError, Trusted, first_few, printable, spell_setting
from odm.tables import Builder, Dataset

_KEYS = declare_keys(
    "{} metadata instances tags* comments* name width height status version pinned id type classId "
    "className probability points x1 y1 x2 y2 x3 y3 x4 y4 groupId exterior x y pointLabels* locked visible "
    "attributes* trackingId error createdAt createdBy creationType score updatedAt updatedBy isLocked "
    "exclude cx cy rx ry angle color attribute_groups* timestamp parts isHighlighted connections* "
    "templateId templateName meta parameters timestamps start end duration keyframe"
)
_TOP = frozenset({"metadata", "instances", "tags", "comments"})
_MACHINE_MADE = ("Prediction", "Preannotation")
_CORNERS = ("x1", "y1", "x2", "y2")
_SHAPES = frozenset({"bbox", "rbbox", "polygon", "ellipse", "pixels"})
_OLD = ("___objects.json", "___pixel.json")
_PIXELS = "___save.png"
_COLOUR = re.compile("#[0-9a-fA-F]{6}")
_CLASSES = "classes.json"
_MOST_POINTS = 1000
_VERSION = "___sa_version___"


def _parse_fps(text: str) -> float:
    """Parse frames per second, above 0 and at most 1000. Raises ValueError for anything else."""
    fps = float(text)
    if not 0 < fps <= 1000:
        raise ValueError("expected frames per second, above 0 and at most 1000")
    return fps


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SuperannotateOptions(GroupSplitOptions):
    """Options of SuperAnnotate JSON."""

    fps: float = option(1.0, "frames of a second of video that are images", parse=_parse_fps, side="read")


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Recognise files of one image or several, or lists of instances, by keys and how their values begin."""
    keys = preview.keys  # without "instances" if the first bytes end before it
    if preview.top == "{" and keys.get("metadata") == "{" and keys.get("instances", "[") == "[":
        if "instances" in keys or {"tags", "comments"} & keys.keys():
            return SURE, "it has metadata and instances of one image, as SuperAnnotate has"
        return None
    # Objects by the name of their image, and the version, which is a text.
    is_object = preview.top == "{" and set(keys.values()) <= {"{", "[", '"'}
    if is_object and b'"instances"' in head and (_VERSION in keys or b'"classId"' in head):
        return SURE, "it has the instances of several images, as SuperAnnotate has"
    first_instance = preview.first.get("", {})  # of an outermost list
    is_list = preview.top == "[" and (first_instance.get("type") == '"' or first_instance.get("parts") == "[")
    if is_list and (b'"className"' in head or b'"imageAttributes"' in head):
        return SURE, "it is a list of instances with type and classId, as SuperAnnotate has"
    return None


class _Reader(Reader):
    """A reader that knows the ids of classes, and the mask file of the image that is read."""

    pads_points = True  # as `_read_points` leaves out the points above the highest id
    names: dict[int, str] | None = None
    """The name of each id of a list of classes; None if there is no list."""
    ids_are_names = False
    """Whether class ids serve as names of classes if there is no list of classes."""
    fps = 1.0
    used_ids: set[int]
    """The ids of boxes that serve as names of classes, because there is no list."""
    folder = ""
    """The folder of the file that is read."""
    mask_file = ""
    """The file with the pixels of the instances of the image that is read."""
    colours: NDArray[np.int64] | None = None
    """(height, width) the colours in that file as 0xRRGGBB; None until they are needed."""

    def find_class(self, box: Row) -> int:
        """The category row of an instance, by the name of its class or else by its id.

        Raises BadRecord, after an issue, for an id that the list of classes does not have; returns -1, after
        an issue, for an unusable name.
        """
        id_ = box.get("classId")
        knows_ids = self.ids_are_names or self.names is not None
        if "className" in box or type(id_) is not int or not knows_ids:
            box.text("className")
            return box.category("className")
        if self.names is None:
            self.used_ids.add(id_)
            row = self.category(str(id_), box.location / "classId", source_id=id_)
            return row or 0  # never None: no number is refused
        if id_ not in self.names:
            box.report(UNKNOWN_CLASS, "classId", value=id_, n=len(self.names), where=_CLASSES)
            raise BadRecord
        return box.category_named(self.names[id_], box.location / "classId")


def read(source: Source, builder: Builder, log: Log, options: SuperannotateOptions) -> None:
    """Read the files one by one, after classes.json, which is in the folder, or beside a single file."""
    reader = _Reader(source, builder, log, options, sized=True, keys=_KEYS)  # the files state image sizes
    reader.used_ids, reader.fps = set(), options.fps
    files = source.with_suffix(".json") if source.is_dir else [""]
    class_lists = [(source, file) for file in files if file.rpartition("/")[2].lower() == _CLASSES]
    files = [file for file in files if (source, file) not in class_lists]
    if not files:
        log.report(NO_FILES, source.path, expected=Trusted("JSON of SuperAnnotate"), n=len(source.files))
    elif source.is_dir and (unsure_files := [file for file in files if not file.endswith(_OLD)]):
        what, keys = "JSON of SuperAnnotate", frozenset({"metadata", "instances"})
        chosen = choose_files(source, looks_like, what, log, unique_keys=keys, among=unsure_files)
        files = [file for file in files if file.endswith(_OLD) or file in chosen]
    if not source.is_dir:  # the list lies beside it; of two the later one counts
        folder = os.path.dirname(source.path)
        for path in (os.path.join(folder, "classes", _CLASSES), os.path.join(folder, _CLASSES)):
            with contextlib.suppress(PathError):
                list_source = Source(path, follow_links=source.follow_links, max_size=source.max_size)
                class_lists = [(list_source, "")]
    for list_source, file in class_lists:
        _read_classes(reader, list_source, file)
    for file in log.track(select_split(files, find_split, options.split, source, log), "reading"):
        _read_file(reader, file)
    reader.finish(field="probability")
    if reader.used_ids:  # the names of classes whose boxes have only an id
        # False if all class names are such ids, which then take the names of the other side.
        builder.named = len(reader.used_ids) < builder.n_categories
        shown = first_few(sorted(reader.used_ids), 10)
        log.report(NUMBERED_CLASSES, source.path, value=shown, near=f" (no {_CLASSES})")


def _read_classes(reader: _Reader, list_source: Source, file: str) -> None:
    """Add the classes in a list, and note in `reader.names` the names of their ids."""
    is_inside = list_source is reader.source
    # Beside a single file the list needs a reader of its own, whose builder is not used.
    list_reader = reader if is_inside else Reader(list_source, Builder(), reader.log, SplitOptions())
    for item in read_items(list_reader, file, "a list of classes"):
        reader.names = reader.names or {}
        with contextlib.suppress(BadRecord):
            name = item.text("name")
            if type(id_ := item.get("id")) is int:
                reader.names.setdefault(id_, name)
            reader.category(name, item.location / "name", listed=True)


def _read_file(reader: _Reader, file: str) -> None:
    """Read a file of one image: an object or, in old exports, a list; or an object with several by name."""
    value, location = reader.read_value(file), Location(reader.source.full(file))
    origin = Origin(reader.builder, location.path)
    split, reader.folder = find_split(file) if file else "", posixpath.dirname(file)
    default_name = reader.source.relative(file)  # "a.jpg" of "a.jpg___objects.json" or "a.jpg.json"
    default_name = default_name.removesuffix(_OLD[0]).removesuffix(_OLD[1]).removesuffix(".json")
    if isinstance(value, list):
        metas = [item for item in value if isinstance(item, dict) and item.get("type") == "meta"]
        attributes = next((item for item in metas if item.get("name") == "imageAttributes"), {})
        metadata = Item(reader, attributes, location / "metadata", origin)
        record = Item(reader, {}, location, origin)
        _add_image(record, metadata, Rows(reader, location, value), default_name, split)
    elif isinstance(value, dict) and not {"metadata", "instances"} & value.keys():
        reader.ids_are_names = True
        for key, item in value.items():
            if key != _VERSION:
                image_location = location / key
                image_origin = Origin(reader.builder, location.path, image_location.pointer)
                _read_image(reader, item, image_location, image_origin, key, split)
    elif value is not Nothing:
        _read_image(reader, value, location, origin, key="", split=split, default_name=default_name)


def _read_image(
    reader: _Reader,
    value: Any,
    location: Location,
    origin: Origin,
    key: str,
    split: str,
    default_name: str = "",
) -> None:
    """Add the image that an object describes, called `key`, or by its metadata, or else `default_name`."""
    with contextlib.suppress(BadRecord):
        record = Item(reader, value, location, origin)
        record.need("instances")
        # The keys of an outermost object are data in `_KEYS` ("{}"), as names of images are, so `free` here.
        record.count_unread(_TOP, free=not key)
        boxes = record.rows("instances")
        metadata = record.object("metadata", optional=True)
        name = key or metadata.get("name") or default_name
        _add_image(record, metadata, boxes, name, split, "" if key else "metadata/name")


def _add_image(record: Item, metadata: Item, boxes: Rows, name: Any, split: str, field: str = "") -> None:
    """Add an image, or the frames of a video, with its instances; `field` tells messages where `name` is."""
    size, reader = metadata.size("width", "height"), record.reader
    assert isinstance(reader, _Reader)
    reader.mask_file, reader.colours = posixpath.join(reader.folder, f"{name}{_PIXELS}"), None
    if any("parameters" in row for row in boxes) and size != BAD_SIZE:
        _read_video(record, metadata, boxes, name, size=size, split=split, field=field)
    elif size != BAD_SIZE:
        boxes.read(record.image_named(name, field=field, size=size, split=split), _read_instance)


def _read_video(record: Item, metadata: Item, boxes: Rows, name: Any, **columns: Any) -> None:
    """Add the frames of a video, numbered from 1 at `fps` frames a second, and its tracks."""
    reader = record.reader
    assert isinstance(reader, _Reader)
    fps, tracks = reader.fps, list[Track]()
    boxes.read(0, _read_tracks, fps, tracks)  # the 0 is no image, but None would skip the rows
    duration = metadata.number("duration", 0) / 1e6  # of microseconds
    n_frames = math.ceil(duration * fps) if 0 < duration * fps < MOST_FRAMES else 0  # 0: those with objects
    rate = f"{fps:g} a second ({spell_setting('fps=N')})"
    reader.log.note(f"{printable(reader.source.path)}: frames of videos are numbered from 1, {rate}")

    def read_frame(rows: Rows, image: int | None, _: int) -> None:
        rows.read(image, _read_instance)

    read_video(record, name, tracks, read_frame, first_frame=1, length=n_frames, **columns)


def _read_tracks(row: Row, fps: float, tracks: list[Track]) -> None:
    """Add to `tracks` an instance of a video, with an instance of an image for each of its frames.

    Each of its ``parameters`` is a time in which it is seen; frames between its stamps are interpolated.
    """
    meta = row.object("meta", optional=True)
    track = len(tracks)
    for parameter in row.items("parameters"):
        # By frame: the position of its stamp ("" if interpolated) and the instance; and the numbers in it.
        object_of_frame: dict[int, tuple[int | str, dict[str, Any]]] = {}
        numbers_of_frame: dict[int, list[float]] = {}
        stamps = list(parameter.items("timestamps"))
        for i, stamp in enumerate(stamps):
            seconds = stamp.number("timestamp", NAN) / 1e6
            if not 0 <= seconds * fps < 2**31 - 1:
                stamp.report_wrong("timestamp", "microseconds")
                continue
            frame = max(1, math.ceil(seconds * fps))  # at 10 a second: 0 s to 0.1 s is frame 1, 0.2 s frame 2
            if frame not in object_of_frame:
                object_of_frame[frame] = i, meta.record | stamp.record
                numbers_of_frame[frame] = _list_numbers(stamp.get("points"))
        if object_of_frame and not row.is_bad:
            _, first_object = next(iter(object_of_frame.values()))
            first_points = first_object.get("points")
            # `goes_on`: the frames of stamps after which the object stays in sight, which are all of them.
            for frame, numbers in fill_frames(numbers_of_frame, goes_on=numbers_of_frame).items():
                if frame in object_of_frame:  # a stamp, maybe without usable points
                    continue
                points: Any = numbers
                if isinstance(first_points, dict):
                    points = dict(zip(first_points, numbers, strict=True))
                object_of_frame[frame] = "", meta.record | {"points": points}
            tracks.append(Track(parameter.location / "timestamps", track, object_of_frame))


def _list_numbers(points: Any) -> list[float]:
    """The numbers of the points of a box or polygon, an object or a list; [] if they are anything else."""
    if isinstance(points, dict):
        points = list(points.values())
    values = list(points) if isinstance(points, list) else []
    return values if NUMBER_TYPES.issuperset(map(type, values)) else []


def _read_instance(box: Row) -> None:
    """Add an instance, or count it if its type is not read; it has a score if a machine made it."""
    kind = "pixels" if "parts" in box and "points" not in box else box.text("type")
    if kind == "meta":  # in old exports, what is said of the image
        return
    reader = box.reader
    assert isinstance(reader, _Reader)
    points: list[Any] = []
    if kind == "template":
        points = _read_points(box)
    if kind not in _SHAPES and not have_area(points):
        reader.count(f"{kind} instances")
        return
    # In a group outlines are parts of an object and a box is its box; None for oriented boxes and keypoints.
    is_part = None if kind == "rbbox" or points else kind != "bbox"
    corners = box.set_only_keypoints(points) if points else _read_corners(box, kind)
    category, score = reader.find_class(box), NAN
    if box.get("creationType") in _MACHINE_MADE:
        key = box.first_key("score", "probability")
        score = box.score(key) if key == "score" else _from_percent(box.score(key))
    box.add(category, corners, score=score, group=box.group("groupId"), is_part=is_part)


def _read_points(box: Row) -> list[Any]:
    """The keypoints of a template, [x, y, visibility], by their ids from 1 on.

    Points are visible (2), and ids that are missing are points without a label (0).
    """
    nodes = [(node.get("id"), (*node.numbers("x", "y"), 2)) for node in box.items("points")]
    ids = [id_ for id_, _ in nodes if type(id_) is int and 0 < id_ <= _MOST_POINTS]
    if len(set(ids)) < len(nodes):  # an id is unusable or repeated: the points in the order of the file
        return [point for _, point in nodes]
    by_id = dict(nodes)
    return [by_id.get(id_, (0, 0, 0)) for id_ in range(1, max(ids, default=0) + 1)]


def _read_corners(box: Row, kind: str) -> Corners:
    """Give an instance its shape, if it is no upright box; return the corners of the box around it."""
    if kind == "bbox":
        left, top, right, bottom = box.object("points").numbers(*_CORNERS)
        return left, top, right, bottom
    if kind == "rbbox":
        values = box.object("points").numbers(*(f"{axis}{k}" for k in (1, 2, 3, 4) for axis in "xy"))
        return box.draw_around(list(zip(values[::2], values[1::2], strict=True)), "rotated boxes")
    if kind == "pixels":
        return _read_pixels(box)
    if kind == "ellipse":
        x, y, rx, ry = box.numbers("cx", "cy", "rx", "ry")
        return box.draw_ellipse(x, y, rx, ry, math.radians(box.number("angle", 0)))
    return _read_polygon(box)


def _read_polygon(box: Row) -> Corners:
    """Give an instance its polygon, joined to its holes if shapes are wanted; return the corners around.

    Its points are a list x, y, x, y, ..., or in an object as ``exterior`` or as lists of x and of y. Raises
    BadRecord, after an issue, if they or those of the holes, in ``exclude``, are malformed.
    """
    key = box.first_key("points", "exterior")
    box.need(key)
    raw_points = box.get(key)
    if isinstance(raw_points, dict) and "exterior" in raw_points:
        raw_points = raw_points["exterior"]
    if isinstance(raw_points, dict):  # {"x": [...], "y": [...]}
        xs, ys = (cast("Any", raw_points.get(axis)) for axis in "xy")
        have_pairs = isinstance(xs, list) and isinstance(ys, list) and len(xs) == len(ys)
        raw_points = [value for point in zip(xs, ys, strict=True) for value in point] if have_pairs else None
    if not isinstance(raw_points, list) or len(raw_points) < 6 or len(raw_points) % 2:
        box.report_wrong(key, "a list of x and y, six numbers at least")
        raise BadRecord
    box.record[key] = raw_points  # for `any_numbers`, which checks each and tells its place
    values = box.any_numbers(key)
    points = list(zip(values[::2], values[1::2], strict=True))
    if not box.wants or not box.get("exclude"):
        return box.draw_around(points, "polygons")
    # A hole of fewer than three points has no area.
    holes = [hole for hole in box.array("exclude") if isinstance(hole, list) and len(hole) > 5]
    if any(len(hole) % 2 or not NUMBER_TYPES.issuperset(map(type, hole)) for hole in holes):
        box.report_wrong("exclude", "lists of x and y")
        raise BadRecord
    rings = [points, *(list(zip(hole[::2], hole[1::2], strict=True)) for hole in holes)]
    box.draw("polygons", join_rings(rings), counted_as="polygons")
    return find_bounds(points)


def _read_pixels(box: Row) -> Corners:
    """Give an instance the mask of the pixels with its colours in the mask file; return the corners around.

    Raises BadRecord, after an issue, if the file is missing or has no such pixels.
    """
    reader = box.reader
    assert isinstance(reader, _Reader)
    texts = [mask_part.text("color") for mask_part in box.items("parts")]
    colours = [int(text[1:], 16) for text in texts if _COLOUR.fullmatch(text)]
    try:
        if reader.colours is None:
            read_colours = find_png(reader.source, reader.mask_file, decode_png_colours)
            if read_colours is None:
                raise BadMask(f"the colours in {reader.mask_file}, which is missing")
            reader.colours = read_colours(None)  # the argument is ignored, see `find_png`
        is_inside = np.isin(reader.colours, colours)
        if not is_inside.any():
            raise BadMask(f"colours of pixels in {reader.mask_file}")
    except BadMask as e:
        box.report_wrong("parts", str(e))
        raise BadRecord from None
    # The rows and columns with pixels of the instance: their first and last are the edges of the box.
    rows, columns = (np.flatnonzero(is_inside.any(axis=axis)) for axis in (1, 0))
    left, top, right, bottom = (int(n) for n in (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))
    # Here too the argument, the value of "parts", is ignored: the pixels have been read.
    box.paint(box, "parts", lambda _: is_inside[top:bottom, left:right], left, top)
    return left, top, right, bottom


def _format_score(score: float) -> dict[str, Any]:
    """The fields that store a score: ``probability`` in percent, and ``score`` if that would not be exact."""
    percent = float(Decimal(repr(score)).scaleb(2))  # 0.57 is 57.0; 0.57 * 100 would be 56.99999999999999
    # If the percent that is nearest does not lead back to the score, one of its neighbours may.
    candidates = (percent, math.nextafter(percent, math.inf), math.nextafter(percent, -math.inf))
    percent = next((value for value in candidates if _from_percent(value) == score), percent)
    columns = {"creationType": "Preannotation", "probability": simplify(percent)}
    return columns if _from_percent(percent) == score else {**columns, "score": score}


def _from_percent(percent: float) -> float:
    """A score in 0..1 from percent, without the rounding errors of binary fractions."""
    return float(Decimal(repr(percent)).scaleb(-2))


def _choose_type(box: Box) -> str:
    """The type of the instance that a box is written as, by its shape."""
    rectangle_type = "rbbox" if box.corners else "bbox"
    return "polygon" if box.outlines else rectangle_type


def _format_points(box: Box) -> Any:
    """The ``points`` of an instance: its polygon, oriented box or corners."""
    if box.outlines:
        return [value for point in box.outlines[0] for value in point]
    if box.corners:  # {"x1": ..., "y1": ..., "x2": ..., ..., "y4": ...}
        corners = enumerate(box.corners, 1)
        return {f"{axis}{k}": v for k, p in corners for axis, v in zip("xy", p, strict=True)}
    return dict(zip(_CORNERS, box.xyxy, strict=True))


def write(dataset: Dataset, target: Output, log: Log, _: SuperannotateOptions) -> None:
    """Write a file for each image, and one of the classes."""
    images, classes = dataset.images, dataset.categories.name
    folders = [f"{split}/" if split else "" for split in images.split]
    files = [f"{folder}{image}.json" for folder, image in zip(folders, images.name, strict=True)]
    class_file = f"classes/{_CLASSES}"
    is_writable = target.plan([*files, class_file], [*images.name, "the classes"], log)
    if not check_classes(dataset, log) or not is_writable or not files:
        return
    class_ids = {name: i for i, name in enumerate(classes, 1)}
    # Groups are from 1, and 0 is none.
    for name, image in zip(log.track(files, "writing"), iter_group_images(dataset, group_min=1), strict=True):
        instances = [
            {
                "type": _choose_type(box),
                "classId": class_ids[box.label],
                "className": box.label,
                "probability": 100,
                "points": _format_points(box),
                "groupId": box.group,
                "pointLabels": {},
                "locked": False,
                "visible": True,
                "attributes": [],
                "creationType": "Manual",
                # The fields of a detection replace "creationType" and "probability".
                **({} if box.score is None else _format_score(float(box.score))),
            }
            for box in image.boxes
        ]
        metadata = {"name": image.name, **image.size}
        record = {"metadata": metadata, "instances": instances, "tags": [], "comments": []}
        target.write(name, f"{dump(record, indent=2)}\n".encode())
    entries = [{"id": i, "name": name, "attribute_groups": []} for name, i in class_ids.items()]
    target.write(class_file, f"{dump(entries, indent=2)}\n".encode())


FORMAT = json_format_of(
    __name__,
    title="SuperAnnotate JSON",
    expects=("metadata", "instances", "className"),
    use="annotation tools",
    written_by="SuperAnnotate vector and pixel JSON, and the older IMAGE___objects.json and annotations.json",
    holds=("metadata", "instances", "className", "imageAttributes"),
    keeps=frozenset({"size", "extension", "empty", "unused", "order", "score", "split"})
    | {"polygon", "parts", "oriented", "group"},
    shape_is_box=True,
)
