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
"""Edges that `count_shared_pixels` looks up together."""
_MOST_GROUPS = 7
"""Groups of five bits of one number in a text: enough for a difference of two runs of `MOST_PIXELS`."""


class Measured(msgspec.Struct, frozen=True, eq=False):
    """Area, box and validity of n masks, as `measure` returns them."""

    height: Longs
    """(n,) of their images."""
    n_run_pixels: Longs
    """(n,) the pixels of all their runs, inside and outside: height * width of the image in a right mask."""
    is_wrong: Mask
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

    starts: Longs
    """(n + 1,) the edges of mask i are ``starts[i]`` to ``starts[i + 1]``, ascending and even in number."""
    edge: Longs
    """The edges of all masks, one mask after the other."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, rows: NDArray[Any]) -> Runs:
        """Return the masks at these row numbers."""
        n = self.starts[rows + 1] - self.starts[rows]
        edge_rows, _ = expand_ranges(self.starts[rows], n)
        return Runs(offsets(n), self.edge[edge_rows])

    def merge(self, n_masks_min: int) -> Runs:
        """Merge all masks into one: the pixels that at least `n_masks_min` of them cover."""
        # At each edge the number of masks that begin there, less those that end; summed from the first edge
        # on, that is the number of masks that cover the pixels from this edge to the next.
        pixel, pixel_of_edge = np.unique(self.edge, return_inverse=True)
        entered = np.bincount(pixel_of_edge[0::2], minlength=len(pixel)) - np.bincount(
            pixel_of_edge[1::2], minlength=len(pixel)
        )
        inside = np.cumsum(entered) >= n_masks_min
        # Where it changes; before the first edge all is outside. (The cut at the end is for no edges at all.)
        edge = pixel[inside != np.concatenate([[False], inside[:-1]])[: len(inside)]]
        return Runs(np.array([0, len(edge)]), edge)

    def clip_pixels(self, start: Longs, stop: Longs) -> Runs:
        """Clip mask i to the pixels ``start[i]`` to ``stop[i] - 1``."""
        owner = np.repeat(np.arange(len(self)), np.diff(self.starts))
        # Both edges of a run outside become one pixel; `of_keys` leaves out such pairs.
        return Runs.of_keys((owner << 32) | np.clip(self.edge, start[owner], stop[owner]), len(self))

    def areas(self) -> Longs:
        """(n,) how many pixels each mask has."""
        return sum_groups(self.edge[1::2] - self.edge[0::2], self.starts // 2)

    def boxes(self, height: Longs) -> Longs:
        """(n, 4) left, top, width and height of the pixels, zeros for none; `height` of each image, (n,)."""
        n_runs = np.diff(self.starts) // 2
        height_of_run = np.repeat(height.astype(np.float64), n_runs)
        if len(height_of_run) and (height == height[0]).all():  # one number takes the place of many
            height_of_run = np.broadcast_to(height_of_run[0], len(height_of_run))
        run_start, run_stop = self.edge[0::2], self.edge[1::2]
        # Floats divide many times as fast, and exactly enough below `MOST_PIXELS`.
        left = np.floor(run_start / height_of_run)
        top = run_start - left * height_of_run
        bottom = top + (run_stop - run_start)
        # A run that goes on in the next column touches the bottom of the one and the top of the other.
        wrapped_runs = np.flatnonzero(bottom > height_of_run)
        top[wrapped_runs], bottom[wrapped_runs] = 0, height_of_run[wrapped_runs]
        ltwh = np.zeros((len(n_runs), 4), np.int64)
        has_runs = n_runs > 0
        first_runs = self.starts[:-1][has_runs] // 2
        if len(first_runs):
            x, y, last_runs = (
                left[first_runs],
                np.minimum.reduceat(top, first_runs),
                first_runs + n_runs[has_runs] - 1,
            )
            right = np.floor((run_stop[last_runs] - 1) / height_of_run[last_runs])
            ltwh[has_runs] = np.stack(
                [x, y, right - x + 1, np.maximum.reduceat(bottom, first_runs) - y], axis=1
            )
        return ltwh

    def counts(self, pixels: Longs) -> tuple[Longs, Longs]:
        """Return (n + 1,) where the run lengths of each mask begin, and the lengths of all masks.

        Runs are outside and inside by turns, the first one outside. `pixels` is height * width of each image,
        (n,).
        """
        # edges 1 3 5 6 of 8 pixels -> ends of the runs 1 3 5 6 8 -> lengths 1 2 2 1 2
        # Unless a mask's last edge is the end of the image, a run outside follows it.
        n_edges = np.diff(self.starts)
        ends_image = np.zeros(len(n_edges), bool)
        has_edges = n_edges > 0
        ends_image[has_edges] = self.edge[self.starts[1:][has_edges] - 1] == pixels[has_edges]
        length_starts = offsets(n_edges + ~ends_image)
        run_ends = np.empty(int(length_starts[-1]), np.int64)
        edge_positions, _ = expand_ranges(length_starts[:-1], n_edges)
        run_ends[edge_positions] = self.edge
        run_ends[length_starts[1:][~ends_image] - 1] = pixels[~ends_image]
        previous_ends = np.concatenate([[0], run_ends[:-1]])[: len(run_ends)]
        previous_ends[length_starts[:-1]] = 0
        return length_starts, run_ends - previous_ends

    @classmethod
    def of_counts(cls, length_starts: Longs, counts: Longs) -> Runs:
        """Make masks of run lengths, as `counts` returns them; runs of length 0 vanish."""
        n_lengths = np.diff(length_starts)
        run_ends = np.cumsum(counts)
        run_ends -= np.repeat(np.concatenate([[0], run_ends])[length_starts[:-1]], n_lengths)
        # Lengths 1 2 2 1 2 -> run ends 1 3 5 6 8 -> edges 1 3 5 6: every run ends with an edge, but for a
        # last one outside the mask.
        is_edge = np.ones(len(run_ends), bool)
        is_edge[length_starts[1:][(n_lengths & 1) == 1] - 1] = False
        is_empty = counts == 0
        is_empty[length_starts[:-1][n_lengths > 0]] = False  # the first pixel belongs to the mask
        if not is_empty.any():
            return cls(offsets(n_lengths & ~1), run_ends[is_edge])
        key = (np.repeat(np.arange(len(n_lengths)), n_lengths)[is_edge] << 32) | run_ends[is_edge]
        return cls.of_keys(key, len(n_lengths))

    @classmethod
    def of_texts(cls, text: NDArray[np.uint8], text_starts: Longs) -> Runs:
        """Make masks of compressed texts, as `read_texts` takes them; empty where one cannot be decoded."""
        chunks = []
        for rows in split_by_size(np.diff(text_starts), _TEXT_AT_A_TIME):
            starts = text_starts[rows.start : rows.stop + 1]
            chunks.append(cls.of_counts(*read_texts(text[starts[0] : starts[-1]], starts - starts[0])[:2]))
        nothing = np.zeros(0, np.int64)
        n_edges = np.concatenate([nothing, *(np.diff(chunk.starts) for chunk in chunks)])
        return cls(offsets(n_edges), np.concatenate([nothing, *(chunk.edge for chunk in chunks)]))

    @classmethod
    def of_keys(cls, key: Longs, n: int) -> Runs:
        """Make n masks of ascending edges, each ``mask << 32 | pixel``. Two edges at one pixel cancel."""
        if len(key) and (key[1:] == key[:-1]).any():
            # Keys 3 5 5 8 9 9 9: the groups begin at 0 1 3 4, and those of 1, 1 and 3 equal keys leave 3 8 9.
            group_starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
            n_equal = np.diff(np.append(group_starts, len(key)))
            key = key[group_starts[n_equal & 1 == 1]]
        return cls(np.searchsorted(key >> 32, np.arange(n + 1)), key & 0xFFFFFFFF)

    def union(self) -> Runs:
        """Join all masks into one that has the pixels of any of them."""
        order = np.argsort(self.edge, kind="stable")
        step = np.where(order % 2 == 0, 1, -1)  # a mask has an even number of edges
        inside = np.cumsum(step)
        # Edges of the union: no mask goes on (0), or the first one begins (1 after a step of 1). Where a run
        # ends at the pixel at which another begins, both are such edges, and `of_keys` drops the pair.
        is_edge_of_union = (inside == 0) | (inside == step)
        return Runs.of_keys(self.edge[order][is_edge_of_union], 1)


def expand_ranges(starts: Longs, sizes: Longs) -> tuple[Longs, Longs]:
    """Return all positions of ranges one after the other, and the index of the range of each.

    Range i is the ``sizes[i]`` positions from ``starts[i]`` on.
    """
    # starts = [5, 2], sizes = [2, 3]:  arange                            0 1 | 2 3 4
    #                                   starts - positions before range   5 5 | 0 0 0
    #                                   sum                               5 6 | 2 3 4
    #                                   range_index                       0 0 | 1 1 1
    range_index = np.repeat(np.arange(len(sizes)), sizes)
    positions = np.arange(len(range_index))
    positions += np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    return positions, range_index


def offsets(sizes: Longs) -> Longs:
    """Return (n + 1,) where each of consecutive groups of these sizes begins, and the end of the last."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def sum_groups(items: ArrayLike, starts: Longs) -> NDArray[Any]:
    """(n,) sums of consecutive groups of `items`.

    Group i is ``items[starts[i]:starts[i + 1]]`` and may be empty.
    """
    # items = [3, 1, 4, 1, 5], starts = [0, 2, 2, 5]:  running sums  0 3 4 8 9 14,  at `starts`  0 4 4 14
    #                                                  differences   4 0 10  (`reduceat` would not give the 0)
    return np.diff(np.concatenate([[0], np.cumsum(items)])[starts])


