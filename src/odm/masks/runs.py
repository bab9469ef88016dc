"""Masks as runs of pixels, many at a time: their texts, areas, boxes and overlaps.

Pixels are numbered down the columns of the image: column x, row y is pixel ``x * height + y``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST_PIXELS = 2**32
"""Images of so many pixels are refused: a mask and a pixel share one whole number of 64 bits here."""
_TEXT_AT_A_TIME = 2**17
"""Bytes of text that are decoded together: as much as the processor's cache holds with its columns."""
_LONG_TEXT = 2**22
"""Bytes of the text of one mask from which on it is measured in parts."""
_EDGES_AT_A_TIME = 2**18
"""Edges that are looked up together."""
_MOST_GROUPS = 7
"""Groups of five bits of one number in a text: enough for a difference of two runs of `MOST_PIXELS`."""


class Measured(msgspec.Struct, frozen=True, eq=False):
    """Area, box and validity of n masks, without their pixels."""

    height: Longs
    """(n,) of their images."""
    total: Longs
    """(n,) the pixels of all their runs."""
    wrong: Mask
    """(n,) whether their text cannot be decoded; such a mask is empty."""
    area: Longs
    """(n,) pixels."""
    box: Longs
    """(n, 4) left, top, width and height of the pixels, zeros for none."""


