"""CSV: every dialect reads to the same tables, faults have their place, and fast and slow reading agree."""

import functools
import json
import random
import string
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import one_format
import pytest
from cost import cost
from hypothesis import HealthCheck, example, given, settings
from selection import examples, of_each, params, turns

import odm
from odm.converters.image_labels import read_image_labels
from odm.files import Source
from odm.formats import csv, detect, make_options
from odm.formats.csv import layouts as csv_layouts
from odm.formats.csv import reader as csv_reader
from odm.formats.csv import reader as csv_records
from odm.issues import DataError, Log, UsageError
from odm.names import refuse_class, stem
from odm.tables import Dataset, Flag, ShapeKind

FIXTURES = Path(__file__).parent.parent / "fixtures"
MIXED = sorted(p for p in (FIXTURES / "mixed").glob("csv*"))
BAD = sorted((FIXTURES / "bad" / "csv").iterdir())
HEAD = ",".join(csv_layouts.CANONICAL)
OPEN_IMAGES = ",".join(csv_layouts.OPEN_IMAGES)


read, write = (functools.partial(one, name="csv") for one in (one_format.read, one_format.write))


def read_text(tmp_path, text, name="a.csv", **options):
    path = Path(tmp_path, name)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(path, **options)


@pytest.mark.parametrize(("row", "codes"), [
    ("none,0.5,,,,", ["incomplete-box"]), ("none,,,,,", []), (",0.5,,,,", ["incomplete-box"]), (",,,,,", []),
    ("x,,,,,", ["incomplete-box"]), ("none,0.5,1,2,3,", ["incomplete-box"]),
])  # fmt: skip
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_an_image_without_objects_has_no_score(row, codes, suffix, tmp_path):
    text = f"image,class,score,left,top,right,bottom\na.jpg,x,0.5,1,2,3,4\nb.jpg,{row}\n"
    data, log = read_text(tmp_path, text.replace(",", "\t") if suffix == "tsv" else text, f"a.{suffix}")
    assert list(log.counts) == codes
    assert len(data) == 1


def case_of(folder):
    case = json.loads((folder / "case.json").read_text()) if (folder / "case.json").exists() else {}
    (entry,) = (p for p in folder.iterdir() if p.name != "case.json")
    return entry, case


def rows(dataset, *, flags=True, names=True):
    b = dataset.boxes
    return [
        (
            dataset.images.name[b.image[i]] if names else stem(dataset.images.name[b.image[i]]),
            dataset.categories.name[b.category[i]],
            None if np.isnan(b.score[i]) else float(b.score[i]),
            int(b.flags[i]) if flags else 0,
            *b.xyxy[i].tolist(),
        )
        for i in range(len(b))
    ]


def same_tables(one, two, *, exact=True):
    assert one.kind == two.kind
    assert one.images.name == two.images.name
    assert one.images.width.tolist() == two.images.width.tolist()
    assert one.images.height.tolist() == two.images.height.tolist()
    assert one.images.line.tolist() == two.images.line.tolist()
    assert one.categories.name == two.categories.name
    assert one.extras == two.extras
    assert one.skipped == two.skipped
    for name in ("image", "category", "xyxy", "wh", "score", "flags", "line", "file"):
        first, second = getattr(one.boxes, name), getattr(two.boxes, name)
        assert exact
        np.testing.assert_array_equal(first, second, err_msg=name)


# ------------------------------------------------------------------------------------------- fixtures


@pytest.mark.parametrize("folder", MIXED, ids=lambda p: p.name)
def test_every_dialect_reads_to_the_same_tables(folder):
    entry, case = case_of(folder)
    dataset, log = read(entry, **case.get("options", {}))
    assert [str(i) for i in log] == []
    assert dataset.kind == case["kind"]
    reference, _ = read(
        FIXTURES / "mixed" / ("csv" if dataset.kind == "gt" else "csv-detections") / "input.csv"
    )
    has_flags = bool(dataset.boxes.flags.any())
    ours, theirs = rows(dataset, flags=has_flags), rows(reference, flags=has_flags)
    if folder.name == "csv-synonyms":
        theirs = [(*r[:3], r[3] & Flag.DIFFICULT, *r[4:]) for r in theirs]
    if "openimages" in folder.name:
        theirs = [(*r[:3], r[3] & ~Flag.DIFFICULT, *r[4:]) for r in theirs]
    assert [r[:4] for r in ours] == [r[:4] for r in theirs]
    np.testing.assert_allclose([r[4:] for r in ours], [r[4:] for r in theirs], rtol=0, atol=1e-9)
    assert dataset.categories.name == ("person", "traffic light", "007")
    assert set(dataset.images.name) >= {"street.jpg", "yard.png"}
    if "columns" not in case.get("options", {}):
        assert detect(Source(str(entry)), Log(), among=("csv",)).name == "csv"


NO_FIELD = (
    "header-missing",
    "mixed-decimal-marks",
    "doubtful-comma",
    "bad-class-list",
    "not-utf8",
    "wrong-count-more",
)


@of_each([folder for folder in BAD if not folder.name.startswith(NO_FIELD)])
def test_faults_name_their_column(folder):
    entry, case = case_of(folder)
    _, log = read(entry, kind=case.get("kind"), **case.get("options", {}))
    assert log.issues[0].field


# -------------------------------------------------------------------------------------------- reading


def test_nothing_is_guessed_into_another_type(tmp_path):
    words = ["00012", "NA", "null", "true", "1.0", "nan", "1e5", "", "None", "-", "0x1F", "TRUE", "1_000"]
    lines = [f"{w or 'x'},9,9,{w or 'y'},,1,2,3,4,0,0,0,0,0" for w in words]
    dataset, log = read_text(tmp_path, "\n".join([HEAD, *lines]))
    assert not log.counts
    assert dataset.images.name == tuple(w or "x" for w in words)
    assert dataset.categories.name == tuple(w or "y" for w in words)
    assert not write(dataset, tmp_path / "b.csv").counts
    again, _ = read(tmp_path / "b.csv")
    assert rows(again) == rows(dataset)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n", "\n\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("sep", [",", ";", "\t"])
def test_line_ends_marks_and_separators(tmp_path, end, mark, sep):
    text = mark + end.join([HEAD, "a.jpg,640,480,cat,,1,2,3.5,4,1,0,0,0,0", "b.jpg,,,,,,,,,,,,,"]).replace(
        ",", sep
    )
    for ending in ("", end):
        dataset, log = read_text(tmp_path, text + ending)
        assert not log.counts
        assert rows(dataset) == [("a.jpg", "cat", None, 2, 1.0, 2.0, 3.5, 4.0)]
        assert dataset.images.name == ("a.jpg", "b.jpg")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_marked_encodings(tmp_path, encoding):
    dataset, log = read_text(tmp_path, f"{HEAD}\nö.jpg,6,4,Straße,,1,2,3,4,0,0,0,0,0\n".encode(encoding))
    assert not log.counts
    assert dataset.categories.name == ("Straße",)
    assert bool(log.notes) == (encoding != "utf-8-sig")