def split_by_size(sizes: Longs, limit: int) -> list[slice]:
    """Divide rows into consecutive slices whose sizes add up to at most `limit`, or that hold one row."""
    running_total = np.cumsum(sizes)
    slices, start = [], 0
    while start < len(sizes):
        total_before = int(running_total[start - 1]) if start else 0
        stop = max(int(np.searchsorted(running_total, total_before + limit, side="right")), start + 1)
        slices.append(slice(start, stop))
        start = stop
    return slices


def read_texts(text: NDArray[np.uint8], text_starts: Longs) -> tuple[Longs, Longs, Mask]:
    """Decode COCO's compressed texts to run lengths; that of mask i is between two `text_starts`, (n + 1,).

    Returns (n + 1,) where the lengths of each mask begin, the lengths, and (n,) which texts cannot be
    decoded; those have no lengths.
    """
    text_sizes = np.diff(text_starts)
    chunks = [_decode_texts(text[text_starts[rows.start] : text_starts[rows.stop]], text_sizes[rows])
              for rows in split_by_size(text_sizes, _TEXT_AT_A_TIME)]  # fmt: skip
    nothing = np.zeros(0, np.int64)
    n_lengths, counts, is_wrong = (
        np.concatenate(c) for c in zip((nothing, nothing, nothing > 0), *chunks, strict=True)
    )
    return offsets(n_lengths), counts, is_wrong


