"""Intervals by resampling images, and whether the difference of two runs is more than chance.

A replicate draws as many images as there are, with replacement, and weighs everything on an image with the
times it was drawn (see `replicates`). All runs share the draws, so differences are paired. Replicate b is
drawn by ``default_rng([seed, b])``: results do not depend on how the work is shared.

The replicates give the standard error; an interval is the estimate and Student's t times that error. The
degrees of freedom are the number of images that hold a class, the harmonic mean over the classes, less one,
but at least three. The interval of one run is made on the scale of log odds, so that it stays within 0..1.
Simulated (``benchmarks/coverage.py``), 95 % intervals of AP hold the true value in 93 to 96 % of the datasets
with 6 classes on 20 to 200 images; with 20 classes, most of them rare, in 91 to 99 %. Percentiles of the
replicates hold it in 89 to 93 and in 79 to 89 %: AP of few objects is biased upwards, and that of resampled
images twice. Bootstrap t: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 12.
Step-down correction over classes: Holm (1979).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import NormalDist
from typing import Any

import msgspec
import numpy as np

from odm.evaluate.analysis.replicate_keys import list_class_keys
from odm.evaluate.analysis.replicates import Plan, Replicates
from odm.evaluate.scores.protocols import Protocol
from odm.issues import UsageError, spell
from odm.parallel import map_in_order, worker_count
from odm.tables import Floats, Longs

REPLICATES = 1000
LEVEL = 0.95

MOST_UNDEFINED = 0.05
"""Share of undefined replicates above which there is no interval."""

ROUNDING = 1e-12
"""Differences that are no larger are those of rounding: they are 0."""

FEWEST = 4.0
"""Images that a number rests on at least; a class on fewer has no interval, as many replicates lack it."""

FARTHEST = 700.0
"""Log odds beyond which a share is 0 for every purpose, and the exponential overflows."""

EDGE = 0.001
"""Shares nearer to 0 or 1 count as so near on the scale of log odds, which has no end."""

AT_A_TIME = 24
"""Replicates that a process computes before it asks for more."""

Track = Callable[[Sequence[Any], str], Iterable[Any]]

SHARED_NOT_BOOTSTRAPPED = "the operating point of all classes is not bootstrapped"


class Interval(msgspec.Struct, frozen=True):
    """The distribution of one number over the replicates.

    Attributes
    ----------
    low, high
        NaN if the number is undefined in more than 5 % of the replicates, or there are none.
    p_better
        Of differences: the share of replicates that are better, equal ones counted half.
    p
        Of differences: two-sided p value of no difference.
    reason
        Why something is NaN.
    """

    low: float = float("nan")
    high: float = float("nan")
    p_better: float = float("nan")
    p: float = float("nan")
    reason: str = ""


def draw_weights(n: int, replicates: range, seed: int) -> Longs:
    """Return (replicates, n), how often each replicate draws each of n images."""
    return np.stack(
        [np.bincount(np.random.default_rng([seed, b]).integers(0, n, n), minlength=n) for b in replicates]
    ).astype(np.int64)


class Resampling(msgspec.Struct, frozen=True):
    """How images are drawn: how many times and which draws, and the nominal coverage of intervals."""

    replicates: int = REPLICATES
    seed: int = 0
    level: float = LEVEL
    areas: bool = False
    """Whether the summary's area ranges get intervals too."""
    images: Longs | None = None
    """Numbers of the images to draw from, None = those that were evaluated. Boxes on others count nowhere."""
    track: Track | None = None
    """Shows progress: called with rounds of work and what they are."""

    def check(self) -> None:
        """Raise UsageError if a value is out of range."""
        if self.replicates < 1:
            raise UsageError(
                f"{spell('replicates')} {self.replicates}: expected a whole number of at least 1"
            )
        if self.seed < 0:
            raise UsageError(f"{spell('seed')} {self.seed}: expected a whole number of at least 0")
        if not 0 < self.level < 1:
            raise UsageError(
                f"{spell('level')} {self.level}: expected a fraction between 0 and 1, as in 0.95"
            )


