"""The source that the user named: a file, or a folder with everything below it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import IO, Any, TypeVar

from odm import inputs
from odm.files import marker
from odm.files.opening import (
    GIVE_A_PATH,
    HEAD,
    MAX_SIZE,
    NOT_TEXT,
    UNREADABLE,
    Unreadable,
    as_utf8,
    describe_error,
    find_binary_kind,
    is_utf8,
    list_entries,
    name_file_kind,
    open_binary,
    read_bytes,
    read_head,
    recognise_encoding,
    split_archive_path,
    strip_gz,
)
from odm.issues import Code, Log, PathError, Trusted, first_few, hint, plural, printable, spell
from odm.names import BAD_NAME, PICTURE_SUFFIXES, SIZES_FILE, refuse_name

T = TypeVar("T")

LEADS_OUTSIDE = Code(
    "link-outside",
    "error",
    "the link points outside the source, to {target!r}",
    "give the real folder on the command line, or use --follow-links",
    "A symbolic link in the source points to a location outside it. A dataset from the internet could use "
    "one to read other files of this machine.",
    file=True,
)


class Source:
    """The source that the user named: a file, or a folder with everything below it.

    ``files`` are the relative paths of all that is not a folder, ``/``-separated, in code-point order, so
    nothing depends on the order in which the file system lists them. Names that begin with a dot and
    ``__MACOSX`` folders are not looked at and counted in ``hidden``. For a single file the list is ``[""]``.

    What detection finds out is kept, so that reading does not look again: see `once`.
    """

    encoding = ""
    """That of the text files, where the user named it. All that is read is UTF-8: see `opening`."""
    _recognised = ("", "")
    """The recognised encoding of the files that are not UTF-8, and the path of the first of them."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        follow_links: bool = False,
        max_size: int = MAX_SIZE,
        encoding: str = "",
    ) -> None:
        """Look at the path, but list nothing yet. Raises PathError if it is no file or folder."""
        path = os.fspath(path)
        self._set_up(path, follow_links=follow_links, max_size=max_size, encoding=encoding)
        if path == "-":
            raise PathError(f"-: cannot read from standard input; {GIVE_A_PATH}")
        marker.refuse_incomplete(path)
        self._archive = split_archive_path(path)
        """The ZIP archive that the source is or lies in, and its name in it; None on a disk."""
        if self._archive is not None:
            archive, name = self._archive
            try:
                inputs.opened(archive, os.stat(archive))
                names = list_entries(archive)
            except (Unreadable, OSError) as e:
                raise PathError(f"{printable(archive)}: {printable(describe_error(e))}") from None
            self.is_dir = name not in names
            if self.is_dir and name and not any(entry.startswith(f"{name}/") for entry in names):
                raise PathError(f"{printable(path)}: there is no such file or folder in the archive")
            return
        try:
            status = os.stat(path)
        except (OSError, ValueError) as e:
            suggestion = ""
            if isinstance(e, FileNotFoundError):
                folder, name = os.path.split(path.rstrip("/\\"))
                with contextlib.suppress(OSError, ValueError):
                    neighbours = {*os.listdir(folder or ".")} - {name}  # a broken link has this very name
                    suggestion = hint(name, sorted(neighbours))
            raise PathError(f"{printable(path)}: {describe_error(e)}{suggestion}") from None
        self.is_dir = stat.S_ISDIR(status.st_mode)
        if not self.is_dir and not stat.S_ISREG(status.st_mode):
            raise PathError(
                f"{printable(path)}: it is {name_file_kind(status.st_mode)}, not a file or a folder"
            )

    def _set_up(self, path: str, *, follow_links: bool, max_size: int, encoding: str) -> None:
        """Set the attributes that every kind of source has."""
        self.path = path
        self._prefix = os.path.join(path, "")
        self.encoding = encoding
        self.follow_links = follow_links
        self.max_size = max_size
        self.hidden: list[str] = []
        self.bad_links: list[tuple[str, str, bool]] = []
        """Links that are not followed: relative path, target or reason, and whether they lead outside."""
        self.picture_links: dict[str, str] = {}
        """Links to pictures, or to folders of them, outside the source, by relative path, and their targets.
        They are not opened, and no fault."""
        self.left_out: set[str] = set()
        """Paths of the files that were left out."""
        self.inner: NamedSource | None = None
        """The files that this one names, if it is a file that names others."""
        self._results: dict[tuple[object, ...], Any] = {}
        self._files: list[str] | None = None
        self._size_files: list[str] = []
        self._has_links = False
        self._real_folders: dict[str, str] = {}
        """The real paths of the folders to which links lead."""

    @property
    def files(self) -> list[str]:
        """Relative paths of all files but `sizes`, in code-point order; ``[""]`` for a single file."""
        if self._files is None:
            paths = sorted(self._walk()) if self.is_dir else [""]
            self._size_files = [file for file in paths if file.rsplit("/", 1)[-1] == SIZES_FILE]
            self._files = (
                [file for file in paths if file not in self._size_files] if self._size_files else paths
            )
        return self._files

    @property
    def sizes(self) -> list[str]:
        """The files beside links to pictures that give the sizes of images, as one in each split."""
        self.files  # noqa: B018 -- the walk finds them
        return self._size_files

    def with_suffix(self, *suffixes: str) -> list[str]:
        """Return the files whose name ends with one of `suffixes`, in any letter case; ``.gz`` is ignored."""
        return [f for f in self.files if strip_gz(f or self.path).lower().endswith(suffixes)]

    def holds(self, file: str) -> bool:
        """Whether a path is one of `files`."""
        return file in self.once(_make_file_set)

    def below(self, folder: str) -> list[str]:
        """Return the `files` below a folder; with ``""``, all."""
        return [f for f in self.files if f.startswith(f"{folder}/")] if folder else self.files

    def part(self, folder: str) -> Source:
        """Return the files below a folder, given by its full path, as a source of their own.

        The listing of this source is reused if that of the folder cannot differ from it.
        """
        folder_source = Source(folder, follow_links=self.follow_links, max_size=self.max_size)
        is_listed = type(self) is Source and self._files is not None and self._archive is None
        # A link may lead out of the folder and stay in this source, so that only here it is followed.
        if is_listed and not self.bad_links and (self.follow_links or not self._has_links):
            relative = folder.removeprefix(self._prefix).rstrip("/")
            files = self.below(relative) if relative != folder else []  # equal: no prefix, it lies elsewhere
            if files:
                folder_source._files = [file[len(relative) + 1 :] for file in files]
                folder_source.picture_links = {
                    file[len(relative) + 1 :]: target
                    for file, target in self.picture_links.items()
                    if file.startswith(f"{relative}/")
                }
        return folder_source

    def leave_out(self, files: Collection[str]) -> None:
        """Hide some of the files of this source, or of the links in it that are not followed."""
        self.left_out |= {self.full(file) for file in files}
        self._files = [file for file in self.files if file not in files]
        self.bad_links = [link for link in self.bad_links if link[0] not in files]  # link[0]: its path
        self.forget()

    def once(self, find: Callable[..., T], *args: Any) -> T:
        """Return ``find(self, *args)``, computed at the first call and kept until files are left out.

        For results that both detection and reading need; `args` are hashable.
        """
        key = (find, *args)
        if key not in self._results:
            self._results[key] = find(self, *args)
        result: T = self._results[key]
        return result

    def forget(self) -> None:
        """Drop the results that `once` keeps."""
        self._results.clear()
        if self.inner is not None:
            self.inner.forget()

    def full(self, file: str = "") -> str:
        """Return the path of one of `files`, as it is opened and shown."""
        if not file:
            return self.path
        if os.sep == "/" and file[0] != "/" and "//" not in file:
            return self._prefix + file  # the path of the last line, in a fifth of the time
        return os.path.join(self.path, *file.split("/"))

    def relative(self, file: str = "") -> str:
        """Return the path of one of `files` below the source, without ``.gz``; of a single file its name."""
        return strip_gz(file or self.path.replace("\\", "/").rpartition("/")[2])

    def read(self, file: str, log: Log) -> bytes | None:
        """Return the content of one of `files`; None, and an issue in the log, if it cannot be read."""
        path = self.full(file)
        if file and (reason := self._check_name(file)) is not None:
            log.report(BAD_NAME, path, value=file, reason=reason)
            return None
        try:
            data = self._read_content(file)
        except Unreadable as e:
            log.report(UNREADABLE, path, reason=str(e))
            return None
        if kind := find_binary_kind(data):
            log.report(NOT_TEXT, path, value=Trusted(kind))
            return None
        return self.to_utf8(data, path, log)

    def _check_name(self, file: str) -> str | None:
        """Return why a file name cannot be the name of an image, None if it can."""
        if file.isascii() and file.isprintable():
            return None
        undecoded = any("\udc80" <= c <= "\udcff" for c in file)
        return "it is not UTF-8" if undecoded else refuse_name(file)

    def _read_content(self, file: str) -> bytes:
        return read_bytes(self.full(file), max_size=self.max_size)

    def to_utf8(self, data: bytes, path: str, log: Log) -> bytes | None:
        """Return a text as UTF-8, or unchanged if its encoding is unclear.

        If it is not in the encoding that the user named, returns None and reports an issue. Else the first
        encoding that is recognised is that of all files of the source; the log takes a note on it.
        """
        if self.encoding:
            try:
                return as_utf8(data, self.encoding)
            except UnicodeError as e:
                line = data.count(b"\n", 0, getattr(e, "start", 0)) + 1
                log.report(UNREADABLE, path, reason=f"line {line} is not in {self.encoding} (--encoding)")
                return None
        if is_utf8(data):
            return data
        name, readings = recognise_encoding(data)
        earlier, first_path = self._recognised
        if name and earlier in ("", name):
            try:
                text = as_utf8(data, name)
            except UnicodeDecodeError:  # after the pieces by which it was recognised
                return data
            self._recognised = name, first_path or path
            log.note(f"{printable(first_path or path)}: not UTF-8, read as {name} ({spell('encoding')} NAME)")
            return text
        if readings:
            shown = first_few([f"{n} ({printable(words)})" for n, words in readings.items()], 5)
            log.note(f"{printable(path)}: not UTF-8; it may be {shown} ({spell('encoding')} NAME)")
        return data

    def open(self, file: str = "") -> IO[bytes]:
        """Open one of `files` for a library that reads parts of it.

        Raises `Unreadable` if it cannot be opened.
        """
        return open_binary(self.full(file), max_size=self.max_size)

    def open_text(self, file: str, log: Log) -> IO[bytes]:
        """Open one of `files` as a stream of UTF-8.

        It is read into memory if it does not begin with UTF-8; the stream is empty if it cannot be read.
        """
        stream = self.open(file)
        if not self.encoding and is_utf8(stream.read(_BEGINNING), is_cut=True):
            stream.seek(0)
            return stream
        stream.close()
        return io.BytesIO(self.read(file, log) or b"")

    def size(self, file: str = "") -> int:
        """Return the size of one of `files` in bytes, 0 if unknown."""
        if self._archive is not None:
            archive, folder = self._archive
            info = list_entries(archive).get(f"{folder}/{file}".strip("/"))
            return info.file_size if info else 0
        try:
            return os.stat(self.full(file)).st_size
        except OSError:
            return 0

    def peek(self, file: str = "") -> bytes:
        """Return the first `HEAD` bytes of one of `files`, as UTF-8.

        Raises `Unreadable`, with the reason, if the file cannot be read.
        """
        return self._decode_head(read_head(self.full(file)))

    def _decode_head(self, head: bytes) -> bytes:
        """Return the beginning of a text as UTF-8, or unchanged if its encoding is unclear."""
        is_cut = len(head) >= HEAD
        if not self.encoding and is_utf8(head, is_cut=is_cut):
            return head
        recognised, _ = ("", {}) if self.encoding else recognise_encoding(head, is_cut=is_cut)
        name = self.encoding or recognised
        try:
            return as_utf8(head, name, is_cut=is_cut) if name else head
        except UnicodeError:
            return head

    def head(self, file: str = "") -> bytes:
        """Return the first bytes as `peek` does, empty where they cannot be read."""
        try:
            return self.peek(file)
        except Unreadable:
            return b""

    def is_linked(self, path: str) -> bool:
        """Return whether a path inside the source leads outside it through a link that is not followed."""
        may_have_links = self.is_dir and self._archive is None and not self.follow_links
        if not may_have_links or not inputs.is_within(path, self.path):
            return False
        return not inputs.is_within(os.path.realpath(path), os.path.realpath(self.path))

    def report_links(self, log: Log) -> None:
        """Report the links that are not followed."""
        self.files  # noqa: B018 -- the walk finds them
        for file, target, leads_outside in self.bad_links:
            if leads_outside:
                log.report(LEADS_OUTSIDE, self.full(file), target=target)
            else:
                log.report(UNREADABLE, self.full(file), reason=target)

    def note_links(self, log: Log) -> None:
        """Note how many links of a folder lead outside it and are not followed."""
        n = len(self.picture_links) + sum(leads_outside for _, _, leads_outside in self.bad_links)
        if n:
            links = plural(n, "link leads", "links lead")
            log.note(f"{printable(self.path)}: {links} outside it, not followed ({spell('follow_links')})")

    def _walk(self) -> Iterator[str]:
        """Yield the relative paths of all files that are not hidden, in any order."""
        if self._archive is None:
            return self._walk_below("", deep=True)
        archive, folder = self._archive
        entries = (e for e in list_entries(archive) if not folder or e.startswith(f"{folder}/"))
        return self._drop_hidden(entry[len(folder) :].lstrip("/") for entry in entries)

    def _drop_hidden(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the names that are not hidden, and keep the others in `hidden`."""
        for name in names:
            if any(component.startswith(".") or component == "__MACOSX" for component in name.split("/")):
                self.hidden.append(name)
            else:
                yield name

    def _scan_folder(self, name: str, folder: str, *, must_exist: bool) -> list[os.DirEntry[str]]:
        """Return the entries of a folder, sorted by name.

        If it cannot be listed, none, and the reason is kept in `bad_links` under its relative `name`; for the
        source itself, whose name is empty, PathError is raised if it `must_exist`.
        """
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda e: e.name)
        except OSError as e:
            if not name and must_exist:
                raise PathError(f"{printable(self.path)}: {describe_error(e)}") from None
            self.bad_links.append((name, describe_error(e), False))
            return []

    def _walk_below(self, start: str, *, deep: bool) -> Iterator[str]:
        """Yield the relative paths of the files in `start`, a folder of the source, and, if `deep`, below it.

        Hidden names and links that are not followed are kept in `hidden`, `bad_links` and `picture_links`.
        Raises PathError if the source itself cannot be listed.
        """
        start_path = self.full(start)
        # Links may lead to what is below this folder.
        root = os.path.realpath(start_path if os.path.isabs(start) else self.path)
        # Of each folder: its relative path, its path, the real paths of the start and of links on the way.
        pending = [(start, start_path, frozenset((os.path.realpath(start_path),)))]
        n_links_left = _NESTED_LINKS
        while pending:
            folder_name, folder, linked_folders = pending.pop()
            is_below_link = len(linked_folders) > 1
            # Not `deep` is a look beside a file that names others, where nothing need be found.
            for entry in self._scan_folder(folder_name, folder, must_exist=deep):
                name = f"{folder_name}/{entry.name}" if folder_name else entry.name
                if entry.name.startswith(".") or entry.name == "__MACOSX":
                    if entry.name == marker.INCOMPLETE:
                        marker.refuse_incomplete(folder)
                    self.hidden.append(name)
                    continue
                if not entry.is_symlink():
                    if not entry.is_dir():
                        yield name
                    elif name.lower().endswith(_TEXT_SUFFIXES):
                        self.bad_links.append((name, "it is a folder, not a regular file", False))
                    elif deep:
                        pending.append((name, entry.path, linked_folders))
                    continue

                self._has_links = True
                if not deep and entry.is_dir():
                    continue
                target, is_folder = self._follow(name, entry.path, root)
                if not target:  # `_follow` has kept it; a link to a picture is listed all the same
                    if name in self.picture_links and name.lower().endswith(tuple(PICTURE_SUFFIXES)):
                        yield name
                elif not is_folder:
                    yield name
                elif target in linked_folders or inputs.is_within(os.path.realpath(folder), target):
                    self.bad_links.append((name, "the link points to a folder above it", False))
                elif is_below_link and not n_links_left:
                    self.bad_links.append((name, "too many nested links", False))
                elif deep:
                    # The folders entered by links are kept, so that a loop over several of them ends; the
                    # budget ends what is no loop but grows like one.
                    n_links_left -= is_below_link
                    pending.append((name, entry.path, linked_folders | {target}))

    def _resolve(self, link: str) -> tuple[str, bool]:
        """Return the real path of a link, and whether it is a folder. Raises OSError if it leads nowhere.

        The folder of a target is resolved once for all links into it.
        """
        folder, name = os.path.split(os.path.join(inputs.folder_of(link), os.readlink(link)))
        if name not in ("", ".", ".."):
            if folder not in self._real_folders:
                self._real_folders[folder] = os.path.realpath(folder, strict=True)
            target = os.path.join(self._real_folders[folder], name)
            mode = os.lstat(target).st_mode
            if not stat.S_ISLNK(mode):
                return target, stat.S_ISDIR(mode)
        target = os.path.realpath(link, strict=True)
        return target, os.path.isdir(target)

    def _follow(self, name: str, path: str, root: str) -> tuple[str, bool]:
        """Return the target of a link, and whether it is a folder; an empty path if it may not be followed.

        Links that lead nowhere, or out of `root` against `follow_links`, are kept in `picture_links` or
        `bad_links`.
        """
        lower_name = name.lower()
        try:
            target, is_folder = self._resolve(path)
        except OSError as e:
            if lower_name.endswith(tuple(PICTURE_SUFFIXES)):  # a picture may be absent
                self.picture_links[name] = os.path.realpath(path)
            else:
                self.bad_links.append((name, describe_error(e), False))
            return "", False
        if self.follow_links or inputs.is_within(target, root):
            return target, is_folder
        last_name = lower_name.rpartition("/")[2]
        is_picture_folder = is_folder and last_name in _PICTURE_FOLDERS
        if is_picture_folder or (not is_folder and last_name.endswith(tuple(PICTURE_SUFFIXES))):
            self.picture_links[name] = target
        else:
            self.bad_links.append((name, target, True))
        return "", False


class NamedSource(Source):
    """The files that a file named by the user refers to, wherever they lie.

    Only the folders that a reader names are listed. ``files`` are relative to the folder of that file, or
    absolute if they are outside it; outside, only text files and pictures are listed.
    """

    def __init__(self, file: Source) -> None:
        """Start with no files, beside the file `file` that names others."""
        folder, self.name = os.path.split(file.path)
        super().__init__(
            folder or ".",
            follow_links=file.follow_links,
            max_size=file.max_size,
            encoding=file.encoding,
        )
        file.inner = self
        self._files = []
        sizes = self.full(SIZES_FILE)
        self._size_files = [SIZES_FILE] if os.path.isfile(sizes) and not self.is_linked(sizes) else []
        self._listed_folders: dict[str, bool] = {}
        """The folders that were listed, and whether the folders below each were too."""

    def named(self, path: str) -> str:
        """Return a path in the form that it has in `files`."""
        path, top = os.path.abspath(path), os.path.abspath(self.path)
        path = os.path.relpath(path, top) if inputs.is_within(path, top) else path
        return "" if path == "." else path.replace(os.sep, "/")

    def full(self, file: str = "") -> str:
        """The path of one of `files`, as it is opened and shown."""
        if file[:1] != "/" and (os.sep == "/" or not os.path.isabs(file)):
            return super().full(file)
        return file.replace("/", os.sep)

    def holds(self, file: str) -> bool:
        """Whether a file exists, after listing its folder."""
        folder = file.rpartition("/")[0]
        if folder not in self._listed_folders:
            self._list_folder(folder, deep=False)
        return super().holds(file)

    def below(self, folder: str) -> list[str]:
        """Return the files below a folder, after listing it."""
        self._list_folder(folder, deep=True)
        return super().below(folder)

    def _list_folder(self, folder: str, *, deep: bool) -> None:
        """Add the files of a folder and, if `deep`, of those below it to `files`, unless it was listed."""
        if self._listed_folders.get(folder) or (folder in self._listed_folders and not deep):
            return
        self._listed_folders[folder] = deep
        path, is_outside = self.full(folder), os.path.isabs(folder)
        if not os.path.isdir(path):
            return
        if folder and self.is_linked(path):  # keep the link for `report_links`, and list nothing
            self._follow(folder, path, os.path.realpath(self.path))
            return
        files_here = set(self._walk_below(folder, deep=deep))
        if is_outside:
            files_here = {f for f in files_here if f.lower().endswith((".txt", *PICTURE_SUFFIXES))}
        known_files = self.once(_make_file_set)
        if new_files := {f for f in files_here - known_files if self.full(f) not in self.left_out}:
            self._files = sorted(known_files | new_files)
            self.forget()


class InMemory(str):  # noqa: SLOT000 -- a text has no slots for more
    """Content that stands in for a JSON file: a path that only `MemorySource` opens."""

    content: bytes

    @classmethod
    def from_values(cls, name: str, values: Any) -> InMemory:
        """Write dictionaries and lists as JSON, as a program that saves them would.

        Raises ValueError if they contain themselves, or have keys that JSON cannot hold.
        """
        json_file = cls(name)
        try:
            json_file.content = json.dumps(values, default=_to_plain_value).encode()
        except (TypeError, RecursionError) as e:
            raise ValueError(f"{name} cannot be written as JSON: {e}") from None
        return json_file


def _to_plain_value(value: Any) -> Any:
    """Return a value that JSON can hold: a list of an array, text of bytes and others."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


class MemorySource(Source):
    """A single file whose content is in memory."""

    def __init__(self, text: InMemory) -> None:
        self._set_up(text, follow_links=False, max_size=MAX_SIZE, encoding="")
        self._archive, self.is_dir, self._text = None, False, text.content

    def open(self, file: str = "") -> IO[bytes]:
        """Return the content as a stream."""
        del file
        return io.BytesIO(self._text)

    def _read_content(self, file: str) -> bytes:
        return self.open(file).read()

    def size(self, file: str = "") -> int:
        """Return the size of the content in bytes."""
        return len(self._read_content(file))

    def peek(self, file: str = "") -> bytes:
        """Return the first `HEAD` bytes of the content."""
        return self._read_content(file)[:HEAD]


def _make_file_set(source: Source) -> frozenset[str]:
    return frozenset(source.files)


_TEXT_SUFFIXES = (".txt", ".xml", ".json", ".csv", ".tsv", ".yaml", ".yml")
"""Never the name of a folder; if one has it, it replaces a file that should be read."""

_BEGINNING = 2**20
_PICTURE_FOLDERS = frozenset({"images", "jpegimages"})
_NESTED_LINKS = 1000
"""How many links below links a walk enters; a few folders full of links to each other have no end."""
