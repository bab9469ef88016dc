"""Make the table of outcomes that the analyses read, with the numbers of its protocol."""

from __future__ import annotations

import functools

from odm.evaluate.analysis.outcome_table import OutcomeTable
from odm.evaluate.matching.matches import Matches, bits_of_area
from odm.evaluate.matching.sides import Joined, Mask
from odm.evaluate.results import Result
from odm.evaluate.scores.accumulate import accumulate
from odm.evaluate.scores.set_ups import AreaBits
from odm.issues import UsageError


class Table(OutcomeTable, frozen=True):
    """What became of every detection under one protocol, and the ground truths; see `OutcomeTable`."""

    @functools.cached_property
    def result(self) -> Result:
        """The protocol's numbers."""
        return accumulate(self.matches)


def table_of(result: Result) -> Table:
    """Make the table of a result of `odm.evaluate.evaluate`. Raises UsageError if its boxes are gone."""
    if result.joined is None:
        raise UsageError("this result was made from matches only, which do not contain the boxes")
    table = tabulate(result.joined, result.matches)
    table.__dict__["result"] = result  # what the cached property would compute again
    return table


def tabulate(joined: Joined, matches: Matches) -> Table:
    """Tabulate what became of every detection and ground truth, of all images or of a shard.

    `matches` are those that `odm.evaluate.match` returned for `joined`.
    """
    return Table.of(joined, matches)


def find_hits(table: Table, area: int, threshold: int) -> tuple[Mask, Mask]:
    """Return (hits,) masks of true positives and ignored among ``matches.hit``, for a range and threshold."""
    word, bit = bits_of_area(table.rules, area)[threshold]
    positive: Mask = table.matches.positive[:, word] & bit != 0
    ignored: Mask = table.matches.ignored[:, word] & bit != 0
    return positive, ignored


def find_fp_if_unmatched(table: Table, area: int) -> Mask | None:
    """Return (n,) whether a detection that matches nothing is a false positive; None if all are."""
    fp_bits = table.matches.fp_if_unmatched  # a bit for each area range
    if fp_bits is None:
        return None
    mask: Mask = fp_bits & AreaBits(1 << area) != 0
    return None if mask.all() else mask
