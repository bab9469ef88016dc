"""COCO JSON as it is written: an object with images and categories, or a list of results.

It takes more lines than others, because each record can have a shape, keypoints and fields of its own.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.formats._shared.frames import find_box_tracks, number_tracks
from odm.formats.coco.ids import NOT_IN_REFERENCE, index_unique
from odm.formats.coco.values import COCO, Dialect
from odm.issues import Log, Trusted, hint
from odm.masks.runs import read_texts
from odm.names import stem
from odm.tables import NO_ID, Dataset, Flag, Floats, Id, Longs, ShapeKind, Shapes, distinct
from odm.tables.extra_fields import join_members
from odm.tables.shapes import as_rectangles

_BATCH = 4096
"""Records that are encoded at once; what they take stays in the cache."""
_SHAPES_AT_A_TIME = 2048


def find_result_ids(
    dataset: Dataset, reference: Dataset | None, log: Log
) -> tuple[list[Id], list[Id]] | None:
    """Return the ids of images and of categories, by row, for a results list.

    With a `reference` they are its ids, by name (also without extension or folder), or, where it has none,
    the stems of its images and the positions of its classes from 1. None, after issues, if an image or class
    with boxes is not in it; those without boxes get 0.
    """
    if reference is None:
        return [*choose_ids(dataset.images.source_id, 0)], [*choose_ids(dataset.categories.source_id, 0)]
    n_errors = log.errors
    image_ids = _find_image_ids(dataset, reference, log)
    category_ids = _find_category_ids(dataset, reference, log)
    return (image_ids, category_ids) if log.errors == n_errors else None


def _find_image_ids(dataset: Dataset, reference: Dataset, log: Log) -> list[Id]:
    """Return the id of each image in the ground truth, else its stem there; 0 if it is not there."""
    images = reference.images
    id_of_row: list[Id] = [
        stem(name) if id_ == NO_ID else id_
        for name, id_ in zip(images.name, images.source_id.tolist(), strict=True)
    ]
    row_of_name = {name: row for row, name in enumerate(images.name)}
    row_of_stem = index_unique(map(stem, images.name))
    row_of_last_part = index_unique(_drop_folders(stem(name)) for name in images.name)
    rows_with_boxes = set(distinct(dataset.boxes.image).tolist())
    ids: list[Id] = []
    for row, name in enumerate(dataset.images.name):
        reference_row = row_of_name.get(name)
        if reference_row is None:
            reference_row = row_of_stem.get(stem(name), row_of_last_part.get(_drop_folders(stem(name))))
        if reference_row is None and row in rows_with_boxes:
            suggestion = Trusted(hint(name, images.name))
            log.report(NOT_IN_REFERENCE, "", what="image", value=name, near=suggestion)
        ids.append(0 if reference_row is None else id_of_row[reference_row])
    return ids


def _drop_folders(name: str) -> str:
    """Return the last part of a name."""
    return name.rpartition("/")[2]


def _find_category_ids(dataset: Dataset, reference: Dataset, log: Log) -> list[Id]:
    """Return the id of each class in the ground truth, else its position from 1; 0 if it is not there."""
    classes = reference.categories
    id_of_class: dict[str, Id] = {
        name: position if id_ == NO_ID else id_
        for position, (name, id_) in enumerate(zip(classes.name, classes.source_id.tolist(), strict=True), 1)
    }
    rows_with_boxes = set(distinct(dataset.boxes.category).tolist())
    for row, name in enumerate(dataset.categories.name):
        if name not in id_of_class and row in rows_with_boxes:
            suggestion = Trusted(hint(name, classes.name))
            log.report(NOT_IN_REFERENCE, "", what="class", value=name, near=suggestion)
    return [id_of_class.get(name, 0) for name in dataset.categories.name]


def encode_results(
    dataset: Dataset,
    rows: NDArray[Any],
    image_ids: list[Id],
    category_ids: list[Id],
    log: Log,
    rle: str | None = None,
) -> bytes:
    """Encode the boxes in `rows` as a JSON list of results; `image_ids` and `category_ids` are by row.

    `rle` is how masks are written: ``text``, ``list``, or None for text, as in detections of COCO.
    """
    import msgspec

    boxes = dataset.boxes
    image, category = boxes.image[rows], boxes.category[rows]
    columns: dict[str, NDArray[Any]] = {}
    heads: list[bytes] = []  # the first members of each record, if some ids are text
    if any(isinstance(id_, str) for id_ in (*image_ids, *category_ids)):
        encode = msgspec.json.encode
        image_members = [b'"image_id":' + encode(id_) for id_ in image_ids]
        category_members = [b',"category_id":' + encode(id_) for id_ in category_ids]
        heads = [
            image_members[i] + category_members[k]
            for i, k in zip(image.tolist(), category.tolist(), strict=True)
        ]
    else:
        columns["image_id"] = np.array(image_ids, np.int64)[image]
        columns["category_id"] = np.array(category_ids, np.int64)[category]
    columns["bbox"] = _find_ltwh(dataset, rows)
    columns["score"] = boxes.score[rows] + 0.0  # without -0.0
    _, tracks = encode_tracks(dataset, rows, log)
    extra = _encode_box_fields(dataset, rows, rle)
    lines = _encode(columns, "write detections", log, heads, optional=tracks, extra=extra)
    return b"".join([*_bracket(lines), b"\n"])


def encode_object(
    dataset: Dataset,
    image_rows: NDArray[Any],
    box_rows: NDArray[Any],
    log: Log,
    dialect: Dialect = COCO,
    rle: str | None = None,
) -> bytes:
    """Encode some images and boxes, with all categories, as one JSON object; `rle` as in `_encode_shapes`."""
    categories, least_id = dataset.categories, dialect.least_id
    image_ids = choose_ids(dataset.images.source_id[image_rows], least_id)
    category_ids = choose_ids(categories.source_id, least_id)
    members, image_fields = _join_file_fields(dataset, image_rows)

    # The extra fields and shapes of boxes and of classes, JSON by key.
    extra_of_boxes = _encode_box_fields(dataset, box_rows, rle)
    if not dialect.sparse:  # some tools ask for the key, with an empty list where there is no outline
        outlines = extra_of_boxes.pop("segmentation", [b""] * len(box_rows))
        extra_of_boxes["segmentation"] = [value or b"[]" for value in outlines]
    extra_of_categories: Mapping[str, Sequence[bytes]] = categories.extra
    if categories.keypoints is not None:
        extra_of_categories = _merge_fields(extra_of_categories, _encode_class_points(dataset))

    category_columns = {"id": category_ids, "name": categories.name, **dialect.find_category_columns(dataset)}
    id_of_image = np.zeros(len(dataset.images), np.int64)
    id_of_image[image_rows] = image_ids
    columns, optional = _get_columns(
        dataset, box_rows, id_of_image, np.array(category_ids, np.int64), dialect
    )
    track_lists, track_columns = encode_tracks(dataset, box_rows, log, dialect)
    optional |= track_columns
    lists = {
        "images": _bracket(
            _encode_images(dataset, image_rows, image_ids, category_ids, image_fields, log, dialect)
        ),
        "annotations": _bracket(
            _encode(columns, "write annotations", log, optional=optional, extra=extra_of_boxes)
        ),
        "categories": _bracket(_encode(category_columns, "write categories", log, extra=extra_of_categories)),
    }
    # LVIS files begin with the images, by which they are recognised.
    lists = {**lists, **track_lists} if dialect.all_tracks else {**track_lists, **lists}
    head = b",".join(_encode_member(key, value) for key, value in members.items())
    body = [[b",\n", _encode_member(key, b""), *lines] for key, lines in lists.items()]
    return b"".join([b"{", head, *itertools.chain(*body), b"}\n"])


def _join_file_fields(
    dataset: Dataset, image_rows: NDArray[Any]
) -> tuple[dict[str, bytes], dict[str, Sequence[bytes]]]:
    """Return the members of the object that come from the files of some images, and these images' fields.

    Both are JSON by key. Where the licences of several files are joined, those of the images are renumbered.
    If no image comes from a file, the members of all files are joined.
    """
    file_of = dataset.images.file[image_rows].tolist()
    used_files = [row for row in dict.fromkeys(file_of) if row >= 0]
    files = [dataset.files[row].extra for row in used_files] or [f.extra for f in dataset.files if f.extra]
    members, new_licenses, _ = join_members(files) if any(files) else ({}, [], {})
    image_fields: dict[str, Sequence[bytes]] = {**_take_rows(dataset.images.extra, image_rows)}
    if any(new_licenses) and "license" in image_fields:
        new_licenses_of_file = dict(zip(used_files, new_licenses, strict=True))
        image_fields["license"] = [
            new_licenses_of_file[file].get(license_, b"")
            for file, license_ in zip(file_of, image_fields["license"], strict=True)
        ]
    return {"info": b"{}", "licenses": b"[]", **members}, image_fields


def _take_rows(extra: Mapping[str, Sequence[bytes]], rows: NDArray[Any]) -> dict[str, list[bytes]]:
    """Return the extra fields, JSON by key, of the images or boxes in `rows`."""
    return {key: [column[row] for row in rows.tolist()] for key, column in extra.items()}


def _encode_box_fields(dataset: Dataset, rows: NDArray[Any], rle: str | None) -> dict[str, Sequence[bytes]]:
    """Return the JSON of the extra fields and the shapes of the boxes in `rows`, by key."""
    boxes = dataset.boxes
    extra: dict[str, Sequence[bytes]] = {**_take_rows(boxes.extra, rows)}
    if boxes.shapes is None and boxes.keypoints is None:
        return extra
    return _merge_fields(extra, _encode_shapes(dataset, rows, rle))


def _merge_fields(
    extra: Mapping[str, Sequence[bytes]], shapes: Mapping[str, Sequence[bytes]]
) -> dict[str, Sequence[bytes]]:
    """Merge extra fields and shapes by key. If a row has both, the field stays, as the source wrote it."""
    return {**extra} | {
        key: [a or b for a, b in zip(extra[key], column, strict=True)] if key in extra else column
        for key, column in shapes.items()
    }


def _encode_shapes(dataset: Dataset, rows: Longs, rle: str | None) -> dict[str, list[bytes]]:
    """Return the JSON of the shapes and keypoints of the boxes in `rows`, by key; empty for boxes without.

    Parameters
    ----------
    rle
        How masks are written: ``text``, ``list``, or None for lists of crowds of ground truth only, as COCO's
        own files are.
    """
    import msgspec

    encode = msgspec.json.encode
    columns: dict[str, list[bytes]] = {}
    boxes = dataset.boxes
    if boxes.shapes is not None:
        shapes = boxes.shapes.take(rows)
        columns["segmentation"] = _encode_outlines(shapes)
        mask_rows = np.flatnonzero(shapes.kind == ShapeKind.MASK)
        sizes = dataset.limits()[boxes.image[rows[mask_rows]]][:, ::-1].tolist()  # height and width
        is_crowd = boxes.has(Flag.CROWD)[rows[mask_rows]] & (dataset.kind == "gt")
        is_list = is_crowd if rle is None else np.full(len(mask_rows), rle == "list")
        for i, height_width, writes_list in zip(mask_rows.tolist(), sizes, is_list.tolist(), strict=True):
            text = shapes.counts(i)
            if writes_list:
                _, counts, *_ = read_texts(np.frombuffer(text, np.uint8), np.array([0, len(text)]))
                columns["segmentation"][i] = encode({"counts": counts.tolist(), "size": height_width})
            else:
                member = {"size": height_width, "counts": text.decode("ascii", "replace")}
                columns["segmentation"][i] = encode(member)
        oriented_rows = np.flatnonzero(shapes.kind == ShapeKind.ORIENTED)
        if len(oriented_rows):
            columns["obb"] = [b""] * len(rows)
            rectangles = as_rectangles(shapes.corners(oriented_rows))
            for i, box in zip(oriented_rows.tolist(), rectangles, strict=True):
                columns["obb"][i] = encode(_to_shortest(box))
    if boxes.keypoints is not None:
        points = boxes.keypoints.take(rows)
        number_starts, numbers = (3 * points.first).tolist(), _to_shortest(points.xyv.ravel())
        columns["keypoints"] = [
            encode(numbers[a:b]) if b > a else b"" for a, b in itertools.pairwise(number_starts)
        ]
        if dataset.kind == "gt":
            labelled = zip(points.count_labelled_or_stated().tolist(), points.counts().tolist(), strict=True)
            columns["num_keypoints"] = [b"%d" % n if total else b"" for n, total in labelled]
    return columns


def _encode_outlines(shapes: Shapes) -> list[bytes]:
    """Return the JSON of the outlines of each shape, also of oriented boxes; empty for shapes without."""
    import msgspec

    texts = [b""] * len(shapes.kind)
    # box i has the rings ring_starts[i] to ring_starts[i + 1], ring j the points point_starts[j] to ...
    ring_starts, point_starts = shapes.ring.tolist(), shapes.point.tolist()
    numbers = _to_shortest(shapes.xy.ravel())
    for i in np.flatnonzero(shapes.ring[1:] > shapes.ring[:-1]).tolist():
        outlines = [
            numbers[2 * point_starts[j] : 2 * point_starts[j + 1]]
            for j in range(ring_starts[i], ring_starts[i + 1])
        ]
        texts[i] = msgspec.json.encode(outlines)
    return texts


def _encode_class_points(dataset: Dataset) -> dict[str, list[bytes]]:
    """Return the JSON of the keypoint names and of the skeleton of each class, whose positions are from 1."""
    categories = dataset.categories
    assert categories.keypoints is not None
    skeletons = categories.skeleton or ((),) * len(categories)
    lines = [[[a + 1, b + 1] for a, b in pairs] for pairs in skeletons]
    return {
        "keypoints": [json.dumps(names).encode() if names else b"" for names in categories.keypoints],
        "skeleton": [
            json.dumps(pairs).encode() if names else b""
            for pairs, names in zip(lines, categories.keypoints, strict=True)
        ],
    }


def _measure_areas(dataset: Dataset, rows: Longs) -> Floats:
    """Return (n,) areas in pixels of the outlines and masks of n boxes; NaN without one, or without size."""
    area, boxes = np.full(len(rows), np.nan), dataset.boxes
    assert boxes.shapes is not None
    size = dataset.limits()[boxes.image[rows]]  # (n, 2) width and height
    rows_with_shape = np.flatnonzero((boxes.shapes.kind[rows] != ShapeKind.NONE) & (size > 0).all(axis=1))
    for start in range(0, len(rows_with_shape), _SHAPES_AT_A_TIME):
        batch = rows_with_shape[start : start + _SHAPES_AT_A_TIME]
        height, width = size[batch, 1], size[batch, 0]
        area[batch], _ = boxes.shapes.take(rows[batch]).extents(height, width)
    area[area < 0] = np.nan  # -1 for shapes that are too large to be measured
    return area


def _encode_member(key: str, value: bytes) -> bytes:
    """Return the JSON of a member of an object, from its key and the JSON of its value."""
    import msgspec

    return msgspec.json.encode(key) + b":" + value


def _append_extra(lines: bytes, extra: Mapping[str, Sequence[bytes]]) -> bytes:
    """Add extra fields, JSON by key, to the records, one a line; empty fields are left out."""
    heads = [b"," + _encode_member(key, b"") for key in extra]
    records = []
    for line, *values in zip(lines.splitlines(), *extra.values(), strict=True):
        members = [head + value for head, value in zip(heads, values, strict=True) if value]
        records.append(line[:-1] + b"".join(members) + b"}\n")
    return b"".join(records)


def _encode_images(
    dataset: Dataset,
    rows: NDArray[Any],
    image_ids: list[int],
    category_ids: list[int],
    extra: Mapping[str, Sequence[bytes]],
    log: Log,
    dialect: Dialect,
) -> list[bytes]:
    """Return the JSON lines of the images in `rows`.

    `image_ids`, one for each of `rows`, and `category_ids`, by category row, are those that the file has.
    """
    images, names = dataset.images, dataset.images.name
    columns: dict[str, list[Any]] = {"id": image_ids, "file_name": [names[row] for row in rows.tolist()]}
    for key, verdict in dialect.labels.items():
        labels = dataset.labels.take(dataset.labels.verdict == verdict)
        ids_of_row: dict[int, list[int]] = {}
        for row, category in zip(labels.image.tolist(), labels.category.tolist(), strict=True):
            ids_of_row.setdefault(row, []).append(category_ids[category])
        columns[key] = [ids_of_row.get(row, []) for row in rows.tolist()]
    sides = (("width", images.width[rows]), ("height", images.height[rows]))
    optional = {key: np.where(side == 0, -1, side) for key, side in sides}  # -1 is left out
    if images.video is not None:
        # an image without a video, -1, gets the -1 at the end
        ids = np.array([*choose_ids(dataset.videos.source_id, dialect.least_id), -1], np.int64)
        optional["video_id"] = ids[images.video[rows]]
        if images.frame is not None:
            optional[dialect.frame_key] = images.frame[rows]
    return _encode(columns, "write images", log, optional=optional, extra=extra)


def _get_columns(
    dataset: Dataset,
    rows: NDArray[Any],
    image_ids: NDArray[Any],
    category_ids: NDArray[Any],
    dialect: Dialect,
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Return the columns of the annotations, and columns whose values are left out where they are -1.

    `image_ids` and `category_ids` are by row. An area that the dataset lacks is that of the shape, or else of
    the box.
    """
    boxes = dataset.boxes
    ltwh = _find_ltwh(dataset, rows)
    area = boxes.area[rows]
    with np.errstate(over="ignore"):
        if boxes.shapes is not None:
            area = np.where(np.isnan(area), _measure_areas(dataset, rows), area)
        area = np.where(np.isnan(area), ltwh[:, 2] * ltwh[:, 3], area)
    area = np.nan_to_num(area) + 0.0  # an infinite product becomes the largest number, and -0.0 0
    columns: dict[str, NDArray[Any]] = {
        "id": np.array(choose_box_ids(boxes.source_id[rows]), np.int64),
        "image_id": image_ids[boxes.image[rows]],
        "category_id": category_ids[boxes.category[rows]],
        "bbox": ltwh,
        "area": area,
    }
    optional: dict[str, NDArray[Any]] = {}
    key, flag = dialect.flag
    flags = ((boxes.flags[rows] & np.uint16(flag)) != 0).astype(int)
    if not dialect.sparse:
        columns[key] = flags
    elif flags.any():  # only the ones that are 1
        optional[key] = np.where(flags, 1, -1)
    if dataset.kind == "det":
        columns["score"] = boxes.score[rows] + 0.0
    return columns, optional


