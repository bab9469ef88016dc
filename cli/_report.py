"""Results as files beside what is printed: ``--report``, a page; ``--markdown``, as for a CI job."""

from __future__ import annotations

from collections.abc import Iterable

from odm.cli._records import MessageOptions
from odm.cli._streams import say
from odm.files import Output
from odm.terminal import escape_unsafe, markdown


def say_written(path: str, options: MessageOptions) -> None:
    """Say where a report is."""
    if path and not options.quiet:
        say(f"report written to {path}")


def check_markdown(path: str | None, *, overwrite: bool) -> None:
    """Refuse a file that cannot be written, before any work."""
    if path:
        Output(path, single=True, overwrite=overwrite, dry_run=True)  # checks the path


def write_markdown(path: str, text: str, gates: Iterable[str], *, overwrite: bool) -> None:
    """Write the results and the failed gates as Markdown, escaped as on a terminal."""
    failed = "".join(f"- **gate failed**: {markdown(line)}\n" for line in gates)
    with Output(path, single=True, overwrite=overwrite) as output:  # "" names the only file, `path` itself
        output.write("", escape_unsafe(f"{text.rstrip()}\n\n{failed}" if failed else text).encode())
