"""Evaluate detections against ground truth: join, match, accumulate."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from odm.evaluate import tubes
from odm.evaluate.doubts import (
    ALL_IGNORED,
    BEYOND_LIMIT,
    CLASS_WITHOUT_OBJECTS,
    DEFAULT_PROTOCOL,
    GROUPS_AS_OBJECTS,
    KEYPOINTS_WITHOUT_AREA,
    LIKELY_CAUSE,
    NO_MATCH,
    ORIENTED_AS_BOXES,
)
from odm.evaluate.matching.jaccard import can_pair
from odm.evaluate.matching.join import join, rank_classes
from odm.evaluate.matching.match import match_all
from odm.evaluate.matching.matches import OVER, TRUTHS
from odm.evaluate.matching.prepare import areas_of
from odm.evaluate.matching.ready import adapt_to_shapes
from odm.evaluate.matching.sides import ExtraImages, Joined, JoinReport, Label, merge_classes
from odm.evaluate.results import Evaluation, Result, Row
from odm.evaluate.scores.accumulate import accumulate
from odm.evaluate.scores.protocol_overrides import (
    Areas,
    Ious,
    adapt_to_fields,
    adapt_to_fractions,
    check_class_ious,
    check_scores,
    check_tubes,
    resolve,
)
from odm.evaluate.scores.protocols import DEFAULT, PROTOCOLS, IouType, Protocol
from odm.evaluate.scores.set_ups import EVERY_AREA
from odm.issues import DataError, Log, Trusted, UsageError, plural, spell
from odm.pairing import list_first_three, source_of
from odm.tables import Dataset, Flag, ShapeKind

MOST_CLASSES = 2**16
"""Classes that are evaluated: the curves of all take a gigabyte."""
ONE_CLASS = "(any class)"
"""The name of the one class of evaluations that ignore classes."""

POOR = 0.55
"""The best F1 below which the cause is looked for unasked."""

FEW = 3
"""Detections and ground truths that may all miss each other by chance are fewer."""


def _refuse_many_classes(joined: Joined, log: Log) -> None:
    """Raise DataError if there are more classes than `MOST_CLASSES`."""
    if len(joined.classes) > MOST_CLASSES:
        raise DataError(
            f"there are {len(joined.classes)} classes, more than {MOST_CLASSES}: are they names of single "
            f"objects? {spell('only_classes')} chooses some, {spell('class_agnostic')} takes all for one",
            log,
        )


def evaluate(
    truth: Dataset,
    detections: Dataset,
    protocol: str | Protocol | Sequence[str | Protocol] | None = None,
    *,
    iou: Ious | None = None,
    interpolation: str | int | None = None,
    area: Areas | None = None,
    max_dets: int | None = None,
    recall_at: Sequence[int] | None = None,
    score_min: float | None = None,
    keep_difficult: bool | None = None,
    pixels: str | None = None,
    iou_type: IouType | None = None,
    sigmas: Sequence[float] | None = None,
    only_classes: Sequence[str] | None = None,
    only_images: Sequence[str] | None = None,
    at_score: float | None = None,
    extra_images: ExtraImages = "error",
    image_labels: Iterable[Label] | None = None,
    hierarchy: Mapping[str, Any] | None = None,
    class_agnostic: bool = False,
    diagnose: bool = False,
    is_default: bool = False,
    log: Log | None = None,
) -> Evaluation:
    """Evaluate detections against ground truth.

    Parameters
    ----------
    truth, detections
        The two sides; see `odm.read` and `Dataset.from_arrays`.
    protocol
        A name of `PROTOCOLS`, a `Protocol`, or several; ``voc2012`` if omitted.
    iou
        IoU threshold or thresholds, above 0 up to 1. Most protocols give one result per threshold; `coco`
        averages over them. ``car=0.7,person=0.5`` or a mapping are thresholds of single classes.
    interpolation
        Recall points for AP: ``all``, ``11`` or ``101``.
    area
        ``small``, ``medium``, ``large``, ``LOW:HIGH`` or two numbers, in square pixels: ground truth outside
        is ignored. ``NAME=LOW:HIGH``, or ``{NAME: (low, high)}``, instead adds metrics for that range
        (``AP@NAME`` and so on), under protocols with AP per class except those of Open Images. A list of such
        strings is also accepted.
    max_dets
        Maximum number of detections per image and class (`lvis`, `imagenet-loc`, `ultralytics` and `yolov5`:
        per image).
    recall_at
        `coco`: average recall of the best 1, 10, ... detections of an image and class too (``AR10``).
    score_min
        Detections with a lower score are dropped.
    keep_difficult
        Count difficult objects like any other.
    pixels
        ``edges`` (width = right - left) or ``inclusive`` (one more).
    iou_type
        What is compared: boxes (``bbox``), masks (``segm``), keypoints (``keypoints``) or oriented boxes
        (``obb``); that of the protocol if omitted. See `BY_IOU_TYPE` for the protocols of each.
    sigmas
        How far each keypoint may lie from where it should, as in COCO; those of its 17 points if omitted.
    only_classes, only_images
        Names to keep. Limits per image still apply to all its classes.
    at_score
        The score of the operating point; that of the best F1 if omitted.
    extra_images
        Images that occur only in the detections are an ``error``, or ``background`` with only false
        positives, or left out (``ignore``).
    image_labels
        Rows (image, class, whether it is present), for `openimages-challenge` and `lvis`, in addition to
        those of the ground truth (`Dataset.labels`). Images that occur only here are ground-truth images
        without boxes.
    hierarchy
        ``{"LabelName": ..., "Subcategory": [...]}``, nested, for the Open Images protocols.
    class_agnostic
        Treat all boxes as one class, like ``useCats = 0`` in pycocotools: equal scores of an image are ranked
        by the id of their class, then by input.
    diagnose
        Try to explain the result by other readings of boxes, classes, images and scores, and note if none
        does. Without it that is tried where the best F1 is below 0.55, and only what is found is reported.
    is_default
        Whether nobody chose the `protocol`, which is then reported, as where it is omitted.
    log
        Collects issues and notes.

    Raises
    ------
    DataError
        If the two sides cannot be compared; its log says why.
    UsageError
        If an option does not exist, or options cannot be combined.

    Examples
    --------
    >>> from odm.tables import Dataset
    >>> same = {"images": ["a.jpg"], "categories": ["person"], "image": [0], "category": [0]}
    >>> truth = Dataset.from_arrays(**same, ltwh=[[10, 10, 20, 20]])
    >>> detections = Dataset.from_arrays(**same, ltwh=[[12, 10, 20, 20]], score=[0.9])
    >>> round(evaluate(truth, detections, "coco").summary["AP75"], 3)
    1.0
    """
    log = Log() if log is None else log
    rules = resolve_rules(
        protocol,
        at_score=at_score,
        score_min=score_min,
        hierarchy=hierarchy,
        image_labels=image_labels,
        class_agnostic=class_agnostic,
        iou=iou,
        interpolation=interpolation,
        area=area,
        max_dets=max_dets,
        recall_at=recall_at,
        keep_difficult=keep_difficult,
        pixels=pixels,
        iou_type=iou_type,
        sigmas=sigmas,
    )
    rules, detections = _adapt(rules, truth, detections, log)
    join_options: dict[str, Any] = {"extra_images": extra_images, "score_min": score_min}
    join_options |= {"only_classes": only_classes, "only_images": only_images}
    has_tracks = any(p.tubes for p in rules)
    if has_tracks:  # videos are the images, and tubes the boxes
        gt_tubes, det_tubes = tubes.make_tubes(truth, detections, log)
        joined = join(gt_tubes.dataset, det_tubes.dataset, log, unit="videos", **join_options)
    else:  # where keypoints are compared, `drop` leaves out classes without any, unless classes were chosen
        joined = join(truth, detections, log, image_labels=image_labels, hierarchy=hierarchy, **join_options)
        joined, rules = adapt_to_shapes(joined, rules, truth, detections, log, drop=only_classes is None)
    rules = add_switches(rules, joined, class_agnostic=class_agnostic, **join_options)
    if class_agnostic:  # tubes stay in their order
        joined = merge_classes(joined, ONE_CLASS, None if has_tracks else rank_classes(joined, truth))
    report_before(joined, rules, source_of(truth), log)
    all_matches = (
        tubes.match_tubes(joined, rules, gt_tubes, det_tubes) if has_tracks else match_all(joined, rules)
    )
    results = [replace(accumulate(matches, at_score=at_score), joined=joined) for matches in all_matches]
    is_default = is_default or protocol is None
    _report(results, joined, truth, detections, log, diagnose=diagnose, is_default=is_default)
    return Evaluation(joined, results, log, truth, detections)


def _adapt(
    rules: list[Protocol], truth: Dataset, detections: Dataset, log: Log
) -> tuple[list[Protocol], Dataset]:
    """Return the protocols, adapted to the ground truth's fields and to relative boxes, and the detections.

    If every protocol has fixed classes, the detections have the ground truth's spelling of their names.
    """
    rules = adapt_to_fields(rules, truth.boxes.extra, log)
    if truth.relative and detections.relative:
        rules = adapt_to_fractions(rules, log)
    return rules, _adopt_spelling(detections, truth) if all(p.only for p in rules) else detections


def _adopt_spelling(detections: Dataset, truth: Dataset) -> Dataset:
    """Return the detections with the class names of the ground truth where only the case differs."""
    detection_names, categories = set(detections.categories.name), detections.categories
    # Each spelling is given to one class only: it is popped.
    truth_spelling = {name.casefold(): name for name in truth.categories.name if name not in detection_names}
    names = tuple(
        name if name in truth.categories.name else truth_spelling.pop(name.casefold(), name)
        for name in categories.name
    )
    return replace(detections, categories=replace(categories, name=names))


def _report(
    results: Sequence[Result],
    joined: Joined,
    truth: Dataset,
    detections: Dataset,
    log: Log,
    *,
    diagnose: bool,
    is_default: bool,
) -> None:
    """Report what explains poor results, which boxes were dropped, and results without a match.

    With `diagnose` any result is diagnosed; with `is_default` the choice of the protocol is reported.
    """
    has_tracks = any(r.rules.tubes for r in results)
    path, compares_boxes = source_of(detections), not has_tracks and results[0].rules.iou_type == "bbox"
    if compares_boxes and _is_mostly_oriented(truth) and _is_mostly_oriented(detections):
        log.withdraw("outlines-as-boxes")  # which readers said, for the same reason
        log.report(ORIENTED_AS_BOXES, source_of(truth))
    is_poor = not max(r.overall.f1 for r in results) >= POOR  # also if it is undefined
    if not has_tracks and (diagnose or is_poor):
        from odm.evaluate.analysis import diagnosis  # rarely needed

        diagnosis.diagnose(joined, truth, detections, log, verbose=diagnose)
    if is_default:
        report_default(truth, detections, log)
    report_after(results, joined, path, log)


def resolve_rules(
    protocol: str | Protocol | Sequence[str | Protocol] | None,
    *,
    at_score: float | None,
    score_min: float | None,
    hierarchy: Mapping[str, Any] | None,
    image_labels: Iterable[Label] | None,
    class_agnostic: bool = False,
    **switches: Any,
) -> list[Protocol]:
    """Return the requested protocols; `switches` are the other options of `resolve`.

    Raises UsageError if an option does not exist, or options do not fit together.
    """
    rules = resolve(protocol, **switches)
    check_scores(at_score=at_score, score_min=score_min)
    options = {"image_labels": image_labels, "hierarchy": hierarchy}
    # Tracks have neither labels of images nor a hierarchy: either is refused.
    check_tubes(rules, [name for name, value in options.items() if value is not None])
    if hierarchy is not None and not any(p.hierarchical for p in rules):
        raise UsageError("a class hierarchy is used only by openimages and openimages-challenge")
    if image_labels is not None and not any(p.labelled_only for p in rules):
        raise UsageError("image labels are used only by openimages-challenge and lvis")
    if class_agnostic and any(p.labelled_only or p.by_frequency for p in rules):
        raise UsageError(
            f"{spell('class_agnostic')} does not apply to openimages-challenge and lvis, where each image is "
            "annotated for some classes only, and a detection of another class is no error"
        )
    if class_agnostic and hierarchy is not None:
        raise UsageError(f"{spell('class_agnostic')} and a class hierarchy cannot be combined")
    return rules


def _is_mostly_oriented(side: Dataset) -> bool:
    """Return whether most boxes were read from oriented boxes, by the shapes or by the reader's counts."""
    # `extras` counts fields that were not read: oriented boxes under one of these names.
    n, shapes = max(side.extras.get(word, 0) for word in ("rotation", "obb")), side.boxes.shapes
    if shapes is not None:
        n = int(np.count_nonzero(shapes.kind == ShapeKind.ORIENTED))
    return 2 * n > len(side)


