"""Formats of lines, of text or of JSON: files as their own tools write them, quirks, and damaged input."""

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from one_format import lay, read, seen
from PIL import Image

import odm
from odm.issues import DataError
from odm.tables import Dataset, Flag

MIXED = Path(__file__).resolve().parent.parent / "fixtures" / "mixed"
NAMES = ("yolokeras", "sagemaker", "labelbox", "crowdhuman", "darwin", "imagefolder", "paddleocr")


VOC_LINES = """VOCdevkit/VOC2007/JPEGImages/000005.jpg 263,211,324,339,1 165,264,253,372,1
VOCdevkit/VOC2007/JPEGImages/000006.jpg
my pictures/a b.JPG 1,2,3,4,0
"""
ROBOFLOW_MANIFEST = (
    '{"source-ref":"s3://roboflow/img001.jpg","roboflow":{"annotations":[{"class_id":1,"width":64,"top":82,"height":72,'
    '"left":350}],"image_size":[{"width":500,"depth":3,"height":333}]},"roboflow-metadata":{"job-name":"labeling-job/r",'
    '"class-map":{"0":"head","1":"helmet"},"human-annotated":"yes","objects":[{"confidence":0.09}],'
    '"creation-date":"2020-07-20T18:45:18.67800","type":"groundtruth/object-detection"}}\n'
    '{"source-ref":"s3://roboflow/img002.jpg","roboflow":{"annotations":[],"image_size":[{"width":300,"depth":3,'
    '"height":220}]},"roboflow-metadata":{"class-map":{},"human-annotated":"no","objects":[]}}\n'
    '{"source-ref":"s3://roboflow/img003.jpg"}\n'
)
LABELBOX = (
    '{"data_row":{"id":"c1","external_id":"a b.jpg","row_data":"https://host/x.jpg","details":{}},'
    '"media_attributes":{"height":480,"width":640,"exif_rotation":"1"},"projects":{"p0":{"name":"empty","labels":[]},'
    '"p1":{"name":"s","labels":[{"label_kind":"Default","annotations":{"objects":['
    '{"feature_id":"f","name":"Car","value":"car","annotation_kind":"ImageBoundingBox","classifications":[{"name":"x"}],'
    '"bounding_box":{"top":98.0,"left":5.5,"height":80.0,"width":99.0}},'
    '{"feature_id":"g","name":"Lake","annotation_kind":"ImageSegmentationMask","mask":{"url":"https://host/m"}},'
    '{"feature_id":"h","name":"Car","annotation_kind":"ImagePolygon","polygon":[{"x":1,"y":2},{"x":9,"y":4},{"x":5,"y":6}]}'
    '],"classifications":[]}},{"label_kind":"Default","annotations":{"objects":[]}}]}}}\n'
    '{"data_row":{"id":"c2","row_data":"https://host/dir/y%20z.png?sig=1"},"media_attributes":{"height":4,"width":6},'
    '"projects":{"p1":{"name":"s","labels":[{"annotations":{"objects":[]}}]}}}\n'
    '{"data_row":{"id":"c3","row_data":"https://host/not-labelled.png"},"projects":{"p1":{"labels":[]}}}\n'
)
CROWD = (
    '{"ID":"273271,c9db000d5146c15","gtboxes":[{"fbox":[72,202,163,503],"tag":"person","hbox":[171,208,62,83],'
    '"extra":{"box_id":0,"occ":1},"vbox":[72,202,163,398],"head_attr":{"ignore":0,"occ":1,"unsure":0}},'
    '{"fbox":[199,180,144,499],"tag":"mask","extra":{"ignore":1}}]}\n{"ID":"1,a","gtboxes":[]}\n'
)
DARWIN_POLYGON = (
    '{"dataset":"x","image":{"width":64,"height":48,"filename":"a.jpg","original_filename":"a.jpg","path":"/in/b",'
    '"url":"https://host/a"},"annotations":[{"name":"leaf","polygon":{"path":[{"x":1,"y":2},{"x":9,"y":4},{"x":5,"y":6}]}},'
    '{"name":"leaf","bounding_box":{"h":3,"w":2,"x":1,"y":0},"instance_id":{"value":4}},{"name":"sunny","tag":{}}]}'
)
AUTOTRAIN = (
    '{"file_name": "0001.png", "objects": {"bbox": [[302.0, 109.0, 73.0, 52.0]], "category": [0]}}\n'
    '{"file_name": "0002.png", "objects": {"bbox": [], "category": []}}\n'
)


