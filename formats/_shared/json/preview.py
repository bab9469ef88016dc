"""JSON before it is parsed: which keys its first bytes show, and how a format is recognised by them."""

from __future__ import annotations

import codecs
import functools
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from odm.files import Source
from odm.formats._contract import Format, Sniff, format_of
from odm.issues import Code, printable

if TYPE_CHECKING:
    import json

TOO_DEEP = Code(
    "json-too-deep",
    "error",
    "lists and objects are nested too deeply here",
    "remove the nesting",
    "No annotation file needs hundreds of levels. The file is damaged, or was made to exhaust the parser.",
    file=True,
)

MOST_LEVELS = 500
"""How deep a value may be nested. The bounds of parsers are higher, and differ with the version of Python."""
_NO_BRACKET = bytes({*range(256)} - {*b"[]{}"})
_SQUARE = bytes.maketrans(b"{}", b"[]")
_ROUNDS = 6
"""How often `is_deeper` takes the innermost brackets away before it measures what is left."""
_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"(?:[^"\\]|\\.)*+"[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL)
"""All up to the next bracket that is not within a text, and the bracket."""
_EMPTY = re.compile(rb"\[[ \t\r\n]*\]")


def find_too_deep(head: bytes) -> int:
    """Where the first bytes of a text, if it is JSON, are nested deeper than `MOST_LEVELS`; -1 if nowhere."""
    if not head.lstrip(b" \t\r\n").startswith((b"[", b"{")):
        return -1
    return find_deeper(head) or -1  # 0 is nowhere, as the first bracket is never too deep


def is_deeper(value: bytes | memoryview, outer: int = 0) -> bool:
    """Whether a JSON text has more than `MOST_LEVELS` + `outer` levels of lists and objects.

    `outer` is the number of levels in the text that are not those of a value, such as the list of all
    records. Six rounds of removing ``[]`` decide usual texts; only what is left is measured.
    """
    levels_max = MOST_LEVELS + outer
    brackets = bytes(value).translate(_SQUARE, _NO_BRACKET)  # brackets alone, {} as []
    # Each round takes the innermost level away: "[[[][]][]]" -> "[[]]" -> "[]" -> "".
    for _ in range(_ROUNDS):
        brackets = brackets.replace(b"[]", b"")
    if len(brackets) <= 2 * (levels_max - _ROUNDS):  # each level that is left takes two brackets
        return False
    steps = 92 - np.frombuffer(brackets, np.int8)  # "[" is 91 and "]" is 93
    deepest = int(np.cumsum(steps, dtype=np.int64).max()) + _ROUNDS
    # Brackets in texts were counted so far; `find_deeper` leaves them out.
    return deepest > levels_max and find_deeper(bytes(value), levels_max) > 0


def find_deeper(data: bytes, levels_max: int = MOST_LEVELS) -> int:
    """Where a JSON text goes deeper than `levels_max` levels, 0 if nowhere."""
    position = depth = 0
    while match := _BRACKET.match(data, position):
        position = match.end()
        depth += 1 if match[1] in b"[{" else -1
        if depth > levels_max:
            return match.start(1)
    return 0


def find_line_column(data: bytes, location: int) -> tuple[int, int]:
    """Line and column, both from 1, of a byte; the column counts characters."""
    line_start = data.rfind(b"\n", 0, location) + 1
    return data.count(b"\n", 0, location) + 1, len(data[line_start:location].decode("utf-8", "replace")) + 1


def parse_syntax_error(e: json.JSONDecodeError) -> tuple[int, str]:
    """The position and reason of a syntax error, the same for all versions of Python.

    From 3.13 on a comma before the end is named itself, and not what is expected after it.
    """
    if not e.msg.startswith("Illegal trailing comma"):
        return e.pos, e.msg
    position = len(e.doc) - len(e.doc[e.pos + 1 :].lstrip(" \t\r\n"))  # the first character after the comma
    expected = "value" if e.doc[position] == "]" else "property name enclosed in double quotes"
    return position, f"Expecting {expected}"


TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+("?)|[\[\]{}:,]|[^\s"\[\]{}:,]++', re.DOTALL)
"""A text, the second quote missing where it is cut; a sign; or anything else up to the next one."""


class JsonPreview(msgspec.Struct, frozen=True, eq=False):
    """What the first bytes of a text show: what it is, and the keys outermost and in the first records.

    ``top`` is the first character, or ``[]`` for an empty list. ``keys`` maps each key of the outermost
    object to the first character of its value; ``first`` maps such a key (``""`` for an outermost list) to
    the keys of the first record of its list, in the same way. ``cut`` says that more follows.
    """

    top: str
    keys: dict[str, str]
    first: dict[str, dict[str, str]]
    cut: bool


def _pass_over(text: bytes, position: int, stack: list[str]) -> int:
    """Return the offset behind the end of the innermost list, which goes on at `position`; pop `stack`.

    Returns the length of the text, and leaves `stack`, if the text is cut before.
    """
    depth = 1
    while depth and (match := _BRACKET.match(text, position)):
        depth += 1 if match[1] in b"[{" else -1
        position = match.end()
    if depth:
        return len(text)
    stack.pop()
    return position


