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
is a file with a single task, as in cloud storage, or a folder of such files.

Shapes: rectangles; rotated rectangles, polygons and ellipses are counted and read as their bounding box, with
a warning. Rotation is clockwise about the top left corner. A shape with several labels is read as one box per
label. Brushes, key points, choices and the like are counted but not read. A null list is read as empty.

The image name is taken from ``data.image``: the last part of a URL or served path, without the eight-digit
prefix of uploads; the whole path if it is relative or follows ``/data/local-files/?d=``.

Writing: one task per image, with ``-O prefix=TEXT`` (``/data/local-files/?d=``) before the image name, and
enough decimals to preserve pixels within 1e-6.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.codes import NO_SIZE
from odm.files import Output, Source
from odm.formats._contract import SURE, Format, Sniff, option
from odm.formats._shared.gather import NAN, At, Corners
from odm.formats._shared.json_preview import JsonPreview
from odm.formats._shared.json_records import (
    ANY,
    CLASS,
    COUNTED,
    EMPTY,
    INT,
    NUMBER,
    TEXT,
    Each,
    Held,
    Maybe,
    One,
    Records,
    Table,
    add_boxes,
)
from odm.formats._shared.json_values import (
    Nothing,
    Reader,
    bounds,
    dump,
    groups,
    is_upright,
    lines,
    may_write,
    number,
    sniff_json,
)
from odm.formats._shared.number_text import fixed_rows
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text_tokens import decimals_for
from odm.issues import Code, Log, Trusted, printable
from odm.names import PICTURE_SUFFIXES
from odm.tables import Builder, Dataset

SIZES_DIFFER = Code(
    "labelstudio-size-conflict",
    "error",
    "the image is {value} pixels here but {other} in another result of the task",
    "correct original_width and original_height",
    "Coordinates are percentages of this size, so two sizes of one image make them uncertain.",
    row=True,
)

_WORK = frozenset({"annotations", "predictions", "completions"})
_TASK = frozenset({"id", "data", *_WORK})
_RESULT = frozenset(
    {"id", "type", "value", "original_width", "original_height", "from_name", "to_name", "score", "origin"}
)
_SHAPES = {"rectangle": "rectanglelabels", "polygon": "polygonlabels", "ellipse": "ellipselabels"}
_KINDS = {**{k: k for k in _SHAPES}, **{v: k for k, v in _SHAPES.items()}}
_BARE = tuple(_SHAPES)
_SIZE_KEYS = ("original_width", "original_height")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LabelstudioOptions(ImageOptions):
    """Options of Label Studio JSON."""

    prefix: str = option(
        "/data/local-files/?d=",
        "prefix of the image names, the location they are served from",
        side="write",
    )


def _looks_like(look: JsonPreview, _: bytes) -> tuple[int, str] | None:
    first = look.first.get("", {})
    if look.top == "{" and look.keys.get("data") == "{" and _WORK & look.keys.keys():
        return SURE, "it is one task with data, as in Label Studio"
    if look.top != "[":
        return None
    if first.get("data") == "{":
        return SURE, "it is a list of tasks with data, as in Label Studio"
    if {"annotator", "annotation_id"} <= first.keys():
        return SURE, "it is a list of tasks with an annotator, as the short export of Label Studio has"
    return None


def sniff(source: Source) -> Sniff | None:
    """Look at the keys of the first task."""
    return sniff_json(source, _looks_like)


# ----------------------------------------------------------------------------------------------- reading


