"""One way to open a regular file, and what is refused on the way: devices, archives, holes, sizes."""

from __future__ import annotations

import errno
import io
import os
import stat
from typing import IO

from odm import inputs
from odm.files import archives
from odm.issues import Code

MAX_SIZE = 64 * 2**30
"""Bytes; a larger file is refused. Real annotation files exceed 2 GB."""

HEAD = 64 * 2**10
"""How many first bytes a sniffer may look at."""
UNREADABLE = Code(
    "unreadable-file",
    "error",
    "cannot read the file: {reason}",
    "check that it exists, is a regular file, and that you have permission to read it",
    "A file in the data set could not be opened or read to the end, so its content is unknown.",
    file=True,
)
NOT_TEXT = Code(
    "not-text",
    "error",
    "expected text, found {value}",
    "extract it if it is an archive, or give the file that contains the annotations",
    "The file starts like an archive, a picture or another binary file. Archives are not extracted, so its "
    "content is unknown.",
    file=True,
)

_FLAGS = os.O_RDONLY
for _flag in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"):
    _FLAGS |= getattr(os, _flag, 0)


class Unreadable(Exception):
    """A file could not be read; the text is the reason."""


def _open(path: str, max_size: int) -> tuple[int, int]:
    """An open descriptor of a regular file and its size; Unreadable if it is anything else."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as e:
        if e.errno == errno.ENXIO:
            raise Unreadable("it is a socket or a device, not a regular file") from None
        raise Unreadable(reason_of(e)) from None
    except ValueError:
        raise Unreadable("its name contains a NUL") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"it is {kind_of(status.st_mode)}, not a regular file")
        if status.st_size > max_size:
            raise Unreadable(f"it has {status.st_size} bytes, more than the limit of {max_size} (--max-size)")
    except BaseException:
        os.close(descriptor)
        raise
    inputs.opened(path, status)
    return descriptor, status.st_size


def read_bytes(path: str, *, max_size: int = MAX_SIZE) -> bytes:
    """The whole content of a regular file, or of one in an archive; of a gzip file what it holds.

    Raises `Unreadable` with the reason.
    """
    if inside := _inside(path):
        stream, size = _member(*inside, max_size)
        with stream:
            return _all_of(stream, size)
    data = _content(path, max_size)
    if archives.is_gzip(path, data[:2]):
        try:
            return archives.inflated(data, max_size)
        except archives.BadArchive as e:
            raise Unreadable(str(e)) from None
    return data


def _inside(path: str) -> tuple[str, str] | None:
    """The archive through which a path leads, and the name in it."""
    found = archives.split(path) if ".zip" in os.fspath(path).lower() else None
    return found if found and found[1] else None


def _member(archive: str, name: str, max_size: int) -> tuple[IO[bytes], int]:
    try:
        inputs.opened(archive, os.stat(archive))
        return archives.open_member(archive, name, max_size)
    except OSError as e:
        raise Unreadable(reason_of(e)) from None
    except archives.BadArchive as e:
        raise Unreadable(str(e)) from None


def _all_of(stream: IO[bytes], size: int) -> bytes:
    try:
        data = stream.read(size + 1)
    except OSError as e:
        raise Unreadable(reason_of(e)) from None
    if len(data) != size:
        raise Unreadable("it is damaged in its archive: its size is another")
    return data


def _content(path: str, max_size: int) -> bytes:
    descriptor, size = _open(path, max_size)
    try:
        if size > 2**20:  # a hole of gigabytes is refused before it is read
            refuse_nuls(os.read(descriptor, 4096))
            os.lseek(descriptor, 0, os.SEEK_SET)
        data = os.read(descriptor, min(size + 1, 2**30))  # one more, so that a file that grows is noticed
        if len(data) != size or size >= 2**30:
            data = _read_rest(descriptor, data, size)
    except OSError as e:
        raise Unreadable(reason_of(e)) from None
    except (MemoryError, OverflowError):
        raise Unreadable(f"its {size} bytes do not fit into memory") from None
    finally:
        os.close(descriptor)
    if len(data) != size:
        raise Unreadable("it changed while being read")
    if size >= 4096:
        refuse_nuls(data[:4096])
    return data


def _read_rest(descriptor: int, data: bytes, size: int) -> bytes:
    """What follows `data`, up to one byte more than `size`, without holding the content twice."""
    stream = io.BytesIO()
    stream.write(data)
    del data
    while (left := size + 1 - stream.tell()) > 0 and (part := os.read(descriptor, min(left, 2**26))):
        stream.write(part)
    return stream.getvalue()


def refuse_nuls(head: bytes) -> None:
    """Unreadable if a file begins with nothing but NULs."""
    if len(head) >= 4096 and not head[:4096].strip(b"\0"):
        raise Unreadable("it begins with 4096 NUL bytes, so its content is lost or is not text")


_NOT_TEXT = {
    b"\x1f\x8b": "a gzip file",
    b"PK\3\4": "a ZIP archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a": "a RAR archive",
    b"\xfd7zXZ\0": "an xz file",
    b"\x28\xb5\x2f\xfd": "a Zstandard file",
    b"BZh91AY&SY": "a bzip2 file",
    b"\x89PNG\r\n": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF87a": "a GIF picture",
    b"GIF89a": "a GIF picture",
    b"II*\0": "a TIFF picture",
    b"MM\0*": "a TIFF picture",
    b"%PDF-": "a PDF document",
    b"\x89HDF\r\n": "an HDF5 file",
    b"\x93NUMPY": "a NumPy file",
    b"SQLite format 3\0": "an SQLite database",
}
"""How files begin that are taken for annotations by mistake."""
_BEGINNINGS = tuple(_NOT_TEXT)


def other_kind(head: bytes) -> str:
    """What a file is that begins like an archive, a picture or the like; empty if like nothing known."""
    if not head.startswith(_BEGINNINGS):
        return ""
    return next(name for begin, name in _NOT_TEXT.items() if head.startswith(begin))


def read_head(path: str, n: int = HEAD) -> bytes:
    """The first `n` bytes of what `read_bytes` reads. `Unreadable` with the reason."""
    if inside := _inside(path):
        stream, size = _member(*inside, 2**63)
        with stream:
            return _all_of(stream, size) if size <= n else stream.read(n)
    descriptor, _ = _open(path, 2**63)
    try:
        head = b""
        while len(head) < n and (part := os.read(descriptor, n - len(head))):
            head += part
    except OSError as e:
        raise Unreadable(reason_of(e)) from None
    finally:
        os.close(descriptor)
    if archives.is_gzip(path, head):
        try:
            return archives.inflated(head, n, cut=True)
        except archives.BadArchive as e:
            raise Unreadable(str(e)) from None
    return head


def open_binary(path: str, *, max_size: int = MAX_SIZE) -> IO[bytes]:
    """A regular file, open for reading, for a library that reads only what it needs. `Unreadable` if not."""
    if inside := _inside(path):
        return _member(*inside, max_size)[0]
    descriptor, _ = _open(path, max_size)
    stream = os.fdopen(descriptor, "rb")
    if os.fspath(path).lower().endswith(".gz"):
        stream.close()
        return io.BytesIO(read_bytes(path, max_size=max_size))
    return stream


GIVE_A_PATH = "give a path (./- for a file of this name)"


def reason_of(e: Exception) -> str:
    """Why the system refused, in its words and without the path."""
    if isinstance(e, OSError) and e.errno is not None:
        return os.strerror(e.errno)
    return str(e)


def kind_of(mode: int) -> str:
    """What something is that is no regular file, by the mode of its status."""
    for test, what in (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISBLK, "a block device"),
        (stat.S_ISCHR, "a device"),
    ):
        if test(mode):
            return what
    return "something else"