@functools.lru_cache(maxsize=128)
def glance(head: bytes) -> JsonPreview:
    """Preview the first bytes of a JSON text, which may be cut anywhere. It never fails.

    All JSON formats preview the same bytes, so the result is cached.
    """
    head = head.removeprefix(codecs.BOM_UTF8).lstrip(b" \t\r\n")
    keys: dict[str, str] = {}
    first_records: dict[str, dict[str, str]] = {}
    stack: list[str] = []  # the brackets that are open, "{[{" in a record of a list of the outermost object
    key = inner_key = ""  # the key that was read last, of the outermost object and of a record
    last_text: bytes | None = None  # the text that was read last, a key if a colon follows
    n_records = 0  # how many records the current list has begun
    after_colon = False
    position = 0
    while match := TOKEN.search(head, position):
        position = match.end()
        token = match[0]
        first_char = token[:1].decode("latin-1")
        # A value begins, which shows what its key holds.
        if after_colon:
            after_colon = False
            if len(stack) == 1:
                keys.setdefault(key, first_char)
                n_records = 0
            # In the first record of a list, {"images": [{"id": 1, or of an outermost list.
            elif n_records == 1 and "".join(stack) in ("{[{", "[{"):
                first_records.setdefault(key, {}).setdefault(inner_key, first_char)
        # What the token means for those that follow.
        if first_char == '"':
            last_text = token[1:-1] if match[1] else None  # without the second quote it is cut
        elif first_char == ":":
            if last_text is not None:
                text = last_text.decode("utf-8", "replace")
                if stack == ["{"]:
                    key = text
                else:
                    inner_key = text
            after_colon = True
        elif first_char in "{[":
            if first_char == "{" and "".join(stack) in ("{[", "["):
                n_records += 1
                if n_records == 1:
                    first_records.setdefault(key, {})
                else:  # a list shows no more: look for its end alone
                    position = _pass_over(head, match.start(), stack)
                    continue
            stack.append(first_char)
            if len(stack) > 100:  # nothing is learnt so deep
                break
        elif first_char in "]}":
            if not stack:
                break
            stack.pop()
    top = "[]" if _EMPTY.match(head) else head[:1].decode("latin-1")
    return JsonPreview(top, keys, first_records, bool(stack))


# ------------------------------------------------------------------------------------------- recognition


HeadCheck = Callable[[JsonPreview, bytes], tuple[int, str] | None]
"""Confidence and reason from a file's name and first bytes, or None if it is no such file."""
LOOKED_AT = 50
"""How many files of a folder a sniffer looks at."""


def check_head(head: bytes, recognise: HeadCheck) -> tuple[int, str] | None:
    """Return the answer of `recognise` from the first 4096 bytes of a file, else from all bytes in `head`.

    The first ones are enough for most files, and quicker to look at.
    """
    answer = recognise(glance(head[:4096]), head)
    return recognise(glance(head), head) if answer is None and len(head) > 4096 else answer


def find_recognised(
    source: Source, recognise: HeadCheck, suffixes: tuple[str, ...] = (".json",)
) -> list[str]:
    """Return the files, of the first fifty in a folder, that `recognise` accepts; cached for the source."""
    return source.once(_find_recognised, recognise, suffixes)


def _find_recognised(source: Source, recognise: HeadCheck, suffixes: tuple[str, ...]) -> list[str]:
    return [
        file for file in source.with_suffix(*suffixes)[:LOOKED_AT] if check_head(source.head(file), recognise)
    ]


def sniff_json(source: Source, recognise: HeadCheck, suffixes: tuple[str, ...] = (".json",)) -> Sniff | None:
    """Ask `recognise` about a file, or the first fifty files of a folder; None if it recognises none."""
    if not source.is_dir:
        answer = check_head(source.head(), recognise)
        return Sniff(*answer) if answer else None
    files = find_recognised(source, recognise, suffixes)
    answer = check_head(source.head(files[0]), recognise) if files else None
    if answer is None:
        return None
    confidence, reason = answer
    shown = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more files"
    return Sniff(confidence, f"of {printable(shown)}: {reason}")


def json_format_of(module: str, **declared: Any) -> Format:
    """The format of JSON files that a module defines; see `format_of`.

    In place of ``sniff`` the module has ``looks_like(preview, head)``, which tells from the beginning of a
    file how sure it is that the file is its own, and why. Unless declared, ``suffixes`` are ``.json``.
    In a folder it is asked about the files with these, or with those of `Format.looks_at`.
    """
    declared = {"suffixes": (".json",), "begins": "[{", **declared}
    suffixes = tuple(declared.get("looks_at") or declared["suffixes"])
    looks_like = vars(sys.modules[module])["looks_like"]
    sniff = functools.partial(sniff_json, recognise=looks_like, suffixes=suffixes)
    return format_of(module, sniff=sniff, **declared)
