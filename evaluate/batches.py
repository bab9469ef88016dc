"""The batches that a `Metric` keeps: boxes of images in columns, read from arrays of any library.

A batch is checked as a whole before anything of it is kept. `to_bytes` and `from_bytes` are the state of a
metric as a header and arrays; nothing in it is executed when it is read.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.arrays import to_array
from odm.tables import NO_ID, Flag, Floats, Longs

FLAGS = {"iscrowd": Flag.CROWD, "difficult": Flag.DIFFICULT}
"""The fields of a target that mark boxes, and the flag that each sets."""
_PLAIN = {name.removeprefix("is"): name for name in (*FLAGS, "area")}
"""The optional fields of ground truth, by the form to which `_refuse_misspelled` reduces a spelling.

These are crowd: iscrowd, difficult: difficult, area: area.
"""

MAGIC = b"odm.Metric\n"
STATE_VERSION = 2
_MIXED = "some are whole numbers and some are text; use one kind"
_DAMAGED = "the state of a metric is damaged"

# Shared, because one for each image would be a tenth of the time of an update.
_NO_VALUES, _NO_COUNTS, _NO_SIZES = np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros((0, 2), np.int32)


class ImageBoxes(msgspec.Struct, frozen=True, eq=False):
    """The boxes of one side of some images, image by image, with the dtypes that they were passed in."""

    count: NDArray[np.int32]
    """(images,) how many boxes each image has."""
    boxes: NDArray[np.floating[Any]]
    """(n, 4)"""
    label: NDArray[np.int32]
    score: NDArray[np.floating[Any]]
    """(n,), of ground truth (0,)."""
    flags: NDArray[np.uint16]
    """(n,), of detections (0,)."""
    area: Floats
    """(n,), NaN = width * height; (0,) where none was given."""
    shape: NDArray[Any] = msgspec.field(default_factory=lambda: _NO_VALUES)
    """(values,) the shapes of all boxes, see `odm.evaluate.batch_shapes`; (0,) where boxes are compared."""
    n_values: NDArray[np.int64] = msgspec.field(default_factory=lambda: _NO_COUNTS)
    """(n,) how many values of `shape` each box has; (0,) where boxes are compared."""
    mask_size: NDArray[np.int32] = msgspec.field(default_factory=lambda: _NO_SIZES)
    """(n, 2) height and width of each mask, else 0; (0, 2) where boxes are compared."""

    @classmethod
    def join(cls, parts: Sequence[ImageBoxes]) -> ImageBoxes:
        """Concatenate the boxes of several batches; areas that only some have are NaN in the others."""
        has_shapes = any(len(p.n_values) for p in parts)
        names = _COLUMNS if has_shapes else _COLUMNS[: -len(_SHAPE_COLUMNS)]
        columns = {name: [getattr(p, name) for p in parts] for name in names}
        if any(len(p.area) for p in parts):
            columns["area"] = [p.area if len(p.area) else np.full(len(p.label), np.nan) for p in parts]
        return cls(**{name: np.concatenate(arrays) for name, arrays in columns.items()})

    def take(self, images: Longs) -> ImageBoxes:
        """Return the boxes of these images, in this order."""
        rows = _list_positions(self.count, images)
        columns = {
            name: column[rows] if len(column) and name != "shape" else column
            for name, column in get_columns(self).items()
        }
        if len(self.n_values):  # `shape` has `n_values` rows for a box, the other columns one
            columns["shape"] = self.shape[_list_positions(self.n_values, rows)]
        return ImageBoxes(self.count[images], **columns)

    def list_contents(self) -> list[bytes]:
        """Return the bytes of each image's boxes, which do not depend on the dtypes of the arrays."""
        columns = (
            self.boxes.astype("<f8"),
            self.label.astype("<i4")[:, None],
            self.score.astype("<f8")[:, None],
            self.flags.astype("<u2")[:, None],
            self.area.astype("<f8")[:, None],
            self.n_values.astype("<i8")[:, None],
            self.mask_size.astype("<i4"),
        )
        # (n, bytes of a box): the values of each box side by side. Columns that are absent are empty.
        table = np.hstack(
            [np.ascontiguousarray(c).view(np.uint8) for c in columns if len(c) == len(self.label)]
        )
        row_starts = np.append(0, np.cumsum(self.count, dtype=np.int64))
        contents = [table[start:stop].tobytes() for start, stop in itertools.pairwise(row_starts.tolist())]
        if not len(self.n_values):
            return contents
        values_before = np.append(0, np.cumsum(self.n_values))  # how many before each box, in `shape`
        value_starts = values_before[row_starts].tolist()  # of each image, and the end of the last
        shapes = (self.shape[start:stop].tobytes() for start, stop in itertools.pairwise(value_starts))
        return [content + shape for content, shape in zip(contents, shapes, strict=True)]