def encode_tracks(
    dataset: Dataset, rows: NDArray[Any], log: Log, dialect: Dialect = COCO
) -> tuple[dict[str, list[bytes]], dict[str, NDArray[Any]]]:
    """Return the lists ``videos`` and ``tracks`` as JSON lines, and the columns of the boxes in `rows`.

    These are the ids of tracks and videos; -1 is left out. Tracks without a score are listed only if the
    dialect lists all.
    """
    import msgspec

    videos, tracks, track_of_box = dataset.videos, dataset.tracks, dataset.boxes.track
    video_ids = [*choose_ids(videos.source_id, dialect.least_id), -1]  # by row, -1 for none
    lists: dict[str, list[dict[str, Any]]] = {}
    columns: dict[str, NDArray[Any]] = {}
    if len(videos):
        lists["videos"] = [
            {"id": id_, "name": name} | ({"length": length} if length else {})
            for id_, name, length in zip(video_ids[:-1], videos.name, videos.length.tolist(), strict=True)
        ]
    if track_of_box is not None:
        track_ids = number_tracks(dataset, log, id_min=dialect.least_id)
        track_records = [
            {"id": int(track_id), "video_id": video_ids[video]}
            | ({} if np.isnan(score) else {"score": score})
            for track_id, video, score in zip(track_ids, tracks.video, tracks.score.tolist(), strict=True)
            if dialect.all_tracks or not np.isnan(score)
        ]
        if track_records:
            lists["tracks"] = track_records
        if (column := find_box_tracks(dataset, track_ids)) is not None:
            columns["track_id"] = column[rows]
            if dialect.all_tracks:
                # a box without a track, -1, gets the -1 at the end of both
                video_of_track = np.append(tracks.video, -1)
                columns["video_id"] = np.array(video_ids)[video_of_track[track_of_box[rows]]]
    encode = msgspec.json.encode
    return {key: _bracket([b",\n".join(map(encode, records))]) for key, records in lists.items()}, columns


