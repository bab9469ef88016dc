"""``odm compare`` and ``odm agree`` as typed: output, files, exit codes."""

import csv
import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import odm


def load_beside(name):
    """A module of this folder that holds no tests."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


cases = load_beside("analysis_cases")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    for name, dataset in (("gt", cases.truth()), ("a", cases.detections()), ("b", cases.detections_b())):
        odm.write(dataset, folder / f"{name}.csv", "csv")
    (folder / "tags.csv").write_text("image,light,place\n1,day,a\n2,night,\n2,day,b\n3,day,a\n9,day,a\n")
    return folder


def run(folder, *words, code=0):
    environment = {**os.environ, "PYTHONWARNINGS": "error", "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-m", "odm", *map(str, words)],
        capture_output=True, text=True, cwd=folder, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


COCO = ("gt.csv", "a.csv", "b.csv", "--protocol", "coco", "--quiet", "--replicates", 200)


def test_the_json_contract(data):
    out, _ = run(data, "compare", *COCO, "--output", "json", "--tags", "tags.csv")
    found = json.loads(out)
    assert found["version"] == 1
    assert [r["name"] for r in found["runs"]] == ["a.csv", "b.csv"]
    assert found["runs"][0]["summary"]["AP50"] == pytest.approx(0.370187018701870)
    assert found["runs"][1]["summary"]["AP50"] == pytest.approx(0.462046204620462)
    low, high = found["runs"][0]["intervals"]["AP50"]
    assert 0 <= low < 0.370187 < high <= 1
    delta = next(d for d in found["deltas"] if (d["key"], d["class"]) == ("AP50", None))
    assert set(delta) == {"run", "key", "class", "delta", "low", "high", "p_better", "p", "p_holm"}
    assert delta["delta"] == pytest.approx(0.09185918591859)
    ranges = next(d for d in found["deltas"] if d["key"] == "APm")
    assert ranges["low"] is ranges["p"] is None
    assert "area ranges" in ranges["reason"]
    assert found["images"][0]["image"] == "1"
    slices = {(s["slice"], s["value"]): s for s in found["slices"]}
    assert set(slices) == {("light", "day"), ("light", "night"), ("light", "(none)"),
                           ("place", "a"), ("place", "b"), ("place", "(none)")}  # fmt: skip
    assert slices["light", "day"]["images"] == 3
    assert slices["light", "day"]["summary"]["AP50"] is not None
    again, _ = run(data, "compare", *COCO, "--output", "json", "--tags", "tags.csv")
    assert again == out


def test_areas_are_bootstrapped_on_request(data):
    out, _ = run(data, "compare", *COCO, "--output", "json", "--bootstrap-areas")
    assert next(d for d in json.loads(out)["deltas"] if d["key"] == "APm")["low"] is not None


def test_the_table_fits_a_terminal(data):
    out, _ = run(data, "compare", *COCO, "--tags", "tags.csv")
    lines = out.splitlines()
    assert "B: b.csv" in lines
    assert all(len(line) <= 80 for line in lines[1:])
    assert any(line.startswith("AP50") and "37.02 %" in line and "+9.19" in line for line in lines)
    assert "cat 0.97 to 0.86" in out


@pytest.mark.parametrize("output", ["csv", "markdown"])
def test_other_outputs(data, output):
    out, _ = run(data, "compare", *COCO, "--output", output)
    if output == "csv":
        rows = list(csv.DictReader(out.splitlines()))
        assert rows[1]["key"] == "AP50"
        assert float(rows[1]["delta"]) == pytest.approx(0.09185918591859)
    else:
        assert [c.strip() for c in next(x for x in out.splitlines() if "AP50" in x).split("|")][1:3] == [
            "AP50",
            "37.02 %",
        ]


def test_files_of_save(data, tmp_path):
    out, _ = run(data, "compare", *COCO, "--tags", "tags.csv", "--save", tmp_path / "x", "--output", "json")
    names = {p.name for p in (tmp_path / "x").iterdir()}
    assert names == {"comparison.json", "summary.csv", "classes.csv", "images.csv", "slices.csv"}
    assert (tmp_path / "x" / "comparison.json").read_text() == out
    rows = list(csv.DictReader((tmp_path / "x" / "images.csv").open()))
    assert list(rows[0]) == ["run", "image", "delta_error", "error_first", "error_other",
                             "new_fn", "new_fp", "lost_tp", "gained_tp"]  # fmt: skip
    assert rows[0]["delta_error"] == "1.0"
    rows = list(csv.DictReader((tmp_path / "x" / "slices.csv").open()))
    assert {row["slice"] for row in rows} == {"light", "place"}
    run(data, "compare", *COCO, "--save", tmp_path / "x", code=3)


@pytest.mark.parametrize(
    ("gate", "code"),
    [
        (("--fail-on-regression", "AP50"), 0),
        (("--fail-on-regression", "mAP50"), 0),
        (("--fail-on-regression", "coco:mAP50-95[cat]"), 0),
        (("--fail-on-regression", "voc2012:mAP50"), 2),
        (("--require-no-worse", "mAP50=0.1"), 1),
        (("--require-no-worse", "AP50=0.1"), 1),
        (("--require-no-worse", "AP50=60%"), 0),
        (("--fail-on-regression", "AP[bird]"), 1),
        (("--fail-on-regression", "AP5"), 2),
        (("--fail-on-regression", "AP50[cat]"), 2),
        (("--fail-on-regression", "AP[cow]"), 2),
        (("--require-no-worse", "AP50"), 2),
    ],
)
def test_gates(data, gate, code):
    _, err = run(data, "compare", *COCO, *gate, code=code)
    assert ("gate failed: " + gate[0] in err) == (code == 1)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("gt.csv", "a.csv"), 2, "at least two runs"),
        (("gt.csv", "a.csv", "a.csv"), 2, "given twice"),
        (("gt.csv", "a.csv", "b.csv", "--replicates", "0"), 2, "--replicates 0"),
        (("gt.csv", "a.csv", "b.csv", "--level", "1"), 2, "--level 1"),
        (("gt.csv", "a.csv", "b.csv", "--iou", "0"), 2, "--iou 0"),
        (("gt.csv", "a.csv", "none.csv"), 3, "none.csv"),
        (("gt.csv", "a.csv", "b.csv", "--tags", "none.csv"), 3, "none.csv"),
        (("gt.csv", "a.csv", "b.csv", "--tags", "a.csv", "--replicates", "2"), 0, ""),
        (("gt.csv", "a.csv", "b.csv", "--tags", "bad.csv"), 2, "bad.csv:1: expected a header"),
        (("gt.csv", "a.csv", "b.csv", "--tags", "short.csv"), 2, "short.csv:2: expected 2 columns, found 1"),
        (("gt.csv", "a.csv", "b.csv", "--tags", "strange.csv"), 2, "none of its 1 images"),
    ],
)
def test_usage_errors(data, words, code, says):
    (data / "bad.csv").write_text("picture,x\n1,2\n")
    (data / "short.csv").write_text("image,x\n1\n")
    (data / "strange.csv").write_text("image,x\nzebra,2\n")
    _, err = run(data, "compare", *words, code=code)
    assert says in err


def test_only_some_images_are_drawn(data):
    limited, _ = run(data, "compare", *COCO, "--output", "json", "--only-images", "1,2,3")
    found = json.loads(limited)
    assert {row["image"] for row in found["images"]} == {"1", "2", "3"}
    assert found["runs"][0]["summary"]["AP50"] == pytest.approx(0.315731573157316)
    assert not math.isnan(found["runs"][0]["intervals"]["AP50"][0])


def test_what_is_said_of_the_ground_truth_is_said_once(data):
    _, err = run(data, "compare", "gt.csv", "a.csv", "b.csv", "--replicates", 2)
    assert err.count("(groups-as-objects 1)") == 1
    assert err.count("ordinary object") == 1


def test_the_report_shows_two_runs(data, tmp_path):
    target = tmp_path / "r.html"
    run(data, "compare", *COCO, "--report", target, "--report-title", "Old and new")
    page = target.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "Old and new" in page
    run(data, "compare", *COCO, "--report", target, code=3)  # it exists
    _, said = run(data, "compare", "gt.csv", "a.csv", "b.csv", "c.csv", "--report", "x.html", code=2)
    assert "give A and one B" in said
