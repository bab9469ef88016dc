"""Area ranges that the user names, and average recall at any number of detections."""

import csv
import io
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from analysis_cases import detections, detections_b, fixture, random_pair, truth

from odm import write
from odm.evaluate import PROTOCOLS, evaluate, render, resolve
from odm.evaluate.analysis.compare import compare
from odm.evaluate.analysis.replicates import Plan
from odm.evaluate.analysis.table import table_of
from odm.evaluate.matching.match import match
from odm.evaluate.matching.matches import concatenate
from odm.evaluate.metric import Metric
from odm.evaluate.scores.accumulate import accumulate
from odm.issues import UsageError

REFUSING = {
    "tf-weighted": "no named area ranges",
    "openimages": "no named area ranges",
    "openimages-challenge": "no named area ranges",
    "corloc": "no area ranges",
    "imagenet-loc": "no area ranges",
    "citypersons": "no area ranges",
    "tinyperson": "no area ranges",
    "dota-hbb": "no area ranges",
    "caltech": "no area ranges",
    "crowdhuman": "no area ranges",
    **dict.fromkeys(("kitti", "visdrone", "widerface", "xview"), "no area ranges"),
}
TAKING = sorted(PROTOCOLS.keys() - REFUSING.keys())


@pytest.mark.parametrize(("bounds", "ap50"), [("0:400", 0), ("400:1600", 0.252475), ("1600:1e10", 0.610561)])
def test_known_answers(bounds, ap50):
    summary = fixture(area=f"some={bounds}").summary
    assert summary["AP50@some"] == pytest.approx(ap50, abs=5e-7)
    assert summary["AP50"] == pytest.approx(0.370187018701870)  # the others are as without
    assert fixture(area=bounds).summary["AP50"] == pytest.approx(ap50, abs=5e-7)


@pytest.mark.parametrize("name", TAKING)
@pytest.mark.parametrize("ties", [False, True])
def test_a_named_range_gives_what_the_range_gives_as_the_only_one(name, ties):
    gt, (run,) = random_pair(5, crowds=0.1, ties=ties, sizes=(5, 110))
    ranges = {f"r{i}": bounds for i, bounds in enumerate(((0, 500), (500, 2500), (900, 1e10)))}
    together = evaluate(gt, run, name, area=ranges).result
    plain = evaluate(gt, run, name).result
    others = {k: v for k, v in together.summary.items() if k.partition("@")[2] not in ranges}
    assert others == pytest.approx(plain.summary, nan_ok=True)
    for range_name, bounds in ranges.items():
        own = evaluate(gt, run, name, area=bounds).result
        for key in [k for k in together.summary if k.endswith(f"@{range_name}")]:
            expected = own.summary[key.split("@")[0]]
            assert together.summary[key] == pytest.approx(expected, nan_ok=True), key
        for row, alone in zip(together.classes, own.classes, strict=True):
            assert row.extra[f"AP@{range_name}"] == pytest.approx(alone.ap, nan_ok=True)
    assert {k.split("@")[1] for k in together.summary.keys() - plain.summary.keys()} == set(ranges)


def test_keys():
    area = ["tiny=0:256", "huge=5000:1e10"]
    added = set(fixture(area=area).summary) - set(fixture().summary)
    assert added == {f"{key}@{name}" for key in ("AP", "AP50", "AR100") for name in ("tiny", "huge")}
    assert list(fixture("voc2012", area=area).summary) == ["mAP", "mAP@tiny", "mAP@huge"]
    assert "AR300@tiny" in fixture("lvis", area=area).summary


def test_a_range_without_a_name_is_still_that_of_all_numbers():
    both = fixture(area=["400:1600", "big=1600:1e10"])
    assert both.summary["AP50"] == pytest.approx(0.252475, abs=5e-7)
    assert both.summary["AP50@big"] == pytest.approx(0.610561, abs=5e-7)
    assert "[changed: area 400..1600, also area big = 1600..1e+10]" in both.definition


