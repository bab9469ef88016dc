"""The rows of plain text files, before it is decided what their numbers mean."""

from __future__ import annotations

import functools
import os
import re
from typing import Any

from odm.files import Source
from odm.formats._shared.codes import WRONG_COUNT
from odm.formats._shared.text_files import listing
from odm.formats._shared.text_rows import Grammar, KindOf, Labels, Shape
from odm.formats._shared.text_tokens import EMPTY, NON_FINITE, NUMBER, Cell, second_row
from odm.issues import Log, Trusted, shorten
from odm.names import BAD_CLASS_NAME, refuse_class

QUOTED = re.compile(r"""(["']).*\1""", re.DOTALL)
DIFFICULT = b"difficult"
"""What Cartucho's mAP has after the numbers of an object that does not count."""
_EXPECTED = "a class and 4 numbers, or a class, a confidence and 4 numbers"
BOX_FIELDS = ("box[0]", "box[1]", "box[2]", "box[3]")


def labels_of(source: Source) -> list[str]:
    """The text files of a source; the empty text stands for the source itself."""
    if not source.is_dir:
        return [""] if source.path.lower().endswith(".txt") else []
    return listing(source).labels


def parse(source: Source, log: Log, *, sep: str, classes: str | None) -> Labels:
    """All rows of a source; `classes` is a file that may lie among the labels."""
    files = labels_of(source) if source.is_dir else [""]
    if classes is not None:
        # The list of classes may lie among the labels under any name.
        listed = os.path.realpath(classes)
        files = [f for f in files if not f or os.path.realpath(source.full(f)) != listed]
    return Labels(source, files, _grammar(sep), log.fresh())


def name_of(name: bytes, *, separated: bool) -> str | None:
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


def _grammar(sep: str) -> Grammar:
    """Rows of a class, perhaps a score, and four numbers."""

    def shape(n: int, kind: KindOf) -> Shape | None:
        if n < 5 or (sep and n > 6):
            return None
        scored = n == 6 if sep else n > 5 and kind(n - 5) == "number"
        return Shape(range(n - 4, n), n - 5 if scored else -1, name=(0, n - 4 - scored))

    def explain(cells: list[Cell], shape: Shape | None, path: str, line: int, log: Log) -> bool:
        place: dict[str, Any] = {"line": line, "column": cells[0][0]}
        if shape is None:
            marks = [m for m in (",", ";", "|") if len(cells) == 1 and cells[0][1].count(m.encode()) >= 4]
            if not marks or sep:
                return False
            found = f"1 value (if the columns are separated by {marks[0]!r}, use --sep {marks[0]!r})"
            log.report(WRONG_COUNT, path, **place, expected=_EXPECTED, found=found)
            return True
        words = [word for _, word in cells[: shape.name[1]]]
        name = b" ".join(words)
        if not sep and _too_many(name):
            found = f"{sum(NUMBER.fullmatch(word) is not None for _, word in cells)} numbers"
            if at := second_row(words, 4):
                begin = repr(shorten(words[at]))
                found = f"a second row in the same line, from {begin} on (was a line break lost?)"
            place["column"] = cells[at or len(words) - 1][0]
            log.report(WRONG_COUNT, path, **place, expected=_EXPECTED, found=Trusted(found))
        elif "\ufffd" in (text := name.decode(errors="replace")) or refuse_class(text) is not None:
            return False
        else:
            reason = "this format has no quotes; write the name without them"
            log.report(BAD_CLASS_NAME, path, **place, field="class", value=text, reason=reason)
        return True

    return Grammar(
        shape,
        BOX_FIELDS,
        _EXPECTED,
        sep=sep or None,
        name=functools.partial(name_of, separated=bool(sep)),
        exact=True,
        last=(DIFFICULT, 6),
        explain=explain,
    )
