"""`odm eval` as a new user tries it: wrong order, wrong names, wrong values, and what is said of each."""

import functools
import json

import pytest
from corpus_base import lay as make

GT = {f"00000{i}.txt": "cat 10 20 100 120\ndog 30 40 80 90\n" for i in range(3)}
DET = {f"00000{i}.txt": "cat 0.9 10 20 100 120\ndog 0.8 30 40 80 90\n" for i in range(3)}
YOLO_GT = {f"00000{i}.txt": "0 0.5 0.5 0.2 0.2\n1 0.3 0.3 0.1 0.1\n" for i in range(3)}
YOLO_DET = {f"00000{i}.txt": "0 0.5 0.5 0.2 0.2 0.9\n1 0.3 0.3 0.1 0.1 0.8\n" for i in range(3)}
XML = (
    "<annotation><size><width>200</width><height>200</height><depth>3</depth></size>"
    + "".join(
        f"<object><name>{name}</name><bndbox><xmin>30</xmin><ymin>40</ymin><xmax>80</xmax><ymax>90</ymax></bndbox></object>"
        for name in ("dog", "cat")
    )
    + "</annotation>"
)
SIZE = ("--image-size", "200x200")
BOX = ("--box", "ltrb")


@pytest.fixture
def run(tmp_path, monkeypatch, odm_run):
    monkeypatch.chdir(tmp_path)
    for name, files in (("gt", GT), ("det", DET), ("ygt", YOLO_GT), ("ydet", YOLO_DET)):
        make(tmp_path / name, files)
    make(tmp_path / "voc", {f"00000{i}.xml": XML for i in range(3)})
    results = [
        {"image_id": i, "category_id": c, "bbox": [30, 40, 50, 50], "score": 0.9} for i in range(3) for c in (1, 2)
    ]  # fmt: skip
    (tmp_path / "results.json").write_text(json.dumps(results))
    return functools.partial(odm_run, "eval")


def test_results_as_ground_truth_are_one_error(run):
    """That the detections have no ground truth either follows from it."""
    _, err = run("results.json", "results.json", code=1)
    assert "\n1 error (results-as-ground-truth 1)\n" in err


@pytest.mark.parametrize("sides", [("det", "gt"), ("ydet", "ygt", *SIZE), ("results.json", "voc")])
def test_swapped_sides_are_one_error(run, sides):
    _, err = run(*sides, code=1)
    (only,) = [line for line in err.splitlines() if ": error " in line and not line.startswith("odm:")]
    assert only == (
        f"{sides[0]}: error sides-swapped expected ground truth here and detections in '{sides[1]}', but "
        "every box here has a score and none there does; give the ground truth first and the detections second"
    )


def test_the_last_line_names_the_sides_with_errors(run, tmp_path):
    out_of_truth = ", but AP can rise without objects of the ground truth: correct these instead"
    left_out = "; --skip-bad leaves out the rows with errors"
    truth = (tmp_path / "gt" / "000000.txt").read_text()
    for rows, ending in (
        ("cat 1 2 three 4\n", out_of_truth),
        ("cat 30 20 10 40\n", f"{out_of_truth} (odm validate GT --fix order --out DIR)"),
    ):
        (tmp_path / "gt" / "000000.txt").write_text(rows)
        err = run("gt", "det", "--box", "ltrb", code=1)[1]
        assert err.endswith(f"odm: error: gt: 1 error in the data{left_out}{ending}\n")
    (tmp_path / "det" / "000000.txt").write_text("cat 0.5 1 2 three 4\ncat 0.5 1 2 3\n")
    (tmp_path / "gt" / "000000.txt").write_text("cat 1 2 three 4\n")
    assert run("gt", "det", code=1)[1].endswith(
        f"odm: error: gt: 1 error, det: 2 errors in the data{left_out}{out_of_truth}\n"
    )
    (tmp_path / "gt" / "000000.txt").write_text(truth)
    assert run("gt", "det", code=1)[1].endswith(f"odm: error: det: 2 errors in the data{left_out}\n")


@pytest.mark.parametrize(
    ("option", "name"),
    [
        (("--split", "val"), "'split'"),
        (("-O", "nosuch=1"), "'nosuch'"),
        (("--link-images",), "--link-images"),
        (("--gt-conf-column", "last"), "'conf_column'"),
    ],
)
def test_options_without_meaning_are_refused(run, option, name):
    assert name in run("gt", "det", *option, code=2)[1]