def _decode_texts(text: NDArray[np.uint8], text_sizes: Longs) -> tuple[Longs, Longs, Mask]:
    """Decode n texts of `text_sizes` bytes, in one go.

    Returns (n,) the number of lengths of each mask, the lengths, and (n,) which texts are wrong.
    """
    # A byte is 48 + a group of five bits, and 32 more if another group of the same number follows.
    group = text - np.uint8(48)  # what is below 48 becomes large
    text_ends = np.cumsum(text_sizes)
    has_text = text_sizes > 0
    is_wrong = np.zeros(len(text_sizes), bool)
    is_wrong[has_text] = group[text_ends[has_text] - 1] >= 32  # the text ends within a number
    last_groups = np.flatnonzero(group < 32)  # the last group of each number
    n_groups = np.diff(last_groups, prepend=-1)
    if not is_wrong.any():  # else the number goes on in the next text
        faults = [np.flatnonzero(group > 63), last_groups[n_groups > _MOST_GROUPS]]
        is_wrong[np.searchsorted(text_ends, np.concatenate(faults), side="right")] = True
    if is_wrong.any():  # once more without the wrong texts
        n_lengths, counts, is_wrong_too = _decode_texts(
            text[np.repeat(~is_wrong, text_sizes)], np.where(is_wrong, 0, text_sizes)
        )
        return n_lengths, counts, is_wrong | is_wrong_too
    length_starts = np.searchsorted(last_groups, np.concatenate([[0], text_ends]))
    lengths = _sum_differences(_join_groups(group, last_groups, n_groups), length_starts)
    return np.diff(length_starts), lengths, is_wrong


