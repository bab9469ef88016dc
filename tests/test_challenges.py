"""The protocols of challenges against slow and plain implementations of their programs' rules."""

import math
import random

import numpy as np
import pytest
from selection import examples

import odm
from odm.evaluate import PROTOCOLS
from odm.evaluate.analysis.replicates import Plan
from odm.evaluate.analysis.table import tabulate
from odm.issues import UsageError


def inter_of(a, b):
    """Intersection of two boxes (left, top, width, height)."""
    w = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    h = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    return w * h if w > 0 and h > 0 else 0.0


# ------------------------------------------------------------------------------- CityPersons and Caltech

SET_UPS = {
    "Reasonable": (50, math.inf, 0.65, math.inf),
    "Reasonable_small": (50, 75, 0.65, math.inf),
    "Reasonable_occ=heavy": (50, math.inf, 0.2, 0.65),
    "All": (20, math.inf, 0.2, math.inf),
}
RATES = [0.01, 0.0178, 0.0316, 0.0562, 0.1, 0.1778, 0.3162, 0.5623, 1.0]


def pedestrians(rng, n_images):
    """COCO dictionaries of people of many heights and visibilities, some to be ignored, and of results."""
    objects, results = [], []
    for image in range(1, n_images + 1):
        for _ in range(rng.randrange(4)):
            height = rng.choice([18, 20, 40, 50, 60, 75, 80, rng.uniform(15, 90)])
            box = [rng.uniform(0, 200), rng.uniform(0, 80), round(height * 0.41, 2), height]
            visible = rng.choice([0.1, 0.2, 0.4, 0.65, 0.8, 1.0])
            ignore = int(rng.random() < 0.2)
            objects.append({
                "id": len(objects) + 1, "image_id": image, "category_id": 1, "bbox": box, "height": height,
                "vis_ratio": visible, "ignore": ignore, "iscrowd": 0,
            })  # fmt: skip
            for _ in range(rng.randrange(3)):
                moved = [v + rng.choice([0, 0, rng.uniform(-5, 5)]) for v in box]
                results.append((image, moved))
        results += [(image, [rng.uniform(0, 200), 5, 25, rng.choice([30, 55, 120])])] * (rng.random() < 0.3)
    found = [
        {"image_id": image, "category_id": 1, "bbox": box, "score": rng.randrange(40) / 40}
        for image, box in results
    ]
    images = [{"id": i, "file_name": f"{i}.png", "width": 300, "height": 200} for i in range(1, n_images + 1)]
    return {"images": images, "categories": [{"id": 1, "name": "pedestrian"}], "annotations": objects}, found


def miss_rate(truth, found, set_up, rates, *, wrapped, floor):
    """The number of the program: image by image, detection by detection."""
    low, high, least, most = SET_UPS[set_up]
    outcomes, npos = [], 0
    for image in (i["id"] for i in truth["images"]):
        objects = []
        for row in truth["annotations"]:
            if row["image_id"] == image:
                inside = low <= row["height"] <= high and least <= row["vis_ratio"] <= most
                objects.append((row["bbox"], bool(row["ignore"]) or not inside))
        npos += sum(not ignored for _, ignored in objects)
        own = sorted((d for d in found if d["image_id"] == image), key=lambda d: -d["score"])[:1000]
        taken = set()
        for d in own:
            box = d["bbox"]
            if not low / 1.25 <= box[3] < high * 1.25:
                continue
            best, chosen, what = 0.5, None, "FP"
            for j, (other, ignored) in enumerate(objects):
                shared = inter_of(box, other)
                iou = shared / (box[2] * box[3] + other[2] * other[3] - shared)
                if not ignored and j not in taken and iou >= best:
                    best, chosen, what = iou, j, "TP"
            taken.add(chosen)
            if chosen is None and any(g and inter_of(box, o) / (box[2] * box[3]) >= 0.5 for o, g in objects):
                what = "ignored"
            outcomes.append((d["score"], what))
    points, tp, fp = [], 0, 0
    for _, what in sorted(outcomes, key=lambda o: -o[0]):
        tp, fp = tp + (what == "TP"), fp + (what == "FP")
        if what != "ignored":
            points.append((fp / len(truth["images"]), tp / npos if npos else 0))
    if not npos:
        return None
    logarithms = []
    for rate in rates:
        recall = [r for f, r in points if f <= rate][-1:] or ([points[-1][1]] if wrapped and points else [0])
        miss = max(1 - recall[0], floor)
        logarithms.append(math.log(miss) if miss else -math.inf)
    return math.exp(sum(logarithms) / len(logarithms))


