"""Compare runs over the same ground truth: differences with intervals, and gates on regressions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import force_setattr, replace
from numpy.typing import NDArray

from odm.evaluate.analysis.bootstrap import (
    LEVEL,
    REPLICATES,
    Interval,
    Resampling,
    Track,
    bootstrap,
    correct_p_values,
    delta_interval,
    explain_missing,
    intervals,
    subtract,
)
from odm.evaluate.analysis.images import ImageTable, compare_images, image_table
from odm.evaluate.analysis.leaderboard import Standing, rank, verdict
from odm.evaluate.analysis.replicate_keys import list_class_keys, list_keys
from odm.evaluate.analysis.replicates import Plan, Replicates
from odm.evaluate.analysis.slices import ImageSlice, compare_slices
from odm.evaluate.analysis.table import Table
from odm.evaluate.results import to_plain
from odm.evaluate.scores.metric_names import PATTERN, MetricName, find_result, parse_metric
from odm.evaluate.scores.protocols import Protocol
from odm.issues import UsageError, first_few, hint, plural, shorten, spell
from odm.names import shorten_paths
from odm.numbers import format_interval, format_points
from odm.tables import Longs
from odm.views import ComparisonViews, Rows

VERSION = 1

DELTA_COLUMNS = (
    *("run", "key", "class", "delta", "low", "high", "p_better", "p", "p_holm", "reason"),
    *("first", "other"),
)
"""The columns of the table of differences."""


class Run(msgspec.Struct, frozen=True):
    """One run: its name, its numbers and their intervals, by key."""

    name: str
    summary: dict[str, float]
    intervals: dict[str, Interval]
    detected_images: int
    """On how many of the images it has detections; few, if the run was made on other images."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the JSON output."""
        return {
            "name": self.name,
            "summary": {key: to_plain(value) for key, value in self.summary.items()},
            "intervals": {
                key: [to_plain(bounds.low), to_plain(bounds.high)] for key, bounds in self.intervals.items()
            },
            "detected_images": self.detected_images,
        }


class Delta(msgspec.Struct, frozen=True):
    """The difference of a run from the first run, in one metric of the summary or one AP of a class."""

    run: str
    key: str
    category: str | None
    first: float
    other: float
    interval: Interval
    p_holm: float = math.nan
    """The p value corrected for the number of classes; of classes only."""

    @property
    def delta(self) -> float:
        """The difference, 0 where only rounding differs."""
        return subtract(self.first, self.other)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the JSON output."""
        bounds = self.interval
        return {
            "run": self.run,
            "key": self.key,
            "class": self.category,
            **{key: to_plain(getattr(self, key)) for key in ("first", "other", "delta")},
            **{key: to_plain(getattr(bounds, key)) for key in ("low", "high", "p_better", "p")},
            "p_holm": to_plain(self.p_holm),
            **({"reason": bounds.reason} if bounds.reason else {}),
        }


class Comparison(ComparisonViews, msgspec.Struct, frozen=True, eq=False):
    """Several runs over the same ground truth; every difference is from the first run.

    Attributes
    ----------
    images
        Rows as of `odm.evaluate.analysis.images.compare_images`, with ``run``.
    image_tables
        The counts of every image, by run.
    slices
        Rows of slices of the images, with ``run``.
    images_reason
        Why images have no error.
    """

    definition: str
    runs: list[Run]
    deltas: Rows[Delta]
    images: list[dict[str, Any]]
    image_tables: dict[str, ImageTable]
    slices: list[dict[str, Any]]
    replicates: int
    seed: int
    level: float
    n_images: int
    """Images that were drawn from."""
    lower_is_better: bool = False
    """Whether that is so of the first number of a run."""
    images_reason: str = ""
    ranking: list[Standing] = msgspec.field(default_factory=list)
    """The runs, best first."""
    evaluations: tuple[Any, ...] = ()
    """The evaluation of each run, where `odm.compare` kept them for a page."""
    lower_keys: tuple[str, ...] = ()
    """The keys of which lower numbers are better."""

    def __post_init__(self) -> None:
        force_setattr(self, "deltas", Rows(self.deltas, DELTA_COLUMNS))

    @property
    def verdict(self) -> str:
        """A sentence: of two runs, whether the other is better; of more, which is the best."""
        runs = [run.name for run in self.runs]
        names = dict(zip(runs, shorten_paths(runs), strict=True))
        if len(self.runs) == 2:
            return make_headline(self, runs[1], names)
        return verdict(self.ranking, names, self.level)

    def __repr__(self) -> str:
        return f"<Comparison: {', '.join(run.name for run in self.runs)}: {self.verdict}>"

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract, of plain data."""
        return {
            "version": VERSION,
            **{key: getattr(self, key) for key in ("definition", "replicates", "seed", "level")},
            "runs": [run.to_dict() for run in self.runs],
            "deltas": [delta.to_dict() for delta in self.deltas],
            "images": self.images,
            "slices": self.slices,
            "ranking": [standing.to_dict() for standing in self.ranking],
        }


