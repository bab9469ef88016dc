"""A metric for training loops: batches of detections in, the same numbers out whatever their order.

`Metric` keeps what it is given and evaluates it when asked. Nothing is matched before that, so its state is
small, any protocol can be computed from it, and an image that a sampler gives twice counts once. Images are
ranked by their id, boxes of an image by their position, so neither the order of the batches nor how they are
shared among processes changes a bit of the result. Without ids, images are ranked in the order of input, and
after a merge by a hash of their content, because processes have no order.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from odm.codes import COORDINATES_DIFFER
from odm.evaluate import batches
from odm.evaluate.batches import Batch, BatchReader, ImageBoxes
from odm.evaluate.scores.protocol_overrides import resolve
from odm.issues import DataError, Issue, Log, UsageError
from odm.tables import Builder, Dataset, Kind, Longs

if TYPE_CHECKING:
    from odm.evaluate.results import Evaluation
    from odm.evaluate.scores.protocols import Protocol

BoxFormat = Literal["xyxy", "xywh", "cxcywh"]

_RULES = (
    *("iou", "interpolation", "area", "max_dets", "recall_at", "keep_difficult", "pixels"),
    *("iou_type", "sigmas"),
)
"""The options that change the protocol itself, by `resolve`; `evaluate` takes the others beside it."""
_SWITCHES = (*_RULES, "score_min", "only_classes", "at_score", "class_agnostic")


class Metric:
    """Collect detections and ground truth in batches and compute metrics at the end of an epoch.

    Parameters
    ----------
    classes
        The names of the classes; a label is a position in this list, or a key of a dictionary ``{id: name}``.
    protocol
        A name of `PROTOCOLS`, or several. There is no default: that of the commands is ``voc2012``, but
        most training loops report ``coco``. Protocols that need to know which classes were looked for in each
        image (`lvis`, `openimages-challenge`) are not supported.
    box
        Meaning of a row of ``boxes``: ``xyxy`` (left, top, right, bottom), ``xywh`` (left, top, width,
        height) or ``cxcywh`` (centre, width, height), in pixels.
    switches
        Options that change a protocol, as in `evaluate`: ``iou``, ``interpolation``, ``area``, ``max_dets``,
        ``recall_at``, ``keep_difficult``, ``pixels``, ``score_min``, ``only_classes``, ``at_score``,
        ``class_agnostic``, ``sigmas``, and ``iou_type``: what is compared, boxes (``bbox``), masks (``segm``,
        ``boundary``), ``keypoints`` or oriented boxes (``obb``).

    Raises
    ------
    ValueError
        If a name, protocol or option does not exist, or they cannot be combined.

    Examples
    --------
    >>> metric = Metric(["cat", "dog"], "coco")
    >>> metric.update(
    ...     [{"boxes": [[0, 0, 10, 10]], "scores": [0.9], "labels": [1]}],
    ...     [{"boxes": [[0, 0, 10, 10]], "labels": [1]}],
    ...     image_ids=[7],
    ... )
    >>> round(metric.compute().summary["AP"], 6)
    1.0
    """

    def __init__(
        self,
        classes: Sequence[str] | Mapping[Any, str],
        protocol: str | Sequence[str],
        *,
        box: BoxFormat = "xyxy",
        **switches: Any,
    ) -> None:
        self._class_ids: NDArray[np.int32] | None = None
        if isinstance(classes, Mapping):
            self._class_ids, classes = batches.parse_class_ids(classes)
        self.classes = _check_names(classes)
        if box not in ("xyxy", "xywh", "cxcywh"):
            raise ValueError(f"box {box!r}: choose xyxy, xywh or cxcywh")
        self.protocol = protocol if isinstance(protocol, str) else tuple(protocol)
        self.box = box
        if switches.get("sigmas") is not None:  # they may be an array, which JSON cannot hold
            switches["sigmas"] = np.asarray(switches["sigmas"], np.float64).tolist()
        self.switches = switches
        unknown = sorted(switches.keys() - set(_SWITCHES))
        if unknown:
            raise ValueError(f"{unknown[0]} is not an option of Metric; there are: {', '.join(_SWITCHES)}")
        if missing := set(switches.get("only_classes") or ()) - set(self.classes):
            raise ValueError(f"only_classes: there is no class {min(missing)!r}")
        rules = resolve(self.protocol, **{k: v for k, v in switches.items() if k in _RULES})
        _refuse_unsupported(rules)
        self._iou_type = rules[0].iou_type
        self._reader = BatchReader(len(self.classes), box, self._class_ids, self._iou_type)
        self._batches: list[Batch] = []
        self._merged = False  # whether the batches are of several metrics, so that images have no order
        self._evaluation: Evaluation | None = None  # that of all batches, once it is computed

    def __repr__(self) -> str:
        n = sum(map(len, self._batches))
        return f"<Metric: {self.protocol}, {len(self.classes)} classes, {n} images>"

    def update(self, preds: Any, target: Any, image_ids: Iterable[Any] | None = None) -> None:
        """Add a batch of images.

        Arrays may come from any library: they are detached, moved to the CPU and copied.

        Parameters
        ----------
        preds
            A mapping for each image with ``boxes`` (n, 4), ``scores`` (n,) and ``labels`` (n,); or one
            mapping for the whole batch that also has ``image`` (n,), the id of each row's image.
        target
            The same without ``scores``; optional are ``iscrowd``, ``difficult`` and ``area`` (n,), the last
            in square pixels.

            For other shapes than boxes both have, by ``iou_type``, ``masks``: boolean arrays (n, height,
            width) or n dictionaries of COCO's run lengths (``size`` and ``counts``); ``keypoints``
            (n, k, 3): x, y and visibility; or ``obb``: (n, 5) centre, width, height and angle in radians, or
            four corners, (n, 8) or (n, 4, 2). ``boxes`` may then be left out.
        image_ids
            An integer or a string per image. Without them, a repeated image (samplers pad their last batch)
            cannot be recognised and counts twice, and equal scores rank in the order of input. In the form
            with ``image`` they list the images of the batch; by default these are the images named by either
            side.

        Raises
        ------
        ValueError
            If the batch is invalid; the message names the image and the field, and none of the batch is kept.
        """
        is_flat = isinstance(preds, Mapping)
        batch = (self._reader.read_flat if is_flat else self._reader.read_listed)(preds, target, image_ids)
        if not len(batch):
            return
        if self._batches and (earlier_kind := self._batches[0].id_kind) != batch.id_kind:
            raise ValueError(f"image_ids: earlier batches had {earlier_kind}, this one has {batch.id_kind}")
        self._batches.append(batch)
        self._evaluation = None

    def reset(self) -> None:
        """Discard all batches."""
        self._batches, self._evaluation, self._merged = [], None, False

    def merge(self, others: Metric | Iterable[Metric]) -> None:
        """Add the batches of other metrics, such as those of other processes.

        Raises
        ------
        ValueError
            If the classes, protocol, box format, options or type of ids differ.
        """
        others = [others] if isinstance(others, Metric) else list(others)
        settings, all_metrics = self._get_settings(), [self, *others]
        for metric in others:
            other_settings = metric._get_settings()  # noqa: SLF001 -- of the same class
            if differing_key := next((k for k in settings if settings[k] != other_settings[k]), None):
                raise ValueError(
                    f"merge: the other metric has {differing_key} {other_settings[differing_key]}, "
                    f"this one {settings[differing_key]}"
                )
        all_batches = [*self._batches, *(b for metric in others for b in metric._batches)]  # noqa: SLF001
        if len(kinds := sorted({b.id_kind for b in all_batches})) > 1:
            raise ValueError(f"merge: image_ids are {' in one metric, '.join(kinds)} in another")
        # Images keep their order only if a single metric has some.
        n_filled = sum(bool(each_metric._batches) for each_metric in all_metrics)  # noqa: SLF001
        self._merged = n_filled > 1 or any(each_metric._merged for each_metric in all_metrics)  # noqa: SLF001
        self._batches, self._evaluation = all_batches, None

    def _get_settings(self) -> dict[str, Any]:
        """Return the settings that two metrics must share to be merged, as JSON."""
        settings = {
            "classes": self.classes
            if self._class_ids is None
            else dict(zip(self._class_ids.tolist(), self.classes, strict=True)),
            "protocol": self.protocol,
            "box": self.box,
            "switches": self.switches,
        }
        # To JSON and back, as the settings that `from_bytes` reads: there tuples have become lists.
        json_settings: dict[str, Any] = json.loads(json.dumps(settings, sort_keys=True))
        return json_settings

    # --------------------------------------------------------------------------------------- results

    @property
    def duplicates(self) -> int:
        """The number of images whose id was repeated; each image counts once."""
        ids = Batch.join(self._batches).ids
        return 0 if ids is None else len(ids) - len(set(ids.tolist()))

    def compute(self) -> Evaluation:
        """Evaluate all images so far. The result is cached until the next `update`.

        Raises
        ------
        DataError
            If there is nothing to compare, for example no images; its log says why.
        """
        if self._evaluation is None:
            from odm.evaluate.evaluation import evaluate

            truth, detections = self._make_datasets()
            protocol = self.protocol if isinstance(self.protocol, str) else list(self.protocol)
            try:
                self._evaluation = evaluate(truth, detections, protocol, log=Log(), **self.switches)
            except DataError as e:
                e.log.issues = [_replace_advice(issue) for issue in e.log.issues]
                raise
        return self._evaluation

    def scalars(self, prefix: str = "") -> dict[str, float]:
        """The results of `compute` by name, for a logger: ``coco/AP``, ``coco/AP/person``, ...

        Undefined values are omitted. Characters other than letters, digits, ``_ - . /`` and spaces become
        ``_``; a name that occurs again gets ``_2``, ``_3``, ... A protocol that is evaluated at several IoU
        thresholds has the threshold in its name: ``voc2012_0.75/mAP``.
        """
        scalars: dict[str, float] = {}  # the undefined ones too: names do not depend on what is defined

        def add(name: str, value: float) -> None:
            """Set the value under the cleaned name, or that name with the first free number."""
            clean = re.sub(r"[^\w\-./ ]", "_", name)
            numbered = (f"{clean}_{n}" for n in itertools.count(2))
            while clean in scalars:
                clean = next(numbered)
            scalars[clean] = float(value)

        results = self.compute().results
        has_repeated_protocols = len({r.protocol for r in results}) < len(results)
        for result in results:
            name = (
                f"{result.protocol}_{result.iou:g}"
                if has_repeated_protocols and not result.rules.averaged
                else result.protocol
            )
            for key, value in result.summary.items():
                add(f"{name}/{key}", value)
            for row in result.classes:
                add(f"{name}/AP/{row.name}", row.ap)
        return {prefix + name: value for name, value in scalars.items() if not np.isnan(value)}

    def _make_datasets(self) -> tuple[Dataset, Dataset]:
        """Return the two sides as `evaluate` takes them: every image once, ranked as the module says."""
        batch = Batch.join(self._batches)
        # The images, ranked: by input, by a hash of their content, or by their ids.
        if batch.ids is None and not self._merged:
            order = np.arange(len(batch))
        elif batch.ids is None:
            digests = [hashlib.sha256(content).digest() for content in batch.list_contents()]
            order = np.array(sorted(range(len(digests)), key=digests.__getitem__), np.int64)
        else:
            order = _choose_each_once(batch, batch.ids)
        batch = batch.take(order)
        names = [str(i) for i in (range(len(batch)) if batch.ids is None else batch.ids.tolist())]

        # (images, 2) height and width, which only masks tell.
        size = np.zeros((len(names), 2), np.int32)
        if self._iou_type in ("segm", "boundary"):
            from odm.evaluate.batch_shapes import find_image_sizes

            sides = batch.truth, batch.detections
            image = np.concatenate([np.repeat(np.arange(len(names)), side.count) for side in sides])
            size = find_image_sizes(image, np.concatenate([side.mask_size for side in sides]), len(names))
        truth = self._make_dataset(names, size, batch.truth, "gt")
        return truth, self._make_dataset(names, size, batch.detections, "det")

    def _make_dataset(
        self, names: Sequence[str], size: NDArray[np.int32], side: ImageBoxes, kind: Kind
    ) -> Dataset:
        """Make the dataset of one side, ``gt`` or ``det``; `size` is (images, 2) height and width."""
        builder = Builder()
        builder.kind = kind
        builder.add_images(names, width=size[:, 1], height=size[:, 0])
        for name in self.classes:
            builder.category(name)
        xyxy, wh = side.boxes.astype(np.float64), None  # None: derived from the edges
        if self.box != "xyxy":
            wh = xyxy[:, 2:]
            start = xyxy[:, :2] - wh / 2 if self.box == "cxcywh" else xyxy[:, :2]
            xyxy = np.hstack([start, start + wh])
        # `_class_ids` are ascending, so the position of an id in them is the number of its class.
        builder.boxes(
            image=np.repeat(np.arange(len(names)), side.count),
            category=side.label if self._class_ids is None else np.searchsorted(self._class_ids, side.label),
            xyxy=xyxy,
            wh=wh,
            score=side.score.astype(np.float64) if kind == "det" else None,
            flags=side.flags if kind == "gt" else None,
            area=side.area if len(side.area) else None,
            **self._make_shape_columns(side),
        )
        return builder.build()

    def _make_shape_columns(self, side: ImageBoxes) -> dict[str, Any]:
        """Return the columns of a dataset that hold the shapes of one side, none for boxes."""
        if self._iou_type == "bbox":
            return {}
        from odm.evaluate.batch_shapes import make_shape_tables

        return make_shape_tables(self._iou_type, side.shape, side.n_values)

    # --------------------------------------------------------------------------------------- state

    def to_bytes(self) -> bytes:
        """The state as bytes (not a pickle), to send to another process or to store; see `from_bytes`."""
        return batches.to_bytes(self._get_settings(), Batch.join(self._batches), merged=self._merged)

    @classmethod
    def from_bytes(cls, data: bytes) -> Metric:
        """A metric from the output of `to_bytes`.

        Raises
        ------
        ValueError
            If the bytes are not the state of a metric, are damaged, or have an unknown version.
        """
        settings, batch, merged = batches.from_bytes(data)
        try:
            classes, protocol, box = (settings[k] for k in ("classes", "protocol", "box"))
            metric = cls(classes, protocol, box=box, **settings["switches"])
        except (TypeError, KeyError, UsageError) as e:
            raise ValueError(f"the state of a metric is damaged: {e}") from None
        # The values are checked as those of a batch; the messages name the state in place of an image.
        for side in (batch.detections, batch.truth):
            metric._reader.check(
                side.count, batches.get_columns(side), ["state of a metric"] * len(side.count)
            )
            if metric._iou_type != "bbox" and len(side.n_values) != len(side.label):
                raise ValueError("the state of a metric is damaged: its shapes are missing")
        if len(batch):
            metric._batches.append(batch)
            metric._merged = merged
        return metric


def _check_names(classes: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the classes. Raises ValueError if one is no text, is empty or is listed twice."""
    names = tuple(classes)
    if isinstance(classes, str) or not all(isinstance(name, str) and name for name in names):
        raise ValueError("classes must be a list of names")
    if len(set(names)) < len(names):
        repeated_name = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the class {repeated_name!r} is listed twice")
    return names


