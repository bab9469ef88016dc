"""Masks, keypoints and oriented boxes: known answers, and random scenes against pycocotools and shapely."""

import contextlib
import io
import itertools
import json
import math

import numpy as np
import pytest
from msgspec.structs import replace
from selection import SLOW, examples

import odm
from odm import masks
from odm.evaluate import PROTOCOLS, evaluate, join, resolve
from odm.evaluate.matching import shapes as matching_shapes
from odm.evaluate.matching.ready import adapt_to_shapes
from odm.evaluate.matching.shapes import find_shape_pairs
from odm.issues import DataError, Log, UsageError
from odm.masks import polygons
from odm.tables import Dataset, Flag
from odm.tables.shapes import rectangle_corners

SEGM = ["AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"]
POINTS = ["AP", "AP50", "AP75", "APm", "APl", "AR20", "AR20@50", "AR20@75", "ARm", "ARl"]


def corners(text):
    return np.array([[float(v) for v in pair.split(",")] for pair in text.split()])


def side(boxes, images=1, classes=("a",), size=None, **shapes):
    """A dataset of rows (image, class, ltwh[, score])."""
    columns = list(zip(*(row[:3] for row in boxes), strict=True)) or [(), (), np.zeros((0, 4))]
    height, width = size or (0, 0)
    return Dataset.from_arrays(
        images=[f"{i}.jpg" for i in range(images)], categories=classes,
        image=columns[0], category=columns[1], ltwh=columns[2],
        score=[row[3] for row in boxes] if boxes and len(boxes[0]) > 3 else None,
        height=[height] * images, width=[width] * images, **shapes,
    )  # fmt: skip


def same(found, expected, tolerance=1e-12):
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, abs=tolerance, nan_ok=True), (key, dict(found))


L = corners("5,5 25,5 25,15 15,15 15,25 5,25")
SQUARE = corners("5,5 25,5 25,25 5,25")


def test_masks_of_an_angle_and_a_square():
    box = [5, 5, 20, 20]
    gt = side([(0, 0, box)], size=(40, 40), polygons=[[L]], area=[300])
    both = [masks.rasterise([outline], 40, 40) for outline in (SQUARE, L)]
    assert both[0]["counts"] == "]6d0d00000000000000000000000000000000000000cb0"
    det = side([(0, 0, box, 0.9), (0, 0, box, 0.8)], size=(40, 40), masks=both)
    found = evaluate(gt, det, "coco", iou_type="segm").summary
    same(found, {"AP": 0.8, "AP50": 1, "AP75": 1, "APs": 0.8, "APm": math.nan, "AR1": 0.6, "AR10": 1})
    same(evaluate(gt, det, "coco").summary, {"AP": 1})


def test_a_crowd_of_pixels():
    square = np.zeros((40, 40), bool)
    square[20:, 20:] = True
    gt = side(
        [(0, 0, [5, 5, 20, 20]), (0, 0, [20, 20, 20, 20])], size=(40, 40),
        masks=[masks.rasterise([L], 40, 40), masks.encode(square)], area=[300, 400], flags=[0, Flag.CROWD],
    )  # fmt: skip
    drawn = [SQUARE, corners("22,22 30,22 30,30 22,30"), corners("10,30 18,30 18,38 10,38")]
    rows = [(0, 0, [*o.min(0), *np.ptp(o, axis=0)], s) for o, s in zip(drawn, (0.5, 0.9, 0.8), strict=True)]
    det = side(rows, size=(40, 40), polygons=[[o] for o in drawn], area=[400, 64, 64])
    same(evaluate(gt, det, "coco", iou_type="segm").summary, {"AP": 0.3, "AP50": 0.5, "AR1": 0, "AR10": 0.6})


@pytest.mark.parametrize("crowded", range(3))
def test_crowds_are_ignored_on_any_of_the_images_that_are_measured_together(crowded, monkeypatch):
    rows = [(i, 0, [5, 5, 20, 20]) for i in range(3)]
    inside = (crowded, 0, [22, 22, 8, 8])
    gt = side([*rows, (crowded, 0, [20, 20, 20, 20])], 3, size=(40, 40), area=[400] * 4, flags=[0, 0, 0, Flag.CROWD],
              polygons=[[SQUARE]] * 3 + [[corners("20,20 40,20 40,40 20,40")]])  # fmt: skip
    det = side([(*row, 0.5) for row in rows] + [(*inside, 0.9)], 3, size=(40, 40),
               polygons=[[SQUARE]] * 3 + [[corners("22,22 30,22 30,30 22,30")]])  # fmt: skip
    for size in (matching_shapes.BYTES_AT_A_TIME, 1):
        monkeypatch.setattr(matching_shapes, "BYTES_AT_A_TIME", size)
        same(evaluate(gt, det, "coco", iou_type="segm").summary, {"AP": 1, "AR100": 1})


@pytest.mark.parametrize("iou_type", ["segm", "boundary", "obb"])
def test_a_side_without_boxes_has_no_shapes(iou_type):
    boxes = [(0, 0, [5, 5, 20, 20], 0.5)]
    kind = {"oriented": SQUARE[None]} if iou_type == "obb" else {"polygons": [[SQUARE]]}
    gt, det = side([row[:3] for row in boxes], size=(40, 40), **kind), side(boxes, size=(40, 40), **kind)
    none = side([], size=(40, 40))
    nothing = Dataset.from_arrays(images=none.images.name, categories=("a",), image=[], category=[],
                                  ltwh=np.zeros((0, 4)), score=[], height=[40], width=[40])  # fmt: skip
    same(evaluate(gt, nothing, "coco", iou_type=iou_type).summary, {"AP": 0})
    same(evaluate(none, det, "coco", iou_type=iou_type).summary, {"AP": math.nan})