def test_a_split_goes_to_the_side_that_has_splits(run, tmp_path):
    make(
        tmp_path / "whole",
        {
            "data.yaml": "train: images/train\nval: images/val\nnames: [cat, dog]\n",
            "labels/train/000000.txt": YOLO_GT["000000.txt"],
            "labels/val/000001.txt": YOLO_GT["000001.txt"],
            "images/train/.keep": "",
            "images/val/.keep": "",
        },
    )
    one = make(tmp_path / "one", {"000001.txt": YOLO_DET["000001.txt"]})
    out, err = run("whole", one, "--split", "val", *SIZE, "--output", "json")
    assert json.loads(out)["results"][0]["summary"]["mAP"] == 1
    assert "there are no splits, so everything is read" in err
    # Where neither side has splits, or not this one, it is an error as ever.
    assert "unknown-split" in run("ygt", "ydet", "--split", "val", *SIZE, code=1)[1]
    err = run("whole", one, "--split", "nope", *SIZE, code=1)[1]
    assert "there is no split 'nope': the splits are train, val; set --split" in err


def test_sizes_that_cannot_be_told_are_explained(run, tmp_path):
    from PIL import Image

    make(tmp_path / "set", {"data.yaml": "train: images/train\nval: images/val\nnames: [cat, dog]\n"})
    for split, name in (("train", "a"), ("val", "a"), ("val", "b")):
        make(
            tmp_path / "set",
            {f"labels/{split}/{name}.txt": YOLO_GT["000000.txt"], f"images/{split}/.keep": ""},
        )
        Image.new("L", (200, 200)).save(tmp_path / "set" / "images" / split / f"{name}.png")
    make(tmp_path / "found", {f"{name}.txt": YOLO_DET["000000.txt"] for name in "abc"})
    err = run("set", "found", code=1)[1]
    assert "size-out-of-reach the size of image 'a' is unknown" in err
    assert (
        "the other side has 2 images with this name, 'train/a.png' and 'val/a.png'; select one split with"
        in err
    )
    assert "the size of image 'c'" in err
    assert "the other side has sizes, but no image with this name; remove it here" in err
    assert err.count("size-out-of-reach the") == 2
    (tmp_path / "found" / "c.txt").unlink()
    assert (
        json.loads(run("set", "found", "--split", "val", "--output", "json")[0])["results"][0]["summary"][
            "mAP"
        ]
        == 1
    )
    # Pictures that are given to both sides hide those of none.
    (tmp_path / "photos").mkdir()
    Image.new("L", (200, 200)).save(tmp_path / "photos" / "b.png")
    out = run("set", "found", "--split", "val", "--images", "photos", "--output", "json")[0]
    assert json.loads(out)["results"][0]["summary"]["mAP"] == 1


def test_extra_images(run, tmp_path):
    part = make(tmp_path / "part", {"000000.txt": GT["000000.txt"]})
    err = run(part, "det", code=1)[1]
    assert err.count("image-only-in-detections 2 images") == 1
    assert (
        "2 images in the detections but not in the ground truth: '000001', '000002'; remove" in err
    )  # no useless hint
    out, err = run(part, "det", "--extra-images", "ignore", "-v")
    assert "[changed: 2 extra images left out]" in out
    assert "2 images only in the detections left out, with 4 detections: '000001', '000002'" in err
    assert "100.00 %" in out


def test_several_results_files_of_the_same_images_are_no_run(run, tmp_path):
    results = json.loads((tmp_path / "results.json").read_text())
    for name in ("a", "b"):
        make(tmp_path / "runs", {f"{name}.json": json.dumps(results)})
        make(tmp_path / "parts", {f"{name}.json": json.dumps(results[:4] if name == "a" else results[2:])})
    err = run("voc", "runs", "-q", code=2)[1]
    assert "runs holds 2 files with detections of the same images: compare them with" in err
    assert "75.56 %" in run("voc", "runs", "--merge-runs")[0]
    per_class = {
        f"comp4_det_test_{name}.txt": f"{i:06} 0.9 1 1 9 9\n" for i in range(3) for name in ("cat", "dog")
    }
    assert run("voc", make(tmp_path / "classes", per_class), "-q")  # files of a class each are one run
    assert run("voc", "parts", "-q")  # one image of three is in both


