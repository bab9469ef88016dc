"""`Metric`: what training loops give it, and that order, batching and sharding change no bit."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import examples

from odm.evaluate import PROTOCOLS, Metric, evaluate
from odm.issues import DataError
from odm.tables import Dataset

CLASSES = ["cat", "dog", "a/b", "a b"]


def batch(rng, n_images, *, dtype=np.float32, most=8):
    """Predictions and targets of some images with equal scores, crowds and empty images among them."""

    def boxes(n):
        start = rng.integers(0, 60, (n, 2))
        return np.hstack([start, start + rng.integers(1, 40, (n, 2))]).astype(dtype)

    preds, target = [], []
    for _ in range(n_images):
        n, m = rng.integers(0, most, 2)
        truth = boxes(m)
        found = np.vstack([truth[: n // 2] + dtype(1), boxes(n - len(truth[: n // 2]))])
        preds.append(
            {
                "boxes": found,
                "scores": (rng.integers(1, 6, n) / 8).astype(dtype),
                "labels": rng.integers(0, len(CLASSES), n),
            }
        )
        target.append(
            {
                "boxes": truth,
                "labels": rng.integers(0, len(CLASSES), m),
                "iscrowd": rng.random(m) < 0.1,
                "area": rng.uniform(1, 4000, m),
            }
        )
    return preds, target


def same(one, two):
    """Whether two evaluations are equal to the last bit."""
    return json.dumps(one.to_dict()) == json.dumps(two.to_dict())


def filled(preds, target, ids, cuts=(), **options):
    metric = Metric(CLASSES, "coco", **options)
    for a, b in zip([0, *cuts], [*cuts, len(preds)], strict=True):
        metric.update(preds[a:b], target[a:b], None if ids is None else ids[a:b])
    return metric


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 2**32), text=st.booleans(), with_ids=st.booleans())
def test_order_batches_and_shards_change_no_bit(seed, text, with_ids):
    rng = np.random.default_rng(seed)
    n = 12
    preds, target = batch(rng, n)
    ids = [f"img {i}" if text else int(i) for i in rng.permutation(100)[:n]] if with_ids else None
    whole = filled(preds, target, ids)
    order = rng.permutation(n).tolist()
    mixed = [[column[i] for i in order] for column in (preds, target, ids or [None] * n)]
    cuts = sorted(rng.integers(0, n + 1, 3).tolist())
    shuffled = filled(*mixed[:2], mixed[2] if with_ids else None, cuts)
    if with_ids:
        assert same(whole.compute(), shuffled.compute())
    else:  # of one process the order of input decides, of several a hash
        assert same(whole.compute(), filled(preds, target, None, cuts).compute())
        whole = filled(preds[:5], target[:5], None)
        whole.merge(filled(preds[5:], target[5:], None))
    shards = [filled([p], [t], None if ids is None else [i]) for p, t, i in zip(*mixed, strict=True)]
    first = Metric.from_bytes(shards[0].to_bytes())
    first.merge(Metric.from_bytes(s.to_bytes()) for s in shards[1:])
    assert same(whole.compute(), first.compute())
    for kept in (shuffled, first):
        assert same(kept.compute(), Metric.from_bytes(kept.to_bytes()).compute())


def test_equal_scores_without_ids_rank_in_the_order_of_input():
    pycocotools = pytest.importorskip("pycocotools.coco")
    from pycocotools.cocoeval import COCOeval

    rng = np.random.default_rng(4)
    n = 25
    names = {5: "cat", 90: "dog"}
    truth = {"images": [{"id": i + 1} for i in range(n)], "categories": [{"id": k} for k in names]}
    truth["annotations"], results, metric = [], [], Metric(names, "coco", box="xywh")
    for i in range(n):
        boxes = np.column_stack([rng.uniform(0, 50, (3, 2)), rng.uniform(20, 90, (3, 2))])
        found = boxes + rng.normal(0, 6, (3, 4))
        labels, scores = rng.choice([5, 90], 3), rng.choice([0.5, 0.75], 3)
        metric.update(
            [{"boxes": found, "scores": scores, "labels": labels}], [{"boxes": boxes, "labels": labels}]
        )
        for box, other, label, score in zip(boxes, found, labels.tolist(), scores.tolist(), strict=True):
            about = {"image_id": i + 1, "category_id": label}
            area = float(box[2] * box[3])
            number = len(truth["annotations"]) + 1
            truth["annotations"].append(
                {**about, "id": number, "bbox": box.tolist(), "area": area, "iscrowd": 0}
            )
            results.append({**about, "bbox": other.tolist(), "score": score})
    gt = pycocotools.COCO()
    gt.dataset = truth
    gt.createIndex()
    evaluation = COCOeval(gt, gt.loadRes(results), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    assert metric.compute().summary["AP"] == pytest.approx(evaluation.stats[0], abs=1e-12)
    assert [row.name for row in metric.compute().results[0].classes] == ["cat", "dog"]
    again = Metric.from_bytes(metric.to_bytes())
    assert same(again.compute(), metric.compute())
    merged = Metric(names, "coco", box="xywh")
    merged.merge(again)  # of one process alone: nothing else was merged
    assert same(merged.compute(), metric.compute())


def test_classes_have_ids():
    image = {"boxes": [[0, 0, 9, 9]], "scores": [0.9], "labels": [90]}
    metric = Metric({90: "dog", "5": "cat"}, "coco")
    assert metric.classes == ("cat", "dog")
    metric.update([image], [image])
    assert metric.scalars()["coco/AP/dog"] == pytest.approx(1)
    with pytest.raises(ValueError, match=r"image 0: labels: expected an id of a class: 5, 90, found 1"):
        metric.update([{**image, "labels": [1]}], [image])


def test_relative_boxes_are_refused_with_what_a_metric_has():
    boxes = np.array([[10, 10, 50, 50], [100, 90, 200, 290]])
    metric = Metric(["a"], "coco")
    metric.update(
        [{"boxes": boxes / 300, "scores": [0.9, 0.8], "labels": [0, 0]}], [{"boxes": boxes, "labels": [0, 0]}]
    )
    with pytest.raises(DataError) as caught:
        metric.compute()
    assert "multiply relative boxes by the width and height of their image" in str(caught.value)
    assert "--" not in str(caught.value)


@pytest.mark.parametrize("protocol", [p for p, rules in PROTOCOLS.items() if not rules.labelled_only])
@pytest.mark.parametrize("box", ["xyxy", "xywh", "cxcywh"])
def test_the_numbers_are_those_of_evaluate(protocol, box):
    rng = np.random.default_rng(5)
    preds, target = batch(rng, 20, dtype=np.float64)
    rows = {"image": [], "boxes": [], "labels": [], "scores": []}, {"image": [], "boxes": [], "labels": []}
    given = ([], [])
    for i, sides in enumerate(zip(preds, target, strict=True)):
        for side, out, row in zip(sides, given, rows, strict=True):
            corners = side["boxes"]
            wh = corners[:, 2:] - corners[:, :2]
            start = {"xyxy": corners[:, :2], "xywh": corners[:, :2], "cxcywh": corners[:, :2] + wh / 2}[box]
            out.append({**side, "boxes": np.hstack([start, corners[:, 2:] if box == "xyxy" else wh])})
            row["image"].append(np.full(len(corners), i))
            for key in row.keys() - {"image"}:
                row[key].append(side[key])
    names = [str(i) for i in range(20)]
    columns = [{k: np.concatenate(v) for k, v in row.items()} for row in rows]
    sides = [
        Dataset.from_arrays(
            images=names,
            categories=CLASSES,
            image=c["image"],
            category=c["labels"],
            xyxy=c["boxes"],
            score=c.get("scores"),
            flags=None if "scores" in c else np.concatenate([t["iscrowd"] for t in target]).astype(np.uint16),
            area=None if "scores" in c else np.concatenate([t["area"] for t in target]),
        )
        for c in columns
    ]
    wanted = evaluate(sides[1], sides[0], protocol)
    metric = Metric(CLASSES, protocol, box=box)
    metric.update(*given, image_ids=range(20))
    assert metric.compute().summary == pytest.approx(wanted.summary, nan_ok=True, abs=1e-12)


def test_an_image_given_twice_counts_once():
    rng = np.random.default_rng(1)
    preds, target = batch(rng, 6)
    whole = filled(preds, target, list(range(6)))
    padded = filled([*preds, *preds[:2]], [*target, *target[:2]], [*range(6), 0, 1])
    assert (whole.duplicates, padded.duplicates) == (0, 2)
    assert same(whole.compute(), padded.compute())
    without = filled([*preds, *preds[:2]], [*target, *target[:2]], None)
    assert without.duplicates == 0
    assert without.compute().classes != whole.compute().classes


def test_of_copies_that_differ_the_choice_does_not_depend_on_order():
    rng = np.random.default_rng(2)
    preds, target = batch(rng, 4, most=6)
    other, _ = batch(rng, 4, most=6)
    one = filled([*preds, *other], [*target, *target], [*range(4), *range(4)])
    two = filled([*other, *preds], [*target, *target], [*range(4), *range(4)])
    assert one.duplicates == 4
    assert same(one.compute(), two.compute())


def test_the_flat_form_says_the_same_as_the_listed():
    rng = np.random.default_rng(3)
    preds, target = batch(rng, 9)
    listed = filled(preds, target, list(range(9)))
    sides = []
    for images in (preds, target):
        owner = np.repeat(np.arange(9), [len(p["labels"]) for p in images])
        flat = {k: np.concatenate([p[k] for p in images]) for k in images[0]} | {"image": owner}
        # Rows of several images may be mixed; those of one keep their order.
        order = np.argsort(rng.permutation(9)[owner], kind="stable")
        sides.append({k: v[order] for k, v in flat.items()})
    metric = Metric(CLASSES, "coco")
    metric.update(*sides, image_ids=range(9))
    assert same(listed.compute(), metric.compute())
    only_named = Metric(CLASSES, "coco")
    only_named.update(*sides)
    assert len(only_named.compute().results[0].joined.images) == len(
        set(sides[0]["image"].tolist()) | set(sides[1]["image"].tolist())
    )


GOOD = {"boxes": [[0, 0, 5, 5]], "scores": [0.5], "labels": [1]}
TRUE = {"boxes": [[0, 0, 5, 5]], "labels": [1]}
REFUSED = {
    "too few targets": (([GOOD, GOOD], [TRUE], [1, 2]), "preds has 2 images, target 1"),
    "too few ids": (([GOOD], [TRUE], [1, 2]), "image_ids has 2 entries for 1 images"),
    "no scores": (([{**GOOD, "scores": None}], [TRUE], [4]), "image 4: scores"),
    "missing key": (([TRUE], [TRUE], [4]), "image 4: there is no scores"),
    "label too high": (
        ([GOOD], [{**TRUE, "labels": [4]}], [4]),
        r"image 4: labels: expected 0\.\.3, found 4",
    ),
    "negative label": (([{**GOOD, "labels": [-1]}], [TRUE], [4]), "image 4: labels"),
    "fraction": (
        ([{**GOOD, "labels": [0.5]}], [TRUE], [4]),
        "image 4: labels: expected whole numbers, found 0.5",
    ),
    "nan box": (([{**GOOD, "boxes": [[0, 0, np.nan, 1]]}], [TRUE], [4]), "image 4: boxes: expected finite"),
    "inverted": (([{**GOOD, "boxes": [[9, 0, 5, 5]]}], [TRUE], [4]), "image 4: boxes: right < left"),
    "nan score": (
        ([{**GOOD, "scores": [np.nan]}], [TRUE], [4]),
        "image 4: scores: expected finite numbers, found nan",
    ),
    "shape": (([{**GOOD, "boxes": [[0, 0, 5]]}], [TRUE], [4]), r"image 4: boxes has shape \(1, 3\)"),
    "counts": (([{**GOOD, "scores": [0.5, 0.4]}], [TRUE], [4]), r"image 4: scores has shape \(2,\)"),
    "crowd": (([GOOD], [{**TRUE, "iscrowd": [0, 1]}], [4]), r"image 4: iscrowd has shape \(2,\)"),
    "spelling": (([GOOD], [{**TRUE, "is_crowd": [0]}], [4]), "image 4: is_crowd: not a field, use iscrowd"),
    "words": (([{**GOOD, "boxes": [["a", "b", "c", "d"]]}], [TRUE], [4]), "image 4: boxes"),
    "not a mapping": (([5], [TRUE], [4]), "image 4: expected a mapping"),
    "negative area": (([GOOD], [{**TRUE, "area": [-1]}], [4]), "image 4: area: expected square pixels"),
    "mixed ids": (
        ([GOOD, GOOD], [TRUE, TRUE], [4, "a"]),
        "image_ids: some are whole numbers and some are text",
    ),
    "bool id": (([GOOD], [TRUE], [True]), "image_ids: expected whole numbers or text, found True"),
    "no id": (([GOOD], [TRUE], [None]), "image_ids: expected whole numbers or text, found None"),
    "text after numbers": (([GOOD], [TRUE], ["a"]), "earlier batches had whole numbers, this one has text"),
    "none after numbers": (([GOOD], [TRUE], None), "earlier batches had whole numbers, this one has nothing"),
    "flat without image": ((GOOD, TRUE, None), "preds has no image"),
    "flat and not": ((GOOD | {"image": [1]}, [TRUE], None), "target must be one too"),
    "flat strange image": (
        (GOOD | {"image": [5]}, TRUE | {"image": [1]}, [1]),
        "image 5 is not in image_ids",
    ),
    "flat counts": (
        (GOOD | {"image": [5, 5]}, TRUE | {"image": [1]}, None),
        "target: image has 1 rows|preds: image has 2 rows, labels 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_batch_changes_nothing(name):
    call, message = REFUSED[name]
    metric = Metric(CLASSES, "coco")
    metric.update([GOOD], [TRUE], [0])
    before = metric.to_bytes()
    with pytest.raises(ValueError, match=message):
        metric.update(*call)
    assert metric.to_bytes() == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Metric(["a", "a"], "coco"), "listed twice"),
        *(
            (lambda bad=bad: Metric(bad, "coco"), "list of names")
            for bad in ("cat", [""], ["cat", ""], ["cat", 7], [None])
        ),
        (lambda: Metric({"x": "cat"}, "coco"), "whole numbers from 0 as ids of classes, found 'x'"),
        (lambda: Metric({1: "cat", "1": "dog"}, "coco"), "the id 1 is listed twice"),
        (lambda: Metric({1: "cat", 2: "cat"}, "coco"), "'cat' is listed twice"),
        (lambda: Metric(["a"], "cocoo"), "cocoo"),
        (lambda: Metric(["a"], "lvis"), "lvis needs to know which classes"),
        (lambda: Metric(["a"], "coco", only_classes=["b"]), "only_classes: there is no class 'b'"),
        (lambda: Metric(["a"], "coco", box="ltrb"), "choose xyxy, xywh or cxcywh"),
        (lambda: Metric(["a"], "coco", hierarchy={}), "hierarchy is not an option"),
        (lambda: Metric(["a"], "coco", fuel=1), "fuel is not an option"),
        (
            lambda: Metric(["a"], "coco").merge(Metric(["b"], "coco")),
            r"has classes \['b'\], this one \['a'\]",
        ),
    ],
)
def test_wrong_settings_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_damaged_states_are_refused_or_hold_what_fits(data):
    preds, target = batch(np.random.default_rng(0), 3)
    state = bytearray(filled(preds, target, [1, 2, 3]).to_bytes())
    kind = data.draw(st.sampled_from(["cut", "flip", "more"]))
    if kind == "cut":
        state = state[: data.draw(st.integers(0, len(state) - 1))]
    elif kind == "more":
        state += b"x"
    else:
        at = data.draw(st.integers(0, len(state) - 1))
        state[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        metric = Metric.from_bytes(bytes(state))
    except ValueError:
        return
    pytest.fail(f"{kind} was not noticed: {metric!r}")


def test_a_state_of_another_version_is_refused():
    state = Metric(["a"], "coco").to_bytes().replace(b'"version": 2', b'"version": 3')
    with pytest.raises(ValueError, match="version 3"):
        Metric.from_bytes(state)
    with pytest.raises(ValueError, match="not the state of a metric"):
        Metric.from_bytes(b"\x80\x04pickle")


def test_scalars_are_named_for_a_logger():
    metric = Metric(["a:b", "a;b", "never"], ["coco", "voc2012"], iou=[0.5, 0.75])
    metric.update(
        [{"boxes": [[0, 0, 9, 9]] * 2, "scores": [0.9, 0.8], "labels": [0, 1]}],
        [{"boxes": [[0, 0, 9, 9]] * 2, "labels": [0, 1]}],
        [1],
    )
    scalars = metric.scalars("val/")
    assert {"val/coco/AP", "val/coco/AP/a_b", "val/coco/AP/a_b_2", "val/voc2012_0.5/mAP"} <= scalars.keys()
    assert not any("never" in key for key in scalars)
    assert all(type(v) is float for v in scalars.values())


def test_the_names_of_scalars_do_not_depend_on_what_is_defined():
    seen = []
    for label in (0, 1):
        metric = Metric(["a:b", "a;b"], "coco")
        image = {"boxes": [[0, 0, 9, 9]], "scores": [0.9], "labels": [label]}
        metric.update([image], [image])
        seen.append({k for k in metric.scalars() if k.startswith("coco/AP/")})
    assert seen == [{"coco/AP/a_b"}, {"coco/AP/a_b_2"}]


@pytest.mark.parametrize("ids", [None, [1, 2]])
def test_an_epoch_without_detections_or_objects_is_no_error(ids):
    nothing = {"boxes": [], "scores": [], "labels": []}
    metric = Metric(CLASSES, "coco")
    metric.update([nothing, nothing], [TRUE, TRUE], ids)
    assert metric.compute().summary["AP"] == 0
    metric.reset()
    metric.update([GOOD, GOOD], [nothing, nothing], ids)
    assert np.isnan(metric.compute().summary["AP"])


def test_areas_may_come_with_some_images_only():
    ids = [1, 2]
    with_area = filled([GOOD, GOOD], [{**TRUE, "area": [1e4]}, TRUE], ids)
    assert [with_area.compute().summary[f"AP{size}"] for size in "sl"] == pytest.approx([1, 1])
    one, two = filled([GOOD], [{**TRUE, "area": [1e4]}], [1]), filled([GOOD], [TRUE], [2])
    two.merge(one)
    assert same(two.compute(), with_area.compute())


def test_reset_forgets():
    preds, target = batch(np.random.default_rng(0), 3)
    metric = filled(preds, target, [1, 2, 3])
    metric.reset()
    assert metric.to_bytes() == Metric(CLASSES, "coco").to_bytes()


class Tensor:
    """An array as PyTorch gives it: on a device, with a graph behind it, perhaps of a type NumPy lacks."""

    def __init__(self, values, *, half=False, at="cuda"):
        self.values, self.half, self.at = np.asarray(values), half, at

    def detach(self):
        return Tensor(self.values, half=self.half, at="detached")

    def cpu(self):
        assert self.at == "detached"
        return Tensor(self.values, half=self.half, at="cpu")

    def float(self):
        return Tensor(self.values.astype(np.float32), at=self.at)

    def __array__(self, dtype=None, copy=None):
        if self.half or self.at != "cpu":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values


def test_arrays_of_other_libraries_are_taken():
    preds, target = batch(np.random.default_rng(4), 5)
    plain = filled(preds, target, range(5))
    wrapped = [
        [{k: Tensor(v, half=k in ("boxes", "scores")) for k, v in image.items()} for image in side]
        for side in (preds, target)
    ]
    assert same(plain.compute(), filled(*wrapped, range(5)).compute())


def test_real_tensors_are_taken():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    preds, target = batch(np.random.default_rng(4), 5)
    plain = filled(preds, target, range(5))
    for kind in (torch.float32, torch.float64):
        tensors = [
            [
                {
                    k: torch.tensor(v, dtype=kind, requires_grad=True)
                    if k in ("boxes", "scores")
                    else torch.tensor(v)
                    for k, v in image.items()
                }
                for image in side
            ]
            for side in (preds, target)
        ]
        assert same(plain.compute(), filled(*tensors, torch.arange(5)).compute())


def test_the_state_takes_24_bytes_a_detection():
    rng = np.random.default_rng(0)
    metric = Metric(CLASSES, "coco")
    n = 0
    for i in range(10):
        preds = [
            {
                "boxes": np.sort(rng.random((100, 4), np.float32), axis=1),
                "scores": rng.random(100, np.float32),
                "labels": rng.integers(0, 4, 100),
            }
            for _ in range(16)
        ]
        target = [{"boxes": np.zeros((0, 4), np.float32), "labels": np.zeros(0, int)} for _ in range(16)]
        metric.update(preds, target, range(16 * i, 16 * i + 16))
        n += 1600
    assert len(metric.to_bytes()) < 24 * n + 16 * 160 + 2000
