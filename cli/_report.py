"""Results as files beside what is printed: ``--report``, a page; ``--markdown``, as for a CI job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from odm.cli._options import TARGET, Option, all_of, choice, option
from odm.cli._print import say
from odm.files import Output
from odm.terminal import harmless, markdown
from odm.verbs.reports import IMAGES, LANGUAGES, SIZE


def report_options(*, name: str = "--report", required: bool = False) -> Option:
    """``--report`` (or under another name) and the options of its pictures and title."""
    return all_of(
        option(
            f"{name} FILE|DIR",
            "Write an HTML report as one file (NAME.html) or a folder; --images gives the images.",
            "report",
            of=TARGET,
            required=required,
        ),
        option(
            "--report-images N", "Show at most N images in the report.", of=click.IntRange(1), default=IMAGES
        ),
        option(
            "--report-size PX",
            "Longest side of an image in the report.",
            of=click.IntRange(16, 10_000),
            default=SIZE,
        ),
        option("--report-title TEXT", "Title of the report.", default=""),
        choice("--language", LANGUAGES, "Language of the report; otherwise the reader's browser decides."),
    )


def say_written(path: str, given: Mapping[str, Any]) -> None:
    """Say where a report is."""
    if path and not given["quiet"]:
        say(f"report written to {path}")


markdown_option = option("--markdown FILE", "Also write the results to FILE as Markdown.", of=TARGET)


def check_markdown(given: Mapping[str, Any]) -> None:
    """Refuse a file that cannot be written, before any work."""
    if given["markdown"]:
        Output(given["markdown"], single=True, overwrite=given["overwrite"], dry_run=True)


def write_markdown(text: str, gates: Iterable[str], given: Mapping[str, Any]) -> None:
    """Write the results, and after them the gates that failed, with what is escaped on a terminal escaped."""
    failed = "".join(f"- **gate failed**: {markdown(line)}\n" for line in gates)
    with Output(given["markdown"], single=True, overwrite=given["overwrite"]) as output:
        output.write("", harmless(f"{text.rstrip()}\n\n{failed}" if failed else text).encode())
