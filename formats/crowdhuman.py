"""CrowdHuman ``.odgt``: the people in each image, one JSON record per line.

Source: the annotation format on the page of the data set (https://www.crowdhuman.org/download.html)::

    {"ID": "273271,c9db000d5146c15", "gtboxes": [
        {"tag": "person", "fbox": [72, 202, 163, 503], "vbox": [72, 202, 163, 398],
         "hbox": [171, 208, 62, 83], "head_attr": {"ignore": 0, "occ": 1, "unsure": 0},
         "extra": {"box_id": 0, "occ": 1}},
        {"tag": "mask", "fbox": [567, 209, 23, 42], "extra": {"box_id": 1, "ignore": 1}}]}

Each record is on one line. ``fbox`` is the left, top, width and height of the whole person in pixels,
including parts that are hidden or outside the image; ``vbox`` is the visible part, ``hbox`` the head. ``-O
box=vbox`` or ``hbox`` reads these. Numbers are read and written unchanged.

``tag`` is the class. ``extra.ignore`` other than 0 means that evaluations ignore the box: it is read as
crowd, and so is every ``mask``, which covers a group or a reflection and gets the class ``person``. For
heads, ``head_attr.ignore`` is used instead. ``extra.occ`` 1 is read as the flag *occluded*.

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
import re
from typing import Any

from odm.files import COLLISION, Output, Source
from odm.formats._contract import SURE, Format, Sniff, option
from odm.formats._shared.gather import At, report_other_kind
from odm.formats._shared.json_lines import json_lines
from odm.formats._shared.json_preview import JsonPreview
from odm.formats._shared.json_values import Reader, dump, groups, is_set, may_write, number
from odm.formats._shared.number_text import short_wh
from odm.formats._shared.sniffing import sniff_json
from odm.formats._shared.splits import SplitOptions, files_of_split
from odm.issues import Log, printable
from odm.names import stem
from odm.tables import Builder, Dataset, Flag

_SUFFIXES = (".odgt", ".jsonl")
_SPLIT = re.compile(r"(?:.*[-_.])?(train|val|valid|validation|test)(?:[-_.].*)?", re.IGNORECASE)
_SPLITS = {"valid": "val", "validation": "val"}
_LISTS = ("gtboxes", "dtboxes")
_WHAT = "4 numbers: left, top, width, height"
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


def _looks_like(look: JsonPreview, _: bytes) -> tuple[int, str] | None:
    if look.top == "{" and "ID" in look.keys and any(look.keys.get(key) == "[" for key in _LISTS):
        return SURE, "its records have an ID and gtboxes, as CrowdHuman has"
    return None


def sniff(source: Source) -> Sniff | None:
    """Look at the keys of the first record."""
    return sniff_json(source, _looks_like, _SUFFIXES)


def _split_of(file: str) -> str:
    match = _SPLIT.fullmatch(file.rpartition("/")[2].rpartition(".")[0])
    return _SPLITS.get(match[1].lower(), match[1].lower()) if match else ""


def read(source: Source, builder: Builder, log: Log, options: CrowdhumanOptions) -> None:
    """Read the records one by one."""
    folders = (source.path,) if source.is_dir else ()
    reader = Reader(source, builder, log, options, folders)
    path = source.path.replace("\\", "/")
    files = source.with_suffix(".odgt") if source.is_dir else []
    files = files or reader.choose(_looks_like, "CrowdHuman", _SUFFIXES)
    wanted = None if options.split is None else _SPLITS.get(options.split, options.split)
    files = files_of_split(files, lambda file: _split_of(file or path), wanted, source, log)
    found: dict[str, list[_Boxes]] = {key: [] for key in _LISTS}
    for file in log.track(files, "reading"):
        rows, split = builder.file(source.full(file)), _split_of(file or path)
        for at, value in json_lines(reader, file):
            record = reader.mapping(value, at)
            if record is not None:
                _read_record(reader, record, at, rows, split, found)
    if builder.kind is None:
        builder.kind = "det" if found["dtboxes"] and not found["gtboxes"] else "gt"
        if all(found.values()):
            log.note(f"{printable(source.path)}: the gtboxes are read, not the dtboxes (--kind det)")
    else:
        report_other_kind(builder, log, _counted(found["gtboxes"]), _counted(found["dtboxes"]))
    read_box = _read_found if builder.kind == "det" else _read_truth
    for boxes in found["dtboxes" if builder.kind == "det" else "gtboxes"]:
        for i, value in enumerate(boxes.values):
            record = reader.mapping(value, boxes.at / i, row=True)
            good = record is not None and boxes.image is not None
            if not (good and read_box(reader, record or {}, boxes.at / i, boxes, options.box)):
                builder.skipped += 1
    reader.finish()


def _counted(boxes: list[_Boxes]) -> tuple[int, At | None]:
    """How many boxes there are, and the place of the first."""
    return sum(len(part.values) for part in boxes), boxes[0].at if boxes else None


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class _Boxes:
    """A list of boxes that waits until the kind of the whole is known."""

    values: list[Any]
    at: At
    image: int | None
    rows: int


def _read_record(
    reader: Reader, record: dict[str, Any], at: At, rows: int, split: str, found: dict[str, list[_Boxes]]
) -> None:
    if not any(key in record for key in _LISTS):
        reader.missing(at, "gtboxes")
        return
    reader.count_unread(record, frozenset({"ID", "width", "height", *_LISTS}))
    size = reader.size(record.get("width"), record.get("height"), at, ("width", "height"))
    name = record.get("ID")
    picture = None
    if isinstance(name, str) and reader.pictures:
        picture = reader.pictures.find(name, path=at.path) or _deep(reader, name)
        name += picture.name[len(stem(picture.name)) :] if picture else ""
    image = None
    if size != (0, 0):
        image = reader.image(
            name, at, field="ID", size=size, picture=picture, split=split, file=rows, line=at.line
        )
    for key in _LISTS:
        boxes = reader.items(record.get(key), at / key)
        if boxes:
            found[key].append(_Boxes(boxes, at / key, image, rows))


def _deep(reader: Reader, name: str) -> Any:
    """The picture of that name in ``Images/`` or another folder."""
    for folder in ("Images", "images"):
        if picture := reader.pictures.find(f"{folder}/{name}"):
            return picture
    return None


def _read_truth(reader: Reader, record: dict[str, Any], at: At, boxes: _Boxes, key: str) -> bool:
    """Read one of ``gtboxes``; False, and an issue, if it cannot be a box."""
    tag = reader.text(record, "tag", at, row=True)
    if tag is None:
        return False
    if key not in record:
        reader.missing(at, key, row=True)
        return False
    values = reader.numbers(record[key], 4, _WHAT, at / key)
    about = "head_attr" if key == "hbox" else "extra"
    given = reader.mapping(record.get(about) or {}, at / about, row=True)
    category = reader.category(PERSON if tag == "mask" else tag, at / "tag")
    if values is None or given is None or category is None or boxes.image is None:
        return False
    flags = Flag(0)
    if tag == "mask" or given.get("ignore") not in (None, 0):
        flags |= Flag.CROWD
    if is_set(given.get("occ")):
        flags |= Flag.OCCLUDED
    others = [k for k in ("fbox", "vbox", "hbox") if k != key and record.get(k)]
    for other in others:
        reader.count(other)
    left, top, width, height = values
    reader.box(
        boxes.image,
        category,
        (left, top, left + width, top + height),
        at,
        file=boxes.rows,
        line=at.line,
        wh=(width, height),
        flags=int(flags),
    )
    return True


def _read_found(reader: Reader, record: dict[str, Any], at: At, boxes: _Boxes, _: str) -> bool:
    """Read one of ``dtboxes``; False, and an issue, if it cannot be a box."""
    if "box" not in record:
        reader.missing(at, "box", row=True)
        return False
    values = reader.numbers(record["box"], 4, _WHAT, at / "box")
    score = reader.score(record.get("score"), at / "score")
    tag = record.get("tag", 1)
    category = reader.category(PERSON if tag == 1 else tag, at / "tag")
    if values is None or score is None or category is None or boxes.image is None:
        return False
    left, top, width, height = values
    corners = left, top, left + width, top + height
    place = {"file": boxes.rows, "line": at.line}
    reader.box(boxes.image, category, corners, at, wh=(width, height), score=score, **place)
    return True


# ----------------------------------------------------------------------------------------------- writing


def write(dataset: Dataset, target: Output, log: Log, options: CrowdhumanOptions) -> None:
    """Write one file for each split."""
    del options
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories.name
    splits = list(dict.fromkeys(images.split)) or [""]
    files = {split: f"annotation{'_' if split else ''}{split}.odgt" for split in splits}
    fits = may_write(dataset, log) & target.plan(list(files.values()), [f"the split {s}" for s in files], log)
    keys = [stem(image) for image in images.name]
    first: dict[str, str] = {}
    for key, image in zip(keys, images.name, strict=True):
        if first.setdefault(key, image) != image:
            log.report(COLLISION, "", first=first[key], second=image, value=f"ID {key}")
            fits = False
    if not fits:
        return
    wh = short_wh(boxes)
    parts: dict[str, list[str]] = {split: [] for split in splits}
    for row, members in enumerate(groups(dataset)):
        record: dict[str, Any] = {"ID": keys[row]}
        if min(images.width[row], images.height[row]) > 0:
            record |= {"width": int(images.width[row]), "height": int(images.height[row])}
        found: list[dict[str, Any]] = []
        for n, i in enumerate(members):
            place = list(map(number, [*boxes.xyxy[i, :2].tolist(), *wh[i].tolist()]))
            tag: str | int = classes[boxes.category[i]]
            if dataset.kind == "det":
                tag = 1 if tag == PERSON else tag
                found.append({"box": place, "score": number(float(boxes.score[i])), "tag": tag})
                continue
            extra: dict[str, Any] = {"box_id": n}
            if boxes.flags[i] & Flag.OCCLUDED:
                extra["occ"] = 1
            if boxes.flags[i] & Flag.CROWD:
                extra["ignore"] = 1
            found.append({"tag": tag, "fbox": place, "extra": extra})
        record["dtboxes" if dataset.kind == "det" else "gtboxes"] = found
        parts[images.split[row]].append(dump(record) + "\n")
    for split, file in files.items():
        target.write(file, "".join(parts[split]).encode())


FORMAT = Format(
    name="crowdhuman",
    title="CrowdHuman odgt",
    use="challenges",
    written_by="CrowdHuman (annotation_train.odgt), CrowdDet results",
    doc=__doc__ or "",
    suffixes=(".odgt",),
    looks_at=_SUFFIXES,
    begins="[{",
    single=False,
    sniff=sniff,
    read=read,
    write=write,
    options=CrowdhumanOptions,
    keeps=frozenset({"size", "empty", "score", "wh", "split", "crowd", "occluded"}),
)
