"""Replicates, intervals and the comparison of runs, against known answers, real copies and plain loops."""

import itertools
import json
import math
from types import SimpleNamespace

import analysis_cases as cases
import numpy as np
import pytest
from selection import params, turns

from odm import parallel
from odm.evaluate import PROTOCOLS, concatenate, evaluate, match, resolve
from odm.evaluate.analysis.bootstrap import (
    Interval,
    Resampling,
    bootstrap,
    correct_p_values,
    delta_interval,
    draw_weights,
    intervals,
    run_interval,
)
from odm.evaluate.analysis.compare import compare, find_regressions, parse_regression_gate
from odm.evaluate.analysis.leaderboard import Standing, verdict
from odm.evaluate.analysis.render_comparison import render_comparison
from odm.evaluate.analysis.replicate_keys import list_class_keys
from odm.evaluate.analysis.replicates import Plan, find_running_maximum
from odm.evaluate.analysis.slices import (
    ImageSlice,
    box_slices,
    image_slices,
    slice_by_count,
    slice_by_tags,
    truth_slices,
)
from odm.evaluate.analysis.table import table_of, tabulate
from odm.issues import UsageError
from odm.tables import Dataset, Flag

UNDER_TEST = [name for name, p in PROTOCOLS.items() if p.reading != "limits"]
CLOSE = 1e-12


def plan_of(result, **options):
    return Plan(table_of(result), **options)


@pytest.fixture(scope="module")
def pair():
    return plan_of(cases.fixture()), plan_of(cases.other())


# ------------------------------------------------------------------------------------------ known answers


def test_ap_of_the_small_data_set():
    a, b = cases.fixture(), cases.other()
    assert a.summary["AP"] == pytest.approx(0.273102310231023, abs=CLOSE)
    assert a.summary["AP50"] == pytest.approx(0.370187018701870, abs=CLOSE)
    assert b.summary["AP50"] == pytest.approx(0.462046204620462, abs=CLOSE)


@pytest.mark.parametrize(
    ("weights", "first", "other"),
    [
        ([1, 1, 1, 1, 1, 1], 0.370187018701870, 0.462046204620462),
        ([2, 0, 1, 1, 1, 1], 0.694719471947195, 0.638613861386139),
        ([0, 2, 2, 0, 1, 1], 0.196369636963696, 0.389438943894389),
        ([3, 0, 0, 2, 0, 1], 0.954162082874955, 0.917491749174918),
    ],
)
def test_ap_of_weighted_images(pair, weights, first, other):
    for plan, known in zip(pair, (first, other), strict=True):
        assert plan.compute(np.array([weights])).summary["AP50"][0] == pytest.approx(known, abs=CLOSE)


def test_exact_bootstrap_of_all_draws(pair):
    weights = np.array([w for w in itertools.product(range(7), repeat=6) if sum(w) == 6])
    assert len(weights) == 462
    chance = np.array([math.factorial(6) / math.prod(map(math.factorial, w.tolist())) for w in weights])
    chance /= 6**6
    first, other = (plan.compute(weights).summary["AP50"] for plan in pair)
    delta = other - first
    undefined = np.isnan(delta)
    assert undefined.sum() == 1
    assert chance[undefined].sum() == pytest.approx(6.0**-6)
    delta, chance = delta[~undefined], chance[~undefined] / chance[~undefined].sum()
    delta[np.abs(delta) < 1e-12] = 0
    mean = (delta * chance).sum()
    assert mean == pytest.approx(0.083596493328, abs=1e-12)
    assert math.sqrt((chance * (delta - mean) ** 2).sum()) == pytest.approx(0.194958086242, abs=1e-12)
    assert chance[delta > 0].sum() == pytest.approx(0.625013396206, abs=1e-12)
    assert chance[delta == 0].sum() == pytest.approx(0.090772693173, abs=1e-12)
    order = np.argsort(delta)
    reached = np.cumsum(chance[order])
    for share, known in ((0.025, -0.297029702970), (0.975, 0.448019801980)):
        assert delta[order][np.searchsorted(reached, share)] == pytest.approx(known, abs=1e-12)


@pytest.mark.parametrize("replicates", params([1000, 4000], [1000]))
def test_the_random_bootstrap_approaches_the_exact_one(pair, replicates):
    first, other = bootstrap(pair, Resampling(replicates))
    near = math.sqrt(4000 / replicates)
    delta = other.summary["AP50"] - first.summary["AP50"]
    delta = delta[~np.isnan(delta)]
    assert delta.mean() == pytest.approx(0.0836, abs=0.012 * near)
    assert delta.std() == pytest.approx(0.195, abs=0.01 * near)
    own = delta_interval(first.summary["AP50"], other.summary["AP50"], 0.09185918591859193, n=6)
    assert own.p_better == pytest.approx(0.625 + 0.0908 / 2, abs=0.03 * near)
    margin = 2.571 * 0.195 * math.sqrt(6 / 5)  # Student's t of 5 degrees of freedom
    assert own.low == pytest.approx(0.0919 - margin, abs=0.03 * near)
    assert own.high == pytest.approx(0.0919 + margin, abs=0.03 * near)


