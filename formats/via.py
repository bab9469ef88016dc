"""VGG Image Annotator (VIA) 2: projects, and annotations as JSON or CSV.

Reference: the tool's own writer (``via.js`` of VIA 2.0, https://www.robots.ox.ac.uk/~vgg/software/via/). The
annotations are one object with an entry per image; a project holds the same under ``_via_img_metadata``::

    {"a.jpg12345": {"filename": "a.jpg", "size": 12345,
                    "regions": [{"shape_attributes": {"name": "rect", "x": 10, "y": 20,
                                                      "width": 100, "height": 200},
                                 "region_attributes": {"class": "person"}}],
                    "file_attributes": {}}}

The CSV has one region a line, or one line with ``region_count`` 0 for an image without regions::

    filename,file_size,file_attributes,region_count,region_id,region_shape_attributes,region_attributes

Coordinates are pixels from the top left corner of the image, read and written unchanged; the tool itself
writes whole numbers. ``size`` is the size of the picture's file in bytes, so the image size is unknown.

Class: the value of one region attribute: ``-O attribute=NAME``, or the only attribute, or the first of
``class``, ``label``, ``name``, ``type``, ``category``, ``object``, with a note. A checkbox with one option
set has that value. ``-O category=NAME`` is the class of regions without one. Attributes called ``difficult``,
``crowd``, ``truncated``, ``occluded``, ``group_of``, ``depiction`` and ``inside`` are flags, set if they are
1, true or yes, and ``score`` is the score of a detection; none of these is used as the class. If every region
has a score, the file contains detections. If only some have one, it is read as ground truth without the
scores, with a warning.

Shapes: ``rect``; ``polygon``, ``circle`` and ``ellipse`` are counted and read as their bounding box, with a
warning; ``polyline`` and ``point`` have no area and are counted but not read. ``regions`` may be an object,
as written by VIA 1, or null.

Writing: a VIA project, or CSV if the suffix of the target is ``.csv``, with flags and scores as attributes.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from odm.files import Output, Source
from odm.formats._contract import SURE, Format, Sniff, option
from odm.formats._shared.codes import UNKNOWN_SHAPE, WRONG_COUNT
from odm.formats._shared.gather import NAN, At, Corners
from odm.formats._shared.json_preview import JsonPreview
from odm.formats._shared.json_records import (
    ANY,
    COUNTED,
    NUMBER,
    TEXT,
    Each,
    Held,
    Keyed,
    Records,
    Table,
    add_boxes,
)
from odm.formats._shared.json_values import (
    FLAG_NAMES,
    Nothing,
    Reader,
    bounds,
    dump,
    flags_of,
    groups,
    is_set,
    is_upright,
    may_write,
    number,
    sniff_json,
)
from odm.formats._shared.number_text import short_wh
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text_tokens import NUMBER_TEXT, text_of
from odm.issues import Code, Log, Trusted, printable
from odm.names import refuse_class
from odm.tables import Builder, Dataset, Flag

NO_ATTRIBUTE = Code(
    "via-class-attribute",
    "error",
    "no region attribute is clearly the class, found {found}",
    "set it with -O attribute=NAME, or the class of all regions with -O category=NAME",
    "VIA attributes have names chosen by the user, so odm must know which one is the class.",
    file=True,
)

HEADER = (
    "filename",
    "file_size",
    "file_attributes",
    "region_count",
    "region_id",
    "region_shape_attributes",
    "region_attributes",
)
_SUFFIXES = (".json", ".csv")
_USUAL = ("class", "label", "name", "type", "category", "object")
_IMAGE = frozenset({"filename", "size", "regions", "fileref", "base64_img_data"})
_NUMBERS = {
    "rect": ("x", "y", "width", "height"),
    "circle": ("cx", "cy", "r"),
    "ellipse": ("cx", "cy", "rx", "ry"),
}
_FIRST = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\{\s*"(filename|fileref|size)"\s*:')


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ViaOptions(ImageOptions):
    """Options of VIA."""

    attribute: str | None = option(None, "the region attribute with the class")
    category: str | None = option(None, "the class of regions without one", side="read")


@dataclasses.dataclass(slots=True)
class _Region:
    image: int
    shape: dict[str, Any]
    attributes: dict[str, Any]
    at: At
    file: int
    line: int


@dataclasses.dataclass(slots=True)
class _Part:
    """The regions of a file in which everything is as usual, image by image."""

    boxes: Table
    images: list[int | None]
    lists: list[int]
    places: list[At]

    def regions(self, builder: Builder) -> Iterator[_Region]:
        """The same one by one, without those of images that could not be added."""
        boxes, row = self.boxes, 0
        shapes = boxes["shape_attributes"]
        for image, file, at, n in zip(self.images, self.lists, self.places, boxes.lengths, strict=True):
            if image is None:
                builder.skipped += n
            for i in range(0 if image is None else n):
                shape = {"name": "rect"} | {key: float(shapes[key][row + i]) for key in _NUMBERS["rect"]}
                attributes = boxes["region_attributes"][row + i]
                yield _Region(image or 0, shape, attributes, at / "regions" / i, file, i)
            row += n


def _looks_like(look: JsonPreview, head: bytes) -> tuple[int, str] | None:
    head = head.removeprefix(b"\xef\xbb\xbf")
    if "_via_img_metadata" in look.keys or "_via_settings" in look.keys:
        return SURE, "it has the keys of a VIA project"
    if look.top == "{" and _FIRST.match(head) and b'"regions"' in head:
        return SURE, "its entries have a filename and regions, as in VIA"
    if b"region_shape_attributes" in head.split(b"\n", 1)[0] and look.top != "{":
        return SURE, "its header has region_shape_attributes, as in VIA"
    return None


def sniff(source: Source) -> Sniff | None:
    """Look at the first keys, or at the header of a CSV file."""
    return sniff_json(source, _looks_like, _SUFFIXES)


def read(source: Source, builder: Builder, log: Log, options: ViaOptions) -> None:
    """Read the file, or those of a folder."""
    reader = Reader(source, builder, log, options)
    parts: list[_Region | _Part] = []
    for file in reader.choose(_looks_like, "VIA annotations", _SUFFIXES):
        head = source.head(file)
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
            _read_csv(reader, file, parts)
            continue
        value = (_PROJECT if b'"_via_' in head else _ANNOTATIONS).read(reader, file)
        if isinstance(value, Table):
            parts.append(_read_table(reader, value, At(source.full(file))))
        elif value is not Nothing:
            _read_json(reader, file, value, parts)
    attribute = _class_attribute(parts, source, log, options)
    for part in parts:
        if isinstance(part, _Part) and _add_part(reader, part, attribute, options.category):
            continue
        for region in part.regions(builder) if isinstance(part, _Part) else (part,):
            if not _read_region(reader, region, attribute, options.category):
                builder.skipped += 1
    reader.finish()


def _read_json(reader: Reader, file: str, value: Any, regions: list[_Region | _Part]) -> None:
    at = At(reader.source.full(file))
    record = reader.mapping(value, at)
    if record is None:
        return
    if "_via_img_metadata" in record or "_via_settings" in record:
        if "_via_img_metadata" not in record:
            reader.missing(at, "_via_img_metadata")
            return
        at = at / "_via_img_metadata"
        record = reader.mapping(record["_via_img_metadata"], at)
    for key, entry in (record or {}).items():
        here = at / key
        image = reader.mapping(entry, here)
        if image is None:
            continue
        reader.count_unread(image, _IMAGE)
        given = image.get("regions")
        listed: list[tuple[str | int, Any]] | None = None
        if isinstance(given, dict):
            inner = reader.mapping(given, here / "regions")
            listed = None if inner is None else list(inner.items())
        else:
            inner_list = reader.items(given, here / "regions")
            listed = None if inner_list is None else list(enumerate(inner_list))
        row = reader.image(image.get("filename"), here, field="filename")
        if row is None or listed is None:
            reader.builder.skipped += len(listed or ())
            continue
        home = here / "regions"
        rows = reader.rows_of(home)
        for i, (index, item) in enumerate(listed):
            location = home / index
            region = reader.mapping(item, location, row=True)
            parts = _parts(reader, region, location) if region is not None else None
            if parts is None:
                reader.builder.skipped += 1
                continue
            line = int(index) if str(index).isdigit() and len(str(index)) < 9 else i
            regions.append(_Region(row, *parts, location, rows, line))


def _read_table(reader: Reader, table: Table, at: At) -> _Part:
    """Read the images of a file in which everything is as usual."""
    if "_via_img_metadata" in table.columns:
        table, at = table["_via_img_metadata"], at / "_via_img_metadata"
    for what, filled in table.counted.items():
        reader.count(what, int(np.count_nonzero(filled)))
    part = _Part(table["regions"], [], [], [])
    for key, name in zip(table.names, table["filename"], strict=True):
        here = at / key
        image = reader.image(name, here, field="filename")
        part.images.append(image)
        part.lists.append(-1 if image is None else reader.rows_of(here / "regions"))
        part.places.append(here)
    return part


def _add_part(reader: Reader, part: _Part, attribute: str | None, default: str | None) -> bool:
    """Make boxes of the regions of a file; False, and nothing is done, if something about one is unusual."""
    boxes, held = part.boxes, part.boxes["region_attributes"]
    known = {id(value): _usual_attributes(value, attribute, default) for value in _distinct(held)}
    if None in known.values():
        return False
    columns = list(zip(*(known[id(value)] or () for value in held), strict=True)) or [(), (), ()]
    label, score, flags = columns
    shapes = boxes["shape_attributes"]
    xywh = np.stack([shapes[key] for key in _NUMBERS["rect"]], axis=1)
    wh = xywh[:, 2:]
    xyxy = np.concatenate([xywh[:, :2], xywh[:, :2] + wh], axis=1)
    numbers, marks = np.array(score, np.float64), np.array(flags, np.int64)
    add_boxes(reader, boxes, label, xyxy, part.images, part.lists, wh=wh, score=numbers, flags=marks)
    return True


def _usual_attributes(
    attributes: dict[str, Any], attribute: str | None, default: str | None
) -> tuple[str, float, int] | None:
    """Class, score and flags of a region; None where one needs a closer look."""
    label = None if attribute is None else attributes.get(attribute)
    label = default if label is None or label == "" else label
    score = attributes.get("score")
    if type(score) is int or (isinstance(score, str) and NUMBER_TEXT.fullmatch(score)):
        score = float(score)
    score = NAN if score is None else score
    if type(label) is not str or refuse_class(label) or type(score) is not float or abs(score) > 1e300:
        return None
    flags = Flag(0)
    for key, held in attributes.items():
        if key in (attribute, "score"):
            continue
        if key not in FLAG_NAMES:
            return None
        flags |= FLAG_NAMES[key] if is_set(held) else 0
    return label, score, int(flags)


def _distinct(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each of some objects once, in the order in which they come first."""
    return list({id(value): value for value in values}.values())


