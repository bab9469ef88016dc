"""Which images, classes and detections the commands use: `--only-images`, `--only-classes` and scores."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from test_report import read_page

import odm
from odm.cli._app import run
from odm.evaluate.analysis.review import KIND_WORDS

STREET = Path(__file__).parents[1] / "fixtures" / "street"
TRUTH, DETECTIONS = STREET / "truth.json", STREET / "detections.json"
SOME = ["market.jpg", "night.jpg"]


def kept(dataset, images=None, classes=None):
    """The rows of boxes on some images and of some classes."""
    rows = np.ones(len(dataset), bool)
    if images is not None:
        rows &= np.isin(np.array(dataset.images.name)[dataset.boxes.image], images)
    if classes is not None:
        rows &= np.isin(np.array(dataset.categories.name)[dataset.boxes.category], classes)
    return rows


@pytest.mark.parametrize("as_file", [False, True])
def test_a_conversion_of_some_images_and_classes(tmp_path, as_file):
    (tmp_path / "review.txt").write_text("\n".join(SOME) + "\n", encoding="utf-8")
    names = f"@{tmp_path / 'review.txt'}" if as_file else ",".join(SOME)
    target = tmp_path / "some.json"
    assert (
        run(
            [
                "convert",
                str(TRUTH),
                str(target),
                "--to",
                "coco",
                "--only-images",
                names,
                "--only-classes",
                "car",
            ]
        )
        == 0
    )
    whole, some = odm.read(TRUTH), odm.read(target)
    assert sorted(some.images.name) == SOME
    assert some.categories.name == ("car",)
    rows = kept(whole, SOME, ["car"])
    np.testing.assert_allclose(some.boxes.xyxy, whole.boxes.xyxy[rows])
    ledger = odm.convert(TRUTH, tmp_path / "again.json", to="coco", only_images=SOME, dry_run=True)
    assert sum(ledger.left_out.values()) == np.count_nonzero(~kept(whole, SOME))
    assert ledger.images_left_out == {"not chosen (only_images)": len(whole.images) - len(SOME)}


def test_a_conversion_of_detections_above_thresholds(tmp_path):
    """Those that a set was chosen for are those that are left."""
    thresholds, target = tmp_path / "thresholds.json", tmp_path / "good.json"
    odm.eval(TRUTH, DETECTIONS, "coco", thresholds="precision:0.9", save_thresholds=thresholds)
    saved = json.loads(thresholds.read_text(encoding="utf-8"))
    whole = odm.read(DETECTIONS, gt=TRUTH)
    assert (
        run(
            [
                "convert",
                str(DETECTIONS),
                str(target),
                "--gt",
                str(TRUTH),
                "--to",
                "coco",
                "--at-scores",
                str(thresholds),
            ]
        )
        == 0
    )
    kept = odm.convert(DETECTIONS, tmp_path / "x.json", gt=TRUTH, to="coco", at_scores=thresholds)
    others = {name: row for name, row in saved["classes"].items() if name != "car"}
    (tmp_path / "others.json").write_text(json.dumps({**saved, "classes": others}), encoding="utf-8")
    other = odm.convert(
        DETECTIONS, tmp_path / "y.json", gt=TRUTH, to="coco", at_scores=tmp_path / "others.json"
    )
    unknown = "classes that are not in the file of at_scores and use its default"
    assert unknown not in kept.changed
    assert other.changed[unknown] == 1
    scores = [saved["classes"][name]["score"] for name in whole.categories.name]
    least = np.array([np.nan if score is None else score for score in scores])
    expected = whole.boxes.score >= least[whole.boxes.category]
    assert 0 < np.count_nonzero(expected) < len(whole)
    np.testing.assert_array_equal(odm.read(target, gt=TRUTH).boxes.score, whole.boxes.score[expected])
    odm.convert(DETECTIONS, tmp_path / "more.json", gt=TRUTH, to="coco", at_scores=thresholds, score_min=0.95)
    more = odm.read(tmp_path / "more.json", gt=TRUTH).boxes.score
    np.testing.assert_array_equal(more, whole.boxes.score[expected & (whole.boxes.score >= 0.95)])


def test_what_has_the_least_score_is_kept(tmp_path):
    whole = odm.read(DETECTIONS, gt=TRUTH)
    least = float(np.sort(whole.boxes.score)[5])
    odm.convert(whole, tmp_path / "a.csv", score_min=least)
    assert len(odm.read(tmp_path / "a.csv")) == np.count_nonzero(whole.boxes.score >= least)


def test_statistics_differences_and_pages_of_some(tmp_path, capsys):
    whole = odm.read(TRUTH)
    statistics = odm.stats(TRUTH, only_images=SOME, only_classes="car,person").to_dict()
    assert (statistics["images"], len(statistics["classes"])) == (2, 2)
    assert statistics["boxes"] == np.count_nonzero(kept(whole, SOME, ["car", "person"]))
    assert run(["stats", str(TRUTH), "--quiet", "--only-images", ",".join(SOME), "--output", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["boxes"] == odm.stats(whole, only_images=SOME).to_dict()["boxes"]
    moved = odm.read(TRUTH, format="coco")
    xyxy = moved.boxes.xyxy.copy()
    xyxy[~kept(whole, SOME)] += 40
    changed = tmp_path / "moved.csv"
    odm.write(odm.Dataset.from_arrays(
        images=moved.images.name, categories=moved.categories.name, image=moved.boxes.image,
        category=moved.boxes.category, ltwh=np.c_[xyxy[:, :2], xyxy[:, 2:] - xyxy[:, :2]],
    ), changed)  # fmt: skip
    assert not odm.diff(TRUTH, changed).equal
    assert "moved" not in odm.diff(TRUTH, changed, only_images=SOME).verdict
    odm.show(DETECTIONS, gt=TRUTH, only_images=SOME[:1], score_min=0.5, out=tmp_path / "page.html")
    page, _, _ = read_page(tmp_path / "page.html")
    detections = odm.read(DETECTIONS, gt=TRUTH)
    n = np.count_nonzero(kept(detections, SOME[:1]) & (detections.boxes.score >= 0.5))
    assert (page["imageCount"], page["boxCount"]) == (1, n)
    assert n


def test_an_image_that_only_one_version_has(tmp_path):
    odm.convert(TRUTH, tmp_path / "a.json", to="coco", only_images=SOME[:1])
    difference = odm.diff(TRUTH, tmp_path / "a.json", only_images=SOME)
    assert not difference.equal
    assert "images: 1 removed" in difference.verdict


def write_faults(folder):
    """YOLO labels of the example with faults of two kinds in each file: a row that is no row, and a box twice."""
    odm.convert(TRUTH, folder, to="yolo")
    for path in folder.glob("labels/**/*.txt"):
        first = path.read_text().splitlines()[0]
        path.write_text(path.read_text() + first + "\nx 1 2\n")
    return folder


@pytest.mark.parametrize("as_object", [False, True])
def test_validation_of_some_images_and_classes(tmp_path, capsys, as_object):
    """Only their faults are reported: those of rows that cannot be read, and those of tables."""
    faults = write_faults(tmp_path / "faults")
    whole = odm.validate(faults, image_size="960x600")
    names = whole.datasets[0].images.name
    some = [name for name in names if name.split(".")[0] in ("market", "night")]
    files = {f"{name.split('.')[0]}.txt" for name in some}
    assert whole.log.counts["wrong-count"] == len(names)
    source = odm.read(faults, image_size="960x600", skip_bad=True) if as_object else faults
    part = odm.validate(source, only_images=some, **({} if as_object else {"image_size": "960x600"}))
    read_faults = ["wrong-count"] * (not as_object)
    assert {code: n for code, n in part.log.counts.items() if n} == {
        code: len(files) for code in ["duplicate-box", *read_faults]
    }
    assert {Path(issue.path).name for issue in part} == files
    assert sorted(part.datasets[0].images.name) == sorted(some)
    if as_object:
        return
    assert part.datasets[0].skipped == len(files)
    labels = [str(path) for path in faults.glob("labels/**/*.txt")]
    words = ["--image-size", "960x600", "--quiet", "--only-images", ",".join(some)]
    assert run(["validate", *labels, "--from", "yolo", *words]) == 1
    assert set(re.findall(r"[a-z-]+\.txt(?=:)", capsys.readouterr().out)) == files
    first = int((faults / "labels" / "night.txt").read_text().split()[0])
    chosen = [name for k, name in enumerate(whole.datasets[0].categories.name) if k != first]
    others = odm.validate(faults, only_images=some, only_classes=chosen, image_size="960x600")
    assert others.datasets[0].categories.name == tuple(chosen)
    assert others.log.counts["duplicate-box"] < len(files)


def test_labels_to_review_are_counted_by_kind_and_lead_to_their_images(tmp_path, capsys):
    folder = tmp_path / "saved"
    assert run(["eval", str(TRUTH), str(DETECTIONS), "--protocol", "coco", "--save", str(folder)]) == 0
    note = " ".join(capsys.readouterr().err.split())
    with (folder / "suspects.csv").open(encoding="utf-8", newline="") as file:
        kinds = [row["kind"] for row in csv.DictReader(file)]
    assert f"{len(kinds)} labels to review: " in note
    for kind, words in KIND_WORDS.items():
        assert (f"{kinds.count(kind)} {words}" in note) == (kind in kinds)
    assert "spurious" in kinds
    assert f"--only-images @{folder}/review.txt takes their images" in note
    names = (folder / "review.txt").read_text(encoding="utf-8").split()
    assert run(["validate", str(TRUTH), "--only-images", f"@{folder}/review.txt"]) == 0
    assert f"{len(names)} images" in capsys.readouterr().out


def test_faults_beyond_those_that_are_kept_are_those_of_the_chosen_images(tmp_path):
    """Of each code a log keeps some; those of other images do not fill it."""
    (tmp_path / "a.txt").write_text("x 1 2\n" * 500)
    (tmp_path / "b.txt").write_text("0 .5 .5 .1 .1\nx 1 2\n")
    part = odm.validate(tmp_path, "yolo", only_images=["b"], image_size="640x480", select="wrong-*")
    assert [(Path(issue.path).name, issue.code) for issue in part] == [("b.txt", "wrong-count")]
    assert part.log.counts["wrong-count"] == part.errors == 1


def test_validation_of_some_images_against_detections_and_pictures():
    words = {"against": DETECTIONS, "images": STREET / "images"}
    part = odm.validate(TRUTH, only_images=SOME, **words)
    assert [sorted(one.images.name) for one in part.datasets] == [SOME, SOME]
    assert not list(part)
    with pytest.raises(odm.UsageError, match="fix repairs all of SRC: leave out only_classes"):
        odm.validate(TRUTH, only_classes="car", fix="clip", out="never")


@pytest.mark.parametrize("verb", [
    lambda **o: odm.convert(TRUTH, "never.json", to="coco", **o),
    lambda **o: odm.stats(TRUTH, **o), lambda **o: odm.show(TRUTH, **o), lambda **o: odm.diff(TRUTH, TRUTH, **o),
    lambda **o: odm.validate(TRUTH, **o), lambda **o: odm.validate(odm.read(TRUTH), **o),
])  # fmt: skip
@pytest.mark.parametrize(("options", "message"), [
    ({"only_images": "marke.jpg"}, r"only_images: there is no image 'marke.jpg' \(did you mean 'market.jpg'"),
    ({"only_images": ""}, "only_images ''?: there is no name in it"),
    ({"only_classes": "persn"}, r"only_classes: there is no class 'persn' \(did you mean 'person'"),
])  # fmt: skip
def test_a_name_that_is_not_there(verb, options, message):
    with pytest.raises(odm.UsageError, match=message):
        verb(**options)


def test_scores_that_are_not_there(tmp_path):
    with pytest.raises(odm.UsageError, match="score_min: no box has a score"):
        odm.convert(TRUTH, tmp_path / "a.json", to="coco", score_min=0.5)
    with pytest.raises(odm.UsageError, match="score_min inf: expected a score"):
        odm.convert(DETECTIONS, tmp_path / "a.json", gt=TRUTH, to="coco", score_min=float("inf"))
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(odm.UsageError, match=r"at_scores .*bad.json"):
        odm.show(DETECTIONS, gt=TRUTH, at_scores=tmp_path / "bad.json")
