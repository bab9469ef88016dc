"""Which image and which class is which, and what is refused."""

import itertools
import json
import re

import numpy as np
import pytest
from msgspec.structs import replace
from selection import FIXED_CLASSES

import odm
from odm.converters import Request, load_pair
from odm.evaluate import PROTOCOLS, evaluate, join, render, save
from odm.issues import DataError, Log, UsageError
from odm.tables import Dataset, Flag


def side(images, boxes, categories=("c",), **given):
    """Boxes as (image, class) numbers, all at the same place unless told."""
    n = len(boxes)
    given.setdefault("ltwh", [(10, 10, 30.5, 20)] * n)
    return Dataset.from_arrays(
        images=images, categories=categories, image=[b[0] for b in boxes], category=[b[1] for b in boxes], **given
    )  # fmt: skip


def scored(images, boxes, categories=("c",), **given):
    given.setdefault("score", np.linspace(0.9, 0.1, len(boxes)) if boxes else [])
    return side(images, boxes, categories, **given)


def unnamed(dataset):
    return replace(dataset, categories=replace(dataset.categories, named=False))


@pytest.mark.parametrize(
    ("ours", "theirs", "how"),
    [
        ("a.jpg", "a.jpg", "name"),
        ("a.jpg", "a", "name without extension"),
        ("x/a.jpg", "x/a.png", "name without extension"),
        ("train/a.jpg", "a", "last part"),
        ("a.b.jpg", "out/a.b.JPEG", "last part"),
    ],
)
def test_names(ours, theirs, how):
    joined = join(side([ours, "other.jpg"], [(0, 0)]), scored([theirs], [(0, 0)]))
    assert joined.report.how == {how: 1}
    assert joined.report.images_both == 1
    assert joined.report.images_gt_only == ("other.jpg",)
    assert joined.images == (ours, "other.jpg")


def test_ids_join_only_where_nothing_else_is_known():
    truth = side(["a.jpg", "b.jpg"], [(0, 0)], image_ids=[7, 8])
    joined = join(truth, scored(["8", "7"], [(0, 0)], image_ids=[8, 7]))
    assert joined.report.how == {"id": 2}
    assert joined.detections.image.tolist() == [1]
    with pytest.raises(DataError, match="no-image-in-common"):
        join(truth, scored(["x.jpg"], [(0, 0)], image_ids=[7]))


def test_ambiguous_names_do_not_join():
    truth = side(["x/a.jpg", "y/a.jpg", "b.jpg"], [(0, 0), (1, 0)])
    with pytest.raises(DataError, match="image-only-in-detections"):
        join(truth, scored(["a.jpg", "b.jpg"], [(0, 0)]))


def test_extra_images():
    truth, det = side(["a", "b"], [(0, 0)]), scored(["a", "bb"], [(1, 0), (0, 0)])
    log = Log()
    with pytest.raises(DataError):
        evaluate(truth, det, log=log)
    assert "'bb'" in str(log.issues[0])
    assert log.counts == {"image-only-in-detections": 1}
    evaluation = evaluate(truth, det, extra_images="background")
    assert evaluation.summary["mAP"] == 0.5
    assert evaluation.join.images_det_only == ("bb",)
    assert "background" in evaluation.result.definition


def test_images_of_both_sides_are_counted():
    """Three have both, one of these without detections; two are in the detections only."""
    truth = side(["a", "b", "c", "d"], [(0, 0)])
    det = scored(["x", "b", "a", "y", "c"], [(0, 0), (1, 0), (2, 0), (3, 0)])
    report = join(truth, det, extra_images="background").report
    assert report.to_dict()["images"] == {
        "both": 3, "without_detections": 1, "gt_only": ["d"], "det_only": ["x", "y"],
    }  # fmt: skip
    ignored = join(truth, det, extra_images="ignore").report.to_dict()["images"]
    assert (ignored["both"], ignored["without_detections"], ignored["gt_only"]) == (3, 1, ["d"])


def test_order_of_images_decides_ties():
    def order(**given):
        return join(side(["c", "a", "b"], [(0, 0)], **given), scored(["a"], [(0, 0)])).images

    assert order() == ("c", "a", "b")
    assert order(image_ids=[10, 9, 2]) == ("b", "a", "c")
    assert order(image_ids=["10", "9", "2"]) == ("c", "b", "a")
    assert order(image_ids=["10", 9, 2]) == ("b", "a", "c")


