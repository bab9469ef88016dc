"""YOLO: its layouts, its names, its confidences, and boxes that come back."""

import functools
import itertools
import json

import hypothesis.strategies as st
import numpy as np
import one_format
import pytest
import yaml
from corpus_base import lay, tree
from hypothesis import HealthCheck, given, settings
from PIL import Image
from selection import examples

import odm
from odm.cli._app import run
from odm.evaluate import evaluate
from odm.files import Source
from odm.formats import FORMATS, SURE, detect
from odm.formats._shared.text.safe_yaml import is_none, load
from odm.issues import DataError, Log
from odm.tables import Dataset

YOLO = FORMATS["yolo"]
BOX = "0 .5 .5 .2 .2\n"
SIZE = {"image_size": "100x100"}
PICTURE = object()


def put(folder, files):
    lay(folder, {name: b"" if text is PICTURE else text for name, text in files.items()})
    for name in (name for name, text in files.items() if text is PICTURE):
        Image.new("L", (200, 100)).save(folder / name, "PNG" if name.lower().endswith("png") else "JPEG")
    return folder


read, write = (functools.partial(one, name="yolo") for one in (one_format.read, one_format.write))


def codes(log):
    return sorted(log.counts.elements())


def rows(data):
    boxes = data.boxes
    return [
        (
            data.images.name[boxes.image[i]],
            data.categories.name[boxes.category[i]],
            *np.round(boxes.xyxy[i], 9).tolist(),
        )
        for i in range(len(boxes))
    ]


# --------------------------------------------------------------------------------------------- the rows


@pytest.mark.parametrize(
    ("line", "name", "box"),
    [
        ("0 .5 .5 .2 .4", "a", (40, 30, 60, 70)),
        ("1.0 0.5 5e-1 .2 .4", "b", (40, 30, 60, 70)),
        ("\ufeff1\t.5  .5 .2 .4 \r", "b", (40, 30, 60, 70)),
        ("0 1.001 .5 .2 .4", "a", (90.1, 30, 110.1, 70)),
        ("0 .5 .5 0 0", "a", (50, 50, 50, 50)),
        ("0 .5 .5 -.2 .4", "a", (60, 30, 40, 70)),
    ],
)
def test_rows(tmp_path, line, name, box):
    data, log = read(put(tmp_path, {"x.txt": line + "\n", "classes.txt": "a\nb\n"}), **SIZE)
    assert not log.counts
    assert rows(data) == [("x", name, *box)]


def test_all_faults_are_found_in_one_run(tmp_path):
    lines = [
        ("0 .5 .5 .2 .2", None),
        ("0 .5 .5 .2", "2:1 wrong-count"),
        ("0 .5 .5 x .2", "3:9 not-a-number"),
        ("cat .5 .5 .2 .2", "4:1 yolo-class-id"),
        ("-1 .5 .5 .2 .2", "5:1 yolo-class-id"),
        ("9 .5 .5 .2 .2", "6:1 unknown-class"),
        ("0 50 .5 .2 .2", "7:3 relative-out-of-range"),
        ("0 .5 .5 .2 .2 .9", "8:15 score-unexpected"),
        ("0 .5 .5 .2 inf", "9:12 not-finite"),
        ("0 .1 .1 .2 .2 .3 .3 .4", "10 wrong-count"),
        ("0 .1 .1 .2 .2 .3 30", "11:18 relative-out-of-range"),
        ("99999999999999999999 .5 .5 .2 .2", "12:1 yolo-class-id"),
        ("1_0 .5 .5 .2 .2", "13:1 yolo-class-id"),
    ]
    text = "\n".join(line for line, _ in lines)
    data, log = read(
        put(tmp_path, {"x.txt": text, "y.txt": BOX * 9, "classes.txt": "a\nb"}), kind="gt", **SIZE
    )
    found = {f"{i.line}{f':{i.column}' if i.column else ''} {i.code}" for i in log}
    assert found == {location for _, location in lines if location}
    assert data.skipped == len(found)
    assert len(data) == 10


@pytest.mark.parametrize(
    ("files", "kind", "tracks", "scores"),
    [
        (["0 .5 .5 .2 .2 1", "0 .5 .5 .2 .2 1"], None, [1, 1], []),  # one object, followed
        (["0 .5 .5 .2 .2 1", "0 .5 .5 .2 .2 1"], "det", [], [1, 1]),
        (["0 .5 .5 .2 .2 1"], None, [], [1]),
        (["0 .5 .5 .2 .2 1\n0 .3 .3 .2 .2 1", "0 .5 .5 .2 .2 1"], None, [], [1, 1, 1]),
        (["0 .5 .5 .2 .2 7\n1 .3 .3 .2 .2 2", "0 .5 .5 .2 .2"], None, [7, 2], []),
        (["0 .5 .5 .2 .2 .9 1\n1 .3 .3 .2 .2 .8 2", "0 .5 .5 .2 .2 .7"], None, [1, 2], [0.9, 0.8, 0.7]),
        (["0 .1 .1 .5 .1 .1 1"], None, [], []),  # three corners, the last at the edge of the image
        (["0 .1 .1 .2 .1 .2 .2 .9 5", "0 .1 .1 .2 .1 .2 .2 .1 .2 .9 5"], None, [5, 5], [0.9, 0.9]),
    ],
)
def test_tracks(tmp_path, files, kind, tracks, scores):
    texts = {f"v_{i}.txt": text + "\n" for i, text in enumerate(files, 1)}
    data, log = read(put(tmp_path, {**texts, "classes.txt": "a\nb"}), kind=kind, **SIZE)
    assert not log.errors
    track = data.boxes.track
    assert ([] if track is None else data.tracks.source_id[track[track >= 0]].tolist()) == tracks
    assert data.boxes.score[~np.isnan(data.boxes.score)].tolist() == scores
    assert data.videos.name == (("v",) if tracks else ())


def test_outlines_are_read_as_their_boxes(tmp_path):
    text = "0 .1 .2 .5 .3 .4 .6\n1 .1 .1 .3 .1 .3 .2 .1 .2\n" + BOX
    data, log = read(put(tmp_path, {"x.txt": text, "classes.txt": "a\nb"}), **SIZE)
    assert codes(log) == ["outlines-as-boxes"]
    assert "2 of 3 objects" in log.issues[0].message
    assert rows(data)[:2] == [("x", "a", 10, 20, 50, 60), ("x", "b", 10, 10, 30, 20)]
    assert data.extras == {"segmentation": 1, "rotation": 1}


@pytest.mark.parametrize(
    ("row", "asked"), [("0 .5 .5 .4 .4 .4 .4 .5 .5 .6 .6", True), ("0 .1 .1 .3 .1 .4 .2 .3 .4 .1 .3", False)]
)
def test_polygons_that_may_be_key_points_name_the_key(tmp_path, row, asked):
    folder = tmp_path / "labels"
    folder.mkdir()
    (folder / "a.txt").write_text(f"{row}\n{row}\n{row}\n")
    log = Log()
    odm.read(tmp_path, "yolo", image_size="10x10", log=log)
    (text,) = [str(issue) for issue in log if issue.code == "outlines-as-boxes"]
    assert ("set kpt_shape in data.yaml" in text) == asked


