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
from odm.evaluate.matching.pairs import geometry
from odm.evaluate.matching.sides import Joined, Label, Labels, Mask, SideTable, keep_wanted
from odm.evaluate.scores.protocols import Protocol
from odm.evaluate.scores.set_ups import AreaRange
from odm.issues import Log, UsageError
from odm.names import stem
from odm.pairing import last_part, unique
from odm.tables import NO_ID, Dataset, Floats, Images, Ints, LabelState, Longs, distinct
from odm.tables.extra_fields import numbers_of


def prepare(joined: Joined, protocol: Protocol) -> tuple[Joined, tuple[tuple[str, int], ...]]:
    """Apply a protocol's filters.

    Returns the joined sides and, for each filter, (what it drops, how many).
    """
    if protocol.hierarchical and joined.hierarchy:
        joined = expand(joined)
    if joined.wanted is not None:
        joined = keep_wanted(joined)
    if protocol.whole_corners:
        joined = replace(joined, truth=_cut(joined.truth))
    if protocol.clipped and joined.sizes is not None:
        joined = _all_clipped(joined, *joined.sizes)
    dropped: list[tuple[str, int]] = []

    def keep(what: str, **sides: Mask) -> None:
        nonlocal joined
        joined = _kept(joined, dropped, what, **sides)

    if protocol.single:
        # Scores as 32-bit floats: the shortest decimals that stand for them, so that 0.9 is shown as 0.9.
        single = joined.detections.score.astype(np.float32)
        exact = single.astype(np.float64)
        short = np.round(exact, 7)
        score = np.where(short.astype(np.float32) == single, short, exact)
        joined = replace(joined, detections=replace(joined.detections, score=score))
    if protocol.drop_flags:
        dropped_flags = joined.truth.flags & np.uint16(protocol.drop_flags)
        keep(f"{TRUTHS}flagged as {protocol.drop_words}", truth=dropped_flags == 0)
    if protocol.drop_repeated:
        truth = joined.truth  # of those of one image, class and box the first
        columns: list[NDArray[Any]] = [truth.image, truth.category]
        columns += geometry(truth.xyxy, truth.wh, protocol)[:4]
        if protocol.measure == "pose" and truth.source is not None and truth.source.keypoints is not None:
            points = truth.source.keypoints.take(truth.row).xyv
            columns += [*points.reshape(len(truth), 3 * len(protocol.sigmas)).T]
        order = np.lexsort(columns[::-1])  # equal ones stay in their order
        first = np.zeros(len(truth), np.bool_)
        first[order[first_of_runs(*(column[order] for column in columns))]] = True
        keep(f"{TRUTHS}that duplicate another", truth=first)
    if protocol.score_above is not None:
        above = joined.detections.score > protocol.score_above
        keep(f"score {protocol.score_above:g} or lower", detections=above)
    joined = _chosen(joined, protocol, dropped)
    if protocol.cap_of == "image" and protocol.max_dets is not None:
        best = _best_of_images(joined.detections, protocol.max_dets)
        keep(f"{OVER}{protocol.max_dets} per image", detections=best)
    if protocol.drop_empty:
        boxes = joined.detections
        has_area: Mask = compared_areas(boxes, protocol) > 0
        if not protocol.as_given:
            has_area = np.all(boxes.xyxy[:, 2:] > boxes.xyxy[:, :2], axis=1)
        keep("without area", detections=has_area)
    if protocol.drop_empty_truth:
        keep(f"{TRUTHS}without area", truth=areas_of(joined.truth) > 0)
    if protocol.labelled_only:
        mask = has_label(joined, LabelState.PRESENT, LabelState.ABSENT, boxed=True)
        keep("class neither annotated nor labelled on the image", detections=mask)
    if joined.regions is not None:
        joined = (
            _with_regions(joined, joined.regions, truth_too=bool(protocol.jaccard))
            if protocol.region_flags
            else replace(joined, regions=None)
        )
    return joined, tuple(dropped)


def _cut(side: SideTable) -> SideTable:
    """The boxes from the first to the third corner of what was drawn, cut to whole numbers."""
    xyxy = side.xyxy.copy()
    if side.source is not None and side.source.shapes is not None:
        cornered = np.flatnonzero(side.source.shapes.four_cornered()[side.row])
        xyxy[cornered] = side.source.shapes.corners(side.row[cornered])[:, [0, 2]].reshape(-1, 4)
    xyxy = np.trunc(xyxy)
    return replace(side, xyxy=xyxy, wh=xyxy[:, 2:] - xyxy[:, :2])


