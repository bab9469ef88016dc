"""The marker of a folder whose files are being replaced one by one.

`Output` puts it beside the files before the first rename and removes it after the last. A process that is
killed meanwhile leaves it, and `Source` then refuses to read the mixture of old and new files.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Sequence

from odm.issues import PathError, printable, spell

INCOMPLETE = ".odm-incomplete"
"""The name of the marker; each of its lines names a new file."""
_MAX_SIZE = 2**30
"""Largest size of a marker in bytes; it has room for millions of names."""


def is_incomplete(folder: str) -> bool:
    """Return whether a folder has a marker.

    A marker counts only if the owner of the folder or the user of this process wrote it: in a folder that
    everybody may write to, such as /tmp, any user could stop all reading otherwise.
    """
    try:
        status = os.lstat(os.path.join(folder, INCOMPLETE))
        owners = (os.stat(folder).st_uid, getattr(os, "geteuid", lambda: status.st_uid)())
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid in owners


def read_marker(folder: str) -> list[str]:
    """Return the names in the marker of a folder. Raises PathError if the file is too large for one."""
    path = os.path.join(folder, INCOMPLETE)
    if os.path.getsize(path) > _MAX_SIZE:
        raise PathError(
            f"{printable(path)}: it has more than {_MAX_SIZE} bytes; remove the folder, or this file"
        )
    with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as stream:
        return stream.read().split("\n")[:-1]


def mark(folder: str, stage: str, names: Sequence[str]) -> None:
    """Put a marker with these names into a folder and make it durable.

    It is written in the folder `stage` first, and then moved.
    """
    staged_path = os.path.join(stage, INCOMPLETE)
    with open(staged_path, "x", encoding="utf-8", errors="surrogateescape", newline="\n") as stream:
        stream.writelines(f"{name}\n" for name in names)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(staged_path, os.path.join(folder, INCOMPLETE))
    sync_folder(folder)


def unmark(folder: str, changed: Iterable[str]) -> None:
    """Make renames in `folder`, and in the folders `changed` below it, durable; then remove its marker."""
    for name in {"", *changed}:
        sync_folder(os.path.join(folder, name))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, INCOMPLETE))
    sync_folder(folder)


def refuse_incomplete(path: str) -> None:
    """Refuse to read a path in a folder that an interrupted `Output` left with old and new files.

    Raises PathError if the path, or a folder above it, has a marker.
    """
    folder, parent = "", os.path.abspath(path)
    while folder != parent:  # the parent of the root is the root
        folder, parent = parent, os.path.dirname(parent)
        if is_incomplete(folder):
            raise PathError(
                f"{printable(folder)}: the folder holds old and new files: a command that writes into it was "
                f"stopped, or is still running; run the same command with {spell('overwrite')} to complete it"
            )


def sync_folder(folder: str) -> None:
    """Make a rename in `folder` durable, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
