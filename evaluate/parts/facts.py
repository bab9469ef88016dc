"""What has to be known of all detections before any is compared, as numbers that can be added up."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from odm.tables import Dataset, Longs, distinct


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """Counts and extremes of the detections of a dataset, or of several parts of it."""

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
    def of(cls, detections: Dataset) -> Facts:
        """Those of a whole dataset."""
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
        cls, parts: Sequence[Facts], classes: Sequence[Longs], images: Sequence[Longs], n_classes: int
    ) -> Facts:
        """The facts of all parts; `classes` and `images` map the rows of each part to those of the whole."""
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