def _all_clipped(joined: Joined, ours: Longs, theirs: Longs) -> Joined:
    """The boxes within their images, whose (images, 2) sizes are `theirs`, or else `ours`."""
    height, width = np.where(theirs > 0, theirs, ours).T
    known = np.stack([width - 1, height - 1, width, height], axis=1).astype(np.float64)
    limits = np.where((height > 0) & (width > 0), known.T, np.inf).T
    sides = {name: getattr(joined, name) for name in ("truth", "detections", "regions")}
    return replace(joined, **{name: side and _clipped(side, limits) for name, side in sides.items()})


def _clipped(side: SideTable, limits: Floats) -> SideTable:
    """The boxes between 0 and the (images, 4) highest corners of their image."""
    xyxy = np.clip(side.xyxy, 0, limits[side.image])
    return replace(side, xyxy=xyxy, wh=xyxy[:, 2:] - xyxy[:, :2])


def _kept(joined: Joined, dropped: list[tuple[str, int]], what: str, **sides: Mask) -> Joined:
    """The sides with some of their boxes; `dropped` is told what is left out and how much."""
    n = sum(int(np.count_nonzero(~mask)) for mask in sides.values())
    dropped.append((what, n))
    return joined.only(**sides) if n else joined


def _chosen(joined: Joined, protocol: Protocol, dropped: list[tuple[str, int]]) -> Joined:
    """The sides without what regions cover, detections too many in their file, and classes left out."""
    if protocol.covered is not None and joined.regions is not None and len(joined.regions):
        for name in ("truth", "detections"):
            what = TRUTHS * (name == "truth") + "covered by regions to ignore"
            shares = _covered_shares(joined, getattr(joined, name), joined.regions)
            joined = _kept(joined, dropped, what, **{name: shares < protocol.covered})
    if protocol.cap_of == "file" and protocol.max_dets is not None:
        image = joined.detections.image
        place = rank_in_runs(first_of_runs(image), len(image))
        joined = replace(joined, detections=replace(joined.detections, place=place))
        what = f"{OVER}{protocol.max_dets} per image"
        joined = _kept(joined, dropped, what, detections=place < protocol.max_dets)
    if protocol.only or protocol.never:
        rows = evaluated_rows(joined.classes, protocol)
        for name in ("truth", "detections"):
            side = getattr(joined, name)
            category = np.where(rows[side.category] >= 0, rows[side.category], side.category)
            joined = replace(joined, **{name: replace(side, category=category)})
            if name == "truth" or protocol.match != "truth":  # which looks at detections of every class
                what = TRUTHS * (name == "truth") + "of classes that are not evaluated"
                joined = _kept(joined, dropped, what, **{name: rows[category] >= 0})
    if protocol.detections_in == "file":
        scores = _scores_down_the_file(joined.detections)
        joined = replace(joined, detections=replace(joined.detections, score=scores))
    return joined


def evaluated_rows(classes: Sequence[str], protocol: Protocol) -> Ints:
    """(classes,) the class as which each is evaluated, of several spellings the first; -1 = none."""
    only = {name.casefold() for name in protocol.only}
    rows: dict[str, int] = {}
    for row, name in enumerate(classes):
        if name not in protocol.never and (not only or name.casefold() in only):
            rows.setdefault(name.casefold() if only else name, row)
    return np.array([rows.get(name.casefold() if only else name, -1) for name in classes], np.int32)


def _scores_down_the_file(detections: SideTable) -> Floats:
    """(n,) for each detection the highest score of itself and of those of its image that follow it."""
    values, rank = np.unique(detections.score, return_inverse=True)
    # From the end, each image above the next one, so that one running maximum is that of all images:
    # image 0 0 1 1 -> rank 5 2 1 3 + 0 0 -10 -10 -> from the end -7 -7 2 5
    image = detections.image.astype(np.int64)
    raised = rank.reshape(-1) - image * (len(values) + 1)
    highest = np.maximum.accumulate(raised[::-1])[::-1] + image * (len(values) + 1)
    scores: Floats = values[highest]
    return scores


def _round_away(values: Floats) -> Floats:
    """Rounded to whole numbers, halves away from zero."""
    rounded: Floats = np.copysign(np.floor(np.abs(values) + 0.5), values)
    return rounded