# ------------------------------------------------------------------------- the definition: copied images


def copied(dataset, weights, *, kind):
    """The dataset with each image as often as its weight says, the copies next to each other."""
    boxes = dataset.boxes
    names, image, row = [], [], []
    for i, w in enumerate(weights):
        own = np.flatnonzero(boxes.image == i)
        for c in range(w):
            image += [len(names)] * len(own)
            row += own.tolist()
            names.append(f"{i:03}-{c}")
    score = {"score": boxes.score[row]} if kind == "det" else {"flags": boxes.flags[row]}
    return Dataset.from_arrays(
        images=names or ["none"],
        categories=list(dataset.categories.name),
        image=np.array(image, int),
        category=boxes.category[row],
        xyxy=boxes.xyxy[row],
        kind=kind,
        **score,
    )


@pytest.mark.parametrize(("name", "seed"), turns(UNDER_TEST, range(3)))
def test_weights_are_copies_of_images(name, seed):
    flags = (Flag.DIFFICULT, Flag.GROUP_OF) if seed else ()
    gt, (det,) = cases.random_pair(seed, n_images=12, crowds=0.15, flags=flags)
    weights = draw_weights(12, range(seed, seed + 4), 7)
    plan = plan_of(evaluate(gt, det, name).result, areas=True)
    ours = plan.compute(weights)
    for b, own in enumerate(weights.tolist()):
        result = evaluate(copied(gt, own, kind="gt"), copied(det, own, kind="det"), name).result
        for key in plan.keys:
            assert ours.summary[key][b] == pytest.approx(result.summary[key], abs=CLOSE, nan_ok=True), key
        if result.rules.metric == "ap":
            rows = {row.name: {"AP": row.ap, **row.extra} for row in result.classes}
            assert set(list_class_keys(plan.rules)) == {
                "AP",
                *({"AP50", "AP75"} if result.rules.averaged and not result.rules.apart else ()),
            }
            for key in list_class_keys(plan.rules):
                theirs = [rows.get(name, {}).get(key, math.nan) for name in plan.table.classes]
                assert ours.class_ap[key][b].tolist() == pytest.approx(theirs, abs=CLOSE, nan_ok=True), key


@pytest.mark.parametrize("name", UNDER_TEST)
@pytest.mark.parametrize("ties", [False, True])
def test_weights_of_one_give_the_estimate(name, ties):
    gt, (det,) = cases.random_pair(5, crowds=0.1, ties=ties, step=5 if ties else 0)
    result = evaluate(gt, det, name).result
    plan = plan_of(result, areas=True)
    assert set(plan.keys) == {key for key, value in result.summary.items() if key in plan.keys}
    found = plan.compute(np.ones((1, plan.n_images), np.int64)).summary
    for key, value in result.summary.items():
        if result.rules.shared_score and key in ("P", "R", "score"):
            assert key not in found
        elif key in found or not math.isnan(value):
            assert found[key][0] == pytest.approx(value, abs=CLOSE, nan_ok=True), key


def test_many_detections_fit_into_fewer_fields():
    """Sums that need more than 21 bits are counted two or one weighting at a time."""
    gt, (det,) = cases.random_pair(3, n_images=8)
    plan = plan_of(evaluate(gt, det, "coco").result)
    weights = draw_weights(8, range(7), 0)
    small = plan.compute(weights)
    for factor in (10**5, 10**11):
        large = plan.compute(weights * factor)
        assert large.summary["AP50"].tolist() == pytest.approx(small.summary["AP50"].tolist(), abs=CLOSE)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 31, 32, 33, 100, 1000])
def test_running_maxima_by_blocks(n):
    values = np.random.default_rng(n).integers(0, 40, n).astype(np.float64)
    expected = np.maximum.accumulate(values).tolist()
    assert find_running_maximum(values, np.empty(n)).tolist() == expected


# --------------------------------------------------------------------------------------------- properties


def test_shards_in_any_order_give_the_same():
    gt, (det,) = cases.random_pair(11, crowds=0.1)
    weights = draw_weights(40, range(5), 0)
    for name in UNDER_TEST:
        result = evaluate(gt, det, name).result
        whole = result.joined
        number = np.arange(len(whole.images))
        shards = [whole.shard(number[number % 3 == s]) for s in (2, 0, 1)]
        table = tabulate(whole, concatenate([match(s, result.rules) for s in shards]))
        one, many = plan_of(result).compute(weights), Plan(table).compute(weights)
        for key, value in one.summary.items():
            assert np.array_equal(value, many.summary[key], equal_nan=True), (name, key)