def compare(
    runs: Mapping[str, Table],
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
    level: float = LEVEL,
    bootstrap_areas: bool = False,
    images: Longs | None = None,
    at_score: float | None = None,
    slices: Sequence[ImageSlice] = (),
    track: Track | None = None,
) -> Comparison:
    """Compare runs with the first of them.

    Parameters
    ----------
    runs
        The table of each run by name, all of one protocol and over the same images and ground truth.
    replicates, seed, level
        How many draws of images, which, and the nominal coverage of the intervals.
    bootstrap_areas
        Whether the numbers of area ranges have intervals too, which takes two to three times as long.
    images
        Numbers of the images to draw from; those that were evaluated if left out.
    at_score
        The least score for the counts of images; that of the best F1 of each run if left out.
    slices
        Parts of the images, see `odm.evaluate.analysis.slices`; runs are compared in each.
    track
        Shows progress: called with rounds of work and what they are.

    Raises
    ------
    UsageError
        If there are fewer than two runs, they are not of one protocol or not over the same images, or a
        value is out of range.
    """
    draws = Resampling(replicates, seed, level, bootstrap_areas, images, track)
    draws.check()
    names, tables = list(runs), list(runs.values())
    check_runs(runs)
    plans = [Plan(table, areas=bootstrap_areas) for table in tables]
    samples = bootstrap(plans, draws)
    run_rows = [
        Run(name, plan.table.result.summary, intervals(plan, sample, draws), len(np.unique(plan.table.image)))
        for name, plan, sample in zip(names, plans, samples, strict=True)
    ]
    # Of each run but the first the changes of the summary, then of its classes.
    deltas: list[Delta] = []
    for run, table, sample in list(zip(run_rows, tables, samples, strict=True))[1:]:
        deltas += _compute_deltas(run_rows[0], run, samples[0], sample, plans[0], draws)
        pair = [tables[0], table], [samples[0], sample]
        deltas += _compute_class_deltas(run.name, *pair, plans[0], draws)

    # The changes of single images, of those that are drawn from.
    tables_of_images = {name: image_table(table, at_score) for name, table in runs.items()}
    drawn_images = tables[0].evaluated if images is None else images
    drawn_names = {tables[0].images[i] for i in drawn_images.tolist()}
    rows = [
        {"run": name, **row}
        for name, table in list(runs.items())[1:]
        for row in compare_images(tables[0], table, tables_of_images[names[0]], tables_of_images[name])
        if row["image"] in drawn_names
    ]
    return Comparison(
        definition=tables[0].rules.definition,
        runs=run_rows,
        deltas=Rows(deltas),
        images=rows,
        image_tables=tables_of_images,
        slices=compare_slices(names, plans, slices, draws),
        replicates=replicates,
        seed=seed,
        level=level,
        n_images=len(drawn_images),
        lower_is_better=next(iter(run_rows[0].summary)) in plans[0].lower_keys,
        lower_keys=plans[0].lower_keys,
        images_reason=tables_of_images[names[0]].reason,
        ranking=rank(runs, plans, samples, [run.intervals for run in run_rows], draws),
    )