def _join_groups(group: NDArray[np.uint8], last_groups: Longs, n_groups: Longs) -> NDArray[Any]:
    """(numbers,) the numbers of groups of five bits; 32-bit numbers if all sums of them fit, else 64.

    Number i has the ``n_groups[i]`` groups up to ``last_groups[i]``, the lowest bits first.
    """
    # A number of k + 1 groups is at most 2^(5 k + 4), as its highest bit is the sign.
    largest_sum = sum(
        int(np.count_nonzero(n_groups > k)) << 5 * k + 4 for k in range(int(n_groups.max(initial=0)))
    )
    # The last group has the sign in its highest bit: 0b00011 ^ 16, less 16, is 3, and 0b11111 is -1.
    value: NDArray[Any] = (group[last_groups] ^ 16).astype(np.int32 if largest_sum < 2**31 else np.int64) - 16
    unfinished = np.flatnonzero(n_groups > 1)
    for n_back in range(1, _MOST_GROUPS):
        value[unfinished] = (value[unfinished] << 5) | (group[last_groups[unfinished] - n_back] & 31)
        unfinished = unfinished[n_groups[unfinished] > n_back + 1]
    return value


def _sum_differences(value: NDArray[Any], length_starts: Longs) -> NDArray[Any]:
    """Return the lengths that the numbers of texts stand for; those of a mask begin at its `length_starts`.

    From the fourth of a mask on, a number is the difference to the length two before it. The first three are
    lengths.
    """
    # Running sums over every other number of the whole text, less what they hold at each mask's first number:
    #   lengths       6   1  40   4   5
    #   numbers       6   1  40   3 -35     (4 - 1, 5 - 40)
    #   running sums  6   1  46   4  11     of the places 0, 2, 4 and of 1, 3
    #   less the 6    6   1  40   4   5     at the places 2 and 4
    n_lengths = np.diff(length_starts)
    running_sums = np.empty_like(value)
    for parity in (0, 1):
        np.cumsum(value[parity::2], dtype=value.dtype, out=running_sums[parity::2])
    first_numbers, n_numbers = length_starts[:-1][n_lengths > 0], n_lengths[n_lengths > 0]
    sum_at_first, sum_before_first = running_sums[first_numbers], running_sums[first_numbers - 1]
    sum_before_first[first_numbers == 0] = 0
    # Each mask's first number stands at a place of one parity; the sum of the other is that one place before.
    # `n_of_parity`: numbers of each mask at even (odd) places; of the places 3 4 5 6 7 there are 2 (3).
    for parity in (0, 1):
        n_of_parity = (first_numbers + n_numbers + 1 - parity) // 2 - (first_numbers + 1 - parity) // 2
        running_sums[parity::2] -= np.repeat(
            np.where(first_numbers & 1 == parity, sum_at_first, sum_before_first), n_of_parity
        )
    running_sums[first_numbers] = value[first_numbers]
    return running_sums


def write_texts(length_starts: Longs, counts: Longs) -> tuple[NDArray[np.uint8], Longs]:
    """Write run lengths as COCO's compressed texts: the bytes, and (n + 1,) where each mask's text begins.

    The lengths of mask i are ``counts[length_starts[i]:length_starts[i + 1]]``.
    """
    n_lengths = np.diff(length_starts)
    numbers = counts.copy()
    # From the fourth length of each mask on.
    difference_rows = np.flatnonzero(np.arange(len(counts)) - np.repeat(length_starts[:-1], n_lengths) > 2)
    numbers[difference_rows] -= counts[difference_rows - 2]
    text, number_starts = _write_numbers(numbers)
    return text, number_starts[length_starts]


