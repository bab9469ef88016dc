"""Pair the images and classes of detections with those of the ground truth, in one way for every command.

Images are paired by exact name, else by name without extension, else by the last part of the name without
extension, else, for results lists whose images are only ids, by id; each only where it is unique on both
sides. Classes are paired by exact name; a side that gives only numbers takes the names of the other.

What cannot be paired is reported here, and so is a pairing that the boxes contradict.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.issues import Code, Log, Trusted, first_few, listed, nearest, plural, shorten
from odm.names import parse_number, stem
from odm.tables import (
    NO_ID,
    Categories,
    Dataset,
    Floats,
    Images,
    Longs,
    distinct,
    first_index_of,
    region_classes,
)

NO_IMAGE_IN_COMMON = Code(
    "no-image-in-common",
    "error",
    "the detections and the ground truth have no {unit} in common: the detections have {theirs}, the ground "
    "truth has {ours}",
    "check that both belong to the same dataset, and that names {differ}",
    "Images are matched by name. If none matches, every metric would be 0 for a reason that has nothing to "
    "do with the detector.",
)
NO_CLASS_IN_COMMON = Code(
    "no-class-in-common",
    "error",
    "the detections and the ground truth have no class in common: the detections have {theirs}, the ground "
    "truth has {ours}",
    "rename the classes of one side (eval --rename OLD=NEW renames those of the detections), or give its "
    "class list",
    "Classes are matched by name. If none matches, every metric would be 0 for a reason that has nothing to "
    "do with the detector.",
)
IMAGE_ONLY_IN_DETECTIONS = Code(
    "image-only-in-detections",
    "error",
    "{n} in the detections but not in the ground truth: {names}{hint}",
    "remove {them} or correct the name, or give eval --extra-images background to count the boxes as false "
    "positives, or ignore to leave them out",
    "The image belongs to another dataset, its name differs, or its ground truth is missing.",
)
CLASS_ORDER_GUESSED = Code(
    "class-order-guessed",
    "warning",
    "classes here are numbers, and the classes of {whose} have only an order of first appearance, so they "
    "are read as {order}",
    "give the class list that the numbers of {who} refer to with --{side}-classes",
    "Numbers are positions in a class list. A format without one, such as XML files of objects, has its "
    "classes in the order of first appearance, which need not be that of the list used to write the numbers.",
)
CLASS_ONLY_IN_DETECTIONS = Code(
    "class-only-in-detections",
    "warning",
    "class {value!r} of {n} is not in the ground truth{hint}",
    "rename it if it is the same class (eval --rename OLD=NEW)",
    "Its detections are shown but not averaged. If it is only spelt differently, all objects of the class "
    "count as missed.",
)
SPLIT_WITHOUT_DETECTIONS = Code(
    "split-without-detections",
    "warning",
    "there are no detections in {splits} ({images}), so {boxes} of {total} ground truth boxes are missed",
    "if the detector was not run on these images, evaluate only the others with {option}",
    "A dataset description lists all splits, but detections are usually of one. The objects of the others "
    "lower recall and AP, although the detector was never run on them.",
)
FEW_IMAGES_DETECTED = Code(
    "most-images-without-detections",
    "warning",
    "there is no detection in {n} of the {total} {unit} with ground truth, so their {boxes} boxes are missed",
    "if the detector was not run on all of them, evaluate only the others with --only-images",
    "A detector rarely finds nothing in half of the images. More often it was run on some of them only, or "
    "its output was cut, and the objects of the others lower recall and AP.",
)
MOST_EMPTY, FEW_EMPTY = 0.5, 3
"""Images without a detection are doubted if they are at least this share, and at least so many."""
CLASS_NUMBERS_MISREAD = Code(
    "class-numbers-misread",
    "error",
    "the class numbers do not match: with {now}, {a} of {n} detections have the class of the object they "
    "overlap; with {better}, {b} would",
    "number the classes of both sides alike",
    "Class numbers start at 0 in YOLO and usually at 1 in COCO, where they may also have gaps. If they are "
    "not read as they were written, nearly every detection has the wrong class.",
)
IMAGE_NUMBERS_SHIFTED = Code(
    "image-numbers-shifted",
    "error",
    "the image numbers do not match: {a} of {n} detections overlap an object in their image, but {b} would "
    "in the image {where} it",
    "{verb} 1 {preposition} each image number of the detections, or number the images of both sides alike",
    "Image ids start at 0 in some exports and at 1 in others. If they are off by one, every detection is "
    "compared with the objects of another image.",
)
SAMPLE = 1000
"""How many detections are looked at to see whether the numbers of classes and images were understood."""
ENOUGH = 5
"""So many detections are needed: fewer may all be on an object of another class by chance."""
MOST_PER_IMAGE = 200
"""Ground truths of an image that a detection is compared with, at most."""
FEW_AGREE, MOST_AGREE = 0.1, 0.5
"""A reading is doubted if at most the first share of detections agrees with it, and another is suggested if
at least the second share agrees with that."""


class Pairing(msgspec.Struct, frozen=True, eq=False):
    """The image and the class of the ground truth for each of the detections."""

    image: Longs
    """(n,) the row of the ground truth's image for each image of the detections, -1 = none."""
    category: Longs
    """(n,) the row of the ground truth's class for each class of the detections, -1 = none."""
    gt_names: list[str]
    """The names of the ground truth's classes by row; numbers are replaced by names where there are any."""
    det_names: list[str]
    n_by_method: Mapping[str, int]
    """How many images were paired by ``name``, ``name without extension``, ``last part``, ``id``."""


