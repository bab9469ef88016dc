"""Apply a protocol's filters before boxes are compared; add image-level labels and the class hierarchy."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.evaluate.matching.matches import OVER, TRUTHS
from odm.evaluate.matching.order import argsort_descending, argsort_int, first_of_runs, rank_in_runs
from odm.evaluate.matching.pairs import measure_boxes
from odm.evaluate.matching.sides import Joined, Label, Labels, Mask, SideTable, keep_requested_classes
from odm.evaluate.scores.protocols import Protocol
from odm.evaluate.scores.set_ups import AreaRange
from odm.issues import Log, UsageError
from odm.masks.runs import expand_ranges
from odm.names import stem
from odm.pairing import index_unique_keys, last_part
from odm.tables import NO_ID, Dataset, Floats, Images, Ints, LabelState, Longs, distinct
from odm.tables.extra_fields import numbers_of


def prepare(joined: Joined, protocol: Protocol) -> tuple[Joined, tuple[tuple[str, int], ...]]:
    """Apply what a protocol does before boxes are compared: the class hierarchy, clipping and filters.

    Scores become 32-bit values if the protocol is ``single``; regions to ignore become ground truths or go.
    Returns the joined sides and, for each filter, (what it drops, how many).
    """
    if protocol.hierarchical and joined.hierarchy:
        joined = expand_hierarchy(joined)
    if joined.wanted is not None:
        joined = keep_requested_classes(joined)
    if protocol.whole_corners:
        joined = replace(joined, truth=_cut_to_corners(joined.truth))
    if protocol.clipped and joined.sizes is not None:
        joined = _clip_to_images(joined, *joined.sizes)
    dropped: list[tuple[str, int]] = []

    def keep(reason: str, **sides: Mask) -> None:
        """Keep the boxes under the masks, as `_keep` does."""
        nonlocal joined
        joined = _keep(joined, dropped, reason, **sides)

    if protocol.single:
        score = _round_to_32_bits(joined.detections.score)
        joined = replace(joined, detections=replace(joined.detections, score=score))
    if protocol.drop_flags:
        dropped_flags = joined.truth.flags & np.uint16(protocol.drop_flags)
        keep(f"{TRUTHS}flagged as {protocol.drop_words}", truth=dropped_flags == 0)
    if protocol.drop_repeated:
        keep(f"{TRUTHS}that duplicate another", truth=_find_distinct(joined.truth, protocol))
    if protocol.score_above is not None:
        is_above = joined.detections.score > protocol.score_above
        keep(f"score {protocol.score_above:g} or lower", detections=is_above)
    joined = _choose_evaluated(joined, protocol, dropped)
    if protocol.cap_of == "image" and protocol.max_dets is not None:
        is_within_cap = _find_best_of_images(joined.detections, protocol.max_dets)
        keep(f"{OVER}{protocol.max_dets} per image", detections=is_within_cap)
    if protocol.drop_empty:
        detections = joined.detections
        # Boxes as given have width and height of the file; others are judged by their corners.
        has_area: Mask = compared_areas(detections, protocol) > 0
        if not protocol.as_given:
            has_area = np.all(detections.xyxy[:, 2:] > detections.xyxy[:, :2], axis=1)
        keep("without area", detections=has_area)
    if protocol.drop_empty_truth:
        keep(f"{TRUTHS}without area", truth=areas_of(joined.truth) > 0)
    if protocol.labelled_only:
        is_labelled = has_label(joined, LabelState.PRESENT, LabelState.ABSENT, boxed=True)
        keep("class neither annotated nor labelled on the image", detections=is_labelled)
    if joined.regions is not None and protocol.region_flags:
        joined = _add_regions(joined, joined.regions, truth_too=bool(protocol.jaccard))
    return replace(joined, regions=None), tuple(dropped)


def _round_to_32_bits(score: Floats) -> Floats:
    """(n,) scores as 32-bit floats, each as the shortest decimal that stands for it: 0.9 is shown as 0.9."""
    score_32 = score.astype(np.float32)
    score_64 = score_32.astype(np.float64)
    rounded = np.round(score_64, 7)
    return np.where(rounded.astype(np.float32) == score_32, rounded, score_64)


def _find_distinct(truth: SideTable, protocol: Protocol) -> Mask:
    """(n,) mask of the first ground truth of each image, class and box, and for ``pose`` keypoints."""
    columns: list[NDArray[Any]] = [truth.image, truth.category]
    columns += measure_boxes(truth.xyxy, truth.wh, protocol)[:4]  # without the area
    if protocol.measure == "pose" and truth.source is not None and truth.source.keypoints is not None:
        points = truth.source.keypoints.take(truth.row).xyv
        columns += [*points.reshape(len(truth), 3 * len(protocol.sigmas)).T]
    sorted_rows = np.lexsort(columns[::-1])  # equal ones stay in their order
    is_first = np.zeros(len(truth), np.bool_)
    is_first[sorted_rows[first_of_runs(*(column[sorted_rows] for column in columns))]] = True
    return is_first


def _cut_to_corners(side: SideTable) -> SideTable:
    """Return the side with coordinates cut to whole numbers, as the program of DOTA's task 2 does.

    A shape of four corners becomes the box from its first to its third corner.
    """
    xyxy = side.xyxy.copy()
    if side.source is not None and side.source.shapes is not None:
        rows = np.flatnonzero(side.source.shapes.has_four_corners()[side.row])
        # The 1st and 3rd of the (rows, 4, 2) corners lie opposite each other.
        xyxy[rows] = side.source.shapes.corners(side.row[rows])[:, [0, 2]].reshape(-1, 4)
    xyxy = np.trunc(xyxy)
    return replace(side, xyxy=xyxy, wh=xyxy[:, 2:] - xyxy[:, :2])


def _clip_to_images(joined: Joined, truth_sizes: Longs, detection_sizes: Longs) -> Joined:
    """Clip all boxes to their images.

    Sizes are (images, 2) height and width, 0 = not known: those of the detections, or else of the ground
    truth.
    """
    height, width = np.where(detection_sizes > 0, detection_sizes, truth_sizes).T
    # (images, 4) the highest left, top, right and bottom, which are infinite where the size is not known. A
    # box right of its image becomes the last column of pixels, one left of it has no width; likewise in y.
    highest_corners = np.stack([width - 1, height - 1, width, height], axis=1).astype(np.float64)
    limits = np.where((height > 0) & (width > 0), highest_corners.T, np.inf).T
    # A side that is None or empty stays as it is.
    sides = {name: getattr(joined, name) for name in ("truth", "detections", "regions")}
    return replace(joined, **{name: side and _clip(side, limits) for name, side in sides.items()})


def _clip(side: SideTable, limits: Floats) -> SideTable:
    """Clip boxes to 0 and to the highest xyxy of their image, `limits` (images, 4)."""
    xyxy = np.clip(side.xyxy, 0, limits[side.image])
    return replace(side, xyxy=xyxy, wh=xyxy[:, 2:] - xyxy[:, :2])


def _keep(joined: Joined, dropped: list[tuple[str, int]], reason: str, **sides: Mask) -> Joined:
    """Keep the boxes under masks, (n,) by name of the side; append (`reason`, how many not) to `dropped`."""
    n = sum(int(np.count_nonzero(~mask)) for mask in sides.values())
    dropped.append((reason, n))
    return joined.only(**sides) if n else joined


def _choose_evaluated(joined: Joined, protocol: Protocol, dropped: list[tuple[str, int]]) -> Joined:
    """Drop boxes that regions cover, detections too many in their file, and classes that are not evaluated.

    What (of ground truths after `TRUTHS`) and how many is appended to `dropped`. With a cap by file,
    `SideTable.place` is set; classes become those that they are evaluated as; and with ``detections_in`` of
    ``"file"`` scores are raised to those that follow in the file.
    """
    prefix_of_side = {"truth": TRUTHS, "detections": ""}
    if protocol.covered is not None and joined.regions is not None and len(joined.regions):
        for name, prefix in prefix_of_side.items():
            reason = f"{prefix}covered by regions to ignore"
            shares = _measure_covered_shares(joined, getattr(joined, name), joined.regions)
            joined = _keep(joined, dropped, reason, **{name: shares < protocol.covered})
    if protocol.cap_of == "file" and protocol.max_dets is not None:
        image = joined.detections.image
        position_in_file = rank_in_runs(first_of_runs(image), len(image))
        joined = replace(joined, detections=replace(joined.detections, place=position_in_file))
        reason = f"{OVER}{protocol.max_dets} per image"
        joined = _keep(joined, dropped, reason, detections=position_in_file < protocol.max_dets)
    if protocol.only or protocol.never:
        row_of_class = map_evaluated_classes(joined.classes, protocol)
        for name, prefix in prefix_of_side.items():
            side = getattr(joined, name)
            # Boxes of classes that are not evaluated keep theirs, as KITTI's detections stay.
            category = np.where(row_of_class[side.category] >= 0, row_of_class[side.category], side.category)
            joined = replace(joined, **{name: replace(side, category=category)})
            if name == "truth" or protocol.match != "truth":  # KITTI's objects take detections of any class
                reason = f"{prefix}of classes that are not evaluated"
                joined = _keep(joined, dropped, reason, **{name: row_of_class[category] >= 0})
    if protocol.detections_in == "file":
        scores = _raise_scores(joined.detections)
        joined = replace(joined, detections=replace(joined.detections, score=scores))
    return joined


def map_evaluated_classes(classes: Sequence[str], protocol: Protocol) -> Ints:
    """(classes,) for each class the row of the class that it is evaluated as, -1 = not evaluated.

    Where the protocol lists its classes, spellings that differ only in case are one class, the first of them.
    """
    listed_names = {name.casefold() for name in protocol.only}
    rows: dict[str, int] = {}
    for row, name in enumerate(classes):
        if name not in protocol.never and (not listed_names or name.casefold() in listed_names):
            rows.setdefault(name.casefold() if listed_names else name, row)
    return np.array([rows.get(name.casefold() if listed_names else name, -1) for name in classes], np.int32)


def _raise_scores(detections: SideTable) -> Floats:
    """(n,) for each detection the highest score of itself and of those of its image that follow it."""
    unique_scores, score_ranks = np.unique(detections.score, return_inverse=True)
    # From the end, each image above the next one, so that one running maximum is that of all images:
    # image 0 0 1 1 -> rank 5 2 1 3 + 0 0 -10 -10 -> from the end -7 -7 2 5
    image = detections.image.astype(np.int64)
    raised_ranks = score_ranks.reshape(-1) - image * (len(unique_scores) + 1)
    highest_ranks = np.maximum.accumulate(raised_ranks[::-1])[::-1] + image * (len(unique_scores) + 1)
    return unique_scores[highest_ranks]


def _round_away(values: Floats) -> Floats:
    """Round to whole numbers, halves away from zero."""
    return np.copysign(np.floor(np.abs(values) + 0.5), values)


def _measure_covered_shares(joined: Joined, side: SideTable, regions: SideTable) -> Floats:
    """(n,) the share of the pixels of each box that regions cover, as VisDrone's program counts them.

    Boxes are rounded, with corners and sides of at least 1; a region has a pixel more than its width, and a
    box begins a pixel after its left edge.
    """
    # The edges of all regions of an image divide it into a grid of unequal cells. A box covers a cell by the
    # product of the lengths shared along x and y.
    sizes = np.zeros((len(joined.images), 2)) if joined.sizes is None else joined.sizes.max(axis=0)
    limits = np.where(sizes > 0, sizes, np.inf)[:, ::-1]  # width, height
    shares = np.zeros(len(side))
    # Left, top, width and height of each region and box.
    region_xywh = np.maximum(_round_away(np.hstack([regions.xyxy[:, :2], regions.wh])), 1)
    box_xywh = np.maximum(_round_away(np.hstack([side.xyxy[:, :2], side.wh])), 1)
    for image in distinct(regions.image).tolist():
        rows = slice(*np.searchsorted(side.image, [image, image + 1]).tolist())
        image_regions, image_size = region_xywh[regions.image == image], limits[image]
        low = image_regions[:, :2] - 1
        high = np.minimum(image_regions[:, :2] + image_regions[:, 2:], image_size)
        start = np.minimum(box_xywh[rows, :2], image_size)
        stop = np.minimum(start + box_xywh[rows, 2:], image_size)
        grid_lines, is_painted = _paint_grid(low, high)
        # (boxes, cells) along x, and along y
        shared_lengths = [
            np.maximum(
                np.minimum(stop[:, k, None], grid_lines[k][1:])
                - np.maximum(start[:, k, None], grid_lines[k][:-1]),
                0,
            )
            for k in (0, 1)
        ]
        painted_areas = ((shared_lengths[0] @ is_painted) * shared_lengths[1]).sum(axis=1)
        shares[rows] = painted_areas / box_xywh[rows, 2:].prod(axis=1)
    return shares


def _paint_grid(low: Floats, high: Floats) -> tuple[list[Floats], Floats]:
    """Divide an image into cells by the edges of its regions, (n, 2) corners `low` and `high`.

    Returns the positions of the lines across x and across y, and (columns, rows) 1 for each cell that a
    region covers, else 0.
    """
    grid_lines = [np.unique(np.concatenate([low[:, axis], high[:, axis]])) for axis in (0, 1)]
    is_painted = np.zeros((len(grid_lines[0]) - 1, len(grid_lines[1]) - 1))
    for (x_low, y_low), (x_high, y_high) in zip(low.tolist(), high.tolist(), strict=True):
        left, right = np.searchsorted(grid_lines[0], [x_low, x_high])
        top, bottom = np.searchsorted(grid_lines[1], [y_low, y_high])
        is_painted[left:right, top:bottom] = 1
    return grid_lines, is_painted


def _add_regions(joined: Joined, regions: SideTable, *, truth_too: bool) -> Joined:
    """Add every region to ignore as a ground truth of each class that is detected on its image.

    With `truth_too` also of each class that has ground truth there. `Joined.regions` is then None.
    """
    keys = joined.keys_of(joined.detections)
    keys = np.concatenate([keys, joined.keys_of(joined.truth)]) if truth_too else keys
    image, category = np.divmod(distinct(keys), max(len(joined.classes), 1))
    region_starts, region_ends = (np.searchsorted(regions.image, image, side) for side in ("left", "right"))
    region_rows, key_index = expand_ranges(region_starts, region_ends - region_starts)
    copies = replace(regions.take(region_rows), category=category[key_index].astype(np.int32))
    columns = joined.truth.columns()
    new_columns = {name: np.concatenate([column, getattr(copies, name)]) for name, column in columns.items()}
    # The source of regions is that of the objects: they are boxes of one dataset.
    truth = replace(joined.truth, **new_columns, source=regions.source)
    return replace(joined, truth=truth.take(np.argsort(truth.image, kind="stable")), regions=None)


def _find_best_of_images(detections: SideTable, cap: int) -> Mask:
    """(n,) mask of the best `cap` detections of every image, of all classes; equal scores in their order."""
    if detections.rank_in_image is not None:
        return detections.rank_in_image < cap
    n_of_image = np.bincount(detections.image, minlength=1)  # of all classes
    if n_of_image.max() <= cap:
        return np.ones(len(detections), np.bool_)
    order = argsort_descending(detections.score)
    order = order[argsort_int(detections.image[order], len(n_of_image))]
    is_kept = np.zeros(len(detections), np.bool_)
    is_kept[order[rank_in_runs(np.cumsum(n_of_image) - n_of_image, len(order)) < cap]] = True
    return is_kept


def compared_areas(detections: SideTable, protocol: Protocol) -> Floats:
    """(n,) the areas by which detections are in an area range: width times height, or the area of a shape."""
    if protocol.measure != "bbox":
        return areas_of(detections)
    return detections.wh[:, 0] * detections.wh[:, 1]


def get_column(side: SideTable, name: str) -> Floats:
    """(n,) a column that a `Bound` limits: ``height`` or the numbers of a field, NaN where missing."""
    if name == "height":
        return side.wh[:, 1]
    if side.source is None or name not in side.source.extra:
        return np.full(len(side), np.nan)
    return numbers_of(side.source.extra[name])[side.row]


def find_outside(side: SideTable, area: AreaRange) -> Mask:
    """(n,) mask of the ground truths outside an area range; they count as nothing there."""
    is_outside: Mask = (areas_of(side) < area.low) | (areas_of(side) > area.high)
    for bound in area.also:
        values = get_column(side, bound.column)
        is_outside |= (values < bound.low) | (values > bound.high)
    return is_outside


def find_left_out(side: SideTable, area: AreaRange) -> Mask:
    """(n,) mask of the detections that an area range leaves out.

    These are outside its widened bounds, or come after the `AreaRange.first` ones of their image.
    """
    is_left_out = np.zeros(len(side), np.bool_)
    for bound in area.also:
        if bound.widened is not None:
            values = get_column(side, bound.column)
            is_left_out |= (values < bound.low / bound.widened) | (values >= bound.high * bound.widened)
    if area.first is not None and side.place is not None:
        is_left_out |= side.place >= area.first
    return is_left_out


def areas_of(side: SideTable) -> Floats:
    """(n,) the area of each box as its file has it, else width times height."""
    return np.where(np.isnan(side.area), side.wh[:, 0] * side.wh[:, 1], side.area)


# ------------------------------------------------------------------ labels of images, and the hierarchy
# Both say of classes what boxes do not: that one is on an image or is not, and which are kinds of others.


def add_labelled_images(truth: Dataset, labels: Iterable[Label], log: Log) -> Dataset:
    """Return the ground truth with the images that only the image-level labels name, and note how many.

    An image is known if its name fits without the extension, or without its folders: ``train/1.jpg`` is
    known as ``train/1``, and as ``1.jpg``.
    """
    images = truth.images
    stems = {stem(name) for name in images.name}
    known_names = stems | {last_part(name) for name in images.name}
    added: dict[str, str] = {}  # the first name of each stem
    for image in dict.fromkeys(image for image, _, _ in labels):
        if image and stem(image) not in known_names and last_part(image) not in stems:
            added.setdefault(stem(image), image)
    if not added:
        return truth
    n = len(added)
    subject = f"{n} images that only they name have" if n > 1 else "1 image that only they name has"
    log.note(f"image labels: {subject} no boxes and count{'' if n > 1 else 's'} as ground truth")
    blanks: dict[str, Any] = {
        "width": 0,
        "height": 0,
        "source_id": NO_ID,
        "path": "",
        "split": "",
        "file": -1,
        "line": 0,
    }
    # -1 is no video or frame; without these columns none is added.
    blanks |= {key: -1 for key in ("video", "frame") if getattr(images, key) is not None}
    columns: dict[str, Any] = {"name": (*images.name, *added.values())}
    for field, value in blanks.items():
        column = getattr(images, field)
        is_text = isinstance(column, tuple)
        columns[field] = (
            (*column, *[value] * n) if is_text else np.append(column, np.full(n, value, column.dtype))
        )
    return replace(truth, images=Images(**columns))


def add_labels_and_ancestors(joined: Joined, labels: Iterable[Label] | None, log: Log) -> Joined:
    """Return the sides with image-level labels and with the classes that the hierarchy adds (`Joined.added`).

    A class is added if it is an ancestor of a class of the ground truth's boxes or labels and on neither
    side. Raises UsageError if the hierarchy names none of the classes.
    """
    if labels is not None:
        joined = _add_labels(joined, labels, log)
    if joined.hierarchy is None:
        return joined
    class_names = set(joined.classes)
    # Any class that the hierarchy names, as a descendant or as an ancestor, will do.
    if not class_names & (joined.hierarchy.keys() | set().union(*joined.hierarchy.values())):
        raise UsageError("the class hierarchy contains none of these classes: use one with the same names")
    ancestors_of = _find_ancestors(joined)
    named_rows = {*distinct(joined.truth.category).tolist()}
    if joined.image_labels is not None:
        named_rows.update(joined.image_labels[1].tolist())
    added_names = {ancestor for c in named_rows for ancestor in ancestors_of.get(joined.classes[c], ())}
    return replace(joined, added=tuple(sorted(added_names - class_names)))


def _add_labels(joined: Joined, labels: Iterable[Label], log: Log) -> Joined:
    """Add image-level labels to the joined sides, as rows of image, class and state; note how many apply.

    They come after those that the sides have. An image may be named without its extension or its folders.
    """
    row_of_image = {name: i for i, name in enumerate(joined.images)}
    stems = index_unique_keys(stem(name) for name in joined.images)
    last_parts = index_unique_keys(last_part(name) for name in joined.images)
    numbers = {name: i for i, name in enumerate(joined.classes)}
    ancestors_of = joined.hierarchy or {}

    @functools.cache
    def find_class_rows(category: str, positive: bool) -> list[int]:
        """List the numbers of the classes that a label concerns.

        A label of a class that is not evaluated concerns its ancestors if positive, its descendants if
        negative.
        """
        if category in numbers:
            return [numbers[category]]
        if positive:
            return [numbers[name] for name in sorted(ancestors_of.get(category, ())) if name in numbers]
        return [numbers[name] for name in numbers if category in ancestors_of.get(name, ())]

    rows: list[tuple[int, int, bool]] = []
    n_labels = 0
    for image, category, positive in labels:
        n_labels += 1
        image_row = row_of_image.get(image, stems.get(stem(image), last_parts.get(last_part(image), -1)))
        if image_row >= 0:
            rows += ((image_row, c, positive) for c in find_class_rows(category, positive))
    log.note(f"image labels: {len(rows)} of {n_labels} rows concern images and classes of this evaluation")
    labels_columns = _make_label_columns(rows)
    if joined.image_labels is not None:
        (images, classes, states), (new_images, new_classes, new_states) = joined.image_labels, labels_columns
        labels_columns = np.r_[images, new_images], np.r_[classes, new_classes], np.r_[states, new_states]
    return replace(joined, image_labels=labels_columns)


def _make_label_columns(rows: Iterable[tuple[int, int, int]]) -> Labels:
    """Return rows of (image, class, state) as three columns, each (n,)."""
    image, category, state = list(zip(*rows, strict=True)) or [(), (), ()]
    return np.array(image, np.int64), np.array(category, np.int64), np.array(state, np.uint8)


def has_label(joined: Joined, *states: LabelState, boxed: bool = False) -> Mask:
    """(n,) mask of the detections whose class has a label of one of `states` on its image.

    With `boxed` also those whose class has a ground truth there.
    """
    keys = joined.keys_of(joined.truth) if boxed else np.zeros(0, np.int64)
    if joined.image_labels is not None:
        image, category, state = joined.image_labels
        has_state = np.isin(state, states)
        keys = np.concatenate([keys, image[has_state] * len(joined.classes) + category[has_state]])
    return np.isin(joined.keys_of(joined.detections), keys)


def parse_hierarchy(hierarchy: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Return the ancestors of every class below a class, from ``{"LabelName": ..., "Subcategory": [...]}``.

    Only ``Subcategory`` leads down: a part of a thing (``Part``) is not a kind of it. Raises UsageError if
    `hierarchy` is not such a tree, or nested more than a hundred deep.
    """
    ancestors_of_class: dict[str, set[str]] = {}
    todo: list[tuple[Any, tuple[str, ...]]] = [(hierarchy, ())]
    while todo:
        node, path = todo.pop()
        # None for a node that is no mapping: its name is then not asked for.
        children = node.get("Subcategory", []) if isinstance(node, Mapping) else None
        if not isinstance(children, list) or not isinstance(name := node.get("LabelName"), str):
            raise UsageError(
                "class hierarchy: expected {'LabelName': name, 'Subcategory': [...]} at each node"
            )
        ancestors_of_class.setdefault(name, set()).update(path)
        if name in path or len(path) > 100:
            raise UsageError(f"class hierarchy: {name!r} is its own ancestor, or is nested too deeply")
        todo += [(child, (*path, name)) for child in children]
    return {name: frozenset(names) for name, names in ancestors_of_class.items() if names}


