"""Text, XML and CSV of the neighbours: files as their own tools write them, quirks, and damaged input."""

import json
from pathlib import Path

import numpy as np
import pytest
from one_format import WRITTEN, lay, read, seen
from PIL import Image
from selection import of_each

import odm
from odm.files import Source
from odm.formats import FORMATS, detect
from odm.issues import DataError, Log
from odm.tables import Dataset, Flag

MIXED = Path(__file__).resolve().parent.parent / "fixtures" / "mixed"
NAMES = ("cvat", "kitti", "mot", "visdrone", "widerface", "dota", "wheat", "automl", "vott", "icdar")


TRACKS = """<?xml version="1.0" encoding="utf-8"?>
<annotations>
  <version>1.1</version>
  <meta><task><size>3</size><mode>interpolation</mode><start_frame>0</start_frame>
    <labels><label><name>car</name><attributes></attributes></label></labels>
    <original_size><width>640</width><height>480</height></original_size></task></meta>
  <track id="0" label="car">
    <box frame="0" outside="0" occluded="1" keyframe="1" xtl="1.5" ytl="2" xbr="30" ybr="40"></box>
    <box frame="2" outside="1" occluded="0" keyframe="1" xtl="1" ytl="2" xbr="30" ybr="40"></box>
  </track>
</annotations>
"""
SKELETONS = TRACKS.replace(
    "</annotations>",
    """  <track id="1" label="body">
    <skeleton frame="1" outside="0" occluded="0" keyframe="1" points="" z_order="0"></skeleton>
    <track id="0" label="head">
      <points frame="1" outside="0" occluded="0" keyframe="1" points="48.80,111.77" z_order="0"></points>
    </track>
  </track>
</annotations>""",
)
SHAPES = """<annotations><image id="0" name="a.jpg" width="100" height="100">
<polygon label="x" points="1,2;30,4;5,60"/>
<ellipse label="x" cx="50" cy="40" rx="10" ry="5"/>
<mask label="x" rle="1" left="3" top="4" width="10" height="20"/>
<box label="x" xtl="40" ytl="40" xbr="60" ybr="50" rotation="90"/>
<points label="x" points="1,2"/><tag label="y"/>
</image></annotations>
"""
KITTI = """Pedestrian 0.00 0 -0.20 712.40 143.00 810.73 307.92 1.89 0.48 1.20 1.84 1.47 8.41 0.01
Car 0.88 3 -0.69 0.00 192.37 402.31 374.00 1.60 1.57 3.23 -2.70 1.74 3.68 -1.29
DontCare -1 -1 -10 800.38 163.67 825.45 184.07 -1 -1 -1 -1000 -1000 -1000 -10
"""
WIDER = """0--Parade/a.jpg
1
449 330 122 149 0 0 0 0 0 0{}
0--Parade/b.jpg
0
0 0 0 0 0 0 0 0 0 0{}
0--Parade/c.jpg
2
78 221 7 8 2 0 0 1 0 0{}
78 238 14 17 2 0 0 0 2 0{}
""".replace("{}", " ")  # the official files have a blank at the end of rows
DOTA = """imagesource:GoogleEarth
gsd:0.146343590398
110 220 10 220 10 20 110 20 small-vehicle 1
60 20 110 70 60 120 10 70 plane 0
"""
INI = "[Sequence]\nname=MOT17-02\nimDir=img1\nframeRate=30\nseqLength=3\nimWidth=1920\nimHeight=1080\nimExt=.jpg\n"


