"""The protocols `ultralytics` and `yolov5`: known answers, and a slow reference in 32-bit floats."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odm.cli import _app
from odm.evaluate import Metric, concatenate, evaluate, join, match, resolve
from odm.evaluate.scores.accumulate import accumulate
from odm.issues import UsageError
from odm.tables import Dataset, Flag

single = np.float32
THRESHOLDS = np.linspace(0.5, 0.95, 10).astype(single)
NAMES = ["a", "b", "c"]


def dataset(rows, n_images, *, scored, flags=None):
    """Rows (image, class, ltwh, score)."""
    image, category, boxes, scores = zip(*rows, strict=True) if rows else ((), (), np.zeros((0, 4)), ())
    return Dataset.from_arrays(
        images=[f"{i:03}" for i in range(n_images)],
        categories=NAMES,
        image=np.array(image, int),
        category=np.array(category, int),
        ltwh=boxes,
        score=np.array(scores, float) if scored else None,
        flags=flags,
        kind="det" if scored else "gt",
    )


def b1():
    a, b = 0, 1
    truth = [
        (0, a, [10, 10, 20, 20], 0), (0, a, [50, 50, 20, 20], 0), (1, b, [10, 10, 40, 40], 0),
        (1, a, [60, 60, 20, 20], 0), (2, a, [0, 0, 20, 20], 0), (2, a, [6, 0, 20, 20], 0),
    ]  # fmt: skip
    found = [
        (0, a, [10, 10, 20, 12], 0.9), (0, a, [10, 10, 20, 18], 0.8), (0, a, [50, 50, 20, 20], 0.3),
        (0, a, [80, 0, 10, 10], 0.6), (1, b, [10, 10, 40, 30], 0.7), (1, b, [60, 60, 20, 20], 0.5),
        (1, a, [10, 10, 40, 40], 0.4), (2, a, [0, 0, 20, 20], 0.85), (2, a, [2, 0, 20, 20], 0.75),
    ]  # fmt: skip
    return truth, found, 3


def b2():
    truth, found, n = [], [], 0
    for i in range(30):
        for j in range(i % 5):
            x, y = 40 * j, 10 * ((3 * i + j) % 7)
            w, h = 20 + 4 * ((i + 2 * j) % 8), 24 + 4 * ((2 * i + j) % 6)
            truth.append((i, (i + j) % 3, [x, y, w, h], 0))
            for k in range((i + 3 * j) % 4):
                n += 1
                dx, dy = (5 * i + 7 * j + 3 * k) % 9 - 2, (3 * i + 2 * j + 5 * k) % 7 - 2
                category = (i + j + ((i + j + k) % 6 == 0)) % 3
                found.append((i, category, [x + dx, y + dy, w + k, h - k], (1 + 97 * n % 211) / 212))
        if i % 4 == 0:
            n += 1
            found.append((i, i % 3, [200, 200, 30, 40], (1 + 97 * n % 211) / 212))
    return truth, found, 30


ORDER = ["P", "R", "mAP50", "mAP75", "mAP50-95", "score"]
KNOWN = {
    ("b1", "ultralytics"): (0.761887, 0.8, 0.827143, 0.672024, 0.520414, 649 / 999),
    ("b1", "yolov5"): (0.653612, 0.7, 0.781786, 0.715952, 0.526946, 649 / 999),
    ("b2", "ultralytics"): (0.678631, 0.633333, 0.611868, 0.367903, 0.352922, 468 / 999),
    ("b2", "yolov5"): (0.678631, 0.633333, 0.662554, 0.436563, 0.401802, 468 / 999),
}


@pytest.mark.parametrize(("case", "protocol"), KNOWN)
def test_known_answers(case, protocol):
    truth, found, n = {"b1": b1, "b2": b2}[case]()
    both = evaluate(dataset(truth, n, scored=False), dataset(found, n, scored=True), [protocol, "coco"])
    result = both.results[0]
    assert list(result.summary) == ["mAP50-95", "mAP50", "mAP75", "P", "R", "score"], "the main one first"
    assert tuple(result.summary[key] for key in ORDER) == pytest.approx(KNOWN[case, protocol], abs=1e-6)
    assert (result.overall.score, result.overall.precision) == (result.summary["score"], result.summary["P"])
    coco = {"b1": (0.525348, 0.833805), "b2": (0.360129, 0.618302)}[case]
    assert [both.results[1].summary[k] for k in ("AP", "AP50")] == pytest.approx(coco, abs=1e-6)


def test_known_answers_of_classes():
    truth, found, n = b1()
    rows = evaluate(dataset(truth, n, scored=False), dataset(found, n, scored=True), "ultralytics").classes
    wanted = [(0.649650, 0.6, 0.659286, 0.443827), (0.874124, 1, 0.995, 0.597)]
    for row, numbers in zip(rows, wanted, strict=False):
        assert (row.precision, row.recall, row.extra["AP50"], row.ap) == pytest.approx(numbers, abs=1e-6)
    assert np.isnan([rows[2].ap, rows[2].recall, rows[2].best_f1]).all(), "no ground truth"


# ------------------------------------------------------------------------------------- a slow reference


def iou_single(one, other):
    """Corners; every step is rounded to 32 bits."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    inter = max(width, single(0)) * max(height, single(0))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return inter / (areas[0] + areas[1] - inter + single(1e-7))


