"""FiftyOne detection dataset: ``data/`` and ``labels.json``.

Specification: "FiftyOneImageDetectionDataset" in the documentation of FiftyOne
(https://docs.voxel51.com/user_guide/export_datasets.html)::

    {"classes": ["person", "car"],
     "labels": {"a": [{"label": 0, "bounding_box": [0.1, 0.2, 0.3, 0.4], "confidence": 0.9,
                       "attributes": {"occluded": true}}],
                "b": null}}

``bounding_box`` is left, top, width and height relative to the image size. The size comes from the pictures
in ``data/`` beside the file, or beside its folder ``labels/``, or from ``--images``, ``--image-size`` or
``--image-sizes``. A key of ``labels`` is the image name without its extension, which is taken from the
picture. ``null`` or an empty list is an image without objects.

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

The mask of a detection is its ``mask``, a NumPy array in base64, or the PNG at its ``mask_path``, if that is
below the folder of the file. It is stretched to the box, and written only with ``layout=samples``. If
there are no detections, or with ``-O field=NAME``, a field of ``polylines`` or ``keypoints``
is read instead. Polylines that are ``closed`` or ``filled`` are outlines. Keypoints with ``NaN`` are not
labelled, and the mean ``confidence`` of the others is the score of the object. Neither field is written.
``index`` is the number of an object that is followed through images: its track id.

Writing: a ``.json`` target is the file itself, any other target a folder with ``labels.json``; the pictures
belong in ``data/`` beside it. Numbers have enough decimals to preserve pixels within 1e-6. ``-O
layout=samples`` writes ``samples.json`` instead, which FiftyOne imports as ``LegacyFiftyOneDataset``: it also
keeps the names and sizes of images and their splits, but only classes with objects, in no order.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from odm.files import COLLISION, Output, Source
from odm.formats._contract import SURE, option
from odm.formats._shared.codes import UNKNOWN_CLASS
from odm.formats._shared.frames import find_box_tracks, number_tracks
from odm.formats._shared.gather import NAN
from odm.formats._shared.json.columns import Token, show
from odm.formats._shared.json.items import (
    BAD_SIZE,
    BadRecord,
    Box,
    Image,
    Item,
    Row,
    Size,
    check_sizes,
    iter_images,
    make_relative,
    plan_file,
    read_item,
)
from odm.formats._shared.json.preview import JsonPreview, find_recognised, json_format_of
from odm.formats._shared.json.row_shapes import to_pixels
from odm.formats._shared.json.values import FLAG_NAMES, Reader, choose_files, dump, find_bounds
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.shapes.pixel_masks import decode_npy, encode_npy, find_png, stretch, unpack
from odm.formats._shared.split_names import (
    SPLITS,
    SplitOptions,
    find_split,
    report_missing_split,
)
from odm.issues import Log, Trusted, plural, printable, spell_setting
from odm.names import stem
from odm.tables import Builder, Dataset, Flag

_KEYS = declare_keys(
    "name version classes default_classes labels{} label bounding_box confidence index attributes{} value "
    "tags id _id $oid _cls mask $binary base64 subType mask_path media_type sample_fields* info* "
    "samples{} filepath metadata size_bytes mime_type width height num_channels _media_type _rand "
    "_dataset_id created_at* last_modified_at* detections polylines keypoints points closed filled "
    "difficult truncated occluded crowd group_of iscrowd"
)
_OBJECT = frozenset("_id id _cls label confidence attributes index tags".split())
_BOX = _OBJECT | {"bounding_box"}
_DRAWN = _OBJECT | {"points", "closed", "filled"}
_LISTS = ("detections", "polylines", "keypoints")
"""The keys of the lists of objects in a field, by its type; without shapes only detections are read."""
_SAMPLE = frozenset(
    "_id id filepath tags metadata _media_type _rand _dataset_id created_at last_modified_at".split()
)
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


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Recognise ``samples.json`` and ``labels.json`` by their keys and how the values of these begin."""
    keys, first_sample = preview.keys, preview.first.get("samples", {})
    if preview.top == "{" and keys.get("samples") == "[" and "filepath" in first_sample:
        return SURE, "it has samples with a filepath, as FiftyOne has"
    # The classes, a list or null, may be missing.
    if preview.top != "{" or keys.get("labels") != "{" or keys.get("classes", "[") not in ("[", "n"):
        return None
    if "classes" in keys or b'"bounding_box"' in head:
        return SURE, "it has classes and labels by image, as in FiftyOne"
    return None


