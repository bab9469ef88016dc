"""Find the pairs of detections and ground truths of one image and class that overlap enough.

Most images have few boxes of a class: their detections are compared with all ground truths, many images at a
time. Where one image and class has many, only boxes that lie near each other are compared, and their pairs
are made a bounded number at a time.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from odm.evaluate.matching.order import argsort_descending, argsort_int, best_of_each, first_of_runs
from odm.evaluate.matching.sides import Joined, Mask
from odm.evaluate.scores.protocols import Protocol
from odm.masks.runs import expand_ranges, split_by_size
from odm.parallel import map_by_threads
from odm.tables import Floats, Ints, Longs

Columns = tuple[Floats, ...]
"""Left, top, right, bottom and area."""
_Half = tuple[Longs, Longs]
"""Positions of the detections and of the ground truths on one side of a line."""
Found = tuple[Ints, Ints, Floats, Floats]
"""Detection, ground truth, IoU and IoA of pairs; IoA is the very array of IoU where no group is."""

CHUNK = 2**15
"""Pairs that are compared at a time: their columns stay in the processor's cache."""

LARGE = 2**18
"""With more combinations than this the boxes of one image and class are a `LargeGroup`."""

AT_A_TIME = 2**19
"""Pairs of a large group that are in memory at a time, unless a single detection has more."""

SPARSE = 2**20
"""A table of all images and classes is made if it is no larger than this and a few entries per box."""

EPSILON = np.float32(1e-7)
"""What protocols of 32 bits add to the union."""

CEILING = 1 - 1e-10
"""The highest IoU that `coco` asks for, as in pycocotools."""


class Pairs(msgspec.Struct, frozen=True, eq=False):
    """Pairs of a detection and a ground truth of one image and class that overlap enough.

    ``det`` and ``gt`` are (n,) positions in the joined sides, ``iou`` (n,). Pairs stand by image, class,
    descending score of the detection, then ground truth. ``rank`` (one per detection) is the rank of a
    detection among those of its image and class, 0 the best; -1 where there is no ground truth of it.
    """

    det: Ints
    gt: Ints
    iou: Floats
    ioa: Floats | None
    """(n,) intersection over the detection's area; None where no ground truth is a group."""
    rank: Ints
    large: tuple[LargeGroup, ...] = ()
    """Images and classes with so many boxes that their pairs are not kept here, see `pieces`."""

    def above(self, floor: float) -> Pairs:
        """Return the pairs whose IoU or IoA is at least `floor`, which is above the one of `find_pairs`."""
        is_kept = self.iou >= floor
        if self.ioa is not None:
            is_kept |= self.ioa >= floor
        large = tuple(replace(group, floor=floor) for group in self.large)
        return replace(self.select(is_kept), large=large)

    def of_detections(self, detections: Mask) -> Pairs:
        """Return the pairs of the detections under a mask (detections,)."""
        large = tuple(replace(group, det=group.det[detections[group.det]]) for group in self.large)
        return replace(self.select(detections[self.det]), large=large)

    def select(self, keep: Mask | slice) -> Pairs:
        """Return the pairs under a mask (n,) or in a slice, without the large groups."""
        ioa = None if self.ioa is None else self.ioa[keep]
        return Pairs(self.det[keep], self.gt[keep], self.iou[keep], ioa, self.rank)

    def pieces(self) -> Iterator[Pairs]:
        """Yield all pairs, those of large groups a bounded number at a time, and each detection only once."""
        yield self.select(slice(None))
        for group in self.large:
            yield from self.split_group(group)

    def split_group(self, group: LargeGroup) -> Iterator[Pairs]:
        """Yield the pairs of a large group, a bounded number at a time."""
        for det, gt, iou, ioa in group.iterate_pairs():
            yield Pairs(det, gt, iou, None if self.ioa is None else ioa, self.rank)


