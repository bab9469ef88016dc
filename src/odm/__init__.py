"""odm: read, convert, check and evaluate object-detection files.

>>> import odm
>>> dataset = odm.read("labels/", format="yolo")  # doctest: +SKIP
>>> odm.convert("labels/", "out/", to="txt")  # doctest: +SKIP

Boxes in arrays are evaluated without a file:

>>> same = {"images": ["a.jpg"], "categories": ["person"], "image": [0], "category": [0]}
>>> truth = odm.Dataset.from_arrays(**same, ltwh=[[10, 10, 20, 20]])
>>> detections = odm.Dataset.from_arrays(**same, ltwh=[[12, 10, 20, 20]], score=[0.9])
>>> round(odm.evaluate.evaluate(truth, detections, "coco").result.summary["AP50"], 3)
1.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odm.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from odm.converters import Ledger, repair
    from odm.issues import DataError, Issue, PathError, UsageError
    from odm.tables import Boxes, Categories, Dataset, Flag, Images
    from odm.verbs.agreement import agree
    from odm.verbs.comparison import compare
    from odm.verbs.conversion import convert, read, write
    from odm.verbs.differences import diff
    from odm.verbs.evaluation import eval  # noqa: A004 -- the command's name
    from odm.verbs.showing import show, stats
    from odm.verbs.validation import Validation, validate

__all__ = [
    "Boxes",
    "Categories",
    "DataError",
    "Dataset",
    "Flag",
    "Images",
    "Issue",
    "Ledger",
    "PathError",
    "UsageError",
    "Validation",
    "__version__",
    "agree",
    "compare",
    "convert",
    "diff",
    "eval",
    "read",
    "repair",
    "show",
    "stats",
    "validate",
    "write",
]

_NAMES_BY_MODULE = {
    "converters": ("Ledger", "repair"),
    "issues": ("DataError", "Issue", "PathError", "UsageError"),
    "tables": ("Boxes", "Categories", "Dataset", "Flag", "Images"),
    "verbs.agreement": ("agree",),
    "verbs.comparison": ("compare",),
    "verbs.conversion": ("convert", "read", "write"),
    "verbs.differences": ("diff",),
    "verbs.evaluation": ("eval",),
    "verbs.showing": ("show", "stats"),
    "verbs.validation": ("Validation", "validate"),
}

_PACKAGES = ("converters", "evaluate", "formats", "issues", "masks", "tables")
"""What ``odm.NAME`` imports when it is first used."""


def __getattr__(name: str) -> Any:
    """Import a public name, or a package of `_PACKAGES`, when it is first used."""
    # NumPy is imported when the first table is needed, so that `odm --help` answers at once.
    import importlib

    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            return getattr(importlib.import_module(f"odm.{module}"), name)
    if name in _PACKAGES:
        return importlib.import_module(f"odm.{name}")
    raise AttributeError(f"module 'odm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES])
