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

Flags: the attributes ``occluded``, ``truncated`` and ``crowd``; ``ignored`` marks a region to ignore, which
concerns all classes. Other attributes are counted but not kept. If every label
has a ``score``, the file contains detections. If only some have one, it is read as ground truth without the
scores, with a warning. ``--kind`` overrides this.

``poly2d`` (the outlines of an object, if all are closed and without curves) and ``rle`` (a mask in COCO's
compressed text) are kept where shapes are needed. The box is ``box2d``, or else the one around them.

``labels`` may be null or missing: an image without objects. Labels without any of these (lanes, tags) are
counted by type.

A frame with a ``videoName`` belongs to that video, with ``frameIndex`` as its frame number, and the ``id`` of
a label is then its track id; in other frames it only numbers the labels.

Writing: a list of frames, with ``size`` if it is known.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from odm.files import Output, Source
from odm.formats._contract import LIKELY, SURE
from odm.formats._shared.gather import Corners
from odm.formats._shared.image_names import choose_url_names, find_url_name
from odm.formats._shared.json.items import (
    BadRecord,
    Item,
    Row,
    Rows,
    Size,
    iter_images,
    plan_file,
    read_items,
)
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.values import FLAG_NAMES, Reader, choose_files, dump, find_bounds, join_records
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.shapes.pixel_masks import BadMask, check_mask
from odm.formats._shared.split_names import SplitOptions, find_split, select_split
from odm.issues import Log
from odm.tables import Builder, Dataset, Flag

_KEYS = declare_keys(
    "frames config groups* name labels objects size width height timestamp url videoName frameIndex id "
    "category categories box2d x1 y1 x2 y2 attributes* score manualShape manualAttributes index poly2d "
    "box3d* rle graph* vertices types closed counts imageSize image_size"
)
_FRAME = frozenset({"name", "labels", "objects", "size", "timestamp", "url", "videoName", "frameIndex"})
_LABEL = frozenset(
    {"id", "category", "box2d", "attributes", "score", "manualShape", "manualAttributes", "index"}
)
_WRITTEN = ("occluded", "truncated", "crowd")
_FLAGS = {**{name: FLAG_NAMES[name] for name in _WRITTEN}, "ignored": Flag.REGION}
_OTHER_SHAPES = ("poly2d", "box3d", "rle", "graph")


def looks_like(preview: JsonPreview, _: bytes) -> tuple[int, str] | None:
    """Recognise a list of frames, or an object with one, by the first frame's keys and how values begin."""
    if preview.top == "[":
        first_frame = preview.first.get("", {})  # "": of the outermost list; "n" below begins null
        if first_frame.get("name") == '"' and first_frame.get("labels") in ("[", "n"):
            return SURE, "it is a list of frames with name and labels, as in BDD100K"
        if first_frame.get("name") == '"' and {"timestamp", "videoName", "frameIndex"} & first_frame.keys():
            return LIKELY, "it is a list of frames with name and time, as in BDD100K"
    frames = preview.first.get("frames", {})
    if preview.top == "{" and frames.keys() & {"labels", "objects", "timestamp", "name"}:
        return SURE, "it has frames with labels, as in BDD100K"
    return None


def read(source: Source, builder: Builder, log: Log, options: SplitOptions) -> None:
    """Read the file, or those of a folder."""
    reader = Reader(source, builder, log, options, keys=_KEYS)
    files = choose_files(source, looks_like, "BDD100K", log)
    files = select_split(files, find_split, options.split, source, log)
    for file in log.track(files, "reading"):
        with contextlib.suppress(BadRecord):
            frames = list(_read_frames(reader, file))
            names_and_videos = [(name, frame.get("videoName")) for frame, name, _ in frames]
            names = [name for name, _ in names_and_videos]
            name_of = choose_url_names(names, _drop_url, source.full(file), log)
            # Frames of several videos may have the same names; then names begin with that of the video, if
            # this makes them differ. They are compared by `repr`, as nothing has checked that they are text.
            n_names = len(set(map(repr, names)))
            n_pairs = len(set(map(repr, names_and_videos)))
            is_repeated = n_names < n_pairs and n_pairs == len(names_and_videos)
            for frame, name, size in frames:
                name = name_of(name) if isinstance(name, str) else name  # noqa: PLW2901
                video = frame.get("videoName")
                if is_repeated and isinstance(name, str) and isinstance(video, str) and video:
                    name = f"{video}/{name}"  # noqa: PLW2901
                _read_frame(frame, name, size, find_split(file))
    reader.finish()


