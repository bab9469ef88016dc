"""Every protocol but `coco` against slow and plain implementations of its rules, and its known answers."""

import contextlib
import itertools
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matching_rules import WITHOUT_REGIONS, match_plainly
from msgspec.structs import replace
from selection import FIXED_CLASSES, examples, of_each

import odm
from odm.evaluate import PROTOCOLS, evaluate, join, match, resolve
from odm.evaluate.matching import order
from odm.evaluate.matching.matches import word_blocks
from odm.evaluate.matching.order import argsort_descending, argsort_int
from odm.evaluate.matching.prepare import expand_hierarchy, has_label
from odm.evaluate.matching.sides import keep_requested_classes
from odm.issues import DataError, Log, UsageError
from odm.tables import Dataset, Flag, LabelState

# ------------------------------------------------------------------- the rules, one box after the other


def overlap(a, b, plus):
    """Intersection and the two areas."""
    w = min(a[2], b[2]) - max(a[0], b[0]) + plus
    h = min(a[3], b[3]) - max(a[1], b[1]) + plus
    inter = w * h if w > 0 and h > 0 else 0.0
    return inter, *((c[2] - c[0] + plus) * (c[3] - c[1] + plus) for c in (a, b))


def iou_of(a, b, plus):
    inter, one, other = overlap(a, b, plus)
    return inter / (one + other - inter) if inter else 0.0


def ranked(det):
    """By falling score, then image, then input: `det` has (image, class, box, score)."""
    return sorted(range(len(det)), key=lambda i: (-det[i][3], det[i][0], i))


def voc_class(gt, det, threshold, plus):
    """One class: (score, +1 TP / -1 FP / 0 ignored) by rank, and npos; `gt` has (image, class, box, flags)."""
    taken = set()
    outcome = []
    for i in ranked(det):
        image, _, box, score = det[i]
        best, chosen = -1.0, None
        for j, (other, _, truth, _) in enumerate(gt):
            if other == image and iou_of(box, truth, plus) > best:
                best, chosen = iou_of(box, truth, plus), j
        if chosen is None or best < threshold:
            outcome.append((score, -1))
        elif gt[chosen][3] & Flag.DIFFICULT:
            outcome.append((score, 0))
        elif chosen in taken:
            outcome.append((score, -1))
        else:
            taken.add(chosen)
            outcome.append((score, 1))
    return outcome, sum(not g[3] & Flag.DIFFICULT for g in gt)


def open_images_class(gt, det, threshold, weight):
    """One class: the same, with the group-of stage."""
    plain = [g for g in gt if not g[3] & Flag.GROUP_OF]
    groups = [g for g in gt if g[3] & Flag.GROUP_OF]
    outcome, npos = voc_class(plain, det, threshold, 0)
    hit = set()
    for location, i in enumerate(ranked(det)):
        image, _, box, score = det[i]
        if outcome[location][1] >= 0:
            continue
        best, chosen = 0.0, None
        for j, (other, _, truth, _) in enumerate(groups):
            inter, own, _ = overlap(box, truth, 0)
            if other == image and own and inter / own > best:
                best, chosen = inter / own, j
        if chosen is not None and best >= threshold:
            outcome[location] = (score, int(weight and chosen not in hit))
            hit.add(chosen)
    return outcome, npos + weight * len(groups)


def imagenet_class(gt, det):
    taken = set()
    outcome = []
    for i in ranked(det):
        image, _, box, score = det[i]
        best, chosen = -1.0, None
        for j, (other, _, truth, _) in enumerate(gt):
            if other != image or j in taken:
                continue
            w, h = truth[2] - truth[0] + 1, truth[3] - truth[1] + 1
            value = iou_of(box, truth, 1)
            if value >= min(0.5, w * h / ((w + 10) * (h + 10))) and value > best:
                best, chosen = value, j
        if chosen is not None:
            taken.add(chosen)
        outcome.append((score, 1 if chosen is not None else -1))
    return outcome, len(gt)


def lvis_class(gt, det, threshold, low, high, spared):
    """One class of LVIS: the outcomes by rank, and npos; `gt` has (image, class, box, area, flags)."""
    outside = [bool(g[4] & Flag.DIFFICULT) or not low <= g[3] <= high for g in gt]
    taken = set()
    outcome = []
    for i in ranked(det):
        image, _, box, score = det[i]
        chosen = None
        for counts in (True, False):
            best = threshold
            for j, g in enumerate(gt):
                free = g[0] == image and j not in taken and outside[j] != counts
                if free and iou_of(box, g[2], 0) >= best:
                    best, chosen = iou_of(box, g[2], 0), j
            if chosen is not None:
                break
        if chosen is not None:
            taken.add(chosen)
            outcome.append((score, 0 if outside[chosen] else 1))
        else:
            area = (box[2] - box[0]) * (box[3] - box[1])
            outcome.append((score, 0 if image in spared or not low <= area <= high else -1))
    return outcome, outside.count(False)


def average_precision(outcome, npos, points):
    if not npos:
        return np.nan
    tp = fp = 0
    recall, precision = [], []
    for _, what in outcome:
        tp, fp = tp + (what > 0), fp + (what < 0)
        if what:
            recall.append(tp / npos)
            precision.append(tp / (tp + fp))
    if points:
        return float(
            np.mean([max((p for r, p in zip(recall, precision, strict=True) if r >= x), default=0)
                     for x in np.linspace(0, 1, points)])
        )  # fmt: skip
    total, before = 0.0, 0.0
    for i, r in enumerate(recall):
        total += (r - before) * max(precision[i:])
        before = r
    return total


def mean(values):
    defined = [v for v in values if not np.isnan(v)]
    return float(np.mean(defined)) if defined else np.nan


def best_f1(outcome, npos):
    """(f1, score, tp, fp) of the best score; None without a true positive."""
    best = None
    for score in sorted({s for s, _ in outcome}, reverse=True):
        tp = sum(w > 0 for s, w in outcome if s >= score)
        fp = sum(w < 0 for s, w in outcome if s >= score)
        if tp and npos and (best is None or 2 * tp / (tp + fp + npos) > best[0]):
            best = 2 * tp / (tp + fp + npos), score, tp, fp
    return best


# -------------------------------------------------------------------------------------------- random data