_COLUMNS = ImageBoxes.__struct_fields__
_SHAPE_COLUMNS = _COLUMNS[-3:]  # shape, n_values, mask_size


def get_columns(side: ImageBoxes) -> dict[str, NDArray[Any]]:
    """Return the columns of the boxes of one side by name: all fields but `count`, which is of images."""
    return {name: getattr(side, name) for name in _COLUMNS if name != "count"}


def _list_positions(count: NDArray[Any], groups: Longs) -> Longs:
    """Return the positions of the items of the chosen groups; group g has ``count[g]`` items."""
    # count [2, 3], chosen [1, 0]: the groups begin at 0 and 2, so the positions are 2 3 4 and 0 1.
    start = np.cumsum(count, dtype=np.int64) - count
    count = count[groups]
    offset = np.cumsum(count, dtype=np.int64) - count
    return np.repeat(start[groups] - offset, count) + np.arange(int(count.sum()))


class Batch(msgspec.Struct, frozen=True, eq=False):
    """The boxes of some images, on both sides."""

    ids: NDArray[Any] | None
    """(images,) int64, or str as objects; None where none were given."""
    detections: ImageBoxes
    truth: ImageBoxes

    def __len__(self) -> int:
        return len(self.truth.count)

    @classmethod
    def join(cls, batches: Sequence[Batch]) -> Batch:
        """Return several batches as one; all have ids of one kind, or none has."""
        ids = [b.ids for b in batches if b.ids is not None]
        return cls(  # with an empty batch, so that there is always something to concatenate
            np.concatenate(ids) if ids else None,
            ImageBoxes.join([EMPTY.detections, *(b.detections for b in batches)]),
            ImageBoxes.join([EMPTY.truth, *(b.truth for b in batches)]),
        )

    def take(self, images: Longs) -> Batch:
        """Return the batch of the images at these positions, in their order."""
        ids = None if self.ids is None else self.ids[images]
        return Batch(ids, self.detections.take(images), self.truth.take(images))

    def list_contents(self) -> list[bytes]:
        """Return the bytes of each image's boxes on both sides, ground truth first.

        The length of the ground truth stands before it, as in ``b"26 ..."``: otherwise the same boxes could
        be read as those of the other side.
        """
        sides = zip(self.truth.list_contents(), self.detections.list_contents(), strict=True)
        return [b"%d " % len(truth) + truth + detections for truth, detections in sides]

    @property
    def id_kind(self) -> str:
        """The kind of the image ids, in words."""
        return "nothing" if self.ids is None else "whole numbers" if self.ids.dtype.kind == "i" else "text"


_NONE = ImageBoxes(
    np.zeros(0, np.int32),
    np.zeros((0, 4), np.float16),  # which changes the type of nothing that it is joined with
    np.zeros(0, np.int32),
    np.zeros(0, np.float16),
    np.zeros(0, np.uint16),
    np.zeros(0),
)
EMPTY = Batch(None, _NONE, _NONE)


# ----------------------------------------------------------------------------------------------- ids


