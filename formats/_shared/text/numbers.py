"""Numbers as text: the shortest decimal that reads back to the same number."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.issues import Log
from odm.tables import Dataset, Floats, Longs

Cells = NDArray[np.bytes_]
"""Texts of one line each as an array of their bytes, which NumPy pads with NULs."""


def to_decimals(values: NDArray[Any]) -> list[str]:
    """Shortest round-trip text of each number of a flat array; whole numbers have no point.

    Infinities and NaN are the caller's mistake: `odm.checks` keeps them from every writer.
    """
    values = np.asarray(values, np.float64) + 0.0  # no minus before zero
    if not len(values):
        return []
    size = np.abs(values)
    if (((size >= 1e-4) & (size < 1e15)) | (size == 0)).all():  # Python and JSON write these alike
        import msgspec

        text = msgspec.json.encode(values.tolist()).decode()[1:-1]
    else:
        text = ",".join(map(repr, values.tolist()))
    return f"{text},".replace(".0,", ",")[:-1].split(",")  # "1.0,2.5" is "1,2.5"


def to_fixed(values: Floats, places: int) -> list[str]:
    """Format each number of a flat array with at most `places` decimals and no trailing zeros or exponent."""
    return to_texts(to_fixed_cells(values, places))


def to_fixed_rows(values: Floats, places: Longs) -> list[list[str]]:
    """Format (n, m) numbers by `to_fixed`, row i with ``places[i]`` decimals."""
    width = values.shape[1]
    text_rows: list[list[str]] = [[]] * len(values)
    for n in np.unique(places).tolist():
        rows = np.flatnonzero(places == n)
        cells = to_fixed(values[rows].ravel(), n)
        for k, row in enumerate(rows.tolist()):
            text_rows[row] = cells[width * k : width * (k + 1)]
    return text_rows


def to_texts(cells: Cells) -> list[str]:
    """Convert cells to a list of str."""
    strings: list[str] = cells.astype(str).tolist()
    return strings


def to_fixed_cells(values: Floats, places: int) -> Cells:
    """Format numbers as `to_fixed` does, and return them as an array of bytes."""
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = values * 10.0**places
        rounded = np.rint(scaled)
        # So near to the middle between two that the product's rounding, 1.1e-16 of it, might decide is left
        # to Python, and so is what has more decimals than the powers of ten that int64 holds.
        margin = 0.5 - np.abs(scaled - rounded)
        is_plain = (np.abs(scaled) < 1e15) & (margin > 1e-9 + 3e-16 * np.abs(scaled)) & (places <= 18)
    if is_plain.all():
        return _format_decimals(rounded, places)
    number_format = f"%.{places}f"
    exact_texts = [(number_format % value).rstrip("0").rstrip(".") for value in values[~is_plain].tolist()]
    exact_cells = np.array(["0" if text == "-0" else text for text in exact_texts], np.bytes_)
    plain_cells = _format_decimals(rounded[is_plain], places)
    cells = np.zeros(len(values), max(plain_cells.dtype, exact_cells.dtype, key=lambda dtype: dtype.itemsize))
    cells[is_plain], cells[~is_plain] = plain_cells, exact_cells
    return cells


_THOUSAND = (np.arange(1000) // [[100], [10], [1]] % 10 + ord("0")).astype(np.uint8)
"""(3, 1000) the digits of 0 to 999."""


def _split_decimals(decimals: NDArray[np.int64], places: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Split (n,) numbers of `places` digits: (places, n) digits as text, and (n,) True where one is not 0.

    Trailing zeros are NULs.
    """
    # 2345 fills 2 groups of 3 digits as 234 500, so there are 6 rows at first.
    n_groups = -(-places // 3)  # rounded up
    remaining = decimals * 10 ** (3 * n_groups - places)
    digits = np.empty((3 * n_groups, len(decimals)), np.uint8)
    for g in reversed(range(n_groups)):
        remaining, dividend = remaining // 1000, remaining
        last_three = dividend - 1000 * remaining
        for i, of_thousand in enumerate(_THOUSAND):
            digits[3 * g + i] = of_thousand[last_three]
    only_zeros = np.ones(len(decimals), np.bool_)  # whether nothing but zeros was seen from the end on
    for column in digits[::-1]:
        only_zeros &= column == _ZERO
        column[only_zeros] = 0
    return digits[:places], ~only_zeros


def _format_decimals(numbers: Floats, places: int) -> Cells:
    """Write (n,) whole numbers below 1e15 divided by ``10**places``, without trailing zeros."""
    if not len(numbers):
        return np.zeros(0, "S1")
    is_negative = numbers < 0
    magnitudes = np.abs(numbers).astype(np.int64)
    # 12345 with 4 places: integers 1, decimals 2345. A row of `cells` is "1.2345" and NULs.
    integers = magnitudes // 10**places
    digits, has_decimals = _split_decimals(magnitudes - integers * 10**places, places)
    point = np.where(has_decimals, ord("."), 0).astype(np.uint8)

    # Rows with the same number of characters before the point (digits and a minus) are written together: the
    # point and the decimals behind them, then these digits from the last to the first, then the minus.
    lead_length = np.searchsorted(10 ** np.arange(1, 16), integers, side="right") + 1 + is_negative
    cells = np.zeros((len(numbers), int(lead_length.max()) + 1 + places), np.uint8)
    for length in np.flatnonzero(np.bincount(lead_length)).tolist():
        rows = np.flatnonzero(lead_length == length)
        rows_of_length: Any = slice(None) if len(rows) == len(numbers) else rows
        cells[rows_of_length, length] = point[rows_of_length]
        cells[rows_of_length, length + 1 : length + 1 + places] = digits[:, rows_of_length].T
        integer = integers[rows_of_length]
        for position in reversed(range(length)):
            integer, dividend = integer // 10, integer
            cells[rows_of_length, position] = dividend - 10 * integer + _ZERO
        cells[rows[is_negative[rows]], 0] = ord("-")
    return cells.view(f"S{cells.shape[1]}")[:, 0]


_ZERO = ord("0")


def round_edges(xyxy: Floats) -> Floats:
    """Round (n, 4) edges to whole numbers, halves away from zero.

    A side whose edges would coincide is rounded outwards instead, to the pixels that it touches.
    """
    rounded = np.copysign(np.floor(np.abs(xyxy) + 0.5), xyxy) + 0.0  # no -0
    low, high = xyxy[:, :2], xyxy[:, 2:]
    vanishes = (rounded[:, :2] == rounded[:, 2:]) & (low < high)
    rounded[:, :2][vanishes] = np.floor(low[vanishes])
    rounded[:, 2:][vanishes] = np.ceil(high[vanishes])
    return rounded


def round_boxes(dataset: Dataset, log: Log) -> Dataset:
    """Round the edges of boxes, for tools that read whole numbers only; a note counts changed coordinates."""
    rounded = round_edges(dataset.boxes.xyxy)
    if n := int(np.count_nonzero(rounded != dataset.boxes.xyxy)):
        log.note(f"round=true: {n} of {rounded.size} coordinates are rounded to whole pixels")
    boxes = replace(dataset.boxes, xyxy=rounded, wh=rounded[:, 2:] - rounded[:, :2])
    return replace(dataset, boxes=boxes)
