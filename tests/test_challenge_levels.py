"""KITTI, VisDrone, WIDER FACE and xView against slow and plain implementations of their programs' rules."""

import math
import random

import numpy as np
import pytest
from msgspec.structs import replace
from selection import examples

import odm
from odm.evaluate import PROTOCOLS
from odm.evaluate.analysis.replicates import Plan
from odm.evaluate.analysis.table import tabulate
from odm.issues import UsageError


def overlap(a, b, *, own=False, pixel=0):
    """IoU of two boxes (left, top, right, bottom), or the share of the first that is covered."""
    w, h = (min(a[k + 2], b[k + 2]) - max(a[k], b[k]) + pixel for k in (0, 1))
    if w <= 0 or h <= 0:
        return 0.0
    areas = [(c[2] - c[0] + pixel) * (c[3] - c[1] + pixel) for c in (a, b)]
    return w * h / (areas[0] if own else areas[0] + areas[1] - w * h)


def write_lines(folder, files):
    """A file for each image, with these lines."""
    folder.mkdir(parents=True)
    for name, lines in files.items():
        path = folder / f"{name}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
    return folder


# ------------------------------------------------------------------------------------------------------ KITTI

KINDS = ["Car", "Pedestrian", "Cyclist", "Van", "Person_sitting"]
LEVELS = {"easy": (40, 0, 0.15), "moderate": (25, 1, 0.3), "hard": (25, 2, 0.5)}
NEIGHBOURS = {"Car": "Van", "Van": "Car", "Pedestrian": "Person_sitting", "Person_sitting": "Pedestrian"}


def streets(rng, n_images):
    """(type, truncated, occluded, alpha, box) of objects, and with a score of detections, by image."""
    truth, found = {}, {}
    for image in range(n_images):
        objects, detections = [], []
        for _ in range(rng.randrange(6)):
            kind = rng.choice([*KINDS, "Car", "Pedestrian", "DontCare", "Misc"])
            left, top = rng.randrange(300), rng.randrange(90)
            height = rng.choice([24, 25, 25.5, 39, 40, 40.5, 60, 80])
            box = [left, top, left + rng.choice([40, 60]), top + height]
            state = rng.choice([0, 0.1, 0.15, 0.2, 0.3, 0.5, 0.6]), rng.choice([0, 0, 1, 2, 3])
            objects.append((kind, *state, rng.uniform(-3, 3), box))
            for _ in range(rng.randrange(3)):
                moved = [v + rng.choice([0, 0, 2, 9]) for v in box]
                named = rng.choice([kind, kind, kind, rng.choice(KINDS)])
                named = rng.choice(KINDS) if named == "DontCare" else named
                detections.append((named, -1, -1, rng.uniform(-3, 3), moved, rng.randrange(20) / 10))
            if kind == "DontCare" or rng.random() < 0.6:
                continue
            left, top, right, bottom = box
            more = rng.choice([
[(kind, [left + d, top, right + d, bottom], s) for d, s in ((10, 0.5), (-10, 0.9))],  # alike
                [(kind, [left, top, (left + right) / 2, bottom], 0.9)],  # by exactly a half
                [(rng.choice(KINDS), [left, top, right, min(top + 24, bottom)], 1.95)],  # small, of any class
            ])  # fmt: skip
            detections += [(name, -1, -1, 0.5, *rest) for name, *rest in more]
            if len(more) == 2:  # of which another object overlaps one
                objects.append((kind, *state, 0.5, [left + 20, top, right + 20, bottom]))
        truth[f"{image:06}"], found[f"{image:06}"] = objects, detections
    return truth, found


