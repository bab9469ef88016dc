"""What formats in CSV have in common: quotes, rows with their lines, and columns that become boxes."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.codes import NO_SIZE
from odm.csv_text import QuoteFault, read_record, records
from odm.files import Source
from odm.formats._shared.codes import (
    BAD_IMAGE_SIZE,
    NO_IMAGE_NAME,
    NOT_A_NUMBER,
    NOT_FINITE,
    NOT_UTF8,
    RELATIVE_RANGE,
)
from odm.formats._shared.encodings import wide_encoding
from odm.formats._shared.gather import At, Gather, decide_kind, own_folder, with_extension
from odm.formats._shared.pictures import ImageOptions, are_far, parse_pixels
from odm.formats._shared.text_tokens import NON_FINITE_TEXT, NUMBER_TEXT
from odm.issues import Code, Log
from odm.names import accept_name, stem
from odm.tables import Builder, Dataset, Floats, Ints

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
    """Report wrong quotes in the record that begins in this line, which is lost."""
    code, found = OPEN_QUOTE if fault.is_open else STRAY_QUOTE, fault.found
    log.report(code, path, line=line + fault.lines, field=field, found=found, value=found)
    builder.skipped += 1


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
            return f"{encoding.upper()} that is truncated or damaged"
    elif wide := wide_encoding(data[:64]):
        return wide
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data, encoding


def byte_shown(value: int) -> str:
    """A byte as it is shown in a message."""
    shown = bytes([value]).decode("cp1252", "replace")
    return f"the byte 0x{value:02X}" + (f" ({shown!r} in Windows-1252)" if shown.isprintable() else "")


FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""How a cell begins that a spreadsheet takes for a formula, or one that was made safe."""


