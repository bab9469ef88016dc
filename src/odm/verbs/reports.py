"""Pages that a function or a command writes: where, with which pictures, and what is said about them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from odm.files import Output
from odm.issues import Log, UsageError, shorten, spell
from odm.tables import Dataset
from odm.verbs.shared import IMAGES, SIZE, PageOptions, ReadingOptions
from odm.verbs.words import Path
from odm.views import WebPage

if TYPE_CHECKING:
    from odm.report import Page, Picture

NO_REPORTS = (".pdf", ".md", ".json", ".csv", ".txt", ".zip", ".png", ".svg", ".jpg", ".xml", ".docx")
"""Suffixes that are no suffixes of folders, and not of HTML."""

PrintLog = Callable[[Log], None]
"""Takes the notes about a page: a command prints them, a function keeps them."""


Put = Callable[[str, bytes], object]
"""Takes the name and the content of a file."""


def check_target(path: Path | None, *, overwrite: bool) -> None:
    """Raise PathError for a target that cannot be used; nothing is written."""
    if path:
        Output(os.fspath(path), overwrite=overwrite, dry_run=True)


def write_files(path: Path | None, save: Callable[[Put], object], *, overwrite: bool) -> None:
    """Write files into a folder, if `path` names one; `save` is called with a function that writes a file."""
    if path:
        with Output(os.fspath(path), overwrite=overwrite) as output:
            save(output.write)


def check_report(
    target: Path | None, options: PageOptions, sources: Sequence[str], *, is_shown: bool = False
) -> None:
    """Raise PathError for a target that cannot be used, and UsageError for one that is not HTML.

    Without a target, an option of the page raises UsageError, unless the page `is_shown` in a notebook.
    """
    if target:
        from odm.report import check_target

        path = os.fspath(target)
        if path.lower().endswith(NO_REPORTS):
            raise UsageError(f"{shorten(path)}: a report is HTML: name it NAME.html, or name a folder")
        check_target(path, overwrite=options.overwrite, sources=sources)
    elif not is_shown:
        defaults = {"report_images": IMAGES, "report_size": SIZE, "report_title": "", "language": None}
        for name, default in defaults.items():
            if getattr(options, name) != default:
                raise UsageError(f"{spell(name)} is used with {spell('report')} only")


def find_pictures(
    names: Sequence[str], datasets: Sequence[Dataset], options: ReadingOptions, print_log: PrintLog
) -> list[Picture]:
    """Return the picture of each image in `names`; the datasets or the options ``images`` name its file."""
    from odm.converters.pictures import locate
    from odm.report import Picture

    folders = [str(side["images"]) for side in options.formats.values() if side.get("images") is not None]
    log = Log()
    locations = locate(names, datasets, folders, log, **options.opening_arguments())
    print_log(log)
    return [Picture(name, *path_and_size) for name, path_and_size in zip(names, locations, strict=True)]


def write_report(
    page: Page, target: Path | None, options: PageOptions, sources: Sequence[str], print_log: PrintLog
) -> str:
    """Write a report, and return its path."""
    from odm.report import write

    log = Log()
    path = write(
        page,
        os.fspath(target or ""),
        size=options.report_size,
        overwrite=options.overwrite,
        sources=sources,
        log=log,
        language=options.language,
    )
    print_log(log)
    return path


def show_page(
    page: Page, target: Path | None, options: PageOptions, sources: Sequence[str], print_log: PrintLog
) -> WebPage:
    """Write the page if there is a target, otherwise return it as HTML for a notebook."""
    if target:
        return WebPage(path=write_report(page, target, options, sources, print_log))
    from odm.report import inline

    log = Log()
    text = inline(page, size=options.report_size, log=log, language=options.language)
    print_log(log)
    return WebPage(html=text)
