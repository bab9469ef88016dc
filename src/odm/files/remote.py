"""Sources in an object store: opened where the user typed an address, with the provider's credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Any

from odm.files.opening import HEAD, MAX_SIZE, NOT_TEXT, UNREADABLE, other_kind
from odm.files.source import Source
from odm.issues import Log, PathError, Trusted, UsageError, printable
from odm.names import BAD_NAME, refuse_name

_ADDRESS = re.compile(r"(s3|gs|gcs|abfss?)://[^/]", re.IGNORECASE)
_OTHER = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


def is_address(path: str) -> bool:
    """Whether a path that the user typed is an address of an object store."""
    return _ADDRESS.match(path) is not None


def open_source(path: str, *, follow_links: bool = False, max_size: int = MAX_SIZE) -> Source:
    """What the user named: a file or folder of this machine, or of an object store.

    Raises
    ------
    PathError
        If it is not there, or cannot be listed.
    UsageError
        If it is an address of another kind, or pyarrow is not installed.
    """
    if is_address(path):
        return RemoteSource(path, max_size=max_size)
    if found := _OTHER.match(path):
        raise UsageError(
            f"{printable(path)}: {found[0]} is not read, because it cannot be listed; give s3://, gs:// or "
            f"abfss://, or download it"
        )
    return Source(path, follow_links=follow_links, max_size=max_size)


def _reason(e: Exception) -> str:
    """The first line of what a provider says."""
    return str(e).strip().split("\n")[0][:300] or type(e).__name__


class RemoteSource(Source):
    """A file or folder of an object store. There are no links; names follow the same rules as on a disk."""

    def __init__(self, path: str, *, max_size: int = MAX_SIZE) -> None:
        try:
            from pyarrow import fs
        except ImportError:
            raise UsageError(
                f"{printable(path)}: reading it needs pyarrow: pip install 'odm-toolkit[parquet]'"
            ) from None
        self.path = path.rstrip("/")
        self.follow_links = False
        self.max_size = max_size
        self.hidden = []
        self.bad_links = []
        self.picture_links = {}
        self.left_out = set()
        self._found = {}
        self._files = None
        self._heads: dict[str, bytes] = {}
        self._selector = fs.FileSelector
        try:
            self._fs, self._top = fs.FileSystem.from_uri(self.path)
            info = self._fs.get_file_info(self._top)
        except (OSError, ValueError) as e:
            raise PathError(f"{printable(path)}: {_reason(e)}") from None
        if info.type == fs.FileType.NotFound:
            raise PathError(f"{printable(path)}: there is no such file or folder")
        self.is_dir = info.type == fs.FileType.Directory
        self._sizes: dict[str, int] = {} if self.is_dir else {"": info.size or 0}

    def full(self, file: str = "") -> str:
        """The address of one of `files`, as it is shown."""
        return f"{self.path}/{file}" if file else self.path

    def size(self, file: str = "") -> int:
        """Bytes of one of `files`."""
        self.files  # noqa: B018 -- the listing has the sizes
        return self._sizes.get(file, 0)

    def open(self, file: str = "") -> IO[bytes]:
        """One of `files`, of which only what is asked for is fetched. OSError if it cannot be opened."""
        opened: IO[bytes] = self._fs.open_input_file(self._inner(file))
        return opened

    def read(self, file: str, log: Log) -> bytes | None:
        """The content of one of `files`; None, and an issue in the log, where it cannot be had."""
        path = self.full(file)
        if file and (reason := refuse_name(file)) is not None:
            log.report(BAD_NAME, path, value=file, reason=reason)
            return None
        if self.size(file) > self.max_size:
            reason = f"it has {self.size(file)} bytes, the limit is {self.max_size} (--max-size)"
            log.report(UNREADABLE, path, reason=reason)
            return None
        try:
            with self._fs.open_input_stream(self._inner(file)) as stream:
                data: bytes = stream.read()
        except OSError as e:
            log.report(UNREADABLE, path, reason=_reason(e))
            return None
        if what := other_kind(data):
            log.report(NOT_TEXT, path, value=Trusted(what))
            return None
        return data

    def head(self, file: str = "") -> bytes:
        """The first bytes of one of `files`, empty where it cannot be read."""
        if file not in self._heads:  # which every format asks for
            try:
                with self._fs.open_input_file(self._inner(file)) as stream:
                    self._heads[file] = stream.read(HEAD)
            except OSError:
                return b""
        return self._heads[file]

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
        try:
            found: list[Any] = self._fs.get_file_info(self._selector(self._top, recursive=True))
        except OSError as e:
            raise PathError(f"{printable(self.path)}: {_reason(e)}") from None
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
