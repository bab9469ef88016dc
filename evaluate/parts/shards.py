"""Evaluate detections that are not in memory at once: part by part, on any executor, with the same bits.

The stages are plain functions of parts, of files in a scratch folder, and of small tables:

1. Survey: the images and classes of each part, counts, the quantiles of its scores.
2. The plan, in this process: which images and classes are the same; which classes are counted together; which
   task matches each image. Images whose boxes lie in several parts are cut out of them and matched whole.
3. Match: what became of every detection, written to a folder that all processes share.
4. Count: rank the detections of some classes, and read their precision; of a class with too many, those of
   a range of scores (`condense`).
5. The operating point of all classes together, from histograms of scores (`operating_point.py`).

The tasks are in `tasks.py`, what runs them in `job.py`.
The ground truth is in the memory of this process, and each task is given what it needs of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.arrays import pack
from odm.evaluate.evaluation import checked_rules, common_switches, report_after, report_before
from odm.evaluate.matching.join import Admitted, DetectionSummary, admit, with_what_is_known
from odm.evaluate.matching.labels import ancestors
from odm.evaluate.matching.matches import Matches
from odm.evaluate.matching.prepare import drop_rank
from odm.evaluate.matching.sides import Choice, ExtraImages, Joined, Label, image_numbers, narrow
from odm.evaluate.parts.job import Job
from odm.evaluate.parts.operating_point import ScoreBins
from odm.evaluate.parts.tasks import (
    SIDE,
    Columns,
    Cuts,
    Outcome,
    Part,
    Store,
    Survey,
    Totals,
    Work,
    write_skeleton,
)
from odm.evaluate.results import Evaluation, Result
from odm.evaluate.scores.accumulate import finish, with_shared_points
from odm.evaluate.scores.protocols import Protocol as Rules
from odm.issues import Log, UsageError
from odm.pairing import source_of
from odm.tables import NO_ID, Builder, Dataset, Ints, Longs

ROWS_PER_TASK = 4_000_000
"""Detections of a task, where the classes allow it."""

# --------------------------------------------------------------------------------------------------- plan


@dataclasses.dataclass(frozen=True, eq=False)
class Whole:
    """All parts as one: their images and classes, and which of them each part's are."""

    dataset: Dataset
    summary: DetectionSummary
    images: list[Longs]
    classes: list[Longs]

    @classmethod
    def of(cls, surveys: Sequence[Survey], path: str) -> Whole:
        """The datasets of parts, in their order, with the samples as boxes."""
        builder = Builder()
        builder.kind = "det"
        all_images, all_classes = [], []
        ordered = True
        for one in surveys:
            data = one.dataset
            files = [builder.file(f.path, f.pointer) for f in data.files]
            own = [-1 if f < 0 else files[f] for f in data.images.file.tolist()]
            rows = [builder.image_row(name) for name in data.images.name]
            for i, row in enumerate(rows):
                if row is None:
                    rows[i] = _add_image(builder, data, i, own[i])
            images = np.array(rows, np.int64)
            classes = np.array(
                [
                    builder.category(name, source_id=None if number == NO_ID else number, frequency=frequency)
                    for name, number, frequency in zip(
                        data.categories.name,
                        data.categories.source_id.tolist(),
                        data.categories.frequency,
                        strict=True,
                    )
                ],
                np.int64,
            )
            boxes = data.boxes
            place = np.array([*files, -1])
            builder.boxes(
                image=images[boxes.image],
                category=classes[boxes.category],
                xyxy=boxes.xyxy,
                wh=boxes.wh,
                score=boxes.score,
                file=place[boxes.file],
                line=boxes.line,
            )
            builder.named &= data.categories.named
            ordered &= data.categories.ordered
            all_images.append(images)
            all_classes.append(classes)
        dataset = dataclasses.replace(builder.build(), path=path)
        categories = dataclasses.replace(dataset.categories, ordered=ordered)
        summary = DetectionSummary.together(
            [s.summary for s in surveys], all_classes, all_images, len(dataset.categories)
        )
        return cls(dataclasses.replace(dataset, categories=categories), summary, all_images, all_classes)


def _add_image(builder: Builder, data: Dataset, i: int, file: int) -> int:
    images = data.images
    number = images.source_id[i]
    number = number if isinstance(number, int | str) else int(number)
    return builder.image(
        images.name[i],
        width=int(images.width[i]),
        height=int(images.height[i]),
        source_id=None if number == NO_ID else number,
        split=images.split[i],
        file=file,
        line=int(images.line[i]),
    )


