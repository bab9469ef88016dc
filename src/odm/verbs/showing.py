"""``odm.stats`` and ``odm.show``: what is in one source, in numbers and as pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

from odm.converters import Loaded
from odm.converters.pending import SHAPE_WORDS
from odm.converters.plots import save_plots
from odm.converters.statistics import Statistics, describe
from odm.drawing import check_matplotlib
from odm.files import MAX_SIZE
from odm.issues import Log
from odm.tables import Dataset, Kind
from odm.verbs.reports import IMAGES, SIZE, PrintLog, pictures_of, report_target, shown, write_report
from odm.verbs.sources import Source, gathered, load_source, only, paths_of, verb
from odm.verbs.words import FormatName, Path, ReadOptions
from odm.views import WebPage

if TYPE_CHECKING:
    from odm.report import Page


@verb
def stats(
    source: Source,
    *,
    format: FormatName | None = None,  # noqa: A002 -- the field's word
    kind: Kind | None = None,
    gt: Source | None = None,
    skip_bad: bool = False,
    skip_bad_files: bool = False,
    plots: Path | None = None,
    report: Path | None = None,
    report_images: int = IMAGES,
    report_size: int = SIZE,
    report_title: str = "",
    language: Literal["en", "zh"] | None = None,
    overwrite: bool = False,
    max_size: int = MAX_SIZE,
    encoding: str = "",
    follow_links: bool = False,
    log: Log | None = None,
    **options: Unpack[ReadOptions],
) -> Statistics:
    """Count and measure what is in a source, as ``odm stats`` does.

    Parameters
    ----------
    source
        A path, a list of paths, a `Dataset`, or what `odm.eval` takes.
    plots, report, overwrite
        A folder for plots (extra ``[plot]``), a page (``NAME.html``) or a folder for it, and whether they may
        replace what is there.
    report_images, report_size, report_title, language
        At most how many images the page shows, the longest side of each in pixels, its title, and its
        language, which is otherwise that of the reader's browser.
    format, kind, gt, skip_bad, skip_bad_files, max_size, encoding, follow_links, **options
        As for `odm.read`.
    log
        Collects issues and notes.

    Raises
    ------
    DataError, UsageError, PathError
        As `odm.read`.
    """
    given = gathered(locals(), "stats")
    log = Log() if log is None else log
    report_target(given, sources=paths_of(source))
    loaded = load_one(source, given, log)
    statistics, _ = measure(only(loaded), given, log)
    if given["report"]:
        write_statistics_page(only(loaded), statistics, given, log, log.extend)
    return statistics


def load_one(source: Any, given: Mapping[str, Any], log: Log) -> Loaded | Dataset:
    """The source; a missing Matplotlib is said before it is read."""
    if given["plots"] is not None:
        check_matplotlib()
    return load_source(source, {**given, "wants": SHAPE_WORDS}, log, "stats")[0]


def measure(dataset: Dataset, given: Mapping[str, Any], log: Log) -> tuple[Statistics, tuple[str, ...]]:
    """The numbers, and the names of the plots that were written, if they were asked for."""
    statistics = describe(dataset)
    if given["plots"] is None:
        return statistics, ()
    return statistics, save_plots(dataset, statistics, given["plots"], log, overwrite=given["overwrite"])


def write_statistics_page(
    dataset: Dataset, statistics: Statistics, given: Mapping[str, Any], log: Log, print_log: PrintLog
) -> str:
    """Write the page of statistics, and answer where it is."""
    from odm.report import statistics_page

    sources = [dataset.path] if dataset.path else []
    page = statistics_page(
        dataset,
        statistics.to_dict(),
        pictures_of(dataset.images.name, [dataset], given, print_log),
        log=log,
        sources=sources,
        title=given["report_title"],
        images=given["report_images"],
    )
    return write_report(page, given, sources, print_log)


@verb
def show(
    source: Source,
    *,
    out: Path | None = None,
    report_images: int = IMAGES,
    report_size: int = SIZE,
    report_title: str = "",
    language: Literal["en", "zh"] | None = None,
    overwrite: bool = False,
    format: FormatName | None = None,  # noqa: A002 -- the field's word
    kind: Kind | None = None,
    gt: Source | None = None,
    skip_bad: bool = False,
    skip_bad_files: bool = False,
    max_size: int = MAX_SIZE,
    encoding: str = "",
    follow_links: bool = False,
    log: Log | None = None,
    **options: Unpack[ReadOptions],
) -> WebPage:
    """Show annotations or detections drawn on their images, as ``odm show`` does.

    >>> odm.show("labels/", images="photos/")  # doctest: +SKIP

    Parameters
    ----------
    source
        A path, a list of paths, a `Dataset`, or what `odm.eval` takes.
    out, overwrite
        Where to write the page: ``NAME.html``, or a folder, and whether it may replace what is there. Without
        `out` the page is only returned; in a notebook it displays itself.
    report_images, report_size, report_title, language
        At most how many images, the longest side of each in pixels, the title, and the language, which is
        otherwise that of the reader's browser.
    format, kind, gt, skip_bad, skip_bad_files, max_size, encoding, follow_links, **options
        As for `odm.read`; ``images`` is the folder of the pictures.
    log
        Collects issues and notes.

    Raises
    ------
    DataError, UsageError, PathError
        As `odm.read`.
    """
    given = gathered({**locals(), "inline": True}, "show")
    log = Log() if log is None else log
    report_target(given, sources=paths_of(source))
    dataset, sides = load_shown(source, given, log)
    return shown(page_of(dataset, sides, given, log, log.extend), given, paths_of(source), log.extend)


def load_shown(source: Any, given: Mapping[str, Any], log: Log) -> tuple[Dataset, list[Dataset]]:
    """What is shown, and where its pictures and sizes may be known."""
    loaded, truth = load_source(source, {**given, "inline": True, "wants": SHAPE_WORDS}, log, "show")
    dataset = only(loaded)
    return dataset, [dataset] if truth is None else [dataset, truth()]


def page_of(
    dataset: Dataset, sides: Sequence[Dataset], given: Mapping[str, Any], log: Log, print_log: PrintLog
) -> Page:
    """The page of a data set."""
    from odm.report import dataset_page

    return dataset_page(
        dataset,
        pictures_of(dataset.images.name, sides, given, print_log),
        log=log,
        sources=[dataset.path] if dataset.path else [],
        title=given["report_title"],
        images=given["report_images"],
    )
