"""CrowdHuman ``.odgt``: the people in each image, one JSON record per line.

Source: the annotation format on the page of the dataset (https://www.crowdhuman.org/download.html)::

    {"ID": "273271,c9db000d5146c15", "gtboxes": [
        {"tag": "person", "fbox": [72, 202, 163, 503], "vbox": [72, 202, 163, 398],
         "hbox": [171, 208, 62, 83], "head_attr": {"ignore": 0, "occ": 1, "unsure": 0},
         "extra": {"box_id": 0, "occ": 1}},
        {"tag": "mask", "fbox": [567, 209, 23, 42], "extra": {"box_id": 1, "ignore": 1}}]}

Each record is on one line. ``fbox`` is the left, top, width and height of the whole person in pixels,
including parts that are hidden or outside the image; ``vbox`` is the visible part, ``hbox`` the head. ``-O
box=vbox`` or ``hbox`` reads these. Numbers are read and written unchanged.

``tag`` is the class. ``extra.ignore`` other than 0 means that evaluations ignore the box: it is read as
crowd. A ``mask``, which covers a group or a reflection, is read as a region to ignore, with the class
``person``. For heads, ``head_attr.ignore`` is used instead. ``extra.occ`` 1 is read as the flag *occluded*.

``ID`` is the image name without its extension, which is taken from the picture (``--images``). The size comes
from the picture too, or from ``--image-size``, ``--image-sizes``, or ``width`` and ``height`` in the record.

Detections are ``dtboxes``: ``{"box": [72, 202, 163, 503], "score": 0.97, "tag": 1}``, as used by the
evaluation of CrowdDet (https://github.com/Purkialo/CrowdDet), where the tag 1 is ``person``. A file with both
is read as ground truth, unless ``--kind det`` is given.

In a folder, all ``.odgt`` files are read; ``annotation_train.odgt`` is the split ``train``. Writing:
``annotation.odgt``, or one file for each split; only ``fbox`` is written.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from odm.files import COLLISION, Output, Source
from odm.formats._contract import SURE, option
from odm.formats._shared.gather import Location, report_other_kind
from odm.formats._shared.json.items import BAD_SIZE, Box, Item, Row, iter_images, read_line_items
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.values import Reader, check_classes, choose_files, dump
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.split_names import (
    SplitOptions,
    list_split_files,
    normalise_split,
    parse_split,
    select_split,
    write_splits,
)
from odm.issues import Log, printable, spell
from odm.names import stem
from odm.tables import Builder, Dataset, Flag

_KEYS = declare_keys(
    "ID width height gtboxes dtboxes tag fbox vbox hbox head_attr extra ignore occ unsure box_id box score"
)
_SUFFIXES = (".odgt", ".jsonl")
_LISTS = ("gtboxes", "dtboxes")

PERSON = "person"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CrowdhumanOptions(SplitOptions):
    """Options of CrowdHuman."""

    box: str = option(
        "fbox",
        "which box of a person: the whole, the visible part, or the head",
        choices=("fbox", "vbox", "hbox"),
        side="read",
    )


def looks_like(preview: JsonPreview, _: bytes) -> tuple[int, str] | None:
    """Recognise lines with an ID and a list of boxes by the keys of the first one and how values begin."""
    if preview.top == "{" and "ID" in preview.keys and any(preview.keys.get(key) == "[" for key in _LISTS):
        return SURE, "its records have an ID and gtboxes, as CrowdHuman has"
    return None


def read(source: Source, builder: Builder, log: Log, options: CrowdhumanOptions) -> None:
    """Read the records one by one; their boxes after all of them, when the kind of the data is known."""
    folders = (source.path,) if source.is_dir else ()
    reader = Reader(source, builder, log, options, folders=folders, keys=_KEYS)
    path = source.path.replace("\\", "/")

    def split_of(file: str) -> str:
        """The split in the name of a file, of the source itself if it is ""; folders are not looked at."""
        return parse_split(file or path, folder=False)

    files = source.with_suffix(".odgt") if source.is_dir else []
    files = files or choose_files(source, looks_like, "CrowdHuman", log, _SUFFIXES)
    split = normalise_split(options.split)
    files = select_split(files, split_of, split, source, log)
    records_of: dict[str, list[tuple[Item, int | None]]] = {key: [] for key in _LISTS}
    """The records that have such a list and their images, until the kind of the whole is known."""
    for file in log.track(files, "reading"):
        for record in read_line_items(reader, file):
            image = _add_image(record, split_of(file))
            for key in _LISTS:
                if record.array(key):
                    records_of[key].append((record, image))
    if builder.kind is None:  # --kind has not chosen
        builder.kind = "det" if records_of["dtboxes"] and not records_of["gtboxes"] else "gt"
        if all(records_of.values()):
            log.note(f"{printable(source.path)}: the gtboxes are read, not the dtboxes ({spell('kind')} det)")
    else:  # boxes of the other kind are reported, at the first record that has any
        counts_and_locations: list[tuple[int, Location | None]] = []
        for key, records in records_of.items():
            location = next((record.location / key for record, _ in records), None)
            counts_and_locations.append((sum(len(record.array(key)) for record, _ in records), location))
        report_other_kind(builder, log, *counts_and_locations)  # of gtboxes, then of dtboxes
    key = "dtboxes" if builder.kind == "det" else "gtboxes"
    for record, image in records_of[key]:
        record.rows(key).read(image, _read_detection if builder.kind == "det" else _read_truth, options.box)
    reader.finish()


def _add_image(record: Item, split: str) -> int | None:
    """Add the image of a record, and return its row; None, after an issue, if the record is unusable."""
    if not any(key in record for key in _LISTS):
        record.report_missing("gtboxes")
        return None
    size, name = record.size("width", "height"), record.get("ID")
    picture, pictures = None, record.reader.pictures
    if isinstance(name, str) and pictures:
        picture = pictures.find(name, path=record.location.path)
        picture = picture or pictures.find(f"Images/{name}") or pictures.find(f"images/{name}")
        name += picture.name[len(stem(picture.name)) :] if picture else ""  # IDs have no extension
    if size == BAD_SIZE:
        return None
    return record.image_named(name, field="ID", size=size, picture=picture, split=split)


def _read_truth(box: Row, box_key: str) -> None:
    """Add a ground truth box, the one under `box_key`. The tag ``mask`` marks people to ignore."""
    tag = box.text("tag")
    corners, wh = box.ltwh(box_key)
    attributes = box.object("head_attr" if box_key == "hbox" else "extra", optional=True)
    category = box.category_named(PERSON if tag == "mask" else tag, box.location / "tag")
    flags = Flag(0)
    if tag == "mask":
        flags |= Flag.REGION
    elif attributes.flag("ignore"):
        flags |= Flag.CROWD
    if attributes.flag("occ"):
        flags |= Flag.OCCLUDED
    for other_key in ("fbox", "vbox", "hbox"):
        if other_key != box_key and box.get(other_key) and not box.is_bad:
            box.reader.count(other_key)
    box.add(category, corners, wh=wh, flags=int(flags))


def _read_detection(box: Row, _: str) -> None:
    """Add a detection, whose tag is 1 for a person, or a class name."""
    corners, wh = box.ltwh("box")
    score, tag = box.score("score"), box.get("tag", 1)
    category = box.category_named(PERSON if tag == 1 else tag, box.location / "tag")
    box.add(category, corners, wh=wh, score=score)


def write(dataset: Dataset, target: Output, log: Log, _: CrowdhumanOptions) -> None:
    """Write a record for each image, in one file for each split."""
    files = list_split_files(dataset, lambda split: f"annotation{'_' if split else ''}{split}.odgt")
    is_writable = check_classes(dataset, log)
    is_writable &= target.plan(list(files.values()), [f"the split {s}" for s in files], log)
    name_of_id: dict[str, str] = {}
    for name in dataset.images.name:
        if (first_name := name_of_id.setdefault(stem(name), name)) != name:
            log.report(COLLISION, "", first=first_name, second=name, value=f"ID {stem(name)}")
            is_writable = False
    if not is_writable:
        return
    lines = []
    for image in iter_images(dataset):
        record: dict[str, Any] = {"ID": stem(image.name), **image.size}
        key = "dtboxes" if dataset.kind == "det" else "gtboxes"
        record[key] = [_format_box(box, n) for n, box in enumerate(image.boxes)]
        lines.append(dump(record) + "\n")
    write_splits(dataset, target, files, lines)


def _format_box(box: Box, box_id: int) -> dict[str, Any]:
    """The JSON object of a box; `box_id` numbers the boxes of its image."""
    ltwh = [*box.xyxy[:2], *box.wh]
    if box.score is not None:
        return {"box": ltwh, "score": box.score, "tag": 1 if box.label == PERSON else box.label}
    extra = {"box_id": box_id}
    if box.flags & Flag.OCCLUDED:
        extra["occ"] = 1
    if box.flags & (Flag.CROWD | Flag.REGION):
        extra["ignore"] = 1
    return {"tag": "mask" if box.flags & Flag.REGION else box.label, "fbox": ltwh, "extra": extra}


FORMAT = json_format_of(
    __name__,
    title="CrowdHuman odgt",
    use="challenges",
    written_by="CrowdHuman (annotation_train.odgt), CrowdDet results",
    suffixes=(".odgt",),
    looks_at=_SUFFIXES,
    holds=("gtboxes", "dtboxes"),
    keeps=frozenset({"size", "empty", "score", "wh", "split", "crowd", "region", "occluded"}),
    exclusive_region=True,
)
