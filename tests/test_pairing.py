"""Images and classes are paired by one set of rules: what `eval` joins, `validate --against` compares."""

import contextlib
import json

import numpy as np
import pytest
from corpus_base import lay
from msgspec.structs import replace

from odm import checks, pairing
from odm.evaluate import evaluate
from odm.issues import DataError, Log
from odm.tables import Dataset

PLACES = [(10 + 35 * k, 5 + 9 * i, 20, 25) for i in range(6) for k in range(3)]
"""Three objects on each of six images; no place overlaps one of another image by half."""
IMAGE = [i for i in range(6) for _ in range(3)]
CLASS = [(i + k) % 4 for i in range(6) for k in range(3)]
NAMES = [f"{i:03}.jpg" for i in range(6)]
CLASSES = ["ant", "bee", "cat", "dog", "eel"]


def truth(*, images=NAMES, categories=CLASSES, **given):
    given = {"image": IMAGE, "category": CLASS, "ltwh": PLACES, **given}
    return Dataset.from_arrays(images=images, categories=categories, **given)


def found(**given):
    return truth(**{"score": np.linspace(0.9, 0.1, len(PLACES)), **given})


def numbered(dataset):
    return replace(dataset, categories=replace(dataset.categories, named=False))


def said(ours, theirs):
    """The codes of both commands, and the mAP, NaN where there is none."""
    logs = Log(), Log()
    ap = float("nan")
    with contextlib.suppress(DataError):
        ap = evaluate(ours, theirs, log=logs[0]).summary["mAP"]
    checks.compare(ours, theirs, logs[1])
    return set(logs[0].counts), set(logs[1].counts), ap


@pytest.fixture
def run(tmp_path, monkeypatch, odm_run):
    monkeypatch.chdir(tmp_path)
    return lambda *words, **more: "".join(odm_run(*words, **more))


def write(location, data):
    lay(location.parent, {location.name: data if isinstance(data, str) else json.dumps(data)})


def coco(first_id=1, *, first_class=1):
    """An instances file of the objects above."""
    return {
        "images": [{"id": i + first_id, "file_name": name, "width": 120, "height": 80} for i, name in enumerate(NAMES)],
        "categories": [{"id": c + first_class, "name": name} for c, name in enumerate(CLASSES)],
        "annotations": [
            {"id": n + 1, "image_id": i + first_id, "category_id": c + first_class, "bbox": box, "area": 500, "iscrowd": 0}
            for n, (i, c, box) in enumerate(zip(IMAGE, CLASS, PLACES, strict=True))
        ],
    }  # fmt: skip


def results(first_id=1, *, first_class=1, number=range(5)):
    return [
        {"image_id": i + first_id, "category_id": number[c] + first_class, "bbox": box, "score": 0.9 - 0.01 * n}
        for n, (i, c, box) in enumerate(zip(IMAGE, CLASS, PLACES, strict=True))
    ]  # fmt: skip


def yolo(location, *, names):
    """The same for trainers, half of the images in each of two splits."""
    for i, name in enumerate(NAMES):
        rows = [(c, box) for j, c, box in zip(IMAGE, CLASS, PLACES, strict=True) if i == j]
        lines = [
            f"{c} {(x + w / 2) / 120} {(y + h / 2) / 80} {w / 120} {h / 80}\n" for c, (x, y, w, h) in rows
        ]
        split = "val" if i < 3 else "train"
        write(location / "labels" / split / name.replace("jpg", "txt"), "".join(lines))
    for split in ("val", "train"):
        write(location / "images" / split / ".keep", "")
    if names:
        write(location / "data.yaml", f"train: images/train\nval: images/val\nnames: {CLASSES}\n")


# -------------------------------------------------------------------------------------- one set of rules


