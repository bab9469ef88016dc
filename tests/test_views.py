"""What values show of themselves: tables, HTML in a notebook, pages and plots."""

import csv
import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import odm
from odm.evaluate.output.render import format_detections_csv, format_per_class_csv, make_review_files
from odm.verbs import html

ILLUSTRATED = Path(__file__).parents[1] / "fixtures" / "illustrated"


@pytest.fixture(scope="module")
def sides():
    return tuple(odm.read(str(ILLUSTRATED / side)) for side in ("groundtruths", "detections"))


@pytest.fixture(scope="module")
def evaluation(sides):
    return odm.eval(*sides, iou=0.3)


@pytest.fixture(scope="module")
def comparison(sides):
    truth, found = sides
    runs = {"old": found, "new": found.take(found.boxes.score > 0.5)}
    return odm.compare(truth, runs, protocol="coco", replicates=20)


# ------------------------------------------------------------------------------------------------ tables


def as_csv(columns):
    """Columns as the rows of a CSV file, texts all."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([list(columns), *zip(*columns.values(), strict=True)])
    return list(csv.reader(out.getvalue().splitlines()))


def test_tables_are_those_of_the_csv_files(evaluation):
    def of(text):
        return list(csv.reader(text.splitlines()))

    assert as_csv(evaluation.detections.columns()) == of(format_detections_csv(evaluation))
    assert as_csv(evaluation.missed.columns()) == of(make_review_files(evaluation)[0]["missed.csv"])
    assert as_csv(evaluation.classes.columns()) == of(format_per_class_csv(evaluation))[:-1]


def test_the_differences_of_a_comparison_are_a_table(comparison):
    columns = comparison.deltas.columns()
    assert list(columns)[:4] == ["run", "key", "class", "delta"]
    assert {*columns["run"]} == {"new"}
    assert len(columns["key"]) == len(comparison.deltas)


def test_boxes_and_images_are_tables_with_names(sides):
    truth, found = sides
    assert list(found.boxes.columns()) == ["image", "class", "left", "top", "right", "bottom", "score"]
    assert truth.boxes.columns()["class"].tolist() == ["person"] * 15
    assert truth.take(truth.boxes.image == 0).boxes.columns()["image"].tolist() == ["00001"] * 2
    assert list(truth.images.columns()) == ["image", "width", "height"]
    assert truth.images.columns()["width"] == [None] * 7
    with pytest.raises(odm.UsageError, match="in no Dataset"):
        truth.boxes.take(slice(0, 1)).columns()


def test_boxes_are_named_by_each_data_set_that_has_them(sides):
    truth = sides[0]
    other = replace(truth, categories=replace(truth.categories, name=("human",)), kind="det")
    assert set(other.boxes.columns()["class"]) == {"human"}
    assert set(truth.boxes.columns()["class"]) == {"person"}
    assert "score" not in truth.boxes.columns()
    assert other.boxes.xyxy is truth.boxes.xyxy


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_have_the_known_numbers(evaluation, comparison, sides, library):
    pytest.importorskip(library)
    as_frame = f"to_{library}"
    table = getattr(evaluation.detections, as_frame)()
    assert len(table) == 24
    assert list(table["outcome"]).count("TP") == 7
    assert len(getattr(evaluation.missed, as_frame)()) == 8
    assert len(getattr(evaluation.classes, as_frame)()) == 1
    assert len(getattr(comparison.deltas, as_frame)()) == len(comparison.deltas)
    again = odm.read(getattr(sides[1].boxes, as_frame)())
    assert odm.eval(sides[0], again, iou=0.3).summary == evaluation.summary
    assert next(iter(getattr(sides[0].images, as_frame)()["image"])) == "00001"


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_without_the_library_it_is_named(evaluation, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(odm.UsageError, match=f"needs {library}: pip install {library}"):
        getattr(evaluation.detections, f"to_{library}")()


# -------------------------------------------------------------------------------------------- notebooks


def test_every_value_shows_itself(sides, evaluation, comparison, tmp_path):
    truth = sides[0]
    ledger = odm.convert(truth, tmp_path / "a.csv", dry_run=True)
    two = odm.eval(*sides, iou=[0.3, 0.5], analyze="lrp")
    shown = {
        "Ground truth of": truth,
        "24 detections: 6 TP, 8 FP, 9 FN at score 0.48": evaluation,
        "24.57 %": evaluation.result,
        "<details open": two,
        "new": comparison,
        "Nothing is wrong": odm.validate(truth, select="no-*"),
        "boxes read": ledger,
        "oLRP".lower(): two.results[0].analysis.lrp,
        "removed": odm.diff(truth, truth.take(slice(3, None))),
        "kappa of their classes": odm.agree(truth, truth),
        "boxes per image": odm.stats(truth),
    }
    for text, value in shown.items():
        page = value._repr_html_()
        assert text in page, text
        assert page.count("<svg") == page.count("</svg>")
        assert len(page) < 60_000
    charts = re.findall(r"<svg.*?</svg>", evaluation._repr_html_(), re.DOTALL)
    lines = [line for chart in charts for line in re.findall(r'<polyline[^>]*?points="([^"]+)"', chart)]
    points = np.array([point.split(",") for line in lines for point in line.split()], float)
    assert len(points) > 1
    assert (points >= [40, 8]).all()  # the frame begins there
    assert (points <= [230, 198]).all()
    assert "<circle" in comparison._repr_html_()


@pytest.mark.parametrize("lower_is_better", [False, True])
@pytest.mark.parametrize(
    ("low", "high", "sign"), [(0.1, 0.2, 1), (0.0, 0.2, 0), (-0.2, 0.0, 0), (-0.2, -0.1, -1)]
)
def test_an_interval_that_reaches_0_is_drawn_as_no_difference(comparison, low, high, sign, lower_is_better):
    changed = [replace(d, interval=replace(d.interval, low=low, high=high)) for d in comparison.deltas]
    keys = tuple({delta.key for delta in changed}) if lower_is_better else ()
    page = replace(comparison, deltas=changed, lower_keys=keys)._repr_html_()
    colours = {0: html.EVEN, 1: html.BETTER, -1: html.WORSE}
    expected = colours[-sign if lower_is_better else sign]
    assert {colour for colour in colours.values() if colour in page} == {expected}


def test_what_is_shown_names_runs_and_keywords_and_says_nothing_twice(sides, comparison, tmp_path):
    truth, found = sides
    assert ">old</th><th>new</th>" in comparison._repr_html_()
    runs = {"old": found, "new": found, "newer": found.take(found.boxes.score > 0.5)}
    three = odm.compare(truth, runs, "coco", replicates=10)._repr_html_()
    assert ">old</th><th>this run</th>" in three
    for page, n_texts in (
        (comparison._repr_html_(), 1),
        (three, 2),
    ):  # the run, where there are several, and the key
        for text in re.findall(r"<table>(.*?)</table>", page, re.DOTALL):
            rows = [
                re.findall(r"<t[hd]([^>]*)>", row) for row in re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)
            ]
            assert {len(row) for row in rows} == {4 + n_texts}
            assert {sum("text" in cell for cell in row) for row in rows} == {n_texts}
    assert "Each interval is for one change alone" in three
    changes = odm.diff(truth, truth.take(slice(3, None)))
    assert changes._repr_html_().count(changes.verdict) == 1
    table = {"image": [f"{i}" for i in range(12)], "class": ["c"] * 12} | dict.fromkeys(
        ("left", "top"), [5] * 12
    )
    table |= dict.fromkeys(("right", "bottom"), [9] * 12)
    moved = odm.diff(table, table | {"left": [7] * 12})._repr_html_()
    assert ".table('images')".replace("'", "&#x27;") in moved
    assert "--save" not in moved
    assert "> - expected" not in odm.validate(table | {"right": [1] * 12})._repr_html_()
    assert "<b>tables to csv" in odm.convert(table, tmp_path / "a.csv")._repr_html_()


def test_every_value_is_one_line_in_a_shell(sides, evaluation, tmp_path):
    truth, _ = sides
    ledger = odm.convert(truth, tmp_path / "out", to="voc")
    shown = [repr(one) for one in (ledger, odm.stats(truth), odm.agree(truth, truth), evaluation.detections)]
    assert [text.split(":")[0] for text in shown] == [
        "<Ledger",
        "<Statistics",
        "<Agreement",
        "<DetectionTable",
    ]
    assert all(len(text) < 110 and "\n" not in text for text in shown)
    n = len(truth)
    assert f"{n} boxes read, {n} written" in shown[0]


def test_html_is_escaped_by_the_one_function_that_makes_it():
    from odm.verbs.html import Html, draw_table, element

    assert (
        element("p", "<b>", Html("<i></i>"), title='"x"') == '<p title="&quot;x&quot;">&lt;b&gt;<i></i></p>'
    )
    assert "\u202e" not in element("p", "tri\u202eelgna")
    assert "<script>" not in draw_table(["<script>"], [["<script>"]])


def test_validation_shows_three_places_of_each_code():
    boxes = [[9.0, 0.0, float(i), 5.0] for i in range(5)]
    bad = odm.Dataset.from_arrays(
        images=["a"], categories=["c"], image=[0] * 5, category=[0] * 5, xyxy=boxes, width=[20], height=[20]
    )
    page = odm.validate(bad, select="inverted-box")._repr_html_()
    assert page.count("expected left &lt;= right") == 3
    assert ">5<" in page


def test_reports_are_pages_in_a_frame_or_files(sides, evaluation, comparison, tmp_path):
    for value in (evaluation, evaluation.result, comparison, sides[0]):
        make = value.show if value is sides[0] else value.report
        assert make()._repr_html_().startswith("<iframe srcdoc=")
        assert Path(make(tmp_path / "page.html", overwrite=True)).read_text().startswith("<!doctype html>")
        with pytest.raises(odm.PathError, match=r"page\.html"):
            make(tmp_path / "page.html")
    with pytest.raises(odm.UsageError, match=r"report has no option 'reprt_images'.*did you mean"):
        evaluation.report(reprt_images=3)
    truth, found = sides
    five = odm.compare(truth, dict.fromkeys("abcde", found), replicates=5)
    with pytest.raises(odm.UsageError, match="of up to 4 runs"):
        five.report()


def test_pictures_stand_in_columns(sides):
    with pytest.raises(odm.UsageError, match="at least 1"):
        sides[0].show(columns=0)


def test_plots_are_figures(evaluation):
    pytest.importorskip("matplotlib")
    figure = evaluation.plot()
    assert figure.axes
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert evaluation.result.plot("f1-confidence").axes
    with pytest.raises(odm.UsageError, match="plot 'roc': choose one of 'precision-recall', 'f1-confidence'"):
        evaluation.plot("roc")


def test_analyses_are_attributes_with_tables(sides):
    e = odm.eval(*sides, protocol="coco", analyze="all", confusion="counts", thresholds="f1")
    assert [row["error"] for row in e.analysis.tide.table()][:2] == ["Cls", "Loc"]
    assert e.analysis.tide["Loc"]["dap"] == e.analysis["tide"]["Loc"]["dap"]
    for name in ("lrp", "calibration", "images", "slices", "confusion", "thresholds"):
        table = getattr(e.analysis, name).table()
        assert len(table) > 0
        assert set(table.columns()) == set(table.names)
        assert getattr(e.analysis, name)._repr_html_()
    assert sum(e.analysis.confusion.table().columns()["count"]) == 29
    plain = odm.eval(*sides)
    with pytest.raises(odm.UsageError, match=r'analysis tide: it was not requested.*analyze="tide"'):
        plain.analysis.tide  # noqa: B018
    assert not hasattr(plain.analysis, "nonsense")
    without = odm.eval(*sides, protocol="corloc", analyze="tide")
    with pytest.raises(odm.UsageError, match="no AP per class"):
        without.analysis.tide.table()


@pytest.mark.parametrize(
    ("n_classes", "more"), [(11, None), (12, None), (13, "1 more class"), (15, "3 more classes")]
)
def test_tables_of_classes_end_after_twelve_and_say_how_many_are_left(n_classes, more):
    """The largest come first, each with a bar beside the largest."""
    category = np.repeat(np.arange(n_classes), np.arange(n_classes) + 1)
    data = odm.Dataset.from_arrays(
        images=["a"], categories=[f"c{k}" for k in range(n_classes)], image=category * 0, category=category,
        xyxy=[[1, 2, 3, 4]] * len(category),
    )  # fmt: skip
    page = data._repr_html_()
    assert re.findall(r"<p[^>]*>(\d+ more[^<]*)<", page) == [more] * bool(more)
    for table in (page, odm.stats(data)._repr_html_()):
        rows = re.findall(r">c(\d+)</t[dh]><td[^>]*>(\d+)<", table)
        assert rows == [(str(k), str(k + 1)) for k in range(n_classes)[:-13:-1]]
    shares = np.array([(float(width), 0.9 * float(label)) for label, width in re.findall(
        r'aria-label="([\d.]+) %"><rect[^>]*></rect><rect[^>]*width="([\d.]+)"', page)])  # fmt: skip
    wanted = 90 * np.arange(n_classes, 0, -1)[:12] / n_classes
    np.testing.assert_allclose(shares, np.stack([wanted, wanted], axis=1), atol=0.051)