def _note_rules(joined: Joined, rules: Sequence[Protocol], log: Log) -> None:
    """Note how the protocols treat area ranges and regions to ignore, and if none of their classes occurs."""
    for p in rules:
        if p.shared_score and (p.named_areas or p.areas[0] != EVERY_AREA):
            log.note(f"{p.name}: area ranges are as under coco; {p.stands_for} reports no number of an area")
        if p.mean_over and not set(p.mean_over) & set(joined.classes):
            n_fixed = len(p.mean_over)
            some_fixed = ", ".join(map(repr, p.mean_over[:3]))
            log.notes.insert(  # first, as it is why every mean is 0
                0, f"{p.name}: the mean is over {n_fixed} fixed classes ({some_fixed}, ...), and none is here"
            )
    if joined.regions is not None:
        region_words = plural(len(joined.regions), "region to ignore", "regions to ignore")
        for has_rule in (True, False):  # a note for the protocols with a rule, one for the others
            names = [p.name for p in rules if p.has_regions == has_rule]
            effect = "left out, as there is no rule for them"
            if has_rule:
                effect = "what lies in them is no false positive"
            if names:
                log.note(f"{', '.join(dict.fromkeys(names))}: {region_words} in the ground truth: {effect}")


def report_before(joined: Joined, rules: Sequence[Protocol], path: str, log: Log) -> None:
    """Report what the protocols may treat in an unexpected way, or what the ground truth lacks for them.

    `path` is that of the ground truth. Raises DataError if there are too many classes, UsageError if a class
    with a threshold of its own does not exist.
    """
    _refuse_many_classes(joined, log)
    check_class_ious(rules, joined.classes)
    _report_groups(joined, rules, path, log)
    _note_rules(joined, rules, log)
    if any(p.measure == "oks" for p in rules):
        truth = joined.truth
        n = int(np.count_nonzero((areas_of(truth) == 0) & (truth.flags & np.uint16(Flag.CROWD) == 0)))
        if n:
            log.report(KEYPOINTS_WITHOUT_AREA, path, n=n, total=len(truth))
    for p in rules:
        _note_lacks(joined, p, log)


