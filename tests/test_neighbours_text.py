"""Text, XML and CSV of the neighbours: files as their own tools write them, quirks, and damaged input."""

import random
from pathlib import Path

import numpy as np
import pytest
from neighbours import lay, read, seen
from PIL import Image
from selection import examples

import odm
from odm import checks
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

CASES = {
    "cvat-tracks": ("cvat", {"input.xml": TRACKS}, [("frame_000000", "car", 1.5, 2, 30, 40)], [Flag.OCCLUDED]),
    "cvat-skeletons": ("cvat", {"input.xml": SKELETONS}, [("frame_000000", "car", 1.5, 2, 30, 40)], [Flag.OCCLUDED]),
    "cvat-shapes": (
        "cvat",
        {"input.xml": SHAPES},
        [("a.jpg", "x", 1, 2, 30, 60), ("a.jpg", "x", 40, 35, 60, 45), ("a.jpg", "x", 3, 4, 13, 24),
         ("a.jpg", "x", 45, 35, 55, 55)],
        [0, 0, 0, 0],
    ),
    "kitti-devkit": (
        "kitti",
        {"input/label_2/000000.txt": KITTI, "input/label_2/000001.txt": ""},
        [("000000", "Pedestrian", 712.40, 143, 810.73, 307.92), ("000000", "Car", 0, 192.37, 402.31, 374),
         ("000000", "DontCare", 800.38, 163.67, 825.45, 184.07)],
        [0, Flag.TRUNCATED, Flag.CROWD],
    ),
    "visdrone-trailing-commas": (
        "visdrone",
        {"input/annotations/0000002.txt": "684,8,273,116,0,0,0,0,\n406,119,265,70,0,11,0,0,\n255,22,119,128,1,4,1,2,\n"},
        [("0000002", "ignored regions", 684, 8, 957, 124), ("0000002", "others", 406, 119, 671, 189),
         ("0000002", "car", 255, 22, 374, 150)],
        [Flag.CROWD, Flag.CROWD, Flag.TRUNCATED | Flag.OCCLUDED],
    ),
    "widerface-official": (
        "widerface",
        {"input/wider_face_train_bbx_gt.txt": WIDER, "input/readme.txt": "x\n"},
        [("0--Parade/a.jpg", "face", 449, 330, 571, 479), ("0--Parade/c.jpg", "face", 78, 221, 85, 229),
         ("0--Parade/c.jpg", "face", 78, 238, 92, 255)],
        [0, Flag.CROWD, Flag.OCCLUDED],
    ),
    "widerface-results": (
        "widerface",
        {"input/0--Parade/a.txt": "a\n1\n10 20 30 40 0.9\n", "input/0--Parade/b.txt": "b\n0\n"},
        [("0--Parade/a", "face", 10, 20, 40, 60)],
        [0],
    ),
    "dota-official": (
        "dota",
        {"input/labelTxt/P0001.txt": DOTA},
        [("P0001", "small-vehicle", 10, 20, 110, 220), ("P0001", "plane", 10, 20, 110, 120)],
        [Flag.DIFFICULT, 0],
    ),
    "dota-roboflow": (
        "dota",
        {
            "input/data.yaml": "train: ../train/images\nnc: 2\nnames: [plane, small-vehicle]\n",
            "input/train/labelTxt/a.txt": "60 20 110 70 60 120 10 70 plane 0\n",
            "input/valid/labelTxt/b.txt": "10 20 110 20 110 220 10 220 small-vehicle 0\n",
        },
        [("train/a", "plane", 10, 20, 110, 120), ("valid/b", "small-vehicle", 10, 20, 110, 220)],
        [0, 0],
    ),
    "dota-task1": (
        "dota",
        {"input/Task1_plane.txt": "P0001 0.9 60 20 110 70 60 120 10 70\n"},
        [("P0001", "plane", 10, 20, 110, 120)],
        [0],
    ),
    "icdar-2015": (
        "icdar",
        {
            "input/gt_img_1.txt": "\ufeff377,117,463,117,465,130,378,130,Genaxis Theatre\r\n10,20,60,20,60,40,10,40,$1,000\r\n"
            "374,155,409,155,409,170,374,170,###\r\n",
            "input/gt_img_2.txt": "\ufeff",
        },
        [("img_1", "text", 377, 117, 465, 130), ("img_1", "text", 10, 20, 60, 40), ("img_1", "text", 374, 155, 409, 170)],
        [0, 0, Flag.CROWD],
    ),
    "icdar-2015-results": (
        "icdar",
        {"input/res_img_1.txt": "377,117,463,117,463,130,377,130,0.9\n10,20,60,20,60,40,10,40,1,to\n"},
        [("img_1", "text", 377, 117, 463, 130), ("img_1", "text", 10, 20, 60, 40)],
        [0, 0],
    ),
    "icdar-2013-blanks": (
        "icdar",
        {"input/gt_100.txt": '158 128 411 181 "Footpath"\n64 200 363 243 "Colchester and"\n10 10 20 20 "###"\n'},
        [("100", "text", 158, 128, 411, 181), ("100", "text", 64, 200, 363, 243), ("100", "text", 10, 10, 20, 20)],
        [0, 0, Flag.CROWD],
    ),
    "icdar-2013-results": (
        "icdar",
        {"input/res_img_1.txt": "158,128,411,181,0.5\n443,128,501,169,0.25\n"},
        [("img_1", "text", 158, 128, 411, 181), ("img_1", "text", 443, 128, 501, 169)],
        [0, 0],
    ),
    "icdar-mlt": (
        "icdar",
        {"input/gt_img_1.txt": "1,2,9,2,9,5,1,5,Latin,Hotel, Bar\n1,7,9,7,9,9,1,9,None,###\n1,12,9,12,9,19,1,19,Arabic,7\n"},
        [("img_1", "Latin", 1, 2, 9, 5), ("img_1", "None", 1, 7, 9, 9), ("img_1", "Arabic", 1, 12, 9, 19)],
        [0, Flag.CROWD, 0],
    ),
    "icdar-mlt-results": (
        "icdar",
        {"input/res_img_1.txt": "1,2,9,2,9,5,1,5,0.9,Latin\n1,7,9,7,9,9,1,9,0.8,Bangla\n"},
        [("img_1", "Latin", 1, 2, 9, 5), ("img_1", "Bangla", 1, 7, 9, 9)],
        [0, 0],
    ),
    "icdar-rctw": (
        "icdar",
        {"input/image_0.txt": '1,2,9,2,9,5,1,5,0,"a,b"\n1,7,9,7,9,9,1,9,1,"###"\n'},
        [("image_0", "text", 1, 2, 9, 5), ("image_0", "text", 1, 7, 9, 9)],
        [0, Flag.DIFFICULT | Flag.CROWD],
    ),
    "icdar-one-class": (
        "icdar",
        {"input/gt/gt_img_1.txt": "1,2,9,2,9,5,1,5,25\n1,7,9,7,9,9,1,9,0\n", "input/classes.txt": "digits\n"},
        [("img_1", "digits", 1, 2, 9, 5), ("img_1", "digits", 1, 7, 9, 9)],
        [0, 0],
    ),
    "mot-gt": (
        "mot",
        {"input/gt/gt.txt": "1,1,912,484,97,109,0,7,1\n2,1,912.5,484,97,109,1,1,0.86014\n", "input/seqinfo.ini": INI},
        [("000001.jpg", "static person", 912, 484, 1009, 593), ("000002.jpg", "pedestrian", 912.5, 484, 1009.5, 593)],
        [Flag.CROWD, 0],
    ),
    "mot-cvat": (
        "mot",
        {"input/gt/gt.txt": "1,1,10,20,30,40,1,2,1.0\n", "input/gt/labels.txt": "cat\ndog\n"},
        [("000001", "dog", 10, 20, 40, 60)],
        [0],
    ),
    "mot-det": (
        "mot",
        {"input/det/det.txt": "1,-1,1359.1,413.27,120.26,362.77,2.3092,-1,-1,-1\n", "input/seqinfo.ini": INI},
        [("000001.jpg", "pedestrian", 1359.1, 413.27, 1359.1 + 120.26, 413.27 + 362.77)],
        [0],
    ),
    "wheat-train": (
        "wheat",
        {"train.csv": 'image_id,width,height,bbox,source\nb6,1024,1024,"[834.0, 222.0, 56.0, 36.0]",usask_1\n'},
        [("b6", "wheat", 834, 222, 890, 258)],
        [0],
    ),
    "wheat-submission": (
        "wheat",
        {"submission.csv": "image_id,PredictionString\na,0.9 1 2 3 4 0.5 5 6 7 8\nb,\n"},
        [("a", "wheat", 1, 2, 4, 6), ("a", "wheat", 5, 6, 12, 14)],
        [0, 0],
    ),
    "vott-export": (
        "vott",
        {"x-export.csv": '"image","xmin","ymin","xmax","ymax","label"\n"a b.jpg",10.25,20,30,40,"say ""x"""\n'},
        [("a b.jpg", 'say "x"', 10.25, 20, 30, 40)],
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


def test_dont_care_survives_from_kitti_to_kitti(tmp_path):
    import odm

    path = lay(tmp_path, {"input/000000.txt": KITTI})
    ledger = odm.convert(path, tmp_path / "out", to="kitti")
    assert (ledger.read, ledger.written) == (3, 3)
    back, _ = read(tmp_path / "out", "kitti")
    assert back.boxes.flags.tolist() == [0, int(Flag.TRUNCATED), int(Flag.CROWD)]


def mutations(data, n, seed):
    """Damaged copies: bytes lost, doubled, exchanged, or the end cut."""
    random_ = random.Random(seed)
    junk = [
        b"",
        b"\0",
        b",",
        b"\n",
        b" ",
        b"-1",
        b"nan",
        b"1e999",
        b"\xff",
        b'"',
        b"<",
        b"&",
        b"9" * 400,
        b"\xe2\x80\xa8",
    ]
    for _ in range(n):
        copy = bytearray(data)
        for _ in range(random_.randint(1, 4)):
            at = random_.randrange(len(copy) + 1)
            copy[at : at + random_.randint(0, 6)] = random_.choice(junk)
        yield bytes(copy[: random_.randrange(len(copy) + 1)] if random_.random() < 0.2 else copy)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["gt", "det"])
def test_damaged_input_never_raises(name, kind, tmp_path):
    folder = MIXED / (name if kind == "gt" else f"{name}-detections")
    top = next(p for p in sorted(folder.iterdir()) if p.name.startswith("input"))
    sources = [top] if top.is_file() else [p for p in sorted(top.rglob("*")) if p.is_file()]
    options = {"image_size": "640x480"} if name == "automl" else {}
    for number, source in enumerate(sources):
        location = tmp_path / str(number) / (source.relative_to(top) if top.is_dir() else source.name)
        for other in sources:
            copy = tmp_path / str(number) / (other.relative_to(top) if top.is_dir() else other.name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(other.read_bytes())
        for damaged in mutations(source.read_bytes(), examples(20), f"{name}{kind}{number}"):
            location.write_bytes(damaged)
            path = location if top.is_file() else tmp_path / str(number)
            for format_ in NAMES:
                FORMATS[format_].sniff(Source(str(path)))
            data, log = read(path, name, kind, **options)
            checks.run(data, log)
            assert data.skipped == 0 or log.errors


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
