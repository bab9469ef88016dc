"""The protocols of challenges against slow and plain implementations of their programs' rules."""

import contextlib
import csv
import io
import itertools
import json
import math
import random

import numpy as np
import pytest
from msgspec.structs import replace
from selection import examples

import odm
from odm import masks
from odm.evaluate import PROTOCOLS
from odm.evaluate.analysis.replicates import Plan
from odm.evaluate.analysis.table import tabulate
from odm.evaluate.matching.jaccard import can_pair
from odm.evaluate.scores.metric_names import find_failures, parse_gate
from odm.issues import UsageError
from odm.masks.bands import find_bands
from odm.tables import Flag


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
    drawn = Plan(table).compute(weights).summary["MR@Reasonable"]
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


# ---------------------------------------------------------------------------------------- tiny objects

TINY = {
    "all": (1, 1e5), "tiny": (1, 20), "tiny1": (1, 8), "tiny2": (8, 12), "tiny3": (12, 20), "small": (20, 32),
    "reasonable": (32, 1e5),
}  # fmt: skip


def specks(rng, n_images):
    """COCO dictionaries of small objects of two classes, some ignored or uncertain, and of results."""
    objects, results = [], []
    for image in range(1, n_images + 1):
        for _ in range(rng.randrange(6)):
            side = rng.choice([4, 8, 12, 16, 20, 32, 40, rng.uniform(3, 50)])
            box = [rng.uniform(0, 100), rng.uniform(0, 100), side, side]
            marks = {key: int(rng.random() < 0.15) for key in ("ignore", "uncertain", "iscrowd")}
            about = {"id": len(objects) + 1, "image_id": image, "category_id": rng.choice([1, 2])}
            objects.append({**about, "bbox": box, "area": box[2] * box[3], **marks})
            for _ in range(rng.randrange(3)):
                moved = [v + rng.choice([0, rng.uniform(-side, side) / 5]) for v in box]
                found = {"image_id": image, "category_id": objects[-1]["category_id"], "bbox": moved}
                results.append({**found, "score": rng.randrange(30) / 30})
    images = [{"id": i, "file_name": f"{i}.png", "width": 200, "height": 200} for i in range(1, n_images + 1)]
    classes = [{"id": i, "name": name} for i, name in ((1, "sea"), (2, "earth"))]
    return {"images": images, "categories": classes, "annotations": objects}, results


def average_precision(truth, found, category, threshold, sides):
    """AP and recall of a class at one threshold and range of areas; None without objects."""
    low, high = (side**2 for side in sides)
    outcomes, npos = [], 0
    for image in (i["id"] for i in truth["images"]):
        own = [a for a in truth["annotations"] if (a["image_id"], a["category_id"]) == (image, category)]
        nothing = [
            bool(a["ignore"] or a["uncertain"] or a["iscrowd"]) or not low <= a["area"] <= high for a in own
        ]
        npos += nothing.count(False)
        taken = set()
        these = [d for d in found if (d["image_id"], d["category_id"]) == (image, category)]
        for d in sorted(these, key=lambda d: -d["score"])[:200]:
            box, chosen, best = d["bbox"], None, threshold
            for j, a in enumerate(own):
                shared = inter_of(box, a["bbox"])
                iou = shared / (box[2] * box[3] + a["area"] - shared)
                if not nothing[j] and j not in taken and iou >= best:
                    chosen, best = j, iou
            taken.add(chosen)
            covered = any(
                n and inter_of(box, a["bbox"]) / (box[2] * box[3]) >= threshold
                for a, n in zip(own, nothing, strict=True)
            )
            if chosen is not None:
                outcomes.append((d["score"], 1))
            elif not covered and low <= box[2] * box[3] <= high:
                outcomes.append((d["score"], 0))
    if not npos:
        return None
    tp, points = 0, []
    for n, (_, hit) in enumerate(sorted(outcomes, key=lambda o: -o[0]), 1):
        tp += hit
        points.append((tp / npos, tp / n))
    at = [max((p for r, p in points if r >= x), default=0) for x in np.linspace(0, 1, 101)]
    return sum(at) / 101, tp / npos


