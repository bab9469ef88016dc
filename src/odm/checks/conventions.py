"""Rules that recognise boxes written in another convention than the one they were read in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.checks import boxes
from odm.checks.rules import DerivedColumns, Location, SetFindings, set_rule
from odm.issues import INVERTED, Trusted
from odm.tables import Floats

ODD = 0.05
"""Share of the boxes that may be unusual, while the convention is still judged by the others."""
NEARLY = 0.02
"""Share of the size of an image by which a box may leave it, if it is read in another convention."""


@set_rule(
    "looks-normalised",
    "warning",
    "expected pixels, but all coordinates of {n} boxes are in 0..1",
    "multiply them by the image size{option}",
    "No box is larger than one pixel, so the coordinates are most likely relative to the image size.",
    needs=("normalised",),
)
def normalised(columns: DerivedColumns) -> SetFindings:
    advice = columns.advise_option("coords", ", or set --coords rel and give the image sizes")
    yield columns.dataset.location(0), {"n": len(columns.boxes), "option": advice}


def _find_fitting(columns: DerivedColumns, xyxy: Floats) -> NDArray[np.bool_]:
    """(n,) mask of the boxes that, if their edges were `xyxy` (n, 4), would have a positive width and height
    and leave their image by at most `NEARLY` of its size and the tolerance.
    """
    size = columns.limits[columns.boxes.image]  # infinite where unknown
    leeway = np.where(np.isfinite(size), size * NEARLY, 0) + columns.tolerance
    is_inside = (xyxy[:, :2] >= -leeway) & (xyxy[:, 2:] <= size + leeway)
    return np.asarray((is_inside & (xyxy[:, 2:] > xyxy[:, :2])).all(axis=1))


@set_rule(
    "looks-like-ltwh",
    "warning",
    "{n} of {total} boxes have right < left or bottom < top, so the numbers look like left, top, width, "
    "height instead of corners",
    "correct the export: right = left + width and bottom = top + height{option}",
    "If widths and heights are read as right and bottom edges, boxes in the lower right of the image "
    "are inverted and all others have the wrong size.",
    needs=("suspects",),
    explains=INVERTED,
)
def looks_ltwh(columns: DerivedColumns) -> SetFindings:
    """Report inverted boxes if three or more, a quarter of all, are inverted, some in x and some in y, and
    nearly all boxes fit their images as left, top, width, height.
    """
    rows, total = columns.inverted, len(columns.boxes)
    xyxy = columns.boxes.xyxy
    if len(rows) < 3 or len(rows) * 4 < total:  # fewer are edges in the wrong order
        return
    inverted_shares = (xyxy[rows, 2:] < xyxy[rows, :2]).mean(axis=0)
    if inverted_shares.min() < ODD:  # one axis alone was drawn from the other end
        return
    reread_xyxy = np.concatenate([xyxy[:, :2], xyxy[:, :2] + xyxy[:, 2:]], axis=1)
    if _find_fitting(columns, reread_xyxy).sum() >= (1 - ODD) * total:
        values = {
            "n": len(rows),
            "total": total,
            "option": columns.advise_option("box", ", or set --box ltwh"),
        }
        yield columns.dataset.location(int(rows[0])), values


def _find_outside(
    columns: DerivedColumns, *, few_suffice: bool = False
) -> tuple[Location, dict[str, Any]] | None:
    """Return the location of the first box outside its image, and the values of a message.

    None if less than three boxes, or a twentieth, are outside (with `few_suffice`, if none is), if an image
    has no size, or if too many boxes are not finite or inverted.
    """
    rows = columns.outside
    total = len(columns.boxes)
    are_few = len(rows) < 3 or len(rows) * 20 < total
    if not columns.all_sized or not len(rows) or (are_few and not few_suffice):
        return None
    if len(columns.not_finite) + len(columns.inverted) > ODD * total:
        return None
    return columns.dataset.location(int(rows[0])), {"n": len(rows), "total": total}


def _find_misread(columns: DerivedColumns, reread_xyxy: Floats) -> tuple[Location, dict[str, Any]] | None:
    """Return the result of `_find_outside` if boxes look misread, with edges that should be `reread_xyxy`
    (n, 4); else None.

    They do if at least half of those outside lie far outside, nearly all boxes would fit their images with
    these edges, and at most a fifth as many would still be outside; the message has that number as ``left``.
    """
    signs = _find_outside(columns)
    if signs is None:
        return None
    longest_side = columns.limits[columns.boxes.image[columns.upright_suspects]].max(axis=1)
    n_far = np.count_nonzero(columns.beyond > NEARLY * longest_side)
    is_fitting = _find_fitting(columns, reread_xyxy)
    rows = columns.outside
    if 2 * n_far < len(rows) or is_fitting.sum() < (1 - ODD) * len(is_fitting):
        return None
    high = columns.limits[columns.boxes.image] + columns.tolerance
    is_leaving = ((reread_xyxy[:, :2] < -columns.tolerance) | (reread_xyxy[:, 2:] > high)).any(axis=1)
    n_leaving = int(np.count_nonzero(is_leaving))
    if n_leaving * 5 > len(rows):
        return None
    location, values = signs
    return location, {**values, "left": Trusted(f"only {n_leaving}" if n_leaving else "none")}


@set_rule(
    "looks-like-ltrb",
    "warning",
    "{n} of {total} boxes extend beyond the image; {left} would if their width and height were right and "
    "bottom edges",
    "correct the export: width = right - left and height = bottom - top{option}",
    "If corners are read as widths and heights, boxes become too large and extend beyond the image.",
    needs=("suspects",),
    explains=boxes.outside.code,
)
def looks_ltrb(columns: DerivedColumns) -> SetFindings:
    """Report boxes outside their images if nearly all fit with width and height as right and bottom edges."""
    if not len(columns.outside):
        return

    misread = _find_misread(columns, np.concatenate([columns.boxes.xyxy[:, :2], columns.boxes.wh], axis=1))
    if misread:
        location, values = misread
        yield location, {**values, "option": columns.advise_option("box", ", or set --box ltrb")}


@set_rule(
    "looks-swapped",
    "warning",
    "{n} of {total} boxes extend beyond the image; {left} would if x and y were swapped",
    "swap x and y, or the width and height of the images",
    "Some tools write rows before columns. A picture rotated by its EXIF data has the same effect.",
    needs=("suspects",),
    explains=boxes.outside.code,
)
def looks_swapped(columns: DerivedColumns) -> SetFindings:
    # Columns 1, 0, 3, 2 are top, left, bottom, right.
    misread = _find_misread(columns, columns.boxes.xyxy[:, [1, 0, 3, 2]]) if len(columns.outside) else None
    if misread:
        yield misread


@set_rule(
    "off-by-one",
    "warning",
    "{n} of {total} boxes extend exactly one pixel beyond the image, and none further",
    "check whether pixels are counted from 1 (for voc: -O origin=1)",
    "If pixels are counted from 1, or the last pixel is inside the box, edges are off by one at the "
    "image border.",
    needs=("suspects",),
    explains=boxes.outside.code,
)
def off_by_one(columns: DerivedColumns) -> SetFindings:
    """Report boxes outside their images if all lie exactly one pixel outside, and none is wrong otherwise."""
    low = columns.boxes.xyxy[:, :2]
    # Of boxes counted from 1 few touch the right or lower border, but none the left or upper one.
    signs = _find_outside(columns, few_suffice=len(low) >= 3 and bool((low >= 1).all()))
    if signs and columns.is_upright.all() and (columns.beyond[columns.beyond > columns.tolerance] == 1).all():
        yield signs
