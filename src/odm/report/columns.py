"""What all kinds of pages share: columns of numbers, and the messages from reading."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.issues import Code, Issue, Log, printable

MISS_WORDS = {
    "assigned": "its detections match other objects",
    "class": "taken for another class",
    "localisation": "box too far off",
    "undetected": "no detection near it",
}
"""Why an object is missed, in the words of a page, by the names in `MISSES` of report_data."""

HUGE = 1e12
"""Pixels that no picture has; rounding still larger numbers can make them infinite."""

ISSUES = 200
"""How many issues of a log a page lists; all are counted."""


def rounded(values: NDArray[Any], digits: int) -> list[Any]:
    """Numbers of so many decimals; what is not finite, or huge, is 0, for a page cannot draw it."""
    given = np.asarray(values, np.float64)
    drawn = np.where(np.abs(given) < HUGE, given, 0.0)
    # A whole number is two signs shorter in JSON.
    return [int(v) if v.is_integer() else v for v in np.round(drawn, digits).tolist()]


def reading(log: Log, sources: Sequence[str], doubtful: Sequence[Code] = ()) -> dict[str, Any]:
    """The messages from reading: doubts about the numbers, decisions, and other warnings.

    Paths of the sources are cut to their last part, so that a page does not tell where they lay.
    """
    doubts = {code.name for code in doubtful}
    return {
        "sources": [last_part(path) for path in sources],
        "doubts": [issue_row(i, sources) for i in log.issues if i.code in doubts],
        "notes": [without_folders(note, sources) for note in log.notes],
        "warnings": [issue_row(i, sources) for i in log.issues if i.code not in doubts][:ISSUES],
        "warningCount": sum(n for name, n in log.counts.items() if name not in doubts),
    }


def last_part(path: str) -> str:
    """The last part of a path, printable."""
    return printable(os.path.basename(path.rstrip("/\\")) or path)


def distinct_parts(paths: Sequence[str]) -> list[str]:
    """The last parts of some paths, as many of each as tell them apart: ``a/run.json`` and ``b/run.json``."""
    parts = [[printable(part) for part in re.split(r"[/\\]", path) if part] or [path] for path in paths]
    names: list[str] = []
    for n in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(own[-n:]) for own in parts]
        if len(set(names)) == len(names):
            break
    return names


def without_folders(text: str, sources: Sequence[str]) -> str:
    """A message in which the paths of the sources are their last part only."""
    for path in sorted(sources, key=len, reverse=True):
        cut = os.path.dirname(path.rstrip("/\\"))
        if cut:
            text = text.replace(printable(cut) + os.sep, "")
    return text


def issue_row(issue: Issue, sources: Sequence[str]) -> dict[str, str]:
    """An issue for a page."""
    return {
        "code": issue.code,
        "severity": issue.severity,
        "text": without_folders(issue.message, sources),
        "place": without_folders(issue.location, sources),
    }
