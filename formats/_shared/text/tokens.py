r"""Many small text files, tokenised at once.

Formats with one text file per image hold thousands of files of a few lines. Reading them line by line costs
more than all the rest together, so half a megabyte of files at a time is joined and split by one
``bytes.split``, and the lines are found again with NumPy: token counts per line, and index arithmetic for
the columns.

Everything here works on bytes. A line ends with ``\n``, ``\r`` or ``\r\n``, as in Python; of carriage returns
before a ``\n`` (``\r\r\n``) all belong to the end. Blanks are spaces and tabs, nothing else.
"""

from __future__ import annotations

import codecs
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.files import Source
from odm.formats._shared.codes import LONG_LINE, NOT_A_NUMBER, NOT_FINITE, NOT_UTF8, WRONG_COUNT
from odm.formats._shared.json.number_lists import decode_numbers
from odm.formats._shared.text.numbers import Cells, to_fixed_cells
from odm.issues import Code, Log
from odm.tables import Floats, Ints, Longs, distinct

CHUNK = 2**19
"""Bytes of text that are worked on at a time: large enough to be fast, small enough for the caches."""

LONGEST = 2**20
"""Bytes of a line: the values of one take fifty times its size."""

BOM = b"\xef\xbb\xbf"
NUMBER = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""A finite decimal number, as every program reads it."""
NON_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
NUMBER_TEXT = re.compile(NUMBER.pattern.decode(), re.ASCII)
NON_FINITE_TEXT = re.compile(NON_FINITE.pattern.decode(), re.ASCII | re.IGNORECASE)
"""The same of decoded text."""

Cell = tuple[int, bytes]
"""A value of a row as written in the file, with its column from 1 in characters."""
Say = Callable[[list[Cell]], dict[str, Any]]
"""Return the keywords of `Log.report` for a row, such as its column and value, from the row's values."""

_BLANK = np.zeros(256, bool)
_BLANK[list(b" \t\n")] = True

# `bytes.split` also splits on these three. They are control characters, never separators, so a harmless
# control character takes their place while the text is split, and messages show the original.
_PROTECT = bytes.maketrans(b"\x0b\x0c\r", b"\x1f\x1f\x1f")
# With a separator of its own, blanks inside a value are protected in the same way, and an empty value is
# made visible as a token of one byte.
_INNER = bytes.maketrans(b" \t", b"\x1e\x1d")
_OUTER = bytes.maketrans(b"\x1e\x1d", b" \t")
EMPTY = b"\x1c"


