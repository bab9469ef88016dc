"""``odm.stats`` and ``odm.show``: what is in one source, in numbers and as pages."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from odm.converters import Loaded
from odm.converters.pending import SHAPE_WORDS
from odm.converters.plots import save_plots
from odm.converters.statistics import Statistics, describe
from odm.drawing import check_matplotlib
from odm.issues import Log
from odm.tables import Dataset, Kind
from odm.verbs.choosing import ChoiceOptions, ScoreOptions, choose
from odm.verbs.options import OUTPUT, READING, argument, option
from odm.verbs.reports import PrintLog, check_report, find_pictures, show_page, write_report
from odm.verbs.shared import PAGE_HELP, PageOptions, ReadingOptions, ReportOptions, SkipFilesOptions
from odm.verbs.sources import Source, get_dataset, list_paths, make_truth_reader, read_source, verb
from odm.verbs.words import FormatName, Path, ReadFormatOptions
from odm.views import WebPage

if TYPE_CHECKING:
    from odm.report import Page


class SourceOptions(ReadingOptions, SkipFilesOptions, heading=READING):
    """How the source of a command that has only one is read."""

    format: FormatName | None = option(
        "Format of SRC; auto-detected if omitted.", "FORMAT", default=None, short=("--from",)
    )
    kind: Kind | None = option("Read SRC as ground truth or as detections.", default=None)
    gt: Source | None = option(
        "Ground truth that a results file refers to.", "FILE", default=None, path="read"
    )


class StatsOptions(ReportOptions, ChoiceOptions, SourceOptions, ReadFormatOptions, verb="stats"):
    """The options of `odm.stats`."""

    source: Source = argument(kw_only=False)
    plots: Path | None = option(
        "Also draw plots: PNG, SVG and PDF (extra [plot]).",
        "DIR",
        default=None,
        path="written",
        heading=OUTPUT,
    )
    overwrite: bool = option("Replace existing files in the targets of --plots and --report.", default=False)
    log: Log | None = None


@verb(StatsOptions)
def stats(options: StatsOptions) -> Statistics:
    """Count and measure what is in a source, as ``odm stats`` does.

    Parameters
    ----------
    source
        A path, a list of paths, a `Dataset`, or what `odm.eval` takes.
    plots, report, overwrite
        A folder for plots (extra ``[plot]``), a page (``NAME.html``) or a folder for it, and whether they may
        replace what is there.
    only_images, only_classes
        Names of images and classes to keep.
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
    log = Log() if options.log is None else options.log
    check_report(options.report, options, list_paths(options.source))
    dataset = get_dataset(load_measured(options, log))
    statistics, _ = measure(dataset, options, log)
    if options.report:
        write_statistics_page(dataset, statistics, options, log, log.extend)
    return statistics


def load_measured(options: StatsOptions, log: Log) -> Loaded | Dataset:
    """Read the source of ``stats``, without the images and classes that the options leave out.

    If plots are to be drawn and Matplotlib is not installed, raises UsageError before anything is read.
    """
    if options.plots is not None:
        check_matplotlib()
    loaded, _ = _load_source(options.source, options, log, draws=bool(options.report))
    (dataset,) = choose([get_dataset(loaded)], options, options.encoding)
    return replace(loaded, dataset=dataset) if isinstance(loaded, Loaded) else dataset


def _load_source(
    source: Source, options: SourceOptions, log: Log, *, draws: bool
) -> tuple[Loaded | Dataset, Callable[[], Dataset] | None]:
    """Read a source with its shapes, and return it and a function that reads its ground truth, if it has one.

    With `draws`, the option ``images`` is accepted even if the format does not have it.
    """
    side = options.make_side("", options.format, options.kind)
    read_truth = make_truth_reader(options.gt, side, options, log, SHAPE_WORDS, draws=draws)
    loaded = read_source(source, side, options, log, counterpart=read_truth, wants=SHAPE_WORDS, draws=draws)
    return loaded, read_truth


def measure(dataset: Dataset, options: StatsOptions, log: Log) -> tuple[Statistics, tuple[str, ...]]:
    """Measure a dataset, and write its plots if the options name a folder; return numbers, names of plots."""
    statistics = describe(dataset)
    if options.plots is None:
        return statistics, ()
    plots = save_plots(dataset, statistics, os.fspath(options.plots), log, overwrite=options.overwrite)
    return statistics, plots


def write_statistics_page(
    dataset: Dataset, statistics: Statistics, options: StatsOptions, log: Log, print_log: PrintLog
) -> str:
    """Write the page of statistics, and return its path."""
    from odm.report import statistics_page

    sources = [dataset.path] if dataset.path else []
    page = statistics_page(
        dataset,
        statistics.to_dict(),
        find_pictures(dataset.images.name, [dataset], options, print_log),
        log=log,
        sources=sources,
        title=options.report_title,
        images=options.report_images,
    )
    return write_report(page, options.report, options, sources, print_log)


class ShowOptions(PageOptions, ScoreOptions, SourceOptions, ReadFormatOptions, verb="show"):
    """The options of `odm.show`."""

    source: Source = argument(kw_only=False)
    out: Path | None = option(PAGE_HELP, "FILE|DIR", default=None, path="written", heading=OUTPUT)
    overwrite: bool = option("Replace existing files of the page.", default=False)
    log: Log | None = None


@verb(ShowOptions)
def show(options: ShowOptions) -> WebPage:
    """Show annotations or detections drawn on their images, as ``odm show`` does.

    >>> odm.show("labels/", images="photos/")  # doctest: +SKIP

    Parameters
    ----------
    source
        A path, a list of paths, a `Dataset`, or what `odm.eval` takes.
    out, overwrite
        Where to write the page: ``NAME.html``, or a folder, and whether it may replace what is there. Without
        `out` the page is only returned; in a notebook it displays itself.
    only_images, only_classes, score_min, at_scores
        Names of images and classes to keep, the least score, or a file with the least score of each class.
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
    log, sources = Log() if options.log is None else options.log, list_paths(options.source)
    check_report(options.out, options, sources, is_shown=True)
    dataset, sides = load_shown(options, log)
    return show_page(
        make_page(dataset, sides, options, log, log.extend), options.out, options, sources, log.extend
    )


def load_shown(options: ShowOptions, log: Log) -> tuple[Dataset, list[Dataset]]:
    """Read the dataset to show. Returns it, and the datasets in which its image files are looked up."""
    # The page needs `images`, whatever the format (`draws`).
    loaded, read_truth = _load_source(options.source, options, log, draws=True)
    (dataset,) = choose([get_dataset(loaded)], options, options.encoding)
    # Until here only results that name images or classes by id need it; now it helps to find image files.
    return dataset, [dataset] if read_truth is None else [dataset, read_truth()]


def make_page(
    dataset: Dataset,
    sides: Sequence[Dataset],
    options: ShowOptions | ReportOptions,
    log: Log,
    print_log: PrintLog,
) -> Page:
    """Make the page of a dataset; image files and sizes are looked up in `sides`."""
    from odm.report import dataset_page

    return dataset_page(
        dataset,
        find_pictures(dataset.images.name, sides, options, print_log),
        log=log,
        sources=[dataset.path] if dataset.path else [],
        title=options.report_title,
        images=options.report_images,
    )
