"""Measure masks, keypoints and oriented boxes, and find the pairs that a protocol compares.

The boxes around the shapes say which can overlap (`find_pairs`); of those that can overlap enough the shapes
themselves are measured, those of some images at a time. Sources: `mask.py` and `cocoeval.py` of pycocotools
(`segm`, `oks`), ``utils/metrics.py`` of Ultralytics (`probiou`, `pose`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec.structs import replace

from odm.evaluate.matching.order import argsort_descending, argsort_int
from odm.evaluate.matching.pairs import Columns, Pairs, find_pairs, intersection, measure_boxes
from odm.evaluate.matching.prepare import areas_of
from odm.evaluate.matching.sides import Joined, Mask, SideTable
from odm.evaluate.scores.protocols import IouType, Protocol
from odm.masks.bands import find_bands
from odm.masks.runs import Runs, count_shared_pixels, split_by_size
from odm.tables import Boxes, Floats, Ints, Longs, Shapes
from odm.tables.quadrilaterals import (
    distances_from_rectangle,
    make_convex,
    shared_areas,
    signed_areas,
    smallest_rectangle,
)
from odm.tables.shapes import as_rectangles, edges_of

BYTES_AT_A_TIME = 2**20
"""Masks, corners and points of both sides that are measured together; unpacked they take many times that."""

RUNS_AT_A_TIME = 2**22
"""Runs of the masks of a side that are held together."""

PAIRS_AT_A_TIME = 2**14
"""A quarter of so many pairs is measured together, an eighth of so many pairs of keypoints."""

_FEW = 1e-7
"""What Ultralytics adds to denominators."""

Overlap = tuple[Floats, Floats]
"""(pairs,) IoU, or the similarity that thresholds are about, and IoA, over the detection's area alone."""


def find_shape_pairs(
    joined: Joined,
    protocol: Protocol,
    floor: float,
    order: Longs | None = None,
    *,
    among: Mask | None = None,
    best_only: bool = False,
) -> Pairs:
    """Find pairs as `find_pairs` does, by the shapes that the protocol compares.

    With shapes, `best_only` is ignored.
    """
    if protocol.measure == "bbox":
        return find_pairs(joined, protocol, floor, order, among=among, best_only=best_only)
    rank = np.full(len(joined.detections), -1, np.int32)
    no_pairs = Pairs(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0), None, rank)
    pieces = list(_find_pieces(joined, protocol, floor, order, among, rank)) or [no_pairs]
    det, gt, iou = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("det", "gt", "iou")
    )
    ioa = None
    if pieces[0].ioa is not None:  # then all pieces have it
        ioa = np.concatenate([piece.ioa for piece in pieces if piece.ioa is not None])
    pairs, key = Pairs(det, gt, iou, ioa, rank), joined.keys_of(joined.detections)[det]
    # Those of an image and class with many boxes come after the others of their part.
    if (key[1:] < key[:-1]).any():
        by_rank = np.lexsort((gt, rank[det], key))
        pairs = Pairs(det[by_rank], gt[by_rank], iou[by_rank], None if ioa is None else ioa[by_rank], rank)
    return pairs


def iterate_pairs(joined: Joined, protocol: Protocol, floor: float) -> Iterator[Pairs]:
    """Yield the pairs that reach `floor`, a bounded number at a time; those of a detection are in one piece.

    With shapes, `Pairs.rank` is one array for all pieces, filled in image by image until the last one.
    """
    if protocol.measure == "bbox":
        yield from find_pairs(joined, protocol, floor).pieces()
    else:
        rank = np.full(len(joined.detections), -1, np.int32)
        yield from _find_pieces(joined, protocol, floor, order=None, among=None, rank=rank)


