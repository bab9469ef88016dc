"""What runs tasks: this process, or the workers of a Dask scheduler; a bounded number at a time."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from typing import Any

from odm.issues import PathError, UsageError, plural

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
