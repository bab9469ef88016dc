"""The size of a picture comes from its header, however large it is."""

import io
import json
import os
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from cost import cost
from one_format import WRITTEN
from PIL import Image

import odm.pictures
from odm import read
from odm.cli import _app
from odm.converters import validate
from odm.files import Source
from odm.issues import Log
from odm.pictures import read_picture_size
from odm.report import Picture, pictures
from odm.report.pictures import make_shots

ORIENTATION = 0x0112


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, *, exif=None, late=False):
    """A whole PNG file of black pixels, one bit each."""
    packer = zlib.compressobj(1)
    row = bytes(1 + (width + 7) // 8)
    pixels = b"".join([*(packer.compress(row) for _ in range(height)), packer.flush()])
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    half = len(pixels) // 2
    parts = [chunk(b"IDAT", pixels[:half]), chunk(b"IDAT", pixels[half:])]
    if exif is not None:
        parts.insert(2 if late else 0, chunk(b"eXIf", exif))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(parts) + chunk(b"IEND", b"")


def turned():
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    return exif.tobytes().removeprefix(b"Exif\0\0")


def test_a_large_picture_is_no_bomb_where_only_its_header_is_read(tmp_path):
    path = tmp_path / "map.png"
    path.write_bytes(png(28_000, 27_000))
    limit, log = Image.MAX_IMAGE_PIXELS, Log()
    assert cost(lambda: read_picture_size(str(path), log), 50) < 50, "no pixel is decoded"
    assert read_picture_size(str(path), log) == (28_000, 27_000)
    assert not log.issues
    assert limit == Image.MAX_IMAGE_PIXELS
    with pytest.raises(Image.DecompressionBombError):
        Image.open(path)


@pytest.mark.parametrize("late", [False, True])
def test_a_picture_is_turned_by_exif_before_or_after_its_pixels(tmp_path, late):
    path = tmp_path / "turned.png"
    path.write_bytes(png(40, 30, exif=turned(), late=late))
    with Image.open(path) as image:
        assert image.getexif()[ORIENTATION] == 6
    assert read_picture_size(str(path), Log()) == (30, 40)


@pytest.mark.parametrize("cut", [9, 20, 33, 40])
def test_a_header_that_is_cut_is_no_traceback(tmp_path, cut):
    path = tmp_path / "cut.png"
    path.write_bytes(png(40, 30)[:cut])
    log = Log()
    assert (read_picture_size(str(path), log) is None) == bool(log.issues)


JPEGS = {
    "baseline": ("RGB", {}),
    "progressive": ("RGB", {"progressive": True}),
    "grey": ("L", {}),
    "four channels": ("CMYK", {}),
    "comment and restarts": ("RGB", {"comment": b"by a camera", "restart_marker_rows": 1}),
    "turned": ("RGB", {"exif": b"Exif\0\0" + turned()}),
    "profile": ("RGB", {"icc_profile": bytes(300)}),
    "density": ("RGB", {"dpi": (72, 72)}),
}


@pytest.mark.parametrize("name", JPEGS)
def test_a_jpeg_header_is_read_as_pillow_reads_it(tmp_path, monkeypatch, name):
    """Also where any byte of it is another, or any number of its bytes is there."""
    mode, options = JPEGS[name]
    path = tmp_path / "a.jpg"
    Image.new(mode, (40, 30)).save(path, **options)
    whole = path.read_bytes()
    begin = whole.index(b"\xff\xda") + 20
    variants = [whole, *(whole[:n] for n in range(begin))]
    frame = whole.index(b"\xff\xc2" if name == "progressive" else b"\xff\xc0")
    for at in (frame + 5, frame + 7):  # height and width
        variants += [whole[:at] + b"\0\0" + whole[at + 2 :]]
    variants += [
        whole[:at] + bytes([value]) + whole[at + 1 :]
        for at in range(begin)
        for value in (whole[at] ^ 0x11, 0xFF - whole[at])
    ]

    def sizes():
        results = []
        for data in variants:
            monkeypatch.setattr(odm.pictures, "open_binary", lambda _, data=data: io.BytesIO(data))
            monkeypatch.setattr(odm.pictures, "read_head", lambda _, n, data=data: data[:n])
            log = Log()
            results.append((read_picture_size(str(path), log), [issue.message for issue in log.issues]))
        return results

    ours = sizes()
    assert ours[0] == (((30, 40) if name == "turned" else (40, 30)), [])
    opened = []
    monkeypatch.setattr(
        odm.pictures,
        "_parse_plain_jpeg_size",
        lambda head: opened.append(head),  # noqa: PLW0108 -- returns None
    )
    assert ours == sizes()
    assert len(opened) == len(variants)


@pytest.mark.parametrize("name", JPEGS)
def test_pillow_is_not_asked_where_a_jpeg_header_is_plain(tmp_path, monkeypatch, name):
    mode, options = JPEGS[name]
    path = tmp_path / "a.jpg"
    Image.new(mode, (40, 30)).save(path, **options)
    opened = []
    by_pillow = odm.pictures._read_size_by_pillow
    monkeypatch.setattr(odm.pictures, "_read_size_by_pillow", lambda s: opened.append(s) or by_pillow(s))
    read_picture_size(str(path), Log())
    # Pillow writes Adobe's segment for four channels.
    assert bool(opened) == (name in {"turned", "profile", "four channels"})


def test_what_is_no_picture_inside_starts_no_program(tmp_path, monkeypatch):
    """Pillow starts Ghostscript for EPS, whatever the name says."""

    def refuse(*_, **__):
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    path = tmp_path / "a.jpg"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 40 30\n%%EndComments\nshowpage\n")
    log = Log()
    assert read_picture_size(str(path), log) is None
    assert "of an unknown type" in str(log.issues[0])
    (shot,) = make_shots([Picture("a", str(path))], 20)
    assert "of an unknown type" in shot.remark


@pytest.mark.parametrize(
    ("mode", "suffix", "more", "refused"),
    [("RGBA", "png", {}, True), ("RGB", "jpg", {"progressive": True}, True), ("RGB", "jpg", {}, False)],
)
def test_a_picture_that_takes_too_much_memory_is_not_decoded(
    tmp_path, monkeypatch, mode, suffix, more, refused
):
    monkeypatch.setattr(pictures, "BUDGET", 2**20)
    paths = [str(tmp_path / f"{i}.{suffix}") for i in range(3)]
    for path in paths:
        Image.new(mode, (600, 500)).save(path, **more)
    remarks = [shot.remark for shot in make_shots([Picture("a", path) for path in paths], 30)]
    assert [bool(remark) for remark in remarks] == [refused] * 3, remarks


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("convert", "gt.json", "out", "--to", "yolo", "--copy-images"), 1, "none for 1 of 2: '"),
        (("convert", "gt.json", "out", "--to", "yolo", "--link-images"), 1, "none for 1 of 2: '"),
        (("convert", "gt.json", "out", "--to", "tfrecord"), 1, "was not found, but"),
        (("validate", "gt.json"), 0, "1 link leads outside it, not followed"),
        (("show", "gt.json", "--out", "out"), 0, "1 link leads outside it, not followed"),
        (
            ("convert", "labels", "out.json", "--to", "coco"),
            1,
            "its picture is behind a link that leads outside",
        ),
    ],
)
@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_link_that_leads_out_of_the_folder_of_pictures(
    tmp_path, monkeypatch, capfd, words, code, said, follow, linked
):
    monkeypatch.chdir(tmp_path)
    names = ["a", "b" if linked == "file" else "deep/b"]
    for folder in ("photos", "secret"):
        (tmp_path / folder).mkdir()
    for path in ("photos/a.png", "secret/b.png"):
        Image.new("RGB", (40, 30)).save(path)
    if linked == "file":
        (tmp_path / "photos/b.png").symlink_to("../secret/b.png")
    else:
        (tmp_path / "photos/deep").symlink_to("../secret")
    images = [{"id": i, "file_name": f"{n}.png", "width": 40, "height": 30} for i, n in enumerate(names)]
    boxes = [{"id": i, "image_id": i, "category_id": 1, "bbox": [1, 2, 3, 4]} for i in range(2)]
    text = {"images": images, "categories": [{"id": 1, "name": "x"}], "annotations": boxes}
    Path("gt.json").write_text(json.dumps(text))
    for name in names:
        (label := Path(f"labels/{name}.txt")).parent.mkdir(parents=True, exist_ok=True)
        label.write_text("0 .5 .5 .1 .1\n")
    more = ["--follow-links"] if follow else []
    assert _app.run([*words, "--images", "photos", *more]) == (0 if follow else code)
    assert (said in capfd.readouterr().err) == (not follow)
    if follow and "--copy-images" in words:
        assert len(list(Path("out/images").rglob("*.png"))) == 2


