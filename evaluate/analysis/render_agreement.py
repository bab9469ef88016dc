"""How far two annotators agree as text: tables, Markdown, JSON and CSV."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from odm.evaluate.analysis.agree import Agreement
from odm.evaluate.output.render import csv_text
from odm.issues import plural, printable, shorten
from odm.terminal import json_text, number, table


def save_agreement(found: Agreement, write: Callable[[str, bytes], object]) -> None:
    """Give `write` the name and content of every file."""
    write("agreement.json", render_agreement(found, "json").encode())
    write("classes.csv", render_agreement(found, "csv").encode())
    columns = found.columns()
    write("pairs.csv", csv_text(tuple(columns), zip(*columns.values(), strict=True)).encode())


def render_agreement(found: Agreement, output: str, *, width: int | None = None) -> str:
    """The agreement as text that ends with a newline, in one of `odm.evaluate.OUTPUTS`."""
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