def test_rename(run, tmp_path):
    make(tmp_path / "det", {name: text.replace("dog", "Doggy") for name, text in DET.items()})
    _, err = run("gt", "det")
    assert "eval --rename OLD=NEW" in err
    (tmp_path / "renames").write_text("Doggy=dog\n")
    for value in ("Doggy=dog", "@renames"):
        out, err = run("gt", "det", "--rename", value, "--output", "json")
        assert json.loads(out)["results"][0]["summary"]["mAP"] == 1
        assert "'Doggy' of 3 detections is read as 'dog'" in err
    assert "there is no class 'x'" in run("gt", "det", "--rename", "x=dog", code=2)[1]


def test_doubts_are_never_hidden(run):
    err = run("voc", "ydet", "-q", "--det-image-size", "200x200")[1]
    assert err.count("\n") == 2
    assert "warning class-order-guessed" in err
    assert "warning no-match none of the 6 detections" in err  # so the order is the wrong one
    err = run("voc", "results.json", "-q")[1]
    assert "warning category-position-guessed" in err
    assert "1 = 'dog', 2 = 'cat'" in err
    assert run("gt", "det", "-q", "--box", "ltrb")[1] == ""
    assert "warning" in run("ygt", "ydet", *SIZE)[1]
    assert run("ygt", "ydet", *SIZE, "-q")[1] == ""  # no doubt: both sides have the same numbers
    assert "warnings that cast doubt on the results" in " ".join(run("--help")[0].split())
    assert "warning nothing-left --score-min 50, above the highest score, 0.9," in run(
        "gt", "det", "-q", "--score-min", 50
    )[1]  # fmt: skip


def test_doubts_stand_before_the_numbers(run, tmp_path):
    import subprocess
    import sys

    command = [sys.executable, "-m", "odm", "eval", "voc", "ydet", "--det-image-size", "200x200"]
    for more in ([], ["-q"]):
        said = subprocess.run(
            [*command, *more],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        ).stdout
        assert said.count("warning class-order-guessed") == 1
        assert said.rindex("class-order-guessed") < said.index("voc2012:") < said.index("mAP")
    assert " 0 of them printed" in run("voc", "ydet", *command[6:], "--max-errors", 0)[1]


def test_category_ids_that_are_places_in_a_list_are_said(run, tmp_path):
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    text = (tmp_path / "results.json").read_text()
    shifted = text.replace('"category_id": 1', '"category_id": 0').replace(
        '"category_id": 2', '"category_id": 1'
    )
    (tmp_path / "results.json").write_text(shifted)
    err = run("ygt", "results.json", "--gt-image-size", "200x200", "--gt-classes", "classes.txt")[1]
    assert "category_id is read as the position in the ground truth's list, 0 = 'cat', 1 = 'dog'" in err


def test_numbers_that_the_other_side_names_are_not_called_names(run, tmp_path):
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    err = run("ygt", "ydet", *SIZE, "--gt-classes", "classes.txt")[1]
    assert "numbered-classes" not in err
    assert "positions from 0" in err
    assert "numbered-classes" in run("ygt", "ydet", *SIZE)[1]


@pytest.mark.parametrize("name", ["yolo", "YOLOv8", "yolo11n"])
def test_a_protocol_of_yolo_is_answered_with_those_there_are(run, name):
    err = run("nowhere", "also-nowhere", "--protocol", name, code=2)[1]
    assert "(did you mean 'ultralytics' or 'yolov5'?)" in err


@pytest.mark.parametrize("name", ["mota", "HOTA", "clear", "idf1"])
def test_a_metric_of_trackers_is_answered_with_what_computes_it(run, name):
    err = run("nowhere", "also-nowhere", "--protocol", name, code=2)[1]
    assert "are not computed" in err
    assert "TrackEval" in err
    assert "did you mean" not in err


def test_a_file_as_a_score_is_pointed_to_the_option_that_takes_one(run):
    err = run("nowhere", "also-nowhere", "--at-score", "thr.json", code=2)[1]
    assert "'thr.json' is not a number; --at-scores takes a file of thresholds" in " ".join(err.split())


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--iou", 1.5), "--iou 1.5: expected"),
        (("--max-dets", 0), "--max-dets 0: expected"),
        (("--at-score", "nan"), "--at-score nan: expected"),
        (("--score-min", "inf"), "--score-min inf: expected"),
        (("--area", "huge"), "--area huge: choose"),
        (("--fail-under", "nAP=0.5"), "there are: mAP"),
        (("--fail-under", "mAP=0.5", "--protocol", "coco"), "there are: AP, AP50, AP75, APs"),
        (("--fail-under", "map[cat]=0.5"), "there are: AP, precision"),
        (("--rename", "a"), "--rename a: give old=new"),
    ],
)
def test_wrong_values_are_said_before_anything_is_read(run, args, says):
    err = run("nowhere", "also-nowhere", *args, code=2)[1]
    assert says in err
    assert err.count("\n") == 1


