"""The report of an evaluation: detections, errors, and the images with them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.evaluate import Evaluation, Result
from odm.evaluate.output.report_data import BACKGROUND, KINDS, MISSES, SIDES, SUSPICION, Counts, ReportData
from odm.evaluate.results import to_plain
from odm.issues import Code
from odm.report import words
from odm.report.build import Page
from odm.report.columns import (
    IMAGES,
    MAX_POINTS,
    ShownImages,
    collect_messages,
    group_by_cell,
    make_place_columns,
    round_numbers,
    sample_curves,
    shorten_path,
)
from odm.report.pictures import Picture
from odm.report.shapes import collect_skeletons, make_shape_columns


def evaluation_page(
    evaluation: Evaluation,
    pictures: Sequence[Picture],
    *,
    sources: Sequence[str] = (),
    title: str = "",
    images: int = IMAGES,
    doubtful: Sequence[Code] = (),
) -> Page:
    """Make the page of an evaluation, to be written by `odm.report.write`.

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
    images_to_review = dict.fromkeys(row["image"] for rows in suspects for row in rows[:PICTURED])
    shown = _choose_images(tables, len(names), [image_of_name[name] for name in images_to_review], images)
    unpaired_names = {
        "classes only in the ground truth": join.classes_gt_only,
        "classes only in the detections": join.classes_det_only,
        "images only in the detections": join.images_det_only,
    }
    data = {
        **collect_messages(evaluation.log, sources, doubtful),
        "title": title or _make_title(sources),
        "imageCount": len(names),
        "kinds": list(KINDS),
        "misses": list(MISSES),
        "background": BACKGROUND,
        "sides": list(SIDES),
        "skeletons": collect_skeletons(evaluation.truth_dataset, evaluation.detections_dataset),
        "tags": _make_tags(evaluation, shown),
        # The first 20 names, each of at most 80 characters.
        "join": {key: [n[:80] for n in value[:20]] for key, value in unpaired_names.items() if value},
        "results": [
            {
                **_make_result(evaluation, result, table, shown),
                "review": _make_review(rows, shown, image_of_name),
            }
            for result, table, rows in zip(evaluation.results, tables, suspects, strict=True)
        ],
    }
    return shown.make_page("evaluation", data, pictures)


def _choose_images(
    tables: Sequence[ReportData], n_images: int, images_to_review: Sequence[int], limit: int
) -> ShownImages:
    """Choose at most `limit` images: those with the most errors at the best F1 of each result, the
    `images_to_review`, and some for every kind of error of every class.
    """
    n_errors = np.zeros(n_images, np.int64)
    # Each image to review is a cell of its own.
    cells: list[dict[Hashable, list[int]]] = [{image: [image] for image in images_to_review}]
    for table in tables:
        detections, truth = table.detections, table.truth
        false_rows, missed_rows, errors = table.find_errors(table.best)
        n_errors += errors

        # A cell for each class and kind of error; len(KINDS) is that of missed objects.
        false_rows = false_rows[np.argsort(-detections.score[false_rows], kind="stable")]
        false_categories, false_kinds = detections.category[false_rows], table.kind[false_rows]
        keys = list(zip(false_categories.tolist(), false_kinds.tolist(), strict=True))
        keys += [(category, len(KINDS)) for category in truth.category[missed_rows].tolist()]
        cell_images = [*detections.image[false_rows].tolist(), *truth.image[missed_rows].tolist()]
        cells.append(group_by_cell(keys, cell_images))
    return ShownImages(n_images, n_errors, cells, limit)


def _make_tags(evaluation: Evaluation, shown: ShownImages) -> dict[str, list[int]]:
    """Return the numbers on the page of the images of each tag, without tags of which none is shown."""
    tags = {}
    for tag, images in evaluation.tags.items():
        numbers = shown.number[images]
        if numbers_on_page := numbers[numbers >= 0].tolist():
            tags[tag] = numbers_on_page
    return tags


def _make_title(sources: Sequence[str]) -> words.Text:
    """Return a title with the names of the ground truth and the detections, if both have a path."""
    if len(sources) != 2:
        return words.name_text("page.detections")
    gt, det = map(shorten_path, sources)
    return words.name_text("title.evaluation", gt=gt, det=det)


