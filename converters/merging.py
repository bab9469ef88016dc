"""Several sources made one: their classes, images, ids and boxes put together."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from odm.checks.duplicates import equal_boxes
from odm.codes import GIVE_SIZES
from odm.issues import DataError, Log, UsageError, first_few, plural, printable, shorten
from odm.names import stem
from odm.tables import (
    NO_ID,
    Boxes,
    Categories,
    Dataset,
    ImageLabels,
    Images,
    Kind,
    LabelState,
    Tracks,
    Videos,
    frozen,
)
from odm.tables.own import Own

SameImage = Literal["error", "prefix", "join"]
"""What to do with an image that several sources have: refuse it, put the source's name before the names of
all images, or take it for one image with the boxes of all."""

SAME_IMAGE = get_args(SameImage)

RENUMBERED = {"category_id": "classes", "image_id": "images", "box_id": "boxes"}
"""What the ids are called that a format keeps, and what they are the ids of."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Merged:
    """The dataset that several became, and what happened on the way."""

    dataset: Dataset
    joined: int = 0
    """Images that were in an earlier source already."""
    equal: int = 0
    """Boxes that were left out because an earlier source has the same."""
    renumbered: dict[str, int] = dataclasses.field(default_factory=dict)
    """How many ids of each sort (`RENUMBERED`) are numbered from 1, because the sources disagreed on them."""
    changed: dict[str, int] = dataclasses.field(default_factory=dict)
    """What else is not as some source has it, by what happened."""


def merge(datasets: Sequence[Dataset], *, same_image: SameImage = "error", log: Log | None = None) -> Merged:
    """Put the images, classes and boxes of several datasets into one.

    Classes are the same where their names are; the first dataset's come first. The ids of classes, images and
    boxes are kept, each sort if it is consistent over all datasets, and numbered from 1 otherwise. Two images
    are the same where their names are, or where one name lacks its extension.

    Parameters
    ----------
    datasets
        All ground truth or all detections.
    same_image
        What to do where an image is in more than one: ``"error"``, ``"prefix"`` (each name gets the name of
        its source and a ``/`` before it) or ``"join"`` (one image with the boxes of all, equal ones once).

    Raises
    ------
    UsageError
        If the datasets are not of one kind, or some have names of classes and some only numbers.
    DataError
        If an image is in more than one and that was not asked for, or its sizes differ.
    """
    log = log or Log()
    if not datasets:
        raise UsageError("there is nothing to merge")
    if same_image not in SAME_IMAGE:
        raise UsageError(f"same_image={same_image!r}: choose one of {', '.join(SAME_IMAGE)}")
    kind = _common_kind(datasets)
    _check_numbers(datasets)
    relative = [d.relative for d in datasets if len(d)]
    if any(relative) and not all(relative):
        one = next(d for d in datasets if len(d) and d.relative)
        raise UsageError(
            f"the images of {_called(one, datasets)} have no size, those of others have; {GIVE_SIZES}"
        )
    changed: dict[str, int] = {}
    prefixes = _prefixes(datasets) if same_image == "prefix" else [""] * len(datasets)
    names = [
        [prefix + name for name in dataset.images.name] if prefix else list(dataset.images.name)
        for dataset, prefix in zip(datasets, prefixes, strict=True)
    ]
    image_rows = _rows_of_images(names)
    if same_image != "join":
        _refuse_same(datasets, names, image_rows, same_image, log)
    video_rows, videos = _videos(datasets, prefixes)
    track_rows, tracks = _tracks(datasets, video_rows)
    images = _images(datasets, names, image_rows, changed, log)
    images = _frames(images, datasets, image_rows, video_rows)
    category_rows, categories = _categories(datasets, changed)
    boxes = _boxes(datasets, image_rows, category_rows, track_rows)
    again = _equal_boxes(boxes, datasets, image_rows, kind)
    if again.any():
        boxes = boxes.take(~again)
    renumbered: dict[str, int] = {}
    ids = _common_ids([d.categories.source_id for d in datasets], category_rows, len(categories))
    categories = dataclasses.replace(
        categories, source_id=_numbered(ids, len(categories), "category_id", renumbered)
    )
    ids = _common_ids([d.images.source_id for d in datasets], image_rows, len(images))
    images = dataclasses.replace(images, source_id=_numbered(ids, len(images), "image_id", renumbered))
    boxes = dataclasses.replace(boxes, source_id=_numbered(_box_ids(boxes), len(boxes), "box_id", renumbered))
    extras: dict[str, int] = {}
    for dataset in datasets:
        for what, n in dataset.extras.items():
            extras[what] = extras.get(what, 0) + n
    dataset = Dataset(
        images=images,
        categories=categories,
        boxes=boxes,
        kind=kind,
        files=tuple(file for dataset in datasets for file in dataset.files),
        extras=extras,
        path=", ".join(dataset.path for dataset in datasets if dataset.path),
        relative=any(relative),
        skipped=sum(dataset.skipped for dataset in datasets),
        labels=_labels(datasets, image_rows, category_rows, boxes, changed),
        videos=videos,
        tracks=tracks,
    )
    return Merged(
        dataset=dataset,
        joined=sum(map(len, names)) - len(images),
        equal=int(np.count_nonzero(again)),
        renumbered=renumbered,
        changed={what: n for what, n in changed.items() if n},
    )


