"""Add analyses and intervals to an evaluation, as plain data; called by `odm.verbs.analyses`."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from odm.evaluate.analysis.analysis_tables import Analyses
from odm.evaluate.analysis.bootstrap import Resampling, bootstrap, intervals
from odm.evaluate.analysis.images import image_table
from odm.evaluate.analysis.outcome_table import FP, IGNORED, TP
from odm.evaluate.analysis.replicates import Plan
from odm.evaluate.analysis.slices import ImageSlice, box_slices, image_slices, slice_by_count, truth_slices
from odm.evaluate.analysis.table import Table, table_of
from odm.evaluate.analysis.thresholds import find_kept, lrp
from odm.evaluate.analysis.tide import tide
from odm.evaluate.results import Evaluation, Result, Row, to_plain
from odm.evaluate.scores.curves import make_point
from odm.issues import UsageError, hint, shorten, spell
from odm.tables import Floats, Longs

N_BINS = 10
"""Bins of score of the calibration."""

ANALYSES = ("tide", "lrp", "calibration", "images", "slices")


def parse_analyses(names_or_text: str | Sequence[str]) -> tuple[str, ...]:
    """Parse names of analyses: ``tide,lrp``, a list, or ``all``. Raises UsageError for an unknown name."""
    listed = names_or_text.split(",") if isinstance(names_or_text, str) else names_or_text
    names = [name.strip() for name in listed if name.strip()]
    if names == ["all"]:
        return ANALYSES
    for name in names:
        if name not in ANALYSES:
            raise UsageError(
                f"{spell('analyze')} {shorten(name)}: unknown analysis{hint(name, ANALYSES)}; "
                f"there are: {', '.join(ANALYSES)}, or all"
            )
    if not names:
        raise UsageError(f"{spell('analyze')}: choose from {', '.join(ANALYSES)}, or all")
    return tuple(dict.fromkeys(names))


def analyze(
    evaluation: Evaluation,
    analyses: Sequence[str] = (),
    *,
    slices: Sequence[ImageSlice] = (),
    resampling: Resampling | None = None,
) -> Evaluation:
    """Return the evaluation with analyses of each result, and intervals where `resampling` is given.

    `analyses` are some of `ANALYSES`; one that a protocol cannot have is replaced by the reason. `slices` are
    parts of the images beside those by number of ground truths; they become the `tags` of the evaluation, by
    ``name=value``. With no replicates, `resampling` only limits the slices to some images.
    """
    results = []
    tags = {f"{image_slice.name}={image_slice.value}": image_slice.images for image_slice in slices}
    for result in evaluation.results:
        table = table_of(result)
        data = {name: _ANALYSES[name](result, table, slices, resampling) for name in analyses}
        bounds: dict[str, Any] = {}
        if resampling is not None and resampling.replicates:
            plan = Plan(table, areas=resampling.areas)
            resampling.check()
            (replicates,) = bootstrap([plan], resampling)
            interval_of_key = intervals(plan, replicates, resampling)
            bounds = {
                key: [to_plain(interval.low), to_plain(interval.high)]
                for key, interval in interval_of_key.items()
            }
        results.append(replace(result, analysis=Analyses(data), intervals=bounds))
    return replace(evaluation, results=results, tags=tags)


def _analyze_tide(result: Result, table: Table, *_: Any) -> dict[str, Any]:
    """Return the gains of `tide` as plain data, or the reason why there are none."""
    if table.rules.metric != "ap" or result.joined is None:
        return {"reason": f"{table.rules.name} has no AP per class"}
    return tide(table, result.overlaps).to_dict(classes=True)


def _analyze_slices(
    result: Result, table: Table, slices: Sequence[ImageSlice], resampling: Resampling | None
) -> list[dict[str, Any]]:
    """Return the rows of the slices of images and, where the metric is AP, of boxes and ground truths."""
    draws = resampling or Resampling(replicates=0)  # which gives no intervals
    rows = image_slices(table, [*slice_by_count(table), *slices], draws)
    if result.joined is not None and table.rules.metric in ("ap", "pooled"):
        rows += box_slices(result.joined, table.rules) + truth_slices(result.joined, table.rules)
    return rows


_ANALYSES: dict[str, Any] = {
    "tide": _analyze_tide,
    "lrp": lambda _, table, *__: lrp(table),
    "calibration": lambda _, table, *__: calibration(table),
    "images": lambda result, table, *_: image_table(table, result.thresholds).rows(),
    "slices": _analyze_slices,
}


def make_digest(images: Sequence[str]) -> str:
    """Return a digest of the names of images, in any order, which tells lists of images apart."""
    return hashlib.sha256("\n".join(sorted(images)).encode()).hexdigest()[:16]


def at_scores(result: Result, scores: Mapping[str, float], default: float, source: str) -> Result:
    """Return the result with the counts of each class at its own score, not at that of the best F1.

    `scores` are the least score by class, `default` that of the classes that are not named; NaN keeps
    nothing. `source` says in texts where they come from.
    """
    table = table_of(result)
    thresholds = np.array([scores.get(name, default) for name in table.classes], np.float64)
    is_kept = find_kept(table, thresholds)
    n_classes = len(table.classes)
    tp, fp = (
        np.bincount(table.category[is_kept & (table.outcome == outcome)], minlength=n_classes).tolist()
        for outcome in (TP, FP)
    )
    classes = tuple(
        _replace_point(row, float(thresholds[k]), tp[k], fp[k], int(table.n[k]))
        for k, row in enumerate(result.classes)
    )
    overall = _replace_point(result.overall, math.nan, sum(tp), sum(fp), int(table.n.sum()))
    return replace(result, classes=classes, overall=overall, scores_from=source)


def _replace_point(row: Row, score: float, tp: int, fp: int, n: int) -> Row:
    """Return the row with the numbers of another operating point; `n` ground truths count."""
    return replace(row, **make_point(score, tp, fp, n))


def calibration(table: Table) -> dict[str, Any]:
    """Measure how far scores are from probabilities: the detection expected calibration error (D-ECE).

    Definition from Küppers et al., "Multivariate Confidence Calibration for Object Detection" (2020), over
    scores: detections that are true or false positives fall into equally wide bins of score, and the error is
    the mean distance between precision and mean score of the bins, weighted by their detections. Bins are
    open on the left, (k/M, (k+1)/M]; a score of 0 belongs to the first.

    Returns
    -------
    dict
        ``dece`` and ``mce``, the weighted mean and the maximum of abs(precision - mean score) over the bins;
        ``bins``, the detections with scores above ``low`` up to ``high``: ``n``, mean ``score`` and
        ``precision``; ``classes``, the D-ECE of each. ``reason`` where a score is outside 0..1.
    """
    rows = np.flatnonzero(table.outcome != IGNORED)
    score = table.score[rows]
    if len(score) and not (score.min() >= 0 and score.max() <= 1):
        outside = int(((score < 0) | (score > 1)).sum())
        return {
            **dict.fromkeys(("dece", "mce")),
            "bins": [],
            "classes": [{"class": name, "dece": None} for name in table.classes],
            "reason": f"{outside} of {len(score)} scores are outside 0..1",
        }
    edges = np.arange(N_BINS + 1) / N_BINS
    n_of_bin, score_sums, true_sums = _sum_by_bin(table, rows, edges)

    # The errors of all classes together, then of each.
    count, sums, hits = n_of_bin.sum(axis=0), score_sums.sum(axis=0), true_sums.sum(axis=0)
    is_filled = count > 0
    gaps = np.abs(hits[is_filled] - sums[is_filled]) / count[is_filled]
    class_gaps, n_of_class = np.abs(true_sums - score_sums).sum(axis=1), n_of_bin.sum(axis=1)
    undefined = np.full(len(n_of_class), np.nan)
    per_class = np.divide(class_gaps, n_of_class, out=undefined, where=n_of_class > 0)
    return {
        "dece": float(np.abs(hits - sums).sum() / count.sum()) if is_filled.any() else None,
        "mce": float(gaps.max()) if is_filled.any() else None,
        "bins": [
            {
                "low": float(edges[i]),
                "high": float(edges[i + 1]),
                "n": int(count[i]),
                "score": float(sums[i] / count[i]) if count[i] else None,
                "precision": float(hits[i] / count[i]) if count[i] else None,
            }
            for i in range(N_BINS)
        ],
        "classes": [
            {"class": name, "dece": to_plain(value)}
            for name, value in zip(table.classes, per_class.tolist(), strict=False)  # one row if no classes
        ],
    }


def _sum_by_bin(table: Table, rows: Longs, edges: Floats) -> tuple[Longs, Floats, Floats]:
    """Return detections, sum of scores and true positives by class and bin of score, each (classes, bins).

    `rows` are the detections to count; `edges` (bins + 1,) bound the bins. Without classes there is one row.
    """
    shape = max(len(table.classes), 1), len(edges) - 1
    # Bin k has the scores above edges[k] up to edges[k + 1], the first also 0.
    bin_of_row = np.maximum(np.searchsorted(edges, table.score[rows], side="left") - 1, 0)
    key = table.category[rows].astype(np.int64) * shape[1] + bin_of_row
    is_true = (table.outcome[rows] == TP).astype(np.float64)
    n = np.bincount(key, minlength=shape[0] * shape[1]).reshape(shape)
    scores = np.bincount(key, table.score[rows], minlength=n.size).reshape(shape)
    true = np.bincount(key, is_true, minlength=n.size).reshape(shape)
    return n.astype(np.int64), scores.astype(np.float64), true.astype(np.float64)