def pair(truth: Dataset, detections: Dataset, log: Log) -> Pairing:
    """Pair the images and classes of both sides; the log takes a note on how numbers of classes were read."""
    image, n_by_method = pair_images(truth.images, detections.images)
    gt_names, det_names = resolve_class_names(truth, detections, log)
    # Reversed, so that of equal names the first row stays.
    gt_row_by_name = {name: row for row, name in reversed(list(enumerate(gt_names)))}
    category = np.array([gt_row_by_name.get(name, -1) for name in det_names], np.int64)
    return Pairing(image, category, gt_names, det_names, n_by_method)


def source_of(dataset: Dataset) -> str:
    """Return the path for issues that concern all of a side; empty if it has several files."""
    return dataset.path or (dataset.files[0].path if len(dataset.files) == 1 else "")


# --------------------------------------------------------------------------------------------- images


def last_part(name: str) -> str:
    """Return the name of an image without folders and extension."""
    return stem(name).rpartition("/")[2]


def pair_images(truth: Images, detections: Images) -> tuple[Longs, dict[str, int]]:
    """Pair images. Returns (n,) the ground truth's row for each image of the detections, -1 = none, and how
    many images were paired by which kind of key.
    """
    gt_names, det_names = truth.name, detections.name
    if gt_names == det_names:
        return np.arange(len(gt_names)), {"name": len(gt_names)}
    ids = zip(det_names, detections.source_id.tolist(), strict=True)
    # Only images of which nothing but the id is known: an id beside a real name belongs to another file.
    bare_ids = [id_ if id_ != NO_ID and name == str(id_) else None for name, id_ in ids]
    methods: tuple[tuple[str, Iterable[Any], Iterable[Any]], ...] = (
        ("name", gt_names, det_names),
        ("name without extension", map(stem, gt_names), map(stem, det_names)),
        ("last part", map(last_part, gt_names), map(last_part, det_names)),
        ("id", truth.source_id.tolist(), bare_ids),
    )
    # Each method pairs images that are still unpaired, if their key occurs only once on either side.
    gt_rows = [-1] * len(det_names)
    paired_rows: set[int] = set()
    n_by_method: dict[str, int] = {}
    for method, gt_keys, det_keys in methods:
        if -1 not in gt_rows:
            break
        row_by_gt_key, keys_of_detections = index_unique_keys(gt_keys), list(det_keys)
        counts = Counter(keys_of_detections)
        for i, key in enumerate(keys_of_detections):
            row = row_by_gt_key.get(key, -1)
            if gt_rows[i] < 0 <= row and counts[key] == 1 and row not in paired_rows:
                gt_rows[i] = row
                paired_rows.add(row)
                n_by_method[method] = n_by_method.get(method, 0) + 1
    return np.array(gt_rows, np.int64), n_by_method