def find_pairs(
    joined: Joined,
    protocol: Protocol,
    floor: float,
    order: Longs | None = None,
    *,
    among: Mask | None = None,
    best_only: bool = False,
) -> Pairs:
    """Find all pairs of one image and class with IoU (for group-of boxes also IoA) of at least `floor`.

    `order` are the positions of the detections by descending score, if they are known. Only detections
    `among`, a mask (n,), take part; the others have no rank. With `best_only`, the pair of each detection
    with the highest IoU is kept, and of those with group-of boxes that with the highest IoA, each the first
    (or last) of equals; then the result has no `Pairs.large`.
    """
    # A group is an image and class that has ground truth; groups are numbered by image and class.
    detections = joined.detections
    rank = np.full(len(detections), -1, np.int32)
    no_pairs = Pairs(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0), None, rank)
    if not len(joined.truth) or not len(detections):
        return no_pairs
    truth_keys = joined.keys_of(joined.truth)
    truth_order = argsort_int(truth_keys, int(truth_keys.max()) + 1)  # by image and class
    truth_keys = truth_keys[truth_order]
    truth_starts = first_of_runs(truth_keys)
    n_truth = np.diff(truth_starts, append=len(truth_keys))
    order = argsort_descending(detections.score) if order is None else order
    order, group_of_detection = _group_detections(joined, truth_keys[truth_starts], order, among)
    n_det = np.bincount(group_of_detection, minlength=len(n_truth))
    det_starts = np.cumsum(n_det) - n_det
    rank[order] = np.arange(len(order)) - det_starts[group_of_detection]

    boxes = _Boxes(joined, protocol, truth_order)
    chunks: list[Found] = []
    large: list[LargeGroup] = []
    n_done = 0  # of the detections in `order`
    for g in [*np.flatnonzero(n_det * n_truth > LARGE).tolist(), None]:
        # All groups before the large one are compared together; None stands for the end.
        start = len(order) if g is None else int(det_starts[g])
        group_rows = group_of_detection[n_done:start]
        chunks += boxes.compare(
            order[n_done:start], n_truth[group_rows], truth_starts[group_rows], floor, best_only
        )
        if g is None:
            break
        n_done = start + int(n_det[g])
        truth_rows = slice(int(truth_starts[g]), int(truth_starts[g] + n_truth[g]))
        large_group = LargeGroup(boxes, order[start:n_done], truth_rows, floor, best_only)
        if best_only:
            chunks += large_group.iterate_pairs()
        else:
            large.append(large_group)
    if not large and not any(len(chunk[0]) for chunk in chunks):
        return no_pairs
    # There is no chunk if all groups are large: then the columns are empty.
    det, gt, iou, ioa = _concatenate(chunks or [(no_pairs.det, no_pairs.gt, no_pairs.iou, no_pairs.iou)])
    return Pairs(det, gt, iou, ioa if boxes.any_grouped else None, rank, tuple(large))


def _group_detections(
    joined: Joined, group_keys: Longs, order: Longs, among: Mask | None
) -> tuple[Longs, Ints]:
    """Return the detections that are of a group and `among` (n,), by group and then as in `order`, and the
    group of each. `group_keys` are the ascending keys of the groups.
    """
    group_of_detection = _look_up(joined.keys_of(joined.detections), group_keys)[order]
    takes_part = group_of_detection >= 0
    if among is not None:
        takes_part &= among[order]
    order, group_of_detection = order[takes_part], group_of_detection[takes_part]
    by_group = argsort_int(group_of_detection, len(group_keys))  # stable
    return order[by_group], group_of_detection[by_group]


def find_iou_floor(protocol: Protocol) -> float:
    """Return the lowest IoU that can matter to a protocol: any above 0 if it depends on an object's size."""
    of_classes = [iou for _, iou in protocol.class_ious]
    return 1e-9 if protocol.size_threshold else min(*protocol.ious, *of_classes, CEILING)


