"""Find the role of each column of a table with a row per box, by its name or by the user's options."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from odm.formats._contract import parse_mapping
from odm.issues import Code, first_few, hint, nearest, shorten
from odm.tables import Flag, Floats

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
FORMS = {
    "ltrb": ("left", "top", "right", "bottom"),
    "ltwh": ("left", "top", "box_width", "box_height"),
    "cxcywh": ("center_x", "center_y", "box_width", "box_height"),
}
BOX_ROLES = (
    *("image", "width", "height", "class", "score"),
    *dict.fromkeys(itertools.chain(*FORMS.values())),
    *FLAGS,
)
ROLES = (*BOX_ROLES, "track", "video", "frame")

_UPPER_LEFT, _LOWER_RIGHT = (
    [[f"{word}{axis}" for word in words] for axis in "xy"]
    for words in (
        ("upperleftcorner", "upperleft", "topleft"),
        ("lowerrightcorner", "lowerright", "bottomright"),
    )
)
# Usual names of a column, in letters and digits only; a later group counts where no earlier one is there.
_NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "image": (
        ("image",),
        ("filename", "file", "imagename", "imagefile", "imagefilename", "imgname", "img", "imageindex"),
        ("imgfilename",),
        ("path", "filepath", "imagepath", "imgpath", "imageid", "imgid", "imgfname", "imagefname", "fname"),
        ("frame", "patientid"),
    ),
    "width": (("imagewidth", "imgwidth", "imagew", "imgw"), ("width",)),
    "height": (("imageheight", "imgheight", "imageh", "imgh"), ("height",)),
    "class": (
        ("class",),
        ("label", "classname", "labelname", "category", "categoryname", "classlabel"),
        ("name", "object", "objectname", "cls", "catname", "findinglabel", "annotationtag"),
        ("classid", "labelid", "categoryid", "clsid"),
    ),
    "score": (("score",), ("confidence", "conf", "probability", "prob")),
    "left": (("left",), ("xmin", "minx", "xtl", "xleft", *_UPPER_LEFT[0]), ("x1", "startx"), ("x0",)),
    "top": (("top",), ("ymin", "miny", "ytl", "ytop", *_UPPER_LEFT[1]), ("y1", "starty"), ("y0",)),
    "right": (("right",), ("xmax", "maxx", "xbr", "xright", *_LOWER_RIGHT[0]), ("x2", "endx"), ("x1",)),
    "bottom": (("bottom",), ("ymax", "maxy", "ybr", "ybottom", *_LOWER_RIGHT[1]), ("y2", "endy"), ("y1",)),
    "box_width": (("boxwidth", "bboxwidth", "boxw", "bboxw"),),
    "box_height": (("boxheight", "bboxheight", "boxh", "bboxh"),),
    "center_x": (("centerx", "xcenter", "centrex", "xcentre", "cx"),),
    "center_y": (("centery", "ycenter", "centrey", "ycentre", "cy"),),
    **{
        name: ((key, "is" + key), ("ann" + key, "annis" + key))
        for name in FLAGS
        if (key := name.replace("_", ""))
    },
    "track": (("track",), ("trackid", "instanceid")),
    "video": (("video",), ("videoname", "videoid"), ("sequence",)),
    "frame": (("frame",), ("frameid", "frameindex", "framenumber")),
}
# Names of four coordinates that belong together, so that x1 is the right edge only beside x0.
_FOURS: tuple[tuple[str, ...], ...] = (
    ("left", "top", "right", "bottom"),
    ("xmin", "ymin", "xmax", "ymax"),
    ("minx", "miny", "maxx", "maxy"),
    ("xtl", "ytl", "xbr", "ybr"),
    *zip(*_UPPER_LEFT, *_LOWER_RIGHT, strict=True),
    ("xleft", "ytop", "xright", "ybottom"),
    ("startx", "starty", "endx", "endy"),
    ("x1", "y1", "x2", "y2"),
    ("x0", "y0", "x1", "y1"),
)
_SIZES = tuple(
    (before + width, before + height)
    for before in ("bbox", "box", "bbx", "roi", "annbbox", "")
    for width, height in (("w", "h"), ("width", "height"))
)
"""Names of the width and height of a box, the surest first; the last may be those of the image."""
_PACKED = ("bbox", "box", "boundingbox")
_CLASS_LIKE = re.compile(r".*(?:type|class|label|category|name)", re.IGNORECASE)
NO_OBJECT = frozenset({"nofinding", "noobject", "background", "none"})
"""Class names, letters and digits only, of rows without a box that mark an image as empty."""
_MANY = 1000
"""Columns among which one is looked for that may be meant."""


def parse_columns(text: str, roles: Sequence[str] = ROLES) -> dict[str, str]:
    """Parse ``ROLE:NAME,...``, such as ``image:frame,left:x0``, to column names by role.

    Raises ValueError for a role that is not among `roles`.
    """
    columns = parse_mapping(text)
    for role in columns:
        if role not in roles:
            raise ValueError(
                f"there is no role {role!r}{hint(role, roles)}; the roles are {', '.join(roles)}"
            )
    return columns


class Header:
    """The names of the columns of a file, the role of each, and the faults among them.

    `explicit` are names of columns by role, from the options.
    """

    def __init__(self, cells: Sequence[str], explicit: Mapping[str, str]) -> None:
        self.columns = tuple(cell.strip() for cell in cells)
        self.explicit = explicit
        self.spaced = len(cells) > 1 and all(c[:1] == " " for c in cells[1:])  # "image, left, top"
        self.roles: dict[str, int] = {}
        self.constants: dict[str, str] = {}  # the class or image of all rows, by role
        self.faults: list[tuple[Code, str, dict[str, Any]]] = []
        columns = self.columns
        self._shown = first_few(columns, 30)
        column_of_name: dict[str, int] = {}
        for i, name in enumerate(columns):
            if name and column_of_name.setdefault(name, i) != i:
                values = {"value": name, "first": column_of_name[name] + 1, "second": i + 1}
                self.faults.append((DUPLICATE_COLUMN, name, values))
        for role, name in explicit.items():
            if name.startswith("=") and role in ("class", "image"):  # class:=person
                self.constants[role] = name[1:]
            else:
                if name not in column_of_name:
                    self._add_missing(role, name, hint(name, columns), f"{role}:NAME")
                self.roles[role] = column_of_name.get(name, 0)  # after a fault any will do
        self.packed: int | None = None  # the column of the four numbers of a box
        self.listed: int | None = None
        """The column of lists of boxes, whose keys are columns after those of the file."""
        self.places: dict[str, list[int]] = {}
        """The columns that no option names, by their names as `simplify_name` makes them."""
        for i, name in enumerate(columns):
            if name and i not in self.roles.values() and column_of_name[name] == i:
                self.places.setdefault(simplify_name(name), []).append(i)
        self._bare: dict[str, list[int]] = {}
        """As `places`, without a prefix such as ``bbox`` in the names."""
        for key, positions in self.places.items():
            self._bare.setdefault(_drop_box_prefix(key), []).extend(positions)

    def pack(self, column: int) -> None:
        """Set the column whose cells hold the four numbers of a box, whatever its name."""
        self.packed = column

    def _add_missing(self, role: str, field: str, suggestion: str, example: str) -> None:
        """Add the fault that a role has no column; `suggestion` suggests one, `example` is for the option."""
        values = {"role": role, "found": self._shown, "near": suggestion, "example": example}
        self.faults.append((MISSING_COLUMN, field, values))

    def _find(self, role: str, names: Iterable[str], places: Mapping[str, list[int]]) -> bool:
        """Give a role to the column with one of these names, and return whether there is one.

        Several such columns are a fault.
        """
        positions = sorted(i for name in names for i in places.get(name, ()))
        if len(positions) > 1:
            several = ", ".join(shorten(self.columns[i]) for i in positions)
            self.faults.append((AMBIGUOUS_COLUMN, role, {"role": role, "found": several}))
        if positions:
            self.roles[role] = positions[0]
        return bool(positions)

    def find_usual(self, role: str, *, groups: int | None = None) -> None:
        """Find the column of a role by its usual names, those of the first `groups` groups or of all."""
        # `any` stops at the first group of names of which there is a column.
        any(self._find(role, names, self.places) for names in _NAMES[role][:groups])

    def find_roles(self, *skipped: str, image_groups: int | None = None) -> None:
        """Find the columns of image, size, class, score and flags by usual names, except for roles `skipped`.

        `image_groups` limits the names of the image, as `groups` of `find_usual` does.
        """
        roles_of_box = self._find_size_roles()
        for role in ("image", "width", "height", "class", "score", *FLAGS):
            if role not in {*roles_of_box, *skipped, *self.roles, *self.constants}:
                self.find_usual(role, groups=image_groups if role == "image" else None)

    def _find_size_roles(self) -> set[str]:
        """Return {"width", "height"} if columns of these names are not the size of the image, else nothing.

        Beside x and y they are the size of the box. If the image's size has other columns, these are found
        before them anyway.
        """
        explicit = self.explicit.keys() & set(itertools.chain(*FORMS.values()))
        names: Sequence[str] = ()
        if not explicit:
            _, names, _ = self._find_four()
        elif explicit <= {"left", "top"}:
            names = self._find_sizes() or ()
        only_of_images, *_ = _NAMES["width"]  # such as imagewidth; plain width is in a later group
        has_image_size = not self.places.keys().isdisjoint(only_of_images)
        return {"width", "height"} if "width" in names and not has_image_size else set()

    def _find_sizes(self, *allowed: str) -> tuple[str, str] | None:
        """Return the names of the width and height of a box, None if there are none.

        None too if a column is a right or bottom edge; the names `allowed` do not count as one (x1
        is a right edge beside x0, but here a left one).
        """
        right_or_bottom = {*itertools.chain(*_NAMES["right"], *_NAMES["bottom"])} - {*allowed}
        if right_or_bottom & self._bare.keys() or self.explicit.keys() & {"right", "bottom"}:
            return None
        return next((pair for pair in _SIZES if {*pair} <= self.places.keys()), None)

    def _find_four(self) -> tuple[str, Sequence[str], Mapping[str, list[int]]]:
        """Return the form of the coordinates (`FORMS`), their four names, and the columns by these names.

        No names if fewer than four coordinates have a column.
        """
        for names in _FOURS:
            if {*names} <= self._bare.keys():
                return "ltrb", names, self._bare
        # Beside a width and height, plain x and y are the left and top; no plain name is a centre.
        for form, axes in (("ltwh", "xy"), ("cxcywh", ("", ""))):
            usual_names = [  # of the first two roles
                (*itertools.chain(*_NAMES[role]), axis) for role, axis in zip(FORMS[form], axes, strict=False)
            ]
            position_names = [
                next((name for name in names if name in self._bare), "") for names in usual_names
            ]
            if all(position_names) and (sizes := self._find_sizes(*position_names)):
                # Beside bbox_w, x is the column bbox_x rather than another x.
                prefix = sizes[0].removesuffix("width").removesuffix("w")
                places = {name: self.places.get(prefix + name) or self._bare[name] for name in position_names}
                return form, (*position_names, *sizes), places | {name: self.places[name] for name in sizes}
        return "ltrb", (), {}

    def find_coordinates(self) -> str:
        """Find the `roles` of four coordinates, or one `packed` column; return the box's form (`FORMS`)."""
        # The coordinates that the options name decide the form: the one that has most of them.
        explicit = self.explicit.keys() & set(itertools.chain(*FORMS.values()))
        if explicit:
            form = max(FORMS, key=lambda f: len(explicit & set(FORMS[f])))
            if explicit <= {"left", "top"} and (sizes := self._find_sizes()):
                form = "ltwh"
                width, height = sizes
                self.roles |= {"box_width": self.places[width][0], "box_height": self.places[height][0]}
            for role in FORMS[form]:
                if role not in self.roles:
                    self.find_usual(role)
            return form

        form, names, places = self._find_four()  # four names or none
        for role, name in zip(FORMS[form], names, strict=False):
            self._find(role, (name,), places)
        if names:
            return form
        packed = next((name for name in _PACKED if name in self.places), "")
        if packed and self.packed is None:
            self.packed = self.places[packed][0]
        if self.packed is not None:  # its four numbers become columns behind all others
            self.roles |= {role: len(self.columns) + k for k, role in enumerate(FORMS["ltwh"])}
            return "ltwh"
        for role in FORMS["ltrb"]:  # what is there, so that only the rest is reported as missing
            self.find_usual(role, groups=3)  # x1 (in the fourth) is no right edge without x0
        return "ltrb"

    def report_lacking(self, lacking: list[str]) -> None:
        """Report the roles without a column; one issue for all coordinates if none of the four has one."""
        taken_columns: set[int | None] = {*self.roles.values()}
        taken_columns |= {self.packed, self.listed}
        free_names = [  # among which one may be meant; shorter ones are like too many
            name for i, name in enumerate(self.columns[:_MANY]) if i not in taken_columns and len(name) > 2
        ]
        groups = [[role] for role in lacking]
        for n in (4, 2):  # all edges, or right and bottom
            if lacking[-n:] == list(FORMS["ltrb"][-n:]):
                groups = [*groups[:-n], lacking[-n:]]
                break
        for group in groups:
            # The first usual name that is like that of a column suggests the column.
            usual = itertools.chain.from_iterable((role, *itertools.chain(*_NAMES[role])) for role in group)
            suggestion_text = next(
                (suggestion for name in usual if (suggestion := _suggest(name, free_names))), ""
            )
            roles = ", ".join(group)
            example = ",".join(f"{role}:NAME" for role in group)
            if group == ["right", "bottom"]:
                example += ", or box_width:NAME,box_height:NAME"
            if group == ["class"]:
                likely_class = next((name for name in free_names if _CLASS_LIKE.fullmatch(name)), "")
                suggestion_text = suggestion_text or (
                    f" (is it {shorten(likely_class)!r}?)" if likely_class else ""
                )
                example = (
                    f"class:{shorten(likely_class) or 'NAME'}, or class:=NAME where all boxes have one class"
                )
            self._add_missing(roles, roles, suggestion_text, example)


def _suggest(name: str, columns: Sequence[str]) -> str:
    """Return the suggestion of the column with the nearest name, for a message; "" if none is near."""
    column = nearest(name, columns)
    return f" (is it {shorten(column)!r}?)" if column else ""


def to_edges(values: Floats, form: str) -> tuple[Floats, Floats | None]:
    """Convert (n, 4) numbers of a form (`FORMS`) to (n, 4) edges, and (n, 2) sizes, None for ``ltrb``."""
    if form == "ltrb":
        return values, None
    wh = np.ascontiguousarray(values[:, 2:])
    with np.errstate(over="ignore", invalid="ignore"):
        left_top = values[:, :2] - (wh / 2 if form == "cxcywh" else 0)
        return np.concatenate([left_top, left_top + wh], axis=1), wh


def simplify_name(name: str) -> str:
    """A name in letters and digits only, as it is looked up."""
    return re.sub(r"[\W_]", "", name).lower()


def _drop_box_prefix(key: str) -> str:
    """Drop the prefix of a column name, as `simplify_name` has it, that only says that it is of a box."""
    for prefix in ("annbbox", "bbox", "box", "bbx", "roi"):
        if key.startswith(prefix) and len(key) > len(prefix):
            return key[len(prefix) :]
    return key
