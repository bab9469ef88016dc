"""Labels of whole images, and the hierarchy of classes that they and the boxes are extended over."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from odm.evaluate.matching.sides import Joined, Label, Labels, Mask
from odm.issues import Log, UsageError
from odm.names import stem
from odm.pairing import last_part, unique
from odm.tables import NO_ID, Dataset, Images, LabelState, distinct


def with_labelled_images(truth: Dataset, labels: Iterable[Label], log: Log) -> Dataset:
    """The ground truth with the images that only the labels name: it says something of them."""
    images = truth.images
    stems = {stem(name) for name in images.name}
    known = stems | {last_part(name) for name in images.name}
    found: dict[str, str] = {}
    for image in dict.fromkeys(image for image, _, _ in labels):
        if image and stem(image) not in known and last_part(image) not in stems:
            found.setdefault(stem(image), image)
    if not found:
        return truth
    n = len(found)
    which = f"{n} images that only they name have" if n > 1 else "1 image that only they name has"
    log.note(f"image labels: {which} no boxes and count{'' if n > 1 else 's'} as ground truth")
    more: dict[str, Any] = {"width": 0, "height": 0, "source_id": NO_ID, "path": "", "split": "", "file": -1}
    more |= {key: -1 for key in ("video", "frame") if getattr(images, key) is not None}
    columns: dict[str, Any] = {"name": (*images.name, *found.values())}
    for key, value in {**more, "line": 0}.items():
        column = getattr(images, key)
        is_text = isinstance(column, tuple)
        columns[key] = (
            (*column, *[value] * n) if is_text else np.append(column, np.full(n, value, column.dtype))
        )
    return dataclasses.replace(truth, images=Images(**columns))


def with_known(joined: Joined, labels: Iterable[Label] | None, log: Log) -> Joined:
    """The sides with these labels of images beside their own, and the classes that their hierarchy adds.

    Those are what neither side names and boxes and labels of the ground truth belong to. UsageError if the
    hierarchy names none of the classes.
    """
    if labels is not None:
        joined = _with_labels(joined, labels, log)
    if joined.hierarchy is None:
        return joined
    classes = set(joined.classes)
    if not classes & (joined.hierarchy.keys() | set().union(*joined.hierarchy.values())):
        raise UsageError("the class hierarchy contains none of these classes: use one with the same names")
    above = _above(joined)
    named = {*distinct(joined.truth.category).tolist()}
    if joined.image_labels is not None:
        named.update(joined.image_labels[1].tolist())
    found = {other for c in named for other in above.get(joined.classes[c], ())}
    return dataclasses.replace(joined, added=tuple(sorted(found - classes)))


def _with_labels(joined: Joined, labels: Iterable[Label], log: Log) -> Joined:
    images = {name: i for i, name in enumerate(joined.images)}
    stems = unique(stem(name) for name in joined.images)
    last_parts = unique(last_part(name) for name in joined.images)
    numbers = {name: i for i, name in enumerate(joined.classes)}
    above = joined.hierarchy or {}

    @functools.cache
    def concerned(category: str, positive: bool) -> list[int]:
        """The classes that a label concerns.

        One of a class that is none here may concern others: a negative one those below it, a positive one
        those above it.
        """
        if category in numbers:
            return [numbers[category]]
        if positive:
            return [numbers[name] for name in sorted(above.get(category, ())) if name in numbers]
        return [numbers[name] for name in numbers if category in above.get(name, ())]

    rows: list[tuple[int, int, bool]] = []
    n = 0
    for image, category, positive in labels:
        n += 1
        i = images.get(image, stems.get(stem(image), last_parts.get(last_part(image), -1)))
        if i >= 0:
            rows += ((i, c, positive) for c in concerned(category, positive))
    log.note(f"image labels: {len(rows)} of {n} rows concern images and classes of this evaluation")
    columns = _columns(rows)
    if (own := joined.image_labels) is not None:
        columns = (np.r_[own[0], columns[0]], np.r_[own[1], columns[1]], np.r_[own[2], columns[2]])
    return dataclasses.replace(joined, image_labels=columns)


def _columns(rows: Iterable[tuple[int, int, int]]) -> Labels:
    image, category, state = list(zip(*rows, strict=True)) or [(), (), ()]
    return np.array(image, np.int64), np.array(category, np.int64), np.array(state, np.uint8)


def has_label(joined: Joined, *states: LabelState, boxed: bool = False) -> Mask:
    """(n,) the detections whose class has a label of one of some states on its image, or is `boxed` there."""
    keys = joined.keys_of(joined.truth) if boxed else np.zeros(0, np.int64)
    if joined.image_labels is not None:
        image, category, state = joined.image_labels
        wanted = np.isin(state, states)
        keys = np.concatenate([keys, image[wanted] * len(joined.classes) + category[wanted]])
    found: Mask = np.isin(joined.keys_of(joined.detections), keys)
    return found


def ancestors(hierarchy: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """The ancestors of every class below a class, from ``{"LabelName": ..., "Subcategory": [...]}``.

    Only ``Subcategory`` leads down: a part of a thing (``Part``) is not a kind of it.

    Raises
    ------
    UsageError
        If it is not such a tree.
    """
    above: dict[str, set[str]] = {}
    pending: list[tuple[Any, tuple[str, ...]]] = [(hierarchy, ())]
    while pending:
        node, path = pending.pop()
        children = node.get("Subcategory", []) if isinstance(node, Mapping) else None
        if not isinstance(children, list) or not isinstance(name := node.get("LabelName"), str):
            raise UsageError(
                "class hierarchy: expected {'LabelName': name, 'Subcategory': [...]} at each node"
            )
        above.setdefault(name, set()).update(path)
        if name in path or len(path) > 100:
            raise UsageError(f"class hierarchy: {name!r} is its own ancestor, or is nested too deeply")
        pending += [(child, (*path, name)) for child in children]
    return {name: frozenset(names) for name, names in above.items() if names}


def _above(joined: Joined) -> dict[str, list[str]]:
    """The ancestors of each class that are classes."""
    hierarchy = joined.hierarchy or {}
    roots = {n for names in hierarchy.values() for n in names} - hierarchy.keys()
    skipped = roots - set(joined.classes)
    return {name: sorted(names - skipped - {name}) for name, names in hierarchy.items() if names - skipped}


def expand(joined: Joined) -> Joined:
    """Ground truth repeated for every ancestor of its class, once each; labels likewise.

    A positive or partial image label holds for the ancestors, a negative one for the descendants. The root
    of a tree is a class only where the data use it as one (that of Open Images, "Entity", is none).
    """
    if not joined.hierarchy:
        return joined
    above = _above(joined)
    below: dict[str, list[str]] = {}
    for name, names in above.items():
        for other in names:
            below.setdefault(other, []).append(name)
    classes = [*joined.classes, *joined.added]
    row = {name: i for i, name in enumerate(classes)}

    up = [[row[o] for o in above.get(name, ()) if o in row] for name in classes]
    down = [[row[o] for o in below.get(name, ()) if o in row] for name in classes]
    n_up = np.array([len(rows) for rows in up], np.int64)
    source = np.repeat(np.arange(len(joined.truth)), 1 + n_up[joined.truth.category])
    category = np.fromiter(
        (c for own in joined.truth.category.tolist() for c in (own, *up[own])), np.int32, len(source)
    )
    truth = dataclasses.replace(joined.truth.take(source), category=category)
    labels = joined.image_labels
    if labels is not None:
        rows = [
            (image, c, state)
            for image, own, state in zip(*(column.tolist() for column in labels), strict=True)
            for c in (own, *(down[own] if state == LabelState.ABSENT else up[own]))
        ]
        labels = _columns(rows)
    return dataclasses.replace(joined, classes=tuple(classes), truth=truth, image_labels=labels)