class Chunk(msgspec.Struct, eq=False):
    """The n lines of some files that are not blank, as rows of tokens."""

    tokens: list[bytes]
    """All tokens of all lines, in order."""
    first: Longs
    """(n,) index of a row's first token."""
    count: Longs
    """(n,) how many tokens a row has."""
    file: Ints
    """(n,) number of the file, as it was given."""
    line: Ints
    """(n,) line in the file, from 1."""
    _text: bytes
    """The text that was split into the tokens; then its bytes, and (tokens,) where each begins in it."""
    _bytes: NDArray[np.uint8]
    _starts: Longs
    _parts: dict[int, bytes]
    """The text of each file, by its number, as it was before any change for the splitting."""
    _sep: bytes | None
    _lines: tuple[int, list[bytes]] = (-1, [])
    """The number and the lines of the file that `split_line` looked at last."""

    def __len__(self) -> int:
        return len(self.first)

    def ends_with(self, word: bytes) -> NDArray[np.bool_]:
        """Return (n,) True for rows whose last token is `word`."""
        if not word or word not in self._text:
            return np.zeros(len(self), bool)
        return np.array([token == word for token in self.pick(self.first + self.count - 1)], bool)

    def pick(self, token_rows: NDArray[Any]) -> list[bytes]:
        """Return the tokens at these ascending indices."""
        return list(self._pick(token_rows))

    def _pick(self, token_rows: NDArray[Any]) -> Iterable[bytes]:
        """Iterate over the tokens at ascending indices: by a slice if evenly spaced, by look-ups if few."""
        n = len(token_rows)
        if n > 1:
            step = int(token_rows[1] - token_rows[0])
            if token_rows[-1] - token_rows[0] == step * (n - 1) and bool((np.diff(token_rows) == step).all()):
                return self.tokens[int(token_rows[0]) : int(token_rows[-1]) + 1 : step]
        if 8 * n < len(self.tokens):
            return map(self.tokens.__getitem__, token_rows.tolist())
        is_picked = np.zeros(len(self.tokens), np.uint8)
        is_picked[token_rows] = 1
        return itertools.compress(self.tokens, is_picked.tobytes())

    def parse_numbers(self, token_rows: NDArray[Any]) -> tuple[Floats, Longs]:
        """Parse the tokens at k ascending indices: (k,) numbers, and the positions among them of non-numbers.

        NaN and infinities are returned as such and are not among the positions; numbers that only Python
        accepts (``1_0``) are.
        """
        tokens = self.pick(token_rows)
        decoded = decode_numbers(tokens)
        values, not_numbers = (
            (decoded, np.zeros(0, np.int64)) if decoded is not None else parse_floats(tokens)
        )
        underscores = np.flatnonzero(self._bytes == ord("_"))
        if len(underscores):
            # The token of a byte is the last that begins before the byte or at it.
            has_underscore = np.zeros(len(self.tokens), bool)
            has_underscore[np.searchsorted(self._starts, underscores, "right") - 1] = True
            not_numbers = np.union1d(not_numbers, np.flatnonzero(has_underscore[token_rows]))
        return values, not_numbers

    def join_spans(self, rows: NDArray[Any], n_tokens: NDArray[Any]) -> list[bytes]:
        """Return the text of the first ``n_tokens[i]`` tokens of ``rows[i]``, with what lies between them."""
        span_starts = self._starts[self.first[rows]]
        last_tokens = self.first[rows] + n_tokens - 1
        span_ends = self._starts[last_tokens] + np.array(list(map(len, self.pick(last_tokens))), np.int64)
        text = self._text
        return [text[a:b] for a, b in zip(span_starts.tolist(), span_ends.tolist(), strict=True)]

    def restore(self, token: bytes) -> bytes:
        """A token as written in the file: blanks that were protected are blanks again."""
        return token.translate(_OUTER) if self._sep else token

    def split_line(self, file: int, line: int) -> list[Cell]:
        """The tokens of one line as they stand in the file, each with its column from 1 in characters."""
        last_file, lines = self._lines
        if last_file != file:
            lines = self._parts[file].split(b"\n")
            self._lines = file, lines
        return split_cells(lines[line - 1], self._sep)


_WORD = re.compile(rb"[^ \t]+")


def split_cells(line: bytes, sep: bytes | None) -> list[Cell]:
    """Split a line into values, each with its column from 1 in characters.

    Without `sep`, blanks separate values. With it, values may be empty.
    """
    if sep is None:
        if line.isascii():
            return [(m.start() + 1, m[0]) for m in _WORD.finditer(line)]
        cells_by_byte = [(m.start(), m[0]) for m in _WORD.finditer(line)]
    elif line.strip(b" \t"):
        cells_by_byte, offset = [], 0
        for cell in line.split(sep):
            inner = cell.strip(b" \t")
            cells_by_byte.append((offset + (cell.index(inner) if inner else 0), inner))
            offset += len(cell) + len(sep)
    else:
        cells_by_byte = []
    if line.isascii():
        return [(offset + 1, value) for offset, value in cells_by_byte]
    # Columns count characters, so the text between two values is decoded.
    column, last_offset, cells_by_column = 1, 0, []
    for offset, value in cells_by_byte:
        column += len(line[last_offset:offset].decode(errors="replace"))
        last_offset = offset
        cells_by_column.append((column, value))
    return cells_by_column


def parse_floats(tokens: Sequence[bytes]) -> tuple[Floats, Longs]:
    """Parse n tokens: (n,) numbers, NaN for a token that is none, and the positions of these tokens."""
    values: list[float] = []
    not_numbers: list[int] = []
    remaining = iter(tokens)
    while len(values) < len(tokens):
        try:
            values.extend(map(float, remaining))  # what was converted before a fault stays in the list
        except ValueError:
            not_numbers.append(len(values))
            values.append(np.nan)
    return np.array(values, np.float64), np.array(not_numbers, np.int64)


