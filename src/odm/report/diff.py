"""The report of two versions of annotations: what changed by class, and old and new boxes on the images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from odm.evaluate.analysis.diff import OF_BOTH, WORDS, Change, Differences, flag_words
from odm.issues import Log
from odm.names import shorten_paths
from odm.report.build import Page
from odm.report.columns import IMAGES, ShownImages, collect_messages, group_by_cell, round_numbers
from odm.report.pictures import Picture
from odm.report.shapes import collect_skeletons, make_shape_columns
from odm.report.words import name_text
from odm.tables import Longs


def diff_page(
    differences: Differences,
    pictures: Sequence[Picture],
    *,
    log: Log | None = None,
    sources: Sequence[str] = (),
    title: str = "",
    images: int = IMAGES,
) -> Page:
    """Make the page of two versions of annotations, both drawn on one picture.

    Parameters
    ----------
    differences
        What `odm.evaluate.analysis.diff.diff` returned.
    pictures
        One for each of its `names`.
    log
        Its notes and warnings are shown.
    sources
        The paths of the old and the new version; the last parts that tell them apart are shown.
    images
        How many images are shown: those with most changes, and some of every class and kind of change.

    Raises
    ------
    UsageError
        If `images` is below 1.
    """
    names, image, change = differences.names, differences.image, differences.change
    n_changes = np.bincount(image[change > 0], minlength=len(names))
    by_class = differences.class_rows()
    class_number = {row["class"]: i for i, row in enumerate(by_class)}
    # For the old and the new version, (n,) the row in `by_class`, -1 = not in this version: the row -1 of
    # such a box selects the -1 appended to its categories, which selects the -1 appended to the numbers.
    class_of_box = []
    for dataset, rows in ((differences.old, differences.first), (differences.new, differences.other)):
        number_of_category = np.array([*map(class_number.__getitem__, dataset.categories.name), -1], np.int64)
        class_of_box.append(number_of_category[np.append(dataset.boxes.category, -1)[rows]])
    class_in_old, class_in_new = class_of_box
    shown_category = np.where(class_in_new >= 0, class_in_new, class_in_old)
    old_class = np.where(class_in_old >= 0, class_in_old, class_in_new)
    # A box that moved and has another shape is one box.
    n_changed = np.bincount(old_class[(change & sum(OF_BOTH)) > 0], minlength=len(by_class)).tolist()
    classes = [
        {**row, "name": row["class"], "changed": n} for row, n in zip(by_class, n_changed, strict=True)
    ]
    rows = np.flatnonzero(change)
    rows = rows[np.argsort(-n_changes[image[rows]], kind="stable")]
    cells = group_by_cell(
        zip(change[rows].tolist(), shown_category[rows].tolist(), strict=True), image[rows].tolist()
    )
    shown = ShownImages(len(names), n_changes, [cells], images)
    change_of_image = {row["image"]: row["change"] for row in differences.image_rows()}
    old, new = shorten_paths(sources) if len(sources) == 2 else ("old", "new")
    data = {
        **collect_messages(log or Log(), sources),
        "title": title or name_text("title.diff", old=old, new=new),
        "old": {"images": len(differences.old.images), "boxes": len(differences.old)},
        "new": {"images": len(differences.new.images), "boxes": len(differences.new)},
        "counts": {
            "unchanged": int(np.count_nonzero(change == 0)),
            **{WORDS[c]: differences.count(c) for c in Change},
        },
        "boxCounts": {
            "changed": int(np.count_nonzero(change)),
            "unchanged": int(np.count_nonzero(change == 0)),
        },
        "imageCount": len(names),
        "imageCounts": {
            "added": len(differences.added),
            "removed": len(differences.removed),
            "renamed": int(np.count_nonzero(differences.renamed)),
            "resized": len(differences.resized),
            "changed": int(np.count_nonzero(n_changes)),
        },
        "classes": classes,
        "skeletons": collect_skeletons(differences.old, differences.new),
        "relabelled": differences.count_relabelled(),
        "imageChanges": [change_of_image.get(names[i], "") for i in shown.images],
        "oldNames": [_find_old_name(differences, i) for i in shown.images],
        "boxes": _make_box_columns(differences, shown, class_of_box),
    }
    return shown.make_page("diff", data, pictures)


def _find_old_name(differences: Differences, image: int) -> str:
    """Return the old name of an image that was renamed, else nothing."""
    if image >= len(differences.renamed) or not differences.renamed[image]:
        return ""
    return str(differences.old.images.name[differences.partner[image]])


def _make_box_columns(
    differences: Differences, shown: ShownImages, class_of_box: Sequence[Longs]
) -> dict[str, Any]:
    """Return the boxes of the images that are shown as columns.

    `class_of_box` has the class of each change in the old and in the new version, -1 = not in it. A box that
    moved or changed its shape is there twice, first as it is and once more where it was.

    Boxes are drawn in the styles that all pages have: added as found, removed as false, changed as missed
    (dashed), where it was as truth (dotted), and unchanged ones thin.
    """
    # Rows are -1 where a box is not in a version; a last row of zeros stands for it.
    old, new = (
        np.append(version.boxes.xyxy, np.zeros((1, 4)), axis=0)[rows]
        for version, rows in ((differences.old, differences.first), (differences.new, differences.other))
    )
    in_new = differences.other >= 0
    moved_rows = np.flatnonzero(differences.change & (Change.MOVED | Change.SHAPE))
    change_row = np.append(np.arange(len(in_new)), moved_rows)
    is_old_place = np.arange(len(change_row)) >= len(in_new)
    is_new = in_new[change_row] & ~is_old_place
    xyxy = np.where(is_new[:, None], new[change_row], old[change_row])
    page_number = shown.place_boxes(differences.image[change_row], xyxy)
    on_page = page_number >= 0
    change_row, is_old_place, is_new, page_number, xyxy = (
        change_row[on_page],
        is_old_place[on_page],
        is_new[on_page],
        page_number[on_page],
        xyxy[on_page],
    )
    change_bits = differences.change[change_row]
    kind = np.where(change_bits == 0, "OT", "FN")
    kind[(change_bits & (Change.ADDED | Change.IMAGE_ADDED)) > 0] = "TP"
    kind[(change_bits & (Change.REMOVED | Change.IMAGE_REMOVED)) > 0] = "FP"
    kind[is_old_place] = "GT"
    is_relabelled = ((change_bits & Change.RELABELLED) > 0) & ~is_old_place
    class_in_old, class_in_new = class_of_box
    shown_class = np.where(is_new, class_in_new[change_row], class_in_old[change_row])
    old_flags, new_flags = (np.append(side.boxes.flags, 0) for side in (differences.old, differences.new))
    shift = np.where(change_bits & Change.MOVED, differences.shift[change_row], 0)
    flag_pairs = zip(
        old_flags[differences.first[change_row]].tolist(),
        new_flags[differences.other[change_row]].tolist(),
        strict=True,
    )
    return {
        "image": page_number.tolist(),
        "kind": kind.tolist(),
        "class": shown_class.tolist(),
        "was": np.where(is_relabelled, class_in_old[change_row], -1).tolist(),
        "change": change_bits.tolist(),
        "shift": [f"{pixels:.3g}" if pixels else "" for pixels in shift.tolist()],
        "flags": [
            _word_flags(*pair, changed=bit)
            for pair, bit in zip(flag_pairs, change_bits.tolist(), strict=True)
        ],
        "box": [round_numbers(column, 2) for column in xyxy.T],
        **make_shape_columns(
            (differences.old.boxes, np.where(is_new, -1, differences.first[change_row])),
            (differences.new.boxes, np.where(is_new, differences.other[change_row], -1)),
        ),
    }


def _word_flags(old: int, new: int, *, changed: int) -> str:
    """Return the flags of a box in words, as "old → new" if they changed."""
    if changed & Change.FLAGS:
        return f"{flag_words(old) or '-'} → {flag_words(new) or '-'}"
    return flag_words(old | new)
