"""Decode long lists of JSON records into columns at C speed, and exactly where a record is unusual.

A large annotation file is a few long lists of small records. `Document` walks the outermost level of the text
and hands out each list in slices of some 250 KB that stay in the cache. A slice is decoded by msgspec into
typed records (no dictionaries), and each key becomes one array by a list comprehension and one encoder call.

Nothing is trusted on the way:

- A slice is cut where ``}, {`` stands. If it decodes as ``[`` + slice + ``]``, the cut was between two
  records of the list: a cut inside a string or an inner list leaves something unclosed. If not, the rest of
  the list is decoded as one.
- The records are declared with exactly the keys that were seen, unknown ones are refused, so the number of
  keys is known. Every key is followed by a colon. If the slice has exactly as many colons as it has keys
  (and as the ignored values and the texts hold), no key stands twice.
- What does not fit (a wrong type, NaN, a number out of range, a key that stands twice) makes the slice come
  as plain Python values, `Chunk.records`, for the format to say what is wrong where.
"""

from __future__ import annotations

import codecs
import functools
import json
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.formats._shared.codes import DUPLICATE_KEY, NOT_UTF8
from odm.formats._shared.gather import escape_key
from odm.formats._shared.json.number_lists import are_all, convert_ids, pack_floats, pack_whole_numbers
from odm.formats._shared.json.preview import (
    TOO_DEEP,
    find_deeper,
    find_line_column,
    is_deeper,
    parse_syntax_error,
)
from odm.formats._shared.text.tokens import find_wide_encoding
from odm.issues import Code, Log, shorten
from odm.tables.extra_fields import NOTHING

SYNTAX = Code(
    "json-syntax",
    "error",
    "invalid JSON: {reason}",
    "correct the file at this position, or export it again",
    "The JSON syntax is broken here, so nothing after this position can be trusted. A truncated file ends "
    "in the middle.",
    file=True,
)

NONE = int(np.iinfo(np.int64).min)
"""What an `int` or `id` column holds where the key is missing."""

SLICE = 2**18
"""Bytes of a slice; larger ones leave the cache, smaller ones cost more calls."""

Kind = Literal["id", "int", "flag", "number", "numbers", "text", "ints", "raw", "kept"]
Column = NDArray[Any] | list[Any]
Decoding = tuple[Any, Callable[[list[Any]], tuple[Any, int] | None]]
"""A type, and what makes of its values a column, and the number of their colons; None for unusual values."""


class Broken(Exception):
    """The rest of the document cannot be read; the log has the reason."""


class Token(str):
    """A number that no float can hold: ``NaN``, ``-Infinity``, ``1e999``, or an integer of endless digits."""

    __slots__ = ()


class Repeated(dict[str, Any]):
    """An object with a duplicate key; ``repeated`` names the first."""

    repeated: str = ""


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


# --------------------------------------------------------------------------------------------- whole texts


_BLANKS = b" \t\r\n"


def load(data: bytes, log: Log, path: str) -> bytes:
    """Return the text of a JSON file without a byte order mark.

    Raises Broken, after an issue with its location, if it is not UTF-8 or empty.
    """
    if wide_name := find_wide_encoding(data[:4096]):
        log.report(NOT_UTF8, path, line=1, value=wide_name)
        raise Broken
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data.isascii():
        decoder = codecs.getincrementaldecoder("utf-8")()
        n_bytes, chunk_start = 2**20, 0
        try:
            for chunk_start in range(0, len(data), n_bytes):
                chunk_end = chunk_start + n_bytes
                decoder.decode(data[chunk_start:chunk_end], final=chunk_end >= len(data))
        except UnicodeDecodeError as e:
            # e.object is the chunk behind the bytes of a character that the chunk before left unfinished.
            location = chunk_start - (len(e.object) - min(n_bytes, len(data) - chunk_start)) + e.start
            line, column = find_line_column(data, location)
            log.report(NOT_UTF8, path, line=line, column=column, value=f"the byte 0x{data[location]:02x}")
            raise Broken from None
    if not (data[:64].strip(_BLANKS) or data.strip(_BLANKS)):
        log.report(SYNTAX, path, line=1, reason="the file is empty")
        raise Broken
    return data


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its members: a dictionary, or `Repeated` if a key stands twice."""
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    repeated = Repeated(members)
    repeated.repeated = next(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)
    return repeated


def _parse_float(text: str) -> float | Token:
    value = float(text)
    return value if abs(value) != float("inf") else Token(text)


_PYTHON = json.JSONDecoder(
    object_pairs_hook=_make_object,
    parse_constant=Token,
    parse_float=_parse_float,
    parse_int=lambda text: int(text) if len(text) <= 300 else Token(text),
)


# ---------------------------------------------------------------------------------------------- the walk

_BLANK = re.compile(rb"[ \t\r\n]*")
_KEY = re.compile(rb'[ \t\r\n]*("(?:[^"\\]|\\.)*+")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
CUT = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*\{")
_EMPTY = re.compile(rb"\[[ \t\r\n]*\]")
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")


def _parse_length(error: Exception) -> int:
    """The length of the value that msgspec read before trailing text, from its message; 0 if unknown."""
    match = _TRAILING.search(str(error))
    return int(match[1]) - _find_first_number() if match else 0


@functools.cache
def _find_first_number() -> int:
    """The number of the first byte in msgspec's messages, found by a test as it is not documented."""
    try:
        msgspec.json.decode(b"[]x")
    except msgspec.DecodeError as e:
        match = _TRAILING.search(str(e))
        return int(match[1]) - 2 if match else 0  # the "x" has index 2
    raise AssertionError