def write_long_text(chunks: Iterable[Runs], pixels: int) -> NDArray[np.uint8]:
    """Write the compressed text of one mask, of an image of `pixels` pixels; its runs come in `chunks`, from
    left to right.
    """
    texts, written_ends, pending = [], np.zeros(1, np.int64), np.zeros(0, np.int64)
    for chunk in itertools.chain(chunks, [None]):
        if chunk is None:  # after the last chunk: the last run ends with the image
            pending = pending if len(pending) and pending[-1] == pixels else np.append(pending, pixels)
        elif len(pending) and len(chunk.edge) and pending[-1] == chunk.edge[0]:  # a run through both chunks
            pending = np.concatenate([pending[:-1], chunk.edge[1:]])
        else:
            pending = np.concatenate([pending, chunk.edge])
        n_final = len(pending) - (chunk is not None)  # the last may go on in the next chunk
        if n_final > 0:
            counts = np.diff(np.concatenate([written_ends, pending[:n_final]]))
            numbers = counts.copy()
            numbers[3:] -= counts[1:-2]
            texts.append(_write_numbers(numbers[-n_final:])[0])
            # Four ends make three lengths: where there are so many before, a number is a difference.
            written_ends, pending = np.concatenate([written_ends, pending[:n_final]])[-4:], pending[n_final:]
    return np.concatenate(texts)


def _write_numbers(numbers: Longs) -> tuple[NDArray[np.uint8], Longs]:
    """Write numbers as COCO's texts do; returns the bytes, and (n + 1,) where each number begins."""
    # Groups of five bits, the lowest first, as 48 + group, and 32 more if another group follows:
    #   100 = 00011 00100   ->   48 + 32 + 4, 48 + 3   =   b"T3"
    # One group holds -16 to 15, two hold -512 to 511, ...: the highest bit is the sign.
    n_groups = np.ones(len(numbers), np.int64)
    for k in range(_MOST_GROUPS):
        n_groups += (numbers >= 16 << 5 * k) | (numbers < -(16 << 5 * k))
    number_starts = offsets(n_groups)
    text = np.empty(int(number_starts[-1]), np.uint8)
    for k in range(int(n_groups.max(initial=0))):
        rows = np.flatnonzero(n_groups > k)
        text[number_starts[rows] + k] = ((numbers[rows] >> 5 * k) & 31) + np.where(
            n_groups[rows] > k + 1, 80, 48
        )
    return text, number_starts


def measure(text: NDArray[np.uint8], text_starts: Longs, height: Longs) -> Measured:
    """Measure masks without keeping their pixels. Those that are wrong, or have `MOST_PIXELS` pixels or more,
    have no area and no box.

    The text of mask i is ``text[text_starts[i]:text_starts[i + 1]]``; `height` of its image, (n,).
    """
    n = len(height)
    n_pixels, area, is_wrong = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, bool)
    box = np.zeros((n, 4), np.int64)
    for rows in split_by_size(np.diff(text_starts), _TEXT_AT_A_TIME):
        starts = text_starts[rows.start : rows.stop + 1]
        if starts[-1] - starts[0] > _LONG_TEXT:  # a single mask
            # Columns are found by division by the height; an image of height 0 has no pixels anyway.
            long_mask = _measure_long(text[starts[0] : starts[-1]], np.maximum(height[rows], 1))
            n_pixels[rows], is_wrong[rows], area[rows], box[rows] = (
                long_mask.n_run_pixels,
                long_mask.is_wrong,
                long_mask.area,
                long_mask.box,
            )
            continue
        length_starts, counts, is_unreadable = read_texts(text[starts[0] : starts[-1]], starts - starts[0])
        n_pixels[rows] = sum_groups(counts, length_starts)
        is_wrong[rows] = is_unreadable

        # Wrong masks, and those of too many pixels, become empty.
        if (counts < 0).any():
            is_wrong[rows] |= sum_groups(counts < 0, length_starts) > 0
        is_measurable = ~is_wrong[rows] & (n_pixels[rows] < MOST_PIXELS)
        if not is_measurable.all():
            n_lengths = np.diff(length_starts)
            counts = counts[np.repeat(is_measurable, n_lengths)]
            length_starts = offsets(n_lengths * is_measurable)
        runs = Runs.of_counts(length_starts, counts)
        area[rows], box[rows] = runs.areas(), runs.boxes(np.maximum(height[rows], 1))
    return Measured(height, n_pixels, is_wrong, area, box)


