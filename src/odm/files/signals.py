"""Ctrl-C and SIGTERM while something is taken away that must not stay behind."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

taken = threading.Event()
"""Whether a signal has reached Python, in a process that called `end_soon`."""
_SOON = 1.5
"""Seconds."""


def end_soon() -> None:
    """End this process after Ctrl-C and SIGTERM even if its main thread is in a library that goes on.

    Python calls handlers between two of its own steps. While pyarrow waits for a store there are none, so the
    number of the signal comes through a pipe to a thread, which looks whether the handlers were reached.
    What has been written aside stays, as after a kill; the next run removes it.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(number)
        if callable(handler):
            signal.signal(number, functools.partial(_take, handler))
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_wait, args=(reading,), daemon=True).start()


def _take(handler: Callable[[int, Any], object], number: int, frame: Any) -> None:
    taken.set()
    handler(number, frame)


def _wait(pipe: int) -> None:
    while number := os.read(pipe, 1)[0]:
        if number in (signal.SIGINT, signal.SIGTERM) and not taken.wait(_SOON):
            os.write(2, b"odm: interrupted\n")
            os._exit(128 + number)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Put off the signals that would raise an exception in the block until it has ended."""
    if threading.current_thread() is not threading.main_thread():  # no signal raises anything here
        yield
        return
    came: list[int] = []
    handlers = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if callable(handler := signal.getsignal(number))
    }

    def note(number: int, _: object) -> None:
        taken.set()
        came.append(number)

    for number in handlers:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
