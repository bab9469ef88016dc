"""What a person types first, from the help only, and what is printed at a slip."""

import json
import subprocess
import sys

import click
import pytest

from odm.cli import _app

IMAGES = [
    {"id": i, "file_name": f"{'night' if i % 2 else 'day'}_{i}.jpg", "width": 200, "height": 200}
    for i in range(6)
]
TRUTH = {
    "images": IMAGES,
    "annotations": [
        {"id": i, "image_id": i % 6, "category_id": 1 + i % 2, "bbox": [10, 10, 20 + 8 * i, 30], "area": 600 + 240 * i, "iscrowd": 0}
        for i in range(12)
    ],
    "categories": [{"id": 1, "name": "car"}, {"id": 2, "name": "person"}],
}  # fmt: skip
RESULTS = [{k: a[k] for k in ("image_id", "category_id", "bbox")} | {"score": 0.05 * (i + 1)} for i, a in
           enumerate(TRUTH["annotations"])]  # fmt: skip


@pytest.fixture
def run(tmp_path, monkeypatch, odm_run):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "gt.json").write_text(json.dumps(TRUTH))
    (tmp_path / "det.json").write_text(json.dumps(RESULTS))
    return odm_run


def last(text):
    return text.strip().splitlines()[-1]


@pytest.mark.parametrize("words", [("--confusion",), ("--confusion", "counts"), ("--confusion=counts",)])
def test_the_confusion_matrix_needs_no_word(run, words):
    out, _ = run("eval", "gt.json", "det.json", *words)
    assert "IoU >= 0.5: counts\n" in out
    assert (
        "shares of each detected class" in run("eval", "gt.json", "det.json", "--confusion", "det", "-q")[0]
    )


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("cocoo", "(did you mean 'coco'?)"),
        ("voc", "(did you mean 'voc2012' or 'voc2007'?)"),
        ("xyz", ("'dota'", "'tube'")),
        ("", ("'dota'", "'tube'")),
    ],
)
@pytest.mark.parametrize("command", [("eval", "gt.json"), ("compare", "gt.json", "det.json")])
def test_an_unknown_protocol_is_answered_with_the_one_most_like_it(run, command, word, advice):
    _, err = run(*command, "det.json", "--protocol", word, code=2)
    assert last(err).rstrip(".").endswith(advice)


def test_a_protocol_in_capitals(run):
    assert run("eval", "gt.json", "det.json", "--protocol", "COCO")[0] == run(
        "eval", "gt.json", "det.json", "--protocol", "coco"
    )[0]  # fmt: skip


def test_a_list_of_images_that_lacks_its_mark(run, tmp_path):
    (tmp_path / "night.txt").write_text("night_1.jpg\nnight_3.jpg\n")
    _, err = run("eval", "gt.json", "det.json", "--only-images", "night.txt", code=2)
    assert last(err) == "odm: error: --only-images night.txt: for the names in this file give @night.txt"
    assert "only 2 images" in run("eval", "gt.json", "det.json", "--only-images", "@night.txt")[0]


@pytest.mark.parametrize("option", ["--only-images", "--only-classes"])
def test_names_that_are_none(run, tmp_path, option):
    (tmp_path / "empty.txt").write_text("\n")
    texts = ["", ","] + ["@empty.txt"] * (option == "--only-images")
    for text in texts:
        _, err = run("eval", "gt.json", "det.json", option, text, code=2)
        assert last(err) == f"odm: error: {option} {text!r}: there is no name in it"
    _, err = run("eval", "gt.json", "det.json", option, "nowhere", code=2)
    assert last(err).startswith(f"odm: error: {option}: there is no ")


def test_areas_with_one_end(run):
    out, _ = run(
        *("eval", "gt.json", "det.json", "--protocol", "coco"),
        *("--area", "low=:1000", "--area", "high=2000:", "--output", "json"),
    )
    closed, _ = run(
        *("eval", "gt.json", "det.json", "--protocol", "coco"),
        *("--area", "low=0:1000", "--area", "high=2000:1e10", "--output", "json"),
    )
    first, second = (json.loads(text)["results"][0]["summary"] for text in (out, closed))
    assert first == second
    assert 0 < first["AP@high"] <= 1
    for text in (":", "1:2:", "9:3", "-3:", "inf:", "0:inf", "nan:"):
        assert "--area" in run("eval", "gt.json", "det.json", "--protocol", "coco", "--area", text, code=2)[1]


def test_the_summary_names_the_area_and_the_mean_that_it_is_of(run):
    coco = ("eval", "gt.json", "det.json", "--protocol", "coco")
    out, _ = run(*coco, "--area", "small")
    assert "area= small | maxDets=  1" in out
    assert "area=   all" not in out
    assert "; area 0..1024 (small); " in out
    assert "; area 0..400; " in run(*coco, "--area", "0:400")[0].replace("\n  ", " ")
    assert last(run(*coco)[0]).startswith("AP (mAP50-95) ")
    assert last(run(*coco, "--iou", 0.5)[0]).startswith("AP 1.000, AP50 (mAP50) ")


