"""Compare two versions of annotations: their images, and the boxes of the images of both."""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.evaluate.analysis.agree import IOU, iou_of
from odm.evaluate.analysis.analysis_tables import AnalysisTable
from odm.evaluate.analysis.box_pairs import box_columns, flag_words
from odm.evaluate.analysis.pair_versions import (
    OF_BOTH,
    WORDS,
    Change,
    describe_change,
    pair_boxes_of,
    pair_versions,
)
from odm.evaluate.results import to_plain
from odm.issues import UsageError, spell
from odm.tables import Dataset, Floats, Longs, rows_without
from odm.views import Shown, TableMixin

__all__ = ["OF_BOTH", "TOLERANCE", "WORDS", "Change", "Differences", "diff", "flag_words"]

TOLERANCE = 1e-6
"""Pixels by which the edges of equal boxes may differ; another unit or format moves an edge by less."""


CLASS_COLUMNS = ("class", "old", "new", "unchanged", *WORDS.values())
IMAGE_COLUMNS = ("image", "old_name", "change", "old", "new", *(WORDS[change] for change in OF_BOTH))


class Differences(Shown, TableMixin, msgspec.Struct, frozen=True, eq=False):
    """What changed from an old version of annotations to a new one.

    Every box of either version is in one row: with its counterpart, or alone.
    """

    old: Dataset
    new: Dataset
    iou_least: float
    tolerance: float
    partner: Longs
    """(new images,) the row of the same image in the old version, -1 = none."""
    renamed: NDArray[np.bool_]
    """(new images,) whether that is a guess: the names differ, and the boxes are the same."""
    first: Longs
    """(n,) the row of the old box, -1 = none."""
    other: Longs
    """(n,) the row of the new box, -1 = none."""
    change: NDArray[np.uint8]
    """(n,) bits of `Change`, 0 = unchanged."""

    def __repr__(self) -> str:
        return f"<Differences: {self.verdict}>"

    # ------------------------------------------------------------------------------------------ images

    @property
    def names(self) -> tuple[str, ...]:
        """The images of either version: those of the new one, then those that only the old one has."""
        return (*self.new.images.name, *(self.old.images.name[i] for i in self.removed.tolist()))

    @property
    def added(self) -> Longs:
        """Rows of the images that only the new version has."""
        return np.flatnonzero(self.partner < 0)

    @property
    def removed(self) -> Longs:
        """Rows of the images that only the old version has."""
        return rows_without(len(self.old.images), self.partner[self.partner >= 0])

    @property
    def resized(self) -> Longs:
        """Rows, in the new version, of the images whose size is known to differ."""
        old, new = self.old.images, self.new.images
        # A new image without an old one, partner -1, reads the size 0 x 0 at the end, which is unknown.
        old_sizes = np.append(np.stack([old.width, old.height], axis=1), [[0, 0]], axis=0)[self.partner]
        new_sizes = np.stack([new.width, new.height], axis=1)
        is_known = (old_sizes > 0).all(axis=1) & (new_sizes > 0).all(axis=1)
        return np.flatnonzero(is_known & (old_sizes != new_sizes).any(axis=1))

    @property
    def image(self) -> Longs:
        """(n,) the position in `names` of the image of each row."""
        # Of each old image its position in `names`. An index of -1, for no box, reads the -1 at the end.
        image_of_old = np.full(len(self.old.images) + 1, -1, np.int64)
        is_paired = self.partner >= 0
        image_of_old[self.partner[is_paired]] = np.flatnonzero(is_paired)
        image_of_old[self.removed] = np.arange(len(self.removed)) + len(self.new.images)
        of_old = image_of_old[np.append(self.old.boxes.image, -1)[self.first]]
        return np.where(self.other >= 0, np.append(self.new.boxes.image, -1)[self.other], of_old)

    def image_rows(self) -> list[dict[str, Any]]:
        """Return a row of `IMAGE_COLUMNS` for each image that changed, those with most changes first."""
        names, image = self.names, self.image
        n_images = len(names)
        counts = {c: np.bincount(image[(self.change & c) > 0], minlength=n_images) for c in OF_BOTH}
        n_old, n_new = (
            np.bincount(image[rows >= 0], minlength=n_images) for rows in (self.first, self.other)
        )
        n_changed_boxes = np.bincount(image[self.change > 0], minlength=n_images)
        word_of_image = self._describe_images()
        old_row_of_image = [*self.partner.tolist(), *self.removed.tolist()]
        changed = np.flatnonzero((n_changed_boxes > 0) | np.array(list(map(bool, word_of_image)), np.bool_))
        # An image that is whole gone or new says nothing of its boxes, so it comes after those with changes.
        is_unpaired = np.array([word in ("added", "removed") for word in word_of_image], np.bool_)
        order = changed[np.lexsort((changed, -n_changed_boxes[changed], is_unpaired[changed]))]
        return [
            {
                "image": names[i],
                "old_name": self.old.images.name[old_row_of_image[i]] if old_row_of_image[i] >= 0 else None,
                "change": word_of_image[i],
                "old": int(n_old[i]),
                "new": int(n_new[i]),
                **{WORDS[c]: int(counts[c][i]) for c in OF_BOTH},
            }
            for i in order.tolist()
        ]

    def _describe_images(self) -> list[str]:
        """Return for each of `names` how the image changed as a whole, in a word; empty if it did not."""
        word_of_image = [""] * len(self.names)
        for word, rows in (  # where several hold, the last word counts
            ("resized", self.resized),
            ("renamed", np.flatnonzero(self.renamed)),
            ("added", self.added),
            ("removed", np.arange(len(self.new.images), len(word_of_image))),
        ):
            for row in rows.tolist():
                word_of_image[row] = word
        return word_of_image

    # ------------------------------------------------------------------------------------------- boxes

    @property
    def shift(self) -> Floats:
        """(n,) by how many pixels the edge moved that moved most; NaN where a box is alone."""
        shift = np.full(len(self.first), math.nan)
        is_paired = (self.first >= 0) & (self.other >= 0)
        old_rows, new_rows = self.first[is_paired], self.other[is_paired]
        old_xyxy, new_xyxy = self.old.boxes.xyxy[old_rows], self.new.boxes.xyxy[new_rows]
        shift[is_paired] = np.abs(new_xyxy - old_xyxy).max(axis=1, initial=0)
        return shift

    def count(self, change: Change) -> int:
        """Return the number of boxes with this change."""
        return int(np.count_nonzero(self.change & change))

    @property
    def change_counts(self) -> list[str]:
        """How many boxes of the images of both versions changed, in words: ``3 moved``."""
        words = {**WORDS, Change.FLAGS: "with other flags", Change.SHAPE: "with another shape"}
        return [f"{n} {words[change]}" for change in OF_BOTH if (n := self.count(change))]

    @property
    def equal(self) -> bool:
        """Whether nothing changed."""
        has_equal_rows = not (self.change.any() or self.renamed.any() or (self.partner < 0).any())
        return has_equal_rows and not len(self.removed) and not len(self.resized)

    @property
    def verdict(self) -> str:
        """The counts of all changes, in a line."""
        if self.equal:
            return "no difference"
        images = {"added": self.added, "removed": self.removed, "renamed": np.flatnonzero(self.renamed)}
        images["of another size"] = self.resized
        lists = [
            ("images", [f"{len(rows)} {word}" for word, rows in images.items() if len(rows)]),
            ("boxes of images in both", self.change_counts),
        ]
        parts = [f"{noun}: {', '.join(counts)}" for noun, counts in lists if counts]
        return f"different; {'; '.join(parts)}"

    def class_rows(self) -> list[dict[str, Any]]:
        """Return a row of `CLASS_COLUMNS` for each class; a relabelled box counts under its old class."""
        old, new = self.old.categories.name, self.new.categories.name
        names = list(dict.fromkeys([*new, *old]))
        number_of_name = {name: i for i, name in enumerate(names)}
        n_classes = len(names)
        class_of_box = []  # of the old and of the new box of each row, (n,) each; -1 where there is none
        for dataset, rows in ((self.old, self.first), (self.new, self.other)):
            number_of_category = np.array(
                [*map(number_of_name.__getitem__, dataset.categories.name), -1], np.int64
            )
            # Row -1, of no box, reads the category -1, and that the class -1: the last entry of each.
            class_of_box.append(number_of_category[np.append(dataset.boxes.category, -1)[rows]])
        old_class, new_class = class_of_box
        counted_class = np.where(old_class >= 0, old_class, new_class)
        columns = {
            "old": np.bincount(old_class[old_class >= 0], minlength=n_classes),
            "new": np.bincount(new_class[new_class >= 0], minlength=n_classes),
            "unchanged": np.bincount(counted_class[self.change == 0], minlength=n_classes),
            **{
                WORDS[c]: np.bincount(counted_class[(self.change & c) > 0], minlength=n_classes)
                for c in Change
            },
        }
        return [
            {"class": name, **{key: int(column[i]) for key, column in columns.items()}}
            for i, name in enumerate(names)
        ]

    def count_relabelled(self) -> list[dict[str, Any]]:
        """Return the old class, the new class and the count of relabelled boxes, the most frequent first."""
        is_relabelled = (self.change & Change.RELABELLED) > 0
        old_rows, new_rows = self.first[is_relabelled], self.other[is_relabelled]
        pairs = np.stack([self.old.boxes.category[old_rows], self.new.boxes.category[new_rows]], axis=1)
        category_pairs, counts = np.unique(pairs, axis=0, return_counts=True)
        return [
            {
                "old": self.old.categories.name[category_pairs[i, 0]],
                "new": self.new.categories.name[category_pairs[i, 1]],
                "count": int(counts[i]),
            }
            for i in np.argsort(-counts, kind="stable").tolist()
        ]

    def columns(self) -> dict[str, list[Any]]:
        """Return the boxes that changed as columns: ``image``, ``change``, ``shift``, ``iou``, both boxes."""
        rows = np.flatnonzero(self.change)
        rows = rows[np.argsort(self.image[rows], kind="stable")]
        old_rows, new_rows = self.first[rows], self.other[rows]
        is_paired = (old_rows >= 0) & (new_rows >= 0)
        paired_old, paired_new = old_rows[is_paired], new_rows[is_paired]
        iou = np.full(len(rows), math.nan)
        iou[is_paired] = iou_of(self.old.boxes.xyxy[paired_old], self.new.boxes.xyxy[paired_new])
        names = self.names
        words = {bits: describe_change(bits) for bits in np.unique(self.change[rows]).tolist()}
        return {
            "image": [names[i] for i in self.image[rows].tolist()],
            "change": [words[bits] for bits in self.change[rows].tolist()],
            "shift": to_plain(self.shift[rows].tolist()),
            "iou": to_plain(iou.tolist()),
            **box_columns(self.old, old_rows, "old"),
            **box_columns(self.new, new_rows, "new"),
        }

    def table(self, of: Literal["boxes", "images", "classes"] = "boxes") -> AnalysisTable:
        """The rows of ``changes.csv``, ``images.csv`` or ``classes.csv``."""
        if of == "boxes":
            columns = self.columns()
            return AnalysisTable(
                (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)), columns
            )
        if of == "images":
            return AnalysisTable(self.image_rows(), IMAGE_COLUMNS)
        if of == "classes":
            return AnalysisTable(self.class_rows(), CLASS_COLUMNS)
        raise UsageError(f"table {of!r}: choose one of boxes, images, classes")

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract, of plain data."""
        old, new = self.old.images, self.new.images
        n_unchanged = int(np.count_nonzero(self.change == 0))
        return {
            "version": 1,
            "iou": self.iou_least,
            "tolerance": self.tolerance,
            "equal": self.equal,
            "images": {
                "old": len(old),
                "new": len(new),
                "added": [new.name[i] for i in self.added.tolist()],
                "removed": [old.name[i] for i in self.removed.tolist()],
                "renamed": [
                    {"old": old.name[self.partner[i]], "new": new.name[i]}
                    for i in np.flatnonzero(self.renamed).tolist()
                ],
                "resized": [
                    {
                        "image": new.name[i],
                        "old": [int(old.width[self.partner[i]]), int(old.height[self.partner[i]])],
                        "new": [int(new.width[i]), int(new.height[i])],
                    }
                    for i in self.resized.tolist()
                ],
            },
            "boxes": {
                "old": len(self.old),
                "new": len(self.new),
                "unchanged": n_unchanged,
                **{WORDS[change]: self.count(change) for change in Change},
            },
            "classes": self.class_rows(),
            "relabelled": self.count_relabelled(),
            "changed_images": self.image_rows(),
            "changes": list(self.table()),
        }


def diff(old: Dataset, new: Dataset, *, iou: float = IOU, tolerance: float = TOLERANCE) -> Differences:
    """Compare two versions of annotations.

    Images are paired as `odm.pairing.pair_images` says; of the others two are taken for one that was renamed
    if their boxes are equal, and no other's are. Boxes of one class and place are paired first, then, as
    `odm.evaluate.analysis.agree.agree` pairs them, the others, whatever their classes. Splits, tracks, labels
    of whole images and other fields are not compared.

    Parameters
    ----------
    old, new
        Annotations of the same images.
    iou
        The least IoU of an old box and what became of it, above 0 up to 1.
    tolerance
        Pixels by which the edges of equal boxes may differ.

    Raises
    ------
    UsageError
        If a value is out of range, or one version has names of classes and the other only numbers.
    """
    if not 0 < iou <= 1:
        raise UsageError(f"{spell('iou')} {iou}: expected an IoU above 0 and up to 1, as in 0.5")
    if not 0 <= tolerance < math.inf:
        raise UsageError(f"tolerance {tolerance}: expected pixels, 0 or more")
    categories = [version.categories for version in (old, new)]
    if not set(categories[0].name) & set(categories[1].name) and categories[0].named != categories[1].named:
        raise UsageError(
            f"the classes of the {'new' if categories[0].named else 'old'} version are only numbers; "
            f"give their names with {spell('classes')}"
        )
    partner, renamed = pair_versions(old, new)
    is_paired = np.zeros(len(old.images), np.bool_)
    is_paired[partner[partner >= 0]] = True
    # Of the images in both: the row in the old version, and for each new image its row there.
    old_image = np.where(is_paired, np.arange(len(is_paired)), -1)
    old_rows, new_rows, change = pair_boxes_of(old, new, (old_image, partner), iou=iou, tolerance=tolerance)
    # Boxes without a counterpart; those of whole images that are gone or new have changes of their own.
    removed_rows, added_rows = rows_without(len(old), old_rows), rows_without(len(new), new_rows)
    unpaired = (
        np.where(is_paired[old.boxes.image[removed_rows]], Change.REMOVED, Change.IMAGE_REMOVED),
        np.where(partner[new.boxes.image[added_rows]] >= 0, Change.ADDED, Change.IMAGE_ADDED),
    )
    return Differences(
        old=old,
        new=new,
        iou_least=iou,
        tolerance=tolerance,
        partner=partner,
        renamed=renamed,
        first=np.concatenate([old_rows, removed_rows, np.full(len(added_rows), -1)]),
        other=np.concatenate([new_rows, np.full(len(removed_rows), -1), added_rows]),
        change=np.concatenate([change, *unpaired]).astype(np.uint8),
    )
