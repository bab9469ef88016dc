"""Plots of the statistics of a dataset; they need the extra ``[plot]``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from odm.converters.statistics import AREAS, Statistics, areas_of, aspects_of
from odm.drawing import FORMATS, apply_settings, check_matplotlib, encode
from odm.files import Output
from odm.issues import Log, plural, printable
from odm.tables import Dataset, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

MAX_CLASSES = 60
"""How many classes one picture shows; the most frequent ones."""

BLUE, GREY = "#2f6db3", "#8a8a8a"


def save_plots(
    dataset: Dataset,
    statistics: Statistics,
    target: str,
    log: Log,
    *,
    overwrite: bool = False,
) -> tuple[str, ...]:
    """Write every plot that the data allows into a folder, as PNG, SVG and PDF, all or nothing.

    Returns the names of the files. Raises UsageError if Matplotlib is not installed, and PathError if the
    target is not usable.
    """
    check_matplotlib()
    output = Output(target, overwrite=overwrite)
    plots = {
        name: (draw, height) for name, draw, height in _list_plots(dataset, statistics) if height is not None
    }
    names = [f"{name}.{suffix}" for name in plots for suffix in FORMATS]
    output.plan(names, owners=names, log=log, path=target)
    from matplotlib.figure import Figure

    with apply_settings(log, replacement="drawn as empty boxes") as settings, output:
        # Ids that do not change from run to run; letters as outlines in SVG, and as TrueType (42) in PDF.
        settings.update({"svg.hashsalt": "odm", "svg.fonttype": "path", "pdf.fonttype": 42})
        for name in log.track(list(plots), "plots"):
            draw, height = plots[name]
            figure = Figure(figsize=(8, height), layout="constrained")
            axes = figure.add_subplot()
            draw(axes)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
            for suffix in FORMATS:
                output.write(f"{name}.{suffix}", encode(figure, suffix, dpi=144))
    return tuple(output.written)


def _list_plots(
    dataset: Dataset, statistics: Statistics
) -> list[tuple[str, Callable[[Axes], None], float | None]]:
    """Return (name, draw function, height in inches) of each plot.

    The height is None if there is nothing to show.
    """
    n_shown = min(MAX_CLASSES, len(statistics.classes))
    height = 4.5 if statistics.boxes else None
    return [
        (
            "objects_per_class",
            lambda axes: _draw_classes(axes, statistics),
            max(2.5, 1.2 + 0.24 * n_shown) if n_shown else None,
        ),
        (
            "boxes_per_image",
            lambda axes: _draw_per_image(axes, statistics),
            4.5 if statistics.images else None,
        ),
        ("areas", lambda axes: _draw_areas(axes, areas_of(dataset)), height),
        ("aspect_ratios", lambda axes: _draw_aspects(axes, aspects_of(dataset)), height),
        ("box_sizes", lambda axes: _draw_box_sizes(axes, dataset.boxes.wh), height),
        ("image_sizes", lambda axes: _draw_sizes(axes, statistics), 4.5 if statistics.image_sizes else None),
        (
            "scores",
            lambda axes: _draw_scores(axes, dataset.boxes.score),
            height if statistics.scores else None,
        ),
    ]


def _show_whole_numbers(axis: Axis) -> None:
    """Let an axis of counts show whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _draw_classes(axes: Axes, statistics: Statistics) -> None:
    """Draw a bar per class, the most frequent first."""
    rows = sorted(statistics.classes, key=lambda row: -row.boxes)[:MAX_CLASSES]
    y = np.arange(len(rows))
    bars = axes.barh(y, [row.boxes for row in rows], color=BLUE)
    labels = [f" {row.boxes} in {plural(row.images, 'image')}" for row in rows]
    axes.bar_label(bars, labels, fontsize=7, color="#333333")
    names = [printable(row.name) for row in rows]
    axes.set_yticks(y, [n if len(n) <= 40 else n[:39] + "…" for n in names], fontsize=8, parse_math=False)
    axes.invert_yaxis()
    axes.margins(x=0.18, y=0.01)
    axes.set_xlabel("boxes")
    _show_whole_numbers(axes.xaxis)
    n_hidden = len(statistics.classes) - len(rows)
    axes.set_title(
        "Objects per class"
        + (f" (the {len(rows)} most frequent of {len(rows) + n_hidden})" if n_hidden else "")
    )


