"""The analyses of ``odm eval`` and ``odm agree``, run in this process: output, files and exit codes."""

import csv
import json
import re
from pathlib import Path

import analysis_cases as cases
import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import odm
from odm.cli._app import app
from odm.evaluate.analysis.analyses import ANALYSES
from odm.issues import Log, OdmError
from odm.tables import Dataset, Flag


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, dataset in (("gt", cases.truth()), ("a", cases.detections())):
        odm.write(dataset, f"{name}.csv", "csv")
    Path("tags.csv").write_text("image,light\n1,day\n2,night\n")
    return tmp_path


def run(*words):
    """The standard output; a refusal raises as it does for a caller of the library."""
    done = CliRunner().invoke(app, [str(w) for w in words], standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.stdout


def evaluated(*words):
    return run("eval", "gt.csv", "a.csv", "--protocol", "coco", "--quiet", *words)


def test_analyses_in_the_json_contract(data):
    found = json.loads(evaluated("--analyze", "all", "--tags", "tags.csv", "--output", "json"))["results"][0]
    analysis = found["analysis"]
    assert tuple(analysis) == ANALYSES
    assert analysis["tide"]["Cls"] == {"dap": pytest.approx(0.1591859185918588), "count": 1}
    assert set(analysis["tide"]["FalseNeg"]) == {"dap"}
    gains = {row["class"]: row["Loc"] for row in analysis["tide"]["classes"]}
    assert gains == {"cat": 0, "dog": 0, "bird": pytest.approx(3 * 0.1661166116611659)}
    assert analysis["lrp"]["olrp"] == pytest.approx(0.738888888888889)
    assert {c["class"]: c["score"] for c in analysis["lrp"]["classes"]} == {
        "cat": 0.97,
        "dog": 0.63,
        "bird": 0.66,
    }
    assert analysis["calibration"]["mce"] == pytest.approx(0.74)
    assert len(analysis["calibration"]["bins"]) == 10
    assert [row["image"] for row in analysis["images"]] == ["2", "3", "1", "4", "5", "6"]
    values = {(row["slice"], row["value"]) for row in analysis["slices"]}
    assert {("light", "day"), ("light", "(none)"), ("gt per image", "0"), ("area", "small")} <= values


def test_analyses_as_text_and_csv(data):
    text = evaluated("--analyze", "all")
    assert re.search(r"^Cls +15.92 % +1$", text, re.MULTILINE)
    assert re.search(r"^bird +0.00 % +49.83 % +8.42 % +0.00 % +0.00 % +0.00 %$", text, re.MULTILINE)
    assert "calibration: D-ECE 0.3764, maximum 0.7400" in text
    assert all(len(line) <= 80 for line in text.partition("(TIDE)")[2].splitlines())
    markdown = evaluated("--analyze", "tide,lrp", "--output", "markdown")
    assert "| Cls" in markdown
    *classes, last = csv.DictReader(
        evaluated("--analyze", "all", "--ci", "--replicates", 20, "--output", "csv").splitlines()
    )
    assert float(classes[0]["olrp"]) == pytest.approx(2 / 3)
    assert float(classes[0]["dece"]) == pytest.approx(0.464)
    assert float(last["tide_Cls_dap"]) == pytest.approx(0.1591859185918588)
    assert float(classes[2]["tide_Loc_dap"]) == pytest.approx(3 * 0.1661166116611659)
    assert float(last["ap_low"]) < float(last["ap"]) < float(last["ap_high"])


@pytest.mark.parametrize("protocol", ["corloc", "imagenet-loc"])
def test_protocols_without_ap_per_class_say_why(data, protocol):
    words = ("eval", "gt.csv", "a.csv", "--protocol", protocol, "--quiet", "--analyze", "all")
    found = json.loads(run(*words, "--output", "json"))["results"][0]["analysis"]
    assert "no AP per class" in found["tide"]["reason"]
    assert found["lrp"]["olrp"] is None
    assert "every object" in found["lrp"]["reason"]
    assert f"tide: {protocol} has no AP per class" in run(*words)


def test_intervals_of_one_run(data):
    found = json.loads(evaluated("--ci", "--replicates", 100, "--output", "json"))["results"][0]
    assert set(found["intervals"]) == set(found["summary"])
    low, high = found["intervals"]["AP50"]
    assert 0 <= low < found["summary"]["AP50"] < high <= 1
    assert found["summary"]["APs"] is not None
    assert found["intervals"]["APs"] == [None, None]
    words = "--ci", "--replicates", 100, "--bootstrap-areas", "--output", "json"
    areas = json.loads(evaluated(*words))["results"][0]
    low, high = areas["intervals"].pop("APs")
    assert 0 <= low < found["summary"]["APs"] < high <= 1
    assert areas["intervals"]["AP50"] == found["intervals"]["AP50"]
    assert found == json.loads(evaluated("--ci", "--replicates", 100, "--output", "json"))["results"][0]


def test_slices_of_some_images_only(data):
    words = ("--only-images", "1,2,3", "--analyze", "slices", "--output", "json")
    rows = json.loads(evaluated(*words))["results"][0]["analysis"]["slices"]
    assert sum(row["images"] for row in rows if row["slice"] == "gt per image") == 3


def test_images_that_were_not_evaluated_are_not_listed(data):
    words = ("--only-images", "1,2,3", "--analyze", "images", "--save", "some", "--output", "json")
    found = json.loads(evaluated(*words))["results"][0]["analysis"]["images"]
    saved = list(csv.DictReader(Path("some/images.csv").read_text().splitlines()))
    assert {row["image"] for row in found} == {row["image"] for row in saved} == {"1", "2", "3"}


def test_thresholds_know_the_images_that_they_were_chosen_on(data):
    digests = []
    for images in ("1,2,3", "3,2,1", "4,5,6"):
        words = ("--thresholds", "f1", "--save-thresholds", "t.json", "--overwrite")
        evaluated(*words, "--only-images", images)
        digests.append(json.loads(Path("t.json").read_text())["images"])
    assert digests[0] == digests[1] != digests[2]


def test_files_of_save(data):
    evaluated("--save", "out")
    tables = {p.stem: list(csv.DictReader(p.read_text().splitlines())) for p in Path("out").glob("*.csv")}
    assert [(r["class"], r["file"], r["line"]) for r in tables["missed"]] == [
        ("cat", "gt.csv", "4"), ("bird", "gt.csv", "5"), ("dog", "gt.csv", "7"),
    ]  # fmt: skip
    assert [(r["kind"], r["file"], r["line"]) for r in tables["suspects"]] == [
        ("class", "gt.csv", "4"), ("location", "gt.csv", "5"), ("both", "a.csv", "9"), ("missing", "a.csv", "13"),
        ("spurious", "gt.csv", "7"),
    ]  # fmt: skip
    review = Path("out/review.txt").read_text().splitlines()
    assert review == list(dict.fromkeys(r["image"] for r in tables["suspects"]))
    assert [r["image"] for r in tables["images"]] == ["2", "3", "1", "4", "5", "6"]
    assert tables["images"][0]["at"] == "0.42, the best F1 of all classes"
    first, second = tables["detections"][:2]
    assert (first["gt_file"], first["gt_line"], second["gt_file"]) == ("gt.csv", "2", "")


def test_thresholds_are_written_and_used(data):
    printed = evaluated("--thresholds", "recall:0.6")
    lines = printed.splitlines()
    table = next(i for i, line in enumerate(lines) if line.startswith("(all)"))
    assert lines.index("score thresholds by the rule recall:0.6; -: no detection is kept") > table
    assert [line.split() for line in lines if line.startswith("bird")][-1] == ["bird", "-", "-", "0"]
    given = json.loads(evaluated("--thresholds", "recall:0.6", "--output", "json", "-q"))["results"][0]
    assert given["analysis"]["thresholds"]["classes"]["cat"]["score"] == 0.42
    assert evaluated("--thresholds", "recall:0.6", "--save-thresholds", "t.json") == printed
    stored = json.loads(Path("t.json").read_text())
    assert stored["classes"]["bird"]["score"] is None
    assert {k: stored[k] for k in ("version", "rule", "protocol", "iou")} == {
        "version": 1, "rule": "recall:0.6", "protocol": "coco", "iou": 0.5,
    }  # fmt: skip
    rows = json.loads(evaluated("--at-scores", "t.json", "--output", "json"))["results"][0]["classes"]
    points = {row["class"]: (row["score"], row["precision"], row["recall"]) for row in rows}
    assert points["cat"] == (0.42, 0.5, pytest.approx(2 / 3))
    assert points["bird"] == (None, None, 0)
    done = CliRunner().invoke(
        app, "eval gt.csv a.csv --protocol coco --at-scores t.json".split(), standalone_mode=False
    )
    assert "chosen on the same images" in done.stderr
    evaluated("--at-scores", "t.json", "--save", "out")
    first = next(csv.DictReader(Path("out", "images.csv").read_text().splitlines()))
    assert first["at"] == "the scores of t.json"


def test_class_agnostic_evaluation(data):
    found = json.loads(evaluated("--class-agnostic", "--output", "json"))["results"][0]
    assert found["summary"]["AP"] == pytest.approx(0.418176996271056)
    assert found["summary"]["AP50"] == pytest.approx(0.539266426642664)
    assert found["summary"]["AR1"] == pytest.approx(0.55)
    assert found["summary"]["AR100"] == pytest.approx(0.5875)
    assert "classes ignored" in found["definition"]


@pytest.mark.parametrize("name", ["lvis", "openimages-challenge"])
def test_class_agnostic_has_no_meaning_where_classes_are_looked_at(data, name):
    with pytest.raises(OdmError, match=r"class.agnostic"):
        run("eval", "gt.csv", "a.csv", "--protocol", name, "--class-agnostic")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--analyze", "tid"), "--analyze tid: unknown analysis"),
        (("--analyze", ""), "--analyze: choose from"),
        (("--thresholds", "f3"), "--thresholds f3: give f1"),
        (("--save-thresholds", "x.json"), "needs --thresholds"),
        (("--thresholds", "f1", "--iou", "0.5", "--iou", "0.6", "--protocol", "voc2007"), "single protocol"),
        (("--at-scores", "tags.csv"), "tags.csv: invalid JSON"),
        (("--at-scores", "none.json"), "none.json"),
        (("--at-scores", "t.json", "--at-score", "0.5"), "cannot be combined"),
        (("--tags", "tags.csv"), "needs --analyze slices"),
        (("--ci", "--replicates", "0"), "--replicates 0"),
        (("--bootstrap-areas",), "needs --ci"),
    ],
)
def test_options_that_make_no_sense(data, words, says):
    with pytest.raises(OdmError, match=says):
        evaluated(*words)


