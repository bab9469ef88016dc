"""VGG Image Annotator (VIA) 2 and 3: projects, and annotations of VIA 2 as JSON or CSV.

Reference: the tool's own writer (``via.js`` of VIA 2.0, https://www.robots.ox.ac.uk/~vgg/software/via/). The
annotations are one object with an entry per image; a project holds the same under ``_via_img_metadata``::

    {"a.jpg12345": {"filename": "a.jpg", "size": 12345,
                    "regions": [{"shape_attributes": {"name": "rect", "x": 10, "y": 20,
                                                      "width": 100, "height": 200},
                                 "region_attributes": {"class": "person"}}],
                    "file_attributes": {}}}

A project of VIA 3 is read too; its regions are lists such as ``"xy": [2, 10, 20, 100, 200]`` for a rectangle.
Segments of videos, and regions in views of several files, are counted but not read.

The CSV has one region a line, or one line with ``region_count`` 0 for an image without regions::

    filename,file_size,file_attributes,region_count,region_id,region_shape_attributes,region_attributes

Coordinates are pixels from the top left corner of the image, read and written unchanged; the tool itself
writes whole numbers. ``size`` is the size of the picture's file in bytes, so the image size is unknown.

Class: the value of one region attribute: ``-O attribute=NAME``, or the only attribute, or the first of
``class``, ``label``, ``name``, ``type``, ``category``, ``object``, with a note. A checkbox with one option
set has that value. If the ids of all options of the attribute are numbers, the class is the text of the
option. ``-O category=NAME`` is the class of regions without one. Attributes called ``difficult``, ``crowd``,
``truncated``, ``occluded``, ``group_of``, ``depiction`` and ``inside`` are flags, set if they are 1, true or
yes, and ``score`` is the score of a detection; none of these is used as the class. If every region has a
score, the file contains detections. If only some have one, it is read as ground truth without the scores,
with a warning.

Shapes: ``rect``; ``polygon``, ``circle`` and ``ellipse`` are outlines or, where only boxes are needed, are
counted and read as their bounding box, with a warning; ``polyline`` and ``point`` have no area and are
counted but not read. ``regions`` may be an object, as written by VIA 1, or null.

Writing: a VIA project, or CSV if the suffix of the target is ``.csv``, with flags and scores as attributes.
``-O layout=annotations`` writes the annotations alone, as VIA's "Export Annotations (as json)", and ``-O
layout=via3`` a project of VIA 3.
"""

# This takes more lines than other formats because VIA 2 and 3 are two layouts, and the class has to be found.

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import re
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE, option
from odm.formats._shared.codes import UNKNOWN_SHAPE, WRONG_COUNT
from odm.formats._shared.gather import Corners
from odm.formats._shared.json.items import (
    BadRecord,
    Box,
    Item,
    Origin,
    Row,
    Rows,
    iter_images,
    plan_file,
    read_item,
)
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.values import FLAG_NAMES, Nothing, Reader, choose_files, dump, is_set
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text.records import read_csv_records
from odm.issues import Code, Log, Trusted, printable, spell_setting
from odm.tables import Builder, Dataset

_KEYS = declare_keys(
    "{} _via_settings* _via_img_metadata{} _via_attributes region{} description options* default_options* "
    "default_value* filename size regions{} fileref base64_img_data file_attributes* file_size region_count "
    "region_id region_shape_attributes shape_attributes "
    "region_attributes* name x y width height cx cy r rx ry theta all_points_x all_points_y project* config* "
    "attribute{} aname anchor_id desc default_option_id file{} fid fname type loc src metadata{} vid flg z "
    "xy av* view{} fid_list"
)
NO_ATTRIBUTE = Code(
    "via-class-attribute",
    "error",
    "no region attribute is clearly the class, found {found}",
    "set it with -O attribute=NAME, or the class of all regions with -O category=NAME",
    "VIA attributes have names chosen by the user, so odm must know which one is the class.",
    file=True,
)

