"""`Metric` for masks, keypoints and oriented boxes: pycocotools and `evaluate` are the oracles."""

import contextlib
import io

import numpy as np
import pytest

from odm import masks
from odm.evaluate import Metric, evaluate
from odm.issues import UsageError
from odm.tables import Dataset
from odm.tables.shapes import rectangle_corners

CLASSES = {3: "cat", 8: "dog"}
SIZE = (60, 80)
FIELDS = {"segm": "masks", "boundary": "masks", "keypoints": "keypoints", "obb": "obb"}


def blobs(rng, n):
    """(n, 60, 80) rectangles with a hole each."""
    pixels = np.zeros((n, *SIZE), np.bool_)
    for one in pixels:
        y, x = rng.integers(0, 30, 2)
        h, w = rng.integers(8, 30, 2)
        one[y : y + h, x : x + w] = True
        one[y + 2 : y + 4, x + 2 : x + 5] = False
    return pixels


def shapes(rng, kind, n):
    """Shapes of n objects, and the shapes of detections near them."""
    if FIELDS[kind] == "masks":
        objects = blobs(rng, n)
        moved = (
            np.array([np.roll(one, rng.integers(-3, 4), (0, 1)[i % 2]) for i, one in enumerate(objects)])
            .reshape(n, *SIZE)
            .astype(np.bool_)
        )
        return objects, moved
    if kind == "keypoints":
        objects = np.dstack([rng.uniform(5, 75, (n, 17, 2)), rng.integers(0, 3, (n, 17, 1))])
        objects[:, 0, 2] = 2
        moved = objects + np.array([1, 1, 0]) * rng.normal(0, 1.5, (n, 17, 3))
        moved[:, :, 2] = rng.random((n, 17))
        return objects, moved
    objects = np.column_stack(
        [rng.uniform(15, 45, (n, 2)), rng.uniform(8, 30, (n, 2)), rng.uniform(-2, 2, n)]
    )
    return objects, objects + rng.normal(0, 1, (n, 5)) * [1, 1, 1, 1, 0.05]


def made(kind, *, n_images=12, seed=3, crowds=True):
    """Predictions and targets of some images, of which one is empty."""
    rng = np.random.default_rng(seed)
    preds, target = [], []
    for i in range(n_images):
        n = int(rng.integers(1, 6)) if i else 0
        objects, detections = shapes(rng, kind, n)
        labels = rng.choice([3, 8], n)
        is_wrong = rng.random(n) < 0.2
        preds.append(
            {
                FIELDS[kind]: detections,
                "labels": np.where(is_wrong, 11 - labels, labels),
                "scores": rng.permutation(n) / 8 + i / 100,
            }
        )
        target.append({FIELDS[kind]: objects, "labels": labels})
        if FIELDS[kind] != "obb":
            target[-1] |= {"iscrowd": (rng.random(n) < 0.15) & crowds, "area": rng.uniform(200, 4000, n)}
    return preds, target


def metric_of(kind, preds, target, *, flat=False, **options):
    metric = Metric(CLASSES, "coco", iou_type=kind, **options)
    if not flat:
        for i in range(0, len(preds), 5):
            metric.update(preds[i : i + 5], target[i : i + 5], range(i, min(i + 5, len(preds))))
        return metric
    sides = []
    for images in (preds, target):
        side = {"image": np.repeat(np.arange(len(images)), [len(image["labels"]) for image in images])}
        side |= {key: np.concatenate([image[key] for image in images]) for key in images[0]}
        order = np.argsort(-side["image"], kind="stable")  # images in descending order, their rows in order
        sides.append({key: values[order] for key, values in side.items()})
    metric.update(*sides, range(len(preds)))
    return metric


def compressed(sides):
    """The same sides with run lengths in place of arrays, the counts of every other image as numbers."""
    return [
        [
            {**image, "masks": [in_numbers(mask) if i % 2 else mask for mask in masks.encode(image["masks"])]}
            for i, image in enumerate(images)
        ]
        for images in sides
    ]


def in_numbers(mask):
    down = np.concatenate([[False], masks.decode(mask).T.ravel()])
    edges = np.flatnonzero(np.diff(down.astype(int)))
    return {"size": mask["size"], "counts": np.diff([0, *edges, np.prod(SIZE)]).tolist()}


