"""A class that is cut into ranges of scores is counted as if it were whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from selection import examples

from odm.evaluate.matching.matches import Matches, word_blocks
from odm.evaluate.parts.tasks import Cuts, condense, join_ranges
from odm.evaluate.scores.accumulate import count_classes
from odm.evaluate.scores.protocol_overrides import resolve


def random_matches(rng, rules, *, n, share, digits, alike, exempt):
    """The matches of one class, of which a `share` matched something."""
    image = np.sort(rng.integers(0, 30, n)).astype(np.int32)
    hit = np.flatnonzero(rng.random(n) < share)
    shape, top = (len(hit), len(word_blocks(rules))), 2**63
    words = rng.integers(0, top, shape, dtype=np.uint64) | rng.integers(0, top, shape, dtype=np.uint64)
    which = rng.integers(0, top, shape, dtype=np.uint64)
    return Matches(
        protocol=rules,
        classes=("a",),
        category=np.zeros(n, np.int32),
        score=np.where(rng.random(n) < alike, 0.5, np.round(rng.random(n), digits)),
        image=image,
        row=np.arange(n, dtype=np.int32),
        fp_if_unmatched=rng.integers(0, 2 ** len(rules.areas), n).astype(np.uint8) if exempt else None,
        hit=hit,
        positive=words & which,
        ignored=words & ~which,
        hit_rank=rng.integers(0, 12, len(hit)).astype(np.int32),
        hit_gt=np.full(len(hit), -1, np.int32),
        npos=np.full((1, len(rules.areas)), len(hit) + 1),
        gt_ignored=np.zeros(1, np.int64),
        guesses=np.zeros((0, 3), np.int64),
        dropped=(),
    )


def some_rows(matches, rows):
    """The detections of one range."""
    number = np.full(len(matches.score), -1)
    number[rows] = np.arange(len(rows))
    hits = np.flatnonzero(number[matches.hit] >= 0)
    columns = {name: getattr(matches, name)[rows] for name in ("category", "score", "image", "row")}
    if matches.fp_if_unmatched is not None:
        columns["fp_if_unmatched"] = matches.fp_if_unmatched[rows]
    columns |= {name: getattr(matches, name)[hits] for name in ("positive", "ignored", "hit_rank", "hit_gt")}
    return replace(matches, **columns, hit=number[matches.hit[hits]])


@settings(max_examples=examples(160))
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["coco", "voc2012", "ultralytics"]),
    st.sampled_from([0.0, 0.01, 0.1, 0.6]),
    st.sampled_from([0, 1, 2, 9]),
    st.sampled_from([0.0, 0.6]),
    st.booleans(),
    st.sampled_from([None, 0.5, 0.7]),
)
def test_ranges_are_counted_as_the_whole(seed, protocol, share, digits, alike, exempt, at_score):
    rng = np.random.default_rng(seed)
    (rules,) = resolve(protocol)
    matches = random_matches(
        rng, rules, n=int(rng.integers(1, 400)), share=share, digits=digits, alike=alike, exempt=exempt
    )
    sample = rng.integers(0, len(matches.score), 50)
    cuts = Cuts.from_scores(matches.score[sample], np.ones(50), int(rng.integers(2, 9)), 30)
    own = cuts.find_ranges(matches.score, matches.image)
    ranges = [condense(some_rows(matches, np.flatnonzero(own == r)), at_score) for r in range(len(cuts))]
    together, weights = join_ranges(ranges, matches)
    counted, expected = count_classes(together, at_score, weights), count_classes(matches, at_score)
    for name in ("ap", "recall", "det", "tp", "fp", "at_confidences"):
        np.testing.assert_array_equal(getattr(counted, name), getattr(expected, name), err_msg=name)
    assert repr(counted.points) == repr(expected.points)
    for name, curve in expected.curves.items():
        for column in ("recall", "precision", "score"):
            np.testing.assert_array_equal(getattr(counted.curves[name], column), getattr(curve, column))
    read = 4 * 1000 if rules.shared_score and at_score is None else 0
    assert len(together.score) <= 3 * len(matches.hit) + 9 * len(cuts) + read


@pytest.mark.parametrize("digits", [0, 1, 9])
def test_ranges_are_about_equal_even_where_many_scores_are(digits):
    rng = np.random.default_rng(0)
    score, image = np.round(rng.random(20_000), digits), rng.integers(0, 500, 20_000)
    cuts = Cuts.from_scores(score[::7], np.full(len(score[::7]), 7.0), 25, 500)
    own = cuts.find_ranges(score, image)
    assert np.bincount(own).max() < 2 * len(score) / 25
    rank = np.lexsort((image, -score))
    assert (np.diff(own[rank]) >= 0).all(), "a range ranks above the next"
