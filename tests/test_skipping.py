"""What may be left out on request: rows with ``--skip-bad``, whole files with ``--skip-bad-files``, and nothing else."""

import contextlib
import re

import corpus
import fixture_cases as written
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from selection import first_of, of_each, params

import odm
from odm.converters import Request, load, reference
from odm.formats import DESCRIBING
from odm.formats._shared.tables.csv_files import make_safe, undo_safe
from odm.issues import CODES, DataError, Log, OdmError
from odm.tables import Dataset

REFUSED = [case for case in corpus.CASES if isinstance(case.expect, corpus.Refused)]
BAD = written.cases(("bad/*/*",))
ONE_CELL = {"csv/wrong-count-string", "wheat/wrong-count-submission", "yolokeras/image-name-missing"}
"""Fixtures in which one row holds several boxes."""


def skipping(request, **more):
    """What is read when bad rows are left out, and its errors; None if it is refused."""
    log = Log()
    try:
        loaded = load(request, log, skip_bad=True, **more)
    except OdmError:
        return None
    return loaded, log.errors


def only_rows(loaded, errors):
    """Every error stands for one box that was left out; several may be of one box."""
    return not errors or 1 <= loaded.bad <= errors


@of_each(REFUSED)
def test_a_fault_of_more_than_a_row_is_never_skipped(case, tmp_path):
    source = case.build(tmp_path)
    explicit = [word for word in case.explicit if word != "--follow-links"]
    options = {explicit[i][2:].replace("-", "_"): explicit[i + 1] for i in range(0, len(explicit), 2)}
    request = Request(
        path=source,
        format=case.format,
        kind=options.pop("kind", None),
        shared=options,
        follow_links="--follow-links" in case.explicit,
    )
    with contextlib.chdir(tmp_path):
        found = skipping(request)
    code = CODES.get(case.expect.code)
    if code is not None and not code.row:
        assert found is None
    elif found is not None:
        loaded, errors = found
        assert only_rows(loaded, errors)
        one_line = case.name.startswith(("nothing-but", "line-separator"))  # all boxes of a file in one row
        assert len(loaded.dataset) + loaded.bad >= len(corpus.BOXES) - one_line


@of_each(params(BAD, first_of(BAD, lambda pair: pair[0])))
def test_of_every_code_only_rows_are_skipped(code, folder):
    case = written.fixture(folder)
    with contextlib.chdir(case.folder):
        request, gt, _ = case.requests()
        found = skipping(request, counterpart=None if gt is None else reference(gt.path, Log()))
    if found is not None and f"{folder.parent.name}/{folder.name}" not in ONE_CELL:
        assert only_rows(*found)


def test_a_code_is_of_a_row_or_of_a_file():
    assert not [code.name for code in CODES.values() if code.row and code.file]
    for name in (
        "classes.txt",
        "_classes.csv",
        "obj.names",
        "data.yaml",
        "meta.json",
        "train.txt",
        "seqinfo.ini",
    ):
        assert DESCRIBING.fullmatch(name)
    assert not DESCRIBING.fullmatch("a.txt")


def test_a_stray_quote_in_a_header_is_no_row(tmp_path, odm_run):
    source = tmp_path / "a.csv"
    source.write_text('image,cla"ss,left,top,right,bottom\na.jpg,cat,1,2,30,40\n')
    run = odm_run("convert", source, tmp_path / "b.csv", "--from", "csv", "--skip-bad", code=1)
    assert "bad-header" in run[1]
    assert not (tmp_path / "b.csv").exists()


def test_bad_rows_alone_are_an_error(tmp_path):
    (tmp_path / "a.txt").write_text("cat 9 9 5 5\n")
    with pytest.raises(DataError, match="skip_bad would leave nothing"):
        odm.read(tmp_path, "txt", box="ltrb", skip_bad=True)


# ----------------------------------------------------------------------------------------------------- files

PAGE = """<annotation><filename>{0}.jpg</filename><size><width>100</width><height>80</height></size>
<object><name>cat</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox></object>
</annotation>
"""


def pages(folder, broken=("b",)):
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.xml").write_text("<annotation>" if name in broken else PAGE.format(name))
    return folder


def test_files_left_out_are_named_in_the_ledger(tmp_path, odm_run):
    source = pages(tmp_path / "in")
    _, err = odm_run("convert", source, tmp_path / "out.csv", code=1)
    assert "--skip-bad-files" not in err  # offered once rows were to be left out
    _, err = odm_run("convert", source, tmp_path / "out.csv", "--skip-bad", code=1)
    assert "leave out such files with --skip-bad-files" in err
    out, err = odm_run("convert", source, tmp_path / "out.csv", "--skip-bad-files")
    assert "2  images\n" in out
    assert f"1  file left out, with its images:\n     {source / 'b.xml'}" in out
    assert "xml-syntax" in err
    out, _ = odm_run("convert", source, tmp_path / "strict.csv", "--skip-bad-files", "--strict", code=1)
    assert not (tmp_path / "strict.csv").exists()
    out, _ = odm_run("validate", source, "--fix", "order", "--out", tmp_path / "fixed", "--skip-bad-files")
    assert "b.xml" in out
    assert sorted(p.name for p in (tmp_path / "fixed").rglob("*.xml")) == ["a.xml", "c.xml"]