def to_ids(values: Iterable[Any], field: str = "image_ids") -> NDArray[Any]:
    """Return (n,) ids: int64, or str as objects.

    Raises ValueError if one is neither a whole number of 64 bits nor text, or both kinds occur; the message
    begins with `field`.
    """
    ids = [image_id.item() if hasattr(image_id, "item") else image_id for image_id in values]
    invalid_ids = [
        image_id for image_id in ids if isinstance(image_id, bool) or not isinstance(image_id, int | str)
    ]
    if invalid_ids:
        raise ValueError(f"{field}: expected whole numbers or text, found {invalid_ids[0]!r}")
    n_text = sum(isinstance(image_id, str) for image_id in ids)
    if 0 < n_text < len(ids):
        raise ValueError(f"{field}: {_MIXED}")
    if n_text:
        column = np.empty(len(ids), object)
        column[:] = ids
        return column
    if any(not NO_ID < image_id < 2**63 for image_id in ids):  # `NO_ID`, -2**63, means that there is none
        raise ValueError(f"{field}: whole numbers must fit in 64 bits; pass larger ones as text")
    return np.array(ids, np.int64)


def parse_class_ids(classes: Mapping[Any, str]) -> tuple[NDArray[np.int32], list[str]]:
    """Return the ids of classes ``{id: name}``, ascending, and the names in this order.

    Text of digits is an id too, as JSON writes it. Raises ValueError if an id is no whole number of 32 bits,
    or is listed twice.
    """
    names: dict[int, str] = {}
    for key, name in classes.items():
        value = key.item() if hasattr(key, "item") else key
        value = int(value) if isinstance(value, str) and value.isdecimal() else value
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
            raise ValueError(f"classes: expected whole numbers from 0 as ids of classes, found {key!r}")
        if value in names:
            raise ValueError(f"classes: the id {value} is listed twice")
        names[value] = name
    return np.array(sorted(names), np.int32), [names[value] for value in sorted(names)]


# ---------------------------------------------------------------------------------- reading a batch


