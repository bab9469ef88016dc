"""Match by image: whether anything was detected there (CorLoc), and with how many guesses (top-k errors)."""

from __future__ import annotations

import numpy as np

from odm.evaluate.matching.matches import Hits
from odm.evaluate.matching.order import argsort_int, best_of_each, first_of_runs, rank_in_runs
from odm.evaluate.matching.pairs import Pairs
from odm.evaluate.matching.sides import Joined, Mask
from odm.evaluate.scores.protocols import Protocol
from odm.tables import Ints, Longs, first_index_of


def find_best_hits(pairs: Pairs, protocol: Protocol, eligible: Mask) -> tuple[Ints, Ints]:
    """Return the eligible detections that reach the first IoU threshold, and each one's best ground truth.

    The best is that of the highest IoU; protocols that match by image have only one threshold. `eligible`
    is a mask (n,) of the detections; both results are positions, (hits,).
    """
    is_kept = (pairs.iou >= protocol.ious[0]) & eligible[pairs.det]
    det, gt, iou = pairs.det[is_kept], pairs.gt[is_kept], pairs.iou[is_kept]
    best = best_of_each(det, iou)
    return det[best], gt[best]


def match_guesses(joined: Joined, protocol: Protocol, pairs: Pairs, order: Longs) -> tuple[Hits, Mask, Longs]:
    """Match the best detections of every image with ground truth, whatever their class.

    The guesses of an image with ground truth are its `Protocol.max_dets` best detections of any class; they
    hit only ground truth of their own class. The first hit of an image and class is a true positive; further
    hits and the detections beyond the guesses are ignored.

    Returns the hits, (n,) which detections are guesses, and `Matches.guesses`: for each image with ground
    truth the rank of the first guess whose class it has, that of the first hit, and the number of the image.
    """
    # The guesses: row, image and rank of the best detections of each image, by image and rank.
    assert protocol.max_dets is not None
    detections, n_images = joined.detections, len(joined.images)
    has_truth = np.zeros(n_images, np.bool_)
    has_truth[joined.truth.image] = True
    rows = order[has_truth[detections.image[order]]]
    rows = rows[argsort_int(detections.image[rows], max(n_images, 1))]
    image = detections.image[rows]
    if detections.rank_in_image is None:
        rank = rank_in_runs(first_of_runs(image), len(rows))
    else:  # classes were left out, whose detections count among the guesses
        rank = detections.rank_in_image[rows]
    is_within = rank < protocol.max_dets
    rows, image, rank = rows[is_within], image[is_within], rank[is_within]

    # Which of them hit, and what.
    is_guess = np.zeros(len(detections), np.bool_)
    is_guess[rows] = True
    det, gt = find_best_hits(pairs, protocol, is_guess)
    best_gt = np.full(len(detections), -1, np.int32)
    best_gt[det] = gt
    is_hit = best_gt[rows] >= 0

    # first_ranks: (images, 3) the rank of the first guess whose class has ground truth on the image, that of
    # the first hit, and the number of the image. Images without such a guess have rank `max_dets`:
    # the -1 of `first_index_of` is the entry that is appended.
    first_ranks = np.empty((n_images, 3), np.int64)
    first_ranks[:, 2] = np.arange(n_images)
    class_is_present = pairs.rank[rows] >= 0  # -1 = its image has no ground truth of its class
    for column, is_selected in enumerate((class_is_present, is_hit)):
        first_ranks[:, column] = np.append(rank[is_selected], protocol.max_dets)[
            first_index_of(image[is_selected], n_images)
        ]

    # The first hit of each image and class is a true positive.
    det = rows[is_hit].astype(np.int32)
    class_keys = joined.keys_of(detections)[det]
    is_first_of_class = np.zeros(len(det), np.bool_)
    is_first_of_class[np.unique(class_keys, return_index=True)[1]] = True
    return Hits.of_one_bit(det, is_first_of_class, best_gt[det]), is_guess, first_ranks[has_truth]
