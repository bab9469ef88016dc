"""TIDE, LRP, images, missed objects, suspects, thresholds, calibration, agreement: known answers and plain loops."""

import json
import math

import analysis_cases as cases
import numpy as np
import pytest
from selection import FIXED_CLASSES

from odm.evaluate import PROTOCOLS, concatenate, evaluate, match
from odm.evaluate.analysis import agree as agree_module
from odm.evaluate.analysis.agree import Annotations, agree
from odm.evaluate.analysis.analyses import calibration
from odm.evaluate.analysis.errors import KINDS, find_error_types
from odm.evaluate.analysis.images import image_table
from odm.evaluate.analysis.outcome_table import FP, IGNORED, TP
from odm.evaluate.analysis.overlaps import overlaps_of
from odm.evaluate.analysis.review import missed, suspects
from odm.evaluate.analysis.table import table_of, tabulate
from odm.evaluate.analysis.thresholds import (
    choose_thresholds,
    find_best_candidate,
    list_candidates,
    lrp,
    parse_rule,
    read_thresholds,
)
from odm.evaluate.analysis.tide import FIXES, tide
from odm.evaluate.matching import pairs as pairs_module
from odm.issues import UsageError
from odm.tables import Dataset, Flag

HUNDREDTHS = np.arange(101) / 100
CLOSE = 1e-12
WITH_AP = [name for name, p in PROTOCOLS.items() if p.metric == "ap" and name not in FIXED_CLASSES]


def both(result):
    table = table_of(result)
    return table, overlaps_of(result.joined, table)


@pytest.fixture(scope="module")
def small():
    return both(cases.fixture())


# --------------------------------------------------------------------------------------------------- TIDE

KNOWN = {
    "Cls": (15.91859185918588, 1), "Loc": (16.61166116611659, 2), "Both": (2.805280528052805, 1),
    "Dupe": (1.815181518151789, 2), "Bkg": (1.815181518151796, 3), "Miss": (7.480748074807465, 1),
    "FalsePos": (24.037403740374046, None), "FalseNeg": (21.397139713971377, None),
}  # fmt: skip


def lrp_thresholds(table):
    """(classes,) the score thresholds of the optimal LRP."""
    scores = {row["class"]: row["score"] for row in lrp(table).get("classes", ())}
    return np.array([scores.get(name) for name in table.classes], np.float64)


def numbers_of(row):
    return [math.nan if row[key] is None else row[key] for key in ("olrp", "loc", "fp", "fn", "score")]


def test_tide_of_the_small_data_set(small):
    found = tide(*small, points=HUNDREDTHS)
    assert tuple(found.fixes) == FIXES
    for name, (points, count) in KNOWN.items():
        assert 100 * found.fixes[name].dap == pytest.approx(points, abs=1e-11), name
        assert found.fixes[name].count == count
    kind = [KINDS[k] if k >= 0 else "-" for k in find_error_types(*small)]
    assert kind == "- Dupe - Cls Loc Bkg - Both Dupe - Bkg Bkg Bkg - Loc".split()
    table = small[0]
    assert table.outcome[10] == IGNORED
    assert sum(f.count for f in list(found.fixes.values())[:5]) == (table.outcome == FP).sum()


def test_tide_with_a_class_that_was_never_detected():
    result = evaluate(cases.truth(cases.cow()), cases.detections(), "coco").result
    found = tide(*both(result), points=HUNDREDTHS)
    assert 100 * found.ap == pytest.approx(27.76402640264026, abs=1e-11)
    assert 100 * found.fixes["Miss"].dap == pytest.approx(16.735423542354216, abs=1e-11)
    assert 100 * found.fixes["FalseNeg"].dap == pytest.approx(30.651815181518128, abs=1e-11)
    assert found.fixes["Miss"].classes["cow"] is None


@pytest.mark.parametrize("n", [0, 2])
def test_tide_without_a_true_positive(n):
    one = {"images": ["a"], "categories": ["x"], "image": [0], "category": [0], "xyxy": [[0, 0, 9, 9]]}
    wrong = {"image": [0] * n, "category": [0] * n, "xyxy": [[50, 50, 60, 60]] * n, "score": [0.5] * n}
    result = evaluate(Dataset.from_arrays(**one), Dataset.from_arrays(**{**one, **wrong}), "coco").result
    found = tide(*both(result), points=HUNDREDTHS)
    assert (found.ap, found.fixes["Bkg"].dap, found.fixes["Bkg"].count) == (0, 0, n)
    assert found.fixes["Miss"].count == 1


