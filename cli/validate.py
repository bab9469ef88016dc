"""``odm validate``."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

import click
from click.core import ParameterSource

from odm.checks import TOLERANCE
from odm.cli._common import FormatCommand, format_options, terminal_log
from odm.cli._explain import all_codes, explain
from odm.cli._issue_formats import MACHINE_OUTPUTS, OUTPUTS, Report, render
from odm.cli._messages import PER_CODE_VALIDATE, first_of_each, issue_lines, print_notes
from odm.cli._options import (
    PATH,
    TARGET,
    choice,
    common_options,
    complete_list,
    format_choice,
    kind_option,
    option,
    switch,
)
from odm.cli._print import laid_out, say, show
from odm.cli._report import check_markdown, markdown_option, report_options, say_written, write_markdown
from odm.converters import Ledger, Loaded, chosen, examine, repair
from odm.converters.repairs import REPAIRS
from odm.converters.validation import check_codes, sort_issues
from odm.evaluate import join
from odm.files import read_bytes
from odm.issues import (
    CODES,
    KEPT_PER_CODE,
    AmbiguousFormat,
    DataError,
    Issue,
    Log,
    OdmError,
    UsageError,
    listed,
    printable,
    shorten,
)
from odm.tables import Kind
from odm.verbs.reports import pictures_of, report_target, write_report
from odm.verbs.sources import reading, request_of, split_names

EXAMPLES = """
\b
Examples:
  odm validate labels/ --images photos/
  odm validate labels/ --images photos/ --report check.html
  odm validate Annotations/a.xml Annotations/b.xml --quiet
  odm validate results.json --gt instances.json
  odm validate groundtruths/ --against detections/ --strict
  odm validate annotations.json --output sarif > odm.sarif
  odm validate Annotations/ --ignore outside-image,rare-class
  odm validate labels/ --images photos/ --fix order,clip,dedupe --out fixed/
  odm validate --explain inverted-box