@pytest.mark.parametrize(("area", "small"), [(None, 1), (630, 0.5)])
def test_areas_of_detections_are_those_of_their_boxes_unless_given(area, small):
    gt = side([(0, 0, [2, 2, 36, 36])], size=(40, 40), polygons=[[corners("2,2 38,2 2,38")]], area=[648])
    drawn = [corners("2,2 38,2 2,38"), corners("38,38 38,3 3,38")]
    det = side(
        [(0, 0, [2, 2, 36, 36], 0.5), (0, 0, [3, 3, 35, 35], 0.9)], size=(40, 40),
        polygons=[[o] for o in drawn], area=None if area is None else [area] * 2,
    )  # fmt: skip
    log = Log()
    found = evaluate(gt, det, "coco", iou_type="segm", log=log).summary
    same(found, {"AP": 0.5, "APs": small})
    assert any("Detectron2" in note for note in log.notes) == (area is None)


K1_GT = [[[10, 10, 2], [20, 10, 1], [0, 0, 0]], np.zeros((3, 3))]
K1_DET = ["10,12 20,10 15,15", "10,10 20,10 15,15", "45,60 70,70 90,105"]


def test_key_points_of_three(tmp_path):
    gt = side([(0, 0, [5, 5, 20, 20]), (0, 0, [60, 60, 20, 20])], keypoints=K1_GT, area=[100, 2000])
    points = [np.c_[corners(t), np.ones(3)] for t in K1_DET]
    rows = [
        (0, 0, [*p[:, :2].min(0), *np.ptp(p[:, :2], axis=0)], s)
        for p, s in zip(points, (0.9, 0.8, 0.95), strict=True)
    ]
    det = side(rows, keypoints=points)
    found = evaluate(gt, det, "coco", iou_type="keypoints", sigmas=[0.1] * 3)
    same(found.summary, {"AP": 0.85, "AP50": 1, "AP75": 1, "APm": math.nan, "AR20": 1})
    assert list(found.summary) == POINTS
    assert "OKS, sigmas 0.1 each" in found.result.definition
    with pytest.raises(UsageError, match="3 are needed"):
        evaluate(gt, det, "coco", iou_type="keypoints")
    with pytest.raises(UsageError, match="3 are needed"):
        evaluate(gt, det, "coco", iou_type="keypoints", sigmas=[0.1] * 4)
    (tmp_path / "json.txt").write_text("[0.1,\n 0.1, 0.1]\n", encoding="utf-8")
    (tmp_path / "one.txt").write_text("0.1\n", encoding="utf-8")
    for sigmas in (
        0.1,
        "0.1",
        [0.1],
        "[0.1, 0.1, 0.1]",
        str(tmp_path / "json.txt"),
        str(tmp_path / "one.txt"),
    ):
        again = odm.eval(gt, det, "coco", iou_type="keypoints", sigmas=sigmas).result
        assert (again.summary, again.definition) == (found.summary, found.result.definition)


def test_oriented_boxes_of_half_the_size():
    gt = side([(0, 0, [0, 0, 10, 10])], oriented=[corners("0,0 10,0 10,10 0,10")])
    det = side([(0, 0, [0, 0, 10, 5], 0.9)], oriented=[corners("0,0 10,0 10,5 0,5")])
    dota, coco = evaluate(gt, det, ["dota", "coco"], iou_type="obb").results
    assert dota.summary["mAP"] == 0
    same(coco.summary, {"AP50": 1})
    assert "IoU > 0.5; oriented boxes" in dota.definition
    assert dota.to_dict()["iou_type"] == "obb"


O4_GT = [
    (0, 0, "74.3,81.58 131.62,99.31 125.7,118.42 68.38,100.69"),
    (0, 0, "170.87,118.82 214.75,94.85 229.13,121.18 185.25,145.15"),
    (2, 0, "284.37,176.43 323.57,184.37 315.63,223.57 276.43,215.63"),
    (1, 1, "146.69,108.37 175.68,182.93 153.31,191.63 124.32,117.07"),
]
O4_DET = [
    (0, 0, "79.15,80.03 133.01,101.54 124.85,121.97 70.99,100.46", 0.9),
    (0, 0, "177.52,116.27 226.52,106.33 232.48,135.73 183.48,145.67", 0.8),
    (0, 0, "73.3,81.58 130.62,99.31 124.7,118.42 67.38,100.69", 0.7),
    (1, 1, "141.97,111.58 176.28,188.25 158.03,196.42 123.72,119.75", 0.6),
    (2, 0, "304.42,174.58 331.78,209.04 303.58,231.42 276.22,196.96", 0.5),
    (2, 1, O4_GT[2][2], 0.4),
]


def oriented_side(rows, **more):
    drawn = np.array([corners(row[2]) for row in rows])
    around = [[*q.min(axis=0), *np.ptp(q, axis=0)] for q in drawn]
    boxes = [(*row[:2], box, *row[3:]) for row, box in zip(rows, around, strict=True)]
    return side(boxes, images=3, classes=("a", "b"), oriented=drawn, **more)


def test_prob_iou_as_yolo_val():
    found = evaluate(oriented_side(O4_GT), oriented_side(O4_DET), "ultralytics", iou_type="obb").summary
    expected = {"P": 0.801614, "R": 0.958709, "mAP50": 0.953750, "mAP75": 0.747500, "mAP50-95": 0.644833}
    same(found, expected, 1e-6)


