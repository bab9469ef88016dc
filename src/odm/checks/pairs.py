"""Ground truth against the detections that belong to it."""

from __future__ import annotations

import numpy as np

from odm import pairing
from odm.issues import Code, Log, Trusted, plural
from odm.tables import Dataset, Images

CLASS_ONLY_IN_TRUTH = Code(
    "class-only-in-ground-truth",
    "warning",
    "class {value!r} of {n} is not in the detections{hint}",
    "rename it if it is the same class",
    "The detector never found this class, or uses another name for it, in which case all its objects count "
    "as missed.",
)
SIZES_DIFFER = Code(
    "image-sizes-differ",
    "warning",
    "image {value!r} is {ours} pixels in the ground truth but {theirs} in the detections",
    "use the size of the ground truth for both",
    "Boxes are compared in pixels. If the sizes differ, the detections were made on another size of the "
    "image.",
)


def compare(truth: Dataset, detections: Dataset, log: Log) -> None:
    """Report where detections do not fit the ground truth that they belong to: images, classes and sizes.

    Images and classes are paired as an evaluation does it; see `odm.pairing`. Unless images are in error, the
    boxes tell whether image ids are off by one or class numbers mean other classes; if so, `check_numbers`
    reports it and returns true, and no class is reported as missing.
    Splits and images of the ground truth without a detection are reported, too.
    """
    paired = pairing.pair(truth, detections, log)
    n_errors = log.errors
    pairing.report_images(truth, detections, paired, log, one_by_one=True)
    pairing.report_splits(truth, detections, paired, log)
    truth_rows = np.unique(paired.image[detections.boxes.image])
    n_unpaired = len(truth.images) - int(np.count_nonzero(truth_rows >= 0))
    if n_unpaired:
        log.note(f"{n_unpaired} of {len(truth.images)} images of the ground truth have no detections")
    if log.errors != n_errors or not pairing.check_numbers(truth, detections, paired, log):
        pairing.report_classes(truth, detections, paired, log)
        if not log.counts[pairing.NO_CLASS_IN_COMMON.name]:
            _report_missing_classes(truth, paired, log)
    _report_sizes(truth.images, detections, paired, log)


def _report_missing_classes(truth: Dataset, paired: pairing.Pairing, log: Log) -> None:
    """Report each class that has boxes in the ground truth and is not among those of the detections."""
    names, category = paired.gt_names, truth.boxes.category
    counts = np.bincount(category, minlength=len(names))
    det_names = set(paired.det_names)
    missing = [row for row in np.flatnonzero(counts).tolist() if names[row] not in det_names]
    for n, row in enumerate(missing):
        # The search takes time, so only the first hundred have a suggestion.
        suggestion = pairing.find_nearest_name(names[row], paired.det_names) if n < 100 else None
        log.report(
            CLASS_ONLY_IN_TRUTH,
            truth.location(int((category == row).argmax())),
            value=names[row],
            n=Trusted(plural(int(counts[row]), "ground truth box")),
            hint=Trusted(pairing.format_suggestion(suggestion)),
        )


def _report_sizes(truth_images: Images, detections: Dataset, paired: pairing.Pairing, log: Log) -> None:
    """Report images whose sizes both sides know and give differently."""
    det_images = detections.images
    rows = np.flatnonzero(paired.image >= 0)
    partner = paired.image[rows]
    has_sizes = (truth_images.width[partner] > 0) & (det_images.width[rows] > 0)
    differs = (truth_images.width[partner] != det_images.width[rows]) | (
        truth_images.height[partner] != det_images.height[rows]
    )
    for det_row in rows[has_sizes & differs].tolist():
        truth_row = int(paired.image[det_row])
        log.report(
            SIZES_DIFFER,
            detections.image_place(det_row),
            value=truth_images.name[truth_row],
            ours=Trusted(f"{truth_images.width[truth_row]}x{truth_images.height[truth_row]}"),
            theirs=Trusted(f"{det_images.width[det_row]}x{det_images.height[det_row]}"),
        )