@pytest.mark.parametrize("command", ["stats", "show"])
def test_files_left_out_are_named_where_a_source_is_shown(tmp_path, odm_run, command):
    source = pages(tmp_path / "in")
    more = ["--out", tmp_path / "page.html"] if command == "show" else []
    odm_run(command, source, *more, code=1)
    out, err = odm_run(command, source, *more, "--skip-bad-files")
    assert f"{source / 'b.xml'}: left out" in err
    assert odm.stats(source, skip_bad_files=True).images == 2
    assert command == "show" or re.search(r"^images +2 ", out, re.MULTILINE)


def test_nothing_is_written_where_no_file_is_left(tmp_path, odm_run):
    source = pages(tmp_path / "in", broken="abc")
    _, err = odm_run("convert", source, tmp_path / "out.csv", "--skip-bad-files", "--from", "voc", code=1)
    assert "leaves no image" in err
    single = source / "a.xml"
    odm_run("convert", single, tmp_path / "out.csv", "--skip-bad-files", "--from", "voc", code=1)


def test_an_image_left_out_of_one_side_is_left_out_of_the_other(tmp_path, odm_run):
    source = pages(tmp_path / "in")
    rows = "".join(f"{name}.jpg,cat,.9,1,2,30,40\n" for name in "abc")
    (tmp_path / "det.csv").write_text("image,class,score,left,top,right,bottom\n" + rows)
    out, err = odm_run("eval", source, tmp_path / "det.csv", "--skip-bad-files")
    assert "images: 2 in both, 0 only in the ground truth, 0 only in the detections" in out
    assert "mAP = 100.00 %" in out
    assert f"note: {source / 'b.xml'}: left out" in err


def yolo(folder, **labels):
    """A dataset with a picture and a label file, text or bytes, of each name; None for no label."""
    for location in ("images", "labels"):
        (folder / "train" / location).mkdir(parents=True)
    (folder / "data.yaml").write_text("train: ../train/images\nnames: [cat]\n")
    for name, content in labels.items():
        Image.new("L", (100, 80)).save(folder / "train" / "images" / f"{name}.png")
        if content is not None:
            (folder / "train" / "labels" / f"{name}.txt").write_bytes(content)
    return folder


ROW = b"0 .5 .5 .2 .2\n"


def test_a_picture_whose_labels_are_left_out_is_not_without_objects(tmp_path):
    source = yolo(tmp_path / "in", a=ROW, b=b"\xff\xfe0\0", c=None)
    log = Log()
    dataset = odm.read(source, skip_bad_files=True, log=log)
    assert sorted(dataset.images.name) == ["a.png", "c.png"]
    assert log.counts == {"not-utf8": 1, "pictures-without-labels": 1}
    assert "1 of 2 pictures" in log.issues[1].message


def test_a_list_of_classes_is_never_left_out(tmp_path):
    source = yolo(tmp_path / "in", a=ROW, b=ROW)
    (source / "classes.txt").write_bytes(b"c\x81t\n")
    with pytest.raises(DataError, match="not-utf8"):
        odm.read(source, skip_bad_files=True)


# ---------------------------------------------------------------------------------- labels where nobody looks


def codes(source, **options):
    return {issue.code for issue in odm.validate(source, **options)}


def test_labels_where_nobody_looks_are_an_error(tmp_path, odm_run):
    source = yolo(tmp_path / "in", a=ROW, b=ROW, c=None)
    assert codes(source) == {"pictures-without-labels"}
    (source / "train" / "labels").rename(source / "train" / "annot")
    _, err = odm_run("convert", source, tmp_path / "out.json", "--to", "coco", code=1)
    assert "none of the 3 pictures of the split 'train' has a label file" in err
    assert "'train/annot'" in err
    (source / "train" / "annot").rename(source / "train" / "labelTxt")
    assert (
        "with the format dota" in odm_run("convert", source, tmp_path / "o.json", "--to", "coco", code=1)[1]
    )


def test_pictures_alone_are_an_error(tmp_path):
    source = yolo(tmp_path / "in", a=None)
    assert codes(source) == {"labels-missing"}
    source = yolo(tmp_path / "empty", a=b"")
    assert codes(source) == set()


def test_a_split_without_labels_is_a_warning_if_none_lie_elsewhere(tmp_path):
    source = yolo(tmp_path / "in", a=ROW)
    (source / "data.yaml").write_text("train: train/images\ntest: test/images\nnames: [cat]\n")
    (source / "test" / "images").mkdir(parents=True)
    Image.new("L", (9, 9)).save(source / "test" / "images" / "x.png")
    assert codes(source) == {"pictures-without-labels"}
    (source / "test" / "lbl").mkdir()
    (source / "test" / "lbl" / "x.txt").write_bytes(ROW)
    assert codes(source) == {"labels-missing"}