def test_key_points_are_left_out(tmp_path):
    files = {
        "labels/x.txt": "0 .5 .5 .2 .2 .4 .4 2 .6 .6 1\n",
        "data.yaml": "train: images\nkpt_shape: [2, 3]\nnames: [a]\n",
    }
    data, log = read(put(tmp_path, files), **SIZE)
    assert not log.counts
    assert rows(data) == [("x", "a", 40, 40, 60, 60)]


def test_a_list_of_images_within_and_outside_the_data_set_is_followed(tmp_path):
    for folder in ("in", "out"):
        put(tmp_path / folder / "labels", {f"{folder}.txt": "0 .5 .5 .2 .2\n"})
        put(tmp_path / folder / "images", {f"{folder}.jpg": ""})
    listed = f"images/in.jpg\n{tmp_path}/out/images/out.jpg\n"
    put(tmp_path / "in", {"train.txt": listed, "data.yaml": "train: train.txt\nnames: [cat]\n"})
    data, log = read(tmp_path / "in" / "data.yaml", **SIZE)
    assert not log.errors
    assert data.images.name == ("in/images/in.jpg", "out/images/out.jpg")


@pytest.mark.parametrize("shape", ["[2, x]", "[two, 3]", "[2.5, 3]", "2", "[]", "[[2, 3]]", "[2, -3]"])
def test_a_shape_of_keypoints_that_is_none_says_nothing(tmp_path, shape):
    row = "0 .5 .5 .2 .2 .4 .4 2 .6 .6 1\n"
    yaml = f"train: images\nkpt_shape: {shape}\nnames: [a]\n"
    with_shape = read(put(tmp_path / "a", {"labels/x.txt": row, "data.yaml": yaml}), **SIZE)
    yaml = yaml.replace(f"kpt_shape: {shape}\n", "")
    without = read(put(tmp_path / "b", {"labels/x.txt": row, "data.yaml": yaml}), **SIZE)
    assert rows(with_shape[0]) == rows(without[0])
    assert with_shape[1].counts == without[1].counts


@pytest.mark.parametrize("kind", ["det", None])
def test_predicted_key_points_are_known_without_a_description(tmp_path, kind):
    # yolo pose predict save_txt=True save_conf=True: each point with its confidence, then that of the box;
    # a point that is not likely may be anywhere
    row = "0 .5 .5 .2 .4 .45 .4 .98 .55 .6 .87 .9 .1 .2 {}\n"
    folder = put(tmp_path / "labels", {"x.txt": "".join(map(row.format, (0.9, 0.8, 0.7)))})
    data, _ = read(folder, kind=kind, **SIZE)
    assert data.boxes.score.tolist() == [0.9, 0.8, 0.7]
    assert rows(data)[0] == ("x", "0", 40, 30, 60, 70)
    data = odm.read(folder, kind=kind, shapes=True, image_size="100x100")
    assert data.boxes.keypoints.counts().tolist() == [3, 3, 3]
    if kind is None:  # ground truth has no confidences
        assert "keypoints" not in "".join(read(folder, kind="gt", **SIZE)[1].notes)


# ------------------------------------------------------------------------------------------- the layouts

NAMES = "a\nb\n"


@pytest.mark.parametrize(
    ("files", "source", "images", "splits"),
    [
        ({"x.txt": BOX, "x.JPG": PICTURE, "z.png": PICTURE}, "", "x.JPG z.png", " "),
        ({"labels/x.txt": BOX, "images/x.png": PICTURE, "images/z.jpeg": PICTURE}, "", "x.png z.jpeg", " "),
        (
            {"labels/x.txt": BOX, "images/x.png": PICTURE, "images/z.jpeg": PICTURE},
            "labels",
            "x.png z.jpeg",
            " ",
        ),
        ({"labels/x.txt": BOX, "images/x.png": PICTURE}, "labels/x.txt", "x.png", ""),
        ({"x.txt": BOX, "x.png": PICTURE, "y.png": PICTURE}, "x.txt", "x.png", ""),
        ({"labels/train/x.txt": BOX, "images/train/x.png": PICTURE}, "labels/train", "x.png", ""),
        (
            {
                "labels/train/x.txt": BOX,
                "images/train/x.png": PICTURE,
                "labels/val/y.txt": BOX,
                "images/val/y.png": PICTURE,
            },
            "",
            "x.png y.png",
            "train val",
        ),
        (
            {
                "train/labels/x.txt": BOX,
                "train/images/x.png": PICTURE,
                "valid/labels/y.txt": BOX,
                "valid/images/y.png": PICTURE,
            },
            "",
            "x.png y.png",
            "train val",
        ),
        (
            {
                "train/labels/x.txt": BOX,
                "train/images/x.png": PICTURE,
                "valid/labels/y.txt": BOX,
                "valid/images/y.png": PICTURE,
            },
            "train",
            "x.png",
            "",
        ),
        ({"labels/deep/x.txt": BOX, "images/deep/x.png": PICTURE}, "", "deep/x.png", ""),
    ],
)
def test_layouts(tmp_path, files, source, images, splits):
    put(tmp_path, {**files, "names": NAMES})
    data, log = read(tmp_path / source, classes=str(tmp_path / "names"))
    assert [str(i) for i in log if i.code not in ("stray-file", "pictures-without-labels")] == []
    assert data.images.name == tuple(images.split())
    assert data.images.split == tuple(splits.split(" ") if splits else [""] * len(images.split()))
    assert rows(data)[0][2:] == (80, 40, 120, 60)
    assert data.images.path[0].lower().endswith((".png", ".jpg"))


TREE = {
    "images/train/x.png": PICTURE,
    "labels/train/x.txt": BOX,
    "images/train/empty.png": PICTURE,
    "images/val/y.png": PICTURE,
    "labels/val/y.txt": "1 .5 .5 .2 .2\n",
}


@pytest.mark.parametrize(
    "text",
    [
        "train: images/train\nval: images/val\nnames: [a, b]\nnc: 2\n",
        "path: .\ntrain: ./images/train/\nval: ../images/val\nnames:\n- a\n- b\n",
        "path: ../datasets/somewhere\ntrain: [images/train]\nval:\n  - images/val\nnames: {0: a, 1: b}\n",
        "path: /content/data\ntrain: images/train\nval: images/val\ntest:\nnames:\n  1: b\n  0: a\n",
        '\ufeff# comment\r\n"train": "images/train"\r\n\'val\': images/val\r\ntest: ~\r\nnames: ["a", \'b\']\r\nnc: 2.0\r\n',
        "train: train.txt\nval: [lists/val.txt]\nnames: [a, b]\n",
        "train: images\\train\nvalid: images\\val\nnames: [a, b]\ndownload: |\n  import os\n",
    ],
)
@pytest.mark.parametrize("name", ["data.yaml", "dataset.yml", "pets.yaml"])
def test_every_shape_of_data_yaml(tmp_path, text, name):
    lists = {
        "train.txt": "./images/train/x.png\r\n\r\n./images/train/empty.png\n",
        "lists/val.txt": "\ufeff../images/val/y.png\n",
    }
    put(tmp_path, {**TREE, name: text, **(lists if ".txt" in text else {})})
    for source in (tmp_path, tmp_path / name):
        data, log = read(source)
        assert log.counts == {"pictures-without-labels": 1}
        assert data.images.name == ("empty.png", "x.png", "y.png")
        assert data.images.split == ("train", "train", "val")
        assert data.categories.name == ("a", "b")
        assert rows(data) == [("x.png", "a", 80, 40, 120, 60), ("y.png", "b", 80, 40, 120, 60)]
    assert detect(Source(str(tmp_path)), Log()) is YOLO


