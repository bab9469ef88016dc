"""What values show of themselves: tables, HTML in a notebook, pages and plots."""

import csv
import io
import sys
from pathlib import Path

import pytest

import odm
from odm.evaluate.output.render import detections_csv, per_class_csv, review_csv

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

    assert as_csv(evaluation.detections.columns()) == of(detections_csv(evaluation))
    assert as_csv(evaluation.missed.columns()) == of(review_csv(evaluation)["missed.csv"])
    assert as_csv(evaluation.classes.columns()) == of(per_class_csv(evaluation))[:-1]


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
    import dataclasses

    truth = sides[0]
    other = dataclasses.replace(
        truth, categories=dataclasses.replace(truth.categories, name=("human",)), kind="det"
    )
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
def test_without_the_library_the_extra_is_named(evaluation, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(odm.UsageError, match=rf"needs {library}: pip install 'odm-toolkit\[bridges\]'"):
        getattr(evaluation.detections, f"to_{library}")()