# ---------------------------------------------------------------------------------------------- agreement


def second():
    rows = [
        ("cat", "1", 12, 10, 40, 40), ("cat", "1", 100, 100, 50, 40), ("cat", "2", 20, 20, 40, 40),
        ("dog", "3", 50, 50, 60, 48), ("bird", "3", 150, 10, 30, 30), ("dog", "3", 0, 150, 20, 20),
    ]  # fmt: skip
    return Dataset.from_arrays(
        images=["1", "2", "3"],
        categories=cases.CLASSES,
        image=[int(r[1]) - 1 for r in rows],
        category=[cases.CLASSES.index(r[0]) for r in rows],
        ltwh=[r[2:] for r in rows],
    )


HOSTILE = ("<b>cat</b>", "a|b", "@all #1")


def test_agreement_of_two_files(data):
    odm.write(second(), "b.csv", "csv")
    found = json.loads(run("agree", "gt.csv", "b.csv", "--quiet", "--output", "json"))
    assert (found["pairs"], found["boxes"]) == (5, [6, 6])  # the images 4, 5 and 6 are left out
    assert found["f1_location"] == pytest.approx(0.833333, abs=1e-6)
    assert found["kappa"] == pytest.approx(0.375)
    text = run("agree", "gt.csv", "b.csv", "--quiet")
    assert "F1 of locations 0.8333, of locations and classes 0.5000" in text
    assert run("agree", "gt.csv", "b.csv", "--quiet", "--output", "csv").startswith(
        "class,f1,first,other,pairs\ncat,0.8,"
    )
    assert "| cat" in run("agree", "gt.csv", "b.csv", "--quiet", "--output", "markdown")
    hostile = replace(second(), categories=replace(second().categories, name=HOSTILE))
    odm.write(hostile, "h.csv", "csv")
    shown = run("agree", "h.csv", "h.csv", "--quiet", "--output", "markdown")
    assert "\\|" in shown
    assert not any(name in shown for name in HOSTILE)
    with pytest.raises(OdmError, match="--iou 2"):
        run("agree", "gt.csv", "b.csv", "--iou", "2")