def _measure_long(text: NDArray[np.uint8], height: Longs) -> Measured:
    """Measure one mask, whose runs would take too much memory at once; `height` of its image, (1,).

    Its text is decoded in chunks of up to `_LONG_TEXT` bytes; results are as those of `measure`.
    """
    start, n_pixels, area, last_lengths = 0, 0, 0, np.zeros(2, np.int64)
    # The left, top, right and bottom of all pixels so far, and the box of a mask without any.
    box, no_box = np.array([[2**32, 2**32, 0, 0]]), np.zeros((1, 4), np.int64)
    while start < len(text):
        stop = min(start + _LONG_TEXT, len(text))
        if stop < len(text):  # stop after an even number of lengths: the next one is of a run outside again
            number_ends = np.flatnonzero(text[start:stop] - np.uint8(48) < 32)  # the last byte of each number
            stop = (
                start + int(number_ends[len(number_ends) // 2 * 2 - 1]) + 1 if len(number_ends) > 1 else start
            )
        n_lengths, counts, is_unreadable = _decode_texts(text[start:stop], np.array([stop - start]))
        counts = counts.astype(np.int64)
        if start and not is_unreadable[0] and stop > start:
            # The first three numbers were taken for lengths, but are differences to the length two before:
            # what the first and the second lack is missing in every other length after them, too.
            counts[0] += last_lengths[0]
            counts[1::2] += last_lengths[1]
            counts[2::2] += counts[0]
        if is_unreadable[0] or stop == start or (counts < 0).any():  # stop == start: a number has no end
            return Measured(height, np.array([0]), np.array([True]), np.array([0]), no_box)

        if n_pixels + int(counts.sum()) < MOST_PIXELS:
            runs = Runs.of_counts(np.array([0, n_lengths[0]]), counts)
            runs = Runs(runs.starts, runs.edge + n_pixels)  # after the pixels of the chunks before
            area += int(runs.areas()[0])
            chunk_box = runs.boxes(height)
            if len(runs.edge):
                box[:, :2] = np.minimum(box[:, :2], chunk_box[:, :2])
                box[:, 2:] = np.maximum(box[:, 2:], chunk_box[:, :2] + chunk_box[:, 2:])
        n_pixels, start, last_lengths = n_pixels + int(counts.sum()), stop, counts[-2:]
    box[:, 2:] -= box[:, :2]
    is_measurable = area > 0 and n_pixels < MOST_PIXELS
    area = area if is_measurable else 0
    return Measured(
        height, np.array([n_pixels]), np.array([False]), np.array([area]), box if is_measurable else no_box
    )


def count_shared_pixels(a: Runs, rows_a: Longs, b: Runs, rows_b: Longs) -> Longs:
    """(n,) pixels that mask ``rows_a[i]`` of `a` and mask ``rows_b[i]`` of `b` have in common."""
    n_edges = np.diff(a.starts)[rows_a]
    if n_edges.sum() > np.diff(b.starts)[rows_b].sum():  # those with fewer edges are looked up
        return count_shared_pixels(b, rows_b, a, rows_a)
    n_shared = np.zeros(len(rows_a), np.int64)
    edge_keys = (np.repeat(np.arange(len(b)), np.diff(b.starts)) << 32) | b.edge
    # With k edges of `b` up to a pixel: k even, outside: the pixels of all runs before; k odd, inside: the
    # same, less the start of the run, so that adding the pixel counts the run as far as the pixel.
    #   edges 1 3 5 6  ->  0  -1  2  -3  3;    before pixel 2: k = 1, -1 + 2 = 1 pixel
    pixels_before_edge = np.zeros(len(b.edge) + 1, np.int64)
    pixels_before_edge[2::2] = np.cumsum(b.edge[1::2] - b.edge[0::2])
    pixels_before_edge[1::2] = pixels_before_edge[0:-1:2] - b.edge[0::2]
    for rows in split_by_size(n_edges, _EDGES_AT_A_TIME):
        edge_rows, pair_index = expand_ranges(a.starts[rows_a[rows]], n_edges[rows])
        pixel = a.edge[edge_rows]
        # Pixels of mask b before each edge of mask a: the difference at the two edges of a run is shared.
        n_edges_before = np.searchsorted(edge_keys, (rows_b[rows] << 32)[pair_index] | pixel, side="right")
        pixels_before = pixels_before_edge[n_edges_before] + (n_edges_before & 1) * pixel
        n_shared[rows] = sum_groups(pixels_before[1::2] - pixels_before[0::2], offsets(n_edges[rows] // 2))
    return n_shared
