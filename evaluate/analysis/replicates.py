"""Compute metrics as if each image occurred w times; `bootstrap` calls it with random weights.

Nothing is matched or sorted again. Every true positive, false positive and ground truth counts as often as
its image, in the fixed ranking; that equals the evaluation of a dataset with copies of the images (copies
of equally scored boxes of one image stand next to each other). Weights of a bootstrap replicate are the
times that each image was drawn, weights of 0 and 1 choose a part of the images, and weights of one give the
estimate itself, up to rounding (about 1e-13, see `_Curves`).
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.evaluate.analysis.replicate_keys import list_class_keys, list_keys, select_quantities
from odm.evaluate.analysis.table import Table, find_fp_if_unmatched, find_hits
from odm.evaluate.matching.jaccard import jaccard_index
from odm.evaluate.matching.order import first_of_runs
from odm.evaluate.matching.sides import Mask
from odm.evaluate.scores.accumulate import lower_keys, miss_keys
from odm.evaluate.scores.curves import compute_areas_between, compute_miss_rates, share
from odm.evaluate.scores.protocols import recall_points
from odm.evaluate.scores.set_ups import AreaBits
from odm.issues import UsageError
from odm.tables import Floats, Longs

BUFFERS = 4
"""Arrays that are reused for each weighting, as new ones take as long as what is computed in them."""

BLOCK = 16
"""Values whose running maximum is taken at once."""

TINY = 1e-300
"""Added to a number of detections: 0 of 0 are 0, and all other quotients are the same."""


class Replicates(msgspec.Struct, frozen=True, eq=False):
    """The metrics of several weightings of the images."""

    summary: dict[str, Floats]
    """(weightings,) by key; NaN where it is undefined."""
    class_ap: dict[str, Floats]
    """(weightings, classes) the AP of each class, by key of `list_class_keys`; NaN where it is undefined."""


class Plan:
    """A table prepared for any number of weightings.

    Parameters
    ----------
    table
        Of all images.
    areas
        Whether the numbers of the area ranges are computed too, which takes two to three times as long.
    """

    def __init__(self, table: Table, *, areas: bool = False) -> None:
        self.table, self.rules = table, table.rules
        rules = self.rules
        if rules.reading == "limits":
            raise UsageError(
                f"{rules.name} measures precision at scores that depend on all images, so that its numbers "
                "have no intervals; use another protocol for these, as voc2012"
            )
        self.n_images, self.n_classes = len(table.images), len(table.classes)
        # The area ranges that are computed, as positions in `rules.areas`.
        self.areas = list(range(len(rules.areas))) if areas and rules.metric == "ap" else [0]
        self.pooled = rules.metric == "pooled"
        self.lower_keys = lower_keys(rules)
        self.curves: list[_Curves] = []
        if rules.metric in ("ap", "pooled"):
            self.ranking = _Ranking(table, pooled=self.pooled)
            self.curves = [
                _Curves(self.ranking, table, area, t) for area in self.areas for t in range(len(rules.ious))
            ]
        # Sums by image, to be weighted: ground truths by area range, true positives, and images by class.
        self.npos = [self._sum_truths(area) for area in self.areas]
        self.recalls = self._sum_recalls()
        self.presence = self._sum_presence() if rules.by_images or rules.detected_only else None

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the summary."""
        return list_keys(self.rules, self.areas)

    def count_images_by_class(self, images: Longs | None = None) -> Longs:
        """(classes,) how many images, of those with the numbers `images`, hold ground truth of each class."""
        truth = self.table.truth
        rows = np.flatnonzero(self.table.counting)
        if images is not None:
            rows = rows[np.isin(truth.image[rows], images)]
        key = np.unique(truth.category[rows].astype(np.int64) * self.n_images + truth.image[rows])
        return np.bincount(key // max(self.n_images, 1), minlength=self.n_classes)

    def count_images_behind(self, images: Longs | None = None) -> float:
        """Count the images that a number of the summary rests on; for a mean over classes, the harmonic mean
        per class.
        """
        if self.rules.metric == "ap":
            n_images = self.count_images_by_class(images)
            n_images = n_images[n_images > 0]
            # The harmonic mean, as classes on few images are the most uncertain.
            return len(n_images) / float((1 / n_images).sum()) if len(n_images) else 0.0
        return float(len(self.table.evaluated if images is None else images))

    def estimate_least_error(self, images: Longs | None = None) -> float:
        """Return the least standard error of a number of the summary.

        A class that is perfect on its n images may fail on the next: the share of n + 1 of n + 2 images has a
        standard error of about 1 / (n + 2).
        """
        n = np.array([self.count_images_behind(images)])
        if self.rules.metric == "ap":
            n = self.count_images_by_class(images).astype(np.float64)
            n = n[n > 0]
        # Of a mean over k classes: the root of the sum of their squared errors, over k.
        return float(np.sqrt((1 / (n + 2) ** 2).sum()) / max(len(n), 1))

    def _sum_truths(self, area: int) -> _Sums:
        """Sum the ground truths of each class by image that count in the area range of the number `area`."""
        truth = self.table.truth
        if self.rules.metric == "corloc":  # a class counts once per image
            return self._sum_presence()
        rows = np.flatnonzero(truth.counts & AreaBits(1 << area))
        return _Sums(truth.category[rows], truth.image[rows], self.n_classes)

    def _sum_presence(self) -> _Sums:
        """Sum 1 for each class and image with ground truth, whether that counts or not."""
        truth, n_classes = self.table.truth, max(self.n_classes, 1)
        key = np.unique(truth.image.astype(np.int64) * n_classes + truth.category)
        return _Sums(key % n_classes, key // n_classes, self.n_classes)

    def _sum_recalls(self) -> dict[tuple[int, int], _Sums]:
        """Sum the true positives of each class by image, for each (detection cap, area range).

        A true positive counts once for each IoU threshold. Caps are positions in `Protocol.caps`; under
        `Protocol.apart` the key has an IoU threshold instead, which alone is counted.
        """
        rules, matches = self.rules, self.table.matches
        sums = {}
        category, image = matches.category[matches.hit], matches.image[matches.hit]
        thresholds = list(range(len(rules.ious)))
        if rules.metric == "corloc":
            cells = [(0, 0)]
        elif rules.apart:  # by threshold in place of the cap
            cells = [(t, area) for t in thresholds for area in self.areas]
        else:  # each cap in the first area range, and the last cap in the others
            cells = [(position, 0) for position in range(len(rules.caps))]
            cells += [(len(rules.caps) - 1, area) for area in self.areas[1:] if rules.caps]
        for cap_or_threshold, area in cells:
            counted = [cap_or_threshold] if rules.apart else thresholds
            hits = [find_hits(self.table, area, t)[0] for t in counted]
            n_thresholds_hit = np.sum(hits, axis=0)  # (hits,) under how many each is a true positive
            # Matching left out what is beyond the last cap, `max_dets`; lower ones count by rank.
            if rules.caps and not rules.apart and (cap := rules.caps[cap_or_threshold]) != rules.max_dets:
                n_thresholds_hit = np.where(matches.hit_rank < cap, n_thresholds_hit, 0)
            hit_positions = np.flatnonzero(n_thresholds_hit)
            sums[cap_or_threshold, area] = _Sums(
                category[hit_positions], image[hit_positions], self.n_classes, n_thresholds_hit[hit_positions]
            )
        return sums

    def compute(self, weights: Longs) -> Replicates:
        """Compute the metrics under (weightings, images) `weights`, which are whole numbers."""
        metric = self.rules.metric
        if metric == "top-k":
            return self._compute_guesses(weights)
        if metric == "corloc":
            class_shares = share(self.recalls[0, 0].compute(weights), self.npos[0].compute(weights))
            return Replicates({"CorLoc": mean_of_defined(class_shares)}, {})
        npos = [sums.compute(weights) for sums in self.npos]
        if self.pooled:
            # The detections of a class that is without ground truth in a weighting are not ranked there.
            ap = self._compute_ap(weights, [npos[0].sum(axis=1, keepdims=True)], ranked=npos[0] > 0)
            return Replicates({"AP": ap[0, 0, :, 0]}, {})
        ap = self._compute_ap(weights, npos)  # (areas, thresholds, weightings, classes)
        present = None if self.presence is None else self.presence.compute(weights)
        if present is not None and self.rules.detected_only:
            ap[0, 0][np.isnan(ap[0, 0]) & (present > 0)] = (
                0  # its objects are all on images without detections of it
            )
        if self.rules.rates:
            summary = self._compute_misses(weights, npos, ap)
        else:
            summary = self._compute_summary(weights, npos, ap, present)
        class_ap = {
            key: ap[0].mean(axis=0) if t < 0 else ap[0, t]  # t: number of the threshold, -1 = the mean of all
            for key, t in list_class_keys(self.rules).items()
        }
        return Replicates(summary, class_ap)

    def _compute_summary(
        self, weights: Longs, npos: list[Longs], ap: Floats, present: Longs | None
    ) -> dict[str, Floats]:
        """Return (weightings,) the mean over classes of AP or recall, for each key of the summary.

        `ap` is (areas, thresholds, weightings, classes); `npos` has for each area range the ground truths,
        (weightings, classes). `present`, of this shape, counts the images with each class: where the protocol
        weighs a class by its images, by these.
        """
        n_thresholds = 1 if self.rules.apart else len(self.rules.ious)
        recall = {  # by cap or threshold, and area range: (weightings, classes)
            (m, area): share(sums.compute(weights), npos[self.areas.index(area)] * n_thresholds)
            for (m, area), sums in self.recalls.items()
        }
        frequency = np.array(self.table.matches.frequency)
        summary = {}
        for key, (kind, column, area) in select_quantities(self.rules, self.areas).items():
            if kind == "recall":  # of these `area` is a range's number, of AP its position in the plan
                values = recall[column, area]
            elif kind == "frequency":
                # "APr" is of the classes with the frequency "r".
                values = ap[0].mean(axis=0)[:, frequency == key.removeprefix("AP")]
            else:  # the AP at one threshold, or the mean of all
                values = ap[area].mean(axis=0) if column < 0 else ap[area, column]
            if fixed := self.rules.mean_over:  # of these classes only, undefined ones as 0
                is_fixed = np.isin(self.table.classes, fixed)
                summary[key] = np.nan_to_num(values[:, is_fixed]).sum(axis=1) / len(fixed)
            else:
                summary[key] = mean_of_defined(values, present if self.rules.by_images else None)
        return summary

    def _compute_ap(self, weights: Longs, npos: list[Longs], ranked: Mask | None = None) -> Floats:
        """Return (areas, thresholds, weightings, classes) AP.

        `npos` has for each area the ground truths, (weightings, classes); `ranked`, of this shape, says which
        classes are ranked, None = all. AP is NaN where `npos` is 0.
        """
        ap = np.zeros((len(self.areas), len(self.rules.ious), *npos[0].shape))
        # Several weightings are counted in one integer, as many as it has room for the sums of one class: a
        # sum is at most that of all detections, and at most the largest class times the largest weight.
        total_weight = int(
            (weights @ np.bincount(self.ranking.image, minlength=weights.shape[1])).max(initial=0)
        )
        n_of_largest_class = int((self.ranking.stops - self.ranking.starts).max(initial=0))
        largest_sum = min(total_weight, n_of_largest_class * int(weights.max(initial=0)))
        bits = max(largest_sum.bit_length(), 1)
        n_per_word = max(1, 64 // bits)
        n_ranked = np.zeros(len(self.ranking.image) + 1, np.int64)
        # A curve keeps precision at its true positives `read`: buffers are as long as the most of these.
        buffers = np.empty((BUFFERS, max((len(curves.read) for curves in self.curves), default=0)))
        for start in range(0, len(weights), n_per_word):
            word_weights = weights[start : start + n_per_word]
            packed = _Packed(
                word_weights, bits, None if ranked is None else ranked[start : start + n_per_word]
            )
            packed_weights = packed.pack_boxes(self.ranking.image, self.ranking.category)
            for i, curves in enumerate(self.curves):
                area, t = divmod(i, len(self.rules.ious))  # curves are by area, then threshold
                # Running counts of what is false if it matches nothing (`live`): the same at all thresholds.
                if t == 0:
                    np.cumsum(
                        packed_weights if curves.live is None else packed_weights * curves.live,
                        out=n_ranked[1:],
                    )
                curves.average(
                    packed,
                    n_ranked,
                    npos[area][start : start + n_per_word],
                    ap[area, t, start : start + n_per_word],
                    buffers,
                )
        for area, npos_of_area in enumerate(npos):
            ap[area][:, npos_of_area == 0] = np.nan
        return ap

    def _compute_misses(self, weights: Longs, npos: list[Longs], ap: Floats) -> dict[str, Floats]:
        """Return (weightings,) mean miss rate of classes, by key, with AP and Jaccard index if defined.

        `npos` has for each area range the ground truths, (weightings, classes). If the protocol takes AP as
        the area between detections, it is written into `ap`, (areas, thresholds, weightings, classes).
        """
        matches, (rows, class_starts) = self.table.matches, self.table.ranked
        category_of_row, weights_of_rows = matches.category[rows], weights[:, matches.image[rows]]
        summary = {}
        for i, area in enumerate(self.areas):
            is_true, is_false = self._find_outcomes(area)
            hit_positions = np.flatnonzero(is_true[rows])
            hit_class = category_of_row[hit_positions].astype(np.int64)
            rates = np.empty((len(weights), self.n_classes))
            for b, row_weights in enumerate(weights_of_rows):
                # Of each true positive the false positives of its class that rank before it.
                false_before = np.concatenate([[0], np.cumsum(row_weights * is_false[rows])])
                n_false = false_before[hit_positions] - false_before[class_starts[hit_class]]
                n_times, n_images = row_weights[hit_positions], int(weights[b].sum())
                rates[b] = compute_miss_rates(self.rules, hit_class, n_false, n_times, npos[i][b], n_images)
                if self.rules.reading == "between":  # each true positive as often as its image
                    columns = np.repeat(hit_class, n_times), np.repeat(n_false, n_times)
                    ap[i, 0, b] = compute_areas_between(*columns, npos[i][b])
            summary[miss_keys(self.rules)[area]] = mean_of_defined(rates)
        if matches.jaccard is not None:
            jaccard = jaccard_index(matches.jaccard, weights)
            summary = {"AP": mean_of_defined(ap[0, 0]), **summary, "JI": jaccard}
        return summary

    def _find_outcomes(self, area: int) -> tuple[Mask, Mask]:
        """Return (n,) masks of the true and of the false positives in an area range, at the reference IoU."""
        matches, is_fp_candidate = self.table.matches, find_fp_if_unmatched(self.table, area)
        n = len(matches.score)
        is_false = np.ones(n, np.bool_) if is_fp_candidate is None else is_fp_candidate.copy()
        is_positive, is_ignored = find_hits(self.table, area, self.rules.reference)
        is_false[matches.hit[is_positive | is_ignored]] = False
        is_true = np.zeros(n, np.bool_)
        is_true[matches.hit[is_positive]] = True
        return is_true, is_false

    def _compute_guesses(self, weights: Longs) -> Replicates:
        """Compute the weighted shares of the images whose first 1 and first 5 guesses all miss."""
        matches = self.table.matches
        n_guesses = self.rules.max_dets or 0
        image_weights = weights[:, self.table.guess_image]
        total_weight = image_weights.sum(axis=1)
        summary = {}
        # The columns of `guesses`: position of the first guess of the class, of the first hit, and image.
        for column, kind in enumerate(("cls", "loc")):
            for k in (1, 5):
                missed = (image_weights * (matches.guesses[:, column] >= k)).sum(axis=1)
                summary[f"top{k}_{kind}"] = (
                    share(missed, total_weight) if k <= n_guesses else np.full(len(weights), np.nan)
                )
        return Replicates(summary, {})


def find_running_maximum(values: Floats, buffer: Floats) -> Floats:
    """Return (n,) the largest value up to each, in one of the two arrays; both are overwritten.

    Equal to ``np.maximum.accumulate``, which waits for each comparison before the next, in half its time.
    """
    # Maxima of windows of 2, 4, 8 and 16 values by whole arrays, then those of all blocks of 16 before.
    result, width = values, 1
    while width < BLOCK:
        np.maximum(result[width:], result[:-width], out=buffer[width:])
        buffer[:width] = result[:width]
        result, buffer = buffer, result
        width *= 2
    maximum_up_to_block = np.maximum.accumulate(result[BLOCK - 1 :: BLOCK])
    later_blocks = result[BLOCK:]
    np.maximum(later_blocks, np.repeat(maximum_up_to_block, BLOCK)[: len(later_blocks)], out=later_blocks)
    return result


def mean_of_defined(values: Floats, times: Longs | None = None) -> Floats:
    """Return (n,) the mean over the defined values of each row of (n, m), NaN where there are none.

    A value counts as many `times`, (n, m), if these are given.
    """
    counts: NDArray[np.integer] | Mask = ~np.isnan(values) if times is None else ~np.isnan(values) * times
    n_defined = counts.sum(axis=1)
    mean: Floats = np.divide(
        (np.nan_to_num(values) * counts).sum(axis=1),
        n_defined,
        out=np.full(len(values), np.nan),
        where=n_defined > 0,
    )
    return mean


class _Sums:
    """Counts of quantities (such as objects by class) by image, to be summed under weights of the images.

    Equal pairs of quantity and image are one entry with its number of ``times``, sorted by quantity:
    quantities 0 0 1 3 of the entries have ``starts`` 0 2 3, where each begins, and ``quantities`` 0 1 3.
    """

    def __init__(
        self,
        quantity: NDArray[np.integer],
        image: NDArray[np.integer],
        n_quantities: int,
        times: NDArray[np.integer] | None = None,
    ) -> None:
        n_images = int(image.max(initial=0)) + 1
        key = quantity.astype(np.int64) * n_images + image
        if times is None:
            key, n_of_key = np.unique(key, return_counts=True)
        else:
            key, inverse = np.unique(key, return_inverse=True)
            n_of_key = np.bincount(inverse, weights=times, minlength=len(key)).astype(np.int64)
        self.n_quantities, self.times = n_quantities, n_of_key.astype(np.int64)
        self.image = key % n_images
        quantity = key // n_images
        self.starts = first_of_runs(quantity)
        self.quantities = quantity[self.starts]

    def compute(self, weights: Longs) -> Longs:
        """Return (weightings, quantities), the sums under (weightings, images) `weights`."""
        sums = np.zeros((len(weights), self.n_quantities), np.int64)
        if len(self.starts):
            for row_sums, image_weights in zip(sums, weights, strict=True):
                row_sums[self.quantities] = np.add.reduceat(
                    image_weights[self.image] * self.times, self.starts
                )
        return sums


class _Ranking:
    """Detections by class and rank, each class cut after its last hit: later ones change no number.

    But where precision falls on a ramp from the last detection, all are kept. ``hits`` are the positions in
    ``matches.hit`` of the ranked hits and ``rank`` (hits,) their ranks, ascending; ``starts`` and ``stops``
    (classes,) bound the ranks of each class. If `pooled`, the detections of all classes are one group.
    """

    def __init__(self, table: Table, *, pooled: bool) -> None:
        matches = table.matches
        if pooled:
            # Those of classes with ground truth by score, equal ones by class, image and input.
            rows = np.flatnonzero((table.n > 0)[table.category])
            rows = rows[np.lexsort((matches.row[rows], table.image[rows], table.category[rows]))]
            rows = rows[np.argsort(-table.score[rows], kind="stable")]
            group_bounds = np.array([0, len(rows)])
        else:
            rows, group_bounds = table.ranked
        n_groups = len(group_bounds) - 1
        group = np.repeat(np.arange(n_groups), np.diff(group_bounds))  # of each rank

        # The hits by rank; those of detections that are not ranked have -1 and are left out.
        rank_of_row = np.full(len(table.score), -1, np.int64)
        rank_of_row[rows] = np.arange(len(rows))
        hit_ranks = rank_of_row[matches.hit]
        hits_by_rank = np.argsort(hit_ranks, kind="stable")
        self.hits = hits_by_rank[hit_ranks[hits_by_rank] >= 0]
        hit_ranks = hit_ranks[self.hits]

        # Each class is cut after its last hit, a class without hits before its first rank.
        last_hit_rank = group_bounds[:-1] - 1
        np.maximum.at(last_hit_rank, group[hit_ranks], hit_ranks)
        is_kept = np.arange(len(rows)) <= np.repeat(last_hit_rank, np.diff(group_bounds))
        if table.rules.reading == "ramp":
            is_kept[:] = True
        rank_after_cut = np.cumsum(is_kept) - 1

        self.rows = rows[is_kept]
        self.n_groups = n_groups
        self.rank = rank_after_cut[hit_ranks]
        self.hit_group = group[hit_ranks]
        self.image = table.image[self.rows].astype(np.intp)
        self.category = table.category[self.rows].astype(np.intp)
        self.starts = np.searchsorted(group[is_kept], np.arange(n_groups))
        self.stops = np.append(self.starts[1:], len(self.rows))
        self.hit_image = self.image[self.rank]


class _Packed:
    """Several weightings of the images packed into one integer per image, `bits` bits for each sum.

    `ranked` (weightings, classes) says which classes count in each, None = all.
    """

    # Up to 64 // bits weightings share one int64:  w0 | w1 << bits | w2 << 2 * bits | ...
    # A sum of such words has the sums of all weightings:
    #   bits = 4, image a: w0 = 1, w1 = 2 is 0x21;  image b: w0 = 3, w1 = 0 is 0x03;  sum 0x24: w0 = 4, w1 = 2
    # `bits` holds the total of any class. Running sums over several classes carry and overflow, but the
    # difference of two of one class is right, as integers wrap:
    #   bits = 4: 0x0c, then 0x0c + 0x0c = 0x18;  0x18 - 0x0c = 0x0c: w0 = 12, w1 = 0

    def __init__(self, weights: Longs, bits: int, ranked: Mask | None) -> None:
        self.bits, self.mask = bits, np.int64((1 << bits) - 1)
        self.words = np.zeros(weights.shape[1], np.int64)
        for j, image_weights in enumerate(weights):
            self.words |= image_weights << np.int64(bits * j)
        self.ranked: Longs | None = None
        if ranked is not None:
            self.ranked = np.zeros(ranked.shape[1], np.int64)
            for j, is_ranked in enumerate(ranked):
                self.ranked |= np.where(is_ranked, self.mask << np.int64(bits * j), 0)

    def pack_boxes(self, image: Longs, category: Longs) -> Longs:
        """Return (n,) the packed weights of boxes, from their images and classes, both (n,)."""
        words = self.words[image]
        return words if self.ranked is None else words & self.ranked[category]

    def unpack(self, sums: Longs, j: int, out: Longs | None = None) -> Longs:
        """Return the sums of weighting `j` from packed sums, in `out` if it is given."""
        shifted: Longs = np.right_shift(sums, np.int64(self.bits * j), out=out)
        return np.bitwise_and(shifted, self.mask, out=shifted)


class _Curves:
    """The precision-recall curves of all classes under one area range and threshold.

    Precision is kept at true positives: between them it only falls. They stand from the last rank of the last
    class to the first rank of the first. The envelopes of all classes are one running maximum, of values that
    are raised by 2 for each class before; that costs precision of about the spacing of floats at twice the
    number of classes.

    ``classes`` (c,) are the classes with true positives, ``first_values`` and ``last_values`` the positions
    of the first and the last value of each, ``rank_starts`` and ``rank_stops`` the bounds of their ranks.
    `live` (ranks,) are the detections that are false if they match nothing, None = all; `read` are the true
    positives at which precision is kept.
    ``wrong_*`` are of the hits that the running count of detections has wrong: ignored ones that it counts,
    true ones that it leaves out.
    """

    def __init__(self, ranking: _Ranking, table: Table, area: int, threshold: int) -> None:
        rules = table.rules
        positive, ignored = (mask[ranking.hits] for mask in find_hits(table, area, threshold))
        is_fp_candidate = find_fp_if_unmatched(table, area)
        self.live: Mask | None = None if is_fp_candidate is None else is_fp_candidate[ranking.rows]
        is_live = np.ones(len(positive), np.bool_) if self.live is None else self.live[ranking.rank]
        self.epsilon = rules.epsilon
        self.points = recall_points(rules.interpolation)
        self.lines = _Lines(self.points) if self.points is not None and rules.reading != "steps" else None
        self.ramp = rules.reading == "ramp"

        # `tp` are positions in the hits of the ranking, from the last rank to the first.
        tp = np.flatnonzero(positive)[::-1]
        self.image = ranking.hit_image[tp]
        group, rank = ranking.hit_group[tp], ranking.rank[tp]
        # Precision rises along true positives of neighbouring ranks: the last of them is read for all.
        #   ranks 9 7 6 2 of one class, plus 0 1 2 3, are 9 8 8 5: 7 is read for 7 and 6
        self.read = first_of_runs(group, rank + np.arange(len(rank)))
        self.class_ends = np.append(first_of_runs(group)[1:], len(tp))
        group, tp = group[self.read], tp[self.read]
        self.after = rank[self.read] + 1  # the running counts begin with a 0
        self.first_values = first_of_runs(group)
        self.classes = group[self.first_values]
        self.n_tp = np.diff(np.append(self.first_values, len(tp)))
        self.rank_starts = ranking.starts[self.classes]
        self.rank_stops = ranking.stops[self.classes]
        self.last_values = self.first_values + self.n_tp - 1
        self.raised = np.repeat(2.0 * np.arange(len(self.first_values)), self.n_tp)

        # What was counted as ranked and is neither true nor false, and what is true and was not counted.
        miscounted = np.flatnonzero((ignored & is_live) | (positive & ~is_live))
        self.wrong_image = ranking.hit_image[miscounted]
        self.wrong_class = ranking.category[ranking.rank[miscounted]]
        self.wrong_sign = np.where(positive[miscounted], 1, -1)
        # How many of these rank up to each value; it is kept once for each run of equal numbers.
        n_wrong_before = np.searchsorted(miscounted, tp, side="right")
        run_starts = first_of_runs(n_wrong_before)
        self.n_wrong_before, self.n_equal = n_wrong_before[run_starts], np.diff(run_starts, append=len(tp))
        self.wrong_starts = np.searchsorted(ranking.hit_group[miscounted], self.classes)
        self.wrong_stops = np.searchsorted(ranking.hit_group[miscounted], self.classes, side="right")

    def average(self, packed: _Packed, ranked_all: Longs, npos: Longs, ap: Floats, buffers: Floats) -> None:
        """Write the APs into `ap`, (weightings, classes); `npos`, of this shape, counts ground truths.

        ``ranked_all`` are the running counts of the detections that would be false without a match. The
        ``buffers``, (BUFFERS, ranks that are read or more), are overwritten.
        """
        if not len(self.first_values):
            return
        # Detections of the class up to each value, in packed sums: the running count less that before the
        # class, with what it has wrong put right.
        ranked_sums = ranked_all[self.after]
        ranked_before, ranked_last = ranked_all[self.rank_starts], ranked_all[self.rank_stops]
        if len(self.wrong_image):
            wrong_all = np.zeros(len(self.wrong_image) + 1, np.int64)
            np.cumsum(
                packed.pack_boxes(self.wrong_image, self.wrong_class) * self.wrong_sign, out=wrong_all[1:]
            )
            ranked_sums += np.repeat(wrong_all[self.n_wrong_before], self.n_equal)
            ranked_before += wrong_all[self.wrong_starts]
            ranked_last += wrong_all[self.wrong_stops]
        ranked_sums -= np.repeat(ranked_before, self.n_tp)
        ranked_last -= ranked_before

        # True positives of the class up to each value: those stand in reverse, so from the end of the class.
        tp_weights = packed.words[self.image]
        tp_sums = np.zeros(len(tp_weights) + 1, np.int64)
        np.cumsum(tp_weights, out=tp_sums[1:])
        true_sums = np.repeat(tp_sums[self.class_ends], self.n_tp)
        true_sums -= tp_sums[self.read]

        buffers = buffers[:, : len(self.read)]  # the first two are filled below, for `_average`
        for j in range(len(npos)):
            for sums, column in zip((true_sums, ranked_sums), buffers, strict=False):
                column[:] = packed.unpack(sums, j, out=buffers[2].view(np.int64))  # scratch space
            ap[j, self.classes] = self._average(buffers, npos[j, self.classes])
            if self.lines is not None and self.ramp:
                n_true = packed.unpack(true_sums, j)[self.first_values]
                ap[j, self.classes] += self.lines.ramp(
                    n_true, packed.unpack(ranked_last, j), npos[j, self.classes]
                )

    def _average(self, buffers: Floats, npos: Longs) -> Floats:
        """Return the AP of the classes with true positives.

        The first two of the ``buffers`` count, in each class, the true positives and all detections up to the
        ranks that are read. All buffers are overwritten.
        """
        # `precision` holds the number of all detections until the division.
        n_true, precision, buffer, drop = buffers
        precision += self.epsilon or TINY
        np.divide(n_true, precision, out=precision)
        # Raised by 2 for each class before, the values of all classes have one running maximum.
        precision += self.raised
        envelope = find_running_maximum(precision, buffer)
        buffer = buffer if envelope is precision else precision
        envelope -= self.raised
        npos = np.maximum(npos, 1)
        if self.points is None:
            envelope *= self._measure_drop(n_true, drop)
            exact_average: Floats = np.add.reduceat(envelope, self.first_values) / npos
            return exact_average
        # How many of the recall points are reached here, as the protocol's floats compare: the points of
        # `linspace` are multiples of the second one. The first point, recall 0, belongs to the first rank of
        # the class, whose envelope is its highest precision.
        recall = np.divide(n_true, np.repeat(npos.astype(np.float64), self.n_tp), out=n_true)
        if self.lines is not None:
            envelope *= self.lines.weights(recall, self.last_values)
            line_average: Floats = np.add.reduceat(envelope, self.first_values)
            return line_average
        # Recall .3 reaches point 3 of 0..10, though .3 * 10 may be 2.9999; if point 3 is above .3, point 2.
        reached = np.multiply(recall, len(self.points) - 1, out=buffer)
        reached += 1e-9
        np.floor(reached, out=reached)
        reached -= np.multiply(reached, self.points[1], out=drop) > recall
        n_points = self._measure_drop(reached, drop)
        n_points[self.last_values] += 1
        envelope *= n_points
        average: Floats = np.add.reduceat(envelope, self.first_values) / len(self.points)
        return average

    def _measure_drop(self, values: Floats, drop: Floats) -> Floats:
        """Return in `drop` how far each value is above the next one of its class, the last one above 0."""
        np.subtract(values[:-1], values[1:], out=drop[:-1])
        drop[self.last_values] = values[self.last_values]
        return drop


class _Lines:
    """Weights of the envelope for AP as the area under straight lines between recall points.

    The lines are level but at the points themselves (see `PrecisionReader` in `scores/curves.py`): a true
    positive is read at the points from the recall before it up to its own, which is left out.
    """

    def __init__(self, points: Floats) -> None:
        self.points = points
        # The area under lines is the sum of heights times half the distance to each neighbour.
        half_widths = np.diff(points) / 2
        point_weights = np.append(half_widths, 0) + np.insert(half_widths, 0, 0)
        self.before = np.concatenate([[0.0], np.cumsum(point_weights)])
        """(points + 1,) what the first points are worth together."""
        falling_weights = point_weights * (1 - points)
        self.sloping = np.append(np.cumsum(falling_weights[::-1])[::-1], 0.0)
        """(points + 1,) what a line to 0 at recall 1 is worth from a point on, were it 1 at recall 0."""

    def weights(self, recall: Floats, top: Longs) -> Floats:
        """Return (true positives,) their weights; `top` are the positions of the last of each class."""
        # Recall falls within a class, so the points of each are those before it less those before the next.
        points_before = self.before[self._count_passed(recall)]
        weights = np.empty_like(points_before)
        np.subtract(points_before[:-1], points_before[1:], out=weights[:-1])
        weights[top] = points_before[top]
        return weights

    def ramp(self, n_true: Longs, n_ranked: Longs, npos: Longs) -> Floats:
        """Return (classes,) the area below the line from the last detection to precision 0 at recall 1."""
        # The line falls from precision p at recall r: at recall 0 it would be p / (1 - r).
        recall = n_true / np.maximum(npos, 1)
        area = self.sloping[self._count_passed(recall)] * n_true / np.maximum(n_ranked, 1)
        return np.divide(area, 1 - recall, out=np.zeros(len(recall)), where=recall < 1)

    def _count_passed(self, recall: Floats) -> Longs:
        """(n,) how many of the recall points are lower than each recall, (n,)."""
        # The number of the last point up to each recall (2.9999 means 3); it is passed itself if lower.
        reached = (recall * (len(self.points) - 1) + 1e-9).astype(np.int64)
        reached += self.points[reached] < recall
        return reached
