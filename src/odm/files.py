"""The only door to the disk: one way to open a file, one way to accept a name, one output.

Nothing else in the package opens, creates, renames or removes anything; a lint rule and a test say so.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import IO, Any, NoReturn, Self, TypeVar

from odm import inputs
from odm.issues import Code, Log, PathError, Trusted, hint, printable, shorten

T = TypeVar("T")

MAX_SIZE = 64 * 2**30
"""Bytes; a larger file is refused. Real annotation files exceed 2 GB."""

HEAD = 64 * 2**10
"""How many first bytes a sniffer may look at."""

UNREADABLE = Code(
    "unreadable-file",
    "error",
    "the file cannot be read: {reason}",
    "check that it is there, is a regular file and may be read",
    "A file inside the data set could not be opened or read to its end, so what it holds is unknown.",
    file=True,
)
NOT_TEXT = Code(
    "not-text",
    "error",
    "expected text, found {value}",
    "unpack it if it is an archive, or name the file that holds the annotations",
    "The file begins like an archive, a picture or another kind of file without text. Nothing is unpacked, "
    "so what it holds is unknown.",
    file=True,
)
LEADS_OUTSIDE = Code(
    "link-outside",
    "error",
    "the link leads outside the source, to {target!r}",
    "name the real folder on the command line, or give --follow-links",
    "A symbolic link inside the source points to a place outside it. A data set from the internet could "
    "use one to have other files of this machine read.",
    file=True,
)
BAD_NAME = Code(
    "bad-name",
    "error",
    "{value!r} cannot be the name of a file: {reason}",
    "use a relative path without '..'",
    "A name inside the data is used to find or to write a file. Names that lead elsewhere or that no file "
    "can have are refused.",
    file=True,
)
COLLISION = Code(
    "name-collision",
    "error",
    "{first!r} and {second!r} would both be written to {value!r}",
    "rename one of the two images",
    "Two images would be written to the same file, and the second would overwrite the first.",
)
HIDDEN_NAME = Code(
    "hidden-name",
    "error",
    "{value!r} would be written for {owner!r}, and hidden files are not read",
    "rename the image so that no part of its name begins with a dot",
    "Files whose name begins with a dot, or that lie in a folder of such a name, are left out where a folder "
    "is read, by odm as by most programs, so what is written there would be lost.",
)
CASE_COLLISION = Code(
    "case-collision",
    "warning",
    "{first!r} and {second!r} differ only by letter case or Unicode form",
    "rename one of them",
    "On Windows and macOS the two names mean one file, so the second would replace the first there.",
)
DEVICE_NAME = Code(
    "device-name",
    "warning",
    "{value!r} is not a usable file name on Windows",
    "rename it",
    "Windows reserves names such as CON or NUL, forbids some characters, and strips dots and blanks at the "
    "end.",
)

PICTURE_SUFFIXES = frozenset(
    ".jpg .jpeg .jpe .jfif .png .bmp .gif .webp .tif .tiff .mpo .avif .heic .heif .jp2 .ppm .pgm .dng".split()
)
"""Lower-case extensions that are not part of an image's stem."""

BOM = "\ufeff"
"""A byte order mark; readers drop it at the beginning of a file, so it cannot begin a name."""
MAX_DEPTH = 100
"""How many parts a name from the data may have."""

_RESERVED = frozenset(
    [
        "CON",
        "PRN",
        "AUX",
        "NUL",
        "CONIN$",
        "CONOUT$",
        *(f"{p}{i}" for p in ("COM", "LPT") for i in range(1, 10)),
    ]
)
_USUAL_NAME = re.compile(
    r"(?:(?!(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:[./]|\Z))[\w-]+(?:\.[\w-]+)*(?:/(?!\Z)|\Z))+", re.ASCII
)
_FLAGS = os.O_RDONLY
for _flag in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"):
    _FLAGS |= getattr(os, _flag, 0)


class Unreadable(Exception):
    """A file could not be read; the text says why."""


# ---------------------------------------------------------------------------------------------- reading


