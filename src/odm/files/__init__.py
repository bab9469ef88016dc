"""The only access to the disk: one way to open a file, one way to accept a name, one output.

Nothing else in the package opens, creates, renames or removes anything; a lint rule and a test say so.
"""

from odm.files.opening import (
    HEAD,
    MAX_SIZE,
    NOT_TEXT,
    UNREADABLE,
    Unreadable,
    as_utf8,
    find_binary_kind,
    is_encoding,
    may_exist,
    names_entry_point,
    open_binary,
    read_bytes,
    read_head,
    refuse_nuls,
)
from odm.files.output import CASE_COLLISION, COLLISION, HIDDEN_NAME, Output
from odm.files.scratch import Scratch, end_soon
from odm.files.source import LEADS_OUTSIDE, InMemory, NamedSource, Source
from odm.files.stores import conceal, is_address, open_source, reveal

__all__ = [
    "CASE_COLLISION",
    "COLLISION",
    "HEAD",
    "HIDDEN_NAME",
    "LEADS_OUTSIDE",
    "MAX_SIZE",
    "NOT_TEXT",
    "UNREADABLE",
    "InMemory",
    "NamedSource",
    "Output",
    "Scratch",
    "Source",
    "Unreadable",
    "as_utf8",
    "conceal",
    "end_soon",
    "find_binary_kind",
    "is_address",
    "is_encoding",
    "may_exist",
    "names_entry_point",
    "open_binary",
    "open_source",
    "read_bytes",
    "read_head",
    "refuse_nuls",
    "reveal",
]
