"""Read and write in object stores through pyarrow, with the credentials of the provider."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeVar

from odm.files.opening import HEAD, MAX_SIZE, Unreadable, Wrapped, refuse_larger
from odm.files.source import InMemory, MemorySource, Source
from odm.issues import PathError, UsageError, printable
from odm.names import refuse_name

_ADDRESS = re.compile(r"(s3|gs|gcs|abfss?)://[^/]", re.IGNORECASE)
_OTHER = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)

_ADVICE = {
    "s3": "check the address, the network and the credentials (AWS_PROFILE, or AWS_ACCESS_KEY_ID)",
    "g": "check the address, the network and the credentials (GOOGLE_APPLICATION_CREDENTIALS; "
    "gs://anonymous@BUCKET/ reads a public bucket)",
    "a": "check the address, the network and the credentials (AZURE_CLIENT_ID and the like, or az login)",
}
"""Advice in errors of a store, by how the scheme of its address begins."""

_SECONDS = 15
"""How long Google's library tries again, whose own limit is 15 minutes; the address may say otherwise."""
PATIENCE = 25.0
"""Seconds that a process waits in vain for a store, over all its calls."""
CHUNK = 2**24
"""Largest number of bytes that one call reads, so that a slow line is not taken for a silent store."""

T = TypeVar("T")

_SECRETS = re.compile(
    r"(?P<user>(?<=://)[^/@:?]+:.*(?=@))|(?P<value>(?<==)(?<=key=|ret=|ken=|ord=|sig=)[^&]+)", re.IGNORECASE
)
"""``KEY:SECRET`` in ``s3://KEY:SECRET@bucket``, and the values of account_key, client_secret, session_token,
password and sig in the query."""
_hidden: dict[str, str] = {}
"""The secrets in the addresses of this process, by the ``***`` that stands for each."""


def conceal(address: str) -> str:
    """Replace the credentials in an address by ``***``, to show, log or save it; `_hidden` keeps them."""
    if "://" not in address:
        return address

    def mask_secret(match: re.Match[str]) -> str:
        """Return the ``***`` that stands for a secret; that of further secrets has a number."""
        if match[0] in _hidden:  # concealed already
            return match[0]
        for i in itertools.count(1):
            label = f"***{'' if i == 1 else i}"
            if _hidden.setdefault(label, match[0]) == match[0]:
                return label
        raise AssertionError

    return _SECRETS.sub(mask_secret, address)


def reveal(address: str) -> str:
    """Return a concealed address with its credentials; only for a provider or a process of odm."""
    # The *** stands after :// or the = of KEY= (with two characters, as alternatives must be of one length).
    return re.sub(r"(?<=://|..=)\*\*\*\d*(?=@|&|$)", lambda match: _hidden.get(match[0], match[0]), address)


def is_address(path: str) -> bool:
    """Whether a path that the user typed is an address of an object store."""
    return _ADDRESS.match(path) is not None


def refuse_other(path: str) -> None:
    """Raise UsageError if a path that the user typed is an address of anything but an object store."""
    if match := _OTHER.match(path):
        raise UsageError(
            f"{printable(conceal(path))}: {match[0]} is not read, because it cannot be listed; give a "
            f"folder, or s3://, gs:// or abfss://"
        )


def refuse_target(path: str) -> None:
    """Raise PathError if a path to write to is an address, as nobody names a folder so."""
    if match := _OTHER.match(path):
        raise PathError(
            f"{printable(conceal(path))}: cannot write to {match[0]} addresses; write to a folder on this "
            f"machine and copy it"
        )


def split_query(address: str) -> tuple[str, str]:
    """Split an address into the part before ``?`` and its query, ``?endpoint_override=...`` or empty."""
    location, question_mark, query = address.partition("?")
    return location.rstrip("/"), question_mark + query


