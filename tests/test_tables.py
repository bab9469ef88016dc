"""The table model: what it promises about shapes, rows, ids and read-only arrays."""

import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import odm
from odm.converters.edit import Edits, apply_edits
from odm.converters.ledger import Ledger
from odm.converters.merging import merge
from odm.converters.skipping import drop_images
from odm.converters.tiles import Tiling, cut, join
from odm.issues import Log
from odm.names import PICTURE_SUFFIXES, stem
from odm.tables import GROUPS, NO_ID, Builder, Dataset, Flag, LabelState, SourceFile, distinct, first_index_of

SMALL = {"images": ["a.jpg", "b.png"], "categories": ["x", "y"]}


def test_from_corners_and_from_widths():
    corners = Dataset.from_arrays(**SMALL, image=[0, 1], category=[1, 0], xyxy=[[1, 2, 4, 6], [0, 0, 1, 1]])
    assert corners.kind == "gt"
    assert len(corners) == 2
    assert corners.boxes.wh.tolist() == [[3, 4], [1, 1]]
    assert np.isnan(corners.boxes.score).all()
    widths = Dataset.from_arrays(**SMALL, image=[0], category=[0], ltwh=[[0.1, 0.2, 0.3, 0.4]], score=[0.5])
    assert widths.kind == "det"
    assert widths.boxes.wh.tolist() == [[0.3, 0.4]]  # as given, not 0.30000000000000004
    assert widths.boxes.xyxy.tolist() == [[0.1, 0.2, 0.1 + 0.3, 0.2 + 0.4]]


def test_dtypes_and_size():
    data = Dataset.from_arrays(**SMALL, image=[0], category=[0], xyxy=[[0, 0, 1, 1]])
    columns = {name: getattr(data.boxes, name) for name in data.boxes.__struct_fields__}
    for name in ("track", "group", "wh_given", "shapes", "keypoints"):  # what has none holds none
        assert columns.pop(name) is None
    assert columns.pop("extra") == {}
    assert data.images.video is data.images.frame is None
    kinds = {name: column.dtype.name for name, column in columns.items()}
    assert kinds == {
        "image": "int32", "category": "int32", "xyxy": "float64", "wh": "float64", "score": "float64",
        "flags": "uint16", "area": "float64", "source_id": "int64", "file": "int32", "line": "int32",
    }  # fmt: skip
    assert sum(getattr(data.boxes, name).nbytes for name in kinds) < 100
    assert (data.images.width.dtype, data.categories.parent.dtype) == (np.int32, np.int32)


def arrays_of(table, name=""):
    for field in getattr(table, "__struct_fields__", ()):
        value = getattr(table, field)
        if isinstance(value, np.ndarray):
            yield f"{name}.{field}", value
        else:
            yield from arrays_of(value, f"{name}.{field}")


def read_back(data):
    with tempfile.TemporaryDirectory() as folder:
        odm.write(data, f"{folder}/a.json", "coco")
        return odm.read(f"{folder}/a.json")


DERIVED = {
    "all boxes": lambda data: data.take(slice(None)),
    "some boxes": lambda data: data.take(np.array([True, False, True])),
    "without images": lambda data: drop_images(data, np.array([True, False])),
    "merged": lambda data: merge([data, data], same_image="join", log=Log()).dataset,
    "edited": lambda data: apply_edits(
        Edits(drop=("y",), rename={"x": "z"}), data, Ledger("csv", "csv", read=3)
    ),
    "read": read_back,
    "cut into tiles": lambda data: cut(data, Tiling(5, 5), Ledger("csv", "csv", read=3), Log())[0],
    "put together": lambda data: join(DERIVED["cut into tiles"](data), 0.5, Ledger("csv", "csv", read=3)),
}


@pytest.mark.parametrize("way", DERIVED)
def test_arrays_of_every_derived_dataset_are_read_only(way):
    data = Dataset.from_arrays(
        images=["a", "b"], categories=["x", "y"], width=[9, 9], height=[9, 9], image=[0, 1, 1], category=[0, 1, 0],
        xyxy=[[1, 2, 3, 4]] * 3, labels=([0, 1], [0, 1], [LabelState.PRESENT, LabelState.ABSENT]),
    )  # fmt: skip
    arrays = dict(arrays_of(DERIVED[way](data)))
    assert len(arrays) > 8
    assert [name for name, values in arrays.items() if values.flags.writeable] == []