def read_chunks(source: Source, files: Sequence[str], log: Log, *, sep: str | None = None) -> Iterator[Chunk]:
    """Yield the lines of `files` as tokens, about `CHUNK` bytes at a time; `sep` None separates at blanks.

    Files that cannot be read or decoded are reported.
    """
    sep_bytes = sep.encode() if sep else None
    parts: dict[int, bytes] = {}
    n_bytes = 0
    for file_number, file in enumerate(log.track(files, "reading")):
        data = source.read(file, log)
        if not data:
            continue
        data = clean_text(data, source.full(file), log)
        if len(data) > LONGEST:
            data = _without_long_lines(data, source.full(file), log)
        parts[file_number] = data
        n_bytes += len(data)
        if n_bytes >= CHUNK:
            yield _make_chunk(parts, sep_bytes)
            parts, n_bytes = {}, 0
    if parts:
        yield _make_chunk(parts, sep_bytes)


def _without_long_lines(data: bytes, path: str, log: Log) -> bytes:
    """Replace each line that is too long by an empty one, and report it."""
    line_ends = np.append(np.flatnonzero(np.frombuffer(data, np.uint8) == 10), len(data))
    lengths = np.diff(line_ends, prepend=-1) - 1
    long_lines = np.flatnonzero(lengths > LONGEST)
    if not len(long_lines):
        return data
    pieces, piece_start = [], 0
    for line in long_lines.tolist():
        log.report(LONG_LINE, path, line=line + 1, value=int(lengths[line]))
        pieces.append(data[piece_start : line_ends[line] - lengths[line]])
        piece_start = int(line_ends[line])
    return b"".join((*pieces, data[piece_start:]))


_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # which begins with the mark of UTF-16
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_BEGINNINGS = frozenset(mark[:1] for mark in _MARKS)


def find_wide_encoding(data: bytes) -> str:
    """The name of a text encoding of two or four bytes per character, for a message; empty for others."""
    if data[:1] not in _BEGINNINGS and b"\0" not in data:
        return ""
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            return name
    if b"\0" not in data:
        return ""
    if not data.strip(b"\0"):
        return "only NUL characters"
    # For each place in a group of four bytes, whether most bytes there are NUL.
    mostly_nul = [2 * data[i::4].count(0) > len(data[i::4]) for i in range(4)]
    if sum(mostly_nul) == 3 and len(data) > 4:
        return "what looks like UTF-32 without a byte order mark"
    if max(data[::2].count(0), data[1::2].count(0)) * 4 > len(data):  # of even or odd bytes most are NUL
        return "what looks like UTF-16 without a byte order mark"
    return ""


def clean_text(data: bytes, path: str, log: Log) -> bytes:
    """The text of a file as UTF-8 with a line feed after each line; faults of its encoding are reported.

    Empty where the encoding is another one altogether. Bytes that are not UTF-8 stay, and are reported once.
    """
    if data.startswith(BOM):
        data = data[3:]
    if wide_name := find_wide_encoding(data):
        log.report(NOT_UTF8, path, line=1, column=1, value=wide_name)
        return b""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
        if b"\r" in data:  # \r\r\n is one end of a line; any other \r is one by itself
            data = re.sub(rb"(?<!\r)\r++\n", b"\n", data).replace(b"\r", b"\n")
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as e:
            line = data.count(b"\n", 0, e.start)
            column = len(data[data.rfind(b"\n", 0, e.start) + 1 : e.start].decode(errors="replace"))
            byte = f"the byte {data[e.start]:#04x}"
            log.report(NOT_UTF8, path, line=line + 1, column=column + 1, value=byte)
    return data


