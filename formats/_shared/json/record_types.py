"""Decode slices of a list of JSON records into columns, by record types that are learnt from the slices.

`columns.Document` cuts the slices; its module says why the columns can be trusted. The readers of COCO
declare the `Field` of each key that they know.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.formats._shared.json.number_lists import are_all, convert_ids, pack_floats, pack_whole_numbers
from odm.formats._shared.json.preview import is_deeper
from odm.tables.extra_fields import NOTHING

NONE = int(np.iinfo(np.int64).min)
"""What an `int` or `id` column holds where the key is missing."""

SLICE = 2**18
"""Bytes of a slice; larger ones leave the cache, smaller ones cost more calls."""

Kind = Literal["id", "int", "flag", "number", "numbers", "text", "ints", "raw", "kept"]
Column = NDArray[Any] | list[Any]
Decoding = tuple[Any, Callable[[list[Any]], tuple[Any, int] | None]]
"""A type, and what makes of its values a column, and the number of their colons; None for unusual values."""


class Field(msgspec.Struct, frozen=True, eq=False):
    """A key of a record and what its column becomes.

    ``id`` and ``int`` become (n,) int64 with `NONE` where the key is missing, or a list where an id is text;
    ``flag`` is an ``int`` of 0 and 1 that may be false, true and null, too; ``number`` becomes (n,) float64
    with NaN; ``numbers`` (n, 4) float64; ``text``, and ``ints`` for lists of whole numbers, a list with None;
    ``kept`` a list of the JSON of the values, empty where there is none, and ``raw`` the same of values that
    count as unread too. With `decoding` they go to `Chunk.decoded` instead, if all records have that type.
    """

    key: str
    kind: Kind
    required: bool = False
    decoding: Decoding | None = None


class Chunk(msgspec.Struct, eq=False):
    """Some records of a list: as columns, or where that was not possible as Python values in ``records``.

    ``start`` is the index of the first in its list and ``n`` how many there are. ``extras`` counts the keys
    that no field names, where not empty. ``written_float`` has, by key, the index of the first id like 1.0.
    """

    start: int
    n: int
    columns: dict[str, Column] = msgspec.field(default_factory=dict)
    extras: Counter[str] = msgspec.field(default_factory=Counter)
    written_float: dict[str, int] = msgspec.field(default_factory=dict)
    rest: dict[str, list[bytes]] = msgspec.field(default_factory=dict)
    """The JSON of the keys that no field names, where these were asked for; they are then no extras."""
    decoded: dict[str, Any] = msgspec.field(default_factory=dict)
    """By key, what `Field.decoding` makes."""
    expected: int = 0
    """How many records the list will have, if the rest of the text is like this part."""
    records: list[Any] | None = None


def to_one_line(values: Iterable[Any]) -> list[bytes]:
    """Return raw JSON values without line breaks and tabs, which JSON has only between its tokens."""
    lines = [*map(bytes, values)]
    joined = b"".join(lines)
    if not any(blank in joined for blank in (b"\t", b"\r", b"\n")):
        return lines
    return [line.translate(None, b"\t\r\n") for line in lines]


class RecordTypes:
    """The record types of one list; the last one that fitted is tried first.

    With `rest` the values of keys that no field names go to `Chunk.rest`, else they are only counted.
    """

    def __init__(self, fields: Sequence[Field], *, rest: bool) -> None:
        self._fields = {field.key: field for field in fields}
        self._unnamed = "rest" if rest else ""
        self.shape: _RecordType | None = None
        self._type_by_spec: dict[tuple[Any, ...], _RecordType] = {}
        self._decodes = True
        """Whether values of fields are decoded, until some are unusual."""

    def decode(self, piece: Any, start: int) -> Chunk | None:
        """Decode a slice, whose first record has the number `start`, into columns.

        None if it needs Python values. Raises msgspec's errors of syntax. After values that a
        `Field.decoding` refuses, no field of this list is decoded by one any more.
        """
        try:
            return self._decode(piece, start)
        except _Unusual:
            self._decodes, self.shape = False, None
            return self._decode(piece, start)

    def _decode(self, piece: Any, start: int) -> Chunk | None:
        """Decode a slice by the last record type that fitted, else by one that is learnt from the slice."""
        if self.shape is not None:
            try:
                return self.shape.decode(piece, start)
            except msgspec.ValidationError:
                pass
        try:
            record_type, first_float_id = self._learn(piece, start)
            if record_type is None:
                return None
            chunk = record_type.decode(piece, start)
        except msgspec.ValidationError:
            return None
        self.shape = record_type
        if chunk is not None:
            # Only here: of a slice that fits a type with float ids, an earlier slice had the first.
            chunk.written_float = first_float_id
        return chunk

    def _learn(self, piece: Any, start: int) -> tuple[_RecordType | None, dict[str, int]]:
        """Return the record type of a slice, None for Python values, and `Chunk.written_float`."""
        records = msgspec.json.decode(piece, type=list[dict[str, msgspec.Raw]])
        n_records_with = Counter(key for record in records for key in record)
        first_float_id: dict[str, int] = {}
        spec: list[tuple[str, Any, bool]] = []
        for key, n in n_records_with.items():
            field = self._fields.get(key)
            kind: Any = self._unnamed if field is None else field.kind
            if kind == "id":
                id_texts = [bytes(r.get(key, b"0")) for r in records]  # a missing id decides nothing
                kind, first_float_row = _find_id_kind(id_texts)
                if not kind:
                    return None, {}
                if kind == "float-id":
                    first_float_id[key] = start + first_float_row
            elif field is not None and field.decoding and self._decodes and n == len(records):
                value_type, _ = field.decoding
                if are_all([bytes(record[key]) for record in records], value_type):
                    kind = field.decoding
            spec.append((key, kind, n == len(records)))

        if any(
            field.required and n_records_with[field.key] < len(records) for field in self._fields.values()
        ):
            return None, {}  # so that the format reports the missing key
        if len(spec) > 200 or any(_NO_FIELD.search(key) for key in n_records_with):
            return None, {}  # keys that are data: a type per slice would cost more than it saves
        record_type = self._type_by_spec.get(tuple(spec))
        if record_type is None:
            if len(self._type_by_spec) == 64:
                return None, {}  # records that differ so much cost more to learn than they save
            record_type = self._type_by_spec[tuple(spec)] = _RecordType(spec)
        return record_type, first_float_id


def _find_id_kind(id_texts: Sequence[bytes]) -> tuple[str, int]:
    """Return the kind of a column from the JSON of its ids, and the first row with a float (of float ids).

    ``id`` for whole numbers, ``float-id`` with floats such as 1.0, ``any-id`` with texts; "" with both, which
    no column can hold.
    """
    float_rows = [
        i for i, text in enumerate(id_texts) if text[:1] != b'"' and not text.lstrip(b"-").isdigit()
    ]
    has_texts = any(text[:1] == b'"' for text in id_texts)
    if float_rows:
        return "" if has_texts else "float-id", float_rows[0]
    return "any-id" if has_texts else "id", -1


class _RecordType:
    """A record type for records with certain keys, and how its columns are made.

    Parameters
    ----------
    spec
        Key, kind and whether every record has the key. Besides those of `Field`, kinds are ``float-id`` and
        ``any-id`` (`_find_id_kind`), a `Decoding`, and ``rest`` or "" for a key that no field names.
    """

    def __init__(self, spec: Sequence[tuple[str, Any, bool]]) -> None:
        self._spec = tuple(spec)
        members: list[Any] = []
        rename = {}
        for index, (key, kind, always) in enumerate(spec):
            name = f"f{index}"
            rename[name] = key
            type_, default = _choose_member(kind)
            # Fields without a default come first.
            if always:
                members.insert(0, (name, type_))
            else:
                members.append((name, type_, default))
        record = msgspec.defstruct("Record", members, rename=rename, forbid_unknown_fields=True, gc=False)
        self._decoder = msgspec.json.Decoder(list[record])  # type: ignore[valid-type]

    def decode(self, piece: Any, start: int) -> Chunk | None:
        """Decode a slice to columns; None if values or colons do not fit, _Unusual beside a `Decoding`."""
        records = self._decoder.decode(piece)
        n = len(records)
        chunk = Chunk(start, n)
        n_colons = 0  # behind the keys, in them and in the values
        for index, (key, kind, always) in enumerate(self._spec):
            values = _get_values(records, index)
            if isinstance(kind, str):
                packed = _pack_column(values, kind, always=always)
                if packed is None:
                    return None
                column, n_keys, n_inner_colons = packed
                if kind == "rest":
                    chunk.rest[key] = to_one_line(values)
                elif kind:
                    chunk.columns[key] = column
                if kind in ("raw", ""):  # counted as unread, except for empty values such as null
                    n_filled = n - sum(map(NOTHING.__contains__, map(bytes, values)))
                    if n_filled:
                        chunk.extras[key] = n_filled
            else:
                _, decode_values = kind  # a `Decoding`, which all records have
                decoded = decode_values(values)
                if decoded is None:
                    raise _Unusual
                chunk.decoded[key], n_inner_colons = decoded
                n_keys = n
            n_colons += n_inner_colons + n_keys * (1 + key.count(":"))

        # The whole slice has no other colons, so no key stands twice.
        data = np.frombuffer(piece, np.uint8)
        text_slices = (data[offset : offset + SLICE] == ord(":") for offset in range(0, len(data), SLICE))
        if sum(map(np.count_nonzero, text_slices)) == n_colons:
            return chunk
        if chunk.decoded:
            raise _Unusual
        return None


_MEMBERS: dict[str, tuple[Any, Any]] = {
    **dict.fromkeys(("id", "int"), (int, NONE)),
    **dict.fromkeys(("number", "float-id"), (float, float("nan"))),
    "flag": (int | bool | None, NONE),
    "any-id": (int | str, NONE),
    "text": (str, None),
    "ints": (list[int], None),
}
"""The type of a key by its kind, and the value that stands for a missing one."""


def _choose_member(kind: Any) -> tuple[Any, Any]:
    """Return the type of a key of any kind, and the value for a missing one, as in `_MEMBERS`."""
    if not isinstance(kind, str):
        value_type, _ = kind  # a `Decoding`, whose values all records have
        return value_type, msgspec.UNSET
    if kind == "numbers":
        numbers = [(f"n{i}", float) for i in range(4)]
        four = msgspec.defstruct("Numbers", numbers, array_like=True, forbid_unknown_fields=True, gc=False)
        return four, msgspec.UNSET
    return _MEMBERS.get(kind, (msgspec.Raw, msgspec.Raw(b"")))


def _pack_column(values: list[Any], kind: str, *, always: bool) -> tuple[Any, int, int] | None:
    """Make a column of the values that n records have for a key; None if a value does not fit.

    Returns the column, how many records have the key (all if `always`, else those whose value is not that for
    a missing key), and how many colons the values hold.
    """
    n = len(values)
    if kind in ("id", "int", "flag", "any-id"):
        try:
            ids = pack_whole_numbers(values, null=kind == "flag")
        except OverflowError:
            return None
        except TypeError:  # ids that are text
            n_keys = n if always else n - values.count(NONE)
            return values, n_keys, sum(v.count(":") for v in values if isinstance(v, str))
        n_keys = int(np.count_nonzero(ids != NONE))
        # Otherwise the file has the number that stands for a missing key.
        return (ids, n_keys, 0) if n_keys == n or not always else None
    if kind in ("number", "float-id"):
        numbers = pack_floats(values, 1)[:, 0]
        n_keys = n if always else n - int(np.isnan(numbers).sum())
        column = convert_ids(numbers, NONE) if kind == "float-id" else numbers
        return None if column is None else (column, n_keys, 0)
    if kind == "numbers":  # no value stands for a missing box
        return (pack_floats(values, 4), n, 0) if always else None
    if kind in ("text", "ints"):
        n_keys = n if always else n - values.count(None)
        # Joined by n - 1 colons, as one count is faster than n.
        n_colons = ":".join([v or "" for v in values]).count(":") - (n - 1) if kind == "text" else 0
        return values, n_keys, n_colons
    # The JSON of kinds that are not decoded (kept, raw, rest, ""), which is empty for a missing key.
    n_keys = n if always else n - sum(not len(v) for v in values)
    return values, n_keys, _count_colons(values)


class _Unusual(Exception):
    """Values that were decoded are to be looked at one by one."""


def _count_colons(values: list[Any]) -> int:
    """Count the colons of JSON values. RecursionError if one is nested too deeply."""
    joined = b"".join(values)
    if is_deeper(joined):
        raise RecursionError
    return joined.count(b":")


_NO_FIELD = re.compile(r'[\x00-\x1f"\\]')
"""What a key of a record type of msgspec must not hold."""


def _get_values(records: list[Any], index: int) -> list[Any]:
    """Return the value of the field ``f{index}`` of each record."""
    if index < len(_GETTERS):
        return _GETTERS[index](records)
    return list(map(operator.attrgetter(f"f{index}"), records))


# An attribute that is named in the code is read twice as fast as one that is looked up by name.
_GETTERS: tuple[Callable[[list[Any]], list[Any]], ...] = (
    lambda rows: [row.f0 for row in rows],
    lambda rows: [row.f1 for row in rows],
    lambda rows: [row.f2 for row in rows],
    lambda rows: [row.f3 for row in rows],
    lambda rows: [row.f4 for row in rows],
    lambda rows: [row.f5 for row in rows],
    lambda rows: [row.f6 for row in rows],
    lambda rows: [row.f7 for row in rows],
    lambda rows: [row.f8 for row in rows],
    lambda rows: [row.f9 for row in rows],
)
