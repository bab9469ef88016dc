"""Labelbox: its export, one JSON record per line.

Specification: "Image annotations export" in the documentation of Labelbox
(https://docs.labelbox.com/reference/export-image-annotations)::

    {"data_row": {"id": "cl1", "external_id": "a.jpg", "row_data": "https://storage/a.jpg"},
     "media_attributes": {"width": 640, "height": 480},
     "projects": {"cl2": {"name": "streets", "labels": [{"label_kind": "Default", "annotations": {
         "objects": [{"name": "person", "value": "person", "annotation_kind": "ImageBoundingBox",
                      "bounding_box": {"top": 20.0, "left": 10.0, "height": 200.0, "width": 100.0}}],
         "classifications": [], "relationships": []}}]}}}

Each record is on one line (NDJSON); a list of records, as returned by the SDK, is read as well. Edges are in
pixels, read and written unchanged. A polygon is counted and read as its bounding box, with a warning. Masks,
lines, points and classifications are counted but not read.

The older export, version 1, is read too: a list of ``{"External ID": "a.jpg", "Labeled Data": URL, "Label":
{"objects": [{"title": "person", "bbox": {"top": 20, ...}}]}}``, without image sizes.

The image name is ``external_id``, or else ``global_key``, or else the last part of ``row_data``. A record of
a project without a label has not been labelled: it is counted but not read. If an image has labels of several
annotators, the first is read; of several projects, the first with a label, or the one given by ``-O
project=NAME`` (name or id). A note says so.

Detections have a ``confidence``, like predictions uploaded to Labelbox. If every object has one, the file
contains detections. If only some have one, it is read as ground truth without the confidences, with a
warning. ``--kind`` overrides this.

Writing: one record per image, with the image name as ``external_id`` and ``row_data``.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE, Format, Sniff, option
from odm.formats._shared.gather import At
from odm.formats._shared.json_lines import json_lines
from odm.formats._shared.json_preview import JsonPreview
from odm.formats._shared.json_values import (
    Reader,
    bounds,
    dump,
    fitting,
    groups,
    is_upright,
    may_write,
    number,
    sniff_json,
)
from odm.formats._shared.number_text import short_wh
from odm.formats._shared.pictures import ImageOptions
from odm.issues import Log, printable
from odm.tables import Builder, Dataset

_SUFFIXES = (".ndjson", ".jsonl", ".json")
_PLACE = ("left", "top", "width", "height")
_OBJECT = frozenset(
    {
        *("feature_id", "feature_schema_id", "name", "value", "annotation_kind"),
        *("bounding_box", "polygon", "confidence"),
        *("featureId", "schemaId", "title", "color", "bbox", "instanceURI"),
    }
)


_OLD_SHAPES = {"point": "point", "line": "line", "instanceURI": "mask"}
"""What an object of version 1 is that has no box, by its keys."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LabelboxOptions(ImageOptions):
    """Options of Labelbox."""

    project: str = option("", "name or id of the project whose labels are read", side="read")


def _looks_like(look: JsonPreview, _: bytes) -> tuple[int, str] | None:
    keys = look.keys if look.top == "{" else look.first.get("", {})
    if keys.get("data_row") == "{" and ("projects" in keys or "media_attributes" in keys):
        return SURE, "its records have a data_row and projects, as Labelbox has"
    if "Labeled Data" in keys and "Label" in keys:
        return SURE, "its records have Labeled Data and a Label, as in Labelbox's older export"
    return None


def sniff(source: Source) -> Sniff | None:
    """Look at the keys of the first record."""
    return sniff_json(source, _looks_like, _SUFFIXES)


@dataclasses.dataclass(slots=True)
class _Passed:
    """How many labels were not read."""

    labels: int = 0
    projects: int = 0
    rows: set[str] = dataclasses.field(default_factory=set)
    """The data rows whose label was read, of version 1."""


