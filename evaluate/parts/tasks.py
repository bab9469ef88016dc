"""The tasks of an evaluation in parts: plain functions of parts, of files in a folder, and of small tables.

They run in any process; each can be run twice with the same outcome.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.arrays import pack, unpack
from odm.evaluate.matching.join import DetectionSummary, check_rows, make_side_table
from odm.evaluate.matching.match import match_all
from odm.evaluate.matching.matches import OUTCOMES, Matches, find_outcomes, replace_rows
from odm.evaluate.matching.order import first_of_runs, rank_in_runs
from odm.evaluate.matching.sides import Choice, Joined, Kept, SideTable, apply_choice
from odm.evaluate.scores.accumulate import ClassCounts, count_classes
from odm.evaluate.scores.curves import find_rows_beside_confidences
from odm.evaluate.scores.protocols import Protocol as Rules
from odm.evaluate.scores.score_order import Weights, rank_rows
from odm.evaluate.scores.set_ups import AreaBits
from odm.issues import Log
from odm.pairing import SAMPLE
from odm.tables import NO_ID, Boxes, Builder, Dataset, Floats, Ints, Longs, first_index_of
from odm.version import VERSION

Columns = dict[str, NDArray[Any]]
Piece = tuple[int, int, int]
"""Which task wrote something, and where in its file it begins and ends."""
Scores = Sequence[float | None]
"""The score of the operating point under each protocol; None where it is not known yet."""
LABELS = ("label_image", "label_category", "label_state")
"""The columns of image labels, beside those of the ground truth."""


class ReadablePart(Protocol):
    """A part of the detections; it is sent to the process that reads it."""

    @property
    def name(self) -> str:
        """The name of the part in messages."""

    def read(self, truth: Callable[[], Dataset], *, check: bool) -> tuple[Dataset, Log]:
        """Read the detections and their log; their ids refer to the images and classes of `truth`."""


class Store(Protocol):
    """The folder of intermediate files, the same for all processes."""

    @property
    def path(self) -> str:
        """The path of the folder, different for each job."""

    def write(self, name: str, pieces: Sequence[bytes]) -> list[int]:
        """Write a file of pieces: where each begins, and the end."""

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return some bytes of a file."""


class Work(msgspec.Struct, frozen=True, eq=False):
    """The data that every task needs, whatever its part; small."""

    rules: tuple[Rules, ...]
    joined: Joined
    """Both sides, without images, boxes and labels of images."""
    choice: Choice
    bucket_of: Mapping[str, int]
    """The bucket of each class, the first one of a class that is cut."""
    cuts: Mapping[str, Cuts]
    """Where classes are cut that are too large for a bucket; their ranges have the last buckets, in order."""
    n_buckets: int
    n_parts: int
    n_cut: int
    """Tasks for the images that were cut out of several parts."""


def get_versions() -> tuple[str, str, str]:
    """Return the versions on which the bits of the numbers depend: of odm, NumPy and Python."""
    return VERSION, np.__version__, platform.python_version()


# ------------------------------------------------------------------------------------------------- survey


class Survey(msgspec.Struct, frozen=True, eq=False):
    """A summary of a part: its images and classes, a sample of the boxes, and sums over all of them."""

    dataset: Dataset
    summary: DetectionSummary
    log: Log
    sample: tuple[Longs, Floats]
    """Classes and scores of some of its detections, drawn evenly."""
    per_image: Ints
    """(images,) how many detections each image has."""
    versions: tuple[str, str, str]


_skeletons: dict[str, Dataset] = {}


def write_skeleton(truth: Dataset, store: Store) -> None:
    """Write the images and classes of the ground truth, which results of COCO refer to by their ids."""
    images, categories = truth.images, truth.categories
    data = {
        "named": categories.named,
        "images": [
            images.name,
            images.width.tolist(),
            images.height.tolist(),
            images.source_id.tolist(),
            images.split,
        ],
        "categories": [categories.name, categories.source_id.tolist(), categories.frequency],
        "videos": [truth.videos.name, truth.videos.length.tolist(), truth.videos.source_id.tolist()],
        "frames": [None if c is None else c.tolist() for c in (images.video, images.frame)],
    }
    store.write("truth", [json.dumps(data).encode()])


