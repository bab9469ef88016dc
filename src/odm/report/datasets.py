"""The reports of one dataset: a gallery of its boxes, and its statistics."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.output.report_data import choose_score_levels
from odm.issues import Log, plural
from odm.report import words
from odm.report.build import Page
from odm.report.columns import (
    IMAGES,
    ShownImages,
    collect_messages,
    group_by_cell,
    round_numbers,
    shorten_path,
)
from odm.report.pictures import Picture
from odm.report.shapes import collect_skeletons, make_shape_columns
from odm.tables import Dataset, Flag, Longs

FLAG_NAMES = [str(flag.name).lower().replace("_", "-") for flag in Flag]


def what_images_have(page: Page) -> str:
    """Count, in one line of English, how many images of a page have boxes, shapes, flags and so on."""
    kinds = [
        words.name_text(f"has.{row['key']}", name=row["name"], n=str(row["n"])) for row in page.data["kinds"]
    ]
    n = page.data["imageCount"]
    return f"{plural(n, 'image')}: {', '.join(map(words.to_english, kinds))}" if kinds else plural(n, "image")


def dataset_page(
    dataset: Dataset,
    pictures: Sequence[Picture],
    *,
    log: Log | None = None,
    sources: Sequence[str] = (),
    title: str = "",
    images: int = IMAGES,
) -> Page:
    """Make the page of a gallery of annotations or detections.

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
    # Of equal weights the first images come first.
    shown = _choose_images(dataset, np.zeros(len(dataset.images), np.int64), images)
    return shown.make_page("dataset", _make_data(dataset, shown, log, sources, title), pictures)


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
    """Make the page of the statistics of a dataset, with samples of every class.

    `statistics` is the JSON contract of ``odm stats``; the other parameters are those of `dataset_page`,
    except that images without boxes come last.
    """
    per_image = np.bincount(dataset.boxes.image, minlength=len(dataset.images))
    # All images with boxes weigh the same, and come before those without.
    shown = _choose_images(dataset, np.minimum(per_image, 1).astype(np.int64), images)
    data = _make_data(dataset, shown, log, sources, title) | {"statistics": dict(statistics)}
    return shown.make_page("statistics", data, pictures)


def _choose_images(dataset: Dataset, weight: Longs, images: int) -> ShownImages:
    """Choose at most `images` images of a dataset: those of the highest `weight` (images,), and some that
    show every class and every kind of content.
    """
    boxes = dataset.boxes
    # A cell for each class: the least crowded images show it best.
    per_image = np.bincount(boxes.image, minlength=len(dataset.images))
    order = np.argsort(per_image[boxes.image], kind="stable")
    cells = group_by_cell(boxes.category[order].tolist(), boxes.image[order].tolist())
    # And one for each kind of content, with its first images: 12, as `group_by_cell` keeps.
    kinds: dict[Hashable, list[int]] = {
        key: np.flatnonzero(mask)[:12].tolist() for key, mask in _find_kinds(dataset).items()
    }
    return ShownImages(len(dataset.images), weight, [cells, kinds], images)


def _find_kinds(dataset: Dataset) -> dict[tuple[str, str], NDArray[np.bool_]]:
    """Return (images,) masks by kind of content: ("flag", "crowd"), ("split", "train"), ("shapes", "")."""
    boxes, n = dataset.boxes, len(dataset.images)

    def has_any(is_box: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(images,) whether an image has one of the boxes under a mask."""
        has_box = np.zeros(n, np.bool_)
        has_box[boxes.image[is_box]] = True
        return has_box

    has_boxes = has_any(np.ones(len(boxes), np.bool_))
    masks: dict[tuple[str, str], NDArray[np.bool_]] = {("boxes", ""): has_boxes, ("empty", ""): ~has_boxes}
    for flag, name in zip(Flag, FLAG_NAMES, strict=True):
        masks["flag", name] = has_any(boxes.has(flag))
    if boxes.shapes is not None:
        masks["shapes", ""] = has_any(boxes.shapes.kind > 0)  # 0: none
    if boxes.keypoints is not None:
        masks["keypoints", ""] = has_any(boxes.keypoints.counts() > 0)
    splits = np.array(dataset.images.split, object)
    for name in dict.fromkeys(filter(None, dataset.images.split)):
        masks["split", name] = splits == name
    return {key: mask for key, mask in masks.items() if mask.any()}


def _make_data(
    dataset: Dataset, shown: ShownImages, log: Log | None, sources: Sequence[str], title: str
) -> dict[str, Any]:
    """Return the data that the pages of one dataset share."""
    boxes, n_classes, n_images = dataset.boxes, len(dataset.categories), max(len(dataset.images), 1)
    is_object = ~boxes.has(Flag.REGION)  # not so a region to ignore
    per_class = np.bincount(boxes.category[is_object], minlength=n_classes).tolist()
    # One key for each class and each image that has a box of it: class * images + image.
    class_image_keys = np.unique((boxes.category.astype(np.int64) * n_images + boxes.image)[is_object])
    images_per_class = np.bincount(class_image_keys // n_images, minlength=n_classes).tolist()
    classes = zip(dataset.categories.name, per_class, images_per_class, strict=True)
    scores = boxes.score[np.isfinite(boxes.score)] if dataset.kind == "det" else np.zeros(0)
    return {
        **collect_messages(log or Log(), sources),
        "title": title or words.join_names([*map(shorten_path, sources)]) or words.name_text("title.dataset"),
        "side": dataset.kind,
        "imageCount": len(dataset.images),
        "boxCount": int(np.count_nonzero(is_object)),
        "kinds": [
            {"key": key, "name": name, "n": int(np.count_nonzero(mask)), "shown": mask[shown.images].tolist()}
            for (key, name), mask in _find_kinds(dataset).items()
        ],
        "classes": [{"name": name, "boxes": b, "images": i} for name, b, i in classes],
        "levels": choose_score_levels(scores).tolist() if len(scores) else [],
        "skeletons": collect_skeletons(dataset),
        "boxes": make_box_columns(dataset, shown.place_boxes(boxes.image, boxes.xyxy)),
    }


def make_box_columns(dataset: Dataset, image: NDArray[Any]) -> dict[str, Any]:
    """Return the boxes on the page as columns; `image` (n,) is the number of their image there, -1 = none."""
    boxes = dataset.boxes
    box_rows = np.flatnonzero(image >= 0)
    return {
        "image": image[box_rows].tolist(),
        "class": boxes.category[box_rows].tolist(),
        "row": box_rows.tolist(),
        "score": round_numbers(boxes.score[box_rows], 4) if dataset.kind == "det" else [],
        "flags": boxes.flags[box_rows].tolist(),
        "flagNames": FLAG_NAMES,
        "box": [round_numbers(column, 1) for column in boxes.xyxy[box_rows].T],
        **make_shape_columns((boxes, box_rows)),
    }
