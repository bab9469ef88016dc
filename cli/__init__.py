"""The command line: each command parses, calls one library function, prints, and ends with an exit code."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run ``odm``; the console script."""
    import gc
    import os

    if os.name == "posix" and not sys.flags.utf8_mode and sys.getfilesystemencoding() != "utf-8":
        # Names of files and words of the command line mean the same in every locale; Python settles their
        # encoding when it starts, so it is started again.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606
    # OpenBLAS, a part of NumPy, starts a thread per processor when it is loaded, none of which is used here,
    # and where the system grants it none it sends SIGINT, which looks like ctrl-C.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    _fill_closed_streams()
    # A command is a short process whose data are arrays: looking for cycles costs time and finds nothing.
    gc.disable()
    try:
        # Inside the try, so that ctrl-C is answered from the first moment.
        from odm.cli._app import run
        from odm.parallel import allow

        allow()
        _keep_memory()
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    os._exit(code)  # nothing is left to do, and taking the interpreter down piece by piece takes time


def _fill_closed_streams() -> None:
    """Put the null device where a standard stream was closed, lest a data file gets its number.

    `sys.stdout` and `sys.stderr` stay None, so that a closed output is still noticed.
    """
    import os

    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # noqa: TID251 -- not a data file; it gets the lowest free number


def _keep_memory() -> None:
    """Let freed memory be used again at once, for these processes end soon.

    The C library would give every large array back to the system, which hands out the next one page by page:
    for large data that took a fifth of the time.
    """
    if not sys.platform.startswith("linux"):
        return
    import contextlib
    import ctypes

    trim_threshold, mmap_threshold = -1, -3
    with contextlib.suppress(OSError, AttributeError):  # not every C library has it
        for parameter in (trim_threshold, mmap_threshold):
            ctypes.CDLL(None).mallopt(parameter, 2**30)
