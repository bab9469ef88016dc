"""Evaluating masks, keypoints and oriented boxes from files, beside pycocotools, faster-coco-eval and hotcoco.

    python benchmarks/shapes.py                   # all cases, three rounds
    python benchmarks/shapes.py segm -n 1 --images 500

Processor time of all threads and peak memory; the ratio to odm is the median of the rounds' ratios. The numbers of
every contestant (AP, or AP50 and AP75 of oriented boxes) are printed too: they have to be the same. Data are random:
5 000 images with 36 800 outlines of about 20 corners and 500 000 detected masks; 11 000 people with 125 000
detections; 100 000 oriented boxes and as many detections on 1 000 images of 15 classes, and on 10 images of one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from compare import HERE, WORK, once, peers

from odm.masks.polygons import rasterise_all
from odm.masks.runs import write_texts
from odm.tables.shapes import rectangle_corners

OFFICIAL = """
import sys
from {module} import COCO
from {module2} import {run}
truth = COCO(sys.argv[1])
run = {run}(truth, truth.{load}(sys.argv[2]), sys.argv[3])
run.evaluate(); run.accumulate(); run.summarize()
print(list(run.stats))
"""
SCRIPTS = {
    "pycocotools": ("pycocotools.coco", "pycocotools.cocoeval", "COCOeval", "loadRes"),
    "faster-coco-eval": ("faster_coco_eval", "faster_coco_eval", "COCOeval_faster", "loadRes"),
    "hotcoco": ("hotcoco", "hotcoco", "COCOeval", "load_res"),
}
CASES = {"segm": ("segm", *SCRIPTS), "keypoints": ("keypoints", *SCRIPTS),
         "obb-many": ("obb", "hotcoco"), "obb-crowded": ("obb", "hotcoco")}  # fmt: skip
"""What is compared, and with whom."""
CHUNK = 20_000


def blobs(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n, 20, 2) outlines around a middle, in an image of 640 x 480."""
    size = np.exp(rng.normal(3.6, 0.8, (n, 1, 1))).clip(4, 200)
    angle = np.linspace(0, 2 * np.pi, 20, endpoint=False)[None]
    radius = size[..., 0] * (0.8 + 0.25 * rng.normal(size=(n, 20))).clip(0.2, 1.6)
    around = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
    return (around + rng.random((n, 1, 2)) * [640, 480]).clip(0, [640, 480])


def texts_of(outlines: np.ndarray) -> Iterator[str]:
    """The masks as COCO's text."""
    for start in range(0, len(outlines), CHUNK):
        part = outlines[start : start + CHUNK]
        n, k = part.shape[:2]
        size = np.full(n, 480), np.full(n, 640)
        runs = rasterise_all(part.reshape(-1, 2), np.arange(n + 1) * k, np.arange(n + 1), *size)
        text, first = write_texts(*runs.counts(size[0] * size[1]))
        yield from (text[a:b].tobytes().decode() for a, b in itertools.pairwise(first))


def boxes_around(points: np.ndarray) -> list[list[float]]:
    low, high = points.min(axis=1), points.max(axis=1)
    return np.concatenate([low, high - low], axis=1).round(2).tolist()


def write(folder: Path, sizes: tuple[int, int], classes: int, rows: Any, found: Any) -> None:
    """The files of a case; `sizes` are the number of images and of ground truths."""
    folder.mkdir(parents=True)
    images = [{"id": i, "file_name": f"{i}.jpg", "width": 640, "height": 480} for i in range(1, sizes[0] + 1)]
    points = {"keypoints": [str(i) for i in range(17)]}
    categories = [{"id": k, "name": f"c{k}", **points} for k in range(1, classes + 1)]
    data = {"images": images, "categories": categories, "annotations": list(rows)}
    (folder / "gt.json").write_text(json.dumps(data))
    (folder / "det.json").write_text(json.dumps(list(found)))