def index_unique_keys(keys: Iterable[Any]) -> dict[Any, int]:
    """Return the position of every key that occurs only once."""
    position_by_key: dict[Any, int] = {}
    for i, key in enumerate(keys):
        position_by_key[key] = -1 if key in position_by_key else i
    return {key: i for key, i in position_by_key.items() if i >= 0}


def report_images(
    truth: Dataset, detections: Dataset, pairing: Pairing, log: Log, *, one_by_one: bool, unit: str = "image"
) -> None:
    """Report images that only the detections have, or that no image is paired; nothing if the ground truth
    has no images.

    With `one_by_one` each image is an issue, else all are one. The first ten issues suggest a name. `unit` is
    the noun for an image: ``video`` where tracks are compared.
    """
    names = detections.images.name
    unpaired_rows = np.flatnonzero(pairing.image < 0).tolist()
    if not unpaired_rows or not len(truth.images):
        return
    if len(unpaired_rows) == len(names):
        log.report(
            NO_IMAGE_IN_COMMON,
            source_of(detections),
            unit=Trusted(unit),
            differ=Trusted("differ only in folder and extension" if unit == "image" else "are the same"),
            theirs=list_first_three(names),
            ours=list_first_three(truth.images.name),
        )
        return
    n = 1 if one_by_one else len(unpaired_rows)  # images of one issue
    for i, row in enumerate(unpaired_rows if one_by_one else unpaired_rows[:1]):
        location = detections.image_place(row)
        path, _, _ = location
        suggestion = find_nearest_name(names[row], truth.images.name) if i < 10 else None  # slow
        log.report(
            IMAGE_ONLY_IN_DETECTIONS,
            location if path else source_of(detections),
            n=Trusted(plural(n, unit)),
            names=Trusted(listed([names[row]] if one_by_one else [names[row] for row in unpaired_rows])),
            hint=Trusted(format_suggestion(suggestion)),
            them=Trusted("them" if n > 1 else "it"),
        )


def report_splits(
    truth: Dataset, detections: Dataset, pairing: Pairing, log: Log, image_rows: NDArray[Any] | None = None
) -> None:
    """Report splits of the ground truth that have boxes and no detection, where another split has some.

    `image_rows` (n,) are the images of the detections that count, None = those of all detections.
    """
    splits = dict.fromkeys(name for name in truth.images.split if name)
    image_rows = detections.boxes.image if image_rows is None else image_rows
    if len(splits) < 2 or not len(image_rows):
        return
    index_by_split = {name: row for row, name in enumerate(splits)}
    # (images,): those without a split have the number after the last one.
    split_of_image = np.array([index_by_split.get(name, len(index_by_split)) for name in truth.images.split])
    image = pairing.image[image_rows]
    n_detected = np.bincount(split_of_image[image[image >= 0]], minlength=len(index_by_split) + 1)
    n_boxes = np.bincount(split_of_image[truth.boxes.image], minlength=len(index_by_split) + 1)
    missed_splits = [name for name, row in index_by_split.items() if n_boxes[row] and not n_detected[row]]
    detected_splits = [name for name, row in index_by_split.items() if n_detected[row]]
    if not missed_splits or not detected_splits:
        return
    missed_indices = [index_by_split[name] for name in missed_splits]
    log.report(
        SPLIT_WITHOUT_DETECTIONS,
        source_of(truth),
        images=Trusted(plural(int(np.isin(split_of_image, missed_indices).sum()), "image")),
        splits=Trusted(f"the split{'s' if len(missed_splits) > 1 else ''} {list_first_three(missed_splits)}"),
        boxes=int(n_boxes[missed_indices].sum()),
        total=len(truth),
        option=Trusted(" or ".join(f"--gt-split {shorten(name, 30)}" for name in detected_splits[:3])),
    )


