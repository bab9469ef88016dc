"""Results as files beside what is printed: ``--report``, a page; ``--markdown``, as for a CI job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from odm.cli._common import reading
from odm.cli._messages import print_notes
from odm.cli._options import TARGET, Option, all_of, option
from odm.cli._print import say
from odm.files import Output
from odm.issues import Log, UsageError, shorten
from odm.tables import Dataset
from odm.terminal import markdown

if TYPE_CHECKING:
    from odm.report import Page, Picture

IMAGES = 200
SIZE = 640
NO_REPORTS = (".pdf", ".md", ".json", ".csv", ".txt", ".zip", ".png", ".svg", ".jpg", ".xml", ".docx")
"""Names that end so are hardly meant as folders."""


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
    )


def report_target(given: Mapping[str, Any], sources: Sequence[str]) -> None:
    """Refuse a target that cannot be used, before any work."""
    if given["report"]:
        from odm.report import check_target

        if given["report"].lower().endswith(NO_REPORTS):
            raise UsageError(
                f"{shorten(given['report'])}: a report is HTML: name it NAME.html, or name a folder"
            )

        check_target(given["report"], overwrite=given["overwrite"], sources=sources)


def pictures_of(
    names: Sequence[str],
    datasets: Sequence[Dataset],
    given: Mapping[str, Any],
) -> list[Picture]:
    """The pictures of images, from the data sets or the folders of the options ``images``."""
    from odm.converters.pictures import locate
    from odm.report import Picture

    folders = [str(side["images"]) for side in given["options"].values() if side.get("images") is not None]
    log = Log()
    found = locate(names, datasets, folders, log, **reading(given))
    print_notes(log, given)
    return [Picture(name, *location) for name, location in zip(names, found, strict=True)]


def write_report(page: Page, given: Mapping[str, Any], sources: Sequence[str]) -> str:
    """Write a report and say where it is; the notes of its pictures are printed."""
    from odm.report import write

    log = Log()
    path = write(
        page,
        given["report"],
        size=given["report_size"],
        overwrite=given["overwrite"],
        sources=sources,
        log=log,
    )
    print_notes(log, given)
    if not given["quiet"]:
        say(f"report written to {path}")
    return path


markdown_option = option("--markdown FILE", "Also write the results to FILE as Markdown.", of=TARGET)


def check_markdown(given: Mapping[str, Any]) -> None:
    """Refuse a file that cannot be written, before any work."""
    if given["markdown"]:
        Output(given["markdown"], single=True, overwrite=given["overwrite"], dry_run=True)


def write_markdown(text: str, gates: Iterable[str], given: Mapping[str, Any]) -> None:
    """Write the results, and after them the gates that failed."""
    failed = "".join(f"- **gate failed**: {markdown(line)}\n" for line in gates)
    with Output(given["markdown"], single=True, overwrite=given["overwrite"]) as output:
        output.write("", (f"{text.rstrip()}\n\n{failed}" if failed else text).encode())