HEADER = (
    *("filename", "file_size", "file_attributes"),
    *("region_count", "region_id", "region_shape_attributes", "region_attributes"),
)
_SUFFIXES = (".json", ".csv")
_USUAL = ("class", "label", "name", "type", "category", "object")
_PROJECT = frozenset(
    "_via_settings _via_img_metadata _via_attributes _via_data_format_version _via_image_id_list".split()
)
_PROJECT_3 = frozenset({"project", "config", "attribute", "file", "metadata", "view"})
_IMAGE = frozenset({"filename", "size", "regions", "fileref", "base64_img_data"})
_NUMBERS = {
    "rect": ("x", "y", "width", "height"),
    "circle": ("cx", "cy", "r"),
    "ellipse": ("cx", "cy", "rx", "ry"),
}
_SHAPES = ("", "point", "rect", "circle", "ellipse", "polyline", "polyline", "polygon", "rect", "circle")
"""The shape that the first number of ``xy`` in VIA 3 stands for."""
_FIRST = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\{\s*"(filename|fileref|size)"\s*:')


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ViaOptions(ImageOptions):
    """Options of VIA."""

    attribute: str | None = option(None, "the region attribute with the class")
    category: str | None = option(None, "the class of regions without one", side="read")
    layout: str = option(
        "project",
        "what a JSON file holds: a project of VIA 2 or 3, or the annotations alone",
        choices=("project", "annotations", "via3"),
        side="write",
    )


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Recognise VIA by the keys of a project, those of the first entry, or the header of a CSV file."""
    head = head.removeprefix(b"\xef\xbb\xbf")
    if "_via_img_metadata" in preview.keys or "_via_settings" in preview.keys:
        return SURE, "it has the keys of a VIA project"
    if preview.top == "{" and {"project", "attribute", "file", "metadata", "view"} <= preview.keys.keys():
        return SURE, "it has the keys of a project of VIA 3"
    # `_FIRST` is an entry, {"a.jpg12345": {"filename":, as annotations alone begin.
    if preview.top == "{" and _FIRST.match(head) and b'"regions"' in head:
        return SURE, "its entries have a filename and regions, as in VIA"
    if b"region_shape_attributes" in head.split(b"\n", 1)[0] and preview.top != "{":
        return SURE, "its header has region_shape_attributes, as in VIA"
    return None


_OptionTexts = dict[str, dict[str, str]]
"""By the name of a region attribute: the texts of its options by their ids, which are numbers."""
_Waiting = list[tuple[Rows, int | None, _OptionTexts]]
"""Regions, their image and the options of their file, until the attribute with the class is known."""


def read(source: Source, builder: Builder, log: Log, options: ViaOptions) -> None:
    """Read the file, or those of a folder; regions last, when the attribute with the class is known."""
    reader = Reader(source, builder, log, options, keys=_KEYS)
    waiting: _Waiting = []
    for file in choose_files(source, looks_like, "VIA annotations", log, _SUFFIXES):
        with contextlib.suppress(BadRecord):
            if source.head(file).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
                _read_json(reader, file, waiting)
            else:
                _read_csv(reader, file, waiting)
    attribute = _choose_attribute(waiting, source, log, options)
    for regions, image, texts in waiting:
        regions.read(image, _read_region, attribute, options.category, texts.get(attribute or "", {}))
    reader.finish()


def _read_json(reader: Reader, file: str, waiting: _Waiting) -> None:
    """Add the images of a JSON file, and collect their regions in `waiting`."""
    entries = read_item(reader, file)
    if "view" in entries and "metadata" in entries:
        _read_project(entries, waiting)
        return
    texts = _collect_option_texts(entries.get("_via_attributes"))
    if "_via_img_metadata" in entries or "_via_settings" in entries:
        entries.count_unread(_PROJECT, free=True)  # the outermost keys are data in `_KEYS`
        entries = entries.object("_via_img_metadata")
    for _, image in entries.objects():
        image.count_unread(_IMAGE)
        regions = image.rows("regions", keyed=True)  # VIA 1 has an object
        waiting.append((regions, image.image("filename"), texts))


def _read_project(project: Item, waiting: _Waiting) -> None:
    """Add the images of a project of VIA 3, and collect their regions, turned into those of VIA 2."""
    reader, location = project.reader, project.location / "metadata"
    project.count_unread(_PROJECT_3, free=True)  # the outermost keys are data in `_KEYS`
    files = dict(project.object("file").objects())
    attributes = dict(project.object("attribute", optional=True).objects())
    regions: dict[Any, dict[str, Any]] = {}  # by the id of their view, and by their own
    for key, metadata in project.object("metadata", optional=True).objects():
        shape, *numbers = metadata.array("xy") or [0]  # [2, x, y, w, h] is a rectangle, see `_SHAPES`
        if not shape or metadata.get("z"):
            reader.count("attributes of images, or segments of videos")
            continue
        attributes_of_region: dict[str, Any] = {}
        for id_, value in metadata.object("av", optional=True).record.items():
            attribute = attributes.get(id_)
            options = attribute.get("options") if attribute else None
            if isinstance(options, dict) and isinstance(value, str):
                value = options.get(value, value)  # noqa: PLW2901 -- the text of an option, given by its id
            attributes_of_region[str(attribute.get("aname", id_)) if attribute else id_] = value
        shape_attributes = _convert_shape(shape, numbers)
        region = {"shape_attributes": shape_attributes, "region_attributes": attributes_of_region}
        regions.setdefault(str(metadata.get("vid")), {})[key] = region
    # Views are images, each of one file; regions were collected by the id of their view.
    origin = Origin(reader.builder, location.path, location.pointer)
    for vid, view in project.object("view").objects():
        ids = [str(id_) for id_ in view.array("fid_list")]
        file = files.pop(ids[0], None) if len(ids) == 1 else None  # a file is the image of its first view
        if file is None:
            reader.count("views of several files, or of none")
            continue
        waiting.append((Rows(reader, location, regions.get(vid, {}), origin), file.image("fname"), {}))


def _convert_shape(shape: Any, numbers: list[Any]) -> dict[str, Any]:
    """The shape attributes of VIA 2 for a shape of VIA 3: its number in `_SHAPES`, and its coordinates."""
    name = _SHAPES[shape] if type(shape) is int and 0 < shape < len(_SHAPES) else str(shape)
    if name == "polygon":
        return {"name": name, "all_points_x": numbers[0::2], "all_points_y": numbers[1::2]}
    # Points and polylines, which are only counted, get no numbers; `_read_shape` reports what others lack.
    return {"name": name, **dict(zip(_NUMBERS.get(name, ()), numbers, strict=False))}


def _collect_option_texts(attributes: Any) -> _OptionTexts:
    """The texts of the options of region attributes whose ids are all numbers; other ids are names."""
    texts_of_attribute = {}
    region_attributes = attributes.get("region") if isinstance(attributes, dict) else None
    for name, attribute in region_attributes.items() if isinstance(region_attributes, dict) else ():
        options = attribute.get("options") if isinstance(attribute, dict) else None
        if isinstance(options, dict) and all(
            id_.isdecimal() and text and isinstance(text, str) for id_, text in options.items()
        ):
            texts_of_attribute[name] = options
    return texts_of_attribute


def _read_csv(reader: Reader, file: str, waiting: _Waiting) -> None:
    """Add the images of a CSV file, and collect in `waiting` the region of each row, if it has any."""
    images: dict[str, int | None] = {}
    origin = Origin(reader.builder, reader.source.full(file))
    needed = ("filename", "region_shape_attributes", "region_attributes")
    for location, record in read_csv_records(reader, file, needed):
        name, line = record["filename"], location.line
        if name not in images:
            images[name] = reader.image(name, location, field="filename", file=origin.number, line=line)
        cells = {key: record[f"region_{key}"].strip() for key in ("shape_attributes", "attributes")}
        region = {
            key: reader.decode_cell(text, location / f"region_{key}") if text else {}
            for key, text in cells.items()
        }
        if Nothing in region.values():
            reader.builder.skipped += 1
        # A row of an image without regions has neither a shape nor a count.
        elif region["shape_attributes"] or record.get("region_count", "0").strip() not in ("0", ""):
            region["region_attributes"] = region.pop("attributes")
            # The only region of the row, under the key "" so that its place is that of the row.
            waiting.append((Rows(reader, location, {"": region}, origin), images[name], {}))


def _choose_attribute(waiting: _Waiting, source: Source, log: Log, options: ViaOptions) -> str | None:
    """The region attribute that holds the class, chosen over all regions; None if none is clear.

    A usual name decides among several, with a note. An issue is reported if neither an attribute is clear nor
    the option ``category`` gives the class.
    """
    regions = [region for rows, image, _ in waiting if image is not None for region in rows]
    pairs = [(region.get("region_attributes") or {}, region.get("shape_attributes")) for region in regions]
    # Without regions that are malformed, which are reported when they are read.
    attribute_sets = [attributes for attributes, shape in pairs if type(attributes) is type(shape) is dict]
    if options.attribute is not None or not attribute_sets:
        return options.attribute
    keys: dict[str, None] = dict.fromkeys(key for attributes in attribute_sets for key in attributes)
    names = [key for key in keys if key not in FLAG_NAMES and key != "score"]
    if len(names) == 1:
        return names[0]
    name_of_word = {name.lower(): name for name in reversed(names)}  # of "Class" and "class" the first
    for word in _USUAL:
        if word in name_of_word:
            name = name_of_word[word]
            other_names = ", ".join(sorted(set(names) - {name}))
            log.note(
                f"{printable(source.path)}: the class is the region attribute {name!r}; others are "
                f"{printable(other_names)} ({spell_setting('attribute=NAME')} selects one)"
            )
            return name
    if options.category is None:
        log.report(NO_ATTRIBUTE, source.path, found=", ".join(sorted(names)) or Trusted("none"))
    return None


def _read_region(
    region: Row, attribute: str | None, default: str | None, option_texts: dict[str, str]
) -> None:
    """Add the object of a region, whose class is the value of `attribute`, or `default` without one.

    `option_texts` are the texts of the options of this attribute by their ids.
    """
    reader, shape = region.reader, region.object("shape_attributes")
    attributes = region.object("region_attributes", optional=True)
    if shape.get("name") in ("point", "polyline"):
        reader.count(f"{shape.get('name')} regions")
        return
    corners, wh = _read_shape(region, shape)
    if region.is_bad:
        return
    # The class: the value of the attribute, the only key checked in a checkbox, the text of an option's id.
    value = None if attribute is None else attributes.get(attribute)
    if isinstance(value, dict):  # a checkbox; several checked keys are no class, and an issue below
        checked_keys = [key for key, checked in value.items() if is_set(checked)]
        if len(checked_keys) <= 1:
            value = checked_keys[0] if checked_keys else None
    if isinstance(value, str):
        value = option_texts.get(value, value)
    value = default if value is None or value == "" else value
    if value is None:
        if attribute is not None:  # else the missing attribute has been reported once for all regions
            region.report_missing(attribute)
        raise BadRecord
    category = region.category_named(value, attributes.location / (attribute or ""))
    score = attributes.score("score", as_text=True)
    other_attributes = {k: v for k, v in attributes.record.items() if k not in (attribute, "score")}
    if not region.is_bad:
        region.add(category, corners, wh=wh, score=score, flags=reader.flags(other_attributes))


def _read_shape(region: Row, shape: Item) -> tuple[Corners, tuple[float, float] | None]:
    """Give a region its shape, if it is no rectangle, and return the corners of the box around it.

    Returns also the width and height of a rectangle. Raises BadRecord, after an issue, for other kinds.
    """
    kind = shape.text("name")
    if kind == "rect":
        return shape.xywh(*_NUMBERS[kind])
    if kind in _NUMBERS:
        x, y, rx, *other_radius = shape.numbers(*_NUMBERS[kind])  # a circle has one radius
        ry = other_radius[0] if other_radius else rx
        angle = shape.number("theta", 0.0) if kind == "ellipse" else 0.0
        angle = angle if abs(angle) < 1e6 else 0.0  # radians; larger numbers mean nothing
        return region.draw_ellipse(x, y, rx, ry, angle, kind=f"{kind}s"), None
    if kind != "polygon":
        shape.report(UNKNOWN_SHAPE, "name", value=kind, shapes="rect or polygon")
        raise BadRecord
    xs, ys = shape.any_numbers("all_points_x"), shape.any_numbers("all_points_y")
    if len(xs) != len(ys) or not xs:
        expected = Trusted("equally many values in all_points_x and all_points_y, at least one")
        sizes = Trusted(f"{len(xs)} and {len(ys)}")
        shape.report(WRONG_COUNT, expected=expected, found=sizes)
        raise BadRecord
    return region.draw_around(list(zip(xs, ys, strict=True)), "polygons"), None


def write(dataset: Dataset, target: Output, log: Log, options: ViaOptions) -> None:
    """Write a project or the annotations alone as JSON, or a table if the target is a CSV file."""
    name = plan_file(dataset, target, f"via_{options.layout}.json", "annotations", log)
    if name is None:
        return
    attribute = options.attribute or "class"
    images_and_regions = [
        (image.name, [_format_region(box, attribute) for box in image.boxes])
        for image in iter_images(dataset)
    ]
    # The size of the picture's file, which is part of the key of an image in JSON, is unknown: -1.
    if target.single and target.target.lower().endswith(".csv"):
        text = io.StringIO(newline="")
        table = csv.writer(text, lineterminator="\n")
        table.writerow(HEADER)
        empty_row: dict[str, Any] = {"shape_attributes": {}, "region_attributes": {}}  # without objects
        for image_name, rows in images_and_regions:
            for i, row in enumerate(rows or [empty_row]):
                table.writerow([image_name, -1, "{}", len(rows), i, *map(dump, row.values())])
        target.write(name, text.getvalue().encode())
        return
    # JSON of the annotations alone, of a project of VIA 3, or of one of VIA 2.
    entries = ",\n".join(
        f"{dump(f'{image_name}-1')}: "
        + dump({"filename": image_name, "size": -1, "regions": rows, "file_attributes": {}})
        for image_name, rows in images_and_regions
    )
    if options.layout == "annotations":
        target.write(name, f"{{\n{entries}}}\n".encode())
        return
    flag_names = [str(n) for n, flag in FLAG_NAMES.items() if dataset.boxes.has(flag).any()]
    attribute_names = [attribute, *flag_names, *(["score"] if dataset.kind == "det" else [])]
    if options.layout == "via3":
        target.write(name, f"{_make_project(images_and_regions, attribute_names)}\n".encode())
        return
    descriptions = {key: {"type": "text", "description": "", "default_value": ""} for key in attribute_names}
    core = {"buffer_size": 18, "filepath": {}, "default_filepath": ""}
    members = [
        f'"_via_settings": {dump({"core": core, "project": {"name": "annotations"}})}',
        f'"_via_img_metadata": {{\n{entries}}}',
        f'"_via_attributes": {dump({"region": descriptions, "file": {}})}',
        '"_via_data_format_version": "2.0.10"',
        f'"_via_image_id_list": {dump([f"{image}-1" for image in dataset.images.name])}',
    ]
    target.write(name, ("{" + ",\n".join(members) + "}\n").encode())


def _format_region(box: Box, attribute: str) -> dict[str, Any]:
    """The region of a box as in VIA 2; `attribute` is the name of that with the class."""
    shape: dict[str, Any] = {"name": "rect"}
    if box.outlines:
        xs, ys = zip(*box.outlines[0], strict=True)
        shape = {"name": "polygon", "all_points_x": xs, "all_points_y": ys}
    else:
        shape |= zip(_NUMBERS["rect"], (*box.xyxy[:2], *box.wh), strict=True)
    attributes = {attribute: box.label, **dict.fromkeys(box.list_flags(sorted(FLAG_NAMES)), "1")}
    attributes |= {key: str(score) for key, score in box.score_field("score").items()}
    return {"shape_attributes": shape, "region_attributes": attributes}


def _make_project(images: list[tuple[str, list[dict[str, Any]]]], attributes: list[str]) -> str:
    """The text of a project of VIA 3.

    `images` are names with regions as in VIA 2; `attributes` are the names of the region attributes.
    """
    ids = {name: str(id_) for id_, name in enumerate(attributes, 1)}
    files: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for file_number, (image, regions) in enumerate(images, 1):
        vid = str(file_number)
        files[vid] = {"fid": vid, "fname": image, "type": 2, "loc": 1, "src": image}
        for k, region in enumerate(regions, 1):
            kind, *coordinates = region["shape_attributes"].values()  # "rect", x, y, width, height
            xy = [2, *coordinates]  # a rectangle in `_SHAPES`, 7 a polygon
            if kind == "polygon":
                xy = [7, *(value for point in zip(*coordinates, strict=True) for value in point)]
            values = {ids[key]: value for key, value in region["region_attributes"].items()}
            metadata[f"{vid}_{k}"] = {"vid": vid, "flg": 0, "z": [], "xy": xy, "av": values}
    fields = {"anchor_id": "FILE1_Z0_XY1", "type": 1, "desc": "", "options": {}, "default_option_id": ""}
    project = {"pid": "__VIA_PROJECT_ID__", "rev": "__VIA_PROJECT_REV_ID__", "pname": "annotations"}
    places = {"loc_prefix": dict.fromkeys("1234", "")}
    project_members = {
        "project": {**project, "data_format_version": "3.1.1", "vid_list": list(files)},
        "config": {"file": places, "ui": {}},
        "attribute": {id_: {"aname": key, **fields} for key, id_ in ids.items()},
        "file": files,
        "metadata": metadata,
        "view": {vid: {"fid_list": [vid]} for vid in files},
    }
    return dump(project_members)


FORMAT = json_format_of(
    __name__,
    title="VGG Image Annotator (VIA)",
    expects=("regions", "shape_attributes", "region_attributes"),
    use="annotation tools",
    written_by="VIA 1 and 2 JSON, VIA 2 CSV, projects of VIA 2 and 3",
    suffixes=_SUFFIXES,
    begins=None,
    single=True,
    holds=("_via_", "regions", "region_shape_attributes", "vid_list", "fid_list"),
    keeps=frozenset({"extension", "empty", "score", "wh", "polygon", *FLAG_NAMES}),
    shape_is_box=True,
)
