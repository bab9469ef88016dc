"""The rules for tables against a slow and plain reference, their messages, and their cost."""

import json
import math
from collections import Counter
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from cost import cost
from hypothesis import given, settings
from msgspec.structs import replace
from selection import examples

import odm
from odm import checks
from odm.issues import Log
from odm.tables import Dataset, SourceFile

EDGES = st.sampled_from([0, -0.0, 1, 2, 10, 10.25, 50, 99, 100, 100.5, 100.75, 101, -0.5, -0.75, -3, 1e308, -1e308, math.inf, -math.inf, math.nan])  # fmt: skip


@st.composite
def datasets(draw):
    kind = draw(st.sampled_from(["gt", "det"]))
    n = draw(st.integers(0, 12))
    as_widths = draw(st.booleans())
    boxes = [[draw(EDGES) for _ in range(4)] for _ in range(n)]
    if n and draw(st.booleans()):  # twins are rare by chance
        boxes = [boxes[draw(st.integers(0, n - 1))] for _ in range(n)]
    scores = [draw(st.sampled_from([0.0, 0.5, 1.0, 1.5, -0.1, 95.0, math.nan, math.inf])) for _ in range(n)]
    return Dataset.from_arrays(
        images=["a.jpg", "b.jpg"],
        width=[100, 0],
        height=[100, 0],
        categories=["x", "y"],
        image=[draw(st.integers(0, 1)) for _ in range(n)],
        category=[draw(st.integers(0, 1)) for _ in range(n)],
        **{"ltwh" if as_widths else "xyxy": np.array(boxes, float).reshape(-1, 4)},
        area=[draw(st.sampled_from([math.nan, 0.0, 5.0, -5.0, math.inf])) for _ in range(n)],
        score=scores if kind == "det" else None,
        kind=kind,
    )


def reference(data, tolerance):
    """Codes by row, one box after the other, in exact arithmetic where it matters."""
    found = []
    seen = {}
    b = data.boxes
    normalised = checks.DerivedColumns(data, tolerance).normalised
    for i in range(len(b)):
        xyxy, wh = b.xyxy[i].tolist(), b.wh[i].tolist()
        codes = set()
        width, height = int(data.images.width[b.image[i]]), int(data.images.height[b.image[i]])
        area, score = float(b.area[i]), float(b.score[i])
        finite = all(abs(v) < 1e100 for v in [*xyxy, *wh]) and not math.isinf(area)
        left, top, right, bottom = xyxy
        if not finite:
            codes.add("coordinates-not-finite")
        elif right < left or bottom < top or min(wh) < 0:
            codes.add("inverted-box")
        else:
            if right == left or bottom == top:
                codes.add("empty-box")
            exact = [Fraction(v) for v in xyxy]
            limit = Fraction(tolerance)
            beyond = max(-exact[0], -exact[1])
            if width:
                beyond = max(beyond, exact[2] - width)
            if height:
                beyond = max(beyond, exact[3] - height)
            if beyond > limit:
                codes.add("outside-image")
        if finite:
            key = (int(b.image[i]), int(b.category[i]), *xyxy)
            if data.kind == "det":
                key += (score if not math.isnan(score) else object(),)
            if key in seen:
                codes.add("duplicate-box")
            seen.setdefault(key, i)
        if data.kind == "det":
            if not math.isfinite(score):
                codes.add("score-not-finite")
            elif not 0 <= score <= 1:
                codes.add("score-beyond-one")
        if area < 0:
            codes.add("negative-area")
        elif not normalised and not codes & {"coordinates-not-finite", "inverted-box"}:
            width, height = b.wh[i].tolist()
            if (width > 0 and height > 0) if area == 0 else area > (width + 1) * (height + 1):
                codes.add("area-differs")
        found.append(codes)
    return found


