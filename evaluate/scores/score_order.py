"""Rank the detections of each class by score, and count true and false positives down to each rank.

Between true positives precision only falls, so it is needed at those only. The false positives before one
are the detections before it that are false if unmatched, less those of them that did match.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.evaluate.matching.matches import Matches, bits_of_area
from odm.evaluate.matching.order import argsort_descending, argsort_int
from odm.evaluate.matching.sides import Mask
from odm.evaluate.scores.protocols import Protocol
from odm.evaluate.scores.set_ups import AreaBits
from odm.tables import Longs

Counts = NDArray[np.int32 | np.int64]

BLOCK = 2**16
"""Hits that are counted at a time: their columns stay in the processor's cache."""


class Weights(msgspec.Struct, frozen=True, eq=False):
    """Multiplicities of the rows of a condensed ranking, where one row stands for several unmatched
    detections.
    """

    n: Longs
    false: Longs | None
    """(n, areas) how many of them are false positives if they match nothing; None = all."""

    def false_in(self, area: int) -> Longs:
        """(n,) the false positives of unmatched rows in an area range."""
        return self.n if self.false is None else self.false[:, area]


class Ranked:
    """Detections by class and descending score, and the hits among them.

    ``rows`` (n,) are rows of the matches, ``counts`` and ``starts`` (classes,) say which of them belong to
    a class; ``at`` (hits,) are the positions of the hits in ``rows``, ``hits`` their numbers in the matches.
    """

    def __init__(
        self,
        first_class: int,
        rows: Longs,
        counts: Longs,
        at: Longs,
        hits: Longs,
        matches: Matches,
        weights: Weights | None = None,
    ) -> None:
        self.first_class = first_class
        self.rows, self.counts, self.at, self.hits = rows, counts, at, hits
        self.weights = weights
        self.n_classes = len(counts)
        self.n_detections = counts if weights is None else weights.n.sum(keepdims=True)
        """(classes,) how many detections there are."""
        self.starts = np.cumsum(counts) - counts
        self.first_hit = np.searchsorted(at, self.starts)
        self.hit_class = np.repeat(np.arange(len(counts)), np.diff(np.append(self.first_hit, len(at))))
        self.positive = matches.positive[hits]
        self.matched = self.positive | matches.ignored[hits]
        self.fp_if_unmatched = None if matches.fp_if_unmatched is None else matches.fp_if_unmatched[rows]

    @classmethod
    def of(
        cls,
        matches: Matches,
        rows: Longs,
        counts: Longs,
        block: int = 2**62,
        weights: Weights | None = None,
    ) -> Iterator[Ranked]:
        """Yield the rankings of consecutive classes with about `block` hits each.

        `rows` are those of all classes; `weights` are those of the rows of a single one.
        """
        hit_of_row = np.full(len(matches.score), -1, np.int32)
        hit_of_row[matches.hit] = np.arange(len(matches.hit), dtype=np.int32)
        hits = hit_of_row[rows]
        hit_positions = np.flatnonzero(hits >= 0)
        hit_numbers = hits[hit_positions].astype(np.int64)
        row_ends = np.cumsum(counts)
        hit_ends = np.searchsorted(hit_positions, row_ends)
        next_class = 0
        while next_class < len(counts):
            start_row, start_hit = (
                (int(row_ends[next_class - 1]), int(hit_ends[next_class - 1])) if next_class else (0, 0)
            )
            end_class = max(next_class + 1, int(np.searchsorted(hit_ends, start_hit + block, side="right")))
            end_row, end_hit = int(row_ends[end_class - 1]), int(hit_ends[end_class - 1])
            columns = (
                rows[start_row:end_row],
                counts[next_class:end_class],
                hit_positions[start_hit:end_hit] - start_row,
                hit_numbers[start_hit:end_hit],
            )
            yield cls(next_class, *columns, matches, weights)
            next_class = end_class

    def unmatched(self, area: int) -> _Unmatched:
        """Return which detections would be false positives in an area range if they matched nothing."""
        before: Counts = np.zeros(len(self.rows) + 1, np.int32 if self.weights is None else np.int64)
        if self.weights is not None:
            n_false: NDArray[Any] = self.weights.false_in(area)
        elif self.fp_if_unmatched is not None:
            n_false = self.fp_if_unmatched & AreaBits(1 << area) != 0
        else:
            n_false = np.ones(len(self.rows), np.bool_)
        np.cumsum(n_false, out=before[1:])
        return _Unmatched(before, before[self.at], n_false[self.at] > 0)

    def counted(self, word: int, bit: np.uint64, unmatched: _Unmatched) -> Counted:
        """Count true and false positives under one threshold and area range."""
        positive = np.flatnonzero(self.positive[:, word] & bit != 0)  # of booleans, which is far quicker
        # Running sums that begin with 0: what lies between two positions is the difference of their sums.
        #   ranked rows          TP  -  TP  -       `before`  0 1 2 3 4  rows that are false if unmatched
        #   FP before the second TP: before[2] = 2, less 1 of them that did match  =  1
        exempt = np.zeros(len(self.at) + 1, np.int32)
        np.cumsum((self.matched[:, word] & bit != 0) & unmatched.hits, out=exempt[1:])
        return Counted(self, unmatched, exempt, positive)

    def reference(self, rules: Protocol) -> Counted:
        """Count under the protocol's reference threshold and first area range."""
        return self.counted(*bits_of_area(rules)[rules.reference], self.unmatched(0))