def test_an_unknown_metric_is_answered_with_what_can_be_typed(run):
    coco = ("eval", "gt.json", "det.json", "--protocol", "coco", "--fail-under")
    assert "(did you mean 'mAP50-95'?)" in run(*coco, "mAP50_95=0.1", code=2)[1]
    _, err = run(*coco, "mAP[car]=0.1", code=2)
    assert "(did you mean 'AP'?); there are: AP, precision, recall, F1, score, " in err
    for key in ("AP", "F1", "ap", "f1", "recall", "AP50"):
        run(*coco, f"{key}[car]=0.1")


def test_convert_without_a_target(run):
    assert last(run("convert", "gt.json", code=2)[1]) == "Error: Missing argument 'DST'."
    assert last(run("convert", code=2)[1]) == "Error: Missing argument 'SRC...'."


def test_split_into_is_shown_as_it_was_typed(run):
    _, err = run("convert", "gt.json", "out", "--to", "coco", "--split-into", "80,20", code=2)
    assert last(err).startswith("odm: error: --split-into 80,20: ")


@pytest.mark.parametrize("name", ["run.pdf", "run.MD", "run.json"])
def test_a_report_is_no_other_file(run, tmp_path, name):
    _, err = run("eval", "gt.json", "det.json", "--report", name, code=2)
    assert last(err) == f"odm: error: {name}: a report is HTML: name it NAME.html, or name a folder"
    assert not (tmp_path / name).exists()
    run("eval", "gt.json", "det.json", "--report", "run.v2")


@pytest.fixture
def broken(tmp_path, run):
    del run
    data = json.loads(json.dumps(TRUTH))
    rows = data["annotations"]
    rows[0]["bbox"] = [1, 2, 3]
    rows[1]["category_id"] = 77
    rows[2]["bbox"] = [10, 10, 900, 30]
    rows[3] |= {"bbox": [40, 10, -20, 30], "area": 600}
    rows.append({**rows[5], "id": 99})
    (tmp_path / "broken.json").write_text(json.dumps(data))


@pytest.mark.usefixtures("broken")
def test_broken_rows_are_refused_with_the_way_out(run):
    advice = "; --skip-bad leaves out the rows with errors"
    for words in (
        ("convert", "broken.json", "out.json"),
        ("stats", "broken.json"),
    ):
        assert last(run(*words, code=1)[1]).endswith(f" errors in the data{advice}")
    truth = ", but AP can rise without objects of the ground truth: correct these instead"
    assert f" errors in the data{advice}{truth} (odm validate GT --fix " in last(
        run("eval", "broken.json", "det.json", code=1)[1]
    )
    assert not run("eval", "broken.json", "nowhere.json", code=3)[1].endswith(f"{advice}\n")
    fix = ("validate", "broken.json", "--fix", "all", "--out", "fixed.json")
    assert last(run(*fix, code=1)[1]).endswith(f"2 errors in the data{advice}")
    run(*fix, "--skip-bad")
    assert last(run("validate", "fixed.json")[0]).startswith("no errors, no warnings in 10 boxes")


@pytest.mark.usefixtures("broken")
def test_quiet_counts_errors_only(run):
    counts = [
        line for line in run("stats", "broken.json", "-q", code=1)[1].splitlines() if "errors (" in line
    ]
    (line,) = counts
    assert "outside-image" not in line
    assert "inverted-box 1" in line


def test_options_of_formats_name_their_values(run):
    assert "TEXT" not in run("convert", "--help")[0]
    assert "--image-size WxH" in run("stats", "--help")[0]


def test_the_words_of_a_choice_are_offered_to_the_shell():
    command = _app.app.get_command(click.Context(_app.app), "eval")
    option = next(p for p in command.params if p.name == "protocol")
    found = option.shell_complete(click.Context(command), "voc")
    assert [one.value for one in found] == ["voc2012", "voc2007"]


def annotations(text):
    return [line for line in text.splitlines() if line.startswith("::")]


def test_a_failed_gate_is_an_annotation_of_github(run):
    words = (
        "eval",
        "gt.json",
        "det.json",
        "--fail-under",
        "AP[car]=100%",
        "--fail-under",
        "mAP=1",
        "--iou",
        0.5,
        "--protocol",
        "voc2012",
    )
    plain, _ = run(*words)
    assert run(*words, "--output", "github")[0] == plain
    far = json.loads(json.dumps(RESULTS))
    for row in far[::3]:
        row["bbox"][0] += 90
    with open("det.json", "w") as file:
        json.dump(far, file)
    plain, err = run(*words, code=1)
    lines = [line.removeprefix("odm: gate failed: ") for line in err.splitlines() if "gate failed" in line]
    out, err = run(*words, "--output", "github", code=1)
    assert out.startswith(plain)
    assert len(lines) == 2
    assert annotations(out) == [f"::error title=gate failed::{line}" for line in lines]
    assert "gate failed" not in err


