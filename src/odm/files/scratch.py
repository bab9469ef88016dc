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
from odm.files.opening import describe_error
from odm.files.stores import (
    CHUNK,
    PATIENCE,
    ask,
    conceal,
    connect,
    describe_fault,
    fault_types,
    is_address,
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


def lock_stage(stage: str, *, left_over: bool = False) -> int | None:
    """Lock a staging folder and return its descriptor; None if it is not ours, -1 if none can be locked.

    It is not ours if another process has locked it, or a new one is not empty. A left-over must belong to the
    user of this process, be locked for certain, and contain only what odm puts into such a folder.
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
        is_same = os.path.samestat(status, os.lstat(stage))  # not if it was replaced since it was opened
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
            descriptor = lock_stage(stage, left_over=True)
        except OSError:  # it may not be opened, or is a link by now
            continue
        if descriptor is not None:
            try:
                remove_stage(stage, descriptor)
            finally:
                os.close(descriptor)


def remove_stage(stage: str, descriptor: int) -> None:
    """Remove a staging folder with the `descriptor` of `lock_stage`; files that cannot be removed stay."""
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

        return ctypes.CDLL(None, use_errno=True).syncfs  # None: the libraries of this process
    except (ImportError, AttributeError, OSError, TypeError):
        return None


def sync_file_system(folder: str) -> None:
    """Make everything written below `folder` durable by one call."""
    import ctypes

    descriptor = os.open(folder, os.O_RDONLY | CLOEXEC)
    try:
        if syncfs()(descriptor) != 0:
            error_number = ctypes.get_errno()
            raise OSError(error_number, os.strerror(error_number))
    finally:
        os.close(descriptor)


signal_handled = threading.Event()
"""Set when a signal has reached a Python handler, in a process that called `end_soon`."""
_SOON = 1.5
"""Seconds that a handler has, before `_watch_signals` ends the process."""


def end_soon() -> None:
    """Let Ctrl-C and SIGTERM end this process even if its main thread is inside a library call.

    Python calls handlers between two of its own steps, which do not come while pyarrow waits for a store. So
    the signal number also goes through a pipe to a thread, which ends the process if no handler is reached.
    Staging folders then stay, as after a kill; the next run removes them.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        return
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(signal_number)
        if callable(handler):
            signal.signal(signal_number, functools.partial(_handle_signal, handler))
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch_signals, args=(reading,), daemon=True).start()


def _handle_signal(handler: Callable[[int, Any], object], signal_number: int, frame: Any) -> None:
    """Set `signal_handled`, then handle a signal as `handler` does."""
    signal_handled.set()
    handler(signal_number, frame)


def _watch_signals(pipe: int) -> None:
    """End the process if a signal comes through the pipe and no handler is reached in time."""
    while signal_number := os.read(pipe, 1)[0]:  # each signal is a byte with its number
        if signal_number in (signal.SIGINT, signal.SIGTERM) and not signal_handled.wait(_SOON):
            os.write(2, b"odm: interrupted\n")
            os._exit(128 + signal_number)


