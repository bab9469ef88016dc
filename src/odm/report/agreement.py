"""The report of two annotators: how far they agree, and the boxes of both on the images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.analysis.agree import Agreement
from odm.evaluate.results import to_plain
from odm.issues import Log, UsageError
from odm.names import shorten_paths
from odm.report.build import Page
from odm.report.columns import IMAGES, ShownImages, collect_messages, group_by_cell, round_numbers
from odm.report.pictures import Picture
from odm.report.shapes import collect_skeletons, make_shape_columns
from odm.report.words import name_text
from odm.tables import rows_without

ONLY_B, ONLY_A, OTHER_CLASS = 1, 2, 8
"""How the annotators differ about a box, as bits that the script tests; 0 = they agree."""
KINDS = {"agreed": "OT", "only-a": "FP", "only-b": "TP", "other-class": "FN"}
"""The style in which boxes of each outcome are drawn; the first annotator's box of a pair is ``GT``."""


def agreement_page(
    agreement: Agreement,
    pictures: Sequence[Picture],
    *,
    log: Log | None = None,
    sources: Sequence[str] = (),
    title: str = "",
    images: int = IMAGES,
) -> Page:
    """Make the page of two annotators, with the boxes of both on each picture.

    Parameters
    ----------
    agreement
        What `odm.agree` returned.
    pictures
        One for each image of the first annotator.
    log
        Its notes and warnings are shown.
    sources
        The paths of both; the last parts that tell them apart are shown.
    images
        How many images are shown: those with most disagreements, and some of every class.

    Raises
    ------
    UsageError
        If `images` is below 1, or the agreement was made of arrays.
    """
    if not agreement.sides:
        raise UsageError("an agreement computed from arrays has no page: give datasets")
    # rows_of: for each annotator, the rows in its dataset
    image, category, xyxy, kind, first_class, change, iou, *rows_of = _collect_boxes(agreement)
    datasets = [dataset for dataset, _ in agreement.sides]
    used_images, position_of_image = np.unique(image, return_inverse=True)
    is_disagreement = (change > 0) & (kind != "GT")
    n_disagreements = np.bincount(position_of_image[is_disagreement], minlength=len(used_images))
    disagreement_rows = np.flatnonzero(is_disagreement)
    cells = group_by_cell(
        zip(change[disagreement_rows].tolist(), category[disagreement_rows].tolist(), strict=True),
        position_of_image[disagreement_rows].tolist(),
    )
    shown = ShownImages(len(used_images), n_disagreements, [cells], images)
    page_number = shown.place_boxes(position_of_image, xyxy)
    on_page = np.flatnonzero(page_number >= 0)
    names = shorten_paths(sources) if len(sources) == 2 else ["A", "B"]
    contract = agreement.to_dict()
    data: dict[str, Any] = {
        **collect_messages(log or Log(), sources),
        "title": title or name_text("title.agree", a=names[0], b=names[1]),
        "names": names,
        "numbers": {key: contract[key] for key in ("f1", "f1_location", "mean_iou", "kappa", "boxes")},
        "counts": {key: int(np.count_nonzero(kind == drawn_as)) for key, drawn_as in KINDS.items()},
        "imageCount": len(used_images),
        "classes": [{**row, "name": row["class"]} for row in contract["classes"]],
        "skeletons": collect_skeletons(*datasets),
        "confused": _list_confusions(contract["confusion"]),
        "boxes": {
            "image": page_number[on_page].tolist(),
            "kind": kind[on_page].tolist(),
            "class": category[on_page].tolist(),
            "was": first_class[on_page].tolist(),
            "change": change[on_page].tolist(),
            "iou": to_plain(iou[on_page].tolist()),
            "box": [round_numbers(column, 2) for column in xyxy[on_page].T],
            **make_shape_columns(
                *((side.boxes, rows[on_page]) for side, rows in zip(datasets, rows_of, strict=True))
            ),
        },
    }
    return shown.make_page("agree", data, [pictures[i] for i in used_images.tolist()])


def _collect_boxes(agreement: Agreement) -> tuple[NDArray[Any], ...]:
    """Return the columns of the boxes to draw, one entry per box:

    image, class, and (n, 4) corners; the style of the page (``GT``, ``FN``, ...); the first annotator's class
    if it differs, else -1; the change (`OTHER_CLASS`, `ONLY_A`, ...); the IoU of the pair; and the row in the
    first and in the other dataset, -1 in the one that the box is not from.
    """
    (_, a), (_, b) = agreement.sides
    unpaired_rows = rows_without(len(a), agreement.first), rows_without(len(b), agreement.other)
    first_of_pairs, second_of_pairs = a.take(agreement.first), b.take(agreement.other)
    has_other_class = first_of_pairs.category != second_of_pairs.category
    # Each group: boxes, their style, the first annotator's class if it differs, and the bits of the change.
    groups: list[tuple[Any, ...]] = [
        (
            second_of_pairs,
            np.where(has_other_class, "FN", "OT"),
            np.where(has_other_class, first_of_pairs.category, -1),
            OTHER_CLASS * has_other_class,
        ),
        (first_of_pairs, "GT", -1, OTHER_CLASS * has_other_class),
        (a.take(unpaired_rows[0]), "FP", -1, ONLY_A),
        (b.take(unpaired_rows[1]), "TP", -1, ONLY_B),
    ]
    image, category, xyxy = (
        np.concatenate([getattr(group[0], name) for group in groups])
        for name in ("image", "category", "xyxy")
    )
    kind, first_class, change = (
        np.concatenate([np.broadcast_to(group[i], len(group[0])) for group in groups]) for i in (1, 2, 3)
    )
    iou = np.concatenate([agreement.iou, agreement.iou, np.full(sum(map(len, unpaired_rows)), np.nan)])
    is_of_a = np.repeat([False, True, True, False], [len(rows) for rows, *_ in groups])
    dataset_row = np.concatenate([rows.row for rows, *_ in groups])
    return (
        image,
        category,
        xyxy,
        kind,
        first_class,
        change,
        iou,
        np.where(is_of_a, dataset_row, -1),
        np.where(is_of_a, -1, dataset_row),
    )


def _list_confusions(pairs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the pairs of different classes for one object, the most frequent first."""
    confused = [p for p in pairs if None not in (p["first"], p["other"]) and p["first"] != p["other"]]
    return [
        {"old": p["first"], "new": p["other"], "count": p["count"]}
        for p in sorted(confused, key=lambda p: -p["count"])
    ]