ELSEWHERE = {
    "sets/pets/images/train/x.png": PICTURE,
    "sets/pets/labels/train/x.txt": BOX,
    "sets/pets/images/val/y.png": PICTURE,
    "sets/pets/labels/val/y.txt": "1 .5 .5 .2 .2\n",
    "sets/pets/train.txt": "./images/train/x.png\n",
    "other/classes.txt": "wrong\n",
    "config/other/labels/z.txt": BOX,
    "config/other/classes.txt": "wrong\n",
}


@pytest.mark.parametrize(
    ("folder", "text"),
    [
        ("config", "path: ../sets/pets\ntrain: images/train\nval: images/val\n"),  # from the file
        ("config", "path: sets/pets\ntrain: images/train\nval: images/val\n"),  # from the working folder
        ("config", "path: HERE/sets/pets\ntrain: images/train\nval: images/val\n"),
        ("config", "train: HERE/sets/pets/images/train\nval: ../sets/pets/images/val\n"),
        ("config", "path: ../sets/pets\ntrain: train.txt\nval: [images/val]\n"),
        ("config", "train: here.txt\nval: ../sets/pets/images/val\n"),
        ("sets/pets/config", "path: ..\ntrain: images/train\nval: images/val\n"),
        (
            "datasets",
            "path: pets\ntrain: images/train\nval: images/val\n",
        ),  # datasets/ beside the working one
    ],
)
def test_the_paths_of_a_file_that_the_user_named(tmp_path, monkeypatch, folder, text):
    files = {
        name.replace("sets/", "datasets/") if folder == "datasets" else name: f
        for name, f in ELSEWHERE.items()
    }
    put(tmp_path, files)
    text = text.replace("HERE", str(tmp_path)) + "names: [a, b]\n"
    here = {"here.txt": f"{tmp_path}/sets/pets/images/train/x.png\n"} if "here.txt" in text else {}
    put(tmp_path / folder, {"pets.yaml": text, **here})
    monkeypatch.chdir(tmp_path / "other" if folder == "datasets" else tmp_path)
    path = tmp_path / folder / "pets.yaml"
    data, log = read(path)
    assert not log.counts
    assert data.images.name == ("x.png", "y.png")
    assert data.images.split == ("train", "val")
    assert rows(data) == [("x.png", "a", 80, 40, 120, 60), ("y.png", "b", 80, 40, 120, 60)]
    assert sum("lead outside its folder" in note for note in log.notes) == (folder != "datasets")
    if folder == "config":  # nobody named the file, so its paths are not followed
        assert not read(path.parent)[0].images.name


def test_places_that_are_not_there_are_named_with_path(tmp_path):
    put(tmp_path, {**TREE, "data.yaml": "path: /nowhere/pets\ntrain: pictures\nnames: [a, b]\n"})
    (issue,) = read(tmp_path / "data.yaml")[1]
    assert issue.code == "yolo-split-missing"
    assert f"in path: /nowhere/pets (tried {str(tmp_path)[:20]}" in issue.message.replace("'", "")


@pytest.mark.parametrize(
    ("files", "images", "splits", "classes"),
    [
        # Any key of darknet's description that names a list of images is a split.
        (
            {
                "obj.data": "classes=2\ntrain=data/train.txt\nval=data/valid.txt\nmore=data/more.txt\nnames=data/obj.names",
                **{f"{name}.txt": f"data/obj/{name}.jpg\n" for name in ("train", "valid", "more")},
                **{f"obj/{name}.txt": BOX for name in ("train", "valid", "more")},
                "obj.names": NAMES,
            },
            "more train valid",
            "more train val",
            "a b",
        ),
        ({"labels/x.txt": BOX, "data/x.jpg": PICTURE, "classes.txt": NAMES}, "x.jpg", " ", "a b"),
        ({"labels/x.txt": BOX, "JPEGImages/x.jpg": PICTURE, "classes.txt": NAMES}, "x.jpg", " ", "a b"),
        (
            {"labels/val/x.txt": BOX, "data/val/x.jpg": PICTURE, "data.yaml": "val: data/val\nnames: [a, b]"},
            "x.jpg",
            "val",
            "a b",
        ),
        ({"data/x.txt": BOX, "images.txt": "data/x.jpg", "obj.names": NAMES}, "x", " ", "a b"),
        # Names from 1 on, and labels that count so, and that do not.
        ({"labels/x.txt": "1" + BOX[1:], "data.yaml": "names: {1: a, 2: b}"}, "x", " ", "a b"),
        ({"labels/x.txt": BOX, "data.yaml": "names: {1: a, 2: b}"}, "x", " ", "a b"),
        # Only what a description names is read.
        (
            {**{f"{k}/{t}": f for k in ("one", "two") for t, f in {"images/x.jpg": PICTURE, "labels/x.txt": BOX}.items()},
             "two/classes.txt": "wrong\n", "data.yaml": "train: one/images\nnames: [a, b]"},
            "x.jpg",
            "train",
            "a b",
        ),
    ],
)  # fmt: skip
def test_layouts_of_other_tools(tmp_path, files, images, splits, classes):
    put(tmp_path, files)
    data, log = read(tmp_path, **SIZE)
    assert not log.counts.keys() - {"yolo-names-from-1"}
    assert data.images.name == tuple(images.split())
    assert data.images.split == tuple(splits.split() or [""])
    assert data.categories.name == tuple(classes.split())
    assert {row[1] for row in rows(data)} == {"a"}


def test_images_add_to_those_of_the_data_set(tmp_path):
    put(
        tmp_path,
        {**TREE, "labels/val/w.txt": BOX, "data.yaml": "train: images/train\nval: images/val\nnames: [a, b]"},
    )
    put(tmp_path / "photos", {"w.png": PICTURE, "val/y.png": PICTURE})
    data, log = read(tmp_path, images=str(tmp_path / "photos"))
    assert log.counts == {"pictures-without-labels": 1}
    assert data.images.name == ("empty.png", "w.png", "x.png", "y.png")
    assert [path.removeprefix(str(tmp_path)) for path in data.images.path] == [
        "/images/train/empty.png", "/photos/w.png", "/images/train/x.png", "/images/val/y.png",
    ]  # fmt: skip


def test_files_that_a_description_names_are_left_out(tmp_path, capsys):
    put(tmp_path, {**TREE, "data.yaml": "train: images/train\nval: images/val\nnames: [a, b]\n"})
    (tmp_path / "labels/val/y.txt").write_bytes(b"\xff\xfe\0 .5")
    command = ["convert", str(tmp_path / "data.yaml"), str(tmp_path / "out.json"), "--to", "coco"]
    assert run(command) == 1
    assert run([*command, "--skip-bad", "--skip-bad-files"]) == 0
    assert "labels/val/y.txt: left out, with its images" in capsys.readouterr().err


def test_one_split(tmp_path):
    put(tmp_path, {**TREE, "data.yaml": "train: images/train\nval: images/val\nnames: [a, b]\n"})
    for name in ("val", "valid"):
        data, log = read(tmp_path, split=name)
        assert not log.counts
        assert data.images.name == ("y.png",)
        assert data.categories.name == ("a", "b")
    _, log = read(tmp_path, split="test")
    assert codes(log) == ["unknown-split"]
    assert "train, val" in log.issues[0].message