def test_blank_after_separators_goes_where_the_header_has_it(tmp_path):
    dataset, log = read_text(
        tmp_path,
        'filename, class, xmin, ymin, xmax, ymax\na.jpg, cat, 1, 2, 30, 40\nb.jpg, "a, b", 1, 2, 30, 40\n',
    )
    assert not log.counts
    assert dataset.categories.name == ("cat", "a, b")
    dataset, _ = read_text(tmp_path, "filename,class,xmin,ymin,xmax,ymax\na.jpg, cat,1,2,30,40\n")
    assert dataset.categories.name == (" cat",)


def test_spreadsheet_separator_line_and_empty_columns(tmp_path):
    dataset, log = read_text(
        tmp_path, "sep=;\nfilename;class;xmin;ymin;xmax;ymax;;\na.jpg;cat;1;2;30;40;;\n;;;;;;;\n"
    )
    assert not log.counts
    assert len(dataset) == 1
    assert dataset.boxes.line.tolist() == [3]
    assert dataset.skipped == 0


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("image,class,left,top,right,bottom", "a.jpg,cat,1,2,30,40"),
        ("FileName,Label,XMin,YMin,XMax,YMax", "a.jpg,cat,1,2,30,40"),
        ("image_path;class name;x1;y1;x2;y2", "a.jpg;cat;1;2;30;40"),
        ("x0,y0,x1,y1,file,category", "1,2,30,40,a.jpg,cat"),
        ("img,label_name,bbox_x1,bbox_y1,bbox_x2,bbox_y2", "a.jpg,cat,1,2,30,40"),
        ("image_id,name,bbox_x,bbox_y,bbox_w,bbox_h", "a.jpg,cat,1,2,29,38"),
        ("filename,class,left,top,box_width,box_height", "a.jpg,cat,1,2,29,38"),
        ("filename,class,center_x,center_y,box_width,box_height", "a.jpg,cat,15.5,21,29,38"),
        (
            "label_name,bbox_x,bbox_y,bbox_width,bbox_height,image_name,image_width,image_height",
            "cat,1,2,29,38,a.jpg,640,480",
        ),
        ("image,label,left,top,width,height", "a.jpg,cat,1,2,29,38"),
        ("image,label,left,width,top,height", "a.jpg,cat,1,29,2,38"),
        ("image,label,x1,y1,w,h", "a.jpg,cat,1,2,29,38"),
        ("image,label,x0,y0,width,height", "a.jpg,cat,1,2,29,38"),
        ("image,label,x_min,y_min,width,height", "a.jpg,cat,1,2,29,38"),
        ("image,label,Top Left X,Top Left Y,w,h", "a.jpg,cat,1,2,29,38"),
        ("image,label,bbox_left,bbox_top,width,height,img_width,img_height", "a.jpg,cat,1,2,29,38,640,480"),
        ("image,width,height,label,xmin,ymin,w,h", "a.jpg,640,480,cat,1,2,29,38"),
        ("image,label,x,y,bbox_x,bbox_y,bbox_w,bbox_h", "a.jpg,cat,7,8,1,2,29,38"),
    ],
)
def test_usual_column_names(tmp_path, header, row):
    dataset, log = read_text(tmp_path, f"{header}\n{row}\n")
    assert not log.counts, list(log)
    assert rows(dataset) == [("a.jpg", "cat", None, 0, 1.0, 2.0, 30.0, 40.0)]
    assert dataset.boxes.wh.tolist() == [[29.0, 38.0]]


@pytest.mark.parametrize(
    "header",
    [
        "image,class,xmin,ymin,bw,bh",
        "image,class,xmin,ymin,xmax,width,height",
        "epoch,loss,map",
        "image,width,height",
    ],
)
def test_headers_that_do_not_say_enough_are_refused(tmp_path, header):
    text = header + "\n" + ",".join(["1"] * len(header.split(","))) + "\n"
    dataset, log = read_text(tmp_path, text)
    assert set(log.counts) == {"header-missing" if header.startswith("epoch") else "missing-column"}
    assert not len(dataset)
    sniffed = csv.sniff(Source(str(tmp_path / "a.csv")))
    assert (sniffed is not None) == header.startswith("image,class")  # so that the message names the option


SHAPES = [
    (
        "img_fName,img_lName,class_label,bbx_xtl,bbx_ytl,bbx_xbr,bbx_ybr\na.jpg,z,car,1,2,30,40\n",
        (1, 2, 30, 40),
        "car",
    ),
    (
        "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\na.jpg;90;80;1;2;30;40;7\n",
        (1, 2, 30, 40),
        "7",
    ),
    ("frame,xmin,xmax,ymin,ymax,class_id\na.jpg,1,30,2,40,5\n", (1, 2, 30, 40), "5"),
    ("image,x,y,w,h,label\na.jpg,1,2,29,38,car\n", (1, 2, 30, 40), "car"),
    ("image,label,x,y,width,height\na.jpg,car,1,2,29,38\n", (1, 2, 30, 40), "car"),
    ("image,label,x_center,y_center,width,height\na.jpg,car,10,20,4,8\n", (8, 16, 12, 24), "car"),
    ('image,label,bbox\na.jpg,car,"[1, 2, 30, 40]"\n', (1, 2, 30, 40), "car"),
    ('image,label,bbox\na.jpg,car,"[30, 40, 9, 8]"\n', (30, 40, 39, 48), "car"),
    ("a.jpg,1,2,30,40,object,90,80\nb.jpg,3,4,5,6,object,9,8\n", (1, 2, 30, 40), "object"),
    ("car,1,2,29,38,a.jpg,90,80\nbus,3,4,5,6,b.jpg,9,8\n", (1, 2, 30, 40), "car"),
    (
        "image_id,class_name,rad_id,x_min,y_min,x_max,y_max\na.jpg,car,R1,1,2,30,40\nb,No finding,R2,,,,\n",
        (1, 2, 30, 40),
        "car",
    ),
]


@pytest.mark.parametrize(("text", "corners", "name"), SHAPES, ids=range(len(SHAPES)))
def test_tables_of_other_tools_need_no_option(tmp_path, text, corners, name):
    path = tmp_path / "a.csv"
    path.write_text(text)
    assert csv.sniff(Source(str(path))) is not None
    dataset, log = read_text(tmp_path, text)
    assert not log.errors, list(log)
    assert tuple(dataset.boxes.xyxy[0].tolist()) == corners
    assert dataset.images.name[0] == "a.jpg"
    assert dataset.categories.name[dataset.boxes.category[0]] == name
    if name == "car" and "No finding" in text:
        assert (len(dataset), len(dataset.images), dataset.categories.name) == (1, 2, ("car",))


