"""``odm.validate``: what is wrong or doubtful, in one source or several, and repaired copies."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Unpack

from odm import checks
from odm.checks import TOLERANCE
from odm.converters import Ledger, Loaded, chosen, examine, repair
from odm.converters.repairs import REPAIRS
from odm.converters.validation import check_codes, check_tolerance, first_of_each, sort_issues
from odm.evaluate import join
from odm.files import MAX_SIZE, read_bytes
from odm.issues import (
    CODES,
    KEPT_PER_CODE,
    AmbiguousFormat,
    DataError,
    Issue,
    Log,
    UsageError,
    plural,
    printable,
)
from odm.tables import Dataset, Kind
from odm.verbs.reports import IMAGES, SIZE, PrintLog, pictures_of, report_target, write_report
from odm.verbs.sources import (
    Source,
    dataset_of,
    gathered,
    is_path,
    only,
    paths_of,
    reading,
    request_of,
    split_names,
    verb,
)
from odm.verbs.words import FormatName, Path, ValidateOptions
from odm.views import Shown


class Validation(list[Issue], Shown):
    """The issues that were found and kept, errors first, then by place; empty if nothing is wrong.

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
        found = [plural(n, what) for n, what in ((self.errors, "error"), (self.warnings, "warning")) if n]
        return f"<Validation: {', '.join(found) or 'nothing is wrong'}>"

    @property
    def errors(self) -> int:
        """How many errors there are."""
        return self.log.errors

    @property
    def warnings(self) -> int:
        """How many warnings there are."""
        return self.log.warnings


@verb
def validate(
    path: Source,
    format: FormatName | None = None,  # noqa: A002 -- the field's word
    *,
    kind: Kind | None = None,
    gt: Source | None = None,
    against: Source | None = None,
    gt_format: FormatName | None = None,
    det_format: FormatName | None = None,
    images: Path | None = None,
    select: str | Iterable[str] = (),
    ignore: str | Iterable[str] = (),
    tolerance: float = TOLERANCE,
    fix: str | Iterable[str] | None = None,
    out: Path | None = None,
    to: FormatName | None = None,
    skip_bad: bool = False,
    skip_bad_files: bool = False,
    report: Path | None = None,
    report_images: int = IMAGES,
    report_size: int = SIZE,
    report_title: str = "",
    language: Literal["en", "zh"] | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    max_size: int = MAX_SIZE,
    encoding: str = "",
    follow_links: bool = False,
    log: Log | None = None,
    **options: Unpack[ValidateOptions],
) -> Validation:
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
    given = gathered({**locals(), "target": out, "out": None}, "validate", "gt", "det")
    given |= {"out": given["target"], "report": given["report"]}
    if images is not None:
        given["options"][""]["images"] = os.fspath(images)
    wanted = check_codes(split_names(select)), check_codes(split_names(ignore))
    check_sides(given)
    report_target(given, sources=paths_of(path, against))
    found = Log() if log is None else log.fresh()
    ledger: Ledger | None = None
    datasets: list[Dataset] = []
    if fix is not None:
        ledger = repaired(path, given, found)
    else:
        several = isinstance(path, (list, tuple)) and path and all(map(is_path, path))
        each: Any = path if several else [path]
        for one in each:
            datasets += examined(one, given, found)
    found = chosen(found, *wanted)
    if log is not None:
        log.extend(found)
    if given["report"]:
        write_page(found, datasets, paths_of(path, against), given, found.extend)
    return Validation(found, datasets, ledger)


def check_sides(given: Mapping[str, Any]) -> None:
    """UsageError for options that exclude each other, or have no meaning without another."""
    if given["gt"] is not None and given["against"] is not None:
        raise UsageError("--gt and --against cannot be combined")
    if given["fix"] is None:
        for name in ("out", "to", "skip_bad", "skip_bad_files", "overwrite", "dry_run"):
            if given[name] and not (name == "overwrite" and (given["report"] or given.get("markdown"))):
                raise UsageError(f"--{name.replace('_', '-')} is used with --fix only")
        return
    if given["report"]:
        raise UsageError("--report shows what is wrong in SRC: leave out --fix")
    if given["out"] is None:
        raise UsageError("--fix writes a copy: say where to with --out DST")
    if given["against"] is not None:
        raise UsageError("--fix repairs SRC only: leave out --against")
    if not split_names(given["fix"]):
        raise UsageError(f"--fix needs at least one of {', '.join(REPAIRS)}")


