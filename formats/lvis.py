"""LVIS JSON: like COCO, with many classes, class frequencies, and lists of the classes verified for each
image.

Specification: "Data format" of LVIS (https://www.lvisdataset.org/dataset) and its reader
(https://github.com/lvis-dataset/lvis-api)::

    {"images": [{"id": 1, "coco_url": "http://images.cocodataset.org/val2017/000000000001.jpg", "width": 640,
                 "height": 480, "neg_category_ids": [3], "not_exhaustive_category_ids": [2]}],
     "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [x, y, w, h], "area": 9,
                      "segmentation": [[...]]}],
     "categories": [{"id": 1, "name": "person", "synset": "person.n.01", "frequency": "f",
                     "image_count": 120, "instance_count": 700}]}

``bbox`` is left, top, width and height in pixels from the top left corner of the image, read and written
unchanged. The image name is its ``file_name``, or else the last folder and file name of ``coco_url``
(``val2017/000000000001.jpg``). ``area`` is kept, because it is the area of the mask. There are no crowds.

``frequency`` of a class (``r`` rare, ``c`` common, ``f`` frequent) and the two lists of an image are kept for
evaluation: classes of ``neg_category_ids`` are absent from the image, and those in
``not_exhaustive_category_ids`` are not fully annotated there. Nothing is known about any other class without
a box. Ids in these lists that are not categories are counted and left out, because files reduced to some
classes still list the others.

TAO adds videos: ``videos``, ``video_id`` and ``frame_index`` of an image, ``track_id`` of an annotation, and
``tracks``, whose ``score`` is kept.

An annotation with ``"ignore": 1`` is read as difficult: lvis-api counts it neither as found nor as missed.
With 0, null or without the key it is an ordinary object.

``segmentation`` and all other keys of annotations are counted but not read; the conversion summary lists
them. ``info``, ``licenses`` and other keys of images and categories (``coco_url``, ``synset``, ...) are
written again if the target is LVIS or COCO. A file that starts with the annotations looks like COCO: use
``--format lvis``. If every annotation has a ``score``, the file contains detections. If only some have one,
it is read as ground truth without the scores, with a warning. LVIS results have the format of COCO results:
read them as ``coco``, with this file as ``--gt`` (in ``eval`` the other side).

Writing: ids of images, classes and annotations are kept if they are unique whole numbers from 1, otherwise
they count from 1. ``image_count`` and ``instance_count`` are computed from the boxes, and so is an unknown
``frequency`` (``r`` up to 10 images, ``c`` up to 100, ``f`` above).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.files import Output, Source
from odm.formats._contract import NARROWER, RELATIONAL, Format, Sniff
from odm.formats._shared.class_lists import DUPLICATE_CLASS
from odm.formats._shared.codes import (
    BAD_FLAG,
    DUPLICATE_BOX_ID,
    DUPLICATE_ID,
    MISSING_KEY,
    UNKNOWN_CATEGORY,
    UNKNOWN_IMAGE,
)
from odm.formats._shared.frames import box_tracks, track_numbers
from odm.formats._shared.gather import NAN, At
from odm.formats._shared.json_columns import NONE, Broken, Chunk, Document, Field, load
from odm.formats._shared.json_preview import JsonPreview
from odm.formats._shared.json_values import Reader, dump, lines, may_write, number
from odm.formats._shared.number_text import short_wh
from odm.formats._shared.own_fields import of_images, own_fields
from odm.formats._shared.sniffing import sniff_json
from odm.formats._shared.splits import SplitOptions, files_of_split, split_of
from odm.issues import Log, Trusted
from odm.tables import FREQUENCIES, NO_ID, Builder, Dataset, Flag, LabelState
from odm.tables.own import OwnRows

_ANNOTATION = (
    Field("image_id", "int", required=True),
    Field("category_id", "int", required=True),
    Field("bbox", "numbers", required=True),
    Field("area", "number"),
    Field("score", "number"),
    Field("id", "int"),
    Field("ignore", "int"),
    Field("track_id", "int"),
)
_IMAGE = (
    Field("id", "int", required=True),
    Field("file_name", "text"),
    Field("coco_url", "text"),
    Field("width", "int"),
    Field("height", "int"),
    Field("neg_category_ids", "ints"),
    Field("not_exhaustive_category_ids", "ints"),
    Field("video_id", "int"),
    Field("frame_index", "int"),
)
_VIDEO = (Field("id", "int", required=True), Field("name", "text"), Field("length", "int"))
_TRACK = (Field("id", "int", required=True), Field("video_id", "int"), Field("score", "number"))
_CATEGORY = (
    Field("id", "int", required=True),
    Field("name", "text", required=True),
    Field("frequency", "text"),
)
_KEYS = frozenset((*(field.key for field in _ANNOTATION), "video_id"))
_COUNTS = frozenset({"image_count", "instance_count"})
_UNSAID = _COUNTS | {"license", "date_captured", "flickr_url"}
"""Keys that are not worth a word where they are not read."""
_IMAGE_KEYS = _UNSAID | {field.key for field in _IMAGE}
_CATEGORY_KEYS = _UNSAID | {field.key for field in _CATEGORY}
_OWN = {"neg_category_ids": LabelState.ABSENT, "not_exhaustive_category_ids": LabelState.PARTIAL}
"""The lists of an image, and what they mean for their classes."""
_WHAT = "4 numbers: left, top, width, height"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LvisOptions(SplitOptions):
    """Options of LVIS JSON."""


def _looks_like(look: JsonPreview, head: bytes) -> tuple[int, str] | None:
    if look.top != "{" or not look.keys.keys() & {"images", "annotations"}:
        return None
    if look.first.get("images", {}).keys() & _OWN.keys():
        return NARROWER, "its images have LVIS's lists of classes"
    if {"frequency", "synset"} & look.first.get("categories", {}).keys() and b'"frequency"' in head:
        return NARROWER, "its categories have a frequency, as in LVIS"
    return None


def sniff(source: Source) -> Sniff | None:
    """Look at the keys of the first image and the first category."""
    return sniff_json(source, _looks_like)


# ----------------------------------------------------------------------------------------------- reading


def read(source: Source, builder: Builder, log: Log, options: LvisOptions) -> None:
    """Read the file, or those of a folder."""
    reader = Reader(source, builder, log, options, sized=True)
    files = reader.choose(_looks_like, "LVIS JSON")
    for file in files_of_split(files, split_of, options.split, source, log):
        data = source.read(file, log)
        if data is not None:
            path = source.full(file)
            try:
                _read_file(reader, Document(load(data, log, path), log, path), At(path), split_of(file))
            except Broken:
                continue
    reader.finish()


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class _Parts:
    """Columns of the annotations that are good so far, part by part."""

    index: list[NDArray[Any]] = dataclasses.field(default_factory=list)
    ids: list[NDArray[Any]] = dataclasses.field(default_factory=list)
    """(n, 5): image_id, category_id, id, ignore and track_id."""
    numbers: list[NDArray[Any]] = dataclasses.field(default_factory=list)
    """(n, 6): bbox, area and score."""

    def add(self, index: Any, ids: Any, numbers: Any) -> None:
        self.index.append(np.asarray(index, np.int64).reshape(-1))
        self.ids.append(np.asarray(ids, np.int64).reshape(-1, 5))
        self.numbers.append(np.asarray(numbers, np.float64).reshape(-1, 6))


def _read_file(reader: Reader, document: Document, at: At, split: str) -> None:
    if document.top != "{":
        value = document.value()
        document.end()
        reader.wrong(at, "an object", value)
        return
    parts = _Parts()
    labels: dict[str, list[tuple[int, list[int]]]] = {key: [] for key in _OWN}
    images: dict[int, int] = {}
    categories: dict[int, int] = {}
    seen: set[str] = set()
    videos = _Videos(reader)
    members: dict[str, bytes] = {}
    described = -1
    for key, top in document.members():
        here = at / key
        if key in ("videos", "tracks") and top == "[":
            for i, item, _ in _items(reader, document, _VIDEO if key == "videos" else _TRACK):
                videos.take(item, here / i, key)
            continue
        if key not in ("images", "annotations", "categories"):
            text = document.raw()
            if reader.builder.keeps_own and text is not None and len(text) < 2**20:
                members[key] = text
            elif key not in ("info", "licenses"):
                reader.count(key)
            continue
        seen.add(key)
        if top != "[":
            reader.wrong(here, "a list", document.value())
        elif key == "annotations":
            for chunk in document.records(_ANNOTATION):
                _take(reader, chunk, here, parts)
        else:
            file = reader.rows_of(here)
            rows, own = [], OwnRows()
            for i, item, fields in _items(reader, document, _IMAGE if key == "images" else _CATEGORY):
                if key == "images":
                    row = _read_image(reader, item, here / i, images, labels, split, file, i)
                    videos.place(row, item)
                else:
                    row = _read_category(reader, item, here / i, categories, here)
                if row is not None and reader.builder.keeps_own:
                    rows.append(row)
                    own.extend(1, fields)
            if key == "images":
                described = file
                reader.builder.add_own("images", rows, own.columns)
            else:
                reader.builder.add_own("categories", rows, own.columns)
    for key in ("images", "annotations", "categories"):
        if key not in seen:
            reader.log.report(MISSING_KEY, at.path, value=key)
    videos.finish()
    if members:
        reader.builder.describe(reader.rows_of(at / "images") if described < 0 else described, members)
    if len(seen) == 3:
        _label(reader, labels, categories)
        if parts.index:
            _hand_over(reader, parts, at / "annotations", images, categories)
    videos.score_tracks()


class _Videos:
    """The videos and tracks of one file, until all of its lists were read."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._rows: dict[int, int] = {}
        self._frames: list[tuple[int, int, int]] = []
        """Row of an image, id of its video, and its number there."""
        self._scores: list[tuple[int, int | None, float]] = []

    def take(self, item: Any, at: At, key: str) -> None:
        """Take an entry of the list of videos, or of that of tracks."""
        reader = self._reader
        record = reader.mapping(item, at)
        id_ = None if record is None else _whole(reader, record, "id", at)
        if record is None or id_ is None:
            return
        if key == "videos":
            name, length = record.get("name"), record.get("length")
            if id_ in self._rows:
                reader.log.report(DUPLICATE_ID, at.path, **at.where, value=id_, first=Trusted("this list"))
                return
            whole = length if type(length) is int and length > 0 else 0
            name = name if isinstance(name, str) and name else str(id_)
            self._rows[id_] = reader.builder.video(name, length=whole, source_id=id_)
        elif type(record.get("score")) in (int, float) and record["score"] == record["score"]:
            self._scores.append((id_, record.get("video_id"), float(record["score"])))

    def place(self, row: int | None, item: Any) -> None:
        """Store the frame of an image, if it has one."""
        if row is not None and isinstance(item, dict) and type(item.get("video_id")) is int:
            frame = item.get("frame_index")
            whole = type(frame) is int and 0 <= frame < 2**31
            self._frames.append((row, item["video_id"], frame if whole else -1))  # type: ignore[arg-type]

    def finish(self) -> None:
        """Tell the builder which frames of which videos the images are."""
        builder = self._reader.builder
        for row, id_, frame in self._frames:
            if id_ not in self._rows:
                self._rows[id_] = builder.video(str(id_), source_id=id_)
            builder.set_frames(row, [self._rows[id_]], [frame])

    def score_tracks(self) -> None:
        """Give the tracks that there are now their scores."""
        for id_, video, score in self._scores:
            self._reader.builder.score_track(
                self._rows.get(video, -1) if video is not None else -1, id_, score
            )


