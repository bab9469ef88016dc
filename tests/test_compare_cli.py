"""``odm compare`` and ``odm agree`` as typed: output, files, exit codes."""

import contextlib
import csv
import json
import math

import analysis_cases as cases
import corpus
import numpy as np
import pytest

import odm
from odm.evaluate.analysis import render_comparison
from odm.names import shorten_paths


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    for name, dataset in (("gt", cases.truth()), ("a", cases.detections()), ("b", cases.detections_b())):
        odm.write(dataset, folder / f"{name}.csv", "csv")
    (folder / "tags.csv").write_text("image,light,place\n1,day,a\n2,night,\n2,day,b\n3,day,a\n9,day,a\n")
    return folder


def run(folder, *words, code=0):
    with contextlib.chdir(folder):
        done = corpus.Run(words)
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    return done.out, done.err


COCO = ("gt.csv", "a.csv", "b.csv", "--protocol", "coco", "--quiet", "--replicates", 60)


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
    columns = {"run", "key", "class", "first", "other", "delta", "low", "high", "p_better", "p", "p_holm"}
    assert set(delta) == columns
    assert [delta[k] for k in ("first", "other")] == [run["summary"]["AP50"] for run in found["runs"]]
    assert delta["delta"] == pytest.approx(0.09185918591859)
    ranges = next(d for d in found["deltas"] if d["key"] == "APm")
    assert ranges["low"] is ranges["p"] is None
    assert "area ranges" in ranges["reason"]
    assert found["images"][0]["image"] == "6"
    slices = {(s["slice"], s["value"]): s for s in found["slices"]}
    assert set(slices) == {("light", "day"), ("light", "night"), ("light", "(none)"),
                           ("place", "a"), ("place", "b"), ("place", "(none)")}  # fmt: skip
    assert slices["light", "day"]["images"] == 3
    assert slices["light", "day"]["summary"]["AP50"] is not None
    again, _ = run(data, "compare", *COCO, "--output", "json", "--tags", "tags.csv")
    assert again == out


@pytest.fixture(scope="module")
def many(data):
    """Five runs in folders of their own: c has the detections of a in another order, d and e fewer."""
    first, other = cases.detections(), cases.detections_b()
    runs = {
        "a": first,
        "b": other,
        "c": first.take(np.arange(len(first))[::-1]),
        "d": first.take(np.arange(4)),
        "e": other.take(np.arange(3)),
    }
    for name, dataset in runs.items():
        odm.write(dataset, data / "many" / name / "best.csv", "csv")
    return [f"many/{name}/best.csv" for name in runs]


def test_many_runs_are_a_line_each(data, many):
    words = ("compare", "gt.csv", *many, "--protocol", "coco", "--quiet", "--replicates", 60)
    out, _ = run(data, *words, "--save", "board")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    top = next(i for i, line in enumerate(lines) if line.split()[:1] == ["run"])
    assert [line.split()[0] for line in lines[top + 2 : top + 6]] == ["1", "2", "3", "4"]
    names = [line.split()[1] for line in lines[top + 2 : top + 6]]
    found = json.loads((data / "board" / "comparison.json").read_text())
    values = {r["name"].split("/")[1]: r["summary"]["AP"] for r in found["runs"]}
    assert names == sorted("abde", key=lambda name: -values[name])
    assert "c: the same detections as a" in lines
    assert "AP of classes" not in out
    assert "is the best of 4 runs: AP" in " ".join(lines[-2:])
    places = found["ranking"]
    assert [place["run"] for place in places] == [f"many/{name}/best.csv" for name in names]
    assert [place["same"] for place in places if place["same"]] == [["many/c/best.csv"]]
    rows = list(csv.DictReader((data / "board" / "ranking.csv").read_text().splitlines()))
    assert [row["run"] for row in rows] == [place["run"] for place in places]
    assert (rows[0]["delta"], rows[0]["p_holm"]) == ("0.0", "")
    wide, _ = run(data, *words, "--wide")
    assert "AP of classes" in wide
    assert "C: many/c/best.csv (the same detections as A)" in wide
    board, _ = run(data, *words, "--output", "markdown")
    assert f" {names[0]} " in board
    assert "AP of classes" not in board


