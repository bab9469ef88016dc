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
    """Print the notes of a log to the standard error stream, none with ``--quiet``.

    Without ``--verbose`` only `NOTES` are printed, in the log's order: `Usual` ones, which seldom tell
    anything new, only if there is room.
    """
    if options.quiet:
        return
    notes = sorted(log.notes, key=lambda text: isinstance(text, Usual))
    printed_notes = log.notes if options.verbose else notes[:NOTES]
    for text in log.notes:
        if text in printed_notes:
            say(f"note: {text}")
    if n_more := len(notes) - len(printed_notes):
        say(f"note: ... and {n_more} more (-v prints {'it' if n_more == 1 else 'them'})")


def print_log(log: Log, options: MessageOptions, *, first_codes: Iterable[Code] = ()) -> None:
    """Print notes, issues and their counts; errors before warnings, as many as `options` allow.

    Issues of the codes in `first_codes` come before the notes, all others after them. ``--quiet`` hides notes
    and warnings, but not of these codes or of codes that cast doubt on the results, which then come first.
    """
    quiet, limit = options.quiet, options.max_errors
    per_code = PER_CODE if options.max_per_code is None else options.max_per_code
    urgent_codes = _find_urgent_codes(log, first_codes) if quiet else {code.name for code in first_codes}
    n_shown = 0
    for issue in select_issue_lines(log, codes=urgent_codes, limit=limit, per_code=per_code):
        n_shown += isinstance(issue, Issue)  # else it is "... and 5 more CODE"
        say(issue)
    print_notes(log, options)
    other_codes = [
        name
        for name in log.counts
        if name not in urgent_codes and (not quiet or CODES[name].severity == "error")
    ]
    for issue in select_issue_lines(log, codes=other_codes, limit=max(0, limit - n_shown), per_code=per_code):
        n_shown += isinstance(issue, Issue)
        say(issue)
    if log.errors or (log.warnings and not quiet):
        say(_summarize(log, n_shown, quiet=quiet))


def _find_urgent_codes(log: Log, first_codes: Iterable[Code]) -> set[str]:
    """Return the names of `first_codes`, and of the codes for a guess about a file, which may be wrong."""
    return {*(code.name for code in first_codes), *(name for name in log.counts if CODES[name].doubt)}


def print_failed(gates: Iterable[str], *, github: bool) -> None:
    """Print the gates that failed, a line each."""
    for line in gates:
        if github:
            from odm.cli._issue_formats import escape_data

            show(f"::error title=gate failed::{escape_data(line)}", commands=True)
        else:
            say(f"odm: gate failed: {line}")


def print_annotations(log: Log, options: MessageOptions, *, first_codes: Iterable[Code] = ()) -> None:
    """Print the issues that `log` keeps as annotations of GitHub, and the notes as text.

    ``--quiet`` hides as much as in `print_log`.
    """
    from odm.cli._issue_formats import Report, render
    from odm.converters.validation import sort_issues

    print_notes(log, options)
    urgent_codes = _find_urgent_codes(log, first_codes)
    issues = [i for i in log.issues if not options.quiet or i.severity == "error" or i.code in urgent_codes]
    show(render(Report(log, sort_issues(issues), sources=[]), GITHUB), commands=True)


def select_issue_lines(
    log: Log, *, codes: Collection[str], limit: int, per_code: int
) -> Iterator[Issue | str]:
    """Yield the issues of some codes, errors first, and after those of a code how many more there are of it.

    At most `limit` issues are yielded in all, and `per_code` of each code.
    """
    issues_by_code: dict[str, list[Issue]] = {}
    for issue in sorted(log.issues, key=_get_location):
        if issue.code in codes:
            issues_by_code.setdefault(issue.code, []).append(issue)
    for name in sorted(issues_by_code, key=lambda name: CODES[name].severity != "error"):
        issues = issues_by_code[name][: min(per_code, limit)]
        limit -= len(issues)
        yield from issues
        n_more = log.counts[name] - len(issues)
        if n_more and issues:
            # A higher limit lists more only if the log keeps more.
            advice = " (--max-per-code N lists more)" if len(issues) < len(issues_by_code[name]) else ""
            yield f"... and {grouped(n_more)} more {name}{advice}"


def _get_location(issue: Issue) -> tuple[str, int, int]:
    return issue.path, issue.line, issue.column


def _summarize(log: Log, n_printed: int, *, quiet: bool) -> str:
    """Return the last line: how many errors and warnings there are, how many were printed, and the codes."""
    phrases = [plural(log.errors, "error")] if log.errors else []
    if log.warnings and not quiet:
        phrases.append(plural(log.warnings, "warning"))
    if log.errors + (0 if quiet else log.warnings) > n_printed:
        phrases.append(f"{n_printed} of them printed")
    by_code = ", ".join(
        f"{name} {grouped(n)}"
        for name, n in log.counts.most_common()
        if n and not (quiet and CODES[name].severity != "error")
    )
    return f"{', '.join(phrases)} ({by_code})"