def examined(source: Any, given: Mapping[str, Any], log: Log) -> list[Dataset]:
    """What could be read of a source, and of what it is compared with; `log` takes what is wrong."""
    sides = [source, given["gt"], given["against"]]
    if is_path(source) and all(side is None or is_path(side) for side in sides[1:]):
        return [one.dataset for one in examine_files(os.fspath(source), given, log)]
    check_tolerance(given["tolerance"])
    read: dict[str, Any] = {"given": given, "log": log, "verb": "validate"}
    truth = None if given["gt"] is None else only(dataset_of(given["gt"], kind="gt", side="gt", **read))
    kind: Kind | None = given["kind"] or (None if given["against"] is None else "gt")
    with contextlib.suppress(DataError):
        datasets = [only(dataset_of(source, kind=kind, other=lambda: truth, **read))]
        if given["against"] is not None:
            other = dataset_of(given["against"], kind="det", side="det", other=lambda: datasets[0], **read)
            datasets.append(only(other))
        for side, one in zip((source, given["against"]), datasets, strict=False):
            if not is_path(side):  # what is read from files is checked then
                checks.run(one, log, (), all_rules=True, tolerance=given["tolerance"])
        if len(datasets) == 2:
            checks.compare(datasets[0], datasets[1], log)
            add_refusals(datasets[0], datasets[1], log)
        return datasets
    return []


def examine_files(source: str, given: Mapping[str, Any], log: Log) -> tuple[Loaded, ...]:
    """The same of paths."""
    gt, against = given["gt"], given["against"]
    if gt is None and against is None and (given["options"]["gt"] or given["options"]["det"]):
        raise UsageError("options of one side (--gt-..., --det-...) need --gt or --against")
    side = "gt" if against is not None else "det" if gt is not None else ""
    kind: Kind | None = given["kind"] or (None if against is None else "gt")
    try:
        loaded = examine(
            request_of(source, given, side, kind, "--format"),
            log,
            gt=None if gt is None else request_of(os.fspath(gt), given, "gt", "gt"),
            against=None if against is None else request_of(os.fspath(against), given, "det", "det"),
            tolerance=given["tolerance"],
        )
    except AmbiguousFormat:
        # The text file of an image without objects is right in whichever format it is meant.
        if side or os.path.isdir(source) or read_bytes(source).strip():
            raise
        log.note(f"{printable(source)}: empty, as for an image without objects")
        return ()
    if len(loaded) == 2:
        add_refusals(loaded[0].dataset, loaded[1].dataset, log)
    return loaded


def add_refusals(truth: Dataset, detections: Dataset, log: Log) -> None:
    """Report also what an evaluation would refuse the two sides for, and why they do not fit."""
    from odm.evaluate.analysis.diagnosis import diagnose

    joined = log.fresh()
    with contextlib.suppress(DataError):
        both = join(truth, detections, joined, extra_images="background")
        diagnose(both, truth, detections, log)
    of_both = [
        name
        for name in joined.counts
        if CODES[name].severity == "error" and not CODES[name].row and name not in log.counts
    ]
    if of_both:
        refusals = chosen(joined, of_both, ())
        refusals.notes = []
        log.extend(refusals)


OF_REPAIR = "to kind gt skip_bad skip_bad_files tolerance overwrite dry_run".split()
"""Arguments that `odm.repair` takes as they are."""


def repaired(source: Any, given: Mapping[str, Any], log: Log) -> Ledger:
    """Write a repaired copy, as the arguments say."""
    options = given["options"]
    if not is_path(source):
        raise UsageError("--fix repairs a file or a folder: give its path")
    if options["gt"] or options["det"]:
        raise UsageError("options of one side (--gt-..., --det-...) cannot be combined with --fix")
    fixes = split_names(given["fix"])
    return repair(
        os.fspath(source),
        given["out"],
        list(REPAIRS) if "all" in fixes else fixes,
        format=given["format_"],
        options=options[""],
        log=log,
        **{name: given[name] for name in OF_REPAIR},
        **reading(given),
    )


def write_page(
    log: Log, datasets: list[Dataset], sources: list[str], given: Mapping[str, Any], print_log: PrintLog
) -> str:
    """Write the page of what was found, and answer where it is."""
    from odm.report import validation_page

    page = validation_page(
        datasets,
        sort_issues(first_of_each(log.issues, KEPT_PER_CODE)),
        [pictures_of(one.images.name, datasets, given, print_log) for one in datasets],
        log=log,
        sources=sources,
        title=given["report_title"],
        images=given["report_images"],
    )
    return write_report(page, given, sources, print_log)
