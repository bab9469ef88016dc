"""The hidden folder beside a target in which everything is written first, and what makes it durable.

A staging folder is locked while its maker lives, so that the next run can tell the left-overs of a process
that died, and remove them.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any

CLOEXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
FOLDER = os.O_RDONLY | CLOEXEC | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
"""How a folder of odm's own is opened: nothing else of its name is, and no link is followed."""
STAGE = re.compile(r"\.odm-.*-[0-9a-f]{12}\.tmp", re.DOTALL)
"""The names of staging folders; nothing else is ever removed."""


def hold(stage: str, *, left_over: bool = False) -> int | None:
    """A locked descriptor of a staging folder; None if it is another's, -1 where folders have none.

    A new one must be empty. A left-over must belong to the user of this process, be locked for certain, and
    hold nothing but what is put into such a folder.
    """
    if not hasattr(os, "fwalk"):  # Windows: left-overs stay until removed by hand
        return None if left_over else -1
    try:
        descriptor = os.open(stage, FOLDER)
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


def lock_folder(folder: str) -> int | None:
    """A descriptor that holds a folder for this process until it is closed, or the process dies.

    None if another process holds it, -1 where folders cannot be locked.
    """
    try:
        import fcntl

        descriptor = os.open(folder, FOLDER)
    except (ImportError, OSError):  # a folder may be one to write into and not to list
        return -1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        os.close(descriptor)
        return None if isinstance(e, BlockingIOError) else -1
    return descriptor


def remove_left_overs(parent: str) -> None:
    """Remove the staging folders of processes of this user that died."""
    try:
        with os.scandir(parent) as entries:
            stages = [e.path for e in entries if STAGE.fullmatch(e.name) and e.is_dir(follow_symlinks=False)]
    except OSError:  # a folder may be one to write into and not to list
        return
    for stage in stages:
        try:
            held = hold(stage, left_over=True)
        except OSError:  # it may not be opened, or is a link by now
            continue
        if held is not None:
            try:
                remove_stage(stage, held)
            finally:
                os.close(held)


def remove_stage(stage: str, held: int) -> None:
    """Remove a staging folder that `hold` answered for; what cannot be removed stays."""
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


def sync_folder(folder: str) -> None:
    """Make a rename in `folder` durable, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def syncfs() -> Any:
    """The system's call of that name, None where it has none."""
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True).syncfs
    except (ImportError, AttributeError, OSError, TypeError):
        return None


def sync_file_system(folder: str) -> None:
    """Make everything written below `folder` durable by one call."""
    import ctypes

    descriptor = os.open(folder, os.O_RDONLY | CLOEXEC)
    try:
        if syncfs()(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)