class Runs(msgspec.Struct, frozen=True, eq=False):
    """n masks: the pixels ``edge[0]`` to ``edge[1] - 1``, ``edge[2]`` to ``edge[3] - 1``, ... of each.

    In an image of 3 rows and 2 columns, the mask of the pixels marked ``x`` is the edges 1, 3, 5, 6::

        0 .   3 .
        1 x   4 .
        2 x   5 x
    """

    first: Longs
    """(n + 1,) the edges of mask i are ``first[i]`` to ``first[i + 1]``, ascending and even in number."""
    edge: Longs

    def __len__(self) -> int:
        return len(self.first) - 1

    def take(self, rows: NDArray[Any]) -> Runs:
        """The masks at these row numbers."""
        n = self.first[rows + 1] - self.first[rows]
        at, _ = spread(self.first[rows], n)
        return Runs(offsets(n), self.edge[at])

    def merged(self, least: int) -> Runs:
        """Return one mask: the pixels that at least `least` of these masks cover."""
        # At each edge the number of masks that begin there, less those that end; summed from the first edge
        # on, that is the number of masks that cover the pixels from this edge to the next.
        pixel, pixel_of_edge = np.unique(self.edge, return_inverse=True)
        entered = np.bincount(pixel_of_edge[0::2], minlength=len(pixel)) - np.bincount(
            pixel_of_edge[1::2], minlength=len(pixel)
        )
        inside = np.cumsum(entered) >= least
        edge = pixel[inside != np.concatenate([[False], inside[:-1]])[: len(inside)]]
        return Runs(np.array([0, len(edge)]), edge)

    def between(self, begin: Longs, end: Longs) -> Runs:
        """Clip each mask to the pixels from `begin` to ``end - 1``, (n,) both."""
        owner = np.repeat(np.arange(len(self)), np.diff(self.first))
        # Both edges of a run outside become one pixel; `of_keys` leaves out such pairs.
        return Runs.of_keys((owner << 32) | np.clip(self.edge, begin[owner], end[owner]), len(self))

    def areas(self) -> Longs:
        """(n,) pixels."""
        return sums(self.edge[1::2] - self.edge[0::2], self.first // 2)

    def boxes(self, height: Longs) -> Longs:
        """(n, 4) left, top, width and height of the pixels, zeros for none; `height` of each image, (n,)."""
        n_runs = np.diff(self.first) // 2
        height_of_run = np.repeat(height.astype(np.float64), n_runs)
        if len(height_of_run) and (height == height[0]).all():
            # NumPy takes this as one number.
            height_of_run = np.broadcast_to(height_of_run[0], len(height_of_run))
        begin, end = self.edge[0::2], self.edge[1::2]
        # Floats divide many times as fast, and exactly enough below `MOST_PIXELS`.
        left = np.floor(begin / height_of_run)
        top = begin - left * height_of_run
        bottom = top + (end - begin)
        # A run that goes on in the next column touches the bottom of the one and the top of the other.
        long = np.flatnonzero(bottom > height_of_run)
        top[long], bottom[long] = 0, height_of_run[long]
        ltwh = np.zeros((len(n_runs), 4), np.int64)
        has_runs = n_runs > 0
        first_run = self.first[:-1][has_runs] // 2
        if len(first_run):
            x, y, last_run = (
                left[first_run],
                np.minimum.reduceat(top, first_run),
                first_run + n_runs[has_runs] - 1,
            )
            right = np.floor((end[last_run] - 1) / height_of_run[last_run])
            ltwh[has_runs] = np.stack(
                [x, y, right - x + 1, np.maximum.reduceat(bottom, first_run) - y], axis=1
            )
        return ltwh

    def counts(self, pixels: Longs) -> tuple[Longs, Longs]:
        """Return (n + 1,) where the run lengths of each mask begin, and the lengths, of pixels outside first.

        `pixels` is the size of each image, (n,).
        """
        n_edges = np.diff(self.first)
        ends_image = np.zeros(len(n_edges), bool)
        has_edges = n_edges > 0
        ends_image[has_edges] = self.edge[self.first[1:][has_edges] - 1] == pixels[has_edges]
        first = offsets(n_edges + ~ends_image)
        ends = np.empty(int(first[-1]), np.int64)
        positions, _ = spread(first[:-1], n_edges)
        ends[positions] = self.edge
        ends[first[1:][~ends_image] - 1] = pixels[~ends_image]
        before = np.concatenate([[0], ends[:-1]])[: len(ends)]
        before[first[:-1]] = 0
        return first, ends - before

    @classmethod
    def of_counts(cls, first: Longs, counts: Longs) -> Runs:
        """Make masks of run lengths as `counts` returns them; runs of length 0 vanish."""
        n = np.diff(first)
        ends = np.cumsum(counts)
        ends -= np.repeat(np.concatenate([[0], ends])[first[:-1]], n)
        # Every run ends with an edge, but for a last one outside the mask.
        keep = np.ones(len(ends), bool)
        keep[first[1:][(n & 1) == 1] - 1] = False
        empty = counts == 0
        empty[first[:-1][n > 0]] = False  # the first pixel belongs to the mask
        if not empty.any():
            return cls(offsets(n & ~1), ends[keep])
        key = (np.repeat(np.arange(len(n)), n)[keep] << 32) | ends[keep]
        return cls.of_keys(key, len(n))

    @classmethod
    def of_texts(cls, text: NDArray[np.uint8], first: Longs) -> Runs:
        """Masks of COCO's compressed texts, as `read_texts` takes them; empty where one cannot be decoded."""
        parts = []
        for s in pieces(np.diff(first), _TEXT_AT_A_TIME):
            begin = first[s.start : s.stop + 1]
            parts.append(cls.of_counts(*read_texts(text[begin[0] : begin[-1]], begin - begin[0])[:2]))
        none = np.zeros(0, np.int64)
        n = np.concatenate([none, *(np.diff(part.first) for part in parts)])
        return cls(offsets(n), np.concatenate([none, *(part.edge for part in parts)]))

    @classmethod
    def of_keys(cls, key: Longs, n: int) -> Runs:
        """Make masks of ascending edges, each ``mask << 32 | pixel``. Two edges at one pixel cancel."""
        if len(key) and (key[1:] == key[:-1]).any():
            begin = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
            n_equal = np.diff(np.append(begin, len(key)))
            key = key[begin[n_equal & 1 == 1]]
        return cls(np.searchsorted(key >> 32, np.arange(n + 1)), key & 0xFFFFFFFF)

    def union(self) -> Runs:
        """Join all masks into one that has the pixels of any of them."""
        order = np.argsort(self.edge, kind="stable")
        step = np.where(order % 2 == 0, 1, -1)  # a mask has an even number of edges
        inside = np.cumsum(step)
        # Where a run ends at the pixel at which another begins, the two edges cancel.
        return Runs.of_keys(self.edge[order][(inside == 0) | (inside == step)], 1)


def spread(first: Longs, n: Longs) -> tuple[Longs, Longs]:
    """Return all positions of ranges one after the other, and the range number of each.

    Range i is the ``n[i]`` positions from ``first[i]`` on.
    """
    # first = [5, 2], n = [2, 3]:  arange                   0 1 | 2 3 4
    #                              first - start of group   5 5 | 0 0 0
    #                              sum                      5 6 | 2 3 4     group = 0 0 | 1 1 1
    group = np.repeat(np.arange(len(n)), n)
    at = np.arange(len(group))
    at += np.repeat(first - (np.cumsum(n) - n), n)
    return at, group


def offsets(n: Longs) -> Longs:
    """Return (n + 1,) where each of consecutive groups of these sizes begins, and the end of the last."""
    return np.concatenate([[0], np.cumsum(n)]).astype(np.int64)


def sums(items: ArrayLike, first: Longs) -> NDArray[Any]:
    """(n,) sums of consecutive groups of `items`.

    Group i is ``items[first[i]:first[i + 1]]`` and may be empty.
    """
    # items = [3, 1, 4, 1, 5], first = [0, 2, 2, 5]:  running sums  0 3 4 8 9 14,  at `first`  0 4 4 14
    #                                                 differences   4 0 10  (`reduceat` would not give the 0)
    return np.diff(np.concatenate([[0], np.cumsum(items)])[first])


def pieces(sizes: Longs, most: int) -> list[slice]:
    """Divide rows into consecutive slices whose sizes add up to at most `most`, or that hold a single row."""
    ends = np.cumsum(sizes)
    slices, start = [], 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + most, side="right")), start + 1)
        slices.append(slice(start, stop))
        start = stop
    return slices


