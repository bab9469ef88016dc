"""What is refused, or doubted, before anything is compared.

Two sides that do not belong together would give an evaluation of zeros; each reason has a code here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.codes import (
    ALL_SCORED,
    COORDINATES_DIFFER,
    COORDINATES_NOT_FINITE,
    NO_SCORES,
    NO_SIZE,
    SCORE_NOT_FINITE,
)
from odm.issues import INVERTED, PERCENT, Code, Log, Trusted, without_noise
from odm.pairing import (
    source_of,
)
from odm.tables import Dataset, Longs, distinct

NO_TRUTH = Code(
    "no-ground-truth",
    "error",
    "the ground truth contains no images",
    "check the path of the ground truth",
    "Without images there is nothing to compare the detections with.",
)


NO_BOXES = Code(
    "no-ground-truth-boxes",
    "warning",
    "the ground truth has {n} images but no boxes, so every metric is undefined",
    "check that this is intended",
    "Metrics are fractions of the ground-truth boxes, and here there are none.",
)


NO_DETECTIONS = Code(
    "no-detections",
    "warning",
    "found no detections: the result is 0 for every class with ground truth",
    "check the path of the detections",
    "A detector may find nothing, but it is more likely that its output was not written.",
)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class DetectionSummary:
    """Counts and extremes of the detections of a dataset, or of several parts of it together."""

    n: int
    scored: int
    """How many have a score."""
    low: float
    """The lowest score, NaN where there is none."""
    high: float
    above_one: int
    extent: float
    """The largest coordinate, or the negative of the smallest."""
    fractional: bool
    """Whether any coordinate is no whole number."""
    per_class: Longs
    """(classes,) detections of each class."""
    images: NDArray[np.intp]
    """The rows of the images that have detections."""

    @classmethod
    def of(cls, detections: Dataset) -> DetectionSummary:
        """That of a whole dataset."""
        boxes, n = detections.boxes, len(detections)
        score, xyxy = boxes.score, boxes.xyxy
        known = score[~np.isnan(score)]
        has_boxes = np.zeros(len(detections.images), np.bool_)
        has_boxes[boxes.image] = True
        return cls(
            n=n,
            scored=len(known),
            low=float(known.min()) if len(known) else math.nan,
            high=float(known.max()) if len(known) else math.nan,
            above_one=int(np.count_nonzero(known > 1)),
            extent=float(max(xyxy.max(), -xyxy.min())) if n else -math.inf,
            fractional=bool((xyxy != np.floor(xyxy)).any()),
            per_class=np.bincount(boxes.category, minlength=len(detections.categories)),
            images=np.flatnonzero(has_boxes),
        )

    @classmethod
    def together(
        cls,
        parts: Sequence[DetectionSummary],
        classes: Sequence[Longs],
        images: Sequence[Longs],
        n_classes: int,
    ) -> DetectionSummary:
        """That of all parts; `classes` and `images` map the rows of each part to those of the whole."""
        per_class = np.zeros(n_classes, np.int64)
        for part, rows in zip(parts, classes, strict=True):
            np.add.at(per_class, rows, part.per_class)
        used = [rows[part.images] for part, rows in zip(parts, images, strict=True)]
        return cls(
            n=sum(p.n for p in parts),
            scored=sum(p.scored for p in parts),
            low=float(np.fmin.reduce([math.nan, *(p.low for p in parts)])),
            high=float(np.fmax.reduce([math.nan, *(p.high for p in parts)])),
            above_one=sum(p.above_one for p in parts),
            extent=max([-math.inf, *(p.extent for p in parts)]),
            fractional=any(p.fractional for p in parts),
            per_class=per_class,
            images=distinct(np.concatenate([np.zeros(0, np.int64), *used])),
        )

    @property
    def in_percent(self) -> bool:
        """As `Boxes.in_percent`."""
        return 10 < self.high <= 100 and self.low >= 0 and self.above_one * 2 > self.n


FILTERED = 0.25
"""Detections that all score at least this look as if a threshold had been applied."""


def check_sides(truth: Dataset, detections: Dataset, log: Log, summary: DetectionSummary) -> None:
    """Report what makes any comparison meaningless; `summary` is that of all detections."""
    if not len(truth.images):
        log.report(NO_TRUTH, source_of(truth))
    elif not len(truth):
        log.report(NO_BOXES, source_of(truth), n=len(truth.images))
    scored = len(truth) and not np.isnan(truth.boxes.score).any()
    if scored or (truth.kind == "det" and len(truth)):
        log.report(ALL_SCORED, source_of(truth), n=len(truth))
    _check_scores(detections, log, summary)
    for side in (truth, detections):
        check_rows(side, log)
    if len(truth) and summary.n:
        _check_coordinates(truth, detections, log, summary)


def _check_scores(detections: Dataset, log: Log, summary: DetectionSummary) -> None:
    """Report detections that cannot be ranked by score, scores in percent, and scores that look filtered."""
    score = detections.boxes.score
    if not summary.n:
        log.report(NO_DETECTIONS, source_of(detections))
        return
    if not summary.scored:
        log.report(NO_SCORES, source_of(detections), n=summary.n)
        return
    wrong = np.flatnonzero(~np.isfinite(score))
    if len(wrong):
        log.report_rows(
            SCORE_NOT_FINITE, detections, wrong, lambda row: {"value": float(score[row])}, field="score"
        )
        return
    low, high, n = summary.low, summary.high, summary.n
    if summary.in_percent and not log.counts[PERCENT.name]:  # else it was reported when the file was checked
        path, line, pointer = detections.location(int((detections.boxes.score > 1).argmax()))
        largest = Trusted(f"{high:g}")
        log.report(PERCENT, path, line=line, pointer=pointer, n=summary.above_one, total=n, value=largest)
    shown = low / 100 if summary.in_percent else low
    if n >= 3 and shown >= FILTERED and high <= 100:
        log.note(
            f"all {n} detections score at least {low:g}: they look already filtered, which lowers "
            f"recall and AP; if so, keep all of them (a threshold of 0.01 or less)"
        )
    if n >= 3 and low == high:
        log.note(f"all {n} detections have the score {low:g}, so only their order ranks them")


def check_rows(side: Dataset, log: Log) -> None:
    """Report boxes that cannot be compared: coordinates that are no numbers, edges in the wrong order."""
    xyxy, wh = side.boxes.xyxy, side.boxes.wh
    finite: Any = True
    if not (np.isfinite(xyxy).all() and np.isfinite(wh).all()):
        finite = np.isfinite(np.c_[xyxy, wh]).all(axis=1)
        wrong = np.flatnonzero(~finite)
        log.report_rows(COORDINATES_NOT_FINITE, side, wrong, lambda row: {"value": str(xyxy[row].tolist())})
    left, top, right, bottom = xyxy.T
    wrong = np.flatnonzero(((right < left) | (bottom < top) | (wh < 0).any(axis=1)) & finite)
    if len(wrong):
        log.report_rows(INVERTED, side, wrong, lambda row: _edges(side, row))


def _edges(side: Dataset, row: int) -> dict[str, Any]:
    values = (without_noise(value) for value in side.boxes.xyxy[row].tolist())
    named = zip(("left", "top", "right", "bottom"), values, strict=True)
    return {
        "value": Trusted(", ".join(f"{name} {value:.15g}" for name, value in named)),
        "option": Trusted(""),
    }


def _check_coordinates(truth: Dataset, detections: Dataset, log: Log, summary: DetectionSummary) -> None:
    """Report one side in pixels and the other in 0..1."""
    if truth.relative or detections.relative:
        for side in (truth, detections) if truth.relative != detections.relative else ():
            if side.relative:
                path, line, pointer = side.image_place(int(side.boxes.image[0]))
                name = side.images.name[int(side.boxes.image[0])]
                log.report(NO_SIZE, path, line=line, pointer=pointer, value=name)
        return
    own = truth.boxes.xyxy
    largest = [float(max(own.max(), -own.min())), summary.extent]
    fractional = [bool((own != np.floor(own)).any()), summary.fractional]
    if max(largest) <= 1.5:
        log.note(
            "all boxes of both sides are in 0..1: if they are relative, give the image sizes, because "
            "areas and inclusive pixels need real pixels"
        )
    for small, large, sides in (
        (0, 1, ("the ground truth's boxes", "the detections")),
        (1, 0, ("the detections", "the ground truth's boxes")),
    ):
        # A box or two of one pixel may be all there is; fractions within 0..1 are no pixels.
        if largest[small] <= 1.5 and largest[large] > 4 and fractional[small]:
            log.report(
                COORDINATES_DIFFER,
                source_of((truth, detections)[small]),
                relative=sides[0],
                absolute=sides[1],
                small=f" (largest value {largest[small]:g})",
                large=f" (largest value {largest[large]:g})",
            )