@pytest.mark.parametrize(("kind", "seed"), list(cases.TIDE_RECORDED))
def test_tide_against_tidecv(kind, seed):
    gt, (det,) = cases.random_pair(seed, **cases.TIDE_OPTIONS[kind])
    found = tide(*both(evaluate(gt, det, "coco").result), points=HUNDREDTHS)
    ours = [found.ap, *(fix.dap for fix in found.fixes.values())]
    assert [100 * v for v in ours] == pytest.approx(cases.TIDE_RECORDED[kind, seed], abs=1e-10)


@pytest.mark.parametrize("name", WITH_AP)
def test_tide_begins_with_the_ap_of_the_protocol(name):
    gt, (det,) = cases.random_pair(3, crowds=0.1, flags=(Flag.DIFFICULT,))
    result = evaluate(gt, det, name).result
    found = tide(*both(result))
    key = "mAP50" if result.rules.shared_score else "AP50" if result.rules.averaged else "mAP"
    if (
        key in result.summary and not result.rules.mean_over
    ):  # others summarise rates, or a fixed list of classes
        assert found.ap == pytest.approx(result.summary[key], abs=CLOSE)
    table = table_of(result)
    assert sum(found.fixes[name].count for name in KINDS) == (table.outcome == FP).sum()
    assert found.fixes["Miss"].count <= table.missed.sum()
    gains = [v for v in found.fixes["FalsePos"].classes.values() if v is not None]
    assert found.fixes["FalsePos"].dap == pytest.approx(np.mean(gains), abs=CLOSE)


@pytest.mark.parametrize("name", ["corloc", "imagenet-loc", "tf-weighted"])
def test_tide_needs_ap_per_class(name):
    gt, (det,) = cases.random_pair(3)
    with pytest.raises(UsageError, match=f"AP per class, which {name}"):
        tide(*both(evaluate(gt, det, name).result))


def test_kinds_at_the_very_ends_of_their_ranges():
    """IoU of exactly .1 and .5 with the own class is a localisation error."""
    gt = Dataset.from_arrays(
        images=["a", "b", "c", "d"],
        categories=["x", "y"],
        image=[0, 1, 2, 3],
        category=[0, 0, 0, 1],
        xyxy=[[0, 0, 10, 10]] * 4,
    )
    det = Dataset.from_arrays(
        images=["a", "b", "c", "d"],
        categories=["x", "y"],
        image=[0, 0, 1, 2, 3],
        category=[0] * 5,
        xyxy=[[0, 0, 10, 10], [0, 0, 10, 5], [0, 0, 10, 1], [0, 0, 10, 0.9], [0, 0, 10, 1]],
        score=[0.9, 0.8, 0.7, 0.6, 0.5],
    )
    result = evaluate(gt, det, "tf-voc").result
    assert [KINDS[k] if k >= 0 else "" for k in find_error_types(*both(result))] == [
        "",
        "Loc",
        "Loc",
        "Bkg",
        "Bkg",
    ]
    from odm.evaluate.matching.matches import REASONS

    reasons = [REASONS[r] if r >= 0 else "" for r in result.detections.reason.tolist()]
    assert reasons == ["", "localisation", "localisation", "background", "background"]


# ---------------------------------------------------------------------------------------------------- LRP


def test_lrp_of_the_small_data_set(small):
    found = lrp(small[0])
    assert found["olrp"] == pytest.approx(0.738888888888889, abs=CLOSE)
    known = {
        "cat": (2 / 3, 0, 0, 2 / 3, 0.97),
        "dog": (0.8, 0.3, 1 / 3, 1 / 3, 0.63),
        "bird": (0.75, 0, 2 / 3, 0.5, 0.66),
    }
    for own, (name, numbers) in zip(found["classes"], known.items(), strict=True):
        assert own["class"] == name
        assert numbers_of(own) == pytest.approx(numbers, abs=CLOSE)


@pytest.mark.parametrize(("kind", "seed"), list(cases.LRP_RECORDED))
def test_lrp_against_the_program_of_its_authors(kind, seed):
    gt, (det,) = cases.random_pair(seed, **cases.TIDE_OPTIONS[kind])
    found = lrp(table_of(evaluate(gt, det, "coco").result))
    for own, recorded in zip(found["classes"], cases.LRP_RECORDED[kind, seed], strict=True):
        assert numbers_of(own) == pytest.approx(recorded, rel=1e-10)


