"""Fit shapes to what a target can hold: convert, join, trace or drop them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.codes import report_unfillable
from odm.converters.ledger import Ledger
from odm.formats import Format
from odm.issues import Log, UsageError, spell, spell_setting
from odm.masks.runs import Runs, split_by_size, sum_groups
from odm.masks.trace import trace_all
from odm.tables import Boxes, Dataset, Floats, Ints, ShapeKind, ShapeRows, Shapes, freeze
from odm.tables.extra_fields import NOTHING, SHAPES
from odm.tables.groups import find_objects
from odm.tables.quadrilaterals import distances_from_rectangle, smallest_rectangle
from odm.tables.shapes import join_by_bridges

AsShapes = Literal["box", "polygon", "mask", "oriented"]
"""What to write in place of shapes as they are."""
AS_SHAPES = get_args(AsShapes)

SAME = 1e-6
"""Pixels by which coordinates may differ and still count as equal."""
RECTANGLE = 0.5
"""Pixels by which the corners of a quadrilateral may differ from a rectangle that is written instead."""
_RUNS_AT_A_TIME = 2**20

Rows = NDArray[np.int64]


def settle(dataset: Dataset) -> Dataset:
    """Leave each shape of a checked dataset in one form: as it was read, in JSON, or as a row of `Shapes`.

    Outlines of fewer than three corners are dropped. A box that loses some loses its JSON, and is written
    from the rest; any other box with JSON has no row of `Shapes`. Keypoints in JSON replace the columns, too.
    """
    if "keypoints" in dataset.categories.extra:
        categories = replace(dataset.categories, keypoints=None, skeleton=None)
        dataset = replace(dataset, categories=categories)
    boxes = dataset.boxes
    keypoints = None if "keypoints" in boxes.extra else boxes.keypoints
    if boxes.shapes is None:
        return dataset if keypoints is boxes.keypoints else _replace_columns(dataset, keypoints=keypoints)
    shapes, extra = boxes.shapes.without_short_parts(), boxes.extra
    kept_shapes: Shapes | None = shapes
    if not SHAPES.isdisjoint(extra):
        # `ring` has the first outline of each box, so these are the numbers of outlines, now and before.
        is_cut = np.diff(shapes.ring) < np.diff(boxes.shapes.ring)
        if is_cut.any():  # the JSON of these boxes goes, so that they are written from the rest
            texts_and_cuts = zip(extra["segmentation"], is_cut.tolist(), strict=True)
            extra = {**extra, "segmentation": tuple(b"" if cut else text for text, cut in texts_and_cuts)}
        has_json = np.zeros(len(boxes), np.bool_)  # whether the JSON of a shape is not empty (`NOTHING`)
        for key in (SHAPES - {"keypoints"}) & extra.keys():
            has_json |= ~np.fromiter(map(NOTHING.__contains__, extra[key]), np.bool_, len(boxes))
        rows = np.flatnonzero(~has_json & (shapes.kind > 0))
        kept_shapes = Shapes.none(len(boxes)).replace_rows(rows, shapes.take(rows)) if len(rows) else None
    return _replace_columns(dataset, shapes=kept_shapes, extra=extra, keypoints=keypoints)


def suggest_shapes(dataset: Dataset, target: Format, log: Log) -> None:
    """Note the option that writes polygons if every object has one, or a mask, and `target` drops both.

    A reader only counts the shapes that the target does not hold, in `dataset.extras`.
    """
    shapes, option = dataset.boxes.shapes, target.shape_options.get("polygon")
    if not len(dataset) or option is None or {"polygon", "mask"} & target.keeps:
        return
    n_outlined = dataset.extras.get("segmentation", 0)
    if shapes is not None:
        n_outlined += int(np.isin(shapes.kind, (ShapeKind.POLYGONS, ShapeKind.MASK)).sum())
    if n_outlined >= len(dataset):
        log.note(
            f"all objects have polygons or masks, which are not written: {spell_setting(option)} writes them"
        )


def report_too_large(
    dataset: Dataset, target: Format, log: Log, shapes: AsShapes | None = None
) -> NDArray[np.bool_]:
    """Report the outlines that `fit` would have to fill but that are too large, and return a mask (n,) of
    them.

    `shapes` is what the user wants written; an outline is filled for a mask, or to join its parts.
    """
    is_too_large = np.zeros(len(dataset), np.bool_)
    outlines, keeps = dataset.boxes.shapes, target.keeps
    if outlines is None:
        return is_too_large
    are_masks = shapes == "mask" or (shapes is None and "mask" in keeps and "polygon" not in keeps)
    if are_masks or ("polygon" in keeps and "parts" not in keeps):
        rows = np.flatnonzero(
            (outlines.kind == ShapeKind.POLYGONS) & (are_masks | (np.diff(outlines.ring) > 1))
        )
        width = dataset.limits()[dataset.boxes.image[rows], 0]
        # To be joined, the masks of outlines are compared, and so held in memory.
        large, n_columns, limit = outlines.take(rows).find_unfillable(width, is_held=not are_masks)
        large_rows = rows[large]  # `large` are positions in `rows`
        report_unfillable(dataset, large_rows, n_columns, limit, log)
        is_too_large[large_rows] = True
    return is_too_large


def fit(dataset: Dataset, target: Format, ledger: Ledger, *, shapes: AsShapes | None = None) -> Dataset:
    """Return the dataset with the shapes and keypoints that the target can hold; changes are booked.

    Parameters
    ----------
    shapes
        What all shapes are to be, where the user asked for it; UsageError if the target does not hold it.
    """
    shapes_kept = dataset.boxes.shapes
    if shapes_kept is not None:
        shapes_kept = _convert_shapes(shapes_kept, target, _Fitting(dataset, ledger), shapes)
        dataset = _replace_columns(dataset, shapes=shapes_kept)
    elif (
        shapes == "oriented" and "oriented" not in target.keeps
    ):  # as which plain boxes could be written, too
        raise UsageError(f"{spell('shapes')} oriented: {target.name} has no oriented boxes")
    if target.boxes_as_shapes and len(dataset):
        dataset = _add_rectangles(dataset, outlines="polygon" in target.keeps, ledger=ledger)
    if shapes_kept is not None and target.shape_is_box:  # it writes no box beside a shape
        _book_boxes(dataset.boxes, ledger)
    if "group" in target.keeps and dataset.boxes.group is not None:
        dataset = _drop_groups(dataset, dataset.boxes.group, ledger)
    points = dataset.boxes.keypoints
    if points is None:
        return dataset
    if "keypoints" not in target.keeps:
        ledger.lose(
            "keypoints of boxes" + target.shape_advice("keypoints"), int(np.count_nonzero(points.counts()))
        )
        return _replace_columns(dataset, keypoints=None)
    if "visibility" not in target.keeps:
        hidden = int(np.count_nonzero(points.xyv[:, 2] == 1))
        ledger.lose("visibility of hidden keypoints", hidden)
    return dataset


def _convert_shapes(
    shapes: Shapes, target: Format, fitting: _Fitting, as_shapes: AsShapes | None
) -> Shapes | None:
    """Convert or drop each kind of shape that `target` does not keep; None if no shape is left.

    `as_shapes` is what the user wants for all. Otherwise oriented boxes become outlines, masks outlines and
    outlines masks only if the target keeps the latter and not the former, and rectangles oriented boxes if
    it keeps no outlines. What is left over is lost.
    """
    keeps, ledger = target.keeps, fitting.ledger
    if as_shapes == "box":
        ledger.change(f"shapes written as boxes ({spell('shapes')} box)", int(np.count_nonzero(shapes.kind)))
        return None
    if as_shapes is not None and as_shapes not in keeps:
        raise UsageError(
            f"{spell('shapes')} {as_shapes}: {target.name} does not hold such shapes"
            f"{target.shape_advice(as_shapes)}"
        )
    # Each step leaves shapes of one kind fewer, and may make some of a kind that a later step converts:
    # oriented boxes become outlines, or outlines oriented boxes; then outlines masks, or masks outlines.
    oriented = as_shapes == "oriented"
    if "oriented" not in keeps or as_shapes in ("polygon", "mask"):
        if "polygon" in keeps or as_shapes == "mask":
            shapes = fitting.outline_oriented(shapes)
    elif oriented or "polygon" not in keeps:
        shapes = fitting.find_oriented(shapes, any_shape=oriented)
    if as_shapes == "mask" or ("mask" in keeps and "polygon" not in keeps):
        shapes = fitting.draw_outlines(shapes)
    elif as_shapes == "polygon" or ("polygon" in keeps and "mask" not in keeps):
        shapes = fitting.trace_masks(shapes)
    if "polygon" in keeps and "parts" not in keeps:  # one outline for each object
        shapes = fitting.join_outlines(shapes)
    if "rectangle" in keeps:
        shapes = fitting.make_rectangular(shapes, max(SAME, target.max_error_px))
    # What is left over, by kind, word of `Format.keeps` and noun in the summary.
    for kind, word, noun in (
        (ShapeKind.POLYGONS, "polygon", "outlines of boxes"),
        (ShapeKind.MASK, "mask", "masks of boxes"),
        (ShapeKind.ORIENTED, "oriented", "oriented boxes, written as the boxes around them"),
    ):
        rows = np.flatnonzero(shapes.kind == kind)
        if len(rows) and word not in keeps:
            ledger.lose(noun + target.shape_advice(word), len(rows))
            shapes = shapes.replace_rows(rows, Shapes.none(len(rows)))
    return shapes if shapes.kind.any() else None


def _drop_groups(dataset: Dataset, group: Ints, ledger: Ledger) -> Dataset:
    """Drop the group of boxes that are objects of their own, but would be read back as parts of one.

    Readers join the outlines and masks of one group, so all of these but the first lose it. `group` (n,) is
    that of each box, -1 = none.
    """
    boxes = dataset.boxes
    shape_kind = np.zeros(len(boxes), np.uint8) if boxes.shapes is None else boxes.shapes.kind
    is_part = (shape_kind == ShapeKind.POLYGONS) | (shape_kind == ShapeKind.MASK)
    is_box = shape_kind == ShapeKind.NONE
    objects = find_objects(boxes.image, boxes.category, group, is_part, is_box, boxes.xyxy)
    later_rows = [row for part_rows, _ in objects for row in part_rows[1:]]  # the first box keeps its group
    ledger.change("groups not written, as their boxes would be read as one object", len(later_rows))
    group = group.copy()
    group[later_rows] = -1
    return _replace_columns(dataset, group=freeze(group))


def _replace_columns(dataset: Dataset, **columns: Any) -> Dataset:
    """Replace columns of the boxes of a dataset."""
    return replace(dataset, boxes=replace(dataset.boxes, **columns))


def _set_kind(shapes: Shapes, rows: Rows, kind: ShapeKind) -> Shapes:
    """Return the shapes with those at `rows` as another kind; corners are unchanged."""
    kinds = shapes.kind.copy()
    kinds[rows] = kind
    return replace(shapes, kind=freeze(kinds))


class _Fitting:
    """Conversions of the shapes of one dataset; each is booked in the ledger.

    Each method takes shapes of all boxes and returns them with those of one kind converted. ``width`` and
    ``height`` (n,) are those of the image of each box, and ``has_size`` whether both are known.
    """

    def __init__(self, dataset: Dataset, ledger: Ledger) -> None:
        self.ledger = ledger
        size = dataset.limits()[dataset.boxes.image]
        self.width, self.height = size[:, 0], size[:, 1]
        self.has_size: Any = (size > 0).all(axis=1)

    def make_runs(self, shapes: Shapes, rows: Rows) -> Runs:
        """Return the masks of the shapes at `rows`."""
        return shapes.take(rows).runs(self.height[rows], self.width[rows])

    def split_rows(self, shapes: Shapes, rows: Rows) -> list[Rows]:
        """Divide `rows`, (n,) row numbers, into consecutive parts whose masks and corners fit into memory."""
        if not len(rows):
            return []
        selected = shapes.take(rows)
        # For each box at most so many runs, plus the corners of all its outlines: `ring` has the first
        # outline of each box and `point` the first corner of each outline, so point[ring] that of each box.
        n_runs_and_corners = selected.bound_n_runs(self.width[rows]) + np.diff(selected.point[selected.ring])
        return [rows[piece] for piece in split_by_size(n_runs_and_corners, _RUNS_AT_A_TIME)]

    def outline_oriented(self, shapes: Shapes) -> Shapes:
        """Convert oriented boxes to outlines of four corners."""
        rows = np.flatnonzero(shapes.kind == ShapeKind.ORIENTED)
        if not len(rows):
            return shapes
        self.ledger.change("oriented boxes written as outlines", len(rows))
        return _set_kind(shapes, rows, ShapeKind.POLYGONS)

    def trace_masks(self, shapes: Shapes, *, book: bool = True) -> Shapes:
        """Convert masks to outlines along the edges of their pixels; `book` enters it in the ledger."""
        rows = np.flatnonzero((shapes.kind == ShapeKind.MASK) & self.has_size)
        if book:
            self.ledger.change("masks written as outlines along their pixel edges", len(rows))
        return self._replace(shapes, rows, lambda part: self._trace(self.make_runs(shapes, part), part))

    def draw_outlines(self, shapes: Shapes) -> Shapes:
        """Convert outlines to masks."""
        rows = np.flatnonzero((shapes.kind == ShapeKind.POLYGONS) & self.has_size)
        self.ledger.change("outlines written as masks", len(rows))
        return shapes.replace_rows(rows, shapes.take(rows).fill_outlines(self.height[rows], self.width[rows]))

    def join_outlines(self, shapes: Shapes) -> Shapes:
        """Join the outlines of each object into one by bridges of no width.

        Where that would change the mask, as parts overlap, the mask is traced instead.
        """
        rows: Rows = np.flatnonzero((shapes.kind == ShapeKind.POLYGONS) & (np.diff(shapes.ring) > 1))
        if not len(rows):
            return shapes
        outlines, joined_rows = shapes.take(rows), ShapeRows()
        for i in range(len(rows)):
            joined_rows.polygons([join_by_bridges(outlines.polygons(i))])
        joined_shapes = joined_rows.table()
        assert joined_shapes is not None
        is_equal: Any = np.ones(len(rows), bool)  # also where no mask can be drawn, as the size is unknown
        for piece_rows in self.split_rows(shapes, rows[self.has_size[rows]]):
            index = np.searchsorted(rows, piece_rows)  # positions in `rows`, and so in `outlines`
            size = self.height[piece_rows], self.width[piece_rows]
            is_equal[index] = _find_equal_masks(
                outlines.take(index).runs(*size), joined_shapes.take(index).runs(*size)
            )
        overlap = np.flatnonzero(~is_equal)
        self.ledger.change("parts of outlines joined into one", len(rows) - len(overlap))
        self.ledger.change("parts that overlap, redrawn as one outline along their pixel edges", len(overlap))
        if len(overlap):
            piece_rows = rows[overlap]
            redrawn = self._replace(
                shapes, piece_rows, lambda part: self._trace(self.make_runs(shapes, part), part)
            )
            joined_shapes = joined_shapes.replace_rows(overlap, redrawn.take(piece_rows))
        return shapes.replace_rows(rows, joined_shapes)

    def find_oriented(self, shapes: Shapes, *, any_shape: bool) -> Shapes:
        """Convert outlines that are rectangles to oriented boxes.

        With `any_shape`, all others are converted to the smallest rectangle around them.
        """
        rows = np.flatnonzero((shapes.kind == ShapeKind.POLYGONS) & shapes.has_four_corners())
        rows = rows[distances_from_rectangle(shapes.corners(rows)) <= SAME]
        self.ledger.change("outlines that are rectangles written as oriented boxes", len(rows))
        shapes = _set_kind(shapes, rows, ShapeKind.ORIENTED)
        if not any_shape:
            return shapes
        shapes = self.trace_masks(shapes, book=False)  # they are booked as rectangles, below
        # An empty mask was traced into no outline.
        rows = np.flatnonzero((shapes.kind == ShapeKind.POLYGONS) & (np.diff(shapes.ring) > 0))
        self.ledger.change("shapes written as the smallest rectangles around them", len(rows))
        return self._replace_by_rectangles(shapes, rows)

    def make_rectangular(self, shapes: Shapes, error: float) -> Shapes:
        """Replace oriented boxes whose corners are no rectangle by the smallest rectangles around them.

        Those within half a pixel of a rectangle stay, as the writer makes rectangles of them. They are booked
        if that moves a corner by more pixels than the `error` that the target documents.
        """
        rows = np.flatnonzero(shapes.kind == ShapeKind.ORIENTED)
        distance = distances_from_rectangle(shapes.corners(rows))
        moved = int(np.count_nonzero((distance > error) & (distance <= RECTANGLE)))
        self.ledger.change("quadrilaterals moved to a rectangle within half a pixel of them", moved)
        rows = rows[distance > RECTANGLE]
        self.ledger.change("quadrilaterals written as the smallest rectangles around them", len(rows))
        return self._replace_by_rectangles(shapes, rows)

    def _replace_by_rectangles(self, shapes: Shapes, rows: Rows) -> Shapes:
        """Replace the shapes at `rows` by the smallest rectangles around them, as oriented boxes."""
        if not len(rows):
            return shapes
        selected, rectangles = shapes.take(rows), ShapeRows()
        for i in range(len(rows)):
            rectangles.oriented(smallest_rectangle(np.concatenate(selected.polygons(i))))
        table = rectangles.table()
        assert table is not None
        return shapes.replace_rows(rows, table)

    def _trace(self, runs: Runs, rows: Rows) -> Shapes:
        """Trace masks into shapes of outlines; `rows` are the boxes that they belong to."""
        outlines_of_rows = ShapeRows()
        for outlines in trace_all(runs, self.height[rows]):
            outlines_of_rows.polygons(outlines)
        return outlines_of_rows.table() or Shapes.none(len(rows))

    def _replace(self, shapes: Shapes, rows: Rows, make: Callable[[Rows], Shapes]) -> Shapes:
        """Replace the shapes at `rows` by those that `make` returns; it is called for some rows at a time."""
        if not len(rows):
            return shapes
        replacements = [make(rows_part) for rows_part in self.split_rows(shapes, rows)]
        return shapes.replace_rows(rows, Shapes.concatenate(replacements))


def _add_rectangles(dataset: Dataset, outlines: bool, ledger: Ledger) -> Dataset:
    """Give each box without a shape its rectangle: with `outlines` as outline, else as oriented box."""
    boxes = dataset.boxes
    shapes = boxes.shapes or Shapes.none(len(boxes))
    rows = np.flatnonzero(shapes.kind == ShapeKind.NONE)
    if boxes.shapes is not None or outlines:  # else plain boxes become oriented boxes of angle 0: no change
        ledger.change("boxes without an outline written as rectangles", len(rows))
    kind = ShapeKind.POLYGONS if outlines else ShapeKind.ORIENTED
    return _replace_columns(
        dataset, shapes=shapes.replace_rows(rows, Shapes.of_boxes(boxes.xyxy[rows], kind))
    )


def _book_boxes(boxes: Boxes, ledger: Ledger) -> None:
    """Book boxes that differ from the bounds of their shapes, where only the shapes are written."""
    assert boxes.shapes is not None
    differs = (np.abs(boxes.shapes.edges() - boxes.xyxy) > SAME).any(axis=1)
    ledger.change("boxes that the target takes from their outline", int(np.count_nonzero(differs)))


def clip_outlines(dataset: Dataset, has_size: NDArray[np.bool_], ledger: Ledger) -> Dataset:
    """Cut the outlines of boxes at the edges of their images; oriented boxes and keypoints stay.

    `has_size` (n,) is a mask of the boxes on images of known size. Parts of outlines that lie outside vanish;
    what is cut, and what stays beyond its image, is booked.
    """
    boxes = dataset.boxes
    limit = dataset.limits().astype(np.float64)[boxes.image]
    if boxes.shapes is not None:
        edges = boxes.shapes.edges()  # (n, 4) around each shape, NaN without one
        with np.errstate(invalid="ignore"):
            is_beyond = has_size & ((edges[:, :2] < 0).any(axis=1) | (edges[:, 2:] > limit).any(axis=1))
        kind = boxes.shapes.kind
        n_oriented = int(np.count_nonzero(is_beyond & (kind == ShapeKind.ORIENTED)))
        ledger.change("oriented boxes beyond their image, not clipped", n_oriented)
        cut_rows = np.flatnonzero(is_beyond & (kind == ShapeKind.POLYGONS))
        if len(cut_rows):
            clipped = ShapeRows()
            for i in cut_rows.tolist():
                outlines = [_clip_outline(outline, *limit[i]) for outline in boxes.shapes.polygons(i)]
                clipped.polygons([outline for outline in outlines if len(outline) >= 3])
            ledger.change("outlines clipped to their image", len(cut_rows))
            table = clipped.table() or Shapes.none(len(cut_rows))
            dataset = _replace_columns(dataset, shapes=boxes.shapes.replace_rows(cut_rows, table))
    if boxes.keypoints is not None:
        box_rows = np.repeat(np.arange(len(boxes)), boxes.keypoints.counts())  # of each keypoint
        x, y, v = boxes.keypoints.xyv.T
        width, height = limit[box_rows].T
        is_beyond_limit = (x < 0) | (y < 0) | (x > width) | (y > height)
        is_outside = is_beyond_limit & (v > 0) & has_size[box_rows]
        n = len(np.unique(box_rows[is_outside]))
        ledger.change("boxes with keypoints beyond their image, not clipped", n)
    return dataset


def _clip_outline(outline: Floats, width: float, height: float) -> Floats:
    """Return an outline, (k, 2) corners in pixels, cut at the four edges of an image.

    This is the algorithm of Sutherland and Hodgman (1974): for each edge, keep the corners inside it, and add
    a corner wherever a side of the outline crosses it.
    """
    # The axis (0 is x), the edge on it, and 1 if the image lies above this value, -1 if below.
    for axis, edge, sign in ((0, 0.0, 1), (0, width, -1), (1, 0.0, 1), (1, height, -1)):
        if not len(outline):
            break
        is_inside = sign * (outline[:, axis] - edge) >= 0
        next_corner = np.roll(outline, -1, axis=0)
        is_crossing = is_inside != np.roll(is_inside, -1)
        with np.errstate(divide="ignore", invalid="ignore"):  # of sides along the edge, which do not cross it
            share = (edge - outline[:, axis]) / (next_corner[:, axis] - outline[:, axis])
            crossings = outline + share[:, None] * (next_corner - outline)
        crossings[:, axis] = edge
        # In turns: corner 0, where the side after it crosses the edge, corner 1, ...
        candidates = np.stack([outline, crossings], axis=1).reshape(-1, 2)
        outline = candidates[np.stack([is_inside, is_crossing], axis=1).reshape(-1)]
    return outline


def _find_equal_masks(a: Runs, b: Runs) -> NDArray[np.bool_]:
    """Return (n,) True where mask i of `a` equals mask i of `b`."""
    n_edges = np.diff(a.starts)
    is_equal: NDArray[np.bool_] = n_edges == np.diff(b.starts)
    # Masks with as many edges of runs are equal if no edge differs.
    rows = np.flatnonzero(is_equal)
    left_runs, right_runs = a.take(rows), b.take(rows)
    is_equal[rows] = sum_groups(left_runs.edge != right_runs.edge, left_runs.starts) == 0
    return is_equal