def test_known_overlaps_of_oriented_boxes():
    rows = [
        ([0, 0, 10, 10, 0], [0, 0, 10, 10, math.pi / 4], math.sqrt(0.5), 0.99953181),
        ([50, 50, 10, 10, 0], [55, 50, 10, 10, 0], 1 / 3, 0.44079447),
        ([50, 50, 40, 10, 0.1], [52, 51, 38, 11, 0.3], 0.6368504934, 0.74561644),
        ([50, 50, 40, 10, 0.1], [50, 50, 40, 10, 0.1], 1, 0.99953181),
    ]
    ours, theirs = (rectangle_corners(np.array([row[i] for row in rows], float)).round(6) for i in (0, 1))
    of = {"images": 4, "classes": ("a",)}
    truth = side([(i, 0, [0, 0, 1, 1]) for i in range(4)], oriented=ours, **of)
    found = side([(i, 0, [0, 0, 1, 1], 0.5) for i in range(4)], oriented=theirs, **of)
    joined = join(truth, found)
    for protocol, column, tolerance in (("coco", 2, 1e-6), ("ultralytics", 3, 5e-4)):
        (rules,) = resolve(protocol, iou_type="obb")
        pairs = find_shape_pairs(joined, rules, 0.1)
        assert pairs.iou == pytest.approx([row[column] for row in rows], abs=tolerance)


def test_pose_as_yolo_val():
    gt = [
        (0, 0, [10, 10, 40, 80], "20,20,2 40,20,2 30,60,1 0,0,0"),
        (1, 0, [50, 50, 60, 60], "60,60,2 100,60,2 80,100,2 70,80,2"),
        (1, 1, [200, 40, 30, 90], "210,50,1 220,60,2 215,100,2 0,0,0"),
    ]
    det = [
        (0, 0, [10, 10, 40, 80], "22,21 41,24 28,57 33,33", 0.9),
        (1, 0, [52, 50, 60, 60], "61,62 103,58 84,104 66,79", 0.8),
        (1, 0, [50, 50, 60, 60], "60,60 100,60 80,100 70,80", 0.3),
        (1, 1, [200, 40, 30, 90], "216,58 229,70 205,110 5,5", 0.7),
    ]
    kept = {"images": 2, "classes": ("a", "b")}
    truth = side([row[:3] for row in gt], keypoints=[corners(row[3]) for row in gt], **kept)
    points = [np.c_[corners(row[3]), np.ones(4)] for row in det]
    found = side([(*row[:3], row[4]) for row in det], keypoints=points, **kept)
    summary = evaluate(truth, found, "ultralytics", iou_type="keypoints").summary
    expected = {"P": 0.949883, "R": 1, "mAP50": 0.995, "mAP75": 0.995, "mAP50-95": 0.845750}
    same(summary, expected, 1e-6)


# ------------------------------------------------------------------------------------- random scenes


class Scene:
    """Objects and detections of several classes and images, for pycocotools and as tables."""

    def __init__(self, seed, points=0):
        self.rng = rng = np.random.default_rng(seed)
        self.points, self.size = points, (50, 60)
        self.gt, self.det = [], []
        for image in range(4):
            for k in range(3):
                drawn = [self.outline() for _ in range(rng.integers(0, 4))]
                for o in drawn:
                    crowd, area = int(rng.random() < 0.15), float(rng.choice([500, 1024, 1025, 9216, 20000]))
                    self.gt.append(self.row(image, k, o, area=area, iscrowd=crowd))
                for _ in range(rng.integers(0, 25 if rng.random() < 0.3 else 6)):
                    near = drawn and rng.random() < 0.7
                    o = drawn[rng.integers(len(drawn))] + rng.normal(0, 2, 2) if near else self.outline()
                    self.det.append(self.row(image, k, o, score=float(rng.integers(1, 12)) / 12))

    def outline(self):
        n = self.points or self.rng.integers(3, 7)
        return self.rng.random((n, 2)) * self.rng.choice([5, 20, 40]) + self.rng.random(2) * 30

    def row(self, image, k, outline, **more):
        low, high = outline.min(axis=0), outline.max(axis=0)
        row = {"image_id": image + 1, "category_id": k + 1, "bbox": [*low.tolist(), *(high - low).tolist()]}
        if self.points:
            seen = self.rng.choice([0, 1, 2], self.points) * (self.rng.random() < 0.9)
            row["keypoints"] = np.c_[outline, seen].ravel().tolist()
            row["num_keypoints"] = int((seen > 0).sum())
        else:
            row["segmentation"] = masks.rasterise([outline], *self.size)
            if self.rng.random() < 0.5:
                row["area"] = float(masks.area(row["segmentation"]))
        return {**row, **more}

    def table(self, rows, **more):
        boxes = [(r["image_id"] - 1, r["category_id"] - 1, r["bbox"], *([r["score"]] if "score" in r else []))
                 for r in rows]  # fmt: skip
        shapes = (
            {"keypoints": [np.reshape(r["keypoints"], (-1, 3)) for r in rows]}
            if self.points
            else {"masks": [r["segmentation"] for r in rows]}
        )
        return side(boxes, images=4, classes=("a", "b", "c"), size=self.size, **shapes, **more)

    def sides(self):
        flags = [Flag.CROWD if r["iscrowd"] else Flag(0) for r in self.gt]
        truth = self.table(self.gt, flags=flags, area=[r["area"] for r in self.gt])
        return truth, self.table(self.det, area=[r["area"] for r in self.det] if self.whole_areas else None)

    whole_areas = False

    def official(self, iou_type, sigmas=None):
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval

        with contextlib.redirect_stdout(io.StringIO()):
            coco = COCO()
            coco.dataset = {
                "images": [{"id": i + 1, "height": self.size[0], "width": self.size[1]} for i in range(4)],
                "categories": [{"id": k + 1, "name": "abc"[k]} for k in range(3)],
                "annotations": [{**r, "id": i + 1} for i, r in enumerate(self.gt)],
            }
            coco.createIndex()
            kept = (
                ("segmentation", "keypoints") if self.whole_areas else ("bbox", "segmentation", "keypoints")
            )
            names = ("image_id", "category_id", "score", *kept)
            run = COCOeval(
                coco, coco.loadRes([{n: r[n] for n in names if n in r} for r in self.det]), iou_type
            )
            if sigmas is not None:
                run.params.kpt_oks_sigmas = np.array(sigmas)
            run.evaluate()
            run.accumulate()
            run.summarize()
        return run