def slow_lrp(table, k):
    """The least LRP over every distinct score, with everything counted again for each."""
    own = [i for i in range(len(table.score)) if table.category[i] == k and table.outcome[i] != IGNORED]
    n = int(table.n[k])
    best = (math.inf, None)
    for t in sorted({float(table.score[i]) for i in own}, reverse=True):
        kept = [i for i in own if table.score[i] >= t]
        tp = [i for i in kept if table.outcome[i] == TP]
        if tp:
            loss = sum(1 - table.iou[i] for i in tp) / (1 - table.threshold)
            error = (loss + len(kept) - len(tp) + n - len(tp)) / (n + len(kept) - len(tp))
            if error < best[0] - 1e-12:
                best = (error, t)
    return best


@pytest.mark.parametrize("name", ["coco", "voc2012", "openimages-challenge", "lvis"])
@pytest.mark.parametrize("seed", range(4))
def test_lrp_against_a_plain_loop(name, seed):
    gt, (det,) = cases.random_pair(seed, crowds=0.15, ties=seed % 2 == 0, flags=(Flag.GROUP_OF,))
    table = table_of(evaluate(gt, det, name).result)
    for own in lrp(table)["classes"]:
        error, score = slow_lrp(table, table.classes.index(own["class"]))
        assert own["olrp"] == pytest.approx(error, abs=CLOSE)
        assert own["score"] == score


def test_lrp_without_a_true_positive_or_a_ground_truth():
    gt = Dataset.from_arrays(
        images=["a"], categories=["x", "y"], image=[0], category=[0], xyxy=[[0, 0, 9, 9]]
    )
    det = Dataset.from_arrays(
        images=["a"], categories=["x", "y"], image=[0, 0], category=[0, 1],
        xyxy=[[50, 50, 60, 60]] * 2, score=[0.5, 0.6],
    )  # fmt: skip
    result = evaluate(gt, det, "coco").result
    found = lrp(table_of(result))
    none = {"loc": None, "fp": None}
    assert found["classes"] == [{"class": "x", "olrp": 1, **none, "fn": 1, "score": None}]
    assert {**found, "classes": []} == {"olrp": 1, **none, "fn": 1, "classes": []}
    assert image_table(table_of(result), lrp_thresholds(table_of(result))).error.tolist() == [1.0]


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [("imagenet-det", {}, "separate"), ("voc2012", {"iou": 1.0}, "IoU 1"), ("corloc", {}, "every object")],
)
def test_no_lrp_without_a_threshold_below_one(name, options, reason):
    gt, (det,) = cases.random_pair(1)
    table = table_of(evaluate(gt, det, name, **options).result)
    found = lrp(table)
    assert reason in found["reason"]
    assert found["olrp"] is None
    counted = image_table(table, lrp_thresholds(table))
    assert np.isnan(counted.error).all()
    assert counted.reason == found["reason"]
    assert len(counted.rows()) == 40


# ------------------------------------------------------------------------------------------------- images


def test_images_of_the_small_data_set(small):
    table, _ = small
    counted = image_table(table, lrp_thresholds(table))
    assert counted.error.tolist() == pytest.approx([0.8, 4, 2.4, 0, 0, 1])
    assert list(zip(counted.tp, counted.fp, counted.fn, strict=True)) == [
        (2, 0, 0), (0, 2, 2), (1, 1, 1), (1, 0, 0), (0, 0, 0), (0, 0, 1),
    ]  # fmt: skip
    everything = image_table(table, 0.0)
    assert list(zip(everything.tp, everything.fp, everything.fn, strict=True)) == [
        (2, 1, 0), (0, 3, 2), (1, 2, 1), (1, 1, 0), (0, 1, 0), (1, 1, 0),
    ]  # fmt: skip
    rows = counted.rows()
    assert [row["image"] for row in rows] == ["2", "3", "6", "1", "4", "5"]
    assert rows[0]["error_share"] == pytest.approx(4 / 8.2)
    assert rows[0]["worst_fp_score"] == 0.86
    assert rows[-1]["f1"] is None
    assert everything.ignored.tolist() == [0, 0, 0, 1, 0, 0]
    assert everything.gt_ignored.tolist() == [0, 0, 0, 1, 0, 0]


@pytest.mark.parametrize("name", ["coco", "voc2012", "openimages-challenge", "tf-weighted", "lvis"])
def test_errors_of_images_add_up_to_lrp(name):
    gt, (det,) = cases.random_pair(7, crowds=0.1, flags=(Flag.DIFFICULT, Flag.GROUP_OF))
    table = table_of(evaluate(gt, det, name).result)
    total = 0.0
    for own in lrp(table)["classes"]:
        k = table.classes.index(own["class"])
        kept = (table.category == k) & (table.score >= own["score"])
        total += own["olrp"] * (table.n[k] + (kept & (table.outcome == FP)).sum())
    counted = image_table(table, lrp_thresholds(table))
    assert counted.error.sum() == pytest.approx(total)
    assert sum(row["error_share"] for row in counted.rows()) == pytest.approx(1)


