"""The pairs of crowded images are those that comparing everything with everything finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from selection import examples

from odm.evaluate import join
from odm.evaluate.matching import pairs
from odm.evaluate.matching.pairs import find_pairs
from odm.evaluate.scores.protocols import PROTOCOLS
from odm.tables import Dataset, Flag

edges = st.integers(0, 30)
sizes = st.sampled_from([0, 1, 2, 3, 12])
boxes = st.lists(st.tuples(st.integers(0, 1), edges, edges, sizes, sizes, st.integers(0, 3)), max_size=40)


def sides(truth, found):
    def table(rows, **columns):
        numbers = np.array([row[1:5] for row in rows], np.float64).reshape(-1, 4)
        return Dataset.from_arrays(
            images=["a", "b"], categories=["c"], image=[row[0] for row in rows], category=[0] * len(rows),
            ltwh=numbers, **columns,
        )  # fmt: skip

    flags = [Flag.GROUP_OF if row[5] == 0 else 0 for row in truth]
    return join(table(truth, flags=flags), table(found, score=[row[5] / 4 for row in found]))


def columns(found):
    """Detection, ground truth, IoU and cover of all pairs."""
    pieces = list(found.pieces())
    names = ["det", "gt", "iou"] + ["ioa"] * (found.ioa is not None)
    return {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in names}


def ordered(found, joined):
    """The columns by image and place of the detection, then ground truth."""
    of = columns(found)
    det = of["det"]
    order = np.lexsort((of["gt"], found.rank[det], joined.detections.image[det]))
    return {name: column[order] for name, column in of.items()}


@settings(deadline=None, max_examples=examples(300))
@given(
    boxes, boxes, st.sampled_from([1e-9, 0.1, 0.5]), st.sampled_from([1, 5, 40]), st.sampled_from([1, 30, 100, 10**6]),
    st.sampled_from(["voc2012", "openimages", "imagenet-det", "ultralytics", "yolov5"]), st.booleans(),
)  # fmt: skip
def test_large_groups_have_the_same_pairs(truth, found, floor, chunk, at_a_time, name, best_only):
    joined = sides(truth, found)
    protocol = PROTOCOLS[name]
    plain = find_pairs(joined, protocol, floor, best_only=best_only)
    assert not plain.large
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "LARGE", 0)
        patch.setattr(pairs, "CHUNK", chunk)
        patch.setattr(pairs, "AT_A_TIME", at_a_time)
        large = find_pairs(joined, protocol, floor, best_only=best_only)
        got = columns(large) if best_only else ordered(large, joined)
    want = columns(plain) if best_only else ordered(plain, joined)
    assert np.array_equal(plain.rank, large.rank)
    assert len(got["det"]) == len(want["det"])
    for key, column in want.items():
        if len(column):
            assert np.array_equal(got[key], column), key


@pytest.mark.parametrize("seed", range(20))
def test_boxes_on_several_sides_of_a_cut_are_one_pair(monkeypatch, seed):
    """Enough boxes for the plane to be cut many times, few enough pairs for all at once."""
    rng = np.random.default_rng(seed)
    rows = [(0, *rng.integers(0, 100, 2), *rng.choice([1, 3, 10, 60], 2), i % 4) for i in range(120)]
    joined = sides(rows[:60], rows[60:])
    plain = columns(find_pairs(joined, PROTOCOLS["imagenet-det"], 1e-9))
    for name, value in (("LARGE", 0), ("CHUNK", 10), ("AT_A_TIME", len(plain["det"]))):
        monkeypatch.setattr(pairs, name, value)
    cut = columns(find_pairs(joined, PROTOCOLS["imagenet-det"], 1e-9))
    assert all(np.array_equal(cut[name], column) for name, column in plain.items())


def test_pairs_of_some_detections_and_a_higher_floor(monkeypatch):
    rng = np.random.default_rng(1)
    rows = [(0, *rng.integers(0, 12, 2), 6, 6, i % 4) for i in range(60)]
    joined = sides(rows, rows[::-1])
    whole = find_pairs(joined, PROTOCOLS["openimages"], 0.1)
    monkeypatch.setattr(pairs, "LARGE", 0)
    large = find_pairs(joined, PROTOCOLS["openimages"], 0.1)
    assert large.large
    some = np.arange(60) % 3 > 0
    for one, other in (
        (whole.above(0.4), large.above(0.4)),
        (whole.of_detections(some), large.of_detections(some)),
    ):
        want, got = ordered(one, joined), ordered(replace(other, rank=whole.rank), joined)
        assert all(np.array_equal(got[key], column) for key, column in want.items())
