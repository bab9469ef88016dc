"""Explain a poor result: read a sample of the boxes in other ways, and name the way that fits far better.

Readings of the coordinates are compared by how many objects some detection covers (IoU at least 0.5, of any
class). One is believed only if it covers many objects that are not covered as the files are read, far more
than by chance (the same reading with the images mixed up), and if AP50 rises far. A reading may hold in some
of the images only: in each image the better one counts.
"""

from __future__ import annotations

import functools
import itertools
import math
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from odm.evaluate.analysis.diagnosis_sample import MOST_PAIRS, NO_OPTIONS, Sample, sample_images
from odm.evaluate.analysis.readings import (
    SCALES_WITHOUT_SIZE,
    Reading,
    list_readings,
    make_shift,
    make_shrinking,
)
from odm.evaluate.doubts import LIKELY_CAUSE
from odm.evaluate.matching.match import match
from odm.evaluate.matching.order import first_of_runs
from odm.evaluate.matching.sides import Joined, Mask, merge_classes
from odm.evaluate.scores.accumulate import accumulate
from odm.evaluate.scores.protocol_overrides import resolve
from odm.evaluate.scores.protocols import Protocol
from odm.issues import Log, Trusted, plural, printable, shorten
from odm.pairing import iou, pair_by_image, source_of
from odm.tables import Dataset, Floats, Ints, Longs, distinct

MOST_IN_ALL = 0.8
"""Of the images that fit in some reading, the share that is spoken of as all."""
WELL_COVERED = 0.7
"""Share of the objects that are covered as the files are read, above which only single readings are tried."""
TRIED = (
    "corners, sizes and centres, scales and letterboxes, mirrored and rotated images, moved, larger and "
    "smaller boxes, shifted images, other classes, inverted scores and duplicates"
)
CHANCE = 1e-4
"""How likely it may be that any of the readings fits so well by chance."""
LEAST_CHANCE = 0.02
"""The chance that a box covers an object at least, in case the mixed images show none."""
LEAST_RISE = 0.1
"""How far AP50 has to rise, besides by 1.3 times."""
WELL, LEAST_WELL = 0.65, 0.4
"""The IoU that this share of the newly covered objects needs: 0.3 of them have it by luck."""
LEAST_SHIFTED = 3
"""Images to which the detections of their neighbours have to belong; of mixed-up images one or two do."""
MANY_COVERED = 0.4
"""Share of the objects of other classes that detections of one class cover if their classes are lost."""
CONSISTENT = 0.7
"""Share of the covered objects whose classes a reading of the classes has to explain."""


class Finding(msgspec.Struct, frozen=True, eq=False):
    """What explains the result of a sample: statements, none if nothing does, and the advice of each."""

    statements: tuple[str, ...]
    advice: tuple[str, ...]
    ap50: float
    """AP50 of the sample as the files are read."""
    best_ap50: float
    """AP50 once they are read as the statements say."""


def diagnose(joined: Joined, truth: Dataset, detections: Dataset, log: Log, *, verbose: bool = False) -> None:
    """Report what explains that a result is poor, if anything does; if `verbose`, note that nothing does.

    `truth` and `detections` are the sides of `joined` as they were read, for sizes of images and advice.
    """
    images = sample_images(joined)
    if not len(images):
        return
    size_of = dict(zip(truth.images.name, truth.limits().tolist(), strict=True))
    sizes = np.array([size_of.get(name, (0, 0)) for name in joined.images], np.int64).reshape(-1, 2)
    scope = "" if len(images) == len(joined.evaluated) else f" in a sample of {plural(len(images), 'image')}"
    options = {"gt": truth.reading_options, "det": detections.reading_options}
    cause = find_cause(joined.shard(images), images, sizes, options)
    if cause.statements:
        log.report(
            LIKELY_CAUSE,
            source_of(detections),
            what=Trusted(" and ".join(cause.statements)),
            better=Trusted(f"{cause.best_ap50:.2f}"),
            value=Trusted(f"{cause.ap50:.2f}"),
            where=Trusted(scope),
            remedy=Trusted("; ".join(dict.fromkeys(cause.advice))),
        )
    elif verbose:
        path = source_of(detections)
        of_run = f"{printable(path)}: " if path else ""  # several runs may be diagnosed
        log.note(
            f"{of_run}AP50 is {cause.ap50:.2f}{scope}, and no other reading fits better; tried were {TRIED}"
        )


