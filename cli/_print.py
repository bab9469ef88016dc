"""The one way to the standard streams; nothing else of the command line prints."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Collection, Iterator
from typing import Any, TextIO

from odm.issues import printable
from odm.screen import Screen


@contextlib.contextmanager
def screens() -> Iterator[None]:
    """Stand before both standard streams, so that text of any origin goes through a `Screen`."""
    streams = sys.stdout, sys.stderr
    with contextlib.ExitStack() as stack:
        sys.stdout = Screen(_buffered(sys.stdout, stack), required=True)
        sys.stderr = Screen(_buffered(sys.stderr, stack), required=False)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = streams


def _buffered(stream: TextIO | None, stack: contextlib.ExitStack) -> TextIO | None:
    """The stream as UTF-8 in any locale, written to the end.

    With ``PYTHONUNBUFFERED`` Python loses without an error what a pipe or a disk takes only in part.
    """
    settings: Any = {"encoding": "utf-8", "errors": "backslashreplace", "newline": "\n"}
    raw = getattr(stream, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        wrapped = io.TextIOWrapper(io.BufferedWriter(raw), **settings)
        stack.callback(_detach, wrapped)
        return wrapped
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(**settings)
    return stream


def _detach(wrapped: io.TextIOWrapper[Any]) -> None:
    """Leave the stream below open when the wrapper goes."""
    with contextlib.suppress(OSError):
        wrapped.detach().detach()


def show(
    text: object,
    *,
    err: bool = False,
    commands: bool = False,
    severities: bool = False,
    headlines: Collection[str] = (),
) -> None:
    """Print lines that were made for it, to the standard output unless `err` says otherwise.

    With `commands` they may be workflow commands of GitHub, whose own text has been escaped. Where there is
    colour, that of `severities` is shown, and the lines in `headlines` stand out.
    """
    screen = _err() if err else _out()
    page = str(text).removesuffix("\n") + "\n" if str(text) else ""
    if commands:
        screen.write_commands(page)
    elif (severities or headlines) and screen.colour:
        for line in page.removesuffix("\n").split("\n"):
            for piece, style in _styled(line, headlines, severities=severities):
                screen.write_styled(piece, style)
            screen.write("\n")
    else:
        screen.write(page)
    screen.flush()


def say(text: object) -> None:
    """Print one line to the standard error stream, whatever the text holds."""
    show(printable(str(text)), err=True, severities=True)


HEADLINE = "1;36"
STYLES = {"error": "1;31", "gate failed": "1;31", "Error": "1;31", "warning": "1;33", "note": "2"}
_SEVERITY = re.compile(
    r"^(?P<before>(?:odm: )?|[ 0-9]+  |.*?: (?=\w+ [a-z0-9-]+ ))"
    r"(?P<word>error|warning|note|gate failed|Error)\b"
)


def _styled(line: str, headlines: Collection[str], *, severities: bool) -> list[tuple[str, str]]:
    """The pieces of a line, each with its style."""
    if line in headlines:
        return [(line, HEADLINE)]
    match = _SEVERITY.match(line) if severities else None
    if match is None:
        return [(line, "")]
    word = match["word"]
    return [(match["before"], ""), (word, STYLES[word]), (line[match.end() :], "")]


def reply(text: str) -> None:
    """Print for a shell that asked for completions, in whose lines a tab separates."""
    screen = Screen(_out().stream, required=True, keep="\n\t")
    screen.write_commands(text.removesuffix("\n") + "\n")
    screen.flush()


def progress_screen() -> Screen | None:
    """The terminal that a progress bar is drawn on, which returns to the start of its line; None if none."""
    screen = _err()
    return Screen(screen.stream, required=False, keep="\n\r") if screen.isatty() else None


def terminal_width() -> int:
    """How many characters fit on a line of the standard output: ``COLUMNS``, or the terminal's, or 80."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(_out().fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _out() -> Screen:
    return sys.stdout if isinstance(sys.stdout, Screen) else Screen(sys.stdout, required=True)


def _err() -> Screen:
    return sys.stderr if isinstance(sys.stderr, Screen) else Screen(sys.stderr, required=False)
