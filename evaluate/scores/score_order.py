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
from odm.masks.runs import offsets, split_by_size
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
    """Detections of consecutive classes, by class and descending score, and the hits among them.

    A hit is a detection that matched something under some threshold and area range. ``rows`` (n,) are rows of
    the matches; ``starts`` and ``counts`` (classes,) say which of them belong to a class. ``hit_positions``
    (hits,) are the positions of the hits in ``rows``, ``hit_numbers`` their numbers in the matches, and
    ``hit_starts`` (classes,) the first hit of each class. ``positive_bits`` and ``matched_bits``, (hits,
    words), have a bit for each threshold and area range, see `odm.evaluate.matching.matches`.
    """

    def __init__(
        self,
        first_class: int,
        rows: Longs,
        counts: Longs,
        hit_positions: Longs,
        hit_numbers: Longs,
        matches: Matches,
        weights: Weights | None = None,
    ) -> None:
        """Make the ranking; the arrays are described at the class.

        `first_class` is the number of its first class in the matches.
        """
        self.first_class = first_class
        self.rows, self.counts = rows, counts
        self.hit_positions, self.hit_numbers = hit_positions, hit_numbers
        self.weights = weights
        self.n_classes = len(counts)
        self.n_detections = counts if weights is None else weights.n.sum(keepdims=True)  # of one class
        """(classes,) how many detections there are."""
        self.starts = np.cumsum(counts) - counts
        self.hit_starts = np.searchsorted(hit_positions, self.starts)
        # Classes whose hits begin at 0 and 3, of 5 hits: 0 0 0 1 1.
        self.hit_class = np.repeat(
            np.arange(len(counts)), np.diff(np.append(self.hit_starts, len(hit_positions)))
        )
        self.positive_bits = matches.positive[hit_numbers]
        self.matched_bits = self.positive_bits | matches.ignored[hit_numbers]
        self.fp_if_unmatched = None if matches.fp_if_unmatched is None else matches.fp_if_unmatched[rows]

    @classmethod
    def iter_blocks(
        cls,
        matches: Matches,
        rows: Longs,
        counts: Longs,
        hits_per_block: int = 2**62,
        weights: Weights | None = None,
    ) -> Iterator[Ranked]:
        """Yield the rankings of consecutive classes with about `hits_per_block` hits each; by default all.

        `rows` and `counts` are as `group_rows_by_class` returns them; `weights` only with a single class.
        """
        # The position in the ranking of each hit, and its number in the matches.
        hit_of_row = np.full(len(matches.score), -1, np.int32)
        hit_of_row[matches.hit] = np.arange(len(matches.hit), dtype=np.int32)
        hit_of_rank = hit_of_row[rows]
        hit_positions = np.flatnonzero(hit_of_rank >= 0)
        hit_numbers = hit_of_rank[hit_positions].astype(np.int64)
        # A block is at least one class, and as many more as have `hits_per_block` hits together.
        row_bounds = offsets(counts)
        hit_bounds = np.searchsorted(hit_positions, row_bounds)
        for classes in split_by_size(np.diff(hit_bounds), hits_per_block):
            start_row, end_row = row_bounds[[classes.start, classes.stop]].tolist()
            hits = slice(*hit_bounds[[classes.start, classes.stop]].tolist())
            columns = (
                rows[start_row:end_row],
                counts[classes],
                hit_positions[hits] - start_row,
                hit_numbers[hits],
            )
            yield cls(classes.start, *columns, matches, weights)

    def count_unmatched(self, area: int) -> _Unmatched:
        """Count the detections that would be false positives in an area range if they matched nothing."""
        # Running sums that begin with 0: how many lie between two positions is the difference of their sums.
        #   ranked rows  TP - TP -     `n_before_row`  0 1 2 3 4
        n_before_row: Counts = np.zeros(len(self.rows) + 1, np.int32 if self.weights is None else np.int64)
        if self.weights is not None:
            n_false: NDArray[Any] = self.weights.false_in(area)
        elif self.fp_if_unmatched is not None:
            n_false = self.fp_if_unmatched & AreaBits(1 << area) != 0
        else:
            n_false = np.ones(len(self.rows), np.bool_)  # one detection for each row
        np.cumsum(n_false, out=n_before_row[1:])
        return _Unmatched(n_before_row, n_before_row[self.hit_positions], n_false[self.hit_positions] > 0)

    def count(self, word: int, bit: np.uint64, unmatched: _Unmatched) -> Counted:
        """Count true and false positives under one threshold and area range.

        `word` and `bit` are their place in the bits of a hit, see `bits_of_area`; `unmatched` is what
        `count_unmatched` returned for the area range.
        """
        # Comparing first is far quicker than `flatnonzero` of integers.
        positive_hits = np.flatnonzero(self.positive_bits[:, word] & bit != 0)
        # Before each hit, the hits that `n_before_row` counts although they matched something.
        #   ranked rows  TP - TP -     FP before the second TP: n_before_row[2] - n_exempt[1] = 2 - 1 = 1
        n_exempt = np.zeros(len(self.hit_positions) + 1, np.int32)
        np.cumsum((self.matched_bits[:, word] & bit != 0) & unmatched.is_fp, out=n_exempt[1:])
        return Counted(self, unmatched, n_exempt, positive_hits)

    def count_at_reference(self, rules: Protocol) -> Counted:
        """Count under the protocol's reference threshold and first area range."""
        word, bit = bits_of_area(rules)[rules.reference]
        return self.count(word, bit, self.count_unmatched(0))


