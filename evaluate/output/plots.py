"""Plots of results as PNG, SVG and PDF: precision over recall, F1 over confidence, calibration, confusion.

They need Matplotlib. Figures are made without its global state, and the same results give the same bytes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from odm.drawing import FORMATS, apply_settings, check_matplotlib, encode
from odm.evaluate.matching.confusion import Confusion
from odm.evaluate.results import Evaluation, Result
from odm.evaluate.scores.accumulate import miss_keys
from odm.issues import Log, UsageError, listed, printable, shorten
from odm.numbers import format_number, format_percent
from odm.tables import Floats, Longs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED = 12
"""With more classes than this, one picture shows their curves in grey and without a legend."""

IN_MATRIX = 60
"""The most classes that a confusion matrix shows: those that are confused most."""

_BLUE, _RED, _GREY = "#1f5fa8", "#c43c2b", "#9a9a9a"
_STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "pdf.fonttype": 42,  # publishers refuse the fonts of type 3
    "svg.fonttype": "none",  # text stays text, so that a name in any script can be read
    "svg.hashsalt": "odm",
    "text.parse_math": False,  # names may hold a dollar
}


def draw(evaluation: Evaluation, write: Callable[[str, bytes], object]) -> None:
    """Call `write` with the name and the content of each plot.

    Names are ``<protocol>-<iou>/<picture>.png``, ``.svg`` and ``.pdf``; a class appears in them by its number
    and by the letters and digits of its name.

    Raises
    ------
    UsageError
        If Matplotlib is not installed.
    """
    check_matplotlib()
    fallback_words = "shown as empty boxes in PNG and PDF files; the SVG files have the names"
    with _use_style(evaluation.log, fallback_words):
        for result_number, result in enumerate(evaluation.results, 1):
            folder = _name_folder(evaluation, result_number, result)
            for name, figure in _draw_pictures(result):
                for suffix in FORMATS:
                    write(f"{folder}/{name}.{suffix}", encode(figure, suffix, dpi=120))
                    figure.set_layout_engine("none")  # the other pictures keep the places of the first


def draw_figure(result: Result, plot_name: str) -> Figure:
    """Draw one plot of a result by its file name without suffix. Raises UsageError for an unknown name."""
    with _use_style(Log(), ""):  # what the font lacks is not reported
        names = []
        for name, figure in _draw_pictures(result):
            if name == plot_name:
                return figure
            names.append(name)
    raise UsageError(f"plot {plot_name!r}: choose one of {listed(names, 10)}")


@contextlib.contextmanager
def _use_style(log: Log, fallback_words: str) -> Iterator[None]:
    """Context manager that sets Matplotlib's defaults and the style of these plots.

    Characters that the font lacks are noted in `log`; `fallback_words` say how they are shown.
    """
    import matplotlib as mpl

    with apply_settings(log, fallback_words) as settings:
        mpl.rcdefaults()
        settings.update(_STYLE)
        yield


def _name_folder(evaluation: Evaluation, result_number: int, result: Result) -> str:
    """Return the folder of a result's plots; its `result_number` comes first if another has the same name."""
    name = make_safe_name(result.protocol)
    if not result.rules.averaged:
        name += f"-{result.iou:g}"
    same_named_results = [
        r for r in evaluation.results if r.protocol == result.protocol and str(r.iou) == str(result.iou)
    ]
    return name if len(same_named_results) == 1 else f"{result_number}-{name}"


def make_safe_name(name: str) -> str:
    """Make a file name of a class name: ASCII letters, digits and hyphens, at most 40, with ``_`` between."""
    safe_characters = "".join(c if c.isascii() and (c.isalnum() or c == "-") else "_" for c in name)
    return "_".join(word for word in safe_characters.split("_") if word)[:40].rstrip("_")