@pytest.mark.parametrize("how", ["copy", "link"])
@pytest.mark.parametrize("name", sorted(set(WRITTEN) - {"tfrecord"}))  # which holds the pictures themselves
def test_pictures_are_put_beside_every_format_and_read_again(tmp_path, monkeypatch, name, how):
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    for image in "ab":
        Image.new("RGB", (40, 30), "red").save(f"photos/{image}.png")
    Path("in.csv").write_text("image,x1,y1,x2,y2,class\na.png,1,2,3,4,x\nb.png,5,6,27,28,y\n")
    words = ["--to", name, "--images", "photos", f"--{how}-images", "-q"]
    assert _app.run(["convert", "in.csv", "out", *words]) == 0
    found = list(Path("out").rglob("*.png"))
    assert [path.is_symlink() for path in found] == [how == "link"] * 2
    assert {path.read_bytes() for path in found} == {Path("photos/a.png").read_bytes()}
    before, after = read("in.csv", images="photos"), read("out")
    assert after.boxes.xyxy.round(3).tolist() == before.boxes.xyxy.tolist()
    if name == "yolo":
        assert read("out/data.yaml").boxes.xyxy.round(3).tolist() == before.boxes.xyxy.tolist()


def test_sizes_that_are_not_those_of_the_pictures(tmp_path):
    for name, size in (("a", (640, 480)), ("b", (480, 640)), ("c", (1280, 960))):
        Image.new("L", size).save(tmp_path / f"{name}.png")
    images = [{"id": i, "file_name": f"{n}.png", "width": 640, "height": 480} for i, n in enumerate("abc", 1)]
    (tmp_path / "gt.json").write_text(json.dumps({"images": images, "annotations": [], "categories": []}))
    log = Log()
    for times in (1, 2):  # a log that has issues already keeps them
        issues = validate(tmp_path / "gt.json", images=tmp_path, select=["picture-size*"], log=log)
        assert log.issues == issues * times
    found = [i for i in validate(tmp_path / "gt.json", images=tmp_path) if "picture-size" in i.code]
    assert found == issues
    assert [i.code for i in found] == ["picture-size-swapped", "picture-size-differs"]
    assert "say 640x480 pixels, but the picture has 1280x960;" in found[1].message