def test_class_only_in_detections():
    log = Log()
    evaluation = evaluate(
        side(["a"], [(0, 0)], ["person", "car"]),
        scored(["a"], [(0, 0), (0, 1)], ["person", "Persn", "unused"]),
        log=log,
    )
    assert log.counts == {"class-only-in-detections": 1}
    assert "did you mean 'person'" in str(log.issues[0])
    assert evaluation.join.classes_both == ("person",)
    assert evaluation.join.classes_gt_only == ("car",)
    assert evaluation.join.classes_det_only == ("Persn",)
    assert "nearest: person" in render(evaluation)
    log = Log()
    evaluate(
        side(["a"], [(0, 0)], ["person"]), scored(["a"], [(0, 0), (0, 1)], ["person", "x"]), log=log,
        only_classes=["person"],
    )  # fmt: skip
    assert not +log.counts
    with pytest.raises(DataError, match="no-class-in-common"):
        evaluate(side(["a"], [(0, 0)], ["person"]), scored(["a"], [(0, 0)], ["Person"]))


def test_numbers_take_the_names_of_the_other_side():
    truth = side(["a"], [(0, 1)], ["person", "car", "dog"])
    log = Log()
    evaluation = evaluate(truth, unnamed(scored(["a"], [(0, 0)], ["1"])), log=log)
    assert [row.tp for row in evaluation.classes] == [0, 1, 0]
    assert "positions from 0" in log.notes[0]
    evaluation = evaluate(unnamed(side(["a"], [(0, 0)], ["1"])), scored(["a"], [(0, 1)], ["person", "car"]))
    assert [(row.name, row.tp) for row in evaluation.classes] == [("car", 1)]
    # Both give numbers only: they are the names.
    evaluation = evaluate(unnamed(side(["a"], [(0, 0)], ["5"])), unnamed(scored(["a"], [(0, 0)], ["5"])))
    assert evaluation.summary["mAP"] == 1


def test_numbers_beyond_the_list_are_ids():
    truth = side(["a"], [(0, 1)], ["person", "car"], category_ids=[1, 90])
    log = Log()
    evaluation = evaluate(truth, unnamed(scored(["a"], [(0, 0), (0, 1)], ["90", "1"])), log=log)
    assert [(row.name, row.tp, row.fp) for row in evaluation.classes] == [("person", 0, 1), ("car", 1, 0)]
    assert "as ids" in log.notes[0]
    log = Log()
    evaluate(truth, unnamed(scored(["a"], [(0, 0), (0, 1)], ["7", "1"])), log=log)
    assert log.counts == {"class-only-in-detections": 1}


@pytest.mark.parametrize(
    ("truth", "det", "code"),
    [
        (side(["a"], [(0, 0)]), side(["a"], [(0, 0)]), "no-scores"),
        (scored(["a"], [(0, 0)]), scored(["a"], [(0, 0)]), "all-boxes-scored"),
        (side(["a"], [(0, 0)]), scored(["a"], [(0, 0)] * 2, score=[0.5, np.nan]), "score-not-finite"),
        (side(["a"], [(0, 0)]), scored(["a"], [(0, 0)] * 2, score=[0.5, np.inf]), "score-not-finite"),
        (side(["a"], [(0, 0)]), scored(["a"], [(0, 0)], ltwh=[(0, np.nan, 3, 3)]), "coordinates-not-finite"),
        (side(["a"], [(0, 0)]), scored(["a"], [(0, 0)], ltwh=[(0.1, 0.2, 0.3, 0.3)]), "coordinates-differ"),
        (side(["a"], [(0, 0)], ltwh=[(0.1, 0.2, 0.3, 0.3)]), scored(["a"], [(0, 0)]), "coordinates-differ"),
        (side(["a"], [(0, 0)], ltwh=[(9, 9, -3, 3)]), scored(["a"], [(0, 0)]), "inverted-box"),
        (
            side(["a"], [(0, 0)]),
            scored(["a"], [(0, 0)] * 2, ltwh=[(9, 9, 3, 3), (9, 9, 3, -1)]),
            "inverted-box",
        ),
        (side([], []), scored(["a"], [(0, 0)]), "no-ground-truth"),
        (side(["a"], [(0, 0)]), scored(["b"], [(0, 0)]), "no-image-in-common"),
    ],
)
def test_refused(truth, det, code):
    log = Log()
    with pytest.raises(DataError, match=code):
        evaluate(truth, det, log=log)
    assert set(log.counts) == {code}


