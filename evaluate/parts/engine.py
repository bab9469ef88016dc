"""Running tasks on any executor, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from typing import Any

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
