"""BDD100K: the labels of the Berkeley driving data, in the Scalabel format.

Specification: "Scalabel Format" in the documentation of Scalabel (https://doc.scalabel.ai/format.html), which
BDD100K uses, and the label files of BDD100K (https://doc.bdd100k.com/format.html)::

    [{"name": "a.jpg", "attributes": {"weather": "clear"}, "timestamp": 10000,
      "labels": [{"id": "1", "category": "car", "score": 0.9,
                  "attributes": {"occluded": false, "truncated": true, "crowd": false},
                  "box2d": {"x1": 10, "y1": 20, "x2": 110, "y2": 220}}]}]

The file may also be an object ``{"frames": [...], "config": {"image_size": ..., "categories": [...]}}`` whose
categories keep their order, or the file of a single image as in the first release: ``{"name": "a", "frames":
[{"timestamp": 10000, "objects": [...]}]}``. A folder of such files is read file by file.

``x1``, ``y1``, ``x2`` and ``y2`` are pixels from the top left corner of the image, read and written
unchanged. (The BDD100K toolkit includes the last pixel when it computes widths.) The size of an image is
``size``, or else that of ``config``; otherwise it can be given by ``--images``, ``--image-size`` or
``--image-sizes``.

Flags: the attributes ``occluded``, ``truncated`` and ``crowd``; ``ignored`` is read as crowd too, because
what it covers is neither required nor penalised. Other attributes are counted but not kept. If every label
has a ``score``, the file contains detections. If only some have one, it is read as ground truth without the
scores, with a warning. ``--kind`` overrides this.

``labels`` may be null or missing: an image without objects. Labels without a ``box2d`` (lanes, drivable
areas, masks, tags) are not boxes and are counted by type.

A frame with a ``videoName`` belongs to that video, with ``frameIndex`` as its frame number, and the ``id`` of
a label is then its track id; in other frames it only numbers the labels.

Writing: a list of frames, with ``size`` if it is known.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from odm.files import Output, Source
from odm.formats._contract import LIKELY, SURE, Format, Sniff
from odm.formats._shared.gather import At
from odm.formats._shared.json_preview import JsonPreview
from odm.formats._shared.json_values import Nothing, Reader, dump, flags_of, groups, lines, may_write, number
from odm.formats._shared.sniffing import sniff_json
from odm.formats._shared.splits import SplitOptions, files_of_split, split_of
from odm.issues import Log
from odm.tables import Builder, Dataset, Flag

_TOP = frozenset({"frames", "config", "groups"})
_FRAME = frozenset({"name", "labels", "objects", "size", "timestamp", "url", "videoName", "frameIndex"})
_LABEL = frozenset(
    {"id", "category", "box2d", "attributes", "score", "manualShape", "manualAttributes", "index"}
)
_FLAGS = {
    "occluded": Flag.OCCLUDED,
    "truncated": Flag.TRUNCATED,
    "crowd": Flag.CROWD,
    "ignored": Flag.CROWD,
}
_WRITTEN = ("occluded", "truncated", "crowd")
_OTHER_SHAPES = ("poly2d", "box3d", "rle", "graph")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BddOptions(SplitOptions):
    """Options of BDD100K."""


def _looks_like(look: JsonPreview, _: bytes) -> tuple[int, str] | None:
    if look.top == "[":
        first = look.first.get("", {})
        if first.get("name") == '"' and first.get("labels") in ("[", "n"):
            return SURE, "it is a list of frames with name and labels, as in BDD100K"
        if first.get("name") == '"' and {"timestamp", "videoName", "frameIndex"} & first.keys():
            return LIKELY, "it is a list of frames with name and time, as in BDD100K"
    frames = look.first.get("frames", {})
    if look.top == "{" and frames.keys() & {"labels", "objects", "timestamp", "name"}:
        return SURE, "it has frames with labels, as in BDD100K"
    return None


def sniff(source: Source) -> Sniff | None:
    """Look at the keys of the first frame."""
    return sniff_json(source, _looks_like)


def read(source: Source, builder: Builder, log: Log, options: BddOptions) -> None:
    """Read the file, or those of a folder."""
    reader = Reader(source, builder, log, options)
    files = reader.choose(_looks_like, "BDD100K", file_per_image=True)
    files = files_of_split(files, split_of, options.split, source, log)
    for file in log.track(files, "reading"):
        value = reader.value(file)
        if value is not Nothing:
            _read_file(reader, value, At(source.full(file)), split_of(file))
    reader.finish()


def _read_file(reader: Reader, value: Any, at: At, split: str) -> None:
    size = None
    if isinstance(value, list):
        frames: list[Any] | None = value
        here = at
        name = None
    else:
        record = reader.mapping(value, at)
        if record is None:
            return
        if "frames" not in record:
            reader.missing(at, "frames")
            return
        name = record.get("name")
        here = at / "frames"
        frames = reader.items(record["frames"], here)
        reader.count_unread(record, _TOP | {"name"})
        size = _config(reader, record.get("config"), at / "config")
    rows = reader.rows_of(here)
    single = name is not None and frames is not None and len(frames) == 1
    for i, item in enumerate(frames or ()):
        frame = reader.mapping(item, here / i)
        if frame is not None:
            named = name if single and "name" not in frame else frame.get("name")
            _read_frame(reader, frame, here / i, named, size, split, rows, i)


def _config(reader: Reader, value: Any, at: At) -> tuple[int, int] | None:
    """Add the categories of a configuration and answer its image size."""
    config = {} if value is None else reader.mapping(value, at)
    if not config:
        return None
    for i, item in enumerate(reader.items(config.get("categories"), at / "categories") or ()):
        name = item.get("name") if isinstance(item, dict) else item
        reader.category(name, at / "categories" / i, listed=True)
    key = "imageSize" if "imageSize" in config else "image_size"
    return _size(reader, config.get(key), at / key)


def _size(reader: Reader, value: Any, at: At) -> tuple[int, int] | None:
    size = {} if value is None else reader.mapping(value, at)
    return reader.size(size.get("width"), size.get("height"), at, ("width", "height")) if size else None


def _read_frame(
    reader: Reader,
    frame: dict[str, Any],
    at: At,
    name: Any,
    size: tuple[int, int] | None,
    split: str,
    file: int,
    line: int,
) -> None:
    reader.count_unread(frame, _FRAME)
    key = "objects" if "objects" in frame and "labels" not in frame else "labels"
    labels = reader.items(frame.get(key), at / key)
    own = _size(reader, frame.get("size"), at / "size")
    video, number = frame.get("videoName"), frame.get("frameIndex")
    if video is not None and not isinstance(video, str):
        reader.wrong(at / "videoName", "text", video)
        video = None
    columns: dict[str, Any] = {"file": file, "line": line}
    if video:
        whole = type(number) is int and 0 <= number < 2**31
        columns |= {"video": reader.builder.video(video), "frame": number if whole else -1}
    image = reader.image(name, at, field="name", size=own or size, split=split, **columns)
    if image is None or labels is None:
        reader.builder.skipped += len(labels or ())
        return
    here = at / key
    rows = reader.rows_of(here)
    for i, label in enumerate(labels):
        track = None if video is None or not isinstance(label, dict) else label.get("id")
        place = (rows, i, columns.get("video", -1), track)
        if not _read_label(reader, label, here / i, image, place):
            reader.builder.skipped += 1


def _read_label(reader: Reader, value: Any, at: At, image: int, place: tuple[int, int, int, Any]) -> bool:
    """Read one label; False, and an issue, if it should be a box and cannot be one.

    `place` are the number of its list, its index there, and the video and id of its track.
    """
    rows, line, video, id_ = place
    label = reader.mapping(value, at, row=True)
    if label is None:
        return False
    if label.get("box2d") is None:
        reader.count(next((k for k in _OTHER_SHAPES if label.get(k)), "labels without a box"))
        return True
    box = reader.mapping(label["box2d"], at / "box2d", row=True)
    corners = None if box is None else reader.members(box, ("x1", "y1", "x2", "y2"), at / "box2d")
    if "category" not in label:
        reader.missing(at, "category", row=True)
        return False
    category = reader.category(label["category"], at / "category")
    score = reader.score(label.get("score"), at / "score")
    given = label.get("attributes")
    attributes = reader.mapping(given, at / "attributes", row=True) if given else {}
    if corners is None or category is None or score is None or attributes is None:
        return False
    reader.count_unread(label, _LABEL)
    flags = reader.flags(attributes, _FLAGS, ("NA", "none", False))
    left, top, right, bottom = corners
    location = left, top, right, bottom
    track = -1
    if id_ not in (None, "", -1, "-1") and isinstance(id_, (int, str)):
        track = reader.builder.track(video, id_)
    reader.box(image, category, location, at, file=rows, line=line, score=score, flags=flags, track=track)
    return True


def write(dataset: Dataset, target: Output, log: Log, options: BddOptions) -> None:
    """Write one file."""
    del options
    name = "" if target.single else "labels.json"
    if not may_write(dataset, log) or (name and not target.plan([name], ["the labels"], log)):
        return
    images, boxes = dataset.images, dataset.boxes
    frames, n = [], 0
    ids = [*(i if isinstance(i, str) else int(i) for i in dataset.tracks.source_id.tolist()), None]
    tracks = boxes.track if boxes.track is not None else np.full(len(boxes), -1)
    for row, (image, members) in enumerate(zip(images.name, groups(dataset), strict=True)):
        labels = []
        for i in members:
            n += 1
            x1, y1, x2, y2 = map(number, boxes.xyxy[i].tolist())
            is_set_ = flags_of(int(boxes.flags[i]), _WRITTEN)
            label: dict[str, Any] = {
                "id": str(n) if ids[tracks[i]] is None else ids[tracks[i]],
                "category": dataset.categories.name[boxes.category[i]],
                "attributes": {key: key in is_set_ for key in _WRITTEN},
                "box2d": {"x1": x1, "y1": y1, "x2": x2, "y2": y2},
            }
            if (images.video is not None or boxes.track is not None) and ids[tracks[i]] is None:
                del label["id"]  # in a video it would be a track
            labels.append(
                label | {"score": number(float(boxes.score[i]))} if dataset.kind == "det" else label
            )
        frame: dict[str, Any] = {"name": image}
        if images.width[row] > 0 and images.height[row] > 0:
            frame["size"] = {"width": int(images.width[row]), "height": int(images.height[row])}
        if images.video is not None:
            video = int(images.video[row])
            frame["videoName"] = dataset.videos.name[video] if video >= 0 else ""
            if video >= 0 and images.frame is not None and images.frame[row] >= 0:
                frame["frameIndex"] = int(images.frame[row])
        elif boxes.track is not None:
            frame["videoName"] = ""
        frames.append(dump(frame | {"labels": labels}))
    target.write(name, f"{lines(iter(frames))}\n".encode())


FORMAT = Format(
    name="bdd100k",
    title="BDD100K (Scalabel) JSON",
    use="annotation tools",
    written_by="BDD100K 2018 and 2020, Scalabel (list of frames, or frames with a config)",
    doc=__doc__ or "",
    suffixes=(".json",),
    begins="[{",
    single=True,
    sniff=sniff,
    read=read,
    write=write,
    options=BddOptions,
    keeps=frozenset({"size", "extension", "empty", "score", "video", "track", *_WRITTEN}),
)
