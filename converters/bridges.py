"""Datasets to and from the objects of other libraries, each imported only by the function that makes them.

=================  ========================================  =======================================
library            from                                      to
=================  ========================================  =======================================
supervision        `from_supervision`                        `to_supervision`
pandas, polars,    `from_columns`                            `to_columns`
pyarrow
COCO dictionaries  `from_coco`                               `to_coco`
torchvision        `from_torchvision`                        `to_torchvision`
FiftyOne           `from_fiftyone`                           `to_fiftyone`
=================  ========================================  =======================================

`from_object` takes what the first three read, and tells them by their shape. Boxes are in pixels. Scores make
a dataset detections; without them it is ground truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.arrays import to_array
from odm.converters.load import load
from odm.converters.pending import SHAPE_WORDS, Counterpart, Request, as_json
from odm.converters.statistics import areas_of
from odm.files import InMemory
from odm.issues import DataError, Log
from odm.tables import FLAGS, NO_ID, Dataset, Flag, Kind, Longs
from odm.views import import_optional

TAKEN = (
    "a path, a list of paths, a Dataset, a dictionary or a list of results of COCO, a table (pandas, polars, "
    "pyarrow, or columns by name), or Detections of supervision by image"
)
"""For messages: what functions take that take a source, from paths to what `from_object` reads."""
_IGNORED = Flag.CROWD | Flag.REGION
"""Flags of boxes with ``iscrowd``, which is the only mark that other libraries have for regions to ignore."""


def from_object(
    value: Any, kind: Kind | None = None, other: Callable[[], Dataset | None] | None = None
) -> Dataset:
    """Make a dataset from an object of another library, recognised by its structure.

    That is a COCO dictionary, or a list of results in COCO's format; a table with the columns of
    `to_columns`; or what `from_supervision` takes. A list of `supervision.Detections` has one for each image,
    in order.

    Parameters
    ----------
    kind
        ``gt`` or ``det`` where the object does not show it.
    other
        Gives the other side of an evaluation, to whose images the ids of COCO results, or the members of a
        list of `supervision.Detections`, refer.

    Raises
    ------
    TypeError
        If it is none of these.
    ValueError
        As for the function that reads it.
    """
    # `as_json` makes a file in memory of a COCO dictionary and of a list of results, and of nothing else.
    if isinstance(text := as_json(value), InMemory) and isinstance(value, Mapping):
        return _read_json(text, kind)
    if isinstance(value, Mapping) and all(hasattr(member, "xyxy") for member in value.values()):
        return from_supervision(value, kind=kind)
    if hasattr(value, "annotations") and hasattr(value, "classes"):
        return from_supervision(value, kind=kind)
    if isinstance(value, Mapping) or hasattr(value, "columns"):
        return from_columns(value)
    if isinstance(value, (list, tuple)):
        truth = other() if other is not None else None
        if value and isinstance(text, InMemory):
            return _read_json(text, kind, other)
        if not value and truth is not None:  # no detections at all, on the images of the ground truth
            return replace(truth.take(np.zeros(0, np.int64)), kind="det")
        if value and all(hasattr(member, "xyxy") for member in value):
            names = [str(i) for i in range(len(value))] if truth is None else truth.images.name
            if len(names) != len(value):
                raise ValueError(
                    f"a list of Detections has one for each image, found {len(value)} for {len(names)} "
                    f"images; name them: {{name: Detections}}"
                )
            return from_supervision(dict(zip(names, value, strict=True)), kind=kind)
    type_name = type(value).__name__
    if isinstance(value, (list, tuple)) and value:
        type_name += f" of {type(value[0]).__name__}"
    raise TypeError(f"takes {TAKEN}, not {type_name}")


# ------------------------------------------------------------------------------------------ supervision


def from_supervision(
    detections: Any, classes: Sequence[str] | None = None, *, kind: Kind | None = None
) -> Dataset:
    """Make a dataset from a `supervision.DetectionDataset`, or `supervision.Detections` by image name.

    Masks and tracker ids are counted in `Dataset.extras` and not kept.

    Parameters
    ----------
    detections
        The dataset, or a mapping.
    classes
        The names by ``class_id``; without them those of the dataset, or ``data["class_name"]``.
    kind
        ``gt`` or ``det`` where the data do not show it, as with no boxes at all.

    Raises
    ------
    ValueError
        If a class has no name, or only some boxes have a confidence; the message names the image.
    """
    by_image = getattr(detections, "annotations", detections)
    if classes is None:
        classes = getattr(detections, "classes", None)
    images = []
    extras = dict.fromkeys(("masks", "tracks"), 0)
    for name, image_detections in by_image.items():
        n = len(image_detections.xyxy)
        names = image_detections.data.get("class_name") if classes is None else None
        labels = image_detections.class_id if names is None else names
        if n and (labels is None or (names is None and classes is None)):
            raise ValueError(f"image {name}: class_id has no names: pass classes, or set data['class_name']")
        images.append(
            _ImageBoxes(str(name), image_detections.xyxy, labels if n else [], image_detections.confidence)
        )
        extras["masks"] += n if image_detections.mask is not None else 0
        extras["tracks"] += n if image_detections.tracker_id is not None else 0
    dataset = _build_dataset(images, classes, kind)
    return replace(dataset, extras={k: n for k, n in extras.items() if n})


def to_supervision(dataset: Dataset) -> dict[str, Any]:
    """A `supervision.Detections` for each image, by its name; images without boxes have an empty one."""
    _require_pixels(dataset)
    detections = import_optional("supervision").Detections
    boxes, names = dataset.boxes, np.array(dataset.categories.name, object)
    has_scores = dataset.kind == "det"
    result = {}
    for row, rows in _iterate_images(dataset):
        result[dataset.images.name[row]] = detections(
            xyxy=boxes.xyxy[rows].reshape(-1, 4),
            confidence=boxes.score[rows] if has_scores else None,
            class_id=boxes.category[rows].astype(int),
            data={"class_name": names[boxes.category[rows]].astype(str)},
        )
    return result


# ---------------------------------------------------------------------------------------------- columns


def to_columns(dataset: Dataset) -> dict[str, NDArray[Any]]:
    """A row per box, for ``pandas.DataFrame``, ``polars.DataFrame`` or ``pyarrow.table``.

    The columns are ``image``, ``class``, ``left``, ``top``, ``right``, ``bottom``; of detections ``score``;
    ``area`` where the source has areas; and those of ``crowd``, ``difficult``, ``truncated``, ... that
    some box has. Images without boxes have no row.

    Examples
    --------
    >>> from odm.tables import Dataset
    >>> same = {"images": ["a.jpg"], "categories": ["person"], "image": [0], "category": [0]}
    >>> truth = Dataset.from_arrays(**same, ltwh=[[10, 10, 20, 20]])
    >>> [(name, column.tolist()) for name, column in to_columns(truth).items()][:3]
    [('image', ['a.jpg']), ('class', ['person']), ('left', [10.0])]
    """
    _require_pixels(dataset)
    return dataset.boxes.columns()


def from_columns(
    table: Any, *, images: Sequence[str] | None = None, classes: Sequence[str] | None = None
) -> Dataset:
    """Read a dataset from columns as `to_columns` names them: a mapping or table (pandas, polars, pyarrow).

    Parameters
    ----------
    images, classes
        All names, in order; without them those that occur, in the order of their first row.

    Raises
    ------
    ValueError
        If a column is missing or of another length, or a name is not among those given.

    Examples
    --------
    >>> columns = {"image": ["a.jpg"], "class": ["person"], "left": [10], "top": [10]}
    >>> from_columns(columns | {"right": [30], "bottom": [30]})
    <Dataset: ground truth, 1 boxes, images 1 ('a.jpg'), categories 1 ('person')>
    """
    # pyarrow's tables have `column_names`, those of pandas and polars `columns`.
    listed = table if isinstance(table, Mapping) else getattr(table, "column_names", None)
    column_names = {str(name) for name in (table.columns if listed is None else listed)}

    def take_column(name: str) -> NDArray[Any]:
        if name not in column_names:
            raise ValueError(f"there is no column {name!r}; there are: {', '.join(sorted(column_names))}")
        values = table[name]
        return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)

    rows, names = {}, {}
    for role, names_of_role in (("image", images), ("class", classes)):
        values = [str(v) for v in take_column(role).tolist()]
        names[role] = list(dict.fromkeys(values)) if names_of_role is None else list(names_of_role)
        rows[role] = _find_category_rows(values, names[role], role)
    corners = [to_array(take_column(side), side) for side in ("left", "top", "right", "bottom")]
    lengths = {len(c) for c in corners} | {len(r) for r in rows.values()}
    if len(lengths) > 1:
        raise ValueError(f"the columns have different lengths: {', '.join(map(str, sorted(lengths)))}")
    flags = np.zeros(len(rows["image"]), np.uint16)
    for name, flag in FLAGS.items():
        if name in column_names:
            flags[take_column(name).astype(np.bool_)] |= np.uint16(flag)
    return Dataset.from_arrays(
        images=names["image"],
        categories=names["class"],
        image=rows["image"],
        category=rows["class"],
        xyxy=np.stack(corners, axis=1),
        score=to_array(take_column("score"), "score") if "score" in column_names else None,
        area=to_array(take_column("area"), "area") if "area" in column_names else None,
        flags=flags,
    )


# ------------------------------------------------------------------------------------- COCO dictionaries


def to_coco(dataset: Dataset) -> dict[str, list[dict[str, Any]]]:
    """``images``, ``annotations`` and ``categories`` as pycocotools' ``COCO().dataset`` has them.

    Ids are those of the source where all are whole numbers, else they count from 1; those of annotations
    count from 1. Annotations of detections have a ``score``, so the list is also one for ``loadRes``.

    Examples
    --------
    >>> from odm.tables import Dataset
    >>> same = {"images": ["a.jpg"], "categories": ["person"], "image": [0], "category": [0]}
    >>> truth = Dataset.from_arrays(**same, ltwh=[[10, 10, 20, 20]])
    >>> to_coco(truth)["annotations"][0]["bbox"]
    [10.0, 10.0, 20.0, 20.0]
    """
    _require_pixels(dataset)
    images, categories, boxes = dataset.images, dataset.categories, dataset.boxes
    image_ids, category_ids = _choose_ids(images.source_id), _choose_ids(categories.source_id)
    tables = {
        "images": [
            {"id": id_, "file_name": name, "width": width, "height": height}
            for id_, name, width, height in zip(
                image_ids, images.name, images.width.tolist(), images.height.tolist(), strict=True
            )
        ],
        "categories": [
            {"id": id_, "name": name} for id_, name in zip(category_ids, categories.name, strict=True)
        ],
    }
    columns = (
        boxes.image.tolist(),
        boxes.category.tolist(),
        np.hstack([boxes.xyxy[:, :2], boxes.wh]).tolist(),
        areas_of(dataset).tolist(),
        boxes.has(_IGNORED).astype(int).tolist(),
        boxes.score.tolist(),
    )
    annotations: list[dict[str, Any]] = []
    for image, category, bbox, area, crowd, score in zip(*columns, strict=True):
        record = {
            "id": len(annotations) + 1,
            "image_id": image_ids[image],
            "category_id": category_ids[category],
            "bbox": bbox,
            "area": area,
            "iscrowd": crowd,
        }
        annotations.append(record if dataset.kind == "gt" else {**record, "score": score})
    return {**tables, "annotations": annotations}


def from_coco(data: Mapping[str, Any], results: Iterable[Mapping[str, Any]] | None = None) -> Dataset:
    """Read ground truth from a COCO dictionary, or the detections in `results`, which refer to it.

    The dictionary is read like a file: with its shapes and all other keys.

    Raises
    ------
    ValueError
        If a record lacks what it needs or refers to an id that is not there; the message names the record.

    Examples
    --------
    >>> image, category = {"id": 1, "file_name": "a.jpg", "width": 99, "height": 99}, {"id": 1, "name": "dog"}
    >>> box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 10, 20, 20]}
    >>> from_coco({"images": [image], "categories": [category], "annotations": [box]})
    <Dataset: ground truth of '<dictionary>', 1 boxes, images 1 ('a.jpg'), categories 1 ('dog')>
    """
    truth = _read_json(InMemory.from_values("<dictionary>", data), kind=None)
    if results is None:
        return truth
    results_file = InMemory.from_values("<list>", list(results))
    return _read_json(results_file, kind="det", counterpart=lambda: truth)


def _read_json(text: InMemory, kind: Kind | None, counterpart: Counterpart | None = None) -> Dataset:
    """Read a file in memory, with shapes and all other keys. Raises ValueError for its first error."""
    log = Log()
    request = Request(path=text, format="coco", kind=kind, own_fields=True, wants=SHAPE_WORDS)
    try:
        return load(request, log, counterpart=counterpart).dataset
    except DataError as e:
        raise ValueError(str(next((i for i in log.issues if i.severity == "error"), e))) from None


# ------------------------------------------------------------------------------------------ torchvision


def from_torchvision(
    targets: Iterable[Mapping[str, Any]],
    classes: Sequence[str],
    *,
    image_ids: Iterable[Any] | None = None,
    kind: Kind | None = None,
) -> Dataset:
    """Make a dataset from the targets, or the outputs, of torchvision's detection models.

    Parameters
    ----------
    targets
        For each image ``boxes`` (n, 4) as left, top, right, bottom, ``labels`` (n,), and where it is there
        ``scores``, ``iscrowd``, ``area`` and ``image_id``.
    classes
        The names of the labels by number, with the background, such as ``weights.meta["categories"]``.
    image_ids
        A name or number for each image; without them each ``image_id``, or the position.
    kind
        ``gt`` or ``det`` where the data do not show it.

    Raises
    ------
    ValueError
        If a field is missing or does not fit, or a label has no name; the message names the image.
    """
    targets = list(targets)
    if image_ids is None:
        image_ids = [i if t.get("image_id") is None else t["image_id"] for i, t in enumerate(targets)]
    ids = list(map(_to_python, image_ids))
    if len(ids) != len(targets):
        raise ValueError(f"image_ids has {len(ids)} entries for {len(targets)} images")
    image_list = []
    for name, target in zip(map(str, ids), targets, strict=True):
        if "boxes" not in target or "labels" not in target:
            raise ValueError(f"image {name}: there is no {'labels' if 'boxes' in target else 'boxes'}")
        scores, crowd, area = (target.get(key) for key in ("scores", "iscrowd", "area"))
        image_list.append(_ImageBoxes(name, target["boxes"], target["labels"], scores, crowd, area))
    dataset = _build_dataset(image_list, classes, kind)
    if all(isinstance(i, int) for i in ids):
        images = replace(dataset.images, source_id=np.array(ids, np.int64))
        dataset = replace(dataset, images=images)
    return dataset


def to_torchvision(dataset: Dataset) -> list[dict[str, Any]]:
    """A target of torchvision's detection models for each image, in the order of `Dataset.images`.

    ``labels`` are rows of `Dataset.categories`: where the model counts the background as 0, add 1.
    ``image_id`` is that of the source where all are whole numbers, else they count from 1.
    """
    _require_pixels(dataset)
    tensor = import_optional("torch").as_tensor
    boxes = dataset.boxes
    area = areas_of(dataset)
    ids = _choose_ids(dataset.images.source_id)
    targets = []
    for row, rows in _iterate_images(dataset):
        target = {
            "boxes": tensor(boxes.xyxy[rows].astype(np.float32).reshape(-1, 4)),
            "labels": tensor(boxes.category[rows].astype(np.int64)),
            "image_id": ids[row],
        }
        if dataset.kind == "det":
            target["scores"] = tensor(boxes.score[rows].astype(np.float32))
        else:
            target["area"] = tensor(area[rows].astype(np.float32))
            target["iscrowd"] = tensor(boxes.has(_IGNORED)[rows].astype(np.int64))
        targets.append(target)
    return targets


# --------------------------------------------------------------------------------------------- FiftyOne


def from_fiftyone(
    samples: Iterable[Any],
    field: str = "ground_truth",
    classes: Sequence[str] | None = None,
    *,
    kind: Kind | None = None,
) -> Dataset:
    """Make a dataset from the `fiftyone.Detections` in a field of samples, such as a dataset or a view.

    Parameters
    ----------
    classes
        All names, in order; without them the labels that occur, in the order of their first box.
    kind
        ``gt`` or ``det`` where the data do not show it.

    Raises
    ------
    ValueError
        If a sample has no size (call ``compute_metadata``), or a label is not among the classes.
    """
    images = []
    for sample in samples:
        metadata = sample.metadata
        if metadata is None or not metadata.width or not metadata.height:
            raise ValueError(f"{sample.filepath}: the size of the image is unknown: call compute_metadata()")
        size = metadata.width, metadata.height
        value = sample[field]
        detections = value.detections if value is not None else []
        # FiftyOne has left, top, width and height as fractions of the image.
        ltwh = np.array([d.bounding_box for d in detections], np.float64).reshape(-1, 4) * np.tile(size, 2)
        xyxy = np.hstack([ltwh[:, :2], ltwh[:, :2] + ltwh[:, 2:]])
        scores = [d.confidence for d in detections]
        crowd = [bool(getattr(d, "iscrowd", None)) for d in detections]
        confidences = scores if any(s is not None for s in scores) else None
        images.append(
            _ImageBoxes(sample.filepath, xyxy, [d.label for d in detections], confidences, crowd, size=size)
        )
    return _build_dataset(images, classes, kind)


def to_fiftyone(dataset: Dataset, field: str = "ground_truth") -> list[Any]:
    """A `fiftyone.Sample` for each image, with its boxes as `fiftyone.Detections` in `field`.

    Raises
    ------
    ValueError
        If the size of an image with boxes is not known.
    """
    fiftyone = import_optional("fiftyone")
    boxes, images = dataset.boxes, dataset.images
    samples = []
    for row, rows in _iterate_images(dataset):
        size = np.array([images.width[row], images.height[row]], np.float64)
        if len(rows) and not size.all():
            raise ValueError(
                f"image {images.name[row]}: its size is unknown, and FiftyOne's boxes are relative to it"
            )
        detections = [
            fiftyone.Detection(
                label=dataset.categories.name[category],
                bounding_box=[*(start / size).tolist(), *(wh / size).tolist()],
                **({"confidence": score} if dataset.kind == "det" else {}),
                **({"iscrowd": True} if crowd else {}),
            )
            for category, start, wh, score, crowd in zip(
                boxes.category[rows].tolist(),
                boxes.xyxy[rows, :2],
                boxes.wh[rows],
                boxes.score[rows].tolist(),
                boxes.has(_IGNORED)[rows].tolist(),
                strict=True,
            )
        ]
        sample = fiftyone.Sample(filepath=images.path[row] or images.name[row])
        sample[field] = fiftyone.Detections(detections=detections)
        samples.append(sample)
    return samples


# ------------------------------------------------------------------------------------------------ shared


class _ImageBoxes(msgspec.Struct, frozen=True):
    """The n boxes of one image: ``xyxy`` (n, 4) corners in pixels, the others (n,) arrays, None = unknown.

    Labels are positions or names. ``size`` is the width and height of the image, 0 = unknown.
    """

    name: str
    xyxy: Any
    labels: Any
    scores: Any = None
    crowd: Any = None
    area: Any = None
    size: tuple[int, int] = (0, 0)


def _build_dataset(
    images: Sequence[_ImageBoxes], classes: Sequence[str] | None, kind: Kind | None
) -> Dataset:
    """Make a dataset of the boxes of some images. Raises ValueError, naming the image that does not fit.

    `classes` are the names of all classes, None = the labels that occur; a `kind` of None is told by scores.
    """
    # For each image, arrays of its boxes, with NaN for a column that it does not have, and its labels.
    columns: dict[str, list[NDArray[Any]]] = {k: [] for k in ("xyxy", "score", "crowd", "area")}
    labels: list[list[Any]] = []
    for image in images:
        xyxy = to_array(image.xyxy, f"image {image.name}: boxes").astype(np.float64).reshape(-1, 4)
        image_labels = [] if image.labels is None else [_to_python(v) for v in image.labels]
        labels.append(image_labels)
        columns["xyxy"].append(xyxy)
        for key, column_values in (("score", image.scores), ("crowd", image.crowd), ("area", image.area)):
            values = (
                np.full(len(xyxy), np.nan)
                if column_values is None
                else to_array(column_values, f"image {image.name}: {key}")
            )
            columns[key].append(values.astype(np.float64).reshape(-1))
        lengths = {
            len(xyxy),
            len(image_labels),
            *(len(columns[key][-1]) for key in ("score", "crowd", "area")),
        }
        if len(lengths) > 1:
            raise ValueError(f"image {image.name}: boxes, labels and scores differ in length")
    # The empty array before each is for a list of no images.
    score, crowd, area = (np.concatenate([np.zeros(0), *columns[key]]) for key in ("score", "crowd", "area"))
    has_no_score = np.isnan(score)
    n_labels = [len(image_labels) for image_labels in labels]
    if has_no_score.any() and not has_no_score.all():
        # Of images with 2, 0 and 3 boxes, the sums 2 2 5 put box 1 into image 0, and box 2 into image 2.
        unscored = images[int(np.searchsorted(np.cumsum(n_labels), int(has_no_score.argmax()), side="right"))]
        raise ValueError(f"image {unscored.name}: a box has no score, but others have one")
    names = list(
        dict.fromkeys(str(v) for image_labels in labels for v in image_labels) if classes is None else classes
    )
    category_rows = [
        _find_category_rows(image_labels, names, f"image {image.name}: label")
        for image, image_labels in zip(images, labels, strict=True)
    ]
    return Dataset.from_arrays(
        images=[image.name for image in images],
        categories=names,
        image=np.repeat(np.arange(len(images)), n_labels),
        category=np.concatenate([np.zeros(0, np.int64), *category_rows]),
        xyxy=np.concatenate([np.zeros((0, 4)), *columns["xyxy"]]),
        score=None if has_no_score.all() else score,
        flags=np.where(np.nan_to_num(crowd) != 0, int(Flag.CROWD), 0),
        area=area,
        width=[image.size[0] for image in images],
        height=[image.size[1] for image in images],
        kind=kind,
    )


def _find_category_rows(labels: Sequence[Any], names: Sequence[str], subject: str) -> Longs:
    """Return (n,) the position of each label among `names`; a label is a name or a position already.

    Raises ValueError, which begins with `subject`, for a label that is not among them.
    """
    row_of_name = {name: i for i, name in enumerate(names)}
    rows = [row_of_name.get(v, -1) if isinstance(v, str) else int(v) for v in labels]
    bad_label = next((v for v, row in zip(labels, rows, strict=True) if not 0 <= row < len(names)), None)
    if bad_label is not None:
        raise ValueError(f"{subject} {bad_label!r} is not one of the {len(names)} names")
    return np.array(rows, np.int64)


def _to_python(value: Any) -> Any:
    """Return a scalar of NumPy or torch as a number or text of Python."""
    return value.item() if hasattr(value, "item") else value


def _choose_ids(source_ids: NDArray[Any]) -> list[int]:
    """Return the ids of the source if all are different whole numbers, else numbers from 1."""
    ids = source_ids.tolist()
    are_usable = all(isinstance(i, int) and i != NO_ID for i in ids) and len(set(ids)) == len(ids)
    return ids if are_usable else list(range(1, len(ids) + 1))


def _iterate_images(dataset: Dataset) -> Iterable[tuple[int, Longs]]:
    """Yield the row of each image, and the rows of its boxes in their order."""
    order = np.argsort(dataset.boxes.image, kind="stable")
    counts = np.bincount(dataset.boxes.image, minlength=len(dataset.images))
    return enumerate(np.split(order, np.cumsum(counts)[:-1])) if len(dataset.images) else ()


def _require_pixels(dataset: Dataset) -> None:
    """Raise ValueError for coordinates that are fractions of images of unknown size."""
    if dataset.relative:
        raise ValueError("no image has a size, so the boxes are fractions of their images, not pixels")
