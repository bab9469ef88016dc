"""What the commands that write a report share: ``--report`` and the options beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from odm.cli._common import Function, TargetPath, print_notes, reading
from odm.cli._print import say
from odm.issues import Log, UsageError, shorten
from odm.tables import Dataset

if TYPE_CHECKING:
    from odm.report import Page, Picture

IMAGES = 200
SIZE = 640
NO_REPORTS = (".pdf", ".md", ".json", ".csv", ".txt", ".zip", ".png", ".svg", ".jpg", ".xml", ".docx")
"""Names that end so are hardly meant as folders."""


def report_options(*, name: str = "--report", required: bool = False) -> Callable[[Function], Function]:
    """Add ``--report`` (or under another name) and the options of its pictures and title."""

    def decorate(function: Function) -> Function:
        for option in (
            click.option("--report-title", metavar="TEXT", default="", help="Title of the report."),
            click.option(
                "--report-size",
                type=click.IntRange(16, 10_000),
                metavar="PX",
                default=SIZE,
                show_default=True,
                help="Longest side of an image in the report.",
            ),
            click.option(
                "--report-images",
                type=click.IntRange(1),
                metavar="N",
                default=IMAGES,
                show_default=True,
                help="Show at most N images in the report.",
            ),
            click.option(
                name,
                "report",
                type=TargetPath(),
                metavar="FILE|DIR",
                required=required,
                help="Write an HTML report as one file (NAME.html) or a folder; --images gives the images.",
            ),
        ):
            function = option(function)
        return function

    return decorate


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
    options: Iterable[Mapping[str, Any]],
    given: Mapping[str, Any],
) -> list[Picture]:
    """The pictures of images, from the data sets or the folders of the options ``images``."""
    from odm.converters.photos import locate
    from odm.report import Picture

    folders = [str(side["images"]) for side in options if side.get("images") is not None]
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