class Scene:
    def __init__(self, seed, *, n_images=4, n_classes=3, tied=False, whole=True):
        rng = np.random.default_rng(seed)
        self.n_images, self.n_classes, self.whole = n_images, n_classes, whole
        self.gt, self.det = [], []
        step = 1 if whole else 10

        def box():
            corner = rng.integers(0, 60 * step, 2) / step
            return [*corner.tolist(), *(corner + rng.integers(0, 50 * step, 2) / step).tolist()]

        for image in range(n_images):
            for k in range(n_classes):
                boxes = [box() for _ in range(rng.integers(0, 4))] if rng.random() < 0.8 else []
                boxes += boxes[: rng.integers(0, 2)]
                flags = [Flag.DIFFICULT, Flag.GROUP_OF, Flag(0), Flag(0), Flag(0)]
                self.gt += [(image, k, b, flags[rng.integers(5)]) for b in boxes]
                for _ in range(rng.integers(0, 7)):
                    b = box()
                    if boxes and rng.random() < 0.8:
                        b = list(boxes[rng.integers(len(boxes))])
                        b[rng.integers(2)] -= rng.integers(0, 12) / step
                        b[2 + rng.integers(2)] += rng.integers(0, 12) / step
                    score = rng.integers(1, 6) / 10 if tied else rng.random()
                    self.det.append((image, k, b, float(score)))
        order = rng.permutation(len(self.det))
        self.det = [self.det[i] for i in order]

    def tables(self):
        common = {
            "images": [f"{i:03d}" for i in range(self.n_images)],
            "categories": [f"c{k}" for k in range(self.n_classes)],
        }
        columns = (
            {"image": [b[0] for b in rows], "category": [b[1] for b in rows], "xyxy": [b[2] for b in rows]}
            for rows in (self.gt, self.det)
        )
        return (
            Dataset.from_arrays(**common, **next(columns), flags=[g[3] for g in self.gt], kind="gt"),
            Dataset.from_arrays(**common, **next(columns), score=[d[3] for d in self.det], kind="det"),
        )

    def classes(self, *, drop_empty=False):
        det = self.det
        if drop_empty:
            det = [d for d in det if d[2][2] > d[2][0] and d[2][3] > d[2][1]]
        for k in range(self.n_classes):
            yield [g for g in self.gt if g[1] == k], [d for d in det if d[1] == k]


scenes = st.builds(
    Scene,
    st.integers(0, 2**32 - 1),
    n_images=st.integers(1, 5),
    n_classes=st.integers(1, 3),
    tied=st.booleans(),
    whole=st.booleans(),
).filter(lambda scene: scene.gt and scene.det)
lots = settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))


def check(result, per_class, points):
    """The rows of a result and of its accumulated table against the outcome of every class."""
    check_curves(result.curve_table, per_class)
    for row, (outcome, npos) in zip(result.classes, per_class, strict=True):
        what = [w for _, w in outcome]
        assert (row.gt, row.tp, row.fp, row.ignored) == (npos, what.count(1), what.count(-1), what.count(0))
        assert row.det == len(what)
        assert row.fn == row.gt - row.tp
        np.testing.assert_allclose(row.ap, average_precision(outcome, npos, points), atol=1e-12)
        f1, score, *_ = best_f1(outcome, npos) or (0 if npos else np.nan, np.nan)
        np.testing.assert_allclose([row.best_f1, row.best_f1_score], [f1, score])
    together = [point for outcome, _ in per_class for point in outcome]
    best = best_f1(together, sum(npos for _, npos in per_class))
    overall = result.overall
    np.testing.assert_allclose(
        [overall.best_f1, overall.best_f1_score], best[:2] if best else (0 if overall.gt else np.nan, np.nan)
    )
    for row, (outcome, npos) in zip(
        (*result.classes, result.overall), [*per_class, (together, result.overall.gt)], strict=True
    ):
        score = best[1] if best else np.nan
        counts = [w for s, w in outcome if best is None or s >= score]
        tp, fp = counts.count(1), counts.count(-1)
        shares = (tp, tp + fp), (tp, npos), (2 * tp, tp + fp + npos)
        assert (row.tp_at_score, row.fp_at_score, row.fn_at_score) == (tp, fp, npos - tp)
        np.testing.assert_allclose(
            [row.score, row.precision, row.recall, row.f1],
            [score, *(n / of if of else np.nan for n, of in shares)],
        )
    expected = mean([average_precision(o, n, points) for o, n in per_class])
    np.testing.assert_allclose(result.summary["mAP"], expected, atol=1e-12)


def check_curves(table, rankings):
    """Every row of the accumulated table against rankings of (score, outcome) and their npos, counted one by one."""
    row = 0
    for outcome, npos in rankings:
        tp = fp = 0
        for rank, (score, what) in enumerate(outcome, 1):
            tp, fp = tp + (what > 0), fp + (what < 0)
            shares = [tp / (tp + fp) if tp + fp else np.nan, tp / npos if npos else np.nan]
            assert (table.rank[row], table.score[row]) == (rank, score)
            assert (table.tp[row], table.fp[row]) == (what > 0, what < 0)
            assert (table.accumulated_tp[row], table.accumulated_fp[row]) == (tp, fp)
            np.testing.assert_array_equal([table.precision[row], table.recall[row]], shares)
            row += 1
    assert row == len(table)


@lots
@given(scenes, st.sampled_from([0.3, 0.5, 0.75]))
def test_voc(scene, iou):
    per_class = [voc_class(gt, det, iou, 1) for gt, det in scene.classes()]
    results = evaluate(*scene.tables(), ["voc2012", "voc2007"], iou=iou).results
    check(results[0], per_class, 0)
    check(results[1], per_class, 11)


