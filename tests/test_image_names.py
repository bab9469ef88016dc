"""Image names that are absolute, URLs or lead elsewhere, shortened with --names."""

import json

import pytest

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


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_that_names_folders_shortens_them(name, tmp_path):
    format_ = FORMATS[name]
    dataset = Dataset.from_arrays(
        images=["deep/one/a.jpg", "deep/two/b.jpg"], width=[64, 64], height=[48, 48], categories=["wheat"],
        image=[0, 1], category=[0, 0], xyxy=[[1, 2, 30, 40], [1, 2, 30, 40]], score=[0.5, 0.5],
    )  # fmt: skip
    target = tmp_path / f"out{format_.suffixes[0] if format_.single else ''}"
    try:
        odm.write(dataset, target, name)
    except DataError:
        pytest.skip("cannot write detections of such images")
    options = (
        {"image_size": "64x48"}
        if "image_size" in {f.name for f in odm.formats.option_specs(format_.options)}
        else {}
    )
    plain = odm.read(target, name, kind="det", **options)
    if not any("/" in image for image in plain.images.name):
        pytest.skip("does not keep folders")
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