def measure_overlaps(joined: Joined, protocol: Protocol, det: Longs | Ints, gt: Longs | Ints) -> Overlap:
    """Measure the overlap of pairs; `det` and `gt`, each (pairs,), are positions in the joined sides."""
    iou, ioa = np.zeros(len(det)), np.zeros(len(det))
    if protocol.measure == "bbox":
        det_box = measure_boxes(joined.detections.xyxy[det], joined.detections.wh[det], protocol)
        gt_box = measure_boxes(joined.truth.xyxy[gt], joined.truth.wh[gt], protocol)
        (*_, det_area), (*_, gt_area) = det_box, gt_box
        inter = intersection(det_box, gt_box, protocol.pixel)
        with np.errstate(invalid="ignore", divide="ignore"):
            iou[:], ioa[:] = inter / (det_area + gt_area - inter), inter / det_area
        return iou, ioa
    for start in range(0, len(det), PAIRS_AT_A_TIME // 4):
        chunk = slice(start, start + PAIRS_AT_A_TIME // 4)
        (det_rows, det_index), (gt_rows, gt_index) = (
            np.unique(rows[chunk], return_inverse=True) for rows in (det, gt)
        )
        measure = _MEASURES[protocol.measure](joined.only(truth=gt_rows, detections=det_rows), protocol)
        iou[chunk], ioa[chunk] = measure.measure_overlaps(det_index.reshape(-1), gt_index.reshape(-1))
    return iou, ioa


def measure_areas(joined: Joined, side: SideTable, iou_type: IouType) -> Floats:
    """(n,) the areas of the masks or oriented boxes of a side of `joined`."""
    if iou_type == "obb":
        return np.abs(signed_areas(_get_corners(side)))
    shapes, (height, width) = _get_shapes(side), _get_sizes(joined, side)
    if (known_extents := shapes.known_extents(side.row, height)) is not None:  # measured by the checks
        known_areas, _ = known_extents
        return known_areas.astype(np.float64)
    rows = split_by_size(_estimate_bytes(side), BYTES_AT_A_TIME)
    areas = (shapes.take(side.row[piece]).extents(height[piece], width[piece])[0] for piece in rows)
    return np.concatenate([np.zeros(0), *areas])


def _find_pieces(
    joined: Joined,
    protocol: Protocol,
    floor: float,
    order: Longs | None,
    among: Mask | None,
    rank: Ints,
) -> Iterator[Pairs]:
    """Yield the pairs that reach `floor` of some images at a time, measured by their shapes.

    `rank`, (detections,), is filled in on the way: the rank of each detection in its image and class.
    """
    # Only detections of an image and class that has ground truth are measured. Detection i of a chunk is
    # number `det_start + i` of these, and `contending_rows` names its row in `joined`.
    takes_part = np.isin(joined.keys_of(joined.detections), joined.keys_of(joined.truth))
    if among is not None:
        takes_part &= among
    order = argsort_descending(joined.detections.score) if order is None else order
    number_of_contender = np.cumsum(takes_part) - 1
    order = number_of_contender[order[takes_part[order]]]
    contending_rows = np.flatnonzero(takes_part)
    if len(contending_rows) < len(joined.detections):  # no shape of the others is looked at
        joined = joined.only(detections=contending_rows)
    # The boxes around the shapes are compared plainly: all pairs that touch, whatever the rules for boxes.
    box_protocol = replace(protocol, measure="bbox", pixels="edges", as_given=False, single=False)
    has_groups = bool(protocol.by_ioa(joined.truth.flags).any())  # of all parts, which are joined
    for gt_start, det_start, chunk_order, chunk in _split_images(joined, order):
        measure = _MEASURES[protocol.measure](chunk, protocol)
        near_pairs = find_pairs(measure.surround_shapes(), box_protocol, 0.0, chunk_order)
        det_rows = contending_rows[det_start : det_start + len(chunk.detections)]
        rank[det_rows] = near_pairs.rank
        is_group = protocol.by_ioa(chunk.truth.flags)
        for piece in near_pairs.pieces():
            det, gt, iou, ioa = _measure_reaching(measure, piece, is_group, protocol, floor)
            yield Pairs(
                det_rows[det].astype(np.int32),
                (gt + gt_start).astype(np.int32),
                iou,
                ioa if has_groups else None,
                rank,
            )


def _measure_reaching(
    measure: _Measure, pairs: Pairs, is_group: Mask, protocol: Protocol, floor: float
) -> tuple[Ints, Ints, Floats, Floats]:
    """Return detection, ground truth, IoU and IoA, each (m,), of the pairs whose shapes reach `floor`. IoA is
    0 except with the ground truths that are compared by it too, under the mask `is_group`.
    """
    in_group, det, gt = is_group[pairs.gt], pairs.det, pairs.gt
    if measure.has_bounds:
        kept_rows = np.flatnonzero(measure.bound_ious(det, gt, in_group) >= floor)
        det, gt, in_group = det[kept_rows], gt[kept_rows], in_group[kept_rows]
    iou, ioa = measure.measure_overlaps(det, gt)
    _nudge_to_thresholds(iou, protocol)
    ioa[~in_group] = 0
    reaching = np.flatnonzero((iou > 0) & (iou >= floor) | (ioa > 0) & (ioa >= floor))
    return det[reaching], gt[reaching], iou[reaching], ioa[reaching]


def _split_images(joined: Joined, order: Longs) -> Iterator[tuple[int, int, Longs, Joined]]:
    """Yield the sides of a few consecutive images at a time, whose shapes have a bounded size.

    `order` are the positions of the detections by descending score. Yields the positions of the first ground
    truth and detection, the same order within the part, and the part. Parts without detections, which have no
    pairs, are left out.
    """
    n_images = len(joined.images)
    sizes = sum(
        np.bincount(side.image, _estimate_bytes(side), n_images) for side in (joined.truth, joined.detections)
    )
    image_ranges = split_by_size(np.asarray(sizes, np.int64), BYTES_AT_A_TIME)
    first_images = np.array([image_range.start for image_range in image_ranges] + [n_images])
    # Where the boxes of each range of images begin on either side, ordered by image, and the end.
    gt_bounds, det_bounds = (
        np.searchsorted(side.image, first_images).tolist() for side in (joined.truth, joined.detections)
    )
    # By range, and by score within each: the detections of a range are at the places `det` in both orders.
    range_numbers = np.searchsorted(first_images, joined.detections.image[order], side="right")
    order = order[argsort_int(range_numbers, len(first_images) + 1)]
    for i in range(len(image_ranges)):
        gt, det = slice(gt_bounds[i], gt_bounds[i + 1]), slice(det_bounds[i], det_bounds[i + 1])
        if det.start < det.stop:
            part = replace(joined, truth=joined.truth.take(gt), detections=joined.detections.take(det))
            yield gt.start, det.start, order[det] - det.start, part


def _estimate_bytes(side: SideTable) -> Longs:
    """(n,) roughly how many bytes the shape and the keypoints of each box take."""
    boxes, n_bytes = side.source, np.full(len(side), 64)  # of the other columns
    if boxes is None:
        return n_bytes
    if (shapes := boxes.shapes) is not None:
        corners = shapes.point[shapes.ring]  # where those of each box begin, as `mask` for the texts
        n_bytes += (np.diff(shapes.mask) + 16 * np.diff(corners))[side.row]  # x and y of each corner
    if boxes.keypoints is not None:  # x, y and visibility of each point
        n_bytes += 24 * boxes.keypoints.counts()[side.row]
    return n_bytes


def _get_source(side: SideTable) -> Boxes:
    """Return the boxes of the dataset of a side, with shapes and keypoints."""
    assert side.source is not None  # `adapt_to_shapes` refuses sides without shapes
    return side.source


def _nudge_to_thresholds(iou: Floats, protocol: Protocol) -> None:
    """Nudge IoUs (n,) that equal a threshold, in place, to the side on which the protocol counts them."""
    for threshold in protocol.ious:
        if protocol.strict:  # more than the threshold is asked for
            iou[iou == threshold] = np.nextafter(threshold, 0)
        elif protocol.single:  # reached as floats of 32 bits
            is_equal = iou == np.float32(threshold)
            iou[is_equal] = np.maximum(iou[is_equal], threshold)


# ---------------------------------------------------------------------------------------------- the measures


class _Measure:
    """The shapes of both sides, and (n, 4) the xyxy of the boxes around them."""

    has_bounds = False
    """Whether shapes share no more than the boxes around them, so that `bound_ious` can rule pairs out."""
    det_area: Any
    """(n,) areas of the shapes, not of measures of points; likewise `gt_area`."""
    gt_area: Any

    def __init__(self, joined: Joined, det_box: Floats, gt_box: Floats) -> None:
        self.joined, self.det_box, self.gt_box = joined, det_box, gt_box

    def surround_shapes(self) -> Joined:
        """Return both sides, with the boxes around the shapes instead of their stated boxes."""
        truth, detections = (
            replace(side, xyxy=xyxy, wh=xyxy[:, 2:] - xyxy[:, :2])
            for side, xyxy in ((self.joined.truth, self.gt_box), (self.joined.detections, self.det_box))
        )
        return replace(self.joined, truth=truth, detections=detections)

    def bound_ious(self, det: Ints, gt: Ints, in_group: Mask) -> Floats:
        """(pairs,) an upper bound of the IoU of each pair, or of its IoA under the mask `in_group`, (pairs,).

        It follows from the areas and the boxes around the shapes.
        """
        det_columns: Columns = tuple(self.det_box.take(det, axis=0).T)
        shared_max = intersection(det_columns, tuple(self.gt_box.take(gt, axis=0).T))
        det_area, gt_area = self.det_area[det], self.gt_area[gt]
        shared_max = np.minimum(shared_max, np.minimum(det_area, gt_area))
        union_min = np.where(in_group, det_area, det_area + gt_area - shared_max)
        limits: Floats = np.divide(
            shared_max, union_min, out=np.zeros(len(shared_max)), where=union_min > 0
        ) * (1 + 1e-9)  # rounding must not rule out a pair
        return limits

    def measure_overlaps(self, det: Any, gt: Any) -> Overlap:
        """Return IoU and IoA of pairs; `det` and `gt`, each (pairs,), are positions on the two sides."""
        shared_area, det_area, gt_area = self.measure_shared(det, gt), self.det_area[det], self.gt_area[gt]
        meets = shared_area > 0
        iou = np.divide(
            shared_area, det_area + gt_area - shared_area, out=np.zeros(len(shared_area)), where=meets
        )
        return iou, np.divide(shared_area, det_area, out=np.zeros(len(shared_area)), where=meets)

    def measure_shared(self, det: Any, gt: Any) -> Any:
        """(n,) the area that both shapes of each pair cover."""
        raise NotImplementedError


class _Masks(_Measure):
    """Masks and outlines by their pixels."""

    has_bounds = True

    def __init__(self, joined: Joined, protocol: Protocol) -> None:  # noqa: ARG002 -- as the others
        self.sides = [_SideMasks(joined, side) for side in (joined.detections, joined.truth)]
        self.is_large = sum(side.n_runs for side in self.sides) > RUNS_AT_A_TIME
        extents = [side.extents(is_large=self.is_large) for side in self.sides]
        (self.det_area, det_box), (self.gt_area, gt_box) = extents
        # From left, top, width and height to xyxy.
        boxes = (np.concatenate([b[:, :2], b[:, :2] + b[:, 2:]], axis=1) for b in (det_box, gt_box))
        super().__init__(joined, *(box.astype(np.float64) for box in boxes))

    def measure_shared(self, det: Any, gt: Any) -> Any:
        """(pairs,) the pixels that both masks of each pair cover."""
        rows = [np.asarray(det, np.int64), np.asarray(gt, np.int64)]
        if not self.is_large:
            (det_runs, det_index), (gt_runs, gt_index) = (
                side.runs_at(side_rows) for side, side_rows in zip(self.sides, rows, strict=True)
            )
            return count_shared_pixels(det_runs, det_index, gt_runs, gt_index)
        return self._measure_by_columns(rows)

    def _measure_by_columns(self, rows: list[Longs]) -> Longs:
        """Measure as `measure_shared` does, of masks too large together, some columns of pixels at a time;
        `rows` are the detections and the ground truths of the pairs.
        """
        side_shapes, cuts = [], set[int]()
        for side, side_rows in zip(self.sides, rows, strict=True):
            shapes, size, shape_index = side.take(side_rows)
            side_shapes.append((shapes, size, shape_index))
            cuts.update(shapes.find_column_cuts(size[1], RUNS_AT_A_TIME))
        areas = np.zeros(len(rows[0]), np.int64)
        for column_range in itertools.pairwise(sorted(cuts)):
            (det_runs, det_index), (gt_runs, gt_index) = (
                (shapes.runs(*size, column_range=column_range), shape_index)
                for shapes, size, shape_index in side_shapes
            )
            areas += count_shared_pixels(det_runs, det_index, gt_runs, gt_index)
        return areas


class _SideMasks:
    """The masks and outlines of a side; those measured before are decoded only where pairs need them."""

    def __init__(self, joined: Joined, side: SideTable) -> None:
        self.rows: Longs | Ints = side.row
        self.shapes, self.size = _get_shapes(side), _get_sizes(joined, side)
        # Areas and boxes of masks that were measured before: then `rows` leads to the shapes of the dataset.
        # Else `known` is None, and `shapes` are those of this side alone.
        self.known = self.shapes.known_extents(side.row, self.size[0])
        self.runs: Runs | None = None
        if self.known is None:
            self.shapes, self.rows = self.shapes.take(side.row), np.arange(len(side))
            self.n_runs = int(self.shapes.bound_n_runs(self.size[1]).sum())
        else:  # at most so many: each run takes a byte of the text or more
            self.n_runs = int((self.shapes.mask[side.row + 1] - self.shapes.mask[side.row]).sum())

    def extents(self, *, is_large: bool) -> tuple[Longs, Longs]:
        """Return (n,) areas and (n, 4) boxes, as `Shapes.extents` does.

        Those that are not known come from runs, which are kept unless the masks are too large.
        """
        if self.known is None and not is_large:
            self.runs = self.shapes.runs(*self.size)
            return self.runs.areas(), self.runs.boxes(self.size[0])
        return self.known or self.shapes.extents(*self.size)

    def take(self, positions: Longs) -> tuple[Shapes, tuple[Longs, Longs], Longs]:
        """Return the distinct shapes at (n,) positions, (height, width) of their images, and (n,) indices."""
        unique, index = np.unique(positions, return_inverse=True)
        height, width = self.size
        return (self.shapes.take(self.rows[unique]), (height[unique], width[unique]), index.reshape(-1))

    def runs_at(self, positions: Longs) -> tuple[Runs, Longs]:
        """Return the runs of the shapes at (n,) positions, and (n,) the index into them of each position."""
        if self.runs is not None:
            return self.runs, positions
        shapes, size, index = self.take(positions)
        return shapes.runs(*size), index


class _Bands(_Masks):
    """Masks compared by Boundary IoU: the smaller of their IoU and that of the bands inside their edges."""

    @functools.cached_property
    def bands(self) -> list[Runs]:
        """The bands of both sides."""
        return [find_bands(side.runs_at(np.arange(len(side.rows)))[0], *side.size) for side in self.sides]

    def measure_overlaps(self, det: Any, gt: Any) -> Overlap:
        """Return the smaller of both IoUs, and the IoA of the masks."""
        iou, ioa = super().measure_overlaps(det, gt)
        overlapping = np.flatnonzero(iou > 0)
        det_bands, gt_bands = self.bands
        det_rows, gt_rows = np.asarray(det)[overlapping], np.asarray(gt)[overlapping]
        shared_area = count_shared_pixels(
            det_bands, det_rows.astype(np.int64), gt_bands, gt_rows.astype(np.int64)
        )
        union = det_bands.areas()[det_rows] + gt_bands.areas()[gt_rows] - shared_area
        iou[overlapping] = np.minimum(iou[overlapping], shared_area / union)
        return iou, ioa


def _get_shapes(side: SideTable) -> Shapes:
    """Return the shapes of the dataset of a side, in its rows; none if the side has no boxes."""
    shapes = side.source.shapes if side.source is not None else None
    return Shapes.none(0) if shapes is None else shapes


def _get_sizes(joined: Joined, side: SideTable) -> tuple[Longs, Longs]:
    """(n,) height and width of the image of each box of a side, as the ground truth has them, else the
    detections.
    """
    assert joined.sizes is not None
    of_truth, of_detections = joined.sizes  # each (images, 2), 0 = not known
    height, width = np.where(of_truth > 0, of_truth, of_detections)[side.image].T
    return height, width


def find_unfillable(joined: Joined, side: SideTable, iou_type: IouType) -> tuple[Longs, list[int], int]:
    """Find the outlines of a side that are too large to fill.

    Returns (m,) their rows in the dataset, how many columns of pixels each has, and how many it may have.
    """
    shapes = _get_shapes(side)
    side = side.take(shapes.ring[side.row + 1] > shapes.ring[side.row])  # masks are filled already
    has_bands = iou_type == "boundary"  # bands are of whole masks
    rows, columns, n_columns_max = shapes.take(side.row).find_unfillable(
        _get_sizes(joined, side)[1], is_held=has_bands
    )
    return side.row[rows].astype(np.int64), columns, n_columns_max


class _Quads(_Measure):
    """Oriented boxes by the areas of their quadrilaterals."""

    has_bounds = True

    def __init__(self, joined: Joined, protocol: Protocol) -> None:  # noqa: ARG002 -- as the others
        self.det, self.gt = _get_corners(joined.detections), _get_corners(joined.truth)
        super().__init__(joined, *map(edges_of, (self.det, self.gt)))
        self.det_area, self.gt_area = (np.abs(signed_areas(quad)) for quad in (self.det, self.gt))

    def measure_shared(self, det: Any, gt: Any) -> Any:
        """(pairs,) the area that both quadrilaterals of each pair cover."""
        return shared_areas(self.det[det], self.gt[gt])


def _get_corners(side: SideTable) -> Floats:
    """(n, 4, 2) the corners of a side's oriented boxes, their hulls where they are not convex."""
    if side.source is None or side.source.shapes is None:  # all are upright
        left, top, right, bottom = side.xyxy.T
        return np.stack([left, top, right, top, right, bottom, left, bottom], axis=1).reshape(-1, 4, 2)
    return make_convex(side.source.shapes.corners(side.row))


class _ProbIou(_Quads):
    """Oriented boxes as normal distributions with the same middle and spread, as `yolo val` compares them."""

    has_bounds = False

    def __init__(self, joined: Joined, protocol: Protocol) -> None:
        super().__init__(joined, protocol)
        self.spreads = _fit_normals(self.det), _fit_normals(self.gt)

    def measure_overlaps(self, det: Any, gt: Any) -> Overlap:
        """Return the ProbIoU of pairs, as IoU and as IoA, computed in 32 bits as Ultralytics does."""
        # The Bhattacharyya distance of two normal distributions with middles (x, y) and covariances
        # [[a, c], [c, b]]; the Hellinger distance of the two follows from it, and ProbIoU is 1 less that.
        eps = np.float32(_FEW)
        (x1, y1, a1, b1, c1), (x2, y2, a2, b2, c2) = (
            spread[rows].T for spread, rows in zip(self.spreads, (det, gt), strict=True)
        )
        a, b, c = a1 + a2, b1 + b2, c1 + c2
        determinant = a * b - c**2
        distance_term = (a * (y2 - y1) ** 2 + b * (x2 - x1) ** 2) / (determinant + eps) / 4
        covariance_term = c * (x1 - x2) * (y2 - y1) / (determinant + eps) / 2
        determinants = np.sqrt(np.maximum(a1 * b1 - c1**2, 0) * np.maximum(a2 * b2 - c2**2, 0))
        shape_term = np.log(determinant / (4 * determinants + eps) + eps) / 2
        distance = np.clip(distance_term + covariance_term + shape_term, eps, np.float32(100))
        value = (1 - np.sqrt(1 - np.exp(-distance) + eps)).astype(np.float64)
        return value, value.copy()


RECTANGLE = 0.5
"""Pixels by which a corner may differ from that of a rectangle that stands for four corners."""


def _fit_normals(corners: Floats) -> Floats:
    """(n, 5) x and y of the middle, variances of x and of y, and covariance, of oriented boxes as the normal
    distributions that ProbIoU compares; float32, because Ultralytics computes in 32 bits.

    `corners` are (n, 4, 2). Where they are no rectangle, the smallest rectangle around them is used.
    """
    crooked_rows = np.flatnonzero(distances_from_rectangle(corners) > RECTANGLE)
    if len(crooked_rows):
        corners = corners.copy()
        corners[crooked_rows] = [smallest_rectangle(quadrilateral) for quadrilateral in corners[crooked_rows]]
    x, y, w, h, angle = as_rectangles(corners).astype(np.float32).T
    # A side of length w has the variance of a uniform distribution over it, w**2 / 12.
    var_along, var_across, cos, sin = w**2 / 12, h**2 / 12, np.cos(angle), np.sin(angle)
    columns = (
        x,
        y,
        var_along * cos**2 + var_across * sin**2,
        var_along * sin**2 + var_across * cos**2,
        (var_along - var_across) * cos * sin,
    )
    return np.stack(columns, axis=1)


class _Points(_Measure):
    """Object keypoint similarity (OKS): how near the points lie to the labelled ones, by the object's size.

    Every pair of an image and class is measured: as boxes around the shapes, all have the unit square.
    """

    def __init__(self, joined: Joined, protocol: Protocol) -> None:
        k, unit_square = len(protocol.sigmas), np.array([[0.0, 0, 1, 1]])
        sides = joined.detections, joined.truth
        super().__init__(joined, *(np.repeat(unit_square, len(side), axis=0) for side in sides))
        self.variance = (np.array(protocol.sigmas) * 2) ** 2
        self.det, self.gt = (_get_points(side, k) for side in sides)
        self.area = areas_of(joined.truth)

    def measure_overlaps(self, det: Any, gt: Any) -> Overlap:
        """Return the OKS of pairs, as IoU and as IoA."""
        step = PAIRS_AT_A_TIME // 8
        parts = [self.measure_oks(det[i : i + step], gt[i : i + step]) for i in range(0, len(det), step)]
        value = np.concatenate([np.zeros(0), *parts])
        return value, value.copy()

    def measure_oks(self, det: Any, gt: Any) -> Floats:
        """(pairs,) OKS as pycocotools computes it, to the last bit: the same operations in the same order."""
        (gt_x, gt_y, gt_v), (det_x, det_y, _) = self.gt.take(gt, axis=1), self.det.take(det, axis=1)
        dx, dy, is_seen = det_x - gt_x, det_y - gt_y, gt_v > 0
        n_seen = is_seen.sum(axis=1)
        unlabelled = np.flatnonzero(n_seen == 0)
        if len(unlabelled):  # from a box of three times the size around the ground truth
            truth, rows = self.joined.truth, gt[unlabelled]
            for axis, distance in enumerate((dx, dy)):
                start, size = truth.xyxy[rows, axis, None], truth.wh[rows, axis, None]
                z = self.det[axis, det[unlabelled]]
                distance[unlabelled] = np.maximum(0, start - size - z) + np.maximum(0, z - (start + size * 2))
        with np.errstate(over="ignore"):
            exponents = (dx**2 + dy**2) / self.variance / (self.area[gt] + np.spacing(1))[:, None] / 2
        value, means = np.exp(-exponents), np.empty(len(det))
        for n_points in np.flatnonzero(np.bincount(n_seen)).tolist():
            # As many numbers are summed as pycocotools sums, so that rounding is the same.
            rows = np.flatnonzero(n_seen == n_points)
            similarity = value[rows] if n_points == 0 else value[rows][is_seen[rows]].reshape(-1, n_points)
            means[rows] = similarity.sum(axis=1) / similarity.shape[1]
        return means


def _get_points(side: SideTable, k: int) -> Floats:
    """(3, n, k) x, y and visibility of the keypoints of a side."""
    points = _get_source(side).keypoints
    assert points is not None
    return np.ascontiguousarray(points.take(side.row).xyv.reshape(-1, k, 3).transpose(2, 0, 1))


class _Pose(_Points):
    """OKS as `yolo val` computes it, in 32 bits, with 0.53 of the box as the area of the object."""

    def measure_oks(self, det: Any, gt: Any) -> Floats:
        """(pairs,) OKS; 0 for a ground truth without labelled points."""
        epsilon, wh = np.float32(_FEW), self.joined.truth.wh[gt].astype(np.float32)
        det_points = self.det.take(det, axis=1).astype(np.float32)
        gt_points = self.gt.take(gt, axis=1).astype(np.float32)
        area = wh[:, 0] * wh[:, 1] * np.float32(POSE_AREA)
        distance = ((det_points[:2] - gt_points[:2]) ** 2).sum(axis=0)
        exponents = distance / (self.variance.astype(np.float32) * (area + epsilon)[:, None] * 2)
        is_seen = gt_points[2] != 0
        oks = (np.exp(-exponents) * is_seen).sum(axis=1) / (is_seen.sum(axis=1) + epsilon)
        means: Floats = oks.astype(np.float64)
        return means


POSE_AREA = 0.53
"""The area of a person as a share of its box, where it is not given (xtcocotools, Ultralytics)."""

_MEASURES: dict[str, Any] = {
    "segm": _Masks,
    "boundary": _Bands,
    "oks": _Points,
    "pose": _Pose,
    "quads": _Quads,
    "probiou": _ProbIou,
}