def _find_ltwh(dataset: Dataset, rows: NDArray[Any]) -> Floats:
    """Return (n, 4) left, top, width and height of the boxes in `rows`."""
    boxes = dataset.boxes
    # Adding zero turns -0.0 into 0, which is what a reader of "-0" sees.
    return np.concatenate([boxes.xyxy[rows, :2], boxes.short_wh()[rows]], axis=1) + 0.0


def _encode(
    columns: Mapping[str, NDArray[Any] | Sequence[Any]],
    activity: str,
    log: Log,
    first_members: Sequence[bytes] = (),
    *,
    optional: Mapping[str, NDArray[Any]] | None = None,
    extra: Mapping[str, Sequence[bytes]] | None = None,
) -> list[bytes]:
    """Encode records as JSON, one a line, separated by commas; returns texts to be joined.

    `columns` are the values by key, and `activity` names the work for the progress bar. `first_members` are
    the JSON with which each record begins, if some ids are text. -1 in `optional` columns of whole numbers,
    and empty `extra` fields, which are JSON, are left out.
    """
    import msgspec

    optional = optional or {}
    extra = {key: column for key, column in (extra or {}).items() if key not in {*columns, *optional}}
    outlines, empty_value = extra.pop("segmentation", []), msgspec.Raw(b"")
    # A record class whose members are left out where they have their default. Outlines are a member; all
    # other extra fields are appended to the text of each record.
    members: list[Any] = [*columns, ("segmentation", msgspec.Raw, empty_value)]
    members += ((key, int, -1) for key in optional)
    record = msgspec.defstruct("Record", members, omit_defaults=True, gc=False)
    encode = msgspec.json.Encoder().encode_lines
    texts: list[bytes] = []
    starts = range(0, len(next(iter(columns.values()))), _BATCH)
    for start in log.track(starts, activity) if len(starts) > 1 else starts:
        batch, optional_batch = (
            [_to_shortest(column[start : start + _BATCH]) for column in columns_by_key.values()]
            for columns_by_key in (columns, optional)
        )
        # [] without any segmentation: then all records get the value that is left out
        raw = [msgspec.Raw(v) if v else empty_value for v in outlines[start : start + _BATCH]]
        text = encode(list(map(record, *batch, raw or itertools.repeat(empty_value), *optional_batch)))
        if extra:
            text = _append_extra(text, {key: column[start : start + _BATCH] for key, column in extra.items()})
        text = text[:-1].replace(b"\n", b",\n")  # all but the last newline
        if first_members:
            lines = zip(first_members[start : start + _BATCH], text.split(b"\n"), strict=True)
            text = b"\n".join([b"{" + head + b"," + line[1:] for head, line in lines])
        texts += (b",\n", text) if texts else (text,)
    return texts


