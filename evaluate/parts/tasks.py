"""The tasks of an evaluation in parts: plain functions of parts, of files in a folder, and of small tables.

They run in any process; each can be run twice with the same outcome.
"""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from odm import VERSION
from odm.arrays import pack, unpack
from odm.evaluate.matching.join import DetectionSummary, check_rows
from odm.evaluate.matching.match import match_all
from odm.evaluate.matching.matches import OUTCOMES, Matches, matches_of_columns, outcomes
from odm.evaluate.matching.order import first_of_runs
from odm.evaluate.matching.sides import Choice, Joined, JoinReport, Kept, SideTable, narrow
from odm.evaluate.parts.operating_point import ScoreBins, point_columns
from odm.evaluate.scores.accumulate import ClassCounts, count_classes
from odm.evaluate.scores.curves import beside_confidences
from odm.evaluate.scores.protocols import AreaBits
from odm.evaluate.scores.protocols import Protocol as Rules
from odm.evaluate.scores.ranking import Weights, ranked_rows
from odm.issues import Log
from odm.pairing import SAMPLE
from odm.tables import NO_ID, Boxes, Builder, Dataset, Floats, Ints, Longs

Columns = dict[str, NDArray[Any]]

# ------------------------------------------------------------------------------------------ ranges of scores
# A class with too many detections to be ranked at once is cut by score, ranked in parts, put together again.
# Precision is needed at true positives only. Of a ranked range the rows that matched something are therefore
# kept, and each run of others becomes one row that stands for all of them. What remains of all ranges is
# about as long as the ground truth, and is counted by the same code as a class that was never cut.


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """Where the ranking of a class is cut: before the detections of a score from an image on, and all lower.

    ``score`` and ``image`` are (ranges - 1,), in the order in which detections rank.
    """

    score: Floats
    image: Longs

    @classmethod
    def of(cls, score: Floats, weight: Floats, n_ranges: int, n_images: int) -> Cuts:
        """About equal ranges, by a sample of the scores and how many detections each stands for.

        A score that so many detections have that several cuts fall on it is cut by images too.
        """
        order = np.argsort(-score, kind="stable")
        so_far = np.cumsum(weight[order])
        wanted = so_far[-1] * np.arange(1, n_ranges) / n_ranges
        at = score[order][np.searchsorted(so_far, wanted)]
        scores, images = [np.zeros(0)], [np.zeros(0, np.int64)]
        for one, n in zip(*np.unique(-at, return_counts=True), strict=True):
            pieces = int(n) + 1 if n > 1 else 1
            scores.append(np.full(pieces, -one))
            images.append(np.arange(pieces) * n_images // pieces)
        return cls(np.concatenate(scores), np.concatenate(images))

    def __len__(self) -> int:
        """The number of ranges."""
        return len(self.score) + 1

    def range_of(self, score: Floats, image: NDArray[Any]) -> Longs:
        """(n,) the range of each detection, 0 the one with the highest scores."""
        first = np.searchsorted(-self.score, -score, side="left")
        after = np.searchsorted(-self.score, -score, side="right")
        found = first.astype(np.int64)
        for a, b in np.unique(np.stack([first, after])[:, first < after], axis=1).T.tolist():
            rows = np.flatnonzero((first == a) & (after == b))
            found[rows] += np.searchsorted(self.image[a:b], image[rows], side="right")
        return found


def condense(matches: Matches, at_score: float | None) -> Columns:
    """The ranked detections of one range of one class, runs of those that matched nothing being one row.

    A run ends where a position is read: where the score of a hit ends, or that of the range's first row,
    which the range before may share, at the given score, and at those that all classes are read at.
    """
    rules, order = matches.protocol, ranked_rows(matches)
    score, n = matches.score[order], len(order)
    hit_of_row = np.full(n, -1, np.int64)
    hit_of_row[matches.hit] = np.arange(len(matches.hit))
    hits = hit_of_row[order]
    is_hit = hits >= 0
    begins = is_hit.copy()
    begins[:1] = True
    begins[1:] |= is_hit[:-1]
    same = first_of_runs(score)
    if n:
        is_read = np.logical_or.reduceat(is_hit, same)
        is_read[0] = True
        begins[same[1:][is_read[:-1]]] = True
    if at_score is not None:
        begins[np.searchsorted(-score, -at_score, side="right") :][:1] = True
    if rules.shared_score:
        counted = np.flatnonzero(outcomes(matches)[0][order] != OUTCOMES.index("ignored"))
        beside = counted[beside_confidences(score[counted], at_score)]
        begins[beside[beside < n - 1] + 1] = True
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, n))
    at = np.flatnonzero(is_hit[starts])
    hits = hits[starts[at]]
    columns: Columns = {
        "score": score[starts + lengths - 1],
        "n": lengths,
        "hit": at,
        "positive": matches.positive[hits],
        "ignored": matches.ignored[hits],
        "hit_rank": matches.hit_rank[hits],
    }
    if matches.fp_if_unmatched is not None:
        bits = matches.fp_if_unmatched[order]
        columns["false"] = np.stack(
            [_sums(bits & AreaBits(1 << a) != 0, starts) for a in range(len(rules.areas))], axis=1
        )
    return columns