def test_runs_in_shards_of_other_orders_compare_as_whole():
    gt, runs = cases.random_pair(12, n_runs=2, crowds=0.1)
    whole, shards = {}, {}
    for name, det, order in (("a", runs[0], (2, 0, 1)), ("b", runs[1], (1, 2, 0))):
        result = evaluate(gt, det, "coco").result
        number = np.arange(len(result.joined.images))
        parts = [result.joined.shard(number[number % 3 == s]) for s in order]
        whole[name] = table_of(result)
        shards[name] = tabulate(result.joined, concatenate([match(s, result.rules) for s in parts]))
    assert compare(shards, replicates=30).to_dict() == compare(whole, replicates=30).to_dict()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_results_do_not_depend_on_the_number_of_processes(pair, monkeypatch):
    gt, runs = cases.random_pair(2, n_runs=2)
    plans = [plan_of(evaluate(gt, det, "coco").result) for det in runs]
    alone = bootstrap(plans, Resampling(90, 3))
    monkeypatch.setattr("odm.evaluate.analysis.bootstrap.worker_count", lambda: 3)
    monkeypatch.setattr(parallel, "worker_count", lambda: 3)
    shared = bootstrap(plans, Resampling(90, 3))
    for one, other in zip(alone, shared, strict=True):
        assert np.array_equal(one.class_ap["AP"], other.class_ap["AP"], equal_nan=True)
        assert all(np.array_equal(one.summary[k], other.summary[k], equal_nan=True) for k in one.summary)


def test_draws_are_those_that_are_documented():
    drawn = draw_weights(9, range(4, 6), 17)
    for b, own in zip((4, 5), drawn, strict=True):
        again = np.bincount(np.random.default_rng([17, b]).integers(0, 9, 9), minlength=9)
        assert own.tolist() == again.tolist()


def test_a_run_against_itself_differs_by_nothing():
    gt, (det,) = cases.random_pair(4)
    tables = {name: table_of(evaluate(gt, det, "coco").result) for name in "ab"}
    found = compare(tables, replicates=60, bootstrap_areas=True)
    for delta in found.deltas:
        if not math.isnan(delta.delta):
            own = delta.interval
            assert (delta.delta, own.low, own.high, own.p_better, own.p) == (0, 0, 0, 0.5, 1), delta
    assert all(row["delta_error"] == 0 and not row["lost_tp"] for row in found.images)