def test_warned_and_noted():
    log = Log()
    truth = side(["a"], [(0, 0)])
    evaluate(truth, scored(["a"], [(0, 0)] * 3, score=[95, 60, 44]), log=log)
    assert log.counts == {"scores-in-percent": 1}
    assert "already filtered" in log.notes[0]
    log = Log()
    evaluate(truth, scored(["a"], [(0, 0)], score=[1.7]), log=log)
    assert not log.counts
    assert np.isnan(evaluate(side(["a"], []), scored(["a"], [(0, 0)]), log=log).summary["mAP"])
    assert log.counts == {"no-ground-truth-boxes": 1}
    log = Log()
    evaluate(side(["a"], [(0, 0)], flags=[Flag.CROWD]), scored(["a"], [(0, 0)]), ["voc2012", "coco"], log=log)
    assert log.counts == {"groups-as-objects": 1, "all-objects-ignored": 1}
    assert not log.notes


@pytest.mark.parametrize(
    ("flags", "protocols", "said"),
    [
        (
            [Flag.CROWD, 0, 0],
            ["voc2012"],
            ["1 crowd box of", "object under voc2012, in the class 'a'; use"],
        ),
        (
            [Flag.CROWD, 0, Flag.CROWD],
            ["voc2012", "coco"],
            ["2 crowd boxes", "'a', 'b'; 'b' has only such boxes, and its AP"],
        ),
        (
            [Flag.CROWD, Flag.CROWD, Flag.CROWD],
            "voc2007",
            ["'a', 'b' have only such boxes", "--protocol coco"],
        ),
        ([0, 0, Flag.CROWD], "tf-weighted", ["under tf-weighted, in the class 'b'; use"]),
        (
            [0, 0, Flag.GROUP_OF],
            "coco",
            ["1 group-of box of", "its AP is included in the mean; use --protocol openimages,"],
        ),
        ([Flag.CROWD | Flag.DIFFICULT, 0, 0], "voc2012", []),
        ([Flag.CROWD, 0, Flag.CROWD], "coco", []),
        ([Flag.GROUP_OF, 0, 0], ["openimages", "openimages-challenge"], []),
    ],
)
def test_boxes_of_groups_that_count_as_objects_are_warned_of(flags, protocols, said):
    log = Log()
    evaluate(
        side(["i"], [(0, 0), (0, 0), (0, 1)], "ab", flags=flags),
        scored(["i"], [(0, 0)], "a"),
        protocols,
        log=log,
    )
    assert log.counts == ({"groups-as-objects": 1} if said else {})
    for text in said:
        assert text in str(log.issues[0])


@pytest.mark.parametrize(
    "given",
    [
        {"protocol": "voc2013"},
        {"protocol": []},
        {"iou": 0},
        {"iou": 1.5},
        {"iou": float("nan")},
        {"iou": []},
        {"iou": 0.5, "protocol": "imagenet-det"},
        {"interpolation": "12"},
        {"interpolation": "all", "protocol": "corloc"},
        {"area": "huge"},
        {"area": (5, 1)},
        {"max_dets": 0},
        {"pixels": "both"},
        {"only_classes": ["d"]},
        {"only_images": ["z"]},
        {"score_min": float("nan")},
        {"at_score": float("inf")},
        {"extra_images": "drop"},
        {"hierarchy": {"LabelName": "c"}},
        {"hierarchy": {"LabelName": "z"}, "protocol": "openimages"},
        {"hierarchy": {"LabelName": 3}, "protocol": "openimages"},
        {"image_labels": []},
    ],
)
def test_wrong_use(given):
    with pytest.raises(UsageError):
        evaluate(side(["a"], [(0, 0)]), scored(["a"], [(0, 0)]), **given)


