"""Samples, splits and folds: the known answers, a slow reference, and what must hold of any data."""

import hashlib
from collections import Counter
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given

from odm.converters import Ledger, Selection
from odm.converters.selection import (
    GROUPINGS,
    choose_sample,
    divide,
    group_names,
    parse_ratios,
    parse_share,
    select,
    sort_by_seed,
    split_rows,
)
from odm.issues import DataError, Log, UsageError
from odm.tables import Dataset


def data(classes_of, n_classes, names=None):
    """One image for each set of classes, with a box of each."""
    pairs = [(i, c) for i, classes in enumerate(classes_of) for c in sorted(classes)]
    return Dataset.from_arrays(
        images=names or [f"i{i:02d}.jpg" for i in range(len(classes_of))],
        categories=[f"class{c}" for c in range(n_classes)],
        image=[i for i, _ in pairs],
        category=[c for _, c in pairs],
        ltwh=[(1, 1, 5, 5)] * len(pairs),
    )


def twenty():
    return data(
        [
            set() if i in (7, 17) else {0} | ({1} if i % 3 == 0 else set()) | ({2} if i % 5 == 0 else set())
            for i in range(20)
        ],
        3,
    )


def parts_of(dataset, ratios, *, seed="0", groups=None, stratify=True):
    """The numbers in the names of the images of each part."""
    rows = split_rows(dataset, ratios, seed=seed, groups=groups, stratify=stratify)
    return [
        {int(name[1:3]) for name, row in zip(dataset.images.name, rows, strict=True) if row == s}
        for s in range(len(ratios))
    ]


# ---------------------------------------------------------------------------------------- known answers


def test_the_order_of_a_seed():
    order = sort_by_seed(twenty().images.name, "0").tolist()
    assert order == [11, 12, 5, 17, 2, 13, 16, 9, 7, 0, 10, 14, 4, 3, 19, 15, 6, 18, 8, 1]


@pytest.mark.parametrize(("stratify", "val", "test"), [(False, {6, 18}, {1, 8}), (True, {8, 15}, {1, 18})])
def test_three_parts(stratify, val, test):
    train, *others = parts_of(twenty(), [80, 10, 10], stratify=stratify)
    assert others == [val, test]
    assert train == set(range(20)) - val - test


def test_five_folds():
    assert parts_of(twenty(), [1] * 5) == [
        {2, 5, 9, 19}, {0, 6, 8, 13}, {1, 3, 10, 16}, {14, 15, 17, 18}, {4, 7, 11, 12},
    ]  # fmt: skip


@pytest.mark.parametrize("stratify", [True, False])
def test_groups(stratify):
    groups = [f"g{i // 4}" for i in range(20)]
    parts = parts_of(twenty(), [60, 20, 20], groups=groups, stratify=stratify)
    assert [{groups[i] for i in part} for part in parts] == [{"g1", "g3", "g4"}, {"g2"}, {"g0"}]


@pytest.mark.parametrize("share", [5, Fraction(1, 4), Fraction(29, 100)])
def test_sample(share):
    assert np.flatnonzero(choose_sample(twenty().images.name, share, "0")).tolist() == [2, 5, 11, 12, 17]


def test_a_small_percentage_takes_one_image():
    assert np.flatnonzero(choose_sample(twenty().images.name, Fraction(1, 1000), "0")).tolist() == [11]


def test_sizes_are_rounded_by_largest_remainder_and_ties_go_to_the_earlier_part():
    def sizes(n, ratios):
        parts = parts_of(data([set()] * n, 1), ratios, stratify=False)
        return [len(part) for part in parts]

    assert sizes(10, [1, 1, 1]) == [4, 3, 3]
    assert sizes(11, [1, 1, 1]) == [4, 4, 3]
    assert sizes(7, [80, 10, 10]) == [5, 1, 1]
    assert sizes(5, [1, 1]) == [3, 2]


# --------------------------------------------------------------------------------------- a slow reference