def _open(path: str, max_size: int) -> tuple[int, int]:
    """An open descriptor of a regular file and its size; Unreadable if it is anything else."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as e:
        if e.errno == errno.ENXIO:
            raise Unreadable("it is a socket or a device, not a regular file") from None
        raise Unreadable(_reason(e)) from None
    except ValueError:
        raise Unreadable("its name holds a NUL") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"it is {_what(status.st_mode)}, not a regular file")
        if status.st_size > max_size:
            raise Unreadable(f"it has {status.st_size} bytes, the limit is {max_size} (--max-size)")
    except BaseException:
        os.close(descriptor)
        raise
    inputs.opened(path, status)
    return descriptor, status.st_size


def read_bytes(path: str, *, max_size: int = MAX_SIZE) -> bytes:
    """The whole content of a regular file. `Unreadable` says why it cannot be had."""
    descriptor, size = _open(path, max_size)
    try:
        if size > 2**20:  # a hole of gigabytes is refused before it is read
            refuse_nuls(os.read(descriptor, 4096))
            os.lseek(descriptor, 0, os.SEEK_SET)
        data = os.read(descriptor, min(size + 1, 2**30))  # one more, so that a file that grows is noticed
        if len(data) != size or size >= 2**30:
            data = _read_rest(descriptor, data, size)
    except OSError as e:
        raise Unreadable(_reason(e)) from None
    except (MemoryError, OverflowError):
        raise Unreadable(f"its {size} bytes do not fit into memory") from None
    finally:
        os.close(descriptor)
    if len(data) != size:
        raise Unreadable("it changed while it was read")
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
        raise Unreadable("it begins with 4096 NUL bytes, so its content was lost or is not text")


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
    """The first `n` bytes of a regular file, fewer if it is shorter. `Unreadable` says why not."""
    descriptor, _ = _open(path, 2**63)
    try:
        head = b""
        while len(head) < n and (part := os.read(descriptor, n - len(head))):
            head += part
    except OSError as e:
        raise Unreadable(_reason(e)) from None
    finally:
        os.close(descriptor)
    return head


def open_binary(path: str, *, max_size: int = MAX_SIZE) -> IO[bytes]:
    """A regular file, open for reading, for a library that reads only what it needs. `Unreadable` if not."""
    descriptor, _ = _open(path, max_size)
    return os.fdopen(descriptor, "rb")


class Source:
    """What the user named for reading: a file, or a folder with everything below it.

    ``files`` are the relative paths of all that is not a folder, ``/``-separated, in code-point order, so
    nothing depends on the order in which the file system lists them. Names that begin with a dot and
    ``__MACOSX`` folders are not looked at and counted in ``hidden``. For a single file the list is ``[""]``.

    What detection finds out is kept, so that reading does not look again: see `once`.
    """

    def __init__(self, path: str, *, follow_links: bool = False, max_size: int = MAX_SIZE) -> None:
        self.path = path
        self.follow_links = follow_links
        self.max_size = max_size
        self.hidden: list[str] = []
        self.bad_links: list[tuple[str, str, bool]] = []
        """Links that are not followed: relative path, where they lead, whether that is a place outside."""
        self.picture_links: dict[str, str] = {}
        """Links to pictures, or to a folder of them, outside the source: relative path, where they lead.
        They are no fault, for data sets are made so, and they are not opened."""
        self.left_out: set[str] = set()
        """Paths of the files that were left out."""
        self._found: dict[tuple[object, ...], Any] = {}
        self._files: list[str] | None = None
        if path == "-":
            raise PathError(f"-: the standard input cannot be read here; {_A_PATH}")
        try:
            status = os.stat(path)
        except (OSError, ValueError) as e:
            near = _nearest(path) if isinstance(e, FileNotFoundError) else ""
            raise PathError(f"{printable(path)}: {_reason(e)}{near}") from None
        self.is_dir = stat.S_ISDIR(status.st_mode)
        if not self.is_dir and not stat.S_ISREG(status.st_mode):
            raise PathError(f"{printable(path)}: it is {_what(status.st_mode)}, not a file or a folder")

    @property
    def files(self) -> list[str]:
        """Relative paths of all files, in code-point order; ``[""]`` for a single file."""
        if self._files is None:
            self._files = sorted(self._walk()) if self.is_dir else [""]
        return self._files

    def with_suffix(self, *suffixes: str) -> list[str]:
        """The files whose name ends so, in any letter case."""
        return [f for f in self.files if (f or self.path).lower().endswith(suffixes)]

    def leave_out(self, files: Collection[str]) -> None:
        """Take some of `files`, and links that are not followed, as if they were not there."""
        self.left_out |= {self.full(file) for file in files}
        self._files = [file for file in self.files if file not in files]
        self.bad_links = [link for link in self.bad_links if link[0] not in files]
        self.forget()

    def once(self, find: Callable[..., T], *args: Any) -> T:
        """``find(self, *args)``, worked out the first time and kept until files are left out.

        For what detection and reading both ask; `args` are hashable.
        """
        key = (find, *args)
        if key not in self._found:
            self._found[key] = find(self, *args)
        found: T = self._found[key]
        return found

    def forget(self) -> None:
        """Let go of what was found out."""
        self._found.clear()

    def full(self, file: str = "") -> str:
        """The path of one of `files`, as it is opened and shown."""
        return os.path.join(self.path, *file.split("/")) if file else self.path

    def read(self, file: str, log: Log) -> bytes | None:
        """The content of one of `files`; None, and an issue in the log, where it cannot be had."""
        path = self.full(file)
        if file and not (file.isascii() and file.isprintable()):
            # The stem becomes the name of an image, which every output must be able to hold.
            reason = "it is not UTF-8" if _is_escaped(file) else refuse_name(file)
            if reason is not None:
                log.report(BAD_NAME, path, value=file, reason=reason)
                return None
        try:
            data = read_bytes(path, max_size=self.max_size)
        except Unreadable as e:
            log.report(UNREADABLE, path, reason=str(e))
            return None
        if what := other_kind(data):
            log.report(NOT_TEXT, path, value=Trusted(what))
            return None
        return data

    def head(self, file: str = "") -> bytes:
        """The first bytes of one of `files`, empty where it cannot be read."""
        try:
            return read_head(self.full(file))
        except Unreadable:
            return b""

    def is_linked(self, path: str) -> bool:
        """Whether a path that begins with the source's own leads outside it by a link not followed."""
        top = self.path.rstrip(os.sep) + os.sep
        if self.follow_links or not self.is_dir or not (path + os.sep).startswith(top):
            return False
        root = os.path.realpath(self.path)
        return not (os.path.realpath(path) + os.sep).startswith(root.rstrip(os.sep) + os.sep)

    def report_links(self, log: Log) -> None:
        """Report the links that are not followed."""
        self.files  # noqa: B018 -- the walk finds them
        for file, target, outside in self.bad_links:
            if outside:
                log.report(LEADS_OUTSIDE, self.full(file), target=target)
            else:
                log.report(UNREADABLE, self.full(file), reason=target)

    def _walk(self) -> Iterator[str]:
        root = os.path.realpath(self.path)
        pending = [("", self.path, frozenset((root,)))]
        budget = _NESTED_LINKS
        while pending:
            relative, folder, above = pending.pop()
            try:
                with os.scandir(folder) as entries:
                    listed = sorted(entries, key=lambda e: e.name)
            except OSError as e:
                if not relative:
                    raise PathError(f"{printable(self.path)}: {_reason(e)}") from None
                self.bad_links.append((relative, _reason(e), False))
                continue
            for entry in listed:
                name = f"{relative}/{entry.name}" if relative else entry.name
                if entry.name.startswith(".") or entry.name == "__MACOSX":
                    self.hidden.append(name)
                    continue
                if not entry.is_symlink():
                    if not entry.is_dir():
                        yield name
                    elif name.lower().endswith(_TEXT_SUFFIXES):
                        self.bad_links.append((name, "it is a folder, not a regular file", False))
                    else:
                        pending.append((name, entry.path, above))
                elif not self._may_follow(name, entry.path, root):
                    if name in self.picture_links and name.lower().endswith(tuple(PICTURE_SUFFIXES)):
                        yield name
                elif not os.path.isdir(entry.path):
                    yield name
                elif (real := os.path.realpath(entry.path)) in above or _holds(real, folder):
                    self.bad_links.append((name, "the link leads to a folder above it", False))
                elif len(above) > 1 and not budget:
                    self.bad_links.append((name, "too many links lie below links", False))
                else:
                    # The folders entered by links are kept, so that a loop over several of them ends; the
                    # budget ends what is no loop but grows like one.
                    budget -= len(above) > 1
                    pending.append((name, entry.path, above | {real}))

    def _may_follow(self, name: str, path: str, root: str) -> bool:
        low = name.lower()
        try:
            real = os.path.realpath(path, strict=True)
        except OSError as e:
            if low.endswith(tuple(PICTURE_SUFFIXES)):
                self.picture_links[name] = os.path.realpath(path)
            else:
                self.bad_links.append((name, _reason(e), False))
            return False
        if self.follow_links or real == root or real.startswith(root.rstrip(os.sep) + os.sep):
            return True
        is_folder = os.path.isdir(real)
        word = low.rpartition("/")[2]
        if word in _PICTURE_FOLDERS if is_folder else word.endswith(tuple(PICTURE_SUFFIXES)):
            self.picture_links[name] = real
        else:
            self.bad_links.append((name, real, True))
        return False


