"""Masks against pycocotools, bit for bit, and outlines that give back the same pixels."""

import numpy as np
import pycocotools.mask as official
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from odm import checks, masks
from odm.issues import Log
from odm.tables import Dataset
from odm.tables.shapes import Shapes

RASTERS = [  # outlines in an image of 20 x 20, pixels, box, text
    ([[2, 3, 12, 3, 12, 9, 2, 9]], 60, [2, 3, 10, 6], "[16>00000000000000000m4"),
    ([[2.5, 2.5, 7.5, 2.5, 7.5, 7.5, 2.5, 7.5]], 25, [3, 3, 5, 5], "o15?0000000]7"),
    ([[0, 0, 10, 0, 0, 10]], 45, [0, 0, 9, 9], "09;O1O1O1O1O1O1O1Om6"),
    ([[-5, -5, 5, -5, 5, 5, -5, 5]], 25, [0, 0, 5, 5], "05?0000000\\9"),
    ([[2, 2, 12, 12, 12, 2, 2, 12]], 50, [2, 2, 10, 9], "Z19<N2N2N2N10O2N2N2N2m4"),
    ([[2, 2, 8, 2, 8, 8, 2, 8], [5, 5, 11, 5, 11, 11, 5, 11]], 63, [2, 2, 9, 9], "Z16>00003M0003M0000_5"),
    ([[2, 2, 14, 2, 14, 14, 2, 14, 2, 2, 5, 5, 5, 9, 9, 9, 9, 5, 5, 5, 2, 2]], 128, [2, 2, 12, 12],
     "Z1<80000GL24NL24NL24NL24700000000f3"),
    ([[3.2, 1, 3.4, 1, 3.4, 15, 3.2, 15]], 0, [0, 0, 0, 0], "`<"),
    ([[10.1, 4.3, 16.7, 9.9, 8.3, 15.5]], 40, [9, 5, 7, 10], "m56:31O2O1N2N2OW2"),
]  # fmt: skip


@pytest.mark.parametrize(("outlines", "pixels", "box", "text"), RASTERS)
def test_known_rasters(outlines, pixels, box, text):
    mask = masks.rasterise(outlines, 20, 20)
    assert mask == {"size": [20, 20], "counts": text}
    assert masks.area(mask) == pixels
    assert masks.boxes(mask).tolist() == box
    assert masks.encode(masks.decode(mask)) == mask


coordinates = st.one_of(
    st.integers(-30, 90),
    st.integers(-150, 450).map(lambda v: v / 5),
    st.integers(-60, 180).map(lambda v: v / 2),
    st.floats(-30, 90, allow_nan=False),
)
rings = st.lists(st.tuples(coordinates, coordinates), min_size=3, max_size=9)


@given(st.lists(rings, min_size=1, max_size=4), st.integers(1, 60), st.integers(1, 60))
def test_outlines_are_filled_as_pycocotools_fills_them(outlines, height, width):
    flat = [[float(v) for corner in ring for v in corner] for ring in outlines]
    expected = official.merge(official.frPyObjects(flat, height, width))
    assert masks.rasterise(outlines, height, width)["counts"].encode() == expected["counts"]


several = st.tuples(st.integers(0, 5), st.integers(1, 14), st.integers(1, 14)).flatmap(
    lambda shape: arrays.arrays(bool, shape, elements=st.booleans(), fill=st.booleans())
)


@given(several)
def test_arrays_texts_areas_and_boxes_as_pycocotools(array):
    expected = official.encode(np.asfortranarray(array.transpose(1, 2, 0).astype(np.uint8)))
    found = masks.encode(array)
    assert [mask["counts"].encode() for mask in found] == [mask["counts"] for mask in expected]
    assert np.array_equal(masks.decode(found) if found else array, array)
    assert masks.area(found).tolist() == [int(official.area(mask)) for mask in expected]
    assert masks.boxes(found).tolist() == [official.toBbox(mask).astype(int).tolist() for mask in expected]
    as_lists = [{"size": m["size"], "counts": _lengths(a)} for m, a in zip(found, array, strict=True)]
    assert masks.area(as_lists).tolist() == masks.area(found).tolist()
    expected = np.reshape(official.iou(expected, expected, [0] * len(array)), (len(array),) * 2)
    assert np.array_equal(masks.iou(found, found), expected)


def _lengths(array):
    """Run lengths of a mask, of no pixels first, one pixel after another."""
    lengths, inside = [0], False
    for pixel in array.T.ravel().tolist():
        if pixel != inside:
            lengths.append(0)
            inside = pixel
        lengths[-1] += 1
    return lengths