class Document:
    """The outermost level of a JSON text, walked once and in order.

    Parameters
    ----------
    data
        The text as `load` gives it.
    slice_size
        Bytes of a slice, for tests.
    fast
        False hands out every list as Python values, for tests.
    first
        The number of the first record of a list, where the text is a part of it.
    """

    def __init__(
        self, data: bytes, log: Log, path: str, *, slice_size: int = SLICE, fast: bool = True, first: int = 0
    ) -> None:
        self._data = data
        self._view = memoryview(data)
        self._log = log
        self._path = path
        self._size = slice_size
        self._fast = fast
        self._first = first
        self._at = self._skip_blanks(0)
        self.top = data[self._at : self._at + 1].decode("latin-1")
        """The first character: ``[`` for a list, ``{`` for an object."""

    def members(self) -> Iterator[tuple[str, str]]:
        """Key and first character of the value of each member of the outermost object.

        Between two members the caller may take the value by `records` or `read_value`; else it is skipped.
        A key that stands twice is reported and its second value skipped. `Broken` at a syntax error.
        """
        data = self._data
        seen_keys: set[str] = set()
        self._at = self._skip_blanks(self._at + 1)
        if data[self._at : self._at + 1] != b"}":
            while True:
                match = _KEY.match(data, self._at)
                key = self._decode_text(match[1]) if match else None
                if match is None or key is None:
                    self._report_syntax_error()
                self._at = value_start = match.end()
                if key in seen_keys:
                    self._log.report(DUPLICATE_KEY, self._path, pointer="/" + escape_key(key), value=key)
                else:
                    seen_keys.add(key)
                    yield key, data[value_start : value_start + 1].decode("latin-1")
                if self._at == value_start:
                    self.skip()
                self._at = self._skip_blanks(self._at)
                if data[self._at : self._at + 1] != b",":
                    break
                self._at += 1
            if data[self._at : self._at + 1] != b"}":
                self._report_syntax_error()
        self._at += 1
        self.check_end()

    def check_end(self) -> None:
        """Insist that nothing follows. `Broken` if something does."""
        if self._skip_blanks(self._at) != len(self._data):
            self._report_syntax_error()

    def skip(self) -> bool:
        """Pass over the value that begins here; return whether it is strict JSON, without NaN or the like."""
        remaining = self._view[self._at :]
        try:
            msgspec.json.decode(remaining, type=msgspec.Raw)
        except msgspec.DecodeError as e:
            length = _parse_length(e)
        except RecursionError:
            self._report_too_deep()
        else:
            length = len(remaining)
        if length:
            self._refuse_deeper(remaining[:length])
            self._at += length
            return True
        self.read_value()
        return False

    def read_value(self) -> Any:
        """The value that begins here, as Python values."""
        value, _ = self._decode_python(self._view[self._at :], self._at)
        return value

    def read_raw(self) -> bytes | None:
        """Read the text of the value that begins here, verbatim; None if it is not strict JSON."""
        value_start = self._at
        is_strict = self.skip()
        return self._data[value_start : self._at].strip(_BLANKS) if is_strict else None

    def records(self, fields: Sequence[Field], *, rest: bool = False) -> Iterator[Chunk]:
        """Yield the records of the list that begins here in slices; with `rest` they have `Chunk.rest`.

        Raises Broken at a syntax error.
        """
        data = self._data
        match = _EMPTY.match(data, self._at)
        if match:
            self._at = match.end()
            return
        shapes = RecordTypes(fields, rest=rest)
        slice_start, index, end = self._at + 1, self._first, None
        while end is None:
            cut = CUT.search(data, slice_start + self._size)
            if cut is None:  # the rest of the text; the list that begins it has a bracket of its own
                is_whole = data[slice_start - 1 : slice_start] == b"[" and index == self._first
                json_slice: Any = self._view[slice_start - 1 :] if is_whole else None
            else:
                json_slice = b"".join((b"[", self._view[slice_start : cut.start() + 1], b"]"))
            chunk, end = self._decode_piece(json_slice, slice_start, index, shapes, is_rest=cut is None)
            index += chunk.n
            n_taken = (cut.start() if end is None and cut else len(data)) - slice_start
            # As many records for each byte in the rest of the text as in this slice, and 5 % more.
            chunk.expected = index + int(1.05 * chunk.n * (len(data) - slice_start - n_taken) / (n_taken + 1))
            slice_start = len(data) if cut is None else cut.end() - 1
            yield chunk
        self._at = end

    def _decode_piece(
        self, piece: Any, slice_start: int, index: int, shapes: RecordTypes, *, is_rest: bool = True
    ) -> tuple[Chunk, int | None]:
        """Decode the slice `piece`, whose first record begins at `slice_start` and has the number `index`.

        `piece` has a bracket before the first record. If `is_rest`, it is all that is left of the text, and
        the list ends in it; None stands for this rest too. Returns the records and the offset in the text
        behind the end of the list, None if the list goes on behind the piece.
        """
        if piece is None:
            piece = b"".join((b"[", self._view[slice_start:]))
        list_ends = is_rest
        length = len(piece)
        while self._fast:
            try:
                chunk = shapes.decode(piece, index)
            except RecursionError:
                self._report_too_deep()
            except (msgspec.DecodeError, UnicodeDecodeError) as e:
                list_length = _parse_length(e)
                if not 0 < list_length < length:
                    break
                # The list ends inside the piece.
                length, list_ends = list_length, True
                piece = bytes(piece[:length])
                continue
            if chunk is None:
                break
            return chunk, slice_start - 1 + length if list_ends else None
        try:
            # The bound is for the values of a record; the list and the record are two levels around them.
            records, end = self._decode_python(piece, slice_start - 1, retry=not is_rest, outer=2)
        except _BadCut:
            return self._decode_piece(None, slice_start, index, shapes)
        chunk = Chunk(index, len(records), records=records)
        if end is None and not list_ends:
            return chunk, None
        return chunk, slice_start - 1 + (length if end is None else end)

    def _decode_python(
        self, piece: Any, offset: int, *, retry: bool = False, outer: int = 0
    ) -> tuple[Any, int | None]:
        """Decode the first value of `piece`, which begins at `offset` of the text, and go on behind it.

        Returns the value and the number of bytes that it takes, None if that is the whole piece. A syntax
        error is reported; with `retry` it raises _BadCut instead. At most `MOST_LEVELS` + `outer` levels.
        """
        text = str(piece, "utf-8")
        try:
            value, end = _PYTHON.raw_decode(text)
        except json.JSONDecodeError as e:
            if retry:
                raise _BadCut from None
            position, reason = parse_syntax_error(e)
            self._report_syntax_error(offset + len(text[:position].encode()), reason)
        except RecursionError:
            self._report_too_deep()
        n_bytes = len(text[:end].encode())
        self._refuse_deeper(memoryview(piece)[:n_bytes], outer)
        self._at = offset + n_bytes
        return value, None if not text[end:].strip(" \t\r\n") else n_bytes

    def _decode_text(self, quoted: bytes) -> str | None:
        """Decode a JSON string with its quotes; None if it is not valid."""
        try:
            text: str = _PYTHON.decode(quoted.decode())
        except json.JSONDecodeError:
            return None
        return text

    def _skip_blanks(self, offset: int) -> int:
        """Return the offset of the first byte from `offset` on that is not blank."""
        match = _BLANK.match(self._data, offset)
        assert match
        return match.end()

    def _report_syntax_error(self, location: int | None = None, reason: str = "") -> NoReturn:
        """Report the syntax error at `location`, by default the first of the whole text; raise Broken."""
        data = self._data
        if location is None:
            location, reason = self._at, "expected ',' or the end of the object"
            try:
                text = data.decode()
                _, end = _PYTHON.raw_decode(text, len(text) - len(text.lstrip(" \t\r\n")))
                location, reason = len(text[:end].encode()), "there is content after its end"
                location = self._skip_blanks(location)
            except json.JSONDecodeError as e:
                location, reason = parse_syntax_error(e)
                location = len(text[:location].encode())
            except RecursionError:
                self._report_too_deep()
        self._refuse_deeper(self._view[:location], outer=3)  # the outermost object, its list and the record
        line, column = find_line_column(data, location)
        if location >= len(data.rstrip(b" \t\r\n")) or "Unterminated string" in reason:
            reason = "it ends too early, as if the file were truncated"
        else:
            next_text = shorten(data[location : location + 20].split(b"\n")[0])
            reason = f"{reason[:1].lower()}{reason[1:]}, found {next_text!r}"
        self._log.report(SYNTAX, self._path, line=line, column=column, reason=reason)
        raise Broken

    def _refuse_deeper(self, value: memoryview, outer: int = 0) -> None:
        """Report a value that is nested too deeply (`is_deeper`), and raise Broken."""
        if is_deeper(value, outer):
            self._report_too_deep()

    def _report_too_deep(self) -> NoReturn:
        """Report where the text goes deeper than `MOST_LEVELS`, and raise Broken."""
        line, column = find_line_column(self._data, find_deeper(self._data))
        self._log.report(TOO_DEEP, self._path, line=line, column=column)
        raise Broken


