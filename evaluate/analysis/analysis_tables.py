"""The analyses of a result as attributes with tables: ``result.analysis.tide.table()``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odm.issues import UsageError
from odm.views import Rows, Shown

Found = list[dict[str, Any]]


class AnalysisTable(Rows[dict[str, Any]], Shown):
    """The rows of an analysis, at full precision."""

    def __repr__(self) -> str:
        return f"<table of {len(self)} rows: {', '.join(self.names)}>"


class Analysis(Shown):
    """One analysis: plain data as in the JSON output, and a table of it."""

    def __init__(self, name: str, data: Any) -> None:
        self.name, self.data = name, data

    def __repr__(self) -> str:
        return f"<Analysis {self.name}: {self.reason or self.data!r}>"

    def __getitem__(self, key: Any) -> Any:
        return self.data[key]

    def __len__(self) -> int:
        return len(self.data)

    @property
    def reason(self) -> str:
        """Why the protocol does not have this analysis; empty if it has."""
        return str(self.data["reason"]) if isinstance(self.data, Mapping) and "reason" in self.data else ""

    def table(self) -> AnalysisTable:
        """Return the rows: of ``tide`` the types of errors, of ``lrp`` and ``thresholds`` the classes, of
        ``calibration`` the bins of scores, of ``images`` the images, worst first, of ``slices`` the parts, of
        ``confusion`` the pairs of classes.

        Raises
        ------
        UsageError
            If the protocol does not have it.
        """
        if self.reason:
            raise UsageError(f"{self.name}: {self.reason}")
        rows = _TABLES[self.name](self.data)
        return AnalysisTable(rows, dict.fromkeys(key for row in rows for key in row))


class Analyses(dict[str, Any]):
    """The plain data of each analysis by its name, each also an attribute with a table."""

    def __getattr__(self, name: str) -> Analysis:
        if name in self:
            return Analysis(name, self[name])
        if name in _TABLES:
            arguments = {"confusion": 'confusion="counts"', "thresholds": 'thresholds="f1"'}
            argument = arguments.get(name, f'analyze="{name}"')
            raise UsageError(f"analysis {name}: it was not requested: use odm.eval(..., {argument})")
        raise AttributeError(f"there is no analysis {name!r}; there are: {', '.join(_TABLES)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]


def _tabulate_tide(data: Mapping[str, Any]) -> Found:
    """Return a row for each type of error."""
    return [{"error": kind, "count": None, **fix} for kind, fix in data.items() if kind != "classes"]


def _tabulate_slices(data: Found) -> Found:
    """Return a row for each slice, with its summary as columns; differences are left out."""
    return [
        {k: v for k, v in row.items() if not isinstance(v, Mapping)} | row.get("summary", {}) for row in data
    ]


def _tabulate_confusion(data: Mapping[str, Any]) -> Found:
    """Return a row for each pair of classes that occurs; None stands for the background."""
    names = [*data["classes"], None]
    return [
        {"gt_class": names[i], "det_class": names[j], "count": n}
        for i, row in enumerate(data["counts"])
        for j, n in enumerate(row)
        if n
    ]


_TABLES: dict[str, Callable[[Any], Found]] = {
    "tide": _tabulate_tide,
    "lrp": lambda data: data["classes"],
    "calibration": lambda data: data["bins"],
    "images": list,
    "slices": _tabulate_slices,
    "confusion": _tabulate_confusion,
    "thresholds": lambda data: [{"class": name, **own} for name, own in data["classes"].items()],
}