def _make_result(
    evaluation: Evaluation, result: Result, table: ReportData, shown: ShownImages
) -> dict[str, Any]:
    """Return the data of one result, which fills a tab: numbers, counts by score, boxes and analyses."""
    contract = result.to_dict()
    rows = []
    for class_row in contract["classes"]:
        # Undefined numbers are None, and left out.
        shown_values = {key: value for key, value in class_row.items() if key in ROW_KEYS}
        rows.append({k: value for k, value in shown_values.items() if isinstance(value, (int, float, str))})
    return {
        "protocol": result.protocol,
        "measure": result.rules.measure,
        "iou": result.rules.ious[result.rules.reference],  # that of the counts
        "label": result.protocol
        if result.rules.averaged
        else f"{result.protocol} · IoU {result.rules.ious[0]:g}",
        "definition": result.definition.partition(": ")[2],  # without the name before it
        "summary": contract["summary"],
        # Only top-k has errors, and then its summary has nothing else; MR is a miss rate.
        "lower": [key for key in contract["summary"] if result.errors or key.partition("@")[0] == "MR"],
        "ap": to_plain(result.overall.ap),
        "errors": contract.get("errors", {}),
        "dropped": result.dropped,
        "intervals": result.intervals,
        "analysis": _make_analyses(result),
        "scoresFrom": shorten_path(result.scores_from) if result.scores_from else "",
        "reasons": list(KINDS[1:-1]),  # without true positives and ignored ones
        "rows": rows,
        "perImage": result.rules.metric in ("corloc", "top-k"),  # a class counts once per image
        "levels": table.levels.tolist(),
        "best": table.best,
        "wrongImages": table.wrong_images,
        "outcomes": _pack_counts(table.outcomes),
        "objects": _pack_counts(table.objects),
        "confusion": _pack_counts(table.confusion),
        "curves": sample_curves(result.curves, [row.name for row in result.classes]),
        "misses": _make_miss_curves(result),
        **_make_box_columns(evaluation, table, shown),
        "ious": _make_slider_data(result, table, shown),
    }


def _make_review(
    suspects: Sequence[dict[str, Any]], on_page: ShownImages, image_of_name: Mapping[str, int]
) -> dict[str, Any]:
    """Return the first `LISTED` labels to review, how many there are, and the images of all.

    `suspects` are rows of `Result.report_suspects`. The score is that of the detection that
    casts doubt on a label: for ``class`` and ``spurious`` one of another class.
    """
    rows = [
        {
            "image": int(on_page.number[image_of_name[row["image"]]]),
            "name": row["image"],
            "kind": row["kind"],
            "class": row["class"],
            "other": row["other_class"],
            "score": row["other_score" if row["kind"] in ("class", "spurious") else "same_score"],
            "iou": row["same_iou"],
            "isLabel": row["gt"] is not None,  # else a detection whose label may be missing
            "box": round_numbers(np.array([row[edge] for edge in ("left", "top", "right", "bottom")]), 1),
        }
        for row in suspects[:LISTED]
    ]
    return {
        "count": len(suspects),
        "least": SUSPICION,
        "names": list(dict.fromkeys(row["image"] for row in suspects)),
        "rows": _round_data(rows),
    }


def _make_miss_curves(result: Result) -> list[dict[str, Any]]:
    """Return the curves of miss rate over log10(false positives per image); empty if a protocol has none.

    Each has at most `MAX_POINTS` points.
    """
    rules = result.rules
    rows = []
    for curve in result.miss_curves:
        row, n_points = result.classes[curve.category], len(curve.miss_rate)
        kept_points = np.unique(np.linspace(0, n_points - 1, min(n_points, MAX_POINTS)).astype(int))
        # Half the lowest rate of the protocol stands for lower ones, as 0 has no logarithm.
        log_rate = np.log10(np.maximum(curve.false_per_image[kept_points], min(rules.rates) / 2))
        # The key is "MR" for the main set-up, and "MR@NAME" for a further one.
        rows.append(
            {
                "class": row.name,
                "setUp": rules.areas[curve.area].name if len(rules.areas) > 1 else "",
                "rate": to_plain(row.extra.get(f"MR@{rules.areas[curve.area].name}", row.extra.get("MR"))),
                "points": [round_numbers(log_rate, 4), round_numbers(curve.miss_rate[kept_points], 4)],
            }
        )
    return rows