def _owners(
    surveys: Sequence[Survey], whole: Whole, number: Longs, n_images: int, rows: int
) -> tuple[Ints, int]:
    """(images,) which task matches each image, and how many tasks there are beside one for each part."""
    owner = np.full(n_images, -1, np.int32)
    parts_of = np.zeros(n_images, np.uint8)
    for i, (one, images) in enumerate(zip(surveys, whole.images, strict=True)):
        used = number[images[one.summary.images]]
        parts_of[used] = np.minimum(parts_of[used] + 1, 2)
        owner[used] = i
    cut = np.flatnonzero(parts_of > 1)
    n_rows = 0
    is_cut = parts_of > 1
    for one, images in zip(surveys, whole.images, strict=True):
        n_rows += int(one.per_image[is_cut[number[images]]].sum())
    n_cut = -(-n_rows // rows) if len(cut) else 0
    if n_cut:
        owner[cut] = len(surveys) + np.arange(len(cut)) * n_cut // len(cut)
    rest = np.flatnonzero(parts_of == 0)  # only the ground truth has boxes there
    n_tasks = len(surveys) + n_cut
    if not n_tasks:
        n_cut = n_tasks = 1
    owner[rest] = np.arange(len(rest)) * n_tasks // max(len(rest), 1)
    return owner, n_cut


def _buckets(per_class: Mapping[str, int], cuts: Mapping[str, Cuts], rows: int) -> tuple[dict[str, int], int]:
    """Which classes are counted together, about `rows` detections at a time, and how many buckets there are.

    Those that are cut come last, with a bucket for each range.
    """
    whole = {name: count for name, count in per_class.items() if name not in cuts}
    n = max(1, min(len(whole), -(-sum(whole.values()) // rows)))
    load = np.zeros(n, np.int64)
    bucket = {}
    for name, count in sorted(whole.items(), key=lambda item: -item[1]):
        b = int(load.argmin())
        bucket[name] = b
        load[b] += count + 1
    for name, own in cuts.items():
        bucket[name] = n
        n += len(own)
    return bucket, n


def _cuts(
    per_class: Mapping[str, int],
    names: Sequence[str],
    whole: Whole,
    surveys: Sequence[Survey],
    rows: int,
    n_images: int,
) -> dict[str, Cuts]:
    """Where the classes are cut that have more than `rows` detections; `names` are those of `whole`."""
    large = {name: -(-count // rows) for name, count in per_class.items() if count > rows}
    if not large:
        return {}
    own = [classes[one.sample[0]] for one, classes in zip(surveys, whole.classes, strict=True)]
    category, score = np.concatenate(own), np.concatenate([one.sample[1] for one in surveys])
    stands_for = [one.summary.n / max(len(one.sample[1]), 1) for one in surveys]
    weight = np.repeat(stands_for, [len(one.sample[1]) for one in surveys])
    found = {}
    for name, n in large.items():
        drawn = np.flatnonzero(np.array([other == name for other in names], np.bool_)[category])
        if len(drawn):
            found[name] = Cuts.of(score[drawn], weight[drawn], n, n_images)
    return found


def _detections_per_class(admitted: Admitted, whole: Whole, known: Joined) -> dict[str, int]:
    """How many detections each class has that is evaluated."""
    counts = dict.fromkeys([*known.classes, *known.added], 0)
    for name, n in zip(admitted.pairing.det_names, whole.summary.per_class.tolist(), strict=True):
        if name in counts:
            counts[name] += n
    return counts


def _plan(
    admitted: Admitted,
    base: Joined,
    known: Joined,
    choice: Choice,
    whole: Whole,
    surveys: Sequence[Survey],
    rules: Sequence[Rules],
    *,
    at_score: float | None,
    rows_per_task: int,
) -> tuple[Work, Ints, list[tuple[Longs, Longs, Ints]]]:
    """What every task has to know, (images,) which task matches each image, and the numbers of each part."""
    number, category = admitted.det_numbers(), np.array(admitted.det_classes(), np.int64)
    owner, n_cut = _owners(surveys, whole, number, len(base.images), rows_per_task)
    per_class = _detections_per_class(admitted, whole, known)
    names = admitted.pairing.det_names
    cuts = _cuts(per_class, names, whole, surveys, rows_per_task, len(base.images))
    bucket_of, n_buckets = _buckets(per_class, cuts, rows_per_task)
    work = Work(
        rules=tuple(rules),
        classes=base.classes,
        added=known.added,
        frequency=base.frequency,
        hierarchy=base.hierarchy,
        choice=choice,
        n_truth_images=base.n_truth_images,
        has_labels=known.image_labels is not None,
        bucket_of=bucket_of,
        cuts=cuts,
        n_buckets=n_buckets,
        bins=ScoreBins.of([s.sample[1] for s in surveys], at_score),
        n_parts=len(surveys),
        n_cut=n_cut,
    )
    mappings = [
        (number[images], category[classes], owner[number[images]])
        for images, classes in zip(whole.images, whole.classes, strict=True)
    ]
    return work, owner, mappings


# ---------------------------------------------------------------------------------------------- all of it


def evaluate_parts(
    truth: Dataset,
    parts: Sequence[Part],
    protocol: str | Rules | Sequence[str | Rules] = "voc2012",
    *,
    executor: Executor,
    store: Store,
    path: str = "",
    unread: Log | None = None,
    rows_per_task: int = ROWS_PER_TASK,
    only_classes: Sequence[str] | None = None,
    only_images: Sequence[str] | None = None,
    score_min: float | None = None,
    at_score: float | None = None,
    extra_images: ExtraImages = "error",
    image_labels: Iterable[Label] | None = None,
    hierarchy: Mapping[str, Any] | None = None,
    log: Log | None = None,
    **switches: Any,
) -> Evaluation:
    """Measure detections in parts against ground truth, as `evaluate` does with all of them at once.

    Parameters
    ----------
    truth
        The ground truth, whole.
    parts
        The detections; equal scores on one image rank in this order.
    executor
        Runs the tasks: any of `concurrent.futures`, or of an engine.
    store
        A folder that all its processes share.
    path
        What the user named, for messages about all detections.
    unread
        What was not read of the parts' files.
    rows_per_task
        About how many detections a task holds; a class with more is ranked in ranges of its scores.
    switches
        As `evaluate` takes them.

    Raises
    ------
    DataError
        If parts have errors, all of which are in its log, or the two sides do not belong together.
    UsageError
        If the options do not fit together, or a protocol needs all detections at once.
    """
    log = Log() if log is None else log
    image_labels = None if image_labels is None else list(image_labels)
    chosen: dict[str, Any] = {
        "extra_images": extra_images,
        "only_classes": only_classes,
        "only_images": only_images,
    }
    labels: dict[str, Any] = {"image_labels": image_labels, "hierarchy": hierarchy}
    rules = rules_in_parts(protocol, at_score=at_score, score_min=score_min, **labels, **switches)
    job = Job(executor, store, log)
    write_skeleton(truth, store)
    surveys = job.survey(parts, unread or Log())
    whole = Whole.of(surveys, path)
    admitted = admit(truth, whole.dataset, whole.summary, log, image_labels=image_labels, **chosen)
    base, choice, known, labels_log = _narrowed(admitted, score_min=score_min, **chosen, **labels)
    common = common_switches(score_min, joined=base, **chosen)
    rules = [dataclasses.replace(p, switched=(*p.switched, *common)) for p in rules]
    work, owner, mappings = _plan(
        admitted,
        base,
        known,
        choice,
        whole,
        surveys,
        rules,
        at_score=at_score,
        rows_per_task=rows_per_task,
    )
    _write_truth(base, known, owner, len(parts) + work.n_cut, store)
    del surveys
    outcomes, totals, kept = job.match(parts, mappings, work)
    if kept is not None:
        kept.report(choice, base.report.images_det_only, source_of(whole.dataset), log)
    log.extend(labels_log)
    report_before(known, rules, source_of(truth), log)
    results = _results(job, outcomes, totals, work, at_score)
    report_after(results, source_of(whole.dataset), log)
    return Evaluation(dataclasses.replace(known, detections=base.detections), results, log)


def _results(
    job: Job, outcomes: Sequence[Outcome], totals: Sequence[Totals], work: Work, at_score: float | None
) -> list[Result]:
    """The result under each protocol, from what became of all detections."""
    counted = job.count(outcomes, totals, work, at_score)
    points = job.overall_points(outcomes, totals, work.bins, at_score)
    for i, (rules, one) in enumerate(zip(work.rules, totals, strict=True)):
        if rules.shared_score:
            counted[i], points[i] = with_shared_points(counted[i], one.npos[:, 0], at_score)
    return [
        finish(_stub(one, rule), numbers, point, at_score)
        for one, rule, numbers, point in zip(totals, work.rules, counted, points, strict=True)
    ]


def rules_in_parts(
    protocol: str | Rules | Sequence[str | Rules] = "voc2012",
    *,
    at_score: float | None = None,
    score_min: float | None = None,
    hierarchy: Mapping[str, Any] | None = None,
    image_labels: Iterable[Label] | None = None,
    class_agnostic: bool = False,
    **options: Any,
) -> list[Rules]:
    """The protocols that are asked for. UsageError if detections cannot be evaluated in parts like this.

    Of the other options of `evaluate` those that choose images and classes are not looked at.
    """
    if class_agnostic:
        raise UsageError("class_agnostic needs all detections at once; evaluate them in one process")
    choice = ("only_classes", "only_images", "extra_images")
    rules = checked_rules(
        protocol,
        at_score=at_score,
        score_min=score_min,
        hierarchy=hierarchy,
        image_labels=image_labels,
        **{name: value for name, value in options.items() if name not in choice},
    )
    check_rules(rules)
    return rules


def check_rules(rules: Sequence[Rules]) -> None:
    """UsageError for a protocol whose numbers need all detections at once."""
    for p in rules:
        if p.tubes:
            why = "measures tracks, whose boxes may lie in several parts"
        elif p.metric != "ap":
            why = "ranks or counts the detections of all images and classes together"
        else:
            continue
        raise UsageError(f"{p.name} {why}; evaluate it in one process, without --memory and --cluster")


def _narrowed(
    admitted: Admitted,
    *,
    extra_images: ExtraImages,
    only_classes: Sequence[str] | None,
    only_images: Sequence[str] | None,
    score_min: float | None,
    image_labels: Sequence[Label] | None,
    hierarchy: Mapping[str, Any] | None,
) -> tuple[Joined, Choice, Joined, Log]:
    """The ground truth as it is joined, the choice, and what it leaves, with the notes about labels."""
    if extra_images == "ignore" and (admitted.pairing.image < 0).any():
        raise UsageError("--extra-images ignore needs all detections at once; leave those images out before")
    empty = admitted.detections.boxes.take(np.zeros(0, np.int64))
    base = dataclasses.replace(
        admitted.joined(admitted.det_numbers(), admitted.det_classes(), empty),
        hierarchy=None if hierarchy is None else ancestors(hierarchy),
    )
    choice = Choice(
        drop_extra=extra_images == "ignore",
        classes=only_classes,
        images=None if only_images is None else image_numbers(base.images, only_images),
        score_min=score_min,
    )
    log = Log()
    return base, choice, with_what_is_known(narrow(base, choice)[0], image_labels, log), log


def _write_truth(base: Joined, known: Joined, owner: Ints, n_tasks: int, store: Store) -> None:
    """Write for every task the ground truth of its images, and their image labels."""
    labels: Sequence[NDArray[Any]] = known.image_labels or (
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        np.zeros(0, np.uint8),
    )
    tables: list[tuple[NDArray[Any], Columns]] = [
        (base.truth.image, {name: getattr(base.truth, name) for name in SIDE}),
        (
            labels[0],
            {f"label_{k}": v for k, v in zip(("image", "category", "state"), labels, strict=True)},
        ),
    ]
    pieces: list[Columns] = [{} for _ in range(n_tasks)]
    for image, columns in tables:
        task = owner[image]
        order = np.argsort(task, kind="stable")
        ends = np.searchsorted(task[order], np.arange(n_tasks + 1))
        for k in range(n_tasks):
            rows = order[ends[k] : ends[k + 1]]
            pieces[k] |= {name: column[rows] for name, column in columns.items()}
    for k, piece in enumerate(pieces):
        store.write(f"truth-{k}", [pack(piece)])


def _stub(totals: Totals, rules: Rules) -> Matches:
    """The totals as matches without detections."""
    none, words = np.zeros(0, np.int32), np.zeros((0, 1), np.uint64)
    order = {what: i for i, what in enumerate(sorted(totals.dropped, key=drop_rank))}
    return Matches(
        protocol=rules,
        classes=totals.classes,
        category=none,
        score=np.zeros(0),
        image=none,
        row=none,
        fp_if_unmatched=None,
        hit=np.zeros(0, np.int64),
        positive=words,
        ignored=words,
        hit_rank=none,
        hit_gt=none,
        npos=totals.npos,
        gt_ignored=totals.gt_ignored,
        guesses=np.zeros((0, 2), np.int64),
        dropped=tuple((what, totals.dropped[what]) for what in order),
        frequency=totals.frequency,
    )