def kitti_numbers(truth, found, kind, level, without=""):
    """AP and similarity at 40 and 11 entries, as the program goes about it; None without objects."""
    lowest, occlusion, truncation = LEVELS[level]
    threshold = 0.7 if kind in ("Car", "Van") else 0.5

    def is_higher(box):
        return box[3] - box[1] >= lowest if without == "higher" else box[3] - box[1] > lowest

    def reaches(share):
        return share >= threshold if without == "strict" else share > threshold

    def match(image, limit):
        objects, used, scores, similarity = [], set(), [], 0.0
        for name, cut, hidden, alpha, box in truth[image]:
            if name == kind:
                ignored = not (hidden <= occlusion and cut <= truncation and is_higher(box))
                objects.append((box, alpha, ignored))
            elif name == NEIGHBOURS.get(kind) and without != "neighbours":
                objects.append((box, alpha, True))
        detections = []
        for name, _, _, alpha, box, score in found[image]:
            is_small = int(box[3] - box[1]) < lowest
            if name == kind or (is_small and without != "small"):
                detections.append((box, alpha, score, is_small))
        for box, angle, ignored in objects:
            able = [
                j
                for j, d in enumerate(detections)
                if j not in used and reaches(overlap(d[0], box)) and (limit is None or d[2] >= limit)
            ]
            if not able:
                continue
            by_overlap = [(not detections[j][3], overlap(detections[j][0], box)) for j in able]
            if limit is None:
                chosen = max(able, key=lambda j: detections[j][2])
            elif without == "first":
                chosen = max(zip(by_overlap, able, strict=True))[1]
            else:
                large = [j for j in able if not detections[j][3]]
                chosen = max(large, key=lambda j: overlap(detections[j][0], box)) if large else able[0]
            used.add(chosen)
            if not ignored and not detections[chosen][3]:
                scores.append(detections[chosen][2])
                similarity += (1 + math.cos(angle - detections[chosen][1])) / 2
        regions = [box for name, *_, box in truth[image] if name == "DontCare" and without != "regions"]
        false = sum(
            j not in used and not d[3] and (limit is None or d[2] >= limit)
            and not any(overlap(d[0], r, own=True) > threshold for r in regions)
            for j, d in enumerate(detections)
        )  # fmt: skip
        return scores, false, similarity, sum(not ignored for *_, ignored in objects)

    each = [match(image, None) for image in truth]
    n = sum(counting for *_, counting in each)
    if not n:
        return None
    limits, recall = [], 0.0
    ranked = sorted((score for scores, *_ in each for score in scores), reverse=True)
    for i, score in enumerate(ranked):
        last = i == len(ranked) - 1
        if without != "limits" and not last and (i + 2) / n - recall < recall - (i + 1) / n:
            continue
        limits.append(score)
        recall += 1 / 40
    curves = np.zeros((2, 41))
    for k, limit in enumerate(limits[:41]):
        parts = [match(image, limit) for image in truth]
        true, false = sum(len(p[0]) for p in parts), sum(p[1] for p in parts)
        if true + false:
            curves[:, k] = true / (true + false), sum(p[2] for p in parts) / (true + false)
    curves = np.maximum.accumulate(curves[:, ::-1], axis=1)[:, ::-1]
    return [mean for curve in curves for mean in (curve[1:].mean(), curve[::4].mean())]


def kitti_of(folder, truth, found, protocol="kitti"):
    """The result of odm from files, whose classes are in any order."""
    rest = "1.5 1.6 3.2 1 1.5 20 0.1"
    files = [
        {image: [f"{kind} {cut} {hidden} {alpha!r} {' '.join(map(repr, box))} {rest}{''.join(f' {s}' for s in score)}"
                 for kind, cut, hidden, alpha, box, *score in rows] for image, rows in side.items()}
        for side in (truth, found)
    ]  # fmt: skip
    paths = [write_lines(folder / name, side) for name, side in zip(("gt", "det"), files, strict=True)]
    return odm.eval(*paths, protocol, gt_format="kitti", det_format="kitti")


KITTI_KEYS = "AP_R40", "AP_R11", "AOS_R40", "AOS_R11"
RULES = "higher", "strict", "neighbours", "small", "first", "regions"


def test_kitti(tmp_path):
    """Each rule changes the numbers of some set."""
    missed = set(RULES)
    for seed in range(examples(6)):
        truth, found = streets(random.Random(seed), 30)
        result = kitti_of(tmp_path / str(seed), truth, found)
        rows = {row.name: row for row in result.classes}
        for level in LEVELS:
            all_numbers = []
            for kind in KINDS:
                expected = kitti_numbers(truth, found, kind, level)
                values = [rows[kind].extra[f"{key}@{level}"] for key in KITTI_KEYS]
                assert values == pytest.approx(expected or [np.nan] * 4, nan_ok=True, abs=1e-12), (
                    seed,
                    kind,
                    level,
                )
                all_numbers += [expected] if expected else []
                for rule in sorted(missed):
                    changed = kitti_numbers(truth, found, kind, level, rule)
                    if expected != pytest.approx(changed, abs=1e-9):
                        missed.discard(rule)
            means = [result.summary[f"{key}@{level}"] for key in KITTI_KEYS]
            assert means == pytest.approx(np.mean(all_numbers, axis=0))
    assert not missed, missed


