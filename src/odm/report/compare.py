"""The report of a comparison: what changed per class, and on which images, side by side."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import asdict

from odm.evaluate.output.report_data import KINDS, MISSES, ReportData
from odm.evaluate.results import Result, to_plain
from odm.issues import Code, Log, UsageError
from odm.names import shorten_paths
from odm.report import words
from odm.report.build import Page
from odm.report.columns import IMAGES, choose_images, collect_messages, round_numbers, sample_curves
from odm.report.pictures import Picture
from odm.report.shapes import BLANK, collect_skeletons, make_shape_columns
from odm.tables import Dataset, Floats, Longs

FIXED, BROKEN, BOTH, RIGHT = "fixed", "broken", "both", "right"
"""Of an image: wrong in the first run only, in the other only, in both, in neither."""


class ClassDelta(msgspec.Struct, frozen=True):
    """The change of a number from the first run to the other, of a class or of all classes.

    ``delta`` is other - first and ``low`` to ``high`` its interval; None or NaN is undefined.
    """

    name: str
    first: float | None
    other: float | None
    delta: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    gt: int | None = None
    lower: bool = False
    """Whether lower is better."""
    chance: bool = False
    """Whether it counts as chance although the interval excludes 0, as there are several runs."""


class RunBoxes(msgspec.Struct, frozen=True, eq=False):
    """The boxes of one run on one image: a row per box."""

    kind: Sequence[str]
    """``TP``, ``FP``, ``FN``, ``GT`` (an object that is found) or ``IG`` (counts as nothing)."""
    category: Sequence[str]
    xyxy: Floats
    """(n, 4)"""
    score: Floats
    """(n,) NaN for ground truth."""
    why: Sequence[words.Text]
    """A few words for each."""
    shapes: Mapping[str, Sequence[Any]] = msgspec.field(default_factory=dict)
    """Shapes and keypoints, as of `odm.report.shapes.make_shape_columns`."""


class ImageChange(msgspec.Struct, frozen=True, eq=False):
    """An image under two runs, with the false positives and false negatives of each."""

    name: str
    first: RunBoxes
    other: RunBoxes
    errors_first: int
    errors_other: int


class Changes(msgspec.Struct, frozen=True, eq=False):
    """The number of images that are `FIXED`, `BROKEN`, wrong in `BOTH` and `RIGHT`, and those to show."""

    counts: Mapping[str, int]
    images: Sequence[ImageChange]
    scores: tuple[float, float] | None = None
    """The least score of the detections that each run is judged by."""
    skeletons: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """By class the pairs of keypoints that are joined by a line."""


Datasets = tuple[Dataset | None, Dataset | None]
"""The ground truth and the detections of a run, whose shapes are drawn."""


def changes_of(
    first: ReportData,
    other: ReportData,
    *,
    levels: tuple[int, int] | None = None,
    images: int = IMAGES,
    datasets: tuple[Datasets, Datasets] = ((None, None), (None, None)),
) -> Changes:
    """Compare two runs image by image.

    Parameters
    ----------
    first, other
        The data of the two runs, of one ground truth.
    levels
        The position in the levels of each run at which it is judged; left out, those of the best F1.
    images
        How many images are kept: those whose errors changed most, then some of every kind of change.
    datasets
        The ground truth and detections of each run; without them only boxes are drawn.
    """
    run_levels = (first.best, other.best) if levels is None else levels

    # The errors of both runs on each image that either has.
    names = list(dict.fromkeys((*first.images, *other.images)))
    index_of_name = {name: image for image, name in enumerate(names)}
    errors = np.zeros((2, len(names)), np.int64)  # (runs, images)
    for run, table, level in zip((0, 1), (first, other), run_levels, strict=True):
        image_rows = np.array([index_of_name[name] for name in table.images], np.int64)
        _, _, n_errors = table.find_errors(level)
        errors[run, image_rows] = n_errors

    # (images,) masks of each outcome
    is_wrong = errors > 0
    is_outcome = {
        FIXED: is_wrong[0] & ~is_wrong[1],
        BROKEN: is_wrong[1] & ~is_wrong[0],
        BOTH: is_wrong[0] & is_wrong[1],
        RIGHT: ~is_wrong[0] & ~is_wrong[1],
    }

    # The images to show: those of the largest change first, in all and of each outcome but right.
    error_change = np.abs(errors[0] - errors[1])
    cells: dict[Hashable, list[int]] = {}
    for key in (FIXED, BROKEN, BOTH):
        images_of_key = np.flatnonzero(is_outcome[key])
        cells[key] = images_of_key[np.argsort(-error_change[images_of_key], kind="stable")].tolist()
    shown_images = choose_images(len(names), error_change, [cells], images)
    shown_names = [names[image] for image in shown_images]
    first_boxes, other_boxes = (
        _collect_run_boxes(table, level, shown_names, run_datasets)
        for table, level, run_datasets in zip((first, other), run_levels, datasets, strict=True)
    )
    first_level, other_level = run_levels
    return Changes(
        counts={key: int(np.count_nonzero(mask)) for key, mask in is_outcome.items()},
        images=[
            ImageChange(
                names[image],
                first_boxes[position],
                other_boxes[position],
                errors_first=int(errors[0, image]),
                errors_other=int(errors[1, image]),
            )
            for position, image in enumerate(shown_images)
        ],
        scores=(float(first.levels[first_level]), float(other.levels[other_level])),
        skeletons=collect_skeletons(*datasets[0], *datasets[1]),
    )


def _collect_run_boxes(
    table: ReportData, level: int, names: Sequence[str], run_datasets: Datasets
) -> list[RunBoxes]:
    """Return the boxes of one run on each of the images `names`: the detections with a score of at least that
    of `level`, then the ground truth.
    """
    detections, truth = table.detections, table.truth
    image_of_name = {name: i for i, name in enumerate(table.images)}
    # An object that counts is found or missed at this level; any other is ignored.
    gt_kinds = np.where(truth.counts, np.where(table.is_found_at(level), "GT", "FN"), "IG")
    is_det_kept = table.level >= level
    boxes_of_images = []
    for name in names:
        image = image_of_name.get(name, -1)
        det_rows = np.flatnonzero((detections.image == image) & is_det_kept)
        gt_rows = np.flatnonzero(truth.image == image)
        kinds_of_rows = gt_kinds[gt_rows].tolist()
        boxes_of_images.append(_make_run_boxes(table, det_rows, gt_rows, kinds_of_rows, run_datasets))
    return boxes_of_images


def _make_run_boxes(
    table: ReportData, det_rows: Longs, gt_rows: Longs, gt_kinds: Sequence[str], run_datasets: Datasets
) -> RunBoxes:
    """Return the boxes of one image: the detections in `det_rows`, then the ground truth in `gt_rows`, of
    the kinds `gt_kinds`: ``GT`` (an object that is found), ``FN`` or ``IG``.
    """
    detections, truth = table.detections, table.truth
    det_kinds = table.kind[det_rows].tolist()  # positions in `KINDS`
    # For each box its row in the ground truth and its row in the detections, -1 in the one that it is not of.
    truth_rows = np.append(np.full(len(det_rows), -1), truth.row[gt_rows])
    detection_rows = np.append(detections.row[det_rows], np.full(len(gt_rows), -1))
    truth_dataset, detections_dataset = run_datasets
    return RunBoxes(
        kind=[*map(_name_kind, det_kinds), *gt_kinds],
        category=[table.classes[c] for c in (*detections.category[det_rows], *truth.category[gt_rows])],
        xyxy=np.concatenate([detections.xyxy[det_rows], truth.xyxy[gt_rows]]),
        score=np.concatenate([detections.score[det_rows], np.full(len(gt_rows), np.nan)]),
        why=[
            *map(_word_kind, det_kinds),
            *(_word_truth(table, row, kind) for row, kind in zip(gt_rows.tolist(), gt_kinds, strict=True)),
        ],
        shapes=make_shape_columns(
            (truth_dataset.boxes if truth_dataset else None, truth_rows),
            (detections_dataset.boxes if detections_dataset else None, detection_rows),
        ),
    )


def _name_kind(kind: int) -> str:
    """Return the kind of a detection as `RunBoxes` has it, from its position in `KINDS`."""
    if kind == 0:
        return "TP"
    return "IG" if kind == len(KINDS) - 1 else "FP"


def _word_kind(kind: int) -> words.Text:
    """Return the text for the kind of a detection, its position in `KINDS`: 0 is found, the last ignored."""
    if kind in (0, len(KINDS) - 1):
        return words.name_text("ignored" if kind else "found")
    return words.name_text("false", kind=words.name_text("kind." + KINDS[kind]))


def _word_truth(table: ReportData, row: int, kind: str) -> words.Text:
    """Return the text for the outcome of an object.

    If it is missed, the text has the score at which it would be matched, or the reason why it never is.
    """
    if kind != "FN":
        return words.name_text("truth" if kind == "GT" else "ignored")
    if table.truth.found_by[row] >= 0:
        return words.name_text("found-only-at", score=f"{table.truth.score[row]:.2f}")
    return words.name_text("missed-because", why=words.name_text("miss." + MISSES[table.truth.miss[row]]))


class RunPair(msgspec.Struct, frozen=True, eq=False):
    """The data that a page shows of a run beside the first.

    ``curves`` are the two results and their tables, if their curves are to be drawn; ``slices`` rows as of
    `odm.evaluate.analysis.compare.Comparison.slices`.
    """

    name: str
    summary: Sequence[ClassDelta]
    classes: Sequence[ClassDelta]
    changes: Changes
    curves: Sequence[tuple[Result, ReportData]] = ()
    slices: Sequence[Mapping[str, Any]] = ()


def compare_page(
    summary: Sequence[ClassDelta],
    classes: Sequence[ClassDelta],
    changes: Changes,
    pictures: Mapping[str, Picture],
    *,
    names: tuple[str, str],
    definition: str,
    metric: str = "AP",
    log: Log | None = None,
    sources: Sequence[str] = (),
    title: str = "",
    doubtful: Sequence[Code] = (),
    curves: Sequence[tuple[Result, ReportData]] = (),
    slices: Sequence[Mapping[str, Any]] = (),
    more: Sequence[RunPair] = (),
    verdict: str = "",
    ranking: Sequence[Mapping[str, Any]] = (),
) -> Page:
    """Make the page that compares two runs, or several with the first of them.

    Parameters
    ----------
    summary
        The numbers over all classes, the one that matters most first.
    classes
        One row per class, of `metric`.
    changes
        What `changes_of` returns, or the same made elsewhere.
    pictures
        By the name of the image; an image without one is drawn blank.
    names
        Of the two runs; of paths, the last parts that tell them apart are shown.
    definition
        What the numbers mean, in one line.
    doubtful
        Codes of the warnings that put the numbers in doubt.
    curves, slices
        As of `RunPair`.
    more
        Further runs, each beside the first.
    verdict, ranking
        A sentence about all runs, and the runs, best first, as `Standing.to_dict` of
        `odm.evaluate.analysis.leaderboard` gives them.

    Raises
    ------
    UsageError
        If there is nothing to compare.
    """
    if not summary:
        raise UsageError("a comparison needs at least one number")
    pairs = [RunPair(names[1], summary, classes, changes, curves, slices), *more]
    first_name, *other_names = shorten_paths([names[0], *(pair.name for pair in pairs)])
    shown_names = list(dict.fromkeys(image.name for pair in pairs for image in pair.changes.images))
    number_of_name = {name: i for i, name in enumerate(shown_names)}
    short_names = {
        names[0]: first_name,
        **{pair.name: name for pair, name in zip(pairs, other_names, strict=True)},
    }
    pair_data = [
        _make_pair_data(pair, (first_name, name), number_of_name)
        for pair, name in zip(pairs, other_names, strict=True)
    ]
    data = {
        **collect_messages(log or Log(), sources, doubtful),
        "title": title or _make_title(first_name, other_names),
        "definition": definition,
        "metric": metric,
        "verdict": verdict if more else "",  # of two runs the script writes one with numbers
        "ranking": _make_ranking(ranking, short_names) if more else [],
        "imageCount": sum(changes.counts.values()) or len(changes.images),  # counts may be left out
        **pair_data[0],
        "more": pair_data[1:],
    }
    shown_pictures = [pictures.get(name, Picture(name)) for name in shown_names]
    return Page("compare", data, shown_pictures, _measure_extents(pairs, number_of_name))


def _measure_extents(pairs: Sequence[RunPair], number_of_name: Mapping[str, int]) -> list[tuple[int, int]]:
    """Return how far to the right and down the boxes of each image reach, by its number on the page."""
    extents = np.zeros((len(number_of_name), 2))
    for image in (image for pair in pairs for image in pair.changes.images):
        # The row of zeros is for an image without boxes.
        xyxy = np.concatenate([np.zeros((1, 4)), image.first.xyxy, image.other.xyxy])
        page_number = number_of_name[image.name]
        extents[page_number] = np.maximum(extents[page_number], np.nan_to_num(xyxy[:, 2:]).max(axis=0))
    return [(width, height) for width, height in np.ceil(extents).astype(int).tolist()]


def _make_title(first_name: str, other_names: Sequence[str]) -> words.Text:
    """Return a title with the names of two runs, or the number of more."""
    if len(other_names) == 1:
        return words.name_text("title.compare", first=first_name, other=other_names[0])
    return words.name_text("title.compare-many", n=str(1 + len(other_names)))


def _make_ranking(ranking: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of the leaderboard, with short names of the runs and the keys that the script reads."""
    return [
        {
            **{key: row[key] for key in ("key", "value", "low", "high", "delta", "chance")},
            "run": names[row["run"]],
            "same": [names[name] for name in row["same"]],
            "deltaLow": row["delta_low"],
            "deltaHigh": row["delta_high"],
        }
        for row in ranking
    ]


