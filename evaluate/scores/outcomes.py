"""What became of a detection: its outcome, and the kinds of false positives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odm.evaluate.matching.matches import Matches, threshold_bits, word_blocks
from odm.tables import Ints

OUTCOMES = ("TP", "FP", "ignored")

REASONS = ("localisation", "class", "duplicate", "background", "both")


def outcomes(matches: Matches) -> tuple[NDArray[np.uint8], Ints]:
    """(n,) the outcome at the reference threshold and the matched ground truth of every row."""
    rules = matches.protocol
    blocks = word_blocks(rules)
    w = next(i for i, block in enumerate(blocks) if rules.reference in block)
    bit = threshold_bits(blocks[w], 1, rules.reference)
    outcome = np.full(len(matches.score), OUTCOMES.index("FP"), np.uint8)
    if matches.fp_if_unmatched is not None:
        outcome[matches.fp_if_unmatched & np.uint8(1) == 0] = OUTCOMES.index("ignored")
    for words, what in ((matches.ignored, "ignored"), (matches.positive, "TP")):
        outcome[matches.hit[words[:, w] & bit != 0]] = OUTCOMES.index(what)
    gt = np.full(len(matches.score), -1, np.int32)
    gt[matches.hit] = matches.hit_gt
    return outcome, gt