def _read_skeleton(store: Store) -> Dataset:
    """Return the images and classes of the ground truth, which each process reads once for each store."""
    if store.path not in _skeletons:
        data = json.loads(store.read("truth"))
        names, width, height, ids, split = data["images"]
        builder = Builder()
        builder.kind, builder.named = "gt", data["named"]
        for name, length, recorded_id in zip(*data["videos"], strict=True):
            builder.video(name, length=length, source_id=None if recorded_id == NO_ID else recorded_id)
        video, frame = data["frames"]
        builder.add_images(
            names,
            width=np.array(width, np.int64),
            height=np.array(height, np.int64),
            source_id=ids,
            split=split,
            video=video,
            frame=frame,
        )
        for name, recorded_id, frequency in zip(*data["categories"], strict=True):
            source_id = None if recorded_id == NO_ID else recorded_id
            builder.category(name, source_id=source_id, frequency=frequency)
        _skeletons.clear()  # that of a former job
        _skeletons[store.path] = builder.build()
    return _skeletons[store.path]


def survey(part: ReadablePart, store: Store) -> Survey:
    """Survey a part. Its faults are returned, so that one run names those of all parts."""
    dataset, log = part.read(lambda: _read_skeleton(store), check=True)
    if not log.errors:
        check_rows(dataset, log)
    boxes = dataset.boxes
    n_boxes, n_sampled = len(boxes), 1024 + len(boxes) // 256
    # Always the same rows: all of a few, at least one in 256 of many.
    sampled_rows = (
        np.arange(n_boxes)
        if n_boxes <= n_sampled
        else np.random.default_rng(0).integers(0, n_boxes, n_sampled)
    )
    sampled_rows = sampled_rows[~np.isnan(boxes.score[sampled_rows])]
    return Survey(
        dataset=dataset.take(_sample_rows(boxes, len(dataset.categories))),
        summary=DetectionSummary.from_dataset(dataset),
        log=log,
        sample=(boxes.category[sampled_rows].astype(np.int64), boxes.score[sampled_rows]),
        per_image=np.bincount(boxes.image, minlength=len(dataset.images)).astype(np.int32),
        versions=get_versions(),
    )


def _sample_rows(boxes: Boxes, n_classes: int) -> Longs:
    """Return the rows that `odm.evaluate.matching.join.admit` needs, ascending.

    They are the first of each class, those of the highest scores, and the first of a score above one.
    """
    first_rows = first_index_of(boxes.category, n_classes)
    best_rows = np.arange(len(boxes))
    if len(boxes) > SAMPLE:
        best_rows = np.argpartition(-boxes.score, SAMPLE)[:SAMPLE]
    above_one_rows = np.flatnonzero(boxes.score > 1)[:1]
    return np.unique(np.concatenate([first_rows[first_rows >= 0], best_rows, above_one_rows]))


# -------------------------------------------------------------------------------------------------- match


class Outcome(msgspec.Struct, frozen=True, eq=False):
    """The result of a matching task, and the positions of each bucket's piece in its file."""

    bounds: list[int]
    """Positions in its file: where the piece of each bucket begins, then that of all scores, and the end."""
    kept: Kept
    totals: list[Matches]
    """Under each protocol, without the detections."""
    true_scores: list[Floats]
    """Under each protocol the scores that true positives have, each once."""
    cut_bounds: Sequence[int] = ()
    """Where in the file "cut-TASK" the boxes for each task of shared images begin, and the end; or empty."""