def make_headline(comparison: Comparison, run: str, names: Mapping[str, str]) -> str:
    """Say in a sentence whether a run is better than the first; `names` are those to show, by run."""
    run_deltas = [d for d in comparison.deltas if d.run == run]
    delta = next(d for d in run_deltas if d.category is None)
    low, high = delta.interval.low, delta.interval.high
    first_name, other_name = names[comparison.runs[0].name], names[run]
    p = find_corrected_p(comparison, run, delta.key)
    if math.isnan(low):
        verdict_text = f"{other_name} against {first_name}"
    elif low <= 0 <= high or p >= 1 - comparison.level:
        verdict_text = f"{other_name} differs from {first_name} by no more than chance"
    else:
        # The whole interval is on one side of 0: the number fell (high < 0), or it rose.
        word = "better" if (high < 0) == (delta.key in comparison.lower_keys) else "worse"
        verdict_text = f"{other_name} is {word} than {first_name}"
    parts = [f"{verdict_text}: {delta.key} {format_points(delta.delta)} points"]
    if not math.isnan(low):
        parts.append(f"{100 * comparison.level:g} % interval {format_interval((low, high))}")
        if len(comparison.runs) > 2:
            parts.append(f"p (Holm) {p:.3f}")
    class_deltas = [d for d in run_deltas if d.category is not None and d.key == "AP"]
    n_worse = sum(d.delta < 0 and d.p_holm < 1 - comparison.level for d in class_deltas)
    verb = "is" if n_worse == 1 or len(class_deltas) == 1 else "are"  # 1 of 8 classes is; 0 of 1 class is
    classes_text = f"; {n_worse} of {plural(len(class_deltas), 'class', 'classes')} {verb} worse"
    return ", ".join(parts) + (classes_text if class_deltas else "")


def find_corrected_p(comparison: Comparison, run: str, key: str) -> float:
    """Return the p value of a run against the first, corrected for the number of runs.

    Where one of both is the best, it is that of the ranking, so that no sentence contradicts another.
    """
    p_of_run = {d.run: d.interval.p for d in comparison.deltas if d.category is None and d.key == key}
    if len(p_of_run) < 2:
        return p_of_run[run]
    # By the name of each run; those with the same detections share one.
    standings = {name: s for s in comparison.ranking for name in (s.run, *s.same)}
    pair = [standings[name] for name in (comparison.runs[0].name, run)]
    best = comparison.ranking[0]
    if best in pair:  # the ranking compares each run with the best: that of the pair which is not the best
        first_standing, run_standing = pair
        return (run_standing if first_standing is best else first_standing).p_holm
    return dict(zip(p_of_run, correct_p_values(list(p_of_run.values())), strict=True))[run]


def check_runs(runs: Mapping[str, Table]) -> None:
    """Refuse runs that cannot be compared: with other rules, images or ground truth. Raises UsageError."""
    tables = list(runs.values())
    if len(tables) < 2:
        raise UsageError("give at least two runs to compare")
    first_table = tables[0]
    for name, table in list(runs.items())[1:]:
        # `switched` also counts, in words, images of a run that the ground truth lacks, which is no rule.
        first_rules, run_rules = (replace(run.rules, switched=()) for run in (first_table, table))
        if first_rules != run_rules:
            raise UsageError(
                f"the run {shorten(name)} was evaluated under a different protocol than the first"
            )
        if table.images != first_table.images or not np.array_equal(table.evaluated, first_table.evaluated):
            raise UsageError(
                f"the run {shorten(name)} does not cover the same images as the first"
                + _explain_images(table, first_table)
            )
        if not all(map(np.array_equal, _get_object_columns(table), _get_object_columns(first_table))):
            raise UsageError(f"the run {shorten(name)} was evaluated against different ground truth")