def test_same_names_in_two_splits_stay_two_images(tmp_path):
    files = {
        "train/images/x.png": PICTURE,
        "train/labels/x.txt": BOX,
        "valid/images/x.png": PICTURE,
        "valid/labels/x.txt": BOX,
        "data.yaml": "train: ../train/images\nval: ../valid/images\nnames: [a]\n",
    }
    data, log = read(put(tmp_path, files))
    assert not log.counts
    assert data.images.name == ("train/x.png", "val/x.png")
    assert any("same name" in note for note in log.notes)
    assert not write(data, tmp_path / "out", copy_images=True).counts
    assert sorted(p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("x.*")) == [
        f"{folder}/{split}/x.{suffix}"
        for folder, suffix in (("images", "png"), ("labels", "txt"))
        for split in ("train", "val")
    ]
    assert read(tmp_path / "out")[0].images.name == data.images.name


def test_a_folder_named_as_the_split_stays_beside_images_without_it(tmp_path):
    """Only where all names begin with their split is it the one that the reader adds."""
    records = [
        {"id": i, "file_name": name, "width": 20, "height": 20}
        for i, name in enumerate(["train/a.jpg", "a.jpg"])
    ]
    boxes = [{"id": i, "image_id": i, "category_id": 1, "bbox": [0, 0, 4 + 4 * i, 8]} for i in range(2)]
    coco = {"images": records, "annotations": boxes, "categories": [{"id": 1, "name": "x"}]}
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "instances_train.json").write_text(json.dumps(coco))
    odm.convert(tmp_path / "annotations", tmp_path / "out", to="yolo")
    names = sorted(p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("a.txt"))
    assert names == ["labels/train/a.txt", "labels/train/train/a.txt"]
    back = odm.read(tmp_path / "out", "yolo", image_size="20x20")
    assert sorted(back.boxes.xyxy[:, 2].tolist()) == [4, 8]


def test_one_folder_for_two_splits_is_read_once(tmp_path):
    files = {
        "images/x.png": PICTURE,
        "labels/x.txt": BOX,
        "data.yaml": "train: images\nval: images\nnames: [a]\n",
    }
    data, log = read(put(tmp_path, files))
    assert not log.counts
    assert data.images.name == ("x.png",)
    assert len(data) == 1


@pytest.mark.parametrize("location", ["/etc", "C:/data/images", "images/../../elsewhere", "https://x/y"])
def test_places_outside_are_refused_and_not_read(tmp_path, location):
    put(tmp_path, {**TREE, "data.yaml": f"train: {location}\nval: images/val\nnames: [a, b]\n"})
    _, log = read(tmp_path)
    (issue,) = log
    assert (issue.code, issue.line) == ("yolo-place-outside", 1)
    assert "--images" in issue.message


def test_files_of_an_export_are_no_strangers(tmp_path):
    put(
        tmp_path,
        {
            "labels/a.txt": "0 .5 .5 .1 .1",
            "images/a.png": PICTURE,
            "classes.txt": "car\n",
            "notes.json": "{}",
        },
    )
    assert codes(read(tmp_path)[1]) == []
    put(tmp_path, {"other.json": "{}"})
    assert codes(read(tmp_path)[1]) == ["stray-file"]


def test_the_only_list_that_ends_in_names_is_that_of_the_classes(tmp_path):
    put(tmp_path, {"a.txt": "1 .5 .5 .1 .1", "coco.names": "person\nbicycle\n"})
    data, log = read(tmp_path, image_size="100x100")
    assert data.categories.name == ("person", "bicycle")
    assert not [note for note in log.notes if "coco.names" in note]
    put(tmp_path, {"voc.names": "aeroplane\nbicycle\n"})
    assert codes(read(tmp_path, image_size="100x100")[1]) == ["numbered-classes"]
    put(tmp_path, {"classes.txt": "cat\ndog\n"})
    assert read(tmp_path, image_size="100x100")[0].categories.name == ("cat", "dog")


def test_darknet(tmp_path):
    files = {
        "obj.data": "classes= 2\ntrain = data/train.txt\nvalid  = data/valid.txt\nnames = data/obj.names\nbackup = backup/\n"
        "# names = other\n#train = other\nnames\ntrain\n= 3\n",  # no entries
        "obj.names": "a\nb\n\n",
        "train.txt": "data/obj_train_data/x.png\ndata/obj_train_data/sub/w.jpg\n",
        "valid.txt": "data/obj_valid/y.png",
        "obj_train_data/x.txt": "1 .5 .5 .2 .2",
        "obj_train_data/x.png": PICTURE,
        "obj_train_data/sub/w.jpg": PICTURE,
        "obj_valid/y.txt": BOX,
        "obj_valid/y.png": PICTURE,
    }
    put(tmp_path, files)
    for path in (tmp_path, tmp_path / "obj.data"):
        data, log = read(path)
        assert [i.code for i in log] == ["pictures-without-labels"]
        assert log.notes == []
        assert data.images.name == ("sub/w.jpg", "x.png", "y.png")
        assert data.images.split == ("train", "train", "val")
        assert rows(data) == [("x.png", "b", 80, 40, 120, 60), ("y.png", "a", 80, 40, 120, 60)]
        assert detect(Source(str(path)), Log()).name == "yolo"


def test_only_strangers_are_named(tmp_path):
    def named():
        return [note.rpartition(": ")[2] for note in read(tmp_path)[1].notes if "not images, ignored" in note]

    readme = {"README.roboflow.txt": "x - v1\n", "README.dataset.txt": "# x\n"}
    put(tmp_path, {**TREE, **readme, "train.txt": "images/train/x.png\n"})
    assert named() == ["train.txt"]
    put(tmp_path, {"data.yaml": "train: train.txt\nval: train.txt\nnames: [a, b]\n"})
    assert named() == []
    put(tmp_path, {"data.yaml": "train: images/train\nnames: [a, b]\n", "second.yaml": "names: [c]\n"})
    assert named() == []  # nor what else lies beside a description


@pytest.mark.parametrize(
    "names", [["no", "007", "null", "1.0", "~", "0x10", "traffic light", "a: b", "# x", '"q"', "é"]]
)
@pytest.mark.parametrize("style", ["list", "dict"])
def test_names_stay_text(tmp_path, names, style):
    plain = {"no", "007", "null", "1.0", "~", "0x10", "traffic light", "é"}
    written = [n if n in plain else "'" + n.replace("'", "''") + "'" for n in names]
    listed = "".join(f"- {n}\n" if style == "list" else f"  {i}: {n}\n" for i, n in enumerate(written))
    put(tmp_path, {"labels/x.txt": BOX, "data.yaml": f"train: labels\nnames:\n{listed}"})
    data, log = read(tmp_path, **SIZE)
    assert not log.counts
    assert list(data.categories.name) == names


def test_without_names_the_numbers_are_names(tmp_path):
    data, log = read(put(tmp_path, {"x.txt": "10 .5 .5 .2 .2\n" + "9.0 .5 .5 .2 .2"}), **SIZE)
    assert codes(log) == ["numbered-classes"]
    assert data.categories.name == ("9", "10")
    assert data.categories.source_id.tolist() == [9, 10]
    assert not data.categories.named