def test_tiny_persons():
    for seed in range(examples(4)):
        truth, found = specks(random.Random(seed), 15)
        summary = odm.eval(truth, found, "tinyperson").summary
        assert len(summary) == 2 * 3 * len(TINY)
        for name, sides in TINY.items():
            for threshold in (0.25, 0.5, 0.75):
                each = [average_precision(truth, found, k, threshold, sides) for k in (1, 2)]
                each = [numbers for numbers in each if numbers]
                for i, what in enumerate(("AP", "AR")):
                    expected = np.mean([numbers[i] for numbers in each]) if each else np.nan
                    value = summary[f"{what}{100 * threshold:g}_{name}"]
                    assert value == pytest.approx(expected, nan_ok=True), (seed, name, threshold, what)


def test_aitod_and_soda_are_coco_with_other_parameters():
    truth, found = specks(random.Random(9), 20)
    summary = odm.eval(truth, found, "aitod").summary
    ranges = {"v": (0, 64), "t": (64, 256), "s": (256, 1024), "m": (1024, 1e10)}
    plain = odm.eval(truth, found, "coco", max_dets=1500, recall_at=[1, 100, 1500], area=ranges).summary
    for key, other in (("AP@verytiny", "AP@v"), ("AP@tiny", "AP@t"), ("APs", "AP@s"), ("APm", "AP@m")):
        assert summary[key] == pytest.approx(plain[other], nan_ok=True)
    assert [summary[key] for key in ("AP", "AR1", "AR1500")] == [
        plain[key] for key in ("AP", "AR1", "AR1500")
    ]
    assert "APl" not in summary
    soda = odm.eval(truth, found, "soda-d").summary
    assert soda["AP"] == pytest.approx(odm.eval(truth, found, "coco", area=(0, 1024)).summary["AP"])
    small = odm.eval(truth, found, "coco", area={"n": (1024, 2000), "e": (0, 144)}).summary
    assert [soda["AP@Normal"], soda["AP@eS"]] == pytest.approx([small["AP@n"], small["AP@e"]], nan_ok=True)


# -------------------------------------------------------------------------------------------- boundary IoU


def band_of(mask):
    """The pixels near the edge, pixel by pixel."""
    height, width = mask.shape
    reach = max(1, round(0.02 * math.sqrt(height**2 + width**2)))
    squares = np.lib.stride_tricks.sliding_window_view(np.pad(mask, reach), (2 * reach + 1,) * 2)
    return mask & ~squares.all(axis=(2, 3))


def test_bands_along_the_edges_of_masks():
    """Also of masks at the border of the image, with holes, of a pixel, of nothing, and with a width of 2.5."""
    rng = np.random.default_rng(4)
    for height, width in ((40, 30), (75, 100), (9, 120)):
        drawn = [rng.random((height, width)) < share for share in (0.0, 0.02, 0.9, 0.98, 1.0)]
        drawn += [np.zeros((height, width), bool) for _ in range(3)]
        drawn[-1][2:-2, 3:-3] = drawn[-2][:5, -8:] = drawn[-3][:, 4] = True
        runs, *size = masks.read_runs(masks.encode(np.stack(drawn)))
        found = masks.decode(masks.compress_runs(find_bands(runs, *size), *size))
        np.testing.assert_array_equal(found, [band_of(mask) for mask in drawn])


@pytest.mark.parametrize("protocol", ["coco", "lvis"])
def test_boundary_iou_is_the_lower_of_two(protocol):
    """A mask of the right size one pixel off has a lower IoU by its edge; a crowd keeps that of the mask."""
    whole = np.zeros((60, 80), bool)
    whole[10:50, 10:60] = True
    shifted = np.roll(whole, 3, axis=1)
    truth = {
        "images": [{"id": 1, "file_name": "a.png", "width": 80, "height": 60}],
        "categories": [{"id": 1, "name": "x"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 10, 50, 40], "area": 2000,
                         "iscrowd": 0, "segmentation": masks.encode(whole)}],
    }  # fmt: skip
    found = [{"image_id": 1, "category_id": 1, "score": 0.5, "segmentation": masks.encode(shifted)}]
    one, other = band_of(whole), band_of(shifted)
    boundary = (one & other).sum() / (one | other).sum()
    mask = (whole & shifted).sum() / (whole | shifted).sum()
    assert boundary < 0.65 < mask
    for iou_type, iou in (("boundary", boundary), ("segm", mask)):
        for threshold, ap in ((iou - 1e-9, 1), (iou + 1e-9, 0)):
            summary = odm.eval(truth, found, protocol, iou_type=iou_type, iou=threshold).summary
            assert summary["AP"] == pytest.approx(ap), (iou_type, threshold)


