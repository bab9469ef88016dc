"""What formats in CSV have in common: quotes, rows with their lines, and columns that become boxes."""

from __future__ import annotations

import re

from odm.issues import Code

NO_HEADER = Code(
    "header-missing",
    "error",
    "expected a header line that names the columns, found {found}",
    "write a header, or name the format that this file has",
    "A CSV file is read by the names of its columns. An empty file may be the rest of a failed export.",
)
OPEN_QUOTE = Code(
    "open-quote",
    "error",
    "the quote opened here is never closed{found}",
    'close it, or write a quote that belongs to the text as ""',
    "An open quote swallows everything up to the next quote, and with it whole rows.",
    row=True,
)
STRAY_QUOTE = Code(
    "stray-quote",
    "error",
    "expected quotes around the whole cell, found {value!r}",
    'put the cell in quotes and write each quote inside it as ""',
    "A quote in the middle of a cell, or text after a closing quote, often means that a quote was lost.",
    row=True,
)
NUL = Code(
    "nul-character",
    "error",
    "expected text, found a NUL character in {value!r}",
    "remove it; the file may be damaged, or in UTF-16 without a byte order mark",
    "A NUL is never part of a name or a number. Some programs end the text there, others drop it.",
    row=True,
)
INCOMPLETE_BOX = Code(
    "incomplete-box",
    "error",
    "expected four coordinates with a class, or none of them, found no value for {missing}",
    "fill in the row, or leave class, score and coordinates empty for an image without objects",
    "A row with some of its box missing is neither a box nor an image without objects.",
    row=True,
)
SIZE_CONFLICT = Code(
    "image-size-conflict",
    "error",
    "image {value!r} is {found} here and {other} in an earlier row",
    "correct the size in one of the rows",
    "One image has one size. Two different ones mean that rows of different images were mixed up.",
)
QUOTED = re.compile(r'"[^"]*+(?:""[^"]*+)*+"')
QUOTE_SPAN = 2**14
"""Characters after the end of its line within which a quote must be closed."""


def read_record(
    text: str, start: int, sep: str, *, spaced: bool
) -> tuple[list[str], int] | tuple[tuple[Code, int, int, str], int]:
    """The cells of the record that begins at `start`, and where it ends.

    Instead of the cells it answers a code, the number of the cell, where in the text that cell begins, and
    what was found, where the quotes are wrong.
    """
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    cells: list[str] = []
    at = start
    while True:
        while spaced and text[at : at + 1] == " ":
            at += 1
        if text[at : at + 1] == '"':
            match = QUOTED.match(text, at, min(len(text), line_end + QUOTE_SPAN))
            if match is None:
                return (OPEN_QUOTE, len(cells), at, ""), line_end
            stop = match.end()
            if stop < len(text) and text[stop] not in (sep, "\n"):
                if "\n" in match[0]:
                    return (
                        OPEN_QUOTE,
                        len(cells),
                        at,
                        f", and runs on to {text[stop - 9 : stop]!r}",
                    ), line_end
                return (STRAY_QUOTE, len(cells), at, text[at : min(stop + 20, line_end)]), line_end
            cells.append(match[0][1:-1].replace('""', '"'))
        else:
            stop = text.find(sep, at)
            end = text.find("\n", at, stop if stop >= 0 else len(text))
            stop = end if end >= 0 else stop if stop >= 0 else len(text)
            cell = text[at:stop]
            if '"' in cell:
                return (STRAY_QUOTE, len(cells), at, cell), line_end
            cells.append(cell)
        if stop >= len(text) or text[stop] == "\n":
            return cells, stop
        at = stop + 1


def utf8_text(data: bytes) -> tuple[bytes, str] | str:
    """The text as UTF-8 with plain line breaks, and its encoding; or what is wrong with it."""
    encoding = ""
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    elif data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-32" if data.startswith(b"\xff\xfe\0\0") else "utf-16"
        try:
            data = data.decode(encoding).encode()
        except UnicodeError:
            return f"{encoding.upper()} that is cut or damaged"
    elif len(data) >= 8 and data[:64].count(b"\0") * 3 >= len(data[:64]):
        return "UTF-16 without a byte order mark"
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data, encoding


def byte_shown(value: int) -> str:
    """A byte as it is shown in a message."""
    shown = bytes([value]).decode("cp1252", "replace")
    return f"the byte 0x{value:02X}" + (f" ({shown!r} in Windows-1252)" if shown.isprintable() else "")


class Quote:
    """Puts a cell in quotes where RFC 4180 needs them."""

    def __init__(self, sep: str) -> None:
        self.sep = sep
        self._special = re.compile(f'[{re.escape(sep)}"\r\n]|^\ufeff')

    def __call__(self, cell: str) -> str:
        return '"' + cell.replace('"', '""') + '"' if self._special.search(cell) else cell