# ------------------------------------------------------------------------------- what cannot be merged


def _common_kind(datasets: Sequence[Dataset]) -> Kind:
    """Ground truth or detections; a dataset without boxes can be either."""
    truth = [d for d in datasets if len(d) and d.kind == "gt"]
    scored = [d for d in datasets if len(d) and d.kind == "det"]
    if truth and scored:
        one, two = _called(truth[0], datasets), _called(scored[0], datasets)
        raise UsageError(
            f"{one} is ground truth and {two} has detections, and only sources of one kind can be merged; "
            "leave one of them out, or say with --kind what all of them are"
        )
    if truth or scored:
        return "det" if scored else "gt"
    return "det" if all(d.kind == "det" for d in datasets) else "gt"


def _check_numbers(datasets: Sequence[Dataset]) -> None:
    some = [d for d in datasets if len(d.categories)]
    numbered = [d for d in some if not d.categories.named]
    named = [d for d in some if d.categories.named]
    if numbered and named:
        one, two = _called(numbered[0], datasets), _called(named[0], datasets)
        raise UsageError(
            f"the classes of {one} are only numbers and those of {two} have names, so it is unknown which "
            "are the same; give the names with --classes FILE"
        )


def _called(dataset: Dataset, datasets: Sequence[Dataset]) -> str:
    """What a dataset is called in messages."""
    at = next(i for i, other in enumerate(datasets) if other is dataset)
    return printable(dataset.path) or f"dataset {at + 1}"


def _refuse_same(
    datasets: Sequence[Dataset],
    names: Sequence[Sequence[str]],
    rows: Sequence[NDArray[np.int32]],
    same_image: str,
    log: Log,
) -> None:
    """DataError if an image is in more than one dataset."""
    owner: dict[int, int] = {}
    pairs: dict[tuple[int, int], list[str]] = {}
    for at, mine in enumerate(rows):
        for name, row in zip(names[at], mine.tolist(), strict=True):
            first = owner.setdefault(row, at)
            if first != at:
                pairs.setdefault((first, at), []).append(name)
    if not pairs:
        return
    lines = []
    for (first, second), shared in pairs.items():
        one, two = _called(datasets[first], datasets), _called(datasets[second], datasets)
        n = plural(len(shared), "image is", "images are")
        lines.append(f"{n} both in {one} and in {two}: {_some(shared)}")
    if same_image == "error":
        lines.append(
            "--same-image join makes one image of them, with the boxes of both, and --same-image prefix puts "
            "the source's name before the names of all images"
        )
    raise DataError("; ".join(lines), log)