def is_in(box, area):
    """Whether corners lie in an area range."""
    low, high = area
    return low <= (float(box[2]) - float(box[0])) * (float(box[3]) - float(box[1])) <= high


def hits(objects, guesses, threshold, *, free, area):
    """Which guesses, by falling score, match an object, None if ignored; boxes of one image and class.

    Objects outside the area range are ignored, and so is what matches them, and a guess outside that
    matches nothing.
    """
    taken, matched = set(), []
    counting = [is_in(o, area) for o in objects]
    for guess in guesses:
        ious = [single(0) if free and i in taken else iou_single(o, guess) for i, o in enumerate(objects)]
        groups = [[i for i, c in enumerate(counting) if c == of] for of in (True, False)]
        outcome = False if is_in(guess, area) else None
        for group in groups if free else [range(len(objects))]:
            best = max((ious[i] for i in group), default=single(0))
            reaching = [i for i in group if ious[i] == best and best >= threshold]
            if reaching:
                i = reaching[0 if free else -1]
                if not counting[i]:
                    outcome = None
                elif i not in taken:
                    outcome = True
                taken.add(i)
                break
        matched.append(outcome)
    return matched


def line(x, xs, ys):
    """The height at `x` of the lines through points of rising `xs`; at a repeated x that of the last."""
    for i in range(len(xs) - 1, -1, -1):
        if xs[i] <= x:
            if i == len(xs) - 1 or xs[i] == x:
                return ys[i]
            return ys[i] + (ys[i + 1] - ys[i]) * (x - xs[i]) / (xs[i + 1] - xs[i])
    raise AssertionError


def average_precision(recall, precision, *, ramp):
    points = [
        (0.0, 1.0),
        *zip(recall, precision, strict=True),
        *([] if ramp else [(recall[-1], 0.0)]),
        (1.0, 0.0),
    ]
    xs = [x for x, _ in points]
    ys = [max(y for _, y in points[i:]) for i in range(len(points))]
    grid = np.linspace(0, 1, 101)
    heights = [line(x, xs, ys) for x in grid]
    return sum((a + b) / 2 * w for a, b, w in zip(heights, heights[1:], np.diff(grid), strict=False))


