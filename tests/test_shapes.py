"""Shapes and keypoints of boxes: the columns themselves, and what edits and merges do with them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import odm
from odm.converters.edit import Edits, apply_edits
from odm.converters.ledger import Ledger
from odm.converters.merging import merge
from odm.issues import Log, UsageError
from odm.tables import Builder, Dataset, Keypoints, ShapeKind, Shapes
from odm.tables.quadrilaterals import smallest_rectangle

corner = st.tuples(st.floats(-9, 99), st.floats(-9, 99))
outline = st.lists(corner, min_size=3, max_size=6)
shape = st.one_of(
    st.just(("none", None)),
    st.tuples(st.just("polygons"), st.lists(outline, min_size=1, max_size=3)),
    st.tuples(st.just("mask"), st.binary(max_size=9)),
    st.tuples(st.just("oriented"), st.lists(corner, min_size=4, max_size=4)),
)


def shapes_of(rows):
    from odm.tables import ShapeRows

    table = ShapeRows()
    for kind, value in rows:
        if kind == "none":
            table.none()
        else:
            getattr(table, kind)(value)
    found = table.table()
    return Shapes.none(len(rows)) if found is None else found


def listed(shapes):
    return [
        (int(kind), [p.tolist() for p in shapes.polygons(i)], shapes.counts(i))
        for i, kind in enumerate(shapes.kind)
    ]


@given(st.lists(shape, min_size=1, max_size=7), st.data())
def test_rows_of_shapes_are_taken_and_joined_as_lists_are(rows, data):
    shapes = shapes_of(rows)
    expected = listed(shapes)
    for (kind, value), (number, outlines, counts) in zip(rows, expected, strict=True):
        assert number == ShapeKind[kind.upper()]
        assert outlines == {
            "polygons": [[list(c) for c in ring] for ring in value or ()] if kind == "polygons" else [],
            "oriented": [[list(c) for c in value]] if kind == "oriented" else [],
        }.get(kind, [])
        assert counts == (value if kind == "mask" else b"")
    some = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9))
    assert listed(shapes.take(np.array(some, np.int64))) == [expected[i] for i in some]
    under = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    kept = [one for one, keep in zip(expected, under, strict=True) if keep]
    assert listed(shapes.take(under)) == kept
    assert listed(Shapes.concatenate([shapes, Shapes.none(2), shapes.take(under)])) == [
        *expected,
        *listed(Shapes.none(2)),
        *kept,
    ]
    same = [[a == b for b in expected] for a in expected]
    assert [[a == b for b in shapes.row_keys()] for a in shapes.row_keys()] == same
    for i, box in enumerate(shapes.edges()):
        corners = np.array([c for ring in expected[i][1] for c in ring])
        around = [*corners.min(0), *corners.max(0)] if len(corners) else [np.nan] * 4
        np.testing.assert_array_equal(box, around)


def drawn(names=("person", "dog"), points=(("nose", "eye"), ("snout", "tail")), image="a.jpg") -> Dataset:
    builder = Builder()
    builder.image(image, width=100, height=80)
    for name, of in zip(names, points, strict=True):
        builder.describe_points(builder.category(name), of, [(0, 1)])
    shapes = shapes_of(
        [("polygons", [[(1, 1), (9, 1), (9, 9)]]), ("none", None), ("mask", b"0150"), ("none", None)]
    )
    builder.boxes(
        image=np.zeros(4, int),
        category=np.array([0, 1, 0, 1]),
        xyxy=np.array([[1.0, 1, 9, 9], [0, 0, 5, 5], [2, 2, 6, 6], [0, 0, 5, 5]]),
        shapes=shapes,
        keypoints=Keypoints(
            np.array([0, 2, 4, 4, 6]),
            np.array([[1, 2, 2], [3, 4, 1], [5, 6, 2], [0, 0, 0], [5, 6, 2], [7, 8, 1.0]]),
        ),
    )
    return builder.build()


def test_edits_and_merges_carry_shapes_and_the_points_of_classes():
    data = drawn()
    edited = apply_edits(Edits(drop=("person",), rename={"dog": "cat"}), data, Ledger("a", "b", read=4))
    assert edited.categories.name == ("cat",)
    assert edited.categories.keypoints == (("snout", "tail"),)
    assert edited.categories.skeleton == (((0, 1),),)
    assert edited.boxes.keypoints.xyv.tolist() == data.boxes.keypoints.xyv[2:].tolist()
    other = drawn(names=("bird", "person"), points=((), ("nose", "eye")), image="b.jpg")
    merged = merge([data, other], log=Log()).dataset
    assert merged.categories.keypoints == (("nose", "eye"), ("snout", "tail"), ())
    assert listed(merged.boxes.shapes) == listed(data.boxes.shapes) + listed(other.boxes.shapes)
    assert merged.boxes.keypoints.row_keys() == data.boxes.keypoints.row_keys() * 2
    # Boxes of one image are equal only where shapes and points are, too.
    again = merge([data, drawn()], same_image="join", log=Log())
    assert again.equal == 4
    assert len(again.dataset) == 4


def test_classes_with_other_key_points_do_not_become_one():
    with pytest.raises(UsageError, match="'dog' would have 1 keypoints for some objects and 2 for others"):
        merge([drawn(), drawn(points=(("nose", "eye"), ("snout",)), image="b.jpg")], log=Log())
    with pytest.raises(UsageError, match="'dog' would have 2 keypoints"):
        data = drawn(points=(("nose", "eye"), ("snout", "tail", "paw")))
        apply_edits(Edits(rename={"person": "dog"}), data, Ledger("a", "b", read=4))


def test_no_columns_are_made_where_there_are_no_shapes():
    data = Dataset.from_arrays(images=["a"], categories=["x"], image=[0], category=[0], xyxy=[[0, 0, 1, 1]])
    assert data.boxes.shapes is data.boxes.keypoints is data.categories.keypoints is None


def test_arrays_become_shapes():
    base = {
        "images": ["a"],
        "categories": ["x"],
        "image": [0, 0],
        "category": [0, 0],
        "xyxy": np.zeros((2, 4)),
    }
    mask = np.zeros((4, 5), bool)
    mask[1:3, 2:4] = True
    masks = Dataset.from_arrays(**base, masks=[mask, None]).boxes.shapes
    assert listed(masks) == [(ShapeKind.MASK, [], b"92203"), (ShapeKind.NONE, [], b"")]
    turned = Dataset.from_arrays(**base, oriented=[[50, 40, 40, 20, np.pi / 6]] * 2).boxes.shapes
    np.testing.assert_allclose(
        turned.corners(np.array([1]))[0],
        [[37.679492, 21.339746], [72.320508, 41.339746], [62.320508, 58.660254], [27.679492, 38.660254]],
        atol=1e-6,
    )
    both = Dataset.from_arrays(**base, polygons=[[], []], keypoints=[[[1, 2, 2]], []]).boxes
    assert both.keypoints.counts().tolist() == [1, 0]
    with pytest.raises(ValueError, match="polygons has 1 rows, not 2"):
        Dataset.from_arrays(**base, polygons=[[]])
    with pytest.raises(ValueError, match="only one of"):
        Dataset.from_arrays(**base, polygons=[[], []], oriented=np.zeros((2, 5)))


def test_joining_two_long_outlines_takes_little_memory():
    import tracemalloc

    from odm.tables.shapes import join_by_bridges

    parts = [np.random.default_rng(k).random((3000, 2)) + k for k in range(2)]
    tracemalloc.start()
    joined = join_by_bridges(parts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(joined) == 6002
    assert peak < 5 * 8 * 2**20  # all distances at once would take 216 MB


SHORT = [[(0, 0), (9, 9)], [(1, 1), (5, 1), (5, 5), (1, 5)], [(2, 2)]]
"""Parts of an outline, of which only the second encloses something."""


def test_short_parts_are_left_out_and_other_shapes_stay():
    whole = [[(1, 1), (7, 1), (7, 9)]]
    rows = [
        ("polygons", SHORT),
        ("mask", b"52203"),
        ("none", None),
        ("polygons", SHORT[:1]),
        ("polygons", whole),
    ]
    expected = [
        ("polygons", SHORT[1:2]),
        ("mask", b"52203"),
        ("none", None),
        ("none", None),
        ("polygons", whole),
    ]
    shapes = shapes_of(rows)
    assert listed(shapes.without_short_parts()) == listed(shapes_of(expected))
    clean = shapes_of(expected)
    assert clean.without_short_parts() is clean


def flat(ring):
    return [float(value) for point in ring for value in point]


@pytest.mark.parametrize("to", ["coco", "lvis", "labelme", "yolo", "datumaro", "cvat"])
def test_an_object_stays_without_the_short_parts_of_its_outline(to, tmp_path):
    source = tmp_path / "a.json"
    box = {"image_id": 1, "category_id": 1, "bbox": [1, 1, 4, 4], "area": 16, "iscrowd": 0}
    parts = [[flat(ring) for ring in SHORT], [flat(SHORT[0])], [flat(SHORT[1])]]
    boxes = [{**box, "id": i, "segmentation": rings} for i, rings in enumerate(parts, 1)]
    image = {"id": 1, "file_name": "a.jpg", "width": 20, "height": 20}
    document = {"images": [image], "annotations": boxes, "categories": [{"id": 1, "name": "x"}]}
    source.write_text(json.dumps(document))
    log = Log()
    odm.convert(source, tmp_path / "out", to=to, log=log, shapes="polygon" if to == "yolo" else None)
    assert [issue.message.split(";")[0] for issue in log if issue.code == "outline-short"] == [
        f"expected at least 3 corners in each part of the outline, found {short}, left out"
        for short in ("2 in part 1 of 3, 1 in part 3 of 3", "2 in part 1 of 1")
    ]
    assert not log.errors
    size = {"image_size": "20x20"} if to == "yolo" else {}
    dataset = odm.read(tmp_path / "out", to, shapes=True, **size)
    assert len(dataset) == 3
    for row in (0, 2):
        np.testing.assert_allclose(
            np.sort(dataset.boxes.shapes.polygons(row)[0].ravel()), sorted(flat(SHORT[1]))
        )
    if to in ("coco", "lvis"):
        written = json.loads(next((tmp_path / "out").glob("*.json")).read_text())["annotations"]
        assert [box.get("segmentation") or [] for box in written] == [parts[2], [], parts[2]]


@pytest.mark.parametrize(
    ("points", "rectangle"),
    [
        ([[1, 1], [5, 5], [9, 9]], [[1, 1], [9, 1], [9, 9], [1, 9]]),
        ([[1, 9], [5, 5], [9, 1]], [[1, 1], [9, 1], [9, 9], [1, 9]]),
        ([[3, 4], [3, 4]], [[3, 4]] * 4),
        ([[0, 0], [4, 0], [4, 2], [0, 2], [2, 1]], [[0, 0], [4, 0], [4, 2], [0, 2]]),
    ],
)
def test_the_smallest_rectangle_of_points_on_a_line_is_upright(points, rectangle, tmp_path):
    assert smallest_rectangle(np.array(points, float)).tolist() == rectangle
    if len(points) > 2:
        data = Dataset.from_arrays(
            images=["a.jpg"], width=[20], height=[20], categories=["x"], image=[0], category=[0],
            xyxy=[[*np.min(points, axis=0), *np.max(points, axis=0)]], polygons=[[points]],
        )  # fmt: skip
        odm.convert(data, tmp_path / "out", to="dota", shapes="oriented", log=Log())
        row = (tmp_path / "out" / "a.txt").read_text().split()
        assert list(map(float, row[:8])) == [value for corner in rectangle for value in corner]


@pytest.mark.parametrize("drop", [("person",), ("dog",), ("person", "dog")])
def test_classes_that_are_left_out_have_no_number_of_key_points(drop):
    data = drawn(points=(("nose", "eye"), ("snout", "tail", "paw")))
    kept = tuple(name for name in ("person", "dog") if name not in drop)
    assert apply_edits(Edits(drop=drop), data, Ledger("a", "b", read=4)).categories.name == kept