def _make_chunk(parts: dict[int, bytes], sep: bytes | None) -> Chunk:
    """Join the texts of some files, by file number, and split them into the tokens of a chunk."""
    pieces = list(parts.values())
    text = b"\n".join(pieces)
    if sep is not None:
        pieces = [_separate(piece, sep) for piece in pieces]
        text = b"\n".join(pieces)
    elif any(control in text for control in (b"\x0b", b"\x0c", b"\r")):
        text = text.translate(_PROTECT)  # `split` below would split at these too
    text += b"\n"
    data = np.frombuffer(text, np.uint8)
    is_blank = _BLANK[data]
    is_token_start = ~is_blank
    is_token_start[1:] &= is_blank[:-1]
    token_starts = np.flatnonzero(is_token_start)
    line_ends = np.flatnonzero(data == 10)
    # "a 1\nb 2 3\n" has starts [0 2 4 6 8] and ends [3 9]: [2 5] tokens begin before these line feeds, so the
    # lines have [2 3] tokens, and their first ones are the tokens [0 2].
    n_tokens_before = np.searchsorted(token_starts, line_ends)
    n_tokens = np.diff(n_tokens_before, prepend=0)
    # Which file (position among the pieces) a line belongs to, and its number there. Pieces "a 1" and "b\nc"
    # begin at [0 4]: their first lines are [0 1] and they have [1 2], so lines belong to [0 1 1] as [1 1 2].
    sizes = np.array([len(piece) + 1 for piece in pieces], np.int64)
    offsets = np.cumsum(sizes) - sizes
    first_lines = np.searchsorted(line_ends, offsets)
    n_lines = np.diff(first_lines, append=len(line_ends))
    piece_of_line = np.repeat(np.arange(len(pieces)), n_lines)
    line_numbers = np.arange(1, len(line_ends) + 1) - first_lines[piece_of_line]
    has_tokens = n_tokens > 0
    return Chunk(
        tokens=text.split(),
        first=(n_tokens_before - n_tokens)[has_tokens],
        count=n_tokens[has_tokens],
        file=np.array(list(parts), np.int32)[piece_of_line[has_tokens]],
        line=line_numbers[has_tokens].astype(np.int32),
        _text=text,
        _bytes=data,
        _starts=token_starts,
        _parts=parts,
        _sep=sep,
    )


def _separate(data: bytes, sep: bytes) -> bytes:
    """Convert text with `sep` between values to text with blanks between values, for ``bytes.split``."""
    # A run of blanks is tried at its first byte only, so that this is linear however long it is.
    sep_pattern, blank_pattern = re.escape(sep), rb"[ ]" if sep == b"\t" else rb"[ \t]"
    data = data.translate(_PROTECT)
    framed = b"\n" + data + b"\n"
    if not any(unusual in framed for unusual in (b" ", b"\t", sep + sep, sep + b"\n", b"\n" + sep)):
        return data.replace(sep, b" ")  # neither blanks nor empty values, as in most files
    # Drop the blanks of lines without anything else, those before a separator, and those behind one.
    data = re.sub(rb"(?m)^[ \t]++$", b"", data)
    data = re.sub(
        rb"(?<!" + blank_pattern + rb")" + blank_pattern + rb"++(?=" + sep_pattern + rb")", b"", data
    )
    data = re.sub(sep_pattern + blank_pattern + rb"++", lambda _: sep, data)
    # Mark an empty value: a separator at the start, at the end, or right after another.
    data = re.sub(
        rb"(?m)(?:^|(?<=" + sep_pattern + rb"))(?=" + sep_pattern + rb")|(?<=" + sep_pattern + rb")$",
        EMPTY,
        data,
    )
    data = re.sub(rb"(?m)^[ \t]++|(?<![ \t])[ \t]++$", b"", data)  # blanks at the ends of a line
    return b" ".join(piece.translate(_INNER) for piece in data.split(sep))