def match_part(
    part: ReadablePart,
    image_number: Longs,
    class_number: Longs,
    task_of_image: Ints,
    task_number: int,
    work: Work,
    store: Store,
) -> Outcome:
    """Match the images that only this part has, and store the boxes of images that other parts share.

    `image_number` and `class_number` map the images and classes of the part to those of all parts,
    `task_of_image` (images,) is the task that matches each image, and `task_number` is that of this task.
    """
    dataset, _ = part.read(lambda: _read_skeleton(store), check=False)  # `survey` checked it
    side = make_side_table(dataset.boxes, image_number, class_number)
    task_of_box = task_of_image[dataset.boxes.image[side.row]]
    cut_bounds: list[int] = []
    if (task_of_box != task_number).any():  # tasks of shared images are numbered after those of parts
        cut_pieces = [pack(side.take(task_of_box == work.n_parts + k).columns()) for k in range(work.n_cut)]
        cut_bounds = store.write(f"cut-{task_number}", cut_pieces)
        side = side.take(task_of_box == task_number)
    return replace(_match(side, task_number, work, store), cut_bounds=cut_bounds)


def match_cut(cut_number: int, pieces: Sequence[Piece], work: Work, store: Store) -> Outcome:
    """Match images whose boxes come from several parts; `pieces` are cut out of the parts, in order."""
    tables = [unpack(store.read(f"cut-{task_number}", start, stop)) for task_number, start, stop in pieces]
    no_rows = np.zeros(0, np.int64)  # of a last, empty table, so that there is one if no part has boxes
    tables.append(make_side_table(Builder().build().boxes, no_rows, no_rows).columns())
    columns: dict[str, Any] = {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}
    del tables
    by_image = np.argsort(columns["image"], kind="stable")
    return _match(SideTable(**columns).take(by_image), work.n_parts + cut_number, work, store)


def _match(detections: SideTable, task_number: int, work: Work, store: Store) -> Outcome:
    """Match the images of a task, and write the outcomes by bucket of classes to a file of the task.

    The ground truth and image labels of these images are read from `store`. `Work.choice` is applied.
    """
    joined, image_numbers, kept_counts = _join_task(detections, task_number, work, store)
    # A piece of the file for each bucket, and one for the scores of all; in each a table for each protocol.
    pieces: list[list[Columns]] = [[] for _ in range(work.n_buckets + 1)]
    totals, true_scores = [], []
    for matches in match_all(joined, work.rules):
        for bucket, piece in enumerate(_split_by_bucket(matches, image_numbers, work)):
            pieces[bucket].append(piece)
        outcome, _ = find_outcomes(matches)
        is_counted = outcome != OUTCOMES.index("ignored")
        score, is_true = matches.score[is_counted], (outcome == OUTCOMES.index("TP"))[is_counted]
        pieces[-1].append({"score": score, "is_true": is_true.astype(np.uint8)})
        true_scores.append(np.unique(score[is_true]))
        no_detections: Columns = {}
        totals.append(replace_rows(matches, [no_detections]))
    packed = [  # the columns of protocol 0 are "0.score", "0.hit", ...
        pack({f"{i}.{k}": v for i, piece_columns in enumerate(tables) for k, v in piece_columns.items()})
        for tables in pieces
    ]
    return Outcome(store.write(f"matches-{task_number}", packed), kept_counts, totals, true_scores)


def _join_task(
    detections: SideTable, task_number: int, work: Work, store: Store
) -> tuple[Joined, NDArray[Any], Kept]:
    """Join the detections of a task with its ground truth, and apply the user's choice; return both sides
    over the images of the task alone, the ascending numbers of these among all, and what the choice leaves.
    """
    columns: dict[str, Any] = unpack(store.read(f"truth-{task_number}"))
    labels = [columns.pop(name) for name in LABELS if name in columns]  # three columns, or none
    truth, label_images = SideTable(**columns), labels[:1]  # a list of one column, or of none
    image_numbers = np.unique(np.concatenate([detections.image, truth.image, *label_images]))

    def renumber(side: SideTable) -> SideTable:
        """Return a side whose images are numbered by their place in `image_numbers`."""
        return replace(side, image=np.searchsorted(image_numbers, side.image).astype(np.int32))

    regions = work.joined.regions
    if regions is not None:
        regions = renumber(regions.take(np.isin(regions.image, image_numbers)))
    joined = replace(
        work.joined,
        images=("",) * len(image_numbers),
        regions=regions,
        # Images of the ground truth have the lower numbers, those of the detections alone come after them.
        n_truth_images=int(np.searchsorted(image_numbers, work.joined.n_truth_images)),
        truth=renumber(truth),
        detections=renumber(detections),
    )
    choice = work.choice
    if choice.images is not None:
        chosen_images = np.flatnonzero(np.isin(image_numbers, np.asarray(choice.images)))
        choice = replace(choice, images=chosen_images.tolist())
    joined, kept_counts = apply_choice(joined, choice)
    if labels:
        image, category, state = labels
        image = np.searchsorted(image_numbers, image).astype(np.int64)
        joined = replace(joined, image_labels=(image, category, state))
    return joined, image_numbers, kept_counts


