"""What the codes mean: the text of ``--explain``, from which the page of all codes is made too."""

from __future__ import annotations

import functools
import json
import pkgutil
import string
import textwrap
from collections.abc import Sequence
from typing import Any

from odm.issues import Code
from odm.terminal import json_text, markdown

HEAD = """\
# Codes

Every type of problem has a code that never changes. `odm validate --explain CODE` explains one code; this
page is the output of `odm validate --explain all --output markdown`. Data with an *error* is not converted or
evaluated; after a *warning* it is read as usual. Errors *of one box* can be left out with `--skip-bad`, and
errors *of one file* together with the file with `--skip-bad-files`; no others can.
"""


def explain(codes: Sequence[Code], output: str) -> str:
    """Format the entries of some codes as text, JSON or Markdown, ending with a new line."""
    if output == "json":
        return json_text([_make_entry(code) for code in codes]) + "\n"
    if output == "markdown":
        return _format_page(codes)
    return "\n".join(_format_text(code) for code in codes)


@functools.cache
def load_examples() -> dict[str, tuple[str, str]]:
    """Return, by code, the input, command or Python that shows it, and the line that is printed then.

    They are made from the bad fixtures by ``python tests/write_examples.py``.
    """
    data = pkgutil.get_data("odm.cli", "examples.json")
    assert data is not None, "the package was built without its examples"
    return {code: (shown, printed) for code, (shown, printed) in json.loads(data).items()}


def format_message(code: Code) -> str:
    """Return the message of a code, with an ellipsis for every value."""
    return _hide_values(code.template)


def format_advice(code: Code) -> str:
    """Return the advice of a code, with an ellipsis for every value; empty if it is nothing but values."""
    text = _hide_values(code.advice)
    return text if any(c.isalpha() for c in text) else ""


def _hide_values(template: str) -> str:
    """Replace each ``{value}`` of a template by an ellipsis."""
    text = ""
    for literal, field, _, _ in string.Formatter().parse(template):
        text += literal
        if field is not None and not text[-1:].isalnum():  # else a part that may be empty, as in "image{s}"
            text += "…"
    return text.replace("……", "…").strip()


def _describe_kind(code: Code) -> str:
    """Return the severity of a code, and whether boxes or files with it can be left out."""
    if code.row:
        return f"{code.severity}, of one box"
    return f"{code.severity}, of one file" if code.file and code.severity == "error" else code.severity


def _make_entry(code: Code) -> dict[str, Any]:
    """Return a code as data, for JSON; the example is None where there is none."""
    line, printed = load_examples().get(code.name, ("", ""))
    return {
        "code": code.name,
        "severity": code.severity,
        "row": code.row,
        "file": code.file,
        "message": format_message(code),
        "why": code.why,
        "advice": format_advice(code),
        "example": {"input": line, "printed": printed} if printed else None,
    }


def _format_text(code: Code) -> str:
    """Format the entry of a code as text: its message, why it matters, how to fix it, and an example."""
    line, printed = load_examples().get(code.name, ("", ""))
    lines = [f"{code.name} ({_describe_kind(code)})", "", _wrap(format_message(code)), "", _wrap(code.why)]
    if format_advice(code):
        lines += ["", _wrap(f"To fix it: {format_advice(code)}.")]
    if printed:
        lines += ["", "  Example:"]
        lines += [f"    {row}" for row in [*line.splitlines(), printed]]
    return "\n".join(lines) + "\n"


def _wrap(text: str) -> str:
    return textwrap.fill(
        text, 80, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _format_page(codes: Sequence[Code]) -> str:
    """Return the page of codes in Markdown; with several, a table of all before them."""
    lines = [HEAD] if len(codes) > 1 else []
    if len(codes) > 1:
        lines += ["| code | severity | message |", "|---|---|---|"]
        lines += [
            f"| [`{code.name}`](#{code.name}) | {code.severity} | {markdown(format_message(code))} |"
            for code in codes
        ]
        lines.append("")
    for code in codes:
        line, printed = load_examples().get(code.name, ("", ""))
        lines += [
            f"## {code.name}",
            "",
            f"*{_describe_kind(code)}* · {markdown(format_message(code))}",
            "",
            markdown(code.why),
        ]
        if format_advice(code):
            lines += ["", f"**To fix it:** {markdown(format_advice(code))}."]
        if printed:
            lines += ["", "```text", *([line, ""] if line else []), printed, "```"]
        lines.append("")
    return "\n".join(lines)
