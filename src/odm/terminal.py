"""Print text that untrusted data cannot forge, in terminals, pages and the logs of builds.

Names of classes, files, keys and columns come from strangers. `Screen` stands before both standard streams
and escapes whatever a terminal or a build log would obey, wherever the text was made. `odm.issues.printable`
makes one line of a message, `cell` a cell of a table, `markdown` Markdown, `latex` LaTeX, `json_text` JSON.
"""

from __future__ import annotations

import functools
import io
import os
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TextIO

from odm.issues import printable, shorten

CELL = 60
"""The most characters of a cell in a table."""
WANTED_NAME, LEAST_NAME = 20, 12
"""The characters to which the column of names of a table that is too wide is cut: first to the larger number,
then other columns are left out, and last it is cut to the smaller number."""

LONG = 2**16
"""Characters of JSON from which msgspec indents it: the standard library takes five times as long with an
indent as without."""

_JOINERS = "\u200c\u200d"
"""Needed to write Persian, Hindi and emoji; they reorder nothing."""

_COMMAND = re.compile(r"^([^\S\n]*)::(?=\S)", re.MULTILINE)
_OLD_COMMAND = re.compile(r"(##\w*)\[")
"""What makes GitHub, and runners like it, take a line of a log for a command: ``::error``, ``##[error]``."""


class Unwritten(Exception):
    """Raised if standard output cannot be written to; ``error`` is the reason."""

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
        """Write text so that no build log takes a line of it for a command. Returns the length of `text`."""
        n = len(text)
        if "::" in text:  # of a first colon the text \u003a is left, which is no command
            text = _COMMAND.sub(r"\1\\u003a:", text)
        self.write_commands(text)
        return n

    def write_commands(self, text: str) -> None:
        """Write text whose lines may begin with ``::``."""
        if "##" in text:
            text = _OLD_COMMAND.sub(r"\1\\u005b", text)
        self._put(escape_unsafe(text, self._keep))

    def _put(self, text: str) -> None:
        try:
            if self.stream is not None:
                self.stream.write(text)
        except (OSError, ValueError) as e:
            self._failed(e)

    @functools.cached_property
    def colour(self) -> bool:
        """Whether text may be coloured: if ``FORCE_COLOR`` is set, or on a terminal that is not dumb, unless
        ``NO_COLOR`` is set.
        """
        if os.environ.get("FORCE_COLOR"):
            return True
        return self.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def write_styled(self, text: str, style: str) -> None:
        """Write text in a style, which is the numbers of an SGR sequence (``1;31``); empty = plain."""
        if style and self.colour:
            self._put(f"\x1b[{style}m{escape_unsafe(text, self._keep)}\x1b[0m")
        else:
            self.write(text)

    def flush(self) -> None:
        """Hand the text written so far to the stream."""
        try:
            if self.stream is not None:
                self.stream.flush()
        except (OSError, ValueError) as e:
            self._failed(e)

    def __del__(self) -> None:
        """Leave the stream as it is: it belongs to the process, and may be closed by now."""

    def _failed(self, error: OSError | ValueError) -> None:
        if self._required:
            raise Unwritten(error if isinstance(error, OSError) else OSError(str(error))) from None
        self.stream = None

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self.stream is not None and self.stream.isatty()

    def fileno(self) -> int:
        """Return the file descriptor of the stream. Raises UnsupportedOperation if it was closed."""
        if self.stream is None:
            raise io.UnsupportedOperation("fileno")
        return self.stream.fileno()


