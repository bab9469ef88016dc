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
from odm.evaluate.analysis.render_agreement import make_agreement_document
from odm.evaluate.analysis.render_analyses import make_sections
from odm.evaluate.analysis.render_comparison import make_difference_cells, make_difference_columns
from odm.evaluate.analysis.render_diff import make_differences_document
from odm.evaluate.doubts import DOUBTFUL
from odm.evaluate.output.render import format_headline, make_class_table
from odm.issues import CODES, Issue, Log, UsageError, hint, plural, shorten
from odm.numbers import format_number, format_percent, format_percents
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
    draw_boxes,
    draw_curves,
    draw_document,
    draw_document_table,
    draw_folded,
    draw_interval,
    draw_share,
    draw_table,
    element,
    join_html,
    make_view,
)
from odm.verbs.reports import check_report, show_page
from odm.verbs.shared import PageOptions, ReportOptions
from odm.verbs.sources import from_keywords
from odm.verbs.validation import Validation, format_totals
from odm.views import Path, WebPage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLASS_TITLES = ("class", "GT", "TP", "FP", "FN", "AP", "CorLoc", "precision", "recall", "F1")
"""The columns of the table of classes that a notebook has room for."""
CLASSES, PICTURES, PLACES = 12, 4, 3
"""Largest numbers of classes, of images, and of issues of one code that are shown."""


@functools.singledispatch
def html_of(value: object) -> str:
    """Draw a value as HTML for a notebook; names in it are escaped."""
    raise NotImplementedError(type(value).__name__)


# ------------------------------------------------------------------------------------------- datasets


@html_of.register
def _dataset_html(dataset: Dataset) -> str:
    """Draw a dataset: its counts, its largest classes, and its first images."""
    noun = "Detections" if dataset.kind == "det" else "Ground truth"
    source_text = f" of {dataset.path}" if dataset.path else ""
    numbers = ((len(dataset.images), "image"), (len(dataset), "box"), (len(dataset.categories), "class"))
    counts = ", ".join(plural(n, noun) for n, noun in numbers)
    pictures = element("div", *_draw_images(dataset), class_="row pictures")
    return make_view(
        element("p", element("b", f"{noun}{source_text}"), f": {counts}"),
        element("div", _draw_class_counts(dataset), pictures, class_="row"),
    )


