"""Text that is not UTF-8: recognised where one encoding fits, read as the user says, and refused otherwise."""

import json

import pytest

import odm
from odm.cli import _app
from odm.converters.load import load
from odm.converters.pending import Request
from odm.files.opening import is_utf8
from odm.files.opening import recognise_encoding as recognise
from odm.issues import DataError, Log, UsageError

NAMES = {
    "gb18030": ["汽车", "行人", "自行车", "红绿灯"],
    "big5": ["汽車", "行人", "腳踏車", "紅綠燈"],
    "shift_jis": ["自動車", "歩行者", "バス", "信号機"],
    "euc_jp": ["自動車", "歩行者", "バス", "信号機"],
    "cp949": ["자동차", "보행자", "버스", "신호등"],
    "cp1252": ["café", "piéton", "forêt", "vélo"],
    "cp1250": ["łódź", "człowiek", "samochód", "żółw"],
    "cp1251": ["машина", "собака", "Человек", "кот"],
    "cp1253": ["άνθρωπος", "σκύλος", "γάτα", "Αυτοκίνητο"],
    "cp1254": ["köpek", "ağaç", "ışık", "kuş"],
}


def as_csv(names):
    return "image,class,xmin,ymin,xmax,ymax\n" + "".join(f"a.jpg,{name},1,2,30,40\n" for name in names)


def as_coco(names):
    boxes = [
        {"id": i, "image_id": 1, "category_id": i, "bbox": [1, 2, 30, 40], "area": 1200, "iscrowd": 0}
        for i in range(1, len(names) + 1)
    ]
    images = [{"id": 1, "file_name": "a.jpg", "width": 99, "height": 99}]
    categories = [{"id": i, "name": name} for i, name in enumerate(names, 1)]
    data = {"images": images, "annotations": boxes, "categories": categories}
    return json.dumps(data, ensure_ascii=False)


def as_lines(names):
    records = (
        {"file_name": f"{i}.jpg", "objects": {"bbox": [[1, 2, 3, 4]], "categories": [name]}}
        for i, name in enumerate(names)
    )
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def as_text(names):
    return "".join(f"{name} 0.9 1 2 30 40\n" for name in names)


def source(folder, kind, names, encoding):
    """Write class names in a file of a kind; the path to read."""
    if kind == "yolo":
        (folder / "labels").mkdir()
        rows = "".join(f"{i} 0.5 0.5 0.1 0.1\n" for i in range(len(names)))
        (folder / "labels/a.txt").write_text(rows)
        (folder / "classes.txt").write_bytes(("\n".join(names) + "\n").encode(encoding))
        return folder
    if kind == "data.yaml":
        (folder / "labels/val").mkdir(parents=True)
        (folder / "labels/val/a.txt").write_text("0 0.5 0.5 0.1 0.1\n")
        text = "val: images/val\nnames: [" + ", ".join(names) + "]\n"
        (folder / "data.yaml").write_bytes(text.encode(encoding))
        return folder
    name, write = {
        "csv": ("a.csv", as_csv),
        "coco": ("a.json", as_coco),
        "jsonl": ("metadata.jsonl", as_lines),
        "txt": ("a.txt", as_text),
    }[kind]
    (folder / name).write_bytes(write(names).encode(encoding))
    return folder / name


def read(path, log, encoding=""):
    shared = {"image_size": (99, 99)}
    request = Request(path=str(path), shared=shared, encoding=encoding)
    return load(request, log).dataset


@pytest.mark.parametrize("encoding", NAMES)
@pytest.mark.parametrize("kind", ["csv", "coco", "jsonl", "txt", "yolo", "data.yaml"])
def test_an_encoding_is_recognised_and_named(encoding, kind, tmp_path):
    log = Log()
    data = read(source(tmp_path, kind, NAMES[encoding], encoding), log)
    assert sorted(data.categories.name) == sorted(NAMES[encoding])
    assert [note for note in log.notes if f"not UTF-8, read as {encoding} " in note]


@pytest.mark.parametrize(
    ("encoding", "names"),
    [
        ("gbk", ["狗"]),  # two letters of Korean as well
        ("cp1252", ["père"]),  # pčre in cp1250
        ("cp1251", ["кот"]),  # κξς in cp1253
        ("cp1251", ["СОБАКА", "КОШКА"]),  # small letters in koi8-r
        ("koi8-r", ["машина", "собака"]),
        ("mac_roman", ["café", "Tür"]),
        ("cp866", ["машина", "собака"]),
        ("cp1255", ["מכונית", "כלב", "חתול"]),
        ("cp1256", ["سيارة", "كلب"]),
        ("cp874", ["รถยนต์", "แมว"]),
    ],
)
def test_what_is_unclear_is_refused_and_read_as_the_user_says(encoding, names, tmp_path):
    path = source(tmp_path, "csv", names, encoding)
    log = Log()
    with pytest.raises(DataError):
        read(path, log)
    assert set(log.counts) == {"not-utf8"}
    assert "--encoding" in str(next(iter(log)))
    assert sorted(read(path, Log(), encoding).categories.name) == sorted(names)