# --------------------------------------------------------------------------------------------- JSON lines


def test_json_lines_of_the_formats_say_what_is_not_read(tmp_path):
    (tmp_path / "a.manifest").write_text(ROBOFLOW_MANIFEST)
    data, log = read(tmp_path / "a.manifest", "sagemaker")
    assert data.images.name == ("img001.jpg", "img002.jpg")
    assert (data.categories.name, data.extras, log.counts) == (
        ("head", "helmet"), {"records without boxes of a job": 1}, {}
    )  # fmt: skip
    assert read(tmp_path / "a.manifest", "sagemaker", "det")[0].boxes.score.tolist() == [0.09]
    (tmp_path / "a.ndjson").write_text(LABELBOX)
    data, log = read(tmp_path / "a.ndjson", "labelbox")
    assert data.images.name == ("a b.jpg", "y z.png")
    assert data.extras == {
        "ImageSegmentationMask objects": 1, "classifications": 1, "records without a label": 1, "segmentation": 1
    }  # fmt: skip
    assert any("1 others are not" in note for note in log.notes)


def test_of_several_labels_of_a_row_of_the_older_labelbox_export_the_first_is_read(tmp_path):
    def record(row, left, **members):
        box = {"top": 2, "left": left, "height": 40, "width": 30}
        objects = [{"title": "door", "bbox": box} | members]
        return {"DataRow ID": row, "Labeled Data": f"https://h/{row}.jpg", "Label": {"objects": objects}}

    records = [{**record("a", 0), "Label": "Skip"}, record("a", 1), record("a", 5), record("b", 7)]
    (tmp_path / "a.json").write_text(json.dumps(records))
    data, log = read(tmp_path / "a.json", "labelbox")
    assert (data.images.name, data.boxes.xyxy[:, 0].tolist()) == (("a.jpg", "b.jpg"), [1, 7])
    assert (log.counts, data.extras) == ({}, {"records without a label": 1})
    assert any("1 others are not" in note for note in log.notes)

    nameless = record("a", 1)
    del nameless["Label"]["objects"][0]["title"]
    (tmp_path / "b.json").write_text(json.dumps([nameless]))
    _, log = read(tmp_path / "b.json", "labelbox")
    assert "no key 'title'" in str(log.issues[0])


@pytest.mark.parametrize(
    ("project", "left"), [("", [1]), ("p1", [1]), ("roads", [1]), ("p2", [5]), ("parks", [5]), ("none", [])]
)
@pytest.mark.parametrize("is_old", [False, True])
def test_the_project_of_labelbox_that_is_read(tmp_path, project, left, is_old):
    """By its id or name, the first of an image without the option; version 1 has no ids."""

    def label(left):
        box = {"top": 2, "left": left, "height": 40, "width": 30}
        return {"objects": [{"title": "door", "name": "door", "bbox": box, "bounding_box": box}]}

    projects = {"p1": ("roads", 1), "p2": ("parks", 5)}
    if is_old:
        left = left if project in ("", "roads", "parks", "none") else []
        row = {"DataRow ID": "a", "Labeled Data": "https://h/a.jpg"}
        records = [{**row, "Project Name": name, "Label": label(x)} for name, x in projects.values()]
    else:
        records = [{"data_row": {"external_id": "a.jpg"}, "projects": {}}]
        for id_, (name, x) in projects.items():
            labels = [{"label_kind": "Default", "annotations": label(x)}]
            records[0]["projects"][id_] = {"name": name, "labels": labels}
    (tmp_path / "a.json").write_text(json.dumps(records))
    data, log = read(tmp_path / "a.json", "labelbox", **({"project": project} if project else {}))
    assert data.boxes.xyxy[:, 0].tolist() == left
    note = f"{2 - len(left)} labels of other projects"
    assert any(note in text for text in log.notes) == (bool(project) or not is_old)


