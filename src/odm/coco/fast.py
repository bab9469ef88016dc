"""An evaluation of pycocotools' objects by odm's engine, all images at once."""

from __future__ import annotations

import warnings
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.evaluate import PROTOCOLS, join, match
from odm.evaluate.matching.matches import Matches
from odm.evaluate.matching.ready import adapt_to_shapes
from odm.evaluate.scores.curves import make_curve_arrays
from odm.evaluate.scores.protocols import BY_IOU_TYPE, Protocol
from odm.evaluate.scores.set_ups import AreaRange
from odm.formats.coco.shapes import read_shapes
from odm.issues import DataError, Log
from odm.masks.runs import offsets
from odm.tables import Builder, Dataset, Kind, Shapes

Array = NDArray[Any]
Records = list[dict[str, Any]]


def match_all(evaluation: Any) -> Matches | None:
    """Return the matches of an evaluation; None if parameters or records are unusual, or (it warns) unfit."""
    p = evaluation.params
    if not _is_usual(p) or not len(p.imgIds) or not len(p.catIds):
        return None
    class_position = {category: i for i, category in enumerate(p.catIds)}
    truth, detections = (
        _list_records(side, class_position)
        for side in (evaluation._gts, evaluation._dts)  # noqa: SLF001 -- one class in two files
    )
    # pycocotools takes an id of 0 for "no match", and compares the stated area, not that of the box.
    try:
        sizes = _find_mask_sizes(p, truth + detections)
        if sizes is None or any(record["id"] <= 0 for side in (truth, detections) for record in side):
            return None
        truth_table = _make_tables(truth, p, sizes, "gt")
        det_table = _make_tables(detections, p, sizes, "det")
    except KeyError:  # a field is missing: compared one by one, this is an error only where it is needed
        return None
    if truth_table is None or det_table is None:
        return None
    try:
        joined = join(truth_table, det_table, Log())
    except DataError as e:
        # The message of the first error, without the advice after its semicolon.
        problem = next((issue.message for issue in e.log if issue.severity == "error"), e.args[0])
        warnings.warn(f"{problem.split(';')[0]}; compared all the same, as pycocotools does", stacklevel=3)
        return None
    protocol = _make_protocol(p)
    joined, (protocol,) = adapt_to_shapes(joined, [protocol], truth_table, det_table, Log())
    return match(joined, protocol)


def _list_records(side: dict[tuple[Any, Any], Records], class_position: dict[Any, int]) -> Records:
    """List the records of a side, which has them by (image, category), in the order of the categories."""
    pairs = [(image, category) for image, category in side if category in class_position]
    pairs.sort(key=lambda pair: class_position[pair[1]])
    return [record for pair in pairs for record in side[pair]]


def make_arrays(evaluation: Any, p: Any) -> dict[str, Array] | None:
    """Return the arrays of `COCOeval.eval`; None if `p` are not the parameters that `evaluation` was made
    with, or have other recalls than COCO's.
    """
    evaluated, matches = evaluation._paramsEval, evaluation._matches  # noqa: SLF001
    categories = list(evaluated.catIds) if evaluated.useCats else [-1]
    is_same = (
        list(p.catIds) == categories
        and list(p.imgIds) == list(evaluated.imgIds)
        and np.array_equal(p.iouThrs, evaluated.iouThrs)
        and np.array_equal(p.recThrs, np.linspace(0, 1, 101))
        and [tuple(a) for a in p.areaRng] == [tuple(a) for a in evaluated.areaRng]
        and list(p.maxDets) == list(evaluated.maxDets)
    )
    if not is_same:
        return None
    curves = make_curve_arrays(matches)
    rows = [matches.classes.index(str(category)) for category in categories]
    # (thresholds, recalls, classes, area ranges, limits); recall is without the second.
    arrays = curves.precision[:, :, rows], curves.recall[:, rows], curves.scores[:, :, rows]
    return dict(zip(("precision", "recall", "scores"), map(np.ascontiguousarray, arrays), strict=True))


def _is_usual(p: Any) -> bool:
    """Whether the engine can evaluate with these parameters: rising IoUs in 0..1, nothing else repeated."""
    ious, limits = list(p.iouThrs), list(p.maxDets)
    return (
        ious == sorted(set(ious))
        and 0 < ious[0] <= ious[-1] <= 1
        and len(set(limits)) == len(limits)
        and limits[0] > 0  # `evaluate` sorted them
        and len(set(p.catIds)) == len(p.catIds)
        and 0 < len({*p.areaRngLbl}) == len(p.areaRng) == len(p.areaRngLbl)
    )


