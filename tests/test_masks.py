"""Masks against pycocotools, bit for bit, and outlines that give back the same pixels."""

import itertools
import tracemalloc

import numpy as np
import pycocotools.mask as official
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from selection import examples, slow

from odm import checks, masks
from odm.issues import Log
from odm.masks import polygons
from odm.masks import runs as runs_module
from odm.masks.runs import measure, offsets, read_texts, write_texts
from odm.tables import Dataset, shapes
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
    table = Shapes.of_masks(np.frombuffer(text, np.uint8), np.array([0, len(text)]))
    known = table.measure_masks(np.array([6]))
    assert known.box.tolist() == [[1, 1, 2, 2]]
    assert (known.area.tolist(), known.n_run_pixels.tolist()) == ([4], [24])
    assert table.measure_masks(np.array([6])) is known
    assert table.measure_masks(np.array([8])).box.tolist() == [[0, 0, 2, 8]]


def test_the_area_of_a_polygon_may_be_that_of_its_pixels_or_of_its_corners():
    """A strip of 40 x 1.4 px covers 40 pixels."""
    areas = [40, 56, 90]
    side = Dataset.from_arrays(
        images=["a.jpg"], width=[60], height=[60], categories=["a"], image=[0] * 3, category=[0] * 3,
        ltwh=[[3, 3, 40, 1.4]] * 3, polygons=[[[3, 3, 43, 3, 43, 4.4, 3, 4.4]]] * 3, area=areas,
    )  # fmt: skip
    checks.run(side, log := Log(), all_rules=True)
    (issue,) = [issue for issue in log if issue.code == "shape-area-differs"]
    assert "given as 90, but the shape has 40" in str(issue)


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


WRONG = [
    None, 5, 2.5, True, "abc", b"abc", {}, object(), [None], ["a"], [[1], [1, 2]], [5], [{}],
    *({"size": size, "counts": "04"} for size in (None, "ab", [2], [2, 2, 2], [2.5, 2], [None, 2], ["2", "2"], [-2, -2], [2**70, 0], [0, 2**40], {})),
    *({"size": [2, 2], "counts": counts} for counts in (None, 5, {}, [None], ["a"], [[1], [1, 2]], [2**70], [1.5], [True], object(), [-1, 5], "")),
]  # fmt: skip
SQUARE = {"size": [2, 2], "counts": "04"}
TAKES_MASKS = [masks.decode, masks.area, masks.boxes, masks.outlines, lambda m: masks.iou(m, [SQUARE]), lambda m: masks.iou([SQUARE], m)]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_value_of_another_type_is_a_value_error(wrong):
    """As the docstrings say, whichever function and argument it is."""
    calls = [(call, (value,)) for call in TAKES_MASKS for value in (wrong, [wrong])]
    calls += [(masks.rasterise, arguments) for arguments in ((wrong, 9, 9), ([wrong], 9, 9))]
    if not isinstance(wrong, int):  # numbers are sizes
        calls += [(masks.rasterise, ([[0, 0, 5, 0, 5, 5]], *size)) for size in ((wrong, 9), (9, wrong))]
    if not isinstance(wrong, int | float | list):  # a number is an array of none; lists are judged by NumPy
        calls += [(masks.encode, (wrong,)), (lambda value: masks.iou([SQUARE], [SQUARE], value), ([wrong],))]
    for call, arguments in calls:
        with pytest.raises(ValueError, match=r"."):
            call(*arguments)


@pytest.mark.parametrize("cut", [b"", b"0", b"o1"], ids=["alone", "after-a-number", "after-two"])
def test_a_text_that_ends_within_a_number_leaves_the_next_mask_alone(cut):
    good = [masks.encode(np.ones((4, 5)))["counts"].encode(), b"o15?0000000]7"]
    for n in range(1, 9):  # groups of a number that goes on
        texts = [good[0], cut + b"P" * n, good[0], b"", good[1]]
        data = np.frombuffer(b"".join(texts), np.uint8)
        first, counts, wrong = read_texts(data, offsets(np.array([*map(len, texts)])))
        assert wrong.tolist() == [False, True, False, False, False]
        alone = [read_texts(np.frombuffer(t, np.uint8), np.array([0, len(t)]))[1].tolist() for t in good]
        assert [counts[first[i] : first[i + 1]].tolist() for i in (0, 2, 4)] == [alone[0], *alone]