@pytest.mark.parametrize("unknown", ["truth", "detections"])
def test_an_image_of_unknown_size_has_that_of_the_masks_of_the_other_side(unknown):
    """It is no other size, so it is not refused."""
    sizes = {"truth": (40, 50), "detections": (40, 50), unknown: None}
    box = (0, 0, [5, 5, 20, 20])
    truth = side([box], size=sizes["truth"], polygons=[[SQUARE]])
    detections = side([(*box, 0.5)], size=sizes["detections"], polygons=[[SQUARE]])
    assert evaluate(truth, detections, "coco", iou_type="segm").summary["AP"] == pytest.approx(1)


@pytest.mark.parametrize("most", [1, 7, 60])
def test_masks_too_large_together_are_made_again_by_columns(most, monkeypatch):
    """Outlines and masks, whose pairs and overlaps are those of masks that are held whole."""
    rng = np.random.default_rng(most)
    boxes = [(i % 2, 0, [5, 5, 20, 20], 0.5 + i / 40) for i in range(12)]
    outlines = [[rng.integers(-5, 45, (5, 2)).astype(float)] for _ in boxes]
    drawn = [masks.rasterise([one[0] + 1], 40, 40) for one in outlines]
    gt = side([row[:3] for row in boxes], images=2, size=(40, 40), polygons=outlines)
    det = side(boxes, images=2, size=(40, 40), masks=drawn)
    for one, other in ((gt, det), (side([row[:3] for row in boxes], images=2, size=(40, 40), masks=drawn),
                                   side(boxes, images=2, size=(40, 40), polygons=outlines))):  # fmt: skip
        monkeypatch.setattr(matching_shapes, "RUNS_AT_A_TIME", 10**6)
        whole = evaluate(one, other, "coco", iou_type="segm").result
        monkeypatch.setattr(matching_shapes, "RUNS_AT_A_TIME", most)
        parts = evaluate(one, other, "coco", iou_type="segm").result
        assert whole.summary["AR100"] > 0
        assert np.array_equal(whole.arrays.precision, parts.arrays.precision)
        assert np.array_equal(whole.arrays.recall, parts.arrays.recall)


def test_outlines_too_large_to_fill_are_left_out_on_request(tmp_path, monkeypatch):
    monkeypatch.setattr(polygons, "MOST_COLUMNS", 30)
    monkeypatch.setattr(polygons, "MOST_HELD", 30)
    small = [5, 5, 9, 5, 9, 9, 5, 9]
    rows = [{"id": i + 1, "image_id": 1, "category_id": 1, "bbox": [5, 5, 4, 4], "iscrowd": 0, "segmentation": one}
            for i, one in enumerate([[small], [SQUARE.ravel().tolist()], [small, [15, 15, 19, 15, 19, 19]]])]  # fmt: skip
    head = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 40, "height": 40}],
        "categories": [{"id": 1, "name": "a"}],
    }
    (tmp_path / "gt.json").write_text(json.dumps({**head, "annotations": rows}), encoding="ascii")
    (tmp_path / "det.json").write_text(json.dumps([{**row, "score": 0.5} for row in rows]), encoding="ascii")
    gt, det = str(tmp_path / "gt.json"), str(tmp_path / "det.json")
    for call in (
        lambda **more: odm.eval(gt, det, "coco", iou_type="segm", **more).summary["AP"],
        lambda **more: (
            odm.convert(gt, str(tmp_path / "masks.json"), to="coco", shapes="mask", **more).written
        ),
    ):
        with pytest.raises(DataError) as caught:
            call()
        assert caught.value.log.counts["outline-too-large"] >= 1
        assert "/annotations/1" in str([str(one) for one in caught.value.log.issues])
        assert call(skip_bad=True) in (1, 2)
    assert len(json.loads((tmp_path / "masks.json").read_text(encoding="ascii"))["annotations"]) == 2


@pytest.mark.parametrize("whole_areas", [False, True])
@pytest.mark.parametrize("seed", range(examples(16)))
def test_masks_as_pycocotools(seed, whole_areas):
    scene = Scene(seed)
    scene.whole_areas = whole_areas
    for row in scene.det:
        row["area"] = float(masks.area(row["segmentation"]))
    official = scene.official("segm")
    result = evaluate(*scene.sides(), "coco", iou_type="segm").result
    same(result.summary, dict(zip(SEGM, np.where(official.stats < 0, np.nan, official.stats), strict=True)))
    assert np.array_equal(result.arrays.precision, official.eval["precision"])
    assert np.array_equal(result.arrays.recall, official.eval["recall"])