def _some(names: Sequence[str]) -> str:
    return first_few(names, 3, lambda name: repr(shorten(name, 60)))


def _prefixes(datasets: Sequence[Dataset]) -> list[str]:
    """The name of each source and a ``/``: as many parts of its path, from the end, as tell all apart."""
    found = []
    for dataset in datasets:
        if not dataset.path:
            raise UsageError("a dataset that was not read from a path has no name to put before its images")
        path = os.path.abspath(dataset.path).replace(os.sep, "/")
        if not os.path.isdir(dataset.path):
            folder, _, last = path.rpartition("/")
            path = f"{folder}/{last.rpartition('.')[0].rstrip('.') or last}"
        found.append([part for part in path.split("/") if part])
    for n in range(1, max(map(len, found)) + 1):
        ends = ["/".join(parts[-n:]) for parts in found]
        if len({end.casefold() for end in ends}) == len(ends):
            return [f"{end}/" for end in ends]
    raise UsageError("two of the sources have the same path without its extension; rename one")


# ------------------------------------------------------------------------------------------- the tables


def _rows_of_images(names: Sequence[Sequence[str]]) -> list[NDArray[np.int32]]:
    """The row that each image of each dataset gets; the same for images that are the same."""
    rows: dict[str, int] = {}
    stems: dict[str, list[int]] = {}
    """Where some names have no extension, the rows by the names without."""
    bare: set[int] = set()
    """The rows of images that have none."""
    loose = any(stem(name) == name for some in names for name in some)
    found, n = [], 0
    for mine in names:
        out = [rows.get(name, -1) for name in mine]
        taken = set(out)  # two images of one dataset are never the same
        for i, name in enumerate(mine):
            if out[i] < 0 and loose:
                base = stem(name)
                near = [row for row in stems.get(base, ()) if base == name or row in bare]
                if len(near) == 1 and near[0] not in taken:
                    out[i] = near[0]
                    taken.add(near[0])
            if out[i] < 0:
                out[i], n = n, n + 1
        for name, row in zip(mine, out, strict=True):
            rows.setdefault(name, row)
            if loose and row not in (known := stems.setdefault(base := stem(name), [])):
                known.append(row)
            if loose and base == name:
                bare.add(row)
        found.append(np.array(out, np.int32))
    return found


def _images(
    datasets: Sequence[Dataset],
    names: Sequence[Sequence[str]],
    rows: Sequence[NDArray[np.int32]],
    changed: dict[str, int],
    log: Log,
) -> Images:
    n = 1 + max((int(r.max()) for r in rows if len(r)), default=-1)
    name, path, split = [""] * n, [""] * n, [""] * n
    width, height = np.zeros(n, np.int32), np.zeros(n, np.int32)
    file, line = np.full(n, -1, np.int32), np.zeros(n, np.int32)
    sizes, splits = [], 0
    offset = 0
    for dataset, mine, at in zip(datasets, names, rows, strict=True):
        images = dataset.images
        known = (images.width > 0) | (images.height > 0)
        before = (width[at] > 0) | (height[at] > 0)
        differ = known & before & ((width[at] != images.width) | (height[at] != images.height))
        sizes += [mine[i] for i in np.flatnonzero(differ).tolist()]
        width[at] = np.where(before, width[at], images.width)
        height[at] = np.where(before, height[at], images.height)
        first = (file[at] < 0) & (images.file >= 0)
        line[at] = np.where(first, images.line, line[at])
        file[at] = np.where(first, images.file + offset, file[at])
        offset += len(dataset.files)
        for i, row in enumerate(at.tolist()):
            if not name[row] or stem(name[row]) == name[row]:
                name[row] = mine[i]
            path[row] = path[row] or images.path[i]
            splits += bool(split[row] and images.split[i] and split[row] != images.split[i])
            split[row] = split[row] or images.split[i]
    if sizes:
        n_sizes = plural(len(sizes), "image has", "images have")
        raise DataError(
            f"--same-image join: {n_sizes} another size in another source, so they are not the same: "
            f"{_some(sizes)}",
            log,
        )
    changed["images in another split of a later source"] = splits
    width, height, file, line = map(frozen, (width, height, file, line))
    own = _first_own([d.images.own for d in datasets], rows, n)
    ids = np.zeros(0, np.int64)
    return Images(tuple(name), width, height, ids, tuple(path), tuple(split), file, line, own=own)


