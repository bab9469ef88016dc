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
from odm.parallel import by_threads
from odm.tables import Floats, Ints, Longs

Columns = tuple[Floats, ...]
"""Left, top, right, bottom and area."""
_Half = tuple[Longs, Longs]
Found = tuple[Ints, Ints, Floats, Floats]
"""Detection, ground truth, IoU and IoA of pairs."""

CHUNK = 2**15
"""Pairs that are compared at a time: their columns stay in the processor's cache."""

LARGE = 2**18
"""With more combinations than this the boxes of one image and class are a `LargeGroup`."""

AT_A_TIME = 2**19
"""Pairs of a large group that are held at a time, unless a single detection has more."""

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
    """Images and classes with so many boxes that their pairs are not held here."""

    def above(self, floor: float) -> Pairs:
        """The pairs that reach `floor`, which is higher than the one these were made for."""
        keep = self.iou >= floor
        if self.ioa is not None:
            keep |= self.ioa >= floor
        large = tuple(replace(group, floor=floor) for group in self.large)
        return replace(self.part(keep), large=large)

    def of(self, detections: Mask) -> Pairs:
        """The pairs of some of the detections."""
        large = tuple(replace(group, det=group.det[detections[group.det]]) for group in self.large)
        return replace(self.part(detections[self.det]), large=large)

    def part(self, keep: Mask | slice) -> Pairs:
        """Return some of the pairs."""
        ioa = None if self.ioa is None else self.ioa[keep]
        return Pairs(self.det[keep], self.gt[keep], self.iou[keep], ioa, self.rank)

    def pieces(self) -> Iterator[Pairs]:
        """All pairs, those of large groups a bounded number at a time; no detection is in two pieces."""
        yield self.part(slice(None))
        for group in self.large:
            yield from self.pieces_of(group)

    def pieces_of(self, group: LargeGroup) -> Iterator[Pairs]:
        """The pairs of a large group, a bounded number at a time."""
        for det, gt, iou, ioa in group.parts():
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
    """Find all pairs of one image and class with IoU (for groups also IoA) of at least `floor`.

    Parameters
    ----------
    joined, protocol, floor
        Both sides, how boxes are measured, and the lowest overlap that is asked for.
    order
        Positions of the detections by descending score, if they are known.
    among
        (n,) which detections take part; the others have no rank.
    best_only
        Of each detection only the pair of the highest IoU, and with a group-of box that of the highest
        IoA, each the first (or last) of equals. They are all held; without this those of large groups are
        not.
    """
    detections = joined.detections
    rank = np.full(len(detections), -1, np.int32)
    empty = Pairs(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0), None, rank)
    if not len(joined.truth) or not len(detections):
        return empty
    key = joined.keys_of(joined.truth)
    truth_order = argsort_int(key, int(key.max()) + 1)  # by image and class
    key = key[truth_order]
    truth_first = first_of_runs(key)
    n_truth = np.diff(truth_first, append=len(key))
    order = argsort_descending(detections.score) if order is None else order
    group = _lookup(joined.keys_of(detections), key[truth_first])[order]
    contends = group >= 0
    if among is not None:
        contends &= among[order]
    order, group = order[contends], group[contends]
    by_group = argsort_int(group, len(n_truth))  # which keeps the order by score within a group
    order, group = order[by_group], group[by_group]
    n_det = np.bincount(group, minlength=len(n_truth))
    start = np.cumsum(n_det) - n_det
    rank[order] = np.arange(len(order)) - start[group]

    boxes = _Boxes(joined, protocol, truth_order)
    parts: list[Found] = []
    large: list[LargeGroup] = []

    done = 0
    for g in [*np.flatnonzero(n_det * n_truth > LARGE).tolist(), None]:
        begin = len(order) if g is None else int(start[g])  # all that stand before the large group
        group_rows = group[done:begin]
        parts += boxes.compare(
            order[done:begin], n_truth[group_rows], truth_first[group_rows], floor, best_only
        )
        if g is None:
            break
        done = begin + int(n_det[g])
        of_group = slice(int(truth_first[g]), int(truth_first[g] + n_truth[g]))
        boxes_of_g = LargeGroup(boxes, order[begin:done], of_group, floor, best_only)
        if best_only:
            parts += boxes_of_g.parts()
        else:
            large.append(boxes_of_g)
    if not large and not any(len(part[0]) for part in parts):
        return empty
    det, gt, iou, ioa = _together(parts or [(empty.det, empty.gt, empty.iou, empty.iou)])
    return Pairs(det, gt, iou, ioa if boxes.any_grouped else None, rank, tuple(large))