def test_candidates_are_named(tmp_path):
    log = Log()
    with pytest.raises(DataError):
        read(source(tmp_path, "csv", ["père"], "cp1252"), log)
    assert [n for n in log.notes if "it may be cp1252 (père), cp1250 (pčre)" in n]


def test_another_encoding_in_the_same_source_is_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes(as_text(NAMES["gb18030"]).encode("gbk"))
    (tmp_path / "b.txt").write_bytes(as_text(NAMES["shift_jis"]).encode("shift_jis"))
    log = Log()
    with pytest.raises(DataError):
        read(tmp_path, log)
    assert log.counts["not-utf8"] == 1


@pytest.mark.parametrize("kind", ["csv", "coco", "txt", "yolo"])
def test_an_encoding_that_is_wrong_is_an_error(kind, tmp_path):
    path = source(tmp_path, kind, NAMES["gb18030"], "gbk")
    log = Log()
    with pytest.raises(DataError):
        read(path, log, "shift_jis")
    assert "is not in shift_jis (--encoding)" in "".join(map(str, log))
    with pytest.raises(UsageError, match="unknown encoding"):
        read(path, Log(), "rot13")


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x81\xfe\xff" * 9,
        bytes(range(256)),
        b"caf\x81\n",
        b"\xc3",
        b"caf\xe9 \x01",
        "a,汽车".encode("utf-16-le"),
    ],
)
def test_binary_data_and_wide_text_are_not_guessed(data):
    assert recognise(data) == ("", {})


@pytest.mark.parametrize("text", ["", "plain", "汽车 café", "é" * 2**15, "a" * 2**15 + "é" * 2**14])
def test_utf8_is_left_alone(text):
    assert is_utf8(text.encode())
    assert is_utf8(text.encode("utf-16"))
    assert is_utf8(text.encode()[: 2**14 + 1], is_cut=True)


def test_the_option_of_the_command(tmp_path):
    path = source(tmp_path, "csv", ["狗"], "gbk")
    out = tmp_path / "out.json"
    words = ["convert", str(path), str(out), "--to", "coco", "--encoding", "gbk", "--image-size", "99x99"]
    assert _app.run(words) == 0
    assert "狗" in out.read_text(encoding="utf-8")


def test_each_side_of_an_evaluation_may_have_an_encoding_of_its_own(tmp_path, capsys):
    sides = []
    for name, encoding in (("gt", "gbk"), ("det", "big5")):
        (tmp_path / name).mkdir()
        score = " 0.9" if name == "det" else ""
        (tmp_path / name / "a.txt").write_bytes(f"中{score} 10 10 50 50\n".encode(encoding))
        sides.append(str(tmp_path / name))
    words = [
        "eval",
        *sides,
        "--gt-format",
        "txt",
        "--det-format",
        "txt",
        "--gt-box",
        "ltrb",
        "--det-box",
        "ltrb",
    ]
    assert _app.run([*words, "--gt-encoding", "gbk", "--det-encoding", "big5"]) == 0
    assert "mAP = 100.00 %" in capsys.readouterr().out


def test_the_encoding_is_that_of_files_beside_the_source_too(tmp_path):
    """Of a few characters it is not recognised."""
    labels, found, names = tmp_path / "labels", tmp_path / "found", ["日本人", "ネコ"]
    for folder, score in ((labels, ""), (found, " 0.9")):
        folder.mkdir()
        (folder / "a.txt").write_text(f"0 0.5 0.5 0.2 0.2{score}\n1 0.3 0.3 0.1 0.1{score}\n")

    def file(name, text):
        (tmp_path / name).write_bytes(text.encode("shift_jis"))
        return str(tmp_path / name)

    listed = file("names.txt", "\n".join(names))
    how = {"image_size": "100x100", "classes": listed, "encoding": "shift_jis"}
    tags, only = file("tags.csv", "image,天気\na,晴れ\n"), file("only.txt", "a\n")
    r = odm.eval(labels, found, analyze="slices", tags=tags, only_images=f"@{only}", **how)
    assert [row.name for row in r.classes] == names
    assert "晴れ" in str(dict(r.analysis)["slices"])
    odm.convert(labels, tmp_path / "out.json", from_="yolo", class_list=listed, to="coco", **how)
    assert list(odm.read(tmp_path / "out.json").categories.name) == names
    with pytest.raises(odm.PathError, match="not utf-16 text"):
        odm.convert(
            labels, tmp_path / "no.json", from_="yolo", class_list=listed, image_size="9x9", encoding="utf-16"
        )
