"""Image names that are absolute, URLs or lead elsewhere, shortened with --names."""

import json
import shutil

import pytest
from one_format import WRITTEN
from selection import of_each, turns

import odm
from odm.cli import _app
from odm.formats import FORMATS
from odm.issues import DataError, Log, UsageError
from odm.names import parse_name_rule, stem
from odm.tables import Dataset

BOX = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 12}


def coco(path, *names):
    images = [{"id": i, "file_name": name, "width": 64, "height": 48} for i, name in enumerate(names, 1)]
    path.write_text(
        json.dumps({"images": images, "annotations": [BOX], "categories": [{"id": 1, "name": "x"}]})
    )
    return path


@pytest.mark.parametrize(
    ("rule", "name", "short"),
    [
        ("basename", "/data/imgs/a.jpg", "a.jpg"),
        ("basename", "../x/a.jpg", "a.jpg"),
        ("basename", r"C:\data\a.jpg", "a.jpg"),
        ("basename", "https://host.org/set/a.jpg?size=2#x", "a.jpg"),
        ("basename", "a.jpg", "a.jpg"),
        ("strip=/data", "/data/imgs/a.jpg", "imgs/a.jpg"),
        ("strip=/data/", "/data/imgs/a.jpg", "imgs/a.jpg"),
        ("strip=https://host.org/", "https://host.org/set/a.jpg?x=1", "set/a.jpg"),
        (r"strip=C:\data", r"C:\data\imgs\a.jpg", "imgs/a.jpg"),
        ("strip=../", "../x/a.jpg", "x/a.jpg"),
        ("strip=other", "x/a.jpg", "x/a.jpg"),
    ],
)
def test_what_a_rule_makes_of_a_name(rule, name, short, tmp_path):
    assert parse_name_rule(rule)(name) == short
    assert odm.read(coco(tmp_path / "a.json", name), names=rule).images.name == (short,)


@pytest.mark.parametrize("name", WRITTEN)
def test_every_format_that_names_folders_shortens_them(name, tmp_path):
    format_ = FORMATS[name]
    dataset = Dataset.from_arrays(
        images=["deep/one/a.jpg", "deep/two/b.jpg"], width=[64, 64], height=[48, 48], categories=["wheat"],
        image=[0, 1], category=[0, 0], xyxy=[[1, 2, 30, 40], [1, 2, 30, 40]], score=[0.5, 0.5],
    )  # fmt: skip
    target = tmp_path / f"out{format_.suffixes[0] if format_.single else ''}"
    odm.write(dataset, target, name)
    options = (
        {"image_size": "64x48"}
        if "image_size" in {f.name for f in odm.formats.option_specs(format_.options)}
        else {}
    )
    plain = odm.read(target, name, kind="det", **options)
    assert any("/" in image for image in plain.images.name)
    short = odm.read(target, name, kind="det", names="basename", **options)
    assert [stem(image) for image in short.images.name] == ["a", "b"]
    assert len(short) == len(plain)
    end = plain.images.name[0].index("one")
    cut = odm.read(target, name, kind="det", names=f"strip={plain.images.name[0][:end]}", **options)
    assert [stem(image) for image in cut.images.name] == ["one/a", "two/b"]


def test_what_is_refused_names_the_option(tmp_path):
    with pytest.raises(DataError) as raised:
        odm.read(coco(tmp_path / "a.json", "/data/a.jpg"))
    assert "--names basename or --names strip=PREFIX" in str(raised.value.log.issues[0])


def test_a_prefix_that_does_not_fit_leaves_names_refused(tmp_path):
    log = Log()
    with pytest.raises(DataError):
        odm.read(coco(tmp_path / "a.json", "/data/a.jpg"), names="strip=/other", log=log)
    assert log.counts == {"bad-name": 1}


def test_images_that_would_be_one_are_refused(tmp_path):
    with pytest.raises(DataError) as raised:
        odm.read(coco(tmp_path / "a.json", "/x/a.jpg", "/y/a.jpg"), names="basename")
    (issue,) = raised.value.log.issues
    assert (issue.code, issue.pointer) == ("same-short-name", "/images/1")


WINDOWS = "images\\train\\x.jpg"


