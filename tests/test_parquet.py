"""Parquet: what comes back after a round trip, what is read of others' files, and damage that is noticed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import turns

from odm import read, write
from odm.converters.load import Request, load
from odm.issues import DataError, Log, UsageError
from odm.tables import Dataset

pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
import pyarrow.parquet as pq  # noqa: E402 -- only where it is there

MIXED = Path(__file__).resolve().parent.parent / "fixtures" / "mixed"


def equal(one, two):
    """Whether two datasets hold the same bits, boxes in the order of their images."""
    assert one.images.name == two.images.name
    for name in ("width", "height", "source_id"):
        assert getattr(one.images, name).tolist() == getattr(two.images, name).tolist(), name
    assert one.categories.name == two.categories.name
    assert one.categories.source_id.tolist() == two.categories.source_id.tolist()
    assert one.categories.frequency == two.categories.frequency
    order = np.argsort(one.boxes.image, kind="stable")
    for name in ("image", "category", "xyxy", "wh", "score", "flags", "area", "source_id"):
        left, right = getattr(one.boxes, name)[order], getattr(two.boxes, name)
        assert left.tobytes() == right.astype(left.dtype).tobytes(), name


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.booleans())
def test_round_trip_is_bit_exact(tmp_path_factory, seed, det, sizes, ids):
    rng = np.random.default_rng(seed)
    n_images, n = int(rng.integers(1, 8)), int(rng.integers(0, 30))
    boxes = rng.uniform(0, 100, (n, 4)) if rng.random() < 0.5 else np.round(rng.uniform(0, 100, (n, 4)), 1)
    if not sizes:
        boxes[:, 2:] += boxes[:, :2]
    data = Dataset.from_arrays(
        images=[f"d/{k}.jpg" for k in range(n_images)],
        categories=["b", "a", "00"],
        image=rng.integers(0, n_images, n),
        category=rng.integers(0, 3, n),
        **{"ltwh" if sizes else "xyxy": boxes},
        score=rng.random(n) if det else None,
        flags=rng.integers(0, 128, n) if not det else None,
        area=np.where(rng.random(n) < 0.5, np.nan, rng.uniform(1, 50, n)),
        source_id=rng.permutation(n) if ids else None,
        width=np.where(np.arange(n_images) % 2, 640, 0),
        height=np.where(np.arange(n_images) % 2, 480, 0),
        image_ids=rng.permutation(n_images).tolist() if ids else None,
        category_ids=[3, 1, 2] if ids else None,
        frequency=["r", "", "f"],
        kind="det" if det else "gt",
    )
    target = str(tmp_path_factory.mktemp("trip") / "a.parquet")
    write(data, target, "parquet")
    equal(data, read(target, "parquet"))


def test_groups_of_rows_are_read_one_by_one_and_rows_are_counted_over_all(tmp_path):
    rows = [
        {"image": f"{i}.jpg", "class": "cat", "left": 0.0, "top": 0.0, "right": 5.0, "bottom": 5.0}
        for i in range(10)
    ]
    rows[7]["bottom"] = None
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=3)
    with pytest.raises(DataError, match=r"a\.parquet:8.*incomplete-box"):
        read(str(tmp_path / "a.parquet"), "parquet")


def test_the_order_inside_a_dictionary_means_nothing(tmp_path):
    names = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2]), pa.array(["zebra", "unused", "ant"]))
    table = pa.table({"image": ["a.jpg"] * 3, "class": names, **{k: [1.0, 2.0, 3.0] for k in ("left", "top")},
                      **{k: [4.0, 5.0, 6.0] for k in ("right", "bottom")}})  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    assert read(str(tmp_path / "a.parquet"), "parquet").categories.name == ("ant", "zebra")


def test_only_columns_with_a_meaning_are_written(tmp_path):
    one = {"images": ["a.jpg"], "categories": ["x"], "image": [0], "category": [0], "xyxy": [[0, 0, 1, 1]]}
    plain = ["image", "class", "left", "top", "right", "bottom"]
    for data, names in (
        (Dataset.from_arrays(**one), plain),
        (Dataset.from_arrays(**one, score=[0.5]), [*plain[:2], "score", *plain[2:]]),
        (Dataset.from_arrays(**one, width=[9], height=[8]), [plain[0], "width", "height", *plain[1:]]),
    ):
        write(data, str(tmp_path / "a.parquet"), "parquet", overwrite=True)
        assert pq.read_schema(tmp_path / "a.parquet").names == names


def test_float32_is_widened_exactly_and_columns_can_be_named(tmp_path):
    values = np.array([0.1, 0.2], np.float32)
    table = pa.table({"frame": [7, 8], "kind": ["a", "b"], "p": values, "x0": values, "y0": values,
                      "x1": values + 1, "y1": values + 1})  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    columns = "image:frame,class:kind,score:p,left:x0,top:y0,right:x1,bottom:y1"
    data = read(str(tmp_path / "a.parquet"), "parquet", columns=columns)
    assert data.images.name == ("7", "8")
    assert data.boxes.score.tolist() == values.astype(np.float64).tolist()
    assert data.boxes.xyxy[:, 2].tolist() == (values + 1).astype(np.float64).tolist()


def test_columns_of_nulls_name_nothing(tmp_path):
    names = ("image", "class", "left", "top", "right", "bottom")
    pq.write_table(pa.table({name: pa.nulls(0) for name in names}), tmp_path / "a.parquet")
    assert len(load(Request(path=str(tmp_path / "a.parquet"), kind="det"), Log()).dataset) == 0


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path):
    for k, name in enumerate(("b", "a")):
        data = Dataset.from_arrays(
            images=[f"{name}.jpg"], categories=["c"], image=[0], category=[0], xyxy=[[0, 0, k + 1, 1]]
        )
        write(data, str(tmp_path / f"{name}.parquet"), "parquet")
    assert read(str(tmp_path), "parquet").images.name == ("a.jpg", "b.jpg")


def test_flipped_bits_are_noticed(tmp_path):
    """Every byte of the pages is covered by a checksum: no flip changes a value unnoticed."""
    source = MIXED / "parquet-detections" / "input.parquet"
    rng = np.random.default_rng(0)
    good = read(str(source), "parquet")
    target = tmp_path / "a.parquet"
    write(good, str(target), "parquet")
    whole = target.read_bytes()
    for at in rng.integers(4, len(whole) - 8, 120).tolist():
        data = bytearray(whole)
        data[at] ^= 1 << int(rng.integers(8))
        target.write_bytes(data)
        try:
            found = read(str(target), "parquet")
        except DataError:
            continue
        for name in ("xyxy", "score", "image"):
            assert getattr(found.boxes, name).tobytes() == getattr(good.boxes, name).tobytes(), at


def test_cut_and_damaged_files_are_named(tmp_path):
    whole = (MIXED / "parquet" / "input.parquet").read_bytes()
    for size in (0, 3, 4, 8, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "a.parquet").write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"a\.parquet.*(unreadable-file|not-text)"):
            read(str(tmp_path / "a.parquet"), "parquet")


@pytest.mark.parametrize("as_structs", [False, True])
def test_objects_as_datasets_writes_them(tmp_path, as_structs):
    boxes = [[[10.0, 20.0, 30.0, 200.0]], []]
    if as_structs:
        objects = [[{"bbox": b, "category": 1, "iscrowd": 1, "id": 5} for b in own] for own in boxes]
    else:
        objects = [
            {"bbox": own, "category": [1] * len(own), "iscrowd": [1] * len(own), "id": [5] * len(own)}
            for own in boxes
        ]
    table = pa.Table.from_pylist(
        [
            {
                "image_id": i,
                "image": {"bytes": b"x" * 9, "path": f"p{i}.jpg"},
                "width": 640,
                "height": 480,
                "objects": o,
            }
            for i, o in enumerate(objects)
        ]
    )
    label = {"names": ["cat", "dog"], "_type": "ClassLabel"}
    features = {
        "objects": {"feature": {"category": label, "bbox": {"_type": "Sequence"}}, "_type": "Sequence"}
    }
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "a.parquet")
    data = load(Request(path=str(tmp_path / "a.parquet"), options={"box": "ltwh"}), Log()).dataset
    assert data.images.name == ("0", "1")
    assert (data.images.width.tolist(), data.images.height.tolist()) == ([640, 640], [480, 480])
    assert data.categories.name == ("cat", "dog")
    assert data.boxes.xyxy.tolist() == [[10.0, 20.0, 40.0, 220.0]]
    assert (data.boxes.category.tolist(), data.boxes.flags.tolist(), data.boxes.source_id.tolist()) == (
        [1],
        [1],
        [5],
    )


def test_converting_to_coco_and_back_keeps_what_decides_an_evaluation(tmp_path):
    source = str(MIXED / "coco" / "input.json")
    write(read(source, "coco"), str(tmp_path / "a.parquet"), "parquet")
    equal(read(source, "coco"), read(str(tmp_path / "a.parquet"), "parquet"))


def test_without_pyarrow_the_message_says_what_to_install(tmp_path):
    code = "import sys; sys.modules['pyarrow'] = None; from odm.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "stats", str(MIXED / "parquet" / "input.parquet")],
        check=False,
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode == 2
    assert "pip install -U pyarrow" in done.stderr


def test_four_numbers_in_a_column_are_read_as_the_user_says(tmp_path):
    boxes = [[10.0, 20.0, 30.0, 45.0], None, [1.0, 2.0, 3.0, 4.0]]
    table = pa.table({"image": ["a.jpg", "b.jpg", "c.jpg"], "label": ["cat", None, "dog"], "bbox": boxes})
    path = str(tmp_path / "a.parquet")
    pq.write_table(table, path)
    with pytest.raises(DataError, match="box-form-unclear"):
        read(path, "parquet")
    corners, sizes = (read(path, "parquet", box=form) for form in ("ltrb", "ltwh"))
    assert corners.boxes.xyxy.tolist() == [boxes[0], boxes[2]]
    assert sizes.boxes.xyxy.tolist() == [[10, 20, 40, 65], [1, 2, 4, 6]]
    assert sizes.boxes.wh.tolist() == [[30, 45], [3, 4]]
    assert sizes.images.name == ("a.jpg", "b.jpg", "c.jpg")
    short = table.set_column(2, "bbox", pa.array([boxes[0], [1.0, 2.0, 3.0], boxes[2]]))
    pq.write_table(short, path)
    with pytest.raises(DataError, match=r"a\.parquet:2.*expected 4 numbers, found 3"):
        read(path, "parquet", box="ltrb")
    pq.write_table(table.set_column(2, "bbox", pa.array(["1,2,3,4"] * 3)), path)
    with pytest.raises(DataError, match="expected lists of 4 numbers"):
        read(path, "parquet", box="ltrb")


@pytest.mark.parametrize("n_groups", [1, 5])
def test_a_few_bytes_are_no_millions_of_rows(tmp_path, n_groups):
    n = 2**22 + 1
    same = pa.array([1.0]).take(pa.array(np.zeros(n, np.int64)))
    name = pa.DictionaryArray.from_arrays(np.zeros(n, np.int8), ["a"])
    table = pa.table(
        {"image": name, "class": name, **dict.fromkeys(("left", "top", "right", "bottom"), same)}
    )
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=-(-n // n_groups))
    assert path.stat().st_size < n // 10
    with pytest.raises(DataError, match=f"it claims {n} rows in"):
        read(str(path), "parquet")


@pytest.mark.parametrize(
    ("column", "what"), turns(["image", "class"], [(2**28, "bytes would fill"), (2**21, "a name has")])
)
def test_a_few_bytes_are_no_name_of_a_gigabyte(tmp_path, column, what):
    length, says = what
    names = {"image": ["a", "a"], "class": ["c", "c"]}
    names[column][0] *= length
    path = tmp_path / "a.parquet"
    edges = {key: [1.0, 2.0] for key in ("left", "top", "right", "bottom")}
    pq.write_table(pa.table(names | edges), path, compression="zstd")
    assert path.stat().st_size < 32_000
    with pytest.raises(DataError, match=says):
        read(str(path), "parquet")


def test_two_columns_of_one_name_are_named(tmp_path):
    objects = [{"bbox": [[1.0, 2, 3, 4]], "category": [1]}]
    rows = {"image": ["a"], "class": ["c"], **{key: [1.0] for key in ("left", "top", "right", "bottom")}}
    for table in ({"file_name": ["a"], "objects": objects}, rows):
        for name in [*table, "area", "other"]:
            names, columns = [*table, "area", "other", name], [*table.values(), [1.0], [1], [1]]
            path = tmp_path / "a.parquet"
            pq.write_table(pa.Table.from_arrays([pa.array(c) for c in columns], names=names), path)
            with pytest.raises(DataError, match=f"duplicate column name '{name}'"):
                read(str(path), "parquet")


def test_usual_names_are_those_of_csv(tmp_path):
    table = pa.table(
        {
            "fname": ["a.jpg", "b.jpg", "b.jpg"],
            "class": ["cat", "No finding", "cat"],
            "x": [1.0, None, 5.0], "y": [2.0, None, 6.0], "width": [3.0, None, 7.0], "height": [4.0, None, 8.0],
        }
    )  # fmt: skip
    path = str(tmp_path / "a.parquet")
    pq.write_table(table, path)
    data = read(path, "parquet")
    assert data.boxes.xyxy.tolist() == [[1, 2, 4, 6], [5, 6, 12, 14]]
    assert data.images.width.tolist() == [0, 0]
    assert data.categories.name == ("cat",)
    table = table.drop_columns(["fname"])
    pq.write_table(table.append_column("frame", pa.array([1, 2, 3])).append_column("image_id", pa.array([7, 8, 9])), path)  # fmt: skip
    assert read(path, "parquet").images.name == ("7", "8", "9")


def test_tracks_are_left_out_and_counted(tmp_path):
    data = Dataset.from_arrays(
        images=["v/1.jpg", "v/2.jpg"],
        categories=["cat"],
        image=[0, 1],
        category=[0, 0],
        ltwh=[[1, 2, 3, 4], [2, 2, 3, 4]],
        video=["v", "v"],
        frame=[1, 2],
        track=[5, 5],
    )
    write(data, str(tmp_path / "a.json"), "coco")
    done = subprocess.run(
        [sys.executable, "-m", "odm", "convert", "a.json", "a.parquet"],
        check=True,
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
    )
    assert "track" in done.stdout + done.stderr
    assert read(str(tmp_path / "a.parquet")).boxes.track is None
    with pytest.raises(UsageError, match="there is no role 'track'"):
        read(str(tmp_path / "a.parquet"), "parquet", columns="track:id")
