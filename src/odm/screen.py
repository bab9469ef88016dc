"""Text for terminals, pages and the logs of builds, which untrusted data cannot forge.

Names of classes, files, keys and columns come from strangers. `Screen` stands before both standard streams
and escapes whatever a terminal or a build log would obey, wherever the text was made. `odm.issues.printable`
makes one line of a message, `cell` a cell of a table, `markdown` Markdown, `json_text` JSON.
"""

from __future__ import annotations

import io
import re
import unicodedata
from typing import Any, TextIO

from odm.issues import shorten

CELL = 60
"""The most characters of a cell in a table."""

_JOINERS = "\u200c\u200d"
"""Needed to write Persian, Hindi and emoji; they reorder nothing."""

_COMMAND = re.compile(r"^([^\S\n]*)::(?=\S)", re.MULTILINE)
_OLD_COMMAND = re.compile(r"(##\w*)\[")
"""What makes GitHub, and runners like it, take a line of a log for a command: ``::error``, ``##[error]``."""


class Unwritten(Exception):
    """The standard output takes no more; ``error`` says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class Screen(io.TextIOBase):
    """A standard stream that escapes control characters, bidi marks and the commands of build logs.

    Parameters
    ----------
    stream
        Where the text goes; None, a stream that was closed from the start, takes everything.
    required
        Whether a failure is raised, as `Unwritten`, or the text is dropped: messages may get lost, for the
        exit code says the same.
    keep
        The control characters that pass.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, stream: TextIO | None, *, required: bool, keep: str = "\n") -> None:
        super().__init__()
        self.stream = stream
        self._required = required
        self._keep = keep

    def write(self, text: str, /) -> int:
        """Write text; its lines are no commands, whatever they begin with."""
        n = len(text)
        if "::" in text:
            text = _COMMAND.sub(r"\1\\u003a:", text)
        self.write_commands(text)
        return n

    def write_commands(self, text: str) -> None:
        """Write text whose lines may begin with ``::``."""
        if "##" in text:
            text = _OLD_COMMAND.sub(r"\1\\u005b", text)
        try:
            if self.stream is not None:
                self.stream.write(harmless(text, self._keep))
        except (OSError, ValueError) as e:
            self._failed(e)

    def flush(self) -> None:
        """Hand over what was written."""
        try:
            if self.stream is not None:
                self.stream.flush()
        except (OSError, ValueError) as e:
            self._failed(e)

    def _failed(self, error: OSError | ValueError) -> None:
        if self._required:
            raise Unwritten(error if isinstance(error, OSError) else OSError(str(error))) from None
        self.stream = None

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self.stream is not None and self.stream.isatty()

    def fileno(self) -> int:
        """The descriptor."""
        if self.stream is None:
            raise io.UnsupportedOperation("fileno")
        return self.stream.fileno()


def harmless(text: str, keep: str = "\n") -> str:
    """`text` with everything escaped that a terminal obeys or that moves the text around it.

    These are control characters, separators of lines, marks of direction and other invisible signs. Text of
    any language passes as it is, so that CSV keeps the names that people use.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return text.translate({ord(c): _escape(c) for c in set(text).difference(keep) if _is_harmful(c)})


def _is_harmful(c: str) -> bool:
    return unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in _JOINERS


def _escape(c: str) -> str:
    return c.encode("unicode_escape", "surrogatepass").decode()


def cell(value: object) -> str:
    """A value from the data for a cell of a table that people read: on one line, printable, cut if long."""
    return shorten(value, CELL)


def markdown(text: str) -> str:
    """Text that Markdown shows as it is, also inside a table."""
    for sign in "\\|*_`<>[]~&$":
        text = text.replace(sign, "\\" + sign)
    return text


def json_text(data: Any) -> str:
    """Plain data as indented JSON without a newline at its end; what is not printable is escaped, exactly."""
    import json

    text = json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1)
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    strange = {c for c in set(text) if not c.isprintable() and c != "\n"}  # a line break is never in a string
    return text.translate({ord(c): json.dumps(c)[1:-1] for c in strange})