@pytest.mark.parametrize("name", sorted({*WRITTEN} - {"parquet", "tfrecord"}))
def test_folders_of_windows_are_folders_in_every_format(name, tmp_path):
    format_ = FORMATS[name]
    data = Dataset.from_arrays(
        images=[WINDOWS], width=[64], height=[48], categories=["x"], image=[0], category=[0], xyxy=[[1, 2, 3, 4]]
    )  # fmt: skip
    assert data.images.name == ("images/train/x.jpg",)
    target = tmp_path / f"out{format_.suffixes[0] if format_.single else ''}"
    odm.write(data, target, name)
    files = [path for path in (target, *target.rglob("*")) if path.is_file()]
    assert not [path for path in files if "\\" in path.name]
    changed = False
    for path in files:
        text = path.read_text()
        changed |= "images/train/x" in text
        escaped = WINDOWS.replace("\\", "\\\\") if text.startswith(("{", "[")) else WINDOWS
        path.write_text(text.replace("images/train/x", escaped.removesuffix(".jpg")))
    log = Log()
    sized = {"image_size": "64x48"} if format_.needs_size else {}
    (found,) = odm.read(target, name, log=log, **sized).images.name
    assert "\\" not in found
    assert stem("images/train/x.jpg").endswith(stem(found))
    if changed and name not in ("fiftyone", "voc"):  # which have only the last part of it from the text
        assert any("read with / for" in note for note in log.notes)


def test_two_names_that_differ_in_their_slashes_are_refused(tmp_path):
    with pytest.raises(DataError) as raised:
        odm.read(coco(tmp_path / "a.json", WINDOWS, WINDOWS.replace("\\", "/")))
    assert raised.value.log.counts == {"same-short-name": 1}


def test_pictures_are_found_by_names_with_backslashes(tmp_path):
    from PIL import Image

    (tmp_path / "photos" / "images" / "train").mkdir(parents=True)
    Image.new("RGB", (64, 48)).save(tmp_path / "photos" / "images" / "train" / "x.jpg")
    data = odm.read(coco(tmp_path / "a.json", WINDOWS), images=tmp_path / "photos")
    assert data.images.path == (str(tmp_path / "photos/images/train/x.jpg"),)


def test_short_names_find_pictures_and_the_other_side(tmp_path, capsys):
    from PIL import Image

    (tmp_path / "photos").mkdir()
    Image.new("RGB", (64, 48)).save(tmp_path / "photos" / "a.jpg")
    (tmp_path / "gt.csv").write_text("/data/a.jpg,1,2,30,40,car\n")
    data = odm.read(tmp_path / "gt.csv", names="basename", images=tmp_path / "photos")
    assert (data.images.name, data.images.width.tolist()) == (("a.jpg",), [64])
    (tmp_path / "det").mkdir()
    (tmp_path / "det" / "a.txt").write_text("car 0.9 1 2 30 40\n")
    command = ["eval", str(tmp_path / "gt.csv"), str(tmp_path / "det"), "--gt-names", "basename", "--quiet"]
    assert _app.run([*command, "--output", "json"]) == 0
    assert '"mAP": 1.0' in capsys.readouterr().out


@pytest.mark.parametrize("rule", ["base", "strip", "strip=", ""])
def test_other_rules_are_refused(rule, tmp_path):
    with pytest.raises(UsageError, match="basename or strip=PREFIX"):
        odm.read(coco(tmp_path / "a.json", "a.jpg"), names=rule)


@pytest.mark.parametrize("name", ["voc", "labelme"])
def test_a_name_that_windows_refuses_is_reported_once(name, tmp_path):
    dataset = Dataset.from_arrays(
        images=["con.jpg"], width=[64], height=[48], categories=["x"], image=[0], category=[0], xyxy=[[1, 2, 3, 4]]
    )  # fmt: skip
    odm.write(dataset, tmp_path / "out", name)
    log = Log()
    odm.read(tmp_path / "out", log=log)
    assert log.counts == {"device-name": 1}


PER_IMAGE = ("voc", "kitti", "dota", "txt", "labelme", "supervisely", "visdrone", "icdar")
"""Formats with a file for each image, which is called as the file is."""
ANNOTATION_FOLDERS = (
    *("labels", "label", "Label", "label_2", "xmls", "xml", "annots", "ann", "Annotation", "Annotations"),
    *("annotations/xmls", "annotation/json", "detection-results", "ground-truth", "gt", "labels_xml"),
    *("labelTxt-v1.5/DOTA-v1.5_train", "set/labels"),
)