def test_same_seed_same_bytes():
    gt, runs = cases.random_pair(4, n_runs=2)
    texts = [
        json.dumps(
            compare(
                {str(i): table_of(evaluate(gt, det, "voc2012").result) for i, det in enumerate(runs)},
                replicates=40,
                seed=seed,
            ).to_dict()
        )
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


# ---------------------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize(("n", "t"), [(4, 3.182), (11, 2.228), (31, 2.042), (1000, 1.962)])
def test_intervals_are_those_of_students_t(n, t):
    """The quantiles are those of any table of the t distribution."""
    values = np.random.default_rng(5).normal(0.45, 0.01, 4000)
    error = values.std() * math.sqrt(n / (n - 1))
    own = run_interval(0.45, values, n)
    assert (own.low, own.high) == pytest.approx((0.45 - t * error, 0.45 + t * error), abs=0.0015)
    own = delta_interval(np.zeros(4000), values, 0.45, n)
    assert (own.low, own.high) == pytest.approx((0.45 - t * error, 0.45 + t * error), rel=0.01)
    edge = delta_interval(np.zeros(4000), values - 0.45 + t * error, t * error, n)
    assert edge.p == pytest.approx(0.05, abs=0.002)


def test_an_interval_of_one_run_stays_between_0_and_1():
    values = np.linspace(0.9, 1, 401)
    assert 0.5 < run_interval(0.99, values, 4).low < 0.99 <= run_interval(0.99, values, 4).high <= 1
    assert 0 <= run_interval(0.01, 1 - values, 4).low <= 0.01 < run_interval(0.01, 1 - values, 4).high < 0.5


def test_intervals_of_numbers_that_are_all_or_nothing_and_of_any_level():
    values = np.array([0.0, 1.0] * 50)
    assert run_interval(0.5, values, 4) == Interval(pytest.approx(0, abs=1e-9), pytest.approx(1))
    for level in (1e-300, 1 - 1e-16):
        assert run_interval(0.5, values, 4, level).low <= 0.5
        assert delta_interval(values, values[::-1].copy(), 0.0, 4, level=level).low <= 0


def test_a_difference_lies_in_its_interval():
    """Of a run that has every box twice all replicates are better than the estimate."""
    n = 20
    common = {"images": [str(i) for i in range(n)], "categories": ["x"]}
    sides = []
    for times in (0, 1, 2):
        image = list(range(n)) * max(times, 1)
        own = {"image": image, "category": [0] * len(image), "xyxy": [[0, 0, 9, 9]] * len(image)}
        score = {"score": [0.5 + i / 100 for i in image]} if times else {}
        sides.append(Dataset.from_arrays(**common, **own, **score))
    runs = {str(i): table_of(evaluate(sides[0], sides[i], "voc2012").result) for i in (1, 2)}
    found = compare(runs, replicates=200).deltas[0]
    assert found.interval.low <= found.delta <= found.interval.high < 0


def test_p_values():
    first = np.zeros(10)
    other = np.array([1, 1, 1, 1, 1, 1, 1, 0, 1e-14, -1])
    own = delta_interval(first, other, 0.6, n=6)
    assert own.p_better == pytest.approx((7 + 1) / 10)
    assert own.p == pytest.approx(0.44, abs=0.01)  # t = 0.6 / (0.663 * sqrt(6 / 5)), 5 degrees of freedom
    turned = delta_interval(first, other, 0.6, n=6, lower_is_better=True)
    assert turned.p_better == pytest.approx((1 + 1) / 10)
    assert turned.p == own.p
    assert delta_interval(first, first + 0.5, 0.5, n=6).p == pytest.approx(2 / 11)
    assert delta_interval(first, first, 0.0, n=6).p == 1


def test_no_interval_where_replicates_are_undefined():
    values = np.array([np.nan] * 5 + [0.5] * 95)
    assert run_interval(0.5, values, 9).low == 0.5
    values[5] = np.nan
    own = run_interval(0.5, values, 9)
    assert math.isnan(own.low)
    assert own.reason == "undefined in 6 of 100 replicates"
    assert run_interval(math.nan, values, 9).reason == "undefined"


def test_holm_against_its_definition():
    p = [0.01, 0.04, math.nan, 0.03, 0.005]
    assert correct_p_values(p)[:2] == pytest.approx([0.03, 0.06])
    assert math.isnan(correct_p_values(p)[2])
    assert correct_p_values(p)[3:] == pytest.approx([0.06, 0.02])
    assert correct_p_values([0.9, 0.8]) == [1, 1]


def test_area_ranges_only_on_request():
    gt, (det,) = cases.random_pair(4)
    result = evaluate(gt, det, "coco").result
    plans, how = [plan_of(result), plan_of(result, areas=True)], Resampling(30)
    without, whole = (intervals(plan, *bootstrap([plan], how), how) for plan in plans)
    assert math.isnan(without["APm"].low)
    assert "area ranges" in without["APm"].reason
    assert not math.isnan(whole["APm"].low)
    assert without["APl"].reason == "undefined" or result.summary["APl"] == result.summary["APl"]


def test_only_some_images_are_drawn_from():
    gt, (det,) = cases.random_pair(4)
    chosen = np.arange(0, 40, 2)
    plan = plan_of(evaluate(gt, det, "voc2012").result)
    names = [f"im{i:03}" for i in chosen]
    part = plan_of(evaluate(gt, det, "voc2012", only_images=names).result)
    for own in (plan, part):
        (drawn,) = bootstrap([own], Resampling(20, images=chosen))
        assert drawn.summary["mAP"].tolist() == pytest.approx(
            [
                own.compute(np.bincount(chosen, weights=w, minlength=40).astype(np.int64)[None]).summary[
                    "mAP"
                ][0]
                for w in draw_weights(20, range(20), 0)
            ]
        )


# ------------------------------------------------------------------------------------- runs and refusals


def test_deltas_are_of_every_key_and_class_with_ground_truth():
    found = compare({"a": table_of(cases.fixture()), "b": table_of(cases.other())}, replicates=50)
    keys = [(d.key, d.category) for d in found.deltas]
    of_classes = [(key, name) for key in ("AP", "AP50", "AP75") for name in ("cat", "dog", "bird")]
    assert [pair for pair in keys if pair[1] is not None] == of_classes
    ap50 = {d.category: (d.first, d.other) for d in found.deltas if d.key == "AP50" and d.category}
    assert ap50["cat"] == pytest.approx((0.5, 0.554455445544554))
    assert ap50["dog"] == pytest.approx((0.442244224422442, 0.663366336633663))
    assert ap50["bird"] == pytest.approx((0.168316831683168,) * 2)
    assert [key for key, category in keys if category is None] == list(cases.fixture().summary)
    summary = next(d for d in found.deltas if d.key == "AP50")
    assert summary.delta == pytest.approx(0.462046204620462 - 0.370187018701870, abs=CLOSE)
    assert math.isnan(summary.p_holm)


def test_images_of_the_comparison():
    """They are counted as on the page: from the score of the best F1 of each run on."""
    results = {"a": cases.fixture(), "b": cases.other()}
    found = compare({name: table_of(result) for name, result in results.items()}, replicates=2)
    for name, result in results.items():
        data, own = result.report_data(), found.image_tables[name]
        assert own.thresholds.tolist() == [result.overall.score] * 3
        assert dict(zip(data.images, data.find_errors(data.best)[2].tolist(), strict=True)) == {
            image: fp + fn for image, fp, fn in zip(own.images, own.fp.tolist(), own.fn.tolist(), strict=True)
        }
    first, last = found.images[0], found.images[-1]
    assert (first["image"], first["delta_error"]) == ("6", pytest.approx(0.6))
    assert (last["image"], last["delta_error"] < 0) == ("2", True)
    given = compare({name: table_of(result) for name, result in results.items()}, replicates=2, at_score=0.9)
    assert given.image_tables["b"].thresholds.tolist() == [0.9] * 3


@pytest.mark.parametrize("name", [name for name in UNDER_TEST if name != "visdrone"])
def test_runs_that_detect_other_classes_beside_regions_are_compared(name):
    """A region is a ground truth of the classes that a run detects on its image, so that runs have others."""
    common = {"images": ["a", "b"], "width": [900, 900], "height": [900, 900], "categories": ["car", "van"]}
    boxes = [[10, 10, 200, 300], [10, 10, 200, 300], [400, 400, 800, 800]]
    truth = Dataset.from_arrays(
        **common, image=[0, 1, 1], category=[0, 0, 0], xyxy=boxes, flags=[0, 0, Flag.REGION]
    )
    runs = {
        f"run {n}": Dataset.from_arrays(
            **common, image=[0, 1, 1][:n], category=[0, 0, 1][:n], xyxy=boxes[:n], score=[0.9] * n
        )
        for n in (1, 2, 3)
    }
    tables = {run: table_of(evaluate(truth, det, name).result) for run, det in runs.items()}
    deltas = compare(tables, replicates=20).deltas
    assert {delta.run for delta in deltas} == {"run 2", "run 3"}


def test_errors_of_imagenet_turn_round_what_is_better():
    gt, runs = cases.random_pair(6, n_runs=2)
    tables = {str(i): table_of(evaluate(gt, det, "imagenet-loc").result) for i, det in enumerate(runs)}
    found = compare(tables, replicates=200)
    own = next(d for d in found.deltas if d.key == "top1_loc")
    assert found.lower_is_better
    assert (own.delta < 0) == (own.interval.p_better > 0.5)
    gate = parse_regression_gate("top1_loc=0", proven=False)
    assert bool(find_regressions(found, [gate])) == (own.interval.high > 0)


def test_runs_of_other_protocols_or_ground_truth_are_refused():
    gt, (det,) = cases.random_pair(1)
    first = table_of(evaluate(gt, det, "voc2012").result)
    with pytest.raises(UsageError, match="a different protocol"):
        compare({"a": first, "b": table_of(evaluate(gt, det, "voc2007").result)}, replicates=2)
    other, _ = cases.random_pair(2)
    with pytest.raises(UsageError, match="different ground truth"):
        compare({"a": first, "b": table_of(evaluate(other, det, "voc2012").result)}, replicates=2)


def test_runs_over_other_images_are_refused():
    tables = {
        str(n): table_of(evaluate(*((pair := cases.random_pair(1, n_images=n))[0], pair[1][0])).result)
        for n in (20, 21)
    }
    with pytest.raises(UsageError, match="not cover the same images as the first: only it has 'im020'"):
        compare(tables, replicates=2)
    with pytest.raises(UsageError, match="at least two runs"):
        compare({"20": tables["20"]}, replicates=2)


@pytest.mark.parametrize("options", [{"replicates": 0}, {"seed": -1}, {"level": 1.0}])
def test_values_out_of_range_are_refused(options):
    table = table_of(cases.fixture())
    with pytest.raises(UsageError, match=next(iter(options))):
        compare({"a": table, "b": table}, **options)


@pytest.mark.parametrize("name", ["coco", "voc2012", "tf-weighted", "corloc", "imagenet-loc"])
def test_one_image_has_no_intervals(name):
    gt, (det,) = cases.random_pair(9, n_images=1, n_classes=1)
    table = table_of(evaluate(gt, det, name).result)
    found = compare({"a": table, "b": table}, replicates=10)
    for delta in found.deltas:
        assert math.isnan(delta.interval.low)
        assert delta.interval.reason
    key = next(iter(table.result.summary))
    assert "too few images" in found.runs[0].intervals[key].reason


# -------------------------------------------------------------------------------------------------- gates


@pytest.fixture(scope="module")
def compared():
    return compare({"a": table_of(cases.fixture()), "b": table_of(cases.other())}, replicates=400)


@pytest.mark.parametrize(
    ("text", "proven", "fails"),
    [
        ("AP50", True, False),
        ("AP50=0.1", False, True),
        ("AP50=0.7", False, False),
        ("AP[cat]=0.1", False, True),
        ("AP50[cat]=0.1", False, True),
        ("mAP75[cat]=1", False, False),
        ("AP[bird]", True, True),  # no interval: its class vanishes too often
        ("APm", True, True),
    ],
)
def test_gates(compared, text, proven, fails):
    lines = find_regressions(compared, [parse_regression_gate(text, proven=proven)])
    assert bool(lines) == fails, lines


def test_the_table_of_classes_counts_those_without_an_interval(compared):
    without = [d.category for d in compared.deltas if d.category and d.key == "AP" and d.interval.reason]
    assert without == ["dog", "bird"]
    text = render_comparison(compared)
    assert "no interval: 2 classes (undefined in more than 5 % of the samples)" in text
    everything = compare({"a": table_of(cases.fixture()), "b": table_of(cases.fixture())}, replicates=20)
    assert "no interval: 0" not in render_comparison(everything)


def test_a_proven_regression_fails():
    gt, (det,) = cases.random_pair(8, n_images=60)
    boxes = det.boxes
    worse = Dataset.from_arrays(
        images=list(det.images.name),
        categories=list(det.categories.name),
        image=boxes.image,
        category=boxes.category,
        xyxy=boxes.xyxy + 25,
        score=boxes.score,
    )
    tables = {"a": table_of(evaluate(gt, det).result), "b": table_of(evaluate(gt, worse).result)}
    found = compare(tables, replicates=200)
    assert find_regressions(found, [parse_regression_gate("mAP", proven=True)])
    assert not find_regressions(found, [parse_regression_gate("mAP=100%", proven=True)])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("AP", ("AP", None, 0)),
        ("AP[a=b]=1%", ("AP", "a=b", 0.01)),
        ("mAP@high=0.01", ("mAP@high", None, 0.01)),
        ("mAP@high=.5", ("mAP@high", None, 0.5)),
        ("MR@Reasonable=5%", ("MR@Reasonable", None, 0.05)),
        ("MR@Reasonable_occ=heavy", ("MR@Reasonable_occ=heavy", None, 0)),
        ("MR@Reasonable_occ=heavy=0.02", ("MR@Reasonable_occ=heavy", None, 0.02)),
        ("MR@Reasonable_occ=heavy[a b] = 2%", ("MR@Reasonable_occ=heavy", "a b", 0.02)),
    ],
)
def test_the_key_and_the_margin_of_a_gate(text, parts):
    gate = parse_regression_gate(text, proven=True)
    assert (gate.name.key, gate.category, gate.margin) == parts