def test_switches_are_said():
    truth, det = (
        side(["a", "b"], [(0, 0), (1, 1)], ["c", "d"]),
        scored(["a", "b"], [(0, 0), (1, 1)], ["c", "d"]),
    )
    for given, word in (
        ({"iou": 0.7}, "IoU 0.7"),
        ({"interpolation": 101}, "interpolation 101"),
        ({"area": "small"}, "area 0..1024"),
        ({"max_dets": 3}, "at most 3"),
        ({"score_min": 0.5}, "score >= 0.5"),
        ({"pixels": "edges"}, "pixels edges"),
        ({"only_classes": ["c"]}, "only 1 class]"),
        ({"only_images": ["a"]}, "only 1 image]"),
    ):
        definition = evaluate(truth, det, **given).result.definition
        assert word in definition[definition.index("[changed: ") :]
    assert "changed" not in evaluate(truth, det, iou=0.5, pixels="inclusive").result.definition
    assert len(evaluate(truth, det, only_classes=["d"]).classes) == 1
    assert evaluate(truth, det, only_images=["a"]).result.overall.gt == 1
    assert evaluate(truth, det, score_min=0.5).result.overall.det == 1


def test_several_protocols_and_thresholds():
    truth, det = side(["a"], [(0, 0)]), scored(["a"], [(0, 0)])
    results = evaluate(truth, det, ["voc2012", "voc2007", "coco"], iou=[0.75, 0.5]).results
    assert [(r.protocol, r.iou) for r in results] == [
        ("voc2012", 0.75),
        ("voc2012", 0.5),
        ("voc2007", 0.75),
        ("voc2007", 0.5),
        ("coco", [0.5, 0.75]),
    ]
    assert not np.isnan(results[-1].summary["AP75"])
    assert np.isnan(evaluate(truth, det, "coco", iou=0.6).summary["AP50"])
    with pytest.raises(UsageError):
        _ = evaluate(truth, det, iou=[0.5, 0.6]).result


def test_caps_of_coco():
    truth, det = side(["a"], [(0, 0)]), scored(["a"], [(0, 0)])
    summary = evaluate(truth, det, "coco", max_dets=300).summary
    assert [k for k in summary if k[2:].isdigit() and k[:2] == "AR"] == ["AR1", "AR10", "AR100", "AR300"]
    summary = evaluate(truth, det, "coco", max_dets=50).summary
    assert np.isnan(summary["AR100"])
    assert summary["AR50"] == 1


def test_many_thresholds_need_more_than_one_word():
    rng = np.random.default_rng(0)
    gt = rng.integers(0, 50, (30, 4)) + [0, 0, 5, 5]
    dt = np.maximum(np.repeat(gt, 3, axis=0) + rng.integers(-4, 5, (90, 4)), 1)
    truth = side(["a"], [(0, 0)] * 30, ltwh=gt)
    det = scored(["a"], [(0, 0)] * 90, ltwh=dt, score=rng.random(90))
    ious = np.linspace(0.3, 0.95, 40).tolist()
    many = evaluate(truth, det, "coco", iou=ious).result
    for t in (0, 17, 39):
        one = evaluate(truth, det, "coco", iou=ious[t]).result
        assert one.summary["AP"] == many.classes[0].extra["ap_per_iou"][t]
        assert (one.arrays.recall[0] == many.arrays.recall[t]).all()


def test_json_is_the_contract():
    truth, det = side(["a"], [(0, 0)], ["person"]), scored(["a"], [(0, 0)], ["person"])
    data = json.loads(render(evaluate(truth, det, ["voc2012", "coco"], iou=0.3), "json"))
    assert data["version"] == 1
    assert data["join"] == {
        "images": {"both": 1, "without_detections": 0, "gt_only": [], "det_only": []},
        "classes": {"both": ["person"], "gt_only": [], "det_only": []},
    }
    voc, coco = data["results"]
    assert voc["protocol"] == "voc2012"
    assert voc["iou"] == 0.3
    assert voc["summary"] == {"mAP": 1.0}
    assert voc["classes"] == [
        {
            "class": "person", "gt": 1, "gt_ignored": 0, "det": 1, "tp": 1, "fp": 0, "fn": 0, "ignored": 0,
            "ap": 1.0, "score": 0.9, "precision": 1.0, "recall": 1.0, "f1": 1.0,
            "tp_at_score": 1, "fp_at_score": 0, "fn_at_score": 0, "best_f1": 1.0, "best_f1_score": 0.9,
        }
    ]  # fmt: skip
    assert coco["iou"] == [0.3]
    assert coco["summary"]["AP50"] is None
    row = coco["classes"][0]
    assert {"AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ap_per_iou"} <= row.keys()