@settings(max_examples=examples(400), deadline=None)
@given(datasets(), st.sampled_from([0.5, 0.0, 1.0]))
def test_the_rules_agree_with_a_plain_reference(data, tolerance):
    log = Log()
    wrong = checks.run(data, log, tolerance=tolerance)
    expected = reference(data, tolerance)
    counts = Counter(code for codes in expected for code in codes)
    about_sets = {rule.code.name for rule in checks.RULES if isinstance(rule, checks.SetRule)}
    assert {k: v for k, v in log.counts.items() if k not in about_sets} == dict(counts)
    errors = {"coordinates-not-finite", "inverted-box", "score-not-finite"}
    assert wrong.tolist() == [bool(codes & errors) for codes in expected]
    assert wrong.dtype == bool
    for issue in log:
        assert str(issue).isprintable()
    everything = Log()
    assert checks.run(data, everything, all_rules=True, tolerance=tolerance).tolist() == wrong.tolist()
    assert {k: v for k, v in everything.counts.items() if k in log.counts} == log.counts


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.sampled_from([1, 3, 100]))
def test_near_duplicates_agree_with_all_pairs(seed, n, spread):
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, spread, (n, 2)).astype(float)
    size = 30 + rng.integers(0, 3, (n, 2)) + rng.choice([0, 0.25, 1], (n, 2))
    image, category = rng.integers(0, 2, n), rng.integers(0, 2, n)
    data = Dataset.from_arrays(
        images=["a", "b"], categories=["x", "y"], image=image, category=category,
        xyxy=np.concatenate([corner, corner + size], axis=1),
    )  # fmt: skip
    xyxy = data.boxes.xyxy
    exact = set(checks.DerivedColumns(data, 0.5).duplicates[0].tolist())
    expected = set()
    for j in range(n):
        for i in range(j):
            if image[i] == image[j] and category[i] == category[j] and not {i, j} & exact:
                inter = np.prod(
                    np.maximum(np.minimum(xyxy[i, 2:], xyxy[j, 2:]) - np.maximum(xyxy[i, :2], xyxy[j, :2]), 0)
                )
                union = np.prod(size[i]) + np.prod(size[j]) - inter
                if inter / union > 0.95:
                    expected.add(j)
    later, first, iou = checks.DerivedColumns(data, 0.5).near_duplicates
    assert set(later.tolist()) == expected
    assert (first < later).all()
    assert (iou > 0.95).all()


def make(boxes=((10, 10, 60, 60),), *, size=(640, 480), images=("a.jpg",), categories=("x",), **columns):
    boxes = columns.get("xyxy", columns.get("ltwh", boxes))
    boxes = np.array(boxes, float).reshape(-1, 4)
    n = len(boxes)
    given = {"image": [0] * n, "category": [0] * n, "xyxy": boxes}
    if size:
        given |= {"width": [size[0]] * len(images), "height": [size[1]] * len(images)}
    given |= columns
    if "ltwh" in columns:
        del given["xyxy"]
    return Dataset.from_arrays(images=list(images), categories=list(categories), **given)


def codes(data, *, all_rules=True):
    log = Log()
    checks.run(data, log, all_rules=all_rules)
    return dict(log.counts)


def messages(data, *, all_rules=True):
    log = Log()
    checks.run(data, log, all_rules=all_rules)
    return [i.message for i in log]