def _sums(is_fp: NDArray[np.bool_], starts: Longs) -> Longs:
    return np.add.reduceat(is_fp, starts, dtype=np.int64) if len(starts) else np.zeros(0, np.int64)


def put_together(
    ranges: list[Columns], rules: Rules, classes: tuple[str, ...], npos: Longs, gt_ignored: Longs
) -> tuple[Matches, Weights]:
    """The condensed ranges of a class, the highest scores first, as matches, and what their rows stand for.

    `classes` holds its name, or nothing under a protocol that does not have it.
    """
    n_areas = len(rules.areas)
    false = None
    if any("false" in one for one in ranges):
        false = np.concatenate([_false(one, n_areas) for one in ranges])
    n = np.concatenate([one["n"] for one in ranges]).astype(np.int64, copy=False)
    none = np.zeros(0, np.int32)
    matches = matches_of_columns(
        ranges,
        rules,
        classes,
        npos,
        gt_ignored,
        category=np.zeros(len(n), np.int32),
        image=none,
        row=none,
        fp_if_unmatched=None,
        order=np.arange(len(n)),
    )
    return matches, Weights(n, false)


def _false(one: Columns, n_areas: int) -> NDArray[Any]:
    return one["false"] if "false" in one else np.repeat(one["n"][:, None], n_areas, axis=1)


# --------------------------------------------------------------------------------------------------- --front


Sums = tuple[Rules, tuple[str, ...], Longs, Longs]
"""A protocol, the names of some classes, and their counts of ground truth."""
SIDE = ("image", "category", "xyxy", "wh", "flags", "area")
_NO_BOXES = Builder().build().boxes
_NO_REPORT = JoinReport(0, (), (), (), (), (), {}, {})


class Part(Protocol):
    """Some of the detections, wherever they lie; sent to the process that reads it."""

    @property
    def name(self) -> str:
        """How it is called in messages."""
        ...

    def read(self, truth: Callable[[], Dataset], *, check: bool) -> tuple[Dataset, Log]:
        """The detections, and what is wrong with them; `truth` has the images and classes they may mean."""
        ...


class Store(Protocol):
    """Where intermediate files lie, the same for all processes."""

    @property
    def path(self) -> str:
        """Where it is, different for each job."""
        ...

    def write(self, name: str, pieces: Sequence[bytes]) -> list[int]:
        """Write a file of pieces: where each begins, and the end."""
        ...

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Some bytes of a file."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What every task has to know, whatever its part; small."""

    rules: tuple[Rules, ...]
    classes: tuple[str, ...]
    added: tuple[str, ...]
    frequency: Mapping[str, str]
    hierarchy: Mapping[str, frozenset[str]] | None
    choice: Choice
    n_truth_images: int
    has_labels: bool
    bucket_of: Mapping[str, int]
    """The bucket of each class, the first one of a class that is cut."""
    cuts: Mapping[str, Cuts]
    """Where classes are cut that are too large for a bucket; their ranges have the last buckets, in order."""
    n_buckets: int
    bins: ScoreBins
    n_parts: int
    n_cut: int
    """Tasks for the images that were cut out of several parts."""


def installed() -> tuple[str, str, str]:
    """The versions on which the bits of the numbers depend: of odm, NumPy and Python."""
    return VERSION, np.__version__, platform.python_version()


# ------------------------------------------------------------------------------------------------- survey


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """What is known of a part: its images and classes, with a sample of the boxes, and sums over all."""

    dataset: Dataset
    summary: DetectionSummary
    log: Log
    sample: tuple[Longs, Floats]
    """Classes and scores of some of its detections, drawn evenly."""
    per_image: Ints
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


