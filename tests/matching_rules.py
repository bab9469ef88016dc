"""The rules of matching, stated plainly: one detection after the other, one ground truth after the other.

The tests assert that `odm.evaluate.match`, which is fast, has the same outcome for every detection. What
a protocol leaves out before is in `prepare.py`, how it measures boxes in `measure_boxes`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from msgspec.structs import replace

from odm.evaluate.matching.pairs import CEILING, EPSILON, measure_boxes
from odm.evaluate.matching.prepare import areas_of, prepare
from odm.evaluate.matching.sides import Joined
from odm.evaluate.scores.protocols import Protocol
from odm.evaluate.scores.set_ups import AreaRange
from odm.tables import Flag, LabelState

PlainOutcome = tuple[str, int]
"""``TP``, ``FP`` or ``ignored``, and the row of the matched ground truth in its dataset, -1 = none."""


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
    """A box as a protocol measures it, of either side; ``given_area`` is what area ranges are about.

    For ground truths that is the area of the file, if that has one; else width times height.
    """

    row: int
    image: int
    category: int
    left: float
    top: float
    right: float
    bottom: float
    area: float
    given_area: float
    height: float
    flags: Flag
    score: float


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """A protocol under one of its IoU thresholds and area ranges."""

    protocol: Protocol
    iou: float
    area: AreaRange

    def counts(self, truth: Box) -> bool:
        """Whether a ground truth counts, or is there to be ignored."""
        outside = not self.area.low <= truth.given_area <= self.area.high
        for bound in self.area.also:
            outside |= bound.column == "height" and not bound.low <= truth.height <= bound.high
        nothing = self.protocol.ignored | self.protocol.crowd_flags | Flag.REGION
        return not (outside or truth.flags & nothing)

    def is_crowd(self, truth: Box) -> bool:
        """Whether any number of detections may match a ground truth."""
        return bool(truth.flags & (self.protocol.crowd_flags | Flag.REGION)) and self.protocol.match == "free"

    def is_group(self, truth: Box) -> bool:
        """Whether a ground truth is for detections that found nothing else."""
        if truth.flags & Flag.REGION:
            return self.protocol.match == "best"
        return self.protocol.group_weight is not None and bool(truth.flags & Flag.GROUP_OF)

    def leaves_out(self, detection: Box) -> bool:
        """Whether the set-up leaves a detection out: it is far lower or higher than what counts."""
        wide = [b for b in self.area.also if b.widened]
        return any(not b.low / b.widened <= detection.height < b.high * b.widened for b in wide if b.widened)

    def overlap(self, detection: Box, truth: Box) -> float:
        """IoU; for crowds and groups the share of the detection that is covered."""
        over_own_area = self.is_crowd(truth) or self.is_group(truth)
        over_own_area |= self.protocol.ignored_by_ioa and not self.counts(truth)
        added = single(float(EPSILON)) if self.protocol.single and not over_own_area else 0.0
        added = self.protocol.added_area or added
        pixel = self.protocol.pixel
        return _overlap(detection, truth, over_own_area=over_own_area, added=added, pixel=pixel)

    def reaches(self, overlap: float, truth: Box) -> bool:
        """Whether an overlap is enough for a match."""
        return overlap > self.iou if self.protocol.strict else overlap >= self.threshold(truth)

    def threshold(self, truth: Box) -> float:
        """The overlap that a match takes."""
        if self.protocol.single:
            return single(self.iou)
        if self.protocol.size_threshold and not truth.flags & Flag.REGION:
            w, h = (
                side + self.protocol.pixel for side in (truth.right - truth.left, truth.bottom - truth.top)
            )
            return min(w * h / ((w + 10) * (h + 10)), self.iou)
        return (
            min(self.iou, CEILING) if self.protocol.averaged and self.protocol.match == "free" else self.iou
        )

    def unmatched(self, detection: Box) -> str:
        """What a detection is that matches nothing."""
        return "FP" if self.area.low <= detection.given_area <= self.area.high else "ignored"


def single(value: float) -> float:
    """A number of 32 bits, which stays one in NumPy's arithmetic with others."""
    rounded: Any = np.float32(value)
    number: float = rounded
    return number