def _items(
    reader: Reader, document: Document, fields: Sequence[Field]
) -> Iterator[tuple[int, Any, dict[str, list[bytes]]]]:
    """Index, record (of columns only what the fields name) and other fields of each entry of a list."""
    known = {field.key for field in fields} - {"coco_url"} | _COUNTS
    keeps = reader.builder.keeps_own
    for chunk in document.records(fields, rest=keeps):
        if chunk.records is not None:
            for i, item in enumerate(chunk.records, chunk.start):
                own = own_fields(item, known, lambda _: None) if keeps and type(item) is dict else {}
                unread = own.keys() - {"coco_url"}
                yield i, {k: v for k, v in item.items() if k not in unread} if unread else item, own
            continue
        for key, n in chunk.extras.items():
            if key not in _UNSAID:
                reader.count(key, n)
        lists = {k: c.tolist() if isinstance(c, np.ndarray) else c for k, c in chunk.columns.items()}
        for i in range(chunk.n):
            item = {k: c[i] for k, c in lists.items() if c[i] is not None and c[i] != NONE}
            own = {k: [c[i]] for k, c in chunk.rest.items() if k not in _COUNTS}
            if keeps and "coco_url" in item:
                own["coco_url"] = [dump(item["coco_url"]).encode()]
            yield chunk.start + i, item, own


