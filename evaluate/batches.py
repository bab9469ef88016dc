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
"""What may be given of ground truth, by how it begins and ends in any spelling."""

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
        """Concatenate the boxes of several batches."""
        has_shapes = any(len(p.n_values) for p in parts)
        names = _COLUMNS if has_shapes else _COLUMNS[: -len(_SHAPE_COLUMNS)]
        columns = {name: [getattr(p, name) for p in parts] for name in names}
        if any(len(p.area) for p in parts):
            columns["area"] = [p.area if len(p.area) else np.full(len(p.label), np.nan) for p in parts]
        return cls(**{name: np.concatenate(arrays) for name, arrays in columns.items()})

    def take(self, images: Longs) -> ImageBoxes:
        """Return the boxes of these images, in this order."""
        rows = _positions(self.count, images)
        columns = {name: getattr(self, name) for name in _COLUMNS[1:]}
        columns = {
            k: column[rows] if len(column) and k != "shape" else column for k, column in columns.items()
        }
        if len(self.n_values):
            columns["shape"] = self.shape[_positions(self.n_values, rows)]
        return ImageBoxes(self.count[images], **columns)

    def content(self) -> list[bytes]:
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
        table = np.hstack(
            [np.ascontiguousarray(c).view(np.uint8) for c in columns if len(c) == len(self.label)]
        )
        ends = np.append(0, np.cumsum(self.count, dtype=np.int64))
        contents = [table[a:b].tobytes() for a, b in itertools.pairwise(ends.tolist())]
        if not len(self.n_values):
            return contents
        values = np.append(0, np.cumsum(self.n_values))[ends].tolist()
        shapes = (self.shape[a:b].tobytes() for a, b in itertools.pairwise(values))
        return [content + shape for content, shape in zip(contents, shapes, strict=True)]


_COLUMNS = ImageBoxes.__struct_fields__
_SHAPE_COLUMNS = _COLUMNS[-3:]


def columns_of(side: ImageBoxes) -> dict[str, NDArray[Any]]:
    """Return the columns of the boxes of one side by name."""
    return {name: getattr(side, name) for name in _COLUMNS[1:]}


def _positions(count: NDArray[Any], chosen: Longs) -> Longs:
    """Return the positions of the items of the chosen groups; group g has ``count[g]`` items."""
    # count [2, 3], chosen [1, 0]: the groups begin at 0 and 2, so the positions are 2 3 4 and 0 1.
    start = np.cumsum(count, dtype=np.int64) - count
    count = count[chosen]
    offset = np.cumsum(count, dtype=np.int64) - count
    return np.repeat(start[chosen] - offset, count) + np.arange(int(count.sum()))


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
        return cls(
            np.concatenate(ids) if ids else None,
            ImageBoxes.join([EMPTY.detections, *(b.detections for b in batches)]),
            ImageBoxes.join([EMPTY.truth, *(b.truth for b in batches)]),
        )

    def take(self, images: Longs) -> Batch:
        """Return the batch of the images at these positions, in their order."""
        ids = None if self.ids is None else self.ids[images]
        return Batch(ids, self.detections.take(images), self.truth.take(images))

    def content(self) -> list[bytes]:
        """Return the bytes of each image's boxes on both sides, ground truth first."""
        sides = zip(self.truth.content(), self.detections.content(), strict=True)
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


def to_ids(values: Iterable[Any], what: str = "image_ids") -> NDArray[Any]:
    """(n,) ids: int64, or str as objects.

    Raises
    ------
    ValueError
        If one is neither a whole number of 64 bits nor text, or both kinds occur.
    """
    ids = [i.item() if hasattr(i, "item") else i for i in values]
    odd = [i for i in ids if isinstance(i, bool) or not isinstance(i, int | str)]
    if odd:
        raise ValueError(f"{what}: expected whole numbers or text, found {odd[0]!r}")
    n_text = sum(isinstance(i, str) for i in ids)
    if 0 < n_text < len(ids):
        raise ValueError(f"{what}: {_MIXED}")
    if n_text:
        column = np.empty(len(ids), object)
        column[:] = ids
        return column
    if any(not NO_ID < i < 2**63 for i in ids):
        raise ValueError(f"{what}: whole numbers must fit in 64 bits; pass larger ones as text")
    return np.array(ids, np.int64)


