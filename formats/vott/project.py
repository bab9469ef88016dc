"""VoTT JSON: a project or its single pictures, read and written."""

from __future__ import annotations

import contextlib
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE
from odm.formats._shared.items import BAD_SIZE, BadRecord, Item, Row, file_item, images_of, one_file
from odm.formats._shared.json_preview import JsonPreview
from odm.formats._shared.json_values import Reader, dump
from odm.formats._shared.pictures import ImageOptions
from odm.formats.vott.frames import add_tagged, looks_like_frames, read_frames
from odm.issues import Log, printable
from odm.tables import Builder, Dataset

_PLACE = ("left", "top", "width", "height")
_BOXES = frozenset({"RECTANGLE", "SQUARE"})
_REGION = frozenset({"id", "type", "tags", "boundingBox", "points", "score"})
_SHAPE = frozenset({"POLYGON"})


def looks_like(look: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Whether the outermost keys are those of a project or of a picture of VoTT."""
    if look.top == "{" and look.keys.get("asset") == "{" and look.keys.get("regions", "[") == "[":
        return SURE, "it has an asset and its regions, as VoTT has"
    if look.top == "{" and look.keys.get("assets") == "{" and look.keys.get("tags", "[") == "[":
        return SURE, "it has assets, as a project of VoTT has"
    return looks_like_frames(look, head)


def read_project(source: Source, builder: Builder, log: Log, options: ImageOptions) -> None:
    """Read the exports of a source, or where there is none the files of single pictures."""
    reader = Reader(source, builder, log, options, (source.path,) if source.is_dir else (), sized=True)
    files = reader.choose(looks_like, "VoTT JSON")
    single = [file for file in files if file.lower().endswith("-asset.json")]
    if single and len(single) < len(files):
        log.note(f"{printable(source.path)}: the export is read, and not the files of single pictures")
        files = [file for file in files if file not in single]
    for file in log.track(files, "reading"):
        with contextlib.suppress(BadRecord):
            record = file_item(reader, file)
            if "frames" in record:
                read_frames(record)
            elif "assets" in record:
                _read_assets(record)
            else:
                _read_asset(record)
    reader.finish()


def _read_assets(record: Item) -> None:
    """Read the classes and pictures of a project."""
    for tag in record.items("tags"):
        with contextlib.suppress(BadRecord):
            tag.reader.category(tag.text("name"), tag.at / "name", listed=True)
    for _, asset in record.object("assets").objects():
        with contextlib.suppress(BadRecord):
            _read_asset(asset)


def _read_asset(record: Item) -> None:
    """Read a picture and its regions."""
    record.need("asset")
    regions, asset = record.rows("regions"), record.object("asset")
    if asset.get("state") == 0 and not regions:
        asset.reader.count("pictures that nobody opened")
        return
    size = asset.object("size", optional=True).size("width", "height")
    regions.read(None if size == BAD_SIZE else asset.image("name", size=size), _read_region)


def _read_region(region: Row) -> None:
    kind = region.get("type", "RECTANGLE")
    if not isinstance(kind, str) or kind not in _BOXES | _SHAPE:
        region.reader.count(f"{kind} regions" if isinstance(kind, str) else "other regions")
        return
    for key in ("boundingBox", "tags"):
        if not region.get(key):
            region.missing(key)
            return
    left, top, width, height = region.object("boundingBox").numbers(*_PLACE)
    score = region.score("score")
    region.count_unread(_REGION)
    if kind in _SHAPE:
        region.outline("polygons")
    corners = left, top, left + width, top + height
    add_tagged(region, corners, wh=(width, height), score=score)


def write_project(dataset: Dataset, target: Output, log: Log) -> None:
    """Write one file."""
    name = one_file(dataset, target, "vott-export.json", "boxes", log)
    if name is None:
        return
    entries = []
    for image in images_of(dataset):
        regions: list[dict[str, Any]] = []
        for box in image.boxes:
            place = {"height": box.wh[1], "width": box.wh[0], "left": box.xyxy[0], "top": box.xyxy[1]}
            region = {"id": f"r{box.row + 1}", "type": "RECTANGLE", "tags": [box.label], "boundingBox": place}
            regions.append({**region, **box.scored("score")})
        key = f"{image.row + 1:032x}"
        asset = {
            "format": image.name.rpartition(".")[2],
            "id": key,
            "name": image.name,
            "path": f"file:{image.name}",
            "size": {"width": image.width, "height": image.height},
            "state": 2 if regions else 1,
            "type": 1,
        }
        entries.append(f"{dump(key)}: {dump({'asset': asset, 'regions': regions, 'version': '2.1.0'})}")
    classes = enumerate(dataset.categories.name, 1)
    tags = [{"name": name, "color": f"#{(i * 2654435761) % 2**24:06x}"} for i, name in classes]
    body = ",\n".join(entries)
    head = f'"name": "odm", "version": "2.1.0", "tags": {dump(tags)}'
    target.write(name, f'{{{head},\n"assets": {{\n{body}\n}}}}\n'.encode())
