"""The processor time of a call in units of work that is measured beside it, so that a bound holds on any machine."""

import gc
import time


def _seconds(call):
    """Seconds of this thread, without those of collecting the garbage of earlier tests, which takes longer the more ran."""
    gc.disable()
    try:
        start = time.thread_time()
        call()
        return time.thread_time() - start
    finally:
        gc.enable()


def cost(call, limit=0, tries=3):
    """The least cost of a call in some tries; no more are made once it is below `limit`.

    100 units are a second where Python adds 15 million small numbers in it.
    """
    least = float("inf")
    for _ in range(tries):
        unit = min(_seconds(lambda: sum(i & 7 for i in range(150_000))) for _ in range(3))
        least = min(least, _seconds(call) / unit)
        if least < limit:
            break
    return least
