"""YOLO data sets as they are written: labels, ``data.yaml``, and pictures on request."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from odm.codes import NOTHING_TO_PUT
from odm.files import Output
from odm.formats._shared.class_lists import UNWRITABLE
from odm.formats._shared.number_text import Cells, decimals
from odm.formats._shared.pictures import relative_to_images
from odm.formats._shared.text_tokens import pages, relative
from odm.formats.yolo.layouts import YoloOptions
from odm.issues import Log, Trusted, listed
from odm.names import refuse_class, stem
from odm.tables import Dataset


def write(dataset: Dataset, target: Output, log: Log, options: YoloOptions) -> None:
    """Write ``labels/``, ``data.yaml`` and, on request, ``images/``."""
    images, boxes = dataset.images, dataset.boxes
    splits = _split_folders(dataset)
    stems = _stems_in_folders(dataset)
    labels = [f"labels/{split}{inner}.txt" for split, inner in zip(splits, stems, strict=True)]
    wants = options.link_images or options.copy_images
    pictures = [
        f"images/{split}{inner}{_picture_suffix(path)}"
        for split, inner, path in zip(splits, stems, images.path if wants else (), strict=False)
    ]
    owners = [*images.name, "data.yaml", *(images.name if wants else ())]
    fits = target.plan([*labels, "data.yaml", *pictures], owners, log)
    for name in dataset.categories.name:
        if (reason := refuse_class(name)) is not None:
            log.report(UNWRITABLE, "", value=name, reason=reason, way="rename the class")
            fits = False
    centre = (boxes.xyxy[:, :2] + boxes.xyxy[:, 2:]) / 2
    values = relative_to_images(dataset, np.concatenate([centre, boxes.wh], axis=1), log)
    lost = [row for row in range(len(images)) if not images.path[row]] if wants else []
    if lost:
        path, line, pointer = dataset.image_place(lost[0])
        names = Trusted(listed([images.name[row] for row in lost]))
        log.report(
            NOTHING_TO_PUT, path, line=line, pointer=pointer, n=len(lost), total=len(images), names=names
        )
        fits = False
    if not fits or values is None:
        return
    cells = relative(values, images.width[boxes.image], images.height[boxes.image])
    columns: list[Sequence[str] | Cells] = [decimals(boxes.category), *(cells[i::4] for i in range(4))]
    if dataset.kind == "det":
        columns.append(decimals(boxes.score))
    for name, data in zip(
        log.track(labels, "writing"), pages(len(images), boxes.image, columns), strict=True
    ):
        target.write(name, data)
    target.write("data.yaml", _data_yaml(dataset, splits))
    for row, name in enumerate(pictures):
        (target.copy if options.copy_images else target.link)(name, images.path[row])
    named = {split for split in dataset.images.split if split}
    for needed in ("train", "val"):
        if named and needed not in named:
            log.note(
                f"there is no split {needed!r}, so data.yaml uses another in its place; trainers need both"
            )
    if not named and dataset.kind == "gt" and len(images):
        log.note("train and val of data.yaml are the same images (--split-into train:80,val:20 divides them)")
    if not wants:
        log.note("pictures were not added to images/ (use --link-images or --copy-images)")


def _split_folders(dataset: Dataset) -> list[str]:
    """``train/`` and the like of each image; the empty text where the data set has no splits."""
    if not any(dataset.images.split):
        return [""] * len(dataset.images)
    return [f"{split or 'unsplit'}/" for split in dataset.images.split]


def _stems_in_folders(dataset: Dataset) -> list[str]:
    """The name of each image without its extension, in the folder of its split.

    The split before every name is left out if the reader puts it there again: where two splits have images of
    the same name.
    """
    images = dataset.images
    prefixes = [f"{split}/" for split in images.split]
    pairs = list(zip(images.name, prefixes, strict=True))
    if all(images.split) and all(name.startswith(prefix) for name, prefix in pairs):
        names = [name.removeprefix(prefix) for name, prefix in pairs]
        if len(set(names)) < len(names):
            return [stem(name) for name in names]
    return [stem(name) for name in images.name]


def _picture_suffix(path: str) -> str:
    """``.jpg`` of the path of a picture, in its own letters; nothing if it has none."""
    dot = path.rfind(".")
    return path[dot:] if dot > 0 and "/" not in path[dot:] else ""


def _data_yaml(dataset: Dataset, splits: list[str]) -> bytes:
    """The description of the data set. Without ``path``, trainers look beside the file itself."""
    places = {split.rstrip("/"): f"images/{split}".rstrip("/") for split in dict.fromkeys(splits)}
    first = places.get("train") or next(iter(places.values()), "")
    # Without an image there is no folder that could be named.
    lines = [f"{key}: {quoted(places.get(key, first)) if first else '[]'}" for key in ("train", "val")]
    lines += [
        f"{split}: {quoted(location)}"
        for split, location in sorted(places.items())
        if split not in {"", "train", "val"}
    ]
    names = dataset.categories.name
    lines += [
        f"nc: {len(names)}",
        "names:" if names else "names: []",
        *(f"  - {quoted(name)}" for name in names),
    ]
    return ("\n".join(lines) + "\n").encode()


def quoted(text: str) -> str:
    """A text as a YAML scalar in double quotes."""
    parts = []
    for c in text:
        if c in {'"', "\\"}:
            parts.append("\\" + c)
        elif c.isprintable():
            parts.append(c)
        else:
            parts.append(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}")
    return '"' + "".join(parts) + '"'
