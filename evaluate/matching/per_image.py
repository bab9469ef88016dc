"""Protocols that ask of an image whether something was found on it: CorLoc and top-k errors."""

from __future__ import annotations

import numpy as np

from odm.evaluate.matching.matches import Hits, Outcome
from odm.evaluate.matching.order import argsort_int, best_of_each, first_of_runs, rank_in_runs
from odm.evaluate.matching.pairs import Pairs
from odm.evaluate.matching.sides import Joined, Mask
from odm.evaluate.scores.protocols import AreaBits, Protocol
from odm.tables import Ints, Longs, distinct


def _images_per_class(joined: Joined) -> Longs:
    """(classes,) how many images have ground truth of each class."""
    keys = distinct(joined.keys_of(joined.truth))
    per_class: Longs = np.bincount(keys % max(len(joined.classes), 1), minlength=len(joined.classes))
    return per_class


def _best_hits(pairs: Pairs, protocol: Protocol, eligible: Mask) -> tuple[Ints, Ints]:
    """The eligible detections that reach the threshold with any ground truth, and their best one."""
    keep = (pairs.iou >= protocol.ious[0]) & eligible[pairs.det]
    det, gt, iou = pairs.det[keep], pairs.gt[keep], pairs.iou[keep]
    best = best_of_each(det, iou)
    return det[best], gt[best]


def _outcome(joined: Joined, hits: Hits, may_be_fp: Mask, guesses: Longs) -> Outcome:
    """A class counts once per image, and what is no candidate is ignored."""
    none_ignored = np.zeros(len(joined.classes), np.int64)
    return Outcome(
        hits, may_be_fp.astype(AreaBits), _images_per_class(joined)[:, None], none_ignored, guesses
    )


def match_top_detections(joined: Joined, protocol: Protocol, pairs: Pairs) -> Outcome:
    """The best detection of every image and class that has ground truth; all others are ignored."""
    top = pairs.rank == 0
    det, gt = _best_hits(pairs, protocol, top)
    hits = Hits.of_one_bit(det, np.ones(len(det), np.bool_), gt)
    return _outcome(joined, hits, top, np.zeros((0, 2), np.int64))


def match_guesses(joined: Joined, protocol: Protocol, pairs: Pairs, order: Longs) -> Outcome:
    """The best detections of every image with ground truth, whatever their class.

    The first hit of an image and class is a true positive, further ones are ignored, as are the detections
    beyond the guesses.
    """
    assert protocol.max_dets is not None
    detections, n_images = joined.detections, len(joined.images)
    asked = np.zeros(n_images, np.bool_)
    asked[joined.truth.image] = True
    rows = order[asked[detections.image[order]]]
    rows = rows[argsort_int(detections.image[rows], max(n_images, 1))]
    image = detections.image[rows]
    if detections.rank_in_image is None:
        rank = rank_in_runs(first_of_runs(image), len(rows))
    else:
        rank = detections.rank_in_image[rows]
    within = rank < protocol.max_dets
    rows, image, rank = rows[within], image[within], rank[within]

    guess = np.zeros(len(detections), np.bool_)
    guess[rows] = True
    det, gt = _best_hits(pairs, protocol, guess)
    best_gt = np.full(len(detections), -1, np.int32)
    best_gt[det] = gt
    hits = best_gt[rows] >= 0
    # The rank of the first guess with the right class, and of the first hit.
    first = np.full((n_images, 2), protocol.max_dets, np.int64)
    for column, good in enumerate((pairs.rank[rows] >= 0, hits)):
        first[image[good][::-1], column] = rank[good][::-1]
    det = rows[hits].astype(np.int32)
    key = joined.keys_of(detections)[det]
    takes = np.zeros(len(det), np.bool_)
    takes[np.unique(key, return_index=True)[1]] = True
    return _outcome(joined, Hits.of_one_bit(det, takes, best_gt[det]), guess, first[asked])
