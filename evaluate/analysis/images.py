"""Count the errors of each image, and compare the counts of two runs.

The error of an image and class is (1 - IoU) / (1 - t) summed over its true positives, plus its false
positives, plus its misses: what it adds to the numerator of LRP (see `thresholds`). It is additive, so images
can be ranked by it, where shares such as recall would put every image with one missed object first. Counts
are at the operating point of the run (`Result.thresholds`), or at a given score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from odm.evaluate.analysis.outcome_table import FP, IGNORED, TP
from odm.evaluate.analysis.table import Table
from odm.evaluate.analysis.thresholds import explain_no_error, find_kept
from odm.evaluate.matching.sides import Mask
from odm.evaluate.results import to_plain
from odm.evaluate.scores.curves import share
from odm.tables import Floats, Longs

COUNTS = ("gt", "gt_ignored", "det", "tp", "fp", "fn", "ignored")
SHARES = ("precision", "recall", "f1", "mean_iou", "error", "error_share", "worst_fp_score")
COLUMNS = ("image", *COUNTS, *SHARES)
"""The columns of `ImageTable.rows`."""

DELTAS = ("image", "delta_error", "error_first", "error_other", "new_fn", "new_fp", "lost_tp", "gained_tp")
"""The columns of `compare_images`."""


class ImageTable(msgspec.Struct, frozen=True, eq=False):
    """Counts of every image at the thresholds of each class; all columns are (images,)."""

    images: tuple[str, ...]
    classes: tuple[str, ...]
    thresholds: Floats
    """(classes,) the least score that is kept, NaN = nothing is."""
    gt: Longs
    gt_ignored: Longs
    det: Longs
    tp: Longs
    fp: Longs
    ignored: Longs
    mean_iou: Floats
    """Of the true positives; NaN without."""
    error: Floats
    """NaN where the protocol has no single IoU threshold below 1."""
    worst_fp_score: Floats
    """The highest score of a false positive; NaN without."""
    found: Mask
    """(ground truths,) which of the table's ground truths were found."""
    reason: str = ""
    """Why there is no error."""
    chosen: Longs | None = None
    """Numbers of the images that were evaluated, None = all."""

    @property
    def fn(self) -> Longs:
        """Ground truths that count and were not found."""
        return self.gt - self.tp

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per image, as in ``images.csv``: by descending error, then name. None = undefined."""
        tp, fp, fn = self.tp, self.fp, self.fn
        columns: dict[str, Any] = {
            **{key: getattr(self, key) for key in COUNTS},
            "precision": share(tp, tp + fp),
            "recall": share(tp, self.gt),
            "f1": share(2 * tp, 2 * tp + fp + fn),
            "mean_iou": self.mean_iou,
            "error": self.error,
            "error_share": share(self.error, np.full(len(tp), np.nansum(self.error))),
            "worst_fp_score": self.worst_fp_score,
        }
        # Errors that differ by rounding alone are equal, so that the names decide.
        error = np.where(np.isnan(self.error), 0, self.error)
        order = np.lexsort((np.array(self.images, object), -error.round(12)))
        if self.chosen is not None:
            order = order[np.isin(order, self.chosen)]
        return _make_rows(self.images, columns, order)


def image_table(table: Table, at_score: float | Floats | None = None) -> ImageTable:
    """Compute the counts and the error of every image.

    `at_score` is the least score, of all classes or (classes,) of each; NaN keeps nothing. If it is left out
    it is that of the operating point of the run.
    """
    reason = explain_no_error(table)
    if at_score is None:
        at_score = table.result.thresholds
    thresholds = np.array(np.broadcast_to(at_score, len(table.classes)), np.float64)
    n_images, truth = len(table.images), table.truth
    is_kept = find_kept(table, thresholds)

    def count(mask: Mask) -> Longs:
        """(images,) the number of detections in `mask`, (n,), on each image."""
        return np.bincount(table.image[mask], minlength=n_images)

    is_tp, is_fp = is_kept & (table.outcome == TP), is_kept & (table.outcome == FP)
    is_found = np.zeros(len(truth), np.bool_)
    is_found[table.gt[is_tp]] = True
    gt = np.bincount(truth.image[table.counting], minlength=n_images)
    # Regions to ignore are no ignored objects.
    is_region = (truth.flags & np.uint16(table.rules.region_flags)) != 0
    tp, fp = count(is_tp), count(is_fp)
    image, iou = table.image[is_tp], table.iou[is_tp]
    loss = np.bincount(image, weights=1 - iou, minlength=n_images)
    worst_score = np.full(n_images, -np.inf)
    np.maximum.at(worst_score, table.image[is_fp], table.score[is_fp])
    error = np.full(n_images, np.nan)
    if not reason:
        error = loss / (1 - table.threshold) + fp + (gt - tp)
    return ImageTable(
        images=table.images,
        classes=table.classes,
        thresholds=thresholds,
        gt=gt,
        gt_ignored=np.bincount(truth.image[~table.counting & ~is_region], minlength=n_images),
        det=count(is_kept),
        tp=tp,
        fp=fp,
        ignored=count(is_kept & (table.outcome == IGNORED)),
        mean_iou=share(np.bincount(image, weights=iou, minlength=n_images), tp),
        error=error,
        worst_fp_score=np.where(np.isinf(worst_score), np.nan, worst_score),
        found=is_found,
        reason=reason,
        chosen=table.chosen,
    )


def compare_images(
    first_table: Table, other_table: Table, first_counts: ImageTable, other_counts: ImageTable
) -> list[dict[str, Any]]:
    """Compare the errors of each image in two runs; the worst change first, then by name.

    ``lost_tp`` and ``gained_tp`` are ground truths that only the first or only the other run found;
    ``new_fn`` and ``new_fp`` are how many more misses and false positives an image has, at least 0. The
    thresholds of the two runs differ, so an image may change although its detections do not.
    """
    n_images, n_classes = len(first_table.images), max(len(first_table.classes), 1)
    names = {name: i for i, name in enumerate(first_table.classes)}
    # Runs may list the classes in another order: of each class of the other run its number in the first.
    number_of_other_class = np.array([names.get(name, -1) for name in other_table.classes], np.int64)

    def make_keys(table: Table, is_found: Mask, of_class: Longs) -> Longs:
        """Return (m,) a number for each counting ground truth that was found: row * n_classes + class.

        With a class hierarchy one row of the dataset has several classes. `of_class` (classes of `table`,)
        has the number of each in `first_table`, -1 = not there.
        """
        truth = table.truth
        rows = np.flatnonzero(is_found & table.counting)
        return truth.row[rows].astype(np.int64) * n_classes + of_class[truth.category[rows]]

    first_keys = make_keys(first_table, first_counts.found, np.arange(len(first_table.classes)))
    other_keys = make_keys(other_table, other_counts.found, number_of_other_class)
    # Of each row of the ground truth's dataset, which both runs share, its image.
    image_of_row = np.zeros(
        int(max(first_table.truth.row.max(initial=0), other_table.truth.row.max(initial=0))) + 1, np.int64
    )
    image_of_row[first_table.truth.row] = first_table.truth.image
    delta = other_counts.error - first_counts.error
    columns = {
        "delta_error": delta,
        "error_first": first_counts.error,
        "error_other": other_counts.error,
        "new_fn": np.maximum(other_counts.fn - first_counts.fn, 0),
        "new_fp": np.maximum(other_counts.fp - first_counts.fp, 0),
        "lost_tp": np.bincount(
            image_of_row[np.setdiff1d(first_keys, other_keys) // n_classes], minlength=n_images
        ),
        "gained_tp": np.bincount(
            image_of_row[np.setdiff1d(other_keys, first_keys) // n_classes], minlength=n_images
        ),
    }
    order = np.lexsort((np.array(first_table.images, object), -np.where(np.isnan(delta), 0, delta).round(12)))
    return _make_rows(first_table.images, columns, order)


def _make_rows(images: Sequence[str], columns: Mapping[str, Any], order: Longs) -> list[dict[str, Any]]:
    """Return a row for each image number in `order`: the name, and its value of each column, (images,)."""
    lists = {key: column.tolist() for key, column in columns.items()}
    return [
        {"image": images[i], **{key: to_plain(column[i]) for key, column in lists.items()}}
        for i in order.tolist()
    ]
