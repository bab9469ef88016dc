"""What a rule is, and what the messages of several rules have in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.checks.derived_columns import DerivedColumns
from odm.issues import Code, Trusted, printable, without_noise
from odm.tables import Dataset

Location = tuple[str, int, str]
"""Path, line and JSON pointer."""
Found = Iterator[tuple[Location, dict[str, Any]]]
"""For each time a fault is found: its location and the values of its message."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class BoxRule:
    """A fault of single boxes: the rows that have it, and the values of its message for one of them."""

    code: Code
    find: Callable[[DerivedColumns], NDArray[np.intp]]
    values: Callable[[DerivedColumns, int], dict[str, Any]]
    field: str = "bbox"
    validate_only: bool = False


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class SetRule:
    """A fault of the whole: for each time it is found, its place and the values of its message."""

    code: Code
    find: Callable[[DerivedColumns], Found]
    validate_only: bool = False
    unless: tuple[str, ...] = ()
    """Codes with which a reader has already reported the same fault, by image."""
    explains: Code | None = None
    """What another rule reports box by box for the same reason; of those warnings only the first is kept."""


def number(value: float) -> str:
    """A number as a message shows it, a whole one without decimals."""
    text = repr(float(value))
    return text.removesuffix(".0")


def edges(columns: DerivedColumns, row: int) -> Trusted:
    """The edges of a box as a message shows them."""
    names = ("left", "top", "right", "bottom")
    exact = columns.boxes.xyxy[row].tolist()
    short = [without_noise(value) for value in exact]
    if len(set(short)) < len(set(exact)):  # edges that differ are shown so
        short = exact
    return Trusted(", ".join(f"{n} {number(v)}" for n, v in zip(names, short, strict=True)))


def values_of_edges(columns: DerivedColumns, row: int) -> dict[str, Any]:
    """The values of a message that shows only the edges."""
    return {"value": edges(columns, row)}


def option(columns: DerivedColumns, name: str, advice: str) -> Trusted:
    """Advice that is only for those whose format has the option."""
    return Trusted(advice if name in columns.options else "")


def location_text(dataset: Dataset, row: int) -> Trusted:
    """Where a box was read, as a message names it."""
    path, line, pointer = dataset.location(row)
    if not path:
        return Trusted(f"box {row}")
    return Trusted(printable(path) + (f"#{pointer}" if pointer else f":{line}" if line else ""))


def common_location(dataset: Dataset) -> tuple[str, int, str]:
    """The one file, or the folder of all files."""
    paths = list(dict.fromkeys(file.path for file in dataset.files))
    if len(paths) <= 1:
        return (paths[0] if paths else ""), 0, ""
    common = paths[0].split("/")[:-1]
    for path in (paths[-1], *paths[:100]):
        parts = path.split("/")[:-1]
        n = next(
            (i for i, (a, b) in enumerate(zip(common, parts, strict=False)) if a != b),
            min(len(common), len(parts)),
        )
        common = common[:n]
    return "/".join(common) or ("/" if paths[0].startswith("/") else "."), 0, ""
