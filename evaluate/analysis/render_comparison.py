"""Render comparisons of runs: their document, CSV and JSON."""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from odm.document import Column, Document, Items, Line, Section, Table, draw, format_csv
from odm.evaluate.analysis.bootstrap import MOST_UNDEFINED, Interval
from odm.evaluate.analysis.compare import DELTA_COLUMNS, Comparison, Delta, headline
from odm.evaluate.analysis.images import DELTAS
from odm.evaluate.analysis.render_analyses import image_slices, titled
from odm.evaluate.results import COVERAGE
from odm.issues import plural, printable
from odm.names import shorten_paths
from odm.numbers import interval, number, percent, percents, points
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
        return comparison_json(comparison)
    if output == "csv":
        return deltas_csv(comparison.deltas)
    document = comparison_document(comparison, wide=width is None)
    return draw(document, output, width)


def save_comparison(comparison: Comparison, write: Callable[[str, bytes], object]) -> None:
    """Call `write` with the name and the content of each file."""
    write("comparison.json", comparison_json(comparison).encode())
    write("summary.csv", deltas_csv([d for d in comparison.deltas if d.category is None]).encode())
    write("classes.csv", deltas_csv([d for d in comparison.deltas if d.category is not None]).encode())
    columns = ["run", *DELTAS]
    write(
        "images.csv", format_csv(columns, ([r[key] for key in columns] for r in comparison.images)).encode()
    )
    slices = (
        [*(row[name] for name in SLICE_COLUMNS[:5]), key, *(row[name][key] for name in SLICE_COLUMNS[6:])]
        for row in comparison.slices
        for key in row["summary"]
    )
    rows = [standing.to_dict() for standing in comparison.ranking]
    board = ([*(row[key] for key in RANKING_COLUMNS[:-1]), " ".join(row["same"])] for row in rows)
    write("ranking.csv", format_csv(RANKING_COLUMNS, board).encode())
    write("slices.csv", format_csv(SLICE_COLUMNS, slices).encode())


def comparison_json(comparison: Comparison) -> str:
    """Render the JSON contract."""
    return json_text(comparison.to_dict()) + "\n"


def deltas_csv(deltas: Sequence[Delta]) -> str:
    """Format a row per difference as CSV."""
    rows = (delta.to_dict() for delta in deltas)
    return format_csv(DELTA_COLUMNS, ([row.get(key) for key in DELTA_COLUMNS] for row in rows))


def headlines(comparison: Comparison, *, wide: bool = False) -> list[str]:
    """Return the last lines: whether each run but the first is better, or the verdict of a ranking alone."""
    if is_leaderboard(comparison, wide=wide):
        return [comparison.verdict]
    names = [run.name for run in comparison.runs]
    letters = dict(zip(names, _letters(len(names)), strict=True))
    return [headline(comparison, name, letters) for name in names[1:]]


def is_leaderboard(comparison: Comparison, *, wide: bool) -> bool:
    """Return whether runs are shown in a line each, and not each pair and class."""
    return len(comparison.runs) > MOST_PAIRS and not wide


def comparison_document(comparison: Comparison, *, wide: bool) -> Document:
    """Make the document: runs, differences, verdict; without `wide`, only one table of many runs."""
    return _Comparison(comparison, wide=wide).document()


P_VALUE = functools.partial(number, form=".3f")
IMAGE_ERROR = functools.partial(number, form=".2f")


def difference_columns(first: str, other: str) -> list[Column]:
    """Make the columns of `difference_cells`, under the names of two runs."""
    columns = [Column(first, percent), Column(other, percent), Column("change", points)]
    chance = functools.partial(percent, form=".0f")
    return [*columns, Column("interval", interval), Column("better", chance), Column("p", P_VALUE)]


def difference_cells(delta: Delta) -> list[Any]:
    """Return the values of a difference, for `difference_columns`."""
    bounds = delta.interval
    values = [delta.first, delta.other, delta.delta, (bounds.low, bounds.high)]
    return [*values, bounds.p_better, bounds.p]