@lots
@given(scenes, st.integers(1, 4))
def test_switches(scene, cap):
    sides = scene.tables()
    plain = [voc_class(gt, det, 0.5, 0) for gt, det in scene.classes()]
    check(evaluate(*sides, pixels="edges", interpolation=101).result, plain, 101)
    capped, kept, small = [], [], []
    for gt, det in scene.classes():
        first = {i for image in range(scene.n_images) for i in best(det, image, cap)}
        capped.append(voc_class(gt, [d for i, d in enumerate(det) if i in first], 0.5, 1))
        kept.append(voc_class([(*g[:3], Flag(0)) for g in gt], det, 0.5, 1))
        outside = [
            (*g[:3], Flag(0) if (g[2][2] - g[2][0]) * (g[2][3] - g[2][1]) <= 1024 else Flag.DIFFICULT)
            for g in gt
        ]
        outcome, npos = voc_class(outside, det, 0.5, 1)
        sizes = [(det[i][2][2] - det[i][2][0]) * (det[i][2][3] - det[i][2][1]) for i in ranked(det)]
        outcome = [(s, 0 if w < 0 and a > 1024 else w) for (s, w), a in zip(outcome, sizes, strict=True)]
        small.append((outcome, npos))
    check(evaluate(*sides, keep_difficult=True).result, kept, 0)
    check(evaluate(*sides, keep_difficult=True, area="small").result, small, 0)
    result = evaluate(*sides, max_dets=cap).result
    for row, (outcome, npos) in zip(result.classes, capped, strict=True):
        assert row.det - len(outcome) == row.ignored - sum(w == 0 for _, w in outcome)
        np.testing.assert_allclose(row.ap, average_precision(outcome, npos, 0), atol=1e-12)
    least = sorted(d[3] for d in scene.det)[len(scene.det) // 2]
    some = [voc_class(gt, [d for d in det if d[3] >= least], 0.5, 1) for gt, det in scene.classes()]
    check(evaluate(*sides, score_min=least).result, some, 0)


def best(det, image, cap):
    """Positions, because two detections may be equal in everything."""
    return [i for i in ranked(det) if det[i][0] == image][:cap]


@lots
@given(scenes)
def test_tf(scene):
    per_class = [voc_class(gt, det, 0.5, 0) for gt, det in scene.classes(drop_empty=True)]
    voc, pooled = evaluate(*scene.tables(), ["tf-voc", "tf-weighted"]).results
    check(voc, per_class, 0)
    rows = []
    for k, (_, det) in enumerate(scene.classes(drop_empty=True)):
        outcome, npos = per_class[k]
        places = [(-det[i][3], k, det[i][0], i) for i in ranked(det)]
        if npos:
            rows += list(zip(places, outcome, strict=True))
    npos = sum(n for _, n in per_class)
    one_ranking = [o for _, o in sorted(rows)]
    expected = average_precision(one_ranking, npos, 0)
    check_curves(pooled.curve_table, [(one_ranking, npos)])
    np.testing.assert_allclose(pooled.summary["AP"], expected, atol=1e-12)
    assert all(np.isnan(row.ap) for row in pooled.classes)
    assert [r.tp for r in pooled.classes] == [r.tp for r in voc.classes]


@lots
@given(scenes)
def test_open_images(scene):
    v2, challenge = evaluate(*scene.tables(), ["openimages", "openimages-challenge"]).results
    check(v2, [open_images_class(gt, det, 0.5, 0) for gt, det in scene.classes(drop_empty=True)], 0)
    boxed = {g[:2] for g in scene.gt}
    per_class = [
        open_images_class(gt, [d for d in det if d[:2] in boxed], 0.5, 1)
        for gt, det in scene.classes(drop_empty=True)
    ]
    check(challenge, per_class, 0)


@lots
@given(scenes)
def test_imagenet_detection(scene):
    result = evaluate(*scene.tables(), "imagenet-det").result
    check(result, [imagenet_class(gt, det) for gt, det in scene.classes()], 0)


@lots
@given(scenes)
def test_corloc(scene):
    expected = []
    for gt, det in scene.classes(drop_empty=True):
        found = []
        for image in {g[0] for g in gt}:
            own = [d for d in det if d[0] == image]
            top = own[ranked(own)[0]] if own else None
            found.append(top is not None and any(iou_of(top[2], g[2], 0) >= 0.5 for g in gt if g[0] == image))
        expected.append(np.mean(found) if found else np.nan)
    result = evaluate(*scene.tables(), "corloc").result
    np.testing.assert_allclose(result.summary["CorLoc"], mean(expected), atol=1e-12)
    np.testing.assert_allclose([r.extra["corloc"] for r in result.classes], expected, atol=1e-12)


@lots
@given(scenes, st.booleans())
def test_imagenet_localisation(scene, some):
    """Where only some classes are asked for, the guesses are still those of all."""
    right, hit = [], []
    asked = {g[1] for g in scene.gt[:1]} if some else set(range(scene.n_classes))
    for image in sorted({g[0] for g in scene.gt if g[1] in asked}):
        gt = [g for g in scene.gt if g[0] == image and g[1] in asked]
        own = [d for d in scene.det if d[0] == image]
        guesses = [own[i] for i in ranked(own)[:5]]
        right.append([any(d[1] == g[1] for g in gt) for d in guesses] + [False] * (5 - len(guesses)))
        hit.append(
            [any(d[1] == g[1] and iou_of(d[2], g[2], 1) >= 0.5 for g in gt) for d in guesses]
            + [False] * (5 - len(guesses))
        )
    only = [f"c{k}" for k in sorted(asked)] if some else None
    result = evaluate(*scene.tables(), "imagenet-loc", only_classes=only).result
    for what, good in (("cls", right), ("loc", hit)):
        expected = [np.mean([not any(g[:k]) for g in good]) for k in range(1, 6)]
        np.testing.assert_allclose(result.errors[what], expected)
        assert result.summary[f"top1_{what}"] == result.errors[what][0]
        assert result.summary[f"top5_{what}"] == result.errors[what][4]
    for row in result.classes:
        assert row.det == row.tp + row.fp + row.ignored


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(scenes.filter(lambda scene: scene.whole), st.randoms(use_true_random=False), st.integers(3, 20))
def test_lvis(scene, random, cap):
    """Also with areas of 0, ignored objects, boxes without width, and only some of the classes."""
    pairs = [(i, k) for i in range(scene.n_images) for k in range(scene.n_classes)]
    labels = [(*pair, verdict) for verdict in LabelState for pair in pairs if random.random() < 0.3]
    frequency = [random.choice(["r", "c", "f", ""]) for _ in range(scene.n_classes)]
    gt = [(*g[:3], random.choice([1024.0, 1025.0, 9216.0, 300.5, 0.0, 2e10]), g[3]) for g in scene.gt]
    asked = random.choice([range(scene.n_classes), [random.randrange(scene.n_classes)]])
    truth, det = scene.tables()
    truth = Dataset.from_arrays(
        images=truth.images.name, categories=truth.categories.name, image=truth.boxes.image, kind="gt",
        category=truth.boxes.category, xyxy=truth.boxes.xyxy, area=[g[3] for g in gt], flags=truth.boxes.flags,
        frequency=frequency, labels=labels,
    )  # fmt: skip
    only = [f"c{k}" for k in asked]
    result = evaluate(truth, det, "lvis", max_dets=cap, only_classes=only).result

    gt = [g for g in gt if g[3] > 0]
    within = {i for image in range(scene.n_images) for i in best(scene.det, image, cap)}
    known = {g[:2] for g in gt} | {label[:2] for label in labels if label[2] != LabelState.PARTIAL}
    given = [d for d in scene.det if d[1] in asked]
    kept = [d for i, d in enumerate(scene.det) if i in within and d[:2] in known and d[1] in asked]
    kept = [d for d in kept if d[2][2] > d[2][0] and d[2][3] > d[2][1]]
    areas = [(0, 1e10), (0, 1024), (1024, 9216), (9216, 1e10)]
    ap, ar = (np.full((4, 10, scene.n_classes), np.nan) for _ in range(2))
    for location, k in enumerate(asked):
        spared = {label[0] for label in labels if label[1:] == (k, LabelState.PARTIAL)}
        own = [g for g in gt if g[1] == k], [d for d in kept if d[1] == k]
        for a, (low, high) in enumerate(areas):
            for t, threshold in enumerate(np.linspace(0.5, 0.95, 10)):
                outcome, npos = lvis_class(*own, threshold, low, high, spared)
                ap[a, t, k] = average_precision(outcome, npos, 101)
                ar[a, t, k] = sum(w > 0 for _, w in outcome) / npos if npos else np.nan
                if a == t == 0:
                    row, what = result.classes[location], [w for _, w in outcome]
                    assert (row.gt, row.tp, row.fp, row.ignored) == (npos, *map(what.count, (1, -1, 0)))
    expected = {"AP": mean(ap[0].ravel()), "AP50": mean(ap[0, 0]), "AP75": mean(ap[0, 5])}
    expected |= {f"AP{n}": mean(ap[a].ravel()) for a, n in enumerate("sml", 1)}
    expected |= {f"AP{n}": mean(ap[0][:, [f == n for f in frequency]].ravel()) for n in "rcf"}
    expected |= {f"AR{cap}": mean(ar[0].ravel())} | {
        f"AR{n}": mean(ar[a].ravel()) for a, n in enumerate("sml", 1)
    }
    assert list(result.summary) == list(expected)
    np.testing.assert_allclose(list(result.summary.values()), list(expected.values()), atol=1e-12)
    assert [row.extra["frequency"] for row in result.classes] == [frequency[k] for k in asked]
    empty = result.dropped.pop("ground truths without area", 0)
    assert empty == sum(b[1] in asked for b in scene.gt) - sum(g[1] in asked for g in gt)
    assert sum(result.dropped.values()) == len(given) - len(kept)


VARIANTS = [
    *({"protocol": name} for name in PROTOCOLS if name not in FIXED_CLASSES),
    {"protocol": "voc2012", "area": "small"},
    {"protocol": "coco", "max_dets": 2, "iou": [0.3, 0.5, 1.0]},
    {"protocol": "openimages-challenge", "max_dets": 3, "iou": 0.3},
    {"protocol": "imagenet-loc", "max_dets": 2},
]


def outcomes_of(matches, threshold, area):
    """Outcome and matched ground truth of every row of the detections under one threshold and area range."""
    outcome = np.full(len(matches.score), "FP", object)
    if matches.fp_if_unmatched is not None:
        outcome[matches.fp_if_unmatched & (1 << area) == 0] = "ignored"
    for w, block in enumerate(word_blocks(matches.protocol)):
        if threshold in block:
            bit = np.uint64(1 << (area * len(block) + threshold - block.start))
            for words, what in ((matches.ignored, "ignored"), (matches.positive, "TP")):
                outcome[matches.hit[words[:, w] & bit != 0]] = what
    gt = np.full(len(outcome), -1)
    gt[matches.hit] = matches.hit_gt
    return {row: found for row, *found in zip(matches.row.tolist(), outcome, gt.tolist(), strict=True)}


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(map(str, v.values())))
@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(scenes, st.randoms(use_true_random=False))
def test_match_agrees_with_the_plain_rules(variant, scene, random):
    truth, det = scene.tables()
    pairs = [(i, k) for i in range(scene.n_images) for k in range(scene.n_classes)]
    marks = [0, 0, 0, Flag.CROWD, Flag.REGION]
    flags = [f | random.choice(marks) for f in truth.boxes.flags.tolist()]
    truth = Dataset.from_arrays(
        images=truth.images.name, categories=truth.categories.name, image=truth.boxes.image, flags=flags,
        category=truth.boxes.category, xyxy=truth.boxes.xyxy, kind="gt",
        area=[random.choice([np.nan, 300.0, 2000.0, 1e5]) for _ in flags],
        labels=[(*pair, state) for state in LabelState for pair in pairs if random.random() < 0.3],
    )  # fmt: skip
    lower = random.choice([0.0, 0.5])
    det = replace(det, boxes=replace(det.boxes, score=det.boxes.score - lower))
    joined = join(truth, det)
    (rules,) = resolve(**variant)
    matches = match(joined, rules)
    for t, iou in enumerate(rules.ious):
        for a, area in enumerate(rules.areas):
            fast, plain = outcomes_of(matches, t, a), match_plainly(joined, rules, iou, area)
            assert fast.keys() == plain.keys()
            for row, (outcome, gt) in plain.items():
                assert fast[row][0] == outcome, (row, t, a)
                of_many = rules.ignored_by_ioa and outcome == "ignored"  # whichever it is, none is used up
                if t == rules.reference and a == 0 and not of_many:
                    assert fast[row][1] == gt, row