def _draw_per_image(axes: Axes, statistics: Statistics) -> None:
    """Draw how many images have each number of boxes; over a wide range, in 60 bins."""
    box_counts, n_images = (np.array(column) for column in zip(*statistics.images_by_boxes, strict=True))
    low, high = int(box_counts.min()), int(box_counts.max())
    if high - low <= 60:
        axes.bar(box_counts, n_images, width=0.9, color=BLUE)
        axes.set_xlim(low - 0.8, high + 0.8)
    else:
        axes.hist(box_counts, bins=60, weights=n_images, color=BLUE)
    _show_whole_numbers(axes.xaxis)
    mean = statistics.boxes_per_image.mean
    assert mean is not None
    axes.axvline(mean, color=GREY, linestyle="--", linewidth=1, label=f"mean {mean:.2f}")
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1))  # above, where no bar is
    _set_titles(axes, "Boxes per image", "boxes", "images")


def _make_log_bins(values: Floats, n_bins: int) -> Floats:
    """Return the `n_bins` + 1 edges of bins over positive values, evenly spaced on a logarithmic axis."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low / 2, high * 2
    bins: Floats = np.geomspace(low, high, n_bins + 1)
    return bins


def _draw_log_histogram(axes: Axes, values: Floats, **scale: Any) -> None:
    """Draw a histogram of the finite values above 0 over a logarithmic axis; `scale` are options of it."""
    positive = values[np.isfinite(values) & (values > 0)]
    if len(positive):
        axes.hist(positive, bins=_make_log_bins(positive, 50).tolist(), color=BLUE)
        axes.set_xscale("log", **scale)


def _draw_areas(axes: Axes, areas: Floats) -> None:
    _draw_log_histogram(axes, areas)
    for bound, label in ((AREAS["medium"][0], "32²"), (AREAS["large"][0], "96²")):
        axes.axvline(bound, color=GREY, linestyle="--", linewidth=1)
        axes.annotate(label, (bound, 0.97), xycoords=("data", "axes fraction"), fontsize=8, color="#555555")
    _set_titles(axes, "Box areas, with COCO's limits of small, medium and large", "square pixels", "boxes")


def _draw_aspects(axes: Axes, aspects: Floats) -> None:
    _draw_log_histogram(axes, aspects, base=2)
    axes.axvline(1, color=GREY, linestyle="--", linewidth=1)
    _set_titles(axes, "Box aspect ratios", "width / height", "boxes")


def _draw_box_sizes(axes: Axes, wh: Floats) -> None:
    """Draw a two-dimensional histogram of widths and heights, both logarithmic."""
    valid_wh = wh[np.isfinite(wh).all(axis=1) & (wh > 0).all(axis=1)]
    if len(valid_wh):
        bins: Any = [_make_log_bins(valid_wh[:, 0], 60), _make_log_bins(valid_wh[:, 1], 60)]
        *_, mesh = axes.hist2d(valid_wh[:, 0], valid_wh[:, 1], bins=bins, cmap="Blues", cmin=1, vmin=0)
        mesh.set_rasterized(True)  # one picture also in SVG and PDF, not thousands of cells
        _show_whole_numbers(axes.figure.colorbar(mesh, ax=axes, label="boxes").ax.yaxis)
        axes.set_xscale("log")
        axes.set_yscale("log")
    _set_titles(axes, "Box sizes", "width in pixels", "height in pixels")


def _draw_sizes(axes: Axes, statistics: Statistics) -> None:
    width, height, n = (np.array(column) for column in zip(*statistics.image_sizes, strict=True))
    axes.scatter(width, height, s=12 + 300 * n / n.max(), color=BLUE, alpha=0.5, linewidths=0, clip_on=False)
    axes.set_xlim(0, 1.08 * int(width.max()))
    axes.set_ylim(0, 1.08 * int(height.max()))
    _set_titles(axes, "Image sizes (larger dots: more images)", "width in pixels", "height in pixels")


def _draw_scores(axes: Axes, scores: Floats) -> None:
    values = scores[np.isfinite(scores)]
    inside = bool(len(values) and values.min() >= 0 and values.max() <= 1)
    axes.hist(values, bins=50, range=(0, 1) if inside else None, color=BLUE)
    _set_titles(axes, "Scores", "score", "boxes")


def _set_titles(axes: Axes, title: str, x_label: str, y_label: str) -> None:
    """Name a plot and its two axes; an axis of counts shows whole numbers."""
    axes.set_title(title)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if y_label in ("boxes", "images"):
        _show_whole_numbers(axes.yaxis)
