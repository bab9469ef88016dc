"""Make images, classes and boxes of the cells of tables with a row per box.

A row is judged as it is taken, by itself; what depends on all rows waits for `TableReader.finish`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.files import Source
from odm.formats._shared.codes import (
    BAD_FLAG,
    BAD_FRAME,
    BAD_IMAGE_SIZE,
    DUPLICATE_IMAGE,
    NO_IMAGE_NAME,
    NOT_A_NUMBER,
    NOT_FINITE,
    RELATIVE_RANGE,
    UNKNOWN_CLASS,
)
from odm.formats._shared.gather import Gather, Location, decide_kind, find_folders
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.shapes.fractions import are_far
from odm.formats._shared.tables.column_roles import FLAGS, FORMS, NO_OBJECT, simplify_name, to_edges
from odm.formats._shared.tables.csv_files import INCOMPLETE_BOX, SIZE_CONFLICT
from odm.formats._shared.tables.images import Origin, TableImages
from odm.issues import Code, Log, Trusted
from odm.names import BAD_CLASS_NAME, accept_name, refuse_class
from odm.tables import Builder, Floats, Ints, Shapes


class Columns(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The columns of a table and the role of each."""

    columns: tuple[str, ...]
    """Their names in messages."""
    roles: Mapping[str, int]
    """The column of each role in `column_roles.ROLES`, or of ``split``, that there is one for."""
    form: str = "ltrb"
    coords: str = "abs"
    """``abs`` are pixels, ``rel`` fractions of the image; ``sniff`` where the dialect has both."""
    constants: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The value of all rows for a role that has no column, by role."""
    title: str = ""
    has_ids: bool = False
    """Whether images are named by ids, so that the extensions of their pictures are added."""
    corners: tuple[int, ...] = ()
    """Columns of the numbers of a box where these are not four."""
    edges: Callable[[Floats], Floats] | None = None
    """Makes (n, 4) edges of the numbers in `corners`, NaN where these are too few."""
    lenient: bool = False
    """Whether a row without coordinates is an image without objects even if it has a class or a score, and a
    width without a height says nothing, but one that is 0 or no number is wrong."""

    def field(self, column: int) -> str:
        """How a column is called in a message; nothing for one that the file does not have."""
        names = self.columns
        return (names[column] or f"column {column + 1}") if column < len(names) else ""


MIXED_DECIMALS = Code(
    "mixed-decimal-marks",
    "error",
    "this line has a decimal {found}, but line {line_of_other} has a decimal {other}",
    "write all numbers with a decimal point",
    "Where both occur, one of them may be a thousands separator, so no number in the file is certain.",
    file=True,
)
THOUSANDS = Code(
    "doubtful-comma",
    "error",
    "the comma in {value!r} may be a decimal comma or a thousands separator",
    "write numbers with a decimal point, or use -O decimal=comma",
    "Every comma in this file is followed by three digits, and no number decides what it means.",
    file=True,
)
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_THOUSANDS = re.compile(r"\s*[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+\s*")
_NUMERIC = b"0123456789.+-eE \t"


class RowFaults:
    """The faults of the n rows of a piece of a file, and (n,) which rows are lost by them."""

    def __init__(self, n: int) -> None:
        self.lost = np.zeros(n, bool)
        self.found: list[tuple[int, int, Code | None, dict[str, Any]]] = []
        """Row, column, code and its values; without a code, `accept_name` reports an image's name."""

    def add(self, row: int, column: int, code: Code | None, /, **values: Any) -> None:
        """Note a fault by which the row is lost."""
        self.warn(row, column, code, **values)
        self.lost[row] = True

    def warn(self, row: int, column: int, code: Code | None, /, **values: Any) -> None:
        """Note a fault that leaves the row as it is."""
        self.found.append((row, column, code, values))