wide = st.tuples(st.integers(1, 25), st.integers(1, 400)) | st.tuples(st.integers(1, 60), st.integers(1, 60))


@settings(max_examples=examples(100))
@given(
    st.lists(st.lists(rings, min_size=1, max_size=3), min_size=1, max_size=4),
    wide, st.sampled_from([1, 3, 40]), st.sampled_from([0, 8]),
)  # fmt: skip
def test_outlines_in_pieces_are_filled_and_measured_as_pycocotools_does(objects, size, most, cost):
    """Whatever is filled at a time, and along columns or rows."""
    height, width = size
    stretch = np.array([width / 60, height / 60])
    objects = [[np.round(np.array(ring, float) * stretch, 1) for ring in one] for one in objects]
    parts = [ring for one in objects for ring in one]
    columns = (
        np.concatenate(parts),
        offsets(np.array([*map(len, parts)])),
        offsets(np.array([*map(len, objects)])),
    )
    sizes = np.full(len(objects), height), np.full(len(objects), width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(polygons, "COLUMNS_AT_A_TIME", most)
        patch.setattr(polygons, "STEPS_COST", cost)
        runs, (area, box) = polygons.rasterise_all(*columns, *sizes), polygons.measure_all(*columns, *sizes)
        written, begin = polygons.write_outlines(*columns, *sizes)
        cuts = polygons.cut_columns(*columns, sizes[1], most)
        strips = [
            polygons.rasterise_all(*columns, *sizes, column_range=cut) for cut in itertools.pairwise(cuts)
        ]
    expected = [
        official.merge(official.frPyObjects([r.ravel().tolist() for r in one], height, width))
        for one in objects
    ]
    text, first = write_texts(*runs.counts(np.full(len(objects), height * width)))
    found = [text[a:b].tobytes() for a, b in itertools.pairwise(first.tolist())]
    assert found == [mask["counts"] for mask in expected]
    assert (written.tobytes(), begin.tolist()) == (text.tobytes(), first.tolist())
    assert sum(strip.areas() for strip in strips).tolist() == area.tolist()
    assert area.tolist() == [int(official.area(mask)) for mask in expected]
    assert box.tolist() == [official.toBbox(mask).astype(int).tolist() for mask in expected]


def zigzag(n, width, height):
    x, y = np.where(np.arange(n) % 2, width, 0), np.linspace(0, height, n)
    return np.stack([x, y], axis=1), np.array([0, n]), np.array([0, 1])


def squares(n, width, height):
    corner = np.random.default_rng(n).random((n, 1, 2)) * [width, height] * 0.9
    xy = corner + np.array([[0, 0], [40, 1], [40, 41], [0, 40]])
    return xy.reshape(-1, 2), np.arange(n + 1) * 4, np.array([0, n])


def scribble(n, width, height):
    return np.random.default_rng(n).random((n, 2)) * [width, height], np.array([0, n]), np.array([0, 1])


LARGE = [
    (zigzag, 130, 1_000_000, 4_000), (zigzag, 2_400, 60_000, 4_000), (zigzag, 100_000, 1_000, 1_000),
    (squares, 20_000, 1_000, 1_000), (scribble, 100, 30_000, 10_000), (scribble, 100_000, 2**31, 1),
]  # fmt: skip


@pytest.mark.parametrize(("make", "n", "width", "height"), LARGE)
def test_pixels_of_outlines_are_counted_in_bounded_memory_and_work(make, n, width, height, monkeypatch):
    """Linear in corners and rows: a mask of some of these takes gigabytes."""
    outlines, work = make(n, width, height), []
    for form in (polygons._Sides, polygons._Steps):

        def counted(self, size, find=form.find_crossings):
            found = find(self, size)
            work.append(len(found))
            return found

        monkeypatch.setattr(form, "find_crossings", counted)
    tracemalloc.start()
    area, box = polygons.measure_all(*outlines, np.array([height]), np.array([width]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * 2**20
    assert sum(work) <= (n + 1) * height * 1.1
    assert max(work) <= polygons.COLUMNS_AT_A_TIME + n
    assert 0 < area[0] <= width * height
    assert (box[0, 2:] > 0).all()


def test_what_would_take_too_long_to_count_is_unknown_and_not_called_empty(monkeypatch):
    monkeypatch.setattr(polygons, "MOST_COLUMNS", 3)
    bow_tie = [[0, 0, 20, 20, 20, 0, 0, 20]]
    side = Dataset.from_arrays(
        images=["a.jpg"], width=[30], height=[30], categories=["a"], image=[0], category=[0],
        ltwh=[[0, 0, 20, 20]], polygons=[bow_tie],
    )  # fmt: skip
    assert side.boxes.shapes.extents(np.array([30]), np.array([30]))[0].tolist() == [-1]
    checks.run(side, log := Log(), all_rules=True)
    assert "shape-empty" not in log.counts


def test_an_object_too_large_to_fill_is_named():
    with pytest.raises(ValueError, match="pass 400000000 columns of pixels"):
        masks.rasterise([zigzag(40, 10_000_000, 400)[0]], 400, 10_000_000)


@slow
def test_one_outline_is_filled_and_measured_in_bounded_memory():
    """A part of one of 2 400 corners in an image of 60 000 x 4 000, whose mask has 2^27 runs."""
    size = np.array([4_000]), np.array([6_000])
    tracemalloc.start()
    text, first = polygons.write_outlines(*zigzag(2_400, 6_000, 4_000), *size)
    measured = measure(text, first, size[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(text) > 9 * 2**20
    assert peak < 500 * 10**6
    assert (measured.n_run_pixels[0], measured.is_wrong[0]) == (24_000_000, False)
    assert measured.area[0] == polygons.measure_all(*zigzag(2_400, 6_000, 4_000), *size)[0][0]


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 30), st.binary(max_size=9))
def test_a_long_text_is_measured_in_parts_as_at_once(counts, height, junk):
    text, _ = write_texts(np.array([0, len(counts)]), np.array(counts, np.int64))
    for data in (text, np.concatenate([text, np.frombuffer(junk, np.uint8)])):
        one = np.array([0, len(data)])
        whole = measure(data, one, np.array([height]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runs_module, "_LONG_TEXT", 28)
            parts = measure(data, one, np.array([height]))
        for name in ("is_wrong", "area", "box", "n_run_pixels"):
            assert getattr(parts, name).tolist() == getattr(whole, name).tolist()


def test_thousands_of_parts_are_joined_into_one_outline_in_bounded_work(monkeypatch):
    monkeypatch.setattr(shapes, "_MOST_DISTANCES", 400)
    corner = np.stack(np.divmod(np.random.default_rng(1).permutation(60), 8), axis=1) * 7.3
    parts = [at + np.array([[0, 0], [5, 1], [6, 4], [1, 5]]) for at in corner]
    whole = shapes.join_by_bridges(parts)
    expected = masks.rasterise(parts, 80, 80)
    assert masks.rasterise([whole], 80, 80) == expected
    assert masks.area(expected) == sum(masks.area(masks.rasterise([part], 80, 80)) for part in parts)
    assert len(whole) == 4 * 60 + 2 * 59


@pytest.mark.parametrize("longest", [3, 2**9, 2**14, 2**19, 2**24, 2**29, 2**31 - 1, 2**31, 2**32 - 1])
@pytest.mark.parametrize("n_longest", [1, 2, 3, 40])
@pytest.mark.parametrize("bytes_at_a_time", [100, 2**17])
def test_run_lengths_of_any_size_come_back(monkeypatch, longest, n_longest, bytes_at_a_time):
    """Numbers of 32 bits are used where all sums fit: the last run lengths that do, and the first that do not."""
    monkeypatch.setattr(runs_module, "_TEXT_AT_A_TIME", bytes_at_a_time)
    rng = np.random.default_rng(0)
    n = rng.integers(0, 60, 50)
    counts = rng.integers(1, 40, int(n.sum()))
    counts[rng.choice(len(counts), n_longest, replace=False)] = longest
    text, first = write_texts(offsets(n), counts)
    begin, read_counts, wrong = read_texts(text, first)
    assert np.array_equal(np.diff(begin), n)
    assert np.array_equal(read_counts, counts)
    assert not wrong.any()
    alone = [read_texts(text[a:b], np.array([0, b - a]))[1] for a, b in itertools.pairwise(first.tolist())]
    assert np.array_equal(np.concatenate(alone), counts)
    whole, parts = runs_module.Runs.of_counts(begin, read_counts), runs_module.Runs.of_texts(text, first)
    assert np.array_equal(whole.starts, parts.starts)
    assert np.array_equal(whole.edge, parts.edge)
