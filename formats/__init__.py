"""The formats, found by listing this package and the entry point group ``odm.formats``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import cast

from odm.files import (
    NOT_TEXT,
    UNREADABLE,
    Source,
    Unreadable,
    names_entry_point,
    other_kind,
    read_head,
    refuse_nuls,
)
from odm.formats._contract import (
    DESCRIBING,
    LIKELY,
    SURE,
    Format,
    Options,
    OptionSpec,
    Sniff,
    make_options,
    option,
    option_specs,
)
from odm.formats._shared.codes import NOT_UTF8
from odm.formats._shared.encodings import wide_encoding
from odm.formats._shared.json_columns import TOO_DEEP, line_column, too_deep
from odm.issues import DataError, Log, Trusted, UsageError, hint, printable
from odm.tables import stem

__all__ = [
    "DESCRIBING",
    "FORMATS",
    "LIKELY",
    "SURE",
    "Format",
    "OptionSpec",
    "Options",
    "Sniff",
    "detect",
    "for_target",
    "get",
    "make_options",
    "option",
    "option_specs",
]


GROUP = "odm.formats"
"""The entry point group by which other packages add a format."""


class Registry(Mapping[str, Format]):
    """Every format by name. A module of this package is imported when its format is asked for."""

    def __init__(self) -> None:
        modules = [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]
        self._found: dict[str, Format | None] = dict.fromkeys(modules)
        if names_entry_point(GROUP):
            from importlib.metadata import entry_points

            for point in entry_points(group=GROUP):
                format_ = point.load()
                if self._found.setdefault(format_.name, format_) is not format_:
                    raise UsageError(f"two formats are called {format_.name!r}; the second is {point.value}")
        self._names = sorted(self._found)

    def __getitem__(self, name: str) -> Format:
        found = self._found[name]
        if found is None:
            module = importlib.import_module(f"{__name__}.{name}")
            found = self._found[name] = cast("Format", module.FORMAT)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


FORMATS = Registry()
"""Every format by name, in the order of the names."""


def get(name: str) -> Format:
    """The format of that name. UsageError, with the names there are, if there is none."""
    try:
        return FORMATS[name]
    except KeyError:
        names = ", ".join(FORMATS)
        raise UsageError(
            f"there is no format {name!r}{hint(name, FORMATS)}; the formats are: {names}"
        ) from None


def detect(source: Source, log: Log, *, flag: str = "--format", among: tuple[str, ...] = ()) -> Format:
    """The one format that a source has; the reason is noted in the log.

    Parameters
    ----------
    flag
        How the user says the format by hand, for the message.
    among
        If given, only these names come into question.

    Raises
    ------
    UsageError
        If no format, or more than one, claims it.
    DataError
        If no format does, and there are files that cannot be read.
    """
    answers = {
        name: answer
        for name, format_ in FORMATS.items()
        if (not among or name in among) and (answer := format_.sniff(source)) is not None
    }
    shown = printable(source.path)
    if not answers:
        _say_unreadable(source, log)
        what = f"{len(source.files)} files" if source.is_dir else "this file"
        if not any(source.head(file).strip() for file in source.files[:1000]):
            what = "empty files" if source.files else "an empty folder"
            what = what if source.is_dir else "an empty file"
        raise UsageError(
            f"{shown}: no format recognises {what}; say which it is with {flag} ({', '.join(FORMATS)})"
        )
    best = max(answer.confidence for answer in answers.values())
    winners = {name: answer for name, answer in answers.items() if answer.confidence == best}
    if len(winners) > 1:
        _say_unreadable(source, log)
        reasons = "; ".join(f"{name}: {answer.reason}" for name, answer in winners.items())
        flags = " or ".join(f"{flag} {name}" for name in winners)
        raise UsageError(f"{shown}: more than one format fits ({reasons}); say {flags}")
    (name, answer), *_ = winners.items()
    log.note(f"{shown}: read as {name}, because {answer.reason}")
    return FORMATS[name]


def _say_unreadable(source: Source, log: Log) -> None:
    """DataError, with an issue for each, if there are files that no format can recognise as they are."""
    source.report_links(log)
    for file in source.files[:1000]:
        path = source.full(file)
        try:
            head = read_head(path, 2**14)
            refuse_nuls(head)
        except Unreadable as e:
            log.report(UNREADABLE, path, reason=str(e))
            continue
        if stem(file) != file:  # a picture
            continue
        if what := other_kind(head):
            log.report(NOT_TEXT, path, value=Trusted(what))
        elif wide := wide_encoding(head):
            log.report(NOT_UTF8, path, line=1, value=wide)
        elif (place := too_deep(head)) >= 0:
            line, column = line_column(head, place)
            log.report(TOO_DEEP, path, line=line, column=column)
    if log.errors:
        raise DataError(
            f"{printable(source.path)}: the format cannot be told, for there are unreadable files", log
        )


def for_target(path: str) -> Format:
    """The format of a single file with the suffix of `path`. UsageError if it does not decide.

    Where several formats have the suffix, the one that owns it is meant.
    """
    low = path.lower()
    fitting = [f for f in FORMATS.values() if f.single and low.endswith(f.suffixes)]
    fits = [f.name for f in fitting if f.owns_suffix] or [f.name for f in fitting]
    if len(fits) == 1:
        return FORMATS[fits[0]]
    which = (
        f"the suffix of {printable(path)} does not say the format" if not fits else "several formats have it"
    )
    raise UsageError(f"{which}; say it with --to ({', '.join(fits or FORMATS)})")