@pytest.mark.parametrize("name", ["dota", "kitti", "labelme", "txt", "voc", "yolo"])
def test_linked_pictures_of_splits_are_read_again_with_their_sizes(tmp_path, monkeypatch, capfd, name):
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    for image in "ab":
        Image.new("RGB", (40, 30)).save(f"photos/{image}.png")
    Path("in.csv").write_text("image,x1,y1,x2,y2,class\na.png,1,2,3,4,x\nb.png,5,6,27,28,x\n")
    words = ["--to", name, "--images", "photos", "--link-images", "--split-into", "train:1,val:1"]
    assert _app.run(["convert", "in.csv", "out", *words, "--no-stratify"]) == 0
    assert _app.run(["validate", "out", "--format", name]) == 0
    assert "stray-file" not in capfd.readouterr().err
    images = read("out", name).images
    assert (images.width.tolist(), images.height.tolist()) == ([40, 40], [30, 30])


SIZES = ("--image-size", "40x30")


def test_pictures_and_one_file_or_both_ways_or_none(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    for image in "ab":
        Image.new("RGB", (40, 30)).save(f"photos/{image}.png")
    Path("in.csv").write_text("image,x1,y1,x2,y2,class\na.png,1,2,3,4,x\nb.png,1,2,3,4,x\n")
    for words, code, says in (
        (
            ("out.json", "--to", "coco", "--copy-images"),
            2,
            "one file cannot hold the pictures of --copy-images",
        ),
        (("out", "--to", "voc", "--copy-images", "--link-images"), 2, "use one of them"),
        (
            ("out", "--to", "voc", "--split-into", "train:50,val:50", "--no-stratify"),
            0,
            "pictures were not added (use --link-images",
        ),
        (("out2", "--to", "tfrecord", "--copy-images"), 0, ""),
        (
            ("out3", "--to", "tfrecord", "--link-images"),
            2,
            "tfrecord holds pictures in its own files; use --copy-images",
        ),
        (("out3", "--to", "tfrecord", "--copy-images", "-O", "pictures=false"), 2, "use one of them"),
        (("out3", "--to", "yolo", "--copy-images", "--link-images"), 2, "use one of them"),
        (("out3.csv", "--copy-images"), 2, "one file cannot hold the pictures of --copy-images"),
        (("out3.parquet", "--link-images"), 2, "one file cannot hold the pictures of --link-images"),
        (("out3", "--to", "voc", "-O", "copy_images=maybe"), 2, "copy_images=maybe: not true or false"),
        (("out4", "--to", "voc", "-O", "copy_images=false"), 0, ""),
    ):
        assert _app.run(["convert", "in.csv", *words, "--images", "photos"]) == code
        assert says in " ".join(capfd.readouterr().err.split())
    assert sorted(os.listdir("out4")) == ["a.xml", "b.xml"]
    for name in ("coco", "tfrecord", "voc", "yolo"):  # none of the pictures is known
        assert _app.run(["convert", "in.csv", "out5", "--to", name, "--copy-images", *SIZES]) == 1
        assert "picture-not-known expected the picture" in capfd.readouterr().err
        assert not Path("out5").exists()


@pytest.mark.parametrize("follow_links", [True, False])
@pytest.mark.parametrize("links", ["", "file", "folder", "above", "nothing", "apart"])
@pytest.mark.parametrize("suffix", ["images", "images/", "images/../images", "labels", "."])
def test_a_folder_of_a_source_holds_what_it_holds_alone(tmp_path, monkeypatch, follow_links, links, suffix):
    """Where nothing can differ, no folder is listed twice."""
    root = tmp_path / "root"
    for name in (
        "root/images/b/1.jpg",
        "root/images/2.jpg",
        "root/images/.hidden",
        "root/labels/2.txt",
        "away/3.jpg",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    targets = {
        "file": "away/3.jpg",
        "folder": "away",
        "above": "root",
        "nothing": "lost.jpg",
        "apart": "away",
    }
    if links:
        place = root / ("other" if links == "apart" else "images/link.jpg")
        place.symlink_to(tmp_path / targets[links])
    source = Source(str(root), follow_links=follow_links)
    assert source.files
    folder = f"{root}/{suffix}"
    alone = Source(folder, follow_links=follow_links)
    expected = alone.files, alone.picture_links
    listed = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda place: listed.append(place) or scan(place))
    part = source.part(folder)
    assert (part.files, part.picture_links) == expected
    is_plain = suffix in ("images", "images/", "labels")
    can_differ = links == "above" if follow_links else bool(links)
    assert bool(listed) == (not is_plain or can_differ)
