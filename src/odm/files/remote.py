"""Sources in an object store: opened where the user typed an address, with the provider's credentials."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, Any

from odm.files.opening import HEAD, MAX_SIZE, NOT_TEXT, UNREADABLE, Unreadable, other_kind
from odm.files.source import Source
from odm.files.stores import (
    CHUNK,
    ask,
    conceal,
    connect,
    faults,
    is_address,
    reason,
    refuse_other,
    refused,
    split_query,
)
from odm.issues import Log, PathError, Trusted, printable
from odm.names import BAD_NAME, refuse_name


def open_source(
    path: str, *, follow_links: bool = False, max_size: int = MAX_SIZE, encoding: str = ""
) -> Source:
    """What the user named: a file or folder of this machine, or of an object store.

    Raises
    ------
    PathError
        If it is not there, or cannot be listed.
    UsageError
        If it is an address of another kind, or pyarrow is not installed.
    """
    if is_address(path):
        return RemoteSource(path, max_size=max_size, encoding=encoding)
    refuse_other(path)
    return Source(path, follow_links=follow_links, max_size=max_size, encoding=encoding)


class RemoteSource(Source):
    """A file or folder of an object store. There are no links; names follow the same rules as on a disk."""

    def __init__(self, path: str, *, max_size: int = MAX_SIZE, encoding: str = "") -> None:
        self.encoding = encoding
        path = conceal(path)
        self.path, self._query = split_query(path)
        self.follow_links = False
        self.max_size = max_size
        self.hidden = []
        self.bad_links = []
        self.picture_links = {}
        self.left_out = set()
        self.inner = None
        self._found = {}
        self._files = None
        self._size_files = []
        self._archive = None
        self._heads: dict[str, bytes | Unreadable] = {}
        self._fs, self._top = connect(self.path + self._query)
        with refused(path):
            info = ask(path, self._fs.get_file_info, self._top)
        if not info.is_file and info.type.name != "Directory":
            raise PathError(f"{printable(path)}: there is no such file or folder")
        self.is_dir = not info.is_file
        self._sizes: dict[str, int] = {} if self.is_dir else {"": info.size or 0}

    def full(self, file: str = "") -> str:
        """The address of one of `files`, as it is shown."""
        return (f"{self.path}/{file}" if file else self.path) + self._query

    def size(self, file: str = "") -> int:
        """Bytes of one of `files`."""
        self.files  # noqa: B018 -- the listing has the sizes
        return self._sizes.get(file, 0)

    def open(self, file: str = "") -> IO[bytes]:
        """One of `files`, of which only what is asked for is fetched. OSError if it cannot be opened."""
        if large := self._too_large(file):
            raise Unreadable(large)
        address = self.full()
        stream = _Asked(address, ask(address, self._fs.open_input_file, self._inner(file)))
        return io.BufferedReader(stream, 2**20)

    def _too_large(self, file: str) -> str:
        if self.size(file) <= self.max_size:
            return ""
        return f"it has {self.size(file)} bytes, more than the limit of {self.max_size} (--max-size)"

    def read(self, file: str, log: Log) -> bytes | None:
        """The content of one of `files`; None, and an issue in the log, where it cannot be had."""
        path = self.full(file)
        if file and (why := refuse_name(file)) is not None:
            log.report(BAD_NAME, path, value=file, reason=why)
            return None
        try:
            with self.open(file) as stream:
                parts = list(iter(lambda: stream.read(CHUNK), b""))
        except PathError:
            raise
        except faults() as e:
            log.report(UNREADABLE, path, reason=reason(e))
            return None
        data = b"".join(parts)
        if what := other_kind(data):
            log.report(NOT_TEXT, path, value=Trusted(what))
            return None
        return self.in_utf8(data, path, log)

    def peek(self, file: str = "") -> bytes:
        """The first bytes of one of `files`. `Unreadable` with the reason if they cannot be had."""
        if file not in self._heads:  # which every format asks for
            try:
                with self.open(file) as stream:
                    self._heads[file] = self._head_in_utf8(stream.read(HEAD))
            except PathError:
                raise
            except faults() as e:
                self._heads[file] = Unreadable(reason(e))
        head = self._heads[file]
        if isinstance(head, Unreadable):
            raise head
        return head

    def forget(self) -> None:
        """Let go of what was found out."""
        super().forget()
        self._heads.clear()

    def is_linked(self, path: str) -> bool:
        """Nothing is a link."""
        del path
        return False

    def _inner(self, file: str) -> str:
        return f"{self._top}/{file}" if file else self._top

    def _walk(self) -> Iterator[str]:
        from pyarrow.fs import FileSelector

        with refused(self.full()):
            found: list[Any] = ask(
                self.full(), self._fs.get_file_info, FileSelector(self._top, recursive=True)
            )
        for info in found:
            if not info.is_file:
                continue
            name = info.path[len(self._top) :].lstrip("/")
            parts = name.split("/")
            if any(part.startswith(".") or part == "__MACOSX" for part in parts):
                self.hidden.append(name)
            else:
                self._sizes[name] = info.size or 0
                yield name


class _Asked(io.RawIOBase):
    """A file of a store, each part of which is waited for as `ask` does."""

    def __init__(self, address: str, stream: Any) -> None:
        super().__init__()
        self._address, self._stream = address, stream
        self._size: int = ask(address, stream.size)

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place, which asks for nothing."""
        base = (0, self._stream.tell(), self._size)[whence]
        self._stream.seek(base + offset)
        return base + offset

    def tell(self) -> int:
        """Where the next part is read."""
        place: int = self._stream.tell()
        return place

    def readinto(self, buffer: Any, /) -> int:
        """Read a part. OSError if it cannot be had, or the file is shorter than it should be."""
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self._size - self.tell(), CHUNK)
        data = ask(self._address, self._stream.read, wanted) if wanted > 0 else b""
        if wanted > 0 and not data:
            raise OSError("it is cut")
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close it."""
        if not self.closed:
            self._stream.close()
        super().close()
