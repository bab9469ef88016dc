"""Load, edit, convert, repair and validate datasets, and keep a ledger of what a conversion changes."""

from typing import TYPE_CHECKING, Any

from odm.converters.load import KeptTruth, Loaded, load, load_pair
from odm.converters.pending import Request

if TYPE_CHECKING:
    from odm.converters.edit import Edits
    from odm.converters.ledger import Ledger
    from odm.converters.merging import Merged, merge
    from odm.converters.pipeline import convert, reference, repair
    from odm.converters.selection import Selection
    from odm.converters.validation import chosen, examine, validate
    from odm.converters.writing import StrictLoss

__all__ = [
    "Edits",
    "KeptTruth",
    "Ledger",
    "Loaded",
    "Merged",
    "Request",
    "Selection",
    "StrictLoss",
    "chosen",
    "convert",
    "examine",
    "load",
    "load_pair",
    "merge",
    "reference",
    "repair",
    "validate",
]

_HOMES = {
    "edit": ("Edits",),
    "ledger": ("Ledger",),
    "merging": ("Merged", "merge"),
    "pipeline": ("convert", "reference", "repair"),
    "selection": ("Selection",),
    "validation": ("chosen", "examine", "validate"),
    "writing": ("StrictLoss",),
}


def __getattr__(name: str) -> Any:
    # What an evaluation does without is imported when it is first used.
    import importlib

    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"odm.converters.{home}"), name)
    raise AttributeError(f"module 'odm.converters' has no attribute {name!r}")