def report_empty_images(
    truth: Dataset, pairing: Pairing, log: Log, image_rows: NDArray[Any], *, unit: str = "images"
) -> None:
    """Report if at least `MOST_EMPTY` of the images with ground truth, and `FEW_EMPTY`, have no detection.

    Not reported if no image has any, or if `report_splits` reported it of a split. `image_rows` (n,) are the
    images of the detections that count, as rows of the detections' images; `unit` is the noun for images.
    """
    n_boxes = np.bincount(truth.boxes.image, minlength=len(truth.images))
    has_detection = np.zeros(len(n_boxes), np.bool_)
    gt_rows = pairing.image[image_rows]
    has_detection[gt_rows[gt_rows >= 0]] = True
    is_empty, total = (n_boxes > 0) & ~has_detection, int(np.count_nonzero(n_boxes))
    n_empty = int(np.count_nonzero(is_empty))
    is_split_reported = log.counts[SPLIT_WITHOUT_DETECTIONS.name] > 0
    is_few = n_empty < FEW_EMPTY or n_empty < MOST_EMPTY * total
    if is_few or not has_detection.any() or is_split_reported:
        return
    log.report(
        FEW_IMAGES_DETECTED,
        source_of(truth),
        n=n_empty,
        total=total,
        unit=Trusted(unit),
        boxes=int(n_boxes[is_empty].sum()),
    )


# -------------------------------------------------------------------------------------------- classes


def resolve_class_names(truth: Dataset, detections: Dataset, log: Log) -> tuple[list[str], list[str]]:
    """Return the class names of both sides; a side that has only numbers takes the names of the other."""
    gt_classes, det_classes = truth.categories, detections.categories
    gt_names, det_names = list(gt_classes.name), list(det_classes.name)
    if not det_classes.named and gt_classes.named and len(gt_classes):
        det_names = _name_classes_by(detections, truth, "the detections", "the ground truth", log)
    elif not gt_classes.named and det_classes.named and len(det_classes):
        gt_names = _name_classes_by(truth, detections, "the ground truth", "the detections", log)
    return gt_names, det_names


def _name_classes_by(
    numbered_side: Dataset, named_side: Dataset, numbered_noun: str, named_noun: str, log: Log
) -> list[str]:
    """Return the names of the categories of a side that has only numbers, taken from the other side.

    A number is the position in the other side's list, as YOLO counts. Only where a number lies beyond the
    list while all numbers are ids of the other side (as those of COCO, 1 to 90), they are taken as ids. The
    log takes a note on this, and a warning if the order of the list is only that of first appearance. The
    nouns are those of the two sides in messages.
    """
    numbered, named = numbered_side.categories, named_side.categories
    numbers = [parse_number(name) for name in numbered.name]
    name_by_id = {i: name for i, name in zip(named.source_id.tolist(), named.name, strict=True) if i != NO_ID}
    is_beyond = any(n >= len(named) for n in numbers)
    are_ids = is_beyond and all(n in name_by_id for n in numbers)
    name_by_number = name_by_id if are_ids else dict(enumerate(named.name))
    names = [name_by_number.get(n, name) for n, name in zip(numbers, numbered.name, strict=True)]
    if not are_ids and not named.ordered and len(named) > 1:
        order = first_few(range(len(named)), 5, lambda i: f"{i} = {shorten(named.name[i], 30)!r}")
        log.report(
            CLASS_ORDER_GUESSED,
            source_of(numbered_side),
            who=Trusted(numbered_noun),
            whose=Trusted(named_noun),
            order=Trusted(order),
            side=Trusted("gt" if numbered_noun == "the ground truth" else "det"),
        )
    shown = ", ".join(f"{old} = {new!r}" for old, new in list(zip(numbered.name, names, strict=True))[:3])
    log.note(
        f"{numbered_noun} have numbers as classes, which are read as "
        f"{'ids' if are_ids else 'positions from 0'} in the list of classes of {named_noun} "
        f"({shown}{', ...' if len(names) > 3 else ''})"
    )
    return names