def test_automl_takes_two_or_four_corners_with_or_without_a_set(tmp_path):
    rows = (
        "TRAIN,gs://folder/image1.png,car,0.1,0.1,,,0.3,0.3,,\n"
        "validation,gs://folder/im2.png,car,0.3,0.3,0.1,0.3,0.1,0.1,0.3,0.1\n"
        "gs://folder/im4.png,bike,.7,.6,,,.8,.9,,\n"
        "TEST,gs://folder/im3.png,,,,,,,,,\n"
    )
    path = lay(tmp_path, {"import.csv": rows})
    assert detect(Source(str(path)), Log()).name == "automl"
    data, log = read(path, "automl", image_size="100x200")
    assert not list(map(str, log))
    expected = [("image1.png", 10, 20, 30, 60), ("im2.png", 10, 20, 30, 60), ("im4.png", 70, 120, 80, 180)]
    assert [b[0] for b in seen(data)] == [e[0] for e in expected]
    np.testing.assert_allclose([b[2:] for b in seen(data)], [e[1:] for e in expected], atol=1e-9)
    assert data.images.name == ("image1.png", "im2.png", "im4.png", "im3.png")
    assert data.images.split == ("train", "val", "", "test")
    # A row may leave out what another says of the image.
    path = lay(
        tmp_path,
        {
            "more.csv": "gs://folder/a.png\ntest,gs://folder/a.png,x,0,0,,,1,1\ngs://folder/a.png,y,0,0,,,1,.5\n"
        },
    )
    for options in ({}, {"split": "test"}, {"split": "TEST"}):
        data, log = read(path, "automl", image_size="100x200", **options)
        assert not list(map(str, log))
        assert (data.images.split, len(data)) == (("test",), 2)
    assert read(path, "automl", image_size="100x200", split="val")[1].counts == {"unknown-split": 1}


def test_mot_lists_the_frames_without_boxes_and_reads_the_kind_that_is_wanted(tmp_path):
    files = {
        "input/gt/gt.txt": "1,1,1,2,3,4,1,1,1\n",
        "input/det/det.txt": "2,-1,1,2,3,4,.5,-1,-1,-1\n",
        "input/seqinfo.ini": INI,
    }
    path = lay(tmp_path, files)
    data, _ = read(path, "mot")
    assert data.kind == "gt"
    assert data.images.name == ("000001.jpg", "000002.jpg", "000003.jpg")
    assert data.images.width.tolist() == [1920] * 3
    data, _ = read(path, "mot", "det")
    assert data.kind == "det"
    assert data.boxes.image.tolist() == [1]
    assert data.boxes.score.tolist() == [0.5]


@pytest.mark.parametrize(
    ("rows", "explicit", "options", "names", "doubts"),
    [
        ("1,0 1,1", True, {}, ["person", "car"], 0),  # a class 0
        ("1,0 1,1", False, {}, ["person", "car"], 0),
        ("0,1 4,1", True, {}, ["car", "car"], 0),  # a frame 0, and no class 2 of 2
        ("1,1 2,1", True, {}, ["car", "car"], 1),  # only that there is no class 2
        ("1,1 2,1", True, {"first_class": "1"}, ["person", "person"], 0),
        ("1,1 2,2", True, {}, ["person", "car"], 0),
        ("0,1 2,2", True, {}, ["person", "car"], 0),  # class 2 can only be counted from 1
        ("1,1 2,1", False, {}, ["person", "person"], 0),  # labels.txt of CVAT
        ("0,1 2,1", False, {}, ["person", "person"], 1),
        ("0,1 2,1", False, {"first_class": "0"}, ["car", "car"], 0),
        ("0,1 2,3", None, {}, ["pedestrian", "car"], 1),  # the classes of MOTChallenge
        ("0,-1 2,-1", None, {}, ["pedestrian", "pedestrian"], 0),
    ],
)
def test_mot_classes_are_counted_from_0_or_1_as_the_rows_show(
    rows, explicit, options, names, doubts, tmp_path
):
    lines = [
        f"{frame},7,1,2,3,4,1,{number},1\n" for frame, number in (row.split(",") for row in rows.split())
    ]
    list_path = "names.txt" if explicit else "in/gt/labels.txt"
    files = {"in/gt/gt.txt": "".join(lines), **({} if explicit is None else {list_path: "person\ncar\n"})}
    lay(tmp_path, files)
    options |= {"classes": str(tmp_path / "names.txt")} if explicit else {}
    data, log = read(tmp_path / "in", "mot", **options)
    assert [data.categories.name[i] for i in data.boxes.category.tolist()] == names
    assert dict(log.counts) == ({"mot-class-numbers": 1} if doubts else {})