def _refuse_unsupported(rules: Sequence[Protocol]) -> None:
    """Raise ValueError for protocols of tracks, and of images that are labelled for some classes only."""
    if tube_protocol := next((p.name for p in rules if p.tubes), None):
        raise ValueError(
            f"{tube_protocol} measures tracks of videos, but Metric takes boxes of images: "
            f"use odm.evaluate.evaluate"
        )
    if labelled_protocol := next((p.name for p in rules if p.labelled_only), None):
        raise ValueError(
            f"{labelled_protocol} needs to know which classes were looked for in each image, which "
            f"Metric does not: use odm.evaluate.evaluate"
        )


def _replace_advice(issue: Issue) -> Issue:
    """Return the issue; for relative coordinates, with advice for `Metric` in place of that for commands."""
    if issue.code != COORDINATES_DIFFER.name:
        return issue
    advice = (
        "Metric takes pixels (box='xyxy', 'xywh' or 'cxcywh'): multiply relative boxes by the width and "
        "height of their image before update()"
    )
    problem = issue.message.rpartition("; ")[0]  # a message ends with its advice
    return replace(issue, message=f"{problem}; {advice}")


def _choose_each_once(batch: Batch, ids: NDArray[Any]) -> Longs:
    """Return the images by rising id, each once: of copies that differ the one with the smallest bytes."""
    # ids[order]      3 5 5 8
    # is_first_copy   1 1 0 1
    # group           0 1 1 2   so positions 1 and 2 of `order` are copies
    order = np.argsort(ids, kind="stable")
    is_first_copy = np.append(True, ids[order[1:]] != ids[order[:-1]])[: len(ids)]  # empty without images
    group = np.cumsum(is_first_copy) - 1
    copied_positions = np.flatnonzero(np.bincount(group, minlength=1)[group] > 1)
    if not len(copied_positions):
        return order
    positions: Longs = order[is_first_copy]
    content = batch.take(order[copied_positions]).list_contents()
    # By falling content, so that of the copies of an image the one with the smallest bytes is written last.
    for k in sorted(range(len(copied_positions)), key=content.__getitem__, reverse=True):
        positions[group[copied_positions[k]]] = order[copied_positions[k]]
    return positions