@pytest.mark.parametrize("points", [1, 8, 17])
@pytest.mark.parametrize("seed", range(examples(12)))
def test_key_points_as_pycocotools(seed, points):
    scene = Scene(seed, points)
    sigmas = None if points == 17 else np.linspace(0.2, 0.9, points)
    official = scene.official("keypoints", sigmas)
    found = evaluate(*scene.sides(), "coco", iou_type="keypoints", sigmas=sigmas)
    expected = np.where(official.stats < 0, np.nan, official.stats)
    same(found.summary, dict(zip(POINTS, expected, strict=True)))
    assert np.array_equal(found.result.arrays.precision, official.eval["precision"])


@pytest.mark.parametrize("points", [0, 17])
def test_overlaps_have_the_bits_of_pycocotools(points):
    scene = Scene(5, points)
    official = scene.official("keypoints" if points else "segm")
    (rules,) = resolve("coco", iou_type="keypoints" if points else "segm")
    truth, found = scene.sides()
    joined = join(truth, found)
    if points:
        joined, (rules,) = adapt_to_shapes(joined, [rules], truth, found, Log())
    pairs = find_shape_pairs(joined, rules, 0.05)
    crowd = rules.crowds(joined.truth.flags)
    expected = {
        (dt, gt): iou
        for (image, k), table in official.ious.items()
        if len(table)
        for dt, row in zip(ranked(scene.det, image, k), table.tolist(), strict=False)
        for gt, iou in zip(listed(scene.gt, image, k), row, strict=True)
        if iou >= 0.05
    }
    ours = np.where(crowd[pairs.gt], pairs.ioa, pairs.iou)
    rows = joined.detections.row[pairs.det].tolist(), joined.truth.row[pairs.gt].tolist()
    found = dict(zip(zip(*rows, strict=True), ours.tolist(), strict=True))
    assert {pair: found.get(pair) for pair in expected} == expected


def listed(rows, image, k):
    return [i for i, r in enumerate(rows) if (r["image_id"], r["category_id"]) == (image, k)]


def ranked(rows, image, k):
    return sorted(listed(rows, image, k), key=lambda i: -rows[i]["score"])


# ------------------------------------------------------------------- what hangs on a match, and quadrilaterals


def boxes_of(seed, images=3, classes=2):
    """Whole boxes of both sides, with crowds and difficult ones: rows (image, class, ltwh[, score]), and flags."""
    rng = np.random.default_rng(seed)
    gt = [(int(i), int(k), [*rng.integers(0, 60, 2).tolist(), *rng.integers(8, 40, 2).tolist()])
          for i in range(images) for k in range(classes) for _ in range(5)]  # fmt: skip
    flags = rng.choice([0, 0, 0, Flag.CROWD, Flag.DIFFICULT, Flag.REGION], len(gt))
    det = []
    for i, k, box in gt * 2:
        moved = (np.array(box) + rng.integers(-4, 5, 4) * (rng.random() < 0.8)).clip([0, 0, 4, 4]).tolist()
        other = rng.random() < 0.2
        det.append((i, (k + other) % classes, moved, float(rng.integers(1, 99)) / 100))
    return gt, flags.astype(np.uint16), det


def as_shapes(rows, kind, angle=0.0):
    """The boxes as outlines, masks or oriented boxes; turned by an angle about the origin."""
    ltwh = np.array([row[2] for row in rows], float)
    quads = rectangle_corners(np.c_[ltwh[:, :2] + ltwh[:, 2:] / 2, ltwh[:, 2:], np.zeros(len(rows))])
    if kind == "polygons":
        return {"polygons": [[quad] for quad in quads]}
    if kind == "masks":
        return {"masks": [masks.rasterise([quad], 120, 110) for quad in quads]}
    cos, sin = math.cos(angle), math.sin(angle)
    return {"oriented": quads @ np.array([[cos, sin], [-sin, cos]])}


def told(evaluation):
    """All numbers, those of analyses and matrices too."""
    found = evaluation.to_dict()
    for result in found["results"]:
        del result["definition"], result["iou_type"]
    result = evaluation.result
    return found["results"], result.confusion().counts.tolist(), result.detections.reason.tolist()


PAIRS = [("coco", "polygons"), ("coco", "oriented"), ("lvis", "masks"), ("dota", "oriented")]


@pytest.mark.parametrize(("protocol", "kind"), PAIRS)
@pytest.mark.parametrize("seed", range(9 if SLOW else 1))
def test_shapes_that_are_boxes_have_the_numbers_of_boxes(seed, kind, protocol):
    gt, flags, det = boxes_of(seed)
    of = {"images": 3, "classes": ("a", "b"), "size": (120, 110)}
    plain = side(gt, flags=flags, **of), side(det, **of)
    drawn = side(gt, flags=flags, **of, **as_shapes(gt, kind)), side(det, **of, **as_shapes(det, kind))
    iou_type = "obb" if kind == "oriented" else "segm"
    boxes = replace(PROTOCOLS["voc2007"], name="dota", pixels="edges") if protocol == "dota" else protocol
    asked = {"analyze": "all", "confusion": "counts", "iou": [0.499] if protocol == "dota" else None}
    found = told(odm.eval(*drawn, protocol=protocol, iou_type=iou_type, **asked))
    assert found == told(odm.eval(*plain, protocol=boxes, **asked))
    assert compared(*drawn, iou_type, protocol) == compared(*plain, None, boxes)


def compared(truth, found, iou_type, protocol):
    fewer = found.take(np.arange(len(found)) % 3 > 0)
    iou = 0.499 if (iou_type is None and not isinstance(protocol, str)) or protocol == "dota" else None
    runs = {"a": found, "b": fewer}
    comparison = odm.compare(truth, runs, protocol=protocol, iou_type=iou_type, iou=iou, replicates=20)
    return [(d.key, d.category, d.first, d.other, d.interval) for d in comparison.deltas]


