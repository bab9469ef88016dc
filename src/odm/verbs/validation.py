"""``odm.validate``: what is wrong or doubtful, in one source or several, and repaired copies."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any

from odm import checks, converters, evaluate, formats
from odm.checks import TOLERANCE
from odm.converters import Ledger, Loaded, chosen, examine, repair
from odm.converters.repairs import REPAIRS
from odm.converters.skipping import EVERY
from odm.converters.validation import check_codes, check_tolerance, limit_per_code, sort_issues
from odm.evaluate import join
from odm.files import read_bytes
from odm.issues import (
    CODES,
    KEPT_PER_CODE,
    AmbiguousFormat,
    Code,
    DataError,
    Issue,
    Log,
    UsageError,
    plural,
    printable,
    spell,
)
from odm.tables import Dataset, Kind
from odm.verbs.choosing import Choice, ChoiceOptions
from odm.verbs.options import CHECKS, DET, GT, READING, REPAIR, argument, option
from odm.verbs.reports import PrintLog, check_report, find_pictures, write_report
from odm.verbs.shared import ReportOptions, Side, SkipFilesOptions
from odm.verbs.sources import (
    Source,
    get_dataset,
    is_path,
    list_paths,
    make_request,
    read_source,
    split_names,
    verb,
)
from odm.verbs.words import FormatName, Path, ValidateFormatOptions
from odm.views import Shown


class Validation(list[Issue], Shown):
    """The issues that were kept, errors first, then by place; empty if nothing is wrong.

    Attributes
    ----------
    log
        The counts of all issues by code, also of those that were not kept, and the notes.
    datasets
        What could be read.
    ledger
        With ``fix``, what became of every box in the copy.
    """

    def __init__(self, log: Log, datasets: Iterable[Dataset] = (), ledger: Ledger | None = None) -> None:
        super().__init__(sort_issues(log.issues))
        self.log, self.datasets, self.ledger = log, list(datasets), ledger

    def __repr__(self) -> str:
        return f"<Validation: {format_totals(self.log) or 'nothing is wrong'}>"

    @property
    def errors(self) -> int:
        """How many errors there are."""
        return self.log.errors

    @property
    def warnings(self) -> int:
        """How many warnings there are."""
        return self.log.warnings


def format_totals(log: Log) -> str:
    """Return the numbers of errors and warnings, such as "2 errors, 1 warning"; empty if there are none."""
    totals = ((log.errors, "error"), (log.warnings, "warning"))
    return ", ".join(plural(n, noun) for n, noun in totals if n)


def all_codes() -> dict[str, Code]:
    """Return all codes by name, in the order of their names, after importing all that declare any."""
    for package in (converters, evaluate, formats):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    return dict(sorted(CODES.items()))


def parse_codes(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names and patterns of codes as a tuple. Raises UsageError if one fits no code."""
    names = tuple(names)
    if names:
        all_codes()  # imports every module that declares codes, before their names are checked
    return check_codes(names)