def test_limits_of_kitti_are_a_fortieth_of_recall_apart(tmp_path):
    rng = random.Random(1)
    truth = {
        f"{i:06}": [("Car", 0, 0, 0.5, [n * 100, 10, n * 100 + 90, 90]) for n in range(3)] for i in range(40)
    }
    found = {
        image: [(*rows[n % 3][:4], rows[n % 3][4] if rng.random() < 0.7 else [0, 100, 50, 150], rng.random())
                for n in range(3)] for image, rows in truth.items()
    }  # fmt: skip
    row = kitti_of(tmp_path, truth, found).classes[0]
    values = [row.extra[f"{key}@moderate"] for key in KITTI_KEYS]
    assert values == pytest.approx(kitti_numbers(truth, found, "Car", "moderate"))
    assert values != pytest.approx(kitti_numbers(truth, found, "Car", "moderate", "limits"))


def test_ten_cars_found_without_error_give_22_and_a_half_percent(tmp_path):
    truth = {f"{i:06}": [("Car", 0, 0, 0.5, [10, 10, 90, 90])] for i in range(10)}
    found = {image: [(*rows[0], 0.9 - int(image) / 20)] for image, rows in truth.items()}
    summary = kitti_of(tmp_path, truth, found).summary
    assert summary["AP_R40@easy"] == pytest.approx(0.225)
    assert summary["AP_R11@easy"] == pytest.approx(3 / 11)


def test_kitti_reads_names_in_any_case_and_directions_only_where_all_are_known(tmp_path):
    truth, found = streets(random.Random(5), 20)
    expected = kitti_of(tmp_path / "a", truth, found).summary

    def spelled(side, is_lower):
        return {image: [(row[0].lower() if is_lower(k) else row[0], *row[1:]) for k, row in enumerate(rows)]
                for image, rows in side.items()}  # fmt: skip

    none, each, odd = (lambda k: False), (lambda k: True), (lambda k: k % 2)
    for n, (one, other) in enumerate(((none, each), (each, none), (odd, odd))):
        sides = spelled(truth, one), spelled(found, other)
        evaluation = kitti_of(tmp_path / f"spelled {n}", *sides)
        assert evaluation.summary == pytest.approx(expected), n
        shown = [
            line.split()[0]
            for line in odm.evaluate.render(evaluation).split("class ")[1].split("\n")[2:]
            if line
        ]
        classes = [name.casefold() for name in shown[: shown.index("(all)")]]
        assert len(classes) == len(set(classes))
    image = next(image for image, rows in found.items() if rows)
    unknown = {**found, image: [(*found[image][0][:3], -10, *found[image][0][4:]), *found[image][1:]]}
    summary = kitti_of(tmp_path / "c", truth, unknown).summary
    assert all(math.isnan(value) == key.startswith("AOS") for key, value in summary.items())


# --------------------------------------------------------------------------------------------------- VisDrone

DRONE = ["regions", *PROTOCOLS["visdrone"].only, "others"]


