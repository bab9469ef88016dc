"""Pictures: which there are, safe names, the same bytes twice."""

import numpy as np
import pytest
from msgspec.structs import replace
from selection import params

from odm.evaluate import PROTOCOLS, evaluate
from odm.tables import Dataset

pytest.importorskip("matplotlib")

from odm.evaluate.analysis.analyses import analyze
from odm.evaluate.output.plots import draw, draw_figure, make_safe_name

NAMES = ["_person", "$x_1$ \\frac{", "../../etc/passwd", "人", "a" * 300, "CON", "never found"]


def sides(names):
    rng = np.random.default_rng(1)
    n, k = 60, len(names)
    boxes = rng.integers(1, 90, (n, 4)).astype(float)
    image, category = np.arange(n) % 7, np.arange(n) % k
    common = {"images": [str(i) for i in range(7)], "categories": names}
    found = category < k - 1
    return (
        Dataset.from_arrays(**common, image=image, category=category, ltwh=boxes),
        Dataset.from_arrays(
            **common,
            image=image[found],
            category=np.where(np.arange(n) % 2, np.roll(category, 1), category)[found],
            ltwh=boxes[found] + 0.5,
            score=rng.random(found.sum()),
        ),
    )


def drawn(protocols, names):
    files = {}
    evaluation = evaluate(*sides(names), protocols)
    draw(evaluation, files.__setitem__)
    notes = [note for note in evaluation.log.notes if "the font has no glyphs" in note]
    assert [note.split(", which")[0] for note in notes] == (
        ["plots: the font has no glyphs for \u4eba"] if "\u4eba" in names else []
    )
    return files


def test_names_are_safe_and_distinct(only_svg):
    files = drawn(["voc2012"], NAMES)
    assert len({name.lower() for name in files}) == len(files) == 4 + len(NAMES)
    for name in files:
        folder, _, file = name.partition("/")
        assert folder == "voc2012-0.5"
        assert len(name) < 100
        assert all(c.isascii() and (c.isalnum() or c in "_-.") for c in file)
    assert make_safe_name("../../etc/passwd") == "etc_passwd"
    assert make_safe_name("人") == ""
    assert make_safe_name("x-ray_2 (new)") == "x-ray_2_new"
    assert make_safe_name("a" * 39 + " b") == "a" * 39


BEGINNINGS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.parametrize("name", params(PROTOCOLS, ["coco", "voc2012"]))
def test_every_protocol_can_be_drawn(name):
    files = drawn([name], ["x", "y"])
    folder = name if PROTOCOLS[name].averaged else f"{name}-0.5"
    assert {file.partition("/")[0] for file in files} == {folder}
    for file, data in files.items():
        assert data.startswith(BEGINNINGS[file.rpartition(".")[2]])
    names = {file.rpartition(".")[0] for file in files}
    assert {f"{name}.{suffix}" for name in names for suffix in BEGINNINGS} == set(files)


def test_same_bytes_twice():
    one, other = (drawn(["voc2012"], ["a <&> b", "never"]) for _ in range(2))
    assert one == other
    assert not any(b"/CreationDate" in data or b"/Type3" in data for data in one.values())
    assert b"a &lt;&amp;&gt; b" in one["voc2012-0.5/precision-recall-0001-a_b.svg"]


def test_calibration_is_drawn_where_scores_are_probabilities(only_svg):
    truth, found = sides(["x", "y"])
    files: dict[str, bytes] = {}
    result = evaluate(truth, found, "voc2012")
    draw(result, files.__setitem__)
    (dece,) = [one.analysis["calibration"]["dece"] for one in analyze(result, ["calibration"]).results]
    assert f"D-ECE {dece:.3f}".encode() in files["voc2012-0.5/calibration.svg"]
    scores = replace(found.boxes, score=found.boxes.score * 100)
    files.clear()
    draw(evaluate(truth, replace(found, boxes=scores), "voc2012"), files.__setitem__)
    assert "voc2012-0.5/calibration.svg" not in files


@pytest.mark.parametrize(("n", "shown"), [(59, 59), (61, 60)])
def test_a_confusion_matrix_shows_the_classes_most_often_confused(n, shown):
    from odm.evaluate.output import plots

    result = evaluate(*sides([f"class {k}" for k in range(n)]), "voc2012").result
    figure = plots._draw_confusion(result)
    (matrix,) = (axes.images[0].get_array() for axes in figure.axes if axes.images)
    assert matrix.shape == (shown + 1, shown + 1)
    words = [axes.get_title(loc="left") for axes in figure.axes]
    assert any(f"the {shown} of {n} classes" in word for word in words) == (shown < n)


def test_f1_curves_reach_their_best():
    """The step of the best F1 is drawn, however narrow, and at the score that the legend says."""
    from odm.evaluate.matching.matches import find_outcomes
    from odm.evaluate.output.plots import _choose_thresholds, _compute_f1

    result = evaluate(*sides(["x", "y", "z"])).result
    outcome, _ = find_outcomes(result.matches)
    for grid in (np.linspace(0, 1, 501), np.linspace(0, 1, 7)):
        for k, row in enumerate(result.classes[:2]):
            chosen = result.matches.category == k
            scores = _choose_thresholds(grid, result.matches.score[chosen], row.best_f1_score)
            f1 = _compute_f1(scores, result.matches.score, outcome, chosen, row.gt)
            assert f1.max() == pytest.approx(row.best_f1, nan_ok=True) or np.isnan(row.best_f1)
            assert np.isnan(row.best_f1_score) or f1[scores == row.best_f1_score] == row.best_f1