@pytest.mark.parametrize(
    ("above", "labels", "text", "names"),
    [
        ("data.yaml", "labels", "names: [dog, cat]", ("dog", "cat")),
        ("data.yaml", "labels/train", "names: {0: dog, 1: cat}", ("dog", "cat")),
        ("data.yml", "train/labels", "train: ../train/images\nnames: [dog, cat]", ("dog", "cat")),
        ("train/dataset.yaml", "train/labels", "names: [dog, cat]", ("dog", "cat")),
        ("classes.txt", "labels", "dog", ("1",)),
        ("data.yaml", "labels", "names: [dog", ("1",)),
        ("data.yaml", "labels", "nc: 2", ("1",)),
        ("data.yaml", "other/labels", "names: [dog, cat]", ("1",)),
        ("data.yaml", "other", "names: [dog, cat]", ("1",)),
    ],
)
@pytest.mark.parametrize("single", [False, True])
def test_names_above_the_labels_that_were_named(tmp_path, above, labels, text, names, single):
    put(tmp_path, {f"{labels}/x.txt": "1" + BOX[1:], above: text})
    data, log = read(tmp_path / labels / "x.txt" if single else tmp_path / labels, **SIZE)
    assert data.categories.name == names
    said = f"class names are from {tmp_path / above}"
    if names[0] == "dog":
        assert not log.counts
        assert any(said in note for note in log.notes)
    else:
        assert codes(log) == ["numbered-classes"]
        assert not any(said in note for note in log.notes)
        assert ("has fewer names" in log.issues[0].message) == (text == "dog")


@pytest.mark.parametrize("single", [False, True])
def test_a_class_beyond_the_description_above_the_labels_is_an_error(tmp_path, single):
    """A trainer goes by data.yaml, and leaves out the image of such a label."""
    put(tmp_path, {"labels/x.txt": "0" + BOX[1:] + "1" + BOX[1:], "data.yaml": "names: [dog]"})
    data, log = read(tmp_path / "labels/x.txt" if single else tmp_path / "labels", **SIZE)
    assert (len(data), codes(log)) == (1, ["unknown-class"])
    assert log.issues[0].line == 2


NUMBERS = ["1.01 .5 .1 .1", "-.01 .5 .1 .1", ".5 .5 1.01 .5", ".9 .5 .3 .1"]
BEYOND = ["1.0101 .5 .1 .1", "-.0101 .5 .1 .1", ".5 1.0101 .1 .1", ".5 .5 1.0101 .5", ".5 .5 .5 1.4"]
KEYED = {"data.yaml": "names: [cat]\ntrain: .\nkpt_shape: [1, 3]\n"}


@pytest.mark.parametrize("size", ["20x30", "1000x700", None])
def test_numbers_that_trainers_refuse(tmp_path, size):
    """At most 1.01 and at least -0.01, as verify_image_label of Ultralytics has it; of an outline, its box."""
    options = {"image_size": size} if size else {}
    outline = "0 .8 .1 1.21 .1 1.21 .4"
    rows = {
        "good": [f"0 {numbers}" for numbers in NUMBERS],
        "bad": [f"0 {numbers}" for numbers in BEYOND],
        "outline": [outline, outline.replace("1.21", "1.23")],
        "points": ["0 .5 .5 .2 .2 .5 .5 2", "0 .5 .5 .2 .2 1.02 .5 2"],
        "scored": [f"0 {numbers} .9" for numbers in BEYOND],
    }
    refused = {"bad": [1, 2, 3, 4, 5], "outline": [2], "points": [2]}
    for name, lines in rows.items():
        files = {"x.txt": "\n".join(lines), **(KEYED if name == "points" else {"classes.txt": "cat"})}
        log = Log()
        odm.validate(put(tmp_path / name, files), format="yolo", log=log, **options)
        errors = [i for i in log.issues if i.severity == "error"]
        assert {i.code for i in errors} <= {"label-out-of-range"}, name
        assert [i.line for i in errors] == refused.get(name, []), name
        # One cause is one message.
        assert not {i.line for i in log.issues if i.code == "outside-image"} & {i.line for i in errors}


def test_what_trainers_refuse_is_not_written(tmp_path):
    """Of ground truth; clipped it is written, and detections are written as they are."""
    lines = "image,width,height,class,left,top,right,bottom\na,100,100,cat,-2,0,100,10\na,100,100,cat,96,0,107,9\n"
    (tmp_path / "in.csv").write_text(lines)
    with pytest.raises(DataError, match="box-too-far-outside") as raised:
        odm.convert(tmp_path / "in.csv", tmp_path / "out", to="yolo")
    assert [i.line for i in raised.value.log.issues if i.severity == "error"] == [2, 3]
    assert odm.convert(tmp_path / "in.csv", tmp_path / "out", to="yolo", clip=True).written == 2
    assert odm.validate(tmp_path / "out", image_size="100x100") == []
    scored = lines.replace("class,", "class,score,").replace("cat,", "cat,.5,")
    (tmp_path / "det.csv").write_text(scored)
    assert odm.convert(tmp_path / "det.csv", tmp_path / "det", to="yolo").written == 2


def test_a_list_given_by_hand_holds_alone(tmp_path):
    put(tmp_path, {"in/x.txt": BOX, "in/classes.txt": "wrong\n\nlist", "names.txt": "right\n"})
    data, log = read(tmp_path / "in", classes=str(tmp_path / "names.txt"), **SIZE)
    assert not log.counts
    assert data.categories.name == ("right",)


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("d.yaml", "train: images/train\nnc: 2\nnames: {0: right, 1: left}\n", None),
        ("d.YML", "names: [right, left]\n", None),
        ("d.yaml", "[right, left]\n", None),
        ("d.yaml", "train: images/train\n", "bad-class-list"),
        ("d.yaml", "right\nleft\n", "bad-class-list"),
        ("d.yaml", "names: [right, left]\nnc: 3\n", "yolo-class-count"),
        ("d.yaml", "names: {0: right, 2: left}\n", "bad-class-list"),
        ("d.yaml", "names: [a", "bad-yaml"),
        ("obj.data", "classes = 2\nnames = obj.names\n", "bad-class-list"),
        ("d.json", '["right"]', "bad-class-list"),
    ],
)
def test_the_list_given_by_hand_may_be_a_data_yaml(tmp_path, name, text, code):
    put(tmp_path, {"in/x.txt": BOX, name: text})
    data, log = read(tmp_path / "in", classes=str(tmp_path / name), **SIZE)
    assert codes(log)[:1] == ([code] if code else [])
    if code is None:
        assert data.categories.name == ("right", "left")


def test_names_of_obj_data_that_are_not_there_are_reported(tmp_path):
    put(
        tmp_path,
        {"a.txt": BOX, "train.txt": "a.jpg\n", "obj.data": "train = train.txt\nnames = none.names\n"},
    )
    assert codes(read(tmp_path, **SIZE)[1]) == ["yolo-split-missing"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: [b", "bad-yaml"),
        ("a: *b", "bad-yaml"),
        ("a: &b 1\nc: *b", "bad-yaml"),
        ("a: 1\na: 2", "bad-yaml"),
        ("{" * 80 + "a" + "}" * 80, "bad-yaml"),
        ("[" * 100_000, "bad-yaml"),
        ("? [a]\n: b", "bad-yaml"),
        ("a: 1\n---\nb: 2", "bad-yaml"),
        ("a: \x07", "bad-yaml"),
        ("a: !!python/object/apply:os.system [x]", "bad-yaml"),
        ("", None),
    ],
)
def test_yaml(text, code):
    log = Log()
    load(text.encode(), "data.yaml", log)
    assert codes(log) == ([code] if code else [])
    load(text.encode("utf-16"), "data.yaml", log)
    assert "not-utf8" in log.counts


