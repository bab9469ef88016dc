"""VoTT 1 JSON: the frames of a video or the pictures of a folder, by name or number."""

from __future__ import annotations

from typing import Any

from odm.formats._contract import SURE
from odm.formats._shared.gather import Corners
from odm.formats._shared.items import BAD_SIZE, BadRecord, Item, Origin, Row, Rows
from odm.formats._shared.json_preview import JsonPreview
from odm.issues import printable

_EDGES = ("x1", "y1", "x2", "y2")
_REGION = frozenset({*_EDGES, *"id UID width height type tags name points box suggestedBy score".split()})
_BOXES = frozenset({"rect", "rectangle", "square"})


def looks_like_frames(look: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Whether the outermost keys are those of VoTT 1."""
    if look.top != "{" or look.keys.get("frames") != "{":
        return None
    if {"inputTags", "visitedFrames"} & look.keys.keys() or (b'"x1"' in head and b'"tags"' in head):
        return SURE, "it has frames with regions, as VoTT 1 has"
    return None


def read_frames(record: Item) -> None:
    """Read the frames, and those that were visited and have no region."""
    reader, tags, at = record.reader, record.get("inputTags") or "", record.at / "inputTags"
    if isinstance(tags, str):
        for tag in filter(None, map(str.strip, tags.split(","))):
            reader.category(tag, at, listed=True)
    else:
        for i, tag in enumerate(record.array("inputTags")):
            reader.category(tag, at / i, listed=True)
    frames = record.object("frames")
    visited = record.array("visitedFrames") if record.get("visitedFrames") else []
    if record.get("visitedFrames") and not visited:
        raise BadRecord
    names = [str(value) if type(value) is int else value for value in visited]
    for key in frames.record:
        regions = frames.rows(key)
        if not regions and names and key not in names:
            reader.count("pictures that nobody opened")
        else:
            _read_frame(key, regions)
    at = record.at / "visitedFrames"
    origin = Origin(reader.builder, at.path, at.pointer)
    for i, name in enumerate(names):
        if not isinstance(name, str) or name not in frames:
            reader.image(name, at / i, file=origin.number, line=i)


def _read_frame(name: str, regions: Rows) -> None:
    """Read one frame, whose size is that of the first region that says it."""
    sized = next((region for region in regions if region.get("width")), None)
    size = None if sized is None else sized.size("width", "height")
    image = None
    if size != BAD_SIZE:
        image = regions.reader.image(name, regions.at, size=size, file=regions.origin.number)
    regions.read(image, _read_region)


def _read_region(region: Row) -> None:
    kind = region.get("type", "rect")
    if not isinstance(kind, str) or kind.lower() not in _BOXES:
        region.reader.count(f"{kind} regions" if isinstance(kind, str) else "other regions")
        return
    if not region.get("tags"):
        region.missing("tags")
        return
    left, top, right, bottom = region.numbers(*_EDGES)
    score = region.score("score")
    region.count_unread(_REGION)
    add_tagged(region, (left, top, right, bottom), score=score)


def add_tagged(region: Row, corners: Corners, **columns: Any) -> None:
    """Add a box for each tag of a region, unless there was a fault in it."""
    if region.bad:
        return
    reader, tags = region.reader, region.array("tags")
    categories = [reader.category(tag, region.at / "tags" / i) for i, tag in enumerate(tags)]
    for category in categories:
        if category is not None:
            region.add(category, corners, **columns)
    if None in categories:
        region.fault()
    if len(tags) > 1:
        reader.log.note(f"{printable(reader.source.path)}: a region with several tags is as many boxes")