def _report_groups(joined: Joined, rules: Sequence[Protocol], path: str, log: Log) -> None:
    """Report boxes around a crowd or group that a protocol counts as ordinary objects."""
    truth, n_classes = joined.truth, len(joined.classes)
    for flag, word in ((Flag.CROWD, "crowd"), (Flag.GROUP_OF, "group-of")):
        counting_protocols = [p for p in rules if not _exempts(p, flag)]
        # The flags that every one of these protocols ignores.
        ignored = functools.reduce(operator.and_, (p.ignored for p in counting_protocols), ~Flag(0))
        is_counted = ((truth.flags & np.uint16(flag)) != 0) & ((truth.flags & np.uint16(ignored)) == 0)
        n = int(np.count_nonzero(is_counted))
        if not (n and counting_protocols):
            continue
        # The classes with such boxes, and those with no others.
        n_counted = np.bincount(truth.category[is_counted], minlength=n_classes)
        class_names = [joined.classes[i] for i in np.flatnonzero(n_counted).tolist()]
        n_all = np.bincount(truth.category, minlength=n_classes)
        only_groups = np.flatnonzero((n_counted > 0) & (n_counted == n_all))
        group_names = [joined.classes[i] for i in only_groups.tolist()]

        group_words = ""
        if group_names and any(p.metric in ("ap", "corloc") for p in counting_protocols):
            verb, ap_words = ("have", "their APs are") if len(group_names) > 1 else ("has", "its AP is")
            names = list_first_three(group_names)
            group_words = f"; {names} {verb} only such boxes, and {ap_words} included in the mean"
        words = f"{n} {word} boxes of the ground truth are ordinary objects"
        log.report(
            GROUPS_AS_OBJECTS,
            path,
            what=Trusted(words if n > 1 else f"1 {word} box of the ground truth is an ordinary object"),
            protocols=Trusted(", ".join(dict.fromkeys(p.name for p in counting_protocols))),
            es=Trusted("es" if len(class_names) > 1 else ""),
            classes=Trusted(list_first_three(class_names)),
            alone=Trusted(group_words),
            other=next(p.name for p in PROTOCOLS.values() if _exempts(p, flag)),
        )