def _skeleton(store: Store) -> Dataset:
    """The images and classes of the ground truth, read once by each process."""
    if store.path not in _skeletons:
        data = json.loads(store.read("truth"))
        names, width, height, ids, split = data["images"]
        builder = Builder()
        builder.kind, builder.named = "gt", data["named"]
        sizes = np.array(width, np.int64), np.array(height, np.int64)
        for name, length, number in zip(*data["videos"], strict=True):
            builder.video(name, length=length, source_id=None if number == NO_ID else number)
        video, frame = data["frames"]
        builder.add_images(
            names, width=sizes[0], height=sizes[1], source_id=ids, split=split, video=video, frame=frame
        )
        for name, number, frequency in zip(*data["categories"], strict=True):
            known = None if number == NO_ID else number
            builder.category(name, source_id=known, frequency=frequency)
        _skeletons.clear()
        _skeletons[store.path] = builder.build()
    return _skeletons[store.path]


def survey(part: Part, store: Store) -> Survey:
    """Look at a part. Its faults are returned, so that one run names those of all parts."""
    dataset, log = part.read(lambda: _skeleton(store), check=True)
    if not log.errors:
        check_rows(dataset, log)
    boxes = dataset.boxes
    drawn = _drawn(len(boxes))
    drawn = drawn[~np.isnan(boxes.score[drawn])]
    return Survey(
        dataset.take(_sample(boxes, len(dataset.categories))),
        DetectionSummary.of(dataset),
        log,
        (boxes.category[drawn].astype(np.int64), boxes.score[drawn]),
        np.bincount(boxes.image, minlength=len(dataset.images)).astype(np.int32),
        installed(),
    )


def _drawn(n: int) -> Longs:
    """Some of n rows, always the same ones: all of a few, at least one in 256 of many."""
    some = 1024 + n // 256
    return np.arange(n) if n <= some else np.random.default_rng(0).integers(0, n, some)


def _sample(boxes: Boxes, n_classes: int) -> Longs:
    """The rows that show what `admit` looks at: the first of each class, and those that score highest."""
    first = np.full(n_classes, -1, np.int64)  # written backwards, the first row of each class stays
    first[boxes.category[::-1]] = np.arange(len(boxes))[::-1]
    rows = [first[first >= 0]]
    if len(boxes) > SAMPLE:
        rows.append(np.argpartition(-boxes.score, SAMPLE)[:SAMPLE])
    else:
        rows.append(np.arange(len(boxes)))
    above = boxes.score > 1
    if above.any():
        rows.append(np.array([int(above.argmax())]))
    return np.unique(np.concatenate(rows))


