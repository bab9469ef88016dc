"""YOLO datasets as they are written: labels, ``data.yaml``, and pictures on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from odm.codes import NOTHING_TO_PUT
from odm.files import Output
from odm.formats._shared.class_lists import UNWRITABLE
from odm.formats._shared.shapes.fractions import FAR, MARGIN, divide_by_images
from odm.formats._shared.text.numbers import Cells, to_decimals
from odm.formats._shared.text.tokens import Column, assemble, format_pages, format_relative
from odm.formats.yolo.layouts import ALIASES, YoloOptions
from odm.issues import Code, Log, Trusted, listed, spell
from odm.names import refuse_class, stem
from odm.tables import Dataset, Floats, Shapes

POINT_COUNTS = Code(
    "yolo-key-point-counts",
    "error",
    "this box has {value} keypoints but the first one has {first}; all rows of YOLO need the same number",
    "convert the classes one at a time, with --only-classes",
    "kpt_shape in data.yaml says how many keypoints each row of the dataset has.",
)


def write(dataset: Dataset, target: Output, log: Log, options: YoloOptions) -> None:
    """Write ``labels/``, ``data.yaml`` and, on request, ``images/``; after an issue nothing is written."""
    images, boxes = dataset.images, dataset.boxes
    splits = [f"{split}/" if split else "" for split in images.split]
    stems = _list_stems(dataset)
    labels = [f"labels/{split}{inner}.txt" for split, inner in zip(splits, stems, strict=True)]
    wants_pictures = options.link_images or options.copy_images
    pictures = [
        f"images/{split}{inner}{_find_suffix(path)}"
        for split, inner, path in zip(splits, stems, images.path if wants_pictures else (), strict=False)
    ]  # empty without the option
    file_uses = [*images.name, "data.yaml", *(images.name if wants_pictures else ())]
    can_write = target.plan([*labels, "data.yaml", *pictures], file_uses, log)
    for name in dataset.categories.name:
        if (reason := refuse_class(name)) is not None:
            log.report(UNWRITABLE, "", value=name, reason=reason, way="rename the class")
            can_write = False

    outlines = boxes.shapes if options.task in ("segment", "obb") else None
    fractions = _divide_by_images(dataset, outlines, log)
    n_points = _count_points(dataset, log) if options.task == "pose" else 0
    can_write &= n_points >= 0
    lost = [row for row in range(len(images)) if not images.path[row]] if wants_pictures else []
    if lost:
        path, line, pointer = dataset.image_place(lost[0])
        names = Trusted(listed([images.name[row] for row in lost]))
        log.report(
            NOTHING_TO_PUT, path, line=line, pointer=pointer, n=len(lost), total=len(images), names=names
        )
        can_write = False
    if not can_write or fractions is None:
        return

    if outlines is not None:
        texts = _make_outline_pages(dataset, outlines)
    else:
        cells = format_relative(fractions, images.width[boxes.image], images.height[boxes.image])
        columns: list[Sequence[str] | Cells] = [to_decimals(boxes.category), *(cells[i::4] for i in range(4))]
        columns += _make_point_columns(dataset, n_points) if n_points else []
        if dataset.kind == "det":
            columns.append(to_decimals(boxes.score))
        texts = format_pages(len(images), boxes.image, columns)
    for name, data in zip(log.track(labels, "writing"), texts, strict=True):
        target.write(name, data)
    folders = _find_image_folders(splits)
    target.write("data.yaml", _make_yaml(dataset, folders, options.task, n_points))
    for row, name in enumerate(pictures):
        (target.copy if options.copy_images else target.link)(name, images.path[row])
    _note_splits(dataset, folders, log)
    if not wants_pictures:
        log.note(f"pictures were not added to images/ (use {spell('link_images')} or {spell('copy_images')})")


def _divide_by_images(dataset: Dataset, outlines: Shapes | None, log: Log) -> Floats | None:
    """Return (n, 4) the boxes, or the boxes around `outlines`, as fractions of their images.

    Centre and size; of outlines of detections the edges. Those that lie too far outside, or whose image has
    no size, are reported; None if there are any.
    """
    boxes = dataset.boxes
    values = boxes.xyxy if outlines is None else outlines.edges()
    if outlines is None or dataset.kind == "gt":  # trainers judge an outline by the box around it
        wh = boxes.wh if outlines is None else values[:, 2:] - values[:, :2]
        values = np.concatenate([(values[:, :2] + values[:, 2:]) / 2, wh], axis=1)
    margin = MARGIN if dataset.kind == "gt" else FAR - 1  # detections may lie further out
    return divide_by_images(dataset, values, log, margin=margin)


def _note_splits(dataset: Dataset, folders: Mapping[str, str], log: Log) -> None:
    """Note if ``train`` or ``val`` of data.yaml are the images of another split, or both the same."""
    has_splits = any(dataset.images.split)
    for needed in ("train", "val"):
        if has_splits and needed not in folders:
            log.note(
                f"there is no split {needed!r}, so data.yaml uses another in its place; trainers need both"
            )
    if not has_splits and dataset.kind == "gt" and len(dataset.images):
        advice = f"{spell('split_into')} train:80,val:20 divides them"
        log.note(f"train and val of data.yaml are the same images ({advice})")


def _make_outline_pages(dataset: Dataset, outlines: Shapes) -> Iterator[bytes]:
    """Return the label file of each image, with the only outline of each box."""
    images, boxes = dataset.images, dataset.boxes
    first_corners = outlines.point[outlines.ring]  # (n + 1,): of each box, and the end
    box_of_corner = np.repeat(np.arange(len(boxes)), np.diff(first_corners))
    image = boxes.image[box_of_corner]
    width, height = images.width[image], images.height[image]
    cells = format_relative(outlines.xy / dataset.limits()[image], width, height)

    # A line is made of its corners: the class stands before the first, and the end after the last. The texts
    # are numbered from 1, and 0 is the empty text of all other corners.
    classes = np.unique(boxes.category)
    starts, stops = ["", *to_decimals(classes)], ["", "\n"]
    start_of_corner, stop_of_corner = np.zeros((2, len(box_of_corner)), np.int64)
    start_of_corner[first_corners[:-1]] = np.searchsorted(classes, boxes.category) + 1
    stop_of_corner[first_corners[1:] - 1] = 1
    if dataset.kind == "det":
        stops = ["", *(f" {score}\n" for score in to_decimals(boxes.score))]
        stop_of_corner[first_corners[1:] - 1] = np.arange(len(boxes)) + 1
    columns: list[bytes | Column] = [
        (np.array(starts, np.bytes_), start_of_corner),
        b" ",
        cells[0::2],
        b" ",
        cells[1::2],
        (np.array(stops, np.bytes_), stop_of_corner),
    ]
    return assemble(len(images), image, columns)


def _count_points(dataset: Dataset, log: Log) -> int:
    """Return the number of keypoints that all boxes with keypoints have, 0 if no box has any.

    Returns -1 if it varies, and reports the first box that has not as many as the first one.
    """
    points = dataset.boxes.keypoints
    counts = np.zeros(0, np.int64) if points is None else points.counts()
    rows_with_points = np.flatnonzero(counts)
    if not len(rows_with_points):
        return 0
    n = int(counts[rows_with_points[0]])
    other_rows = rows_with_points[counts[rows_with_points] != n]
    if not len(other_rows):
        return n
    log.report_rows(
        POINT_COUNTS, dataset, other_rows[:1], lambda row: {"value": int(counts[row]), "first": n}
    )
    return -1


def _make_point_columns(dataset: Dataset, n: int) -> list[Sequence[str] | Cells]:
    """Return the columns x, y, visibility of n keypoints of each box; zeros for a box without keypoints."""
    images, boxes = dataset.images, dataset.boxes
    table = np.zeros((len(boxes), n, 3))
    if boxes.keypoints is not None:
        table[boxes.keypoints.counts() > 0] = boxes.keypoints.xyv.reshape(-1, n, 3)
    # fractions: (n, 2 * points) x y x y ...; cells has their texts in this order, row by row
    fractions = (table[:, :, :2] / dataset.limits()[boxes.image][:, None]).reshape(-1, 2 * n)
    cells = format_relative(fractions, images.width[boxes.image], images.height[boxes.image])
    point_columns: list[Sequence[str] | Cells] = []
    for i in range(n):
        point_columns += [cells[2 * i :: 2 * n], cells[2 * i + 1 :: 2 * n], to_decimals(table[:, i, 2])]
    return point_columns


def _list_stems(dataset: Dataset) -> list[str]:
    """Return the name of each image without its extension, in the folder of its split.

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