def flights(rng, n_images):
    """(left, top, width, height, score, category) of objects, scored or not, and of detections, by image."""
    truth, found = {}, {}
    for image in range(n_images):
        objects, detections = [], []
        for _ in range(rng.randrange(1, 9)):
            box = [rng.randrange(90), rng.randrange(70), rng.randrange(4, 30), rng.randrange(4, 30)]
            category = rng.choice([0, 1, 1, 1, 4, 4, 5, 11])
            objects.append((*box, int(category > 0 and rng.random() < 0.8), category))
            for _ in range(rng.randrange(3)):
                moved = [v + rng.choice([0, 0, rng.uniform(-2, 2)]) for v in box[:2]], box[2:]
                named = rng.choice([category or 4, category or 1, rng.choice([1, 4, 11])])
                detections.append((*moved[0], *moved[1], round(rng.random(), 2), named))
        if (
            rng.random() < 0.3
        ):  # an object that lies as far to the right of a detection as another to the left
            objects += [(left, 40, 20, 20, 1, 4) for left in (38, 42)]
            detections += [(left, 40, 20, 20, score, 4) for left, score in ((40, 0.99), (42, 0.98))]
        if rng.random() < 0.3:  # half a box in a region, but for the pixels at its edges
            objects += [(10, 10, 10, 10, 0, 0), (15, 10, 10, 10, 1, 1), (16, 10, 10, 10, 1, 1)]
        detections = rng.sample(detections, len(detections))
        if image % 3:
            detections.sort(key=lambda d: -d[4])
        truth[f"{image:05}"], found[f"{image:05}"] = objects, detections or [(1, 1, 5, 5, 0.5, 1)]
    return truth, found


def half_up(value):
    return math.copysign(math.floor(abs(value) + 0.5), value)


def visdrone_numbers(truth, found, size, without=""):
    """The seven numbers of the program, which paints the regions pixel by pixel."""
    width, height = size

    def kept(rows, painted):
        remaining = []
        for row in rows:
            x, y, w, h = (int(max(1, half_up(v))) for v in row[:4])
            x, y = min(x, width), min(y, height)
            begin = 0 if without != "corner" else 1
            inside = painted[y - begin : min(height, y + h), x - begin : min(width, x + w)].sum()
            if row[5] != 0 and (without == "covered" or inside / (w * h) < 0.5):
                remaining.append(row)
        return remaining

    images, contained = [], {}
    for image, rows in truth.items():
        painted = np.zeros((height, width))
        for row in rows:
            if row[5] == 0:
                x, y, w, h = (max(1, v) for v in row[:4])
                painted[y - 1 : min(height, y + h), x - 1 : min(width, x + w)] = 1
        objects, detections = kept(rows, painted), kept(found[image], painted)
        if without == "file":
            detections.sort(key=lambda d: -d[4])
        images.append((objects, detections[:500]))
        for category in {row[5] for row in objects}:
            contained[category] = contained.get(category, 0) + 1
    numbers = {}
    for category, weight in contained.items():
        if category == 11:
            continue
        for t in (0.5 + 0.05 * i for i in range(10)):
            for cap in (1, 10, 100, 500):
                outcomes, npos = [], 0
                for objects, detections in images:
                    own = [row for row in objects if row[5] == category]
                    npos += sum(without != "ignored" or row[4] for row in own)
                    taken = set()
                    for d in sorted((d for d in detections[:cap] if d[5] == category), key=lambda d: -d[4]):
                        box = d[0], d[1], d[0] + d[2], d[1] + d[3]
                        boxes = [(r[0], r[1], r[0] + r[2], r[1] + r[3]) for r in own]
                        able = [(overlap(box, b), j if without != "last" else -j) for j, b in enumerate(boxes)
                                if own[j][4] and j not in taken and overlap(box, b) >= t]  # fmt: skip
                        if able:
                            taken.add(abs(max(able)[1]))
                            outcomes.append((d[4], 1))
                        elif not any(
                            overlap(box, b, own=True) >= t
                            for r, b in zip(own, boxes, strict=True)
                            if not r[4]
                        ):
                            outcomes.append((d[4], 0))
                tp, points = 0, []
                for n, (_, hit) in enumerate(sorted(outcomes, key=lambda o: -o[0]), 1):
                    tp += hit
                    points.append((tp / npos if npos else 0, tp / n))
                weight = weight if without != "images" else 1  # noqa: PLW2901
                recall = max((r for r, _ in points), default=0.0)
                numbers.setdefault(f"AR{cap}", []).append((recall, weight))
                if cap == 500:
                    best, steps = 0.0, []
                    for (r, p), before in zip(points[::-1], [*points[-2::-1], (0.0, 0)], strict=True):
                        best = max(best, p)
                        steps.append((r - before[0]) * best)
                    for key in ["AP", *[f"AP{k:g}" for k in (50, 75) if abs(t - k / 100) < 1e-9]]:
                        numbers.setdefault(key, []).append((sum(steps), weight))
    return {key: sum(v * w for v, w in rows) / sum(w for _, w in rows) for key, rows in numbers.items()}