@lots
@given(scenes, st.permutations(range(4)))
def test_order_of_input_matters_only_for_ties(scene, order):
    truth, det = scene.tables()
    shuffled = np.random.default_rng(order).permutation(len(det))
    one = evaluate(truth, det, ["voc2012", "voc2007", "tf-voc", "openimages"]).to_dict()
    if len({d[3] for d in scene.det}) == len(scene.det):
        other = evaluate(truth, det.take(shuffled), ["voc2012", "voc2007", "tf-voc", "openimages"])
        assert one == other.to_dict()


# -------------------------------------------------------------------------------------------- known answers

TABLE = {
    "tp": [int(c) for c in "1 0 1 0 0 0 0 0 0 1 0 1 1 1 0 0 0 0 0 0 0 0 1 0".split()],
    "score": [int(c) / 100 for c in "95 95 91 88 84 80 78 74 71 70 67 62 54 48 45 45 44 44 43 38 35 23 18 14".split()],
    "image": [int(c) - 1 for c in "5 7 3 1 6 1 4 2 2 1 3 5 2 7 4 6 3 5 6 3 4 5 3 4".split()],
}  # fmt: skip


def illustrated():
    """The published example's table: 7 images, 15 ground truths, 24 detections, one class."""
    gt_image, gt, det = [], [], []
    for image, tp in zip(TABLE["image"], TABLE["tp"], strict=True):
        location = len(det) * 7 % 150
        det.append((location, 150, 20, 20))
        if tp:
            gt_image.append(image)
            gt.append((location + 2, 152, 20, 20))
    for n in range(15 - len(gt)):
        gt_image.append(n % 7)
        gt.append((10 * n, 10, 12, 12))
    common = {"images": [f"{i + 1:05d}" for i in range(7)], "categories": ["object"]}
    return (
        Dataset.from_arrays(**common, image=gt_image, category=[0] * 15, ltwh=gt, kind="gt"),
        Dataset.from_arrays(
            **common, image=TABLE["image"], category=[0] * 24, ltwh=det, score=TABLE["score"]
        ),
    )