@given(several, st.data())
def test_iou_with_crowds_as_pycocotools(array, data):
    crowd = data.draw(st.lists(st.booleans(), min_size=len(array), max_size=len(array)))
    truths, found = masks.encode(array), masks.encode(array[::-1])
    if len(array):
        expected = official.iou(_bytes(found), _bytes(truths), [int(c) for c in crowd])
        assert np.array_equal(masks.iou(found, truths, crowd), expected)


def _bytes(many):
    return [{**mask, "counts": mask["counts"].encode()} for mask in many]


@given(several)
def test_outlines_give_back_the_same_pixels(array):
    for one in array:
        mask = masks.encode(one)
        drawn = masks.rasterise(masks.outlines(mask), *one.shape)
        assert np.array_equal(masks.decode(drawn), one)


def test_a_hole_is_part_of_the_outline_around_it():
    array = np.zeros((60, 80), bool)
    array[10:40, 20:60] = True
    array[20:30, 30:50] = False
    (outline,) = masks.outlines(masks.encode(array))
    assert len(outline) == 10
    assert masks.area(masks.rasterise([outline], 60, 80)) == 1000


def test_parts_that_touch_at_a_corner_stay_apart():
    assert len(masks.outlines(masks.encode(np.eye(3)))) == 3


@pytest.mark.parametrize(
    "counts", ["", "@", "\x1f", "é", "0123P", "_" * 12 + "0", [-1, 401], [2**63], ["4"], [1.5], None]
)
def test_counts_that_cannot_be_decoded_are_refused(counts):
    with pytest.raises(ValueError, match="mask 0: "):
        masks.area({"size": [20, 20], "counts": counts})


@pytest.mark.parametrize("counts", [[400, 1], [399], [2**31, 2**31], "o15?0000000]8"])
def test_runs_must_add_up_to_the_image(counts):
    with pytest.raises(ValueError, match="not 20 x 20 = 400"):
        masks.decode({"size": [20, 20], "counts": counts})


@pytest.mark.parametrize(
    "call",
    [
        lambda: masks.rasterise([[0, 0, 5, 5]], 9, 9),
        lambda: masks.rasterise([[0, 0, 5, 5, 3]], 9, 9),
        lambda: masks.rasterise([[0, 0, 5, float("nan"), 3, 3]], 9, 9),
        lambda: masks.rasterise([], 2**31, 2**31),
        lambda: masks.rasterise([[0, 0, 1e300, 0, 0, 1e300, -1e300, 5]] * 9, 1, 2**31),
        lambda: masks.encode(np.zeros(3)),
        lambda: masks.area([{"counts": "04"}]),
        lambda: masks.decode([masks.encode(np.ones((2, 3))), masks.encode(np.ones((3, 2)))]),
        lambda: masks.iou([masks.encode(np.ones((2, 3)))], [masks.encode(np.ones((3, 2)))]),
    ],
)
def test_what_is_no_mask_is_refused(call):
    with pytest.raises(ValueError, match=r"."):
        call()


def test_corners_far_away_are_filled_up_to_the_edge_of_the_image():
    far = [[-1e300, -1e300, 1e300, -1e300, 1e300, 1e300, -1e300, 1e300]]
    assert masks.area(masks.rasterise(far, 20, 30)) == 600


def test_what_is_remembered_of_masks_is_asked_again_for_another_height():
    drawn = np.zeros((6, 4), bool)
    drawn[1:3, 1:3] = True
    text = masks.encode(drawn)["counts"].encode()
    shapes = Shapes.of_masks(np.frombuffer(text, np.uint8), np.array([0, len(text)]))
    known = shapes.measured(np.array([6]))
    assert known.box.tolist() == [[1, 1, 2, 2]]
    assert (known.area.tolist(), known.total.tolist()) == ([4], [24])
    assert shapes.measured(np.array([6])) is known
    assert shapes.measured(np.array([8])).box.tolist() == [[0, 0, 2, 8]]


def test_oriented_boxes_are_empty_and_differ_by_their_own_area():
    boxes = np.array([[5, 5, 0.3, 0.3, 0.1], [5, 5, 4, 0, 0], [10, 10, 10, 10, 0.7], [10, 10, 10, 10, 0.7]])
    side = Dataset.from_arrays(
        images=["a.jpg"], width=[20], height=[20], categories=["a"], image=[0] * 4, category=[0] * 4,
        ltwh=[[0, 0, 9, 9]] * 4, oriented=boxes, area=[0.09, 1, 100, 130],
    )  # fmt: skip
    checks.run(side, log := Log(), all_rules=True)
    told = [str(issue) for issue in log if issue.code in ("shape-empty", "shape-area-differs")]
    assert len(told) == 2
    assert "shape-empty" in told[0]
    assert "given as 130, but the shape has 100" in told[1]
