"""The rules that judge tables: one table of them for `convert`, `eval` and `validate`.

Readers report what does not parse; what was read is judged here. A rule is data: a `Code` and a function
from the tables to the rows it concerns. Rules marked deep are `validate`'s alone; the others cost one pass
over the columns and run before every conversion and evaluation.
"""

from __future__ import annotations

import dataclasses
import functools
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm import pairing
from odm.codes import COORDINATES_NOT_FINITE, SCORE_NOT_FINITE, SOME_SCORES
from odm.issues import INVERTED, PERCENT, Code, Log, Trusted, printable, without_noise
from odm.pairing import candidates
from odm.pairing import iou as _iou
from odm.tables import Dataset, Floats, stem

TOLERANCE = 0.5
"""Pixels by which a box may reach beyond its image: half of what rounding can do."""

# ------------------------------------------------------------------------------------- codes, one pass

EMPTY_BOX = Code(
    "empty-box",
    "warning",
    "the box has no area: {value}",
    "remove it (validate --fix drop-empty), or check the annotation",
    "Width or height is 0. Many trainers refuse such a box, and no detection can ever match it.",
    row=True,
)
OUTSIDE = Code(
    "outside-image",
    "warning",
    "the box reaches {beyond} px beyond the image ({size}): {value}",
    "check the size of the image and the format of the box, or cut it (convert --clip, validate --fix clip)",
    "The box lies partly or wholly outside its image, by more than the tolerance of half a pixel. Often the "
    "coordinates belong to another size of the image, or are in another convention.",
    row=True,
)
DUPLICATE = Code(
    "duplicate-box",
    "warning",
    "the same box of the same class is there already, in {first}",
    "remove one of the two (validate --fix dedupe)",
    "Image, class, coordinates and score are equal to those of an earlier box. A detector can find it "
    "only once, "
    "so the other one counts as a miss, or as a false positive among detections.",
    row=True,
)
SCORE_BEYOND = Code(
    "score-beyond-one",
    "warning",
    "expected a score in 0..1, found {value}",
    "write confidences between 0 and 1",
    "AP depends on the order of the scores alone, but thresholds, curves and other formats take them as "
    "confidences between 0 and 1.",
    row=True,
)
NEGATIVE_AREA = Code(
    "negative-area",
    "warning",
    "expected an area of at least 0, found {value}",
    "remove the area, or compute it anew",
    "The area decides to which size range an object belongs; a negative one belongs to none.",
    row=True,
)
NORMALISED = Code(
    "looks-normalised",
    "warning",
    "expected pixels, found {n} boxes with all numbers in 0..1",
    "multiply them by the image size{option}",
    "No box is larger than one pixel, so the numbers are most probably relative to the image's size.",
)
SIMILAR_IMAGES = Code(
    "similar-image-names",
    "warning",
    "{first!r} and {second!r} differ only by {how}",
    "rename one of the two, or remove it if both are the same image",
    "They are two images here, yet one file on some systems or in formats that name images without "
    "extension.",
)
SIMILAR_CLASSES = Code(
    "similar-class-names",
    "warning",
    "{first!r} and {second!r} differ only by {how}",
    "rename one to the other if they are the same class (convert --rename OLD=NEW)",
    "They are two classes here. If one spelling was meant, half of the objects are in the wrong class.",
)

# ----------------------------------------------------------------------------------------- codes, deep

TINY = Code(
    "tiny-box",
    "warning",
    "the box is less than one pixel wide or high: {value}",
    "check the annotation, or remove it",
    "No picture shows an object of less than a pixel; mostly it is a slip of the mouse or a rounded box.",
    row=True,
)
ASPECT = Code(
    "extreme-aspect-ratio",
    "warning",
    "the box is {ratio} times as long as wide: {value}",
    "check the annotation",
    "Few objects are more than 50 times as long as wide; mostly an edge is in the wrong place.",
    row=True,
)
NEAR_DUPLICATE = Code(
    "near-duplicate-box",
    "warning",
    "the box overlaps with another of its class (IoU {iou}), in {first}",
    "remove one of the two if they show the same object",
    "Two boxes of one class with an IoU above 0.95 are nearly always one object that was annotated, or "
    "detected, "
    "twice.",
    row=True,
)
EQUAL_SCORES = Code(
    "equal-scores",
    "warning",
    "all {n} detections have the score {value}",
    "write the detector's confidences",
    "Average precision is computed over the ranking by score. If all scores are equal the ranking is the "
    "order "
    "of the file, and the result says nothing.",
)
RARE_CLASS = Code(
    "rare-class",
    "warning",
    "the class {value!r} has {n} of {total} boxes, a hundredth or less of the mean of the classes",
    "check its name, and whether it is meant",
    "A class with next to no objects is often a misspelling, and its AP is a matter of chance.",
)
NO_SIZES = Code(
    "images-without-size",
    "warning",
    "{n} of {total} images have no size, the first is {value!r}",
    "give --images DIR, or write width and height",
    "Without its size it cannot be told whether boxes lie inside the image, and relative formats cannot be "
    "written.",
)
ID_ZERO = Code(
    "annotation-id-zero",
    "warning",
    "expected annotation ids from 1, found 0",
    "number the annotations from 1; converting to coco does it",
    "The official evaluation takes the id 0 for no match, so a detection that hits this object counts as a "
    "false positive there. odm counts it rightly.",
)
SAME_LAST_PART = Code(
    "same-name-in-folders",
    "warning",
    "images whose name another has in a different folder or split: {n}, such as {first!r} and {second!r}",
    "keep the folders in mind when images are copied into one",
    "They are different images here, but become one file where a tool puts all images into one folder.",
)
LOOKS_LTWH = Code(
    "looks-like-ltwh",
    "warning",
    "{n} of {total} boxes end before they begin, so the numbers look like left, top, width, height and "
    "not corners",
    "correct the export, as right = left + width and bottom = top + height{option}",
    "If widths and heights are taken for right and bottom edges, boxes in the lower right of the image turn "
    "inside out and all others have the wrong size.",
)
LOOKS_LTRB = Code(
    "looks-like-ltrb",
    "warning",
    "{n} of {total} boxes reach beyond the image, and {left} would if its width and height were right and "
    "bottom edges",
    "correct the export, as width = right - left and height = bottom - top{option}",
    "If corners are taken for widths and heights, boxes become too large and leave the image.",
)
LOOKS_SWAPPED = Code(
    "looks-swapped",
    "warning",
    "{n} of {total} boxes reach beyond the image, and {left} would if x and y were exchanged",
    "exchange x and y, or width and height of the images",
    "Some tools write rows before columns. A picture that is turned by its EXIF data gives the same signs.",
)
OFF_BY_ONE = Code(
    "off-by-one",
    "warning",
    "{n} of {total} boxes reach exactly one pixel beyond the image, and none further",
    "check whether pixels are counted from 1 (for voc: -O origin=1)",
    "Where pixels are counted from 1, or the last pixel is inside the box, edges are off by one against the "
    "image's border.",
)