@pytest.mark.parametrize("protocol", ["coco", "ultralytics"])
def test_oriented_boxes_may_be_turned_together(protocol):
    gt, _, det = boxes_of(3)
    of = {"images": 3, "classes": ("a", "b")}
    upright, turned = (
        evaluate(
            side(gt, **of, **as_shapes(gt, "oriented", angle)),
            side(det, **of, **as_shapes(det, "oriented", angle)),
            protocol,
            iou_type="obb",
        ).summary
        for angle in (0, 0.7)
    )
    same(turned, upright, 1e-9)


def test_overlaps_of_quadrilaterals_as_shapely():
    shapely = pytest.importorskip("shapely")
    rng = np.random.default_rng(1)
    n = 520  # of one image, and most of one class: more pairs than are compared at once
    category = (np.arange(n) >= 515).astype(int)
    sides = []
    for scored in (False, True):
        quads = rectangle_corners(
            np.c_[rng.random((n, 2)) * 300 + 20000, rng.random((n, 2)) * 40 + 1, rng.random(n) * 7]
        )
        quads[:40] += rng.normal(0, 6, (40, 4, 2))  # no rectangles, and not all convex
        quads[40:90] = quads[40:90, ::-1]
        quads[515:] = 20000 + 9 * np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
        score = [[float(s)] * scored for s in rng.random(n)]
        rows = [(0, int(k), [0, 0, 1, 1], *s) for k, s in zip(category, score, strict=True)]
        sides.append(
            (side(rows, classes=("a", "b"), oriented=quads), shapely.convex_hull(shapely.polygons(quads)))
        )
    (truth, ours), (found, theirs) = sides
    (rules,) = resolve("coco", iou_type="obb")
    joined = join(truth, found)
    pairs = find_shape_pairs(joined, rules, 0.01)
    tree = shapely.STRtree(ours)
    d, g = (at[category[d] == category[g]] for d, g in [tree.query(theirs)] for at in (d, g))
    both = shapely.area(shapely.intersection(theirs[d], ours[g]))
    iou = both / (shapely.area(theirs[d]) + shapely.area(ours[g]) - both)
    expected = {(a, b): v for a, b, v in zip(d.tolist(), g.tolist(), iou.tolist(), strict=True) if v >= 0.01}
    got = dict(zip(zip(pairs.det.tolist(), pairs.gt.tolist(), strict=True), pairs.iou.tolist(), strict=True))
    assert got == pytest.approx(expected, abs=1e-9)
    key = (category[pairs.det] * n + pairs.rank[pairs.det]) * n + pairs.gt
    assert (key[1:] > key[:-1]).all()


def test_what_cannot_be_measured_is_refused_with_the_reason():
    gt, _, det = boxes_of(1)
    of = {"images": 3, "classes": ("a", "b")}
    truth, found = side(gt, **of), side(det, **of)
    for protocol, options, said in (
        ("coco", {"iou_type": "segm"}, None),
        ("ultralytics", {"iou_type": "segm"}, "quarter of the letterboxed picture"),
        ("voc2012", {"iou_type": "segm"}, "use protocol coco, lvis"),
        ("dota", {"iou_type": "bbox"}, "compares obb only"),
        ("coco", {"iou_type": "masks"}, "choose bbox, segm"),
        ("coco", {"iou_type": "obb", "pixels": "edges"}, "boxes only"),
        ("coco", {"sigmas": [0.1]}, "only keypoints"),
        (["coco", "dota"], {}, "one by one"),
        ("stt", {"iou_type": "segm"}, "measures tracks"),
    ):
        with pytest.raises(UsageError if said else DataError, match=said):
            evaluate(truth, found, protocol, **options)


def test_only_the_classes_that_are_evaluated_need_a_shape(tmp_path):
    square = [[1, 1, 9, 1, 9, 9, 1, 9]]
    box = {"image_id": 1, "bbox": [1, 1, 8, 8], "area": 64, "iscrowd": 0}
    with_outline = {**box, "id": 1, "category_id": 1, "segmentation": square}
    truth = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 20, "height": 20}],
        "categories": [{"id": 1, "name": "drawn"}, {"id": 2, "name": "boxed"}],
        "annotations": [with_outline, {**box, "id": 2, "category_id": 2}],
    }
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    results = [{**box, "category_id": c, "score": 0.5, "segmentation": square} for c in (1, 2)]
    (tmp_path / "det.json").write_text(json.dumps(results))
    sides = tmp_path / "gt.json", tmp_path / "det.json"
    with pytest.raises(odm.DataError, match="1 error"):
        odm.eval(*sides, "coco", iou_type="segm")
    only = odm.eval(*sides, "coco", iou_type="segm", only_classes=["drawn"])
    assert only.summary["AP"] == pytest.approx(1)
    # Only detections are renamed: the objects of the old class remain unchecked.
    renamed = odm.eval(
        *sides, "coco", iou_type="segm", only_classes=["drawn"], rename={"boxed": "drawn"}, max_dets=1
    )
    assert renamed.summary["AP"] == pytest.approx(1)


