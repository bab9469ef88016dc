"""Where the numbers are easily wrong by a little: huge boxes, caps and classes, image labels, shards."""

import numpy as np
import pytest

from odm.evaluate import PROTOCOLS, accumulate, concatenate, evaluate, join, match
from odm.evaluate.scores.set_ups import AREAS, EVERY_AREA
from odm.issues import Log
from odm.tables import Dataset, Flag

COCO_LIKE = [name for name, rules in PROTOCOLS.items() if rules.areas[0] == AREAS["all"]]
OTHERS = [name for name, rules in PROTOCOLS.items() if rules.areas == (EVERY_AREA,)]
TREE = {
    "LabelName": "Entity",
    "Subcategory": [
        {"LabelName": "animal", "Subcategory": [{"LabelName": "dog"}, {"LabelName": "cat"}]},
        {"LabelName": "plant", "Subcategory": [{"LabelName": "tree"}]},
    ],
}


def boxes(images, rows, categories=("c",), **given):
    """Rows of image, class, box as left, top, width, height, and for detections a score."""
    if rows and len(rows[0]) > 3:
        given["score"] = [row[3] for row in rows]
    return Dataset.from_arrays(
        images=images,
        categories=categories,
        image=[row[0] for row in rows],
        category=[row[1] for row in rows],
        ltwh=[row[2] for row in rows],
        **given,
    )


# ------------------------------------------------------------------------------------------- huge boxes

HUGE = (
    boxes(["a"], [(0, 0, (0, 0, 110_000, 110_000))]),
    boxes(["a"], [(0, 0, (200_000, 0, 150_000, 150_000), 0.9)]),
)


@pytest.mark.parametrize("name", OTHERS)
def test_no_box_is_too_large(name):
    """A missed object and a false positive of more than 1e10 square pixels count."""
    result = evaluate(*HUGE, name).result
    row = result.classes[0]
    assert (row.gt, row.tp, row.fp, row.ignored) == (1, 0, 1, 0)
    assert "area range" not in result.definition
    if PROTOCOLS[name].metric == "ap":
        assert row.ap == 0


@pytest.mark.parametrize("name", COCO_LIKE)
def test_coco_and_lvis_ignore_huge_boxes_and_state_it(name):
    result = evaluate(*HUGE, name).result
    row = result.classes[0]
    assert (row.gt, row.gt_ignored, row.fp, row.ignored) == (0, 1, 0, 1)
    assert "area 0..1e+10 (all)" in result.definition


def test_large_has_the_limit_of_the_protocol():
    voc, coco = evaluate(*HUGE, ["voc2012", "coco"], area="large").results
    assert (voc.classes[0].gt, coco.classes[0].gt) == (1, 0)
    assert "area 9216..inf (large)" in voc.definition
    assert "area 9216..1e+10 (large)" in coco.definition
    assert evaluate(*HUGE, "voc2012", area="all").result.definition == PROTOCOLS["voc2012"].definition


# ------------------------------------------------------------------------------------- caps and classes


@pytest.mark.parametrize(("name", "key"), [("lvis", "AP"), ("imagenet-loc", "top5_loc")])
def test_the_cap_comes_before_the_classes(name, key):
    """The right box is the last of its image; the better ones are of a class that is not asked for."""
    n = PROTOCOLS[name].max_dets
    truth = boxes(["a"], [(0, 0, (0, 0, 10, 10)), (0, 1, (50, 50, 10, 10))], "xy")
    better = [(0, 1, (20, 20, 10, 10), 0.9)]
    right = (0, 0, (0, 0, 10, 10), 0.1)
    for others, found in ((n, False), (n - 1, True)):
        det = boxes(["a"], better * others + [right], "xy")
        result = evaluate(truth, det, name, only_classes=["x"]).result
        assert [row.name for row in result.classes] == ["x"]
        hit = result.summary[key] if name == "lvis" else 1 - result.summary[key]
        assert hit == pytest.approx(int(found))
        both = evaluate(truth, det, name).result
        assert both.classes[0].tp == result.classes[0].tp == found


# ------------------------------------------------------------------------------------------ Open Images


@pytest.mark.parametrize(
    ("named", "found"), [("b", "b.jpg"), ("b.jpg", "b"), ("val/b", "val/b.png"), ("b", "b")]
)
def test_images_that_only_labels_name_belong_to_the_ground_truth(named, found):
    """There, detections of a class that is labelled absent are false positives, and others are dropped."""
    truth = boxes(["a.jpg"], [(0, 0, (0, 0, 10, 10))], "xy")
    det = boxes(
        ["a.jpg", found],
        [(0, 0, (0, 0, 10, 10), 0.5), (1, 0, (0, 0, 10, 10), 0.9), (1, 1, (0, 0, 10, 10), 0.8)],
        "xy",
    )
    labels = [(named, "x", False), ("a", "x", True), ("nowhere", "y", True)]
    log = Log()
    evaluation = evaluate(truth, det, "openimages-challenge", image_labels=labels, log=log)
    x, y = evaluation.classes
    assert (x.gt, x.tp, x.fp, y.det) == (1, 1, 1, 0)
    assert evaluation.summary["mAP"] == 0.5
    assert evaluation.join.images_both == 2
    assert evaluation.join.images_gt_only == ("nowhere",)
    assert not log.issues
    assert (
        "image labels: 2 images that only they name have no boxes and count as ground truth" in log.notes[0]
    )