def measure_boxes(xyxy: Floats, wh: Floats, protocol: Protocol) -> Columns:
    """Return left, top, right, bottom and area of boxes, each (n,), as a protocol measures them.

    The width is ``right - left + Protocol.pixel``. The columns are 32-bit floats where the protocol computes
    in those.
    """
    if protocol.scale != 1:  # fractions of images of unknown size, in 32 bits
        xyxy, wh = xyxy * protocol.scale, wh * protocol.scale
    left, top, right, bottom = np.ascontiguousarray(xyxy.T, np.float32 if protocol.single else None)
    if protocol.as_given and not protocol.pixel:  # width and height as in the file decide, not the corners
        width, height = wh.T
        return left, top, left + width, top + height, width * height
    pixel = protocol.pixel
    return left, top, right, bottom, (right - left + pixel) * (bottom - top + pixel)


def measure_shared_length(det: Columns, truth: Columns, axis: int, pixel: float) -> Floats:
    """(pairs,) the length that both boxes of each pair share along an axis, 0 = x and 1 = y.

    It is 0 or negative where they are apart.
    """
    length: Floats = np.minimum(det[axis + 2], truth[axis + 2])
    length -= np.maximum(det[axis], truth[axis])
    if pixel:  # after the difference, as for areas, so that a perfect box has an IoU of 1
        length += pixel
    return length


def intersection(det: Columns, truth: Columns, pixel: float = 0) -> Floats:
    """(n,) the area that both boxes of each pair cover; `pixel` is `Protocol.pixel`."""
    width, height = (np.maximum(measure_shared_length(det, truth, axis, pixel), 0) for axis in (0, 1))
    return width * height


def _look_up(keys_to_find: Longs, keys: Longs) -> Ints:
    """(n,) the position of each key in the ascending `keys`, -1 if it is not there."""
    # Looking up in a table of all possible keys is faster than searching, as long as it is small. Its last
    # entry, -1, is for all keys beyond the highest.
    size = int(keys[-1]) + 1
    if size <= 4 * (len(keys_to_find) + len(keys)) + SPARSE:
        table = np.full(size + 1, -1, np.int32)
        table[keys] = np.arange(len(keys), dtype=np.int32)
        return table[np.minimum(keys_to_find, size)]
    positions = np.searchsorted(keys, keys_to_find).astype(np.int32)
    np.minimum(positions, len(keys) - 1, out=positions)
    positions[keys[positions] != keys_to_find] = -1
    return positions


