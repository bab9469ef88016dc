"""The outcome of every detection, in tables that can be concatenated.

All combinations of IoU threshold and area range are held at once, a bit each. 64 of them make a word, one
number per detection; COCO's 10 thresholds and 4 area ranges fit into one. A hit is a detection that matched
something under any of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.evaluate.matching.sides import Mask
from odm.evaluate.scores.protocols import Protocol
from odm.evaluate.scores.set_ups import AreaBits
from odm.tables import Floats, Ints, Longs

Words = NDArray[np.uint64]

OUTCOMES = ("TP", "FP", "ignored")
"""What can become of a detection."""
REASONS = ("localisation", "class", "duplicate", "background", "both")
"""Why a detection is a false positive."""

OVER = "over the limit of "
"""How `Matches.dropped` begins to name detections that are too many."""

TRUTHS = "ground truths "
"""How `Matches.dropped` begins to name what is dropped that is not a detection."""


class Matches(msgspec.Struct, frozen=True, eq=False):
    """The outcome of every detection under one protocol; tables of shards can be concatenated.

    The first four columns have a row per detection. ``hit`` names the rows that matched something; bit
    ``area * len(block) + iou - block.start`` of the word of each `word_blocks` says under which threshold
    and area range.
    """

    protocol: Protocol
    classes: tuple[str, ...]
    category: Ints
    score: Floats
    image: Ints
    row: Ints
    """Row in the detections' dataset."""
    fp_if_unmatched: NDArray[AreaBits] | None
    """Bit per area range: a detection that matches nothing is a false positive. None = all are."""
    hit: Longs
    positive: Words
    """(hits, words): true positive."""
    ignored: Words
    """(hits, words): matched to what counts as nothing."""
    hit_rank: Ints
    """Rank of the hit among the detections of its image and class."""
    hit_gt: Ints
    """Row in the ground truth's dataset that was matched at the protocol's reference IoU, -1 = none."""
    npos: Longs
    """(classes, areas) ground truths that count."""
    gt_ignored: Longs
    """(classes,) ground truths that do not."""
    guesses: Longs
    """``top-k``: (images with ground truth, 3) the rank of the first guess whose class the image has, that of
    the first hit (both `max_dets` if there is none), and the number of the image."""
    dropped: tuple[tuple[str, int], ...]
    """For each filter before the matching (what it drops, how many), which may be 0."""
    frequency: tuple[str, ...] = ()
    """How frequent each class is, empty where that is not known; of protocols that ask for it."""
    order: Longs | None = None
    """Rows by descending score, ties as they rank, where that is known."""
    n_images: int = 0
    """How many images were evaluated."""
    jaccard: Floats | None = None
    """(images, limits) the Jaccard index of each image, NaN where it has none."""
    curves: Floats | None = None
    """(2, areas, classes, limits) precision and similarity of ``truth``, see `TruthMatches`."""
    class_images: Longs | None = None
    """(classes,) on how many images each class has ground truth, of protocols where that is its weight."""
    score_range: tuple[float, float] = (math.inf, -math.inf)
    """The lowest and the highest score of all detections, before any was dropped."""


def concatenate(parts: Sequence[Matches]) -> Matches:
    """Concatenate the matches of disjoint sets of images.

    Raises
    ------
    ValueError
        If there are none, or they are of different protocols or classes.

    Examples
    --------
    >>> from odm.evaluate import join, match, resolve
    >>> from odm.tables import Dataset
    >>> same = {"images": ["a.jpg"], "categories": ["person"], "image": [0], "category": [0]}
    >>> truth = Dataset.from_arrays(**same, ltwh=[[10, 10, 20, 20]])
    >>> detections = Dataset.from_arrays(**same, ltwh=[[12, 10, 20, 20]], score=[0.9])
    >>> joined, (rules,) = join(truth, detections), resolve("voc2012")
    >>> parts = [match(joined.shard([image]), rules) for image in range(len(joined.images))]
    >>> concatenate(parts).npos.tolist()
    [[1]]
    """
    if not parts:
        raise ValueError("nothing to concatenate")
    first_table = parts[0]
    if any(p.protocol != first_table.protocol or p.classes != first_table.classes for p in parts):
        raise ValueError("matches of different protocols or classes cannot be concatenated")

    dropped: dict[str, int] = {}
    for p in parts:
        for reason, n in p.dropped:
            dropped[reason] = dropped.get(reason, 0) + n
    image_counts = [p.class_images for p in parts if p.class_images is not None]
    ratios = [p.jaccard for p in parts if p.jaccard is not None]
    columns = [{name: getattr(p, name) for name in _COLUMNS if getattr(p, name) is not None} for p in parts]
    return replace_rows(
        first_table,
        columns,
        npos=np.sum([p.npos for p in parts], axis=0),
        n_images=max(p.n_images for p in parts),  # every shard counts the images of all
        gt_ignored=np.sum([p.gt_ignored for p in parts], axis=0),
        guesses=np.concatenate([p.guesses for p in parts]),
        dropped=tuple(dropped.items()),
        jaccard=np.fmax.reduce(ratios) if ratios else None,  # NaN in the shards without the image
        class_images=np.sum(image_counts, axis=0) if image_counts else None,
        score_range=(min(p.score_range[0] for p in parts), max(p.score_range[1] for p in parts)),
    )


_PER_DETECTION = ("category", "score", "image", "row", "fp_if_unmatched")
_COLUMNS = (*_PER_DETECTION, "hit", "positive", "ignored", "hit_rank", "hit_gt")


