"""Read and write formats with one text file per image and columns of fixed meaning.

Such a format brings a `Grammar`: a fast function that takes the columns of all rows of a chunk apart at once,
and one that reports what is wrong with a single row. Finding the files, the pictures and the names, the
scores and the writing are here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.codes import SCORE_MISSING, SCORE_UNEXPECTED
from odm.files import Output, Source
from odm.formats._contract import SURE, Sniff
from odm.formats._shared.class_lists import UNWRITABLE, has_space
from odm.formats._shared.codes import BAD_FLAG, OUTLINES, WRONG_COUNT
from odm.formats._shared.gather import Gather, Location, add_extension, decide_kind, find_folders, select_rows
from odm.formats._shared.image_names import name_images, note_folders
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.text.label_files import list_files, report_others
from odm.formats._shared.text.tokens import (
    EMPTY,
    NON_FINITE,
    NUMBER,
    Cell,
    Chunk,
    Rows,
    check_number,
    clean_text,
    describe_lines,
    explain_rows,
    format_pages,
    read_chunks,
)
from odm.issues import Code, Log, Trusted, first_few, plural, printable
from odm.names import BAD_CLASS_NAME, refuse_class, stem
from odm.tables import Builder, Dataset, Flag, Floats, Ints, Longs, ShapeKind, Shapes, distinct


class Shape(msgspec.Struct, frozen=True, eq=False):
    """The positions in a row of its numbers, its score and its name."""

    numbers: Sequence[int]
    """The positions of the values of the first columns of the grammar, in the order of the columns."""
    score: int = -1
    name: tuple[int, int] = (0, 0)
    """The first word of the name, and how many there are; none where the rows have no name."""


KindOf = Callable[[int], str]
"""Return the kind of the value at a position of a row: ``number``, ``word``, or "" if it is empty."""


class Grammar(msgspec.Struct, frozen=True, eq=False):
    """The rows of a format: how their values are divided into numbers, score and name."""

    shape: Callable[[int, KindOf], Shape | None]
    """Return the shape of a row from its number of values, and their kinds; None for a wrong number."""
    fields: tuple[str, ...]
    """The columns, as messages call them."""
    expected: str
    """The values of a row, in words."""
    score: str = "score"
    """What messages call the score."""
    named: str = "class"
    """What they call the name; nothing where a row with a wrong name has the wrong number of values."""
    label: bytes = b"object"
    """The name of rows that have none."""
    default: float = 0.0
    """The value of columns that a row lacks."""
    flags: tuple[str, ...] = ()
    """Columns that are 0 or 1."""
    headers: tuple[bytes, ...] = ()
    """Beginnings of lines that are no rows."""
    marks: Mapping[bytes, bytes] = msgspec.field(default_factory=dict)
    """Words after the first that stand for numbers; `prepare` has replaced them."""
    prepare: Callable[[Chunk], None] | None = None
    more: tuple[Callable[[Chunk, NDArray[Any]], NDArray[Any]], int] | None = None
    """A function that returns (n, k) further columns for (n,) rows of a chunk, and the number k."""
    sep: str | None = None
    folders: re.Pattern[str] = re.compile("labels", re.IGNORECASE)
    """Folders that hold the labels in the usual layout."""
    prefixes: tuple[str, ...] = ()
    """What precedes the image name in the names of files; removed where all of them have the same."""
    name: Callable[[bytes], str | None] | None = None
    """The text of a name, None if it cannot be one; `parse_class_name` unless given."""
    exact: bool = False
    """Whether all blanks within a name belong to it; else several are one."""
    last: tuple[bytes, int] = (b"", 0)
    """A word that may end a row, in rows of at least so many values with it."""
    explain: Callable[[list[Cell], Shape | None, str, int, Log], bool] | None = None
    """Reports what only this format can say of the values or name of a faulty row; True if it did."""


def find_label_files(source: Source, grammar: Grammar) -> list[str]:
    """The files that hold labels: those in a folder of the usual name if there is one, else all."""
    if not source.is_dir:
        return [""]  # the source itself
    labels = list_files(source).labels
    return [f for f in labels if any(map(grammar.folders.fullmatch, f.split("/")[:-1]))] or labels


class Labels:
    """All valid rows of some label files, as numbers, scores and names; faulty rows are reported."""

    def __init__(self, source: Source, files: Sequence[str], grammar: Grammar, log: Log) -> None:
        self.source, self.files, self.log, self._grammar = source, files, log, grammar
        self.texts: list[str] = []
        """The distinct names."""
        self.lost = 0
        """Rows that are faulty, whatever they mean."""
        self._known: dict[bytes, int] = {}
        """The position in `texts` of each name so far, -1 for one that is not valid."""
        width = len(grammar.fields) + (grammar.more[1] if grammar.more else 0)
        # Name, values, score, ended, file and line of the rows of each chunk. The first part has no rows, so
        # that there is something to concatenate without any chunk.
        no_rows = np.zeros(0, np.int32)
        parts = [(no_rows, np.zeros((0, width)), np.zeros(0), np.zeros(0, bool), no_rows, no_rows)]
        for chunk in read_chunks(source, files, log, sep=grammar.sep):
            name, *columns = self._split(chunk)
            rows_to_keep = np.flatnonzero(name >= 0)
            parts.append(tuple(column[rows_to_keep] for column in (name, *columns, chunk.file, chunk.line)))  # type: ignore[arg-type]
            faulty = np.flatnonzero(name == -1)
            self.lost += len(faulty)
            explain_rows(chunk, faulty, source, files, log, functools.partial(_explain, grammar))
        self.name, self.values, self.score, self.ended, file, line = map(
            np.concatenate, zip(*parts, strict=True)
        )
        """(n,) row in `texts`; (n, k) columns; (n,) scores, NaN where there is none; (n,) whether the word
        that may end a row does."""
        self.rows = Rows(source, files, file, line, grammar.sep)

    def attach(self, gather: Gather) -> Labels:
        """Attach the rows to a `Gather`, which receives what they mean; faulty rows count as skipped."""
        self.gather, self.builder, self.log = gather, gather.builder, gather.log
        self.builder.skipped += self.lost
        return self

    def __len__(self) -> int:
        return len(self.name)

    def keep(self, is_box: NDArray[np.bool_]) -> None:
        """Leave out the rows where `is_box`, (n,), is False."""
        columns = (self.name, self.values, self.score, self.ended, self.rows.file, self.rows.line)
        self.name, self.values, self.score, self.ended, file, line = (column[is_box] for column in columns)
        self.rows = replace(self.rows, file=file, line=line)

    def _split(self, chunk: Chunk) -> tuple[Ints, Floats, Floats, NDArray[np.bool_]]:
        """Split the n rows of a chunk, and add the names that are new to `texts`.

        Returns (n,) name numbers (-1 faulty, -2 no row), (n, k) columns, (n,) scores, and (n,) whether a word
        ends the row.
        """
        grammar, n, n_columns = self._grammar, len(chunk), len(self._grammar.fields)
        name, score, is_sound = np.full(n, -1, np.int32), np.full(n, np.nan), np.zeros(n, bool)
        values = np.full((n, n_columns), grammar.default)
        if grammar.prepare is not None:
            grammar.prepare(chunk)
        last_word, least_count = grammar.last
        is_ended = chunk.ends_with(last_word) & (chunk.count >= least_count)

        names_of_rows: list[tuple[NDArray[Any], list[bytes]]] = []
        # The last word, which is no value of a row, does not count.
        for rows, shape in _group_by_shape(chunk, chunk.count - is_ended, grammar):
            table, scores_of_rows, is_sound[rows] = _parse_table(chunk, rows, shape)
            values[rows, : table.shape[1]] = table
            if scores_of_rows is not None:
                score[rows] = scores_of_rows
            names_of_rows.append((rows, _pick_names(chunk, rows, shape, grammar)))
        if names_of_rows:
            rows = np.concatenate([rows for rows, _ in names_of_rows])
            name[rows] = self._number_names(
                chunk, rows, [text for _, names in names_of_rows for text in names]
            )

        for flag in grammar.flags:
            is_sound &= np.isin(values[:, grammar.fields.index(flag)], (0, 1))
        name[~is_sound] = -1
        if grammar.more is not None:
            is_sound &= name >= 0  # a row with a wrong name is lost anyway
            parse_more, n_more = grammar.more
            values = np.concatenate([values, np.zeros((n, n_more))], axis=1)
            values[is_sound, n_columns:] = parse_more(chunk, np.flatnonzero(is_sound))
        if grammar.headers:
            first_tokens = chunk.pick(chunk.first)
            is_header = np.array([token.startswith(grammar.headers) for token in first_tokens], bool)
            is_joined = is_header & (chunk.count >= n_columns)  # to the row below, whose line break was lost
            name[is_header] = -2
            name[is_joined] = -1
        return name, values, score, is_ended

    def _number_names(self, chunk: Chunk, rows: NDArray[Any], names: list[bytes]) -> list[int]:
        """Return the number in `texts` of the name of each row, -1 for one that is not valid.

        Names that are new are checked, once each, and added in the order of the rows.
        """
        names_by_row = names
        if (rows[1:] < rows[:-1]).any():  # of several shapes
            names_by_row = [names[i] for i in np.argsort(rows).tolist()]
        for text in dict.fromkeys(names_by_row):
            if text not in self._known:
                class_name = (self._grammar.name or parse_class_name)(chunk.restore(text))
                self._known[text] = -1 if class_name is None else len(self.texts)
                self.texts += [] if class_name is None else [class_name]
        return list(map(self._known.__getitem__, names))

    # -- what the rows mean

    def settle_kind(self) -> NDArray[np.bool_]:
        """Decide between ground truth and detections by the majority of rows, and report the other rows.

        Returns (n,) True for the rows of the majority.
        """
        has_score = ~np.isnan(self.score)
        is_det = decide_kind(self.builder, int(has_score.sum()), len(has_score))
        is_valid: NDArray[np.bool_] = has_score if is_det else ~has_score
        self.report(SCORE_MISSING if is_det else SCORE_UNEXPECTED, ~is_valid, position=-1, field="score")
        return is_valid

    def report(
        self,
        code: Code,
        is_wrong: NDArray[np.bool_],
        position: int,
        field: str,
        expected: str = "",
        **more: Any,
    ) -> None:
        """Report rows where `is_wrong`, (n,), with the value at `position`, from the right if negative."""

        def describe(cells: list[Cell]) -> dict[str, Any]:
            column, value = cells[position] if -len(cells) <= position < len(cells) else (0, b"")
            return {"column": column, "field": field, "value": value, "expected": Trusted(expected), **more}

        self.rows.report(self.log, code, np.flatnonzero(is_wrong), describe)

    def count(self, name: str, mask: NDArray[np.bool_]) -> None:
        """Count the rows of `mask` as having a value, called `name`, that is not read."""
        if n := int(np.count_nonzero(mask)):
            self.builder.extras[name] += n

    def find_classes(self, is_valid: NDArray[np.bool_]) -> Ints:
        """Return (n,) the category row of each row by its name, -1 for the names of no valid row.

        The classes of valid rows are added in the order of their first rows.
        """
        category_of_name = np.full(len(self.texts), -1, np.int32)
        for i in dict.fromkeys(self.name[is_valid].tolist()):
            category_of_name[i] = self.builder.category(self.texts[i])
        category_rows: Ints = category_of_name[self.name]
        return category_rows

    def find_numbered(
        self,
        class_numbers: Floats,
        is_valid: NDArray[np.bool_],
        names: Sequence[str] | None,
        *,
        in_order: bool,
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """Look up the class of each row by its (n,) `class_numbers` in `names`.

        Returns (n,) category rows, -1 for none, and (n,) True where the number is in the list. With
        `in_order` all classes but the first, which stands for none, are added in the order of the list; else
        only the classes of valid rows, in the order of these. Without `names` no row has a class.
        """
        names = names or ()
        has_class = (
            (class_numbers >= 0) & (class_numbers < len(names)) & (class_numbers == np.rint(class_numbers))
        )
        for name in names[1:] if in_order else ():
            self.builder.category(name)
        category_of_number = np.full(len(names) + 1, -1, np.int32)  # the last is for any other number
        used_numbers = class_numbers[is_valid & has_class].astype(np.int64)
        _, first_positions = np.unique(used_numbers, return_index=True)
        for i in used_numbers[np.sort(first_positions)].tolist():
            category_of_number[i] = self.builder.category(names[i])
        return category_of_number[np.where(has_class, class_numbers, len(names)).astype(np.int64)], has_class

    def find_upright(
        self, is_valid: NDArray[np.bool_], *, oriented: bool = False
    ) -> tuple[Floats, Shapes | None]:
        """Return (n, 4) edges around the four corners (in any order) at the start of rows, and shapes.

        The shapes are oriented boxes. They are None if shapes are not wanted, or if all boxes are upright and
        the format does not call its boxes `oriented`. If shapes are not wanted, valid rows with a rotated box
        are counted as unread, and reported together at the first.
        """
        points = self.values[:, :8].reshape(-1, 4, 2)  # (n, corners, x and y)
        low, high = (f(points, axis=1) if len(points) else points[:, 0] for f in (np.min, np.max))
        at_edges = ((points == low[:, None]) | (points == high[:, None])).reshape(-1, 8)
        # The corners of an upright box: each at two edges, and those opposite each other (0 and 2, 1 and 3)
        # at no common one, unless the box has no width or height.
        differ_from_opposite = ((points[:, :2] != points[:, 2:]) | (low == high)[:, None]).reshape(-1, 4)
        is_turned = is_valid & ~np.logical_and.reduce(
            np.concatenate([at_edges, differ_from_opposite], axis=1), axis=1
        )
        edges, n_turned = np.concatenate([low, high], axis=1), int(is_turned.sum())
        if self.builder.wants:
            n_corners = np.full(len(points), 4)
            shapes = Shapes.of_outlines(points.reshape(-1, 2), n_corners, ShapeKind.ORIENTED)
            return edges, shapes if n_turned or oriented else None
        if n_turned:
            self.count("rotation", is_turned)
            values = {"n": n_turned, "total": int(is_valid.sum()), "what": "rotated boxes"}
            self.rows.report(self.log, OUTLINES, np.flatnonzero(is_turned)[:1], lambda _: values)
        return edges, None

    def add_images(self, needed: NDArray[np.bool_] | None = None) -> tuple[Ints, Ints]:
        """Add an image for each of n files.

        Returns (n,) image rows, -1 if refused, and (n,) file numbers of the builder. `needed`, (n,), is True
        for files whose images need a size.
        """
        source, gather = self.source, self.gather
        rows = np.full(len(self.files), -1, np.int32)
        file_numbers = np.array([self.builder.file(source.full(f)) for f in self.files], np.int32)
        prefix = find_common_prefix(source, self.files, self._grammar)
        needs_size = np.zeros(len(rows), bool) if needed is None else needed
        places = name_images(source, self.files, gather.pictures, prefix)
        for i, (image_place, file_number, is_needed) in enumerate(
            zip(places, file_numbers.tolist(), needs_size.tolist(), strict=True)
        ):
            location = Location(source.full(self.files[i]))
            picture = gather.find_picture(image_place.key, location, image_place.picture)
            name = add_extension(image_place.key, picture)
            row = gather.image(name, location, picture=picture, needed=is_needed, file=file_number)
            rows[i] = -1 if row is None else row
        return rows, file_numbers

    def add(
        self,
        is_valid: NDArray[np.bool_],
        category: Ints,
        xyxy: Floats,
        *,
        images: tuple[Ints, Ints] | None = None,
        score: Floats | None = None,
        **more: Any,
    ) -> None:
        """Add the boxes of the valid rows and finish the `Gather`; no boxes may follow.

        The images are added too, unless `images` has the result of `add_images`. `more` are further columns
        of `Builder.boxes`.
        """
        file = self.rows.file
        # (files,) image and file numbers become (n,) columns of the rows; without rows both are empty.
        image, file_number = (column[file] if len(file) else file for column in images or self.add_images())
        score = (self.score if score is None else score) if self.builder.kind == "det" else None
        self.add_rows(
            is_valid, image=image, category=category, xyxy=xyxy, file=file_number, score=score, **more
        )
        self.gather.finish()

    def add_rows(self, is_valid: NDArray[np.bool_], *, image: NDArray[Any], **columns: Any) -> None:
        """Add the boxes of valid rows with an image, with columns of `Builder.boxes`; skip other rows."""
        is_valid = is_valid & (image >= 0)
        self.builder.skipped += len(is_valid) - int(is_valid.sum())
        columns |= {"image": image, "line": self.rows.line}
        self.gather.add(**{key: select_rows(column, is_valid) for key, column in columns.items()})


def _group_by_shape(chunk: Chunk, counts: Longs, grammar: Grammar) -> Iterator[tuple[NDArray[Any], Shape]]:
    """Group the rows of a chunk by their `Shape`, which depends on the number of values.

    If a grammar also asks whether a value is a number, a word or empty, rows are divided by that first.
    """
    for count in distinct(counts).tolist():
        kind_of_position: dict[int, str] = {}
        pending = [(np.flatnonzero(counts == count), kind_of_position)]
        while pending:
            rows, kind_of_position = pending.pop()
            try:
                shape = grammar.shape(count, kind_of_position.__getitem__)
            except KeyError as e:  # the grammar asks for a kind that is not known yet: divide the rows by it
                position = int(e.args[0])
                tokens = chunk.first[rows] + position
                _, not_numbers = chunk.parse_numbers(tokens)
                kinds = np.zeros(len(rows), np.int8)  # 0 for a number, 1 for an empty value, 2 for a word
                kinds[not_numbers] = [1 if token == EMPTY else 2 for token in chunk.pick(tokens[not_numbers])]
                pending += [
                    (rows[kinds == i], {**kind_of_position, position: kind})
                    for i, kind in enumerate(("number", "", "word"))
                    if (kinds == i).any()
                ]
                continue
            if shape is not None:
                yield rows, shape


def _parse_table(
    chunk: Chunk, rows: NDArray[Any], shape: Shape
) -> tuple[Floats, Floats | None, NDArray[np.bool_]]:
    """Parse the numbers of n rows of one shape, with all tokens at once.

    Returns (n, k) columns, (n,) scores, None if the shape has none, and (n,) True where all are finite.
    """
    positions = np.array([*shape.numbers, *([shape.score] if shape.score >= 0 else ())])
    order = np.argsort(positions)  # tokens are looked up in rising order
    numbers, invalid = chunk.parse_numbers((chunk.first[rows][:, None] + positions[order]).ravel())
    table = numbers.reshape(-1, len(positions))
    # Over whole columns this is faster than along short rows.
    is_sound = np.logical_and.reduce(np.ascontiguousarray(np.isfinite(table).T))
    is_sound[invalid // len(positions)] = False  # the numbers were looked up row by row
    if shape.score < 0:
        return table, None, is_sound
    score_column = int(np.flatnonzero(order == len(positions) - 1)[0])  # it was put last in `positions`
    return np.delete(table, score_column, axis=1), table[:, score_column], is_sound


def _pick_names(chunk: Chunk, rows: NDArray[Any], shape: Shape, grammar: Grammar) -> list[bytes]:
    """Return the name of each row of a shape: its words, or the label of a grammar without names."""
    name_begin, n_words = shape.name
    first_words = chunk.first[rows] + name_begin
    if n_words == 1:
        return chunk.pick(first_words)
    if grammar.exact:  # such names begin the row
        return chunk.join_spans(rows, np.full(len(rows), n_words))
    if not n_words:
        return [grammar.label] * len(rows)
    words = [chunk.pick(first_words + k) for k in range(n_words)]
    return list(map(b" ".join, zip(*words, strict=True)))


def _find_kind(value: bytes) -> str:
    """Return the kind of a value as `KindOf` does."""
    return "" if value in (b"", EMPTY) else "number" if _is_numeric(value) else "word"


def _explain(grammar: Grammar, cells: list[Cell], path: str, line: int, log: Log) -> None:
    """Report the first fault among the values of a row: their number, numbers, flags, or the name."""
    # Without the word that may end a row, and with the numbers that `Grammar.marks` stand for.
    last_word, least_count = grammar.last
    cells = cells[:-1] if last_word and len(cells) >= least_count and cells[-1][1] == last_word else cells
    n, first_column = len(cells), cells[0][0]
    cells = [*cells[:1], *((column, grammar.marks.get(value, value)) for column, value in cells[1:])]

    shape = grammar.shape(n, lambda position: _find_kind(cells[position][1]))
    if shape is None:
        if not (grammar.explain and grammar.explain(cells, shape, path, line, log)):
            about = {"expected": grammar.expected, "found": plural(n, "value")}
            log.report(WRONG_COUNT, path, line=line, column=first_column, **about)
        return
    # The field at each position, with -1 for a score that the row does not have.
    fields = dict(zip(shape.numbers, grammar.fields, strict=False)) | {shape.score: grammar.score}
    positions = sorted(position for position in fields if position >= 0)
    numbers = [position for position in positions if fields[position] not in grammar.flags]
    flags = [position for position in positions if fields[position] in grammar.flags]
    if report_numbers([cells[p] for p in numbers], [fields[p] for p in numbers], path, line, log):
        return
    if _report_flag([cells[p] for p in flags], [fields[p] for p in flags], path, line, log):
        return
    if grammar.explain and grammar.explain(cells, shape, path, line, log):
        return
    name_begin, n_words = shape.name
    name_cells = cells[name_begin : name_begin + n_words]
    try:
        name = b" ".join(word for _, word in name_cells).decode()
    except UnicodeDecodeError:
        return  # the file's encoding has been reported
    location: dict[str, Any] = {"line": line, "column": name_cells[0][0] if name_cells else first_column}
    if grammar.named and (reason := refuse_class(name)) is not None:
        log.report(BAD_CLASS_NAME, path, **location, field=grammar.named, value=name, reason=reason)
    else:
        log.report(WRONG_COUNT, path, **location, expected=grammar.expected, found=f"{n} values")


def _report_flag(cells: Sequence[Cell], fields: Sequence[str], path: str, line: int, log: Log) -> bool:
    """Report the first of these values that is neither 0 nor 1; return whether there is one."""
    for (column, value), field in zip(cells, fields, strict=True):
        if not NUMBER.fullmatch(value) or float(value) not in (0, 1):
            about: dict[str, Any] = {"field": field, "value": value, "expected": Trusted("0 or 1")}
            log.report(BAD_FLAG, path, line=line, column=column, **about)
            return True
    return False


def parse_class_name(name: bytes) -> str | None:
    """Return the text of a class name of one or more words; None if it is not valid.

    A number after the first word is a column too many and no part of the name.
    """
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return None
    if refuse_class(text) is not None or any(map(_is_numeric, name.split(b" ")[1:])):
        return None
    return text


def _is_numeric(word: bytes) -> bool:
    return NUMBER.fullmatch(word) is not None or NON_FINITE.fullmatch(word) is not None


# -------------------------------------------------------------------------------------- what the rows mean


def gather_labels(source: Source, builder: Builder, log: Log, options: ImageOptions) -> Gather:
    """Return a `Gather` for label files that do not need the sizes of their images.

    Where a size is needed after all, the other side of an evaluation is asked for it.
    """
    return Gather(source, builder, log, options, find_folders(source), borrow_sizes="needed")


def read_labels(gather: Gather, files: Sequence[str], grammar: Grammar) -> Labels:
    """Read all rows of these files of the source of a `Gather`, and attach them to it."""
    return Labels(gather.source, files, grammar, gather.log).attach(gather)


def find_common_prefix(source: Source, files: Sequence[str], grammar: Grammar) -> str:
    """Return the first prefix of the grammar with which the names of all files begin, else ""."""
    names = [(file or source.path.replace("\\", "/")).rsplit("/", 1)[-1] for file in files]
    return next((p for p in grammar.prefixes if names and all(name.startswith(p) for name in names)), "")


def convert_ltwh(values: Floats) -> tuple[Floats, Floats]:
    """Return (n, 4) edges and (n, 2) sizes from (n, 4 or more) numbers: left, top, width, height, ..."""
    wh = values[:, 2:4]
    with np.errstate(over="ignore"):
        return np.concatenate([values[:, :2], values[:, :2] + wh], axis=1), wh


def report_numbers(cells: Sequence[Cell], fields: Sequence[str], path: str, line: int, log: Log) -> bool:
    """Report the first of these values that is not a finite number; return whether there is one."""
    return not all(check_number(c, log, path, line, f) for c, f in zip(cells, fields, strict=True))


def report_files(source: Source, files: list[str], log: Log) -> None:
    """Report the files of the source that no format of text files knows, and note those not in `files`."""
    if source.is_dir:
        files_by_kind = list_files(source)
        report_others(source, files_by_kind, log)
        if ignored := sorted(set(files_by_kind.labels) - set(files)):
            log.note(
                f"{printable(source.path)}: not label files, ignored: {first_few(ignored, 5, printable)}"
            )


# -------------------------------------------------------------------------------------------------- sniffing


def sample_rows(source: Source, files: Sequence[str], sep: bytes | None = None) -> Iterator[list[bytes]]:
    """Yield the values of the first 50 lines of each of about 50 files, spread evenly over all."""
    step = max(1, len(files) // 50)
    for file in list(files)[::step][:50]:
        lines = source.once(_read_head_lines, file)
        complete_lines = lines if len(lines) < 50 else lines[:-1]  # the last of many may be cut
        for line in complete_lines[:50]:
            if line.strip():
                yield line.split() if sep is None else [cell.strip(b" \t") for cell in line.split(sep)]


def _read_head_lines(source: Source, file: str) -> list[bytes]:
    return clean_text(source.head(file)[: 2**14], "", Log(keep=0)).split(b"\n")


def sniff_lines(n_fitting: int, n_lines: int, description: str) -> Sniff | None:
    """The confidence and reason of a sniffer if two of three lines fit."""
    fits = n_lines and 3 * n_fitting >= 2 * n_lines
    return Sniff(SURE, f"{describe_lines(n_fitting, n_lines)} {description}") if fits else None


def are_text(source: Source) -> bool:
    """Whether a source is a text file, or a folder of them without the XML of another format."""
    if not source.is_dir:
        return source.path.lower().endswith(".txt")
    return not any(f.lower().endswith((".xml", ".yaml", ".yml")) for f in source.files)


# --------------------------------------------------------------------------------------------------- writing


def plan_files(
    dataset: Dataset, target: Output, log: Log, *, prefix: str = "", listed: Sequence[str] | None = None
) -> bool:
    """Whether a text file per image can be written; names that cannot are reported.

    `listed` are the classes for ``classes.txt``, if any; then a class name may contain spaces.
    """
    names, file_uses = name_files(dataset, prefix), list(dataset.images.name)
    if listed:
        names, file_uses = [*names, "classes.txt"], [*file_uses, "the list of classes"]
    refused = refuse_classes(dataset, log, words=listed is None, unused=listed is not None)
    return target.plan(names, file_uses, log) and not refused


def write_files(
    dataset: Dataset,
    target: Output,
    log: Log,
    columns: Sequence[Sequence[str]],
    sep: str,
    *,
    prefix: str = "",
    listed: Sequence[str] = (),
    head: Callable[[bytes], bytes] = lambda _: b"",
) -> None:
    """Write one text file per image, its rows from `columns`, and the list of classes, if any.

    `head` makes the beginning of a file from its rows.
    """
    if listed:
        target.write("classes.txt", "".join(f"{name}\n" for name in listed).encode())
    note_folders(dataset, log)
    names = name_files(dataset, prefix)
    written = format_pages(len(names), dataset.boxes.image, columns, sep)
    for name, data in zip(log.track(names, "writing"), written, strict=True):
        target.write(name, head(data) + data)


def name_files(dataset: Dataset, prefix: str = "") -> list[str]:
    """Return the path of the label file of each image, with `prefix` before the file name."""
    if not prefix:
        return [f"{stem(name)}.txt" for name in dataset.images.name]
    parts = (stem(name).rpartition("/") for name in dataset.images.name)
    return [f"{folder}{slash}{prefix}{name}.txt" for folder, slash, name in parts]


def find_corners(dataset: Dataset) -> Floats:
    """Return (n, 8) corners x, y of each box: of its oriented box, else of its edges from top left on."""
    points = dataset.boxes.xyxy[:, [0, 1, 2, 1, 2, 3, 0, 3]]  # top left, top right, bottom right, bottom left
    if (shapes := dataset.boxes.shapes) is not None:
        rows = np.flatnonzero(shapes.kind == ShapeKind.ORIENTED)
        points[rows] = shapes.corners(rows).reshape(-1, 8)
    return points


def refuse_classes(dataset: Dataset, log: Log, *, words: bool = True, unused: bool = False) -> bool:
    """Report class names that would not be read back; return whether there are any.

    With `words` a name is a column of a row, so it may not contain a space. With `unused` classes without
    objects are checked too. Regions to ignore do not count, as they are written without their class.
    """
    n_errors, object_categories = log.errors, dataset.boxes.category[~dataset.boxes.has(Flag.REGION)]
    rows = range(len(dataset.categories)) if unused else distinct(object_categories).tolist()
    for row in rows:
        name = dataset.categories.name[row]
        reason = refuse_class(name)
        if reason is None and name != name.strip(" \t"):
            reason = "leading and trailing spaces are lost"
        remedy = "rename the class"
        if reason is None and words and has_space(name):
            reason, remedy = "a space would end it", f"{remedy}, or write underscores: -O spaces=underscore"
        if reason is not None:
            log.report(UNWRITABLE, "", value=name, reason=reason, way=remedy)
    return log.errors > n_errors