def test_arrays_are_read_only_and_the_callers_stay_writable():
    xyxy, image = np.zeros((1, 4)), np.zeros(1, np.int32)
    data = Dataset.from_arrays(**SMALL, image=image, category=[0], xyxy=xyxy)
    for table in (
        data.images,
        data.categories,
        data.boxes,
        data.boxes.take(np.array([0])),
        data.take(np.array([True])).boxes,
    ):
        for name in table.__struct_fields__:
            value = getattr(table, name)
            if isinstance(value, np.ndarray):
                assert not value.flags.writeable, name
    xyxy[0] = 7
    image[0] = 1
    assert data.boxes.xyxy.tolist() == [[0, 0, 0, 0]]
    assert data.boxes.image.tolist() == [0]
    with pytest.raises(AttributeError):
        data.boxes.score = None


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"images": ["a", "a"]}, "same name"),
        ({"categories": ["x", "x"]}, "same name"),
        ({"image": [2]}, "outside 0..1"),
        ({"category": [2]}, "outside 0..1"),
        ({"image": [-1]}, "not row numbers"),
        ({"image": [2**32]}, "not row numbers"),
        ({"image": [0.5]}, "not row numbers"),
        ({"category": ["x"]}, "not row numbers"),
        ({"image": [0, 0]}, "shape"),
        ({"category": [0, 0]}, "shape"),
        ({"xyxy": [[0, 0, 1, 1], [0, 0, 1, 1]]}, "shape"),
        ({"score": [0.1, 0.2]}, "shape"),
        ({"score": 0.1}, "shape"),
        ({"flags": [1, 2]}, "shape"),
        ({"width": [1], "height": [1, 2]}, "rows"),
        ({"image_ids": [1]}, "rows"),
        ({"category_ids": [1]}, "rows"),
        ({"ltwh": [[0, 0, 1, 1]]}, "either xyxy or ltwh"),
        ({"xyxy": None}, "either xyxy or ltwh"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(change, match):
    given = {**SMALL, "image": [0], "category": [0], "xyxy": [[0, 0, 1, 1]]}
    Dataset.from_arrays(**given)
    with pytest.raises(ValueError, match=match):
        Dataset.from_arrays(**{**given, **change})


def test_wrong_boxes_can_be_held():
    xyxy = [[5, 5, 1, 1], [np.nan, np.inf, -np.inf, 1e308]]
    data = Dataset.from_arrays(**SMALL, image=[0, 0], category=[0, 0], xyxy=xyxy)
    np.testing.assert_array_equal(data.boxes.xyxy, xyxy)


@pytest.mark.parametrize("ids", [[1, 2], [2**53 + 1, -5], [2**70, 1], ["000012", 12], ["a", "b"]])
def test_ids_are_kept_exact(ids):
    data = Dataset.from_arrays(**SMALL, image=[], category=[], xyxy=[], image_ids=ids)
    assert data.images.source_id.tolist() == ids
    assert [type(i) for i in data.images.source_id.tolist()] == [type(i) for i in ids]


def test_no_boxes():
    data = Dataset.from_arrays(**SMALL, image=[], category=[], xyxy=np.zeros((0, 4)))
    assert (len(data), len(data.images), len(data.categories)) == (0, 2, 2)
    assert data.boxes.xyxy.shape == (0, 4)
    assert data.boxes.wh.shape == (0, 2)
    empty = Builder().build()
    assert (len(empty), empty.kind, empty.boxes.xyxy.shape) == (0, "gt", (0, 4))


def test_a_builder_keeps_order_and_places():
    builder = Builder()
    assert builder.image("b") == 0
    assert builder.image("a", width=3, height=4, source_id="x", split="val") == 1
    with pytest.raises(ValueError, match="two images"):
        builder.image("a")
    assert (builder.image_row("a"), builder.image_row("c")) == (1, None)
    assert builder.category("y") == 0
    assert builder.category("x") == 1
    assert builder.category("y") == 0
    assert (builder.n_images, builder.n_categories) == (2, 2)
    txt, json = builder.file("a.txt"), builder.file("b.json", "/annotations")
    for file, line, score in ((txt, 3, 0.5), (json, 7, 0.25)):
        builder.boxes(
            image=np.array([1]), category=np.array([0]), xyxy=np.array([[0.0, 1, 2, 3]]),
            score=np.array([score]), file=file, line=np.array([line]),
        )  # fmt: skip
    data = builder.build()
    assert data.images.name == ("b", "a")
    assert data.categories.name == ("y", "x")
    assert data.images.source_id.tolist() == [NO_ID, "x"]
    assert data.images.split == ("", "val")
    assert (data.kind, data.boxes.score.tolist()) == ("det", [0.5, 0.25])
    assert data.location(0) == ("a.txt", 3, "")
    assert data.location(1) == ("b.json", 0, "/annotations/7")
    assert data.image_place(0) == ("", 0, "")
    assert data.files == (SourceFile("a.txt"), SourceFile("b.json", "/annotations"))


def test_the_other_side_is_read_when_it_is_asked_for():
    other = Builder().build()
    calls = []
    builder = Builder(lambda: calls.append(1) or other)
    assert calls == []
    assert builder.counterpart() is other
    assert Builder().counterpart() is None


def test_what_is_said_of_whole_images():
    none = {"image": [], "category": [], "xyxy": []}
    data = Dataset.from_arrays(
        **SMALL, **none, frequency=["", "r"], labels=[(1, 0, LabelState.ABSENT), (0, 1, LabelState.PARTIAL)]
    )
    assert data.categories.frequency == ("", "r")
    assert (data.labels.image.tolist(), data.labels.category.tolist()) == ([1, 0], [0, 1])
    assert data.labels.verdict.tolist() == [LabelState.ABSENT, LabelState.PARTIAL]
    assert data.labels.take(data.labels.image == 0).category.tolist() == [1]
    with pytest.raises(ValueError, match="read-only"):
        data.labels.image[0] = 0
    assert len(Dataset.from_arrays(**SMALL, **none).labels) == 0
    for wrong in ([(2, 0, 0)], [(0, 2, 0)], [(-1, 0, 0)], [(0, 0, 3)]):
        with pytest.raises(ValueError, match=r"row number|verdict"):
            Dataset.from_arrays(**SMALL, **none, labels=wrong)
    for frequency in (["r"], ["r", "often"]):
        with pytest.raises(ValueError, match="frequency"):
            Dataset.from_arrays(**SMALL, **none, frequency=frequency)


def test_flags_are_bits_and_slices_take_all_columns():
    flags = [Flag.CROWD, Flag.DIFFICULT | Flag.TRUNCATED, 0]
    data = Dataset.from_arrays(
        **SMALL, image=[0, 1, 1], category=[0, 0, 1], xyxy=np.arange(12.0).reshape(3, 4), flags=flags
    )
    assert data.boxes.has(Flag.DIFFICULT).tolist() == [False, True, False]
    assert data.boxes.has(GROUPS).tolist() == [True, False, False]
    for rows in (np.array([False, True, True]), np.array([1, 2])):
        part = data.take(rows)
        assert part.boxes.flags.tolist() == [6, 0]
        assert part.boxes.xyxy.tolist() == [[4, 5, 6, 7], [8, 9, 10, 11]]
        assert part.images is data.images


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.jpg", "a"), ("a/b.v2.JPG", "a/b.v2"), ("a/b.v2", "a/b.v2"), ("a.txt", "a.txt"), ("a", "a"),
        (".jpg", ".jpg"), ("a/.jpg", "a/.jpg"), ("a.jpg/b", "a.jpg/b"), ("1.0", "1.0"), ("a.jpg.png", "a.jpg"), ("", ""),
    ],
)  # fmt: skip
def test_stems(name, expected):
    assert stem(name) == expected


@given(st.text(), st.sampled_from(sorted(PICTURE_SUFFIXES)))
def test_a_stem_is_the_name_before_the_extension(name, suffix):
    usable = name and not name.endswith("/")
    assert stem(name + suffix) == (name if usable else name + suffix)


@given(st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_distinct_numbers_are_those_of_numpy(values):
    array = np.array(values, np.int64)
    assert distinct(array).tolist() == np.unique(array).tolist()
    assert distinct(array).dtype == np.int64
    many = np.resize(array, 2**16 + 1) if values else array
    assert distinct(many).tolist() == distinct(array).tolist()


@pytest.mark.parametrize(
    ("values", "n", "first"),
    [([2, 0, 2], 3, [1, -1, 0]), ([], 2, [-1, -1]), ([1, 1, 1], 2, [-1, 0]), ([0], 1, [0])],
    ids=str,
)
def test_first_index_of(values, n, first):
    assert first_index_of(np.array(values, np.int32), n).tolist() == first