def _draw_pictures(result: Result) -> Iterator[tuple[str, Figure]]:
    """Yield the name and the figure of each plot of a result."""
    if result.errors:
        yield "errors", _draw_errors(result)
    if result.curves:
        yield "precision-recall", _draw_all_curves(result)
        yield "f1-confidence", _draw_f1(result)
    if result.rules.rates:
        yield "miss-rate", _draw_miss_rates(result)
    if result.curves and (data := _get_calibration(result)):
        yield "calibration", _draw_calibration(result, data)
    yield "confusion", _draw_confusion(result)
    for k, row in enumerate(result.classes):
        if row.name in result.curves:
            yield (
                f"precision-recall-{k + 1:04d}-{make_safe_name(row.name)}".rstrip("-"),
                _draw_class_curve(result, k),
            )


def _make_axes(
    title: str, subtitle: str, *, width: float = 6.4, height: float = 4.8, fixed: bool = False
) -> tuple[Figure, Axes]:
    """Make a figure with titles, and its axes; sizes are inches. `fixed` margins halve the time to draw."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=None if fixed else "constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    if fixed:
        figure.subplots_adjust(left=0.09, right=0.98, bottom=0.1, top=0.88)
    figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    axes.set_title(subtitle, fontsize=8, color="#555555", loc="left")
    return figure, axes


def _shorten_name(name: str, limit: int = 40) -> str:
    return printable(shorten(name, limit))


def _format_iou(result: Result) -> str:
    rules = result.rules
    if rules.size_threshold:
        return "IoU >= 0.5, less for small objects"
    return f"IoU >= {rules.ious[rules.reference]:g}"


def _get_ap(result: Result, k: int) -> float:
    """Return the AP of the curve of class `k`."""
    row = result.classes[k]
    if "ap_per_iou" not in row.extra:
        return row.ap
    return float(row.extra["ap_per_iou"][result.rules.reference])


def _make_staircase(recall: Floats, precision: Floats) -> tuple[Floats, Floats]:
    """Return the corners (x, y) of the staircase that AP is the area under.

    It begins at recall 0, and falls to precision 0 after the last recall.
    """
    # recall .5 1, envelope .9 .6:  x 0 .5 .5 1 1,  y .9 .9 .6 .6 0
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    x = np.repeat(np.concatenate([[0.0], recall]), 2)[1:]
    y = np.repeat(envelope, 2)
    return np.append(x[: len(y)], recall[-1:]), np.append(y, 0.0)[: len(y) + 1]


def _label_recall_precision(axes: Axes) -> None:
    axes.set(xlim=(0, 1.01), ylim=(0, 1.02), xlabel="recall", ylabel="precision")


def _draw_class_curve(result: Result, k: int) -> Figure:
    """Draw precision over recall of class `k`, with its envelope and its operating point."""
    row = result.classes[k]
    curve = result.curves[row.name]
    figure, axes = _make_axes(
        _shorten_name(row.name),
        f"{result.protocol}, {_format_iou(result)}, AP {format_percent(_get_ap(result, k))}",
        fixed=True,
    )
    if len(curve.recall):
        x, y = _make_staircase(curve.recall, curve.precision)
        axes.fill_between(x, y, color=_BLUE, alpha=0.12, linewidth=0, label="envelope")
        has_few_points = len(curve.recall) <= 50
        axes.plot(
            curve.recall, curve.precision, color=_BLUE, linewidth=1.2, marker="o" if has_few_points else "",
            markersize=3, label="at true positives",
        )  # fmt: skip
        if not math.isnan(row.precision + row.recall):
            axes.plot(
                [row.recall], [row.precision], "D", color=_RED, markersize=6, clip_on=False,
                label=f"F1 {row.f1:.3f} at score {row.score:.4g}",
            )  # fmt: skip
        axes.legend(loc="best", frameon=False)
    else:
        axes.text(0.5, 0.5, "no true positive", ha="center", color=_GREY)
    _label_recall_precision(axes)
    return figure


def _draw_all_curves(result: Result) -> Figure:
    """Draw precision over recall of all classes, and the mean of their envelopes."""
    aps = [_get_ap(result, k) for k, row in enumerate(result.classes) if row.gt]
    title = f"{result.protocol}, {_format_iou(result)}"
    if result.rules.metric == "pooled":
        title += f", AP of all classes in one ranking {format_percent(result.summary['AP'])}"
    elif aps:
        title += f", mean AP {format_percent(float(np.mean(aps)))}"
    figure, axes = _make_axes("Precision and recall", title)
    names = [row.name for row in result.classes if row.name in result.curves]
    points = np.linspace(0, 1, 201)  # the recalls at which the mean is drawn
    mean = np.zeros(len(points))
    for n, name in enumerate(names):
        curve = result.curves[name]
        if len(curve.recall):
            x, y = _make_staircase(curve.recall, curve.precision)
            envelope = np.maximum.accumulate(curve.precision[::-1])[::-1]
            indices = np.searchsorted(curve.recall, points)
            mean += np.append(envelope, 0.0)[indices]  # 0 beyond the last recall
        else:  # no true positive: precision falls to 0 at recall 0
            x, y = np.zeros(2), np.array([1.0, 0.0])
        ap = _get_ap(result, [row.name for row in result.classes].index(name))
        _draw_class_line(axes, x, y, n, len(names), f"{format_percent(ap)}  {_shorten_name(name)}")
    if len(names) > 1:
        axes.plot(
            points, mean / len(names), color="black", linewidth=2, label="mean precision at this recall"
        )
    if names:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    _label_recall_precision(axes)
    figure.set_size_inches(8.4, 4.8)
    return figure


def _draw_miss_rates(result: Result) -> Figure:
    """Draw miss rates over false positives per image, both on logarithmic axes, as papers do."""
    rules, curves = result.rules, result.miss_curves
    figure, axes = _make_axes("Miss rate", f"{result.protocol}, {_format_iou(result)}; lower is better")
    rate_min = min(rules.rates) / 2
    for n, curve in enumerate(curves):
        row = result.classes[curve.category]
        has_several_classes = len({other_curve.category for other_curve in curves}) > 1
        name = row.name if has_several_classes or len(rules.areas) == 1 else rules.areas[curve.area].name
        label = f"{format_percent(row.extra[miss_keys(rules)[curve.area]])}  {_shorten_name(name)}"
        # 0 has no place on a logarithmic axis.
        x, y = np.maximum(curve.false_per_image, rate_min), np.maximum(curve.miss_rate, 1e-3)
        _draw_class_line(axes, x, y, n, len(curves), label, drawstyle="steps-post")
    axes.set(xscale="log", yscale="log", xlabel="false positives per image", ylabel="miss rate")
    lowest = min((float(curve.miss_rate.min()) for curve in curves), default=0.1)
    marks = [mark for mark in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1) if mark >= lowest / 2]
    axes.set_yticks(marks, [f"{mark:g}" for mark in marks])
    axes.set_xticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    rate_max = max(1.0, *(float(curve.false_per_image[-1]) for curve in curves), rate_min)
    axes.set(ylim=(marks[0], 1.05), xlim=(rate_min, rate_max))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter("")
    for rate in rules.rates:
        axes.axvline(rate, color=_GREY, linewidth=0.5, linestyle=":")
    if curves:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    figure.set_size_inches(8.4, 4.8)
    return figure


def _draw_class_line(
    axes: Axes, x: Floats, y: Floats, n: int, n_classes: int, label: str, **style: Any
) -> None:
    """Draw the line of class number `n`; with many classes all are grey and have one label."""
    from matplotlib import colormaps

    if n_classes <= NAMED:
        # The map has a strong and a pale one of each of ten colours, in turn: 0 2 ... 18, then 1 3 ... 19.
        colour = colormaps["tab20"](n % 10 * 2 + n // 10 % 2)
        axes.plot(x, y, color=colour, linewidth=1.3, label=label, **style)
    else:
        shared_label = f"{n_classes} classes" if not n else None
        axes.plot(x, y, color=_GREY, linewidth=0.5, alpha=0.6, label=shared_label, **style)


def _draw_f1(result: Result) -> Figure:
    """Draw F1 over the score threshold, of each class and of all classes together."""
    from odm.evaluate.matching.matches import find_outcomes

    matches = result.matches
    outcome, _ = find_outcomes(matches)
    figure, axes = _make_axes("F1 against confidence", f"{result.protocol}, {_format_iou(result)}")
    # The axis spans all scores, and at least 0..1.
    low, high = float(np.min(matches.score, initial=0.0)), float(np.max(matches.score, initial=1.0))
    grid = np.linspace(low, high, 501)
    names = [row.name for row in result.classes if row.name in result.curves]
    n = 0  # lines drawn
    for k, row in enumerate(result.classes):
        if row.name not in result.curves:
            continue
        is_of_class = matches.category == k
        scores = _choose_thresholds(grid, matches.score[is_of_class], row.score)
        f1 = _compute_f1(scores, matches.score, outcome, is_of_class, row.gt)
        label = f"{format_number(row.f1, '.3f')}  {_shorten_name(row.name)}"
        _draw_class_line(axes, scores, f1, n, len(names), label, drawstyle="steps-pre")
        n += 1
    is_any = np.ones(len(matches.score), np.bool_)
    overall = result.overall
    if len(names) > 1:
        scores = _choose_thresholds(grid, matches.score, overall.score)
        f1 = _compute_f1(scores, matches.score, outcome, is_any, overall.gt)
        axes.plot(scores, f1, color="black", linewidth=2, drawstyle="steps-pre", label="all classes")
    if not math.isnan(overall.f1 + overall.score):
        label = f"F1 {overall.f1:.3f} at score {overall.score:.4g}"
        axes.plot([overall.score], [overall.f1], "D", color=_RED, markersize=6, clip_on=False, label=label)
    axes.set(xlim=(low, high), ylim=(0, 1.02), xlabel="confidence threshold", ylabel="F1")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    figure.set_size_inches(8.4, 4.8)
    return figure


def _choose_thresholds(grid: Floats, score: Floats, best: float) -> Floats:
    """Return the scores at which F1 is drawn: all distinct ones or, of many, a grid and the best."""
    thresholds = np.unique(score)
    if len(thresholds) > len(grid):
        thresholds = grid if math.isnan(best) else np.append(grid, best)
    return np.unique(np.concatenate([thresholds, grid[[0, -1]]]))


def _compute_f1(thresholds: Floats, score: Floats, outcome: Any, is_chosen: Any, npos: int) -> Floats:
    """Return F1 of the chosen detections at or above each of the thresholds, with `npos` ground truths.

    `score`, `outcome` and the mask `is_chosen` are (detections,).
    """
    counts = []
    for outcome_number in (0, 1):  # true and false positives, as in `OUTCOMES`
        outcome_scores = np.sort(score[is_chosen & (outcome == outcome_number)])
        counts.append(len(outcome_scores) - np.searchsorted(outcome_scores, thresholds))
    f1: Floats = 2 * counts[0] / np.maximum(counts[0] + counts[1] + npos, 1)
    return f1


def _get_calibration(result: Result) -> dict[str, Any] | None:
    """Return the calibration of the scores; None if they are not in 0..1, or there are none."""
    from odm.evaluate.analysis.analyses import calibration
    from odm.evaluate.analysis.table import table_of

    data = result.analysis.get("calibration") or calibration(table_of(result))
    return None if data["dece"] is None else data


def _draw_calibration(result: Result, data: dict[str, Any]) -> Figure:
    """Draw the precision of each bin of scores, and its gap to the mean score of the bin."""
    numbers = f"D-ECE {data['dece']:.3f}, largest gap {data['mce']:.3f}"
    figure, axes = _make_axes("Calibration", f"{result.protocol}, {_format_iou(result)}; {numbers}")
    bins = [score_bin for score_bin in data["bins"] if score_bin["n"]]
    score, precision = (np.array([score_bin[key] for score_bin in bins]) for key in ("score", "precision"))
    for is_over, colour, label in ((True, _RED, "overconfident"), (False, _BLUE, "underconfident")):
        is_side = (precision < score) == is_over
        gap = precision[is_side] - score[is_side]
        axes.bar(
            score[is_side], gap, bottom=score[is_side], width=0.075, color=colour, alpha=0.35, label=label
        )
    axes.plot([0, 1], [0, 1], "--", color=_GREY, linewidth=1, label="perfectly calibrated")
    axes.plot(score, precision, "o-", color="black", linewidth=1.5, markersize=4, label="precision of a bin")
    axes.set(xlim=(0, 1.01), ylim=(0, 1.02), xlabel="mean score of the bin", ylabel="precision")
    axes.legend(loc="upper left", frameon=False)
    return figure


def _draw_confusion(result: Result) -> Figure:
    """Draw the confusion matrix, of many classes only those that are confused most."""
    from matplotlib.colors import PowerNorm

    table = result.confusion()
    n = len(table.classes)
    score_words = f"score >= {table.score:g}" if math.isfinite(table.score) else "scores as given"
    subtitle = f"{result.protocol}; {score_words}, IoU >= {table.iou:g}"
    named_classes = _select_confused(table)
    if n > IN_MATRIX:
        subtitle += f"; the {IN_MATRIX} of {n} classes most often confused"
    counts, share = _count_shown(table, np.append(named_classes, n))  # n: missed, and the background
    size = len(counts)
    inches = min(max(4.5, 3 + 0.4 * size), 16)
    figure, axes = _make_axes("Confusion", subtitle, width=inches + 1, height=inches)
    image = axes.imshow(share, cmap="Blues", norm=PowerNorm(0.5, 0, 1), aspect="auto")
    axes.grid(visible=False)
    names = [_shorten_name(table.classes[k], 20) for k in named_classes.tolist()]
    font = next(points for most, points in ((20, 9), (40, 7), (size, 6)) if size <= most)
    axes.set_xticks(range(size), [*names, "(missed)"], rotation=90, fontsize=font)
    axes.set_yticks(range(size), [*names, "(background)"], fontsize=font)
    axes.set(xlabel="detected as", ylabel="ground truth")
    if size <= 30:
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": font - 1}
        for row, column in zip(*(places.tolist() for places in counts.nonzero()), strict=True):
            colour = "white" if share[row, column] > 0.4 else "black"
            axes.text(column, row, str(counts[row, column]), color=colour, **style)
    figure.colorbar(image, ax=axes, shrink=0.7, label="share of the row")
    return figure


def _select_confused(table: Confusion) -> Longs:
    """Return the numbers of the classes to show: all, or the `IN_MATRIX` that are confused most."""
    n = len(table.classes)
    if n <= IN_MATRIX:
        return np.arange(n)
    truth, detected = table.table.index  # classes of each cell that is not 0; n is the background
    is_wrong = (truth != detected) & (truth < n) & (detected < n)
    n_wrong = table.table.n[is_wrong]
    weight = sum(np.bincount(classes[is_wrong], n_wrong, minlength=n) for classes in (truth, detected))
    return np.sort(np.argsort(-weight, kind="stable")[:IN_MATRIX])


def _count_shown(table: Confusion, shown_classes: Longs) -> tuple[Longs, Floats]:
    """Return (shown, shown) the counts of these classes, and their shares of all ground truths of the row."""
    n, (truth, detected) = len(table.classes), table.table.index
    position_by_class = np.full(n + 1, -1)
    position_by_class[shown_classes] = np.arange(len(shown_classes))
    row, column = position_by_class[truth], position_by_class[detected]
    is_shown = (row >= 0) & (column >= 0)
    counts = np.zeros((len(shown_classes), len(shown_classes)), np.int64)
    counts[row[is_shown], column[is_shown]] = table.table.n[is_shown]
    n_truths = np.bincount(truth, table.table.n, minlength=n + 1)[shown_classes, None]
    return counts, counts / np.maximum(n_truths, 1)


def _draw_errors(result: Result) -> Figure:
    """Draw the share of images without a correct guess over the number of guesses."""
    figure, axes = _make_axes("Top-k error", f"{result.protocol}, {_format_iou(result)}")
    k = np.arange(1, len(result.errors["cls"]) + 1)
    axes.plot(k, result.errors["loc"], "o-", color=_RED, label="class and location")
    axes.plot(k, result.errors["cls"], "o-", color=_BLUE, label="class only")
    axes.set(ylim=(0, 1.02), xlabel="guesses per image", ylabel="share of images without a correct guess")
    axes.set_xticks(k)
    axes.legend(frameon=False)
    return figure