def _whole(reader: Reader, record: dict[str, Any], key: str, at: At, *, row: bool = False) -> int | None:
    """A whole number under a key, or None and an issue."""
    value = record.get(key)
    if type(value) is int and abs(value) < 2**63 - 1:
        return value
    if key not in record:
        reader.missing(at, key, row=row)
    else:
        reader.wrong(at / key, "a whole number", value, row=row)
    return None


def _read_image(
    reader: Reader,
    item: Any,
    at: At,
    images: dict[int, int],
    labels: dict[str, list[tuple[int, list[int]]]],
    split: str,
    file: int,
    line: int,
) -> int | None:
    record = reader.mapping(item, at)
    if record is None:
        return None
    reader.count_unread(record, _IMAGE_KEYS)
    id_ = _whole(reader, record, "id", at)
    if id_ is None:
        return None
    if id_ in images:
        reader.log.report(DUPLICATE_ID, at.path, **at.where, value=id_, first=Trusted("this list"))
        return None
    images[id_] = -2
    key = "file_name" if record.get("file_name") is not None else "coco_url"
    name = record.get(key)
    if key == "coco_url" and isinstance(name, str):
        name = "/".join(name.split("?", 1)[0].split("/")[-2:])
    size = reader.size(record.get("width"), record.get("height"), at, ("width", "height"))
    row = reader.image(name, at, field=key, size=size, split=split, source_id=id_, file=file, line=line)
    if row is not None:
        images[id_] = row
    for key, listed in labels.items():
        found = record.get(key)
        if found is None:
            continue
        if not isinstance(found, list):
            reader.wrong(at / key, "a list of whole numbers", found)
            continue
        wrong = [i for i, value in enumerate(found) if type(value) is not int]
        for i in wrong:
            reader.wrong(at / key / i, "a whole number", found[i])
        if found and not wrong and row is not None:
            listed.append((row, found))
    return row