def test_images_that_are_only_ids_are_paired_by_both(run, tmp_path):
    write(tmp_path / "gt.json", coco())
    detections = coco()
    detections["images"] = [{"id": image["id"], "width": 120, "height": 80} for image in detections["images"]]
    detections["annotations"] = [{**box, "score": 0.5} for box in detections["annotations"]]
    write(tmp_path / "det.json", detections)
    assert "100.00 %" in run("eval", "gt.json", "det.json")
    assert "no errors" in run("validate", "gt.json", "--against", "det.json")


def test_images_without_an_id_do_not_shift_the_ids_of_the_others():
    ids = np.array([pairing.NO_ID, 7, 8, pairing.NO_ID, 9, 10])
    ours, theirs = truth().images, truth(images=["7", "8", "9", "10", "11", "12"]).images
    ours = replace(ours, source_id=ids)
    theirs = replace(theirs, source_id=np.arange(7, 13))
    partner, how = pairing.pair_images(ours, theirs)
    assert partner.tolist() == [1, 2, 4, 5, -1, -1]
    assert how == {"id": 4}


@pytest.mark.parametrize(
    ("ids", "numbers", "taken"),
    [
        ([1, 18, 40, 70, 90], [1, 18, 40, 70, 90], "as ids"),  # some are beyond the list
        ([1, 18, 40, 70, 90], [0, 1, 2, 3, 4], "as positions from 0"),
        (None, [0, 1, 2, 3, 4], "as positions from 0"),
    ],
)
def test_numbers_for_classes_mean_the_same_to_both(ids, numbers, taken):
    ours = truth(category_ids=ids)
    theirs = numbered(found(categories=[*map(str, numbers)][::-1], category=[4 - c for c in CLASS]))
    assert said(ours, theirs) == (set(), set(), 1)
    log = Log()
    checks.compare(ours, theirs, log)
    assert any(taken in note for note in log.notes)
    assert said(numbered(truth(categories=list("01234"))), found()) == (set(), set(), 1)


def test_what_one_side_lacks_has_one_name():
    ours = truth(images=[*NAMES[:5], "street.jpg"], categories=["ant", "bee", "cat", "dog", "eel"])
    theirs = found(images=[*NAMES[:5], "strete.jpg"], categories=["ant", "bee", "cat", "Dog", "eel"])
    evaluated, validated, _ = said(ours, theirs)
    assert evaluated == {"image-only-in-detections", "class-only-in-detections"}
    assert validated == evaluated | {"class-only-in-ground-truth"}
    log = Log()
    checks.compare(truth(), found(categories=["ant", "bee", "cat", "Dog", "eel"]), log)
    assert {i.code: i.message.partition(";")[0] for i in log} == {
        "class-only-in-detections": "class 'Dog' of 4 detections is not in the ground truth "
        "(did you mean 'dog'?)",
        "class-only-in-ground-truth": "class 'dog' of 4 ground truth boxes is not in the detections "
        "(did you mean 'Dog'?)",
    }


def test_nothing_in_common_is_one_error_of_both():
    assert said(truth(), found(images=[f"x{n}" for n in NAMES]))[:2] == ({"no-image-in-common"},) * 2
    assert said(truth(), found(categories=list("vwxyz")))[:2] == ({"no-class-in-common"},) * 2


# ------------------------------------------------------------------------------------ numbers misread


def test_class_numbers_that_are_ids_although_they_could_be_positions():
    """18 as an id is one class, as a position the next."""
    names = [f"c{i}" for i in range(20)]
    ours = truth(categories=names, category=[c + 14 for c in CLASS], category_ids=range(1, 21))
    ids = [str(c + 15) for c in range(4)]
    evaluated, validated, ap = said(ours, numbered(found(categories=ids)))
    assert evaluated == validated == {"class-numbers-misread"}
    assert np.isnan(ap)


def misread(ours, theirs):
    log = Log()
    checks.compare(ours, theirs, log)
    (issue,) = [i for i in log if i.code == "class-numbers-misread"]
    return issue.message