def read(source: Source, builder: Builder, log: Log, options: LabelstudioOptions) -> None:
    """Read the file, or those of a folder."""
    reader = Reader(source, builder, log, options, ask_other=True)
    tasks: list[tuple[dict[str, Any], At, int, int]] = []
    files = reader.choose(_looks_like, "Label Studio JSON")
    for file in files:
        kinds = [_RECORDS[kind] for kind in ("gt", "det") if builder.kind in (None, kind)]
        value = kinds[0].read(reader, file, *kinds[1:]) if len(files) == 1 else reader.value(file)
        if isinstance(value, Table):
            if _read_table(reader, value, At(source.full(file))):
                reader.finish()
                return
            value = reader.value(file)
        at = At(source.full(file))
        if value is Nothing:
            continue
        if isinstance(value, dict):
            tasks.append((value, at, builder.file(at.path), 0))
            continue
        if not isinstance(value, list):
            reader.wrong(at, "a list of tasks", value)
            continue
        number_of = builder.file(at.path, "/")
        for i, record in enumerate(value):
            task = reader.mapping(record, at / i)
            if task is not None:
                tasks.append((task, at / i, number_of, i))
    truth = any(task.get(key) for task, *_ in tasks for key in ("annotations", "completions"))
    guesses = any(task.get("predictions") for task, *_ in tasks)
    if builder.kind is None:
        builder.kind = "det" if guesses and not truth else "gt"
        if guesses and truth:
            log.note(f"{printable(source.path)}: reading the annotations; --kind det reads the predictions")
    for item in log.track(tasks, "reading"):
        _read_task(reader, *item)
    reader.finish()


def _read_table(reader: Reader, table: Table, at: At) -> bool:
    """Read a file in which everything is as usual; False, and nothing is done, if it is not after all."""
    kind = "predictions" if "predictions" in table.columns else "annotations"
    work: Table = table[kind]
    results: Table = work["result"]
    if work.lengths and max(work.lengths) > 1:
        return False
    counts = np.zeros(table.n, np.int64)
    counts[np.array(work.lengths, np.int64) == 1] = results.lengths
    results.lengths = counts.tolist()
    value: Table = results["value"]
    sizes = _sizes(results, counts)
    if sizes is None or (value["rotation"] > 0).any() or (value["rotation"] < 0).any():
        return False
    reader.builder.kind = reader.builder.kind or ("det" if kind == "predictions" and work.n else "gt")
    file, data = reader.builder.file(at.path, "/"), table["data"]
    images = _add_images(reader, data, at, sizes, file)
    lists = [
        reader.builder.file(at.path, f"/{i}/{kind}/0/result") if image is not None and listed else -1
        for i, (image, listed) in enumerate(zip(images, sizes[:, 0].tolist(), strict=True))
    ]
    percent = np.stack([value[key] for key in ("x", "y", "width", "height")], axis=1)
    pixels = percent * np.tile(np.repeat(sizes, counts, axis=0), 2) / 100
    wh = pixels[:, 2:]
    xyxy = np.concatenate([pixels[:, :2], pixels[:, :2] + wh], axis=1)
    label, score = value["rectanglelabels"], np.full(results.n, NAN)
    if kind == "predictions":
        given = np.zeros(table.n)
        given[np.array(work.lengths, np.int64) == 1] = work["score"]
        score = np.where(np.isnan(results["score"]), np.repeat(given, counts), results["score"])
    add_boxes(reader, results, label, xyxy, images, lists, wh=wh, score=score)
    return True


def _add_images(
    reader: Reader, data: Table, at: At, sizes: NDArray[np.int64], file: int
) -> Sequence[int | None]:
    """Add the images of tasks; the row of each, None without. The sizes are those of `_sizes`."""
    names, places = list(map(image_name, data["image"])), [at / i / "data" for i in range(data.n)]
    known = sizes[:, 0] > 0
    widths, heights = (
        np.where(known, sizes[:, k], [own or 0 for own in data[key]])
        for k, key in enumerate(("width", "height"))
    )
    first = reader.usual_images(names, places, widths, heights, file=file)
    if first is not None:
        return range(first, first + data.n)
    images = []
    rows = list(zip(names, places, data["width"], data["height"], sizes.tolist(), strict=True))
    for i, (name, here, width, height, own) in enumerate(reader.log.track(rows, "reading")):
        size = (own[0], own[1]) if own[0] else reader.size(width, height, here, ("width", "height"))
        images.append(reader.image(name, here, field="image", size=size, file=file, line=i))
    return images