def test_gates(run):
    run(
        "gt", "det", "--fail-under", "mAP=0.5", "--fail-under", "AP[cat]=0.5", "--fail-under", "recall[dog]=1"
    )
    err = run("gt", "det", "--fail-under", "AP[catt]=0.5", code=2)[1]
    assert "did you mean 'cat'?); there are: cat, dog" in err
    run("gt", "det", "--fail-under", "mAP=50%")


@pytest.mark.parametrize(
    ("protocol", "key"), [("coco", "AP"), ("coco", "AP[cat]"), ("lvis", "AP50"), ("voc2012", "mAP")]
)
def test_perfect_detections_pass_a_gate_of_one(run, tmp_path, protocol, key):
    """Of a single object of a class pycocotools computes a precision of 0.9999999999999998."""
    for folder in ("gt", "det"):
        for i in (1, 2):
            (tmp_path / folder / f"00000{i}.txt").write_text("")
    run("gt", "det", "-q", "--protocol", protocol, "--fail-under", f"{key}=1")


def test_every_gate_is_said(run, tmp_path):
    """Also those beside one about a class that nobody has; and a number can be told from its bound."""
    make(tmp_path / "det", {"000000.txt": "cat 0.9 10 20 100 120\n", "000001.txt": "", "000002.txt": ""})
    gates = ("mAP=0.9", "AP[bird]=0.1", "AP[cat]=0.33333334", "AP[cat]=0.3", "AP[cow]=0.1")
    options = [text for gate in gates for text in ("--fail-under", gate)]
    out, err = run("gt", "det", "-q", *BOX, *options, "--save", tmp_path / "saved", code=2)
    assert "mAP = 16.67 %" in out
    assert (tmp_path / "saved" / "per_class.csv").exists()
    assert [line.partition("; ")[0] for line in err.splitlines()] == [
        "odm: gate failed: mAP 0.167 < 0.9",
        "odm: gate failed: AP[cat] 0.333 < 0.33333334",
        "odm: error: --fail-under AP[bird]=0.1: no result has 'bird'",
        "odm: error: --fail-under AP[cow]=0.1: no result has 'cow'",
    ]
    run("gt", "det", "-q", "--fail-under", "AP[cat]=0.3333333334")  # as much as rounding may take away
    near = "AP[cat]=0.3333333353"
    assert run("gt", "det", "-q", *BOX, "--fail-under", near, code=1)[1].endswith(
        "AP[cat] 0.333 < 0.3333333353\n"
    )
    near = "mAP=0.1666667"
    assert run("gt", "det", "-q", *BOX, "--fail-under", near, code=1)[1].endswith(
        "mAP 0.16666667 < 0.1666667\n"
    )


@pytest.mark.parametrize(
    ("protocols", "gate", "says"),
    [
        (("coco",), "mAP50=0.9", ""),
        (("coco",), "mAP50-95[cat]=99%", ""),
        (("coco",), "mAP75[cat]=0.9", ""),
        (("coco", "voc2012"), "mAP=1", ""),
        (("coco", "voc2012"), "coco:mAP50=1", ""),
        (
            ("coco", "voc2012"),
            "AP[cat]=1",
            "AP[cat] fits 2 results; name one of coco:AP[cat], voc2012:AP[cat]",
        ),
        (("coco", "voc2012"), "voc2012:AP[cat]=1", ""),
        (("coco", "lvis"), "mAP50=0.5", "mAP50 fits 2 results; name one of coco:mAP50, lvis:mAP50"),
        (("voc2012", "voc2007"), "mAP=0.5", "name one of voc2012:mAP, voc2007:mAP"),
        (
            ("voc2012",),
            "mAP50=0.5",
            "lvis or ultralytics or yolov5 or aitod or soda-d or visdrone has it); there are: mAP",
        ),
        (("voc2012",), "coco:AP=0.5", "no result is of the protocol 'coco'; there are: voc2012"),
        (("coco",), "coco:mAP=0.5", "there are: AP, AP50"),
        (("ultralytics",), "mAP=0.5", "(did you mean 'mAP50-95'?)"),
        (("coco",), "mAP=0.5", "(did you mean 'AP'?)"),
    ],
)
def test_a_metric_may_have_other_names_and_a_protocol(run, protocols, gate, says):
    options = [text for protocol in protocols for text in ("--protocol", protocol)]
    _, err = run("gt", "det", "-q", *options, "--fail-under", gate, code=2 if says else 0)
    assert says in err