class _Comparison:
    """The sections of a comparison; runs are named by letters, as long paths do not fit into tables."""

    def __init__(self, comparison: Comparison, *, wide: bool) -> None:
        self.comparison, self.wide = comparison, wide
        names = [run.name for run in comparison.runs]
        self.letter = dict(zip(names, _letters(len(names)), strict=True))

    def document(self) -> Document:
        comparison = self.comparison
        document: Document = [[Items(list(self._head()))]]
        narrow = is_leaderboard(comparison, wide=self.wide)
        if len(comparison.runs) > 2:
            document.append(self._leaderboard())
        if not narrow:
            document += [[Line(comparison.verdict)]] * (len(comparison.runs) > 2)
            for run in comparison.runs[1:]:
                document += (self._summary(run.name), self._classes(run.name), self._slices(run.name))
                document += self._images(run.name)
        return [*document, [Line(line, "verdict") for line in headlines(comparison, wide=self.wide)]]

    def _head(self) -> Iterator[str]:
        """The protocol, what the letters stand for, and where the intervals come from."""
        comparison = self.comparison
        yield comparison.definition
        detected = [run.detected_images for run in comparison.runs]
        differ = max(detected) - min(detected) > UNLIKE * comparison.n_images
        narrow = is_leaderboard(comparison, wide=self.wide)
        twins = {name: standing.run for standing in comparison.ranking for name in standing.same}
        for (name, letter), n in zip(self.letter.items(), detected, strict=True):
            if narrow and not (differ and n < max(detected)):
                continue
            images = f" (detections on {n} of {plural(comparison.n_images, 'image')})" if differ else ""
            if name in twins and not narrow:
                images = f" (the same detections as {self.letter[twins[name]]})"
            yield f"{letter}: {printable(name)}{images}"
        yield (
            f"{100 * comparison.level:g} % intervals from {comparison.replicates} bootstrap samples of "
            f"{plural(comparison.n_images, 'image')}, seed {comparison.seed}; {COVERAGE}"
        )

    def _leaderboard(self) -> Section:
        """Return the table of runs, best first: by short names, for which a line has room, not by letters."""
        ranking, level = self.comparison.ranking, self.comparison.level
        names = dict(zip(self.letter, shorten_paths(list(self.letter)), strict=True))
        rows = []
        for standing, place in zip(ranking, _places([standing.value for standing in ranking]), strict=True):
            bounds, between, differs = standing.interval, standing.delta_interval, standing.differs(level)
            rows.append(
                [
                    *(place, names[standing.run], standing.value, (bounds.low, bounds.high)),
                    # The best has no difference from itself.
                    *(standing.delta or None, (between.low, between.high), standing.p_holm),
                    "-" if differs is None else "yes" if differs else "no",
                ]
            )
        columns = [Column(""), Column("run", cell), Column(ranking[0].key, percent)]
        columns += [
            Column("interval", percents),
            Column("to the best", points),
            Column("its interval", interval),
        ]
        columns += [Column("p (Holm)", P_VALUE), Column("differs")]
        same = [
            f"{', '.join(names[name] for name in entry.same)}: the same detections as {names[entry.run]}"
            for entry in ranking
            if entry.same
        ]
        judged = [(standing.delta_interval, standing.p_holm) for standing in ranking]
        return [Table(columns, rows, DROPPED), *map(Line, same), *self._corrected(judged, "runs")]

    def _corrected(self, judged: Sequence[tuple[Interval, float]], subject: str) -> list[Line]:
        """Explain why intervals without 0 are no differences, if there are any."""
        alpha = 1 - self.comparison.level
        n = sum(not bounds.low <= 0 <= bounds.high and p >= alpha for bounds, p in judged)
        if not n:
            return []
        excludes = f"{plural(n, 'interval')} {'excludes' if n == 1 else 'exclude'} 0"
        why = f"p (Holm), which has to be below {alpha:.3g}, allows for comparing all {subject}"
        text = f"{excludes} without a difference that counts: intervals are of one comparison each, and {why}"
        return [Line(text)]

    def _summary(self, run: str) -> Section:
        """Make the table of differences over all classes, with the reasons why intervals are missing."""
        rows: list[list[Any]] = []
        reasons: dict[str, list[str]] = {}
        for delta in self._deltas(run, of_classes=False):
            if math.isnan(delta.delta) and delta.interval.reason == "undefined":
                continue
            if delta.interval.reason:
                reasons.setdefault(delta.interval.reason, []).append(delta.key)
            rows.append([delta.key, *difference_cells(delta)])
        columns = [Column(""), *difference_columns(self._first, self.letter[run])]
        without = [f"no interval: {', '.join(keys)} ({why})" for why, keys in reasons.items()]
        return [Table(columns, rows, DROPPED), *map(Line, without)]

    def _classes(self, run: str) -> Section:
        """Make the table of differences in AP by class, the worst first; empty without classes."""
        deltas = sorted(
            (d for d in self._deltas(run, of_classes=True) if d.key == "AP"), key=lambda d: d.delta
        )
        if not deltas:
            return []
        title = f"AP of classes, {self.letter[run]} minus {self._first}, the worst first"
        if len(deltas) > CLASSES_SHOWN:
            title += f" ({len(deltas) - 2 * ENDS_SHOWN} between them are left out)"
            deltas = deltas[:ENDS_SHOWN] + deltas[-ENDS_SHOWN:]
        rows = [[delta.category, *difference_cells(delta), delta.p_holm] for delta in deltas]
        between = difference_columns(self._first, self.letter[run])
        columns = [Column("class", cell), *between, Column("p (Holm)", P_VALUE)]
        notes = []
        if without := sum(bool(d.interval.reason) for d in deltas):
            why = f"undefined in more than {100 * MOST_UNDEFINED:g} % of the samples"
            notes.append(Line(f"no interval: {plural(without, 'class', 'classes')} ({why})"))
        notes += self._corrected([(d.interval, d.p_holm) for d in deltas], "classes")
        return [*titled(title, columns, rows, drop=DROPPED), *notes]

    def _images(self, run: str) -> list[Section]:
        """Make the table of the images whose errors changed most, and a line on the least scores."""
        comparison = self.comparison
        if comparison.images_reason:
            return [[Line(f"no errors of images: {comparison.images_reason}")]]
        changed = [row for row in comparison.images if row["run"] == run and row["delta_error"]]
        worse = [row for row in changed if row["delta_error"] > 0]
        better = [row for row in changed if row["delta_error"] < 0][::-1]
        keys = (
            "image",
            "error_first",
            "error_other",
            "delta_error",
            "new_fn",
            "new_fp",
            "lost_tp",
            "gained_tp",
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
            score = "-" if not thresholds else "none" if math.isnan(thresholds[0]) else f"{thresholds[0]:.4g}"
            scores.append(f"{self.letter[name]} {score}")
        counted = f"images are counted at these scores or above (best F1, or --at-score): {', '.join(scores)}"
        return [titled(title, columns, rows, drop=DROPPED), [Line(counted)]]

    def _slices(self, run: str) -> Section:
        """Make the table of the slices of images for a run; empty if there are none."""
        slices = [row for row in self.comparison.slices if row["run"] == run]
        titles = ("slice", "images", "GT", self.letter[run], "change")
        return image_slices("{key} of slices of the images", titles, slices, drop=DROPPED) if slices else []

    def _deltas(self, run: str, *, of_classes: bool) -> list[Delta]:
        """Return the differences of a run, either those of single classes or those over all classes."""
        return [d for d in self.comparison.deltas if d.run == run and (d.category is not None) == of_classes]

    @property
    def _first(self) -> str:
        """The letter of the first run."""
        return next(iter(self.letter.values()))


def _places(values: Sequence[float]) -> list[str]:
    """Return the places of values, best first: equal ones share the first of theirs, and show it by ``=``."""
    rounded = [f"{value:.12g}" for value in values]
    return [f"{rounded.index(value) + 1}{'=' * (rounded.count(value) > 1)}" for value in rounded]


def _letters(n: int) -> list[str]:
    """Return n names of runs: A, B, ..., Z, R27, R28, ..."""
    return [*string.ascii_uppercase[:n], *(f"R{i + 1}" for i in range(len(string.ascii_uppercase), n))]