def read(source: Source, builder: Builder, log: Log, options: FiftyoneOptions) -> None:
    """Read the file, or those of a folder. The splits of samples are tags, those of labels in file names."""
    # Pictures are in the folder data beside a file, or beside the folder labels that the file is in.
    first_files = find_recognised(source, looks_like) if source.is_dir else [""]
    file_folders = list(dict.fromkeys(os.path.dirname(source.full(file)) for file in first_files))
    file_folders += [os.path.dirname(path) for path in file_folders if os.path.basename(path) == "labels"]
    picture_folders = tuple(os.path.join(folder, "data") for folder in file_folders)
    reader = Reader(source, builder, log, options, picture_folders, borrow_sizes=True, keys=_KEYS)
    files = choose_files(source, looks_like, "the detection dataset of FiftyOne", log)
    record_of: dict[str, Item] = {}
    for file in log.track(files, "reading"):
        with contextlib.suppress(BadRecord):
            record_of[file] = read_item(reader, file)
    samples_of = {
        file: list(record.items("samples")) for file, record in record_of.items() if "samples" in record
    }
    tags = [_find_tag(sample) for samples in samples_of.values() for sample in samples]
    label_files = [file for file in files if file not in samples_of]
    if files and not report_missing_split(options.split, [*tags, *map(find_split, label_files)], source, log):
        for samples in samples_of.values():
            _read_samples(reader, samples, options)
        for file in label_files:
            with contextlib.suppress(BadRecord):
                if file in record_of and options.split in (None, find_split(file)):
                    _read_labels(record_of[file], find_split(file))
    reader.finish(field="confidence")


def _read_labels(record: Item, split: str) -> None:
    """Add the images of ``labels.json`` and their detections; nothing after an issue in the classes."""
    reader = record.reader
    record.count_unread(frozenset({"classes", "labels"}))
    record.need("labels")
    errors_before = reader.log.errors
    names = None if record.get("classes") is None else record.array("classes")
    for i, name in enumerate(names or ()):
        reader.category(name, record.location / "classes" / i, listed=True)
    labels = record.object("labels")
    if reader.log.errors > errors_before:
        return
    for key in labels.record:
        boxes = labels.rows(key)
        picture = reader.pictures.find(key, path=boxes.location.path) if reader.pictures else None
        name = picture.name if picture else key
        image = reader.image(name, boxes.location, picture=picture, split=split)
        if image is not None:
            size = reader.find_unit_size(image, name, boxes.location, picture) if boxes else None
            boxes.read(image, _read_box, size, names)


def _find_tag(sample: Item) -> str:
    """Return the first tag of a sample that names a split, or ""."""
    tags = sample.get("tags")
    tags = tags if isinstance(tags, list) else []
    return next((tag for tag in tags if isinstance(tag, str) and tag in SPLITS), "")


def _read_samples(reader: Reader, samples: Sequence[Item], options: FiftyoneOptions) -> None:
    """Add the images of ``samples.json``, or of the split that is asked for, with one of their fields."""
    field = options.field or _choose_field(reader, samples)
    for sample in samples:
        with contextlib.suppress(BadRecord):
            if options.split in (None, _find_tag(sample)):
                _read_sample(sample, field, _find_tag(sample))


def _choose_field(reader: Reader, samples: Sequence[Item]) -> str:
    """The name of the field that is read, one with detections or else other shapes; noted if several are."""
    has_scores: dict[str, bool] = {}  # by field, whether any of its detections has a score
    for list_key in _LISTS:
        for sample in () if has_scores else samples:  # polylines only if no field has detections, ...
            for key, value in sample.record.items():
                if isinstance(value, dict) and isinstance(labels := value.get(list_key), list):
                    has_score = any(isinstance(d, dict) and d.get("confidence") is not None for d in labels)
                    has_scores[key] = has_scores.get(key, False) or has_score
    kind = reader.builder.kind
    # Detections: the first field with scores. Ground truth: ground_truth, or the first field without scores.
    # Where there is none of these, the first field of all.
    of_kind = [name for name, has_score in has_scores.items() if has_score == (kind == "det")]
    candidates = [_TRUTH] if kind != "det" and _TRUTH in has_scores else [*of_kind, *has_scores, _TRUTH]
    field = candidates[0]
    if len(has_scores) > 1:
        shown = printable(reader.source.path)
        reader.log.note(
            f"{shown}: the field {printable(field)} is read ({spell_setting('field=NAME')} chooses another)"
        )
    return field