class _Boxes:
    """The boxes of both sides as a protocol measures them; ground truths sorted by image and class."""

    def __init__(self, joined: Joined, protocol: Protocol, truth_order: Longs) -> None:
        self.protocol = protocol
        self.truth_order = truth_order
        self.detections = joined.detections
        self.truth = tuple(
            c[truth_order] for c in measure_boxes(joined.truth.xyxy, joined.truth.wh, protocol)
        )
        flags = joined.truth.flags
        self.is_group = protocol.groups(flags)
        """(n,) which ground truths are group-of boxes (`Protocol.groups`), as the joined side has them."""
        self.grouped: Mask = protocol.by_ioa(flags)[truth_order]
        """(n,) which ground truths are compared by IoA too, in the order by image and class."""
        self.any_grouped = bool(self.grouped.any())

    def measure(self, rows: Longs) -> Columns:
        """Return left, top, right, bottom and area of the detections at `rows`, each (rows,)."""
        return measure_boxes(self.detections.xyxy[rows], self.detections.wh[rows], self.protocol)

    def measure_overlaps(
        self, width: Floats, det: Columns, truth: Columns, grouped: Mask
    ) -> tuple[Floats, Floats]:
        """Return IoU and IoA of pairs whose boxes share `width`; -1 where they do not overlap.

        The arrays are broadcast, and so is `grouped`, which pairs are compared by IoA too. IoA is 0 in the
        others, and the very array of IoU if no ground truth is compared by it.
        """
        inter = width * np.maximum(measure_shared_length(det, truth, 1, self.protocol.pixel), 0)
        (*_, area), (*_, truth_area) = det, truth
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if self.protocol.single:
                # As floats of 64 bits that reach a threshold if they reach it as 32 bits: float32(0.7) is a
                # little less than 0.7, so an IoU equal to it is raised to 0.7.
                iou_32 = inter / (area + truth_area - inter + EPSILON)
                iou = iou_32.astype(np.float64)
                for threshold in self.protocol.ious:
                    equal = iou_32 == np.float32(threshold)
                    iou[equal] = np.maximum(iou[equal], threshold)
            else:
                iou = inter / (area + truth_area - inter + self.protocol.added_area)
            det_area = area + self.protocol.added_area
            ioa = np.where(grouped, inter / det_area, 0) if self.any_grouped else iou
        is_apart = ~(inter > 0)
        iou[is_apart] = -1
        if self.any_grouped:
            ioa[is_apart] = -1
        return iou, ioa

    def compare(
        self, rows: Longs, n_truth: Longs, truth_starts: Longs, floor: float, best_only: bool
    ) -> list[Found]:
        """Compare detections with the ground truths of their image and class, `CHUNK` pairs at a time.

        Each detection, at `rows` (n,), is compared with `n_truth` ground truths from `truth_starts` on, (n,)
        each. Pairs of at least `floor`, in IoU or IoA, are kept; `best_only` is as for `find_pairs`.
        """

        def compare_part(det_range: slice) -> Found:
            """Return the pairs of the detections ``rows[det_range]``."""
            # Each detection as often as it has ground truths, and beside it those of its image and class.
            truth_at, det_index = expand_ranges(truth_starts[det_range], n_truth[det_range])
            det = self.measure(rows[det_range])
            det_left, _, det_right, *_ = det
            truth_left, _, truth_right, *_ = self.truth
            # Most pairs lie apart in x already; only the others are looked at further.
            width = np.minimum(det_right[det_index], truth_right[truth_at])
            width -= np.maximum(det_left[det_index], truth_left[truth_at])
            width += self.protocol.pixel
            meets = np.flatnonzero(width > 0)
            det_index, truth_at = det_index[meets], truth_at[meets]
            iou, ioa = self.measure_overlaps(
                width[meets],
                tuple(c[det_index] for c in det),
                tuple(c[truth_at] for c in self.truth),
                self.grouped[truth_at],
            )
            # Without groups IoA is the array of IoU, and so it stays.
            kept_rows = np.flatnonzero(iou >= floor if ioa is iou else (iou >= floor) | (ioa >= floor))
            iou_kept = iou[kept_rows]
            ioa_kept = iou_kept if ioa is iou else ioa[kept_rows]
            det_rows = rows[det_range][det_index[kept_rows]]
            pairs = self.to_joined_positions(det_rows, truth_at[kept_rows], iou_kept, ioa_kept)
            return self.keep_best(pairs) if best_only else pairs

        return map_by_threads(compare_part, split_by_size(n_truth, CHUNK))

    def to_joined_positions(self, rows: Longs, truth_at: Longs, iou: Floats, ioa: Floats) -> Found:
        """Return pairs (n,) with ground truths as positions in the joined side, not among the sorted ones.

        `rows` are the detections, `truth_at` the positions of the ground truths by image and class.
        """
        return rows.astype(np.int32), self.truth_order[truth_at].astype(np.int32), iou, ioa

    def keep_best(self, pairs: Found) -> Found:
        """Return of each detection the pair of highest IoU, and with a group-of box that of highest IoA."""
        det, gt, iou, ioa = pairs
        is_group_box = self.is_group[gt]
        last = self.protocol.last_of_equals
        if is_group_box.any():
            plain_pairs, group_pairs = np.flatnonzero(~is_group_box), np.flatnonzero(is_group_box)
            best_plain = plain_pairs[best_of_each(det[plain_pairs], iou[plain_pairs], last=last)]
            best_group = group_pairs[best_of_each(det[group_pairs], ioa[group_pairs])]
            kept_pairs = np.sort(np.concatenate([best_plain, best_group]))
        else:
            kept_pairs = best_of_each(det, iou, last=last)
        best_iou = iou[kept_pairs]
        return det[kept_pairs], gt[kept_pairs], best_iou, best_iou if ioa is iou else ioa[kept_pairs]


def _concatenate(parts: Sequence[Found]) -> Found:
    """Concatenate columns of pairs; IoA stays the array of IoU if it is in all parts."""
    det, gt, iou, ioa = zip(*parts, strict=True)
    overlap = np.concatenate(iou)
    is_shared = all(map(operator.is_, iou, ioa))
    return np.concatenate(det), np.concatenate(gt), overlap, overlap if is_shared else np.concatenate(ioa)