@pytest.mark.parametrize(
    "text",
    [
        "filename,cell_type,xmin,xmax,ymin,ymax\nB_1.jpg,RBC,68,165,154,249\n",
        "patientId,x,y,width,height,Target\nq,1,2,3,4,1\n",  # 1 says that the row has a box
    ],
)
def test_a_row_without_numbers_is_a_header_and_the_message_names_the_option(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    assert csv.sniff(Source(str(tmp_path / "a.csv"))) is not None
    _, log = read_text(tmp_path, text)
    assert set(log.counts) == {"missing-column"}
    column = "cell_type" if "cell" in text else "NAME"
    assert f"-O columns=class:{column}" in str(log.issues[0])
    dataset, log = read_text(tmp_path, text, columns="class:=thing")
    assert not log.errors
    assert dataset.categories.name == ("thing",)


def test_the_column_of_the_boxes_is_not_suggested_as_that_of_the_class(tmp_path):
    cell = '"[{""x"": 1, ""y"": 2, ""width"": 3, ""height"": 4}]"'
    for cells in (cell, '"[[1, 2, 3, 4]]"'):
        _, log = read_text(tmp_path, f"image,annotations\na.jpg,{cells}\n")
        texts = [str(issue) for issue in log]
        assert any("[class]" in text for text in texts), texts
        assert not any("is it" in text for text in texts), texts


def test_missing_columns_name_what_was_found_and_the_nearest(tmp_path):
    _, log = read_text(tmp_path, "filename,width,height,clas,xmin,ymin,xmax,ymx\na,1,1,b,1,2,3,4\n")
    texts = [str(i) for i in log]
    assert len(texts) == 2
    assert "[class]" in texts[0]
    assert "is it 'clas'?" in texts[0]
    assert "filename, width, height" in texts[0]
    assert "is it 'ymx'?" in texts[1]
    assert ":1: error" in texts[0]


def test_advice_for_a_table_without_right_and_bottom_names_the_width_too(tmp_path):
    text = "image,label,left,top,bw,bh\na.jpg,cat,1,2,3,4\n"
    _, log = read_text(tmp_path, text)
    assert "-O columns=right:NAME,bottom:NAME, or box_width:NAME,box_height:NAME" in str(*log)
    for columns in ({"box_width": "bw", "box_height": "bh"}, {"left": "left", "top": "top"}):
        names = "bw,bh" if "box_width" in columns else "width,height"
        dataset, log = read_text(tmp_path, text.replace("bw,bh", names), columns=columns)
        assert dataset.boxes.xyxy.tolist() == [[1, 2, 4, 6]], list(log)


@pytest.mark.parametrize(
    "cells",
    [
        """[{'x': 1, 'y': 2, 'width': 3, 'height': 4}, {'x': 5, 'y': 6, 'width': 7, 'height': 8.5}]""",
        """[{""xmin"": 1, ""ymin"": 2, ""xmax"": 4, ""ymax"": 6}, {""xmin"": 5, ""ymin"": 6, ""xmax"": 12, ""ymax"": 14.5}]""",
        """[[1, 2, 4, 6], [5, 6, 12, 14.5]]""",
        """[(1, 2, 4, 6), (5, 6, 12, 14.5)]""",
    ],
)  # fmt: skip
def test_a_cell_may_hold_a_list_of_boxes(tmp_path, cells):
    text = f'image,width,height,boxes\nb.jpg,90,80,[]\na.jpg,90,80,"{cells}"\n'
    dataset, log = read_text(tmp_path, text, columns={"class": "=cat"})
    assert not log.counts, list(log)
    assert dataset.boxes.xyxy.tolist() == [[1, 2, 4, 6], [5, 6, 12, 14.5]]
    assert (dataset.images.name, dataset.images.width.tolist()) == (("b.jpg", "a.jpg"), [90, 90])
    dataset, log = read_text(tmp_path, text + 'c.jpg,9,9,"[7]"\n', columns={"class": "=cat"})
    assert dict(log.counts) == {"wrong-count": 1}
    assert "a.csv:4" in str(*log)


def test_columns_option(tmp_path):
    text = "frame,x0,y0,w,h\nf1,1,2,3,4\n"
    dataset, log = read_text(
        tmp_path, text, columns="image:frame,left:x0,top:y0,box_width:w,box_height:h,class:=wheat head"
    )
    assert not log.counts
    assert rows(dataset) == [("f1", "wheat head", None, 0, 1.0, 2.0, 4.0, 6.0)]
    with pytest.raises(UsageError, match=r"no role 'lef'.*left"):
        make_options(csv.FORMAT, {"columns": "lef:x0"})
    with pytest.raises(UsageError):
        read_text(tmp_path, text, columns={"lef": "x0"})
    with pytest.raises(UsageError):
        make_options(csv.FORMAT, {"sep": "ab"})


def test_a_header_of_unknown_names_is_answered_with_the_option_for_them(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,c,d,e,f\nx.jpg,car,1,2,30,40\ny.jpg,,,,,\nx.jpg,car,1,2,3,4\n")
    with pytest.raises(DataError) as raised:
        odm.read(tmp_path / "a.csv")
    assert {issue.code for issue in raised.value.log} == {"missing-column"}
    assert all("-O columns=" in issue.message for issue in raised.value.log)
    (tmp_path / "notes.csv").write_text("a,b,c,d,e,f\nx.jpg,car,1,2,x,y\n")
    with pytest.raises(UsageError, match="no format recognises"):
        odm.read(tmp_path / "notes.csv")
    columns = "image:a,class:b,left:c,top:d,right:e,bottom:f"
    assert odm.read(tmp_path / "a.csv", columns=columns).categories.name == ("car",)


def test_told_separator(tmp_path):
    dataset, log = read_text(tmp_path, "filename|class|xmin|ymin|xmax|ymax\na|b,c|1|2|30|40\n", sep="|")
    assert not log.counts
    assert dataset.categories.name == ("b,c",)


def test_decimal_commas(tmp_path):
    dataset, log = read_text(tmp_path, 'filename,class,xmin,ymin,xmax,ymax\na,b,"1,5",2,"30,25",40\n')
    assert not log.counts
    assert dataset.boxes.xyxy.tolist() == [[1.5, 2, 30.25, 40]]
    assert any("decimal commas" in note for note in log.notes)
    text = 'filename,class,xmin,ymin,xmax,ymax\na,b,"1,024",2,"1,280",40\n'
    _, log = read_text(tmp_path, text)
    assert set(log.counts) == {"doubtful-comma"}
    dataset, log = read_text(tmp_path, text, decimal="comma")
    assert not log.counts
    assert dataset.boxes.xyxy[0, 0] == 1.024
    _, log = read_text(tmp_path, text, decimal="point")
    assert log.counts == {"not-a-number": 2}


def test_mixed_decimal_marks_name_both_lines(tmp_path):
    _, log = read_text(
        tmp_path, 'filename,class,xmin,ymin,xmax,ymax\na,b,1.5,2,30,40\na,b,1,2,30,40\na,b,"1,5",2,30,40\n'
    )
    (issue,) = log
    assert issue.line == 4
    assert "line 2 has a decimal point" in issue.message


def test_tfod_relative_or_pixels(tmp_path):
    head = ",".join(csv_layouts.TFOD) + "\n"
    relative = head + "a.jpg,200,100,cat,0.1,0.2,0.5,1.0\n"
    dataset, log = read_text(tmp_path, relative)
    assert dataset.boxes.xyxy.tolist() == [[20, 20, 100, 100]]
    assert any("relative" in note and "coords abs" in note for note in log.notes)
    dataset, _ = read_text(tmp_path, relative, coords="abs")
    assert dataset.boxes.xyxy.tolist() == [[0.1, 0.2, 0.5, 1.0]]
    # a box that hangs over the edge does not turn the rest into pixels
    dataset, log = read_text(tmp_path, relative + "a.jpg,200,100,cat,0.1,0.2,1.01,0.5\n")
    assert not log.counts
    assert dataset.boxes.xyxy[1, 2] == 202
    # nor do pixels that are few turn into anything else
    dataset, log = read_text(tmp_path, head + "a.jpg,200,100,cat,0,0,1,1\na.jpg,200,100,cat,5,5,10,10\n")
    assert not log.counts
    assert dataset.boxes.xyxy.tolist() == [[0, 0, 1, 1], [5, 5, 10, 10]]


def test_open_images_flags_ids_and_sizes(tmp_path):
    text = (
        OPEN_IMAGES
        + "\n0a1,xclick,/m/1,1,0.25,0.5,0.1,0.2,1,0,1,-1,1\n0b2,xclick,/m/2,0.7,0,1,0,1,0,1,0,1,0\n"
    )
    dataset, log = read_text(tmp_path, text, image_size="100x200")
    assert not log.counts
    assert dataset.kind == "gt"
    assert np.isnan(dataset.boxes.score).all()
    assert dataset.boxes.xyxy.tolist() == [[25, 20, 50, 40], [0, 0, 100, 200]]
    assert [Flag(int(f)) for f in dataset.boxes.flags] == [
        Flag.OCCLUDED | Flag.GROUP_OF | Flag.INSIDE,
        Flag.TRUNCATED | Flag.DEPICTION,
    ]
    assert dataset.extras == {"Source": 2, "Confidence": 2}
    assert any("Confidence is not a score" in note for note in log.notes)
    (tmp_path / "names.csv").write_text('LabelName,DisplayName\n/m/1,Cat\n/m/2,"Dog, big"\n')
    dataset, log = read_text(tmp_path, text, image_size="100x200", classes=str(tmp_path / "names.csv"))
    assert dataset.categories.name == ("Cat", "Dog, big")
    dataset, log = read_text(tmp_path, text)  # no size is known, so coordinates stay fractions
    assert dataset.relative
    assert not log.counts
    assert dataset.boxes.xyxy.tolist() == [[0.25, 0.1, 0.5, 0.2], [0, 0, 1, 1]]
    write(dataset, tmp_path / "again.csv", dialect="openimages")
    assert rows(read(tmp_path / "again.csv")[0]) == rows(dataset)
    (tmp_path / "sizes.csv").write_text("0a1.jpg,100,200\n0b2,100,200\n")
    dataset, log = read_text(tmp_path, text, image_sizes=str(tmp_path / "sizes.csv"))
    assert not log.counts
    assert dataset.images.width.tolist() == [100, 100]


def test_sizes_come_from_the_other_side(tmp_path):
    other = Dataset.from_arrays(
        images=["a.jpg"],
        categories=["x"],
        width=[100],
        height=[200],
        image=[0],
        category=[0],
        xyxy=[[0, 0, 1, 1]],
    )
    dataset, log = read_text(
        tmp_path,
        "ImageID,LabelName,Score,XMin,XMax,YMin,YMax\na,x,0.5,0.1,0.2,0.1,0.2\n",
        other=other,
    )
    assert not log.counts
    assert dataset.kind == "det"
    assert dataset.boxes.xyxy.tolist() == [[10, 20, 20, 40]]


def test_decimal_comma_export_reads_like_its_twin(tmp_path):
    rng = random.Random(1)
    plain, commas, sizes = [OPEN_IMAGES], [OPEN_IMAGES], []
    for i in range(60):
        name = f"2007_{i:06d}.jpg"
        sizes.append(f"{name},500,375")
        for _ in range(rng.randint(1, 5)):
            x, y = rng.randint(0, 400), rng.randint(0, 300)
            edges = [x / 500, rng.randint(x, 500) / 500, y / 375, rng.randint(y, 375) / 375]
            texts = [f"{e:.10f}".rstrip("0").rstrip(".") for e in edges]
            plain.append(",".join([name, "", "person", "", *texts, "", "", "", "", ""]))
            quoted = [f'"{t.replace(".", ",")}"' if "." in t else t for t in texts]
            commas.append(",".join([name, "", "person", "", *quoted, "", "", "", "", ""]))
    (tmp_path / "s.csv").write_text("\n".join(sizes))
    one, log = read_text(tmp_path, "\n".join(plain), image_sizes=str(tmp_path / "s.csv"))
    assert not log.counts
    two, log = read_text(tmp_path, "\n".join(commas), image_sizes=str(tmp_path / "s.csv"))
    assert not log.counts
    same_tables(one, two)


def test_prediction_strings(tmp_path):
    text = "ImageId,PredictionString\na,/m/1 0.9 0.1 0.1 0.2 0.2  /m/2 0.8 0 0 1 1 \nb,\nc,/m/1 x 0 0 1 1\n"
    dataset, log = read_text(tmp_path, text, image_size="10x10")
    assert log.counts == {"not-a-number": 1}
    assert log.issues[0].field == "PredictionString"
    assert log.issues[0].line == 4
    assert dataset.images.name == ("a", "b", "c")
    assert rows(dataset) == [("a", "/m/1", 0.9, 0, 1, 1, 2, 2), ("a", "/m/2", 0.8, 0, 0, 0, 10, 10)]


def test_retinanet(tmp_path):
    dataset, log = read_text(tmp_path, "a/b.jpg,1,2,3,4,cat\nc.jpg,,,,,\na/b.jpg,0,0,1,1,dog\n")
    assert not log.counts
    assert rows(dataset) == [("a/b.jpg", "cat", None, 0, 1, 2, 3, 4), ("a/b.jpg", "dog", None, 0, 0, 0, 1, 1)]
    assert dataset.images.name == ("a/b.jpg", "c.jpg")
    assert dataset.images.line.tolist() == [1, 2]
    (tmp_path / "classes.csv").write_text("dog,1\ncat,0\nbird,2\n")
    dataset, log = read_text(tmp_path, "a/b.jpg,1,2,3,4,dog\n", classes=str(tmp_path / "classes.csv"))
    assert dataset.categories.name == ("cat", "dog", "bird")
    (tmp_path / "data.yaml").write_text("nc: 3\nnames: [dog, cat, bird]\n")
    dataset, log = read_text(tmp_path, "a/b.jpg,1,2,3,4,cat\n", classes=str(tmp_path / "data.yaml"))
    assert dataset.categories.name == ("dog", "cat", "bird")
    (tmp_path / "classes.txt").write_text("dog\n007\n")
    dataset, log = read_text(
        tmp_path, "a/b.jpg,1,2,3,4,dog\nb.jpg,1,2,3,4,cat\n", classes=str(tmp_path / "classes.txt")
    )
    assert dataset.categories.name == ("dog", "007")
    assert log.counts == {"unknown-class": 1}
    assert dataset.skipped == 1


@pytest.mark.parametrize(
    ("sizes", "wrong", "held"),
    [
        (["801x600", "800x600", "800x600", "800x600"], [2], 800),
        (["800x600", "800x600", "801x600"], [4], 800),
        (["801x600", "800x600"], [3], 801),
        (["800x600", "800x601", "800x602", "800x602"], [2, 3], 800),
    ],
)
def test_of_two_sizes_of_an_image_that_of_most_rows_holds(tmp_path, sizes, wrong, held):
    rows = ["a.jpg,{},{},c,1,1,5,5".format(*size.split("x")) for size in sizes]
    text = "\n".join(["filename,width,height,class,xmin,ymin,xmax,ymax", *rows])
    dataset, log = read_text(tmp_path, text)
    assert [(issue.code, issue.line) for issue in log.issues] == [("image-size-conflict", n) for n in wrong]
    assert dataset.images.width.tolist() == [held]


def test_kind_is_that_of_most_rows(tmp_path):
    lines = [f"a.jpg,9,9,c,{s},1,2,3,4,0,0,0,0,0" for s in ("0.5", "0.6", "")]
    dataset, log = read_text(tmp_path, "\n".join([HEAD, *lines]))
    assert dataset.kind == "det"
    assert log.counts == {"score-missing": 1}
    assert (log.issues[0].line, log.issues[0].field) == (4, "score")
    assert dataset.skipped == 1
    dataset, log = read_text(tmp_path, "\n".join([HEAD, *lines]), kind="gt")
    assert log.counts == {"score-unexpected": 2}
    assert len(dataset) == 1


def test_empty_files(tmp_path):
    for text in ("", "\n \n", "\ufeff"):
        _, log = read_text(tmp_path, text)
        assert log.counts == {"header-missing": 1}
        dataset, log = read_text(tmp_path, text, kind="det")
        assert not log.counts
        assert dataset.kind == "det"
        assert log.notes
    dataset, log = read_text(tmp_path, HEAD)
    assert not log.counts
    assert not len(dataset.images)


def test_a_folder_of_files(tmp_path):
    (tmp_path / "a.csv").write_text(f"{HEAD}\na.jpg,9,9,c,,1,2,3,4,0,0,0,0,0\n")
    (tmp_path / "b.TSV").write_text(
        "filename\tclass\txmin\tymin\txmax\tymax\na.jpg\tc\t1\t2\t30\t40\nb.jpg\td\t1\tx\t30\t40\n"
    )
    (tmp_path / "notes.txt").write_text("x")
    dataset, log = read(tmp_path)
    assert log.counts == {"not-a-number": 1}
    assert log.issues[0].location == f"{tmp_path / 'b.TSV'}:3"
    assert log.issues[0].field == "ymin"
    assert dataset.images.name == ("a.jpg", "b.jpg")
    assert dataset.location(1) == (str(tmp_path / "b.TSV"), 2, "")
    assert dataset.image_place(1)[0] == str(tmp_path / "b.TSV")


def test_all_faults_in_one_run_in_order(tmp_path):
    lines = [
        HEAD,
        "a.jpg,x,480,cat,,1,2,zz,4,7,0,0,0,0",
        "a.jpg,640,480,cat",
        'b.jpg,640,480,"open,,1,2,3,4,0,0,0,0,0',
        "../up,640,480,cat,,1,2,3,4,0,0,0,0,0",
        "c.jpg,640,480,cat,,1,2,3,4,0,0,0,0,0",
        "c.jpg,640,481,cat,,1,2,3,4,0,0,0,0,0",
    ]
    dataset, log = read_text(tmp_path, "\n".join(lines))
    assert {(i.line, i.code, i.field) for i in log} == {
        (2, "not-a-number", "width"),
        (2, "not-a-number", "right"),
        (2, "bad-flag", "difficult"),
        (3, "wrong-count", "score"),
        (4, "open-quote", "class"),
        (5, "bad-name", "image"),
        (7, "image-size-conflict", "width"),
    }
    assert len(dataset) == 2
    assert dataset.skipped == 4


def test_quotes(tmp_path):
    text = f'{HEAD}\n"a, b.jpg",640,480,"say ""x""",,1,2,3,4,0,0,0,0,0\n"c.jpg","640","480","","","","","","","","","","",""\n'
    dataset, log = read_text(tmp_path, text)
    assert not log.counts
    assert dataset.images.name == ("a, b.jpg", "c.jpg")
    assert dataset.categories.name == ('say "x"',)
    text = 'filename,class,xmin,ymin,xmax,ymax,note\na,b,1,2,30,40,"two\nlines"\nb,b,1,2,30,40,x\n'
    dataset, log = read_text(tmp_path, text)
    assert not log.counts
    assert dataset.boxes.line.tolist() == [2, 4]
    assert dataset.extras == {"note": 2}


def test_open_quotes_say_where_they_were_opened(tmp_path):
    good = "a,b,1,2,30,40\n"
    text = (
        "filename,class,xmin,ymin,xmax,ymax\n"
        + good * 3
        + 'a,"b,1,2,30,40\n'
        + good * 3000
        + 'a,"c",1,x,30,40\n'
    )
    dataset, log = read_text(tmp_path, text)
    assert [(i.line, i.code, i.field) for i in log] == [
        (5, "open-quote", "class"),
        (3006, "not-a-number", "ymin"),
    ]
    assert len(dataset) == 3003


# ------------------------------------------------------------------------------------------- fast, slow


def slow(monkeypatch):
    monkeypatch.setattr(csv_records, "_split_columns", lambda *_: None)


def both(path, monkeypatch, **options):
    fast, fast_log = read(path, **options)
    with monkeypatch.context() as patch:
        slow(patch)
        patch.setattr(
            csv_reader,
            "cut_pieces",
            lambda data, start, **_: [(start, len(data))] if start < len(data) else [],
        )
        careful, careful_log = read(path, **options)
    same_tables(fast, careful)
    assert fast_log.counts == careful_log.counts
    assert {str(i) for i in fast_log} == {str(i) for i in careful_log}
    assert fast_log.notes == careful_log.notes


@pytest.mark.parametrize("folder", [*MIXED, *BAD], ids=lambda p: p.name)
def test_fast_and_slow_reading_agree_on_fixtures(folder, monkeypatch):
    entry, case = case_of(folder)
    both(entry, monkeypatch, kind=case.get("kind"), **case.get("options", {}))


def test_fast_and_slow_reading_agree_on_many_pieces(tmp_path, monkeypatch):
    rng = random.Random(7)
    lines = [HEAD]
    for i in range(3000):
        name, label = f"im{rng.randint(0, 200)}.jpg", rng.choice(["cat", "dog", '"a, b"', '"say ""x"""'])
        x, y = rng.choice([rng.randint(0, 500), round(rng.random() * 500, 3)]), rng.random() * 300
        cells = [
            name,
            "640",
            "480",
            label,
            "",
            x,
            y,
            x + 10,
            y + 5,
            rng.choice("01"),
            rng.choice(["", "0", "1"]),
            "0",
            "0",
            "0",
        ]
        lines.append(",".join(map(str, cells)) if i % 97 else f"empty{i}.jpg,,,,,,,,,,,,,")
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines))
    cut = csv_reader.cut_pieces
    monkeypatch.setattr(csv_reader, "cut_pieces", lambda data, start, **_: cut(data, start, size=4000))
    both(path, monkeypatch)
    text = path.read_text().splitlines()
    text[500] += ",x"
    text[900] = text[900].replace("im", '"im', 1)
    text[1500] = text[1500].replace("640", "6_40")
    path.write_text("\n".join(text))
    both(path, monkeypatch)