def lines_of(figure):
    """The x and y of each line, by its label, of the axes of a figure."""
    (axes,) = figure.axes
    assert not axes.get_legend().get_frame_on()
    return axes, {str(line.get_label()): (line.get_xdata(), line.get_ydata()) for line in axes.lines}


def test_figures_show_the_numbers_of_the_result():
    truth, found = sides(["x", "y", "z"])
    result = evaluate(truth, found, "voc2012").result
    axes, lines = lines_of(draw_figure(result, "precision-recall"))
    assert [*lines] == [f"{100 * row.ap:.2f} %  {row.name}" for row in result.classes] + [
        "mean precision at this recall"
    ]
    envelopes = []
    for row, (recall, precision) in zip(result.classes, lines.values(), strict=False):
        assert np.sum(np.diff(recall) * precision[1:]) == pytest.approx(row.ap)
        curve = result.curves[row.name]
        envelopes.append([max(curve.precision[curve.recall >= r], default=0) for r in np.linspace(0, 1, 201)])
    np.testing.assert_allclose(lines["mean precision at this recall"][1], np.mean(envelopes, axis=0))

    axes, lines = lines_of(draw_figure(result, "f1-confidence"))
    assert axes.get_xlim() == (0, 1)
    best = [f"{row.f1:.3f}  {row.name}" for row in result.classes[:2]]
    assert [*lines][:2] == best
    assert [*lines][3] == "all classes"
    np.testing.assert_array_equal(lines["all classes"][0], np.unique([0, *found.boxes.score, 1]))
    assert lines["all classes"][1].max() == pytest.approx(result.overall.best_f1)
    assert [lines[[*lines][-1]][k][0] for k in (0, 1)] == [result.overall.score, result.overall.f1]
    for row in result.classes[:2]:
        figure = draw_figure(result, f"precision-recall-{result.classes.index(row) + 1:04d}-{row.name}")
        axes, points = lines_of(figure)
        np.testing.assert_array_equal(points["at true positives"][0], result.curves[row.name].recall)
        (operating,) = (line for key, line in points.items() if key.startswith("F1 "))
        assert [value[0] for value in operating] == [row.recall, row.precision]
        assert f"AP {100 * row.ap:.2f} %" in axes.get_title(loc="left")

    logits = replace(found.boxes, score=10 * found.boxes.score - 5)
    axes, lines = lines_of(
        draw_figure(evaluate(truth, replace(found, boxes=logits), "voc2012").result, "f1-confidence")
    )
    np.testing.assert_allclose(axes.get_xlim(), (logits.score.min(), logits.score.max()))


def test_miss_rates_are_drawn_as_the_curves_have_them():
    result = evaluate(*sides(["person", "y"]), "caltech").result
    axes, lines = lines_of(draw_figure(result, "miss-rate"))
    curves = result.miss_curves
    for curve, (x, y) in zip(curves, lines.values(), strict=False):
        np.testing.assert_array_equal(y, np.maximum(curve.miss_rate, 1e-3))
        np.testing.assert_array_equal(x, np.maximum(curve.false_per_image, min(result.rules.rates) / 2))
    low, high = axes.get_xlim()
    assert low == min(result.rules.rates) / 2
    assert high >= max(float(curve.false_per_image[-1]) for curve in curves)
    assert axes.get_ylim()[1] == 1.05


def test_a_confusion_matrix_has_the_counts_and_shares_of_its_table():
    result = evaluate(*sides(["x", "y", "z"]), "voc2012").result
    table = result.confusion()
    expected = np.zeros((4, 4), int)
    for truth, detected, n in zip(*table.table.index, table.table.n, strict=True):
        expected[truth, detected] += n
    (axes, _) = draw_figure(result, "confusion").axes
    shown = {(t.get_position()[1], t.get_position()[0]): int(t.get_text()) for t in axes.texts}
    assert shown == {
        cell: expected[cell] for cell in zip(*map(np.ndarray.tolist, expected.nonzero()), strict=True)
    }
    np.testing.assert_allclose(axes.images[0].get_array(), expected / expected.sum(axis=1, keepdims=True))
    labels = [[t.get_text() for t in ticks] for ticks in (axes.get_xticklabels(), axes.get_yticklabels())]
    assert labels == [["x", "y", "z", "(missed)"], ["x", "y", "z", "(background)"]]


def test_top_k_errors_are_drawn_over_the_number_of_guesses():
    result = evaluate(*sides(["x", "y"]), "imagenet-loc").result
    lines = lines_of(draw_figure(result, "errors"))[1]
    for label, key in (("class and location", "loc"), ("class only", "cls")):
        assert [*map(list, lines[label])] == [[*range(1, len(result.errors[key]) + 1)], [*result.errors[key]]]
