"""Select which images and boxes are written, and into which parts: filters, samples, splits and folds.

Nothing here is random. Images, or groups of them, are put in the order of the SHA-256 of the seed, a zero
byte and their name. So the same names and seed give the same answer on every machine, whatever the order of
the files, and the order of two images does not change when others are added.

Stratified parts are filled by iterative stratification (Sechidis, Tsoumakas and Vlahavas, "On the
Stratification of Multi-label Data", ECML PKDD 2011), the rarest class first, in whole numbers throughout.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Union

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.codes import GIVE_SIZES
from odm.converters.ledger import Ledger
from odm.converters.skipping import drop_images
from odm.issues import Code, DataError, Log, UsageError, first_few, hint, plural, printable, shorten, spell
from odm.tables import Dataset, Longs

if TYPE_CHECKING:
    from fractions import Fraction

CLASS_NOT_IN_PART = Code(
    "class-not-in-part",
    "warning",
    "{part} has no objects of {n} of the {total} classes: {value}",
    "give that part more images, or accept that it lacks these classes",
    "A class without objects in a part of the dataset is not trained, or not tested, there. With rare "
    "classes, large groups or small parts this cannot be avoided.",
)

MOST_FOLDS = 1000

Share = Union[int, "Fraction"]
"""A number of images, or a share of them up to 1."""

GROUPINGS: dict[str, Callable[[Dataset], Sequence[str]]] = {"video": Dataset.groups_by_video}
"""Words that ``--group-by`` takes beside a regular expression: each gives the group of every image."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The images and boxes to keep, and the parts to divide them into: first filters, then the sample, then
    the parts.

    UsageError if the values do not fit together.
    """

    only_images: tuple[str, ...] | None = None
    """Keep the images of these names."""
    score_min: float | None = None
    """Leave out detections with a lower score."""
    at_scores: tuple[Mapping[str, float], float] | None = None
    """Leave out detections below the score of their class, or below the one of all other classes; NaN leaves
    out all."""
    min_box: float = 0.0
    """Leave out boxes whose shorter side has fewer pixels."""
    min_area: float = 0.0
    """Leave out boxes of a smaller area, in square pixels: the one that the source gives, else width times
    height."""
    drop_empty: bool = False
    """Leave out images without boxes."""
    sample: int | str | None = None
    """Keep so many images, or ``"10%"`` of them."""
    split_into: str | Mapping[str, int | float | str] | None = None
    """Divide the images: ``"train:80,val:20"``, or the ratios by name."""
    folds: int | None = None
    """Divide the images into so many folds."""
    group_by: str | None = None
    """Keep the images of a group in one part: a regular expression, or one of `GROUPINGS`."""
    stratify: bool = True
    """Whether each part gets its share of the images of each class."""
    seed: int | str | None = None
    """What the order of images is made from; 0 if left out."""

    def __post_init__(self) -> None:
        """Raise UsageError for a value out of range, or for options that exclude or need one another."""
        for option, value in (("min_box", self.min_box), ("min_area", self.min_area)):
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(f"{spell(option)} {value}: expected a number of pixels of at least 0")
        if self.score_min is not None and not math.isfinite(self.score_min):
            raise UsageError(f"{spell('score_min')} {self.score_min}: expected a score, as in 0.5")
        if self.split_into is not None and self.folds is not None:
            raise UsageError(f"give {spell('split_into')} or {spell('folds')}, not both")
        if self.folds is not None and not 2 <= self.folds <= MOST_FOLDS:
            raise UsageError(f"{spell('folds')} {self.folds}: give a number from 2 to {MOST_FOLDS}")
        if self.split_into is not None:
            parse_ratios(self.split_into)
        if self.sample is not None:
            parse_share(self.sample)
        if not self.divides:
            for option, is_set in (
                ("group_by", self.group_by is not None),
                ("no_stratify", not self.stratify),
            ):
                if is_set:
                    raise UsageError(f"{spell(option)} needs {spell('split_into')} or {spell('folds')}")
            if self.seed is not None and self.sample is None:
                raise UsageError(
                    f"{spell('seed')} needs {spell('sample')}, {spell('split_into')} or {spell('folds')}"
                )
        if self.group_by is not None and self.group_by not in GROUPINGS:
            parse_pattern(self.group_by)

    @property
    def divides(self) -> bool:
        """Whether there will be parts."""
        return self.split_into is not None or self.folds is not None

    @property
    def parts(self) -> dict[str, int]:
        """The ratios by the names of the parts; folds are parts too."""
        if self.split_into is not None:
            return parse_ratios(self.split_into)
        return {f"fold{i}": 1 for i in range(1, (self.folds or 0) + 1)}

    @property
    def key(self) -> str:
        """The seed as text."""
        return "0" if self.seed is None else str(self.seed)


def select(selection: Selection, dataset: Dataset, ledger: Ledger, log: Log) -> Dataset:
    """Return the dataset with the images and boxes of the selection; the others are booked.

    Raises DataError if no image is left, and UsageError if an image that is named does not exist, or a
    threshold needs scores or pixels and there are none.
    """
    n_images = len(dataset.images)
    if selection.only_images is not None:
        check_images(selection.only_images, dataset.images.name)
    dataset = keep_chosen(selection, dataset, ledger)
    if dataset.relative and (selection.min_box or selection.min_area):
        raise UsageError(
            f"{spell('min_box')} and {spell('min_area')} are in pixels, but no image has a size; {GIVE_SIZES}"
        )
    if selection.min_box:
        is_small = dataset.boxes.wh.min(axis=1, initial=np.inf) < selection.min_box
        reason = f"boxes less than {selection.min_box:g} wide or high ({spell('min_box')})"
        dataset = ledger.leave_out(dataset, is_small, reason)
    if selection.min_area:
        with np.errstate(over="ignore"):
            product = dataset.boxes.wh[:, 0] * dataset.boxes.wh[:, 1]
        area = np.where(dataset.boxes.area >= 0, dataset.boxes.area, product)  # not if NaN or negative
        is_small = area < selection.min_area
        dataset = ledger.leave_out(
            dataset, is_small, f"boxes smaller than {selection.min_area:g} ({spell('min_area')})"
        )
    if selection.drop_empty:
        is_empty = np.ones(len(dataset.images), np.bool_)
        is_empty[dataset.boxes.image] = False
        dataset = _leave_out_images(dataset, is_empty, f"without boxes ({spell('drop_empty')})", ledger)
    if selection.sample is not None:
        share = parse_share(selection.sample)
        n = len(dataset.images)
        if isinstance(share, int) and share > n:
            log.note(f"{spell('sample')} {share}: there are only {plural(n, 'image')}, all of which are used")
        is_chosen = choose_sample(dataset.images.name, share, selection.key)
        dataset = _leave_out_images(dataset, ~is_chosen, f"not in the sample ({spell('sample')})", ledger)
    if n_images and not len(dataset.images):
        reasons = ", ".join(f"{n} {reason}" for reason, n in ledger.images_left_out.items())
        raise DataError(f"no image is left of {n_images}: {reasons}", log)
    return dataset


def keep_chosen(selection: Selection, dataset: Dataset, ledger: Ledger) -> Dataset:
    """Keep the images that the selection names, and the detections with its scores; names may be unknown."""
    if selection.only_images is not None:
        is_dropped = ~np.isin(dataset.images.name, selection.only_images)
        dataset = _leave_out_images(dataset, is_dropped, f"not chosen ({spell('only_images')})", ledger)
    if selection.score_min is not None or selection.at_scores is not None:
        dataset = _leave_out_by_score(selection, dataset, ledger)
    return dataset


def check_images(requested: Sequence[str], names: Collection[str]) -> None:
    """Raise UsageError for an image that is asked for and not among the names."""
    known_names = set(names)
    for name in requested:
        if name not in known_names:
            suggestion = hint(name, sorted(known_names))
            raise UsageError(f"{spell('only_images')}: there is no image {shorten(name)!r}{suggestion}")


def _leave_out_by_score(selection: Selection, dataset: Dataset, ledger: Ledger) -> Dataset:
    """Leave out detections below the score thresholds of the selection, and book them.

    Raises UsageError if no box has a score.
    """
    option = "at_scores" if selection.score_min is None else "score_min"
    score = dataset.boxes.score
    if len(score) and np.isnan(score).all():
        raise UsageError(f"{spell(option)}: no box has a score")
    threshold = np.full(
        len(dataset.categories), -np.inf if selection.score_min is None else selection.score_min
    )
    if selection.at_scores is not None:
        scores, default = selection.at_scores
        threshold = np.maximum(threshold, [scores.get(name, default) for name in dataset.categories.name])
        is_used = np.bincount(dataset.boxes.category, minlength=len(dataset.categories)) > 0
        is_unknown = np.array([name not in scores for name in dataset.categories.name], np.bool_)
        description = f"classes that are not in the file of {spell('at_scores')} and use its default"
        ledger.change(description, int(np.count_nonzero(is_used & is_unknown)))
    is_below = ~(score >= threshold[dataset.boxes.category])  # True of NaN, too
    return ledger.leave_out(dataset, is_below, f"detections below the score threshold ({spell(option)})")


def _leave_out_images(
    dataset: Dataset, is_dropped: NDArray[np.bool_], reason: str, ledger: Ledger
) -> Dataset:
    """Leave out the images where `is_dropped`, (images,), and book them and their boxes under `reason`."""
    n = int(np.count_nonzero(is_dropped))
    if n:
        ledger.images_left_out[reason] = n
        dataset = ledger.leave_out(dataset, is_dropped[dataset.boxes.image], f"boxes of images {reason}")
    return drop_images(dataset, is_dropped)


def divide(selection: Selection, dataset: Dataset, log: Log, *, tiled: bool = False) -> Longs:
    """Assign each image to a part: (images,) positions in `Selection.parts`. With `tiled`, images are tiles,
    and those of one image share a part.

    A class of which a part has no box is reported as a warning. Raises DataError if a part would have no
    image, or a group cannot be determined.
    """
    parts = selection.parts
    groups = None
    if tiled:
        from odm.converters.tiles import find_origin

        groups = [find_origin(name) for name in dataset.images.name]
    if selection.group_by is not None:
        groups = group_names(dataset, selection.group_by, log)

    def divide_images(*, stratify: bool) -> tuple[Longs, Longs]:
        """Return the part of each image, and the number of images of each part."""
        ratios = list(parts.values())
        rows = split_rows(dataset, ratios, seed=selection.key, groups=groups, stratify=stratify)
        return rows, np.bincount(rows, minlength=len(parts))

    rows, counts = divide_images(stratify=selection.stratify)
    if not counts.all():
        empty_parts = [name for name, n in zip(parts, counts.tolist(), strict=True) if not n]
        names_text = ", ".join(empty_parts[:3]) + (
            f" and {len(empty_parts) - 3} more" if len(empty_parts) > 3 else ""
        )
        available, verb = plural(len(dataset.images), "image"), "is" if len(dataset.images) == 1 else "are"
        if groups is not None:
            available += f" in {plural(len(set(groups)), 'group')}"
        option = spell("folds" if selection.folds is not None else "split_into")
        _, plain_counts = divide_images(stratify=False)
        is_stratify_cause = selection.stratify and plain_counts.all()
        advice = (
            f"{spell('no_stratify')} divides them by their number alone"
            if is_stratify_cause
            else "use fewer or larger parts"
        )
        raise DataError(
            f"{option}: {names_text} would get no images; there {verb} {available}; {advice}", log
        )
    _report_missing_classes(dataset, rows, list(parts), log)
    return rows


def _report_missing_classes(dataset: Dataset, rows: Longs, parts: Sequence[str], log: Log) -> None:
    """Report each part without a box of some class that another part has.

    `rows` (images,) are the positions of the parts of the images in `parts`, the names of the parts.
    """
    names = dataset.categories.name
    # has_class (parts, classes): whether a part has a box of a class. A key is part * n_classes + class.
    keys = rows[dataset.boxes.image] * len(names) + dataset.boxes.category
    has_class = np.bincount(keys, minlength=len(parts) * len(names)).reshape(len(parts), len(names)) > 0
    is_used = has_class.any(axis=0)
    for part_name, has_class_here in zip(parts, has_class, strict=True):
        missing = np.flatnonzero(is_used & ~has_class_here).tolist()
        if missing:
            examples = first_few(missing, 5, lambda c: shorten(names[c], 30))
            total = int(is_used.sum())
            log.report(
                CLASS_NOT_IN_PART, dataset.path, part=part_name, n=len(missing), total=total, value=examples
            )


# ---------------------------------------------------------------------------------------------- the parts


def sort_by_seed(names: Sequence[str], seed: str) -> Longs:
    """Return (n,) the rows of names in the order that a seed gives them: by SHA-256 of seed and name."""
    import hashlib  # only divisions need it

    head = seed.encode() + b"\0"
    keys = [hashlib.sha256(head + name.encode("utf-8", "surrogatepass")).digest() for name in names]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def choose_sample(names: Sequence[str], share: Share, seed: str) -> NDArray[np.bool_]:
    """Return (n,) True for the images of a sample: the first ones in the order of the seed.

    A share below 1 is rounded down to whole images, but at least one image is taken.
    """
    n = share if isinstance(share, int) else max(1, int(share * len(names)))
    is_chosen = np.zeros(len(names), np.bool_)
    is_chosen[sort_by_seed(names, seed)[:n]] = True
    return is_chosen


def group_names(dataset: Dataset, grouping: str, log: Log) -> list[str]:
    """Return the group of each image by `grouping`, one of `GROUPINGS` or a pattern.

    By a pattern, it is the text in the first parentheses. Raises DataError if there is an image that the
    pattern does not match.
    """
    if grouping in GROUPINGS:
        if grouping == "video" and dataset.images.video is None:
            raise DataError(f"{spell('group_by')} video: no image is a frame of a video", log)
        return list(GROUPINGS[grouping](dataset))
    pattern = parse_pattern(grouping)
    groups = [match[1] if (match := pattern.search(name)) else None for name in dataset.images.name]
    unmatched = [name for name, group in zip(dataset.images.name, groups, strict=True) if group is None]
    if unmatched:
        examples = first_few(unmatched, 3, lambda name: repr(shorten(name, 60)))
        n = plural(len(unmatched), "image")
        raise DataError(f"{spell('group_by')} {printable(grouping)}: does not match {n}: {examples}", log)
    return [group for group in groups if group is not None]


def parse_pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression with parentheses.

    Raises UsageError if it is invalid or has no parentheses.
    """
    try:
        pattern = re.compile(text)
    except re.error as e:
        raise UsageError(f"{spell('group_by')} {shorten(text)}: not a regular expression: {e}") from None
    if not pattern.groups:
        words = "".join(f"{word} or " for word in GROUPINGS)
        raise UsageError(
            f"{spell('group_by')} {shorten(text)}: give {words}a regular expression with parentheses around "
            "the part of the name that identifies the group, as in '^(.*)_frame'"
        )
    return pattern


