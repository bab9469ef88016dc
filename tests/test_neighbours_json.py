"""The JSON formats of other tools: files as those tools write them, their quirks, and damaged ones."""

import copy
import json
import random
from pathlib import Path

import numpy as np
import pytest
from selection import SLOW, examples

from odm import checks
from odm.converters import load, write
from odm.converters.load import Request
from odm.files import Source
from odm.formats import FORMATS, detect, make_options
from odm.issues import DataError, Log
from odm.tables import Builder, Flag

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
NAMES = ["bdd100k", "createml", "fiftyone", "labelme", "labelstudio", "lvis", "supervisely", "via"]


def read(path, name, kind=None, **options):
    log, builder = Log(), Builder()
    builder.kind = kind
    format_ = FORMATS[name]
    format_.read(Source(str(path)), builder, log, make_options(format_, options))
    data = builder.build()
    checks.run(data, log)
    return data, log


def rows(data):
    b = data.boxes
    return [
        (
            data.images.name[b.image[i]],
            data.categories.name[b.category[i]],
            [round(v, 6) for v in b.xyxy[i].tolist()],
            Flag(int(b.flags[i])),
            None if np.isnan(b.score[i]) else float(b.score[i]),
        )
        for i in range(len(b))
    ]


def put(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def labelme(*shapes, **rest):
    return {
        "version": "5.4.1", "flags": {}, "shapes": list(shapes), "imagePath": "a.jpg", "imageData": "/9j/4AAQ" * 9,
        "imageHeight": 100, "imageWidth": 200, **rest,
    }  # fmt: skip


def task(*results, **rest):
    return {
        "id": 7, "annotations": [{"id": 1, "completed_by": 1, "result": list(results), "was_cancelled": False}],
        "file_upload": "0a1b2c3d-a.jpg", "drafts": [], "predictions": [],
        "data": {"image": "/data/upload/3/0a1b2c3d-a%20b.jpg"}, "meta": {}, "inner_id": 1, **rest,
    }  # fmt: skip


def result(kind="rectanglelabels", size=(200, 100), **value):
    found = {
        "id": "x1",
        "type": kind,
        "from_name": "label",
        "to_name": "image",
        "origin": "manual",
        "value": value,
    }
    return found | (
        {"original_width": size[0], "original_height": size[1], "image_rotation": 0} if size else {}
    )


NONE = Flag(0)
RECT = {"name": "rect", "x": 10, "y": 20, "width": 30, "height": 40}
BOX = [10, 20, 40, 60]

CASES = {
    "labelme: corners in any order, pictures in another folder, as Windows writes it": (
        "labelme", {},
        {"a.json": labelme({"label": "x", "points": [[40, 60], [10, 20]], "shape_type": "rectangle", "group_id": None,
                            "flags": {}, "mask": None}, imagePath="..\\images\\a.jpg")},
        [("a.jpg", "x", BOX, NONE, None)], {},
    ),
    "labelme: old files without shape_type, with null lists": (
        "labelme", {},
        {"a.json": labelme({"label": "x", "points": [[10, 20], [40, 60]], "line_color": None, "fill_color": None},
                           {"label": "x", "points": [[0, 0], [9, 3], [4, 8]], "flags": None}),
         "b.json": labelme(imagePath="b.png", shapes=None)},
        [("a.jpg", "x", BOX, NONE, None), ("a.jpg", "x", [0, 0, 9, 8], NONE, None)], {"outlines-as-boxes": 1},
    ),
    "labelme: circle and points": (
        "labelme", {},
        {"a.json": labelme({"label": "x", "points": [[50, 50], [53, 54]], "shape_type": "circle", "flags": {}},
                           {"label": "x", "points": [[50, 50]], "shape_type": "point", "flags": {}})},
        [("a.jpg", "x", [45, 45, 55, 55], NONE, None)], {"outlines-as-boxes": 1},
    ),
    "labelme: X-AnyLabeling": (
        "labelme", {},
        {"a.json": labelme({"label": "x", "score": None, "points": [[10, 20], [40, 20], [40, 60], [10, 60]],
                            "shape_type": "rectangle", "difficult": True, "flags": {}, "attributes": {}, "kie_linking": []},
                           version="3.0.0", imageData=None)},
        [("a.jpg", "x", BOX, Flag.DIFFICULT, None)], {},
    ),
    "labelme: a polygon that is a rectangle": (
        "labelme", {},
        {"a.json": labelme({"label": "x", "points": [[10, 20], [40, 20], [40, 60], [10, 60]], "shape_type": "polygon"})},
        [("a.jpg", "x", BOX, NONE, None)], {},
    ),
    "createml: the spelling of Apple's page": (
        "createml", {},
        {"a.json": [{"imagefilename": "a.png", "annotation": [
            {"coordinates": {"y": 156.062, "x": 195.122, "height": 148.872, "width": 148.03}, "label": "Waffle"}]}]},
        [("a.png", "Waffle", [121.107, 81.626, 269.137, 230.498], NONE, None)], {},
    ),
    "createml: labelImg and null": (
        "createml", {},
        {"a.json": [{"image": "a.png", "verified": False, "annotations": [
            {"label": "x", "coordinates": {"x": 25.0, "y": 40.0, "width": 30.0, "height": 40.0}}]},
            {"image": "b.png", "annotations": None}]},
        [("a.png", "x", BOX, NONE, None)], {},
    ),
    "createml: normalized": (
        "createml", {"units": "normalized", "image_size": "200x100"},
        {"a.json": [{"image": "a.png", "annotations": [
            {"label": "x", "coordinates": {"x": 0.125, "y": 0.4, "width": 0.15, "height": 0.4}}]}]},
        [("a.png", "x", BOX, NONE, None)], {},
    ),
    "via: version 1 with regions as an object": (
        "via", {},
        {"a.json": {"a.jpg99": {"fileref": "", "size": 99, "filename": "a.jpg", "base64_img_data": "",
                                "file_attributes": {}, "regions": {"0": {"shape_attributes": RECT,
                                                                         "region_attributes": {"kind": "x"}}}}}},
        [("a.jpg", "x", BOX, NONE, None)], {},
    ),
    "via: a checkbox, an empty file_attributes list, an ellipse": (
        "via", {},
        {"a.json": {"_via_settings": {}, "_via_attributes": {"region": {}, "file": {}}, "_via_img_metadata": {
            "a.jpg99": {"filename": "a.jpg", "size": 99, "file_attributes": [], "regions": [
                {"shape_attributes": RECT, "region_attributes": {"type": {"x": True}, "age": "4"}},
                {"shape_attributes": {"name": "ellipse", "cx": 50, "cy": 40, "rx": 20, "ry": 10, "theta": 0},
                 "region_attributes": {"type": {"y": True, "x": False}}},
                {"shape_attributes": {"name": "point", "cx": 5, "cy": 4}, "region_attributes": {"type": "x"}}]}}}},
        [("a.jpg", "x", BOX, NONE, None), ("a.jpg", "y", [30, 30, 70, 50], NONE, None)], {"outlines-as-boxes": 1},
    ),
    "via: no attributes at all": (
        "via", {"category": "thing"},
        {"a.json": {"a.jpg99": {"filename": "a.jpg", "size": 99, "file_attributes": {},
                                "regions": [{"shape_attributes": RECT, "region_attributes": {}}]}}},
        [("a.jpg", "thing", BOX, NONE, None)], {},
    ),
    "via: CSV of version 1": (
        "via", {},
        {"a.csv": "#filename,file_size,file_attributes,region_count,region_id,region_shape_attributes,region_attributes\r\n"
                  'a.jpg,99,"{}",1,0,"{""name"":""rect"",""x"":10,""y"":20,""width"":30,""height"":40}","{""name"":""x""}"\r\n'
                  'b.jpg,98,"{}",0,0,"{}","{}"\r\n'},
        [("a.jpg", "x", BOX, NONE, None)], {},
    ),
    "labelstudio: an export": (
        "labelstudio", {},
        {"a.json": [task(result(x=5, y=20, width=15, height=40, rotation=0, rectanglelabels=["x"])), task(
            data={"image": "s3://bucket/folder/b.jpg"}, annotations=[{"result": []}])]},
        [("a b.jpg", "x", BOX, NONE, None)], {},
    ),
    "labelstudio: rotated, polygon, brush": (
        "labelstudio", {},
        {"a.json": [task(result(x=50, y=20, width=15, height=40, rotation=90, rectanglelabels=["x"]),
                         result("polygonlabels", points=[[5, 20], [20, 60], [5, 60]], polygonlabels=["y"]),
                         result("brushlabels", rle=[1, 2], brushlabels=["z"]))]},
        [("a b.jpg", "x", [60, 20, 100, 50], NONE, None), ("a b.jpg", "y", BOX, NONE, None)], {"outlines-as-boxes": 1},
    ),
    "labelstudio: label and shape apart, old completions, local files": (
        "labelstudio", {},
        {"a.json": [{"id": 1, "data": {"image": "/data/local-files/?d=my%20set/a.jpg"}, "completions": [
            {"was_cancelled": True, "result": []},
            {"result": [result("rectangle", x=5, y=20, width=15, height=40, rotation=0),
                        result("labels", x=5, y=20, width=15, height=40, rotation=0, labels=["x"])]}]}]},
        [("my set/a.jpg", "x", BOX, NONE, None)], {},
    ),
    "labelstudio: the short export": (
        "labelstudio", {},
        {"a.json": [{"image": "/data/upload/a.jpg", "id": 1, "annotator": 1, "annotation_id": 3, "lead_time": 2.5,
                     "label": [{"x": 5, "y": 20, "width": 15, "height": 40, "rotation": 0, "rectanglelabels": ["x"],
                                "original_width": 200, "original_height": 100}]}]},
        [("a.jpg", "x", BOX, NONE, None)], {},
    ),
    "labelstudio: a file of one task": (
        "labelstudio", {},
        {"1.json": task(result(x=5, y=20, width=15, height=40, rotation=0, rectanglelabels=["x"])),
         "2.json": {"id": 2, "data": {"image": "b.jpg"}, "annotations": []}},
        [("a b.jpg", "x", BOX, NONE, None)], {},
    ),
    "labelstudio: predictions with one score": (
        "labelstudio", {},
        {"a.json": [{"data": {"image": "a.jpg"}, "predictions": [{"model_version": "m", "score": 0.25, "result": [
            result(x=5, y=20, width=15, height=40, rotation=0, rectanglelabels=["x"])]}]}]},
        [("a.jpg", "x", BOX, NONE, 0.25)], {},
    ),
    "bdd100k: frames with a configuration": (
        "bdd100k", {},
        {"a.json": {"frames": [{"name": "a.jpg", "labels": [
            {"id": "1", "category": "y", "box2d": {"x1": 10, "y1": 20, "x2": 40, "y2": 60},
             "attributes": {"occluded": True, "trafficLightColor": "NA", "ignored": True}},
            {"id": "2", "category": "lane", "poly2d": [{"vertices": [[1, 2], [3, 4]], "types": "LL", "closed": False}]}]},
            {"name": "b.jpg", "labels": None}, {"name": "c.jpg"}],
            "config": {"imageSize": {"width": 200, "height": 100}, "categories": [{"name": "x"}, {"name": "y"}]}}},
        [("a.jpg", "y", BOX, Flag.OCCLUDED | Flag.CROWD, None)], {},
    ),
    "bdd100k: the first release": (
        "bdd100k", {},
        {"a.json": {"name": "a-1", "attributes": {"weather": "clear"}, "frames": [{"timestamp": 10000, "objects": [
            {"category": "x", "id": 0, "attributes": {"occluded": False, "truncated": True},
             "box2d": {"x1": 10, "y1": 20, "x2": 40, "y2": 60}}]}]},
         "b.json": {"name": "b-1", "attributes": {}, "frames": [{"timestamp": 10000, "objects": []}]}},
        [("a-1", "x", BOX, Flag.TRUNCATED, None)], {},
    ),
    "bdd100k: the detection set, with null shapes and whole numbers for ids": (
        "bdd100k", {},
        {"a.json": [{"videoName": "a", "name": "a.jpg", "frameIndex": 0, "timestamp": 10000, "labels": [
            {"category": "x", "poly2d": None, "box3d": None, "box2d": {"x2": 40, "y1": 20, "x1": 10, "y2": 60}, "id": 0,
             "manualShape": True, "attributes": {"occluded": False, "truncated": False, "trafficLightColor": "NA"}}],
            "attributes": {"weather": "overcast", "timeofday": "daytime", "scene": "city street"}}]},
        [("a.jpg", "x", BOX, NONE, None)], {},
    ),
    "supervisely: a project of today, with who labelled what and when": (
        "supervisely", {},
        {"meta.json": {"classes": [{"title": "y", "shape": "bitmap", "color": "#000000", "geometry_config": {}, "id": 7},
                                   {"title": "x", "shape": "rectangle", "color": "#000000", "id": 8, "hotkey": ""}],
                       "tags": [{"name": "seen", "value_type": "none", "color": "#000000", "classes": []}],
                       "projectType": "images"},
         "ds1/ann/a.png.json": {"size": {"width": 200, "height": 100}, "description": "",
                                "tags": [{"id": 1, "tagId": 2, "name": "seen", "value": None, "labelerLogin": "me"}],
                                "objects": [
             {"id": 1, "classId": 8, "description": "", "geometryType": "rectangle", "labelerLogin": "me",
              "createdAt": "2020-08-07T11:09:51.054Z", "updatedAt": "2020-08-07T11:09:51.054Z", "tags": [],
              "classTitle": "x", "points": {"exterior": [[10, 20], [40, 60]], "interior": []}},
             {"id": 2, "classId": 7, "geometryType": "bitmap", "tags": [], "classTitle": "y",
              "bitmap": {"data": "eJw=", "origin": [1, 2]}}]}},
        [("a.png", "x", BOX, NONE, None)], {},
    ),
    "supervisely: an old project": (
        "supervisely", {},
        {"meta.json": {"classes": [{"title": "y", "shape": "bitmap", "color": "#000000"},
                                   {"title": "x", "shape": "rectangle", "color": "#000000"}], "tags": []},
         "lemons/ann/a.png.json": {"size": {"width": 200, "height": 100}, "tags": ["train"], "description": "", "objects": [
             {"classTitle": "x", "tags": ["occluded"], "points": {"exterior": [[40, 60], [10, 20]], "interior": []}},
             {"classTitle": "y", "tags": [], "bitmap": {"data": "eJw=", "origin": [1, 2]},
              "points": {"exterior": [], "interior": []}}]}},
        [("a.png", "x", BOX, Flag.OCCLUDED, None)], {},
    ),
    "fiftyone: names without a list, null": (
        "fiftyone", {"image_size": "200x100"},
        {"labels.json": {"classes": None, "labels": {"a": [{"label": "x", "bounding_box": [0.05, 0.2, 0.15, 0.4],
                                                            "attributes": {"iscrowd": 1}}], "b": None}}},
        [("a", "x", BOX, Flag.CROWD, None)], {},
    ),
    "lvis: version 0.5, whose classes stand first": (
        "lvis", {},
        {"a.json": {"categories": [{"name": "x", "image_count": 0, "frequency": "f", "synset": "x.n.01", "def": "an x",
                                    "instance_count": 0, "id": 4, "synonyms": ["x"]}],
            "annotations": [{"bbox": [10, 20, 30, 40], "category_id": 4, "image_id": 9, "id": 1, "area": 7.5,
                             "segmentation": [[1, 2, 3, 4, 5, 6]]}],
            "info": {}, "licenses": [{"id": 1, "name": "any", "url": "http://localhost"}],
            "images": [{"flickr_url": "http://localhost/z.jpg", "height": 100, "license": 1, "id": 9, "width": 200,
                        "coco_url": "http://images.cocodataset.org/val2017/000000000009.jpg",
                        "not_exhaustive_category_ids": [4], "neg_category_ids": [],
                        "file_name": "COCO_val2014_000000000009.jpg", "date_captured": "2013-11-20 13:34:38"}]}},
        [("COCO_val2014_000000000009.jpg", "x", BOX, NONE, None)], {},
    ),
    "lvis: images by their address": (
        "lvis", {},
        {"a.json": {"info": {}, "images": [
            {"id": 9, "coco_url": "http://images.cocodataset.org/val2017/000000000009.jpg", "width": 200, "height": 100,
             "neg_category_ids": [4], "not_exhaustive_category_ids": [5, 6]}],
            "annotations": [{"id": 1, "image_id": 9, "category_id": 4, "bbox": [10, 20, 30, 40], "area": 7.5,
                             "segmentation": [[1, 2, 3, 4, 5, 6]]}],
            "categories": [{"id": 4, "name": "x", "synset": "x.n.01", "frequency": "r", "def": "an x"}]}},
        [("val2017/000000000009.jpg", "x", BOX, NONE, None)], {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", list(CASES))
def test_files_as_the_tools_write_them(case, tmp_path):
    name, options, files, expected, codes = CASES[case]
    put(tmp_path, files)
    path = tmp_path / next(iter(files)) if len(files) == 1 else tmp_path
    data, log = read(path, name, **options)
    assert rows(data) == expected, [str(i) for i in log]
    assert dict(log.counts) == codes, [str(i) for i in log]
    assert data.skipped == 0
    assert detect(Source(str(path)), Log()).name == name
    if path != tmp_path and name not in ("labelme", "supervisely", "fiftyone"):
        assert detect(Source(str(tmp_path)), Log()).name == name
        assert rows(read(tmp_path, name, **options)[0]) == expected


def test_what_is_not_read_is_counted(tmp_path):
    def extras(case):
        name, options, files, *_ = CASES[case]
        put(tmp_path / name, files)
        return read(tmp_path / name, name, **options)[0].extras

    assert extras("labelme: circle and points") == {"point shapes": 1, "segmentation": 1}
    assert extras("lvis: images by their address") == {
        "segmentation": 1, "synset": 1, "def": 1, "not_exhaustive_category_ids of unlisted classes": 2,
    }  # fmt: skip
    found = extras("labelstudio: rotated, polygon, brush")
    assert (found["brushlabels"], found["rotation"], found["segmentation"]) == (1, 1, 1)
    assert extras("bdd100k: frames with a configuration")["poly2d"] == 1
    assert extras("supervisely: an old project") == {"bitmap objects": 1, "tags of images": 1}


def test_every_file_of_a_folder_is_read(tmp_path):
    record = {"annotations": [{"label": "x", "coordinates": {"x": 25, "y": 40, "width": 30, "height": 40}}]}
    put(tmp_path, {f"{i:03}.json": [record | {"image": f"{i}.jpg"}] for i in range(120)})
    put(tmp_path, {"060-notes.json": {"of": "another tool"}})
    data, log = read(tmp_path, "createml")
    assert len(data) == len(data.images) == 120
    assert not log.counts
    assert [note for note in log.notes if "not read" in note] == [f"{tmp_path}: not read: 060-notes.json"]


def test_annotations_before_predictions(tmp_path):
    value = {"x": 5, "y": 20, "width": 15, "height": 40, "rectanglelabels": ["x"]}
    two = task(result(**value), predictions=[{"result": [result(**value) | {"score": 0.5}]}])
    put(tmp_path, {"a.json": [two]})
    data, log = read(tmp_path / "a.json", "labelstudio")
    assert data.kind == "gt"
    assert any("reading the annotations" in note for note in log.notes)
    data, _ = read(tmp_path / "a.json", "labelstudio", "det")
    assert rows(data) == [("a b.jpg", "x", BOX, NONE, 0.5)]


def test_the_class_attribute_of_via(tmp_path):
    region = {"shape_attributes": RECT, "region_attributes": {"colour": "red", "label": "x", "occluded": "1"}}
    put(
        tmp_path,
        {"a.json": {"a.jpg1": {"filename": "a.jpg", "size": 1, "regions": [region], "file_attributes": {}}}},
    )
    data, log = read(tmp_path / "a.json", "via")
    assert rows(data) == [("a.jpg", "x", BOX, Flag.OCCLUDED, None)]
    assert any("'label'" in note for note in log.notes)
    data, _ = read(tmp_path / "a.json", "via", attribute="colour")
    assert rows(data)[0][1] == "red"


def test_lvis_reads_columns_and_records_alike(tmp_path, monkeypatch):
    import odm.formats._shared.json_columns as under
    from odm.formats import lvis

    text = (FIXTURES / "mixed" / "lvis" / "input.json").read_text(encoding="utf-8")
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    fast, _ = read(tmp_path / "a.json", "lvis")

    class Slow(under.Document):
        def __init__(self, *args, **more):
            super().__init__(*args, **more, fast=False)

    monkeypatch.setattr(lvis, "Document", Slow)
    slow, log = read(tmp_path / "a.json", "lvis")
    assert not log.counts
    assert rows(fast) == rows(slow)
    for column in ("wh", "area", "source_id", "line"):
        np.testing.assert_array_equal(getattr(fast.boxes, column), getattr(slow.boxes, column))
    for column in ("image", "category", "verdict"):
        np.testing.assert_array_equal(getattr(fast.labels, column), getattr(slow.labels, column))
    assert len(fast.labels)
    assert fast.categories.frequency == slow.categories.frequency
    assert fast.images.name == slow.images.name
    assert fast.extras == slow.extras


@pytest.mark.parametrize("slow", [False, True])
def test_lvis_ignored_objects_are_difficult(tmp_path, slow):
    """Whether the annotations are read as columns or, for a value of another kind, one by one."""
    marks = [{}, {"ignore": 0}, {"ignore": None}, {"ignore": 1}] + [{"ignore": True}] * slow
    document = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 90, "height": 90, "neg_category_ids": []}],
        "annotations": [
            {"id": i, "image_id": 1, "category_id": 1, "bbox": [i, 2, 3, 4], "area": 12, **mark}
            for i, mark in enumerate(marks, 1)
        ],
        "categories": [{"id": 1, "name": "x", "frequency": "r"}],
    }
    (tmp_path / "a.json").write_text(json.dumps(document))
    dataset, log = read(tmp_path / "a.json", "lvis")
    assert not log.issues
    assert not dataset.extras
    assert dataset.boxes.has(Flag.DIFFICULT).tolist() == [False, False, False, True, True][: len(marks)]
    write(dataset, tmp_path / "b.json", "lvis")
    again, _ = read(tmp_path / "b.json", "lvis")
    assert again.boxes.flags.tolist() == dataset.boxes.flags.tolist()
    document["annotations"][0]["ignore"] = 2
    (tmp_path / "a.json").write_text(json.dumps(document))
    _, log = read(tmp_path / "a.json", "lvis")
    assert [(issue.code, issue.pointer) for issue in log.issues] == [("bad-flag", "/annotations/0/ignore")]


@pytest.mark.parametrize("value", [0.1 + 0.2, 1 / 3, 123456.789, 1e-7, 77.7, 2**31 + 0.5])
@pytest.mark.parametrize("name", ["createml", "via", "labelme", "bdd100k", "supervisely", "lvis"])
def test_numbers_are_not_shifted_or_rounded(name, value, tmp_path):
    import odm

    dataset = odm.tables.Dataset.from_arrays(
        images=["a.jpg"], width=[640], height=[480], categories=["x"], image=[0, 0], category=[0, 0],
        xyxy=[[value, 1, value + 10, 5], [0, value, 7, value * 3]],
    )  # fmt: skip
    path = tmp_path / ("a.json" if FORMATS[name].single else "a")
    odm.write(dataset, path, name)
    back = odm.read(path, name).boxes.xyxy
    if name == "createml":  # a centre is a sum, and the last bit of an edge may be beyond it
        np.testing.assert_allclose(back, dataset.boxes.xyxy, rtol=0, atol=4 * np.spacing(value + 10))
    else:
        np.testing.assert_array_equal(back, dataset.boxes.xyxy)


# ------------------------------------------------------------------------------------------- damaged files

ODD = [
    None, True, False, 0, -1, 2**70, 1e308, "", "x", "../x", "\ud800", "a\nb", [], {}, [[]], [None], [1, 2], {"x": 1},
    {"x": {"y": [1]}}, [{}], "9" * 400, [[1, 2], [3, 4]], ["a", "a"],
]  # fmt: skip


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def damaged(value, chance):
    """A copy in which something was replaced, removed or doubled."""
    found = copy.deepcopy(value)
    for _ in range(chance.choice([1, 1, 2, 5])):
        where = [p for p in places(found) if p]
        if not where:
            return chance.choice(ODD)
        *path, last = chance.choice(where)
        holder = found
        for key in path:
            holder = holder[key]
        how = chance.random()
        if how < 0.7:
            holder[last] = copy.deepcopy(chance.choice(ODD))
        elif isinstance(holder, list):
            holder.insert(last, copy.deepcopy(holder[last]))
        else:
            del holder[last]
    return found


def texts(raw, chance):
    """Damaged texts of a JSON file: as values, and as bytes."""
    value = json.loads(raw)
    for _ in range(examples(60)):
        text = json.dumps(damaged(value, chance))
        if chance.random() < 0.3:
            number = chance.choice(["NaN", "-Infinity", "1e999", "9" * 500, "1.0", "-0"])
            at = [i for i, c in enumerate(text) if c.isdigit()] or [0]
            i = chance.choice(at)
            text = text[:i] + number + text[i + 1 :]
        yield text.encode()
    for _ in range(examples(40)):
        data = bytearray(raw)
        for _ in range(chance.choice([1, 2, 8])):
            i = chance.randrange(len(data))
            how = chance.random()
            if how < 0.4:
                data[i] = chance.choice(b'{}[],:"\\0-e\x00\xff\xe9')
            elif how < 0.7:
                del data[i : i + chance.choice([1, 3, 40])]
            else:
                j = chance.randrange(len(data))
                data[i:i] = data[j : j + chance.choice([1, 9, 60])]
            if not data:
                data = bytearray(b" ")
        yield bytes(data)
    yield raw[: len(raw) // 2]
    yield b"[" * 5000
    yield b'{"a":' * 5000
    yield b""


@pytest.mark.parametrize("kind", ["gt", "det", None])
@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_are_told_and_never_raise(name, kind, tmp_path):
    chance = random.Random(f"{name} {kind}")
    folder = FIXTURES / "mixed" / (f"{name}-detections" if kind == "det" else name)
    (entry,) = [p for p in folder.iterdir() if p.name.startswith("input")]
    files = sorted(entry.rglob("*.json")) if entry.is_dir() else [entry]
    options = {"image_size": "640x480"} if name == "fiftyone" else {}
    target = tmp_path / "a.json"
    for file in files[-2:]:
        for text in texts(file.read_bytes(), chance):
            target.write_bytes(text)
            for format_ in FORMATS.values():
                if SLOW or ".json" in format_.suffixes:
                    format_.sniff(Source(str(target)))
            data, log = read(target, name, kind, **options)
            assert all(str(issue).isprintable() for issue in log)
            assert not np.isnan(data.boxes.xyxy).any() or log.errors
            try:
                loaded = load(
                    Request(path=str(target), format=name, kind=kind, options=options), Log(), skip_bad=True
                )
            except DataError:
                assert log.errors
            else:
                assert loaded.bad >= data.skipped


@pytest.mark.parametrize("name", NAMES)
def test_all_faults_in_one_run(name, tmp_path):
    """A faulty box that stands there three times is told three times."""
    options = {"image_size": "640x480"} if name == "fiftyone" else {}
    folder = FIXTURES / "bad" / name / ("wrong-box-type-points" if name == "labelme" else "wrong-box-type")
    (entry,) = [p for p in folder.iterdir() if p.name.startswith("input")]
    (source,) = [p for p in entry.rglob("*.json") if p.name != "meta.json"] if entry.is_dir() else [entry]
    value = json.loads(source.read_text(encoding="utf-8"))
    lists = {
        "labelme": "shapes",
        "supervisely": "objects",
        "labelstudio": "result",
        "via": "regions",
        "fiftyone": "street",
    }
    for path in list(places(value)):
        if path and path[-1] == lists.get(name, "labels" if name == "bdd100k" else "annotations"):
            holder = value
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] *= 3
    target = tmp_path / "a.json"
    target.write_text(json.dumps(value), encoding="utf-8")
    _, log = read(target, name, **options)
    assert log.counts["wrong-box-type"] == 3
