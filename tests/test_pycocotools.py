"""odm.coco does what pycocotools does: the same numbers, arrays, ids and masks, by the same calls."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import pickle
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

pycocotools = pytest.importorskip("pycocotools")
from pycocotools import _mask as their_c  # noqa: E402
from pycocotools import mask as their_masks  # noqa: E402
from pycocotools.coco import COCO as THEIRS  # noqa: E402
from pycocotools.cocoeval import COCOeval as TheirEval  # noqa: E402

from odm.coco import COCO, COCOeval, mask  # noqa: E402
from odm.issues import UsageError  # noqa: E402

W, H = 120, 90
pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # of pycocotools
    pytest.mark.filterwarnings("ignore:AP is -1"),
]


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


CHANGES = {"usual": usual, "other": unusual, "one": together, "few": few}
ARRAYS = [(kind, change) for kind in ("bbox", "segm") for change in CHANGES]


# pycocotools compares keypoints of single classes, and sums them up at 20 detections only
@pytest.mark.parametrize(("kind", "change"), [*ARRAYS, ("keypoints", "usual")])
def test_the_arrays_are_those_of_pycocotools(kind, change):
    change = CHANGES[change]
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
    for name in ("precision", "recall", "scores"):
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
    with pytest.raises(UsageError, match="not part of odm"):
        ours.download()
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
    assert len([line for line in table if line.startswith(" Average")]) == 12


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


# ------------------------------------------------------------------------- what programs do with the objects

OURS = SimpleNamespace(COCO=COCO, COCOeval=COCOeval, mask=mask, c=mask)
THEIRS_ALL = SimpleNamespace(COCO=THEIRS, COCOeval=TheirEval, mask=their_masks, c=their_c)


def evaluated(lib, kind="bbox", seed=2, change=lambda p: None, edit=lambda truth, results: None, base=None):
    truth, results = made(seed, kind)
    edit(truth, results)
    gt = lib.COCO()
    gt.dataset = truth
    gt.createIndex()
    evaluation = (base or lib.COCOeval)(gt, gt.loadRes(results), kind)
    change(evaluation.params)
    evaluation.evaluate()
    return evaluation


def numbers(evaluation):
    evaluation.accumulate()
    with contextlib.suppress(IndexError):
        evaluation.summarize()
    return (
        evaluation.eval["precision"],
        evaluation.eval["recall"],
        evaluation.eval["scores"],
        evaluation.stats,
    )


def assert_same(a, b):
    """Both hold the same numbers, texts and bytes; None is where None is."""
    if isinstance(b, dict):
        assert sorted(a) == sorted(b)
        for key in b:
            assert_same(a[key], b[key])
    elif isinstance(b, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(b, (str, bytes, type(None))):
        assert a == b
    else:
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


def own_evaluation(e, kind):
    """The evaluation loop that DETR, torchvision and detectron2 bring along."""
    p = e.params
    p.imgIds, p.catIds, p.maxDets = list(np.unique(p.imgIds)), list(np.unique(p.catIds)), sorted(p.maxDets)
    e._prepare()
    overlaps = e.computeOks if kind == "keypoints" else e.computeIoU
    e.ious = {(i, c): overlaps(i, c) for i in p.imgIds for c in p.catIds}
    found = [e.evaluateImg(i, c, a, p.maxDets[-1]) for c in p.catIds for a in p.areaRng for i in p.imgIds]
    e.evalImgs, e._paramsEval = found, copy.deepcopy(p)
    return found, numbers(e)


def images_in_two_parts(lib, kind):
    e = evaluated(lib, kind)
    ids = e.params.imgIds
    found = []
    for part in (ids[:3], ids[3:]):
        e.params.imgIds = part
        found.append(own_evaluation(e, kind))
    return found


def removed_images(lib):
    e = evaluated(lib)
    for i in range(0, len(e.evalImgs), 3):
        e.evalImgs[i] = None
    return numbers(e)


def ignored_detections(lib):
    e = evaluated(lib)
    for record in e.evalImgs[::2]:
        if record is not None:
            record["dtIgnore"][:] = True
    return numbers(e)


def cut_after_accumulating(lib):
    e = evaluated(lib)
    first = numbers(e)
    images = e.evalImgs
    images[::4] = [None] * len(images[::4])
    return first, numbers(e), e.evalImgs


def changed_overlaps(lib):
    e = evaluated(lib)
    for key in e.ious:
        e.ious[key] = []
    return e.evalImgs, numbers(e)


def two_kinds_of_one_truth(lib):
    truth, results = made(5, "keypoints")
    truth["annotations"][0]["num_keypoints"] = 0
    gt = lib.COCO()
    gt.dataset = truth
    gt.createIndex()
    first = lib.COCOeval(gt, gt.loadRes(copy.deepcopy(results)), "bbox")
    first.evaluate()
    second = lib.COCOeval(gt, gt.loadRes(results), "keypoints")
    second.evaluate()
    return first.evalImgs, numbers(first), second.evalImgs, numbers(second)


def without_boxes(truth, results):
    for record in (*truth["annotations"], *results):
        record.pop("bbox", None)


def segm_without_boxes(lib):
    e = evaluated(lib, "segm", edit=without_boxes)
    return numbers(e), e.evalImgs


def boxes_by_use_segm(lib, use):
    e = evaluated(lib, "segm", change=lambda p: setattr(p, "useSegm", use))
    return numbers(e), e.params.iouType


def classes_as_one(lib, kind, ids):
    def change(p):
        p.useCats, p.catIds = 0, ids

    return numbers(evaluated(lib, kind, change=change))


def other_counts_of_points(truth, results):
    del results
    for i, record in enumerate(truth["annotations"]):
        record["num_keypoints"] = (0, 17, record["num_keypoints"])[i % 3]


def counted_points(lib):
    e = evaluated(lib, "keypoints", seed=5, edit=other_counts_of_points)
    return numbers(e), e.evalImgs


def crowds_of_two(truth, results):
    del results
    for record in truth["annotations"]:
        record["iscrowd"] *= 2


def with_angles(truth, results):
    for record in (*truth["annotations"], *results):
        record["bbox"] = [*record["bbox"], 30.0]


def rotated(lib):
    class Rotated(lib.COCOeval):
        def computeIoU(self, image, category):  # noqa: N802
            gt, dt = self._gts[image, category], self._dts[image, category]
            order = np.argsort([-d["score"] for d in dt], kind="mergesort")
            boxes = [[dt[i]["bbox"][:4] for i in order], [g["bbox"][:4] for g in gt]]
            return lib.mask.iou(*boxes, [0] * len(gt)) if gt and dt else []

    return numbers(evaluated(lib, edit=with_angles, base=Rotated))


def masks_of_a_subclass(lib):
    class Swapped(lib.COCOeval):
        def computeIoU(self, image, category):  # noqa: N802
            gt, dt = self._gts[image, category], self._dts[image, category]
            order = np.argsort([-d["score"] for d in dt], kind="mergesort")
            sides = [[dt[i]["segmentation"] for i in order], [g["segmentation"] for g in gt]]
            return lib.mask.iou(*sides, [0] * len(gt)) if gt and dt else []

    e = evaluated(lib, "segm", base=Swapped)
    return numbers(e), [record["segmentation"] for record in e.cocoGt.dataset["annotations"]]


def odd_outlines(truth, results):
    del results
    for record in truth["annotations"]:
        record["segmentation"][0].append(7.5)


def other_parameters_afterwards(lib):
    e = evaluated(lib)
    e.params.iouThrs, e.params.maxDets = np.array([0.5, 0.6]), [1]
    image, category = e.params.imgIds[1], e.params.catIds[0]
    found = e.evaluateImg(image, category, [0, 1e10], 5), e.computeIoU(image, category)
    e.params.maxDets = [1, 10, 100]
    return found, e.evalImgs, e.ious


def masks_of_two_sizes(lib):
    random = np.random.default_rng(3)
    sizes = [(9, 12), (9, 12), (12, 9), (20, 20)]
    rles = [
        lib.mask.encode(np.asfortranarray((random.random(size) > 0.6).astype(np.uint8))) for size in sizes
    ]
    corner = np.zeros((9, 12), np.uint8, order="F")
    corner[0, 0] = 1
    rles.append(lib.mask.encode(corner))
    merged = [
        lib.mask.merge(rles),
        lib.mask.merge(rles[:2], True),
        lib.mask.merge(rles[:1]),
        lib.mask.merge([]),
    ]
    return lib.mask.iou(rles, rles[::-1], [0, 1, 0, 1, 0]), merged


def python_objects(lib):
    outline, runs = [1.5, 2, 20, 3, 18, 17.25, 4, 12], {"size": [20, 30], "counts": [5, 10, 585]}
    values = [
        [outline, [3, 3, 9, 3, 9, 9, 5]], np.array([[2.0, 3, 10, 8], [1, 1, 4, 4]]), np.array([[2.0, 3, 10, 8]]), [runs],
        runs, {"size": [20, 30], "counts": [0, 0, 7, 593]}, {"size": [4, 4], "counts": [2, 3]},
    ]  # fmt: skip
    return [lib.mask.frPyObjects(value, 20, 30) for value in values]


def functions_in_c(lib):
    c = lib.c
    outline, runs = [1.5, 2, 20, 3, 18, 17.25, 4, 12], {"size": [20, 30], "counts": [5, 10, 585]}
    found = [*c.frPoly([outline], 20, 30), *c.frBbox(np.array([[2.0, 3, 10, 8]]), 20, 30)]
    found += c.frUncompressedRLE([runs], 20, 30)
    return (
        found,
        c._toString(c._frString(found)),
        c.merge(found),
        c.area(found),
        c.toBbox(found),
        c.decode(found),
    )


def arrays(lib, kind):
    e = evaluated(lib, kind)
    numbers(e)
    layout = [e.eval[name].flags["C_CONTIGUOUS"] for name in ("precision", "recall", "scores")]
    return type(e.eval).__name__, layout, list(e.eval["counts"])


IDIOMS = {
    "in-parts-bbox": lambda lib: images_in_two_parts(lib, "bbox"),
    "in-parts-segm": lambda lib: images_in_two_parts(lib, "segm"),
    "in-parts-keypoints": lambda lib: images_in_two_parts(lib, "keypoints"),
    "removed-images": removed_images,
    "ignored-detections": ignored_detections,
    "cut-after-accumulating": cut_after_accumulating,
    "changed-overlaps": changed_overlaps,
    "two-kinds": two_kinds_of_one_truth,
    "segm-without-boxes": segm_without_boxes,
    "use-segm-0": lambda lib: boxes_by_use_segm(lib, 0),
    "use-segm-1": lambda lib: boxes_by_use_segm(lib, 1),
    "as-one-of-two": lambda lib: classes_as_one(lib, "bbox", [1, 6]),
    "as-one-of-one": lambda lib: classes_as_one(lib, "bbox", [6]),
    "as-one-masks": lambda lib: classes_as_one(lib, "segm", [11, 1]),
    "as-one-twice": lambda lib: classes_as_one(lib, "bbox", [6, 6]),
    "counted-points": counted_points,
    "crowds-of-two-bbox": lambda lib: numbers(evaluated(lib, edit=crowds_of_two)),
    "crowds-of-two-segm": lambda lib: numbers(evaluated(lib, "segm", edit=crowds_of_two)),
    "crowds-of-two-keypoints": lambda lib: numbers(evaluated(lib, "keypoints", edit=crowds_of_two)),
    "rotated": rotated,
    "masks-of-a-subclass": masks_of_a_subclass,
    "odd-outlines": lambda lib: numbers(evaluated(lib, "segm", edit=odd_outlines)),
    "other-parameters": other_parameters_afterwards,
    "masks-of-two-sizes": masks_of_two_sizes,
    "python-objects": python_objects,
    "functions-in-c": functions_in_c,
    "arrays-bbox": lambda lib: arrays(lib, "bbox"),
    "arrays-segm": lambda lib: arrays(lib, "segm"),
    "no-areas": lambda lib: numbers(
        evaluated(lib, change=lambda p: (p.areaRng.clear(), p.areaRngLbl.clear()))
    ),
}


@pytest.mark.parametrize("edit", [lambda t, r: None, other_counts_of_points], ids=["usual", "other"])
def test_eval_ignores_objects_by_their_number_of_points(edit, tmp_path):
    import odm

    truth, results = made(5, "keypoints")
    edit(truth, results)
    for i, image in enumerate(truth["images"]):
        image["file_name"] = f"{i}.jpg"
    theirs, _ = run(THEIRS, TheirEval, truth, results, "keypoints")
    files = (
        written(tmp_path / "gt.json", json.dumps(truth)),
        written(tmp_path / "res.json", json.dumps(results)),
    )
    summary = odm.eval(*files, "coco", iou_type="keypoints").summary
    values = np.nan_to_num([*summary.values()], nan=-1)
    np.testing.assert_allclose(values, theirs.stats, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", IDIOMS)
def test_programs_get_the_same(name):
    ours, theirs = IDIOMS[name](OURS), IDIOMS[name](THEIRS_ALL)
    assert_same(ours, theirs)


def test_the_same_lines_are_printed(tmp_path):
    truth, results = made(3)
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    (tmp_path / "res.json").write_text(json.dumps(results))
    printed = []
    for lib in (OURS, THEIRS_ALL):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            gt = lib.COCO(str(tmp_path / "gt.json"))
            gt.loadNumpyAnnotations(np.zeros((2, 7)))
            gt.showAnns([{"caption": "a dog"}])
            e = lib.COCOeval(gt, gt.loadRes(str(tmp_path / "res.json")), "segm")
            e.params.useSegm = 0
            e.evaluate()
            e.accumulate()
            e.summarize()
        printed.append(re.sub(r"t=[\d.]+s", "t", out.getvalue()))
    assert printed[0] == printed[1]


def written(path, text):
    path.write_text(text)
    return str(path)


REFUSED = {
    "missing": lambda lib, path: lib.COCO(str(path / "none.json")),
    "no-json": lambda lib, path: lib.COCO(written(path / "a.json", '{"a": ')),
    "list": lambda lib, path: lib.COCO(written(path / "b.json", "[]")),
    "no-list": lambda lib, path: lib.COCO(annotated(path)).loadRes({}),
    "unknown-image": lambda lib, path: lib.COCO(annotated(path)).loadRes(
        [{"image_id": 99, "bbox": [1, 2, 3, 4]}]
    ),
    "columns": lambda lib, path: lib.COCO(annotated(path)).loadRes(np.zeros((2, 6))),
    "five-numbers": lambda lib, path: evaluated(lib, edit=with_angles),
    "kind": lambda lib, path: lib.COCOeval(iouType="boundary"),
    "not-accumulated": lambda lib, path: evaluated(lib).summarize(),
    "area": lambda lib, path: evaluated(lib, edit=lambda t, r: [a.pop("area") for a in t["annotations"]]),
    "iscrowd": lambda lib, path: evaluated(
        lib, edit=lambda t, r: [a.pop("iscrowd") for a in t["annotations"]]
    ),
    "num_keypoints": lambda lib, path: evaluated(
        lib, "keypoints", edit=lambda t, r: [a.pop("num_keypoints") for a in t["annotations"]]
    ),
}


def annotated(path):
    return written(path / "gt.json", json.dumps(made(1)[0]))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_caught_as_there(name, tmp_path):
    raised = []
    for lib in (OURS, THEIRS_ALL):
        with pytest.raises(Exception) as caught:
            REFUSED[name](lib, tmp_path)
        raised.append(caught.value)
    ours, theirs = raised
    assert isinstance(ours, type(theirs))


def test_files_hold_nan_as_python_writes_it(tmp_path):
    truth, results = made(2)
    truth["info"] = {"a": float("inf")}
    results[0]["score"] = float("nan")
    file, res = (
        written(tmp_path / "a.json", json.dumps(truth)),
        written(tmp_path / "b.json", json.dumps(results)),
    )
    ours, theirs = (coco(file).loadRes(res) for coco in (COCO, THEIRS))
    assert ours.dataset["info"] == theirs.dataset["info"]
    assert np.isnan([side.anns[1]["score"] for side in (ours, theirs)]).all()


@pytest.mark.parametrize(
    ("match", "edit", "change"),
    [
        ("id 0", lambda t, r: t["annotations"][0].update(id=0), usual),
        ("no 100", lambda t, r: None, lambda p: setattr(p, "maxDets", [1, 10, 50])),
    ],
)
def test_odd_numbers_of_pycocotools_come_with_a_warning(match, edit, change):
    with pytest.warns(UserWarning, match=match):
        ours = numbers(evaluated(OURS, edit=edit, change=change))
    assert_same(ours, numbers(evaluated(THEIRS_ALL, edit=edit, change=change)))


@pytest.mark.parametrize("kind", ["segm", "rle", "keypoints"])
def test_annotations_are_drawn(kind):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    drawn = []
    for lib in (OURS, THEIRS_ALL):
        truth, _ = made(5, "segm" if kind == "rle" else kind)
        for category in truth["categories"]:
            category["skeleton"] = [[1, 2], [2, 3], [16, 17]]
        gt = lib.COCO()
        gt.dataset = truth
        gt.createIndex()
        if kind == "rle":
            for record in truth["annotations"]:
                record["segmentation"] = gt.annToRLE(record)
        axes = plt.figure().gca()
        assert gt.showAnns([]) == 0
        gt.showAnns(truth["annotations"][:4], draw_bbox=True)
        paths = [path.vertices for collection in axes.collections for path in collection.get_paths()]
        lines = [line.get_xydata() for line in axes.lines]
        layers = [np.asarray(image.get_array())[..., 3] for image in axes.images]
        drawn.append((paths, sorted(map(str, lines)), layers))
        plt.close()
    assert_same(*drawn)
    assert drawn[0][0]


def test_many_large_masks_are_merged_by_their_runs():
    import tracemalloc

    random = np.random.default_rng(1)
    boxes = np.column_stack([random.uniform(0, 3000, (200, 2)), random.uniform(50, 900, (200, 2))])
    rles = mask.frPyObjects(boxes, 3000, 4000)
    tracemalloc.start()
    merged = mask.merge(rles)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6
    assert merged == their_masks.merge(rles)
    wide = {"size": [2**15, 2**15], "counts": [2**29, 5, 2**29 - 5]}
    assert mask.frPyObjects(wide, *wide["size"]) == their_masks.frPyObjects(wide, *wide["size"])


def test_differences_that_stay_are_as_the_page_says():
    e = evaluated(OURS)
    whole = numbers(e)
    e.params.catIds, e.params.areaRng = [6], [e.params.areaRng[2], [7, 8]]
    e.params.areaRngLbl = ["medium", "odd"]
    e.accumulate()
    np.testing.assert_array_equal(e.eval["precision"][..., 0, 0, :], whole[0][..., 1, 2, :])
    assert (e.eval["precision"][..., 1, :] == -1).all()
    assert e.cocoGt.getCatIds(catNms="c1c2") == []
    row = np.array([[3, 0, 0, 10.1, 10.1, 0.5, 1]], np.float32)
    ours, theirs = (evaluated(lib).cocoGt.loadRes(row).anns[1]["area"] for lib in (OURS, THEIRS_ALL))
    assert ours == float(np.float32(10.1)) ** 2 != float(theirs)
    nothing = COCOeval(e.cocoGt, e.cocoGt.loadRes([]), "bbox")
    nothing.params.maxDets = [100]
    nothing.evaluate()
    numbers(nothing)
    assert nothing.stats[0] == 0
    with pytest.raises(ValueError, match="its runs have 5 pixels"):
        mask.decode({"size": [4, 4], "counts": b"23"})


@pytest.mark.parametrize("sides", [(), ("truth",), ("results",)])
def test_an_evaluation_without_both_sides_is_refused(sides):
    truth = COCO()
    truth.dataset = {"images": [{"id": 1}], "categories": [{"id": 1, "name": "x"}], "annotations": []}
    truth.createIndex()
    first, second = (truth if side in sides else None for side in ("truth", "results"))
    with pytest.raises(UsageError, match="needs annotations and results"):
        COCOeval(first, second, "bbox").evaluate()


@pytest.mark.parametrize("iou_type", ["bbox", "segm", "keypoints"])
@pytest.mark.parametrize("method", ["", "setDetParams", "setKpParams"])
def test_parameters_that_are_set_anew_are_those_of_pycocotools(iou_type, method):
    both = []
    for module in (sys.modules[TheirEval.__module__], sys.modules[COCOeval.__module__]):
        params = module.Params(iou_type)
        params.catIds, params.maxDets, params.iouThrs = [3], [7], [0.5]
        if method:
            getattr(params, method)()
        both.append({key: np.asarray(value).tolist() for key, value in vars(params).items()})
    assert both[1] == both[0]
