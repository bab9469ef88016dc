"""Reports without a browser: what a page holds equals what the commands print, and it is written safely."""

import base64
import csv
import functools
import hashlib
import io
import json
import math
import random
import re
import shutil
import zlib
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from drawn import HOSTILE_CLASSES, HOSTILE_NAMES, make_data
from msgspec.structs import replace
from PIL import ExifTags, Image
from selection import first_of, params
from test_challenges import pedestrians
from test_evaluate_shapes import Scene, boxes_of, side

import odm
from odm import masks
from odm.cli import _app
from odm.evaluate import PROTOCOLS, evaluate
from odm.evaluate.analysis.render_comparison import make_headlines
from odm.evaluate.matching.matches import OUTCOMES, REASONS
from odm.evaluate.output import report_data as report_data_module
from odm.evaluate.output.report_data import KINDS, MISSES, choose_score_levels, report_data
from odm.evaluate.results import COVERAGE
from odm.issues import Log, PathError, UsageError
from odm.report import ClassDelta, Picture, build, changes_of, compare_page, evaluation_page, words, write
from odm.report.columns import choose_images
from odm.tables import Builder, Dataset, Flag, ShapeRows, keypoints_of
from odm.verbs.shared import PageOptions


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("data") / "set")


def run(*words):
    return _app.run([str(word) for word in words])


def read_page(path):
    """The data and the pictures of a page, and its text."""
    text = path.read_text(encoding="utf-8")
    packed = re.search(r'id="data">([^<]*)<', text)[1]
    pictures = re.search(r'id="pictures">([^<]*)<', text)[1].split("\n")
    return json.loads(zlib.decompress(base64.b64decode(packed))), pictures, text


def dense(table):
    array = np.zeros(int(np.prod(table["shape"])), np.int64)
    array[np.cumsum(table["at"], dtype=np.int64)] = table["n"]
    return array.reshape(table["shape"])


@functools.cache
def sides(folder):
    return odm.read(folder / "gt.json"), odm.read(folder / "det.csv", images=folder / "photos")


def evaluation(data, protocol="coco", **options):
    return evaluate(*sides(data), protocol, **options)


# ------------------------------------------------------------------------------------- what the engine adds


# `yolo val` reads precision and recall on lines between the scores.
STEPWISE = [name for name, p in PROTOCOLS.items() if not p.shared_score]


def kind_of(protocol):
    """What decides of the outcome of a detection at a score."""
    rules = PROTOCOLS[protocol]
    return (
        rules.metric,
        rules.averaged,
        rules.match,
        rules.cap_of,
        rules.apart,
        rules.labelled_only,
        rules.clipped,
    )


@pytest.mark.parametrize("protocol", params(STEPWISE, first_of(STEPWISE, kind_of)))
def test_every_position_of_the_slider_is_an_operating_point(data, protocol):
    table = evaluation(data, protocol).result.report_data()
    outcomes = table.outcomes.dense()
    for position in (*map(table.level_of, (0, 0.07, 0.29, 0.5, 0.58, 0.83, 1)), table.best):
        score = float(table.levels[position])
        assert round(score, 2) == score or score == table.best_score
        result = evaluation(data, protocol, at_score=score).result
        at_least = outcomes[:, :, position:].sum(axis=2)
        found = table.objects.dense()[:, :, 1 + position :].sum(axis=(1, 2))
        for c, row in enumerate(result.classes):
            tp, fp = at_least[c, 0], at_least[c, 1:-1].sum()
            assert (row.tp_at_score, row.fp_at_score, row.fn_at_score) == (tp, fp, row.gt - tp)
            assert row.precision == tp / (tp + fp) if tp + fp else math.isnan(row.precision)
            assert row.recall == tp / row.gt if row.gt else math.isnan(row.recall)
            assert tp == found[c], "an object that is found has one true positive"
            objects = table.truth.counts & (table.truth.category == c)
            assert objects.sum() == row.gt


@pytest.mark.parametrize("protocol", ["coco", "voc2012", "lvis", "openimages", "corloc"])
@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (100, 0), (20, -7)])
def test_confusion_at_every_level_is_that_of_the_score(tmp_path, protocol, scale, shift):
    folder = make_data(tmp_path / "set", seed=9, n=20, scale=scale, shift=shift)
    result = evaluation(folder, protocol).result
    table = result.report_data()
    for position, score in enumerate(table.levels.tolist()):
        expected = result.confusion(score=score).counts
        assert (table.confusion.dense()[position] == expected).all(), score


@pytest.mark.parametrize("at_once", [2**20, 40, 1])
@pytest.mark.parametrize("seed", range(3))
def test_confusion_of_boxes_that_all_overlap(monkeypatch, seed, at_once):
    monkeypatch.setattr(report_data_module, "AT_ONCE", at_once)
    rng = np.random.default_rng(seed)
    n, m = 60, 20

    def boxes(n, **more):
        edges = np.hstack([rng.integers(0, 12, (n, 2)), rng.integers(20, 30, (n, 2))])
        image, category = rng.integers(0, 2, n), rng.integers(0, 3, n)
        names = {"images": ["a", "b"], "categories": ["x", "y", "z"]}
        return Dataset.from_arrays(**names, image=image, category=category, ltwh=edges, **more)

    result = evaluate(boxes(m), boxes(n, score=rng.integers(0, 30, n) / 30), "coco").result
    table = result.report_data()
    dense = table.confusion.dense()
    for position, score in enumerate(table.levels.tolist()):
        assert (dense[position] == result.confusion(score=score).counts).all(), score