def test_three_runs_are_ranked_before_each_pair(data, many):
    out, _ = run(
        data, "compare", "gt.csv", *many[:2], many[3], "--protocol", "coco", "--quiet", "--replicates", 20
    )
    parts = [
        out.index(text) for text in ("to the best", "is the best of 3 runs", "AP of classes", "B ", "C ")
    ]
    assert parts[:3] == sorted(parts[:3])
    assert out.count("is the best of") == 1
    assert [line[:1] for line in out.splitlines()[-4:] if not line.startswith(" ")] == ["B", "C"]


def test_equal_values_share_a_place():
    assert render_comparison._format_places([0.5, 0.25, 0.25 + 1e-15, 0.1, math.nan]) == [
        "1",
        "2=",
        "2=",
        "4",
        "5",
    ]


def folder_of_runs(data, folder, layout):
    """A folder with two runs: a file each, or a folder each with one or several files."""
    for run_name, source in (("old", "a.csv"), ("new", "b.csv")):
        for name, is_run in layout:
            path = folder / name.format(run_name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((data / source).read_bytes() if is_run else b"{}")
    return folder


@pytest.mark.parametrize("layout", [
    [("{}.csv", True)], [("{}.csv", True), ("notes.txt", False)], [("{}/best.csv", True)],
    [("{}/deep/best.csv", True), ("{}/weights.pt", False)],
    [("{}.csv", True), ("plots/{}.json", False)],
])  # fmt: skip
def test_a_folder_of_runs(data, tmp_path, layout):
    folder = folder_of_runs(data, tmp_path / "runs", layout)
    expected = odm.compare(data / "gt.csv", {"new": data / "b.csv", "old": data / "a.csv"}, replicates=20)
    found = odm.compare(data / "gt.csv", folder, replicates=20)
    assert found.to_dict() == expected.to_dict()
    out, _ = run(data, "compare", "gt.csv", folder, "--replicates", 20, "--quiet", "--output", "json")
    assert json.loads(out)["runs"] == json.loads(json.dumps(expected.to_dict()))["runs"]


def test_of_several_files_that_of_a_trainer_is_the_run(data, tmp_path):
    for run_name, source in (("old", "a.csv"), ("new", "b.csv")):
        dataset = odm.read(data / source)
        (tmp_path / "runs" / run_name).mkdir(parents=True)
        odm.write(dataset, tmp_path / "runs" / run_name / "predictions.json", "createml")
        (tmp_path / "runs" / run_name / "args.json").write_text("{}")
    found = odm.compare(data / "gt.csv", tmp_path / "runs", replicates=20)
    assert [one.name for one in found.runs] == ["new", "old"]


@pytest.mark.parametrize(("layout", "message"), [
    ([("{}/a.csv", True), ("{}/b.csv", True)], "several files of results: new/a.csv, new/b.csv; name the file"),
    ([("{}.txt", True)], "expected a folder with a file"),
    ([("only/{}.csv", True)], "several files of results"),
    ([("one.csv", True)], "a folder for each of two runs or more"),
])  # fmt: skip
def test_a_folder_that_is_no_runs(data, tmp_path, layout, message):
    folder = folder_of_runs(data, tmp_path / "runs", layout)
    with pytest.raises(odm.UsageError, match=message):
        odm.compare(data / "gt.csv", folder)
    _, err = run(data, "compare", "gt.csv", folder, code=2)
    assert message in " ".join(err.split())


def test_one_threshold_is_compared(data):
    with pytest.raises(odm.UsageError, match="takes one threshold"):
        odm.compare(data / "gt.csv", [data / "a.csv", data / "b.csv"], iou="0.5,0.7")


def test_places_are_those_of_a_comparison_with_the_best(data, many):
    found = odm.compare(data / "gt.csv", [data / path for path in many], protocol="coco", replicates=60)
    best = found.ranking[0]
    p = []
    for place in found.ranking[1:]:
        pair = odm.compare(
            data / "gt.csv", {"best": best.run, "other": place.run}, protocol="coco", replicates=60
        )
        delta = pair.deltas[0]
        assert (place.delta, place.delta_interval) == (delta.delta, delta.interval)
        assert pair.verdict.startswith(("other is", "other differs from best by no more"))
        p.append(delta.interval.p)
    smallest = p.index(min(p))
    assert found.ranking[1 + smallest].p_holm == pytest.approx(min(1, len(p) * p[smallest]))
    assert found.verdict.startswith(f"{best.run.split('/')[-2]} is the best of 4 runs: AP ")


@pytest.mark.parametrize("first", range(4))
def test_no_sentence_of_a_pair_contradicts_the_ranking(data, many, first):
    """Whichever run is named first: a run and the best differ in both, or in neither."""
    paths = [data / path for path in [many[first], *many[:first], *many[first + 1 :]]]
    comparison = odm.compare(data / "gt.csv", paths, protocol="coco", replicates=60)
    standings = {name: s for s in comparison.ranking for name in (s.run, *s.same)}
    best, letters = (
        comparison.ranking[0],
        dict(zip([run.name for run in comparison.runs], "ABCDEF", strict=False)),
    )
    for run_, sentence in zip(
        comparison.runs[1:], render_comparison.make_headlines(comparison, wide=True), strict=True
    ):
        pair = [standings[comparison.runs[0].name], standings[run_.name]]
        assert sentence.startswith(f"{letters[run_.name]} ")
        if best in pair and pair[0] is not pair[1]:
            differs = next(s for s in pair if s is not best).differs(comparison.level)
            assert (" is better " in sentence or " is worse " in sentence.partition(":")[0]) == differs


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a.json", "b.json"], ["a.json", "b.json"]),
        (["x/a/best.json", "x/b/best.json"], ["a", "b"]),
        (["x/a", "y/b"], ["a", "b"]),
        (["a/1/r", "b/1/r", "b/2/r"], ["a/1/r", "b/1/r", "b/2/r"]),
        (["r", "x/r"], ["r", "x/r"]),
        (["a\n", "b"], ["a\\n", "b"]),
    ],
)
def test_short_names_of_paths(paths, names):
    assert shorten_paths(paths) == names