def replace_rows(totals: Matches, tables: Sequence[Mapping[str, NDArray[Any]]], **fields: Any) -> Matches:
    """Return `totals` with the detections of `tables` instead of its own.

    A table maps names of columns of `Matches` to arrays; the tables are concatenated. ``hit`` counts the
    rows of its table alone. If no table has ``row``, rows are numbered from 0. A table without hits has
    false positives only. `fields` replace further fields of `Matches`.
    """
    n_rows = [len(table.get("score", ())) for table in tables]
    n_hits = [len(table.get("hit", ())) for table in tables]

    def column(name: str, kind: Any, absent: int = 0) -> NDArray[Any]:
        """Concatenate a column of all tables, filled with `absent` for tables that lack it."""
        lengths = n_rows if name in _PER_DETECTION else n_hits
        shape = totals.positive.shape[1:] if name in ("positive", "ignored") else ()
        pieces = [
            t.get(name, np.full((n, *shape), absent, kind)) for t, n in zip(tables, lengths, strict=True)
        ]
        return np.concatenate(pieces).astype(kind, copy=False)

    fp_if_unmatched = None
    if any("fp_if_unmatched" in table for table in tables):
        # Without the column all area ranges count a false positive: all bits are set.
        fp_if_unmatched = column("fp_if_unmatched", AreaBits, 2 ** len(totals.protocol.areas) - 1)
    in_tables = any("row" in table for table in tables)
    columns = {
        "category": column("category", np.int32),
        "score": column("score", np.float64),
        "image": column("image", np.int32),
        "row": column("row", np.int32) if in_tables else np.arange(sum(n_rows), dtype=np.int32),
        "fp_if_unmatched": fp_if_unmatched,
        "hit": column("hit", np.int64) + np.repeat(np.cumsum(n_rows) - n_rows, n_hits),
        "positive": column("positive", np.uint64),
        "ignored": column("ignored", np.uint64),
        "hit_rank": column("hit_rank", np.int32),
        "hit_gt": column("hit_gt", np.int32, -1),
    }
    return replace(totals, **{"order": None, **columns, **fields})


# Layout of the only word of `coco` (10 thresholds x 4 area ranges = 40 bits), bit = area * 10 + threshold:
#   39...30 large | 29...20 medium | 19...10 small | 9...0 all      bit 0 = IoU .50, bit 9 = IoU .95
# So `word & bit` asks for one combination, and `free & reaches & ~nothing` answers all 40 at once.


def word_blocks(protocol: Protocol) -> list[range]:
    """Return, for each word of a protocol's matches, the range of IoU thresholds that it holds."""
    per_word = max(1, 64 // len(protocol.areas))
    n = len(protocol.ious)
    return [range(i, min(i + per_word, n)) for i in range(0, n, per_word)]


def threshold_bits(block: range, n_areas: int, *ious: int) -> np.uint64:
    """Return the bits of the thresholds `ious` (numbers, in `block`) of a word, in all area ranges."""
    # block 0..9, 2 area ranges, ious 0 and 3: 0b1001 | 0b1001 << 10
    bits_of_one_area = sum(1 << (t - block.start) for t in ious)
    return np.uint64(sum(bits_of_one_area << (a * len(block)) for a in range(n_areas)))


def bits_of_area(protocol: Protocol, area: int = 0) -> list[tuple[int, np.uint64]]:
    """Return (word, bit) of each IoU threshold in the area range with the number `area`."""
    return [
        (w, np.uint64(1 << (t - block.start + area * len(block))))
        for w, block in enumerate(word_blocks(protocol))
        for t in block
    ]


def find_outcomes(matches: Matches) -> tuple[NDArray[np.uint8], Ints]:
    """Return (n,) the outcome of each detection at the reference threshold and its (n,) matched ground truth.

    Outcomes are positions in `OUTCOMES`, ground truths rows of their dataset, -1 = none.
    """
    word_index, bit = bits_of_area(matches.protocol)[matches.protocol.reference]
    outcome = np.full(len(matches.score), OUTCOMES.index("FP"), np.uint8)
    if matches.fp_if_unmatched is not None:  # bit 0 is the first area range
        outcome[(matches.fp_if_unmatched & np.uint8(1)) == 0] = OUTCOMES.index("ignored")
    for words, outcome_name in ((matches.ignored, "ignored"), (matches.positive, "TP")):
        outcome[matches.hit[(words[:, word_index] & bit) != 0]] = OUTCOMES.index(outcome_name)
    gt = np.full(len(matches.score), -1, np.int32)
    gt[matches.hit] = matches.hit_gt
    return outcome, gt


class Hits(msgspec.Struct, frozen=True, eq=False):
    """The detections that matched something: bits as in `Matches`; ``gt`` are positions in `Joined.truth`."""

    det: Ints
    positive: Words
    ignored: Words
    gt: Ints

    @classmethod
    def unmatched(cls, det: Ints, n_words: int) -> Hits:
        """Make a table of the detections `det`, (n,), that have matched nothing yet."""
        positive = np.zeros((len(det), n_words), np.uint64)
        return cls(det, positive, np.zeros_like(positive), np.full(len(det), -1, np.int32))

    @classmethod
    def of_one_bit(cls, det: Ints, positive: Mask, gt: Ints) -> Hits:
        """Make a table of hits (n,) under one threshold and area range: true if `positive`, else ignored."""
        words = positive.astype(np.uint64)[:, None]
        return cls(det, words, 1 - words, gt)

    def take(self, rows: NDArray[Any]) -> Hits:
        """Return the hits at `rows`."""
        return Hits(self.det[rows], self.positive[rows], self.ignored[rows], self.gt[rows])


def join_hits(hits: Sequence[Hits]) -> Hits:
    """Concatenate tables of hits."""
    return Hits(*(np.concatenate([getattr(h, name) for h in hits]) for name in Hits.__struct_fields__))