def to_one_line(values: Iterable[Any]) -> list[bytes]:
    """Return raw JSON values without line breaks and tabs, which JSON has only between its tokens."""
    lines = [*map(bytes, values)]
    joined = b"".join(lines)
    if not any(blank in joined for blank in (b"\t", b"\r", b"\n")):
        return lines
    return [line.translate(None, b"\t\r\n") for line in lines]


class _BadCut(Exception):
    """A slice was cut at the wrong place."""


def show(value: Any) -> str:
    """Return a decoded value as JSON for a message, shortened."""
    if isinstance(value, Token):
        return str(value)[:80]
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        if len(value) > 8 or any(isinstance(v, (list, dict)) for v in value):
            return "a list"
        return f"[{', '.join(map(show, value))}]"
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:79] + "…"


# ---------------------------------------------------------------------------------------------- columns


class RecordTypes:
    """The record types of one list; the last one that fitted is tried first."""

    def __init__(self, fields: Sequence[Field], *, rest: bool) -> None:
        self._fields = {field.key: field for field in fields}
        self._unnamed = "rest" if rest else ""
        self.shape: _RecordType | None = None
        self._type_by_spec: dict[tuple[Any, ...], _RecordType] = {}
        self._decodes = True
        """Whether values of fields are decoded, until some are unusual."""

    def decode(self, piece: Any, start: int) -> Chunk | None:
        """Decode a slice into columns; None if it needs Python values. Raises msgspec's errors of syntax."""
        try:
            return self._decode(piece, start)
        except _Unusual:
            self._decodes, self.shape = False, None  # from here on without `Field.decoding`
            return self._decode(piece, start)

    def _decode(self, piece: Any, start: int) -> Chunk | None:
        """Decode a slice by the last record type that fitted, else by one that is learnt from the slice."""
        if self.shape is not None:
            try:
                return self.shape.decode(piece, start)
            except msgspec.ValidationError:
                pass
        try:
            shape, first_float_id = self._learn(piece, start)
            if shape is None:
                return None
            chunk = shape.decode(piece, start)
        except msgspec.ValidationError:
            return None
        self.shape = shape
        if chunk is not None:
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
            kind: Any = self._unnamed
            if field is not None:
                kind = field.kind
                if kind == "id":
                    id_texts = [bytes(r.get(key, b"0")) for r in records]  # a missing id decides nothing
                    float_rows = [
                        i for i, r in enumerate(id_texts) if r[:1] != b'"' and not r.lstrip(b"-").isdigit()
                    ]
                    has_text_ids = any(r[:1] == b'"' for r in id_texts)
                    if float_rows and has_text_ids:
                        return None, {}  # 1.0 beside "a": no column holds both
                    kind = "float-id" if float_rows else "any-id" if has_text_ids else "id"
                    if float_rows:
                        first_float_id[key] = start + float_rows[0]
                elif field.decoding and self._decodes and n == len(records):
                    values = [bytes(record[key]) for record in records]
                    kind = field.decoding if are_all(values, field.decoding[0]) else kind
            spec.append((key, kind, n == len(records)))
        if any(
            field.required and n_records_with[field.key] < len(records) for field in self._fields.values()
        ):
            return None, {}  # so that the format reports the missing key
        if len(spec) > 200 or any(_NO_FIELD.search(key) for key in n_records_with):
            return None, {}  # keys that are data: a type per slice would cost more than it saves
        shape = self._type_by_spec.get(tuple(spec))
        if shape is None:
            if len(self._type_by_spec) == 64:
                return None, {}  # records that differ so much cost more to learn than they save
            shape = self._type_by_spec[tuple(spec)] = _RecordType(spec)
        return shape, first_float_id