def _note_lacks(joined: Joined, p: Protocol, log: Log) -> None:
    """Note what the protocol needs and is not there: SciPy, sizes of images, image labels, frequencies."""
    if p.jaccard and not can_pair():
        log.note(f"{p.name}: JI needs SciPy (pip install scipy) and is undefined without it")
    if p.clipped and joined.sizes is not None:
        # sizes: (sides, images, 2); the size of an image is known if either side states both lengths.
        n_unsized = int(np.count_nonzero(joined.sizes.max(axis=0).min(axis=1) == 0))
        if n_unsized:
            log.note(f"{p.name}: boxes of {plural(n_unsized, 'image')} of unknown size are not cut")
    if p.labelled_only and joined.image_labels is None:
        log.note(
            f"{p.name}: there are no image-level labels, so only detections of classes annotated "
            f"on the image count"
        )
    if p.by_frequency and not joined.frequency:
        log.note(f"{p.name}: the ground truth has no class frequencies, so APr, APc and APf are undefined")


PROGRAMS = {"ultralytics": "yolo val", "coco": "pycocotools", "lvis": "lvis-api"}
"""The programs that compute the numbers of a protocol."""


def report_default(truth: Dataset, detections: Dataset, log: Log) -> None:
    """Report that the default protocol is used although both sides are files of another one, as LVIS."""
    usual = truth.protocol if truth.protocol == detections.protocol else ""
    if usual:
        log.report(
            DEFAULT_PROTOCOL, source_of(truth), default=DEFAULT, usual=usual, program=Trusted(PROGRAMS[usual])
        )


