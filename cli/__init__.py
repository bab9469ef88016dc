"""The command line: each command parses, calls one library function, prints, and ends with an exit code."""

from __future__ import annotations

import contextlib
import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run ``odm``; the console script."""
    import gc

    if os.name == "posix" and not sys.flags.utf8_mode and sys.getfilesystemencoding() != "utf-8":
        # Names of files and words of the command line mean the same in every locale; Python settles their
        # encoding when it starts, so it is started again.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606
    # OpenBLAS, a part of NumPy, starts a thread per processor when it is loaded, none of which is used here,
    # and where the system grants it none it sends SIGINT, which looks like ctrl-C.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    _fill_closed_streams()
    _watch_over_limit()
    # A command is a short process whose data are arrays: looking for cycles costs time and finds nothing.
    gc.disable()
    try:
        # Inside the try, so that ctrl-C is answered from the first moment.
        from odm.cli._app import run
        from odm.parallel import allow

        allow()  # this process, a single thread, may be copied to share the work
        _keep_memory()
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    os._exit(code)  # nothing is left to do, and taking the interpreter down piece by piece takes time


def _fill_closed_streams() -> None:
    """Put the null device where a standard stream was closed, lest a data file gets its stream number.

    `sys.stdout` and `sys.stderr` stay None, so that a closed output is still noticed.
    """
    for stream_number in (0, 1, 2):
        try:
            os.fstat(stream_number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # noqa: TID251 -- not a data file; it gets the lowest free number


def _watch_over_limit() -> None:
    """If memory is limited (``ulimit -v``), fork: the copy does the work, and this process reports its end.

    pyarrow and msgspec end a process by a signal if they get no memory, and only another one can say why.
    Returns in the copy, or if there is no limit; the watching process ends here.
    """
    try:
        import resource
        import signal

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return
        is_loaded: list[bool] = []  # not empty once the copy has loaded everything
        signal.signal(signal.SIGUSR1, lambda *_: is_loaded.append(True))
        if (child := os.fork()) == 0:
            _load_within_limit()
            os.kill(os.getppid(), signal.SIGUSR1)
            return
    except (ImportError, OSError):  # Windows has no such limit
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to both
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGTERM:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)  # ends this process as it ended the copy
    # Without memory the copy ends by a signal, by the C library's code, or before it has loaded everything.
    failed_to_load = not is_loaded and code != 130  # 130: ctrl-C
    if code < 0 or code == _NO_THREAD_DATA or failed_to_load:
        purpose = "this data" if is_loaded else "odm itself, which takes about 110 MB"
        from odm.cli._streams import say, screens

        with screens():  # `ulimit` counts in units of 1024 bytes
            say(f"odm: error: not enough memory for {purpose} (ulimit -v {limit >> 10})")
        code = 3
    os._exit(code)


def _load_within_limit() -> None:
    """Import what every command needs, or end the process silently, with code 3.

    Without memory OpenBLAS writes a line and ends the process itself, so that until all is loaded the null
    device takes the place of the standard error stream.
    """
    saved_stderr, null_device = os.dup(2), os.open(os.devnull, os.O_WRONLY)  # noqa: TID251 -- not a data file
    os.dup2(null_device, 2)
    try:
        import numpy as np  # noqa: F401

        import odm.cli._app
        import odm.issues  # noqa: F401
    except (ImportError, MemoryError):
        os._exit(3)
    except KeyboardInterrupt:
        os._exit(130)
    os.dup2(saved_stderr, 2)
    os.close(saved_stderr)
    os.close(null_device)


_NO_THREAD_DATA = 127
"""The exit code with which the C library ends a process if there is no memory for its threads."""


def _keep_memory() -> None:
    """Let freed memory be used again at once, for these processes end soon.

    The C library would give every large array back to the system, which hands out the next one page by page:
    for large data that took a fifth of the time.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    trim_threshold, mmap_threshold = -1, -3  # as malloc.h numbers them
    with contextlib.suppress(OSError, AttributeError):  # not every C library has it
        for parameter in (trim_threshold, mmap_threshold):
            ctypes.CDLL(None).mallopt(parameter, 2**30)  # bytes