def match_plainly(joined: Joined, protocol: Protocol, iou: float, area: AreaRange) -> dict[int, PlainOutcome]:
    """What becomes of every detection under one IoU threshold and area range, by its row in the dataset."""
    regions = _regions(joined, protocol)
    joined, _ = prepare(replace(joined, regions=None), protocol)
    rules = Rules(protocol, iou, area)
    truths, detections = _boxes(joined, protocol)
    last_first = -1 if protocol.detections_in == "reverse" else 1
    ranked = sorted(detections, key=lambda d: (-d.score, d.image, d.row * last_first))
    if protocol.metric == "top-k":
        return _guesses(joined, ranked, truths, rules)
    outcomes: dict[int, PlainOutcome] = {}
    partial = _partly_boxed(joined)
    for key in dict.fromkeys((d.image, d.category) for d in ranked):
        own = [d for d in ranked if (d.image, d.category) == key]
        left = [d for d in own if not rules.leaves_out(d)]
        theirs = [t for t in truths if (t.image, t.category) == key] + [
            r for r in regions if r.image == key[0]
        ]
        cap = protocol.max_dets if protocol.cap_of == "class" else None
        if protocol.metric == "corloc":
            found = _top_detection(own, theirs, rules)
        elif protocol.match == "free":
            found = _match_free([d for d in own[:cap] if d in left], theirs, rules)
        elif protocol.match == "greatest":
            found = _greatest(own[:cap], theirs, rules)
        else:
            found = _match_best(own[:cap], [t for t in theirs if not rules.is_group(t)], rules)
            _groups(own[:cap], [t for t in theirs if rules.is_group(t)], rules, found)
        for d in own:
            outcome, gt = found.get(d.row, ("ignored", -1))  # beyond the cap
            if outcome == "FP" and protocol.exempt_partial and key in partial:
                outcome = "ignored"
            if protocol.exempt_empty and outcome == "FP" and all(t.image != d.image for t in truths):
                outcome = "ignored"
            outcomes[d.row] = outcome, gt
    return outcomes


def _match_best(detections: list[Box], truths: list[Box], rules: Rules) -> dict[int, PlainOutcome]:
    """VOC: a detection goes to its best ground truth and is false if that is taken.

    Of equals the first is the best; to YOLOv5 the last.
    """
    taken: set[int] = set()
    found: dict[int, PlainOutcome] = {}
    ordered = truths[::-1] if rules.protocol.last_of_equals else truths
    for d in detections:
        best = max(ordered, key=lambda t: rules.overlap(d, t), default=None)
        if best is None or not rules.reaches(rules.overlap(d, best), best):
            found[d.row] = rules.unmatched(d), -1
        elif not rules.counts(best):
            found[d.row] = "ignored", best.row
        elif best.row in taken:
            found[d.row] = rules.unmatched(d), -1
        else:
            taken.add(best.row)
            found[d.row] = "TP", best.row
    return found


def _groups(detections: list[Box], groups: list[Box], rules: Rules, found: dict[int, PlainOutcome]) -> None:
    """Open Images: detections that found nothing else go to the group that covers them best.

    They are ignored; but where a group has a weight, its first detection is a true positive.
    """
    taken: set[int] = set()
    for d in detections:
        if found[d.row][1] >= 0 or not groups:
            continue
        best = max(groups, key=lambda t: rules.overlap(d, t))
        if rules.overlap(d, best) < rules.iou:
            continue
        first = best.row not in taken
        taken.add(best.row)
        is_found = first and rules.protocol.group_weight and rules.counts(best) and d.score > 0
        found[d.row] = "TP" if is_found else "ignored", best.row


def _match_free(detections: list[Box], truths: list[Box], rules: Rules) -> dict[int, PlainOutcome]:
    """COCO: a detection takes the best free ground truth, and one that does not count if none is left."""
    taken: set[int] = set()
    found: dict[int, PlainOutcome] = {}
    ordered = truths[::-1] if rules.protocol.last_of_equals else truths
    for d in detections:
        found[d.row] = rules.unmatched(d), -1
        for counting in (True, False):
            free = [t for t in ordered if t.row not in taken and rules.counts(t) == counting]
            free = [t for t in free if rules.overlap(d, t) >= rules.threshold(t)]
            if free:
                best = max(free, key=lambda t: rules.overlap(d, t))
                found[d.row] = "TP" if counting else "ignored", best.row
                if not rules.is_crowd(best) and not (rules.protocol.ignored_by_ioa and not counting):
                    taken.add(best.row)
                break
    return found


