"""SuperAnnotate JSON: one file per image, of a vector project.

Specification: "Vector JSON" in the documentation of SuperAnnotate
(https://doc.superannotate.com/docs/vector-json)::

    {"metadata": {"name": "a.jpg", "width": 640, "height": 480, "status": "Completed"},
     "instances": [{"type": "bbox", "classId": 1, "className": "person", "probability": 100,
                    "points": {"x1": 10, "y1": 20, "x2": 110, "y2": 220}, "attributes": []}],
     "tags": [], "comments": []}

``x1 y1`` and ``x2 y2`` are left, top, right and bottom in pixels, read and written unchanged. The older
export ``a.jpg___objects.json`` is only the list of instances, in which one with ``type`` ``meta``, called
``imageAttributes``, gives the size. Both are read.

Polygons, rotated boxes and ellipses are counted and read as their bounding boxes, with a warning. Points,
polylines, cuboids, templates, tags and attributes are counted but not read.

``classes.json``, in the folder or in ``classes/``, gives the classes and their order; each box has the name
of its class as well.

Detections are instances whose ``creationType`` is ``Prediction`` or ``Preannotation``: their ``probability``,
0 to 100, divided by 100, is the score (a ``score`` beside it, written where the division would lose digits,
takes precedence). If all instances are, the files contain detections. If only some are, they are read as
ground truth without these, with a warning. ``--kind`` overrides this.

A folder called ``train``, ``val``, ``test`` or similar gives the split. Writing: ``IMAGE.json`` for each
image and ``classes/classes.json``, with ids from 1.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE, Format, Sniff
from odm.formats._shared.codes import NO_FILES
from odm.formats._shared.gather import NAN, At, Corners
from odm.formats._shared.json_preview import JsonPreview
from odm.formats._shared.json_values import (
    Nothing,
    Reader,
    bounds,
    dump,
    groups,
    is_upright,
    may_write,
    number,
    sniff_json,
)
from odm.formats._shared.splits import SplitOptions, files_of_split, split_of
from odm.issues import Log, Trusted
from odm.tables import Builder, Dataset

_TOP = frozenset({"metadata", "instances", "tags", "comments"})
_INSTANCE = frozenset(
    (
        "id type classId className probability points groupId pointLabels locked visible trackingId error "
        "createdAt createdBy creationType score updatedAt updatedBy isLocked exclude cx cy rx ry angle"
    ).split()
)
_MADE = frozenset({"Prediction", "Preannotation"})
_CORNERS = ("x1", "y1", "x2", "y2")
_OLD = "___objects.json"
_CLASSES = "classes.json"


def _looks_like(look: JsonPreview, head: bytes) -> tuple[int, str] | None:
    if look.top == "{" and look.keys.get("metadata") == "{" and look.keys.get("instances", "[") == "[":
        if "instances" in look.keys or {"tags", "comments"} & look.keys.keys():
            return SURE, "it has metadata and instances of one image, as SuperAnnotate has"
        return None
    first = look.first.get("", {})
    if (
        look.top == "["
        and first.get("type") == '"'
        and (b'"className"' in head or b'"imageAttributes"' in head)
    ):
        return SURE, "it is a list of instances with type and classId, as SuperAnnotate has"
    return None


def sniff(source: Source) -> Sniff | None:
    """Look at the outermost keys."""
    return sniff_json(source, _looks_like)


# ------------------------------------------------------------------------------------------------ reading


def read(source: Source, builder: Builder, log: Log, options: SplitOptions) -> None:
    """Read the files one by one."""
    reader = Reader(source, builder, log, options, (source.path,) if source.is_dir else (), sized=True)
    files = source.with_suffix(".json") if source.is_dir else [""]
    lists = [file for file in files if file.rpartition("/")[2].lower() == _CLASSES]
    files = [file for file in files if file not in lists]
    if not files:
        log.report(NO_FILES, source.path, expected=Trusted("JSON of SuperAnnotate"), n=len(source.files))
    for file in lists:
        _read_classes(reader, file)
    for file in log.track(files_of_split(files, split_of, options.split, source, log), "reading"):
        value = reader.value(file)
        if value is not Nothing:
            _read_image(reader, file, value)
    reader.finish(field="probability")


def _read_classes(reader: Reader, file: str) -> None:
    """Add the classes that a list names, in its order."""
    value, at = reader.value(file), At(reader.source.full(file))
    if value is Nothing:
        return
    for i, item in enumerate(reader.items(value, at) or ()):
        record = reader.mapping(item, at / i)
        name = None if record is None else reader.text(record, "name", at / i)
        if name is not None:
            reader.category(name, at / i / "name", listed=True)


def _read_image(reader: Reader, file: str, value: Any) -> None:
    at = here = At(reader.source.full(file))
    about: dict[str, Any] = {}
    instances: list[Any] | None
    if isinstance(value, list):
        metas = [item for item in value if isinstance(item, dict) and item.get("type") == "meta"]
        about = next((item for item in metas if item.get("name") == "imageAttributes"), {})
        about = {key: about.get(key) for key in ("width", "height")}
        instances = value
    else:
        record = reader.mapping(value, at)
        if record is None:
            return
        if "instances" not in record:
            reader.missing(at, "instances")
            return
        reader.count_unread(record, _TOP)
        here = at / "instances"
        given = reader.mapping(record.get("metadata") or {}, at / "metadata")
        instances = reader.items(record["instances"], here)
        if given is None:
            reader.builder.skipped += len(instances or ())
            return
        about = given
    size = reader.size(about.get("width"), about.get("height"), at / "metadata", ("width", "height"))
    shown = file or reader.source.path.replace("\\", "/").rpartition("/")[2]
    name = about.get("name") or shown.removesuffix(_OLD).removesuffix(".json")
    split = split_of(file) if file else ""
    image = None
    if size != (0, 0):
        rows = reader.builder.file(at.path)
        image = reader.image(name, at, field="metadata/name", size=size, split=split, file=rows)
    if image is None or instances is None:
        reader.builder.skipped += len(instances or ())
        return
    rows = reader.rows_of(here)
    for i, item in enumerate(instances):
        if isinstance(item, dict) and item.get("type") == "meta":
            continue
        if not _read_instance(reader, item, here / i, image, rows, i):
            reader.builder.skipped += 1


def _read_instance(reader: Reader, value: Any, at: At, image: int, rows: int, line: int) -> bool:
    """Read one instance; False, and an issue, if it should be a box and cannot be one."""
    record = reader.mapping(value, at, row=True)
    if record is None:
        return False
    kind = reader.text(record, "type", at, row=True)
    if kind is None:
        return False
    read_shape = _SHAPES.get(kind)
    if read_shape is None:
        reader.count(f"{kind} instances")
        return True
    corners = read_shape(reader, record, at)
    name = reader.text(record, "className", at, row=True)
    category = None if name is None else reader.category(name, at / "className")
    score: float | None = NAN
    if record.get("creationType") in _MADE:
        key = "score" if "score" in record else "probability"
        score = reader.score(record.get(key), at / key)
        if score is not None and key == "probability":
            score = _share(score)
    if corners is None or category is None or score is None:
        return False
    reader.count_unread(record, _INSTANCE)
    reader.box(image, category, corners, at, file=rows, line=line, score=score)
    return True


def _points(reader: Reader, record: dict[str, Any], at: At) -> dict[str, Any] | None:
    if "points" not in record:
        reader.missing(at, "points", row=True)
        return None
    return reader.mapping(record["points"], at / "points", row=True)


def _read_box(reader: Reader, record: dict[str, Any], at: At) -> Corners | None:
    points = _points(reader, record, at)
    values = None if points is None else reader.members(points, _CORNERS, at / "points")
    return None if values is None else (values[0], values[1], values[2], values[3])


def _read_rotated(reader: Reader, record: dict[str, Any], at: At) -> Corners | None:
    points = _points(reader, record, at)
    keys = [f"{axis}{k}" for k in (1, 2, 3, 4) for axis in "xy"]
    values = None if points is None else reader.members(points, keys, at / "points")
    return None if values is None else _around(reader, values, "rotated boxes", at)


def _read_polygon(reader: Reader, record: dict[str, Any], at: At) -> Corners | None:
    if "points" not in record:
        reader.missing(at, "points", row=True)
        return None
    here, given = at / "points", record["points"]
    if not isinstance(given, list) or len(given) < 6 or len(given) % 2:
        reader.wrong(here, "a list of x and y, six numbers at least", given, row=True)
        return None
    values = [n for i, value in enumerate(given) if (n := reader.number(value, here / i)) is not None]
    return _around(reader, values, "polygons", at) if len(values) == len(given) else None


def _around(reader: Reader, values: list[float], what: str, at: At) -> Corners:
    corners = list(zip(values[::2], values[1::2], strict=True))
    if not is_upright(corners):
        reader.outline(what, at)
    return bounds(corners)


def _read_ellipse(reader: Reader, record: dict[str, Any], at: At) -> Corners | None:
    values = reader.members(record, ("cx", "cy", "rx", "ry"), at)
    angle = reader.number(record.get("angle") or 0, at / "angle")
    if values is None or angle is None:
        return None
    x, y, rx, ry = values
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    reader.outline("ellipses", at)
    dx, dy = (math.hypot(rx * c, ry * s), math.hypot(rx * s, ry * c)) if angle else (rx, ry)
    return x - dx, y - dy, x + dx, y + dy


_SHAPES = {"bbox": _read_box, "rbbox": _read_rotated, "polygon": _read_polygon, "ellipse": _read_ellipse}


# ------------------------------------------------------------------------------------------------ writing


def _percent(score: float) -> float:
    """The probability that is read as this score: the point of its digits is moved, so that none is lost."""
    found = float(Decimal(repr(score)).scaleb(2))
    near = (found, math.nextafter(found, math.inf), math.nextafter(found, -math.inf))
    return next((value for value in near if _share(value) == score), found)


def _scored(score: float) -> dict[str, Any]:
    """What an instance of this score has."""
    percent = _percent(score)
    found = {"creationType": "Preannotation", "probability": number(percent)}
    return found if _share(percent) == score else {**found, "score": score}


def _share(percent: float) -> float:
    return float(Decimal(repr(percent)).scaleb(-2))


def write(dataset: Dataset, target: Output, log: Log, options: SplitOptions) -> None:
    """Write a file for each image, and one of the classes."""
    del options
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories.name
    folders = [f"{split}/" if split else "" for split in images.split]
    names = [f"{folder}{image}.json" for folder, image in zip(folders, images.name, strict=True)]
    listed = f"classes/{_CLASSES}"
    fits = target.plan([*names, listed], [*images.name, "the classes"], log)
    if not may_write(dataset, log) or not fits or not names:
        return
    for row, (name, members) in enumerate(zip(log.track(names, "writing"), groups(dataset), strict=True)):
        about: dict[str, Any] = {"name": images.name[row]}
        if min(images.width[row], images.height[row]) > 0:
            about |= {"width": int(images.width[row]), "height": int(images.height[row])}
        instances = []
        for i in members:
            category = int(boxes.category[i])
            instance = {
                "type": "bbox",
                "classId": category + 1,
                "className": classes[category],
                "probability": 100,
                "points": dict(zip(_CORNERS, map(number, boxes.xyxy[i].tolist()), strict=True)),
                "groupId": 0,
                "pointLabels": {},
                "locked": False,
                "visible": True,
                "attributes": [],
                "creationType": "Manual",
            }
            if dataset.kind == "det":
                instance |= _scored(float(boxes.score[i]))
            instances.append(instance)
        record = {"metadata": about, "instances": instances, "tags": [], "comments": []}
        target.write(name, f"{dump(record, 2)}\n".encode())
    entries = [{"id": i, "name": name, "attribute_groups": []} for i, name in enumerate(classes, 1)]
    target.write(listed, f"{dump(entries, 2)}\n".encode())


FORMAT = Format(
    name="superannotate",
    title="SuperAnnotate JSON",
    use="annotation tools",
    written_by="SuperAnnotate vector JSON, and the older IMAGE___objects.json",
    doc=__doc__ or "",
    suffixes=(".json",),
    single=False,
    sniff=sniff,
    read=read,
    write=write,
    options=SplitOptions,
    keeps=frozenset({"size", "extension", "empty", "unused", "order", "score", "split"}),
)
