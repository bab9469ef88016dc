"""What a CSV file looks like: the options that say it, its columns, and the dialects known by them."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from odm.formats._contract import option, parse_mapping
from odm.formats._shared.csv_tables import BAD_HEADER, NO_HEADER, quote_fault, read_record
from odm.formats._shared.pictures import ImageOptions
from odm.formats.csv.numbers import NUMBER
from odm.issues import Code, hint, nearest, shorten
from odm.names import PICTURE_SUFFIXES
from odm.tables import Flag

MISSING_COLUMN = Code(
    "missing-column",
    "error",
    "expected a column for {role}, found the columns {found}{near}",
    "name the column with -O columns={example}",
    "Without this column, a row does not describe a box.",
    file=True,
)
AMBIGUOUS_COLUMN = Code(
    "ambiguous-column",
    "error",
    "several columns could be the {role}: {found}",
    "choose one with -O columns={role}:NAME",
    "Several columns have a common name for this value, so it is unclear which one to use.",
    file=True,
)
DUPLICATE_COLUMN = Code(
    "duplicate-column",
    "error",
    "duplicate column name {value!r} in columns {first} and {second}",
    "rename or remove one of them",
    "Two columns have the same name, so it is unclear which one to use.",
    file=True,
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
_BARE = (
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
"""Dialects without a header: their title, names for their columns, and what each is."""
FORMS = {
    "ltrb": ("left", "top", "right", "bottom"),
    "ltwh": ("left", "top", "box_width", "box_height"),
    "cxcywh": ("center_x", "center_y", "box_width", "box_height"),
}
ROLES = (
    *("image", "width", "height", "class", "score"),
    *dict.fromkeys(itertools.chain(*FORMS.values())),
    *FLAGS,
    *("track", "video", "frame"),
)

# Usual names of a column, in letters and digits only; a later group counts where no earlier one is there.
_NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "image": (
        ("image",),
        ("filename", "file", "imagename", "imagefile", "imagefilename", "imgname", "img"),
        ("path", "filepath", "imagepath", "imgpath", "imageid", "imgid", "imgfname", "imagefname", "fname"),
        ("frame", "patientid"),
    ),
    "width": (("imagewidth", "imgwidth", "imagew", "imgw"), ("width",)),
    "height": (("imageheight", "imgheight", "imageh", "imgh"), ("height",)),
    "class": (
        ("class",),
        ("label", "classname", "labelname", "category", "categoryname", "classlabel"),
        ("name", "object", "objectname", "cls"),
        ("classid", "labelid", "categoryid", "clsid"),
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
    "track": (("track",), ("trackid", "instanceid")),
    "video": (("video",), ("videoname", "videoid"), ("sequence",)),
    "frame": (("frame",), ("frameid", "frameindex", "framenumber")),
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
# The same where width and height could be those of the image: only if no other four is there.
_LOOSE: tuple[tuple[str, str, str, str, str], ...] = (
    *(("ltwh", x, y, "w", "h") for x, y in (("x", "y"), ("left", "top"), ("xmin", "ymin"))),
    ("ltwh", "x", "y", "width", "height"),
    *(
        ("cxcywh", x, y, w, h)
        for x, y in (("xcenter", "ycenter"), ("centerx", "centery"), ("cx", "cy"))
        for w, h in (("w", "h"), ("width", "height"))
    ),
)
_PACKED = ("bbox", "box", "boundingbox")
_CLASS_LIKE = re.compile(r".*(?:type|class|label|category|name|target)", re.IGNORECASE)
NO_OBJECT = frozenset({"nofinding", "noobject", "background", "none"})
"""Classes, in letters and digits, of rows without a box that say that an image holds no object."""
_SEPARATORS = (",", ";", "\t")
_PICTURES = tuple(PICTURE_SUFFIXES)
_MANY = 1000
"""Columns among which one is looked for that may be meant."""


def _parse_sep(text: str) -> str:
    named = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|"}
    sep = named.get(text.lower(), text)
    if len(sep) != 1 or sep in '"\r\n\0' or sep.isalnum():
        raise ValueError("expected one character, such as ',' ';' or tab")
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
        None, "column names by role: image:frame,left:x0,...", side="read", parse=_parse_columns
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
    packed: int | None = None
    """The column that holds the four numbers of a box, in brackets or not."""
    sure: bool = True

    def field(self, column: int) -> str:
        """How a column is called in a message; nothing for one that the file does not have."""
        names = self.columns
        if self.packed is not None and column >= len(names):
            column = self.packed
        return (names[column] or f"column {column + 1}") if column < len(names) else ""


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class HeaderFaults:
    """Why a header does not say what is needed."""

    columns: tuple[str, ...]
    found: list[tuple[Code, str, dict[str, Any]]]
    has_box: bool = False
    """Whether there are the four coordinates, so that only the image or the class is open."""


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
            plain = _bare_layout(text, sep)
            if plain is not None:
                return plain
    return best


def sep_line(text: str) -> tuple[str | None, str]:
    """The separator that a first line ``sep=;`` names, and the text without that line."""
    if text[:4].lower() == "sep=" and len(text) > 5 and text[5] == "\n":
        return text[4], "\n" + text[6:]
    return None, text


def _bare_layout(text: str, sep: str) -> Layout | None:
    """The dialect without a header that most of the first rows are in; a row without numbers is a header."""
    rows = [read_record(line, 0, sep, spaced=False)[0] for line in text.split("\n", 50)[:50] if line.strip()]
    first = rows[0] if rows else ()
    if isinstance(first, tuple) or not (_numbers(first) or not any(cell.strip() for cell in first[1:])):
        return None
    for title, columns, names in _BARE:
        roles = {role: i for i, role in enumerate(names.split())}
        form = "ltwh" if "box_width" in roles else "ltrb"
        box = slice(roles[FORMS[form][0]], roles[FORMS[form][3]] + 1)
        fitting = 0
        for cells in rows:
            if not isinstance(cells, list) or len(cells) != len(columns) or not cells[roles["image"]].strip():
                continue
            others = [*cells[: box.start], *cells[box.stop :]]
            named = len(columns) == 6 or cells[roles["image"]].strip().lower().endswith(_PICTURES)
            sized = len(columns) == 6 or _numbers(others) >= 2
            empty = not any(cell.strip() for cell in cells[box])
            fitting += named and sized and (empty or _numbers(cells[box]) >= 3)
        if fitting * 2 > len(rows):
            full = f"{title}, which has no header"
            return Layout(full, sep, tuple(columns), roles, form, coords="abs", header=False, sure=False)
    return None


def _numbers(cells: Sequence[str]) -> int:
    return sum(NUMBER.fullmatch(cell.strip()) is not None for cell in cells)


class _Header:
    """The names of the columns of a file, and what is found out about them."""

    def __init__(self, cells: Sequence[str], explicit: Mapping[str, str]) -> None:
        self.columns = tuple(cell.strip() for cell in cells)
        self.explicit = explicit
        self.spaced = len(cells) > 1 and all(c[:1] == " " for c in cells[1:])
        self.roles: dict[str, int] = {}
        self.constants: dict[str, str] = {}
        self.faults: list[tuple[Code, str, dict[str, Any]]] = []
        columns = self.columns
        self._shown = ", ".join(map(shorten, columns[:30])) + (", ..." if len(columns) > 30 else "")
        seen: dict[str, int] = {}
        for i, name in enumerate(columns):
            if name and seen.setdefault(name, i) != i:
                values = {"value": name, "first": seen[name] + 1, "second": i + 1}
                self.faults.append((DUPLICATE_COLUMN, name, values))
        for role, name in explicit.items():
            if name.startswith("=") and role in ("class", "image"):
                self.constants[role] = name[1:]
            else:
                if name not in seen:
                    self._lacks(role, name, hint(name, columns), f"{role}:NAME")
                self.roles[role] = seen.get(name, 0)
        self.packed: int | None = None
        self.places: dict[str, list[int]] = {}
        """The columns that are not told, by their names in letters and digits."""
        for i, name in enumerate(columns):
            if name and i not in self.roles.values() and seen[name] == i:
                self.places.setdefault(key_of(name), []).append(i)

    def _lacks(self, role: str, field: str, near: str, example: str) -> None:
        values = {"role": role, "found": self._shown, "near": near, "example": example}
        self.faults.append((MISSING_COLUMN, field, values))

    def _find(self, role: str, names: Iterable[str], places: Mapping[str, list[int]]) -> bool:
        """Whether one of these names is there; if it is not the only one, that is a fault."""
        found = sorted(i for name in names for i in places.get(name, ()))
        if len(found) > 1:
            several = ", ".join(shorten(self.columns[i]) for i in found)
            self.faults.append((AMBIGUOUS_COLUMN, role, {"role": role, "found": several}))
        if found:
            self.roles[role] = found[0]
        return bool(found)

    def find_usual(self, role: str, *, groups: int | None = None) -> None:
        """Find the column of a role by its usual names, those of the first `groups` groups or of all."""
        any(self._find(role, names, self.places) for names in _NAMES[role][:groups])

    def claim_sizes(self) -> set[str]:
        """Which of ``width`` and ``height`` are the size of the box, as beside x and y, not of the image."""
        bare = {_bare(key) for key in self.places}
        explicit = self.explicit.keys() & set(itertools.chain(*FORMS.values()))
        there = {form: bare if form == "ltrb" else self.places.keys() for form in FORMS}
        if explicit or any(there[form] >= {*names} for form, *names in _FOURS):
            return set()
        found = next((names for _, *names in _LOOSE if {*names} <= self.places.keys()), ())
        return {"width", "height"} if "width" in found and "imagewidth" not in self.places else set()

    def find_coordinates(self) -> str:
        """Find the columns of the four coordinates; the form of the box that they make."""
        explicit = self.explicit.keys() & set(itertools.chain(*FORMS.values()))
        if explicit:
            form = max(FORMS, key=lambda f: len(explicit & set(FORMS[f])))
            for role in FORMS[form]:
                if role not in self.roles:
                    self.find_usual(role)
            return form
        bare: dict[str, list[int]] = {}
        for key, found in self.places.items():
            bare.setdefault(_bare(key), []).extend(found)
        for form, *names in _FOURS:
            places = bare if form == "ltrb" else self.places
            if all(name in places for name in names):
                for role, name in zip(FORMS[form], names, strict=True):
                    self._find(role, (name,), places)
                return form
        packed = next((name for name in _PACKED if name in self.places), "")
        if packed:
            self.packed = self.places[packed][0]
            self.roles |= {role: len(self.columns) + k for k, role in enumerate(FORMS["ltwh"])}
            return "ltwh"
        for form, *names in _LOOSE:
            if all(name in self.places for name in names):
                for role, name in zip(FORMS[form], names, strict=True):
                    self._find(role, (name,), self.places)
                return form
        for role in FORMS["ltrb"]:  # what is there, so that only the rest is reported as missing
            self.find_usual(role, groups=3)
        return "ltrb"

    def report_lacking(self, lacking: list[str]) -> None:
        """Report the roles that no column has; where all four coordinates lack, in one."""
        taken = set(self.roles.values())
        free = [name for i, name in enumerate(self.columns[:_MANY]) if i not in taken and len(name) > 2]
        groups = [[role] for role in lacking]
        if len(lacking) >= 4 and lacking[-4:] == list(FORMS["ltrb"]):
            groups = [*groups[:-4], lacking[-4:]]
        for group in groups:
            usual = itertools.chain.from_iterable((role, *itertools.chain(*_NAMES[role])) for role in group)
            near = next((found for name in usual if (found := _near(name, free))), "")
            roles = ", ".join(group)
            example = ",".join(f"{role}:NAME" for role in group)
            if group == ["class"]:
                likely = next((name for name in free if _CLASS_LIKE.fullmatch(name)), "")
                near = near or (f" (is it {shorten(likely)!r}?)" if likely else "")
                example = f"class:{shorten(likely) or 'NAME'}, or class:=NAME where all boxes have one class"
            self._lacks(roles, roles, near, example)


def _header_layout(cells: Sequence[str], sep: str, explicit: Mapping[str, str]) -> Layout | HeaderFaults:
    """What the cells of a header line say, or what they leave open; `told` are columns by their roles."""
    header = _Header(cells, explicit)
    columns, roles, constants, faults = header.columns, header.roles, header.constants, header.faults
    keys = set(header.places)
    open_images = {"imageid", "labelname", "xmin", "xmax", "ymin", "ymax"} <= keys
    sized = header.claim_sizes()
    for role in ("image", "width", "height", "class", "score", *FLAGS):
        if (
            role in sized
            or role in roles
            or role in constants
            or (role == "score" and open_images and "score" not in keys)
        ):
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
    if "image" in roles or "image" in constants:
        for role in ("track", "video", "frame"):
            if role not in roles:
                header.find_usual(role)
        if "video" not in roles:  # of which video it is the frame, nobody knows
            roles.pop("frame", None)
    lacking = [r for r in ("image", "class", *FORMS[form]) if r not in roles and r not in constants]
    if len(lacking) == 6 and not explicit and not faults:
        return HeaderFaults(columns, [(NO_HEADER, "", {"found": repr(shorten(sep.join(columns)))})])
    header.report_lacking(lacking)
    if faults:
        return HeaderFaults(columns, faults, has_box={"image", "class"}.issuperset(lacking))

    sure = True
    if explicit:
        title = "CSV with the columns given by -O columns"
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
            f"{role} = {shorten(columns[i])}"
            for role, i in roles.items()
            if i < len(columns) and role != columns[i]
        )
        title, coords = "CSV by the names of its columns" + (f" ({named})" if named else ""), "sniff"
        sure = False  # a format whose header this is may be surer of it than usual names can make
    return Layout(
        title,
        sep,
        columns,
        roles,
        form,
        coords,
        constants,
        spaced=header.spaced,
        packed=header.packed,
        sure=sure,
    )


def _near(name: str, columns: Sequence[str]) -> str:
    found = nearest(name, columns)
    return f" (is it {shorten(found)!r}?)" if found else ""


def key_of(name: str) -> str:
    """A name in letters and digits only, as it is looked up."""
    return re.sub(r"[\W_]", "", name).lower()


def _bare(key: str) -> str:
    for prefix in ("bbox", "box", "bbx", "roi"):
        if key.startswith(prefix) and len(key) > len(prefix):
            return key[len(prefix) :]
    return key
