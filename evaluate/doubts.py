"""Warnings that make a result doubtful, wherever they come from, and those that need the whole evaluation."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import numpy as np

from odm.codes import CATEGORY_POSITION_GUESSED
from odm.evaluate.matching.join import NO_BOXES, NO_DETECTIONS
from odm.evaluate.matching.sides import NOTHING_LEFT, Joined
from odm.evaluate.scores.protocols import PROTOCOLS, Protocol
from odm.evaluate.tubes import FRAMES_SHIFTED
from odm.issues import PERCENT, Code, Log, Trusted
from odm.pairing import (
    CLASS_ONLY_IN_DETECTIONS,
    CLASS_ORDER_GUESSED,
    FEW_IMAGES_DETECTED,
    SPLIT_WITHOUT_DETECTIONS,
    some,
)
from odm.tables import Flag

GROUPS_AS_OBJECTS = Code(
    "groups-as-objects",
    "warning",
    "{what} under {protocols}, in the class{es} {classes}{alone}",
    "use --protocol {other}, which does not count them as objects, or select classes with --only-classes",
    "A detector cannot be expected to find a box around a crowd or group, or a region without annotations, "
    "as one object: counting it lowers recall and AP. A class with only such boxes has an AP of about 0, "
    "which is averaged like any other.",
)

NO_MATCH = Code(
    "no-match",
    "warning",
    "none of the {n} detections matches any of the {total} ground-truth objects",
    "run `odm validate GT --against DET` to see where the two sides differ",
    "A detector is rarely always wrong. More often the two sides use the same names for different images or "
    "classes, or one has its boxes in another convention or for another image size.",
)


LIKELY_CAUSE = Code(
    "likely-cause",
    "warning",
    "{what}: AP50 would be {better} instead of {value}{where}",
    "{remedy}",
    "The boxes of both sides agree far better if they are read in another way than the files say. The "
    "numbers shown are those of the files as they are.",
)

DOUBTFUL = (
    CATEGORY_POSITION_GUESSED,
    NO_BOXES,
    NO_DETECTIONS,
    SPLIT_WITHOUT_DETECTIONS,
    FEW_IMAGES_DETECTED,
    CLASS_ORDER_GUESSED,
    CLASS_ONLY_IN_DETECTIONS,
    PERCENT,
    LIKELY_CAUSE,
    GROUPS_AS_OBJECTS,
    NOTHING_LEFT,
    NO_MATCH,
    FRAMES_SHIFTED,
)
"""The warnings that make a result doubtful: they are to be seen wherever it is."""


def report_before(joined: Joined, rules: Sequence[Protocol], path: str, log: Log) -> None:
    """Report what of the ground truth the protocols take otherwise than it may be meant, or lack.

    Boxes that stand for many objects, or for a region, may count as ordinary objects.
    """
    truth, n_classes = joined.truth, len(joined.classes)
    for flag, word in ((Flag.CROWD, "crowd"), (Flag.GROUP_OF, "group-of")):
        strict = [p for p in rules if not _exempts(p, flag)]
        ignored = functools.reduce(operator.and_, (p.ignored for p in strict), ~Flag(0))
        counted = ((truth.flags & np.uint16(flag)) != 0) & ((truth.flags & np.uint16(ignored)) == 0)
        n = int(np.count_nonzero(counted))
        if not (n and strict):
            continue
        of_class = np.bincount(truth.category[counted], minlength=n_classes)
        named = [joined.classes[i] for i in np.flatnonzero(of_class).tolist()]
        all_of_class = np.bincount(truth.category, minlength=n_classes)
        only_groups = np.flatnonzero((of_class > 0) & (of_class == all_of_class))
        alone = [joined.classes[i] for i in only_groups.tolist()]
        about_alone = ""
        if alone and any(p.metric in ("ap", "corloc") for p in strict):
            have, ap = ("have", "their APs are") if len(alone) > 1 else ("has", "its AP is")
            about_alone = f"; {some(alone)} {have} only such boxes, and {ap} included in the mean"
        what = f"{n} {word} boxes of the ground truth are ordinary objects"
        log.report(
            GROUPS_AS_OBJECTS,
            path,
            what=Trusted(what if n > 1 else f"1 {word} box of the ground truth is an ordinary object"),
            protocols=Trusted(", ".join(dict.fromkeys(p.name for p in strict))),
            es=Trusted("es" if len(named) > 1 else ""),
            classes=Trusted(some(named)),
            alone=Trusted(about_alone),
            other=next(p.name for p in PROTOCOLS.values() if _exempts(p, flag)),
        )
    for p in rules:
        if p.labelled_only and joined.image_labels is None:
            log.note(
                f"{p.name}: there are no image-level labels, so only detections of classes annotated "
                f"on the image count"
            )
        if p.by_frequency and not joined.frequency:
            log.note(
                f"{p.name}: the ground truth has no class frequencies, so APr, APc and APf are undefined"
            )


def _exempts(protocol: Protocol, flag: Flag) -> bool:
    """Whether ground truths with the flag are no ordinary objects."""
    grouped = flag == Flag.GROUP_OF and protocol.group_weight is not None
    return bool((protocol.crowd_flags | protocol.ignored | protocol.drop_flags) & flag) or grouped
