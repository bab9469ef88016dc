"""Draw datasets, results, comparisons and the like as HTML for a notebook.

Each kind of value has a function, which `html_of` calls; the elements are made by `odm.verbs.html`.
"""

from __future__ import annotations

import base64
import functools
import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from odm import arguments, inputs
from odm.converters import Ledger
from odm.converters.statistics import Statistics
from odm.document import Table
from odm.evaluate import Evaluation, Result
from odm.evaluate.analysis.agree import Agreement
from odm.evaluate.analysis.analysis_tables import Analysis, AnalysisTable
from odm.evaluate.analysis.compare import Comparison, Delta
from odm.evaluate.analysis.diff import Differences
from odm.evaluate.analysis.render_agreement import agreement_document
from odm.evaluate.analysis.render_analyses import sections
from odm.evaluate.analysis.render_comparison import difference_cells, difference_columns
from odm.evaluate.analysis.render_diff import differences_document
from odm.evaluate.doubts import DOUBTFUL
from odm.evaluate.output.render import class_table, headline
from odm.issues import CODES, Issue, Log, UsageError, hint, plural, shorten
from odm.numbers import number, percent, percents
from odm.tables import Dataset
from odm.verbs import comparison as comparing
from odm.verbs import evaluation as evaluating
from odm.verbs import showing
from odm.verbs.html import (
    BETTER,
    COLOURS,
    EVEN,
    ROWS,
    WORSE,
    Html,
    boxes_drawn,
    curves,
    document_parts,
    element,
    folded,
    interval_bar,
    joined,
    share_bar,
    table,
    table_of,
    view,
)
from odm.verbs.reports import check_report, shown
from odm.verbs.shared import PageOptions, ReportOptions
from odm.verbs.sources import from_keywords
from odm.verbs.validation import Validation
from odm.views import Path, WebPage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLASS_TITLES = ("class", "GT", "TP", "FP", "FN", "AP", "CorLoc", "precision", "recall", "F1")
"""The columns of the table of classes that a notebook has room for."""
CLASSES, PICTURES, PLACES = 12, 4, 3
"""At most so many classes, images, and places of a code are shown."""


@functools.singledispatch
def html_of(value: object) -> str:
    """Draw a value as HTML for a notebook; names in it are escaped."""
    raise NotImplementedError(type(value).__name__)


# ------------------------------------------------------------------------------------------- datasets


@html_of.register
def _(dataset: Dataset) -> str:
    what = "Detections" if dataset.kind == "det" else "Ground truth"
    where = f" of {dataset.path}" if dataset.path else ""
    counts = ", ".join(
        plural(n, what)
        for n, what in (
            (len(dataset.images), "image"),
            (len(dataset), "box"),
            (len(dataset.categories), "class"),
        )
    )
    boxes = dataset.boxes
    n = np.bincount(boxes.category, minlength=len(dataset.categories))
    images = np.bincount(
        np.unique(boxes.category.astype(np.int64) * max(len(dataset.images), 1) + boxes.image)
        // max(len(dataset.images), 1),
        minlength=len(n),
    )
    order = np.argsort(-n, kind="stable")[:CLASSES].tolist()
    rows = [
        (dataset.categories.name[k], int(n[k]), int(images[k]), share_bar(n[k] / max(n.max(), 1)))
        for k in order
    ]
    more = f"{plural(len(n) - len(rows), 'more class')}" if len(n) > len(rows) else ""
    by_class = joined([table(["class", "boxes", "images", ""], rows), element("p", more, class_="dim")])
    return view(
        element("p", element("b", f"{what}{where}"), f": {counts}"),
        element("div", by_class, element("div", *_drawings(dataset), class_="row pictures"), class_="row"),
    )


