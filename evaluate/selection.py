"""Evaluate a part only: some classes, some images, scores from a lowest one on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np

from odm.evaluate.order import first_of_runs, rank_in_runs
from odm.evaluate.sides import Joined, SideTable
from odm.issues import Code, Log, Trusted, UsageError, hint, plural
from odm.names import stem
from odm.pairing import (
    some,
    unique,
)
from odm.tables import Longs

NOTHING_LEFT = Code(
    "nothing-left",
    "warning",
    "{option} leaves none of the {n} {what}",
    "check the value",
    "Without detections every metric is 0, and without ground truth it is undefined, whatever the detector "
    "does.",
)


ExtraImages = Literal["error", "background", "ignore"]


def report_if_nothing_left(before: Joined, after: Joined, option: str, path: str, log: Log) -> None:
    """Report an option that leaves a side without boxes."""
    for had, has, what in (
        (before.truth, after.truth, "ground truth boxes"),
        (before.detections, after.detections, "detections"),
    ):
        if len(had) and not len(has):
            log.report(NOTHING_LEFT, path, option=Trusted(option), n=len(had), what=Trusted(what))


def without_extra_images(joined: Joined, log: Log) -> Joined:
    """The same without the images that only the detections have."""
    names = joined.images[joined.n_truth_images :]
    keep = joined.detections.image < joined.n_truth_images
    n = int(np.count_nonzero(~keep))
    log.note(
        f"{plural(len(names), 'image')} only in the detections left out, with "
        f"{plural(n, 'detection')}: {some(names)}"
    )
    return dataclasses.replace(joined.only(detections=keep), images=joined.images[: joined.n_truth_images])


def keep_scores(joined: Joined, lowest: float, path: str, log: Log) -> Joined:
    """Keep the detections that score at least `lowest`."""
    keep = joined.detections.score >= lowest
    if keep.all():
        return joined
    highest = float(joined.detections.score.max())
    log.note(f"{int((~keep).sum())} detections with a score below {lowest:g} were dropped")
    kept = joined.only(detections=keep)
    option = f"--score-min {lowest:g}, above the highest score, {highest:g},"
    report_if_nothing_left(joined, kept, option, path, log)
    return kept


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


def keep_images(joined: Joined, names: Sequence[str]) -> Joined:
    """Keep the boxes on some images."""
    chosen = np.unique(image_numbers(joined.images, names))
    return dataclasses.replace(joined.shard(chosen), chosen=chosen)


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