def test_the_reading_that_fits_is_shown():
    ours = truth(category_ids=[11, 12, 13, 14, 15])
    one_less = found(category=[(c + 1) for c in CLASS], category_ids=[0, 1, 2, 3, 4])
    message = misread(
        truth(category_ids=range(5)), found(category=[c + 1 for c in CLASS], category_ids=range(5))
    )
    assert (
        "with 1 = 'bee', 2 = 'cat', 0 of 18 detections have the class of the object they overlap" in message
    )
    assert (
        "with 1 = 'ant', 2 = 'bee', 18 would; if these are COCO results, use -O ids=positions-from-1"
        in message
    )
    assert said(ours, one_less)[2] < 0.1  # names that each side has from a list of its own are believed
    both = misread(numbered(truth(categories=list("12345"))), numbered(found(categories=list("01234"))))
    assert "with 0 = '0', 1 = '1', 0 of 18" in both
    assert "with 0 = '1', 1 = '2', 18 would" in both
    assert "(eval --rename 0=1 --rename 1=2 ..., or --rename @FILE)" in both


def test_results_that_count_classes_from_one_are_an_error_with_a_way_out(run, tmp_path):
    yolo(tmp_path / "set", names=True)
    write(tmp_path / "predictions.json", results(0))
    size = ("--gt-image-size", "120x80")
    for words in (
        ("eval", "set/data.yaml", "predictions.json"),
        ("validate", "set/data.yaml", "--against", "predictions.json"),
    ):
        text = run(*words, *size, code=1)
        assert " error class-numbers-misread " in text
        assert "-O ids=positions-from-1" in text
        assert run(*words, *size, "-O", "ids=positions-from-1")
    words = ("eval", "set/data.yaml", "predictions.json", *size, "-O", "ids=positions-from-1")
    assert "mAP = 100.00 %" in run(*words)


def test_results_that_count_classes_from_one_are_read_so_where_classes_are_numbers(run, tmp_path):
    """Without a list of names the last number is one that nobody has, and so is 0."""
    yolo(tmp_path / "set", names=False)
    write(tmp_path / "predictions.json", results(0))
    text = run("eval", "set", "predictions.json", "--gt-image-size", "120x80")
    assert "category_id is read as the position in the ground truth's list, from 1" in text
    assert "mAP = 100.00 %" in text


@pytest.mark.parametrize("step", [-1, 1])
def test_image_ids_off_by_one_are_an_error(run, tmp_path, step):
    write(tmp_path / "gt.json", coco(1))
    listed = results(1 + step)
    write(tmp_path / "det.json", [r for r in listed if 1 <= r["image_id"] <= 6])
    for words in (("eval", "gt.json", "det.json"), ("validate", "gt.json", "--against", "det.json")):
        text = run(*words, code=1)
        assert text.count(" error image-numbers-shifted ") == 1
        assert ("subtract 1 from" if step > 0 else "add 1 to") in text


@pytest.mark.parametrize("names", ["{:03}.jpg", "{}.jpg"])
@pytest.mark.parametrize("step", [-1, 1])
def test_images_go_by_the_numbers_that_are_their_names_whatever_their_order(step, names):
    """Numbers from 0; the detections of each image are called those of the next or the one before."""
    number_of_row = [2, 0, 5, 1, 4, 3]
    images = [names.format(number) for number in number_of_row]
    kept = [n for n, i in enumerate(IMAGE) if 0 <= number_of_row[i] + step < 6]
    theirs = found(
        images=images, image=[number_of_row.index(number_of_row[IMAGE[n]] + step) for n in kept],
        category=[CLASS[n] for n in kept], ltwh=[PLACES[n] for n in kept], score=np.linspace(0.9, 0.1, len(kept)),
    )  # fmt: skip
    log = Log()
    checks.compare(truth(images=images), theirs, log)
    (issue,) = [i for i in log if i.code == "image-numbers-shifted"]
    assert f"{len(kept)} would in the image {'after' if step < 0 else 'before'} it" in issue.message


