"""Which image goes where: the order that a seed gives, samples, parts by ratios, and folds.

Nothing here is random. Images, or groups of them, are put in the order of the SHA-256 of the seed, a zero
byte and their name. So the same names and seed give the same answer on every machine, whatever the order of
the files, and the order of two images does not change when others are added.

Stratified parts are filled by iterative stratification (Sechidis, Tsoumakas and Vlahavas, "On the
Stratification of Multi-label Data", ECML PKDD 2011), the rarest class first, in whole numbers throughout.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from math import lcm
from typing import TYPE_CHECKING, Union

import numpy as np
from numpy.typing import NDArray

from odm.issues import DataError, Log, UsageError, first_few, plural, printable, shorten
from odm.tables import Dataset, Longs

if TYPE_CHECKING:
    from fractions import Fraction

Share = Union[int, "Fraction"]
"""How many images, or which part of them."""

GROUPINGS: dict[str, Callable[[Dataset], Sequence[str]]] = {"video": Dataset.groups_by_video}
"""Words that ``--group-by`` takes beside a regular expression: each gives the group of every image."""


def order_of(names: Sequence[str], seed: str) -> Longs:
    """The (n,) rows of names in the order that a seed gives them."""
    import hashlib  # only divisions need it

    head = seed.encode() + b"\0"
    keys = [hashlib.sha256(head + name.encode("utf-8", "surrogatepass")).digest() for name in names]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def sample(names: Sequence[str], share: Share, seed: str) -> NDArray[np.bool_]:
    """(n,) mask of the images that a sample holds: the first in the order of the seed.

    A part of them is rounded down, but at least one image is taken.
    """
    n = share if isinstance(share, int) else max(1, int(share * len(names)))
    chosen = np.zeros(len(names), np.bool_)
    chosen[order_of(names, seed)[:n]] = True
    return chosen


def group_names(dataset: Dataset, how: str, log: Log) -> list[str]:
    """The group of each image: one of `GROUPINGS`, or what the pattern's first parentheses match in its name.

    Raises
    ------
    DataError
        If there is an image that the pattern does not match.
    """
    if how in GROUPINGS:
        if how == "video" and dataset.images.video is None:
            raise DataError("--group-by video: no image is a frame of a video", log)
        return list(GROUPINGS[how](dataset))
    pattern = parse_pattern(how)
    found = [match[1] if (match := pattern.search(name)) else None for name in dataset.images.name]
    missed = [name for name, group in zip(dataset.images.name, found, strict=True) if group is None]
    if missed:
        some = first_few(missed, 3, lambda name: repr(shorten(name, 60)))
        n = plural(len(missed), "image")
        raise DataError(f"--group-by {printable(how)}: does not match {n}: {some}", log)
    return [group for group in found if group is not None]


def parse_pattern(text: str) -> re.Pattern[str]:
    """A regular expression with parentheses; UsageError if it is none."""
    try:
        pattern = re.compile(text)
    except re.error as e:
        raise UsageError(f"--group-by {shorten(text)}: not a regular expression: {e}") from None
    if not pattern.groups:
        words = "".join(f"{word} or " for word in GROUPINGS)
        raise UsageError(
            f"--group-by {shorten(text)}: give {words}a regular expression with parentheses around the "
            "part of the name that identifies the group, as in '^(.*)_frame'"
        )
    return pattern


def split_rows(
    dataset: Dataset, ratios: Sequence[int], *, seed: str, groups: Sequence[str] | None, stratify: bool
) -> Longs:
    """The part of each image.

    Parameters
    ----------
    ratios
        (k,) positive whole numbers: how the parts are to compare in their numbers of images.
    groups
        The group of each image, which is not divided; without it each image goes by itself.
    stratify
        Whether each part gets its share of the images of each class, as far as that can be had.

    Returns
    -------
    ndarray
        (n,) numbers of parts, from 0.
    """
    if not stratify and groups is None:
        return _cut(order_of(dataset.images.name, seed), ratios)
    units = _units(dataset, groups, seed, stratify=stratify)
    part = _stratified(units, ratios)
    return part[units.of_image]


def _cut(order: Longs, ratios: Sequence[int]) -> Longs:
    """Stretches of an order, whose lengths are rounded by largest remainder; the earlier part wins a tie."""
    n, total = len(order), sum(ratios)
    sizes = [n * ratio // total for ratio in ratios]
    by_remainder = sorted(range(len(ratios)), key=lambda s: (-(n * ratios[s] % total), s))
    for s in by_remainder[: n - sum(sizes)]:
        sizes[s] += 1
    part = np.empty(n, np.int64)
    part[order] = np.repeat(np.arange(len(ratios)), sizes)
    return part


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Units:
    """What goes to one part as a whole, in the order of the seed, and how many images each class is on."""

    of_image: Longs
    """(images,) unit of each image."""
    images: Longs
    """(units,) how many images."""
    unit: Longs
    """(m,) sorted; with `category` and `count` (m,): a class is on so many of the images of a unit."""
    category: Longs
    count: Longs
    n_classes: int


def _units(dataset: Dataset, groups: Sequence[str] | None, seed: str, *, stratify: bool) -> _Units:
    if groups is None:
        rows = np.arange(len(dataset.images))
        order = order_of(dataset.images.name, seed)
    else:
        names = list(dict.fromkeys(groups))
        row_of = {name: row for row, name in enumerate(names)}
        rows = np.array([row_of[name] for name in groups], np.int64)
        order = order_of(names, seed)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    of_image = rank[rows]
    n_classes = len(dataset.categories)
    if stratify and len(dataset):
        pairs = np.unique(dataset.boxes.image.astype(np.int64) * n_classes + dataset.boxes.category)
        keys = of_image[pairs // n_classes] * n_classes + pairs % n_classes
        keys, count = np.unique(keys, return_counts=True)
    else:
        n_classes = max(n_classes, 1)
        keys = count = np.zeros(0, np.int64)
    return _Units(
        of_image=of_image,
        images=np.bincount(of_image, minlength=len(order)),
        unit=keys // n_classes,
        category=keys % n_classes,
        count=count.astype(np.int64),
        n_classes=n_classes,
    )


def _stratified(units: _Units, ratios: Sequence[int]) -> Longs:
    """(units,) part of each, by iterative stratification; units without classes come last."""
    total, n_units = sum(ratios), len(units.images)
    part = np.full(n_units, -1, np.int64)
    left = np.bincount(units.category, weights=units.count, minlength=units.n_classes).astype(np.int64)
    want = [ratio * int(units.images.sum()) for ratio in ratios]
    want_of = [[ratio * n for ratio in ratios] for n in left.tolist()]
    first = np.searchsorted(units.unit, np.arange(n_units + 1))
    starts = first.tolist()
    by_class = np.argsort(units.category, kind="stable")
    bounds = np.searchsorted(units.category[by_class], np.arange(units.n_classes + 1)).tolist()
    categories, counts, images = units.category.tolist(), units.count.tolist(), units.images.tolist()
    parts = range(len(ratios))

    def place(unit: int, wanted: Sequence[int]) -> None:
        s = max(parts, key=lambda s: (wanted[s], want[s], -s))
        part[unit] = s
        want[s] -= total * images[unit]
        for i in range(starts[unit], starts[unit + 1]):
            want_of[categories[i]][s] -= total * counts[i]

    while left.any():
        c = int(np.argmin(np.where(left > 0, left, np.iinfo(np.int64).max)))
        mine = units.unit[by_class[bounds[c] : bounds[c + 1]]]
        mine = mine[part[mine] < 0]
        for unit in mine.tolist():
            place(unit, want_of[c])
        lengths = first[mine + 1] - first[mine]
        gone = np.repeat(first[mine + 1] - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
        left -= np.bincount(
            units.category[gone], weights=units.count[gone], minlength=units.n_classes
        ).astype(np.int64)
    for unit in np.flatnonzero(part < 0).tolist():
        place(unit, want)
    return part


# ------------------------------------------------------------------------------- the words of the user


def parse_ratios(given: str | Mapping[str, int | float | str]) -> dict[str, int]:
    """``train:80,val:20``, or a mapping, as whole numbers by the names of the parts.

    Numbers with a point are fractions of the whole, and must add up to 1.

    Raises
    ------
    UsageError
        If it is not that, with all that is wrong.
    """
    from fractions import Fraction

    if isinstance(given, str):
        pairs = [text.replace("=", ":", 1).partition(":")[::2] for text in given.split(",")]
    else:
        pairs = [(name, str(value)) for name, value in given.items()]
    shown = shorten(given if isinstance(given, str) else ",".join(":".join(pair) for pair in pairs))
    wrong: list[str] = []
    numbers: dict[str, Fraction] = {}
    folded: set[str] = set()
    for raw, text in pairs:
        name, number = raw.strip(), text.strip()
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name, re.ASCII) or name.endswith("."):
            wrong.append(f"{shorten(name)!r} is not a name of letters, digits, '-', '_' and '.'")
        elif name.casefold() in folded:
            wrong.append(f"{shorten(name)!r} is named twice")
        folded.add(name.casefold())
        if not re.fullmatch(r"[0-9]{1,9}|[0-9]{0,9}\.[0-9]{1,9}", number, re.ASCII):
            wrong.append(f"{shorten(name)!r} needs a number, as in {name or 'train'}:80")
        elif not (value := Fraction(number)):
            wrong.append(f"{shorten(name)!r} would get no images")
        else:
            numbers[name] = value
    if len(pairs) < 2:
        wrong.append("at least two parts are needed, as in train:80,val:20")
    whole = sum(numbers.values())
    if not wrong and any("." in text for _, text in pairs) and whole != 1:
        wrong.append(
            f"the fractions add up to {float(whole):g}, not to 1; correct them, or use whole numbers"
        )
    if wrong:
        raise UsageError(f"--split-into {shown}: {'; '.join(wrong)}")
    scale = lcm(*(value.denominator for value in numbers.values()))
    return {name: int(value * scale) for name, value in numbers.items()}


def parse_share(given: str | int) -> Share:
    """``500`` images, or ``10%`` of them; UsageError if it is neither."""
    from fractions import Fraction

    text = str(given).strip()
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(%?)", text, re.ASCII)
    value = Fraction(match[1]) if match else Fraction(0)
    if not match or (not match[2] and "." in text) or not value or (match[2] and value > 100):
        raise UsageError(
            f"--sample {shorten(text)}: expected a number of images, or a percentage up to 100, as in 10%"
        )
    return value / 100 if match[2] else int(value)
