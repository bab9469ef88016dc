"""``odm validate``."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

import click
from click.core import ParameterSource

from odm.checks import TOLERANCE
from odm.cli._common import FormatCommand, format_options, terminal_log
from odm.cli._explain import all_codes, explain
from odm.cli._issue_formats import MACHINE_OUTPUTS, OUTPUTS, Report, render
from odm.cli._messages import PER_CODE_VALIDATE, issue_lines, print_notes
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
from odm.converters import Ledger, Loaded, chosen
from odm.converters.repairs import REPAIRS
from odm.converters.validation import check_codes, first_of_each, sort_issues
from odm.issues import KEPT_PER_CODE, DataError, Issue, Log, OdmError, UsageError, listed, printable, shorten
from odm.verbs.reports import report_target
from odm.verbs.sources import split_names
from odm.verbs.validation import check_sides, examine_files, repaired, write_page

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
KEPT_FOR_MACHINES = 1_000_000
"""How many issues of one code an output for machines has; more would fill the memory."""


def _names(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for text in texts for name in split_names(text))


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("sources", metavar="SRC...", type=click.Path(), nargs=-1)
@format_choice("--format", "SRC", "--from", "format_")
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
    check_sides(given)
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
            ledger = repaired(source, given, log)
        except DataError as e:
            refused = e
    elif len(sources) > 1:
        loaded, refused = _examine_each(sources, given, log)
    else:
        loaded = examine_files(source, given, log)
    log = chosen(log, select, ignore)
    if given["report"]:
        datasets = [one.dataset for one in loaded]
        notes = functools.partial(print_notes, given=given)
        say_written(write_page(log, datasets, named, given, notes), given)
    _print(log, loaded, ledger, given)
    if refused is not None:
        raise refused
    failed = (log.errors and ledger is None) or (given["strict"] and log.warnings)
    return 1 if failed else 0


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
            loaded += examine_files(source, given, own)
        except OdmError as e:
            refused.setdefault(str(e.args[0]), e)
        log.extend(own)
    errors = list(refused.values())
    for error in errors[:-1]:
        say(f"odm: error: {error.args[0]}")
    return tuple(loaded), errors[-1] if errors else None


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
        )
    ]