def test_a_run_of_fewer_images_is_seen(data):
    lines = (data / "a.csv").read_text().splitlines(keepends=True)
    (data / "fewer.csv").write_text("".join(line for line in lines if not line.startswith("3,")))
    out, _ = run(data, "compare", "gt.csv", "a.csv", "fewer.csv", *COCO[3:])
    assert "\nA: a.csv (detections on 6 of 6 images)\nB: fewer.csv (detections on 5 of 6 images)\n" in out
    out, _ = run(data, "compare", *COCO)
    assert "\nA: a.csv\nB: b.csv\n" in out


@pytest.mark.parametrize("tag", ["night", "image"])
def test_lists_of_images_are_slices(data, tag):
    (data / f"{tag}.txt").write_text("./photos/2.jpg\n3\n\nabsent.jpg\n")
    words = ("--tags", f"{tag}.txt", "--tags", "tags.csv", "--output", "json")
    out, _ = run(data, "compare", *COCO, *words)
    slices = {(s["slice"], s["value"]): s["images"] for s in json.loads(out)["slices"]}
    assert (slices[tag, "listed"], slices[tag, "(none)"], slices["light", "day"]) == (2, 4, 3)
    _, err = run(data, "compare", *COCO, "--tags", "tags.csv", "--tags", "tags.csv", code=2)
    assert "'light' is already a tag of another file" in err


def test_splits_of_the_ground_truth_are_slices(tmp_path):
    for split, n in (("train", 3), ("val", 2)):
        (tmp_path / "gt" / split / "labels").mkdir(parents=True)
        (tmp_path / "det" / split / "labels").mkdir(parents=True)
        for i in range(n):
            (tmp_path / "gt" / split / "labels" / f"{split}{i}.txt").write_text("0 .5 .5 .2 .2\n")
            (tmp_path / "det" / split / "labels" / f"{split}{i}.txt").write_text("0 .5 .5 .2 .2 .9\n")
    yaml = "train: train/images\nval: val/images\nnames: [cat]\n"
    for side in ("gt", "det"):
        (tmp_path / side / "data.yaml").write_text(yaml)
    out, _ = run(
        tmp_path,
        "eval",
        "gt",
        "det",
        "--image-size",
        "100x100",
        "--analyze",
        "slices",
        "--output",
        "json",
        "-q",
    )
    rows = json.loads(out)["results"][0]["analysis"]["slices"]
    assert [(s["value"], s["images"]) for s in rows if s["slice"] == "split"] == [("train", 3), ("val", 2)]