def test_images_by_the_scores_of_a_file(small):
    table, _ = small
    counted = image_table(table, np.array([math.nan, 0.7, 0.7]))
    assert counted.thresholds.tolist() == pytest.approx([math.nan, 0.7, 0.7], nan_ok=True)
    assert counted.det.tolist() == [0, 2, 2, 0, 0, 0]


# --------------------------------------------------------------------------------------------- for review


def test_missed_objects_of_the_small_data_set(small):
    rows = missed(*small)
    assert [row["gt"] + 1 for row in rows] == [3, 4, 6]
    assert (rows[0]["other_class"], rows[0]["other_score"], rows[0]["other_iou"]) == ("dog", 0.86, 1.0)
    assert rows[0]["same_iou"] is None
    assert (rows[1]["same_score"], rows[1]["same_iou"]) == (0.71, pytest.approx(1 / 3))
    assert (rows[2]["same_iou"], rows[2]["other_iou"], rows[2]["area"]) == (None, None, 900)


def test_suspects_of_the_small_data_set(small):
    rows = suspects(*small)
    assert [(row["kind"], row["suspicion"], row["gt"], row["det"]) for row in rows] == [
        ("class", 1, 2, 3), ("location", 1, 3, 4), ("both", 1, None, 7), ("missing", 0.5, None, 11),
        ("spurious", 1, 5, None),
    ]  # fmt: skip
    assert (rows[0]["class"], rows[0]["other_class"], rows[0]["other_score"]) == ("cat", "dog", 0.86)
    assert (rows[2]["other_class"], rows[3]["class"]) == ("dog", "cat")
    assert {row["det"] for row in suspects(*small, suspicion_min=0) if row["kind"] == "missing"} == {
        5,
        11,
        12,
    }


def test_what_an_ignored_box_covers_is_measured_by_areas():
    """A tenth is a tenth: computed from the IoU it was 0.10000000000000002, and no suspect."""
    common = {"images": ["a"], "categories": ["x"], "image": [0, 0], "category": [0, 0]}
    gt = Dataset.from_arrays(**common, xyxy=[[0, 9, 32, 41], [90, 0, 99, 9]], flags=[Flag.CROWD, 0])
    det = Dataset.from_arrays(**common, xyxy=[[0, 0, 10, 10], [90, 0, 99, 9]], score=[0.9, 0.8])
    sides = both(evaluate(gt, det, "coco").result)
    assert sides[1].ignored_cover.tolist() == [0.1, 0.0]
    assert [(row["kind"], row["det"]) for row in suspects(*sides)] == [("missing", 0)]


@pytest.mark.parametrize(("left", "kind"), [(2, "both"), (7, "both"), (9, "missing"), (20, "missing")])
def test_a_confident_object_beside_one_of_another_class_is_a_suspect(left, kind):
    """A person whom nobody annotated on a bicycle that was."""
    common = {"images": ["a", "b"], "categories": ["person", "bicycle"]}
    gt = Dataset.from_arrays(**common, image=[0, 1, 1], category=[1, 0, 0],
                             xyxy=[[0, 0, 10, 20], [0, 0, 9, 9], [50, 50, 70, 70]])  # fmt: skip
    det = Dataset.from_arrays(**common, image=[0, 1, 1, 0], category=[1, 0, 0, 0], score=[0.9, 0.8, 0.7, 0.85],
                              xyxy=[[0, 0, 10, 20], [0, 0, 9, 9], [50, 50, 70, 70], [left, 5, left + 10, 15]])  # fmt: skip
    (row,) = suspects(*both(evaluate(gt, det, "coco").result))
    assert (row["kind"], row["det"], row["gt"], row["suspicion"]) == (kind, 3, None, 1)
    assert row["other_class"] == ("bicycle" if kind == "both" else None)


@pytest.mark.parametrize(("left", "kinds"), [(1, ["duplicate"]), (4, ["duplicate"]), (6, [])])
def test_two_labels_of_one_object_are_a_suspect(left, kinds):
    """The second label overlaps with the detection of the first by an IoU of 9/11, 6/14 and less."""
    common = {"images": ["a"], "categories": ["x"]}
    gt = Dataset.from_arrays(**common, image=[0, 0], category=[0, 0],
                             xyxy=[[0, 0, 10, 10], [left, 0, left + 10, 10]])  # fmt: skip
    det = Dataset.from_arrays(**common, image=[0], category=[0], score=[0.9], xyxy=[[0, 0, 10, 10]])
    result = evaluate(gt, det, "coco", iou=[0.4]).result
    rows = suspects(*both(result))
    assert [row["kind"] for row in rows] == kinds
    assert [(row["gt"], row["det"], row["suspicion"]) for row in rows] == [(1, 0, 1)] * len(kinds)