class Rows(msgspec.Struct, frozen=True, eq=False):
    """The origin of n rows: the files, and (n,) the file and line of each row."""

    source: Source
    files: Sequence[str]
    file: Ints
    line: Ints
    sep: str | None = None

    def report(self, log: Log, code: Code, rows: NDArray[Any], say: Say) -> None:
        """Report one fault of many rows, which shows only after all files were read.

        The lines of the issues that the log still keeps are read again. `say` gets the values of a row, as
        `split_cells` splits them, and returns the keywords of `Log.report`.
        """
        sep_bytes = self.sep.encode() if self.sep else None
        current_file, lines = -1, list[bytes]()
        silent_log = log.fresh()
        for file_number, line in zip(self.file[rows].tolist(), self.line[rows].tolist(), strict=True):
            if not log.keeps(code):
                log.report(code, "")  # which only counts it
                continue
            if current_file != file_number:
                data = self.source.read(self.files[file_number], silent_log) or b""
                current_file, lines = file_number, clean_text(data, "", silent_log).split(b"\n")
            values = split_cells(lines[line - 1], sep_bytes) if line <= len(lines) else []
            log.report(code, self.source.full(self.files[file_number]), line=line, **say(values))


def check_number(cell: Cell, log: Log, path: str, line: int, field: str) -> bool:
    """Whether a value is a finite decimal number; another value is reported at its line and column."""
    column, value = cell
    is_number = NUMBER.fullmatch(value) is not None
    if is_number and math.isfinite(float(value)):
        return True
    code = NOT_FINITE if is_number or NON_FINITE.fullmatch(value) else NOT_A_NUMBER
    log.report(code, path, line=line, column=column, field=field, value=value)
    return False


_BEGINS_AS_NUMBER = re.compile(rb"[+-]?(?:[0-9]|\.[0-9])")


def find_second_row(words: Sequence[bytes], n_numbers: int) -> int:
    """The position in the words of a name where a second row begins, whose line break was lost; 0 if none.

    It begins after a word and the `n_numbers` of a row. The last number may run into its first word: with 4
    numbers it begins at 5 in ``car 0 0 9 9 bus``, and at 4 in ``car 0 0 9 9bus``.
    """
    n_in_run = 0
    for i, word in enumerate(words[1:], 1):
        if NUMBER.fullmatch(word):
            n_in_run += 1
        elif n_in_run >= n_numbers or (n_in_run == n_numbers - 1 and _BEGINS_AS_NUMBER.match(word)):
            return i
        else:
            n_in_run = 0
    return 0


Explain = Callable[[list[Cell], str, int, Log], None]
"""Reports what is wrong with one row, given its cells, the path of its file and its line."""


def explain_rows(
    chunk: Chunk, faulty: NDArray[Any], source: Source, files: Sequence[str], log: Log, explain: Explain
) -> None:
    """Call `explain` for each faulty row.

    Rows with less than five values all have one fault, so they are only counted once the log is full of it.
    """
    short_positions = np.flatnonzero(chunk.count[faulty] < 5)
    only_counted = short_positions[max(0, log.room(WRONG_COUNT)) :]
    rows = np.delete(faulty, only_counted)
    current_file, path = -1, ""
    for file, line in zip(chunk.file[rows].tolist(), chunk.line[rows].tolist(), strict=True):
        if file != current_file:
            current_file, path = file, source.full(files[file])
        explain(chunk.split_line(file, line), path, line, log)
    if len(only_counted):
        log.counts[WRONG_COUNT.name] += len(only_counted)