_TEXT_SUFFIXES = (".txt", ".xml", ".json", ".csv", ".tsv", ".yaml", ".yml")
"""No folder is called so; one that is stands in the place of a file that something should be read from."""

_PICTURE_FOLDERS = frozenset({"images", "jpegimages"})
_NESTED_LINKS = 1000
"""How many links below links a walk enters; a few folders full of links to each other have no end."""


def _holds(folder: str, inner: str) -> bool:
    return (os.path.realpath(inner) + os.sep).startswith(folder.rstrip(os.sep) + os.sep)


def _is_escaped(name: str) -> bool:
    """Whether a file name holds bytes that the system's encoding could not decode."""
    return any("\udc80" <= c <= "\udcff" for c in name)


_A_PATH = "give a path (./- is a file of this name)"


def _nearest(path: str) -> str:
    """A sentence that names what lies beside a path that is not there, if it is like it."""
    folder, name = os.path.split(path.rstrip("/\\"))
    try:
        beside = sorted(os.listdir(folder or "."))
    except (OSError, ValueError):
        return ""
    return hint(name, beside)


def _reason(e: Exception) -> str:
    if isinstance(e, OSError) and e.errno is not None:
        return os.strerror(e.errno)
    return str(e)


def _what(mode: int) -> str:
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