@pytest.mark.parametrize("named", ["val/a.jpg", "val/a", "val/a.png"])
def test_labels_of_an_image_in_a_folder_add_no_image(named):
    """Under its name, without its suffix and under another suffix it is the image of the ground truth."""
    truth = boxes(["val/a.jpg"], [(0, 0, (0, 0, 10, 10))], "xy")
    det = boxes(["val/a"], [(0, 0, (0, 0, 10, 10), 0.5), (0, 1, (0, 0, 10, 10), 0.9)], "xy")
    log = Log()
    labels = [(named, "x", True), (named, "y", False)]
    evaluation = evaluate(truth, det, "openimages-challenge", image_labels=labels, log=log)
    assert (evaluation.join.images_both, evaluation.join.images_gt_only) == (1, ())
    assert [(c.gt, c.tp, c.fp) for c in evaluation.classes] == [(1, 1, 0), (0, 0, 1)]
    assert not any("only they name" in note for note in log.notes)


def test_labels_find_the_images_that_they_mean():
    """By the last part of the name too; what could be several images is neither of them, and no new one."""
    truth = boxes(["val/a.jpg", "x/b.jpg", "y/b.jpg"], [(0, 0, (0, 0, 10, 10))])
    joined = join(
        truth, boxes(["a"], [(0, 0, (0, 0, 10, 10), 0.5)]), image_labels=[("a", "c", True), ("b", "c", True)]
    )
    assert joined.images == truth.images.name
    assert joined.image_labels[0].tolist() == [0]


def test_labelled_images_do_not_change_the_order_of_the_others():
    truth = boxes(["a", "b"], [(0, 0, (0, 0, 10, 10))], image_ids=[2, 1])
    det = boxes(["a", "c"], [(0, 0, (0, 0, 10, 10), 0.5)])
    assert join(truth, det, image_labels=[("c", "c", False)]).images == ("b", "a", "c")


@pytest.mark.parametrize(("score", "tp"), [(0.5, 1), (1e-300, 1), (0.0, 0), (-0.5, 0)])
def test_a_group_found_with_no_score_is_not_found(score, tp):
    """As in the TensorFlow program: its best score has to be above 0. The detections in it vanish still."""
    sides = (
        boxes(["a"], [(0, 0, (0, 0, 10, 10)), (0, 0, (100, 100, 100, 100))], flags=[0, Flag.GROUP_OF]),
        boxes(["a"], [(0, 0, (110, 110, 10, 10), score), (0, 0, (130, 130, 10, 10), -1.0)]),
    )
    row = evaluate(*sides, "openimages-challenge").classes[0]
    assert (row.gt, row.tp, row.fp, row.ignored) == (2, tp, 0, 2 - tp)
    assert row.ap == tp / 2
    row = evaluate(*sides, "openimages").classes[0]
    assert (row.gt, row.tp, row.fp, row.ignored) == (1, 0, 0, 2)


# ------------------------------------------------------------------------------------------------ shards


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("only", [None, ["animal", "tree"], ["cat", "plant"]])
@pytest.mark.parametrize("labels", [None, [("b", "plant", False), ("a", "tree", True)]])
def test_shards_of_a_hierarchy_can_be_concatenated(name, only, labels):
    """Each image needs other ancestors; the classes of its matches are those of all images."""
    spot = (0, 0, 10, 10)
    names = ["dog", "cat", "tree"]
    truth = boxes("abc", [(0, 0, spot), (1, 1, spot), (2, 2, spot), (2, 2, (50, 0, 10, 10))], names)
    det = boxes(
        "abc", [(0, 0, spot, 0.9), (0, 1, spot, 0.8), (1, 1, spot, 0.7), (1, 2, spot, 0.6), (2, 2, spot, 0.5)], names
    )  # fmt: skip
    joined = join(truth, det, hierarchy=TREE, image_labels=labels, only_classes=only)
    rules = PROTOCOLS[name]
    parts = [match(joined.shard([i]), rules) for i in (2, 0, 1)]
    together = accumulate(concatenate(parts), rules).to_dict()
    whole = accumulate(match(joined, rules), rules).to_dict()
    assert together == whole
    if rules.hierarchical and only is None:
        assert [row["class"] for row in whole["classes"]] == [*names, "animal", "plant"]


@pytest.mark.parametrize("pixels", ["edges", "inclusive"])
def test_a_perfect_box_passes_an_iou_of_one(pixels):
    """An inclusive width is (right - left) + 1: (right + 1) - left is another float for many boxes."""
    ltwh = np.random.default_rng(0).uniform(1, 90, (400, 4)).round(3).tolist()
    rows = [(0, 0, box, i / 400) for i, box in enumerate(ltwh, 1)]
    sides = [boxes(["a"], [row[:n] for row in rows]) for n in (3, 4)]
    row = evaluate(*sides, "voc2012", iou=1.0, pixels=pixels).result.overall
    assert (row.tp, row.fp) == (400, 0)