def visdrone_of(folder, truth, found, size, protocol="visdrone"):
    rows = {image: [f"{','.join(map(str, row))},0,0" for row in rows] for image, rows in truth.items()}
    results = {image: [f"{','.join(map(str, row))},-1,-1" for row in rows] for image, rows in found.items()}
    paths = write_lines(folder / "gt", rows), write_lines(folder / "det", results)
    formats = {"gt_format": "visdrone", "det_format": "visdrone"}
    return odm.eval(*paths, protocol, image_size=f"{size[0]}x{size[1]}", **formats)


def test_visdrone(tmp_path):
    """Each rule changes the numbers of some set."""
    missed = {"covered", "corner", "file", "last", "ignored", "images"}
    for seed in range(examples(3)):
        truth, found = flights(random.Random(seed), 14)
        size = 110, 90
        summary = visdrone_of(tmp_path / str(seed), truth, found, size).summary
        expected = visdrone_numbers(truth, found, size)
        assert {key: summary[key] for key in expected} == pytest.approx(expected, abs=1e-12), seed
        assert len(summary) == len(expected)
        for rule in sorted(missed):
            if visdrone_numbers(truth, found, size, rule) != pytest.approx(expected, abs=1e-9):
                missed.discard(rule)
    assert not missed, missed


def test_intervals_of_visdrone_are_those_of_repeated_images(tmp_path):
    truth, found = flights(random.Random(4), 8)
    scores = iter(random.Random(5).sample(range(1, 999), 500))  # of copies, equal ones have no order
    found = {
        image: [(*row[:4], next(scores) / 1000, row[5]) for row in rows] for image, rows in found.items()
    }
    result = visdrone_of(tmp_path / "whole", truth, found, (110, 90))
    weights = np.random.default_rng(0).multinomial(8, [1 / 8] * 8, size=3)
    drawn = Plan(tabulate(result.joined, result.result.matches), areas=True).compute(weights).summary
    assert drawn.keys() == result.summary.keys()
    for i, n in enumerate(weights):
        names = [name for name, times in zip(truth, n, strict=True) for _ in range(times)]
        sides = ({f"{k:05}": side[name] for k, name in enumerate(names)} for side in (truth, found))
        expected = visdrone_of(tmp_path / str(i), *sides, (110, 90)).summary
        assert {key: values[i] for key, values in drawn.items()} == pytest.approx(expected, nan_ok=True)


# ------------------------------------------------------------------------------------------------- WIDER FACE


def crowds_of_faces(rng, n_images):
    """Faces (left, top, width, height) and the numbers of those listed by level, and results, by image."""
    faces, lists, found = {}, {level: {} for level in ("easy", "medium", "hard")}, {}
    for i in range(n_images):
        image = f"{i % 2}--Event/{i:03}"
        boxes = [[rng.randrange(90), rng.randrange(90), *[rng.choice([6, 9, 20])] * 2]
                 for _ in range(rng.randrange(6))]  # fmt: skip
        rows = [
            [v + rng.choice([0, 0, 1, 3]) for v in box] + [rng.randrange(-4, 30) / 7]
            for box in boxes
            for _ in range(rng.randrange(3))
        ]
        rows += [[rng.randrange(90), 5, 9, 9, rng.randrange(-4, 30) / 7]] * (rng.random() < 0.4)
        rows += [[box[0] - 5, *box[1:], 4.0] for box in boxes[:1]]
        if i % 4:
            rows.sort(key=lambda row: -row[4])
        faces[image], found[image] = boxes, rows
        listed = set(range(1, len(boxes) + 1))
        for level in ("hard", "medium", "easy"):
            listed = {k for k in listed if rng.random() < 0.8}
            lists[level][image] = listed
    return faces, lists, found


