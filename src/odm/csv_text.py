"""CSV as in RFC 4180: the records of a text with their lines. Wrong quotes are faults, nothing is guessed.

The standard library accepts a quote that is never closed, and refuses a cell of more than 131 072 characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from odm.issues import shorten

QUOTED = re.compile(r'"[^"]*+(?:""[^"]*+)*+"')
QUOTE_SPAN = 2**14
"""Characters after the end of its line within which a quote must be closed."""


class QuoteFault(NamedTuple):
    """A fault in the quotes of a record."""

    is_open: bool
    """Whether a quote is never closed; else one stands in the middle of a cell."""
    cell: int
    """Which cell, counted from 0."""
    lines: int
    """How many lines after the start of the record the cell begins."""
    found: str
    """The cell, as far as messages show it; of a quote that runs on, how it ends."""

    def __str__(self) -> str:
        return "a quote that is never closed" if self.is_open else f"a stray quote in {shorten(self.found)!r}"


def read_record(
    text: str, start: int, sep: str = ",", *, spaced: bool = False
) -> tuple[list[str] | QuoteFault, int]:
    """Read the record that begins at position `start` of a text.

    Returns its cells and the position of the LF after it, or the fault of its quotes and the position of the
    LF after its first line.

    `sep` stands between cells. With `spaced`, blanks before a cell do not belong to it. A quoted cell may
    span lines.
    """
    line_end = first_line_end = _find_line_end(text, start)
    cells: list[str] = []
    cell_start = start

    def make_fault(shown: str, *, is_open: bool) -> tuple[QuoteFault, int]:
        """Return the result for a fault in the cell that begins at `cell_start`."""
        return QuoteFault(is_open, len(cells), text.count("\n", start, cell_start), shown), first_line_end

    while True:
        while spaced and text[cell_start : cell_start + 1] == " ":
            cell_start += 1
        if text[cell_start : cell_start + 1] == '"':
            match = QUOTED.match(text, cell_start, min(len(text), line_end + QUOTE_SPAN))
            if match is None:
                return make_fault(shown="", is_open=True)
            cell_end = match.end()
            if cell_end > line_end:
                line_end = _find_line_end(text, cell_end)
            is_closed = cell_end == len(text) or text[cell_end] in (sep, "\n")
            if not is_closed and "\n" in match[0]:
                # A quote on a later line, with more of a cell after it, is taken to open another cell, so the
                # first one of "a\nb"c is never closed. The message shows 9 characters up to the later one.
                return make_fault(f", and runs on to {text[cell_end - 9 : cell_end]!r}", is_open=True)
            if not is_closed:
                return make_fault(text[cell_start : cell_end + 20].split("\n", 1)[0], is_open=False)
            cell = match[0][1:-1].replace('""', '"')
        else:
            cell_end = text.find(sep, cell_start, line_end)
            cell_end = line_end if cell_end < 0 else cell_end
            cell = text[cell_start:cell_end]
            if '"' in cell:
                return make_fault(cell, is_open=False)
        cells.append(cell)
        if cell_end >= len(text) or text[cell_end] == "\n":
            return cells, cell_end
        cell_start = cell_end + 1


def _find_line_end(text: str, start: int) -> int:
    """Return the position of the first LF at or after `start`, or the length of the text."""
    line_end = text.find("\n", start)
    return len(text) if line_end < 0 else line_end


def read_records(
    text: str, sep: str = ",", *, line: int = 1, spaced: bool = False
) -> Iterator[tuple[int, int, list[str] | QuoteFault]]:
    """Yield first line, last line and cells, or the fault of its quotes, of every record that is not blank.

    Lines end with LF and are counted from `line`; `sep` and `spaced` are those of `read_record`. After a
    fault, it goes on in the next line.
    """
    start = 0
    while start < len(text):
        line_end = _find_line_end(text, start)
        first_line, content = line, text[start:line_end]
        if '"' not in content:
            start, line = line_end + 1, line + 1
            if content.strip(" \t"):
                cells = content.split(sep)
                yield first_line, first_line, [cell.lstrip(" ") for cell in cells] if spaced else cells
            continue
        record, record_end = read_record(text, start, sep, spaced=spaced)
        line += text.count("\n", start, record_end) + 1
        start = record_end + 1
        yield first_line, line - 1, record


def normalise_line_ends(text: str) -> str:
    """Return the text with LF at the end of all lines, and without a byte order mark."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
