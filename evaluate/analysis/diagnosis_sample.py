"""The images and boxes that `odm.evaluate.analysis.diagnosis` compares: a sample, soon read in many ways."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

import msgspec
import numpy as np
from msgspec.structs import replace

from odm.evaluate.matching.sides import Joined, Mask, SideTable
from odm.pairing import iou, pair_by_image
from odm.tables import Flag, Floats, Longs

MOST_PAIRS = 4_000
"""Pairs of a detection and an object in the sample, about, and at most twice: enough to tell, soon read."""
MOST_BOXES = 20_000
"""Detections in the images of the sample, about."""
MOST_IMAGES = 500

_Edges = tuple[Floats, Floats, Floats]
NO_OPTIONS: Mapping[str, Collection[str]] = MappingProxyType({"gt": (), "det": ()})


def sample_images(joined: Joined) -> Longs:
    """Choose images with objects, in whole stretches, so that shifted image numbers show."""
    n_images = joined.n_truth_images
    n_gt = np.bincount(joined.truth.image, minlength=n_images)[:n_images]
    n_det = np.bincount(joined.detections.image, minlength=n_images)[:n_images]
    candidates = np.flatnonzero((n_gt > 0) & (n_det > 0))
    if not len(candidates):
        return candidates
    stretch = 16
    starts = np.arange(0, len(candidates), stretch)
    # Evenly spread over the dataset: every other stretch, then those between, and so on.
    # Eight stretches are taken in the order 0 4 2 6 1 5 3 7, that of their numbers with the bits reversed.
    order = np.argsort([int(f"{i:016b}"[::-1], 2) for i in range(len(starts))], kind="stable")
    # Of the detections of an image about twice as many are compared as it has objects.
    n_pairs_on = n_gt * np.minimum(n_det, 2 * n_gt + 2)
    stretches, n_pairs, n_boxes = [], 0, 0
    for start in starts[order].tolist():
        stretch_images = candidates[start : start + stretch]
        is_within_limit = np.cumsum(n_pairs_on[stretch_images]) <= MOST_PAIRS
        # At least eight neighbours, however crowded they are, so that a shift shows.
        stretch_images = stretch_images[: max(int(is_within_limit.sum()), 8)]
        stretches.append(stretch_images)
        n_pairs += int(n_pairs_on[stretch_images].sum())
        n_boxes += int(n_det[stretch_images].sum())
        if n_pairs > MOST_PAIRS or n_boxes > MOST_BOXES or len(stretches) * stretch >= MOST_IMAGES:
            break
    return np.sort(np.concatenate(stretches))


class Sample(msgspec.Struct, frozen=True, eq=False):
    """Some images of both sides, with the pairs of boxes that are compared."""

    joined: Joined
    images: Longs
    """Their numbers, ascending; `joined` has the boxes of these alone."""
    sizes: Longs
    """(all images, 2) width and height, 0 = unknown."""
    size_of: Mapping[str, Floats]
    """(n, 2) the size of the image of each box, by side."""
    rows: Longs
    """The detections that are compared: the surest of each image."""
    objects: Longs
    """The ground truths that are compared: no crowds."""
    image_index: Longs
    """Which of `images` each of `objects` is on."""
    pairs: tuple[Longs, Longs]
    """Positions in `rows` and `objects` of one image."""
    options: Mapping[str, Collection[str]] = NO_OPTIONS
    """The names of the options with which the format of each side can be read."""
    latest: dict[str, tuple[Floats, Longs, _Edges]] = msgspec.field(default_factory=dict)
    """By side the last boxes and index of `_get_edges`, and its result, as one side is read in many ways."""

    @classmethod
    def from_sides(cls, joined: Joined, images: Longs, sizes: Longs) -> Sample:
        """Choose the boxes of `images` that are compared; `sizes` are of all images, (all images, 2)."""
        truth, detections = joined.truth, joined.detections
        objects = np.flatnonzero((truth.flags & np.uint16(Flag.CROWD)) == 0)
        order = np.lexsort((-detections.score, detections.image))
        image = detections.image[order]
        rank_in_image = np.arange(len(order)) - np.searchsorted(image, image)
        n_gt_of_image = np.bincount(truth.image, minlength=len(joined.images))
        rows = np.sort(order[rank_in_image < 2 * n_gt_of_image[image] + 2])
        n_det_of_image = np.bincount(detections.image[rows], minlength=len(n_gt_of_image))
        # If the images are crowded, only every second, third, ... object.
        objects = objects[:: 1 + int(n_det_of_image[truth.image[objects]].sum()) // (2 * MOST_PAIRS)]
        image_index = np.searchsorted(images, truth.image[objects])
        pairs = pair_by_image(detections.image[rows], truth.image[objects])
        pixels = sizes.astype(np.float64)
        size_of = {"gt": pixels[truth.image], "det": pixels[detections.image]}
        return cls(joined, images, sizes, size_of, rows, objects, image_index, pairs)

    def find_covered(
        self,
        truth: Floats,
        detections: Floats,
        pairs: tuple[Longs, Longs] | None = None,
        *,
        iou_min: float = 0.5,
    ) -> Mask:
        """(objects,) whether a detection covers each by `iou_min`, if all boxes had these corners, (n, 4)."""
        det, gt = pairs or self.pairs
        is_covered = np.zeros(len(self.objects), bool)
        gt_xyxy, gt_left, gt_right = self._get_edges("gt", truth, self.objects, gt)
        det_xyxy, det_left, det_right = self._get_edges("det", detections, self.rows, det)
        with np.errstate(all="ignore"):
            # Few pairs have anything in common.
            overlapping = np.flatnonzero(np.minimum(gt_right, det_right) > np.maximum(gt_left, det_left))
            det, gt = det[overlapping], gt[overlapping]
            is_near = iou(det_xyxy.take(det, axis=0), gt_xyxy.take(gt, axis=0)) >= iou_min
        is_covered[gt[is_near]] = True
        return is_covered

    def _get_edges(self, side: str, boxes: Floats, rows: Longs, index: Longs) -> _Edges:
        """Return the boxes of a side at `rows`, (m, 4), and left and right of these at `index`; cached."""
        # `rows` need no comparison: those of a side never change.
        if side not in self.latest or self.latest[side][0] is not boxes or self.latest[side][1] is not index:
            xyxy = boxes.take(rows, axis=0)
            self.latest[side] = (boxes, index, (xyxy, xyxy[:, 0].take(index), xyxy[:, 2].take(index)))
        return self.latest[side][2]

    def pair_shifted(self, step: int, *, is_cyclic: bool = False) -> tuple[Longs, Longs]:
        """Return the pairs if detections were `step` images further, with `is_cyclic` around the end."""
        image_index = np.searchsorted(self.images, self.joined.detections.image[self.rows]) + step
        if is_cyclic:
            image_index %= len(self.images)
        image = self.images[np.clip(image_index, 0, len(self.images) - 1)]
        # Detections that are moved beyond the first or last image are on none.
        image = np.where((image_index >= 0) & (image_index < len(self.images)), image, -1)
        return pair_by_image(image, self.joined.truth.image[self.objects])

    def count_by_image(self, is_counted: Mask) -> Longs:
        """(images,) how many of the objects in the mask `is_counted` are on each image."""
        return np.bincount(self.image_index[is_counted], minlength=len(self.images))

    def replace_boxes(self, truth: Floats, detections: Floats) -> Sample:
        """Return the sample with other corners of both sides."""
        joined = replace(
            self.joined,
            truth=_replace_boxes(self.joined.truth, truth),
            detections=_replace_boxes(self.joined.detections, detections),
        )
        return replace(self, joined=joined)


def _replace_boxes(side: SideTable, xyxy: Floats) -> SideTable:
    """Replace the corners of boxes by `xyxy`, (n, 4) pixels; inverted boxes become empty."""
    # A reading may divide by a size of 0: what is not finite becomes 0.
    xyxy = np.nan_to_num(xyxy, posinf=0, neginf=0)
    xyxy[:, 2:] = np.maximum(xyxy[:, 2:], xyxy[:, :2])
    wh = xyxy[:, 2:] - xyxy[:, :2]
    return replace(side, xyxy=xyxy, wh=wh, area=np.full(len(side), np.nan))
