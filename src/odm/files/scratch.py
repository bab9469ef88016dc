"""Temporary folders that are removed again, however the run ends.

A *staging folder* lies hidden beside a target; everything is written into it first, and made durable. It is
locked while its maker lives, so that the next run can tell the left-overs of a process that died, and remove
them. A *scratch folder* holds intermediate files that several processes, or machines, share. Ctrl-C and
SIGTERM wait while one of them is taken away.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import signal
import stat
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from odm.files.marker import INCOMPLETE
from odm.files.opening import reason_of
from odm.files.stores import (
    CHUNK,
    PATIENCE,
    ask,
    conceal,
    connect,
    faults,
    is_address,
    reason,
    refuse_other,
    refused,
    reveal,
    split_query,
)
from odm.issues import PathError, printable, spell

CLOEXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
FOLDER = os.O_RDONLY | CLOEXEC | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
"""How a folder of odm's own is opened: nothing else of its name is, and no link is followed."""
STAGE = re.compile(r"\.odm-.*-[0-9a-f]{12}\.tmp", re.DOTALL)
"""The names of staging folders; nothing else is ever removed."""


def hold(stage: str, *, left_over: bool = False) -> int | None:
    """Lock a staging folder and return its descriptor; None if it is not ours, -1 if none can be locked.

    It is not ours if another process has locked it, or a new one is not empty. A left-over must belong to the
    user of this process, be locked for certain, and hold nothing but what is put into such a folder.
    """
    if not hasattr(os, "fwalk"):  # Windows: left-overs stay until removed by hand
        return None if left_over else -1
    try:
        descriptor = os.open(stage, FOLDER)
    except FileNotFoundError:
        return None
    is_ours = False
    try:
        status = os.fstat(descriptor)
        if left_over and status.st_uid != os.geteuid():
            return None
        try:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        except (ImportError, OSError):  # some network file systems have no locks
            if left_over:
                return None
        is_same = os.path.samestat(status, os.lstat(stage))
        is_ours = is_same and {*os.listdir(descriptor)} <= (
            {"file", "tree", INCOMPLETE} if left_over else set()
        )
    except FileNotFoundError:
        pass
    finally:
        if not is_ours:
            os.close(descriptor)
    return descriptor if is_ours else None


def lock_folder(folder: str) -> int | None:
    """Return a descriptor that locks a folder until it is closed or the process dies.

    None if another process holds it, -1 where folders cannot be locked.
    """
    try:
        import fcntl

        descriptor = os.open(folder, FOLDER)
    except (ImportError, OSError):  # a folder may be one to write into and not to list
        return -1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        os.close(descriptor)
        return None if isinstance(e, BlockingIOError) else -1
    return descriptor


def remove_left_overs(parent: str) -> None:
    """Remove the staging folders of this user's processes that died."""
    try:
        with os.scandir(parent) as entries:
            stages = [e.path for e in entries if STAGE.fullmatch(e.name) and e.is_dir(follow_symlinks=False)]
    except OSError:  # a folder may be one to write into and not to list
        return
    for stage in stages:
        try:
            descriptor = hold(stage, left_over=True)
        except OSError:  # it may not be opened, or is a link by now
            continue
        if descriptor is not None:
            try:
                remove_stage(stage, descriptor)
            finally:
                os.close(descriptor)


def remove_stage(stage: str, descriptor: int) -> None:
    """Remove a staging folder, given what `hold` returned for it; files that cannot be removed stay."""
    with contextlib.suppress(OSError, RecursionError):
        if descriptor >= 0:
            # Every step goes from one descriptor to the next, and no link is followed: whoever may write here
            # could put a link to somebody's files into the place of a folder while it is emptied.
            for _, folders, names, inner in os.fwalk(".", topdown=False, dir_fd=descriptor):
                for name in names:
                    os.unlink(name, dir_fd=inner)
                for name in folders:
                    try:
                        os.rmdir(name, dir_fd=inner)
                    except NotADirectoryError:  # a link to a folder
                        os.unlink(name, dir_fd=inner)
        elif not hasattr(os, "fwalk"):  # Windows, which has no descriptors of folders
            for folder, folders, names in os.walk(stage, topdown=False):
                for name in names:
                    os.unlink(os.path.join(folder, name))
                for name in folders:
                    os.rmdir(os.path.join(folder, name))
        os.rmdir(stage)


def syncfs() -> Any:
    """Return the system's call ``syncfs``, None if it has none."""
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True).syncfs
    except (ImportError, AttributeError, OSError, TypeError):
        return None


def sync_file_system(folder: str) -> None:
    """Make everything written below `folder` durable by one call."""
    import ctypes

    descriptor = os.open(folder, os.O_RDONLY | CLOEXEC)
    try:
        if syncfs()(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)