@pytest.mark.parametrize(("text", "null"), [
    ("", True), ("~", True), ("null", True), ('" "', True), ("0", False), ("no", False), ("[]", False),
    ("{}", False), ("nulls", False), ("[null]", False),
])  # fmt: skip
def test_what_is_null_in_yaml(text, null):
    assert is_none(load(f"a: {text}\n".encode(), "data.yaml", Log()).value["a"]) is null


def test_an_alias_bomb_costs_nothing():
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in itertools.pairwise("abcdefghij")
    )
    log = Log()
    assert load(bomb.encode(), "data.yaml", log) is None
    assert codes(log) == ["bad-yaml"]


# --------------------------------------------------------------------------------------- the confidences

BOXES = ["0.5 0.5 0.4 0.3", "0.9 0.9 0.1 0.1", "0.05 0.5 0.1 0.9"]


@pytest.mark.parametrize("column", ["last", "second"])
@pytest.mark.parametrize("explicit", [True, False])
def test_the_column_of_the_confidence(tmp_path, column, explicit):
    scores = [".9", "0.95", "0.25"]
    lines = [f"0 {b} {s}" if column == "last" else f"0 {s} {b}" for b, s in zip(BOXES, scores, strict=True)]
    options = {"conf_column": column} if explicit else {}
    data, log = read(put(tmp_path, {"x.txt": "\n".join(lines), "classes.txt": "a"}), **options, **SIZE)
    assert not log.counts
    assert data.kind == "det"
    assert data.boxes.score.tolist() == [0.9, 0.95, 0.25]
    assert rows(data)[0][2:] == (30, 35, 70, 65)
    assert explicit or any(f"from the {column} column" in note for note in log.notes)


def test_where_both_columns_fit_it_is_the_last_and_said(tmp_path):
    data, log = read(put(tmp_path, {"x.txt": "0 .4 .5 .5 .5 .6\n", "classes.txt": "a"}), **SIZE)
    assert data.boxes.score.tolist() == [0.6]
    (note,) = [n for n in log.notes if "confidence" in n]
    assert "confidence 0.6 and box 0.4 0.5 0.5 0.5" in note
    assert "conf_column second" in note


def test_missing_and_strange_scores(tmp_path):
    text = "\n".join([*(f"0 {b} .9" for b in BOXES), "0 .5 .5 .2 .2", "0 .5 .5 .2 .2 1.5"])
    data, log = read(put(tmp_path, {"x.txt": text, "classes.txt": "a"}), **SIZE)
    assert sorted((i.line, i.code) for i in log) == [(4, "score-missing"), (5, "score-out-of-range")]
    assert data.skipped == 2


# ---------------------------------------------------------------------------------------------- pictures


@pytest.mark.parametrize("name", ["x.jpg", "x.png", "x.tif"])
def test_orientation_counts(tmp_path, name):
    exif = Image.Exif()
    exif[0x0112] = 6
    put(tmp_path, {"x.txt": BOX, "classes.txt": "a"})
    Image.new("L", (200, 100)).save(tmp_path / name, exif=exif)
    data, _ = read(tmp_path)
    assert (data.images.width[0], data.images.height[0]) == (100, 200)


def test_sizes_by_option_and_file(tmp_path):
    put(
        tmp_path,
        {
            "in/x.txt": BOX,
            "in/y.txt": "",
            "in/classes.txt": "a",
            "sizes.csv": "image,width,height\nx.jpg,10,20\n",
        },
    )
    data, log = read(tmp_path / "in", image_sizes=str(tmp_path / "sizes.csv"))
    assert not log.counts
    assert (data.images.width.tolist(), data.images.height.tolist()) == ([10, 0], [20, 0])
    put(tmp_path, {"pictures/x.png": PICTURE})
    data, log = read(tmp_path / "in", images=str(tmp_path / "pictures"))
    assert not [i for i in log if i.severity == "error"]
    assert data.images.name == ("x.png", "y")
    data, log = read(tmp_path / "in")
    assert data.relative
    assert not log.counts
    np.testing.assert_allclose(data.boxes.xyxy, [[0.4, 0.4, 0.6, 0.6]])


def test_detections_do_not_take_pictures_without_labels_for_images(tmp_path):
    files = {
        "labels/x.txt": "0 .5 .5 .2 .2 .9",
        "images/x.png": PICTURE,
        "images/y.png": PICTURE,
        "classes.txt": "a",
    }
    data, _ = read(put(tmp_path, files), kind="det")
    assert data.images.name == ("x.png",)


# ----------------------------------------------------------------------------------------------- writing


@st.composite
def datasets(draw):
    kind = draw(st.sampled_from(["gt", "det"]))
    names = st.one_of(
        st.from_regex(r"\A[a-zA-Z0-9:#'\"\\{}\[\]*&!|>%@`,?-]{1,6}( [a-z]{1,4})?\Z"),
        st.sampled_from(["null", "no", "~", "1.0", "007", "é\U0001f600", "\u200b", "- x", "a: b", " x "]),
    )
    classes = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    n = draw(st.integers(0, 6))
    sizes = [(draw(st.integers(1, 100_000)), draw(st.integers(1, 100_000))) for _ in range(3)]
    image = sorted(draw(st.integers(0, 2)) for _ in range(n))
    ltwh = []
    for i in image:
        w, h = sizes[i]
        left, top, width, height = (draw(st.floats(0, 1)) for _ in range(4))
        if kind == "gt":  # whose centres lie in their images
            width, height = min(width, 2 - 2 * left), min(height, 2 - 2 * top)
        ltwh.append([left * w, top * h, width * w, height * h])
    return Dataset.from_arrays(
        images=["a/1.jpg", "b.png", "c"],
        width=[w for w, _ in sizes],
        height=[h for _, h in sizes],
        categories=classes,
        image=image,
        category=[draw(st.integers(0, len(classes) - 1)) for _ in range(n)],
        ltwh=np.array(ltwh, float).reshape(-1, 4),
        score=[draw(st.floats(0, 1)) for _ in range(n)] if kind == "det" else None,
        kind=kind,
    )


@settings(deadline=None, max_examples=examples(120), suppress_health_check=list(HealthCheck))
@given(dataset=datasets())
def test_there_and_back(tmp_path_factory, dataset):
    folder = tmp_path_factory.mktemp("back")
    assert not write(dataset, folder / "one").counts
    images = zip(dataset.images.name, dataset.images.width, dataset.images.height, strict=True)
    (folder / "sizes.csv").write_text("".join(f"{n},{w},{h}\n" for n, w, h in images))
    options = {"image_sizes": str(folder / "sizes.csv"), "kind": dataset.kind}
    if dataset.kind == "det":
        options["conf_column"] = "last"
    back, log = read(folder / "one", **options)
    assert [str(i) for i in log] == []
    assert back.images.name == ("a/1", "b", "c")
    assert back.categories.name == dataset.categories.name
    np.testing.assert_array_equal(back.boxes.category, dataset.boxes.category)
    np.testing.assert_array_equal(back.boxes.score, dataset.boxes.score)
    np.testing.assert_allclose(back.boxes.xyxy, dataset.boxes.xyxy, rtol=0, atol=1e-6)
    np.testing.assert_allclose(back.boxes.wh, dataset.boxes.wh, rtol=0, atol=1e-6)
    assert not write(back, folder / "two").counts
    assert tree(folder / "two") == tree(folder / "one")
    described = yaml.safe_load((folder / "one" / "data.yaml").read_bytes())
    assert described["names"] == list(dataset.categories.name)
    assert described["nc"] == len(dataset.categories)
    assert described["train"] == described["val"] == "images"


