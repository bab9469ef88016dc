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
    count_down_to_scores,
    count_ranges,
    get_versions,
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
    """Work whose messages name flags if those of the caller do, which threads and workers would not know."""

    work: Callable[..., Any]
    as_flags: bool
    """The caller's value of the context variable `AS_FLAGS`."""

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


def run_tasks(
    executor: Executor, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[int, Any]]:
    """Yield the number and result of each task as it is done, in any order.

    The first error of a task is raised here, once those that are running are done; no more are started.
    Raises CancelledError if the executor gave one up.
    """
    call = _Task(work, AS_FLAGS.get())
    max_pending = 1 if isinstance(executor, Inline) else MOST_PENDING
    pending: dict[Future[Any], int] = {}
    waiting = iter(enumerate(tasks))
    failure: BaseException | None = None
    while True:
        # Keep up to `max_pending` tasks with the executor, none after a failure.
        while failure is None and len(pending) < max_pending and (entry := next(waiting, None)) is not None:
            task_number, arguments = entry
            pending[executor.submit(call, *arguments)] = task_number
        if not pending:
            break

        finished, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in finished:
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
                for pending_future in pending:
                    pending_future.cancel()
    if failure is not None:
        raise failure


@contextlib.contextmanager
def open_dask_executor(address: str, notify: Callable[[str], None]) -> Iterator[Executor]:
    """Open an executor of the Dask scheduler at an address; `notify` takes what its user should know.

    Raises UsageError if Dask is not installed, or the address is not one; PathError if there is no scheduler,
    or it has no worker; if it goes away, or its workers end again and again.
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
        n_workers = len(client.scheduler_info(n_workers=-1)["workers"])  # -1 asks for all
        if not n_workers:
            raise PathError(f"{address}: the scheduler has no workers")
        notify(f"{plural(n_workers, 'worker')} at {address}; the dashboard is at {client.dashboard_link}")
        closed = threading.Event()
        threading.Thread(target=_watch_workers, args=(client, address, notify, closed), daemon=True).start()
        executor = client.get_executor(pure=False, retries=2)  # pure: equal tasks would run only once
        try:
            yield executor
        except distributed.KilledWorker as e:  # raised by the work that uses the executor
            n_workers = e.allowed_failures + 1
            raise PathError(
                f"{address}: one task ended {n_workers} workers, most likely for lack of memory: give them "
                f"more, or a smaller {spell('rows_per_task')}, or smaller files or row groups"
            ) from None
        except (CancelledError, CommClosedError):
            raise PathError(f"{address}: the scheduler is gone, and what was done so far is lost") from None
        finally:
            closed.set()
            with contextlib.suppress(Exception):  # the scheduler may be gone
                executor.shutdown(wait=False)  # all is done, or nobody wants it any more
    finally:
        with contextlib.suppress(Exception):
            client.close()


def _watch_workers(
    client: Any, address: str, notify: Callable[[str], None], closed: threading.Event, interval: float = 5
) -> None:
    """Notify when all workers have gone, until `closed` is set: tasks then wait for others, perhaps for ever.

    The scheduler is asked every `interval` seconds.
    """
    had_workers = True
    while not closed.wait(interval):
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

    def _iterate(
        self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], title: str
    ) -> Iterator[tuple[int, Any]]:
        """Yield the number and answer of each task as it is done, with progress under `title`.

        `tasks` are the arguments of `work` but the last one, which is the store.
        """
        results = run_tasks(self._executor, work, [(*task, self._store) for task in tasks])
        for _ in self._log.track(range(len(tasks)), title):
            yield next(results)

    def _collect(self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], title: str) -> list[Any]:
        """Return the answers of all tasks, in their order."""
        answers: list[Any] = [None] * len(tasks)
        for i, answer in self._iterate(work, tasks, title):
            answers[i] = answer
        return answers

    def survey(self, parts: Sequence[ReadablePart], unread: Log) -> list[Survey]:
        """Survey all parts.

        Raises DataError if any has errors, or `unread` has, all of which are in the log, and UsageError if a
        worker has other versions of the programs.
        """
        surveys: list[Survey] = self._collect(survey, [(part,) for part in parts], "looking at parts")
        for part_survey in surveys:  # what every part notes is noted once
            part_survey.log.notes = [text for text in part_survey.log.notes if text not in self._log.notes]
            self._log.extend(part_survey.log)
        self._log.extend(unread)
        n_unusable = sum(bool(part_survey.log.errors) for part_survey in surveys)
        if n_unusable or unread.errors:
            text = f"{n_unusable} of {plural(len(parts), 'part')} of the detections cannot be used"
            raise DataError(text, self._log)
        for part_survey in surveys:
            if part_survey.versions != get_versions():
                worker_versions, local_versions = (
                    f"odm {version}, NumPy {numpy}, Python {python}"
                    for version, numpy, python in (part_survey.versions, get_versions())
                )
                raise UsageError(
                    f"a worker has {worker_versions}, and this process {local_versions}: install the same "
                    f"everywhere, or the numbers may differ in their last bits"
                )
        return surveys

    def match(
        self, parts: Sequence[ReadablePart], mappings: Sequence[tuple[Any, Any, Any]], work: Work
    ) -> tuple[list[Outcome], list[Matches], Kept]:
        """Match all images; return each task's outcome, the sums for each protocol, and what was kept.

        `mappings` are the image numbers, class numbers and tasks of images that `match_part` takes.
        """
        numbered = enumerate(zip(parts, mappings, strict=True))
        tasks = [(part, *mapping, i, work) for i, (part, mapping) in numbered]
        outcomes: list[Outcome] = self._collect(match_part, tasks, "matching")
        if work.n_cut:
            cut_bounds = [(i, outcome.cut_bounds) for i, outcome in enumerate(outcomes) if outcome.cut_bounds]
            cut_tasks = [  # each with its `Piece` of the file of every part
                (k, [(i, edges[k], edges[k + 1]) for i, edges in cut_bounds], work) for k in range(work.n_cut)
            ]
            outcomes += self._collect(match_cut, cut_tasks, "matching images of several parts")
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

        def make_task(bucket: int, first_bucket: int) -> tuple[Any, ...]:
            """Return the pieces of a bucket, and by protocol the totals of the classes of `first_bucket`."""
            pieces = [
                (i, outcome.bounds[bucket], outcome.bounds[bucket + 1]) for i, outcome in enumerate(outcomes)
            ]
            return pieces, [
                _select_classes(matches, buckets == first_bucket)
                for matches, buckets in zip(totals, buckets_by_result, strict=True)
            ]

        n_ranges_of_bucket = {work.bucket_of[name]: len(cuts) for name, cuts in work.cuts.items()}
        # Buckets of ranges come last, so all before the first of them hold whole classes.
        whole_buckets = range(min(n_ranges_of_bucket, default=work.n_buckets))
        blocks = self._collect(
            count_bucket, [(*make_task(b, b), at_scores) for b in whole_buckets], "counting"
        )

        # A class that is cut: condense each range, then count all ranges of the class together.
        if n_ranges_of_bucket:
            range_tasks = [
                (b, *make_task(b, start), at_scores)
                for start, n in n_ranges_of_bucket.items()
                for b in range(start, start + n)
            ]
            ranges_ends = self._collect(condense_range, range_tasks, "ranking ranges of scores")
            ends_by_bucket = {
                b: range_ends for (b, *_), range_ends in zip(range_tasks, ranges_ends, strict=True)
            }
            tasks_of_large_classes = []
            for start, n in n_ranges_of_bucket.items():
                ranges = [(b, ends_by_bucket[b]) for b in range(start, start + n)]
                _, class_totals = make_task(start, start)
                tasks_of_large_classes.append((ranges, class_totals, at_scores))
            blocks += self._collect(count_ranges, tasks_of_large_classes, "counting large classes")

        # The counts of the classes, which come by bucket, in the order of the classes.
        counts_by_protocol = []
        for matches, buckets, block_counts in zip(
            totals, buckets_by_result, zip(*blocks, strict=True), strict=True
        ):
            by_bucket = ClassCounts.concatenate(block_counts, matches.protocol)
            # Buckets [1, 0, 1] of classes a, b, c are counted as b, a, c: the places of a, b, c are 1, 0, 2.
            counted_position = np.argsort(np.argsort(buckets, kind="stable"), kind="stable")
            counts_by_protocol.append(by_bucket.reorder(counted_position, matches.classes))
        return counts_by_protocol

    def find_overall_points(
        self, outcomes: Sequence[Outcome], totals: Sequence[Matches], at_score: float | None
    ) -> list[tuple[OperatingPoint, tuple[float, float]]]:
        """Find the operating point of all classes together, and their best F1 with its score, by protocol.

        The best F1 is at the score of a true positive: the positives of all tasks are counted down to each.
        """
        extra_scores = np.array([-np.inf] if at_score is None else [-np.inf, at_score])
        by_protocol = zip(*(outcome.true_scores for outcome in outcomes), strict=True)
        scores = [  # descending
            np.unique(np.concatenate([*true_scores, extra_scores]))[::-1] for true_scores in by_protocol
        ]
        self._store.write("scores", [pack({str(i): limits for i, limits in enumerate(scores)})])
        counts = [np.zeros((2, len(limits)), np.int64) for limits in scores]
        # The last piece of each file has the scores of all detections, see `Outcome.bounds`.
        tasks = [(i, *outcome.bounds[-2:]) for i, outcome in enumerate(outcomes)]
        for _, answer in self._iterate(count_down_to_scores, tasks, "finding the best score"):
            counts = [total + task_counts for total, task_counts in zip(counts, answer, strict=True)]

        points = []
        for matches, limits, (tp, fp) in zip(totals, scores, counts, strict=True):
            npos = matches.npos[:, :1].sum(axis=0)  # (1,) of all classes
            # All classes count as one. The limits descend to -inf, which all detections reach.
            (best_score,), (best_f1,) = find_best_points(
                limits, tp, fp, np.zeros(len(limits), np.int64), npos
            )
            score = float(best_score) if at_score is None else at_score
            index = len(limits) - 1 if np.isnan(score) else int(np.searchsorted(-limits, -score))
            point = make_point(score, int(tp[index]), int(fp[index]), int(npos[0]))
            points.append((point, (float(best_f1), float(best_score))))
        return points


def _select_classes(totals: Matches, mask: Mask) -> Matches:
    """Return the totals of the classes in a mask (classes,)."""
    classes = tuple(np.array(totals.classes, object)[mask])
    return replace(totals, classes=classes, npos=totals.npos[mask], gt_ignored=totals.gt_ignored[mask])
