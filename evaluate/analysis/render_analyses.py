"""Render the analyses of a result: sections of its document, and columns of its CSV."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from odm.document import Column, Line, Section, Table
from odm.evaluate.results import Result
from odm.issues import plural, shorten
from odm.numbers import format_interval, format_number, format_percent, format_points
from odm.terminal import cell

IMAGES_SHOWN = 10
TIDE_SHOWN = 10
PAIRS_SHOWN = 20
MOST_CLASSES = 40
"""A confusion matrix of more classes is shown as a list of its largest entries."""
HEADER = 12
"""The most characters of a class above a column of the confusion matrix; twice that where there is room."""


def make_section(
    title: str, columns: Sequence[Column], rows: Sequence[Sequence[Any]], **layout: Any
) -> Section:
    """Make a section of a title and a table, which is left out if it has no rows."""
    return [Line(title), *([Table(columns, rows, **layout)] if rows else [])]


def make_sections(result: Result, width: int | None = None) -> list[Section]:
    """Make the sections of all analyses of a result.

    What can be listed in more than one way is listed so that it fits into lines of `width` characters.
    """
    parts: list[Section] = []
    for analysis, data in result.analysis.items():
        if isinstance(data, Mapping) and "reason" in data:
            parts.append([Line(f"{analysis}: {data['reason']}")])
        elif analysis == "confusion":
            parts.append(_render_confusion(data, width))
        else:
            parts += _SECTIONS[analysis](data)
    return parts


def make_class_columns(result: Result) -> dict[str, dict[str, Any]]:
    """Return for each class its numbers of the analyses by column, for the rows of classes of the CSV."""
    columns: dict[str, dict[str, Any]] = {}
    for row in _get_class_rows(result.analysis.get("lrp")):
        numbers = columns.setdefault(row["class"], {})
        numbers |= {"olrp": row["olrp"], **{f"lrp_{key}": row[key] for key in ("loc", "fp", "fn", "score")}}
    for row in _get_class_rows(result.analysis.get("calibration")):
        columns.setdefault(row["class"], {})["dece"] = row["dece"]
    for row in _get_class_rows(result.analysis.get("tide")):
        numbers = columns.setdefault(row["class"], {})
        numbers |= {f"tide_{kind}_dap": value for kind, value in row.items() if kind != "class"}
    for name, numbers in result.analysis.get("thresholds", {}).get("classes", {}).items():
        columns.setdefault(name, {})["threshold"] = numbers["score"]
    return columns


def make_summary_columns(result: Result) -> dict[str, Any]:
    """Return the numbers of the analyses over all classes, for the last row of the CSV."""
    analysis = result.analysis
    columns: dict[str, Any] = {}
    for kind, fix in (analysis.get("tide") or {}).items():
        if isinstance(fix, Mapping):  # not the list `classes`, nor the text `reason`
            columns |= {f"tide_{kind}_{key}": value for key, value in fix.items()}
    if "lrp" in analysis:
        lrp = analysis["lrp"]
        columns |= {"olrp": lrp["olrp"], **{f"lrp_{key}": lrp[key] for key in ("loc", "fp", "fn")}}
    if "calibration" in analysis:
        columns |= {key: analysis["calibration"][key] for key in ("dece", "mce")}
    for key, (low, high) in result.intervals.items():
        columns |= {f"{key}_low": low, f"{key}_high": high}
    return columns


def _render_thresholds(data: Mapping[str, Any]) -> Iterator[Section]:
    """Make the section of the score thresholds that were chosen, a row for each class."""
    keys = ["score", "precision", "recall"]
    rows = [[category, *(row[key] for key in keys)] for category, row in data["classes"].items()]
    columns = [
        Column("class", cell),
        *(Column(key, functools.partial(format_number, form=".4g")) for key in keys),
    ]
    yield make_section(f"score thresholds by the rule {data['rule']}; -: no detection is kept", columns, rows)


def _render_confusion(data: Mapping[str, Any], width: int | None) -> Section:
    """Make the section of the confusion matrix or, where it does not fit, of its most frequent pairs."""
    counts, of = data["counts"], data.get("shares_of")
    text = {None: "counts", "gt": "shares of each ground truth class", "det": "shares of each detected class"}
    score_text = "scores as given" if data["score"] is None else f"score >= {data['score']:g}"
    title = f"confusion matrix, {score_text}, IoU >= {data['iou']:g}: {text[of]}"
    names = [cell(category) for category in data["classes"]]
    form = str if of is None else functools.partial(format_percent, form=".1f")
    values = data.get("shares", counts)
    rows = [[category, *row] for category, row in zip([*names, "(background)"], values, strict=True)]
    most_wide = width or 10**9  # without a width everything fits
    table = _fit_confusion(names, rows, form, most_wide) if len(names) <= MOST_CLASSES else None
    if table is not None:
        return [Line(title), table]
    pairs = sorted(  # the most frequent first
        (-n, gt, det) for gt, row in enumerate(counts) for det, n in enumerate(row) if n and gt != det
    )
    count_text = f"the {PAIRS_SHOWN} most frequent of " if len(pairs) > PAIRS_SHOWN else ""
    title += f"; {count_text}{plural(len(pairs), 'confusion')}"
    listed = [
        [rows[gt][0], [*names, "(missed)"][det], -n, *([values[gt][det]] if of else [])]
        for n, gt, det in pairs[:PAIRS_SHOWN]
    ]
    columns = [Column("GT", cell), Column("detected as", left=True), Column("count")]
    return make_section(title, [*columns, *([Column(f"of {of}", form)] if of else [])], listed)


def _fit_confusion(
    names: Sequence[str], rows: Sequence[Sequence[Any]], form: Callable[[Any], str], width: int
) -> Table | None:
    """Make the table of a confusion matrix, with shortened titles if need be; None if it is too wide."""
    for longest in (2 * HEADER, HEADER):
        headers = [*(shorten(category, longest) for category in names), "(missed)"]
        table = Table([Column("GT / det", cell), *(Column(header, form) for header in headers)], rows)
        cells = [table.titles, *table.cells]
        # In the last attempt the first column is taken as `HEADER` wide: a terminal shortens it to fit.
        widths = [max(map(len, column)) + 2 for column in zip(*cells, strict=True)]
        label = HEADER if longest == HEADER else max(len(row[0]) for row in table.cells)
        if label + sum(widths[1:]) <= width:
            return table
    return None


def _get_class_rows(data: Any) -> Sequence[Mapping[str, Any]]:
    """Return the rows of an analysis by class; none if it has none or was not made."""
    return data.get("classes", ()) if isinstance(data, Mapping) else ()


def _render_tide(data: Mapping[str, Any]) -> Iterator[Section]:
    """Make the sections of AP gained by fixing each type of error, over all classes and by class."""
    kinds = [kind for kind in data if kind != "classes"]
    rows = [[kind, data[kind]["dap"], data[kind].get("count", "")] for kind in kinds]
    columns = [Column("error"), Column("AP", format_percent), Column("count")]
    yield make_section("AP gained by fixing each type of error (TIDE)", columns, rows)
    if len(data["classes"]) > 1:
        kinds = [kind for kind in kinds if "count" in data[kind]]
        order = sorted(data["classes"], key=lambda row: -max((row[kind] or 0.0) for kind in kinds))
        shown = order[:TIDE_SHOWN]
        title = "AP of the class gained by fixing each type of error"
        if len(shown) < len(order):
            title += f"; the {len(shown)} of {len(order)} classes that gain most"
        columns = [Column("class", cell), *(Column(kind, format_percent) for kind in kinds)]
        yield make_section(title, columns, [[row["class"], *(row[kind] for kind in kinds)] for row in shown])


def _render_lrp(data: Mapping[str, Any]) -> Iterator[Section]:
    """Make the section of the optimal LRP error, a row for each class and one for their mean."""
    keys = ("olrp", "loc", "fp", "fn", "score")
    rows = [[row["class"], *(row[key] for key in keys)] for row in data["classes"]]
    rows.append(["(mean)", *(data[key] for key in keys[:-1]), ""])
    columns = [Column("class", cell), *(Column(key, format_number) for key in ("oLRP", "loc", "FP", "FN"))]
    title = "optimal LRP error and its components: 1 - IoU, FP / (TP + FP), FN / GT"
    yield make_section(title, [*columns, Column("score", format_number)], rows)


def _render_calibration(data: Mapping[str, Any]) -> Iterator[Section]:
    """Make the section of the calibration error, a row for each bin of scores."""
    rows = [
        [f"{row['low']:g} to {row['high']:g}", *(row[key] for key in ("n", "score", "precision"))]
        for row in data["bins"]
    ]
    columns = [Column("scores"), Column("det")]
    columns += (Column(title, format_number) for title in ("mean score", "precision"))
    title = f"calibration: D-ECE {format_number(data['dece'])}, maximum {format_number(data['mce'])}"
    yield make_section(title, columns, rows)


def _render_images(data: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    """Make the section of the images with the largest error."""
    keys = ("image", "gt", "tp", "fp", "fn", "error", "error_share")
    rows = [[row[key] for key in keys] for row in data if row["error"]][:IMAGES_SHOWN]
    columns = [Column("image", cell), *map(Column, ("GT", "TP", "FP", "FN"))]
    columns += [
        Column("error", functools.partial(format_number, form=".2f")),
        Column("share", format_percent),
    ]
    yield make_section(f"the {len(rows)} of {len(data)} images with the largest error", columns, rows)


def _render_slices(data: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    """Make the sections of slices of images, of boxes, and of ground truths by attribute."""
    image_rows = [row for row in data if "delta" in row]
    if image_rows:
        title = "{key} of slices of the images, and difference from the other images"
        yield make_slices_section(title, ("images", "n", "GT", "{key}", "vs. rest"), image_rows)
    box_rows = [row for row in data if "summary" in row and "delta" not in row]
    if box_rows:
        key = next(iter(box_rows[0]["summary"]))
        rows = [[f"{row['slice']} {row['value']}", row["gt"], row["summary"][key]] for row in box_rows]
        columns = [Column("boxes", cell), Column("GT"), Column(key, format_percent)]
        yield make_section(f"{key} of boxes by area and shape", columns, rows)
    truth_rows = [row for row in data if "recall" in row]
    if truth_rows:
        keys = ("value", "gt", "missed", "recall", "AR", "mean_iou")
        columns = [Column("ground truth", cell), Column("GT"), Column("missed")]
        columns += (Column(title, format_percent) for title in ("recall", "AR"))
        columns.append(Column("mean IoU", format_number))
        title = "recall by attribute of the ground truth, mean over classes"
        yield make_section(title, columns, [[row[key] for key in keys] for row in truth_rows])


def make_slices_section(
    title: str, titles: Sequence[str], slices: Sequence[Mapping[str, Any]], **layout: Any
) -> Section:
    """Make the section of slices of the images: a number of their summary, its difference and interval.

    ``{key}`` in the title, and in those of the first five columns, is the name of that number.
    """
    key = next(iter(slices[0]["summary"]))
    forms: list[Callable[[Any], str]] = [cell, str, str, format_percent, format_points]
    columns = [Column(text.format(key=key), form) for text, form in zip(titles, forms, strict=True)]
    rows = [
        [
            f"{row['slice']} {row['value']}",
            *(row["images"], row["gt"], row["summary"][key], row["delta"][key]),
            (row["low"][key], row["high"][key]),
        ]
        for row in slices
    ]
    return make_section(
        title.format(key=key), [*columns, Column("interval", format_interval)], rows, **layout
    )


_SECTIONS: dict[str, Any] = {
    "tide": _render_tide,
    "lrp": _render_lrp,
    "calibration": _render_calibration,
    "thresholds": _render_thresholds,
    "images": _render_images,
    "slices": _render_slices,
}