def bootstrap(plans: Sequence[Plan], draws: Resampling) -> list[Replicates]:
    """Compute the metrics of each plan under random draws of images, the same draws for all runs.

    Of a single image nothing can be drawn: its replicates are NaN. Raises UsageError if the runs have other
    images, or there are none.
    """
    n_images = plans[0].n_images
    if any(plan.table.images != plans[0].table.images for plan in plans):
        raise UsageError("the runs do not cover the same images")
    replicates = draws.replicates
    image_numbers = plans[0].table.evaluated if draws.images is None else np.asarray(draws.images)
    if not len(image_numbers):
        raise UsageError("there are no images to sample from")

    if len(image_numbers) == 1:  # it would be drawn every time, as if nothing were left to chance
        nan_values = np.full(replicates, np.nan)
        return [
            Replicates(
                dict.fromkeys(plan.keys, nan_values),
                dict.fromkeys(list_class_keys(plan.rules), np.full((replicates, plan.n_classes), np.nan)),
            )
            for plan in plans
        ]

    def compute_part(replicate_range: range) -> list[Replicates]:
        """Compute the metrics of each plan in the replicates with these numbers."""
        weights = np.zeros((len(replicate_range), n_images), np.int64)
        weights[:, image_numbers] = draw_weights(len(image_numbers), replicate_range, draws.seed)
        return [plan.compute(weights) for plan in plans]

    rounds = _share_replicates(replicates)
    computed: list[list[Replicates]] = []  # of each part of the replicates, of each plan
    for parts_of_round in rounds if draws.track is None else draws.track(rounds, "replicates"):
        computed += map_in_order(compute_part, parts_of_round)
    return [_join_replicates(parts_of_plan) for parts_of_plan in zip(*computed, strict=True)]


