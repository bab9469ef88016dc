"""`coco` against pycocotools, to the last digit where the text promises 1e-12."""

import contextlib
import importlib
import io

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from selection import examples, slow

from odm.evaluate import PROTOCOLS, accumulate, concatenate, evaluate, join, match, resolve
from odm.tables import Dataset, Flag

KEYS = ["AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"]
SIZES = [
    (32, 32),
    (25.6, 40),
    (96, 96),
    (72, 128),
    (31.9, 32.1),
    (32, 32.1),
    (96, 96.1),
    (10, 10),
    (40, 80),
    (200, 150),
]


class Scene:
    """A random dataset, as COCO dictionaries and as tables."""

    def __init__(
        self, seed, *, n_images=4, n_classes=3, crowded=False, tied=False, areas=True, string_ids=False
    ):
        rng = np.random.default_rng(seed)
        ids = rng.choice(50, n_images, replace=False) + 1
        self.image_ids = [f"i{i}" for i in ids] if string_ids else ids.tolist()
        self.categories = [(int(c), f"class {c}") for c in rng.choice(90, n_classes, replace=False) + 1]
        gt_classes, det_classes = rng.random(n_classes) < 0.8, rng.random(n_classes) < 0.8
        gt_classes[0] = det_classes[0] = True
        self.gt, self.det = [], []
        for image in range(n_images):
            if rng.random() < 0.15:
                continue
            for k in range(n_classes):
                boxes = []
                for _ in range(rng.integers(0, 5)):
                    w, h = (
                        SIZES[rng.integers(len(SIZES))]
                        if rng.random() < 0.7
                        else rng.integers(1, 2000, 2) / 10
                    )
                    box = [*(rng.integers(0, 1000, 2) / 10).tolist(), float(w), float(h)]
                    boxes.append(box)
                    if rng.random() < 0.2:
                        boxes.append([box[0] + rng.integers(-3, 4), box[1], *box[2:]])
                if gt_classes[k]:
                    for box in boxes:
                        area = box[2] * box[3]
                        if areas and rng.random() < 0.5:
                            area = float(rng.choice([1024.0, 9216.0, 1023.9, 9216.1, area / 2]))
                        self.gt.append((image, k, box, area, int(rng.random() < 0.15)))
                if det_classes[k]:
                    n = 130 if crowded and rng.random() < 0.3 else rng.integers(0, 8)
                    for _ in range(n):
                        if boxes and rng.random() < 0.7:
                            box = list(boxes[rng.integers(len(boxes))])
                            if rng.random() < 0.7:
                                box = [round(v + rng.integers(-40, 41) / 10, 1) for v in box]
                                box[2:] = [max(v, 0.1) for v in box[2:]]
                        else:
                            box = (rng.integers(1, 1500, 4) / 10).tolist()
                        score = rng.integers(1, 10) / 10 if tied else rng.random()
                        self.det.append((image, k, [float(v) for v in box], float(score)))
        shuffled = rng.permutation(len(self.det))
        self.det = [self.det[i] for i in shuffled]

    def tables(self):
        common = {
            "images": [f"{i}.jpg" for i in self.image_ids],
            "categories": [name for _, name in self.categories],
            "image_ids": self.image_ids,
            "category_ids": [i for i, _ in self.categories],
        }
        truth = Dataset.from_arrays(
            **common,
            image=[g[0] for g in self.gt],
            category=[g[1] for g in self.gt],
            ltwh=[g[2] for g in self.gt],
            area=[g[3] for g in self.gt],
            flags=[g[4] * Flag.CROWD for g in self.gt],
            kind="gt",
        )
        det = Dataset.from_arrays(
            **common,
            image=[d[0] for d in self.det],
            category=[d[1] for d in self.det],
            ltwh=[d[2] for d in self.det],
            score=[d[3] for d in self.det],
            kind="det",
        )
        return truth, det

    def official(self, *, use_cats=True):
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval

        with contextlib.redirect_stdout(io.StringIO()):
            coco = COCO()
            coco.dataset = {
                "images": [{"id": i, "file_name": f"{i}.jpg"} for i in self.image_ids],
                "categories": [{"id": i, "name": name} for i, name in self.categories],
                "annotations": [
                    {
                        "id": n,
                        "image_id": self.image_ids[image],
                        "category_id": self.categories[k][0],
                        "bbox": box,
                        "area": area,
                        "iscrowd": crowd,
                    }
                    for n, (image, k, box, area, crowd) in enumerate(self.gt, 1)
                ],
            }
            coco.createIndex()
            results = coco.loadRes(
                [
                    {
                        "image_id": self.image_ids[image],
                        "category_id": self.categories[k][0],
                        "bbox": box,
                        "score": score,
                    }
                    for image, k, box, score in self.det
                ]
            )
            run = COCOeval(coco, results, "bbox")
            run.params.useCats = int(use_cats)
            run.evaluate()
            run.accumulate()
            run.summarize()
        return run


def undefined(value):
    return -1.0 if np.isnan(value) else value


scenes = st.builds(
    Scene,
    st.integers(0, 2**32 - 1),
    n_images=st.integers(1, 6),
    n_classes=st.integers(1, 4),
    crowded=st.booleans(),
    tied=st.booleans(),
    areas=st.booleans(),
    string_ids=st.booleans(),
).filter(lambda scene: scene.gt and scene.det)