def read(source: Source, builder: Builder, log: Log, options: LabelboxOptions) -> None:
    """Read the records one by one."""
    files = fitting(source, _looks_like, _SUFFIXES)[:1] if source.is_dir else [""]
    old = any(b'"Labeled Data"' in source.head(file) for file in files)
    reader = Reader(source, builder, log, options, sized=not old)
    passed = _Passed()
    for file in log.track(reader.choose(_looks_like, "an export of Labelbox", _SUFFIXES), "reading"):
        lines = builder.file(source.full(file))
        records = -1
        for at, value in json_lines(reader, file):
            if not at.line and records < 0:
                records = builder.file(source.full(file), "/")
            record = reader.mapping(value, at)
            if record is not None:
                place = (lines, at.line) if at.line else (records, int(at.pointer[1:]))
                if "Labeled Data" in record:
                    _read_old(reader, record, at, place, options.project, passed)
                else:
                    _read_record(reader, record, at, place, options.project, passed)
    shown = printable(source.path)
    if passed.labels:
        log.note(f"{shown}: of images with several labels the first is read, {passed.labels} others are not")
    if passed.projects:
        log.note(
            f"{shown}: {passed.projects} labels of other projects are not read (-O project=NAME chooses one)"
        )
    reader.finish(field="confidence")


def _name(row: dict[str, Any], keys: Sequence[str], url: str) -> tuple[str, Any]:
    """The key that names the image, and the name: that of the first key, or the end of the `url`."""
    for key in keys:
        if row.get(key):
            return key, row[key]
    place = row.get(url)
    if isinstance(place, str):
        with contextlib.suppress(ValueError):  # no URL after all
            if "://" in place:
                from urllib.parse import unquote, urlsplit

                place = unquote(urlsplit(place).path).rpartition("/")[2]
    return url, place


def _labels(
    reader: Reader, record: dict[str, Any], at: At, wanted: str, passed: _Passed
) -> tuple[dict[str, Any] | None, At]:
    """The label that is read; None where there is none."""
    projects = reader.mapping(record.get("projects") or {}, at / "projects")
    chosen: tuple[dict[str, Any] | None, At] = None, at
    for key, value in (projects or {}).items():
        here = at / "projects" / key
        project = reader.mapping(value, here)
        if project is None or (wanted and wanted not in (key, project.get("name"))):
            continue
        labels = reader.items(project.get("labels"), here / "labels")
        if not labels:
            continue
        if chosen[0] is not None:
            passed.projects += len(labels)
            continue
        passed.labels += len(labels) - 1
        label = reader.mapping(labels[0], here / "labels" / 0)
        if label is not None:
            chosen = label, here / "labels" / 0
    return chosen


def _read_record(
    reader: Reader, record: dict[str, Any], at: At, place: tuple[int, int], wanted: str, passed: _Passed
) -> None:
    row = reader.mapping(record.get("data_row"), at / "data_row")
    label, here = _labels(reader, record, at, wanted, passed)
    if row is None:
        return
    if label is None:
        reader.count("records without a label")
        return
    given = record.get("media_attributes")
    media = {} if given is None else reader.mapping(given, at / "media_attributes")
    annotations = reader.mapping(label.get("annotations") or {}, here / "annotations")
    objects = None
    if annotations is not None:
        objects = reader.items(annotations.get("objects"), here / "annotations" / "objects")
        if annotations.get("classifications"):
            reader.count("classifications of images")
    if media is None or objects is None:
        reader.builder.skipped += len(objects or ())
        return
    size = reader.size(media.get("width"), media.get("height"), at / "media_attributes", ("width", "height"))
    key, name = _name(row, ("external_id", "global_key"), "row_data")
    image = reader.image(name, at / "data_row", field=key, size=size, file=place[0], line=place[1])
    _read_objects(reader, objects, here / "annotations" / "objects", image, place)


def _read_old(
    reader: Reader, record: dict[str, Any], at: At, place: tuple[int, int], wanted: str, passed: _Passed
) -> None:
    """The same of version 1, which has a record for each label; the first of a data row is read."""
    if wanted and record.get("Project Name") != wanted:
        passed.projects += 1
        return
    given = record.get("Label")
    if not given or given == "Skip":
        reader.count("records without a label")
        return
    label = reader.mapping(given, at / "Label")
    if label is None:
        return
    row = record.get("DataRow ID")
    if isinstance(row, str) and row in passed.rows:
        passed.labels += 1
        return
    if isinstance(row, str):
        passed.rows.add(row)
    if "objects" not in label:
        reader.missing(at / "Label", "objects")
        return
    objects = reader.items(label["objects"], at / "Label" / "objects")
    if label.get("classifications"):
        reader.count("classifications of images")
    if objects is None:
        return
    key, name = _name(record, ("External ID",), "Labeled Data")
    image = reader.image(name, at, field=key, file=place[0], line=place[1])
    _read_objects(reader, objects, at / "Label" / "objects", image, place)


