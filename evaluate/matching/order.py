"""Sort boxes by score or group, find runs of equal neighbours, and match pairs one to one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.tables import Floats, Ints, Longs, first_index_of


def argsort_descending(score: Floats) -> Longs:
    """(n,) positions by descending score, equal scores in their order.

    NumPy sorts integers several times faster than it finds the order of floats.
    """
    # One int64 per detection: [high bits of -score as an integer | position, `bits` wide]. Bit patterns of
    # positive floats rise with their value and those of negative ones fall, hence the XOR. A plain sort of
    # these integers is a stable sort by score, except between scores that differ only in the dropped bits:
    # every run of equal high bits in which a score rises is sorted again.
    bits = np.int64(len(score).bit_length())
    high_bits = (0.0 - score).view(np.int64)  # which is never -0.0
    high_bits ^= (high_bits >> 63) & np.iinfo(np.int64).max  # negative floats are ordered the other way round
    high_bits >>= bits
    order = high_bits << bits
    order |= np.arange(len(score))
    order.sort()
    order &= (np.int64(1) << bits) - 1
    ranked = score[order]
    inversions = np.flatnonzero(ranked[1:] > ranked[:-1])
    if len(inversions):
        high_bits = high_bits[order]
        run_of_position = np.concatenate([[0], np.cumsum(high_bits[1:] != high_bits[:-1])])
        is_mixed_run = np.zeros(len(run_of_position), np.bool_)
        is_mixed_run[run_of_position[inversions]] = True
        tied_positions = np.flatnonzero(is_mixed_run[run_of_position])
        tied_rows = order[tied_positions]
        order[tied_positions] = tied_rows[np.lexsort((tied_rows, -score[tied_rows]))]
    return order


def argsort_int(values: NDArray[Any], limit: int) -> Longs:
    """(n,) positions by ascending `values` (n,), integers in 0..limit-1; equal ones in their order."""
    if limit <= 2**16:  # NumPy sorts numbers of 16 bits digit by digit, without comparing them
        return np.argsort(values.astype(np.uint16), kind="stable")
    bits = len(values).bit_length()
    if limit.bit_length() + bits > 63:  # value and position do not fit into one number
        return np.argsort(values, kind="stable")
    order = values.astype(np.int64) << bits  # else they are sorted as one, as in `argsort_descending`
    order |= np.arange(len(values))
    order.sort()
    order &= (1 << bits) - 1
    return order


def first_of_runs(*columns: NDArray[Any]) -> Longs:
    """Return the first row of each run of rows that are equal in all `columns`, each (n,)."""
    is_first = np.ones(len(columns[0]), np.bool_)
    if len(is_first):
        np.logical_or.reduce([column[1:] != column[:-1] for column in columns], out=is_first[1:])
    return np.flatnonzero(is_first)


def rank_in_runs(starts: Longs, n_rows: int) -> Longs:
    """(n_rows,) 0, 1, 2, ... in each of the runs that begin at the rows `starts` and fill `n_rows` rows."""
    # starts = [0, 3, 5], n_rows = 6:  arange 0 1 2 3 4 5  minus  repeat(starts) 0 0 0 3 3 5  =  0 1 2 0 1 0
    return np.arange(n_rows) - np.repeat(starts, np.diff(starts, append=n_rows))


def best_of_each(owner: NDArray[Any], value: Floats, *, last: bool = False) -> Longs:
    """Return the position of the highest value of each owner, the first (or `last`) of equal values.

    `owner` and `value` are (n,); entries of one owner are neighbours.
    """
    if not len(owner):
        return np.zeros(0, np.int64)
    starts = first_of_runs(owner)
    if len(starts) == len(owner):
        return starts
    best = np.maximum.reduceat(value, starts)  # one value for each run of equal owners
    best_positions = np.flatnonzero(value == np.repeat(best, np.diff(starts, append=len(owner))))
    starts = first_of_runs(owner[best_positions])
    ends = np.append(starts[1:], len(best_positions))
    return best_positions[ends - 1 if last else starts]


ROUNDS = 8
"""Rounds in which pairs are taken at once; long chains, where each pair waits for another, go one by one."""

AT_ONCE = 2**16
"""Pairs that are turned into Python numbers at a time."""


def match_one_to_one(det: Ints, gt: Ints) -> Longs:
    """Match one to one: from the first pair on, each takes its detection and ground truth if both are free.

    `det` and `gt`, each (pairs,), are the two ends of each pair, by preference. Returns the positions of the
    pairs that are taken, (m,), ascending.
    """
    # A round takes every pair that is the first open pair of both of its ends, which gives the same pairs as
    # one after the other. det 0 0 1, gt 0 1 1: round 1 takes pair 0 and drops pair 1; round 2 takes pair 2.
    open_pairs = np.arange(len(det))
    taken_pairs = [open_pairs[:0]]
    n_det, n_gt = int(det.max(initial=-1)) + 1, int(gt.max(initial=-1)) + 1
    for _ in range(ROUNDS if len(open_pairs) else 0):
        det_number, gt_number = det[open_pairs], gt[open_pairs]
        first_of_d = first_index_of(det_number, n_det)[det_number]
        first_of_g = first_index_of(gt_number, n_gt)[gt_number]
        is_first = (first_of_d == np.arange(len(open_pairs))) & (first_of_g == np.arange(len(open_pairs)))
        taken_pairs.append(open_pairs[is_first])
        # The pairs of an end go if the first pair of that end was taken.
        open_pairs = open_pairs[~(is_first[first_of_d] | is_first[first_of_g])]

    # What is left after the rounds, one pair after the other.
    used_det, used_gt = set[int](), set[int]()
    for start in range(0, len(open_pairs), AT_ONCE):
        chunk, chunk_taken = open_pairs[start : start + AT_ONCE], []
        for position, det_number, gt_number in zip(
            chunk.tolist(), det[chunk].tolist(), gt[chunk].tolist(), strict=True
        ):
            if det_number not in used_det and gt_number not in used_gt:
                used_det.add(det_number)
                used_gt.add(gt_number)
                chunk_taken.append(position)
        taken_pairs.append(np.array(chunk_taken, np.int64))
    return np.sort(np.concatenate(taken_pairs))
