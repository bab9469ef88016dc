"""Read rows of CSV files with their line numbers, and write quoted cells and rows of boxes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.csv_text import QuoteFault, read_record, read_records
from odm.files import Source
from odm.formats._shared.codes import NOT_UTF8
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text.tokens import NUMBER_TEXT, find_wide_encoding
from odm.issues import Code, Log
from odm.tables import Builder, Dataset

NO_HEADER = Code(
    "header-missing",
    "error",
    "expected a header line with column names, found {found}",
    "add a header, or set the format of the file",
    "CSV columns are identified by name. An empty file may be the result of a failed export.",
    file=True,
)
BAD_HEADER = Code(
    "bad-header",
    "error",
    "expected a header line with column names, found {reason}",
    'quote a cell that contains a quote, and write the quote as ""',
    "The header defines what every row means. A stray or unclosed quote in it may join columns or swallow "
    "rows.",
    file=True,
)
OPEN_QUOTE = Code(
    "open-quote",
    "error",
    "this quote is never closed{found}",
    'close it, or write a literal quote as ""',
    "An unclosed quote swallows everything up to the next quote, including whole rows.",
    row=True,
)
STRAY_QUOTE = Code(
    "stray-quote",
    "error",
    "expected quotes around the whole cell, found {value!r}",
    'quote the cell and write each quote inside it as ""',
    "A quote in the middle of a cell, or text after a closing quote, often means that a quote is missing.",
    row=True,
)
NUL = Code(
    "nul-character",
    "error",
    "expected text, found a NUL character in {value!r}",
    "remove it; the file may be damaged, or UTF-16 without a byte order mark",
    "A NUL is never part of a name or a number. Some programs end the text there, others drop it.",
    row=True,
)
INCOMPLETE_BOX = Code(
    "incomplete-box",
    "error",
    "expected four coordinates and a class, or none of them, found no value for {missing}",
    "fill in the row, or leave class, score and coordinates empty for an image without objects",
    "A row with only part of a box is neither a box nor an image without objects.",
    row=True,
)
SIZE_CONFLICT = Code(
    "image-size-conflict",
    "error",
    "image {value!r} is {found} here but {other} in other rows",
    "correct the size in one of the rows",
    "An image has one size. Two different sizes mean that rows of different images were mixed up.",
    file=True,
)


def report_quote(fault: QuoteFault, path: str, log: Log, builder: Builder, *, line: int, field: str) -> None:
    """Report wrong quotes in the record that begins in this line, and count the record as skipped."""
    code, quote_shown = OPEN_QUOTE if fault.is_open else STRAY_QUOTE, fault.found
    # The message of one code shows `found`, that of the other `value`.
    log.report(code, path, line=line + fault.lines, field=field, found=quote_shown, value=quote_shown)
    builder.skipped += 1


def to_utf8(data: bytes) -> tuple[bytes, str] | str:
    """Return the text as UTF-8 with line feeds and the name of its encoding, or a message about its fault."""
    encoding = ""
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    elif data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-32" if data.startswith(b"\xff\xfe\0\0") else "utf-16"
        try:
            data = data.decode(encoding).encode()
        except UnicodeError:
            return f"{encoding.upper()} that is truncated or damaged"
    elif wide := find_wide_encoding(data[:64]):
        return wide
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data, encoding


def show_byte(value: int) -> str:
    """Return a byte as a message shows it: in hexadecimal, and as a character of Windows-1252."""
    shown = bytes([value]).decode("cp1252", "replace")
    return f"the byte 0x{value:02X}" + (f" ({shown!r} in Windows-1252)" if shown.isprintable() else "")


FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""How a cell begins that a spreadsheet takes for a formula, or one that was made safe."""


