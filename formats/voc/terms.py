"""The options of Pascal VOC, the names of its elements, and checks of the names in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from odm.formats._contract import option
from odm.formats._shared.shapes.rotation import RotationOptions
from odm.formats._shared.text.safe_xml import BLANKS
from odm.issues import Code, Log
from odm.names import MOST_OF_CLASS
from odm.tables import Flag, Floats

UNWRITABLE = Code(
    "voc-unwritable-name",
    "error",
    "{value!r} cannot be written: {reason}",
    "rename it",
    "XML cannot contain most control characters, and a results file cannot contain spaces at the ends of an "
    "image name, so the name would not survive.",
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class VocOptions(RotationOptions):
    """The options for reading and writing Pascal VOC."""

    split: str | None = option(None, "read only this split", flag="--split", side="read")
    origin: int = option(
        0, "1 = the official convention, pixels counted from 1, last pixel included", choices=("0", "1")
    )
    results: bool = option(
        False, "write results files of the VOC devkit, comp4_det_test_<class>.txt, instead of XML"
    )
    layout: str = option(
        "auto",
        "flat = only XML files, tree = Annotations/ and ImageSets/, auto = tree if images have splits",
        choices=("auto", "flat", "tree"),
        side="write",
    )
    round: bool = option(False, "write whole numbers only", side="write")


WHITE = BLANKS.encode()
EDGES = ("xmin", "ymin", "xmax", "ymax")
FLAGS = {"difficult": Flag.DIFFICULT, "truncated": Flag.TRUNCATED, "occluded": Flag.OCCLUDED}
SCORES = ("confidence", "score")
NO_SPLIT = "default"
"""The list of the images that are in no split, as CVAT calls it."""


def refuse_class(name: str) -> str | None:
    """Return why a name is not valid for a class in XML; None if it is."""
    if not name.strip(BLANKS):
        return "it is empty"
    if len(name) > MOST_OF_CLASS:
        return f"it is longer than {MOST_OF_CLASS} characters"
    if name.isascii() and name.isprintable():
        return None
    if any(c < " " or "\x7f" <= c < "\xa0" for c in name):
        return "it contains a control character"
    if "\u2028" in name or "\u2029" in name:
        return "it contains a line separator"
    return None


def refuse_names(names: Sequence[str], log: Log) -> None:
    """Report the names that XML cannot hold, or that would come back as others."""
    joined = "".join(names)
    if joined.isascii() and joined.isprintable() and all(map(str.strip, names)):
        return  # the usual case: plain characters, and no name is blank
    for name in names:
        reason = refuse_class(name)
        if reason is None and any(c in "\ufffe\uffff" or "\ud800" <= c <= "\udfff" for c in name):
            reason = "XML does not allow one of its characters"
        if reason is not None:
            log.report(UNWRITABLE, "", value=name, reason=reason)


def count_from_zero(xyxy: Floats) -> None:
    """Convert (n, 4) edges counted from 1, last pixel included, in place: left and top become one less.

    The subtraction rounds: a box without a width, with a left edge of 1.1, must not become inverted by it.
    """
    left_top, right_bottom = xyxy[:, :2], xyxy[:, 2:]
    is_upright = left_top <= right_bottom + 1
    left_top -= 1
    np.minimum(left_top, right_bottom, out=left_top, where=is_upright)