def iou_of(a, b):
    inter = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    area = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
    return inter / (sum(area) - inter), inter / area[0]


@pytest.mark.parametrize("seed", range(3))
def test_suspects_against_a_plain_loop(seed):
    gt, (det,) = cases.random_pair(seed, n_images=15, crowds=0.2)
    table, overlaps = both(evaluate(gt, det, "coco").result)
    truth = table.truth
    expected = set()
    for i in range(len(table.score)):
        if table.outcome[i] != FP:
            continue
        near = [(g, *iou_of(table.xyxy[i], truth.xyxy[g])) for g in range(len(truth))
                if truth.image[g] == table.image[i]]  # fmt: skip
        lost = [(g, iou) for g, iou, _ in near if table.missed[g]]
        k = table.category[i]
        tps = [
            s
            for s, o, c in zip(table.score, table.outcome, table.category, strict=True)
            if o == TP and c == k
        ]
        share = np.mean([s <= table.score[i] for s in tps]) if tps else 0
        if any(iou >= 0.5 and truth.category[g] != k for g, iou in lost):
            kind = "class"
        elif any(0.1 <= iou <= 0.5 and truth.category[g] == k for g, iou in lost):
            kind = "location"
        elif all(iou <= 0.1 and (table.counting[g] or cover <= 0.1) for g, iou, cover in near):
            kind = "missing"
        elif all(iou < (0.5 if truth.category[g] != k else 0.1 + 1e-15) and (table.counting[g] or cover <= 0.1)
                 for g, iou, cover in near):  # fmt: skip
            kind = "both"
        else:
            continue
        if share >= 0.5:
            expected.add((kind, int(table.matches.row[i])))
    for g in range(len(truth)):
        if table.missed[g] and not any(
            iou_of(table.xyxy[i], truth.xyxy[g])[0] > 0.1
            for i in range(len(table.score))
            if table.image[i] == truth.image[g]
        ):
            k = truth.category[g]
            n = table.n[k]
            if n > 1 and (table.is_found & (truth.category == k)).sum() / (n - 1) >= 0.5:
                expected.add(("spurious", int(truth.row[g])))
        same = [
            (iou_of(table.xyxy[i], truth.xyxy[g])[0], table.score[i], i)
            for i in range(len(table.score))
            if table.image[i] == truth.image[g] and table.category[i] == truth.category[g]
        ]
        if table.missed[g] and same and max(same)[0] >= 0.5 and table.outcome[max(same)[2]] == TP:
            right = table.score[(table.outcome == TP) & (table.category == truth.category[g])]
            if np.mean(right <= max(same)[1]) >= 0.5:
                expected.add(("duplicate", int(table.matches.row[max(same)[2]])))
    rows = suspects(table, overlaps)
    assert {(row["kind"], row["gt"] if row["det"] is None else row["det"]) for row in rows} == expected
    assert len(rows) == len(expected) > 0
    order = [(row["kind"] == "spurious", -row["suspicion"]) for row in rows]
    assert order == sorted(order)


# -------------------------------------------------------------------------------------------- calibration


def test_calibration_of_the_small_data_set(small):
    found = calibration(small[0])
    assert found["dece"] == pytest.approx(0.376428571428571, abs=CLOSE)
    assert found["mce"] == pytest.approx(0.74, abs=CLOSE)
    classes = {own["class"]: own["dece"] for own in found["classes"]}
    assert classes == pytest.approx({"cat": 0.464, "dog": 0.344, "bird": 0.5325}, abs=CLOSE)
    assert [one["n"] for one in found["bins"]] == [0, 0, 1, 2, 2, 1, 2, 2, 2, 2]


@pytest.mark.parametrize(("kind", "seed"), list(cases.CALIBRATION_RECORDED))
def test_calibration_against_netcal(kind, seed):
    gt, (det,) = cases.random_pair(seed, **cases.TIDE_OPTIONS[kind])
    found = calibration(table_of(evaluate(gt, det, "coco").result))
    ours = [found["dece"], found["mce"], *(own["dece"] for own in found["classes"])]
    assert ours == pytest.approx(cases.CALIBRATION_RECORDED[kind, seed], rel=1e-10)


