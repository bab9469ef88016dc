"""What the formats of single tools decide beyond their fixtures: names, kinds, splits, and whole numbers."""

import json
from pathlib import Path

import numpy as np
import pytest
from corpus_base import lay as put
from one_format import read, seen

import odm
from odm.files import Source
from odm.formats import FORMATS
from odm.issues import DataError


def write(path, value):
    put(path.parent, {path.name: value if isinstance(value, str) else json.dumps(value)})
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("dlib", "<dataset><images><image file='a.jpg'><box left='1' top='2' width='3' height='4'/></image></images></dataset>"),
        ("opencv", "a.jpg 1 1 2 3 4\n"),
    ],
)  # fmt: skip
def test_boxes_without_a_class_have_that_of_an_option(name, text, tmp_path):
    path = write(tmp_path / ("positives.xml" if name == "dlib" else "positives.dat"), text)
    assert seen(read(path, name)[0]) == [("a.jpg", "object", 1, 2, 4, 6)]
    assert seen(read(path, name, category="face")[0]) == [("a.jpg", "face", 1, 2, 4, 6)]


@pytest.mark.parametrize(("name", "target"), [("dlib", "a.xml"), ("opencv", "a")])
def test_whole_numbers_are_written_where_asked_for(name, target, tmp_path):
    data = odm.Dataset.from_arrays(
        images=["a.jpg"], width=[9], height=[9], categories=["cat"], image=[0], category=[0], xyxy=[[1.4, 2.5, 3.4, 6.6]]
    )  # fmt: skip
    odm.write(data, tmp_path / target, name, round=True)
    assert odm.read(tmp_path / target, name).boxes.xyxy.tolist() == [[1, 3, 3, 7]]


def test_a_class_of_opencv_may_have_characters_that_a_file_name_may_not(tmp_path):
    data = odm.Dataset.from_arrays(
        images=["b.jpg", "a.jpg"], width=[9] * 2, height=[9] * 2, categories=["a: b", "50%"], image=[0, 1], category=[0, 1],
        xyxy=[[1, 2, 3, 4]] * 2,
    )  # fmt: skip
    odm.write(data, tmp_path / "out", "opencv")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["50%25.dat", "a%3A b.dat"]
    assert sorted(seen(odm.read(tmp_path / "out"))) == [
        ("a.jpg", "50%", 1, 2, 3, 4),
        ("b.jpg", "a: b", 1, 2, 3, 4),
    ]


def encord(manual):
    box = {
        "name": "cat",
        "confidence": 0.5,
        "manualAnnotation": manual,
        "boundingBox": {"x": 0, "y": 0, "w": 1, "h": 1},
    }
    unit = {"data_title": "a.jpg", "width": 9, "height": 9, "labels": {"objects": [box]}}
    return {"data_units": {"d": unit}}


def test_what_machines_drew_in_encord_are_detections(tmp_path):
    for manual, kind in ((False, "det"), (True, "gt")):
        data, log = read(write(tmp_path / "a.json", [encord(manual)]), "encord")
        assert (data.kind, len(data), dict(log.counts)) == (kind, 1, {})
    data, _ = read(write(tmp_path / "a.json", [encord(True)]), "encord", "det")
    assert data.boxes.score.tolist() == [0.5]


def kili(type_, day, x):
    vertices = [{"x": a, "y": b} for a, b in ((0, 0), (x, 0), (x, 1), (0, 1))]
    box = {"type": "rectangle", "categories": [{"name": "CAT", "confidence": 7}], "boundingPoly": [{"normalizedVertices": vertices}]}  # fmt: skip
    return {
        "labelType": type_,
        "createdAt": f"2026-01-0{day}",
        "jsonResponse": {"JOB": {"annotations": [box]}},
    }