def blots(rng, n_images):
    """COCO dictionaries of masks with holes and crowds, and of results: moved, inside crowds, and others."""
    images, objects, results = [], [], []

    def draw(height, width, low=1):
        mask = np.zeros((height, width), bool)
        (y, h), (x, w) = ((rng.randrange(n), rng.randrange(low, n)) for n in (height, width))
        mask[y : y + h, x : x + w] = True
        if min(h, w) > 8 and rng.random() < 0.4:
            mask[y + 2 : y + h - 2, x + 3 : x + 5] = False
        return mask

    for image in range(1, n_images + 1):
        size = rng.choice([(60, 80), (75, 100), (120, 90), (10, 12)])
        images.append({"id": image, "file_name": f"{image}.png", "height": size[0], "width": size[1]})
        for _ in range(rng.randrange(6)):
            mask, crowd, category = draw(*size, 5), rng.random() < 0.4, rng.randrange(1, 4)
            objects.append({
                "id": len(objects) + 1, "image_id": image, "category_id": category, "iscrowd": int(crowd),
                "segmentation": masks.encode(mask), "area": int(mask.sum()),
                "bbox": masks.boxes(masks.encode(mask)).tolist(),
            })  # fmt: skip
            near = [np.roll(mask, (rng.randrange(-2, 3), rng.randrange(-2, 3)), (0, 1)) for _ in range(2)]
            near += [draw(*size) & mask for _ in range(4 * crowd)]
            inside = mask & ~band_of(mask)
            near += [inside & ~band_of(inside)] * crowd  # whose band meets that of the crowd nowhere
            near += [band_of(mask)] * (rng.random() < 0.3)  # whose own band is the same
            results += [(image, category, m) for m in near if m.any()]
        results += [(image, rng.randrange(1, 4), draw(*size)) for _ in range(rng.randrange(3))]
    found = [
        {"image_id": i, "category_id": c, "score": rng.randrange(30) / 30, "segmentation": masks.encode(m)}
        for i, c, m in results
    ]
    categories = [{"id": i, "name": f"class {i}"} for i in range(1, 4)]
    return {"images": images, "categories": categories, "annotations": objects}, found


def boundary_numbers(truth, found, without=""):
    """The twelve numbers of pycocotools where the IoU of a pair is the lower of two; -1 is undefined."""
    coco, cocoeval = pytest.importorskip("pycocotools.coco"), pytest.importorskip("pycocotools.cocoeval")
    with contextlib.redirect_stdout(io.StringIO()):
        coco = coco.COCO()
        coco.dataset = json.loads(json.dumps(truth))
        coco.createIndex()
        program = cocoeval.COCOeval(coco, coco.loadRes(json.loads(json.dumps(found))), "segm")
        of_masks = program.computeIoU

        def lower(image, category):
            ious = of_masks(image, category)
            sides = program._gts[image, category], program._dts[image, category]
            for g, gt in enumerate(sides[0]) if len(ious) else ():
                if gt["iscrowd"] and without != "crowds":
                    continue
                ranked = sorted(sides[1], key=lambda d: -d["score"])
                for d, det in enumerate(ranked[: len(ious)]):
                    one, other = (band_of(masks.decode(row["segmentation"])) for row in (det, gt))
                    whole = one if gt["iscrowd"] else one | other
                    ious[d, g] = min(ious[d, g], (one & other).sum() / whole.sum())
            return ious

        program.computeIoU = lower
        program.evaluate()
        program.accumulate()
        program.summarize()
    return program.stats.tolist()


def test_boundary_ap():
    """Detections inside a crowd, far from its edge, are ignored: a crowd keeps the mask's IoA."""
    noticed = 0
    for seed in range(examples(6)):
        truth, found = blots(random.Random(seed), 6)
        expected = boundary_numbers(truth, found)
        values = odm.eval(truth, found, "coco", iou_type="boundary").summary.values()
        assert [-1 if math.isnan(v) else v for v in values] == pytest.approx(expected, abs=1e-12), seed
        noticed += expected != pytest.approx(boundary_numbers(truth, found, "crowds"), abs=1e-9)
    assert noticed


