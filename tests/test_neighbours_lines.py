"""Formats of lines, of text or of JSON: files as their own tools write them, quirks, and damaged input."""

import random
from pathlib import Path

import numpy as np
import pytest

import odm
from odm import checks
from odm.files import Source
from odm.formats import FORMATS, detect, make_options
from odm.issues import DataError, Log
from odm.tables import Builder, Dataset

MIXED = Path(__file__).resolve().parent.parent / "fixtures" / "mixed"
NAMES = ("yolokeras",)


def lay(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder / "input" if len(files) > 1 or "/" in next(iter(files)) else folder / next(iter(files))


def read(path, name, kind=None, **options):
    builder, log = Builder(), Log()
    builder.kind = kind
    FORMATS[name].read(Source(str(path)), builder, log, make_options(FORMATS[name], options))
    return builder.build(), log


def seen(data):
    boxes = data.boxes
    return [
        (data.images.name[boxes.image[i]], data.categories.name[boxes.category[i]], *boxes.xyxy[i].tolist())
        for i in range(len(boxes))
    ]


VOC_LINES = """VOCdevkit/VOC2007/JPEGImages/000005.jpg 263,211,324,339,1 165,264,253,372,1
VOCdevkit/VOC2007/JPEGImages/000006.jpg
my pictures/a b.JPG 1,2,3,4,0
"""
CASES = {
    "yolokeras-voc-annotation": (
        "yolokeras",
        {"input/2007_train.txt": VOC_LINES, "input/model_data/voc_classes.txt": "bird\nchair\n"},
        [("VOCdevkit/VOC2007/JPEGImages/000005.jpg", "chair", 263, 211, 324, 339),
         ("VOCdevkit/VOC2007/JPEGImages/000005.jpg", "chair", 165, 264, 253, 372),
         ("my pictures/a b.JPG", "bird", 1, 2, 3, 4)],
        [0, 0, 0],
    ),
    "yolokeras-roboflow": (
        "yolokeras",
        {"input/train/_annotations.txt": "a_jpg.rf.0f.jpg 0,10,50,60,0\n", "input/train/_classes.txt": "helmet\n",
         "input/README.dataset.txt": "exported via roboflow.com\n", "input/README.roboflow.txt": "x\n"},
        [("a_jpg.rf.0f.jpg", "helmet", 0, 10, 50, 60)],
        [0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_files_as_their_tools_write_them(case, tmp_path):
    name, files, boxes, flags = CASES[case]
    path = lay(tmp_path, files)
    assert detect(Source(str(path)), Log()).name == name
    data, log = read(path, name)
    assert not log.errors, list(map(str, log))
    assert not checks.run(data, log).any()
    assert [b[:2] for b in seen(data)] == [b[:2] for b in boxes]
    np.testing.assert_allclose([b[2:] for b in seen(data)], [b[2:] for b in boxes], rtol=0, atol=1e-9)
    assert data.boxes.flags.tolist() == [int(f) for f in flags]


# ------------------------------------------------------------------------------------------- damaged files

JUNK = [b"", b"\0", b",", b"\n", b" ", b"-1", b"nan", b"1e999", b"\xff", b'"', b"{", b"[", b"null", b"9" * 400, b"\xe2\x80\xa8"]  # fmt: skip


def mutations(data, n, seed):
    """Damaged copies: bytes lost, doubled, exchanged, or the end cut."""
    random_ = random.Random(seed)
    for _ in range(n):
        copy = bytearray(data)
        for _ in range(random_.randint(1, 4)):
            at = random_.randrange(len(copy) + 1)
            copy[at : at + random_.randint(0, 6)] = random_.choice(JUNK)
        yield bytes(copy[: random_.randrange(len(copy) + 1)] if random_.random() < 0.2 else copy)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["gt", "det"])
def test_damaged_input_never_raises(name, kind, tmp_path):
    folder = MIXED / (name if kind == "gt" else f"{name}-detections")
    if not folder.exists():
        pytest.skip("the format has no detections")
    top = next(p for p in sorted(folder.iterdir()) if p.name.startswith("input"))
    sources = [top] if top.is_file() else [p for p in sorted(top.rglob("*")) if p.is_file()]
    for number, source in enumerate(sources):
        root = tmp_path / str(number)
        place = root / (source.relative_to(top) if top.is_dir() else source.name)
        for other in sources:
            copy = root / (other.relative_to(top) if top.is_dir() else other.name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(other.read_bytes())
        for damaged in mutations(source.read_bytes(), 40, f"{name}{kind}{number}"):
            place.write_bytes(damaged)
            path = place if top.is_file() else root
            for format_ in NAMES:
                FORMATS[format_].sniff(Source(str(path)))
            data, log = read(path, name, kind)
            checks.run(data, log)
            assert data.skipped == 0 or log.errors
            assert all(str(issue).isprintable() for issue in log)


# --------------------------------------------------------------------------------------------- YOLO-Keras


@pytest.mark.parametrize("line", ["1,2,3,4,5", "a 1,2,3,4,5", " a", "a  ", "x y,z"])
def test_yolokeras_names_that_would_not_be_read_back_are_not_written(tmp_path, line):
    dataset = Dataset.from_arrays(
        images=[line], categories=["x"], image=[0], category=[0], xyxy=[[0, 0, 1, 1]]
    )
    with pytest.raises(DataError, match="bad-name"):
        odm.write(dataset, tmp_path / "out", "yolokeras")
    assert not (tmp_path / "out").exists()


def test_yolokeras_rounds_on_request_and_says_the_splits(tmp_path):
    path = lay(tmp_path, {"input/train.txt": "a.jpg 1.4,2.6,30,40,0\n", "input/val.txt": "b.jpg\n"})
    (tmp_path / "input/classes.txt").write_text("x\n")
    data, _ = read(path, "yolokeras")
    assert data.images.split == ("train", "val")
    odm.convert(path, tmp_path / "out", to="yolokeras", to_options={"round": True, "prefix": "data/img/"})
    assert (tmp_path / "out/train.txt").read_text() == "data/img/a.jpg 1,3,30,40,0\n"
    assert (tmp_path / "out/val.txt").read_text() == "data/img/b.jpg\n"
    assert (tmp_path / "out/classes.txt").read_text() == "x\n"


def test_yolokeras_single_file_takes_the_classes_beside_it(tmp_path):
    lay(tmp_path, {"input/train.txt": "a.jpg 1,2,30,40,1\n", "input/classes.txt": "x\ny\n"})
    data, log = read(tmp_path / "input/train.txt", "yolokeras")
    assert seen(data) == [("a.jpg", "y", 1, 2, 30, 40)]
    assert not log.counts
