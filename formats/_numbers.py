"""Numbers as text: the shortest decimal that reads back to the same number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.tables import Boxes, Floats


def decimals(values: NDArray[Any]) -> list[str]:
    """Shortest round-trip text of each number of a flat array; whole numbers have no point.

    Infinities and NaN are the caller's mistake: `odm.checks` keeps them from every writer.
    """
    flat = values.tolist()
    if len(flat) and bool((np.abs(values) < 1e15).all()) and bool((values == np.rint(values)).all()):
        return list(map(str, np.asarray(values, np.int64).tolist()))
    return [text[:-2] if (text := repr(v)).endswith(".0") else text for v in flat]


def fixed(values: Floats, places: int) -> list[str]:
    """Each number with at most `places` decimals, without trailing zeros and never in exponent form."""
    form = f"%.{places}f"
    texts = [(form % value).rstrip("0").rstrip(".") for value in values.tolist()]
    return ["0" if text == "-0" else text for text in texts]


def short_wh(boxes: Boxes) -> Floats:
    """(n, 2) widths and heights to be written: the source's own, or the shortest that lead to the same edge.

    A width that was derived as ``right - left`` carries rounding (0.30000000000000004); it is replaced by the
    number of fewest decimals that, added to the left edge, gives the same right edge.
    """
    low, high, wh = boxes.xyxy[:, :2], boxes.xyxy[:, 2:], boxes.wh
    derived = wh == high - low
    if not derived.any():
        return wh
    result = wh.copy()
    open_ = np.nonzero(derived & (wh != np.rint(wh)))
    for places in range(17):
        if not len(open_[0]):
            break
        tried = np.round(wh[open_], places)
        fits = low[open_] + tried == high[open_]
        done = tuple(index[fits] for index in open_)
        result[done] = tried[fits]
        open_ = tuple(index[~fits] for index in open_)
    return result