def _exempts(protocol: Protocol, flag: Flag) -> bool:
    """Return whether ground truths with the flag do not count as ordinary objects."""
    is_exempt = flag == Flag.GROUP_OF and protocol.group_weight is not None
    # WIDER FACE: lists beside the ground truth say what counts, or `adapt_to_fields` ignores the crowds.
    is_exempt |= bool(protocol.approximate)
    return bool((protocol.crowd_flags | protocol.ignored | protocol.drop_flags) & flag) or is_exempt


def report_after(results: Sequence[Result], joined: Joined, path: str, log: Log) -> None:
    """Report dropped boxes, boxes that count in no metric, and results in which nothing matches.

    Whole evaluations and those in parts call it alike: it looks at nothing but counts and names of classes.
    """
    for result in results:
        if not result.rules.tubes:
            _report_dropped(result, path, log)
        row = result.overall
        if not row.gt and row.gt_ignored:
            log.report(ALL_IGNORED, path, protocol=result.protocol, n=row.gt_ignored)
    _report_uncounted(results[0], joined, path, log)
    is_explained = log.counts[LIKELY_CAUSE.name] > 0
    is_all_missed = all(r.overall.tp == 0 and min(r.overall.gt, r.overall.det) >= FEW for r in results)
    if is_all_missed and not is_explained:
        _report_no_match(results[0].overall, joined.report, path, log)


