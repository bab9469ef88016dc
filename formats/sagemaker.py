"""SageMaker Ground Truth: an augmented manifest, one JSON record per line.

Specification: "Bounding Box Job Output" in the documentation of Amazon SageMaker
(https://docs.aws.amazon.com/sagemaker/latest/dg/sms-data-output.html)::

    {"source-ref": "s3://bucket/photos/a.jpg",
     "job": {"image_size": [{"width": 640, "height": 480, "depth": 3}],
             "annotations": [{"class_id": 0, "left": 10, "top": 20, "width": 100, "height": 200}]},
     "job-metadata": {"class-map": {"0": "person"}, "objects": [{"confidence": 0.94}],
                      "type": "groundtruth/object-detection", "human-annotated": "yes"}}

Edges are in pixels, read and written unchanged. Each record is on one line. The labels are under the name of
the job, and the meaning of their ids under that name with ``-metadata``. If a record has several jobs with
boxes, the first is read, or the one given by ``-O job=NAME``. A record without one has not been labelled: it
is counted but not read. An empty list of annotations is an image without objects.

The image name is ``source-ref`` without ``s3://`` and the bucket. Rekognition Custom Labels uses the same
manifests. A single file, or the ``.manifest`` and ``.jsonl`` files of a folder, are read; if their name, or
else their folder, is ``train``, ``validation``, ``test`` or similar, it gives the split.

Records annotated by people have ``"human-annotated": "yes"``. If all records with boxes have ``no``, they are
detections, and ``confidence`` is the score; otherwise it is ignored. ``--kind`` overrides this.

Writing: the job is called ``labels`` (``-O job=NAME``), ``-O prefix=s3://bucket/folder`` is put before the
image names, and every record lists all classes.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from typing import Any

import msgspec

from odm.files import Output, Source
from odm.formats._contract import SURE, option
from odm.formats._shared.codes import UNKNOWN_CLASS
from odm.formats._shared.gather import NAN, Corners
from odm.formats._shared.json.columns import show
from odm.formats._shared.json.items import BadRecord, Item, Row, iter_images, plan_file, read_line_items
from odm.formats._shared.json.preview import JsonPreview, json_format_of
from odm.formats._shared.json.values import Reader, choose_files, dump
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.split_names import SplitOptions, normalise_split, parse_split, select_split
from odm.issues import Log, Trusted, printable, spell_setting
from odm.tables import Builder, Dataset

_KEYS = declare_keys(
    "{} source-ref annotations class_id left top width height image_size depth objects confidence "
    "class-map{} type human-annotated creation-date job-name"
)
_SUFFIXES = (".manifest", ".jsonl")
_METADATA = "-metadata"
_PLACE = ("left", "top", "width", "height")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SagemakerOptions(SplitOptions):
    """Options of manifests."""

    job: str = option("", "name of the labelling job, the key of its labels")
    prefix: str = option("", "prefix of the image names, as in s3://bucket/folder", side="write")


def looks_like(preview: JsonPreview, head: bytes) -> tuple[int, str] | None:
    """Recognise records with a source-ref and a job's labels by the first one's keys and how values begin."""
    if preview.top != "{" or preview.keys.get("source-ref") != '"':
        return None
    if any(key.endswith(_METADATA) for key in preview.keys) and b'"annotations"' in head:
        return SURE, "its records have a source-ref and the labels of a job, as SageMaker Ground Truth has"
    return None


def read(source: Source, builder: Builder, log: Log, options: SagemakerOptions) -> None:
    """Read the records one by one; their boxes after all of them, when the kind of the data is known."""
    reader = Reader(source, builder, log, options, sized=True, keys=_KEYS)  # the files state image sizes
    chosen_split = normalise_split(options.split)
    files = choose_files(source, looks_like, "a manifest of SageMaker Ground Truth", log, _SUFFIXES)
    path = source.path.replace("\\", "/")
    chosen_files = select_split(files, lambda file: parse_split(file or path), chosen_split, source, log)
    collected = _Collected(jobs={}, drawn=Counter(), boxes=[])
    for file in log.track(chosen_files, "reading"):
        for record in read_line_items(reader, file):
            with contextlib.suppress(BadRecord):
                _read_record(record, options.job, parse_split(file or path), collected)
    if builder.kind is None:  # then detections if machines drew all boxes
        builder.kind = "det" if collected.drawn[False] and not collected.drawn[True] else "gt"
    for box, category, corners, wh, score in collected.boxes:
        box.add(category, corners, wh=wh, score=score if builder.kind == "det" else NAN)
    if len(collected.jobs) > 1 and not options.job:
        jobs = ", ".join(map(printable, collected.jobs))
        log.note(
            f"{printable(source.path)}: there are several jobs ({jobs}); "
            f"{spell_setting('job=NAME')} chooses one"
        )
    reader.finish(field="confidence")


class _Collected(msgspec.Struct):
    """The jobs and boxes of all records, collected until the kind is known."""

    jobs: dict[str, None]
    """The names of the jobs with boxes, in order."""
    drawn: Counter[bool]
    """The number of boxes by whether people drew them."""
    boxes: list[tuple[Row, int, Corners, tuple[float, float], float]]
    """The row, category, corners, width and height, and confidence of each."""


def _drop_bucket(reference: str) -> str:
    """The image name: ``folder/a.jpg`` for ``s3://bucket/folder/a.jpg``, other texts unchanged."""
    return reference.partition("://")[2].partition("/")[2] if reference.startswith("s3://") else reference