class ValidateOptions(ReportOptions, ChoiceOptions, SkipFilesOptions, ValidateFormatOptions, verb="validate"):
    """The options of `odm.validate`."""

    path: Source = argument(kw_only=False)
    format: FormatName | None = option(
        "Format of SRC; auto-detected if omitted.",
        "FORMAT",
        default=None,
        short=("--from",),
        heading=READING,
        kw_only=False,
    )
    kind: Kind | None = option("Read SRC as ground truth or as detections.", default=None, heading=READING)
    gt: Source | None = option(
        "Ground truth that SRC, a results file, refers to.",
        "FILE",
        default=None,
        path="read",
        heading=READING,
    )
    gt_format: FormatName | None = option(
        "Format of --gt; auto-detected if omitted.", "FORMAT", default=None, heading=GT
    )
    det_format: FormatName | None = option(
        "Format of DET; auto-detected if omitted.", "FORMAT", default=None, heading=DET
    )
    images: Path | None = None
    select: str | Iterable[str] = option(
        "Report only these codes; * is a wildcard.",
        "CODES",
        default=(),
        repeatable=True,
        completions=all_codes,
        heading=CHECKS,
    )
    ignore: str | Iterable[str] = option(
        "Do not report these codes.",
        "CODES",
        default=(),
        repeatable=True,
        completions=all_codes,
        heading=CHECKS,
    )
    tolerance: float = option(
        "How far a box may reach beyond its image, in pixels.", "PX", default=TOLERANCE, heading=CHECKS
    )
    against: Source | None = option(
        "Detections to compare with SRC, the ground truth.", "DET", default=None, path="read", heading=CHECKS
    )
    fix: str | Iterable[str] | None = option(
        f"Write a repaired copy to --out: any of {', '.join(REPAIRS)}, or all.",
        "A,B|all",
        default=None,
        completions=lambda: REPAIRS,
        heading=REPAIR,
    )
    out: Path | None = option(
        "Where to write the repaired copy.", "DST", default=None, path="written", heading=REPAIR
    )
    to: FormatName | None = option(
        "Format of the repaired copy; the same as SRC if omitted.", "FORMAT", default=None, heading=REPAIR
    )
    dry_run: bool = option("Print the summary of --fix and write nothing.", default=False, heading=REPAIR)
    skip_bad: bool = option("Leave rows that still have errors out of the copy.", default=False)
    skip_bad_files: bool = option(
        "Leave whole files with errors out of the copy; each is named.", default=False, after="skip_bad"
    )
    overwrite: bool = option("Replace existing files in DST, or the report; others are kept.", default=False)
    log: Log | None = None

    def make_choice(self) -> Choice | None:
        """Return which images and classes are checked, None for all."""
        is_partial = self.only_images is not None or self.only_classes is not None
        return Choice(self, self.encoding) if is_partial else None

    def make_source_side(self, name: str = "") -> Side:
        """Return how the source is read, with the options of the side `name` too: ``gt``, ``det`` or none.

        It is ground truth if it is compared with detections and ``kind`` says nothing else.
        """
        kind: Kind | None = self.kind or (None if self.against is None else "gt")
        of_side = self.formats.get(name, {}) if name else {}
        return Side("--format", kind, self.format, encoding="", options=of_side, shared=self.formats[""])

    @property
    def gt_side(self) -> Side:
        """The ground truth that a results file refers to."""
        return self.make_side("gt", self.gt_format, "gt")

    @property
    def against_side(self) -> Side:
        """The detections that the ground truth is compared with."""
        return self.make_side("det", self.det_format, "det")


@verb(ValidateOptions)
def validate(options: ValidateOptions) -> Validation:
    """Find everything that is wrong or doubtful in annotations or detections, as ``odm validate`` does.

    Parameters
    ----------
    path
        A file or a folder, or a list of them, which are checked one by one; or what `odm.read` takes.
    format, kind
        The format, and ``"gt"`` or ``"det"``, to say them instead of having them detected.
    gt
        The ground truth that a results file refers to.
    against
        Detections to be compared with `path`, which is then ground truth.
    gt_format, det_format
        The formats of `gt` and `against`.
    images
        Folder of the pictures, whose names and sizes are compared with the annotations.
    select, ignore
        Codes, with ``*`` for any text: report only these, do not report these.
    tolerance
        Pixels by which a box may reach beyond its image.
    only_images, only_classes
        Names of images and classes: check only these.
    fix, out, to, skip_bad, skip_bad_files, dry_run
        Write a repaired copy to `out`: repairs, or ``"all"``; see `odm.repair`.
    report, report_images, report_size, report_title, language, overwrite
        A page to write, as for `odm.eval`.
    max_size, encoding, follow_links
        As for `odm.read`.
    log
        Takes notes and the counts of all issues; of each code a bounded number is kept.
    **options
        Options of the formats, such as ``box="ltwh"``; with `gt` or `against` for whichever has them.

    Returns
    -------
    Validation
        A list of `odm.Issue`, which displays itself in a notebook.

    Raises
    ------
    UsageError
        If there is no such format, option or code, or the format cannot be detected.
    PathError
        If a path is missing or not usable. Bad data never raises, except with `fix`.
    """
    if options.images is not None:
        options.formats[""]["images"] = os.fspath(options.images)
    select, ignore = parse_codes(split_names(options.select)), parse_codes(split_names(options.ignore))
    check_options(options)
    sources = list_paths(options.path, options.against)
    check_report(options.report, options, sources)
    log = Log() if options.log is None else options.log.fresh()
    ledger: Ledger | None = None
    datasets: list[Dataset] = []
    if options.fix is not None:
        ledger = write_repaired(options.path, options, log)
    else:
        path: Any = options.path
        is_listed = isinstance(path, (list, tuple)) and path and all(map(is_path, path))
        choice = options.make_choice()
        for source in path if is_listed else [path]:
            datasets += examine_source(source, options, log, choice)
        if choice is not None and datasets:
            choice.check()  # refuses a chosen name that no source has
    log = chosen(log, select, ignore)
    if options.log is not None:
        options.log.extend(log)
    if options.report:
        write_page(log, datasets, sources, options, log.extend)
    return Validation(log, datasets, ledger)


