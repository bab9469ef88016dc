"""A folder for intermediate files that several processes, or machines, share."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Sequence

from odm.files.opening import reason_of
from odm.files.signals import undisturbed
from odm.files.stores import connect, faults, is_address, reason, refuse_other, refused, split_query
from odm.issues import PathError, printable


class Scratch:
    """A folder of its own below one that the user named; the same for every process that it is sent to.

    A file is written aside and renamed, so that it is whole or not there, whoever is killed; it may be
    written twice with the same content.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def below(cls, parent: str | None) -> Scratch:
        """A new one below `parent`, which may be in an object store, else below the system's temporary files.

        Raises
        ------
        PathError
            If it cannot be made.
        """
        import tempfile  # slow to import, and few runs need it

        if parent is not None:
            if is_address(parent):
                return RemoteScratch.below(parent)
            refuse_other(parent)
        parent = tempfile.gettempdir() if parent is None else os.path.abspath(parent)
        try:
            os.makedirs(parent, exist_ok=True)
            return cls(tempfile.mkdtemp(prefix="odm-scratch-", dir=parent))
        except OSError as e:
            raise PathError(f"{printable(parent)}: {reason_of(e)}; give another --scratch") from None

    def write(self, name: str, pieces: Sequence[bytes]) -> list[int]:
        """Write a file; answers where each piece begins, and the end. PathError if it cannot be written."""
        path = os.path.join(self.path, name)
        aside = f"{path}.{os.urandom(6).hex()}"
        ends = [0]
        try:
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                for piece in pieces:
                    view = memoryview(piece)
                    while view:
                        view = view[os.write(descriptor, view) :]
                    ends.append(ends[-1] + len(piece))
            finally:
                os.close(descriptor)
            os.replace(aside, path)
        except OSError as e:
            with contextlib.suppress(OSError):
                os.unlink(aside)
            raise self._refusal(e) from None
        return ends

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Bytes `start` to `stop` of a file. PathError if they cannot be had."""
        try:
            descriptor = os.open(os.path.join(self.path, name), os.O_RDONLY)
            try:
                stop = os.fstat(descriptor).st_size if stop is None else stop
                data = bytearray()
                while len(data) < stop - start:
                    part = os.pread(descriptor, stop - start - len(data), start + len(data))
                    if not part:
                        raise OSError(f"{name} is cut")
                    data += part
            finally:
                os.close(descriptor)
        except OSError as e:
            raise self._refusal(e) from None
        return bytes(data)

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        import shutil

        with undisturbed():
            shutil.rmtree(self.path, ignore_errors=True)

    def _refusal(self, e: OSError) -> PathError:
        more = ""
        if not os.path.isdir(self.path):
            more = ", or it is no folder that every worker shares"
        return PathError(f"scratch {printable(self.path)}: {reason_of(e)}{more}")


class RemoteScratch(Scratch):
    """The same in an object store, where a file is whole or not there anyway."""

    @classmethod
    def below(cls, parent: str | None) -> Scratch:
        """A new one below an address. PathError if nothing can be written there."""
        base, query = split_query(parent or "")
        store = cls(f"{base}/odm-scratch-{os.urandom(6).hex()}{query}")
        with refused(store.path):
            store._write("begun", [])
        return store

    def write(self, name: str, pieces: Sequence[bytes]) -> list[int]:
        """Write a file; answers where each piece begins, and the end. PathError if it cannot be written."""
        try:
            self._write(name, pieces)
        except faults() as e:
            raise PathError(
                f"scratch {printable(self.path)}: {name} cannot be written: {reason(e)}"
            ) from None
        return [0, *itertools.accumulate(map(len, pieces))]

    def _write(self, name: str, pieces: Sequence[bytes]) -> None:
        system, top = connect(self.path)
        with system.open_output_stream(f"{top}/{name}") as stream:
            for piece in pieces:
                stream.write(piece)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Bytes `start` to `stop` of a file. PathError if they cannot be had."""
        system, top = connect(self.path)
        try:
            with system.open_input_file(f"{top}/{name}") as stream:
                n = (stream.size() if stop is None else stop) - start
                data: bytes = stream.read_at(n, start)
            if len(data) != n:
                raise OSError("it is cut")
        except faults() as e:
            raise PathError(f"scratch {printable(self.path)}: {name} cannot be read: {reason(e)}") from None
        return data

    def remove(self) -> None:
        """Remove all that was written."""
        with contextlib.suppress(*faults()):
            system, top = connect(self.path)
            system.delete_dir(top)