# ------------------------------------------------------------------------------- DOTA, horizontal boxes


def dota_ap(truth, found):
    """The AP of a class at 11 points; rows of (image, corners, difficult) and of (image, box, score)."""
    taken, tp, fp, points = set(), 0, 0, []
    boxes = [
        (image, [int(c[0]), int(c[1]), int(c[4]), int(c[5])], difficult) for image, c, difficult in truth
    ]
    npos = sum(not difficult for *_, difficult in boxes)
    for image, (left, top, right, bottom), _ in sorted(found, key=lambda d: -d[2]):
        best, chosen = -1.0, None
        for j, (other, (low, high, r, b), _) in enumerate(boxes):
            w, h = min(right, r) - max(left, low) + 1, min(bottom, b) - max(top, high) + 1
            if other == image and w > 0 and h > 0:
                areas = (right - left + 1) * (bottom - top + 1) + (r - low + 1) * (b - high + 1)
                if w * h / (areas - w * h) > best:
                    best, chosen = w * h / (areas - w * h), j
        if best > 0.5 and not boxes[chosen][2]:
            tp, fp = (tp, fp + 1) if chosen in taken else (tp + 1, fp)
            taken.add(chosen)
        elif best <= 0.5:
            fp += 1
        if tp + fp:
            points.append((tp / npos if npos else 0, tp / (tp + fp)))
    return sum(max((p for r, p in points if r >= x), default=0) for x in np.linspace(0, 1, 11)) / 11


def test_horizontal_boxes_of_dota(tmp_path):
    """Fractions are cut, and an IoU of exactly a half is no match; a class without objects counts as 0."""
    fixed = PROTOCOLS["dota-hbb"].mean_over
    assert len(fixed) == 15
    for seed in range(examples(3)):
        rng = random.Random(seed)
        folder = tmp_path / str(seed)
        (folder / "labelTxt").mkdir(parents=True)
        (folder / "results").mkdir()
        truth, found = {name: [] for name in fixed}, {name: [] for name in fixed}
        score = iter(rng.sample(range(1, 9999), 900))
        for image in (f"P{i:04}" for i in range(6)):
            rows = []
            for name in rng.choices(fixed[:-1], k=12):
                left, top = rng.choice([20, 20.9, rng.uniform(0, 300)]), rng.uniform(0, 300)
                right, bottom = left + rng.uniform(12, 40), top + rng.choice([19, 39.5])
                turn = rng.choice([0, 0, 3])
                corners = [left + turn, top, right, top + turn, right - turn, bottom, left, bottom - turn]
                difficult = int(rng.random() < 0.2)
                rows.append(f"{' '.join(map(repr, corners))} {name} {difficult}")
                truth[name].append((image, corners, difficult))
                for _ in range(rng.randrange(3)):
                    at = [corners[k] + rng.choice([0, rng.uniform(-3, 3)]) for k in (0, 1, 4, 5)]
                    found[name].append((image, at, next(score) / 10000))
            (folder / "labelTxt" / f"{image}.txt").write_text("".join(f"{row}\n" for row in rows))
        half = "P0000", [500, 500, 509, 519]  # of which a detection covers exactly a half
        truth["plane"].append((half[0], [500, 500, 509, 500, 509, 519, 500, 519], 0))
        with open(folder / "labelTxt" / "P0000.txt", "a") as file:
            file.write("500 500 509 500 509 519 500 519 plane 0\n")
        found["plane"].append(("P0000", [500, 500, 509, 509], 0.99995))
        found["helicopter"].append(("P0001", [1.0, 1.0, 30.0, 30.0], 0.3))
        for name, rows in found.items():
            text = "".join(f"{image} {s!r} {' '.join(map(repr, box))}\n" for image, box, s in rows)
            (folder / "results" / f"Task2_{name}.txt").write_text(text)
        result = odm.eval(folder / "labelTxt", folder / "results", "dota-hbb", image_size="600x600")
        expected = {name: dota_ap(truth[name], found[name]) for name in fixed}
        for row in result.classes:
            assert row.ap == pytest.approx(expected[row.name]), (seed, row.name)
        assert result.summary["mAP"] == pytest.approx(sum(expected.values()) / 15)
        for change in (
            {"whole_corners": False},
            {"strict": False},
            {"mean_over": ()},
            {"interpolation": "all"},
        ):
            rules = replace(PROTOCOLS["dota-hbb"], **change)
            changed = odm.eval(folder / "labelTxt", folder / "results", rules, image_size="600x600").summary
            assert changed["mAP"] != pytest.approx(result.summary["mAP"], abs=1e-9), change


