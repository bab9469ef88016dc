"""Bring ground truth and detections together over one list of images and one of classes.

Which image and which class is which is told by `odm.pairing`. What cannot be joined is never a silent zero:
it is an error, a warning with the nearest name, or a count.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from odm.codes import ALL_SCORED, COORDINATES_DIFFER, COORDINATES_NOT_FINITE, NO_SCORES, SCORE_NOT_FINITE
from odm.evaluate.protocols import PROTOCOLS, Protocol, check_scores
from odm.issues import INVERTED, PERCENT, Code, DataError, Log, Trusted, UsageError, hint, without_noise
from odm.pairing import (
    CLASS_ONLY_IN_DETECTIONS,
    CLASS_ORDER_GUESSED,
    SPLIT_WITHOUT_DETECTIONS,
    check_numbers,
    last_part,
    pair,
    report_classes,
    report_images,
    report_splits,
    some,
    source_of,
    unique,
)
from odm.tables import NO_ID, Boxes, Dataset, Flag, Floats, Images, Ints, LabelState, Longs, stem

NO_TRUTH = Code(
    "no-ground-truth",
    "error",
    "expected images in the ground truth, found none",
    "check the path of the ground truth",
    "Without images there is nothing to compare the detections with.",
)
NO_BOXES = Code(
    "no-ground-truth-boxes",
    "warning",
    "the ground truth has {n} images and no box, so every metric is undefined",
    "check that this is meant",
    "Metrics are shares of the ground truth boxes; of none there is no share.",
)
NO_DETECTIONS = Code(
    "no-detections",
    "warning",
    "expected detections, found none: the result is 0 for every class with ground truth",
    "check the path of the detections",
    "A detector that finds nothing is possible; an output that was never written is more likely.",
)
GROUPS_AS_OBJECTS = Code(
    "groups-as-objects",
    "warning",
    "{what} under {protocols}, of the class{es} {classes}{alone}",
    "choose --protocol {other}, which spares them, or name the classes that count with --only-classes",
    "A box around a crowd or a group, or a region where nothing was annotated, is none that a detector can "
    "be asked to find: it lowers recall and AP. A class of nothing else has an AP of about 0, which is "
    "averaged like any other.",
)
NOTHING_LEFT = Code(
    "nothing-left",
    "warning",
    "{option} leaves none of {n} {what}",
    "check the value",
    "Of no detections every metric is 0, and of no ground truth it is undefined, whatever the detector does.",
)
NO_MATCH = Code(
    "no-match",
    "warning",
    "none of {n} detections matches one of {total} ground truths",
    "ask `odm validate GT --against DET` where the two sides differ",
    "A detector that is always wrong is rare. Mostly the sides mean different images or classes by one name, "
    "or one of them has its boxes in another convention or for another size of the image.",
)
FEW = 3
"""Detections and ground truths that may all miss each other by chance are fewer."""

DOUBTFUL = (
    NO_BOXES,
    NO_DETECTIONS,
    SPLIT_WITHOUT_DETECTIONS,
    CLASS_ORDER_GUESSED,
    CLASS_ONLY_IN_DETECTIONS,
    PERCENT,
    GROUPS_AS_OBJECTS,
    NOTHING_LEFT,
    NO_MATCH,
)
"""The warnings that make a result doubtful: they are to be seen wherever it is."""

FILTERED = 0.25
"""Detections that all score at least this look as if a threshold had been applied."""

ExtraImages = Literal["error", "background", "ignore"]
Label = tuple[str, str, bool]
"""Image, class, and whether the class is said to be on the image or not to be on it."""
Labels = tuple[Longs, Longs, NDArray[np.uint8]]


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Side:
    """The boxes of one side, ordered by image, then as they were given.

    ``image`` and ``category`` are (n,) numbers in `Joined.images` and `Joined.classes`; ``row`` is the row
    in the dataset; the other columns are those of `odm.tables.Boxes`.
    """

    image: Ints
    category: Ints
    xyxy: Floats
    wh: Floats
    score: Floats
    flags: NDArray[np.uint16]
    area: Floats
    row: Ints
    place: Longs | None = None
    """(n,) the place by score among the detections of all classes of the image, 0 the best; None where no
    class was left out, so that it can be counted."""

    def __len__(self) -> int:
        return len(self.image)

    def take(self, rows: NDArray[Any] | slice) -> Side:
        """The boxes at `rows`: a mask, row numbers or a slice."""
        columns = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return Side(**{name: column[rows] for name, column in columns.items() if column is not None})


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class JoinReport:
    """What was joined, and what was found on one side only."""

    images_both: int
    images_gt_only: tuple[str, ...]
    images_det_only: tuple[str, ...]
    classes_both: tuple[str, ...]
    classes_gt_only: tuple[str, ...]
    classes_det_only: tuple[str, ...]
    how: Mapping[str, int]
    """How many images were joined by ``name``, ``name without extension``, ``last part``, ``id``."""
    hints: Mapping[str, str]
    """The nearest class of the ground truth for classes that only the detections have."""

    def to_dict(self) -> dict[str, Any]:
        """The ``join`` of the JSON contract."""
        return {
            "images": {
                "both": self.images_both,
                "gt_only": list(self.images_gt_only),
                "det_only": list(self.images_det_only),
            },
            "classes": {
                "both": list(self.classes_both),
                "gt_only": list(self.classes_gt_only),
                "det_only": list(self.classes_det_only),
            },
        }


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Joined:
    """Both sides over one list of images and one list of classes.

    ``images`` stand in the order that decides ties: by id where the ground truth has ids (numbers before
    text), else as the ground truth lists them; images that only the detections have come last.
    ``classes`` are those of the ground truth in its order, then those that only the detections have.
    """

    images: tuple[str, ...]
    n_truth_images: int
    classes: tuple[str, ...]
    truth: Side
    detections: Side
    report: JoinReport
    image_labels: Labels | None = None
    """(n,) image, (n,) class and (n,) `LabelState` of what is said of it there; None where nothing is."""
    frequency: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """How frequent each class of the ground truth is, where that is known."""
    hierarchy: Mapping[str, frozenset[str]] | None = None
    """The ancestors of each class that has any."""
    added: tuple[str, ...] = ()
    """The classes that the hierarchy adds to `classes`, for all images together; so those of shards agree."""
    wanted: frozenset[str] | None = None
    """The classes to keep, where that waits for the hierarchy to be applied."""

    def __repr__(self) -> str:
        return (
            f"<Joined: {len(self.images)} images, {len(self.classes)} classes, {len(self.truth)} ground "
            f"truths, {len(self.detections)} detections>"
        )

    def only(
        self, *, truth: NDArray[Any] | slice = slice(None), detections: NDArray[Any] | slice = slice(None)
    ) -> Joined:
        """The same images and classes with only these boxes (masks, or ascending positions)."""
        return dataclasses.replace(
            self,
            truth=self.truth if isinstance(truth, slice) else self.truth.take(truth),
            detections=self.detections if isinstance(detections, slice) else self.detections.take(detections),
        )

    def shard(self, images: NDArray[Any] | Iterable[int]) -> Joined:
        """The same images and classes with only the boxes on some `images` (numbers): a part of the work."""
        chosen = np.zeros(len(self.images), np.bool_)
        chosen[np.fromiter(images, np.int64)] = True
        return self.only(truth=chosen[self.truth.image], detections=chosen[self.detections.image])


def join(
    truth: Dataset,
    detections: Dataset,
    log: Log | None = None,
    *,
    extra_images: ExtraImages = "error",
    only_classes: Sequence[str] | None = None,
    only_images: Sequence[str] | None = None,
    score_min: float | None = None,
    image_labels: Iterable[Label] | None = None,
    hierarchy: Mapping[str, Any] | None = None,
) -> Joined:
    """Join ground truth and detections.

    Parameters
    ----------
    truth, detections
        The two sides.
    log
        Takes the issues and the notes.
    extra_images
        What an image is that only the detections have: an ``error``, or ``background`` whose boxes are all
        false positives, or nothing (``ignore``): it is left out.
    only_classes, only_images
        Names to keep; an image's may lack the extension.
    score_min
        Detections of a lower score are dropped.
    image_labels
        Rows (image, class, whether it is there) beside those of the ground truth, for the protocols that
        use them. Images that only they name are images of the ground truth without boxes.
    hierarchy
        ``{"LabelName": ..., "Subcategory": [...]}``, nested, as Open Images publishes it.

    Raises
    ------
    DataError
        If the two sides do not belong together; the log says why.
    UsageError
        If a name in `only_classes` or `only_images` exists on neither side, or a value is out of range.
    """
    if extra_images not in ("error", "background", "ignore"):
        raise UsageError(f"extra_images {extra_images}: choose error, background or ignore")
    check_scores(score_min=score_min)
    log = log or Log()
    errors_before = log.errors
    order = _image_order(truth.images)
    if image_labels is not None:
        image_labels = list(image_labels)
        truth = _with_labelled_images(truth, image_labels, log)
        order = np.r_[order, len(order) : len(truth.images)]
    _check_sides(truth, detections, log)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    pairing = pair(truth, detections, log)
    partner, gt_names, det_names = pairing.image, pairing.gt_names, pairing.det_names
    if extra_images == "error" or (partner < 0).all():
        report_images(truth, detections, pairing, log, each=False)
    if only_images is None:
        report_splits(truth, detections, pairing, log)
    used = None
    if extra_images == "ignore" and (partner < 0).any():
        used = partner[detections.boxes.image] >= 0
    asked = None if only_classes is None else set(only_classes)
    misread = log.errors == errors_before and check_numbers(truth, detections, pairing, log)
    det_only, hints = (
        ([], {}) if misread else report_classes(truth, detections, pairing, log, used=used, asked=asked)
    )
    if log.errors > errors_before:
        raise DataError("the ground truth and the detections cannot be compared", log)

    theirs = set(det_names)
    extra = np.flatnonzero(partner < 0)
    det_number = np.where(partner >= 0, number[partner] if len(number) else partner, 0)
    det_number[extra] = len(order) + np.arange(len(extra))
    classes = [*dict.fromkeys(gt_names), *det_only]
    class_row = {name: i for i, name in enumerate(classes)}
    det_images = detections.images.name
    joined = Joined(
        images=tuple(truth.images.name[i] for i in order.tolist())
        + tuple(det_images[i] for i in extra.tolist()),
        n_truth_images=len(order),
        classes=tuple(classes),
        truth=_side(truth.boxes, number, [class_row[n] for n in gt_names]),
        detections=_side(detections.boxes, det_number, [class_row.get(n, -1) for n in det_names]),
        report=JoinReport(
            images_both=len(partner) - len(extra),
            images_gt_only=_without_partner(truth.images, partner),
            images_det_only=tuple(det_images[i] for i in extra.tolist()),
            classes_both=tuple(name for name in gt_names if name in theirs),
            classes_gt_only=tuple(name for name in gt_names if name not in theirs),
            classes_det_only=tuple(det_only),
            how=pairing.how,
            hints=hints,
        ),
        image_labels=_own_labels(truth, number, [class_row[n] for n in gt_names]),
        frequency={n: f for n, f in zip(gt_names, truth.categories.frequency, strict=True) if f},
        hierarchy=None if hierarchy is None else ancestors(hierarchy),
    )
    if extra_images == "ignore" and len(extra):
        joined = _without_extra(joined, log)
    if only_classes is not None:
        before, joined = joined, _only_classes(joined, only_classes)
        if joined.wanted is None:  # else it is done later, and who knows
            _say_if_nothing_is_left(before, joined, "--only-classes", source_of(detections), log)
    if only_images is not None:
        before, joined = joined, _only_images(joined, only_images)
        _say_if_nothing_is_left(before, joined, "--only-images", source_of(detections), log)
    if score_min is not None:
        keep = joined.detections.score >= score_min
        if not keep.all():
            highest = float(joined.detections.score.max())
            log.note(f"{int((~keep).sum())} detections score below {score_min:g} and were dropped")
            before, joined = joined, joined.only(detections=keep)
            option = f"--score-min {score_min:g}, above the highest score {highest:g},"
            _say_if_nothing_is_left(before, joined, option, source_of(detections), log)
    if image_labels is not None:
        labels = _label_columns(joined, image_labels, log)
        if (own := joined.image_labels) is not None:
            labels = (np.r_[own[0], labels[0]], np.r_[own[1], labels[1]], np.r_[own[2], labels[2]])
        joined = dataclasses.replace(joined, image_labels=labels)
    if joined.hierarchy is not None and not set(joined.classes) & (
        joined.hierarchy.keys() | set().union(*joined.hierarchy.values())
    ):
        raise UsageError("the class hierarchy has none of these classes: give one that uses the same names")
    return dataclasses.replace(joined, added=_added(joined))


# ----------------------------------------------------------------------------------------- fail closed


def _check_sides(truth: Dataset, detections: Dataset, log: Log) -> None:
    """Report what makes any comparison meaningless."""
    if not len(truth.images):
        log.report(NO_TRUTH, source_of(truth))
    elif not len(truth):
        log.report(NO_BOXES, source_of(truth), n=len(truth.images))
    scored = len(truth) and not np.isnan(truth.boxes.score).any()
    if scored or (truth.kind == "det" and len(truth)):
        log.report(ALL_SCORED, source_of(truth), n=len(truth))
    score = detections.boxes.score
    if not len(detections):
        log.report(NO_DETECTIONS, source_of(detections))
    elif np.isnan(score).all():
        log.report(NO_SCORES, source_of(detections), n=len(score))
    else:
        wrong = np.flatnonzero(~np.isfinite(score))
        if len(wrong):
            log.report_rows(
                SCORE_NOT_FINITE, detections, wrong, lambda row: {"value": float(score[row])}, field="score"
            )
        else:
            _judge_scores(detections, log)
    for side in (truth, detections):
        boxes = side.boxes
        if not (np.isfinite(boxes.xyxy).all() and np.isfinite(boxes.wh).all()):
            finite = np.isfinite(boxes.xyxy).all(axis=1) & np.isfinite(boxes.wh).all(axis=1)
            log.report_rows(
                COORDINATES_NOT_FINITE,
                side,
                np.flatnonzero(~finite),
                lambda row, boxes=boxes: {"value": str(boxes.xyxy[row].tolist())},  # type: ignore[misc]
            )
        _check_order(side, log)
    if len(truth) and len(detections):
        _check_coordinates(truth, detections, log)


def _check_order(side: Dataset, log: Log) -> None:
    """Report the boxes whose edges are in the wrong order."""
    left, top, right, bottom = side.boxes.xyxy.T
    inverted = (right < left) | (bottom < top) | (side.boxes.wh < 0).any(axis=1)
    if inverted.any():
        finite = np.isfinite(side.boxes.xyxy).all(axis=1) & np.isfinite(side.boxes.wh).all(axis=1)
        log.report_rows(INVERTED, side, np.flatnonzero(inverted & finite), lambda row: _edges(side, row))


def _edges(side: Dataset, row: int) -> dict[str, Any]:
    values = (without_noise(value) for value in side.boxes.xyxy[row].tolist())
    named = zip(("left", "top", "right", "bottom"), values, strict=True)
    return {
        "value": Trusted(", ".join(f"{name} {value:.15g}" for name, value in named)),
        "option": Trusted(""),
    }


def _judge_scores(detections: Dataset, log: Log) -> None:
    boxes = detections.boxes
    score = boxes.score
    low, high = float(score.min()), float(score.max())
    if boxes.in_percent and not log.counts[PERCENT.name]:  # else the rules for one side have said it
        above = score > 1
        path, line, pointer = detections.place(int(above.argmax()))
        n, largest = int(above.sum()), Trusted(f"{high:g}")
        log.report(PERCENT, path, line=line, pointer=pointer, n=n, total=len(score), value=largest)
    shown = low / 100 if boxes.in_percent else low
    if len(score) >= 3 and shown >= FILTERED and high <= 100:
        log.note(
            f"all {len(score)} detections score at least {low:g}: they look already filtered, which lowers "
            f"recall and AP; if so, give all of them (a threshold of 0.01 or less)"
        )
    if len(score) >= 3 and low == high:
        log.note(f"all {len(score)} detections have the score {low:g}, so their order alone ranks them")


def _check_coordinates(truth: Dataset, detections: Dataset, log: Log) -> None:
    largest = [float(max(xyxy.max(), -xyxy.min())) for xyxy in (truth.boxes.xyxy, detections.boxes.xyxy)]
    if max(largest) <= 1.5:
        log.note(
            "all boxes of both sides lie in 0..1: if they are relative, give the image sizes, because areas "
            "and protocols that count pixels mean pixels"
        )
    for small, large, sides in (
        (0, 1, ("the ground truth's boxes", "the detections")),
        (1, 0, ("the detections", "the ground truth's boxes")),
    ):
        xyxy = (truth, detections)[small].boxes.xyxy
        # A box or two of one pixel may be all there is; fractions within 0..1 are no pixels.
        if largest[small] <= 1.5 and largest[large] > 4 and (xyxy != np.floor(xyxy)).any():
            log.report(
                COORDINATES_DIFFER,
                source_of((truth, detections)[small]),
                relative=sides[0],
                absolute=sides[1],
                small=f" (largest value {largest[small]:g})",
                large=f" (largest value {largest[large]:g})",
            )


def _say_if_nothing_is_left(before: Joined, after: Joined, option: str, path: str, log: Log) -> None:
    for had, has, what in (
        (before.truth, after.truth, "ground truth boxes"),
        (before.detections, after.detections, "detections"),
    ):
        if len(had) and not len(has):
            log.report(NOTHING_LEFT, path, option=Trusted(option), n=len(had), what=Trusted(what))


def _without_extra(joined: Joined, log: Log) -> Joined:
    """The same without the images that only the detections have."""
    names = joined.images[joined.n_truth_images :]
    keep = joined.detections.image < joined.n_truth_images
    n = int(np.count_nonzero(~keep))
    log.note(
        f"{len(names)} image{'s' if len(names) > 1 else ''} only in the detections left out with {n} "
        f"detection{'s' if n != 1 else ''}: {some(names)}"
    )
    return dataclasses.replace(joined.only(detections=keep), images=joined.images[: joined.n_truth_images])


# --------------------------------------------------------------------------------------------- images


def _image_order(images: Images) -> Longs:
    """(n,) rows in the order that decides ties."""
    ids = images.source_id
    if ids.dtype != object:
        if len(ids) == 0 or (ids == NO_ID).any():
            return np.arange(len(ids))
        return np.argsort(ids, kind="stable").astype(np.int64)
    listed = ids.tolist()
    if NO_ID in listed:
        return np.arange(len(ids))
    keys = [(isinstance(i, str), i) for i in listed]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def _without_partner(images: Images, partner: Longs) -> tuple[str, ...]:
    alone = np.ones(len(images), np.bool_)
    alone[partner[partner >= 0]] = False
    return tuple(images.name[i] for i in np.flatnonzero(alone).tolist())


# --------------------------------------------------------------------------------------------- columns


def _side(boxes: Boxes, number: Longs, class_rows: Sequence[int]) -> Side:
    image = number.astype(np.int32)[boxes.image] if len(boxes) else boxes.image
    category = np.array(class_rows, np.int32)[boxes.category] if len(boxes) else boxes.category
    side = Side(
        image,
        category,
        boxes.xyxy,
        boxes.wh,
        boxes.score,
        boxes.flags,
        boxes.area,
        np.arange(len(boxes), dtype=np.int32),
    )
    return side if (image[1:] >= image[:-1]).all() else side.take(np.argsort(image, kind="stable"))


def _own_labels(truth: Dataset, number: Longs, class_rows: Sequence[int]) -> Labels | None:
    """What the ground truth itself says of whole images."""
    labels = truth.labels
    if not len(labels):
        return None
    return number[labels.image], np.array(class_rows, np.int64)[labels.category], labels.verdict


def _only_classes(joined: Joined, names: Sequence[str]) -> Joined:
    """Keep some classes; with a hierarchy after it was applied, as it may lead from other classes to them."""
    tree = joined.hierarchy or {}
    known = {*joined.classes, *tree, *(name for above in tree.values() for name in above)}
    for name in names:
        if name not in known:
            raise UsageError(f"only_classes: there is no class {name!r}{hint(name, sorted(known))}")
    detections = dataclasses.replace(joined.detections, place=_places(joined.detections))
    joined = dataclasses.replace(joined, detections=detections, wanted=frozenset(names))
    return joined if tree else keep_wanted(joined)


def _places(detections: Side) -> Longs:
    """(n,) the place of each detection by score among those of its image; equal scores in their order."""
    order = np.lexsort((-detections.score, detections.image))
    image = detections.image[order]
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order)) - np.searchsorted(image, image)
    return place


def keep_wanted(joined: Joined) -> Joined:
    """Only the boxes of the wanted classes."""
    if joined.wanted is None:
        return joined
    classes = tuple(name for name in joined.classes if name in joined.wanted)
    rows = {name: i for i, name in enumerate(classes)}
    row = np.array([rows.get(name, -1) for name in joined.classes], np.int32)
    sides = []
    for side in (joined.truth, joined.detections):
        category = row[side.category] if len(side) else side.category
        sides.append(dataclasses.replace(side, category=category).take(category >= 0))
    labels = joined.image_labels
    if labels is not None:
        kept = row[labels[1]] >= 0
        labels = (labels[0][kept], row[labels[1]][kept].astype(np.int64), labels[2][kept])
    return dataclasses.replace(
        joined, classes=classes, truth=sides[0], detections=sides[1], image_labels=labels, wanted=None
    )


def _only_images(joined: Joined, names: Sequence[str]) -> Joined:
    rows = {name: i for i, name in enumerate(joined.images)}
    stems = unique(stem(name) for name in joined.images)
    chosen = []
    for name in names:
        row = rows.get(name, stems.get(name))
        if row is None:
            raise UsageError(f"only_images: there is no image {name!r}{hint(name, joined.images)}")
        chosen.append(row)
    return joined.shard(chosen)


# ------------------------------------------------------------------------------- labels and hierarchy


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
            raise UsageError(f"class hierarchy: {name!r} lies below itself, or too deep")
        pending += [(child, (*path, name)) for child in children]
    return {name: frozenset(names) for name, names in above.items() if names}


def _above(joined: Joined) -> dict[str, list[str]]:
    """The ancestors of each class that are classes."""
    hierarchy = joined.hierarchy or {}
    roots = {n for names in hierarchy.values() for n in names} - hierarchy.keys()
    skipped = roots - set(joined.classes)
    return {name: sorted(names - skipped - {name}) for name, names in hierarchy.items() if names - skipped}


def _added(joined: Joined) -> tuple[str, ...]:
    """The classes that neither side names and that the boxes and labels of the ground truth belong to."""
    above = _above(joined)
    named = {*np.unique(joined.truth.category).tolist()}
    if joined.image_labels is not None:
        named.update(joined.image_labels[1].tolist())
    found = {other for c in named for other in above.get(joined.classes[c], ())}
    return tuple(sorted(found - set(joined.classes)))


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
            (image, c, verdict)
            for image, own, verdict in zip(*(column.tolist() for column in labels), strict=True)
            for c in (own, *(down[own] if verdict == LabelState.ABSENT else up[own]))
        ]
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        labels = (
            np.array(columns[0], np.int64),
            np.array(columns[1], np.int64),
            np.array(columns[2], np.uint8),
        )
    return dataclasses.replace(joined, classes=tuple(classes), truth=truth, image_labels=labels)


def labelled(joined: Joined) -> NDArray[np.bool_]:
    """(n,) the detections whose class is boxed or labelled, present or absent, on their image."""
    n_classes = len(joined.classes)
    boxed = joined.truth.image.astype(np.int64) * n_classes + joined.truth.category
    return _said(joined, {LabelState.PRESENT, LabelState.ABSENT}, boxed)


def boxed_in_part(joined: Joined) -> NDArray[np.bool_]:
    """(n,) the detections whose class has objects without a box on their image."""
    return _said(joined, {LabelState.PARTIAL}, np.zeros(0, np.int64))


def _said(joined: Joined, verdicts: set[LabelState], keys: Longs) -> NDArray[np.bool_]:
    """(n,) the detections whose image and class have a label with one of some verdicts, or are in `keys`."""
    n_classes = len(joined.classes)
    if joined.image_labels is not None:
        image, category, verdict = joined.image_labels
        wanted = np.isin(verdict, list(verdicts))
        keys = np.concatenate([keys, image[wanted] * n_classes + category[wanted]])
    of_detections = joined.detections.image.astype(np.int64) * n_classes + joined.detections.category
    found: NDArray[np.bool_] = np.isin(of_detections, keys)
    return found


def _with_labelled_images(truth: Dataset, labels: Iterable[Label], log: Log) -> Dataset:
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
    said = f"{n} images that only they name have" if n > 1 else "1 image that only they name has"
    log.note(f"image labels: {said} no boxes and count{'' if n > 1 else 's'} as ground truth")
    more: dict[str, Any] = {"width": 0, "height": 0, "source_id": NO_ID, "path": "", "split": "", "file": -1}
    columns = {key: _longer(getattr(images, key), more.get(key, 0), n) for key in (*more, "line")}
    return dataclasses.replace(truth, images=Images(name=(*images.name, *found.values()), **columns))


def _longer(column: Any, value: Any, n: int) -> Any:
    if isinstance(column, tuple):
        return column + (value,) * n
    return np.concatenate([column, np.full(n, value, column.dtype)])


def _label_columns(joined: Joined, labels: Iterable[Label], log: Log) -> Labels:
    images = {name: i for i, name in enumerate(joined.images)}
    stems = unique(stem(name) for name in joined.images)
    last_parts = unique(last_part(name) for name in joined.images)
    classes = {name: i for i, name in enumerate(joined.classes)}
    hierarchical = joined.hierarchy or {}
    rows: list[tuple[int, int, bool]] = []
    n = 0
    for image, category, positive in labels:
        n += 1
        i = images.get(image, stems.get(stem(image), last_parts.get(last_part(image), -1)))
        # A negative label of a class that nobody boxed may still concern the classes below it.
        c = classes.get(category, -1)
        if i >= 0 and c < 0:
            rows += [
                (i, classes[name], positive)
                for name in classes
                if not positive and category in hierarchical.get(name, ())
            ]
            rows += [
                (i, classes[name], positive)
                for name in sorted(hierarchical.get(category, ()))
                if positive and name in classes
            ]
        elif i >= 0:
            rows.append((i, c, positive))
    log.note(f"image labels: {len(rows)} of {n} rows concern images and classes of this evaluation")
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return (
        np.array(columns[0], np.int64),
        np.array(columns[1], np.int64),
        np.array(columns[2], np.uint8),
    )


def say_groups(joined: Joined, rules: Sequence[Protocol], path: str, log: Log) -> None:
    """Say where boxes that stand for many objects, or for a region, are ordinary objects."""
    truth, n_classes = joined.truth, len(joined.classes)
    for flag, word in ((Flag.CROWD, "crowd"), (Flag.GROUP_OF, "group-of")):
        strict = [p for p in rules if not _spares(p, flag)]
        ignored = functools.reduce(operator.and_, (p.ignored for p in strict), ~Flag(0))
        counted = ((truth.flags & np.uint16(flag)) != 0) & ((truth.flags & np.uint16(ignored)) == 0)
        n = int(np.count_nonzero(counted))
        if not (n and strict):
            continue
        of_class = np.bincount(truth.category[counted], minlength=n_classes)
        named = [joined.classes[i] for i in np.flatnonzero(of_class).tolist()]
        all_of_class = np.bincount(truth.category, minlength=n_classes)
        alone = [
            joined.classes[i] for i in np.flatnonzero((of_class > 0) & (of_class == all_of_class)).tolist()
        ]
        said = ""
        if alone and any(p.metric in ("ap", "corloc") for p in strict):
            have, ap = ("have", "their APs are") if len(alone) > 1 else ("has", "its AP is")
            said = f"; {some(alone)} {have} no others, and {ap} in the mean"
        what = f"{n} {word} boxes of the ground truth are ordinary objects"
        log.report(
            GROUPS_AS_OBJECTS,
            path,
            what=Trusted(what if n > 1 else f"1 {word} box of the ground truth is an ordinary object"),
            protocols=Trusted(", ".join(dict.fromkeys(p.name for p in strict))),
            es=Trusted("es" if len(named) > 1 else ""),
            classes=Trusted(some(named)),
            alone=Trusted(said),
            other=next(p.name for p in PROTOCOLS.values() if _spares(p, flag)),
        )


def _spares(protocol: Protocol, flag: Flag) -> bool:
    """Whether ground truths with the flag are no ordinary objects."""
    grouped = flag == Flag.GROUP_OF and protocol.group_weight is not None
    return bool((protocol.many | protocol.ignored) & flag) or grouped