def test_at_score():
    truth = side(["a"], [(0, 0)] * 2, ltwh=[(0, 0, 9, 9), (50, 50, 9, 9)])
    det = scored(
        ["a"], [(0, 0)] * 3, ltwh=[(0, 0, 9, 9), (90, 0, 9, 9), (50, 50, 9, 9)], score=[0.9, 0.5, 0.3]
    )
    row = evaluate(truth, det, at_score=0.5).classes[0]
    assert (row.score, row.precision, row.recall) == (0.5, 0.5, 0.5)
    none = evaluate(truth, det, at_score=0.95).classes[0]
    assert (none.recall, none.f1, none.best_f1, none.best_f1_score) == (0, 0, 0.8, 0.3)
    assert np.isnan(none.precision)
    assert evaluate(truth, det).classes[0].score == 0.3


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS.keys() - {*FIXED_CLASSES, "xview"}))
def test_undefined_is_told_from_0(protocol):
    """Precision and F1 of wrong detections alone are 0, recall without objects and precision of nothing are undefined."""
    names = ["false", "missed", "nothing", "right"]
    far, at, right = (90, 90, 9, 9), (0, 0, 9, 9), (50, 0, 9, 9)
    if PROTOCOLS[protocol].rates or protocol == "widerface":  # which look for larger ones
        far, at, right = (900, 900, 90, 90), (0, 0, 90, 90), (500, 0, 90, 90)
    truth = side(["a"], [(0, 1), (0, 3)], names, ltwh=[at, right])
    det = scored(["a"], [(0, 0), (0, 0), (0, 3)], names, ltwh=[at, far, right], score=[0.9, 0.7, 0.5])
    for options in ({}, {"at_score": 0.4}):
        result = evaluate(truth, det, protocol, **options).result
        rows = {row.name: row for row in result.classes}
        of_nothing = 0 if result.rules.shared_score else np.nan  # as `yolo val` prints it
        n_false = rows["false"].fp_at_score  # protocols differ in whether such a class counts
        for name, shares in {
            "false": [0, np.nan, 0] if n_false else [np.nan] * 3,
            "missed": [of_nothing, 0, 0],
            "nothing": [np.nan] * 3,
        }.items():
            row = rows[name]
            np.testing.assert_equal([row.precision, row.recall, row.f1], shares, err_msg=name)
            page = result.to_dict()["classes"][result.joined.classes.index(name)]
            assert [page[key] is None for key in ("precision", "recall", "f1")] == np.isnan(shares).tolist()
    assert n_false == 2 or protocol in ("lvis", "openimages-challenge", "corloc")


def reasons():
    """One detection for every outcome and reason."""
    truth = side(
        ["a"], [(0, 0), (0, 1), (0, 0)], ["x", "y"],
        ltwh=[(0, 0, 100, 100), (300, 0, 100, 100), (600, 0, 100, 100)], flags=[0, 0, Flag.DIFFICULT],
    )  # fmt: skip
    boxes = {
        "TP": ((0, 0, 100, 100), 0),
        "duplicate": ((0, 0, 100, 90), 0),
        "localisation": ((0, 0, 100, 30), 0),
        "class": ((300, 0, 100, 100), 0),
        "both": ((300, 0, 100, 30), 0),
        "background": ((900, 900, 10, 10), 0),
        "ignored": ((600, 0, 100, 100), 0),
    }
    det = scored(["a"], [(0, k) for _, k in boxes.values()], ["x", "y"], ltwh=[b for b, _ in boxes.values()])
    return evaluate(truth, det), list(boxes)


def test_reasons_of_false_positives():
    from odm.evaluate.matching.matches import OUTCOMES, REASONS

    evaluation, expected = reasons()
    table = evaluation.result.detections
    words = [
        REASONS[r] if OUTCOMES[o] == "FP" else OUTCOMES[o] for o, r in zip(table.outcome, table.reason, strict=True)
    ]  # fmt: skip
    assert words == expected
    assert table.gt.tolist() == [0, -1, -1, -1, -1, -1, 2]
    assert table.best_iou[0] == 1
    assert (table.reason[table.outcome != 1] == -1).all()


