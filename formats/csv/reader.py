"""CSV files as they are read: their text taken apart, and the layouts of all of them settled.

The format takes more lines than others because every tool names and arranges its columns in its own way, and
millions of rows are read as columns.
"""

from __future__ import annotations

import csv
import re
from typing import Any

import numpy as np
from msgspec.structs import replace

from odm.csv_text import QUOTE_SPAN, QuoteFault, read_record, read_records
from odm.files import Source
from odm.formats._shared.codes import COMMENTED, NOT_UTF8, WRONG_COUNT
from odm.formats._shared.gather import find_folders
from odm.formats._shared.known_keys import count_extra
from odm.formats._shared.split_names import parse_split
from odm.formats._shared.tables.csv_files import (
    NO_HEADER,
    NUL,
    read_table,
    report_quote,
    show_byte,
    to_utf8,
    undo_safe,
)
from odm.formats._shared.tables.images import Origin
from odm.formats._shared.tables.rows import BoxRows, TableReader, TableRows
from odm.formats.csv.layouts import (
    MASKS,
    ClassNames,
    CsvOptions,
    HeaderFaults,
    Layout,
    find_layout,
    parse_boxes,
    split_sep_line,
)
from odm.formats.csv.masks import ObjectMasks
from odm.issues import Log, Trusted, plural, spell
from odm.names import stem
from odm.tables import Builder, Ints, Longs, Shapes

SURROGATE = re.compile("[\ud800-\udfff]")
"""The replacement for a byte that is not UTF-8."""

_LAYOUT_FOLDER = re.compile(r"(?<=/)(?:labels|metadata)/(?=[^/]*\Z)")
_CHUNK = 2**18
"""Bytes that are split at a time; small, so that the cells stay in the caches."""


