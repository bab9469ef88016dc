"""A class with too many detections to be ranked at once: cut by score, ranked in parts, put together again.

Precision is needed at true positives only. Of a ranked range the rows that matched something are therefore
kept, and each run of others becomes one row that stands for all of them. What remains of all ranges is about
as long as the ground truth, and is counted by the same code as a class that was never cut.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.matching.matches import OUTCOMES, Matches, matches_of_columns, outcomes
from odm.evaluate.matching.order import first_of_runs
from odm.evaluate.scores.protocols import AreaBits, Protocol
from odm.evaluate.scores.ranking import Weights, ranked_rows
from odm.evaluate.scores.shared_score import beside_confidences
from odm.tables import Floats, Longs

Columns = dict[str, NDArray[Any]]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """Where the ranking of a class is cut: before the detections of a score from an image on, and all lower.

    ``score`` and ``image`` are (ranges - 1,), in the order in which detections rank.
    """

    score: Floats
    image: Longs

    @classmethod
    def of(cls, score: Floats, weight: Floats, n_ranges: int, n_images: int) -> Cuts:
        """About equal ranges, by a sample of the scores and how many detections each stands for.

        A score that so many detections have that several cuts fall on it is cut by images too.
        """
        order = np.argsort(-score, kind="stable")
        so_far = np.cumsum(weight[order])
        wanted = so_far[-1] * np.arange(1, n_ranges) / n_ranges
        at = score[order][np.searchsorted(so_far, wanted)]
        scores, images = [np.zeros(0)], [np.zeros(0, np.int64)]
        for one, n in zip(*np.unique(-at, return_counts=True), strict=True):
            pieces = int(n) + 1 if n > 1 else 1
            scores.append(np.full(pieces, -one))
            images.append(np.arange(pieces) * n_images // pieces)
        return cls(np.concatenate(scores), np.concatenate(images))

    def __len__(self) -> int:
        """The number of ranges."""
        return len(self.score) + 1

    def range_of(self, score: Floats, image: NDArray[Any]) -> Longs:
        """(n,) the range of each detection, 0 the one with the highest scores."""
        first = np.searchsorted(-self.score, -score, side="left")
        after = np.searchsorted(-self.score, -score, side="right")
        found = first.astype(np.int64)
        for a, b in np.unique(np.stack([first, after])[:, first < after], axis=1).T.tolist():
            rows = np.flatnonzero((first == a) & (after == b))
            found[rows] += np.searchsorted(self.image[a:b], image[rows], side="right")
        return found


def condense(matches: Matches, at_score: float | None) -> Columns:
    """The ranked detections of one range of one class, runs of those that matched nothing being one row.

    A run ends where a position is read: where the score of a hit ends, or that of the range's first row,
    which the range before may share, at the given score, and at those that all classes are read at.
    """
    rules, order = matches.protocol, ranked_rows(matches)
    score, n = matches.score[order], len(order)
    hit_of_row = np.full(n, -1, np.int64)
    hit_of_row[matches.hit] = np.arange(len(matches.hit))
    hits = hit_of_row[order]
    is_hit = hits >= 0
    begins = is_hit.copy()
    begins[:1] = True
    begins[1:] |= is_hit[:-1]
    same = first_of_runs(score)
    if n:
        is_read = np.logical_or.reduceat(is_hit, same)
        is_read[0] = True
        begins[same[1:][is_read[:-1]]] = True
    if at_score is not None:
        begins[np.searchsorted(-score, -at_score, side="right") :][:1] = True
    if rules.shared_score:
        counted = np.flatnonzero(outcomes(matches)[0][order] != OUTCOMES.index("ignored"))
        beside = counted[beside_confidences(score[counted], at_score)]
        begins[beside[beside < n - 1] + 1] = True
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, n))
    at = np.flatnonzero(is_hit[starts])
    hits = hits[starts[at]]
    columns: Columns = {
        "score": score[starts + lengths - 1],
        "n": lengths,
        "hit": at,
        "positive": matches.positive[hits],
        "ignored": matches.ignored[hits],
        "hit_rank": matches.hit_rank[hits],
    }
    if matches.fp_if_unmatched is not None:
        bits = matches.fp_if_unmatched[order]
        columns["false"] = np.stack(
            [_sums(bits & AreaBits(1 << a) != 0, starts) for a in range(len(rules.areas))], axis=1
        )
    return columns


def _sums(is_fp: NDArray[np.bool_], starts: Longs) -> Longs:
    return np.add.reduceat(is_fp, starts, dtype=np.int64) if len(starts) else np.zeros(0, np.int64)


def put_together(
    ranges: list[Columns], rules: Protocol, classes: tuple[str, ...], npos: Longs, gt_ignored: Longs
) -> tuple[Matches, Weights]:
    """The condensed ranges of a class, the highest scores first, as matches, and what their rows stand for.

    `classes` holds its name, or nothing under a protocol that does not have it.
    """
    n_areas = len(rules.areas)
    false = None
    if any("false" in one for one in ranges):
        false = np.concatenate([_false(one, n_areas) for one in ranges])
    n = np.concatenate([one["n"] for one in ranges]).astype(np.int64, copy=False)
    none = np.zeros(0, np.int32)
    matches = matches_of_columns(
        ranges,
        rules,
        classes,
        npos,
        gt_ignored,
        category=np.zeros(len(n), np.int32),
        image=none,
        row=none,
        fp_if_unmatched=None,
        order=np.arange(len(n)),
    )
    return matches, Weights(n, false)


def _false(one: Columns, n_areas: int) -> NDArray[Any]:
    return one["false"] if "false" in one else np.repeat(one["n"][:, None], n_areas, axis=1)