def _covered_shares(joined: Joined, side: SideTable, regions: SideTable) -> Floats:
    """(n,) the share of the pixels of each box that regions cover, as VisDrone's program counts them.

    Boxes are rounded, with corners and sides of at least 1; a region has a pixel more than its width, and a
    box begins a pixel after its left edge.
    """
    sizes = np.zeros((len(joined.images), 2)) if joined.sizes is None else joined.sizes.max(axis=0)
    limits = np.where(sizes > 0, sizes, np.inf)[:, ::-1]  # width, height
    shares = np.zeros(len(side))
    corners = np.maximum(_round_away(np.hstack([regions.xyxy[:, :2], regions.wh])), 1)
    boxes = np.maximum(_round_away(np.hstack([side.xyxy[:, :2], side.wh])), 1)
    for image in distinct(regions.image).tolist():
        at = slice(*np.searchsorted(side.image, [image, image + 1]).tolist())
        region_boxes, limit = corners[regions.image == image], limits[image]
        low, high = region_boxes[:, :2] - 1, np.minimum(region_boxes[:, :2] + region_boxes[:, 2:], limit)
        start = np.minimum(boxes[at, :2], limit)
        stop = np.minimum(start + boxes[at, 2:], limit)
        lines = [np.unique(np.concatenate([low[:, axis], high[:, axis]])) for axis in (0, 1)]
        painted = np.zeros((len(lines[0]) - 1, len(lines[1]) - 1))
        for x, y in zip(low.tolist(), high.tolist(), strict=True):
            (left, right), (top, bottom) = (np.searchsorted(lines[k], [x[k], y[k]]) for k in (0, 1))
            painted[left:right, top:bottom] = 1
        lengths = [
            np.maximum(
                np.minimum(stop[:, k, None], lines[k][1:]) - np.maximum(start[:, k, None], lines[k][:-1]), 0
            )
            for k in (0, 1)
        ]
        shares[at] = ((lengths[0] @ painted) * lengths[1]).sum(axis=1) / boxes[at, 2:].prod(axis=1)
    return shares


def _with_regions(joined: Joined, regions: SideTable, *, truth_too: bool) -> Joined:
    """Add every region to ignore as a ground truth of each class that is detected on its image.

    With `truth_too` also of those that have ground truth there.
    """
    keys = joined.keys_of(joined.detections)
    keys = np.concatenate([keys, joined.keys_of(joined.truth)]) if truth_too else keys
    image, category = np.divmod(distinct(keys), max(len(joined.classes), 1))
    first, end = (np.searchsorted(regions.image, image, side) for side in ("left", "right"))
    n = end - first
    copies = regions.take(np.repeat(first - np.cumsum(n) + n, n) + np.arange(n.sum()))
    copies = replace(copies, category=np.repeat(category, n).astype(np.int32))
    columns = joined.truth.columns()
    together = {name: np.concatenate([column, getattr(copies, name)]) for name, column in columns.items()}
    truth = replace(joined.truth, **together, source=regions.source)
    return replace(joined, truth=truth.take(np.argsort(truth.image, kind="stable")), regions=None)


def _best_of_images(detections: SideTable, cap: int) -> Mask:
    """(n,) mask of the best `cap` detections of every image, of all classes; equal scores in their order."""
    if detections.rank_in_image is not None:
        return detections.rank_in_image < cap
    n = np.bincount(detections.image, minlength=1)
    if n.max() <= cap:
        return np.ones(len(detections), np.bool_)
    order = argsort_descending(detections.score)
    order = order[argsort_int(detections.image[order], len(n))]
    keep = np.zeros(len(detections), np.bool_)
    keep[order[rank_in_runs(np.cumsum(n) - n, len(order)) < cap]] = True
    return keep


def compared_areas(detections: SideTable, protocol: Protocol) -> Floats:
    """(n,) what area ranges ask of detections: width times height, of shapes the area that is given."""
    if protocol.measure != "bbox":
        return areas_of(detections)
    return detections.wh[:, 0] * detections.wh[:, 1]


def column_of(side: SideTable, name: str) -> Floats:
    """(n,) a column of `Bound`: the height of boxes, or the numbers of a field, NaN where there is none."""
    if name == "height":
        return side.wh[:, 1]
    if side.source is None or name not in side.source.extra:
        return np.full(len(side), np.nan)
    return numbers_of(side.source.extra[name])[side.row]


def outside_of(side: SideTable, area: AreaRange) -> Mask:
    """(n,) which ground truths are outside a set-up."""
    outside: Mask = (areas_of(side) < area.low) | (areas_of(side) > area.high)
    for bound in area.also:
        values = column_of(side, bound.column)
        outside |= (values < bound.low) | (values > bound.high)
    return outside


