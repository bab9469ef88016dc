"""Rules of a dataset as a whole: names that are alike, rare classes, sizes and ids."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

from odm.checks.rules import DerivedColumns, Found, common_location, set_rule
from odm.issues import Trusted
from odm.names import stem


def _similar(names: Sequence[str], *, blanks: bool) -> Iterator[tuple[int, int, str]]:
    """Pairs of names, by number, that are alike, and how they differ."""
    if not blanks and all(map(str.isascii, names)) and len(set(map(str.lower, names))) == len(names):
        return  # nearly always, and cheaply
    first_of_form: dict[str, int] = {}
    for i, name in enumerate(names):
        form = unicodedata.normalize("NFC", name)
        key = unicodedata.normalize("NFC", form.casefold())
        if blanks:
            key = "".join(key.split())
        first = first_of_form.setdefault(key, i)
        if first != i:
            other = unicodedata.normalize("NFC", names[first])
            if form == other:
                how = "Unicode form"
            else:
                case = not blanks or "".join(form.split()) != "".join(other.split())
                space = blanks and form.casefold() != other.casefold()
                how = "letter case and spaces" if case and space else "letter case" if case else "spaces"
            yield first, i, how


@set_rule(
    "similar-image-names",
    "warning",
    "{first!r} and {second!r} differ only in {how}",
    "rename one of the two, or remove it if both are the same image",
    "They are different images here, but the same file on some systems, or in formats that name images "
    "without extension.",
)
def similar_images(columns: DerivedColumns) -> Found:
    images = columns.dataset.images
    names = images.name
    pairs = list(_similar(names, blanks=False))
    if len({name[-4:] for name in names}) > 1:  # else equal extensions, and unique names have unique stems
        row_of_stem: dict[str, int] = {}
        for i, name in enumerate(names):
            first = row_of_stem.setdefault(stem(name), i)
            if first != i:
                pairs.append((first, i, "extension"))
    for first, second, how in pairs:
        values = {"first": names[first], "second": names[second], "how": Trusted(how)}
        yield columns.dataset.image_place(second), values


@set_rule(
    "similar-class-names",
    "warning",
    "{first!r} and {second!r} differ only in {how}",
    "rename one to the other if they are the same class (convert --rename OLD=NEW)",
    "They are different classes here. If they are meant to be one, some of its objects are in the wrong "
    "class.",
)
def similar_classes(columns: DerivedColumns) -> Found:
    """Pairs of classes whose names differ only by letter case, blanks or Unicode form."""
    names = columns.dataset.categories.name
    for first, second, how in _similar(names, blanks=True):
        values = {"first": names[first], "second": names[second], "how": Trusted(how)}
        yield common_location(columns.dataset), values


@set_rule(
    "same-name-in-folders",
    "warning",
    "images with the same name as another in a different folder or split: {n}, such as {first!r} and "
    "{second!r}",
    "keep the folders when copying the images",
    "They are different images here, but overwrite each other if a tool puts all images into one folder.",
    validate_only=True,
)
def same_last_part(columns: DerivedColumns) -> Found:
    """Find images in different folders whose names have one stem."""
    names = columns.dataset.images.name
    if not any("/" in name for name in names):
        return
    row_of_part: dict[str, int] = {}
    pairs = []
    video = columns.dataset.images.video
    for i, name in enumerate(names):
        if video is not None and video[i] >= 0:  # frames of videos are numbered alike
            continue
        first = row_of_part.setdefault(stem(name).rpartition("/")[2], i)
        if first != i and names[first].rpartition("/")[0] != name.rpartition("/")[0]:
            pairs.append((first, i))
    if pairs:
        first, second = pairs[0]
        values = {"n": len(pairs), "first": names[first], "second": names[second]}
        yield columns.dataset.image_place(second), values


@set_rule(
    "rare-class",
    "warning",
    "class {value!r} has {n} of {total} boxes, at most a hundredth of the mean per class",
    "check its name, and whether it is intended",
    "A class with almost no objects is often a misspelling, and its AP is largely a matter of chance.",
    validate_only=True,
)
def rare_class(columns: DerivedColumns) -> Found:
    names = columns.dataset.categories.name
    counts = np.bincount(columns.boxes.category, minlength=len(names))
    total, used = int(counts.sum()), int(np.count_nonzero(counts))
    if columns.dataset.kind == "gt":
        for c in np.flatnonzero((counts > 0) & (counts * 100 * used <= total)).tolist():
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
def no_sizes(columns: DerivedColumns) -> Found:
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
def id_zero(columns: DerivedColumns) -> Found:
    zero = columns.boxes.source_id == 0
    if columns.dataset.kind == "gt" and zero.any():
        path, line, pointer = columns.dataset.location(int(zero.argmax()))
        yield (path, line, f"{pointer}/id" if pointer else ""), {}
