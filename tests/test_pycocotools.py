"""odm.coco does what pycocotools does: the same numbers, arrays, ids and masks, by the same calls."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

pycocotools = pytest.importorskip("pycocotools")
from pycocotools import mask as their_masks  # noqa: E402
from pycocotools.coco import COCO as THEIRS  # noqa: E402
from pycocotools.cocoeval import COCOeval as TheirEval  # noqa: E402

from odm.coco import COCO, COCOeval, mask  # noqa: E402
from odm.issues import UsageError  # noqa: E402

W, H = 120, 90
pytestmark = pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning"
)  # of pycocotools


def made(seed, kind="bbox", n_images=6, n_classes=3):
    """Random annotations and results with hits, misses, crowds and ties."""
    random = np.random.default_rng(seed)
    images = [{"id": 7 * i + 3, "file_name": f"{i}.jpg", "width": W, "height": H} for i in range(n_images)]
    categories = [{"id": 5 * c + 1, "name": f"c{c}", "supercategory": "s"} for c in range(n_classes)]
    annotations, results = [], []

    def shape_of(x, y, w, h):
        if kind == "segm":
            return {"segmentation": [[x, y, x + w, y, x + w, y + h, x + w / 3, y + h]]}
        if kind == "keypoints":
            points = np.column_stack([random.uniform(x, x + w, 17), random.uniform(y, y + h, 17)])
            seen = random.integers(0, 3, 17) * (random.random() > 0.1)
            flat = np.column_stack([points.round(1), seen]).ravel().tolist()
            return {"keypoints": flat, "num_keypoints": int(np.count_nonzero(seen))}
        return {}

    for image in images:
        for _ in range(random.integers(0, 7)):
            x, y = random.uniform(0, 60, 2).round(1)
            w, h = random.uniform(4, 55, 2).round(1)
            category = categories[random.integers(n_classes)]["id"]
            annotations.append(
                {
                    "id": len(annotations) + 1, "image_id": image["id"], "category_id": category,
                    "bbox": [x, y, w, h], "area": float(w * h * random.choice([1, 0.6])),
                    "iscrowd": int(random.random() < 0.15), **shape_of(x, y, w, h),
                }
            )  # fmt: skip
            for _ in range(random.integers(0, 3)):
                dx, dy = random.normal(0, 3, 2).round(1)
                box = [x + dx, y + dy, w, h]
                other = categories[random.integers(n_classes)]["id"] if random.random() < 0.2 else category
                result = {"image_id": image["id"], "category_id": other, "score": round(random.random(), 1)}
                if kind == "segm":
                    rle = their_masks.merge(
                        their_masks.frPyObjects(shape_of(*np.clip(box, 0, 118))["segmentation"], H, W)
                    )
                    result["segmentation"] = {"size": rle["size"], "counts": rle["counts"].decode()}
                elif kind == "keypoints":
                    flat = np.array(annotations[-1]["keypoints"]).reshape(-1, 3)
                    flat[:, :2] += random.normal(0, 2, (17, 2)).round(1)
                    result["keypoints"] = flat.ravel().tolist()
                else:
                    result["bbox"] = box
                results.append(result)
    return {"info": {}, "images": images, "categories": categories, "annotations": annotations}, results


def run(coco, evaluation, truth, results, kind, change=lambda p: None):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        gt = coco()
        gt.dataset = copy.deepcopy(truth)
        gt.createIndex()
        found = evaluation(gt, gt.loadRes(copy.deepcopy(results)), kind)
        change(found.params)
        found.evaluate()
        found.accumulate()
        out.truncate(0)
        out.seek(0)
        with contextlib.suppress(IndexError):
            found.summarize()
    return found, out.getvalue()


def usual(p):
    del p


def unusual(p):
    p.iouThrs, p.maxDets = np.array([0.3, 0.5, 0.75]), [1, 3, 100]
    p.recThrs = np.linspace(0, 1, 11)
    p.imgIds, p.catIds = p.imgIds[1:], p.catIds[:2]


def together(p):
    p.useCats = 0


def few(p):
    p.imgIds, p.maxDets = p.imgIds[::2], [1, 2, 3]


@pytest.mark.parametrize("change", [usual, unusual, together, few], ids=["usual", "other", "one", "few"])
@pytest.mark.parametrize("kind", ["bbox", "segm", "keypoints"])
def test_the_arrays_are_those_of_pycocotools(kind, change):
    if kind == "keypoints" and change is not usual:
        return  # pycocotools compares key points of single classes, and sums them up at 20 detections only
    for seed in range(4):
        truth, results = made(seed, kind)
        ours, said = run(COCO, COCOeval, truth, results, kind, change)
        theirs, expected = run(THEIRS, TheirEval, truth, results, kind, change)
        for name in ("precision", "recall", "scores"):
            np.testing.assert_allclose(ours.eval[name], theirs.eval[name], rtol=0, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(ours.stats, theirs.stats, rtol=0, atol=1e-12)
        assert said == expected
        assert ours.eval["counts"] == theirs.eval["counts"]
        assert len(ours.evalImgs) == len(theirs.evalImgs)
        for a, b in zip(ours.evalImgs, theirs.evalImgs, strict=True):
            assert (a is None) == (b is None)
            for key in b or ():
                np.testing.assert_array_equal(a[key], b[key], err_msg=key)


def test_the_usual_way_is_the_engines(monkeypatch):
    truth, results = made(1)
    ours, _ = run(COCO, COCOeval, truth, results, "bbox")
    assert ours._matches is not None
    assert ours._eval_imgs is None
    slow = ours._accumulate(ours.params, tuple(ours.eval["counts"]))
    for name in ("precision", "recall"):
        np.testing.assert_array_equal(slow[name], ours.eval[name])


@pytest.mark.parametrize(("method", "change"), [("computeIoU", 0.9), ("evaluateImg", None)])
def test_rules_of_a_subclass_are_followed(method, change):
    truth, results = made(5)

    def replaced(base):
        def of_image(self, *arguments):
            found = getattr(base, method)(self, *arguments)
            return found * change if change and len(found) else found if change else None

        return type("Own", (base,), {method: of_image})

    ours, said = run(COCO, replaced(COCOeval), truth, results, "bbox")
    theirs, expected = run(THEIRS, replaced(TheirEval), truth, results, "bbox")
    assert said == expected
    np.testing.assert_array_equal(ours.eval["precision"], theirs.eval["precision"])


def test_an_evaluation_can_be_copied_and_sent():
    ours, _ = run(COCO, COCOeval, *made(6), "bbox")
    theirs, _ = run(THEIRS, TheirEval, *made(6), "bbox")
    for held in (ours.eval, dict(ours.eval), copy.deepcopy(ours).eval, pickle.loads(pickle.dumps(ours)).eval):
        assert sorted(held) == sorted(theirs.eval)
        np.testing.assert_array_equal(dict(held.items())["scores"], theirs.eval["scores"])


@pytest.mark.parametrize("odd", [{"score": np.nan}, {"bbox": [np.nan, 3, 9, 9]}, {"bbox": [9, 9, -3, 4]}])
def test_odd_results_are_compared_as_there_with_a_warning(odd):
    truth, results = made(2)
    results[0].update(odd)
    with pytest.warns(UserWarning, match="as pycocotools does"):
        ours, _ = run(COCO, COCOeval, truth, results, "bbox")
    theirs, _ = run(THEIRS, TheirEval, truth, results, "bbox")
    np.testing.assert_allclose(ours.stats, theirs.stats, rtol=0, atol=1e-12)


def test_no_images_are_no_numbers():
    for change in (lambda p: setattr(p, "imgIds", []), lambda p: setattr(p, "catIds", [])):
        _, said = run(COCO, COCOeval, *made(2), "bbox", change)
        assert said == run(THEIRS, TheirEval, *made(2), "bbox", change)[1]


def test_results_hold_arrays_of_numpy():
    truth, results = made(2)
    expected, _ = run(COCO, COCOeval, truth, results, "bbox")
    found, _ = run(COCO, COCOeval, truth, [{**r, "bbox": np.array(r["bbox"])} for r in results], "bbox")
    np.testing.assert_array_equal(found.stats, expected.stats)


def test_sigmas_changed_in_place_are_of_one_evaluation():
    first = COCOeval(iouType="keypoints")
    first.params.kpt_oks_sigmas *= 2
    assert COCOeval(iouType="keypoints").params.kpt_oks_sigmas[0] < 0.03


def test_results_of_several_processes_are_put_together():
    """As torchvision's references do it: matches of parts of the images, accumulated as one."""
    truth, results = made(2)
    whole, _ = run(COCO, COCOeval, truth, results, "bbox")
    ids = [image["id"] for image in truth["images"]]
    parts = []
    for some in (ids[:3], ids[3:]):
        part, _ = run(COCO, COCOeval, truth, results, "bbox", lambda p, some=some: setattr(p, "imgIds", some))
        shape = -1, len(part.params.areaRng), len(part.params.imgIds)
        parts.append(np.asarray(part.evalImgs).reshape(shape))
    merged = COCOeval(whole.cocoGt, whole.cocoDt, "bbox")
    merged.params.imgIds = ids
    merged.evalImgs = list(np.concatenate(parts, 2).ravel())
    merged._paramsEval = copy.deepcopy(merged.params)
    merged.accumulate()
    np.testing.assert_allclose(merged.eval["precision"], whole.eval["precision"], atol=1e-12)


