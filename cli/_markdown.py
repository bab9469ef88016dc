"""``--markdown``: the results as a file too, such as the summary of a CI job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from odm.cli._common import Function, TargetPath
from odm.files import Output
from odm.screen import markdown


def markdown_option(function: Function) -> Function:
    """Add ``--markdown``."""
    option = click.option(
        "--markdown", type=TargetPath(), metavar="FILE", help="Also write the results to FILE as Markdown."
    )
    return option(function)


def check_markdown(given: Mapping[str, Any]) -> None:
    """Refuse a file that cannot be written, before any work."""
    if given["markdown"]:
        _output(given, dry_run=True)


def write_markdown(text: str, gates: Iterable[str], given: Mapping[str, Any]) -> None:
    """Write the results, and after them the gates that failed."""
    failed = "".join(f"- **gate failed**: {markdown(line)}\n" for line in gates)
    with _output(given) as output:
        output.write("", (f"{text.rstrip()}\n\n{failed}" if failed else text).encode())


def _output(given: Mapping[str, Any], *, dry_run: bool = False) -> Output:
    return Output(given["markdown"], single=True, overwrite=given["overwrite"], dry_run=dry_run)