def test_splits_are_written_so_that_trainers_find_them(tmp_path):
    put(tmp_path / "in", {**TREE, "data.yaml": "train: images/train\nval: images/val\nnames: [a, b]\n"})
    data, _ = read(tmp_path / "in")
    assert not write(data, tmp_path / "out", copy_images=True).counts
    names = sorted(tree(tmp_path / "out"))
    assert names == [
        "data.yaml",
        "images/train/empty.png",
        "images/train/x.png",
        "images/val/y.png",
        "labels/train/empty.txt",
        "labels/train/x.txt",
        "labels/val/y.txt",
    ]
    assert (tmp_path / "out/labels/train/empty.txt").read_bytes() == b""
    described = yaml.safe_load((tmp_path / "out/data.yaml").read_bytes())
    # Ultralytics looks for the folders beside the file where there is no path
    assert "path" not in described
    for split in ("train", "val"):
        pictures = sorted((tmp_path / "out" / described[split]).iterdir())
        for picture in pictures:
            label = tmp_path / "out" / described[split].replace("images", "labels") / f"{picture.stem}.txt"
            assert label.exists()
    back, log = read(tmp_path / "out")
    assert [str(i) for i in log] == []
    assert back.images.name == data.images.name
    assert back.images.split == data.images.split
    assert rows(back) == rows(data)
    assert not write(data, tmp_path / "linked", link_images=True).counts
    assert (tmp_path / "linked/images/val/y.png").resolve() == (tmp_path / "in/images/val/y.png").resolve()


@pytest.mark.parametrize(
    ("splits", "expected"),
    [
        (("train", "valid"), {"train": "images/train", "val": "images/valid"}),  # as Roboflow calls it
        (("train", "validation"), {"train": "images/train", "val": "images/validation"}),
        (("train", "val", "valid"), {"train": "images/train", "val": "images/val", "valid": "images/valid"}),
    ],
)
def test_other_names_of_the_validation_split_are_val_to_trainers(tmp_path, splits, expected):
    coco = '{"images": [{"id": 1, "file_name": "%s", "width": 9, "height": 9}], "annotations": [], "categories": []}'
    put(tmp_path / "in", {f"{split}/_annotations.coco.json": coco % split for split in splits})
    odm.convert(tmp_path / "in", tmp_path / "out", to="yolo")
    described = yaml.safe_load((tmp_path / "out/data.yaml").read_bytes())
    assert {key: place for key, place in described.items() if str(place).startswith("images")} == expected


def test_nothing_is_written_where_something_is_unknown(tmp_path):
    data = Dataset.from_arrays(
        images=["a.jpg"], categories=["x"], image=[0], category=[0], xyxy=[[1, 2, 3, 4]]
    )
    log = write(data, tmp_path / "out", link_images=True)
    assert codes(log) == ["image-size-unknown", "picture-not-known"]
    assert not list((tmp_path / "out").iterdir())
    data = Dataset.from_arrays(images=[], categories=["x\ny"], image=[], category=[], xyxy=[])
    assert codes(write(data, tmp_path / "out")) == ["unwritable-class"]


# ------------------------------------------------------------------------------- sniffing, and bad input


@pytest.mark.parametrize(
    ("files", "sure"),
    [
        ({"a.txt": "0 .5 .5 .1 .1\n"}, False),
        ({"a.txt": "0 .5 .5 .1 .1 .9\n7.0 .5 .5 .1 .1 .9\n"}, False),
        ({"a.txt": "0 .5 .5 1.01 .1\n0 .5 .5 .1 .1\n0 50 50 .1 .1\n"}, False),
        ({"a.txt": "", "b.txt": "1 .1 .1 .2 .2 .3 .3\n", "classes.txt": "many\nwords\nhere\n"}, False),
        ({"labels/a.txt": BOX, "images/a.png": PICTURE}, True),
        ({"data.yaml": "names: [a]\n", "labels/a.txt": ""}, True),
    ],
)
def test_sniffing(tmp_path, files, sure):
    source = Source(str(put(tmp_path, files)))
    assert detect(source, Log()) is YOLO
    assert (YOLO.sniff(source).confidence == SURE) == sure


def test_the_reason_counts(tmp_path):
    put(tmp_path, {"a.txt": BOX * 3, "b.txt": BOX})
    assert YOLO.sniff(Source(str(tmp_path))).reason == "all 4 lines have a whole number and 4 numbers in 0..1"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (BOX * 3 + "0 .1 .1 .1 1.2\n", "3 of 4 lines have a whole number and 4 numbers in 0..1"),
        (BOX * 3 + "0 .1 .1 .2 .1 .2 .2\n", "all 4 lines have a whole number and 4 to 6 numbers in 0..1"),
        (BOX * 3 + "dog .1 .1 .1 .1\n", "3 of 4 lines have a whole number and 4 numbers in 0..1"),
        ("0 .1 .1 .1 1.2\n" * 2, "all 2 lines have a whole number and numbers of about 0..1"),
        (
            "0 .1 .1 .1 .1 .5 7\n0 .1 .1 .1 .1 .5\n",
            "all 2 lines have a whole number, 5 numbers in 0..1 and the id of a track (some of them)",
        ),
    ],
)
def test_the_reason_is_true_of_the_lines_that_it_counts(tmp_path, lines, reason):
    assert YOLO.sniff(Source(str(put(tmp_path, {"a.txt": lines})))).reason == reason


VALID = {
    "data.yaml": "path: .\ntrain: images/train\nval: val.txt\nnc: 2\nnames: [a, 'b c']\n",
    "labels/train/x.txt": "0 .5 .5 .2 .2\n1.0 .1 .1 .1 .1\n",
    "labels/val/y.txt": "0 .1 .1 .5 .1 .5 .5\n",
    "val.txt": "./images/val/y.png\n",
    "labels/classes.txt": "a\nb c\n",
}