def _make_protocol(p: Any) -> Protocol:
    """Return the protocol for pycocotools' parameters."""
    areas = tuple(
        AreaRange(name, float(low), float(high))
        for name, (low, high) in zip(p.areaRngLbl, p.areaRng, strict=True)
    )
    changed = BY_IOU_TYPE.get(p.iouType, {}).get("coco", {})  # nothing for boxes
    rules = replace(PROTOCOLS["coco"], **changed)
    settings: dict[str, Any] = {
        "ious": tuple(float(t) for t in p.iouThrs),
        "areas": areas,
        "max_dets": int(p.maxDets[-1]),
        "recall_at": tuple(int(n) for n in p.maxDets),
    }
    if p.iouType == "keypoints":
        settings["sigmas"] = tuple(float(s) for s in p.kpt_oks_sigmas)
    return replace(rules, **settings)


def _find_mask_sizes(p: Any, records: Records) -> Array | None:
    """(images, 2) height and width of the masks of each image, 0 without masks; None where they differ."""
    size_of_image = np.zeros((len(p.imgIds), 2), np.int32)
    if p.iouType == "segm":
        row_of_image = {image: row for row, image in enumerate(p.imgIds)}
        rows = np.array([row_of_image[r["image_id"]] for r in records], np.int64)
        sizes = np.array([r["segmentation"]["size"] for r in records], np.int32).reshape(-1, 2)
        size_of_image[rows] = sizes
        if (size_of_image[rows] != sizes).any():
            return None
    return size_of_image


def _make_tables(records: Records, p: Any, sizes: Array, kind: Kind) -> Dataset | None:
    """Return the records as tables: an image for each of `imgIds`, in that order, and a class for each
    category. None if a shape or box is wrong, or an area of detections is not that of the box.
    """
    builder = Builder()
    images, categories = list(p.imgIds), list(p.catIds) if p.useCats else [-1]
    builder.add_images(
        [f"{i:09d}" for i in range(len(images))],
        width=sizes[:, 1],
        height=sizes[:, 0],
        source_id=range(len(images)),
    )
    for category in categories:
        builder.category(str(category))

    n_records = len(records)
    row_of_image = {image: row for row, image in enumerate(images)}
    row_of_class = {category: row for row, category in enumerate(categories)}
    image_row = np.array([row_of_image[r["image_id"]] for r in records], np.int64)
    row_of_category = [row_of_class[r["category_id"]] if p.useCats else 0 for r in records]
    if p.iouType == "bbox" or (p.iouType == "keypoints" and kind == "gt"):
        try:
            ltwh = np.array([r["bbox"] for r in records], np.float64).reshape(n_records, 4)
        except ValueError:  # more than four numbers, which only a subclass can compare
            return None
    else:
        # Masks and keypoints are compared, not boxes; only an object without labelled points needs its box.
        ltwh = np.tile([0.0, 0, 1, 1], (n_records, 1))

    area = np.array([r["area"] for r in records], np.float64)
    score = None
    if kind == "det":
        score = np.array([r["score"] for r in records], np.float64)
        if p.iouType == "bbox" and not np.array_equal(area, ltwh[:, 2] * ltwh[:, 3]):
            return None  # the engine takes areas of boxes
    with np.errstate(over="ignore", invalid="ignore"):
        xyxy = np.concatenate([ltwh[:, :2], ltwh[:, :2] + ltwh[:, 2:]], axis=1)
    shapes = _make_shapes(records, p.iouType, sizes[image_row], kind)
    if shapes is None:
        return None
    # As flags: an ``iscrowd`` of 1 is the bit of `Flag.CROWD`.
    builder.boxes(
        image=image_row,
        category=np.array(row_of_category, np.int64),
        xyxy=xyxy,
        wh=ltwh[:, 2:],
        score=score,
        area=area,
        flags=None if kind == "det" else np.array([bool(r["iscrowd"]) for r in records]).astype(np.uint16),
        **shapes,
    )
    builder.kind = kind
    return builder.build()


def _make_shapes(records: Records, iou_type: str, size: Array, kind: Kind) -> dict[str, Any] | None:
    """Return the shapes of the records as columns of a dataset; None if one is wrong.

    The records are then compared one by one, which raises the error of pycocotools.
    """
    if iou_type == "bbox":
        return {}
    if iou_type == "keypoints":
        encode = msgspec.json.Encoder(enc_hook=_to_plain).encode
        columns = {"keypoints": [encode(r["keypoints"]) for r in records]}
        if kind == "gt":
            columns["num_keypoints"] = [encode(r["num_keypoints"]) for r in records]
        shapes = read_shapes(columns, len(records))
        return None if shapes.faults else {"keypoints": shapes.keypoints}
    texts = [r["segmentation"]["counts"] for r in records]
    texts = [text if isinstance(text, bytes) else text.encode() for text in texts]
    masks = Shapes.of_masks(np.frombuffer(b"".join(texts), np.uint8), offsets(np.array([*map(len, texts)])))
    measured = masks.measure_masks(size[:, 0])
    is_wrong = measured.is_wrong | (measured.n_run_pixels != size.prod(axis=1, dtype=np.int64))
    return None if is_wrong.any() else {"shapes": masks}


def _to_plain(value: Any) -> Any:
    """Return an array or a number of NumPy as JSON can write it."""
    return value.tolist()
