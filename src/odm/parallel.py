"""Do part of the work in a copy of this process, while this one goes on.

Python runs one thread at a time, so threads do not help to resample images. A copy of the process (a fork)
has all its memory for nothing, and its result comes back through a pipe.

Where no copy can be made, or it fails, hangs or takes far too long, the result is None and the caller does
the work itself, with the same outcome. A copy is made only where memory is plentiful, and if memory ends it
is the copy that the system kills. A program that merely imports odm is never forked; the command line
`allow`s it.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

R = TypeVar("R")
T = TypeVar("T")

MOST = 4
"""More processes than this only wait for the memory, and for each other."""

SPARE = 2**30
"""Bytes that this process must be able to take for a copy to be made."""

PATIENCE = 5.0, 4.0
"""How long a copy is waited for: so many seconds, plus so many times as long as it has run already."""

_GLANCE = 0.1
"""Seconds between looks at a copy that is waited for."""
_allowed = False


def allow() -> None:
    """Let this process be copied; for programs that are one thread and end soon."""
    global _allowed  # noqa: PLW0603 -- it is a property of the process
    _allowed = True


def worker_count() -> int:
    """Return how many processes, this one included, may share the work now."""
    if not _allowed or sys.platform != "linux" or _thread_count() > 1:
        return 1  # other threads may hold locks that nobody would open in the copy
    n = min(len(os.sched_getaffinity(0)), MOST)
    return n if n > 1 and _count_free_bytes() >= SPARE else 1


def _thread_count() -> int:
    """Return the number of threads of this process, with those of libraries that Python does not know."""
    # The fields after the name, which is in parentheses, begin with the third; the twentieth is the number.
    fields = _read_text("/proc/self/stat").rpartition(")")[2].split()
    return int(fields[17]) if len(fields) > 17 else threading.active_count()


def _count_free_bytes() -> float:
    """Return the bytes that this process may still take: the least that its limits, its control groups and
    the machine leave.
    """
    import resource

    n_free = float("inf")
    # In statm, column 0 has the pages of the whole process, column 5 those of its data.
    for limit, column in ((resource.RLIMIT_AS, 0), (resource.RLIMIT_DATA, 5)):
        limit_bytes = resource.getrlimit(limit)[0]
        if limit_bytes != resource.RLIM_INFINITY:
            page_counts = _read_text("/proc/self/statm").split()
            n_taken = int(page_counts[column]) * resource.getpagesize() if page_counts else limit_bytes
            n_free = min(n_free, limit_bytes - n_taken)
    for line in _read_text("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            n_free = min(n_free, int(line.split()[1]) * 1024)
    for line in _read_text("/proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers in ("", "memory"):
            n_free = min(n_free, _count_free_bytes_of_groups(controllers, group))
    return n_free


def _count_free_bytes_of_groups(controllers: str, group: str) -> float:
    """Return the bytes left to a control group and its parents.

    Inside a container the group itself is the root. `controllers` is the folder of a group of version 1.
    """
    names = ["memory.max", "memory.current"]
    if controllers:  # version 1
        names = ["memory.limit_in_bytes", "memory.usage_in_bytes"]
    folder = os.path.join("/sys/fs/cgroup", controllers)
    n_free = float("inf")
    group_folders = [folder_name for folder_name in group.split("/") if folder_name]
    for n in range(len(group_folders) + 1):
        limit_text, used_text = (
            _read_text(os.path.join(folder, *group_folders[:n], name)).strip() for name in names
        )
        if limit_text.isdecimal() and used_text.isdecimal():
            # What the system holds of files is counted as used, and given up when memory is short.
            lines = _read_text(os.path.join(folder, *group_folders[:n], "memory.stat")).splitlines()
            stat = dict(line.split(" ", 1) for line in lines)
            cached = int(stat.get("total_inactive_file", stat.get("inactive_file", "0")))
            n_free = min(n_free, int(limit_text) - int(used_text) + cached)
    return n_free


def _read_text(path: str) -> str:
    """Return the text of one of the system's own files, empty where there is none."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY), errors="replace") as file:  # noqa: TID251 -- not a file of the user
            return file.read()
    except OSError:
        return ""


