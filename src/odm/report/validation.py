"""The report of a validation: the codes, the places, and the faulty boxes on their pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.issues import CODES, Issue, Log
from odm.names import parse_number
from odm.report import words
from odm.report.build import Page
from odm.report.columns import IMAGES, ShownImages, collect_messages, make_issue_row, shorten_path
from odm.report.datasets import make_box_columns
from odm.report.pictures import Picture
from odm.report.shapes import collect_skeletons
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
    """Make the page of the issues of one dataset, or of ground truth and detections, drawn on the pictures.

    Parameters
    ----------
    datasets
        What could be read, the ground truth first.
    issues
        Those that were kept, worst first.
    pictures
        For each dataset one for each of its images.
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
    index_of_name = {name: i for i, name in enumerate(names)}
    sides = [
        _DatasetOnPage(d, np.array([index_of_name[n] for n in d.images.name], np.int64)) for d in datasets
    ]
    # The side, box and image of each issue that is listed; `zip` below ends with the last of these.
    subjects = [_find(issue, sides) for issue in issues[:LISTED]]

    # The images to show: those with most issues, one error before many warnings.
    weight = np.zeros(len(names), np.int64)
    for issue, (_, _, image) in zip(issues, subjects, strict=False):
        if image >= 0:
            weight[image] += 1 if issue.severity == "warning" else HEAVY
    shown = ShownImages(len(names), weight, [], images)  # []: by their weight alone
    box_columns = [
        make_box_columns(d, shown.place_boxes(side.number[d.boxes.image], d.boxes.xyxy))
        for d, side in zip(datasets, sides, strict=True)
    ]
    listed_issues = []
    for issue, (side_position, box, image) in zip(issues, subjects, strict=False):
        page_number = int(shown.number[image]) if image >= 0 else -1
        has_box = page_number >= 0 and box >= 0
        # The rows of the boxes on the page ascend, so that the position of one among them can be searched.
        box_on_page = int(np.searchsorted(box_columns[side_position]["row"], box)) if has_box else -1
        subject = {"side": side_position, "box": box_on_page, "image": page_number}
        listed_issues.append({**make_issue_row(issue, sources), **subject})

    picture_of_name = {picture.name: picture for side_pictures in pictures for picture in side_pictures}
    # The codes that occur, errors and the most frequent ones first.
    codes = [CODES[name] for name, n in log.counts.items() if n]
    codes.sort(key=lambda code: (code.severity != "error", -log.counts[code.name], code.name))
    data = {
        **collect_messages(log, sources),
        "warnings": [],  # they are among the issues
        "warningCount": 0,
        "title": title or _make_title(sources),
        "codes": [
            {"code": c.name, "severity": c.severity, "n": log.counts[c.name], "why": c.why} for c in codes
        ],
        "errors": log.errors,
        "warningTotal": log.warnings,
        "imageCount": len(names),
        "boxCount": sum(len(d) for d in datasets),
        "skeletons": collect_skeletons(*datasets),
        "sides": [
            {"kind": d.kind, "classes": list(d.categories.name), "boxes": columns}
            for d, columns in zip(datasets, box_columns, strict=True)
        ],
        "issues": listed_issues,
    }
    return shown.make_page("validation", data, [picture_of_name[name] for name in names])


def _make_title(sources: Sequence[str]) -> words.Text:
    """Return a title with the names of the sources, if there are any."""
    names = words.join_names([*map(shorten_path, sources)])
    return words.name_text("title.check-of", names=names) if names else words.name_text("title.check")


def _find(issue: Issue, sides: Sequence[_DatasetOnPage]) -> tuple[int, int, int]:
    """Return the position of the side that an issue is about, its box there, and its image; -1 = none."""
    for position, side in enumerate(sides):
        box, image = side.find(issue)
        if image >= 0:
            return position, box, int(side.number[image])
    return 0, -1, -1


Index = tuple[Longs, Longs]
"""Sorted keys, file * 2**40 + line, and the row of each; no line or item has so large a number."""


class _DatasetOnPage:
    """Finds the box or image of an issue by its file and line, or by its JSON pointer.

    ``number`` (n_images,) has the index of each image among those of all datasets of the page.
    """

    def __init__(self, dataset: Dataset, page_index: Longs) -> None:
        """Index the rows of a dataset by file and line; `page_index` becomes ``number``."""
        self.dataset, self.number = dataset, page_index
        self._files: dict[str, list[tuple[int, str]]] = {}
        for row, file in enumerate(dataset.files):
            self._files.setdefault(file.path, []).append((row, file.pointer.rstrip("/")))
        boxes, images = dataset.boxes, dataset.images
        self._boxes = _sort_rows(boxes.file, boxes.line)
        self._images = _sort_rows(images.file, images.line)

    def find(self, issue: Issue) -> tuple[int, int]:
        """Return the rows of the box and of the image that an issue is about; -1 = none.

        "/annotations/7/bbox" is about item 7 of the list at "/annotations"; other issues name a line.
        """
        for file_row, pointer in self._files.get(issue.path, ()):
            line_or_item = issue.line
            if issue.pointer:
                is_inside = issue.pointer.startswith(pointer + "/")
                item = issue.pointer[len(pointer) + 1 :].partition("/")[0] if is_inside else ""
                line_or_item = parse_number(item)
                if line_or_item < 0:
                    continue  # the issue is about another part of the file, or the whole of it
            elif pointer or not line_or_item:
                continue  # a row of a list has the number of an item, which is no line
            box = _look_up(self._boxes, file_row, line_or_item)
            if box >= 0:
                return box, int(self.dataset.boxes.image[box])
            image = _look_up(self._images, file_row, line_or_item)
            if image >= 0:
                return -1, image
        # An issue that names no row is about the image of a file that describes one image only.
        file_rows = [file_row for file_row, _ in self._files.get(issue.path, ())]
        if not file_rows or issue.pointer:
            return -1, -1
        images = np.unique(self.dataset.boxes.image[np.isin(self.dataset.boxes.file, file_rows)])
        return -1, int(images[0]) if len(images) == 1 else -1


def _sort_rows(file: NDArray[Any], line: NDArray[Any]) -> Index:
    """Sort rows for `_look_up`, by `file` (n,), the row of the file in the dataset, and `line` (n,).

    In a JSON file with a pointer the `line` is the number of an item of its list.
    """
    key = file.astype(np.int64) * 2**40 + line
    order = np.argsort(key, kind="stable")
    return key[order], order


def _look_up(index: Index, file: int, line: int) -> int:
    """Return the first row of a file and line, -1 = none."""
    keys, order = index
    key = file * 2**40 + line  # as in `Index`
    position = int(np.searchsorted(keys, key))
    return int(order[position]) if position < len(keys) and keys[position] == key else -1