def test_the_mean_over_other_ious_is_not_called_that_of_coco(run):
    options = ("gt", "det", "-q", "--protocol", "coco", "--iou", 0.5, "--iou", 0.7, "--fail-under")
    assert "leave out --iou" in run(*options, "mAP50-95=0.1", code=2)[1]
    run(*options, "AP=0.1")
    run(*options, "mAP50=0.1")


def test_a_metric_of_one_of_several_ious_is_named_with_it(run):
    options = ("gt", "det", "-q", "--iou", 0.3, "--iou", 0.5)
    _, err = run(*options, "--fail-under", "mAP=0.5", code=2)
    assert "fits 2 results; name one of voc2012@0.3:mAP, voc2012@0.5:mAP" in err
    run(*options, "--fail-under", "voc2012@0.3:mAP=0.5")
    run(*options, "--fail-under", "voc2012@0.7:mAP=0.5", code=2)


def test_an_undefined_number_fails_a_gate(run):
    err = run("gt", "det", "-q", *BOX, "--protocol", "coco", "--fail-under", "APs=0.1", code=1)[1]
    assert err == "odm: gate failed: APs is undefined, not 0.1 or more\n"


def test_lvis_by_what_each_image_was_searched_for(run, tmp_path):
    """A hit, a class nobody looked for, one not boxed exhaustively, one that is absent, and a miss."""
    images = [{"id": i, "file_name": f"{i}.jpg", "width": 200, "height": 200, "neg_category_ids": [],
               "not_exhaustive_category_ids": []} for i in (1, 2)]  # fmt: skip
    images[1] |= {"neg_category_ids": [2], "not_exhaustive_category_ids": [1]}
    boxes = [
        {"id": i, "image_id": i, "category_id": 1, "bbox": [30, 40, 50, 50], "area": 2500} for i in (1, 2)
    ]
    classes = [{"id": i, "name": name, "frequency": f} for i, name, f in ((1, "cat", "f"), (2, "dog", "r"))]
    (tmp_path / "lvis.json").write_text(
        json.dumps({"images": images, "annotations": boxes, "categories": classes})
    )
    places = [(1, 1, 30), (1, 2, 30), (2, 1, 100), (2, 2, 30), (1, 1, 130)]
    found = [
        {"image_id": image, "category_id": c, "bbox": [x, 40, 50, 50], "score": 0.9 - 0.1 * n}
        for n, (image, c, x) in enumerate(places)
    ]
    (tmp_path / "found.json").write_text(json.dumps(found))
    out, err = run("lvis.json", "found.json", "--protocol", "lvis", "--output", "json")
    result = json.loads(out)["results"][0]
    counts = [
        [row[key] for key in ("class", "frequency", "tp", "fp", "ignored")] for row in result["classes"]
    ]
    assert counts == [["cat", "f", 1, 1, 1], ["dog", "r", 0, 1, 0]]
    assert result["dropped"] == {"class neither annotated nor labelled on the image": 1}
    assert list(result["summary"])[6:10] == ["APr", "APc", "APf", "AR300"]
    assert (result["summary"]["APr"], result["summary"]["AR300"]) == (None, 0.5)
    out, err = run(
        "lvis.json", "found.json", "--protocol", "lvis", "--fail-under", "APf=0.5", "--max-dets", 2
    )
    assert " AP @[ IoU=0.50:0.95 | area=   all | maxDets=  2 catIds=  f] = 0.505" in out
    assert "1 detections dropped: over the limit of 2 per image" in err
    run("lvis.json", "found.json", "--protocol", "lvis", "--fail-under", "APr=0.1", code=1)
    _, err = run("gt", "det", "--protocol", "lvis", "-v")
    assert "there are no image-level labels" in err
    assert "no class frequencies" in err
