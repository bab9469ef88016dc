"""Render the agreement of two annotators: its document, CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from odm.document import Column, Document, Line, Table, draw, format_csv
from odm.evaluate.analysis.agree import Agreement
from odm.issues import plural
from odm.numbers import format_number
from odm.terminal import cell, json_text

CONFUSIONS_SHOWN = 10
CLASS_KEYS = ("class", "f1", "first", "other", "pairs")


def save_agreement(agreement: Agreement, write: Callable[[str, bytes], object]) -> None:
    """Call `write` with the name and the content of each file."""
    write("agreement.json", render_agreement(agreement, "json").encode())
    write("classes.csv", render_agreement(agreement, "csv").encode())
    columns = agreement.columns()
    write("pairs.csv", format_csv(columns, zip(*columns.values(), strict=True)).encode())


def render_agreement(agreement: Agreement, output: str, *, width: int | None = None) -> str:
    """Render the agreement as text that ends with a newline, in one of `odm.evaluate.OUTPUTS`."""
    if output == "json":
        return json_text(agreement.to_dict()) + "\n"
    if output == "csv":
        return format_csv(CLASS_KEYS, _make_class_rows(agreement))
    document = make_agreement_document(agreement)
    return draw(document, output, width)


def make_agreement_document(agreement: Agreement) -> Document:
    """Make the document: classes, those that are confused most, and the numbers over all."""
    boxes = f"{agreement.boxes[0]} and {plural(agreement.boxes[1], 'box')}"
    f1, f1_location = format_number(agreement.f1), format_number(agreement.f1_location)
    mean_iou, kappa = format_number(agreement.mean_iou), format_number(agreement.kappa)
    lines = (
        f"{boxes}, {plural(agreement.pairs, 'pair')} with IoU >= {agreement.iou_least:g}",
        f"F1 of locations {f1_location}, of locations and classes {f1}",
        f"mean IoU of matched pairs {mean_iou}, kappa of their classes {kappa}",
    )
    columns = [Column("class", cell), Column("F1", format_number), Column("A"), Column("B"), Column("pairs")]
    document: Document = [[Table(columns, _make_class_rows(agreement))], [Line(line) for line in lines]]
    counts, names = agreement.confusion.copy(), [*agreement.names, "(none)"]
    np.fill_diagonal(counts, 0)
    confused = sorted((-int(counts[i, j]), i, j) for i, j in zip(*counts.nonzero(), strict=True))
    if confused:
        columns = [Column("class of A", cell), Column("class of B", cell, left=True), Column("times")]
        rows = [[names[i], names[j], -n] for n, i, j in confused[:CONFUSIONS_SHOWN]]
        document.insert(1, [Table(columns, rows)])
    return document


def _make_class_rows(agreement: Agreement) -> list[list[object]]:
    """Return the values of `CLASS_KEYS` of each class."""
    return [[row[key] for key in CLASS_KEYS] for row in agreement.to_dict()["classes"]]
