"""Labels to review: precision and recall of the list that `odm eval --save` writes, with errors that are known.

    python benchmarks/review.py                       # three datasets, 200 errors planted in each
    python benchmarks/review.py --errors 60 --seed 3

Each dataset is random and right at first. A noisy detector is run on what is there: it overlooks some objects, places
boxes inexactly, confuses some classes, and sees objects where there are none, mostly with low scores. Then errors of six
kinds are planted in the labels, and the labels are evaluated with these detections. A row of the list is right if it
is on the image of an error, and its box is that of the wrong label or that of the object.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import odm

KINDS = ("missing box", "extra box", "wrong class", "moved box", "box too large", "duplicated label")
SIZE = 640
Boxes = NDArray[np.float64]


@dataclass
class Scene:
    """A kind of dataset, and how good the detector is on it."""

    n_images: int
    objects: int  # per image, on average
    n_classes: int
    sides: tuple[int, int]  # of boxes, in pixels
    overlooked: float
    confused: float
    false_per_image: float


SCENES = {
    "sparse": Scene(1200, 4, 5, (60, 260), 0.05, 0.02, 0.3),
    "crowded": Scene(300, 40, 3, (16, 60), 0.15, 0.03, 3.0),
    "many classes": Scene(1000, 7, 40, (30, 200), 0.10, 0.06, 1.0),
}


@dataclass
class Rows:
    """Boxes, with the image and the class of each, and scores if they are detections."""

    image: NDArray[np.int64]
    category: NDArray[np.int64]
    xyxy: Boxes
    score: NDArray[np.float64] | None = None

    def dataset(self, scene: Scene) -> odm.Dataset:
        """The boxes as a dataset."""
        return odm.Dataset.from_arrays(
            images=[f"{i:05d}.jpg" for i in range(scene.n_images)],
            categories=[f"class {i}" for i in range(scene.n_classes)],
            width=np.full(scene.n_images, SIZE),
            height=np.full(scene.n_images, SIZE),
            image=self.image,
            category=self.category,
            xyxy=self.xyxy,
            score=self.score,
        )


def compute_iou(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """Return (len(a), len(b)) IoU."""
    edges = np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2])
    inter = np.clip(edges, 0, None).prod(axis=2)
    area_a, area_b = (np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (a, b))
    return inter / (area_a[:, None] + area_b - inter)


def draw_boxes(n: int, scene: Scene, rng: np.random.Generator) -> Boxes:
    """Return (n, 4) boxes inside the image."""
    low, high = scene.sides
    sides = np.exp(rng.uniform(np.log(low), np.log(high), (n, 1))) * rng.uniform(0.7, 1.4, (n, 2))
    corner = rng.uniform(0, SIZE - sides)
    return np.hstack([corner, corner + sides])


def draw_truth(scene: Scene, rng: np.random.Generator) -> Rows:
    """Return objects that overlap with each other by an IoU of at most 0.4."""
    images, boxes = [], []
    for image, n in enumerate(rng.poisson(scene.objects, scene.n_images)):
        kept: Boxes = np.empty((0, 4))
        for box in draw_boxes(int(n), scene, rng):
            if not len(kept) or compute_iou(box[None], kept).max() <= 0.4:
                kept = np.vstack([kept, box])
        images.append(np.full(len(kept), image))
        boxes.append(kept)
    image = np.concatenate(images)
    shares = 1 / np.arange(1, scene.n_classes + 1)  # a long tail
    category = rng.choice(scene.n_classes, len(image), p=shares / shares.sum())
    return Rows(image, category, np.vstack(boxes))


def jitter(xyxy: Boxes, share: float, rng: np.random.Generator) -> Boxes:
    """Return boxes whose edges are moved by a share of the sides, as standard deviation."""
    sides = np.tile(xyxy[:, 2:] - xyxy[:, :2], 2)
    return np.clip(xyxy + rng.normal(0, share, xyxy.shape) * sides, 0, SIZE)


def detect(truth: Rows, scene: Scene, rng: np.random.Generator) -> Rows:
    """Return the detections of a noisy detector on what is there."""
    seen = rng.random(len(truth.image)) >= scene.overlooked
    n = int(seen.sum())
    category = truth.category[seen].copy()
    is_confused = rng.random(n) < scene.confused
    category[is_confused] = rng.integers(0, scene.n_classes, int(is_confused.sum()))
    score = np.where(is_confused, rng.beta(3, 4, n), rng.beta(7, 2, n))
    share = rng.choice([0.03, 0.06, 0.15], n, p=[0.6, 0.3, 0.1])  # some boxes are poor
    xyxy = np.vstack([jitter(box[None], s, rng) for box, s in zip(truth.xyxy[seen], share, strict=True)])
    n_false = rng.poisson(scene.false_per_image * scene.n_images)
    return Rows(
        np.append(truth.image[seen], rng.integers(0, scene.n_images, n_false)),
        np.append(category, rng.integers(0, scene.n_classes, n_false)),
        np.vstack([xyxy, draw_boxes(n_false, scene, rng)]),
        np.append(score, rng.beta(1.5, 5, n_false)),
    )


def plant(
    truth: Rows, scene: Scene, n: int, rng: np.random.Generator
) -> tuple[Rows, list[tuple[str, int, Boxes]]]:
    """Return the labels with n errors, and of each its kind, image, and (2, 4) wrong label and object."""
    rows = rng.choice(len(truth.image), n, replace=False)
    kinds = rng.permutation(np.arange(n) % len(KINDS))
    labels = Rows(truth.image.copy(), truth.category.copy(), truth.xyxy.copy())
    is_kept = np.ones(len(truth.image), bool)
    errors, extra = [], []
    for row, kind in zip(rows.tolist(), kinds.tolist(), strict=True):
        image, category, box = int(truth.image[row]), int(truth.category[row]), truth.xyxy[row]
        width, height = box[2:] - box[:2]
        label = box
        if kind == 0:
            is_kept[row] = False
        elif kind == 1:  # where nothing is
            others = truth.xyxy[truth.image == image]
            boxes = draw_boxes(200, scene, rng)
            label = box = boxes[np.argmin(compute_iou(boxes, others).max(axis=1))]
            extra.append((image, category, label))
        elif kind == 2:
            labels.category[row] = (category + rng.integers(1, scene.n_classes)) % scene.n_classes
        elif kind == 3:  # by 0.4 to 0.9 of its sides
            shift = rng.uniform(0.4, 0.9, 2) * rng.choice([-1, 1], 2) * [width, height]
            label = labels.xyxy[row] = box + np.tile(shift, 2)
        elif kind == 4:  # by 1.5 to 2.5 times its sides
            grown = (rng.uniform(1.5, 2.5) - 1) / 2 * np.array([-width, -height, width, height])
            label = labels.xyxy[row] = box + grown
        else:
            label = jitter(box[None], 0.04, rng)[0]
            extra.append((image, category, label))
        errors.append((KINDS[kind], image, np.stack([label, box])))
    more = Rows(
        np.array([e[0] for e in extra]), np.array([e[1] for e in extra]), np.array([e[2] for e in extra])
    )
    planted = Rows(
        np.append(labels.image[is_kept], more.image),
        np.append(labels.category[is_kept], more.category),
        np.clip(np.vstack([labels.xyxy[is_kept], more.xyxy]), 0, SIZE),
    )
    return planted, errors


def read_list(truth: odm.Dataset, detections: odm.Dataset) -> list[dict[str, str]]:
    """Return the rows of ``suspects.csv``."""
    with tempfile.TemporaryDirectory() as folder:
        odm.eval(truth, detections, "coco", save=os.path.join(folder, "out"))
        with (Path(folder) / "out" / "suspects.csv").open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))


def measure(rows: list[dict[str, str]], errors: list[tuple[str, int, Boxes]]) -> None:
    """Print precision and recall of the list, of its beginning, and of each kind."""
    image = np.array([int(row["image"][:-4]) for row in rows])
    boxes = np.array([[float(row[key]) for key in ("left", "top", "right", "bottom")] for row in rows])
    is_right, is_listed = np.zeros(len(rows), bool), np.zeros(len(errors), bool)
    first = np.full(len(errors), len(rows))  # the row that lists each error
    for i, (_, where, pair) in enumerate(errors):
        near = np.flatnonzero(image == where)
        hits = near[(compute_iou(boxes[near], pair) >= 0.5).any(axis=1)] if len(near) else near
        is_right[hits], is_listed[i] = True, len(hits) > 0
        first[i] = hits.min(initial=len(rows))
    n = len(errors)
    print(
        f"  whole list   {len(rows):4d} rows  precision {is_right.mean():.2f}  recall {is_listed.mean():.2f}"
    )
    begin = is_right[:n]
    print(
        f"  first {n:<5d}  {len(begin):4d} rows  precision {begin.mean():.2f}  recall {np.mean(first < n):.2f}"
    )
    for kind in KINDS:
        of_kind = np.array([error[0] == kind for error in errors])
        print(f"  {kind:17s} {is_listed[of_kind].sum():3d} of {of_kind.sum():3d} listed")
    reasons = np.array([row["kind"] for row in rows])
    for reason in dict.fromkeys(reasons.tolist()):
        of_reason = is_right[reasons == reason]
        print(f"  reason {reason:10s} {of_reason.sum():3d} of {len(of_reason):3d} right")


def main() -> None:
    """Make the datasets, plant errors and print how many are listed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--errors", type=int, default=200, help="errors in each dataset")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    for number, (name, scene) in enumerate(SCENES.items()):
        rng = np.random.default_rng([arguments.seed, number])
        truth = draw_truth(scene, rng)
        detections = detect(truth, scene, rng)
        labels, errors = plant(truth, scene, arguments.errors, rng)
        print(
            f"{name}: {scene.n_images} images, {len(truth.image)} objects, {len(detections.image)} detections"
        )
        measure(read_list(labels.dataset(scene), detections.dataset(scene)), errors)


if __name__ == "__main__":
    main()