def _label(
    reader: Reader, labels: dict[str, list[tuple[int, list[int]]]], categories: dict[int, int]
) -> None:
    """Add the image labels in the lists of the images."""
    for key, listed in labels.items():
        image = np.repeat([row for row, _ in listed], [len(ids) for _, ids in listed])
        category = np.array([categories.get(i, -1) for _, ids in listed for i in ids], np.int64)
        known = category >= 0
        reader.builder.labels(image=image[known], category=category[known], verdict=_OWN[key])
        if not known.all():
            reader.count(f"{key} of unlisted classes", int(np.count_nonzero(~known)))


def _read_category(reader: Reader, item: Any, at: At, categories: dict[int, int], location: At) -> int | None:
    record = reader.mapping(item, at)
    if record is None:
        return None
    reader.count_unread(record, _CATEGORY_KEYS)
    id_ = _whole(reader, record, "id", at)
    name = reader.text(record, "name", at)
    frequency = record.get("frequency") or ""
    if frequency and frequency not in FREQUENCIES:
        reader.wrong(at / "frequency", "r, c or f", frequency)
        frequency = ""
    if id_ is None or name is None:
        return None
    if id_ in categories:
        reader.log.report(DUPLICATE_ID, at.path, **at.where, value=id_, first=Trusted("this list"))
        return None
    known = reader.builder.category_row(name)
    if known is not None and known in categories.values():
        ids = {row: i for i, row in categories.items()}
        reader.log.report(DUPLICATE_CLASS, location.path, value=name, first=ids[known], second=id_)
    row = reader.category(name, at / "name", source_id=id_, frequency=frequency, listed=True)
    categories[id_] = -2 if row is None else row
    return row


