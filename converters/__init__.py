"""The convert pipeline: load, edit, fit to the target, write, and the ledger of what happened."""

from odm.converters.edit import Edits
from odm.converters.ledger import Ledger
from odm.converters.load import Loaded, Request, load, load_pair
from odm.converters.pipeline import StrictLoss, convert, read, reference, repair, write
from odm.converters.validation import chosen, examine, validate

__all__ = [
    "Edits",
    "Ledger",
    "Loaded",
    "Request",
    "StrictLoss",
    "chosen",
    "convert",
    "examine",
    "load",
    "load_pair",
    "read",
    "reference",
    "repair",
    "validate",
    "write",
]
