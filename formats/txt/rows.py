"""The rows of plain text files, before it is decided what their numbers mean."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.files import Source
from odm.formats._shared.codes import WRONG_COUNT
from odm.formats._shared.text_files import listing
from odm.formats._shared.text_tokens import (
    EMPTY,
    NON_FINITE,
    NUMBER,
    Chunk,
    Rows,
    check_number,
    chunks,
    every,
    explain_rows,
    second_row,
)
from odm.issues import Log, Trusted, plural, shorten
from odm.names import BAD_CLASS_NAME, refuse_class
from odm.tables import Floats, Ints

QUOTED = re.compile(r"""(["']).*\1""", re.DOTALL)
DIFFICULT = b"difficult"
"""What Cartucho's mAP has after the numbers of an object that does not count."""
BOX_FIELDS = ("box[0]", "box[1]", "box[2]", "box[3]")


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class ParsedRows:
    """All rows of one source, before it is decided what the numbers mean."""

    source: Source
    log: Log
    files: list[str]
    names: list[str]
    name: Ints
    """(n,) row in `names`."""
    score: Floats
    """(n,) NaN where there is none."""
    box: Floats
    """(n, 4) the last four numbers."""
    difficult: NDArray[np.bool_]
    """(n,) whether this word follows the numbers."""
    file: Ints
    line: Ints
    lost: int
    """Rows that are faulty whatever the numbers mean; they are in `log`."""
    rows: Rows


def labels_of(source: Source) -> list[str]:
    """The text files of a source; the empty text stands for the source itself."""
    if not source.is_dir:
        return [""] if source.path.lower().endswith(".txt") else []
    return listing(source).labels


def parse(source: Source, log: Log, *, sep: str, classes: str | None) -> ParsedRows:
    """All rows of a source; `classes` is a file that may lie among the labels."""
    own = log.fresh()
    files = labels_of(source) if source.is_dir else [""]
    if classes is not None:
        # The list of classes may lie among the labels under any name.
        listed = os.path.realpath(classes)
        files = [f for f in files if not f or os.path.realpath(source.full(f)) != listed]
    names = _Names(bool(sep))
    parts: list[_Part] = []
    lost = 0
    for chunk in chunks(source, files, own, sep=sep or None):
        part, faulty = _rows(chunk, names)
        parts.append(part)
        explain_rows(chunk, faulty, source, files, own, functools.partial(_explain, sep=chunk.separated))
        lost += len(faulty)
    if not parts:
        none = np.zeros(0, np.int32)
        parts.append((none, np.zeros(0), np.zeros((0, 4)), none == 1, none, none))
    name, score, box, difficult, file, line = (np.concatenate(column) for column in zip(*parts, strict=True))
    rows = Rows(source, files, file, line, sep or None)
    return ParsedRows(source, own, files, names.texts, name, score, box, difficult, file, line, lost, rows)


class _Names:
    """The distinct class names met so far, checked once each."""

    def __init__(self, separated: bool) -> None:
        self.texts: list[str] = []
        self.row: dict[bytes, int] = {}
        self._separated = separated

    def rows(self, found: list[bytes], chunk: Chunk) -> Ints:
        for name in dict.fromkeys(found):
            if name not in self.row:
                text = name_of(chunk.plain(name), self._separated)
                self.row[name] = -1 if text is None else len(self.texts)
                if text is not None:
                    self.texts.append(text)
        return np.array(list(map(self.row.__getitem__, found)), np.int32)


def name_of(name: bytes, separated: bool) -> str | None:
    """The text of a class name; None if it cannot be one."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return None
    if name == EMPTY or refuse_class(text) is not None or (len(text) > 1 and QUOTED.fullmatch(text)):
        return None
    return None if not separated and _too_many(name) else text


def _too_many(name: bytes) -> bool:
    """Whether a class name of several words holds values that belong to the numbers after it."""
    words = name.split()
    if len(words) < 2:
        return False
    if second_row(words, 4):
        return True
    last = words[-1]
    if NON_FINITE.fullmatch(last):
        return True
    return NUMBER.fullmatch(last) is not None and (
        not last.isdigit() or all(NUMBER.fullmatch(word) for word in words)
    )


_Part = tuple[Ints, Floats, Floats, NDArray[np.bool_], Ints, Ints]
"""Name, score, box, difficult, file and line of some rows."""


def _rows(chunk: Chunk, names: _Names) -> tuple[_Part, NDArray[Any]]:
    """The rows of a chunk that are sound, and which are not."""
    separated = chunk.separated
    difficult = chunk.ends_with(DIFFICULT) & (chunk.count >= 6)
    counts = chunk.count - difficult
    enough = (counts >= 5) & (counts <= 6) if separated else counts >= 5
    rows = np.flatnonzero(enough)
    count = counts[rows]
    at = chunk.first[rows] + count - 4
    values, bad = chunk.numbers((at[:, None] + np.arange(4)).ravel())
    box = values.reshape(-1, 4)
    sound = every(np.isfinite(box))
    sound[bad // 4] = False
    scored = count >= 6
    if not separated:
        scored[scored] = chunk.looks_numeric(at[scored] - 1)
    score = np.full(len(rows), np.nan)
    candidates = np.flatnonzero(scored)
    score[candidates], bad = chunk.numbers(at[candidates] - 1)
    if separated:
        sound[candidates[bad]] = False
    else:
        scored[candidates[bad]] = False  # a word that only begins like a number
        score[candidates[bad]] = np.nan
    sound &= ~scored | np.isfinite(score)
    words = count - 4 - scored
    if bool((words == 1).all()):
        texts = chunk.pick(chunk.first[rows])
    else:
        mixed: NDArray[Any] = np.empty(len(rows), object)
        one = words == 1
        mixed[one] = chunk.pick(chunk.first[rows[one]])
        mixed[~one] = chunk.span(rows[~one], words[~one])
        texts = mixed.tolist()
    name = names.rows(texts, chunk)
    sound &= name >= 0
    kept = rows[sound]
    enough[rows[~sound]] = False
    faulty = np.flatnonzero(~enough)
    part = (name[sound], score[sound], box[sound], difficult[kept], chunk.file[kept], chunk.line[kept])
    return part, faulty


def _explain(cells: list[tuple[int, bytes]], path: str, line: int, log: Log, *, sep: bool) -> None:
    """Report what is wrong with a row that `_rows` refuses, by the same rules."""
    expected = "a class and 4 numbers, or a class, a confidence and 4 numbers"
    if len(cells) >= 6 and cells[-1][1] == DIFFICULT:
        cells = cells[:-1]
    n = len(cells)
    if n < 5 or (sep and n > 6):
        found = plural(n, "value")
        if n == 1 and not sep:
            for mark in (",", ";", "|"):
                if cells[0][1].count(mark.encode()) >= 4:
                    found += f" (if the columns are separated by {mark!r}, use --sep {mark!r})"
                    break
        log.report(WRONG_COUNT, path, line=line, column=cells[0][0], expected=expected, found=found)
        return
    fields = ("score", *BOX_FIELDS)[-(n - 1) :] if sep else BOX_FIELDS
    for field, cell in zip(fields, cells[-len(fields) :], strict=True):
        if not check_number(cell, log, path, line, field):
            return
    scored = n >= 6 and NUMBER.fullmatch(cells[-5][1]) is not None
    if scored and not check_number(cells[-5], log, path, line, "score"):
        return
    words = cells[: n - 4 - scored]
    text = b" ".join(word for _, word in words)
    if not sep and _too_many(text):
        if NON_FINITE.fullmatch(words[-1][1]):
            check_number(words[-1], log, path, line, "score")
            return
        found = f"{sum(NUMBER.fullmatch(word) is not None for _, word in cells)} numbers"
        at = second_row([word for _, word in words], 4)
        if at:
            found = (
                f"a second row in the same line, from {shorten(words[at][1])!r} on (was a line break lost?)"
            )
        column = words[at or -1][0]
        log.report(WRONG_COUNT, path, line=line, column=column, expected=expected, found=Trusted(found))
        return
    try:
        name = text.decode()
    except UnicodeDecodeError:
        return  # the file's encoding has been reported
    reason = refuse_class(name) or "this format has no quotes; write the name without them"
    log.report(BAD_CLASS_NAME, path, line=line, column=words[0][0], field="class", value=name, reason=reason)