@functools.lru_cache(maxsize=8)
def connect(address: str) -> tuple[Any, str]:
    """Return pyarrow's file system for an address, and the path in it.

    Raises PathError if the store cannot be reached, and UsageError if pyarrow is not installed.
    """
    try:
        from pyarrow import fs
    except ImportError:
        raise UsageError(
            f"{printable(address)}: an object store needs pyarrow: pip install pyarrow"
        ) from None
    location, query = split_query(address)
    if location.lower().startswith("g") and "retry_limit_seconds" not in query:  # gs and gcs: Google
        query += f"{'&' if query else '?'}retry_limit_seconds={_SECONDS}"
    with refused(address):
        system, root = ask(address, fs.FileSystem.from_uri, reveal(location + query))
        root = root.rstrip("/")
        if location.lower().startswith("a"):  # abfs: Azure
            # Without credentials pyarrow dies when asked about a container, but not about a file in one.
            ask(address, system.get_file_info, f"{root}/odm")
    return system, root


_waited: defaultdict[str, float] = defaultdict(float)
"""Seconds that calls that failed have taken, by store."""


def ask(address: str, call: Callable[..., T], *args: Any, patience: float | None = PATIENCE) -> T:
    """Return ``call(*args)`` of a provider's library, run in a thread so that signals are handled meanwhile.

    Providers repeat calls that fail, some for many minutes, and odm calls again for the next file. All calls
    to a store that fail may take `patience` seconds together; None is no limit. Raises PathError if they take
    longer. An exception of the call is raised again.
    """
    import queue

    store = address.partition("?")[0].split("/")[2]  # s3://STORE/...
    if patience is not None and (patience := patience - _waited[store]) <= 0:
        raise _make_silence_error(address)
    answers: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run_call() -> None:
        """Put the result of the call into `answers`, or its exception."""
        try:
            answers.put((call(*args), None))
        except BaseException as e:  # noqa: BLE001 -- it is raised where it is waited for
            answers.put((None, e))

    started = time.monotonic()
    threading.Thread(target=run_call, daemon=True).start()
    try:
        result, error = answers.get(timeout=patience)
    except queue.Empty:
        _waited[store] += time.monotonic() - started
        raise _make_silence_error(address) from None
    if error is not None:
        _waited[store] += time.monotonic() - started
        raise error
    return result  # type: ignore[return-value]


def _make_silence_error(address: str) -> PathError:
    return PathError(f"{printable(address)}: the store does not answer; {_find_advice(address)}")


def _find_advice(address: str) -> str:
    return next((text for key, text in _ADVICE.items() if address.lower().startswith(key)), "")


@contextlib.contextmanager
def refused(address: str) -> Iterator[None]:
    """Context manager that turns an error of the object store into a PathError that names the address."""
    try:
        yield
    except PathError:
        raise
    except fault_types() as e:
        raise PathError(f"{printable(address)}: {describe_fault(e)}; {_find_advice(address)}") from None


def fault_types() -> tuple[type[Exception], ...]:
    """Return the exceptions that pyarrow raises if a store refuses.

    Azure's library raises some that are no OSError.
    """
    from pyarrow.lib import ArrowException

    return OSError, ValueError, Unreadable, ArrowException


def describe_fault(e: Exception) -> str:
    """Return the first line of a provider's error message, without diagnostics and secrets."""
    # Google's library names what it did before the last message of the store.
    text = str(e).strip().split("\n")[0].split("\\n")[0].rpartition("with a last message of ")[2]
    for noise in (" error_info=", "; Details:", " The request was not sent"):
        text = text.split(noise)[0]
    # A provider may repeat secrets; the longest go first, as one may be part of another.
    for label, secret in sorted(_hidden.items(), key=lambda pair: -len(pair[1])):
        text = text.replace(secret, label)
    return text[:300].rstrip(".") or type(e).__name__


def open_source(
    path: str, *, follow_links: bool = False, max_size: int = MAX_SIZE, encoding: str = ""
) -> Source:
    """Open what the user named: a file or folder of this machine, or of an object store.

    Raises PathError if it is not there, or cannot be listed, and UsageError if it is an address of another
    kind, or pyarrow is not installed.
    """
    if isinstance(path, InMemory):
        return MemorySource(path)
    if "://" in path:
        if is_address(path):
            return RemoteSource(path, max_size=max_size, encoding=encoding)
        refuse_other(path)
    return Source(path, follow_links=follow_links, max_size=max_size, encoding=encoding)