def class_ids(classes: Mapping[Any, str]) -> tuple[NDArray[np.int32], list[str]]:
    """The ids of classes ``{id: name}``, ascending, and the names in this order.

    ValueError if an id is no whole number of 32 bits; text of digits is one, as JSON writes it.
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

    def listed(self, preds: Any, target: Any, image_ids: Iterable[Any] | None) -> Batch:
        """Return a batch from lists with a mapping for each image."""
        preds, target = list(preds), list(target)
        if len(preds) != len(target):
            raise ValueError(f"preds has {len(preds)} images, target {len(target)}")
        ids = None if image_ids is None else to_ids(image_ids)
        if ids is not None and len(ids) != len(preds):
            raise ValueError(f"image_ids has {len(ids)} entries for {len(preds)} images")
        names = [f"image {i}" for i in (range(len(preds)) if ids is None else ids.tolist())]
        sides = self._images(preds, names, scored=True), self._images(target, names, scored=False)
        self._check_sizes(sides, names)
        return Batch(ids, *sides)

    def _check_sizes(self, sides: Sequence[ImageBoxes], names: Sequence[str]) -> None:
        """Check that all masks of an image have one size."""
        if self.iou_type in ("segm", "boundary"):
            from odm.evaluate.batch_shapes import check_sizes

            image = np.concatenate([np.repeat(np.arange(len(names)), side.count) for side in sides])
            check_sizes(image, np.concatenate([side.mask_size for side in sides]), names)

    def flat(self, preds: Mapping[str, Any], target: Any, image_ids: Iterable[Any] | None) -> Batch:
        """Return a batch from one mapping for each side, whose ``image`` is the image of each row."""
        if not isinstance(target, Mapping):
            raise ValueError("preds is a single mapping, so target must be one too")  # noqa: TRY004 -- documented
        owners = []
        for what, side in (("preds", preds), ("target", target)):
            if "image" not in side:
                raise ValueError(f"{what} has no image: the id of each row's image")
            image_column = to_array(side["image"], f"{what}: image", "iuU").reshape(-1)
            owners.append(to_ids(image_column.tolist() if len(image_column) else [], f"{what}: image"))
        named = None if image_ids is None else to_ids(image_ids)
        parts = [ids for ids in (*owners, named) if ids is not None and len(ids)]
        if len({ids.dtype.kind for ids in parts}) > 1:
            raise ValueError(f"image: {_MIXED}")
        images = np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
        if named is not None and (strange := ~np.isin(images, named)).any():
            raise ValueError(f"image {images[strange][0]!s} is not in image_ids")
        names = [f"image {i}" for i in images.tolist()]
        sides = []
        for ids, what, side in zip(owners, ("preds", "target"), (preds, target), strict=True):
            columns = self._columns(side, what, scored=what == "preds")
            if len(columns["label"]) != len(ids):
                raise ValueError(f"{what}: image has {len(ids)} rows, labels {len(columns['label'])}")
            number = np.searchsorted(images, ids) if len(ids) else np.zeros(0, np.int64)
            order = np.argsort(number, kind="stable")
            count = np.bincount(number, minlength=len(images)).astype(np.int32)
            rows = ImageBoxes(np.ones(len(ids), np.int32), **columns).take(order)
            sides.append(self.checked(count, columns_of(rows), names))
        self._check_sizes(sides, names)
        return Batch(images, *sides)

    def _images(self, images: Sequence[Any], names: Sequence[str], *, scored: bool) -> ImageBoxes:
        """Return the boxes of one side of listed images; `scored` says that they are detections."""
        if not images:
            return _NONE
        parts = []
        for image, name in zip(images, names, strict=True):
            if not isinstance(image, Mapping):
                type_name = type(image).__name__
                raise ValueError(f"{name}: expected a mapping with boxes and labels, found {type_name}")  # noqa: TRY004
            columns = self._columns(image, name, scored=scored)
            parts.append(ImageBoxes(np.array([len(columns["label"])], np.int32), **columns))
        whole = ImageBoxes.join(parts)
        return self.checked(whole.count, columns_of(whole), names)

    def _columns(self, fields: Mapping[str, Any], name: str, *, scored: bool) -> dict[str, NDArray[Any]]:
        """Return the columns of one mapping, with its shapes; boxes left out are those around them."""
        if self.iou_type == "bbox":
            return _columns(fields, name, scored=scored)
        from odm.evaluate import batch_shapes

        field = batch_shapes.FIELDS[self.iou_type]
        for key in (field, "labels"):
            if fields.get(key) is None:
                raise ValueError(f"{name}: there are no {key}, and the metric compares {field}")
        n = to_array(fields["labels"], f"{name}: labels").size
        shapes, around = batch_shapes.read_shapes(fields[field], name, self.iou_type, n)
        if fields.get("boxes") is None:
            wh = around[:, 2:] - around[:, :2]
            start = around[:, :2] + wh / 2 if self.box == "cxcywh" else around[:, :2]
            fields = {**fields, "boxes": around if self.box == "xyxy" else np.hstack([start, wh])}
        columns = _columns(fields, name, scored=scored)
        if len(columns["area"]) and "area" in shapes:
            shapes["area"] = np.where(np.isnan(columns["area"]), shapes["area"], columns["area"])
        return {**columns, **shapes}

    def checked(
        self, count: NDArray[np.int32], columns: Mapping[str, NDArray[Any]], names: Sequence[str]
    ) -> ImageBoxes:
        """Return the boxes of some images.

        Raises ValueError that names the first image with impossible values.
        """
        boxes, label, score, area = (columns[k] for k in ("boxes", "label", "score", "area"))

        def refuse(bad: Any, field: str, what: str, values: NDArray[Any]) -> None:
            if bad.any():
                row = int(bad.argmax())
                image = int(np.searchsorted(np.cumsum(count), row, side="right"))
                raise ValueError(f"{names[image]}: {field}: {what}, found {values[row].tolist()}")

        if label.dtype.kind == "f":
            refuse(label != np.floor(label), "labels", "expected whole numbers", label)
        if self.class_ids is None:
            beyond = (label < 0) | (label >= self.n_classes)
            refuse(beyond, "labels", f"expected 0..{self.n_classes - 1}", label)
        else:
            some = ", ".join(map(str, self.class_ids[:5].tolist())) + ", ..." * (self.n_classes > 5)
            refuse(~np.isin(label, self.class_ids), "labels", f"expected an id of a class: {some}", label)
        refuse(~np.isfinite(boxes).all(axis=1), "boxes", "expected finite numbers", boxes)
        if self.box == "xyxy":
            inverted, what = boxes[:, 2:] < boxes[:, :2], "right < left or bottom < top"
        else:
            inverted, what = boxes[:, 2:] < 0, "negative width or height"
        refuse(inverted.any(axis=1), "boxes", what, boxes)
        refuse(~np.isfinite(score), "scores", "expected finite numbers", score)
        refuse(np.isinf(area) | (area < 0), "area", "expected square pixels", area)
        return ImageBoxes(count, **{**columns, "label": label.astype(np.int32)})


def _columns(fields: Mapping[str, Any], name: str, *, scored: bool) -> dict[str, NDArray[Any]]:
    """Return the columns of one mapping with the right shapes; values are not checked."""
    for key in fields:
        # A flag of another spelling would count for nothing; what other tools add, such as masks, may stay.
        meant = _PLAIN.get(str(key).lower().replace("_", "").removeprefix("is").removesuffix("s"))
        if not scored and meant and key != meant:
            raise ValueError(f"{name}: {key}: not a field, use {meant}")
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
    score = _floats(column("scores")) if scored else _NONE.score
    return {"boxes": _floats(boxes), "label": label, "score": score, "flags": flags, "area": area}


def _floats(values: NDArray[Any]) -> NDArray[np.floating[Any]]:
    """Floats of at most 64 bits, unchanged where they are that already."""
    keeps = values.dtype.kind == "f" and values.dtype.itemsize <= 8
    return values if keeps else values.astype(np.float64)


# ------------------------------------------------------------------------------------------- the state


def to_bytes(settings: Mapping[str, Any], batch: Batch, *, merged: bool = False) -> bytes:
    """Serialise the settings of a metric, its batches, and whether it was `merged` from several metrics."""
    arrays = {
        f"{what}.{name}": getattr(side, name)
        for what, side in (("detections", batch.detections), ("truth", batch.truth))
        for name in _COLUMNS
        if name not in _SHAPE_COLUMNS or len(side.n_values)
    }
    text = None
    if batch.ids is not None and batch.ids.dtype.kind == "i":
        arrays["ids"] = batch.ids
    elif batch.ids is not None:
        text = batch.ids.tolist()
    pieces = [np.ascontiguousarray(a, a.dtype.newbyteorder("<")) for a in arrays.values()]
    described = [[k, p.dtype.str, list(p.shape)] for k, p in zip(arrays, pieces, strict=True)]
    head = {"version": STATE_VERSION, "settings": settings, "text_ids": text, "arrays": described}
    head["merged"] = merged
    header = json.dumps(head).encode()
    body = b"".join([MAGIC, len(header).to_bytes(8, "little"), header, *(p.tobytes() for p in pieces)])
    return body + zlib.crc32(body).to_bytes(4, "little")


def from_bytes(data: bytes) -> tuple[Any, Batch, bool]:
    """Return what `to_bytes` serialised; values are not checked.

    Raises
    ------
    ValueError
        If the bytes are not a state, are cut or damaged, or are of another version.
    """
    at = len(MAGIC) + 8
    if not data.startswith(MAGIC) or len(data) < at:
        raise ValueError("these bytes are not the state of a metric")
    end = at + int.from_bytes(data[at - 8 : at], "little")
    try:
        head = json.loads(data[at:end])
        version, settings = head["version"], head["settings"]
        text, described = head["text_ids"], head["arrays"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError(f"{_DAMAGED}: its header cannot be read") from None
    if version != STATE_VERSION:
        raise ValueError(f"the state of a metric has version {version!r}; this odm reads {STATE_VERSION}")
    if zlib.crc32(memoryview(data)[:-4]) != int.from_bytes(data[-4:], "little"):
        raise ValueError(f"{_DAMAGED}: its checksum is wrong")
    data = data[:-4]
    try:
        arrays: dict[str, NDArray[Any]] = {}
        for name, dtype, shape in described:
            kind = np.dtype(dtype)
            if kind.kind not in "iuf" or not all(isinstance(n, int) and n >= 0 for n in shape):
                raise ValueError("unexpected array type")
            count = int(np.prod(shape, dtype=object))
            if end + count * kind.itemsize > len(data):
                raise ValueError("it is truncated")
            arrays[name] = np.frombuffer(data, kind, count, end).reshape(shape)
            end += count * kind.itemsize
        if end != len(data):
            raise ValueError("extra bytes after its end")
        sides = [
            ImageBoxes(
                **{
                    n: arrays.pop(f"{what}.{n}")
                    for n in _COLUMNS
                    if n not in _SHAPE_COLUMNS or f"{what}.{n}" in arrays
                }
            )
            for what in ("detections", "truth")
        ]
        ids = arrays.pop("ids", None) if text is None else to_ids(text)
    except (TypeError, KeyError, ValueError, OverflowError) as e:
        raise ValueError(f"{_DAMAGED}: {e}") from None
    batch = Batch(ids, *sides)
    n_images = {len(side.count) for side in sides} | ({len(ids)} if ids is not None else set())
    if len(n_images) > 1 or not all(map(_fits, sides, (True, False))) or (ids is not None and ids.ndim != 1):
        raise ValueError(f"{_DAMAGED}: its columns do not match")
    return settings, batch, bool(head.get("merged"))


_KINDS = {"count": "i", "boxes": "f", "label": "i", "score": "f", "flags": "u", "area": "f"}


def _fits(side: ImageBoxes, scored: bool) -> bool:
    """Return whether the columns of one side have the right dtypes and lengths."""
    n = len(side.label)
    lengths = {"score": (n if scored else 0,), "flags": (0 if scored else n,)}
    return (
        all(getattr(side, name).dtype.kind == kind for name, kind in _KINDS.items())
        and all(getattr(side, name).shape == shape for name, shape in lengths.items())
        and side.label.shape == (n,)
        and side.boxes.shape == (n, 4)
        and side.area.shape in ((0,), (n,))
        and (side.n_values.shape, side.mask_size.shape) in (((0,), (0, 2)), ((n,), (n, 2)))
        and bool((side.n_values >= 0).all())
        and side.shape.shape == (int(side.n_values.sum(dtype=np.int64)),)
        and side.count.ndim == 1
        and bool((side.count >= 0).all())
        and int(side.count.sum(dtype=np.int64)) == n
    )