def _find_suffix(path: str) -> str:
    """Return the suffix of a path, such as ``.jpg`` or ``.JPG``; "" if it has none."""
    dot = path.rfind(".")
    return path[dot:] if dot > 0 and "/" not in path[dot:] else ""


def _find_image_folders(splits: list[str]) -> dict[str, str]:
    """Return the folder of pictures of each split, by its key in ``data.yaml``.

    Trainers know only ``val``, which is the key of ``valid`` if there is no other.
    """
    folders = {split.rstrip("/"): f"images/{split}".rstrip("/") for split in dict.fromkeys(splits)}
    for alias, key in ALIASES.items():
        if alias in folders and key not in folders:
            folders[key] = folders.pop(alias)
    return folders


def _make_yaml(dataset: Dataset, folders: dict[str, str], task: str | None, n_points: int) -> bytes:
    """Format the description of the dataset; `folders` are those of image files, by split.

    Without ``path``, trainers look beside the file itself.
    """
    default_folder = folders.get("train") or next(iter(folders.values()), "")
    # Without an image there is no folder that could be named.
    lines = [
        f"{key}: {quote(folders.get(key, default_folder)) if default_folder else '[]'}"
        for key in ("train", "val")
    ]
    lines += [
        f"{split}: {quote(location)}"
        for split, location in sorted(folders.items())
        if split not in {"", "train", "val"}
    ]
    names = dataset.categories.name
    lines += [
        f"nc: {len(names)}",
        "names:" if names else "names: []",
        *(f"  - {quote(name)}" for name in names),
    ]
    if task in ("segment", "obb"):
        lines.append(f"task: {task}")
    if n_points:
        lines += _format_point_lines(dataset, n_points)
    return ("\n".join(lines) + "\n").encode()


def _format_point_lines(dataset: Dataset, n: int) -> list[str]:
    """Return the lines of ``data.yaml`` about the n keypoints of each object.

    ``flip_idx`` is that of the source, if it has as many, else each point stays in its place.
    """
    flip = next((file.extra["flip_idx"] for file in dataset.files if "flip_idx" in file.extra), b"").decode()
    flip = flip if flip.count(",") == n - 1 else str(list(range(n)))
    lines = [f"kpt_shape: [{n}, 3]", f"flip_idx: {flip}"]
    class_points = [(i, names) for i, names in enumerate(dataset.categories.keypoints or ()) if names]
    if class_points:
        lines.append("kpt_names:")
    for i, names in class_points:
        lines += [f"  {i}:", *(f"    - {quote(name)}" for name in names)]
    return lines


def quote(text: str) -> str:
    """Return a text as a YAML scalar in double quotes."""
    parts = []
    for c in text:
        if c in {'"', "\\"}:
            parts.append("\\" + c)
        elif c.isprintable():
            parts.append(c)
        else:
            parts.append(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}")
    return '"' + "".join(parts) + '"'