MUTATIONS = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.sampled_from(["drop", "double", "insert", "cut"]),
        st.binary(min_size=1, max_size=3)
        | st.sampled_from(
            [b'"', b",", b"\n", b"\0", b'""', b"\xff", b";", b"\r", b"-", b"nan", "\u2028".encode()]
        ),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(which=st.integers(0, len(MIXED) - 1), mutations=MUTATIONS)
def test_mutated_files_never_raise_and_read_alike(which, mutations):
    entry, case = case_of(MIXED[which])
    source = entry if entry.is_file() else next(p for p in sorted(entry.iterdir()) if p.suffix == ".csv")
    data = source.read_bytes()
    for location, what, piece in mutations:
        at = int(location * len(data))
        match what:
            case "drop":
                data = data[:at] + data[at + 1 :]
            case "double":
                data = data[:at] + data[at : at + 20] + data[at:]
            case "insert":
                data = data[:at] + piece + data[at:]
            case "cut":
                data = data[:at]
    options = {**case.get("options", {}), "image_size": "640x480"}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder, source.name)
        path.write_bytes(data)
        csv.sniff(Source(str(path)))
        both(path, patch, **options)


# --------------------------------------------------------------------------------------------- writing

text_cells = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]) | st.sampled_from(list(",;\"\t '#=.")),
    min_size=1,
    max_size=8,
).filter(lambda t: refuse_class(t) is None and "\t" not in t)
file_names = st.text(
    st.sampled_from(list(string.ascii_letters + string.digits + ' ,;"_-.öß\ufeff')), min_size=1, max_size=8
).map(lambda t: f"n{t}n")
numbers = st.integers(-50, 5000).map(float) | st.floats(-100, 5000, allow_nan=False).map(lambda v: v + 0.0)


