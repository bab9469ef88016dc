"""Long results lists, decoded in parts by several processes into columns that they share.

A part is read where it is decoded, so the text is never held as a whole. All records must have just the four
keys of a result, with numbers in them. If anything else is in any part, the whole file is read by `Reader`,
which says what is wrong. A part is cut where ``}, {`` stands, and decoded strictly: a cut inside a string or
an inner list leaves something unclosed, so none passes unseen (see `odm.formats._shared.json.columns`).
"""

from __future__ import annotations

import mmap
import os
from typing import IO, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from odm.files import Source, Unreadable
from odm.formats._shared.json.columns import CUT
from odm.formats._shared.json.record_types import SLICE, Chunk, RecordTypes
from odm.formats.coco.boxes import SLACK, Table, put_edges
from odm.formats.coco.values import RESULT
from odm.parallel import Team, worker_count

PIECE = 2**24
"""Bytes that are looked at together where a list is divided into parts."""
LONG = 2**23
"""Bytes from which on other processes are worth it."""
MARGIN = 2**16
"""Bytes after the end of a part in which its last record should end."""
DENSEST = 0.75
"""The shortest mean record of a part, relative to that of the first; below it, `Reader` reads the file."""
COLUMNS = {"xyxy": 4, "wh": 2, "score": 1, "image_id": 1, "category_id": 1}
"""The shared columns, and how many numbers a row has in each."""
_KEYS = {"image_id", "category_id", "bbox", "score"}


