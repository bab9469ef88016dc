"""Which images and boxes are written, and into which parts: filters, samples, splits and folds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from odm.codes import GIVE_SIZES
from odm.converters.ledger import Ledger
from odm.converters.skipping import without_images
from odm.converters.splits import (
    GROUPINGS,
    group_names,
    parse_pattern,
    parse_ratios,
    parse_share,
    sample,
    split_rows,
)
from odm.issues import Code, DataError, Log, UsageError, first_few, plural, shorten
from odm.tables import Dataset, Longs

CLASS_NOT_IN_PART = Code(
    "class-not-in-part",
    "warning",
    "{part} has no objects of {n} of the {total} classes: {value}",
    "give that part more images, or accept that it lacks these classes",
    "A class without objects in a part of the data set is not trained, or not tested, there. With rare "
    "classes, large groups or small parts this cannot be avoided.",
)

MOST_FOLDS = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selection:
    """What to keep and how to divide it: first the filters, then the sample, then the parts.

    ValueError if the values do not fit together.
    """

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
    """Keep the images of a group in one part: a regular expression, or one of `splits.GROUPINGS`."""
    stratify: bool = True
    """Whether each part gets its share of the images of each class."""
    seed: int | str | None = None
    """What the order of images is made from; 0 if left out."""

    def __post_init__(self) -> None:
        for flag, value in (("--min-box", self.min_box), ("--min-area", self.min_area)):
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(f"{flag} {value}: expected a number of pixels of at least 0")
        if self.split_into is not None and self.folds is not None:
            raise UsageError("give --split-into or --folds, not both")
        if self.folds is not None and not 2 <= self.folds <= MOST_FOLDS:
            raise UsageError(f"--folds {self.folds}: give a number from 2 to {MOST_FOLDS}")
        if self.split_into is not None:
            parse_ratios(self.split_into)
        if self.sample is not None:
            parse_share(self.sample)
        if not self.divides:
            for flag, given in (
                ("--group-by", self.group_by is not None),
                ("--no-stratify", not self.stratify),
            ):
                if given:
                    raise UsageError(f"{flag} needs --split-into or --folds")
            if self.seed is not None and self.sample is None:
                raise UsageError("--seed needs --sample, --split-into or --folds")
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
    """The dataset with the boxes and images that are wanted; the others are booked.

    Raises
    ------
    DataError
        If no image is left.
    """
    n_images = len(dataset.images)
    if dataset.relative and (selection.min_box or selection.min_area):
        raise UsageError(f"--min-box and --min-area are in pixels, but no image has a size; {GIVE_SIZES}")
    wh = dataset.boxes.wh
    small = wh.min(axis=1, initial=np.inf) < selection.min_box
    dataset = ledger.leave_out(
        dataset, small, f"boxes narrower or lower than {selection.min_box:g} (--min-box)"
    )
    with np.errstate(over="ignore"):
        product = dataset.boxes.wh[:, 0] * dataset.boxes.wh[:, 1]
    area = np.where(dataset.boxes.area >= 0, dataset.boxes.area, product)  # -1 stands for none
    small = area < selection.min_area
    dataset = ledger.leave_out(dataset, small, f"boxes smaller than {selection.min_area:g} (--min-area)")
    if selection.drop_empty:
        empty = np.ones(len(dataset.images), np.bool_)
        empty[dataset.boxes.image] = False
        dataset = _leave_out_images(dataset, empty, "without boxes (--drop-empty)", ledger)
    if selection.sample is not None:
        share = parse_share(selection.sample)
        n = len(dataset.images)
        if isinstance(share, int) and share > n:
            log.note(f"--sample {share}: there are only {plural(n, 'image')}, all of which are used")
        chosen = sample(dataset.images.name, share, selection.key)
        dataset = _leave_out_images(dataset, ~chosen, "not in the sample (--sample)", ledger)
    if n_images and not len(dataset.images):
        reasons = ", ".join(f"{n} {reason}" for reason, n in ledger.images_left_out.items())
        raise DataError(f"no image is left of {n_images}: {reasons}", log)
    return dataset


def _leave_out_images(dataset: Dataset, drop: NDArray[np.bool_], reason: str, ledger: Ledger) -> Dataset:
    """The dataset without some images, which are booked, and so are their boxes."""
    n = int(np.count_nonzero(drop))
    if n:
        ledger.images_left_out[reason] = n
        dataset = ledger.leave_out(dataset, drop[dataset.boxes.image], f"boxes of images {reason}")
    return without_images(dataset, drop)


def divide(selection: Selection, dataset: Dataset, log: Log) -> Longs:
    """(images,) the number of the part of each image, in the order of `Selection.parts`.

    Raises
    ------
    DataError
        If a part would have no image, or a group cannot be determined.
    """
    parts = selection.parts
    groups = None if selection.group_by is None else group_names(dataset, selection.group_by, log)

    def divided(*, stratify: bool) -> tuple[Longs, Longs]:
        ratios = list(parts.values())
        rows = split_rows(dataset, ratios, seed=selection.key, groups=groups, stratify=stratify)
        return rows, np.bincount(rows, minlength=len(parts))

    rows, counts = divided(stratify=selection.stratify)
    if not counts.all():
        names = [name for name, n in zip(parts, counts.tolist(), strict=True) if not n]
        empty = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        have, verb = plural(len(dataset.images), "image"), "is" if len(dataset.images) == 1 else "are"
        if groups is not None:
            have += f" in {plural(len(set(groups)), 'group')}"
        flag = "--folds" if selection.folds is not None else "--split-into"
        helps = selection.stratify and divided(stratify=False)[1].all()
        advice = "--no-stratify divides them by their number alone" if helps else "use fewer or larger parts"
        raise DataError(f"{flag}: {empty} would get no images; there {verb} {have}; {advice}", log)
    _report_missing(dataset, rows, parts, log)
    return rows


def _report_missing(dataset: Dataset, rows: Longs, parts: Mapping[str, int], log: Log) -> None:
    """Warn of each part that lacks classes which the data has."""
    names = dataset.categories.name
    if not len(dataset):
        return
    keys = rows[dataset.boxes.image] * len(names) + dataset.boxes.category
    there = np.bincount(keys, minlength=len(parts) * len(names)).reshape(len(parts), len(names)) > 0
    used = there.any(axis=0)
    for part, row in zip(parts, there, strict=True):
        missing = np.flatnonzero(used & ~row).tolist()
        if missing:
            some = first_few(missing, 5, lambda c: shorten(names[c], 30))
            log.report(
                CLASS_NOT_IN_PART,
                dataset.path,
                part=part,
                n=len(missing),
                total=int(used.sum()),
                value=some,
            )