@pytest.mark.parametrize("text", ["", "AP=x", "AP=-1", "AP=nan", "AP=1=2"])
def test_gates_that_are_none(text):
    with pytest.raises(UsageError, match="fail-on-regression"):
        parse_regression_gate(text, proven=True)
    with pytest.raises(UsageError, match="require-no-worse"):
        parse_regression_gate("AP", proven=False)


def test_gates_of_keys_that_are_not_there():
    found = compare({"a": table_of(cases.fixture()), "b": table_of(cases.other())}, replicates=2)
    with pytest.raises(UsageError, match=r"there is no AP5 \(did you mean"):
        find_regressions(found, [parse_regression_gate("AP5", proven=True)])


# ------------------------------------------------------------------------------------------------- slices


def test_slices_of_the_small_data_set():
    table = table_of(cases.fixture())
    slices = [
        ImageSlice("thirds", value, np.array(images, np.int64))
        for value, images in (("1-3", [0, 1, 2]), ("4-6", [3, 4, 5]), ("5", [4]), ("none", []))
    ]
    rows = image_slices(table, slices)
    assert [row["images"] for row in rows] == [3, 3, 1, 0]
    assert [row["gt"] for row in rows] == [6, 2, 0, 0]
    known = [(0.234983498349835, 0.315731573157316), (0.675, 0.75)]
    for row, (ap, ap50) in zip(rows, known, strict=False):
        assert row["summary"]["AP"] == pytest.approx(ap, abs=CLOSE)
        assert row["summary"]["AP50"] == pytest.approx(ap50, abs=CLOSE)
    assert rows[2]["summary"]["AP"] is None
    assert rows[3]["delta"]["AP"] is None
    assert rows[0]["delta"]["AP"] == pytest.approx(0.234983498349835 - 0.675, abs=CLOSE)