def slow(truth, found, n_images, *, yolov5=False, cap=300, area=(0, np.inf)):
    """The summary without its score, from rows as `dataset` takes them; `truth` without crowds."""
    ranked = {c: [] for c in range(len(NAMES))}  # (score, image, place, hit at each threshold)
    n_objects = dict.fromkeys(ranked, 0)
    for image in range(n_images):
        kept = [(single(s), c, b) for i, c, b, s in found if i == image and single(s) > single(0.001)]
        kept = sorted(enumerate(kept), key=lambda row: -row[1][0])[:cap]
        for c in ranked:
            boxes = {
                tuple(single(v) for v in (x, y, x + w, y + h)): 0
                for i, k, (x, y, w, h), _ in truth
                if (i, k) == (image, c)
            }
            n_objects[c] += sum(is_in(box, area) for box in boxes)
            own = [
                (place, s, [single(v) for v in (x, y, x + w, y + h)])
                for place, (s, k, (x, y, w, h)) in kept
                if k == c
            ]
            tables = [
                hits(list(boxes), [b for _, _, b in own], t, free=not yolov5, area=area) for t in THRESHOLDS
            ]
            ranked[c] += [(s, image, place, hit) for (place, s, _), *hit in zip(own, *tables, strict=True)]
    classes = [c for c in ranked if n_objects[c]]
    aps, curves = [], []
    for c in classes:
        ordered = sorted(ranked[c], key=lambda row: (-row[0], row[1], row[2]))
        of_thresholds = []
        for t in range(10):
            rows = [row for row in ordered if row[3][t] is not None]
            sums = [sum(row[3][t] for row in rows[: i + 1]) for i in range(len(rows))]
            recall = [n / n_objects[c] for n in sums]
            precision = [n / (i + 1) for i, n in enumerate(sums)]
            of_thresholds.append(average_precision(recall, precision, ramp=yolov5) if rows else 0.0)
            if t == 0:
                xs = [-float(row[0]) for row in rows]
                curves.append(
                    [
                        (0.0, 0.0) if not rows else (1.0, 0.0) if -x < xs[0]
                        else (line(-x, xs, precision), line(-x, xs, recall))
                        for x in np.linspace(0, 1, 1000)
                    ]
                )  # fmt: skip
        aps.append(of_thresholds)
    f1 = [np.mean([2 * p * r / (p + r + 1e-16) for p, r in column]) for column in zip(*curves, strict=True)]
    padded = [f1[0]] * 50 + f1 + [f1[-1]] * 50
    smooth = np.array([sum(padded[i : i + 101]) / 101 for i in range(1000)])
    ap = np.array(aps)
    # Where two confidences are equally good but for rounding, either may be chosen.
    points = [
        (np.mean([curve[i][0] for curve in curves]), np.mean([curve[i][1] for curve in curves]))
        for i in np.flatnonzero(smooth >= smooth.max() - 1e-12).tolist()
    ]
    return points, (ap[:, 0].mean(), ap[:, 5].mean(), ap.mean())


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    yolov5=st.booleans(),
    cap=st.sampled_from([3, 300]),
    area=st.sampled_from([None, (0, 36), (12, 60), (37, 1e10)]),
)
def test_the_numbers_are_those_of_a_slow_reference(seed, yolov5, cap, area):
    rng = np.random.default_rng(seed)
    n = 4

    def box():  # of few values, so that IoUs are equal, and equal to thresholds
        return [*rng.integers(0, 12, 2).tolist(), *(2 + rng.integers(0, 3, 2) * 4).tolist()]

    truth = [(i, int(rng.integers(3)), box(), 0) for i in range(n) for _ in range(rng.integers(0, 6))]
    truth += [(0, 0, [1, 1, side, side], 0) for side in (6, 7)]
    found = [(i, c, b if rng.random() < 0.5 else box(), rng.integers(0, 9) / 8) for i, c, b, _ in truth]
    found += [
        (i, int(rng.integers(3)), box(), rng.random() / 100)
        for i in range(n)
        for _ in range(rng.integers(0, 3))
    ]
    found.sort(key=lambda row: row[0])
    truth.sort(key=lambda row: row[0])
    options = {"max_dets": cap} | ({} if area is None else {"area": area})
    points, aps = slow(truth, found, n, yolov5=yolov5, cap=cap, area=area or (0, np.inf))
    protocol = "yolov5" if yolov5 else "ultralytics"
    sides = dataset(truth, n, scored=False), dataset(found, n, scored=True)
    summary = evaluate(*sides, protocol, **options).summary
    assert [summary[k] for k in ("mAP50", "mAP75", "mAP50-95")] == pytest.approx(aps, abs=1e-9)
    assert min(abs(summary["P"] - p) + abs(summary["R"] - r) for p, r in points) < 1e-9
    # In shards, with another protocol beside it, and from a metric.
    joined, rules = join(*sides), resolve(protocol, **options)[0]
    shards = [match(joined.shard(images), rules) for images in ([2, 0], [3, 1])]
    assert accumulate(concatenate(shards)).summary == summary
    assert evaluate(*sides, ["coco", protocol, "voc2012"], **options).results[1].summary == summary
    metric = Metric(NAMES, protocol, box="xywh", **options)
    metric.update(
        *(
            {
                "image": [r[0] for r in rows],
                "labels": [r[1] for r in rows],
                "boxes": [r[2] for r in rows],
                "scores": [r[3] for r in rows],
            }
            for rows in (found, truth)
        )
    )
    assert metric.compute().summary == pytest.approx(summary, abs=1e-12)
    named = evaluate(*sides, protocol, max_dets=cap, area={"some": area}).summary if area else {}
    for key in ("mAP50-95", "mAP50") if area else ():
        assert named[f"{key}@some"] == pytest.approx(summary[key], nan_ok=True)


# ------------------------------------------------------------------------------------- rules one by one


def summary(truth, found, protocol="ultralytics", flags=None, **options):
    sides = dataset(truth, 2, scored=False, flags=flags), dataset(found, 2, scored=True)
    return evaluate(*sides, protocol, **options)