def annotate(path, name):
    """Write the boxes of one image in a format with a file for each to `path`, without suffix."""
    dataset = Dataset.from_arrays(
        images=[f"{path.name}.png"], width=[64], height=[48], categories=["car"], image=[0], category=[0],
        xyxy=[[1, 2, 30, 40]],
    )  # fmt: skip
    flat = path.parent / "flat"
    odm.write(dataset, flat, name)
    (file,) = (file for file in flat.rglob("*.*") if file.name not in ("meta.json", "classes.txt"))
    file.rename(path.parent / file.name)
    shutil.rmtree(flat)


def read_names(path, name):
    data = odm.read(path, name, **({"image_size": "64x48"} if name == "txt" else {}))
    assert len(data) == len(data.images) == 2
    return list(data.images.name)


def picture(path):
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (64, 48)).save(path)


@of_each(
    turns(
        [(name, folder) for name in PER_IMAGE for folder in ANNOTATION_FOLDERS],
        ["", "JPEGImages", "photos/part1"],
    )
)
def test_the_folder_of_the_annotations_is_no_part_of_a_name(case, pictures, tmp_path):
    name, folder = case
    for key in ("a", "train/b"):
        annotate(tmp_path / folder / key, name)
    root = tmp_path / "set" if folder.startswith("set/") else tmp_path
    for image in ("a.png", "train/b.png") if pictures else ():
        picture(root / pictures / image)
    found = read_names(tmp_path, name)
    assert (
        found == ["a.png", "train/b.png"]
        if pictures
        else [stem(image) for image in found] == ["a", "train/b"]
    )


@pytest.mark.parametrize("name", PER_IMAGE)
@pytest.mark.parametrize(
    ("files", "pictures", "names"),
    [
        (("boxes/a", "boxes/b"), ("photos/a.png", "photos/b.png"), ["a", "b"]),  # a folder of pictures beside
        (("boxes/a", "boxes/b"), ("a.png", "b.png"), ["a", "b"]),
        (("boxes/a", "boxes/b"), (), ["boxes/a", "boxes/b"]),
        (("labels/a", "labels/b"), ("labels/a.png", "labels/b.png"), ["labels/a", "labels/b"]),
        (("labels/own/a", "labels/own/b"), ("images/a.png", "images/b.png"), ["a", "b"]),
        (("labels/own/c/a", "labels/own/c/b"), ("Images/c/a.png", "Images/c/b.png"), ["c/a", "c/b"]),
        (("one/a", "two/a"), ("photos/a.png",), ["one/a", "two/a"]),  # which of the two it is, nobody knows
        (("one/a", "one/b"), ("two/c.png",), ["one/a", "one/b"]),
        (("train/a", "train/b"), ("val/a.png", "val/b.png"), ["train/a", "train/b"]),
        (
            ("train/labels/a", "val/labels/a"),
            ("train/images/a.png", "val/images/a.png"),
            ["train/a", "val/a"],
        ),
        (("labels/train/a", "labels/val/a"), ("images/val/a.png",), ["train/a", "val/a"]),
    ],
)
def test_the_first_picture_found_decides(name, files, pictures, names, tmp_path):
    for key in files:
        annotate(tmp_path / key, name)
    for image in pictures:
        picture(tmp_path / image)
    assert [stem(image) for image in read_names(tmp_path, name)] == names


@pytest.mark.parametrize(
    ("name", "file", "place"),
    [
        ("coco", "train/_annotations.coco.json", "train/a.png"),  # as Roboflow exports them
        ("createml", "train/_annotations.createml.json", "train/a.png"),
        ("csv", "train/_annotations.csv", "train/a.png"),
        ("cvat", "annotations.xml", "images/a.png"),
        ("coco", "annotations/instances_val2017.json", "val2017/a.png"),
        ("coco", "annotations/instances_val2017.json", "images/val2017/a.png"),
        *((name, "labels.json", "a.png") for name in ("bdd100k", "via", "labelstudio", "kili")),
        *((name, "labels.jsonl", "a.png") for name in ("odvg", "vertexai", "ultralytics")),
    ],
)
def test_pictures_are_found_beside_the_file_that_names_them(name, file, place, tmp_path):
    target = tmp_path / "set" / file
    odm.convert(coco(tmp_path / "in.json", "a.png"), target, to=name)
    for found in (place, "other/a.png"):
        picture(tmp_path / "set" / found)
    assert odm.read(tmp_path / "set").images.path == (str(tmp_path / "set" / place),)


