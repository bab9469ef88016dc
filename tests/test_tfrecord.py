"""TFRecord: framing, messages, label maps, shards and pictures."""

import functools
import hashlib
import io
import struct

import numpy as np
import one_format
import pytest
from cost import cost
from PIL import Image

import odm
from odm.files import Source
from odm.formats import FORMATS, detect
from odm.formats.tfrecord.layout import format_label_map, read_label_map
from odm.formats.tfrecord.wire import (
    Damaged,
    begins_record,
    decode_example,
    encode_example,
    frame_record,
    read_records,
)
from odm.issues import DataError, Log
from odm.tables import Dataset

read = functools.partial(one_format.read, name="tfrecord")


def small(**more):
    return {
        "image/filename": [b"a.jpg"],
        "image/width": np.array([100], np.int64),
        "image/height": np.array([80], np.int64),
        "image/object/bbox/xmin": np.array([0.25], np.float32),
        "image/object/bbox/ymin": np.array([0.125], np.float32),
        "image/object/bbox/xmax": np.array([0.5], np.float32),
        "image/object/bbox/ymax": np.array([0.5], np.float32),
        "image/object/class/label": np.array([2], np.int64),
    } | {f"image/{key.replace('__', '/')}": value for key, value in more.items()}


def test_a_record_byte_by_byte(tmp_path):
    """The framing and a message written out by hand, from the definitions; the sums are those of RFC 3720's CRC."""
    feature = b"\x0a\x07\x0a\x05a.jpg"  # bytes_list { value: "a.jpg" }
    entry = b"\x0a\x0eimage/filename\x12\x09" + feature
    message = b"\x0a" + bytes([len(entry) + 2]) + b"\x0a" + bytes([len(entry)]) + entry
    assert encode_example({"image/filename": [b"a.jpg"]}) == message
    found, others = decode_example(message, frozenset({"image/filename"}))
    assert (found, others) == ({"image/filename": [b"a.jpg"]}, [])
    assert decode_example(message, frozenset())[1] == ["image/filename"]
    crc = 0xE3069283  # of the digits 1 to 9
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32
    assert frame_record(b"123456789").endswith(b"123456789" + struct.pack("<I", masked))
    assert begins_record(frame_record(b"123456789"))
    assert not begins_record(b"\1" + frame_record(b"123456789")[1:])
    (tmp_path / "a").write_bytes(frame_record(b"123456789"))
    with (tmp_path / "a").open("rb") as stream:
        assert list(read_records(stream)) == [b"123456789"]


def test_numbers_one_by_one_are_read_as_packed_ones():
    def entry(key, feature):
        inner = b"\x0a" + bytes([len(key)]) + key + b"\x12" + bytes([len(feature)]) + feature
        return b"\x0a" + bytes([len(inner)]) + inner

    floats = b"\x12\x0a" + b"".join(b"\x0d" + struct.pack("<f", v) for v in (0.5, -2))
    whole = b"\x1a\x0e" + b"\x08\x96\x01" + b"\x08" + b"\xff" * 9 + b"\x01"
    features = entry(b"f", floats) + entry(b"i", whole)
    found, _ = decode_example(b"\x0a" + bytes([len(features)]) + features, frozenset({"f", "i"}))
    assert found["f"].tolist() == [0.5, -2]
    assert found["i"].tolist() == [150, -1]
    for values in (np.array([150, -1, 2**40], np.int64), np.array([0.5, 1.5], np.float32), [b"", b"x" * 300]):
        back, _ = decode_example(encode_example({"v": values}), frozenset({"v"}))
        assert list(back["v"]) == list(values)


@pytest.mark.parametrize(
    ("list_", "value"),
    [(2, b"\x08\x07"), (2, b"\x09" + bytes(8)), (3, b"\x0d" + bytes(4)), (3, b"\x09" + bytes(8))],
    ids=["float-varint", "float-64", "int-32", "int-64"],
)
def test_numbers_of_another_type_are_damage(list_, value):
    """A list of numbers (field 2 or 3 of a feature) with an entry that is neither packed nor of its type."""

    def field(number, content):
        return bytes([number << 3 | 2, len(content)]) + content

    entry = field(1, b"a") + field(2, field(list_, value))
    with pytest.raises(Damaged, match="another type"):
        decode_example(field(1, field(1, entry)), frozenset(["a"]))


def test_damaged_bytes_never_raise_anything_else(tmp_path):
    random = np.random.default_rng(3)
    whole = frame_record(encode_example(small(object__class__text=[b"x"]))) * 3
    path = tmp_path / "a.tfrecord"
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(random.integers(1, 4)):
            at = int(random.integers(0, len(data)))
            data[at : at + int(random.integers(0, 4))] = random.bytes(int(random.integers(0, 4)))
        path.write_bytes(bytes(data))
        _, log = read(path)
        assert log.errors
    message = encode_example(small())
    for _ in range(400):
        data = bytearray(message)
        data[int(random.integers(0, len(data)))] = int(random.integers(0, 256))
        try:
            decode_example(bytes(data), frozenset(small()))
        except Damaged:
            continue
        path.write_bytes(frame_record(bytes(data)))  # with the right sum, as a faulty program would write it
        read(path)


