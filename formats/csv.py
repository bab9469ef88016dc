"""CSV: one row per box, in a file or in every ``.csv`` or ``.tsv`` file of a folder.

The header names the columns, in any order. Comma, semicolon or tab separate them (sniffed, or ``--sep``);
quotes are those of RFC 4180. Nothing is guessed into another type: a class or an image called ``00012``,
``NA``, ``null``, ``true`` or ``1.0`` keeps that name. Tolerated are a byte order mark, UTF-16 that begins
with one, CR and CRLF, blank lines, a missing last newline, and a first line ``sep=;`` as spreadsheets write.

Canonical, and what is written::

    image,width,height,class,score,left,top,right,bottom,difficult,truncated,occluded,crowd,group_of

Pixels as they are; a cell is empty where nothing is known. An image without objects is a row with its name
and empty box cells. Flags are 0 or 1. Boxes with a score are detections. Also known by their headers:

- TF Object Detection ``filename,width,height,class,xmin,ymin,xmax,ymax``: pixels, or relative where all
  values lie in 0..1, which is said aloud; ``--coords abs|rel`` decides by hand.
- Open Images boxes ``ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,...``: relative, so
  image sizes are needed (``--images``, ``--image-size``, ``--image-sizes``). ``Confidence`` is not a score.
  Flags are 0, 1, or -1 for unknown. ``--classes`` takes the class descriptions, which turn MIDs into names; a
  file ``*class-descriptions*.csv`` or ``classes.csv`` in the folder is used without being named.
- Open Images predictions ``ImageID,LabelName,Score,XMin,XMax,YMin,YMax``, and ``ImageId,PredictionString``
  with groups of ``label score xmin ymin xmax ymax`` separated by blanks.
- keras-RetinaNet, which has no header: ``path,x1,y1,x2,y2,class``, and ``path,,,,,`` for images without
  objects.

Any other header is read where the usual names of its columns are plain (``xmin``, ``left`` or ``x1``;
``label`` or ``class``; ``filename``, ``image`` or ``path``, in any case), else with
``-O columns=image:frame,left:x0,...``. The roles are image, width, height, class, score, left, top, right,
bottom, box_width, box_height, center_x, center_y and the flags; ``-O columns=class:=person`` gives every box
the same class.

Decimal commas (inside quotes, or between semicolons) are read where the file has no decimal point, and said
aloud; both in one file is an error. ``--classes`` also takes a plain list of names, or lines of ``name,id``:
they set the order of the classes, and any other class is an error.

``-O dialect=tfod|openimages|predictionstring|retinanet`` writes these instead of the canonical form; what
they cannot hold is lost. Open Images is written with ids without extension, and with as many decimals as keep
a box in place within a millionth of a pixel.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.files import COLLISION, Output, Source, accept_name
from odm.formats._classes import refuse_class
from odm.formats._contract import LIKELY, SURE, Format, Sniff, option, parse_mapping
from odm.formats._csv import (
    INCOMPLETE_BOX,
    NO_HEADER,
    NUL,
    OPEN_QUOTE,
    QUOTE_SPAN,
    SIZE_CONFLICT,
    Quote,
    byte_shown,
    read_record,
    utf8_text,
)
from odm.formats._faults import (
    BAD_CLASS_LIST,
    BAD_CLASS_NAME,
    BAD_IMAGE_SIZE,
    NO_IMAGE_NAME,
    NOT_A_NUMBER,
    NOT_FINITE,
    NOT_UTF8,
    RELATIVE_RANGE,
    SCORE_MISSING,
    SCORE_UNEXPECTED,
    SIZE_FROM_PICTURE,
    SIZE_MISSING,
    UNKNOWN_CLASS,
    WRONG_COUNT,
)
from odm.formats._images import FAR, ImageOptions, Picture, Pictures, relative_to_images
from odm.formats._lines import relative
from odm.formats._numbers import decimals, texts
from odm.issues import Code, Log, UsageError, hint, nearest, shorten
from odm.tables import PICTURE_SUFFIXES, Builder, Dataset, Flag, Floats, Ints, Longs, stem

MISSING_COLUMN = Code(
    "missing-column",
    "error",
    "expected a column for {role}, found the columns {found}{near}",
    "name the column with -O columns={example}",
    "Without this column a row does not describe a box.",
)
AMBIGUOUS_COLUMN = Code(
    "ambiguous-column",
    "error",
    "the columns {found} could all be the {role}",
    "choose one with -O columns={role}:NAME",
    "Several columns have a usual name of the same thing, and nothing says which one holds.",
)
DUPLICATE_COLUMN = Code(
    "duplicate-column",
    "error",
    "expected every column once, found {value!r} as columns {first} and {second}",
    "rename or remove one of them",
    "Two columns have one name, so it is unclear which of them holds.",
)
BAD_FLAG = Code(
    "bad-flag",
    "error",
    "expected 0 or 1, found {value!r}",
    "write 1 where the mark is set, 0 or nothing where it is not",
    "Marks such as difficult or truncated decide what an evaluation counts, so other values are not guessed.",
    row=True,
)
MIXED_DECIMALS = Code(
    "mixed-decimal-marks",
    "error",
    "this line has a decimal {found}, and line {line_of_other} has a decimal {other}",
    "write all numbers with a decimal point",
    "Where both marks occur, one of them may separate thousands, so no number of the file is certain.",
)
THOUSANDS = Code(
    "doubtful-comma",
    "error",
    "{value!r} may be a number with a decimal comma or one with a comma after the thousands",
    "write numbers with a decimal point, or say -O decimal=comma",
    "Every comma of this file has three digits after it and no number decides what it means.",
)

FLAGS = {
    "difficult": Flag.DIFFICULT,
    "truncated": Flag.TRUNCATED,
    "occluded": Flag.OCCLUDED,
    "crowd": Flag.CROWD,
    "group_of": Flag.GROUP_OF,
    "depiction": Flag.DEPICTION,
    "inside": Flag.INSIDE,
}
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

FORMS = {
    "ltrb": ("left", "top", "right", "bottom"),
    "ltwh": ("left", "top", "box_width", "box_height"),
    "cxcywh": ("center_x", "center_y", "box_width", "box_height"),
}
ROLES = (
    *("image", "width", "height", "class", "score"),
    *dict.fromkeys(itertools.chain(*FORMS.values())),
    *FLAGS,
)

# Usual names of a column, in letters and digits only; a later group counts where no earlier one is there.
_NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "image": (
        ("image",),
        ("filename", "file", "imagename", "imagefile", "imagefilename", "imgname", "img"),
        ("path", "filepath", "imagepath", "imgpath", "imageid", "imgid"),
    ),
    "width": (("imagewidth", "imgwidth", "imagew", "imgw"), ("width",)),
    "height": (("imageheight", "imgheight", "imageh", "imgh"), ("height",)),
    "class": (
        ("class",),
        ("label", "classname", "labelname", "category", "categoryname", "classlabel"),
        ("name", "object", "objectname", "cls"),
    ),
    "score": (("score",), ("confidence", "conf", "probability", "prob")),
    "left": (("left",), ("xmin", "minx", "xtl", "xleft"), ("x1", "startx"), ("x0",)),
    "top": (("top",), ("ymin", "miny", "ytl", "ytop"), ("y1", "starty"), ("y0",)),
    "right": (("right",), ("xmax", "maxx", "xbr", "xright"), ("x2", "endx"), ("x1",)),
    "bottom": (("bottom",), ("ymax", "maxy", "ybr", "ybottom"), ("y2", "endy"), ("y1",)),
    "box_width": (("boxwidth", "bboxwidth", "boxw", "bboxw"),),
    "box_height": (("boxheight", "bboxheight", "boxh", "bboxh"),),
    "center_x": (("centerx", "xcenter", "centrex", "xcentre", "cx"),),
    "center_y": (("centery", "ycenter", "centrey", "ycentre", "cy"),),
    **{name: ((name.replace("_", ""), "is" + name.replace("_", "")),) for name in FLAGS},
}
# Names of four coordinates that belong together, so that x1 is the right edge only beside x0.
_FOURS: tuple[tuple[str, str, str, str, str], ...] = (
    ("ltrb", "left", "top", "right", "bottom"),
    ("ltrb", "xmin", "ymin", "xmax", "ymax"),
    ("ltrb", "minx", "miny", "maxx", "maxy"),
    ("ltrb", "xtl", "ytl", "xbr", "ybr"),
    ("ltrb", "xleft", "ytop", "xright", "ybottom"),
    ("ltrb", "startx", "starty", "endx", "endy"),
    ("ltrb", "x1", "y1", "x2", "y2"),
    ("ltrb", "x0", "y0", "x1", "y1"),
    *(
        (form, x, y, box + w, box + h)
        for form, x, y in (
            ("ltwh", "left", "top"),
            ("ltwh", "xmin", "ymin"),
            ("ltwh", "bboxx", "bboxy"),
            ("ltwh", "boxx", "boxy"),
            ("ltwh", "bboxleft", "bboxtop"),
            ("ltwh", "bboxxmin", "bboxymin"),
            ("cxcywh", "xcenter", "ycenter"),
            ("cxcywh", "centerx", "centery"),
            ("cxcywh", "cx", "cy"),
        )
        for box in ("bbox", "box")
        for w, h in (("width", "height"), ("w", "h"))
    ),
)

_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_THOUSANDS = re.compile(r"\s*[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+\s*")
_NUMERIC = b"0123456789.+-eE \t"
_SURROGATE = re.compile("[\ud800-\udfff]")

_MANY = 1000
"""Columns among which one is looked for that may be meant."""
_CHUNK = 2**18
"""Bytes that are split at a time; small, so that the cells stay in the caches."""


def _parse_sep(text: str) -> str:
    named = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|"}
    sep = named.get(text.lower(), text)
    if len(sep) != 1 or sep in '"\r\n\0' or sep.isalnum():
        raise ValueError("give one character, such as ',' ';' or tab")
    return sep


def _parse_columns(text: str) -> dict[str, str]:
    columns = parse_mapping(text)
    for role in columns:
        if role not in ROLES:
            raise ValueError(
                f"there is no role {role!r}{hint(role, ROLES)}; the roles are {', '.join(ROLES)}"
            )
    return columns


@dataclasses.dataclass(frozen=True, kw_only=True)
class CsvOptions(ImageOptions):
    """How a CSV file is read and written."""

    sep: str | None = option(
        None, "the character between columns: ',' ';' or tab", flag="--sep", parse=_parse_sep
    )
    columns: dict[str, str] | None = option(  # noqa: RUF009 -- as all options; the type only looks mutable
        None, "which column is what: image:frame,left:x0,...", side="read", parse=_parse_columns
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
        None, "file of class names, or of MIDs and names", flag="--classes", side="both"
    )
    dialect: str = option(
        "canonical",
        "which columns to write",
        choices=("canonical", "tfod", "openimages", "predictionstring", "retinanet"),
        side="write",
    )


# ----------------------------------------------------------------------------------------------- layout


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Layout:
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


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class _Faults:
    """Why a header does not say what is needed."""

    columns: tuple[str, ...]
    found: list[tuple[Code, str, dict[str, Any]]]


def _key(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _bare(key: str) -> str:
    for prefix in ("bbox", "box"):
        if key.startswith(prefix) and len(key) > len(prefix):
            return key[len(prefix) :]
    return key


def _header_layout(cells: Sequence[str], sep: str, options: CsvOptions | None) -> _Layout | _Faults:
    """What the cells of a header line say, or what they leave open."""
    columns = tuple(cell.strip() for cell in cells)
    spaced = len(cells) > 1 and all(c[:1] == " " for c in cells[1:])
    told = dict((options and options.columns) or {})
    faults: list[tuple[Code, str, dict[str, Any]]] = []
    shown = ", ".join(map(shorten, columns[:30])) + (", ..." if len(columns) > 30 else "")
    seen: dict[str, int] = {}
    for i, name in enumerate(columns):
        if name and seen.setdefault(name, i) != i:
            values = {"value": name, "first": seen[name] + 1, "second": i + 1}
            faults.append((DUPLICATE_COLUMN, name, values))

    roles: dict[str, int] = {}
    constants: dict[str, str] = {}
    for role, name in told.items():
        if name.startswith("=") and role in ("class", "image"):
            constants[role] = name[1:]
        elif name in seen:
            roles[role] = seen[name]
        else:
            values = {"role": role, "found": shown, "near": hint(name, columns), "example": f"{role}:NAME"}
            faults.append((MISSING_COLUMN, name, values))
            roles[role] = 0
    places: dict[str, list[int]] = {}
    for i, name in enumerate(columns):
        if name and i not in roles.values() and seen[name] == i:
            places.setdefault(_key(name), []).append(i)
    keys = set(places)

    def one(role: str, names: Iterable[str]) -> bool:
        """Whether one of these names is there; if it is not the only one, that is a fault."""
        found = sorted(i for name in names for i in places.get(name, ()))
        if len(found) > 1:
            several = ", ".join(shorten(columns[i]) for i in found)
            faults.append((AMBIGUOUS_COLUMN, role, {"role": role, "found": several}))
        if found:
            roles[role] = found[0]
        return bool(found)

    open_images = {"imageid", "labelname", "xmin", "xmax", "ymin", "ymax"} <= keys
    strings = {"imageid", "predictionstring"} <= keys and not told
    for role in ("image", "width", "height", "class", "score", *FLAGS):
        if role in roles or role in constants or (role == "score" and open_images and "score" not in keys):
            continue
        any(one(role, names) for names in _NAMES[role])
    if strings:
        if faults:
            return _Faults(columns, faults)
        return _Layout(
            "Open Images predictions in a PredictionString",
            sep,
            columns,
            roles,
            coords="rel",
            spaced=spaced,
            strings=places["predictionstring"][0],
            sure=False,  # strings of other groups have this header too
        )

    form = _find_coordinates(roles, places, told, one)
    lacking = [r for r in ("image", "class", *FORMS[form]) if r not in roles and r not in constants]
    if len(lacking) == 6 and not told and not faults:
        return _Faults(columns, [(NO_HEADER, "", {"found": repr(shorten(sep.join(columns)))})])
    _report_lacking(lacking, roles, columns, shown, faults)
    if faults:
        return _Faults(columns, faults)

    if told:
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
    elif set(map(_key, TFOD)) <= keys:
        title, coords = "TF Object Detection CSV", "sniff"
    else:
        named = ", ".join(
            f"{role} = {shorten(columns[i])}" for role, i in roles.items() if role != columns[i]
        )
        title, coords = "CSV by the names of its columns" + (f" ({named})" if named else ""), "sniff"
    # A format whose header this is may be surer of it than usual names of columns can make.
    sure = not title.startswith("CSV by")
    return _Layout(title, sep, columns, roles, form, coords, constants, spaced=spaced, sure=sure)


def _report_lacking(
    lacking: list[str],
    roles: Mapping[str, int],
    columns: Sequence[str],
    shown: str,
    faults: list[tuple[Code, str, dict[str, Any]]],
) -> None:
    """Report the roles that no column has; where all four coordinates lack, in one."""
    taken = set(roles.values())
    free = [name for i, name in enumerate(columns[:_MANY]) if i not in taken and len(name) > 2]
    groups = [[role] for role in lacking]
    if len(lacking) >= 4 and lacking[-4:] == list(FORMS["ltrb"]):
        groups = [*groups[:-4], lacking[-4:]]
    for group in groups:
        usual = itertools.chain.from_iterable((role, *itertools.chain(*_NAMES[role])) for role in group)
        near = next((found for name in usual if (found := _near(name, free))), "")
        role = ", ".join(group)
        example = ",".join(f"{r}:NAME" for r in group)
        faults.append(
            (MISSING_COLUMN, role, {"role": role, "found": shown, "near": near, "example": example})
        )


def _near(name: str, columns: Sequence[str]) -> str:
    found = nearest(name, columns)
    return f" (is it {shorten(found)!r}?)" if found else ""


def _find_coordinates(
    roles: dict[str, int], places: dict[str, list[int]], told: Mapping[str, str], one: Any
) -> str:
    """Find the columns of the four coordinates; the form of the box that they make."""
    if told.keys() & set(itertools.chain(*FORMS.values())):
        form = max(FORMS, key=lambda f: len(told.keys() & set(FORMS[f])))
        for role in FORMS[form]:
            if role not in roles:
                any(one(role, names) for names in _NAMES[role])
        return form
    bare: dict[str, list[int]] = {}
    for key, found in places.items():
        bare.setdefault(_bare(key), []).extend(found)
    for form, *names in _FOURS:
        names_there = bare if form == "ltrb" else places
        if all(name in names_there for name in names):
            saved = dict(places)
            places.update({name: names_there[name] for name in names})
            for role, name in zip(FORMS[form], names, strict=True):
                one(role, (name,))
            places.clear()
            places.update(saved)
            return form
    for role in FORMS["ltrb"]:  # what is there, so that only the rest is reported as missing
        any(one(role, names) for names in _NAMES[role][:3])
    return "ltrb"


def _find_layout(text: str, options: CsvOptions | None) -> _Layout | _Faults | None:
    """The layout that the first lines of a file show; None where there is no text."""
    told_sep, text = _sep_line(text)
    text = text.lstrip("\n")
    if not text.strip():
        return None
    if options is not None and options.sep is not None:
        told_sep = options.sep
    candidates = [told_sep] if told_sep else list(_SEPARATORS)
    best: _Faults | None = None
    for sep in candidates:
        record = read_record(text, 0, sep, spaced=False)
        if isinstance(record[0], tuple):
            code, _, _, what = record[0]
            faulty = [(code, "", {"found": what, "value": what})]
            best = best or _Faults(tuple(text.split("\n", 1)[0].split(sep)), faulty)
            continue
        found = _header_layout(record[0], sep, options)
        if isinstance(found, _Layout):
            return found
        if best is None or len(found.columns) > len(best.columns) or best.found[0][0] is OPEN_QUOTE:
            best = found
        if not (options and options.columns):
            plain = _retinanet_layout(text, sep)
            if plain is not None:
                return plain
    return best


def _sep_line(text: str) -> tuple[str | None, str]:
    """The separator that a first line ``sep=;`` names, and the text without that line."""
    if text[:4].lower() == "sep=" and len(text) > 5 and text[5] == "\n":
        return text[4], "\n" + text[6:]
    return None, text


def _retinanet_layout(text: str, sep: str) -> _Layout | None:
    rows = [read_record(line, 0, sep, spaced=False)[0] for line in text.split("\n", 50)[:50] if line.strip()]
    fitting = 0
    for cells in rows:
        if isinstance(cells, list) and len(cells) == 6 and cells[0].strip():
            box = [cell.strip() for cell in cells[1:5]]
            numbers = sum(_NUMBER.fullmatch(cell) is not None for cell in box)
            fitting += not any(box) or numbers >= 3
    if fitting * 2 <= len(rows):
        return None
    roles = {"image": 0, "left": 1, "top": 2, "right": 3, "bottom": 4, "class": 5}
    return _Layout(
        "keras-RetinaNet CSV, which has no header",
        sep,
        tuple(RETINANET),
        roles,
        coords="abs",
        header=False,
        sure=False,
    )


# ---------------------------------------------------------------------------------------------- records


def _cut(data: bytes, start: int, *, size: int = _CHUNK) -> list[tuple[int, int]]:
    """Places to cut the data in pieces that end with a line, and not within quotes."""
    cuts = []
    quoted = b'"' in data
    while start < len(data):
        end = data.find(b"\n", min(start + size, len(data))) + 1 or len(data)
        if quoted and data.count(b'"', start, end) % 2:
            at = end
            for _ in range(1000):  # a quote may be open here: look for the line where it is closed
                after = data.find(b"\n", at) + 1
                if not after or after - end > 4 * QUOTE_SPAN:
                    break
                if data.count(b'"', at, after) % 2:
                    end = after
                    break
                at = after
        cuts.append((start, end))
        start = end
    return cuts


def _split_plain(text: str, layout: _Layout, lines: int) -> list[list[str]] | None:
    """The columns of `lines` lines without quotes, all at once; None where not all have the same cells."""
    sep, n = layout.sep, len(layout.columns)
    if layout.spaced:
        while f"{sep} " in text:
            text = text.replace(f"{sep} ", sep)
        while "\n " in text:
            text = text.replace("\n ", "\n")
        text = text.lstrip(" ")
    # Each line break becomes a cell of its own: where every (n + 1)th cell is one, all lines have n cells.
    cells = text.replace("\n", f"{sep}\n{sep}").split(sep)
    if len(cells) != lines * (n + 1) + 1 or cells[n :: n + 1].count("\n") != lines:
        return None
    cells.pop()
    return [cells[i :: n + 1] for i in range(n)]


def _split_quoted(text: str, layout: _Layout, lines: int) -> list[list[str]] | None:
    """The same of text with quotes; None where anything about it is unusual."""
    if not layout.spaced and (columns := _split_plain(text, layout, lines)) is not None:
        bare = [_unquoted(column) for column in columns]
        if None not in bare:
            return [column for column in bare if column is not None]
    parts = text.split("\n")
    parts.pop()
    reader = csv.reader(parts, delimiter=layout.sep, strict=True, skipinitialspace=layout.spaced)
    try:
        rows = list(reader)
    except csv.Error:
        return None
    n = len(layout.columns)
    if len(rows) != lines or set(map(len, rows)) != {n}:
        return None
    cells = list(itertools.chain.from_iterable(rows))
    if '"' in "".join(cells):  # the library also lets through what is not quoted as it should be
        return None
    return [cells[i::n] for i in range(n)]


def _unquoted(cells: list[str]) -> list[str] | None:
    """The cells of a column in which all or none are in quotes, and none needs them; else None."""
    joined = "\n".join(cells)
    if '"' not in joined:
        return cells
    if joined.count('"') != 2 * len(cells):
        return None
    bare = [cell.strip('"') for cell in cells]
    return bare if '"' + '"\n"'.join(bare) + '"' == joined else None


class _ClassRows(dict[str, int]):
    """Category rows by the text of a cell: -1 for an empty one, less for one that cannot be used."""

    def __init__(self, builder: Builder, names: _ClassNames | None) -> None:
        self.faults: list[tuple[Code, dict[str, Any]]] = []
        self._builder = builder
        self._names = names

    def __missing__(self, cell: str) -> int:
        row = self[cell] = self._find(cell)
        return row

    def _find(self, cell: str) -> int:
        if not cell.strip():
            return -1
        if (reason := refuse_class(cell)) is not None:
            return self._fault(BAD_CLASS_NAME, {"value": cell, "reason": reason})
        name = cell if self._names is None else self._names.name(cell)
        if name is None:
            assert self._names is not None
            where = self._names.path
            return self._fault(UNKNOWN_CLASS, {"value": cell, "n": len(self._names), "where": where})
        return self._builder.category(name)

    def _fault(self, code: Code, values: dict[str, Any]) -> int:
        self.faults.append((code, values))
        return -1 - len(self.faults)


class _ImageRows(dict[str, int]):
    """Numbers of image names in the order in which they are met."""

    def __missing__(self, name: str) -> int:
        row = self[name] = len(self)
        return row


class _ClassNames:
    """A file of class names: MIDs with their names, names with their ids, or names alone."""

    def __init__(self, path: str, data: bytes, log: Log) -> None:
        self.path = path
        self.order: list[str] = []
        """The classes in their order, where the file sets one."""
        self._by_cell: dict[str, str] = {}
        try:
            text = data.removeprefix(b"\xef\xbb\xbf").decode()
        except UnicodeDecodeError as e:
            log.report(
                NOT_UTF8, path, line=data.count(b"\n", 0, e.start) + 1, value=byte_shown(data[e.start])
            )
            return
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
        rows = []
        for number, line in lines:
            cells, _ = read_record(line, 0, "\t" if "\t" in line and "," not in line else ",", spaced=False)
            if isinstance(cells, tuple):
                log.report(cells[0], path, line=number, found=cells[3], value=cells[3])
                return
            rows.append((number, [cell.strip() for cell in cells]))
        if rows and [c.lower() for c in rows[0][1]] in (["labelname", "displayname"], ["class", "id"]):
            del rows[0]
        widths = {len(cells) for _, cells in rows}
        if len(widths) > 1:
            odd = next(number for number, cells in rows if len(cells) != len(rows[0][1]))
            log.report(BAD_CLASS_LIST, path, line=odd, reason="its lines have different numbers of cells")
            return
        seen: dict[str, int] = {}
        for number, cells in rows:
            if (reason := next((r for c in cells if (r := refuse_class(c)) is not None), None)) is not None:
                log.report(
                    BAD_CLASS_LIST, path, line=number, reason=f"in {shorten(','.join(cells))!r}, {reason}"
                )
                return
            if seen.setdefault(cells[0], number) != number:
                reason = f"{shorten(cells[0])!r} is there already, in line {seen[cells[0]]}"
                log.report(BAD_CLASS_LIST, path, line=number, reason=reason)
                return
        if widths == {1}:
            self.order = [cells[0] for _, cells in rows]
        elif all(len(cells) == 2 and cells[1].isascii() and cells[1].isdigit() for _, cells in rows):
            self.order = [cells[0] for _, cells in sorted(rows, key=lambda row: int(row[1][1]))]
        else:
            self._by_cell = {cells[0]: cells[1] for _, cells in rows}
        for name in self.order or list(self._by_cell.values()):
            self._by_cell.setdefault(name, name)

    def __len__(self) -> int:
        return len(self._by_cell)

    def name(self, cell: str) -> str | None:
        """The name of the class that a cell means."""
        return self._by_cell.get(cell)

    def labels(self) -> dict[str, str]:
        """The label of each name: the way back."""
        return {name: label for label, name in reversed(self._by_cell.items()) if label != name}


# --------------------------------------------------------------------------------------------- sniffing


def sniff(source: Source) -> Sniff | None:
    """Whether the header, or without one the rows, of the files are those of a known dialect."""
    files = source.with_suffix(".csv", ".tsv")
    found: list[_Layout] = []
    for file in files[:50]:
        head = source.head(file)
        decoded = utf8_text(head[: len(head) // 4 * 4])
        if isinstance(decoded, str):
            continue
        text = decoded[0].decode("utf-8", "replace")
        if len(head) >= 2**16 and "\n" in text:
            text = text[: text.rindex("\n")]
        layout = _find_layout(text, None)
        if isinstance(layout, _Layout):
            found.append(layout)
    if not found:
        return None
    first = found[0]
    what = f"{len(found)} CSV files fit, the first is" if source.is_dir else "it is"
    rows = "its header names" if first.header else "its rows have"
    columns = ",".join(map(shorten, first.columns[:8])) + (",..." if len(first.columns) > 8 else "")
    return Sniff(SURE if first.sure else LIKELY, f"{what} {first.title}: {rows} {columns}")


# ---------------------------------------------------------------------------------------------- reading


def read(source: Source, builder: Builder, log: Log, options: CsvOptions) -> None:
    """Read a file, or every CSV file of a folder."""
    for role in options.columns or ():
        if role not in ROLES:
            raise UsageError(f"columns: there is no role {role!r}{hint(role, ROLES)}")
    files = source.with_suffix(".csv", ".tsv") if source.is_dir else source.files
    descriptions = [f for f in files if source.is_dir and _names_classes(f)]
    names = _class_names(source, descriptions, log, options)
    reader = _Reader(source, builder, log, options, names)
    skip = {options.image_sizes, options.classes}
    kept = [f for f in files if f not in descriptions and source.full(f) not in skip]
    if not kept:
        log.report(NO_HEADER, source.path, found="no file that ends in .csv or .tsv")
    for file in log.track(kept, "reading CSV") if len(kept) > 1 else kept:
        reader.read_file(file, track=len(kept) == 1)
    reader.finish()


def _names_classes(file: str) -> bool:
    """Whether a file of a folder is a list of classes by its name."""
    key = _key(file.rsplit("/", 1)[-1])
    return "classdescriptions" in key or key == "classescsv"


def _class_names(
    source: Source, descriptions: list[str], log: Log, options: CsvOptions
) -> _ClassNames | None:
    if options.classes is not None:
        return _read_class_names(Source(options.classes, follow_links=True), "", log)
    if descriptions:
        if len(descriptions) > 1:
            log.note(
                f"{len(descriptions)} files of class descriptions; {descriptions[0]} is used (--classes)"
            )
        else:
            log.note(f"the class names are those of {descriptions[0]} (--classes names another file)")
        return _read_class_names(source, descriptions[0], log)
    return None


def _read_class_names(source: Source, file: str, log: Log) -> _ClassNames | None:
    data = source.read(file, log)
    if data is None:
        return None
    errors = log.errors
    names = _ClassNames(source.full(file), data, log)
    return names if log.errors == errors else None


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class _Boxes:
    """Boxes as they stand in the rows of a file, before pixels and kinds are decided."""

    layout: _Layout
    image: Ints
    category: Ints
    numbers: Floats
    score: Floats
    flags: NDArray[np.uint16]
    file: int
    line: Ints


_Fault = tuple[int, int, Code | None, dict[str, Any]]


class _Reader:
    """Collects rows over all files, then decides what needs all of them and fills the builder."""

    def __init__(
        self, source: Source, builder: Builder, log: Log, options: CsvOptions, names: _ClassNames | None
    ) -> None:
        self.source, self.builder, self.log, self.options = source, builder, log, options
        self.images = _ImageRows()
        self.good = np.zeros(0, bool)
        """Whether the name of an image may be used; this and the next column have room to grow."""
        self.sizes = np.zeros((0, 2), np.int64)
        self.first_file: list[int] = []
        self.first_line: list[int] = []
        self.classes = _ClassRows(builder, names)
        for name in names.order if names else ():
            builder.category(name)
        self.boxes: list[_Boxes] = []
        self.titles: dict[str, list[str]] = {}
        self.paths: dict[int, str] = {}
        """Paths by the builder's file numbers."""
        self.name_columns: dict[int, str] = {}
        self.zeros: set[int] = set()
        """Images whose size is given as 0."""
        self.ids: set[int] = set()
        """Images that a file names by an id rather than by a file name."""

    # -- one file

    def read_file(self, file: str, *, track: bool) -> None:
        log, path = self.log, self.source.full(file)
        data = self.source.read(file, log)
        if data is None:
            return
        decoded = utf8_text(data)
        if isinstance(decoded, str):
            log.report(NOT_UTF8, path, value=decoded)
            return
        data, encoding = decoded
        if encoding:
            log.note(f"{path}: read as {encoding.upper()}, which its byte order mark says")
        head = data[: data.find(b"\n", 2**16) + 1 or len(data)].decode("utf-8", "surrogateescape")
        layout = _find_layout(head, self.options)
        if layout is None:
            if self.builder.kind == "det":
                log.note(f"{path}: the file is empty, so it holds no detections")
            else:
                log.report(NO_HEADER, path, found="an empty file")
            return
        start, line = self._begin(head)
        if isinstance(layout, _Faults):
            for code, field, values in layout.found:
                log.report(code, path, line=line, field=field, **values)
            return
        if self.options.coords:
            layout = dataclasses.replace(layout, coords=self.options.coords)
        self.layout, self.path = layout, path
        self.titles.setdefault(layout.title, []).append(path)
        self.file = self.builder.file(path)
        self.paths[self.file] = path
        self.name_columns[self.file] = self._name(layout.roles["image"]) if "image" in layout.roles else ""
        self.commas: tuple[int, str] | None = None
        self.points: tuple[int, str] | None = None
        self.doubtful: tuple[int, str] | None = None
        self.plain_comma = False
        self.known = frozenset(layout.roles.values())
        if layout.header:
            record = read_record(head, start, layout.sep, spaced=layout.spaced)
            stop = record[1] + 1
            bad = [i for i, name in enumerate(layout.columns) if _SURROGATE.search(name) or "\0" in name]
            if bad:
                log.report(NOT_UTF8, path, line=line, value=repr(layout.columns[bad[0]]))
            line += head.count("\n", start, stop)
            start = stop
        begin = len(head[:start].encode("utf-8", "surrogateescape"))
        cuts = _cut(data, begin)
        for first, last in log.track(cuts, "reading CSV") if track else cuts:
            piece = data[first:last]
            if not piece.endswith(b"\n"):
                piece += b"\n"
            lines = piece.count(b"\n")
            self._read_piece(piece, line, lines)
            line += lines
        self._judge_decimals()

    def _begin(self, head: str) -> tuple[int, int]:
        """Where the first record begins, and its line."""
        start = 6 if _sep_line(head)[0] else 0
        while start < len(head) and head[start] == "\n":
            start += 1
        return start, head.count("\n", 0, start) + 1

    def _read_piece(self, piece: bytes, line: int, lines: int) -> None:
        columns = None
        try:
            text = piece.decode()
        except UnicodeDecodeError:
            text = piece.decode("utf-8", "surrogateescape")
        else:
            if "\0" not in text:
                split = _split_quoted if '"' in text else _split_plain
                columns = split(text, self.layout, lines)
        if columns is not None:
            self._take(columns, np.arange(line, line + lines, dtype=np.int32))
        else:
            columns, numbers = self._scan(text, line)
            self._take(columns, numbers)

    def _scan(self, text: str, line: int) -> tuple[list[list[str]], Ints]:
        """The columns of the good rows, line by line; each fault with its place."""
        layout, log = self.layout, self.log
        sep, n = layout.sep, len(layout.columns)
        rows: list[list[str]] = []
        numbers: list[int] = []
        at, length = 0, len(text)
        while at < length:
            end = text.find("\n", at)
            end = length if end < 0 else end
            content, here = text[at:end], line
            cells: list[str]
            if not content.strip(" \t"):
                at, line = end + 1, line + 1
                continue
            if '"' in content:
                found, stop = read_record(text, at, sep, spaced=layout.spaced)
                if isinstance(found, tuple):
                    code, cell, place, what = found
                    opened = line + text.count("\n", at, place)
                    log.report(code, self.path, line=opened, field=self._name(cell), found=what, value=what)
                    self.builder.skipped += 1
                    at, line = end + 1, line + 1
                    continue
                cells = found
                line += text.count("\n", at, stop) + 1
                content, at = text[at:stop], stop + 1
            else:
                cells = content.split(sep)
                if layout.spaced:
                    cells = [cell.lstrip(" ") for cell in cells]
                at, line = end + 1, line + 1
            if ("\0" in content or not content.isascii()) and not self._is_text(cells, here):
                self.builder.skipped += 1
            elif len(cells) != n:
                spans = f" (a quoted cell runs from line {here} to {line - 1})" if line - here > 1 else ""
                found_text = f"{len(cells)}{spans}"
                log.report(
                    WRONG_COUNT,
                    self.path,
                    line=here,
                    expected=f"{n} cells as in the header" if layout.header else f"{n} cells",
                    found=found_text,
                    field=self._name(min(len(cells), n)),
                )
                self.builder.skipped += 1
            else:
                rows.append(cells)
                numbers.append(here)
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(n)]
        return columns, np.array(numbers, np.int32)

    def _is_text(self, cells: list[str], line: int) -> bool:
        good = True
        for i, cell in enumerate(cells):
            if "\0" in cell:
                self.log.report(NUL, self.path, line=line, field=self._name(i), value=cell)
                good = False
            elif not cell.isascii() and (match := _SURROGATE.search(cell)):
                value = byte_shown(ord(match[0]) - 0xDC00)
                self.log.report(NOT_UTF8, self.path, line=line, field=self._name(i), value=value)
                good = False
        return good

    def _name(self, column: int) -> str:
        names = self.layout.columns
        return (names[column] or f"column {column + 1}") if column < len(names) else ""

    # -- rows of one piece

    def _take(self, columns: list[list[str]], lines: Ints) -> None:
        if not len(lines):
            return
        if self.layout.strings is not None:
            self._take_strings(columns, lines)
        else:
            self._take_rows(columns, lines, self.layout.roles)
        for i, name in enumerate(self.layout.columns):
            if name and i not in self.known and i != self.layout.strings:
                n = len(columns[i]) - columns[i].count("")
                if n:
                    self.builder.extras[name] = self.builder.extras.get(name, 0) + n

    def _take_strings(self, columns: list[list[str]], lines: Ints) -> None:
        """Turn prediction strings into rows: a loop over images, not over boxes."""
        column = self.layout.strings
        assert column is not None
        names: list[str] = []
        cells: list[str] = []
        numbers: list[int] = []
        for name, text, line in zip(
            columns[self.layout.roles["image"]], columns[column], lines.tolist(), strict=True
        ):
            words = [word for word in text.replace("\t", " ").split(" ") if word]
            n, rest = divmod(len(words), 6)
            if rest:
                expected = "groups of six: label score xmin ymin xmax ymax"
                self.log.report(
                    WRONG_COUNT,
                    self.path,
                    line=line,
                    field=self._name(column),
                    expected=expected,
                    found=f"{len(words)} words",
                )
                self.builder.skipped += n + 1
                words, n = [], 0
            names += [name] * max(n, 1)
            cells += words or [""] * 6
            numbers += [line] * max(n, 1)
        roles = {"class": 1, "score": 2, "left": 3, "top": 4, "right": 5, "bottom": 6, "image": 0}
        self._take_rows([names, *(cells[i::6] for i in range(6))], np.array(numbers, np.int32), roles)

    def _take_rows(self, columns: list[list[str]], lines: Ints, roles: Mapping[str, int]) -> None:
        n = len(lines)
        faults: list[_Fault] = []
        bad = np.zeros(n, bool)
        numbers = np.empty((n, 4))
        blanks = np.zeros((4, n), bool)
        form = FORMS[self.layout.form]
        for k, role in enumerate(form):
            numbers[:, k], blanks[k] = self._numbers(columns[roles[role]], roles[role], lines, faults, bad)
        no_box = blanks.all(axis=0)
        score = np.full(n, np.nan)
        if "score" in roles:
            score, _ = self._numbers(columns[roles["score"]], roles["score"], lines, faults, bad)
        images, real = self._images(columns, roles, lines, faults, bad)
        category = self._categories(columns, roles, n)

        if (
            odd := (blanks.any(axis=0) & ~no_box) | (no_box & real & ((category != -1) | ~np.isnan(score)))
        ).any():
            if "class" not in roles:  # the same class for all rows says nothing about one
                odd &= ~no_box | ~np.isnan(score)
            for i in np.nonzero(odd)[0].tolist():
                missing = [form[k] for k in range(4) if blanks[k, i]]
                places = ", ".join(self._role_name(roles, role) for role in missing)
                faults.append((i, roles[missing[0]], INCOMPLETE_BOX, {"missing": places}))
            bad |= odd
        classless = (category < 0) & ~no_box | (category < -1)
        for i in np.nonzero(classless)[0].tolist():
            code, values = BAD_CLASS_NAME, {"value": "", "reason": "it is empty"}
            if category[i] < -1:
                code, values = self.classes.faults[-2 - category[i]]
            faults.append((i, roles.get("class", 0), code, values))
        bad |= classless
        flags = self._flags(columns, roles, n, faults, bad)
        self._take_sizes(columns, roles, lines, images, real, faults, bad)

        self._report(faults, lines, columns)
        self.builder.skipped += int(np.count_nonzero(bad & ~no_box))
        keep = ~bad & ~no_box
        everything = bool(keep.all())
        rows = slice(None) if everything else np.nonzero(keep)[0]
        self.boxes.append(
            _Boxes(
                self.layout,
                images[rows],
                category[rows],
                numbers[rows],
                score[rows],
                flags[rows],
                self.file,
                lines[rows],
            )
        )

    def _role_name(self, roles: Mapping[str, int], role: str) -> str:
        return role if self.layout.strings is not None else self._name(roles[role])

    def _report(self, faults: list[_Fault], lines: Ints, columns: list[list[str]]) -> None:
        faults.sort(key=lambda fault: fault[:2])
        for row, column, code, values in faults:
            line = int(lines[row])
            strings = self.layout.strings
            field = self._name(strings if strings is not None and column else column)
            if code is None:
                accept_name(columns[column][row], self.log, self.path, line=line, field=field)
            else:
                self.log.report(code, self.path, line=line, field=field, **values)

    def _numbers(
        self, cells: list[str], column: int, lines: Ints, faults: list[_Fault], bad: NDArray[np.bool_]
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """The numbers of a column, NaN where a cell is empty, and which are; faults are noted."""
        n = len(cells)
        joined = "".join(cells)
        if not joined:
            return np.full(n, np.nan), np.ones(n, bool)
        rest = joined.encode("utf-8", "surrogatepass").translate(None, _NUMERIC)
        if not rest.strip(b","):
            ready = cells
            if rest:
                self._note_commas(cells, lines)
                ready = [cell.replace(",", ".") for cell in cells]
            if self.points is None and "." in joined:
                self._note_points(cells, lines)
            try:
                values = np.fromiter(
                    map(float, [c or "nan" for c in ready] if "" in ready else ready), np.float64, n
                )
            except ValueError:
                pass
            else:
                if not np.isinf(values).any() and not (rest and self.options.decimal == "point"):
                    return values, np.isnan(values)
        else:
            self._note_commas(cells, lines)
            self._note_points(cells, lines)
        values = np.full(n, np.nan)
        blank = np.zeros(n, bool)
        for i, cell in enumerate(cells):
            text = cell.strip(" \t")
            if not text:
                blank[i] = True
                continue
            if _NUMBER.fullmatch(text) and not ("," in text and self.options.decimal == "point"):
                values[i] = float(text.replace(",", "."))
                if np.isfinite(values[i]):
                    continue
                code = NOT_FINITE
            else:
                code = NOT_FINITE if _NOT_FINITE.fullmatch(text) else NOT_A_NUMBER
            values[i] = np.nan
            bad[i] = True
            faults.append((i, column, code, {"value": cell}))
        return values, blank

    def _note_commas(self, cells: list[str], lines: Ints) -> None:
        for i, cell in enumerate(cells):
            if "," in cell and _NUMBER.fullmatch(cell.strip(" \t")):
                if self.commas is None or lines[i] < self.commas[0]:
                    self.commas = int(lines[i]), cell
                if not _THOUSANDS.fullmatch(cell):
                    self.plain_comma = True
                elif self.doubtful is None:
                    self.doubtful = int(lines[i]), cell
                if self.plain_comma:
                    return
            elif _THOUSANDS.fullmatch(cell) and self.doubtful is None:
                self.doubtful = int(lines[i]), cell

    def _note_points(self, cells: list[str], lines: Ints) -> None:
        for i, cell in enumerate(cells):
            if "." in cell and _NUMBER.fullmatch(cell.strip(" \t")):
                if self.points is None or lines[i] < self.points[0]:
                    self.points = int(lines[i]), cell
                return

    def _judge_decimals(self) -> None:
        """Say how the commas of the file were read, or that they cannot be."""
        if self.commas is None or self.options.decimal == "point":
            return
        if self.points is not None:
            first, second = (self.commas, "comma"), (self.points, "point")
            if first[0][0] < second[0][0]:
                first, second = second, first
            self.log.report(
                MIXED_DECIMALS,
                self.path,
                line=first[0][0],
                found=first[1],
                other=second[1],
                line_of_other=second[0][0],
            )
        elif self.doubtful is not None and not self.plain_comma and self.options.decimal is None:
            self.log.report(THOUSANDS, self.path, line=self.doubtful[0], value=self.doubtful[1])
        else:
            self.log.note(f"{self.path}: its numbers have decimal commas, which are read as decimal points")

    def _images(
        self,
        columns: list[list[str]],
        roles: Mapping[str, int],
        lines: Ints,
        faults: list[_Fault],
        bad: NDArray[np.bool_],
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """The images of the rows, and which rows are not blank altogether."""
        n = len(lines)
        constant = self.layout.constants.get("image")
        cells = [constant] * n if constant is not None else columns[roles["image"]]
        column = roles.get("image", 0)
        old = len(self.images)
        rows = np.fromiter(map(self.images.__getitem__, cells), np.int32, n)
        new = len(self.images) - old
        if new:
            fresh = np.nonzero(rows >= old)[0][::-1]
            first = np.zeros(new, np.int64)
            first[rows[fresh] - old] = fresh  # the last one written is the first one met
            self.first_line += lines[first].tolist()
            self.first_file += [self.file] * new
            if self.layout.coords == "rel" and self.layout.columns[column].lower() == "imageid":
                self.ids.update(range(old, old + new))
            room = old + new - len(self.good)
            if room > 0:
                room += len(self.good)
                self.good = np.concatenate([self.good, np.zeros(room, bool)])
                self.sizes = np.concatenate([self.sizes, np.zeros((room, 2), np.int64)])
            scratch, said = Log(keep=0), 0
            accepted: list[bool] = []
            for row in first.tolist():
                name = cells[row]
                good = accept_name(name, scratch, self.path)
                accepted.append(good)
                if len(scratch.counts) and scratch.counts.total() > said:
                    said = scratch.counts.total()
                    if good:  # it may be used, but there is a warning
                        faults.append((row, column, None, {}))
            self.good[old : old + new] = accepted
        wrong = ~self.good[rows]
        real = np.ones(n, bool)
        for i in np.nonzero(wrong)[0].tolist():
            if cells[i].strip():
                faults.append((i, column, None, {}))
            elif any(c[i].strip() for c in columns):
                faults.append((i, column, NO_IMAGE_NAME, {}))
            else:
                real[i] = False
        bad |= wrong & real
        return rows, real

    def _categories(self, columns: list[list[str]], roles: Mapping[str, int], n: int) -> Ints:
        constant = self.layout.constants.get("class")
        if constant is not None:
            return np.full(n, self.classes[constant], np.int32)
        return np.fromiter(map(self.classes.__getitem__, columns[roles["class"]]), np.int32, n)

    def _flags(
        self,
        columns: list[list[str]],
        roles: Mapping[str, int],
        n: int,
        faults: list[_Fault],
        bad: NDArray[np.bool_],
    ) -> NDArray[np.uint16]:
        flags = np.zeros(n, np.uint16)
        for name, bit in FLAGS.items():
            if name not in roles:
                continue
            cells = columns[roles[name]]
            kinds = set(cells)
            if kinds <= {"", "0"}:
                continue
            unknown = self.layout.title.startswith("Open Images")
            values = {kind: _flag(kind, unknown=unknown) for kind in kinds}
            column = np.fromiter(map(values.__getitem__, cells), np.int8, n)
            wrong = column < 0
            rows = np.nonzero(wrong)[0].tolist()
            faults += [(i, roles[name], BAD_FLAG, {"value": cells[i]}) for i in rows]
            bad |= wrong
            flags |= np.where(column > 0, np.uint16(bit), np.uint16(0))
        return flags

    def _take_sizes(
        self,
        columns: list[list[str]],
        roles: Mapping[str, int],
        lines: Ints,
        images: Ints,
        real: NDArray[np.bool_],
        faults: list[_Fault],
        bad: NDArray[np.bool_],
    ) -> None:
        if "width" not in roles and "height" not in roles:
            return
        n = len(lines)
        plain = [_plain_sizes(columns[roles[r]]) if r in roles else None for r in ("width", "height")]
        if plain[0] is not None and plain[1] is not None and plain[0].all() and plain[1].all():
            size = np.stack([plain[0], plain[1]], axis=1)
            self._settle_sizes(columns, roles, images, np.arange(n), size, faults)
            return
        given = np.zeros((n, 2))
        blank = np.ones((n, 2), bool)
        for k, role in enumerate(("width", "height")):
            if role not in roles:
                continue
            column = roles[role]
            wrong = np.zeros(n, bool)
            given[:, k], blank[:, k] = self._numbers(columns[column], column, lines, faults, wrong)
            bad |= wrong
            blank[:, k] |= wrong
            values = np.where(blank[:, k], 0, given[:, k])
            unfit = (values < 0) | (values >= 2**31) | (values != np.rint(values))
            rows = np.nonzero(unfit)[0].tolist()
            faults += [(i, column, BAD_IMAGE_SIZE, {"value": columns[column][i]}) for i in rows]
            bad |= unfit
            given[:, k] = np.where(unfit, 0, values)
            blank[:, k] |= unfit
        half = (blank[:, 0] != blank[:, 1]) & ~bad & real
        for i in np.nonzero(half)[0].tolist():
            column = roles.get(
                "width" if blank[i, 0] else "height", roles.get("height", roles.get("width", 0))
            )
            faults.append((i, column, BAD_IMAGE_SIZE, {"value": ""}))
        bad |= half
        size = given.astype(np.int64)
        stated = ~blank.any(axis=1)
        zero = stated & (size == 0).any(axis=1)
        self.zeros.update(images[zero & real].tolist())
        stated &= ~zero
        self._settle_sizes(columns, roles, images, np.nonzero(stated & real)[0], size, faults)

    def _settle_sizes(
        self,
        columns: list[list[str]],
        roles: Mapping[str, int],
        images: Ints,
        told: NDArray[np.intp],
        size: Longs,
        faults: list[_Fault],
    ) -> None:
        """Take the sizes of the rows `told`: the first row of an image decides, and others must agree."""
        numbers = images[told]
        backward = np.nonzero(self.sizes[numbers, 0] == 0)[0][::-1]
        self.sizes[numbers[backward]] = size[told[backward]]
        differs = (self.sizes[numbers] != size[told]).any(axis=1)
        for i in told[differs].tolist():
            w, h = self.sizes[images[i]].tolist()
            name = columns[roles["image"]][i] if "image" in roles else ""
            values = {"value": name, "found": f"{size[i, 0]}x{size[i, 1]}", "other": f"{w}x{h}"}
            faults.append((i, roles.get("width", 0), SIZE_CONFLICT, values))

    # -- all files

    def finish(self) -> None:
        """Decide what all rows together decide, and fill the builder."""
        builder, log = self.builder, self.log
        for title, paths in self.titles.items():
            if title != "canonical CSV":
                more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
                log.note(f"{paths[0]}{more}: read as {title}")
        relative = self._is_relative()
        sizes = self._add_images(relative)
        number = np.cumsum(self.good) - 1
        kind = self._kind()
        builder.kind = kind
        for boxes in self.boxes:
            rows = np.arange(len(boxes.line))
            rows = self._check_kind(boxes, rows, kind)
            scaled = boxes.layout.coords == "rel" or (boxes.layout.coords == "sniff" and relative)
            if scaled:
                rows = self._check_relative(boxes, rows, sizes)
            self._add_boxes(boxes, rows, number, sizes if scaled else None)

    def _is_relative(self) -> bool:
        """Whether boxes whose dialect has pixels and relative coordinates under one header are relative."""
        sniffed = [b.numbers for b in self.boxes if b.layout.coords == "sniff" and len(b.line)]
        if not sniffed:
            return False
        n = sum(map(len, sniffed))
        inside = [((v >= 0) & (v <= 1)).all(axis=1) for v in sniffed]
        within = sum(int(np.count_nonzero(mask)) for mask in inside)
        fractions = any(
            bool((v[mask] != np.rint(v[mask])).any()) for v, mask in zip(sniffed, inside, strict=True)
        )
        if within < n and not (fractions and 2 * within >= n):
            return False
        how = f"all {n} boxes lie" if within == n else f"{within} of {n} boxes lie"
        self.log.note(
            f"{self.source.path}: {how} in 0..1, so coordinates are read as relative to the image's size "
            "(--coords abs reads pixels)"
        )
        return True

    def _add_images(self, relative: bool) -> Floats:
        """Add the images; (n, 2) sizes of all that were met, 0 where unknown."""
        options, builder, log = self.options, self.builder, self.log
        beside = self.source.is_dir and bool(self.source.with_suffix(*PICTURE_SUFFIXES))
        folders = (self.source.full("images"), self.source.path) if beside else ()
        pictures = Pictures(options, builder, log, self.source, folders)
        wanted = np.zeros(len(self.images), bool)
        for boxes in self.boxes:
            if boxes.layout.coords == "rel" or (boxes.layout.coords == "sniff" and relative):
                wanted[boxes.image] = True
        ask = bool(pictures) or options.image_size is not None or options.image_sizes is not None
        names = list(self.images)
        files = np.array(self.first_file, np.int32)
        if not ask and not wanted.any():
            self._report_zeros(names)
            self._add_plain(names, files)
            return self.sizes.astype(np.float64)
        taken = 0
        for i, name in enumerate(names):
            if not self.good[i]:
                continue
            picture: Picture | None = None
            if pictures:
                path, line = self._path_of(i), self.first_line[i]
                picture = pictures.named(name)
                if picture is None and (i in self.ids or stem(name) == name):
                    picture = pictures.find(name, line=line, path=path)
            if self.sizes[i, 0] == 0 and (ask or wanted[i]):
                size = pictures.size(name, picture)
                if size is not None:
                    self.sizes[i] = size
                    taken += 1
                    if i in self.zeros:
                        path, line, told = self._path_of(i), self.first_line[i], f"{size[0]}x{size[1]}"
                        log.report(SIZE_FROM_PICTURE, path, line=line, field="width", value=name, size=told)
                elif wanted[i]:
                    path, line, field = (
                        self._path_of(i),
                        self.first_line[i],
                        self.name_columns[self.first_file[i]],
                    )
                    pictures.report_no_size(name, picture, path, line=line, field=field)
            shown = name
            if picture is not None and i in self.ids and stem(name) == name:
                full = name + picture.name[len(stem(picture.name)) :]
                shown = full if full not in self.images else name
            builder.image(
                shown,
                width=int(self.sizes[i, 0]),
                height=int(self.sizes[i, 1]),
                path=picture.path if picture else "",
                file=self.first_file[i],
                line=self.first_line[i],
            )
        if taken:
            log.note(f"{self.source.path}: {taken} images without a size get it from a picture or an option")
        return self.sizes.astype(np.float64)

    def _report_zeros(self, names: list[str]) -> None:
        for i in sorted(self.zeros):
            if self.sizes[i, 0] == 0 and self.good[i]:
                path, line = self._path_of(i), self.first_line[i]
                self.log.report(SIZE_MISSING, path, line=line, field="width", value=names[i])

    def _path_of(self, image: int) -> str:
        """The file in which an image was met first."""
        return self.paths[self.first_file[image]]

    def _add_plain(self, names: list[str], files: Ints) -> None:
        good = self.good[: len(names)]
        lines = np.array(self.first_line, np.int64)
        for file in np.unique(files).tolist():
            rows = np.nonzero((files == file) & good)[0]
            self.builder.add_images(
                [names[i] for i in rows.tolist()],
                width=self.sizes[rows, 0],
                height=self.sizes[rows, 1],
                file=file,
                line=lines[rows].tolist(),
            )

    def _kind(self) -> Any:
        if self.builder.kind is not None:
            return self.builder.kind
        n = sum(len(b.line) for b in self.boxes)
        scored = sum(int(np.count_nonzero(~np.isnan(b.score))) for b in self.boxes)
        if not n:
            return "det" if any("predictions" in title for title in self.titles) else "gt"
        return "det" if 2 * scored > n else "gt"

    def _check_kind(self, boxes: _Boxes, rows: NDArray[Any], kind: str) -> NDArray[Any]:
        lacks = np.isnan(boxes.score)
        wrong = lacks if kind == "det" else ~lacks
        if not wrong.any():
            return rows
        column = boxes.layout.roles.get("score", boxes.layout.strings)
        field = boxes.layout.columns[column] if column is not None else "score"
        path = self.paths[boxes.file]
        for i in np.nonzero(wrong)[0].tolist():
            code = SCORE_MISSING if kind == "det" else SCORE_UNEXPECTED
            self.log.report(code, path, line=int(boxes.line[i]), field=field, value=float(boxes.score[i]))
        self.builder.skipped += int(np.count_nonzero(wrong))
        return rows[~wrong]

    def _check_relative(self, boxes: _Boxes, rows: NDArray[Any], sizes: Floats) -> NDArray[Any]:
        values = boxes.numbers[rows]
        far = (values < 1 - FAR) | (values > FAR)
        wrong = far.any(axis=1)
        if wrong.any():
            roles, path = boxes.layout.roles, self.paths[boxes.file]
            for i in np.nonzero(wrong)[0].tolist():
                k = int(np.argmax(far[i]))
                role = FORMS[boxes.layout.form][k]
                column = roles.get(role, boxes.layout.strings)
                assert column is not None
                self.log.report(
                    RELATIVE_RANGE,
                    path,
                    line=int(boxes.line[rows[i]]),
                    field=boxes.layout.columns[column],
                    value=float(values[i, k]),
                )
        unknown = (sizes[boxes.image[rows]] == 0).any(axis=1)
        lost = wrong | unknown
        self.builder.skipped += int(np.count_nonzero(lost))
        return rows[~lost] if lost.any() else rows

    def _add_boxes(
        self, boxes: _Boxes, rows: NDArray[Any], number: NDArray[Any], sizes: Floats | None
    ) -> None:
        whole = len(rows) == len(boxes.line)
        pick: Any = slice(None) if whole else rows
        values = boxes.numbers[pick]
        image = boxes.image[pick]
        if sizes is not None:
            values = values * np.tile(sizes[image], 2)
        wh: Floats | None = None
        if boxes.layout.form != "ltrb":
            wh = values[:, 2:]
            low = values[:, :2] - (wh / 2 if boxes.layout.form == "cxcywh" else 0)
            values = np.concatenate([low, low + wh], axis=1)
        self.builder.boxes(
            image=number[image],
            category=boxes.category[pick],
            xyxy=values,
            wh=wh,
            score=boxes.score[pick],
            flags=boxes.flags[pick],
            file=boxes.file,
            line=boxes.line[pick],
        )


def _plain_sizes(cells: list[str]) -> Longs | None:
    """Whole numbers of pixels of a column with few different ones, None of any other."""
    kinds = set(cells)
    if 8 * len(kinds) > len(cells) + 64 or not all(
        k.isascii() and k.isdigit() and len(k) < 10 for k in kinds
    ):
        return None
    values = {kind: int(kind) for kind in kinds}
    return np.fromiter(map(values.__getitem__, cells), np.int64, len(cells))


def _flag(cell: str, *, unknown: bool) -> int:
    """0 or 1, and -1 for what is neither."""
    text = cell.strip(" \t").lower()
    if text in ("", "0", "0.0", "false") or (unknown and text in ("-1", "-1.0")):
        return 0
    return 1 if text in ("1", "1.0", "true") else -1


# ---------------------------------------------------------------------------------------------- writing


_KEEPS = {
    "canonical": "size extension empty score difficult truncated occluded crowd group_of",
    "tfod": "size extension",
    "openimages": "score truncated occluded group_of depiction inside",
    "predictionstring": "score empty",
    "retinanet": "extension empty",
}


def adapt(options: CsvOptions) -> dict[str, Any]:
    """What the dialect to be written changes about the format."""
    relative = options.dialect in ("openimages", "predictionstring")
    return {
        "keeps": frozenset(_KEEPS[options.dialect].split()),
        "quantum": 1e-6 if relative else 0.0,
        "needs_size": relative,
    }


def write(dataset: Dataset, target: Output, log: Log, options: CsvOptions) -> None:
    """Write one file; rows are in the order of the images."""
    dialect = options.dialect
    sep = options.sep or ("\t" if target.target.lower().endswith(".tsv") else ",")
    name = "" if target.single else ("detections.csv" if dataset.kind == "det" else "annotations.csv")
    if dialect == "predictionstring" and dataset.kind != "det":
        raise UsageError("dialect=predictionstring holds detections, and this is ground truth")
    if name and not target.plan([name], ["the boxes"], log):
        return
    scaled = dialect in ("openimages", "predictionstring")
    if scaled and not _can_be_relative(dataset, log, dialect):
        return
    labels: dict[str, str] = {}
    if options.classes is not None:
        names = _read_class_names(Source(options.classes, follow_links=True), "", log)
        labels = names.labels() if names is not None else {}
    quote = Quote(sep)
    classes = [quote(labels.get(name, name)) for name in dataset.categories.name]
    header, lines = {
        "canonical": _canonical,
        "tfod": _tfod,
        "openimages": _open_images,
        "predictionstring": _prediction_strings,
        "retinanet": _retinanet,
    }[dialect](dataset, classes, quote)
    text = "\n".join([sep.join(header), *lines] if header else lines)
    target.write(name, (text + "\n" if text else "").encode())


def _can_be_relative(dataset: Dataset, log: Log, dialect: str) -> bool:
    images, errors = dataset.images, log.errors
    relative_to_images(dataset, dataset.boxes.xyxy, log)
    seen: dict[str, str] = {}
    for name in images.name:
        first = seen.setdefault(stem(name), name)
        if first != name:
            log.report(COLLISION, "", first=first, second=name, value=stem(name))
    if dialect == "predictionstring":
        for name in dataset.categories.name:
            if " " in name:
                reason = "blanks separate the words of a prediction string"
                log.report(BAD_CLASS_NAME, "", value=name, reason=reason)
    return log.errors == errors


def _ordered(dataset: Dataset) -> NDArray[np.intp]:
    return np.argsort(dataset.boxes.image, kind="stable")


def _scores(values: Floats) -> list[str]:
    lacking = np.isnan(values)
    if lacking.all():
        return [""] * len(values)
    texts = decimals(np.where(lacking, 0.0, values))
    return ["" if none else text for text, none in zip(texts, lacking.tolist(), strict=True)]


def _merge(dataset: Dataset, rows: list[str], order: NDArray[np.intp], empty: list[str]) -> list[str]:
    """The rows of the boxes, with the rows of images without boxes at their place."""
    images = dataset.boxes.image[order]
    lacking = np.setdiff1d(np.arange(len(dataset.images)), images)
    if not len(lacking):
        return rows
    rows = rows + [empty[i] for i in lacking.tolist()]
    places = np.argsort(np.concatenate([images, lacking]), kind="stable")
    return [rows[i] for i in places.tolist()]


def _size_texts(values: Ints) -> list[str]:
    return [str(value) if value > 0 else "" for value in values.tolist()]


def _canonical(dataset: Dataset, classes: list[str], quote: Quote) -> tuple[list[str], list[str]]:
    boxes, sep, order = dataset.boxes, quote.sep, _ordered(dataset)
    widths, heights = _size_texts(dataset.images.width), _size_texts(dataset.images.height)
    images = [sep.join(parts) for parts in zip(map(quote, dataset.images.name), widths, heights, strict=True)]
    kinds, which = np.unique(boxes.flags[order], return_inverse=True)
    marks = [
        sep.join("1" if kind & FLAGS[name] else "0" for name in CANONICAL[9:]) for kind in kinds.tolist()
    ]
    numbers = decimals(boxes.xyxy[order].reshape(-1))
    rows = list(
        map(
            sep.join,
            zip(
                map(images.__getitem__, boxes.image[order].tolist()),
                map(classes.__getitem__, boxes.category[order].tolist()),
                _scores(boxes.score[order]),
                *(numbers[k::4] for k in range(4)),
                map(marks.__getitem__, which.tolist()),
                strict=True,
            ),
        )
    )
    return CANONICAL, _merge(dataset, rows, order, [image + sep * 11 for image in images])


def _tfod(dataset: Dataset, classes: list[str], quote: Quote) -> tuple[list[str], list[str]]:
    boxes, sep, order = dataset.boxes, quote.sep, _ordered(dataset)
    widths, heights = _size_texts(dataset.images.width), _size_texts(dataset.images.height)
    images = [sep.join(parts) for parts in zip(map(quote, dataset.images.name), widths, heights, strict=True)]
    numbers = decimals(boxes.xyxy[order].reshape(-1))
    cells = zip(
        map(images.__getitem__, boxes.image[order].tolist()),
        map(classes.__getitem__, boxes.category[order].tolist()),
        *(numbers[k::4] for k in range(4)),
        strict=True,
    )
    return TFOD, list(map(sep.join, cells))


def _retinanet(dataset: Dataset, classes: list[str], quote: Quote) -> tuple[list[str], list[str]]:
    boxes, sep, order = dataset.boxes, quote.sep, _ordered(dataset)
    images = list(map(quote, dataset.images.name))
    numbers = decimals(boxes.xyxy[order].reshape(-1))
    cells = zip(
        map(images.__getitem__, boxes.image[order].tolist()),
        *(numbers[k::4] for k in range(4)),
        map(classes.__getitem__, boxes.category[order].tolist()),
        strict=True,
    )
    return [], _merge(dataset, list(map(sep.join, cells)), order, [image + sep * 5 for image in images])


def _relative(dataset: Dataset, order: NDArray[np.intp]) -> list[list[str]]:
    """Texts of left, top, right, bottom over the image's size.

    A fixed number of decimals, fine enough for a millionth of a pixel and coarse enough that the same text
    comes back from the pixels.
    """
    boxes, images = dataset.boxes, dataset.images
    sizes = np.stack([images.width, images.height], axis=1)[boxes.image[order]]
    cells = relative(boxes.xyxy[order] / np.tile(sizes, 2), sizes[:, 0], sizes[:, 1])
    return [texts(cells[k::4]) for k in range(4)]


def _open_images(dataset: Dataset, classes: list[str], quote: Quote) -> tuple[list[str], list[str]]:
    boxes, sep, order = dataset.boxes, quote.sep, _ordered(dataset)
    images = [quote(stem(name)) for name in dataset.images.name]
    left, top, right, bottom = _relative(dataset, order)
    names = map(images.__getitem__, boxes.image[order].tolist())
    labels = map(classes.__getitem__, boxes.category[order].tolist())
    if dataset.kind == "det":
        cells = zip(names, labels, _scores(boxes.score[order]), left, right, top, bottom, strict=True)
        return OPEN_IMAGES_PREDICTIONS, list(map(sep.join, cells))
    kinds, which = np.unique(boxes.flags[order], return_inverse=True)
    bits = (Flag.OCCLUDED, Flag.TRUNCATED, Flag.GROUP_OF, Flag.DEPICTION, Flag.INSIDE)
    marks = [sep.join("1" if kind & bit else "0" for bit in bits) for kind in kinds.tolist()]
    n = len(order)
    cells = zip(
        *(names, [""] * n, labels, ["1"] * n, left, right, top, bottom),
        map(marks.__getitem__, which.tolist()),
        strict=True,
    )
    return OPEN_IMAGES, list(map(sep.join, cells))


def _prediction_strings(dataset: Dataset, classes: list[str], quote: Quote) -> tuple[list[str], list[str]]:
    del classes  # a prediction string is quoted as a whole, not by its words
    boxes, order = dataset.boxes, _ordered(dataset)
    texts = list(
        map(
            " ".join,
            zip(
                map(dataset.categories.name.__getitem__, boxes.category[order].tolist()),
                _scores(boxes.score[order]),
                *_relative(dataset, order),
                strict=True,
            ),
        )
    )
    ends = np.searchsorted(boxes.image[order], np.arange(len(dataset.images)), side="right").tolist()
    begin = 0
    lines = []
    for name, end in zip(dataset.images.name, ends, strict=True):
        lines.append(quote(stem(name)) + quote.sep + quote(" ".join(texts[begin:end])))
        begin = end
    return PREDICTION_STRING, lines


def _doc() -> str:
    assert __doc__ is not None
    return __doc__


FORMAT = Format(
    name="csv",
    title="CSV: canonical, TF Object Detection, Open Images, keras-RetinaNet",
    doc=_doc(),
    suffixes=(".csv", ".tsv"),
    single=True,
    owns_suffix=True,
    sniff=sniff,
    read=read,
    write=write,
    options=CsvOptions,
    keeps=frozenset(_KEEPS["canonical"].split()),
    adapt=adapt,
)
