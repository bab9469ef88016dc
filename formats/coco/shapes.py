"""Outlines, masks, oriented boxes and keypoints of COCO's records, as they are read."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.codes import KEYPOINT_COUNT, MASK_SYNTAX, OUTLINE_NUMBERS
from odm.formats._shared.codes import DUPLICATE_BOX_KEY
from odm.formats._shared.json.number_lists import NumberLists
from odm.formats._shared.json.record_types import Decoding, Field
from odm.formats._shared.shapes.rotation import parse_turn
from odm.issues import Code
from odm.masks.runs import MOST_PIXELS, offsets, write_texts
from odm.tables import Floats, Keypoints, Longs, ShapeKind, Shapes
from odm.tables.extra_fields import NOTHING
from odm.tables.shapes import as_rectangles, rectangle_corners

ORIENTED_KEYS = ("obb", "rbox", "poly")
"""Keys of an oriented box: centre, width, height and radians, or eight numbers."""
LIST_KEYS = ("keypoints", *ORIENTED_KEYS)
"""Keys of lists of numbers."""
SHAPE_KEYS = ("segmentation", "keypoints", *ORIENTED_KEYS)
"""Keys of records that say where an object is, as the box does."""
_KEYS = {
    "polygon": ("segmentation",),
    "mask": ("segmentation",),
    "oriented": (*ORIENTED_KEYS, "segmentation"),
    "keypoints": ("keypoints", "num_keypoints"),
}
_SAME_CORNER = 0.01
"""Pixels by which an oriented box may differ from the outline beside it that has its corners as written."""
_BATCH = 2048

Fault = tuple[int, Code, str, dict[str, Any]]
"""Row, code, key and the values of the message."""


def list_keys(wants: Collection[str]) -> tuple[str, ...]:
    """Return the keys of records that hold the kinds of shapes in `wants`, such as ``polygon``."""
    return tuple(dict.fromkeys(key for word in _KEYS if word in wants for key in _KEYS[word]))


class _Mask(msgspec.Struct, gc=False):
    size: tuple[int, int]
    counts: str | list[int]


def list_fields(keys: Sequence[str], *, decodes: bool, outlines: bool) -> list[Field]:
    """Return the fields of records for all keys of shapes: `keys` are read, and others count as unread.

    With `decodes` lists of numbers, and with `outlines` also masks, are decoded together with the records;
    without, shapes stay JSON, as they are written again.
    """
    decodings: dict[str, Decoding] = {key: (list[float], _pack_lists) for key in LIST_KEYS if decodes}
    if decodes and outlines:
        decodings["segmentation"] = (_Mask, _pack_masks)
    fields = [Field(key, "kept", decoding=decodings.get(key)) for key in keys]
    return [*fields, *(Field(key, "raw") for key in SHAPE_KEYS if key not in keys)]


def _pack_lists(values: list[list[float]]) -> tuple[NumberLists, int]:
    """Pack lists of numbers; with the number of colons in their JSON, as a `Decoding` returns."""
    return NumberLists.pack(values), 0


def split_rotations(texts: Sequence[bytes]) -> tuple[Floats | None, list[bytes]]:
    """Split the JSON of the attributes of n records into CVAT's rotations and all other attributes.

    Returns (n,) radians, None if all are 0, and the n JSON texts: without the rotation where it is CVAT's and
    not 0, else unchanged.
    """
    turns, other_attributes = np.zeros(len(texts)), list(texts)
    for i, text in enumerate(texts):
        if b'"rotation"' in text:
            attributes = json.loads(text)
            if isinstance(attributes, dict) and (turn := parse_turn(attributes)):
                turns[i] = turn
                other_attributes[i] = json.dumps(
                    {k: v for k, v in attributes.items() if k != "rotation"}
                ).encode()
    return (turns if turns.any() else None), other_attributes


def turn_boxes(xyxy: Floats, turn: Floats) -> Shapes:
    """Turn (n, 4) edges about their centres by (n,) radians; return the oriented boxes.

    `xyxy` is changed in place to the edges around the turned boxes.
    """
    size = xyxy[:, 2:] - xyxy[:, :2]
    corners = rectangle_corners(np.column_stack([xyxy[:, :2] + size / 2, size, turn]))
    xyxy[:, :2], xyxy[:, 2:] = corners.min(axis=1), corners.max(axis=1)
    return Shapes.of_outlines(corners.reshape(-1, 2), np.full(len(turn), 4), ShapeKind.ORIENTED)


class RecordShapes(msgspec.Struct, frozen=True, eq=False):
    """The shapes of some records."""

    shapes: Shapes
    keypoints: Keypoints
    size: Longs
    """(n, 2) height and width that masks have, 0 where there is none."""
    faults: list[Fault]

    @classmethod
    def concatenate(cls, chunks: Sequence[RecordShapes]) -> RecordShapes:
        """Return the shapes of the records of all chunks, one chunk after the other."""
        row_starts = offsets(np.array([len(chunk.size) for chunk in chunks])).tolist()  # and the end
        faults = [
            (row + row_start, code, key, values)
            for chunk, row_start in zip(chunks, row_starts, strict=False)
            for row, code, key, values in chunk.faults
        ]
        return cls(
            Shapes.concatenate([chunk.shapes for chunk in chunks]),
            Keypoints.concatenate([chunk.keypoints for chunk in chunks]),
            np.concatenate([chunk.size for chunk in chunks]),
            faults,
        )


def read_shapes(columns: Mapping[str, Any], n: int) -> RecordShapes:
    """Read the shapes of n records from the JSON of their values by key; empty JSON is no shape.

    Lists of numbers may be `NumberLists`, and masks the (sizes, shapes) of `_pack_masks`.
    """
    faults: list[Fault] = []
    size = np.zeros((n, 2), np.int64)
    shapes, points = Shapes.none(n), Keypoints.none(n)
    segmentations = columns.get("segmentation", ())
    if isinstance(segmentations, tuple) and segmentations:  # decoded masks
        size[:], shapes = segmentations
    elif segmentations:
        shapes = _read_segmentations(segmentations, size, faults)
    for key in ORIENTED_KEYS:
        if key in columns:
            shapes = _put_oriented(shapes, columns[key], key, faults)
    if "keypoints" in columns:
        points = _read_points(columns["keypoints"], faults)
        if counts := columns.get("num_keypoints"):
            stated_counts = [int(count) if count.isdigit() else -1 for count in counts]
            points = replace(points, stated=np.array(stated_counts, np.int64))
    return RecordShapes(shapes, points, size, sorted(faults, key=lambda fault: fault[0]))


def _read_segmentations(segmentations: Sequence[bytes], size: Longs, faults: list[Fault]) -> Shapes:
    """Read the masks, which are objects, and the outlines, lists, of n records from their JSON.

    The height and width of masks are set in `size` (n, 2), and other values are added to `faults`.
    """
    shapes, key = Shapes.none(len(segmentations)), "segmentation"
    values = [b"" if value in NOTHING else value for value in segmentations]
    for first_char, read_values_of in ((b"{", _read_masks), (b"[", _read_outlines)):
        rows = np.array([i for i, value in enumerate(values) if value[:1] == first_char], np.int64)
        if len(rows):
            new_shapes, value_faults = read_values_of([values[i] for i in rows.tolist()], size, rows)
            faults += [(int(rows[i]), code, key, message_values) for i, code, message_values in value_faults]
            shapes = shapes.replace_rows(rows, new_shapes)
    faults += [
        (i, OUTLINE_NUMBERS, key, {"value": _shorten_json(value)})
        for i, value in enumerate(values)
        if value[:1] not in (b"", b"[", b"{")
    ]
    return shapes


ValueFaults = list[tuple[int, Code, dict[str, Any]]]
"""The position in a list of values, the code, and the values of the message."""


def _decode_values(values: Sequence[bytes], kind: Any, code: Code) -> tuple[list[Any], ValueFaults]:
    """Decode JSON values of the type `kind`; a value of another type becomes None and a fault.

    `code` is that of the faults. A batch is decoded at once, and value by value only if that fails.
    """
    import msgspec

    decode = msgspec.json.Decoder(list[kind]).decode
    decoded: list[Any] = []
    faults: ValueFaults = []
    for start in range(0, len(values), _BATCH):
        batch = values[start : start + _BATCH]
        try:
            decoded += decode(b"[" + b",".join(batch) + b"]")
        except (msgspec.DecodeError, RecursionError):
            for i, value in enumerate(batch, start):
                try:
                    decoded += decode(b"[" + value + b"]")
                except (msgspec.DecodeError, RecursionError):
                    decoded.append(None)
                    faults.append((i, code, {"value": _shorten_json(value)}))
    return decoded, faults


def _shorten_json(value: bytes) -> str:
    """Return the text of a JSON value, cut to 60 characters for a message."""
    text = value.decode("utf-8", "replace")
    return text if len(text) <= 60 else text[:59] + "…"


def _read_outlines(values: Sequence[bytes], size: Longs, rows: Longs) -> tuple[Shapes, ValueFaults]:
    """Read the polygons of n records from their JSON; `size` and `rows` are as in `_read_masks`, unused."""
    del size, rows
    outlines_or_none, faults = _decode_values(values, list[list[float]], OUTLINE_NUMBERS)
    for i, outlines in enumerate(outlines_or_none):
        odd_lengths = [len(outline) for outline in outlines or () if len(outline) % 2]
        if odd_lengths:
            faults.append((i, OUTLINE_NUMBERS, {"value": f"{odd_lengths[0]} numbers"}))
            outlines_or_none[i] = None

    # of an object with outlines of 4 and 3 points, and one without: n_outlines [2, 0], n_numbers [8, 6]
    outlines_of_object = [list(filter(None, outlines or ())) for outlines in outlines_or_none]
    all_outlines = list(itertools.chain.from_iterable(outlines_of_object))
    n_numbers = np.array([*map(len, all_outlines)], np.int64)
    n_outlines = np.array([*map(len, outlines_of_object)], np.int64)
    numbers = itertools.chain.from_iterable(all_outlines)
    xy = np.fromiter(numbers, np.float64, int(n_numbers.sum())).reshape(-1, 2)
    kind = np.where(n_outlines > 0, ShapeKind.POLYGONS, ShapeKind.NONE).astype(np.uint8)
    no_masks = np.zeros(len(outlines_of_object) + 1, np.int64)
    shapes = Shapes(kind, offsets(n_outlines), offsets(n_numbers // 2), xy, no_masks, np.zeros(0, np.uint8))
    return shapes, faults


def _read_masks(values: Sequence[bytes], size: Longs, rows: Longs) -> tuple[Shapes, ValueFaults]:
    """Read the masks of n records from their JSON, and set their height and width in ``size[rows]``."""
    records, faults = _decode_values(values, _Mask, MASK_SYNTAX)
    # If nothing is unusual, all are packed at once. Keys that are repeated show in their number, unless
    # they are written with escapes.
    json_text = b"".join(values)
    keys_are_usual = all(json_text.count(key) == len(values) for key in (b'"size"', b'"counts"'))
    is_usual = not faults and keys_are_usual and b"\\u" not in json_text
    if is_usual and (packed := _pack_masks(records)) is not None:
        (size[rows], shapes), _ = packed  # the number of colons serves only `RecordTypes`
        return shapes, []

    for key in ("size", "counts"):  # the text of runs has no quotes
        quoted_key = f'"{key}"'.encode()
        for i, value in enumerate(values):
            if value.count(quoted_key) > 1 and records[i] is not None:
                faults.append((i, DUPLICATE_BOX_KEY, {"value": key}))
                records[i] = None
    texts = [b""] * len(records)
    for i, record in enumerate(records):
        if record is None:
            continue
        height, width = record.size
        if height < 0 or width < 0 or height * width >= MOST_PIXELS:
            faults.append((i, MASK_SYNTAX, {"value": f"size {height} x {width}"}))
            continue
        if isinstance(record.counts, str):
            texts[i] = record.counts.encode()
        elif any(not 0 <= count < MOST_PIXELS for count in record.counts):
            faults.append((i, MASK_SYNTAX, {"value": "a run that is negative or longer than any image"}))
            continue
        else:
            counts = np.array(record.counts, np.int64)
            texts[i] = write_texts(np.array([0, len(counts)]), counts)[0].tobytes()
        size[rows[i]] = height, width
    mask_text = np.frombuffer(b"".join(texts), np.uint8)
    shapes = Shapes.of_masks(mask_text, offsets(np.array([*map(len, texts)])))
    return shapes, faults


def _pack_masks(masks: list[_Mask]) -> tuple[tuple[Floats, Shapes], int] | None:
    """Join n masks: (n, 2) height and width with the shapes, and the number of colons in their JSON.

    The colons are those of two keys for each mask, and those in the texts of runs. By their number,
    `RecordTypes` sees whether the JSON has keys that it did not decode. Returns None if any mask is not ASCII
    text with a usual size: each must then be checked by itself.
    """
    texts = [mask.counts for mask in masks]
    try:
        size = np.array([mask.size for mask in masks], np.float64).reshape(-1, 2)
    except OverflowError:
        return None
    is_text = set(map(type, texts)) <= {str}
    if not is_text or size.min(initial=0) < 0 or size.prod(axis=1).max(initial=0) >= MOST_PIXELS:
        return None
    text = "".join(cast("list[str]", texts))
    if not text.isascii():
        return None
    text_starts = offsets(np.fromiter(map(len, texts), np.int64, len(texts)))
    shapes = Shapes.of_masks(np.frombuffer(text.encode(), np.uint8), text_starts)
    return (size, shapes), 2 * len(masks) + text.count(":")


def _read_lists(values: Sequence[bytes] | NumberLists, code: Code) -> tuple[NumberLists, ValueFaults]:
    """Return the lists of numbers of records, empty for a record without, and faults of other values."""
    if isinstance(values, NumberLists):
        return values, []
    lists, faults = _decode_values(
        [b"[]" if value in NOTHING else value for value in values], list[float], code
    )
    return NumberLists.pack([numbers or () for numbers in lists]), faults


def _put_oriented(
    shapes: Shapes, values: Sequence[bytes] | NumberLists, key: str, faults: list[Fault]
) -> Shapes:
    """Return the shapes of n records with the oriented boxes under `key` in place of their outlines.

    If the outline is a rectangle that is the same box, the corners are taken from it, as they were written.
    An oriented box of an earlier key stays. Lists of another length are added to `faults`.
    """
    n_numbers = 8 if key == "poly" else 5
    lists, value_faults = _read_lists(values, OUTLINE_NUMBERS)
    sizes = lists.sizes
    for i in np.flatnonzero((sizes != 0) & (sizes != n_numbers)).tolist():
        value_faults.append((i, OUTLINE_NUMBERS, {"value": f"{sizes[i]} numbers, not {n_numbers}"}))
    faults += [(i, code, key, message_values) for i, code, message_values in value_faults]
    rows = np.flatnonzero(sizes == n_numbers)
    if not len(rows):
        return shapes
    # lists of the right length only: of sizes [5, 2, 5] the numbers 0 to 4 and 7 to 11
    numbers = lists.numbers
    if len(rows) < len(sizes):
        numbers = numbers[np.repeat(sizes == n_numbers, sizes)]
    corners = numbers.reshape(-1, 4, 2) if n_numbers == 8 else rectangle_corners(numbers.reshape(-1, 5))

    # corners: (rows, 4, 2); where an outline beside the box is the same rectangle, its corners count
    has_corners = (shapes.kind[rows] == ShapeKind.POLYGONS) & shapes.has_four_corners()[rows]
    if has_corners.any():
        outline_corners = shapes.corners(rows[has_corners])
        expected_corners = outline_corners
        if n_numbers == 5:  # of the rectangle that five numbers can say
            expected_corners = rectangle_corners(as_rectangles(outline_corners))
        is_same = (np.abs(expected_corners - corners[has_corners]) <= _SAME_CORNER).all(axis=(1, 2))
        corners[np.flatnonzero(has_corners)[is_same]] = outline_corners[is_same]

    is_oriented = shapes.kind[rows] == ShapeKind.ORIENTED  # from an earlier key
    rows, corners = rows[~is_oriented], corners[~is_oriented]
    oriented_boxes = Shapes.of_outlines(corners.reshape(-1, 2), np.full(len(rows), 4), ShapeKind.ORIENTED)
    return shapes.replace_rows(rows, oriented_boxes)


def _read_points(values: Sequence[bytes] | NumberLists, faults: list[Fault]) -> Keypoints:
    """Read the keypoints of n records; a record with a wrong list has none, and adds to `faults`."""
    lists, value_faults = _read_lists(values, KEYPOINT_COUNT)
    numbers, sizes = lists.numbers, lists.sizes
    is_wrong = sizes % 3 > 0
    if is_wrong.any():
        for i in np.flatnonzero(is_wrong).tolist():
            message_values = {"value": f"{sizes[i]} numbers", "expected": "three for each keypoint"}
            value_faults.append((i, KEYPOINT_COUNT, message_values))
        # without the numbers of wrong lists, which then have a size of 0
        numbers, sizes = numbers[np.repeat(~is_wrong, sizes)], np.where(is_wrong, 0, sizes)
    faults += [
        (i, code, "keypoints", {"expected": "a list of numbers", **message_values})
        for i, code, message_values in value_faults
    ]
    return Keypoints(offsets(sizes // 3), numbers.reshape(-1, 3))


def find_boxes(
    record_shapes: RecordShapes, rows: NDArray[Any], only_labelled: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Return (n, 4) edges around the shapes, else the keypoints, of n `rows`, and (n,) areas.

    The area of a mask is its pixels, that of keypoints the area of their box; NaN for outlines.

    Parameters
    ----------
    only_labelled
        (n,) whether only labelled points count, as for ground truth.
    """
    shapes = record_shapes.shapes.take(rows)
    edges, area = shapes.edges(), np.full(len(rows), np.nan)

    # Row numbers below are positions in `rows`. All masks are measured: the result is cached for later calls.
    mask_rows = np.flatnonzero((shapes.kind == ShapeKind.MASK) & (record_shapes.size[rows].min(axis=1) > 0))
    if len(mask_rows):
        measures = record_shapes.shapes.measure_masks(record_shapes.size[:, 0])  # by the heights
        left, top, width, height = measures.box[rows[mask_rows]].T
        edges[mask_rows] = np.column_stack([left, top, left + width, top + height])
        area[mask_rows] = measures.area[rows[mask_rows]]

    rows_without_edges = np.flatnonzero(np.isnan(edges).any(axis=1))
    points = record_shapes.keypoints.take(rows[rows_without_edges])  # labelled if their visibility is not 0
    is_counted = (points.xyv[:, 2] > 0) | ~np.repeat(only_labelled[rows_without_edges], points.counts())
    edges[rows_without_edges] = point_edges = points.edges(is_counted)
    left, top, right, bottom = point_edges.T
    area[rows_without_edges] = (right - left) * (bottom - top)
    return edges, area
