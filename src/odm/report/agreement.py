"""The report of two annotators: how far they agree, and the boxes of both on the images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
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
from odm.tables import Dataset, Floats, Ints, rows_without

ONLY_B, ONLY_A, OTHER_CLASS = 1, 2, 8
"""How the annotators differ about a box, as bits that the script tests; 0 = they agree."""
KINDS = {"agreed": "OT", "only-a": "FP", "only-b": "TP", "other-class": "FN"}
"""The style in which boxes of each outcome are drawn; the first annotator's box of a pair is ``GT``."""


class _DrawnBoxes(msgspec.Struct, frozen=True, eq=False):
    """The boxes of both annotators as columns of one length, (n,) except `xyxy`."""

    image: NDArray[Any]
    category: NDArray[Any]
    xyxy: Floats
    """(n, 4) corners in pixels."""
    kind: NDArray[np.str_]
    """The style of the page: ``GT``, or a value of `KINDS`."""
    first_class: NDArray[Any]
    """The first annotator's class if it differs from that of the box, else -1."""
    change: NDArray[Any]
    """`OTHER_CLASS`, `ONLY_A`, `ONLY_B`, or 0."""
    iou: Floats
    """That of the pair; NaN without one."""
    row_a: NDArray[Any]
    """The row in the first dataset, -1 = the box is of the other one."""
    row_b: NDArray[Any]
    """The row in the other dataset, -1 = the box is of the first one."""


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
    boxes = _collect_boxes(agreement)
    # The images with boxes, and for each box the position of its image among them.
    used_images, image_of_box = np.unique(boxes.image, return_inverse=True)
    # A pair is counted once, by the box of the second annotator.
    rows = np.flatnonzero((boxes.change > 0) & (boxes.kind != "GT"))
    n_disagreements = np.bincount(image_of_box[rows], minlength=len(used_images))
    keys = zip(boxes.change[rows].tolist(), boxes.category[rows].tolist(), strict=True)
    cells = group_by_cell(keys, image_of_box[rows].tolist())
    shown = ShownImages(len(used_images), n_disagreements, [cells], images)
    (dataset_a, _), (dataset_b, _) = agreement.sides
    names = shorten_paths(sources) if len(sources) == 2 else ["A", "B"]
    contract = agreement.to_dict()
    data: dict[str, Any] = {
        **collect_messages(log or Log(), sources),
        "title": title or name_text("title.agree", a=names[0], b=names[1]),
        "names": names,
        "numbers": {key: contract[key] for key in ("f1", "f1_location", "mean_iou", "kappa", "boxes")},
        "counts": {key: int(np.count_nonzero(boxes.kind == drawn_as)) for key, drawn_as in KINDS.items()},
        "imageCount": len(used_images),
        "classes": [{**row, "name": row["class"]} for row in contract["classes"]],
        "skeletons": collect_skeletons(dataset_a, dataset_b),
        "confused": _list_confusions(contract["confusion"]),
        "boxes": _make_box_columns(boxes, shown.place_boxes(image_of_box, boxes.xyxy), dataset_a, dataset_b),
    }
    return shown.make_page("agree", data, [pictures[i] for i in used_images.tolist()])


def _make_box_columns(
    boxes: _DrawnBoxes, page_number: Ints, dataset_a: Dataset, dataset_b: Dataset
) -> dict[str, Any]:
    """Return the boxes of the images that are shown; `page_number` (n,) is that of their image, -1 = none."""
    shown_rows = np.flatnonzero(page_number >= 0)
    return {
        "image": page_number[shown_rows].tolist(),
        "kind": boxes.kind[shown_rows].tolist(),
        "class": boxes.category[shown_rows].tolist(),
        "was": boxes.first_class[shown_rows].tolist(),
        "change": boxes.change[shown_rows].tolist(),
        "iou": to_plain(boxes.iou[shown_rows].tolist()),
        "box": [round_numbers(column, 2) for column in boxes.xyxy[shown_rows].T],
        **make_shape_columns(
            (dataset_a.boxes, boxes.row_a[shown_rows]), (dataset_b.boxes, boxes.row_b[shown_rows])
        ),
    }


def _collect_boxes(agreement: Agreement) -> _DrawnBoxes:
    """Return the boxes to draw: those of the second annotator in pairs, the first annotator's in the same
    order, then those of each annotator without a partner.
    """
    (_, a), (_, b) = agreement.sides
    first_of_pairs, second_of_pairs = a.take(agreement.first), b.take(agreement.other)
    has_other_class = first_of_pairs.category != second_of_pairs.category
    pair_change = OTHER_CLASS * has_other_class  # 0: the same class
    other_class = np.where(has_other_class, first_of_pairs.category, -1)
    only_a = a.take(rows_without(len(a), agreement.first))
    only_b = b.take(rows_without(len(b), agreement.other))

    # Each column has a part for each of these groups, in this order.
    groups = (second_of_pairs, first_of_pairs, only_a, only_b)
    lengths = [len(group) for group in groups]
    is_of_a = np.repeat([False, True, True, False], lengths)
    dataset_row = np.concatenate([group.row for group in groups])
    pair_kind = np.where(has_other_class, "FN", "OT")  # styles of `KINDS`: another class, agreed
    n_unpaired = len(only_a) + len(only_b)
    return _DrawnBoxes(
        image=np.concatenate([group.image for group in groups]),
        category=np.concatenate([group.category for group in groups]),
        xyxy=np.concatenate([group.xyxy for group in groups]),
        # After the first group, whose style depends on the pair, one style for each group.
        kind=np.concatenate([pair_kind, np.repeat(["GT", "FP", "TP"], lengths[1:])]),
        first_class=np.concatenate([other_class, np.full(len(dataset_row) - len(other_class), -1)]),
        change=np.concatenate([pair_change, pair_change, np.repeat([ONLY_A, ONLY_B], lengths[2:])]),
        iou=np.concatenate([agreement.iou, agreement.iou, np.full(n_unpaired, np.nan)]),
        row_a=np.where(is_of_a, dataset_row, -1),
        row_b=np.where(is_of_a, -1, dataset_row),
    )


def _list_confusions(pairs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the pairs of different classes for one object, the most frequent first."""
    confused = [p for p in pairs if None not in (p["first"], p["other"]) and p["first"] != p["other"]]
    return [
        {"old": p["first"], "new": p["other"], "count": p["count"]}
        for p in sorted(confused, key=lambda p: -p["count"])
    ]