class BatchReader(msgspec.Struct, frozen=True):
    """Reads and checks batches: how many classes there are, what a row of boxes means, what is compared."""

    n_classes: int
    box: str
    class_ids: NDArray[np.int32] | None = None
    """(n_classes,) ascending, what labels are where classes have ids; None where they are positions."""
    iou_type: str = "bbox"

    def read_listed(self, preds: Any, target: Any, image_ids: Iterable[Any] | None) -> Batch:
        """Read a batch from lists with a mapping for each image. Raises ValueError if it is invalid."""
        preds, target = list(preds), list(target)
        if len(preds) != len(target):
            raise ValueError(f"preds has {len(preds)} images, target {len(target)}")
        ids = None if image_ids is None else to_ids(image_ids)
        if ids is not None and len(ids) != len(preds):
            raise ValueError(f"image_ids has {len(ids)} entries for {len(preds)} images")
        names = [f"image {i}" for i in (range(len(preds)) if ids is None else ids.tolist())]
        sides = self._read_images(preds, names, scored=True), self._read_images(target, names, scored=False)
        self._check_sizes(sides, names)
        return Batch(ids, *sides)

    def _check_sizes(self, sides: Sequence[ImageBoxes], names: Sequence[str]) -> None:
        """Raise ValueError if the masks of an image differ in size; other shapes are not looked at."""
        if self.iou_type in ("segm", "boundary"):
            from odm.evaluate.batch_shapes import check_sizes

            image = np.concatenate([np.repeat(np.arange(len(names)), side.count) for side in sides])
            check_sizes(image, np.concatenate([side.mask_size for side in sides]), names)

    def read_flat(self, preds: Mapping[str, Any], target: Any, image_ids: Iterable[Any] | None) -> Batch:
        """Read a batch from one mapping for each side, whose ``image`` is the image of each row.

        `image_ids` lists all images, also those without rows; None = those that have rows. The images of the
        batch are in ascending order of their ids. Raises ValueError if the batch is invalid.
        """
        if not isinstance(target, Mapping):
            raise ValueError("preds is a single mapping, so target must be one too")  # noqa: TRY004 -- documented
        ids_of_rows = [_read_row_ids(preds, "preds"), _read_row_ids(target, "target")]
        unique_ids = _list_image_ids(ids_of_rows, None if image_ids is None else to_ids(image_ids))
        names = [f"image {i}" for i in unique_ids.tolist()]
        sides = []
        for ids, side_name, side in zip(ids_of_rows, ("preds", "target"), (preds, target), strict=True):
            columns = self._read_columns(side, side_name, scored=side_name == "preds")
            if len(columns["label"]) != len(ids):
                raise ValueError(f"{side_name}: image has {len(ids)} rows, labels {len(columns['label'])}")
            image_index = np.searchsorted(unique_ids, ids) if len(ids) else np.zeros(0, np.int64)
            order = np.argsort(image_index, kind="stable")
            count = np.bincount(image_index, minlength=len(unique_ids)).astype(np.int32)
            # Sort the rows by image: `take` orders images, so each row counts as an image of one box.
            sorted_boxes = ImageBoxes(np.ones(len(ids), np.int32), **columns).take(order)
            sides.append(self.check(count, get_columns(sorted_boxes), names))
        self._check_sizes(sides, names)
        return Batch(unique_ids, *sides)

    def _read_images(self, images: Sequence[Any], names: Sequence[str], *, scored: bool) -> ImageBoxes:
        """Read the boxes of one side of listed images; `scored` says that they are detections."""
        if not images:
            return _NONE
        boxes_by_image = []
        for image, name in zip(images, names, strict=True):
            if not isinstance(image, Mapping):
                type_name = type(image).__name__
                raise ValueError(f"{name}: expected a mapping with boxes and labels, found {type_name}")  # noqa: TRY004
            columns = self._read_columns(image, name, scored=scored)
            boxes_by_image.append(ImageBoxes(np.array([len(columns["label"])], np.int32), **columns))
        all_boxes = ImageBoxes.join(boxes_by_image)
        return self.check(all_boxes.count, get_columns(all_boxes), names)

    def _read_columns(self, fields: Mapping[str, Any], name: str, *, scored: bool) -> dict[str, NDArray[Any]]:
        """Read the columns of one mapping, with its shapes.

        Without ``boxes`` they are those around the shapes; without ``area`` it is that of the masks.
        """
        if self.iou_type == "bbox":
            return _read_columns(fields, name, scored=scored)
        from odm.evaluate import batch_shapes

        field = batch_shapes.FIELDS[self.iou_type]
        for key in (field, "labels"):
            if fields.get(key) is None:
                raise ValueError(f"{name}: there are no {key}, and the metric compares {field}")
        n = to_array(fields["labels"], f"{name}: labels").size
        shapes, boxes_around = batch_shapes.read_shapes(fields[field], name, self.iou_type, n)
        if fields.get("boxes") is None:
            wh = boxes_around[:, 2:] - boxes_around[:, :2]
            first_columns = boxes_around[:, :2] + wh / 2 if self.box == "cxcywh" else boxes_around[:, :2]
            fields = {
                **fields,
                "boxes": boxes_around if self.box == "xyxy" else np.hstack([first_columns, wh]),
            }
        columns = _read_columns(fields, name, scored=scored)
        if len(columns["area"]) and "area" in shapes:  # areas that are given go before those of the masks
            shapes["area"] = np.where(np.isnan(columns["area"]), shapes["area"], columns["area"])
        return {**columns, **shapes}

    def check(
        self, count: NDArray[np.int32], columns: Mapping[str, NDArray[Any]], names: Sequence[str]
    ) -> ImageBoxes:
        """Return the boxes of images as `ImageBoxes`, if their values are possible.

        `count` (images,) are the boxes of each image, `columns` those of all boxes. Raises ValueError with
        the name of the first image that has an impossible value.
        """
        boxes, label, score, area = (columns[k] for k in ("boxes", "label", "score", "area"))

        def refuse(is_bad: Any, field: str, expectation: str, values: NDArray[Any]) -> None:
            """Raise ValueError for the first row of `values` that `is_bad` (n,) marks."""
            if is_bad.any():
                row = int(is_bad.argmax())
                image = int(np.searchsorted(np.cumsum(count), row, side="right"))
                raise ValueError(f"{names[image]}: {field}: {expectation}, found {values[row].tolist()}")

        if label.dtype.kind == "f":
            refuse(label != np.floor(label), "labels", "expected whole numbers", label)
        if self.class_ids is None:
            is_outside = (label < 0) | (label >= self.n_classes)
            refuse(is_outside, "labels", f"expected 0..{self.n_classes - 1}", label)
        else:
            example_ids = ", ".join(map(str, self.class_ids[:5].tolist())) + ", ..." * (self.n_classes > 5)
            refuse(
                ~np.isin(label, self.class_ids), "labels", f"expected an id of a class: {example_ids}", label
            )
        refuse(~np.isfinite(boxes).all(axis=1), "boxes", "expected finite numbers", boxes)
        if self.box == "xyxy":
            is_inverted, fault = boxes[:, 2:] < boxes[:, :2], "right < left or bottom < top"
        else:
            is_inverted, fault = boxes[:, 2:] < 0, "negative width or height"
        refuse(is_inverted.any(axis=1), "boxes", fault, boxes)
        refuse(~np.isfinite(score), "scores", "expected finite numbers", score)
        refuse(np.isinf(area) | (area < 0), "area", "expected square pixels", area)
        return ImageBoxes(count, **{**columns, "label": label.astype(np.int32)})