def test_bins_are_open_on_the_left():
    gt = Dataset.from_arrays(images=["a"], categories=["x"], image=[0], category=[0], xyxy=[[0, 0, 9, 9]])
    scores = [0.0, 0.1, 0.30000000000000004, 0.3, 1.0]
    det = Dataset.from_arrays(
        images=["a"],
        categories=["x"],
        image=[0] * 5,
        category=[0] * 5,
        xyxy=[[50, 50, 60, 60]] * 5,
        score=scores,
    )
    found = calibration(table_of(evaluate(gt, det, "voc2012").result))
    assert [one["n"] for one in found["bins"]] == [2, 0, 1, 1, 0, 0, 0, 0, 0, 1]


def test_no_calibration_of_scores_outside_0_and_1():
    gt, (det,) = cases.random_pair(1)
    boxes = det.boxes
    logits = Dataset.from_arrays(
        images=list(det.images.name), categories=list(det.categories.name), image=boxes.image,
        category=boxes.category, xyxy=boxes.xyxy, score=boxes.score * 4 - 2,
    )  # fmt: skip
    found = calibration(table_of(evaluate(gt, logits, "voc2012").result))
    assert "outside 0..1" in found["reason"]
    assert json.loads(json.dumps(found, allow_nan=False))["dece"] is None


# --------------------------------------------------------------------------------------------- thresholds


@pytest.mark.parametrize(
    ("rule", "known"),
    [
        ("f1", [(0.42, 0.571429), (0.63, 0.666667), (0.66, 0.4)]),
        ("fbeta:0.5", [(0.97, 0.714286), (0.63, 0.666667), (0.66, 0.357143)]),
        ("precision:0.6", [(0.97, 1 / 3), (0.63, 2 / 3), None]),
        ("recall:0.6", [(0.42, 0.5), (0.63, 0.666667), None]),
        ("cost:1:5", [(0.42, 7), (0.63, 6), (0.66, 7)]),
        ("lrp", [(0.97, 0.666667), (0.63, 0.8), (0.66, 0.75)]),
        ("cost:1:0", [None, None, None]),
    ],
)
def test_thresholds_of_the_small_data_set(small, rule, known):
    found = choose_thresholds(small[0], rule)
    assert found["rule"] == rule
    all_of_classes = zip(found["classes"].values(), list_candidates(small[0]), known, strict=True)
    for own, of_class, expected in all_of_classes:
        value = find_best_candidate(of_class, parse_rule(rule), 0.5)[1]
        if expected is None:
            assert own["score"] is None
        else:
            assert (own["score"], value) == pytest.approx(expected, abs=1e-6)
    scores, default = read_thresholds(json.loads(json.dumps(found)))
    given = {
        name: math.nan if own["score"] is None else own["score"] for name, own in found["classes"].items()
    }
    assert scores == pytest.approx(given, abs=0, nan_ok=True)
    assert math.isnan(default) if found["default"] is None else default == found["default"]


@pytest.mark.parametrize("rule", ["f1", "fbeta:2", "precision:0.5", "recall:0.3", "cost:1:2"])
def test_thresholds_against_a_plain_loop(rule):
    gt, (det,) = cases.random_pair(2, ties=True)
    table = table_of(evaluate(gt, det, "coco").result)
    found = choose_thresholds(table, rule)
    name, *values = rule.split(":")
    values = [float(v) for v in values]
    for name_of, own in found["classes"].items():
        k = table.classes.index(name_of)
        best, chosen = -math.inf, math.nan
        mine = (table.category == k) & (table.outcome != IGNORED)
        n = int(table.n[k])
        if name == "cost":
            best = -values[1] * n
        for t in sorted(set(table.score[mine].tolist()), reverse=True):
            kept = mine & (table.score >= t)
            tp = int((kept & (table.outcome == TP)).sum())
            fp = int(kept.sum()) - tp
            p, r = tp / (tp + fp), tp / n
            if name in ("f1", "fbeta"):
                b = values[0] ** 2 if values else 1
                value = (1 + b) * p * r / (b * p + r) if tp else -math.inf
            elif name == "cost":
                value = -(values[0] * fp + values[1] * (n - tp))
            else:
                least, value = (p, r) if name == "precision" else (r, p)
                value = value if least >= values[0] else -math.inf
            if value > best + 1e-12:
                best, chosen = value, t
        assert own["score"] == (None if math.isnan(chosen) else pytest.approx(chosen))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f2",
        "fbeta",
        "fbeta:0",
        "fbeta:x",
        "precision:1.5",
        "cost:1",
        "cost:0:0",
        "cost:-1:2",
        "lrp:1",
        "f1:nan",
    ],
)
def test_rules_that_are_none(text):
    with pytest.raises(UsageError, match="give f1, fbeta:B"):
        parse_rule(text)