def test_illustrated_example():
    all_points, eleven = evaluate(*illustrated(), ["voc2012", "voc2007"], iou=0.3).results
    assert abs(all_points.summary["mAP"] - 0.24568668046928915) < 1e-12
    assert abs(eleven.summary["mAP"] - 0.26839826839826836) < 1e-12
    row = all_points.classes[0]
    assert (row.gt, row.det, row.tp, row.fp, row.fn) == (15, 24, 7, 17, 8)
    np.testing.assert_allclose(
        [row.score, row.precision, row.recall, row.f1],
        [0.48, 6 / 14, 6 / 15, 0.41379310344827586],
        atol=1e-12,
    )
    assert "0.3" in all_points.definition
    table = all_points.curve_table
    assert table.tp.astype(int).tolist() == TABLE["tp"]
    assert (~table.fp).astype(int).tolist() == TABLE["tp"]
    assert table.image.tolist() == TABLE["image"]
    assert table.score.tolist() == TABLE["score"]
    assert (table.accumulated_tp[-1], table.accumulated_fp[-1]) == (7, 17)


def one_image(gt, det, scores, **kwargs):
    n, m = len(gt), len(det)
    return (
        Dataset.from_arrays(images=["a"], categories=["c"], image=[0] * n, category=[0] * n, ltwh=gt, **kwargs),
        Dataset.from_arrays(images=["a"], categories=["c"], image=[0] * m, category=[0] * m, ltwh=det, score=scores),
    )  # fmt: skip


def test_match_rules_differ():
    sides = one_image([(10, 10, 20, 20), (12, 10, 20, 20)], [(10, 10, 20, 20)] * 2, [0.9, 0.8])
    voc, coco = evaluate(*sides, ["voc2012", "coco"]).results
    assert voc.summary["mAP"] == 0.5
    assert abs(coco.summary["AP50"] - 1) < 1e-12


def test_three_of_ten_at_eleven_points():
    gt = [(30 * i, 0, 20, 20) for i in range(10)]
    result = evaluate(*one_image(gt, gt[:3], [0.9, 0.8, 0.7]), "voc2007").result
    assert abs(result.summary["mAP"] - 3 / 11) < 1e-12


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_overlap_of_exactly_the_threshold(protocol):
    """Half is enough, but for those whose programs ask for more than the threshold."""
    side = 20 if protocol == "soda-d" else 100

    def tp(share):
        box, part = [(9, 9, side, side)], [(9, 9, side, side * share)]
        names = {"images": ["a"], "categories": ["Pedestrian"], "image": [0], "category": [0]}
        sides = Dataset.from_arrays(**names, ltwh=box), Dataset.from_arrays(**names, ltwh=part, score=[0.5])
        return evaluate(*sides, protocol).result.classes[0].tp

    assert [tp(0.45), tp(0.5), tp(0.55)] == [0, protocol not in ("crowdhuman", "kitti"), 1]


def test_coco_crowd():
    sides = one_image(
        [(10, 10, 50, 50), (100, 100, 200, 200)],
        [(10, 10, 50, 50), (110, 110, 50, 50), (200, 200, 50, 50)],
        [0.5, 0.9, 0.8],
        flags=[0, Flag.CROWD],
    )
    result = evaluate(*sides, "coco").result
    assert abs(result.summary["AP"] - 1) < 1e-12
    row = result.classes[0]
    assert (row.gt, row.gt_ignored, row.tp, row.fp, row.ignored) == (1, 1, 1, 0, 2)


def test_coco_area_field():
    sides = one_image([(10, 10, 50, 50)], [(10, 10, 50, 50)], [0.5], area=[900.0])
    summary = evaluate(*sides, "coco").result.summary
    assert abs(summary["APs"] - 1) < 1e-12
    assert np.isnan(summary["APm"])


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_equal_scores_go_by_image_in_whatever_order_they_are_read(order):
    """Only the third of four images has an object, so that its detection is the third."""
    names = {"images": list("abcd"), "categories": ["x"]}
    box = [[0, 0, 9, 9]]
    truth = Dataset.from_arrays(**names, image=[2], category=[0], xyxy=box)
    det = Dataset.from_arrays(**names, image=order, category=[0] * 4, xyxy=box * 4, score=[0.5] * 4)
    assert evaluate(truth, det, "voc2012").result.summary["mAP"] == pytest.approx(1 / 3)


def test_coco_tie_goes_by_image_id():
    for ids, expected in (([1, 2], 1.0), ([2, 1], 0.5)):
        truth = Dataset.from_arrays(
            images=["a", "b"], categories=["c"], image=[0], category=[0], ltwh=[(0, 0, 10, 10)], image_ids=ids
        )
        det = Dataset.from_arrays(
            images=["a", "b"], categories=["c"], image=[1, 0], category=[0, 0],
            ltwh=[(0, 0, 10, 10)] * 2, score=[0.5, 0.5],
        )  # fmt: skip
        assert abs(evaluate(truth, det, "coco").result.summary["AP"] - expected) < 1e-12