def _read_sample(sample: Item, field: str, split: str) -> None:
    """Add the image of a sample, and the objects in one of its fields; an absolute path loses its folders."""
    reader = sample.reader
    sample.count_unread(_SAMPLE | {field}, free=True)  # free: keys are the users' names of fields
    label = sample.object(field, optional=True)
    list_key = label.first_key(*_LISTS)
    boxes = label.rows(list_key)
    size = sample.object("metadata", optional=True).size("width", "height")
    name, picture = sample.get("filepath"), None
    if isinstance(name, str):
        name = name.replace("\\", "/")
        name = name.rpartition("/")[2] if _ABSOLUTE.match(name) else name.removeprefix("data/")
        picture = reader.pictures.find_exact(name) if reader.pictures else None
    if size != BAD_SIZE:
        image = sample.image_named(name, field="filepath", size=size, picture=picture, split=split)
        boxes.read_relative(image, sample, name, size, _READERS[list_key], None)  # None: no list of classes


def _read_box(box: Row, size: Size, names: Sequence[str] | None) -> None:
    """Add a detection, relative to the image `size`; its label is a name, or a number in the list `names`.

    Without a list (None) any name is a class; a label that is not in the list is reported.
    """
    box.need("label", "bounding_box")
    label, category = box.get("label"), -1
    if names is not None and type(label) is int and 0 <= label < len(names):
        label = names[label]
    if names is None or (type(label) is str and label in names):
        category = box.category_named(label, box.location / "label")
    else:
        list_name = Trusted("the list of classes")
        box.report(UNKNOWN_CLASS, "label", value=Trusted(show(label)), n=len(names), where=list_name)
        box.mark_bad()
    (x, y, _, _), (w, h) = box.ltwh("bounding_box")
    score, attributes = box.score("confidence"), box.object("attributes", optional=True)
    if box.is_bad:
        return
    key, decode = _find_mask(box)
    box.count_unread(_BOX | _FLAGS.keys() | ({key} if key else set()))
    flags_and_track = _read_flags_and_track(box, attributes)
    width, height = size
    x, y, w, h = x * width, y * height, w * width, h * height
    # `need_pixels` is True if the size of the image is unknown, so that there are no pixels to paint.
    if key and math.isfinite(x + y + w + h) and not box.reader.need_pixels(box.owner.image):
        paint = functools.partial(_stretch_pixels, decode, width=round(w), height=round(h))
        box.paint(box, key, paint, left=round(x), top=round(y))
    box.add(category, (x, y, x + w, y + h), wh=(w, h), score=score, **flags_and_track)


def _read_flags_and_track(box: Row, attributes: Item) -> dict[str, int]:
    """The columns ``flags`` and ``track`` of an object; its track is its index, -1 for none."""
    values = {key: box.get(key) for key in _FLAGS if key in box}
    for key, value in attributes.record.items():
        values[key] = value.get("value") if isinstance(value, dict) else value
    flags = box.reader.flags(values, _FLAGS)
    index, track = box.get("index"), -1
    if type(index) is int and index >= 0:
        track = box.reader.builder.track(-1, index)  # of no video
    return {"flags": flags, "track": track}


def _read_outline(box: Row, size: Size, _: None) -> None:
    """Add a polyline that is closed or filled, a polygon relative to the image `size`; others are counted."""
    if not (box.get("closed") or box.get("filled")):
        box.reader.count("polylines")
        return
    box.need("label", "points")
    category, point_lists, location = box.category("label"), box.array("points"), box.location / "points"
    # Each part gets a key, "0", "1", ..., since `points` reads the points under a key.
    point_list_of_key = {str(i): points for i, points in enumerate(point_lists)}
    lists = Item(box.reader, point_list_of_key, location, box.origin, box.line, row=box)
    least_points = 1 if len(point_lists) > 1 else 3  # short parts are left out, with a warning
    outlines = [[to_pixels(point, size) for point in lists.points(key, least_points)] for key in lists.record]
    score, attributes = box.score("confidence"), box.object("attributes", optional=True)
    if not outlines and not box.is_bad:
        box.report_wrong("points", "lists of points [x, y]")
    if box.is_bad:
        return
    box.count_unread(_DRAWN)
    box.draw("polygons", outlines, counted_as="polygons")
    corners = find_bounds([point for outline in outlines for point in outline])
    box.add(category, corners, score=score, **_read_flags_and_track(box, attributes))


