"""VoTT 1 JSON: the frames of a video or the pictures of a folder, by name or number."""

from __future__ import annotations

from typing import Any

from odm.formats._contract import SURE
from odm.formats._shared.gather import At
from odm.formats._shared.json_preview import JsonPreview
from odm.formats._shared.json_values import Reader
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


def read_frames(reader: Reader, record: dict[str, Any], at: At) -> None:
    """Read the frames, and those that were visited and have no region."""
    tags = record.get("inputTags") or ""
    here = at / "inputTags"
    if isinstance(tags, str):
        for tag in filter(None, map(str.strip, tags.split(","))):
            reader.category(tag, here, listed=True)
    else:
        for i, tag in enumerate(reader.items(tags, here) or ()):
            reader.category(tag, here / i, listed=True)
    frames = reader.mapping(record["frames"], at / "frames")
    visited = reader.items(record.get("visitedFrames") or [], at / "visitedFrames")
    if frames is None or visited is None:
        return
    names = [str(value) if type(value) is int else value for value in visited]
    for key, value in frames.items():
        place = at / "frames" / key
        regions = reader.items(value, place)
        if regions == [] and names and key not in names:
            reader.count("pictures that nobody opened")
        elif regions is not None:
            _read_frame(reader, key, regions, place)
    rows = reader.rows_of(at / "visitedFrames")
    for i, name in enumerate(names):
        if not isinstance(name, str) or name not in frames:
            reader.image(name, at / "visitedFrames" / i, file=rows, line=i)


def _read_frame(reader: Reader, name: str, regions: list[Any], at: At) -> None:
    """Read one frame, whose size is that of the first region that says it."""
    sized = next((i for i, r in enumerate(regions) if isinstance(r, dict) and r.get("width")), None)
    size = None
    if sized is not None:
        given = regions[sized]
        size = reader.size(given["width"], given.get("height"), at / sized, ("width", "height"))
    rows = reader.rows_of(at)
    image = None if size == (0, 0) else reader.image(name, at, size=size, file=rows)
    if image is None:
        reader.builder.skipped += len(regions)
        return
    for i, region in enumerate(regions):
        if not _read_region(reader, region, at / i, image, rows, i):
            reader.builder.skipped += 1


def _read_region(reader: Reader, value: Any, at: At, image: int, rows: int, line: int) -> bool:
    """Read one region; False, and an issue, if it should be a box and cannot be one."""
    region = reader.mapping(value, at, row=True)
    if region is None:
        return False
    kind = region.get("type", "rect")
    if not isinstance(kind, str) or kind.lower() not in _BOXES:
        reader.count(f"{kind} regions" if isinstance(kind, str) else "other regions")
        return True
    if not region.get("tags"):
        reader.missing(at, "tags", row=True)
        return False
    values = reader.members(region, _EDGES, at)
    score = reader.score(region.get("score"), at / "score")
    if values is None or score is None:
        return False
    reader.count_unread(region, _REGION)
    corners = values[0], values[1], values[2], values[3]
    return add_tagged(reader, region["tags"], at, image, corners, file=rows, line=line, score=score)


def add_tagged(reader: Reader, given: Any, at: At, image: int, corners: Any, **columns: Any) -> bool:
    """Add a box for each tag of a region; False, and an issue, if one cannot be a class."""
    tags = reader.items(given, at / "tags", row=True)
    if tags is None:
        return False
    categories = [reader.category(tag, at / "tags" / i) for i, tag in enumerate(tags)]
    for category in categories:
        if category is not None:
            reader.box(image, category, corners, at, **columns)
    if len(tags) > 1:
        reader.log.note(f"{printable(reader.source.path)}: a region with several tags is as many boxes")
    return None not in categories
