"""The text of a CSV file taken apart, piece by piece."""

from __future__ import annotations

import csv
import re

import numpy as np

from odm.csv_text import QUOTE_SPAN, QuoteFault, records
from odm.formats._shared.codes import NOT_UTF8, WRONG_COUNT
from odm.formats._shared.csv_tables import NUL, byte_shown, report_quote
from odm.formats.csv.layouts import Layout
from odm.issues import Log
from odm.tables import Builder, Ints

SURROGATE = re.compile("[\ud800-\udfff]")
"""The replacement for a byte that is not UTF-8."""

_CHUNK = 2**18
"""Bytes that are split at a time; small, so that the cells stay in the caches."""


def cut(data: bytes, start: int, *, size: int = _CHUNK) -> list[tuple[int, int]]:
    """Places to cut the data in pieces that end with a line, and not within quotes."""
    cuts = []
    quoted = b'"' in data
    while start < len(data):
        end = data.find(b"\n", min(start + size, len(data))) + 1 or len(data)
        if quoted and data.count(b'"', start, end) % 2:
            at = end
            for _ in range(1000):  # a quote may be open here: look for the line where it is closed
                after = data.find(b"\n", at) + 1
                if not after or after - end > 4 * QUOTE_SPAN:
                    break
                if data.count(b'"', at, after) % 2:
                    end = after
                    break
                at = after
        cuts.append((start, end))
        start = end
    return cuts


class Records:
    """The records of one file of a known layout, as columns of cells."""

    def __init__(self, layout: Layout, path: str, builder: Builder, log: Log) -> None:
        self._layout, self._path, self._builder, self._log = layout, path, builder, log

    def columns(self, piece: bytes, line: int) -> tuple[list[list[str]], Ints]:
        """The columns of the good rows of a piece that begins with this line, and the line of each row."""
        layout, n = self._layout, len(self._layout.columns)
        text = piece.decode("utf-8", "surrogateescape")
        suspect = "\0" in text or not (text.isascii() or SURROGATE.search(text) is None)
        if not suspect and (columns := _split(text, layout)) is not None:
            return columns, np.arange(line, line + len(columns[0]), dtype=np.int32)
        rows: list[list[str]] = []
        lines: list[int] = []
        for first, last, cells in records(text, layout.sep, line=line, spaced=layout.spaced):
            if isinstance(cells, QuoteFault):
                field = layout.field(cells.cell)
                report_quote(cells, self._path, self._log, self._builder, line=first, field=field)
            elif suspect and not self._is_text(cells, first):
                self._builder.skipped += 1
            elif len(cells) == n:
                rows.append(cells)
                lines.append(first)
            else:
                spans = f" (a quoted cell runs from line {first} to {last})" if last > first else ""
                self._log.report(
                    WRONG_COUNT,
                    self._path,
                    line=first,
                    expected=f"{n} cells as in the header" if layout.header else f"{n} cells",
                    found=f"{len(cells)}{spans}",
                    field=layout.field(min(len(cells), n)),
                )
                self._builder.skipped += 1
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(n)]
        return columns, np.array(lines, np.int32)

    def _is_text(self, cells: list[str], line: int) -> bool:
        good = True
        for i, cell in enumerate(cells):
            if "\0" in cell:
                self._log.report(NUL, self._path, line=line, field=self._layout.field(i), value=cell)
                good = False
            elif not cell.isascii() and (match := SURROGATE.search(cell)):
                value = byte_shown(ord(match[0]) - 0xDC00)
                self._log.report(NOT_UTF8, self._path, line=line, field=self._layout.field(i), value=value)
                good = False
        return good


def _split(text: str, layout: Layout) -> list[list[str]] | None:
    """The columns of a text, all at once; None where anything about it is unusual.

    The standard library is five times as fast as `records`, and lets through quotes that it should not.
    """
    sep, n = layout.sep, len(layout.columns)
    if '"' not in text and not layout.spaced:
        # Each line break becomes a cell: where every (n + 1)th cell is one, all lines have n cells.
        cells = text.replace("\n", f"{sep}\n{sep}").split(sep)
        breaks = cells[n :: n + 1]
        whole = len(cells) == len(breaks) * (n + 1) + 1 and breaks.count("\n") == len(breaks)
        return (
            [cells[i : -1 : n + 1] for i in range(n)] if whole and text.count("\n") == len(breaks) else None
        )
    lines = text.removesuffix("\n").split("\n")
    try:
        rows = list(csv.reader(lines, delimiter=sep, strict=True, skipinitialspace=layout.spaced))
    except csv.Error:
        return None
    if len(rows) != len(lines) or set(map(len, rows)) != {n}:
        return None
    columns = list(map(list, zip(*rows, strict=True)))
    return None if '"' in text and any('"' in "".join(column) for column in columns) else columns