# -------------------------------------------------------------------------------------- codes, pictures

PICTURE_SIZE = Code(
    "picture-size-differs",
    "warning",
    "the annotations say {value} pixels, the picture has {real}",
    "correct the size, or use the picture that was annotated",
    "If the picture was resized after it was annotated, every box is in the wrong place.",
)
PICTURE_TURNED = Code(
    "picture-size-swapped",
    "warning",
    "the annotations say {value} pixels, the picture has {real}: width and height are exchanged",
    "check the picture's EXIF orientation",
    "Some tools annotate a picture as it is stored and some as it is shown. If the two differ by a "
    "quarter turn, "
    "every box is in the wrong place.",
)

# ---------------------------------------------------------------------------------- codes, two sides

CLASS_ONLY_IN_TRUTH = Code(
    "class-only-in-ground-truth",
    "warning",
    "the class {value!r} of {n} ground truth boxes is not in the detections{hint}",
    "rename it if it is the same class",
    "The detector never found this class, or writes its name differently, which costs it all of its objects.",
)
SIZES_DIFFER = Code(
    "image-sizes-differ",
    "warning",
    "the image {value!r} has {ours} pixels in the ground truth and {theirs} in the detections",
    "use the size of the ground truth for both",
    "Boxes are compared in pixels. If the sizes differ, the detections were made on another size of the "
    "image.",
)
CONVENTIONS_DIFFER = Code(
    "conventions-differ",
    "warning",
    "the detections fit the ground truth far better {how}: mean best IoU {better} instead of {value}",
    "read them so, or correct the export",
    "The two sides write boxes in different conventions, so that hardly any pair overlaps as it should.",
)


# ------------------------------------------------------------------------------------------ the tables


