"""ZIP archives are read as folders and gzip files as what they hold; bad ones are refused."""

import gzip
import json
import os
import struct
import zipfile
from pathlib import Path

import pytest
from fixture_cases import FIXTURES
from PIL import Image
from selection import of_each

from odm import read
from odm.cli import _app
from odm.files import Source
from odm.files.opening import Unreadable, list_entries
from odm.issues import DataError, Log, PathError, UsageError

FOLDERS = sorted(path for path in (FIXTURES / "mixed").iterdir() if path.is_dir() and path.name != "parquet")


def pack(folder, path, top=""):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, f"{top}{file.relative_to(folder)}")


@of_each(FOLDERS)
def test_an_archive_is_read_as_its_folder(folder, tmp_path):
    """Whatever it is; what is refused on disk is refused in the archive."""
    pack(folder, path := tmp_path / "data.zip")
    found = []
    for source in (folder, path):
        try:
            data = read(source)
            found.append(
                [data.images.name, data.categories.name, data.boxes.xyxy.tolist(), data.images.width.tolist()]
            )
        except (DataError, UsageError, PathError) as e:
            found.append(str(e).replace(str(source), ""))
    assert found[0] == found[1]
    assert os.listdir(tmp_path) == ["data.zip"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("set/images").mkdir(parents=True)
    Path("set/labels").mkdir()
    for name in "ab":
        Image.new("RGB", (40, 30), "red").save(f"set/images/{name}.png")
        Path(f"set/labels/{name}.txt").write_text("0 .5 .5 .5 .5\n")
    pack(Path("set"), "set.zip")
    images = [{"id": i, "file_name": f"{n}.png", "width": 40, "height": 30} for i, n in enumerate("ab")]
    boxes = [{"id": i, "image_id": i, "category_id": 1, "bbox": [10, 7.5, 20, 15]} for i in range(2)]
    text = json.dumps({"images": images, "categories": [{"id": 1, "name": "0"}], "annotations": boxes})
    Path("gt.json.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path


@pytest.mark.parametrize("words", [
    ["stats", "set.zip"], ["validate", "set.zip"], ["validate", "gt.json.gz", "--images", "set.zip"],
    ["convert", "set.zip", "out.json", "--to", "coco"], ["show", "set.zip", "--out", "p.html"],
    ["convert", "set.zip", "out", "--to", "voc", "--copy-images"], ["stats", "gt.json.gz"],
    ["agree", "set.zip", "gt.json.gz"], ["stats", "set.zip/labels", "--image-size", "40x30"],
])  # fmt: skip
def test_every_command_reads_them(home, words, capfd):
    assert _app.run(words) == 0, capfd.readouterr().err
    if "coco" in words:
        assert [image["width"] for image in json.loads(Path("out.json").read_bytes())["images"]] == [40, 40]
    if "voc" in words:
        assert len(list(Path("out").rglob("*.png"))) == 2
    assert sorted(os.listdir("set/images")) == ["a.png", "b.png"]


def entry(name, data=b"x", mode=0o100644):
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    return info, data


@pytest.mark.parametrize(("files", "says"), [
    ([entry("../x.txt")], "not a safe name"), ([entry("/etc/x")], "not a safe name"), ([entry("a\\..\\b.txt")], "not a safe name"),
    ([entry("a", b"/etc/passwd", 0o120777)], "is a link"), ([entry("a"), entry("a")], "two entries"),
    ([entry("a", b"\0" * 2**24)], "in 16"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_that_is_not_safe_is_refused(tmp_path, files, says):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for info, data in files:
            archive.writestr(info, data)
    with pytest.raises(PathError, match=says):
        Source(str(tmp_path / "a.zip"))


def test_damage_is_named(home, capfd):
    data = bytearray(Path("set.zip").read_bytes())
    at = data.index(b"0 .5") if b"0 .5" in data else data.index(b"labels/a.txt") + 14
    data[at] ^= 0xFF
    Path("bad.zip").write_bytes(data)
    Path("cut.zip").write_bytes(data[:-30])
    Path("cut.json.gz").write_bytes(Path("gt.json.gz").read_bytes()[:-20])
    Path("bomb.json.gz").write_bytes(gzip.compress(b" " * 2**26))
    for name, says in (
        ("bad.zip", "unreadable-file"), ("cut.zip", "not a readable ZIP archive"), ("cut.json.gz", "truncated"), ("bomb.json.gz", "more bytes")
    ):  # fmt: skip
        assert _app.run(["validate", name, "--format", "yolo" if "zip" in name else "coco"]) in (1, 3)
        shown = "".join(capfd.readouterr())
        assert says in shown, shown


def test_what_is_larger_than_allowed_is_not_read(home):
    source, log = Source("set.zip", max_size=5), Log()
    assert source.read("labels/a.txt", log) is None
    assert "more than the limit of 5" in str(log.issues[0])
    with zipfile.ZipFile("set.zip") as archive:
        info = archive.getinfo("labels/a.txt")
    data = bytearray(Path("set.zip").read_bytes())
    at = data.rindex(b"PK\1\2", 0, data.rindex(b"labels/a.txt"))
    data[at + 8] |= 1  # encrypted
    struct.pack_into("<H", data, info.header_offset + 6, 1)
    Path("locked.zip").write_bytes(data)
    log = Log()
    assert Source("locked.zip").read("labels/a.txt", log) is None
    assert "it is encrypted" in str(log.issues[0])


def test_the_bytes_that_an_archive_holds_in_all_are_limited(tmp_path):
    """Where no file grows a thousandfold, and none is large."""
    packed = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(tmp_path / "many.zip", "w", packed) as archive:
        for i in range(40):
            archive.writestr(f"{i}.json", b"[" + b'{"a":1},' * 2**17 + b"{}]")
    with zipfile.ZipFile(tmp_path / "few.zip", "w", packed) as archive:
        archive.writestr("0.json", b"[" + b'{"a":1},' * 2**17 + b"{}]")
    assert (tmp_path / "many.zip").stat().st_size * 1000 > 40 * 2**20
    with pytest.raises(Unreadable, match="more than 100 times its own"):
        list_entries(tmp_path / "many.zip")
    assert list(list_entries(tmp_path / "few.zip")) == ["0.json"]