def floor_of(protocol: Protocol) -> float:
    """The lowest IoU that can matter to a protocol."""
    of_classes = [iou for _, iou in protocol.class_ious]
    return 1e-9 if protocol.size_threshold else min(*protocol.ious, *of_classes, CEILING)


def geometry(xyxy: Floats, wh: Floats, protocol: Protocol) -> Columns:
    """Return left, top, right, bottom and area of boxes, each (n,).

    ``right - left + Protocol.pixel`` is the width.

    They are 32-bit floats where the protocol computes in those.
    """
    if protocol.scale != 1:
        xyxy, wh = xyxy * protocol.scale, wh * protocol.scale
    left, top, right, bottom = np.ascontiguousarray(xyxy.T, np.float32 if protocol.single else None)
    if protocol.as_given and not protocol.pixel:
        width, height = wh.T
        return left, top, left + width, top + height, width * height
    pixel = protocol.pixel
    return left, top, right, bottom, (right - left + pixel) * (bottom - top + pixel)


def shared(det: Columns, truth: Columns, axis: int, pixel: float) -> Floats:
    """Return the overlap of pairs of boxes along an axis, 0 = x and 1 = y.

    Not above 0 where they are apart.
    """
    length: Floats = np.minimum(det[axis + 2], truth[axis + 2])
    length -= np.maximum(det[axis], truth[axis])
    if pixel:  # after the difference, as for areas, so that a perfect box has an IoU of 1
        length += pixel
    return length


def intersection(det: Columns, truth: Columns, pixel: float = 0) -> Floats:
    """(n,) the area that both boxes of each pair cover; `pixel` is `Protocol.pixel`."""
    width, height = (np.maximum(shared(det, truth, axis, pixel), 0) for axis in (0, 1))
    return width * height


def _lookup(key: Longs, keys: Longs) -> Ints:
    """(n,) the position of each key in the ascending `keys`, -1 if it is not there."""
    # Looking up in a table of all possible keys is faster than searching, as long as it is small.
    size = int(keys[-1]) + 1
    if size <= 4 * (len(key) + len(keys)) + SPARSE:
        table = np.full(size + 1, -1, np.int32)
        table[keys] = np.arange(len(keys), dtype=np.int32)
        return table[np.minimum(key, size)]
    position = np.searchsorted(keys, key).astype(np.int32)
    np.minimum(position, len(keys) - 1, out=position)
    position[keys[position] != key] = -1
    return position