def _read_frames(reader: Reader, file: str) -> Iterator[tuple[Item, Any, Size | None]]:
    """The frames of a file, with their names and the (width, height) stated for all. Adds classes too."""
    for record in read_items(reader, file, "a list of frames", may_be_object=True):
        if record.location.pointer:  # a frame in a list, not an object with frames
            yield record, record.get("name"), None
            continue
        record.need("frames")
        config = record.object("config", optional=True)
        for i, item in enumerate(config.array("categories")):
            name = item.get("name") if isinstance(item, dict) else item
            reader.category(name, config.location / "categories" / i, listed=True)
        size_object = config.object(config.first_key("imageSize", "image_size"), optional=True)
        size = size_object.size("width", "height")
        is_single = len(record.array("frames")) == 1  # whose name may be beside `frames`
        for frame in record.items("frames"):
            named = record if is_single and "name" not in frame else frame
            yield frame, named.get("name"), size


def _drop_url(name: str) -> str:
    """The image name: ``a.jpg`` for ``https://host/folder/a.jpg?x``, any other name unchanged."""
    return find_url_name(name).rpartition("/")[2] if "://" in name else name


def _read_frame(frame: Item, name: Any, size: Size | None, split: str) -> None:
    """Add the image of a frame and its labels; `size` is used if the frame does not state one."""
    frame.count_unread(_FRAME)
    labels = frame.rows("objects" if "objects" in frame and "labels" not in frame else "labels")
    frame_size = None
    with contextlib.suppress(BadRecord):
        frame_size = frame.object("size", optional=True).size("width", "height")
    video, frame_number = frame.get("videoName"), frame.get("frameIndex")
    if video is not None and not isinstance(video, str):
        frame.report_wrong("videoName", "text")
        video = None
    columns: dict[str, Any] = {}
    if video:
        is_valid = type(frame_number) is int and 0 <= frame_number < 2**31
        columns = {"video": frame.reader.builder.video(video), "frame": frame_number if is_valid else -1}
    size = frame_size or size or _find_mask_size(labels)
    image = frame.image_named(name, field="name", size=size, split=split, **columns)
    # A video whose name is "" has no row, but makes tracks of ids.
    labels.read(image, _read_label, None if video is None else columns.get("video", -1))


def _find_mask_size(labels: Rows) -> Size | None:
    """The (width, height) that the first mask of an image has; None without a mask, or if it is unusable."""
    mask_sizes = (label.object("rle").get("size") for label in labels if isinstance(label.get("rle"), dict))
    size = next(mask_sizes, None)
    if (
        not isinstance(size, list)
        or len(size) != 2
        or not all(type(n) is int and 0 < n < 2**31 for n in size)
    ):
        return None
    height, width = size  # the order of RLE
    return width, height


def _read_label(label: Row, video: int | None) -> None:
    """Add the object of a label, whose id is its track in the video with the row number `video`.

    The row is -1 for a video without a name, None for an image outside of videos. The box is ``box2d``, else
    that of the polygons or the mask; a label without any is counted.
    """
    has_box = label.get("box2d") is not None
    shapes = ("poly2d", "rle") if label.wants or not has_box else ()
    shape = next((key for key in shapes if label.get(key)), "")
    corners = _read_shape(label, shape) if shape else None
    if label.is_bad:
        return
    if not has_box and corners is None:
        label.reader.count(next((k for k in _OTHER_SHAPES if label.get(k)), "labels without a box"))
        return
    if has_box:
        x1, y1, x2, y2 = label.object("box2d").numbers("x1", "y1", "x2", "y2")
        corners = x1, y1, x2, y2
    assert corners is not None
    category, score = label.category("category"), label.score("score")
    flags = label.flags("attributes", _FLAGS, unsaid=("NA", "none", False))  # as in trafficLightColor
    label.count_unread((_LABEL | {shape}) if shape else _LABEL)
    id_, track = label.get("id"), -1  # no track
    has_id = isinstance(id_, (int, str)) and id_ not in ("", -1, "-1")
    if has_id and video is not None and not label.is_bad:
        track = label.reader.builder.track(video, id_)
    label.add(category, corners, score=score, flags=flags, track=track)