def read_texts(text: NDArray[np.uint8], first: Longs) -> tuple[Longs, Longs, Mask]:
    """Run lengths of COCO's compressed texts.

    Parameters
    ----------
    text, first
        The text of mask i is ``text[first[i]:first[i + 1]]``.

    Returns
    -------
    first, counts, wrong
        (n + 1,) where the lengths of each mask begin, the lengths, and (n,) which texts cannot be decoded;
        those have no lengths.
    """
    parts = [_read_part(text[first[s.start] : first[s.stop]], np.diff(first[s.start : s.stop + 1]))
             for s in pieces(np.diff(first), _TEXT_AT_A_TIME)]  # fmt: skip
    none = np.zeros(0, np.int64)
    n, counts, wrong = (np.concatenate(c) for c in zip((none, none, none > 0), *parts, strict=True))
    return offsets(n), counts, wrong


def _read_part(text: NDArray[np.uint8], size: Longs) -> tuple[Longs, Longs, Mask]:
    """Decode texts: (n,) the number of lengths of each mask, the lengths, and (n,) which texts are wrong."""
    group = text - np.uint8(48)  # what is below 48 becomes large
    ends = np.cumsum(size)
    has_text = size > 0
    wrong = np.zeros(len(size), bool)
    wrong[has_text] = group[ends[has_text] - 1] >= 32  # the text ends within a number
    last = np.flatnonzero(group < 32)  # the last group of each number
    groups = np.diff(last, prepend=-1)
    if not wrong.any():  # else the number goes on in the next text
        faults = [np.flatnonzero(group > 63), last[groups > _MOST_GROUPS]]
        wrong[np.searchsorted(ends, np.concatenate(faults), side="right")] = True
    if wrong.any():
        n, counts, others = _read_part(text[np.repeat(~wrong, size)], np.where(wrong, 0, size))
        return n, counts, wrong | others
    # Half as wide numbers take less time; so long as their sum fits, so do all running sums.
    largest_sum = sum(
        int(np.count_nonzero(groups > k)) << 5 * k + 4 for k in range(int(groups.max(initial=0)))
    )
    # The last group has the sign in its highest bit; the lower bits come in the groups before it.
    value: NDArray[Any] = (group[last] ^ 16).astype(np.int32 if largest_sum < 2**31 else np.int64) - 16
    unfinished = np.flatnonzero(groups > 1)
    for back in range(1, _MOST_GROUPS):
        value[unfinished] = (value[unfinished] << 5) | (group[last[unfinished] - back] & 31)
        unfinished = unfinished[groups[unfinished] > back + 1]
    length_starts = np.searchsorted(last, np.concatenate([[0], ends]))
    n = np.diff(length_starts)
    # From the fourth on, a number is the difference to the one two before it. The first three are lengths.
    # Running sums over every other number of the whole text, less what they hold at each mask's first number:
    #   lengths       6   1  40   4   5
    #   numbers       6   1  40   3 -35     (4 - 1, 5 - 40)
    #   running sums  6   1  46   4  11     of the places 0, 2, 4 and of 1, 3
    #   less the 6    6   1  40   4   5     at the places 2 and 4
    total = np.empty_like(value)
    for odd in (0, 1):
        np.cumsum(value[odd::2], dtype=value.dtype, out=total[odd::2])
    begin, n_of_texts = length_starts[:-1][n > 0], n[n > 0]
    base, other = total[begin], total[begin - 1]
    other[begin == 0] = 0
    for odd in (0, 1):
        n_odd = (begin + n_of_texts + 1 - odd) // 2 - (begin + 1 - odd) // 2
        total[odd::2] -= np.repeat(np.where(begin & 1 == odd, base, other), n_odd)
    total[begin] = value[begin]
    return n, total, wrong