# ------------------------------------------------------------------------------------------------ names


_NOT_WINDOWS = frozenset('<>:"|?*')


def refuse_name(name: str) -> str | None:
    """Why `name`, a ``/``-separated path from the data, cannot be used to read or write; None if it can."""
    if len(name) < 100 and _USUAL_NAME.fullmatch(name):
        return None  # cheaply
    if not name or not name.strip():
        return "it is empty"
    if "\0" in name:
        return "it holds a NUL"
    if not (name.isascii() and name.isprintable()) and any(
        unicodedata.category(c) == "Cc" or c in "\u2028\u2029" for c in name
    ):
        return "it holds a control character"
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return "it holds a lone surrogate"
    if name.startswith(BOM):
        return "it begins with a byte order mark"
    if name.startswith(("/", "\\")):
        return "it is an absolute path"
    if len(name) > 1 and name[1] == ":" and name[0].isalpha():
        return "it names a drive"
    if "://" in name:
        return "it is a URL"
    parts = name.replace("\\", "/").split("/")
    if ".." in parts:
        return "it leads out of its folder"
    if "" in parts or "." in parts:
        return "a part of it is empty"
    if len(encoded) > 255 and any(len(part.encode()) > 255 for part in parts):
        return "a part of it is longer than 255 bytes"
    if len(encoded) > 4000:
        return "it is longer than 4000 bytes"
    if len(parts) > MAX_DEPTH:
        return f"it has more than {MAX_DEPTH} parts"
    return None


def is_hidden(name: str) -> bool:
    """Whether a file of this relative path is not looked at where a folder is read."""
    return name.startswith((".", "__MACOSX/")) or "/." in name or "/__MACOSX/" in name


def accept_name(name: str, log: Log, path: str, **place: Any) -> bool:
    """Whether a name from the data may be used to read or write; if not, it is reported at that place.

    Every reader asks this of every image name that it takes from inside a file.
    """
    if len(name) < 100 and _USUAL_NAME.fullmatch(name):
        return True  # cheaply
    reason = refuse_name(name)
    if reason is not None:
        log.report(BAD_NAME, path, value=name, reason=reason, **place)
        return False
    for part in name.replace("\\", "/").split("/"):
        first = part.split(".")[0].rstrip(" ").upper()
        if part[-1] in ". " or first in _RESERVED or not _NOT_WINDOWS.isdisjoint(part):
            log.report(DEVICE_NAME, path, value=name, **place)
            break
    return True


# ---------------------------------------------------------------------------------------------- writing


