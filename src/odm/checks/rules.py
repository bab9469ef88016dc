"""Define rules, the columns that several rules need, and the texts that messages share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.issues import Code, Severity, Trusted, printable, round_noise
from odm.pairing import iou as iou_of
from odm.tables import Dataset, Floats, first_index_of
from odm.tables.extra_fields import SHAPES

Location = tuple[str, int, str]
"""Path, line and JSON pointer."""
SetFindings = Iterator[tuple[Location, dict[str, Any]]]
"""The location of each fault and the values of its message."""
BoxFindings = tuple[NDArray[np.intp], Callable[[int], dict[str, Any]]]
"""The rows of the boxes that have a fault, and a function from a row to the values of its message."""

RELATIVE = 640
"""Pixels of the side of an image for which a tolerance in pixels is meant where no size is known."""
TOO_LARGE = 1e100
"""Limit of coordinates, in pixels, so that products of areas do not overflow."""


CHUNK = 16_384
"""Boxes that are looked at together, so that their columns stay in the cache."""
NO_ROWS = np.zeros(0, np.intp)
NEAR = 0.95
"""IoU above which two boxes of one class are taken for one object."""

# Odd factors that spread the bits of the six columns of `_hash_boxes`.
_MIX = [np.uint64(m) for m in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93,
                               0xA0761D6478BD642F, 0xE7037ED1A0B428DB)]  # fmt: skip


class DerivedColumns:
    """Columns derived from a dataset that several rules need; each is computed at its first use."""

    def __init__(self, dataset: Dataset, tolerance: float, options: Collection[str] = ()) -> None:
        """Take a dataset, the tolerance at edges of images in pixels, and the names of reader options."""
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
    def all_sized(self) -> bool:
        """Whether all images with boxes have a size."""
        has_size = (self.dataset.images.width > 0) & (self.dataset.images.height > 0)
        return bool(has_size.all() or has_size[self.boxes.image].all())

    @functools.cached_property
    def suspects(self) -> NDArray[np.intp]:
        """Rows, ascending, of the boxes that are too large, or not inside their image with a positive size.

        The other rules of single boxes need to look only at these, which are usually none.
        """
        boxes, low = self.boxes, -self.tolerance
        width, height = self.limits.T + self.tolerance
        suspect_rows = []
        for start in range(0, len(boxes), CHUNK):
            chunk = slice(start, start + CHUNK)
            left, top, right, bottom = boxes.xyxy[chunk].T
            image = boxes.image[chunk]
            is_inside = right > left  # False of NaN, as all that follow
            is_inside &= bottom > top
            is_inside &= left >= low
            is_inside &= top >= low
            is_inside &= right <= width[image]
            is_inside &= bottom <= height[image]
            box_width, box_height = boxes.wh[chunk].T
            is_inside &= box_width >= 0
            is_inside &= box_height >= 0
            is_inside &= box_width + box_height < TOO_LARGE
            if not is_inside.all():
                suspect_rows.append(np.flatnonzero(~is_inside) + start)
        return np.concatenate(suspect_rows) if suspect_rows else NO_ROWS

    @functools.cached_property
    def not_finite(self) -> NDArray[np.intp]:
        """Rows of boxes with an edge, a width or a height that is NaN, infinite or too large, or an infinite
        area.
        """
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
    def is_upright(self) -> NDArray[np.bool_]:
        """(n,) mask of the boxes that are finite and not inverted."""
        is_upright = np.ones(len(self.boxes), np.bool_)
        is_upright[self.not_finite] = False
        is_upright[self.inverted] = False
        return is_upright

    @functools.cached_property
    def normalised(self) -> bool:
        """Whether pixels look like fractions: three boxes or more, none inverted, whose numbers are in 0..1
        but for a hundredth, and not all whole.
        """
        xyxy = self.boxes.xyxy
        # The first three boxes tell soonest that the numbers are pixels, as nearly always.
        if self.dataset.relative or len(xyxy) < 3 or not (xyxy[:3] <= 1.01).all() or len(self.inverted):
            return False
        in_range = xyxy.max() <= 1.01 and xyxy.min() >= -0.01
        return bool(in_range and (xyxy != np.rint(xyxy)).any())

    @functools.cached_property
    def upright_suspects(self) -> NDArray[np.intp]:
        """The suspects that are finite and not inverted."""
        return self.suspects[self.is_upright[self.suspects]]

    @functools.cached_property
    def beyond(self) -> Floats:
        """(n_upright_suspects,) largest distance by which each lies beyond its image, 0 if inside."""
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
        """(n,) a relative number of each box below -margin or above 1 + margin, NaN if it has none.

        Of centre, width and height it is the one farthest from 0.5, else that of the first such keypoint. All
        are NaN for detections, and if the dataset has no `Dataset.margin`.
        """
        boxes, farthest = self.boxes, np.full(len(self.boxes), np.nan)
        margin = self.dataset.margin
        if margin is None or self.dataset.kind == "det":
            return farthest
        numbers = np.concatenate([(boxes.xyxy[:, :2] + boxes.xyxy[:, 2:]) / 2, boxes.wh], axis=1)
        box_of_number, size = np.arange(len(boxes)), self.limits[boxes.image]
        numbers /= np.tile(size, 2)
        if boxes.keypoints is not None:
            counts = boxes.keypoints.counts()
            box_of_number = np.concatenate([box_of_number, box_of_point := np.repeat(box_of_number, counts)])
            # Points have two numbers, boxes four: each point is repeated to fill the row.
            points = boxes.keypoints.xyv[:, :2] / size[box_of_point]
            numbers = np.concatenate([numbers, np.tile(points, 2)])
        worst = numbers[np.arange(len(numbers)), np.abs(numbers - 0.5).argmax(axis=1)]
        rows = np.flatnonzero(np.abs(worst - 0.5) > 0.5 + margin + 1e-9)  # the last digit is of the division
        # The index of a box without such a number is -1, that of the appended NaN.
        return np.append(worst[rows], np.nan)[first_index_of(box_of_number[rows], len(boxes))]

    @functools.cached_property
    def duplicates(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows of boxes that equal an earlier box, and the rows of the first box equal to each."""
        return find_equal_boxes(self.dataset, self.not_finite)

    @functools.cached_property
    def near_duplicates(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
        """Rows of boxes that nearly equal an earlier box of their image and class, the rows of these
        earlier boxes, and the IoU; exact duplicates are left out.
        """
        is_usable = self.is_upright.copy()
        duplicate_rows, _ = self.duplicates
        is_usable[duplicate_rows] = False
        return find_near_duplicates(self.dataset, is_usable)

    def format_edges(self, row: int) -> Trusted:
        """Return the edges of a box as a message shows them, without digits that are only noise."""
        names = ("left", "top", "right", "bottom")
        edges = self.boxes.xyxy[row].tolist()
        shown_values = [round_noise(value, to_whole=True) for value in edges]
        if any(shown_values[i] == shown_values[i + 2] and edges[i] != edges[i + 2] for i in (0, 1)):
            shown_values = edges  # opposite edges that differ are shown as such
        return Trusted(", ".join(f"{n} {format_number(v)}" for n, v in zip(names, shown_values, strict=True)))

    def describe_edges(self, row: int) -> dict[str, Any]:
        """Return the values of a message that shows only the edges."""
        return {"value": self.format_edges(row)}

    def advise_option(self, option: str, advice: str) -> Trusted:
        """Return `advice` about an option, or nothing if the format does not have the option."""
        return Trusted(advice if option in self.options else "")

    def format_location(self, row: int) -> Trusted:
        """Return the location of a box for a message: ``file:line``, or ``file#pointer`` in JSON."""
        path, line, pointer = self.dataset.location(row)
        if not path:
            return Trusted(f"box {row}")
        return Trusted(printable(path) + (f"#{pointer}" if pointer else f":{line}" if line else ""))


class BoxRule(msgspec.Struct, frozen=True, eq=False):
    """A rule about single boxes."""

    code: Code
    find: Callable[[DerivedColumns], BoxFindings]
    field: str
    """The field of a box that the message is about."""
    needs: tuple[str, ...]
    """Keys of `_find_subjects` in `odm.checks`: the rule runs only if the data has one of these."""
    validate_only: bool


class SetRule(msgspec.Struct, frozen=True, eq=False):
    """A rule about the dataset as a whole."""

    code: Code
    find: Callable[[DerivedColumns], SetFindings]
    needs: tuple[str, ...]
    """As for single boxes."""
    validate_only: bool
    unless: tuple[str, ...]
    """Codes with which a reader has already reported the same fault, by image."""
    explains: Code | None
    """Code of the rule that reports the same fault box by box; of its warnings only the first is kept."""


def box_rule(
    code: Code | str,
    severity: Severity = "warning",
    template: str = "",
    advice: str = "",
    explanation: str = "",
    *,
    field: str = "bbox",
    needs: tuple[str, ...] = (),
    validate_only: bool = False,
) -> Callable[[Callable[[DerivedColumns], BoxFindings]], BoxRule]:
    """Decorate a function as the rule about single boxes for a code.

    The code is declared, or made here of its name, severity, message template, advice and explanation. The
    message is about the `field` of a box; for `needs` see `BoxRule`.
    """
    rule_code = (
        code if isinstance(code, Code) else Code(code, severity, template, advice, explanation, row=True)
    )
    return lambda find: BoxRule(rule_code, find, field, needs, validate_only)


def set_rule(
    code: Code | str,
    severity: Severity = "warning",
    template: str = "",
    advice: str = "",
    explanation: str = "",
    *,
    needs: tuple[str, ...] = (),
    validate_only: bool = False,
    unless: tuple[str, ...] = (),
    explains: Code | None = None,
) -> Callable[[Callable[[DerivedColumns], SetFindings]], SetRule]:
    """Decorate a function as the rule about the dataset for a code, declared or made here of its name,
    severity, message template, advice and explanation; for the keywords see `SetRule`.
    """
    rule_code = code if isinstance(code, Code) else Code(code, severity, template, advice, explanation)
    return lambda find: SetRule(rule_code, find, needs, validate_only, unless, explains)


def format_number(value: float) -> str:
    """Return a number as a message shows it, a whole one without decimals."""
    text = repr(float(value))
    return text.removesuffix(".0")


def find_common_location(dataset: Dataset) -> tuple[str, int, str]:
    """Return the only file of the dataset, or else the folder of its files, without line and pointer.

    Of many files only the last and the first hundred are looked at.
    """
    paths = list(dict.fromkeys(file.path for file in dataset.files))
    if len(paths) <= 1:
        return (paths[0] if paths else ""), 0, ""
    common_folders = paths[0].split("/")[:-1]
    for path in (paths[-1], *paths[:100]):
        folders = path.split("/")[:-1]
        n_common = next(
            (i for i, (a, b) in enumerate(zip(common_folders, folders, strict=False)) if a != b),
            min(len(common_folders), len(folders)),
        )
        common_folders = common_folders[:n_common]
    return "/".join(common_folders) or ("/" if paths[0].startswith("/") else "."), 0, ""


def _hash_boxes(dataset: Dataset) -> NDArray[np.uint64]:
    """(n,) hashes of image, class, edges and, for detections, score: rarely equal for different boxes."""
    boxes = dataset.boxes
    with_score = dataset.kind == "det"
    hashes = np.empty(len(boxes), np.uint64)
    shift = np.uint64(29)
    for start in range(0, len(boxes), CHUNK):
        chunk = slice(start, start + CHUNK)
        chunk_hashes = boxes.image[chunk].astype(np.uint64)
        chunk_hashes *= _MIX[0]
        chunk_hashes += boxes.category[chunk].astype(np.uint64)
        columns = [*boxes.xyxy[chunk].T]
        if with_score:
            columns.append(boxes.score[chunk])
        for column, factor in zip(columns, _MIX[1:], strict=False):
            chunk_hashes *= factor
            chunk_hashes ^= chunk_hashes >> shift  # products mix bits upwards only; this brings them down
            chunk_hashes += (column + 0.0).view(np.uint64)  # -0.0 is 0.0
        chunk_hashes *= _MIX[0]
        hashes[chunk] = chunk_hashes
    return hashes


def find_equal_boxes(
    dataset: Dataset, ignored_rows: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of exact duplicates, ascending, and for each the row of the first box equal to it.

    Boxes are compared by image, category, edges, shape if they have one and, for detections, score. Rows in
    `ignored_rows` are left out. Only boxes with equal hashes are compared, but then by all their columns.
    """
    hashes = _hash_boxes(dataset)
    sorted_hashes = np.sort(hashes)
    repeated_hashes = sorted_hashes[1:][sorted_hashes[1:] == sorted_hashes[:-1]]  # usually none
    if not len(repeated_hashes):
        return NO_ROWS, NO_ROWS
    rows = np.flatnonzero(np.isin(hashes, repeated_hashes))
    if len(ignored_rows):
        rows = np.setdiff1d(rows, ignored_rows, assume_unique=True)
    if not len(rows):
        return NO_ROWS, NO_ROWS
    boxes = dataset.boxes
    # The columns in which equal boxes are equal.
    keys = [boxes.image[rows], boxes.category[rows], *boxes.xyxy[rows].T]
    if dataset.kind == "det":
        keys.append(boxes.score[rows])
    shape_texts = [[boxes.extra[field][i] for i in rows.tolist()] for field in SHAPES & boxes.extra.keys()]
    shape_texts += [
        column.take(rows).row_keys() for column in (boxes.shapes, boxes.keypoints) if column is not None
    ]
    for texts in shape_texts:  # equal texts get equal numbers, which can be sorted with the other columns
        number_by_text: dict[bytes, int] = {}
        keys.append(np.array([number_by_text.setdefault(text, len(number_by_text)) for text in texts]))
    # In the order of the hashes, which is cheap; in that of the columns only if boxes of one hash differ.
    order = np.argsort(hashes[rows], kind="stable")
    is_equal = _is_equal_to_previous(keys, order)
    if not np.array_equal(is_equal, hashes[rows][order][1:] == hashes[rows][order][:-1]):
        order = np.lexsort(keys)
        is_equal = _is_equal_to_previous(keys, order)
    # Of equal boxes, which stand side by side now, the first is the original:
    #   is_first         1 0 0 1 0
    #   where, maximum   0 0 0 3 3   position of the original of each
    is_first = np.concatenate([[True], ~is_equal])
    first_rows = rows[order][np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))]
    later_rows, first_rows = rows[order][~is_first], first_rows[~is_first]
    ascending = np.argsort(later_rows, kind="stable")
    return later_rows[ascending], first_rows[ascending]


def _is_equal_to_previous(keys: Sequence[NDArray[Any]], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """(n - 1,) whether all columns `keys` (n,), put in `order`, have the value of the row before."""
    is_equal = np.ones(max(0, len(order) - 1), np.bool_)
    for key in keys:
        column = key[order]
        is_equal &= column[1:] == column[:-1]
    return is_equal


def find_near_duplicates(
    dataset: Dataset, is_usable: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Return rows of boxes with an IoU above `NEAR` with an earlier box of their image and class, the row of
    the most similar earlier box of each, and their IoU; only boxes in the mask `is_usable` are compared.

    Boxes of an IoU above t have left edges less than (1 - t) / t of a width apart, and top edges less than
    that share of a height, so only neighbours in the order of the left edges are compared.
    """
    boxes = dataset.boxes
    rows = np.flatnonzero(is_usable & (boxes.xyxy[:, 2:] > boxes.xyxy[:, :2]).all(axis=1))
    if len(rows) < 2:
        return NO_ROWS, NO_ROWS, np.zeros(0)
    # One number for each image and class; boxes are sorted by it, then by their left edge.
    image_and_class = boxes.image[rows].astype(np.int64) * len(dataset.categories) + boxes.category[rows]
    order = np.lexsort((boxes.xyxy[rows, 0], image_and_class))
    rows, image_and_class = rows[order], image_and_class[order]
    xyxy = np.ascontiguousarray(boxes.xyxy[rows].T)
    left, top, right, bottom = xyxy
    height_share = (1 - NEAR) / NEAR * (1 + 1e-9)  # a little more, against rounding
    max_dx, max_dy = (right - left) * ((1 - NEAR) / NEAR), (bottom - top) * height_share
    # In round `step` each box is compared with the one `step` places later in the order of left edges.
    # `positions` are those of the boxes whose left edge is still near that of the box `step` places later.
    best_iou, partner_rows = np.full(len(rows), NEAR), np.full(len(rows), -1)
    positions = np.arange(len(rows) - 1)
    for step in range(1, len(rows)):
        positions = positions[positions + step < len(rows)]
        next_positions = positions + step
        is_near = (image_and_class[positions] == image_and_class[next_positions]) & (
            left[next_positions] - left[positions] <= max_dx[positions]
        )
        positions = positions[is_near]
        if not len(positions):
            break
        earlier = positions[np.abs(top[positions + step] - top[positions]) <= max_dy[positions]]
        following = earlier + step
        iou = iou_of(xyxy[:, earlier].T, xyxy[:, following].T)
        # Each pair is tried both ways, as either box can be the later row. Of equal IoUs the first stays:
        # the nearest in the order of left edges, and of two equally near the one before the box.
        for later, twins in ((following, earlier), (earlier, following)):
            is_better = (rows[later] > rows[twins]) & (iou > best_iou[later])
            best_iou[later[is_better]], partner_rows[later[is_better]] = (
                iou[is_better],
                rows[twins[is_better]],
            )
        if step >= 1000:  # a thousand boxes with one left edge: the time for all pairs is not worth it
            break
    later_positions = np.flatnonzero(partner_rows >= 0)
    later_positions = later_positions[np.argsort(rows[later_positions])]
    return rows[later_positions], partner_rows[later_positions], best_iou[later_positions]
