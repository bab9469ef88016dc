"""Render comparisons of runs: their document, CSV and JSON."""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from odm.document import Column, Document, Items, Line, Section, Table, draw, format_csv
from odm.evaluate.analysis.bootstrap import MOST_UNDEFINED, Interval
from odm.evaluate.analysis.compare import DELTA_COLUMNS, Comparison, Delta, make_headline
from odm.evaluate.analysis.images import DELTAS
from odm.evaluate.analysis.render_analyses import make_section, make_slices_section
from odm.evaluate.results import COVERAGE
from odm.issues import plural, printable
from odm.names import shorten_paths
from odm.numbers import format_interval, format_number, format_percent, format_percents, format_points
from odm.terminal import cell, json_text

CLASSES_SHOWN = 40
ENDS_SHOWN = 10
IMAGES_SHOWN = 5
UNLIKE = 0.1
"""Runs whose numbers of images with detections differ by more than this share of all images say so."""
WIDTH = 80
MOST_PAIRS = 3
"""Of more runs a line each is shown."""
DROPPED = (("its interval",), ("p (Holm)",), ("lost TP", "new TP"), ("p",), ("better",))
"""Columns that are left out where a table is too wide, in this order."""

RANKING_COLUMNS = ("run", "key", "value", "low", "high", "delta", "delta_low", "delta_high", "p_holm", "same")
SLICE_COLUMNS = ("run", "slice", "value", "images", "gt", "key", "summary", "delta", "low", "high")


def render_comparison(comparison: Comparison, output: str = "table", *, width: int | None = WIDTH) -> str:
    """Render the comparison as text that ends with a newline.

    Parameters
    ----------
    comparison
        What `odm.evaluate.analysis.compare` returned.
    output
        ``table``, ``json`` (the contract), ``csv`` (a row per difference), ``markdown`` or ``latex``.
    width
        Of a table: how many characters a line may have; columns that do not fit are left out. None shows all.
    """
    if output == "json":
        return format_comparison_json(comparison)
    if output == "csv":
        return format_deltas_csv(comparison.deltas)
    document = make_comparison_document(comparison, wide=width is None)
    return draw(document, output, width)


def save_comparison(comparison: Comparison, write: Callable[[str, bytes], object]) -> None:
    """Call `write` with the name and the content of each file."""
    write("comparison.json", format_comparison_json(comparison).encode())
    write("summary.csv", format_deltas_csv([d for d in comparison.deltas if d.category is None]).encode())
    write("classes.csv", format_deltas_csv([d for d in comparison.deltas if d.category is not None]).encode())
    columns = ["run", *DELTAS]
    write(
        "images.csv", format_csv(columns, ([r[key] for key in columns] for r in comparison.images)).encode()
    )
    # A row for each key: `SLICE_COLUMNS` are those of the slice, "key", and those that have a value by key.
    slices = (
        [*(row[name] for name in SLICE_COLUMNS[:5]), key, *(row[name][key] for name in SLICE_COLUMNS[6:])]
        for row in comparison.slices
        for key in row["summary"]
    )
    rows = [standing.to_dict() for standing in comparison.ranking]
    board = ([*(row[key] for key in RANKING_COLUMNS[:-1]), " ".join(row["same"])] for row in rows)
    write("ranking.csv", format_csv(RANKING_COLUMNS, board).encode())
    write("slices.csv", format_csv(SLICE_COLUMNS, slices).encode())


def format_comparison_json(comparison: Comparison) -> str:
    """Render the JSON contract."""
    return json_text(comparison.to_dict()) + "\n"


def format_deltas_csv(deltas: Sequence[Delta]) -> str:
    """Format a row per difference as CSV."""
    rows = (delta.to_dict() for delta in deltas)
    return format_csv(DELTA_COLUMNS, ([row.get(key) for key in DELTA_COLUMNS] for row in rows))


def make_headlines(comparison: Comparison, *, wide: bool = False) -> list[str]:
    """Return the last lines: whether each run but the first is better, or the verdict of a ranking alone."""
    if is_leaderboard(comparison, wide=wide):
        return [comparison.verdict]
    names = [run.name for run in comparison.runs]
    letters = dict(zip(names, _make_letters(len(names)), strict=True))
    return [make_headline(comparison, name, letters) for name in names[1:]]


def is_leaderboard(comparison: Comparison, *, wide: bool) -> bool:
    """Return whether runs are shown in a line each, and not each pair and class."""
    return len(comparison.runs) > MOST_PAIRS and not wide


def make_comparison_document(comparison: Comparison, *, wide: bool) -> Document:
    """Make the document: runs, differences, verdict; without `wide`, only one table of many runs."""
    return _Comparison(comparison, wide=wide).make_document()


P_VALUE = functools.partial(format_number, form=".3f")
IMAGE_ERROR = functools.partial(format_number, form=".2f")


