"""The class ``COCOeval`` of ``pycocotools.cocoeval``, on odm's engine.

Where parameters are usual, all images are matched at once. ``evalImgs`` and ``ious``, which few programs look
at, and unusual parameters are made image by image by the same rules, as pycocotools does.
"""

from __future__ import annotations

import copy
import datetime as dt
import time
import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.coco import mask as mask_functions
from odm.coco.annotations import COCO, Record, print_line, write_masks
from odm.evaluate.scores.protocols import COCO_SIGMAS
from odm.issues import UsageError

Array = NDArray[Any]

_MAX_AREAS = 16
"""Largest number of area ranges that are matched at once."""
_RULES = ("computeIoU", "computeOks", "evaluateImg", "_prepare")
"""Methods that programs replace to match by rules of their own; then images are matched one by one."""


class Params:
    """Parameters of an evaluation, with pycocotools' names and values."""

    def __init__(self, iouType: str = "segm") -> None:  # noqa: N803
        """Set the defaults for an IoU type. Raises UsageError if there is no such type."""
        if iouType not in ("segm", "bbox", "keypoints"):
            raise UsageError(f"iouType {iouType!r}: choose segm, bbox or keypoints")
        self.useSegm: Any = None
        self.iouType = iouType
        self._set_defaults(of_keypoints=iouType == "keypoints")

    def _set_defaults(self, *, of_keypoints: bool) -> None:
        """Set everything but ``iouType`` and ``useSegm``."""
        self.imgIds: Any = []
        self.catIds: Any = []
        self.iouThrs: Any = np.linspace(0.5, 0.95, 10)
        self.recThrs: Any = np.linspace(0.0, 1.00, 101)
        self.useCats: Any = 1
        small, medium, largest = 32**2, 96**2, 1e5**2
        if of_keypoints:
            self.maxDets: Any = [20]
            self.areaRng: Any = [[0, largest], [small, medium], [medium, largest]]
            self.areaRngLbl: Any = ["all", "medium", "large"]
            self.kpt_oks_sigmas: Any = np.array(COCO_SIGMAS)  # programs scale it in place
        else:
            self.maxDets = [1, 10, 100]
            self.areaRng = [[0, largest], [0, small], [small, medium], [medium, largest]]
            self.areaRngLbl = ["all", "small", "medium", "large"]

    def setDetParams(self, iouType: str = "") -> None:  # noqa: N802, N803
        """Set the defaults of boxes and masks; ``iouType`` stays, or all is set anew for the one given."""
        if iouType:
            Params.__init__(self, iouType)
        else:
            self._set_defaults(of_keypoints=False)

    def setKpParams(self, iouType: str = "") -> None:  # noqa: N802, N803
        """Set the defaults of keypoints; ``iouType`` stays, or all is set anew for the one given."""
        if iouType:
            Params.__init__(self, iouType)
        else:
            self._set_defaults(of_keypoints=True)