def _make_analyses(result: Result) -> dict[str, Any]:
    """Return the analyses as in the JSON contract, with rounded numbers and only the worst images."""
    analyses = {name: data for name, data in result.analysis.items() if name != "confusion"}
    # With the thresholds of a file (``at_scores``), the page shows them and the numbers at each.
    if result.scores_from and "thresholds" not in analyses:
        rows = {
            row.name: {"score": row.score, "precision": row.precision, "recall": row.recall}
            for row in result.classes
        }
        analyses["thresholds"] = {"rule": shorten_path(result.scores_from), "classes": rows}
    if "images" in analyses:
        analyses["images"] = [row for row in analyses["images"] if row["error"]][:WORST]
    return {name: _round_data(data) for name, data in analyses.items()}


def _round_data(data: Any) -> Any:
    """Round numbers in plain data to six decimals; those that are not finite become None."""
    if isinstance(data, dict):
        return {key: _round_data(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_round_data(value) for value in data]
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
"""The keys of a class row of the JSON contract that the page shows; the script counts the other numbers."""


def _pack_counts(counts: Counts) -> dict[str, Any]:
    """Pack counts that are mostly 0: their shape, and of those above 0 the flat index and the count.

    The first index stands as it is, each further one as its distance from the one before: 3 7 8 -> 3 4 1.
    """
    return {
        "shape": list(counts.shape),
        "at": np.diff(counts.key, prepend=0).tolist(),
        "n": counts.n.tolist(),
    }


def _make_slider_data(result: Result, table: ReportData, on_page: ShownImages) -> dict[str, Any] | None:
    """Return the data of the IoU slider; None if the result cannot be matched again at other thresholds.

    Counts are stored as changes from the neighbouring threshold on the side of the protocol's, whose position
    in ``values`` is ``own``. ``kind`` has for each threshold a text of one digit per detection shown. ``by``
    has for each threshold two lists: the objects shown whose detection is not that at the protocol's
    threshold, and the number of this detection on the page.
    """
    results_at_ious = result.report_ious()
    if not results_at_ious:
        return None
    reference = [at_iou.iou for at_iou in results_at_ious].index(result.rules.ious[result.rules.reference])
    # The rows of the boxes on the page; the last number is no box's, but stands for the row -1.
    number_of_det, number_of_gt = _number_boxes(table, on_page)
    det_rows, gt_rows = np.flatnonzero(number_of_det[:-1] >= 0), np.flatnonzero(number_of_gt[:-1] >= 0)
    tables = [table if i == reference else table.with_iou(at_iou) for i, at_iou in enumerate(results_at_ious)]
    # The neighbour towards the protocol's threshold: with reference 2 of 5, of 0 1 2 3 4 it is 1 2 2 2 3.
    next_tables = [tables[i + (i < reference) - (i > reference)] for i in range(len(tables))]
    # At each threshold, of each object shown the detection that finds it; then the objects where it changes.
    finder_of_gt = [number_of_det[at_iou.truth.found_by[gt_rows]] for at_iou in tables]
    changed = [np.flatnonzero(finders != finder_of_gt[reference]) for finders in finder_of_gt]
    return {
        "values": [at_iou.iou for at_iou in results_at_ious],
        "own": reference,
        "averaged": result.rules.averaged,
        # Of each class at each threshold.
        "ap": [[None if math.isnan(v) else v for v in at_iou.ap.tolist()] for at_iou in results_at_ious],
        "wrong": [at_iou.wrong_images for at_iou in tables],
        "outcomes": [_pack_changes(a.outcomes, b.outcomes) for a, b in zip(tables, next_tables, strict=True)],
        "objects": [_pack_changes(a.objects, b.objects) for a, b in zip(tables, next_tables, strict=True)],
        "kind": ["".join(map(str, at_iou.kind[det_rows].tolist())) for at_iou in tables],
        "by": [
            [objects.tolist(), finders[objects].tolist()]
            for objects, finders in zip(changed, finder_of_gt, strict=True)
        ],
    }


def _floor_ious(iou: NDArray[np.float64]) -> list[float]:
    """Cut numbers to three decimals, so that an IoU stays on its side of each threshold of the slider."""
    return round_numbers(np.floor(iou * 1000 + 1e-9) / 1000, 3)  # 1e-9 against rounding


def _pack_changes(counts: Counts, neighbour: Counts) -> dict[str, Any]:
    """Pack the differences from the counts `neighbour` at the places ``at``, by flat index; each but
    the first is the distance from the one before. ``n`` may be below 0.
    """
    change = (counts.dense() - neighbour.dense()).ravel()
    changed_keys = np.flatnonzero(change)
    return {"at": np.diff(changed_keys, prepend=0).tolist(), "n": change[changed_keys].tolist()}


def _number_boxes(table: ReportData, on_page: ShownImages) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return for the detections, and for the ground truth, (rows + 1,) the number of each box on the page.

    -1 is not shown. The last entry is also -1, so that the row -1 (no box) leads to -1.
    """
    detections, truth = table.detections, table.truth
    numbers_of_sides = []
    for side in (detections, truth):
        rows = np.flatnonzero(on_page.place_boxes(side.image, side.xyxy) >= 0)
        number_on_page = np.full(len(side.image) + 1, -1, np.int32)
        number_on_page[rows] = np.arange(len(rows), dtype=np.int32)
        numbers_of_sides.append(number_on_page)
    return numbers_of_sides[0], numbers_of_sides[1]


def _make_box_columns(evaluation: Evaluation, table: ReportData, on_page: ShownImages) -> dict[str, Any]:
    """Return the boxes of the images that are shown as columns of detections and of ground truth.

    Positions in these columns are ``by``, the detection that finds an object, and ``pairs``, those of the
    confusion matrix. ``spared`` detections overlap an ignored box, ``paired`` objects are in the matrix.
    ``same`` and ``other`` are an object's highest IoU with detections of its class and of other classes.
    """
    detections, truth, pairing = table.detections, table.truth, table.pairing
    image_of_det, image_of_gt = (on_page.place_boxes(side.image, side.xyxy) for side in (detections, truth))
    det_rows, gt_rows = np.flatnonzero(image_of_det >= 0), np.flatnonzero(image_of_gt >= 0)
    number_of_det, number_of_gt = _number_boxes(table, on_page)
    is_pair_shown = number_of_det[pairing.det] >= 0  # then its object is too, which is on the same image
    detections_dataset, truth_dataset = evaluation.detections_dataset, evaluation.truth_dataset
    # Only detections of half the score of the best F1 have their shapes: those of all would fill the page.
    least_score = 0.5 * table.levels[table.best]
    rows_with_shape = np.where(detections.score[det_rows] >= least_score, detections.row[det_rows], -1)
    return {
        "det": {
            "image": image_of_det[det_rows].tolist(),
            "class": detections.category[det_rows].tolist(),
            "row": detections.row[det_rows].tolist(),
            **make_place_columns(detections_dataset, detections.row[det_rows]),
            "level": table.level[det_rows].tolist(),
            "score": round_numbers(detections.score[det_rows], 4),
            "kind": table.kind[det_rows].tolist(),
            "iou": round_numbers(detections.best_iou[det_rows], 3),
            "spared": pairing.spared[det_rows].astype(int).tolist(),
            "box": [round_numbers(column, 1) for column in detections.xyxy[det_rows].T],
            **make_shape_columns((detections_dataset.boxes if detections_dataset else None, rows_with_shape)),
        },
        "gt": {
            "image": image_of_gt[gt_rows].tolist(),
            "class": truth.category[gt_rows].tolist(),
            "row": truth.row[gt_rows].tolist(),
            **make_place_columns(truth_dataset, truth.row[gt_rows]),
            "counts": truth.counts[gt_rows].astype(int).tolist(),
            "paired": pairing.eligible[gt_rows].astype(int).tolist(),
            "by": number_of_det[truth.found_by[gt_rows]].tolist(),
            "miss": truth.miss[gt_rows].tolist(),
            "same": _floor_ious(truth.same_iou[gt_rows]),
            "other": _floor_ious(truth.other_iou[gt_rows]),
            "box": [round_numbers(column, 1) for column in truth.xyxy[gt_rows].T],
            **make_shape_columns((truth_dataset.boxes if truth_dataset else None, truth.row[gt_rows])),
        },
        "pairs": [
            number_of_det[pairing.det[is_pair_shown]].tolist(),
            number_of_gt[pairing.gt[is_pair_shown]].tolist(),
        ],
    }
