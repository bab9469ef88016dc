"""Labelbox: its export, one JSON record per line.

Specification: "Image annotations export" in the documentation of Labelbox
(https://docs.labelbox.com/reference/export-image-annotations)::

    {"data_row": {"id": "cl1", "external_id": "a.jpg", "row_data": "https://storage/a.jpg"},
     "media_attributes": {"width": 640, "height": 480},
     "projects": {"cl2": {"name": "streets", "labels": [{"label_kind": "Default", "annotations": {
         "objects": [{"name": "person", "value": "person", "annotation_kind": "ImageBoundingBox",
                      "bounding_box": {"top": 20.0, "left": 10.0, "height": 200.0, "width": 100.0}}],
         "classifications": [], "relationships": []}}]}}}

Each record is on one line (NDJSON); a list of records, as returned by the SDK, or one record on several lines
is read as well. Edges are in
pixels, read and written unchanged. A polygon is an outline; where only boxes are needed, it is counted and
read as its bounding box, with a warning. Masks, lines, points and classifications are counted but not read.

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
from collections import Counter
from collections.abc import Callable
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE, option
from odm.formats._shared.image_names import choose_url_names, unquote
from odm.formats._shared.json.items import BadRecord, Item, Row, iter_images, plan_file, read_line_items
from odm.formats._shared.json.preview import JsonPreview, find_recognised, json_format_of
from odm.formats._shared.json.values import Reader, choose_files, dump
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import ImageOptions
from odm.issues import Log, printable, spell_setting
from odm.tables import Builder, Dataset

_KEYS = declare_keys(
    "data_row id global_key external_id row_data details* media_attributes height width asset_type "
    "mime_type exif_rotation metadata_fields* attachments* projects{} name labels label_kind version "
    "label_details* annotations objects classifications* relationships* project_details* "
    "performance_details* feature_id feature_schema_id value annotation_kind bounding_box top left polygon "
    "x y line* polyline* point mask url confidence ID Label featureId schemaId title color bbox instanceURI"
    "Agreement Reviews* Skipped",
    *("DataRow ID", "Labeled Data", "Created By", "Project Name", "Created At", "Updated At", "External ID"),
    *("Seconds to Label", "Benchmark Agreement", "Benchmark ID", "Dataset Name", "View Label"),
    "Has Open Issues",
)
_SUFFIXES = (".ndjson", ".jsonl", ".json")
_PLACE = ("left", "top", "width", "height")
_OBJECT = frozenset(
    {
        *("feature_id", "feature_schema_id", "name", "value", "annotation_kind"),
        *("bounding_box", "polygon", "confidence"),
        *("featureId", "schemaId", "title", "color", "bbox", "instanceURI"),
    }
)


_NAMES, _OLD_NAMES = ("external_id", "global_key", "row_data"), ("External ID", "Labeled Data")
"""Keys that name the image, the usual one first and a URL last."""
_OTHER_SHAPES = {"point": "point", "line": "line", "polyline": "line", "mask": "mask", "instanceURI": "mask"}
"""The kind of an object without a box, by the key of its shape, where it has no ``annotation_kind``."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LabelboxOptions(ImageOptions):
    """Options of Labelbox."""

    project: str = option("", "name or id of the project whose labels are read", side="read")


def looks_like(preview: JsonPreview, _: bytes) -> tuple[int, str] | None:
    """Recognise records of Labelbox by the keys of the first one and how values begin."""
    keys = preview.keys if preview.top == "{" else preview.first.get("", {})  # "": of the outermost list
    if keys.get("data_row") == "{" and ("projects" in keys or "media_attributes" in keys):
        return SURE, "its records have a data_row and projects, as Labelbox has"
    if "Labeled Data" in keys and "Label" in keys:
        return SURE, "its records have Labeled Data and a Label, as in Labelbox's older export"
    return None


def read(source: Source, builder: Builder, log: Log, options: LabelboxOptions) -> None:
    """Read the records one by one, in the form of version 1 those with ``Labeled Data``."""
    first_files = find_recognised(source, looks_like, _SUFFIXES)[:1] if source.is_dir else [""]
    is_old = any(b'"Labeled Data"' in source.head(file) for file in first_files)  # version 1 has no sizes
    reader = Reader(source, builder, log, options, sized=not is_old, keys=_KEYS)
    n_unread, seen_ids = Counter[str](), set[str]()
    chosen_files = choose_files(source, looks_like, "an export of Labelbox", log, _SUFFIXES)
    for file in log.track(chosen_files, "reading"):
        records = list(read_line_items(reader, file))
        urls = (row.get(key) for row, key in map(_find_name, records) if key in ("row_data", "Labeled Data"))
        name_of = choose_url_names(urls, image_name, source.full(file), log)
        for record in records:
            with contextlib.suppress(BadRecord):
                if "Labeled Data" in record:
                    _read_old(record, options.project, n_unread, seen_ids, name_of)
                else:
                    _read_record(record, options.project, n_unread, name_of)
    shown = printable(source.path)
    if n_labels := n_unread["labels"]:
        log.note(f"{shown}: of images with several labels the first is read, {n_labels} others are not")
    if n_labels := n_unread["projects"]:
        log.note(
            f"{shown}: {n_labels} labels of other projects are not read "
            f"({spell_setting('project=NAME')} chooses one)"
        )
    reader.finish(field="confidence")


def image_name(url: str) -> str:
    """The image name from the URL that Labelbox serves it from; any other text is a name already."""
    return unquote(url.partition("?")[0]).rpartition("/")[2] if "://" in url else url