def _first_own(fields: Sequence[Own], rows: Sequence[NDArray[np.int32]], n: int) -> Own:
    """The other fields of n merged rows: those of the first source that has the row."""
    found: dict[str, list[bytes]] = {}
    seen: set[int] = set()
    for own, at in zip(fields, rows, strict=True):
        fresh = [(i, row) for i, row in enumerate(at.tolist()) if row not in seen]
        seen.update(row for _, row in fresh)
        for key, column in own.items():
            merged = found.setdefault(key, [b""] * n)
            for i, row in fresh:
                merged[row] = column[i]
    return {key: tuple(column) for key, column in found.items()}


def _videos(datasets: Sequence[Dataset], prefixes: Sequence[str]) -> tuple[list[NDArray[np.int32]], Videos]:
    """The row of each video of each dataset, and all videos; they are the same where their names are."""
    row_of: dict[str, int] = {}
    rows: list[NDArray[np.int32]] = []
    length: list[int] = []
    for dataset, prefix in zip(datasets, prefixes, strict=True):
        mine = [row_of.setdefault(prefix + name, len(row_of)) for name in dataset.videos.name]
        length += [0] * (len(row_of) - len(length))
        for row, n in zip(mine, dataset.videos.length.tolist(), strict=True):
            length[row] = max(length[row], n)
        rows.append(np.array(mine, np.int32))
    ids = _common_ids([d.videos.source_id for d in datasets], rows, len(row_of))
    if ids is None:
        ids = np.full(len(row_of), NO_ID, np.int64)
    return rows, Videos(tuple(row_of), frozen(np.array(length, np.int32)), frozen(ids))


def _tracks(
    datasets: Sequence[Dataset], video_rows: Sequence[NDArray[np.int32]]
) -> tuple[list[NDArray[np.int32]], Tracks]:
    """The row of each track of each dataset, and all tracks; those of one video and id are the same."""
    row_of: dict[tuple[int, Any], int] = {}
    rows: list[NDArray[np.int32]] = []
    score: list[float] = []
    for number, (dataset, videos) in enumerate(zip(datasets, video_rows, strict=True)):
        tracks = dataset.tracks
        at = _rows_in(tracks.video, videos, len(tracks)).tolist()
        # Outside videos an id says something in its own source only.
        keys = [
            (video if video >= 0 else -1 - number, id_)
            for video, id_ in zip(at, tracks.source_id.tolist(), strict=True)
        ]
        mine = [row_of.setdefault(key, len(row_of)) for key in keys]
        score += [math.nan] * (len(row_of) - len(score))
        for row, own in zip(mine, tracks.score.tolist(), strict=True):
            score[row] = own if math.isnan(score[row]) else score[row]
        rows.append(np.array(mine, np.int32))
    ids: NDArray[Any] = np.empty(len(row_of), object)
    ids[:] = [id_ for _, id_ in row_of]
    if all(isinstance(id_, int) for id_ in ids):
        ids = ids.astype(np.int64)
    video = np.array([max(at, -1) for at, _ in row_of], np.int32)
    return rows, Tracks(frozen(video), frozen(ids), frozen(np.array(score, np.float64)))