def test_label_maps_in_every_spelling():
    text = (
        '# comment { \n item { name: \'/m/01g317\'  id: 1  display_name: "a \\"b\\" \\303\\266" }\n'
        "item{id:3, name:'it\\'s # no comment'}\nitem: {\n  id: 2;\n name: \"x{y}\"\n}\n"
    )
    log = Log()
    assert read_label_map(text.encode(), "", log) == {1: 'a "b" \u00f6', 2: "x{y}", 3: "it's # no comment"}
    names = ('say "x"', "a\\b", "it's", "\u00f6")
    assert read_label_map(format_label_map(names), "", log) == dict(enumerate(names, 1))
    assert read_label_map(b"", "", log) == {}
    assert not log.errors


@pytest.mark.parametrize(
    "data",
    [
        format_label_map(tuple(f"class {i}" for i in range(100_000))),
        *(
            b"item { id: 1 name: 'a' " + piece * 300_000 + b"}"
            for piece in (b"w", b" ", b"\n", b"\\", b"'", b"#")
        ),
        b"item" + b" " * 300_000,
        b"item {" * 50_000,
    ],
    ids=["classes", "word", "blanks", "lines", "escapes", "quotes", "comment", "no-brace", "braces"],
)
def test_long_label_maps_take_time_in_proportion(data):
    # more than 5 000 where the time grows with the square
    assert cost(lambda: read_label_map(data, "", Log()), 1000, 2) < 1000


def test_names_of_classes_come_from_the_text_the_map_or_the_label(tmp_path):
    path = tmp_path / "coco_val.record-00000-of-00002"
    path.write_bytes(frame_record(encode_example(small())))
    assert detect(Source(str(path)), Log()).name == "tfrecord"
    data, log = read(path)
    assert (data.categories.name, log.counts, data.images.split) == (
        ("2",),
        {"numbered-classes": 1},
        ("val",),
    )
    assert data.boxes.xyxy.tolist() == [[25, 10, 50, 40]]
    (tmp_path / "label_map.pbtxt").write_text("item { id: 2 name: 'dog' } item { id: 1 name: 'cat' }")
    data, log = read(path)
    assert (data.categories.name, log.counts) == (("cat", "dog"), {})
    assert data.categories.name[data.boxes.category[0]] == "dog"
    path.write_bytes(frame_record(encode_example(small(object__class__text=[b"bird"]))))
    data, _ = read(path)
    assert data.categories.name[data.boxes.category[0]] == "bird"


def test_detections_beside_objects(tmp_path):
    """As infer_detections.py writes them."""
    found = small(
        object__class__text=[b"dog"],
        detection__label=np.array([2, 2], np.int64),
        detection__score=np.array([0.95, 0.5], np.float32),
        **{f"detection__bbox__{k}": np.array([0.25, v], np.float32) for k, v in zip(("xmin", "ymin", "xmax", "ymax"), (0, 0, 1, 1), strict=True)},
    )  # fmt: skip
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frame_record(encode_example(found)))
    truth, log = read(path)
    assert (truth.kind, len(truth)) == ("gt", 1)
    assert any("kind det" in note for note in log.notes)
    det, _ = read(path, kind="det")
    assert (det.kind, det.boxes.score.tolist()) == ("det", [0.95, 0.5])
    assert det.categories.name == ("2",)


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for name in ("a.jpg", "b.png", "c.jpg"):
        Image.new("RGB", (64, 48)).save(folder / name)
    rows = "".join(f"{name},64,48,cat,1,2,30,40\n" for name in ("a.jpg", "b.png", "c.jpg"))
    (tmp_path / "in.csv").write_text("filename,width,height,class,xmin,ymin,xmax,ymax\n" + rows)
    return tmp_path


def test_pictures_are_written_byte_by_byte_and_in_parts(pictures):
    log = Log()
    odm.convert(
        pictures / "in.csv", pictures / "out", to="tfrecord",
        from_options={"images": str(pictures / "images")}, to_options={"shards": 2}, log=log,
    )  # fmt: skip
    names = ["data.tfrecord-00000-of-00002", "data.tfrecord-00001-of-00002", "label_map.pbtxt"]
    assert sorted(p.name for p in (pictures / "out").iterdir()) == names
    keys = frozenset({"image/encoded", "image/format", "image/filename", "image/key/sha256"})
    held = {}
    for name in names[:2]:
        with (pictures / "out" / name).open("rb") as stream:
            for record in read_records(stream):
                features, _ = decode_example(record, keys)
                held[features["image/filename"][0].decode()] = features
    assert {name: f["image/format"] for name, f in held.items()} == {
        "a.jpg": [b"jpeg"], "b.png": [b"png"], "c.jpg": [b"jpeg"]
    }  # fmt: skip
    for name, features in held.items():
        data = (pictures / "images" / name).read_bytes()
        assert features["image/encoded"] == [data]
        assert features["image/key/sha256"] == [hashlib.sha256(data).hexdigest().encode()]
    back, log = read(pictures / "out")
    assert (len(back), back.images.width.tolist(), log.counts) == (3, [64] * 3, {})