class Output:
    """A file or a folder that appears whole or not at all.

    Everything is written beside the target, made durable by one call and put in place by one rename. With
    `overwrite` and a target that exists, the files are complete beside it first and renamed one by one;
    files that were there and are not written stay, and `stayed` names them.

    Use it as a context manager: leaving it normally commits, an exception leaves the target as it was.

    Parameters
    ----------
    target
        The path that the user named.
    single
        Whether it is one file; then the one name to write is ``""``.
    overwrite
        Whether a target that exists may be replaced.
    sources
        Paths that are read besides the inputs of the run; a target equal to, inside or around one of all
        these is refused.
    dry_run
        Check names and collisions and touch nothing.

    Raises
    ------
    PathError
        If the target cannot be used.
    """

    def __init__(
        self,
        target: str,
        *,
        single: bool = False,
        overwrite: bool = False,
        sources: Sequence[str] = (),
        dry_run: bool = False,
    ) -> None:
        shown = printable(target)
        if not target or "\0" in target:
            raise PathError(f"{shown!r}: not a usable target")
        if target == "-":
            raise PathError(f"-: data cannot be written to the standard output; {_A_PATH}")
        self.target = target
        self.single = single
        self.dry_run = dry_run
        self.written: list[str] = []
        self.stayed: list[str] = []
        self._overwrite = overwrite
        self._folders = {""}
        self._planned: Collection[str] = ()
        self._made: list[str] = []
        self._placed = 0
        self._held = -1
        self._stage = ""
        self._sync_each = single
        self._real = os.path.realpath(target)
        self._old: os.stat_result | None = None
        self._sources = tuple(sources)
        self.check_apart()
        self._exists = self._check(shown)

    # -- before the first write

    def _check(self, shown: str) -> bool:
        """Whether the target holds something already; PathError if it cannot be used."""
        try:
            self._old = os.stat(self._real)
        except FileNotFoundError:
            if os.path.exists(self.target):  # /dev/stdout leads to a pipe, which no path names
                what = _what(os.stat(self.target).st_mode)
                wanted = "a regular file" if self.single else "a folder"
                raise PathError(f"{shown}: the target is {what}, not {wanted}") from None
            self._check_parent(shown)
            return False
        except OSError as e:
            raise PathError(f"{shown}: {_reason(e)}") from None
        mode = self._old.st_mode
        if self.single:
            if not stat.S_ISREG(mode):
                raise PathError(f"{shown}: the target is {_what(mode)}, not a regular file")
            if not self._overwrite:
                raise PathError(f"{shown}: the target exists; give --overwrite to replace it")
        elif not stat.S_ISDIR(mode):
            raise PathError(f"{shown}: the target exists and is not a folder")
        if not os.access(self._real, os.W_OK):
            raise PathError(f"{shown}: the target may not be written to")
        if self.single:
            return True
        try:
            empty = all(map(_STAGE.fullmatch, os.listdir(self._real)))
        except OSError as e:
            raise PathError(f"{shown}: {_reason(e)}") from None
        if not empty and not self._overwrite:
            raise PathError(f"{shown}: the target exists and is not empty; give --overwrite to write into it")
        return not empty

    def _check_parent(self, shown: str) -> None:
        place = self.target
        while place and not os.path.lexists(place):
            place = os.path.dirname(place)
        if place and not os.path.exists(place):
            raise PathError(f"{shown}: {printable(place)} is a link that leads nowhere")
        parent = os.path.dirname(self._real)
        while not os.path.exists(parent):
            parent = os.path.dirname(parent)
        if not os.path.isdir(parent):
            raise PathError(f"{shown}: {printable(parent)} is not a folder")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise PathError(f"{shown}: nothing may be written into {printable(parent)}")

    def check_apart(self) -> None:
        """PathError if the target is, holds or lies in what is read, as far as that is known by now."""
        inputs.refuse(self.target, self._sources)

    def plan(self, names: Sequence[str], owners: Sequence[str], log: Log, path: str = "") -> bool:
        """Whether these files can all be written; if not, every reason is in the log.

        `names` are relative paths, `owners` what each is written for (the image), for the messages.

        Raises
        ------
        PathError
            If something that stands in a target to be overwritten is in the way.
        """
        errors = log.errors
        seen: dict[str, int] = {}
        folded: dict[str, int] = {}
        for i, name in enumerate(names):
            if accept_name(name, log, path) and is_hidden(name):
                log.report(HIDDEN_NAME, path, value=name, owner=owners[i])
            first = seen.setdefault(name, i)
            if first != i:
                log.report(COLLISION, path, first=owners[first], second=owners[i], value=name)
                continue
            key = name if name.isascii() else unicodedata.normalize("NFC", name)
            near = folded.setdefault(key.casefold(), i)
            if near != i:
                log.report(CASE_COLLISION, path, first=owners[near], second=owners[i])
        checked = {""}
        for name in names:
            folder = name.rpartition("/")[0]
            while folder not in checked:
                checked.add(folder)
                if folder in seen:
                    log.report(
                        COLLISION,
                        path,
                        first=owners[seen[folder]],
                        second=f"the folder {folder}",
                        value=folder,
                    )
                    break
                folder = folder.rpartition("/")[0]
        if log.errors != errors:
            return False
        if self._exists and not self.single:
            self._moves(names)
        self._planned = seen
        return True

    # -- writing

    def __enter__(self) -> Self:
        if not self.dry_run:
            try:
                self._begin()
            except BaseException as e:
                self._clean()
                if isinstance(e, OSError):
                    self._fail(e)
                raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.check_apart()  # writing may have opened more
                if not self.dry_run:
                    self._commit()
        except OSError as e:
            self._fail(e)
        finally:
            self._clean()

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write one file; `name` is relative, ``""`` for a single file."""
        self.written.append(name)
        if self.dry_run:
            return
        try:
            descriptor = os.open(self._place(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOEXEC, 0o666)
            try:
                view = memoryview(data).cast("B")
                while view:
                    view = view[os.write(descriptor, view) :]
                if self._sync_each:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as e:
            self._fail(e)

    def link(self, name: str, picture: str) -> None:
        """Put a symbolic link to `picture` into the folder."""
        self.written.append(name)
        with contextlib.suppress(OSError):  # a link that replaces its picture would lead to itself
            inputs.opened(os.path.realpath(picture), os.stat(picture))
        if not self.dry_run:
            try:
                os.symlink(os.path.realpath(picture), self._place(name))
            except OSError as e:
                self._fail(e)

    def copy(self, name: str, picture: str) -> None:
        """Copy `picture` into the folder."""
        if self.dry_run:
            self.written.append(name)
            return
        try:
            data = read_bytes(picture)
        except Unreadable as e:
            raise PathError(f"{printable(picture)}: {e}") from None
        self.write(name, data)

    def _place(self, name: str) -> str:
        if self.single:
            return os.path.join(self._stage, "file")
        # `plan` has told the user; this is the last door.
        if name not in self._planned and refuse_name(name) is not None:
            raise PathError(f"{printable(self.target)}: refusing to write {shorten(name)!r}")
        tree = f"{self._stage}/tree"
        folder = name.rpartition("/")[0]
        if folder not in self._folders:
            made = ""
            for part in folder.split("/"):
                made = f"{made}/{part}" if made else part
                if made not in self._folders:
                    os.mkdir(f"{tree}/{made}")
                    self._folders.add(made)
        return f"{tree}/{name}"

    def _begin(self) -> None:
        parent, name = os.path.split(self._real)
        if not self.single and self._old is not None and self._must_stage_inside(parent):
            self._new_stage(self._real, name)
        else:
            self._make_folders(parent)
            try:
                self._new_stage(parent, name)
            except OSError as e:
                if self.single or self._old is None or e.errno not in _NOT_ALLOWED:
                    raise
                self._new_stage(self._real, name)
        if not self.single:
            os.mkdir(os.path.join(self._stage, "tree"))
            self._sync_each = _syncfs() is None

    def _must_stage_inside(self, parent: str) -> bool:
        """Whether one rename cannot put the tree in the place of the target, which is a folder.

        A mount point cannot be replaced, and an empty working folder should not: the shell that stands in it
        would be left in a folder that is gone.
        """
        assert self._old is not None
        if os.path.ismount(self._real) or os.stat(parent).st_dev != self._old.st_dev:
            return True
        with contextlib.suppress(OSError):
            return not self._exists and os.path.samestat(os.stat(os.getcwd()), self._old)
        return False

    def _make_folders(self, folder: str) -> None:
        missing = []
        while not os.path.exists(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for path in reversed(missing):
            self._made.append(path)
            try:
                os.mkdir(path)
            except FileExistsError:  # another process was faster, and the folder is its own
                self._made.pop()

    def _new_stage(self, parent: str, name: str) -> None:
        """Make a hidden folder in `parent`, and lock it, which tells that its maker lives."""
        _remove_left_overs(parent)
        short = name.encode(errors="ignore")[:80].decode(errors="ignore")
        gone = False
        for _ in range(100):
            self._stage = os.path.join(parent, f".odm-{short}-{os.urandom(6).hex()}.tmp")
            try:
                os.mkdir(self._stage, 0o700)
                held = _hold(self._stage)
            except FileNotFoundError:  # a failing process took the parent that it had made away again
                self._make_folders(parent)
                gone = True
                continue
            if held is not None:
                self._held = held
                return
        if gone:  # /proc and its like say so of every name
            where = printable(parent)
            raise PathError(f"{printable(self.target)}: the system lets no file be made in {where}")
        raise OSError(errno.EAGAIN, "a temporary folder cannot be kept")

    def _commit(self) -> None:
        if self.single:
            self._commit_file()
            return
        tree = os.path.join(self._stage, "tree")
        if not self._sync_each:
            _sync_file_system(tree)
        if self._exists or os.path.dirname(self._stage) == self._real:
            self._merge(tree)
        else:
            if self._old is not None:  # the empty folder that is replaced; its owner and mode stay
                with contextlib.suppress(OSError, AttributeError):
                    os.chown(tree, self._old.st_uid, self._old.st_gid)
                with contextlib.suppress(OSError):
                    os.chmod(tree, stat.S_IMODE(self._old.st_mode))
                if os.name == "nt":
                    os.rmdir(self._real)
            os.rename(tree, self._real)
        self._sync_parents()

    def _commit_file(self) -> None:
        if not self.written:
            return
        made = os.path.join(self._stage, "file")
        try:
            if self._exists:
                os.replace(made, self._real)
            else:
                self._appear(made)
        finally:
            self._sync_parents()

    def _appear(self, made: str) -> None:
        """Put a file into a place that must be free: a rename would silently replace what came meanwhile."""
        try:
            os.link(made, self._real)
        except FileExistsError:
            raise PathError(f"{printable(self.target)}: another program made it meanwhile") from None
        except (OSError, AttributeError, NotImplementedError):  # not every file system has links
            os.rename(made, self._real)

    def _sync_parents(self) -> None:
        for folder in {os.path.dirname(self._real), *map(os.path.dirname, self._made)}:
            _sync_folder(folder)

    def _merge(self, tree: str) -> None:
        for name in self._moves(self.written):
            os.replace(os.path.join(tree, name), os.path.join(self._real, name))
            self._placed += 1
        ours = set(self.written)
        stayed = []
        for folder, folders, names in os.walk(self._real):
            if folder == self._real:
                folders[:] = [f for f in folders if not _STAGE.fullmatch(f)]
            links = [f for f in folders if os.path.islink(os.path.join(folder, f))]
            for n in [*names, *links]:
                name = os.path.relpath(os.path.join(folder, n), self._real).replace(os.sep, "/")
                if name not in ours:
                    stayed.append(name)
        self.stayed = sorted(stayed)

    def _moves(self, names: Sequence[str]) -> list[str]:
        """What is renamed into a target that exists: files, and folders that are new as a whole.

        PathError if something is in the way, so this comes before the first rename.
        """
        moves: dict[str, None] = {}
        there: set[str] = set()
        for name in names:
            parts = name.split("/")
            for i in range(1, len(parts) + 1):
                part = "/".join(parts[:i])
                if part in there:
                    continue
                if part in moves:
                    break
                place = os.path.join(self._real, part)
                try:
                    mode = os.lstat(place).st_mode
                except FileNotFoundError:
                    moves[part] = None
                    break
                if i < len(parts):
                    if not stat.S_ISDIR(mode):
                        raise PathError(f"{printable(place)}: in the way, it is not a folder of the target")
                    there.add(part)
                elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):  # of a link, the link is replaced
                    moves[part] = None
                else:
                    raise PathError(f"{printable(place)}: in the way, it is {_what(mode)}")
        return list(moves)

    def _fail(self, e: OSError) -> NoReturn:
        if isinstance(e, PathError):
            raise e
        shown = printable(self.target)
        if isinstance(e, FileExistsError):
            raise PathError(f"{shown}: two of the files have one name on this file system") from e
        done = "nothing was changed there"
        if self._placed:
            done = f"{self._placed} of the new files and folders are in place, the others are as they were"
        raise PathError(f"{shown}: {_reason(e)}; {done}") from e

    def _clean(self) -> None:
        try:
            if self._stage:
                _remove_stage(self._stage, self._held)
                self._stage = ""
            for folder in reversed(self._made):
                try:
                    os.rmdir(folder)
                except FileNotFoundError:
                    continue
                except OSError:  # not empty: the target is in there
                    break
        finally:
            if self._held >= 0:
                os.close(self._held)
                self._held = -1


_CLOEXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | _CLOEXEC | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
"""How a staging folder is opened: nothing else of its name is, and no link is followed."""
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
_STAGE = re.compile(r"\.odm-.*-[0-9a-f]{12}\.tmp", re.DOTALL)
"""The names of staging folders; nothing else is ever removed."""


def _hold(stage: str, *, left_over: bool = False) -> int | None:
    """A locked descriptor of a staging folder; None if it is another's, -1 where folders have none.

    A new one must be empty. A left-over must belong to the user of this process, be locked for certain, and
    hold nothing but what is put into such a folder.
    """
    if not hasattr(os, "fwalk"):  # Windows: left-overs stay until removed by hand
        return None if left_over else -1
    try:
        descriptor = os.open(stage, _FOLDER)
    except FileNotFoundError:
        return None
    held = False
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
        there = os.path.samestat(status, os.lstat(stage))
        held = there and {*os.listdir(descriptor)} <= ({"file", "tree"} if left_over else set())
    except FileNotFoundError:
        pass
    finally:
        if not held:
            os.close(descriptor)
    return descriptor if held else None


def _remove_left_overs(parent: str) -> None:
    """Remove the staging folders of processes of this user that died."""
    try:
        with os.scandir(parent) as entries:
            stages = [e.path for e in entries if _STAGE.fullmatch(e.name) and e.is_dir(follow_symlinks=False)]
    except OSError:  # a folder may be one to write into and not to list
        return
    for stage in stages:
        try:
            held = _hold(stage, left_over=True)
        except OSError:  # it may not be opened, or is a link by now
            continue
        if held is not None:
            try:
                _remove_stage(stage, held)
            finally:
                os.close(held)


def _remove_stage(stage: str, held: int) -> None:
    """Remove a staging folder that `_hold` answered for; what cannot be removed stays."""
    with contextlib.suppress(OSError, RecursionError):
        if held >= 0:
            _empty(held)
        elif not hasattr(os, "fwalk"):
            _empty_by_path(stage)
        os.rmdir(stage)


def _empty(folder: int) -> None:
    """Remove all that is in an open folder.

    Every step goes from one descriptor to the next, and no link is followed: whoever may write here could
    put a link to somebody's files into the place of a folder while it is emptied.
    """
    for _, folders, names, inner in os.fwalk(".", topdown=False, dir_fd=folder):
        for name in names:
            os.unlink(name, dir_fd=inner)
        for name in folders:
            try:
                os.rmdir(name, dir_fd=inner)
            except NotADirectoryError:  # a link to a folder
                os.unlink(name, dir_fd=inner)


def _empty_by_path(top: str) -> None:
    """The same on Windows, which has no descriptors of folders."""
    for folder, folders, names in os.walk(top, topdown=False):
        for name in names:
            os.unlink(os.path.join(folder, name))
        for name in folders:
            os.rmdir(os.path.join(folder, name))


def _sync_folder(folder: str) -> None:
    """Make a rename in `folder` durable, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | _CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _syncfs() -> Any:
    """The system's call of that name, None where it has none."""
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True).syncfs
    except (ImportError, AttributeError, OSError, TypeError):
        return None


def _sync_file_system(folder: str) -> None:
    """Make everything written below `folder` durable by one call."""
    import ctypes

    descriptor = os.open(folder, os.O_RDONLY | _CLOEXEC)
    try:
        if _syncfs()(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)


def names_entry_point(group: str) -> bool:
    """Whether any installed distribution declares entry points of a group.

    The standard library answers the same, in a quarter of the time that the whole program takes to start.
    """
    wanted = f"[{group}]".encode()
    for folder in sys.path:
        try:
            with os.scandir(folder or ".") as entries:
                found = [e.path for e in entries if e.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for path in found:
            with contextlib.suppress(Unreadable), inputs.not_gathered():
                if wanted in read_bytes(os.path.join(path, "entry_points.txt")):
                    return True
    return False