def slowly(classes_of, names, ratios, groups, seed, stratify):
    """Iterative stratification as it is described, one unit after the other."""
    units = sorted(set(groups), key=lambda g: hashlib.sha256(f"{seed}\0{g}".encode()).digest())
    members = {g: [i for i, other in enumerate(groups) if other == g] for g in units}
    holds = {
        g: Counter(c for i in members[g] for c in classes_of[i]) if stratify else Counter() for g in units
    }
    want = [Fraction(r * len(names), sum(ratios)) for r in ratios]
    total = sum(holds.values(), Counter())
    want_of = {c: [Fraction(r * n, sum(ratios)) for r in ratios] for c, n in total.items()}
    part = {}
    while len(part) < len(units):
        left = sum((holds[g] for g in units if g not in part), Counter())
        rarest = min(left, key=lambda c: (left[c], c), default=None)
        for g in units:
            if g in part or (rarest is not None and rarest not in holds[g]):
                continue
            key = want if rarest is None else want_of[rarest]
            s = max(range(len(ratios)), key=lambda s: (key[s], want[s], -s))
            part[g] = s
            want[s] -= len(members[g])
            for c, n in holds[g].items():
                want_of[c][s] -= n
    return [part[g] for g in groups]


contents = st.lists(st.sets(st.integers(0, 4), max_size=4), min_size=1, max_size=25)
ratio_lists = st.lists(st.integers(1, 90), min_size=2, max_size=5)
seeds = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)


@given(contents, ratio_lists, seeds, st.booleans(), st.none() | st.integers(1, 5))
def test_parts_are_those_of_the_reference(classes_of, ratios, seed, stratify, modulus):
    dataset = data(classes_of, 5)
    names = dataset.images.name
    groups = None if modulus is None else [f"g{i % modulus}" for i in range(len(names))]
    assume(stratify or groups is not None)  # else a cut by largest remainder, which the tests above show
    found = split_rows(dataset, ratios, seed=seed, groups=groups, stratify=stratify).tolist()
    assert found == slowly(classes_of, names, ratios, groups or names, seed, stratify)


# --------------------------------------------------------------------------------- what holds of any data


@given(contents, ratio_lists, seeds, st.booleans(), st.none() | st.integers(1, 5), st.randoms())
def test_the_same_images_go_to_the_same_parts_whatever_their_order(
    classes_of, ratios, seed, stratify, modulus, random
):
    """Every image is in one part, groups are whole, and the order of the source does not matter."""
    dataset = data(classes_of, 5)
    names = list(dataset.images.name)
    groups = None if modulus is None else [f"g{i % modulus}" for i in range(len(names))]
    rows = split_rows(dataset, ratios, seed=seed, groups=groups, stratify=stratify)
    assert rows.shape == (len(names),)
    assert set(rows.tolist()) <= set(range(len(ratios)))
    if groups:
        assert len(set(zip(groups, rows.tolist(), strict=True))) == len(set(groups))
    shuffled = list(range(len(names)))
    random.shuffle(shuffled)
    other = data([classes_of[i] for i in shuffled], 5, [names[i] for i in shuffled])
    theirs = groups and [groups[i] for i in shuffled]
    again = split_rows(other, ratios, seed=seed, groups=theirs, stratify=stratify)
    assert again.tolist() == rows[shuffled].tolist()


@given(st.integers(1, 60), ratio_lists, seeds)
def test_a_plain_split_has_the_sizes_that_were_asked_for(n, ratios, seed):
    rows = split_rows(data([set()] * n, 1), ratios, seed=seed, groups=None, stratify=False)
    for size, ratio in zip(np.bincount(rows, minlength=len(ratios)), ratios, strict=True):
        assert abs(size - n * ratio / sum(ratios)) < 1
    # Those with the largest remainders get one more, the earlier part of equals.
    exact = [Fraction(n * ratio, sum(ratios)) for ratio in ratios]
    by_remainder = sorted(range(len(ratios)), key=lambda s: (-(exact[s] % 1), s))
    n_more = n - sum(map(int, exact))
    sizes = [int(exact[s]) + (s in by_remainder[:n_more]) for s in range(len(ratios))]
    assert np.bincount(rows, minlength=len(ratios)).tolist() == sizes


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), ratio_lists, seeds)
def test_with_one_class_each_every_class_is_divided_as_asked(class_of, ratios, seed):
    """Then nothing stands in the way: no part is off by an image or more, in any class."""
    rows = split_rows(data([{c} for c in class_of], 4), ratios, seed=seed, groups=None, stratify=True)
    for c in range(4):
        mine = rows[np.array(class_of) == c]
        for size, ratio in zip(np.bincount(mine, minlength=len(ratios)), ratios, strict=True):
            assert abs(size - len(mine) * ratio / sum(ratios)) < len(ratios)
            if len(ratios) == 2:
                assert abs(size - len(mine) * ratio / sum(ratios)) < 1


