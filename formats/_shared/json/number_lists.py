"""Numbers of JSON as arrays: whole columns, and the lists of numbers of many rows at once.

`record_types`, the tokens of text files and the readers of shapes call it.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.tables import Floats, Longs


def pack_floats(values: Sequence[Any], width: int) -> Floats:
    """Pack floats (`width` 1), or records or lists of `width` floats, as an array (n, `width`).

    They pass through MessagePack, where every float takes nine bytes, so all rows have one length and are
    seen by strides. `width` is less than 2**16.
    """
    # The end of the bytes, for two records of two floats (a header of `lead` bytes, then 0xcb and 8 a float):
    #   .. 92 cb ffffffff cb ffffffff | 92 cb ffffffff cb ffffffff    lead = 1, row = 1 + 2 * 9 = 19 bytes
    packed = msgspec.msgpack.encode(values)
    n, lead = len(values), 1 if width < 16 else 3
    if width == 1:  # floats themselves
        lead = 0
    row = lead + 9 * width
    # From the first float on: 9 bytes to the next one of a row, `row` bytes to that of the next row.
    rows = np.ndarray((width, n), ">f8", packed, len(packed) - row * n + lead + 1, (9, row))
    return rows.astype(np.float64, order="C").T  # column by column, which is twice as fast


def decode_numbers(tokens: Sequence[bytes]) -> Floats | None:
    """Decode n tokens to (n,) numbers; None if one is no number of JSON, or ``-0``, which loses its sign."""
    joined = b",".join(tokens)
    if not tokens or b"-0," in joined or joined.endswith(b"-0"):
        return None
    try:
        numbers = msgspec.json.decode(b"[%b]" % joined, type=list[float])
    except msgspec.DecodeError:
        return None
    return pack_floats(numbers, 1)[:, 0] if len(numbers) == len(tokens) else None  # a token "1,2" is two


def pack_whole_numbers(values: list[Any], *, null: bool) -> NDArray[np.int64]:
    """(n,) the values, with `null` None as 0. TypeError if one is text, OverflowError beyond 64 bits."""
    if null and None in values:
        values = [value or 0 for value in values]
    return np.frombuffer(array("q", values), np.int64)


def convert_ids(numbers: Floats, missing: int) -> NDArray[np.int64] | None:
    """Convert (n,) float ids, written as ``1.0``, to int64, NaN to `missing`; None if one is not whole."""
    is_present = ~np.isnan(numbers)
    ids = numbers[is_present]
    if not bool(((ids == np.rint(ids)) & (np.abs(ids) < 2.0**53)).all()):
        return None
    ids_or_missing = np.full(len(numbers), missing, np.int64)
    ids_or_missing[is_present] = ids.astype(np.int64)
    return ids_or_missing


def are_all(values: Sequence[bytes], type_: Any) -> bool:
    """Return whether JSON values are of a type."""
    try:
        msgspec.json.decode(b"[%b]" % b",".join(values), type=list[type_])
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


class NumberLists(msgspec.Struct, frozen=True, eq=False):
    """The lists of numbers of n rows."""

    numbers: Floats
    """All numbers, one list after the other."""
    sizes: Longs
    """(n,) how many numbers each list has."""

    @classmethod
    def pack(cls, lists: Sequence[Sequence[float]]) -> NumberLists:
        """Make the lists from Python's."""
        sizes = np.fromiter(map(len, lists), np.int64, len(lists))
        width = int(sizes.max(initial=0))
        if 1 < width < 2**16 and sizes.min() == width:  # all of one length
            return cls(pack_floats(lists, width).reshape(-1), sizes)
        return cls(pack_floats([*itertools.chain.from_iterable(lists)], 1)[:, 0], sizes)