def test_the_newest_label_of_kili_is_read_and_guesses_only_where_there_is_no_other(tmp_path):
    labels = [
        kili("DEFAULT", 1, 0.1),
        kili("REVIEW", 3, 0.3),
        kili("DEFAULT", 2, 0.2),
        kili("PREDICTION", 4, 0.4),
    ]
    path = write(
        tmp_path / "a.json",
        [{"externalId": "a", "resolution": {"width": 10, "height": 10}, "labels": labels}],
    )
    assert seen(read(path, "kili")[0]) == [("a", "CAT", 0, 0, 3, 10)]
    data = read(path, "kili", "det")[0]
    assert (seen(data), data.boxes.score.tolist()) == ([("a", "CAT", 0, 0, 4, 10)], [0.07])
    path.write_text(
        json.dumps([{"externalId": "a", "resolution": {"width": 10, "height": 10}, "labels": labels[3:]}])
    )
    assert read(path, "kili")[0].kind == "det"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("azureml://subscriptions/s/datastores/d/paths/x/a.jpg", "x/a.jpg"),
        ("AmlDatastore://x/a.jpg", "x/a.jpg"),
        ("https://host/container/a%20b.jpg?sig=1", "a b.jpg"),
        ("x/a.jpg", "x/a.jpg"),
    ],
)
def test_names_of_images_in_azure(url, name, tmp_path):
    path = write(tmp_path / "a.jsonl", {"image_url": url, "label": []})
    assert read(path, "azure")[0].images.name == (name,)


def test_labels_of_mmdetection_2_are_named_by_a_list(tmp_path):
    ann = {"bboxes": [[1, 2, 3, 4]], "labels": [1], "bboxes_ignore": [[1, 2, 3, 4]]}
    path = write(tmp_path / "a.json", [{"filename": "a.jpg", "width": 9, "height": 9, "ann": ann}])
    classes = write(tmp_path / "names.txt", "dog\ncat\n")
    data, log = read(path, "mmdet", classes=str(classes))
    assert seen(data) == [("a.jpg", "cat", 1, 2, 3, 4), ("a.jpg", "ignored", 1, 2, 3, 4)]
    assert data.boxes.flags.tolist() == [0, int(odm.Flag.REGION)]
    assert not log.counts


def test_results_of_detectron2_are_read_as_coco_results(tmp_path):
    gt = {
        "images": [{"id": 5, "file_name": "a.jpg", "width": 9, "height": 9}, {"id": 6, "file_name": "b.jpg", "width": 9, "height": 9}],
        "categories": [{"id": 3, "name": "cat"}], "annotations": [],
    }  # fmt: skip
    row = {"image_id": 6, "category_id": 3, "bbox": [1, 2, 3, 4], "score": 0.5}
    path = write(
        tmp_path / "det.json", [{"image_id": 5, "instances": []}, {"image_id": 6, "instances": [row]}]
    )
    data = odm.read(path, gt=write(tmp_path / "gt.json", gt))
    assert seen(data) == [("b.jpg", "cat", 1, 2, 4, 6)]


def test_landmarks_of_retinaface_are_counted_and_a_class_may_follow_the_blur(tmp_path):
    points = " ".join(["1.5"] * 15)
    rows = f"# a.jpg\n1 2 3 4 {points} 0.5\n5 6 7 8 {'-1 ' * 15}0 007\n9 9 1 1\n"
    data, log = read(write(tmp_path / "train" / "label.txt", rows).parent.parent, "widerface")
    assert [row[1:4] for row in seen(data)] == [("face", 1, 2), ("007", 5, 6), ("face", 9, 9)]
    assert data.extras["landmarks"] == 1
    assert data.images.split == ("train",)
    assert not log.counts


TOOLS = Path(__file__).resolve().parent.parent / "fixtures" / "tools"
BOX, OUTLINE, ORIENTED = 0, 1, 3


