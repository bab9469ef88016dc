"""Evaluate a part only: some classes, some images, scores from a lowest one on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np

from odm.evaluate.matching.order import first_of_runs, rank_in_runs
from odm.evaluate.matching.sides import Joined, SideTable
from odm.issues import Code, Log, Trusted, UsageError, hint, plural
from odm.names import stem
from odm.pairing import (
    some,
    unique,
)
from odm.tables import Longs, distinct

NOTHING_LEFT = Code(
    "nothing-left",
    "warning",
    "{option} leaves none of the {n} {what}",
    "check the value",
    "Without detections every metric is 0, and without ground truth it is undefined, whatever the detector "
    "does.",
)


ExtraImages = Literal["error", "background", "ignore"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What part of the sides is evaluated."""

    drop_extra: bool = False
    """Whether images that only the detections have are left out."""
    classes: Sequence[str] | None = None
    images: Sequence[int] | None = None
    """Numbers of images."""
    score_min: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What a `Choice` left of the sides; that of parts can be added up."""

    counts: Longs
    """(4, 4) for each choice how many ground truths and detections there were before, and after it."""
    highest: float
    """The highest score before scores were chosen, -inf where there was none."""

    @classmethod
    def together(cls, parts: Sequence[Kept]) -> Kept:
        """That of all parts."""
        return cls(sum((p.counts for p in parts), np.zeros((4, 4), np.int64)), max(p.highest for p in parts))

    def report(self, choice: Choice, extra: Sequence[str], path: str, log: Log) -> None:
        """Note what was dropped, and report what leaves nothing; `extra` are images of detections only."""
        dropped = self.counts[:, 1] - self.counts[:, 3]
        if choice.drop_extra and extra:
            log.note(
                f"{plural(len(extra), 'image')} only in the detections left out, with "
                f"{plural(int(dropped[0]), 'detection')}: {some(extra)}"
            )
        if choice.classes is not None:
            self._report_nothing_left(1, "--only-classes", path, log)
        if choice.images is not None:
            self._report_nothing_left(2, "--only-images", path, log)
        if choice.score_min is not None and dropped[3]:
            lowest = choice.score_min
            log.note(f"{int(dropped[3])} detections with a score below {lowest:g} were dropped")
            option = f"--score-min {lowest:g}, above the highest score, {self.highest:g},"
            self._report_nothing_left(3, option, path, log)

    def _report_nothing_left(self, step: int, option: str, path: str, log: Log) -> None:
        """Report an option that leaves a side without boxes."""
        had, has = self.counts[step, :2].tolist(), self.counts[step, 2:].tolist()
        for before, after, what in zip(had, has, ("ground truth boxes", "detections"), strict=True):
            if before and not after:
                log.report(NOTHING_LEFT, path, option=Trusted(option), n=before, what=Trusted(what))


def narrow(joined: Joined, choice: Choice) -> tuple[Joined, Kept]:
    """The part of the sides that a choice leaves, and how much that is.

    With a hierarchy, classes are left out after it was applied. UsageError if there is no such class.
    """
    counts = np.zeros((4, 4), np.int64)
    highest = float(joined.detections.score.max(initial=-np.inf))

    def counted(step: int, kept: Joined) -> Joined:
        counts[step] = *map(len, (joined.truth, joined.detections)), *map(len, (kept.truth, kept.detections))
        return kept

    if choice.drop_extra and len(joined.images) > joined.n_truth_images:
        keep = joined.detections.image < joined.n_truth_images
        images = joined.images[: joined.n_truth_images]
        joined = counted(0, dataclasses.replace(joined.only(detections=keep), images=images))
    if choice.classes is not None:
        joined = counted(1, keep_classes(joined, choice.classes))
    if choice.images is not None:
        chosen = distinct(np.asarray(choice.images, np.int64))
        joined = counted(2, dataclasses.replace(joined.shard(chosen), chosen=chosen))
    if choice.score_min is not None:
        highest = float(joined.detections.score.max(initial=-np.inf))
        keep = joined.detections.score >= choice.score_min
        joined = counted(3, joined if keep.all() else joined.only(detections=keep))
    return joined, Kept(counts, highest)


def keep_classes(joined: Joined, names: Sequence[str]) -> Joined:
    """Keep some classes; with a hierarchy after it was applied, as it may lead from other classes to them."""
    tree = joined.hierarchy or {}
    known = {*joined.classes, *tree, *(name for above in tree.values() for name in above)}
    for name in names:
        if name not in known:
            raise UsageError(f"only_classes: there is no class {name!r}{hint(name, sorted(known))}")
    detections = dataclasses.replace(joined.detections, rank_in_image=_ranks_in_images(joined.detections))
    joined = dataclasses.replace(joined, detections=detections, wanted=frozenset(names))
    return joined if tree else keep_wanted(joined)


def _ranks_in_images(detections: SideTable) -> Longs:
    """(n,) the rank of each detection by score among those of its image; equal scores in their order."""
    order = np.lexsort((-detections.score, detections.image))
    rank = np.empty(len(order), np.int64)
    rank[order] = rank_in_runs(first_of_runs(detections.image[order]), len(order))
    return rank


def keep_wanted(joined: Joined) -> Joined:
    """Only the boxes of the wanted classes."""
    if joined.wanted is None:
        return joined
    classes = tuple(name for name in joined.classes if name in joined.wanted)
    rows = {name: i for i, name in enumerate(classes)}
    row = np.array([rows.get(name, -1) for name in joined.classes], np.int32)
    sides = []
    for side in (joined.truth, joined.detections):
        category = row[side.category] if len(side) else side.category
        sides.append(dataclasses.replace(side, category=category).take(category >= 0))
    labels = joined.image_labels
    if labels is not None:
        kept = row[labels[1]] >= 0
        labels = (labels[0][kept], row[labels[1]][kept].astype(np.int64), labels[2][kept])
    return dataclasses.replace(
        joined, classes=classes, truth=sides[0], detections=sides[1], image_labels=labels, wanted=None
    )


def image_numbers(images: Sequence[str], names: Sequence[str]) -> list[int]:
    """The numbers of some images by name, with or without extension. UsageError if there is none."""
    rows = {name: i for i, name in enumerate(images)}
    stems = unique(stem(name) for name in images)
    chosen = []
    for name in names:
        row = rows.get(name, stems.get(name))
        if row is None:
            raise UsageError(f"only_images: there is no image {name!r}{hint(name, images)}")
        chosen.append(row)
    return chosen