def check_options(options: ValidateOptions, *, markdown: bool = False) -> None:
    """Raise UsageError for options that exclude each other, or have no meaning without another.

    With `markdown`, a file of Markdown is written, which ``overwrite`` may replace too.
    """
    fix, against = spell("fix"), spell("against")
    if options.gt is not None and options.against is not None:
        raise UsageError(f"{spell('gt')} and {against} cannot be combined")
    if options.fix is None:
        copy_options = {
            "out": options.out,
            "to": options.to,
            "skip_bad": options.skip_bad,
            "skip_bad_files": options.skip_bad_files,
            "overwrite": options.overwrite and not (options.report or markdown),
            "dry_run": options.dry_run,
        }
        for name, value in copy_options.items():
            if value:
                raise UsageError(f"{spell(name)} is used with {fix} only")
        return
    if options.report:
        raise UsageError(f"{spell('report')} shows what is wrong in SRC: leave out {fix}")
    if options.out is None:
        raise UsageError(f"{fix} writes a copy: say where to with {spell('out')} DST")
    if options.against is not None:
        raise UsageError(f"{fix} repairs SRC only: leave out {against}")
    for name in ("only_images", "only_classes"):
        if getattr(options, name) is not None:
            raise UsageError(f"{fix} repairs all of SRC: leave out {spell(name)}, which convert has, too")
    if not split_names(options.fix):
        raise UsageError(f"{fix} needs at least one of {', '.join(REPAIRS)}")


def examine_source(
    source: Any, options: ValidateOptions, log: Log, choice: Choice | None = None
) -> list[Dataset]:
    """Read and check a source, and the detections that it is compared with; issues go to `log`.

    Returns the datasets that could be read, without what `choice` leaves out; with data in memory, none of
    them after an error.
    """
    gt, against = options.gt, options.against
    if is_path(source) and all(side is None or is_path(side) for side in (gt, against)):
        return [entry.dataset for entry in examine_files(os.fspath(source), options, log, choice)]
    check_tolerance(options.tolerance)

    def read(value: Any, side: Side, counterpart: Callable[[], Dataset | None] | None = None) -> Dataset:
        """Read `value`, whose ids may refer to the dataset that `counterpart` returns."""
        draws = bool(options.report)
        return get_dataset(read_source(value, side, options, log, counterpart=counterpart, draws=draws))

    truth = None if gt is None else read(gt, options.gt_side)
    with contextlib.suppress(DataError):
        datasets = [read(source, options.make_source_side(), lambda: truth)]
        if against is not None:
            datasets.append(read(against, options.against_side, lambda: datasets[0]))
        if choice is not None:
            datasets = [choice.take(dataset) for dataset in datasets]
        for side, dataset in zip((source, against), datasets, strict=False):
            # Files were checked when they were read; data in memory has no options to advise.
            if not is_path(side):
                checks.run(dataset, log, options=(), all_rules=True, tolerance=options.tolerance)
        if len(datasets) == 2:
            checks.compare(datasets[0], datasets[1], log)
            add_refusals(datasets[0], datasets[1], log)
        return datasets
    return []