def test_labels_of_dota_are_read_beside_results_and_these_where_detections_are_wanted(tmp_path):
    row = "10 10 50 10 50 30 10 30"
    results = {f"Task1/Task1_{name}.txt": f"P1 0.5 {row}\n" for name in "abcdef"}
    lay(tmp_path, {"labelTxt/P1.txt": f"{row} a 0\n{row} b 0\n", **results})
    for kind in (None, "gt"):
        data, log = read(tmp_path, "dota", kind)
        assert (data.kind, len(data.boxes)) == ("gt", 2)
        assert [note for note in log.notes if "ignored: Task1/Task1_a.txt" in note and note.endswith(", ...")]
    assert read(tmp_path, "dota", "det")[0].boxes.score.tolist() == [0.5] * 6


def test_dont_care_survives_from_kitti_to_kitti(tmp_path):
    import odm

    path = lay(tmp_path, {"input/000000.txt": KITTI})
    ledger = odm.convert(path, tmp_path / "out", to="kitti")
    assert (ledger.read, ledger.written) == (3, 3)
    back, _ = read(tmp_path / "out", "kitti")
    assert back.boxes.flags.tolist() == [0, int(Flag.TRUNCATED), int(Flag.REGION)]


@pytest.mark.parametrize("given", ["", "wider_face_split", "wider_face_split/wider_face_train_bbx_gt.txt"])
def test_the_official_tree_of_wider_face_has_its_pictures(tmp_path, given):
    lay(
        tmp_path,
        {"input/wider_face_split/wider_face_train_bbx_gt.txt": "0--Parade/a.jpg\n1\n1 2 3 4 0 0 0 0 0 0 \n"},
    )
    folder = tmp_path / "input" / "WIDER_train" / "images" / "0--Parade"
    folder.mkdir(parents=True)
    Image.new("L", (64, 48)).save(folder / "a.jpg")
    data, log = read(tmp_path / "input" / given, "widerface")
    assert not list(map(str, log))
    assert (data.images.name, data.images.split) == (("0--Parade/a.jpg",), ("train",))
    assert (data.images.width.tolist(), data.images.height.tolist()) == ([64], [48])
    assert data.images.path[0].endswith("a.jpg")


@pytest.mark.parametrize(
    ("name", "options", "image", "category", "code"),
    [
        ("dota", {"results": True}, " a.jpg", "x", "bad-name"),
        ("dota", {"results": True}, "a .jpg", "x", "bad-name"),
        ("dota", {"results": True}, "a  b.jpg", "x", "bad-name"),
        ("dota", {"results": True}, "a 5.jpg", "x", "bad-name"),
        ("dota", {"results": True}, "a.jpg", "x/y", "unwritable-class"),
        ("dota", {"results": True}, "a.jpg", "x/", "unwritable-class"),
        ("icdar", {}, "a.jpg", "x,y", "unwritable-class"),
        ("icdar", {}, "a.jpg", " x", "unwritable-class"),
        ("widerface", {}, "a.jpg", "x.jpg", "unwritable-class"),
        ("widerface", {}, "1 2 3", "face", "bad-name"),
        ("widerface", {}, " a.jpg", "face", "bad-name"),
        ("fiftyone", {}, "..jpg", "x", "bad-name"),
        ("wheat", {}, "...jpg", "wheat", "bad-name"),
    ],
)
def test_names_that_would_not_be_read_back_are_not_written(tmp_path, name, options, image, category, code):
    dataset = Dataset.from_arrays(
        images=[image], width=[9], height=[9], categories=[category], image=[0], category=[0],
        xyxy=[[0, 0, 1, 1]], score=[0.5],
    )  # fmt: skip
    with pytest.raises(DataError) as raised:
        odm.write(dataset, tmp_path / "out", name, **options)
    assert code in raised.value.log.counts
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["<version>1.1</version>{}", "{}", "<x/>\n{}\n"])
def test_boxes_outside_the_images_of_cvat_are_counted(tmp_path, place):
    box = '<box label="cat" occluded="0" xtl="1" ytl="2" xbr="3" ybr="4" z_order="0"></box>'
    image = f'<image id="0" name="a.jpg" width="9" height="9">{box}</image>'
    (tmp_path / "a.xml").write_text(f"<annotations>{place.format(box)}{image}</annotations>")
    data = odm.read(tmp_path / "a.xml", "cvat")
    assert len(data.boxes) == 1
    assert data.extras == {"shapes outside an image": 1}