class DerivedColumns:
    """What several rules ask of one dataset, each computed once and only if it is asked for."""

    def __init__(self, dataset: Dataset, tolerance: float, options: Collection[str] = ()) -> None:
        self.dataset = dataset
        self.options = options
        self.boxes = dataset.boxes
        self.tolerance = tolerance

    @functools.cached_property
    def limits(self) -> Floats:
        """(n_images, 2) width and height; unknown ones are infinite."""
        sizes = np.stack([self.dataset.images.width, self.dataset.images.height], axis=1).astype(np.float64)
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
        found = []
        for start in range(0, len(boxes), _CHUNK):
            piece = slice(start, start + _CHUNK)
            left, top, right, bottom = boxes.xyxy[piece].T
            image = boxes.image[piece]
            good = right > left
            good &= bottom > top
            good &= left >= low
            good &= top >= low
            good &= right <= width[image]
            good &= bottom <= height[image]
            given_width, given_height = boxes.wh[piece].T
            good &= given_width >= 0
            good &= given_height >= 0
            good &= given_width + given_height < _TOO_LARGE
            if not good.all():
                found.append(np.flatnonzero(~good) + start)
        return np.concatenate(found) if found else _NONE

    @functools.cached_property
    def not_finite(self) -> NDArray[np.intp]:
        """Rows with an edge, a width, a height or an area that no file can hold."""
        rows = self.suspects
        values = np.concatenate([self.boxes.xyxy[rows], self.boxes.wh[rows]], axis=1)
        wrong = ~(np.abs(values) < _TOO_LARGE).all(axis=1)
        rows = rows[wrong]
        infinite = np.flatnonzero(np.isinf(self.boxes.area))
        return np.union1d(rows, infinite) if len(infinite) else rows

    @functools.cached_property
    def inverted(self) -> NDArray[np.intp]:
        """Rows of finite boxes whose edges are in the wrong order."""
        rows = np.setdiff1d(self.suspects, self.not_finite, assume_unique=True)
        xyxy, wh = self.boxes.xyxy[rows], self.boxes.wh[rows]
        return rows[(xyxy[:, 2:] < xyxy[:, :2]).any(axis=1) | (wh < 0).any(axis=1)]

    @functools.cached_property
    def upright_suspects(self) -> NDArray[np.intp]:
        """The suspects that are finite and not inverted."""
        wrong = np.union1d(self.not_finite, self.inverted)
        return np.setdiff1d(self.suspects, wrong, assume_unique=True)

    @functools.cached_property
    def beyond(self) -> Floats:
        """By how many pixels each of `upright_suspects` leaves its image at the most, 0 if not at all."""
        rows = self.upright_suspects
        xyxy, size = self.boxes.xyxy[rows], self.limits[self.boxes.image[rows]]
        over: Floats = np.concatenate([-xyxy[:, :2], xyxy[:, 2:] - size], axis=1).max(axis=1, initial=0)
        return over

    @functools.cached_property
    def outside(self) -> NDArray[np.intp]:
        """Rows of the boxes that leave their image by more than the tolerance."""
        return self.upright_suspects[self.beyond > self.tolerance]

    @functools.cached_property
    def duplicates(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows of the boxes that are equal to an earlier one, and the rows of the first such."""
        return _duplicates(self.dataset, self.not_finite)

    @functools.cached_property
    def near_duplicates(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
        """Rows of the boxes that nearly are an earlier one of their class, the rows of that, and the IoU."""
        return _near_duplicates(self)


_CHUNK = 16_384
_TOO_LARGE = 1e100
"""Pixels; products of areas of such numbers can still be held."""
_NONE = np.zeros(0, np.intp)
_MIX = [np.uint64(m) for m in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93,
                               0xA0761D6478BD642F, 0xE7037ED1A0B428DB)]  # fmt: skip


def _hashes(dataset: Dataset) -> NDArray[np.uint64]:
    """(n,) numbers that are equal for equal boxes, and nearly never for others."""
    boxes = dataset.boxes
    with_score = dataset.kind == "det"
    hashes = np.empty(len(boxes), np.uint64)
    shift = np.uint64(29)
    for start in range(0, len(boxes), _CHUNK):
        piece = slice(start, start + _CHUNK)
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


def _duplicates(dataset: Dataset, ignored: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows of exact duplicates in ascending order, and for each the row of its first twin.

    Boxes are compared by image, category, edges and, for detections, score. The hashes are only sorted; where
    two are equal the boxes themselves are compared, so no box is ever reported by chance.
    """
    hashes = _hashes(dataset)
    ordered = np.sort(hashes)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twice):
        return _NONE, _NONE
    rows = np.flatnonzero(np.isin(hashes, twice))
    if len(ignored):
        rows = np.setdiff1d(rows, ignored, assume_unique=True)
    if not len(rows):
        return _NONE, _NONE
    boxes = dataset.boxes
    keys = [boxes.image[rows], boxes.category[rows], *boxes.xyxy[rows].T]
    if dataset.kind == "det":
        keys.append(boxes.score[rows])
    # In the order of the hashes, which is cheap; in that of the columns only if boxes of one hash differ.
    order = np.argsort(hashes[rows], kind="stable")
    equal = _equal_to_previous(keys, order)
    if not np.array_equal(equal, hashes[rows][order][1:] == hashes[rows][order][:-1]):
        order = np.lexsort(keys)
        equal = _equal_to_previous(keys, order)
    begins = np.concatenate([[True], ~equal])
    first = rows[order][np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))]
    later, first = rows[order][~begins], first[~begins]
    ascending = np.argsort(later, kind="stable")
    return later[ascending], first[ascending]