def test_areas_are_bootstrapped_on_request(data):
    out, _ = run(data, "compare", *COCO, "--output", "json", "--bootstrap-areas")
    assert next(d for d in json.loads(out)["deltas"] if d["key"] == "APm")["low"] is not None


def test_the_table_fits_a_terminal(data):
    out, _ = run(data, "compare", *COCO, "--tags", "tags.csv")
    lines = out.splitlines()
    assert "B: b.csv" in lines
    assert all(len(line) <= 80 for line in lines[1:])
    assert any(line.startswith("AP50") and "37.02 %" in line and "+9.19" in line for line in lines)
    assert "images are counted at these scores or above (best F1, or --at-score): A 0." in out
    assert "AP of classes, B minus A, the worst first" in lines
    verdict = "B differs from A by no more than chance: AP +7.90 points, 95 % interval"
    assert verdict in " ".join(lines[-2:])
    assert lines[-1].endswith("0 of 3 classes are worse")


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
    assert names == {
        "comparison.json",
        *(f"{n}.csv" for n in ("summary", "classes", "images", "slices", "ranking")),
    }
    assert (tmp_path / "x" / "comparison.json").read_text() == out
    rows = list(csv.DictReader((tmp_path / "x" / "images.csv").open()))
    assert list(rows[0]) == ["run", "image", "delta_error", "error_first", "error_other",
                             "new_fn", "new_fp", "lost_tp", "gained_tp"]  # fmt: skip
    assert float(rows[0]["delta_error"]) == pytest.approx(0.6)
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
        (("--require-no-worse", "AP50=70%"), 0),
        (("--fail-on-regression", "AP[bird]"), 1),
        (("--fail-on-regression", "AP5"), 2),
        (("--fail-on-regression", "AP50[cat]"), 0),
        (("--fail-on-regression", "AR100[cat]"), 2),
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
        (("gt.csv", "a.csv", "b.csv", "--tags", "strange.csv"), 2, "no image that is evaluated (1 row)"),
        (("gt.csv", "a.csv", "b.csv", "--tags", "nothing.txt"), 2, "nothing.txt: names no image\n"),
        (
            ("gt.csv", "a.csv", "b.csv", "--tags", "open.csv"),
            2,
            "open.csv:3: expected cells of a CSV file, found a quote that is never closed",
        ),
        (("gt.csv", "a.csv", "b.csv", "--tags", "long.csv", "--replicates", "2"), 0, ""),
    ],
)
def test_usage_errors(data, words, code, says):
    (data / "bad.csv").write_text("picture,x\n1,2\n")
    (data / "short.csv").write_text("image,x\n1\n")
    (data / "strange.csv").write_text("image,x\nzebra,2\n")
    (data / "nothing.txt").write_text("\n")
    (data / "open.csv").write_text('image,x\n1,2\n2,"3\n3,4\n')
    (data / "long.csv").write_text(f"image,x\n1,{'2' * 200_000}\n")
    _, err = run(data, "compare", *words, code=code)
    assert says in err


def test_only_some_images_are_drawn(data):
    limited, _ = run(data, "compare", *COCO, "--output", "json", "--only-images", "1,2,3")
    assert "60 bootstrap samples of 3 images" in run(data, "compare", *COCO, "--only-images", "1,2,3")[0]
    found = json.loads(limited)
    assert {row["image"] for row in found["images"]} == {"1", "2", "3"}
    assert found["runs"][0]["summary"]["AP50"] == pytest.approx(0.315731573157316)
    assert not math.isnan(found["runs"][0]["intervals"]["AP50"][0])


def test_what_is_said_of_the_ground_truth_is_said_once(data):
    _, err = run(data, "compare", "gt.csv", "a.csv", "b.csv", "--replicates", 2)
    assert err.count("(groups-as-objects 1)") == 1
    assert err.count("ordinary object") == 1


