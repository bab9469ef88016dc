"""A second pair of hands: part of the work is done by a copy of this process while this one goes on.

Python runs one thread at a time, so threads do not help to decode text. A copy of the process (a fork) has
all its memory for nothing, and its result comes back through memory that both share, without being copied
again.

It is an offer, not a promise: where no copy can be made, or it fails for whatever reason, the result is None
and the caller does the work itself, with the same outcome. A program that merely imports odm is never forked;
the command line `allow`s it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

R = TypeVar("R")
T = TypeVar("T")

MOST = 4
"""More processes than this only wait for the memory, and for each other."""

_ALIGNED = 64
_allowed = False


def allow() -> None:
    """Let this process be copied; for programs that are one thread and end soon."""
    global _allowed  # noqa: PLW0603 -- it is a property of the process
    _allowed = True


def worker_count() -> int:
    """How many processes, this one included, may share the work now."""
    if not _allowed or sys.platform != "linux" or threading.active_count() > 1:
        return 1  # other threads may hold locks that nobody would open in the copy
    return min(len(os.sched_getaffinity(0)), MOST)


class Worker(Generic[T]):
    """A copy of this process that does one piece of work; a context manager, at whose end it is gone.

    Parameters
    ----------
    work
        Called in the copy. What it returns must be picklable; its arrays travel through shared memory.
    room
        The most bytes that those arrays can take. Room that is not used costs nothing.
    """

    def __init__(self, work: Callable[[], T], room: int) -> None:
        self._pid = 0
        self._result: T | None = None
        try:
            self._shared = mmap.mmap(-1, room)
            self._pipe, tell = os.pipe()
        except (OSError, ValueError, OverflowError):
            return
        try:
            self._pid = os.fork()
        except OSError:
            os.close(self._pipe)
            os.close(tell)
            return
        if self._pid == 0:
            _serve(work, self._shared, tell)
        os.close(tell)

    def result(self) -> T | None:
        """What the work returned, None if it could not be done."""
        import pickle

        if not self._pid:
            return self._result
        with os.fdopen(self._pipe, "rb", closefd=False) as pipe:
            message = pipe.read()
        if self._end() == 0 and message:
            places, head = pickle.loads(message)  # noqa: S301 -- from our own copy
            view = memoryview(self._shared)
            self._result = pickle.loads(head, buffers=[view[a:b] for a, b in places])  # noqa: S301
        return self._result

    def _end(self) -> int:
        pid, self._pid = self._pid, 0
        os.close(self._pipe)
        return os.waitpid(pid, 0)[1]

    def __enter__(self) -> Worker[T]:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            self._end()


def in_order(work: Callable[[T], R], items: Sequence[T], room: int) -> list[R]:
    """``[work(item) for item in items]``, by several processes where that is possible.

    Each takes the next item when it is done with one, so long ones should come first.

    Parameters
    ----------
    work
        Must not change anything but what it returns.
    items
        At most a few thousand.
    room
        As for `Worker`.
    """
    n = min(worker_count(), len(items))
    if n < 2 or len(items) > _QUEUE // _NUMBER:
        return [work(item) for item in items]
    # A pipe that all read from is a queue: a few bytes are read by one of them as a whole.
    take, put = os.pipe()
    os.write(put, b"".join(i.to_bytes(_NUMBER, "big") for i in range(len(items))))
    os.close(put)

    def run() -> dict[int, R]:
        done = {}
        while number := os.read(take, _NUMBER):
            i = int.from_bytes(number, "big")
            done[i] = work(items[i])
        return done

    with contextlib.ExitStack() as stack:
        stack.callback(os.close, take)
        copies = [stack.enter_context(Worker(run, room)) for _ in range(n - 1)]
        done = run()
        for copy in copies:
            done.update(copy.result() or {})
        return [done[i] if i in done else work(item) for i, item in enumerate(items)]


_NUMBER = 2
_QUEUE = 2**14
"""Bytes that every pipe holds."""


def _serve(work: Callable[[], object], shared: mmap.mmap, tell: int) -> None:
    """The life of a copy."""
    code = 1
    try:
        import pickle

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        for stream in (0, 1, 2):  # whoever waits for our output to end does not wait for a copy
            os.close(stream)
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(work(), protocol=5, buffer_callback=buffers.append)
        places, end = [], 0
        for buffer in buffers:
            raw = buffer.raw()
            begin = -(-end // _ALIGNED) * _ALIGNED
            end = begin + raw.nbytes
            shared[begin:end] = raw  # an error if the room does not suffice
            places.append((begin, end))
        with os.fdopen(tell, "wb") as pipe:
            pipe.write(pickle.dumps((places, head)))
        code = 0
    finally:
        os._exit(code)