CALTECH = [10 ** (-2 + k / 4) for k in range(9)]
PROGRAMS = {
    "citypersons": {"rates": RATES, "wrapped": True, "floor": 0.0},
    "caltech": {"rates": CALTECH, "wrapped": False, "floor": 1e-10},
}


@pytest.mark.parametrize("protocol", PROGRAMS)
@pytest.mark.parametrize("n_images", [1, 12, 140])
def test_miss_rates_over_false_positives_per_image(protocol, n_images):
    """Under 100 images, too, where the program of CityPersons reads the end of the curve in place of nothing."""
    for seed in range(examples(6)):
        truth, found = pedestrians(random.Random(seed * 1000 + n_images), n_images)
        if not found:
            continue
        result = odm.eval(truth, found, protocol)
        assert list(result.summary) == [f"MR@{name}" for name in SET_UPS]
        for name in SET_UPS:
            expected = miss_rate(truth, found, name, **PROGRAMS[protocol])
            value = result.summary[f"MR@{name}"]
            assert (math.isnan(value) and expected is None) or value == pytest.approx(expected, abs=1e-12), (
                name
            )
            assert result.classes[0].extra[f"MR@{name}"] == pytest.approx(value, nan_ok=True)


def test_intervals_of_miss_rates_are_those_of_repeated_images():
    """A replicate is the number over the images that were drawn, each as often as it was."""
    truth, found = pedestrians(random.Random(1), 30)
    result = odm.eval(truth, found, "citypersons", ci=True, replicates=200)
    low, high = result.result.intervals["MR@Reasonable"]
    assert low < result.summary["MR@Reasonable"] < high
    weights = np.random.default_rng(0).multinomial(30, [1 / 30] * 30, size=3)
    table = tabulate(result.joined, result.result.matches)
    drawn = Plan(table).of(weights).summary["MR@Reasonable"]
    for n, value in zip(weights, drawn, strict=True):
        images = [image for image, times in enumerate(n, 1) for _ in range(times)]
        again = {**truth, "images": [], "annotations": []}
        results = []
        for number, image in enumerate(images, 1):
            again["images"].append({**truth["images"][image - 1], "id": number, "file_name": f"{number}.png"})
            again["annotations"] += [
                {**a, "image_id": number, "id": 0} for a in truth["annotations"] if a["image_id"] == image
            ]
            results += [{**d, "image_id": number} for d in found if d["image_id"] == image]
        for i, a in enumerate(again["annotations"], 1):
            a["id"] = i
        expected = odm.eval(again, results, "citypersons").summary["MR@Reasonable"]
        assert value == pytest.approx(expected)


def test_a_lower_miss_rate_is_better(tmp_path):
    truth, found = pedestrians(random.Random(3), 40)
    worse = [{**d, "score": 1 - d["score"]} for d in found]
    comparison = odm.compare(truth, {"a": worse, "b": found}, protocol="caltech", replicates=300)
    delta = next(d for d in comparison.deltas if d.key == "MR@Reasonable")
    assert delta.delta < 0
    assert delta.interval.p_better > 0.5
    assert comparison.ranking[0].run == "b"


def test_protocols_with_set_ups_have_no_area_ranges_and_need_all_detections():
    for options in ({"area": "small"}, {"memory": "1GB"}):
        with pytest.raises(UsageError):
            odm.eval("gt.json", "dt.json", "citypersons", **options)
    assert PROTOCOLS["citypersons"].definition.count("set-up") == 5