def official(kind, preds, target, *, agnostic=False):
    """The twelve or ten numbers of pycocotools."""
    coco = pytest.importorskip("pycocotools.coco")
    from pycocotools.cocoeval import COCOeval
    from pycocotools.mask import encode

    def rows(images):
        for i, image in enumerate(images):
            for k, label in enumerate(image["labels"].tolist()):
                row = {"image_id": i + 1, "category_id": 3 if agnostic else label}
                if kind == "segm":
                    row["segmentation"] = encode(np.asfortranarray(image["masks"][k].astype(np.uint8)))
                else:
                    row["keypoints"] = image["keypoints"][k].ravel().tolist()
                if "scores" in image:
                    yield row | {"score": float(image["scores"][k])}
                    continue
                points = image["keypoints"][k] if kind == "keypoints" else np.zeros((1, 3))
                yield row | {
                    "iscrowd": int(image["iscrowd"][k]), "area": float(image["area"][k]),
                    "bbox": [0, 0, 1, 1], "num_keypoints": int((points[:, 2] > 0).sum()),
                }  # fmt: skip

    with contextlib.redirect_stdout(io.StringIO()):
        gt = coco.COCO()
        gt.dataset = {
            "images": [{"id": i + 1, "height": SIZE[0], "width": SIZE[1]} for i in range(len(preds))],
            "categories": [{"id": key, "name": name} for key, name in CLASSES.items()],
            "annotations": [{**row, "id": i + 1} for i, row in enumerate(rows(target))],
        }
        gt.createIndex()
        run = COCOeval(gt, gt.loadRes(list(rows(preds))), kind)
        run.evaluate()
        run.accumulate()
        run.summarize()
    return run.stats


@pytest.mark.parametrize("agnostic", [False, True])
@pytest.mark.parametrize("kind", ["segm", "keypoints"])
def test_the_numbers_are_those_of_pycocotools(kind, agnostic):
    preds, target = made(kind)
    stats = official(kind, preds, target, agnostic=agnostic)
    assert 0.1 < stats[0] < 0.99
    metric = metric_of(kind, preds, target, class_agnostic=agnostic)
    summary = metric.compute().summary
    numbers = [summary[name] for name in ("AP", "AP50", "AP75")]
    assert numbers == pytest.approx(stats[:3].tolist(), abs=1e-12)
    sized = stats[3:5] if kind == "keypoints" else stats[4:6]
    assert [summary["APm"], summary["APl"]] == pytest.approx(
        [np.nan if v < 0 else v for v in sized], abs=1e-12, nan_ok=True
    )
    again = [
        Metric.from_bytes(metric.to_bytes()),
        metric_of(kind, preds, target, class_agnostic=agnostic, flat=True),
    ]
    if kind == "segm":
        again.append(metric_of(kind, *compressed([preds, target]), class_agnostic=agnostic))
    for other in again:
        assert other.compute().summary == pytest.approx(summary, abs=0, nan_ok=True)


@pytest.mark.parametrize("protocol", ["coco", "dota", "ultralytics"])
@pytest.mark.parametrize("layout", ["angle", "corners", "flat corners"])
def test_oriented_boxes_are_those_of_evaluate(layout, protocol):
    preds, target = made("obb")
    corners = [[rectangle_corners(image["obb"]) for image in side] for side in (target, preds)]
    names = [str(i) for i in range(len(preds))]
    tables = [
        Dataset.from_arrays(
            images=names,
            categories=list(CLASSES.values()),
            image=np.repeat(np.arange(len(side)), [len(image["labels"]) for image in side]),
            category=(np.concatenate([image["labels"] for image in side]) == 8).astype(int),
            oriented=np.concatenate(quads),
            xyxy=np.concatenate([np.hstack([quad.min(axis=1), quad.max(axis=1)]) for quad in quads if len(quad)]),
            score=np.concatenate([image["scores"] for image in side]) if side is preds else None,
        )
        for side, quads in zip((target, preds), corners, strict=True)
    ]  # fmt: skip
    expected = evaluate(*tables, protocol, iou_type="obb").summary
    if layout != "angle":
        for side, quads in zip((target, preds), corners, strict=True):
            for image, quad in zip(side, quads, strict=True):
                image["obb"] = quad if layout == "corners" else quad.reshape(-1, 8)
    metric = Metric(CLASSES, protocol, iou_type="obb")
    metric.update(preds, target, range(len(preds)))
    assert metric.compute().summary == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("kind", FIELDS)