@pytest.mark.parametrize("option", [True, False])
@pytest.mark.parametrize(
    ("labels", "images", "names"),
    [
        (("labels/yolo/a", "labels/yolo/b"), ("images/a", "images/b"), ("a", "b")),
        (("labels/own/c/a", "labels/own/c/b"), ("images/c/a", "images/c/b"), ("c/a", "c/b")),
        (("Annotations/a", "Annotations/b"), ("Images/a", "Images/b"), ("a", "b")),
        (("labels/one/a", "labels/two/a"), ("images/a",), ("one/a", "two/a")),  # of which it is, nobody knows
    ],
)
def test_yolo_images_are_called_as_their_pictures(labels, images, names, option, tmp_path):
    for label in labels:
        (tmp_path / label).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{label}.txt").write_text("0 .5 .5 .2 .2\n")
    for image in images:
        picture(tmp_path / f"{image}.png")
    data = odm.read(tmp_path, "yolo", **({"images": tmp_path / images[0].split("/")[0]} if option else {}))
    assert data.images.name == tuple(f"{name}.png" for name in names)
    assert set(data.images.width.tolist()) == {64}


@pytest.mark.parametrize("place", ["images/train/a.png", "images/a.png"])
def test_images_of_datumaro_lie_in_the_folder_of_their_subset(place, tmp_path):
    odm.convert(coco(tmp_path / "in.json", "a.png"), tmp_path / "set", to="datumaro")
    (file,) = (tmp_path / "set" / "annotations").iterdir()
    file.rename(file.with_name("train.json"))
    picture(tmp_path / "set" / place)
    data = odm.read(tmp_path / "set")
    assert data.images.path == (str(tmp_path / "set" / place),)


def test_open_images_lie_in_data_of_a_subset(tmp_path):
    """As FiftyOne downloads them."""
    table = tmp_path / "train" / "labels" / "detections.csv"
    table.parent.mkdir(parents=True)
    table.write_text("ImageID,LabelName,XMin,XMax,YMin,YMax\na,cat,0.25,0.5,0,0.5\n")
    picture(tmp_path / "train" / "data" / "a.png")
    data = odm.read(tmp_path)
    assert (data.images.name, data.boxes.xyxy.tolist()) == (("a.png",), [[16, 0, 32, 24]])


@pytest.mark.parametrize(
    "listed",
    [
        "data/img/gone.png",
        "gone.png",
        "other/gone.png",
        "img/a.pngimg/b.png",
        "a.png./img/b.JPG",
        "b.png.old.png",
    ],
)
def test_a_listed_picture_that_is_missing_changes_nothing_else(listed, tmp_path):
    picture(tmp_path / "img" / "a.png")
    (tmp_path / "img" / "a.txt").write_text("0 .5 .5 .2 .2\n")
    (tmp_path / "obj.names").write_text("cat\n")
    (tmp_path / "obj.data").write_text("classes=1\ntrain=data/train.txt\nnames=data/obj.names\n")
    names = []
    for more in ("", f"{listed}\n"):
        (tmp_path / "train.txt").write_text(f"data/img/a.png\n{more}")
        names.append(odm.read(tmp_path, log=(log := Log())).images.name)
    assert names[0] == names[1] == ("a.png",)
    (issue,) = [issue for issue in log if issue.code == "listed-picture-missing"]
    assert (issue.path, issue.line, issue.severity) == (str(tmp_path / "train.txt"), 2, "warning")
    assert ("was a line break lost?" in str(issue)) == ("img/b." in listed)


@pytest.mark.parametrize("pictures", [True, False])
def test_image_path_leads_out_of_the_folder_of_the_annotations(pictures, tmp_path):
    shape = {"label": "car", "shape_type": "rectangle", "points": [[1, 2], [30, 40]]}
    size = {"imageWidth": 64, "imageHeight": 48}
    for base in ("a", "b"):
        file = tmp_path / "boxes" / f"{base}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"shapes": [shape], "imagePath": f"../images/{base}.jpg", **size}))
    if pictures:
        picture(tmp_path / "images" / "a.jpg")
    assert odm.read(tmp_path).images.name == ("a.jpg", "b.jpg")


@pytest.mark.parametrize("name", [name for name in PER_IMAGE if name != "supervisely"])
def test_a_folder_that_would_be_lost_is_named(name, tmp_path):
    log = Log()
    data = Dataset.from_arrays(images=["labels/a.png"], categories=["car"], image=[0], category=[0],
                               xyxy=[[1, 2, 30, 40]], width=[64], height=[48])  # fmt: skip
    odm.write(data, tmp_path / "out", name, log=log)
    assert any("folders called 'labels' are read as those of the annotations" in note for note in log.notes)