def grid(n, kind="gt", **columns):
    boxes = [[(i % 20) * 30, (i // 20) * 40, (i % 20) * 30 + 20, (i // 20) * 40 + 25] for i in range(n)]
    if kind == "det":
        columns.setdefault("score", [0.1 + 0.8 * i / n for i in range(n)])
    return make(boxes, kind=kind, **columns)


@pytest.mark.parametrize("kind", ["gt", "det"])
def test_clean_data_gives_no_noise(kind):
    assert codes(grid(200, kind)) == {}
    assert codes(grid(200, kind, size=None)) == {}
    assert codes(make([], kind=kind)) == {}
    assert codes(make([], kind=kind, images=(), categories=())) == {}


def test_messages_say_what_was_found():
    (message,) = messages(make([[100, 10, 50, 60]]), all_rules=False)
    assert message.startswith(
        "expected left <= right and top <= bottom, found left 100, top 10, right 50, bottom 60; "
    )
    (message,) = messages(make([[600, 10, 700.25, 60]]))
    assert message.startswith(
        "the box extends 60.25 px beyond the image (640x480): left 600, top 10, right 700.25, bottom 60; "
    )
    (message,) = messages(make([[600, 10, 697.8699999999999, 326.03000000000003]]))
    assert "57.87 px beyond the image (640x480): left 600, top 10, right 697.87, bottom 326.03; " in message
    (message,) = messages(make([[9.50000002, 10, 9.50000001, 60]]), all_rules=False)
    assert "left 9.50000002, top 10, right 9.50000001," in message  # what is wrong is seen
    (message,) = messages(make([[-7, 10, 60, 60]], size=None))
    assert "extends 7 px beyond the image (of unknown size)" in message
    (message,) = messages(make([[10, 10, 60, 60]] * 2))
    assert message.startswith("duplicate of <ground truth>#/0; ")
    (message,) = messages(make([[10, 10, 60, 60]], score=[float("nan")]))
    assert message.startswith("expected a finite score, found none; ")
    (message,) = messages(make([[10, 10, 60, 60]], score=[1.25]), all_rules=False)
    assert message.startswith("expected a score in 0..1, found 1.25; ")
    (message,) = messages(make(area=[-2.5]))
    assert message.startswith("expected an area of at least 0, found -2.5; ")
    (message,) = messages(make(area=[math.inf]))
    assert message.startswith("expected finite coordinates, found width 50.0, height 50.0, area inf; ")


def test_places_are_those_of_the_source():
    data = make([[10, 10, 60, 60], [50, 10, 10, 60], [10, 10, 60, 60]])
    boxes = replace(data.boxes, file=np.array([0, 0, 1], np.int32), line=np.array([4, 5, 9], np.int32))
    files = (SourceFile("a.json", "/annotations"), SourceFile("b.txt"))
    data = replace(data, boxes=boxes, files=files)
    log = Log()
    assert checks.run(data, log).tolist() == [False, True, False]
    assert [(i.location, i.code) for i in log] == [
        ("a.json#/annotations/5/bbox", "inverted-box"),
        ("b.txt:9", "duplicate-box"),
    ]
    assert "of a.json#/annotations/4;" in log.issues[1].message


@pytest.mark.parametrize(
    ("first", "second", "how"),
    [
        ("a.jpg", "A.jpg", "letter case"),
        ("caf\u00e9.jpg", "cafe\u0301.jpg", "Unicode form"),
        ("CAF\u00c9.jpg", "cafe\u0301.jpg", "letter case"),
        ("a.jpg", "a.png", "extension"),
        ("straße.jpg", "STRASSE.jpg", "letter case"),
    ],
)
def test_alike_image_names(first, second, how):
    for names in ([first, second], [second, first], [*(f"{i}.jpg" for i in range(50)), first, second]):
        log = Log()
        checks.run(make(images=names), log)
        (issue,) = log
        assert issue.code == "similar-image-names"
        assert f"differ only in {how};" in issue.message


@pytest.mark.parametrize(
    "names", [["a.jpg", "b.jpg"], ["a.jpg", "a.v2.jpg"], ["ab.jpg", "a b.jpg"], ["1.0", "1"]]
)
def test_other_image_names_are_not_alike(names):
    assert codes(make(images=names)) == {}


@pytest.mark.parametrize(
    ("second", "how"),
    [
        ("Traffic Light", "letter case"),
        ("traffic  light", "spaces"),
        ("trafficlight", "spaces"),
        (" traffic light", "spaces"),
        ("Traffic light ", "letter case and spaces"),
    ],
)
def test_alike_class_names(second, how):
    (message,) = messages(make(categories=["traffic light", second]))
    assert f"differ only in {how};" in message


def test_scores():
    assert codes(grid(20, "det", score=[0.5] * 20)) == {"equal-scores": 1}
    assert codes(grid(5, "det", score=[0.5] * 5)) == {}
    assert codes(grid(20, "det", score=np.linspace(10, 100, 20))) == {
        "score-beyond-one": 20,
        "scores-in-percent": 1,
    }
    assert codes(grid(2, "det", score=[-1, -1]), all_rules=False) == {
        "score-beyond-one": 2,
        "equal-scores": 1,
    }
    assert codes(grid(20, "det", score=np.linspace(0, 1.05, 20))) == {"score-beyond-one": 1}
    for no_percentages in ([1.7], [*[0.5] * 9, 95.0], [1.5, 2.5, 4.25], [50, 60, 101], [-1, 50, 60]):
        found = codes(grid(len(no_percentages), "det", score=no_percentages))
        assert set(found) == {"score-beyond-one"}
    assert codes(grid(20, score=[0.5] * 10 + [0.25] * 10)) == {"some-scores": 1}
    assert codes(grid(4, score=[math.nan] * 4)) == {}


def test_normalised():
    boxes = [[0.1, 0.2, 0.5, 0.5], [0, 0, 1, 1], [0.5, 0.5, 0.75, 0.75]]
    assert codes(make(boxes)) == {"looks-normalised": 1}
    assert codes(make(boxes[:2])) == {"tiny-box": 1}
    assert codes(make([*boxes, [0, 0, 50, 50]])) == {"tiny-box": 2}


def test_shapes():
    assert codes(make([[10, 10, 10.5, 60]])) == {"tiny-box": 1}
    assert codes(make([[10, 10, 11, 61]])) == {"extreme-aspect-ratio": 1}
    assert codes(make([[10, 10, 11, 60]])) == {}
    assert codes(make([[10, 10, 110, 110], [10, 10, 110, 109]])) == {"near-duplicate-box": 1}
    assert codes(make([[10, 10, 110, 110], [10, 10, 110, 104]])) == {}


def test_conventions():
    corners = np.array([[300, 200, 600, 400], [20, 20, 200, 100], [500, 300, 639, 470], [400, 250, 600, 400]])
    widths = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
    assert codes(make(corners)) == {}
    assert codes(make(ltwh=widths)) == {}
    read_as_widths = codes(make(ltwh=corners))
    assert read_as_widths.pop("outside-image") >= 3
    assert read_as_widths == {"looks-like-ltrb": 1}
    low = np.array([[300, 200, 50, 60], [400, 300, 100, 90], [500, 300, 139, 80], [10, 10, 30, 40]])
    assert codes(make(low)) == {"inverted-box": 3, "looks-like-ltwh": 1}
    tall = np.array([[10, 500, 60, 600], [100, 600, 400, 630], [400, 550, 420, 610]])
    assert codes(make(tall)) == {"outside-image": 3, "looks-swapped": 1}
    border = [[540, 10, 641, 30], [0, 400, 30, 481], [0, 0, 641, 481]]
    assert codes(make(border)) == {"outside-image": 3, "off-by-one": 1}
    assert codes(make([*border, [0, 0, 642, 20]])) == {"outside-image": 4}


def explicit(data, options=()):
    log = Log()
    checks.run(data, log, options, all_rules=True)
    return log


def crowd_of_corners(n, seed):
    """Honest boxes all over an image of 640x480, as corners."""
    rng = np.random.default_rng(seed)
    corner = rng.random((n, 2)) * [500, 360]
    size = rng.random((n, 2)) * [130, 110] + 8
    return np.concatenate([corner, np.minimum(corner + size, [640, 480])], axis=1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("odd", [[600, 470, 642.59, 490], [-9, 3, 40, 60]])
def test_an_odd_box_does_not_hide_a_convention(seed, odd):
    corners = np.concatenate([crowd_of_corners(40, seed), [odd]])
    widths = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
    of_conventions = {"looks-like-ltrb", "looks-like-ltwh", "looks-swapped"}
    assert of_conventions & set(explicit(make(ltwh=corners)).counts) == {"looks-like-ltrb"}
    assert of_conventions & set(explicit(make(widths)).counts) == {"looks-like-ltwh"}
    for honest in (make(corners), make(ltwh=widths), make(corners * 2), make(ltwh=widths * 2)):
        assert not of_conventions & set(explicit(honest).counts)


@pytest.mark.parametrize("edge", [0, 1, 2, 3])
def test_boxes_at_an_edge_of_their_image_do_not_leave_it(edge):
    """Corners that were read as widths: the message counts no box outside as corners, on any side."""
    corners = crowd_of_corners(40, 1)
    corners[:, edge] = [0, 0, 640, 480][edge]
    log = explicit(make(ltwh=corners))
    assert log.counts["looks-like-ltrb"] == 1
    (message,) = [issue.message for issue in log if issue.code == "looks-like-ltrb"]
    assert "none" in message


@pytest.mark.parametrize("axes", [[2, 1, 0, 3], [0, 3, 2, 1]])
@pytest.mark.parametrize("share", [4, 20, 40])
def test_edges_the_wrong_way_round_are_no_widths(axes, share):
    corners = crowd_of_corners(40, 0)
    corners[:share] = corners[:share][:, axes]
    assert codes(make(corners)) == {"inverted-box": share}
    corners[: share // 2] = corners[: share // 2][:, [2, 3, 0, 1]]  # some on the other axis
    assert "looks-like-ltwh" not in explicit(make(corners)).counts


@pytest.mark.parametrize("overhang", [3, 8])
def test_large_objects_that_reach_over_the_border_are_no_corners(overhang):
    widths = np.array([[120 + i, 100 + i, 520 - i, 380 - i] for i in range(20)], float)
    widths[:6, 2] += overhang
    assert codes(make(ltwh=widths)).keys() <= {"outside-image", "near-duplicate-box"}


@pytest.mark.parametrize("key", ["xyxy", "ltwh"])
@pytest.mark.parametrize("box", [[60, 60, 101, 101], [60, 60, 160, 160]])
def test_a_few_boxes_that_leave_their_image_either_way_make_no_convention(key, box):
    """Whether their numbers are read as corners or as widths and heights, by a little or far."""
    good = [[5 * (i % 10), 5 * (i // 10), 5 * (i % 10) + 20, 5 * (i // 10) + 25] for i in range(50)]
    assert not any(
        code.startswith("looks-") for code in codes(make(size=(100, 100), **{key: [*good, *[box] * 3]}))
    )


@pytest.mark.parametrize("box", [[1000, 2, -1e-14, 4], [2, 1000, 4, -1e-14], [5, 5, -1, 4], [5, 5, 4, -1]])
def test_a_negative_width_is_no_empty_box_however_small(box):
    """Added to the left edge it may leave no trace."""
    assert codes(make(ltwh=[box], size=(2000, 2000))) == {"inverted-box": 1}


def test_advice_names_an_option_only_where_there_is_one():
    corners = crowd_of_corners(40, 0)
    widths = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
    for data in (make(ltwh=corners), make(widths)):
        assert not any("--box" in issue.message for issue in explicit(data))
        found = [issue for issue in explicit(data, {"box"}) if "--box" in issue.message]
        assert {"looks-like-ltrb", "looks-like-ltwh"} & {issue.code for issue in found}
    relative = make([[0.1, 0.2, 0.5, 0.5], [0, 0, 1, 1], [0.5, 0.5, 0.75, 0.75]])
    assert "--coords" not in messages(relative)[0]
    assert "--coords rel" in next(iter(explicit(relative, {"coords"}))).message


@pytest.mark.parametrize(
    ("data", "row", "reason"),
    [
        (grid(20, "det", score=np.linspace(10, 100, 20)), "score-beyond-one", "scores-in-percent"),
        (grid(20, "det", score=[-1] * 20), "score-beyond-one", "equal-scores"),
        (make(ltwh=crowd_of_corners(40, 0)), "outside-image", "looks-like-ltrb"),
    ],
    ids=["percent", "minus one", "corners"],
)
def test_what_a_rule_explains_is_one_line_with_a_count(data, row, reason):
    log = explicit(data)
    assert log.counts[reason] == 1
    (issue,) = (i for i in log if i.code == row)
    assert issue.message.endswith(f" ({log.counts[row] - 1} more like it: {reason})")


def test_rare_classes_and_the_rest():
    data = grid(200, category=[0] * 199 + [1], categories=["x", "rare"])
    assert codes(data) == {"rare-class": 1}
    assert codes(grid(200, category=[0] * 198 + [1] * 2, categories=["x", "few"])) == {}
    assert codes(grid(3, source_id=[0, 1, 2])) == {"annotation-id-zero": 1}
    assert codes(grid(3, source_id=[1, 2, 3])) == {}
    assert codes(make(images=["train/1.jpg", "val/1.jpg", "val/2.jpg"])) == {"same-name-in-folders": 1}
    assert codes(make(images=["a.jpg", "b.jpg"], width=[640, 0], height=[480, 0], size=None)) == {
        "images-without-size": 1
    }


def test_hashes_that_collide_are_not_duplicates(monkeypatch):
    data = make([[10, 10, 60, 60], [10, 10, 60, 61], [10, 10, 60, 60], [5, 5, 6, 6], [10, 10, 60, 61]])
    monkeypatch.setattr(checks.rules, "_hash_boxes", lambda dataset: np.zeros(len(dataset), np.uint64))
    later, first = checks.DerivedColumns(data, 0.5).duplicates
    assert (later.tolist(), first.tolist()) == ([2, 4], [0, 1])


def big(n):
    rng = np.random.default_rng(0)
    corner, size = rng.random((n, 2)) * 400, rng.random((n, 2)) * 60 + 10
    return Dataset.from_arrays(
        images=[f"{i:012}.jpg" for i in range(5000)], categories=[f"c{i}" for i in range(80)],
        width=np.full(5000, 640), height=np.full(5000, 480), image=np.sort(rng.integers(0, 5000, n)),
        category=rng.integers(0, 80, n), ltwh=np.concatenate([corner, size], axis=1), score=rng.random(n),
    )  # fmt: skip


def test_the_cost_of_one_pass():
    data = big(500_000)
    assert codes(data, all_rules=False) == {}
    assert cost(lambda: checks.run(data, Log()), 20) < 20


def test_the_cost_when_everything_is_wrong():
    n = 200_000
    for boxes in (
        [[50, 10, 10, 60]] * n,
        [[10, 10, 60, 60]] * n,
        [[math.nan] * 4] * n,
        [[-50, -50, 1000, 1000]] * n,
    ):
        data = make(boxes)
        log = Log()
        checks.run(data, log, all_rules=True)
        assert cost(lambda data=data: checks.run(data, Log(), all_rules=True), 200) < 200
        assert max(log.counts.values()) >= n - 1
        assert len(log.issues) <= 300


# ------------------------------------------------------------------------------------------- two sides


def compared(truth, detections):
    log = Log()
    checks.compare(truth, detections, log)
    return dict(log.counts), [i.message for i in log]


def test_sides_that_fit():
    truth = grid(50)
    assert compared(truth, grid(50, "det")) == ({}, [])
    assert compared(truth, grid(50, "det", images=["folder/a.png"])) == ({}, [])
    assert compared(truth, make([], kind="det")) == ({}, [])
    assert compared(make([]), make([], kind="det", images=())) == ({}, [])


def test_what_only_one_side_has():
    truth = grid(10, images=["street.jpg", "yard.jpg"], categories=["person", "car"], category=[0] * 9 + [1])
    other = grid(
        10, "det", images=["strete.jpg", "yard.jpg"], categories=["Person", "car"], category=[0] * 9 + [1]
    )
    counts, said = compared(truth, other)
    assert counts == {
        "image-only-in-detections": 1,
        "class-only-in-detections": 1,
        "class-only-in-ground-truth": 1,
    }
    assert said[0].startswith(
        "1 image in the detections but not in the ground truth: 'strete.jpg' (did you mean 'street.jpg'?); "
    )
    assert "class 'Person' of 9 detections is not in the ground truth (did you mean 'person'?)" in said[1]


def test_sizes_that_differ():
    counts, (message,) = compared(grid(10), grid(10, "det", size=(1280, 960)))
    assert counts == {"image-sizes-differ": 1}
    assert "'a.jpg' is 640x480 pixels in the ground truth but 1280x960 in the detections" in message


@pytest.mark.parametrize(("edge", "allowed"), [("left", 5), ("top", 2), ("right", 5), ("bottom", 2)])
def test_a_shape_may_differ_by_a_twentieth_of_the_same_side(tmp_path, edge, allowed):
    """Of the width for left and right edges, of the height for top and bottom, and by two pixels always."""
    for away, found in ((allowed - 0.5, 0), (allowed + 0.5, 1)):
        left, top, right, bottom = (
            v + away * (name == edge)
            for name, v in zip(("left", "top", "right", "bottom"), (10, 10, 110, 30), strict=True)
        )
        outline = [left, top, right, top, right, bottom, left, bottom]
        shape = {
            "id": 1,
            "image_id": 1,
            "category_id": 1,
            "bbox": [10, 10, 100, 20],
            "iscrowd": 0,
            "area": 2000,
        }
        shape["segmentation"] = [outline]
        image = {"id": 1, "file_name": "a.jpg", "width": 200, "height": 60}
        (tmp_path / "a.json").write_text(
            json.dumps({"images": [image], "categories": [{"id": 1, "name": "x"}], "annotations": [shape]})
        )
        log = odm.validate(tmp_path / "a.json").log
        assert log.counts.get("shape-box-differs", 0) == found, (edge, away)


def test_outlines_in_fractions_of_an_image_are_not_counted_in_pixels(tmp_path):
    (tmp_path / "a.txt").write_text("0 0.1 0.1 0.4 0.15 0.2 0.75\n0 0.5 0.5 0.7 0.5 0.9 0.5\n")
    log = Log(keep=100)
    odm.read(tmp_path, "yolo", shapes=True, log=log)
    found = [str(issue) for issue in log if issue.code == "shape-empty"]
    assert [text.partition(": ")[0].rpartition("/")[2] for text in found] == ["a.txt:2"]


@pytest.mark.parametrize("n_tracked", [0, 1, 5])
def test_boxes_of_tracks_beyond_the_image_are_one_message(n_tracked):
    data = make(ltwh=[[-20.5 - i, 10, 40, 20] for i in range(6)])
    if n_tracked:
        track = np.where(np.arange(6) < n_tracked, 0, -1).astype(np.int32)
        data = replace(data, boxes=replace(data.boxes, track=track))
    log = Log()
    checks.run(data, log)
    messages = [issue.message for issue in log if issue.code == "outside-image"]
    assert log.counts["outside-image"] == 6
    assert len(messages) == 6 - max(0, n_tracked - 1)
    assert sum("4 more like it: boxes of tracks" in m for m in messages) == (n_tracked == 5)


@pytest.mark.parametrize(
    ("box", "edges"),
    [
        ([-127.99999999999997, 10, 20, 651.0000000000001], "left -128, top 10, right 20, bottom 651"),
        ([-12, -1.4e-14, 20, 9.3], "left -12, top 0, right 20, bottom 9.3"),
        ([10.000000000000002, 0, 10, 9], "left 10.000000000000002, top 0, right 10, bottom 9"),
    ],
)
def test_edges_are_shown_without_tails(box, edges):
    messages = [issue.message for issue in explicit(make([box]))]
    assert any(edges in message for message in messages)