def test_confusion_takes_pairs_of_one_class_first():
    truth = side(["a"], [(0, 0), (0, 1)], ["x", "y"], ltwh=[(0, 0, 100, 100), (500, 0, 50, 50)])
    det = scored(
        ["a"], [(0, 1), (0, 0), (0, 1), (0, 0)], ["x", "y"],
        ltwh=[(0, 0, 100, 100), (0, 0, 100, 60), (0, 0, 100, 100), (500, 0, 50, 50)], score=[0.9, 0.8, 0.2, 0.7],
    )  # fmt: skip
    result = evaluate(truth, det).result
    table = result.confusion(score=0.25)
    assert table.counts.tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0]]
    at_best = result.confusion()
    assert at_best.score == result.overall.score == 0.8
    assert at_best.counts.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert result.confusion(score=0.25, iou=0.7).counts.tolist() == [[0, 1, 0], [1, 0, 0], [1, 0, 0]]
    higher = evaluate(truth, det, at_score=0.85).result.confusion()
    assert (higher.score, higher.counts.tolist()) == (0.85, [[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    assert evaluate(truth, det, at_score=0.85).result.confusion(score=0.25).counts.sum() == table.counts.sum()


@pytest.mark.parametrize("output", ["table", "markdown"])
@pytest.mark.parametrize(
    ("options", "counts", "point"),
    [
        ({}, "all scores", "at score 0.9"),
        ({"at_score": 0.6}, "all scores", "at score 0.6"),
        ({"protocol": "coco"}, "all scores", "at score 0.9, IoU 0.5"),
        ({"protocol": "coco", "iou": [0.75, 0.9]}, "all scores", "at score 0.9, IoU 0.75"),
    ],
)
def test_the_table_says_what_its_columns_are_of(output, options, counts, point):
    truth = side(["a"], [(0, 0)], ["c"])
    det = scored(["a"], [(0, 0)], ["c"])
    lines = render(evaluate(truth, det, **options), output).splitlines()
    if output == "markdown":
        (line,) = [line for line in lines if line.startswith("| class")]
        cells = [cell.strip() for cell in line.split("|")]
        assert {f"{key} ({counts})" for key in ("det", "ignored")} <= set(cells)
        assert {f"{key} ({point})" for key in ("TP", "FP", "FN", "precision", "recall", "F1")} <= set(cells)
        return
    above, line = next(pair for pair in itertools.pairwise(lines) if pair[1].startswith("class "))
    assert re.sub(r"[ -]{2,}", "|", above).strip("|") == f"{counts}|{point}"
    start = above.index(point)
    assert line.index("TP") <= start
    assert start + len(point) <= line.index("F1") + 2


def test_saved_files():
    evaluation, _ = reasons()
    files = {}
    save(evaluation, files.__setitem__)
    of_all = [
        "accumulated.csv",
        "confusion.csv",
        "curves.csv",
        "detections.csv",
        "per_class.csv",
        "results.json",
    ]
    assert sorted(files) == sorted([*of_all, "images.csv", "missed.csv", "review.txt", "suspects.csv"])
    assert ",FP,duplicate," in files["detections.csv"].decode().splitlines()[2]
    averaged = render(evaluate(side(["a"], [(0, 0)]), scored(["a"], [(0, 0)]), "coco"), "csv")
    assert ",0.8,0.85,0.9,0.95," in averaged.replace(" ", ",")
    assert (
        files["confusion.csv"]
        .decode()
        .startswith("protocol,iou,score_min,iou_min,gt_class,det_class,count,share_of_gt,share_of_det\n")
    )


@pytest.mark.parametrize("output", ["table", "json", "csv", "markdown"])
def test_undefined_is_never_nan(output):
    truth = side(["a"], [(0, 0)], ["c", "a|b\n`x`"])
    det = scored(["a"], [(0, 0)], ["a|b\n`x`"], ltwh=[(500, 500, 3, 3)])
    text = render(evaluate(truth, det, ["voc2012", "coco", "corloc", "imagenet-loc"]), output)
    assert "nan" not in text.lower()
    if output == "table":
        assert " - " in text
        assert "Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.000" in text
    if output == "markdown":
        assert "a\\|b" in text
    with pytest.raises(UsageError):
        render(evaluate(truth, det), "xml")


def test_numbers_against_a_list_in_order_of_appearance_are_taken_and_said():
    """Only a class list gives numbers a meaning; a guess is a warning."""
    truth = side(["i"], [(0, 0), (0, 1)], ("b", "a"), ltwh=[(0, 0, 9, 9), (50, 50, 9, 9)])
    numbered = unnamed(scored(["i"], [(0, 0), (0, 1)], ("0", "1"), ltwh=[(0, 0, 9, 9), (50, 50, 9, 9)]))
    for ordered in (True, False):
        named = replace(truth, categories=replace(truth.categories, ordered=ordered))
        log = Log()
        assert evaluate(named, numbered, log=log).summary["mAP"] == 1
        assert log.counts["class-order-guessed"] == (not ordered)


def test_numbered_ground_truth_against_a_list_in_order_of_appearance():
    found = scored(["i"], [(0, 0), (0, 1)], ("b", "a"), ltwh=[(0, 0, 9, 9), (50, 50, 9, 9)])
    numbered = unnamed(side(["i"], [(0, 0), (0, 1)], ("0", "1"), ltwh=[(0, 0, 9, 9), (50, 50, 9, 9)]))
    found = replace(found, categories=replace(found.categories, ordered=False))
    evaluation = evaluate(numbered, found)  # without a log of one's own
    assert evaluation.log.counts == {"class-order-guessed": 1}
    assert "the classes of the detections have only an order" in str(evaluation.log.issues[0])
    assert str(evaluation.log.issues[0]).endswith("the ground truth refer to with --gt-classes")


def test_extra_images_can_be_left_out():
    log = Log()
    evaluation = evaluate(
        side(["a", "b"], [(0, 0)], ["c"]),
        scored(["x", "a", "y"], [(0, 1), (1, 0), (2, 0)], ["c", "other"]),
        extra_images="ignore",
        log=log,
    )
    assert evaluation.summary["mAP"] == 1
    assert evaluation.result.overall.det == 1
    assert evaluation.result.definition.endswith("[changed: 2 extra images left out]")
    assert evaluation.join.images_det_only == ("x", "y")
    assert evaluation.joined.images == ("a", "b")
    assert not log.counts  # the class of a box that was left out is nobody's concern
    assert log.notes == ["2 images only in the detections left out, with 2 detections: 'x', 'y'"]
    assert evaluation.result.detections.row.tolist() == [1]


@pytest.mark.parametrize(
    ("name", "others", "near"),
    [
        ("000004", ["000005", "000014"], None),
        ("img_4.jpg", ["img_5.png", "img_40.png"], None),
        ("img_4", ["img_5", "Img-4"], "Img-4"),
        ("12", ["0012"], "0012"),
        ("class 7", ["class 5"], None),
    ],
)
def test_names_that_differ_in_their_numbers_are_no_hint(name, others, near):
    from odm.pairing import find_nearest_name

    assert find_nearest_name(name, others) == near


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"score_min": 50}, ["detections"]),
        ({"only_images": ["b"]}, ["ground truth boxes", "detections"]),
        ({"only_classes": ["d"]}, ["ground truth boxes", "detections"]),
    ],
)
def test_a_choice_that_leaves_nothing_is_a_warning(given, what):
    evaluation = evaluate(
        side(["a", "b"], [(0, 0)], ["c", "d"]), scored(["a"], [(0, 0)], ["c", "d"]), **given
    )
    assert evaluation.log.counts == {"nothing-left": len(what)}
    for issue, word in zip(evaluation.log.issues, what, strict=True):
        assert f"leaves none of the 1 {word}; check" in issue.message