def write_texts(first: Longs, counts: Longs) -> tuple[NDArray[np.uint8], Longs]:
    """COCO's compressed texts of run lengths: the bytes, and (n + 1,) where each begins."""
    n = np.diff(first)
    value = counts.copy()
    later = np.flatnonzero(np.arange(len(counts)) - np.repeat(first[:-1], n) > 2)
    value[later] -= counts[later - 2]
    text, begin = _write_numbers(value)
    return text, begin[first]


def write_long_text(parts: Iterable[Runs], pixels: int) -> NDArray[np.uint8]:
    """COCO's compressed text of one mask whose runs come in parts; `pixels` of its image."""
    texts, ends, edge = [], np.zeros(1, np.int64), np.zeros(0, np.int64)
    for part in itertools.chain(parts, [None]):
        if part is None:
            edge = edge if len(edge) and edge[-1] == pixels else np.append(edge, pixels)
        elif len(edge) and len(part.edge) and edge[-1] == part.edge[0]:  # one run through both parts
            edge = np.concatenate([edge[:-1], part.edge[1:]])
        else:
            edge = np.concatenate([edge, part.edge])
        n = len(edge) - (part is not None)  # the last may go on in the next part
        if n > 0:
            counts = np.diff(np.concatenate([ends, edge[:n]]))
            value = counts.copy()
            value[3:] -= counts[1:-2]
            texts.append(_write_numbers(value[-n:])[0])
            # Three lengths are kept: where there are so many before, a number is a difference.
            ends, edge = np.concatenate([ends, edge[:n]])[-4:], edge[n:]
    return np.concatenate(texts)


def _write_numbers(value: Longs) -> tuple[NDArray[np.uint8], Longs]:
    """Write numbers as COCO's texts do; returns the bytes, and (n + 1,) where each number begins."""
    # Groups of five bits, the lowest first, as 48 + group, and 32 more if another group follows:
    #   100 = 00011 00100   ->   48 + 32 + 4, 48 + 3   =   b"T3"
    groups = np.ones(len(value), np.int64)
    for k in range(_MOST_GROUPS):
        groups += (value >= 16 << 5 * k) | (value < -(16 << 5 * k))
    begin = offsets(groups)
    text = np.empty(int(begin[-1]), np.uint8)
    for k in range(int(groups.max(initial=0))):
        rows = np.flatnonzero(groups > k)
        text[begin[rows] + k] = ((value[rows] >> 5 * k) & 31) + np.where(groups[rows] > k + 1, 80, 48)
    return text, begin