@st.composite
def tables(draw, kind, *, words=False):
    suffix = draw(st.sampled_from(["", ".jpg", ".PNG"]))
    stems = draw(st.lists(file_names, min_size=1, max_size=4, unique=True))
    classes = draw(
        st.lists(
            text_cells.map(lambda t: t.replace(" ", "_") if words else t), min_size=1, max_size=3, unique=True
        )
    )
    n = draw(st.integers(0, 6))
    image = sorted(draw(st.integers(0, len(stems) - 1)) for _ in range(n))
    return Dataset.from_arrays(
        images=[s + suffix for s in stems],
        width=[draw(st.integers(1, 5000)) for _ in stems],
        height=[draw(st.integers(1, 5000)) for _ in stems],
        categories=classes,
        image=image,
        category=[draw(st.integers(0, len(classes) - 1)) for _ in range(n)],
        xyxy=np.array([[draw(numbers) for _ in range(4)] for _ in range(n)], float).reshape(-1, 4),
        score=[draw(st.floats(0, 1) | st.sampled_from([0.0, 1.0])) for _ in range(n)]
        if kind == "det"
        else None,
        flags=[draw(st.integers(0, 127)) if kind == "gt" else 0 for _ in range(n)],
        kind=kind,
    )


def kept(dataset, keeps):
    flags = sum(f for f in Flag if str(f.name).lower() in keeps)
    cut = (lambda n: n) if "extension" in keeps else stem
    b = dataset.boxes
    return [
        (
            cut(dataset.images.name[b.image[i]]),
            dataset.categories.name[b.category[i]],
            float(b.score[i]) if "score" in keeps and dataset.kind == "det" else 0.0,
            int(b.flags[i]) & flags,
        )
        for i in range(len(b))
    ]