class _Unmatched(msgspec.Struct, frozen=True, eq=False):
    """The detections that would be false positives if they matched nothing."""

    before: Counts
    """(n + 1,) how many of them are among the first rows."""
    before_hits: Counts
    """(hits,) the same before each hit."""
    hits: Mask
    """(hits,) whether a hit is one."""


class Counted:
    """The true positives under one threshold and area range, and the false positives down to any rank."""

    def __init__(self, ranked: Ranked, unmatched: _Unmatched, exempt: Counts, positive: Longs) -> None:
        self.unmatched, self.exempt, self.positive = unmatched, exempt, positive
        self.category = ranked.hit_class[positive]
        end_hit = np.append(ranked.first_hit[1:], len(ranked.at))
        self.starts = np.searchsorted(positive, ranked.first_hit)
        self.tp = np.searchsorted(positive, end_hit) - self.starts
        # (classes,) the false positives of all classes before this one, to be taken off.
        self.base = unmatched.before[ranked.starts] - exempt[ranked.first_hit]
        self.fp = unmatched.before[ranked.starts + ranked.counts] - exempt[end_hit] - self.base

    def at_positives(self) -> tuple[Longs, Longs]:
        """(true positives,) each: the true and the false positives from the top of the class down to it."""
        true = np.arange(1, len(self.positive) + 1) - self.starts[self.category]
        false = self.unmatched.before_hits[self.positive] - self.exempt[self.positive]
        return true, false - self.base[self.category]

    def down_to(self, ranked: Ranked, category: int, rows: Longs) -> tuple[Longs, Longs]:
        """Return (n,) true and false positives from the top of a class to just above ranked `rows`."""
        hits_before = np.searchsorted(ranked.at, rows)
        true = np.searchsorted(self.positive, hits_before) - self.starts[category]
        return true, self.unmatched.before[rows] - self.exempt[hits_before] - self.base[category]


def ranked_rows(matches: Matches) -> Longs:
    """Return the rows by descending score, then image, then input."""
    if matches.order is not None:
        return matches.order
    image, row = matches.image, matches.row
    if matches.protocol.detections_in == "reverse":
        ties_in_order = np.lexsort((row, -image))
        return ties_in_order[argsort_descending(matches.score[ties_in_order])]
    is_ascending = (image[1:] > image[:-1]) | ((image[1:] == image[:-1]) & (row[1:] > row[:-1]))
    if is_ascending.all():
        return argsort_descending(matches.score)
    # The sort by score is stable, so rows of one score stay in this order.
    ties_in_order = np.lexsort((row, image))
    return ties_in_order[argsort_descending(matches.score[ties_in_order])]


def pooled_rows(matches: Matches) -> Longs:
    """Return the rows of the classes with ground truth by descending score, then class, image and input."""
    rows = np.flatnonzero((matches.npos[:, 0] > 0)[matches.category])
    rows = rows[np.lexsort((matches.row[rows], matches.image[rows], matches.category[rows]))]
    return rows[argsort_descending(matches.score[rows])]


def rows_by_class(matches: Matches, order: Longs) -> tuple[Longs, Longs]:
    """Return the rows by class and descending score, and the number of rows of each class."""
    n_classes = len(matches.classes)
    rows = order[argsort_int(matches.category[order], max(n_classes, 1))]
    return rows, np.bincount(matches.category, minlength=n_classes)
