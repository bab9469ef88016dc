"""The layout of a CSV file: its options, its columns, the dialects recognised by them, and its classes."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from odm.csv_text import QuoteFault, normalise_line_ends, read_record
from odm.files import Source
from odm.formats._contract import option
from odm.formats._shared.class_lists import is_description, read_description
from odm.formats._shared.codes import BAD_CLASS_LIST, NOT_UTF8
from odm.formats._shared.json.values import decode
from odm.formats._shared.split_names import SplitOptions
from odm.formats._shared.tables.column_roles import FORMS, Header, parse_columns, simplify_name
from odm.formats._shared.tables.csv_files import BAD_HEADER, NO_HEADER, OPEN_QUOTE, STRAY_QUOTE, show_byte
from odm.formats._shared.tables.rows import NUMBER, Columns
from odm.issues import Code, Log, Trusted, shorten, spell
from odm.names import PICTURE_SUFFIXES, parse_number, refuse_class

CANONICAL = (
    "image width height class score left top right bottom difficult truncated occluded crowd group_of".split()
)
TFOD = "filename width height class xmin ymin xmax ymax".split()
OPEN_IMAGES = (
    "ImageID Source LabelName Confidence XMin XMax YMin YMax "
    "IsOccluded IsTruncated IsGroupOf IsDepiction IsInside".split()
)
OPEN_IMAGES_PREDICTIONS = "ImageID LabelName Score XMin XMax YMin YMax".split()
PREDICTION_STRING = ["ImageID", "PredictionString"]
MASKS = "Open Images masks"
"""The title of a table of masks."""
RETINANET = "path x1 y1 x2 y2 class".split()
_HEADERLESS = (
    ("keras-RetinaNet CSV", RETINANET, "image left top right bottom class"),
    (
        "SKU110K CSV",
        "image x1 y1 x2 y2 class image_width image_height".split(),
        "image left top right bottom class width height",
    ),
    (
        "makesense.ai CSV",
        "label x y width height image image_width image_height".split(),
        "class left top box_width box_height image width height",
    ),
)
"""Dialects without a header: their title, names for their columns, and the role of each column."""
_SEPARATORS = (",", ";", "\t")
_PICTURES = tuple(PICTURE_SUFFIXES)


def _parse_sep(text: str) -> str:
    """Parse a separator, a character or its name. Raises ValueError for any other text."""
    named = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|"}
    sep = named.get(text.lower(), text)
    if len(sep) != 1 or sep in '"\r\n\0' or sep.isalnum():
        raise ValueError("expected one character, such as ',' ';' or tab")
    return sep


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CsvOptions(SplitOptions):
    """How a CSV file is read and written."""

    sep: str | None = option(
        None, "the character between columns: ',' ';' or tab", flag="--sep", parse=_parse_sep
    )
    columns: dict[str, str] | None = option(  # noqa: RUF009 -- as all options; the type only looks mutable
        None, "column names by role: image:frame,left:x0,...", side="read", parse=parse_columns
    )
    coords: str | None = option(
        None,
        "pixels (abs) or relative to the image (rel)",
        flag="--coords",
        choices=("abs", "rel"),
        side="read",
    )
    decimal: str | None = option(
        None, "the decimal mark, where it is ambiguous", choices=("point", "comma"), side="read"
    )
    classes: str | None = option(
        None,
        "file of class names, of MIDs with names, or a data.yaml",
        flag="--classes",
        side="both",
        path=True,
    )
    excel_safe: bool = option(
        False, "put an apostrophe before names that a spreadsheet would treat as formulas (= + - @)"
    )
    dialect: str = option(
        "canonical",
        "which columns to write",
        choices=("canonical", "tfod", "openimages", "predictionstring", "retinanet"),
        side="write",
    )


class ClassNames(msgspec.Struct, eq=False):
    """A file of class names: MIDs with their names, names with their ids, or only names."""

    path: str
    order: list[str] = msgspec.field(default_factory=list)
    """The classes in their order, where the file sets one."""
    by_cell: dict[str, str] = msgspec.field(default_factory=dict)
    """The class name for the text of a cell."""


def _read_class_names(source: Source, file: str, log: Log) -> ClassNames | None:
    """Read class names: one a line, with its id or behind its MID. None, after an issue, if not usable."""
    data, path, n_errors = source.read(file, log), source.full(file), log.errors
    if data is None:
        return None
    if is_description(path):
        order = list(dict.fromkeys(read_description(data, path, log) or []))
        names = ClassNames(path, order, {name: name for name in order})
        return names if log.errors == n_errors else None
    rows = _read_name_rows(data, path, log)
    if rows is None:
        return None
    if fault := _find_name_fault(rows):
        line, reason = fault
        log.report(BAD_CLASS_LIST, path, line=line, reason=reason)
        return None

    names = ClassNames(path)
    all_cells = [cells for _, cells in rows]
    if all(len(cells) == 1 for cells in all_cells):
        names.order = [name for (name,) in all_cells]
    elif all(len(cells) == 2 and parse_number(cells[1]) >= 0 for cells in all_cells):
        names.order = [name for name, _ in sorted(all_cells, key=lambda cells: parse_number(cells[1]))]
    else:
        names.by_cell = {cells[0]: cells[1] for cells in all_cells}
    for name in names.order or list(names.by_cell.values()):
        names.by_cell.setdefault(name, name)  # a cell with the name itself
    return names


def _read_name_rows(data: bytes, path: str, log: Log) -> list[tuple[int, list[str]]] | None:
    """Return line and cells of each row of a list of classes, without a header; None after an issue."""
    try:
        text = normalise_line_ends(data.decode())
    except UnicodeDecodeError as e:
        log.report(NOT_UTF8, path, line=data.count(b"\n", 0, e.start) + 1, value=show_byte(data[e.start]))
        return None
    rows: list[tuple[int, list[str]]] = []
    for line_number, line in enumerate(text.split("\n"), 1):
        cells, _ = read_record(line, 0, "\t" if "\t" in line and "," not in line else ",")
        if isinstance(cells, QuoteFault):
            code = OPEN_QUOTE if cells.is_open else STRAY_QUOTE
            log.report(code, path, line=line_number, found=cells.found, value=cells.found)
            return None
        if line.strip():
            rows.append((line_number, [cell.strip() for cell in cells]))
    _, first_cells = rows[0] if rows else (0, [])
    if [c.lower() for c in first_cells] in (["labelname", "displayname"], ["class", "id"]):
        del rows[0]  # a header
    return rows


def _find_name_fault(rows: list[tuple[int, list[str]]]) -> tuple[int, str] | None:
    """Return the line and reason of what makes a list of classes unusable, None if nothing does.

    Rows of different widths come first, then the first row with a cell that is no name, or whose first cell
    is that of an earlier row.
    """
    for line_number, cells in rows:
        _, first_cells = rows[0]
        if len(cells) != len(first_cells):
            return line_number, "its lines differ in their number of cells"
    line_of_name: dict[str, int] = {}
    for line_number, cells in rows:
        if (reason := next((r for c in cells if (r := refuse_class(c)) is not None), None)) is not None:
            return line_number, f"in {shorten(','.join(cells))!r}, {reason}"
        if line_of_name.setdefault(cells[0], line_number) != line_number:
            return line_number, f"{shorten(cells[0])!r} is a duplicate of line {line_of_name[cells[0]]}"
    return None


def is_class_list(file: str) -> bool:
    """Whether a file of a folder is a list of classes by its name."""
    key = simplify_name(file.rsplit("/", 1)[-1])
    return "classdescriptions" in key or key == "classescsv"


def find_class_names(
    source: Source, descriptions: list[str], log: Log, explicit: str | None
) -> ClassNames | None:
    """Read the class names in the file `explicit`, else in the first of the lists `descriptions`, if any."""
    if explicit is not None:
        return _read_class_names(Source(explicit, follow_links=True, encoding=source.encoding), "", log)
    if not descriptions:
        return None
    if len(descriptions) > 1:
        log.note(
            f"{len(descriptions)} class description files; {descriptions[0]} is used ({spell('classes')})"
        )
    else:
        log.note(f"class names are from {descriptions[0]} ({spell('classes')} sets another file)")
    return _read_class_names(source, descriptions[0], log)


def read_class_labels(path: str | None, log: Log) -> dict[str, str]:
    """Map each class name to the label to be written, by the file at `path`; empty without a file."""
    names = None if path is None else _read_class_names(Source(path, follow_links=True), "", log)
    by_cell = {} if names is None else names.by_cell
    # Reversed, so that of several labels of a class the first stays.
    return {name: label for label, name in reversed(by_cell.items()) if label != name}


class Layout(Columns, frozen=True, kw_only=True, eq=False):
    """The separator of a file, its columns and their roles."""

    sep: str
    has_header: bool = True
    spaced: bool = False
    """Whether a blank follows every separator, and does not belong to the cells."""
    string_column: int | None = None
    """The column that holds prediction strings."""
    packed_column: int | None = None
    """The column that holds the four numbers of a box, in brackets or not."""
    list_column: int | None = None
    """The column that holds a list of boxes."""
    keys: tuple[str, ...] = ()
    """The keys of the boxes in that list, which are columns behind those of the file; none of numbers."""
    is_sure: bool = True


class HeaderFaults(msgspec.Struct, eq=False):
    """The columns of a header that is not sufficient, and its faults: code, column and message values."""

    columns: tuple[str, ...]
    faults: list[tuple[Code, str, dict[str, Any]]]
    has_box: bool = False
    """Whether there are the four coordinates, so that only the image or the class is open."""


def find_layout(text: str, options: CsvOptions | None) -> Layout | HeaderFaults | None:
    """Find the layout of a file from its first lines: by its header, else by its rows.

    Returns what is wrong with the best reading of the header if none fits, None if there is no text.
    """
    explicit_sep, text = split_sep_line(text)
    text = text.lstrip("\n")
    if not text.strip():
        return None
    if options is not None and options.sep is not None:
        explicit_sep = options.sep
    explicit = (options and options.columns) or {}  # names of columns by role
    candidates = (explicit_sep,) if explicit_sep else _SEPARATORS
    best_faults: HeaderFaults | None = None
    for sep in candidates:
        cells, _ = read_record(text, 0, sep)
        if isinstance(cells, QuoteFault):
            first_cells = tuple(text.split("\n", 1)[0].split(sep))
            fault = BAD_HEADER, f"column {cells.cell + 1}", {"reason": Trusted(str(cells))}
            best_faults = best_faults or HeaderFaults(first_cells, [fault])
            continue
        layout = _read_header(cells, sep, explicit, _find_list(text, sep, len(cells)))
        if isinstance(layout, Layout):
            return layout
        # The separator that gives the most columns is probably the right one, if its quotes are.
        if (
            best_faults is None
            or len(layout.columns) > len(best_faults.columns)
            or best_faults.faults[0][0] is BAD_HEADER  # the code of the first fault
        ):
            best_faults = layout
        bare_layout = None if explicit else _find_bare_layout(text, sep)
        if bare_layout is not None:
            return bare_layout
    return best_faults


def split_sep_line(text: str) -> tuple[str | None, str]:
    """Return the separator that a first line ``sep=;`` names, and the text with this line made blank."""
    if text[:4].lower() == "sep=" and len(text) > 5 and text[5] == "\n":
        return text[4], "\n" + text[6:]
    return None, text


def _find_bare_layout(text: str, sep: str) -> Layout | None:
    """Return the layout of a file without a header, if most of its first rows are in such a dialect."""
    rows = [read_record(line, 0, sep)[0] for line in text.split("\n", 50)[:50] if line.strip()]
    first_row = rows[0] if rows else ()
    if isinstance(first_row, QuoteFault):
        return None
    # A first row of words would be a header; one of a name alone may be of an image without objects.
    if not _count_numbers(first_row) and any(cell.strip() for cell in first_row[1:]):
        return None
    for title, columns, role_names in _HEADERLESS:
        roles = {role: i for i, role in enumerate(role_names.split())}
        form = "ltwh" if "box_width" in roles else "ltrb"
        n_fitting = sum(
            _fits_bare(cells, roles, FORMS[form])
            for cells in rows
            if not isinstance(cells, QuoteFault) and len(cells) == len(columns)
        )
        if n_fitting * 2 > len(rows):
            fields: Any = {"sep": sep, "columns": tuple(columns), "roles": roles, "form": form}
            return Layout(title=f"{title}, which has no header", has_header=False, is_sure=False, **fields)
    return None


def _fits_bare(cells: Sequence[str], roles: Mapping[str, int], box_roles: Sequence[str]) -> bool:
    """Whether a row with the right number of columns fits a dialect without a header.

    `roles` are the columns by role; those of `box_roles` are side by side. A box fits with three numbers, so
    that a single wrong one is reported, and without any cell, for an image without objects.
    """
    image_name = cells[roles["image"]].strip()
    box = slice(roles[box_roles[0]], roles[box_roles[-1]] + 1)
    is_empty = not any(cell.strip() for cell in cells[box])
    if not image_name or not (is_empty or _count_numbers(cells[box]) >= 3):
        return False
    if "width" not in roles:  # keras-RetinaNet, whose rows have no image size
        return True
    other_cells = [*cells[: box.start], *cells[box.stop :]]
    # The size of the image is two numbers.
    return image_name.lower().endswith(_PICTURES) and _count_numbers(other_cells) >= 2


def _count_numbers(cells: Sequence[str]) -> int:
    """Count the cells that are numbers."""
    return sum(NUMBER.fullmatch(cell.strip()) is not None for cell in cells)


_LISTS = re.compile(r"\[\s*[\[{(]")


def _find_list(text: str, sep: str, n_cells: int) -> tuple[int, tuple[str, ...]] | None:
    """Find the column of the first cell with a list of boxes, and the keys of the boxes; None if none has."""
    if not (match := _LISTS.search(text)):
        return None
    line_start = text.rfind("\n", 0, match.start()) + 1
    cells, _ = read_record(text, line_start, sep)
    if isinstance(cells, QuoteFault) or len(cells) != n_cells:
        return None
    for i, cell in enumerate(cells):
        if _LISTS.match(cell.lstrip()) and (boxes := parse_boxes(cell)):
            return i, tuple(boxes[0]) if isinstance(boxes[0], dict) else ()
    return None


def parse_boxes(cell: str) -> list[Any] | None:
    """Parse the list in a cell, in JSON or as Python prints it; None if the cell holds something else."""
    with contextlib.suppress(ValueError, RecursionError):
        # Without a double quote it may be Python's text, [{'x': 1}], which is made into JSON.
        value = decode(cell if '"' in cell else _WORDS.sub(lambda word: _MEANINGS[word[0]], cell))
        return value if isinstance(value, list) else None
    return None


_MEANINGS = {"'": '"', "(": "[", ")": "]", "None": "null", "True": "true", "False": "false"}
_WORDS = re.compile(r"['()]|\b(?:None|True|False)\b")


def _read_header(
    cells: Sequence[str], sep: str, explicit: Mapping[str, str], boxes: tuple[int, tuple[str, ...]] | None
) -> Layout | HeaderFaults:
    """Return the layout of a header, or what is wrong with it; `explicit` are the columns of the options.

    `boxes` is the column with a list of boxes, and their keys, which count as columns behind all others.
    """
    list_column, keys_of_boxes = boxes or (None, ())
    # `box_x` for the key `x` beside a column `x`.
    list_columns = [f"box_{key}" if key in cells else key for key in keys_of_boxes]
    header = Header([*cells, *list_columns], explicit)
    header.listed = list_column
    if list_column is not None and not keys_of_boxes:
        header.pack(list_column)
    columns, roles, constants, faults = header.columns, header.roles, header.constants, header.faults
    column_keys = set(header.places)
    is_open_images = {"imageid", "labelname", "xmin", "xmax", "ymin", "ymax"} <= column_keys
    # The Confidence of the boxes of Open Images is no score, so that role is passed over.
    header.find_roles(*(("score",) if is_open_images and "score" not in column_keys else ()))
    in_file = columns[: len(cells)]
    common_fields: Any = {"sep": sep, "columns": in_file, "roles": roles, "spaced": header.spaced}

    # Prediction strings need no other columns.
    if {"imageid", "predictionstring"} <= column_keys and not explicit:
        if faults:
            return HeaderFaults(columns, faults)
        title, column = "Open Images predictions in a PredictionString", header.places["predictionstring"][0]
        # strings of other groups have this header too
        return Layout(title=title, coords="rel", string_column=column, is_sure=False, **common_fields)

    # Ordinary columns: coordinates, and tracks and frames beside a column of images.
    form = header.find_coordinates()
    if "image" in roles or "image" in constants:
        for role in ("track", "video", "frame"):
            if role not in roles:
                header.find_usual(role)
        if "video" not in roles:  # of which video it is the frame, nobody knows
            roles.pop("frame", None)
    lacking = [r for r in ("image", "class", *FORMS[form]) if r not in roles and r not in constants]
    lacks_all = len(lacking) == 6  # image, class and the four coordinates: this may be no header at all
    is_header = len(columns) >= 6 and not _count_numbers(columns)
    if lacks_all and not (is_header or explicit or faults):
        return HeaderFaults(columns, [(NO_HEADER, "", {"found": repr(shorten(sep.join(columns)))})])
    header.report_lacking(lacking)
    if faults:
        return HeaderFaults(columns, faults, has_box={"image", "class"}.issuperset(lacking))

    title, coords, sure = _name_dialect(header, open_images=is_open_images)
    return Layout(
        title=title,
        form=form,
        coords=coords,
        constants=constants,
        packed_column=header.packed,
        list_column=list_column,
        keys=keys_of_boxes,
        is_sure=sure,
        **common_fields,
    )


def _name_dialect(header: Header, *, open_images: bool) -> tuple[str, str, bool]:
    """Return the title of the dialect of a header, the units of its coordinates, and whether it is sure."""
    columns, roles, keys = header.columns, header.roles, set(header.places)
    if header.explicit:
        return "CSV with the columns given by -O columns", "rel" if open_images else "sniff", True
    if set(CANONICAL) <= set(columns):
        return "canonical CSV", "abs", True
    if open_images and "score" in roles:
        return "Open Images predictions", "rel", True
    if open_images:
        title = "Open Images boxes"
        if "confidence" in keys:
            title += " (Confidence is not a score there; -O columns=score:Confidence reads it as one)"
        return title, "rel", True
    if {"maskpath", "imageid", "boxxmin"} <= keys:
        return MASKS, "rel", True
    if set(map(simplify_name, TFOD)) <= keys:
        return "TF Object Detection CSV", "sniff", True
    renamed_columns = {  # the four numbers of one packed cell stand behind all columns
        role: columns[i] for role, i in roles.items() if i < len(columns) and role != columns[i]
    }
    names_text = ", ".join(f"{role} = {shorten(name)}" for role, name in renamed_columns.items())
    # A format whose header this is may be surer of it than usual names can make.
    return "CSV by the names of its columns" + (f" ({names_text})" if names_text else ""), "sniff", False
