"""Rules of a dataset as a whole: names that are alike, rare classes, sizes and ids."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

from odm.checks.rules import DerivedColumns, SetFindings, find_common_location, set_rule
from odm.issues import Trusted
from odm.names import stem


def _find_similar(names: Sequence[str], *, ignore_spaces: bool) -> Iterator[tuple[int, int, str]]:
    """Yield (first index, index, difference) of names that differ only by letter case or Unicode form.

    With `ignore_spaces`, also of those that differ by spaces. The difference is in words: "letter case",
    "spaces", "letter case and spaces" or "Unicode form".
    """
    if not ignore_spaces and all(map(str.isascii, names)) and len(set(map(str.lower, names))) == len(names):
        return  # the usual case, tested cheaply
    first_index_by_key: dict[str, int] = {}
    for index, name in enumerate(names):
        form = unicodedata.normalize("NFC", name)
        key = unicodedata.normalize("NFC", form.casefold())
        if ignore_spaces:
            key = "".join(key.split())
        first_index = first_index_by_key.setdefault(key, index)
        if first_index != index:
            first_form = unicodedata.normalize("NFC", names[first_index])
            if form == first_form:
                difference = "Unicode form"
            else:
                # Without spaces, or if spaces count, only letter case is left to differ.
                case_differs = not ignore_spaces or "".join(form.split()) != "".join(first_form.split())
                spaces_differ = ignore_spaces and form.casefold() != first_form.casefold()
                difference = " and ".join(["letter case"] * case_differs + ["spaces"] * spaces_differ)
            yield first_index, index, difference


@set_rule(
    "similar-image-names",
    "warning",
    "{first!r} and {second!r} differ only in {how}",
    "rename one of the two, or remove it if both are the same image",
    "They are different images here, but the same file on some systems, or in formats that name images "
    "without extension.",
)
def similar_images(columns: DerivedColumns) -> SetFindings:
    """Find images whose names differ only by letter case, Unicode form or extension."""
    images = columns.dataset.images
    names = images.name
    pairs = list(_find_similar(names, ignore_spaces=False))
    if len({name[-4:] for name in names}) > 1:  # else all end in .jpg, say: different names, different stems
        row_of_stem: dict[str, int] = {}
        for row, name in enumerate(names):
            earlier = row_of_stem.setdefault(stem(name), row)
            if earlier != row:
                pairs.append((earlier, row, "extension"))
    for earlier, later, difference in pairs:
        values = {"first": names[earlier], "second": names[later], "how": Trusted(difference)}
        yield columns.dataset.image_place(later), values


@set_rule(
    "similar-class-names",
    "warning",
    "{first!r} and {second!r} differ only in {how}",
    "rename one to the other if they are the same class (convert --rename OLD=NEW)",
    "They are different classes here. If they are meant to be one, some of its objects are in the wrong "
    "class.",
)
def similar_classes(columns: DerivedColumns) -> SetFindings:
    """Find pairs of classes whose names differ only by letter case, spaces or Unicode form."""
    names = columns.dataset.categories.name
    for earlier, later, difference in _find_similar(names, ignore_spaces=True):
        values = {"first": names[earlier], "second": names[later], "how": Trusted(difference)}
        yield find_common_location(columns.dataset), values


@set_rule(
    "same-name-in-folders",
    "warning",
    "images with the same name as another in a different folder or split: {n}, such as {first!r} and "
    "{second!r}",
    "keep the folders when copying the images",
    "They are different images here, but overwrite each other if a tool puts all images into one folder.",
    validate_only=True,
)
def same_last_part(columns: DerivedColumns) -> SetFindings:
    """Report how many images have the file stem of one in another folder, and the first; no video frames."""
    names = columns.dataset.images.name
    if not any("/" in name for name in names):
        return
    row_of_last_part: dict[str, int] = {}
    pairs = []
    video = columns.dataset.images.video
    for row, name in enumerate(names):
        if video is not None and video[row] >= 0:  # frames of videos are numbered alike
            continue
        folder, _, _ = name.rpartition("/")
        _, _, last_part = stem(name).rpartition("/")
        earlier = row_of_last_part.setdefault(last_part, row)
        if earlier != row and names[earlier].rpartition("/")[0] != folder:
            pairs.append((earlier, row))
    if pairs:
        earlier, later = pairs[0]
        values = {"n": len(pairs), "first": names[earlier], "second": names[later]}
        yield columns.dataset.image_place(later), values


@set_rule(
    "rare-class",
    "warning",
    "class {value!r} has {n} of {total} boxes, at most a hundredth of the mean per class",
    "check its name, and whether it is intended",
    "A class with almost no objects is often a misspelling, and its AP is largely a matter of chance.",
    validate_only=True,
)
def rare_class(columns: DerivedColumns) -> SetFindings:
    """Find classes of the ground truth with at most a hundredth of the mean number of boxes per class."""
    names = columns.dataset.categories.name
    counts = np.bincount(columns.boxes.category, minlength=len(names))
    total, n_used = int(counts.sum()), int(np.count_nonzero(counts))
    if columns.dataset.kind == "gt":
        # At most a hundredth of the mean, total / n_used, in whole numbers.
        for c in np.flatnonzero((counts > 0) & (counts * 100 * n_used <= total)).tolist():
            row = int((columns.boxes.category == c).argmax())
            yield columns.dataset.location(row), {"value": names[c], "n": int(counts[c]), "total": total}


@set_rule(
    "images-without-size",
    "warning",
    "{n} of {total} images have no size; the first is {value!r}",
    "use --images DIR, or add width and height",
    "Without the image size, boxes cannot be checked against the image, and relative coordinates cannot "
    "be written.",
    validate_only=True,
    unless=("image-size-missing", "image-size-unknown", "bad-image-size"),
)
def no_sizes(columns: DerivedColumns) -> SetFindings:
    """Report how many images have no size, unless all have none, as in many formats."""
    images = columns.dataset.images
    has_no_size = (images.width <= 0) | (images.height <= 0)
    if has_no_size.any() and not has_no_size.all():
        row = int(has_no_size.argmax())
        values = {"n": int(has_no_size.sum()), "total": len(images), "value": images.name[row]}
        yield columns.dataset.image_place(row), values


@set_rule(
    "annotation-id-zero",
    "warning",
    "expected annotation ids from 1, found 0",
    "number the annotations from 1; converting to coco does so",
    "The official evaluation uses id 0 for no match, so a detection that matches this object counts as "
    "a false positive there. odm scores it correctly.",
    validate_only=True,
)
def id_zero(columns: DerivedColumns) -> SetFindings:
    zero = columns.boxes.source_id == 0
    if columns.dataset.kind == "gt" and zero.any():
        path, line, pointer = columns.dataset.location(int(zero.argmax()))
        yield (path, line, f"{pointer}/id" if pointer else ""), {}
