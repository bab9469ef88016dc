"""How a format is recognised by the first bytes of its files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from odm.files import Source
from odm.formats._shared.json_preview import JsonPreview, glance
from odm.issues import printable


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sniff:
    """How sure a format is that a source is its own, and why, in words for the user."""

    confidence: int
    reason: str


HeadCheck = Callable[[JsonPreview, bytes], tuple[int, str] | None]
"""Confidence and reason from a file's name and first bytes, or None if it is no such file."""


def check_head(head: bytes, says: HeadCheck) -> tuple[int, str] | None:
    """Confidence and reason from the first bytes of a file; a few suffice for most."""
    found = says(glance(head[:4096]), head)
    return says(glance(head), head) if found is None and len(head) > 4096 else found


LOOKED_AT = 50
"""How many files of a folder a sniffer looks at."""


def fitting(source: Source, says: HeadCheck, suffixes: tuple[str, ...] = (".json",)) -> list[str]:
    """The files of a folder that fit, of the first fifty."""
    return source.once(_fitting, says, suffixes)


def _fitting(source: Source, says: HeadCheck, suffixes: tuple[str, ...]) -> list[str]:
    return [file for file in source.with_suffix(*suffixes)[:LOOKED_AT] if check_head(source.head(file), says)]


def sniff_json(source: Source, says: HeadCheck, suffixes: tuple[str, ...] = (".json",)) -> Sniff | None:
    """Look at the outermost keys of a file, or of the files of a folder."""
    if not source.is_dir:
        found = check_head(source.head(), says)
        return Sniff(*found) if found else None
    files = fitting(source, says, suffixes)
    found = check_head(source.head(files[0]), says) if files else None
    if found is None:
        return None
    shown = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more files"
    return Sniff(found[0], f"of {printable(shown)}: {found[1]}")
