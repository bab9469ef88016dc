"""Nested records of JSON as columns, where all of them are what a format says.

The formats of annotation tools give every image a small list of boxes. `Records` decodes such a text into
typed records at C speed, and each key of all of them becomes one column that is checked as a whole. Where
anything is unusual there is no `Table`: the text then comes as Python values, which the format looks at one
by one (`json_values`), so there is one place for each message, and both ways give the same tables.

Keys that the format does not name are refused, so the number of keys is known. Each is followed by a colon:
if the text has just as many colons as keys (and as the texts and the values that are not looked at hold), no
key stands twice.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from odm.formats._shared.gather import NAN, At
from odm.formats._shared.json_columns import _PYTHON, attribute, count_colons
from odm.formats._shared.json_values import EMPTY_VALUES, Nothing, Reader, is_upright
from odm.names import refuse_class
from odm.tables import Floats

BATCH = 2**21
"""Bytes of the small files that become one table."""
HEAD = 2**16
"""Bytes that are searched for keys which a file may lack."""
_NONE: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class _Of:
    of: Any


class Each(_Of):
    """A list of such values."""


class One(_Of):
    """A list of one such value."""


class Keyed(_Of):
    """An object whose keys are data, with such values."""


class Maybe(_Of):
    """Such a value, or null, or none at all; its column has None, or NaN among numbers."""


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """Any value; none is as null. Its column has what `read` makes of it, where None says that it is unusual.

    Equal texts are read once, and give the same object.
    """

    read: Callable[[Any], Any]


CLASS = "class"
"""A text that can be the name of a class."""
TEXT = "text"
NUMBER = "number"
INT = "int"
POINTS = "points"
"""A list of two or more points, each two numbers."""
FOUR = "four"
"""A list of four numbers, whose column is (n, 4)."""
ANY = "any"
"""What is not looked at, or none."""
EMPTY = "empty"
"""What holds nothing, or none."""
COUNTED = "counted"
"""What is counted as unread where it holds something, or none."""
Kind = str | frozenset[str] | Mapping[str, Any] | Each | One | Keyed | Maybe | Held
"""What the value of a key is; a set gives the texts that it may be, and a mapping the keys of an object."""


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Points:
    """The points of n shapes: as they were read, and the rectangle around each."""

    lists: list[list[tuple[float, float]]]
    bounds: Floats
    """(n, 4) left, top, right, bottom."""


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Table:
    """n records as columns by key; a list or an object of records is a table of its own.

    ``lengths`` says how many of the records each list held, and ``names`` the keys in an object of them.
    """

    n: int
    columns: dict[str, Any]
    counted: dict[str, NDArray[np.bool_]]
    """Which records have something under a key that is only counted."""
    lengths: list[int] = dataclasses.field(default_factory=list)
    names: list[str] = dataclasses.field(default_factory=list)

    def __getitem__(self, key: str) -> Any:
        return self.columns[key]


class _Unusual(Exception):
    """Something is not as most files have it."""


def _unusual() -> NoReturn:
    raise _Unusual


class _Batch:
    """Small files that are to become one table."""

    def __init__(self) -> None:
        self.absent: frozenset[str] | None = None
        """The keys that were left out of their types; None before the first file."""
        self.size = 0
        self._rows: list[tuple[str, bytes, Any]] = []

    def add(self, file: str, data: bytes, value: Any) -> None:
        self._rows.append((file, data, value))
        self.size += len(data)

    def take(self) -> tuple[list[str], list[bytes], list[Any]]:
        """The files, their texts and their values, which are then forgotten."""
        rows, self._rows, self.size = self._rows, [], 0
        return [file for file, _, _ in rows], [data for _, data, _ in rows], [value for _, _, value in rows]


class Records:
    """Reads files of one kind of records; it is made once, at the top of a module."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._optional = frozenset(_optional_keys(kind))
        self._decoders: dict[frozenset[str], Any] = {}

    def read(self, reader: Reader, file: str, *others: Records) -> Any:
        """The content of a file: a `Table`, of these or of others, or Python values, or `Nothing`."""
        data = reader.content(file)
        if data is None:
            return Nothing
        for records in (self, *others):
            if (table := records.table(data)) is not None:
                return table
        return reader.decode(file, data)

    def read_all(self, reader: Reader, files: Sequence[str]) -> Iterator[tuple[Sequence[str], Any]]:
        """Files with their content, in order: a `Table` with a row for each of several, or one's values."""
        log, batch = reader.log, _Batch()
        aside = log.fresh()  # what is wrong with a file is told after those before it
        for file in log.track(files, "reading"):
            data = reader.content(file, aside)
            if batch.absent is None:
                batch.absent = _NONE if data is None else self._absent(data)
            value = Nothing if data is None else self._decode(data, batch.absent)
            if data is not None and value is Nothing and batch.absent:
                value = self._decode(data)
                if value is not Nothing:
                    yield from self._tables(reader, batch)
                    batch.absent = _NONE
            if data is not None and value is not Nothing:
                batch.add(file, data, value)
                if batch.size < BATCH:
                    continue
            yield from self._tables(reader, batch)
            if aside.counts:
                log.extend(aside)
                aside = log.fresh()
            if data is not None and value is Nothing and (slow := reader.decode(file, data)) is not Nothing:
                yield [file], slow
        yield from self._tables(reader, batch)

    def _tables(self, reader: Reader, batch: _Batch) -> Iterator[tuple[Sequence[str], Any]]:
        """The content of the files of a batch, which is then empty."""
        files, texts, values = batch.take()
        table = self._table(texts, values, batch.absent or _NONE) if files else None
        if table is not None:
            yield files, table
            return
        for file, data in zip(files, texts, strict=True):
            if (value := reader.decode(file, data)) is not Nothing:
                yield [file], value

    def table(self, data: bytes) -> Table | None:
        """The content of a text as columns; None where it is unusual."""
        for absent in dict.fromkeys((self._absent(data), _NONE)):
            value = self._decode(data, absent)
            if value is not Nothing:
                return self._table([data], [value], absent)
        return None

    def _absent(self, data: bytes) -> frozenset[str]:
        """The keys that a text seems to lack; each that is declared costs a column."""
        head = data[:HEAD]
        return frozenset(key for key in self._optional if f'"{key}"'.encode() not in head)

    def _decode(self, data: bytes, absent: frozenset[str] = _NONE) -> Any:
        """The typed value of a text; `Nothing` where it is of another kind, or not even JSON."""
        import msgspec

        decoder = self._decoders.get(absent)
        if decoder is None:
            decoder = self._decoders[absent] = msgspec.json.Decoder(_type_of(self._kind, absent))
        try:
            return decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return Nothing

    def _table(
        self, texts: Sequence[bytes], values: list[Any], absent: frozenset[str] = _NONE
    ) -> Table | None:
        """The values of some texts as columns; None where one is unusual."""
        columns = _Columns(absent)
        try:
            found: Table = columns.of(self._kind, values)
        except (_Unusual, RecursionError):
            return None
        text = b"".join(texts)
        if count_colons(text) != columns.colons or (b"\\" in text and _COLON.search(text)):
            return None
        return found