def test_a_regression_is_an_annotation_of_github(run, tmp_path):
    (tmp_path / "b.json").write_text(json.dumps(RESULTS[:1]))
    words = ("compare", "gt.json", "det.json", "b.json", "--fail-on-regression", "mAP", "--replicates", "50")
    words += ("--protocol", "voc2012")
    doubt, line = annotations(run(*words, "--output", "github", code=1)[0])
    assert "::warning" in doubt
    assert "most-images-without-detections" in doubt
    assert line.startswith("::error title=gate failed::--fail-on-regression mAP=0: b.json differs by -")
    assert " (95 %25 interval " in line


@pytest.mark.usefixtures("broken")
def test_errors_and_warnings_are_annotations_of_github(run):
    words = ("eval", "broken.json", "det.json", "--output", "github")
    out, err = run(*words, code=1)
    titles = [line.split("title=")[1].split("::")[0] for line in annotations(out)]
    assert sorted(titles[:3]) == ["inverted-box", "unknown-category-id", "wrong-count"]
    assert "outside-image" in titles
    assert all("file=broken.json,line=1" in line for line in annotations(out)[:3])
    assert ": error " not in err.replace("odm: error", "")  # each is printed once
    out, err = run(*words, "-q", code=1)
    assert [line for line in annotations(out) if line.startswith("::warning")] == []
    assert "note" not in err


def test_python_needs_no_import_but_odm():
    text = (
        "import odm, sys\n"
        "assert 'numpy' not in sys.modules\n"
        "same = dict(images=['a.jpg'], categories=['person'], image=[0], category=[0])\n"
        "truth = odm.Dataset.from_arrays(**same, ltwh=[[10, 10, 20, 20]])\n"
        "found = odm.Dataset.from_arrays(**same, ltwh=[[12, 10, 20, 20]], score=[0.9])\n"
        "print(round(odm.evaluate.evaluate(truth, found, 'coco').result.summary['AP50'], 3))\n"
        "assert {'evaluate', 'read', 'formats'} <= set(dir(odm))\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "1.0\n"


def test_an_empty_folder_is_one_error(run, tmp_path):
    (tmp_path / "empty").mkdir()
    for words in (
        *(
            ("convert", "empty", "o.json"),
            ("validate", "empty"),
            ("stats", "empty"),
            ("eval", "empty", "empty"),
        ),
        ("show", "empty", "--out", "o.html"),
    ):
        _, err = run(*words, code=3)
        assert last(err) == "odm: error: empty: this folder contains no files"


def test_folders_of_images_are_folders(run, tmp_path):
    (tmp_path / "day_0.jpg").write_bytes(b"")
    for words in (("eval", "gt.json", "det.json"), ("validate", "gt.json"), ("convert", "gt.json", "o.json")):
        _, err = run(*words, "--images", "day_0.jpg", code=3)
        assert last(err) == "odm: error: --images day_0.jpg: this is a file; give the folder of images"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("stats", ""), "SRC"),
        (("eval", "", "det.json"), "GT"),
        (("convert", "gt.json", ""), "DST"),
        (("convert", "gt.json", "", "o.json"), "SRC..."),
        (("eval", "gt.json", "det.json", "--save", ""), "--save"),
        (("eval", "gt.json", "det.json", "--images", ""), "--images"),
    ],
)
def test_an_unset_variable_is_no_path(run, words, name):
    assert last(run(*words, code=2)[1]) == f"Error: {name} is an empty path"


def test_the_class_list_is_a_list(run, tmp_path):
    (tmp_path / "data.yaml").write_text("names:\n  0: car\n")
    _, err = run("convert", "gt.json", "o.json", "--class-list", "data.yaml", code=2)
    assert last(err) == "odm: error: --class-list data.yaml: give a text file with one class name per line"
    (tmp_path / "classes.txt").write_text("person\ncar\n")
    run("convert", "gt.json", "o.json", "--class-list", "classes.txt")
    assert [c["name"] for c in json.loads((tmp_path / "o.json").read_text())["categories"]] == [
        "person",
        "car",
    ]


def test_part_of_a_code(run):
    assert "outside-image" in last(run("validate", "--explain", "Outside", code=2)[1])
    assert last(run("validate", "--explain", "qqqq", code=2)[1]).count("--explain all") == 1


def test_few_parts_without_images_are_named(run):
    _, err = run("convert", "gt.json", "k", "--to", "coco", "--folds", "99", code=1)
    assert "fold7, fold8, fold9 and 90 more" in err


def test_a_bound_in_percent(run):
    assert "as in mAP=50%" in run("eval", "gt.json", "det.json", "--fail-under", "mAP=50", code=2)[1]
    run("eval", "gt.json", "det.json", "--fail-under", "mAP=50%")