class _Boxes:
    """The boxes of both sides as a protocol measures them; ground truths sorted by image and class."""

    def __init__(self, joined: Joined, protocol: Protocol, truth_order: Longs) -> None:
        self.protocol = protocol
        self.truth_order = truth_order
        self.detections = joined.detections
        self.truth = tuple(c[truth_order] for c in geometry(joined.truth.xyxy, joined.truth.wh, protocol))
        flags = joined.truth.flags
        self.is_group = protocol.groups(flags)
        """(n,) which ground truths are group-of boxes, in the order of the joined side."""
        self.grouped: Mask = protocol.by_ioa(flags)[truth_order]
        """(n,) which ground truths are group-of boxes, in the order by image and class."""
        self.any_grouped = bool(self.grouped.any())

    def measured(self, rows: Longs) -> Columns:
        """The columns of some detections."""
        return geometry(self.detections.xyxy[rows], self.detections.wh[rows], self.protocol)

    def overlap(self, width: Floats, det: Columns, truth: Columns, grouped: Mask) -> tuple[Floats, Floats]:
        """Return IoU and IoA of pairs whose boxes share `width`; -1 where they do not overlap.

        The arrays are broadcast, `grouped` too.
        """
        inter = width * np.maximum(shared(det, truth, 1, self.protocol.pixel), 0)
        area = det[4]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if self.protocol.single:
                # As floats of 64 bits that reach a threshold if they reach it as 32 bits.
                single = inter / (area + truth[4] - inter + EPSILON)
                iou = single.astype(np.float64)
                for threshold in self.protocol.ious:
                    equal = single == np.float32(threshold)
                    iou[equal] = np.maximum(iou[equal], threshold)
            else:
                iou = inter / (area + truth[4] - inter + self.protocol.added_area)
            own_area = area + self.protocol.added_area
            ioa = np.where(grouped, inter / own_area, 0) if self.any_grouped else iou
        apart = ~(inter > 0)
        iou[apart] = -1
        if self.any_grouped:
            ioa[apart] = -1
        return iou, ioa

    def compare(
        self, rows: Longs, n_truth: Longs, first: Longs, floor: float, best_only: bool
    ) -> list[Found]:
        """Compare each of the detections `rows` with the `n_truth` ground truths from `first` on."""
        ends = np.cumsum(n_truth)
        cuts = [0]
        while cuts[-1] < len(ends):
            before = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
            cuts.append(max(int(np.searchsorted(ends, before + CHUNK, side="right")), cuts[-1] + 1))

        def one(part: slice) -> Found:
            before = int(ends[part.start - 1]) if part.start else 0
            count = n_truth[part]
            # Each detection as often as it has ground truths, and beside it those of its image and class: the
            # running number of the pair, moved from where its detection begins to where its ground truths do.
            local = np.repeat(np.arange(len(count)), count)
            truth_at = np.arange(int(ends[part.stop - 1]) - before)
            truth_at += np.repeat(first[part] - (ends[part] - count - before), count)
            det = self.measured(rows[part])
            # Most pairs lie apart in x already; only the others are looked at further.
            width = np.minimum(det[2][local], self.truth[2][truth_at])
            width -= np.maximum(det[0][local], self.truth[0][truth_at])
            width += self.protocol.pixel
            meets = np.flatnonzero(width > 0)
            local, truth_at = local[meets], truth_at[meets]
            iou, ioa = self.overlap(
                width[meets],
                tuple(c[local] for c in det),
                tuple(c[truth_at] for c in self.truth),
                self.grouped[truth_at],
            )
            kept = np.flatnonzero(iou >= floor if ioa is iou else (iou >= floor) | (ioa >= floor))
            high = iou[kept]
            high_ioa = high if ioa is iou else ioa[kept]
            pairs = self.named(rows[part][local[kept]], truth_at[kept], high, high_ioa)
            return self.best(pairs) if best_only else pairs

        return by_threads(one, list(map(slice, cuts, cuts[1:])))

    def named(self, rows: Longs, truth_at: Longs, iou: Floats, ioa: Floats) -> Found:
        """Pairs with the ground truth as a position in the joined side."""
        return rows.astype(np.int32), self.truth_order[truth_at].astype(np.int32), iou, ioa

    def best(self, pairs: Found) -> Found:
        """Return the best pair of each detection, and its best pair with a group-of box."""
        det, gt, iou, ioa = pairs
        group = self.is_group[gt]
        last = self.protocol.last_of_equals
        if group.any():
            plain, others = np.flatnonzero(~group), np.flatnonzero(group)
            of_plain = plain[best_of_each(det[plain], iou[plain], last=last)]
            of_groups = others[best_of_each(det[others], ioa[others])]
            kept = np.sort(np.concatenate([of_plain, of_groups]))
        else:
            kept = best_of_each(det, iou, last=last)
        high = iou[kept]
        return det[kept], gt[kept], high, high if ioa is iou else ioa[kept]


def _together(parts: Sequence[Found]) -> Found:
    det, gt, iou, ioa = zip(*parts, strict=True)
    overlap = np.concatenate(iou)
    shared = all(map(operator.is_, iou, ioa))
    return np.concatenate(det), np.concatenate(gt), overlap, overlap if shared else np.concatenate(ioa)


# ------------------------------------------------------------------------------------------ large groups