_COLON = re.compile(rb"\\u003[aA]")
"""A colon in a text that is none in the file."""


def _is_optional(kind: Kind) -> bool:
    """Whether records may lack a value of this kind."""
    return isinstance(kind, (Maybe, Held)) or kind in (ANY, EMPTY, COUNTED)


def _optional_keys(kind: Kind) -> Iterator[str]:
    """The keys that records may lack."""
    if isinstance(kind, Mapping):
        for key, inner in kind.items():
            if _is_optional(inner):
                yield key
            yield from _optional_keys(inner)
    elif isinstance(kind, (Each, One, Keyed)):
        yield from _optional_keys(kind.of)


def _lacks(kind: Kind, key: str, absent: frozenset[str]) -> bool:
    return key in absent and _is_optional(kind)


def _type_of(kind: Kind, absent: frozenset[str]) -> Any:
    """The type by which msgspec decodes a value of this kind, without the keys that are absent."""
    import msgspec

    if isinstance(kind, Mapping):
        members: list[tuple[Any, ...]] = []
        kept = {key: inner for key, inner in kind.items() if not _lacks(inner, key, absent)}
        for number, inner in enumerate(kept.values()):
            member, name = _type_of(inner, absent), f"f{number}"
            if isinstance(inner, Held):
                members.append((name, member, msgspec.Raw(b"")))
            elif _is_optional(inner):
                members.append((name, member, msgspec.UNSET))
            else:
                members.insert(0, (name, member))  # fields without a default come first
        rename = {f"f{number}": key for number, key in enumerate(kept)}
        return msgspec.defstruct("Record", members, rename=rename, forbid_unknown_fields=True, gc=False)
    if isinstance(kind, One):
        return tuple[_type_of(kind.of, absent)]  # type: ignore[misc]
    if isinstance(kind, Each):
        return list[_type_of(kind.of, absent)]  # type: ignore[misc]
    if isinstance(kind, Keyed):
        return dict[str, _type_of(kind.of, absent)]  # type: ignore[misc]
    if isinstance(kind, Maybe):
        return _type_of(kind.of, absent) | None | msgspec.UnsetType
    if isinstance(kind, frozenset):
        return str
    return _SIMPLE.get(kind, Any) if isinstance(kind, str) else msgspec.Raw