BOX = [10, 10, 20, 20]
FAR = [100, 100, 20, 20]


def test_a_perfect_class_gets_995():
    assert summary([(0, 0, BOX, 0)], [(0, 0, BOX, 0.9)]).summary["mAP50"] == pytest.approx(0.995)


def test_crowds_and_repeated_objects_are_left_out_and_counted():
    truth = [(0, 0, BOX, 0), (0, 0, BOX, 0), (0, 0, FAR, 0), (0, 1, BOX, 0)]
    evaluation = summary(truth, [(0, 0, BOX, 0.9)], flags=[0, 0, Flag.CROWD, Flag.DIFFICULT])
    assert evaluation.classes[0].gt == 1
    assert evaluation.classes[1].gt == 1, "difficult ones are ordinary"
    assert evaluation.result.dropped == {
        "ground truths flagged as crowd": 1,
        "ground truths that duplicate another": 1,
    }
    assert "ultralytics: 1 dropped: ground truths flagged as crowd" in evaluation.log.notes


def test_scores_of_a_thousandth_are_too_low():
    rows = summary([(0, 0, BOX, 0)], [(0, 0, BOX, 0.001), (0, 0, FAR, 0.00101)]).classes
    assert (rows[0].det, rows[0].tp) == (1, 0)


def test_of_an_image_300_are_kept_of_all_classes():
    found = [(0, 1, FAR, 0.9)] * 300 + [(0, 0, BOX, 0.5)]
    assert summary([(0, 0, BOX, 0)], found).summary["mAP50"] == 0
    assert summary([(0, 0, BOX, 0)], found, max_dets=301).summary["mAP50"] > 0.9


def test_scores_are_shown_as_they_were_given():
    table = summary([(0, 0, BOX, 0)], [(0, 0, BOX, 0.9), (0, 0, FAR, 0.12345)]).result.detections
    assert table.score.tolist() == [0.9, 0.12345]


@pytest.mark.parametrize(("protocol", "found"), [("yolov5", 2), ("ultralytics", 1)])
def test_of_equal_ious_yolov5_takes_the_last_object(protocol, found):
    truth = [(0, 0, [0, 0, 20, 20], 0), (0, 0, [10, 0, 20, 20], 0)]
    between_and_first = [(0, 0, [5, 0, 20, 20], 0.9), (0, 0, [0, 0, 20, 20], 0.8)]
    assert summary(truth, between_and_first, protocol).classes[0].tp == found


def test_straight_lines_change_average_precision_only_at_the_recalls_that_are_read():
    """A perfect half: 1 at 50 recalls and half of a step; with a ramp a triangle beside it."""
    truth, hit = [(0, 0, BOX, 0), (0, 0, FAR, 0)], [(0, 0, BOX, 0.9)]
    assert summary(truth, hit).summary["mAP50"] == pytest.approx(0.495)
    assert summary(truth, hit, "yolov5").summary["mAP50"] == pytest.approx(0.75)
    assert summary(truth, hit, "coco").summary["AP50"] == pytest.approx(51 / 101)


def test_equal_scores_of_32_bits_rank_by_position():
    found = [(0, 0, FAR, 0.5), (0, 0, BOX, 0.5 + 1e-12)]
    assert summary([(0, 0, BOX, 0)], found).summary["mAP50"] == pytest.approx(
        summary([(0, 0, BOX, 0)], [(0, 0, FAR, 0.6), (0, 0, BOX, 0.5)]).summary["mAP50"]
    )


def test_at_score_reads_precision_and_recall_there():
    truth, found, n = b1()
    sides = dataset(truth, n, scored=False), dataset(found, n, scored=True)
    best = evaluate(*sides, "ultralytics").summary
    there = evaluate(*sides, "ultralytics", at_score=best["score"]).summary
    assert there == pytest.approx(best, abs=1e-12)
    strict = evaluate(*sides, "ultralytics", at_score=0.95).summary
    assert (strict["P"], strict["R"], strict["mAP50"]) == (1, 0, best["mAP50"])


def test_a_note_says_that_yolo_val_has_no_area_ranges():
    for area in ("small", "tiny=0:256"):
        log = summary([(0, 0, BOX, 0)], [(0, 0, BOX, 0.9)], area=area).log
        assert any("as under coco; yolo val of" in note for note in log.notes)
    assert not any("yolo val" in note for note in summary([(0, 0, BOX, 0)], [(0, 0, BOX, 0.9)]).log.notes)


