"""Make a detection dataset of any size: ground truth with jittered detections and random false positives.

    python benchmarks/generate.py OUT --images 5000 --truths 36781 --detections 500000

writes OUT/instances.json, OUT/results.json (COCO) and OUT/txt/groundtruths/, OUT/txt/detections/ (one text
file per image: class, score, left, top, width, height). The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import pathlib

import numpy as np


def boxes(
    n_images: int, n_truths: int, n_detections: int, n_classes: int, seed: int
) -> dict[str, np.ndarray]:
    """Columns of a dataset; coordinates have one decimal, images are 640x480."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, n_classes + 1) ** 0.7  # a few classes are frequent, as in COCO
    share /= share.sum()

    def random_boxes(n: int) -> np.ndarray:
        size = np.exp(rng.normal(4.2, 0.9, (n, 2))).clip(4, [600, 440])
        corner = rng.random((n, 2)) * ([640, 480] - size)
        return np.concatenate([corner, size], axis=1).round(1)

    gt_image = np.sort(rng.integers(0, n_images, n_truths))
    gt_class = rng.choice(n_classes, n_truths, p=share)
    gt = random_boxes(n_truths)
    n_near = min(n_detections, int(n_truths * 2.5))
    source = rng.integers(0, n_truths, n_near)
    near = gt[source] + rng.normal(0, 0.08, (n_near, 4)) * gt[source][:, [2, 3, 2, 3]]
    near[:, 2:] = near[:, 2:].clip(1)
    near[:, :2] = near[:, :2].clip(0)
    n_far = n_detections - n_near
    det_image = np.concatenate([gt_image[source], rng.integers(0, n_images, n_far)])
    # A detector's false positives are mostly of classes that are on the image.
    by_image = np.searchsorted(gt_image, np.arange(n_images + 1))
    far_image = det_image[n_near:]
    low, high = by_image[far_image], by_image[far_image + 1]
    pick = low + (rng.random(n_far) * (high - low)).astype(np.int64)
    own = gt_class[np.minimum(pick, n_truths - 1)]
    other = rng.choice(n_classes, n_far, p=share)
    far_class = np.where((high > low) & (rng.random(n_far) < 0.4), own, other)
    wrong = rng.random(n_near) < 0.1
    near_class = np.where(wrong, rng.choice(n_classes, n_near, p=share), gt_class[source])
    score = np.concatenate([rng.beta(2, 2, n_near), rng.beta(0.6, 6, n_far)]).clip(0.001, 0.999).round(5)
    order = np.lexsort((-score, det_image))
    det = np.concatenate([near.round(1), random_boxes(n_far)])
    crowd = rng.random(n_truths) < 0.01
    return {
        "gt_image": gt_image,
        "gt_class": gt_class,
        "gt": gt,
        "crowd": crowd,
        "det_image": det_image[order],
        "det_class": np.concatenate([near_class, far_class])[order],
        "det": det[order],
        "score": score[order],
    }


def write_coco(out: pathlib.Path, data: dict[str, np.ndarray], n_images: int, n_classes: int) -> None:
    """Write instances.json and results.json."""
    area = (data["gt"][:, 2] * data["gt"][:, 3]).round(2).tolist()
    annotations = [
        {"id": n, "image_id": i + 1, "category_id": c + 1, "bbox": b, "area": a, "iscrowd": int(k)}
        for n, (i, c, b, a, k) in enumerate(
            zip(
                data["gt_image"].tolist(),
                data["gt_class"].tolist(),
                data["gt"].tolist(),
                area,
                data["crowd"].tolist(),
                strict=True,
            ),
            1,
        )
    ]
    instances = {
        "images": [
            {"id": i, "file_name": f"{i:012d}.jpg", "width": 640, "height": 480}
            for i in range(1, n_images + 1)
        ],
        "categories": [{"id": c, "name": f"class_{c}"} for c in range(1, n_classes + 1)],
        "annotations": annotations,
    }
    (out / "instances.json").write_text(json.dumps(instances, separators=(",", ":")))
    columns = (data[k].tolist() for k in ("det_image", "det_class", "det", "score"))
    with (out / "results.json").open("w") as file:
        for n, (i, c, b, s) in enumerate(zip(*columns, strict=True)):
            record = {"image_id": i + 1, "category_id": c + 1, "bbox": [round(v, 1) for v in b], "score": s}
            file.write(("," if n else "[") + json.dumps(record, separators=(",", ":")))
        file.write("]")


def write_text(out: pathlib.Path, data: dict[str, np.ndarray], n_images: int) -> None:
    """Write a file per image and side: class [score] left top width height."""
    for side, columns in (
        ("groundtruths", ("gt_image", "gt_class", "gt")),
        ("detections", ("det_image", "det_class", "det", "score")),
    ):
        folder = out / "txt" / side
        folder.mkdir(parents=True, exist_ok=True)
        image, category, box = (data[c].tolist() for c in columns[:3])
        score = data[columns[3]].tolist() if len(columns) > 3 else None
        lines: list[list[str]] = [[] for _ in range(n_images)]
        for n, (i, c, b) in enumerate(zip(image, category, box, strict=True)):
            confidence = f"{score[n]} " if score else ""
            lines[i].append(f"class{c + 1} {confidence}{b[0]:.1f} {b[1]:.1f} {b[2]:.1f} {b[3]:.1f}\n")
        for i, text in enumerate(lines, 1):
            (folder / f"{i:012d}.txt").write_text("".join(text))


def main() -> None:
    """Parse the arguments and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--truths", type=int, default=36781)
    parser.add_argument("--detections", type=int, default=500_000)
    parser.add_argument("--classes", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-txt", action="store_true", help="leave out the text folders")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    data = boxes(given.images, given.truths, given.detections, given.classes, given.seed)
    write_coco(given.out, data, given.images, given.classes)
    if not given.no_txt:
        write_text(given.out, data, given.images)


if __name__ == "__main__":
    main()