@settings(max_examples=examples(250), deadline=None, suppress_health_check=list(HealthCheck))
@given(scenes, st.booleans())
@example(Scene(1, n_images=6, crowded=True, tied=True), True)
@example(Scene(1, n_images=6, crowded=True, tied=True), False)
def test_agrees_with_pycocotools(scene, use_cats):
    run = scene.official(use_cats=use_cats)
    result = evaluate(*scene.tables(), "coco", class_agnostic=not use_cats).result
    numbers = [undefined(result.summary[key]) for key in KEYS]
    np.testing.assert_allclose(numbers, run.stats, rtol=0, atol=1e-12)
    by_id = np.argsort([i for i, _ in scene.categories]) if use_cats else [0]
    assert (result.arrays.precision[:, :, by_id] == run.eval["precision"]).all()
    assert (result.arrays.recall[:, by_id] == run.eval["recall"]).all()


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(scenes, st.integers(1, 5))
def test_shards_in_any_order_are_identical(scene, n_shards):
    truth, det = scene.tables()
    for rules in resolve(
        ["coco", "voc2012", "openimages", "tf-weighted", "corloc", "imagenet-loc", "imagenet-det"]
    ):
        whole = join(truth, det)
        number = np.arange(len(whole.images))
        parts = [match(whole.shard(number[number % n_shards == s]), rules) for s in range(n_shards)]
        one, many = accumulate(match(whole, rules)), accumulate(concatenate(parts[::-1]))
        assert one.to_dict() == many.to_dict()
        assert (one.arrays.precision == many.arrays.precision).all()
        for name, curve in one.curves.items():
            for column in ("recall", "precision", "score"):
                assert (getattr(curve, column) == getattr(many.curves[name], column)).all()


@pytest.mark.parametrize(
    ("chunk", "block", "sparse", "large", "many"),
    [
        (1, 1, -(10**9), 2**18, 32),
        pytest.param(7, 3, 2**20, 2**18, 0, marks=slow),
        pytest.param(50, 10, -(10**9), 2**18, 32, marks=slow),
        pytest.param(1, 10, 2**20, 0, 0, marks=slow),
        pytest.param(7, 10, 2**20, 1, 1, marks=slow),
        (50, 10, 2**20, 4, 2),
    ],
)
def test_size_of_the_pieces_does_not_matter(monkeypatch, chunk, block, sparse, large, many):
    protocols = ["coco", "voc2012", "openimages", "openimages-challenge", "imagenet-loc", "imagenet-det"]
    seeds = range(5 if large > 10 else 2)
    whole = [evaluate(*Scene(seed, n_images=6, crowded=True).tables(), protocols) for seed in seeds]
    finding = importlib.import_module("odm.evaluate.matching.pairs")
    monkeypatch.setattr(finding, "CHUNK", chunk)
    monkeypatch.setattr(finding, "LARGE", large)
    monkeypatch.setattr(finding, "AT_A_TIME", chunk)
    monkeypatch.setattr(importlib.import_module("odm.evaluate.matching.match"), "MANY_PAIRS", many)
    monkeypatch.setattr(finding, "SPARSE", sparse)
    for module in ("accumulate", "curves"):
        monkeypatch.setattr(importlib.import_module(f"odm.evaluate.scores.{module}"), "BLOCK", block)
    monkeypatch.setattr(importlib.import_module("odm.evaluate.matching.sides"), "AT_A_TIME", chunk)
    for seed, before in enumerate(whole):
        after = evaluate(*Scene(seed, n_images=6, crowded=True).tables(), protocols)
        assert after.to_dict() == before.to_dict()
        for one, other in zip(before.results, after.results, strict=True):
            assert (one.arrays.precision == other.arrays.precision).all()
            assert (one.confusion().counts == other.confusion().counts).all()
            for column in ("best_iou", "gt", "outcome", "reason"):
                assert (getattr(one.detections, column) == getattr(other.detections, column)).all()


def test_protocols_in_one_run_are_as_alone():
    sides = Scene(11, n_images=6, crowded=True, tied=True).tables()
    for result in evaluate(*sides, list(PROTOCOLS)).results:
        assert result.to_dict() == evaluate(*sides, result.protocol).result.to_dict()


def test_annotation_id_zero_is_an_id_like_any_other():
    truth = Dataset.from_arrays(
        images=["a"], categories=["c"], image=[0], category=[0], ltwh=[(0, 0, 9, 9)], source_id=[0]
    )
    det = Dataset.from_arrays(
        images=["a"], categories=["c"], image=[0], category=[0], ltwh=[(0, 0, 9, 9)], score=[0.5]
    )
    assert abs(evaluate(truth, det, "coco").summary["AP"] - 1) < 1e-12


def test_detection_table_agrees_with_the_rows():
    for seed in range(20):
        evaluation = evaluate(*Scene(seed, n_images=4, crowded=seed % 3 == 0).tables(), list(PROTOCOLS))
        for result in evaluation.results:
            table = result.detections
            assert (np.diff(table.row) > 0).all()
            for k, row in enumerate(result.classes):
                outcome = table.outcome[table.category == k]
                assert [(outcome == n).sum() for n in range(3)] == [row.tp, row.fp, row.ignored]
            matched = table.gt >= 0
            assert (matched[table.outcome == 0]).all()
            assert not matched[table.outcome == 1].any()
            assert ((table.reason >= 0) == (table.outcome == 1)).all()
            assert len(np.unique(table.gt[table.outcome == 0])) == (table.outcome == 0).sum()