# ------------------------------------------------------------------------------------------ two rows in a line


@pytest.mark.parametrize(
    "line",
    [
        "car 10 10 20 20 car 30 30 60 60",
        "car .9 10 10 20 20 car .8 30 30 60 60",
        "car 10 10 20 20 traffic light 30 30 60 60",
        "5 10 10 20 20 car 30 30 60 60",
        "car 1 1 2 2 car 3 3 6 6 dog 1 1 2 2",
    ],
)
def test_two_rows_in_one_line_are_no_class(tmp_path, line):
    (tmp_path / "a.txt").write_text(f"{line}\n")
    log = Log()
    with pytest.raises(DataError):
        odm.read(tmp_path, "txt", box="ltrb", log=log)
    assert log.counts["wrong-count"] == 1


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("0 .5 .5 .2 .2 0 .3 .3 .1 .1\n1 .5 .5 .2 .2\n", "gt"),
        ("0 .5 .5 .2 .2 0 .3 .3 .1 .1 1 .6 .6 .1 .1\n1 .5 .5 .2 .2\n", "gt"),
        ("0 .5 .5 .2 .2 .9 0 .3 .3 .1 .1 .8\n1 .5 .5 .2 .2 .7\n", "det"),
    ],
)
def test_two_rows_in_one_line_are_no_polygon(tmp_path, text, kind):
    (tmp_path / "a.txt").write_text(text)
    log = Log()
    with pytest.raises(DataError):
        odm.read(tmp_path, "yolo", kind=kind, image_size="100x100", log=log)
    assert log.counts["wrong-count"] == log.errors == 1
    assert "line break" in log.issues[0].message


def test_a_row_that_looks_like_a_comment_is_read_and_named(tmp_path):
    (tmp_path / "a.txt").write_text("# dog 1 2 3 4\n# dog 5 5 9 9\ncat 1 2 3 4\n")
    log = Log()
    assert len(odm.read(tmp_path, "txt", box="ltrb", log=log)) == 3
    assert log.counts == {"looks-like-comment": 1}


def test_a_number_in_a_class_stays_with_a_separator(tmp_path):
    (tmp_path / "a.txt").write_text("route 66,10,10,20,20\nroute 66 and 67,1,1,5,5\n")
    assert odm.read(tmp_path, "txt", box="ltrb", sep=",").categories.name == ("route 66", "route 66 and 67")


def test_polygons_beside_boxes_stay_polygons(tmp_path):
    (tmp_path / "a.txt").write_text(
        "0 .5 .5 .2 .2\n0 .1 .1 .5 .1 1 .5 .5 .9 .2 1 .1 .5 .1 .2\n0 .1 .1 .5 .1 .5 .9\n"
    )
    log = Log()
    dataset = odm.read(tmp_path, "yolo", image_size="100x100", log=log)
    assert len(dataset) == 3
    assert log.counts["outlines-as-boxes"] == 1


# ----------------------------------------------------------------------------------- names that are formulas

formula_like = st.text(st.sampled_from("=+-@'ab \t,\""), min_size=1, max_size=8)


@given(formula_like)
def test_names_made_safe_come_back(cell):
    assert make_safe(cell)[0] not in "=+-@\t\r"
    assert undo_safe(make_safe(cell)) == cell


def test_formulas_are_written_as_they_are_or_safe(tmp_path):
    names = ["=1+1", "'=x", "-a", "+b", "@c", "'plain", "d"]
    truth = Dataset.from_arrays(
        images=["=1.jpg", "b.jpg"],
        categories=names,
        image=[0] * 7,
        category=range(7),
        xyxy=[[-1, 2, 30, 40]] * 7,
    )
    odm.write(truth, tmp_path / "plain.csv")
    assert odm.read(tmp_path / "plain.csv").categories.name == tuple(names)
    odm.write(truth, tmp_path / "safe.csv", excel_safe=True)
    text = (tmp_path / "safe.csv").read_text()
    assert not any(cell[:1] in "=+@" for line in text.splitlines() for cell in line.split(",") if cell)
    assert ",-1," in text  # numbers stay numbers
    again = odm.read(tmp_path / "safe.csv", excel_safe="true")
    assert again.categories.name == tuple(names)
    assert again.images.name == truth.images.name
    assert odm.read(tmp_path / "safe.csv").categories.name[0] == "'=1+1"


@pytest.mark.parametrize("format_", ["coco", "csv"])
def test_what_holds_nothing_is_a_warning(tmp_path, format_):
    text = (
        '{"images": [], "annotations": [], "categories": []}'
        if format_ == "coco"
        else "image,class,left,top,right,bottom\n"
    )
    source = tmp_path / "a"
    source.write_text(text)
    assert codes(source, format=format_) == {"no-images"}