class Reader(TableReader):
    """Collects rows over all files, then decides what needs all of them and fills the builder."""

    def __init__(
        self, source: Source, builder: Builder, log: Log, options: CsvOptions, names: ClassNames | None
    ) -> None:
        """Start without rows; `names` is the file of class names, if there is one."""
        folders: tuple[str, ...] = (source.full("images"), source.path) if find_folders(source) else ()
        if folders:  # Open Images lie in images/<subset>/, in <subset>/data/ for FiftyOne
            subsets = {"/".join(file.split("/")[:2]) for file in source.files if file.count("/") > 1}
            image_folders = (name for name in subsets if name.startswith("images/") or name.endswith("/data"))
            folders += tuple(map(source.full, sorted(image_folders)))
        path_and_names = None if names is None else (names.path, names.by_cell)
        super().__init__(source, builder, log, options, listed=path_and_names, folders=folders)
        self._options = options
        for name in names.order if names else ():
            builder.category(name)
        self._masks: ObjectMasks | None = None
        self._mask_names: dict[int, str] = {}
        """The file name of the mask of each line of the table of masks that is read."""
        self._only_known_boxes = False
        """Whether rows of images and classes without boxes are left out."""
        self._titles: dict[str, list[str]] = {}
        """The files of each kind of layout."""

    def split_of(self, file: str) -> str:
        """Return the split in the name of a file of a folder, or of its own folder; "" if in neither.

        That of ``train/labels/detections.csv``, as FiftyOne lays out Open Images, is ``train``.
        """
        return parse_split(_LAYOUT_FOLDER.sub("", file)) if self.source.is_dir else ""

    # -- one file

    def read_file(self, file: str, *, track: bool) -> None:
        """Take the rows of a file, with the split in its name, and report faults. `track` shows progress."""
        log, path = self.log, self.source.full(file)
        data = self.source.read(file, log)
        if data is None:
            return
        decoded = to_utf8(data)
        if isinstance(decoded, str):
            log.report(NOT_UTF8, path, value=decoded)
            return
        data, encoding = decoded
        if encoding:
            log.note(f"{path}: read as {encoding.upper()}, from its byte order mark")
        # The lines that begin in the first 64 KiB, or all.
        head = data[: data.find(b"\n", 2**16) + 1 or len(data)].decode("utf-8", "surrogateescape")
        layout = find_layout(head, self._options)
        if layout is None:
            if self.builder.kind == "det":
                log.note(f"{path}: the file is empty, so there are no detections")
            else:
                log.report(NO_HEADER, path, found="an empty file")
            return
        explicit_sep, _ = split_sep_line(head)
        start = 6 if explicit_sep else 0  # behind "sep=;\n"
        while start < len(head) and head[start] == "\n":
            start += 1
        line = head.count("\n", 0, start) + 1
        if isinstance(layout, HeaderFaults):
            for code, field, values in layout.faults:
                log.report(code, path, line=line, field=field, **values)
            return
        self._titles.setdefault(layout.title, []).append(path)
        if split := self.split_of(file):
            layout = replace(layout, constants={**layout.constants, "split": split})
        if layout.has_header:
            bad_names = [name for name in layout.columns if SURROGATE.search(name) or "\0" in name]
            if bad_names:
                log.report(NOT_UTF8, path, line=line, value=repr(bad_names[0]))
            _, header_end = read_record(head, start, layout.sep, spaced=layout.spaced)
            line += head.count("\n", start, header_end + 1)
            start = header_end + 1
        n_head_bytes = len(head[:start].encode("utf-8", "surrogateescape"))
        self._take_rows(data, n_head_bytes, line, layout, path, track=track)

    def _take_rows(
        self, data: bytes, start: int, line: int, layout: Layout, path: str, *, track: bool
    ) -> None:
        """Take the rows of a file from the offset `start` on, which is where `line` begins, in pieces."""
        log = self.log
        rows = TableRows(self, self._find_row_layout(layout), path, self._options.decimal)
        piece_bounds = cut_pieces(data, start)
        for piece_start, piece_stop in log.track(piece_bounds, "reading CSV") if track else piece_bounds:
            piece = data[piece_start:piece_stop]
            if not piece.endswith(b"\n"):
                piece += b"\n"
            columns, lines = self._split_rows(piece, line, layout, path)
            if len(lines):
                rows.take(*self._unpack_cells(columns, lines, layout, path))
            line += piece.count(b"\n")
        rows.decimals.report_marks(path, log)

    def read_images(self, file: str) -> None:
        """Take the images in a list of Open Images whose pictures lie in the source; count other columns."""
        data, path = self.source.read(file, self.log), self.source.full(file)
        rows = None if data is None else read_table(data, path, self.log, self.builder)
        if not rows or "ImageID" not in (header := rows[0][1]):
            return
        column = header.index("ImageID")
        pictures = {stem(path).rpartition("/")[2] for path in self.source.files if stem(path) != path}
        # A slice of a row that is too short for the column is empty.
        rows_with_picture = [
            (line, cells) for line, cells in rows[1:] if set(cells[column : column + 1]) & pictures
        ]
        for i, name in enumerate(header):
            n_filled = sum(any(cells[i : i + 1]) for _, cells in rows_with_picture)
            if name and i != column and n_filled:
                count_extra(self.builder.extras, name, n_filled)
        lines_and_names = [(line, cells[column]) for line, cells in rows_with_picture]
        origin = Origin(self.builder.file(path), path, "ImageID", has_ids=True)
        lines = np.array([line for line, _ in lines_and_names], np.int32)
        images, _ = self.images.take([name for _, name in lines_and_names], lines, origin)
        if split := self.split_of(file):
            for image in images.tolist():
                self.images.splits.setdefault(image, split)

    def read_masks(self, file: str, *, with_boxes: bool) -> None:
        """Take the masks of a table, and its boxes if `with_boxes`, as no other table has any.

        Masks count as unread until `find_shapes` gives them to boxes. `read_file` appends the rows of the
        table to `boxes`, and their PNG files to `_mask_names`.
        """
        n_parts_before, self._mask_names, self._only_known_boxes = len(self.boxes), {}, not with_boxes
        self._masks = self._masks or ObjectMasks(self.source, self.builder, self.log)
        self.read_file(file, track=False)
        for chunk in self.boxes[n_parts_before:]:
            names = [self._mask_names[line] for line in chunk.line.tolist()]
            self._masks.add(_make_keys(chunk), chunk.numbers, names, chunk.path, chunk.line)
        self.builder.extras["masks"] += sum(len(chunk.line) for chunk in self.boxes[n_parts_before:])
        if not with_boxes:
            del self.boxes[n_parts_before:]
        self._only_known_boxes = False

    def find_shapes(self, chunk: BoxRows) -> Shapes | None:
        """Return the masks that tables of masks have for a chunk of boxes; None if none are read."""
        if self._masks is None or "mask" not in self.builder.wants:
            return None
        return self._masks.match_shapes(_make_keys(chunk), chunk.numbers, self.images.sizes[chunk.image])

    def _find_row_layout(self, layout: Layout) -> Layout:
        """Return the layout of the columns that `_unpack_cells` returns, with the option `coords`."""
        coords, names = self._options.coords or layout.coords, layout.columns
        image = layout.roles.get("image", 0)
        has_ids = coords == "rel" and names[image].lower() == "imageid"  # those of Open Images
        layout = replace(layout, coords=coords, has_ids=has_ids)
        # What is unpacked stands behind the columns of the file; of prediction strings, behind the image.
        if layout.packed_column is not None:
            packed = (*names, *[names[layout.packed_column]] * 4)
            return replace(layout, columns=packed, corners=tuple(range(len(names), len(packed))))
        if layout.keys:
            return replace(layout, columns=(*names, *[names[layout.list_column or 0]] * len(layout.keys)))
        if layout.string_column is None:
            return layout
        roles = {"image": 0, "class": 1, "score": 2, "left": 3, "top": 4, "right": 5, "bottom": 6}
        return replace(layout, columns=(names[image], *[names[layout.string_column]] * 6), roles=roles)

    def _split_rows(self, piece: bytes, line: int, layout: Layout, path: str) -> tuple[list[list[str]], Ints]:
        """Split a piece that begins at `line` into the columns of its valid rows, and (rows,) their lines.

        Other rows are reported and counted as skipped.
        """
        log, n, text = self.log, len(layout.columns), piece.decode("utf-8", "surrogateescape")
        # A byte that is not UTF-8 is decoded to 0xDC00 plus its value, a surrogate.
        has_bad_characters = "\0" in text or not (text.isascii() or SURROGATE.search(text) is None)
        if not has_bad_characters and (columns := _split_columns(text, layout)) is not None:
            return columns, np.arange(line, line + len(columns[0]), dtype=np.int32)
        rows: list[list[str]] = []
        lines: list[int] = []
        for first_line, last_line, cells in read_records(text, layout.sep, line=line, spaced=layout.spaced):
            if isinstance(cells, QuoteFault):
                report_quote(cells, path, log, self.builder, line=first_line, field=layout.field(cells.cell))
                continue
            n_errors = log.errors
            for i, cell in enumerate(cells) if has_bad_characters else ():
                if "\0" in cell:
                    log.report(NUL, path, line=first_line, field=layout.field(i), value=cell)
                elif match := SURROGATE.search(cell):
                    value = show_byte(ord(match[0]) - 0xDC00)
                    log.report(NOT_UTF8, path, line=first_line, field=layout.field(i), value=value)
            if log.errors == n_errors and len(cells) != n:
                shown = str(len(cells))
                if last_line > first_line:
                    shown += f" (a quoted cell runs from line {first_line} to {last_line})"
                expected = f"{n} cells as in the header" if layout.has_header else f"{n} cells"
                field = layout.field(min(len(cells), n))  # the first that is missing or too many
                log.report(WRONG_COUNT, path, line=first_line, field=field, expected=expected, found=shown)
            if log.errors > n_errors:
                self.builder.skipped += 1
                continue
            rows.append(cells)
            lines.append(first_line)
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(n)]
        return columns, np.array(lines, np.int32)

    def _unpack_cells(
        self, columns: list[list[str]], lines: Ints, layout: Layout, path: str
    ) -> tuple[list[list[str]], Ints]:
        """Unpack cells that hold several values into columns with one value each, and count unread columns.

        `columns` and `lines` are from `_split_rows`; cells with several boxes become several rows.
        """
        extras, roles = self.builder.extras, layout.roles
        read_columns = {*roles.values(), layout.string_column, layout.packed_column, layout.list_column}
        if layout.title == MASKS:
            names = columns[layout.columns.index("MaskPath")]
            self._mask_names |= zip(lines.tolist(), names, strict=True)
            read_columns.add(layout.columns.index("MaskPath"))
        if self._only_known_boxes:
            names_and_labels = zip(columns[roles["image"]], columns[roles["class"]], strict=True)
            rows = [  # with the image and class of some box
                i
                for i, (name, label) in enumerate(names_and_labels)
                if name in self.images.rows and label in self.classes
            ]
            extras["masks"] += len(lines) - len(rows)  # these stay unread, as no box can be theirs
            columns, lines = [[column[i] for i in rows] for column in columns], lines[rows]
        for i, name in enumerate(layout.columns):
            if name and i not in read_columns and (n_boxes := len(lines) - columns[i].count("")):
                extras[name] += n_boxes
        safe_columns = {roles.get("image"), roles.get("class"), layout.string_column}
        for column_number in safe_columns if self._options.excel_safe else ():
            if column_number is not None:
                columns[column_number] = list(map(undo_safe, columns[column_number]))

        if layout.list_column is not None:
            columns, lines = self._unpack_lists(columns, lines, layout, path)
        if layout.packed_column is not None:
            boxes = []  # where there are not four words, the cell stays in the first column, and is no number
            for cell in columns[layout.packed_column]:
                words = cell.strip(" []()\t").replace(",", " ").split()
                boxes.append(words if len(words) == 4 else [cell, "", "", ""])
            columns += [[edges[k] for edges in boxes] for k in range(4)]
        if layout.string_column is not None:
            return self._unpack_strings(columns, lines, layout, path)
        return columns, lines

    def _unpack_strings(
        self, columns: list[list[str]], lines: Ints, layout: Layout, path: str
    ) -> tuple[list[list[str]], Ints]:
        """Unpack the `string_column`, if a layout has one: ``label score left top right bottom label ...``.

        There is a row for each box, and one for an image without boxes. Returns the columns image and the six
        of a box, and the lines.
        """
        string_column = layout.string_column or 0
        images: list[str] = []
        line_numbers: list[int] = []
        cells: list[str] = []
        rows = zip(columns[layout.roles["image"]], columns[string_column], lines.tolist(), strict=True)
        for image, text, line in rows:
            words = [word for word in text.replace("\t", " ").split(" ") if word]
            n_boxes, n_left = divmod(len(words), 6)
            if n_left:
                expected = "groups of six: label score xmin ymin xmax ymax"
                field, shown = layout.field(string_column), f"{len(words)} words"
                self.log.report(WRONG_COUNT, path, line=line, field=field, expected=expected, found=shown)
                self.builder.skipped += n_boxes + 1  # the incomplete group counts as a box
                words, n_boxes = [], 0
            images += [image] * max(n_boxes, 1)
            cells += words or [""] * 6
            line_numbers += [line] * max(n_boxes, 1)
        return [images, *(cells[i::6] for i in range(6))], np.array(line_numbers, np.int32)

    def _unpack_lists(
        self, columns: list[list[str]], lines: Ints, layout: Layout, path: str
    ) -> tuple[list[list[str]], Ints]:
        """Unpack the `list_column` of a layout that has one: one row for each box, and for each empty list.

        The keys of the boxes become columns behind the others.
        """
        keys, column = layout.keys, layout.list_column or 0
        kind: Any = dict if keys else list
        rows: list[int] = []  # of the file, for each box
        cells: list[list[str]] = []  # its values by key, or its list of numbers as one text
        for i, cell in enumerate(columns[column]):
            boxes: list[Any] | None = parse_boxes(cell) if cell.strip() else []
            if boxes is None:
                boxes = [None]  # no list, which is reported below
            for box in boxes or [kind()]:  # an empty list is a row without a box
                if not isinstance(box, kind):
                    expected = f"a list of boxes{' with ' if keys else ''}{', '.join(keys)}"
                    line_and_field: dict[str, Any] = {"line": int(lines[i]), "field": layout.field(column)}
                    self.log.report(
                        WRONG_COUNT, path, expected=Trusted(expected), found=cell, **line_and_field
                    )
                    self.builder.skipped += 1
                    continue
                rows.append(i)
                cells.append(["" if box.get(k) is None else str(box[k]) for k in keys] or [str(box)])
                for key in box.keys() - {*keys} if keys else ():
                    count_extra(self.builder.extras, key)

        # A column for each key, or one for lists of numbers; without boxes they are empty.
        list_columns = [list(values) for values in zip(*cells, strict=True)] or [[] for _ in keys or [""]]
        columns = [[values[i] for i in rows] for values in columns]
        for k, key in enumerate(keys):
            is_read = len(columns) + k in layout.roles.values()  # columns of keys follow those of the file
            if not is_read and (n := len(rows) - list_columns[k].count("")):
                count_extra(self.builder.extras, key, n)
        if keys:
            return columns + list_columns, lines[rows]
        columns[column] = [cell.strip("[]") for cell in list_columns[0]]
        return columns, lines[rows]

    # -- all files

    def finish(self) -> int:
        """Decide what depends on all rows and fill the builder; return how many sizes are not from a row."""
        log, images = self.log, self.images
        for title, paths in self._titles.items():
            if title != "canonical CSV":
                others_text = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
                log.note(f"{paths[0]}{others_text}: read as {title}")
        for i, name in enumerate(images.rows):
            if name.startswith("#") and images.is_usable[i]:
                path, field = images.origin[i].path, images.origin[i].field
                values: dict[str, Any] = {"value": name, "what": Trusted("an image")}
                log.report(COMMENTED, path, line=images.line[i], field=field, **values)
        self._decide_form()
        self._decide_relative()
        predicted = any("predictions" in title for title in self._titles)
        if predicted and not self.boxes and self.builder.kind is None:
            self.builder.kind = "det"  # no box can show it
        n_sizes = super().finish()
        if n_sizes:
            sized, takes = plural(n_sizes, "image"), "takes" if n_sizes == 1 else "take"
            log.note(f"{self.source.path}: {sized} without a size {takes} it from a picture or an option")
        return n_sizes

    def _decide_form(self) -> None:
        """Decide whether four numbers in one cell are edges: if fewer than 1 of 20 boxes are inverted so."""
        packed_chunks = [chunk for chunk in self.boxes if chunk.layout.corners]
        if not packed_chunks:
            return
        corners = [chunk.numbers for chunk in packed_chunks]
        n_inverted = sum(int(np.count_nonzero((v[:, 2:] < v[:, :2]).any(axis=1))) for v in corners)
        form = "ltrb" if n_inverted * 20 < sum(len(chunk.line) for chunk in packed_chunks) else "ltwh"
        for chunk in packed_chunks:
            chunk.layout = replace(chunk.layout, form=form)
        edges_text = "left, top, right, bottom" if form == "ltrb" else "left, top, width, height"
        as_edges = f"as edges {n_inverted or 'none'} would be inverted"
        self.log.note(f"{self.source.path}: the numbers of a box are {edges_text}: {as_edges}")

    def _decide_relative(self) -> None:
        """Decide whether boxes whose header leaves it open are fractions: all, or most with decimals, are."""
        undecided_chunks = [chunk for chunk in self.boxes if chunk.layout.coords == "sniff"]
        n_boxes = sum(len(chunk.line) for chunk in undecided_chunks)
        # For each chunk (n,) True for the boxes whose four numbers are in 0..1.
        is_inside = [((chunk.numbers >= 0) & (chunk.numbers <= 1)).all(axis=1) for chunk in undecided_chunks]
        n_inside = sum(int(np.count_nonzero(mask)) for mask in is_inside)
        has_fractions = any(
            bool((chunk.numbers[mask] % 1 != 0).any())
            for chunk, mask in zip(undecided_chunks, is_inside, strict=True)
        )
        # Boxes that are not all inside are pixels, unless at least half are, some of them with decimals.
        if not n_inside or (n_inside < n_boxes and not (has_fractions and 2 * n_inside >= n_boxes)):
            return
        for chunk in undecided_chunks:
            chunk.layout = replace(chunk.layout, coords="rel")
        boxes = f"all {n_boxes} boxes lie" if n_inside == n_boxes else f"{n_inside} of {n_boxes} boxes lie"
        boxes = "its one box lies" if n_boxes == 1 else boxes
        self.log.note(
            f"{self.source.path}: {boxes} in 0..1, so coordinates are read as relative to the image's size "
            f"({spell('coords')} abs reads pixels)"
        )