@pytest.mark.parametrize(("key", "value", "iou_type"), [
    ("obb", [5, 5, 8, 4, 0.1], "obb"), ("poly", [1, 1, 9, 1, 9, 9, 1, 9], "obb"),
    ("keypoints", [1, 1, 2] * 17, "keypoints"), ("segmentation", {"size": [20, 20], "counts": "o14`0000000000i6"}, "segm"),
])  # fmt: skip
def test_results_without_boxes_have_those_around_their_shapes(key, value, iou_type, tmp_path):
    box = {"image_id": 1, "category_id": 1, key: value, "score": 0.5}
    image = {"id": 1, "file_name": "a.jpg", "width": 20, "height": 20}
    truth = {"images": [image], "categories": [{"id": 1, "name": "a"}], "annotations": []}
    truth["annotations"] = [{**box, "id": 1, "bbox": [1, 1, 8, 8]}]
    del truth["annotations"][0]["score"]
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    (tmp_path / "det.json").write_text(json.dumps([box]))
    sides = tmp_path / "gt.json", tmp_path / "det.json"
    odm.eval(*sides, "coco", log=(log := Log()))
    assert any("1 annotation without a bbox: the box around the" in str(note) for note in log.notes)
    odm.eval(*sides, "coco", iou_type=iou_type)


def test_classes_without_key_points_are_left_out(tmp_path):
    scene, folder = Scene(3, 17), tmp_path
    people = [r for r in scene.gt if r["category_id"] == 2]
    scene.gt = [r if r in people else {k: v for k, v in r.items() if "key" not in k} for r in scene.gt]
    scene.det = [r for r in scene.det if r["category_id"] == 2 or "bbox" in r]
    for row in scene.det:
        if row["category_id"] == 3:  # some detectors give points to all
            del row["keypoints"]
    names = [{"id": 2, "name": "person", "keypoints": list("abcdefghijklmnopq")}, *(
        {"id": k, "name": name} for k, name in ((1, "car"), (3, "bus")))]  # fmt: skip
    truth = {
        "images": [{"id": i + 1, "file_name": f"{i}.jpg", "height": 50, "width": 60} for i in range(4)],
        "categories": names, "annotations": [{**r, "id": i + 1} for i, r in enumerate(scene.gt)],
    }  # fmt: skip
    (folder / "gt.json").write_text(json.dumps(truth))
    (folder / "det.json").write_text(json.dumps(scene.det))
    sides = folder / "gt.json", folder / "det.json"
    found = odm.eval(*sides, "coco", iou_type="keypoints", log=(log := Log()))
    n = [sum(r["category_id"] != 2 for r in rows) for rows in (scene.gt, scene.det)]
    told = f"left out 2 classes without keypoints, with {n[0]} objects and {n[1]} detections: 'car', 'bus'"
    assert [note for note in log.notes if "left out" in note] == [told]
    scene.gt, scene.det = people, [r for r in scene.det if r["category_id"] == 2]
    official = scene.official("keypoints")
    same(found.summary, dict(zip(POINTS, np.where(official.stats < 0, np.nan, official.stats), strict=True)))
    assert np.array_equal(found.result.arrays.precision[:, :, 0], official.eval["precision"][:, :, 1])
    held = [
        odm.read(path, shapes=True, **more) for path, more in ((sides[0], {}), (sides[1], {"gt": sides[0]}))
    ]
    assert evaluate(*held, "coco", iou_type="keypoints").summary == found.summary


# ------------------------------------------------- known answers of programs that the tests do not install


def fractions(n, width):
    """(n, width) numbers of 0..1 that look random, and are the same everywhere."""
    return (np.arange(1, n * width + 1) ** 2 * 0.6180339887498949 % 1).reshape(n, width)


def turned(objects=70, found=180):
    """Rows of both sides: image and class from 1, [cx, cy, w, h, radians], score."""
    v = fractions(objects, 7)
    box = (v[:, 2:] * [180, 130, 60, 40, 3] + [10, 10, 4, 4, 0]).round(2)
    gt = [(int(4 * i) + 1, int(3 * k) + 1, b) for i, k, b in zip(*v.T[:2], box.tolist(), strict=True)]
    det, near = [], (fractions(found, 5) - 0.5) * [12, 12, 8, 8, 0.5]
    for i, move in enumerate((near * (np.arange(found) % 4)[:, None] / 3).tolist()):
        image, k, b = gt[i % objects]
        b = [round(max(a + m, 2), 2) for a, m in zip(b, move, strict=True)]
        det.append((image, k % 3 + 1 if i % 9 == 0 else k, b, (i * 73 % found * 5 + 50) / 1000))
    return gt, det


def coco_of(gt, det, of, images=()):
    """COCO's two files of such rows, whose shapes are of(box, whether it was found)."""
    image = [{"id": i, "file_name": f"{i}.jpg", "height": 150, "width": 200} for i in range(1, 5)]
    truth = {
        "images": [{**own, **more} for own, more in itertools.zip_longest(image, images, fillvalue={})],
        "categories": [{"id": k, "name": "abc"[k - 1], "frequency": "rcf"[k - 1]} for k in range(1, 4)],
        "annotations": [
            {"id": n, "image_id": i, "category_id": k, "iscrowd": 0, **of(b, None)}
            for n, (i, k, b) in enumerate(gt, 1)
        ],
    }
    results = [{"image_id": i, "category_id": k, "score": s, **of(b, s)} for i, k, b, s in det]
    return {"gt.json": json.dumps(truth), "det.json": json.dumps(results)}