def test_questions_are_answered_alike(tmp_path):
    truth, results = made(3, "segm")
    file, res = tmp_path / "gt.json", tmp_path / "res.json"
    file.write_text(json.dumps(truth))
    res.write_text(json.dumps(results))
    with contextlib.redirect_stdout(io.StringIO()):
        theirs = THEIRS(str(file))
        their_results = theirs.loadRes(str(res))
    ours = COCO(str(file))
    for name, arguments in [
        ("getAnnIds", {}), ("getAnnIds", {"imgIds": 3}), ("getAnnIds", {"imgIds": [3, 10], "catIds": [1]}),
        ("getAnnIds", {"areaRng": [100, 900], "iscrowd": False}), ("getCatIds", {}),
        ("getCatIds", {"catNms": ["c1"]}), ("getCatIds", {"supNms": "s", "catIds": [1, 6]}),
        ("loadAnns", {"ids": [1, 2]}), ("loadCats", {"ids": 1}), ("loadImgs", {"ids": [3]}),
    ]:  # fmt: skip
        assert getattr(ours, name)(**arguments) == getattr(theirs, name)(**arguments)
    assert sorted(ours.getImgIds(catIds=[1, 6])) == sorted(theirs.getImgIds(catIds=[1, 6]))
    assert ours.imgToAnns == theirs.imgToAnns
    assert ours.catToImgs == theirs.catToImgs
    our_results = ours.loadRes(str(res))
    for a, b in zip(our_results.dataset["annotations"], their_results.dataset["annotations"], strict=True):
        assert (a["id"], a["area"], a["iscrowd"]) == (b["id"], b["area"], b["iscrowd"])
        np.testing.assert_array_equal(a["bbox"], b["bbox"])
    for record in ours.anns.values():
        np.testing.assert_array_equal(ours.annToMask(record), theirs.annToMask(record))
        assert ours.annToRLE(record) == theirs.annToRLE(record)
    boxes = np.array([[3, 1, 2, 30, 20, 0.5, 1], [10, 5, 5, 9, 9, 0.25, 6]])
    a, b = (side.loadNumpyAnnotations(boxes) for side in (ours, theirs))
    assert [{**r, "bbox": list(r["bbox"])} for r in a] == [{**r, "bbox": list(r["bbox"])} for r in b]
    for refused in (ours.showAnns, ours.download):
        with pytest.raises(UsageError, match="not part of odm"):
            refused([])
    with pytest.raises(UsageError, match="that the annotations lack"):
        ours.loadRes([{"image_id": 4, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 1}])


