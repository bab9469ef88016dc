"""``label_map.pbtxt``: the names of the classes by their ids, as text of protocol buffers."""

from __future__ import annotations

import re

from odm.formats._shared.codes import BAD_CLASS_LIST, BAD_LISTED_CLASS
from odm.formats._shared.text_tokens import text_of
from odm.issues import Log
from odm.names import refuse_class

_COMMENT = re.compile(r"""("(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')|#[^\n]*""")
_ITEM = re.compile(r"""item\s*+:?\s*+\{((?:[^{}"']|"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')*+)\}\s*""")
_KEY = re.compile(
    r"""(?<!\w)(\w++)\s*+:\s*+(?:"((?:[^"\\\n]|\\.)*+)"|'((?:[^'\\\n]|\\.)*+)'|([-+\w.]+))\s*[,;]?\s*"""
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_SIGNS = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}


def read_label_map(data: bytes, path: str, log: Log) -> dict[int, str] | None:
    """The name of each id, in the order of the ids; None, and issues, where the file is not usable.

    Where an item has a ``display_name``, that is the name.
    """
    errors = log.errors
    text = text_of(data, path, log).decode("utf-8", "replace")
    text = _COMMENT.sub(lambda match: match[1] or "", text)
    found: dict[int, str] = {}
    at = len(text) - len(text.lstrip())
    line = 1 + text.count("\n", 0, at)
    while at < len(text):
        item = _ITEM.match(text, at)
        if item is None:
            log.report(BAD_CLASS_LIST, path, line=line, reason="expected items of an id and a name here")
            return None
        keys = {
            m[1]: m[4] if m[4] is not None else _plain(m[2] or m[3] or "") for m in _KEY.finditer(item[1])
        }
        name = keys.get("display_name") or keys.get("name")
        number = keys.get("id", "")
        if name is None or not number.isdecimal() or len(number) > 9:
            log.report(BAD_CLASS_LIST, path, line=line, reason="an item has no name, or no id above 0")
        elif int(number) in found:
            log.report(BAD_CLASS_LIST, path, line=line, reason=f"the id {int(number)} stands twice")
        elif (reason := refuse_class(name)) is not None:
            log.report(BAD_LISTED_CLASS, path, line=line, value=name, reason=reason)
        else:
            found[int(number)] = name
        line += text.count("\n", at, item.end())
        at = item.end()
    return dict(sorted(found.items())) if log.errors == errors else None


def _plain(text: str) -> str:
    """A text without its escapes, of which some are bytes of UTF-8."""

    def sign(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return bytes([int(match[1], 8) & 0xFF])
        return bytes([int(match[2], 16)]) if match[2] else _SIGNS.get(match[3], match[3])

    return _ESCAPE.sub(sign, text.encode()).decode("utf-8", "replace")


def label_map(names: tuple[str, ...]) -> bytes:
    """The file for these classes, whose ids begin at 1: 0 is the background."""
    quoted = (name.replace("\\", "\\\\").replace('"', '\\"') for name in names)
    items = (f'item {{\n  id: {i}\n  name: "{name}"\n}}\n' for i, name in enumerate(quoted, 1))
    return "".join(items).encode()