@pytest.mark.parametrize(
    "data",
    [
        [], {}, {"version": 2}, {"version": 1, "default": 0.5}, {"version": 1, "default": "x", "classes": {}},
        {"version": 1, "default": 0.1, "classes": {"a": 0.5}},
        {"version": 1, "default": 0.1, "classes": {"a": {"score": True}}},
        {"version": 1, "default": 0.1, "classes": {"a": {"score": math.inf}}},
    ],
)  # fmt: skip
def test_files_that_hold_no_thresholds(data):
    with pytest.raises(UsageError, match="thresholds: "):
        read_thresholds(data)


# ---------------------------------------------------------------------------------------------- agreement

SECOND = """c,1,12,10,40,40
c,1,100,100,50,40
c,2,20,20,40,40
d,3,50,50,60,48
b,3,150,10,30,30
d,3,0,150,20,20"""


def annotations(rows):
    box = np.array([[float(v) for v in row[2:6]] for row in rows])
    box[:, 2:] += box[:, :2]
    return Annotations.from_arrays([int(r[1]) - 1 for r in rows], ["cdb".index(r[0]) for r in rows], box)


def test_agreement_of_the_small_data_set():
    first = annotations([line.split(",")[1:] for line in cases.TRUTH.splitlines()[:6]])
    other = annotations([line.split(",") for line in SECOND.splitlines()])
    found = agree(first, other, cases.CLASSES)
    assert found.pairs == 5
    assert found.f1_location == pytest.approx(0.833333, abs=1e-6)
    assert found.f1 == pytest.approx(0.5)
    assert [own["f1"] for own in found.classes.values()] == pytest.approx([0.8, 0.4, 0])
    assert found.mean_iou == pytest.approx(0.900952, abs=1e-6)
    assert found.kappa == pytest.approx(0.375)
    assert found.confusion.tolist() == [[2, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]]
    turned = agree(other, first, cases.CLASSES)
    assert (turned.f1, turned.kappa, turned.mean_iou) == (found.f1, found.kappa, found.mean_iou)


def test_an_annotator_agrees_with_herself():
    gt, _ = cases.random_pair(1)
    own = Annotations.from_arrays(gt.boxes.image, gt.boxes.category, gt.boxes.xyxy)
    found = agree(own, own, gt.categories.name)
    assert (found.f1, found.f1_location, found.mean_iou) == (1, 1, pytest.approx(1))
    assert found.kappa == pytest.approx(1)
    one = Annotations.from_arrays(gt.boxes.image, gt.boxes.category * 0, gt.boxes.xyxy)
    assert math.isnan(agree(one, one, ["x"]).kappa)
    nobody = Annotations.from_arrays([], [], np.zeros((0, 4)))
    assert math.isnan(agree(nobody, nobody, ["x"]).f1)
    assert agree(own, nobody, gt.categories.name).f1 == 0


@pytest.mark.parametrize("at_a_time", [2**20, 5])
@pytest.mark.parametrize("seed", range(5))
def test_pairs_are_taken_greedily(seed, at_a_time, monkeypatch):
    monkeypatch.setattr(agree_module, "AT_A_TIME", at_a_time)
    gt, (det,) = cases.random_pair(seed, n_images=10, step=10)
    a = Annotations.from_arrays(gt.boxes.image, gt.boxes.category, gt.boxes.xyxy)
    b = Annotations.from_arrays(det.boxes.image, det.boxes.category, det.boxes.xyxy)
    pairs = set()
    for image in range(10):
        mine, theirs = np.flatnonzero(a.image == image), np.flatnonzero(b.image == image)
        todo = [
            (-iou_of(a.xyxy[i], b.xyxy[j])[0], p + q, p, i, j)
            for p, i in enumerate(mine)
            for q, j in enumerate(theirs)
        ]
        used = set()
        for iou, _, _, i, j in sorted(todo):
            if -iou >= 0.5 and not {("a", i), ("b", j)} & used:
                used |= {("a", i), ("b", j)}
                pairs.add((int(i), int(j)))
    found = agree(a, b, gt.categories.name)
    assert set(zip(found.first.tolist(), found.other.tolist(), strict=True)) == pairs
    assert pairs


