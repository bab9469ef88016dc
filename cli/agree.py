"""``odm agree``."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from odm.cli._common import FormatCommand, format_options, terminal_log
from odm.cli._messages import print_log
from odm.cli._options import choice, common_options, format_choice, option, skip_bad_option, wide_option
from odm.cli._print import show, table_width
from odm.evaluate import OUTPUTS
from odm.evaluate.analysis.agree import IOU, Agreement
from odm.evaluate.output.render import csv_text
from odm.issues import plural, printable, shorten
from odm.terminal import json_text, number, table
from odm.verbs.agreement import agreement

EXAMPLES = """
\b
Examples:
  odm agree alice/ bob/
  odm agree first.json second.json --iou 0.7 --output json
"""


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("first", metavar="A", type=click.Path())
@click.argument("other", metavar="B", type=click.Path())
@option("--iou IOU", "Minimum IoU for pairing two boxes.", of=float, default=IOU)
@choice("--output", OUTPUTS, "Output format.", default="table")
@wide_option
@format_choice("--a-format", "A")
@format_choice("--b-format", "B")
@skip_bad_option
@format_options("a", "b")
@common_options
def command(first: str, other: str, **given: Any) -> int:
    """Measure the agreement between two annotators, A and B, of the same images.

    Boxes are paired by IoU regardless of class, then the classes of each pair are compared. Crowd and
    group-of boxes are left out.
    """
    log = terminal_log()
    try:
        found = agreement(first, other, {**given, "verb": "agree"}, log)
    finally:
        print_log(log, given)
    show(render(found, given["output"], width=table_width(given)))
    return 0


def render(found: Agreement, output: str, *, width: int | None = None) -> str:
    """The agreement as text that ends with a newline."""
    if output == "json":
        return json_text(found.to_dict()) + "\n"
    headers = ["class", "f1", "first", "other", "pairs"]
    data = found.to_dict()["classes"]
    if output == "csv":
        return csv_text(headers, ([row[key] for key in headers] for row in data))
    markdown = output == "markdown"
    pairs = plural(found.pairs, "pair")
    lines = [
        f"{found.boxes[0]} and {plural(found.boxes[1], 'box')}, {pairs} with IoU >= {found.iou_least:g}",
        f"F1 of locations {number(found.f1_location)}, of locations and classes {number(found.f1)}",
        f"mean IoU of matched pairs {number(found.mean_iou)}, kappa of their classes {number(found.kappa)}",
    ]
    rows = [
        [shorten(printable(row["class"]), 40), number(row["f1"]), *(str(row[key]) for key in headers[2:])]
        for row in data
    ]
    layout: dict[str, Any] = {"markdown": markdown, "width": width, "left": ("class of B",)}
    by_class = table(["class", "F1", "A", "B", "pairs"], rows, **layout)
    names = [*(shorten(printable(name), 40) for name in found.names), "(none)"]
    counts = found.confusion.copy()
    np.fill_diagonal(counts, 0)
    worst = sorted(((-int(counts[i, j]), i, j) for i, j in zip(*counts.nonzero(), strict=True)))[:10]
    parts = [by_class, ("\n\n" if markdown else "\n").join(lines)]
    if worst:
        apart = [[names[i], names[j], str(-n)] for n, i, j in worst]
        parts.insert(1, table(["class of A", "class of B", "times"], apart, **layout))
    return "\n\n".join(parts) + "\n"