@pytest.mark.parametrize(("n_truth", "n_detected"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_confusion_where_nothing_overlaps(n_truth, n_detected):
    def boxes(n, left, **more):
        one = {"images": ["a"], "categories": ["x"], "image": [0] * n, "category": [0] * n}
        return Dataset.from_arrays(**one, ltwh=np.full((n, 4), left), **more)

    result = evaluate(boxes(n_truth, 1.0), boxes(n_detected, 5.0, score=[0.5] * n_detected), "coco").result
    table = result.report_data()
    for position, score in enumerate(table.levels.tolist()):
        assert (table.confusion.dense()[position] == result.confusion(score=score).counts).all()
    assert table.confusion.dense()[0].tolist() == [[0, n_truth], [n_detected, 0]]


def test_confusion_of_detections_on_objects_and_crowds():
    """A detection that lies on a crowd is paired with an object if it can be, and is no false positive else."""
    truth = Dataset.from_arrays(
        images=["a"], categories=["x"], image=[0, 0], category=[0, 0],
        ltwh=[[0, 0, 10, 10], [0, 0, 12, 12]], flags=[0, Flag.CROWD],
    )  # fmt: skip
    found = Dataset.from_arrays(
        images=["a"], categories=["x"], image=[0, 0, 0], category=[0, 0, 0], score=[0.9, 0.6, 0.3],
        ltwh=[[0, 0, 10, 10], [0, 0, 11, 11], [50, 50, 9, 9]],
    )  # fmt: skip
    result = evaluate(truth, found, "coco").result
    table = result.report_data()
    for score in (0, 0.45, 0.7, 0.95):
        expected = result.confusion(score=score).counts
        assert (table.confusion.dense()[table.level_of(score)] == expected).all()
    assert table.confusion.dense()[0].tolist() == [[1, 0], [1, 0]]


def test_outcomes_and_misses_are_those_of_the_files(data):
    result = evaluation(data).result
    table, detections = result.report_data(), result.detections
    for score in (0, 0.25, 0.5, 0.73, 1):
        position, keep = table.level_of(score), detections.score >= score
        counts = table.outcomes.dense()[:, :, position:].sum(axis=(0, 2))
        assert counts[0] == (keep & (detections.outcome == OUTCOMES.index("TP"))).sum()
        for reason, name in enumerate(REASONS):
            assert counts[KINDS.index(name)] == (keep & (detections.reason == reason)).sum()
        wrong = {int(i) for i in detections.image[keep & (detections.outcome == 1)]}
        missed = table.truth.counts & ~(table.truth.score >= score)
        wrong |= {int(i) for i in table.truth.image[missed]}
        assert table.wrong_images[position] == len(wrong)
    never = table.truth.counts & np.isnan(table.truth.score)
    assert ((table.truth.miss >= 0) == never).all()
    assert never.sum() == result.overall.fn


@pytest.mark.parametrize("protocol", ["coco", "voc2012", "lvis", "openimages"])
def test_every_iou_of_the_slider_is_an_evaluation(data, protocol):
    check_slider(functools.partial(evaluation, data, protocol), every=3)


@pytest.mark.parametrize("seed", params(range(3), [0]))
@pytest.mark.parametrize(
    ("protocol", "iou_type"),
    [("coco", "segm"), ("coco", "keypoints"), ("coco", "obb"), ("lvis", "segm"), ("dota", "obb")],
)
def test_every_iou_of_the_slider_is_an_evaluation_of_shapes(protocol, iou_type, seed):
    """Mirrored shapes have the same box around them, so that kinds by boxes would be others."""
    boxes = boxes_of(seed, images=2)
    if iou_type == "keypoints":
        drawn = Scene(seed, 17).sides()
    else:
        gt, flags, det = boxes
        shapes = [
            {"oriented": mirrored(rows, seed)} if iou_type == "obb" else masks_of(mirrored(rows, seed))
            for rows in (gt, det)
        ]
        of = {"images": 2, "classes": ("a", "b"), "size": (120, 110)}
        drawn = side(gt, flags=flags, **of, **shapes[0]), side(det, **of, **shapes[1])
    check_slider(functools.partial(evaluate, *drawn, protocol, iou_type=iou_type))


def test_the_slider_begins_with_the_overlaps_just_above_its_lowest_iou():
    truth = side(
        [(0, 0, (0, 0, 50, 50))],
        size=(60, 60),
        masks=[masks.rasterise([[0, 0, 50, 0, 50, 50, 0, 50]], 60, 60)],
    )
    part = [masks.rasterise([[0, 0, 26, 0, 26, 50, 0, 50]], 60, 60)]
    detections = side([(0, 0, (0, 0, 26, 50), 0.5)], size=(60, 60), masks=part)
    check_slider(functools.partial(evaluate, truth, detections, "coco", iou_type="segm"))
    assert evaluate(truth, detections, "coco", iou_type="segm").result.report_ious()[
        0
    ].ap.tolist() == pytest.approx([1])


def mirrored(rows, seed):
    """(n, 4, 2) narrow parallelograms that touch the edges of the boxes, leaning to either side."""
    lean = np.random.default_rng(seed).random(len(rows)) < 0.5
    ltwh = np.array([row[2] for row in rows], float)
    x = np.where(lean[:, None], [0, 0.3, 1, 0.7], [1, 0.7, 0, 0.3])
    y = np.broadcast_to([0, 0, 1, 1], x.shape)
    return ltwh[:, None, :2] + np.stack([x, y], axis=2) * ltwh[:, None, 2:]


def masks_of(quads):
    return {"masks": [masks.rasterise([quad], 120, 110) for quad in quads]}


def check_slider(evaluate_at, every=1):
    result = evaluate_at().result
    table = result.report_data()
    evaluate_at_ious = result.report_ious()
    own_iou = result.rules.ious[result.rules.reference]
    assert [at.iou for at in evaluate_at_ious] == sorted({own_iou, *(k / 100 for k in range(50, 100, 5))})
    for at in evaluate_at_ious[::every]:
        own = evaluate_at(iou=at.iou).result
        expected = report_data(own.sides, own.rules, own.detections, result.overall.score)
        found = table.with_iou(at)
        assert [row.ap for row in own.classes] == pytest.approx(at.ap.tolist(), abs=0, nan_ok=True)
        assert (found.kind == expected.kind).all()
        assert (found.truth.found_by == expected.truth.found_by).all()
        for name in ("outcomes", "objects"):
            assert (getattr(found, name).dense() == getattr(expected, name).dense()).all()
        assert found.wrong_images == expected.wrong_images


def test_ious_of_the_page_are_changes_from_one_to_the_next(data, tmp_path):
    write(
        evaluation_page(evaluation(data, "voc2012", iou=0.6), [Picture("a")] * 14), str(tmp_path / "r.html")
    )
    (result,) = read_page(tmp_path / "r.html")[0]["results"]
    own = result["ious"]["own"]
    assert (own, result["ious"]["values"][own]) == (2, 0.6)
    assert not result["ious"]["outcomes"][own]["n"]
    counts = dense(result["outcomes"])
    for i in (1, 0):  # towards lower thresholds
        counts += dense({**result["ious"]["outcomes"][i], "shape": counts.shape})
    expected = evaluation(data, "voc2012", iou=0.5).result.report_data()
    assert (counts == expected.outcomes.dense()).all()
    shown = [int(kind) for kind in result["ious"]["kind"][0]]
    assert sorted(shown) == sorted(expected.kind.tolist())


@pytest.mark.parametrize("protocol", ["imagenet-det", "corloc", "imagenet-loc"])
def test_protocols_without_a_single_iou_have_no_slider(data, protocol):
    assert evaluation(data, protocol).result.report_ious() == []


def test_why_an_object_is_missed():
    truth = {"images": ["a"], "categories": ["x", "y"], "image": [0] * 4, "category": [0] * 4, "ltwh": [[0, 0, 10, 10], [50, 0, 10, 10], [100, 0, 10, 10], [2, 0, 10, 10]]}  # fmt: skip
    found = {"images": ["a"], "categories": ["x", "y"], "image": [0] * 3, "category": [0, 1, 0], "score": [0.9, 0.8, 0.7], "ltwh": [[0, 0, 10, 10], [50, 0, 10, 10], [106, 0, 10, 10]]}  # fmt: skip
    table = evaluate(Dataset.from_arrays(**truth), Dataset.from_arrays(**found), "coco").result.report_data()
    why = ["" if m < 0 else MISSES[m] for m in table.truth.miss]
    assert why == ["", "class", "localisation", "assigned"]
    assert table.truth.other_iou[1] == 1
    assert table.truth.same_iou[2] == pytest.approx(4 / 16)


@pytest.mark.parametrize(("width", "why"), [(9, "undetected"), (10, "localisation"), (11, "localisation")])
def test_a_tenth_of_an_object_is_no_background(width, why):
    names = {"images": ["a"], "categories": ["x"], "image": [0], "category": [0]}
    truth = Dataset.from_arrays(**names, ltwh=[[0, 0, 100, 100]])
    found = Dataset.from_arrays(**names, ltwh=[[0, 0, width, 100]], score=[0.5])
    (miss,) = evaluate(truth, found, "coco").result.report_data().truth.miss
    assert MISSES[miss] == why


@pytest.mark.parametrize(
    ("scores", "first", "last", "n"),
    [
        ([], 0, 1, 101),
        ([0.2, 1.0], 0, 1, 101),
        ([0, 100], 0, 100, 101),
        ([-3.2, 12.7], -3.2, 12.8, 81),
        ([1.5, 1.5], 1.5, 1.5, 1),
        ([-1e6, 3e6], -1e6, 3e6, 81),
    ],
)
def test_positions_of_the_slider(scores, first, last, n):
    levels = choose_score_levels(np.array(scores, float))
    assert (levels[0], levels[-1], len(levels)) == (first, last, n)
    assert all(float(repr(v)) == v and len(f"{v:.12g}") <= 8 for v in levels.tolist())
    if scores:
        assert levels[0] <= min(scores)


# --------------------------------------------------------------------------------------------- what is written


def test_a_page_holds_what_the_evaluation_says(data, tmp_path, capsys):
    words = [
        data / "gt.json",
        data / "det.csv",
        "--protocol",
        "coco",
        "--protocol",
        "voc2012",
        "--output",
        "json",
    ]
    assert (
        run(
            "eval",
            *words,
            "--images",
            data / "photos",
            "--report",
            tmp_path / "r.html",
            "--save",
            tmp_path / "s",
        )
        == 0
    )
    contract = json.loads(capsys.readouterr().out)
    page, pictures, _ = read_page(tmp_path / "r.html")
    assert len(page["pictures"]) == len(pictures) == page["imageCount"] == 14
    assert [d["code"] for d in page["doubts"]] == ["class-only-in-detections", "groups-as-objects"]
    for shown, result in zip(page["results"], contract["results"], strict=True):
        assert shown["summary"] == result["summary"]
        defined = [row["ap"] for row in result["classes"] if row["ap"] is not None]
        assert shown["ap"] == pytest.approx(sum(defined) / len(defined))
        assert [row["gt"] for row in shown["rows"]] == [row["gt"] for row in result["classes"]]
        assert dense(shown["outcomes"])[:, 0].sum() == result["overall"]["tp"]
        assert dense(shown["outcomes"])[:, 1:-1].sum() == result["overall"]["fp"]
        # All images are shown, so their boxes add up to the counts at every score.
        det, gt = shown["det"], shown["gt"]
        for k in (0, 30, 100):
            kinds = [kind for kind, level in zip(det["kind"], det["level"], strict=True) if level >= k]
            assert kinds.count(0) == dense(shown["outcomes"])[:, 0, k:].sum()
            missed = [1 for counts, by in zip(gt["counts"], gt["by"], strict=True) if counts and not (by >= 0 and det["level"][by] >= k)]  # fmt: skip
            assert len(missed) == result["overall"]["gt"] - kinds.count(0)
    with Image.open(io.BytesIO(base64.b64decode(pictures[0]))) as picture:
        assert picture.format == "JPEG"
        assert picture.size == (160, 120)


@pytest.mark.parametrize("protocol", ["citypersons", "caltech"])
def test_the_report_has_ap_beside_the_miss_rate(protocol, tmp_path):
    """The row of all classes in its table shows AP, as those of the classes do, not the headline."""
    truth, found = pedestrians(random.Random(3), 40)
    odm.eval(truth, found, protocol, report=tmp_path / "r.html")
    (page,) = read_page(tmp_path / "r.html")[0]["results"]
    assert page["ap"] == page["rows"][0]["ap"] != page["summary"]["MR@Reasonable"]
    assert page["lower"] == list(page["summary"])


def test_the_same_input_gives_the_same_bytes(data, tmp_path, monkeypatch):
    made = []
    for epoch in ("", "", "1700000000"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
        words = ["eval", data / "gt.json", data / "det.csv", "--images", data / "photos", "-q", "--overwrite"]
        assert run(*words, "--report", tmp_path / "r.html") == 0
        made.append((tmp_path / "r.html").read_bytes())
    assert made[0] == made[1] != made[2]
    assert read_page(tmp_path / "r.html")[0]["made"] == "2023-11-14"


def test_a_folder_holds_the_pictures(data, tmp_path):
    words = [
        "eval",
        data / "gt.json",
        data / "det.csv",
        "--images",
        data / "photos",
        "--report-size",
        64,
        "-q",
    ]
    assert run(*words, "--report", tmp_path / "r", "--report-images", 5, "--report-title", "A <b> & c") == 0
    page, pictures, text = read_page(tmp_path / "r/index.html")
    assert len(pictures) == 5
    assert sorted(p.name for p in (tmp_path / "r/pictures").iterdir()) == sorted(p[9:] for p in pictures)
    assert Image.open(tmp_path / "r" / pictures[0]).size == (64, 48)
    assert page["title"] == "A <b> & c"
    assert "<title>A &lt;b&gt; &amp; c</title>" in text
    assert run(*words, "--report", tmp_path / "r") == 3
    assert run(*words, "--report", tmp_path / "r", "--overwrite") == 0


def test_no_text_is_missing():
    """Every text that a page asks for is in every language, with the same places, and none is there in vain."""
    report = Path(odm.report.__file__).parent
    code = "".join(
        path.read_text(encoding="utf-8") for path in (*report.glob("*.py"), *report.glob("page/*.js"))
    )
    asked = set(re.findall(r"""(?:\bt|\bphrase|\bsaid)\(\s*"([^"]+)"(?!\s*\+)""", code))
    literal = set(re.findall(r'"([^"\n]*)"', code))
    english = words.load_words("en")
    assert asked - set(english) == set()
    begun = tuple(text for text in literal if text.endswith("."))  # of keys that are put together
    assert [key for key in english if key not in literal and not key.startswith(begun)] == []
    for language in words.LANGUAGES:
        table = words.load_words(language)
        assert set(table) == set(english), language
        for key, text in table.items():
            places = [set(re.findall(r"{(\w+)}", form)) for form in forms(text)]
            assert set().union(*places) == set().union(
                *(re.findall(r"{(\w+)}", f) for f in forms(english[key]))
            ), key
            assert isinstance(text, str) or "other" in text, key


@pytest.mark.parametrize("protocol", ["coco", "voc2012", "lvis", "openimages", "corloc"])
def test_the_labels_to_review_are_those_of_the_list(data, tmp_path, protocol):
    sides = odm.read(data / "gt.json"), odm.read(data / "det.csv", images=data / "photos")
    odm.eval(*sides, protocol, save=tmp_path / "out", report=tmp_path / "r.html", report_images=3)
    page, _, _ = read_page(tmp_path / "r.html")
    with (tmp_path / "out/suspects.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    shown = page["results"][0]["review"]
    assert (shown["count"], shown["names"]) == (
        len(rows),
        (tmp_path / "out/review.txt").read_text().splitlines(),
    )
    assert bool(rows) == (protocol != "corloc")
    for row, (name, *_) in (
        (row, page["pictures"][row["image"]]) for row in shown["rows"] if row["image"] >= 0
    ):
        assert row["name"] == name
    listed = [(r["kind"], r["name"], r["class"], r["other"] or "") for r in shown["rows"]]
    assert listed == [(r["kind"], r["image"], r["class"], r["other_class"]) for r in rows[:96]]
    for row, line in zip(shown["rows"], rows, strict=False):
        score = line["same_score" if row["kind"] not in ("class", "spurious") else "other_score"]
        assert row["score"] == (pytest.approx(float(score), abs=1e-6) if score else None)
        edges = [float(line[edge]) for edge in ("left", "top", "right", "bottom")]
        assert row["box"] == pytest.approx(edges, abs=0.051)


def test_the_first_labels_to_review_have_their_images_on_the_page(tmp_path):
    """The others have more errors, or errors of a rarer kind, than the two whose only label is doubted."""
    n, many = 40, 5
    image = np.repeat(np.arange(3, n), many)
    columns = {"images": [f"{i}.jpg" for i in range(n)], "categories": ["a", "b", "c"]}
    one = [0, 0, 40, 40]
    boxes = np.c_[
        np.tile(np.arange(many) * 50.0, n - 3), np.zeros(len(image)), np.tile([40, 40], (len(image), 1))
    ]
    gt = Dataset.from_arrays(**columns, image=[0, 1, *image, 3], category=[0, 0] + [0] * len(image) + [1],
                             ltwh=np.vstack([one, one, boxes, [0, 300, 40, 40]]))  # fmt: skip
    det = Dataset.from_arrays(**columns, image=[0, 1, 2, *image[::many], 3], category=[1, 1, 2] + [0] * (n - 3) + [1],
                              ltwh=np.vstack([one, one, one, boxes[::many], [0, 300, 40, 40]]),
                              score=[0.95, 0.94, 0.7, *[0.5] * (n - 3), 0.9])  # fmt: skip
    odm.eval(gt, det, "coco", report=tmp_path / "r.html", report_images=8)
    page, _, _ = read_page(tmp_path / "r.html")
    first = page["results"][0]["review"]["rows"][:2]
    assert [(row["kind"], row["name"], row["other"]) for row in first] == [
        ("class", f"{i}.jpg", "b") for i in (0, 1)
    ]
    assert [page["pictures"][row["image"]][0] for row in first if row["image"] >= 0] == ["0.jpg", "1.jpg"]


def test_a_page_has_the_words_of_all_languages_or_of_the_one_that_is_asked_for(data, tmp_path, capsys):
    call = ["eval", data / "gt.json", data / "det.csv", "-q"]
    for name, given in (("all", []), ("zh", ["--language", "zh"])):
        assert run(*call, *given, "--report", tmp_path / f"{name}.html") == 0
    shown = {name: (tmp_path / f"{name}.html").read_text(encoding="utf-8") for name in ("all", "zh")}
    there = {name: ["Precision over recall" in page, "召回率曲线" in page] for name, page in shown.items()}
    assert there == {"all": [True, True], "zh": [False, True]}
    languages, _ = get_args(PageOptions.types()["language"])
    assert get_args(languages) == words.LANGUAGES
    assert words.load_words("en")["coverage"] == COVERAGE
    with pytest.raises(UsageError, match="language de: expected one of en, zh"):
        write(build.Page("dataset", {}, [], []), str(tmp_path / "r.html"), language="de")


def forms(text):
    return [text] if isinstance(text, str) else text.values()


def test_the_policy_names_the_one_script_and_style(data, tmp_path):
    run("eval", data / "gt.json", data / "det.csv", "-q", "--report", tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|https?://(?!www\.w3\.org/2000/svg)", content)  # fmt: skip
    assert "default-src 'none'" in policy


def test_hostile_names_stay_data(tmp_path):
    folder = make_data(tmp_path / "set", names=HOSTILE_NAMES, classes=HOSTILE_CLASSES)
    for page in ("r.html", "r2/index.html"):
        words = ["eval", folder / "gt.json", folder / "det.csv", "--images", folder / "photos", "-q"]
        target = tmp_path / page.split("/", maxsplit=1)[0]
        assert run(*words, "--report", target, "--report-title", "</title><script>alert(9)</script>") == 0
        text = (tmp_path / page).read_text(encoding="utf-8")
        assert "alert(" not in re.sub(r"<title>.*?</title>", "", text)
        assert text.count("<script") == 3
        assert "</title><script>" not in text


def test_paths_do_not_leave_the_machine(data, tmp_path):
    run(
        "eval",
        data / "gt.json",
        data / "det.csv",
        "--images",
        data / "photos",
        "-q",
        "--report",
        tmp_path / "r.html",
    )
    page, _, _ = read_page(tmp_path / "r.html")
    assert str(data) not in json.dumps(page)


def test_a_file_that_is_too_large_is_refused(data, tmp_path, monkeypatch, capsys):
    words = ["eval", data / "gt.json", data / "det.csv", "--images", data / "photos", "-q"]
    monkeypatch.setattr(build, "LARGEST_FILE", 10_000)
    assert run(*words, "--report", tmp_path / "r.html") == 3
    assert "use a name without .html to write a folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert run(*words, "--report", tmp_path / "r") == 0


def test_a_target_that_cannot_be_used_is_refused_before_the_work(data, tmp_path, capsys):
    (tmp_path / "r.html").write_text("mine")
    assert run("eval", data / "gt.json", "nowhere.csv", "--report", tmp_path / "r.html") == 3
    assert "the target exists" in capsys.readouterr().err
    words = ["eval", data / "gt.json", data / "det.csv", "-q", "--images", data / "photos", "--overwrite"]
    (inside := data / "photos/r.html").write_text("mine")
    assert run(*words, "--report", inside) == 3
    assert "is inside the source" in capsys.readouterr().err
    inside.unlink()


def test_images_may_be_given_for_formats_that_have_no_such_option(tmp_path, data):
    assert run("convert", "--to", "bdd100k", data / "gt.json", tmp_path / "gt.json", "-q") == 0
    words = [tmp_path / "gt.json", tmp_path / "gt.json", "--images", data / "photos"]
    assert run("show", words[0], "--images", data / "photos", "--out", tmp_path / "s.html", "-q") == 0
    assert all(read_page(tmp_path / "s.html")[1])


# ------------------------------------------------------------------------------------------------- pictures


def photo(path, *, size=(40, 20), orientation=None, mode="RGB"):
    """A picture whose left half is dark, with a place and a comment in its metadata."""
    image = Image.new(mode, size, "white")
    image.paste("black" if mode != "P" else 0, (0, 0, size[0] // 2, size[1]))
    exif = Image.Exif()
    if orientation:
        exif[ExifTags.Base.Orientation] = orientation
    exif[ExifTags.Base.ImageDescription] = "SECRET"
    image.save(path, exif=exif, comment="SECRET") if path.suffix == ".jpg" else image.save(path)
    return str(path)


def shown(*pictures, tmp_path, log=None):
    """The entries and decoded pictures of a gallery of these."""
    names = [p.name for p in pictures]
    dataset = Dataset.from_arrays(
        images=names, categories=["x"], image=[0], category=[0], ltwh=[[1, 2, 30, 15]]
    )
    page = odm.report.dataset_page(dataset, pictures)
    write(page, str(tmp_path / "p.html"), overwrite=True, log=log)
    data, encoded, _ = read_page(tmp_path / "p.html")
    return data["pictures"], [Image.open(io.BytesIO(base64.b64decode(e))) if e else None for e in encoded]


@pytest.mark.parametrize(
    ("known", "orientation", "size", "dark"),
    [
        ((0, 0), None, (40, 20), "left"),
        ((0, 0), 6, (20, 40), "top"),  # unknown: as a viewer shows it
        ((20, 40), 6, (20, 40), "top"),
        ((40, 20), 6, (40, 20), "left"),  # the boxes are of the stored pixels
        ((40, 20), 3, (40, 20), "right"),
        ((80, 40), None, (40, 20), "left"),  # a scaled copy
        ((40, 80), 6, (20, 40), "top"),
        ((80, 40), 6, (40, 20), "left"),
    ],
)
def test_pictures_are_turned_as_the_boxes_are(tmp_path, known, orientation, size, dark):
    path = photo(tmp_path / "a.jpg", orientation=orientation)
    ((_, width, height, remark),), (picture,) = shown(Picture("a.jpg", path, *known), tmp_path=tmp_path)
    assert picture.size == size
    assert (width, height) == (known if known != (0, 0) else size)
    assert bool(remark) == (known not in ((0, 0), size))
    w, h = size
    spots = {"left": (2, h // 2), "right": (w - 3, h // 2), "top": (w // 2, 2), "bottom": (w // 2, h - 3)}
    assert min(spots, key=lambda side: sum(picture.getpixel(spots[side]))) == dark


def test_what_counts_as_chance_among_several_runs_is_none_on_the_page(tmp_path):
    """The page of three runs marks the differences that the ranking says are chance, and no others."""
    street = Path(__file__).parent.parent / "fixtures" / "street"
    det = json.loads((street / "detections.json").read_text())
    chance = []
    for shift in (0.5, 6):
        rng = np.random.default_rng(3)
        moved = [
            {**d, "bbox": [*(np.array(d["bbox"][:2]) + rng.uniform(-shift, shift, 2)), *d["bbox"][2:]]}
            for d in det
        ]
        runs = {"a": street / "earlier.json", "b": street / "detections.json", "c": moved}
        comparison = odm.compare(street / "truth.json", runs, protocol="coco", replicates=200)
        comparison.report(tmp_path / f"{shift}.html")
        data, _, _ = read_page(tmp_path / f"{shift}.html")
        for row, standing in zip(data["ranking"], comparison.ranking, strict=True):
            assert row["chance"] == (standing.differs(comparison.level) is False)
        summaries = [data["summary"], *(pair["summary"] for pair in data["more"])]
        for summary, sentence in zip(summaries, make_headlines(comparison, wide=True), strict=True):
            assert summary[0]["chance"] == ("no more than chance" in sentence)
            assert not any(row["chance"] for row in summary[1:])
        chance += [row["chance"] for row in data["ranking"]]
    assert {True, False} == set(chance)


def test_kinds_of_images_are_counted_on_the_page_of_a_dataset(tmp_path):
    """One image with each kind of content, and one with nothing."""
    path = Path(__file__).parent.parent / "fixtures" / "street" / "truth.json"
    document = json.loads(path.read_text())
    boxes = {
        key: [a for a in document["annotations"] if bool(a.get("num_keypoints")) == key]
        for key in (True, False)
    }
    images = [{**image, "id": k} for k, image in enumerate(document["images"][:4])]
    annotations = [
        {**boxes[True][0], "image_id": 0, "segmentation": []},
        {**boxes[False][0], "image_id": 1},
        {**boxes[False][1], "image_id": 2, "iscrowd": 1, "segmentation": []},
    ]
    document = {**document, "images": images, "annotations": annotations}
    (tmp_path / "a.json").write_text(json.dumps(document))
    data = odm.read(tmp_path / "a.json", "coco", shapes=True)
    page = odm.report.dataset_page(data, [Picture(name, "") for name in data.images.name])
    shown = {(kind["key"], kind["name"]): kind["n"] for kind in page.data["kinds"]}
    assert shown == {
        ("boxes", ""): 3, ("empty", ""): 1, ("flag", "crowd"): 1, ("shapes", ""): 1, ("keypoints", ""): 1,
    }  # fmt: skip


def test_tiff_pictures_are_turned_once(tmp_path):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    image = Image.new("RGB", (40, 20), "white")
    image.paste("black", (0, 0, 20, 20))
    image.save(tmp_path / "a.tif", exif=exif)
    for known in ((0, 0), (20, 40)):
        picture = Picture("a.tif", str(tmp_path / "a.tif"), *known)
        ((_, *size, remark),), (turned,) = shown(picture, tmp_path=tmp_path)
        assert (tuple(size), turned.size, remark) == ((20, 40), (20, 40), "")
        assert sum(turned.getpixel((10, 2))) < 100 < sum(turned.getpixel((10, 37)))


def test_no_metadata_leaves(tmp_path):
    path = photo(tmp_path / "a.jpg", orientation=6)
    _, (picture,) = shown(Picture("a.jpg", path), tmp_path=tmp_path)
    assert not picture.getexif()
    assert not {"exif", "comment", "icc_profile"} & set(picture.info)


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "I;16", "CMYK", "1"])
def test_pictures_of_any_kind_are_shown(tmp_path, mode):
    path = tmp_path / ("a.tif" if mode in ("CMYK", "I;16") else "a.png")
    if mode == "I;16":
        Image.fromarray(np.repeat(np.array([[0] * 20 + [4000] * 20], np.uint16), 20, axis=0)).save(path)
    else:
        Image.fromarray(np.repeat(np.array([[0] * 20 + [255] * 20], np.uint8), 20, axis=0)).convert("RGB").convert(mode).save(path)  # fmt: skip
    _, (picture,) = shown(Picture("a", str(path)), tmp_path=tmp_path)
    assert sum(picture.getpixel((2, 10))) < 60
    assert sum(picture.getpixel((37, 10))) > 700


def test_pictures_that_cannot_be_shown_are_named(tmp_path):
    (tmp_path / "cut.jpg").write_bytes(b"no picture")
    other = photo(tmp_path / "b.jpg")
    log = Log()
    entries, made = shown(
        Picture("cut.jpg", str(tmp_path / "cut.jpg")),
        Picture("gone.jpg", str(tmp_path / "gone.jpg"), 30, 20),
        Picture("other.jpg", other, 100, 100),
        Picture("none.jpg"),
        tmp_path=tmp_path,
        log=log,
    )
    assert made == [None] * 4
    assert entries[0] == [
        "cut.jpg",
        31,
        17,
        "the picture cannot be read: it is truncated or of an unknown type",
    ]
    assert entries[1][3] == "the picture cannot be read: No such file or directory"
    assert entries[2][3] == "the picture is 40 x 20, but the dataset says 100 x 100"
    assert any("cut.jpg" in note for note in log.notes)


def test_images_are_chosen_worst_first_and_from_every_cell():
    weight = np.array([5, 4, 3, 2, 1, 0, 0, 0])
    assert choose_images(8, weight, [{"a": [7], "b": [0], "c": [6]}], 4) == [0, 1, 2, 7]
    assert choose_images(8, weight, [{"a": [7], "b": [0], "c": [6]}], 20) == list(range(8))
    assert choose_images(8, weight, [], 4) == [0, 1, 2, 3]


# --------------------------------------------------------------------------------------- the other commands


def test_show_writes_a_gallery(data, tmp_path):
    assert run("show", data / "gt.json", "--images", data / "photos", "--out", tmp_path / "g.html", "-q") == 0
    page, pictures, _ = read_page(tmp_path / "g.html")
    assert all(pictures)
    gt = odm.read(data / "gt.json")
    assert len(page["boxes"]["image"]) == page["boxCount"] == len(gt)
    assert sum(row["boxes"] for row in page["classes"]) == len(gt)
    assert run("show", data / "det.csv", "--out", tmp_path / "d", "-q", "--images", data / "photos") == 0
    page, _, _ = read_page(tmp_path / "d/index.html")
    assert page["levels"][50] == 0.5
    assert len(page["boxes"]["score"]) == page["boxCount"]


def test_show_opens_the_page(data, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("click.launch", opened.append)
    assert run("show", data / "gt.json", "--out", tmp_path / "g.html", "-q", "--open") == 0
    assert opened == [str(tmp_path / "g.html")]


def test_statistics_of_the_page_are_those_of_the_command(data, tmp_path, capsys):
    words = ["stats", data / "gt.json", "--images", data / "photos", "--output", "json"]
    assert run(*words, "--report", tmp_path / "s.html") == 0
    contract = json.loads(capsys.readouterr().out)
    page, _, _ = read_page(tmp_path / "s.html")
    assert page["statistics"] == {
        k: v for k, v in contract.items() if k not in ("path", "format", "left_out")
    }


VERBS = {
    "eval": ("gt.json", "det.csv"), "compare": ("gt.json", "det.csv", "det2.csv"), "diff": ("gt.json", "gt2.json"),
    "agree": ("gt.json", "gt2.json"), "stats": ("gt.json",), "validate": ("gt.json",),
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_a_function_writes_the_page_of_its_command(data, verb, tmp_path, monkeypatch, capsys):
    shutil.copytree(data, tmp_path / "in")
    monkeypatch.chdir(tmp_path / "in")
    odm.write(odm.read("gt.json").take(slice(3, None)), "gt2.json", "coco")
    odm.write(odm.read("det.csv").take(slice(3, None)), "det2.csv", "csv")
    paths = VERBS[verb]
    assert run(verb, *paths, "-q", "--report", "command.html") in (0, 1)
    sources = (paths[0], list(paths[1:])) if verb == "compare" else paths
    getattr(odm, verb)(*sources, report="function.html")
    assert read_page(Path("function.html"))[0] == read_page(Path("command.html"))[0]


@pytest.mark.parametrize("verb", VERBS)
def test_every_page_has_the_warnings_and_notes_of_reading(data, verb, tmp_path, monkeypatch):
    shutil.copytree(data, tmp_path / "in")
    monkeypatch.chdir(tmp_path / "in")
    truth = json.loads(Path("gt.json").read_text())
    truth["annotations"][0]["id"] = 1.0
    for name in ("gt.json", "gt2.json"):
        Path(name).write_text(json.dumps(truth))
    shutil.copy("det.csv", "det2.csv")
    run(verb, *VERBS[verb], "-q", "--report", "r.html")
    page = read_page(Path("r.html"))[0]
    expected = [f"{name}#/annotations/0/id" for name in VERBS[verb] if name.endswith(".json")]
    assert [row["place"] for row in page["issues" if verb == "validate" else "warnings"]] == expected
    assert page["warningCount"] == (0 if verb == "validate" else len(expected))
    assert [n.partition(":")[0] for n in page["notes"] if ": read as " in n and "because" in n] == [
        *VERBS[verb]
    ]


def test_validation_shows_the_faulty_boxes(tmp_path):
    folder = make_data(tmp_path / "set")
    contract = json.loads((folder / "gt.json").read_text())
    contract["annotations"][3]["bbox"] = [150, 20, 40, 20]
    contract["annotations"][7]["bbox"][2] = -5
    (folder / "gt.json").write_text(json.dumps(contract))
    words = [
        "validate",
        folder / "gt.json",
        "--images",
        folder / "photos",
        "--report",
        tmp_path / "v.html",
        "-q",
    ]
    assert run(*words) in (0, 1)
    page, _, _ = read_page(tmp_path / "v.html")
    assert {row["code"]: row["n"] for row in page["codes"]} == {
        issue.code: n
        for issue, n in ((i, 1) for i in odm.validate(folder / "gt.json", images=folder / "photos"))
    }
    boxes = page["sides"][0]["boxes"]
    outside = next(i for i in page["issues"] if i["code"] == "outside-image")
    assert boxes["row"][outside["box"]] == 3
    assert page["pictures"][outside["image"]][0] == contract["images"][contract["annotations"][3]["image_id"] - 1]["file_name"]  # fmt: skip
    assert run(*words, "--fix", "clip", "--out", tmp_path / "out") == 2


def test_validation_of_text_rows_finds_the_boxes(tmp_path):
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels/a.txt").write_text("0 0.5 0.5 0.2 0.2\n0 0.9 0.5 0.6 0.2\n")
    words = ["validate", tmp_path / "labels", "--format", "yolo", "--image-size", "100x100", "-q"]
    assert run(*words, "--report", tmp_path / "v.html") in (0, 1)
    page, _, _ = read_page(tmp_path / "v.html")
    found = [i for i in page["issues"] if i["code"] == "outside-image"]
    assert [page["sides"][0]["boxes"]["row"][i["box"]] for i in found] == [1]


def test_a_comparison_tells_fixed_from_broken(data, tmp_path):
    first = evaluation(data).result.report_data()
    better = evaluation(data, only_classes=["circle", "square"]).result.report_data()
    changes = changes_of(first, better)
    assert sum(changes.counts.values()) == 14
    for image in changes.images:
        for boxes, errors in ((image.first, image.errors_first), (image.other, image.errors_other)):
            assert sum(kind in ("FP", "FN") for kind in boxes.kind) == errors
    why = {text for image in changes.images for text in map(words.to_english, image.other.why)}
    assert "missed · no detection near it" in why
    assert not any(text.removeprefix("missed · ") in MISSES for text in why)
    same = changes_of(first, first)
    assert same.counts["fixed"] == same.counts["broken"] == 0
    rows = [ClassDelta("AP", 0.5, 0.6, 0.1, 0.02, 0.2), ClassDelta("circle", 0.5, math.nan, math.nan)]
    pictures = {name: Picture(name, str(data / "photos" / name)) for name in first.images}
    page = compare_page(rows[:1], rows, changes, pictures, names=("runs/a", "runs/b"), definition="coco: IoU")
    write(page, str(tmp_path / "c.html"))
    shown_data, encoded, _ = read_page(tmp_path / "c.html")
    assert shown_data["names"] == ["a", "b"]
    assert (
        shown_data["scores"] == list(changes.scores) == [first.levels[first.best], better.levels[better.best]]
    )
    assert shown_data["classes"][1]["other"] is None
    assert all(encoded)


def test_of_each_kind_of_change_the_largest_are_shown(data):
    first = evaluation(data).result.report_data()
    other = evaluation(data, only_classes=["circle"]).result.report_data()

    def size(image):
        return abs(image.errors_first - image.errors_other)

    def kind(image):
        return image.errors_first > 0, image.errors_other > 0

    changes = changes_of(first, other).images
    assert len({size(image) for image in changes}) > 2
    for n in range(1, len(changes)):
        shown = {image.name for image in changes_of(first, other, images=n).images}
        assert len(shown) == n
        for image in changes:
            larger = [c for c in changes if kind(c) == kind(image) and size(c) > size(image)]
            assert (
                image.name not in shown
                or kind(image) == (False, False)
                or shown.issuperset(c.name for c in larger)
            )


def test_runs_of_one_name_are_told_apart_by_their_folders(data, tmp_path):
    for folder in ("one", "other"):
        (tmp_path / "runs" / folder).mkdir(parents=True)
        (tmp_path / "runs" / folder / "det.csv").write_bytes((data / "det.csv").read_bytes())
    call = ["compare", data / "gt.json", *(tmp_path / "runs" / run / "det.csv" for run in ("one", "other"))]
    call += ["--images", data / "photos", "--replicates", 2, "-q", "--at-score", 0.293]
    assert run(*call, "--report", tmp_path / "c.html") == 0
    shown, _, _ = read_page(tmp_path / "c.html")
    assert shown["names"] == ["one", "other"]
    assert words.to_english(shown["title"]) == "other compared with one"
    assert shown["scores"] == [0.29, 0.29]
    assert {doubt["code"] for doubt in shown["doubts"]} == {"class-only-in-detections", "groups-as-objects"}


def test_more_runs_than_two_are_each_beside_the_first(data, tmp_path, capsys):
    rows = (data / "det.csv").read_text().splitlines(keepends=True)
    for name, part in (("half.csv", rows[1::2]), ("third.csv", rows[1::3])):
        (tmp_path / name).write_text("".join([rows[0], *part]))
    runs = [data / "det.csv", tmp_path / "half.csv", tmp_path / "third.csv"]
    asked = ["compare", data / "gt.json", *runs, "--images", data / "photos", "--replicates", 20, "-q"]
    assert run(*asked, "--protocol", "coco", "--report", tmp_path / "c.html", "--output", "json") == 0
    deltas = json.loads(capsys.readouterr().out)["deltas"]
    page, pictures, _ = read_page(tmp_path / "c.html")
    assert words.to_english(page["title"]) == "3 runs compared"
    assert page["verdict"].startswith("det.csv")
    pairs = [page, *page["more"]]
    for own, name in zip(pairs, runs[1:], strict=True):
        assert own["names"] == ["det.csv", name.name]
        expected = [d for d in deltas if d["run"] == str(name) and d["class"] is None]
        assert [(row["name"], row["delta"]) for row in own["summary"]] == [
            (d["key"], d["delta"]) for d in expected
        ]
        assert len(own["images"]) == len(own["errors"]) == len(set(own["images"]))
        result = evaluate(sides(data)[0], odm.read(name, images=data / "photos"), "coco").result
        everything = own["curves"][1][0]
        assert everything[0][-1] == pytest.approx(result.overall.tp / result.overall.gt, abs=1e-4)
        circle = result.curves["circle"]
        assert own["curves"][1][1 + [row["name"] for row in own["classes"]].index("circle")][0][
            -1
        ] == pytest.approx(circle.recall[-1], abs=1e-4)
    assert len(pictures) == len(set().union(*(own["images"] for own in pairs)))


def test_show_says_how_many_images_have_what(data, tmp_path, capsys):
    assert run("show", data / "gt.json", "--images", data / "photos", "--out", tmp_path / "s.html") == 0
    truth = odm.read(data / "gt.json")
    per_image = np.bincount(truth.boxes.image, minlength=len(truth.images))
    crowds = len(np.unique(truth.boxes.image[truth.boxes.has(Flag.CROWD)]))
    empty = int((per_image == 0).sum())
    said = f"{len(per_image)} images: {len(per_image) - empty} with boxes, {empty} without boxes, {crowds} with boxes"
    assert f"{said} marked crowd" in capsys.readouterr().err
    kinds = read_page(tmp_path / "s.html")[0]["kinds"]
    assert [(row["key"], row["n"], sum(row["shown"])) for row in kinds] == [
        ("boxes", len(per_image) - empty, len(per_image) - empty), ("empty", empty, empty), ("flag", crowds, crowds),
    ]  # fmt: skip
    # Of few images that are shown, one of each kind is.
    assert run("show", data / "gt.json", "-q", "--out", tmp_path / "f.html", "--report-images", 8) == 0
    assert all(any(row["shown"]) for row in read_page(tmp_path / "f.html")[0]["kinds"])


def test_the_page_of_two_annotators_has_the_numbers_of_agree(data, tmp_path):
    truth = odm.read(data / "gt.json")
    boxes = truth.boxes
    alone = np.flatnonzero(~boxes.has(Flag.CROWD))[0]
    category = boxes.category.copy()
    category[alone + 1] = (category[alone + 1] + 1) % 4
    other = replace(boxes, category=category).take(np.arange(len(boxes)) != alone)
    odm.write(replace(truth, boxes=other), tmp_path / "b.json", "coco")
    first = boxes.take(np.arange(len(boxes)) != alone + 2)
    odm.write(replace(truth, boxes=first), tmp_path / "a.json", "coco")
    words_ = ["agree", tmp_path / "a.json", tmp_path / "b.json", "-q", "--images", data / "photos"]
    assert run(*words_, "--save", tmp_path / "saved", "--report", tmp_path / "a.html") == 0
    shown, pictures, _ = read_page(tmp_path / "a.html")
    told = json.loads((tmp_path / "saved" / "agreement.json").read_text())
    assert {key: told[key] for key in shown["numbers"]} == shown["numbers"]
    assert shown["counts"] == {"agreed": told["pairs"] - 1, "only-a": 1, "only-b": 1, "other-class": 1}
    kinds = shown["boxes"]["kind"]
    assert {kind: kinds.count(kind) for kind in sorted(set(kinds))} == {
        "FN": 1, "FP": 1, "GT": told["pairs"], "OT": told["pairs"] - 1, "TP": 1,
    }  # fmt: skip
    for kind, row in (("FP", alone), ("TP", alone + 2)):
        corners = [column[kinds.index(kind)] for column in shown["boxes"]["box"]]
        assert corners == pytest.approx(boxes.xyxy[row], abs=0.01)
    at = kinds.index("FN")
    names = [row["name"] for row in shown["classes"]]
    pair = {"old": names[shown["boxes"]["was"][at]], "new": names[shown["boxes"]["class"][at]], "count": 1}
    assert shown["confused"] == [pair]
    assert [
        old for old, kind in zip(shown["boxes"]["was"], kinds, strict=True) if kind != "FN" and old != -1
    ] == []
    assert all(pictures)


RINGS = [[[(10.04, 20), (50.25, 20.125), (30, 60)], [(1, 1), (9, 1), (9, 7)]], [[(-3, 4), (40, 4), (40, 30)]]]


def drawn_shapes(score=None, shift=0):
    """A box of each kind of shape, the first in an image of its own, where detections have another class."""
    builder, rows = Builder(), ShapeRows()
    image, other = (builder.image(name, width=60, height=80) for name in ("a.jpg", "b.jpg"))
    classes = [builder.category(name) for name in ("person", "cat")]
    builder.describe_points(classes[0], ("nose", "eye", "tail"), ((0, 1), (1, 2)))
    mask = np.zeros((80, 60), bool)
    mask[10 + shift : 15 + shift, 20:50] = True
    rows.polygons(RINGS[1])
    rows.none()
    rows.polygons(RINGS[0])
    rows.mask(masks.encode(mask)["counts"].encode())
    rows.oriented([(10, 10), (20, 12), (18, 22), (8, 20)])
    builder.kind = "gt" if score is None else "det"
    points = [(), [(12.34, 20, 2), (30, 25.06, 1), (0, 0, 0)], (), (), ()]
    builder.boxes(
        image=np.array([other] + [image] * 4), category=np.array([classes[score is not None], *classes * 2]),
        xyxy=np.array([[-3, 4, 40, 30], [10, 20, 40, 60], [1, 1, 51, 60], [20, 10 + shift, 50, 15 + shift],
                       [8, 10, 20, 22]], float), shapes=rows.table(), keypoints=keypoints_of(points),
        score=None if score is None else np.array(score),
    )  # fmt: skip
    return builder.build()


def read_shapes(columns):
    """The outlines and masks of a page as lists of corners in pixels, and its keypoints."""
    outlines = [
        shape if isinstance(shape, str) else
        [(np.cumsum(np.reshape(ring, (-1, 2)), axis=0) / 10).tolist() for ring in shape or ()]
        for shape in columns["shape"]
    ]  # fmt: skip
    return outlines, [
        [(x / 10, y / 10, v) for x, y, v in zip(*[iter(p)] * 3, strict=True)] for p in columns["points"]
    ]


def plain_shapes(dataset, rows):
    """The same of rows of a dataset, in tenths of a pixel."""
    shapes, found = dataset.boxes.shapes, []
    for row in rows:
        rings = [np.round(ring, 1).tolist() for ring in shapes.polygons(row)]
        found.append(shapes.counts(row).decode() or rings)
    return found, [[(12.3, 20, 2), (30, 25.1, 1), (0, 0, 0)] if row == 1 else [] for row in rows]


@pytest.mark.parametrize(("truth", "found", "files"), [
    ("truth.json", "detections.json", (["truth.json", "/annotations"], ["detections.json", ""])),
    ("data.yaml", "predictions", (["night.txt", None], ["night.txt", None])),
])  # fmt: skip
def test_boxes_of_a_page_name_where_they_were_read(tmp_path, truth, found, files):
    street = Path(__file__).parents[1] / "fixtures" / "street"
    odm.eval(street / truth, street / found, report=tmp_path / "page.html")
    result = read_page(tmp_path / "page.html")[0]["results"][0]
    for kind, file in zip(("gt", "det"), files, strict=True):
        side, whole = result[kind], odm.read(street / (truth if kind == "gt" else found), gt=street / truth)
        assert file in side["files"]
        assert len(side["files"]) == (1 if file[1] is not None else 12)
        for i, row in enumerate(side["row"]):
            path, line, pointer = whole.location(row)
            name, of_list = side["files"][side["file"][i] if len(side["files"]) > 1 else side["file"]]
            assert name == Path(path).name
            if of_list is None:
                assert side["line"][i] == line
            else:
                assert f"{of_list}/{side['line'][i]}" == pointer


def test_pages_draw_the_shapes_of_every_kind():
    """Outlines, masks, oriented boxes and keypoints, of each side; of detections those that are not doubtful."""
    truth, found = drawn_shapes(), drawn_shapes([0.001, 0.9, 0.8, 0.7, 0.6], shift=3)
    page = evaluation_page(evaluate(truth, found, "coco"), [Picture("a"), Picture("b")]).data
    (result,) = page["results"]
    assert page["skeletons"] == {"person": [[0, 1], [1, 2]]}
    assert sorted(result["gt"]["row"]) == [0, 1, 2, 3, 4]
    assert read_shapes(result["gt"]) == plain_shapes(truth, result["gt"]["row"])
    shapes, points = plain_shapes(found, result["det"]["row"])
    shapes[result["det"]["row"].index(0)] = []
    assert sorted(result["det"]["row"]) == [0, 1, 2, 3, 4]
    assert read_shapes(result["det"]) == (shapes, points)


@pytest.mark.parametrize("n", [8, 20])
def test_a_page_has_the_analyses_of_the_json(n, tmp_path, capsys):
    data = make_data(tmp_path / "set", n=n)
    words = [
        "eval",
        data / "gt.json",
        data / "det.csv",
        "--protocol",
        "coco",
        "--analyze",
        "all",
        "-q",
        "--output",
    ]
    assert run(*words, "json", "--images", data / "photos", "--report", tmp_path / "r.html") == 0
    analysis = json.loads(capsys.readouterr().out)["results"][0]["analysis"]
    shown = read_page(tmp_path / "r.html")[0]["results"][0]["analysis"]
    assert shown.keys() == analysis.keys() - {"confusion"}
    assert {"tide", "calibration", "lrp", "images", "slices"} <= shown.keys()

    def is_rounded(value, exact):
        if isinstance(exact, dict):
            return value.keys() == exact.keys() and all(is_rounded(value[key], exact[key]) for key in exact)
        if isinstance(exact, list):
            return len(value) == len(exact) and all(map(is_rounded, value, exact))
        return value == pytest.approx(exact, abs=1e-6) if isinstance(exact, float) else value == exact

    worst = [row for row in analysis["images"] if row["error"]]
    assert len(worst) < len(analysis["images"])
    assert (len(worst) > 12) == (n == 20)
    for name in shown:
        assert is_rounded(shown[name], worst[:12] if name == "images" else analysis[name]), name


def test_of_errors_less_is_better(data, tmp_path):
    words = ["compare", data / "gt.json", data / "det.csv", tmp_path / "few.csv", "--images", data / "photos"]
    lines = (data / "det.csv").read_text().splitlines(keepends=True)
    (tmp_path / "few.csv").write_text("".join(lines[:4]))
    assert run(*words, "--protocol", "imagenet-loc", "-q", "--report", tmp_path / "c.html") == 0
    shown, _, _ = read_page(tmp_path / "c.html")
    assert all(row["lower"] and row["delta"] >= 0 for row in shown["summary"])


@pytest.mark.parametrize(
    "given",
    [("--language", "zh"), ("--report-title", "x"), ("--report-images", "3"), ("--report-size", "99")],
)
@pytest.mark.parametrize("command", ["eval", "compare", "diff", "agree", "stats", "validate"])
def test_options_of_a_report_without_one_are_refused(data, capsys, command, given):
    sources = {"stats": 1, "validate": 1, "compare": 3}.get(command, 2)
    paths = [data / "gt.json", data / "det.csv", data / "another.csv"][:sources]
    assert run(command, *paths, *given) == 2
    assert f"{given[0]} is used with --report only" in capsys.readouterr().err


def test_a_report_without_anything_to_show(tmp_path):
    nothing = Dataset.from_arrays(
        images=["a"], categories=["x"], image=[], category=[], ltwh=np.zeros((0, 4))
    )
    found = Dataset.from_arrays(images=["a"], categories=["x"], image=[], category=[], ltwh=np.zeros((0, 4)), score=[], kind="det")  # fmt: skip
    for protocol in PROTOCOLS:
        page = evaluation_page(evaluate(nothing, found, protocol), [Picture("a")])
        write(page, str(tmp_path / "r.html"), overwrite=True)
    with pytest.raises(PathError):
        write(page, str(tmp_path / "r.html"))