def _frames(
    images: Images,
    datasets: Sequence[Dataset],
    image_rows: Sequence[NDArray[np.int32]],
    video_rows: Sequence[NDArray[np.int32]],
) -> Images:
    """The images with the video and the number that the first source that has them gives each."""
    if all(d.images.video is None for d in datasets):
        return images
    video, frame = np.full(len(images), -1, np.int32), np.full(len(images), -1, np.int32)
    for dataset, at, videos in zip(datasets, image_rows, video_rows, strict=True):
        own = _rows_in(dataset.images.video, videos, len(at))
        numbers = np.full(len(at), -1, np.int32) if dataset.images.frame is None else dataset.images.frame
        first = video[at] < 0
        video[at], frame[at] = np.where(first, own, video[at]), np.where(first, numbers, frame[at])
    return dataclasses.replace(images, video=frozen(video), frame=frozen(frame))


def _rows_in(column: NDArray[Any] | None, rows: NDArray[np.int32], n: int) -> NDArray[np.int32]:
    """(n,) rows of the merged table for a column of rows, -1 where there is none."""
    if column is None or not len(rows):
        return np.full(n, -1, np.int32)
    found: NDArray[np.int32] = np.where(column >= 0, rows[column], np.int32(-1))
    return found


def _categories(
    datasets: Sequence[Dataset], changed: dict[str, int]
) -> tuple[list[NDArray[np.int32]], Categories]:
    """The row of each class of each dataset, and all classes; their ids are still missing.

    The parent of a class is that of the first dataset that has the class, so there can be no circle.
    """
    row_of: dict[str, int] = {}
    rows, parent = [], []
    frequency: list[str] = []
    differ: set[int] = set()
    for dataset in datasets:
        categories = dataset.categories
        fresh = [name not in row_of for name in categories.name]
        mine = [row_of.setdefault(name, len(row_of)) for name in categories.name]
        for i, row in enumerate(mine):
            said = categories.frequency[i]
            if fresh[i]:
                above = int(categories.parent[i])
                parent.append(mine[above] if above >= 0 else -1)
                frequency.append(said)
            elif said != frequency[row]:
                differ.add(row)
        rows.append(np.array(mine, np.int32))
    for row in differ:
        frequency[row] = ""
    changed["classes whose frequency the sources do not agree on, and which have none now"] = len(differ)
    parents = frozen(np.array(parent, np.int32))
    some = [d.categories for d in datasets if len(d.categories)]
    categories = Categories(
        name=tuple(row_of),
        source_id=np.zeros(0, np.int64),
        parent=parents,
        frequency=tuple(frequency),
        named=all(c.named for c in some),
        ordered=all(c.ordered for c in some),
        own=_first_own([d.categories.own for d in datasets], rows, len(row_of)),
    )
    return rows, categories


def _boxes(
    datasets: Sequence[Dataset],
    image_rows: Sequence[NDArray[np.int32]],
    category_rows: Sequence[NDArray[np.int32]],
    track_rows: Sequence[NDArray[np.int32]],
) -> Boxes:
    """The boxes of all datasets one after the other; their ids are as they were."""
    columns: dict[str, NDArray[Any]] = {}
    for field in dataclasses.fields(Boxes):
        parts = [getattr(d.boxes, field.name) for d in datasets]
        if all(part is None for part in parts):
            continue
        if field.name == "track":
            parts = [
                _rows_in(d.boxes.track, rows, len(d)) for d, rows in zip(datasets, track_rows, strict=True)
            ]
        elif field.name == "wh_given":
            parts = [
                np.zeros((len(d), 2), bool) if p is None else p for p, d in zip(parts, datasets, strict=True)
            ]
        if field.name == "image":
            parts = [rows[part] for rows, part in zip(image_rows, parts, strict=True)]
        elif field.name == "category":
            parts = [rows[part] for rows, part in zip(category_rows, parts, strict=True)]
        elif field.name == "file":
            parts = [np.where(p >= 0, p + at, -1) for p, at in zip(parts, _offsets(datasets), strict=True)]
        columns[field.name] = frozen(np.concatenate(parts).astype(parts[0].dtype))
    return Boxes(**columns)


def _offsets(datasets: Sequence[Dataset]) -> list[int]:
    return list(itertools.accumulate((len(d.files) for d in datasets[:-1]), initial=0))