def left_out(side: SideTable, area: AreaRange) -> Mask:
    """(n,) which detections a set-up leaves out."""
    outside = np.zeros(len(side), np.bool_)
    for bound in area.also:
        if bound.widened is not None:
            values = column_of(side, bound.column)
            outside |= (values < bound.low / bound.widened) | (values >= bound.high * bound.widened)
    if area.first is not None and side.place is not None:
        outside |= side.place >= area.first
    return outside


def areas_of(side: SideTable) -> Floats:
    """(n,) areas as given, else width times height."""
    return np.where(np.isnan(side.area), side.wh[:, 0] * side.wh[:, 1], side.area)


# ------------------------------------------------------------------ labels of images, and the hierarchy
# Both say of classes what boxes do not: that one is on an image or is not, and which are kinds of others.


def with_labelled_images(truth: Dataset, labels: Iterable[Label], log: Log) -> Dataset:
    """Return the ground truth with the images that only the image-level labels name."""
    images = truth.images
    stems = {stem(name) for name in images.name}
    known = stems | {last_part(name) for name in images.name}
    added: dict[str, str] = {}
    for image in dict.fromkeys(image for image, _, _ in labels):
        if image and stem(image) not in known and last_part(image) not in stems:
            added.setdefault(stem(image), image)
    if not added:
        return truth
    n = len(added)
    which = f"{n} images that only they name have" if n > 1 else "1 image that only they name has"
    log.note(f"image labels: {which} no boxes and count{'' if n > 1 else 's'} as ground truth")
    more: dict[str, Any] = {"width": 0, "height": 0, "source_id": NO_ID, "path": "", "split": "", "file": -1}
    more |= {key: -1 for key in ("video", "frame") if getattr(images, key) is not None}
    columns: dict[str, Any] = {"name": (*images.name, *added.values())}
    for key, value in {**more, "line": 0}.items():
        column = getattr(images, key)
        is_text = isinstance(column, tuple)
        columns[key] = (
            (*column, *[value] * n) if is_text else np.append(column, np.full(n, value, column.dtype))
        )
    return replace(truth, images=Images(**columns))


def with_known(joined: Joined, labels: Iterable[Label] | None, log: Log) -> Joined:
    """Return the sides with these image-level labels added, and with the classes that the hierarchy adds.

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
    added = {other for c in named for other in above.get(joined.classes[c], ())}
    return replace(joined, added=tuple(sorted(added - classes)))


def _with_labels(joined: Joined, labels: Iterable[Label], log: Log) -> Joined:
    """Add image-level labels to the joined sides, as rows of image, class and state."""
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
    if (earlier := joined.image_labels) is not None:
        columns = (
            np.r_[earlier[0], columns[0]],
            np.r_[earlier[1], columns[1]],
            np.r_[earlier[2], columns[2]],
        )
    return replace(joined, image_labels=columns)


def _columns(rows: Iterable[tuple[int, int, int]]) -> Labels:
    image, category, state = list(zip(*rows, strict=True)) or [(), (), ()]
    return np.array(image, np.int64), np.array(category, np.int64), np.array(state, np.uint8)


def has_label(joined: Joined, *states: LabelState, boxed: bool = False) -> Mask:
    """(n,) mask of the detections whose class has a label of one of `states` on its image, or is `boxed`
    there.
    """
    keys = joined.keys_of(joined.truth) if boxed else np.zeros(0, np.int64)
    if joined.image_labels is not None:
        image, category, state = joined.image_labels
        has_state = np.isin(state, states)
        keys = np.concatenate([keys, image[has_state] * len(joined.classes) + category[has_state]])
    is_labelled: Mask = np.isin(joined.keys_of(joined.detections), keys)
    return is_labelled


def ancestors(hierarchy: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Return the ancestors of every class below a class, from ``{"LabelName": ..., "Subcategory": [...]}``.

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
    """Repeat ground truths, and labels, for every ancestor of their class, once each.

    A positive or partial image label holds for the ancestors, a negative one for the descendants. The root
    of a tree is a class only where the data use it as one (that of Open Images, "Entity", is none).
    """
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
        (c for class_row in joined.truth.category.tolist() for c in (class_row, *up[class_row])),
        np.int32,
        len(source),
    )
    truth = replace(joined.truth.take(source), category=category)
    labels = joined.image_labels
    if labels is not None:
        rows = [
            (image, c, state)
            for image, class_row, state in zip(*(column.tolist() for column in labels), strict=True)
            for c in (class_row, *(down[class_row] if state == LabelState.ABSENT else up[class_row]))
        ]
        labels = _columns(rows)
    return replace(joined, classes=tuple(classes), truth=truth, image_labels=labels)
