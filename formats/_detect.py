"""Detection: every format that may fit a source is asked about it, and the most confident one is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from odm.files import Source
from odm.formats._contract import SURE, Format, Signs
from odm.formats._shared.damaged_files import report_damage
from odm.issues import AmbiguousFormat, DataError, Log, UsageError, Usual, plural, printable, spell

_LIST = "odm formats lists all"


def find_possible(source: Source, names: Sequence[str], signs: Mapping[str, Signs]) -> list[str]:
    """The names of the formats that may recognise a source, by its suffixes and first bytes.

    `signs` are the `Signs` of formats by name; a format without signs may recognise any source.
    """
    if source.is_dir:
        # Suffixes of the files in lower case, "." for files without one; "" is there for all folders.
        name_parts = {file.rpartition("/")[2].rpartition(".") for file in source.files}
        suffixes = {"", *(dot + end.lower() if dot else "." for _, dot, end in name_parts)}
        head = first_character = ""
    else:
        suffixes = {"." + source.relative().rpartition(".")[2].lower()}  # of the name of the only file
        head = source.head().decode("latin-1")
        first_character = head.lstrip("\xef\xbb\xbf \t\r\n")[:1]

    def fits(looks_at: Sequence[str], begins: str | None, holds: Sequence[str]) -> bool:
        """Whether the source has the signs of a format; see the fields of `Format` for what they mean."""
        if source.is_dir:
            return not suffixes.isdisjoint(looks_at)
        if holds and not any(word in head for word in holds):
            return False
        if not suffixes.isdisjoint(looks_at) or begins is None:
            return True
        # "[{" wants one of these characters, "^[{" any character but these.
        return first_character != "" and (first_character in begins) is not begins.startswith("^")

    return [name for name in names if name not in signs or fits(*signs[name])]


def detect(
    source: Source,
    log: Log,
    formats: Mapping[str, Format],
    explain: Callable[[Source], tuple[str, bool]],
    flag: str,
) -> Format:
    """Choose the most confident of the `find_possible` formats for a source, and note the reason in the log.

    `explain` describes a source that no format recognises, and says whether it belongs to another task.
    `flag` is the long option that names the format, for messages. Raises UsageError if no format recognises
    the source; its subclass AmbiguousFormat if the most confident are several; and DataError if the format
    cannot be detected because files are damaged.
    """
    answers = {name: answer for name, each in formats.items() if (answer := each.sniff(source)) is not None}
    path, option = printable(source.path), spell(flag.removeprefix("--").replace("-", "_"))
    if not answers:
        raise UsageError(f"{path}: {_describe_unrecognised(source, log, explain, option)}")
    best_confidence = max(answer.confidence for answer in answers.values())
    winners = {name: answer for name, answer in answers.items() if answer.confidence == best_confidence}
    if len(winners) > 1:
        _report_unreadable(source, log)
        reasons = "; ".join(f"{name}: {answer.reason}" for name, answer in winners.items())
        flags = " or ".join(f"{option} {name}" for name in winners)
        raise AmbiguousFormat(f"{path}: more than one format fits ({reasons}); set {flags}")
    ((name, answer),) = winners.items()
    # A format that is sure needs no second opinion; a note without one is seldom news (`Usual`).
    other_names = [other_name for other_name in answers if other_name != name and best_confidence < SURE]
    note = f"{path}: read as {name}, because {answer.reason}"
    log.note(f"{note} (or is it {' or '.join(other_names)}? Then use {flag})" if other_names else Usual(note))
    return formats[name]


def _describe_unrecognised(
    source: Source, log: Log, explain: Callable[[Source], tuple[str, bool]], option: str
) -> str:
    """Return the message about a source that no format recognises. Raises DataError if files are damaged."""
    if not any(source.head(file).strip() for file in source.files[:1000]):
        _report_unreadable(source, log)
        folder = "empty files" if source.files else "an empty folder"
        kind = folder if source.is_dir else "an empty file"
        return f"no format recognises {kind}; name one with {option} ({_LIST})"
    text, is_other_task = explain(source)
    if is_other_task:  # no format would help, and so no option
        return text
    _report_unreadable(source, log)
    n_files = plural(len(source.files), "file") if source.is_dir else "this file"
    return f"no format recognises {n_files}: {text}; name another with {option} ({_LIST})"


def _report_unreadable(source: Source, log: Log) -> None:
    """Report unread links and each damaged file. Raises DataError after any error, also an earlier one."""
    source.report_links(log)
    for file in source.files[:1000]:  # enough to show that the files are damaged
        report_damage(source, file, log)
    if log.errors:
        path = printable(source.path)
        raise DataError(f"{path}: cannot detect the format, because some files are unreadable", log)