def examine_files(
    source: str, options: ValidateOptions, log: Log, choice: Choice | None = None
) -> tuple[Loaded, ...]:
    """Examine a path, and the paths that it refers to or is compared with; issues go to `log`.

    The datasets and issues are those of what `choice` takes. An empty file whose format is not clear is noted
    as an image without objects, and nothing is returned. Raises UsageError for options of one side if there
    is only one.
    """
    gt, against = options.gt, options.against
    if gt is None and against is None and (options.formats["gt"] or options.formats["det"]):
        raise UsageError(_format_refusal(f"need {spell('gt')} or {spell('against')}"))
    side = ""  # of `source`: "gt" if it is compared with detections, "det" if it refers to a ground truth
    if against is not None or gt is not None:
        side = "gt" if against is not None else "det"
    # With a choice every issue is kept until those of images that it leaves out are withdrawn.
    log_of_all = log if choice is None else log.fresh(keep=EVERY)
    try:
        loaded = examine(
            make_request(source, options.make_source_side(side), options),
            log_of_all,
            gt=make_request(gt, options.gt_side, options) if is_path(gt) else None,
            against=make_request(against, options.against_side, options) if is_path(against) else None,
            tolerance=options.tolerance,
            take=None if choice is None else choice.take,
        )
    except AmbiguousFormat:
        # The text file of an image without objects is right in whichever format it is meant.
        if side or os.path.isdir(source) or read_bytes(source).strip():
            raise
        log.note(f"{printable(source)}: empty, as for an image without objects")
        return ()
    finally:
        if log_of_all is not log:
            log.extend(log_of_all)
    if len(loaded) == 2:
        add_refusals(loaded[0].dataset, loaded[1].dataset, log)
    return loaded


def _format_refusal(refusal: str) -> str:
    """Return a message that refuses options of one side, such as ``gt_format``."""
    return f"options of one side ({spell('gt_...')}, {spell('det_...')}) {refusal}"


def add_refusals(truth: Dataset, detections: Dataset, log: Log) -> None:
    """Report to `log` the errors for which an evaluation would refuse the two sides, and why they do not fit.

    Left out are errors of single rows, and codes that `log` has already.
    """
    from odm.evaluate.analysis.diagnosis import diagnose

    join_log = log.fresh()
    with contextlib.suppress(DataError):
        # Images that only the detections have are no error here: `checks.compare` reports them.
        joined = join(truth, detections, join_log, extra_images="background")
        diagnose(joined, truth, detections, log)
    refused_codes = [
        name
        for name in join_log.counts
        if CODES[name].severity == "error" and not CODES[name].row and name not in log.counts
    ]
    if refused_codes:
        refusals = chosen(join_log, refused_codes, ignore=())
        refusals.notes = []  # they are about the evaluation
        log.extend(refusals)


def write_repaired(source: Any, options: ValidateOptions, log: Log) -> Ledger:
    """Write a repaired copy of a path. Raises UsageError for data in memory or options of one side."""
    if not is_path(source):
        raise UsageError(f"{spell('fix')} repairs a file or a folder: give its path")
    if options.formats["gt"] or options.formats["det"]:
        raise UsageError(_format_refusal(f"cannot be combined with {spell('fix')}"))
    fixes = split_names(options.fix)
    truth: Any = options.gt
    return repair(
        os.fspath(source),
        os.fspath(options.out or ""),
        list(REPAIRS) if "all" in fixes else fixes,
        format=options.format,
        options=options.formats[""],
        log=log,
        to=options.to,
        kind=options.kind,
        gt=truth,
        skip_bad=options.skip_bad,
        skip_bad_files=options.skip_bad_files,
        tolerance=options.tolerance,
        overwrite=options.overwrite,
        dry_run=options.dry_run,
        **options.opening_arguments(),
    )


def write_page(
    log: Log, datasets: list[Dataset], sources: list[str], options: ValidateOptions, print_log: PrintLog
) -> str:
    """Write the page of the issues, and return its path."""
    from odm.report import validation_page

    page = validation_page(
        datasets,
        sort_issues(limit_per_code(log.issues, KEPT_PER_CODE)),
        [find_pictures(dataset.images.name, datasets, options, print_log) for dataset in datasets],
        log=log,
        sources=sources,
        title=options.report_title,
        images=options.report_images,
    )
    return write_report(page, options.report, options, sources, print_log)
