"""The table of classes: counts, operating point and AP, with as many columns as fit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from odm.evaluate.results import Result, Row
from odm.issues import shorten
from odm.screen import cell, fitting, markdown_table, text_table

COUNTS = ("GT", "det", "TP", "FP", "FN", "ignored")
POINT = ("score", "precision", "recall", "F1")
DROPPED = (
    ("ignored",),
    ("det",),
    ("score",),
    ("TP", "FP", "FN"),
    ("AP75",),
    ("AP50",),
    ("recall", "precision"),
)
"""Columns by how easily one does without them; a line below the table names those that did not fit."""


def class_table(result: Result, *, width: int | None = None, markdown: bool = False) -> str:
    """A row per class and one for all, in up to `width` characters."""
    values = _ap_columns(result)
    headers = ["class", *COUNTS, *POINT, *values]
    rows = [_cells(result, row, values) for row in (*result.classes, result.overall)]
    spans = _spans(result)
    if markdown:
        return markdown_table([f"{h} ({spans[h]})" if h in spans else h for h in headers], rows)
    text = text_table(headers, rows, width=width, drop=DROPPED, spans=spans)
    kept = fitting(headers, rows, width=width, drop=DROPPED)
    hidden = [h for i, h in enumerate(headers) if i not in kept]
    return f"{text}\n(not shown: {', '.join(hidden)}; --wide shows all)" if hidden else text


def _ap_columns(result: Result) -> tuple[str, ...]:
    if result.rules.metric == "corloc":
        return ("CorLoc",)
    more = (key for key in ("AP50", "AP75") if result.classes and key in result.classes[0].extra)
    return ("AP", *more)


def _cells(result: Result, row: Row, values: Sequence[str]) -> list[str]:
    of_all = row is result.overall
    found = []
    for key in values:
        number = row.ap if key == "AP" else row.extra.get(key.lower() if key == "CorLoc" else key, math.nan)
        if of_all:
            number = next((result.summary[k] for k in (key, f"m{key}") if k in result.summary), number)
        found.append(percent(number))
    return [
        "(all)" if of_all else cell(row.name),
        *(str(getattr(row, key.lower())) for key in COUNTS),
        *(number_text(getattr(row, key.lower())) for key in POINT),
        *found,
    ]


def _spans(result: Result) -> dict[str, str]:
    """What the columns are of: counts of all detections, the others of one score."""
    point = "at best F1"
    if result.rules.shared_score:
        point = f"at score {number_text(result.overall.score)}"
    if result.at_score is not None:
        point = f"at score {result.at_score:g}"
    if result.scores_from:
        point = f"at scores of {shorten(result.scores_from, 40)}"
    iou = f", IoU {result.rules.ious[result.rules.reference]:g}" if result.rules.averaged else ""
    return {
        **dict.fromkeys(("TP", "FP", "FN"), f"all det{iou}"),
        **dict.fromkeys(POINT, f"{point}{iou}"),
    }


def percent(value: float) -> str:
    """``24.57 %``, or ``-`` for what is undefined."""
    return "-" if math.isnan(value) else f"{100 * value:.2f} %"


def number_text(value: float) -> str:
    """``0.4800``, or ``-`` for what is undefined."""
    return "-" if math.isnan(value) else f"{value:.4f}"