def make_difference_columns(first_name: str, other_name: str) -> list[Column]:
    """Make the columns of `make_difference_cells`, under the names of two runs."""
    columns = [
        Column(first_name, format_percent),
        Column(other_name, format_percent),
        Column("change", format_points),
    ]
    chance = functools.partial(format_percent, form=".0f")
    return [*columns, Column("interval", format_interval), Column("better", chance), Column("p", P_VALUE)]


def make_difference_cells(delta: Delta) -> list[Any]:
    """Return the values of a difference, for `make_difference_columns`."""
    bounds = delta.interval
    values = [delta.first, delta.other, delta.delta, (bounds.low, bounds.high)]
    return [*values, bounds.p_better, bounds.p]


class _Comparison:
    """The sections of a comparison; runs are named by letters, as long paths do not fit into tables."""

    def __init__(self, comparison: Comparison, *, wide: bool) -> None:
        self.comparison, self.wide = comparison, wide
        names = [run.name for run in comparison.runs]
        self.letter = dict(zip(names, _make_letters(len(names)), strict=True))

    def make_document(self) -> Document:
        """Make the document of `make_comparison_document`."""
        comparison = self.comparison
        document: Document = [[Items(list(self._list_head_lines()))]]
        is_short = is_leaderboard(comparison, wide=self.wide)
        if len(comparison.runs) > 2:
            document.append(self._make_leaderboard())
        if not is_short:
            if len(comparison.runs) > 2:
                document.append([Line(comparison.verdict)])
            for run in comparison.runs[1:]:
                document += (self._make_summary(run.name), self._make_classes(run.name))
                document += (self._make_slices(run.name), *self._make_images(run.name))
        return [*document, [Line(line, "verdict") for line in make_headlines(comparison, wide=self.wide)]]

    def _list_head_lines(self) -> Iterator[str]:
        """Yield lines on the protocol, what the letters stand for, and where the intervals come from."""
        comparison = self.comparison
        yield comparison.definition
        detected = [run.detected_images for run in comparison.runs]
        is_unlike = max(detected) - min(detected) > UNLIKE * comparison.n_images
        is_short = is_leaderboard(comparison, wide=self.wide)
        twins = {name: standing.run for standing in comparison.ranking for name in standing.same}
        for (name, letter), n in zip(self.letter.items(), detected, strict=True):
            if is_short and not (is_unlike and n < max(detected)):  # of many runs only those on fewer images
                continue
            images = f" (detections on {n} of {plural(comparison.n_images, 'image')})" if is_unlike else ""
            if name in twins and not is_short:
                images = f" (the same detections as {self.letter[twins[name]]})"
            yield f"{letter}: {printable(name)}{images}"
        yield (
            f"{100 * comparison.level:g} % intervals from {comparison.replicates} bootstrap samples of "
            f"{plural(comparison.n_images, 'image')}, seed {comparison.seed}; {COVERAGE}"
        )

    def _make_leaderboard(self) -> Section:
        """Return the table of runs, best first: by short names, for which a line has room, not by letters."""
        ranking, level = self.comparison.ranking, self.comparison.level
        names = dict(zip(self.letter, shorten_paths(list(self.letter)), strict=True))
        rows = []
        for row, place in zip(ranking, _format_places([row.value for row in ranking]), strict=True):
            bounds, delta_bounds, differs = row.interval, row.delta_interval, row.differs(level)
            rows.append(
                [
                    *(place, names[row.run], row.value, (bounds.low, bounds.high)),
                    # The best has no difference from itself.
                    *(row.delta or None, (delta_bounds.low, delta_bounds.high), row.p_holm),
                    {None: "-", True: "yes", False: "no"}[differs],
                ]
            )
        columns = [Column(""), Column("run", cell), Column(ranking[0].key, format_percent)]
        columns += [
            Column("interval", format_percents),
            Column("to the best", format_points),
            Column("its interval", format_interval),
        ]
        columns += [Column("p (Holm)", P_VALUE), Column("differs")]
        twins = [
            f"{', '.join(names[name] for name in entry.same)}: the same detections as {names[entry.run]}"
            for entry in ranking
            if entry.same
        ]
        tests = [(row.delta_interval, row.p_holm) for row in ranking]
        return [Table(columns, rows, DROPPED), *map(Line, twins), *self._explain_corrected(tests, "runs")]

    def _explain_corrected(self, tests: Sequence[tuple[Interval, float]], subject: str) -> list[Line]:
        """Explain why intervals without 0 are no differences, if there are any.

        `tests` are the interval and the corrected p value of each difference.
        """
        alpha = 1 - self.comparison.level
        n = sum(not bounds.low <= 0 <= bounds.high and p >= alpha for bounds, p in tests)
        if not n:
            return []
        excludes = f"{plural(n, 'interval')} {'excludes' if n == 1 else 'exclude'} 0"
        why = f"p (Holm), which has to be below {alpha:.3g}, allows for comparing all {subject}"
        text = f"{excludes} without a difference that counts: intervals are of one comparison each, and {why}"
        return [Line(text)]

    def _make_summary(self, run: str) -> Section:
        """Make the table of differences over all classes, with the reasons why intervals are missing."""
        rows: list[list[Any]] = []
        reasons: dict[str, list[str]] = {}
        for delta in self._select_deltas(run, of_classes=False):
            if math.isnan(delta.delta) and delta.interval.reason == "undefined":  # nothing to show
                continue
            if delta.interval.reason:
                reasons.setdefault(delta.interval.reason, []).append(delta.key)
            rows.append([delta.key, *make_difference_cells(delta)])
        columns = [Column(""), *make_difference_columns(self._first, self.letter[run])]
        lines = [f"no interval: {', '.join(keys)} ({reason})" for reason, keys in reasons.items()]
        return [Table(columns, rows, DROPPED), *map(Line, lines)]

    def _make_classes(self, run: str) -> Section:
        """Make the table of differences in AP by class, the worst first; empty without classes."""
        deltas = sorted(
            (d for d in self._select_deltas(run, of_classes=True) if d.key == "AP"), key=lambda d: d.delta
        )
        if not deltas:
            return []
        title = f"AP of classes, {self.letter[run]} minus {self._first}, the worst first"
        if len(deltas) > CLASSES_SHOWN:
            title += f" ({len(deltas) - 2 * ENDS_SHOWN} between them are left out)"
            deltas = deltas[:ENDS_SHOWN] + deltas[-ENDS_SHOWN:]
        rows = [[delta.category, *make_difference_cells(delta), delta.p_holm] for delta in deltas]
        delta_columns = make_difference_columns(self._first, self.letter[run])
        columns = [Column("class", cell), *delta_columns, Column("p (Holm)", P_VALUE)]
        notes = []
        if n_without := sum(bool(d.interval.reason) for d in deltas):
            reason = f"undefined in more than {100 * MOST_UNDEFINED:g} % of the samples"
            notes.append(Line(f"no interval: {plural(n_without, 'class', 'classes')} ({reason})"))
        notes += self._explain_corrected([(d.interval, d.p_holm) for d in deltas], "classes")
        return [*make_section(title, columns, rows, drop=DROPPED), *notes]

    def _make_images(self, run: str) -> list[Section]:
        """Make the table of the images whose errors changed most, and a line on the least scores."""
        comparison = self.comparison
        if comparison.images_reason:
            return [[Line(f"no errors of images: {comparison.images_reason}")]]
        changed = [row for row in comparison.images if row["run"] == run and row["delta_error"]]
        worse = [row for row in changed if row["delta_error"] > 0]
        better = [row for row in changed if row["delta_error"] < 0][::-1]  # the most improved first
        keys = (
            *("image", "error_first", "error_other", "delta_error"),
            *("new_fn", "new_fp", "lost_tp", "gained_tp"),
        )
        rows = [[row[key] for key in keys] for row in (*worse[:IMAGES_SHOWN], *better[:IMAGES_SHOWN])]
        columns = [Column("image", cell), Column(self._first, IMAGE_ERROR)]
        columns += [Column(self.letter[run], IMAGE_ERROR), Column("change", lambda error: f"{error:+.2f}")]
        columns += map(Column, ("+FN", "+FP", "lost TP", "new TP"))
        title = (
            f"error of images, {self._first} to {self.letter[run]}: {len(worse)} are worse, "
            f"{len(better)} better"
        )
        scores = []
        for name in (comparison.runs[0].name, run):  # from which on detections count
            thresholds = comparison.image_tables[name].thresholds.tolist()
            # That of every class; NaN keeps nothing.
            score = f"{thresholds[0]:.4g}".replace("nan", "none") if thresholds else "-"
            scores.append(f"{self.letter[name]} {score}")
        counted = f"images are counted at these scores or above (best F1, or --at-score): {', '.join(scores)}"
        return [make_section(title, columns, rows, drop=DROPPED), [Line(counted)]]

    def _make_slices(self, run: str) -> Section:
        """Make the table of the slices of images for a run; empty if there are none."""
        slices = [row for row in self.comparison.slices if row["run"] == run]
        titles = ("slice", "images", "GT", self.letter[run], "change")
        title = "{key} of slices of the images"
        return make_slices_section(title, titles, slices, drop=DROPPED) if slices else []

    def _select_deltas(self, run: str, *, of_classes: bool) -> list[Delta]:
        """Return the differences of a run, either those of single classes or those over all classes."""
        return [d for d in self.comparison.deltas if d.run == run and (d.category is not None) == of_classes]

    @property
    def _first(self) -> str:
        """The letter of the first run."""
        return next(iter(self.letter.values()))


def _format_places(values: Sequence[float]) -> list[str]:
    """Return the places of `values`, best first, as text; equal values share the first of theirs: ``2=``."""
    rounded = [f"{value:.12g}" for value in values]
    return [f"{rounded.index(value) + 1}{'=' * (rounded.count(value) > 1)}" for value in rounded]


def _make_letters(n: int) -> list[str]:
    """Return n names of runs: A, B, ..., Z, R27, R28, ..."""
    return [*string.ascii_uppercase[:n], *(f"R{i + 1}" for i in range(len(string.ascii_uppercase), n))]