def test_more_ranges_than_a_byte_has_bits():
    ranges = {f"r{i}": (i * 500, i * 500 + 500) for i in range(12)}
    gt, (run,) = random_pair(2, sizes=(5, 90))
    summary = evaluate(gt, run, "coco", area=ranges).summary
    for name in ("r0", "r5", "r11"):
        expected = evaluate(gt, run, "coco", area=ranges[name]).summary["AP"]
        assert summary[f"AP@{name}"] == pytest.approx(expected, nan_ok=True)
    with pytest.raises(UsageError, match="at most 12 named"):
        resolve("coco", area=ranges | {"more": (0, 1)})


def test_shards_have_the_ranges_of_the_whole():
    gt, (run,) = random_pair(4)
    result = evaluate(gt, run, "coco", area={"mid": (300, 2000)}).result
    parts = [range(0, 40, 2), range(1, 40, 4), range(3, 40, 4)]
    again = accumulate(concatenate([match(result.joined.shard(part), result.rules) for part in parts]))
    assert again.summary == pytest.approx(result.summary, abs=1e-15, nan_ok=True)


@pytest.mark.parametrize(("name", "reason"), REFUSING.items())
def test_protocols_without_named_ranges_say_so(name, reason):
    with pytest.raises(UsageError, match=reason):
        resolve(name, area="tiny=0:256")


@pytest.mark.parametrize(
    ("area", "says"),
    [
        (["a=0:4", "a=0:5"], "area a: the name was given twice"),
        ("small=0:4", "area small: the name is COCO's own range"),
        ("all=0:4", "area all: the name is COCO's own range"),
        ("a=5:5", "a=5:5: the lower end must be below the upper one"),
        ("a=6:5", "a=6:5: give two areas"),
        ("a=0:inf", "a=0:inf: give two areas"),
        ("a=-1:5", "a=-1:5: give two areas"),
        ("a=x", "a=x: choose all, small, medium, large, or give LOW:HIGH or NAME=LOW:HIGH"),
        ("=0:5", "a name has letters"),
        ("a b=0:5", "a name has letters"),
        ("a[x]=0:5", "a name has letters"),
        (["0:5", "6:7"], "area 6:7: there is one range already; name each additional one"),
    ],
)
def test_ranges_that_are_refused(area, says):
    with pytest.raises(UsageError) as caught:
        resolve("coco", area=area)
    assert says in str(caught.value)


# ------------------------------------------------------------------------------------- recall at any number


def test_recall_of_proposals():
    summary = fixture(class_agnostic=True, recall_at=[1, 2, 3]).summary
    known = {"AR1": 0.55, "AR2": 0.55, "AR3": 0.5875, "AR100": 0.5875}
    assert {key: summary[key] for key in known} == pytest.approx(known)
    assert summary["AP"] == pytest.approx(0.418176996271056)