def are_all_true(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return (n,) True where all of an (n, 4) mask is; several times faster than ``all(axis=1)``."""
    is_every: NDArray[np.bool_] = mask[:, 0] & mask[:, 1] & mask[:, 2] & mask[:, 3]
    return is_every


# ---------------------------------------------------------------------------------------------- writing


ROWS = 2**15
"""Rows whose texts are made at a time."""


def count_decimals(width: int, height: int) -> int:
    """Return how many decimals keep a relative coordinate exact to 1e-6 pixels."""
    return len(str(max(width, height, 2) - 1)) + 6


def format_relative(values: Floats, width: Ints, height: Ints) -> Cells:
    """Format (n, m) relative coordinates with the decimals that (n,) sizes in pixels need; a flat array.

    Images of unknown size get as many decimals as an image of 100 000 pixels.
    """
    largest = np.maximum(np.where(width > 0, np.maximum(width, height), 10**5), 2) - 1
    places = np.floor(np.log10(largest)).astype(np.int64) + 7  # its digits and 6, for 1e-6 pixels
    distinct_places = distinct(places)
    if len(distinct_places) <= 1:
        return to_fixed_cells(values.ravel(), int(distinct_places[0]) if len(distinct_places) else 7)
    rows_of_places = [np.flatnonzero(places == kind) for kind in distinct_places]
    parts = [
        to_fixed_cells(values[rows_of_kind].ravel(), kind)
        for rows_of_kind, kind in zip(rows_of_places, distinct_places.tolist(), strict=True)
    ]
    cells = np.concatenate(parts).reshape(values.shape)
    # `cells` has the rows with the fewest decimals first; put them back in order.
    position_of_row = np.empty(len(values), np.int64)
    position_of_row[np.concatenate(rows_of_places)] = np.arange(len(values))
    return cells[position_of_row].ravel()


Column = Sequence[str] | Cells | tuple[Cells, Longs]
"""A text for each row: texts, cells, or a few cells and which of them each row has."""


def format_pages(n_images: int, image: Ints, columns: Sequence[Column], sep: str = " ") -> Iterator[bytes]:
    """The content of the text file of each image: one line per box, in the order of the boxes."""
    pieces: list[bytes | Column] = []
    for column in columns:
        pieces += [column, sep.encode()]
    return assemble(n_images, image, [*pieces[:-1], b"\n"])


def assemble(n_images: int, image: Ints, pieces: Sequence[bytes | Column]) -> Iterator[bytes]:
    """Yield the text of each image: for each of its boxes, in their order, the pieces one after another."""
    order = np.argsort(image, kind="stable")
    # The boxes of image i are order[box_bounds[i] : box_bounds[i + 1]]; order is 0, 1, ... if `is_ordered`.
    box_bounds = np.searchsorted(image[order], np.arange(n_images + 1))
    is_ordered = len(order) == 0 or bool((order[1:] > order[:-1]).all())
    # For each piece its cells, and the number of each box's cell among them, None for one a box or for all.
    columns = [_make_cells(piece) for piece in pieces]
    n_pieces = len(columns)
    first_image = 0
    while first_image < n_images:
        # As many images as have at most `ROWS` boxes together, but at least one.
        last_bound = np.searchsorted(box_bounds, box_bounds[first_image] + ROWS, side="right")
        end_image = max(first_image + 1, int(last_bound) - 1)
        image_bounds = box_bounds[first_image : end_image + 1]
        rows: Any = slice(image_bounds[0], image_bounds[-1])
        if not is_ordered:
            rows = order[rows]
        n_boxes = int(image_bounds[-1] - image_bounds[0])
        texts = [b""] * (n_pieces * n_boxes)  # piece i of box k at k * n_pieces + i
        for i, (cells, index) in enumerate(columns):
            if index is not None:
                texts[i::n_pieces] = cells[index[rows]].tolist()
            else:
                # One cell is for all boxes (of one box, this is the same).
                texts[i::n_pieces] = cells[rows].tolist() if len(cells) > 1 else cells.tolist() * n_boxes
        for start, end in itertools.pairwise(((image_bounds - image_bounds[0]) * n_pieces).tolist()):
            yield b"".join(texts[start:end])
        first_image = end_image


def _make_cells(piece: bytes | Column) -> tuple[Cells, Longs | None]:
    """Return (cells, index): row i has ``cells[index[i]]``; without index, one cell per row or for all."""
    if isinstance(piece, bytes):
        return np.array([piece], np.bytes_), None
    if isinstance(piece, tuple):
        return piece
    if isinstance(piece, np.ndarray):
        return piece, None
    index_of_text = {text: i for i, text in enumerate(dict.fromkeys(piece))}
    cells = np.array([text.encode() for text in index_of_text] or [b""], np.bytes_)
    return cells, np.array([index_of_text[text] for text in piece], np.int64)


def describe_lines(n: int, total: int) -> str:
    """Return ``3 of 4 lines are``, or ``its one line is`` (``is not``) if there is one line in all."""
    if total == 1:
        return "its one line is" if n else "its one line is not"
    return f"{n} of {total} lines {'is' if n == 1 else 'are'}"
