"""VoTT: the CSV and the JSON that the Visual Object Tagging Tool exports, of version 1 and 2.

CSV has one row per box, with exactly these columns in this order (https://github.com/microsoft/VoTT)::

    "image","xmin","ymin","xmax","ymax","label"
    "street.jpg",10,20,110,220,"person"

Edges are in pixels, unchanged. A row with only a name is an image without objects, which VoTT itself does not
export. Quotes are optional. In a folder, all CSV files are read.

JSON is one file for the project, ``NAME-export.json``, or one for each picture, ``ID-asset.json``, as VoTT 2
keeps them beside the project::

    {"name": "streets", "version": "2.1.0", "tags": [{"name": "person", "color": "#5db300"}],
     "assets": {"ID": {"asset": {"id": "ID", "name": "street.jpg", "path": "file:/C:/street.jpg", "state": 2,
                                 "size": {"width": 640, "height": 480}, "type": 1},
                       "regions": [{"id": "R", "type": "RECTANGLE", "tags": ["person"],
                                    "boundingBox": {"left": 10, "top": 20, "width": 100, "height": 200}}]}}}

``boundingBox`` is in pixels, read and written unchanged. Polygons are outlines or, where only boxes are
needed, are counted and read as their bounding box, with a warning; without a ``boundingBox`` the box is that
around their points. Points and lines are not boxes and are
counted. A region with several tags is read as one box per tag. ``tags`` of the project are the classes, in
that order. Pictures that were never opened (``state`` 0) are left out and counted. If a folder contains an
export, the files of single pictures beside it are not read.

Detections have a seventh column ``score``, or a ``score`` in each region, which VoTT itself does not have.
Sizes of images in CSV come from ``--images``, ``--image-size`` or ``--image-sizes``, or the pictures in the
folder.

VoTT 1 has one JSON file with the regions of each picture, or each frame of a video, by its name or number::

    {"frames": {"street.jpg": [{"x1": 10, "y1": 20, "x2": 110, "y2": 220, "width": 640, "height": 480,
                                "type": "Rectangle", "tags": ["person"], "id": 1}]},
     "inputTags": "person,car", "visitedFrames": ["street.jpg", "empty.jpg"]}

``x1 y1 x2 y2`` are pixels, read unchanged; ``width`` and ``height`` are the size of the picture, and
``inputTags`` the classes in their order. Frames in ``visitedFrames`` without regions are images without
objects; other frames without regions were never opened, and are left out and counted.

Writing: one CSV file, or with ``-O dialect=json`` one JSON file of VoTT 2, which also keeps the sizes of
images and the order of classes.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from msgspec.structs import replace

from odm.files import Output, Source
from odm.formats._contract import SURE, Sniff, format_of, option
from odm.formats._shared.codes import WRONG_COUNT
from odm.formats._shared.json.items import (
    BAD_SIZE,
    BadRecord,
    Item,
    Origin,
    Row,
    iter_images,
    plan_file,
    read_item,
)
from odm.formats._shared.json.preview import JsonPreview, sniff_json
from odm.formats._shared.json.values import Reader, choose_files, dump, find_bounds
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.tables.csv_files import (
    NO_HEADER,
    format_box_lines,
    is_number,
    iter_cells,
    read_head_rows,
    read_tables,
)
from odm.formats._shared.tables.rows import Columns, TableReader
from odm.formats._shared.text.numbers import to_decimals
from odm.issues import Code, Log, printable
from odm.tables import Builder, Dataset

_KEYS = declare_keys(
    "frames{} framerate inputTags suggestiontype scd visitedFrames tag_colors x1 y1 x2 y2 width height "
    "box UID id type tags name points suggestedBy score asset assets{} format path size state regions "
    "version boundingBox left top x y color"
)
HEADER = ["image", "xmin", "ymin", "xmax", "ymax", "label"]
_HEADERS = (HEADER, [*HEADER, "score"])
_LAYOUT = Columns(
    columns=("image", *HEADER[1:5], "class", "score"),
    roles={"image": 0, "left": 1, "top": 2, "right": 3, "bottom": 4, "class": 5},
    has_ids=True,
    lenient=True,
)
_PLACE = ("left", "top", "width", "height")
_SHAPES = frozenset({"RECTANGLE", "SQUARE", "POLYGON"})
_OLD_EDGES = ("x1", "y1", "x2", "y2")
_OLD_SHAPES = frozenset({"rect", "rectangle", "square"})
NO_TAG = Code(
    "vott-region-without-tag",
    "error",
    "the region has no tag, and so no class",
    "give it a tag in VoTT and export again, or delete the region",
    "A region that is drawn while no tag is active has none until one is chosen.",
    row=True,
)
_TAGS = "a region with several tags is as many boxes"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class VottOptions(ImageOptions):
    """Options of VoTT."""

    dialect: str = option("csv", "which export to write", choices=("csv", "json"), side="write")


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Recognise an asset, an export or a file of VoTT 1 by the outermost keys and how values begin."""
    if preview.top == "{" and preview.keys.get("asset") == "{" and preview.keys.get("regions", "[") == "[":
        return SURE, "it has an asset and its regions, as VoTT has"
    if preview.top == "{" and preview.keys.get("assets") == "{" and preview.keys.get("tags", "[") == "[":
        return SURE, "it has assets, as a project of VoTT has"
    if preview.top != "{" or preview.keys.get("frames") != "{":
        return None
    if {"inputTags", "visitedFrames"} & preview.keys.keys() or (b'"x1"' in head and b'"tags"' in head):
        return SURE, "it has frames with regions, as VoTT 1 has"
    return None