def test_tables_and_results_print_on_a_line():
    names = [f"{i:05d}.jpg" for i in range(5000)]
    truth, found = side(names, [(0, 0)]), scored(names, [(0, 0)])
    evaluation = evaluate(truth, found)
    for thing in (
        truth,
        truth.images,
        truth.categories,
        truth.boxes,
        evaluation,
        evaluation.result,
        evaluation.joined,
    ):
        assert len(str(thing)) < 250
        assert "\n" not in str(thing)
    assert repr(truth.images) == "<Images: 5000 ('00000.jpg', '00001.jpg', '00002.jpg', ...)>"
    assert "mAP 1.0000" in repr(evaluation)


def test_an_image_without_size_and_objects_keeps_no_other_size_from_the_detections(tmp_path):
    """Label Studio gives a size with every box, so none for an image without boxes."""
    value = {"x": 10, "y": 10, "width": 50, "height": 50, "rectanglelabels": ["cat"]}
    box = {"original_width": 200, "original_height": 100, "type": "rectanglelabels", "value": value}
    tasks = [
        {"id": k, "data": {"image": f"{name}.jpg"}, "annotations": [{"id": k, "result": boxes}]}
        for k, (name, boxes) in enumerate((("a", [box]), ("b", [])), 1)
    ]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    (tmp_path / "det").mkdir()
    (tmp_path / "det/a.txt").write_text("0 0.35 0.35 0.5 0.5 0.9\n")
    sides = [Request(path=str(tmp_path / name), format=format_, kind=kind) for name, format_, kind in
             (("tasks.json", "labelstudio", "gt"), ("det", "yolo", "det"))]  # fmt: skip
    log = Log()
    truth, found = (one.dataset for one in load_pair(*sides, log))
    assert not log.errors
    assert evaluate(truth, found).summary["mAP"] == 1
    (tmp_path / "det/b.txt").write_text("0 0.35 0.35 0.5 0.5 0.9\n")
    log = Log()
    with pytest.raises(DataError, match="1 error in the data"):
        load_pair(*sides, log)
    assert [issue.code for issue in log.issues if issue.severity == "error"] == ["image-size-unknown"]
    _, found = load_pair(*sides, Log(), skip_bad_files=True)
    assert found.dataset.images.name == ("a",)