def test_crowdhuman_visible_boxes_heads_and_pictures(tmp_path):
    path = lay(tmp_path, {"input/annotation_train.odgt": CROWD.replace('},{"fbox":[199,180,144,499],"tag":"mask"', '},{"fbox":[1,1,1,1],"vbox":[1,2,3,4],"hbox":[1,2,3,4],"head_attr":{"ignore":1},"tag":"person"')})  # fmt: skip
    data, _ = read(path, "crowdhuman", box="vbox")
    assert [b[2:] for b in seen(data)] == [(72, 202, 235, 600), (1, 2, 4, 6)]
    data, log = read(path, "crowdhuman", box="hbox")
    assert [b[2:] for b in seen(data)] == [(171, 208, 233, 291), (1, 2, 4, 6)]
    assert data.boxes.flags.tolist() == [Flag.OCCLUDED, Flag.CROWD]
    assert (data.images.split, log.counts) == (("train", "train"), {})
    (path / "Images").mkdir()
    Image.new("RGB", (9, 7)).save(path / "Images/1,a.jpg")
    data, _ = read(path, "crowdhuman")
    assert data.images.name == ("273271,c9db000d5146c15", "1,a.jpg")
    assert data.images.width.tolist() == [0, 9]


def test_imagefolder_finds_pictures_and_names_of_classes(tmp_path):
    path = lay(tmp_path, {"input/train/metadata.jsonl": AUTOTRAIN, "input/test/metadata.jsonl": ""})
    Image.new("RGB", (640, 480)).save(path / "train/0001.png")
    data, log = read(path, "imagefolder")
    assert (data.images.width.tolist(), data.images.split) == ([640, 0], ("train", "train"))
    assert log.counts == {"numbered-classes": 1}
    (path / "README.md").write_text("---\nfeatures: &x [*x]\n---\n")  # no concern of the data
    assert read(path, "imagefolder")[1].counts == {"numbered-classes": 1}
    (path / "classes.txt").write_text("dog\n")
    assert read(path, "imagefolder")[0].categories.name == ("dog",)


def test_paddleocr_reads_the_files_of_a_folder_and_gives_results_a_score(tmp_path):
    line = 'imgs/a.jpg\t[{"transcription": "x", "points": [[1, 2], [30, 2], [30, 40], [1, 40]], "difficult": false}]\n'
    path = lay(
        tmp_path, {"input/Label.txt": "\ufeff" + line, "input/rec_gt.txt": "crop_img/a_crop_0.jpg\tx\n"}
    )
    Image.new("RGB", (64, 48)).save(path / "a.jpg")
    data, log = read(path, "paddleocr")
    assert (seen(data), data.kind) == ([("imgs/a.jpg", "text", 1, 2, 30, 40)], "gt")
    assert (data.images.width.tolist(), data.extras) == ([64], {"transcriptions": 1})
    assert [note for note in log.notes if "rec_gt.txt" in note]
    (tmp_path / "Cache.cach").write_text(line)
    assert seen(odm.read(tmp_path / "Cache.cach")) == seen(data)
    with pytest.raises(DataError, match="1 error") as raised:
        odm.read(path, kind="det")
    assert any("score='1'" in note for note in raised.value.log.notes)
    found = odm.read(path, score=0.5)
    assert (found.kind, found.boxes.score.tolist()) == ("det", [0.5])