def _read_objects(
    reader: Reader, objects: list[Any], at: At, image: int | None, place: tuple[int, int]
) -> None:
    for i, value in enumerate(objects):
        if image is None or not _read_object(reader, value, at / i, image, place):
            reader.builder.skipped += 1


def _read_object(reader: Reader, value: Any, at: At, image: int, place: tuple[int, int]) -> bool:
    """Read one object; False, and an issue, if it should be a box and cannot be one."""
    record = reader.mapping(value, at, row=True)
    if record is None:
        return False
    old = "title" in record or "bbox" in record
    box_key, name_key = ("bbox", "title") if old else ("bounding_box", "name")
    if box_key not in record and "polygon" not in record:
        kind = record.get("annotation_kind")
        if old:
            kind = next((name for key, name in _OLD_SHAPES.items() if key in record), None)
        if kind in ("ImageBoundingBox", None):
            reader.missing(at, box_key, row=True)
            return False
        reader.count(f"{kind} objects" if isinstance(kind, str) else "other objects")
        return True
    name = reader.text(record, name_key, at, row=True)
    category = None if name is None else reader.category(name, at / name_key)
    score = reader.score(record.get("confidence"), at / "confidence")
    size: tuple[float, float] | None = None
    if box_key in record:
        box = reader.mapping(record[box_key], at / box_key, row=True)
        values = None if box is None else reader.members(box, _PLACE, at / box_key)
        if values is None:
            return False
        left, top, width, height = values
        corners, size = (left, top, left + width, top + height), (width, height)
    else:
        points = _points(reader, record["polygon"], at / "polygon")
        if points is None:
            return False
        corners = bounds(points)
        if not is_upright(points):
            reader.outline("polygons", at)
    if category is None or score is None:
        return False
    reader.count_unread(record, _OBJECT)
    reader.box(image, category, corners, at, file=place[0], line=place[1], wh=size, score=score)
    return True


def _points(reader: Reader, value: Any, at: At) -> list[list[float]] | None:
    """The points of a polygon, or None and an issue."""
    found = []
    items = reader.items(value, at, row=True)
    if not items:
        if items is not None:
            reader.wrong(at, "a list of points", value, row=True)
        return None
    for i, item in enumerate(items):
        point = reader.mapping(item, at / i, row=True)
        values = None if point is None else reader.members(point, ("x", "y"), at / i)
        if values is None:
            return None
        found.append(values)
    return found


# ----------------------------------------------------------------------------------------------- writing


def write(dataset: Dataset, target: Output, log: Log, options: LabelboxOptions) -> None:
    """Write one file."""
    del options
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories.name
    name = "" if target.single else "export.ndjson"
    if not may_write(dataset, log) or (name and not target.plan([name], ["the records"], log)):
        return
    wh = short_wh(boxes)
    lines = []
    for row, members in enumerate(groups(dataset)):
        objects = []
        for i in members:
            left, top, width, height = map(number, [*boxes.xyxy[i, :2].tolist(), *wh[i].tolist()])
            label = classes[boxes.category[i]]
            found: dict[str, Any] = {
                "name": label,
                "value": label.lower().replace(" ", "_"),
                "annotation_kind": "ImageBoundingBox",
                "bounding_box": {"top": top, "left": left, "height": height, "width": width},
            }
            if dataset.kind == "det":
                found["confidence"] = number(float(boxes.score[i]))
            objects.append(found)
        record = {
            "data_row": {"external_id": images.name[row], "row_data": images.name[row]},
            "media_attributes": {"height": int(images.height[row]), "width": int(images.width[row])},
            "projects": {
                "odm": {
                    "name": "odm",
                    "labels": [
                        {
                            "label_kind": "Default",
                            "annotations": {"objects": objects, "classifications": [], "relationships": []},
                        }
                    ],
                }
            },
        }
        lines.append(dump(record) + "\n")
    target.write(name, "".join(lines).encode())


FORMAT = Format(
    name="labelbox",
    title="Labelbox export",
    use="annotation tools",
    written_by="Labelbox export v2 (NDJSON, and the same as a list) and v1 (JSON)",
    doc=__doc__ or "",
    suffixes=(".ndjson",),
    looks_at=_SUFFIXES,
    begins="[{",
    single=True,
    sniff=sniff,
    read=read,
    write=write,
    options=LabelboxOptions,
    keeps=frozenset({"size", "extension", "empty", "score", "wh"}),
)