def _sizes(results: Table, counts: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The size (n, 2) that the results of each task say, 0 where there are none; None where they differ."""
    keys = [results[key] for key in _SIZE_KEYS]
    if results.n and not (min(map(min, keys)) >= 1 and max(map(max, keys)) < 2**31):
        return None
    pairs = np.array(keys, np.int64).reshape(2, -1).T
    sizes = np.zeros((len(counts), 2), np.int64)
    sizes[counts > 0] = pairs[(np.cumsum(counts) - counts)[counts > 0]]
    return sizes if (pairs == np.repeat(sizes, counts, axis=0)).all() else None


def _records(kind: str) -> Records:
    """The tasks of a project that has only annotations (``gt``) or predictions (``det``)."""
    det = kind == "det"
    value = {
        **dict.fromkeys(("x", "y", "width", "height"), NUMBER),
        "rotation": Maybe(NUMBER),
        "rectanglelabels": One(CLASS),
    }
    result = {
        **dict.fromkeys(_RESULT, ANY),
        "type": frozenset({"rectanglelabels"}),
        "value": value,
        **dict.fromkeys(_SIZE_KEYS, INT),
        "score": Maybe(NUMBER) if det else ANY,
        **dict.fromkeys(("image_rotation", "meta", "parentID", "readonly", "hidden", "locked"), COUNTED),
    }
    work = {
        **dict.fromkeys(_WORK_META, ANY),
        "result": Each(result),
        "was_cancelled": ANY if det else Held(lambda value: value is not True or None),
        "score": Maybe(NUMBER) if det else ANY,
    }
    return Records(
        Each(
            {
                "id": ANY,
                **dict.fromkeys(_TASK_META, ANY),
                "data": {"image": TEXT, "width": Maybe(INT), "height": Maybe(INT)},
                "annotations": EMPTY if det else Each(work),
                "predictions": Each(work) if det else EMPTY,
            }
        )
    )


def _read_task(reader: Reader, task: dict[str, Any], at: At, file: int, line: int) -> None:
    short = "data" not in task
    data = task if short else reader.mapping(task["data"], at / "data")
    if data is None:
        return
    results = _short_results(task, at) if short else _results(reader, task, at)
    if not short:
        reader.count_unread(data, frozenset({"image", "img", "width", "height"}))
    key = _image_key(data)
    name = data.get(key)
    found: list[tuple[dict[str, Any], tuple[int, int] | None, At, str | int, float]] = []
    size: tuple[int, int] | None = None
    for item, location, index, score in results:
        here = location / index
        result = reader.mapping(item, here, row=True)
        if result is None:
            reader.builder.skipped += 1
            continue
        own = _own_size(reader, result, here)
        if own == _FAULTY:
            reader.builder.skipped += 1
            continue
        found.append((result, own, location, index, score))
        size = size or own
    size = size or reader.size(data.get("width"), data.get("height"), at / "data", ("width", "height"))
    name = image_name(name) if isinstance(name, str) else name
    image = reader.image(name, at if short else at / "data", field=key, size=size, file=file, line=line)
    if image is None:
        reader.builder.skipped += len(found)
        return
    if size is None and found:
        assert isinstance(name, str)
        size = reader.pictures.size(name, reader.pictures.named(name))
        if size is None:
            reader.log.report(NO_SIZE, at.path, **at.where, value=name)
            reader.builder.skipped += len(found)
            return
    if size == _FAULTY:
        reader.builder.skipped += len(found)
        return
    labelled = {r.get("id") for r, *_ in found if isinstance(r.get("id"), str) and _labels(r) is not None}
    lists: dict[At, int] = {}
    for result, own, location, index, score in found:
        rows = lists.setdefault(location, -1)
        if rows < 0:
            rows = lists[location] = reader.rows_of(location)
        row = index if isinstance(index, int) else 0
        bare = result.get("type") in _BARE and _labels(result) is None
        if bare and isinstance(result.get("id"), str) and result["id"] in labelled:
            continue  # its label is in another result
        assert size is not None
        if not _read_result(reader, result, location / index, image, (own, size), score, rows, row):
            reader.builder.skipped += 1


def _image_key(data: dict[str, Any]) -> str:
    """The key under which the data of a task names its picture."""
    for key in ("image", "img"):
        if key in data:
            return key
    suffixes = tuple(PICTURE_SUFFIXES)
    return next((k for k, v in data.items() if isinstance(v, str) and v.lower().endswith(suffixes)), "image")


_Results = list[tuple[Any, At, str | int, float]]


def _results(reader: Reader, task: dict[str, Any], at: At) -> _Results:
    """The results of a task with the place of their list, their index in it and the prediction's score."""
    reader.count_unread(task, _TASK | _TASK_META)
    det = reader.builder.kind == "det"
    key = "predictions" if det else "completions" if "completions" in task else "annotations"
    given = reader.items(task.get(key), at / key)
    choices = []
    for i, item in enumerate(given or ()):
        choice = reader.mapping(item, at / key / i)
        if choice is not None and not (choice.get("was_cancelled") is True and not det):
            choices.append((i, choice))
    if not choices:
        return []
    marked = [c for c in choices if c[1].get("ground_truth") is True]
    if len(choices) > 1:
        reader.log.note(
            f"{printable(reader.source.path)}: of several {key} of a task, only the one marked "
            "ground_truth, or else the first, is read"
        )
        reader.count(f"further {key}", len(choices) - 1)
    i, choice = (marked or choices)[0]
    location = at / key / i
    results = reader.items(choice.get("result"), location / "result")
    score = reader.score(choice.get("score"), location / "score") if det else NAN
    where = location / "result"
    return [(r, where, k, NAN if score is None else score) for k, r in enumerate(results or ())]


_TASK_META = frozenset(
    (
        "annotations file_upload drafts meta created_at updated_at inner_id total_annotations project "
        "updated_by cancelled_annotations total_predictions comment_count unresolved_comment_count "
        "comment_authors last_comment_updated_at allow_skip precomputed_agreement"
    ).split()
)
"""Fields of a task about the annotators' work, not about the image."""
_WORK_META = frozenset(
    (
        "id completed_by ground_truth created_at updated_at draft_created_at lead_time prediction "
        "result_count unique_id import_id last_action last_created_by bulk_created task project updated_by "
        "parent_prediction parent_annotation model_version model_run cluster neighbors mislabeling"
    ).split()
)
"""What an annotation or a prediction says of itself."""
_RECORDS = {kind: _records(kind) for kind in ("gt", "det")}


def _short_results(task: dict[str, Any], at: At) -> _Results:
    """The results of a task of the short export, whose values stand in lists of any name."""
    found: _Results = []
    for key, value in task.items():
        if isinstance(value, list):
            where = at / key
            for i, item in enumerate(value):
                if isinstance(item, dict) and ("original_width" in item or "x" in item or "points" in item):
                    kind = next((k for k in _KINDS if k.endswith("labels") and k in item), "rectangle")
                    result = {"type": kind, "value": item, **{k: item.get(k) for k in _SIZE_KEYS}}
                    found.append((result, where, i, NAN))
    return found


def _labels(result: dict[str, Any]) -> list[Any] | None:
    """The labels of a result; None if there are none."""
    value = result.get("value")
    if not isinstance(value, dict):
        return None
    given = next((value[k] for k in (*_SHAPES.values(), "labels") if value.get(k)), None)
    return given if isinstance(given, list) else None


_FAULTY = (0, 0)
"""A size that is given and cannot be one; that is an issue already."""


def _own_size(reader: Reader, result: dict[str, Any], at: At) -> tuple[int, int] | None:
    width, height = result.get("original_width"), result.get("original_height")
    return reader.size(width, height, at, _SIZE_KEYS) if width is not None or height is not None else None


def _read_result(
    reader: Reader,
    result: dict[str, Any],
    at: At,
    image: int,
    sizes: tuple[tuple[int, int] | None, tuple[int, int]],
    score: float,
    rows: int,
    line: int,
) -> bool:
    """Read one result; False, and an issue, if it should be a box and cannot be one.

    `sizes` are the result's own, where it says one, and the image's.
    """
    own, size = sizes
    type_ = reader.text(result, "type", at, row=True)
    if type_ is None:
        return False
    if "value" not in result:
        reader.missing(at, "value", row=True)
        return False
    value = reader.mapping(result["value"], at / "value", row=True)
    if value is None:
        return False
    kind = _KINDS.get(type_)
    if type_ == "labels":
        kind = "rectangle" if "width" in value else "polygon" if "points" in value else None
    if kind is None:
        reader.count(type_)
        return True
    if own is not None and own != size:
        shown, other = Trusted(f"{own[0]}x{own[1]}"), Trusted(f"{size[0]}x{size[1]}")
        reader.log.report(SIZES_DIFFER, at.path, **at.where, value=shown, other=other)
        return False
    location = _location(reader, kind, value, size, at)
    labels = _labels(result)
    if labels is None:
        key = type_ if type_.endswith("labels") else _SHAPES[kind]
        if value.get(key):
            reader.wrong(at / "value" / key, "a list of labels", value[key], row=True)
        else:
            reader.missing(at / "value", key, row=True)
    if location is None or labels is None:
        return False
    if reader.builder.kind == "det":
        own_score = reader.score(result.get("score"), at / "score")
        if own_score is None:
            return False
        score = score if math.isnan(own_score) else own_score
    reader.count_unread(result, _RESULT)
    categories = [reader.category(label, at / "value" / type_ / i) for i, label in enumerate(labels)]
    corners, wh = location
    for category in categories:
        if category is not None:
            reader.box(image, category, corners, at, file=rows, line=line, wh=wh, score=score)
    if len(labels) > 1:
        reader.log.note(
            f"{printable(reader.source.path)}: a shape with several labels is read as one box per label"
        )
    return None not in categories


def _location(
    reader: Reader, kind: str, value: dict[str, Any], size: tuple[int, int], at: At
) -> tuple[Corners, tuple[float, float] | None] | None:
    """Corners in pixels, and width and height of a rectangle; None, and an issue, if they cannot be had."""
    here = at / "value"
    width, height = size
    if kind == "polygon":
        if "points" not in value:
            reader.missing(here, "points", row=True)
            return None
        points = reader.points(value["points"], here / "points", 1)
        if points is None:
            return None
        if not is_upright(points):
            reader.outline("polygons", at)
        left, top, right, bottom = bounds(points)
        return (left * width / 100, top * height / 100, right * width / 100, bottom * height / 100), None
    keys = ("x", "y", "width", "height") if kind == "rectangle" else ("x", "y", "radiusX", "radiusY")
    values = reader.members(value, keys, here)
    rotation = 0.0 if value.get("rotation") is None else reader.number(value["rotation"], here / "rotation")
    if values is None or rotation is None:
        return None
    x, y = values[0] * width / 100, values[1] * height / 100
    w, h = values[2] * width / 100, values[3] * height / 100
    c, s = math.cos(math.radians(rotation)), math.sin(math.radians(rotation))
    if kind == "ellipse":
        reader.outline("ellipses", at)
        rx, ry = (math.hypot(w * c, h * s), math.hypot(w * s, h * c)) if rotation else (w, h)
        return (x - rx, y - ry, x + rx, y + ry), None
    if rotation % 360:
        reader.outline("rotated boxes", at)
        turned = [(x + a * c - b * s, y + a * s + b * c) for a, b in ((0, 0), (w, 0), (w, h), (0, h))]
        return bounds(turned), None
    return (x, y, x + w, y + h), (w, h)


_UPLOAD = re.compile(r"[0-9a-f]{8}-(?=.)")


def image_name(text: str) -> str:
    """The name of an image from where Label Studio serves it."""
    if "?d=" in text:
        return _unquote(text.split("?d=", 1)[1].split("&", 1)[0]).lstrip("/")
    if "://" not in text and not text.startswith("/"):
        return text
    last = _unquote(text.split("?", 1)[0].rstrip("/").rpartition("/")[2])
    return _UPLOAD.sub("", last, count=1) if "/upload/" in text and _UPLOAD.match(last) else last


def _unquote(text: str) -> str:
    from urllib.parse import unquote_to_bytes

    try:
        return unquote_to_bytes(text.encode("utf-8", "surrogatepass")).decode()
    except UnicodeDecodeError:
        return text


# ----------------------------------------------------------------------------------------------- writing


def write(dataset: Dataset, target: Output, log: Log, options: LabelstudioOptions) -> None:
    """Write one file of tasks."""
    from urllib.parse import quote

    name = "" if target.single else "tasks.json"
    images, boxes = dataset.images, dataset.boxes
    fits = may_write(dataset, log) and (not name or target.plan([name], ["the tasks"], log))
    for row in np.unique(boxes.image).tolist():
        if images.width[row] <= 0 or images.height[row] <= 0:
            path, line, pointer = dataset.image_place(row)
            log.report(NO_SIZE, path, line=line, pointer=pointer, value=images.name[row])
            fits = False
    if not fits:
        return
    size = np.stack([images.width, images.height], axis=1).astype(np.float64)
    scale = np.concatenate([size, size], axis=1)[boxes.image]
    with np.errstate(invalid="ignore"):
        percent = np.concatenate([boxes.xyxy[:, :2], boxes.wh], axis=1) * 100 / scale
    # Finer than centres are written elsewhere, or halves of a width would be rounded up and down in turn.
    places = np.array([decimals_for(*wh) + 1 for wh in size.astype(np.int64).tolist()], np.int64)[boxes.image]
    texts = fixed_rows(percent, places)
    is_det = dataset.kind == "det"
    quotes = "?" in options.prefix or "://" in options.prefix or options.prefix.startswith("/")
    tasks = []
    for row, (image, members) in enumerate(zip(images.name, groups(dataset), strict=True)):
        width, height = int(images.width[row]), int(images.height[row])
        results = []
        for k, i in enumerate(members):
            x, y, w, h = (number(float(text)) for text in texts[i])
            result: dict[str, Any] = {
                "id": f"{row + 1}-{k + 1}",
                "type": "rectanglelabels",
                "from_name": "label",
                "to_name": "image",
                "original_width": width,
                "original_height": height,
                "image_rotation": 0,
                "value": {
                    "x": x,
                    "y": y,
                    "width": w,
                    "height": h,
                    "rotation": 0,
                    "rectanglelabels": [dataset.categories.name[boxes.category[i]]],
                },
            }
            results.append(result | {"score": number(float(boxes.score[i]))} if is_det else result)
        data: dict[str, Any] = {"image": options.prefix + (quote(image) if quotes else image)}
        if width > 0 and height > 0:
            data |= {"width": width, "height": height}
        held: dict[str, Any] = {"annotations": [{"result": results}]}
        if is_det:
            held = {"predictions": [{"model_version": "detections", "result": results}]}
        tasks.append(dump({"id": row + 1, "data": data, **held}))
    target.write(name, f"{lines(iter(tasks))}\n".encode())


FORMAT = Format(
    name="labelstudio",
    title="Label Studio JSON",
    use="annotation tools",
    written_by="Label Studio 0.x (completions), 1.x JSON and JSON-MIN",
    doc=__doc__ or "",
    suffixes=(".json",),
    begins="[{",
    single=True,
    sniff=sniff,
    read=read,
    write=write,
    options=LabelstudioOptions,
    keeps=frozenset({"size", "extension", "empty", "score"}),
    max_error_px=1e-6,
    needs_size=True,
)
