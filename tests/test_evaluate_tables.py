"""What is printed and saved of an evaluation: as much as fits, no column twice or empty, confusion as shares."""

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from analysis_cases import random_pair
from msgspec.structs import replace
from selection import FIXED_CLASSES

import odm
from odm.document import as_text
from odm.evaluate import PROTOCOLS, evaluate, render
from odm.evaluate.analysis.render_analyses import make_sections
from odm.evaluate.matching import confusion as confusion_module
from odm.evaluate.output.render import (
    format_accumulated_csv,
    format_confusion_csv,
    format_detections_csv,
    format_headline,
    format_per_class_csv,
    make_class_table,
    make_result_document,
)
from odm.evaluate.scores.accumulate import class_keys, mean_of_classes, mean_of_defined, summary_keys
from odm.issues import UsageError

WIDTHS = (60, 80, 100, 140)


@pytest.fixture(scope="module")
def pair():
    truth, (det,) = random_pair(3, n_images=40)
    return truth, det


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_results_fit(pair, name, width):
    result = evaluate(*pair, name)
    text = render(result, width=width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= max(width, 78)  # COCO's lines are 78 wide, and stay comparable
    assert lines[-1] == format_headline(result.result)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_nothing_is_dropped_where_no_width_is_given(pair, name):
    result = evaluate(*pair, name).result
    if result.classes:
        titles = make_class_table(result).titles
        averaged = ["AP", "AP50", "AP75"] if result.rules.averaged and name != "tinyperson" else ["AP"]
        values = ["CorLoc"] if result.rules.metric == "corloc" else averaged
        counts = ["GT", "det", "ignored", "TP", "FP", "FN"]
        best = ["best F1", "its score"]
        assert titles == ["class", *counts, "precision", "recall", "F1", *best, *values]


def test_what_does_not_fit_is_named(pair):
    result = evaluate(*pair, "coco").result
    text = as_text([make_result_document(result)[0][1:]], 80)
    header = text.splitlines()[1].split()
    assert header[-3:] == ["AP", "AP50", "AP75"]
    assert "ignored" not in header
    *_, hidden, score = text.splitlines()
    assert "ignored" in hidden
    assert "--wide shows all" in hidden
    assert "has the best F1 of all classes" in score


def test_a_note_says_whose_score_the_table_has_unless_the_user_chose_it(pair):
    truth, det = pair
    nothing = det.take(np.zeros(0, np.int64))
    for found, options, has_note in ((det, {}, True), (det, {"at_score": 0.3}, False), (nothing, {}, False)):
        result = evaluate(truth, found, "coco", **options).result
        text = as_text([make_result_document(result)[0][1:]], 200)
        assert ("has the best F1 of all classes" in text) == has_note, options


def test_the_headline_has_the_names_of_trainers_too(pair):
    summary = (evaluation := evaluate(*pair, "coco")).summary
    assert format_headline(evaluation.result) == (
        f"AP (mAP50-95) {summary['AP']:.3f}, AP50 (mAP50) {summary['AP50']:.3f}, "
        f"AP75 (mAP75) {summary['AP75']:.3f}"
    )


@pytest.mark.parametrize(
    "names",
    [[name] for name in PROTOCOLS if name not in FIXED_CLASSES] + [["voc2012", "coco"], ["coco", "corloc"]],
)
def test_the_csv_of_classes_has_no_column_twice_and_none_empty(pair, names):
    evaluation = evaluate(*pair, names)
    rows = list(csv.DictReader(io.StringIO(format_per_class_csv(evaluation))))
    columns = list(rows[0])
    assert len({name.casefold() for name in columns}) == len(columns)
    counted = {"class", "gt", "gt_ignored", "det", "tp", "fp", "fn", "ignored"}
    of_f1 = {"score", "precision", "recall", "f1"}
    assert {"protocol", "iou", *counted, *of_f1} <= set(columns)
    for name in set(columns) - counted - of_f1:
        assert any(row[name] for row in rows), name
    for result in evaluation.results:
        own = [row for row in rows if row["protocol"] == result.protocol]
        assert len(own) == len(result.classes) + 1
        if result.rules.metric == "ap":
            assert [row["ap"] for row in own[:-1]] == [repr(row.ap) for row in result.classes]
            assert result.rules.rates or float(own[-1]["ap"]) == next(iter(result.summary.values()))
    if names == ["coco"]:
        at = columns.index("ap")
        assert columns[at : at + 3] == ["ap", "AP50", "AP75"]
        assert all(row["AP50"] and row["AP75"] for row in rows)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_accumulated_table_leads_to_the_curve_the_counts_and_ap(pair, name):
    evaluation = evaluate(*pair, name)
    result = evaluation.result
    rows = list(csv.DictReader(io.StringIO(format_accumulated_csv(evaluation))))
    if result.rules.metric in ("corloc", "top-k"):
        assert not rows
        return
    listed = {r["detection"]: r for r in csv.DictReader(io.StringIO(format_detections_csv(evaluation)))}
    outcome = {"TP": ("1", "0"), "FP": ("0", "1"), "ignored": ("0", "0")}
    for row in rows:
        same = listed[row["detection"]]
        assert all(
            row[key] == same[key] for key in ("protocol", "iou", "class", "image", "score", "best_iou")
        )
        assert (row["tp"], row["fp"]) == outcome[same["outcome"]]
    if result.rules.metric == "pooled":
        assert [int(row["rank"]) for row in rows] == list(range(1, len(rows) + 1))
        assert area(rows) == pytest.approx(result.summary["AP"], abs=1e-12)
        return
    assert len(rows) == len(listed)
    assert {row["class"] for row in rows} == {c.name for c in result.classes if c.det}
    for of_class in result.classes:
        own = [row for row in rows if row["class"] == of_class.name]
        assert [int(row["rank"]) for row in own] == list(range(1, len(own) + 1))
        if not own:
            continue
        assert (int(own[-1]["accumulated_tp"]), int(own[-1]["accumulated_fp"])) == (of_class.tp, of_class.fp)
        assert all(bool(row["recall"]) == (of_class.gt > 0) for row in own)
        if of_class.gt:
            curve = result.curves[of_class.name]
            hits = [row for row in own if row["tp"] == "1"]
            assert [float(row["recall"]) for row in hits] == curve.recall.tolist()
            assert [float(row["precision"]) for row in hits] == curve.precision.tolist()
            assert [float(row["score"]) for row in hits] == curve.score.tolist()
            if result.rules.interpolation == "all" and result.rules.reading not in ("between", "limits"):
                assert area(own) == pytest.approx(of_class.ap, abs=1e-12)


def area(rows):
    """The area under the highest precision at each recall or more, step by step."""
    points = [(float(row["recall"]), float(row["precision"])) for row in rows if row["precision"]]
    total = before = 0.0
    for i, (recall, _) in enumerate(points):
        total += (recall - before) * max(p for _, p in points[i:])
        before = recall
    return total


def test_the_accumulated_table_names_the_line_of_each_detection():
    folder = Path(__file__).resolve().parent.parent / "fixtures" / "illustrated"
    truth, found = (odm.read(str(folder / side)) for side in ("groundtruths", "detections"))
    rows = list(csv.DictReader(io.StringIO(format_accumulated_csv(evaluate(truth, found, iou=0.3)))))
    assert len(rows) == 24
    for row in rows:
        line = Path(row["file"]).read_text(encoding="utf-8").splitlines()[int(row["line"]) - 1]
        assert float(line.split()[1]) == float(row["score"])
        assert Path(row["file"]).stem == row["image"]


def test_shares_of_the_confusion_matrix(pair):
    table = evaluate(*pair).result.confusion()
    for of, axis in (("gt", 1), ("det", 0)):
        shares = table.shares(of)
        sums = table.counts.sum(axis=axis)
        assert shares.shape == table.counts.shape
        for i, total in enumerate(sums.tolist()):
            own = shares[i] if of == "gt" else shares[:, i]
            counts = table.counts[i] if of == "gt" else table.counts[:, i]
            assert np.isnan(own).all() if total == 0 else own.tolist() == (counts / total).tolist()
        data = json.loads(json.dumps(table.to_dict(of), allow_nan=False))
        assert data["counts"] == table.counts.tolist()
        assert np.array(data["shares"], float).shape == shares.shape
    assert set(table.to_dict()) == {"score", "iou", "classes", "counts"}


def test_confusion_of_many_classes_or_pairs_is_refused(pair, monkeypatch):
    """A matrix of 10 000 classes takes 8 GB; 10 000 boxes on each other have 100 million pairs."""
    evaluation = evaluate(*pair)
    whole = format_confusion_csv(evaluation)
    monkeypatch.setattr(confusion_module, "MOST_CELLS", 8)
    with pytest.raises(UsageError, match=r"\d+ classes are too many for a whole confusion matrix"):
        evaluation.result.confusion().to_dict()
    assert format_confusion_csv(evaluation) == whole  # only what occurs
    monkeypatch.setattr(confusion_module, "MOST_PAIRS", 0)
    for ask in (evaluation.result.confusion, evaluation.result.report_data):
        with pytest.raises(UsageError, match="overlap in more than 0 pairs"):
            ask()


@pytest.mark.parametrize("change", [{"scores_from": "thresholds.json"}, {}])
def test_a_confusion_matrix_without_one_score_is_printed(pair, change):
    """Each class has its own score, or nothing is right at any."""
    result = evaluate(*pair).result
    classes = tuple(replace(row, score=row.best_f1_score) for row in result.classes)
    result = replace(result, overall=replace(result.overall, score=math.nan), classes=classes, **change)
    result = replace(result, analysis={"confusion": result.confusion().to_dict()})
    assert make_sections(result)[0][0].text.startswith("confusion matrix, scores as given, IoU >= 0.5")


@pytest.mark.parametrize(
    ("width", "above"), [(80, "traffic light"), (54, "traffic lig…"), (None, "traffic light")]
)
def test_classes_above_the_confusion_matrix_are_whole_where_they_fit(pair, width, above):
    result = evaluate(*pair).result
    table = {**result.confusion().to_dict(), "classes": ["traffic light", "person", "bicycle"]}
    table["counts"] = [row[:4] for row in table["counts"][:4]]
    result = replace(result, analysis={"confusion": table})
    ((_, table),) = make_sections(result, width)
    assert table.titles == ["GT / det", above, "person", "bicycle", "(missed)"]


@pytest.mark.parametrize("n_confused", [2, 30])
def test_of_many_classes_the_most_frequent_confusions_are_listed(pair, n_confused):
    """Not what is right, nor what does not occur; missed and background are confusions, too."""
    result = evaluate(*pair).result
    n = 50
    counts = np.diag(np.arange(1, n + 2))
    counts[n, n] = 0
    for i in range(n_confused - 1):
        counts[i, i + 1] = 5 + i
    counts[n, 7] = 99
    table = {
        **result.confusion().to_dict(),
        "classes": [f"c{k}" for k in range(n)],
        "counts": counts.tolist(),
    }
    ((title, listed),) = make_sections(replace(result, analysis={"confusion": table}), 80)
    shown = min(n_confused, 20)
    few = "the 20 most frequent of " if n_confused > 20 else ""
    assert title.text.endswith(f"counts; {few}{n_confused} confusions")
    assert listed.cells[0] == ["(background)", "c7", "99"]
    assert [row[2] for row in listed.cells[1:]] == [str(4 + n_confused - 1 - k) for k in range(shown - 1)]
    assert listed.cells[1][:2] == [f"c{n_confused - 2}", f"c{n_confused - 1}"]


def test_the_csv_of_the_confusion_matrix_has_counts_and_shares(pair):
    evaluation = evaluate(*pair)
    table = evaluation.result.confusion()
    names = [*table.classes, ""]
    for row in csv.DictReader(io.StringIO(format_confusion_csv(evaluation))):
        i, k = names.index(row["gt_class"]), names.index(row["det_class"])
        assert int(row["count"]) == table.counts[i, k] > 0
        assert float(row["share_of_gt"]) == table.counts[i, k] / table.counts[i].sum()
        assert float(row["share_of_det"]) == table.counts[i, k] / table.counts[:, k].sum()


@pytest.mark.parametrize("n", [0, 1, 7, 8, 10, 19, 200])
def test_the_mean_of_each_class_is_that_of_its_own_numbers_to_the_last_bit(n):
    rng = np.random.default_rng(n)
    values = rng.random((n, 3, 50))[:, 1]
    values[:, 7] = np.nan
    values[: n // 2, 11] = np.nan
    alone = [mean_of_defined(values[:, k]) for k in range(50)]
    assert mean_of_classes(values).tobytes() == np.array(alone).tobytes()
    if n:
        assert mean_of_classes(values[0]).tobytes() == values[0].tobytes()


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_names_of_numbers_are_those_of_the_result(name, pair):
    """Names under which a gate may ask for a number of the summary or of a class; pooled classes have no AP of theirs."""
    result = evaluate(*pair, name).result
    assert summary_keys(result.rules) == tuple(result.summary)
    numbers = {
        key for key, value in result.classes[0].to_dict().items() if isinstance(value, float) or value is None
    }
    assert set(class_keys(result.rules)) == numbers - ({"ap"} if result.rules.metric != "ap" else set())