def escape_unsafe(text: str, keep: str = "\n") -> str:
    """Escape everything in a text that a terminal obeys or that moves the text around it.

    These are control characters but for `keep`, separators of lines, marks of direction and other invisible
    signs. Text of any language passes as it is, so that CSV keeps the names that people use.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    unsafe = {
        c
        for c in set(text).difference(keep, _JOINERS)
        # Tags are harmful also where Unicode has not assigned them yet.
        if "\U000e0000" <= c <= "\U000e007f" or unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    }
    return text.translate({ord(c): c.encode("unicode_escape", "surrogatepass").decode() for c in unsafe})


def cell(value: object) -> str:
    """Format a value from the data for a cell of a table: on one line, printable, cut if long."""
    return shorten(value, CELL)


def text_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    drop: Sequence[Sequence[str]] = (),
    spans: Mapping[str, str] | None = None,
    rule: bool = True,
    left: Collection[str] = (),
) -> str:
    """A table as lines of text, without a newline at its end.

    Parameters
    ----------
    headers, rows
        The first column is aligned to the left and the others, but for those in `left`, to the right.
    width
        How many characters a line may have, None = any number. Where they are too few, groups of columns are
        left out in the order of `drop`, then the first column is cut, down to `LEAST_NAME` characters.
    spans
        By header, what stands in a line above it; columns with the same text beside each other share it.
    rule
        Whether a line is drawn below the headers.
    """
    shown = choose_columns(headers, rows, width=width, drop=drop)
    columns = [[headers[i], *(row[i] for row in rows)] for i in shown]
    widths = [_find_width(column) for column in columns]
    if width is not None and (excess := sum(widths) + 2 * (len(widths) - 1) - width) > 0:
        limit = max(min(LEAST_NAME, widths[0]), widths[0] - excess)
        columns[0] = [shorten(text, limit) for text in columns[0]]
        widths[0] = _find_width(columns[0])
    aligned = []
    for i, column in enumerate(columns):
        spaces = [" " * (widths[i] - _count_columns(text)) for text in column]
        to_left = i == 0 or column[0] in left
        aligned.append([t + s if to_left else s + t for t, s in zip(column, spaces, strict=True)])
    lines = ["  ".join(row).rstrip() for row in zip(*aligned, strict=True)]
    if rule:
        lines.insert(1, "  ".join("-" * w for w in widths))
    spans_line = _format_spans([headers[i] for i in shown], widths, spans or {})
    return "\n".join([*([spans_line] if spans_line else []), *lines])


def choose_columns(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None, drop: Sequence[Sequence[str]]
) -> list[int]:
    """Choose the columns, by index, of a table that are shown in `width` characters: groups of headers in
    `drop` are left out, in order, until the others fit with the first column cut to `WANTED_NAME`.
    """
    shown = list(range(len(headers)))
    if width is None:
        return shown
    widths = [_find_width(column) for column in zip(headers, *rows, strict=True)]
    widths[0] = min(widths[0], max(_count_columns(headers[0]), WANTED_NAME))
    for group in drop:
        if sum(widths[i] + 2 for i in shown) - 2 <= width:
            break
        shown = [i for i in shown if headers[i] not in group]
    return shown


def _format_spans(headers: Sequence[str], widths: Sequence[int], spans: Mapping[str, str]) -> str:
    """Return the line above the headers, with the titles of `spans` centred over their columns, between
    dashes where there is room; empty without any.
    """
    line, column_start, i = "", 0, 0
    while i < len(headers):
        span, last_column = spans.get(headers[i], ""), i
        while last_column + 1 < len(headers) and span and spans.get(headers[last_column + 1]) == span:
            last_column += 1
        room = sum(widths[i : last_column + 1]) + 2 * (last_column - i)  # two blanks between columns
        if span:
            title = f" {span} ".center(room, "-") if len(span) + 4 <= room else span.center(room)
            # A long title begins above the columns before its own, but never touches the title before it.
            line = line.rstrip()
            start = max(min(column_start, column_start + room - len(title)), len(line) + 2 if line else 0)
            line = line.ljust(start) + title
        column_start += room + 2
        i = last_column + 1
    return line.rstrip()


def _find_width(column: Sequence[str]) -> int:
    """Return how many places of a terminal the widest text takes."""
    return max(map(len if "".join(column).isascii() else _count_columns, column))


def _count_columns(text: str) -> int:
    """Return how many places of a terminal a text takes."""
    if text.isascii():
        return len(text)
    # Wide (W) and fullwidth (F) characters take two.
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def wrap_line(text: str, width: int | None, indent: str = "") -> str:
    """Break a line between words into lines of up to `width` places, those after the first indented.

    A word that is longer is not broken.
    """
    if width is None or _count_columns(text) <= width:
        return text
    first_word, *words = text.lstrip(" ").split(" ")
    lines = [text[: len(text) - len(text.lstrip(" "))] + first_word]  # blanks before it stay
    for word in words:
        longer_line = f"{lines[-1]} {word}"
        if _count_columns(longer_line) <= width:
            lines[-1] = longer_line
        else:
            lines.append(indent + word)
    return "\n".join(lines)


_LINKS = re.compile(r"(@)(?=[\w.])|(#)(?=\d)|(\bGH)(?=-\d)|(:)(?=//)|(\bwww)(?=\.)", re.IGNORECASE)
"""What GitHub makes a link of, and where it is cut in two: names of people, numbers of issues, addresses."""


def markdown(text: str) -> str:
    """Escape a text so that Markdown shows it as it is, also inside a table."""
    for sign in "\\|*_`<>[]~&$":
        text = text.replace(sign, "\\" + sign)
    # A backslash does not keep GitHub from linking; a comment, of which nothing is shown, does.
    return _LINKS.sub(lambda match: f"{match[0]}<!-- -->", text)


def markdown_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[str] = ()
) -> str:
    """A table in Markdown without a newline at its end.

    All but the first column, and those in `left`, are aligned to the right.
    """
    from tabulate import tabulate

    align = ["left", *("left" if header in left else "right" for header in headers[1:])] if rows else None
    cells = [[markdown(cell) for cell in row] for row in rows]
    titles = [markdown(title) for title in headers]
    return tabulate(cells, titles, tablefmt="github", disable_numparse=True, colalign=align)


_LATEX: Mapping[str, str] = {
    **{sign: f"\\{sign}" for sign in "{}$&#_%"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    **{sign: f"{{{sign}}}" for sign in "[]*"},  # at the start of a row or an item they are no options
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
}


def latex(text: str) -> str:
    """Escape a text so that LaTeX sets it as it is, also inside a table; hyphens do not join to dashes."""
    return re.sub("-(?=-)", "-{}", "".join(_LATEX.get(sign, sign) for sign in printable(text)))


def json_text(data: Any) -> str:
    """Write plain data as indented JSON without a newline at its end; what is not printable is escaped."""
    import json

    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    if len(text) > LONG and text.isprintable():  # msgspec takes no lone surrogates
        import msgspec

        return msgspec.json.format(text, indent=1)
    text = json.dumps(data, ensure_ascii=False, indent=1)
    unsafe = {c for c in set(text) if not c.isprintable() and c != "\n"}  # a line break is never in a string
    return text.translate({ord(c): json.dumps(c)[1:-1] for c in unsafe}) if unsafe else text
