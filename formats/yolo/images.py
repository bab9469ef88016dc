"""The images of a YOLO data set: which labels and which picture belong to each, and what it is called."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.codes import NO_PICTURE
from odm.files import Source
from odm.formats._shared.gather import At, Gather, with_extension
from odm.formats._shared.pictures import Picture, Pictures, picture_in
from odm.formats._shared.text_files import listing
from odm.formats.yolo.layouts import Group, Plan, YoloOptions
from odm.issues import Code, Log, Trusted, printable, shorten
from odm.names import PICTURE_SUFFIXES, stem
from odm.tables import Builder, Ints, Longs

_FRAME = re.compile(r"(.+)_([0-9]{1,9})", re.ASCII)

NO_LABELS = Code(
    "labels-missing",
    "error",
    "none of the {n} pictures{where} has a label file{found}",
    "put the label files in a folder labels beside images, with the same names as the pictures, or give the "
    "folder that contains them",
    "A data set without any label file would be read as pictures without objects. Usually the labels have "
    "other names, or are in a folder that is not searched.",
)
BARE_PICTURES = Code(
    "pictures-without-labels",
    "warning",
    "{n} of {total} pictures{where} have no label file and are read as images without objects; the first is "
    "{value!r}",
    "ignore this if they show no objects; otherwise find their labels",
    "Trainers treat a picture without a label file as a background image. Its labels may also have been "
    "lost or misnamed.",
)


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Image:
    """An image of the data set."""

    key: str
    label: str | None
    picture: Picture | None
    split: str
    pictures: Pictures
    lonely: bool
    """Whether others of its folder have a picture and it has none."""


def find_images(plan: Plan, builder: Builder, log: Log, options: YoloOptions) -> list[Image]:
    """All images in code-point order of their names."""
    source = plan.source
    found: list[Image] = []
    first: Pictures | None = None
    taken: dict[str, str] = {}
    shown = printable(source.path)
    members: list[tuple[Group, list[Image]]] = []
    for group in plan.groups:
        pictures = Pictures(options, builder, log, source, group.folders, beside=first)
        first = first or pictures
        missing: list[Image] = []
        matched = 0
        keys = dict.fromkeys([*group.labels, *group.listed])
        before = len(found)
        seen = set()
        for key in keys:
            label = group.labels.get(key)
            path = source.full(label) if label is not None else ""
            picture = pictures.find(key, path=path)
            if picture is None and options.images is not None:
                picture = pictures.find(f"{group.split}/{key}") or pictures.find(key.rsplit("/", 1)[-1])
            if picture is None and (listed := group.listed.get(key)) is not None:
                picture = _listed_picture(source, key, listed)
            if picture is None and stem(key) != key:
                picture = pictures.named(key)  # labels called img.jpg.txt
            if picture is not None:
                matched += 1
                seen.add(picture.location)
            image = Image(key, label, picture, group.split, pictures, lonely=False)
            if picture is None and label is not None:
                missing.append(image)
            if label is not None and taken.setdefault(label, group.split) != group.split:
                log.note(f"{shown}: labels shared by two splits are read once, as {taken[label]!r}")
                continue
            found.append(image)
        if matched:
            for image in missing:
                image.lonely = True
        # Of detections, a picture without a label file says nothing. One folder of pictures by --images may
        # hold those of other splits.
        if builder.kind != "det" and not group.only_listed:
            for picture in pictures.own if len(plan.groups) > 1 or group.split else pictures.all:
                key = stem(picture.name)
                if picture.location not in seen and key not in group.labels:
                    if taken.setdefault(picture.location, group.split) != group.split:
                        continue
                    found.append(Image(key, None, picture, group.split, pictures, lonely=False))
        members.append((group, found[before:]))
    _report_bare(plan, members, builder, log)
    _part_splits(found, plan, log)
    return sorted(found, key=lambda image: (_name(image), image.split))


def _report_bare(plan: Plan, members: list[tuple[Group, list[Image]]], builder: Builder, log: Log) -> None:
    """Report pictures without a label file: some may be without objects, all have their labels elsewhere."""
    source = plan.source
    labelled = any(image.label is not None for _, images in members for image in images)
    read = {image.label for _, images in members for image in images}
    unread = [] if not source.is_dir else [f for f in listing(source).labels if f not in read]
    for group, images in members:
        bare = [image for image in images if image.label is None]
        strange = sorted({f.rpartition("/")[0] for f in unread if _is_of(source, group, f)})
        none_has = len(bare) == len(images)
        if none_has and not (images or strange):
            continue
        where = f" of the split {group.split!r}" if group.split else ""
        value = bare[0].picture.location if bare and bare[0].picture else source.path
        if none_has and (strange or (bare and not labelled and builder.kind != "det")):
            found = ", ".join(repr(shorten(folder or ".")) for folder in strange[:3])
            if found:
                found = f"; there are text files in {found}, which is not searched for labels"
            if any("labeltxt" in folder.lower().split("/") for folder in strange):
                found += " (labelTxt/ contains DOTA labels: give the folder above it, with the format dota)"
            log.report(NO_LABELS, source.path, n=len(bare), where=Trusted(where), found=Trusted(found))
        elif bare:
            what: dict[str, Any] = {"n": len(bare), "total": len(images), "where": Trusted(where)}
            log.report(BARE_PICTURES, source.path, value=value, **what)


def _is_of(source: Source, group: Group, file: str) -> bool:
    """Whether a text file lies where the labels of a group might: near its pictures."""
    for folder in group.folders:
        parts = [p for p in os.path.relpath(folder, source.path).split(os.sep) if p != "."]
        at = len(parts) - 1 - parts[::-1].index("images") if "images" in parts else len(parts)
        inner = parts[at + 1 :]
        home = file.split("/")[:-1]
        if home[:at] == parts[:at] and home[len(home) - len(inner) :] == inner:
            return True
    return False


def _listed_picture(source: Source, key: str, listed: str) -> Picture | None:
    suffix = listed[listed.rfind(".") :] if "." in listed.rsplit("/", 1)[-1] else ""
    if source.holds(listed) and suffix.lower() in PICTURE_SUFFIXES:
        return picture_in(source, listed, key + suffix)
    return None


def _name(image: Image) -> str:
    return with_extension(image.key, image.picture)


def _part_splits(images: list[Image], plan: Plan, log: Log) -> None:
    """Where two splits have an image of one name, put the split before the names."""
    names = [_name(image) for image in images]
    if len(set(names)) == len(names) or len({image.split for image in images}) < 2:
        return
    log.note(
        f"{printable(plan.source.path)}: images of different splits have the same name, so names are "
        "prefixed with the split"
    )
    for image in images:
        if image.split:
            image.key = f"{image.split}/{image.key}"


def _frames(images: list[Image]) -> list[tuple[str, int]]:
    """The video and the frame of each image by its name, `video_12` as `yolo track` writes it; else none."""
    found = [_FRAME.fullmatch(image.key) for image in images]
    frames = [(match[1], int(match[2])) for match in found if match]
    return frames if len(set(frames)) == len(images) else []


def add_images(
    images: list[Image], used: NDArray[Any], places: NDArray[Any], gather: Gather, *, tracked: bool
) -> tuple[Ints, Longs]:
    """The row of each image (-1 = refused) and the (n, 2) sizes in pixels, 0 where unknown."""
    frames = _frames(images) if tracked else []
    unknown: list[tuple[Image, str, str]] = []
    needed = np.zeros(len(images), bool)
    needed[used] = True
    rows = np.full(len(images), -1, np.int32)
    sizes = np.zeros((len(images), 2), np.int64)
    source, log = gather.source, gather.log
    for i, image in enumerate(log.track(images, "reading image sizes")):
        name, picture, errors = _name(image), image.picture, log.errors
        path = picture.location if picture else source.path
        at = At(path if image.label is None else source.full(image.label))
        gather.pictures = image.pictures  # each split has its own
        of = gather.builder.video(frames[i][0]) if frames else -1
        row = gather.image(
            name,
            at,
            picture=picture,
            split=image.split,
            file=int(places[i]),
            video=of,
            frame=frames[i][1] if frames else -1,
        )
        if row is None:
            continue
        rows[i], sizes[i] = row, gather.builder.image_size(row)
        if needed[i] and not sizes[i, 0] and log.errors == errors:
            unknown.append((image, name, at.path))
        elif image.lonely:
            log.report(NO_PICTURE, at.path, value=name)
    if (
        unknown
        and not sizes.any()
        and all(image.pictures.is_silent(name, image.picture) for image, name, _ in unknown)
    ):
        gather.builder.relative = True
        sizes[:] = 1
    else:
        for image, name, path in unknown:
            image.pictures.report_no_size(name, image.picture, path)
    return rows, sizes