def to_safe(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: one that looks like it gets an apostrophe."""
    return f"'{cell}" if FORMULA.match(cell) else cell


def from_safe(cell: str) -> str:
    """A cell as it was before `to_safe`."""
    return cell[1:] if cell[:1] == "'" and FORMULA.match(cell) else cell


class Quote:
    """Puts a cell in quotes where RFC 4180 needs them; if `safe`, an apostrophe before a formula."""

    def __init__(self, sep: str, *, safe: bool = False) -> None:
        self.sep = sep
        self._safe = safe
        self._special = re.compile(f'[{re.escape(sep)}"\r\n]|^\ufeff')

    def __call__(self, cell: str) -> str:
        if self._safe:
            cell = to_safe(cell)
        return '"' + cell.replace('"', '""') + '"' if self._special.search(cell) else cell


# ------------------------------------------------------------------------------- tables with fixed columns

_DIGITS = b"0123456789.+-eE"


def is_number(text: str) -> bool:
    """Whether a text is a finite decimal number, as every program reads it."""
    return NUMBER_TEXT.fullmatch(text) is not None


def head_rows(source: Source, file: str, n: int = 20) -> list[list[str]]:
    """The first rows of a file, for a sniffer; empty where they are no table."""
    decoded = utf8_text(source.head(file)[: 2**14])
    if isinstance(decoded, str):
        return []
    lines = decoded[0].decode("utf-8", "replace").split("\n")
    found = (read_record(line, 0)[0] for line in lines[: min(n, max(1, len(lines) - 1))])
    return [cells for cells in found if not isinstance(cells, QuoteFault) and any(cells)]


def table_rows(data: bytes, path: str, log: Log, builder: Builder) -> list[tuple[int, list[str]]] | None:
    """The rows of a file that are not blank, each with its line; faults of quotes are reported.

    None, and an issue, if the file is not text in UTF-8 or UTF-16.
    """
    decoded = utf8_text(data)
    if isinstance(decoded, str):
        log.report(NOT_UTF8, path, value=decoded)
        return None
    try:
        text = decoded[0].decode()
    except UnicodeDecodeError as e:
        line = decoded[0].count(b"\n", 0, e.start) + 1
        log.report(NOT_UTF8, path, line=line, value=byte_shown(decoded[0][e.start]))
        return None
    rows = []
    for line, _, cells in records(text):
        if isinstance(cells, QuoteFault):
            report_quote(cells, path, log, builder, line=line, field=f"column {cells.cell + 1}")
        elif any("\0" in cell for cell in cells):
            log.report(NUL, path, line=line, value=next(cell for cell in cells if "\0" in cell))
            builder.skipped += 1
        elif any(map(str.strip, cells)):
            rows.append((line, cells))
    return rows


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Columns:
    """The cells of the n rows of a file by what they are; a column that is not there is None."""

    path: str
    line: Sequence[int]
    image: Sequence[str]
    box: Sequence[Sequence[str]]
    """Columns of coordinates; empty in all of them for an image without objects."""
    fields: Sequence[str]
    """How the file calls the columns of `box`."""
    category: Sequence[str] | None = None
    score: Sequence[str] | None = None
    width: Sequence[str] | None = None
    height: Sequence[str] | None = None
    split: Sequence[str] | None = None


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class _Part:
    columns: Columns
    file: int
    image: Ints
    category: Ints
    box: Floats
    score: Floats
    good: NDArray[np.bool_]
    blank: NDArray[np.bool_]


class Collector:
    """Collects the columns of all files of a source, and makes images and boxes of them.

    Parameters
    ----------
    default
        The class of the rows of a file without a column for it.
    """

    def __init__(
        self, source: Source, builder: Builder, log: Log, options: ImageOptions, default: str = ""
    ) -> None:
        self._builder, self._log = builder, log
        self._gather = Gather(source, builder, log, options, own_folder(source), ask_other="needed")
        self._default = default
        self._images: dict[str, int] = {}
        self._sizes: dict[int, tuple[int, int]] = {}
        self._splits: dict[int, str] = {}
        self._locations: list[tuple[int, At]] = []
        self._parts: list[_Part] = []

    def add(self, columns: Columns) -> None:
        """Take the rows of a file; what is wrong with them is reported."""
        n = len(columns.line)
        file = self._builder.file(columns.path)
        good = np.ones(n, bool)
        image = np.empty(n, np.int32)
        for i, name in enumerate(columns.image):
            row = self._images.get(name)
            if row is None:
                row = -1
                line = columns.line[i]
                if not name.strip():
                    self._log.report(NO_IMAGE_NAME, columns.path, line=line)
                elif accept_name(name, self._log, columns.path, line=line, field="image"):
                    row = self._images[name] = len(self._locations)
                    self._locations.append((file, At(columns.path, line=line)))
            image[i] = row
        good &= image >= 0
        box = np.full((n, len(columns.box)), np.nan)
        blanks = np.zeros((n, len(columns.box)), bool)
        for k, (cells, field) in enumerate(zip(columns.box, columns.fields, strict=True)):
            box[:, k], blanks[:, k] = self._numbers(cells, columns, field, good)
        blank = np.logical_and.reduce(blanks, axis=1)
        score = np.full(n, np.nan)
        if columns.score is not None:
            score, _ = self._numbers(columns.score, columns, "score", good)
        if columns.split is not None:
            for row, split in zip(image.tolist(), columns.split, strict=True):
                self._splits.setdefault(row, split)
        if columns.width is not None and columns.height is not None:
            self._take_sizes(columns, columns.width, columns.height, image, good)
        category = self._classes(columns, good, blank)
        self._parts.append(_Part(columns, file, image, category, box, score, good, blank))

    def _numbers(
        self, cells: Sequence[str], columns: Columns, field: str, good: NDArray[np.bool_]
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """A column as numbers, NaN where it is empty, and where that is; faulty rows are no longer good."""
        texts = [cell.strip(" \t") for cell in cells]
        blank = np.array([not text for text in texts], bool)
        if not "".join(texts).encode("utf-8", "surrogatepass").translate(None, _DIGITS):
            with contextlib.suppress(ValueError):
                values = np.array([float(text) if text else np.nan for text in texts], np.float64)
                if not np.isinf(values).any():
                    return values, blank
        values = np.full(len(texts), np.nan)
        for i, text in enumerate(texts):
            if not text:
                continue
            if NUMBER_TEXT.fullmatch(text) and np.isfinite(value := float(text)):
                values[i] = value
                continue
            finite = NUMBER_TEXT.fullmatch(text) or NON_FINITE_TEXT.fullmatch(text)
            code = NOT_FINITE if finite else NOT_A_NUMBER
            self._log.report(code, columns.path, line=columns.line[i], field=field, value=cells[i])
            good[i] = False
        return values, blank

    def _take_sizes(
        self,
        columns: Columns,
        widths: Sequence[str],
        heights: Sequence[str],
        image: Ints,
        good: NDArray[np.bool_],
    ) -> None:
        known: dict[tuple[str, str], tuple[int, int] | None] = {}
        for i, (pair, row) in enumerate(zip(zip(widths, heights, strict=True), image.tolist(), strict=True)):
            if pair not in known:
                try:
                    given = [0 if not text.strip() else parse_pixels(text.strip()) for text in pair]
                    known[pair] = (given[0], given[1]) if min(given) else (0, 0)
                except ValueError:
                    known[pair] = None
            size = known[pair]
            if size is None:
                value = ",".join(pair)
                self._log.report(
                    BAD_IMAGE_SIZE, columns.path, line=columns.line[i], field="width", value=value
                )
                good[i] = False
            elif row >= 0 and size[0] and (first := self._sizes.setdefault(row, size)) != size:
                self._log.report(
                    SIZE_CONFLICT,
                    columns.path,
                    line=columns.line[i],
                    field="width",
                    value=columns.image[i],
                    found=f"{size[0]}x{size[1]}",
                    other=f"{first[0]}x{first[1]}",
                )

    def _classes(self, columns: Columns, good: NDArray[np.bool_], blank: NDArray[np.bool_]) -> Ints:
        names = columns.category or [self._default] * len(columns.line)
        rows: dict[str, int] = {}
        for i in np.flatnonzero(good & ~blank).tolist():
            name = names[i]
            if rows.get(name, -1) < 0:
                row = self._gather.category(name, At(columns.path, line=columns.line[i]), field="class")
                rows[name] = -1 if row is None else row
                good[i] = row is not None
        return np.array([rows.get(name, -1) for name in names], np.int32)

    def finish(
        self, box: Callable[[Floats], tuple[Floats, Floats | None]], *, is_relative: bool = False
    ) -> None:
        """Decide on the kind, add all images, and hand the boxes to the builder.

        Parameters
        ----------
        box
            Makes (n, 4) edges, and (n, 2) sizes where these are given, of the (n, k) numbers of the rows. A
            row of which one is NaN has too few numbers.
        is_relative
            Whether the numbers are relative to the size of the image.
        """
        builder, gather = self._builder, self._gather
        scored = sum(int((~np.isnan(p.score) & ~p.blank).sum()) for p in self._parts)
        decide_kind(builder, scored, sum(int((~p.blank).sum()) for p in self._parts))
        sizes = self._add_images(needed=self._used() if is_relative else set())
        for part in self._parts:
            good, line = part.good, np.array(part.columns.line, np.int32)
            xyxy, wh = box(part.box)
            self._each(
                good & ~part.blank & np.isnan(xyxy).any(axis=1), part, INCOMPLETE_BOX, self._report_missing
            )
            good &= gather.of_kind(part.score, gather.where(part.file, line), among=good & ~part.blank)
            if is_relative:
                self._each(good & ~part.blank & are_far(xyxy), part, RELATIVE_RANGE, self._report_far)
                size = np.array([*sizes, (0, 0)], np.float64)[part.image]  # the last where there is none
                good &= part.blank | (size[:, 0] > 0)
                xyxy = xyxy * np.tile(size, 2)
            keep = good & ~part.blank
            builder.skipped += int((~good).sum())
            gather.add(
                image=part.image[keep],
                category=part.category[keep],
                xyxy=xyxy[keep],
                wh=None if wh is None else wh[keep],
                score=part.score[keep],
                file=part.file,
                line=line[keep],
            )
        gather.finish()

    def _each(
        self,
        wrong: NDArray[np.bool_],
        part: _Part,
        code: Code,
        say: Callable[[_Part, int], dict[str, Any]],
    ) -> None:
        for i in np.flatnonzero(wrong).tolist():
            self._log.report(code, part.columns.path, line=part.columns.line[i], **say(part, i))
        part.good &= ~wrong

    @staticmethod
    def _report_missing(part: _Part, row: int) -> dict[str, Any]:
        fields = [f for f, v in zip(part.columns.fields, part.box[row].tolist(), strict=True) if np.isnan(v)]
        return {"field": fields[0] if fields else "", "missing": ", ".join(fields)}

    @staticmethod
    def _report_far(part: _Part, row: int) -> dict[str, Any]:
        values = part.box[row]
        k = int(np.nanargmax(np.abs(np.nan_to_num(values) - 0.5)))
        return {"field": part.columns.fields[k], "value": float(values[k])}

    def _used(self) -> set[int]:
        return {int(i) for p in self._parts for i in np.unique(p.image[p.good & ~p.blank])}

    def _add_images(self, needed: set[int]) -> list[tuple[int, int]]:
        gather, sizes = self._gather, []
        for row, name in enumerate(self._images):
            file, at = self._locations[row]
            picture = gather.picture(name, at)
            full = with_extension(name, picture) if stem(name) == name else name
            if full in self._images:  # a name with and without the extension of its picture
                full = name
            added = gather.image(
                full,
                at,
                size=self._sizes.get(row),
                picture=picture,
                needed=row in needed,
                accepted=True,
                split=self._splits.get(row, ""),
                file=file,
                line=at.line,
            )
            size = (0, 0) if added is None else self._builder.image_size(added)
            if row in needed and not size[0]:
                self._log.report(NO_SIZE, at.path, line=at.line, value=name)
            sizes.append(size)
        return sizes


def merged(dataset: Dataset, rows: Sequence[str], empty: Sequence[str]) -> list[str]:
    """The rows of the boxes in the order of the images; those without boxes have their row of `empty`."""
    lacking = np.setdiff1d(np.arange(len(empty)), dataset.boxes.image)
    lines = [*rows, *(empty[i] for i in lacking.tolist())]
    images = np.concatenate([dataset.boxes.image, lacking])
    if (images[1:] >= images[:-1]).all():
        return lines
    return [lines[i] for i in np.argsort(images, kind="stable").tolist()]