class COCOeval:
    """Evaluation of detections of COCO's images: evaluate, accumulate, summarize.

    Parameters
    ----------
    cocoGt, cocoDt
        Annotations, and results that `COCO.loadRes` read.
    iouType
        ``segm``, ``bbox`` or ``keypoints``.
    """

    def __init__(
        self,
        cocoGt: COCO | None = None,  # noqa: N803
        cocoDt: COCO | None = None,  # noqa: N803
        iouType: str = "segm",  # noqa: N803
    ) -> None:
        """Choose all images and categories of the annotations; nothing is compared before `evaluate`."""
        self.cocoGt, self.cocoDt = cocoGt, cocoDt
        self.params = Params(iouType)
        self._paramsEval: Any = {}
        self.stats: Any = []
        self.eval: Any = {}
        self._matches: Any = None
        self._eval_imgs: Any = defaultdict(list)  # None: computed at the first access
        self._ious: Any = {}
        self._gts: Any = defaultdict(list)
        self._dts: Any = defaultdict(list)
        if cocoGt is not None:
            self.params.imgIds = sorted(cocoGt.getImgIds())
            self.params.catIds = sorted(cocoGt.getCatIds())

    # ------------------------------------------------------------------------------------------- evaluate

    def evaluate(self) -> None:
        """Match the detections of all images under all thresholds and area ranges; earlier results are lost.

        As in pycocotools, ids and limits in ``params`` are sorted. Raises UsageError without both sides.
        """
        if self.cocoGt is None or self.cocoDt is None:
            raise UsageError("COCOeval needs annotations and results: COCOeval(truth, truth.loadRes(...))")
        start = time.time()
        print_line("Running per image evaluation...")
        p = self.params
        if p.useSegm is not None:
            p.iouType = "segm" if p.useSegm == 1 else "bbox"
            print_line(f"useSegm (deprecated) is not None. Running {p.iouType} evaluation")
        print_line(f"Evaluate annotation type *{p.iouType}*")
        p.imgIds = list(np.unique(p.imgIds))
        if p.useCats:
            p.catIds = list(np.unique(p.catIds))
        p.maxDets = sorted(p.maxDets)
        self._prepare()
        self.eval, self.stats, self._eval_imgs, self._ious = {}, [], None, None
        self._paramsEval = copy.deepcopy(p)
        from odm.coco.fast import match_all

        # Programs that replace one of these methods are followed image by image.
        methods = [getattr(getattr(self, name), "__func__", None) for name in _RULES]
        is_unmodified = methods == [vars(COCOeval)[name] for name in _RULES]
        self._matches = match_all(self) if is_unmodified and len(p.areaRng) <= _MAX_AREAS else None
        if self._matches is None:
            self._match_each()
        if any(record["id"] == 0 for records in self._gts.values() for record in records):
            warnings.warn(
                "an annotation has the id 0 and counts as missed, as in pycocotools; let ids begin at 1",
                stacklevel=2,
            )
        print_line(f"DONE (t={time.time() - start:0.2f}s).")

    def _prepare(self) -> None:
        """Put the annotations of the chosen images and categories by image and category, masks as RLE."""
        p = self.params
        assert self.cocoGt is not None
        assert self.cocoDt is not None
        self._gts, self._dts = defaultdict(list), defaultdict(list)
        self.eval, self._matches, self._eval_imgs, self._ious = {}, None, defaultdict(list), {}
        categories = p.catIds if p.useCats else []
        for coco, by_pair in ((self.cocoGt, self._gts), (self.cocoDt, self._dts)):
            records = coco.loadAnns(coco.getAnnIds(imgIds=p.imgIds, catIds=categories))
            if p.iouType == "segm":
                write_masks(coco, records)
            for record in records:
                by_pair[record["image_id"], record["category_id"]].append(record)
        self._mark_ignored()

    def _mark_ignored(self) -> None:
        """Set ``ignore`` of all ground truths, which an evaluation of another type may have changed."""
        for record in (record for records in self._gts.values() for record in records):
            record["ignore"] = int(bool(record.get("iscrowd", 0)))
            if self.params.iouType == "keypoints":
                record["ignore"] = int(record["num_keypoints"] == 0 or record["ignore"])

    def _match_each(self) -> None:
        """Make ``ious`` and ``evalImgs``, image by image, under the parameters of `evaluate`."""
        current, p = self.params, self._paramsEval
        categories = p.catIds if p.useCats else [-1]
        self.params, self._eval_imgs = p, []
        try:
            self._mark_ignored()
            compute_overlaps = self.computeOks if p.iouType == "keypoints" else self.computeIoU
            self._ious = {(i, c): compute_overlaps(i, c) for i in p.imgIds for c in categories}
            self._eval_imgs = [
                self.evaluateImg(image, category, area, p.maxDets[-1])
                for category in categories
                for area in p.areaRng
                for image in p.imgIds
            ]
        finally:
            self.params = current

    @property
    def evalImgs(self) -> Any:  # noqa: N802
        """The record of each category, area range and image, None if it has no detection and no ground truth.

        After the first access `accumulate` computes its results from this list, with any changes to it.
        """
        if self._eval_imgs is None:
            self._match_each()
        self._matches = None
        return self._eval_imgs

    @evalImgs.setter
    def evalImgs(self, value: Any) -> None:  # noqa: N802
        if self._eval_imgs is None:
            self._match_each()
        self._eval_imgs, self._matches = value, None

    @property
    def ious(self) -> dict[tuple[Any, Any], Any]:
        """The overlaps of all pairs, by image and category."""
        if self._eval_imgs is None:  # later changes to the overlaps do not change the matches
            self._match_each()
        return self._ious  # type: ignore[no-any-return]

    @ious.setter
    def ious(self, value: dict[tuple[Any, Any], Any]) -> None:
        if self._eval_imgs is None:
            self._match_each()
        self._ious = value

    def _select_records(self, image: Any, category: Any) -> tuple[list[Record], list[Record]]:
        """Return the ground truths of an image and category, and the detections by descending score.

        Without ``useCats`` they are those of all chosen categories, and `category` is not used.
        """
        p = self.params
        if p.useCats:
            gt, dt = self._gts[image, category], self._dts[image, category]
        else:
            gt = [record for c in p.catIds for record in self._gts[image, c]]
            dt = [record for c in p.catIds for record in self._dts[image, c]]
        order = np.argsort([-record["score"] for record in dt], kind="mergesort")
        return gt, [dt[i] for i in order]

    def computeIoU(self, imgId: Any, catId: Any) -> Any:  # noqa: N802, N803
        """(best detections, ground truths) overlaps of an image and category; ``[]`` if there are none."""
        p = self.params
        gt, dt = self._select_records(imgId, catId)
        if not gt and not dt:
            return []
        dt = dt[: p.maxDets[-1]]
        crowd = [int(record["iscrowd"]) for record in gt]
        if p.iouType == "bbox":
            return mask_functions.iou([r["bbox"] for r in dt], [r["bbox"] for r in gt], crowd)
        return mask_functions.iou([r["segmentation"] for r in dt], [r["segmentation"] for r in gt], crowd)

    def computeOks(self, imgId: Any, catId: Any) -> Any:  # noqa: N802, N803
        """(detections, ground truths) similarity of keypoints; ``[]`` if there are none of one side."""
        p = self.params
        gts, dts = self._select_records(imgId, catId)
        dts = dts[: p.maxDets[-1]]
        if not gts or not dts:
            return []
        oks = np.zeros((len(dts), len(gts)))
        variances = (np.asarray(p.kpt_oks_sigmas) * 2) ** 2
        points_of_detections = [np.array(dt["keypoints"]) for dt in dts]
        for j, gt in enumerate(gts):
            x, y, visibility = np.array(gt["keypoints"]).reshape(-1, 3).T
            n_labelled = int(np.count_nonzero(visibility > 0))
            left, top, width, height = gt["bbox"]
            for i, det_points in enumerate(points_of_detections):  # x, y, visibility, x, y, ...
                xd, yd = det_points[0::3], det_points[1::3]
                if n_labelled:
                    dx, dy = xd - x, yd - y
                else:  # distances of the points from a box three times as wide and high
                    dx = np.maximum(0, left - width - xd) + np.maximum(0, xd - (left + width * 2))
                    dy = np.maximum(0, top - height - yd) + np.maximum(0, yd - (top + height * 2))
                errors = (dx**2 + dy**2) / variances / (gt["area"] + np.spacing(1)) / 2  # never by 0
                errors = errors[visibility > 0] if n_labelled else errors
                oks[i, j] = np.sum(np.exp(-errors)) / errors.shape[0]
        return oks

    def evaluateImg(self, imgId: Any, catId: Any, aRng: Any, maxDet: int) -> Record | None:  # noqa: N802, N803
        """Return the record of ``evalImgs`` for an image and category, None if it has neither detections
        nor ground truth. In its matches, (thresholds, boxes), is the id of the partner, 0 = none.
        """
        p = self.params
        gt, dt = self._select_records(imgId, catId)
        if not gt and not dt:
            return None
        is_ignored = [bool(g["ignore"] or g["area"] < aRng[0] or g["area"] > aRng[1]) for g in gt]
        order = np.argsort(is_ignored, kind="mergesort")
        gt, ignored = [gt[i] for i in order], np.array(is_ignored, int)[order] if gt else np.zeros(0, int)
        dt = dt[:maxDet]
        is_crowd = np.array([int(g["iscrowd"]) != 0 for g in gt], bool)
        image_ious = self.ious[imgId, catId]
        ious = image_ious[:, order] if len(image_ious) else image_ious
        n_thresholds = len(p.iouThrs)
        gt_matches, dt_matches = np.zeros((n_thresholds, len(gt))), np.zeros((n_thresholds, len(dt)))
        dt_ignored = np.zeros((n_thresholds, len(dt)))
        for t, threshold in enumerate(p.iouThrs if len(ious) else ()):  # empty unless both sides have boxes
            for d, detection in enumerate(dt):
                is_free = (gt_matches[t] <= 0) | is_crowd
                match = _find_partner(ious[d], threshold, is_free, ignored)
                if match > -1:
                    dt_ignored[t, d] = ignored[match]
                    dt_matches[t, d], gt_matches[t, match] = gt[match]["id"], detection["id"]
        is_out_of_range = np.array([d["area"] < aRng[0] or d["area"] > aRng[1] for d in dt]).reshape(
            1, len(dt)
        )
        dt_ignored = np.logical_or(dt_ignored, np.logical_and(dt_matches == 0, is_out_of_range))
        return {
            "image_id": imgId,
            "category_id": catId,
            "aRng": aRng,
            "maxDet": maxDet,
            "dtIds": [d["id"] for d in dt],
            "gtIds": [g["id"] for g in gt],
            "dtMatches": dt_matches,
            "gtMatches": gt_matches,
            "dtScores": [d["score"] for d in dt],
            "gtIgnore": ignored,
            "dtIgnore": dt_ignored,
        }

    # ----------------------------------------------------------------------------------------- accumulate

    def accumulate(self, p: Any = None) -> None:
        """Compute ``eval``, with pycocotools' arrays, for `p` or ``params``. UsageError before `evaluate`."""
        if not self._paramsEval:
            raise UsageError("call evaluate() first")
        start = time.time()
        print_line("Accumulating evaluation results...")
        p = self.params if p is None else p
        p.catIds = p.catIds if p.useCats == 1 else [-1]
        # The axes of precision and scores; recall is without the second.
        shape = len(p.iouThrs), len(p.recThrs), len(p.catIds), len(p.areaRng), len(p.maxDets)
        arrays = None
        if self._matches is not None:
            from odm.coco.fast import make_arrays

            arrays = make_arrays(self, p)
        self.eval = {
            "params": p,
            "counts": list(shape),
            "date": dt.datetime.now().strftime("%Y-%m-%d %H:%M:%S"),  # noqa: DTZ005 -- as there
            **(self._accumulate(p, shape) if arrays is None else arrays),
        }
        print_line(f"DONE (t={time.time() - start:0.2f}s).")

    def _accumulate(self, p: Any, shape: tuple[int, ...]) -> dict[str, Array]:
        """Compute the arrays of ``eval``, with the dimensions `shape`, from ``evalImgs``."""
        precision, scores = -np.ones(shape), -np.ones(shape)
        recall = -np.ones((shape[0], *shape[2:]))
        evaluated = self._paramsEval
        categories = evaluated.catIds if evaluated.useCats else [-1]
        ranges = [tuple(area) for area in evaluated.areaRng]
        n_ranges, n_images = len(ranges), len(evaluated.imgIds)
        image_positions = [i for i, image in enumerate(evaluated.imgIds) if image in set(p.imgIds)]
        position_of_category = {category: k for k, category in enumerate(categories)}
        if self._eval_imgs is None:
            self._match_each()
        all_records = self._eval_imgs
        for k, category in enumerate(p.catIds):
            if category not in position_of_category:
                continue
            for a, area in enumerate(p.areaRng):
                if tuple(area) not in ranges:
                    continue
                # `evalImgs` is a flat list: by category, then by area range, then by image.
                first_record = (
                    position_of_category[category] * n_ranges + ranges.index(tuple(area))
                ) * n_images
                records = [all_records[first_record + i] for i in image_positions]
                records = [record for record in records if record is not None]
                if not records:
                    continue
                for m, max_dets in enumerate(p.maxDets):
                    self._accumulate_one(records, max_dets, p, (k, a, m), precision, recall, scores)
        return {"precision": precision, "recall": recall, "scores": scores}

    @staticmethod
    def _accumulate_one(
        records: Sequence[Record],
        max_dets: int,
        p: Any,
        position: tuple[int, int, int],
        precision: Array,
        recall: Array,
        scores: Array,
    ) -> None:
        """Fill in precision, recall and scores at one `position` (category, area range, detection limit).

        `records` are those of ``evalImgs`` for all images; `max_dets` is the limit of detections per image.
        """
        score = np.concatenate([record["dtScores"][0:max_dets] for record in records])
        order = np.argsort(-score, kind="mergesort")
        score = score[order]
        matches = np.concatenate([record["dtMatches"][:, 0:max_dets] for record in records], axis=1)[:, order]
        ignored = np.concatenate([record["dtIgnore"][:, 0:max_dets] for record in records], axis=1)[:, order]
        n_objects = np.count_nonzero(np.concatenate([record["gtIgnore"] for record in records]) == 0)
        if n_objects == 0:
            return
        true_counts = np.cumsum(np.logical_and(matches, np.logical_not(ignored)), axis=1).astype(float)
        false_counts = np.cumsum(
            np.logical_and(np.logical_not(matches), np.logical_not(ignored)), axis=1
        ).astype(float)
        for t, (tp, fp) in enumerate(zip(true_counts, false_counts, strict=True)):
            recalls = tp / n_objects
            recall[(t, *position)] = recalls[-1] if len(tp) else 0
            envelope = tp / (fp + tp + np.spacing(1))
            envelope = np.maximum.accumulate(envelope[::-1])[::-1]  # the best precision from there on
            indices = np.searchsorted(recalls, p.recThrs, side="left")
            is_reached = indices < len(tp)
            curve = np.zeros((2, len(p.recThrs)))  # precision and score, 0 beyond the last recall
            curve[:, is_reached] = envelope[indices[is_reached]], score[indices[is_reached]]
            # (thresholds, recalls, categories, area ranges, detection limits)
            precision[(t, slice(None), *position)], scores[(t, slice(None), *position)] = curve

    # ------------------------------------------------------------------------------------------ summarize

    def summarize(self) -> None:
        """Print the twelve numbers, ten for keypoints, and keep them in ``stats``."""
        if not self.eval:
            raise UsageError("call accumulate() first")
        p = self.params
        has_keypoints = p.iouType == "keypoints"
        max_dets = 20 if has_keypoints else p.maxDets[:3][-1]  # the third, or the last of fewer
        # Each row: 1 for AP or 0 for AR, the IoU threshold or None for all, the area, and the limit.
        rows: list[tuple[int, float | None, str, int]] = [(1, None, "all", max_dets)]
        rows += [(1, 0.5, "all", max_dets), (1, 0.75, "all", max_dets)]
        areas = ("medium", "large") if has_keypoints else ("small", "medium", "large")
        if has_keypoints:
            rows += [(1, None, area, max_dets) for area in areas]
            rows += [(0, None, "all", max_dets), (0, 0.5, "all", max_dets), (0, 0.75, "all", max_dets)]
        else:
            rows[0] = (1, None, "all", 100)  # as in pycocotools, whatever the limits are
            rows += [(1, None, area, max_dets) for area in areas]
            rows += [(0, None, "all", n) for n in (p.maxDets * 3)[:3]]  # repeated if there are fewer
        rows += [(0, None, area, max_dets) for area in areas]
        *_, ap_limit = rows[0]
        if ap_limit not in p.maxDets:
            warnings.warn(
                f"AP is -1, as in pycocotools: params.maxDets has no {ap_limit}, at which it is reported",
                stacklevel=2,
            )
        self.stats = np.array([self._summarize_one(*row) for row in rows])

    def _summarize_one(self, is_ap: int, threshold: float | None, area: str, max_dets: int) -> float:
        """Print and return a mean of precision (`is_ap`) or recall, -1 if none is defined.

        It is taken at one IoU threshold, or over all if `threshold` is None.
        """
        p = self.params
        area_positions = [i for i, name in enumerate(p.areaRngLbl) if name == area]
        cap_positions = [i for i, n in enumerate(p.maxDets) if n == max_dets]
        values = self.eval["precision" if is_ap else "recall"]
        if threshold is not None:
            values = values[np.where(threshold == np.asarray(p.iouThrs))[0]]
        values = values[..., area_positions, :][..., cap_positions]  # the last axes: area ranges, limits
        defined = values[values > -1]
        mean = float(np.mean(defined)) if len(defined) else -1.0
        first_iou, last_iou = p.iouThrs[0], p.iouThrs[-1]
        ious = f"{first_iou:0.2f}:{last_iou:0.2f}" if threshold is None else f"{threshold:0.2f}"
        title, kind = ("Average Precision", "(AP)") if is_ap else ("Average Recall", "(AR)")
        print_line(
            f" {title:<18} {kind} @[ IoU={ious:<9} | area={area:>6s} | maxDets={max_dets:>3d} ] = {mean:0.3f}"
        )
        return mean

    def __str__(self) -> str:
        self.summarize()
        return ""


def _find_partner(ious: Array, threshold: float, is_free: Array, ignored: Array) -> int:
    """Return the ground truth that a detection matches, -1 if none: the last of the highest IoU. In the
    arrays those that count come before the `ignored` ones, which are taken only if no other can be.
    """
    best_iou, match = min(threshold, 1 - 1e-10), -1  # perfect boxes reach a threshold of 1
    for g in np.flatnonzero(is_free).tolist():
        if match > -1 and not ignored[match] and ignored[g]:
            break
        if not ious[g] < best_iou:  # as in pycocotools, NaN is no smaller
            best_iou, match = ious[g], g
    return match
