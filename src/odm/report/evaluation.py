"""The report of an evaluation: detections, errors, and the images with them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.evaluate import Evaluation, Result
from odm.evaluate.output.report_data import BACKGROUND, KINDS, MISSES, SIDES, SUSPICION, Counts, ReportData
from odm.evaluate.results import plain
from odm.issues import Code
from odm.report import words
from odm.report.build import Page
from odm.report.columns import IMAGES, MOST, ShownImages, by_cell, curve_points, last_part, reading, rounded
from odm.report.pictures import Picture
from odm.report.shapes import shape_columns, skeletons


def evaluation_page(
    evaluation: Evaluation,
    pictures: Sequence[Picture],
    *,
    sources: Sequence[str] = (),
    title: str = "",
    images: int = IMAGES,
    doubtful: Sequence[Code] = (),
) -> Page:
    """The report of an evaluation, to be written by `odm.report.write`.

    Parameters
    ----------
    evaluation
        What `odm.evaluate.evaluate` returned; each of its results gets a tab.
    pictures
        One for each of ``evaluation.joined.images``.
    sources
        The paths of the ground truth and the detections; their last parts are shown.
    title
        Left out, it names the sources.
    images
        How many images are shown: three quarters are those with the most errors at the score of the best F1,
        the rest shows every kind of error of every class as far as there is room.
    doubtful
        Codes of the warnings that put the numbers in doubt.

    Raises
    ------
    UsageError
        If `images` is below 1, or a result does not hold the boxes.
    """
    tables = [result.report_data() for result in evaluation.results]
    suspects = [result.report_suspects() for result in evaluation.results]
    names, join = evaluation.joined.images, evaluation.join
    image_of_name = {name: image for image, name in enumerate(names)}
    weight = np.zeros(len(names), np.int64)
    disputed = dict.fromkeys(row["image"] for rows in suspects for row in rows[:PICTURED])
    cells: list[dict[Hashable, list[int]]] = [{name: [image_of_name[name]] for name in disputed}]
    for table in tables:  # the errors at the best score, and for every class and kind of error its images
        detections, truth = table.detections, table.truth
        false, missed, errors = table.wrong_at(table.best)
        false = false[np.argsort(-detections.score[false], kind="stable")]
        keys = list(zip(detections.category[false].tolist(), table.kind[false].tolist(), strict=True))
        keys += [(category, len(KINDS)) for category in truth.category[missed].tolist()]
        cell_images = [*detections.image[false].tolist(), *truth.image[missed].tolist()]
        weight += errors
        cells.append(by_cell(keys, cell_images))
    shown = ShownImages(len(names), weight, cells, images)
    only = {
        "classes only in the ground truth": join.classes_gt_only,
        "classes only in the detections": join.classes_det_only,
        "images only in the detections": join.images_det_only,
    }
    data = {
        **reading(evaluation.log, sources, doubtful),
        "title": title or _title(sources),
        "imageCount": len(names),
        "kinds": list(KINDS),
        "misses": list(MISSES),
        "background": BACKGROUND,
        "sides": list(SIDES),
        "skeletons": skeletons(evaluation.truth_dataset, evaluation.detections_dataset),
        "tags": {
            tag: on_page.tolist()
            for tag, numbers in evaluation.tags.items()
            if len(on_page := shown.number[numbers][shown.number[numbers] >= 0])
        },
        "join": {key: [n[:80] for n in value[:20]] for key, value in only.items() if value},
        "results": [
            {**_result(evaluation, result, table, shown), "review": _review(rows, shown, image_of_name)}
            for result, table, rows in zip(evaluation.results, tables, suspects, strict=True)
        ],
    }
    return shown.page("evaluation", data, pictures)


def _title(sources: Sequence[str]) -> words.Said:
    if len(sources) != 2:
        return words.said("page.detections")
    gt, det = map(last_part, sources)
    return words.said("title.evaluation", gt=gt, det=det)


def _result(evaluation: Evaluation, result: Result, table: ReportData, shown: ShownImages) -> dict[str, Any]:
    """Return the data of one result."""
    contract = result.to_dict()
    rows = [
        {
            key: value
            for key, value in class_row.items()
            if isinstance(value, (int, float, str)) and key in ROW_KEYS
        }
        for class_row in contract["classes"]
    ]
    return {
        "protocol": result.protocol,
        "measure": result.rules.measure,
        "iou": result.rules.ious[result.rules.reference],
        "label": result.protocol
        if result.rules.averaged
        else f"{result.protocol} · IoU {result.rules.ious[0]:g}",
        "definition": result.definition.partition(": ")[2],
        "summary": contract["summary"],
        "lower": [key for key in contract["summary"] if result.errors or key.partition("@")[0] == "MR"],
        "ap": plain(result.overall.ap),
        "errors": contract.get("errors", {}),
        "dropped": result.dropped,
        "intervals": result.intervals,
        "analysis": _analysis(result),
        "scoresFrom": last_part(result.scores_from) if result.scores_from else "",
        "reasons": list(KINDS[1:-1]),
        "rows": rows,
        "perImage": result.rules.metric in ("corloc", "top-k"),
        "levels": table.levels.tolist(),
        "best": table.best,
        "wrongImages": table.wrong_images,
        "outcomes": _sparse(table.outcomes),
        "objects": _sparse(table.objects),
        "confusion": _sparse(table.confusion),
        "curves": curve_points(result.curves, [row.name for row in result.classes]),
        "misses": _misses(result),
        **_boxes(evaluation, table, shown),
        "ious": _ious(result, table, shown),
    }


def _review(
    suspects: Sequence[dict[str, Any]], on_page: ShownImages, image_of_name: Mapping[str, int]
) -> dict[str, Any]:
    """Return the first `LISTED` labels to review, how many there are, and the images of all."""
    rows = [
        {
            "image": int(on_page.number[image_of_name[row["image"]]]),
            "name": row["image"],
            "kind": row["kind"],
            "class": row["class"],
            "other": row["other_class"],
            "score": row["other_score" if row["kind"] in ("class", "spurious") else "same_score"],
            "iou": row["same_iou"],
            "isLabel": row["gt"] is not None,
            "box": rounded(np.array([row[edge] for edge in ("left", "top", "right", "bottom")]), 1),
        }
        for row in suspects[:LISTED]
    ]
    return {
        "count": len(suspects),
        "least": SUSPICION,
        "names": list(dict.fromkeys(row["image"] for row in suspects)),
        "rows": _brief(rows),
    }


def _misses(result: Result) -> list[dict[str, Any]]:
    """The miss rates over the logarithm of false positives per image, of protocols that have them."""
    rules = result.rules
    rows = []
    for curve in result.miss_curves:
        row, n = result.classes[curve.category], len(curve.miss_rate)
        kept = np.unique(np.linspace(0, n - 1, min(n, MOST)).astype(int))
        at = np.log10(np.maximum(curve.false_per_image[kept], min(rules.rates) / 2))
        rows.append(
            {
                "class": row.name,
                "setUp": rules.areas[curve.area].name if len(rules.areas) > 1 else "",
                "rate": plain(row.extra.get(f"MR@{rules.areas[curve.area].name}", row.extra.get("MR"))),
                "points": [rounded(at, 4), rounded(curve.miss_rate[kept], 4)],
            }
        )
    return rows


def _analysis(result: Result) -> dict[str, Any]:
    """The analyses of the JSON contract, with rounded numbers and only the worst images."""
    analyses = {name: data for name, data in result.analysis.items() if name != "confusion"}
    if result.scores_from and "thresholds" not in analyses:
        rows = {
            row.name: {"score": row.score, "precision": row.precision, "recall": row.recall}
            for row in result.classes
        }
        analyses["thresholds"] = {"rule": last_part(result.scores_from), "classes": rows}
    if "images" in analyses:
        analyses["images"] = [row for row in analyses["images"] if row["error"]][:WORST]
    return {name: _brief(data) for name, data in analyses.items()}


def _brief(data: Any) -> Any:
    """Round numbers in plain data to six decimals; those that are not finite become None."""
    if isinstance(data, dict):
        return {key: _brief(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_brief(value) for value in data]
    if isinstance(data, float):
        return round(data, 6) if math.isfinite(data) else None
    return data


PICTURED = 24
"""How many of the labels to review have their images on the page, whatever the errors in these."""

LISTED = 96
"""How many of the labels to review are listed on the page."""

WORST = 12
"""How many of the images with the largest error are listed."""

ROW_KEYS = ("class", "gt", "ap", "AP50", "AP75", "corloc", "frequency")
"""What a class row of the page takes from the JSON contract; the other numbers follow the slider."""


def _sparse(counts: Counts) -> dict[str, Any]:
    """The places are given by how far each is from the one before."""
    return {
        "shape": list(counts.shape),
        "at": np.diff(counts.key, prepend=0).tolist(),
        "n": counts.n.tolist(),
    }


def _ious(result: Result, table: ReportData, on_page: ShownImages) -> dict[str, Any] | None:
    """Return what a report shows at other IoU thresholds, as changes from the one nearer to the protocol's.

    ``own`` is the position of the protocol's threshold in ``values``. The kind of each box that is shown is
    a digit. Objects are listed if another detection is matched to them than at the protocol's threshold.
    """
    results_at_ious = result.report_ious()
    if not results_at_ious:
        return None
    reference = [at_iou.iou for at_iou in results_at_ious].index(result.rules.ious[result.rules.reference])
    of_det, of_gt = _places(table, on_page)
    shown_det, shown_gt = np.flatnonzero(of_det[:-1] >= 0), np.flatnonzero(of_gt[:-1] >= 0)
    tables = [table if i == reference else table.at(at_iou) for i, at_iou in enumerate(results_at_ious)]
    nearer = [tables[i + (i < reference) - (i > reference)] for i in range(len(tables))]
    by = [of_det[at_iou.truth.found_by[shown_gt]] for at_iou in tables]
    changed = [np.flatnonzero(at_iou != by[reference]) for at_iou in by]
    return {
        "values": [at_iou.iou for at_iou in results_at_ious],
        "own": reference,
        "averaged": result.rules.averaged,
        "ap": [[None if math.isnan(v) else v for v in at_iou.ap.tolist()] for at_iou in results_at_ious],
        "wrong": [at_iou.wrong_images for at_iou in tables],
        "outcomes": [_change(a.outcomes, b.outcomes) for a, b in zip(tables, nearer, strict=True)],
        "objects": [_change(a.objects, b.objects) for a, b in zip(tables, nearer, strict=True)],
        "kind": ["".join(map(str, at_iou.kind[shown_det].tolist())) for at_iou in tables],
        "by": [[at.tolist(), at_iou[at].tolist()] for at, at_iou in zip(changed, by, strict=True)],
    }


def _floored(iou: NDArray[np.float64]) -> list[float]:
    """Cut numbers to three decimals, so that an IoU stays on its side of each threshold of the slider."""
    return rounded(np.floor(iou * 1000 + 1e-9) / 1000, 3)


def _change(counts: Counts, before: Counts) -> dict[str, Any]:
    change = (counts.dense() - before.dense()).ravel()
    at = np.flatnonzero(change)
    return {"at": np.diff(at, prepend=0).tolist(), "n": change[at].tolist()}


def _places(table: ReportData, on_page: ShownImages) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return (rows + 1,) the number on the page of each detection, and of each ground truth.

    -1 is not shown; the last one stands for none.
    """
    detections, truth = table.detections, table.truth
    places = []
    for side in (detections, truth):
        rows = np.flatnonzero(on_page.boxes(side.image, side.xyxy) >= 0)
        place = np.full(len(side.image) + 1, -1, np.int32)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        places.append(place)
    return places[0], places[1]


