"""The framing of TFRecord files, and as much of protocol buffers as ``tf.train.Example`` needs.

Sources: "TFRecords format details" (https://www.tensorflow.org/tutorials/load_data/tfrecord),
``example.proto`` and ``feature.proto`` of TensorFlow, and "Encoding"
(https://protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Features = dict[str, "list[bytes] | NDArray[Any]"]
"""The values of an example by name: bytes as a list, numbers as an array."""

MAX_RECORD = 2**31
"""Bytes of the largest record; a message of protocol buffers is smaller."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Damaged(Exception):
    """The bytes are not a valid record or message; the text is the reason."""


def _checksum(data: bytes) -> int:
    """Compute the checksum of TFRecord: CRC-32C, rotated by 15 bits, plus a constant."""
    import google_crc32c

    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def begins_record(head: bytes) -> bool:
    """Whether these bytes begin with the length of a record and its checksum."""
    if len(head) < 12 or not 0 < int.from_bytes(head[:8], "little") < MAX_RECORD:
        return False
    return _checksum(head[:8]) == int.from_bytes(head[8:12], "little")


def read_records(stream: IO[bytes]) -> Iterator[bytes | Damaged]:
    """Yield the content of each record, or `Damaged` for one whose checksum is wrong.

    The last one is `Damaged` if the file ends within a record, or if a length has a wrong checksum, so that
    the next record cannot be found.
    """
    truncated = "the file ends within it, as if truncated"
    while head := stream.read(12):
        if len(head) < 12:
            yield Damaged(truncated)
            return
        length = int.from_bytes(head[:8], "little")
        if _checksum(head[:8]) != int.from_bytes(head[8:], "little"):
            yield Damaged("the checksum of its length is wrong, so the rest of the file cannot be read")
            return
        if length >= MAX_RECORD:
            yield Damaged(f"it claims to have {length} bytes")
            return
        data = stream.read(length)
        check = stream.read(4)
        if len(check) < 4:
            yield Damaged(truncated)
            return
        is_intact = _checksum(data) == int.from_bytes(check, "little")
        yield data if is_intact else Damaged("its checksum is wrong")


def frame_record(data: bytes) -> bytes:
    """Put the length and the checksums around the content of a record."""
    length = struct.pack("<Q", len(data))
    return b"".join((length, struct.pack("<I", _checksum(length)), data, struct.pack("<I", _checksum(data))))


def _read_varint(data: memoryview, offset: int) -> tuple[int, int]:
    """Decode the number at an offset, 7 bits a byte, lowest first; return it and the offset behind it.

    Raises Damaged if the data end within it, or if it is longer than 64 bits.
    """
    value = shift = 0
    while True:
        if offset >= len(data) or shift > 63:
            raise Damaged("a number in it is truncated or too long")
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7


