"""Comparisons as text: tables, Markdown, JSON and CSV."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence

from odm.evaluate.analysis.bootstrap import MOST_UNDEFINED, Interval
from odm.evaluate.analysis.compare import DELTA_COLUMNS, Comparison, Delta, headline
from odm.evaluate.analysis.images import DELTAS
from odm.evaluate.analysis.sections import interval, points, slice_rows
from odm.evaluate.output.render import csv_text
from odm.evaluate.results import COVERAGE
from odm.issues import plural, printable, shorten
from odm.names import distinct_parts
from odm.terminal import json_text, number, percent, table, wrapped
from odm.terminal import markdown as escaped

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
    """The comparison as text that ends with a newline.

    Parameters
    ----------
    comparison
        What `odm.evaluate.analysis.compare` returned.
    output
        ``table``, ``json`` (the contract), ``csv`` (a row per difference) or ``markdown``.
    width
        Of a table: how many characters a line may have; columns that do not fit are left out. None shows all.
    """
    if output == "json":
        return comparison_json(comparison)
    if output == "csv":
        return deltas_csv(comparison.deltas)
    return "\n\n".join(_Text(comparison, markdown=output == "markdown", width=width).parts()) + "\n"


def save_comparison(comparison: Comparison, write: Callable[[str, bytes], object]) -> None:
    """Give `write` the name and content of every file."""
    write("comparison.json", comparison_json(comparison).encode())
    write("summary.csv", deltas_csv([d for d in comparison.deltas if d.category is None]).encode())
    write("classes.csv", deltas_csv([d for d in comparison.deltas if d.category is not None]).encode())
    columns = ["run", *DELTAS]
    write("images.csv", csv_text(columns, ([r[key] for key in columns] for r in comparison.images)).encode())
    slices = (
        [*(row[name] for name in SLICE_COLUMNS[:5]), key, *(row[name][key] for name in SLICE_COLUMNS[6:])]
        for row in comparison.slices
        for key in row["summary"]
    )
    rows = [place.to_dict() for place in comparison.ranking]
    board = ([*(row[key] for key in RANKING_COLUMNS[:-1]), " ".join(row["same"])] for row in rows)
    write("ranking.csv", csv_text(RANKING_COLUMNS, board).encode())
    write("slices.csv", csv_text(SLICE_COLUMNS, slices).encode())


def comparison_json(comparison: Comparison) -> str:
    """The JSON contract."""
    return json_text(comparison.to_dict()) + "\n"


def deltas_csv(deltas: Sequence[Delta]) -> str:
    """A row per difference."""
    rows = (delta.to_dict() for delta in deltas)
    return csv_text(DELTA_COLUMNS, ([row.get(key) for key in DELTA_COLUMNS] for row in rows))


def headlines(comparison: Comparison, *, wide: bool = False) -> list[str]:
    """For each run but the first whether it is better, in a sentence; of a leaderboard its verdict."""
    if is_leaderboard(comparison, wide=wide):
        return [comparison.verdict]
    names = [run.name for run in comparison.runs]
    letters = dict(zip(names, _letters(len(names)), strict=True))
    pairs = [headline(comparison, name, letters) for name in names[1:]]
    return [*pairs, comparison.verdict] if len(names) > MOST_PAIRS else pairs


def is_leaderboard(comparison: Comparison, *, wide: bool) -> bool:
    """Whether runs are shown in a line each, and not each pair and class."""
    return len(comparison.runs) > MOST_PAIRS and not wide


class _Text:
    """The parts of a comparison as tables; runs are named by letters, which long paths do not fit into."""

    def __init__(self, comparison: Comparison, *, markdown: bool, width: int | None) -> None:
        self.comparison, self.markdown, self.width = comparison, markdown, width
        names = [run.name for run in comparison.runs]
        self.letter = dict(zip(names, _letters(len(names)), strict=True))

    def parts(self) -> list[str]:
        found = self.comparison
        head = [found.definition]
        detected = [run.detected_images for run in found.runs]
        differ = max(detected) - min(detected) > UNLIKE * found.n_images
        narrow = is_leaderboard(found, wide=self.width is None)
        twins = {name: place.run for place in found.ranking for name in place.same}
        for (name, letter), n in zip(self.letter.items(), detected, strict=True):
            if narrow and not (differ and n < max(detected)):
                continue
            images = f" (detections on {n} of {plural(found.n_images, 'image')})" if differ else ""
            if name in twins and not narrow:
                images = f" (the same detections as {self.letter[twins[name]]})"
            head.append(f"{letter}: {printable(name)}{images}")
        head.append(
            f"{100 * found.level:g} % intervals from {found.replicates} bootstrap samples of "
            f"{plural(found.n_images, 'image')}, seed {found.seed}; {COVERAGE}"
        )
        lines = [f"- {escaped(line)}" if self.markdown else wrapped(line, self.width, "  ") for line in head]
        parts = ["\n".join(lines)]
        if len(found.runs) > MOST_PAIRS:
            parts += self._leaderboard()
        wide = self.width is None
        for run in [] if is_leaderboard(found, wide=wide) else found.runs[1:]:
            parts.append(self._summary(run.name))
            for part in (self._classes(run.name), self._slices(run.name), self._images(run.name)):
                parts += part
        return [*parts, "\n".join(self._line(line) for line in headlines(found, wide=wide))]

    def _leaderboard(self) -> list[str]:
        """The runs, best first."""
        found = self.comparison
        names = dict(zip(self.letter, distinct_parts(list(self.letter)), strict=True))
        key = found.ranking[0].key
        rows = []
        for place in found.ranking:
            own, between, differs = place.interval, place.delta_interval, place.differs(found.level)
            rows.append(
                [
                    self._name(names[place.run]),
                    percent(place.value),
                    "-" if math.isnan(own.low) else f"{100 * own.low:.2f} to {100 * own.high:.2f}",
                    points(place.delta) if place.delta else "-",
                    interval(between.low, between.high),
                    number(place.p_holm, ".3f"),
                    "-" if differs is None else "yes" if differs else "no",
                ]
            )
        headers = ["run", key, "interval", "to the best", "its interval", "p (Holm)", "differs"]
        same = [
            f"{', '.join(names[name] for name in place.same)}: the same detections as {names[place.run]}"
            for place in found.ranking
            if place.same
        ]
        judged = [(place.delta_interval, place.p_holm) for place in found.ranking]
        return [self._lines(self._table(rows, headers), *same, *self._corrected(judged, "runs"))]

    def _corrected(self, judged: Sequence[tuple[Interval, float]], what: str) -> list[str]:
        """Why intervals without 0 are no differences, if there are any."""
        alpha = 1 - self.comparison.level
        n = sum(not own.low <= 0 <= own.high and p >= alpha for own, p in judged)
        if not n:
            return []
        excludes = f"{plural(n, 'interval')} {'excludes' if n == 1 else 'exclude'} 0"
        why = f"p (Holm), which has to be below {alpha:.3g}, allows for comparing all {what}"
        return [
            f"{excludes} without a difference that counts: intervals are of one comparison each, and {why}"
        ]

    def _summary(self, run: str) -> str:
        rows: list[list[str]] = []
        reasons: dict[str, list[str]] = {}
        for delta in self._deltas(run, of_classes=False):
            if math.isnan(delta.delta) and delta.interval.reason == "undefined":
                continue
            if delta.interval.reason:
                reasons.setdefault(delta.interval.reason, []).append(delta.key)
            rows.append([delta.key, *self._difference(delta)])
        text = self._table(rows, ["", *self._pair(run), "change", "interval", "better", "p"])
        return self._lines(text, *(f"no interval: {', '.join(k)} ({why})" for why, k in reasons.items()))

    def _classes(self, run: str) -> list[str]:
        deltas = sorted(
            (d for d in self._deltas(run, of_classes=True) if d.key == "AP"), key=lambda d: d.delta
        )
        if not deltas:
            return []
        title = f"AP of classes, {self.letter[run]} minus {self._first}, the worst first"
        if len(deltas) > CLASSES_SHOWN:
            title += f" ({len(deltas) - 2 * ENDS_SHOWN} between them are left out)"
            deltas = deltas[:ENDS_SHOWN] + deltas[-ENDS_SHOWN:]
        rows = [
            [self._name(delta.category or ""), *self._difference(delta), number(delta.p_holm, ".3f")]
            for delta in deltas
        ]
        headers = ["class", *self._pair(run), "change", "interval", "better", "p", "p (Holm)"]
        text = self._titled(title, rows, headers)
        if without := sum(bool(d.interval.reason) for d in deltas):
            share = f"undefined in more than {100 * MOST_UNDEFINED:g} % of the samples"
            text = self._lines(text, f"no interval: {plural(without, 'class', 'classes')} ({share})")
        judged = [(d.interval, d.p_holm) for d in deltas]
        return [self._lines(text, *self._corrected(judged, "classes"))]

    def _images(self, run: str) -> list[str]:
        found = self.comparison
        if found.images_reason:
            return [self._line(f"no errors of images: {found.images_reason}")]
        own = [row for row in found.images if row["run"] == run and row["delta_error"]]
        worse = [row for row in own if row["delta_error"] > 0]
        better = [row for row in own if row["delta_error"] < 0][::-1]
        rows = [
            [
                self._name(row["image"]),
                *(f"{row[key]:.2f}" for key in ("error_first", "error_other")),
                f"{row['delta_error']:+.2f}",
                *(str(row[key]) for key in ("new_fn", "new_fp", "lost_tp", "gained_tp")),
            ]
            for row in (*worse[:IMAGES_SHOWN], *better[:IMAGES_SHOWN])
        ]
        title = (
            f"error of images, {self._first} to {self.letter[run]}: {len(worse)} are worse, "
            f"{len(better)} better"
        )
        headers = ["image", *self._pair(run), "change", "+FN", "+FP", "lost TP", "new TP"]
        scores = []
        for name in (found.runs[0].name, run):  # from which on detections count
            thresholds = found.image_tables[name].thresholds.tolist()
            score = "-" if not thresholds else "none" if math.isnan(thresholds[0]) else f"{thresholds[0]:.4g}"
            scores.append(f"{self.letter[name]} {score}")
        counted = f"images are counted at these scores or above (best F1, or --at-score): {', '.join(scores)}"
        return [self._titled(title, rows, headers) if rows else self._line(title), self._line(counted)]

    def _slices(self, run: str) -> list[str]:
        own = [row for row in self.comparison.slices if row["run"] == run]
        if not own:
            return []
        key = next(iter(own[0]["summary"]))
        rows = [[self._name(name), *cells] for name, *cells in slice_rows(own, key)]
        headers = ["slice", "images", "GT", self.letter[run], "change", "interval"]
        return [self._titled(f"{key} of slices of the images", rows, headers)]

    def _deltas(self, run: str, *, of_classes: bool) -> list[Delta]:
        return [d for d in self.comparison.deltas if d.run == run and (d.category is not None) == of_classes]

    @staticmethod
    def _difference(delta: Delta) -> list[str]:
        own = delta.interval
        values = [percent(delta.first), percent(delta.other), points(delta.delta)]
        return [*values, interval(own.low, own.high), percent(own.p_better, ".0f"), number(own.p, ".3f")]

    @property
    def _first(self) -> str:
        return next(iter(self.letter.values()))

    def _pair(self, run: str) -> list[str]:
        return [self._first, self.letter[run]]

    def _name(self, name: str) -> str:
        return name if self.markdown else shorten(printable(name), 30)

    def _line(self, text: str) -> str:
        return escaped(text) if self.markdown else wrapped(text, self.width)

    def _lines(self, text: str, *lines: str) -> str:
        """Lines below a part."""
        return ("\n\n" if self.markdown else "\n").join([text, *map(self._line, lines)])

    def _titled(self, title: str, rows: list[list[str]], headers: list[str]) -> str:
        return ("\n\n" if self.markdown else "\n").join([self._line(title), self._table(rows, headers)])

    def _table(self, rows: list[list[str]], headers: list[str]) -> str:
        return table(headers, rows, markdown=self.markdown, width=self.width, drop=DROPPED)


def _letters(n: int) -> list[str]:
    """A, B, ..., Z, R27, R28, ..."""
    return [*string.ascii_uppercase[:n], *(f"R{i + 1}" for i in range(len(string.ascii_uppercase), n))]