def _drawings(dataset: Dataset) -> list[Html]:
    """Draw the first images whose image files are known, with their boxes."""
    from odm.report.pictures import Picture, shots

    images, boxes = dataset.images, dataset.boxes
    rows = [i for i, path in enumerate(images.path) if path][:PICTURES]
    pictures = [
        Picture(images.name[i], images.path[i], int(images.width[i]), int(images.height[i])) for i in rows
    ]
    figures = []
    for row, shot in zip(rows, shots(pictures, 160), strict=True):
        if not shot.jpeg:
            continue
        box_rows = np.flatnonzero(boxes.image == row)[:200]
        names = (dataset.categories.name[k] for k in boxes.category[box_rows].tolist())
        drawn = zip(boxes.xyxy[box_rows].tolist(), names, boxes.category[box_rows].tolist(), strict=True)
        size = (int(images.width[row]) or shot.width, int(images.height[row]) or shot.height)
        drawing = boxes_drawn(base64.b64encode(shot.jpeg).decode(), size, drawn, 160)
        figures.append(element("figure", drawing, element("figcaption", images.name[row])))
    return figures


# --------------------------------------------------------------------------------------------- results


@html_of.register
def _(evaluation: Evaluation) -> str:
    join = evaluation.join
    head = f"{plural(len(evaluation.joined.images), join.unit.removesuffix('s'))}"
    only = [
        f"{len(names)} only in the {side}"
        for names, side in ((join.images_gt_only, "ground truth"), (join.images_det_only, "detections"))
        if names
    ]
    doubtful = {code.name for code in DOUBTFUL}
    doubts = [issue.message for issue in evaluation.log.issues if issue.code in doubtful]
    parts = [element("p", ", ".join([head, *only]), class_="dim")]
    parts += [element("p", text, class_="doubt") for text in doubts]
    for i, result in enumerate(evaluation.results):
        part = _result(result)
        if len(evaluation.results) > 1:
            part = element(
                "details",
                element("summary", f"{result.protocol}: {headline(result)}"),
                part,
                **({} if i else {"open": ""}),
            )
        parts.append(part)
    return view(*parts)


@html_of.register
def _(result: Result) -> str:
    return view(_result(result))


def _result(result: Result) -> Html:
    """Draw a result: its definition, numbers, classes and curves."""
    row = result.overall
    summary = {key: percent(value) for key, value in result.summary.items()}
    numbers: list[list[object]] = [[*summary.values()]]
    if result.intervals:
        ends = (result.intervals.get(key, (None, None)) for key in summary)
        numbers.append(["" if None in (low, high) else percents((low, high), ".1f") for low, high in ends])
    at = "" if math.isnan(row.score) else f" at score {row.score:.4g}, where F1 is {number(row.f1)}"
    counts = f"{row.tp_at_score} TP, {row.fp_at_score} FP, {row.fn_at_score} FN{at}"
    parts = [
        element("p", element("b", result.protocol), result.definition.removeprefix(result.protocol)),
        element("p", f"{row.gt} objects, {row.det} detections: {counts}", class_="dim"),
        table([*summary], numbers, text=0),
    ]
    wide = []
    if result.classes:
        by_class = class_table(result)
        titles = [title for title in CLASS_TITLES if title in by_class.titles]
        by_class = replace(by_class.select(titles), rows=by_class.select(titles).rows[:-1])  # not "(all)"
        wide.append(table_of(by_class, more=": .classes.to_pandas()"))
    gt = {r.name: r.gt for r in result.classes}
    drawn = sorted(result.curves.items(), key=lambda item: -gt.get(item[0], 0))[: len(COLOURS)]
    lines = [(name, curve.recall, curve.precision) for name, curve in drawn if len(curve.recall)]
    if lines:
        names = [
            element("span", element("span", "● ", style=f"color:{COLOURS[i]}"), name, class_="name")
            for i, (name, *_) in enumerate(lines)
            if len(lines) > 1
        ]
        chart = curves(lines, ("recall", "precision"))
        wide.append(element("figure", chart, element("figcaption", *names)))
    parts.append(element("div", *wide, class_="row"))
    return joined([*parts, *map(folded, sections(result))])


@html_of.register
def _(analysis: Analysis) -> str:
    return view(_analysis(analysis))


def _analysis(analysis: Analysis) -> Html:
    if analysis.reason:
        return element("p", analysis.reason)
    return _rows(analysis.table())


@html_of.register
def _(rows: AnalysisTable) -> str:
    return view(_rows(rows))