def measure(text: NDArray[np.uint8], first: Longs, height: Longs) -> Measured:
    """Measure masks without keeping their pixels.

    The text of mask i is ``text[first[i]:first[i + 1]]``, `height` is (n,).
    """
    n = len(height)
    total, area, wrong = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, bool)
    box = np.zeros((n, 4), np.int64)
    for rows in pieces(np.diff(first), _TEXT_AT_A_TIME):
        of_rows = first[rows.start : rows.stop + 1]
        if of_rows[-1] - of_rows[0] > _LONG_TEXT:
            long_mask = _measure_long(text[of_rows[0] : of_rows[-1]], np.maximum(height[rows], 1))
            total[rows], wrong[rows], area[rows], box[rows] = (
                long_mask.total,
                long_mask.wrong,
                long_mask.area,
                long_mask.box,
            )
            continue
        begin, counts, bad = read_texts(text[of_rows[0] : of_rows[-1]], of_rows - of_rows[0])
        total[rows] = sums(counts, begin)
        wrong[rows] = bad
        if (counts < 0).any():
            wrong[rows] |= sums(counts < 0, begin) > 0
        fits = ~wrong[rows] & (total[rows] < MOST_PIXELS)
        if not fits.all():
            counts, begin = counts[np.repeat(fits, np.diff(begin))], offsets(np.diff(begin) * fits)
        runs = Runs.of_counts(begin, counts)
        area[rows], box[rows] = runs.areas(), runs.boxes(np.maximum(height[rows], 1))
    return Measured(height, total, wrong, area, box)


def _measure_long(text: NDArray[np.uint8], height: Longs) -> Measured:
    """Measure one mask whose runs would take too much memory; `height` of its image, (1,)."""
    start, total, area, last = 0, 0, 0, np.zeros(2, np.int64)
    box, none = np.array([[2**32, 2**32, 0, 0]]), np.zeros((1, 4), np.int64)  # the edges around all
    while start < len(text):
        stop = min(start + _LONG_TEXT, len(text))
        if stop < len(text):  # after an even number of lengths, where no run goes on
            ends = np.flatnonzero(text[start:stop] - np.uint8(48) < 32)
            stop = start + int(ends[len(ends) // 2 * 2 - 1]) + 1 if len(ends) > 1 else start
        n, counts, bad = _read_part(text[start:stop], np.array([stop - start]))
        counts = counts.astype(np.int64)
        if start and not bad[0] and stop > start:  # the first lengths are differences as well
            counts[0] += last[0]
            counts[1::2] += last[1]
            counts[2::2] += counts[0]
        if bad[0] or stop == start or (counts < 0).any():
            return Measured(height, np.array([0]), np.array([True]), np.array([0]), none)
        if total + int(counts.sum()) < MOST_PIXELS:
            runs = Runs.of_counts(np.array([0, n[0]]), counts)
            runs = Runs(runs.first, runs.edge + total)
            area += int(runs.areas()[0])
            around = runs.boxes(height)
            if len(runs.edge):
                box[:, :2] = np.minimum(box[:, :2], around[:, :2])
                box[:, 2:] = np.maximum(box[:, 2:], around[:, :2] + around[:, 2:])
        total, start, last = total + int(counts.sum()), stop, counts[-2:]
    box[:, 2:] -= box[:, :2]
    fits = area > 0 and total < MOST_PIXELS
    area = area if fits else 0
    return Measured(height, np.array([total]), np.array([False]), np.array([area]), box if fits else none)


def shared(a: Runs, rows_a: Longs, b: Runs, rows_b: Longs) -> Longs:
    """(n,) pixels that mask ``rows_a[i]`` of `a` and mask ``rows_b[i]`` of `b` have in common."""
    n_edges = np.diff(a.first)[rows_a]
    if n_edges.sum() > np.diff(b.first)[rows_b].sum():  # those with fewer edges are looked up
        return shared(b, rows_b, a, rows_a)
    areas = np.zeros(len(rows_a), np.int64)
    key = (np.repeat(np.arange(len(b)), np.diff(b.first)) << 32) | b.edge
    inside = np.zeros(len(b.edge) + 1, np.int64)  # pixels of all masks before each edge
    inside[2::2] = np.cumsum(b.edge[1::2] - b.edge[0::2])
    inside[1::2] = inside[0:-1:2] - b.edge[0::2]  # and the pixels from the beginning of the run on
    for rows in pieces(n_edges, _EDGES_AT_A_TIME):
        at, pair = spread(a.first[rows_a[rows]], n_edges[rows])
        pixel = a.edge[at]
        # Pixels of the other mask before each edge of ours: what lies between two edges is shared.
        edges_before = np.searchsorted(key, (rows_b[rows] << 32)[pair] | pixel, side="right")
        before = inside[edges_before] + (edges_before & 1) * pixel
        areas[rows] = sums(before[1::2] - before[0::2], offsets(n_edges[rows] // 2))
    return areas
