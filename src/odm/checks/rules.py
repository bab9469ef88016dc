"""Define rules, the columns that several rules need, and the texts that messages share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.issues import Code, Severity, Trusted, printable, without_noise
from odm.pairing import iou as iou_of
from odm.tables import Dataset, Floats, first_index_of
from odm.tables.extra_fields import SHAPES

Location = tuple[str, int, str]
"""Path, line and JSON pointer."""
Found = Iterator[tuple[Location, dict[str, Any]]]
"""For each time a fault is found: its location and the values of its message."""
FoundBoxes = tuple[NDArray[np.intp], Callable[[int], dict[str, Any]]]
"""The rows of the boxes that have a fault, and the values of its message for one of them."""

RELATIVE = 640
"""Pixels of the side of an image for which a tolerance in pixels is meant where no size is known."""
TOO_LARGE = 1e100
"""Pixels; products of areas of such numbers can still be held."""


CHUNK = 16_384
"""Boxes that are looked at together, so that their columns stay in the cache."""
NO_ROWS = np.zeros(0, np.intp)
NEAR = 0.95
"""IoU above which two boxes of one class are taken for one object."""

_MIX = [np.uint64(m) for m in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93,
                               0xA0761D6478BD642F, 0xE7037ED1A0B428DB)]  # fmt: skip


class DerivedColumns:
    """Columns derived from a dataset that several rules need; each is computed at its first use."""

    def __init__(self, dataset: Dataset, tolerance: float, options: Collection[str] = ()) -> None:
        self.dataset = dataset
        self.options = options
        self.boxes = dataset.boxes
        self.tolerance = tolerance / RELATIVE if dataset.relative else tolerance

    @functools.cached_property
    def limits(self) -> Floats:
        """(n_images, 2) width and height, 1 of relative coordinates; unknown ones are infinite."""
        sizes = self.dataset.limits().astype(np.float64)
        sizes[sizes <= 0] = np.inf
        return sizes

    @functools.cached_property
    def sized(self) -> bool:
        """Whether all images with boxes have a size."""
        known = (self.dataset.images.width > 0) & (self.dataset.images.height > 0)
        return bool(known.all() or known[self.boxes.image].all())

    @functools.cached_property
    def suspects(self) -> NDArray[np.intp]:
        """Rows of the boxes that are not plainly inside their image with a positive width and height.

        The arrays are looked at in pieces that stay in the cache; nearly always this is all that is needed.
        """
        boxes, low = self.boxes, -self.tolerance
        width, height = self.limits.T + self.tolerance
        parts = []
        for start in range(0, len(boxes), CHUNK):
            piece = slice(start, start + CHUNK)
            left, top, right, bottom = boxes.xyxy[piece].T
            image = boxes.image[piece]
            is_inside = right > left
            is_inside &= bottom > top
            is_inside &= left >= low
            is_inside &= top >= low
            is_inside &= right <= width[image]
            is_inside &= bottom <= height[image]
            given_width, given_height = boxes.wh[piece].T
            is_inside &= given_width >= 0
            is_inside &= given_height >= 0
            is_inside &= given_width + given_height < TOO_LARGE
            if not is_inside.all():
                parts.append(np.flatnonzero(~is_inside) + start)
        return np.concatenate(parts) if parts else NO_ROWS

    @functools.cached_property
    def not_finite(self) -> NDArray[np.intp]:
        """Rows of boxes with an edge, a width, a height or an area that is NaN, infinite or too large."""
        rows = self.suspects
        values = np.concatenate([self.boxes.xyxy[rows], self.boxes.wh[rows]], axis=1)
        is_wrong = ~(np.abs(values) < TOO_LARGE).all(axis=1)
        rows = rows[is_wrong]
        infinite = np.flatnonzero(np.isinf(self.boxes.area))
        return np.union1d(rows, infinite) if len(infinite) else rows

    @functools.cached_property
    def inverted(self) -> NDArray[np.intp]:
        """Rows of finite boxes whose edges are in the wrong order."""
        rows = np.setdiff1d(self.suspects, self.not_finite, assume_unique=True)
        xyxy, wh = self.boxes.xyxy[rows], self.boxes.wh[rows]
        return rows[(xyxy[:, 2:] < xyxy[:, :2]).any(axis=1) | (wh < 0).any(axis=1)]

    @functools.cached_property
    def upright(self) -> NDArray[np.bool_]:
        """(n,) mask of the boxes that are finite and not inverted."""
        mask = np.ones(len(self.boxes), np.bool_)
        mask[self.not_finite] = False
        mask[self.inverted] = False
        return mask

    @functools.cached_property
    def normalised(self) -> bool:
        """Whether the numbers look relative to the size of the image: all in 0..1, and not all whole."""
        xyxy = self.boxes.xyxy
        if self.dataset.relative or len(xyxy) < 3 or not (xyxy[:3] <= 1.01).all() or len(self.inverted):
            return False
        inside = xyxy.max() <= 1.01 and xyxy.min() >= -0.01
        return bool(inside and (xyxy != np.rint(xyxy)).any())

    @functools.cached_property
    def upright_suspects(self) -> NDArray[np.intp]:
        """The suspects that are finite and not inverted."""
        return self.suspects[self.upright[self.suspects]]

    @functools.cached_property
    def beyond(self) -> Floats:
        """By how many pixels each of `upright_suspects` leaves its image at the most, 0 if not at all."""
        rows = self.upright_suspects
        xyxy, size = self.boxes.xyxy[rows], self.limits[self.boxes.image[rows]]
        distance: Floats = np.concatenate([-xyxy[:, :2], xyxy[:, 2:] - size], axis=1).max(axis=1, initial=0)
        return distance

    @functools.cached_property
    def outside(self) -> NDArray[np.intp]:
        """Rows of the boxes that leave their image by more than the tolerance."""
        return self.upright_suspects[self.beyond > self.tolerance]

    @functools.cached_property
    def refused_numbers(self) -> Floats:
        """(n,) the relative number of each box that is farthest beyond the margin, NaN if none is beyond.

        These are the numbers that a label holds: centre, width, height and keypoints.
        """
        boxes, farthest = self.boxes, np.full(len(self.boxes), np.nan)
        margin = self.dataset.margin
        if margin is None or self.dataset.kind == "det":
            return farthest
        numbers = np.concatenate([(boxes.xyxy[:, :2] + boxes.xyxy[:, 2:]) / 2, boxes.wh], axis=1)
        owner, size = np.arange(len(boxes)), self.limits[boxes.image]
        numbers /= np.tile(size, 2)
        if boxes.keypoints is not None:
            counts = boxes.keypoints.counts()
            owner = np.concatenate([owner, points_owner := np.repeat(owner, counts)])
            points = boxes.keypoints.xyv[:, :2] / size[points_owner]
            numbers = np.concatenate([numbers, np.tile(points, 2)])
        worst = numbers[np.arange(len(numbers)), np.abs(numbers - 0.5).argmax(axis=1)]
        rows = np.flatnonzero(np.abs(worst - 0.5) > 0.5 + margin + 1e-9)  # the last digit is of the division
        return np.append(worst[rows], np.nan)[first_index_of(owner[rows], len(boxes))]

    @functools.cached_property
    def duplicates(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows of boxes that equal an earlier box, and the rows of the first box equal to each."""
        return equal_boxes(self.dataset, self.not_finite)

    @functools.cached_property
    def near_duplicates(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
        """Rows of boxes that nearly equal an earlier box of their class, the rows of these earlier boxes,
        and the IoU.
        """
        usable = self.upright.copy()
        usable[self.duplicates[0]] = False
        return nearly_equal_boxes(self.dataset, usable)

    def edges(self, row: int) -> Trusted:
        """The edges of a box as a message shows them."""
        names = ("left", "top", "right", "bottom")
        exact = self.boxes.xyxy[row].tolist()
        short = [without_noise(value, whole=True) for value in exact]
        if any(short[i] == short[i + 2] and exact[i] != exact[i + 2] for i in (0, 1)):
            short = exact  # opposite edges that differ are shown as such
        return Trusted(", ".join(f"{n} {number(v)}" for n, v in zip(names, short, strict=True)))

    def values_of_edges(self, row: int) -> dict[str, Any]:
        """Return the values of a message that shows only the edges."""
        return {"value": self.edges(row)}

    def option(self, name: str, advice: str) -> Trusted:
        """Return `advice` about an option, or nothing if the format does not have the option."""
        return Trusted(advice if name in self.options else "")

    def location_text(self, row: int) -> Trusted:
        """Return the location of a box as a message names it."""
        path, line, pointer = self.dataset.location(row)
        if not path:
            return Trusted(f"box {row}")
        return Trusted(printable(path) + (f"#{pointer}" if pointer else f":{line}" if line else ""))


class BoxRule(msgspec.Struct, frozen=True, eq=False):
    """A rule about single boxes."""

    code: Code
    find: Callable[[DerivedColumns], FoundBoxes]
    field: str
    needs: tuple[str, ...]
    """What must be there, or one of them, for the rule to find anything; `run` looks for it."""
    validate_only: bool


class SetRule(msgspec.Struct, frozen=True, eq=False):
    """A rule about the dataset as a whole."""

    code: Code
    find: Callable[[DerivedColumns], Found]
    needs: tuple[str, ...]
    """As for single boxes."""
    validate_only: bool
    unless: tuple[str, ...]
    """Codes with which a reader has already reported the same fault, by image."""
    explains: Code | None
    """What another rule reports box by box for the same reason; of those warnings only the first is kept."""


def box_rule(
    code: Code | str,
    severity: Severity = "warning",
    template: str = "",
    advice: str = "",
    why: str = "",
    *,
    field: str = "bbox",
    needs: tuple[str, ...] = (),
    validate_only: bool = False,
) -> Callable[[Callable[[DerivedColumns], FoundBoxes]], BoxRule]:
    """Decorate a function as the rule about single boxes for a code: a declared one, or one made of the
    words of `Code`.
    """
    declared = code if isinstance(code, Code) else Code(code, severity, template, advice, why, row=True)
    return lambda find: BoxRule(declared, find, field, needs, validate_only)


def set_rule(
    code: Code | str,
    severity: Severity = "warning",
    template: str = "",
    advice: str = "",
    why: str = "",
    *,
    needs: tuple[str, ...] = (),
    validate_only: bool = False,
    unless: tuple[str, ...] = (),
    explains: Code | None = None,
) -> Callable[[Callable[[DerivedColumns], Found]], SetRule]:
    """Decorate a function as the rule about the whole dataset for a code, as `box_rule` does."""
    declared = code if isinstance(code, Code) else Code(code, severity, template, advice, why)
    return lambda find: SetRule(declared, find, needs, validate_only, unless, explains)


def number(value: float) -> str:
    """A number as a message shows it, a whole one without decimals."""
    text = repr(float(value))
    return text.removesuffix(".0")


def common_location(dataset: Dataset) -> tuple[str, int, str]:
    """Return the only file of the dataset, or else the folder of all files."""
    paths = list(dict.fromkeys(file.path for file in dataset.files))
    if len(paths) <= 1:
        return (paths[0] if paths else ""), 0, ""
    common = paths[0].split("/")[:-1]
    for path in (paths[-1], *paths[:100]):
        parts = path.split("/")[:-1]
        n = next(
            (i for i, (a, b) in enumerate(zip(common, parts, strict=False)) if a != b),
            min(len(common), len(parts)),
        )
        common = common[:n]
    return "/".join(common) or ("/" if paths[0].startswith("/") else "."), 0, ""


def _hashes(dataset: Dataset) -> NDArray[np.uint64]:
    """(n,) numbers that are equal for equal boxes, and nearly never for others."""
    boxes = dataset.boxes
    with_score = dataset.kind == "det"
    hashes = np.empty(len(boxes), np.uint64)
    shift = np.uint64(29)
    for start in range(0, len(boxes), CHUNK):
        piece = slice(start, start + CHUNK)
        total = boxes.image[piece].astype(np.uint64)
        total *= _MIX[0]
        total += boxes.category[piece].astype(np.uint64)
        columns = [*boxes.xyxy[piece].T]
        if with_score:
            columns.append(boxes.score[piece])
        for column, factor in zip(columns, _MIX[1:], strict=False):
            total *= factor
            total ^= total >> shift
            total += (column + 0.0).view(np.uint64)  # -0.0 is 0.0
        total *= _MIX[0]
        hashes[piece] = total
    return hashes


def equal_boxes(dataset: Dataset, ignored: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of exact duplicates, ascending, and for each the row of the first box equal to it.

    Boxes are compared by image, category, edges, shape where it is known and, for detections, score. The
    hashes are only sorted; where two are equal the boxes themselves are compared, so none is found by chance.
    """
    hashes = _hashes(dataset)
    ordered = np.sort(hashes)
    repeated_hashes = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated_hashes):
        return NO_ROWS, NO_ROWS
    rows = np.flatnonzero(np.isin(hashes, repeated_hashes))
    if len(ignored):
        rows = np.setdiff1d(rows, ignored, assume_unique=True)
    if not len(rows):
        return NO_ROWS, NO_ROWS
    boxes = dataset.boxes
    keys = [boxes.image[rows], boxes.category[rows], *boxes.xyxy[rows].T]
    if dataset.kind == "det":
        keys.append(boxes.score[rows])
    shape_texts = [[boxes.extra[field][i] for i in rows.tolist()] for field in SHAPES & boxes.extra.keys()]
    shape_texts += [
        column.take(rows).row_keys() for column in (boxes.shapes, boxes.keypoints) if column is not None
    ]
    for texts in shape_texts:
        numbers: dict[bytes, int] = {}
        keys.append(np.array([numbers.setdefault(text, len(numbers)) for text in texts]))
    # In the order of the hashes, which is cheap; in that of the columns only if boxes of one hash differ.
    order = np.argsort(hashes[rows], kind="stable")
    is_equal = _equal_to_previous(keys, order)
    if not np.array_equal(is_equal, hashes[rows][order][1:] == hashes[rows][order][:-1]):
        order = np.lexsort(keys)
        is_equal = _equal_to_previous(keys, order)
    # Of equal boxes, which stand side by side now, the first is the original:
    #   is_first         1 0 0 1 0
    #   where, maximum   0 0 0 3 3   the position of the original of each
    is_first = np.concatenate([[True], ~is_equal])
    first = rows[order][np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))]
    later, first = rows[order][~is_first], first[~is_first]
    ascending = np.argsort(later, kind="stable")
    return later[ascending], first[ascending]


def _equal_to_previous(keys: Sequence[NDArray[Any]], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """(n - 1,) whether all columns `keys` (n,), put in `order`, have the value of the row before."""
    is_equal = np.ones(max(0, len(order) - 1), np.bool_)
    for key in keys:
        column = key[order]
        is_equal &= column[1:] == column[:-1]
    return is_equal


def nearly_equal_boxes(
    dataset: Dataset, usable: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Return rows among `usable`, the row of the most similar earlier box of each, and their IoU.

    Boxes of an IoU above t have widths and heights within a factor t of each other and left edges less than
    (1 - t) / t of a width apart, so only neighbours in the order of the left edges are compared.
    """
    boxes = dataset.boxes
    rows = np.flatnonzero(usable & (boxes.xyxy[:, 2:] > boxes.xyxy[:, :2]).all(axis=1))
    if len(rows) < 2:
        return NO_ROWS, NO_ROWS, np.zeros(0)
    group = boxes.image[rows].astype(np.int64) * len(dataset.categories) + boxes.category[rows]
    order = np.lexsort((boxes.xyxy[rows, 0], group))
    rows, group = rows[order], group[order]
    xyxy = np.ascontiguousarray(boxes.xyxy[rows].T)
    left, top, right, bottom = xyxy
    height_share = (1 - NEAR) / NEAR * (1 + 1e-9)
    max_dx, max_dy = (right - left) * ((1 - NEAR) / NEAR), (bottom - top) * height_share
    # In round `step` each box is compared with the one `step` places later, while their left edges are near.
    best_iou, partner = np.full(len(rows), NEAR), np.full(len(rows), -1)
    open_rows = np.arange(len(rows) - 1)
    for step in range(1, len(rows)):
        open_rows = open_rows[open_rows + step < len(rows)]
        other = open_rows + step
        is_near = (group[open_rows] == group[other]) & (left[other] - left[open_rows] <= max_dx[open_rows])
        open_rows = open_rows[is_near]
        if not len(open_rows):
            break
        earlier = open_rows[np.abs(top[open_rows + step] - top[open_rows]) <= max_dy[open_rows]]
        following = earlier + step
        iou = iou_of(xyxy[:, earlier].T, xyxy[:, following].T)
        # Of equal ones the nearest in this order stays, and of those the one before the box.
        for later, twin in ((following, earlier), (earlier, following)):
            wins = (rows[later] > rows[twin]) & (iou > best_iou[later])
            best_iou[later[wins]], partner[later[wins]] = iou[wins], rows[twin[wins]]
        if step >= 1000:  # a thousand boxes with one left edge: enough is known of them
            break
    later_positions = np.flatnonzero(partner >= 0)
    later_positions = later_positions[np.argsort(rows[later_positions])]
    return rows[later_positions], partner[later_positions], best_iou[later_positions]