def test_masks_are_those_of_pycocotools():
    random = np.random.default_rng(0)
    many = np.asfortranarray((random.random((20, 30, 4)) > 0.6).astype(np.uint8))
    ours, theirs = mask.encode(many), their_masks.encode(many)
    assert ours == theirs
    assert mask.encode(many[:, :, 0]) == their_masks.encode(np.asfortranarray(many[:, :, 0]))
    np.testing.assert_array_equal(mask.decode(theirs), their_masks.decode(theirs))
    np.testing.assert_array_equal(mask.area(theirs), their_masks.area(theirs))
    np.testing.assert_array_equal(mask.toBbox(theirs), their_masks.toBbox(theirs))
    np.testing.assert_array_equal(
        mask.iou(theirs, theirs, [0, 1, 0, 1]), their_masks.iou(theirs, theirs, [0, 1, 0, 1])
    )
    for intersect in (False, True):
        assert mask.merge(theirs, intersect) == their_masks.merge(theirs, intersect)
    outline = [[1.5, 2, 20, 3, 18, 17.25, 4, 12]]
    runs = {"size": [20, 30], "counts": [5, 10, 585]}
    for value in (outline, [runs], runs, np.array([[2.0, 3, 10, 8]])):
        assert mask.frPyObjects(value, 20, 30) == their_masks.frPyObjects(value, 20, 30)
    boxes = np.column_stack([random.random((5, 2)) * 9, random.random((5, 2)) * 9])
    np.testing.assert_array_equal(
        mask.iou(boxes, boxes, [0, 1, 0, 0, 1]), their_masks.iou(boxes, boxes, [0, 1, 0, 0, 1])
    )


def test_it_takes_the_place_of_pycocotools(tmp_path):
    truth, results = made(4)
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    (tmp_path / "res.json").write_text(json.dumps(results))
    script = """
import odm.coco
odm.coco.install()
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval, Params
import pycocotools.mask as mask_utils
from importlib.util import find_spec
assert find_spec("pycocotools") and find_spec("pycocotools.mask")
gt = COCO("gt.json")
e = COCOeval(gt, gt.loadRes("res.json"), "bbox")
e.evaluate(); e.accumulate(); e.summarize()
print(COCO.__module__, mask_utils.__name__, len(e.stats))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    *table, last = done.stdout.splitlines()
    assert last == "odm.coco.annotations odm.coco.mask 12"
    assert len(table) == 12


def test_what_is_wrong_is_said(tmp_path):
    (tmp_path / "bad.json").write_text("{")
    for call in (
        lambda: COCO(str(tmp_path / "bad.json")),
        lambda: COCOeval(iouType="boundary"),
        lambda: COCOeval().accumulate(),
        lambda: COCOeval().summarize(),
        lambda: COCO().loadRes({}),
        lambda: COCOeval(COCO()).evaluate(),
        lambda: mask.iou([[0, 0, 1, 1]], [[0, 0, 1, 1]] * 2, [0]),
    ):
        with pytest.raises(UsageError):
            call()
