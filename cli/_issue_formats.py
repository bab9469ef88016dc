"""Issues as text, JSON, SARIF 2.1.0, annotations of GitHub and Markdown."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

import odm
from odm.cli._streams import lay_out
from odm.files import Unreadable, read_bytes
from odm.issues import CODES, Code, Issue, Log, grouped, plural, printable
from odm.terminal import json_text

VERSION = 1
"""Of the JSON contract."""


class Report(msgspec.Struct, frozen=True, eq=False):
    """The result of a validation: counts of all issues, and the lines to show, which may cover fewer."""

    log: Log
    lines: Sequence[Issue | str]
    """Issues, and among them what is said of those that are not shown."""
    sources: Sequence[dict[str, Any]]
    """Per source: ``path``, ``format``, ``kind``, the numbers of ``images``, ``classes``, ``boxes``, and of
    rows that are none (``skipped``)."""

    @property
    def issues(self) -> list[Issue]:
        """The issues to be shown."""
        return [line for line in self.lines if isinstance(line, Issue)]

    @property
    def total(self) -> int:
        """How many issues there are."""
        return self.log.errors + self.log.warnings

    @property
    def by_code(self) -> list[tuple[Code, int]]:
        """The codes that were reported and how many times: errors first, then by number, then by name."""
        counts = self.log.counts
        codes = [CODES[name] for name, n in counts.items() if n]
        codes.sort(key=lambda code: (code.severity != "error", -counts[code.name], code.name))
        return [(code, counts[code.name]) for code in codes]

    @property
    def verdict(self) -> str:
        """One line: how many errors and warnings, and in what."""
        counts = f"{_format_count(self.log.errors, 'error')}, {_format_count(self.log.warnings, 'warning')}"
        if len(self.sources) <= 2:  # one source, or ground truth and detections
            read_words = "; ".join(
                f"{_count_boxes([s])}, {_format_count(s['classes'], 'class')} ({s['format']})"
                for s in self.sources
            )
        else:
            formats = ", ".join(sorted({source["format"] for source in self.sources}))
            n_sources = _format_count(len(self.sources), "source")
            read_words = f"{_count_boxes(self.sources)}, {n_sources} ({formats})"
        line = f"{counts} in {read_words}" if read_words else counts
        if len(self.issues) < self.total:
            line += f"; {grouped(len(self.issues))} of {grouped(self.total)} are printed"
        return line


def _count_boxes(sources: Sequence[dict[str, Any]]) -> str:
    """Say how many boxes and images some sources have."""
    boxes, skipped, images = (sum(s[key] for s in sources) for key in ("boxes", "skipped", "images"))
    skipped_words = f" and {_format_count(skipped, 'row')} that could not be read" if skipped else ""
    return f"{_format_count(boxes, 'box')}{skipped_words}, {_format_count(images, 'image')}"


def _format_count(count: int, noun: str) -> str:
    return plural(count or "no", noun)


def render(report: Report, output: str) -> str:
    """Format the report as `output`, one of `OUTPUTS`, ending with a new line."""
    return OUTPUTS[output](report)


# -------------------------------------------------------------------------------------------------- text


def _format_text(report: Report) -> str:
    """Format a report as text: an issue per line, a count per code, and the verdict."""
    lines = [lay_out(line) for line in report.lines]
    rows = [(grouped(n), code.severity, code.name) for code, n in report.by_code]
    if rows:
        count_width = max(len(row[0]) for row in rows)
        lines += ["", *(f"{n:>{count_width}}  {severity:<7}  {name}" for n, severity, name in rows), ""]
    lines.append(lay_out(report.verdict))
    return "\n".join(lines) + "\n"


def _format_markdown(report: Report) -> str:
    """Format a report as Markdown. Issues stand in code spans, with more backticks around than in them."""
    import re

    lines = [f"**{report.verdict}**", ""]
    if report.by_code:
        lines += ["| code | severity | found |", "|---|---|---|"]
        lines += [f"| `{code.name}` | {code.severity} | {n} |" for code, n in report.by_code]
        lines.append("")
    for line in report.lines:
        message = str(line)
        fence = "`" * (1 + max(map(len, re.findall("`+", message)), default=0))
        lines.append(f"- {fence} {message} {fence}" if fence != "`" else f"- `{message}`")
    return "\n".join(lines).rstrip("\n") + "\n"


# -------------------------------------------------------------------------------------------------- JSON


def _format_json(report: Report) -> str:
    """Format a report as the JSON contract; undefined values are null."""
    return _format_json_text(
        {
            "version": VERSION,
            "errors": report.log.errors,
            "warnings": report.log.warnings,
            "counts": {code.name: n for code, n in report.by_code},
            "sources": list(report.sources),
            "issues": [
                {
                    "path": printable(issue.path),
                    "line": issue.line or None,
                    "column": issue.column or None,
                    "pointer": printable(issue.pointer) or None,
                    "field": printable(issue.field) or None,
                    "code": issue.code,
                    "severity": issue.severity,
                    "message": issue.message,
                }
                for issue in report.issues
            ],
            "notes": [printable(note) for note in report.log.notes],
        }
    )


def _format_json_text(data: Any) -> str:
    return json_text(data) + "\n"


# ------------------------------------------------------------------------------------------------- SARIF


def _format_sarif(report: Report) -> str:
    """Format a report as SARIF 2.1.0, with the codes as rules and the notes as notifications."""
    rules = [code for code, _ in report.by_code]
    index_of_code = {code.name: i for i, code in enumerate(rules)}
    line_of = _make_line_finder()
    return _format_json_text(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [
                {
                    "tool": {
                        "driver": {
                            "name": "odm",
                            "version": odm.__version__,
                            "semanticVersion": odm.__version__,
                            "rules": [_make_rule(code) for code in rules],
                        }
                    },
                    "columnKind": "unicodeCodePoints",
                    "invocations": [
                        {
                            "executionSuccessful": True,
                            "toolExecutionNotifications": [
                                {"level": "note", "message": {"text": printable(note)}}
                                for note in report.log.notes
                            ],
                        }
                    ],
                    "results": [
                        {
                            "ruleId": issue.code,
                            "ruleIndex": index_of_code[issue.code],
                            "level": issue.severity,
                            "message": {"text": _add_place(issue)},
                            **_make_locations(issue, line_of(issue)),
                        }
                        for issue in report.issues
                    ],
                    "properties": {"counts": {code.name: n for code, n in report.by_code}},
                }
            ],
        }
    )


def _make_rule(code: Code) -> dict[str, Any]:
    """Return a code as a rule of SARIF."""
    from odm.cli._explain import format_advice, format_message

    return {
        "id": code.name,
        "shortDescription": {"text": format_message(code)},
        "fullDescription": {"text": code.why},
        "help": {"text": f"{code.why} To fix it: {format_advice(code) or 'see the message'}."},
        "defaultConfiguration": {"level": code.severity},
    }


def _add_place(issue: Issue) -> str:
    """Return the message with the JSON pointer and the field before it, which no other part shows.

    A pointer that ends with the field stands alone.
    """
    places = [printable(text) for text in (issue.pointer, issue.field) if text]
    if len(places) == 2 and places[0].rpartition("/")[2] == places[1]:
        places.pop()
    return f"{' '.join(places)}: {issue.message}" if places else issue.message


def _make_locations(issue: Issue, line: int) -> dict[str, Any]:
    """Return the ``locations`` of a result of SARIF, empty if the issue has none; `line` is 0 if unknown."""
    location: dict[str, Any] = {}
    if issue.path:
        physical: dict[str, Any] = {"artifactLocation": {"uri": make_uri(issue.path)}}
        if line:
            physical["region"] = {"startLine": line}
            if issue.column:
                physical["region"]["startColumn"] = issue.column
        location["physicalLocation"] = physical
    if issue.pointer:
        pointer = printable(issue.pointer)
        location["logicalLocations"] = [{"fullyQualifiedName": pointer, "kind": "element"}]
    return {"locations": [location]} if location else {}


def make_uri(path: str) -> str:
    """Make a URI reference of a path: relative to the working folder, or ``file:`` for an absolute one."""
    from urllib.parse import quote

    if os.sep == "\\":
        path = path.replace("\\", "/")
    is_absolute = os.path.isabs(path)
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    text = quote(os.fsencode(path))
    if not is_absolute:
        return text or "."
    return f"file://{'' if text.startswith('/') else '/'}{text}"  # on Windows a path has no / before C:


MAX_LOCATED = 2**27
"""Bytes; in a larger JSON file the lines of its places are not looked up."""


def _make_line_finder() -> Callable[[Issue], int]:
    """Return a function that returns the line of an issue: its own, or that of its JSON pointer; 0 = none.

    The file of a pointer is read at the first issue in it.
    """
    finder_of_path = functools.cache(_PointerFinder)

    def find_line(issue: Issue) -> int:
        """Return the line of an issue; see `_make_line_finder`."""
        if issue.line or not issue.pointer:
            return issue.line
        return finder_of_path(issue.path).find_line(issue.pointer)

    return find_line


class _PointerFinder:
    """Finds the lines on which the values of JSON pointers begin in a file; it is empty if it cannot be read.

    Values are decoded level by level as `msgspec.Raw`, a view into the bytes: its address, less that of the
    first byte, is the offset.
    """

    def __init__(self, path: str) -> None:
        """Read a file of at most `MAX_LOCATED` bytes, without a byte order mark."""
        import numpy as np

        data = b""
        with contextlib.suppress(Unreadable):
            data = read_bytes(path, max_size=MAX_LOCATED).removeprefix(b"\xef\xbb\xbf")
        self._data = data
        self._line_ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))  # offsets
        self._raw_of_pointer: dict[str, Any] = {"": msgspec.Raw(data)}
        self._container_of_pointer: dict[str, Any] = {}

    def find_line(self, pointer: str) -> int:
        """Return the line of the value at a pointer; if it is missing, of what would contain it, else 0."""
        while pointer and self._data:
            try:
                offset = _get_address(self._find_value(pointer)) - _get_address(self._data)
                if 0 <= offset <= len(self._data):  # else the value is no view into the bytes, but a copy
                    return int(self._line_ends.searchsorted(offset)) + 1
            except (msgspec.MsgspecError, UnicodeError, RecursionError, LookupError, ValueError, TypeError):
                pass
            pointer = pointer.rpartition("/")[0]
        return 0

    def _find_value(self, pointer: str) -> Any:
        """Return the value at a pointer, still encoded: a view into the bytes; decode each container once."""
        if pointer not in self._raw_of_pointer:
            parent, _, key = pointer.rpartition("/")
            if parent not in self._container_of_pointer:
                raw = self._find_value(parent)
                is_list = bytes(memoryview(raw)[:64]).lstrip()[:1] == b"["  # white space may come first
                kind = list[msgspec.Raw] if is_list else dict[str, msgspec.Raw]
                self._container_of_pointer[parent] = msgspec.json.decode(raw, type=kind)
            container = self._container_of_pointer[parent]
            key = key.replace("~1", "/").replace("~0", "~")  # as JSON pointers escape both
            self._raw_of_pointer[pointer] = container[int(key) if isinstance(container, list) else key]
        return self._raw_of_pointer[pointer]


def _get_address(buffer: Any) -> int:
    """Return the address in memory of the first byte of a buffer."""
    import numpy as np

    return int(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0])


# ------------------------------------------------------------------------------------------------ GitHub


def _format_github(report: Report) -> str:
    """Format a report as workflow commands of GitHub, which annotate lines of files."""
    line_of = _make_line_finder()
    lines = []
    for issue in report.issues:
        location = []
        if issue.path:
            location.append(f"file={_escape_property(issue.path)}")
        line = line_of(issue)
        if line:
            location.append(f"line={line}")
            if issue.column:
                location.append(f"col={issue.column}")
        location.append(f"title={_escape_property(issue.code)}")
        lines.append(f"::{issue.severity} {','.join(location)}::{escape_data(_add_place(issue))}")
    if len(report.issues) < report.total:
        lines.append(f"::notice title=odm::{escape_data(report.verdict)}")
    return "".join(line + "\n" for line in lines)


def escape_data(text: str) -> str:
    """Escape text for the workflow commands of GitHub."""
    return printable(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _escape_property(text: str) -> str:
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


OUTPUTS: dict[str, Callable[[Report], str]] = {
    "text": _format_text,
    "json": _format_json,
    "sarif": _format_sarif,
    "github": _format_github,
    "markdown": _format_markdown,
}
"""How a report can be printed."""
MACHINE_OUTPUTS = ("json", "sarif", "github")
"""The outputs that are not cut to a number of issues."""
