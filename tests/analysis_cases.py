"""The small data set that the known answers of the analyses are of, and random ones."""

import numpy as np

from odm.evaluate import evaluate
from odm.tables import Dataset, Flag

CLASSES = ["cat", "dog", "bird"]
TRUTH = """1,c,1,10,10,40,40
2,d,1,100,100,50,50
3,c,2,20,20,40,40
4,b,2,120,20,20,20
5,d,3,50,50,60,60
6,d,3,150,10,30,30
7,b,4,10,10,30,30
8,c,4,100,100,80,80,1
9,c,6,30,30,50,50"""
DETECTIONS = """1,c,1,.97,10,10,40,40
2,c,1,.91,12,12,40,40
3,d,1,.63,100,100,50,30
4,d,2,.86,20,20,40,40
5,b,2,.71,130,20,20,20
6,b,2,.31,60,150,20,20
7,d,3,.83,50,50,60,48
8,b,3,.77,80,50,60,60
9,d,3,.21,60,60,60,60
10,b,4,.66,10,10,30,30
11,c,4,.55,110,110,20,20
12,c,4,.51,60,60,20,20
13,d,5,.45,0,0,50,50
14,c,6,.42,30,30,50,40
15,c,6,.35,55,30,50,50"""
LETTERS = "cdbw"


def _rows(text):
    return [line.split(",") for line in text.splitlines()]


def truth(extra=()):
    rows = [*_rows(TRUTH), *extra]
    names = [*CLASSES, "cow"] if extra else CLASSES
    crowd = [Flag.CROWD if len(r) > 7 and r[7] == "1" else 0 for r in rows]
    return Dataset.from_arrays(
        images=[str(i) for i in range(1, 7)],
        categories=names,
        image=[int(r[2]) - 1 for r in rows],
        category=[LETTERS.index(r[1]) for r in rows],
        ltwh=[[float(v) for v in r[3:7]] for r in rows],
        flags=crowd,
    )


def detections(change=lambda rows: rows):
    rows = change(_rows(DETECTIONS))
    return Dataset.from_arrays(
        images=[str(i) for i in range(1, 7)],
        categories=CLASSES,
        image=[int(r[2]) - 1 for r in rows],
        category=[LETTERS.index(r[1]) for r in rows],
        ltwh=[[float(v) for v in r[4:8]] for r in rows],
        score=[float(r[3]) for r in rows],
    )


def detections_b():
    """The same with detection 4 a cat and without detection 14."""

    def change(rows):
        return [[r[0], "c" if r[0] == "4" else r[1], *r[2:]] for r in rows if r[0] != "14"]

    return detections(change)


def cow():
    return [["10", "w", "1", "150", "150", "20", "20"]]


def fixture(protocol="coco", **options):
    return evaluate(truth(), detections(), protocol, **options).result


def other(protocol="coco", **options):
    return evaluate(truth(), detections_b(), protocol, **options).result


def random_pair(
    seed,
    *,
    n_images=40,
    n_classes=4,
    crowds=0.0,
    step=0.0,
    n_runs=1,
    sizes=(10, 90),
    ties=False,
    flags=(),
):
    """Ground truth and detections: copies of the objects jittered and reclassed at random, and noise."""
    rng = np.random.default_rng(seed)
    n = rng.integers(0, 6, n_images)
    image = np.repeat(np.arange(n_images), n)
    category = rng.integers(0, n_classes, len(image))
    box = np.concatenate(
        [rng.uniform(0, 110, (len(image), 2)), rng.uniform(*sizes, (len(image), 2))], axis=1
    )
    if step:
        box = np.maximum((box / step).round() * step, step)
    marks = np.where(rng.random(len(image)) < crowds, int(Flag.CROWD), 0)
    for flag in flags:
        marks |= np.where(rng.random(len(image)) < 0.2, int(flag), 0)
    names = [f"im{i:03}" for i in range(n_images)]
    classes = [f"class{k}" for k in range(n_classes)]
    gt = Dataset.from_arrays(
        images=names, categories=classes, image=image, category=category, ltwh=box, flags=marks
    )
    runs = []
    for _ in range(n_runs):
        copies = rng.integers(0, 4, len(image))
        at = np.repeat(np.arange(len(image)), copies)
        sigma = rng.choice([0.05, 0.15, 0.4], len(at))[:, None]
        near = box[at] + rng.normal(0, 1, (len(at), 4)) * sigma * box[at][:, [2, 3, 2, 3]]
        near_class = np.where(
            rng.random(len(at)) < 0.25, rng.integers(0, n_classes, len(at)), category[at]
        )
        n_noise = rng.integers(0, 3, n_images)
        noise_image = np.repeat(np.arange(n_images), n_noise)
        noise = np.concatenate(
            [rng.uniform(0, 110, (len(noise_image), 2)), rng.uniform(*sizes, (len(noise_image), 2))], axis=1
        )
        found = np.concatenate([near, noise])
        found[:, 2:] = np.maximum(found[:, 2:], 1)
        if step:
            found = (found / step).round() * step
            found[:, 2:] = np.maximum(found[:, 2:], step)
        score = rng.permutation(len(found)) / len(found) + 0.0005
        if ties:
            score = (score * 10).round() / 10
        runs.append(
            Dataset.from_arrays(
                images=names,
                categories=classes,
                image=np.concatenate([image[at], noise_image]),
                category=np.concatenate([near_class, rng.integers(0, n_classes, len(noise_image))]),
                ltwh=found,
                score=score,
            )
        )
    return gt, runs