_SIMPLE: dict[str, Any] = {
    CLASS: str,
    TEXT: str,
    NUMBER: float,
    INT: int,
    FOUR: tuple[float, float, float, float],
    POINTS: list[tuple[float, float]],
}


class _Columns:
    """Makes columns of decoded values, and counts the colons that their text has. `_Unusual` says why not."""

    def __init__(self, absent: frozenset[str]) -> None:
        self.colons = 0
        self._absent = absent

    def of(self, kind: Kind, values: list[Any]) -> Any:
        """The column of values of this kind."""
        if isinstance(kind, Mapping):
            return self._records(kind, values)
        if isinstance(kind, Each):
            found = self.of(kind.of, list(itertools.chain.from_iterable(values)))
            found.lengths = list(map(len, values))
            return found
        if isinstance(kind, One):
            return self.of(kind.of, list(itertools.chain.from_iterable(values)))
        if isinstance(kind, Keyed):
            names = list(itertools.chain.from_iterable(values))
            self.colons += len(names) + "".join(names).count(":")
            found = self.of(kind.of, list(itertools.chain.from_iterable(map(dict.values, values))))
            found.names = names
            return found
        if isinstance(kind, Maybe):
            if kind.of == NUMBER:
                return self.of(NUMBER, [NAN if v is None else v for v in values])
            self.of(kind.of, [v for v in values if v is not None])
            return values
        if isinstance(kind, Held):
            return _held(kind, values)
        if kind == NUMBER:
            return _numbers(np.array(values, np.float64))
        if kind == FOUR:
            return _numbers(np.fromiter(itertools.chain.from_iterable(values), np.float64)).reshape(-1, 4)
        if kind == POINTS:
            return _points(values)
        if kind != INT:
            self._texts(kind, values)
        elif values and not -(2**63) < min(values) <= max(values) < 2**63:
            _unusual()
        return values

    def _records(self, kind: Mapping[str, Kind], rows: list[Any]) -> Table:
        import msgspec

        n, table, number = len(rows), Table(len(rows), {}, {}), 0
        for key, inner in kind.items():
            if _lacks(inner, key, self._absent):
                if inner not in (ANY, EMPTY, COUNTED):
                    table.columns[key] = self.of(inner, [b"" if isinstance(inner, Held) else None] * n)
                continue
            values = attribute(rows, number)
            number += 1
            keys = n
            if isinstance(inner, Held):
                text = b"\0".join(values)  # which no JSON holds
                values = text.split(b"\0") if n else []
                keys -= values.count(b"")
                self.colons += text.count(b":")
            elif _is_optional(inner) and msgspec.UNSET in values:
                keys -= values.count(msgspec.UNSET)
                values = [None if v is msgspec.UNSET else v for v in values]
            self.colons += keys * (1 + key.count(":"))
            if inner in (ANY, EMPTY, COUNTED):
                kinds = {*map(type, values)}
                self.colons += _colons(values, kinds)
                filled = None if inner == ANY else _filled(values, kinds)
                if filled is not None:
                    if inner == EMPTY or table.counted:  # the first of several would have to be found
                        _unusual()
                    table.counted[key] = filled
            else:
                table.columns[key] = self.of(inner, values)
        return table

    def _texts(self, kind: Kind, values: list[str]) -> None:
        """Check a column of texts."""
        self.colons += "".join(values).count(":")
        if kind == CLASS:
            if any(map(refuse_class, dict.fromkeys(values))):
                _unusual()
        elif isinstance(kind, frozenset) and not kind.issuperset(values):
            _unusual()


def _held(kind: Held, values: list[bytes]) -> list[Any]:
    known: dict[bytes, Any] = dict.fromkeys(values)
    for text in known:
        known[text] = kind.read(_PYTHON.decode(text.decode()) if text else None)
    if None in known.values():
        _unusual()
    return list(map(known.__getitem__, values))


def _colons(values: Iterable[Any], kinds: set[type]) -> int:
    """How many colons the JSON of some values has; `kinds` are their types."""
    found = 0
    if str in kinds:
        found += "".join([value for value in values if type(value) is str]).count(":")
    for kind in kinds & {list, dict}:
        inner: list[Any] = [value for value in values if type(value) is kind and value]
        items: list[Any] = list(itertools.chain.from_iterable(inner))
        found += _colons(items, {*map(type, items)})
        if kind is dict:
            held: list[Any] = list(itertools.chain.from_iterable(map(dict.values, inner)))
            found += len(items) + _colons(held, {*map(type, held)})
    return found


