"""Notes, errors and warnings of a run, on the standard error stream.

Issues of one code stand together. A few of each are printed and all counted, so that none fills the screen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from odm.cli._records import GITHUB, PER_CODE, MessageOptions
from odm.cli._streams import say, show
from odm.issues import CODES, Code, Issue, Log, Usual, grouped, plural

NOTES = 3
"""How many notes, unless ``--verbose`` asks for all."""


def print_notes(log: Log, options: MessageOptions) -> None:
    """Print the decisions that were taken to the standard error stream."""
    if options.quiet:
        return
    notes = sorted(log.notes, key=lambda text: isinstance(text, Usual))
    kept = log.notes if options.verbose else notes[:NOTES]
    for text in log.notes:
        if text in kept:
            say(f"note: {text}")
    if more := len(notes) - len(kept):
        say(f"note: ... and {more} more (-v prints {'it' if more == 1 else 'them'})")


def print_log(log: Log, options: MessageOptions, *, first: Iterable[Code] = ()) -> None:
    """Print notes, issues and their counts; errors before warnings.

    Issues of the codes in `first` come before all others; these and doubts are not hidden by ``--quiet``.
    """
    quiet, limit = options.quiet, options.max_errors
    per_code = PER_CODE if options.max_per_code is None else options.max_per_code
    urgent = _never_hidden(log, first) if quiet else {code.name for code in first}
    n_shown = 0
    for issue in issue_lines(log, only=urgent, limit=limit, per_code=per_code):
        n_shown += isinstance(issue, Issue)
        say(issue)
    print_notes(log, options)
    others = [
        name for name in log.counts if name not in urgent and (not quiet or CODES[name].severity == "error")
    ]
    for issue in issue_lines(log, only=others, limit=max(0, limit - n_shown), per_code=per_code):
        n_shown += isinstance(issue, Issue)
        say(issue)
    if log.errors or (log.warnings and not quiet):
        say(_summary(log, n_shown, quiet=quiet))


def _never_hidden(log: Log, first: Iterable[Code]) -> set[str]:
    """Names of the codes in `first`, and of guesses about the meaning of a file."""
    return {*(code.name for code in first), *(name for name in log.counts if CODES[name].doubt)}


def print_failed(gates: Iterable[str], *, github: bool) -> None:
    """Print the gates that failed, a line each."""
    for line in gates:
        if github:
            from odm.cli._issue_formats import escape_data

            show(f"::error title=gate failed::{escape_data(line)}", commands=True)
        else:
            say(f"odm: gate failed: {line}")


def print_annotations(log: Log, options: MessageOptions, *, first: Iterable[Code] = ()) -> None:
    """Print the issues that `log` keeps as annotations of GitHub, and the notes as text; see `print_log`."""
    from odm.cli._issue_formats import Report, render
    from odm.converters.validation import sort_issues

    print_notes(log, options)
    urgent = _never_hidden(log, first)
    issues = [i for i in log.issues if not options.quiet or i.severity == "error" or i.code in urgent]
    show(render(Report(log, sort_issues(issues), []), GITHUB), commands=True)


def issue_lines(log: Log, *, only: Collection[str], limit: int, per_code: int) -> Iterator[Issue | str]:
    """Yield the issues of the codes in `only`, errors first, and after each code how many more there are.

    At most `limit` issues are yielded in all, and `per_code` of each code.
    """
    issues_of: dict[str, list[Issue]] = {}
    for issue in sorted(log.issues, key=_location):
        if issue.code in only:
            issues_of.setdefault(issue.code, []).append(issue)
    for name in sorted(issues_of, key=lambda name: CODES[name].severity != "error"):
        issues = issues_of[name][: min(per_code, limit)]
        limit -= len(issues)
        yield from issues
        more = log.counts[name] - len(issues)
        if more and issues:
            # Where no more are kept, one line stands for all.
            where = " (--max-per-code N lists more)" if len(issues) < len(issues_of[name]) else ""
            yield f"... and {grouped(more)} more {name}{where}"


def _location(issue: Issue) -> tuple[str, int, int]:
    return issue.path, issue.line, issue.column


def _summary(log: Log, printed: int, *, quiet: bool) -> str:
    """Return the last line: how many errors and warnings there are, how many were printed, and the codes."""
    parts = [plural(log.errors, "error")] if log.errors else []
    if log.warnings and not quiet:
        parts.append(plural(log.warnings, "warning"))
    if log.errors + (0 if quiet else log.warnings) > printed:
        parts.append(f"{printed} of them printed")
    by_code = ", ".join(
        f"{name} {grouped(n)}"
        for name, n in log.counts.most_common()
        if n and not (quiet and CODES[name].severity != "error")
    )
    return f"{', '.join(parts)} ({by_code})"