def _read_row_ids(side: Mapping[str, Any], side_name: str) -> NDArray[Any]:
    """Return (n,) the id of each row's image. Raises ValueError if there are none."""
    if "image" not in side:
        raise ValueError(f"{side_name} has no image: the id of each row's image")
    image_column = to_array(side["image"], f"{side_name}: image", kinds="iuU").reshape(-1)  # integers or text
    return to_ids(image_column.tolist(), f"{side_name}: image")


def _list_image_ids(ids_of_rows: Sequence[NDArray[Any]], listed_ids: NDArray[Any] | None) -> NDArray[Any]:
    """Return (images,) the distinct ids of the rows of both sides and of the list, ascending.

    Raises ValueError if some are numbers and some text, or if there is a list that lacks the id of a row.
    """
    id_arrays = [ids for ids in (*ids_of_rows, listed_ids) if ids is not None and len(ids)]
    if len({ids.dtype.kind for ids in id_arrays}) > 1:
        raise ValueError(f"image: {_MIXED}")
    unique_ids = np.unique(np.concatenate(id_arrays)) if id_arrays else np.zeros(0, np.int64)
    if listed_ids is not None and (is_unlisted := ~np.isin(unique_ids, listed_ids)).any():
        raise ValueError(f"image {unique_ids[is_unlisted][0]!s} is not in image_ids")
    return unique_ids


def _refuse_misspelled(fields: Mapping[str, Any], name: str) -> None:
    """Raise ValueError for an optional field of ground truth in another spelling, such as ``is_crowd``.

    It would count for nothing. Fields that other tools add, such as masks, may stay.
    """
    for key in fields:
        field_meant = _PLAIN.get(str(key).lower().replace("_", "").removeprefix("is").removesuffix("s"))
        if field_meant and key != field_meant:
            raise ValueError(f"{name}: {key}: not a field, use {field_meant}")