def test_nothing_found_is_zero_and_nothing_to_find_is_undefined():
    nothing = summary([(0, 0, BOX, 0)], []).summary
    assert [nothing[k] for k in ("P", "R", "mAP50", "mAP50-95")] == [0, 0, 0, 0]
    assert np.isnan(list(summary([], [(0, 0, BOX, 0.5)]).summary.values())).all()


@pytest.mark.parametrize("option", [{"interpolation": "11"}, {"iou": 0.5}])
def test_switches_without_meaning_are_refused(option):
    with pytest.raises(UsageError, match="ultralytics"):
        resolve("ultralytics", **option)


# --------------------------------------------------------------------------------- the files of a run

LABELS = {"000042": "0 .5 .5 .25 .5\n1 .2 .2 .1 .1\n", "street": "1 .5 .5 .5 .5\n"}


@pytest.fixture
def run(tmp_path):
    """A dataset of two images, and what ``yolo val save_json save_txt save_conf`` writes of it."""
    from PIL import Image

    (tmp_path / "data.yaml").write_text("path: .\nval: images\nnames:\n  0: cat\n  1: dog\n")
    for folder in ("images", "labels", "val/labels"):
        (tmp_path / folder).mkdir(parents=True)
    records = []
    for stem, text in LABELS.items():
        Image.new("RGB", (200, 100)).save(tmp_path / "images" / f"{stem}.jpg")
        (tmp_path / "labels" / f"{stem}.txt").write_text(text)
        (tmp_path / "val/labels" / f"{stem}.txt").write_text(
            "".join(f"{row} 0.75\n" for row in text.splitlines())
        )
        for row in text.splitlines():
            category, *xywh = map(float, row.split())
            x, y, w, h = (v * size for v, size in zip(xywh, (200, 100, 200, 100), strict=True))
            records.append(
                {
                    "image_id": int(stem) if stem.isnumeric() else stem,
                    "file_name": f"{stem}.jpg",
                    "category_id": int(category) + 1,
                    "bbox": [round(x - w / 2, 3), round(y - h / 2, 3), round(w, 3), round(h, 3)],
                    "score": 0.75,
                }
            )
    (tmp_path / "val/predictions.json").write_text(json.dumps(records))
    return tmp_path


@pytest.mark.parametrize("found", ["val/predictions.json", "val/labels"])
def test_a_run_of_ultralytics_is_evaluated_beside_coco(run, found, capsys, monkeypatch):
    monkeypatch.chdir(run)
    command = [
        "eval",
        "data.yaml",
        found,
        "--protocol",
        "coco",
        "--protocol",
        "ultralytics",
        "--output",
        "json",
    ]
    assert _app.run([*command, "--fail-under", "ultralytics:mAP50-95=0.99"]) == 0
    out = capsys.readouterr()
    coco, ultralytics = json.loads(out.out)["results"]
    assert coco["summary"]["AP"] == pytest.approx(1)
    assert ultralytics["summary"]["mAP50-95"] == pytest.approx(0.995)
    assert "Ultralytics 8.4.176" in ultralytics["definition"]
    assert _app.run([*command, "--fail-under", "ultralytics:mAP50-95=0.996"]) == 1


def test_the_table_says_where_precision_and_recall_are_read(run, capsys, monkeypatch):
    monkeypatch.chdir(run)
    assert _app.run(["eval", "-q", "data.yaml", "val/labels", "--protocol", "yolov5"]) == 0
    text = capsys.readouterr().out
    assert "at score 0, IoU 0.5" in text
    assert text.count("mAP50-95") == 1
    assert "mAP50-95 0.995, mAP50 0.995, mAP75 0.995" in text
    assert "\nscore =" not in text


def test_ids_without_0_and_without_the_last_are_said_to_be_ambiguous(run, capsys, monkeypatch):
    monkeypatch.chdir(run)
    path = run / "val/predictions.json"
    path.write_text(json.dumps([r for r in json.loads(path.read_text()) if r["category_id"] == 1]))
    command = ["eval", "data.yaml", "val/predictions.json", "--protocol", "ultralytics", "--output", "json"]
    assert _app.run(command) == 0
    out = capsys.readouterr()
    assert "0 = 'cat', 1 = 'dog' (no id is 0: if they count from 1, as Ultralytics does" in out.err
    assert _app.run([*command, "-O", "ids=positions-from-1"]) == 0
    out = capsys.readouterr()
    assert json.loads(out.out)["results"][0]["classes"][0]["tp"] == 1