DIALECTS = ["canonical", "tfod", "openimages", "predictionstring", "retinanet"]


@pytest.mark.parametrize(
    ("written", "sep"),
    turns(
        [(dialect, kind) for dialect in DIALECTS for kind in ("gt", "det")[dialect == "predictionstring" :]],
        [",", ";", "\t"],
    ),
)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_written_tables_read_back(written, sep, data):
    dialect, kind = written
    dataset = data.draw(tables(kind, words=dialect == "predictionstring"))
    options = csv.CsvOptions(dialect=dialect)
    declared = csv.adapt(options)
    keeps, relative = declared["keeps"], declared["needs_size"]
    if relative:  # the same stem twice is an error there, and a coordinate far from the image too
        inside = (
            np.abs(dataset.boxes.xyxy)
            <= np.tile(np.stack([dataset.images.width, dataset.images.height], 1)[dataset.boxes.image], 2)
        ).all(1)
        dataset = dataset.take(inside)
    with tempfile.TemporaryDirectory() as folder:
        one, two, sizes = Path(folder, "one.csv"), Path(folder, "two.csv"), Path(folder, "sizes.csv")
        before = dataset.boxes.xyxy.copy()
        assert not write(dataset, one, dialect=dialect, sep=sep).counts
        np.testing.assert_array_equal(dataset.boxes.xyxy, before)
        log = Log()
        reading = {"coords": "rel" if relative else "abs"}
        if relative:
            rows_ = zip(dataset.images.name, dataset.images.width, dataset.images.height, strict=True)
            sizes.write_text(
                "".join('"' + n.replace('"', '""') + f'",{w},{h}\n' for n, w, h in rows_), encoding="utf-8"
            )
            reading["image_sizes"] = str(sizes)
        if not one.read_bytes():
            return  # keras-RetinaNet of nothing
        asked = dataset.kind if "score" in keeps else "gt"
        if dialect == "retinanet":
            reading["sep"] = sep
        back, log = read(one, kind=asked, **reading)
        assert not [i for i in log if i.severity == "error"], ([str(i) for i in log], one.read_text())
        assert kept(back, keeps) == kept(dataset, keeps)
        if relative:
            np.testing.assert_allclose(
                back.boxes.xyxy, dataset.boxes.xyxy, rtol=0, atol=declared["max_error_px"]
            )
        else:
            np.testing.assert_array_equal(back.boxes.xyxy, dataset.boxes.xyxy)
        if "empty" in keeps:
            names = dataset.images.name if "extension" in keeps else tuple(map(stem, dataset.images.name))
            assert back.images.name == names
        if "size" in keeps and "empty" in keeps:
            assert back.images.width.tolist() == dataset.images.width.tolist()
            assert back.images.height.tolist() == dataset.images.height.tolist()
        if "score" not in keeps:
            return
        assert not write(back, two, dialect=dialect, sep=sep).counts
        assert two.read_bytes() == one.read_bytes()