def _usual_object(value: Any) -> dict[str, Any] | None:
    return value if type(value) is dict else None if value else {}


_ENTRIES = Keyed(
    {
        "filename": TEXT,
        "regions": Each(
            {
                "shape_attributes": {
                    "name": frozenset({"rect"}),
                    **dict.fromkeys(_NUMBERS["rect"], NUMBER),
                },
                "region_attributes": Held(_usual_object),
            }
        ),
        "file_attributes": COUNTED,
        **dict.fromkeys(("size", "fileref", "base64_img_data"), ANY),
    }
)
_ANNOTATIONS = Records(_ENTRIES)
_ABOUT = "_via_settings _via_attributes _via_data_format_version _via_image_id_list".split()
_PROJECT = Records({"_via_img_metadata": _ENTRIES, **dict.fromkeys(_ABOUT, ANY)})


def _parts(reader: Reader, region: dict[str, Any], at: At) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The shape and the attributes of a region; None and an issue if one is not an object."""
    if "shape_attributes" not in region:
        reader.missing(at, "shape_attributes", row=True)
        return None
    shape = reader.mapping(region["shape_attributes"], at / "shape_attributes", row=True)
    given = region.get("region_attributes")
    attributes = reader.mapping(given, at / "region_attributes", row=True) if given else {}
    return None if shape is None or attributes is None else (shape, attributes)


def _read_csv(reader: Reader, file: str, regions: list[_Region | _Part]) -> None:
    path, log = reader.source.full(file), reader.log
    data = reader.source.read(file, log)
    errors = log.errors
    text = b"" if data is None else text_of(data, path, log)
    if data is None or log.errors > errors:
        return
    rows = csv.reader(io.StringIO(text.decode(), newline=""))
    columns: list[str] = []
    images: dict[str, int | None] = {}
    number_of = reader.builder.file(path)
    try:
        for row in rows:
            at = At(path, line=rows.line_num)
            if not row:
                continue
            if not columns:
                columns = [cell.strip().lstrip("#") for cell in row]
                for key in ("filename", "region_shape_attributes", "region_attributes"):
                    if key not in columns:
                        reader.missing(at, key)
                        return
                continue
            if len(row) != len(columns):
                expected = Trusted(f"{len(columns)} columns, as in the header")
                log.report(WRONG_COUNT, path, line=at.line, expected=expected, found=len(row))
                reader.builder.skipped += 1
                continue
            record = dict(zip(columns, row, strict=True))
            name = record["filename"]
            if name not in images:
                images[name] = reader.image(name, at, field="filename", file=number_of, line=at.line)
            _read_row(reader, record, images[name], at, number_of, regions)
    except csv.Error as e:
        expected, found = Trusted("cells of a CSV file"), Trusted(str(e))
        log.report(WRONG_COUNT, path, line=rows.line_num, expected=expected, found=found)


def _read_row(
    reader: Reader,
    record: dict[str, str],
    image: int | None,
    at: At,
    file: int,
    regions: list[_Region | _Part],
) -> None:
    parts: dict[str, Any] = {}
    for key in ("shape_attributes", "region_attributes"):
        name = "region_shape_attributes" if key == "shape_attributes" else key
        text = record[name].strip()
        parts[key] = reader.cell(text, at / name) if text else {}
    if image is None or Nothing in parts.values():
        reader.builder.skipped += 1
        return
    if parts["shape_attributes"] == {} and record.get("region_count", "0").strip() in ("0", ""):
        return  # an image without regions
    found = _parts(reader, parts, at)
    if found is None:
        reader.builder.skipped += 1
    else:
        regions.append(_Region(image, *found, at, file, at.line))


def _attributes(parts: Sequence[_Region | _Part]) -> Iterator[dict[str, Any]]:
    """The attributes of all regions of images that could be added; those that repeat perhaps once."""
    for part in parts:
        if isinstance(part, _Region):
            yield part.attributes
        else:
            added = np.repeat([image is not None for image in part.images], part.boxes.lengths)
            yield from _distinct(list(itertools.compress(part.boxes["region_attributes"], added)))


def _class_attribute(
    parts: Sequence[_Region | _Part], source: Source, log: Log, options: ViaOptions
) -> str | None:
    """The attribute that holds the class, decided over all regions; None if there is none."""
    held = list(_attributes(parts))
    if options.attribute is not None or not held:
        return options.attribute
    found = dict.fromkeys(key for attributes in held for key in attributes)
    names = [key for key in found if key not in FLAG_NAMES and key != "score"]
    if len(names) == 1:
        return names[0]
    by_word = {name.lower(): name for name in reversed(names)}
    for word in _USUAL:
        if word in by_word:
            others = ", ".join(sorted(set(names) - {by_word[word]}))
            log.note(
                f"{printable(source.path)}: the class is the region attribute {by_word[word]!r}; others are "
                f"{printable(others)} (-O attribute=NAME selects one)"
            )
            return by_word[word]
    if options.category is None:
        log.report(NO_ATTRIBUTE, source.path, found=", ".join(sorted(names)) or Trusted("none"))
    return None


def _read_region(reader: Reader, region: _Region, attribute: str | None, default: str | None) -> bool:
    """Make a box of a region; False, and an issue, if it cannot be one."""
    at, attributes = region.at, region.attributes
    if region.shape.get("name") in ("point", "polyline"):
        reader.count(f"{region.shape['name']} regions")
        return True
    location = _location(reader, region)
    if location is None:
        return False
    value = None if attribute is None else attributes.get(attribute)
    if isinstance(value, dict):  # a checkbox
        chosen = [key for key, checked in value.items() if is_set(checked)]
        value = chosen[0] if len(chosen) == 1 else None if not chosen else value
    if value is None or value == "":
        value = default
    if value is None:
        if attribute is not None:  # else one issue says it of all
            reader.missing(at, attribute, row=True)
        return False
    category = reader.category(value, at / "region_attributes" / (attribute or ""))
    score = reader.score(attributes.get("score"), at / "region_attributes" / "score", as_text=True)
    if category is None or score is None:
        return False
    flags = reader.flags({key: held for key, held in attributes.items() if key not in (attribute, "score")})
    corners, wh = location
    rows = {"file": region.file, "line": region.line}
    reader.box(region.image, category, corners, at, **rows, wh=wh, score=score, flags=flags)
    return True


def _location(reader: Reader, region: _Region) -> tuple[Corners, tuple[float, float] | None] | None:
    """Corners of a region, and width and height of a rectangle; None, and an issue, if it is no shape."""
    shape, at = region.shape, region.at / "shape_attributes"
    kind = reader.text(shape, "name", at, row=True)
    if kind is None:
        return None
    if kind in _NUMBERS:
        values = reader.members(shape, _NUMBERS[kind], at)
        if values is None:
            return None
        if kind == "rect":
            x, y, width, height = values
            return (x, y, x + width, y + height), (width, height)
        x, y, rx = values[:3]
        ry = values[-1]
        theta = shape.get("theta")
        if kind == "ellipse" and theta not in (None, 0):
            angle = reader.number(theta, at / "theta")
            if angle is None:
                return None
            if abs(angle) < 1e6:
                c, s = math.cos(angle), math.sin(angle)
                rx, ry = math.hypot(rx * c, ry * s), math.hypot(rx * s, ry * c)
        reader.outline(f"{kind}s", region.at)
        return (x - rx, y - ry, x + rx, y + ry), None
    if kind == "polygon":
        corners = _polygon(reader, region)
        return None if corners is None else (corners, None)
    reader.log.report(
        UNKNOWN_SHAPE, at.path, **(at / "name").where, field="name", value=kind, shapes="rect or polygon"
    )
    return None


def _polygon(reader: Reader, region: _Region) -> Corners | None:
    at = region.at / "shape_attributes"
    lists: list[list[float]] = []
    for key in ("all_points_x", "all_points_y"):
        if key not in region.shape:
            reader.missing(at, key, row=True)
            return None
        given = reader.items(region.shape[key], at / key, row=True)
        found = [reader.number(value, at / key / i) for i, value in enumerate(given or ())]
        values = [value for value in found if value is not None]
        if given is None or len(values) < len(found):
            return None
        lists.append(values)
    if len(lists[0]) != len(lists[1]) or not lists[0]:
        expected = Trusted("equally many values in all_points_x and all_points_y, at least one")
        sizes = Trusted(f"{len(lists[0])} and {len(lists[1])}")
        reader.log.report(WRONG_COUNT, at.path, **at.where, expected=expected, found=sizes)
        return None
    points = list(zip(*lists, strict=True))
    if not is_upright(points):
        reader.outline("polygons", region.at)
    return bounds(points)


# ----------------------------------------------------------------------------------------------- writing


def write(dataset: Dataset, target: Output, log: Log, options: ViaOptions) -> None:
    """Write a project, or CSV."""
    name = "" if target.single else "via_project.json"
    if not may_write(dataset, log) or (name and not target.plan([name], ["the annotations"], log)):
        return
    attribute = options.attribute or "class"
    regions = _regions(dataset, attribute)
    if target.single and target.target.lower().endswith(".csv"):
        text = io.StringIO(newline="")
        table = csv.writer(text, lineterminator="\n")
        table.writerow(HEADER)
        for image, rows in regions:
            for i, row in enumerate(rows):
                table.writerow([image, -1, "{}", len(rows), i, *map(dump, row.values())])
            if not rows:
                table.writerow([image, -1, "{}", 0, 0, "{}", "{}"])
        target.write(name, text.getvalue().encode())
        return
    used = [str(n) for n, flag in FLAG_NAMES.items() if dataset.boxes.has(flag).any()]
    held = [attribute, *used, *(["score"] if dataset.kind == "det" else [])]
    described = {key: {"type": "text", "description": "", "default_value": ""} for key in held}
    core = {"buffer_size": 18, "filepath": {}, "default_filepath": ""}
    parts = [
        f'"_via_settings": {dump({"core": core, "project": {"name": "annotations"}})}',
        '"_via_img_metadata": {\n'
        + ",\n".join(
            f"{dump(f'{image}-1')}: "
            + dump({"filename": image, "size": -1, "regions": rows, "file_attributes": {}})
            for image, rows in regions
        )
        + "}",
        f'"_via_attributes": {dump({"region": described, "file": {}})}',
        '"_via_data_format_version": "2.0.10"',
        f'"_via_image_id_list": {dump([f"{image}-1" for image in dataset.images.name])}',
    ]
    target.write(name, ("{" + ",\n".join(parts) + "}\n").encode())


def _regions(dataset: Dataset, attribute: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The regions of each image."""
    boxes, classes = dataset.boxes, dataset.categories.name
    low, wh = boxes.xyxy[:, :2].tolist(), short_wh(boxes).tolist()
    names = sorted(FLAG_NAMES)
    for image, rows in zip(dataset.images.name, groups(dataset), strict=True):
        found = []
        for i in rows:
            values = map(number, (*low[i], *wh[i]))
            shape = {"name": "rect", **dict(zip(_NUMBERS["rect"], values, strict=True))}
            attributes = {attribute: classes[boxes.category[i]]}
            attributes |= dict.fromkeys(flags_of(int(boxes.flags[i]), names), "1")
            if dataset.kind == "det":
                attributes["score"] = str(number(float(boxes.score[i])))
            found.append({"shape_attributes": shape, "region_attributes": attributes})
        yield image, found


FORMAT = Format(
    name="via",
    title="VGG Image Annotator (VIA)",
    use="annotation tools",
    written_by="VIA 1 and 2 JSON, VIA 2 CSV, projects",
    doc=__doc__ or "",
    suffixes=_SUFFIXES,
    begins=None,
    single=True,
    sniff=sniff,
    read=read,
    write=write,
    options=ViaOptions,
    keeps=frozenset({"extension", "empty", "score", "wh", *FLAG_NAMES}),
)