class LargeGroup(msgspec.Struct, frozen=True, eq=False):
    """The boxes of an image and class that has many boxes."""

    boxes: _Boxes
    det: Longs
    """Positions of the detections, by descending score."""
    truth: slice
    """The ground truths, by image and class."""
    floor: float
    best_only: bool

    def parts(self) -> Iterator[Found]:
        """Yield pairs by descending score of the detection, then ground truth, a bounded number at a time.

        As many detections are taken at a time as have a bounded number of pairs, which is found by trial.
        """
        start, size = 0, len(self.det)
        while start < len(self.det):
            size = min(size, len(self.det) - start)
            pairs = self._near(self.det[start : start + size])
            if pairs is None:
                size = -(-size // 2)
                continue
            yield pairs
            start += size
            if len(pairs[0]) < AT_A_TIME // 4:
                size *= 2

    def _near(self, rows: Longs) -> Found | None:
        """Return the pairs of some detections, each compared with the ground truths near it.

        None if they are too many.

        The plane is cut in two for as long as that spares comparisons.
        Boxes on both sides of a cut belong to both halves; a pair counts where its common area begins.
        """
        n_truth = self.truth.stop - self.truth.start
        det, truth = self.boxes.measured(rows), tuple(c[self.truth] for c in self.boxes.truth)
        chunks: list[Found] = []
        n = 0
        nowhere = -np.inf
        areas = [(np.arange(len(rows)), np.arange(n_truth), nowhere, nowhere)]
        while areas:
            d, t, left, top = areas.pop()
            if not len(d) or not len(t):
                continue
            if len(d) * len(t) > CHUNK and (halves := self._halved(det, truth, d, t)) is not None:
                (lower, upper), axis, cut = halves
                areas.append((*lower, left, top))
                areas.append((*upper, cut if axis == 0 else left, cut if axis == 1 else top))
                continue
            for one, other, iou, ioa in self._cross(det, truth, d, t):
                is_near = np.maximum(det[0][one], truth[0][other]) >= left
                is_near &= np.maximum(det[1][one], truth[1][other]) >= top
                high = iou[is_near]
                spread = high if ioa is iou else ioa[is_near]
                chunks.append((one[is_near].astype(np.int32), other[is_near].astype(np.int32), high, spread))
                n += int(np.count_nonzero(is_near))
                if n > AT_A_TIME and len(rows) > 1:
                    return None
        if not chunks:
            return self.boxes.named(rows[:0], rows[:0], np.zeros(0), np.zeros(0))
        local, truth_at, iou, ioa = _together(chunks)
        order = np.argsort(local.astype(np.int64) * n_truth + truth_at)
        local, truth_at, iou, ioa = local[order], truth_at[order], iou[order], ioa[order]
        pairs = self.boxes.named(rows[local], truth_at + self.truth.start, iou, ioa)
        return self.boxes.best(pairs) if self.best_only else pairs

    def _cross(
        self, det: Columns, truth: Columns, d: Longs, t: Longs
    ) -> Iterator[tuple[Longs, Longs, Floats, Floats]]:
        """Yield the pairs among the boxes `d` and `t`."""
        theirs = tuple(c[t] for c in truth)
        grouped = self.boxes.grouped[self.truth][t]
        is_group = self.boxes.is_group[self.boxes.truth_order[self.truth][t]]
        step = max(1, CHUNK // len(t))
        for start in range(0, len(d), step):
            some = d[start : start + step]
            ours = tuple(c[some][:, None] for c in det)
            width = shared(ours, theirs, 0, self.boxes.protocol.pixel)
            iou, ioa = self.boxes.overlap(width, ours, theirs, grouped)
            if (
                self.best_only
            ):  # flat positions of the best pair of each row, and of its best with a group-of box
                score = [(iou, is_group), (ioa, ~is_group)] if is_group.any() else [(iou, is_group)]
                begin = np.arange(len(iou)) * len(t)
                best = []
                for overlap, others in score:
                    overlap_or_none = np.where((overlap >= self.floor) & ~others, overlap, -1)
                    last = self.boxes.protocol.last_of_equals
                    at = begin + (
                        len(t) - 1 - overlap_or_none[:, ::-1].argmax(axis=1)
                        if last
                        else overlap_or_none.argmax(axis=1)
                    )
                    best.append(at[overlap_or_none.ravel()[at] >= 0])
                kept = np.sort(np.concatenate(best))
            else:
                reach = iou >= self.floor if ioa is iou else (iou >= self.floor) | (ioa >= self.floor)
                kept = np.flatnonzero(reach)
            local = kept // len(t)
            truth_at = kept - local * len(t)
            high = iou.ravel()[kept]
            yield some[local], t[truth_at], high, high if ioa is iou else ioa.ravel()[kept]

    def _halved(
        self, det: Columns, truth: Columns, d: Longs, t: Longs
    ) -> tuple[tuple[_Half, _Half], int, float] | None:
        """Divide the boxes `d` and `t` by a line.

        Returns both halves, and the axis and position of the line; None if none saves a fifth of the pairs.

        The line is one of those at which a quarter, half or three quarters of the boxes begin.
        """
        pixel = self.boxes.protocol.pixel
        best = 0.8 * len(d) * len(t)
        halves = None
        for axis in (0, 1):
            edges = [(side[axis][rows], side[axis + 2][rows]) for side, rows in ((det, d), (truth, t))]
            low = np.sort(np.concatenate([low for low, _ in edges]))
            for quarter in (2, 1, 3):
                cut = float(low[len(low) * quarter // 4])
                if not math.isfinite(cut):
                    continue
                below = [low < cut for low, _ in edges]
                above = [high + pixel >= cut for _, high in edges]
                cost = sum(float(np.count_nonzero(a)) * np.count_nonzero(b) for a, b in (below, above))
                if cost <= best:
                    best = cost
                    halves = ((d[below[0]], t[below[1]]), (d[above[0]], t[above[1]])), axis, cut
        return halves