# ------------------------------------------------------------------------------------------ large groups


class LargeGroup(msgspec.Struct, frozen=True, eq=False):
    """The boxes of an image and class that has many boxes."""

    boxes: _Boxes
    det: Longs
    """Positions of the detections, by descending score."""
    truth: slice
    """Where its ground truths are among all, sorted by image and class."""
    floor: float
    best_only: bool

    def iterate_pairs(self) -> Iterator[Found]:
        """Yield pairs by descending score of the detection, then ground truth, a bounded number at a time.

        The number of detections is halved after too many pairs, and doubled after few.
        """
        start, size = 0, len(self.det)
        while start < len(self.det):
            size = min(size, len(self.det) - start)
            pairs = self._find_near(self.det[start : start + size])
            if pairs is None:
                size = -(-size // 2)  # half of it, rounded up
                continue
            yield pairs
            start += size
            if len(pairs[0]) < AT_A_TIME // 4:
                size *= 2

    def _find_near(self, rows: Longs) -> Found | None:
        """Return the pairs of the detections `rows`, each compared only with the ground truths near it.

        None if there are more than `AT_A_TIME` pairs of several detections. The plane is cut in two for as
        long as that spares comparisons. Boxes on both sides of a cut belong to both halves; so that their
        pair counts once, it counts where its common area begins, right of `left` and below `top`.
        """
        n_truth = self.truth.stop - self.truth.start
        det, truth = self.boxes.measure(rows), tuple(c[self.truth] for c in self.boxes.truth)
        chunks: list[Found] = []
        n = 0
        no_limit = -np.inf
        # Pieces of the plane: positions of detections and ground truths, and the left and top limits.
        todo = [(np.arange(len(rows)), np.arange(n_truth), no_limit, no_limit)]
        while todo:
            dets, truths, left, top = todo.pop()
            if not len(dets) or not len(truths):
                continue
            halves = self._halve(det, truth, dets, truths) if len(dets) * len(truths) > CHUNK else None
            if halves is not None:
                (lower_half, upper_half), axis, cut = halves
                todo.append((*lower_half, left, top))
                todo.append((*upper_half, cut if axis == 0 else left, cut if axis == 1 else top))
                continue
            for det_near, truth_near, iou, ioa in self._compare_all(det, truth, dets, truths):
                # Columns 0 and 1 are left and top: where the common area of a pair begins.
                is_near = np.maximum(det[0][det_near], truth[0][truth_near]) >= left
                is_near &= np.maximum(det[1][det_near], truth[1][truth_near]) >= top
                near_iou = iou[is_near]
                near_ioa = near_iou if ioa is iou else ioa[is_near]
                positions = det_near[is_near].astype(np.int32), truth_near[is_near].astype(np.int32)
                chunks.append((*positions, near_iou, near_ioa))
                n += int(np.count_nonzero(is_near))
                if n > AT_A_TIME and len(rows) > 1:
                    return None
        if not chunks:
            return self.boxes.to_joined_positions(rows[:0], rows[:0], np.zeros(0), np.zeros(0))
        det_index, truth_at, iou, ioa = _concatenate(chunks)
        # Pieces are not in order: sort by detection, then ground truth.
        order = np.argsort(det_index.astype(np.int64) * n_truth + truth_at)
        det_index, truth_at, iou, ioa = det_index[order], truth_at[order], iou[order], ioa[order]
        pairs = self.boxes.to_joined_positions(rows[det_index], truth_at + self.truth.start, iou, ioa)
        return self.boxes.keep_best(pairs) if self.best_only else pairs

    def _compare_all(
        self, det: Columns, truth: Columns, dets: Longs, truths: Longs
    ) -> Iterator[tuple[Longs, Longs, Floats, Floats]]:
        """Yield the overlapping pairs of the detections `dets` and ground truths `truths`, a chunk at a time.

        `dets` and `truths` are positions in the columns `det` and `truth`. Yields, each (pairs,), the two
        positions, IoU and IoA.
        """
        truth_columns = tuple(c[truths] for c in truth)
        grouped = self.boxes.grouped[self.truth][truths]
        is_group = self.boxes.is_group[self.boxes.truth_order[self.truth][truths]]
        step = max(1, CHUNK // len(truths))
        for start in range(0, len(dets), step):
            det_rows = dets[start : start + step]
            det_columns = tuple(c[det_rows][:, None] for c in det)
            width = measure_shared_length(det_columns, truth_columns, 0, self.boxes.protocol.pixel)
            iou, ioa = self.boxes.measure_overlaps(width, det_columns, truth_columns, grouped)
            if self.best_only:
                kept_cells = self._find_best_cells(iou, ioa, is_group)
            else:
                is_reaching = iou >= self.floor if ioa is iou else (iou >= self.floor) | (ioa >= self.floor)
                kept_cells = np.flatnonzero(is_reaching)
            det_index = kept_cells // len(truths)  # row and column of each cell of (det_rows, truths)
            truth_at = kept_cells - det_index * len(truths)
            kept_iou = iou.ravel()[kept_cells]
            kept_ioa = kept_iou if ioa is iou else ioa.ravel()[kept_cells]
            yield det_rows[det_index], truths[truth_at], kept_iou, kept_ioa

    def _find_best_cells(self, iou: Floats, ioa: Floats, is_group: Mask) -> Longs:
        """Return the ascending flat positions of the best pair of each row of a table of pairs.

        `iou` and `ioa` are (rows, columns), `is_group` (columns,) says which ground truths are group-of boxes
        (`Protocol.groups`): the best of these, by IoA, is returned beside the best of the others. Pairs below
        the floor are none.
        """
        n_columns = iou.shape[1]
        criteria = [(iou, is_group), (ioa, ~is_group)] if is_group.any() else [(iou, is_group)]
        best = []
        for overlap, is_other_kind in criteria:
            overlap_or_none = np.where((overlap >= self.floor) & ~is_other_kind, overlap, -1)
            if self.boxes.protocol.last_of_equals:  # the first from the end
                best_columns = n_columns - 1 - overlap_or_none[:, ::-1].argmax(axis=1)
            else:
                best_columns = overlap_or_none.argmax(axis=1)
            best_cells = np.arange(len(iou)) * n_columns + best_columns
            best.append(best_cells[overlap_or_none.ravel()[best_cells] >= 0])
        return np.sort(np.concatenate(best))

    def _halve(
        self, det: Columns, truth: Columns, dets: Longs, truths: Longs
    ) -> tuple[tuple[_Half, _Half], int, float] | None:
        """Divide the detections `dets` and ground truths `truths` by a line across x (axis 0) or y (axis 1).

        The line is one of those at which a quarter, half or three quarters of the boxes begin: the one that
        leaves the fewest combinations. Returns both halves (positions of detections and ground truths), and
        the axis and position of the line; None if no line saves a fifth of the combinations.
        """
        pixel = self.boxes.protocol.pixel
        best_cost = 0.8 * len(dets) * len(truths)  # combinations that are left
        halves = None
        for axis in (0, 1):
            # The two entries of `edges`, `is_below` and `is_above` are of detections and ground truths.
            edges = [
                (side[axis][rows], side[axis + 2][rows]) for side, rows in ((det, dets), (truth, truths))
            ]
            starts = np.sort(np.concatenate([low for low, _ in edges]))
            for quarter in (2, 1, 3):
                line = float(starts[len(starts) * quarter // 4])
                if not math.isfinite(line):
                    continue
                is_below = [low < line for low, _ in edges]
                is_above = [high + pixel >= line for _, high in edges]
                cost = sum(float(np.count_nonzero(a)) * np.count_nonzero(b) for a, b in (is_below, is_above))
                if cost <= best_cost:
                    best_cost = cost
                    halves = (
                        ((dets[is_below[0]], truths[is_below[1]]), (dets[is_above[0]], truths[is_above[1]])),
                        axis,
                        line,
                    )
        return halves
