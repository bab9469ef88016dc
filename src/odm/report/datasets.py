"""The reports of one data set: a gallery of its boxes, its statistics, and what is wrong in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.report_data import score_levels
from odm.issues import CODES, Issue, Log, UsageError
from odm.report.build import Page
from odm.report.columns import extents_of, issue_row, last_part, reading, rounded
from odm.report.evaluation import IMAGES
from odm.report.pictures import Picture
from odm.report.selection import by_cell, choose
from odm.tables import Dataset, Flag, Longs

LISTED = 1000
"""How many issues a page lists; all are counted."""


def dataset_page(
    dataset: Dataset,
    pictures: Sequence[Picture],
    *,
    log: Log | None = None,
    sources: Sequence[str] = (),
    title: str = "",
    images: int = IMAGES,
) -> Page:
    """A gallery of annotations or detections.

    Parameters
    ----------
    dataset
        Ground truth or detections.
    pictures
        One for each of its images.
    log
        Its notes and warnings are shown.
    sources
        The paths that were read; their last parts are shown.
    images
        How many images are shown: the first ones, and some of every class.

    Raises
    ------
    UsageError
        If `images` is below 1.
    """
    shown = _chosen(dataset, np.zeros(len(dataset.images), np.int64), images)
    data = _common(dataset, log, sources, title) | _boxes(dataset, shown)
    return Page("dataset", data, [pictures[i] for i in shown], _extents([dataset], [shown]))


def statistics_page(
    dataset: Dataset,
    statistics: Mapping[str, Any],
    pictures: Sequence[Picture],
    *,
    log: Log | None = None,
    sources: Sequence[str] = (),
    title: str = "",
    images: int = IMAGES,
) -> Page:
    """What is in a data set, with samples of every class.

    `statistics` is the JSON contract of ``odm stats``; the other parameters are those of `dataset_page`, but
    that all images shown are samples of the classes.
    """
    per_image = np.bincount(dataset.boxes.image, minlength=len(dataset.images))
    shown = _chosen(dataset, np.minimum(per_image, 1).astype(np.int64), images)
    data = _common(dataset, log, sources, title) | _boxes(dataset, shown) | {"statistics": dict(statistics)}
    return Page("statistics", data, [pictures[i] for i in shown], _extents([dataset], [shown]))


def validation_page(
    datasets: Sequence[Dataset],
    issues: Sequence[Issue],
    pictures: Sequence[Sequence[Picture]],
    *,
    log: Log,
    sources: Sequence[str] = (),
    title: str = "",
    images: int = IMAGES,
) -> Page:
    """What is wrong in one data set, or in ground truth and detections, on the pictures where it is.

    Parameters
    ----------
    datasets
        What could be read, the ground truth first.
    issues
        Those that were kept, worst first.
    pictures
        For each data set one for each of its images.
    log
        Counts all issues.
    images
        How many images are shown: those with the most issues, then others.

    Raises
    ------
    UsageError
        If `images` is below 1.
    """
    names = list(dict.fromkeys(name for d in datasets for name in d.images.name))
    number = {name: i for i, name in enumerate(names)}
    rows = [np.array([number[n] for n in d.images.name], np.int64) for d in datasets]
    listed, weight = [], np.zeros(len(names), np.int64)
    finders = [_Places(d) for d in datasets]
    for issue in issues[:LISTED]:
        side, box, image = next(
            ((s, *place) for s, find in enumerate(finders) if (place := find(issue)) != (-1, -1)), (0, -1, -1)
        )
        if image >= 0:
            image = int(rows[side][image])
            weight[image] += 1 if issue.severity == "warning" else 1000
        listed.append({**issue_row(issue, sources), "side": side, "box": box, "image": image})
    if images < 1:
        raise UsageError(f"report_images {images}: give a number from 1")
    shown = choose(len(names), weight, [], images)
    place = np.full(max(len(names), 1), -1, np.int64)
    place[shown] = np.arange(len(shown))
    boxes = [_columns(d, place[rows[s][d.boxes.image]]) for s, d in enumerate(datasets)]
    for entry in listed:
        entry["image"] = int(place[entry["image"]]) if entry["image"] >= 0 else -1
        if entry["box"] >= 0:
            row = np.searchsorted(boxes[entry["side"]]["row"], entry["box"])
            entry["box"] = int(row) if entry["image"] >= 0 else -1
    known = {
        name: p
        for side, d in zip(pictures, datasets, strict=True)
        for name, p in zip(d.images.name, side, strict=True)
    }
    data = {
        **reading(log, sources),
        "warnings": [],
        "warningCount": 0,
        "title": title or ("Check of " + " and ".join(map(last_part, sources)) if sources else "Check"),
        "imageCount": len(names),
        "boxCount": sum(len(d) for d in datasets),
        "sides": [{"kind": d.kind, "classes": list(d.categories.name), "boxes": b} for d, b in zip(datasets, boxes, strict=True)],
        "issues": listed,
        "codes": [
            {"code": name, "severity": CODES[name].severity, "n": n, "advice": CODES[name].mend, "why": CODES[name].why}
            for name, n in sorted(log.counts.items(), key=lambda pair: (CODES[pair[0]].severity != "error", -pair[1]))
            if n
        ],
        "errors": log.errors,
        "warningTotal": log.warnings,
    }  # fmt: skip
    extents = np.zeros((len(shown), 2))
    for s, d in enumerate(datasets):
        extents_of(place[rows[s][d.boxes.image]], d.boxes.xyxy, extents)
    return Page("validation", data, [known[names[i]] for i in shown], np.ceil(extents).astype(int).tolist())


def _chosen(dataset: Dataset, weight: Longs, images: int) -> list[int]:
    if images < 1:
        raise UsageError(f"report_images {images}: give a number from 1")
    boxes = dataset.boxes
    # The least crowded images show a class best.
    per_image = np.bincount(boxes.image, minlength=len(dataset.images))
    order = np.argsort(per_image[boxes.image], kind="stable")
    cells = by_cell(boxes.category[order].tolist(), boxes.image[order].tolist())
    return choose(len(dataset.images), weight, [cells], images)


def _common(dataset: Dataset, log: Log | None, sources: Sequence[str], title: str) -> dict[str, Any]:
    boxes, n = dataset.boxes, len(dataset.categories)
    pairs = np.unique(boxes.category.astype(np.int64) * max(len(dataset.images), 1) + boxes.image)
    per_class = np.bincount(boxes.category, minlength=n).tolist()
    in_images = np.bincount(pairs // max(len(dataset.images), 1), minlength=n).tolist()
    classes = zip(dataset.categories.name, per_class, in_images, strict=True)
    scores = boxes.score[np.isfinite(boxes.score)] if dataset.kind == "det" else np.zeros(0)
    return {
        **reading(log or Log(), sources),
        "title": title or " and ".join(map(last_part, sources)) or "Data set",
        "side": dataset.kind,
        "imageCount": len(dataset.images),
        "boxCount": len(boxes),
        "classes": [{"name": name, "boxes": b, "images": i} for name, b, i in classes],
        "levels": score_levels(scores).tolist() if len(scores) else [],
    }


def _boxes(dataset: Dataset, shown: Sequence[int]) -> dict[str, Any]:
    number = np.full(max(len(dataset.images), 1), -1, np.int64)
    number[list(shown)] = np.arange(len(shown))
    return {"boxes": _columns(dataset, number[dataset.boxes.image])}


def _columns(dataset: Dataset, image: NDArray[np.int64]) -> dict[str, Any]:
    """The boxes of the images that are shown; `image` (n,) is their number there, -1 = not shown."""
    boxes = dataset.boxes
    own = np.flatnonzero(image >= 0)
    names = [str(flag.name).lower().replace("_", "-") for flag in Flag]
    return {
        "image": image[own].tolist(),
        "class": boxes.category[own].tolist(),
        "row": own.tolist(),
        "score": rounded(boxes.score[own], 4) if dataset.kind == "det" else [],
        "flags": boxes.flags[own].tolist(),
        "flagNames": names,
        "box": [rounded(column, 1) for column in boxes.xyxy[own].T],
    }


def _extents(datasets: Sequence[Dataset], shown: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for dataset, images in zip(datasets, shown, strict=True):
        number = np.full(max(len(dataset.images), 1), -1, np.int32)
        number[list(images)] = np.arange(len(images), dtype=np.int32)
        extents = np.zeros((len(images), 2))
        extents_of(number[dataset.boxes.image], dataset.boxes.xyxy, extents)
        found += np.ceil(extents).astype(int).tolist()
    return found


class _Places:
    """Answers which box and image of a data set an issue is about; -1 = none."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._files: dict[str, list[tuple[int, str]]] = {}
        for number, file in enumerate(dataset.files):
            self._files.setdefault(file.path, []).append((number, file.pointer.rstrip("/")))
        self._boxes = _index(dataset.boxes.file, dataset.boxes.line)
        self._images = _index(dataset.images.file, dataset.images.line)

    def __call__(self, issue: Issue) -> tuple[int, int]:
        for number, pointer in self._files.get(issue.path, ()):
            line = issue.line
            if issue.pointer:
                begins = issue.pointer.startswith(pointer + "/")
                part = issue.pointer[len(pointer) + 1 :].partition("/")[0] if begins else ""
                if not part.isdecimal():
                    continue
                line = int(part)
            elif pointer or not line:
                continue
            box = _look_up(self._boxes, number, line)
            if box >= 0:
                return box, int(self._dataset.boxes.image[box])
            image = _look_up(self._images, number, line)
            if image >= 0:
                return -1, image
        return -1, self._of_file(issue)

    def _of_file(self, issue: Issue) -> int:
        """The image of a file that describes one image only."""
        numbers = [number for number, _ in self._files.get(issue.path, ())]
        if not numbers or issue.pointer:
            return -1
        images = np.unique(self._dataset.boxes.image[np.isin(self._dataset.boxes.file, numbers)])
        return int(images[0]) if len(images) == 1 else -1


Index = tuple[Longs, Longs]


def _index(file: NDArray[Any], line: NDArray[Any]) -> Index:
    key = file.astype(np.int64) * 2**40 + line
    order = np.argsort(key, kind="stable")
    return key[order], order


def _look_up(index: Index, file: int, line: int) -> int:
    keys, order = index
    wanted = file * 2**40 + line
    at = int(np.searchsorted(keys, wanted))
    return int(order[at]) if at < len(keys) and keys[at] == wanted else -1