@pytest.mark.parametrize("options", [{}, {"folds": 3, "no_stratify": True}, {"dry_run": True}])
def test_records_of_tiles_hold_the_cut_pictures(pictures, options):
    images = pictures / "images"
    for shade, name in enumerate(("a.jpg", "b.png", "c.jpg")):
        Image.effect_noise((64, 48), 10 + shade).save(images / name)
    out = pictures / "out"
    odm.convert(pictures / "in.csv", out, to="tfrecord", images=str(images), tile=32, overlap=0, **options)
    assert out.exists() != options.get("dry_run", False)
    for path in out.rglob("*.tfrecord"):
        with path.open("rb") as stream:
            for record in read_records(stream):
                keys = frozenset({"image/encoded", "image/filename"})
                features, _ = decode_example(record, keys)
                name = features["image/filename"][0].decode()
                stem, x, y, *_ = name.split("_")
                left, top = int(x[1:]), int(y[1:])
                with Image.open(images / (stem + name[-4:])) as whole:
                    expected = np.asarray(whole.crop((left, top, left + 32, top + 32)), int)
                with Image.open(io.BytesIO(features["image/encoded"][0])) as cut:
                    error = np.abs(np.asarray(cut, int) - expected).max()
                assert error <= (0 if name.endswith("png") else 20), name


def test_an_image_file_that_cannot_be_cut_into_records_is_named(pictures):
    (pictures / "images/b.png").write_text("no picture")
    with pytest.raises(odm.PathError, match=r"cannot be cut into tiles: .*b\.png"):
        odm.convert(
            pictures / "in.csv", pictures / "out", to="tfrecord", images=str(pictures / "images"), tile=32
        )
    assert not (pictures / "out").exists()


def test_tiles_are_divided_into_files_by_their_share_of_the_image_files(pictures, monkeypatch):
    images = pictures / "images"
    n_bytes = sum(path.stat().st_size for path in images.iterdir())
    monkeypatch.setattr("odm.formats.tfrecord.SHARD", n_bytes // 2 + 1)
    odm.convert(
        pictures / "in.csv", pictures / "out", to="tfrecord", images=str(images), tile="32x24", overlap=0
    )
    assert len(list((pictures / "out").glob("data.tfrecord-*-of-00002"))) == 2


@pytest.mark.parametrize(("options", "holds_pictures"), [
    ({}, True), ({"pictures": True}, True), ({"pictures": None}, True), ({"pictures": False}, False),
    ({"pictures": "false"}, False),
])  # fmt: skip
def test_a_switch_that_is_on_by_default_can_be_off(pictures, options, holds_pictures):
    odm.convert(
        pictures / "in.csv", pictures / "out", to="tfrecord", images=str(pictures / "images"), **options
    )
    assert (b"image/encoded" in (pictures / "out/data.tfrecord").read_bytes()) == holds_pictures


def test_a_picture_that_is_missing_among_others_is_named(pictures):
    (pictures / "images/b.png").unlink()
    with pytest.raises(DataError, match="tfrecord-picture-unknown"):
        odm.convert(
            pictures / "in.csv", pictures / "out", to="tfrecord",
            from_options={"images": str(pictures / "images")},
        )  # fmt: skip
    assert not (pictures / "out").exists()
    odm.convert(pictures / "in.csv", pictures / "out", to="tfrecord", to_options={"pictures": False})
    assert (pictures / "out/data.tfrecord").stat().st_size < 2000


def test_numbers_of_32_bits_are_as_near_as_declared(tmp_path):
    random = np.random.default_rng(0)
    low = random.uniform(0, 2500, (500, 2))
    boxes = np.concatenate([low, low + random.uniform(0, 2500, (500, 2))], axis=1)
    dataset = Dataset.from_arrays(
        images=["a.jpg"], width=[5000], height=[5000], categories=["x"], image=[0] * 500, category=[0] * 500, xyxy=boxes
    )  # fmt: skip
    odm.write(dataset, tmp_path / "out", "tfrecord")
    error = np.abs(odm.read(tmp_path / "out", "tfrecord").boxes.xyxy - boxes).max()
    assert 1e-6 < error < FORMATS["tfrecord"].max_error_px


@pytest.mark.parametrize(
    ("n_images", "shards", "n_files"), [(1, 3, 1), (2, 3, 2), (3, 3, 3), (5, 2, 2), (0, 3, 1)]
)
def test_no_part_is_without_an_image(n_images, shards, n_files, tmp_path):
    data = Dataset.from_arrays(
        images=[f"{i}.jpg" for i in range(n_images)], width=[9] * n_images, height=[9] * n_images,
        categories=["cat"], image=range(n_images), category=[0] * n_images, xyxy=[[1, 2, 3, 4]] * n_images,
    )  # fmt: skip
    odm.write(data, tmp_path / "out", "tfrecord", shards=shards, pictures=False)
    assert len(list((tmp_path / "out").glob("*.tfrecord*"))) == n_files
