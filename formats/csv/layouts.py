"""What a CSV file looks like: the options that say it, its columns, and the dialects known by them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from odm.formats._contract import option
from odm.formats._shared.column_roles import FLAGS, FORMS, Header, key_of, parse_columns
from odm.formats._shared.csv_tables import BAD_HEADER, NO_HEADER, quote_fault, read_record
from odm.formats._shared.pictures import ImageOptions
from odm.formats.csv.numbers import NUMBER
from odm.issues import Code, shorten

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
RETINANET = "path x1 y1 x2 y2 class".split()
_SEPARATORS = (",", ";", "\t")


def _parse_sep(text: str) -> str:
    named = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|"}
    sep = named.get(text.lower(), text)
    if len(sep) != 1 or sep in '"\r\n\0' or sep.isalnum():
        raise ValueError("give one character, such as ',' ';' or tab")
    return sep


@dataclasses.dataclass(frozen=True, kw_only=True)
class CsvOptions(ImageOptions):
    """How a CSV file is read and written."""

    sep: str | None = option(
        None, "the character between columns: ',' ';' or tab", flag="--sep", parse=_parse_sep
    )
    columns: dict[str, str] | None = option(  # noqa: RUF009 -- as all options; the type only looks mutable
        None, "which column is what: image:frame,left:x0,...", side="read", parse=parse_columns
    )
    coords: str | None = option(
        None,
        "pixels (abs) or relative to the image (rel)",
        flag="--coords",
        choices=("abs", "rel"),
        side="read",
    )
    decimal: str | None = option(
        None, "the decimal mark, where it is in doubt", choices=("point", "comma"), side="read"
    )
    classes: str | None = option(
        None,
        "file of class names, of MIDs and names, or a data.yaml",
        flag="--classes",
        side="both",
        path=True,
    )
    excel_safe: bool = option(
        False, "an apostrophe before names that a spreadsheet would take for formulas (= + - @)"
    )
    dialect: str = option(
        "canonical",
        "which columns to write",
        choices=("canonical", "tfod", "openimages", "predictionstring", "retinanet"),
        side="write",
    )


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Layout:
    """What a file looks like: its separator, its columns, and which of them is what."""

    title: str
    sep: str
    columns: tuple[str, ...]
    roles: Mapping[str, int]
    form: str = "ltrb"
    coords: str = "sniff"
    """``abs``, ``rel``, or ``sniff`` where the dialect has both under one header."""
    constants: Mapping[str, str] = dataclasses.field(default_factory=dict)
    header: bool = True
    spaced: bool = False
    """Whether a blank follows every separator, and does not belong to the cells."""
    strings: int | None = None
    """The column that holds prediction strings."""
    sure: bool = True

    def field(self, column: int) -> str:
        """How a column is called in a message; nothing for one that the file does not have."""
        names = self.columns
        return (names[column] or f"column {column + 1}") if column < len(names) else ""


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class HeaderFaults:
    """Why a header does not say what is needed."""

    columns: tuple[str, ...]
    found: list[tuple[Code, str, dict[str, Any]]]


def find_layout(text: str, options: CsvOptions | None) -> Layout | HeaderFaults | None:
    """The layout that the first lines of a file show; None where there is no text."""
    explicit_sep, text = sep_line(text)
    text = text.lstrip("\n")
    if not text.strip():
        return None
    if options is not None and options.sep is not None:
        explicit_sep = options.sep
    explicit = (options and options.columns) or {}
    candidates = (explicit_sep,) if explicit_sep else _SEPARATORS
    best: HeaderFaults | None = None
    for sep in candidates:
        record = read_record(text, 0, sep, spaced=False)
        if isinstance(record[0], tuple):
            best = best or HeaderFaults(
                tuple(text.split("\n", 1)[0].split(sep)),
                [(BAD_HEADER, f"column {record[0][1] + 1}", {"reason": quote_fault(record[0])})],
            )
            continue
        found = _header_layout(record[0], sep, explicit)
        if isinstance(found, Layout):
            return found
        if best is None or len(found.columns) > len(best.columns) or best.found[0][0] is BAD_HEADER:
            best = found
        if not explicit:
            plain = _retinanet_layout(text, sep)
            if plain is not None:
                return plain
    return best


def sep_line(text: str) -> tuple[str | None, str]:
    """The separator that a first line ``sep=;`` names, and the text without that line."""
    if text[:4].lower() == "sep=" and len(text) > 5 and text[5] == "\n":
        return text[4], "\n" + text[6:]
    return None, text


def _retinanet_layout(text: str, sep: str) -> Layout | None:
    rows = [read_record(line, 0, sep, spaced=False)[0] for line in text.split("\n", 50)[:50] if line.strip()]
    fitting = 0
    for cells in rows:
        if isinstance(cells, list) and len(cells) == 6 and cells[0].strip():
            box = [cell.strip() for cell in cells[1:5]]
            numbers = sum(NUMBER.fullmatch(cell) is not None for cell in box)
            fitting += not any(box) or numbers >= 3
    if fitting * 2 <= len(rows):
        return None
    roles = {"image": 0, "left": 1, "top": 2, "right": 3, "bottom": 4, "class": 5}
    return Layout(
        "keras-RetinaNet CSV, which has no header",
        sep,
        tuple(RETINANET),
        roles,
        coords="abs",
        header=False,
        sure=False,
    )


def _header_layout(cells: Sequence[str], sep: str, explicit: Mapping[str, str]) -> Layout | HeaderFaults:
    """What the cells of a header line say, or what they leave open; `explicit` are columns by their roles."""
    header = Header(cells, explicit)
    columns, roles, constants, faults = header.columns, header.roles, header.constants, header.faults
    keys = set(header.places)
    open_images = {"imageid", "labelname", "xmin", "xmax", "ymin", "ymax"} <= keys
    for role in ("image", "width", "height", "class", "score", *FLAGS):
        if role in roles or role in constants or (role == "score" and open_images and "score" not in keys):
            continue
        header.find_usual(role)
    if {"imageid", "predictionstring"} <= keys and not explicit:
        if faults:
            return HeaderFaults(columns, faults)
        return Layout(
            "Open Images predictions in a PredictionString",
            sep,
            columns,
            roles,
            coords="rel",
            spaced=header.spaced,
            strings=header.places["predictionstring"][0],
            sure=False,  # strings of other groups have this header too
        )

    form = header.find_coordinates()
    lacking = [r for r in ("image", "class", *FORMS[form]) if r not in roles and r not in constants]
    if len(lacking) == 6 and not explicit and not faults:
        return HeaderFaults(columns, [(NO_HEADER, "", {"found": repr(shorten(sep.join(columns)))})])
    header.report_lacking(lacking)
    if faults:
        return HeaderFaults(columns, faults)

    sure = True
    if explicit:
        title = "CSV with the columns that -O columns names"
        coords = "rel" if open_images else "sniff"
    elif set(CANONICAL) <= set(columns):
        title, coords = "canonical CSV", "abs"
    elif open_images and "score" in roles:
        title, coords = "Open Images predictions", "rel"
    elif open_images:
        title, coords = "Open Images boxes", "rel"
        if "confidence" in keys:
            title += " (Confidence is not a score there; -O columns=score:Confidence reads it as one)"
    elif set(map(key_of, TFOD)) <= keys:
        title, coords = "TF Object Detection CSV", "sniff"
    else:
        named = ", ".join(
            f"{role} = {shorten(columns[i])}" for role, i in roles.items() if role != columns[i]
        )
        title, coords = "CSV by the names of its columns" + (f" ({named})" if named else ""), "sniff"
        sure = False  # a format whose header this is may be surer of it than usual names can make
    return Layout(title, sep, columns, roles, form, coords, constants, spaced=header.spaced, sure=sure)
