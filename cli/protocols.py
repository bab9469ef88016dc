"""``odm protocols``."""

from __future__ import annotations

import click

from odm.cli._options import choice, wide_option
from odm.cli._streams import get_table_width, show
from odm.evaluate import PROTOCOLS, SHAPE_PROTOCOLS, TUBE_PROTOCOLS, Protocol
from odm.evaluate.scores.accumulate import class_keys, lower_keys, summary_keys
from odm.evaluate.scores.protocol_words import suggest_protocol
from odm.evaluate.scores.protocols import group_names_by_field
from odm.issues import UsageError
from odm.terminal import json_text, wrap_line

EXAMPLES = """
\b
Examples:
  odm protocols
  odm protocols kitti
  odm protocols --output json
"""
KNOWN = {**PROTOCOLS, **SHAPE_PROTOCOLS, **TUBE_PROTOCOLS}


@click.command(epilog=EXAMPLES)
@click.argument("name", required=False)
@choice("--output", ["table", "json"], "Output format.", default="table")
@wide_option
def command(name: str | None, output: str, *, wide: bool) -> None:
    """List the protocols by field, or describe the protocol NAME: its rules and its numbers."""
    if name is not None and name.lower() not in KNOWN:
        advice = suggest_protocol(name, KNOWN)
        raise UsageError(f"unknown protocol {name!r}{advice}; `odm protocols` lists all")
    width = get_table_width(wide=wide)
    if output == "json":
        chosen = KNOWN if name is None else {name.lower(): KNOWN[name.lower()]}
        show(json_text({key: describe_as_data(rules) for key, rules in chosen.items()}))
    else:
        show(format_listing(width) if name is None else format_page(KNOWN[name.lower()], width))


def describe_as_data(rules: Protocol) -> dict[str, object]:
    """Return a protocol as data: its field, its definition and the keys of its numbers."""
    return {
        "field": rules.field,
        "definition": rules.definition,
        "summary": list(summary_keys(rules)),
        "classes": list(class_keys(rules)),
        "lower_is_better": list(lower_keys(rules)),
    }


def format_listing(width: int | None) -> str:
    """List the protocols by field, with their main numbers and the programs that they agree with."""
    lines: list[str] = []
    for field, names in group_names_by_field().items():
        lines += ["", f"{field}:"]
        for name in names:
            rules = KNOWN[name]
            numbers = ", ".join(summary_keys(rules)[:3])
            source = f" (as in {rules.stands_for})" if rules.stands_for else ""
            lines.append(wrap_line(f"  {name:<21}{numbers}{source}", width, " " * 23))
    lines += ["", "`odm protocols NAME` describes one; docs/protocols.md has the formulas."]
    return "\n".join(lines[1:])


def format_page(rules: Protocol, width: int | None) -> str:
    """Format the rules of a protocol, a line each, and the keys of its numbers."""
    name, _, definition = rules.definition.partition(": ")
    lines = [f"{name} ({rules.field})", ""]
    lines += [wrap_line(f"- {rule}", width, "  ") for rule in definition.split("; ")]
    lines += ["", wrap_line(f"Numbers: {', '.join(summary_keys(rules))}.", width, "  ")]
    if lower_is_better := lower_keys(rules):
        lines.append(wrap_line(f"Lower is better: {', '.join(lower_is_better)}.", width, "  "))
    if rules.plain:  # what this option changes
        lines.append("--without-oddities leaves out what nobody wants outside the challenge.")
    return "\n".join(lines)