@pytest.mark.parametrize(
    ("folder", "kinds", "points"),
    [
        ("datumaro-1", [BOX, BOX, OUTLINE, BOX], [0, 0, 0, 2]),
        ("encord-export", [BOX, ORIENTED], [0, 0]),
        ("labelmexml-datumaro", [BOX, BOX, OUTLINE], [0, 0, 0]),
        ("labelmexml-mit", [OUTLINE, BOX], [0, 0]),
        ("ultralytics-shapes", [OUTLINE, ORIENTED, BOX], [0, 0, 2]),
        ("via-3", [BOX, OUTLINE], [0, 0]),
        ("widerface-retinaface", [BOX] * 3, [5, 5, 0]),
    ],
)
def test_shapes_of_tools(folder, kinds, points):
    (source,) = (TOOLS / folder).glob("input*")
    data = odm.read(source, folder.rpartition("-")[0], shapes=True)
    shapes, held = data.boxes.shapes, data.boxes.keypoints
    assert ([BOX] * len(data) if shapes is None else shapes.kind.tolist()) == kinds
    assert ([0] * len(data) if held is None else held.counts().tolist()) == points


def test_a_hole_of_kili_is_joined_to_its_outline(tmp_path):
    rings = [[(0, 0), (1, 0), (1, 1), (0, 1)], [(0.4, 0.4), (0.4, 0.2), (0.2, 0.2)]]
    poly = [{"normalizedVertices": [{"x": x, "y": y} for x, y in ring]} for ring in rings]
    box = {"type": "semantic", "categories": [{"name": "CAT"}], "boundingPoly": poly}
    label = {"labelType": "DEFAULT", "jsonResponse": {"JOB": {"annotations": [box]}}}
    path = write(
        tmp_path / "a.json",
        [{"externalId": "a", "resolution": {"width": 10, "height": 10}, "labels": [label]}],
    )
    data = odm.read(path, shapes=True)
    (outline,) = data.boxes.shapes.polygons(0)
    x, y = outline[:, 0], outline[:, 1]
    assert abs((x * np.roll(y, -1) - y * np.roll(x, -1)).sum()) / 2 == pytest.approx(98)


def test_two_views_of_one_file_of_via_3_are_one_image(tmp_path):
    project = json.loads((TOOLS / "via-3" / "input.json").read_text())
    project["view"]["2"] = {"fid_list": ["1"]}
    data = odm.read(write(tmp_path / "a.json", project))
    assert data.images.name == ("a.jpg",)
    assert data.extras["views of several files, or of none"] == 1


def test_a_label_of_ultralytics_without_numbers_has_none(tmp_path):
    image = {
        "type": "image",
        "file": "a.jpg",
        "width": 9,
        "height": 9,
        "annotations": {"boxes": [[], [0, 0.5]]},
    }
    dataset = {"type": "dataset", "class_names": {"0": "cat"}}
    (tmp_path / "a.ndjson").write_text("".join(json.dumps(line) + "\n" for line in (dataset, image)))
    with pytest.raises(DataError) as caught:
        odm.read(tmp_path / "a.ndjson", "ultralytics")
    assert [issue.message.rpartition("found ")[2][0] for issue in caught.value.log] == ["0", "2"]


def test_the_file_of_supervisely_that_was_recognised_is_named(tmp_path):
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann" / "a.json").write_text("{}")
    objects = [
        {
            "classTitle": "cat",
            "points": {"exterior": [[1, 2], [3, 4]], "interior": []},
            "geometryType": "rectangle",
        }
    ]
    record = {"size": {"width": 9, "height": 9}, "tags": [], "objects": objects}
    (tmp_path / "ann" / "b.json").write_text(json.dumps(record))
    assert "of ann/b.json and 1 more" in FORMATS["supervisely"].sniff(Source(str(tmp_path))).reason


@pytest.mark.parametrize(("mask", "extras"), [("", {}), (" <seg001><seg002>", {"masks": 1})])
def test_masks_of_paligemma_are_counted_where_there_are_some(mask, extras, tmp_path):
    suffix = f"<loc0100><loc0200><loc0300><loc0400>{mask} cat ; <loc0100><loc0200><loc0300><loc0400> dog"
    record = {"image": "a.jpg", "prefix": "detect cat ; dog", "suffix": suffix}
    (tmp_path / "a.jsonl").write_text(json.dumps(record))
    data, log = read(tmp_path / "a.jsonl", "paligemma", image_size="100x100")
    assert (len(data), log.errors, data.extras) == (2, 0, extras)