def _equal_boxes(
    boxes: Boxes, datasets: Sequence[Dataset], image_rows: Sequence[NDArray[np.int32]], kind: Kind
) -> NDArray[np.bool_]:
    """(n,) mask of the boxes that an earlier dataset has as well.

    Image, class, corners and flags are equal, and of detections the score.
    """
    again = np.zeros(len(boxes), np.bool_)
    shared = np.bincount(np.concatenate(image_rows)) > 1
    if not shared.any():
        return again
    # Boxes of other flags are made boxes of another class, for the search does not look at flags.
    marked: Any = boxes.category.astype(np.int64) << 16 | boxes.flags
    marked_boxes = dataclasses.replace(boxes, category=marked)
    whole = dataclasses.replace(datasets[0], boxes=marked_boxes, kind=kind)
    rows, first = equal_boxes(whole, np.flatnonzero(~shared[boxes.image]))
    source = np.repeat(np.arange(len(datasets)), [len(d) for d in datasets])
    again[rows] = source[rows] != source[first]
    return again


def _labels(
    datasets: Sequence[Dataset],
    image_rows: Sequence[NDArray[np.int32]],
    category_rows: Sequence[NDArray[np.int32]],
    boxes: Boxes,
    changed: dict[str, int],
) -> ImageLabels:
    """What is said of whole images, each thing once; a class is not absent where another source has a box."""
    parts = [
        np.column_stack([images[d.labels.image], categories[d.labels.category], d.labels.verdict])
        for d, images, categories in zip(datasets, image_rows, category_rows, strict=True)
    ]
    table = np.concatenate(parts).astype(np.int64).reshape(-1, 3)
    _, first = np.unique(table, axis=0, return_index=True)
    table = table[np.sort(first)]
    if len(table):
        n = int(boxes.category.max(initial=0)) + int(table[:, 1].max()) + 1
        boxed = np.isin(table[:, 0] * n + table[:, 1], boxes.image.astype(np.int64) * n + boxes.category)
        shared = np.bincount(np.concatenate(image_rows))[table[:, 0]] > 1
        drop = boxed & shared & (table[:, 2] == LabelState.ABSENT)
        changed["absences of a class of which another source has a box"] = int(np.count_nonzero(drop))
        table = table[~drop]
    columns = table[:, 0].astype(np.int32), table[:, 1].astype(np.int32), table[:, 2].astype(np.uint8)
    return ImageLabels(*map(frozen, columns))


# ---------------------------------------------------------------------------------------------- the ids


def _common_ids(
    columns: Sequence[NDArray[Any]], rows: Sequence[NDArray[np.int32]], n: int
) -> NDArray[Any] | None:
    """(n,) ids of what several datasets have, or None if two disagree or some of them are missing."""
    found: dict[int, Any] = {}
    for column, mine in zip(columns, rows, strict=True):
        for row, id_ in zip(mine.tolist(), column.tolist(), strict=True):
            if id_ != NO_ID and found.setdefault(row, id_) != id_:
                return None
    if not found:
        return np.full(n, NO_ID, np.int64)
    if len(found) < n or len(set(found.values())) < n:
        return None
    ids = [found[row] for row in range(n)]
    if all(column.dtype == np.int64 for column in columns):
        return np.array(ids, np.int64)
    packed = np.empty(n, object)
    packed[:] = ids
    return packed


def _numbered(ids: NDArray[Any] | None, n: int, sort: str, renumbered: dict[str, int]) -> NDArray[Any]:
    """The ids, or numbers from 1 where there are none that all datasets agree on."""
    if ids is None:
        ids = np.arange(1, n + 1)
        renumbered[sort] = n
    return frozen(ids)


def _box_ids(boxes: Boxes) -> NDArray[np.int64] | None:
    """The ids of all boxes, or None where some have none or two have the same."""
    ids = boxes.source_id
    missing = ids == NO_ID
    if missing.all():
        return ids
    ordered = np.sort(ids)
    return None if missing.any() or (ordered[1:] == ordered[:-1]).any() else ids
