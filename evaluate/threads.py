"""Two pairs of hands for independent pieces of work whose results keep their order.

NumPy lets go of the interpreter while it works on an array, so threads help where arrays are long. What is
computed does not depend on how many there are.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

MOST = 4
"""More threads than this only wait for the memory, and for each other."""


def cores() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def in_order(work: Callable[[T], R], items: Iterable[T], threads: int | None = None) -> list[R]:
    """``[work(item) for item in items]``, by several threads.

    One thread at a time draws from `items`, so a generator may give them. The first exception is raised.
    """
    threads = min(cores(), MOST) if threads is None else threads
    if threads < 2:
        return [work(item) for item in items]
    left = enumerate(items)
    lock = threading.Lock()
    done: dict[int, R] = {}
    failed: list[BaseException] = []

    def run() -> None:
        while not failed:
            with lock:
                number, item = next(left, (-1, None))
            if number < 0:
                return
            done[number] = work(item)  # type: ignore[arg-type]

    def guarded() -> None:
        try:
            run()
        except BaseException as e:  # noqa: BLE001 -- it is raised again where the work was asked for
            failed.append(e)

    helpers = [threading.Thread(target=guarded, daemon=True) for _ in range(threads - 1)]
    for helper in helpers:
        helper.start()
    try:
        guarded()
    finally:
        for helper in helpers:
            helper.join()
    if failed:
        raise failed[0]
    return [done[number] for number in range(len(done))]
