"""Create ML JSON: Apple's annotations for an object detector, one file per data set.

Specification: "Building an object detector data source" in Apple's documentation of Create ML::

    [{"image": "a.jpg",
      "annotations": [{"label": "person",
                       "coordinates": {"x": 60, "y": 120, "width": 100, "height": 200}}]}]

``x`` and ``y`` are the centre of the box, ``width`` and ``height`` its size, in pixels from the top left
corner of the image, the defaults of Create ML. If all of them are in 0..1, they are relative to the image
size, which must then be given by ``--images``, ``--image-size`` or ``--image-sizes``; ``-O units=pixel`` and
``-O units=normalized`` override this. The alternative keys ``imagefilename`` and ``annotation`` of the same
page are read as well. A null list is read as empty.

Detections have a ``confidence`` beside the ``label``, as in the predictions of a model; Create ML ignores it.
If every annotation has one, the file contains detections. If only some have one, it is read as ground truth
without the confidences, with a warning. ``--kind`` overrides this.

The format has no image sizes and no flags. In a folder, the .json files of this format are read, such as
``train/_annotations.createml.json``; a folder called ``train``, ``valid``, ``test`` or similar gives the
split.

Writing: the shortest centre from which the same edges are read back or, if there is none, the nearest; whole
numbers have no decimal point.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from odm.codes import NO_SIZE
from odm.files import Output, Source
from odm.formats._contract import SURE, Format, Sniff, option
from odm.formats._shared.gather import At
from odm.formats._shared.json_preview import JsonPreview
from odm.formats._shared.json_records import (
    CLASS,
    NUMBER,
    TEXT,
    Each,
    Maybe,
    Records,
    Table,
    add_boxes,
)
from odm.formats._shared.json_values import (
    Nothing,
    Reader,
    dump,
    groups,
    lines,
    may_write,
    number,
    sniff_json,
)
from odm.formats._shared.number_text import short_wh
from odm.formats._shared.splits import SplitOptions, files_of_split, split_of
from odm.issues import Log, printable
from odm.tables import Builder, Dataset, Floats

_IMAGE = frozenset({"image", "imagefilename", "annotations", "annotation"})
_BOX = frozenset({"label", "coordinates", "confidence"})


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CreatemlOptions(SplitOptions):
    """Options of Create ML JSON."""

    units: str = option(
        "auto",
        "unit of the coordinates: pixels, or relative to the image size",
        choices=("auto", "pixel", "normalized"),
        side="read",
    )


def _looks_like(look: JsonPreview, _: bytes) -> tuple[int, str] | None:
    first = look.first.get("", {})
    for image, boxes in (("image", "annotations"), ("imagefilename", "annotation")):
        if look.top == "[" and first.get(image) == '"' and first.get(boxes) in ("[", "n"):
            return SURE, f"it is a list of records with {image} and {boxes}, as in Create ML"
    return None


def sniff(source: Source) -> Sniff | None:
    """Look at the keys of the first record."""
    return sniff_json(source, _looks_like)


def read(source: Source, builder: Builder, log: Log, options: CreatemlOptions) -> None:
    """Read the file, or those of a folder."""
    relative = options.units == "normalized"
    reader = Reader(source, builder, log, options, ask_other=relative)
    files = reader.choose(_looks_like, "Create ML JSON")
    files = files_of_split(files, split_of, options.split, source, log)
    values = [_RECORDS.read(reader, file) for file in files]
    if options.units == "auto" and _are_relative(values):
        log.note(
            f"{printable(source.path)}: all coordinates lie in 0..1, so they are read as relative to the "
            "image's size (-O units=pixel reads pixels)"
        )
        relative, reader = True, Reader(source, builder, log, options, ask_other=True)
    for file, value in zip(files, values, strict=True):
        at = At(source.full(file))
        if value is Nothing:
            continue
        if isinstance(value, Table):
            _read_table(reader, value, at, split_of(file), relative=relative)
            continue
        if not isinstance(value, list):
            reader.wrong(at, "a list of images", value)
            continue
        rows = builder.file(at.path, "/")
        for i, record in enumerate(log.track(value, "reading")):
            _read_image(reader, record, at / i, rows, i, split_of(file), relative=relative)
    reader.finish(field="confidence")


def _are_relative(values: list[Any]) -> bool:
    """Whether there are boxes and all their numbers lie in 0..1, some of them not whole."""
    broken = False
    for table in [value for value in values if isinstance(value, Table)]:
        numbers = _numbers(table["annotations"])
        if not ((numbers >= 0) & (numbers <= 1)).all():
            return False
        broken |= bool(((numbers > 0) & (numbers < 1)).any())
    for place in _places(values):
        for value in place.values():
            if type(value) in (int, float):
                if not 0 <= value <= 1:
                    return False
                broken |= 0 < value < 1
    return broken


def _places(values: list[Any]) -> Iterator[dict[str, Any]]:
    """The coordinates of all boxes, as far as these are such."""
    for value in values:
        for record in value if isinstance(value, list) else ():
            for box in _listed(record) if isinstance(record, dict) else ():
                if isinstance(box, dict) and isinstance(place := box.get("coordinates"), dict):
                    yield place


def _listed(record: dict[str, Any]) -> list[Any]:
    boxes = record.get("annotations", record.get("annotation"))
    return boxes if isinstance(boxes, list) else []


def _numbers(boxes: Table) -> Floats:
    """(n, 4) the coordinates of boxes, as they were read."""
    return np.stack([boxes["coordinates"][key] for key in _KEYS], axis=1)


def _read_table(reader: Reader, table: Table, at: At, split: str, *, relative: bool) -> None:
    """Read a file in which everything is as usual."""
    boxes: Table = table["annotations"]
    rows = reader.builder.file(at.path, "/")
    images, lists, sizes = [], [], []
    pairs = zip(table["image"], boxes.lengths, strict=True)
    for i, (name, n) in enumerate(reader.log.track(list(pairs), "reading")):
        here = at / i
        image = reader.image(name, here, field="image", split=split, file=rows, line=i)
        size = None
        if relative and n and image is not None:
            size = _size(reader, name, here)
            image = None if size is None else image
        sizes.append(size or (1, 1))
        images.append(image)
        lists.append(-1 if image is None else reader.builder.file(at.path, f"/{i}/annotations"))
    scale = np.repeat(np.array(sizes, np.float64).reshape(-1, 2), boxes.lengths, axis=0)
    numbers = _numbers(boxes) * np.tile(scale, 2)
    wh = numbers[:, 2:]
    low = numbers[:, :2] - wh / 2
    xyxy = np.concatenate([low, low + wh], axis=1)
    add_boxes(reader, boxes, boxes["label"], xyxy, images, lists, wh=wh, score=boxes["confidence"])


def _size(reader: Reader, name: str, at: At) -> tuple[int, int] | None:
    """The size of an image whose boxes are relative to it; None, and an issue, if it is not known."""
    size = reader.pictures.size(name, reader.pictures.named(name))
    if size is None:
        reader.log.report(NO_SIZE, at.path, pointer=at.pointer, value=name)
    return size


_KEYS = ("x", "y", "width", "height")
_RECORDS = Records(
    Each(
        {
            "image": TEXT,
            "annotations": Each(
                {
                    "label": CLASS,
                    "coordinates": dict.fromkeys(_KEYS, NUMBER),
                    "confidence": Maybe(NUMBER),
                }
            ),
        }
    )
)


def _read_image(
    reader: Reader, value: Any, at: At, file: int, line: int, split: str, *, relative: bool
) -> None:
    record = reader.mapping(value, at)
    if record is None:
        return
    reader.count_unread(record, _IMAGE)
    key = "image" if "image" in record else "imagefilename"
    list_key = "annotations" if "annotations" in record else "annotation"
    if list_key not in record:
        reader.missing(at, "annotations")
    boxes = reader.items(record.get(list_key), at / list_key)
    image = reader.image(record.get(key), at, field=key, split=split, file=file, line=line)
    if boxes is None or image is None:
        reader.builder.skipped += len(boxes or ())
        return
    scale = (1.0, 1.0)
    if relative and boxes:
        size = _size(reader, record[key], at)
        if size is None:
            reader.builder.skipped += len(boxes)
            return
        scale = float(size[0]), float(size[1])
    here = at / list_key
    rows = reader.rows_of(here)
    for i, box in enumerate(boxes):
        if not _read_box(reader, box, here / i, image, scale, rows, i):
            reader.builder.skipped += 1


def _read_box(
    reader: Reader, value: Any, at: At, image: int, scale: tuple[float, float], rows: int, line: int
) -> bool:
    """Read one annotation; False, and an issue, if it cannot be a box."""
    box = reader.mapping(value, at, row=True)
    if box is None:
        return False
    for key in ("label", "coordinates"):
        if key not in box:
            reader.missing(at, key, row=True)
            return False
    category = reader.category(box["label"], at / "label")
    location = reader.mapping(box["coordinates"], at / "coordinates", row=True)
    values = None
    if location is not None:
        values = reader.members(location, _KEYS, at / "coordinates")
    score = reader.score(box.get("confidence"), at / "confidence")
    if category is None or values is None or score is None:
        return False
    reader.count_unread(box, _BOX)
    x, y, width, height = (v * s for v, s in zip(values, (*scale, *scale), strict=True))
    left, top = x - width / 2, y - height / 2
    corners = left, top, left + width, top + height
    reader.box(image, category, corners, at, file=rows, line=line, wh=(width, height), score=score)
    return True


def _centres(low: Floats, wh: Floats) -> Floats:
    """(n, 2) centres to be written: the numbers of fewest decimals that lead back to the same left and top.

    Where none does, because the half of the size cannot be taken away exactly, the edge that is read back is
    taken instead until it stays, so that a second trip changes nothing.
    """
    half = wh / 2
    result = low + half
    for _ in range(8):
        open_ = np.nonzero(np.ones(low.shape, bool))
        for places in range(17):
            tried = np.round(low[open_] + half[open_], places)
            fits = tried - half[open_] == low[open_]
            done = tuple(index[fits] for index in open_)
            result[done] = tried[fits]
            open_ = tuple(index[~fits] for index in open_)
            if not len(open_[0]):
                break
        result[open_] = low[open_] + half[open_]
        again = result - half
        if bool((again == low).all()):
            break
        low = again
    return result


def write(dataset: Dataset, target: Output, log: Log, options: CreatemlOptions) -> None:
    """Write one file."""
    del options
    name = "" if target.single else "annotations.createml.json"
    if not may_write(dataset, log) or (name and not target.plan([name], ["the annotations"], log)):
        return
    boxes = dataset.boxes
    wh = short_wh(boxes)
    places = np.concatenate([_centres(boxes.xyxy[:, :2], wh), wh], axis=1).tolist()
    classes = dataset.categories.name
    category, score = boxes.category.tolist(), boxes.score.tolist()
    is_det = dataset.kind == "det"

    def one(i: int) -> dict[str, Any]:
        numbers = map(number, places[i])
        location = dict(zip(_KEYS, numbers, strict=True))
        box: dict[str, Any] = {"label": classes[category[i]], "coordinates": location}
        return box | {"confidence": number(score[i])} if is_det else box

    records = (
        dump({"image": image, "annotations": [one(i) for i in rows]})
        for image, rows in zip(dataset.images.name, groups(dataset), strict=True)
    )
    target.write(name, f"{lines(records)}\n".encode())


FORMAT = Format(
    name="createml",
    title="Create ML JSON",
    use="training",
    written_by="Apple Create ML, Roboflow, RectLabel (image and imagefilename spellings)",
    doc=__doc__ or "",
    suffixes=(".json",),
    begins="[{",
    single=True,
    sniff=sniff,
    read=read,
    write=write,
    options=CreatemlOptions,
    keeps=frozenset({"extension", "empty", "score", "wh"}),
    max_error_px=1e-9,
)
