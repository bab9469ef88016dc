"""Pages that a function or a command writes: where, with which pictures, and what is said about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odm.issues import Log, UsageError, shorten
from odm.tables import Dataset
from odm.verbs.sources import reading
from odm.views import WebPage

if TYPE_CHECKING:
    from odm.report import Page, Picture

IMAGES = 200
LANGUAGES = ("en", "zh")
"""Those of `odm.report.words`, which is imported when a page is written."""
SIZE = 640
NO_REPORTS = (".pdf", ".md", ".json", ".csv", ".txt", ".zip", ".png", ".svg", ".jpg", ".xml", ".docx")
"""Names that end so are hardly meant as folders."""

PrintLog = Callable[[Log], None]
"""Takes the notes about a page: a command prints them, a function keeps them."""


def report_target(given: Mapping[str, Any], sources: Sequence[str]) -> None:
    """Refuse a target that cannot be used, and options of a page without one, before any work."""
    if given["report"]:
        from odm.report import check_target

        if given["report"].lower().endswith(NO_REPORTS):
            raise UsageError(
                f"{shorten(given['report'])}: a report is HTML: name it NAME.html, or name a folder"
            )

        check_target(given["report"], overwrite=given["overwrite"], sources=sources)
    elif not given.get("inline"):
        usual = {"report_images": IMAGES, "report_size": SIZE, "report_title": "", "language": None}
        for name, value in usual.items():
            if given[name] != value:
                raise UsageError(f"--{name.replace('_', '-')} is used with --report only")


def pictures_of(
    names: Sequence[str], datasets: Sequence[Dataset], given: Mapping[str, Any], print_log: PrintLog
) -> list[Picture]:
    """The pictures of images, from the data sets or the folders of the options ``images``."""
    from odm.converters.pictures import locate
    from odm.report import Picture

    folders = [str(side["images"]) for side in given["options"].values() if side.get("images") is not None]
    log = Log()
    found = locate(names, datasets, folders, log, **reading(given))
    print_log(log)
    return [Picture(name, *location) for name, location in zip(names, found, strict=True)]


def write_report(page: Page, given: Mapping[str, Any], sources: Sequence[str], print_log: PrintLog) -> str:
    """Write a report, and answer where it is."""
    from odm.report import write

    log = Log()
    path = write(
        page,
        given["report"],
        size=given["report_size"],
        overwrite=given["overwrite"],
        sources=sources,
        log=log,
        language=given["language"],
    )
    print_log(log)
    return path


def shown(page: Page, given: Mapping[str, Any], sources: Sequence[str], print_log: PrintLog) -> WebPage:
    """The page as it was asked for: written, or for a notebook."""
    if given["report"]:
        return WebPage(path=write_report(page, given, sources, print_log))
    from odm.report import inline

    log = Log()
    text = inline(page, size=given["report_size"], log=log, language=given["language"])
    print_log(log)
    return WebPage(html=text)