def face_ap(faces, listed, found, without=""):
    """The AP of one level, with a thousand limits."""
    scores = [row[4] for rows in found.values() for row in rows]
    low, high = min([1, *scores]), max([0, *scores])
    low, high = (0, 1) if without == "spread" else (low, high)
    n_found, n_proposals = np.zeros(1000), np.zeros(1000)
    for image, boxes in faces.items():
        rows = found[image]
        if not rows or not boxes:
            continue
        taken, counts = set(), []
        for left, top, w, h, _ in rows:
            pixel = 0 if without == "pixel" else 1
            shares = [
                overlap((left, top, left + w, top + h), (x, y, x + a, y + b), pixel=pixel)
                for x, y, a, b in boxes
            ]
            j = int(np.argmax(shares))
            counts.append((len(taken), 1))
            if shares[j] >= 0.5:
                if j + 1 in listed[image]:
                    taken.add(j)
                else:
                    counts[-1] = 0, 0
            counts[-1] = len(taken), counts[-1][1]
        for k in range(1000):
            reached = [i for i, row in enumerate(rows) if (row[4] - low) / (high - low) >= 1 - (k + 1) / 1000]
            if reached:
                n_found[k] += counts[reached[-1]][0]
                n_proposals[k] += sum(c[1] for c in counts[: reached[-1] + 1])
    npos = sum(map(len, listed.values()))
    recall = n_found / npos
    precision = np.divide(n_found, n_proposals, out=np.zeros(1000), where=n_proposals > 0)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    return float((np.diff(recall, prepend=0) * envelope).sum())


def write_faces(folder, faces, lists, found):
    """The files of the challenge."""
    savemat = pytest.importorskip("scipy.io", reason="SciPy is not installed").savemat
    blocks = [
        f"{image}.jpg\n{len(boxes)}\n" + ("".join(f"{' '.join(map(str, b))} 0 0 0 0 0 0\n" for b in boxes)
                                          or "0 0 0 0 0 0 0 0 0 0\n") for image, boxes in faces.items()
    ]  # fmt: skip
    folder.mkdir()
    (folder / "wider_face_val_bbx_gt.txt").write_text("".join(blocks))
    results = {image: [f"{image}.jpg", len(rows), *(" ".join(map(repr, row)) for row in rows)]
               for image, rows in found.items()}  # fmt: skip
    events = sorted({image.split("/")[0] for image in faces})
    (folder / "ground_truth").mkdir()
    for level, listed in lists.items():
        named = [[image for image in faces if image.startswith(event)] for event in events]
        cells = {
            "event_list": [np.array([event]) for event in events],
            "file_list": [cell([np.array([image.split("/")[1]]) for image in images]) for images in named],
            "gt_list": [
                cell([np.array([sorted(listed[image])], np.uint8).T for image in images]) for images in named
            ],
        }
        columns = {key: cell(values) for key, values in cells.items()}
        savemat(folder / "ground_truth" / f"wider_{level}_val.mat", columns, do_compression=True)
    return folder / "wider_face_val_bbx_gt.txt", write_lines(folder / "pred", results)


def cell(values):
    """A column of MATLAB's cells."""
    column = np.empty((len(values), 1), object)
    for i, value in enumerate(values):
        column[i, 0] = value
    return column


def test_widerface(tmp_path):
    """Each rule changes the numbers of some set."""
    missed = {"spread", "pixel"}
    for seed in range(examples(4)):
        faces, lists, found = crowds_of_faces(random.Random(seed), 20)
        paths = write_faces(tmp_path / str(seed), faces, lists, found)
        result = odm.eval(*paths, "widerface")
        exact = odm.eval(*paths, replace(PROTOCOLS["widerface"], n_limits=10)).summary
        assert exact != pytest.approx(result.summary, abs=1e-6)  # the thousand limits matter
        for level, listed in lists.items():
            expected = face_ap(faces, listed, found)
            assert result.summary[f"AP@{level}"] == pytest.approx(expected, abs=1e-12), (seed, level)
            for rule in sorted(missed):
                if face_ap(faces, listed, found, rule) != pytest.approx(expected, abs=1e-6):
                    missed.discard(rule)
    assert not missed, missed