def _find_name(record: Item) -> tuple[dict[str, Any], str]:
    """The object that names the image of a record, and its key for that: the URL's if there is no other."""
    is_old = "Labeled Data" in record
    row, keys = (record.record, _OLD_NAMES) if is_old else (record.get("data_row"), _NAMES)
    row = row if isinstance(row, dict) else {}
    return row, next((key for key in keys if row.get(key)), keys[-1])


def _read_record(
    record: Item, project_name: str, n_unread: Counter[str], name_of: Callable[[str], str]
) -> None:
    """Add the image of a record with the objects of its first label; `name_of` turns a URL into its name.

    Labels that are not read are counted in `n_unread`: others of the project, or of other ``projects``.
    """
    label: Item | None = None
    for key, project in record.object("projects", optional=True).objects():
        labels = list(project.items("labels"))
        is_other = bool(project_name) and project_name not in (key, project.get("name"))
        if is_other or label is not None:
            n_unread["projects"] += len(labels)
        elif labels:
            label = labels[0]
            n_unread["labels"] += len(labels) - 1
    data_row = record.object("data_row")
    if label is None:
        record.reader.count("records without a label")
        return
    annotations = label.object("annotations", optional=True)
    objects = annotations.rows("objects")
    if annotations.get("classifications"):
        record.reader.count("classifications of images")
    size = record.object("media_attributes", optional=True).size("width", "height")
    _, key = _find_name(record)
    name = name_of if key == "row_data" else str
    objects.read(data_row.image(key, name, size=size), _read_object)


def _read_old(
    record: Item, project_name: str, n_unread: Counter[str], seen_ids: set[str], name_of: Callable[[str], str]
) -> None:
    """Read a record of version 1, a label, if it is the first of its data row; else count it in `n_unread`.

    `seen_ids` are the data rows so far, to which this one is added. `name_of` turns a URL into its name.
    """
    if project_name and record.get("Project Name") != project_name:
        n_unread["projects"] += 1
        return
    if record.get("Label") in (None, "", "Skip", {}, []):
        record.reader.count("records without a label")
        return
    label, id_ = record.object("Label"), record.get("DataRow ID")
    if isinstance(id_, str) and id_ in seen_ids:
        n_unread["labels"] += 1
        return
    seen_ids |= {id_} if isinstance(id_, str) else set()
    label.need("objects")
    objects = label.rows("objects")
    if label.get("classifications"):
        record.reader.count("classifications of images")
    _, key = _find_name(record)
    objects.read(record.image(key, name_of if key == "Labeled Data" else str), _read_object)  # else a name


def _read_object(value: Row) -> None:
    """Add the box or polygon of an object; objects of other kinds are counted."""
    is_old = "title" in value or "bbox" in value
    box_key, name_key = ("bbox", "title") if is_old else ("bounding_box", "name")
    if box_key not in value and "polygon" not in value:
        kind_by_key = next((_OTHER_SHAPES[key] for key in _OTHER_SHAPES if key in value), None)
        kind = value.get("annotation_kind") or kind_by_key
        if kind in ("ImageBoundingBox", None):
            value.need(box_key)  # BadRecord: it is missing
        value.reader.count(f"{kind} objects" if isinstance(kind, str) else "other objects")
        return
    category, score = value.category(name_key), value.score("confidence")
    wh: tuple[float, float] | None = None
    if box_key in value:
        corners, wh = value.object(box_key).xywh(*_PLACE)
    else:
        points = [point.numbers("x", "y") for point in value.all_objects("polygon", "a list of points")]
        corners = value.draw_around(points, "polygons")
    value.count_unread(_OBJECT)
    value.add(category, corners, wh=wh, score=score)


def write(dataset: Dataset, target: Output, log: Log, _: LabelboxOptions) -> None:
    """Write a record for each image, with one label in one project."""
    name = plan_file(dataset, target, "export.ndjson", "records", log)
    if name is None:
        return
    texts = []
    for image in iter_images(dataset):
        objects = []
        for box in image.boxes:
            (left, top), (width, height) = box.xyxy[:2], box.wh
            geometry: Any = {"top": top, "left": left, "height": height, "width": width}
            if box.outlines:  # only one, as `keeps` has no parts
                geometry = [{"x": x, "y": y} for x, y in box.outlines[0]]
            fields = {
                "name": box.label,
                "value": box.label.lower().replace(" ", "_"),
                "annotation_kind": "ImagePolygon" if box.outlines else "ImageBoundingBox",
                "polygon" if box.outlines else "bounding_box": geometry,
            }
            objects.append({**fields, **box.score_field("confidence")})
        annotations = {"objects": objects, "classifications": [], "relationships": []}
        labels = [{"label_kind": "Default", "annotations": annotations}]
        record = {
            "data_row": {"external_id": image.name, "row_data": image.name},
            "media_attributes": {"height": image.height, "width": image.width},
            "projects": {"odm": {"name": "odm", "labels": labels}},
        }
        texts.append(dump(record) + "\n")
    target.write(name, "".join(texts).encode())


FORMAT = json_format_of(
    __name__,
    title="Labelbox export",
    use="annotation tools",
    written_by="Labelbox export v2 (NDJSON, and the same as a list) and v1 (JSON)",
    suffixes=(".ndjson",),
    looks_at=_SUFFIXES,
    single=True,
    holds=("data_row", "Labeled Data"),
    keeps=frozenset({"size", "extension", "empty", "score", "wh", "polygon"}),
    shape_is_box=True,
)