def _explain_images(table: Table, first_table: Table) -> str:
    """Return the end of a sentence that says how the images of a run differ from those of the first."""
    names, first_names = ({run.images[i] for i in run.evaluated.tolist()} for run in (table, first_table))
    parts = []
    for unique_names, owner in ((names - first_names, "it"), (first_names - names, "the first")):
        if unique_names:
            examples = first_few(sorted(unique_names), 3, lambda image: repr(shorten(image)))
            parts.append(f"only {owner} has {examples}")
    if not parts:
        return " in the same order"
    return f": {'; '.join(parts)}; {spell('extra_images')} ignore leaves out images without ground truth"


def _get_object_columns(table: Table) -> list[NDArray[Any]]:
    """Return the columns of the ground truth that must be equal in all runs, whatever the order of shards.

    A run has copies of regions to ignore only where it has detections; ``xview`` counts objects only there.
    """
    truth = table.truth
    objects = np.flatnonzero((truth.flags & np.uint16(table.rules.region_flags)) == 0)
    order = objects[np.lexsort((truth.category[objects], truth.row[objects]))]
    counts = truth.counts[order] * (not table.rules.detected_only)  # zeros where the runs may differ
    return [truth.row[order], truth.image[order], truth.xyxy[order], counts]


def _compute_deltas(
    first: Run, run: Run, first_sample: Replicates, sample: Replicates, plan: Plan, draws: Resampling
) -> list[Delta]:
    """Return the change of each number of the summary from the first run, whose plan is `plan`, to `run`."""
    n = plan.count_images_behind(draws.images)
    deltas = []
    for key, value in run.summary.items():
        if key == "score":  # neither better nor worse
            continue
        delta = subtract(first.summary[key], value)
        if key in sample.summary:
            values, is_lower_better = (first_sample.summary[key], sample.summary[key]), key in plan.lower_keys
            bounds = delta_interval(*values, delta, n, level=draws.level, lower_is_better=is_lower_better)
        else:
            bounds = Interval(reason=explain_missing(delta, plan.rules))
        deltas.append(Delta(run.name, key, None, first.summary[key], value, bounds))
    return deltas


def _compute_class_deltas(
    run: str, tables: Sequence[Table], samples: Sequence[Replicates], plan: Plan, draws: Resampling
) -> list[Delta]:
    """Return the change of AP of each class that the first run has ground truth for.

    Each has its interval and its p value, which Holm's method corrects for the number of classes. `tables`
    and `samples` are those of the first run and of `run`, `plan` is that of the first run.
    """
    (first_table, other_table), (first_samples, other_samples) = tables, samples
    n_images_of_class = plan.count_images_by_class(draws.images)
    other_by_name = {row.name: (k, row) for k, row in enumerate(other_table.result.classes)}
    class_pairs = [
        (k, row, *other_by_name[row.name])
        for k, row in enumerate(first_table.result.classes)
        if row.gt and row.name in other_by_name
    ]
    result: list[Delta] = []
    for key in first_samples.class_ap:
        deltas = []
        for k, row, other_k, other_row in class_pairs:
            first_ap, other_ap = (
                class_row.ap if key == "AP" else class_row.extra[key] for class_row in (row, other_row)
            )
            ap_samples = first_samples.class_ap[key][:, k], other_samples.class_ap[key][:, other_k]
            bounds = delta_interval(
                *ap_samples, subtract(first_ap, other_ap), float(n_images_of_class[k]), level=draws.level
            )
            deltas.append(Delta(run, key, row.name, first_ap, other_ap, bounds))
        corrected = correct_p_values([delta.interval.p for delta in deltas])
        result += [replace(d, p_holm=p) for d, p in zip(deltas, corrected, strict=True)]
    return result


# ------------------------------------------------------------------------------------------------ gates