class _RecordType:
    """A record type for records with certain keys, and how its columns are made.

    Parameters
    ----------
    spec
        Key, kind (also a `Decoding`, or ``rest`` or nothing for a key that no field names) and whether every
        record has it.
    """

    def __init__(self, spec: Sequence[tuple[str, Any, bool]]) -> None:
        self._spec = tuple(spec)
        members: list[Any] = []
        rename = {}
        for index, (key, kind, always) in enumerate(spec):
            name = f"f{index}"
            rename[name] = key
            type_: Any
            default: Any = msgspec.UNSET
            if kind in ("id", "int"):
                type_, default = int, NONE
            elif kind == "flag":
                type_, default = int | bool | None, NONE
            elif kind == "any-id":
                type_, default = int | str, NONE
            elif kind in ("number", "float-id"):
                type_, default = float, float("nan")
            elif kind == "numbers":
                numbers = [(f"n{i}", float) for i in range(4)]
                type_ = msgspec.defstruct(
                    "Numbers", numbers, array_like=True, forbid_unknown_fields=True, gc=False
                )
            elif kind == "text":
                type_, default = str, None
            elif kind == "ints":
                type_, default = list[int], None
            elif not isinstance(kind, str):
                type_ = kind[0]  # of a `Decoding`, whose values all records have
            else:
                type_, default = msgspec.Raw, msgspec.Raw(b"")
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
        n_colons = 0
        for index, (key, kind, always) in enumerate(self._spec):
            values = _get_values(records, index)
            n_keys = n  # how many records have the key, each with a colon
            if kind in ("id", "int", "flag", "any-id"):
                try:
                    column: Any = pack_whole_numbers(values, null=kind == "flag")
                except OverflowError:
                    return None
                except TypeError:  # ids that are text
                    column = values
                    n_colons += sum(v.count(":") for v in values if isinstance(v, str))
                    if not always:
                        n_keys = n - values.count(NONE)
                else:
                    n_present = int(np.count_nonzero(column != NONE))
                    if n_present < n:
                        if always:
                            return None  # the file has the number that stands for a missing key
                        n_keys = n_present
            elif kind in ("number", "float-id"):
                numbers = pack_floats(values, 1)[:, 0]
                if not always:
                    n_keys = n - int(np.isnan(numbers).sum())
                column = convert_ids(numbers, NONE) if kind == "float-id" else numbers
                if column is None:
                    return None
            elif kind == "numbers":
                if not always:
                    return None
                column = pack_floats(values, 4)
            elif not isinstance(kind, str):
                if (packed := kind[1](values)) is None:  # by a `Decoding`
                    raise _Unusual
                chunk.decoded[key], n_inner_colons = packed
                column, n_colons = None, n_colons + n_inner_colons
            elif kind in ("ints", "text"):
                column = values
                if not always:
                    n_keys = n - values.count(None)
                if kind == "text":
                    n_colons += ":".join([v or "" for v in values]).count(":") - (n - 1)
            else:
                if kind == "rest":
                    chunk.rest[key] = to_one_line(values)
                elif kind != "kept" and (n_filled := n - sum(map(NOTHING.__contains__, map(bytes, values)))):
                    chunk.extras[key] = n_filled
                if not always:
                    n_keys = n - sum(not len(v) for v in values)
                n_colons += _count_colons(values)
                column = values if kind in ("raw", "kept") else None
            if column is not None:
                chunk.columns[key] = column
            n_colons += n_keys * (1 + key.count(":"))  # behind the key, and in it
        data = np.frombuffer(piece, np.uint8)
        text_slices = (data[offset : offset + SLICE] == ord(":") for offset in range(0, len(data), SLICE))
        if sum(map(np.count_nonzero, text_slices)) == n_colons:
            return chunk
        if chunk.decoded:
            raise _Unusual
        return None


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