# -------------------------------------------------------------------------------------------- CrowdHuman


def crowd(rng, n_images):
    """Records of people and of results: crowded, ignored, masked, beyond the image, an IoU of a half, ties."""
    truth, found = [], []
    for image in range(n_images):
        width, height = rng.choice([(100, 80), (120, 90)])
        people, results = [], []
        for _ in range(rng.randrange(1, 9)):
            box = [rng.randrange(-15, width), rng.randrange(-15, height), rng.choice([10, 20, 40]), 30]
            tag, ignore = rng.choice([("person", 0)] * 5 + [("person", 1), ("mask", 1)])
            people.append({"tag": tag, "fbox": box, "extra": {"ignore": ignore}})
            for _ in range(rng.randrange(4)):
                moved = [box[0] + rng.choice([0, 0, 4, 9]), box[1] + rng.choice([0, 0, 3]), *box[2:]]
                results.append({"box": moved, "score": rng.randrange(11) / 10, "tag": 1})
        half = [5, 5, 20, 20], [5, 5, 20, 40]
        if rng.random() < 0.3:
            people.append({"tag": "person", "fbox": half[1], "extra": {}})
            results.append({"box": half[0], "score": 0.95, "tag": 1})
        results += [{"box": [rng.randrange(width), 0, 15, 60], "score": 0.9, "tag": 1}] * (rng.random() < 0.4)
        if (
            rng.random() < 0.4
        ):  # one of two that overlap a detection alike, and a detection of the first alone
            people += [{"tag": "person", "fbox": [left, 35, 20, 40], "extra": {}} for left in (40, 44)]
            results += [{"box": [left, 35, 20, 40], "score": 0.97, "tag": 1} for left in (42, 34)]
        if rng.random() < 0.2:  # people within something ignored, and nothing detected
            people = [people[0], {"tag": "mask", "fbox": people[0]["fbox"], "extra": {}}]
            results = []
        truth.append({"ID": f"{image:03}", "gtboxes": people})
        found.append({"ID": f"{image:03}", "width": width, "height": height, "dtboxes": results})
    return truth, found


def cut(box, size):
    """Corners within the image."""
    left, top = (min(max(box[k], 0), size[k] - 1) for k in (0, 1))
    right, bottom = (min(max(box[k] + box[k + 2], 0), size[k]) for k in (0, 1))
    return left, top, right - left, bottom - top


def overlaps(a, b):
    """IoU and the share of `a`, with the little that the program adds."""
    shared, area = inter_of(a, b), a[2] * a[3]
    return shared / (area + b[2] * b[3] - shared + 1e-6), shared / (area + 1e-6)


def pairs_of_greatest_sum(ious):
    """The pairs of rows and columns above 0.5 whose sum is the greatest, by trying every choice."""
    best = 0.0, ()

    def extend(row, taken, total, chosen):
        nonlocal best
        if row == len(ious):
            best = max(best, (total, chosen), key=lambda c: c[0])
            return
        extend(row + 1, taken, total, chosen)
        for column, iou in enumerate(ious[row]):
            if iou > 0.5 and column not in taken:
                extend(row + 1, taken | {column}, total + iou, (*chosen, (row, column)))

    extend(0, frozenset(), 0.0, ())
    return best[1]