def _find_ancestors(joined: Joined) -> dict[str, list[str]]:
    """Return the ancestors of each class, without roots that are no classes of the data."""
    hierarchy = joined.hierarchy or {}
    roots = {n for names in hierarchy.values() for n in names} - hierarchy.keys()
    skipped = roots - set(joined.classes)
    return {name: sorted(names - skipped - {name}) for name, names in hierarchy.items() if names - skipped}


def expand_hierarchy(joined: Joined) -> Joined:
    """Repeat ground truths, and labels, for every ancestor of their class, once each.

    A positive or partial image label holds for the ancestors, a negative one for the descendants. The root
    of a tree is a class only where the data use it as one (that of Open Images, "Entity", is none).
    """
    ancestors_of = _find_ancestors(joined)
    descendants_of: dict[str, list[str]] = {}
    for name, names in ancestors_of.items():
        for ancestor in names:
            descendants_of.setdefault(ancestor, []).append(name)
    classes = [*joined.classes, *joined.added]
    row_of = {name: i for i, name in enumerate(classes)}

    # For each class the rows of its ancestors and of its descendants, as far as they are classes.
    up_rows = [[row_of[kin] for kin in ancestors_of.get(name, ()) if kin in row_of] for name in classes]
    down_rows = [[row_of[kin] for kin in descendants_of.get(name, ()) if kin in row_of] for name in classes]

    # Each ground truth, and after it a copy for each ancestor.
    n_ancestors = np.array([len(rows) for rows in up_rows], np.int64)
    source_rows = np.repeat(np.arange(len(joined.truth)), 1 + n_ancestors[joined.truth.category])
    category = np.fromiter(
        (c for class_row in joined.truth.category.tolist() for c in (class_row, *up_rows[class_row])),
        np.int32,
        len(source_rows),
    )
    truth = replace(joined.truth.take(source_rows), category=category)
    labels = joined.image_labels
    if labels is not None:
        rows: list[tuple[int, int, int]] = []
        for image, class_row, state in zip(*(column.tolist() for column in labels), strict=True):
            kin_rows = down_rows[class_row] if state == LabelState.ABSENT else up_rows[class_row]
            rows += ((image, c, state) for c in (class_row, *kin_rows))
        labels = _make_label_columns(rows)
    return replace(joined, classes=tuple(classes), truth=truth, image_labels=labels)
