"""Class names as they stand in text: which may be used, and lists of them."""

from __future__ import annotations

import unicodedata

from odm.files import BOM, Source
from odm.formats._faults import BAD_CLASS_LIST, BAD_CLASS_NAME
from odm.formats._lines import text_of
from odm.issues import Code, Log
from odm.tables import Builder

DUPLICATE_CLASS = Code(
    "duplicate-class",
    "warning",
    "the class {value!r} is listed twice, as {first} and {second}; the two are read as one",
    "remove or rename one of the two",
    "Two ids have one name, so their boxes become one class.",
)
UNWRITABLE = Code(
    "unwritable-class",
    "error",
    "the class {value!r} cannot be written: {reason}",
    "{way}",
    "What would be written would be read back as another class, or as another box.",
)


def refuse_class(name: str) -> str | None:
    """Why `name` cannot be the name of a class, or None if it can."""
    if not name or not name.strip():
        return "it is empty"
    if name.isascii() and name.isprintable():
        return None
    if name.startswith(BOM):
        return "it begins with a byte order mark; files may have been joined"
    for c in name:
        kind = unicodedata.category(c)
        if kind in {"Cc", "Zl", "Zp"}:
            return "it holds a control character or a line separator"
        if kind == "Cs":
            return "it holds a lone surrogate"
    return None


def read_list(source: Source, file: str, log: Log) -> list[str] | None:
    """The names in a file of one name per line; None, and issues in the log, if it is not usable."""
    data = source.read(file, log)
    if data is None:
        return None
    path = source.full(file)
    errors = log.errors
    text = text_of(data, path, log)
    if log.errors > errors:
        return None
    names = [line.strip(" \t") for line in text.decode().split("\n")]
    while names and not names[-1]:
        names.pop()
    if not names:
        log.report(BAD_CLASS_LIST, path, reason="it is empty")
        return None
    for number, name in enumerate(names, 1):
        if not name:
            log.report(BAD_CLASS_LIST, path, line=number, reason="a line is blank, so the ids after it shift")
        elif (reason := refuse_class(name)) is not None:
            log.report(BAD_CLASS_NAME, path, line=number, value=name, reason=reason)
    return names if log.errors == errors else None


def add_list(names: list[str], builder: Builder, log: Log, path: str) -> list[int]:
    """Add the classes of a list in its order; the row of each id."""
    rows = []
    first: dict[str, int] = {}
    for number, name in enumerate(names):
        at = first.setdefault(name, number)
        if at != number:
            log.report(DUPLICATE_CLASS, path, value=name, first=at, second=number)
        rows.append(builder.category(name, source_id=number))
    return rows
