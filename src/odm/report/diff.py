"""The report of two versions of annotations: what changed by class, and old and new boxes on the images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    names, image, change = differences.names, differences.image, differences.change  # change: 0 = unchanged
    n_changes = np.bincount(image[change > 0], minlength=len(names))
    n_unchanged = int(np.count_nonzero(change == 0))

    # The rows of the table of classes, with the number of changed boxes.
    by_class = differences.class_rows()
    class_in_old, class_in_new = _number_classes(differences, [row["class"] for row in by_class])
    # A relabelled box counts for its old class, as in `class_rows`.
    old_class = np.where(class_in_old >= 0, class_in_old, class_in_new)
    # Of images that are in both versions; a box that moved and has another shape counts once.
    n_changed = np.bincount(old_class[(change & sum(OF_BOTH)) > 0], minlength=len(by_class)).tolist()
    classes = [
        {**row, "name": row["class"], "changed": n} for row, n in zip(by_class, n_changed, strict=True)
    ]

    # The images to show: those with most changes, in all and of each class and kind of change.
    new_class = np.where(class_in_new >= 0, class_in_new, class_in_old)
    rows = np.flatnonzero(change)
    rows = rows[np.argsort(-n_changes[image[rows]], kind="stable")]
    keys = zip(change[rows].tolist(), new_class[rows].tolist(), strict=True)
    cells = group_by_cell(keys, image[rows].tolist())
    shown = ShownImages(len(names), n_changes, [cells], images)
    change_of_image = {row["image"]: row["change"] for row in differences.image_rows()}
    old, new = shorten_paths(sources) if len(sources) == 2 else ("old", "new")
    data = {
        **collect_messages(log or Log(), sources),
        "title": title or name_text("title.diff", old=old, new=new),
        "old": {"images": len(differences.old.images), "boxes": len(differences.old)},
        "new": {"images": len(differences.new.images), "boxes": len(differences.new)},
        "counts": {"unchanged": n_unchanged, **{WORDS[c]: differences.count(c) for c in Change}},
        "boxCounts": {"changed": len(change) - n_unchanged, "unchanged": n_unchanged},
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
        "boxes": _make_box_columns(differences, shown, (class_in_old, class_in_new)),
    }
    return shown.make_page("diff", data, pictures)


def _number_classes(differences: Differences, class_names: Sequence[str]) -> list[Longs]:
    """Return for the old and the new version (n,) the position of the class of each change in `class_names`.

    -1 = the box is not in this version: its row -1 selects the -1 appended to the categories, which selects
    the -1 appended to the numbers.
    """
    number_of_name = {name: i for i, name in enumerate(class_names)}
    class_of_change = []
    for dataset, rows in ((differences.old, differences.first), (differences.new, differences.other)):
        numbers = [number_of_name[name] for name in dataset.categories.name]
        number_of_category = np.array([*numbers, -1], np.int64)
        class_of_change.append(number_of_category[np.append(dataset.boxes.category, -1)[rows]])
    return class_of_change


def _find_old_name(differences: Differences, image: int) -> str:
    """Return the old name of an image that was renamed, else nothing."""
    # Images that were removed stand after those of the new version, for which alone `renamed` is known.
    if image >= len(differences.renamed) or not differences.renamed[image]:
        return ""
    return str(differences.old.images.name[differences.partner[image]])


def _make_box_columns(
    differences: Differences, shown: ShownImages, class_of_change: tuple[Longs, Longs]
) -> dict[str, Any]:
    """Return the boxes of the images that are shown as columns.

    `class_of_change` has the class of each change in the old and in the new version, -1 = not in it. A box
    that moved or changed its shape is there twice, first as it is and once more where it was.
    """
    # Rows are -1 where a box is not in a version; a last row of zeros stands for it.
    old, new = (
        np.append(version.boxes.xyxy, np.zeros((1, 4)), axis=0)[rows]
        for version, rows in ((differences.old, differences.first), (differences.new, differences.other))
    )
    is_in_new = differences.other >= 0

    # The boxes to draw: all changes, then the old places of those that moved; of these the ones on the page.
    moved_rows = np.flatnonzero(differences.change & (Change.MOVED | Change.SHAPE))
    change_row = np.append(np.arange(len(is_in_new)), moved_rows)
    is_old_place = np.arange(len(change_row)) >= len(is_in_new)
    is_new = is_in_new[change_row] & ~is_old_place
    xyxy = np.where(is_new[:, None], new[change_row], old[change_row])
    page_number = shown.place_boxes(differences.image[change_row], xyxy)
    is_on_page = page_number >= 0
    change_row, is_old_place, is_new = change_row[is_on_page], is_old_place[is_on_page], is_new[is_on_page]
    page_number, xyxy = page_number[is_on_page], xyxy[is_on_page]

    # The columns that take the box as it is in the new version, or in the old one.
    change_bits = differences.change[change_row]
    is_relabelled = ((change_bits & Change.RELABELLED) > 0) & ~is_old_place
    class_in_old, class_in_new = class_of_change
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
        "kind": _choose_styles(change_bits, is_old_place).tolist(),
        "class": shown_class.tolist(),
        "was": np.where(is_relabelled, class_in_old[change_row], -1).tolist(),
        "change": change_bits.tolist(),
        "shift": [f"{pixels:.3g}" if pixels else "" for pixels in shift.tolist()],
        "flags": [
            _word_flags(flags_in_old, flags_in_new, change=bits)
            for (flags_in_old, flags_in_new), bits in zip(flag_pairs, change_bits.tolist(), strict=True)
        ],
        "box": [round_numbers(column, 2) for column in xyxy.T],
        **make_shape_columns(
            (differences.old.boxes, np.where(is_new, -1, differences.first[change_row])),
            (differences.new.boxes, np.where(is_new, differences.other[change_row], -1)),
        ),
    }


def _choose_styles(change_bits: NDArray[np.uint8], is_old_place: NDArray[np.bool_]) -> NDArray[np.str_]:
    """Return (n,) the style in which each box is drawn, one of those that all pages have.

    Added boxes are drawn as found (``TP``), removed as false (``FP``), changed as missed (``FN``, dashed),
    where a box was as truth (``GT``, dotted), and unchanged ones thin (``OT``).
    """
    style = np.where(change_bits == 0, "OT", "FN")
    style[(change_bits & (Change.ADDED | Change.IMAGE_ADDED)) > 0] = "TP"
    style[(change_bits & (Change.REMOVED | Change.IMAGE_REMOVED)) > 0] = "FP"
    style[is_old_place] = "GT"
    return style


def _word_flags(old: int, new: int, *, change: int) -> str:
    """Return the flags of a box in words, as "old → new" if they changed by the bits of its `change`."""
    if change & Change.FLAGS:
        return f"{flag_words(old) or '-'} → {flag_words(new) or '-'}"
    return flag_words(old | new)
