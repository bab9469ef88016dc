"""VoTT JSON: a project or its single pictures, read and written."""

from __future__ import annotations

from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE
from odm.formats._shared.gather import At
from odm.formats._shared.json_preview import JsonPreview
from odm.formats._shared.json_values import Nothing, Reader, dump, groups, may_write, number
from odm.formats._shared.number_text import short_wh
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
        value, at = reader.value(file), At(source.full(file))
        record = None if value is Nothing else reader.mapping(value, at)
        if record is None:
            continue
        if "frames" in record:
            read_frames(reader, record, at)
            continue
        if "assets" not in record:
            _read_asset(reader, record, at)
            continue
        for i, item in enumerate(reader.items(record.get("tags"), at / "tags") or ()):
            tag = reader.mapping(item, at / "tags" / i)
            name = None if tag is None else reader.text(tag, "name", at / "tags" / i)
            if name is not None:
                reader.category(name, at / "tags" / i / "name", listed=True)
        assets = reader.mapping(record["assets"], at / "assets")
        for key, value in (assets or {}).items():
            asset = reader.mapping(value, at / "assets" / key)
            if asset is not None:
                _read_asset(reader, asset, at / "assets" / key)
    reader.finish()


def _read_asset(reader: Reader, record: dict[str, Any], at: At) -> None:
    """Read a picture and its regions."""
    here = at / "asset"
    if "asset" not in record:
        reader.missing(at, "asset")
        return
    asset = reader.mapping(record["asset"], here)
    regions = reader.items(record.get("regions"), at / "regions")
    if asset is None or regions is None:
        reader.builder.skipped += len(regions or ())
        return
    if asset.get("state") == 0 and not regions:
        reader.count("pictures that nobody opened")
        return
    given = {} if asset.get("size") is None else reader.mapping(asset["size"], here / "size")
    size = (0, 0)
    if given is not None:
        known = reader.size(given.get("width"), given.get("height"), here / "size", ("width", "height"))
        image = None
        if known != size:
            rows = reader.rows_of(at)
            image = reader.image(asset.get("name"), here, field="name", size=known, file=rows)
    if given is None or image is None:
        reader.builder.skipped += len(regions)
        return
    rows = reader.rows_of(at / "regions")
    for i, region in enumerate(regions):
        if not _read_region(reader, region, at / "regions" / i, image, rows, i):
            reader.builder.skipped += 1


def _read_region(reader: Reader, value: Any, at: At, image: int, rows: int, line: int) -> bool:
    """Read one region; False, and an issue, if it should be a box and cannot be one."""
    region = reader.mapping(value, at, row=True)
    if region is None:
        return False
    kind = region.get("type", "RECTANGLE")
    if kind not in _BOXES | _SHAPE:
        reader.count(f"{kind} regions" if isinstance(kind, str) else "other regions")
        return True
    for key in ("boundingBox", "tags"):
        if not region.get(key):
            reader.missing(at, key, row=True)
            return False
    box = reader.mapping(region["boundingBox"], at / "boundingBox", row=True)
    values = None if box is None else reader.members(box, _PLACE, at / "boundingBox")
    score = reader.score(region.get("score"), at / "score")
    if values is None or score is None:
        return False
    reader.count_unread(region, _REGION)
    if kind in _SHAPE:
        reader.outline("polygons", at)
    left, top, width, height = values
    corners = left, top, left + width, top + height
    columns: dict[str, Any] = {"file": rows, "line": line, "wh": (width, height), "score": score}
    return add_tagged(reader, region["tags"], at, image, corners, **columns)


def write_project(dataset: Dataset, target: Output, log: Log) -> None:
    """Write one file."""
    name = "" if target.single else "vott-export.json"
    if not may_write(dataset, log) or (name and not target.plan([name], ["the boxes"], log)):
        return
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories.name
    wh = short_wh(boxes)
    entries = []
    for row, members in enumerate(groups(dataset)):
        regions = []
        for i in members:
            left, top, width, height = map(number, [*boxes.xyxy[i, :2].tolist(), *wh[i].tolist()])
            region: dict[str, Any] = {
                "id": f"r{i + 1}",
                "type": "RECTANGLE",
                "tags": [classes[boxes.category[i]]],
                "boundingBox": {"height": height, "width": width, "left": left, "top": top},
            }
            if dataset.kind == "det":
                region["score"] = number(float(boxes.score[i]))
            regions.append(region)
        key = f"{row + 1:032x}"
        asset = {
            "format": images.name[row].rpartition(".")[2],
            "id": key,
            "name": images.name[row],
            "path": f"file:{images.name[row]}",
            "size": {"width": int(images.width[row]), "height": int(images.height[row])},
            "state": 2 if regions else 1,
            "type": 1,
        }
        entries.append(f"{dump(key)}: {dump({'asset': asset, 'regions': regions, 'version': '2.1.0'})}")
    tags = [{"name": name, "color": f"#{(i * 2654435761) % 2**24:06x}"} for i, name in enumerate(classes, 1)]
    body = ",\n".join(entries)
    head = f'"name": "odm", "version": "2.1.0", "tags": {dump(tags)}'
    target.write(name, f'{{{head},\n"assets": {{\n{body}\n}}}}\n'.encode())
