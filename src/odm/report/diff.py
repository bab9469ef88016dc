"""The report of two versions of annotations: what changed by class, and old and new boxes on the images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from odm.evaluate.analysis.diff import OF_BOTH, WORDS, Change, Differences, flag_words
from odm.issues import Log
from odm.names import distinct_parts
from odm.report.build import Page
from odm.report.columns import IMAGES, ShownImages, by_cell, reading, rounded
from odm.report.pictures import Picture
from odm.report.shapes import shape_columns, skeletons
from odm.report.words import said
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
    weight = np.bincount(image[change > 0], minlength=len(names))
    by_class = differences.class_rows()
    number = {row["class"]: i for i, row in enumerate(by_class)}
    category = []
    for dataset, rows in ((differences.old, differences.first), (differences.new, differences.other)):
        table = np.array([*map(number.__getitem__, dataset.categories.name), -1], np.int64)
        category.append(table[np.append(dataset.boxes.category, -1)[rows]])
    shown_category = np.where(category[1] >= 0, category[1], category[0])
    old_class = np.where(category[0] >= 0, category[0], category[1])
    # A box that moved and has another shape is one box.
    changed = np.bincount(old_class[(change & sum(OF_BOTH)) > 0], minlength=len(by_class)).tolist()
    classes = [{**row, "name": row["class"], "changed": n} for row, n in zip(by_class, changed, strict=True)]
    rows = np.flatnonzero(change)
    rows = rows[np.argsort(-weight[image[rows]], kind="stable")]
    cells = by_cell(
        zip(change[rows].tolist(), shown_category[rows].tolist(), strict=True), image[rows].tolist()
    )
    shown = ShownImages(len(names), weight, [cells], images)
    what = {row["image"]: row["change"] for row in differences.image_rows()}
    old, new = distinct_parts(sources) if len(sources) == 2 else ("old", "new")
    data = {
        **reading(log or Log(), sources),
        "title": title or said("title.diff", old=old, new=new),
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
            "changed": int(np.count_nonzero(weight)),
        },
        "classes": classes,
        "skeletons": skeletons(differences.old, differences.new),
        "relabelled": differences.relabelled(),
        "imageChanges": [what.get(names[i], "") for i in shown.images],
        "oldNames": [_old_name(differences, i) for i in shown.images],
        "boxes": _boxes(differences, shown, category),
    }
    return shown.page("diff", data, pictures)


def _old_name(differences: Differences, image: int) -> str:
    """The name that a renamed image had."""
    if image >= len(differences.renamed) or not differences.renamed[image]:
        return ""
    return str(differences.old.images.name[differences.partner[image]])


def _boxes(differences: Differences, shown: ShownImages, category: Sequence[Longs]) -> dict[str, Any]:
    """Return the boxes of the images that are shown as columns.

    A box that moved or changed its shape is there twice.

    They are drawn in the styles that all pages have: added as found, removed as false, changed as missed
    (dashed), where it was as truth (dotted), and unchanged ones thin.
    """
    old, new = (
        np.append(version.boxes.xyxy, np.zeros((1, 4)), axis=0)[rows]
        for version, rows in ((differences.old, differences.first), (differences.new, differences.other))
    )
    present = differences.other >= 0
    moved = np.flatnonzero(differences.change & (Change.MOVED | Change.SHAPE))
    row = np.append(np.arange(len(present)), moved)
    before = np.arange(len(row)) >= len(present)
    is_new = present[row] & ~before
    xyxy = np.where(is_new[:, None], new[row], old[row])
    at = shown.boxes(differences.image[row], xyxy)
    on_page = at >= 0
    row, before, is_new, at, xyxy = row[on_page], before[on_page], is_new[on_page], at[on_page], xyxy[on_page]
    bits = differences.change[row]
    kind = np.where(bits == 0, "OT", "FN")
    kind[(bits & (Change.ADDED | Change.IMAGE_ADDED)) > 0] = "TP"
    kind[(bits & (Change.REMOVED | Change.IMAGE_REMOVED)) > 0] = "FP"
    kind[before] = "GT"
    relabelled = ((bits & Change.RELABELLED) > 0) & ~before
    version = np.where(is_new, category[1][row], category[0][row])
    flags = [np.append(side.boxes.flags, 0) for side in (differences.old, differences.new)]
    shift = np.where(bits & Change.MOVED, differences.shift[row], 0)
    changes = zip(
        flags[0][differences.first[row]].tolist(), flags[1][differences.other[row]].tolist(), strict=True
    )
    return {
        "image": at.tolist(),
        "kind": kind.tolist(),
        "class": version.tolist(),
        "was": np.where(relabelled, category[0][row], -1).tolist(),
        "change": bits.tolist(),
        "shift": [f"{pixels:.3g}" if pixels else "" for pixels in shift.tolist()],
        "flags": [_flags(*pair, changed=bit) for pair, bit in zip(changes, bits.tolist(), strict=True)],
        "box": [rounded(column, 2) for column in xyxy.T],
        **shape_columns(
            (differences.old.boxes, np.where(is_new, -1, differences.first[row])),
            (differences.new.boxes, np.where(is_new, differences.other[row], -1)),
        ),
    }


def _flags(old: int, new: int, *, changed: int) -> str:
    """The flags of a box, and its old flags if they differ."""
    if changed & Change.FLAGS:
        return f"{flag_words(old) or '-'} → {flag_words(new) or '-'}"
    return flag_words(old | new)