def _read_keypoints(box: Row, size: Size, _: None) -> None:
    """Add keypoints relative to the image `size`; unknown ones are NaN or null.

    The score is the mean of those of the keypoints, if there is a list of them. Keypoints of which none is
    known are counted.
    """
    box.need("label", "points")
    category, raw_points = box.category("label"), box.array("points")
    is_unknown = [_is_unknown(point) for point in raw_points]
    pairs = zip(raw_points, is_unknown, strict=True)
    # With numbers in the place of unknown points, `points` finds only true faults.
    filled_points = [[0, 0] if is_missing else point for point, is_missing in pairs]
    item = Item(box.reader, {"points": filled_points}, box.location, box.origin, box.line, row=box)
    known_points = item.points("points", n_min=1)
    scores, attributes = box.get("confidence"), box.object("attributes", optional=True)
    if not isinstance(scores, list):
        score = box.score("confidence")
    else:
        known_scores = [value for value in scores if not _is_unknown(value)]
        numbers = [box.reader.check_number(value, box.location / "confidence") for value in known_scores]
        box.is_bad |= None in numbers
        score = sum(n for n in numbers if n is not None) / len(numbers) if numbers else NAN
    if box.is_bad:
        return
    box.count_unread(_DRAWN)
    points = [
        [0.0, 0.0, 0] if is_missing else [*to_pixels(point, size), 2]
        for point, is_missing in zip(known_points, is_unknown, strict=True)
    ]
    if not all(is_unknown):
        corners = box.set_only_keypoints(points)
        box.add(category, corners, score=score, **_read_flags_and_track(box, attributes))
    else:
        box.reader.count("keypoints")


def _is_unknown(value: Any) -> bool:
    """Whether a decoded value is null or NaN, which is a `Token`, or a point of these."""
    return value is None or value == "NaN" or (isinstance(value, list) and value in _NO_POINTS)


_READERS: dict[str, Callable[..., None]] = {
    "detections": _read_box,
    "polylines": _read_outline,
    "keypoints": _read_keypoints,
}
_NO_POINTS = ([Token("NaN"), Token("NaN")], [None, None])


def _find_mask(box: Row) -> tuple[str, Callable[[Any], Any]]:
    """The key of a mask that can be read, and the function that decodes its value; "" and any if none can."""
    if box.wants and box.get("mask") is not None:
        return "mask", _unpack_pixels
    if box.wants and isinstance(name := box.get("mask_path"), str):
        source = box.reader.source
        folder = os.path.relpath(os.path.dirname(box.location.path), source.path) if source.is_dir else ""
        if (decode := find_png(source, os.path.join(folder, name))) is not None:
            return "mask_path", decode
    return "", _unpack_pixels


def _unpack_pixels(mask: Any) -> Any:
    """The pixels of the value of a mask: a compressed NumPy file in base64, plain or as ``$binary``."""
    text = mask.get("$binary", mask) if isinstance(mask, dict) else mask
    if isinstance(text, dict):
        text = text.get("base64")
    return decode_npy(unpack(text, packed=True))


def _stretch_pixels(decode: Callable[[Any], Any], mask: Any, width: int, height: int) -> Any:
    """The (height, width) pixels of a mask, decoded by `decode` and stretched to its box by nearest pixel."""
    return stretch(decode(mask), width, height)


def _encode_mask(box: Box, image: Image, left: int, top: int, pixels: Any) -> tuple[list[float] | None, Any]:
    """The relative rectangle of a mask, None if that is the box of the object, and the value of the mask.

    `pixels` (height, width) lie at `left` and `top`, in pixels. A mask within the box is padded to fill it;
    one that exceeds the box gets a rectangle of its own: left, top, width and height.
    """
    x, y, width, height = (round(value) for value in (*box.xyxy[:2], *box.wh))
    h, w = pixels.shape
    rectangle = None
    if x <= left and y <= top and left + w <= x + width and top + h <= y + height:  # within: fill up the box
        # By rows above and below, and columns to the left and right.
        pixels = np.pad(pixels, ((top - y, y + height - top - h), (left - x, x + width - left - w)))
    else:
        rectangle = [left / image.width, top / image.height, w / image.width, h / image.height]
    return rectangle, {"$binary": {"base64": encode_npy(pixels), "subType": "00"}}


