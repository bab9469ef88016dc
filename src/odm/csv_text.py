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

    def __str__(self) -> str:
        return "a quote that is never closed" if self.is_open else f"a stray quote in {shorten(self.found)!r}"


def read_record(
    text: str, start: int, sep: str = ",", *, spaced: bool = False
) -> tuple[list[str] | QuoteFault, int]:
    """Read the record that begins at `start`. Returns its cells, or the fault of its quotes, and its end:
    the position of the LF after it, or of a fault's first line.

    With `spaced`, blanks before a cell do not belong to it. A quoted cell may span lines.
    """
    line_end = text.find("\n", start)
    line_end = first_end = len(text) if line_end < 0 else line_end
    cells: list[str] = []
    at = start
    while True:
        while spaced and text[at : at + 1] == " ":
            at += 1
        is_open: bool | None = None
        if text[at : at + 1] == '"':
            match = QUOTED.match(text, at, min(len(text), line_end + QUOTE_SPAN))
            if match is None:
                return QuoteFault(True, len(cells), text.count("\n", start, at), ""), first_end
            stop = match.end()
            if stop > line_end:
                line_end = text.find("\n", stop)
                line_end = len(text) if line_end < 0 else line_end
            if stop < len(text) and text[stop] not in (sep, "\n"):
                is_open = "\n" in match[0]
                cell = f", and runs on to {text[stop - 9 : stop]!r}" if is_open else text[at : stop + 20]
                cell = cell if is_open else cell.split("\n", 1)[0]
            else:
                cell = match[0][1:-1].replace('""', '"')
        else:
            stop = text.find(sep, at, line_end)
            stop = line_end if stop < 0 else stop
            cell = text[at:stop]
            is_open = False if '"' in cell else None
        if is_open is not None:
            return QuoteFault(is_open, len(cells), text.count("\n", start, at), cell), first_end
        cells.append(cell)
        if stop >= len(text) or text[stop] == "\n":
            return cells, stop
        at = stop + 1


def records(
    text: str, sep: str = ",", *, line: int = 1, spaced: bool = False
) -> Iterator[tuple[int, int, list[str] | QuoteFault]]:
    """Yield first line, last line and cells of every record of a text that is not blank.

    Lines end with LF and are counted from `line`. After a fault, it goes on in the next line.
    """
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        first, content = line, text[start:end]
        if '"' not in content:
            start, line = end + 1, line + 1
            if content.strip(" \t"):
                cells = content.split(sep)
                yield first, first, [cell.lstrip(" ") for cell in cells] if spaced else cells
            continue
        record, stop = read_record(text, start, sep, spaced=spaced)
        line += text.count("\n", start, stop) + 1
        start = stop + 1
        yield first, line - 1, record


def plain_lines(text: str) -> str:
    """A text whose lines all end with LF, without a byte order mark."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
