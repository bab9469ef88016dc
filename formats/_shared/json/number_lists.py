"""Numbers of JSON as arrays: whole columns of floats, and the lists of numbers of many rows at once.

The columns of `columns` and the readers of shapes call it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from odm.tables import Floats, Longs


def pack_floats(values: Sequence[Any], width: int) -> Floats:
    """Pack floats (`width` 1), or records of `width` floats, at most 15, as an array (n, `width`).

    They pass through MessagePack, where every float takes nine bytes, so all rows have one length and are
    seen by strides.
    """
    # The end of the bytes, for two records of two floats (an array header, then 0xcb and 8 bytes a float):
    #   .. 92 cb ffffffff cb ffffffff | 92 cb ffffffff cb ffffffff    lead = 1, row = 1 + 2 * 9 = 19 bytes
    packed = msgspec.msgpack.encode(values)
    n, lead = len(values), 0 if width == 1 else 1
    row = lead + 9 * width
    rows = np.ndarray((width, n), ">f8", packed, len(packed) - row * n + lead + 1, (9, row))
    return rows.astype(np.float64, order="C").T  # column by column, which is twice as fast


def decode_number_lists(values: Sequence[bytes]) -> tuple[Floats, Longs] | None:
    """Decode n JSON lists of numbers at once.

    Returns
    -------
    All numbers, and (n,) how many each list has. None if a value is anything else, or an empty list.
    """
    if set(map(_FIRST_CHARACTER, values)) != {b"["}:
        return None
    try:  # all as one list: one of them with another inside has a bracket
        numbers = msgspec.json.decode(
            b"[%b]" % b",".join([value[1:-1] for value in values]), type=list[float]
        )
    except msgspec.DecodeError:
        return None
    sizes = np.fromiter(map(_COUNT_COMMAS, values), np.int64, len(values)) + 1
    return (pack_floats(numbers, 1)[:, 0], sizes) if len(numbers) == sizes.sum() else None


_FIRST_CHARACTER = operator.itemgetter(slice(1))
_COUNT_COMMAS = operator.methodcaller("count", b",")