def test_cap_of_a_hundred():
    det = [(50, 50, 10, 10)] * 100 + [(0, 0, 10, 10)]
    sides = one_image([(0, 0, 10, 10)], det, [0.9] * 100 + [0.1])
    voc, coco = evaluate(*sides, ["voc2012", "coco"]).results
    assert abs(voc.summary["mAP"] - 1 / 101) < 1e-12
    assert coco.summary["AP"] == 0
    row = coco.classes[0]
    assert (row.det, row.tp, row.fp, row.ignored) == (101, 0, 100, 1)


CAPS = {
    "aitod": 1500, "caltech": 1000, "citypersons": 1000, "coco": 100, "imagenet-loc": 5, "lvis": 300,
    "soda-d": 100, "tinyperson": 200, "ultralytics": 300, "visdrone": 500, "yolov5": 300,
}  # fmt: skip
"""The most detections of an image, or of an image and class, in the programs of each challenge."""


@pytest.mark.parametrize("name", CAPS)
def test_the_last_detection_that_counts_is_that_of_the_cap(name):
    assert CAPS.keys() == {n for n, p in PROTOCOLS.items() if p.max_dets and p.measure == "bbox"}
    side = 30 if name == "soda-d" else 100
    one = {
        "images": ["a"],
        "categories": ["car" if name == "visdrone" else "person"],
        "image": [0],
        "category": [0],
    }
    size = {"width": [2000], "height": [2000]}
    truth = Dataset.from_arrays(**one, **size, ltwh=[[1000, 1000, side, side]])
    for n, tp in ((CAPS[name], 1), (CAPS[name] + 1, 0)):
        far = [[10 + (i % 40) * 20, 10 + (i // 40) * 20, 15, 15] for i in range(n - 1)]
        several = {**one, "image": [0] * n, "category": [0] * n, "ltwh": [*far, [1000, 1000, side, side]]}
        det = Dataset.from_arrays(**several, **size, score=np.linspace(0.99, 0.5, n))
        (row,) = evaluate(truth, det, name).result.classes
        assert (row.name, row.gt, row.tp) == (one["categories"][0], 1, tp)


def test_open_images_worked_example():
    sides = one_image(
        [(0, 0, 10, 10), (20, 0, 10, 10), (100, 100, 100, 100)],
        [(50, 50, 10, 10), (110, 110, 10, 10), (130, 130, 10, 10), (0, 0, 10, 10)],
        [0.95, 0.9, 0.8, 0.7],
        flags=[0, 0, Flag.GROUP_OF],
    )
    v2, challenge = evaluate(*sides, ["openimages", "openimages-challenge"]).results
    assert abs(v2.summary["mAP"] - 0.25) < 1e-12
    assert abs(challenge.summary["mAP"] - 4 / 9) < 1e-12
    row = challenge.classes[0]
    assert (row.gt, row.tp, row.fp, row.ignored) == (3, 2, 1, 1)


def test_difficult_can_be_kept():
    sides = one_image([(0, 0, 10, 10), (50, 0, 10, 10)], [(50, 0, 10, 10)] * 2, [0.9, 0.8], flags=[0, 2])
    row = evaluate(*sides).classes[0]
    assert (row.gt, row.gt_ignored, row.tp, row.fp, row.ignored) == (1, 1, 0, 0, 2)
    kept = evaluate(*sides, keep_difficult=True)
    row = kept.classes[0]
    assert (row.gt, row.gt_ignored, row.tp, row.fp, row.ignored) == (2, 0, 1, 1, 0)
    assert "changed" in kept.result.definition


def test_classes_without_ground_truth_are_shown_not_averaged():
    truth = Dataset.from_arrays(images=["a"], categories=["x"], image=[0], category=[0], ltwh=[(0, 0, 9, 9)])
    det = Dataset.from_arrays(
        images=["a"], categories=["x", "y"], image=[0, 0], category=[0, 1], ltwh=[(0, 0, 9, 9)] * 2, score=[0.5, 0.6]
    )  # fmt: skip
    for protocol in ("voc2012", "coco", "tf-voc", "openimages", "imagenet-det"):
        result = evaluate(truth, det, protocol).result
        assert abs(next(iter(result.summary.values())) - 1) < 1e-12
        assert np.isnan(result.classes[1].ap)
        assert (result.classes[1].gt, result.classes[1].det, result.classes[1].fp) == (0, 1, 1)


def test_hierarchy_and_labels():
    tree = {
        "LabelName": "Entity",
        "Subcategory": [
            {"LabelName": "animal", "Subcategory": [{"LabelName": "dog"}, {"LabelName": "cat"}]},
            {"LabelName": "pet", "Subcategory": [{"LabelName": "dog"}]},
        ],
    }
    truth = Dataset.from_arrays(
        images=["a", "b"], categories=["dog", "cat"], image=[0], category=[0], ltwh=[(0, 0, 10, 10)]
    )
    det = Dataset.from_arrays(
        images=["a", "b"],
        categories=["dog", "animal", "cat"],
        image=[0, 0, 0, 1, 1],
        category=[0, 1, 2, 2, 1],
        ltwh=[(0, 0, 10, 10)] * 5,
        score=[0.9, 0.8, 0.7, 0.6, 0.5],
    )
    result = evaluate(truth, det, "openimages-challenge", hierarchy=tree).result
    rows = {r.name: r for r in result.classes}
    assert set(rows) == {"dog", "cat", "animal", "pet"}
    assert [(r.gt, r.tp) for r in (rows["dog"], rows["animal"], rows["pet"])] == [(1, 1), (1, 1), (1, 0)]
    assert rows["cat"].det == 0
    assert sum(result.dropped.values()) == 3
    only = evaluate(truth, det, "openimages-challenge", hierarchy=tree, only_classes=["animal"]).result
    assert [(r.name, r.gt, r.tp) for r in only.classes] == [("animal", 1, 1)]
    only = evaluate(truth, det, ["voc2012", "openimages"], hierarchy=tree, only_classes=["animal"]).results
    assert [[(r.name, r.gt, r.fp) for r in o.classes] for o in only] == [
        [("animal", 0, 2)],
        [("animal", 1, 1)],
    ]
    # "animal" is not on b, so "cat" is not either; a positive "cat" on a means an "animal" there.
    labels = [("b", "animal", False), ("a.jpg", "cat", True)]
    result = evaluate(truth, det, "openimages-challenge", hierarchy=tree, image_labels=labels).result
    rows = {r.name: r for r in result.classes}
    assert (rows["cat"].det, rows["cat"].fp, rows["animal"].det, rows["animal"].fp) == (2, 2, 2, 1)
    assert not result.dropped
    # The same, where the ground truth says a part of it itself.
    own = Dataset.from_arrays(
        images=["a", "b"], categories=["dog", "cat"], image=[0], category=[0], ltwh=[(0, 0, 10, 10)],
        labels=[(0, 1, LabelState.PRESENT)],
    )  # fmt: skip
    again = evaluate(own, det, "openimages-challenge", hierarchy=tree, image_labels=labels[:1]).result
    assert again.to_dict() == result.to_dict()
    # Being boxed in part is not being labelled, and it goes up as presence does.
    own = replace(own, labels=replace(own.labels, verdict=np.array([LabelState.PARTIAL])))
    again = evaluate(own, det, ["openimages-challenge", "lvis"], hierarchy=tree).results
    assert [sum(r.dropped.values()) for r in again] == [3, 4]
    joined = expand_hierarchy(join(own, det, hierarchy=tree, only_classes=["animal"]))
    assert has_label(joined, LabelState.PARTIAL).tolist() == [False, True, True, False, False]
    assert has_label(keep_requested_classes(joined), LabelState.PARTIAL).tolist() == [True, False]


@pytest.mark.parametrize("protocol", ["voc2012", "coco", "tf-voc", "openimages", "imagenet-det"])
def test_no_detections_is_zero(protocol):
    truth = Dataset.from_arrays(images=["a"], categories=["x"], image=[0], category=[0], ltwh=[(0, 0, 9, 9)])
    det = Dataset.from_arrays(images=[], categories=[], image=[], category=[], ltwh=[], score=[])
    evaluation = evaluate(truth, det, protocol)
    assert next(iter(evaluation.summary.values())) == 0
    assert evaluation.log.counts["no-detections"] == 1
    assert evaluation.result.arrays.precision.max(initial=0) == 0


@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False),
            st.sampled_from([0.0, -0.0, 0.5, 1.0]),
            st.integers(0, 5).map(lambda n: 0.5 + n * 2**-53),  # apart in the last bits alone
        )
    )
)
def test_falling_scores_keep_the_order_of_ties(numbers):
    score = np.array(numbers, np.float64)
    assert argsort_descending(score).tolist() == sorted(range(len(score)), key=lambda i: -numbers[i])