def crowdhuman_numbers(truth, found):
    """AP, MR and JI, as the program goes about it."""
    images, outcomes, npos = [], [], 0
    for record, results in zip(truth, found, strict=True):
        size = results["width"], results["height"]
        boxes = [(cut(b["fbox"], size), b["tag"] == "mask" or bool(b["extra"].get("ignore")))
                 for b in record["gtboxes"]]  # fmt: skip
        people, ignored = (
            [box for box, is_ignored in boxes if is_ignored == which] for which in (False, True)
        )
        npos += len(people)
        own = sorted(((d["score"], cut(d["box"], size)) for d in results["dtboxes"]), key=lambda d: -d[0])
        images.append((people, ignored, own))
        free = list(people)
        for score, box in own:
            best = max(free, key=lambda p: overlaps(box, p)[0], default=None)
            if best is not None and overlaps(box, best)[0] > 0.5:
                free.remove(best)
                outcomes.append((score, 1))
            elif not any(overlaps(box, i)[1] > 0.5 for i in ignored):
                outcomes.append((score, 0))
    tp, points = 0, []
    for n, (_, hit) in enumerate(sorted(outcomes, key=lambda o: -o[0]), 1):
        tp += hit
        points.append((tp / npos, tp / n, (n - tp) / len(truth)))
    ap = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(points))
    misses = [1 - next((r for r, _, f in points if f >= rate), points[-1][0]) for rate in RATES]
    mr = math.exp(sum(map(math.log, misses)) / len(RATES)) if all(misses) else 0.0
    means = []
    for limit in (1e-1 * i for i in range(10)):
        ratios = []
        for people, ignored, own in images:
            kept = [box for score, box in own if score > limit]
            pairs = pairs_of_greatest_sum([[overlaps(box, p)[0] for p in people] for box in kept])
            counts = [
                sum(
                    i in used or not any(overlaps(box, o)[1] > 0.5 for o in ignored)
                    for i, box in enumerate(side)
                )
                for side, used in ((kept, {d for d, _ in pairs}), (people, {g for _, g in pairs}))
            ]
            if any(counts):
                ratios.append(len(pairs) / (sum(counts) - len(pairs) + 1e-6))
        means.append(sum(ratios) / len(ratios))
    return ap, mr, max(means)


def write_crowd(folder, truth, found):
    """Two files of records."""
    paths = folder / "gt.odgt", folder / "det.odgt"
    for path, records in zip(paths, (truth, found), strict=True):
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return paths


def test_crowdhuman(tmp_path):
    """JI is compared where SciPy is installed."""
    for seed in range(examples(6)):
        truth, found = crowd(random.Random(seed), 12)
        summary = odm.eval(*write_crowd(tmp_path, truth, found), "crowdhuman").summary
        assert list(summary) == ["AP", "MR", "JI"]
        expected = crowdhuman_numbers(truth, found)
        if not can_pair():
            assert math.isnan(summary["JI"])
            summary.pop("JI")
        for (key, value), number in zip(summary.items(), expected, strict=False):
            assert value == pytest.approx(number, abs=1e-12), (seed, key)


def test_intervals_of_crowdhuman_are_those_of_repeated_images(tmp_path):
    truth, found = crowd(random.Random(7), 15)
    scores = iter(random.Random(8).sample(range(1, 999), 500))  # equal ones of an image have no order there
    for d in (d for record in found for d in record["dtboxes"]):
        d["score"] = next(scores) / 1000
    result = odm.eval(*write_crowd(tmp_path, truth, found), "crowdhuman")
    weights = np.random.default_rng(0).multinomial(15, [1 / 15] * 15, size=3)
    drawn = Plan(tabulate(result.joined, result.result.matches)).compute(weights)
    for i, n in enumerate(weights):
        rows = [image for image, times in enumerate(n) for _ in range(times)]
        again = [
            [{**records[row], "ID": f"{k:03}"} for k, row in enumerate(rows)] for records in (truth, found)
        ]
        expected = odm.eval(*write_crowd(tmp_path, *again), "crowdhuman").summary
        assert {key: values[i] for key, values in drawn.summary.items()} == pytest.approx(
            expected, nan_ok=True
        )
        assert drawn.class_ap["AP"][i] == pytest.approx([expected["AP"]])


def test_only_the_miss_rate_of_crowdhuman_is_better_lower(tmp_path):
    truth, found = crowd(random.Random(3), 20)
    gt, worse = write_crowd(tmp_path, truth, found)
    (tmp_path / "better").mkdir()
    people = [[{"box": b["fbox"], "score": 0.9} for b in t["gtboxes"] if b["tag"] == "person"] for t in truth]
    better = [{**r, "dtboxes": boxes[1:]} for r, boxes in zip(found, people, strict=True)]
    runs = {"worse": worse, "better": write_crowd(tmp_path / "better", truth, better)[1]}
    comparison = odm.compare(gt, runs, protocol="crowdhuman", replicates=200)
    assert comparison.lower_keys == ("MR",)
    deltas = {d.key: d for d in comparison.deltas if d.category is None}
    assert deltas["AP"].delta > 0 > deltas["MR"].delta
    assert min(deltas[key].interval.p_better for key in ("AP", "MR")) > 0.5
    assert comparison.ranking[0].run == "better"


