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

_MOST = 16
"""Area ranges that are matched at once."""
_RULES = ("computeIoU", "computeOks", "evaluateImg", "_prepare")
"""What programs replace to match by rules of their own, which are then followed image by image."""


class Params:
    """Parameters of an evaluation, with pycocotools' names and values."""

    def __init__(self, iouType: str = "segm") -> None:  # noqa: N803
        if iouType not in ("segm", "bbox", "keypoints"):
            raise UsageError(f"iouType {iouType!r}: choose segm, bbox or keypoints")
        self.imgIds: Any = []
        self.catIds: Any = []
        self.iouThrs: Any = np.linspace(0.5, 0.95, 10)
        self.recThrs: Any = np.linspace(0.0, 1.00, 101)
        self.useCats: Any = 1
        self.useSegm: Any = None
        self.iouType = iouType
        small, medium, end = 32**2, 96**2, 1e5**2
        if iouType == "keypoints":
            self.maxDets: Any = [20]
            self.areaRng: Any = [[0, end], [small, medium], [medium, end]]
            self.areaRngLbl: Any = ["all", "medium", "large"]
            self.kpt_oks_sigmas: Any = np.array(COCO_SIGMAS)  # programs scale it in place
        else:
            self.maxDets = [1, 10, 100]
            self.areaRng = [[0, end], [0, small], [small, medium], [medium, end]]
            self.areaRngLbl = ["all", "small", "medium", "large"]

    setDetParams = setKpParams = __init__  # noqa: N815


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
        self.cocoGt, self.cocoDt = cocoGt, cocoDt
        self.params = Params(iouType)
        self._paramsEval: Any = {}
        self.stats: Any = []
        self.eval: Any = {}
        self._matches: Any = None
        self._eval_imgs: Any = defaultdict(list)  # None: made when somebody looks at them
        self._ious: Any = {}
        self._gts: Any = defaultdict(list)
        self._dts: Any = defaultdict(list)
        if cocoGt is not None:
            self.params.imgIds = sorted(cocoGt.getImgIds())
            self.params.catIds = sorted(cocoGt.getCatIds())

    # ------------------------------------------------------------------------------------------- evaluate

    def evaluate(self) -> None:
        """Match the detections of all images under all thresholds and area ranges."""
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
        self._matches = match_all(self) if is_unmodified and len(p.areaRng) <= _MOST else None
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
        """Set ``ignore`` of all ground truths; an evaluation of another type may have set it since."""
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
            overlaps = self.computeOks if p.iouType == "keypoints" else self.computeIoU
            self._ious = {(i, c): overlaps(i, c) for i in p.imgIds for c in categories}
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
        """The record of each category, area range and image.

        None where there are neither detections nor ground truth.

        `accumulate` uses this list, also after changes, once it was looked at.
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
        if self._eval_imgs is None:  # what is done to the overlaps now does not change the matches
            self._match_each()
        return self._ious  # type: ignore[no-any-return]

    @ious.setter
    def ious(self, value: dict[tuple[Any, Any], Any]) -> None:
        if self._eval_imgs is None:
            self._match_each()
        self._ious = value

    def _of(self, image: Any, category: Any) -> tuple[list[Record], list[Record]]:
        """The ground truths of an image and category, and the detections by descending score."""
        p = self.params
        if p.useCats:
            gt, dt = self._gts[image, category], self._dts[image, category]
        else:
            gt = [record for c in p.catIds for record in self._gts[image, c]]
            dt = [record for c in p.catIds for record in self._dts[image, c]]
        order = np.argsort([-record["score"] for record in dt], kind="mergesort")
        return gt, [dt[i] for i in order]

    def computeIoU(self, imgId: Any, catId: Any) -> Any:  # noqa: N802, N803
        """(detections, ground truths) overlaps of an image and category; ``[]`` if there are none."""
        p = self.params
        gt, dt = self._of(imgId, catId)
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
        gts, dts = self._of(imgId, catId)
        dts = dts[: p.maxDets[-1]]
        if not gts or not dts:
            return []
        oks = np.zeros((len(dts), len(gts)))
        variances = (np.asarray(p.kpt_oks_sigmas) * 2) ** 2
        points = [np.array(dt["keypoints"]) for dt in dts]
        for j, gt in enumerate(gts):
            x, y, seen = np.array(gt["keypoints"]).reshape(-1, 3).T
            labelled = int(np.count_nonzero(seen > 0))
            left, top, width, height = gt["bbox"]
            for i, other in enumerate(points):
                xd, yd = other[0::3], other[1::3]
                if labelled:
                    dx, dy = xd - x, yd - y
                else:  # how far the points are from twice the box
                    dx = np.maximum(0, left - width - xd) + np.maximum(0, xd - (left + width * 2))
                    dy = np.maximum(0, top - height - yd) + np.maximum(0, yd - (top + height * 2))
                e = (dx**2 + dy**2) / variances / (gt["area"] + np.spacing(1)) / 2
                e = e[seen > 0] if labelled else e
                oks[i, j] = np.sum(np.exp(-e)) / e.shape[0]
        return oks

    def evaluateImg(self, imgId: Any, catId: Any, aRng: Any, maxDet: int) -> Record | None:  # noqa: N802, N803
        """Return the record of ``evalImgs`` for an image and category, None if it has neither detections
        nor ground truth.
        """
        p = self.params
        gt, dt = self._of(imgId, catId)
        if not gt and not dt:
            return None
        outside = [bool(g["ignore"] or g["area"] < aRng[0] or g["area"] > aRng[1]) for g in gt]
        order = np.argsort(outside, kind="mergesort")
        gt, ignored = [gt[i] for i in order], np.array(outside, int)[order] if gt else np.zeros(0, int)
        dt = dt[:maxDet]
        crowd = [int(g["iscrowd"]) for g in gt]
        image_ious = self.ious[imgId, catId]
        ious = image_ious[:, order] if len(image_ious) else image_ious
        n_thresholds = len(p.iouThrs)
        gt_matches, dt_matches = np.zeros((n_thresholds, len(gt))), np.zeros((n_thresholds, len(dt)))
        dt_ignored = np.zeros((n_thresholds, len(dt)))
        for t, threshold in enumerate(p.iouThrs if len(ious) else ()):
            for d, detection in enumerate(dt):
                best, taken = min(threshold, 1 - 1e-10), -1
                for g in range(len(gt)):
                    if gt_matches[t, g] > 0 and not crowd[g]:
                        continue
                    if taken > -1 and not ignored[taken] and ignored[g]:
                        break  # those that count stand first
                    if not ious[d, g] < best:  # as there, also for NaN
                        best, taken = ious[d, g], g
                if taken > -1:
                    dt_ignored[t, d] = ignored[taken]
                    dt_matches[t, d], gt_matches[t, taken] = gt[taken]["id"], detection["id"]
        beyond = np.array([d["area"] < aRng[0] or d["area"] > aRng[1] for d in dt]).reshape(1, len(dt))
        dt_ignored = np.logical_or(dt_ignored, np.logical_and(dt_matches == 0, beyond))
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
        """Compute precision and recall from the matches: ``eval``, with pycocotools' arrays."""
        if not self._paramsEval:
            raise UsageError("call evaluate() first")
        start = time.time()
        print_line("Accumulating evaluation results...")
        p = self.params if p is None else p
        p.catIds = p.catIds if p.useCats == 1 else [-1]
        shape = len(p.iouThrs), len(p.recThrs), len(p.catIds), len(p.areaRng), len(p.maxDets)
        arrays = None
        if self._matches is not None:
            from odm.coco.fast import arrays_of

            arrays = arrays_of(self, p)
        self.eval = {
            "params": p,
            "counts": list(shape),
            "date": dt.datetime.now().strftime("%Y-%m-%d %H:%M:%S"),  # noqa: DTZ005 -- as there
            **(self._accumulate(p, shape) if arrays is None else arrays),
        }
        print_line(f"DONE (t={time.time() - start:0.2f}s).")

    def _accumulate(self, p: Any, shape: tuple[int, ...]) -> dict[str, Array]:
        """Compute the arrays of ``eval`` from ``evalImgs``."""
        precision, scores = -np.ones(shape), -np.ones(shape)
        recall = -np.ones((shape[0], *shape[2:]))
        params, evaluated = p, self._paramsEval
        categories = evaluated.catIds if evaluated.useCats else [-1]
        ranges = [tuple(area) for area in evaluated.areaRng]
        n_ranges, n_images = len(ranges), len(evaluated.imgIds)
        images = [n for n, image in enumerate(evaluated.imgIds) if image in set(params.imgIds)]
        of_category = {category: k for k, category in enumerate(categories)}
        if self._eval_imgs is None:
            self._match_each()
        all_records = self._eval_imgs
        for k, category in enumerate(params.catIds):
            if category not in of_category:
                continue
            for a, area in enumerate(params.areaRng):
                if tuple(area) not in ranges:
                    continue
                first = (of_category[category] * n_ranges + ranges.index(tuple(area))) * n_images
                records = [all_records[first + n] for n in images]
                records = [record for record in records if record is not None]
                if not records:
                    continue
                for m, most in enumerate(params.maxDets):
                    self._one(records, most, p, (k, a, m), precision, recall, scores)
        return {"precision": precision, "recall": recall, "scores": scores}

    @staticmethod
    def _one(
        records: Sequence[Record],
        most: int,
        p: Any,
        at: tuple[int, int, int],
        precision: Array,
        recall: Array,
        scores: Array,
    ) -> None:
        """Fill in the numbers of one category, area range and number of detections."""
        score = np.concatenate([record["dtScores"][0:most] for record in records])
        order = np.argsort(-score, kind="mergesort")
        score = score[order]
        matches = np.concatenate([record["dtMatches"][:, 0:most] for record in records], axis=1)[:, order]
        ignored = np.concatenate([record["dtIgnore"][:, 0:most] for record in records], axis=1)[:, order]
        npos = np.count_nonzero(np.concatenate([record["gtIgnore"] for record in records]) == 0)
        if npos == 0:
            return
        true = np.cumsum(np.logical_and(matches, np.logical_not(ignored)), axis=1).astype(float)
        false = np.cumsum(np.logical_and(np.logical_not(matches), np.logical_not(ignored)), axis=1).astype(
            float
        )
        for t, (tp, fp) in enumerate(zip(true, false, strict=True)):
            reached = tp / npos
            recall[(t, *at)] = reached[-1] if len(tp) else 0
            envelope = tp / (fp + tp + np.spacing(1))
            envelope = np.maximum.accumulate(envelope[::-1])[::-1]
            where = np.searchsorted(reached, p.recThrs, side="left")
            inside = where < len(tp)
            curve = np.zeros((2, len(p.recThrs)))
            curve[:, inside] = envelope[where[inside]], score[where[inside]]
            precision[t, :, at[0], at[1], at[2]], scores[t, :, at[0], at[1], at[2]] = curve

    # ------------------------------------------------------------------------------------------ summarize

    def summarize(self) -> None:
        """Print the twelve numbers, ten for keypoints, and keep them in ``stats``."""
        if not self.eval:
            raise UsageError("call accumulate() first")
        p = self.params
        points = p.iouType == "keypoints"
        most = 20 if points else p.maxDets[2] if len(p.maxDets) > 2 else p.maxDets[-1]
        rows: list[tuple[int, float | None, str, int]] = [(1, None, "all", most), (1, 0.5, "all", most)]
        rows.append((1, 0.75, "all", most))
        areas = ("medium", "large") if points else ("small", "medium", "large")
        if points:
            rows += [(1, None, area, most) for area in areas]
            rows += [(0, None, "all", most), (0, 0.5, "all", most), (0, 0.75, "all", most)]
        else:
            rows[0] = (1, None, "all", 100)
            rows += [(1, None, area, most) for area in areas]
            rows += [(0, None, "all", n) for n in (p.maxDets * 3)[:3]]
        rows += [(0, None, area, most) for area in areas]
        if rows[0][3] not in p.maxDets:
            warnings.warn(
                f"AP is -1, as in pycocotools: params.maxDets has no {rows[0][3]}, at which it is reported",
                stacklevel=2,
            )
        self.stats = np.array([self._summarized(*row) for row in rows])

    def _summarized(self, ap: int, threshold: float | None, area: str, most: int) -> float:
        p = self.params
        which = [i for i, name in enumerate(p.areaRngLbl) if name == area]
        caps = [i for i, n in enumerate(p.maxDets) if n == most]
        values = self.eval["precision" if ap else "recall"]
        if threshold is not None:
            values = values[np.where(threshold == np.asarray(p.iouThrs))[0]]
        values = values[..., which, :][..., caps]
        defined = values[values > -1]
        mean = float(np.mean(defined)) if len(defined) else -1.0
        first, last = p.iouThrs[0], p.iouThrs[-1]
        ious = f"{first:0.2f}:{last:0.2f}" if threshold is None else f"{threshold:0.2f}"
        title, kind = ("Average Precision", "(AP)") if ap else ("Average Recall", "(AR)")
        print_line(
            f" {title:<18} {kind} @[ IoU={ious:<9} | area={area:>6s} | maxDets={most:>3d} ] = {mean:0.3f}"
        )
        return mean

    def __str__(self) -> str:
        self.summarize()
        return ""