def report_classes(
    truth: Dataset,
    detections: Dataset,
    pairing: Pairing,
    log: Log,
    *,
    box_rows: NDArray[Any] | None = None,
    requested: set[str] | None = None,
    counts: NDArray[Any] | None = None,
) -> tuple[list[str], dict[str, str]]:
    """Report classes that only the detections have, or that there is no class in common.

    Returns the classes that only the detections have, and for the first hundred the nearest class of the
    ground truth, where there is one; no nearest ones if no class is in common. Classes of regions to ignore
    do not count as classes of the ground truth.

    Parameters
    ----------
    box_rows
        (n,) rows of the detections that count, None = all of them.
    requested
        Only these classes are warned of, None = all.
    counts
        (classes,) how many detections each class has, where `detections` do not hold all of them.
    """
    gt_names, det_names = pairing.gt_names, pairing.det_names
    category = detections.boxes.category
    gt_classes = set(itertools.compress(gt_names, ~region_classes(truth)))
    n_boxes = counts
    if n_boxes is None:
        n_boxes = np.bincount(category if box_rows is None else category[box_rows], minlength=len(det_names))
    # By name, as several rows may have one name: the detections, and the first row that has any.
    n_by_name, first_row_by_name = Counter[str](), dict[str, int]()
    for row, (name, n) in enumerate(zip(det_names, n_boxes.tolist(), strict=True)):
        n_by_name[name] += n
        if n:
            first_row_by_name.setdefault(name, row)
    unpaired = [name for name in dict.fromkeys(det_names) if name not in gt_classes and n_by_name[name]]
    hints: dict[str, str] = {}
    if len(detections) and len(truth) and gt_classes.isdisjoint(det_names):
        log.report(
            NO_CLASS_IN_COMMON,
            source_of(detections),
            theirs=list_first_three(det_names),
            ours=list_first_three(gt_names),
        )
        return unpaired, hints
    # (classes,) the first box of each, for its location; the columns are not searched if nothing is reported.
    first_box = first_index_of(category if unpaired else category[:0], len(det_names))
    for n, name in enumerate(unpaired):
        suggestion = find_nearest_name(name, gt_names) if n < 100 else None
        if suggestion is not None:
            hints[name] = suggestion
        if requested is None or name in requested:
            location = detections.location(int(first_box[first_row_by_name[name]]))
            path, _, _ = location
            log.report(
                CLASS_ONLY_IN_DETECTIONS,
                location if path else source_of(detections),
                value=name,
                n=Trusted(plural(n_by_name[name], "detection")),
                hint=Trusted(format_suggestion(suggestion)),
            )
    return unpaired, hints


# --------------------------------------------------------------------------- pairs that the boxes contradict


def check_numbers(truth: Dataset, detections: Dataset, pairing: Pairing, log: Log) -> bool:
    """Report numbers of images or classes that were misread, and return whether they were.

    Boxes tell: if hardly any detection overlaps an object of its image, and most overlap one of the image
    before or after it, ids are off by one. If hardly any detection has the class of the object that it
    overlaps, and most would have it with their numbers read otherwise, the classes are misread.
    """
    boxes = detections.boxes
    # Only detections with high scores are looked at: many with low scores are on no object.
    n_sample = min(SAMPLE, max(len(truth), ENOUGH))
    rows = np.arange(len(boxes))
    if len(boxes) > n_sample:  # those without a score, which sort last, are none of them
        rows = np.sort(np.argpartition(-boxes.score, n_sample)[:n_sample])
    rows = rows[(pairing.image[boxes.image[rows]] >= 0) & np.isfinite(boxes.xyxy[rows]).all(axis=1)]
    if len(rows) < ENOUGH or not len(truth):
        return False
    image = pairing.image[boxes.image[rows]]
    det_positions, gt_rows = _find_overlapping_pairs(truth, boxes.xyxy[rows], image)
    n_hit = len(distinct(det_positions))
    if n_hit <= FEW_AGREE * len(rows) and _report_shifted_images(truth, detections, rows, image, n_hit, log):
        return True
    return _report_misread_classes(truth, detections, pairing, (rows[det_positions], gt_rows), log)