def test_the_report_shows_all_runs(data, tmp_path):
    target = tmp_path / "r.html"
    run(data, "compare", *COCO, "--report", target, "--report-title", "Old and new")
    page = target.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "Old and new" in page
    run(data, "compare", *COCO, "--report", target, code=3)  # it exists
    (tmp_path / "c.csv").write_bytes((data / "a.csv").read_bytes())
    run(data, "compare", "gt.csv", "a.csv", "b.csv", tmp_path / "c.csv", "--report", tmp_path / "three.html")
    from test_report import read_page

    ranking = read_page(tmp_path / "three.html")[0]["ranking"]
    found = odm.compare(data / "gt.csv", [data / "a.csv", data / "b.csv", tmp_path / "c.csv"]).ranking
    assert [row["value"] for row in ranking] == [place.value for place in found]
    assert [(row["run"], row["same"]) for row in ranking if row["same"]] == [("a.csv", ["c.csv"])]
    assert [(row["deltaLow"], row["deltaHigh"]) for row in ranking[1:]] == [
        (place.delta_interval.low, place.delta_interval.high) for place in found[1:]
    ]
    assert "3 runs compared" in (tmp_path / "three.html").read_text(encoding="utf-8")


def test_runs_with_other_images_than_the_ground_truth(tmp_path):
    head = "image,class,left,top,right,bottom"
    (tmp_path / "gt.csv").write_text(f"{head}\n1,cat,0,0,50,50\n2,cat,0,0,50,50\n")
    for name, images in (("a", (1, 2)), ("b", (1, 2, 9))):
        rows = "".join(f"{image},cat,0,0,50,50,0.5\n" for image in images)
        (tmp_path / f"{name}.csv").write_text(f"{head},score\n{rows}")
    words = ("compare", "gt.csv", "a.csv", "b.csv", "--replicates", 5, "--quiet", "--extra-images")
    _, err = run(tmp_path, *words, "background", code=2)
    assert "b.csv does not cover the same images as the first: only it has '9'; --extra-images ignore" in err
    out, _ = run(tmp_path, *words, "ignore")
    assert "5 bootstrap samples of 2 images" in out


def test_a_gate_of_an_unknown_class_still_shows_the_comparison(data):
    out, err = run(data, "compare", *COCO, "--fail-on-regression", "AP[catt]", code=2)
    assert "there is no AP[catt] (did you mean 'AP[cat]'?)" in err
    assert "AP of classes" in out


def test_ground_truth_is_reported_once(tmp_path):
    """More warnings than are kept, of a code that the runs have too."""
    box = {"image_id": 1, "category_id": 1, "bbox": [150, 100, 100, 20], "area": 2000, "iscrowd": 0}
    truth = {
        "images": [{"id": 1, "file_name": "1.jpg", "width": 200, "height": 200}],
        "annotations": [{**box, "id": i + 1, "bbox": [150 + i % 40, i // 10, 100, 20]} for i in range(1200)],
        "categories": [{"id": 1, "name": "cat"}],
    }
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    for name, score in (("a", 0.5), ("b", 0.6)):
        row = {"image_id": 1, "category_id": 1, "bbox": box["bbox"], "score": score}
        (tmp_path / f"{name}.json").write_text(json.dumps([row]))
    _, err = run(
        tmp_path, "compare", "gt.json", "a.json", "b.json", "--replicates", 5, "--protocol", "voc2012"
    )
    assert "(outside-image 1202)" in err
    assert err.count("gt.json: read as coco") == 1


def test_ground_truth_that_asks_the_runs_is_read_for_each(tmp_path):
    """YOLO labels take the sizes of images from the detections."""
    for image in range(3):
        label = tmp_path / "gt" / f"{image}.txt"
        label.parent.mkdir(exist_ok=True)
        label.write_text("0 0.5 0.5 0.25 0.25\n")
    for name in ("a", "b"):
        rows = [f"{image},{name},cat,0.9,30,30,50,50,80,80" for image in range(3)]
        text = "\n".join(["image,run,class,score,left,top,right,bottom,width,height", *rows])
        (tmp_path / f"{name}.csv").write_text(text + "\n")
    options = ("--protocol", "coco", "--replicates", 5, "--image-size", "80x80", "--output", "json")
    out, _ = run(tmp_path, "compare", "gt", "a.csv", "b.csv", *options)
    assert [one["summary"]["AP50"] for one in json.loads(out)["runs"]] == pytest.approx([1, 1])
