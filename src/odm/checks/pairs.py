"""Ground truth against the detections that belong to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm import pairing
from odm.checks.rules import common_location
from odm.issues import Code, Log, Trusted, plural
from odm.pairing import candidates
from odm.pairing import iou as iou_of
from odm.tables import Dataset, Floats


def compare(truth: Dataset, detections: Dataset, log: Log) -> None:
    """Report where detections do not fit the ground truth that they belong to.

    Images and classes are paired as an evaluation does it; see `odm.pairing`.
    """
    paired = pairing.pair(truth, detections, log)
    errors = log.errors
    pairing.report_images(truth, detections, paired, log, each=True)
    pairing.report_splits(truth, detections, paired, log)
    found = np.unique(paired.image[detections.boxes.image])
    alone = len(truth.images) - int(np.count_nonzero(found >= 0))
    if alone:
        log.note(f"{alone} of {len(truth.images)} images of the ground truth have no detections")
    if log.errors != errors or not pairing.check_numbers(truth, detections, paired, log):
        pairing.report_classes(truth, detections, paired, log)
        if not log.counts[pairing.NO_CLASS_IN_COMMON.name]:
            _report_unfound_classes(truth, paired, log)
    _report_sizes(truth, detections, paired.image, log)
    _report_conventions(truth, detections, paired.image, paired.category, log)


CLASS_ONLY_IN_TRUTH = Code(
    "class-only-in-ground-truth",
    "warning",
    "class {value!r} of {n} is not in the detections{hint}",
    "rename it if it is the same class",
    "The detector never found this class, or uses another name for it, in which case all its objects count "
    "as missed.",
)


def _report_unfound_classes(truth: Dataset, paired: pairing.Pairing, log: Log) -> None:
    """Report classes that only the ground truth has."""
    names, category = paired.gt_names, truth.boxes.category
    counts = np.bincount(category, minlength=len(names))
    theirs = set(paired.det_names)
    for n, row in enumerate(c for c in np.flatnonzero(counts).tolist() if names[c] not in theirs):
        near = pairing.nearest_name(names[row], paired.det_names) if n < 100 else None
        path, line, pointer = truth.location(int((category == row).argmax()))
        log.report(
            CLASS_ONLY_IN_TRUTH,
            path,
            line=line,
            pointer=pointer,
            value=names[row],
            n=Trusted(plural(int(counts[row]), "ground truth box")),
            hint=Trusted(pairing.did_you_mean(near)),
        )


SIZES_DIFFER = Code(
    "image-sizes-differ",
    "warning",
    "image {value!r} is {ours} pixels in the ground truth but {theirs} in the detections",
    "use the size of the ground truth for both",
    "Boxes are compared in pixels. If the sizes differ, the detections were made on another size of the "
    "image.",
)


def _report_sizes(truth: Dataset, detections: Dataset, partner: NDArray[np.int64], log: Log) -> None:
    """Report images that have two sizes."""
    ours, theirs = truth.images, detections.images
    both = np.flatnonzero(partner >= 0)
    row = partner[both]
    known = (ours.width[row] > 0) & (theirs.width[both] > 0)
    differ = (ours.width[row] != theirs.width[both]) | (ours.height[row] != theirs.height[both])
    for i in both[known & differ].tolist():
        path, line, pointer = detections.image_place(i)
        j = int(partner[i])
        log.report(
            SIZES_DIFFER,
            path,
            line=line,
            pointer=pointer,
            value=ours.name[j],
            ours=Trusted(f"{ours.width[j]}x{ours.height[j]}"),
            theirs=Trusted(f"{theirs.width[i]}x{theirs.height[i]}"),
        )


CONVENTIONS_DIFFER = Code(
    "conventions-differ",
    "warning",
    "the detections fit the ground truth far better {how}: mean best IoU {better} instead of {value}",
    "read them that way, or correct the export",
    "The two sides use different box conventions, so hardly any pair overlaps as it should.",
)
_SAMPLE = 2000
"""Detections that are enough to tell one convention from another."""


def _report_conventions(
    truth: Dataset, detections: Dataset, partner: NDArray[np.int64], category: NDArray[np.int64], log: Log
) -> None:
    """Compare the detections as they are and as other conventions would read them with the ground truth."""
    det, gt = detections.boxes, truth.boxes
    if not len(det) or not len(gt):
        return
    usable = (partner[det.image] >= 0) & np.isfinite(det.xyxy).all(axis=1)
    rows = np.flatnonzero(usable)
    if len(rows) > _SAMPLE:
        best = np.nan_to_num(det.score[rows])
        rows = np.sort(rows[np.argsort(-best, kind="stable")[:_SAMPLE]])
    if not len(rows):
        return
    image, cls = partner[det.image[rows]], category[det.category[rows]]
    one, two = candidates(truth, image)
    if (cls >= 0).any():
        same = cls[one] == gt.category[two]
        one, two = one[same], two[same]
    if len(np.unique(one)) < 3:
        return
    width = np.maximum(truth.images.width, 1)[image]
    height = np.maximum(truth.images.height, 1)[image]
    size = np.stack([width, height, width, height], axis=1).astype(np.float64)
    given, wh = det.xyxy[rows], det.wh[rows]
    corners = np.concatenate([given[:, :2], given[:, :2] + given[:, 2:]], axis=1)
    readings = {
        "as left, top, width, height instead of corners": corners,
        "as corners instead of left, top, width, height": np.concatenate([given[:, :2], wh], axis=1),
        "with x and y swapped": given[:, [1, 0, 3, 2]],
        "as centre, width, height instead of corners": np.concatenate(
            [given[:, :2] - given[:, 2:] / 2, given[:, :2] + given[:, 2:] / 2], axis=1
        ),
        "read as relative coordinates": given * size,
        "divided by the image size (the ground truth seems to be relative)": given / size,
    }

    def fit(boxes: Floats) -> float:
        with np.errstate(all="ignore"):
            iou = np.nan_to_num(iou_of(boxes[one], gt.xyxy[two]))
        best = np.zeros(len(rows))
        np.maximum.at(best, one, iou)
        return float(best[np.unique(one)].mean())

    now = fit(given)
    if now >= 0.5:
        return
    fits = {how: fit(boxes) for how, boxes in readings.items()}
    how = max(fits, key=fits.__getitem__)
    if fits[how] > 0.5 and fits[how] > 2 * now:
        path, line, pointer = common_location(detections)
        values: dict[str, Any] = {
            "how": Trusted(how),
            "better": Trusted(f"{fits[how]:.2f}"),
            "value": Trusted(f"{now:.2f}"),
        }
        log.report(CONVENTIONS_DIFFER, path, line=line, pointer=pointer, **values)
