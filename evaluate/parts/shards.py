"""Evaluate detections that are not in memory at once: part by part, on any executor, with the same bits.

The stages are plain functions of parts, of files in a scratch folder, and of small tables:

1. Survey: the images and classes of each part, counts, the quantiles of its scores.
2. The plan, in this process: which images and classes are the same; which classes are counted together; which
   task matches each image. Images whose boxes lie in several parts are cut out of them and matched whole.
3. Match: what became of every detection, written to a folder that all processes share.
4. The operating point of all classes together: the positives of all tasks down to each score of a true one.
5. Count: rank the detections of some classes, and read their precision; of a class with too many, those of
   a range of scores (`condense`).

The tasks are in `tasks.py`, what runs them in `cluster.py`.
The ground truth is in the memory of this process, and each task is given what it needs of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from odm.arrays import pack
from odm.evaluate.evaluation import add_switches, report_after, report_before, report_default, resolve_rules
from odm.evaluate.matching.join import Admitted, DetectionSummary, admit
from odm.evaluate.matching.matches import Matches
from odm.evaluate.matching.prepare import add_labels_and_ancestors
from odm.evaluate.matching.sides import (
    Choice,
    ExtraImages,
    Joined,
    JoinReport,
    Label,
    apply_choice,
    make_choice,
)
from odm.evaluate.parts.cluster import TaskRunner
from odm.evaluate.parts.tasks import (
    LABELS,
    Columns,
    Cuts,
    Outcome,
    ReadablePart,
    Store,
    Survey,
    Work,
    write_skeleton,
)
from odm.evaluate.results import Evaluation, Result
from odm.evaluate.scores.accumulate import make_result
from odm.evaluate.scores.protocols import Protocol as Rules
from odm.issues import Log, UsageError, spell
from odm.pairing import source_of
from odm.tables import NO_ID, Builder, Dataset, Ints, Longs

ROWS_PER_TASK = 4_000_000
"""Detections of a task, where the classes allow it."""

# --------------------------------------------------------------------------------------------------- plan


class MergedParts(msgspec.Struct, frozen=True, eq=False):
    """The images and classes of all parts, and their number for each image and class of a part."""

    dataset: Dataset
    summary: DetectionSummary
    images: list[Longs]
    classes: list[Longs]

    @classmethod
    def from_surveys(cls, surveys: Sequence[Survey], path: str) -> MergedParts:
        """Merge the datasets of surveys, in their order, with their samples as boxes, under a new `path`."""
        builder = Builder()
        builder.kind = "det"
        builder.protocol = surveys[0].dataset.protocol if surveys else ""
        all_images, all_classes = [], []
        for survey in surveys:
            part_dataset, images = survey.dataset, survey.dataset.images
            # The last entry is for boxes and images of no file, whose row is -1.
            file_rows = np.array([*(builder.file(f.path, f.pointer) for f in part_dataset.files), -1])
            # Images and classes that another part has already are not added again.
            new_rows = [i for i, name in enumerate(images.name) if builder.image_row(name) is None]
            builder.add_images(
                [images.name[i] for i in new_rows],
                width=images.width[new_rows],
                height=images.height[new_rows],
                source_id=images.source_id[new_rows].tolist(),
                split=[images.split[i] for i in new_rows],
                file=file_rows[images.file[new_rows]].tolist(),
                line=images.line[new_rows].tolist(),
            )
            all_images.append(np.array([builder.image_row(name) for name in images.name], np.int64))
            categories, boxes = part_dataset.categories, part_dataset.boxes
            ids = (None if source_id == NO_ID else source_id for source_id in categories.source_id.tolist())
            class_rows = [
                builder.category(name, source_id=source_id, frequency=frequency)
                for name, source_id, frequency in zip(categories.name, ids, categories.frequency, strict=True)
            ]
            all_classes.append(np.array(class_rows, np.int64))

            builder.boxes(
                image=all_images[-1][boxes.image],
                category=all_classes[-1][boxes.category],
                xyxy=boxes.xyxy,
                wh=boxes.wh,
                score=boxes.score,
                file=file_rows[boxes.file],
                line=boxes.line,
            )
            builder.named &= categories.named

        dataset = replace(builder.build(), path=path)
        is_ordered = all(survey.dataset.categories.ordered for survey in surveys)
        categories = replace(dataset.categories, ordered=is_ordered)
        summary = DetectionSummary.merge(
            [s.summary for s in surveys], all_classes, all_images, len(dataset.categories)
        )
        return cls(replace(dataset, categories=categories), summary, all_images, all_classes)


def _assign_images(
    surveys: Sequence[Survey], merged: MergedParts, image_number: Longs, n_images: int, rows_per_task: int
) -> tuple[Ints, int]:
    """Return (images,) which task matches each image, and how many tasks there are beside one for each part.

    `image_number` is the number, among `n_images`, of each image of `merged`.
    """
    # An image of one part is matched with that part.
    task_of_image = np.full(n_images, -1, np.int32)
    n_parts_of_image = np.zeros(n_images, np.int64)
    for i, (survey, images) in enumerate(zip(surveys, merged.images, strict=True)):
        image_numbers = image_number[images[survey.summary.images]]
        n_parts_of_image[image_numbers] += 1
        task_of_image[image_numbers] = i

    # Images of several parts are cut out of them, and divided evenly among further tasks.
    is_cut = n_parts_of_image > 1
    cut_images = np.flatnonzero(is_cut)
    surveyed = zip(surveys, merged.images, strict=True)
    n_rows = sum(int(survey.per_image[is_cut[image_number[images]]].sum()) for survey, images in surveyed)
    n_cut = -(-n_rows // rows_per_task)  # rounded up
    if n_cut:
        task_of_image[cut_images] = len(surveys) + np.arange(len(cut_images)) * n_cut // len(cut_images)

    # Images where only the ground truth has boxes are divided among all tasks.
    images_without_detections = np.flatnonzero(n_parts_of_image == 0)
    n_tasks = len(surveys) + n_cut
    if not n_tasks:  # without any part, one task for the ground truth alone
        n_cut = n_tasks = 1
    task_of_image[images_without_detections] = (
        np.arange(len(images_without_detections)) * n_tasks // max(len(images_without_detections), 1)
    )
    return task_of_image, n_cut


def _assign_buckets(
    per_class: Mapping[str, int], cuts: Mapping[str, Cuts], rows_per_bucket: int
) -> tuple[dict[str, int], int]:
    """Assign classes to buckets of about `rows_per_bucket` detections that are counted together.

    Returns the bucket of each class name, and the number of buckets. Classes that are cut come last: each has
    a bucket for every range, and the first of these is given.
    """
    n_of_whole_class = {name: count for name, count in per_class.items() if name not in cuts}
    n_full_buckets = -(-sum(n_of_whole_class.values()) // rows_per_bucket)  # rounded up
    n_buckets = max(1, min(len(n_of_whole_class), n_full_buckets))
    bucket_loads = np.zeros(n_buckets, np.int64)
    bucket_of_class = {}
    # The largest class first, each into the bucket that has the fewest detections so far.
    for name, count in sorted(n_of_whole_class.items(), key=lambda item: -item[1]):
        lightest = int(bucket_loads.argmin())
        bucket_of_class[name] = lightest
        bucket_loads[lightest] += count + 1  # classes without detections are spread, too
    for name, class_cuts in cuts.items():
        bucket_of_class[name] = n_buckets
        n_buckets += len(class_cuts)
    return bucket_of_class, n_buckets


def _cut_classes(
    per_class: Mapping[str, int],
    names: Sequence[str],
    merged: MergedParts,
    surveys: Sequence[Survey],
    rows_per_range: int,
    n_images: int,
) -> dict[str, Cuts]:
    """Cut the classes that have more than `rows_per_range` detections.

    Returns the cuts of those, by name; a class without a sampled score is not cut. `per_class` has the number
    of detections of each class, `names` are the classes of `merged`.
    """
    n_ranges_of_class = {
        name: -(-count // rows_per_range) for name, count in per_class.items() if count > rows_per_range
    }
    if not n_ranges_of_class:
        return {}
    sampled_classes, sampled_scores = zip(*(survey.sample for survey in surveys), strict=True)
    # Class, score and weight of each sampled detection: how many of its part it stands for.
    categories = [classes[k] for k, classes in zip(sampled_classes, merged.classes, strict=True)]
    category, score = np.concatenate(categories), np.concatenate(sampled_scores)
    n_sampled = [len(scores) for scores in sampled_scores]
    weight = np.repeat([s.summary.n / max(n, 1) for s, n in zip(surveys, n_sampled, strict=True)], n_sampled)
    cuts = {}
    for name, n_ranges in n_ranges_of_class.items():
        # Several classes may have one name: numbers that were read as names of the ground truth.
        is_class = np.array([class_name == name for class_name in names], np.bool_)
        sampled_rows = np.flatnonzero(is_class[category])
        if len(sampled_rows):
            cuts[name] = Cuts.from_scores(score[sampled_rows], weight[sampled_rows], n_ranges, n_images)
    return cuts


def _plan_work(
    admitted: Admitted,
    all_joined: Joined,
    chosen: Joined,
    choice: Choice,
    merged: MergedParts,
    surveys: Sequence[Survey],
    rules: Sequence[Rules],
    rows_per_task: int,
) -> tuple[Work, Ints, list[tuple[Longs, Longs, Ints]]]:
    """Plan the tasks.

    Returns the data that every task needs, (images,) the task that matches each image, and for each part its
    (images,) joint numbers, (classes,) joint numbers, and (images,) tasks. `all_joined` are both sides
    without detections; `chosen` is what `choice` leaves of them, with the classes that the hierarchy adds.
    """
    image_number, class_number = admitted.det_number, np.array(admitted.det_classes, np.int64)
    n_images = len(all_joined.images)
    task_of_image, n_cut = _assign_images(surveys, merged, image_number, n_images, rows_per_task)
    names = admitted.pairing.det_names

    # The buckets of the classes that are evaluated, by their numbers of detections.
    per_class = dict.fromkeys([*chosen.classes, *chosen.added], 0)
    for name, n in zip(names, merged.summary.per_class.tolist(), strict=True):
        if name in per_class:
            per_class[name] += n
    cuts = _cut_classes(per_class, names, merged, surveys, rows_per_task, n_images)
    bucket_of, n_buckets = _assign_buckets(per_class, cuts, rows_per_task)

    no_rows = np.zeros(0, np.int64)
    joined_without_boxes = replace(
        all_joined.only(truth=no_rows),
        images=(),
        added=chosen.added,
        image_labels=None,
        report=JoinReport(0, (), (), (), (), (), {}, {}),  # empty: tasks do not need it
    )
    work = Work(
        rules=tuple(rules),
        joined=joined_without_boxes,
        choice=choice,
        bucket_of=bucket_of,
        cuts=cuts,
        n_buckets=n_buckets,
        n_parts=len(surveys),
        n_cut=n_cut,
    )
    mappings = [
        (image_number[images], class_number[classes], task_of_image[image_number[images]])
        for images, classes in zip(merged.images, merged.classes, strict=True)
    ]
    return work, task_of_image, mappings


# ---------------------------------------------------------------------------------------------- all of it


def evaluate_parts(
    truth: Dataset,
    parts: Sequence[ReadablePart],
    rules: Sequence[Rules],
    *,
    executor: Executor,
    store: Store,
    path: str,
    unread: Log,
    rows_per_task: int,
    log: Log,
    is_default: bool = False,
    only_classes: Sequence[str] | None = None,
    only_images: Sequence[str] | None = None,
    score_min: float | None = None,
    at_score: float | None = None,
    extra_images: ExtraImages = "error",
    image_labels: Iterable[Label] | None = None,
    hierarchy: Mapping[str, Any] | None = None,
    **_switches: Any,
) -> Evaluation:
    """Measure detections in parts against ground truth, as `evaluate` does with all of them at once.

    Equal scores on one image rank in the order of the parts. `rules` are those of `rules_in_parts`, which
    takes the other options of `evaluate` (`_switches`); `is_default` says that no protocol was chosen.
    `store` is a folder that all processes of the `executor` share; `path` is what the user named, `unread`
    says what was not read of it. A task holds about `rows_per_task` detections; a class with more is ranked
    in ranges of its scores.

    Raises DataError if parts have errors, all of which are in its log, or the two sides do not belong
    together, and UsageError if the options do not fit together.
    """
    # Survey the parts, and decide which images and classes of the two sides correspond.
    image_labels = None if image_labels is None else list(image_labels)
    selection: dict[str, Any] = {
        "extra_images": extra_images,
        "only_classes": only_classes,
        "only_images": only_images,
    }
    runner = TaskRunner(executor, store, log)
    write_skeleton(truth, store)
    surveys = runner.survey(parts, unread)
    merged = MergedParts.from_surveys(surveys, path)
    admitted = admit(truth, merged.dataset, merged.summary, log, image_labels=image_labels, **selection)
    if extra_images == "ignore" and (admitted.pairing.image < 0).any():
        raise UsageError(
            f"{spell('extra_images')} ignore needs all detections at once; leave those images out first"
        )

    # Plan the work: both sides without detections, before and after the choice of the user.
    no_boxes = merged.dataset.boxes.take(np.zeros(0, np.int64))
    all_joined = admitted.join_boxes(no_boxes, hierarchy)
    choice = make_choice(all_joined, score_min=score_min, **selection)
    labels_log = Log()
    chosen = add_labels_and_ancestors(apply_choice(all_joined, choice)[0], image_labels, labels_log)
    rules = add_switches(rules, all_joined, score_min=score_min, **selection)
    work, task_of_image, mappings = _plan_work(
        admitted, all_joined, chosen, choice, merged, surveys, rules, rows_per_task
    )
    _write_truth(all_joined, chosen, task_of_image, len(parts) + work.n_cut, store)
    del surveys

    # Match; the notes are in the order of `evaluate`, hence the separate log of the labels.
    outcomes, totals, kept_counts = runner.match(parts, mappings, work)
    kept_counts.report(choice, all_joined.report.images_det_only, source_of(merged.dataset), log)
    log.extend(labels_log)
    report_before(chosen, rules, source_of(truth), log)
    results = _count(runner, outcomes, totals, work, at_score)
    if is_default:
        report_default(truth, merged.dataset, log)
    report_after(results, chosen, source_of(merged.dataset), log)
    no_detections = all_joined.detections  # they are in the parts
    return Evaluation(replace(chosen, detections=no_detections), results, log)


def _count(
    runner: TaskRunner,
    outcomes: Sequence[Outcome],
    totals: Sequence[Matches],
    work: Work,
    at_score: float | None,
) -> list[Result]:
    """Count each class at the operating point of all classes together, and make a result per protocol."""
    points = runner.find_overall_points(outcomes, totals, at_score)
    scores = [  # a shared score is found when all classes are counted
        at_score if p.shared_score else overall_point["score"]
        for p, (overall_point, _) in zip(work.rules, points, strict=True)
    ]
    counted = runner.count(outcomes, totals, work, scores)
    return [
        make_result(matches, class_counts, overall_point, overall_best, at_score)
        for matches, class_counts, (overall_point, overall_best) in zip(totals, counted, points, strict=True)
    ]


def rules_in_parts(
    protocol: str | Rules | Sequence[str | Rules] | None = None,
    *,
    class_agnostic: bool = False,
    diagnose: bool = False,
    **options: Any,
) -> list[Rules]:
    """Return the requested protocols. Raises UsageError if detections cannot be evaluated in parts like this.

    Of the other options of `evaluate` those that choose images and classes are not looked at.
    """
    for name, is_requested in (("class_agnostic", class_agnostic), ("diagnose", diagnose)):
        if is_requested:
            raise UsageError(f"{name} needs all detections at once; evaluate them in one process")
    for choice in ("only_classes", "only_images", "extra_images"):
        options.pop(choice, None)
    for name in ("at_score", "score_min", "hierarchy", "image_labels"):  # `resolve_rules` asks for them
        options.setdefault(name, None)
    rules = resolve_rules(protocol, **options)
    check_rules(rules)
    return rules


def check_rules(rules: Sequence[Rules]) -> None:
    """Raise UsageError for a protocol whose numbers need all detections at once."""
    for p in rules:
        if p.tubes:
            cause = "measures tracks, whose boxes may lie in several parts"
        elif p.measure != "bbox":
            cause = f"compares {p.iou_type}, but parts of files hold only boxes"
        elif p.fields or p.rates or p.whole_corners or p.reading == "limits" or p.cap_of == "file":
            cause = "reads other fields of the ground truth than boxes, or ranks all false positives together"
        elif p.metric != "ap":
            cause = "ranks or counts the detections of all images and classes together"
        else:
            continue
        raise UsageError(
            f"{p.name} {cause}; evaluate it in one process, without {spell('memory')} and {spell('cluster')}"
        )


def _write_truth(all_joined: Joined, chosen: Joined, task_of_image: Ints, n_tasks: int, store: Store) -> None:
    """Write for every task the ground truth of its images, and their image labels if there are any.

    Objects are those before the user's choice, of `all_joined`: each task makes it again, to count what it
    leaves out. Labels are added after it, with numbers of the classes that it leaves, so they are `chosen`'s.
    """
    # Columns of a table, and the name of the column that holds the number of the image of each row.
    tables: list[tuple[Columns, str]] = [(all_joined.truth.columns(), "image")]
    if chosen.image_labels is not None:
        tables.append((dict(zip(LABELS, chosen.image_labels, strict=True)), LABELS[0]))
    columns_by_task: list[Columns] = [{} for _ in range(n_tasks)]
    for columns, image_column in tables:
        task = task_of_image[columns[image_column]]
        order = np.argsort(task, kind="stable")
        task_bounds = np.searchsorted(task[order], np.arange(n_tasks + 1))
        for k in range(n_tasks):
            rows = order[task_bounds[k] : task_bounds[k + 1]]
            columns_by_task[k] |= {name: column[rows] for name, column in columns.items()}
    for k, task_columns in enumerate(columns_by_task):
        store.write(f"truth-{k}", [pack(task_columns)])