def test_paddleocr_says_in_which_column_of_a_line_the_json_ends(tmp_path):
    (tmp_path / "Label.txt").write_text('a.jpg\t[]\nb.jpg\t[{"points": ]\n')
    _, log = read(tmp_path / "Label.txt", "paddleocr")
    assert [(issue.code, issue.line, issue.column) for issue in log] == [("json-syntax", 2, 19)]


def test_paddleocr_is_written_for_ppocrlabel(tmp_path):
    data = Dataset.from_arrays(
        images=["a.jpg", "b.jpg"], categories=["text", "title"], image=[0, 0], category=[0, 1],
        xyxy=[[1.5, 2, 30, 40], [0, 0, 9, 9]], flags=[int(Flag.DIFFICULT), int(Flag.CROWD)],
    )  # fmt: skip
    with pytest.raises(odm.UsageError, match="control character"):
        odm.write(data, tmp_path / "bad", "paddleocr", prefix="a\tb")
    odm.write(data, tmp_path / "imgs", "paddleocr", prefix="imgs/")
    first, second = (tmp_path / "imgs" / "Label.txt").read_text().splitlines()
    name, _, texts = first.partition("\t")
    assert (name, second) == ("imgs/a.jpg", "imgs/b.jpg\t[]")
    assert json.loads(texts) == [
        {"transcription": "text", "points": [[1.5, 2], [30, 2], [30, 40], [1.5, 40]], "difficult": True},
        {
            "transcription": "###",
            "points": [[0, 0], [9, 0], [9, 9], [0, 9]],
            "difficult": False,
            "key_cls": "title",
        },
    ]


def test_sagemaker_reads_the_job_that_is_named_and_what_machines_drew(tmp_path):
    line = ROBOFLOW_MANIFEST.split("\n", maxsplit=1)[0].replace('"yes"', '"no"')
    both = line[:-1] + ',"second":{"annotations":[]},"second-metadata":{"class-map":{}}}'
    (tmp_path / "a.manifest").write_text(both)
    data, log = read(tmp_path / "a.manifest", "sagemaker")
    assert (data.kind, data.boxes.score.tolist()) == ("det", [0.09])
    assert any("several jobs" in note for note in log.notes)
    assert len(read(tmp_path / "a.manifest", "sagemaker", job="second")[0]) == 0


def test_all_faulty_lines_are_told_in_one_run(tmp_path):
    lines = ROBOFLOW_MANIFEST.split("\n")
    (tmp_path / "a.manifest").write_text(
        "\n".join(["{", lines[0], "", lines[1][:50], '"x"', lines[2], "[" * 9999])
    )
    data, log = read(tmp_path / "a.manifest", "sagemaker")
    assert [(i.code, i.line) for i in log] == [
        ("json-syntax", 1), ("json-syntax", 4), ("wrong-type", 5), ("json-too-deep", 7)
    ]  # fmt: skip
    assert len(data) == 1


# --------------------------------------------------------------------------------------------- YOLO-Keras


@pytest.mark.parametrize("line", ["1,2,3,4,5", "a 1,2,3,4,5", " a", "a  ", "x y,z"])
def test_yolokeras_names_that_would_not_be_read_back_are_not_written(tmp_path, line):
    dataset = Dataset.from_arrays(
        images=[line], categories=["x"], image=[0], category=[0], xyxy=[[0, 0, 1, 1]]
    )
    with pytest.raises(DataError, match="bad-name"):
        odm.write(dataset, tmp_path / "out", "yolokeras")
    assert not (tmp_path / "out").exists()


