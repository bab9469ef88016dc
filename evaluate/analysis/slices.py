"""Evaluate parts of the data: images by property, boxes by area and shape, ground truth by flag.

Slices of images reweigh the matches with 0 and 1, which is exact and needs no new matching. Slices of boxes
are what COCO's area ranges are: ground truths outside are ignored, and so are detections outside that match
nothing. Slices that only ground truths have (truncated, ...) have no precision: detections do not tell
whether they are of the slice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from odm.evaluate.analysis.bootstrap import Interval, Resampling, bootstrap, delta_interval, subtract
from odm.evaluate.analysis.outcome_table import TP
from odm.evaluate.analysis.replicates import Plan, Replicates, mean_of_defined
from odm.evaluate.analysis.table import Table, find_hits, tabulate
from odm.evaluate.matching.match import match
from odm.evaluate.matching.prepare import areas_of, compared_areas
from odm.evaluate.matching.shapes import iterate_pairs
from odm.evaluate.matching.sides import Joined, Mask, merge_classes
from odm.evaluate.results import to_plain
from odm.evaluate.scores.protocols import Protocol
from odm.evaluate.scores.set_ups import AreaBits
from odm.issues import UsageError
from odm.tables import Flag, Longs

NONE = "(none)"
"""The value of images without a tag."""

GT_PER_IMAGE = (("0", 0, 0), ("1", 1, 1), ("2-5", 2, 5), ("6-20", 6, 20), ("more", 21, math.inf))
ASPECTS = (
    ("tall, w/h <= 0.75", 0.0, 0.75),
    ("0.75 to 1.33", 0.75, 1.33),
    ("wide, w/h > 1.33", 1.33, math.inf),
)
OVERLAP = 0.1
"""IoU with another counting ground truth, of any class, from which on a ground truth overlaps."""

_OUTSIDE = np.uint16(1 << 15)
"""A flag that no format sets: the boxes outside a slice."""


class ImageSlice(msgspec.Struct, frozen=True, eq=False):
    """Some images: ``name`` is the property that they are grouped by, ``value`` its value."""

    name: str
    value: str
    images: Longs
    """Numbers of the images."""


def slice_by_tags(images: Sequence[str], tags: Mapping[str, Mapping[str, Sequence[str]]]) -> list[ImageSlice]:
    """Make a slice for each value of each tag; images without a value are in ``(none)``.

    `images` are the names of all images; `tags` has by the name of a tag, for each image, all its values.
    """
    slices = []
    for name, of_images in tags.items():
        members: dict[str, list[int]] = {}
        for i, image in enumerate(images):
            for value in of_images.get(image) or [NONE]:
                members.setdefault(value, []).append(i)
        slices += [
            ImageSlice(name, value, np.unique(np.array(members[value], np.int64)))
            for value in sorted(members, key=lambda value: (value == NONE, value))  # (none) last
        ]
    return slices


def slice_by_count(table: Table) -> list[ImageSlice]:
    """Make slices of the images by their number of counting ground truths."""
    n_gt = np.bincount(table.truth.image[table.counting], minlength=len(table.images))
    return [
        ImageSlice("gt per image", value, np.flatnonzero((n_gt >= low) & (n_gt <= high)))
        for value, low, high in GT_PER_IMAGE
    ]


def image_slices(
    table: Table, slices: Iterable[ImageSlice], draws: Resampling | None = None
) -> list[dict[str, Any]]:
    """Compute the summary of each slice, and its difference from the other images.

    Slices may overlap, and may be empty. There are intervals if `draws` has replicates. Each row has
    ``slice``, ``value``, ``images``, ``gt``, and by key ``summary`` and ``delta``, ``low``, ``high`` (the
    slice less the rest). None = undefined.
    """
    plan, draws = Plan(table), draws or Resampling(replicates=0)
    rows: list[dict[str, Any]] = []
    for image_slice in slices:
        inside, outside = _split_images(plan, image_slice, draws)
        n_behind = min(plan.count_images_behind(inside), plan.count_images_behind(outside))
        # The rest comes first: differences are from the first plan.
        rows += _compute_differences(
            image_slice, inside, [_Within(plan, outside), _Within(plan, inside)], n_behind, draws
        )
    return rows


def compare_slices(
    names: Sequence[str], plans: Sequence[Plan], slices: Sequence[ImageSlice], draws: Resampling
) -> list[dict[str, Any]]:
    """Compute each slice under each run but the first, with the difference from the first.

    The rows are those of `image_slices` with ``run``; ``delta``, ``low`` and ``high`` are of the run less the
    first run, on the images of the slice.
    """
    rows = []
    for image_slice in slices:
        inside, _ = _split_images(plans[0], image_slice, draws)
        n_behind, plans_within = plans[0].count_images_behind(inside), [_Within(p, inside) for p in plans]
        differences = _compute_differences(image_slice, inside, plans_within, n_behind, draws)
        rows += [{"run": name, **row} for name, row in zip(names[1:], differences, strict=True)]
    return rows


def _split_images(plan: Plan, image_slice: ImageSlice, draws: Resampling) -> tuple[Longs, Longs]:
    """Return the numbers of the images of a slice, and of the other images that are drawn from."""
    images = plan.table.evaluated if draws.images is None else np.asarray(draws.images)
    inside = np.intersect1d(image_slice.images, images)
    return inside, np.setdiff1d(images, inside)


class _Within(Plan):
    """A plan that counts only some images, whatever is drawn; it shares all that the other plan prepared."""

    def __init__(self, plan: Plan, images: Longs) -> None:
        self.__dict__.update(plan.__dict__)
        self.inside = np.zeros(plan.n_images, np.int64)
        self.inside[images] = 1

    def compute(self, weights: Longs) -> Replicates:
        """Compute the metrics with the weights, (weightings, images), of all other images set to 0."""
        return super().compute(weights * self.inside)


def _compute_differences(
    image_slice: ImageSlice, inside: Longs, plans: Sequence[Plan], n: float, draws: Resampling
) -> Iterator[dict[str, Any]]:
    """Yield a row for each plan but the first: its summary, and how it differs from that of the first.

    `inside` are the numbers of the images of the slice. The intervals of differences rest on `n` images (see
    `Plan.count_images_behind`); they are NaN if `draws` have no replicates.
    """
    table, no_interval = plans[0].table, Interval()
    samples = bootstrap(plans, draws) if draws.replicates else []
    # Each image once: the summaries of this one weighting have arrays (1,), so `value[0]` is the estimate.
    unit_weights = np.ones((1, plans[0].n_images), np.int64)
    first_summary, *other_summaries = (plan.compute(unit_weights).summary for plan in plans)
    for i, summary in enumerate(other_summaries, 1):
        delta = {
            key: subtract(float(first_summary[key][0]), float(value[0])) for key, value in summary.items()
        }
        bounds = {
            key: delta_interval(
                samples[0].summary[key],
                samples[i].summary[key],
                delta[key],
                n,
                level=draws.level,
                lower_is_better=key in plans[0].lower_keys,
            )
            for key in (delta if samples else ())
        }
        yield {
            "slice": image_slice.name,
            "value": image_slice.value,
            "images": len(inside),
            "gt": int(np.isin(table.truth.image[table.counting], inside).sum()),
            "summary": {key: to_plain(float(value[0])) for key, value in summary.items()},
            "delta": {key: to_plain(value) for key, value in delta.items()},
            "low": {key: to_plain(bounds.get(key, no_interval).low) for key in delta},
            "high": {key: to_plain(bounds.get(key, no_interval).high) for key in delta},
        }


# ------------------------------------------------------------------------------------------------ boxes


def box_slices(joined: Joined, rules: Protocol) -> list[dict[str, Any]]:
    """Compute the summary for boxes of each area range and each range of width / height.

    Each row has ``slice``, ``value``, ``gt`` and ``summary``, None = undefined; the area ranges of the
    protocol beyond the first have no numbers here. There are no rows if coordinates are fractions of images
    of unknown size. Raises UsageError if the protocol does not count every object.
    """
    _require_boxes(rules)
    from odm.evaluate.scores.set_ups import AREAS

    if joined.relative:
        return []

    truth, detections = joined.truth, joined.detections
    area, det_area = areas_of(truth), compared_areas(detections, rules)
    slices = [
        ("area", bounds.name, [(a >= bounds.low) & (a <= bounds.high) for a in (area, det_area)])
        for bounds in list(AREAS.values())[1:]  # small, medium and large; the first is that of all boxes
    ]
    with np.errstate(invalid="ignore", divide="ignore"):
        # Boxes without width and height (0 / 0) count as squares.
        shapes = [np.nan_to_num(side.wh[:, 0] / side.wh[:, 1], nan=1.0) for side in (truth, detections)]
    slices += [
        # Ranges are open below, but the first one has 0, too.
        ("aspect", value, [((s > low) | (i == 0)) & (s <= high) for s in shapes])
        for i, (value, low, high) in enumerate(ASPECTS)
    ]
    tables = (_match_inside(joined, rules, *inside) for _, _, inside in slices)
    return [
        {
            "slice": name,
            "value": value,
            "gt": int(table.n.sum()),
            "summary": {key: to_plain(v) for key, v in table.result.summary.items() if key not in _RANGES},
        }
        for (name, value, _), table in zip(slices, tables, strict=True)
    ]


def _require_boxes(rules: Protocol) -> None:
    """Refuse a protocol that does not count every object. Raises UsageError."""
    if rules.metric in ("corloc", "top-k"):
        raise UsageError(f"{rules.name} does not count every object, so boxes cannot be sliced")


def _match_inside(
    joined: Joined, rules: Protocol, truth_inside: Mask, detections_inside: Mask | None
) -> Table:
    """Make the table in which boxes outside the range are ignored: ground truths and unmatched detections.

    The masks are (boxes,) of the sides of `joined`; with None no detection is outside. Only the first area
    range of `rules` is kept.
    """
    flags = np.where(truth_inside, joined.truth.flags, joined.truth.flags | _OUTSIDE)
    joined = replace(joined, truth=replace(joined.truth, flags=flags.astype(np.uint16)))
    rules = replace(rules, ignored=Flag(int(rules.ignored) | int(_OUTSIDE)), areas=rules.areas[:1])
    matches = match(joined, rules)
    if detections_inside is not None:
        is_inside_by_row = np.zeros(int(joined.detections.row.max(initial=0)) + 1, np.bool_)
        is_inside_by_row[joined.detections.row] = detections_inside
        # Bit 0 of each detection, for the only area range: whether it is a false positive if unmatched.
        fp_bits = AreaBits(1) if matches.fp_if_unmatched is None else matches.fp_if_unmatched
        matches = replace(
            matches,
            fp_if_unmatched=np.where(is_inside_by_row[matches.row], fp_bits, AreaBits(0)).astype(AreaBits),
        )
    return tabulate(joined, matches)


_RANGES = {"APs", "APm", "APl", "ARs", "ARm", "ARl"}

_MARKS = (("truncated", Flag.TRUNCATED), ("occluded", Flag.OCCLUDED), ("difficult", Flag.DIFFICULT))


def truth_slices(joined: Joined, rules: Protocol) -> list[dict[str, Any]]:
    """Compute the recall of ground truths that are truncated, occluded, difficult, or overlap others.

    Difficult ground truths count in their own slice, whatever the protocol ignores; crowds do not.
    Overlapping ones have an IoU of 0.1 or more with another one that counts, of any class. Each row has
    ``slice``, ``value``, ``gt``, ``recall`` (at the reference IoU), ``AR`` (mean over the IoU thresholds),
    ``mean_iou`` (of what was found), ``missed``, and ``AP``, which is None. Recalls are means over classes
    with ground truth in the slice. Raises UsageError if the protocol does not count every object.
    """
    _require_boxes(rules)
    flags = joined.truth.flags
    rows = []
    for value, flag in _MARKS:
        inside = (flags & np.uint16(flag)) != 0
        slice_rules = rules
        if flag == Flag.DIFFICULT:
            slice_rules = replace(rules, ignored=rules.ignored & ~Flag.DIFFICULT)
        rows.append(_make_truth_slice(joined, slice_rules, value, inside))
    rows.append(_make_truth_slice(joined, rules, "overlapping", _find_overlapping(joined, rules)))
    return rows


def _make_truth_slice(joined: Joined, rules: Protocol, value: str, inside: Mask) -> dict[str, Any]:
    """Return the row of `truth_slices` named `value` for the ground truths of the mask `inside`, (g,)."""
    table = _match_inside(joined, rules, inside, None)
    matches = table.matches
    category = matches.category[matches.hit]
    hits = np.stack(  # (thresholds, classes)
        [
            np.bincount(category[find_hits(table, 0, t)[0]], minlength=len(table.classes))
            for t in range(len(rules.ious))
        ]
    )
    n_truths = np.where(table.n > 0, table.n, 1)
    recall = np.where(table.n > 0, hits / n_truths, np.nan)
    is_tp = table.outcome == TP
    return {
        "slice": "ground truth",
        "value": value,
        "gt": int(table.n.sum()),
        "recall": to_plain(float(mean_of_defined(recall[[rules.reference]])[0])),
        "AR": to_plain(float(mean_of_defined(recall.reshape(1, -1))[0])),
        "mean_iou": to_plain(float(table.iou[is_tp].mean()) if is_tp.any() else math.nan),
        "missed": int(table.missed.sum()),
        "AP": None,
    }


def _find_overlapping(joined: Joined, rules: Protocol) -> Mask:
    """(g,) mask of the counting ground truths that overlap another counting one of their image."""
    truth = joined.truth
    is_ignored = (truth.flags & np.uint16(int(rules.ignored | rules.crowd_flags | rules.drop_flags))) != 0
    truth_with_itself = merge_classes(replace(joined, detections=truth))
    plain_rules = rules.without_groups  # IoU for all pairs: groups would be compared by IoA
    is_overlapping = np.zeros(len(truth), np.bool_)
    for pairs in iterate_pairs(truth_with_itself, plain_rules, OVERLAP):
        is_overlapping[pairs.det[(pairs.det != pairs.gt) & ~is_ignored[pairs.gt]]] = True
    is_overlapping &= ~is_ignored
    return is_overlapping