def test_one_image_twice_on_one_line_of_cvat(tmp_path):
    (tmp_path / "a.xml").write_text(
        "<annotations>" + '<image name="a" width="9" height="9"/>' * 2 + "</annotations>"
    )
    with pytest.raises(DataError) as raised:
        odm.read(tmp_path / "a.xml", "cvat")
    assert [i.code for i in raised.value.log] == ["duplicate-image"]


def test_automl_without_one_usable_image(tmp_path):
    (tmp_path / "a.csv").write_text("TRAIN,../a.jpg,x,0.1,0.1,,,0.2,0.3,,\n")
    with pytest.raises(DataError) as raised:
        odm.read(tmp_path / "a.csv", "automl")
    assert [i.code for i in raised.value.log] == ["bad-name"]


@pytest.mark.parametrize("names", [("a", "a.jpg"), ("a.jpg", "a")])
def test_vott_names_with_and_without_the_extension_of_one_picture(tmp_path, names):
    Image.new("RGB", (9, 9)).save(tmp_path / "a.jpg")
    rows = "".join(f'"{name}",1,2,3,4,"x"\n' for name in names)
    (tmp_path / "x-export.csv").write_text(f'"image","xmin","ymin","xmax","ymax","label"\n{rows}')
    assert odm.read(tmp_path, "vott").images.name == names


def test_icdar_results_without_a_confidence_take_one(tmp_path):
    lay(tmp_path, {"input/res_img_1.txt": "10,20,60,20,60,40,10,40\n"})
    with pytest.raises(DataError, match="1 error") as raised:
        odm.read(tmp_path / "input")
    assert "-O score=1" in str(raised.value.log.issues[0])
    data = odm.read(tmp_path / "input", score=0.5)
    assert (data.kind, data.boxes.score.tolist()) == ("det", [0.5])


@pytest.mark.parametrize(("name", "code"), [("gt_img_1", "score-missing"), ("img_1", "icdar-no-confidence")])
def test_icdar_detections_without_a_confidence_are_refused(name, code, tmp_path):
    """Files that are named as ground truth get no advice to set a confidence."""
    (tmp_path / f"{name}.txt").write_text("0,0,9,0,9,9,0,9,word\n")
    log = Log()
    with pytest.raises(DataError):
        odm.read(tmp_path, "icdar", kind="det", log=log)
    assert log.counts == {code: 1}


def test_icdar_is_written_in_both_styles(tmp_path):
    data = Dataset.from_arrays(
        images=["a/b.jpg"], width=[64], height=[48], categories=["text"], image=[0, 0], category=[0, 0],
        xyxy=[[1.5, 2, 30, 40], [0, 0, 9, 9]], flags=[0, int(Flag.CROWD)],
    )  # fmt: skip
    odm.write(data, tmp_path / "new", "icdar", round=True)
    text = "2,2,30,2,30,40,2,40,text\n0,0,9,0,9,9,0,9,###\n"
    assert (tmp_path / "new" / "a" / "gt_b.txt").read_text() == text
    odm.write(data, tmp_path / "old", "icdar", style="2013")
    assert (tmp_path / "old" / "a" / "gt_b.txt").read_text() == '1.5, 2, 30, 40, "text"\n0, 0, 9, 9, "###"\n'
    back = odm.read(tmp_path / "old", "icdar")
    assert back.boxes.flags.tolist() == [0, int(Flag.CROWD)]