@pytest.mark.parametrize("name", ["coco", "voc2012", "voc2007", "imagenet-loc", "corloc", "tf-weighted"])
def test_slices_are_evaluations_of_their_images(name):
    gt, (det,) = cases.random_pair(10, crowds=0.1)
    result = evaluate(gt, det, name).result
    chosen = np.arange(0, 40, 3)
    row = image_slices(table_of(result), [ImageSlice("x", "y", chosen)], Resampling(20))[0]
    part = evaluate(gt, det, name, only_images=[f"im{i:03}" for i in chosen]).result
    for key, value in row["summary"].items():
        theirs = part.summary[key]
        assert (math.nan if value is None else value) == pytest.approx(theirs, abs=CLOSE, nan_ok=True), key
    key = next(iter(row["summary"]))
    assert row["low"][key] <= row["delta"][key] <= row["high"][key]


def test_slices_by_tags_and_by_number_of_ground_truths():
    table = table_of(cases.fixture())
    assert [(s.value, (s.images + 1).tolist()) for s in slice_by_count(table)] == [
        ("0", [5]), ("1", [4, 6]), ("2-5", [1, 2, 3]), ("6-20", []), ("more", []),
    ]  # fmt: skip
    tags = {"light": {"1": ["day"], "2": ["night", "day"], "9": ["day"]}}
    assert [(s.value, (s.images + 1).tolist()) for s in slice_by_tags(table.images, tags)] == [
        ("day", [1, 2]), ("night", [2]), ("(none)", [3, 4, 5, 6]),
    ]  # fmt: skip