def make(name: str, n_images: int) -> Path:
    """The files of a case, made if they are not there."""
    folder, rng = WORK / f"shapes-{name}-{n_images}", np.random.default_rng(0)
    if folder.exists():
        return folder
    per_image, found = {"segm": (7.36, 100), "keypoints": (2.2, 25)}.get(name, (20, 20))
    n, m = int(n_images * per_image), int(n_images * found)
    classes = {"segm": 80, "obb-many": 15}.get(name, 1)
    if name.startswith("obb"):
        n_images = n_images // 5 if name == "obb-many" else max(n_images // 500, 1)
    image, category = rng.integers(1, n_images + 1, n), rng.integers(1, classes + 1, n)
    source, score = rng.integers(0, n, m), rng.random(m).round(4)
    owners = zip(image.tolist(), category.tolist(), strict=True)
    found_owners = zip(image[source].tolist(), category[source].tolist(), score.tolist(), strict=True)
    keys = ("image_id", "category_id", "score")
    truth = [dict(zip(keys, own, strict=False)) for own in owners]
    detected = [dict(zip(keys, own, strict=True)) for own in found_owners]
    near = rng.normal(0, 1, (m, 1, 2)) * rng.choice([1, 4, 20], (m, 1, 1))
    if name == "segm":
        outlines = blobs(rng, n).round(1)
        moved = outlines[source] + near + rng.normal(0, 1.5, (m, 20, 2))
        size = [480, 640]
        shapes = [{"segmentation": [flat]} for flat in outlines.reshape(n, -1).tolist()]
        own = [
            {"segmentation": {"size": size, "counts": text}} for text in texts_of(moved.clip(0, [640, 480]))
        ]
        area, around = (boxes := np.array(boxes_around(outlines)))[:, 2] * boxes[:, 3] * 0.6, boxes.tolist()
    elif name == "keypoints":
        outlines = blobs(rng, n)[:, :17].round(1)
        seen = rng.choice([0, 1, 2], (n, 17, 1))
        shapes = [{"keypoints": flat, "num_keypoints": int(k)} for flat, k in zip(
            np.concatenate([outlines * (seen > 0), seen], axis=2).reshape(n, -1).tolist(), (seen > 0).sum((1, 2)),
            strict=True)]  # fmt: skip
        moved = (outlines[source] + near + rng.normal(0, 2, (m, 17, 2))).round(1)
        flat = np.concatenate([moved, np.ones((m, 17, 1))], axis=2).reshape(m, -1)
        own = [{"keypoints": row} for row in flat.tolist()]
        area, around = (boxes := np.array(boxes_around(outlines)))[:, 2] * boxes[:, 3] * 0.6, boxes.tolist()
    else:
        side = 640 if name == "obb-many" else 8000
        cxcywhr = np.c_[rng.random((n, 2)) * side, rng.random((n, 2)) * 40 + 10, rng.random(n) * 3].round(4)
        moved = cxcywhr[source] + np.c_[near[:, 0], rng.normal(0, 1, (m, 2)), rng.normal(0, 0.05, m)]
        moved = moved.round(4)
        shapes, own = ([{"obb": row, "bbox": box} for row, box in
                        zip(one.tolist(), boxes_around(rectangle_corners(one)), strict=True)]
                       for one in (cxcywhr, moved))  # fmt: skip
        area, around = cxcywhr[:, 2] * cxcywhr[:, 3], [s["bbox"] for s in shapes]
    crowd = rng.random(n) < 0.012 if name == "segm" else np.zeros(n, bool)
    more = zip(around, area.tolist(), crowd.tolist(), strict=True)
    rows = ({"id": i, "bbox": box, "area": a, "iscrowd": int(c), **t, **s}
            for i, (t, s, (box, a, c)) in enumerate(zip(truth, shapes, more, strict=True), 1))  # fmt: skip
    write(folder, (n_images, n), classes, rows, ({**d, **s} for d, s in zip(detected, own, strict=True)))
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="cases whose names contain one of these")
    parser.add_argument("-n", type=int, default=3, help="rounds")
    parser.add_argument("--images", type=int, default=5000, help="images of the cases of masks and keypoints")
    parser.add_argument("--peers", default="", help="a Python that has the peers")
    given = parser.parse_args()
    peer, out = given.peers or peers(), WORK / "shapes.out"
    for name, (iou_type, *others) in CASES.items():
        if given.names and not any(part in name for part in given.names):
            continue
        make_it = f"import shapes; print(shapes.make({name!r}, {given.images}))"  # its memory would count as a peer's
        made = subprocess.run(
            [sys.executable, "-c", make_it], cwd=HERE, check=True, capture_output=True, text=True
        )
        files = [f"{made.stdout.strip()}/{side}" for side in ("gt.json", "det.json")]
        ours = ["eval", *files, "--protocol", "coco", "--iou-type", iou_type, "-q"]
        commands = {"odm": [sys.executable, "-m", "odm", *ours]}
        for other in others:
            module, module2, run, load = SCRIPTS[other]
            script = OFFICIAL.format(module=module, module2=module2, run=run, load=load)
            commands[other] = [peer, "-c", script, *files, iou_type]
        taken: dict[str, list[tuple[float, float, float]]] = {who: [] for who in commands}
        for _ in range(given.n):
            for who, command in commands.items():
                with out.open("w") as printed:
                    taken[who].append(once(command, out, printed))
                if len(taken[who]) == 1:
                    print(f"{name} {who}: {out.read_text().strip().splitlines()[-1][:150]}", flush=True)
        for who, rounds in taken.items():
            ratios = [one[1] / ours[1] for one, ours in zip(rounds, taken["odm"], strict=True)]
            cpu, peak = (statistics.median(one[i] for one in rounds) for i in (1, 2))
            ratio = statistics.median(ratios)
            print(f"{name:12} {who:18} {cpu:7.2f} s CPU {peak:7.0f} MB  {ratio:6.2f} x", flush=True)


if __name__ == "__main__":
    main()