@pytest.mark.parametrize("seed", range(3))
def test_recall_at_k_is_that_of_the_official_program(seed):
    coco, cocoeval = pytest.importorskip("pycocotools.coco"), pytest.importorskip("pycocotools.cocoeval")
    gt, (run,) = random_pair(seed, crowds=0.1)
    mine = evaluate(gt, run, "coco", recall_at=[2, 5]).summary
    api = coco.COCO()
    boxes = gt.boxes

    def records(boxes):
        ltwh = np.concatenate([boxes.xyxy[:, :2], boxes.xyxy[:, 2:] - boxes.xyxy[:, :2]], axis=1)
        for i, box in enumerate(ltwh.tolist()):
            yield {
                "image_id": int(boxes.image[i]) + 1,
                "category_id": int(boxes.category[i]) + 1,
                "bbox": box,
            }

    api.dataset = {
        "images": [{"id": i + 1} for i in range(len(gt.images))],
        "categories": [{"id": k + 1, "name": str(k)} for k in range(4)],
        "annotations": [
            {**record, "id": i + 1, "area": record["bbox"][2] * record["bbox"][3], "iscrowd": int(crowd)}
            for i, (record, crowd) in enumerate(
                zip(records(boxes), (np.asarray(boxes.flags) & 1).tolist(), strict=True)
            )
        ],
        "info": {},
    }
    api.createIndex()
    found = [{**r, "score": s} for r, s in zip(records(run.boxes), run.boxes.score.tolist(), strict=True)]
    official = cocoeval.COCOeval(api, api.loadRes(found), "bbox")
    official.params.maxDets = [1, 2, 5, 10, 100]
    official.evaluate()
    official.accumulate()
    recall = official.eval["recall"]  # (thresholds, classes, areas, caps)
    for m, cap in enumerate(official.params.maxDets):
        own = recall[:, :, 0, m]
        assert mine[f"AR{cap}"] == pytest.approx(own[own > -1].mean(), abs=1e-12)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"recall_at": [0]}, "recall_at 0: expected whole numbers from 1"),
        ({"recall_at": [200]}, "recall_at 200: only the best 100 detections"),
        ({"recall_at": [20], "max_dets": 10}, "recall_at 20: only the best 10"),
        ({"recall_at": [5], "protocol": "lvis"}, "lvis has no average recall"),
        ({"recall_at": [5], "protocol": "voc2012"}, "voc2012 has no average recall"),
    ],
)
def test_numbers_of_detections_that_are_refused(options, says):
    with pytest.raises(UsageError) as caught:
        resolve(**({"protocol": "coco"} | options))
    assert says in str(caught.value)