@given(st.lists(st.integers(0, 9)), st.sampled_from([10, 2**20, 2**60, 2**62]))
def test_rising_numbers_keep_the_order_of_ties(digits, limit):
    number = np.array(digits, np.int64) * (limit // 10)
    assert argsort_int(number, limit).tolist() == np.argsort(number, kind="stable").tolist()


# ---------------------------------------------------------------------------------------- regions to ignore


def street(*more):
    """An image with a car, a region to ignore and two detections of cars, the surer one in the region; and `more`."""
    common = {"images": ["a"], "width": [300], "height": [300]}
    truth = Dataset.from_arrays(
        **common, categories=["DontCare", "car", "van"], image=[0, 0], category=[1, 0],
        xyxy=[[10, 10, 60, 60], [100, 100, 200, 200]], flags=[0, Flag.REGION],
    )  # fmt: skip
    boxes = [[10, 10, 60, 60], [110, 110, 160, 160], *more]
    detections = Dataset.from_arrays(
        **common, categories=["car", "van"], image=[0] * len(boxes), category=[0, 0] + [1] * len(more),
        xyxy=boxes, score=[0.8, 0.9, 0.7, 0.6][: len(boxes)],
    )  # fmt: skip
    return truth, detections


@pytest.mark.parametrize(
    "name", sorted(PROTOCOLS.keys() - {"soda-d", *FIXED_CLASSES})
)  # to which these mean nothing
def test_what_lies_in_a_region_to_ignore_is_no_false_positive(name):
    result = evaluate(*street([120, 120, 190, 190], [190, 190, 240, 240]), name).result
    assert [row.name for row in result.classes] == [
        "car",
        "van",
    ]  # a region is no class, and no object of one
    assert result.overall.gt == 1
    assert result.overall.gt_ignored == 0
    if name in WITHOUT_REGIONS:
        return
    assert [(row.tp, row.fp) for row in result.classes] == [(1, 0), (0, 0 if name in LABELLED else 1)]
    if result.rules.metric == "ap":
        alone = 0 if result.rules.reading == "between" else 1  # there is no line from a single detection
        assert result.classes[0].ap == pytest.approx(alone)


@of_each([name for name in PROTOCOLS if name not in FIXED_CLASSES])
def test_the_definition_names_the_marks_that_are_ignored(name):
    def ignored(flag, scale):
        arrays = {"images": ["a.jpg"], "width": [400], "height": [400], "categories": ["x"], "image": [0, 0]}
        arrays |= {"category": [0, 0], "xyxy": scale * np.array([[2, 2, 12, 22], [15, 10, 25, 30]])}
        truth = Dataset.from_arrays(**arrays, flags=[0, int(flag)])
        result = evaluate(truth, Dataset.from_arrays(**arrays, score=[0.9, 0.8]), name).result
        return result.overall.gt_ignored, result.definition

    words = re.findall(r"ignored: ([^;]*)", ignored(0, 1)[1])
    for flag in (Flag.CROWD, Flag.DIFFICULT, Flag.OCCLUDED):
        is_named = flag.name.lower() in (words[0].split(", ") if words else [])
        # Objects of one size or the other may lie outside the range of a protocol, and are ignored for that.
        assert is_named == any(ignored(flag, scale)[0] > ignored(0, scale)[0] for scale in (1, 10)), flag.name


LABELLED = "lvis", "openimages-challenge"
"""The protocols for which a class without boxes on an image was not looked for there."""


def test_regions_are_a_note_and_each_image_has_its_own():
    truth, detections = street()
    log = Log()
    evaluate(truth, detections, ["coco", "yolov5"], log=log)
    assert [n for n in log.notes if "region" in n] == [
        "coco: 1 region to ignore in the ground truth: what lies in them is no false positive",
        "yolov5: 1 region to ignore in the ground truth: left out, as there is no rule for them",
    ]


def test_a_class_of_regions_that_is_detected_is_one_without_objects():
    truth, _ = street()
    detections = Dataset.from_arrays(
        images=["a"], categories=["DontCare", "car"], image=[0, 0], category=[0, 1],
        xyxy=[[100, 100, 200, 200], [10, 10, 60, 60]], score=[0.5, 0.6],
    )  # fmt: skip
    result = evaluate(truth, detections, "coco").result
    assert result.joined.report.classes_det_only == ("DontCare",)
    assert result.summary["AP"] == pytest.approx(1)


def coco_of(boxes, *, outlines=(), name="a.jpg", results=False):
    """COCO's dictionary of one image, its boxes (left, top, width, height) cars; results have scores."""
    rows = [
        {"id": i + 1, "image_id": 1, "category_id": 1, "bbox": box, "iscrowd": 0, "area": box[2] * box[3]}
        | ({"segmentation": [outlines[i]]} if outlines else {})
        | ({"score": 0.9 - i / 10} if results else {})
        for i, box in enumerate(boxes)
    ]
    if results:
        return rows
    image = {"id": 1, "file_name": name, "width": 100, "height": 100}
    return {"images": [image], "categories": [{"id": 1, "name": "car"}], "annotations": rows}


CAR, FALSE = [10, 10, 20, 20], [60, 60, 20, 20]


@pytest.mark.parametrize("region", [CAR, FALSE], ids=["around the car", "elsewhere"])
@pytest.mark.parametrize("to", ["coco", "voc", "yolo", "kitti", "csv"])
def test_regions_to_ignore_in_a_file_of_any_format(region, to, tmp_path):
    """What is found is found, also in a region; a class of the regions is none of the result."""
    regions = coco_of([region])
    regions["categories"][0]["name"] = "fence"
    path = tmp_path / ("regions.csv" if to == "csv" else "regions")
    odm.convert(regions, path, to=to)
    sides = coco_of([CAR]), coco_of([FALSE, CAR], results=True)
    result = odm.eval(*sides, "coco", ignore_regions=path)
    (row,) = result.classes
    assert (row.name, row.gt, row.tp, row.fp) == ("car", 1, 1, 0 if region is FALSE else 1)
    flagged = coco_of([CAR, region])
    truth = odm.read(flagged)
    marked = replace(truth.boxes, flags=np.array([0, Flag.REGION], np.uint16))
    assert odm.eval(replace(truth, boxes=marked), sides[1], "coco").summary == result.summary


def ring(left, top, right, bottom):
    return [left, top, right, top, right, bottom, left, bottom]


@pytest.mark.parametrize(("outline", "fp"), [((50, 50, 95, 95), 0), ((50, 50, 95, 69), 1), (None, 0)])
def test_outlines_of_regions_count_by_their_pixels_where_masks_are_compared(outline, fp):
    """A region over less than half of a false detection does not excuse it, and a box counts as its rectangle."""
    truth = coco_of([CAR], outlines=[ring(10, 10, 30, 30)])
    found = coco_of([FALSE, CAR], outlines=[ring(60, 60, 80, 80), ring(10, 10, 30, 30)], results=True)
    regions = coco_of([[50, 50, 45, 45]], outlines=[ring(*outline)] if outline else ())
    row = odm.eval(truth, found, "coco", iou_type="segm", ignore_regions=regions).classes[0]
    assert (row.tp, row.fp) == (1, fp)


def test_regions_to_ignore_that_belong_to_no_image_are_named():
    sides = coco_of([CAR]), coco_of([FALSE], results=True)
    with pytest.raises(UsageError, match=r"ignore_regions: no image of .* is in the ground truth"):
        odm.eval(*sides, "coco", ignore_regions=coco_of([FALSE], name="b.jpg"))
    regions = coco_of([FALSE])
    regions["images"].append({"id": 2, "file_name": "b.jpg", "width": 100, "height": 100})
    regions["annotations"].append({**regions["annotations"][0], "id": 2, "image_id": 2})
    result = odm.eval(*sides, "coco", ignore_regions=regions)
    assert "regions to ignore of 1 image not in the ground truth left out: 'b.jpg'" in result.log.notes
    for protocol, options in (("stt", {}), ("coco", {"memory": "1GB"})):
        with pytest.raises(UsageError, match=r"ignore.regions"):
            odm.eval("gt", "det", protocol, ignore_regions=regions, **options)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_regions_to_ignore_are_refused_where_they_change_nothing(name):
    """With a rule for them the number changes, without one the option is an error."""
    sides = coco_of([CAR]), coco_of([FALSE, CAR], results=True)
    if PROTOCOLS[name].has_regions:
        log = Log()
        with contextlib.suppress(DataError, UsageError):
            odm.eval(*sides, name, ignore_regions=coco_of([FALSE]), log=log)
        assert not any("no rule for them" in note for note in log.notes)
    else:
        for protocols in (name, ["coco", name]):
            with pytest.raises(UsageError, match="has no rule for regions to ignore"):
                odm.eval(*sides, protocols, ignore_regions=coco_of([FALSE]))


@pytest.mark.parametrize(("rounds", "at_once"), [(0, 1), (0, 3), (1, 4), (2, 7), (8, 2**16)])
def test_pairs_are_matched_in_parts_as_they_are_one_by_one(rounds, at_once, monkeypatch):
    """Chains, where each pair waits for another, go beyond the rounds and beyond one part."""
    monkeypatch.setattr(order, "ROUNDS", rounds)
    monkeypatch.setattr(order, "AT_ONCE", at_once)
    rng = np.random.default_rng(5)
    chain = np.arange(40)
    examples = [(np.repeat(chain, 2)[1:], np.repeat(chain, 2)[:-1])]
    examples += [tuple(rng.integers(0, 12, (2, n))) for n in (0, 1, 30, 60)]
    for det, gt in examples:
        chosen, dets, gts = [], set(), set()
        for at, (d, g) in enumerate(zip(det.tolist(), gt.tolist(), strict=True)):
            if d not in dets and g not in gts:
                chosen.append(at)
                dets.add(d)
                gts.add(g)
        assert order.match_one_to_one(det, gt).tolist() == chosen