def test_agreement_says_what_it_leaves_out():
    other, log = second(), Log()
    flags = np.array([Flag.CROWD, Flag.GROUP_OF, 0, 0, 0, 0], np.uint16)
    found = odm.agree(cases.truth(), replace(other, boxes=replace(other.boxes, flags=flags)), log=log)
    assert found.to_dict()["boxes"] == [6, 4]
    assert [note.partition("left out: ")[2] for note in log.notes] == [
        "3 images that the other side lacks",
        "1 box of crowds or groups",
        "2 boxes of crowds or groups",
    ]


def test_the_list_of_pairs(data):
    """Every box is in one row: with that of the other annotator, or alone."""
    odm.write(second(), "b.csv", "csv")
    run("agree", "gt.csv", "b.csv", "--quiet", "--save", "saved")
    rows = list(csv.DictReader(Path("saved/pairs.csv").read_text().splitlines()))
    both = [row for row in rows if row["first_class"] and row["other_class"]]
    assert (len(rows), len(both)) == (7, 5)
    told = json.loads(Path("saved/agreement.json").read_text())
    assert sum(row["first_class"] == row["other_class"] for row in both) == sum(
        c["pairs"] for c in told["classes"]
    )
    assert sum(float(row["iou"]) for row in both) / 5 == pytest.approx(told["mean_iou"])
    assert {(row["first_file"], row["other_file"]) for row in both} == {("gt.csv", "b.csv")}
    lines = [int(row["other_line"]) for row in rows if row["other_line"]]
    assert sorted(lines) == list(range(2, 8))
    assert Path("saved/classes.csv").read_text().startswith("class,f1,first,other,pairs\n")


def test_annotators_without_anything_in_common(data):
    other = second()
    for images, classes, says in (
        (["x", "y", "z"], cases.CLASSES, "no image"),
        (["1", "2", "3"], ["p", "q", "r"], "no class"),
    ):
        boxes = other.boxes
        changed = Dataset.from_arrays(
            images=images, categories=classes, image=boxes.image, category=boxes.category, xyxy=boxes.xyxy
        )
        odm.write(changed, "c.csv", "csv", overwrite=True)
        with pytest.raises(OdmError, match=says):
            run("agree", "gt.csv", "c.csv")


def test_annotators_give_each_other_what_their_files_lack(tmp_path):
    """YOLO labels without pictures take the sizes of the other side's images."""
    data = Dataset.from_arrays(
        images=["a.jpg"], width=[64], height=[48], categories=["x"], image=[0], category=[0], ltwh=[[8, 6, 32, 24]]
    )  # fmt: skip
    odm.write(data, str(tmp_path / "a"), "yolo")
    odm.write(data, str(tmp_path / "b.json"), "coco")
    for sides in (("a", "b.json"), ("b.json", "a")):
        found = json.loads(run("agree", *(tmp_path / side for side in sides), "--quiet", "--output", "json"))
        assert found["f1"] == 1
