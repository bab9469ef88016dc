"""FiftyOne detection data set: ``data/`` and ``labels.json``.

Specification: "FiftyOneImageDetectionDataset" in the documentation of FiftyOne
(https://docs.voxel51.com/user_guide/export_datasets.html)::

    {"classes": ["person", "car"],
     "labels": {"a": [{"label": 0, "bounding_box": [0.1, 0.2, 0.3, 0.4], "confidence": 0.9,
                       "attributes": {"occluded": true}}],
                "b": null}}

``bounding_box`` is left, top, width and height relative to the image size. The size comes from the pictures
in ``data/`` beside the file, or from ``--images``, ``--image-size`` or ``--image-sizes``. A key of ``labels``
is the image name without its extension, which is taken from the picture. ``null`` or an empty list is an
image without objects.

``label`` is the position of a class in ``classes``, from 0, or the class name, which must be in ``classes``
if there is such a list. If every object has a ``confidence``, the file contains detections. If only some have
one, it is read as ground truth without the confidences, with a warning. ``--kind`` overrides this.

Flags: the attributes ``difficult``, ``crowd`` or ``iscrowd``, ``truncated``, ``occluded``, ``group_of``,
``depiction`` and ``inside``. All others are counted but not kept.

The other export, "FiftyOneDataset", has ``samples.json`` beside ``data/`` and is read too::

    {"samples": [{"filepath": "data/a.jpg", "tags": ["train"], "metadata": {"width": 640, "height": 480},
                  "ground_truth": {"_cls": "Detections", "detections": [
                      {"label": "person", "bounding_box": [0.1, 0.2, 0.3, 0.4], "iscrowd": 0}]}}]}

The field ``ground_truth`` is read, or else the first field of detections; with ``--kind det`` the first one
whose detections have a ``confidence``; ``-O field=NAME`` overrides this. A tag ``train``, ``val``, ``test``
or similar is the split. Other types of fields are counted but not read.
``index`` is the number of an object that is followed through images: its track id.

Writing: a ``.json`` target is the file itself, any other target a folder with ``labels.json``; the pictures
belong in ``data/`` beside it. Numbers have enough decimals to preserve pixels within 1e-6. ``-O
layout=samples`` writes ``samples.json`` instead, which FiftyOne imports as ``LegacyFiftyOneDataset``: it also
keeps the names and sizes of images and their splits, but only classes with objects, in no order.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from odm.codes import NO_SIZE
from odm.files import COLLISION, Output, Source
from odm.formats._contract import SURE, Format, Sniff, option
from odm.formats._shared.codes import UNKNOWN_CLASS
from odm.formats._shared.frames import box_tracks, track_numbers
from odm.formats._shared.gather import At
from odm.formats._shared.json_columns import show
from odm.formats._shared.json_preview import JsonPreview
from odm.formats._shared.json_records import (
    EMPTY,
    FOUR,
    NUMBER,
    Each,
    Held,
    Keyed,
    Maybe,
    Records,
    Table,
    add_boxes,
)
from odm.formats._shared.json_values import (
    FLAG_NAMES,
    Nothing,
    Reader,
    dump,
    fitting,
    flags_of,
    groups,
    is_set,
    may_write,
    number,
    sniff_json,
)
from odm.formats._shared.number_text import fixed_rows
from odm.formats._shared.splits import SPLITS, SplitOptions, files_of_split, miss_split, split_of
from odm.formats._shared.text_tokens import decimals_for
from odm.issues import Log, Trusted, printable
from odm.names import refuse_class, stem
from odm.tables import Builder, Dataset, Flag

_BOX = frozenset({"label", "bounding_box", "confidence", "attributes", "index"})
_SAMPLE = frozenset(
    "_id id filepath tags metadata _media_type _rand _dataset_id created_at last_modified_at".split()
)
_DETECTION = frozenset({"_id", "id", "_cls", "tags", "index"})
_TRUTH = "ground_truth"
_ABSOLUTE = re.compile(r"/|[A-Za-z]:/|[a-z0-9]+://")
_FLAGS = {**FLAG_NAMES, "iscrowd": Flag.CROWD}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FiftyoneOptions(SplitOptions):
    """Options of FiftyOne."""

    field: str = option("", "field of samples.json that is read, or written")
    layout: str = option(
        "labels", "which of the two exports is written", choices=("labels", "samples"), side="write"
    )


def _looks_like(look: JsonPreview, head: bytes) -> tuple[int, str] | None:
    if look.top == "{" and look.keys.get("samples") == "[" and "filepath" in look.first.get("samples", {}):
        return SURE, "it has samples with a filepath, as FiftyOne has"
    if look.top != "{" or look.keys.get("labels") != "{" or look.keys.get("classes", "[") not in ("[", "n"):
        return None
    if "classes" in look.keys or b'"bounding_box"' in head:
        return SURE, "it has classes and labels by image, as in FiftyOne"
    return None


def sniff(source: Source) -> Sniff | None:
    """Look at the outermost keys."""
    return sniff_json(source, _looks_like)


def read(source: Source, builder: Builder, log: Log, options: FiftyoneOptions) -> None:
    """Read the file, or those of a folder."""
    folders: tuple[str, ...] = ()
    if source.is_dir:
        homes = dict.fromkeys(file.rpartition("/")[0] for file in fitting(source, _looks_like))
        folders = tuple(source.full(f"{home}/data".lstrip("/")) for home in homes)
    elif (name := source.relative()) in ("labels.json", "samples.json"):
        folders = (source.path[: -len(name)] + "data",)
    reader = Reader(source, builder, log, options, folders, ask_other=True)
    files = reader.choose(_looks_like, "the detection data set of FiftyOne")
    values = {file: _RECORDS.read(reader, file) for file in files}
    samples = [file for file, value in values.items() if isinstance(value, dict) and "samples" in value]
    for file in samples:
        _read_samples(reader, values.pop(file), At(source.full(file)), options)
    for file in files_of_split(list(values), split_of, None if samples else options.split, source, log):
        value = values[file]
        at = At(source.full(file))
        if isinstance(value, Table):
            if _read_table(reader, value, at, split_of(file)):
                continue
            value = reader.value(file)
        record = None if value is Nothing else reader.mapping(value, at)
        if record is not None:
            _read_file(reader, record, at, split_of(file))
    reader.finish(field="confidence")


def _read_file(reader: Reader, record: dict[str, Any], at: At, split: str) -> None:
    reader.count_unread(record, frozenset({"classes", "labels"}))
    if "labels" not in record:
        reader.missing(at, "labels")
        return
    errors = reader.log.errors
    names = None
    if record.get("classes") is not None:
        names = reader.items(record["classes"], at / "classes")
        for i, name in enumerate(names or ()):
            reader.category(name, at / "classes" / i, listed=True)
    labels = reader.mapping(record["labels"], at / "labels")
    if labels is None or reader.log.errors > errors:
        return
    for key, value in labels.items():
        here = at / "labels" / key
        boxes = reader.items(value, here)
        image, size = _add_image(reader, key, here, split, sized=bool(boxes))
        if image is None or boxes is None:
            reader.builder.skipped += len(boxes or ())
            continue
        rows = reader.rows_of(here)
        for i, box in enumerate(boxes):
            assert size is not None
            if not _read_box(reader, box, here / i, image, size, names, rows, i):
                reader.builder.skipped += 1


def _add_image(
    reader: Reader, key: str, at: At, split: str, *, sized: bool
) -> tuple[int | None, tuple[int, int] | None]:
    """The row and the size of the image of a key; no row, and an issue, if it has none or lacks its size."""
    picture = reader.pictures.find(key, path=at.path) if reader.pictures else None
    name = picture.name if picture else key
    size = reader.pictures.size(name, picture) if sized else None
    image = reader.image(name, at, size=size, picture=picture, split=split)
    if image is not None and sized and size is None:
        reader.log.report(NO_SIZE, at.path, **at.where, value=name)
        image = None
    return image, size


def _read_table(reader: Reader, table: Table, at: At, split: str) -> bool:
    """Read a file in which everything is as usual; False, and nothing is done, if a class is not listed."""
    names, boxes = table["classes"][0], table["labels"]
    label = boxes["label"]
    if names is not _UNLISTED:
        rows = {name: name for name in names} | dict(enumerate(names))
        label = list(map(rows.get, label))
        if None in label:
            return False
        for i, name in enumerate(names):
            reader.category(name, at / "classes" / i, listed=True)
    elif any(type(name) is not str or refuse_class(name) for name in dict.fromkeys(label)):
        return False
    images, lists, sizes = [], [], []
    for key, n in zip(boxes.names, boxes.lengths, strict=True):
        here = at / "labels" / key
        image, size = _add_image(reader, key, here, split, sized=n > 0)
        images.append(image)
        sizes.append(size or (0, 0))
        lists.append(-1 if image is None else reader.rows_of(here))
    scale = np.repeat(np.array(sizes, np.float64).reshape(-1, 2), boxes.lengths, axis=0)
    values = boxes["bounding_box"] * np.tile(scale, 2)
    wh = values[:, 2:]
    xyxy = np.concatenate([values[:, :2], values[:, :2] + wh], axis=1)
    flags = np.array(boxes["attributes"], np.int64)
    add_boxes(reader, boxes, label, xyxy, images, lists, wh=wh, score=boxes["confidence"], flags=flags)
    return True


_UNLISTED = ("",)


def _usual_classes(names: Any) -> Any:
    """The list of classes, `_UNLISTED` where there is none; None if one of them cannot be a class."""
    if names is None:
        return _UNLISTED
    good = type(names) is list and all(type(name) is str and not refuse_class(name) for name in names)
    return names if good else None


def _usual_flags(given: Any) -> int | None:
    """The flags that attributes say; None where they say anything else."""
    if given and (type(given) is not dict or not _FLAGS.keys() >= given.keys()):
        return None
    flags = Flag(0)
    for name, value in (given or {}).items():
        flags |= _FLAGS[name] if is_set(value) else 0
    return int(flags)


def _usual_label(label: Any) -> Any:
    return label if type(label) in (int, str) else None


_RECORDS = Records(
    {
        "classes": Held(_usual_classes),
        "labels": Keyed(
            Each(
                {
                    "label": Held(_usual_label),
                    "bounding_box": FOUR,
                    "confidence": Maybe(NUMBER),
                    "attributes": Held(_usual_flags),
                    "index": EMPTY,
                }
            )
        ),
    }
)


def _read_samples(reader: Reader, record: dict[str, Any], at: At, options: FiftyoneOptions) -> None:
    """Read the images of ``samples.json``."""
    here, log = at / "samples", reader.log
    samples = reader.items(record["samples"], here)
    found = [
        (s, here / i) for i, v in enumerate(samples or ()) if (s := reader.mapping(v, here / i)) is not None
    ]
    field = options.field or _field(reader, [sample for sample, _ in found])
    splits = [_tagged(sample) for sample, _ in found]
    if miss_split(options.split, splits, reader.source, log):
        return
    for (sample, place), split in zip(found, splits, strict=True):
        if options.split in (None, split):
            _read_sample(reader, sample, place, field, split)


def _tagged(sample: dict[str, Any]) -> str:
    """The split that the tags of a sample name, else nothing."""
    tags = sample.get("tags")
    return next((t for t in tags if isinstance(t, str) and t in SPLITS), "") if isinstance(tags, list) else ""


def _field(reader: Reader, samples: list[dict[str, Any]]) -> str:
    """The name of the field whose detections are read."""
    scored: dict[str, bool] = {}
    for sample in samples:
        for key, value in sample.items():
            if isinstance(value, dict) and isinstance(given := value.get("detections"), list):
                own = any(isinstance(d, dict) and d.get("confidence") is not None for d in given)
                scored[key] = scored.get(key, False) or own
    wants = reader.builder.kind
    names = [name for name, own in scored.items() if own == (wants == "det")] or list(scored)
    chosen = _TRUTH if wants != "det" and _TRUTH in scored else (names or [_TRUTH])[0]
    if len(scored) > 1:
        shown = printable(reader.source.path)
        reader.log.note(f"{shown}: the field {printable(chosen)} is read (-O field=NAME chooses another)")
    return chosen


def _read_sample(reader: Reader, sample: dict[str, Any], at: At, field: str, split: str) -> None:
    reader.count_unread(sample, _SAMPLE | {field})
    given = {} if sample.get(field) is None else reader.mapping(sample[field], at / field)
    boxes = None if given is None else reader.items(given.get("detections"), at / field / "detections")
    about = {} if sample.get("metadata") is None else reader.mapping(sample["metadata"], at / "metadata")
    if boxes is None or about is None:
        reader.builder.skipped += len(boxes or ())
        return
    name: Any = sample.get("filepath")
    if isinstance(name, str):
        name = name.replace("\\", "/")
        name = name.rpartition("/")[2] if _ABSOLUTE.match(name) else name.removeprefix("data/")
    picture = reader.pictures.named(name) if isinstance(name, str) and reader.pictures else None
    size = reader.size(about.get("width"), about.get("height"), at / "metadata", ("width", "height"))
    if size is None and boxes and isinstance(name, str):
        size = reader.pictures.size(name, picture)
        if size is None:
            reader.log.report(NO_SIZE, at.path, **at.where, value=name)
    image = None
    if size != (0, 0):
        image = reader.image(name, at, field="filepath", size=size, picture=picture, split=split)
    if image is None or (boxes and size is None):
        reader.builder.skipped += len(boxes)
        return
    here = at / field / "detections"
    rows = reader.rows_of(here)
    for i, box in enumerate(boxes):
        assert size is not None
        if not _read_detection(reader, box, here / i, image, size, rows, i):
            reader.builder.skipped += 1


def _read_detection(
    reader: Reader, value: Any, at: At, image: int, size: tuple[int, int], rows: int, line: int
) -> bool:
    """Read one detection of a sample, whose attributes may stand beside its other keys."""
    box = reader.mapping(value, at, row=True)
    if box is None:
        return False
    given = box.get("attributes") or {}
    attributes = {key: box[key] for key in _FLAGS if key in box}
    for key, attribute in given.items() if isinstance(given, dict) else ():
        attributes[key] = attribute.get("value") if isinstance(attribute, dict) else attribute
    reader.count_unread(box, _BOX | _DETECTION | _FLAGS.keys())
    plain = {key: box[key] for key in _BOX if key in box}
    if isinstance(given, dict):
        plain["attributes"] = attributes
    return _read_box(reader, plain, at, image, size, None, rows, line)


def _read_box(
    reader: Reader,
    value: Any,
    at: At,
    image: int,
    size: tuple[int, int],
    names: list[Any] | None,
    rows: int,
    line: int,
) -> bool:
    """Read one detection; False, and an issue, if it cannot be a box."""
    box = reader.mapping(value, at, row=True)
    if box is None:
        return False
    for key in ("label", "bounding_box"):
        if key not in box:
            reader.missing(at, key, row=True)
            return False
    label, known = box["label"], True
    if names is not None:
        if type(label) is int and 0 <= label < len(names):
            label = names[label]
        elif type(label) is not str or label not in names:
            reader.log.report(
                UNKNOWN_CLASS,
                at.path,
                **(at / "label").where,
                field="label",
                value=Trusted(show(label)),
                n=len(names),
                where=Trusted("the list of classes"),
            )
            known = False
    category = reader.category(label, at / "label") if known else None
    values = reader.numbers(
        box["bounding_box"], 4, "4 numbers: left, top, width, height", at / "bounding_box"
    )
    score = reader.score(box.get("confidence"), at / "confidence")
    given = box.get("attributes")
    attributes = reader.mapping(given, at / "attributes", row=True) if given else {}
    if category is None or values is None or score is None or attributes is None:
        return False
    reader.count_unread(box, _BOX)
    flags = reader.flags(attributes, _FLAGS)
    width, height = size
    x, y, w, h = (v * s for v, s in zip(values, (width, height, width, height), strict=True))
    corners = x, y, x + w, y + h
    index = box.get("index")
    track = reader.builder.track(-1, index) if type(index) is int and index >= 0 else -1
    columns = {"file": rows, "line": line, "flags": flags, "track": track}
    reader.box(image, category, corners, at, wh=(w, h), score=score, **columns)
    return True


def write(dataset: Dataset, target: Output, log: Log, options: FiftyoneOptions) -> None:
    """Write ``labels.json``, or ``samples.json``."""
    images, boxes = dataset.images, dataset.boxes
    by_sample = options.layout == "samples"
    name = "" if target.single else f"{options.layout}.json"
    fits = may_write(dataset, log) and (not name or target.plan([name], ["the labels"], log))
    keys = list(images.name) if by_sample else [stem(image) for image in images.name]
    first: dict[str, str] = {}
    for key, image in zip(keys, images.name, strict=True):
        if first.setdefault(key, image) != image:
            log.report(COLLISION, "", first=first[key], second=image, value=f"labels/{key}")
            fits = False
    for row in np.unique(boxes.image).tolist():
        if images.width[row] <= 0 or images.height[row] <= 0:
            path, line, pointer = dataset.image_place(row)
            log.report(NO_SIZE, path, line=line, pointer=pointer, value=images.name[row])
            fits = False
    if not fits:
        return
    found = _detections(dataset, log, by_name=by_sample)
    if by_sample:
        field = options.field or (_TRUTH if dataset.kind == "gt" else "predictions")
        samples = (_sample(dataset, row, field, own) for row, own in enumerate(found))
        text = '{"samples": [\n' + ",\n".join(map(dump, samples)) + "\n]}\n"
    else:
        body = ",\n".join(f"{dump(key)}: {dump(own)}" for key, own in zip(keys, found, strict=True))
        text = f'{{"classes": {dump(list(dataset.categories.name))},\n"labels": {{\n{body}\n}}}}\n'
    target.write(name, text.encode())


def _detections(dataset: Dataset, log: Log, *, by_name: bool) -> Iterator[list[dict[str, Any]]]:
    """The objects of each image; with `by_name` as documents of FiftyOne, their classes as names."""
    images, boxes = dataset.images, dataset.boxes
    size = np.stack([images.width, images.height], axis=1).astype(np.float64)
    relative = np.concatenate([boxes.xyxy[:, :2], boxes.wh], axis=1)
    relative /= np.concatenate([size, size], axis=1)[boxes.image]
    # Finer than centres are written elsewhere, or halves of a width would be rounded up and down in turn.
    places = np.array([decimals_for(*wh) + 3 for wh in size.astype(np.int64).tolist()], np.int64)[boxes.image]
    texts = fixed_rows(relative, places)
    used = sorted(FLAG_NAMES)
    tracks = box_tracks(dataset, track_numbers(dataset, log, apart=True), -1)
    for members in groups(dataset):
        found = []
        for i in members:
            location = [number(float(text)) for text in texts[i]]
            category = int(boxes.category[i])
            box: dict[str, Any] = {"label": category, "bounding_box": location}
            if by_name:
                box = {
                    "_cls": "Detection",
                    "label": dataset.categories.name[category],
                    "bounding_box": location,
                }
            if dataset.kind == "det":
                box["confidence"] = number(float(boxes.score[i]))
            if names := dict.fromkeys(flags_of(int(boxes.flags[i]), used), True):
                box |= names if by_name else {"attributes": names}
            if tracks is not None and tracks[i] >= 0:
                box["index"] = int(tracks[i])
            found.append(box)
        yield found


def _sample(dataset: Dataset, row: int, field: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """The sample of an image."""
    images = dataset.images
    sample: dict[str, Any] = {"filepath": f"data/{images.name[row]}", "tags": []}
    if images.split[row]:
        sample["tags"] = [images.split[row]]
    if images.width[row] > 0 and images.height[row] > 0:
        width, height = int(images.width[row]), int(images.height[row])
        sample["metadata"] = {"_cls": "ImageMetadata", "width": width, "height": height}
    return {**sample, field: {"_cls": "Detections", "detections": found}}


def adapt(options: FiftyoneOptions) -> dict[str, Any]:
    """What samples keep."""
    if options.layout == "labels":
        return {}
    keeps = frozenset({"size", "extension", "empty", "split", "score", "track", *FLAG_NAMES})
    return {"keeps": keeps, "split_names": SPLITS}


FORMAT = Format(
    name="fiftyone",
    title="FiftyOne detection data set",
    use="annotation tools",
    written_by="FiftyOne FiftyOneImageDetectionDataset and FiftyOneDataset",
    doc=__doc__ or "",
    suffixes=(".json",),
    begins="[{",
    single=True,
    sniff=sniff,
    read=read,
    write=write,
    options=FiftyoneOptions,
    keeps=frozenset({"empty", "unused", "order", "score", "track", *FLAG_NAMES}),
    max_error_px=1e-6,
    needs_size=True,
    adapt=adapt,
)