def test_shards_and_order_change_no_bit(kind):
    preds, target = made(kind)
    whole = metric_of(kind, preds, target)
    parts = []
    for i in reversed(range(len(preds))):
        parts.append(Metric(CLASSES, "coco", iou_type=kind))
        parts[-1].update([preds[i]], [target[i]], [i])
    first = Metric.from_bytes(parts[0].to_bytes())
    first.merge(Metric.from_bytes(part.to_bytes()) for part in parts[1:])
    assert str(first.compute().to_dict()) == str(whole.compute().to_dict())


def test_sigmas_may_be_of_any_number_of_points():
    points = np.array([[[10, 10, 2], [30, 30, 2], [0, 0, 0]]], float)
    metric = Metric(["a"], "coco", iou_type="keypoints", sigmas=(0.05, 0.05, 0.05))
    metric.update(
        [{"keypoints": points, "scores": [0.9], "labels": [0]}],
        [{"keypoints": points, "labels": [0], "area": [400]}],
    )
    assert metric.compute().summary["AP"] == pytest.approx(1)
    other = Metric(["a"], "coco", iou_type="keypoints")  # 17 points
    other.update(
        [{"keypoints": points, "scores": [0.9], "labels": [0]}], [{"keypoints": points, "labels": [0]}]
    )
    with pytest.raises(UsageError, match="sigmas: 3 are needed"):
        other.compute()


MASKS = np.ones((1, 4, 5), np.bool_)
WRONG = {
    "no masks": ("segm", {}, "image 4: there are no masks, and the metric compares masks"),
    "probabilities": ("segm", {"masks": MASKS / 2}, "image 4: masks: expected boolean arrays, found float64"),
    "one dimension too many": (
        "segm",
        {"masks": MASKS[:, None]},
        r"has shape \(1, 1, 4, 5\), expected \(1, height",
    ),
    "too many": ("segm", {"masks": np.ones((2, 4, 5), bool)}, "masks has 2 entries for 1 labels"),
    "damaged runs": (
        "segm",
        {"masks": [{"size": [4, 5], "counts": [3, 4]}]},
        "masks: mask 0: its runs have 7 pixels",
    ),
    "one dictionary": ("segm", {"masks": {"size": [4, 5], "counts": [20]}}, "expected a list of run lengths"),
    "another size": (
        "segm",
        {"masks": np.ones((1, 5, 4), bool)},
        "image 4: masks: expected one size for an image",
    ),
    "points": (
        "keypoints",
        {"keypoints": [[1, 2, 3]]},
        r"keypoints has shape \(1, 3\), expected \(1, k, 3\)",
    ),
    "not finite": ("keypoints", {"keypoints": [[[1, np.nan, 3]]]}, "keypoints: expected finite numbers"),
    "four numbers": ("obb", {"obb": [[1, 2, 3, 4]]}, r"obb has shape \(1, 4\), expected \(1, 5\)"),
}
RIGHT = {
    "segm": {"masks": MASKS},
    "keypoints": {"keypoints": [[[1, 2, 2]]]},
    "obb": {"obb": [[5, 5, 4, 4, 0]]},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_refused_batch_changes_nothing(name):
    kind, fields, message = WRONG[name]
    metric = Metric(["a"], "coco", iou_type=kind)
    target = {**RIGHT[kind], "labels": [0]}
    good = {**target, "scores": [0.5]}
    metric.update([good], [target], [0])
    before = metric.to_bytes()
    with pytest.raises(ValueError, match=message):
        metric.update([{"labels": [0], "scores": [0.5], **fields}], [target], [4])
    assert metric.to_bytes() == before


def test_one_metric_compares_one_kind_of_shape():
    with pytest.raises(ValueError, match="voc2012 compares bbox and dota obb"):
        Metric(["a"], ["voc2012", "dota"])
    boxes = Metric(["a"], "coco")
    with pytest.raises(ValueError, match="the other metric has switches"):
        boxes.merge(Metric(["a"], "coco", iou_type="segm"))
