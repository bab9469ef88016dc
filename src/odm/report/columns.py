"""Parts that all pages share: columns of numbers, the messages from reading, and the choice of images."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.issues import Code, Issue, Log, UsageError, printable
from odm.report.build import Page
from odm.report.pictures import Picture
from odm.tables import Dataset, Floats, Ints, Longs

HUGE = 1e12
"""Pixels that no picture has; rounding still larger numbers can make them infinite."""

ISSUES = 200
"""How many issues of a log a page lists; all are counted."""


def round_numbers(values: NDArray[Any], digits: int) -> list[Any]:
    """Round numbers; values that are not finite, or huge, become 0, as a page cannot draw them."""
    numbers = np.asarray(values, np.float64)
    finite = np.where(np.abs(numbers) < HUGE, numbers, 0.0)
    # A whole number is two signs shorter in JSON.
    return [int(v) if v.is_integer() else v for v in np.round(finite, digits).tolist()]


def collect_messages(log: Log, sources: Sequence[str], doubtful: Sequence[Code] = ()) -> dict[str, Any]:
    """Return the messages from reading, as the script takes them: doubts, notes, and other warnings.

    Paths of the sources are cut to their last part, so that a page does not tell where they lay.
    """
    doubts = {code.name for code in doubtful}
    return {
        "sources": [shorten_path(path) for path in sources],
        "doubts": [make_issue_row(i, sources) for i in log.issues if i.code in doubts],
        "notes": [drop_folders(note, sources) for note in log.notes],
        "warnings": [make_issue_row(i, sources) for i in log.issues if i.code not in doubts][:ISSUES],
        "warningCount": sum(n for name, n in log.counts.items() if name not in doubts),
    }


def shorten_path(path: str) -> str:
    """Return the last part of a path, printable."""
    return printable(os.path.basename(path.rstrip("/\\")) or path)


def make_place_columns(dataset: Dataset | None, rows: NDArray[Any]) -> dict[str, Any]:
    """Return where boxes were read: the ``line`` of each, or its index in a list of JSON, and its ``file``.

    The latter is a position in ``files``, or one position for all boxes. Each of ``files`` is None for boxes
    of no file, or has a name and the JSON pointer of the list (None of files with lines).
    """
    if dataset is None:
        return {}
    # The rows of the files that occur (-1 = none), and for each box its position among them.
    file_rows, positions = np.unique(dataset.boxes.file[rows], return_inverse=True)
    files: list[list[str | None] | None] = []
    for row in file_rows.tolist():
        file = dataset.files[row] if row >= 0 else None
        pointer = file.pointer.rstrip("/") if file and file.pointer else None
        files.append(None if file is None else [shorten_path(file.path), pointer])
    return {
        "files": files,
        "file": positions.tolist() if len(files) > 1 else 0,  # 0 for all boxes
        "line": dataset.boxes.line[rows].tolist(),
    }


def drop_folders(text: str, sources: Sequence[str]) -> str:
    """Shorten the paths of the sources in a message to their last part."""
    # The longest first: the folder of one source may hold that of another.
    for path in sorted(sources, key=len, reverse=True):
        folder = os.path.dirname(path.rstrip("/\\"))
        if folder:
            text = text.replace(printable(folder) + os.sep, "")
    return text


def make_issue_row(issue: Issue, sources: Sequence[str]) -> dict[str, str]:
    """Return an issue as the script takes it, without the folders of the sources."""
    return {
        "code": issue.code,
        "severity": issue.severity,
        "text": drop_folders(issue.message, sources),
        "place": drop_folders(issue.location, sources),
    }


CURVE_POINTS = 16_000
"""Points of all curves together; each has at least `MIN_POINTS` and at most `MAX_POINTS`."""
MIN_POINTS, MAX_POINTS = 24, 200


def sample_curves(curves: Mapping[str, Any], names: Sequence[str]) -> list[list[list[float]] | None]:
    """Return for each class of `names` the points to draw: [recalls, precisions], None without a curve.

    The points are spread evenly over the curve, and their number is bounded by `CURVE_POINTS`.
    """
    n_points = int(np.clip(CURVE_POINTS // max(len(curves), 1), MIN_POINTS, MAX_POINTS))
    points_of_classes: list[list[list[float]] | None] = []
    for name in names:
        curve = curves.get(name)
        if curve is None or not (n := len(curve.recall)):
            points_of_classes.append(None)
        else:
            point_rows = np.unique(np.linspace(0, n - 1, min(n, n_points)).astype(int))
            points_of_classes.append(
                [round_numbers(column[point_rows], 4) for column in (curve.recall, curve.precision)]
            )
    return points_of_classes


# ------------------------------------------------------------------ the images that are shown

IMAGES = 200
"""How many images a report shows, unless another number is given."""

RESERVED = 4
"""One image in so many is reserved for the cells of `choose_images`."""


def choose_images(
    n_images: int, weight: Longs, cells: Iterable[Mapping[Hashable, Sequence[int]]], limit: int
) -> list[int]:
    """Return the numbers of at most `limit` images, those of the highest weight.

    Parameters
    ----------
    n_images
        How many there are.
    weight
        (n_images,) number of errors, or the like, in each.
    cells
        Tables of image lists, by what the images show, such as false positives of one class; the best image
        comes first. Three quarters of the images are those of the highest weight; the others come from the
        lists in turn, so that few lists remain without an image.
    """
    limit = min(limit, n_images)
    images_by_weight = np.argsort(-weight, kind="stable").tolist()
    chosen = dict.fromkeys(images_by_weight[: limit - limit // RESERVED])  # an ordered set

    # From the lists in turn.
    image_lists = [images for table in cells for images in table.values() if images]
    depth = 0  # in each round, the next image of every cell
    while len(chosen) < limit and image_lists:
        for images in image_lists:
            if len(chosen) >= limit:
                break
            chosen.setdefault(images[depth])
        depth += 1
        image_lists = [images for images in image_lists if len(images) > depth]

    # Whatever is left, again by weight.
    for image in images_by_weight:
        if len(chosen) >= limit:
            break
        chosen.setdefault(image)
    return sorted(chosen, key=lambda i: (-int(weight[i]), i))


class ShownImages:
    """The images that a page shows, and how far to the right and down their boxes reach.

    ``images`` are their rows among the `n_images`, in the order of the page; the parameters are those of
    `choose_images`. Raises UsageError if `limit` is below 1.
    """

    def __init__(
        self, n_images: int, weight: Longs, cells: Iterable[Mapping[Hashable, Sequence[int]]], limit: int
    ) -> None:
        """Choose the images and number them in the order of the page."""
        if limit < 1:
            raise UsageError(f"report_images {limit}: expected a number of at least 1")
        self.images = choose_images(n_images, weight, cells, limit)
        self.number: Ints = np.full(max(n_images, 1), -1, np.int32)
        """(n_images,), but at least one: the number of each on the page, -1 = not shown."""
        self.number[self.images] = np.arange(len(self.images), dtype=np.int32)
        self._extents = np.zeros((len(self.images), 2))

    def place_boxes(self, image: NDArray[Any], xyxy: Floats) -> Ints:
        """Return (n,) the number on the page of the image of each box, -1 = not shown.

        `image` (n,) are rows among all images, `xyxy` (n, 4) the boxes; the extents of their images grow to
        hold them, for `make_page`.
        """
        page_number: Ints = self.number[image]
        shown_rows = np.flatnonzero(page_number >= 0)  # of all images only few are shown
        shown_rows = shown_rows[(np.abs(xyxy[shown_rows]) < HUGE).all(axis=1)]
        np.maximum.at(self._extents, page_number[shown_rows], xyxy[shown_rows, 2:])
        return page_number

    def make_page(self, kind: str, data: dict[str, Any], pictures: Sequence[Picture]) -> Page:
        """Make the page of these images; `pictures` are those of all images."""
        extents = np.ceil(self._extents).astype(int).tolist()
        return Page(kind, data, [pictures[i] for i in self.images], extents)


def group_by_cell(keys: Iterable[Hashable], images: Iterable[int]) -> dict[Hashable, list[int]]:
    """Group images by key: a cell of `choose_images` for each, with its first 12 distinct images.

    `keys` and `images` have one entry per box.
    """
    cells: dict[Hashable, list[int]] = {}
    for key, image in zip(keys, images, strict=True):
        cell_images = cells.setdefault(key, [])
        if len(cell_images) < 12 and image not in cell_images:
            cell_images.append(image)
    return cells