def test_detectors_are_not_doubted():
    rng = np.random.default_rng(3)
    shift = numbered(truth(categories=list("01234")))
    anywhere = np.c_[rng.integers(0, 90, (18, 2)), np.full((18, 2), 20)]
    for theirs in (
        numbered(found(categories=list("01234"), category=[0] * 18)),  # one class for everything
        numbered(found(categories=list("01234"), category=rng.integers(0, 5, 18))),
        numbered(found(categories=list("01234"), category=CLASS[::-1])),
        numbered(found(categories=list("01234"), ltwh=anywhere)),
        numbered(
            found(
                categories=list("01234"), image=[0] * 3, category=[1, 2, 3], ltwh=PLACES[:3], score=[0.5] * 3
            )
        ),
    ):
        evaluated, validated, ap = said(shift, theirs)
        assert not any("numbers" in code for code in evaluated | validated)
        assert not np.isnan(ap)


def test_many_doubtful_detections_do_not_hide_a_shift():
    """Detectors say much that is not there, with low scores."""
    junk = np.tile([[100.0, 70.0, 5.0, 5.0]], (500, 1))
    theirs = found(
        image=[*IMAGE, *[0] * 500],
        category=[*(c + 1 for c in CLASS), *[0] * 500],
        ltwh=np.r_[PLACES, junk],
        score=np.r_[np.linspace(0.9, 0.5, 18), np.linspace(0.1, 0.01, 500)],
        category_ids=range(5),
    )
    assert "class-numbers-misread" in said(truth(category_ids=range(5)), theirs)[0]


# --------------------------------------------------------------------------------------------- splits


def test_splits_without_detections_are_a_doubt_with_a_way_out(run, tmp_path):
    yolo(tmp_path / "set", names=True)
    write(tmp_path / "predictions.json", [r for r in results(0, first_class=0) if r["image_id"] < 3])
    size = ("--gt-image-size", "120x80")
    text = run("eval", "-q", "set/data.yaml", "predictions.json", *size)
    assert (
        "warning split-without-detections there are no detections in the split 'train' (3 images), so 9 of 18 "
        "ground truth boxes are missed; if the detector was not run on these images, evaluate only the others "
        "with --gt-split val\n"
    ) in text
    assert "mAP = 50.00 %" in text
    text = run("eval", "-q", "set/data.yaml", "predictions.json", *size, "--gt-split", "val")
    assert "split-without-detections" not in text
    assert "mAP = 100.00 %" in text
    text = run("validate", "set/data.yaml", "--against", "predictions.json", *size)
    assert text.count("warning split-without-detections") == 1
    assert "3 of 6 images of the ground truth have no detections" in text
    text = run("eval", "-q", "set/data.yaml", "predictions.json", *size, "--only-images", "000,001,002")
    assert "split-without-detections" not in text


def split(names, **given):
    data = truth(**given)
    return replace(data, images=replace(data.images, split=tuple(names)))


@pytest.mark.parametrize(
    ("splits", "images", "ways_out"),
    [
        (["val"] * 3 + ["train"] * 3, [0, 5], None),
        (["val"] * 6, [0], None),
        ([""] * 3 + ["train"] * 3, [0], None),
        (["val", "val", "test", "test", "train", "train"], [0, 2], "--gt-split val or --gt-split test"),
        (["val", "val", "test", "test", "train", "train"], [], None),
    ],
)
def test_which_splits_are_doubted(splits, images, ways_out):
    rows = [n for n, i in enumerate(IMAGE) if i in images]
    theirs = found(
        image=[IMAGE[n] for n in rows],
        category=[CLASS[n] for n in rows],
        ltwh=np.array(PLACES)[rows].reshape(-1, 4),
        score=[0.5] * len(rows),
    )
    log = Log()
    ours = split(splits)
    pairing.report_splits(ours, theirs, pairing.pair(ours, theirs, log), log)
    assert [i.code for i in log] == (["split-without-detections"] if ways_out else [])
    assert all(i.message.endswith(str(ways_out)) for i in log)