def _read_shape(label: Row, key: str) -> Corners | None:
    """Add the polygons or the mask under `key`, ``poly2d`` or ``rle``, and return the corners around them.

    Returns None for open lines and curves, which are not read, and, after an issue, for a malformed mask.
    """
    if key == "rle":
        rle = label.object("rle")
        try:
            size = label.reader.builder.image_size(label.owner.image)
            text, (left, top, width, height) = check_mask(rle.get("counts"), rle.get("size"), *size)
        except BadMask as e:
            rle.report_wrong("counts", str(e))
            return None
        label.draw("mask", text, counted_as="masks")
        return left, top, left + width, top + height
    polygons = label.all_objects("poly2d", "a list of outlines")
    if any(polygon.get("closed") is False or "C" in str(polygon.get("types", "")) for polygon in polygons):
        return None
    # Parts of fewer than 3 points are left out, with a warning, if there are other parts or a box.
    least_points = 1 if len(polygons) > 1 or label.get("box2d") else 3
    outlines = [polygon.points("vertices", least_points) for polygon in polygons]
    label.draw("polygons", outlines, counted_as="polygons")
    return find_bounds([point for outline in outlines for point in outline])


def write(dataset: Dataset, target: Output, log: Log, _: SplitOptions) -> None:
    """Write a list of frames, in which tracks and videos keep their names."""
    name = plan_file(dataset, target, "labels.json", "labels", log)
    if name is None:
        return
    images, videos = dataset.images, dataset.images.video
    track_ids = [*(i if isinstance(i, str) else int(i) for i in dataset.tracks.source_id.tolist()), None]
    track_column = dataset.boxes.track
    track_of_box = np.full(len(dataset.boxes), -1) if track_column is None else track_column
    frames, numbers = [], itertools.count(1)
    for image in iter_images(dataset):
        labels = []
        for box in image.boxes:
            label_number, flag_names = next(numbers), box.list_flags(_WRITTEN)
            track_id = track_ids[track_of_box[box.row]]  # None, the last entry, for track -1
            label: dict[str, Any] = {} if track_id is None else {"id": track_id}
            if track_id is None and videos is None and track_column is None:
                label["id"] = str(label_number)  # not in a video, where it would be a track
            label["category"] = box.label
            label["attributes"] = {key: key in flag_names for key in _WRITTEN}
            if box.flags & Flag.REGION:
                label["attributes"]["ignored"] = True
            label["box2d"] = dict(zip(("x1", "y1", "x2", "y2"), box.xyxy, strict=True))
            if box.outlines:
                outlines = [{"vertices": o, "types": "L" * len(o), "closed": True} for o in box.outlines]
                label["poly2d"] = outlines
            elif box.shapes is not None and (counts := box.shapes.counts(box.row)):
                label["rle"] = {"counts": counts.decode(), "size": [image.height, image.width]}
            labels.append(label | box.score_field("score"))
        # The frame, with its video and number in it; tracks without a video are in one without a name.
        frame: dict[str, Any] = {"name": image.name} | ({"size": image.size} if image.size else {})
        if videos is not None:
            video = int(videos[image.row])
            frame["videoName"] = dataset.videos.name[video] if video >= 0 else ""
            if video >= 0 and images.frame is not None and images.frame[image.row] >= 0:
                frame["frameIndex"] = int(images.frame[image.row])
        elif track_column is not None:
            frame["videoName"] = ""
        frames.append(dump(frame | {"labels": labels}))
    target.write(name, f"{join_records(iter(frames))}\n".encode())


FORMAT = json_format_of(
    __name__,
    title="BDD100K (Scalabel) JSON",
    expects=("name", "labels", "box2d"),
    use="annotation tools",
    written_by="BDD100K 2018 and 2020, Scalabel (list of frames, or frames with a config)",
    single=True,
    holds=("labels", "frames", "videoName", "timestamp", "frameIndex"),
    keeps=frozenset({"size", "extension", "empty", "score", "video", "track", "region", *_WRITTEN})
    | {"polygon", "parts", "mask"},
)