def _make_keys(chunk: BoxRows) -> Longs:
    """Return (n,) int64 that stand for the image and class of each box: the image in the higher 32 bits."""
    return chunk.image.astype(np.int64) << 32 | chunk.category


def cut_pieces(data: bytes, start: int, *, size: int = _CHUNK) -> list[tuple[int, int]]:
    """Divide the data from `start` on into pieces of about `size` bytes: the offsets (start, stop) of each.

    A piece ends with a line, and not within quotes.
    """
    pieces = []
    has_quotes = b'"' in data
    while start < len(data):
        end = data.find(b"\n", min(start + size, len(data))) + 1 or len(data)  # without a line feed the end
        if has_quotes and data.count(b'"', start, end) % 2:
            line_start = end
            # A quote may be open here: look for the line where it is closed, at most `QUOTE_SPAN` characters
            # (of up to 4 bytes) away.
            for _ in range(1000):
                line_end = data.find(b"\n", line_start) + 1
                if not line_end or line_end - end > 4 * QUOTE_SPAN:
                    break
                if data.count(b'"', line_start, line_end) % 2:
                    end = line_end
                    break
                line_start = line_end
        pieces.append((start, end))
        start = end
    return pieces


def _split_columns(text: str, layout: Layout) -> list[list[str]] | None:
    """Split a text into columns all at once; None if anything about it is unusual.

    The standard library is five times as fast as `read_records`, and lets through quotes that it should not.
    """
    sep, n = layout.sep, len(layout.columns)
    if '"' not in text and not layout.spaced:
        # Each line break becomes a cell: where every (n + 1)th cell is one, all lines have n cells. For n = 2
        # "a,b\nc,d\n" is a b \n c d \n and an empty cell.
        cells = text.replace("\n", f"{sep}\n{sep}").split(sep)
        breaks = cells[n :: n + 1]
        is_regular = len(cells) == len(breaks) * (n + 1) + 1 and breaks.count("\n") == len(breaks)
        is_regular = is_regular and text.count("\n") == len(breaks)
        return [cells[i : -1 : n + 1] for i in range(n)] if is_regular else None
    lines = text.removesuffix("\n").split("\n")
    try:
        rows = list(csv.reader(lines, delimiter=sep, strict=True, skipinitialspace=layout.spaced))
    except csv.Error:
        return None
    if len(rows) != len(lines) or set(map(len, rows)) != {n}:
        return None
    columns = list(map(list, zip(*rows, strict=True)))
    # A quote that is left in a cell may be a stray one.
    return None if '"' in text and any('"' in "".join(column) for column in columns) else columns