class RemoteSource(Source):
    """A file or folder of an object store. There are no links; names follow the same rules as on a disk."""

    def __init__(self, path: str, *, max_size: int = MAX_SIZE, encoding: str = "") -> None:
        """Connect to the store. Raises PathError if nothing is at the address."""
        path = conceal(path)  # only hides the credentials from messages: `connect` reveals them
        location, self._query = split_query(path)
        self._set_up(location, follow_links=False, max_size=max_size, encoding=encoding)
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
        """Return the address of one of `files`, as it is shown."""
        return (f"{self.path}/{file}" if file else self.path) + self._query

    def size(self, file: str = "") -> int:
        """Return the size of one of `files` in bytes."""
        self.files  # noqa: B018 -- the listing has the sizes
        return self._sizes.get(file, 0)

    def open(self, file: str = "") -> IO[bytes]:
        """Open one of `files` and fetch only the ranges that are read.

        Raises OSError if it cannot be opened.
        """
        refuse_larger(self.size(file), self.max_size)
        address, path = self.full(), f"{self._top}/{file}" if file else self._top
        return io.BufferedReader(_RemoteFile(address, ask(address, self._fs.open_input_file, path)), 2**20)

    def _check_name(self, file: str) -> str | None:
        return refuse_name(file)

    def _read_content(self, file: str) -> bytes:
        with _unreadable(), self.open(file) as stream:
            return b"".join(iter(lambda: stream.read(CHUNK), b""))

    def peek(self, file: str = "") -> bytes:
        """Return the first bytes of one of `files`. Raises Unreadable with the reason."""
        if file not in self._heads:  # which every format asks for
            try:
                with _unreadable(), self.open(file) as stream:
                    self._heads[file] = self._decode_head(stream.read(HEAD))
            except Unreadable as e:
                self._heads[file] = e
        head = self._heads[file]
        if isinstance(head, Unreadable):
            raise head
        return head

    def forget(self) -> None:
        """Drop the results of `once` and the first bytes of files."""
        super().forget()
        self._heads.clear()

    def is_linked(self, path: str) -> bool:
        """Return False, as object stores have no links."""
        del path
        return False

    def _walk(self) -> Iterator[str]:
        """List all files below the address, with their sizes, and yield those that are not hidden."""
        from pyarrow.fs import FileSelector

        with refused(self.full()):
            entries: list[Any] = ask(
                self.full(), self._fs.get_file_info, FileSelector(self._top, recursive=True)
            )
        self._sizes |= {i.path[len(self._top) :].lstrip("/"): i.size or 0 for i in entries if i.is_file}
        return self._drop_hidden(self._sizes)


@contextlib.contextmanager
def _unreadable() -> Iterator[None]:
    """Context manager that turns an error of the object store into `Unreadable`."""
    try:
        yield
    except PathError:
        raise
    except fault_types() as e:
        raise Unreadable(describe_fault(e)) from None


class _RemoteFile(Wrapped):
    """A file of a store whose parts are read through `ask`."""

    def __init__(self, address: str, stream: Any) -> None:
        super().__init__(stream)
        self._address = address
        self._size: int = ask(address, stream.size)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position of the next read, without a call to the store."""
        origin = (0, self._stream.tell(), self._size)[whence]  # SEEK_SET, SEEK_CUR, SEEK_END
        self._stream.seek(origin + offset)
        return origin + offset

    def read_chunk(self, n_max: int) -> bytes:
        """Read at most `n_max` bytes of the file.

        Raises OSError if the store refuses or the file ends early.
        """
        size = min(n_max, self._size - self.tell(), CHUNK)
        data: bytes = ask(self._address, self._stream.read, size) if size > 0 else b""
        if size > 0 and not data:
            raise OSError("it is truncated")
        return data

    def close(self) -> None:
        """Close it."""
        if not self.closed:
            self._stream.close()
        super().close()