@contextlib.contextmanager
def delay_signals() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the block has ended, unless they are ignored; the first comes then."""
    if threading.current_thread() is not threading.main_thread():  # no signal raises anything here
        yield
        return
    pending: list[int] = []
    handlers = {
        signal_number: handler
        for signal_number in (signal.SIGINT, signal.SIGTERM)
        if (handler := signal.getsignal(signal_number)) not in (signal.SIG_IGN, None)  # None: not Python's
    }

    def note(signal_number: int, _: object) -> None:
        """Keep a signal until the block has ended."""
        signal_handled.set()
        pending.append(signal_number)

    for signal_number in handlers:
        signal.signal(signal_number, note)
    try:
        yield
    finally:
        for signal_number, handler in handlers.items():
            signal.signal(signal_number, handler)
        if pending:
            signal.raise_signal(pending[0])


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
        """The user who made the folder; one of another user in its place is refused. None on Windows."""
        self._descriptor = -1
        """Descriptor of the folder in the process that made it, else -1; only its content is ever removed."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_descriptor": -1}

    @classmethod
    def below(cls, parent: str | None) -> Scratch:
        """Make a temporary folder below `parent`, which may be in an object store, or else below the
        system's.

        Raises PathError if it cannot be made, or if other users may put something else into its place.
        """
        import tempfile  # slow to import, and few runs need it

        if parent is not None:
            if is_address(parent):
                return RemoteScratch.below(parent)
            refuse_other(parent)  # other addresses, such as http://
        parent = tempfile.gettempdir() if parent is None else os.path.abspath(parent)
        try:
            os.makedirs(parent, mode=0o700, exist_ok=True)
            _refuse_shared(parent)
            store = cls(tempfile.mkdtemp(prefix="odm-scratch-", dir=parent))
            if hasattr(os, "fwalk"):  # not on Windows, which opens no folders
                store._descriptor = os.open(store.path, FOLDER)
                store._owner = os.fstat(store._descriptor).st_uid
        except PathError:
            raise
        except OSError as e:
            raise PathError(
                f"{printable(parent)}: {describe_error(e)}; give another {spell('scratch')}"
            ) from None
        return store

    def write(self, name: str, pieces: Sequence[bytes]) -> list[int]:
        """Write a file of pieces, and return (n_pieces + 1) offsets: the start of each piece, and the end.

        Raises PathError if it cannot be written.
        """
        temporary_name = f"{name}.{os.urandom(6).hex()}"
        try:
            with self._open_folder() as (path, folder):
                descriptor = os.open(
                    path(temporary_name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOEXEC, 0o600, dir_fd=folder
                )
                try:
                    for data in itertools.chain.from_iterable(map(_add_checksum, pieces)):
                        view = memoryview(data)
                        while view:
                            view = view[os.write(descriptor, view) :]
                    os.replace(path(temporary_name), path(name), src_dir_fd=folder, dst_dir_fd=folder)
                except OSError:
                    with contextlib.suppress(OSError):
                        os.unlink(path(temporary_name), dir_fd=folder)
                    raise
                finally:
                    os.close(descriptor)
        except OSError as e:
            raise self._make_error(e) from None
        return _find_offsets(pieces)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return a piece of a file without its checksum; `start` and `stop` are offsets of `write`.

        Raises PathError if it cannot be read, or is damaged.
        """
        try:
            with self._open_folder() as (path, folder):
                descriptor = os.open(path(name), os.O_RDONLY | CLOEXEC, dir_fd=folder)
            try:
                stop = os.fstat(descriptor).st_size if stop is None else stop
                data = bytearray()
                while len(data) < stop - start:
                    chunk = os.pread(descriptor, stop - start - len(data), start + len(data))
                    if not chunk:
                        break
                    data += chunk
            finally:
                os.close(descriptor)
            return self._check_chunk(name, data, stop - start)
        except OSError as e:
            raise self._make_error(e) from None

    def remove(self) -> None:
        """Remove the folder that this process made, with all that is in it, whatever has its name by now."""
        with delay_signals():
            remove_stage(self.path, self._descriptor)
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    @contextlib.contextmanager
    def _open_folder(self) -> Iterator[tuple[Any, int | None]]:
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
            yield str, folder  # `str` leaves a name as it is, relative to the descriptor
        finally:
            os.close(folder)

    def _check_chunk(self, name: str, data: bytes | bytearray, length: int) -> bytes:
        """Return a piece of a file without its checksum.

        Raises PathError if it is damaged or `data` is not `length` bytes long.
        """
        body = bytes(memoryview(data)[:-_CHECKSUM])
        if len(data) != length or zlib.crc32(body).to_bytes(_CHECKSUM, "little") != data[-_CHECKSUM:]:
            raise PathError(f"scratch {printable(self.path)}: {name} is truncated or damaged")
        return body

    def _make_error(self, e: OSError) -> PathError:
        """Return the PathError for an error of the system, with advice."""
        if isinstance(e, PathError):
            return e
        advice = ""
        if not os.path.isdir(self.path):
            advice = ", or it is not a folder that all workers share"
        return PathError(f"scratch {printable(self.path)}: {describe_error(e)}{advice}")


def _refuse_shared(parent: str) -> None:
    """Raise PathError if other users may rename what is in a folder."""
    if os.name == "nt":
        return
    status = os.stat(parent)
    is_private_group = status.st_gid == status.st_uid  # a group of one, as many systems make for each user
    writable_by_others = status.st_mode & (stat.S_IWOTH | (0 if is_private_group else stat.S_IWGRP))
    if writable_by_others and not status.st_mode & stat.S_ISVTX:  # else only the owner of a file renames it
        label = printable(parent)
        raise PathError(
            f"{label}: other users may replace what is in this folder; give another {spell('scratch')}, such "
            f"as a new folder in it, or chmod +t {label}"
        )


def _add_checksum(piece: bytes) -> tuple[bytes, bytes]:
    """Return a piece and its checksum."""
    return piece, zlib.crc32(piece).to_bytes(_CHECKSUM, "little")


def _find_offsets(pieces: Sequence[bytes]) -> list[int]:
    """Return (n_pieces + 1) offsets: the start of each piece in a file with checksums, and the end."""
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
        """Make a scratch folder below an address by writing a file into it. Raises PathError if it cannot."""
        address, query = split_query(parent or "")
        store = cls(f"{address}/odm-scratch-{os.urandom(6).hex()}{query}")
        with refused(store.path):
            ask(store.path, store._write, "begun", [])
        return store

    def write(self, name: str, pieces: Sequence[bytes]) -> list[int]:
        """Write a file, and return (n_pieces + 1) offsets: the start of each piece, and the end.

        Raises PathError if it cannot be written.
        """
        try:
            ask(self.path, self._write, name, pieces, patience=None)
        except fault_types() as e:
            raise PathError(
                f"scratch {printable(self.path)}: {name} cannot be written: {describe_fault(e)}"
            ) from None
        return _find_offsets(pieces)

    def _write(self, name: str, pieces: Sequence[bytes]) -> None:
        """Write a file of pieces, each followed by its checksum."""
        system, top = connect(self.path)
        with system.open_output_stream(f"{top}/{name}") as stream:
            for data in itertools.chain.from_iterable(map(_add_checksum, pieces)):
                stream.write(data)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return a piece of a file, as `Scratch.read` does; PathError if it is not there, or damaged."""
        system, top = connect(self.path)
        try:
            with ask(self.path, system.open_input_file, f"{top}/{name}") as stream:
                n_bytes = (ask(self.path, stream.size) if stop is None else stop) - start
                bounds = [*range(start, start + n_bytes, CHUNK), start + n_bytes]  # of calls, as CHUNK limits
                chunks = [ask(self.path, stream.read_at, b - a, a) for a, b in itertools.pairwise(bounds)]
                return self._check_chunk(name, b"".join(chunks), n_bytes)
        except PathError:
            raise
        except fault_types() as e:
            raise PathError(
                f"scratch {printable(self.path)}: {name} cannot be read: {describe_fault(e)}"
            ) from None

    def remove(self) -> None:
        """Remove all that was written."""
        with contextlib.suppress(*fault_types()):
            system, top = connect(self.path)
            # After Ctrl-C or SIGTERM nobody waits long for the store.
            ask(self.path, system.delete_dir, top, patience=1 if signal_handled.is_set() else PATIENCE)
