"""How numbers are written: one function for each kind, for tables, lines, pages and plots alike.

An undefined number, None or NaN, is ``-``.
"""

from __future__ import annotations

import math

Bounds = tuple[float | None, float | None]
"""The lower and the upper end of an interval."""


def format_number(value: float | None, form: str = ".4f") -> str:
    """Format a number: ``0.4800``."""
    return "-" if value is None or math.isnan(value) else format(value, form)


def format_percent(value: float | None, form: str = ".2f") -> str:
    """Format a share of 1: ``24.57 %``."""
    return "-" if value is None or math.isnan(value) else f"{100 * value:{form}} %"


def format_share(count: int, total: int) -> str:
    """Format a count as a share of another: ``24.57 %``, ``-`` of nothing."""
    return format_percent(count / total if total else None)


def format_points(value: float | None) -> str:
    """Format a difference of two shares of 1 in percentage points: ``+1.25``."""
    return format_number(None if value is None else 100 * value, "+.2f")


def format_interval(bounds: Bounds) -> str:
    """Format the interval of a difference of shares: ``-0.50 to +1.25``."""
    low, high = map(format_points, bounds)
    return "-" if low == "-" else f"{low} to {high}"


def format_percents(bounds: Bounds, form: str = ".2f") -> str:
    """Format the interval of a share: ``53.78 to 94.59``, in per cent."""
    low, high = (format_number(None if bound is None else 100 * bound, form) for bound in bounds)
    return "-" if "-" in (low, high) else f"{low} to {high}"


def format_size(value: float | None) -> str:
    """Format a length, an area or a ratio: two decimals, or more where it is small; never an exponent."""
    if value is None:
        return "-"
    if value.is_integer():
        return str(int(value))
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.4f}"
