"""Create ML JSON: Apple's annotations for an object detector, one file per dataset.

Specification: "Building an object detector data source" in Apple's documentation of Create ML::

    [{"image": "a.jpg",
      "annotations": [{"label": "person",
                       "coordinates": {"x": 60, "y": 120, "width": 100, "height": 200}}]}]

``x`` and ``y`` are the centre of the box, ``width`` and ``height`` its size, in pixels from the top left
corner of the image, the defaults of Create ML. If all of them are in 0..1, they are relative to the image
size, which comes from the pictures beside the file, ``--images``, ``--image-size`` or ``--image-sizes``;
``-O units=pixel`` and ``-O units=normalized`` override this. The alternative keys ``imagefilename`` and
``annotation`` of the same page are read as well. A null list is read as empty.

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
import itertools
from collections.abc import Iterable

import numpy as np

from odm.files import Output, Source
from odm.formats._contract import SURE, option
from odm.formats._shared.json.items import Item, Row, Size, iter_images, plan_file, read_items
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.values import Reader, choose_files, dump, join_records, simplify
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.split_names import SplitOptions, find_split, select_split
from odm.issues import Log, printable, spell_setting
from odm.tables import Builder, Dataset, Floats

_KEYS = declare_keys(
    "image imagefilename annotations annotation label coordinates x y width height confidence"
)
_PLACE = ("x", "y", "width", "height")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CreatemlOptions(SplitOptions):
    """Options of Create ML JSON."""

    units: str = option(
        "auto",
        "unit of the coordinates: pixels, or relative to the image size",
        choices=("auto", "pixel", "normalized"),
        side="read",
    )


def looks_like(preview: JsonPreview, _: bytes) -> tuple[int, str] | None:
    """Recognise a list of images with annotations by the keys of the first one and how values begin."""
    first_record = preview.first.get("", {})  # "": of the outermost list; "n" below begins null
    for image, boxes in (("image", "annotations"), ("imagefilename", "annotation")):
        if preview.top == "[" and first_record.get(image) == '"' and first_record.get(boxes) in ("[", "n"):
            return SURE, f"it is a list of records with {image} and {boxes}, as in Create ML"
    return None


def read(source: Source, builder: Builder, log: Log, options: CreatemlOptions) -> None:
    """Read the file, or those of a folder. With units=auto, all of them decide whether numbers are pixels."""
    relative = options.units == "normalized"
    reader = Reader(source, builder, log, options, borrow_sizes=relative, keys=_KEYS)
    files = choose_files(source, looks_like, "Create ML JSON", log)
    files = select_split(files, find_split, options.split, source, log)
    images = {file: list(read_items(reader, file, "a list of images")) for file in files}
    if options.units == "auto" and _are_relative(itertools.chain(*images.values())):
        log.note(
            f"{printable(source.path)}: all coordinates lie in 0..1, so they are read as relative to the "
            f"image's size ({spell_setting('units=pixel')} reads pixels)"
        )
        # A reader that borrows the sizes of images, which relative coordinates need.
        relative, reader = True, Reader(source, builder, log, options, borrow_sizes=True, keys=_KEYS)
    for file, records in images.items():
        for image in records:
            image.reader = reader
            _read_image(image, find_split(file), relative=relative)
    reader.finish(field="confidence")


def _are_relative(images: Iterable[Item]) -> bool:
    """Whether there are boxes and all their numbers lie in 0..1, at least one of them strictly between."""
    has_fraction = False
    for image in images:
        boxes = image.get(image.first_key("annotations", "annotation"))
        for box in boxes if isinstance(boxes, list) else ():
            numbers = box.get("coordinates") if isinstance(box, dict) else None
            for value in numbers.values() if isinstance(numbers, dict) else ():
                if type(value) in (int, float):
                    if not 0 <= value <= 1:
                        return False
                    has_fraction |= 0 < value < 1
    return has_fraction


def _read_image(record: Item, split: str, *, relative: bool) -> None:
    """Add an image and its boxes, whose numbers are `relative` to the image size or pixels."""
    name_key = record.first_key("image", "imagefilename")
    list_key = record.first_key("annotations", "annotation")
    if list_key not in record:
        record.report_missing(list_key)
    boxes = record.rows(list_key)
    image = record.image(name_key, split=split)
    unit: Size = (1, 1)
    if relative and boxes and image is not None:
        unit = record.reader.find_unit_size(image, record.get(name_key), record.location)
    boxes.read(image, _read_box, unit)


def _read_box(box: Row, unit: Size) -> None:
    """Add a box from its centre and size in units of (width, height) pixels: the image size, or (1, 1)."""
    box.need("label", "coordinates")
    category, score = box.category("label"), box.score("confidence")
    x, y, width, height = box.object("coordinates").numbers(*_PLACE)
    width, height = width * unit[0], height * unit[1]
    left, top = x * unit[0] - width / 2, y * unit[1] - height / 2
    box.add(category, (left, top, left + width, top + height), wh=(width, height), score=score)


def _choose_centres(low: Floats, wh: Floats) -> Floats:
    """The (n, 2) centres to write, with the fewest decimals from which the same left and top are read.

    `low` are (n, 2) left and top, `wh` (n, 2) width and height, in pixels. If no number leads back to an
    edge, because subtracting half of the size rounds, the edge that is read back replaces it until it no
    longer changes, so that a second round trip changes nothing.
    """
    half_wh = wh / 2
    centres = low + half_wh
    for _ in range(8):  # the second pass is nearly always the last
        open_positions = np.nonzero(np.ones(low.shape, bool))  # row and column of each number, as two arrays
        for places in range(17):  # low 0.5, half 0.25: 1 and 0.8 are tried, then 0.75, as 0.75 - 0.25 == 0.5
            candidates = np.round(low[open_positions] + half_wh[open_positions], places)
            is_exact = candidates - half_wh[open_positions] == low[open_positions]
            exact_positions = tuple(index[is_exact] for index in open_positions)
            centres[exact_positions] = candidates[is_exact]
            open_positions = tuple(index[~is_exact] for index in open_positions)
            if not len(open_positions[0]):
                break
        centres[open_positions] = low[open_positions] + half_wh[open_positions]
        low_read_back = centres - half_wh
        if bool((low_read_back == low).all()):
            break
        low = low_read_back
    return centres


def write(dataset: Dataset, target: Output, log: Log, _: CreatemlOptions) -> None:
    """Write a list of images, with the centres and sizes of their boxes in pixels."""
    name = plan_file(dataset, target, "annotations.createml.json", "annotations", log)
    if name is None:
        return
    wh = dataset.boxes.short_wh()
    cxcywh = np.concatenate([_choose_centres(dataset.boxes.xyxy[:, :2], wh), wh], axis=1)
    texts = []
    for image in iter_images(dataset):
        boxes = []
        for box in image.boxes:
            coordinates = dict(zip(_PLACE, map(simplify, cxcywh[box.row].tolist()), strict=True))
            boxes.append({"label": box.label, "coordinates": coordinates, **box.score_field("confidence")})
        texts.append(dump({"image": image.name, "annotations": boxes}))
    target.write(name, f"{join_records(iter(texts))}\n".encode())


FORMAT = json_format_of(
    __name__,
    title="Create ML JSON",
    expects=("image", "annotations", "coordinates"),
    use="training",
    written_by="Apple Create ML, Roboflow, RectLabel (image and imagefilename spellings)",
    single=True,
    holds=('"image"', '"imagefilename"'),
    keeps=frozenset({"extension", "empty", "score", "wh"}),
    max_error_px=1e-9,
)