@pytest.mark.parametrize("n", [2_000, 20_000])
def test_pairs_take_work_by_what_overlaps(n, monkeypatch):
    """Not by all combinations of the boxes of an image."""
    compared = []

    def counted(self, width, *columns, find=pairs_module._Boxes.measure_overlaps):
        compared.append(width.size)
        return find(self, width, *columns)

    monkeypatch.setattr(pairs_module._Boxes, "measure_overlaps", counted)
    corner = np.random.default_rng(n).random((n, 2)) * 40 * np.sqrt(n)  # each overlaps with a few
    boxes = np.concatenate([corner, corner + 40], axis=1)
    first, other = (
        Annotations.from_arrays(np.zeros(n), np.zeros(n), xyxy) for xyxy in (boxes, boxes[::-1] + 1)
    )
    assert agree(first, other, "x").pairs > 0.9 * n
    assert sum(compared) < max(2_000 * n, n * n / 10)


@pytest.mark.parametrize("limit", ["overlapping", "rounds"])
def test_boxes_that_overlap_too_often_are_refused_before_they_are_compared(limit, monkeypatch):
    monkeypatch.setattr(agree_module, "MOST_PAIRS", 500 if limit == "overlapping" else 2_500)
    monkeypatch.setattr(agree_module, "AT_A_TIME", 20)
    if limit == "overlapping":
        monkeypatch.setattr(agree_module, "find_pairs", None)
    crowd = Annotations.from_arrays(np.zeros(50), np.zeros(50), np.tile([0, 0, 9, 9], (50, 1)))
    with pytest.raises(UsageError, match="50 and 50 boxes that overlap"):
        agree(crowd, crowd, "x")
    spread = Annotations.from_arrays(np.arange(50), np.zeros(50), crowd.xyxy)
    monkeypatch.undo()
    assert agree(spread, spread, "x").pairs == 50


def test_agreement_needs_an_iou():
    with pytest.raises(UsageError, match="iou 0"):
        agree(
            annotations([["c", "1", "0", "0", "1", "1"]]),
            annotations([["c", "1", "0", "0", "1", "1"]]),
            "cdb",
            iou=0,
        )


# ------------------------------------------------------------------------------------------------- shards


@pytest.mark.parametrize("n", [1, 7])
def test_overlaps_are_the_same_however_many_pairs_are_measured_at_a_time(n, monkeypatch):
    """Of three detections of one object, the first overlaps more than the second and less than the third."""
    names = {"images": ["a"], "categories": ["x"]}
    wide = [[0, 0, 80, 100], [0, 0, 60, 100], [0, 0, 90, 100]]
    detections = Dataset.from_arrays(
        **names, image=[0] * 3, category=[0] * 3, ltwh=wide, score=[0.9, 0.8, 0.7]
    )
    truth = Dataset.from_arrays(**names, image=[0], category=[0], ltwh=[[0, 0, 100, 100]])
    sides = [(truth, detections.take(slice(0, k))) for k in (2, 3)]
    sides += [(gt, det) for gt, (det,) in map(cases.random_pair, range(3))]
    results = [evaluate(gt, det, "coco").result for gt, det in sides]
    before = [both(result)[1] for result in results]
    for limit, value in {"CHUNK": n, "AT_A_TIME": n, "LARGE": 0}.items():
        monkeypatch.setattr(pairs_module, limit, value)
    for result, expected in zip(results, before, strict=True):
        found = both(result)[1]
        for name in expected.__struct_fields__:
            one, other = getattr(found, name), getattr(expected, name)
            columns = [(one.at, other.at), (one.iou, other.iou)] if hasattr(one, "at") else [(one, other)]
            for column, same in columns:
                np.testing.assert_array_equal(column, same, name)


@pytest.mark.parametrize("name", ["coco", "voc2012", "openimages-challenge"])
def test_shards_in_any_order_give_the_same(name):
    gt, (det,) = cases.random_pair(11, crowds=0.1, ties=True, flags=(Flag.GROUP_OF,))
    result = evaluate(gt, det, name).result
    whole = result.joined
    number = np.arange(len(whole.images))
    shards = [whole.shard(number[number % 3 == s]) for s in (2, 0, 1)]
    table = tabulate(whole, concatenate([match(s, result.rules) for s in shards]))
    overlaps = overlaps_of(whole, table)
    one = both(result)
    assert tide(table, overlaps).to_dict(classes=True) == tide(*one).to_dict(classes=True)
    assert lrp(table) == lrp(one[0])
    assert image_table(table).rows() == image_table(one[0]).rows()
    assert suspects(table, overlaps) == suspects(*one)

    def by_gt(rows):
        return sorted(rows, key=lambda row: row["gt"])

    assert by_gt(missed(table, overlaps)) == by_gt(missed(*one))
    assert choose_thresholds(table, "f1") == choose_thresholds(one[0], "f1")