@settings(deadline=None, max_examples=examples(150), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_mutation_gives_tables_or_issues(tmp_path_factory, data):
    files = {name: bytearray(text.encode()) for name, text in VALID.items()}
    text = files[data.draw(st.sampled_from(sorted(files)))]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        if data.draw(st.booleans()):
            text[at:at] = data.draw(
                st.one_of(st.binary(max_size=3), st.sampled_from([b"../", b"/", b": ", b"[", b"\n"]))
            )
        else:
            del text[at : at + data.draw(st.integers(1, 6))]
    folder = put(tmp_path_factory.mktemp("mutated"), {name: bytes(text) for name, text in files.items()})
    dataset, log = read(folder, **data.draw(st.sampled_from([SIZE, {}, {**SIZE, "split": "val"}])))
    assert log.errors or not dataset.skipped
    assert len(dataset) <= 3
    assert all(issue.path == str(folder) or issue.path.startswith(f"{folder}/") for issue in log.issues)
    answers = {name for name, format_ in FORMATS.items() if format_.sniff(Source(str(folder)))}
    assert answers <= {"yolo", "txt"}  # rows of damaged numbers may be either


@settings(deadline=None, max_examples=examples(100), suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.lists(st.sampled_from(["0", "1", "0.5", ".25", "2", "x", "nan", "-1", "50", "1_0"]), max_size=9),
        max_size=6,
    )
)
def test_rows_lost_and_rows_read_add_up(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("rows")
    put(folder, {"x.txt": "\n".join(map(" ".join, lines)), "classes.txt": "a\nb\n"})
    for kind in ("gt", "det"):
        data, log = read(folder, kind=kind, **SIZE)
        assert len(data) + data.skipped == sum(map(bool, lines))
        assert sum(n for code, n in log.counts.items() if code != "outlines-as-boxes") == data.skipped
        assert np.isfinite(data.boxes.xyxy).all()


def test_pictures_beside_labels_are_named_from_where_the_labels_are(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / "set/images").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / f"set/images/{name}.png")
    (tmp_path / "set/labels").mkdir()
    (tmp_path / "set/labels/a.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    monkeypatch.chdir(tmp_path)
    log = Log()
    odm.read("set/labels", "yolo", log=log)
    assert "the first is 'set/images/b.png'" in "\n".join(map(str, log.issues))


# ------------------------------------------------------------------------------- labels without pictures

NO_SIZES = {
    "gt/labels/a.txt": "0 .5 .5 .2 .2\n1 .3 .7 .1 .3\n1 .3 .71 .1 .3\n",
    "gt/labels/b.txt": "1 .25 .25 .5 .5\n0 .9 .95 .3 .1\n",
    "gt/classes.txt": NAMES,
    "det/a.txt": "0 .52 .5 .2 .2 .9\n1 .3 .72 .1 .35 .8\n",
    "det/b.txt": "1 .3 .25 .5 .5 .7\n0 .5 .5 .1 .1 .3\n",
}


@pytest.mark.parametrize(
    ("protocol", "sizes"),
    [("coco", {}), ("voc2012", {"pixels": "edges"}), ("ultralytics", {}), ("yolov5", {}), ("tf-voc", {})],
)
def test_eval_needs_no_pictures(tmp_path, protocol, sizes):
    """Overlap is the same in any unit, of images of any shape."""
    put(tmp_path, NO_SIZES)
    found = []
    for size in ({}, {"image_size": "1000x500"}):
        pair = [odm.read(tmp_path / side, "yolo", **size) for side in ("gt", "det")]
        log = Log()
        found.append(evaluate(*pair, protocol, **({} if not size else sizes), log=log).results[0])
        assert any("fractions of their images" in note for note in log.notes) == (not size)
    fractions, pixels = (result.summary for result in found)
    undefined = {key for key, value in fractions.items() if np.isnan(value)}
    assert undefined == ({"APs", "APm", "APl", "ARs", "ARm", "ARl"} if protocol == "coco" else set())
    for key in fractions.keys() - undefined:
        assert fractions[key] == pytest.approx(pixels[key]), key


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (["eval", "gt", "det"], 0, "area ranges and inclusive pixels"),
        (["eval", "gt", "det", "--protocol", "imagenet-det"], 2, "imagenet-det is defined in pixels"),
        (["eval", "gt", "det", "--protocol", "coco", "--pixels", "inclusive"], 2, "is defined in pixels"),
        (["eval", "gt", "det", "--protocol", "coco", "--area", "tiny=0:256"], 2, "is defined in pixels"),
        (["eval", "gt", "det", "--det-image-size", "100x100"], 0, ""),
        (["validate", "gt"], 0, "fractions of their images, not pixels"),
        (["validate", "gt", "--against", "det"], 0, ""),
        (["stats", "gt"], 0, "fractions of their images, not pixels"),
        (["convert", "gt", "out", "--to", "txt", "-O", "coords=rel"], 0, ""),
        (["convert", "gt", "out.csv", "--to", "automl"], 0, ""),
        (["convert", "gt", "out.json", "--to", "coco"], 1, "image-size-unknown"),
        (["convert", "gt", "out", "--to", "txt"], 1, "image-size-unknown"),
        (["convert", "gt", "out", "--to", "yolo", "--min-box", "3"], 2, "are in pixels, but no image has a size"),
        (["convert", "gt", "sized", "out", "--to", "yolo"], 2, "have no size, but those of others do"),
    ],
)  # fmt: skip
def test_commands_without_pictures(tmp_path, monkeypatch, capsys, command, code, says):
    put(
        tmp_path,
        {**NO_SIZES, "sized/labels/c.txt": BOX, "sized/images/c.png": PICTURE, "sized/classes.txt": NAMES},
    )
    monkeypatch.chdir(tmp_path)
    assert run(command) == code
    assert says in " ".join(capsys.readouterr().err.split())


def test_a_repaired_copy_without_pictures_is_as_its_source(tmp_path, monkeypatch, capsys):
    put(tmp_path, NO_SIZES)
    monkeypatch.chdir(tmp_path)
    assert run(["validate", "gt"]) == 0
    assert "the box extends 0.05 times its size beyond the image (of unknown size)" in " ".join(
        capsys.readouterr().out.split()
    )
    assert run(["validate", "gt", "--fix", "clip", "--out", "copy"]) == 0
    capsys.readouterr()
    assert run(["validate", "copy"]) == 0
    assert "outside-image" not in capsys.readouterr().out
    first, second = (odm.read(tmp_path / name) for name in ("gt", "copy"))
    assert (first.relative, second.relative) == (True, True)
    inside = (first.boxes.xyxy <= 1).all(axis=1)
    np.testing.assert_allclose(first.boxes.xyxy[inside], second.boxes.xyxy[inside], atol=1e-10)


@pytest.mark.parametrize(("missing", "split", "code"), [
    ("valid", None, "yolo-split-absent"), ("valid", "val", "yolo-split-missing"), ("valid", "train", None),
    ("test", None, "yolo-split-absent"), ("test", "test", "yolo-split-missing"), ("train", None, "yolo-split-missing"),
    ("train", "val", None), ("train", "train", "yolo-split-missing"),
])  # fmt: skip
def test_a_list_of_obj_data_that_is_not_there_is_an_error_where_it_is_chosen(missing, split, code, tmp_path):
    lists = {f"{key}.txt": "a.jpg\n" for key in ("train", "valid", "test") if key != missing}
    text = "".join(f"{key} = {key}.txt\n" for key in ("train", "valid", "test"))
    put(
        tmp_path,
        {"a.txt": BOX, "obj.names": "a\nb\n", "obj.data": f"classes = 2\n{text}names = obj.names\n", **lists},
    )
    log = read(tmp_path, **SIZE, **({"split": split} if split else {}))[1]
    assert [found for found in codes(log) if found.startswith("yolo-split")] == ([code] if code else [])


@pytest.mark.parametrize(
    ("ids", "missing"),
    [((0, 2), 1), ((0, 1, 3), 2), ((1, 3), 2), ((2, 3), 0), ((1, 2), None), ((0, 1), None)],
)
def test_the_id_without_a_name_in_a_class_list_is_named(tmp_path, ids, missing):
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels/a.txt").write_text("")
    classes = tmp_path / "classes.yaml"
    classes.write_text("names:\n" + "".join(f"  {i}: class {i}\n" for i in ids))
    if missing is None:
        assert odm.read(tmp_path / "labels", "yolo", classes=classes).categories.name == tuple(
            f"class {i}" for i in ids
        )
    else:
        with pytest.raises(odm.DataError, match=f"id {missing} has no name"):
            odm.read(tmp_path / "labels", "yolo", classes=classes)