class Worker(Generic[T]):
    """A forked process that does one piece of work; a context manager, at whose end it is gone.

    Parameters
    ----------
    work
        Called in the copy. What it returns must be picklable.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        """Start the copy. If that fails ``_pid`` stays 0, and `result` returns None."""
        self._pid = 0
        self._result: T | None = None
        self._begun = time.monotonic()
        try:
            self._pipe, pipe_fd = os.pipe()
        except OSError:
            return
        try:
            self._pid = os.fork()
        except OSError:
            os.close(self._pipe)
            os.close(pipe_fd)
            return
        if self._pid == 0:
            _serve(work, pipe_fd)  # never returns
        os.close(pipe_fd)

    def result(self) -> T | None:
        """Wait for the copy and return what the work returned, None if it could not be done."""
        import pickle

        if self._pid:
            message = self._read_message()
            if message is None:
                self._kill()
            elif self._wait_for_end() == 0:
                with contextlib.suppress(MemoryError):  # then None: the caller tries the work itself
                    self._result = pickle.loads(message)  # noqa: S301 -- from our own copy
        return self._result

    def _read_message(self) -> bytes | None:
        """Return all bytes that the copy writes, None if it hangs or takes too long."""
        min_seconds, factor = PATIENCE  # more time for a copy whose work was begun long ago
        now = time.monotonic()
        deadline = now + min_seconds + factor * (now - self._begun)
        chunks: list[bytes] = []
        while time.monotonic() < deadline:
            if select.select([self._pipe], [], [], _GLANCE)[0]:
                chunk = os.read(self._pipe, 2**16)
                if not chunk:
                    return b"".join(chunks)
                chunks.append(chunk)
            elif os.waitid(os.P_PID, self._pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT):
                return None  # somebody has stopped it
        return None

    def _kill(self) -> None:
        """End the copy at once."""
        os.kill(self._pid, signal.SIGKILL)
        self._wait_for_end()

    def _wait_for_end(self) -> int:
        """Wait until the copy has ended, and return its status, 0 for success."""
        pid, self._pid = self._pid, 0
        os.close(self._pipe)
        return os.waitpid(pid, 0)[1]

    def __enter__(self) -> Worker[T]:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pid:
            self._kill()


class Team(Generic[T, R]):
    """Forked processes that begin to work on items at once, until `results` joins in.

    Each takes the next item when it is done with one, so long ones should come first.

    Parameters
    ----------
    work
        Must not change anything but what it returns, or memory that is shared.
    items
        At most a few thousand.
    """

    def __init__(self, work: Callable[[T], R], items: Sequence[T]) -> None:
        self._work, self._items, self._parent_pid = work, items, os.getpid()
        self._stack = contextlib.ExitStack()
        self._copies: list[Worker[dict[int, R]]] = []
        n_processes = min(worker_count(), len(items))
        if n_processes < 2 or len(items) > _QUEUE // _NUMBER:  # more than the pipe holds
            return  # `results` does all the work
        # A pipe that all read from is a queue: a few bytes are read by one of them as a whole.
        self._queue_fd, write_fd = os.pipe()
        os.write(write_fd, b"".join(i.to_bytes(_NUMBER, "big") for i in range(len(items))))
        os.close(write_fd)
        self._stack.callback(os.close, self._queue_fd)
        self._copies += [
            self._stack.enter_context(Worker(self._work_on_queue)) for _ in range(n_processes - 1)
        ]

    def _work_on_queue(self) -> dict[int, R]:
        """Work on items until the queue is empty; returns the results by the index of the item."""
        result_by_index = {}
        while index_bytes := os.read(self._queue_fd, _NUMBER):
            if self._parent_pid not in (os.getpid(), os.getppid()):
                os._exit(1)  # the parent has died, so nobody waits any more
            i = int.from_bytes(index_bytes, "big")
            result_by_index[i] = self._work(self._items[i])
        return result_by_index

    def results(self) -> list[R]:
        """Work too, do what copies left undone, and return the result for each item. The copies are gone."""
        with self._stack:
            result_by_index = self._work_on_queue() if self._copies else {}
            for copy in self._copies:
                result_by_index.update(copy.result() or {})
            return [
                result_by_index[i] if i in result_by_index else self._work(item)
                for i, item in enumerate(self._items)
            ]


def map_in_order(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``[work(item) for item in items]``, by several processes where that is possible; see `Team`."""
    return Team(work, items).results()


def map_by_threads(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return ``[work(item) for item in items]``, computed by threads.

    For work inside NumPy on large arrays. Raises the first exception of any thread when all have ended.
    """
    results: dict[int, R] = {}
    failed: list[BaseException] = []
    remaining = iter(range(len(items)))  # shared by all threads, so that each item is taken by one of them

    def run() -> None:
        try:
            for i in remaining:
                results[i] = work(items[i])
        except BaseException as e:  # noqa: BLE001 -- it is raised where it is waited for
            failed.append(e)

    n = min(worker_count(), len(items)) - 1 if len(items) > 1 else 0  # besides this thread, which works too
    threads = [threading.Thread(target=contextvars.copy_context().run, args=(run,)) for _ in range(n)]
    for thread in threads:
        thread.start()
    run()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return [results[i] for i in range(len(items))]


_NUMBER = 2
"""Bytes of the index of an item in the queue."""
_QUEUE = 2**14
"""Bytes that every pipe holds."""


def _serve(work: Callable[[], object], pipe_fd: int) -> None:
    """Run the work in the copy, write its result to the pipe, and end the process: it never returns."""
    exit_code = 1
    try:
        import pickle

        for signal_number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signal_number, signal.SIG_DFL)
        for stream in (0, 1, 2):  # whoever waits for our output to end does not wait for a copy
            with contextlib.suppress(OSError):
                os.close(stream)
        with contextlib.suppress(OSError):  # where memory ends this process goes, not the one it helps
            file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)  # noqa: TID251 -- not a file of the user
            os.write(file, b"1000")
            os.close(file)
        with os.fdopen(pipe_fd, "wb") as pipe:
            pickle.dump(work(), pipe)
        exit_code = 0
    finally:
        os._exit(exit_code)
