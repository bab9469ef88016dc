"""Coordinates as fractions of the size of an image: how far they may leave 0..1, and boxes written so.

Called by the readers and writers of formats with relative coordinates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odm.codes import NO_SIZE
from odm.issues import Code, Log
from odm.tables import Dataset, Floats, distinct

FAR_OUTSIDE = Code(
    "box-too-far-outside",
    "error",
    "the box is too far outside its image for relative coordinates: one would be {value}, and values beyond "
    "{low:g}..{high:g} are not read back",
    "clip the boxes to their images with --clip, or write a format that uses pixels",
    "Readers, including odm, take relative coordinates far beyond 0..1 for pixels or for those of another "
    "image, and Ultralytics leaves out images with labels beyond -0.01..1.01.",
)

FAR = 2.0
"""Relative coordinates beyond this, or below ``1 - FAR``, are pixels, or belong to another image."""

MARGIN = 0.01
"""By how much Ultralytics lets a number of a label leave 0..1; it leaves out the image otherwise
(`verify_image_label` in ``ultralytics/data/utils.py``)."""


def are_far(values: Floats) -> NDArray[np.bool_]:
    """(n,) True for rows of (n, k) relative coordinates with one outside ``1 - FAR`` to ``FAR``, or NaN."""
    is_far: NDArray[np.bool_] = np.logical_or.reduce(~((values >= 1 - FAR) & (values <= FAR)), axis=1)
    return is_far


def divide_by_images(dataset: Dataset, values: Floats, log: Log, *, margin: float = FAR - 1) -> Floats | None:
    """Divide (n, 4) `values` of the boxes, in pixels, by the width and height of their images.

    Returns None after an issue for each image of unknown size, or for each box with a fraction more than
    `margin` outside 0 to 1, which readers of the format would refuse.
    """
    images, boxes = dataset.images, dataset.boxes
    limits = dataset.limits()  # (images, 2) width and height, 0 if unknown
    n_errors = log.errors
    for row in distinct(boxes.image).tolist():
        if not limits[row].all():
            path, line, pointer = dataset.image_place(row)
            log.report(NO_SIZE, path, line=line, pointer=pointer, value=images.name[row])
    if log.errors > n_errors:
        return None
    size = limits[boxes.image]
    fractions = values / np.tile(size, 2)
    # 0 to 1 is 0.5 around 0.5; the last term is for rounding. NaN is outside.
    rows = np.flatnonzero(~(np.abs(fractions - 0.5) <= 0.5 + margin + 1e-9).all(axis=1))
    if not len(rows):
        return fractions
    bounds = {"low": -margin, "high": 1 + margin}
    farthest = fractions[np.arange(len(fractions)), np.abs(fractions - 0.5).argmax(axis=1)]
    log.report_rows(FAR_OUTSIDE, dataset, rows, lambda row: bounds | {"value": float(farthest[row])})
    return None