def write(dataset: Dataset, target: Output, log: Log, options: FiftyoneOptions) -> None:
    """Write ``labels.json`` with a list of classes, or ``samples.json`` with their names."""
    by_sample = options.layout == "samples"
    name = plan_file(dataset, target, f"{options.layout}.json", "labels", log)
    is_writable = check_sizes(dataset, log)
    names = dataset.images.name
    # labels.json names images without their extension, so that two may have one key.
    keys = list(names) if by_sample else [stem(image) for image in names]
    name_of_key: dict[str, str] = {}
    for key, image_name in zip(keys, names, strict=True):
        if name_of_key.setdefault(key, image_name) != image_name:
            log.report(COLLISION, "", first=name_of_key[key], second=image_name, value=f"labels/{key}")
            is_writable = False
    if name is None or not is_writable:
        return
    images_and_objects = _format_detections(dataset, log, by_name=by_sample)
    if by_sample:
        field = options.field or (_TRUTH if dataset.kind == "gt" else "predictions")
        samples = []
        for image, detections in images_and_objects:
            split = dataset.images.split[image.row]
            sample: dict[str, Any] = {"filepath": f"data/{image.name}", "tags": [split] if split else []}
            if image.size:
                sample["metadata"] = {"_cls": "ImageMetadata", **image.size}
            samples.append(dump({**sample, field: {"_cls": "Detections", "detections": detections}}))
        text = '{"samples": [\n' + ",\n".join(samples) + "\n]}\n"
    else:
        pairs = zip(keys, images_and_objects, strict=True)
        body = ",\n".join(f"{dump(key)}: {dump(detections)}" for key, (_, detections) in pairs)
        text = f'{{"classes": {dump(list(dataset.categories.name))},\n"labels": {{\n{body}\n}}}}\n'
    target.write(name, text.encode())


def _format_detections(
    dataset: Dataset, log: Log, *, by_name: bool
) -> Iterator[tuple[Image, list[dict[str, Any]]]]:
    """The objects of each image as JSON; `by_name` in the form of samples.json, with names of classes."""
    xywh_of_row = make_relative(dataset)
    tracks = find_box_tracks(dataset, number_tracks(dataset, log, across_videos=True))
    n_larger_masks = 0
    for image in iter_images(dataset):
        documents = []
        for box in image.boxes:
            document: dict[str, Any] = {"_cls": "Detection", "label": box.label}
            if not by_name:
                document = {"label": int(dataset.boxes.category[box.row])}
            document |= {"bounding_box": xywh_of_row(box.row), **box.score_field("confidence")}
            if (left_top_pixels := box.pixels(image)) is not None:
                mask_rectangle, document["mask"] = _encode_mask(box, image, *left_top_pixels)
                if mask_rectangle is not None:  # the mask is larger than the box
                    n_larger_masks += 1
                    document["bounding_box"] = mask_rectangle
            if flags := dict.fromkeys(box.list_flags(sorted(FLAG_NAMES)), True):
                document |= flags if by_name else {"attributes": flags}
            if tracks is not None and tracks[box.row] >= 0:
                document["index"] = int(tracks[box.row])
            documents.append(document)
        yield image, documents
    if n_larger_masks:
        n_boxes = plural(n_larger_masks, "box is", "boxes are")
        log.note(f"{n_boxes} written as the box around a mask that is larger")


def adapt(options: FiftyoneOptions) -> dict[str, Any]:
    """Declare what the layout ``samples`` keeps."""
    if options.layout == "labels":
        return {}
    keeps = frozenset({"size", "extension", "empty", "split", "score", "track", "mask", *FLAG_NAMES})
    return {"keeps": keeps, "split_names": SPLITS}


FORMAT = json_format_of(
    __name__,
    title="FiftyOne detection dataset",
    use="annotation tools",
    written_by="FiftyOne FiftyOneImageDetectionDataset and FiftyOneDataset",
    single=True,
    holds=("samples", "labels"),
    keeps=frozenset({"empty", "unused", "order", "score", "track", *FLAG_NAMES}),
    shape_options=dict.fromkeys(("mask", "polygon"), "layout=samples"),
    max_error_px=1e-6,
    needs_size=True,
)
