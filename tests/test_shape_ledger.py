"""Shapes through every format: what is read back is what was written, or the ledger says what became of it."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from one_format import WRITTEN
from shapely import Polygon
from shapely.geometry import MultiPoint

import odm
from odm import masks
from odm.converters import Ledger
from odm.converters.shapes import clip_outlines, fit, smallest_rectangle
from odm.formats import FORMATS, make_options
from odm.issues import UsageError
from odm.tables import Builder, ShapeKind, ShapeRows, keypoints_of
from odm.tables.shapes import rectangle_corners

W, H = 96, 80
SQUARE = [[10, 10], [40, 10], [40, 30], [10, 30]]
OUTLINE = [[10.5, 10.25], [40.5, 12], [38, 30.75], [22, 20], [12, 30]]
TURNED, OTHER = rectangle_corners(np.array([[50, 40, 40, 20, 0.5], [40, 30, 24, 14, -0.3]]))


def drawn(kinds="parts outline rectangle overlap mask turned none", points=True):
    """One box of each kind of shape in one image."""
    mask = np.zeros((H, W), bool)
    mask[10:40, 20:60] = True
    mask[20:30, 30:50] = False
    add = {
        "parts": lambda rows: rows.polygons([SQUARE, [[50, 40], [60, 40], [55, 60]]]),
        "outline": lambda rows: rows.polygons([OUTLINE]),
        "rectangle": lambda rows: rows.polygons([OTHER]),
        "overlap": lambda rows: rows.polygons([SQUARE, [[20, 20], [60, 20], [60, 60], [20, 60]]]),
        "mask": lambda rows: rows.mask(masks.encode(mask)["counts"].encode()),
        "turned": lambda rows: rows.oriented(TURNED),
        "none": lambda rows: rows.none(),
    }
    rows, builder = ShapeRows(), Builder()
    for kind in kinds.split():
        add[kind](rows)
    n = len(rows)
    shapes = rows.table()
    xyxy = shapes.edges()
    xyxy[shapes.kind == ShapeKind.MASK] = 20, 10, 60, 40
    xyxy[shapes.kind == ShapeKind.NONE] = 5, 6, 50, 60
    builder.image("a.jpg", width=W, height=H)
    builder.category("x")
    builder.boxes(
        image=np.zeros(n, int),
        category=np.zeros(n, int),
        xyxy=xyxy,
        shapes=shapes,
        keypoints=keypoints_of([[[12, 14, 2], [16, 18, 1], [0, 0, 0]]] * n) if points else None,
    )
    builder.kind = "gt"
    return builder.build()


def pixels(dataset):
    boxes = dataset.boxes
    size = np.full(len(boxes), H), np.full(len(boxes), W)
    runs = boxes.shapes.runs(*size)
    return [runs.edge[a:b].tolist() for a, b in zip(runs.starts[:-1], runs.starts[1:], strict=True)]


HOLDING = [name for name in WRITTEN if {"polygon", "mask", "oriented", "keypoints"} & FORMATS[name].keeps]


@pytest.mark.parametrize("name", HOLDING)
def test_what_a_format_keeps_of_a_shape_comes_back(name, tmp_path):
    data = drawn()
    format_ = FORMATS[name]
    target = tmp_path / ("out" + (format_.suffixes[0] if format_.single else ""))
    options = {key: value for key, value in {"copy_images": False}.items() if hasattr(format_.options, key)}
    ledger = odm.write(data, target, name, **options)
    adapted = format_.adapted(make_options(format_, options))
    sized = {} if "size" in adapted.keeps else {"image_size": f"{W}x{H}"}
    sized = {k: v for k, v in sized.items() if hasattr(format_.options, k)}
    back = odm.read(target, name, shapes=True, kind="gt", **sized)
    found = back.boxes.shapes
    booked = sum(
        n for what, n in ledger.lost.items() if "outline" in what or "mask" in what or "oriented" in what
    )
    assert len(back) == len(data)
    n_shapes = 0 if found is None else int(np.count_nonzero(found.kind))
    changed = sum(n for what, n in ledger.changed.items() if "written as rectangles" in what)
    assert n_shapes == 6 - booked + changed, ledger
    if found is not None and "polygon" in adapted.keeps:  # every pixel is where it was
        assert sorted(pixels(back)) == sorted(
            pixels(data) if not changed else pixels(fit(data, adapted, Ledger("a", "b", read=7)))
        )
    if "keypoints" in adapted.keeps:
        assert back.boxes.keypoints is not None
    else:
        assert any("keypoints" in what for what in ledger.lost)


@pytest.mark.parametrize("asked", ["box", "polygon", "mask", "oriented"])
def test_shapes_are_what_was_asked_for(asked, tmp_path):
    data = drawn(points=False)
    fitted = fit(data, FORMATS["coco"], ledger := Ledger("a", "coco", read=7), shapes=asked)
    assert ledger.lossless
    if asked == "box":
        assert fitted.boxes.shapes is None
        return
    kinds = set(fitted.boxes.shapes.kind.tolist())
    assert kinds == {ShapeKind.NONE, {"polygon": 1, "mask": 2, "oriented": 3}[asked]}
    if asked in ("polygon", "mask"):
        assert pixels(fitted) == pixels(data)
    with pytest.raises(UsageError, match="shapes oriented: lvis does not hold"):
        fit(data, FORMATS["lvis"], Ledger("a", "lvis", read=7), shapes="oriented")


def test_each_conversion_is_booked_once():
    lvis = replace(FORMATS["lvis"], keeps=frozenset({"polygon"}))
    ledger = Ledger("a", "lvis", read=7)
    one = fit(drawn(points=False), lvis, ledger)
    assert ledger.changed == {
        "oriented boxes written as outlines": 1,
        "masks written as outlines along their pixel edges": 1,
        "parts of outlines joined into one": 1,
        "parts that overlap, redrawn as one outline along their pixel edges": 1,
    }
    assert pixels(one) == pixels(drawn(points=False))
    assert (np.diff(one.boxes.shapes.ring) <= 1).all()


def test_the_smallest_rectangle_is_that_of_shapely():
    random = np.random.default_rng(3)
    for _ in range(100):
        points = random.random((random.integers(3, 12), 2)) * 100
        corners = smallest_rectangle(points)
        expected = MultiPoint(points).minimum_rotated_rectangle.area
        assert Polygon(corners).area == pytest.approx(expected, abs=1e-6)
        assert Polygon(corners).buffer(1e-6).contains(MultiPoint(points))


def test_clipped_outlines_fill_the_same_pixels():
    random = np.random.default_rng(5)
    for _ in range(60):
        rows = ShapeRows()
        rows.polygons([random.integers(-40, 140, (random.integers(3, 9), 2))])
        base = drawn("outline", points=False)
        data = replace(base, boxes=replace(base.boxes, shapes=rows.table()))
        cut = clip_outlines(data, np.ones(1, bool), Ledger("a", "b", read=1))
        edges = cut.boxes.shapes.edges()[0]
        if np.isfinite(edges).all():
            assert (edges >= 0).all()
            assert (edges <= [W, H, W, H]).all()
        ours, whole = (one.boxes.shapes.runs(np.array([H]), np.array([W])) for one in (cut, data))
        a, b = (masks.decode(masks_of(runs)) for runs in (ours, whole))
        # A corner moved to the edge may be off the fifth of a pixel that outlines are drawn on.
        assert np.count_nonzero(a != b) <= (H + W) / 2


def masks_of(runs):
    counts = runs.counts(np.array([H * W]))[1]
    return {"size": [H, W], "counts": counts.tolist()}


@pytest.mark.parametrize("name", [name for name, f in WRITTEN.items() if "rectangle" in f.keeps])
@pytest.mark.parametrize(
    ("off", "words"), [(0, ""), (0.2, "moved to a rectangle"), (2, "smallest rectangles")]
)
def test_quadrilaterals_that_move_are_booked(name, off, words, tmp_path):
    corners = rectangle_corners(np.array([[50, 40, 8, 5, 0.5]]))
    corners[0, 0] += [-off, off]
    box = np.array([[*corners[0].min(axis=0), *corners[0].max(axis=0)]])
    data = odm.Dataset.from_arrays(images=["a.jpg"], categories=["x"], image=[0], category=[0], xyxy=box,
                                   width=[100], height=[80], oriented=corners)  # fmt: skip
    target = tmp_path / ("out" + (FORMATS[name].suffixes[0] if FORMATS[name].single else ""))
    ledger = odm.write(data, target, name)
    assert [what for what in ledger.changed if "quadrilaterals" in what and words in what] or not words
    back = odm.read(target, name, shapes=True).boxes.shapes.corners([0])
    moved = np.abs(back - corners).max()
    assert (moved > max(1e-6, FORMATS[name].max_error_px)) == bool(words)
    assert words or not any("quadrilaterals" in what for what in ledger.changed)