def _take(reader: Reader, chunk: Chunk, at: At, parts: _Parts) -> None:
    """Keep the columns of a slice, or where it has none look at its records one by one."""
    for key, n in chunk.extras.items():
        if key != "video_id":
            reader.count(key, n)
    if chunk.records is None:
        n, columns = chunk.n, chunk.columns
        none, nan = np.full(n, NONE), np.full(n, NAN)
        keys = ("image_id", "category_id", "id", "ignore", "track_id")
        ids = np.stack([np.asarray(columns.get(k, none)) for k in keys], axis=1)
        more = np.stack([np.asarray(columns.get(k, nan)) for k in ("area", "score")], axis=1)
        parts.add(
            np.arange(chunk.start, chunk.start + n),
            ids,
            np.concatenate([np.asarray(columns["bbox"]), more], axis=1),
        )
        return
    for i, item in enumerate(chunk.records, chunk.start):
        here = at / i
        record = reader.mapping(item, here, row=True)
        found = None if record is None else _record(reader, record, here)
        if found is None:
            reader.builder.skipped += 1
        else:
            parts.add([i], *found)


def _record(reader: Reader, record: dict[str, Any], at: At) -> tuple[list[int], list[float]] | None:
    """Ids and numbers of one annotation; None, and an issue, if it cannot be a box."""
    image = _whole(reader, record, "image_id", at, row=True)
    category = _whole(reader, record, "category_id", at, row=True)
    own = NONE if record.get("id") is None else _whole(reader, record, "id", at, row=True)
    ignore: int | None = NONE
    if isinstance(record.get("ignore"), bool):
        ignore = int(record["ignore"])
    elif record.get("ignore") is not None:
        ignore = _whole(reader, record, "ignore", at, row=True)
    box = None
    if "bbox" in record:
        box = reader.numbers(record["bbox"], 4, _WHAT, at / "bbox")
    else:
        reader.missing(at, "bbox", row=True)
    more = [reader.score(record.get(key), at / key) for key in ("area", "score")]
    given = [value for value in more if value is not None]
    if image is None or category is None or own is None or ignore is None or box is None or len(given) < 2:
        return None
    reader.count_unread(record, _KEYS)
    track = NONE if record.get("track_id") is None else _whole(reader, record, "track_id", at, row=True)
    if track is None:
        return None
    return [image, category, own, ignore, track], [*box, *given]