def _rows(rows: AnalysisTable) -> Html:
    """The first rows of a table."""
    kept = [[_cell(row.get(name)) for name in rows.names] for row in rows[:ROWS]]
    has_text = [any(isinstance(row.get(name), str) for row in rows) for name in rows.names]
    texts = [*has_text, False].index(False)
    more = len(rows) - len(kept)
    end = element("p", f"{more} more rows: .to_pandas()", class_="dim") if more > 0 else Html()
    return joined([table(rows.names, kept, text=texts), end])


def _cell(value: object) -> str:
    """Write a value of a table: numbers with four digits, ``-`` for None."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# ----------------------------------------------------------------------------------------- comparisons


@html_of.register
def _(comparison: Comparison) -> str:
    def bar(delta: Delta, reach: float) -> Html | str:
        low, high = delta.interval.low, delta.interval.high
        if math.isnan(low):
            return "-"
        sign = -1 if delta.key in comparison.lower_keys else 1
        better, worse = (low > 0, high < 0) if sign > 0 else (high < 0, low > 0)
        return interval_bar(low, high, delta.delta, reach, BETTER if better else WORSE if worse else EVEN)

    several = len(comparison.runs) > 2
    first, other = (shorten(run.name, 24) for run in comparison.runs[:2])
    columns = difference_columns(first, "this run" if several else other)[:4]

    def rows(deltas: list[Delta]) -> list[list[object]]:
        ends = [
            abs(v) for d in deltas for v in (d.interval.low, d.interval.high, d.delta) if not math.isnan(v)
        ]
        reach = max(ends, default=0.0) or 1.0
        texts = Table(columns[:3], [difference_cells(delta)[:3] for delta in deltas]).cells
        return [
            [*([delta.run] * several), delta.category or delta.key, *cells, bar(delta, reach)]
            for delta, cells in zip(deltas, texts, strict=True)
        ]

    headers = [*(["run"] * several), "metric", *(column.title for column in columns)]
    whole = [d for d in comparison.deltas if d.category is None and not math.isnan(d.delta)]
    classes = [d for d in comparison.deltas if d.category is not None and d.key == "AP"]
    classes = sorted(classes, key=lambda d: -abs(d.delta) if not math.isnan(d.delta) else 0.0)
    parts = [
        element("p", element("b", comparison.verdict)),
        element("p", comparison.definition, class_="dim"),
        table(headers, rows(whole[: 2 * ROWS]), text=1 + several),
    ]
    if several:
        parts.append(
            element("p", "Each interval is for one change alone; the verdict covers all.", class_="dim")
        )
    if len(classes) > 1:
        headers[1 if several else 0] = "class (AP)"
        more = f", the {ROWS} of {len(classes)} that changed most" if len(classes) > ROWS else ""
        inner = table(headers, rows(classes[:ROWS]), text=1 + several)
        parts.append(element("details", element("summary", f"AP of classes{more}"), inner))
    return view(*parts)


# ------------------------------------------------------------------------------- checks and conversions


@html_of.register
def _(result: Validation) -> str:
    log = result.log
    totals = [plural(n, what) for n, what in ((result.errors, "error"), (result.warnings, "warning")) if n]
    parts = [element("p", element("b", ", ".join(totals) or "Nothing is wrong."))]
    parts += [element("p", note, class_="dim") for note in log.notes[:PLACES]]
    by_code: dict[str, list[Issue]] = {}
    for issue in result:
        by_code.setdefault(issue.code, []).append(issue)
    rows = []
    for name, issues in by_code.items():
        shown = [
            element(
                "p", element("span", f"{i.location} " if i.location != "-" else "", class_="dim"), i.message
            )
            for i in issues[:PLACES]
        ]
        rows.append([CODES[name].severity, name, joined(shown), log.counts[name]])
    if rows:
        parts.append(table(["", "code", f"the first {PLACES} of each", "times"], rows, text=3))
    return view(*parts)


@html_of.register
def _(ledger: Ledger) -> str:
    verdict = "nothing is lost" if ledger.lossless else "not everything could be kept"
    rows = [(text, n) for n, text in ledger.rows()]
    files = [element("p", f"left out: {path}", class_="dim") for path in ledger.bad_files[:ROWS]]
    return view(
        element("p", element("b", f"{ledger.source_format} to {ledger.target_format}: {verdict}")),
        table(["", ""], rows),
        *files,
    )


@html_of.register
def _(changes: Differences) -> str:
    return view(*document_parts(differences_document(changes)))


@html_of.register
def _(agreement: Agreement) -> str:
    return view(*document_parts(agreement_document(agreement)))


@html_of.register
def _(statistics: Statistics) -> str:
    largest = sorted(statistics.classes, key=lambda one: -one.boxes)[:CLASSES]
    by_class = [(one.name, one.boxes, one.images, one.small, one.medium, one.large) for one in largest]
    measured = ("boxes_per_image", "box_width", "box_height", "area", "aspect")
    spread = [(name.replace("_", " "), getattr(statistics, name)) for name in measured]
    columns = ("min", "median", "mean", "max")
    return view(
        element("p", element("b", repr(statistics)[1:-1])),
        table(["class", "boxes", "images", "small", "medium", "large"], by_class),
        table(
            ["", *columns], [(name, *(number(getattr(d, c), ".6g") for c in columns)) for name, d in spread]
        ),
    )


# ---------------------------------------------------------------------------------- pages and drawings


def _page_options(name: str, options: Mapping[str, Any], images: Path | None) -> ReportOptions:
    """Check the options of a page that the method `name` shows, and return them as a record.

    `images` is the folder of the image files. Raises UsageError for an option that does not exist.
    """
    known = PageOptions.fields()
    if unknown := next((option for option in options if option not in known), None):
        raise UsageError(f"{name} has no option {unknown!r}{hint(unknown, known)}")
    record = from_keywords(ReportOptions, options)
    if images is not None:
        record.formats[""]["images"] = os.fspath(images)
    return record


@arguments.checked
@inputs.gather()
def dataset_page(
    value: Dataset, out: Path | None, images: Path | None, columns: int, **options: Any
) -> WebPage:
    """The pictures of a dataset with their boxes, so many beside each other."""
    if columns < 1:
        raise UsageError(f"show columns={columns}: expected at least 1")
    record, log = _page_options("show", options, images), Log()
    check_report(out, record, (), is_shown=True)
    page = showing.page_of(value, [value], record, log, log.extend)
    page.data["columns"] = columns
    return shown(page, out, record, [], log.extend)


@arguments.checked
@inputs.gather()
def evaluation_report(
    value: Evaluation | Result, out: Path | None, images: Path | None, **options: Any
) -> WebPage:
    """The page of an evaluation or of one result."""
    if isinstance(value, Result):
        value = Evaluation(value.sides, [value], Log(), value.truth_dataset, value.detections_dataset)
    if value.truth_dataset is None or value.detections_dataset is None:
        raise UsageError("report: the boxes of this evaluation are not in memory")
    record, log = _page_options("report", options, images), value.log
    check_report(out, record, (), is_shown=True)
    page, sources = evaluating.page_of(value, record, log.extend)
    return shown(page, out, record, sources, log.extend)


@arguments.checked
@inputs.gather()
def comparison_report(value: Comparison, out: Path | None, images: Path | None, **options: Any) -> WebPage:
    """The page of a comparison."""
    if not value.evaluations:
        raise UsageError(
            f"report: the boxes are not in memory: odm.compare keeps those of up to {comparing.KEPT} "
            'runs; for more, its argument report="runs.html" writes the page'
        )
    record, log = _page_options("report", options, images), Log()
    check_report(out, record, (), is_shown=True)
    page = comparing.page_of(value, value.evaluations, [], record, log, log.extend)
    return shown(page, out, record, [], log.extend)


@arguments.checked
def plot(value: Evaluation | Result, what: str) -> Figure:
    """One of the plots of ``odm eval --plots``."""
    from odm.drawing import check_matplotlib, encode

    check_matplotlib()
    from odm.evaluate.output.plots import figure_of

    figure = figure_of(value.result if isinstance(value, Evaluation) else value, what)
    # A notebook shows figures by itself only once pyplot is imported.
    figure._repr_png_ = lambda: encode(figure, "png", 96)  # type: ignore[attr-defined]
    return figure