def _equal_to_previous(keys: Sequence[NDArray[Any]], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    equal = np.ones(max(0, len(order) - 1), np.bool_)
    for key in keys:
        column = key[order]
        equal &= column[1:] == column[:-1]
    return equal


# ------------------------------------------------------------------------------------------- the rules


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class BoxRule:
    """A fault of single boxes: the rows that have it, and the values of its message for one of them."""

    code: Code
    find: Callable[[DerivedColumns], NDArray[np.intp]]
    values: Callable[[DerivedColumns, int], dict[str, Any]]
    field: str = "bbox"
    deep: bool = False


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class SetRule:
    """A fault of the whole: for each time it is found, its place and the values of its message."""

    code: Code
    find: Callable[[DerivedColumns], Iterator[tuple[tuple[str, int, str], dict[str, Any]]]]
    deep: bool = False
    unless: tuple[str, ...] = ()
    """Codes by which a reader has said the same already, image by image."""


def _number(value: float) -> str:
    text = repr(float(value))
    return text.removesuffix(".0")


def _edges(facts: DerivedColumns, row: int) -> Trusted:
    names = ("left", "top", "right", "bottom")
    exact = facts.boxes.xyxy[row].tolist()
    short = [without_noise(value) for value in exact]
    if len(set(short)) < len(set(exact)):  # edges that differ are shown so
        short = exact
    return Trusted(", ".join(f"{n} {_number(v)}" for n, v in zip(names, short, strict=True)))


def _edges_of(facts: DerivedColumns, row: int) -> dict[str, Any]:
    return {"value": _edges(facts, row)}


def _option(facts: DerivedColumns, name: str, advice: str) -> Trusted:
    """Advice that is only for those whose format has the option."""
    return Trusted(advice if name in facts.options else "")


def _inverted_of(facts: DerivedColumns, row: int) -> dict[str, Any]:
    return {"value": _edges(facts, row), "option": _option(facts, "box", " (--box)")}


def _not_finite_of(facts: DerivedColumns, row: int) -> dict[str, Any]:
    boxes = facts.boxes
    if np.isfinite(boxes.xyxy[row]).all():
        other = f"width {boxes.wh[row, 0]}, height {boxes.wh[row, 1]}, area {boxes.area[row]}"
        return {"value": Trusted(other)}
    return _edges_of(facts, row)


def _empty(facts: DerivedColumns) -> NDArray[np.intp]:
    rows = facts.upright_suspects
    xyxy = facts.boxes.xyxy[rows]
    empty: NDArray[np.intp] = rows[(xyxy[:, 2:] == xyxy[:, :2]).any(axis=1)]
    return empty


def _outside_of(facts: DerivedColumns, row: int) -> dict[str, Any]:
    beyond = facts.beyond[np.searchsorted(facts.upright_suspects, row)]
    images, image = facts.dataset.images, facts.boxes.image[row]
    size = f"{images.width[image]}x{images.height[image]}" if images.width[image] > 0 else "of unknown size"
    return {"value": _edges(facts, row), "beyond": Trusted(f"{beyond:.6g}"), "size": Trusted(size)}


def _place_text(dataset: Dataset, row: int) -> Trusted:
    path, line, pointer = dataset.place(row)
    if not path:
        return Trusted(f"box {row}")
    return Trusted(printable(path) + (f"#{pointer}" if pointer else f":{line}" if line else ""))


def _duplicate_of(facts: DerivedColumns, row: int) -> dict[str, Any]:
    rows, first = facts.duplicates
    return {"first": _place_text(facts.dataset, int(first[np.searchsorted(rows, row)]))}


def _scoreless(facts: DerivedColumns) -> NDArray[np.intp]:
    if facts.dataset.kind != "det":
        return _NONE
    return np.flatnonzero(~np.isfinite(facts.boxes.score))


def _score_of(facts: DerivedColumns, row: int) -> dict[str, Any]:
    score = facts.boxes.score[row]
    return {"value": Trusted("none" if np.isnan(score) else _number(score))}


def _beyond_one(facts: DerivedColumns) -> NDArray[np.intp]:
    score = facts.boxes.score
    if facts.dataset.kind != "det" or not len(score):
        return _NONE
    return np.flatnonzero((score < 0) | (score > 1)) if not _within(score) else _NONE


def _within(score: Floats) -> bool:
    return bool(score.min() >= 0 and score.max() <= 1)


def _finite_beyond_one(facts: DerivedColumns) -> NDArray[np.intp]:
    rows = _beyond_one(facts)
    return rows[np.isfinite(facts.boxes.score[rows])]


def _negative_area(facts: DerivedColumns) -> NDArray[np.intp]:
    rows = np.flatnonzero(facts.boxes.area < 0)
    return rows[np.isfinite(facts.boxes.area[rows])]


def _area_of(facts: DerivedColumns, row: int) -> dict[str, Any]:
    return {"value": Trusted(_number(facts.boxes.area[row]))}


def _truth_scored(facts: DerivedColumns) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    if facts.dataset.kind == "gt":
        scored = ~np.isnan(facts.boxes.score)
        if scored.any():
            yield (
                facts.dataset.place(int(scored.argmax())),
                {"found": int(scored.sum()), "total": len(facts.boxes)},
            )


def _normalised(facts: DerivedColumns) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    xyxy = facts.boxes.xyxy
    if len(xyxy) < 3 or not (xyxy[:3] <= 1.01).all() or len(facts.inverted):
        return
    if xyxy.max() <= 1.01 and xyxy.min() >= -0.01 and (xyxy != np.rint(xyxy)).any():
        advice = _option(
            facts, "coords", ", or say that they are relative (--coords rel, and the image sizes)"
        )
        yield facts.dataset.place(0), {"n": len(xyxy), "option": advice}


def _similar(names: Sequence[str], *, blanks: bool) -> Iterator[tuple[int, int, str]]:
    """Pairs of names, by number, that are alike, and how they differ."""
    if not blanks and all(map(str.isascii, names)) and len(set(map(str.lower, names))) == len(names):
        return  # nearly always, and cheaply
    forms: dict[str, int] = {}
    for i, name in enumerate(names):
        form = unicodedata.normalize("NFC", name)
        key = unicodedata.normalize("NFC", form.casefold())
        if blanks:
            key = "".join(key.split())
        first = forms.setdefault(key, i)
        if first != i:
            other = unicodedata.normalize("NFC", names[first])
            if form == other:
                how = "Unicode form"
            else:
                case = not blanks or "".join(form.split()) != "".join(other.split())
                space = blanks and form.casefold() != other.casefold()
                how = "letter case and blanks" if case and space else "letter case" if case else "blanks"
            yield first, i, how


def _similar_images(facts: DerivedColumns) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    images = facts.dataset.images
    names = images.name
    pairs = list(_similar(names, blanks=False))
    if len({name[-4:] for name in names}) > 1:  # else equal extensions, and unique names have unique stems
        stems: dict[str, int] = {}
        for i, name in enumerate(names):
            first = stems.setdefault(stem(name), i)
            if first != i:
                pairs.append((first, i, "extension"))
    for first, second, how in pairs:
        values = {"first": names[first], "second": names[second], "how": Trusted(how)}
        yield facts.dataset.image_place(second), values


def _similar_classes(facts: DerivedColumns) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    names = facts.dataset.categories.name
    for first, second, how in _similar(names, blanks=True):
        values = {"first": names[first], "second": names[second], "how": Trusted(how)}
        yield _first_place(facts.dataset), values


def _first_place(dataset: Dataset) -> tuple[str, int, str]:
    """The one file, or the folder of all files."""
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


# ------------------------------------------------------------------------------------------ deep rules


def _fine(facts: DerivedColumns) -> NDArray[np.bool_]:
    """(n,) mask of the boxes that are finite and not inverted."""
    fine = np.ones(len(facts.boxes), np.bool_)
    fine[facts.not_finite] = False
    fine[facts.inverted] = False
    return fine


def _tiny(facts: DerivedColumns) -> NDArray[np.intp]:
    size = facts.boxes.xyxy[:, 2:] - facts.boxes.xyxy[:, :2]
    if next(_normalised(facts), None):
        return _NONE
    return np.flatnonzero((size > 0).all(axis=1) & (size < 1).any(axis=1) & _fine(facts))


EXTREME = 50
"""Times that a box may be as long as wide."""


def _aspect(facts: DerivedColumns) -> NDArray[np.intp]:
    with np.errstate(invalid="ignore"):
        size = facts.boxes.xyxy[:, 2:] - facts.boxes.xyxy[:, :2]
    short, long = size.min(axis=1, initial=np.inf), size.max(axis=1, initial=0)
    return np.flatnonzero((short >= 1) & (long > EXTREME * short) & _fine(facts))


def _aspect_of(facts: DerivedColumns, row: int) -> dict[str, Any]:
    size = facts.boxes.xyxy[row, 2:] - facts.boxes.xyxy[row, :2]
    return {"ratio": Trusted(f"{size.max() / size.min():.0f}"), "value": _edges(facts, row)}


NEAR = 0.95
"""IoU above which two boxes of one class are taken for one object."""


def _near_duplicates(facts: DerivedColumns) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Rows, the row of the best earlier twin of each, and their IoU; exact duplicates are left out.

    Boxes of an IoU above t have widths and heights within a factor t of each other and left edges less than
    (1 - t) / t of a width apart, so only neighbours in the order of the left edges are compared.
    """
    boxes = facts.boxes
    fine = _fine(facts)
    fine[facts.duplicates[0]] = False
    fine[(boxes.xyxy[:, 2:] <= boxes.xyxy[:, :2]).any(axis=1)] = False
    rows = np.flatnonzero(fine)
    if len(rows) < 2:
        return _NONE, _NONE, np.zeros(0)
    group = boxes.image[rows].astype(np.int64) * len(facts.dataset.categories) + boxes.category[rows]
    order = np.lexsort((boxes.xyxy[rows, 0], group))
    rows, group = rows[order], group[order]
    xyxy = np.ascontiguousarray(boxes.xyxy[rows].T)
    left, top, right, bottom = xyxy
    slack = (1 - NEAR) / NEAR * (1 + 1e-9)
    reach, fall = (right - left) * ((1 - NEAR) / NEAR), (bottom - top) * slack
    best, first = np.full(len(rows), NEAR), np.full(len(rows), -1)
    live = np.arange(len(rows) - 1)
    for step in range(1, len(rows)):
        live = live[live + step < len(rows)]
        other = live + step
        near = (group[live] == group[other]) & (left[other] - left[live] <= reach[live])
        live = live[near]
        if not len(live):
            break
        one = live[np.abs(top[live + step] - top[live]) <= fall[live]]
        two = one + step
        iou = _iou(xyxy[:, one].T, xyxy[:, two].T)
        # Of equal ones the nearest in this order stays, and of those the one before the box.
        for later, twin in ((two, one), (one, two)):
            better = (rows[later] > rows[twin]) & (iou > best[later])
            best[later[better]], first[later[better]] = iou[better], rows[twin[better]]
        if step >= 1000:  # a thousand boxes with one left edge: enough is known of them
            break
    found = np.flatnonzero(first >= 0)
    found = found[np.argsort(rows[found])]
    return rows[found], first[found], best[found]


def _near_rows(facts: DerivedColumns) -> NDArray[np.intp]:
    rows: NDArray[np.intp] = facts.near_duplicates[0]
    return rows


def _near_of(facts: DerivedColumns, row: int) -> dict[str, Any]:
    later, first, iou = facts.near_duplicates
    i = int(np.searchsorted(later, row))
    return {"first": _place_text(facts.dataset, int(first[i])), "iou": Trusted(f"{iou[i]:.3f}")}


def _percent(facts: DerivedColumns) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    if facts.dataset.kind == "det" and facts.boxes.in_percent:
        above = facts.boxes.score > 1
        n, largest = int(above.sum()), Trusted(_number(facts.boxes.score.max()))
        yield facts.dataset.place(int(above.argmax())), {"n": n, "total": len(above), "value": largest}


def _equal_scores(facts: DerivedColumns) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    score = facts.boxes.score
    if facts.dataset.kind == "det" and len(score) >= 10 and 0 <= score[0] <= 1 and (score == score[0]).all():
        yield _first_place(facts.dataset), {"n": len(score), "value": Trusted(_number(score[0]))}


def _no_confidences(facts: DerivedColumns) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    """All scores are one number that is no confidence, such as the -1 of trackers."""
    boxes = facts.boxes
    if facts.dataset.kind != "det" or len(boxes) < 2 or boxes.in_percent:
        return
    score = boxes.score
    if np.isfinite(score[0]) and not 0 <= score[0] <= 1 and (score == score[0]).all():
        yield _first_place(facts.dataset), {"n": len(score), "value": Trusted(_number(score[0]))}


def _rare_classes(facts: DerivedColumns) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    names = facts.dataset.categories.name
    counts = np.bincount(facts.boxes.category, minlength=len(names))
    total, used = int(counts.sum()), int(np.count_nonzero(counts))
    if facts.dataset.kind == "gt":
        for c in np.flatnonzero((counts > 0) & (counts * 100 * used <= total)).tolist():
            row = int((facts.boxes.category == c).argmax())
            yield facts.dataset.place(row), {"value": names[c], "n": int(counts[c]), "total": total}


def _no_sizes(facts: DerivedColumns) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    images = facts.dataset.images
    missing = (images.width <= 0) | (images.height <= 0)
    if missing.any() and not missing.all():
        row = int(missing.argmax())
        values = {"n": int(missing.sum()), "total": len(images), "value": images.name[row]}
        yield facts.dataset.image_place(row), values


def _id_zero(facts: DerivedColumns) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    zero = facts.boxes.source_id == 0
    if facts.dataset.kind == "gt" and zero.any():
        path, line, pointer = facts.dataset.place(int(zero.argmax()))
        yield (path, line, f"{pointer}/id" if pointer else ""), {}


def _same_last_part(facts: DerivedColumns) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    names = facts.dataset.images.name
    if not any("/" in name for name in names):
        return
    seen: dict[str, int] = {}
    again = []
    for i, name in enumerate(names):
        first = seen.setdefault(stem(name).rpartition("/")[2], i)
        if first != i and names[first].rpartition("/")[0] != name.rpartition("/")[0]:
            again.append((first, i))
    if again:
        first, second = again[0]
        values = {"n": len(again), "first": names[first], "second": names[second]}
        yield facts.dataset.image_place(second), values


def _enough(n: int, total: int) -> bool:
    """Whether `n` of `total` boxes are more than single mistakes."""
    return n >= 3 and n * 20 >= total


ODD = 0.05
"""Share of the boxes that may be odd without hiding in which convention the others are."""
NEARLY = 0.02
"""Share of an image's size by which a box may leave it where a convention is judged."""


def _fits(facts: DerivedColumns, other: Floats) -> NDArray[np.bool_]:
    """(n,) mask of the boxes that, read as `other`, are proper and at least nearly inside their images."""
    size = facts.limits[facts.boxes.image]
    slack = np.where(np.isfinite(size), size * NEARLY, 0) + facts.tolerance
    inside = (other[:, :2] >= -slack) & (other[:, 2:] <= size + slack)
    return np.asarray((inside & (other[:, 2:] > other[:, :2])).all(axis=1))


def _looks_ltwh(facts: DerivedColumns) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    rows, total = facts.inverted, len(facts.boxes)
    xyxy = facts.boxes.xyxy
    if len(rows) < 3 or len(rows) * 4 < total:  # fewer are edges in the wrong order
        return
    axes = (xyxy[rows, 2:] < xyxy[rows, :2]).mean(axis=0)
    if axes.min() < ODD:  # one axis alone was drawn from the other end
        return
    widths = np.concatenate([xyxy[:, :2], xyxy[:, :2] + xyxy[:, 2:]], axis=1)
    if _fits(facts, widths).sum() >= (1 - ODD) * total:
        values = {"n": len(rows), "total": total, "option": _option(facts, "box", ", or say --box ltwh")}
        yield facts.dataset.place(int(rows[0])), values


def _outside_signs(facts: DerivedColumns) -> tuple[tuple[str, int, str], dict[str, Any]] | None:
    rows = facts.outside
    total = len(facts.boxes)
    if not facts.sized or not _enough(len(rows), total):
        return None
    if len(facts.not_finite) + len(facts.inverted) > ODD * total:
        return None
    return facts.dataset.place(int(rows[0])), {"n": len(rows), "total": total}


def _misread(facts: DerivedColumns, other: Floats) -> tuple[tuple[str, int, str], dict[str, Any]] | None:
    """Where boxes leave their images, if they leave them far and as good as all would fit as `other`."""
    found = _outside_signs(facts)
    if found is None:
        return None
    size = facts.limits[facts.boxes.image[facts.upright_suspects]].max(axis=1)
    far = np.count_nonzero(facts.beyond > NEARLY * size)
    fits = _fits(facts, other)
    rows = facts.outside
    if 2 * far < len(rows) or fits.sum() < (1 - ODD) * len(fits):
        return None
    size = facts.limits[facts.boxes.image] + facts.tolerance
    leaves = (other[:, :2] < -facts.tolerance).any(axis=1) | (other[:, 2:] > size).any(axis=1)
    left = int(np.count_nonzero(leaves))
    if left * 5 > len(rows):
        return None
    return found[0], {**found[1], "left": Trusted(f"only {left}" if left else "none")}


def _looks_ltrb(facts: DerivedColumns) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    if not len(facts.outside):
        return
    found = _misread(facts, np.concatenate([facts.boxes.xyxy[:, :2], facts.boxes.wh], axis=1))
    if found:
        yield found[0], {**found[1], "option": _option(facts, "box", ", or say --box ltrb")}


def _looks_swapped(facts: DerivedColumns) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    found = _misread(facts, facts.boxes.xyxy[:, [1, 0, 3, 2]]) if len(facts.outside) else None
    if found:
        yield found


def _off_by_one(facts: DerivedColumns) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    found = _outside_signs(facts)
    if found and _fine(facts).all() and (facts.beyond[facts.beyond > facts.tolerance] == 1).all():
        yield found


RULES: tuple[BoxRule | SetRule, ...] = (
    BoxRule(COORDINATES_NOT_FINITE, lambda f: f.not_finite, _not_finite_of),
    BoxRule(INVERTED, lambda f: f.inverted, _inverted_of),
    BoxRule(SCORE_NOT_FINITE, _scoreless, _score_of, "score"),
    BoxRule(EMPTY_BOX, _empty, _edges_of),
    BoxRule(OUTSIDE, lambda f: f.outside, _outside_of),
    BoxRule(DUPLICATE, lambda f: f.duplicates[0], _duplicate_of, ""),
    BoxRule(SCORE_BEYOND, _finite_beyond_one, _score_of, "score"),
    BoxRule(NEGATIVE_AREA, _negative_area, _area_of, "area"),
    SetRule(SOME_SCORES, _truth_scored),
    SetRule(NORMALISED, _normalised),
    SetRule(SIMILAR_IMAGES, _similar_images),
    SetRule(SIMILAR_CLASSES, _similar_classes),
    BoxRule(TINY, _tiny, _edges_of, deep=True),
    BoxRule(ASPECT, _aspect, _aspect_of, deep=True),
    BoxRule(NEAR_DUPLICATE, _near_rows, _near_of, deep=True),
    SetRule(PERCENT, _percent),
    SetRule(EQUAL_SCORES, _no_confidences),
    SetRule(EQUAL_SCORES, _equal_scores, deep=True),
    SetRule(RARE_CLASS, _rare_classes, deep=True),
    SetRule(NO_SIZES, _no_sizes, deep=True, unless=("image-size-missing", "bad-image-size")),
    SetRule(ID_ZERO, _id_zero, deep=True),
    SetRule(SAME_LAST_PART, _same_last_part, deep=True),
    SetRule(LOOKS_LTWH, _looks_ltwh),
    SetRule(LOOKS_LTRB, _looks_ltrb),
    SetRule(LOOKS_SWAPPED, _looks_swapped),
    SetRule(OFF_BY_ONE, _off_by_one),
)
"""Every rule for one dataset."""

FOLLOWS = {
    PERCENT.name: SCORE_BEYOND.name,
    EQUAL_SCORES.name: SCORE_BEYOND.name,
    LOOKS_LTRB.name: OUTSIDE.name,
    LOOKS_SWAPPED.name: OUTSIDE.name,
    OFF_BY_ONE.name: OUTSIDE.name,
    LOOKS_LTWH.name: INVERTED.name,
}
"""Rules that explain what another reports box by box; of its warnings only the first is then kept."""


def run(
    dataset: Dataset,
    log: Log,
    options: Collection[str] = (),
    *,
    deep: bool = False,
    tolerance: float = TOLERANCE,
) -> NDArray[np.bool_]:
    """Judge a dataset.

    Parameters
    ----------
    log
        Takes the issues.
    options
        Names of the options by which the reader could be told otherwise, such as ``box``; only these are
        given as advice.
    deep
        Whether the rules that only `validate` asks for are run too.
    tolerance
        Pixels by which a box may reach beyond its image.

    Returns
    -------
    (n,) mask of the boxes that have an error.
    """
    facts = DerivedColumns(dataset, tolerance, options)
    wrong = np.zeros(len(dataset), np.bool_)
    with np.errstate(invalid="ignore", over="ignore"):
        rules = [rule for rule in RULES if deep or not rule.deep]
        found = {
            rule: list(rule.find(facts))
            for rule in rules
            if isinstance(rule, SetRule) and not any(log.counts[name] for name in rule.unless)
        }
        reasons = {FOLLOWS[r.code.name]: r.code.name for r in found if found[r] and r.code.name in FOLLOWS}
        for rule in rules:
            if isinstance(rule, SetRule):
                for (path, line, pointer), values in found.get(rule, ()):
                    log.report(rule.code, path, line=line, pointer=pointer, **values)
                continue
            rows = rule.find(facts)
            if len(rows):
                values_of = functools.partial(rule.values, facts)
                error = rule.code.severity == "error"
                reason = "" if error else reasons.get(rule.code.name, "")
                log.report_rows(rule.code, dataset, rows, values_of, field=rule.field, reason=reason)
                if error:
                    wrong[rows] = True
    return wrong


def judge_classes(dataset: Dataset, log: Log) -> None:
    """Report names of classes that are alike, anew: what was said of the names before is taken back."""
    log.withdraw(SIMILAR_CLASSES.name)
    for (path, line, pointer), values in _similar_classes(DerivedColumns(dataset, TOLERANCE)):
        log.report(SIMILAR_CLASSES, path, line=line, pointer=pointer, **values)


# -------------------------------------------------------------------------------------------- pictures


def compare_pictures(dataset: Dataset, sizes: Mapping[int, tuple[int, int]], log: Log) -> None:
    """Report images whose size differs from that of their picture.

    `sizes` gives width and height as a viewer shows the picture, by image row.
    """
    images = dataset.images
    for row, real in sizes.items():
        said = int(images.width[row]), int(images.height[row])
        if min(said) <= 0 or said == real:
            continue
        path, line, pointer = dataset.image_place(row)
        code = PICTURE_TURNED if said == real[::-1] else PICTURE_SIZE
        shown = [Trusted("x".join(map(str, size))) for size in (said, real)]
        log.report(code, path, line=line, pointer=pointer, value=shown[0], real=shown[1])


# -------------------------------------------------------------------------------------------- two sides


def compare(truth: Dataset, detections: Dataset, log: Log) -> None:
    """Report where detections do not fit the ground truth that they belong to.

    Images and classes are paired as an evaluation does it; see `odm.pairing`.
    """
    paired = pairing.pair(truth, detections, log)
    errors = log.errors
    pairing.report_images(truth, detections, paired, log, each=True)
    pairing.report_splits(truth, detections, paired, log)
    found = np.unique(paired.image[detections.boxes.image])
    alone = len(truth.images) - int(np.count_nonzero(found >= 0))
    if alone:
        log.note(f"{alone} of {len(truth.images)} images of the ground truth have no detections")
    if log.errors != errors or not pairing.check_numbers(truth, detections, paired, log):
        pairing.report_classes(truth, detections, paired, log)
        if not log.counts[pairing.NO_CLASS_IN_COMMON.name]:
            _report_unfound(truth, paired, log)
    _compare_sizes(truth, detections, paired.image, log)
    _compare_conventions(truth, detections, paired.image, paired.category, log)


def _report_unfound(truth: Dataset, paired: pairing.Pairing, log: Log) -> None:
    """Report classes that only the ground truth has."""
    names, category = paired.gt_names, truth.boxes.category
    counts = np.bincount(category, minlength=len(names))
    theirs = set(paired.det_names)
    for n, row in enumerate(c for c in np.flatnonzero(counts).tolist() if names[c] not in theirs):
        near = pairing.nearest_name(names[row], paired.det_names) if n < 100 else None
        path, line, pointer = truth.place(int((category == row).argmax()))
        log.report(
            CLASS_ONLY_IN_TRUTH,
            path,
            line=line,
            pointer=pointer,
            value=names[row],
            n=int(counts[row]),
            hint=Trusted(pairing.did_you_mean(near)),
        )


def _compare_sizes(truth: Dataset, detections: Dataset, partner: NDArray[np.int64], log: Log) -> None:
    ours, theirs = truth.images, detections.images
    both = np.flatnonzero(partner >= 0)
    row = partner[both]
    known = (ours.width[row] > 0) & (theirs.width[both] > 0)
    differ = (ours.width[row] != theirs.width[both]) | (ours.height[row] != theirs.height[both])
    for i in both[known & differ].tolist():
        path, line, pointer = detections.image_place(i)
        j = int(partner[i])
        log.report(
            SIZES_DIFFER,
            path,
            line=line,
            pointer=pointer,
            value=ours.name[j],
            ours=Trusted(f"{ours.width[j]}x{ours.height[j]}"),
            theirs=Trusted(f"{theirs.width[i]}x{theirs.height[i]}"),
        )


_SAMPLE = 2000
"""Detections that are enough to tell one convention from another."""


def _compare_conventions(
    truth: Dataset, detections: Dataset, partner: NDArray[np.int64], category: NDArray[np.int64], log: Log
) -> None:
    """Compare the detections as they are and as other conventions would read them with the ground truth."""
    det, gt = detections.boxes, truth.boxes
    if not len(det) or not len(gt):
        return
    usable = (partner[det.image] >= 0) & np.isfinite(det.xyxy).all(axis=1)
    rows = np.flatnonzero(usable)
    if len(rows) > _SAMPLE:
        best = np.nan_to_num(det.score[rows])
        rows = np.sort(rows[np.argsort(-best, kind="stable")[:_SAMPLE]])
    if not len(rows):
        return
    image, cls = partner[det.image[rows]], category[det.category[rows]]
    one, two = candidates(truth, image)
    if (cls >= 0).any():
        same = cls[one] == gt.category[two]
        one, two = one[same], two[same]
    if len(np.unique(one)) < 3:
        return
    width = np.maximum(truth.images.width, 1)[image]
    height = np.maximum(truth.images.height, 1)[image]
    size = np.stack([width, height, width, height], axis=1).astype(np.float64)
    given, wh = det.xyxy[rows], det.wh[rows]
    corners = np.concatenate([given[:, :2], given[:, :2] + given[:, 2:]], axis=1)
    readings = {
        "as left, top, width, height instead of corners": corners,
        "as corners instead of left, top, width, height": np.concatenate([given[:, :2], wh], axis=1),
        "with x and y exchanged": given[:, [1, 0, 3, 2]],
        "as centre, width, height instead of corners": np.concatenate(
            [given[:, :2] - given[:, 2:] / 2, given[:, :2] + given[:, 2:] / 2], axis=1
        ),
        "multiplied by the image size, as relative coordinates": given * size,
        "divided by the image size, as the ground truth seems to be relative": given / size,
    }

    def fit(boxes: Floats) -> float:
        with np.errstate(all="ignore"):
            iou = np.nan_to_num(_iou(boxes[one], gt.xyxy[two]))
        best = np.zeros(len(rows))
        np.maximum.at(best, one, iou)
        return float(best[np.unique(one)].mean())

    now = fit(given)
    if now >= 0.5:
        return
    fits = {how: fit(boxes) for how, boxes in readings.items()}
    how = max(fits, key=fits.__getitem__)
    if fits[how] > 0.5 and fits[how] > 2 * now:
        path, line, pointer = _first_place(detections)
        values: dict[str, Any] = {
            "how": Trusted(how),
            "better": Trusted(f"{fits[how]:.2f}"),
            "value": Trusted(f"{now:.2f}"),
        }
        log.report(CONVENTIONS_DIFFER, path, line=line, pointer=pointer, **values)