# -------------------------------------------------------------------------------------------- every rule


RULES = [
    ("citypersons", {"rate_reading": "last"}),
    ("citypersons", {"last_of_equals": False}),
    ("citypersons", {"ignored_by_ioa": False}),
    ("citypersons", {"ignored_fields": ()}),
    ("citypersons", {"areas": tuple(
        replace(a, also=tuple(replace(bound, widened=None) for bound in a.also))
        for a in PROTOCOLS["citypersons"].areas
    )}),
    ("caltech", {"rate_reading": "wrapped"}),
    ("caltech", {"least_miss": 0.2}),
    ("caltech", {"ignored_by_ioa": False}),
    ("tinyperson", {"ignored_by_ioa": False}),
    ("tinyperson", {"ignored_fields": ()}),
    ("tinyperson", {"max_dets": 2}),
    ("aitod", {"max_dets": 2, "recall_at": (1,)}),
    ("aitod", {"areas": PROTOCOLS["coco"].areas}),
    ("crowdhuman", {"clipped": False}),
    ("crowdhuman", {"strict": False, "added_area": 0.0}),
    ("crowdhuman", {"last_of_equals": True}),
    ("crowdhuman", {"reading": "steps"}),
    ("crowdhuman", {"rate_reading": "last"}),
    ("crowdhuman", {"crowd_flags": Flag(0)}),
]  # fmt: skip
"""Rules of protocols, and what stands in their place if they are left out."""


def with_ties(truth, found):
    """The same with two people on every image whom a detection overlaps alike, and one of the second alone."""
    objects, results = list(truth["annotations"]), list(found)
    about = {"category_id": 1, "vis_ratio": 1.0, "ignore": 0, "iscrowd": 0, "height": 60}
    for image in (i["id"] for i in truth["images"]):
        for left in (240, 248):
            objects.append({**about, "id": len(objects) + 1, "image_id": image, "bbox": [left, 90, 25, 60]})
        for left, score in ((244, 0.9), (249, 0.8)):
            box = [left, 90, 25, 60]
            results.append({"image_id": image, "category_id": 1, "bbox": box, "score": score})
    return {**truth, "annotations": objects}, results


@pytest.mark.parametrize(("name", "change"), RULES, ids=lambda value: str(value)[:40])
def test_each_rule_changes_the_numbers(name, change, tmp_path):
    """So that the comparison with a plain implementation falls without it."""
    rules = replace(PROTOCOLS[name], **change)
    for seed in range(40):
        rng = random.Random(seed)
        if name == "crowdhuman":
            sides = write_crowd(tmp_path, *crowd(rng, 12))
        else:
            sides = (pedestrians if name in ("citypersons", "caltech") else specks)(rng, 15)
        if name == "citypersons":
            sides = with_ties(*sides)
        known, changed = (odm.eval(*sides, p).summary for p in (PROTOCOLS[name], rules))
        pairs = [(value, changed.get(key, math.nan)) for key, value in known.items()]
        if any(abs(a - b) > 1e-12 for a, b in pairs if not math.isnan(a + b)):
            return
    pytest.fail("no set of files notices the rule")


# ------------------------------------------------------------------------------------------------- options


