"""V7 Darwin JSON: one file per image.

Specification: "Darwin JSON" in the documentation of V7 (https://docs.v7labs.com/reference/darwin-json)::

    {"version": "2.0",
     "item": {"name": "a.jpg", "path": "/street",
              "slots": [{"type": "image", "slot_name": "0", "width": 640, "height": 480,
                         "source_files": [{"file_name": "a.jpg"}]}]},
     "annotations": [{"name": "person", "slot_names": ["0"],
                      "bounding_box": {"x": 10, "y": 20, "w": 100, "h": 200}}]}

The older version 1.0 has ``"image": {"filename": "a.jpg", "path": "/street", "width": 640, "height": 480}``
instead of ``item``. ``x`` and ``y`` are the top left corner, in pixels, read and written unchanged.

Polygons and other shapes with a ``bounding_box`` are counted and read as this box, with a warning. A polygon
without one, as in old files, is read as its own bounding box. Tags, lines, key points and the like have none
and are counted but not read. The image name is the item's path and name. Of an item with several slots, only
the first is read; annotations in other slots, and those of video frames, are counted.

Detections have the ``confidence`` of their ``inference``. If every box has one, the files contain detections.
If only some have one, they are read as ground truth without the confidences, with a warning. ``--kind``
overrides this.

In a folder, the files of this format are read; a folder called ``train``, ``val``, ``test`` or similar gives
the split. Writing: ``NAME.json`` for each image, in version 2.0.
"""

from __future__ import annotations

from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE, Format, Sniff
from odm.formats._shared.gather import At, Corners
from odm.formats._shared.json_preview import JsonPreview
from odm.formats._shared.json_values import Nothing, Reader, bounds, dump, groups, may_write, number
from odm.formats._shared.number_text import short_wh
from odm.formats._shared.sniffing import sniff_json
from odm.formats._shared.splits import SplitOptions, files_of_split, split_of
from odm.issues import Log
from odm.tables import Builder, Dataset

_PLACE = ("x", "y", "w", "h")
_TOP = frozenset({"version", "schema_ref", "item", "image", "annotations", "dataset"})
_ANNOTATION = frozenset(
    {
        *("id", "name", "slot_names", "bounding_box", "polygon", "complex_polygon", "inference"),
        *("annotators", "reviewers", "ranges"),
    }
)


def _looks_like(look: JsonPreview, head: bytes) -> tuple[int, str] | None:
    if look.top != "{" or look.keys.get("annotations", "[") != "[":
        return None
    if look.keys.get("item") == "{" and b'"slots"' in head:
        return SURE, "it has an item with slots, as V7 Darwin has"
    image = look.keys.get("image") == "{" and "annotations" in look.keys
    if image and (b'"filename"' in head or b'"original_filename"' in head):
        return SURE, "it has the annotations of one image, as Darwin 1.0 has"
    return None


def sniff(source: Source) -> Sniff | None:
    """Look at the outermost keys."""
    return sniff_json(source, _looks_like)


def read(source: Source, builder: Builder, log: Log, options: SplitOptions) -> None:
    """Read the files one by one."""
    folders = (source.full("images"),) if source.is_dir else ()
    reader = Reader(source, builder, log, options, folders, sized=True)
    files = reader.choose(_looks_like, "V7 Darwin JSON", file_per_image=True)
    files = files_of_split(files, split_of, options.split, source, log)
    for file in log.track(files, "reading"):
        value, at = reader.value(file), At(source.full(file))
        record = None if value is Nothing else reader.mapping(value, at)
        if record is not None:
            _read_file(reader, record, at, split_of(file))
    reader.finish(field="inference")


def _read_file(reader: Reader, record: dict[str, Any], at: At, split: str) -> None:
    errors = reader.log.errors
    reader.count_unread(record, _TOP)
    key = "item" if "item" in record else "image"
    if key not in record:
        reader.missing(at, "item")
    item = reader.mapping(record[key], at / key) if key in record else None
    boxes = reader.items(record.get("annotations"), at / "annotations")
    size, slot, name_key = None, None, "name"
    if item is not None and key == "item":
        slots = reader.items(item.get("slots"), at / "item" / "slots")
        first = reader.mapping(slots[0], at / "item" / "slots" / 0) if slots else None
        if first is not None:
            where = at / "item" / "slots" / 0
            size = reader.size(first.get("width"), first.get("height"), where, ("width", "height"))
            slot = first.get("slot_name")
    elif item is not None:
        size = reader.size(item.get("width"), item.get("height"), at / "image", ("width", "height"))
        name_key = "filename" if "original_filename" not in item else "original_filename"
    image = None
    if item is not None and reader.log.errors == errors:
        name = item.get(name_key)
        folder = item.get("path")
        if isinstance(name, str) and isinstance(folder, str) and folder.strip("/"):
            name = f"{folder.strip('/')}/{name}"
        rows = reader.builder.file(at.path)
        image = reader.image(name, at / key, field=name_key, size=size, split=split, file=rows)
    if image is None or boxes is None:
        reader.builder.skipped += len(boxes or ())
        return
    here = at / "annotations"
    rows = reader.rows_of(here)
    for i, value in enumerate(boxes):
        if not _read_annotation(reader, value, here / i, image, slot, rows, i):
            reader.builder.skipped += 1


