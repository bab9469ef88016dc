"""`odm.evaluate.Metric` beside other evaluators in a training loop: time per batch, time at the end, memory.

Times are of the processor, of all threads together, which other work on the machine disturbs least.

    python benchmarks/metric.py                              # 5 000 images with 100 detections each
    python benchmarks/metric.py --images 500 -n 3 odm hotcoco

Every contestant runs in a process of its own on the same random batches of 16 images; what is not installed is
left out. ``pip install torchmetrics torchvision pycocotools faster-coco-eval hotcoco`` gives all of them. The batches are
what that contestant takes: tensors for torchmetrics, dictionaries of COCO for those that take nothing else, and
making these is part of its time, as it is in a loop.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

CLASSES, BATCH, OBJECTS, DETECTIONS = 80, 16, 7, 100
Batch = list[tuple[int, dict[str, Any], dict[str, Any]]]


def batches(n_images: int) -> Iterator[Batch]:
    """Images with their number, objects and detections; boxes are left, top, right, bottom in 32 bits."""
    rng = np.random.default_rng(0)
    for start in range(0, n_images, BATCH):
        batch = []
        for image in range(start, min(start + BATCH, n_images)):
            corner = rng.uniform(0, 500, (OBJECTS, 2))
            boxes = np.hstack([corner, corner + rng.uniform(8, 140, (OBJECTS, 2))]).astype(np.float32)
            labels = rng.integers(0, CLASSES, OBJECTS)
            of = rng.integers(0, OBJECTS, DETECTIONS)
            found = boxes[of] + rng.normal(0, 6, (DETECTIONS, 4)).astype(np.float32)
            found[:, 2:] = np.maximum(found[:, 2:], found[:, :2] + 1)
            own = np.where(rng.random(DETECTIONS) < 0.7, labels[of], rng.integers(0, CLASSES, DETECTIONS))
            scores = rng.random(DETECTIONS).astype(np.float32)
            batch.append(
                (image, {"boxes": boxes, "labels": labels}, {"boxes": found, "scores": scores, "labels": own})
            )
        yield batch


class Odm:
    """Our own."""

    needs = ("odm",)

    def __init__(self) -> None:
        from odm.evaluate import Metric

        self.metric = Metric([str(i) for i in range(CLASSES)], "coco")

    def update(self, batch: Batch) -> None:
        self.metric.update(
            [found for _, _, found in batch], [truth for _, truth, _ in batch], [i for i, _, _ in batch]
        )

    def compute(self) -> float:
        return self.metric.compute().summary["AP"]


class Torchmetrics:
    """Its two backends."""

    needs = ("torchmetrics", "torch", "torchvision", "pycocotools")
    backend = "pycocotools"

    def __init__(self) -> None:
        from torchmetrics.detection import MeanAveragePrecision

        self.metric = MeanAveragePrecision(backend=self.backend)
        self.metric.warn_on_many_detections = False

    def update(self, batch: Batch) -> None:
        import torch

        def tensors(side: dict[str, Any]) -> dict[str, Any]:
            return {k: torch.from_numpy(v) for k, v in side.items()}

        self.metric.update(
            [tensors(found) for _, _, found in batch], [tensors(truth) for _, truth, _ in batch]
        )

    def compute(self) -> float:
        return float(self.metric.compute()["map"])


class TorchmetricsFaster(Torchmetrics):
    needs = ("torchmetrics", "torch", "torchvision", "faster_coco_eval")
    backend = "faster_coco_eval"


def records(image: int, side: dict[str, Any]) -> list[dict[str, Any]]:
    """Boxes of an image as dictionaries of COCO."""
    boxes = side["boxes"].astype(np.float64)
    wh = boxes[:, 2:] - boxes[:, :2]
    columns = [np.hstack([boxes[:, :2], wh]).tolist(), side["labels"].tolist(), wh.prod(axis=1).tolist()]
    columns.append(side["scores"].tolist() if "scores" in side else [None] * len(boxes))
    return [
        {
            "image_id": image,
            "category_id": c,
            "bbox": b,
            "area": a,
            "iscrowd": 0,
            **({} if s is None else {"score": s}),
        }
        for b, c, a, s in zip(*columns, strict=True)
    ]


class Pycocotools:
    """Lists of dictionaries, evaluated at the end."""

    needs = ("pycocotools",)

    def __init__(self) -> None:
        self.images: list[dict[str, Any]] = []
        self.truth: list[dict[str, Any]] = []
        self.found: list[dict[str, Any]] = []

    def update(self, batch: Batch) -> None:
        for image, truth, found in batch:
            self.images.append({"id": image})
            self.truth += records(image, truth)
            self.found += records(image, found)

    def classes(self) -> tuple[Any, Any]:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval

        return COCO, COCOeval

    def compute(self) -> float:
        coco, evaluator = self.classes()
        truth = coco()
        categories = [{"id": i, "name": str(i)} for i in range(CLASSES)]
        truth.dataset = {"images": self.images, "annotations": self.truth, "categories": categories}
        for i, record in enumerate(self.truth, 1):
            record["id"] = i
        with contextlib.redirect_stdout(io.StringIO()):
            truth.createIndex()
            run = evaluator(truth, truth.loadRes(self.found), "bbox")
            run.evaluate()
            run.accumulate()
            run.summarize()
        return float(run.stats[0])


class FasterCocoEval(Pycocotools):
    needs = ("faster_coco_eval",)

    def classes(self) -> tuple[Any, Any]:
        from faster_coco_eval import COCO, COCOeval_faster

        return COCO, COCOeval_faster


class Hotcoco:
    """Its streaming evaluation, which matches in every batch."""

    needs = ("hotcoco",)

    def __init__(self) -> None:
        import hotcoco

        categories = [{"id": i, "name": str(i)} for i in range(CLASSES)]
        self.stream = hotcoco.StreamingEval(categories, iou_type="bbox")
        self.n = 0

    def update(self, batch: Batch) -> None:
        truth = [record for image, side, _ in batch for record in records(image, side)]
        for record in truth:
            self.n += 1
            record["id"] = self.n
        found = np.concatenate([self.rows(image, side) for image, _, side in batch])
        self.stream.update([{"id": i, "width": 640, "height": 640} for i, _, _ in batch], truth, found)

    @staticmethod
    def rows(image: int, side: dict[str, Any]) -> np.ndarray[Any, Any]:
        """Image, left, top, width, height, score and class, as ``loadRes`` takes them."""
        boxes = side["boxes"].astype(np.float64)
        columns = (np.full(len(boxes), image), *boxes[:, :2].T, *(boxes[:, 2:] - boxes[:, :2]).T)
        return np.stack([*columns, side["scores"].astype(np.float64), side["labels"]], axis=1)

    def compute(self) -> float:
        run = self.stream.finalize()
        run.accumulate()
        with contextlib.redirect_stdout(io.StringIO()):
            run.summarize()
        return float(run.stats[0])


CONTESTANTS: dict[str, Any] = {
    "odm": Odm,
    "hotcoco": Hotcoco,
    "faster-coco-eval": FasterCocoEval,
    "pycocotools": Pycocotools,
    "torchmetrics": Torchmetrics,
    "torchmetrics-faster": TorchmetricsFaster,
}


def measure(name: str, n_images: int) -> dict[str, float]:
    """What one contestant takes, in this process."""
    contestant, times, kept = CONTESTANTS[name](), [], list(batches(n_images))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for batch in kept:
        start = time.process_time()
        contestant.update(batch)
        times.append(time.process_time() - start)
    start = time.process_time()
    ap = contestant.compute()
    last = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"update": statistics.median(times), "compute": last, "grown": (peak - before) / 1024, "AP": ap}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=[], help=", ".join(CONTESTANTS))
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("-n", "--rounds", type=int, default=3)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        print(json.dumps(measure(given.only, given.images)))
        return
    names = []
    for name in given.names or CONTESTANTS:
        missing = [m for m in CONTESTANTS[name].needs if importlib.util.find_spec(m) is None]
        if missing:
            print(f"{name} is left out: {', '.join(missing)} not installed")
        else:
            names.append(name)
    results: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(given.rounds):
        for name in names:  # one after the other, so that a machine that slows down slows all of them
            command = [sys.executable, __file__, "--only", name, "--images", str(given.images)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{name}: {done.stderr.strip().splitlines()[-1]}")
            results[name].append(json.loads(done.stdout.splitlines()[-1]))
    print(f"{given.images} images, {DETECTIONS} detections each; medians of {given.rounds} rounds")
    print(f"{'':20} {'update, ms':>11} {'compute, s':>11} {'memory, MiB':>12} {'AP':>10}")
    for name in names:
        update, last, grown, ap = (
            statistics.median(r[key] for r in results[name]) for key in ("update", "compute", "grown", "AP")
        )
        print(f"{name:20} {1e3 * update:11.2f} {last:11.2f} {grown:12.0f} {ap:10.6f}")


if __name__ == "__main__":
    main()