class RegressionGate(msgspec.Struct, frozen=True):
    """A bound on how much worse than the first a run may be.

    Attributes
    ----------
    margin
        What is tolerated.
    proven
        Whether only a regression beyond doubt fails: the whole interval lies below minus the margin. Else a
        mere possibility fails: the interval reaches below minus the margin.
    """

    name: MetricName
    margin: float
    proven: bool

    @property
    def category(self) -> str | None:
        """The class whose metric is bounded; None for a metric over all classes."""
        return self.name.category

    def __str__(self) -> str:
        option = "--fail-on-regression" if self.proven else "--require-no-worse"
        return f"{option} {self.name}={self.margin:.15g}"


def parse_regression_gate(text: str, *, proven: bool) -> RegressionGate:
    """Parse a gate: ``AP=0.01``, ``AP[person]=1%`` or, if `proven`, ``AP``, which has a margin of 0.

    Raises UsageError for any other text.
    """
    option = "--fail-on-regression" if proven else "--require-no-worse"
    match = re.fullmatch(rf"({PATTERN})(?:=\s*(?P<margin>[^=\s]+)\s*)?", text, re.DOTALL)
    name = parse_metric(match[1]) if match else None
    if match and name and (match["margin"] or proven):
        try:
            margin_text = match["margin"] or "0"
            margin = float(margin_text.removesuffix("%")) / (100 if margin_text.endswith("%") else 1)
        except ValueError:
            margin = math.nan
        if 0 <= margin <= 1:
            return RegressionGate(name, margin, proven)
    raise UsageError(
        f"{option} {shorten(text)}: expected a metric and a margin in 0..1, as in AP=0.01 or AP[person]=0.02"
    )


def check_regression_gates(
    gates: Sequence[RegressionGate], rules: Protocol, *, bootstrap_areas: bool = True
) -> None:
    """Refuse gates on a key that the protocol lacks or that has no interval. Raises UsageError."""
    areas = range(len(rules.areas)) if bootstrap_areas else (0,)
    for gate in gates:
        class_keys = list_class_keys(rules)
        if gate.category is not None and gate.name.find_key(class_keys) is None:
            choices = f"there are: {', '.join(class_keys)}" if class_keys else f"{rules.name} has none"
            raise UsageError(f"{gate}: no class has {shorten(gate.name.key)!r}; {choices}")
        _, key = find_result(gate.name, [rules], str(gate))  # raises if the protocol has no such key
        has_no_interval = gate.category is None and key not in list_keys(rules, areas)
        if has_no_interval and key in list_keys(rules, range(len(rules.areas))):
            raise UsageError(
                f"{gate}: area ranges have intervals only with {spell('bootstrap_areas')}: add it"
            )


def find_regressions(comparison: Comparison, gates: Sequence[RegressionGate]) -> list[str]:
    """Return a line for each gate that fails; a number without an interval fails.

    Raises UsageError if no difference has a gate's key or class.
    """
    failed = []
    for gate in gates:
        is_of_class = gate.category is not None
        deltas = [d for d in comparison.deltas if (d.category is not None) == is_of_class]
        key = gate.name.find_key({d.key for d in deltas})
        selected = [d for d in deltas if d.key == key and d.category == gate.category]
        if not selected:
            names = dict.fromkeys(f"{d.key}[{d.category}]" if is_of_class else d.key for d in deltas)
            name = str(gate.name)
            raise UsageError(f"{gate}: there is no {shorten(name)}{hint(name, names)}")
        for delta in selected:
            bounds = delta.interval
            # Turned round where lower is better, so that negative numbers are a regression.
            low, high = (
                (-bounds.high, -bounds.low) if key in comparison.lower_keys else (bounds.low, bounds.high)
            )
            if math.isnan(bounds.low):
                failed.append(f"{gate}: {delta.run} has no interval ({bounds.reason})")
            elif (high if gate.proven else low) < -gate.margin:
                failed.append(
                    f"{gate}: {delta.run} differs by {delta.delta:+.4f} "
                    f"({100 * comparison.level:g} % interval {bounds.low:+.4f} to {bounds.high:+.4f})"
                )
    return failed