def _report_shifted_images(
    truth: Dataset, detections: Dataset, rows: NDArray[np.intp], image: Longs, n_hit: int, log: Log
) -> bool:
    """Report detections that fit the image before or after theirs, and return whether they do.

    They fit if `MOST_AGREE` of them, in two images or more, overlap an object there. `rows` are the
    detections looked at, `image` their images in the ground truth, and `n_hit` of them overlap an object of
    these. Images are numbered by their ids, else by names that are numbers, else by their order.
    """
    numbers = truth.images.source_id
    if numbers.dtype == object or (numbers == NO_ID).any():  # an id is text, or missing
        numbers = np.array([parse_number(last_part(name)) for name in truth.images.name], np.int64)
        numbers = np.arange(len(numbers)) if (numbers < 0).any() else numbers
    order = np.argsort(numbers, kind="stable")
    sorted_numbers = numbers[order]
    for offset in (-1, 1):  # the image before, and the image after
        # The image in the ground truth whose number is one lower or higher, -1 if there is none.
        shifted_numbers = numbers[image] + offset
        positions = np.minimum(np.searchsorted(sorted_numbers, shifted_numbers), len(sorted_numbers) - 1)
        shifted_image = np.where(sorted_numbers[positions] == shifted_numbers, order[positions], -1)
        candidates = np.flatnonzero(shifted_image >= 0)
        det, _ = _find_overlapping_pairs(
            truth, detections.boxes.xyxy[rows[candidates]], shifted_image[candidates]
        )
        fitting = distinct(det)
        n_images = len(distinct(shifted_image[candidates[fitting]]))
        if len(fitting) < max(ENOUGH, MOST_AGREE * len(rows)) or n_images < 2:  # one may fit by chance
            continue
        log.report(
            IMAGE_NUMBERS_SHIFTED,
            source_of(detections),
            a=n_hit,
            n=len(rows),
            b=len(fitting),
            where=Trusted("before" if offset < 0 else "after"),
            verb=Trusted("subtract" if offset < 0 else "add"),
            preposition=Trusted("from" if offset < 0 else "to"),
        )
        return True
    return False


def _report_misread_classes(
    truth: Dataset, detections: Dataset, pairing: Pairing, pairs: tuple[Longs, NDArray[np.intp]], log: Log
) -> bool:
    """Report class numbers that agree in another reading, and return whether they do.

    Only if at least `ENOUGH` detections overlap an object, at most the share `FEW_AGREE` of them have the
    class of one, and their classes were written as numbers. The reading reported is the first one of
    `_list_readings` by which the share `MOST_AGREE` of them have it, in at least two classes. `pairs` are two
    arrays: the row of a detection, and that of an object that it overlaps.
    """
    det, gt = pairs
    n_overlapping = len(distinct(det))
    det_class, gt_class = detections.boxes.category[det], truth.boxes.category[gt]

    def count_agreeing(gt_class_by_det_class: NDArray[Any]) -> tuple[int, int]:
        """Count the detections that overlap an object of their class, read by this array, and the classes of
        these objects.
        """
        is_same = gt_class_by_det_class[det_class] == gt_class
        return len(distinct(det[is_same])), len(distinct(gt_class[is_same]))

    n_agreeing, _ = count_agreeing(pairing.category)
    is_doubtful = n_overlapping >= ENOUGH and n_agreeing <= FEW_AGREE * n_overlapping
    if not is_doubtful:
        return False
    numbers = _find_written_numbers(truth.categories, detections.categories)
    if numbers is None:
        return False

    # The first reading that fits, and by it the row of the ground truth's class of each class, -1 = none.
    for name, row_of_number in _list_readings(truth.categories, detections.categories):
        gt_class_of = np.array([row_of_number.get(number, -1) for number in numbers], np.int64)
        n_fitting, n_classes = count_agreeing(gt_class_of)
        if n_fitting >= max(ENOUGH, MOST_AGREE * n_overlapping) and n_classes >= 2:  # one may fit by chance
            reading = name
            break
    else:
        return False

    # Two classes as examples, by the names that they have now and by those of that reading.
    example_classes = distinct(det_class[gt_class_of[det_class] >= 0]).tolist()[:2]
    better_names = [pairing.gt_names[gt_class_of[c]] for c in example_classes]

    def format_classes(names: Sequence[str]) -> Trusted:
        """Format the example classes under these names: ``1 = 'car', 2 = 'bus'``."""
        classes_and_names = zip(example_classes, names, strict=True)
        return Trusted(", ".join(f"{numbers[c]} = {shorten(name, 30)!r}" for c, name in classes_and_names))

    log.report(
        CLASS_NUMBERS_MISREAD,
        source_of(detections),
        a=n_agreeing,
        n=n_overlapping,
        b=n_fitting,
        now=format_classes([pairing.det_names[c] for c in example_classes]),
        better=format_classes(better_names),
        advice=_advise_reading(reading, truth, detections, better_names, example_classes),
    )
    return True