def _split_by_bucket(matches: Matches, image_numbers: NDArray[Any], work: Work) -> Iterable[Columns]:
    """Yield the columns of `Matches` of the detections of each bucket of classes.

    `image_numbers` gives the number, among all images, of each image of the matches. The ranges of a class
    that is cut are consecutive buckets.
    """
    buckets = np.array([work.bucket_of[name] for name in matches.classes], np.int64)
    by_bucket = np.argsort(buckets, kind="stable")
    number_in_bucket = np.empty(len(buckets), np.int64)  # the number of each class inside its bucket
    number_in_bucket[by_bucket] = rank_in_runs(first_of_runs(buckets[by_bucket]), len(buckets))
    image = image_numbers[matches.image].astype(np.int32)

    # The rows by bucket: those of a class that is cut move on to the bucket of their range.
    bucket_of_row = buckets[matches.category]
    for k, name in enumerate(matches.classes):
        if name in work.cuts:
            class_rows = np.flatnonzero(matches.category == k)
            bucket_of_row[class_rows] += work.cuts[name].find_ranges(
                matches.score[class_rows], image[class_rows]
            )
    order = np.argsort(bucket_of_row, kind="stable")
    bucket_bounds = np.searchsorted(bucket_of_row[order], np.arange(work.n_buckets + 1))

    # The columns are written in the narrowest types that hold their values.
    hit_of_row = np.full(len(bucket_of_row), -1, np.int32)
    hit_of_row[matches.hit] = np.arange(len(matches.hit), dtype=np.int32)
    as_float32 = matches.score.astype(np.float32)
    score = as_float32 if (as_float32 == matches.score).all() else matches.score
    number_type = np.uint16 if len(buckets) < 2**16 else np.int32
    for b in range(work.n_buckets):
        rows = order[bucket_bounds[b] : bucket_bounds[b + 1]]
        hits = hit_of_row[rows]
        hit_positions = np.flatnonzero(hits >= 0).astype(np.int32)
        hits = hits[hit_positions]
        columns: Columns = {
            "category": number_in_bucket[matches.category[rows]].astype(number_type),
            "score": score[rows],
            "image": image[rows],
            "hit": hit_positions,
            "positive": matches.positive[hits],
            "ignored": matches.ignored[hits],
            "hit_rank": matches.hit_rank[hits],
        }
        if matches.fp_if_unmatched is not None:
            columns["fp_if_unmatched"] = matches.fp_if_unmatched[rows]
        yield columns


# -------------------------------------------------------------------------------------------------- count


def count_bucket(
    pieces: Sequence[Piece], totals: Sequence[Matches], at_scores: Scores, store: Store
) -> list[ClassCounts]:
    """Rank the detections of some classes, and read their precision, under each protocol.

    `pieces` are where the matches of these classes were written. For each protocol `totals` has the `Matches`
    of these classes without rows, and `at_scores` the score of the operating points, as `count_classes` takes
    it. Returns the numbers of the classes for each protocol.
    """
    return [
        count_classes(_load_matches(pieces, i, matches, store), at_scores[i])
        for i, matches in enumerate(totals)
    ]


def _load_matches(pieces: Sequence[Piece], i: int, totals: Matches, store: Store) -> Matches:
    """Load from `store` the matches of some classes under protocol `i`."""
    tables, prefix = [], f"{i}."
    for task, start, stop in pieces:
        table = unpack(store.read(f"matches-{task}", start, stop))
        tables.append({k.removeprefix(prefix): v for k, v in table.items() if k.startswith(prefix)})
    return replace_rows(totals, tables)  # the rows of an image are in one table, in their order