@given(contents, seeds)
def test_the_folds_of_stratified_data_hold_a_class_each_where_they_can(classes_of, seed):
    """The rarest class is spread over as many folds as it has images."""
    rows = split_rows(data(classes_of, 5), [1, 1, 1], seed=seed, groups=None, stratify=True)
    counts = Counter(c for classes in classes_of for c in classes)
    if counts:
        rarest = min(counts, key=lambda c: (counts[c], c))
        there = {row for row, classes in zip(rows.tolist(), classes_of, strict=True) if rarest in classes}
        assert len(there) == min(3, counts[rarest])


@given(st.sets(st.text(max_size=6), min_size=1, max_size=30), st.text(max_size=6), seeds, st.integers(1, 30))
def test_more_images_do_not_change_the_order_of_the_others(names, more, seed, n):
    names = sorted(names - {more})
    before = [names[i] for i in sort_by_seed(names, seed)]
    after = [[*names, more][i] for i in sort_by_seed([*names, more], seed)]
    assert [name for name in after if name != more] == before
    small, large = choose_sample(names, n, seed), choose_sample(names, n + 1, seed)
    assert not (small & ~large).any()
    assert small.sum() == min(n, len(names))


def test_another_seed_is_another_order():
    names = twenty().images.name
    assert len({tuple(sort_by_seed(names, str(seed))) for seed in range(50)}) == 50


# ---------------------------------------------------------------------------------- the words of the user


def test_ratios():
    assert parse_ratios("train:80,val:10,test:10") == {"train": 80, "val": 10, "test": 10}
    assert parse_ratios(" train : 4 , val=1") == {"train": 4, "val": 1}
    assert parse_ratios({"train": 0.8, "val": 0.2}) == {"train": 4, "val": 1}
    assert parse_ratios("a:.5,b:.25,c:.25") == {"a": 2, "b": 1, "c": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train:80", "two parts"),
        ("", "two parts"),
        ("train:80,val", "'val' needs a number"),
        ("train:80,val:-1", "'val' needs a number"),
        ("train:80,val:nan", "'val' needs a number"),
        ("train:80,val:0", "'val' would get no images"),
        ("train:80,Train:20", "'Train' is named twice"),
        ("train:80,../x:20", "'../x' is not a name"),
        ("train:80,a/b:20", "'a/b' is not a name"),
        ("train:80,.x:20", "'.x' is not a name"),
        ("train:80,:20", "'' is not a name"),
        ("train:.8,val:.1", "add up to 0.9"),
        ("train:80,val:9999999999", "'val' needs a number"),
    ],
)
def test_bad_ratios(text, said):
    with pytest.raises(UsageError, match=f"split_into .*{said}"):
        parse_ratios(text)


@pytest.mark.parametrize("text", ["0", "0%", "101%", "x", "", "-1", "1.5", "1e3", "%", "nan%"])
def test_bad_samples(text):
    with pytest.raises(UsageError, match="sample"):
        parse_share(text)


@pytest.mark.parametrize(
    ("text", "share"), [("7", 7), (7, 7), ("10%", Fraction(1, 10)), ("0.5%", Fraction(1, 200))]
)
def test_shares(text, share):
    assert parse_share(text) == share