def _find_written_numbers(gt_classes: Categories, det_classes: Categories) -> list[int] | None:
    """Return the number by which the file named each class of the detections; None if it used names.

    Classes with names were written as numbers in two cases: both sides share one list, as with COCO results,
    or the ground truth has only numbers. These are ids, or without ids positions: from 1 in a shared list, as
    COCO counts, else from 0.
    """
    if not det_classes.named:
        return [parse_number(name) for name in det_classes.name]
    if _share_list(gt_classes, det_classes) or not gt_classes.named:
        ids: list[int] = det_classes.source_id.tolist()
        if all(isinstance(i, int) and i != NO_ID for i in ids):
            return ids
        return list(range(1, len(ids) + 1)) if _share_list(gt_classes, det_classes) else list(range(len(ids)))
    return None


def _share_list(gt_classes: Categories, det_classes: Categories) -> bool:
    """Whether both sides list the same classes under the same ids, as a COCO results list does."""
    return (
        gt_classes.name == det_classes.name
        and gt_classes.source_id.tolist() == det_classes.source_id.tolist()
    )


def _list_readings(gt_classes: Categories, det_classes: Categories) -> list[tuple[str, dict[int, int]]]:
    """Return each possible reading of class numbers: its name, and the rows of the ground truth's classes by
    number. ``positions`` and ``positions-from-1`` are values of COCO's option ``ids``; the reading of numbers
    that are 1 too low has no name.
    """
    numbers = range(len(gt_classes)) if gt_classes.named else [parse_number(name) for name in gt_classes.name]
    readings = [
        ("positions", {class_number: row for row, class_number in enumerate(numbers)}),
        ("positions-from-1", {class_number + 1: row for row, class_number in enumerate(numbers)}),
        ("ids", {id_: row for row, id_ in enumerate(gt_classes.source_id.tolist()) if id_ != NO_ID}),
    ]
    # With names on both sides, numbers are ids or positions of one list, which begin at 0 or 1, never at -1.
    if not (gt_classes.named and det_classes.named):
        readings.append(("", {class_number - 1: row for row, class_number in enumerate(numbers)}))
    return readings


def _advise_reading(
    reading: str, truth: Dataset, detections: Dataset, better_names: list[str], example_classes: list[int]
) -> str:
    """Return the advice how to read class numbers otherwise; empty if there is no way.

    `reading` is the fitting one of `_list_readings`, `example_classes` are rows of classes of the detections,
    and `better_names` the names that these would have then.
    """
    det_classes = detections.categories
    if _share_list(truth.categories, det_classes) and reading.startswith("positions"):
        return (
            f"if these are COCO results, use -O ids={reading}; otherwise number the classes of both sides "
            "alike"
        )
    if not det_classes.named:
        renames = " ".join(
            f"--rename {shorten(det_classes.name[c], 30)}={shorten(new, 30)}"
            for c, new in zip(example_classes, better_names, strict=True)
        )
        return f"rename all of them (eval {renames} ..., or --rename @FILE), or number both sides alike"
    return ""