def test_images_lie_in_the_slice_whose_bounds_hold_their_number_of_ground_truths():
    """At each bound and beside it."""
    counts = [0, 1, 2, 5, 6, 20, 21, 40]
    image = np.repeat(np.arange(len(counts)), counts)
    sides = {"images": list("abcdefgh"), "categories": ["x"], "image": image, "category": image * 0,
             "ltwh": np.tile([0, 0, 9, 9], (len(image), 1))}  # fmt: skip
    gt, det = Dataset.from_arrays(**sides), Dataset.from_arrays(**sides, score=np.ones(len(image)))
    table = table_of(evaluate(gt, det, "coco").result)
    assert [(s.value, s.images.tolist()) for s in slice_by_count(table)] == [
        ("0", [0]), ("1", [1]), ("2-5", [2, 3]), ("6-20", [4, 5]), ("more", [6, 7]),
    ]  # fmt: skip


def test_slices_of_boxes_are_area_ranges():
    gt, (det,) = cases.random_pair(12, crowds=0.1, sizes=(5, 150))
    result = evaluate(gt, det, "coco").result
    rows = {row["value"]: row for row in box_slices(result.joined, result.rules)}
    for letter, value in (("s", "small"), ("m", "medium"), ("l", "large")):
        for key in ("AP", "AR"):
            ours = rows[value]["summary"][key if key == "AP" else "AR100"]
            assert ours == pytest.approx(result.summary[f"{key}{letter}"], abs=CLOSE)
    aspects = [row for row in rows.values() if row["slice"] == "aspect"]
    assert sum(row["gt"] for row in aspects) == result.overall.gt


def test_slices_of_marked_ground_truths():
    gt, (det,) = cases.random_pair(13, flags=(Flag.TRUNCATED, Flag.DIFFICULT))
    result = evaluate(gt, det, "voc2012").result
    rows = {row["value"]: row for row in truth_slices(result.joined, result.rules)}
    difficult = int(((gt.boxes.flags & np.uint16(Flag.DIFFICULT)) != 0).sum())
    assert rows["difficult"]["gt"] == difficult > 0
    table = table_of(result)
    inside = (table.truth.flags & np.uint16(Flag.TRUNCATED)) != 0
    of, found = (
        np.bincount(table.truth.category[inside & mask], minlength=4)
        for mask in (table.counting, table.counting & table.is_found)
    )
    assert rows["truncated"]["gt"] == of.sum()
    assert rows["truncated"]["recall"] == pytest.approx((found / of).mean())
    assert rows["truncated"]["missed"] == of.sum() - found.sum()
    assert rows["occluded"]["recall"] is None
    assert all(row["AP"] is None for row in rows.values())