def sniff(source: Source) -> Sniff | None:
    """Recognise tables, if all have the header and numbers above 1, and JSON by the outermost keys.

    Numbers up to 1 are fractions of the image: a table of these is not VoTT's, though it has its header.
    """
    files = source.with_suffix(".csv")
    for file in files:
        rows = read_head_rows(source, file)
        coordinates = [float(cell) for cells in rows[1:] for cell in cells[1:5] if is_number(cell)]
        if not rows or rows[0] not in _HEADERS or (coordinates and max(coordinates) <= 1):
            return sniff_json(source, looks_like)
    if files:
        return Sniff(SURE, f"the header is {','.join(HEADER)}, as in VoTT")
    return sniff_json(source, looks_like)


def read(source: Source, builder: Builder, log: Log, options: VottOptions) -> None:
    """Read a file, or the CSV or JSON files of a folder."""
    # JSON that does not look like VoTT may be damaged: `choose_files` says so. A single file that does not
    # end in .json is a table, whatever its suffix.
    has_json = bool(source.with_suffix(".json"))
    has_tables = bool(source.with_suffix(".csv")) if source.is_dir else not has_json
    if sniff_json(source, looks_like) is None and (has_tables or not has_json):
        _read_tables(source, builder, log, options)
        return
    reader = Reader(source, builder, log, options, sized=True, keys=_KEYS)  # the files state image sizes
    files = choose_files(source, looks_like, "VoTT JSON", log)
    asset_files = [file for file in files if file.lower().endswith("-asset.json")]
    if asset_files and len(asset_files) < len(files):
        log.note(f"{printable(source.path)}: the export is read, and not the files of single pictures")
        files = [file for file in files if file not in asset_files]
    for file in log.track(files, "reading"):
        with contextlib.suppress(BadRecord):
            record = read_item(reader, file)
            if "frames" in record:
                _read_frames(record)
            elif "assets" not in record:
                _read_asset(record)
            else:
                for tag in record.items("tags"):
                    with contextlib.suppress(BadRecord):
                        reader.category(tag.text("name"), tag.location / "name", listed=True)
                for _, asset in record.object("assets").objects():
                    with contextlib.suppress(BadRecord):
                        _read_asset(asset)
    reader.finish()


def _read_asset(record: Item) -> None:
    """Add the image of an asset and its regions; one that nobody opened in VoTT is counted."""
    record.need("asset")
    regions, asset = record.rows("regions"), record.object("asset")
    if asset.get("state") == 0 and not regions:
        asset.reader.count("pictures that nobody opened")
        return
    size = asset.object("size", optional=True).size("width", "height")
    image = None if size == BAD_SIZE else asset.image("name", size=size)  # None skips the regions
    regions.read(image, _read_region)