def _to_shortest(column: NDArray[Any] | Sequence[Any]) -> list[Any]:
    """Return the values of a column as Python values; floats that are whole, below 1e16, become ints."""
    if not isinstance(column, np.ndarray):
        return [*column]
    if column.dtype.kind == "f":
        is_whole = (column == np.rint(column)) & (np.abs(column) < 1e16)
        whole_numbers = column[is_whole].astype(np.int64)
        column = column.astype(object)
        column[is_whole] = whole_numbers
    numbers: list[Any] = column.tolist()
    return numbers


def _bracket(lines: list[bytes]) -> list[bytes]:
    """Put brackets around the lines of a JSON list; returns texts to be joined."""
    return [b"[\n", *lines, b"\n]"] if any(lines) else [b"[]"]


def choose_ids(source_ids: NDArray[Any], least_id: int) -> list[int]:
    """Return the ids of the source if all are different whole numbers from `least_id` on; else 1, 2, ..."""
    ids = source_ids.tolist()
    are_valid = all(isinstance(i, int) and least_id <= i < 2**63 for i in ids)
    are_writable = are_valid and len(set(ids)) == len(ids)
    return ids if are_writable else list(range(1, len(ids) + 1))


def choose_box_ids(id_column: Longs) -> list[int]:
    """Return the annotation ids: those of the source from 1 on, and for other boxes the next numbers.

    They are 1, 2, ... if the ids of the source are not unique or too large.
    """
    has_id = id_column >= 1
    source_ids = id_column[has_id]
    n_without_id = len(id_column) - len(source_ids)
    if not len(source_ids) or len(np.unique(source_ids)) != len(source_ids) or int(source_ids.max()) > 2**53:
        return list(range(1, len(id_column) + 1))
    ids = id_column.copy()
    ids[~has_id] = np.arange(n_without_id) + int(source_ids.max()) + 1
    listed_ids: list[int] = ids.tolist()
    return listed_ids