def find_cause(
    joined: Joined, images: Longs, sizes: Longs, options: Mapping[str, Collection[str]] = NO_OPTIONS
) -> Finding:
    """Find the readings that explain the result of `joined`, the boxes of `images` (numbers, ascending).

    `options` has the names of the options with which the format of each side can be read.
    """
    ap50 = _ap50(joined)
    # The geometry first, then the classes of boxes that cover each other once they are read so.
    sample = replace(Sample.from_sides(joined, images, sizes), options=options)
    best_sides, statements, remedy = joined, [], []
    for find in (_find_geometry, _find_classes):
        finding = find(sample)
        if finding is not None:
            sample, statement, advice = finding
            statements.append(statement)
            remedy.append(advice)
    if statements:
        best_sides = sample.joined
    best_ap50 = _ap50(best_sides)
    if statements and best_ap50 < 1.3 * ap50 + LEAST_RISE:  # not far better: nothing is believed
        best_sides, best_ap50, statements, remedy = joined, ap50, [], []
    # Each of these on top of those before, if it helps by itself; it returns the same sides if it cannot.
    for attempt in (_try_one_class, _try_reversed_scores, _try_unique):
        statement, advice, other_sides = attempt(best_sides)
        other_ap50 = best_ap50 if other_sides is best_sides else _ap50(other_sides)
        # Far higher: by half of itself, or with half as much missing.
        is_far_higher = other_ap50 >= 1.5 * best_ap50 or 1 - other_ap50 <= (1 - best_ap50) / 2
        if other_ap50 >= best_ap50 + 0.1 and is_far_higher:
            best_sides, best_ap50 = other_sides, other_ap50
            statements.append(statement)
            remedy.append(advice)
    return Finding(tuple(statements), tuple(remedy), ap50, best_ap50)


@functools.cache
def _get_protocol() -> Protocol:
    return resolve("coco", iou=0.5)[0]


def _ap50(joined: Joined) -> float:
    """Return the AP at IoU 0.5 of both sides, 0 where it is undefined."""
    value = accumulate(match(joined, _get_protocol())).summary["AP50"]
    return 0.0 if math.isnan(value) else value


# ------------------------------------------------------------------------------------------- coordinates

LEAST_VOTES = 6
"""Objects, or pairs of boxes, that have to suggest a reading: fewer are too few to tell."""