def _read_annotation(reader: Reader, value: Any, at: At, image: int, slot: Any, rows: int, line: int) -> bool:
    """Read one annotation; False, and an issue, if it should be a box and cannot be one."""
    record = reader.mapping(value, at, row=True)
    if record is None:
        return False
    slots = record.get("slot_names")
    if slot is not None and isinstance(slots, list) and slots and slot not in slots:
        reader.count("annotations in other slots")
        return True
    name = reader.text(record, "name", at, row=True)
    if name is None:
        return False
    shape = next((key for key in ("polygon", "complex_polygon") if key in record), "")
    if "bounding_box" not in record and not shape:
        kind = next(
            (key for key in ("frames", "tag", "line", "keypoint", "ellipse", "skeleton") if key in record), ""
        )
        reader.count(f"{kind or 'other'} annotations")
        return True
    category = reader.category(name, at / "name")
    place = _place(reader, record, shape, at)
    given = reader.mapping(record.get("inference") or {}, at / "inference", row=True)
    score = None if given is None else reader.score(given.get("confidence"), at / "inference" / "confidence")
    if category is None or place is None or score is None:
        return False
    if shape or any(key in record for key in ("ellipse", "mask")):
        reader.outline("polygons" if shape else "outlines", at)
    reader.count_unread(record, _ANNOTATION)
    corners, wh = place
    reader.box(image, category, corners, at, file=rows, line=line, wh=wh, score=score)
    return True


def _place(
    reader: Reader, record: dict[str, Any], shape: str, at: At
) -> tuple[Corners, tuple[float, float] | None] | None:
    """Edges and size of the box; None, and an issue, where it has none."""
    if "bounding_box" in record:
        box = reader.mapping(record["bounding_box"], at / "bounding_box", row=True)
        values = None if box is None else reader.members(box, _PLACE, at / "bounding_box")
        if values is None:
            return None
        x, y, w, h = values
        return (x, y, x + w, y + h), (w, h)
    here = at / shape
    polygon = reader.mapping(record[shape], here, row=True)
    if polygon is None:
        return None
    paths = polygon.get("path") or polygon.get("paths")
    points = []
    for ring in paths if isinstance(paths, list) else ():
        for item in ring if isinstance(ring, list) else [ring]:
            point = reader.mapping(item, here, row=True)
            values = None if point is None else reader.members(point, ("x", "y"), here)
            if values is None:
                return None
            points.append(values)
    if not points:
        reader.wrong(here, "a path of points", paths, row=True)
        return None
    return bounds(points), None


# ----------------------------------------------------------------------------------------------- writing


def write(dataset: Dataset, target: Output, log: Log, options: SplitOptions) -> None:
    """Write a file for each image."""
    del options
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories.name
    folders = [f"{split or 'unsplit'}/" if any(images.split) else "" for split in images.split]
    files = [f"{folder}{name}.json" for folder, name in zip(folders, images.name, strict=True)]
    if not may_write(dataset, log) or not target.plan(files, images.name, log):
        return
    wh = short_wh(boxes)
    for row, members in enumerate(log.track(groups(dataset), "writing")):
        found = []
        for i in members:
            place = zip(_PLACE, map(number, [*boxes.xyxy[i, :2].tolist(), *wh[i].tolist()]), strict=True)
            annotation: dict[str, Any] = {
                "name": classes[boxes.category[i]],
                "slot_names": ["0"],
                "bounding_box": dict(place),
            }
            if dataset.kind == "det":
                annotation["inference"] = {"confidence": number(float(boxes.score[i]))}
            found.append(annotation)
        folder, _, name = images.name[row].rpartition("/")
        slot = {
            "type": "image",
            "slot_name": "0",
            "width": int(images.width[row]),
            "height": int(images.height[row]),
            "source_files": [{"file_name": name}],
        }
        record = {
            "version": "2.0",
            "item": {"name": name, "path": f"/{folder}", "slots": [slot]},
            "annotations": found,
        }
        target.write(files[row], f"{dump(record, 1)}\n".encode())


FORMAT = Format(
    name="darwin",
    title="V7 Darwin JSON",
    use="annotation tools",
    written_by="V7 Darwin JSON 1.0 and 2.0",
    doc=__doc__ or "",
    suffixes=(".json",),
    begins="[{",
    single=False,
    sniff=sniff,
    read=read,
    write=write,
    options=SplitOptions,
    keeps=frozenset({"size", "extension", "empty", "score", "wh", "split"}),
)
