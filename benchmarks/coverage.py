"""How often the intervals of `--ci` and `compare` hold the true number: python benchmarks/coverage.py --help

Draws datasets from one random process, whose own AP is that of a very large dataset, and counts in how many of
them the interval holds it. A detector finds objects more or less well from image to image, as real ones do, and
classes are as unequal as in real data. `--shares 60 30 7 3 --images 60 --skill 0.8 4` has a rare class, which few
images hold, and a detector that is weak, or nearly perfect.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time

import numpy as np

from odm.evaluate import evaluate
from odm.evaluate.analysis.bootstrap import (
    Resampling,
    bootstrap,
    correct_p_values,
    delta_interval,
    run_interval,
)
from odm.evaluate.analysis.replicates import Plan
from odm.evaluate.analysis.table import table_of
from odm.tables import Dataset

SIZE = 640


def scene(
    rng: np.random.Generator, n: int, share: np.ndarray, runs: int = 1, skill: float = 0.8
) -> tuple[Dataset, list[Dataset]]:
    """Ground truth of `n` images, and the detections of equally good detectors.

    `share` (classes,) are the shares of the classes; with more `skill` more is found, and less is false.
    """
    n_classes, share, false_rate = len(share), share / share.sum(), 3 * min(1.0, np.exp(0.8 - skill))
    image = np.repeat(np.arange(n), rng.poisson(5, n))
    m = len(image)
    category = rng.choice(n_classes, m, p=share)
    side = rng.uniform(20, 200, (m, 2))
    corner = rng.uniform(0, 1, (m, 2)) * (SIZE - side)
    boxes = np.hstack([corner, side])
    names = [f"{i}.jpg" for i in range(n)]
    fixed = {"images": names, "width": [SIZE] * n, "height": [SIZE] * n}
    fixed["categories"] = [f"class {i}" for i in range(n_classes)]
    truth = Dataset.from_arrays(**fixed, image=image, category=category, ltwh=boxes, kind="gt")
    found = []
    for _ in range(runs):
        hard = rng.normal(0, 1, n)  # some images are hard
        ease = rng.normal(skill, 1, m) - 0.6 * hard[image]
        seen = ease > 0
        moved = boxes + rng.normal(0, 0.06, (m, 4)) * np.hstack([side, side]) * (1.5 - np.tanh(ease))[:, None]
        false_image = np.repeat(np.arange(n), rng.poisson(false_rate * np.exp(0.4 * hard)))
        k = len(false_image)
        size = rng.uniform(20, 200, (k, 2))
        false = np.hstack([rng.uniform(0, 1, (k, 2)) * (SIZE - size), size])
        strength = np.concatenate([ease[seen], rng.normal(0, 0.9, k)])
        found.append(
            Dataset.from_arrays(
                **fixed,
                image=np.concatenate([image[seen], false_image]),
                category=np.concatenate([category[seen], rng.choice(n_classes, k, p=share)]),
                ltwh=np.vstack([moved[seen], false]),
                score=1 / (1 + np.exp(-strength)),
                kind="det",
            )
        )
    return truth, found


def plan_of(truth: Dataset, found: Dataset, protocol: str) -> Plan:
    """The evaluation, prepared for weights."""
    return Plan(table_of(evaluate(truth, found, protocol).results[0]))


def main() -> None:
    """Print the coverage for each protocol, number of classes and number of images."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--protocols", nargs="+", default=["voc2012", "coco"])
    parser.add_argument("--classes", nargs="+", type=int, default=[6, 20])
    parser.add_argument("--shares", nargs="+", type=float, help="of the classes, in place of --classes")
    parser.add_argument("--skill", nargs="+", type=float, default=[0.8])
    parser.add_argument("--images", nargs="+", type=int, default=[20, 50, 100, 200])
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--replicates", type=int, default=400)
    parser.add_argument("--keep", help="file for the estimates and replicates (NumPy)")
    args = parser.parse_args()
    kept = {}
    sys.stdout.write("protocol  classes  images  true AP  one run  difference  family-wise error\n")
    shares = [np.array(args.shares)] if args.shares else [1 / (1 + np.arange(k)) for k in args.classes]
    for protocol, share, skill in itertools.product(args.protocols, shares, args.skill):
        n_classes = len(share)
        truth, (found,) = scene(np.random.default_rng(1), 6000, share, 1, skill)
        plan = plan_of(truth, found, protocol)
        key = plan.keys[0]
        true = plan.table.result.summary[key]
        for n in args.images:
            began, held, same, family = time.process_time(), [], [], []
            rows = []
            for sample in range(args.samples):
                truth, found = scene(np.random.default_rng([2, n, n_classes, sample]), n, share, 2, skill)
                plans = [plan_of(truth, one, protocol) for one in found]
                drawn = bootstrap(plans, Resampling(args.replicates, sample))
                value = [p.table.result.summary[key] for p in plans]
                own = run_interval(
                    value[0],
                    drawn[0].summary[key],
                    plans[0].count_images_behind(),
                    least_error=plans[0].estimate_least_error(),
                )
                held.append(own.low <= true <= own.high)
                both = drawn[0].summary[key], drawn[1].summary[key]
                between = delta_interval(*both, value[1] - value[0], plans[0].count_images_behind())
                same.append(between.low <= 0 <= between.high)
                ap = [p.compute(np.ones((1, n), np.int64)).class_ap for p in plans]
                one = next(iter(ap[0]))
                n_of_class = plans[0].count_images_by_class().tolist()
                p = []
                for c in range(n_classes):
                    both = drawn[0].class_ap[one][:, c], drawn[1].class_ap[one][:, c]
                    p.append(delta_interval(*both, ap[1][one][0, c] - ap[0][one][0, c], n_of_class[c]).p)
                family.append(np.nanmin([*correct_p_values(p), 1]) < 0.05)
                rows.append((value, [d.summary[key] for d in drawn]))
            if args.keep:
                kept[f"{protocol}/{n_classes}/{n}"] = np.array(true)
                kept[f"{protocol}/{n_classes}/{n}/value"] = np.array([r[0] for r in rows])
                kept[f"{protocol}/{n_classes}/{n}/drawn"] = np.array([r[1] for r in rows])
                np.savez(args.keep, **kept)
            sys.stdout.write(
                f"{protocol:8}  {n_classes:7}  {n:6}  {true:7.4f}  {np.mean(held):7.3f}  {np.mean(same):10.3f}"
                f"  {np.mean(family):17.3f}   ({time.process_time() - began:.0f} s)\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