def test_written_text(tmp_path):
    dataset = Dataset.from_arrays(
        images=["e.jpg", "a,b.jpg"], width=[0, 640], height=[0, 480], categories=['x "y"'],
        image=[1, 1], category=[0, 0], xyxy=[[1, 2.5, 3, 0.1 + 0.2], [0, 0, 1e16, 1]], flags=[2, 16],
    )  # fmt: skip
    write(dataset, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == (
        f"{HEAD}\ne.jpg,,,,,,,,,,,,,\n"
        '"a,b.jpg",640,480,"x ""y""",,1,2.5,3,0.30000000000000004,1,0,0,0,0\n'
        '"a,b.jpg",640,480,"x ""y""",,0,0,1e+16,1,0,0,0,0,1\n'
    )
    write(dataset, tmp_path / "a.tsv", dialect="retinanet")
    assert (tmp_path / "a.tsv").read_text().splitlines()[:2] == [
        "e.jpg\t\t\t\t\t",
        'a,b.jpg\t1\t2.5\t3\t0.30000000000000004\t"x ""y"""',
    ]
    write(dataset, tmp_path / "out")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["annotations.csv"]


def test_what_a_dialect_cannot_write_is_refused(tmp_path):
    dataset = Dataset.from_arrays(
        images=["a.jpg", "a.png"], categories=["two words"], image=[0, 1], category=[0, 0],
        xyxy=[[0, 0, 1, 1]] * 2, score=[0.5, 0.5],
    )  # fmt: skip
    log = write(dataset, tmp_path / "a.csv", dialect="predictionstring")
    assert log.counts == {"image-size-unknown": 2, "name-collision": 1, "bad-class-name": 1}
    with pytest.raises(UsageError):
        write(
            Dataset.from_arrays(images=[], categories=[], image=[], category=[], xyxy=[]),
            tmp_path / "b.csv",
            dialect="predictionstring",
        )


def test_class_descriptions_go_both_ways(tmp_path):
    (tmp_path / "names.csv").write_text("/m/1,Cat\n")
    dataset = Dataset.from_arrays(
        images=["a.jpg"],
        width=[10],
        height=[10],
        categories=["Cat"],
        image=[0],
        category=[0],
        xyxy=[[0, 0, 5, 10]],
    )
    write(dataset, tmp_path / "a.csv", dialect="openimages", classes=str(tmp_path / "names.csv"))
    assert (tmp_path / "a.csv").read_text() == f"{OPEN_IMAGES}\na,,/m/1,1,0,0.5,0,1,0,0,0,0,0\n"


@pytest.mark.parametrize(
    "name", ["class-descriptions-boxable.csv", "oidv6-class-descriptions.csv", "classes.csv"]
)
def test_class_descriptions_of_a_folder(tmp_path, name):
    head = "LabelName,DisplayName\n" if name.startswith("oidv6") else ""
    (tmp_path / name).write_text(f"{head}/m/1,Cat\n/m/2,Dog\n")
    (tmp_path / "train-annotations-bbox.csv").write_text(
        f"{OPEN_IMAGES}\na,xclick,/m/2,1,0,0.5,0,1,0,0,0,0,0\n"
    )
    data, log = read(tmp_path, image_size="10x10")
    assert not log.counts
    assert [data.categories.name[i] for i in data.boxes.category] == ["Dog"]
    assert f"class names are from {name} (classes sets another file)" in " ".join(log.notes)
    (tmp_path / "z-class-descriptions.csv").write_text("/m/2,Wolf\n")
    data, log = read(tmp_path, image_size="10x10")
    assert [data.categories.name[i] for i in data.boxes.category] == ["Dog"]
    assert f"2 class description files; {name} is used (classes)" in " ".join(log.notes)


def test_ledger_of_a_dialect(tmp_path):
    dataset = Dataset.from_arrays(
        images=["a.jpg", "b.jpg"], width=[10, 10], height=[10, 10], categories=["Cat"],
        image=[0, 0], category=[0, 0], xyxy=[[0, 0, 5, 10]] * 2, flags=[int(Flag.CROWD), int(Flag.DIFFICULT)],
    )  # fmt: skip
    ledger = odm.write(dataset, tmp_path / "a.csv")
    assert ledger.lossless
    ledger = odm.write(dataset, tmp_path / "b.csv", dialect="tfod")
    assert ledger.written == 1
    assert ledger.lost == {"the attribute 'difficult'": 1, "images without objects": 1}
    assert ledger.balances


def test_through_the_public_door(tmp_path):
    path = FIXTURES / "mixed" / "csv-semicolon" / "input.csv"
    dataset = odm.read(path)
    assert len(dataset) == 6
    with pytest.raises(DataError, match="open-quote"):
        odm.read(FIXTURES / "bad" / "csv" / "open-quote" / "input.csv", format="csv")
    ledger = odm.convert(path, tmp_path / "out.csv")
    assert ledger.lossless
    assert odm.convert(tmp_path / "out.csv", tmp_path / "again.csv").lossless
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()


# ------------------------------------------------------------------------------------------ promises


PIECES = [b'"a\n', b'a,b"c,1,2,3,4\n', b'a,"b""\n', b"\xff\n"]
IN_LIMITS = [b'"', b",", b"a" * 1000, b"a,b,1,2,x,4\n"]  # a megabyte of each is in test_limits.py too
LIKE_THEM = [b'"\n', b'a,"\n', b'""', b'","', b"\n", b'a,"b",1,2,"3,5",4\n', b"\0"]


@pytest.mark.parametrize("piece", params([*PIECES, *IN_LIMITS, *LIKE_THEM], PIECES[:2]))
def test_hostile_files_answer_soon(tmp_path, piece):
    def taken(size):
        data = b"filename,class,xmin,ymin,xmax,ymax\n" + piece * (size // len(piece))
        return cost(lambda: (read_text(tmp_path, data), csv.sniff(Source(str(tmp_path / "a.csv")))), tries=2)

    assert taken(2**20) < 24 * taken(2**17) + 50  # eight times as much; 64 times would be its square


@example(text="sep=")
@example(text='"')
@settings(max_examples=examples(100), deadline=None)
@given(text=st.text(st.sampled_from(list('abc,;\t"\n\r=. 01\0é')), max_size=60))
def test_rubbish_is_recognised_nowhere_and_refused(text):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.csv").write_bytes(text.encode())
        assert csv.sniff(Source(str(Path(folder, "a.csv")))) is None
        for path in (Path(folder, "a.csv"), folder):
            dataset, log = read(path)
            assert len(dataset) == 0
            assert log.errors


def test_other_folders_are_not_claimed(tmp_path):
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.txt").write_text("0 0.5 0.5 0.1 0.1\n")
    (tmp_path / "results.csv").write_text("epoch,train/box_loss,metrics/mAP50\n0,1.2,0.3\n")
    assert csv.sniff(Source(str(tmp_path))) is None
    (tmp_path / "a.txt").write_text(f"{HEAD}\na.jpg,9,9,c,,1,2,3,4,0,0,0,0,0\n")
    assert csv.sniff(Source(str(tmp_path / "a.txt"))) is None


def test_confidence_is_a_score_only_on_request(tmp_path):
    text = "ImageID,LabelName,Confidence,XMin,XMax,YMin,YMax\na,b,0.5,0.1,0.2,0.1,0.2\n"
    dataset, _ = read_text(tmp_path, text, image_size="10x10")
    assert dataset.kind == "gt"
    dataset, log = read_text(tmp_path, text, image_size="10x10", columns="score:Confidence")
    assert not log.counts
    assert rows(dataset) == [("a", "b", 0.5, 0, 1, 1, 2, 2)]


def test_what_is_no_table_is_said_once(tmp_path):
    for text in ("a.jpg 1 2 3 4 cat\n", "a.jpg,1,2,3,4,cat,0.5\n", "<xml/>\n"):
        _, log = read_text(tmp_path, text)
        assert log.counts == {"header-missing": 1}
        assert log.issues[0].line == 1
    _, log = read_text(tmp_path, '"image,class\n')
    assert log.counts == {"bad-header": 1}
    _, log = read_text(tmp_path, "image,class,score\na,b,1\n")
    assert [i.field for i in log] == ["left, top, right, bottom"]


def test_classes_beside_the_rows(tmp_path):
    (tmp_path / "annotations.csv").write_text("a.jpg,1,2,3,4,dog\n")
    (tmp_path / "classes.csv").write_text("cat,0\ndog,1\n")
    dataset, log = read(tmp_path)
    assert not log.counts
    assert dataset.categories.name == ("cat", "dog")
    assert any("classes.csv" in note for note in log.notes)


def test_good_files_take_the_fast_way(tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("read line by line")

    monkeypatch.setattr(csv_records, "read_records", refuse)
    row = "a.jpg,640,480,cat,0.5,1,2.5,3,4,0,0,0,0,0\n"
    assert len(read_text(tmp_path, f"{HEAD}\n{row * 9}")[0]) == 9
    assert len(read_text(tmp_path, f"{HEAD}\n{row.replace('cat', chr(34) + 'cat' + chr(34)) * 9}")[0]) == 9
    assert len(read_text(tmp_path, f"{HEAD}\n{row.replace('2.5', chr(34) + '2,5' + chr(34)) * 9}")[0]) == 9


def test_side_files_may_have_long_cells_but_no_open_quotes(tmp_path):
    long = "x" * 200_000
    (tmp_path / "a.csv").write_text("a.jpg,.1,.1,.2,.2,c\n")
    sizes, labels = tmp_path / "sizes.csv", tmp_path / "labels.csv"
    sizes.write_text(f'image,width,height,note\na.jpg,640,480,"{long}"\n')
    dataset, log = read(tmp_path / "a.csv", image_sizes=str(sizes), coords="rel")
    assert not log.counts
    assert dataset.images.width.tolist() == [640]
    sizes.write_text('image,width,height\na.jpg,640,480\n"b.jpg,2,2\n')
    assert "a quote that is never closed" in str(
        next(iter(read(tmp_path / "a.csv", image_sizes=str(sizes))[1]))
    )
    labels.write_text(f"ImageID,LabelName,Confidence,Note\na,c,1,{long}\n")
    assert read_image_labels(str(labels), Log()) == [("a", "c", True)]
    labels.write_text('ImageID,LabelName,Confidence\na,"c,1\n')
    with pytest.raises(DataError):
        read_image_labels(str(labels), Log())


def test_folders_and_names_of_files_give_the_split(tmp_path):
    for i, file in enumerate(("train/_annotations.csv", "valid/_annotations.csv", "test_labels.csv")):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        read_text(
            tmp_path, f"filename,width,height,class,xmin,ymin,xmax,ymax\n{i}.jpg,64,48,cat,1,1,9,9\n", file
        )
    images = read(tmp_path)[0].images
    splits = {"0.jpg": "train", "1.jpg": "val", "2.jpg": "test"}
    assert dict(zip(images.name, images.split, strict=True)) == splits
    assert read(tmp_path, split="val")[0].images.name == ("1.jpg",)
    assert set(read(tmp_path / "test_labels.csv")[0].images.split) == {""}
    (tmp_path / "train/more.csv").write_text((tmp_path / "test_labels.csv").read_text())
    _, log = read(tmp_path)
    assert [(i.code, i.path, i.line) for i in log.issues if i.severity == "error"] == [
        ("duplicate-image", str(tmp_path / "train/more.csv"), 2)
    ]


def test_open_images_need_no_sizes_to_be_evaluated_or_converted(tmp_path):
    (tmp_path / "gt.csv").write_text(f"{OPEN_IMAGES}\na,x,cat,1,0.1,0.5,0.1,0.4,0,0,0,0,0\n")
    header = "ImageID,LabelName,Score,XMin,XMax,YMin,YMax"
    (tmp_path / "det.csv").write_text(f"{header}\na,cat,0.9,0.1,0.4,0.1,0.4\na,cat,0.8,0.1,0.5,0.1,0.4\n")
    sides, values = (tmp_path / "gt.csv", tmp_path / "det.csv"), []
    for known in ({}, {"image_size": "200x100"}):
        values.append(odm.eval(*sides, protocol="coco", **known).to_dict()["results"][0]["summary"]["AP"])
    assert values[0] == values[1] > 0
    odm.convert(sides[0], tmp_path / "yolo", to="yolo")
    assert (tmp_path / "yolo/labels/a.txt").read_text() == "0 0.3 0.25 0.4 0.3\n"


def test_tables_of_masks_add_masks_and_no_boxes(tmp_path):
    """Each mask is that of one box, or counted; alone, the table has boxes of its own."""
    case = Path("fixtures/tools/csv-openimages-masks/input")
    masks = (case / "labels/segmentations.csv").read_text()
    for target, lost in (("a.json", 2), ("a.csv", 3)):
        ledger = odm.convert(case, tmp_path / target, image_size="100x80")
        assert (ledger.read, ledger.written, ledger.images, ledger.lost["masks"]) == (3, 3, 2, lost)
    alone = tmp_path / "alone.csv"
    alone.write_text(masks)
    (tmp_path / "masks/A").mkdir(parents=True)
    picture = tmp_path / "masks/A/a_m1_7c5f1a2b.png"
    picture.write_bytes((case / "labels/masks/A/a_m1_7c5f1a2b.png").read_bytes())
    data = odm.read(alone, image_size="100x80", shapes=True)
    assert data.boxes.shapes.kind.tolist() == [ShapeKind.MASK, 0, 0]
    assert data.boxes.image.tolist() == [0, 1, 2]
    picture.write_bytes(b"no picture")
    with pytest.raises(DataError) as refused:
        odm.read(alone, image_size="100x80", shapes=True)
    assert [(i.line, i.field) for i in refused.value.log.issues] == [(2, "MaskPath")]


@pytest.mark.parametrize(
    ("header", "box", "size"),
    [
        ("image,class,x,y,width,height,image_width,image_height", [10, 20, 40, 60], (200, 100)),
        ("image,class,x,y,w,h,width,height", [10, 20, 40, 60], (200, 100)),
        ("image,class,left,top,right,bottom,image_width,image_height", [10, 20, 30, 40], (200, 100)),
        ("image,class,left,top,right,bottom,width,height", [10, 20, 30, 40], (200, 100)),
        ("image,class,x,y,width,height,height_of_person,note", [10, 20, 40, 60], (0, 0)),
    ],
)
def test_width_and_height_are_of_the_box_or_of_the_image(tmp_path, header, box, size):
    text = f"{header}\na.jpg,cat,10,20,30,40,200,100\n"
    dataset, log = read_text(tmp_path, text.encode())
    assert not log.errors
    assert dataset.boxes.xyxy.tolist() == [box]
    assert (dataset.images.width[0], dataset.images.height[0]) == size


def test_images_of_a_list_of_open_images_without_boxes(tmp_path):
    """Those whose pictures are there are images without objects; the list may be of millions of others."""
    path = FIXTURES / "tools" / "csv-openimages-fiftyone" / "input"
    data = odm.read(path)
    assert sorted(data.images.name) == ["aa.png", "bb.png"]
    assert data.images.split == ("train", "train")
    assert data.images.width.tolist() == [100, 100]
    assert len(data) == 1


@pytest.mark.parametrize("size", [1, 2, 7, 20, 100])
def test_pieces_of_a_table_end_with_lines_outside_quotes(size):
    data = b'a,b\n"x\ny",1\n\n"""q"" \n \n",2\nplain,3\n"\n",4\nlast,5'
    pieces = csv_reader.cut_pieces(data, 0, size=size)
    texts = [data[start:stop] for start, stop in pieces]
    assert b"".join(texts) == data
    assert all(text.count(b'"') % 2 == 0 and text.endswith(b"\n") for text in texts[:-1])
    assert len(texts) > 3 or size > 7