def _find_constant_readings(sample: Sample) -> Iterator[Reading]:
    """Find the offset of boxes, and the factor of their sizes, that most pairs of one class suggest."""
    truth, detections = sample.joined.truth, sample.joined.detections
    det, gt = sample.rows[sample.pairs[0]], sample.objects[sample.pairs[1]]
    is_same_class = detections.category[det] == truth.category[gt]
    det_xyxy, gt_xyxy = detections.xyxy[det[is_same_class]], truth.xyxy[gt[is_same_class]]
    if len(det_xyxy) < LEAST_VOTES:
        return
    # (n, 2) for each pair: how far apart the centres are, and the logarithm of how many times as large.
    centre_offsets = (det_xyxy[:, :2] + det_xyxy[:, 2:] - gt_xyxy[:, :2] - gt_xyxy[:, 2:]) / 2
    with np.errstate(all="ignore"):
        log_size_ratios = np.log((det_xyxy[:, 2:] - det_xyxy[:, :2]) / (gt_xyxy[:, 2:] - gt_xyxy[:, :2]))
    gt_wh = gt_xyxy[:, 2:] - gt_xyxy[:, :2]

    # Moved boxes: pairs of boxes of about one size, within a factor of 1.35.
    has_like_size = (np.abs(log_size_ratios) < 0.3).all(axis=1)
    median_side = float(np.sort(gt_wh, axis=None)[gt_wh.size // 2])  # `numpy.median` imports `numpy.ma`
    centre_offset = _find_densest(centre_offsets[has_like_size], width=0.2 * median_side)
    fix = "correct the export of {whose}"
    if centre_offset is not None and np.abs(centre_offset).max() >= 1:
        x, y = centre_offset.round().tolist()
        yield Reading(f"boxes moved by {x:.0f} and {y:.0f} pixels", fix, make_shift(-x, -y))

    # Larger or smaller boxes: pairs with about one centre.
    has_near_centre = (
        np.abs(centre_offsets) < 0.15 * np.maximum(gt_wh, det_xyxy[:, 2:] - det_xyxy[:, :2])
    ).all(axis=1)
    has_near_centre &= np.isfinite(log_size_ratios).all(axis=1)
    log_factor = _find_densest(log_size_ratios[has_near_centre], width=0.15)
    if log_factor is not None:
        factor = math.exp(float(log_factor.mean()))
        yield Reading(f"boxes {factor:.2f} times as large as the objects", fix, make_shrinking(factor))


def _find_median(points: Floats) -> Floats:
    """Return (2,) the median of (n, 2) points by column, without `numpy.ma`, which `numpy.median` imports."""
    middle: Floats = np.sort(points, axis=0)[len(points) // 2]
    return middle


def _find_densest(points: Floats, width: float) -> Floats | None:
    """Return (2,) the median of the (n, 2) points in the fullest square of a width; None if too few."""
    if len(points) < LEAST_VOTES or width <= 0:
        return None
    # The fullest cell of a grid of squares, then all points about as near to the median of those in it.
    cell = np.floor(points / width).astype(np.int64)
    _, cell_of_point, n_points_of_cell = np.unique(cell, axis=0, return_inverse=True, return_counts=True)
    centre = _find_median(points[cell_of_point.reshape(-1) == n_points_of_cell.argmax()])
    is_near = (np.abs(points - centre) <= width).all(axis=1)
    return _find_median(points[is_near]) if is_near.sum() >= LEAST_VOTES else None


_WHOSE = {"det": "the detections", "gt": "the ground truth"}
_LOOKS = {"det": "the detections look like", "gt": "the ground truth looks like"}


class _Candidate(msgspec.Struct, frozen=True, eq=False):
    """A way to read one side, and the images where it covers more objects."""

    side: str
    readings: tuple[Reading, ...]
    step: int
    """How many images further the detections belong."""
    is_better: Mask
    """(images,) where it covers more objects than the files as they are read."""
    gain: int
    """How many more objects are covered there."""

    def read_boxes(self, sample: Sample) -> tuple[Floats, Floats]:
        """Return the corners of ground truths and detections, with the readings applied."""
        return _apply_readings(sample, self.side, self.readings)

    @property
    def changes(self) -> int:
        """The number of readings and of steps to another image."""
        return len(self.readings) + abs(self.step)

    @property
    def statement(self) -> str:
        """The statement on what the boxes look like."""
        parts = []
        if self.readings:
            descriptions = ", in ".join(reading.description for reading in self.readings)
            parts.append(f"{_LOOKS[self.side]} {descriptions}")
        if self.step:
            direction = "after" if self.step > 0 else "before"
            parts.append(f"the detections look like those of the image {direction} theirs")
        return " and ".join(parts)

    def advice(self, options: Collection[str]) -> str:
        """What to do. `options` names those that the format of this side has; one helps only by itself."""
        parts = []
        if self.readings:
            reading = self.readings[0]  # the first says enough
            option_advice = reading.option if reading.name in options and self.changes == 1 else ""
            remedy = option_advice + reading.remedy
            parts.append(remedy.format(side=self.side, whose=_WHOSE[self.side]))
        if self.step:
            parts.append("number the images of both sides alike")
        return "; ".join(parts)


def _apply_readings(sample: Sample, side: str, readings: Sequence[Reading]) -> tuple[Floats, Floats]:
    """Return the corners of ground truths and of detections, with `readings` applied to one side."""
    boxes = {"gt": sample.joined.truth.xyxy, "det": sample.joined.detections.xyxy}
    with np.errstate(all="ignore"):
        for reading in readings:
            boxes[side] = reading.change(boxes[side], sample.size_of[side])
    return boxes["gt"], boxes["det"]


def _find_geometry(sample: Sample) -> tuple[Sample, str, str] | None:
    """Find coordinates, or image numbers, that fit far better: the sample, the statement and the advice."""
    if not len(sample.pairs[0]):
        return None
    is_covered = sample.find_covered(sample.joined.truth.xyxy, sample.joined.detections.xyxy)
    # Of the candidates that gain about as much as any, the simplest.
    candidates = list(_list_candidates(sample, is_covered))
    gain_max = max(candidate.gain for candidate in candidates)
    best = min((c for c in candidates if c.gain >= 0.97 * gain_max), key=lambda c: (c.changes, c.side))
    best, alternative = _choose_side(sample, best, candidates)
    if not _is_significant(sample, best, int((~is_covered).sum()), len(candidates)):
        return None
    pairs = sample.pair_shifted(best.step) if best.step else None
    is_well_covered = sample.find_covered(*best.read_boxes(sample), pairs, iou_min=WELL)
    if int((is_well_covered & ~is_covered).sum()) < LEAST_WELL * best.gain:
        return None
    if best.step and int(best.is_better.sum()) < LEAST_SHIFTED:
        return None
    statement = best.statement + alternative
    is_fitting = best.is_better | (sample.count_by_image(is_covered) > 0)
    n_better, n_fitting = int(best.is_better.sum()), int(is_fitting.sum())
    options = sample.options[best.side]
    if n_better < MOST_IN_ALL * n_fitting:  # no option of a format holds for some images only
        statement, options = f"in {n_better} of {plural(n_fitting, 'image')} {statement}", ()
    return _apply_candidate(sample, best), statement, best.advice(options)


def _choose_side(sample: Sample, best: _Candidate, choices: Sequence[_Candidate]) -> tuple[_Candidate, str]:
    """Choose the side to read otherwise, and name the other one if that would do as well.

    Reading the other side in the opposite way explains as much, or more if it makes all boxes larger. What
    leaves fewer boxes outside their images, by 5 % of all boxes or so, is right.
    """
    other_side = (c for c in choices if c.side != best.side and c.changes == best.changes and not c.step)
    twin = max(other_side, key=lambda c: c.gain, default=None)  # the best reading of the other side
    if twin is None or twin.gain < 0.5 * best.gain or not best.readings:
        return best, ""
    n_boxes_per_step = 0.05 * (len(sample.joined.truth) + len(sample.joined.detections))
    best_outside, twin_outside = (_count_outside(sample, c) // n_boxes_per_step for c in (best, twin))
    if best_outside == twin_outside:  # nothing tells: the reading of the detections first
        best, twin = sorted((best, twin), key=lambda c: c.side)
        return best, f" (or {twin.statement})"
    return (best if best_outside < twin_outside else twin), ""


def _list_candidates(sample: Sample, is_covered: Mask) -> Iterator[_Candidate]:
    """List readings of either side and shifted images; if none explains much, also a scale or a shift."""
    n_covered = sample.count_by_image(is_covered)
    pairs_of_step = {step: sample.pair_shifted(step) for step in (-1, 1) if len(sample.images) > 1}

    def candidate(side: str, readings: tuple[Reading, ...], step: int = 0) -> _Candidate:
        """Return the candidate, with how many more objects are covered if `side` is read so."""
        pairs = pairs_of_step.get(step)  # None without a step: those of the sample
        is_hit = sample.find_covered(*_apply_readings(sample, side, readings), pairs)
        n_gained = sample.count_by_image(is_hit) - n_covered
        return _Candidate(side, readings, step, n_gained > 0, int(n_gained[n_gained > 0].sum()))

    by_box, by_scale, by_turn = list_readings()
    if not (sample.sizes[sample.images] > 0).any():
        by_scale, by_turn = by_scale[:SCALES_WITHOUT_SIZE], by_turn[-2:]  # need no sizes of images
    single_readings = (*by_box, *by_scale)
    candidates = [candidate(side, (reading,)) for side in _WHOSE for reading in single_readings]
    candidates += [candidate("det", (reading,)) for reading in (*by_turn, *_find_constant_readings(sample))]
    candidates += [candidate("det", (), step) for step in pairs_of_step]
    yield from candidates
    is_gain_small = max(c.gain for c in candidates) < 0.5 * np.count_nonzero(~is_covered)
    if is_covered.mean() < WELL_COVERED and is_gain_small:
        yield from (candidate(side, pair) for side in _WHOSE for pair in itertools.product(by_box, by_scale))
        yield from (
            candidate(side, (r,), step) for step in pairs_of_step for side in _WHOSE for r in single_readings
        )


def _count_outside(sample: Sample, candidate: _Candidate) -> int:
    """Count the boxes beyond their image by a tenth of its size, on images where the candidate is better."""
    n_outside = 0
    joined = sample.joined
    for side, xyxy in zip((joined.truth, joined.detections), candidate.read_boxes(sample), strict=True):
        size = sample.sizes[side.image]
        is_outside = (xyxy[:, :2] < -0.1 * size).any(axis=1) | (xyxy[:, 2:] > 1.1 * size).any(axis=1)
        is_better = candidate.is_better[np.searchsorted(sample.images, side.image)]
        n_outside += int((is_outside & is_better & (size > 0).all(axis=1)).sum())
    return n_outside


def _is_significant(sample: Sample, best: _Candidate, n_uncovered: int, n_tried: int) -> bool:
    """Return whether chance would hardly ever give the `best` of `n_tried` readings its gain.

    The gain is of `n_uncovered` objects. The chance for an object is measured with the detections of each
    image on another image.
    """
    chance, n_images = LEAST_CHANCE, len(sample.images)
    # Steps to images far away, for neighbours may be frames of one video; of few images, to all others.
    steps = {n_images // 2, n_images // 3} if n_images >= 6 else set(range(1, n_images))
    boxes = best.read_boxes(sample)
    for step in steps - {best.step % n_images}:  # the reading's own step is not by chance
        is_covered = sample.find_covered(*boxes, sample.pair_shifted(step, is_cyclic=True))
        # k + 1 of n + 2 (rule of succession): k of n would be certain to stay 0 if none is covered.
        chance = max(chance, (int(is_covered.sum()) + 1) / (len(is_covered) + 2))
    return _bound_tail(n_uncovered, best.gain, chance) * n_tried < CHANCE


def _bound_tail(n: int, k: int, p: float) -> float:
    """Bound the probability of at least `k` of `n` events of probability `p` each (Chernoff)."""
    share = k / n if n else 0.0
    if share <= p:
        return 1.0
    complement_term = (1 - share) * math.log((1 - share) / (1 - p)) if share < 1 else 0.0
    # exp(-n D), with D the relative entropy of the two shares.
    return math.exp(-n * (share * math.log(share / p) + complement_term))


def _apply_candidate(sample: Sample, best: _Candidate) -> Sample:
    """Return the sample with the candidate applied to the images where it is better."""
    is_better, joined = best.is_better, sample.joined
    # The boxes of the images where it is better. A detection belongs to the image `step` further on.
    truth, read_xyxy = best.read_boxes(sample)
    is_changed = is_better[np.searchsorted(sample.images, joined.truth.image)]
    truth = np.where(is_changed[:, None], truth, joined.truth.xyxy)
    image_position = np.searchsorted(sample.images, joined.detections.image)
    target_position = image_position + best.step
    is_moved = (target_position >= 0) & (target_position < len(is_better))
    is_moved[is_moved] = is_better[target_position[is_moved]]  # the image that a detection belongs to decides
    sample = sample.replace_boxes(truth, np.where(is_moved[:, None], read_xyxy, joined.detections.xyxy))
    if not best.step:
        return sample

    # Detections change image; those of a better image that belong to no other one are dropped.
    is_kept = is_moved | ~is_better[image_position]
    image = np.where(
        is_moved, sample.images[np.clip(target_position, 0, len(is_better) - 1)], joined.detections.image
    )
    detections = replace(sample.joined.detections, image=image.astype(np.int32)).take(is_kept)
    order = np.argsort(detections.image, kind="stable")
    joined = replace(sample.joined, detections=detections.take(order))
    return Sample.from_sides(joined, sample.images, sample.sizes)


# ----------------------------------------------------------------------------------------------- classes


def _find_classes(sample: Sample) -> tuple[Sample, str, str] | None:
    """Find other classes of detections from the boxes that cover each other: sample, statement, advice."""
    det_category, gt_category, image = _pair_best_classes(sample)  # `image`: positions in `sample.images`
    n_any = np.bincount(image, minlength=len(sample.images))
    n_same = np.bincount(image[det_category == gt_category], minlength=len(sample.images))
    is_affected = n_same < 0.5 * n_any  # (images,) where most classes are wrong: only these vote
    is_vote = is_affected[image]
    if is_vote.sum() < LEAST_VOTES:
        return None
    explanation = _explain_classes(sample.joined, det_category[is_vote], gt_category[is_vote])
    if explanation is None:
        return None
    new_class, statement, advice = explanation
    n_affected, n_fitting = int(is_affected[n_any > 0].sum()), int((n_any > 0).sum())
    if n_affected < MOST_IN_ALL * n_fitting:
        if not _differ_by_image(n_same, n_any):
            return None
        statement = f"in {n_affected} of {plural(n_fitting, 'image')} {statement}"
        advice = "give all files of both sides the same class list"
    detections = sample.joined.detections
    is_changed = is_affected[np.searchsorted(sample.images, detections.image)]
    category = np.where(is_changed, new_class[detections.category], detections.category).astype(np.int32)
    joined = replace(sample.joined, detections=replace(detections, category=category))
    return replace(sample, joined=joined), statement, advice


def _pair_best_classes(sample: Sample) -> tuple[Ints, Ints, Longs]:
    """Return of each covered object, (n,): the class of the best detection on it, its own, and its image.

    Images are positions in those of the sample.
    """
    det, gt = sample.pairs
    truth, detections = sample.joined.truth, sample.joined.detections
    overlap = iou(detections.xyxy[sample.rows[det]], truth.xyxy[sample.objects[gt]])
    order = np.lexsort((-overlap, gt))
    order = order[overlap[order] >= 0.5]
    best_pairs = order[first_of_runs(gt[order])]
    det_rows, gt_rows = sample.rows[det[best_pairs]], sample.objects[gt[best_pairs]]
    return detections.category[det_rows], truth.category[gt_rows], sample.image_index[gt[best_pairs]]


def _explain_classes(joined: Joined, det_category: Ints, gt_category: Ints) -> tuple[Longs, str, str] | None:
    """Find what the classes of detections mean: (classes,) the right class of each, statement, advice.

    `det_category` and `gt_category` (votes,) are those of a detection and of the object that it covers.
    """
    n_classes, n_needed = len(joined.classes), CONSISTENT * len(det_category)
    det_classes, row = np.unique(det_category, return_inverse=True)
    gt_classes, column = np.unique(gt_category, return_inverse=True)

    # All by the same number, in three classes at least: it shows although each of many is seen only once.
    steps = (det_category.astype(np.int64) - gt_category) % n_classes
    step = int(np.bincount(steps).argmax())
    shifted_classes = gt_category[steps == step]
    is_consistent = len(shifted_classes) >= n_needed and len(np.unique(shifted_classes)) > 2
    # Classes that only the detections have come last: where most are such, names differ, not numbers.
    if step and is_consistent and np.median(det_classes) <= gt_classes[-1]:
        shift_text = f"{step} too high" if step <= n_classes // 2 else f"{n_classes - step} too low"
        statement = f"the class numbers of the detections look {shift_text}"
        return (np.arange(n_classes) - step) % n_classes, statement, "number the classes of both sides alike"

    # Each by the class of most objects that it covers. The table has no other classes: all would be huge.
    n_gt = len(gt_classes)
    table = np.bincount(row * n_gt + column, minlength=len(det_classes) * n_gt).reshape(-1, n_gt)
    new_class, n_top = np.arange(n_classes), table.max(axis=1)
    new_class[det_classes] = gt_classes[table.argmax(axis=1)]
    is_misnamed = new_class[det_classes] != det_classes
    misnamed, n_votes = det_classes[is_misnamed], n_top[is_misnamed]
    # A mistake of names or numbers moves classes that only the detections have, or several classes, each
    # more than once; else a detector confuses classes. No two of them may mean the same class.
    names = {joined.classes[i] for i in misnamed.tolist()}
    is_repeated = len(misnamed) >= 2 and int(n_votes.min()) >= 2
    is_plausible = bool(names) and (is_repeated or names <= {*joined.report.classes_det_only})
    if n_top.sum() >= n_needed and is_plausible and len(np.unique(new_class[misnamed])) == len(misnamed):
        return new_class, *_describe_classes(joined.classes, new_class, misnamed)
    return None


def _differ_by_image(n_same: Longs, n_any: Longs) -> bool:
    """Return whether images have right classes or wrong ones as a whole, and not by chance.

    `n_any` (images,) are the covered objects, `n_same` those of the class of the detection. A detector that
    confuses classes does so in every image: then few have all right, or all wrong.
    """
    has_several, p_wrong = n_any >= 2, 1 - n_same.sum() / n_any.sum()
    is_uniform = (n_same == 0) | (n_same == n_any)
    n_on_image = n_any[has_several]
    # The chance that all objects of an image are wrong, or all right, if each is wrong with `p_wrong`.
    expected = (p_wrong**n_on_image + (1 - p_wrong) ** n_on_image).mean() if has_several.any() else 1.0
    return _bound_tail(int(has_several.sum()), int(is_uniform[has_several].sum()), float(expected)) < CHANCE


def _describe_classes(classes: Sequence[str], new_class: Longs, misnamed: Longs) -> tuple[str, str]:
    """Return a statement on the `misnamed` classes, with the names of three, and the advice.

    `new_class` (classes,) is the right class of each.
    """
    class_pairs = [(classes[c], classes[new_class[c]]) for c in misnamed[:3].tolist()]
    name_pairs = [(shorten(old, 30), shorten(new, 30)) for old, new in class_pairs]
    more_words = f", and {len(misnamed) - 3} more" if len(misnamed) > 3 else ""
    shown = ", ".join(f"{old!r} is {new!r}" for old, new in name_pairs) + more_words
    renames = " ".join(f"--rename {shlex.quote(f'{old}={new}')}" for old, new in name_pairs)
    renames += " ..." if more_words else ""
    return (
        f"the classes of the detections look misnamed ({shown})",
        f"rename them ({renames}) or give both sides the same class list",
    )


# ------------------------------------------------------------------------- scores and duplicates


def _try_reversed_scores(joined: Joined) -> tuple[str, str, Joined]:
    """Return statement, advice and both sides, with scores reversed if right detections have lower ones."""
    if _has_lower_scores(joined):
        turned = replace(joined.detections, score=-joined.detections.score)
        joined = replace(joined, detections=turned)
    return (
        "the scores look inverted: the best have the lowest",
        "turn the scores around, as 1 - score",
        joined,
    )


def _try_one_class(joined: Joined) -> tuple[str, str, Joined]:
    """Return statement, advice and both sides, in one class if all detections have one and cover others."""
    truth, detections = joined.truth, joined.detections
    classes = distinct(detections.category)
    name = shorten(joined.classes[classes[0]], 30) if len(classes) else ""
    other_objects = np.flatnonzero(truth.category != classes[0]) if len(classes) == 1 else classes[:0]
    if len(other_objects) >= LEAST_VOTES:
        n_det_of_image = np.bincount(detections.image, minlength=len(joined.images))
        # Of very many every second, third, ... object, so that at most 20 * MOST_PAIRS pairs are compared.
        other_objects = other_objects[
            :: 1 + int(n_det_of_image[truth.image[other_objects]].sum()) // (20 * MOST_PAIRS)
        ]
        det, gt = pair_by_image(detections.image, truth.image[other_objects])
        covered_objects = distinct(gt[iou(detections.xyxy[det], truth.xyxy[other_objects[gt]]) >= 0.5])
        if len(covered_objects) >= MANY_COVERED * len(other_objects):
            joined = merge_classes(joined, joined.classes[classes[0]])
    return (
        f"all detections have the class {name!r}, and cover objects of all classes",
        "export the class of each detection, or evaluate with --class-agnostic",
        joined,
    )


def _try_unique(joined: Joined) -> tuple[str, str, Joined]:
    """Return statement, advice and both sides without detections that repeat a surer one."""
    unique_sides = _drop_duplicates(joined)
    n_per_object = len(joined.detections) / max(len(unique_sides.detections), 1)
    return (
        f"every object looks detected {n_per_object:.1f} times",
        "export the detections after non-maximum suppression, and each file once",
        unique_sides,
    )


def _has_lower_scores(joined: Joined) -> bool:
    """Return whether detections on an object of their class have lower scores, and not by chance."""
    truth, n_gt_of_image = joined.truth, np.bincount(joined.truth.image, minlength=len(joined.images))
    # In crowded images every so many detections, but all objects, as any of them may make one right.
    stride = 1 + int(n_gt_of_image[joined.detections.image].sum()) // (20 * MOST_PAIRS)
    detections = joined.detections.take(slice(None, None, stride))
    det, gt = pair_by_image(detections.image, truth.image)
    is_same_class = detections.category[det] == truth.category[gt]
    det, gt = det[is_same_class], gt[is_same_class]
    is_right = np.zeros(len(detections), bool)
    is_right[det[iou(detections.xyxy[det], truth.xyxy[gt]) >= 0.5]] = True
    n_fewer = min(int(is_right.sum()), int((~is_right).sum()))
    if not n_fewer:
        return False
    # The share of pairs of a right and a wrong detection in which the right one has the lower score.
    wrong_scores = np.sort(detections.score[~is_right])
    n_lower = len(wrong_scores) - np.searchsorted(wrong_scores, detections.score[is_right], "right")
    lower_share = float(n_lower.mean() / len(wrong_scores))
    # Pairs share detections: as evidence they are only as many as there are of the rarer kind.
    return _bound_tail(n_fewer, round(lower_share * n_fewer), 0.5) < CHANCE


def _drop_duplicates(joined: Joined) -> Joined:
    """Drop detections that nearly equal (IoU >= 0.7) a surer one of their image and class."""
    side = joined.detections
    order = np.lexsort((-side.score, side.category, side.image))
    keys, is_kept = joined.keys_of(side), np.ones(len(side), bool)
    # Of each image and class the 300 surest; the others are kept.
    rows = order[np.arange(len(order)) - np.searchsorted(keys[order], keys[order]) < 300]
    while len(rows):  # in each round the surest of each image and class, beside all others left there
        key = keys[rows]
        is_surest = np.concatenate([[True], key[1:] != key[:-1]])
        # is_surest 1 0 0 1 0:  other_positions 1 2 4, whose surest are number 0 0 1
        other_positions = np.flatnonzero(~is_surest)
        surest_rows = rows[is_surest][np.cumsum(is_surest)[other_positions] - 1]
        is_near = iou(side.xyxy[surest_rows], side.xyxy[rows[other_positions]]) >= 0.7
        is_kept[rows[other_positions[is_near]]] = False
        rows = rows[other_positions[~is_near]]
    return joined.only(detections=is_kept)