# -------------------------------------------------------------------------------------------------- match


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The totals of a matching task, and where its file has the pieces of each bucket."""

    ends: list[int]
    kept: Kept
    totals: list[Totals]
    cut_ends: list[int] | None = None


@dataclasses.dataclass(slots=True, eq=False)
class Totals:
    """What is added up over all images, under one protocol."""

    classes: tuple[str, ...]
    npos: Longs
    gt_ignored: Longs
    dropped: dict[str, int]
    frequency: tuple[str, ...]
    tally: Longs

    def add(self, other: Totals) -> None:
        """Add those of other images."""
        self.npos = self.npos + other.npos
        self.gt_ignored = self.gt_ignored + other.gt_ignored
        self.tally = self.tally + other.tally
        for what, n in other.dropped.items():
            self.dropped[what] = self.dropped.get(what, 0) + n


def match_part(
    part: Part, number: Longs, category: Longs, owner: Ints, me: int, work: Work, store: Store
) -> Outcome:
    """Match the images of a part that no other part has, and write the boxes of the others aside.

    `number`, `category` and `owner` are those of the images and classes of the part.
    """
    dataset, _ = part.read(lambda: _skeleton(store), check=False)
    boxes = dataset.boxes
    columns = _columns(boxes, number, category)
    task = owner[boxes.image]
    mine = task == me
    cut_ends = None
    if not mine.all():
        pieces = [
            pack({name: column[task == work.n_parts + k] for name, column in columns.items()})
            for k in range(work.n_cut)
        ]
        cut_ends = store.write(f"cut-{me}", pieces)
        columns = {name: column[mine] for name, column in columns.items()}
    return dataclasses.replace(_match(columns, me, work, store), cut_ends=cut_ends)


def match_cut(k: int, pieces: Sequence[tuple[int, int, int]], work: Work, store: Store) -> Outcome:
    """Match images whose boxes were cut out of several parts; `pieces` are part, start and end, in order."""
    tables = [unpack(store.read(f"cut-{part}", start, stop)) for part, start, stop in pieces]
    tables.append(_columns(_NO_BOXES, np.zeros(0, np.int64), np.zeros(0, np.int64)))
    columns = {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}
    tables.clear()
    return _match(columns, work.n_parts + k, work, store)


def _columns(boxes: Boxes, number: Longs, category: Longs) -> Columns:
    return {
        "image": number[boxes.image].astype(np.int32),
        "category": category[boxes.category].astype(np.int32),
        "xyxy": boxes.xyxy,
        "wh": boxes.wh,
        "flags": boxes.flags,
        "area": boxes.area,
        "score": boxes.score,
    }


def _match(columns: Columns, me: int, work: Work, store: Store) -> Outcome:
    truth = unpack(store.read(f"truth-{me}"))
    local = np.unique(np.concatenate([columns["image"], truth["image"], truth["label_image"]]))
    joined = Joined(
        images=("",) * len(local),
        n_truth_images=int(np.searchsorted(local, work.n_truth_images)),
        classes=work.classes,
        truth=_side(truth, local),
        detections=_side(columns, local),
        report=_NO_REPORT,
        frequency=work.frequency,
        hierarchy=work.hierarchy,
    )
    choice = work.choice
    if choice.images is not None:
        here = np.flatnonzero(np.isin(local, np.asarray(choice.images)))
        choice = dataclasses.replace(choice, images=here.tolist())
    joined, kept = narrow(joined, choice)
    labels = None
    if work.has_labels:
        image = np.searchsorted(local, truth["label_image"]).astype(np.int64)
        labels = image, truth["label_category"], truth["label_state"]
    joined = dataclasses.replace(joined, image_labels=labels, added=work.added)
    pieces: list[list[Columns]] = [[] for _ in range(work.n_buckets)]
    totals, points = [], []
    for matches in match_all(joined, work.rules):
        for bucket, piece in enumerate(_by_bucket(matches, local, work)):
            pieces[bucket].append(piece)
        outcome, _ = outcomes(matches)
        is_true, is_false = (outcome == OUTCOMES.index(what) for what in ("TP", "FP"))
        totals.append(
            Totals(
                matches.classes,
                matches.npos,
                matches.gt_ignored,
                dict(matches.dropped),
                matches.frequency,
                work.bins.tally(matches.score, is_true, is_false),
            )
        )
        points.append(point_columns(matches, is_true, is_false))
    packed = [pack({f"{i}.{k}": v for i, own in enumerate(b) for k, v in own.items()}) for b in pieces]
    packed.append(pack({f"{i}.{k}": v for i, own in enumerate(points) for k, v in own.items()}))
    return Outcome(store.write(f"matches-{me}", packed), kept, totals)


def _side(columns: Columns, local: NDArray[Any]) -> SideTable:
    image = np.searchsorted(local, columns["image"]).astype(np.int32)
    n = len(image)
    side = SideTable(
        image,
        columns["category"],
        columns["xyxy"],
        columns["wh"],
        columns.get("score", np.full(n, np.nan)),
        columns["flags"],
        columns["area"],
        np.arange(n, dtype=np.int32),
    )
    return side if (image[1:] >= image[:-1]).all() else side.take(np.argsort(image, kind="stable"))


def _by_bucket(matches: Matches, local: NDArray[Any], work: Work) -> Iterable[Columns]:
    """What became of the detections of each bucket of classes."""
    buckets = np.array([work.bucket_of[name] for name in matches.classes], np.int64)
    within = _within(buckets)
    image = local[matches.image].astype(np.int32)
    to = buckets[matches.category]
    for k, name in enumerate(matches.classes):
        if name in work.cuts:
            own = np.flatnonzero(matches.category == k)
            to[own] += work.cuts[name].range_of(matches.score[own], image[own])
    order = np.argsort(to, kind="stable")
    ends = np.searchsorted(to[order], np.arange(work.n_buckets + 1))
    hit_of_row = np.full(len(to), -1, np.int32)
    hit_of_row[matches.hit] = np.arange(len(matches.hit), dtype=np.int32)
    narrow = matches.score.astype(np.float32)
    score = narrow if (narrow == matches.score).all() else matches.score
    small = np.uint16 if len(buckets) < 2**16 else np.int32
    for b in range(work.n_buckets):
        rows = order[ends[b] : ends[b + 1]]
        hits = hit_of_row[rows]
        at = np.flatnonzero(hits >= 0).astype(np.int32)
        hits = hits[at]
        piece: Columns = {
            "category": within[matches.category[rows]].astype(small),
            "score": score[rows],
            "image": image[rows],
            "hit": at,
            "positive": matches.positive[hits],
            "ignored": matches.ignored[hits],
            "hit_rank": matches.hit_rank[hits],
        }
        if matches.fp_if_unmatched is not None:
            piece["fp_if_unmatched"] = matches.fp_if_unmatched[rows]
        yield piece


def _within(buckets: Longs) -> Longs:
    """(classes,) the number of each class inside its bucket."""
    within = np.empty(len(buckets), np.int64)
    for b in np.unique(buckets).tolist():
        own = np.flatnonzero(buckets == b)
        within[own] = np.arange(len(own))
    return within


# -------------------------------------------------------------------------------------------------- count


def count_bucket(
    pieces: Sequence[tuple[int, int, int]],
    totals: Sequence[Sums],
    store: Store,
    at_score: float | None,
) -> list[ClassCounts]:
    """Rank the detections of some classes, and read their precision, under each protocol.

    `pieces` are task, start and end of what was written of these classes; `totals` have for each protocol
    the names of the classes, and their counts of ground truth.
    """
    return [count_classes(_matches_of(pieces, i, total, store), at_score) for i, total in enumerate(totals)]


def condense_range(
    bucket: int,
    pieces: Sequence[tuple[int, int, int]],
    totals: Sequence[Sums],
    store: Store,
    at_score: float | None,
) -> list[int]:
    """Rank the detections of a range of scores of one class, and write what its counts depend on.

    Answers where in the file each protocol begins. `pieces` and `totals` are as `count_bucket` takes them.
    """
    found = []
    for i, total in enumerate(totals):
        found.append(pack(condense(_matches_of(pieces, i, total, store), at_score)))
    return store.write(f"range-{bucket}", found)


def count_ranges(
    ranges: Sequence[tuple[int, list[int]]], totals: Sequence[Sums], store: Store, at_score: float | None
) -> list[ClassCounts]:
    """The numbers of one class under each protocol, from its condensed ranges, the highest scores first.

    `ranges` are bucket, and what `condense_range` answered.
    """
    counted = []
    for i, (rules, names, npos, gt_ignored) in enumerate(totals):
        tables = [unpack(store.read(f"range-{b}", ends[i], ends[i + 1])) for b, ends in ranges]
        matches, weights = put_together(tables, rules, names, npos, gt_ignored)
        del tables
        counted.append(count_classes(matches, at_score, weights))
    return counted


def _matches_of(pieces: Sequence[tuple[int, int, int]], i: int, total: Sums, store: Store) -> Matches:
    """What was written of some classes under the i-th protocol."""
    tables, prefix = [], f"{i}."
    for task, start, stop in pieces:
        table = unpack(store.read(f"matches-{task}", start, stop))
        tables.append({k.removeprefix(prefix): v for k, v in table.items() if k.startswith(prefix)})
    return _together(tables, *total)


def _together(
    tables: Sequence[Columns], rules: Rules, classes: tuple[str, ...], npos: Longs, gt_ignored: Longs
) -> Matches:
    lengths = [len(t["score"]) for t in tables]
    full = np.uint8(2 ** len(rules.areas) - 1)
    fp_if_unmatched = None
    if any("fp_if_unmatched" in t for t in tables):
        fp_if_unmatched = np.concatenate(
            [t.get("fp_if_unmatched", np.full(n, full)) for t, n in zip(tables, lengths, strict=True)]
        )
    return matches_of_columns(
        tables,
        rules,
        classes,
        npos,
        gt_ignored,
        category=np.concatenate([t["category"] for t in tables]).astype(np.int32, copy=False),
        image=np.concatenate([t["image"] for t in tables]).astype(np.int32, copy=False),
        row=np.arange(sum(lengths), dtype=np.int32),  # of one image all rows are in one table, in their order
        fp_if_unmatched=fp_if_unmatched,
    )


def points_between(
    task: int,
    start: int,
    stop: int,
    wanted: Sequence[NDArray[np.bool_] | None],
    bins: ScoreBins,
    store: Store,
) -> list[tuple[Floats, NDArray[np.bool_]]]:
    """The scores of a task in the `wanted` bins of each protocol, and which of them are true positives."""
    table = unpack(store.read(f"matches-{task}", start, stop))
    found = []
    for i, some in enumerate(wanted):
        score, is_true = table[f"{i}.score"], table[f"{i}.is_true"] != 0
        keep = np.zeros(len(score), np.bool_) if some is None else some[bins.bin_of(score)]
        found.append((score[keep], is_true[keep]))
    return found