def test_widerface_without_lists_is_approximate_and_wrong_lists_are_refused(tmp_path):
    paths = write_faces(tmp_path / "a", *crowds_of_faces(random.Random(1), 12))
    folder = paths[0].parent / "ground_truth"
    assert "approximate" not in odm.eval(*paths, "widerface").result.definition
    folder.rename(tmp_path / "lists")
    assert "approximate" in odm.eval(*paths, "widerface").result.definition
    named = odm.eval(*paths, "widerface", gt_lists=tmp_path / "lists")
    assert "approximate" not in named.result.definition
    for path in (tmp_path / "lists").iterdir():
        path.write_bytes(b"no list")
    for lists, message in (
        (tmp_path / "lists", "gt_list of WIDER FACE"),
        (tmp_path, "expected a folder with"),
    ):
        with pytest.raises(UsageError, match=message):
            odm.eval(*paths, "widerface", gt_lists=lists)


# ------------------------------------------------------------------------------------------------------ xView


def scenes(rng, n_images):
    """(box, class) of objects and (box, class, score) of detections, by image."""
    truth, found = {}, {}
    for image in range(n_images):
        objects, detections = [], []
        for _ in range(rng.randrange(1, 7)):
            left, top, side = rng.randrange(200), rng.randrange(200), rng.choice([10, 20])
            objects.append(([left, top, left + side, top + side], rng.choice([11, 73, 75, 18])))
            for _ in range(rng.randrange(3)):
                moved = [v + rng.choice([0, 0, rng.uniform(0, 5)]) for v in objects[-1][0]]
                category = rng.choice([objects[-1][1]] * 4 + [99])
                detections.append((moved, category, rng.randrange(11) / 10))
        truth[f"{image}.tif"], found[f"{image}.tif"] = (
            objects,
            [d for d in detections if d[1] != 18 or image % 2],
        )
    return truth, found


def xview_aps(truth, found):
    """The AP of each class, as the program goes about it, with a stable sort."""
    aps = {}
    for category in {c for rows in truth.values() for _, c in rows} - {75, 82, 87}:
        outcomes, npos = [], 0
        for image in sorted(truth):
            own = [d for d in found[image] if d[1] == category and d[2] > 0]
            own = sorted(own, key=lambda d: d[2])[::-1]
            objects = [box for box, c in truth[image] if c == category]
            npos += len(objects) if own else 0
            taken = set()
            for box, _, score in own:
                shares = [overlap(box, other) for other in objects]
                j = int(np.argmax(shares)) if shares else -1
                hit = j >= 0 and shares[j] >= 0.5 and j not in taken
                taken |= {j} if hit else set()
                outcomes.append((score, hit))
        tp, points = 0, []
        for n, (_, hit) in enumerate(sorted(outcomes, key=lambda o: o[0])[::-1], 1):
            tp += hit
            points.append((tp / npos if npos else 0, tp / n))
        ap = before = 0.0
        for i, (recall, _) in enumerate(points):
            ap += (recall - before) * max(p for _, p in points[i:])
            before = recall
        aps[str(category)] = ap
    return aps


def test_xview():
    changes = {"detected_only": False, "detections_in": "score", "score_above": None, "never": ()}
    missed = set(changes)
    for seed in range(examples(5)):
        truth, found = scenes(random.Random(seed), 9)
        names = sorted(truth)
        categories = sorted(
            {str(c) for side in (truth, found) for rows in side.values() for _, c, *_ in rows}
        )
        sides = []
        for side in (truth, found):
            rows = [(names.index(image), *row) for image in names for row in side[image]]
            image, boxes, category, *score = zip(*rows, strict=True)
            sides.append(odm.Dataset.from_arrays(
                images=names, categories=categories, image=image, xyxy=boxes, score=score[0] if score else None,
                category=[categories.index(str(c)) for c in category], kind="det" if score else "gt",
            ))  # fmt: skip
        result = odm.eval(*sides, "xview")
        expected = xview_aps(truth, found)
        assert {row.name: row.ap for row in result.classes if row.name in expected} == pytest.approx(expected)
        assert result.summary["mAP"] == pytest.approx(np.mean(list(expected.values())))
        for field, value in changes.items():
            rules = replace(PROTOCOLS["xview"], **{field: value})
            if odm.eval(*sides, rules).summary["mAP"] != pytest.approx(result.summary["mAP"]):
                missed.discard(field)
    assert not missed, missed
