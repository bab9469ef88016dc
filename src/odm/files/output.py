"""Write a file or a folder that appears whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import unicodedata
from collections.abc import Collection, Sequence
from typing import NoReturn, Protocol, Self

from odm import inputs
from odm.files import marker, scratch
from odm.files.opening import (
    GIVE_A_PATH,
    Unreadable,
    describe_error,
    name_file_kind,
    open_binary,
    read_bytes,
    split_archive_path,
)
from odm.files.stores import refuse_target
from odm.issues import Code, Log, PathError, first_few, printable, shorten, spell
from odm.names import accept_name, is_hidden, is_usual, refuse_name

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
    "{value!r} would be written for {owner!r}, but hidden files are not read",
    "rename the image so that no part of its name begins with a dot",
    "Like most programs, odm skips files and folders whose name begins with a dot when it reads a folder, "
    "so the file would be lost.",
)
CASE_COLLISION = Code(
    "case-collision",
    "warning",
    "{first!r} and {second!r} differ only in letter case or Unicode form",
    "rename one of them",
    "On Windows and macOS both names refer to the same file, so the second would replace the first.",
)

_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)


PLACED: dict[str, bool] = {}
"""Whether each target that this process has begun to put in place is complete."""


class Cutter(Protocol):
    """Makes the pictures of tiles, which are no files but have paths of their own."""

    def __contains__(self, path: object) -> bool: ...

    def find_source(self, path: str) -> tuple[str, float]:
        """Return the image file from which a picture is cut, and the share of its area."""

    def picture(self, path: str) -> bytes:
        """Return the bytes of a picture, empty if it cannot be made, which `check` reports."""

    def check(self) -> None:
        """Raise a PathError that names every image file from which a picture could not be made."""


class Output:
    """A file or a folder that appears whole or not at all.

    Everything is written beside the target, made durable by one call and put in place by one rename. With
    `overwrite` and a target that exists, the files are complete beside it first and renamed one by one:
    Ctrl-C and SIGTERM wait until the last, and a marker in the folder, which no `Source` reads past, stays
    if the process is killed meanwhile. The same files written again complete such a folder. Files that were
    there and are not written stay, and `stayed` names them.

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

    cuts: Cutter | None = None
    """Makes the pictures of tiles, if `copy` is to write any."""

    def __init__(
        self,
        target: str,
        *,
        single: bool = False,
        overwrite: bool = False,
        sources: Sequence[str] = (),
        dry_run: bool = False,
    ) -> None:
        """Check that the target can be used; nothing is made before the context is entered."""
        label = printable(target)
        if not target or "\0" in target:
            raise PathError(f"{label!r}: not a usable target")
        if target == "-":
            raise PathError(f"-: cannot write data to standard output; {GIVE_A_PATH}")
        refuse_target(target)
        self.target = target
        self.single = single
        self.dry_run = dry_run
        self.written: list[str] = []
        self.stayed: list[str] = []
        self._overwrite = overwrite
        self._folders = {""}  # made in the staging folder
        self._planned: Collection[str] = ()
        self._made_folders: list[str] = []  # above the target
        self._n_placed = 0
        self._stage_descriptor = -1
        self._lock_descriptor: int | None = None
        self._stage = ""
        self._copies: dict[str, str] = {}  # where each picture was copied first
        self._sync_each = single  # each file is made durable by itself, where one call cannot do it for all
        self._real_target = os.path.realpath(target)
        self._old_status: os.stat_result | None = None
        self._sources = tuple(sources)
        self.check_apart()
        self._exists = self._check(label)  # False also for a folder that is empty

    # -- before the first write

    def _check(self, label: str) -> bool:
        """Return whether the target holds something, apart from staging folders; sets `_old_status`.

        Raises PathError if it cannot be used.
        """
        try:
            self._old_status = os.stat(self._real_target)
        except FileNotFoundError:
            self._check_parent(label)
            return False
        except OSError as e:
            raise PathError(f"{label}: {describe_error(e)}") from None
        mode = self._old_status.st_mode
        if self.single:
            if not stat.S_ISREG(mode):
                raise PathError(f"{label}: the target is {name_file_kind(mode)}, not a regular file")
            if not self._overwrite:
                raise PathError(f"{label}: the target exists; use {spell('overwrite')} to replace it")
        elif not stat.S_ISDIR(mode):
            raise PathError(f"{label}: the target exists and is not a folder")
        if not os.access(self._real_target, os.W_OK):
            raise PathError(f"{label}: no permission to write to the target")
        if self.single:
            return True
        try:
            is_empty = all(map(scratch.STAGE.fullmatch, os.listdir(self._real_target)))
        except OSError as e:
            raise PathError(f"{label}: {describe_error(e)}") from None
        if not is_empty and not self._overwrite:
            raise PathError(
                f"{label}: the target exists and is not empty; use {spell('overwrite')} to write into it"
            )
        return not is_empty

    def _check_parent(self, label: str) -> None:
        """Raise PathError if a target that does not exist yet cannot be made."""
        if os.path.exists(self.target):  # /dev/stdout leads to a pipe, which no path names
            kind = name_file_kind(os.stat(self.target).st_mode)
            expected = "a regular file" if self.single else "a folder"
            raise PathError(f"{label}: the target is {kind}, not {expected}")
        existing = self.target
        while existing and not os.path.lexists(existing):
            existing = os.path.dirname(existing)
        if existing and not os.path.exists(existing):
            raise PathError(f"{label}: {printable(existing)} is a broken link")
        parent = os.path.dirname(self._real_target)
        while not os.path.exists(parent):
            parent = os.path.dirname(parent)
        if not os.path.isdir(parent):
            raise PathError(f"{label}: {printable(parent)} is not a folder")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise PathError(f"{label}: no permission to write into {printable(parent)}")

    def check_apart(self) -> None:
        """Raise PathError if the target is, holds or lies in an input, as far as inputs are known by now."""
        inputs.refuse(self.target, self._sources)

    def plan(self, names: Sequence[str], owners: Sequence[str], log: Log, path: str = "") -> bool:
        """Return whether all these files can be written; if not, report every reason.

        `names` are relative paths, and `owners` the names of the images that each is written for. If all can
        be, `write` and its like do not check these names again. Raises PathError if something that stands in
        a target to be overwritten is in the way.
        """
        n_errors = log.errors
        index_of_name = _index_names(names, owners, log, path)
        # No file may have the name of a folder that another file needs.
        checked_folders = {""}
        for name in names:
            folder = name.rpartition("/")[0]
            while folder not in checked_folders:
                checked_folders.add(folder)
                if folder in index_of_name:
                    log.report(
                        COLLISION,
                        path,
                        first=owners[index_of_name[folder]],
                        second=f"the folder {folder}",
                        value=folder,
                    )
                    break
                folder = folder.rpartition("/")[0]
        if log.errors != n_errors:
            return False
        if self._exists and not self.single:
            self._plan_moves(names)
        self._planned = index_of_name
        return True

    # -- writing

    def __enter__(self) -> Self:
        """Make and lock the staging folder, and lock a folder that is written into."""
        if self.dry_run:
            return self
        try:
            parent, name = os.path.split(self._real_target)
            if self._exists and not self.single:
                self._lock_descriptor = scratch.lock_folder(self._real_target)
                if self._lock_descriptor is None:
                    label = printable(self.target)
                    raise PathError(f"{label}: another odm is writing into it; try again when that has ended")
            # Usually the stage is beside the target, else in it: where a rename cannot replace the folder, or
            # the folder may be written to but not its parent.
            if not self.single and self._old_status is not None and self._must_stage_inside(parent):
                self._make_stage(self._real_target, name)
            else:
                self._make_folders(parent)
                try:
                    self._make_stage(parent, name)
                except OSError as e:
                    if self.single or self._old_status is None or e.errno not in _NOT_ALLOWED:
                        raise
                    self._make_stage(self._real_target, name)
            if not self.single:
                os.mkdir(os.path.join(self._stage, "tree"))
                self._sync_each = scratch.syncfs() is None
        except BaseException as e:
            self._clean()
            if isinstance(e, OSError):
                self._fail(e)
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Put everything in place, unless an exception came, and remove the staging folder."""
        try:
            if kind is None:
                self.check_apart()  # writing may have opened further inputs
                self._check_completes()
                if not self.dry_run:
                    self._commit()
        except OSError as e:
            self._fail(e)
        finally:
            self._clean()

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write one file, or in a dry run only note it; `name` is relative, ``""`` for a single file."""
        self.written.append(name)
        if self.dry_run:
            return
        try:
            descriptor = os.open(
                self._make_location(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | scratch.CLOEXEC, 0o666
            )
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
        """Put a symbolic link to `picture` into the folder.

        Raises PathError if `picture` is in an archive.
        """
        if split_archive_path(picture) is not None:
            raise PathError(f"{printable(picture)}: it lies in an archive, so it can only be copied")
        self.written.append(name)
        # The picture becomes an input, which no target may replace: the link would lead to itself.
        with contextlib.suppress(OSError):
            inputs.opened(os.path.realpath(picture), os.stat(picture))
        if not self.dry_run:
            try:
                os.symlink(os.path.realpath(picture), self._make_location(name))
            except OSError as e:
                self._fail(e)

    def copy(self, name: str, picture: str) -> None:
        """Copy `picture`, or let `cuts` make it; further copies are hard links where the system has them."""
        if self.dry_run:
            self.written.append(name)
            return
        location = self._make_location(name)
        if (first_copy := self._copies.setdefault(picture, location)) != location:
            with contextlib.suppress(OSError, AttributeError, NotImplementedError):
                os.link(first_copy, location)
                self.written.append(name)
                return
        self.write(name, self.read_picture(picture))

    def read_picture(self, picture: str) -> bytes:
        """Return the bytes of a picture; `cuts` makes that of a tile.

        Raises PathError if it cannot be read.
        """
        try:
            return self.cuts.picture(picture) if self.cuts and picture in self.cuts else read_bytes(picture)
        except Unreadable as e:
            raise PathError(f"{printable(picture)}: {e}") from None

    def measure_picture(self, picture: str) -> int:
        """Return the size of a picture in bytes, that of a tile by its share of the image file.

        Raises PathError if the file cannot be read.
        """
        path, share = picture, 1.0
        if self.cuts and picture in self.cuts:
            path, share = self.cuts.find_source(picture)
        try:
            with open_binary(path) as stream:
                return int(stream.seek(0, 2) * share)
        except Unreadable as e:
            raise PathError(f"{printable(path)}: {e}") from None

    def below(self, folder: str) -> Output:
        """Return an output for the files of a folder in this one; its names are relative to that folder."""
        return _FolderOutput(self, folder)

    def _make_location(self, name: str) -> str:
        """Return the path in the staging folder at which a file is written, after making its folders."""
        if self.single:
            return os.path.join(self._stage, "file")
        # `plan` reports unsafe names; this is the last check.
        if name not in self._planned and refuse_name(name) is not None:
            raise PathError(f"{printable(self.target)}: refusing to write {shorten(name)!r}")
        tree = f"{self._stage}/tree"
        folder = name.rpartition("/")[0]
        if folder not in self._folders:
            parent = ""
            for folder_name in folder.split("/"):
                parent = f"{parent}/{folder_name}" if parent else folder_name
                if parent not in self._folders:
                    os.mkdir(f"{tree}/{parent}")
                    self._folders.add(parent)
        return f"{tree}/{name}"

    def _must_stage_inside(self, parent: str) -> bool:
        """Return whether the target is a folder that the stage's ``tree`` cannot replace by one rename.

        A mount point cannot be replaced, and an empty working folder should not: the shell that stands in it
        would be left in a folder that is gone.
        """
        assert self._old_status is not None
        if os.path.ismount(self._real_target) or os.stat(parent).st_dev != self._old_status.st_dev:
            return True
        with contextlib.suppress(OSError):
            return not self._exists and os.path.samestat(os.stat(os.getcwd()), self._old_status)
        return False

    def _make_folders(self, folder: str) -> None:
        """Make a folder and those above it; the new ones are removed again if nothing is put into them."""
        missing = []
        while not os.path.exists(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for path in reversed(missing):
            self._made_folders.append(path)
            try:
                os.mkdir(path)
            except FileExistsError:  # another process was faster, and the folder is its own
                self._made_folders.pop()

    def _make_stage(self, parent: str, name: str) -> None:
        """Make a hidden folder in `parent` and lock it, which shows other processes that its maker lives.

        Left-overs in `parent` of processes that died are removed first.
        """
        scratch.remove_left_overs(parent)
        # In bytes, as the name of the stage may have 255 of them at most.
        short_name = name.encode(errors="ignore")[:80].decode(errors="ignore")
        parent_vanished = False
        for _ in range(100):
            self._stage = os.path.join(parent, f".odm-{short_name}-{os.urandom(6).hex()}.tmp")
            try:
                os.mkdir(self._stage, 0o700)
                descriptor = scratch.lock_stage(self._stage)
            except FileNotFoundError:  # the parent was made by another process, which failed and removed it
                self._make_folders(parent)
                parent_vanished = True
                continue
            if descriptor is not None:  # None: another process took it for a left-over, so make a new one
                self._stage_descriptor = descriptor
                return
        if parent_vanished:  # /proc and its like say so of every name
            shown_parent = printable(parent)
            raise PathError(f"{printable(self.target)}: cannot create files in {shown_parent}")
        raise OSError(errno.EAGAIN, "the temporary folder was removed")

    def _commit(self) -> None:
        """Make all files durable and put them in place."""
        if self.single and not self.written:
            return
        staged_path = os.path.join(self._stage, "file" if self.single else "tree")
        if not self._sync_each:
            scratch.sync_file_system(staged_path)
        with scratch.delay_signals():
            PLACED[self.target] = False
            try:
                self._place(staged_path)
            finally:
                # The folders that have a new entry.
                for folder in {os.path.dirname(self._real_target), *map(os.path.dirname, self._made_folders)}:
                    marker.sync_folder(folder)
            PLACED[self.target] = True

    def _place(self, staged_path: str) -> None:
        """Move the finished file or folder at `staged_path` to the target."""
        if self.single and self._exists:
            self._keep_mode(staged_path)
            os.replace(staged_path, self._real_target)
        elif self.single:  # the place must be free: a rename would replace what came meanwhile
            try:
                os.link(staged_path, self._real_target)
            except FileExistsError:
                label = printable(self.target)
                raise PathError(f"{label}: another program created it in the meantime") from None
            except (OSError, AttributeError, NotImplementedError):  # not every file system has links
                os.rename(staged_path, self._real_target)
        elif self._exists or os.path.dirname(self._stage) == self._real_target:  # the stage is in the target
            self._merge(staged_path)
        else:
            if self._old_status is not None:  # the empty folder that is replaced; its owner and mode stay
                with contextlib.suppress(OSError, AttributeError):
                    os.chown(staged_path, self._old_status.st_uid, self._old_status.st_gid)
                self._keep_mode(staged_path)
                if os.name == "nt":  # where a rename replaces no folder, not even an empty one
                    os.rmdir(self._real_target)
            os.rename(staged_path, self._real_target)

    def _keep_mode(self, staged_path: str) -> None:
        """Copy the permissions of the replaced file or folder, so that a private one stays private.

        They are not copied from another user's file, whose owner would choose who may write to ours. The set-
        id bits of a file are not copied, as they would let others run it as us; those of a folder pass its
        group on.
        """
        user = getattr(os, "geteuid", lambda: 0)()
        if self._old_status is not None and self._old_status.st_uid == user:
            with contextlib.suppress(OSError):
                os.chmod(staged_path, self._old_status.st_mode & (0o777 if self.single else 0o3777))

    def _check_completes(self) -> None:
        """Check that the target is not left incomplete by files that are not written now.

        Raises PathError if its marker names such files.
        """
        if self.single or not marker.is_incomplete(self._real_target):
            return
        missing = set(marker.read_marker(self._real_target)).difference(self.written)
        if missing:
            raise PathError(
                f"{printable(self.target)}: a command that was stopped left old and new files in the folder, "
                f"and {first_few(sorted(missing), 3)} would not be written again; run that command "
                "again, or remove the folder"
            )

    def _merge(self, tree: str) -> None:
        """Move files into a folder that exists, one by one; then set `stayed` to all other files in it.

        A marker stands meanwhile, unless it is one move. It stays if only some of the moves succeed.
        """
        moves = self._plan_moves(self.written)
        was_complete = not marker.is_incomplete(self._real_target)
        if len(moves) > 1 or not was_complete:
            marker.mark(self._real_target, self._stage, self.written)
        try:
            for name in moves:
                os.replace(os.path.join(tree, name), os.path.join(self._real_target, name))
                self._n_placed += 1
        finally:
            if self._n_placed == len(moves) or (self._n_placed == 0 and was_complete):
                marker.unmark(self._real_target, {os.path.dirname(name) for name in moves})
        written = set(self.written)
        stayed = []
        for folder, folders, names in os.walk(self._real_target):
            if folder == self._real_target:
                folders[:] = [f for f in folders if not scratch.STAGE.fullmatch(f)]  # os.walk enters these
            links = [f for f in folders if os.path.islink(os.path.join(folder, f))]
            for file_name in [*names, *links]:
                name = os.path.relpath(os.path.join(folder, file_name), self._real_target).replace(
                    os.sep, "/"
                )
                if name not in written:
                    stayed.append(name)
        self.stayed = sorted(stayed)

    def _plan_moves(self, names: Sequence[str]) -> list[str]:
        """Return the paths to move into a target that exists: files, and folders that are new as a whole.

        Of ``a/b/c.txt`` that is ``a/b`` if there is a folder ``a``, but no ``b`` in it. Raises PathError if
        something is in the way, so it is called before the first rename.
        """
        moves: dict[str, None] = {}
        existing_folders: set[str] = set()
        for name in names:
            components = name.split("/")
            for i in range(1, len(components) + 1):
                ancestor = "/".join(components[:i])
                if ancestor in existing_folders:
                    continue
                if ancestor in moves:
                    break
                location = os.path.join(self._real_target, ancestor)
                try:
                    mode = os.lstat(location).st_mode
                except FileNotFoundError:
                    moves[ancestor] = None
                    break
                if i < len(components):
                    if not stat.S_ISDIR(mode):
                        raise PathError(f"{printable(location)}: in the way, not a folder of the target")
                    existing_folders.add(ancestor)
                elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):  # of a link, the link is replaced
                    moves[ancestor] = None
                else:
                    raise PathError(f"{printable(location)}: in the way, {name_file_kind(mode)}")
        return list(moves)

    def _fail(self, e: OSError) -> NoReturn:
        """Raise PathError with the reason of the system, and what has been changed."""
        if isinstance(e, PathError):
            raise e
        label = printable(self.target)
        if isinstance(e, FileExistsError):
            raise PathError(f"{label}: two of the files have the same name on this file system") from e
        outcome = "nothing was changed"
        if self._n_placed:
            outcome = f"{self._n_placed} of the new files and folders are in place, the others are unchanged"
        raise PathError(f"{label}: {describe_error(e)}; {outcome}") from e

    def _clean(self) -> None:
        """Remove the staging folder and folders that were made but are empty, and give up the locks."""
        with scratch.delay_signals():
            try:
                if self._stage:
                    scratch.remove_stage(self._stage, self._stage_descriptor)
                    self._stage = ""
                for folder in reversed(self._made_folders):
                    try:
                        os.rmdir(folder)
                    except FileNotFoundError:
                        continue
                    except OSError:  # not empty: the target is in there
                        break
            finally:
                for descriptor in (self._stage_descriptor, self._lock_descriptor):
                    if descriptor is not None and descriptor >= 0:
                        os.close(descriptor)
                self._stage_descriptor, self._lock_descriptor = -1, None


def _index_names(names: Sequence[str], owners: Sequence[str], log: Log, path: str) -> dict[str, int]:
    """Return the index at which each name first appears, by name; report unsafe, hidden and equal names.

    Names that differ only in letter case or Unicode form give a warning. `owners` are the names of the images
    that the files are written for.
    """
    is_simple = all(map(is_usual, names)) and not any(map(is_hidden, names))
    if is_simple and len(set(map(str.casefold, names))) == len(names):
        return dict(zip(names, range(len(names)), strict=True))
    index_of_name: dict[str, int] = {}
    index_of_folded: dict[str, int] = {}
    for index, name in enumerate(names):
        if accept_name(name, log, path) and is_hidden(name):
            log.report(HIDDEN_NAME, path, value=name, owner=owners[index])
        first_index = index_of_name.setdefault(name, index)
        if first_index != index:
            log.report(COLLISION, path, first=owners[first_index], second=owners[index], value=name)
            continue
        key = name if name.isascii() else unicodedata.normalize("NFC", name)
        similar_index = index_of_folded.setdefault(key.casefold(), index)
        if similar_index != index:
            log.report(CASE_COLLISION, path, first=owners[similar_index], second=owners[index])
    return index_of_name


class _FolderOutput(Output):
    """A folder of an output: every call goes to the output, with the folder before the names."""

    def __init__(self, output: Output, folder: str) -> None:
        """Take the output, and the name of the folder in it."""
        self.target = os.path.join(output.target, folder)
        self.single = False
        self.dry_run = output.dry_run
        self.written = output.written
        self._output, self._folder = output, folder

    def plan(self, names: Sequence[str], owners: Sequence[str], log: Log, path: str = "") -> bool:
        return self._output.plan([f"{self._folder}/{name}" for name in names], owners, log, path)

    def write(self, name: str, data: bytes | memoryview) -> None:
        self._output.write(f"{self._folder}/{name}", data)

    def link(self, name: str, picture: str) -> None:
        self._output.link(f"{self._folder}/{name}", picture)

    def copy(self, name: str, picture: str) -> None:
        self._output.copy(f"{self._folder}/{name}", picture)

    def read_picture(self, picture: str) -> bytes:
        return self._output.read_picture(picture)

    def measure_picture(self, picture: str) -> int:
        return self._output.measure_picture(picture)