def lvis_files(gt, det):
    gt = [row for row in gt if row[:2] not in ((1, 2), (2, 3))]  # absent; nothing is said about it
    lists = [
        {"neg_category_ids": [2] * (i == 1), "not_exhaustive_category_ids": [i % 3 + 1] * (i < 4)}
        for i in range(1, 5)
    ]

    def shape(box, score):
        outline = rectangle_corners(np.array([box]))[0].clip(0, [200, 150]).round(2)
        drawn = masks.rasterise([outline], 150, 200)
        if score is not None:
            return {"segmentation": drawn}
        low, size = outline.min(axis=0), np.ptp(outline, axis=0)
        around = {"bbox": [*low.tolist(), *size.tolist()], "area": float(masks.area(drawn))}
        return {**around, "segmentation": drawn if box[0] > 150 else [outline.ravel().tolist()]}

    return coco_of(gt, det, shape, lists)


def obb_files(gt, det):
    return coco_of(gt, det, lambda b, s: {"obb": b, **({"area": 3 * b[2] * b[3]} if s is None else {})})


def dota_files(gt, det):
    files = {f"gt/{i}.txt": "" for i in range(1, 5)} | {f"det/Task1_{k}.txt": "" for k in "abc"}
    for n, (i, k, b, *score) in enumerate(gt + det):
        xy = " ".join(f"{v:.1f}" for v in rectangle_corners(np.array([b])).ravel().tolist())
        if score:
            files[f"det/Task1_{'abc'[k - 1]}.txt"] += f"{i} {score[0]:.3f} {xy}\n"
        else:
            files[f"gt/{i}.txt"] += f"{xy} {'abc'[k - 1]} {int(n % 6 == 0)}\n"
    return files


KNOWN = {
    "lvis": (lvis_files, {
        "AP": 0.2187505242971951, "AP50": 0.5038111597855458, "AP75": 0.13674648964282934,
        "APs": 0.16384888018044938, "APm": 0.38563848913441223, "APl": math.nan,
        "APr": 0.21619263964882188, "APc": 0.2035046614427402, "APf": 0.2365542718000232,
        "AR300": 0.41723942208462333, "ARs": 0.3514646464646464, "ARm": 0.5, "ARl": math.nan,
    }),
    "coco": (obb_files, {
        "AP": 0.1892181280121683, "AP50": 0.42591339091475094, "AP75": 0.10774240097401921,
        "APs": 0.09746351483246829, "APm": 0.3182122298888844, "APl": math.nan,
        "AR1": 0.087, "AR10": 0.32499999999999996, "AR100": 0.40933333333333327,
        "ARs": 0.3077777777777777, "ARm": 0.4545238095238095, "ARl": math.nan,
    }),
    "dota": (dota_files, {"mAP": (0.39538929969551984 + 0.40228601807549175 + 0.4505681818181818) / 3}),
}  # fmt: skip
"""lvis-api 0.5.3; hotcoco 1.3.0; dota_evaluation_task1.py of DOTA_devkit with its own polyiou."""


@pytest.mark.parametrize("protocol", KNOWN)
def test_numbers_of_lvis_api_hotcoco_and_dota_devkit(protocol, tmp_path):
    make, expected = KNOWN[protocol]
    for name, text in make(*turned()).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    sides = (tmp_path / name for name in (("gt", "det") if protocol == "dota" else ("gt.json", "det.json")))
    found = odm.eval(*sides, protocol, iou_type="segm" if protocol == "lvis" else "obb").summary
    assert list(found) == list(expected)
    same(found, expected)


def test_boxes_around_oriented_boxes_are_doubtful(tmp_path):
    for name, text in dota_files(*turned()).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    sides = tmp_path / "gt", tmp_path / "det"

    def doubted(gt, det, protocol, **options):
        log = Log()
        odm.eval(gt, det, protocol, log=log, **options)
        assert not log.counts["outlines-as-boxes"]  # one cause, one message
        return log.counts["oriented-as-boxes"]

    assert doubted(*sides, "coco") == 1
    assert doubted(*sides, "dota") == doubted(*sides, "coco", iou_type="obb") == 0
    held = [odm.read(path, shapes=True) for path in sides]
    assert doubted(*held, "coco") == 1
    plain = [replace(one, boxes=replace(one.boxes, shapes=None)) for one in held]
    assert doubted(plain[0], held[1], "coco") == doubted(held[0], plain[1], "coco") == 0


@pytest.mark.parametrize(("areas", "crowds", "iou_type", "reported"), [
    ([0, 400], [0, 0], "keypoints", 1), ([0, 0], [1, 0], "keypoints", 1), ([0, 0], [0, 0], "keypoints", 2),
    ([1e-9, 400], [0, 0], "keypoints", 0), ([0, 400], [1, 0], "keypoints", 0), ([0, 400], [0, 0], "bbox", 0),
])  # fmt: skip
def test_objects_without_an_area_are_counted_where_keypoints_are_compared(
    areas, crowds, iou_type, reported, tmp_path
):
    points, box = [20, 20, 2] * 17, {"image_id": 1, "category_id": 1, "bbox": [10, 10, 50, 80]}
    objects = [{**box, "id": k, "area": areas[k], "iscrowd": crowds[k], "keypoints": points} for k in (0, 1)]
    category = {"id": 1, "name": "person", "keypoints": [f"p{k}" for k in range(17)]}
    image = {"id": 1, "file_name": "a.jpg", "width": 99, "height": 99}
    gt = {"images": [image], "categories": [category], "annotations": objects}
    (tmp_path / "gt.json").write_text(json.dumps(gt))
    (tmp_path / "det.json").write_text(json.dumps([{**box, "score": 0.5, "keypoints": points}]))
    log = Log()
    odm.eval(tmp_path / "gt.json", tmp_path / "det.json", "coco", iou_type=iou_type, log=log)
    texts = [issue.message for issue in log.issues if issue.code == "keypoints-without-area"]
    assert [text.startswith(f"the area of {reported} of the 2") for text in texts] == [True] * bool(reported)