class _Unmatched(msgspec.Struct, frozen=True, eq=False):
    """The detections that would be false positives if they matched nothing."""

    n_before_row: Counts
    """(n + 1,) how many of them are before each row."""
    n_before_hit: Counts
    """(hits,) how many of them are before each hit."""
    is_fp: Mask
    """(hits,) whether the hit would be a false positive."""


class Counted:
    """The true positives under one threshold and area range, and the false positives down to any rank.

    ``positive_hits`` (true positives,) are their numbers among the hits, ``category`` the class of each;
    ``n_exempt`` (hits + 1,) how many hits before each would be false positives if they had not matched.
    ``starts``, ``tp`` and ``fp`` (classes,) are the first true positive of each class, and its counts.
    """

    def __init__(self, ranked: Ranked, unmatched: _Unmatched, n_exempt: Counts, positive_hits: Longs) -> None:
        """Count the true positives of each class, given their numbers among the hits of `ranked`."""
        self.unmatched, self.n_exempt, self.positive_hits = unmatched, n_exempt, positive_hits
        self.category = ranked.hit_class[positive_hits]
        hit_ends = np.append(ranked.hit_starts[1:], len(ranked.hit_positions))
        self.starts = np.searchsorted(positive_hits, ranked.hit_starts)
        self.tp = np.searchsorted(positive_hits, hit_ends) - self.starts
        # (classes,) the false positives of all classes before this one, to be taken off.
        self.fp_before_class = unmatched.n_before_row[ranked.starts] - n_exempt[ranked.hit_starts]
        self.fp = (
            unmatched.n_before_row[ranked.starts + ranked.counts] - n_exempt[hit_ends] - self.fp_before_class
        )

    def at_positives(self) -> tuple[Longs, Longs]:
        """(true positives,) each: the true and the false positives from the top of the class down to it."""
        n_true = np.arange(1, len(self.positive_hits) + 1) - self.starts[self.category]
        n_false = self.unmatched.n_before_hit[self.positive_hits] - self.n_exempt[self.positive_hits]
        return n_true, n_false - self.fp_before_class[self.category]

    def count_down_to(self, ranked: Ranked, category: int, rows: Longs) -> tuple[Longs, Longs]:
        """Return (n,) true and false positives from the top of a class to just above `rows`.

        `rows` (n,) are positions in the ranking `ranked`, `category` is the number of a class in it.
        """
        hits_before = np.searchsorted(ranked.hit_positions, rows)
        n_true = np.searchsorted(self.positive_hits, hits_before) - self.starts[category]
        n_false = self.unmatched.n_before_row[rows] - self.n_exempt[hits_before]
        return n_true, n_false - self.fp_before_class[category]


def rank_rows(matches: Matches) -> Longs:
    """Return the rows by descending score, then image, then input.

    If detections are in ``reverse``, of equal scores those of the last image come first. `Matches.order` is
    returned if it is known.
    """
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


def rank_pooled(matches: Matches) -> Longs:
    """Return the rows of the classes with ground truth by descending score, then class, image and input."""
    rows = np.flatnonzero((matches.npos[:, 0] > 0)[matches.category])
    rows = rows[np.lexsort((matches.row[rows], matches.image[rows], matches.category[rows]))]
    return rows[argsort_descending(matches.score[rows])]


def group_rows_by_class(matches: Matches, order: Longs) -> tuple[Longs, Longs]:
    """Return the rows by class and descending score, and the number of rows of each class."""
    n_classes = len(matches.classes)
    rows = order[argsort_int(matches.category[order], max(n_classes, 1))]
    return rows, np.bincount(matches.category, minlength=n_classes)
