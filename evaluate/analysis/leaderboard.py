"""Rank runs, and tell which differ from the best by more than chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from odm.evaluate.analysis.bootstrap import Interval, Resampling, correct_p_values, delta_interval, subtract
from odm.evaluate.analysis.replicates import Plan, Replicates
from odm.evaluate.analysis.table import Table
from odm.evaluate.results import to_plain


class Standing(msgspec.Struct, frozen=True):
    """A run among the others, by one metric; runs whose detections are the same share one."""

    run: str
    same: tuple[str, ...]
    """The other runs with the same detections."""
    key: str
    """The metric: the first one of the protocol's summary."""
    value: float
    interval: Interval
    """Of the value."""
    delta: float
    """The value less that of the best run."""
    delta_interval: Interval
    p_holm: float
    """The p value of the difference, corrected for the number of runs; NaN for the best."""

    def differs(self, level: float) -> bool | None:
        """Whether the run differs from the best by more than chance; None if unknown."""
        return None if math.isnan(self.p_holm) else self.p_holm < 1 - level

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the JSON output."""
        bounds, delta_bounds = self.interval, self.delta_interval
        return {
            "run": self.run,
            "same": list(self.same),
            "key": self.key,
            "value": to_plain(self.value),
            "low": to_plain(bounds.low),
            "high": to_plain(bounds.high),
            "delta": to_plain(self.delta),
            "delta_low": to_plain(delta_bounds.low),
            "delta_high": to_plain(delta_bounds.high),
            "p_holm": to_plain(self.p_holm),
        }


def rank(
    runs: Mapping[str, Table],
    plans: Sequence[Plan],
    samples: Sequence[Replicates],
    intervals: Sequence[Mapping[str, Interval]],
    draws: Resampling,
) -> list[Standing]:
    """Rank runs by the first metric of their protocol; of equal ones in the order given.

    `plans`, `samples` and `intervals` are those of each run, from the same draws of images.
    """
    names, tables = list(runs), list(runs.values())
    names_of_twin: dict[int, list[str]] = {}  # by the first run with these detections, all that have them
    for i, table in enumerate(tables):
        first_of_twins = next((j for j in names_of_twin if has_equal_detections(tables[j], table)), i)
        names_of_twin.setdefault(first_of_twins, []).append(names[i])
    key = next(iter(tables[0].result.summary))
    values = [table.result.summary[key] for table in tables]
    order_sign = 1 if key in plans[0].lower_keys else -1
    # One run of each set of twins, best first; undefined numbers come last.
    order = sorted(names_of_twin, key=lambda i: (math.isnan(values[i]), order_sign * values[i]))
    best, n_behind = order[0], plans[0].count_images_behind(draws.images)
    deltas = {i: subtract(values[best], values[i]) for i in order}
    interval_of_run = {i: Interval() for i in order}
    for i in order[1:]:
        if key in samples[i].summary:
            interval_of_run[i] = delta_interval(
                samples[best].summary[key],
                samples[i].summary[key],
                deltas[i],
                n_behind,
                level=draws.level,
                lower_is_better=key in plans[0].lower_keys,
            )
    # The best has no difference from itself, and no p value.
    p_values = [math.nan, *correct_p_values([interval_of_run[i].p for i in order[1:]])]
    return [
        Standing(
            run=names[i],
            same=tuple(names_of_twin[i][1:]),
            key=key,
            value=values[i],
            interval=intervals[i].get(key, Interval()),
            delta=deltas[i],
            delta_interval=interval_of_run[i],
            p_holm=p,
        )
        for i, p in zip(order, p_values, strict=True)
    ]


def has_equal_detections(first_table: Table, other_table: Table) -> bool:
    """Whether two runs have the same detections, in any order."""
    if len(first_table.score) != len(other_table.score) or first_table.classes != other_table.classes:
        return False
    if not np.array_equal(np.sort(first_table.score), np.sort(other_table.score), equal_nan=True):
        return False  # which spares most pairs of runs the sort by all columns
    columns = [np.column_stack([t.image, t.category, t.score, t.xyxy]) for t in (first_table, other_table)]
    rows = [column[np.lexsort(column.T)] for column in columns]
    return bool((rows[0] == rows[1]).all())


def verdict(standings: Sequence[Standing], names: Mapping[str, str], level: float) -> str:
    """Say in a sentence which run is best, and which others differ from it by no more than chance."""
    best = standings[0]
    if math.isnan(best.value):
        return f"{best.key} is undefined for all runs"
    head = f"{names[best.run]} is the best of {len(standings)} runs: {best.key} {100 * best.value:.2f} %"
    differences = [standing.differs(level) for standing in standings[1:]]
    not_different = [
        names[standing.run]
        for standing, differs in zip(standings[1:], differences, strict=True)
        if differs is False
    ]
    if None in differences:  # without intervals no difference is known
        return head
    if not not_different:
        return f"{head}; all others differ from it by more than chance"
    if len(not_different) == len(differences):
        return f"{head}; none of the others differs from it by more than chance"
    examples = ", ".join(not_different[:3]) + (", ..." if len(not_different) > 3 else "")
    verb = "differs" if len(not_different) == 1 else "differ"
    return f"{head}; {len(not_different)} of the others {verb} from it by no more than chance: {examples}"
