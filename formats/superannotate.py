"""SuperAnnotate JSON: one file per image, or one for all, of a vector project.

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

All of these are read.

Polygons, rotated boxes and ellipses are counted and read as their bounding boxes, with a warning. Points,
polylines, cuboids, templates, tags and attributes are counted but not read.

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
import math
import os
from decimal import Decimal
from typing import Any

from odm.codes import NUMBERED_CLASSES
from odm.files import Output, Source
from odm.formats._contract import SURE, Format, Sniff
from odm.formats._shared.codes import NO_FILES, UNKNOWN_CLASS
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
)
from odm.formats._shared.sniffing import sniff_json
from odm.formats._shared.splits import SplitOptions, files_of_split, split_of
from odm.issues import Log, PathError, Trusted, first_few
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
_VERSION = "___sa_version___"


def _looks_like(look: JsonPreview, head: bytes) -> tuple[int, str] | None:
    if look.top == "{" and look.keys.get("metadata") == "{" and look.keys.get("instances", "[") == "[":
        if "instances" in look.keys or {"tags", "comments"} & look.keys.keys():
            return SURE, "it has metadata and instances of one image, as SuperAnnotate has"
        return None
    several = look.top == "{" and set(look.keys.values()) <= {"{", "[", '"'} and b'"instances"' in head
    if several and (_VERSION in look.keys or b'"classId"' in head):
        return SURE, "it has the instances of several images, as SuperAnnotate has"
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


class _Reader(Reader):
    """A reader that knows the ids of classes."""

    names: dict[int, str] | None = None
    """The name of each id of a list of classes; None if there is no list."""
    by_id = False
    """Whether ids may stand for classes without a list."""
    used: set[int]
    """The ids that are used as names."""

    def class_of(self, record: dict[str, Any], at: At) -> int | None:
        """The class of an instance, by its name or else by its id; None, and an issue, if there is none."""
        number = record.get("classId")
        known = self.by_id or self.names is not None
        if "className" in record or type(number) is not int or not known:
            name = self.text(record, "className", at, row=True)
            return None if name is None else self.category(name, at / "className")
        if self.names is None:
            self.used.add(number)
            return self.category(str(number), at / "classId", source_id=number)
        if number not in self.names:
            here, n = (at / "classId").where, len(self.names)
            self.log.report(UNKNOWN_CLASS, at.path, **here, value=number, n=n, where=_CLASSES)
            return None
        return self.category(self.names[number], at / "classId")

    def report_numbers(self) -> None:
        """Report that classes have only numbers."""
        if self.used:
            self.builder.named = len(self.used) < self.builder.n_categories
            shown = first_few(sorted(self.used), 10)
            self.log.report(NUMBERED_CLASSES, self.source.path, value=shown, near=f" (no {_CLASSES})")


def read(source: Source, builder: Builder, log: Log, options: SplitOptions) -> None:
    """Read the files one by one."""
    reader = _Reader(source, builder, log, options, (source.path,) if source.is_dir else (), sized=True)
    reader.used = set()
    files = source.with_suffix(".json") if source.is_dir else [""]
    lists = [(source, file) for file in files if file.rpartition("/")[2].lower() == _CLASSES]
    files = [file for file in files if (source, file) not in lists]
    if not files:
        log.report(NO_FILES, source.path, expected=Trusted("JSON of SuperAnnotate"), n=len(source.files))
    for home, file in lists if source.is_dir else _beside(source):
        _read_classes(reader, home, file)
    for file in log.track(files_of_split(files, split_of, options.split, source, log), "reading"):
        value, at = reader.value(file), At(source.full(file))
        if isinstance(value, dict) and not {"metadata", "instances"} & value.keys():
            reader.by_id = True
            for key, item in value.items():
                if key != _VERSION:
                    _read_image(reader, file, item, at / key, key)
        elif value is not Nothing:
            _read_image(reader, file, value, at)
    reader.finish(field="probability")
    reader.report_numbers()


def _beside(source: Source) -> list[tuple[Source, str]]:
    """The list of classes beside a single file."""
    folder = os.path.dirname(source.path)
    for path in (os.path.join(folder, _CLASSES), os.path.join(folder, "classes", _CLASSES)):
        with contextlib.suppress(PathError):
            return [(Source(path, follow_links=source.follow_links, max_size=source.max_size), "")]
    return []


def _read_classes(reader: _Reader, home: Source, file: str) -> None:
    """Add the classes that a list names, in its order."""
    at = At(home.full(file))
    value = reader.value(file) if home is reader.source else _value_of(home, reader)
    if value is Nothing:
        return
    reader.names = reader.names or {}
    for i, item in enumerate(reader.items(value, at) or ()):
        record = reader.mapping(item, at / i)
        name = None if record is None else reader.text(record, "name", at / i)
        if name is not None and record is not None:
            if type(number := record.get("id")) is int:
                reader.names.setdefault(number, name)
            reader.category(name, at / i / "name", listed=True)


def _value_of(home: Source, reader: Reader) -> Any:
    """The content of a file of its own."""
    return Reader(home, Builder(), reader.log, SplitOptions()).value("")


def _read_image(reader: _Reader, file: str, value: Any, at: At, key: str = "") -> None:
    """Read an image, which is a file of its own or, with its name as `key`, one of several in a file."""
    here = at
    about: dict[str, Any] = {}
    instances: list[Any] | None
    if isinstance(value, list):
        metas = [item for item in value if isinstance(item, dict) and item.get("type") == "meta"]
        about = next((item for item in metas if item.get("name") == "imageAttributes"), {})
        about = {word: about.get(word) for word in ("width", "height")}
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
    shown = reader.source.relative(file)
    name = key or about.get("name") or shown.removesuffix(_OLD).removesuffix(".json")
    image = None
    if size != (0, 0):
        columns: dict[str, Any] = {
            "split": split_of(file) if file else "",
            "file": reader.builder.file(at.path),
        }
        if key:
            columns["file"] = reader.rows_of(at)
        image = reader.image(name, at, field="" if key else "metadata/name", size=size, **columns)
    if image is None or instances is None:
        reader.builder.skipped += len(instances or ())
        return
    rows = reader.rows_of(here)
    for i, item in enumerate(instances):
        if isinstance(item, dict) and item.get("type") == "meta":
            continue
        if not _read_instance(reader, item, here / i, image, rows, i):
            reader.builder.skipped += 1


def _read_instance(reader: _Reader, value: Any, at: At, image: int, rows: int, line: int) -> bool:
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
    category = reader.class_of(record, at)
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
    written_by="SuperAnnotate vector JSON, and the older IMAGE___objects.json and annotations.json",
    doc=__doc__ or "",
    suffixes=(".json",),
    begins="[{",
    single=False,
    sniff=sniff,
    read=read,
    write=write,
    options=SplitOptions,
    keeps=frozenset({"size", "extension", "empty", "unused", "order", "score", "split"}),
)