def test_overlapping_ground_truths_by_a_plain_loop():
    gt, (det,) = cases.random_pair(14, crowds=0.2)
    result = evaluate(gt, det, "coco").result
    row = truth_slices(result.joined, result.rules)[-1]
    boxes = gt.boxes
    plain = (boxes.flags & np.uint16(Flag.CROWD)) == 0
    n = 0
    for i in np.flatnonzero(plain):
        for j in np.flatnonzero(plain & (boxes.image == boxes.image[i])):
            (a, b, c, d), (e, f, g, h) = boxes.xyxy[i], boxes.xyxy[j]
            inter = max(min(c, g) - max(a, e), 0) * max(min(d, h) - max(b, f), 0)
            if i != j and inter / ((c - a) * (d - b) + (g - e) * (h - f) - inter) >= 0.1:
                n += 1
                break
    assert row["gt"] == n > 0


def test_protocols_are_all_under_test():
    assert {p.name for p in resolve(UNDER_TEST)} == PROTOCOLS.keys() - {"kitti", "widerface"}


def test_an_interval_is_at_least_as_wide_as_its_few_images_make_it():
    """Perfect on 9 images of a rare class is no certainty; on many images it nearly is."""
    perfect = np.ones(50)
    assert run_interval(1.0, perfect, 9).low == 1
    own = run_interval(1.0, perfect, 9, least_error=1 / 11)
    assert own == Interval(pytest.approx(1 - 2.306 / 11, abs=1e-3), 1)
    wide = run_interval(0.5, np.random.default_rng(0).normal(0.5, 0.2, 400).clip(0.01, 0.99), 9)
    assert (
        run_interval(
            0.5, np.random.default_rng(0).normal(0.5, 0.2, 400).clip(0.01, 0.99), 9, least_error=0.001
        )
        == wide
    )


def test_a_mean_over_classes_rests_on_the_harmonic_mean_of_their_images():
    """Of a class on 1 image and one on 4 it is 2 / (1 + 1/4); a class on none does not count."""
    truth, found = (
        Dataset.from_arrays(
            images=list("abcdef"), width=[90] * 6, height=[90] * 6, categories=["x", "y", "z"],
            image=[0, 0, 1, 2, 3, 4], category=[0, 0, 1, 1, 1, 1], score=score,
            xyxy=[[1, 1, 20, 20], [30, 1, 50, 20]] * 3,
        ) for score in (None, [0.5] * 6)
    )  # fmt: skip
    plan = plan_of(evaluate(truth, found, "coco").result)
    assert plan.count_images_behind() == pytest.approx(1.6)
    assert plan.count_images_behind(np.array([0, 1, 2])) == pytest.approx(4 / 3)
    assert plan.count_images_behind(np.array([5])) == 0
    whole = plan_of(evaluate(truth, found, "imagenet-loc").result)
    assert (whole.count_images_behind(), whole.count_images_behind(np.array([0, 5]))) == (6, 2)


def test_intervals_without_0_that_are_no_difference_are_explained():
    from odm.evaluate.analysis.render_comparison import _Comparison as texts

    judged = [(Interval(-0.2, -0.01), 0.2), (Interval(-0.2, 0.1), 0.9), (Interval(-0.3, -0.2), 0.001)]
    (line,) = texts._explain_corrected(
        SimpleNamespace(comparison=SimpleNamespace(level=0.95)), judged, "classes"
    )
    assert line.text.startswith("1 interval excludes 0 without a difference that counts")
    assert "below 0.05" in line.text
    assert not texts._explain_corrected(
        SimpleNamespace(comparison=SimpleNamespace(level=0.7)), judged, "classes"
    )


@pytest.mark.parametrize(
    ("p_values", "rest"),
    [
        ([math.nan, 0.01], ""),
        ([0.01, 0.04], "; all others differ from it by more than chance"),
        ([0.06, 0.9], "; none of the others differs from it by more than chance"),
        ([0.01, 0.9], "; 1 of the others differs from it by no more than chance: c"),
        ([0.01, 0.9, 0.3], "; 2 of the others differ from it by no more than chance: c, d"),
        ([0.3] * 4 + [0.01], "; 4 of the others differ from it by no more than chance: b, c, d, ..."),
    ],
)
def test_the_sentence_of_a_ranking_says_what_differs_from_the_best(p_values, rest):
    names = {str(i): name for i, name in enumerate("abcdef")}
    nothing = Interval()
    standings = [
        Standing(str(i), (), "AP", 0.5, nothing, 0.0, nothing, p) for i, p in enumerate([math.nan, *p_values])
    ]
    assert verdict(standings, names, 0.95) == f"a is the best of {len(standings)} runs: AP 50.00 %{rest}"
    undefined = [Standing("0", (), "AP", math.nan, nothing, 0.0, nothing, math.nan)]
    assert verdict(undefined, names, 0.95) == "AP is undefined for all runs"