def _read_region(region: Row) -> None:
    """Add an object for each tag of a region, which is a box or a polygon."""
    kind = region.get("type", "RECTANGLE")
    if not isinstance(kind, str) or kind not in _SHAPES:
        region.reader.count(f"{kind} regions" if isinstance(kind, str) else "other regions")
        return
    has_outline = kind == "POLYGON" and region.get("points")
    if not region.get("boundingBox") and not has_outline:
        region.report_missing("boundingBox")
        return
    if not _has_tags(region):
        return
    points: list[list[float]] = []
    if has_outline and (region.wants or not region.get("boundingBox")):
        points = [point.numbers("x", "y") for point in region.all_objects("points", "a list of points")]
        region.draw("polygons", [points], counted_as="polygons")
    elif kind == "POLYGON":
        region.note_outline("polygons")
    if region.get("boundingBox"):
        corners, wh = region.object("boundingBox").xywh(*_PLACE)
    else:
        corners, wh = find_bounds(points), None
    score = region.score("score")
    if not region.is_bad:
        tags = region.array("tags")
        region.add_labelled(tags, region.location / "tags", _TAGS, corners, wh=wh, score=score)


def _has_tags(region: Row) -> bool:
    """Whether a region has tags, which are its classes. Reports an issue if it has none."""
    if not region.get("tags"):
        region.report(NO_TAG)
        region.mark_bad()
    return bool(region.get("tags"))


def _read_frames(record: Item) -> None:
    """Add the images of VoTT 1: frames with regions, and visited frames without any."""
    reader, tags, location = record.reader, record.get("inputTags") or "", record.location / "inputTags"
    if isinstance(tags, str):
        for tag in filter(None, map(str.strip, tags.split(","))):
            reader.category(tag, location, listed=True)
    else:
        for i, tag in enumerate(record.array("inputTags")):
            reader.category(tag, location / i, listed=True)
    frames = record.object("frames")
    visited_frames = record.array("visitedFrames") if record.get("visitedFrames") else []
    if record.get("visitedFrames") and not visited_frames:  # no list, which `array` has reported
        raise BadRecord
    names = [str(value) if type(value) is int else value for value in visited_frames]
    # Frames with regions, or visited; without a list of visited frames all are.
    for key in frames.record:
        regions = frames.rows(key)
        if not regions and names and key not in names:
            reader.count("pictures that nobody opened")
        else:
            # The size is that of the first region that says it.
            region_with_size = next((region for region in regions if region.get("width")), None)
            size = None if region_with_size is None else region_with_size.size("width", "height")
            image = None
            if size != BAD_SIZE:
                image = reader.image(key, regions.location, size=size, file=regions.origin.number)
            regions.read(image, _read_old_region)
    # Visited frames that have no entry; what is no text is reported by `image`.
    location = record.location / "visitedFrames"
    origin = Origin(reader.builder, location.path, location.pointer)
    for i, name in enumerate(names):
        if not isinstance(name, str) or name not in frames:
            reader.image(name, location / i, file=origin.number, line=i)


def _read_old_region(region: Row) -> None:
    """Add an object for each tag of a region of VoTT 1, which is a box."""
    kind = region.get("type", "rect")
    if not isinstance(kind, str) or kind.lower() not in _OLD_SHAPES:
        region.reader.count(f"{kind} regions" if isinstance(kind, str) else "other regions")
        return
    if not _has_tags(region):
        return
    left, top, right, bottom = region.numbers(*_OLD_EDGES)
    score = region.score("score")
    edges = left, top, right, bottom
    if not region.is_bad:
        region.add_labelled(region.array("tags"), region.location / "tags", _TAGS, edges, score=score)


def _read_tables(source: Source, builder: Builder, log: Log, options: ImageOptions) -> None:
    """Read CSV tables; rows with a wrong number of cells are reported and left out."""
    table = TableReader(source, builder, log, options)
    for path, rows in read_tables(source, builder, log, options):
        _, header = rows[0] if rows else (0, [])
        if header not in _HEADERS:
            shown = repr(",".join(header)) if header else "an empty file"
            log.report(NO_HEADER, path, line=1 if header else 0, found=shown)
            continue
        n_columns, kept_rows = len(header), []
        for line, cells in rows[1:]:
            if len(cells) == n_columns:
                kept_rows.append((line, cells))
            else:
                expected = f"{n_columns} cells as in the header"
                log.report(WRONG_COUNT, path, line=line, expected=expected, found=str(len(cells)))
                builder.skipped += 1
        # The other header has a seventh column, the score.
        layout = _LAYOUT if header == HEADER else replace(_LAYOUT, roles={**_LAYOUT.roles, "score": 6})
        table.add(path, layout, kept_rows)
    table.finish()


