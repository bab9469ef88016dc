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
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import msgspec

from odm.formats._shared.codes import DUPLICATE_KEY, NOT_UTF8
from odm.formats._shared.gather import escape_key
from odm.formats._shared.json.preview import (
    TOO_DEEP,
    find_deeper,
    find_line_column,
    is_deeper,
    parse_syntax_error,
)
from odm.formats._shared.json.record_types import SLICE, Chunk, Field, RecordTypes
from odm.formats._shared.text.tokens import find_wide_encoding
from odm.issues import Code, Log, shorten

SYNTAX = Code(
    "json-syntax",
    "error",
    "invalid JSON: {reason}",
    "correct the file at this position, or export it again",
    "The JSON syntax is broken here, so nothing after this position can be trusted. A truncated file ends "
    "in the middle.",
    file=True,
)


class Broken(Exception):
    """The rest of the document cannot be read; the log has the reason."""


class Token(str):
    """A number that no float can hold: ``NaN``, ``-Infinity``, ``1e999``, or an integer of endless digits."""

    __slots__ = ()


class Repeated(dict[str, Any]):
    """An object with a duplicate key; ``repeated`` names the first."""

    repeated: str = ""


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
    """Return the length of the value before trailing text, from msgspec's message; 0 if unknown."""
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
        self._data, self._view = data, memoryview(data)
        self._log, self._path = log, path
        self._size, self._fast, self._first = slice_size, fast, first
        self._at = self._skip_blanks(0)
        """The offset of the value that comes next, which every method that takes a value moves on."""
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
                if self._at == value_start:  # the caller has not read the value
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
        if length:  # 0 if the value itself is not strict JSON
            self._refuse_deeper(remaining[:length])
            self._at += length
            return True
        self.read_value()  # NaN or the like; an error of syntax is reported
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
        # `index` is the number of the first record of the slice, `end` the offset behind the whole list.
        slice_start, index, end = self._at + 1, self._first, None
        while end is None:
            cut = CUT.search(data, slice_start + self._size)
            if cut is None:  # the rest of the text, with the list's own bracket only if no slice came before
                is_whole = data[slice_start - 1 : slice_start] == b"[" and index == self._first
                json_slice: Any = self._view[slice_start - 1 :] if is_whole else None
            else:
                json_slice = b"".join((b"[", self._view[slice_start : cut.start() + 1], b"]"))
            chunk, end = self._decode_piece(json_slice, slice_start, index, shapes, is_rest=cut is None)
            index += chunk.n
            # The bytes of this slice: to the cut, or to the end of the text.
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
                # The list ends inside the piece: decode again without what follows.
                length, list_ends = list_length, True
                piece = bytes(piece[:length])
                continue
            if chunk is None:
                break
            return chunk, slice_start - 1 + length if list_ends else None
        # Not decoded into columns: as Python values, which also reports an error of syntax.
        try:
            # The bound is for the values of a record; the list and the record are two levels around them.
            records, end = self._decode_python(piece, slice_start - 1, retry=not is_rest, outer=2)
        except _BadCut:  # within a text, or there is a syntax error, which all that is left shows
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
        if location is None:  # the text is decoded as a whole, which finds the first
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
        # What is too deep before the error counts as that; outside a value are the object, list and record.
        self._refuse_deeper(self._view[:location], outer=3)
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