def _read_columns(fields: Mapping[str, Any], name: str, *, scored: bool) -> dict[str, NDArray[Any]]:
    """Read the columns of one mapping and check their shapes; values are not checked.

    `scored` says that it is of detections, which have scores, where ground truth has flags and areas.
    """
    if not scored:
        _refuse_misspelled(fields, name)
    for field in ("boxes", "labels", *(("scores",) if scored else ())):
        if field not in fields:
            raise ValueError(f"{name}: there is no {field}")
    boxes = to_array(fields["boxes"], f"{name}: boxes")
    label = to_array(fields["labels"], f"{name}: labels")
    n = label.size
    if boxes.size == n == 0:
        boxes, label = boxes.reshape(0, 4), label.reshape(0)
    if boxes.shape != (n, 4) or label.shape != (n,):
        shapes = f"boxes has shape {boxes.shape}, labels {label.shape}"
        raise ValueError(f"{name}: {shapes}; expected (n, 4) and (n,)")

    def column(field: str) -> NDArray[Any]:
        """Return the values (n,) of a field; ValueError if there are not n."""
        values = to_array(fields[field], f"{name}: {field}")
        if values.shape != (n,):
            raise ValueError(f"{name}: {field} has shape {values.shape}, expected ({n},)")
        return values

    flags = np.zeros(0 if scored else n, np.uint16)
    area = np.zeros(0)
    if not scored:
        for field, flag in FLAGS.items():
            if fields.get(field) is not None:
                flags[column(field).astype(np.bool_)] |= np.uint16(flag)
        if fields.get("area") is not None:
            area = column("area").astype(np.float64)
    score = _as_floats(column("scores")) if scored else _NONE.score
    return {"boxes": _as_floats(boxes), "label": label, "score": score, "flags": flags, "area": area}


def _as_floats(values: NDArray[Any]) -> NDArray[np.floating[Any]]:
    """Floats of at most 64 bits, unchanged where they are that already."""
    is_float = values.dtype.kind == "f" and values.dtype.itemsize <= 8
    return values if is_float else values.astype(np.float64)


# ------------------------------------------------------------------------------------------- the state


def to_bytes(settings: Mapping[str, Any], batch: Batch, *, merged: bool = False) -> bytes:
    """Serialise the settings of a metric, its batches, and whether it was `merged` from several metrics."""
    arrays = {
        f"{side_name}.{name}": getattr(side, name)
        for side_name, side in (("detections", batch.detections), ("truth", batch.truth))
        for name in _COLUMNS
        if name not in _SHAPE_COLUMNS or len(side.n_values)
    }
    text_ids = None
    if batch.ids is not None and batch.ids.dtype.kind == "i":
        arrays["ids"] = batch.ids
    elif batch.ids is not None:
        text_ids = batch.ids.tolist()
    arrays_to_write = [np.ascontiguousarray(a, a.dtype.newbyteorder("<")) for a in arrays.values()]
    descriptions = [[k, p.dtype.str, list(p.shape)] for k, p in zip(arrays, arrays_to_write, strict=True)]
    head = {"version": STATE_VERSION, "settings": settings, "text_ids": text_ids, "arrays": descriptions}
    head["merged"] = merged
    header = json.dumps(head).encode()
    body = b"".join(
        [MAGIC, len(header).to_bytes(8, "little"), header, *(p.tobytes() for p in arrays_to_write)]
    )
    return body + zlib.crc32(body).to_bytes(4, "little")


