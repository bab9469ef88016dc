"""Runs the tasks of an evaluation in parts, stage by stage, and adds up what they answer."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from typing import Any

import numpy as np

from odm.evaluate.matching.sides import Kept
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
from odm.issues import DataError, Log, PathError, UsageError, plural

MOST_PENDING = 256
"""Tasks that are submitted at a time: enough for many workers, and few to be cancelled."""


class Inline(Executor):
    """Runs each task at once, in this process: for one machine with little memory."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The finished task."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as e:  # noqa: BLE001 -- it is raised where the result is asked for
            future.set_exception(e)
        return future


def run(
    executor: Executor, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[int, Any]]:
    """The number and result of each task as it is done, in any order.

    What a task raises is raised here, once those that are running are done; no more are started.
    CancelledError if the executor gave one up.
    """
    most = 1 if isinstance(executor, Inline) else MOST_PENDING
    pending: dict[Future[Any], int] = {}
    left = iter(enumerate(tasks))
    failure: BaseException | None = None
    while True:
        while failure is None and len(pending) < most and (item := next(left, None)) is not None:
            pending[executor.submit(work, *item[1])] = item[0]
        if not pending:
            break
        done, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in done:
            number = pending.pop(future)
            if future.cancelled():
                if failure is None:  # not by this function: the engine let go of it
                    failure = CancelledError()
                continue
            error = future.exception()
            if error is None:
                if failure is None:
                    yield number, future.result()
            elif failure is None:
                failure = error
                for other in pending:
                    other.cancel()
    if failure is not None:
        raise failure


@contextlib.contextmanager
def dask_executor(address: str, tell: Callable[[str], None]) -> Iterator[Executor]:
    """An executor of the Dask scheduler at an address.

    Raises
    ------
    UsageError
        If Dask is not installed, or the address is not one.
    PathError
        If there is no scheduler, or it has no worker; if it goes away, or its workers end again and again.
    """
    if not re.match(r"(tcp|tls)://", address):
        raise UsageError(f"--cluster {address}: give the address of a Dask scheduler, as in tcp://host:8786")
    try:
        import distributed
        from distributed.comm.core import CommClosedError
    except ImportError:
        raise UsageError("a cluster needs Dask: pip install distributed pyarrow") from None
    connect: Any = distributed.Client
    try:
        client: Any = connect(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError, TypeError) as e:  # TypeError: tls:// without certificates
        reason = str(e).splitlines()[0] if str(e) else "no scheduler answers"
        if address.startswith("tls:") and isinstance(e, TypeError):
            reason = (
                "tls:// needs certificates, which Dask is configured with: set distributed.comm.tls, "
                "or DASK_DISTRIBUTED__COMM__TLS__CA_FILE and, under CLIENT__, CERT and KEY"
            )
        raise PathError(f"{address}: {reason}") from None
    try:
        n = len(client.scheduler_info(n_workers=-1)["workers"])
        if not n:
            raise PathError(f"{address}: the scheduler has no workers")
        tell(f"{plural(n, 'worker')} at {address}; the dashboard is at {client.dashboard_link}")
        done = threading.Event()
        threading.Thread(target=_watch, args=(client, address, tell, done), daemon=True).start()
        executor = client.get_executor(pure=False, retries=2)
        try:
            yield executor
        except distributed.KilledWorker as e:
            n = e.allowed_failures + 1
            raise PathError(
                f"{address}: one task ended {n} workers, most likely for lack of memory: give them more, or "
                f"a smaller --rows-per-task, or smaller files or row groups"
            ) from None
        except (CancelledError, CommClosedError):
            raise PathError(f"{address}: the scheduler is gone, and what was done so far is lost") from None
        finally:
            done.set()
            with contextlib.suppress(Exception):  # the scheduler may be gone
                executor.shutdown(wait=False)  # all is done, or nobody wants it any more
    finally:
        with contextlib.suppress(Exception):
            client.close()


def _watch(
    client: Any, address: str, tell: Callable[[str], None], done: threading.Event, every: float = 5
) -> None:
    """Say so where all workers have gone: the tasks then wait for others, perhaps for ever."""
    had_workers = True
    while not done.wait(every):
        try:
            has_workers = bool(client.scheduler_info(n_workers=-1)["workers"])
        except Exception:  # noqa: BLE001 -- the tasks tell what is wrong
            return
        if had_workers and not has_workers:
            tell(f"{address}: no workers are left; the work goes on when there are new ones (Ctrl-C ends it)")
        had_workers = has_workers


# --------------------------------------------------------------------------------------------------- --front


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
