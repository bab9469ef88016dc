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
    # these are sorted again.
    bits = np.int64(len(score).bit_length())
    leading = (0.0 - score).view(np.int64)  # which is never -0.0
    leading ^= (leading >> 63) & np.iinfo(np.int64).max  # negative floats are ordered the other way round
    leading >>= bits
    order = leading << bits
    order |= np.arange(len(score))
    order.sort()
    order &= (np.int64(1) << bits) - 1
    ranked = score[order]
    wrong = np.flatnonzero(ranked[1:] > ranked[:-1])
    if len(wrong):
        leading = leading[order]
        run = np.concatenate([[0], np.cumsum(leading[1:] != leading[:-1])])
        is_wrong = np.zeros(len(run), np.bool_)
        is_wrong[run[wrong]] = True
        alike = np.flatnonzero(is_wrong[run])
        tied_rows = order[alike]
        order[alike] = tied_rows[np.lexsort((tied_rows, -score[tied_rows]))]
    return order


def argsort_int(number: NDArray[Any], limit: int) -> Longs:
    """(n,) positions by ascending `number`, which is in 0..limit-1; equal ones in their order."""
    if limit <= 2**16:  # which NumPy sorts by their digits
        return np.argsort(number.astype(np.uint16), kind="stable")
    bits = len(number).bit_length()
    if limit.bit_length() + bits > 63:
        return np.argsort(number, kind="stable")
    order = number.astype(np.int64) << bits  # number and position in one, as above
    order |= np.arange(len(number))
    order.sort()
    order &= (1 << bits) - 1
    return order


def first_of_runs(*columns: NDArray[Any]) -> Longs:
    """Return the first row of each run of rows that are equal in all `columns`, each (n,)."""
    new = np.ones(len(columns[0]), np.bool_)
    if len(new):
        np.logical_or.reduce([column[1:] != column[:-1] for column in columns], out=new[1:])
    return np.flatnonzero(new)


def rank_in_runs(first: Longs, n: int) -> Longs:
    """(n,) 0, 1, 2, ... in each of the runs that begin at `first` and fill n rows."""
    # first = [0, 3, 5], n = 6:  arange 0 1 2 3 4 5  minus  repeat(first) 0 0 0 3 3 5  =  0 1 2 0 1 0
    return np.arange(n) - np.repeat(first, np.diff(first, append=n))


def best_of_each(owner: NDArray[Any], value: Floats, *, last: bool = False) -> Longs:
    """Return the position of the highest value of each owner, the first (or `last`) of equal values.

    `owner` and `value` are (n,); entries of one owner are neighbours.
    """
    if not len(owner):
        return np.zeros(0, np.int64)
    first = first_of_runs(owner)
    if len(first) == len(owner):
        return first
    best = np.maximum.reduceat(value, first)  # one value for each run of equal owners
    equal = np.flatnonzero(value == np.repeat(best, np.diff(first, append=len(owner))))
    first = first_of_runs(owner[equal])
    return equal[np.append(first[1:], len(equal)) - 1] if last else equal[first]


ROUNDS = 8
"""Rounds in which pairs are taken at once; long chains, where each pair waits for another, go one by one."""

AT_ONCE = 2**16


def one_to_one(det: Ints, gt: Ints) -> Longs:
    """Match one to one: from the first pair on, each takes its detection and ground truth if both are free.

    Returns the positions of the pairs that are taken, ascending. In a round, all pairs are taken that are the
    first of those left for both of their ends; this gives the same pairs as one after the other.
    """
    left = np.arange(len(det))
    taken = [left[:0]]
    n_det, n_gt = int(det.max(initial=-1)) + 1, int(gt.max(initial=-1)) + 1
    for _ in range(ROUNDS if len(left) else 0):
        d, g = det[left], gt[left]
        first_of_d, first_of_g = first_index_of(d, n_det)[d], first_index_of(g, n_gt)[g]
        is_first = (first_of_d == np.arange(len(left))) & (first_of_g == np.arange(len(left)))
        taken.append(left[is_first])
        # The pairs of an end go if the first pair of that end was taken.
        left = left[~(is_first[first_of_d] | is_first[first_of_g])]
    used: tuple[set[int], set[int]] = set(), set()
    for start in range(0, len(left), AT_ONCE):
        some, chain = left[start : start + AT_ONCE], []
        for at, d, g in zip(some.tolist(), det[some].tolist(), gt[some].tolist(), strict=True):
            if d not in used[0] and g not in used[1]:
                used[0].add(d)
                used[1].add(g)
                chain.append(at)
        taken.append(np.array(chain, np.int64))
    return np.sort(np.concatenate(taken))