def _filled(values: list[Any], kinds: set[type]) -> NDArray[np.bool_] | None:
    """Which of some values hold something; None if none of them does."""
    if kinds <= {type(None)}:
        return None
    if kinds <= {int, float, bool}:
        return np.ones(len(values), np.bool_)
    filled = np.array([value not in EMPTY_VALUES for value in values], np.bool_)
    return filled if filled.any() else None


def _numbers(values: Floats) -> Floats:
    """Numbers that arrays and Python treat alike: no endless ones, and no minus before zero."""
    if (np.abs(values) > 1e300).any() or (np.signbit(values) & (values == 0)).any():
        _unusual()
    return values


def _points(lists: list[list[tuple[float, float]]]) -> Points:
    n = len(lists)
    lengths = np.fromiter(map(len, lists), np.int64, n)
    if not n or int(lengths.min()) < 2:
        return Points(lists, np.zeros((0, 4))) if not n else _unusual()
    if lengths.max() == lengths[0] < 16 and lengths.min() == lengths[0]:
        corners = _numbers(_same_points(lists, int(lengths[0])))
        low, high = corners.min(axis=0).reshape(-1, 2), corners.max(axis=0).reshape(-1, 2)
        return Points(lists, np.concatenate([low, high], axis=1))
    inner = itertools.chain.from_iterable(itertools.chain.from_iterable(lists))
    xy = _numbers(np.fromiter(inner, np.float64)).reshape(-1, 2)
    begins = np.cumsum(lengths) - lengths
    low, high = np.minimum.reduceat(xy, begins), np.maximum.reduceat(xy, begins)
    return Points(lists, np.concatenate([low, high], axis=1))


def _same_points(lists: list[list[tuple[float, float]]], count: int) -> Floats:
    """(count, 2 n) of n lists of so many points, through MessagePack, where all take the same bytes."""
    import msgspec

    packed = msgspec.msgpack.encode(lists)
    width = 1 + 19 * count  # one byte before a list and each of its values, and eight for a float
    begin = len(packed) - width * len(lists) + 3
    xy = np.ndarray((count, len(lists), 2), ">f8", packed, begin, (19, width, 9))
    return xy.astype(np.float64).reshape(count, -1)


# ------------------------------------------------------------------------------------------------ boxes


def outlines(points: Points, kinds: Sequence[str]) -> list[str]:
    """The kind of each shape that is not just the rectangle around it, empty for others and where it was."""
    pairs = zip(kinds, points.lists, strict=True)
    return [kind if kind and not is_upright(shape) else "" for kind, shape in pairs]


def add_boxes(
    reader: Reader,
    table: Table,
    label: Sequence[str],
    xyxy: Floats,
    images: Sequence[int | None],
    lists: Sequence[int],
    *,
    outline: Sequence[str] = (),
    **columns: NDArray[Any],
) -> None:
    """Add the boxes of lists of records, each list that of one image.

    Parameters
    ----------
    label, xyxy, columns
        The class of each box, its edges (n, 4), and other columns of `Builder.boxes`.
    images, lists
        The row of the image of each list, None to leave its boxes out, and the number that
        `Reader.rows_of` gave the list.
    outline
        For each box what it is the rectangle around, in the words of `Reader.outline`; empty for none.
    """
    lengths = np.array(table.lengths, np.int64)
    image = np.repeat(np.array([-1 if row is None else row for row in images], np.int64), lengths)
    file = np.repeat(np.array(lists, np.int64), lengths)
    line = np.arange(table.n) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    columns = {"image": image, "xyxy": xyxy, "file": file, "line": line, **columns}
    counted = table.counted
    kept = image >= 0
    if not kept.all():
        reader.builder.skipped += int(np.count_nonzero(~kept))
        columns = {key: column[kept] for key, column in columns.items()}
        counted = {key: column[kept] for key, column in counted.items()}
        label, outline = (list(itertools.compress(values, kept)) for values in (label, outline))
    for key, filled in counted.items():
        if n := int(np.count_nonzero(filled)):
            reader.count(key, n)
    rows = {name: reader.category(name, _NOWHERE) for name in dict.fromkeys(label)}
    category = np.fromiter(map(rows.__getitem__, label), np.int64, len(label))
    reader.add(category=category, score=columns.pop("score", None), **columns)
    where = reader.where(columns["file"], columns["line"])
    for i, what in enumerate(outline):
        if what:
            reader.outline(what, functools.partial(where, i))


_NOWHERE = At("")