def _make_pair_data(
    pair: RunPair, names: tuple[str, str], number_of_image: Mapping[str, int]
) -> dict[str, Any]:
    """Return the data that a page shows of two runs called `names`.

    `number_of_image` is the number on the page of each image, by its name.
    """
    changes = pair.changes
    # For each of the two runs, its boxes on each image.
    boxes_by_run = [[getattr(change, run) for change in changes.images] for run in ("first", "other")]
    all_boxes = [image_boxes for run_boxes in boxes_by_run for image_boxes in run_boxes]
    categories = list(dict.fromkeys(name for image_boxes in all_boxes for name in image_boxes.category))
    number_of_class = {name: i for i, name in enumerate(categories)}
    summary, classes = (
        [{k: to_plain(v) for k, v in asdict(row).items()} for row in rows]
        for rows in (pair.summary, pair.classes)
    )
    return {
        "names": list(names),
        "scores": changes.scores,
        "summary": summary,
        "classes": classes,
        "counts": dict(changes.counts),
        "categories": categories,
        "skeletons": dict(changes.skeletons),
        "images": [number_of_image[change.name] for change in changes.images],
        "errors": [[change.errors_first, change.errors_other] for change in changes.images],
        "runs": [_make_run_columns(run_boxes, number_of_class) for run_boxes in boxes_by_run],
        "slices": list(pair.slices),
        "curves": [
            _make_curves(result, table, [row["name"] for row in classes]) for result, table in pair.curves
        ],
    }


