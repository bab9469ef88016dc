"""ZIP archives as folders, and gzip files as what they hold; nothing is ever unpacked to disk.

A path may lead through an archive, as in ``export.zip/images/a.jpg``: whatever opens files opens such a one.
"""

from __future__ import annotations

import functools
import io
import os
import stat
import zipfile
import zlib
from typing import IO

from odm.names import refuse_name

MOST_ENTRIES = 2_000_000
MOST_RATIO = 1000
"""How much larger than in the archive a file may be, above a megabyte; DEFLATE reaches 1032."""
_MAGIC = b"\x1f\x8b"


class BadArchive(Exception):
    """An archive is damaged, or not one that is safe to read; the text is the reason."""


def split(path: str) -> tuple[str, str] | None:
    """The archive through which a path leads, and the name in it, empty for the archive itself; else None."""
    path = os.fspath(path)
    low = path.lower()
    at = low.find(".zip")
    while at >= 0:
        end = at + 4
        if low[end : end + 1] in ("", "/", os.sep) and os.path.isfile(path[:end]):
            return path[:end], path[end:].replace(os.sep, "/").strip("/")
        at = low.find(".zip", end)
    return None


@functools.lru_cache(maxsize=4)
def _listed(
    path: str, changed: int, size: int, process: int
) -> tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]:
    """The open archive and its files; once for each state of the file, and for each process: a fork would
    read at the place to which another has gone.
    """
    del changed, size, process
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as e:
        raise BadArchive(f"it is no ZIP archive that can be read ({e})") from None
    found: dict[str, zipfile.ZipInfo] = {}
    infos = archive.infolist()
    if len(infos) > MOST_ENTRIES:
        raise BadArchive(f"it has {len(infos)} entries, the most is {MOST_ENTRIES}")
    for info in infos:
        if info.is_dir():
            continue
        name = info.filename
        if (reason := refuse_name(name)) is not None:
            raise BadArchive(f"its entry {name!r} is no safe name: {reason}")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise BadArchive(f"its entry {name!r} is a link")
        if name in found:
            raise BadArchive(f"it has two entries {name!r}")
        if info.file_size > max(2**20, MOST_RATIO * info.compress_size):
            raise BadArchive(f"its entry {name!r} has {info.file_size} bytes in {info.compress_size}")
        found[name] = info
    return archive, found


def listing(path: str) -> dict[str, zipfile.ZipInfo]:
    """The files in an archive, by name. BadArchive if it, or one of them, may not be read."""
    return _open(path)[1]


def _open(path: str) -> tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]:
    status = os.stat(path)
    return _listed(path, status.st_mtime_ns, status.st_size, os.getpid())


def open_member(path: str, name: str, max_size: int) -> tuple[IO[bytes], int]:
    """A file of an archive and its size in bytes. BadArchive with the reason if it cannot be had."""
    archive, found = _open(path)
    info = found.get(name)
    if info is None:
        raise BadArchive("there is no such file in the archive")
    if info.flag_bits & 1:
        raise BadArchive("it is encrypted")
    if info.file_size > max_size:
        raise BadArchive(f"it has {info.file_size} bytes, more than the limit of {max_size} (--max-size)")
    try:
        return io.BufferedReader(_Member(archive.open(info))), info.file_size
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as e:
        raise BadArchive(str(e)) from None


class _Member(io.RawIOBase):
    """A file of an archive, whose damage is an OSError wherever it is noticed."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is, backwards by reading it again."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place."""
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        """Where the next part is read."""
        return self._stream.tell()

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Read a part."""
        try:
            data = self._stream.read(len(buffer))
        except (zipfile.BadZipFile, zlib.error, EOFError) as e:
            raise OSError(f"it is damaged in its archive: {e}") from None
        buffer[: len(data)] = data
        return len(data)


def is_gzip(path: str, head: bytes) -> bool:
    """Whether a file is compressed, by its name and how it begins."""
    return head.startswith(_MAGIC) and os.fspath(path).lower().endswith(".gz")


def inflated(data: bytes, most: int, *, cut: bool = False) -> bytes:
    """What a gzip file holds, up to `most` bytes; with `cut`, its beginning. BadArchive if it is more."""
    unpack = zlib.decompressobj(wbits=31)
    try:
        found = unpack.decompress(data, most if cut else min(most, max(2**20, MOST_RATIO * len(data))) + 1)
    except zlib.error as e:
        raise BadArchive(f"it is a damaged gzip file ({e})") from None
    if cut:
        return found
    if not unpack.eof and len(found) > min(most, max(2**20, MOST_RATIO * len(data))):
        raise BadArchive("it holds more bytes than --max-size or its own size allow")
    if not unpack.eof or unpack.unused_data:
        raise BadArchive("it is a gzip file that is cut, or has several parts")
    return found


def plain_name(path: str) -> str:
    """A path without the ``.gz`` behind its suffix, by which a format is recognised."""
    path = os.fspath(path)
    return path[:-3] if path.lower().endswith(".gz") else path
