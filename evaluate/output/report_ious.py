"""Compute the data of the IoU slider of a report: outcomes, objects and AP at each IoU from 0.5 to 0.95.

Each position is what ``odm eval --iou`` gives: the detections are matched again. The kinds of false positives
are those of `odm.evaluate.analysis.errors` at that IoU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.evaluate.analysis.errors import DetectionTable, find_kinds, find_reasons
from odm.evaluate.analysis.outcome_table import TP, OutcomeTable
from odm.evaluate.matching.match import match_all
from odm.evaluate.matching.matches import OUTCOMES, REASONS, Matches, bits_of_area
from odm.evaluate.matching.pairs import Pairs
from odm.evaluate.matching.prepare import prepare
from odm.evaluate.matching.shapes import find_shape_pairs
from odm.evaluate.matching.sides import Joined
from odm.evaluate.scores.curves import PrecisionReader
from odm.evaluate.scores.protocols import Protocol
from odm.evaluate.scores.score_order import Ranked, group_rows_by_class, rank_rows
from odm.tables import Floats, Ints, Longs

IOUS = tuple(k / 100 for k in range(50, 100, 5))
"""The positions of the slider, beside the protocol's own threshold."""


def find_outcome_kinds(outcome: NDArray[np.uint8], reason: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return (n,) the kind of each detection, a number in `odm.evaluate.output.report_data.KINDS`."""
    # KINDS are the true positive, the reasons of false positives, and ignored.
    kind = np.where(outcome == OUTCOMES.index("FP"), 1 + reason, np.where(outcome == TP, 0, 1 + len(REASONS)))
    return kind.astype(np.int8)


class AtIou(msgspec.Struct, frozen=True, eq=False):
    """Outcomes of the detections of a `DetectionTable`, and of the ground truths, at one IoU."""

    iou: float
    kind: NDArray[np.int8]
    """(n,) number in `odm.evaluate.output.report_data.KINDS`."""
    found_by: Ints
    """(g,) row in the table of the true positive that each ground truth was matched with, -1 = none."""
    ap: Floats
    """(classes,) NaN where it is not defined."""


def evaluate_at_ious(joined: Joined, rules: Protocol, table: DetectionTable) -> Iterator[AtIou]:
    """Yield the outcomes at each of `IOUS` and at the protocol's IoU; nothing if classes count per image.

    `joined` are the two sides that `table` was made from, under the protocol `rules`.
    """
    if rules.size_threshold or rules.metric in ("corloc", "top-k"):  # where a class counts once per image
        return
    sides, _ = prepare(joined, rules)
    reference = rules.ious[rules.reference]
    ious = sorted({reference, *(iou for iou in IOUS if not math.isclose(iou, reference))})  # each once
    # Repeats are told by IoU; groups would be compared by the share of the detection inside (IoA).
    pair_rules = replace(rules.without_groups, ious=tuple(ious))
    pairs = find_shape_pairs(sides, pair_rules, ious[0])  # from the lowest threshold on
    # Of each row of the table, which is in input order, its position in `sides`, and the other way round.
    side_rows = np.argsort(sides.detections.row)
    table_rows = np.empty_like(side_rows)
    table_rows[side_rows] = np.arange(len(side_rows))
    protocols = [replace(rules, ious=(iou,), areas=rules.areas[:1]) for iou in ious]
    ranking: tuple[Longs, Longs] | None = None
    for matches in match_all(joined, protocols):
        if ranking is None:  # which is that of every threshold
            ranking = group_rows_by_class(matches, rank_rows(matches))
        yield _make_at_iou(joined, table, matches, pairs, side_rows, table_rows, ranking)


def _make_at_iou(
    joined: Joined,
    table: DetectionTable,
    matches: Matches,
    pairs: Pairs,
    side_rows: Longs,
    table_rows: Longs,
    ranking: tuple[Longs, Longs],
) -> AtIou:
    """Return the outcomes under the matches of one IoU.

    `side_rows` (n,) are the detections of `table` as positions in the prepared side, `table_rows` (n,) the
    inverse permutation. `pairs` are all overlapping boxes of one class. `ranking` is that of
    `group_rows_by_class`.
    """
    outcomes = OutcomeTable.of(joined, matches)
    outcome, gt = outcomes.outcome[side_rows], outcomes.gt[side_rows]
    found_by = np.full(len(outcomes.truth), -1, np.int32)
    hits = np.flatnonzero((outcome == TP) & (gt >= 0))
    found_by[gt[hits]] = hits
    threshold = outcomes.threshold
    # Whether a detection overlaps an object of its class that another detection found.
    overlaps_found = np.zeros(len(side_rows), np.bool_)
    for chunk in pairs.pieces():
        is_repeat = (chunk.iou >= threshold) & outcomes.counting[chunk.gt] & (found_by[chunk.gt] >= 0)
        overlaps_found[table_rows[chunk.det[is_repeat]]] = True
    same_iou, other_iou = table.counting_ious
    reason = find_reasons(find_kinds(threshold, table.has_truth, same_iou, other_iou, overlaps_found))
    return AtIou(threshold, find_outcome_kinds(outcome, reason), found_by, _compute_ap(matches, *ranking))


def _compute_ap(matches: Matches, rows: Longs, counts: Longs) -> Floats:
    """Return (classes,) the AP of each class at the only IoU of `matches`; NaN if the protocol has no AP.

    `rows` and `counts` are the ranking that `group_rows_by_class` returns.
    """
    ap = np.full(len(matches.classes), np.nan)
    rules = matches.protocol
    if rules.metric != "ap":
        return ap
    # The place of the only IoU threshold in the bits of a hit: the number of a word, and its bit there.
    ((word, bit),) = bits_of_area(rules)
    for ranked in Ranked.iter_blocks(matches, rows, counts):
        class_slice = slice(ranked.first_class, ranked.first_class + ranked.n_classes)
        counted = ranked.count(word, bit, ranked.count_unmatched(area=0))
        ap[class_slice] = PrecisionReader(rules, matches.npos[class_slice, 0]).average(counted)
    return ap