def split_rows(
    dataset: Dataset, ratios: Sequence[int], *, seed: str, groups: Sequence[str] | None, stratify: bool
) -> Longs:
    """Return (n,) the number of the part of each image, from 0.

    `ratios` are positive whole numbers, a part's share of the images to the others'. `groups` has the group
    of each image, which is not divided; without it each image goes by itself. With `stratify` each part gets
    its share of the images of each class, as far as that can be had.
    """
    if stratify or groups is not None:
        groups = groups or dataset.images.name
        return _stratify(dataset, ratios, seed=seed, groups=groups, stratify=stratify)
    # Each part is a stretch of the order of the seed. Lengths are rounded by largest remainder; the earlier
    # part wins a tie: 10 images by 1:1:1 are 4 3 3.
    n, total = len(dataset.images), sum(ratios)
    sizes = [n * ratio // total for ratio in ratios]
    parts_by_remainder = sorted(range(len(ratios)), key=lambda s: (-(n * ratios[s] % total), s))
    for s in parts_by_remainder[: n - sum(sizes)]:
        sizes[s] += 1
    part_of = np.empty(n, np.int64)
    part_of[sort_by_seed(dataset.images.name, seed)] = np.repeat(np.arange(len(ratios)), sizes)
    return part_of


def _stratify(
    dataset: Dataset, ratios: Sequence[int], *, seed: str, groups: Sequence[str], stratify: bool
) -> Longs:
    """Return (images,) the position of the part of each image, by iterative stratification.

    All images of a group go to one part. Groups with the rarest class left are placed first, each in the
    part that lacks most of this class; groups without classes come last, in the part that lacks most images.
    Without `stratify` classes are not looked at. `ratios` has the share of each part, a whole number. The
    groups are numbered in the order of the seed.
    """
    group_of_image = _number_groups(groups, seed)
    images = np.bincount(group_of_image).tolist()  # of each group
    n_groups, n_classes, parts = len(images), max(len(dataset.categories), 1), range(len(ratios))

    # A table with a row for each group and each class in it: group, class, and on how many of the group's
    # images the class is. Group g has the rows group_start[g] : group_start[g + 1], and class c has
    # rows_by_class[class_start[c] : class_start[c + 1]].
    group, category, count = _count_classes_of_groups(dataset if stratify else None, group_of_image)
    group_start = np.searchsorted(group, np.arange(n_groups + 1))
    rows_by_class = np.argsort(category, kind="stable")
    class_start = np.searchsorted(category[rows_by_class], np.arange(n_classes + 1)).tolist()

    # What each part still lacks, in images * `total`, so that shares are whole numbers.
    total = sum(ratios)
    n_left = np.bincount(category, weights=count, minlength=n_classes).astype(np.int64)
    images_due = [ratio * len(group_of_image) for ratio in ratios]
    class_due = [[ratio * n for ratio in ratios] for n in n_left.tolist()]
    part_of_group = np.full(n_groups, -1, np.int64)
    starts, categories, counts = group_start.tolist(), category.tolist(), count.tolist()

    def place_group(group_row: int, missing: Sequence[int]) -> None:
        """Put a group into the part that misses most; in a tie, that lacks most images; then the first."""
        s = max(parts, key=lambda s: (missing[s], images_due[s], -s))
        part_of_group[group_row] = s
        images_due[s] -= total * images[group_row]
        for i in range(starts[group_row], starts[group_row + 1]):
            class_due[categories[i]][s] -= total * counts[i]

    while n_left.any():
        c = int(np.argmin(np.where(n_left > 0, n_left, np.iinfo(np.int64).max)))  # the rarest class left
        waiting = group[rows_by_class[class_start[c] : class_start[c + 1]]]
        waiting = waiting[part_of_group[waiting] < 0]
        for group_row in waiting.tolist():
            place_group(group_row, class_due[c])
        # The table rows of the groups just placed: group_start:end 2:4 and 7:10 give 2 3 7 8 9.
        lengths = group_start[waiting + 1] - group_start[waiting]
        placed = np.repeat(group_start[waiting + 1] - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
        n_left -= np.bincount(category[placed], weights=count[placed], minlength=n_classes).astype(np.int64)
    for group_row in np.flatnonzero(part_of_group < 0).tolist():
        place_group(group_row, images_due)
    return part_of_group[group_of_image]


def _number_groups(groups: Sequence[str], seed: str) -> Longs:
    """Return (images,) the number of the group of each image, from 0 in the order of the seed."""
    names = list(dict.fromkeys(groups))
    row_of = {name: row for row, name in enumerate(names)}
    order = sort_by_seed(names, seed)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[np.array([row_of[name] for name in groups], np.int64)]


def _count_classes_of_groups(dataset: Dataset | None, group_of_image: Longs) -> tuple[Longs, Longs, Longs]:
    """Return columns with a row for each group and each class in it, sorted by group, then class: the group,
    the class, and on how many images of the group the class is. No rows without a dataset.
    """
    if dataset is None or not len(dataset):
        return (np.zeros(0, np.int64),) * 3
    n_classes = len(dataset.categories)
    image_and_class = np.unique(dataset.boxes.image.astype(np.int64) * n_classes + dataset.boxes.category)
    keys = group_of_image[image_and_class // n_classes] * n_classes + image_and_class % n_classes
    keys, count = np.unique(keys, return_counts=True)
    return keys // n_classes, keys % n_classes, count


# ------------------------------------------------------------------------------- the words of the user


def parse_ratios(ratios: str | Mapping[str, int | float | str]) -> dict[str, int]:
    """Parse ``train:80,val:20``, or a mapping, into whole numbers by the names of the parts.

    Numbers with a point are fractions of the whole, and must add up to 1. Raises UsageError, with all that is
    wrong, for anything else.
    """
    from fractions import Fraction

    if isinstance(ratios, str):  # [::2] leaves the colon out
        pairs = [text.replace("=", ":", 1).partition(":")[::2] for text in ratios.split(",")]
    else:
        pairs = [(name, str(value)) for name, value in ratios.items()]
    shown = shorten(ratios if isinstance(ratios, str) else ",".join(":".join(pair) for pair in pairs))
    faults: list[str] = []
    numbers: dict[str, Fraction] = {}
    folded_names: set[str] = set()
    for name_text, text in pairs:
        name, number_text = name_text.strip(), text.strip()
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name, re.ASCII) or name.endswith("."):
            faults.append(f"{shorten(name)!r} is not a name of letters, digits, '-', '_' and '.'")
        elif name.casefold() in folded_names:
            faults.append(f"{shorten(name)!r} is named twice")
        folded_names.add(name.casefold())
        if not re.fullmatch(r"[0-9]{1,9}|[0-9]{0,9}\.[0-9]{1,9}", number_text, re.ASCII):
            faults.append(f"{shorten(name)!r} needs a number, as in {name or 'train'}:80")
        elif not (value := Fraction(number_text)):
            faults.append(f"{shorten(name)!r} would get no images")
        else:
            numbers[name] = value
    if len(pairs) < 2:
        faults.append("at least two parts are needed, as in train:80,val:20")
    total = sum(numbers.values())
    if not faults and any("." in text for _, text in pairs) and total != 1:
        faults.append(
            f"the fractions add up to {float(total):g}, not to 1; correct them, or use whole numbers"
        )
    if faults:
        raise UsageError(f"{spell('split_into')} {shown}: {'; '.join(faults)}")
    scale = math.lcm(*(value.denominator for value in numbers.values()))  # 0.7 and 0.3 become 7 and 3
    return {name: int(value * scale) for name, value in numbers.items()}


def parse_share(share: str | int) -> Share:
    """Parse a number of images, ``500``, or a share of them, ``10%``. Raises UsageError for anything else."""
    from fractions import Fraction

    text = str(share).strip()
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(%?)", text, re.ASCII)
    value = Fraction(match[1]) if match else Fraction(0)
    is_percentage = match is not None and match[2] == "%"
    is_in_range = 0 < value <= 100 if is_percentage else value > 0 and "." not in text
    if not is_in_range:
        raise UsageError(
            f"{spell('sample')} {shorten(text)}: expected a number of images, or a percentage up to 100, as "
            "in 10%"
        )
    return value / 100 if is_percentage else int(value)
