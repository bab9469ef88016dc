"""What images and classes may be called."""

from __future__ import annotations

import unicodedata

from odm.files import BOM
from odm.issues import Code

BAD_CLASS_NAME = Code(
    "bad-class-name",
    "error",
    "{value!r} cannot be the name of a class: {reason}",
    "rename the class",
    "Control characters and line separators in a class name break lines and tables, and an empty name "
    "cannot be told from a missing one.",
    row=True,
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