def make_safe(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: one that looks like it gets an apostrophe."""
    return f"'{cell}" if FORMULA.match(cell) else cell


def undo_safe(cell: str) -> str:
    """A cell as it was before `make_safe`."""
    return cell[1:] if cell[:1] == "'" and FORMULA.match(cell) else cell


class Quote:
    """Quotes a cell where RFC 4180 needs it; if `safe`, puts an apostrophe before a formula."""

    def __init__(self, sep: str, *, safe: bool = False) -> None:
        self.sep = sep
        self._safe = safe
        # At the start of a file U+FEFF would be taken for a byte order mark.
        self._special = re.compile(f'[{re.escape(sep)}"\r\n]|^\ufeff')

    def __call__(self, cell: str) -> str:
        if self._safe:
            cell = make_safe(cell)
        return '"' + cell.replace('"', '""') + '"' if self._special.search(cell) else cell


# ------------------------------------------------------------------------------- tables with fixed columns


def is_number(text: str) -> bool:
    """Whether a text is a finite decimal number, as every program reads it."""
    return NUMBER_TEXT.fullmatch(text) is not None


def read_head_rows(source: Source, file: str, n: int = 20) -> list[list[str]]:
    """The first rows of a file, for a sniffer; empty where they are no table."""
    decoded = to_utf8(source.head(file)[: 2**14])
    if isinstance(decoded, str):
        return []
    text, _ = decoded
    lines = text.decode("utf-8", "replace").split("\n")
    n_complete = max(1, len(lines) - 1)  # the last line may be cut
    rows = (read_record(line, 0)[0] for line in lines[: min(n, n_complete)])
    return [cells for cells in rows if not isinstance(cells, QuoteFault) and any(cells)]


Rows = list[tuple[int, list[str]]]
"""The line and the cells of each row of a table."""


def read_table(data: bytes, path: str, log: Log, builder: Builder) -> Rows | None:
    """The rows of a file that are not blank, each with its line.

    Rows with wrong quotes or a NUL are reported and counted as skipped.
    None, and an issue, if the file is not text in UTF-8 or UTF-16.
    """
    decoded = to_utf8(data)
    if isinstance(decoded, str):
        log.report(NOT_UTF8, path, value=decoded)
        return None
    utf8_text, _ = decoded
    try:
        text = utf8_text.decode()
    except UnicodeDecodeError as e:
        line = utf8_text.count(b"\n", 0, e.start) + 1
        log.report(NOT_UTF8, path, line=line, value=show_byte(utf8_text[e.start]))
        return None
    rows = []
    for line, _, cells in read_records(text):
        if isinstance(cells, QuoteFault):
            report_quote(cells, path, log, builder, line=line, field=f"column {cells.cell + 1}")
        elif any("\0" in cell for cell in cells):
            log.report(NUL, path, line=line, value=next(cell for cell in cells if "\0" in cell))
            builder.skipped += 1
        elif any(map(str.strip, cells)):
            rows.append((line, cells))
    return rows


def read_tables(
    source: Source, builder: Builder, log: Log, options: ImageOptions
) -> Iterator[tuple[str, Rows]]:
    """Yield the path and rows of a file, or of every CSV file of a folder except that of --image-sizes."""
    for file in log.track(source.with_suffix(".csv") if source.is_dir else source.files, "reading"):
        path = source.full(file)
        data = None if file and options.image_sizes == path else source.read(file, log)
        rows = None if data is None else read_table(data, path, log, builder)
        if rows is not None:
            yield path, rows


def iter_cells(cells: Sequence[str], rows: NDArray[np.integer[Any]]) -> Iterator[str]:
    """Yield for each of n boxes the cell of its image, or class: ``cells[rows[i]]``."""
    return map(cells.__getitem__, rows.tolist())


def format_box_lines(
    dataset: Dataset, sep: str, columns: Iterable[Iterable[str]], lines_without_box: Sequence[str] = ()
) -> list[str]:
    """Join the cells in `columns` to a line for each box, and sort the lines by image.

    `lines_without_box` has the line of each image, for those without boxes; no such lines if it is empty.
    """
    images_without_boxes = np.setdiff1d(np.arange(len(lines_without_box)), dataset.boxes.image)
    lines = [
        *map(sep.join, zip(*columns, strict=True)),
        *(lines_without_box[i] for i in images_without_boxes.tolist()),
    ]
    images = np.concatenate([dataset.boxes.image, images_without_boxes])
    if (images[1:] >= images[:-1]).all():
        return lines
    return [lines[i] for i in np.argsort(images, kind="stable").tolist()]
