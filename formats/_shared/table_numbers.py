"""Numbers in the cells of a table, with a decimal point or a decimal comma, and the faults of its rows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.formats._shared.codes import NOT_A_NUMBER, NOT_FINITE
from odm.issues import Code, Log
from odm.tables import Floats, Ints

MIXED_DECIMALS = Code(
    "mixed-decimal-marks",
    "error",
    "this line has a decimal {found}, but line {line_of_other} has a decimal {other}",
    "write all numbers with a decimal point",
    "Where both occur, one of them may be a thousands separator, so no number in the file is certain.",
    file=True,
)
THOUSANDS = Code(
    "doubtful-comma",
    "error",
    "the comma in {value!r} may be a decimal comma or a thousands separator",
    "write numbers with a decimal point, or use -O decimal=comma",
    "Every comma in this file is followed by three digits, and no number decides what it means.",
    file=True,
)
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_THOUSANDS = re.compile(r"\s*[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+\s*")
_NUMERIC = b"0123456789.+-eE \t"


class RowFaults:
    """What is wrong with the n rows of a piece of a file, and which of them are lost by it."""

    def __init__(self, n: int) -> None:
        self.lost = np.zeros(n, bool)
        self.found: list[tuple[int, int, Code | None, dict[str, Any]]] = []
        """Row, column, code and its values; without a code, `accept_name` reports an image's name."""

    def add(self, row: int, column: int, code: Code | None, /, **values: Any) -> None:
        """Note a fault by which the row is lost."""
        self.warn(row, column, code, **values)
        self.lost[row] = True

    def warn(self, row: int, column: int, code: Code | None, /, **values: Any) -> None:
        """Note a fault that leaves the row as it is."""
        self.found.append((row, column, code, values))


class Decimals:
    """The numbers of one file, and the places that show with which mark their decimals are written."""

    def __init__(self, explicit: str | None) -> None:
        self._explicit = explicit
        self._comma: tuple[int, str] | None = None
        """Line and text of the first number with a comma; likewise of the next two."""
        self._point: tuple[int, str] | None = None
        self._doubtful: tuple[int, str] | None = None
        self._has_plain_comma = False
        """Whether there is a comma that cannot stand after thousands."""

    def numbers(
        self, cells: list[str], column: int, lines: Ints, faults: RowFaults
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """The numbers of a column, NaN where a cell is empty or faulty, and which are empty."""
        n = len(cells)
        joined = "".join(cells)
        if not joined:
            return np.full(n, np.nan), np.ones(n, bool)
        rest = joined.encode("utf-8", "surrogatepass").translate(None, _NUMERIC)
        if not rest.strip(b","):
            ready = cells
            if rest:
                self._note_commas(cells, lines)
                ready = [cell.replace(",", ".") for cell in cells]
            if self._point is None and "." in joined:
                self._note_points(cells, lines)
            try:
                values = np.fromiter(
                    map(float, [c or "nan" for c in ready] if "" in ready else ready), np.float64, n
                )
            except ValueError:
                pass
            else:
                if not np.isinf(values).any() and not (rest and self._explicit == "point"):
                    return values, np.isnan(values)
        else:
            self._note_commas(cells, lines)
            self._note_points(cells, lines)
        values = np.full(n, np.nan)
        blank = np.zeros(n, bool)
        for i, cell in enumerate(cells):
            text = cell.strip(" \t")
            if not text:
                blank[i] = True
            elif not NUMBER.fullmatch(text) or ("," in text and self._explicit == "point"):
                faults.add(i, column, NOT_FINITE if _NOT_FINITE.fullmatch(text) else NOT_A_NUMBER, value=cell)
            elif np.isfinite(value := float(text.replace(",", "."))):
                values[i] = value
            else:
                faults.add(i, column, NOT_FINITE, value=cell)
        return values, blank

    def _note_commas(self, cells: list[str], lines: Ints) -> None:
        for i, cell in enumerate(cells):
            if "," in cell and NUMBER.fullmatch(cell.strip(" \t")):
                if self._comma is None or lines[i] < self._comma[0]:
                    self._comma = int(lines[i]), cell
                if not _THOUSANDS.fullmatch(cell):
                    self._has_plain_comma = True
                elif self._doubtful is None:
                    self._doubtful = int(lines[i]), cell
                if self._has_plain_comma:
                    return
            elif _THOUSANDS.fullmatch(cell) and self._doubtful is None:
                self._doubtful = int(lines[i]), cell

    def _note_points(self, cells: list[str], lines: Ints) -> None:
        for i, cell in enumerate(cells):
            if "." in cell and NUMBER.fullmatch(cell.strip(" \t")):
                if self._point is None or lines[i] < self._point[0]:
                    self._point = int(lines[i]), cell
                return

    def check_head(self, path: str, log: Log) -> None:
        """Say how the commas of the file were read, or that they cannot be."""
        if self._comma is None or self._explicit == "point":
            return
        if self._point is not None:
            (other_line, _, other), (line, _, found) = sorted(
                [(*self._point, "point"), (*self._comma, "comma")], key=lambda mark: mark[0]
            )
            log.report(MIXED_DECIMALS, path, line=line, found=found, other=other, line_of_other=other_line)
        elif self._doubtful is not None and not self._has_plain_comma and self._explicit is None:
            log.report(THOUSANDS, path, line=self._doubtful[0], value=self._doubtful[1])
        else:
            log.note(f"{path}: numbers have decimal commas, which are read as decimal points")
