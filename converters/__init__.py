"""The jobs: load, edit, drop what the target cannot hold, write, and the ledger of what happened."""

from odm.converters.edit import Edits
from odm.converters.ledger import Ledger
from odm.converters.load import KeptTruth, Loaded, load, load_pair
from odm.converters.merging import Merged, merge
from odm.converters.pending import Request
from odm.converters.pipeline import convert, read, reference, repair, write
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
    "read",
    "reference",
    "repair",
    "validate",
    "write",
]
