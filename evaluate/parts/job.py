"""Runs the tasks of an evaluation in parts, stage by stage, and adds up what they answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from odm.evaluate.matching.selection import Kept
from odm.evaluate.parts.executors import run
from odm.evaluate.parts.operating_point import UNDEFINED, ScoreBins, at_given_score, best_point, bins_of_best
from odm.evaluate.parts.tasks import (
    Outcome,
    Part,
    Store,
    Sums,
    Survey,
    Totals,
    Work,
    condense_range,
    count_bucket,
    count_ranges,
    installed,
    match_cut,
    match_part,
    points_between,
    survey,
)
from odm.evaluate.scores.accumulate import ClassCounts
from odm.evaluate.scores.curves import OperatingPoint
from odm.issues import DataError, Log, UsageError, plural


class Job:
    """An executor, a folder that its processes share, and a log that takes issues and shows progress."""

    def __init__(self, executor: Executor, store: Store, log: Log) -> None:
        self._executor, self._store, self._log = executor, store, log

    def _run(
        self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], what: str
    ) -> Iterator[tuple[int, Any]]:
        results = run(self._executor, work, tasks)
        for _ in self._log.track(range(len(tasks)), what):
            yield next(results)

    def survey(self, parts: Sequence[Part], unread: Log) -> list[Survey]:
        """Look at all parts. DataError if any has errors, or `unread` has; all of them are in the log."""
        found: list[Survey | None] = [None] * len(parts)
        for i, one in self._run(survey, [(part, self._store) for part in parts], "looking at parts"):
            found[i] = one
        surveys = [one for one in found if one is not None]
        for one in surveys:
            self._take_log(one.log)
        self._log.extend(unread)
        n = sum(bool(one.log.errors) for one in surveys)
        if n or unread.errors:
            text = f"{n} of {plural(len(parts), 'part')} of the detections cannot be used"
            raise DataError(text, self._log)
        for one in surveys:
            if one.versions != installed():
                theirs, ours = (
                    f"odm {own}, NumPy {numpy}, Python {python}"
                    for own, numpy, python in (one.versions, installed())
                )
                raise UsageError(
                    f"a worker has {theirs}, and this process {ours}: install the same everywhere, or the "
                    f"numbers may differ in their last bits"
                )
        return surveys

    def _take_log(self, log: Log) -> None:
        """Take over the log of a part; what every part notes is noted once."""
        log.notes = [text for text in log.notes if text not in self._log.notes]
        self._log.extend(log)

    def match(
        self, parts: Sequence[Part], mappings: Sequence[tuple[Any, Any, Any]], work: Work
    ) -> tuple[list[Outcome], list[Totals], Kept]:
        """Match all images; the outcome of each task, and the sums for each protocol."""
        n_parts, store = len(parts), self._store
        outcomes: list[Outcome | None] = [None] * (n_parts + work.n_cut)
        tasks: list[tuple[Any, ...]] = [
            (part, *mapping, i, work, store)
            for i, (part, mapping) in enumerate(zip(parts, mappings, strict=True))
        ]
        for i, outcome in self._run(match_part, tasks, "matching"):
            outcomes[i] = outcome
        tasks = []
        for k in range(work.n_cut):
            cut = [(i, o.cut_ends) for i, o in enumerate(outcomes[:n_parts]) if o is not None and o.cut_ends]
            tasks.append((k, [(i, ends[k], ends[k + 1]) for i, ends in cut], work, store))
        if tasks:
            for k, outcome in self._run(match_cut, tasks, "matching images of several parts"):
                outcomes[n_parts + k] = outcome
        done = [outcome for outcome in outcomes if outcome is not None]
        totals = done[0].totals
        for outcome in done[1:]:
            for one, other in zip(totals, outcome.totals, strict=True):
                one.add(other)
        return done, totals, Kept.together([outcome.kept for outcome in done])

    def count(
        self, outcomes: Sequence[Outcome], totals: Sequence[Totals], work: Work, at_score: float | None
    ) -> list[ClassCounts]:
        """The numbers of all classes under each protocol."""
        pieces = [
            [(i, o.ends[b], o.ends[b + 1]) for i, o in enumerate(outcomes)] for b in range(work.n_buckets)
        ]
        owns = [np.array([work.bucket_of[name] for name in one.classes], np.int64) for one in totals]

        def sums(b: int) -> list[Sums]:
            found: list[Sums] = []
            for rules, one, own in zip(work.rules, totals, owns, strict=True):
                rows = np.flatnonzero(own == b)
                names = tuple(one.classes[k] for k in rows.tolist())
                found.append((rules, names, one.npos[rows], one.gt_ignored[rows]))
            return found

        blocks = self._count_buckets(pieces, sums, work, at_score)
        found = []
        for i, (rules, one, own) in enumerate(zip(work.rules, totals, owns, strict=True)):
            together = ClassCounts.together([blocks[b][i] for b in sorted(blocks)], rules)
            back = np.argsort(np.argsort(own, kind="stable"), kind="stable")
            found.append(together.ordered(back, one.classes))
        return found

    def _count_buckets(
        self,
        pieces: Sequence[Sequence[tuple[int, int, int]]],
        sums: Callable[[int], list[Sums]],
        work: Work,
        at_score: float | None,
    ) -> dict[int, list[ClassCounts]]:
        """The numbers of the classes of each bucket; those of a cut class are under its first bucket."""
        blocks: dict[int, list[ClassCounts]] = {}
        cut = {work.bucket_of[name]: len(cuts) for name, cuts in work.cuts.items()}
        whole = [b for b in range(work.n_buckets) if b < min(cut, default=work.n_buckets)]
        tasks: list[tuple[Any, ...]] = [(pieces[b], sums(b), self._store, at_score) for b in whole]
        for i, counted in self._run(count_bucket, tasks, "counting"):
            blocks[whole[i]] = counted
        if not cut:
            return blocks
        ends: dict[int, list[int]] = {}
        ranges = [(first, b) for first, n in cut.items() for b in range(first, first + n)]
        tasks = [(b, pieces[b], sums(first), self._store, at_score) for first, b in ranges]
        for i, own in self._run(condense_range, tasks, "ranking ranges of scores"):
            ends[ranges[i][1]] = own
        firsts = list(cut)
        parts = [[(b, ends[b]) for b in range(first, first + cut[first])] for first in firsts]
        tasks = [(own, sums(b), self._store, at_score) for b, own in zip(firsts, parts, strict=True)]
        for i, counted in self._run(count_ranges, tasks, "counting large classes"):
            blocks[firsts[i]] = counted
        return blocks

    def overall_points(
        self, outcomes: Sequence[Outcome], totals: Sequence[Totals], bins: ScoreBins, at_score: float | None
    ) -> list[OperatingPoint]:
        """The operating point of all classes together, under each protocol."""
        npos = [int(one.npos[:, 0].sum()) for one in totals]
        if at_score is not None:
            return [at_given_score(bins, one.tally, n, at_score) for one, n in zip(totals, npos, strict=True)]
        wanted = [bins_of_best(one.tally, n) if n else None for one, n in zip(totals, npos, strict=True)]
        tasks = [(i, o.ends[-2], o.ends[-1], wanted, bins, self._store) for i, o in enumerate(outcomes)]
        found: list[list[Any]] = [[] for _ in totals]
        for _, answers in self._run(points_between, tasks, "finding the best score"):
            for own, answer in zip(found, answers, strict=True):
                own.append(answer)
        points = []
        for one, n, own in zip(totals, npos, found, strict=True):
            score, is_true = (np.concatenate([answer[k] for answer in own]) for k in range(2))
            points.append(best_point(bins, one.tally, score, is_true, n) if n else UNDEFINED)
        return points
