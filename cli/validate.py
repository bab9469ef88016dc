"""``odm validate``."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import click
from click.core import ParameterSource

from odm.cli._common import FormatCommand, make_terminal_log
from odm.cli._explain import explain
from odm.cli._flags import add_flags
from odm.cli._issue_formats import MACHINE_OUTPUTS, OUTPUTS, Report, render
from odm.cli._messages import print_notes, select_issue_lines
from odm.cli._records import PER_CODE_VALIDATE, MarkdownOptions, MessageOptions
from odm.cli._report import check_markdown, say_written, write_markdown
from odm.cli._streams import lay_out, say, show
from odm.converters import Ledger, Loaded, chosen
from odm.converters.validation import check_codes, limit_per_code, sort_issues
from odm.issues import KEPT_PER_CODE, DataError, Issue, Log, OdmError, UsageError, listed, printable, shorten
from odm.verbs.choosing import Choice
from odm.verbs.options import CHECKS, OUTPUT, Options, option
from odm.verbs.reports import check_report
from odm.verbs.sources import list_paths, split_names
from odm.verbs.validation import (
    ValidateOptions,
    all_codes,
    check_options,
    examine_files,
    parse_codes,
    write_page,
    write_repaired,
)

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


class OutputOptions(Options, heading=OUTPUT):
    """How the issues are printed."""

    output: str = option("Output format.", default="text", choices=OUTPUTS)


class ValidateCommand(
    OutputOptions,
    MarkdownOptions,
    ValidateOptions,
    MessageOptions,
    common="format images gt against only_classes only_images output select ignore strict explain fix out "
    "report",
):
    """The options of ``odm validate``."""

    strict: bool = option("Fail on warnings too (exit 1).", default=False, heading=CHECKS, after="ignore")
    explain: str | None = option(
        "Explain a code, or `all`, and exit.",
        "CODE",
        default=None,
        completions=all_codes,
        heading=CHECKS,
        after="tolerance",
    )


def _split_each(texts: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(name for text in texts for name in split_names(text))


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("path", metavar="SRC...", type=click.Path(), nargs=-1)
@add_flags(ValidateCommand, writing=("",))
def command(options: ValidateCommand) -> int:
    """Report every problem in SRC, with its location and how to fix it.

    SRC is annotations or detections in any format; several sources are checked one by one. Exit code
    0: no errors; 1: errors, or warnings with --strict.
    """
    if options.explain is not None:
        return _explain(options.explain, options.output)
    sources: Any = options.path
    if not sources:
        raise click.UsageError("Missing argument 'SRC'.")
    check_options(options, markdown=bool(options.markdown))
    for name in ("gt", "against", "fix", "report"):
        if len(sources) > 1 and getattr(options, name) is not None:
            raise click.UsageError(f"--{name} needs a single SRC, found {len(sources)}")

    # Everything is checked before anything is read.
    source, paths = sources[0], list_paths(sources[0], options.against)
    check_report(options.report, options, paths)
    check_markdown(options.markdown, overwrite=options.overwrite)
    select, ignore = parse_codes(_split_each(options.select)), parse_codes(_split_each(options.ignore))
    n_kept = max(KEPT_PER_CODE, options.max_per_code or 0)
    log = make_terminal_log(keep=KEPT_FOR_MACHINES if options.output in MACHINE_OUTPUTS else n_kept)

    # Repair a copy, or examine the sources.
    ledger: Ledger | None = None
    error: OdmError | None = None  # it ends the run after everything is printed
    loaded: tuple[Loaded, ...] = ()
    choice = options.make_choice()
    if options.fix is not None:
        try:
            ledger = write_repaired(source, options, log)
        except DataError as e:
            error = e
    elif len(sources) > 1:
        loaded, error = _examine_each(sources, options, log, choice)
    else:
        loaded = examine_files(source, options, log, choice)
    if choice is not None and loaded:
        choice.check()  # refuses a chosen name that no source has

    log = chosen(log, select, ignore)
    if options.report:
        datasets = [one_loaded.dataset for one_loaded in loaded]
        notes = functools.partial(print_notes, options=options)
        say_written(write_page(log, datasets, paths, options, notes), options)
    _print(log, loaded, ledger, options)
    if error is not None:
        raise error
    # With --fix, errors were repaired, left out as asked for, or have raised DataError.
    failed = (log.errors and ledger is None) or (options.strict and log.warnings)
    return 1 if failed else 0


def _explain(name: str, output: str) -> int:
    """Print what the codes that fit a pattern mean, and return 0. Raises UsageError if there are none."""
    codes = all_codes()
    chosen_codes = [code for n, code in codes.items() if name == "all" or fnmatchcase(n, name)]
    if not chosen_codes:
        if similar_codes := [n for n in codes if name and name.casefold() in n]:
            similar_names = listed(similar_codes, 10)
            raise UsageError(f"there is no code {shorten(name)!r}; codes with this word: {similar_names}")
        check_codes([name])  # raises
    if output not in ("text", "json", "markdown"):
        raise click.UsageError(f"--explain is printed as text, json or markdown, not as {output}")
    show(explain(chosen_codes, output))
    return 0


def _examine_each(
    sources: Sequence[str], options: ValidateCommand, log: Log, choice: Choice | None
) -> tuple[tuple[Loaded, ...], OdmError | None]:
    """Examine several sources one by one. Returns what was read, and the error of those that cannot be.

    All of them are tried. Errors are printed once each, except for the last, which ends the run.
    """
    loaded: list[Loaded] = []
    refused: dict[str, OdmError] = {}
    for source in log.track(list(dict.fromkeys(sources)), "sources"):
        log_of_source = log.fresh()
        try:
            loaded += examine_files(source, options, log_of_source, choice)
        except OdmError as e:
            refused.setdefault(str(e.args[0]), e)
        log.extend(log_of_source)
    errors = list(refused.values())
    for error in errors[:-1]:
        say(f"odm: error: {error.args[0]}")
    return tuple(loaded), errors[-1] if errors else None


def _print(log: Log, loaded: tuple[Loaded, ...], ledger: Ledger | None, options: ValidateCommand) -> None:
    """Print the report to standard output, and with ``--markdown`` write it to a file too. Notes, and beside
    a report for machines the verdict and the ledger, go to the standard error stream.
    """
    output, is_quiet = options.output, options.quiet
    sources = [
        {
            "path": printable(one_loaded.source.path) if one_loaded.source else "",
            "format": one_loaded.format.name,
            "kind": one_loaded.dataset.kind,
            "images": len(one_loaded.dataset.images),
            "classes": len(one_loaded.dataset.categories),
            "boxes": len(one_loaded.dataset),
            "skipped": one_loaded.dataset.skipped,
        }
        for one_loaded in loaded
    ]
    if options.markdown:
        text = render(Report(log, _select_lines(log, "markdown", options), sources), "markdown")
        write_markdown(options.markdown, text, gates=(), overwrite=options.overwrite)
    report = Report(log, _select_lines(log, output, options), sources)
    print_notes(log, options)
    is_for_people = output == "text"
    show(
        render(report, output),
        commands=output == "github",
        severities=is_for_people,
        headlines=lay_out(report.verdict).split("\n") if is_for_people else (),
    )
    if output not in ("text", "markdown") and not is_quiet:
        say(report.verdict)
    if ledger is not None and not is_quiet:
        show(ledger, err=output != "text")


def _select_lines(log: Log, output: str, options: ValidateCommand) -> list[Issue | str]:
    """Return the issues that an output shows, with lines in between that count those left out."""
    per_code = options.max_per_code
    if output in MACHINE_OUTPUTS:  # not cut unless a number was given
        source = click.get_current_context().get_parameter_source("max_errors")
        limit = None if source is ParameterSource.DEFAULT else options.max_errors
        issues = sort_issues(log.issues if per_code is None else limit_per_code(log.issues, per_code))
        return [*issues[:limit]]
    return [
        *select_issue_lines(
            log,
            codes=log.counts,
            limit=options.max_errors,
            per_code=PER_CODE_VALIDATE if per_code is None else per_code,
        )
    ]