def _draw_class_counts(dataset: Dataset) -> Html:
    """Draw a table of the `CLASSES` largest classes: their boxes, the images with any, and a bar."""
    boxes, n_images = dataset.boxes, max(len(dataset.images), 1)
    boxes_of_class = np.bincount(boxes.category, minlength=len(dataset.categories))
    # Each pair of class and image, as class * n_images + image, counts once.
    class_image_keys = np.unique(boxes.category.astype(np.int64) * n_images + boxes.image)
    images_of_class = np.bincount(class_image_keys // n_images, minlength=len(boxes_of_class))
    largest_first = np.argsort(-boxes_of_class, kind="stable")[:CLASSES].tolist()
    rows = []
    for k in largest_first:
        bar = draw_share(boxes_of_class[k] / max(boxes_of_class.max(), 1))
        rows.append((dataset.categories.name[k], int(boxes_of_class[k]), int(images_of_class[k]), bar))
    n_hidden = len(boxes_of_class) - len(rows)
    hidden_text = plural(n_hidden, "more class") if n_hidden else ""
    table = draw_table(["class", "boxes", "images", ""], rows)
    return join_html([table, element("p", hidden_text, class_="dim")])


def _draw_images(dataset: Dataset) -> list[Html]:
    """Draw up to 200 boxes on each of the first `PICTURES` images that have an image file."""
    from odm.report.pictures import Picture, make_shots

    images, boxes, longest_side = dataset.images, dataset.boxes, 160  # pixels of each drawing
    rows = [i for i, path in enumerate(images.path) if path][:PICTURES]
    pictures = [
        Picture(images.name[i], images.path[i], int(images.width[i]), int(images.height[i])) for i in rows
    ]
    figures = []
    for row, shot in zip(rows, make_shots(pictures, longest_side), strict=True):
        if not shot.jpeg:
            continue
        box_rows = np.flatnonzero(boxes.image == row)[:200]
        categories = boxes.category[box_rows].tolist()
        names = (dataset.categories.name[k] for k in categories)
        drawn_boxes = zip(boxes.xyxy[box_rows].tolist(), names, categories, strict=True)
        size = (int(images.width[row]) or shot.width, int(images.height[row]) or shot.height)
        drawing = draw_boxes(base64.b64encode(shot.jpeg).decode(), size, drawn_boxes, width=longest_side)
        figures.append(element("figure", drawing, element("figcaption", images.name[row])))
    return figures


# --------------------------------------------------------------------------------------------- results


@html_of.register
def _evaluation_html(evaluation: Evaluation) -> str:
    """Draw an evaluation: its images, what makes it doubtful, and its results, all but the first folded."""
    join = evaluation.join
    head = f"{plural(len(evaluation.joined.images), join.unit.removesuffix('s'))}"  # "images" or "videos"
    unpaired_texts = [
        f"{len(names)} only in the {side}"
        for names, side in ((join.images_gt_only, "ground truth"), (join.images_det_only, "detections"))
        if names
    ]
    doubtful = {code.name for code in DOUBTFUL}
    doubts = [issue.message for issue in evaluation.log.issues if issue.code in doubtful]
    elements = [element("p", ", ".join([head, *unpaired_texts]), class_="dim")]
    elements += [element("p", text, class_="doubt") for text in doubts]
    for i, result in enumerate(evaluation.results):
        result_html = _draw_result(result)
        if len(evaluation.results) > 1:
            headline = element("summary", f"{result.protocol}: {format_headline(result)}")
            result_html = element("details", headline, result_html, open="" if i == 0 else None)
        elements.append(result_html)
    return make_view(*elements)


@html_of.register
def _result_html(result: Result) -> str:
    return make_view(_draw_result(result))


def _draw_result(result: Result) -> Html:
    """Draw a result: its definition, numbers, classes, curves of the largest classes, and analyses."""
    row = result.overall
    summary = {key: format_percent(value) for key, value in result.summary.items()}
    numbers: list[list[object]] = [[*summary.values()]]  # a row of values, then one of intervals
    if result.intervals:
        bounds = (result.intervals.get(key, (None, None)) for key in summary)
        numbers.append(
            ["" if None in (low, high) else format_percents((low, high), ".1f") for low, high in bounds]
        )
    score_text = ""
    if not math.isnan(row.score):
        score_text = f" at score {row.score:.4g}, where F1 is {format_number(row.f1)}"
    counts = f"{row.tp_at_score} TP, {row.fp_at_score} FP, {row.fn_at_score} FN{score_text}"
    elements = [
        element("p", element("b", result.protocol), result.definition.removeprefix(result.protocol)),
        element("p", f"{row.gt} objects, {row.det} detections: {counts}", class_="dim"),
        draw_table([*summary], numbers, n_text_columns=0),
    ]
    figures = [_draw_classes(result)] if result.classes else []
    elements.append(element("div", *figures, *_draw_largest_curves(result), class_="row"))
    return join_html([*elements, *map(draw_folded, make_sections(result))])


def _draw_classes(result: Result) -> Html:
    """Draw the table of classes with the columns of `CLASS_TITLES`, without its last row, "(all)"."""
    by_class = make_class_table(result)
    shown = by_class.select([title for title in CLASS_TITLES if title in by_class.titles])
    return draw_document_table(replace(shown, rows=shown.rows[:-1]), hint=": .classes.to_pandas()")


def _draw_largest_curves(result: Result) -> list[Html]:
    """Draw the curves of the largest classes, one for each of `COLOURS`: a figure, or none without curves."""
    n_objects = {row.name: row.gt for row in result.classes}
    largest_first = sorted(result.curves.items(), key=lambda item: -n_objects.get(item[0], 0))
    largest = largest_first[: len(COLOURS)]
    lines = [(name, curve.recall, curve.precision) for name, curve in largest if len(curve.recall)]
    if not lines:
        return []
    names = [
        element("span", element("span", "● ", style=f"color:{colour}"), name, class_="name")
        for colour, (name, *_) in zip(COLOURS, lines, strict=False)
    ]
    legend = element("figcaption", *(names if len(lines) > 1 else ()))
    return [element("figure", draw_curves(lines, ("recall", "precision")), legend)]


@html_of.register
def _analysis_html(analysis: Analysis) -> str:
    """Draw the table of an analysis, or the reason why there is none."""
    return make_view(element("p", analysis.reason) if analysis.reason else _draw_rows(analysis.table()))


@html_of.register
def _analysis_table_html(rows: AnalysisTable) -> str:
    return make_view(_draw_rows(rows))


def _draw_rows(rows: AnalysisTable) -> Html:
    """Draw the first `ROWS` rows of a table; columns before the first without texts are aligned as text."""
    shown_rows = [[_format_cell(row.get(name)) for name in rows.names] for row in rows[:ROWS]]
    has_text = [any(isinstance(row.get(name), str) for row in rows) for name in rows.names]
    n_text_columns = [*has_text, False].index(False)  # before the first column without texts, else all
    n_hidden = len(rows) - len(shown_rows)
    table = draw_table(rows.names, shown_rows, n_text_columns=n_text_columns)
    hidden_note = element("p", f"{n_hidden} more rows: .to_pandas()", class_="dim")
    return join_html([table, hidden_note]) if n_hidden > 0 else table


def _format_cell(value: object) -> str:
    """Write a value of a table: numbers with four digits, ``-`` for None."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# ----------------------------------------------------------------------------------------- comparisons


@html_of.register
def _comparison_html(comparison: Comparison) -> str:
    """Draw a comparison: its verdict, the differences of all classes, and those of each class."""
    has_several = len(comparison.runs) > 2  # then a first column names the run
    first_name, other_name = (shorten(run.name, 24) for run in comparison.runs[:2])
    # The columns: first, other, change (as texts), and the interval (drawn as a bar).
    columns = make_difference_columns(first_name, "this run" if has_several else other_name)[:4]

    def make_rows(deltas: list[Delta]) -> list[list[object]]:
        """Return the rows of a table of differences, whose bars share one axis."""
        ends = (value for d in deltas for value in (d.interval.low, d.interval.high, d.delta))
        bounds = [abs(value) for value in ends if not math.isnan(value)]
        axis_limit = max(bounds, default=0.0) or 1.0
        texts = Table(columns[:3], [make_difference_cells(delta)[:3] for delta in deltas]).cells
        rows: list[list[object]] = []
        for delta, cells in zip(deltas, texts, strict=True):
            bar = _draw_delta(delta, axis_limit, lower_is_better=delta.key in comparison.lower_keys)
            rows.append([*([delta.run] * has_several), delta.category or delta.key, *cells, bar])
        return rows

    headers = [*(["run"] * has_several), "metric", *(column.title for column in columns)]
    overall_deltas = [d for d in comparison.deltas if d.category is None and not math.isnan(d.delta)]
    class_deltas = [d for d in comparison.deltas if d.category is not None and d.key == "AP"]
    # The largest change first; an undefined one counts as none.
    class_deltas = sorted(class_deltas, key=lambda d: -abs(d.delta) if not math.isnan(d.delta) else 0.0)
    elements = [
        element("p", element("b", comparison.verdict)),
        element("p", comparison.definition, class_="dim"),
        draw_table(headers, make_rows(overall_deltas[: 2 * ROWS]), n_text_columns=1 + has_several),
    ]
    if has_several:
        note = "Each interval is for one change alone; the verdict covers all."
        elements.append(element("p", note, class_="dim"))
    if len(class_deltas) > 1:
        headers[headers.index("metric")] = "class (AP)"
        which = f", the {ROWS} of {len(class_deltas)} that changed most" if len(class_deltas) > ROWS else ""
        inner = draw_table(headers, make_rows(class_deltas[:ROWS]), n_text_columns=1 + has_several)
        elements.append(element("details", element("summary", f"AP of classes{which}"), inner))
    return make_view(*elements)


def _draw_delta(delta: Delta, axis_limit: float, *, lower_is_better: bool) -> Html | str:
    """Draw the interval of a difference, coloured by whether all of it is better or worse."""
    low, high = delta.interval.low, delta.interval.high
    if math.isnan(low):
        return "-"
    colour = EVEN
    if low > 0:
        colour = WORSE if lower_is_better else BETTER
    elif high < 0:
        colour = BETTER if lower_is_better else WORSE
    return draw_interval(low, high, delta.delta, axis_limit, colour)


# ------------------------------------------------------------------------------- checks and conversions


@html_of.register
def _validation_html(result: Validation) -> str:
    """Draw the issues of a validation: for each code, the first ones and their number."""
    log = result.log
    elements = [element("p", element("b", format_totals(log) or "Nothing is wrong."))]
    elements += [element("p", note, class_="dim") for note in log.notes[:PLACES]]
    by_code: dict[str, list[Issue]] = {}
    for issue in result:
        by_code.setdefault(issue.code, []).append(issue)
    rows = []
    for name, issues in by_code.items():
        paragraphs = []
        for issue in issues[:PLACES]:
            location = f"{issue.location} " if issue.location != "-" else ""
            paragraphs.append(element("p", element("span", location, class_="dim"), issue.message))
        rows.append([CODES[name].severity, name, join_html(paragraphs), log.counts[name]])
    if rows:
        elements.append(
            draw_table(["", "code", f"the first {PLACES} of each", "times"], rows, n_text_columns=3)
        )
    return make_view(*elements)


@html_of.register
def _ledger_html(ledger: Ledger) -> str:
    """Draw a ledger: whether anything was lost, its rows, and the files that were left out."""
    verdict = "nothing is lost" if ledger.lossless else "not everything could be kept"
    rows = [(text, n) for n, text in ledger.rows()]
    files = [element("p", f"left out: {path}", class_="dim") for path in ledger.bad_files[:ROWS]]
    return make_view(
        element("p", element("b", f"{ledger.source_format} to {ledger.target_format}: {verdict}")),
        draw_table(["", ""], rows),
        *files,
    )


@html_of.register
def _differences_html(changes: Differences) -> str:
    return make_view(*draw_document(make_differences_document(changes)))


@html_of.register
def _agreement_html(agreement: Agreement) -> str:
    return make_view(*draw_document(make_agreement_document(agreement)))


@html_of.register
def _statistics_html(statistics: Statistics) -> str:
    """Draw statistics: the largest classes, and the distributions of sizes."""
    largest = sorted(statistics.classes, key=lambda row: -row.boxes)[:CLASSES]
    by_class = [(row.name, row.boxes, row.images, row.small, row.medium, row.large) for row in largest]
    measured = ("boxes_per_image", "box_width", "box_height", "area", "aspect")
    distributions = [(name.replace("_", " "), getattr(statistics, name)) for name in measured]
    columns = ("min", "median", "mean", "max")
    return make_view(
        element("p", element("b", repr(statistics)[1:-1])),  # without < and >
        draw_table(["class", "boxes", "images", "small", "medium", "large"], by_class),
        draw_table(
            ["", *columns],
            [(name, *(format_number(getattr(d, c), ".6g") for c in columns)) for name, d in distributions],
        ),
    )


# ---------------------------------------------------------------------------------- pages and drawings


def _make_page_options(name: str, options: Mapping[str, Any], images: Path | None) -> ReportOptions:
    """Check the options of a page that the method `name` shows, and return them as a record.

    `images` is the folder of the image files. Raises UsageError for an option that does not exist.
    """
    field_names = PageOptions.fields()
    if unknown := next((option for option in options if option not in field_names), None):
        raise UsageError(f"{name} has no option {unknown!r}{hint(unknown, field_names)}")
    record = from_keywords(ReportOptions, options)
    if images is not None:
        record.formats[""]["images"] = os.fspath(images)
    return record


@arguments.checked
@inputs.gather()
def dataset_page(
    value: Dataset, out: Path | None, images: Path | None, columns: int, **options: Any
) -> WebPage:
    """Make the page of a dataset's images with their boxes, `columns` beside each other."""
    if columns < 1:
        raise UsageError(f"show columns={columns}: expected at least 1")
    record, log = _make_page_options("show", options, images), Log()
    check_report(out, record, (), is_shown=True)
    page = showing.make_page(value, [value], record, log, log.extend)
    page.data["columns"] = columns
    return show_page(page, out, record, sources=[], print_log=log.extend)


@arguments.checked
@inputs.gather()
def evaluation_report(
    value: Evaluation | Result, out: Path | None, images: Path | None, **options: Any
) -> WebPage:
    """Make the page of an evaluation or of one result."""
    if isinstance(value, Result):
        truth, detections = value.truth_dataset, value.detections_dataset
        value = Evaluation(
            value.sides, results=[value], log=Log(), truth=truth, detections_dataset=detections
        )
    if value.truth_dataset is None or value.detections_dataset is None:
        raise UsageError("report: the boxes of this evaluation are not in memory")
    record, log = _make_page_options("report", options, images), value.log
    check_report(out, record, (), is_shown=True)
    page, sources = evaluating.make_page(value, record, log.extend)
    return show_page(page, out, record, sources, log.extend)


@arguments.checked
@inputs.gather()
def comparison_report(value: Comparison, out: Path | None, images: Path | None, **options: Any) -> WebPage:
    """Make the page of a comparison."""
    if not value.evaluations:
        raise UsageError(
            f"report: the boxes are not in memory: odm.compare keeps those of up to {comparing.KEPT} "
            'runs; for more, its argument report="runs.html" writes the page'
        )
    record, log = _make_page_options("report", options, images), Log()
    check_report(out, record, (), is_shown=True)
    page = comparing.make_page(value, value.evaluations, [], record, log, log.extend)
    return show_page(page, out, record, sources=[], print_log=log.extend)


@arguments.checked
def plot(value: Evaluation | Result, what: str) -> Figure:
    """Draw the plot of ``odm eval --plots`` with the name `what`."""
    from odm.drawing import check_matplotlib, encode

    check_matplotlib()
    from odm.evaluate.output.plots import draw_figure

    figure = draw_figure(value.result if isinstance(value, Evaluation) else value, what)
    # A notebook shows figures by itself only once pyplot is imported.
    figure._repr_png_ = lambda: encode(figure, "png", 96)  # type: ignore[attr-defined]
    return figure
