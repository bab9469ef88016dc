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

``segmentation`` and all other keys of annotations, images and categories (``coco_url``, ``synset``, ...) and
of the file are written again as they were if the target is LVIS or COCO; otherwise they are counted as lost.
A file that starts with the annotations looks like COCO: use ``--format lvis``. If every annotation has a
``score``, the file contains detections. If only some have one, it is read as ground truth without the scores,
with a warning. LVIS results have the format of COCO results: read them as ``coco``, with this file as
``--gt`` (in ``eval`` the other side).

Writing: ids of images, classes and annotations are kept if they are unique whole numbers from 1, otherwise
they count from 1; annotations without an id get the next numbers. ``image_count`` and ``instance_count`` are
computed from the boxes, and so is an unknown ``frequency`` (``r`` up to 10 images, ``c`` up to 100, ``f``
above).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from odm.files import Output, Source
from odm.formats._contract import NARROWER, RELATIONAL
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.record_types import Field
from odm.formats._shared.json.values import check_classes, choose_files
from odm.formats._shared.split_names import SplitOptions, find_split, select_split
from odm.formats.coco.reader import Reader
from odm.formats.coco.values import COCO, Dialect
from odm.issues import Log
from odm.tables import Builder, Dataset, Flag, LabelState

_LISTS = {"neg_category_ids": LabelState.ABSENT, "not_exhaustive_category_ids": LabelState.PARTIAL}
"""The lists of an image, and what they mean for their classes."""


def _name_of(image: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the key that names an image, and its name: the file name or the end of ``coco_url``."""
    if image.get("file_name") is not None:
        return "file_name", image["file_name"]
    url = image.get("coco_url")
    if isinstance(url, str):  # http://x/val2017/1.jpg?a: val2017/1.jpg
        url = "/".join(url.split("?", 1)[0].split("/")[-2:])
    return "coco_url", url


def _find_category_columns(dataset: Dataset) -> dict[str, list[Any]]:
    """Return image and instance counts of each class, by the boxes, and its frequency, else by its images."""
    boxes, classes = dataset.boxes, dataset.categories
    pairs = np.unique(np.stack([boxes.category, boxes.image], axis=1), axis=0)  # each image counts once
    n_images = np.bincount(pairs[:, 0], minlength=len(classes)).tolist()

    def find_frequency(n: int) -> str:
        """Return rare, common or frequent for a class in n images."""
        return "r" if n <= 10 else "c" if n <= 100 else "f"

    return {
        "frequency": [
            frequency or find_frequency(n) for frequency, n in zip(classes.frequency, n_images, strict=True)
        ],
        "image_count": n_images,
        "instance_count": np.bincount(boxes.category, minlength=len(classes)).tolist(),
    }


def _require_whole_ids(fields: Sequence[Field]) -> list[Field]:
    """Return the fields with whole numbers in place of ids that may be text."""
    return [replace(field, kind="int") if field.kind == "id" else field for field in fields]


LVIS = Dialect(
    protocol="lvis",
    image=(
        *_require_whole_ids(COCO.image),
        Field("coco_url", "text"),
        *(Field(key, "ints") for key in _LISTS),
    ),
    category=(
        *_require_whole_ids(COCO.category),
        Field("frequency", "text"),
        Field("image_count", "int"),
        Field("instance_count", "int"),
    ),
    annotation=(
        *(field for field in _require_whole_ids(COCO.annotation) if field.key != "iscrowd"),
        Field("ignore", "flag"),
    ),
    flag=("ignore", Flag.DIFFICULT),
    sparse=True,
    whole_ids=True,
    results=False,
    needs=frozenset({"images", "annotations", "categories"}),
    silent=COCO.silent | frozenset({"info", "licenses", "license", "date_captured", "flickr_url"}),
    name_of=_name_of,
    id_names=False,
    kept_keys=frozenset({"coco_url"}),
    labels=_LISTS,
    least_id=1,
    frame_key="frame_index",
    all_tracks=True,
    find_category_columns=_find_category_columns,
)


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Look at the keys of the first image and the first category."""
    if preview.top != "{" or not preview.keys.keys() & {"images", "annotations"}:
        return None
    if preview.first.get("images", {}).keys() & _LISTS.keys():
        return NARROWER, "its images have LVIS's lists of classes"
    # The preview may show only the synset of the first category; a frequency anywhere in sight decides.
    if {"frequency", "synset"} & preview.first.get("categories", {}).keys() and b'"frequency"' in head:
        return NARROWER, "its categories have a frequency, as in LVIS"
    return None


def read(source: Source, builder: Builder, log: Log, options: SplitOptions) -> None:
    """Read the file, or those of a folder."""
    reader = Reader(source, builder, log, options, LVIS)
    files = choose_files(source, looks_like, "LVIS JSON", log)
    for file in select_split(files, find_split, options.split, source, log):
        reader.read(file, find_split(file))
    reader.finish()


def write(dataset: Dataset, target: Output, log: Log, _: SplitOptions) -> None:
    """Write one file."""
    from odm.formats.coco.writer import encode_object

    name = "" if target.single else "lvis.json"
    if check_classes(dataset, log) and (not name or target.plan([name], ["the annotations"], log)):
        images, boxes = np.arange(len(dataset.images)), np.arange(len(dataset))
        target.write(name, encode_object(dataset, images, boxes, log, LVIS))


FORMAT = json_format_of(
    __name__,
    title="LVIS JSON",
    expects=("images", "annotations", "neg_category_ids"),
    use="challenges",
    written_by="LVIS 0.5 and 1.0",
    single=True,
    keeps=RELATIONAL
    | {"difficult", "frequency", "absent", "partial", "video", "track", "track_score", "own_fields"}
    | {"polygon", "parts", "mask"},
)