def test_thresholds_of_classes():
    """Each class has the AP that it has where its threshold is that of all."""
    truth, found = specks(random.Random(2), 25)
    each = {iou: odm.eval(truth, found, "voc2012", iou=iou).classes for iou in (0.5, 0.7, 0.9)}
    for iou in ("sea=0.9,earth=0.7", {"sea": 0.9, "earth": 0.7}):
        result = odm.eval(truth, found, "voc2012", iou=iou)
        assert [row.ap for row in result.classes] == [each[0.9][0].ap, each[0.7][1].ap]
        assert "IoU 0.9 for sea, IoU 0.7 for earth" in result.result.definition
    alone = odm.eval(truth, found, "imagenet-loc", iou=0.5)
    assert alone.summary
    mixed = odm.eval(truth, found, "tf-voc", iou=["sea=0.9", 0.7])
    assert mixed.classes[1].ap == odm.eval(truth, found, "tf-voc", iou=0.7).classes[1].ap
    for protocol, iou in (
        ("coco", "sea=0.9"),
        ("voc2012", "moon=0.9"),
        ("voc2012", "sea=x"),
        ("voc2012", "sea=2"),
        ("voc2012", "0.5:0.1:0.75"),
        ("voc2012", "0.9:0.1:0.5"),
        ("voc2012", "0.5:0:0.7"),
        ("voc2012", "0.5:nan:0.7"),
        ("voc2012", "0.5:0.1"),
        ("voc2012", ""),
    ):
        with pytest.raises(UsageError):
            odm.eval(truth, found, protocol, iou=iou)


@pytest.mark.parametrize(
    ("text", "ious"),
    [
        ("0.5", [0.5]),
        ("0.3:0.05:0.75", np.linspace(0.3, 0.75, 10).tolist()),
        ("0.5:0.05:0.95", None),
        ("0.6:0.1:0.6", [0.6]),
        ("0.25:0.125:0.5", [0.25, 0.375, 0.5]),
        ("0.5,0.75", [0.5, 0.75]),
    ],
)
@pytest.mark.parametrize("protocol", ["coco", "voc2012"])
def test_thresholds_are_written_as_they_are_printed(text, ious, protocol):
    truth, found = specks(random.Random(3), 10)
    written, listed = (
        odm.eval(truth, found, protocol, iou=iou) for iou in (text, ious or PROTOCOLS["coco"].ious)
    )
    assert str([result.to_dict() for result in written.results]) == str([r.to_dict() for r in listed.results])
    if protocol == "coco":
        printed = written.result.definition.split("; ")[0].removeprefix("coco: IoU ").replace(", ", ",")
        again = odm.eval(truth, found, protocol, iou=printed)
        assert again.result.definition == written.result.definition


def test_citypersons_without_oddities_reads_no_point_as_no_recall():
    truth, found = pedestrians(random.Random(12), 12)
    found.append({**found[0], "bbox": [0, 0, 30, 60], "score": 2.0})  # a false positive comes first
    plain = odm.eval(truth, found, "citypersons", without_oddities=True)
    expected = miss_rate(truth, found, "Reasonable", RATES, wrapped=False, floor=0.0)
    assert plain.summary["MR@Reasonable"] == pytest.approx(expected)
    assert plain.summary != odm.eval(truth, found, "citypersons").summary
    with pytest.raises(UsageError, match="coco has none"):
        odm.eval(truth, found, "coco", without_oddities=True)


def test_curves_of_miss_rates_are_saved(tmp_path):
    """Their points give the miss rates of every set-up and class."""
    truth, found = pedestrians(random.Random(3), 40)
    summary = odm.eval(truth, found, "caltech", save=tmp_path / "saved").summary
    with open(tmp_path / "saved" / "miss_rates.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for set_up in SET_UPS:
        points = [
            (float(row["false_per_image"]), float(row["miss_rate"]))
            for row in rows
            if row["set_up"] == set_up
        ]
        misses = [max([miss for f, miss in points if f <= rate][-1], 1e-10) for rate in CALTECH]
        mean = math.exp(sum(map(math.log, misses)) / len(CALTECH))
        assert summary[f"MR@{set_up}"] == pytest.approx(mean), set_up
    odm.eval(truth, found, "coco", save=tmp_path / "coco")
    assert not (tmp_path / "coco" / "miss_rates.csv").exists()


def test_gates_of_miss_rates(tmp_path):
    """A key may hold an equals sign, and a rate above its bound fails."""
    truth, found = pedestrians(random.Random(3), 40)
    rules = odm.eval(truth, found, "citypersons")
    key = "MR@Reasonable_occ=heavy"
    value = rules.summary[key]
    for bound, fails in ((value + 0.01, False), (value - 0.01, True)):
        lines, unknown = find_failures(rules, [parse_gate(f"{key}={bound}")])
        assert (bool(lines), unknown) == (fails, [])
