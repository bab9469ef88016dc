"""Runs the tasks of an evaluation in parts, stage by stage, and adds up what they answer.

They run in this process, on the workers of a Dask scheduler, or on any other executor, a bounded number at a
time.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from odm.arrays import pack
from odm.evaluate.matching.matches import Matches, concatenate
from odm.evaluate.matching.sides import Kept, Mask
from odm.evaluate.parts.tasks import (
    Outcome,
    ReadablePart,
    Scores,
    Store,
    Survey,
    Work,
    condense_range,
    count_bucket,
    count_ranges,
    counts_down_to,
    installed,
    match_cut,
    match_part,
    survey,
)
from odm.evaluate.scores.accumulate import ClassCounts
from odm.evaluate.scores.curves import OperatingPoint, find_best_points, make_point
from odm.issues import AS_FLAGS, DataError, Log, PathError, UsageError, plural, spell

MOST_PENDING = 256
"""Tasks that are submitted at a time: enough for many workers, and few to be cancelled."""


class Inline(Executor):
    """Runs each task at once, in this process: for one machine with little memory."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the task and return its future, which is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as e:  # noqa: BLE001 -- it is raised where the result is asked for
            future.set_exception(e)
        return future


class _Task(msgspec.Struct, frozen=True):
    """Work with messages that name what those of the caller name; neither threads nor workers know."""

    work: Callable[..., Any]
    as_flags: bool

    @property
    def __name__(self) -> str:
        """The name under which a cluster shows it."""
        return str(self.work.__name__)

    def __call__(self, *values: Any) -> Any:
        token = AS_FLAGS.set(self.as_flags)
        try:
            return self.work(*values)
        finally:
            AS_FLAGS.reset(token)


def run(
    executor: Executor, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[int, Any]]:
    """Yield the number and result of each task as it is done, in any order.

    What a task raises is raised here, once those that are running are done; no more are started.
    CancelledError if the executor gave one up.
    """
    task = _Task(work, AS_FLAGS.get())
    max_pending = 1 if isinstance(executor, Inline) else MOST_PENDING
    pending: dict[Future[Any], int] = {}
    not_submitted = iter(enumerate(tasks))
    failure: BaseException | None = None
    while True:
        while (
            failure is None and len(pending) < max_pending and (item := next(not_submitted, None)) is not None
        ):
            pending[executor.submit(task, *item[1])] = item[0]
        if not pending:
            break
        done, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in done:
            task_number = pending.pop(future)
            if future.cancelled():
                if failure is None:  # not by this function: the engine let go of it
                    failure = CancelledError()
                continue
            error = future.exception()
            if error is None:
                if failure is None:
                    yield task_number, future.result()
            elif failure is None:
                failure = error
                for other in pending:
                    other.cancel()
    if failure is not None:
        raise failure


@contextlib.contextmanager
def dask_executor(address: str, notify: Callable[[str], None]) -> Iterator[Executor]:
    """Open an executor of the Dask scheduler at an address; `notify` takes what its user should know.

    Raises
    ------
    UsageError
        If Dask is not installed, or the address is not one.
    PathError
        If there is no scheduler, or it has no worker; if it goes away, or its workers end again and again.
    """
    if not re.match(r"(tcp|tls)://", address):
        raise UsageError(
            f"{spell('cluster')} {address}: give the address of a Dask scheduler, as in tcp://host:8786"
        )
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
        notify(f"{plural(n, 'worker')} at {address}; the dashboard is at {client.dashboard_link}")
        done = threading.Event()
        threading.Thread(target=_watch, args=(client, address, notify, done), daemon=True).start()
        executor = client.get_executor(pure=False, retries=2)
        try:
            yield executor
        except distributed.KilledWorker as e:
            n = e.allowed_failures + 1
            raise PathError(
                f"{address}: one task ended {n} workers, most likely for lack of memory: give them more, or "
                f"a smaller {spell('rows_per_task')}, or smaller files or row groups"
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
    client: Any, address: str, notify: Callable[[str], None], done: threading.Event, every: float = 5
) -> None:
    """Notify when all workers have gone, until `done` is set: tasks then wait for others, perhaps for ever.

    The scheduler is asked `every` so many seconds.
    """
    had_workers = True
    while not done.wait(every):
        try:
            has_workers = bool(client.scheduler_info(n_workers=-1)["workers"])
        except Exception:  # noqa: BLE001 -- the tasks tell what is wrong
            return
        if had_workers and not has_workers:
            notify(
                f"{address}: no workers are left; the work goes on when there are new ones (Ctrl-C ends it)"
            )
        had_workers = has_workers