def _share_replicates(n: int) -> list[list[range]]:
    """Share the numbers of n replicates: rounds for the progress, about ten, of parts for the processes."""
    # `-(-a // b)` is a / b rounded up.
    n_per_part = min(AT_A_TIME, -(-n // worker_count()))
    parts = [range(b, min(b + n_per_part, n)) for b in range(0, n, n_per_part)]
    n_parts_per_round = max(1, len(parts) // (10 * worker_count())) * worker_count()
    return [parts[i : i + n_parts_per_round] for i in range(0, len(parts), n_parts_per_round)]


def _join_replicates(parts: Sequence[Replicates]) -> Replicates:
    """Concatenate the replicates of one plan."""
    return Replicates(
        {key: np.concatenate([part.summary[key] for part in parts]) for key in parts[0].summary},
        {key: np.concatenate([part.class_ap[key] for part in parts]) for key in parts[0].class_ap},
    )


def run_interval(
    value: float, replicates: Floats, n: float, level: float = LEVEL, *, least_error: float = 0.0
) -> Interval:
    """Compute the interval of a number in 0..1 that rests on `n` images (see `Plan.count_images_behind`).

    Where few images hold a class, draws of them vary too little: the interval is at least as wide as the
    standard error `least_error` makes it (see `Plan.estimate_least_error`).
    """
    defined, reason = _select_defined(value, replicates)
    if reason:
        return Interval(reason=reason)
    t = _approximate_t((1 + level) / 2, n)
    # The interval is at least as wide as `least_error` makes it, on the scale of the number itself.
    lowest, highest = max(value - t * least_error, 0.0), min(value + t * least_error, 1.0)
    if np.ptp(defined) == 0:  # all are equal: only `least_error` is left
        return Interval(min(lowest, value), max(highest, value))
    clipped_value = min(max(value, EDGE), 1 - EDGE)
    log_odds = math.log(clipped_value / (1 - clipped_value))
    # dp / d(log odds) = p (1 - p), a mean over the replicates: dividing by it makes an error of log odds. It
    # is at least that of a share of `EDGE`, which is about `EDGE` itself.
    slope = max(float(np.mean(defined * (1 - defined))), EDGE)
    margin = t * _estimate_error(defined, n) / slope
    low, high = (1 / (1 + math.exp(min(-(log_odds + sign * margin), FARTHEST))) for sign in (-1, 1))
    return Interval(min(low, lowest, value), max(high, highest, value))


def delta_interval(
    first: Floats,
    other: Floats,
    delta: float,
    n: float,
    *,
    level: float = LEVEL,
    lower_is_better: bool = False,
) -> Interval:
    """Compute the interval and the p value of the difference other - first.

    `first` and `other` (replicates,) are of the same draws, NaN where undefined; `delta` is the difference of
    the estimates, which rest on `n` images (see `Plan.count_images_behind`). `level` is the nominal coverage.
    `lower_is_better`, of numbers that are errors, turns ``p_better`` round.
    """
    differences = other - first
    differences[np.abs(differences) < ROUNDING] = 0
    defined, reason = _select_defined(delta, differences)
    if reason:
        return Interval(reason=reason)
    error = _estimate_error(defined, n)
    margin = _approximate_t((1 + level) / 2, n) * error
    n_above, n_below = int((defined > 0).sum()), int((defined < 0).sum())
    n_better = n_below if lower_is_better else n_above
    # The least two-sided p value that B draws can show, if none is on the other side: 2 (0 + 1) / (B + 1).
    smallest_p = 2 / (len(defined) + 1)
    p = smallest_p if delta else 1.0  # without an error, as all draws have one difference
    if error:
        df, t = max(n, FEWEST) - 1, abs(delta) / error
        # The normal quantile as rare as t (Wallace 1959), then the chance of more on either side.
        normal_quantile = (8 * df + 1) / (8 * df + 3) * math.sqrt(df * math.log1p(t**2 / df))
        p = max(math.erfc(normal_quantile / math.sqrt(2)), smallest_p)
    return Interval(
        max(delta - margin, -1.0),
        min(delta + margin, 1.0),
        p_better=(n_better + (len(defined) - n_above - n_below) / 2) / len(defined),
        p=p,
    )


def _estimate_error(replicates: Floats, n: float) -> float:
    """Return the standard error of a mean of n; resampled means vary too little, by (n - 1) / n."""
    n = max(n, FEWEST)
    return float(np.std(replicates)) * math.sqrt(n / (n - 1))


def _approximate_t(p: float, n: float) -> float:
    """Approximate the quantile of Student's t with max(n - 1, 3) degrees of freedom (Wallace 1959)."""
    df = max(n, FEWEST) - 1
    # The quantile of 1, where rounding makes 1 of `p`, would be infinite.
    normal = NormalDist().inv_cdf(min(p, 1 - 1e-15)) * (8 * df + 3) / (8 * df + 1)
    return math.sqrt(df * math.expm1(normal**2 / df))


def _select_defined(value: float, replicates: Floats) -> tuple[Floats, str]:
    """Return the replicates that are defined, and the reason why there is no interval, empty if there is."""
    defined = replicates[~np.isnan(replicates)]
    n_undefined = len(replicates) - len(defined)
    if np.isnan(value):
        return defined, "undefined"
    if not len(defined):
        return defined, "too few images: undefined in every replicate"
    if n_undefined > MOST_UNDEFINED * len(replicates):
        return defined, f"undefined in {n_undefined} of {len(replicates)} replicates"
    return defined, ""


def correct_p_values(p: Sequence[float]) -> list[float]:
    """Correct the p values of several tests by Holm's step-down method; NaN is left out and stays NaN."""
    corrected = [float("nan")] * len(p)
    tested = sorted((value, i) for i, value in enumerate(p) if value == value)  # noqa: PLR0124 -- not NaN
    # The lowest of m p values times m, the next times m - 1, ...; none is below the one before it.
    highest = 0.0
    for rank, (value, i) in enumerate(tested):
        highest = max(highest, min(1.0, (len(tested) - rank) * value))
        corrected[i] = highest
    return corrected


def subtract(first: float, other: float) -> float:
    """Return other - first, 0 where only rounding differs."""
    delta = other - first
    return 0.0 if abs(delta) < ROUNDING else delta


def intervals(plan: Plan, samples: Replicates, draws: Resampling) -> dict[str, Interval]:
    """Compute the interval of each number in the summary of a run, by key, from its replicates."""
    n, least_error = plan.count_images_behind(draws.images), plan.estimate_least_error(draws.images)
    return {
        key: run_interval(value, samples.summary[key], n, draws.level, least_error=least_error)
        if key in samples.summary
        else Interval(reason=explain_missing(value, plan.rules))
        for key, value in plan.table.result.summary.items()
    }


def explain_missing(value: float, rules: Protocol) -> str:
    """Return the reason why a number of the summary has no replicates."""
    if np.isnan(value):
        return "undefined"
    if rules.shared_score:
        return SHARED_NOT_BOOTSTRAPPED
    return f"area ranges are bootstrapped only on request, by {spell('bootstrap_areas')}"