def _report_dropped(result: Result, path: str, log: Log) -> None:
    """Note the boxes that the protocol dropped; warn of detections beyond a limit that nobody chose."""
    rules = result.rules
    # A `Protocol` of the user's own is not in `PROTOCOLS`; its limit is taken as a default too.
    is_default_limit = rules.max_dets == PROTOCOLS.get(rules.name, rules).max_dets
    for reason, n in result.dropped.items():  # such as "over the limit of 100 per image and class"
        side = "" if reason.startswith(TRUTHS) else "detections "  # reasons of ground truths name their side
        if reason.startswith(OVER) and rules.metric == "ap" and is_default_limit:
            ending = Trusted("es" if n == 1 else "")
            dropped_words = Trusted(f"{plural(n, 'detection')} {reason}")
            log.report(BEYOND_LIMIT, path, protocol=rules.name, what=dropped_words, es=ending)
        else:
            log.note(f"{result.protocol}: {n} {side}dropped: {reason}")


def _report_no_match(row: Row, report: JoinReport, path: str, log: Log) -> None:
    """Report that nothing matches, and what the sides have in common; `row` is of all classes."""
    n_classes = len(report.classes_both)
    image_words = plural(report.images_both, report.unit[:-1])  # "images" or "videos" without its "s"
    both_words = f"{image_words} and {plural(n_classes, 'class', 'classes')} are"
    sides = ("ground truth", report.images_gt_only), ("detections", report.images_det_only)
    only_words = "".join(f", {len(names)} only in the {side}" for side, names in sides if names)
    log.report(NO_MATCH, path, n=row.det, total=row.gt, both=Trusted(both_words), only=Trusted(only_words))


def _report_uncounted(result: Result, joined: Joined, path: str, log: Log) -> None:
    """Report classes with detections but no object, which no mean shows, unless the join reported them."""
    reported = set(joined.report.classes_det_only)
    empty_classes = [
        r for r in result.classes if not (r.gt or r.gt_ignored) and r.fp and r.name not in reported
    ]
    if empty_classes and result.overall.gt and result.rules.metric == "ap":
        n, names = sum(row.fp for row in empty_classes), [row.name for row in empty_classes]
        log.report(
            CLASS_WITHOUT_OBJECTS,
            path,
            what=Trusted(plural(n, "detection")),
            classes=Trusted(list_first_three(names)),
            s=Trusted("s" if n == 1 else ""),
            es=Trusted("es" if len(names) > 1 else ""),
        )


def add_switches(
    rules: Sequence[Protocol],
    joined: Joined,
    *,
    score_min: float | None,
    only_classes: Sequence[str] | None,
    only_images: Sequence[str] | None,
    extra_images: ExtraImages,
    class_agnostic: bool = False,
) -> list[Protocol]:
    """Return the protocols with the options common to all of them added to `Protocol.switched`."""
    switches = []
    if score_min is not None:
        switches.append(f"score >= {score_min:g}")
    if only_classes is not None:
        switches.append(f"only {plural(len(set(only_classes)), 'class')}")
    if only_images is not None:
        switches.append(f"only {plural(len(set(only_images)), joined.report.unit[:-1])}")  # without its "s"
    extra_names = joined.report.images_det_only
    if extra_images != "error" and extra_names:
        treatment = "as background" if extra_images == "background" else "left out"
        switches.append(f"{plural(len(extra_names), f'extra {joined.report.unit[:-1]}')} {treatment}")
    if class_agnostic:
        switches.append("classes ignored")
    return [replace(p, switched=(*p.switched, *switches)) for p in rules]