@of_each(WRITTEN)
def test_boxes_that_reach_over_the_border_are_recognised(name, tmp_path):
    """All boxes leave their images by half a pixel, on one side or more: no sign of a format may ask for less."""
    data = Dataset.from_arrays(
        images=["a.jpg", "b.jpg"], width=[100] * 2, height=[80] * 2, categories=["face"], image=[0, 0, 1],
        category=[0] * 3, xyxy=[[-0.5, -0.5, 30, 40], [20, 30, 100.5, 80.5], [-0.5, 10, 100.5, 60]],
    )  # fmt: skip
    path = tmp_path / f"out{FORMATS[name].suffixes[0] if FORMATS[name].single else ''}"
    odm.write(data, path, name)
    assert detect(Source(str(path)), Log()).name == name


def test_a_quoted_class_of_dota_is_no_text_of_icdar(tmp_path):
    (tmp_path / "a.txt").write_text('10 10 20 10 20 20 10 20 "plane" 0\n30 10 40 10 40 20 30 20 "ship" 1\n')
    source = Source(str(tmp_path))
    assert FORMATS["icdar"].sniff(source) is None
    assert detect(source, Log()).name == "dota"


K = "-10 10 20 30 40"
COUNTED = {
    "bbgt": (
        ("% bbGt version=3\n"
        "person 10 20 30 40 0 0 0 0 0 0 0\nperson 10 20 30 40 1 0 0 9 0 0 0\nperson 10 20 30 40 0 1 0 0 0 1 45\n"
        "person 10 20 30 40 0 0 0 0 7 0 -45\n"),
        {"visible parts": 3, "angles": 2},
    ),
    "kitti": (
        (f"Car 0.00 0 {K} -1 -1 -1 -1000 -1000 -1000 -10\nCar 0.50 1 {K} -1 -1 -1 -1000 -1000 -1000 -10\n"
        f"Car 1.00 2 {K} 1.5 1.6 3.9 1 2 30 0.1\nCar -1 3 {K} 1.5 1.6 0 1 2 30 0.1\n"),
        {"degrees of truncation": 1, "degrees of occlusion": 2, "3D boxes": 1},
    ),
    "mot": (
        "".join(f"{i},1,10,20,30,40,1,1,{v}\n" for i, v in enumerate((1, 0.5, 0, -1), 1)),
        {"visibility": 2},
    ),
    "visdrone": (
        "".join(f"10,20,30,40,1,4,{t},{o}\n" for t, o in ((0, 0), (1, 1), (0, 2), (1, 2), (0, 1))),
        {"degrees of occlusion": 2},
    ),
    "paddleocr": (
        "a.jpg\t"
        + json.dumps(
            [
                {"transcription": t, "points": [[10, 20], [50, 20], [50, 40], [10, 40]]}
                for t in ("word", "###", "*", "", "two words")
            ]
        ),
        {"transcriptions": 2},
    ),
    "icdar": (
        "10,10,50,10,50,30,10,30,Genaxis\n10,10,50,10,50,30,10,30,###\n60,10,90,10,90,30,60,30,Theatre\n",
        {"transcriptions": 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_what_no_table_has_is_counted_by_objects(tmp_path, name):
    text, expected = COUNTED[name]
    file = {"mot": "v/gt/gt.txt", "icdar": "gt_img_1.txt"}.get(name, "a.txt")
    lay(tmp_path, {file: text})
    data = odm.read(tmp_path, name, kind="gt")
    assert data.extras == expected
