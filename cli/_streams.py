"""The one way to the standard streams; nothing else of the command line prints."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from odm.issues import Issue, printable
from odm.terminal import Screen, wrap_line

if TYPE_CHECKING:
    from tqdm import tqdm

T = TypeVar("T")

DELAY = 1
"""Seconds before a progress bar is shown."""

BARS: list[tqdm[Any]] = []
"""The progress bars on the terminal, which are wiped out before anything is printed."""


@contextlib.contextmanager
def screens() -> Iterator[None]:
    """Replace both standard streams by a `Screen` in the block, which escapes control characters."""
    streams = sys.stdout, sys.stderr
    with contextlib.ExitStack() as stack:
        # A failure to write results is raised; messages may get lost, as the exit code says the same.
        sys.stdout = Screen(_buffer_stream(sys.stdout, stack), required=True)
        sys.stderr = Screen(_buffer_stream(sys.stderr, stack), required=False)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = streams


def _buffer_stream(stream: TextIO | None, stack: contextlib.ExitStack) -> TextIO | None:
    """Return the stream as UTF-8 in any locale, with a buffer that writes everything.

    With ``PYTHONUNBUFFERED`` a stream has no buffer, and of a text that a pipe takes only in part the rest is
    lost without an error.
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
    """Print finished lines to standard output, or with `err` to standard error.

    With `commands` they may be workflow commands of GitHub, whose own text has been escaped. Where there is
    colour, that of `severities` is shown, and the lines in `headlines` stand out.
    """
    for bar in BARS:
        bar.clear()
    screen = _get_err() if err else _get_out()
    page = str(text).removesuffix("\n") + "\n" if str(text) else ""
    if commands:
        screen.write_commands(page)
    elif (severities or headlines) and screen.colour:
        for line in page.removesuffix("\n").split("\n"):
            for piece, style in _split_by_style(line, headlines, severities=severities):
                screen.write_styled(piece, style)
            screen.write("\n")
    else:
        screen.write(page)
    screen.flush()


def say(message: Issue | str) -> None:
    """Print one message to the standard error stream, whatever it holds; see `lay_out`."""
    show(lay_out(message, err=True), err=True, severities=True)


def lay_out(message: Issue | str, *, err: bool = False) -> str:
    """Return a message on one line, or on several if the terminal is too narrow for it.

    Lines are broken between words and indented. The text of an issue then begins below its place and code.
    """
    screen = _get_err() if err else _get_out()
    width = _get_columns(screen) if screen.isatty() else None
    line = printable(str(message))
    if not isinstance(message, Issue) or width is None or wrap_line(line, width) == line:
        return wrap_line(line, width, "  ")
    return f"{wrap_line(message.head, width, '  ')}\n{wrap_line(f'  {message.message}', width, '  ')}"


HEADLINE = "1;36"
STYLES = {"error": "1;31", "gate failed": "1;31", "Error": "1;31", "warning": "1;33", "note": "2"}
# Severities in "odm: error: ...", "Error: ...", "   3  warning  CODE" and "labels/a.txt:2: error CODE ...".
_SEVERITY = re.compile(
    r"^(?P<before>(?:odm: )?|[ 0-9]+  |.*?: (?=\w+ [a-z0-9-]+ ))"
    r"(?P<word>error|warning|note|gate failed|Error)\b"
)


def _split_by_style(line: str, headlines: Collection[str], *, severities: bool) -> list[tuple[str, str]]:
    """Split a line into pieces, each with its style: a severity has a colour, a headline is one piece."""
    if line in headlines:
        return [(line, HEADLINE)]
    match = _SEVERITY.match(line) if severities else None
    if match is None:
        return [(line, "")]
    word = match["word"]
    return [(match["before"], ""), (word, STYLES[word]), (line[match.end() :], "")]


def reply(text: str) -> None:
    """Print for a shell that asked for completions, in whose lines a tab separates."""
    screen = Screen(_get_out().stream, required=True, keep="\n\t")
    screen.write_commands(text.removesuffix("\n") + "\n")
    screen.flush()


def progress(items: Iterable[T], title: str) -> Iterator[T]:
    """Yield the items, and show a progress bar on the terminal if they take longer than `DELAY`."""
    from tqdm import tqdm

    tqdm.monitor_interval = 0  # no thread of its own
    screen = Screen(_get_err().stream, required=False, keep="\n\r")
    bar = tqdm(items, desc=title, leave=False, delay=DELAY, file=screen)
    BARS.append(bar)  # `show` wipes it out before it prints
    try:
        yield from bar
    finally:
        BARS.remove(bar)


def is_terminal() -> bool:
    """Return whether messages go to a terminal."""
    return _get_err().isatty()


def get_table_width(*, wide: bool) -> int | None:
    """Return how many characters wide a table may be: as the terminal, else 80; None (`wide`) = any width."""
    return None if wide else _get_columns(_get_out()) or 80


def _get_columns(screen: Screen) -> int | None:
    """Return how many characters fit on a line: ``COLUMNS``, or the terminal's; None without a terminal."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(screen.fileno()).columns or None
    except (OSError, ValueError):
        return None


def _get_out() -> Screen:
    return sys.stdout if isinstance(sys.stdout, Screen) else Screen(sys.stdout, required=True)


def _get_err() -> Screen:
    return sys.stderr if isinstance(sys.stderr, Screen) else Screen(sys.stderr, required=False)