def write(dataset: Dataset, target: Output, log: Log, options: VottOptions) -> None:
    """Write a CSV table, or one JSON export."""
    if options.dialect == "csv":
        _write_table(dataset, target, log)
        return
    name = plan_file(dataset, target, "vott-export.json", "boxes", log)
    if name is None:
        return
    entries = []
    for image in iter_images(dataset):
        regions: list[dict[str, Any]] = []
        for box in image.boxes:
            geometry = {"height": box.wh[1], "width": box.wh[0], "left": box.xyxy[0], "top": box.xyxy[1]}
            kind = "POLYGON" if box.outlines else "RECTANGLE"
            region: dict[str, Any] = {"id": f"r{box.row + 1}", "type": kind, "tags": [box.label]}
            region["boundingBox"] = geometry
            if box.outlines:
                region["points"] = [{"x": x, "y": y} for x, y in box.outlines[0]]
            regions.append({**region, **box.score_field("score")})
        key = f"{image.row + 1:032x}"
        asset = {
            "format": image.name.rpartition(".")[2],
            "id": key,
            "name": image.name,
            "path": f"file:{image.name}",
            "size": {"width": image.width, "height": image.height},
            "state": 2 if regions else 1,  # tagged, or only visited
            "type": 1,
        }
        entries.append(f"{dump(key)}: {dump({'asset': asset, 'regions': regions, 'version': '2.1.0'})}")
    classes = enumerate(dataset.categories.name, 1)
    # The multiplier scatters small numbers over all colours, so that no two classes look alike.
    tags = [{"name": name, "color": f"#{(i * 2654435761) % 2**24:06x}"} for i, name in classes]
    body = ",\n".join(entries)
    head = f'"name": "odm", "version": "2.1.0", "tags": {dump(tags)}'
    target.write(name, f'{{{head},\n"assets": {{\n{body}\n}}}}\n'.encode())


def _write_table(dataset: Dataset, target: Output, log: Log) -> None:
    """Write a row for each box, and one with empty cells for each image without boxes."""
    name = "" if target.single else "vott-export.csv"
    if name and not target.plan([name], ["the boxes"], log):
        return
    boxes, is_detections = dataset.boxes, dataset.kind == "det"
    images, classes = ([_quote(n) for n in table.name] for table in (dataset.images, dataset.categories))
    texts = to_decimals(boxes.xyxy.ravel())
    columns = [iter_cells(images, boxes.image), *(texts[k::4] for k in range(4))]
    columns.append(iter_cells(classes, boxes.category))
    if is_detections:
        columns.append(to_decimals(boxes.score))
    header = _HEADERS[is_detections]  # the second has a score
    empty_rows = [image + "," * (len(header) - 1) for image in images]
    lines = [",".join(map(_quote, header)), *format_box_lines(dataset, ",", columns, empty_rows)]
    target.write(name, "".join(f"{line}\n" for line in lines).encode())


def _quote(text: str) -> str:
    """A cell in quotation marks, as VoTT writes all."""
    return '"' + text.replace('"', '""') + '"'


def adapt(options: VottOptions) -> dict[str, Any]:
    """Declare what the JSON export keeps."""
    if options.dialect == "csv":
        return {}
    keeps = frozenset({"size", "extension", "empty", "unused", "order", "score", "wh", "polygon"})
    return {"suffixes": (".json",), "keeps": keeps}


FORMAT = format_of(
    __name__,
    title="VoTT CSV and JSON",
    use="annotation tools",
    written_by="VoTT 2 CSV and JSON (export, and one file per asset), VoTT 1 JSON",
    suffixes=(".csv",),
    looks_at=(".csv", ".json"),
    begins="[{",
    single=True,
    holds=("asset", "frames", "xmin"),
    keeps=frozenset({"extension", "empty", "score"}),
    shape_options={"polygon": "dialect=json"},
)