def _greatest(detections: list[Box], truths: list[Box], rules: Rules) -> dict[int, PlainOutcome]:
    """STT: the free two that overlap most are a pair, and so on; of equals the first ground truth."""
    found: dict[int, PlainOutcome] = {d.row: (rules.unmatched(d), -1) for d in detections}
    free, others = list(detections), list(truths)
    while free and others:
        best = max(((d, t) for t in others for d in free), key=lambda pair: rules.overlap(*pair))
        if rules.overlap(*best) < rules.threshold(best[1]):
            break
        found[best[0].row] = "TP" if rules.counts(best[1]) else "ignored", best[1].row
        free.remove(best[0])
        others.remove(best[1])
    return found


def _top_detection(detections: list[Box], truths: list[Box], rules: Rules) -> dict[int, PlainOutcome]:
    """CorLoc: of each image and class with ground truth the top detection counts, whatever it hits."""
    if not truths:
        return {}
    top = detections[0]
    best = max(truths, key=lambda t: rules.overlap(top, t))
    hit = rules.overlap(top, best) >= rules.iou
    return {top.row: ("TP", best.row) if hit else ("FP", -1)}


def _guesses(joined: Joined, ranked: list[Box], truths: list[Box], rules: Rules) -> dict[int, PlainOutcome]:
    """ILSVRC localisation: the best detections of an image, of all classes, are its guesses.

    The first guess that hits an object of a class is a true positive, further ones are ignored.
    """
    rank_in_image = joined.detections.rank_in_image
    rank = (
        {} if rank_in_image is None else dict(zip(joined.detections.row.tolist(), rank_in_image, strict=True))
    )
    outcomes: dict[int, PlainOutcome] = {}
    found: set[tuple[int, int]] = set()
    for image in range(len(joined.images)):
        for among_these, d in enumerate([d for d in ranked if d.image == image]):
            outcomes[d.row] = "ignored", -1
            if rank.get(d.row, among_these) >= (rules.protocol.max_dets or 0):
                continue
            if all(t.image != image for t in truths):
                continue
            own = [t for t in truths if (t.image, t.category) == (image, d.category)]
            best = max(own, key=lambda t: rules.overlap(d, t), default=None)
            if best is None or rules.overlap(d, best) < rules.iou:
                outcomes[d.row] = "FP", -1
            else:
                first = (image, d.category) not in found
                found.add((image, d.category))
                outcomes[d.row] = "TP" if first else "ignored", best.row
    return outcomes


def _overlap(a: Box, b: Box, *, over_own_area: bool, added: float, pixel: int) -> float:
    """Intersection over the union, to which something may be `added`, or over the area of `a`."""
    width = min(a.right, b.right) - max(a.left, b.left) + pixel
    height = min(a.bottom, b.bottom) - max(a.top, b.top) + pixel
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / (a.area + added if over_own_area else a.area + b.area - shared + added)


def _boxes(joined: Joined, protocol: Protocol) -> tuple[list[Box], list[Box]]:
    """Ground truths and detections."""
    truth, detections = joined.truth, joined.detections
    areas = areas_of(truth), detections.wh[:, 0] * detections.wh[:, 1]
    both = []
    for side, area in zip((truth, detections), areas, strict=True):
        numbers = (column.tolist() for column in (side.row, side.image, side.category))
        # NumPy's own numbers, for those of 32 bits are rounded to these after every step.
        edges = (list(column) for column in measure_boxes(side.xyxy, side.wh, protocol))
        flags = map(Flag, side.flags.tolist())
        rows = zip(
            *numbers, *edges, area.tolist(), side.wh[:, 1].tolist(), flags, side.score.tolist(), strict=True
        )
        both.append([Box(*row) for row in rows])
    return both[0], both[1]


WITHOUT_REGIONS = "corloc", "imagenet-loc", "stt", "tube", "ultralytics", "yolov5"
"""The protocols that leave regions to ignore out."""


def _regions(joined: Joined, protocol: Protocol) -> list[Box]:
    """The regions to ignore, each of which belongs to every class of its image."""
    if joined.regions is None or protocol.name in WITHOUT_REGIONS:
        return []
    return _boxes(replace(joined, truth=joined.regions), protocol)[0]


def _partly_boxed(joined: Joined) -> set[tuple[int, int]]:
    """The images and classes where not all objects have a box."""
    if joined.image_labels is None:
        return set()
    rows = zip(*(c.tolist() for c in joined.image_labels), strict=True)
    return {(image, category) for image, category, state in rows if state == LabelState.PARTIAL}
