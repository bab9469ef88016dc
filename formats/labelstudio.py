"""Label Studio JSON: the tasks of a project with their annotations and predictions.

Specification: "Label Studio Task Format", "Export annotations" and the tag ``RectangleLabels`` in the
documentation of Label Studio (https://labelstud.io/guide/task_format)::

    [{"id": 1, "data": {"image": "/data/upload/1/7b2c0f1d-a.jpg"},
      "annotations": [{"result": [
          {"type": "rectanglelabels", "from_name": "label", "to_name": "image",
           "original_width": 640, "original_height": 480, "image_rotation": 0,
           "value": {"x": 12.5, "y": 10, "width": 25, "height": 50, "rotation": 0,
                     "rectanglelabels": ["person"]}}]}],
      "predictions": []}]

``x``, ``y``, ``width`` and ``height`` are percentages of the width and height of the image; they are
multiplied by ``original_width`` and ``original_height``. If these are missing, the size comes from
``data.width`` and ``data.height``, the picture (``--images``), ``--image-size`` or ``--image-sizes``.

Annotations are ground truth and predictions are detections, with a ``score`` in each result or, if it is
missing, that of the prediction. If a file has both, the annotations are read; ``--kind det`` reads the
predictions. Of several annotations of a task, the one marked ``ground_truth`` is read, or else the first that
was not cancelled; of several predictions, the first. A note says so. ``completions`` from old versions are
read as annotations. The short export (JSON-MIN), with the lists in the task itself, is read as well, and so
is a file with a single task, as in cloud storage, or a folder of such files. CSV and TSV exports have the
same lists in their cells; they are read and not written.

Shapes: rectangles, which are oriented boxes if they are rotated, and polygons and ellipses, which are
outlines (an ellipse of 64 corners); brushes in its run lengths (``format`` is ``rle``) are masks. Where only
boxes are needed, the box around them is read, with a warning. Rotation is clockwise about the top left
corner. A shape with several labels is read as one box per label. Other brushes, keypoints, relations,
choices and the like are counted but not read. A null list is read as empty.

A task with ``data.video`` and results of the type ``videorectangle`` is a video: each result is a track, and
frame 1 is the image ``NAME/frame_000001``. From a key frame that is ``enabled`` to the next one, or to the
end of the video, boxes are interpolated.

The image name is taken from ``data.image``: the last part of a URL or served path, without the eight-digit
prefix of uploads; the whole path if it is relative or follows ``/data/local-files/?d=``. If two images would
have one name, all keep the folders of their URL, with a note.

Writing: one task per image, with ``-O prefix=TEXT`` (``/data/local-files/?d=``) before the image name, and
enough decimals to preserve pixels within 1e-6.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from odm.files import Output, Source
from odm.formats._contract import SURE, option
from odm.formats._shared.gather import NAN, Corners
from odm.formats._shared.image_names import choose_url_names, unquote
from odm.formats._shared.json.items import (
    BAD_SIZE,
    BadRecord,
    Box,
    Image,
    Item,
    Origin,
    Row,
    Rows,
    Size,
    check_sizes,
    iter_images,
    make_relative,
    plan_file,
    read_items,
)
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.values import Nothing, Reader, choose_files, dump, join_records, simplify
from odm.formats._shared.json.videos import Track, fill_frames, parse_frame, read_video
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.shapes.box_shapes import rotate_box, rotate_points, split_rotation
from odm.formats._shared.shapes.pixel_masks import BadMask, Pixels, find_edges, unpack_bytes
from odm.formats._shared.text.records import read_csv_records
from odm.issues import Code, Log, Trusted, printable, spell
from odm.names import PICTURE_SUFFIXES
from odm.tables import Builder, Dataset

_KEYS = declare_keys(
    "{} []{} data{} meta* drafts* annotations completions predictions id result value type from_name "
    "to_name original_width original_height image_rotation x y width height rotation radiusX radiusY points "
    "closed labels from_id* to_id* direction* rectanglelabels polygonlabels ellipselabels brushlabels "
    "keypointlabels rle format score origin model_version completed_by* was_cancelled ground_truth "
    "video framesCount duration sequence frame enabled time auto "
    "created_at updated_at draft_created_at lead_time result_count unique_id prediction* task project "
    "parent_prediction parent_annotation last_action last_created_by import_id updated_by"
)
SIZES_DIFFER = Code(
    "labelstudio-size-conflict",
    "error",
    "the image is {value} pixels here but {other} in another result of the task",
    "correct original_width and original_height",
    "Coordinates are percentages of this size, so two sizes of one image make them uncertain.",
    row=True,
)

_SUFFIXES = (".json", ".csv", ".tsv")
_WORK = frozenset({"annotations", "predictions", "completions"})
_TASK = frozenset({"id", "data", *_WORK})
_RESULT = frozenset(
    {"id", "type", "value", "original_width", "original_height", "from_name", "to_name", "score", "origin"}
)
_SHAPES = {"rectangle": "rectanglelabels", "polygon": "polygonlabels", "ellipse": "ellipselabels"}
_KINDS = {**{k: k for k in _SHAPES}, **{v: k for k, v in _SHAPES.items()}}
_PLACE = ("x", "y", "width", "height")
_SIZE_KEYS = ("original_width", "original_height")
_TASK_META = frozenset(
    (
        "annotations file_upload drafts meta created_at updated_at inner_id total_annotations project "
        "updated_by cancelled_annotations total_predictions comment_count unresolved_comment_count "
        "comment_authors last_comment_updated_at allow_skip precomputed_agreement"
    ).split()
)
"""Fields of a task about the annotators' work, not about the image."""
_SHORT = frozenset(
    "id image img annotator annotation_id created_at updated_at lead_time width height".split()
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LabelstudioOptions(ImageOptions):
    """Options of Label Studio JSON."""

    prefix: str = option(
        "/data/local-files/?d=", "prefix of the image names, the location they are served from", side="write"
    )


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Recognise tasks by the keys of the first one and how values begin, or by the header of a table."""
    columns = re.split(rb'[,\t"]+', head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].strip())
    if {b"annotator", b"annotation_id"} <= set(columns) and preview.top not in ("[", "{"):
        return SURE, "its header has annotator and annotation_id, as in Label Studio"
    first_task = preview.first.get("", {})  # "": of the outermost list
    if preview.top == "{" and preview.keys.get("data") == "{" and _WORK & preview.keys.keys():
        return SURE, "it is one task with data, as in Label Studio"
    if preview.top != "[":
        return None
    if first_task.get("data") == "{":
        return SURE, "it is a list of tasks with data, as in Label Studio"
    if {"annotator", "annotation_id"} <= first_task.keys():
        return SURE, "it is a list of tasks with an annotator, as the short export of Label Studio has"
    return None


def read(source: Source, builder: Builder, log: Log, options: LabelstudioOptions) -> None:
    """Read the file, or those of a folder; images after all files, when the kind of the data is known."""
    reader = Reader(source, builder, log, options, borrow_sizes=True, keys=_KEYS)  # for relative coordinates
    files = choose_files(source, looks_like, "Label Studio JSON", log, _SUFFIXES)
    tasks = [task for file in files for task in _read_tasks(reader, file)]
    has_truth = any(task.get(key) for task in tasks for key in ("annotations", "completions"))
    has_predictions = any(task.get("predictions") for task in tasks)
    if builder.kind is None:
        builder.kind = "det" if has_predictions and not has_truth else "gt"
        if has_predictions and has_truth:
            log.note(
                f"{printable(source.path)}: reading the annotations; "
                f"{spell('kind')} det reads the predictions"
            )
    data_and_keys = [_find_image(task) for task in tasks]
    paths = [data.get(key) for data, key in data_and_keys]
    name_of = choose_url_names(paths, image_name, source.path, log)
    for task, (data, key) in zip(tasks, data_and_keys, strict=True):
        with contextlib.suppress(BadRecord):
            _read_task(task, data, key, name_of)
    reader.finish()


def _find_image(task: Item) -> tuple[Item, str]:
    """The object of a task that names its image or video, and its key for that."""
    data = task
    if isinstance(task.get("data"), dict):
        data = task.object("data")
    suffixes = tuple(PICTURE_SUFFIXES)
    pictures = (k for k, v in data.record.items() if isinstance(v, str) and v.lower().endswith(suffixes))
    return data, next((k for k in ("image", "img", *pictures, "video") if k in data), "image")


def _read_tasks(reader: Reader, file: str) -> Iterator[Item]:
    """The tasks of a file: records, or rows whose cells may hold JSON."""
    head = reader.source.head(file).lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith((b"[", b"{")) or reader.source.full(file).lower().endswith(".json"):
        yield from read_items(reader, file, "a list of tasks", may_be_object=True)
        return
    sep = "\t" if b"\t" in head.split(b"\n", 1)[0] else ","
    origin = Origin(reader.builder, reader.source.full(file))
    for location, cells in read_csv_records(reader, file, ("annotator", "annotation_id"), sep):
        task: dict[str, Any] = {}
        for key, text in cells.items():
            value = reader.decode_cell(text, location / key) if text.startswith("[") else text
            if value is not Nothing:
                task[key] = value
        yield Item(reader, task, location, origin, location.line)


def _read_task(task: Item, data: Item, key: str, name_of: Callable[[str], str]) -> None:
    """Add the image, or the frames of the video, that the object `data` of a task names under `key`.

    In the short export `data` is the task itself. The size is that of the first result with one, else of
    `data`, else of the image file.
    """
    score = NAN
    if "data" in task:
        task.object("data")  # BadRecord, after an issue, if it is none
        results, score = _choose_results(task)
        task.count_unread(_TASK | _TASK_META, free=True)
        data.count_unread(frozenset({"image", "img", "video", "width", "height"}), free=True)
    else:
        results = _collect_short_results(task)  # the short export, whose results stand in the task
    if key == "video":
        _read_video(data, results, score, name_of(name) if isinstance(name := data.get(key), str) else name)
        return
    # The size; `row.size` marks a result with a malformed one as bad. `results` are lists of rows.
    sizes = [row.size(*_SIZE_KEYS) for rows in results for row in rows]
    size = next((row_size for row_size in sizes if row_size and row_size != BAD_SIZE), None)
    size = size or data.size("width", "height")
    image = data.image(key, name_of, size=size)
    rows = [row for rows_of_list in results for row in rows_of_list if not row.is_bad]
    if image is not None and size is None and rows:  # of the image file
        size = task.reader.find_unit_size(image, name_of(data.get(key)), task.location)
    # A region may have a result with its shape and one with its labels; those with labels are read.
    ids = [row.get("id") for row in rows if _get_labels(row) is not None]
    labelled_ids = {id_ for id_ in ids if isinstance(id_, str)}
    is_usable = size and size != BAD_SIZE
    for rows_of_list in results:
        rows_of_list.read(image if is_usable else None, _read_result, size, score, labelled_ids)


def _read_video(data: Item, results: list[Rows], score: float, name: Any) -> None:
    """Add the frames of a video, from 1, and the tracks of its rectangles; `score` is the prediction's."""
    tracks: list[Track] = []
    for rows_of_list in results:
        rows_of_list.read(0, _read_track, tracks)  # the 0 is no image, but None would skip the rows
    lengths = [n for rows in results for row in rows if type(n := _get_value(row).get("framesCount")) is int]
    size = data.size("width", "height")

    def read_frame(rows: Rows, image: int | None, _: int) -> None:
        # set(): each rectangle of a track has its labels itself, none in another result.
        rows.read_relative(image, data, name, size, _read_result, score, set())

    read_video(data, name, tracks, read_frame, first_frame=1, length=max([0, *lengths]), size=size)


def _get_value(result: Item) -> dict[str, Any]:
    """The object ``value`` of a result; {} if it has none."""
    value = result.get("value")
    return value if isinstance(value, dict) else {}


def _read_track(result: Row, tracks: list[Track]) -> None:
    """Add to `tracks` a rectangle of a video, with a result of an image for each of its frames.

    Frames between two of the ``sequence`` are interpolated while it is ``enabled``.
    """
    if result.get("type") != "videorectangle":
        result.reader.count(result.text("type"))
        return
    value, id_ = result.object("value"), result.get("id")
    # By frame: the position in ``sequence`` ("" if interpolated) and the result; and `_PLACE` and rotation.
    object_of_frame: dict[int, tuple[int | str, dict[str, Any]]] = {}
    numbers_of_frame: dict[int, list[float]] = {}
    enabled_frames = set()
    sizes = {key: result.get(key) for key in _SIZE_KEYS}
    shared_fields = {"type": "rectanglelabels", "score": result.get("score"), **sizes}
    for i, step in enumerate(value.items("sequence")):
        if (frame := parse_frame(step, step.get("frame"), "frame")) < 0:
            continue
        object_of_frame[frame] = i, shared_fields | {"value": step.record | {"labels": _get_labels(result)}}
        numbers_of_frame[frame] = [*step.numbers(*_PLACE), step.number("rotation", 0)]
        enabled_frames |= {frame} if step.get("enabled") is True else set()
    n_frames = value.get("framesCount")
    end = n_frames if type(n_frames) is int else -1
    for frame, numbers in fill_frames(numbers_of_frame, goes_on=enabled_frames, last=end).items():
        geometry = dict(zip((*_PLACE, "rotation"), numbers, strict=True))
        rectangle = {"value": geometry | {"labels": _get_labels(result)}}
        object_of_frame.setdefault(frame, ("", shared_fields | rectangle))
    if object_of_frame and not result.is_bad:
        track = id_ if isinstance(id_, str | int) else len(tracks)
        tracks.append(Track(value.location / "sequence", track, object_of_frame))


def _choose_results(task: Item) -> tuple[list[Rows], float]:
    """The results of the annotation or prediction of a task that is read, and its score, NaN without one."""
    reader = task.reader
    is_detections = reader.builder.kind == "det"
    truth_key = "completions" if "completions" in task else "annotations"
    key = "predictions" if is_detections else truth_key
    candidates = [c for c in task.items(key) if is_detections or c.get("was_cancelled") is not True]
    if not candidates:
        return [], NAN
    if len(candidates) > 1:
        reader.log.note(
            f"{printable(reader.source.path)}: of several {key} of a task, only the one marked "
            "ground_truth, or else the first, is read"
        )
        reader.count(f"further {key}", len(candidates) - 1)
    chosen = next((c for c in candidates if c.get("ground_truth") is True), candidates[0])
    rows = chosen.rows("result")
    return [rows], chosen.score("score") if is_detections else NAN


def _collect_short_results(task: Item) -> list[Rows]:
    """The results of a task of the short export, one `Rows` for each of its keys, most of them empty.

    There, values stand in lists of any name; they become results as in the long export.
    """
    rows_of_lists = []
    for key, value in task.record.items():
        results: dict[int, dict[str, Any]] = {}
        for i, item in enumerate(value if isinstance(value, list) else ()):
            if isinstance(item, dict) and "sequence" in item:
                results[i] = {"type": "videorectangle", "value": item}
            elif isinstance(item, dict) and ("original_width" in item or "x" in item or "points" in item):
                kind = next((k for k in _KINDS if k.endswith("labels") and k in item), "rectangle")
                results[i] = {"type": kind, "value": item, **{k: item.get(k) for k in _SIZE_KEYS}}
        rows_of_lists.append(Rows(task.reader, task.location / key, results))
    used_keys = {key for key, rows in zip(task.record, rows_of_lists, strict=True) if rows}
    task.count_unread(_SHORT | used_keys, free=True)
    return rows_of_lists


def _get_labels(result: Item) -> list[Any] | None:
    """The class names of a result; None if it has none, or if they are no list."""
    value = result.get("value")
    if not isinstance(value, dict):
        return None
    labels = next((value[k] for k in (*_SHAPES.values(), "brushlabels", "labels") if value.get(k)), None)
    return labels if isinstance(labels, list) else None


def _read_result(result: Row, size: Size, score: float, labelled_ids: set[str]) -> None:
    """Add an object for each label of a result.

    `size` is (width, height) of the image, `score` that of the prediction. `labelled_ids` are the ids of
    regions with a result that has labels: results of these regions without labels are not read.
    """
    reader, labels = result.reader, _get_labels(result)
    type_, id_ = result.text("type"), result.get("id")
    if labels is None and type_ in _SHAPES and isinstance(id_, str) and id_ in labelled_ids:
        return  # its label is in another result
    # The kind of its shape; results of other types are counted.
    kind = _KINDS.get(type_)
    value = result.object("value", optional=kind is None)  # relations have none
    if type_ == "labels":  # of a shape whose kind only its keys show
        kind = "polygon" if "points" in value else None
        kind = "rectangle" if "width" in value else kind
    if type_ in ("brush", "brushlabels") and value.get("format") == "rle":
        kind = "brush"
    if kind is None:
        reader.count("relations" if type_ == "relation" else type_)
        return
    # The shape, in an image of the right size, and its labels.
    result_size = result.size(*_SIZE_KEYS)
    if result_size is not None and result_size != size:
        size_here, size_of_image = (Trusted(f"{w}x{h}") for w, h in (result_size, size))
        result.report(SIZES_DIFFER, value=size_here, other=size_of_image)
        raise BadRecord
    corners, wh = _read_shape(result, kind, value, size)
    if labels is None:
        key = type_ if type_.endswith("labels") else f"{kind}labels"
        if value.get(key):
            value.report_wrong(key, "a list of labels")
        else:
            value.report_missing(key)
        raise BadRecord
    if reader.builder.kind == "det":
        result_score = result.score("score")
        score = score if math.isnan(result_score) else result_score
    if result.is_bad:
        return
    # An `image_rotation` of 0 is no loss.
    result.count_unread(_RESULT if result.get("image_rotation") else _RESULT | {"image_rotation"})
    note = "a shape with several labels is read as one box per label"
    result.add_labelled(labels, value.location / type_, note, corners, wh=wh, score=score)


def _read_shape(
    result: Row, kind: str, value: Item, size: Size
) -> tuple[Corners, tuple[float, float] | None]:
    """Give a result its shape, if it is no upright rectangle.

    Returns the corners of the box around it, and the width and height of an upright rectangle, in pixels.
    """
    width, height = size
    if kind == "brush":
        if result.reader.need_pixels(result.owner.image):
            raise BadRecord  # the missing size is reported with those of all images
        is_painted = _decode_brush(value, width, height)
        result.paint(value, "rle", lambda _: is_painted, left=0, top=0)  # as large as the image
        return find_edges(is_painted), None
    if kind == "polygon":
        points = [[x * width / 100, y * height / 100] for x, y in value.points("points", n_min=1)]
        return result.draw_around(points, "polygons"), None
    keys = _PLACE if kind == "rectangle" else ("x", "y", "radiusX", "radiusY")
    # Percents of the width, the height, the width and the height of the image; of an ellipse w, h are radii.
    x, y, w, h = (n * side / 100 for n, side in zip(value.numbers(*keys), (*size, *size), strict=True))
    rotation = value.number("rotation", 0.0)
    turn = math.radians(rotation)
    if kind == "ellipse":
        return result.draw_ellipse(x, y, w, h, turn), None
    if rotation % 360:
        return result.draw_oriented(rotate_points([(0, 0), (w, 0), (w, h), (0, h)], turn, (x, y))), None
    return (x, y, x + w, y + h), (w, h)


def _decode_brush(value: Item, width: int, height: int) -> Pixels:
    """The (height, width) pixels of a brush: the alpha of a picture of red, green, blue and alpha.

    Raises BadRecord, after an issue, if they are malformed, of another size, or none.
    """
    try:
        data = np.array(value.array("rle"), np.uint8)
        pixels = unpack_bytes(data, 4 * width * height).reshape(height, width, 4)[:, :, 3] > 0
        find_edges(pixels)  # BadMask if no pixel is painted
    except (BadMask, TypeError, ValueError, OverflowError) as e:
        value.report_wrong("rle", str(e) if isinstance(e, BadMask) else "a list of bytes, 0 to 255")
        raise BadRecord from None
    return pixels


_UPLOAD = re.compile(r"[0-9a-f]{8}-(?=.)")


def image_name(text: str) -> str:
    """The image name from the path or URL that Label Studio serves it from, without the prefix of uploads.

    ``a.jpg`` for ``/data/upload/1/7b2c0f1d-a.jpg``, ``b/a.jpg`` for ``/data/local-files/?d=b/a.jpg``.
    """
    if "?d=" in text:
        return unquote(text.split("?d=", 1)[1].split("&", 1)[0]).lstrip("/")
    if "://" not in text and not text.startswith("/"):
        return text
    file_name = unquote(text.split("?", 1)[0].rstrip("/").rpartition("/")[2])
    is_upload = "/upload/" in text and _UPLOAD.match(file_name)
    return _UPLOAD.sub("", file_name, count=1) if is_upload else file_name


def _format_shape(box: Box, image: Image) -> dict[str, Any] | None:
    """The fields of a value that hold a polygon or oriented box, in percent of the image; None without."""
    if box.outlines:  # only one, as `keeps` has no parts
        w, h = image.width, image.height
        points = [[simplify(x * 100 / w), simplify(y * 100 / h)] for x, y in box.outlines[0]]
        return {"points": points, "closed": True}
    if not box.corners:
        return None
    (left, top, width, height), degrees = split_rotation(box.corners)
    # Label Studio states where the top left corner is after the turn.
    x, y = rotate_box(left, top, width, height, math.radians(degrees))[0].tolist()
    x_scale, y_scale = 100 / image.width, 100 / image.height
    geometry = x * x_scale, y * y_scale, width * x_scale, height * y_scale
    return {**dict(zip(_PLACE, map(simplify, geometry), strict=True)), "rotation": simplify(degrees)}


def write(dataset: Dataset, target: Output, log: Log, options: LabelstudioOptions) -> None:
    """Write a list of tasks, each with one annotation or prediction of an image."""
    from urllib.parse import quote

    name = plan_file(dataset, target, "tasks.json", "tasks", log)
    if not check_sizes(dataset, log) or name is None:
        return
    xywh_of_row = make_relative(dataset, scale=100)
    # In a URL, the special characters of a name are quoted.
    is_url = "?" in options.prefix or "://" in options.prefix or options.prefix.startswith("/")
    tasks = []
    for image in iter_images(dataset):
        results = []
        for k, box in enumerate(image.boxes, 1):
            kind, geometry = "rectanglelabels", _format_shape(box, image)
            if geometry is None:
                geometry = {**dict(zip(_PLACE, xywh_of_row(box.row), strict=True)), "rotation": 0}
            elif "points" in geometry:
                kind = "polygonlabels"
            head = {"id": f"{image.row + 1}-{k}", "type": kind, "from_name": "label", "to_name": "image"}
            size = {"original_width": image.width, "original_height": image.height, "image_rotation": 0}
            value = {**geometry, kind: [box.label]}
            results.append({**head, **size, "value": value, **box.score_field("score")})
        data = {"image": options.prefix + (quote(image.name) if is_url else image.name), **image.size}
        record: dict[str, Any] = {"annotations": [{"result": results}]}
        if dataset.kind == "det":
            record = {"predictions": [{"model_version": "detections", "result": results}]}
        tasks.append(dump({"id": image.row + 1, "data": data, **record}))
    target.write(name, f"{join_records(iter(tasks))}\n".encode())


FORMAT = json_format_of(
    __name__,
    title="Label Studio JSON",
    expects=("data", "annotations", "result"),
    use="annotation tools",
    written_by="Label Studio 0.x (completions), 1.x JSON, JSON-MIN, CSV and TSV",
    suffixes=(".json",),
    looks_at=_SUFFIXES,
    single=True,
    holds=("data", "annotator"),
    keeps=frozenset({"size", "extension", "empty", "score", "polygon", "oriented", "rectangle"}),
    shape_is_box=True,
    max_error_px=1e-6,
    needs_size=True,
)