class Decimals:
    """Parse the numbers of one file, and note whether its decimals are written with a point or a comma."""

    def __init__(self, explicit: str | None) -> None:
        self._explicit = explicit
        self._comma: tuple[int, str] | None = None
        """Line and text of the first number with a comma; likewise of the next two."""
        self._point: tuple[int, str] | None = None
        self._doubtful: tuple[int, str] | None = None
        self._has_plain_comma = False
        """Whether there is a comma that cannot stand after thousands."""

    def parse(
        self, cells: list[str], column: int, lines: Ints, faults: RowFaults
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Parse the n cells of a column: (n,) numbers, NaN if empty or faulty, and (n,) True if empty."""
        n = len(cells)
        joined = "".join(cells)
        if not joined:
            return np.full(n, np.nan), np.ones(n, bool)
        # Commas, and the bytes that a number with a point cannot have.
        other_bytes = joined.encode("utf-8", "surrogatepass").translate(None, _NUMERIC)
        are_numeric = not other_bytes.strip(b",")
        if other_bytes:
            self._note_commas(cells, lines)
        if not are_numeric or (self._point is None and "." in joined):
            self._note_points(cells, lines)
        if are_numeric:  # so that `float` parses all at once
            texts = [cell.replace(",", ".") for cell in cells] if other_bytes else cells
            texts = [text or "nan" for text in texts] if "" in texts else texts
            try:
                values = np.fromiter(map(float, texts), np.float64, n)
            except ValueError:
                pass  # such as 1.2.3: below, cell by cell
            else:
                # With decimal=point a comma is a fault, which is found below.
                if not np.isinf(values).any() and not (other_bytes and self._explicit == "point"):
                    return values, np.isnan(values)  # NaN are the empty cells

        values = np.full(n, np.nan)
        is_blank = np.zeros(n, bool)
        for i, cell in enumerate(cells):
            text = cell.strip(" \t")
            if not text:
                is_blank[i] = True
            elif not NUMBER.fullmatch(text) or ("," in text and self._explicit == "point"):
                faults.add(i, column, NOT_FINITE if _NOT_FINITE.fullmatch(text) else NOT_A_NUMBER, value=cell)
            elif np.isfinite(value := float(text.replace(",", "."))):
                values[i] = value
            else:
                faults.add(i, column, NOT_FINITE, value=cell)
        return values, is_blank

    def _note_commas(self, cells: list[str], lines: Ints) -> None:
        """Note the first number with a decimal comma, and the first whose comma may stand after thousands.

        3,5 is surely a decimal, which ends the search; 3,500 may be either, and 3,500,000 has thousands.
        """
        for i, cell in enumerate(cells):
            if "," in cell and NUMBER.fullmatch(cell.strip(" \t")):
                if self._comma is None or lines[i] < self._comma[0]:
                    self._comma = int(lines[i]), cell
                if not _THOUSANDS.fullmatch(cell):
                    self._has_plain_comma = True
                elif self._doubtful is None:
                    self._doubtful = int(lines[i]), cell
                if self._has_plain_comma:
                    return
            elif _THOUSANDS.fullmatch(cell) and self._doubtful is None:
                self._doubtful = int(lines[i]), cell

    def _note_points(self, cells: list[str], lines: Ints) -> None:
        """Note the first number with a decimal point."""
        for i, cell in enumerate(cells):
            if "." in cell and NUMBER.fullmatch(cell.strip(" \t")):
                if self._point is None or lines[i] < self._point[0]:
                    self._point = int(lines[i]), cell
                return

    def report_marks(self, path: str, log: Log) -> None:
        """Note that commas are read as decimal marks, or report that the file has both marks."""
        if self._comma is None or self._explicit == "point":
            return
        if self._point is not None:  # the mark that comes first, and the other, which is reported
            (other_line, _, first_mark), (line, _, second_mark) = sorted(
                [(*self._point, "point"), (*self._comma, "comma")], key=lambda mark: mark[0]
            )
            log.report(
                MIXED_DECIMALS, path, line=line, found=second_mark, other=first_mark, line_of_other=other_line
            )
        elif self._doubtful is not None and not self._has_plain_comma and self._explicit is None:
            line, value = self._doubtful
            log.report(THOUSANDS, path, line=line, value=value)
        else:
            log.note(f"{path}: numbers have decimal commas, which are read as decimal points")


class BoxRows(msgspec.Struct, eq=False):
    """Boxes as the rows of a file have them, before coordinates are converted and the kind is decided."""

    layout: Columns
    path: str
    file: int
    image: Ints
    """(n,) numbers of images in `TableImages`, which are no rows of the dataset yet."""
    category: Ints
    numbers: Floats
    """(n, 4) as `Columns.form` says, or (n, k) of which `Columns.edges` makes edges."""
    score: Floats
    flags: NDArray[np.uint16]
    line: Ints
    track: NDArray[Any] | None
    """(n,) ids of tracks, None for none."""


class _ClassRows(dict[str, int]):
    """Category rows by the text of a cell; -1 if the cell is empty, ``-2 - i`` if it has ``faults[i]``."""

    def __init__(self, builder: Builder, listed: tuple[str, Mapping[str, str]] | None) -> None:
        self.faults: list[tuple[Code, dict[str, Any]]] = []
        self._builder, self._listed = builder, listed

    def __missing__(self, cell: str) -> int:
        """Add the class that a cell names, or a fault, and remember the number that stands for the cell."""
        path, names = self._listed or ("", {})
        if not cell.strip():
            row = -1
        elif (reason := refuse_class(cell)) is not None:
            row = self._fault(BAD_CLASS_NAME, value=cell, reason=reason)
        elif self._listed is not None and cell not in names:
            row = self._fault(UNKNOWN_CLASS, value=cell, n=len(names), where=path)
        else:
            row = self._builder.category(names.get(cell, cell))
        self[cell] = row
        return row

    def _fault(self, code: Code, **values: Any) -> int:
        """Add a fault, and return the number ``-2 - i`` that stands for it."""
        self.faults.append((code, values))
        return -1 - len(self.faults)  # i is len(self.faults) - 1


class TableReader:
    """Collects the rows of all tables of a source, then decides what needs all of them.

    Parameters
    ----------
    listed
        The file that lists the classes, and the name that each text of a cell means.
    folders
        Where pictures are; without it the source itself, if it holds any.
    """

    def __init__(
        self,
        source: Source,
        builder: Builder,
        log: Log,
        options: ImageOptions,
        *,
        listed: tuple[str, Mapping[str, str]] | None = None,
        folders: tuple[str, ...] | None = None,
    ) -> None:
        self.source, self.builder, self.log = source, builder, log
        folders = find_folders(source) if folders is None else folders
        self.gather = Gather(source, builder, log, options, folders, borrow_sizes="needed")
        self.images = TableImages()
        self.classes = _ClassRows(builder, listed)
        self.boxes: list[BoxRows] = []

    def add(self, path: str, layout: Columns, rows: Sequence[tuple[int, Sequence[str]]]) -> None:
        """Take all rows of a file, each with its line; what is wrong with them is reported."""
        cells = [row for _, row in rows]
        columns = list(map(list, zip(*cells, strict=True))) if rows else [[] for _ in layout.columns]
        TableRows(self, layout, path, decimal="point").take(
            columns, np.array([line for line, _ in rows], np.int32)
        )

    def finish(self) -> int:
        """Add the images and boxes to the builder; return how many images have a size that no row has."""
        images, builder, boxes = self.images, self.builder, self.boxes
        # Images that need a size, as the coordinates of their boxes are fractions of it.
        needed = np.zeros(len(images.rows), bool)
        for box_rows in boxes:
            if box_rows.layout.coords == "rel":
                needed[box_rows.image] = True
        has_pixels = any(box_rows.layout.coords != "rel" for box_rows in boxes)
        n_sizes = images.add_to(self.gather, needed, pixels=has_pixels)
        row_of_image = images.find_rows()
        if images.frames:
            video, frame = np.full((2, builder.n_images), -1, np.int32)
            for image, (name, frame_number) in images.frames.items():
                if images.is_usable[image]:
                    video[row_of_image[image]], frame[row_of_image[image]] = builder.video(name), frame_number
            builder.set_frames(0, video, frame)  # from image 0 on
        n_scored = sum(int(np.count_nonzero(~np.isnan(box_rows.score))) for box_rows in boxes)
        decide_kind(builder, n_scored, sum(len(box_rows.line) for box_rows in boxes))
        for box_rows in boxes:
            self._add_boxes(box_rows, row_of_image)
        self.gather.finish()
        return n_sizes

    def find_shapes(self, box_rows: BoxRows) -> Shapes | None:
        """The shapes of boxes that a file has in other places than their rows; None if there are none."""

    def _add_boxes(self, box_rows: BoxRows, row_of_image: NDArray[Any]) -> None:
        """Add boxes to the builder, without those of the other kind.

        Relative ones that are far outside, or whose image has no known size, are skipped too.
        """
        layout, gather = box_rows.layout, self.gather
        column = layout.roles.get("score")
        field = "score" if column is None else layout.field(column)
        is_valid = gather.find_of_kind(
            box_rows.score, gather.locate_rows(box_rows.file, box_rows.line), field=field
        )
        values = box_rows.numbers if layout.edges is None else layout.edges(box_rows.numbers)
        if layout.coords == "rel":
            is_far = is_valid & are_far(values)
            for i in np.flatnonzero(is_far).tolist():
                self._report_far(box_rows, i)
            sizes = self.images.sizes[box_rows.image].astype(np.float64)
            is_valid &= ~is_far & (sizes > 0).all(axis=1)
            values = values * np.tile(sizes, 2)
        rows: Any = slice(None) if is_valid.all() else np.flatnonzero(is_valid)
        self.builder.skipped += int(np.count_nonzero(~is_valid))
        xyxy, wh = to_edges(values[rows], layout.form)
        image = row_of_image[box_rows.image[rows]]
        ids = None if box_rows.track is None else box_rows.track[rows]
        shapes = self.find_shapes(box_rows)
        gather.add(
            image=image,
            category=box_rows.category[rows],
            xyxy=xyxy,
            wh=wh,
            score=box_rows.score[rows],
            flags=box_rows.flags[rows],
            file=box_rows.file,
            line=box_rows.line[rows],
            track=None if ids is None else self.builder.tracks_of_images(image, ids),
            **({} if shapes is None else {"shapes": shapes if is_valid.all() else shapes.take(rows)}),
        )

    def _report_far(self, box_rows: BoxRows, row: int) -> None:
        """Report the first number of a box that is far outside 0..1."""
        numbers = box_rows.numbers[row]
        # Each number is a row for `are_far`, for which NaN, an empty cell, is far too.
        k = int(np.argmax(are_far(numbers[:, None]) & ~np.isnan(numbers)))
        field = box_rows.layout.field(_find_box_columns(box_rows.layout)[k])
        about: dict[str, Any] = {"line": int(box_rows.line[row]), "field": field, "value": float(numbers[k])}
        self.log.report(RELATIVE_RANGE, box_rows.path, **about)


def _find_box_columns(layout: Columns) -> Sequence[int]:
    """Return the columns of the numbers of a box."""
    return layout.corners or [layout.roles[role] for role in FORMS[layout.form]]


class TableRows:
    """The rows of one file, from which boxes are made piece by piece.

    `decimal` is the mark that the user sets, ``point`` or ``comma``; None finds it.
    """

    def __init__(self, table: TableReader, layout: Columns, path: str, decimal: str | None) -> None:
        self._table, self._layout, self._roles, self._path = table, layout, layout.roles, path
        self.decimals = Decimals(decimal)
        column = layout.roles.get("image")
        field = "" if column is None else layout.field(column)
        self._origin = Origin(table.builder.file(path), path, field, layout.has_ids)
        self._columns: list[list[str]] = []
        self._lines = np.zeros(0, np.int32)
        self._faults = RowFaults(0)

    def take(self, columns: list[list[str]], lines: Ints) -> None:
        """Make boxes of a piece of n rows: `columns` are its cells by column, `lines` (n,) line numbers."""
        n, layout, roles = len(lines), self._layout, self._roles
        self._columns, self._lines = columns, lines
        faults = self._faults = RowFaults(n)

        # The values of each row, and the faults that they have by themselves.
        numbers, is_blank = self._parse_boxes()
        no_box: NDArray[np.bool_] = np.logical_and.reduce(is_blank, axis=0)
        self._clear_classes(no_box)
        score = np.full(n, np.nan)
        if "score" in roles:
            score, _ = self._parse_numbers(roles["score"])
        if layout.lenient:
            score[no_box] = np.nan  # the row is an image without objects
        images, is_used = self._find_images()
        classes = self._table.classes
        if "class" in roles:  # looking a cell up adds its class
            category = np.fromiter(map(classes.__getitem__, columns[roles["class"]]), np.int32, n)
        else:
            category = np.full(n, classes[layout.constants["class"]], np.int32)
        self._find_incomplete(numbers, is_blank, category, score, is_used)
        flags = self._parse_flags()
        track = _parse_track_ids(columns[roles["track"]]) if "track" in roles else None

        # What the rows say of their images.
        if "width" in roles or "height" in roles:
            self._take_sizes(images, is_used)
        if "video" in roles:
            self._take_frames(images, is_used)
        if "split" in roles or "split" in layout.constants:
            self._take_splits(images)
        self._report()

        # Rows that are lost count as skipped if they were more than an image; the others with a box are kept.
        has_content = ~no_box | ~np.isnan(score)
        if "class" in roles:
            has_content |= category != -1
        self._table.builder.skipped += int(np.count_nonzero(faults.lost & has_content))
        is_kept = ~faults.lost & ~no_box
        if not is_kept.any():
            return
        rows = slice(None) if is_kept.all() else np.nonzero(is_kept)[0]
        self._table.boxes.append(
            BoxRows(
                layout,
                self._path,
                self._origin.file,
                images[rows],
                category[rows],
                numbers[rows],
                score[rows],
                flags[rows],
                lines[rows],
                None if track is None else track[rows],
            )
        )

    def _parse_boxes(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return (n, k) the k numbers of each box, and (k, n) True where a cell is empty."""
        n, box_columns = len(self._lines), _find_box_columns(self._layout)
        numbers, is_blank = np.empty((n, len(box_columns))), np.zeros((len(box_columns), n), bool)
        for k, column in enumerate(box_columns):
            numbers[:, k], is_blank[k] = self._parse_numbers(column)
        return numbers, is_blank

    def _clear_classes(self, no_box: NDArray[np.bool_]) -> None:
        """Empty the class cells of rows without a box that say in words that nothing was found.

        In a lenient layout all of them are emptied. `no_box` is (n,); the column is replaced by a copy.
        """
        if "class" not in self._roles or not no_box.any():
            return
        column = self._roles["class"]
        cells = self._columns[column] = list(self._columns[column])
        for i in np.flatnonzero(no_box).tolist():
            if self._layout.lenient or simplify_name(cells[i]) in NO_OBJECT:
                cells[i] = ""

    def _parse_numbers(self, column: int) -> tuple[Floats, NDArray[np.bool_]]:
        """Parse a column of the piece; see `Decimals.parse`."""
        return self.decimals.parse(self._columns[column], column, self._lines, self._faults)

    def _report(self) -> None:
        """Report the faults of the piece, sorted by row and column; without a code, that of an image name."""
        log, layout, path = self._table.log, self._layout, self._path
        for row, column, code, values in sorted(self._faults.found, key=lambda fault: fault[:2]):
            line, field = int(self._lines[row]), layout.field(column)
            if code is None:
                accept_name(self._columns[column][row], log, path, line=line, field=field)
            else:
                log.report(code, path, line=line, field=field, **values)

    def _find_images(self) -> tuple[Ints, NDArray[np.bool_]]:
        """Return (n,) image numbers, and (n,) True for rows with a filled cell; add faults for bad names."""
        n, images, faults = len(self._lines), self._table.images, self._faults
        constant = self._layout.constants.get("image")
        column = self._roles.get("image", 0)
        cells = self._columns[column] if constant is None else [constant] * n
        image_numbers, warned_rows = images.take(cells, self._lines, self._origin)
        for row in warned_rows:
            faults.warn(row, column, None)  # without a code: `accept_name` says what is wrong with the name
        is_used = np.ones(n, bool)
        for i in np.nonzero(~images.is_usable[image_numbers])[0].tolist():
            if cells[i].strip():
                faults.add(i, column, None)
            elif any(c[i].strip() for c in self._columns):
                faults.add(i, column, NO_IMAGE_NAME)
            else:
                is_used[i] = False
        return image_numbers, is_used

    def _find_incomplete(
        self,
        numbers: Floats,
        is_blank: NDArray[np.bool_],
        category: Ints,
        score: Floats,
        is_used: NDArray[np.bool_],
    ) -> None:
        """Add faults for incomplete boxes and boxes without a class.

        `numbers` (n, k) are the k numbers of each box, `is_blank` (k, n) is True where a cell is empty, and
        `is_used` (n,) where any cell of a row is filled. `category` (n,) is -1 for none, below for a fault. A
        class or score without any number is an incomplete box.
        """
        layout, faults = self._layout, self._faults
        no_box = is_blank.all(axis=0)
        is_incomplete = is_blank.any(axis=0) & ~no_box
        if layout.edges is not None:
            # A faulty cell is NaN too, and is noted already.
            is_incomplete = np.isnan(layout.edges(numbers)).any(axis=1) & ~no_box & ~faults.lost
        has_content = ~np.isnan(score)
        if "class" in self._roles:  # the same class for all rows says nothing about one
            has_content |= category != -1
        for i in np.nonzero(is_incomplete | (no_box & is_used & has_content))[0].tolist():
            missing = [column for k, column in enumerate(_find_box_columns(layout)) if is_blank[k, i]]
            faults.add(i, missing[0], INCOMPLETE_BOX, missing=", ".join(map(layout.field, missing)))
        lacks_class = (category < 0) & ~no_box | (category < -1)
        for i in np.nonzero(lacks_class)[0].tolist():
            code, values = BAD_CLASS_NAME, {"value": "", "reason": "it is empty"}
            if category[i] < -1:
                code, values = self._table.classes.faults[-2 - category[i]]  # see `_ClassRows`
            faults.add(i, self._roles.get("class", 0), code, **values)

    def _parse_flags(self) -> NDArray[np.uint16]:
        """Return (n,) uint16 the flags of the rows, and add faults for cells that are neither 0 nor 1."""
        n = len(self._lines)
        flags = np.zeros(n, np.uint16)
        unknown = ("-1", "-1.0") if self._layout.title.startswith("Open Images") else ()  # read as 0
        for name in [name for name in FLAGS if name in self._roles]:
            cells = self._columns[self._roles[name]]
            value_of_cell = {}
            for cell in set(cells):
                text = cell.strip(" \t").lower()
                value_of_cell[cell] = 1 if text in ("1", "1.0", "true") else -1
                if text in ("", "0", "0.0", "false", *unknown):
                    value_of_cell[cell] = 0
            if not any(value_of_cell.values()):
                continue
            column = np.fromiter(map(value_of_cell.__getitem__, cells), np.int8, n)
            for i in np.nonzero(column < 0)[0].tolist():
                self._faults.add(i, self._roles[name], BAD_FLAG, value=cells[i], expected="0 or 1")
            flags[column > 0] |= np.uint16(FLAGS[name])
        return flags

    def _take_frames(self, images: Ints, is_used: NDArray[np.bool_]) -> None:
        """Take the video and frame of each image from its first filled row; -1 for an empty frame.

        Adds a fault for a frame that is no whole number of at most nine digits.
        """
        videos, column = self._columns[self._roles["video"]], self._roles.get("frame")
        image, first_positions = np.unique(images[is_used], return_index=True)
        first_rows = np.flatnonzero(is_used)[first_positions]
        for i, row in zip(image.tolist(), first_rows.tolist(), strict=True):
            cell = "" if column is None else self._columns[column][row]
            text = cell.strip()
            frame = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
            if text and frame < 0 and column is not None:
                self._faults.add(row, column, BAD_FRAME, value=cell, among=", from 0")
            elif videos[row].strip():
                self._table.images.frames.setdefault(i, (videos[row], frame))

    def _take_splits(self, images: Ints) -> None:
        """Take the split of each image from its first row; rows of an image that has another one are lost."""
        table, faults, column = self._table.images, self._faults, self._roles.get("image", 0)
        constant = self._layout.constants.get("split", "")
        distinct_images, first_rows = np.unique(images, return_index=True)
        for image, row in zip(distinct_images.tolist(), first_rows.tolist(), strict=True):
            split = self._columns[self._roles["split"]][row] if "split" in self._roles else constant
            if table.splits.setdefault(image, split) != split:
                first_location = Trusted(str(Location(table.origin[image].path, line=table.line[image])))
                faults.add(
                    row, column, DUPLICATE_IMAGE, value=self._columns[column][row], first=first_location
                )
                faults.lost |= images == image

    def _take_sizes(self, images: Ints, is_used: NDArray[np.bool_]) -> None:
        """Take the image sizes of the rows; add faults for wrong, half or differing ones.

        `images` (n,) is the image of each row; sizes count only where `is_used`. In a lenient layout a side
        that stands alone is no fault, but 0 is; in others a size with a 0 is noted in ``zeros``.
        """
        n, roles, faults, is_lenient = len(images), self._roles, self._faults, self._layout.lenient
        table = self._table.images
        size, lacks_side = np.zeros((n, 2), np.int64), np.ones((n, 2), bool)
        for k, role in enumerate(("width", "height")):
            if role not in roles:
                continue
            cells = self._columns[roles[role]]
            # What is no number is a fault of the parser; in a lenient layout it is a wrong size instead, and
            # the parser's faults are dropped.
            side_faults = RowFaults(n) if is_lenient else faults
            values, is_empty = self.decimals.parse(cells, roles[role], self._lines, side_faults)
            # 0 is wrong in a lenient layout, and an unknown side in others. A side is settled if it is empty
            # or its fault is noted already.
            is_valid = (values >= int(is_lenient)) & (values < 2**31) & (values == np.rint(values))
            is_settled = is_empty if is_lenient else np.isnan(values)
            for i in np.nonzero(~is_valid & ~is_settled)[0].tolist():
                faults.add(i, roles[role], BAD_IMAGE_SIZE, value=cells[i])
            size[:, k], lacks_side[:, k] = np.where(is_valid, values, 0), ~is_valid
        has_one_side = (lacks_side[:, 0] != lacks_side[:, 1]) & ~faults.lost & is_used
        for i in np.nonzero(has_one_side)[0].tolist() if not is_lenient else ():
            lacking, role_with_value = ("width", "height") if lacks_side[i, 0] else ("height", "width")
            faults.add(i, roles[lacking if lacking in roles else role_with_value], BAD_IMAGE_SIZE, value="")
        is_stated = ~lacks_side.any(axis=1) & is_used
        is_zero = is_stated & (size == 0).any(axis=1)
        table.zeros.update(images[is_zero].tolist())
        rows = np.nonzero(is_stated & ~is_zero)[0]
        differs = table.settle(images[rows], size[rows])
        for i in rows[differs].tolist():
            w, h = table.sizes[images[i]].tolist()
            name = self._columns[roles["image"]][i] if "image" in roles else ""
            row_size, image_size = f"{size[i, 0]}x{size[i, 1]}", f"{w}x{h}"
            faults.warn(i, roles.get("width", 0), SIZE_CONFLICT, value=name, found=row_size, other=image_size)


def _parse_track_ids(cells: list[str]) -> NDArray[Any] | None:
    """Return (n,) track ids: int for a plain number, else text, None for an empty cell or -1.

    Returns None if no row has one.
    """
    id_of_cell: dict[str, Any] = {}
    for distinct_cell in set(cells):
        text = distinct_cell.strip()
        # A number that 64 bits hold, without zeros before it, which would be lost.
        is_number = text.isascii() and text.isdigit() and len(text) < 19 and (text == "0" or text[0] != "0")
        id_of_cell[distinct_cell] = int(text) if is_number else text
        if text in ("", "-1"):
            id_of_cell[distinct_cell] = None
    if not any(value is not None for value in id_of_cell.values()):
        return None
    ids = np.empty(len(cells), object)
    ids[:] = [id_of_cell[cell] for cell in cells]
    return ids
