"""The text of a CSV file taken apart: pieces of it at once, or line by line where something is unusual."""

from __future__ import annotations

import csv
import itertools
import re

import numpy as np

from odm.formats._shared.codes import NOT_UTF8, WRONG_COUNT
from odm.formats._shared.csv_tables import NUL, QUOTE_SPAN, byte_shown, read_record
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

    def columns(self, piece: bytes, line: int, lines: int) -> tuple[list[list[str]], Ints]:
        """The columns of a piece of `lines` lines that begins with `line`, and the line of each row."""
        try:
            text = piece.decode()
        except UnicodeDecodeError:
            return self._parse(piece.decode("utf-8", "surrogateescape"), line)
        if "\0" not in text:
            split = _split_quoted if '"' in text else _split_plain
            columns = split(text, self._layout, lines)
            if columns is not None:
                return columns, np.arange(line, line + lines, dtype=np.int32)
        return self._parse(text, line)

    def _parse(self, text: str, line: int) -> tuple[list[list[str]], Ints]:
        """The columns of the good rows, line by line; each fault with its place."""
        layout, log = self._layout, self._log
        sep, n = layout.sep, len(layout.columns)
        rows: list[list[str]] = []
        numbers: list[int] = []
        at, length = 0, len(text)
        while at < length:
            end = text.find("\n", at)
            end = length if end < 0 else end
            content, here = text[at:end], line
            cells: list[str]
            if not content.strip(" \t"):
                at, line = end + 1, line + 1
                continue
            if '"' in content:
                found, stop = read_record(text, at, sep, spaced=layout.spaced)
                if isinstance(found, tuple):
                    code, cell, location, what = found
                    opened = line + text.count("\n", at, location)
                    log.report(
                        code, self._path, line=opened, field=layout.field(cell), found=what, value=what
                    )
                    self._builder.skipped += 1
                    at, line = end + 1, line + 1
                    continue
                cells = found
                line += text.count("\n", at, stop) + 1
                content, at = text[at:stop], stop + 1
            else:
                cells = content.split(sep)
                if layout.spaced:
                    cells = [cell.lstrip(" ") for cell in cells]
                at, line = end + 1, line + 1
            if ("\0" in content or not content.isascii()) and not self._is_text(cells, here):
                self._builder.skipped += 1
            elif len(cells) != n:
                spans = f" (a quoted cell runs from line {here} to {line - 1})" if line - here > 1 else ""
                found_text = f"{len(cells)}{spans}"
                log.report(
                    WRONG_COUNT,
                    self._path,
                    line=here,
                    expected=f"{n} cells as in the header" if layout.header else f"{n} cells",
                    found=found_text,
                    field=layout.field(min(len(cells), n)),
                )
                self._builder.skipped += 1
            else:
                rows.append(cells)
                numbers.append(here)
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(n)]
        return columns, np.array(numbers, np.int32)

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


def _split_plain(text: str, layout: Layout, lines: int) -> list[list[str]] | None:
    """The columns of `lines` lines without quotes, all at once; None where not all have the same cells."""
    sep, n = layout.sep, len(layout.columns)
    if layout.spaced:
        while f"{sep} " in text:
            text = text.replace(f"{sep} ", sep)
        while "\n " in text:
            text = text.replace("\n ", "\n")
        text = text.lstrip(" ")
    # Each line break becomes a cell of its own: where every (n + 1)th cell is one, all lines have n cells.
    cells = text.replace("\n", f"{sep}\n{sep}").split(sep)
    if len(cells) != lines * (n + 1) + 1 or cells[n :: n + 1].count("\n") != lines:
        return None
    cells.pop()
    return [cells[i :: n + 1] for i in range(n)]


def _split_quoted(text: str, layout: Layout, lines: int) -> list[list[str]] | None:
    """The same of text with quotes; None where anything about it is unusual."""
    if not layout.spaced and (columns := _split_plain(text, layout, lines)) is not None:
        bare = [_unquoted(column) for column in columns]
        if None not in bare:
            return [column for column in bare if column is not None]
    parts = text.split("\n")
    parts.pop()
    reader = csv.reader(parts, delimiter=layout.sep, strict=True, skipinitialspace=layout.spaced)
    try:
        rows = list(reader)
    except csv.Error:
        return None
    n = len(layout.columns)
    if len(rows) != lines or set(map(len, rows)) != {n}:
        return None
    cells = list(itertools.chain.from_iterable(rows))
    if '"' in "".join(cells):  # the library also lets through what is not quoted as it should be
        return None
    return [cells[i::n] for i in range(n)]


def _unquoted(cells: list[str]) -> list[str] | None:
    """The cells of a column in which all or none are in quotes, and none needs them; else None."""
    joined = "\n".join(cells)
    if '"' not in joined:
        return cells
    if joined.count('"') != 2 * len(cells):
        return None
    bare = [cell.strip('"') for cell in cells]
    return bare if '"' + '"\n"'.join(bare) + '"' == joined else None
