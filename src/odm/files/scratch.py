"""A folder for intermediate files that several processes, or machines, share."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from odm.files import staging
from odm.files.opening import reason_of
from odm.files.signals import taken, undisturbed
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
from odm.issues import PathError, printable

_CHECKSUM = 4
"""Bytes after each piece."""


class Scratch:
    """A folder of its own below one that the user named; the same for every process that it is sent to.

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
        """A new one below `parent`, which may be in an object store, else below the system's temporary files.

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
                store._held = os.open(store.path, staging.FOLDER)
                store._owner = os.fstat(store._held).st_uid
        except PathError:
            raise
        except OSError as e:
            raise PathError(f"{printable(parent)}: {reason_of(e)}; give another --scratch") from None
        return store

    def write(self, name: str, pieces: Sequence[bytes]) -> list[int]:
        """Write a file; answers where each piece begins, and the end. PathError if it cannot be written."""
        aside = f"{name}.{os.urandom(6).hex()}"
        try:
            with self._folder() as (path, folder):
                descriptor = os.open(
                    path(aside), os.O_WRONLY | os.O_CREAT | os.O_EXCL | staging.CLOEXEC, 0o600, dir_fd=folder
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
        """The piece in bytes `start` to `stop` of a file. PathError if it cannot be had, or is damaged."""
        try:
            with self._folder() as (path, folder):
                descriptor = os.open(path(name), os.O_RDONLY | staging.CLOEXEC, dir_fd=folder)
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
            staging.remove_stage(self.path, self._held)
            if self._held >= 0:
                os.close(self._held)
                self._held = -1

    @contextlib.contextmanager
    def _folder(self) -> Iterator[tuple[Any, int | None]]:
        """How a name in the folder is spelled beside the open folder; None where there are no such.

        Everything goes by the descriptor: by a path, whoever may rename one of the folders above would have
        files of other places written or read.
        """
        if not hasattr(os, "fwalk"):
            yield lambda name: os.path.join(self.path, name), None
            return
        folder = os.open(self.path, staging.FOLDER)
        try:
            if self._owner not in (None, os.fstat(folder).st_uid):
                raise OSError("it has been replaced by the folder of another user")
            yield str, folder
        finally:
            os.close(folder)

    def _unsealed(self, name: str, data: bytes | bytearray, length: int) -> bytes:
        body = bytes(memoryview(data)[:-_CHECKSUM])
        if len(data) != length or zlib.crc32(body).to_bytes(_CHECKSUM, "little") != data[-_CHECKSUM:]:
            raise PathError(f"scratch {printable(self.path)}: {name} is cut or damaged")
        return body

    def _refusal(self, e: OSError) -> PathError:
        if isinstance(e, PathError):
            return e
        more = ""
        if not os.path.isdir(self.path):
            more = ", or it is no folder that every worker shares"
        return PathError(f"scratch {printable(self.path)}: {reason_of(e)}{more}")


def _refuse_shared(parent: str) -> None:
    """PathError if other users may rename what is in a folder."""
    if os.name == "nt":
        return
    status = os.stat(parent)
    own_group = status.st_gid == status.st_uid  # a group of one, as many systems make for each user
    others = status.st_mode & (stat.S_IWOTH | (0 if own_group else stat.S_IWGRP))
    if others and not status.st_mode & stat.S_ISVTX:
        shown = printable(parent)
        raise PathError(
            f"{shown}: other users may replace what is in this folder; give another --scratch, such as a new "
            f"folder in it, or chmod +t {shown}"
        )


def _sealed(piece: bytes) -> tuple[bytes, bytes]:
    return piece, zlib.crc32(piece).to_bytes(_CHECKSUM, "little")


def _ends(pieces: Sequence[bytes]) -> list[int]:
    return [0, *itertools.accumulate(len(piece) + _CHECKSUM for piece in pieces)]


class RemoteScratch(Scratch):
    """The same in an object store, where a file is whole or not there anyway."""

    def __init__(self, path: str) -> None:
        super().__init__(conceal(path))

    def __reduce__(self) -> tuple[type[RemoteScratch], tuple[str]]:
        """For another process, which must know the credentials."""
        return RemoteScratch, (reveal(self.path),)

    @classmethod
    def below(cls, parent: str | None) -> Scratch:
        """A new one below an address. PathError if nothing can be written there."""
        base, query = split_query(parent or "")
        store = cls(f"{base}/odm-scratch-{os.urandom(6).hex()}{query}")
        with refused(store.path):
            ask(store.path, store._write, "begun", [])
        return store

    def write(self, name: str, pieces: Sequence[bytes]) -> list[int]:
        """Write a file; answers where each piece begins, and the end. PathError if it cannot be written."""
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
        """Bytes `start` to `stop` of a file. PathError if they cannot be had."""
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