def _hand_over(
    reader: Reader, parts: _Parts, at: At, images: dict[int, int], categories: dict[int, int]
) -> None:
    """Turn ids into rows and add the boxes; unknown ids and repeated ones are issues."""
    index, ids = np.concatenate(parts.index), np.concatenate(parts.ids)
    numbers = np.concatenate(parts.numbers)
    good = np.ones(len(index), bool)
    rows = []
    for k, (known, code, key) in enumerate(
        ((images, UNKNOWN_IMAGE, "image_id"), (categories, UNKNOWN_CATEGORY, "category_id"))
    ):
        found = np.array([known.get(i, -1) for i in ids[:, k].tolist()], np.int64)
        for row in np.flatnonzero(found == -1).tolist():
            there = at / int(index[row]) / key
            reader.log.report(
                code, at.path, **there.where, field=key, value=int(ids[row, k]), near=Trusted("")
            )
        good &= found >= 0
        rows.append(found)
    first: dict[int, int] = {}
    for row, id_ in enumerate(ids[:, 2].tolist()):
        if id_ != NONE and first.setdefault(id_, row) != row:
            there = at / int(index[row]) / "id"
            location = Trusted(f"#{at.pointer}/{index[first[id_]]}")
            reader.log.report(DUPLICATE_BOX_ID, at.path, **there.where, field="id", value=id_, first=location)
            good[row] = False
    ignore = np.where(ids[:, 3] == NONE, 0, ids[:, 3])
    for row in np.flatnonzero((ignore != 0) & (ignore != 1)).tolist():
        there = at / int(index[row]) / "ignore"
        where = {**there.where, "field": "ignore", "value": int(ignore[row]), "expected": Trusted("0 or 1")}
        reader.log.report(BAD_FLAG, at.path, **where)
        good[row] = False
    reader.builder.skipped += int(np.count_nonzero(~good))
    box = numbers[:, :4]
    with np.errstate(over="ignore", invalid="ignore"):  # wrong boxes can be held, quietly
        corners = np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1)
    more = {}
    if (ids[good, 4] >= 0).any():
        tracks = np.where(ids[good, 4] < 0, NO_ID, ids[good, 4])
        more["track"] = reader.builder.tracks_of_images(rows[0][good], tracks)
    reader.add(
        image=rows[0][good],
        category=rows[1][good],
        xyxy=corners[good],
        wh=box[good, 2:],
        score=numbers[good, 5],
        area=numbers[good, 4],
        source_id=ids[good, 2],
        flags=(ignore * int(Flag.DIFFICULT))[good],
        file=reader.rows_of(at),
        line=index[good],
        **more,
    )


# ----------------------------------------------------------------------------------------------- writing


def _own_ids(given: NDArray[Any]) -> list[int]:
    """The ids of the source if all are different whole numbers from 1, else numbers from 1."""
    ids = given.tolist()
    fits = all(type(i) is int and 1 <= i < 2**53 for i in ids) and len(set(ids)) == len(ids)
    return ids if fits else list(range(1, len(ids) + 1))