def test_yolokeras_rounds_on_request_and_says_the_splits(tmp_path, odm_run):
    path = lay(tmp_path, {"input/train.txt": "a.jpg 1.4,2.6,30,40,0\n", "input/val.txt": "b.jpg\n"})
    (tmp_path / "input/classes.txt").write_text("x\n")
    data, _ = read(path, "yolokeras")
    assert data.images.split == ("train", "val")
    odm.convert(path, tmp_path / "out", to="yolokeras", to_options={"round": True, "prefix": "data/img/"})
    assert (tmp_path / "out/train.txt").read_text() == "data/img/a.jpg 1,3,30,40,0\n"
    _, err = odm_run("convert", path, tmp_path / "again", "--to", "yolokeras", "-O", "round=true")
    assert "round=true: 2 of 4 coordinates are rounded to whole pixels" in " ".join(err.split())
    assert (tmp_path / "out/val.txt").read_text() == "data/img/b.jpg\n"
    assert (tmp_path / "out/classes.txt").read_text() == "x\n"


def test_yolokeras_single_file_takes_the_classes_beside_it(tmp_path):
    lay(tmp_path, {"input/train.txt": "a.jpg 1,2,30,40,1\n", "input/classes.txt": "x\ny\n"})
    data, log = read(tmp_path / "input/train.txt", "yolokeras")
    assert seen(data) == [("a.jpg", "y", 1, 2, 30, 40)]
    assert not log.counts


@pytest.mark.parametrize("kind", ["", "-detections"])
def test_the_json_of_vott_is_written_as_it_is_read(tmp_path, kind):
    source, target = MIXED / f"vott-json{kind}" / "input.json", tmp_path / "out.json"
    odm.convert(str(source), str(target), to="vott", to_options={"dialect": "json"})
    assert target.read_bytes() == source.read_bytes()


def test_vott_1_counts_what_nobody_opened_and_keeps_numbered_frames(tmp_path):
    region = {
        "x1": 1,
        "y1": 2,
        "x2": 30,
        "y2": 40,
        "width": 64,
        "height": 48,
        "type": "Rectangle",
        "tags": ["a"],
    }
    point = {**region, "type": "point"}
    frames = {"0": [region, {**region, "tags": ["b", "a"]}, point], "1": [], "2": []}
    text = json.dumps({"frames": frames, "inputTags": "b,a", "visitedFrames": [0, 1, 3]})
    data, log = read(lay(tmp_path, {"a.json": text}), "vott", image_size="64x48")
    assert not log.counts
    assert data.images.name == ("0", "1", "3")
    assert data.categories.name == ("b", "a")
    assert [box[:2] for box in seen(data)] == [("0", "a"), ("0", "b"), ("0", "a")]
    assert data.extras == {"pictures that nobody opened": 1, "point regions": 1}


def test_a_region_of_vott_whose_type_is_no_text_is_counted(tmp_path):
    box = {"left": 1, "top": 2, "width": 30, "height": 40}
    regions = [{"id": "r", "type": [], "tags": ["a"], "boundingBox": box}]
    asset = {"asset": {"name": "a.jpg", "size": {"width": 64, "height": 48}, "state": 2}, "regions": regions}
    data, log = read(lay(tmp_path, {"a-asset.json": json.dumps(asset)}), "vott")
    assert (len(data), data.extras, dict(log.counts)) == (0, {"other regions": 1}, {})


def test_annotations_json_of_superannotate_takes_the_classes_beside_it(tmp_path):
    points = {"x1": 1, "y1": 2, "x2": 30, "y2": 40}
    item = {
        "instances": [{"type": "bbox", "classId": 7, "points": points}],
        "metadata": {"width": 64, "height": 48},
    }
    text = json.dumps({"___sa_version___": "1.0.0", "a.jpg": item})
    files = {"input/annotations.json": text, "input/classes.json": json.dumps([{"id": 7, "name": "car"}])}
    lay(tmp_path, files)
    for given in ("input", "input/annotations.json"):
        data, log = read(tmp_path / given, "superannotate")
        assert not log.counts
        assert seen(data) == [("a.jpg", "car", 1, 2, 30, 40)]
    (tmp_path / "input" / "classes.json").unlink()
    data, log = read(tmp_path / "input", "superannotate")
    assert seen(data) == [("a.jpg", "7", 1, 2, 30, 40)]
    assert log.counts == {"numbered-classes": 1}


