"""Processor time of every protocol on the same boxes, beside that of `coco`.

    python benchmarks/protocols.py [--images 7481] [--files]

The boxes are as many as in KITTI's 7 481 images: about 7 objects of an image, and 12 detections. Fields that
protocols look at, such as truncation, are not there, so that all objects count. With ``--files``, they are written
as KITTI's label files, and ``odm eval`` reads and evaluates these.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from neighbours import cpu

import odm
from odm.evaluate import PROTOCOLS, evaluate
from odm.issues import UsageError
from odm.tables import Dataset

CLASSES = ["car", "pedestrian", "van", "truck"]
"""Which the protocols with fixed classes have in common."""


def sides(n_images, seed=0):
    """Ground truth and detections: moved objects, and others."""
    rng = np.random.default_rng(seed)
    n = 7 * n_images
    image, category = np.sort(rng.integers(0, n_images, n)), rng.integers(0, len(CLASSES), n)
    corner, size = rng.uniform(0, 1000, (n, 2)), rng.uniform(15, 150, (n, 2))
    xyxy = np.hstack([corner, corner + size])
    of = rng.integers(0, n, 9 * n_images)
    found = xyxy[of] + np.tile(rng.normal(0, 3, (len(of), 2)), 2)
    other = rng.integers(0, n_images, 3 * n_images)
    start = rng.uniform(0, 1000, (len(other), 2))
    boxes = np.vstack([found, np.hstack([start, start + rng.uniform(15, 150, start.shape)])])
    common = {"images": [f"{i:06}.png" for i in range(n_images)], "categories": CLASSES}
    common |= {"width": [1242] * n_images, "height": [1242] * n_images}
    truth = Dataset.from_arrays(**common, image=image, category=category, xyxy=xyxy)
    images = np.concatenate([image[of], other])
    categories = np.concatenate([category[of], rng.integers(0, len(CLASSES), len(other))])
    scores = rng.random(len(boxes))
    order = np.lexsort((-scores, images))
    columns = {"image": images, "category": categories, "xyxy": boxes, "score": scores}
    return truth, Dataset.from_arrays(**common, **{name: values[order] for name, values in columns.items()})


def time_files(truth, detections):
    """Print the processor time of ``odm eval`` on label files of KITTI, the least of three runs."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder, name)) for name in ("label_2", "results")]
        for path, side in zip(paths, (truth, detections), strict=True):
            odm.write(side, path, "kitti")
        n_files = sum(1 for path in paths for _ in Path(path).rglob("*.txt"))
        command = [sys.executable, "-m", "odm", "eval", *paths, "--protocol", "kitti"]
        print(f"kitti from {n_files} files {min(cpu(command) for _ in range(3)):6.2f} s")


def main():
    """Print a row for each protocol."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=7481)
    parser.add_argument("--files", action="store_true", help="time odm eval on label files of KITTI instead")
    arguments = parser.parse_args()
    truth, detections = sides(arguments.images)
    print(f"{len(truth)} objects, {len(detections)} detections")
    if arguments.files:
        time_files(truth, detections)
        return
    times = {}
    for name in ("coco", *(name for name in PROTOCOLS if name != "coco")):
        best = []
        try:
            for _ in range(3):
                start = time.process_time()
                evaluate(truth, detections, name)
                best.append(time.process_time() - start)
        except UsageError as e:
            print(f"{name:22} {e}")
            continue
        times[name] = min(best)
        print(f"{name:22} {times[name]:6.2f} s  {times[name] / times['coco']:5.2f} x coco")


if __name__ == "__main__":
    main()