def _boxes(evaluation: Evaluation, table: ReportData, on_page: ShownImages) -> dict[str, Any]:
    """Return the boxes of the images that are shown as columns; boxes refer to each other by position."""
    detections, truth, pairing = table.detections, table.truth, table.pairing
    of_det, of_gt = (on_page.boxes(side.image, side.xyxy) for side in (detections, truth))
    own_det, own_gt = np.flatnonzero(of_det >= 0), np.flatnonzero(of_gt >= 0)
    place_det, place_gt = _places(table, on_page)
    shown = place_det[pairing.det] >= 0
    detections_dataset, truth_dataset = evaluation.detections_dataset, evaluation.truth_dataset
    least = 0.5 * table.levels[table.best]  # the shapes of doubtful detections would be most of the page
    sure = np.where(detections.score[own_det] >= least, detections.row[own_det], -1)
    return {
        "det": {
            "image": of_det[own_det].tolist(),
            "class": detections.category[own_det].tolist(),
            "row": detections.row[own_det].tolist(),
            "level": table.level[own_det].tolist(),
            "score": rounded(detections.score[own_det], 4),
            "kind": table.kind[own_det].tolist(),
            "iou": rounded(detections.best_iou[own_det], 3),
            "spared": pairing.spared[own_det].astype(int).tolist(),
            "box": [rounded(column, 1) for column in detections.xyxy[own_det].T],
            **shape_columns((detections_dataset.boxes if detections_dataset else None, sure)),
        },
        "gt": {
            "image": of_gt[own_gt].tolist(),
            "class": truth.category[own_gt].tolist(),
            "row": truth.row[own_gt].tolist(),
            "counts": truth.counts[own_gt].astype(int).tolist(),
            "paired": pairing.eligible[own_gt].astype(int).tolist(),
            "by": place_det[truth.found_by[own_gt]].tolist(),
            "miss": truth.miss[own_gt].tolist(),
            "same": _floored(truth.same_iou[own_gt]),
            "other": _floored(truth.other_iou[own_gt]),
            "box": [rounded(column, 1) for column in truth.xyxy[own_gt].T],
            **shape_columns((truth_dataset.boxes if truth_dataset else None, truth.row[own_gt])),
        },
        "pairs": [place_det[pairing.det[shown]].tolist(), place_gt[pairing.gt[shown]].tolist()],
    }