class TaskRunner:
    """An executor, a folder that its processes share, and a log that takes issues and shows progress."""

    def __init__(self, executor: Executor, store: Store, log: Log) -> None:
        self._executor, self._store, self._log = executor, store, log

    def _answers(
        self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], what: str
    ) -> Iterator[tuple[int, Any]]:
        """Yield the number and answer of each task as it is done.

        The last argument of a task is the store.
        """
        results = run(self._executor, work, [(*task, self._store) for task in tasks])
        for _ in self._log.track(range(len(tasks)), what):
            yield next(results)

    def _run(self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], what: str) -> list[Any]:
        """Return the answers of all tasks, in their order."""
        answers: list[Any] = [None] * len(tasks)
        for i, answer in self._answers(work, tasks, what):
            answers[i] = answer
        return answers

    def survey(self, parts: Sequence[ReadablePart], unread: Log) -> list[Survey]:
        """Look at all parts. DataError if any has errors, or `unread` has; all of them are in the log."""
        surveys: list[Survey] = self._run(survey, [(part,) for part in parts], "looking at parts")
        for part_survey in surveys:  # what every part notes is noted once
            part_survey.log.notes = [text for text in part_survey.log.notes if text not in self._log.notes]
            self._log.extend(part_survey.log)
        self._log.extend(unread)
        n_unusable = sum(bool(part_survey.log.errors) for part_survey in surveys)
        if n_unusable or unread.errors:
            text = f"{n_unusable} of {plural(len(parts), 'part')} of the detections cannot be used"
            raise DataError(text, self._log)
        for part_survey in surveys:
            if part_survey.versions != installed():
                worker_versions, local_versions = (
                    f"odm {version}, NumPy {numpy}, Python {python}"
                    for version, numpy, python in (part_survey.versions, installed())
                )
                raise UsageError(
                    f"a worker has {worker_versions}, and this process {local_versions}: install the same "
                    f"everywhere, or the numbers may differ in their last bits"
                )
        return surveys

    def match(
        self, parts: Sequence[ReadablePart], mappings: Sequence[tuple[Any, Any, Any]], work: Work
    ) -> tuple[list[Outcome], list[Matches], Kept]:
        """Match all images; return each task's outcome, the sums for each protocol, and what was kept."""
        numbered = enumerate(zip(parts, mappings, strict=True))
        tasks = [(part, *mapping, i, work) for i, (part, mapping) in numbered]
        outcomes: list[Outcome] = self._run(match_part, tasks, "matching")
        if work.n_cut:
            cut_ends = [(i, outcome.cut_ends) for i, outcome in enumerate(outcomes) if outcome.cut_ends]
            cut_tasks = [
                (k, [(i, edges[k], edges[k + 1]) for i, edges in cut_ends], work) for k in range(work.n_cut)
            ]
            outcomes += self._run(match_cut, cut_tasks, "matching images of several parts")
        matches_by_protocol = zip(*(outcome.totals for outcome in outcomes), strict=True)
        totals = [concatenate(task_matches) for task_matches in matches_by_protocol]
        return outcomes, totals, Kept.merge([outcome.kept for outcome in outcomes])

    def count(
        self, outcomes: Sequence[Outcome], totals: Sequence[Matches], work: Work, at_scores: Scores
    ) -> list[ClassCounts]:
        """Return the counts of all classes under each protocol, with each class's operating point."""
        buckets_by_result = [
            np.array([work.bucket_of[name] for name in matches.classes], np.int64) for matches in totals
        ]

        def task(b: int, first: int) -> tuple[Any, ...]:
            """Return the pieces of a bucket, and the totals of its classes, which are in bucket `first`."""
            pieces = [(i, outcome.ends[b], outcome.ends[b + 1]) for i, outcome in enumerate(outcomes)]
            return pieces, [
                _of_classes(matches, buckets == first)
                for matches, buckets in zip(totals, buckets_by_result, strict=True)
            ]

        n_ranges_of_bucket = {work.bucket_of[name]: len(cuts) for name, cuts in work.cuts.items()}
        whole_buckets = range(min(n_ranges_of_bucket, default=work.n_buckets))
        blocks = self._run(count_bucket, [(*task(b, b), at_scores) for b in whole_buckets], "counting")
        if n_ranges_of_bucket:
            range_tasks = [
                (b, *task(b, first), at_scores)
                for first, n in n_ranges_of_bucket.items()
                for b in range(first, first + n)
            ]
            ranges_ends = self._run(condense_range, range_tasks, "ranking ranges of scores")
            ends_of_bucket = {
                b: range_ends for (b, *_), range_ends in zip(range_tasks, ranges_ends, strict=True)
            }
            tasks_of_large_classes = [
                ([(b, ends_of_bucket[b]) for b in range(first, first + n)], task(first, first)[1], at_scores)
                for first, n in n_ranges_of_bucket.items()
            ]
            blocks += self._run(count_ranges, tasks_of_large_classes, "counting large classes")
        counts_by_protocol = []
        for matches, buckets, of_blocks in zip(
            totals, buckets_by_result, zip(*blocks, strict=True), strict=True
        ):
            by_bucket = ClassCounts.concatenate(of_blocks, matches.protocol)
            # Buckets [1, 0, 1] of classes a, b, c are counted as b, a, c: the places of a, b, c are 1, 0, 2.
            place_in_buckets = np.argsort(np.argsort(buckets, kind="stable"), kind="stable")
            counts_by_protocol.append(by_bucket.reorder(place_in_buckets, matches.classes))
        return counts_by_protocol

    def overall_points(
        self, outcomes: Sequence[Outcome], totals: Sequence[Matches], at_score: float | None
    ) -> list[tuple[OperatingPoint, tuple[float, float]]]:
        """The operating point of all classes together, and their best F1 with its score, for each protocol.

        The best F1 is at the score of a true positive: the positives of all tasks are counted down to each.
        """
        also = np.array([-np.inf] if at_score is None else [-np.inf, at_score])
        by_protocol = zip(*(outcome.true_scores for outcome in outcomes), strict=True)
        scores = [np.unique(np.concatenate([*true_scores, also]))[::-1] for true_scores in by_protocol]
        self._store.write("scores", [pack({str(i): down_to for i, down_to in enumerate(scores)})])
        counts = [np.zeros((2, len(down_to)), np.int64) for down_to in scores]
        tasks = [(i, *outcome.ends[-2:]) for i, outcome in enumerate(outcomes)]
        for _, answer in self._answers(counts_down_to, tasks, "finding the best score"):
            counts = [so_far + more for so_far, more in zip(counts, answer, strict=True)]
        points = []
        for matches, down_to, (tp, fp) in zip(totals, scores, counts, strict=True):
            npos = matches.npos[:, :1].sum(axis=0)
            (best_score,), (best_f1,) = find_best_points(
                down_to, tp, fp, np.zeros(len(down_to), np.int64), npos
            )
            score = float(best_score) if at_score is None else at_score
            at = len(down_to) - 1 if np.isnan(score) else int(np.searchsorted(-down_to, -score))
            point = make_point(score, int(tp[at]), int(fp[at]), int(npos[0]))
            points.append((point, (float(best_f1), float(best_score))))
        return points


def _of_classes(totals: Matches, some: Mask) -> Matches:
    """Return the totals of some of the classes."""
    classes = tuple(np.array(totals.classes, object)[some])
    return replace(totals, classes=classes, npos=totals.npos[some], gt_ignored=totals.gt_ignored[some])