def _read_fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and value (an int, or a view of its bytes) of each field of a message.

    Raises Damaged if the bytes are no message.
    """
    offset = 0
    while offset < len(data):
        tag, offset = _read_varint(data, offset)
        field_number, kind = tag >> 3, tag & 7
        value: Any
        if kind == _VARINT:
            value, offset = _read_varint(data, offset)
        else:
            if kind == _BYTES:
                size, offset = _read_varint(data, offset)
            elif kind in (_FIXED32, _FIXED64):
                size = 4 if kind == _FIXED32 else 8
            else:
                raise Damaged(f"a field in it has the wire type {kind}")
            if offset + size > len(data):
                raise Damaged("a field in it goes beyond its end")
            value = data[offset : offset + size]
            offset += size
        yield field_number, kind, value


def _read_values(data: memoryview) -> Iterator[memoryview]:
    """Yield the values of the fields with the number 1, which must be messages or bytes."""
    for field_number, kind, value in _read_fields(data):
        if field_number == 1:
            if kind != _BYTES:
                raise Damaged("a field in it has another type than in tf.train.Example")
            yield value


def decode_example(data: bytes, names: frozenset[str]) -> tuple[Features, list[str]]:
    """Decode the features of a ``tf.train.Example`` that are in `names`.

    Returns their values by name, and the names of other features that are not empty. Raises Damaged if the
    bytes are no such message.
    """
    # An Example has in its field 1 the features, whose field 1 are entries of a name (1) and a feature (2).
    feature_of: Features = {}
    other_names = []
    for features in _read_values(memoryview(data)):
        for entry in _read_values(features):
            name, feature = "", memoryview(b"")
            for field_number, kind, value in _read_fields(entry):
                if kind == _BYTES and field_number == 1:
                    name = bytes(value).decode("utf-8", "replace")
                elif kind == _BYTES and field_number == 2:
                    feature = value
            if name in names:
                feature_of[name] = _decode_feature(feature)
            elif len(feature) > 2:  # an empty list takes two bytes
                other_names.append(name)
    return feature_of, other_names


def is_other_message(data: bytes) -> bool:
    """Whether bytes are a message that has fields which a ``tf.train.Example`` cannot have."""
    try:
        field_numbers = {field_number for field_number, _, _ in _read_fields(memoryview(data))}
    except Damaged:
        return False
    # An Example has field 1 alone. Numbers from 2^14 on come from damaged bytes rather than from a message.
    return len(field_numbers) > 1 and max(field_numbers) < 2**14


def _decode_feature(feature: memoryview) -> list[bytes] | NDArray[Any]:
    """Decode the values of a ``tf.train.Feature``: bytes (field 1), floats (2) or int64 (3), the last set."""
    values: list[bytes] | NDArray[Any] = np.zeros(0)
    for field_number, kind, inner in _read_fields(feature):
        if kind != _BYTES or field_number not in (1, 2, 3):
            continue
        if field_number == 1:
            values = [bytes(value) for value in _read_values(inner)]
        else:
            arrays = [
                _decode_numbers(kind, value, field_number) for n, kind, value in _read_fields(inner) if n == 1
            ]
            values = np.concatenate(arrays) if arrays else np.zeros(0)
    return values


def _decode_numbers(kind: int, value: Any, list_number: int) -> NDArray[Any]:
    """Decode one field of a list, with one number or many: floats if `list_number` is 2, int64 if it is 3.

    `kind` is the wire type of the field, and `value` its value.
    """
    if list_number == 2 and kind in (_BYTES, _FIXED32):
        if len(value) % 4:
            raise Damaged("a list of numbers in it is truncated")
        return np.frombuffer(value, "<f4").astype(np.float64)
    if list_number == 3 and kind in (_BYTES, _VARINT):
        numbers, offset = [value] if kind == _VARINT else [], 0
        while kind == _BYTES and offset < len(value):
            value_read, offset = _read_varint(value, offset)
            numbers.append(value_read)
        # 64 bits, of which the highest is the sign; a damaged number may have more
        return np.array([n & 0xFFFFFFFFFFFFFFFF for n in numbers], np.uint64).astype(np.int64)
    raise Damaged("a list in it has another type than in tf.train.Example")


def _encode(field_number: int, content: bytes) -> bytes:
    """Encode a field of bytes: its number with the wire type, its length and its content."""
    return _encode_varint(field_number << 3 | _BYTES) + _encode_varint(len(content)) + content


def _encode_varint(value: int) -> bytes:
    """Encode a number of 64 bits, 7 bits a byte, lowest first; the top bit of a byte: more follow."""
    value &= 0xFFFFFFFFFFFFFFFF
    seven_bits = bytearray()
    while value >= 0x80:
        seven_bits.append(value & 0x7F | 0x80)
        value >>= 7
    seven_bits.append(value)
    return bytes(seven_bits)


def encode_example(features: Features) -> bytes:
    """Encode a ``tf.train.Example``; arrays of whole numbers become int64 lists, others float lists."""
    entries = []
    # A Feature has bytes in field 1, floats in 2 or int64 in 3; an entry has its name in 1, the feature in 2.
    for name, values in sorted(features.items()):
        if isinstance(values, list):
            feature = _encode(1, b"".join(_encode(1, value) for value in values))
        elif values.dtype.kind == "f":
            feature = _encode(2, _encode(1, values.astype("<f4").tobytes()) if len(values) else b"")
        else:
            packed = b"".join(map(_encode_varint, values.tolist()))
            feature = _encode(3, _encode(1, packed) if packed else b"")
        entries.append(_encode(1, _encode(1, name.encode()) + _encode(2, feature)))
    return _encode(1, b"".join(entries))