"""
OF_REPAIR = "to kind gt skip_bad skip_bad_files tolerance overwrite dry_run".split()
"""Options that `repair` takes as they are."""
KEPT_FOR_MACHINES = 1_000_000
"""How many issues of one code an output for machines has; more would fill the memory."""


def _names(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for text in texts for name in split_names(text))


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("sources", metavar="SRC...", type=click.Path(), nargs=-1)
@format_choice("--format", "SRC", "format_")
@kind_option
@option("--gt FILE", "Ground truth that SRC, a results file, refers to.", of=PATH)
@option("--against DET", "Detections to compare with SRC, the ground truth.", of=PATH)
@format_choice("--gt-format", "--gt")
@format_choice("--det-format", "DET")
@choice("--output", OUTPUTS, "Output format.", default="text")
@option(
    "--select CODES",
    "Report only these codes; * is a wildcard.",
    multiple=True,
    shell_complete=complete_list(all_codes),
)
@option(
    "--ignore CODES", "Do not report these codes.", multiple=True, shell_complete=complete_list(all_codes)
)
@switch("--strict", "Fail on warnings too (exit 1).")
@option("--tolerance PX", "How far a box may reach beyond its image, in pixels.", of=float, default=TOLERANCE)
@option(
    "--explain CODE",
    "Explain a code, or `all`, and exit.",
    "explained",
    shell_complete=complete_list(all_codes),
)
@option(
    "--fix A,B|all",
    f"Write a repaired copy to --out: any of {', '.join(REPAIRS)}, or all.",
    shell_complete=complete_list(lambda: REPAIRS),
)
@option("--out DST", "Where to write the repaired copy.", of=TARGET)
@format_choice("--to", "the repaired copy; the same as SRC if omitted")
@switch("--skip-bad", "Leave rows that still have errors out of the copy.")
@switch("--skip-bad-files", "Leave whole files with errors out of the copy; each is named.")
@markdown_option
@report_options()
@switch("--overwrite", "Replace existing files in DST, or the report; others are kept.")
@switch("--dry-run", "Print the summary of --fix and write nothing.")
@format_options("gt", "det", writing=("",))
@common_options
def command(sources: tuple[str, ...], explained: str | None, **given: Any) -> int:
    """Report every problem in SRC, with its location and how to fix it.

    SRC is annotations or detections in any format; several sources are checked one by one. Exit code
    0: no errors; 1: errors, or warnings with --strict.
    """
    if explained is not None:
        return _explain(explained, given["output"])
    if not sources:
        raise click.UsageError("Missing argument 'SRC'.")
    if given["gt"] is not None and given["against"] is not None:
        raise click.UsageError("--gt and --against exclude each other")
    _check_fix(given)
    for name in ("gt", "against", "fix", "report"):
        if len(sources) > 1 and given[name] is not None:
            raise click.UsageError(f"--{name} needs a single SRC, found {len(sources)}")
    source = sources[0]
    named = [path for path in (source, given["against"]) if path is not None]
    report_target(given, sources=named)
    check_markdown(given)
    if given["select"] or given["ignore"]:
        all_codes()
    select, ignore = check_codes(_names(given["select"])), check_codes(_names(given["ignore"]))
    log = terminal_log(
        keep=KEPT_FOR_MACHINES
        if given["output"] in MACHINE_OUTPUTS
        else max(KEPT_PER_CODE, given["max_per_code"] or 0)
    )
    ledger: Ledger | None = None
    refused: OdmError | None = None
    loaded: tuple[Loaded, ...] = ()
    if given["fix"] is not None:
        try:
            ledger = _repair(source, given, log)
        except DataError as e:
            refused = e
    elif len(sources) > 1:
        loaded, refused = _examine_each(sources, given, log)
    else:
        loaded = _examine(source, given, log)
    log = chosen(log, select, ignore)
    if given["report"]:
        _report(log, loaded, named, given)
    _print(log, loaded, ledger, given)
    if refused is not None:
        raise refused
    failed = (log.errors and ledger is None) or (given["strict"] and log.warnings)
    return 1 if failed else 0


def _report(
    log: Log,
    loaded: tuple[Loaded, ...],
    sources: list[str],
    given: dict[str, Any],
) -> None:
    from odm.report import validation_page

    datasets = [one.dataset for one in loaded]
    tell = functools.partial(print_notes, given=given)
    page = validation_page(
        datasets,
        sort_issues(first_of_each(log.issues, KEPT_PER_CODE)),
        [pictures_of(one.images.name, datasets, given, tell) for one in datasets],
        log=log,
        sources=sources,
        title=given["report_title"],
        images=given["report_images"],
    )
    say_written(write_report(page, given, sources, tell), given)


def _explain(name: str, output: str) -> int:
    codes = all_codes()
    chosen_codes = (
        list(codes.values()) if name == "all" else [codes[n] for n in codes if fnmatchcase(n, name)]
    )
    if not chosen_codes:
        if like := [n for n in codes if name and name.casefold() in n]:
            raise UsageError(f"there is no code {shorten(name)!r}; codes with this word: {listed(like, 10)}")
        check_codes([name])
    if output not in ("text", "json", "markdown"):
        raise click.UsageError(f"--explain is printed as text, json or markdown, not as {output}")
    show(explain(chosen_codes, output))
    return 0


def _check_fix(given: dict[str, Any]) -> None:
    if given["fix"] is None:
        for name in ("out", "to", "skip_bad", "skip_bad_files", "overwrite", "dry_run"):
            if given[name] and not (name == "overwrite" and (given["report"] or given["markdown"])):
                raise click.UsageError(f"--{name.replace('_', '-')} has a meaning only with --fix")
        return
    if given["report"]:
        raise click.UsageError("--report shows what is wrong in SRC: leave out --fix")
    if given["out"] is None:
        raise click.UsageError("--fix writes a copy: say where to with --out DST")
    if given["against"] is not None:
        raise click.UsageError("--fix repairs SRC only: leave out --against")
    if not split_names(given["fix"]):
        raise click.UsageError(f"--fix needs at least one of {', '.join(REPAIRS)}")


def _examine_each(
    sources: tuple[str, ...], given: dict[str, Any], log: Log
) -> tuple[tuple[Loaded, ...], OdmError | None]:
    """Examine several sources one by one. Returns what was read, and the error of those that cannot be.

    All of them are tried. Errors are printed once each, except for the last, which ends the run.
    """
    loaded: list[Loaded] = []
    refused: dict[str, OdmError] = {}
    for source in log.track(list(dict.fromkeys(sources)), "sources"):
        own = log.fresh()
        try:
            loaded += _examine(source, given, own)
        except OdmError as e:
            refused.setdefault(str(e.args[0]), e)
        log.extend(own)
    errors = list(refused.values())
    for error in errors[:-1]:
        say(f"odm: error: {error.args[0]}")
    return tuple(loaded), errors[-1] if errors else None


def _examine(source: str, given: dict[str, Any], log: Log) -> tuple[Loaded, ...]:
    gt, against = given["gt"], given["against"]
    if gt is None and against is None and (given["options"]["gt"] or given["options"]["det"]):
        raise click.UsageError("options of one side (--gt-..., --det-...) need --gt or --against")

    side = "gt" if against is not None else "det" if gt is not None else ""
    kind: Kind | None = given["kind"] or (None if against is None else "gt")
    try:
        loaded = examine(
            request_of(source, given, side, kind, "--format"),
            log,
            gt=None if gt is None else request_of(gt, given, "gt", "gt"),
            against=None if against is None else request_of(against, given, "det", "det"),
            tolerance=given["tolerance"],
        )
    except AmbiguousFormat:
        # The text file of an image without objects is right in whichever format it is meant.
        if side or os.path.isdir(source) or read_bytes(source).strip():
            raise
        log.note(f"{printable(source)}: empty, as for an image without objects")
        return ()
    if len(loaded) == 2:
        add_refusals(loaded, log)
    return loaded


def add_refusals(loaded: tuple[Loaded, ...], log: Log) -> None:
    """Report also what an evaluation would refuse the two sides for, and why they do not fit."""
    from odm.evaluate.analysis.diagnosis import diagnose

    joined = log.fresh()
    truth, detections = (one.dataset for one in loaded)
    with contextlib.suppress(DataError):
        both = join(truth, detections, joined, extra_images="background")
        diagnose(both, truth, detections.path, log)
    of_both = [
        name
        for name in joined.counts
        if CODES[name].severity == "error" and not CODES[name].row and name not in log.counts
    ]
    if of_both:
        refusals = chosen(joined, of_both, ())
        refusals.notes = []
        log.extend(refusals)


def _repair(source: str, given: dict[str, Any], log: Log) -> Ledger:
    options = given["options"]
    if options["gt"] or options["det"]:
        raise click.UsageError("options of one side (--gt-..., --det-...) have no meaning with --fix")
    fixes = split_names(given["fix"])
    return repair(
        source,
        given["out"],
        REPAIRS if "all" in fixes else fixes,
        format=given["format_"],
        options=options[""],
        log=log,
        **{name: given[name] for name in OF_REPAIR},
        **reading(given),
    )


def _print(log: Log, loaded: tuple[Loaded, ...], ledger: Ledger | None, given: dict[str, Any]) -> None:
    """The report on the standard output; notes, and the ledger beside a report for machines, elsewhere."""
    output, quiet = given["output"], given["quiet"]
    sources = [
        {
            "path": printable(one.source.path) if one.source else "",
            "format": one.format.name,
            "kind": one.dataset.kind,
            "images": len(one.dataset.images),
            "classes": len(one.dataset.categories),
            "boxes": len(one.dataset),
            "skipped": one.dataset.skipped,
        }
        for one in loaded
    ]
    if given["markdown"]:
        write_markdown(render(Report(log, _lines(log, "markdown", given), sources), "markdown"), (), given)
    report = Report(log, _lines(log, output, given), sources)
    print_notes(log, given)
    people = output == "text"
    show(
        render(report, output),
        commands=output == "github",
        severities=people,
        headlines=laid_out(report.verdict).split("\n") if people else (),
    )
    if output not in ("text", "markdown") and not quiet:
        say(report.verdict)
    if ledger is not None and not quiet:
        show(ledger, err=output != "text")


def _lines(log: Log, output: str, given: dict[str, Any]) -> list[Issue | str]:
    """The issues that an output shows, and among them what is said of those that it does not."""
    per_code = given["max_per_code"]
    if output in MACHINE_OUTPUTS:  # not cut unless a number was given
        asked = click.get_current_context().get_parameter_source("max_errors") is not ParameterSource.DEFAULT
        issues = sort_issues(log.issues if per_code is None else first_of_each(log.issues, per_code))
        return [*issues[: given["max_errors"] if asked else None]]
    return [
        *issue_lines(
            log,
            only=log.counts,
            limit=given["max_errors"],
            per_code=PER_CODE_VALIDATE if per_code is None else per_code,
            here=True,
        )
    ]
