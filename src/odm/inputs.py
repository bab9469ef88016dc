"""Record the files that a run reads, so that its output cannot replace one of them.

A run is one command, or one call of a function that reads and writes. Its inputs are the paths that were
named to it and every file that was opened in it. Whatever writes asks `refuse` before it begins, and again
before it puts anything in place.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from contextvars import ContextVar

from odm.issues import PathError, printable

Identity = tuple[int, int]
"""Device and number of a file or folder, by which it is known under any name."""


class _Inputs:
    def __init__(self) -> None:
        self.named: dict[str, bool] = {}
        """Each path, and whether it is only a place to look files up in."""
        self.opened: dict[int, set[int]] = {}
        """The numbers of the files that were opened, by device."""
        self.folders: dict[str, str] = {}
        """The folders in which files were opened, as they were spelled, each with one of the files."""


_run: ContextVar[_Inputs | None] = ContextVar("odm.inputs", default=None)


@contextlib.contextmanager
def gather() -> Iterator[None]:
    """Record the inputs of a run in the block, unless it is part of another run; also a decorator."""
    if _run.get() is not None:
        yield
        return
    token = _run.set(_Inputs())
    try:
        yield
    finally:
        _run.reset(token)


@contextlib.contextmanager
def pause_gathering() -> Iterator[None]:
    """Do not record files that are opened in the block: they belong to the program, not to the data."""
    token = _run.set(None)
    try:
        yield
    finally:
        _run.reset(token)


def name(*paths: str | os.PathLike[str] | None, lookup: bool = False) -> None:
    """Record files and folders that were named to the run for reading, whether they are opened or not.

    With `lookup` a folder is only a place where files are looked up by name, such as a folder of images.
    """
    run = _run.get()
    if run is not None:
        for path in paths:
            if path is not None:
                text = os.fspath(path)
                run.named[text] = lookup and run.named.get(text, True)  # read once, it stays an input


def opened(path: str, status: os.stat_result) -> None:
    """Record that the file `path` was opened, and its folder; `status` has its identity."""
    run = _run.get()
    if run is not None:
        run.opened.setdefault(status.st_dev, set()).add(status.st_ino)
        run.folders.setdefault(folder_of(path), path)


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is `folder` or lies below it, as both are written."""
    return (path + os.sep).startswith(folder.rstrip(os.sep) + os.sep)


def folder_of(path: str) -> str:
    """Return ``os.path.dirname(path)``, in a fifth of the time, as it is called for every file."""
    folder = path.rpartition("/")[0] if os.sep == "/" else ""
    return folder if folder and folder[-1] != "/" else os.path.dirname(path)


def refuse(target: str, sources: Iterable[str] = ()) -> None:
    """Raise PathError if a target is, holds or lies in an input of the run, or one of `sources`.

    Paths are compared with their links resolved, and by identity. A target may lie in the folder of a file
    that was opened, but not in a folder that was named. In a folder where the run only looks files up, only a
    new target may lie: it replaces no file, and is written after the last look.

    Parameters
    ----------
    sources
        Paths that are read besides the inputs of the run.
    """
    run, sources = _run.get() or _Inputs(), set(sources)
    target_folders = _list_with_parents(target)
    location, identity = target_folders[0]  # of the target itself; the folders above it follow
    paths, identities = {p for p, _ in target_folders}, {i for _, i in target_folders if i is not None}
    subject = f"{printable(target)}: the target"
    for source in dict.fromkeys([*sources, *run.named]):
        source_folders = _list_with_parents(source)
        source_location, source_identity = source_folders[0]
        if location == source_location or (identity is not None and identity == source_identity):
            raise PathError(f"{subject} is the source {printable(source)}; choose another target")
        is_inside = source_location in paths or source_identity in identities
        # `run.named` tells of each input whether it is only a folder to look files up in.
        is_new, is_lookup_only = identity is None, source not in sources and run.named[source]
        if is_inside and not (is_new and is_lookup_only):
            raise PathError(f"{subject} is inside the source {printable(source)}; choose another target")
        if any(p == location or (i is not None and i == identity) for p, i in source_folders):
            raise PathError(f"{subject} contains the source {printable(source)}; choose another target")
    if identity is None:  # what is not there yet is no file that was opened, and holds none
        return
    device, number = identity
    if number in run.opened.get(device, ()):
        raise PathError(f"{subject} is an input file; choose another target")
    seen_paths: set[str] = set()  # folders of inputs have most folders above them in common
    for folder, file in run.folders.items():
        for parent, their_identity in _list_with_parents(folder, seen_paths):
            if parent == location or their_identity == identity:
                raise PathError(f"{subject} contains the input {printable(file)}; choose another target")


def _list_with_parents(path: str, seen_paths: set[str] | None = None) -> list[tuple[str, Identity | None]]:
    """Return a path and every folder above it, links resolved, with identities, None for what is not there.

    The list ends at the first path in `seen_paths`, to which all others are added.
    """
    path = os.path.realpath(path)
    folders: list[tuple[str, Identity | None]] = []
    while seen_paths is None or path not in seen_paths:
        identity = None
        with contextlib.suppress(OSError):
            status = os.stat(path)
            identity = status.st_dev, status.st_ino
        folders.append((path, identity))
        if seen_paths is not None:
            seen_paths.add(path)
        parent = os.path.dirname(path)
        if parent == path:
            break
        path = parent
    return folders