def test_groups_by_pattern_and_by_word(monkeypatch):
    dataset = data([set()] * 3, 1, ["seq1/000.jpg", "seq1/001.jpg", "seq2/000.jpg"])
    assert group_names(dataset, "^([^/]+)/", Log()) == ["seq1", "seq1", "seq2"]
    assert group_names(dataset, "(?P<a>[0-9])/(.*)", Log()) == ["1", "1", "2"]
    with pytest.raises(DataError, match=r"does not match 2 images: 'seq1/000.jpg', 'seq1/001.jpg'"):
        group_names(dataset, "seq(2)", Log())
    monkeypatch.setitem(GROUPINGS, "size", lambda d: [str(w) for w in d.images.width])
    assert group_names(dataset, "size", Log()) == ["0", "0", "0"]
    Selection(folds=2, group_by="size")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"folds": 1}, "folds 1"),
        ({"folds": 2, "split_into": "a:1,b:1"}, "not both"),
        ({"split_into": "a:1"}, "two parts"),
        ({"group_by": "(a)"}, "group_by needs"),
        ({"stratify": False}, "no_stratify needs"),
        ({"seed": 1}, "seed needs"),
        ({"folds": 2, "group_by": "a"}, "parentheses"),
        ({"folds": 2, "group_by": "(a"}, "not a regular expression"),
        ({"min_box": -1.0}, "min_box"),
        ({"min_area": float("nan")}, "min_area"),
        ({"min_box": float("inf")}, "min_box"),
        ({"sample": 0}, "sample"),
    ],
)
def test_selections_that_do_not_fit_together(given, said):
    with pytest.raises(UsageError, match=said):
        Selection(**given)


# ------------------------------------------------------------------------------------------- filters


def boxes_of(sides, **given):
    return Dataset.from_arrays(
        images=[f"{i}.jpg" for i in range(len(sides))],
        categories=["cat"],
        image=list(range(len(sides))),
        category=[0] * len(sides),
        ltwh=[(0, 0, w, h) for w, h in sides],
        **given,
    )


def selected(dataset, **given):
    ledger, log = Ledger("a", "b", read=len(dataset)), Log()
    result = select(Selection(**given), dataset, ledger, log)
    ledger.written = len(result)
    assert ledger.balances
    return result, ledger, log


def test_small_boxes_and_then_empty_images_are_left_out():
    dataset = boxes_of([(10, 3), (4, 4), (3.99, 50), (20, 20)])
    result, ledger, _ = selected(dataset, min_box=4)
    assert len(result) == 2
    assert len(result.images) == 4
    assert list(ledger.left_out.values()) == [2]
    result, ledger, _ = selected(dataset, min_box=4, min_area=17, drop_empty=True)
    assert result.images.name == ("3.jpg",)
    assert list(ledger.left_out.values()) == [2, 1]
    assert ledger.images_left_out == {"without boxes (drop_empty)": 3}
    assert not ledger.lossless


def test_the_area_is_the_one_of_the_source_where_it_gives_one():
    dataset = boxes_of([(10, 10), (10, 10), (10, 10), (4, 4)], area=[20, np.nan, -1, -1])
    assert len(selected(dataset)[0]) == 4
    result, _, _ = selected(dataset, min_area=50)
    assert result.boxes.image.tolist() == [1, 2]


def test_a_sample_keeps_the_order_and_books_its_boxes():
    dataset = twenty()
    result, ledger, _ = selected(dataset, sample=5)
    assert result.images.name == ("i02.jpg", "i05.jpg", "i11.jpg", "i12.jpg", "i17.jpg")
    assert sum(ledger.left_out.values()) == len(dataset) - len(result)
    assert ledger.images_left_out == {"not in the sample (sample)": 15}


def test_a_sample_of_more_than_there_is_says_so():
    result, _, log = selected(twenty(), sample=30)
    assert len(result.images) == 20
    assert "only 20 images" in log.notes[0]


def test_no_image_left_is_an_error():
    with pytest.raises(DataError, match="no image is left of 2: 2 without boxes"):
        selected(boxes_of([(1, 1), (2, 2)]), min_box=5, drop_empty=True)


def test_a_part_without_an_image_is_an_error():
    with pytest.raises(DataError, match="val, test would get no images; there are 20 images"):
        divide(Selection(split_into="train:98,val:1,test:1"), twenty(), Log())
    with pytest.raises(DataError, match="fold3 would get no images; there are 20 images in 2 groups"):
        divide(Selection(folds=3, group_by="^i(.)"), twenty(), Log())
    with pytest.raises(DataError, match="there are 10 images; no_stratify divides them by their number"):
        divide(Selection(split_into="train:80,val:20"), data([{c} for c in range(10)], 10), Log())


def test_a_class_that_a_part_lacks_is_a_warning():
    log = Log()
    divide(Selection(split_into="train:1,val:1"), data([{0}, {0, 1}, {0}], 3), log)
    (issue,) = log.issues
    assert (issue.code, issue.severity) == ("class-not-in-part", "warning")
    assert "no objects of 1 of the 2 classes: class1" in issue.message