def _find_overlapping_pairs(
    truth: Dataset, xyxy: Floats, image: Longs
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return pairs with an IoU of at least 0.5, as positions in `xyxy` (n, 4) and rows of the ground truth.

    `image` (n,) are their images in the ground truth; `MOST_PER_IMAGE` objects of each are compared.
    """
    truth_image = truth.boxes.image
    order = (  # by image, in which boxes mostly are already
        np.arange(len(truth_image))
        if (truth_image[1:] >= truth_image[:-1]).all()
        else np.argsort(truth_image, kind="stable")
    )
    detection, object_row = pair_by_image(image, truth_image[order], MOST_PER_IMAGE)
    object_row = order[object_row]
    with np.errstate(all="ignore"):
        is_overlapping = iou(xyxy[detection], truth.boxes.xyxy[object_row]) >= 0.5
    return detection[is_overlapping], object_row[is_overlapping]


def pair_by_image(
    image: NDArray[Any], sorted_image: NDArray[Any], limit: int | None = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find every pair of equal entries: positions in `image`, and in `sorted_image`, which is ascending.

    Each entry of `image` is paired with the first `limit` equal entries of `sorted_image`, None = with all.
    """
    starts = np.searchsorted(sorted_image, image, "left")
    count = np.minimum(
        np.searchsorted(sorted_image, image, "right") - starts, len(sorted_image) if limit is None else limit
    )
    # starts 4 7, count 2 3: positions 0 0 1 1 1, and 4 5 7 8 9 = arange(5) + repeat(starts - 0 2, count)
    position = np.repeat(np.arange(len(image)), count)
    return position, np.arange(len(position)) + np.repeat(starts - (np.cumsum(count) - count), count)


def iou(a: Floats, b: Floats) -> Floats:
    """(n,) IoU of the boxes ``a[i]`` and ``b[i]``, (n, 4) left, top, right, bottom each."""
    (x1, y1, x2, y2), (left, top, right, bottom) = a.T, b.T
    width = np.maximum(np.minimum(x2, right) - np.maximum(x1, left), 0)
    height = np.maximum(np.minimum(y2, bottom) - np.maximum(y1, top), 0)
    shared = width * height
    areas = (x2 - x1) * (y2 - y1) + (right - left) * (bottom - top)
    result: Floats = shared / np.maximum(areas - shared, 1e-300)  # 0 of two boxes without area
    return result


# --------------------------------------------------------------------------------------- names in messages

_DIGITS = re.compile("[0-9]+")


def find_nearest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name in `names` closest to `name`; None if none is close. Names that differ from `name` only
    in their numbers do not count.
    """
    name_shape, numbers = _DIGITS.sub("0", stem(name)), _find_numbers(name)
    return nearest(
        name,
        (
            candidate
            for candidate in names
            if _DIGITS.sub("0", stem(candidate)) != name_shape or _find_numbers(candidate) == numbers
        ),
    )


def _find_numbers(name: str) -> list[str]:
    """Return the numbers in a name, as texts without leading zeros."""
    return [digits.lstrip("0") for digits in _DIGITS.findall(stem(name))]


def format_suggestion(suggestion: str | None) -> str:
    """Format a suggestion as a hint in brackets; empty for None."""
    return f" (did you mean {shorten(suggestion)!r}?)" if suggestion is not None else ""


def list_first_three(names: Sequence[str]) -> str:
    """Format the first three names, and how many there are if there are more."""
    shown = ", ".join(repr(shorten(name)) for name in names[:3])
    return f"{shown}, ... ({len(names)})" if len(names) > 3 else shown
