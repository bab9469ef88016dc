"""Merge several datasets into one: their classes, images, ids and boxes."""

from __future__ import annotations

import itertools
import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.checks.rules import find_equal_boxes
from odm.codes import GIVE_SIZES
from odm.converters.edit import check_keypoint_counts
from odm.issues import DataError, Log, UsageError, first_few, plural, printable, shorten, spell
from odm.names import stem
from odm.tables import (
    NO_ID,
    Boxes,
    Categories,
    Dataset,
    Flag,
    ImageLabels,
    Images,
    Ints,
    Kind,
    LabelState,
    Longs,
    Tracks,
    Videos,
    distinct,
    first_index_of,
    freeze,
)
from odm.tables.extra_fields import ExtraFields, join_extra, take_extra
from odm.tables.shapes import RAGGED, join_ragged

SameImage = Literal["error", "prefix", "join"]
"""What to do with an image that several sources have: refuse it, put the source's name before the names of
all images, or take it for one image with the boxes of all."""

SAME_IMAGE = get_args(SameImage)

RENUMBERED = {"category_id": "classes", "image_id": "images", "box_id": "boxes"}
"""Words of `Format.keeps` for ids, and what these ids number."""


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """The dataset that several were merged into, and what the merge changed."""

    dataset: Dataset
    joined: int = 0
    """Images that were in an earlier source already."""
    equal: int = 0
    """Boxes that were left out because an earlier source has the same."""
    renumbered: dict[str, int] = msgspec.field(default_factory=dict)
    """How many ids of each sort (`RENUMBERED`) are numbered from 1, because the sources disagreed on them."""
    changed: dict[str, int] = msgspec.field(default_factory=dict)
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
        If there is no dataset, they are not of one kind, or only some have names of classes or pixels.
    DataError
        If an image is in more than one and `same_image` does not allow that, or its sizes differ.

    Examples
    --------
    >>> from odm.tables import Dataset
    >>> same = {"images": ["a.jpg"], "categories": ["person"], "image": [0], "category": [0]}
    >>> truth = Dataset.from_arrays(**same, ltwh=[[10, 10, 20, 20]])
    >>> other = Dataset.from_arrays(
    ...     images=["b.jpg"], categories=["dog"], image=[0], category=[0], ltwh=[[1, 1, 5, 5]]
    ... )
    >>> merge([truth, other]).dataset
    <Dataset: ground truth, 2 boxes, images 2 ('a.jpg', 'b.jpg'), categories 2 ('person', 'dog')>
    """
    log = log or Log()
    if not datasets:
        raise UsageError("there is nothing to merge")
    if same_image not in SAME_IMAGE:
        raise UsageError(f"same_image={same_image!r}: choose one of {', '.join(SAME_IMAGE)}")
    kind = _find_common_kind(datasets)
    changed: dict[str, int] = {}

    # The image names of each dataset, and the merged row of each of its images.
    prefixes = _make_prefixes(datasets) if same_image == "prefix" else [""] * len(datasets)
    names = [
        [prefix + name for name in dataset.images.name] if prefix else list(dataset.images.name)
        for dataset, prefix in zip(datasets, prefixes, strict=True)
    ]
    image_rows = _map_images(names)
    if same_image != "join":
        _refuse_shared_images(datasets, names, image_rows, same_image, log)

    # The merged tables, and of each how the rows of the datasets map to its rows.
    video_rows, videos = _merge_videos(datasets, prefixes)
    track_rows, tracks = _merge_tracks(datasets, video_rows)
    images = _merge_images(datasets, names, image_rows, video_rows, changed, log)
    category_rows, categories = _merge_categories(datasets, changed)
    boxes = _join_boxes(datasets, {"image": image_rows, "category": category_rows, "track": track_rows})
    is_repeated = _find_equal(boxes, datasets, image_rows, kind)
    if is_repeated.any():
        boxes = boxes.take(~is_repeated)

    # Ids by their names in `RENUMBERED`; None, where the sources do not agree on them, becomes 1, 2, 3, ...
    category_ids = category_rows.find_common_ids([d.categories.source_id for d in datasets])
    image_ids = image_rows.find_common_ids([d.images.source_id for d in datasets])
    ids = {"category_id": category_ids, "image_id": image_ids, "box_id": _get_box_ids(boxes)}
    n_rows = {"category_id": len(categories), "image_id": len(images), "box_id": len(boxes)}
    renumbered = {id_name: n_rows[id_name] for id_name, column in ids.items() if column is None}
    id_columns = {
        id_name: freeze(np.arange(1, n_rows[id_name] + 1) if column is None else column)
        for id_name, column in ids.items()
    }

    extras: Counter[str] = Counter()
    for dataset in datasets:
        extras.update(dataset.extras)
    merged = Dataset(
        images=replace(images, source_id=id_columns["image_id"]),
        categories=replace(categories, source_id=id_columns["category_id"]),
        boxes=replace(boxes, source_id=id_columns["box_id"]),
        kind=kind,
        files=tuple(file for dataset in datasets for file in dataset.files),
        extras=dict(extras),
        path=", ".join(dataset.path for dataset in datasets if dataset.path),
        relative=any(d.relative for d in datasets if len(d)),
        skipped=sum(dataset.skipped for dataset in datasets),
        labels=_merge_labels(datasets, image_rows, category_rows, boxes, changed),
        videos=videos,
        tracks=tracks,
    )
    return Merged(
        dataset=merged,
        joined=len(image_rows.all) - len(images),
        equal=int(np.count_nonzero(is_repeated)),
        renumbered=renumbered,
        changed={change: n for change, n in changed.items() if n},
    )


def add_regions(truth: Dataset, regions: Dataset, truth_rows: Longs, log: Log) -> Dataset:
    """Return the ground truth with the boxes of `regions`, of any class, added as regions to ignore.

    `truth_rows` (images of `regions`,) are the rows of these images in the ground truth, -1 for none; regions
    of images without one are left out with a note. Raises UsageError if no image is in both, or only one side
    has coordinates that are fractions of its images.
    """
    if truth.relative != regions.relative:
        raise UsageError(
            "ignore_regions: one side has pixels, the other fractions of images: give image sizes"
        )
    truth_row_of_box = truth_rows[regions.boxes.image]
    unpaired = distinct(regions.boxes.image[truth_row_of_box < 0]).tolist()
    if len(regions) and not (truth_row_of_box >= 0).any():
        raise UsageError(
            f"ignore_regions: no image of {regions.path or 'the regions'} is in the ground truth"
        )
    if unpaired:
        names = _format_examples([regions.images.name[row] for row in unpaired])
        log.note(
            f"regions to ignore of {plural(len(unpaired), 'image')} not in the ground truth left out: {names}"
        )
    rows = np.flatnonzero(truth_row_of_box >= 0)
    boxes, n = regions.boxes.take(rows), len(rows)
    no_id = np.full(1, NO_ID, np.int64)
    added = Dataset(
        images=truth.images,
        categories=Categories(
            name=("ignored regions",), source_id=no_id, parent=np.full(1, -1, np.int32), frequency=("",)
        ),
        boxes=replace(
            boxes,
            image=truth_row_of_box[rows].astype(np.int32),
            category=np.zeros(n, np.int32),
            flags=np.full(n, Flag.REGION, np.uint16),
            score=np.full(n, np.nan),
            track=None,
        ),
        files=regions.files,
    )
    merged = merge([truth, added], same_image="join").dataset
    # The merge put the boxes and the class of the regions last, if the truth did not have that class; those
    # before them keep the ids of the truth.
    box_ids = np.concatenate([truth.boxes.source_id, np.full(len(merged) - len(truth), NO_ID)])
    class_ids = np.append(truth.categories.source_id, no_id)[: len(merged.categories)]
    return replace(
        truth,
        boxes=replace(merged.boxes, source_id=freeze(box_ids)),
        categories=replace(merged.categories, source_id=freeze(class_ids)),
        files=merged.files,
    )


# ------------------------------------------------------------------------------- what cannot be merged


def _find_common_kind(datasets: Sequence[Dataset]) -> Kind:
    """Return the kind of all datasets, ``gt`` or ``det``; a dataset without boxes can be either.

    Raises UsageError if they differ, if only some have names of classes, or if only some are in pixels.
    """
    with_boxes = [d for d in datasets if len(d)]
    truth = [d for d in with_boxes if d.kind == "gt"]
    scored = [d for d in with_boxes if d.kind == "det"]
    if truth and scored:
        name, other_name = _name_source(truth[0], datasets), _name_source(scored[0], datasets)
        raise UsageError(
            f"{name} is ground truth and {other_name} has detections, and only sources of one kind can be "
            f"merged; leave one of them out, or set the kind of all of them with {spell('kind')}"
        )
    numbered = [d for d in datasets if len(d.categories) and not d.categories.named]
    named = [d for d in datasets if len(d.categories) and d.categories.named]
    if numbered and named:
        name, other_name = _name_source(numbered[0], datasets), _name_source(named[0], datasets)
        raise UsageError(
            f"the classes of {name} are only numbers and those of {other_name} have names, so it is unknown "
            f"which are the same; give the names with {spell('classes')} FILE"
        )
    relative = [d for d in with_boxes if d.relative]
    if relative and len(relative) < len(with_boxes):
        name = _name_source(relative[0], datasets)
        raise UsageError(f"the images of {name} have no size, but those of others do; {GIVE_SIZES}")
    if with_boxes:
        return with_boxes[0].kind
    return "det" if all(d.kind == "det" for d in datasets) else "gt"


def _name_source(dataset: Dataset, datasets: Sequence[Dataset]) -> str:
    """Return the name of a dataset in messages: its path, or its position among `datasets`, from 1."""
    position = next(i for i, candidate in enumerate(datasets) if candidate is dataset)
    return printable(dataset.path) or f"dataset {position + 1}"


def _refuse_shared_images(
    datasets: Sequence[Dataset], names: Sequence[Sequence[str]], rows: _RowMap, same_image: str, log: Log
) -> None:
    """Raise DataError if an image is in more than one dataset, naming three of each pair of datasets.

    The message advises another value of `same_image` if that is ``error``.
    """
    # (m,) for each image of all datasets, the number of the dataset that has this image first.
    first_source = rows.source[rows.find_first()][rows.all]
    names_by_sources: dict[tuple[int, int], list[str]] = {}
    all_names = list(itertools.chain(*names))
    for i in np.flatnonzero(first_source != rows.source).tolist():
        names_by_sources.setdefault((int(first_source[i]), int(rows.source[i])), []).append(all_names[i])
    if not names_by_sources:
        return
    lines = []
    for (earlier, later), shared_names in names_by_sources.items():
        name, other_name = (
            _name_source(datasets[earlier], datasets),
            _name_source(datasets[later], datasets),
        )
        count = plural(len(shared_names), "image is", "images are")
        lines.append(f"{count} both in {name} and in {other_name}: {_format_examples(shared_names)}")
    if same_image == "error":
        lines.append(
            f"{spell('same_image')} join makes one image of them, with the boxes of both, and "
            f"{spell('same_image')} prefix puts the source's name before the names of all images"
        )
    raise DataError("; ".join(lines), log)


def _format_examples(names: Sequence[str]) -> str:
    """Return the first three names, quoted, for a message."""
    return first_few(names, 3, lambda name: repr(shorten(name, 60)))


def _make_prefixes(datasets: Sequence[Dataset]) -> list[str]:
    """Return, for each source, the last parts of its path and a ``/``: as few parts as make all prefixes
    differ. Raises UsageError if there are none.
    """
    names_of_paths = []
    for dataset in datasets:
        if not dataset.path:
            raise UsageError("a dataset that was not read from a path has no name to put before its images")
        path = os.path.abspath(dataset.path).replace(os.sep, "/")
        if not os.path.isdir(dataset.path):
            folder, _, file_name = path.rpartition("/")
            path = f"{folder}/{file_name.rpartition('.')[0].rstrip('.') or file_name}"
        names_of_paths.append([name for name in path.split("/") if name])
    for n_names in range(1, max(map(len, names_of_paths)) + 1):
        path_ends = ["/".join(names[-n_names:]) for names in names_of_paths]
        if len({path_end.casefold() for path_end in path_ends}) == len(path_ends):
            return [f"{path_end}/" for path_end in path_ends]
    raise UsageError("two of the sources have the same path without its extension; rename one")


# ------------------------------------------------------------------------------------------- the tables


class _RowMap:
    """Maps rows of the source tables to rows of the merged table.

    Several source rows can become one merged row.

    Source rows are numbered through all sources, so arguments and results over "all rows" are the columns of
    all sources, concatenated.
    """

    def __init__(self, merged_rows: Sequence[Sequence[int]]) -> None:
        """Map each row of each source to one of `merged_rows`, which has a list for each source."""
        self.rows_of = [np.array(rows, np.int32) for rows in merged_rows]
        self.all: Ints = np.concatenate(self.rows_of)
        """(m,) the merged row of each row of all sources."""
        self.source = np.repeat(np.arange(len(merged_rows)), [len(rows) for rows in merged_rows])
        """(m,) the number of the source."""
        self.n = int(self.all.max(initial=-1)) + 1

    @classmethod
    def from_keys(cls, keys: Sequence[Iterable[Any]]) -> tuple[_RowMap, list[Any]]:
        """Map source rows with equal keys to one merged row.

        Returns the map, and the key of each merged row.
        """
        row_of: dict[Any, int] = {}
        row_map = cls([[row_of.setdefault(key, len(row_of)) for key in source_keys] for source_keys in keys])
        return row_map, list(row_of)

    @property
    def is_shared(self) -> NDArray[np.bool_]:
        """(n,) True for merged rows that come from more than one source row."""
        return np.bincount(self.all, minlength=self.n) > 1

    def find_first(self, has: NDArray[np.bool_] | None = None) -> Longs:
        """Return (n,), for each merged row, the first source row that became it, -1 if none.

        With `has`, (m,), only source rows where it is True.
        """
        if has is None:
            return first_index_of(self.all, self.n)
        source_rows = np.flatnonzero(has)
        # The index is -1 for a merged row without one, and takes the -1 that is appended.
        return np.append(source_rows, -1)[first_index_of(self.all[source_rows], self.n)]

    def take_first_texts(self, columns: Iterable[Sequence[str]]) -> list[str]:
        """Return (n,) texts: for each merged row, the first text of its source rows that is not empty."""
        texts = list(itertools.chain(*columns))
        first_rows = self.find_first(np.array(list(map(bool, texts)), bool)).tolist()
        return [texts[i] if i >= 0 else "" for i in first_rows]

    def take_first_extra(self, fields: Sequence[ExtraFields]) -> ExtraFields:
        """Return the extra fields of each merged row: those of its first source row."""
        values_of_key: dict[str, tuple[bytes, ...]] = {}
        for key in dict.fromkeys(itertools.chain(*fields)):
            parts = (
                columns.get(key, (b"",) * len(rows))
                for columns, rows in zip(fields, self.rows_of, strict=True)
            )
            values_of_key[key] = tuple(itertools.chain(*parts))
        return take_extra(values_of_key, self.find_first().tolist())

    def take_first_points(self, tables: Sequence[Categories]) -> dict[str, Any]:
        """Return the columns ``keypoints`` and ``skeleton`` of the merged classes, each from the first
        source that has them.
        """
        columns_of_points: dict[str, Any] = {}
        for name in ("keypoints", "skeleton"):
            columns = [getattr(table, name) or ((),) * len(table) for table in tables]
            points = list(itertools.chain(*columns))
            first_rows = self.find_first(np.array(list(map(bool, points)), bool)).tolist()
            columns_of_points[name] = (
                tuple(points[i] if i >= 0 else () for i in first_rows) if any(points) else None
            )
        return columns_of_points

    def map_rows(self, source: int, column: NDArray[Any] | None, n: int) -> Ints:
        """Return (n,) the merged row for each row number in `column`, which are rows of one `source`.

        -1 stays -1; without a column all are -1.
        """
        merged_rows = self.rows_of[source]
        if column is None or not len(merged_rows):
            return np.full(n, -1, np.int32)
        mapped_rows: Ints = np.where(column >= 0, merged_rows[column], np.int32(-1))
        return mapped_rows

    def find_common_ids(self, columns: Sequence[NDArray[Any]]) -> NDArray[Any] | None:
        """Return (n,) the id of each merged row, `NO_ID` for all if no source has ids; None if sources
        disagree, a row has none, or two rows have one id.
        """
        ids = np.concatenate(columns)
        has_id = np.asarray(ids != NO_ID, bool)
        if not has_id.any():
            return np.full(self.n, NO_ID, np.int64)
        first_rows = self.find_first(has_id)
        merged_ids = ids[first_rows]
        if (first_rows < 0).any() or (has_id & (merged_ids[self.all] != ids)).any():
            return None
        return merged_ids if len(set(merged_ids.tolist())) == self.n else None


def _map_images(names: Sequence[Sequence[str]]) -> _RowMap:
    """Map each image of each dataset to a merged row.

    `names` are the image names of each dataset. Images are the same if their names are, or if one has no
    extension and the other is the only image that equals it without extension.
    """
    row_of_name: dict[str, int] = {}
    stem_rows: dict[str, list[int]] = {}
    """If some names have no extension: the rows of images by their names without extension."""
    bare_rows: set[int] = set()
    """The rows of images whose names have no extension."""
    by_stem = any(stem(name) == name for dataset_names in names for name in dataset_names)
    rows_of_datasets, n_rows = [], 0
    for dataset_names in names:
        dataset_rows = [row_of_name.get(name, -1) for name in dataset_names]
        used_rows = set(dataset_rows)  # two images of one dataset are never the same
        for i, name in enumerate(dataset_names):
            if dataset_rows[i] < 0 and by_stem:
                key = stem(name)  # this name or the other one must have no extension: a.jpg is not a.png
                candidates = [row for row in stem_rows.get(key, ()) if key == name or row in bare_rows]
                if len(candidates) == 1 and candidates[0] not in used_rows:
                    dataset_rows[i] = candidates[0]
                    used_rows.add(candidates[0])
            if dataset_rows[i] < 0:
                dataset_rows[i], n_rows = n_rows, n_rows + 1
        rows_of_datasets.append(dataset_rows)
        for name, row in zip(dataset_names, dataset_rows, strict=True):
            row_of_name.setdefault(name, row)
            if by_stem:
                key = stem(name)
                rows_of_stem = stem_rows.setdefault(key, [])
                if row not in rows_of_stem:
                    rows_of_stem.append(row)
                if key == name:
                    bare_rows.add(row)
    return _RowMap(rows_of_datasets)


def _merge_images(
    datasets: Sequence[Dataset],
    names: Sequence[Sequence[str]],
    rows: _RowMap,
    video_rows: _RowMap,
    changed: dict[str, int],
    log: Log,
) -> Images:
    """Merge the images of all datasets: each has the first size, split, path and line that a dataset states.

    `rows` maps images to merged rows, and `video_rows` videos; in `changed` images in
    another split of a later source are counted. Raises DataError if sizes of an image differ.
    """
    # Columns of all images of all datasets, one dataset after the other; `rows.all` has their merged rows.
    tables = [dataset.images for dataset in datasets]
    size = np.concatenate([np.stack([images.width, images.height], axis=1) for images in tables])
    has_size: NDArray[np.bool_] = np.asarray((size > 0).any(axis=1))
    width, height = _pick(size, rows.find_first(has_size), none=0).T.copy()
    differing = np.flatnonzero(
        has_size & ((width[rows.all] != size[:, 0]) | (height[rows.all] != size[:, 1]))
    )
    all_names = list(itertools.chain(*names))
    if len(differing):
        n_sizes = plural(len(differing), "image has", "images have")
        raise DataError(
            f"{spell('same_image')} join: {n_sizes} another size in another source, so they are not the "
            f"same: {_format_examples([all_names[i] for i in differing.tolist()])}",
            log,
        )

    # `with_*`: (merged rows,) the first image of each that has the property, among all images; -1 for none.
    with_suffix = rows.find_first(np.array([stem(name) != name for name in all_names], bool))
    split = rows.take_first_texts([images.split for images in tables])
    splits = itertools.chain(*(images.split for images in tables))
    changed["images in another split of a later source"] = sum(
        bool(source_split) and source_split != split[row]
        for source_split, row in zip(splits, rows.all.tolist(), strict=True)
    )
    file: Ints = np.concatenate(_renumber_files([images.file for images in tables], datasets))
    with_file = rows.find_first(file >= 0)
    videos = [video_rows.map_rows(source, images.video, len(images)) for source, images in enumerate(tables)]
    video: Ints = np.concatenate(videos)
    with_video = rows.find_first(video >= 0)
    frames = [np.full(len(i), -1, np.int32) if i.frame is None else i.frame for i in tables]
    has_frames = any(images.video is not None for images in tables)
    return Images(
        name=tuple(all_names[i] for i in np.where(with_suffix >= 0, with_suffix, rows.find_first()).tolist()),
        width=freeze(width),
        height=freeze(height),
        source_id=np.zeros(0, np.int64),  # `merge` sets the ids
        path=tuple(rows.take_first_texts([images.path for images in tables])),
        split=tuple(split),
        file=freeze(_pick(file, with_file, none=-1)),
        line=freeze(_pick(np.concatenate([images.line for images in tables]), with_file, none=0)),
        video=freeze(_pick(video, with_video, none=-1)) if has_frames else None,
        frame=freeze(_pick(np.concatenate(frames), with_video, none=-1)) if has_frames else None,
        extra=rows.take_first_extra([images.extra for images in tables]),
    )


def _pick(column: NDArray[Any], rows: Longs, none: float) -> NDArray[Any]:
    """Return ``column[rows]``, with `none` where the row is -1."""
    picked = column[rows]
    picked[rows < 0] = none
    return picked


def _renumber_files(columns: Sequence[Ints], datasets: Sequence[Dataset]) -> list[Ints]:
    """Return the ``file`` columns of the datasets as row numbers of all their files, concatenated."""
    offsets = itertools.accumulate((len(d.files) for d in datasets[:-1]), initial=0)
    return [
        np.where(c >= 0, c + start, -1).astype(np.int32) for c, start in zip(columns, offsets, strict=True)
    ]


def _merge_videos(datasets: Sequence[Dataset], prefixes: Sequence[str]) -> tuple[_RowMap, Videos]:
    """Map the videos of all datasets by prefix and name; returns the map and the merged videos."""
    rows, names = _RowMap.from_keys(
        [[prefix + name for name in d.videos.name] for d, prefix in zip(datasets, prefixes, strict=True)]
    )
    length = np.zeros(len(names), np.int32)
    np.maximum.at(length, rows.all, np.concatenate([d.videos.length for d in datasets]))
    ids = rows.find_common_ids([d.videos.source_id for d in datasets])
    if ids is None:
        ids = np.full(len(names), NO_ID, np.int64)
    return rows, Videos(tuple(names), freeze(length), freeze(ids))


def _merge_tracks(datasets: Sequence[Dataset], video_rows: _RowMap) -> tuple[_RowMap, Tracks]:
    """Map the tracks of all datasets by merged video (`video_rows`) and id; returns the map and the merged
    tracks.
    """
    keys = []
    for source, dataset in enumerate(datasets):
        videos = video_rows.map_rows(source, dataset.tracks.video, len(dataset.tracks)).tolist()
        # Tracks outside videos are never shared: their key has -1, -2, ... by source in place of a video.
        owner_keys = (video if video >= 0 else -1 - source for video in videos)
        keys.append(list(zip(owner_keys, dataset.tracks.source_id.tolist(), strict=True)))
    rows, track_keys = _RowMap.from_keys(keys)
    ids: NDArray[Any] = np.empty(len(track_keys), object)
    ids[:] = [id_ for _, id_ in track_keys]
    if all(isinstance(id_, int) for id_ in ids):
        ids = ids.astype(np.int64)
    video = np.array([max(video_row, -1) for video_row, _ in track_keys], np.int32)
    scores = np.concatenate([d.tracks.score for d in datasets])
    score = _pick(scores, rows.find_first(~np.isnan(scores)), none=math.nan)
    return rows, Tracks(freeze(video), freeze(ids), freeze(score))


def _merge_categories(datasets: Sequence[Dataset], changed: dict[str, int]) -> tuple[_RowMap, Categories]:
    """Map the classes of all datasets by name.

    Returns the map and the merged classes, whose ids are set later.

    The parent of a class is that of the first dataset that has the class, so there can be no circle. Classes
    that lose their frequency are counted in `changed`. Raises UsageError as `check_keypoint_counts`.
    """
    tables = [d.categories for d in datasets]
    # `rows.all` has the merged row of each class of all datasets, `first_rows` the first class of each row.
    rows, names = _RowMap.from_keys([categories.name for categories in tables])
    first_rows = rows.find_first()
    frequencies = list(itertools.chain(*(categories.frequency for categories in tables)))
    frequency = [frequencies[i] for i in first_rows.tolist()]
    disputed = {
        row for row, value in zip(rows.all.tolist(), frequencies, strict=True) if value != frequency[row]
    }
    changed["classes whose frequency the sources do not agree on, and which have none now"] = len(disputed)
    parents = [rows.map_rows(source, c.parent, len(c)) for source, c in enumerate(tables)]
    nonempty = [categories for categories in tables if len(categories)]
    check_keypoint_counts(tables, [rows.rows_of[source] for source in range(len(tables))], names)
    categories = Categories(
        name=tuple(names),
        source_id=np.zeros(0, np.int64),
        parent=freeze(np.concatenate(parents)[first_rows]),
        frequency=tuple("" if row in disputed else value for row, value in enumerate(frequency)),
        named=all(c.named for c in nonempty),
        ordered=all(c.ordered for c in nonempty),
        **rows.take_first_points(tables),
        extra=rows.take_first_extra([categories.extra for categories in tables]),
    )
    return rows, categories


def _join_boxes(datasets: Sequence[Dataset], rows_of: dict[str, _RowMap]) -> Boxes:
    """Concatenate the boxes of all datasets; their images, classes and tracks are mapped by `rows_of`."""
    columns: dict[str, Any] = {}
    sizes = [len(d) for d in datasets]
    extra = join_extra([d.boxes.extra for d in datasets], sizes)
    for name in Boxes.__struct_fields__:
        values = [getattr(d.boxes, name) for d in datasets]
        if name == "extra" or all(column is None for column in values):
            continue
        if (table := RAGGED.get(name)) is not None:  # shapes and keypoints, which differ in length
            columns[name] = join_ragged(table, values, sizes)
            continue
        if (rows := rows_of.get(name)) is not None:
            values = [
                rows.map_rows(i, p, len(d)) for i, (p, d) in enumerate(zip(values, datasets, strict=True))
            ]
        elif name == "wh_given":
            values = [
                np.zeros((len(d), 2), bool) if p is None else p for p, d in zip(values, datasets, strict=True)
            ]
        elif name == "file":
            values = _renumber_files(values, datasets)
        elif name == "group":
            # Group 3 of the second of two datasets becomes 3 * 2 + 1, so groups of one image stay apart.
            values = [np.full(n, -1) if p is None else p for p, n in zip(values, sizes, strict=True)]
            values = [np.where(p < 0, p, p.astype(np.int64) * len(values) + i) for i, p in enumerate(values)]
        columns[name] = freeze(np.concatenate(values))
    return Boxes(**columns, extra=extra)


def _find_equal(boxes: Boxes, datasets: Sequence[Dataset], images: _RowMap, kind: Kind) -> NDArray[np.bool_]:
    """(n,) mask of the boxes that an earlier dataset has as well.

    Image, class, corners, flags and, if there are any, shape and keypoints are equal, and of detections the
    score.
    """
    is_repeated = np.zeros(len(boxes), np.bool_)
    is_shared = images.is_shared
    if not is_shared.any():
        return is_repeated
    # The search does not look at flags, so each combination of class and flags becomes a class of its own.
    class_and_flags: Any = boxes.category.astype(np.int64) << 16 | boxes.flags
    compared_boxes = replace(boxes, category=class_and_flags)
    compared = replace(datasets[0], boxes=compared_boxes, kind=kind)
    rows, first_rows = find_equal_boxes(compared, ignored_rows=np.flatnonzero(~is_shared[boxes.image]))
    source = np.repeat(np.arange(len(datasets)), [len(d) for d in datasets])
    is_repeated[rows] = source[rows] != source[first_rows]
    return is_repeated


def _merge_labels(
    datasets: Sequence[Dataset], images: _RowMap, categories: _RowMap, boxes: Boxes, changed: dict[str, int]
) -> ImageLabels:
    """Merge the image-level labels, without absences of a class that has a box in another source, which are
    counted in `changed`.
    """
    # (labels, 3): merged image, merged class and verdict, each combination once.
    tables = [
        np.column_stack(
            [images.rows_of[i][d.labels.image], categories.rows_of[i][d.labels.category], d.labels.verdict]
        )
        for i, d in enumerate(datasets)
    ]
    table = np.concatenate(tables).astype(np.int64).reshape(-1, 3)
    _, first_rows = np.unique(table, axis=0, return_index=True)
    image, category, verdict = table[np.sort(first_rows)].T
    if len(image):
        n = int(boxes.category.max(initial=0)) + int(category.max()) + 1  # above all classes, for keys
        has_box = np.isin(image * n + category, boxes.image.astype(np.int64) * n + boxes.category)
        is_dropped = has_box & images.is_shared[image] & (verdict == LabelState.ABSENT)
        changed["absences of a class of which another source has a box"] = int(np.count_nonzero(is_dropped))
        image, category, verdict = image[~is_dropped], category[~is_dropped], verdict[~is_dropped]
    columns = image.astype(np.int32), category.astype(np.int32), verdict.astype(np.uint8)
    return ImageLabels(*map(freeze, columns))


def _get_box_ids(boxes: Boxes) -> NDArray[np.int64] | None:
    """Return the ids of all boxes, or None if some are missing or two are equal."""
    ids = boxes.source_id
    has_no_id = ids == NO_ID
    if has_no_id.all():
        return ids
    ordered = np.sort(ids)
    return None if has_no_id.any() or (ordered[1:] == ordered[:-1]).any() else ids