def write(dataset: Dataset, target: Output, log: Log, options: LvisOptions) -> None:
    """Write one file."""
    del options
    name = "" if target.single else "lvis.json"
    if not may_write(dataset, log) or (name and not target.plan([name], ["the annotations"], log)):
        return
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories
    image_ids, class_ids = _own_ids(images.source_id), _own_ids(classes.source_id)
    box_ids = _own_ids(boxes.source_id)
    places = np.concatenate([boxes.xyxy[:, :2], short_wh(boxes)], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        area = np.where(np.isnan(boxes.area), places[:, 2] * places[:, 3], boxes.area)
    area = np.nan_to_num(area)
    difficult = boxes.has(Flag.DIFFICULT).tolist()

    frames, numbers = images.video, track_numbers(dataset, log, least=1)
    tracks, video_ids = box_tracks(dataset, numbers, -1), [*_own_ids(dataset.videos.source_id), -1]
    listed = _verified_classes(dataset, class_ids)

    members, own = of_images(dataset, np.arange(len(images)))

    def image(i: int) -> dict[str, Any]:
        record: dict[str, Any] = {"id": image_ids[i], "file_name": images.name[i]}
        if images.width[i] > 0 and images.height[i] > 0:
            record |= {"width": int(images.width[i]), "height": int(images.height[i])}
        if frames is not None and frames[i] >= 0:
            record["video_id"] = video_ids[frames[i]]
            if images.frame is not None and images.frame[i] >= 0:
                record["frame_index"] = int(images.frame[i])
        record |= {key: lists.get(i, []) for key, lists in listed.items()}
        return _with_own(record, own, i)

    def annotation(i: int) -> dict[str, Any]:
        record = {
            "id": box_ids[i],
            "image_id": image_ids[boxes.image[i]],
            "category_id": class_ids[boxes.category[i]],
            "bbox": [number(v) for v in places[i].tolist()],
            "area": number(float(area[i])),
        }
        if difficult[i]:
            record["ignore"] = 1
        if tracks is not None and tracks[i] >= 0:
            record["track_id"] = int(tracks[i])
            record["video_id"] = video_ids[dataset.tracks.video[boxes.track[i]]]  # type: ignore[index]
        return record | {"score": number(float(boxes.score[i]))} if dataset.kind == "det" else record

    tables: list[tuple[str, Iterable[dict[str, Any]]]] = [
        ("images", map(image, range(len(images)))),
        ("annotations", map(annotation, range(len(boxes)))),
        ("categories", _category_records(dataset, class_ids)),
    ]
    if frames is not None:
        tables.append(("videos", _video_records(dataset, video_ids)))
    if tracks is not None:
        tables.append(("tracks", _track_records(dataset, numbers, video_ids)))
    body = ",\n".join(f'"{key}": {lines(map(dump, records))}' for key, records in tables)
    head = ", ".join(f"{dump(key)}: {value.decode()}" for key, value in members.items())
    target.write(name, f"{{{head},\n{body}}}\n".encode())


def _with_own(record: dict[str, Any], own: Mapping[str, Sequence[bytes]], row: int) -> dict[str, Any]:
    """A record with the other fields of its row."""
    more = {key: json.loads(column[row]) for key, column in own.items() if column[row] and key not in record}
    return record | more


def _verified_classes(dataset: Dataset, class_ids: list[int]) -> dict[str, dict[int, list[int]]]:
    """The two lists of ids of classes, by their key and the row of their image."""
    listed: dict[str, dict[int, list[int]]] = {}
    for key, verdict in _OWN.items():
        said = dataset.labels.take(dataset.labels.verdict == verdict)
        lists = listed[key] = {}
        for row, k in zip(said.image.tolist(), said.category.tolist(), strict=True):
            lists.setdefault(row, []).append(class_ids[k])
    return listed


def _category_records(dataset: Dataset, class_ids: list[int]) -> Iterator[dict[str, Any]]:
    boxes, classes = dataset.boxes, dataset.categories
    pairs = np.unique(np.stack([boxes.category, boxes.image], axis=1), axis=0)
    in_images = np.bincount(pairs[:, 0], minlength=len(classes)).tolist()
    instances = np.bincount(boxes.category, minlength=len(classes)).tolist()
    for i, n in enumerate(in_images):
        record = {
            "id": class_ids[i],
            "name": classes.name[i],
            "frequency": classes.frequency[i] or ("r" if n <= 10 else "c" if n <= 100 else "f"),
            "image_count": n,
            "instance_count": instances[i],
        }
        yield _with_own(record, classes.own, i)


def _video_records(dataset: Dataset, video_ids: list[int]) -> Iterator[dict[str, Any]]:
    for i, length in enumerate(dataset.videos.length.tolist()):
        yield {"id": video_ids[i], "name": dataset.videos.name[i]} | ({"length": length} if length else {})


def _track_records(dataset: Dataset, numbers: NDArray[Any], video_ids: list[int]) -> Iterator[dict[str, Any]]:
    for i, score in enumerate(dataset.tracks.score.tolist()):
        record = {"id": int(numbers[i]), "video_id": video_ids[dataset.tracks.video[i]]}
        yield record | ({} if np.isnan(score) else {"score": number(score)})


FORMAT = Format(
    name="lvis",
    title="LVIS JSON",
    use="challenges",
    written_by="LVIS 0.5 and 1.0",
    doc=__doc__ or "",
    suffixes=(".json",),
    begins="[{",
    single=True,
    sniff=sniff,
    read=read,
    write=write,
    options=LvisOptions,
    keeps=RELATIONAL
    | {"difficult", "frequency", "absent", "partial", "video", "track", "track_score", "own_fields"},
)