def test_recall_of_more_detections_than_usual():
    summary = fixture(recall_at=[300], max_dets=300).summary
    assert [key for key in summary if key.startswith("AR")] == [
        "AR1", "AR10", "AR100", "AR300", "ARs", "ARm", "ARl",
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------ elsewhere


@pytest.mark.parametrize("name", ["coco", "voc2012", "imagenet-det", "ultralytics", "yolov5"])
def test_comparing_runs_by_area(name):
    options = {"area": {"low": (0, 1200), "high": (1200, 1e10)}}
    gt, runs = random_pair(3, n_runs=2)
    tables = {str(i): table_of(evaluate(gt, run, name, **options).result) for i, run in enumerate(runs)}
    keys = [key for key in tables["0"].result.summary if "@" in key]
    assert len(keys) == 2 * {"coco": 3, "ultralytics": 2, "yolov5": 2}.get(name, 1)
    plan = Plan(tables["0"], areas=True)
    whole = plan.compute(np.ones((1, plan.n_images), np.int64)).summary
    assert {key: whole[key][0] for key in keys} == pytest.approx(
        {key: tables["0"].result.summary[key] for key in keys}, abs=1e-12
    )
    without, drawn = (compare(tables, replicates=40, bootstrap_areas=areas) for areas in (False, True))
    for delta in without.deltas:
        assert math.isnan(delta.interval.low) == (
            "@" in delta.key or delta.key[2:] in ("s", "m", "l") or delta.key in ("P", "R", "score")
        )
    assert not any(math.isnan(delta.interval.low) for delta in drawn.deltas if "@" in delta.key)


@pytest.mark.parametrize("name", ["coco", "ultralytics", "yolov5"])
def test_weights_of_images_by_area_are_copies_of_images(name):
    gt, (run,) = random_pair(6, n_images=8)
    options = {"area": {"low": (0, 1200)}} | ({"recall_at": [2]} if name == "coco" else {})
    plan = Plan(table_of(evaluate(gt, run, name, **options).result), areas=True)
    some = [0, 2, 3, 6, 7]
    names = [gt.images.name[i] for i in some]
    weights = np.zeros((1, 8), np.int64)
    weights[0, some] = 1
    expected = evaluate(gt, run, name, only_images=names, **options).summary
    found = plan.compute(weights).summary
    assert any("@low" in key for key in found)
    assert {key: v[0] for key, v in found.items()} == pytest.approx(
        {key: expected[key] for key in found}, abs=1e-12, nan_ok=True
    )


@pytest.mark.parametrize("typed", ["mAP50-95@low", "mAP50@low", "AP@low[cat]"])
@pytest.mark.parametrize("name", ["coco", "ultralytics"])
def test_gates_by_the_names_of_trainers(files, name, typed):
    gt, a, _ = files
    gate = ("--fail-under", f"{typed}=1", "--protocol", name)
    code, _, text = odm("eval", gt, a, "--area", "low=0:1600", *gate)
    assert (code, f"gate failed: {typed}" in text) == (1, True), text


def test_in_training_loops():
    metric = Metric(["cat"], "coco", area={"tiny": (0, 256)}, recall_at=[5])
    metric.update(
        [{"boxes": [[0, 0, 10, 10]], "scores": [0.9], "labels": [0]}],
        [{"boxes": [[0, 0, 10, 10], [50, 50, 90, 90]], "labels": [0, 0]}],
        image_ids=[1],
    )
    summary = metric.compute().summary
    assert (summary["AP@tiny"], summary["AR5"]) == (pytest.approx(1), pytest.approx(0.5))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("areas")
    for name, dataset in (("gt", truth()), ("a", detections()), ("b", detections_b())):
        write(dataset, folder / f"{name}.csv", "csv")
    return [str(folder / f"{name}.csv") for name in ("gt", "a", "b")]


def odm(*words):
    """Exit code, standard output and standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "odm", *words, "--quiet"], capture_output=True, text=True, check=False,
        env={**os.environ, "COLUMNS": "80"},
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


AREA = ("--area", "low=0:1600", "--area", "high=1600:1e10")


def test_on_the_command_line(files):
    gt, a, _ = files
    base = ("eval", gt, a, "--protocol", "coco", *AREA, "--recall-at", "2,5")
    code, text, _ = odm(*base, "--output", "json")
    result = json.loads(text)["results"][0]
    assert code == 0
    assert {"AP@low", "AP50@high", "AR100@low", "AR5"} <= result["summary"].keys()
    assert {"AP@low", "AP50@high", "AR100@low"} <= result["classes"][0].keys()
    assert "also area low = 0..1600" in result["definition"]
    rows = list(csv.DictReader(io.StringIO(odm(*base, "--output", "csv")[1])))
    assert float(rows[-1]["AP50@high"]) == pytest.approx(result["summary"]["AP50@high"])
    text = odm(*base)[1]
    line = next(line for line in text.splitlines() if line.startswith("high "))
    assert line.split()[:3] == ["high", "1600..1e+10", "5"]
    assert len(line) <= 80
    assert "maxDets=  5" in text


def test_gates_on_areas(files):
    gt, a, _ = files
    code, _, text = odm("eval", gt, a, *AREA, "--fail-under", "mAP@low=1", "--fail-under", "AP@high[cat]=1")
    assert code == 1
    assert "gate failed: mAP@low 0.250 < 1" in text
    assert "gate failed: AP@high[cat] 0.417 < 1" in text
    code, _, text = odm("eval", gt, a, *AREA, "--fail-under", "mAP@lows=.1")
    assert code == 2
    assert "did you mean 'mAP@low'?" in " ".join(text.split())


def test_comparing_on_the_command_line(files):
    base = ("compare", *files, *AREA, "--replicates", "20")
    code, text, _ = odm(*base, "--output", "json")
    (delta,) = [d for d in json.loads(text)["deltas"] if d["key"] == "mAP@high"]
    assert (code, delta["low"], delta["class"]) == (0, None, None)
    assert "--bootstrap-areas" in delta["reason"]
    gate = ("--require-no-worse", "mAP@high=0.01")
    code, _, text = odm(*base, *gate)
    assert code == 2
    assert "only with --bootstrap-areas: add it" in " ".join(text.split())
    code, _, text = odm(*base, *gate, "--bootstrap-areas")
    assert code in (0, 1)
    assert "has no interval" not in text


def test_ranges_as_text_and_markdown():
    evaluation = evaluate(truth(), detections(), "voc2012", area=["low=0:1600"])
    assert "| low" in render(evaluation, "markdown")
    assert "mAP@low" not in render(evaluation)  # it stands in the table of ranges