def from_bytes(data: bytes) -> tuple[Any, Batch, bool]:
    """Return the settings, the batch and `merged` that `to_bytes` serialised; values are not checked.

    Raises ValueError if the bytes are not a state, are cut or damaged, or are of another version.
    """
    # MAGIC | length of the header (8 bytes) | header (JSON) | arrays | CRC-32 of all that (4 bytes)
    header_start = len(MAGIC) + 8
    if not data.startswith(MAGIC) or len(data) < header_start:
        raise ValueError("these bytes are not the state of a metric")
    arrays_start = header_start + int.from_bytes(data[len(MAGIC) : header_start], "little")
    try:
        head = json.loads(data[header_start:arrays_start])
        version, settings = head["version"], head["settings"]
        text_ids, descriptions = head["text_ids"], head["arrays"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError(f"{_DAMAGED}: its header cannot be read") from None
    if version != STATE_VERSION:
        raise ValueError(f"the state of a metric has version {version!r}; this odm reads {STATE_VERSION}")
    if zlib.crc32(memoryview(data)[:-4]) != int.from_bytes(data[-4:], "little"):
        raise ValueError(f"{_DAMAGED}: its checksum is wrong")
    try:
        arrays = _read_arrays(data[:-4], arrays_start, descriptions)
        detections, truth = (_take_side(arrays, side_name) for side_name in ("detections", "truth"))
        ids = arrays.get("ids") if text_ids is None else to_ids(text_ids)
    except (TypeError, KeyError, ValueError, OverflowError) as e:
        raise ValueError(f"{_DAMAGED}: {e}") from None
    n_images = {len(detections.count), len(truth.count)} | ({len(ids)} if ids is not None else set())
    # `n_images` has a single number if both sides and the ids agree.
    has_columns = _fits(detections, scored=True) and _fits(truth, scored=False)
    if len(n_images) > 1 or not has_columns or (ids is not None and ids.ndim != 1):
        raise ValueError(f"{_DAMAGED}: its columns do not match")
    return settings, Batch(ids, detections, truth), bool(head.get("merged"))


def _read_arrays(data: bytes, offset: int, descriptions: Iterable[Any]) -> dict[str, NDArray[Any]]:
    """Read arrays by name from the bytes after `offset`, where they follow one another up to the end.

    `descriptions` are (name, dtype, shape) of each, as `to_bytes` writes them. Raises ValueError if they are
    not of numbers, or there are fewer or more bytes than they take.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for name, dtype_name, shape in descriptions:
        dtype = np.dtype(dtype_name)
        if dtype.kind not in "iuf" or not all(isinstance(length, int) and length >= 0 for length in shape):
            raise ValueError("unexpected array type")
        count = int(np.prod(shape, dtype=object))  # of Python's integers, which do not overflow
        if offset + count * dtype.itemsize > len(data):
            raise ValueError("it is truncated")
        arrays[name] = np.frombuffer(data, dtype, count, offset).reshape(shape)
        offset += count * dtype.itemsize
    if offset != len(data):
        raise ValueError("extra bytes after its end")
    return arrays


def _take_side(arrays: Mapping[str, NDArray[Any]], side_name: str) -> ImageBoxes:
    """Make one side of its arrays, ``truth.count`` and so on; only the columns of shapes may be absent."""
    names = [c for c in _COLUMNS if c not in _SHAPE_COLUMNS or f"{side_name}.{c}" in arrays]
    return ImageBoxes(**{name: arrays[f"{side_name}.{name}"] for name in names})


# Of each column the kind of its dtype: integers, floats or unsigned integers.
_KINDS = {"count": "i", "boxes": "f", "label": "i", "score": "f", "flags": "u", "area": "f"}


def _fits(side: ImageBoxes, *, scored: bool) -> bool:
    """Return whether the columns of one side, detections if `scored`, have the right dtypes and lengths."""
    n = len(side.label)
    lengths = {"score": (n if scored else 0,), "flags": (0 if scored else n,)}
    return (
        all(getattr(side, name).dtype.kind == kind for name, kind in _KINDS.items())
        and all(getattr(side, name).shape == shape for name, shape in lengths.items())
        and side.label.shape == (n,)
        and side.boxes.shape == (n, 4)
        and side.area.shape in ((0,), (n,))
        # Both without shapes, or both with them.
        and (side.n_values.shape, side.mask_size.shape) in (((0,), (0, 2)), ((n,), (n, 2)))
        and bool((side.n_values >= 0).all())
        and side.shape.shape == (int(side.n_values.sum(dtype=np.int64)),)
        and side.count.ndim == 1
        and bool((side.count >= 0).all())
        and int(side.count.sum(dtype=np.int64)) == n
    )