class LongList:
    """A results list that other processes are decoding into shared columns.

    The rows of a part begin after the most rows that all parts before it can have. `fill` closes the gaps.
    """

    def __init__(self, source: Source) -> None:
        """Start the workers, if the first part is usual; this part also tells the size of a record.

        Columns get as many rows as the file has if no record is shorter than `DENSEST` of that size.
        """
        self._file = source.open()
        self._status = os.fstat(self._file.fileno())
        size = self._status.st_size
        self._n_parts = max(size // SLICE, 1)
        self._shapes = RecordTypes(RESULT, rest=False)
        self._columns: dict[str, Any] = {}  # arrays over `_shared`, by the names in `COLUMNS`
        self._shared: list[mmap.mmap] = []
        # first row and number of rows of each part, None if `Reader` must read the file
        self._team: Team[int, tuple[int, int] | None] | None = None
        span_and_chunk = self._read_part(0)
        if span_and_chunk is None or span_and_chunk[1].n == 0:  # the part is unusual, or has no records
            self._file.close()
            return
        (start, end), chunk = span_and_chunk
        self._bytes_per_row = DENSEST * (end - start) / chunk.n
        n_rows = int(size / self._bytes_per_row) + 1
        for name, width in COLUMNS.items():
            self._shared.append(mmap.mmap(-1, 8 * width * n_rows))  # 8 bytes a number
            column = np.frombuffer(self._shared[-1], np.int64 if name.endswith("_id") else np.float64)
            self._columns[name] = column.reshape(n_rows, width) if width > 1 else column
        self._team = Team(self._decode_part, range(self._n_parts))

    def _decode_part(self, part_index: int) -> tuple[int, int] | None:
        """Decode a part into the shared columns; return its first row and number of rows.

        None if the part is unusual, or has more records than the columns have room for, so that `Reader` must
        read the file.
        """
        span_and_chunk = self._read_part(part_index)
        if span_and_chunk is None:
            return None
        (start, end), chunk = span_and_chunk
        # No part before this one can have had more rows than fit in its `start` bytes.
        row = int(start / self._bytes_per_row)
        if row + chunk.n > int(end / self._bytes_per_row):
            return None
        row_slice = slice(row, row + chunk.n)
        put_edges(
            np.asarray(chunk.columns.pop("bbox")),
            self._columns["xyxy"][row_slice],
            self._columns["wh"][row_slice],
        )
        for key, values in chunk.columns.items():
            self._columns[key][row_slice] = values
        return row, chunk.n

    def _read_part(self, part_index: int) -> tuple[tuple[int, int], Chunk] | None:
        """Decode the records that begin in a part, `SLICE` bytes of the file.

        Returns the offsets of their first byte and behind their last, and their columns; None if unusual.
        """
        part_start = part_index * SLICE
        is_first, is_last = part_index == 0, part_index + 1 == self._n_parts
        # The last part also has what is left when the file is divided by `SLICE`.
        text = os.pread(self._file.fileno(), 2 * SLICE if is_last else SLICE + MARGIN, part_start)
        first_cut = None if is_first else CUT.search(text)
        last_cut = None if is_last else CUT.search(text, SLICE)
        if not (is_first or first_cut) or not (is_last or last_cut):
            return None
        # a cut is the text `}, {`: a part goes from the last character of one to the first of the next
        start = first_cut.end() - 1 if first_cut else 0
        body = memoryview(text)[start : last_cut.start() + 1 if last_cut else len(text)]
        json_list = b"".join((b"" if is_first else b"[", body, b"" if is_last else b"]"))
        try:
            chunk = self._shapes.decode(json_list, 0)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if chunk is None or chunk.columns.keys() != _KEYS or chunk.extras or chunk.written_float:
            return None
        if not all(isinstance(column, np.ndarray) for column in chunk.columns.values()):
            return None
        return (part_start + start, part_start + start + len(body)), chunk

    def fill(self, table: Table) -> bool:
        """Wait for the workers, and move the records that they decoded into a table; works only once.

        Returns False if there are no workers, one gave up or the file has changed, so that it must be read in
        the usual way.
        """
        team, self._team = self._team, None
        if team is None:
            return False
        row_spans, status = team.results(), os.fstat(self._file.fileno())
        self._file.close()
        if (status.st_size, status.st_mtime_ns) != (self._status.st_size, self._status.st_mtime_ns):
            return False
        # Close the gaps between the parts: all rows move up.
        n = 0
        for span in row_spans:
            if span is None:
                return False
            first_row, n_rows = span
            for column in self._columns.values():
                column[n : n + n_rows] = column[first_row : first_row + n_rows]
            n += n_rows
        for memory in self._shared:  # pages after the last record go back to the system
            # the bytes of n rows, rounded up to whole pages: -(-a // b) rounds a / b up
            n_used_bytes = -(-len(memory) * n // len(self._columns["score"]) // mmap.PAGESIZE) * mmap.PAGESIZE
            if n_used_bytes < len(memory):
                memory.madvise(mmap.MADV_REMOVE, n_used_bytes)
        for name, column in self._columns.items():
            if name in ("image_id", "category_id"):
                table.ids[name] = [column[:n]]
            else:
                table.columns[name] = column[:n]
        table.columns["index"] = np.arange(n, dtype=np.int32)
        table.n = table.n_records = n
        return True


class Span(msgspec.Struct, frozen=True):
    """Some records of a results list: where their bytes begin and end, and the number of the first."""

    start: int
    stop: int
    first_record: int


class _Box(msgspec.Struct, gc=False):
    image_id: int | str
    bbox: tuple[float, float, float, float]


def divide(source: Source, file: str, size: int, units: str) -> tuple[list[Span], str] | None:
    """Divide a results list into spans of about `size` bytes, which can be read one by one.

    Returns
    -------
    The spans, and the units of all boxes: `units`, or what ``auto`` stands for, ``pixel`` or ``normalized``.
    None if the file is no list of boxes, or cannot be read from the middle: compressed, or not strictly JSON.
    """
    try:
        with source.open(file) as stream:
            return _divide(stream, source.size(file), size, units)
    except (Unreadable, OSError, ValueError, RecursionError):  # a ValueError is also msgspec's
        return None


def _divide(stream: IO[bytes], length: int, size: int, units: str) -> tuple[list[Span], str] | None:
    """Divide the list in `stream`, a file of `length` bytes; raises msgspec's errors.

    Returns spans of about `size` bytes and the units of all boxes; None if it is no list of objects. With the
    `units` ``auto`` all boxes are decoded: one outside 0..1 means pixels.

    Each round takes the whole records at the beginning of `text`, which begins at `offset` of the file.
    """
    boxes, records = msgspec.json.Decoder(list[_Box]), msgspec.json.Decoder(list[msgspec.Raw])
    piece_size = max(min(PIECE, size), 2 * MARGIN)
    text = stream.read(piece_size)
    offset = len(text) - len(text[1:].lstrip(b" \t\r\n"))  # of the first record, after the bracket
    if not text.startswith(b"[") or text[offset : offset + 1] != b"{":
        return None
    text, spans, n_records, has_fractions = text[offset:], [Span(offset, offset, 0)], 0, False
    while text:
        text += stream.read(piece_size - len(text))
        is_last = offset + len(text) >= length
        cut = None if is_last else CUT.search(text, len(text) - MARGIN)  # }, {
        body = text[: cut.start() + 1] if cut else text.rstrip(b" \t\r\n").removesuffix(b"]")
        piece = b"".join((b"[", body, b"]"))

        # The first boxes are decoded in any case, as a check that these are boxes.
        if n_records == 0 or units == "auto":
            ltwh = np.array([box.bbox for box in boxes.decode(piece)])
            edges = np.concatenate([ltwh[:, :2], ltwh[:, :2] + ltwh[:, 2:]], axis=1)
            has_fractions |= bool(((edges > 0) & (edges < 1)).any())
            if units == "auto" and not ((edges >= 0) & (edges <= 1 + SLACK)).all():
                units = "pixel"

        # These records belong to the last span, or begin a new one if it would become too long.
        if offset + len(body) - spans[-1].start > size and n_records > spans[-1].first_record:
            spans.append(Span(offset, offset, n_records))
        n_records += len(records.decode(piece))
        spans[-1] = replace(spans[-1], stop=offset + len(body))
        n_taken = cut.end() - 1 if cut else len(text)
        offset, text = offset + n_taken, text[n_taken:]
    if units == "auto":
        units = "normalized" if has_fractions else "pixel"
    return spans, units


def read_span(source: Source, file: str, span: Span) -> bytes:
    """Return the records of a span as a JSON list. Raises `Unreadable` if the file cannot be read."""
    with source.open(file) as stream:
        stream.seek(span.start)
        return b"".join((b"[", stream.read(span.stop - span.start), b"]"))


def begin_decoding(source: Source) -> LongList | None:
    """Begin to decode a file that is a long list; None where that is not worth it, or cannot be."""
    if source.is_dir or source.encoding or source.size() < LONG or worker_count() < 2:
        return None
    try:
        return LongList(source)
    except (Unreadable, OSError):
        return None
