"""Which encoding bytes are in that are no UTF-8, for messages that name it."""

from __future__ import annotations

import codecs

_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # which begins with the mark of UTF-16
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_BEGINNINGS = frozenset(mark[:1] for mark in _MARKS)


def wide_encoding(data: bytes) -> str:
    """The name of a text encoding of two or four bytes per character, for a message; empty for others."""
    if data[:1] not in _BEGINNINGS and b"\0" not in data:
        return ""
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            return name
    if b"\0" not in data:
        return ""
    if not data.strip(b"\0"):
        return "only NUL characters"
    nuls = [2 * data[i::4].count(0) > len(data[i::4]) for i in range(4)]  # by place, whether most are NUL
    if sum(nuls) == 3 and len(data) > 4:
        return "what looks like UTF-32 without a byte order mark"
    if max(data[::2].count(0), data[1::2].count(0)) * 4 > len(data):
        return "what looks like UTF-16 without a byte order mark"
    return ""