def count_down_to_scores(task: int, start: int, stop: int, store: Store) -> list[Longs]:
    """Count the true and false positives of a task down to each score in the file "scores".

    Returns (2, scores) for each protocol.
    """
    table, counts = unpack(store.read(f"matches-{task}", start, stop)), []
    for i, score_limits in unpack(store.read("scores")).items():
        is_true = table[f"{i}.is_true"] != 0
        sorted_scores = [np.sort(table[f"{i}.score"][is_chosen]) for is_chosen in (is_true, ~is_true)]
        counts.append(np.stack([len(side) - np.searchsorted(side, score_limits) for side in sorted_scores]))
    return counts


# ------------------------------------------------------------------------------------------ ranges of scores
# A class with too many detections to be ranked at once is cut by score, ranked in parts, put together again.
# Precision is needed at true positives only. Of a ranked range the rows that matched something are therefore
# kept, and each run of others becomes one row that stands for all of them. What remains of all ranges is
# about as long as the ground truth, and is counted by the same code as a class that was never cut.


class Cuts(msgspec.Struct, frozen=True, eq=False):
    """Cut points of a class's ranking, as (score, image): range k ends before that detection.

    ``score`` and ``image`` are (ranges - 1,), in ranking order.
    """

    score: Floats
    image: Longs

    @classmethod
    def from_scores(cls, score: Floats, weight: Floats, n_ranges: int, n_images: int) -> Cuts:
        """Cut into about equal ranges, by a sample of the scores and the number of detections each stands
        for.

        A score that so many detections have that several cuts fall on it is cut by images too.
        """
        # Cuts .8 .5 .5 of 9 images: (.8, 0), and the detections of .5 in thirds: (.5, 0) (.5, 3) (.5, 6).
        order = np.argsort(-score, kind="stable")
        n_down_to = np.cumsum(weight[order])
        targets = n_down_to[-1] * np.arange(1, n_ranges) / n_ranges  # detections before each cut
        cut_scores = score[order][np.searchsorted(n_down_to, targets)]
        scores, images = [np.zeros(0)], [np.zeros(0, np.int64)]
        for negative_score, n_cuts in zip(*np.unique(-cut_scores, return_counts=True), strict=True):
            n_pieces = int(n_cuts) + 1 if n_cuts > 1 else 1
            scores.append(np.full(n_pieces, -negative_score))
            images.append(np.arange(n_pieces) * n_images // n_pieces)
        return cls(np.concatenate(scores), np.concatenate(images))

    def __len__(self) -> int:
        """The number of ranges."""
        return len(self.score) + 1

    def find_ranges(self, score: Floats, image: NDArray[Any]) -> Longs:
        """(n,) the range of each detection; range 0 has the highest scores."""
        # Cuts at the scores .8 .5 .5 .2: a score of .6 is in range 1, one of .5 in 1, 2 or 3, by its image.
        first_range = np.searchsorted(-self.score, -score, side="left")
        last_range = np.searchsorted(-self.score, -score, side="right")
        range_numbers = first_range.astype(np.int64)
        # Each distinct (first, last) of detections whose score is cut, as a pair of integers.
        for low, high in np.unique(
            np.stack([first_range, last_range])[:, first_range < last_range], axis=1
        ).T.tolist():
            rows = np.flatnonzero((first_range == low) & (last_range == high))
            range_numbers[rows] += np.searchsorted(self.image[low:high], image[rows], side="right")
        return range_numbers


def condense(matches: Matches, at_score: float | None) -> Columns:
    """Condense the ranked detections of a range of one class.

    A run of detections without a match becomes one row, with the last score of the run. A run ends wherever
    precision is read. That is at the end of each score that a hit has, and of the range's first score. It is
    also at `at_score`, and under a `shared_score` at the confidences that all classes are read at.
    """
    rules, order = matches.protocol, rank_rows(matches)
    score, n_rows = matches.score[order], len(order)
    hit_of_row = np.full(n_rows, -1, np.int64)
    hit_of_row[matches.hit] = np.arange(len(matches.hit))
    hits = hit_of_row[order]
    is_hit = hits >= 0

    # Where rows of the condensed ranking begin: at each hit and after it, and where precision is read.
    is_start = is_hit.copy()
    is_start[:1] = True
    is_start[1:] |= is_hit[:-1]
    score_starts = first_of_runs(score)
    if n_rows:
        is_read = np.logical_or.reduceat(is_hit, score_starts)  # of each score, whether any hit has it
        is_read[0] = True  # a hit of the range before may have it too
        is_start[score_starts[1:][is_read[:-1]]] = True  # at the score that follows it
    if at_score is not None:
        is_start[np.searchsorted(-score, -at_score, side="right") :][:1] = True  # the first one below it
    if rules.shared_score:
        counted = np.flatnonzero(find_outcomes(matches)[0][order] != OUTCOMES.index("ignored"))
        read_positions = counted[find_rows_beside_confidences(score[counted], at_score)]
        is_start[read_positions[read_positions < n_rows - 1] + 1] = True

    # Rows x x H x x x of which H is a hit: begins at 0, 2 and 3, lengths 2, 1 and 3.
    starts = np.flatnonzero(is_start)
    lengths = np.diff(np.append(starts, n_rows))
    hit_positions = np.flatnonzero(is_hit[starts])
    hits = hits[starts[hit_positions]]
    columns: Columns = {
        "score": score[starts + lengths - 1],
        "n": lengths,
        "hit": hit_positions,
        "positive": matches.positive[hits],
        "ignored": matches.ignored[hits],
        "hit_rank": matches.hit_rank[hits],
    }
    if matches.fp_if_unmatched is not None:
        bits = matches.fp_if_unmatched[order]
        is_false = [bits & AreaBits(1 << a) != 0 for a in range(len(rules.areas))]
        columns["false"] = np.stack([np.add.reduceat(f, starts, dtype=np.int64) for f in is_false], axis=1)
    return columns


def condense_range(
    bucket: int, pieces: Sequence[Piece], totals: Sequence[Matches], at_scores: Scores, store: Store
) -> list[int]:
    """Rank the detections of a score range of one class, and write the condensed ranking.

    Returns where in the file each protocol begins, and the end. `pieces` and `totals` are as `count_bucket`
    takes them.
    """
    packed = []
    for i, matches in enumerate(totals):
        packed.append(pack(condense(_load_matches(pieces, i, matches, store), at_scores[i])))
    return store.write(f"range-{bucket}", packed)


def count_ranges(
    ranges: Sequence[tuple[int, list[int]]], totals: Sequence[Matches], at_scores: Scores, store: Store
) -> list[ClassCounts]:
    """Return the counts of one class under each protocol, from its condensed ranges, the highest scores
    first.

    `ranges` are (bucket, positions in its file): what `condense_range` returned for each range.
    """
    counted = []
    for i, class_totals in enumerate(totals):
        tables = [unpack(store.read(f"range-{b}", bounds[i], bounds[i + 1])) for b, bounds in ranges]
        matches, weights = join_ranges(tables, class_totals)
        del tables
        counted.append(count_classes(matches, at_scores[i], weights))
    return counted


def join_ranges(ranges: Sequence[Columns], totals: Matches) -> tuple[Matches, Weights]:
    """Concatenate the condensed ranges of a class, the highest scores first.

    Returns matches and the weights of their rows. In a range without ``false`` all are false positives.
    """
    n_of_row = np.concatenate([columns["n"] for columns in ranges]).astype(np.int64, copy=False)
    n_false, n_areas = None, len(totals.protocol.areas)
    if any("false" in columns for columns in ranges):
        all_false_of_ranges = (columns["n"][:, None].repeat(n_areas, axis=1) for columns in ranges)
        n_false = np.concatenate(
            [
                columns.get("false", all_false)
                for columns, all_false in zip(ranges, all_false_of_ranges, strict=True)
            ]
        )
    return replace_rows(totals, ranges, order=np.arange(len(n_of_row))), Weights(n_of_row, n_false)