taken = threading.Event()
"""Set when a signal has reached a Python handler, in a process that called `end_soon`."""
_SOON = 1.5
"""Seconds that a handler has, before `_wait` ends the process."""


def end_soon() -> None:
    """Let Ctrl-C and SIGTERM end this process although its main thread is inside a library call.

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
    """Handle a signal as `handler` does, and note that it was reached."""
    taken.set()
    handler(number, frame)


def _wait(pipe: int) -> None:
    """End the process if a signal comes through the pipe and no handler is reached in time."""
    while number := os.read(pipe, 1)[0]:
        if number in (signal.SIGINT, signal.SIGTERM) and not taken.wait(_SOON):
            os.write(2, b"odm: interrupted\n")
            os._exit(128 + number)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the block has ended, unless they are ignored."""
    if threading.current_thread() is not threading.main_thread():  # no signal raises anything here
        yield
        return
    signals: list[int] = []
    handlers = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }

    def note(number: int, _: object) -> None:
        taken.set()
        signals.append(number)

    for number in handlers:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if signals:
            signal.raise_signal(signals[0])


_CHECKSUM = 4
"""Bytes after each piece."""


class Scratch:
    """A temporary folder below one that the user named; every process it is sent to uses the same.

    A file is written aside and renamed, so that it is whole or not there, whoever is killed; it may be
    written twice with the same content. Each piece of a file ends with a checksum.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._owner: int | None = None
        self._held = -1
        """The folder, open in the process that made it: only what this leads to is ever removed."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": -1}

    @classmethod
    def below(cls, parent: str | None) -> Scratch:
        """Make a temporary folder below `parent`, which may be in an object store, or else below the
        system's.

        Raises
        ------
        PathError
            If it cannot be made, or if other users may put something else into its place.
        """
        import tempfile  # slow to import, and few runs need it

        if parent is not None:
            if is_address(parent):
                return RemoteScratch.below(parent)
            refuse_other(parent)
        parent = tempfile.gettempdir() if parent is None else os.path.abspath(parent)
        try:
            os.makedirs(parent, mode=0o700, exist_ok=True)
            _refuse_shared(parent)
            store = cls(tempfile.mkdtemp(prefix="odm-scratch-", dir=parent))
            if hasattr(os, "fwalk"):  # not on Windows, which opens no folders
                store._held = os.open(store.path, FOLDER)
                store._owner = os.fstat(store._held).st_uid
        except PathError:
            raise
        except OSError as e:
            raise PathError(f"{printable(parent)}: {reason_of(e)}; give another {spell('scratch')}") from None
        return store

    def write(self, name: str, pieces: Sequence[bytes]) -> list[int]:
        """Write a file of pieces, and return (pieces + 1) offsets: where each piece begins, and the end.

        Raises PathError if it cannot be written.
        """
        aside = f"{name}.{os.urandom(6).hex()}"
        try:
            with self._folder() as (path, folder):
                descriptor = os.open(
                    path(aside), os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOEXEC, 0o600, dir_fd=folder
                )
                try:
                    for part in itertools.chain.from_iterable(map(_sealed, pieces)):
                        view = memoryview(part)
                        while view:
                            view = view[os.write(descriptor, view) :]
                    os.replace(path(aside), path(name), src_dir_fd=folder, dst_dir_fd=folder)
                except OSError:
                    with contextlib.suppress(OSError):
                        os.unlink(path(aside), dir_fd=folder)
                    raise
                finally:
                    os.close(descriptor)
        except OSError as e:
            raise self._refusal(e) from None
        return _ends(pieces)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes `start` to `stop` of a file.

        Raises PathError if they cannot be read, or are damaged.
        """
        try:
            with self._folder() as (path, folder):
                descriptor = os.open(path(name), os.O_RDONLY | CLOEXEC, dir_fd=folder)
            try:
                stop = os.fstat(descriptor).st_size if stop is None else stop
                data = bytearray()
                while len(data) < stop - start:
                    part = os.pread(descriptor, stop - start - len(data), start + len(data))
                    if not part:
                        break
                    data += part
            finally:
                os.close(descriptor)
            return self._unsealed(name, data, stop - start)
        except OSError as e:
            raise self._refusal(e) from None

    def remove(self) -> None:
        """Remove the folder that this process made, with all that is in it, whatever has its name by now."""
        with undisturbed():
            remove_stage(self.path, self._held)
            if self._held >= 0:
                os.close(self._held)
                self._held = -1

    @contextlib.contextmanager
    def _folder(self) -> Iterator[tuple[Any, int | None]]:
        """Open the folder: yields a function that makes the path of a name in it, and the descriptor that the
        path is relative to; None where the system does not support that.

        Everything goes by the descriptor: by a path, whoever may rename one of the folders above would have
        files of other places written or read.
        """
        if not hasattr(os, "fwalk"):
            yield lambda name: os.path.join(self.path, name), None
            return
        folder = os.open(self.path, FOLDER)
        try:
            if self._owner not in (None, os.fstat(folder).st_uid):
                raise OSError("it has been replaced by the folder of another user")
            yield str, folder
        finally:
            os.close(folder)

    def _unsealed(self, name: str, data: bytes | bytearray, length: int) -> bytes:
        """Return a piece without its checksum. Raises PathError if it is damaged or has another length."""
        body = bytes(memoryview(data)[:-_CHECKSUM])
        if len(data) != length or zlib.crc32(body).to_bytes(_CHECKSUM, "little") != data[-_CHECKSUM:]:
            raise PathError(f"scratch {printable(self.path)}: {name} is truncated or damaged")
        return body

    def _refusal(self, e: OSError) -> PathError:
        """Return the PathError for an error of the system, with advice."""
        if isinstance(e, PathError):
            return e
        advice = ""
        if not os.path.isdir(self.path):
            advice = ", or it is not a folder that all workers share"
        return PathError(f"scratch {printable(self.path)}: {reason_of(e)}{advice}")


def _refuse_shared(parent: str) -> None:
    """Raise PathError if other users may rename what is in a folder."""
    if os.name == "nt":
        return
    status = os.stat(parent)
    own_group = status.st_gid == status.st_uid  # a group of one, as many systems make for each user
    others = status.st_mode & (stat.S_IWOTH | (0 if own_group else stat.S_IWGRP))
    if others and not status.st_mode & stat.S_ISVTX:
        shown = printable(parent)
        raise PathError(
            f"{shown}: other users may replace what is in this folder; give another {spell('scratch')}, such "
            f"as a new folder in it, or chmod +t {shown}"
        )


def _sealed(piece: bytes) -> tuple[bytes, bytes]:
    """Return a piece and its checksum."""
    return piece, zlib.crc32(piece).to_bytes(_CHECKSUM, "little")


def _ends(pieces: Sequence[bytes]) -> list[int]:
    """Return the offsets of pieces in a file, each followed by a checksum, and the end."""
    return [0, *itertools.accumulate(len(piece) + _CHECKSUM for piece in pieces)]


class RemoteScratch(Scratch):
    """Scratch space in an object store, where a file appears whole or not at all; see `Scratch`."""

    def __init__(self, path: str) -> None:
        super().__init__(conceal(path))

    def __reduce__(self) -> tuple[type[RemoteScratch], tuple[str]]:
        """Pickle for another process, with the credentials that it needs."""
        return RemoteScratch, (reveal(self.path),)

    @classmethod
    def below(cls, parent: str | None) -> Scratch:
        """Make a new scratch folder below an address. Raises PathError if nothing can be written there."""
        base, query = split_query(parent or "")
        store = cls(f"{base}/odm-scratch-{os.urandom(6).hex()}{query}")
        with refused(store.path):
            ask(store.path, store._write, "begun", [])
        return store

    def write(self, name: str, pieces: Sequence[bytes]) -> list[int]:
        """Write a file; returns where each piece begins, and the end.

        Raises PathError if it cannot be written.
        """
        try:
            ask(self.path, self._write, name, pieces, patience=None)
        except faults() as e:
            raise PathError(
                f"scratch {printable(self.path)}: {name} cannot be written: {reason(e)}"
            ) from None
        return _ends(pieces)

    def _write(self, name: str, pieces: Sequence[bytes]) -> None:
        system, top = connect(self.path)
        with system.open_output_stream(f"{top}/{name}") as stream:
            for part in itertools.chain.from_iterable(map(_sealed, pieces)):
                stream.write(part)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes `start` to `stop` of a file. Raises PathError if they cannot be read."""
        system, top = connect(self.path)
        try:
            with ask(self.path, system.open_input_file, f"{top}/{name}") as stream:
                n = (ask(self.path, stream.size) if stop is None else stop) - start
                ends = [*range(start, start + n, CHUNK), start + n]
                parts = [ask(self.path, stream.read_at, b - a, a) for a, b in itertools.pairwise(ends)]
                return self._unsealed(name, b"".join(parts), n)
        except PathError:
            raise
        except faults() as e:
            raise PathError(f"scratch {printable(self.path)}: {name} cannot be read: {reason(e)}") from None

    def remove(self) -> None:
        """Remove all that was written."""
        with contextlib.suppress(*faults()):
            system, top = connect(self.path)
            ask(self.path, system.delete_dir, top, patience=1 if taken.is_set() else PATIENCE)