def test_results_refer_to_ground_truth_without_boxes(tmp_path):
    images = [{"id": 4, "file_name": "a.jpg", "width": 9, "height": 9}]
    gt = {"images": images, "categories": [{"id": 3, "name": "cat"}], "annotations": []}
    (tmp_path / "gt.json").write_text(json.dumps(gt))
    det = [{"image_id": 4, "category_id": 3, "bbox": [1, 1, 3, 3], "score": 0.5}]
    (tmp_path / "det.json").write_text(json.dumps(det))
    sides = [Request(path=str(tmp_path / f"{kind}.json"), kind=kind) for kind in ("gt", "det")]
    _, found = load_pair(*sides, Log())
    assert found.dataset.images.name == ("a.jpg",)
    assert found.dataset.categories.name == ("cat",)


def test_errors_of_results_are_not_called_those_of_the_ground_truth(tmp_path):
    images = [{"id": 4, "file_name": "a.jpg", "width": 9, "height": 9}]
    gt = {"images": images, "categories": [{"id": 3, "name": "cat"}], "annotations": []}
    (tmp_path / "gt.json").write_text(json.dumps(gt))
    det = [{"image_id": 4, "category_id": 3, "bbox": [1, 1, 3, 3], "score": "high"}]
    (tmp_path / "det.json").write_text(json.dumps(det))
    with pytest.raises(DataError) as raised:
        odm.read(tmp_path / "det.json", gt=tmp_path / "gt.json")
    assert raised.value.args[0].startswith(f"{tmp_path}/det.json: 1 error")


def test_half_of_the_images_without_a_detection_are_doubtful():
    """Of as few as three; a detector that finds nothing in fewer is not."""
    names = [f"{i}.jpg" for i in range(6)]
    truth = side(names, [(i, 0) for i in range(6)])
    for n, warned in ((3, 1), (4, 0)):
        log = Log()
        evaluate(truth, scored(names, [(i, 0) for i in range(n)]), log=log)
        assert log.counts["most-images-without-detections"] == warned


@pytest.mark.parametrize(
    ("protocol", "options", "text"),
    [
        ("coco", {}, "2 detections over the limit of 100 per image and class do not count"),
        ("lvis", {}, ""),
        ("lvis", {"max_dets": 101}, ""),
        ("ultralytics", {}, ""),
        ("coco", {"max_dets": 101}, ""),
        ("voc2012", {}, ""),
    ],
)
def test_detections_beyond_the_limit_are_doubtful_unless_it_was_chosen(protocol, options, text):
    truth = side(["a"], [(0, 0)])
    det = scored(
        ["a"], [(0, 0)] * 102, ltwh=[(i, i, 9, 9) for i in range(102)], score=np.linspace(0.9, 0.1, 102)
    )
    log = Log()
    evaluation = evaluate(truth, det, protocol, log=log, **options)
    said = [issue.message for issue in log.issues if issue.code == "detections-beyond-limit"]
    assert ([message.partition(", ")[2].partition(";")[0] for message in said] or [""]) == [text]
    assert any("over the limit" in note for note in log.notes) == bool(options)
    assert [doubt["code"] for doubt in evaluation.to_dict()["doubts"]].count(
        "detections-beyond-limit"
    ) == bool(text)