def _read_record(record: Item, job: str, split: str, collected: _Collected) -> None:
    """Add the image of a record, and collect the boxes of `job`, or of its first job if that is empty."""
    reader, content = record.reader, record.record
    # "cars" for {"cars": {"annotations": ...}, "cars-metadata": {...}}.
    jobs = [k[: -len(_METADATA)] for k, v in content.items() if k.endswith(_METADATA) and isinstance(v, dict)]
    with_labels = [key for key in jobs if isinstance(content.get(key), dict)]
    jobs_with_boxes = [key for key in with_labels if "annotations" in content[key]]
    collected.jobs |= dict.fromkeys(jobs_with_boxes)
    job = job or next(iter(jobs_with_boxes), "")
    if job not in jobs_with_boxes:
        if "source-ref" in record:
            reader.count("records without boxes of a job")
        else:
            record.report_missing("source-ref")
        return
    labels, metadata = record.object(job), record.object(job + _METADATA)
    # Other keys may be names of other jobs, so they are all counted here (`free`).
    record.count_unread(frozenset({"source-ref", job, job + _METADATA}), free=True)
    boxes = labels.rows("annotations")
    classes = metadata.object("class-map", optional=True).record
    objects = metadata.array("objects")
    first_size = next(labels.items("image_size"), None)
    size = None if first_size is None else first_size.size("width", "height")
    image = record.image("source-ref", _drop_bucket, size=size, split=split)
    if image is None:
        return
    for key in sorted(classes, key=lambda key: (len(key), key)):  # "2" before "10"
        reader.category(classes[key], record.location / "class-map", listed=True)
    by_people = str(metadata.get("human-annotated", "yes")).lower() != "no"
    collected.drawn[by_people] += len(boxes)
    boxes.read(image, _read_box, objects, classes, collected)


def _read_box(box: Row, objects: list[Any], classes: dict[str, Any], collected: _Collected) -> None:
    """Collect a box; its confidence is in the entry of `objects` with the same index."""
    box.need("class_id")
    name, category = classes.get(str(box.get("class_id"))), -1  # -1 is not used: the box is then bad
    if name is None:
        value, list_name = Trusted(show(box.get("class_id"))), Trusted("its class-map")
        box.report(UNKNOWN_CLASS, "class_id", value=value, n=len(classes), where=list_name)
        box.mark_bad()
    else:
        category = box.category_named(name, box.location / "class_id")
    corners, wh = box.xywh(*_PLACE)
    index = int(box.location.pointer.rpartition("/")[2])  # of /labels/annotations/7: 7
    object_metadata = objects[index] if index < len(objects) and isinstance(objects[index], dict) else {}
    score = box.reader.check_score(object_metadata.get("confidence"), box.location / "confidence")
    if score is None or box.is_bad:
        box.mark_bad()
        return
    collected.boxes.append((box, category, corners, wh, score))


def write(dataset: Dataset, target: Output, log: Log, options: SagemakerOptions) -> None:
    """Write a record for each image, with the labels of one job."""
    classes, job = dataset.categories.name, options.job or "labels"
    prefix = options.prefix.rstrip("/") + "/" if options.prefix else ""
    name = plan_file(dataset, target, "output.manifest", "records", log)
    if name is None or (classes and not len(dataset.images)):
        return  # without images there is no record for the classes to stand in
    metadata = {
        "class-map": {str(i): label for i, label in enumerate(classes)},
        "type": "groundtruth/object-detection",
        "human-annotated": "no" if dataset.kind == "det" else "yes",
        "job-name": f"labeling-job/{job}",
    }
    number_of = {label: i for i, label in enumerate(classes)}
    lines = []
    for image in iter_images(dataset):
        annotations = [
            {"class_id": number_of[box.label]} | dict(zip(_PLACE, [*box.xyxy[:2], *box.wh], strict=True))
            for box in image.boxes
        ]
        size = {"width": image.width, "height": image.height, "depth": 3}
        record = {
            "source-ref": prefix + image.name,
            job: {"image_size": [size], "annotations": annotations},
            job + _METADATA: {"objects": [box.score_field("confidence") for box in image.boxes], **metadata},
        }
        lines.append(dump(record) + "\n")
    target.write(name, "".join(lines).encode())


FORMAT = json_format_of(
    __name__,
    title="SageMaker Ground Truth manifest",
    use="annotation tools",
    written_by="SageMaker Ground Truth output manifest, Roboflow",
    suffixes=(".manifest",),
    looks_at=_SUFFIXES,
    single=True,
    holds=("source-ref",),
    keeps=frozenset({"size", "extension", "empty", "unused", "order", "score", "wh"}),
)
