"""The formats, found by listing this package and the entry point group ``odm.formats``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from odm.files import Source, names_entry_point
from odm.formats import _detect
from odm.formats._contract import (
    DESCRIBING,
    LIKELY,
    SURE,
    USES,
    Format,
    Options,
    OptionSpec,
    Sniff,
    make_options,
    option,
    option_specs,
    parse_bool,
)
from odm.formats._signs import FLAGS, READ_ONLY, SIGNS
from odm.issues import Log, UsageError, hint, printable, spell

__all__ = [
    "DESCRIBING",
    "FORMATS",
    "LIKELY",
    "SURE",
    "USES",
    "WRITTEN",
    "Format",
    "OptionSpec",
    "Options",
    "Sniff",
    "detect",
    "for_target",
    "get",
    "get_target",
    "make_options",
    "option",
    "option_specs",
    "parse_bool",
]


DIALECTS = {"lvis": "coco.lvis"}
"""Formats that lie in the folder of another, whose reader and writer they share, with their modules."""

GROUP = "odm.formats"
"""The entry point group by which other packages add a format."""


class Registry(Mapping[str, Format]):
    """Every format by name. A module of this package is imported when its format is asked for."""

    def __init__(self) -> None:
        """List the modules of this package, and load the formats of other packages."""
        modules = [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]
        self._formats: dict[str, Format | None] = dict.fromkeys([*modules, *DIALECTS])
        if names_entry_point(GROUP):  # else importlib.metadata, which is slow, need not be imported
            from importlib.metadata import entry_points

            for point in entry_points(group=GROUP):
                format_ = point.load()
                if self._formats.setdefault(format_.name, format_) is not format_:
                    raise UsageError(f"two formats are called {format_.name!r}; the second is {point.value}")
        self._names = sorted(self._formats)

    def __getitem__(self, name: str) -> Format:
        format_ = self._formats[name]
        if format_ is None:
            module = importlib.import_module(f"{__name__}.{DIALECTS.get(name, name)}")
            format_ = self._formats[name] = cast("Format", module.FORMAT)
        return format_

    def __contains__(self, name: object) -> bool:
        return name in self._formats

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


FORMATS = Registry()
"""Every format by name, in the order of the names."""

WRITTEN = tuple(name for name in FORMATS if name not in READ_ONLY)
"""The names of the formats that are also written."""


def get(name: str) -> Format:
    """The format called `name`. Raises UsageError, with similar names as a hint, if there is none."""
    try:
        return FORMATS[name]
    except KeyError:
        suggestion = hint(str(name), FORMATS)
        raise UsageError(f"unknown format {name!r}{suggestion}; odm formats lists them") from None


def get_target(name: str) -> Format:
    """The format called `name`, to be written. Raises UsageError if there is none, or if it is only read."""
    format_ = get(name)
    if format_.write is None:
        raise UsageError(f"{name} is only read; choose another format for what is written (see odm formats)")
    return format_


def detect(source: Source, log: Log, *, flag: str = "--format", among: tuple[str, ...] = ()) -> Format:
    """Detect the format of a source, and note the reason in the log.

    Parameters
    ----------
    flag
        The option that names the format, for messages.
    among
        The names of the formats that may be detected; empty for all.

    Raises
    ------
    UsageError
        If no format claims it; its kind AmbiguousFormat if several do with the same confidence.
    DataError
        If no format can be chosen, and there are files or links that cannot be read.
    """
    names = tuple(among or FORMATS)
    candidates = {name: FORMATS[name] for name in _detect.find_possible(source, names, SIGNS)}

    def explain(source: Source) -> tuple[str, bool]:
        from odm.formats import _unread  # only where no format fits

        return _unread.explain(source, {name: FORMATS[name] for name in names}, SIGNS)

    return _detect.detect(source, log, candidates, explain, flag)


def list_with_flags(flags: Iterable[str]) -> list[str]:
    """The formats that must be imported before it is known what some long flags, such as ``--classes``, mean.

    Formats of other packages are among them: their flags are known only after the import.
    """
    needed = {name for flag in flags for name in FLAGS.get(flag, ())}
    return [name for name in FORMATS if name in needed or name not in SIGNS]


def for_target(path: str) -> Format:
    """The format of a single file with the suffix of `path`. Raises UsageError if none or several have it.

    Where several formats have the suffix, the one that owns it is meant.
    """
    lower_path = path.lower()
    formats = [f for name in WRITTEN if (f := FORMATS[name]).single and lower_path.endswith(f.suffixes)]
    format_names = [f.name for f in formats if f.owns_suffix] or [f.name for f in formats]
    if len(format_names) == 1:
        return FORMATS[format_names[0]]
    unknown = f"the suffix of {printable(path)} does not determine the format"
    problem = "several formats use it" if format_names else unknown
    choices = ", ".join(format_names) if 0 < len(format_names) <= 10 else "odm formats lists them"
    raise UsageError(f"{problem}; set it with {spell('to')} ({choices})")