def _make_curves(result: Result, table: ReportData, names: Sequence[str]) -> list[Any]:
    """Return the curve of all classes together, then that of each class: lists of recall and of precision."""
    # outcomes: (kinds, levels), of all classes, the highest level first: detections of at least that score.
    # Kind 0 is a true positive, the last ignored, those between false positives.
    outcomes = table.outcomes.dense().sum(axis=0)[:, ::-1].cumsum(axis=1)
    tp, fp, n_objects = outcomes[0], outcomes[1:-1].sum(axis=0), int(table.truth.counts.sum())
    drawn_levels = np.flatnonzero((tp > 0) & (n_objects > 0))  # where both are defined and above 0
    overall = [
        round_numbers(tp[drawn_levels] / max(n_objects, 1), 4),
        round_numbers(tp[drawn_levels] / (tp + fp)[drawn_levels], 4),
    ]
    return [overall, *sample_curves(result.curves, names)]


def _make_run_columns(boxes: Sequence[RunBoxes], number_of_class: Mapping[str, int]) -> dict[str, Any]:
    """Return the boxes of a run on all images as columns; `number_of_class` is the position of each name."""
    xyxy = np.concatenate([np.zeros((0, 4)), *(image_boxes.xyxy for image_boxes in boxes)])
    scores = [to_plain(round(s, 4)) for image_boxes in boxes for s in np.asarray(image_boxes.score).tolist()]
    columns = {
        "image": [i for i, image_boxes in enumerate(boxes) for _ in image_boxes.kind],
        "kind": [kind for image_boxes in boxes for kind in image_boxes.kind],
        "class": [number_of_class[name] for image_boxes in boxes for name in image_boxes.category],
        "score": scores,
        "why": [text for image_boxes in boxes for text in image_boxes.why],
        "box": [round_numbers(column, 1) for column in xyxy.T],
    }
    for name, blank in BLANK.items():  # shapes and keypoints, if any image has them
        if any(name in image_boxes.shapes for image_boxes in boxes):
            parts = (image_boxes.shapes.get(name, [blank] * len(image_boxes.kind)) for image_boxes in boxes)
            columns[name] = [value for part in parts for value in part]
    return columns