@pytest.mark.parametrize("kind", ["", "-detections"])
def test_samples_of_fiftyone_are_written(tmp_path, kind):
    source = MIXED / f"fiftyone-samples{kind}" / "input"
    first = odm.read(source, "fiftyone")
    ledger = odm.convert(
        source, tmp_path / "out", to="fiftyone", to_options={"layout": "samples"}, strict=True
    )
    assert ledger.lossless
    back = odm.read(tmp_path / "out", "fiftyone")
    assert (tmp_path / "out" / "samples.json").is_file()
    for column in ("name", "split"):
        assert getattr(back.images, column) == getattr(first.images, column)
    assert back.images.width.tolist() == first.images.width.tolist()
    assert back.boxes.flags.tolist() == first.boxes.flags.tolist()
    np.testing.assert_allclose(back.boxes.xyxy, first.boxes.xyxy, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(back.boxes.score, first.boxes.score)


def test_samples_of_fiftyone_keep_splits_and_the_field(tmp_path):
    data = Dataset.from_arrays(
        images=["a/x.jpg", "b.jpg"], width=[64, 64], height=[48, 48], categories=["car"], image=[0], category=[0],
        xyxy=[[1, 2, 3, 4]],
    )  # fmt: skip
    data = replace(data, images=replace(data.images, split=("train", "val")))
    odm.write(data, tmp_path / "s.json", "fiftyone", layout="samples", field="mine")
    sample = json.loads((tmp_path / "s.json").read_text())["samples"][0]
    assert sample["filepath"] == "data/a/x.jpg"
    assert sample["mine"]["detections"][0]["label"] == "car"
    back = odm.read(tmp_path / "s.json", field="mine")
    assert (back.images.name, back.images.split) == (data.images.name, data.images.split)


def test_a_split_of_fiftyone_is_selected_in_files_of_both_kinds(tmp_path):
    for split in ("train", "val"):
        sample = {"filepath": f"{split}-sample.jpg", "tags": [split]}
        labels = json.dumps({"classes": ["car"], "labels": {f"{split}-label": []}})
        lay(tmp_path, {f"{split}.json": json.dumps({"samples": [sample]}), f"{split}/labels.json": labels})
    for split in ("train", "val"):
        images = odm.read(tmp_path, "fiftyone", split=split).images
        assert sorted(images.name) == [f"{split}-label", f"{split}-sample.jpg"]
    with pytest.raises(odm.DataError) as refused:
        odm.read(tmp_path, "fiftyone", split="test")
    assert refused.value.log.counts == {"unknown-split": 1}


BOX_OF_7 = {"instances": [{"type": "bbox", "classId": 7, "points": {"x1": 1, "y1": 2, "x2": 30, "y2": 40}}]}
COMPANIONS = {
    "superannotate": ("annotations.json", "classes.json", "7", lambda name: json.dumps([{"id": 7, "name": name}]),
                      json.dumps({"___sa_version___": "1.0.0", "a.jpg": BOX_OF_7 | {"metadata": {}}})),
    "yolokeras": ("train.txt", "classes.txt", "0", lambda name: f"{name}\n", "a.jpg 1,2,30,40,0\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPANIONS)
def test_the_classes_of_a_folder_lie_in_it_and_those_of_a_file_beside_it(name, tmp_path):
    file, classes, number, list_of, text = COMPANIONS[name]
    lay(tmp_path, {f"in/{file}": text, classes: list_of("above")})
    for source in ("in", f"in/{file}"):
        assert [row[1] for row in seen(read(tmp_path / source, name)[0])] == [number]
    (tmp_path / "in" / classes).write_text(list_of("car"))
    for source in ("in", f"in/{file}"):
        assert [row[1] for row in seen(read(tmp_path / source, name)[0])] == ["car"]
