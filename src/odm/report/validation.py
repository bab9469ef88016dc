"""The report of a validation: the codes, the places, and the faulty boxes on their pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.issues import CODES, Issue, Log, UsageError
from odm.names import number_of
from odm.report.build import Page
from odm.report.columns import extents_of, issue_row, last_part, reading
from odm.report.datasets import box_columns
from odm.report.evaluation import IMAGES
from odm.report.pictures import Picture
from odm.report.selection import choose
from odm.tables import Dataset, Longs

LISTED = 1000
"""How many issues a page lists; all are counted."""

HEAVY = 1000
"""An image with an error is listed before one with fewer warnings than this."""


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
    if images < 1:
        raise UsageError(f"report_images {images}: expected a number of at least 1")
    names = list(dict.fromkeys(name for d in datasets for name in d.images.name))
    number = {name: i for i, name in enumerate(names)}
    sides = [_Side(d, np.array([number[n] for n in d.images.name], np.int64)) for d in datasets]
    found = [_find(issue, sides) for issue in issues[:LISTED]]
    weight = np.zeros(len(names), np.int64)
    for issue, (_, _, image) in zip(issues, found, strict=False):
        if image >= 0:
            weight[image] += 1 if issue.severity == "warning" else HEAVY
    shown = choose(len(names), weight, [], images)
    location = np.full(max(len(names), 1), -1, np.int32)
    location[shown] = np.arange(len(shown), dtype=np.int32)
    own = [location[side.image_of_box()] for side in sides]
    boxes = [box_columns(side.dataset, numbers) for side, numbers in zip(sides, own, strict=True)]
    listed = []
    for issue, (side, box, image) in zip(issues, found, strict=False):
        at = int(location[image]) if image >= 0 else -1
        row = int(np.searchsorted(boxes[side]["row"], box)) if at >= 0 and box >= 0 else -1
        listed.append({**issue_row(issue, sources), "side": side, "box": row, "image": at})
    extents = np.zeros((len(shown), 2))
    for one, numbers in zip(sides, own, strict=True):
        extents_of(numbers, one.dataset.boxes.xyxy, extents)
    known = {picture.name: picture for side_pictures in pictures for picture in side_pictures}
    data = _common(log, sources, title) | {
        "imageCount": len(names),
        "boxCount": sum(len(d) for d in datasets),
        "sides": [
            {"kind": d.kind, "classes": list(d.categories.name), "boxes": columns}
            for d, columns in zip(datasets, boxes, strict=True)
        ],
        "issues": listed,
    }
    return Page("validation", data, [known[names[i]] for i in shown], np.ceil(extents).astype(int).tolist())


def _common(log: Log, sources: Sequence[str], title: str) -> dict[str, Any]:
    """What does not depend on boxes: the notes and the codes that were found, errors and the most first."""
    codes = [(CODES[name], n) for name, n in log.counts.items() if n]
    codes.sort(key=lambda pair: (pair[0].severity != "error", -pair[1], pair[0].name))
    return {
        **reading(log, sources),
        "warnings": [],
        "warningCount": 0,
        "title": title or ("Check of " + " and ".join(map(last_part, sources)) if sources else "Check"),
        "codes": [{"code": c.name, "severity": c.severity, "n": n, "why": c.why} for c, n in codes],
        "errors": log.errors,
        "warningTotal": log.warnings,
    }


def _find(issue: Issue, sides: Sequence[_Side]) -> tuple[int, int, int]:
    """Which side, box and image an issue is about; -1 = none."""
    for number, side in enumerate(sides):
        box, image = side.find(issue)
        if image >= 0:
            return number, box, int(side.number[image])
    return 0, -1, -1


Index = tuple[Longs, Longs]


class _Side:
    """A data set, and the numbers (images,) of its images among all of the page."""

    def __init__(self, dataset: Dataset, number: Longs) -> None:
        self.dataset, self.number = dataset, number
        files: dict[str, list[tuple[int, str]]] = {}
        for row, file in enumerate(self.dataset.files):
            files.setdefault(file.path, []).append((row, file.pointer.rstrip("/")))
        boxes, images = self.dataset.boxes, self.dataset.images
        self._files = files
        self._boxes = _index(boxes.file, boxes.line)
        self._images = _index(images.file, images.line)

    def image_of_box(self) -> Longs:
        """(boxes,) the number of the image of each."""
        return self.number[self.dataset.boxes.image]

    def find(self, issue: Issue) -> tuple[int, int]:
        """Box and image of the data set that an issue is about; -1 = none."""
        for number, pointer in self._files.get(issue.path, ()):
            line = issue.line
            if issue.pointer:
                begins = issue.pointer.startswith(pointer + "/")
                part = issue.pointer[len(pointer) + 1 :].partition("/")[0] if begins else ""
                line = number_of(part)
                if line < 0:
                    continue
            elif pointer or not line:
                continue
            box = _look_up(self._boxes, number, line)
            if box >= 0:
                return box, int(self.dataset.boxes.image[box])
            image = _look_up(self._images, number, line)
            if image >= 0:
                return -1, image
        return -1, self._of_file(issue)

    def _of_file(self, issue: Issue) -> int:
        """The image of a file that describes one image only."""
        numbers = [number for number, _ in self._files.get(issue.path, ())]
        if not numbers or issue.pointer:
            return -1
        images = np.unique(self.dataset.boxes.image[np.isin(self.dataset.boxes.file, numbers)])
        return int(images[0]) if len(images) == 1 else -1


def _index(file: NDArray[Any], line: NDArray[Any]) -> Index:
    key = file.astype(np.int64) * 2**40 + line
    order = np.argsort(key, kind="stable")
    return key[order], order


def _look_up(index: Index, file: int, line: int) -> int:
    keys, order = index
    wanted = file * 2**40 + line
    at = int(np.searchsorted(keys, wanted))
    return int(order[at]) if at < len(keys) and keys[at] == wanted else -1
