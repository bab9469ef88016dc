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

import dataclasses
import re
from typing import Any

from odm.files import Output, Source
from odm.formats._contract import SURE, Format, Sniff, option
from odm.formats._shared.codes import UNKNOWN_CLASS
from odm.formats._shared.gather import NAN, At, Corners
from odm.formats._shared.json_columns import show
from odm.formats._shared.json_lines import json_lines
from odm.formats._shared.json_preview import JsonPreview
from odm.formats._shared.json_values import Reader, dump, groups, may_write, number
from odm.formats._shared.number_text import short_wh
from odm.formats._shared.sniffing import sniff_json
from odm.formats._shared.splits import SplitOptions, files_of_split
from odm.issues import Log, Trusted, printable
from odm.tables import Builder, Dataset

_SUFFIXES = (".manifest", ".jsonl")
_METADATA = "-metadata"
_PLACE = ("left", "top", "width", "height")
_BOX = frozenset({"class_id", *_PLACE})
_SPLIT = re.compile(r"(?:.*[-_.])?(train|val|valid|validation|test)(?:[-_.].*)?", re.IGNORECASE)
_SPLITS = {"valid": "val", "validation": "val"}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SagemakerOptions(SplitOptions):
    """Options of manifests."""

    job: str = option("", "name of the labelling job, by which its labels are called")
    prefix: str = option("", "prefix of the image names, as in s3://bucket/folder", side="write")


def _looks_like(look: JsonPreview, head: bytes) -> tuple[int, str] | None:
    if look.top != "{" or look.keys.get("source-ref") != '"':
        return None
    if any(key.endswith(_METADATA) for key in look.keys) and b'"annotations"' in head:
        return SURE, "its records have a source-ref and the labels of a job, as SageMaker Ground Truth has"
    return None


def sniff(source: Source) -> Sniff | None:
    """Look at the keys of the first record."""
    return sniff_json(source, _looks_like, _SUFFIXES)


def _split_of(file: str) -> str:
    folder, _, name = file.rpartition("/")
    match = _SPLIT.fullmatch(name.rpartition(".")[0]) or _SPLIT.fullmatch(folder.rpartition("/")[2])
    return _SPLITS.get(match[1].lower(), match[1].lower()) if match else ""


def read(source: Source, builder: Builder, log: Log, options: SagemakerOptions) -> None:
    """Read the records one by one."""
    reader = Reader(source, builder, log, options, sized=True)
    wanted = None if options.split is None else _SPLITS.get(options.split, options.split)
    files = reader.choose(_looks_like, "a manifest of SageMaker Ground Truth", _SUFFIXES)
    path = source.path.replace("\\", "/")
    chosen = files_of_split(files, lambda file: _split_of(file or path), wanted, source, log)
    found = _Found(options.job)
    for file in log.track(chosen, "reading"):
        rows, split = builder.file(source.full(file)), _split_of(file or path)
        for at, value in json_lines(reader, file):
            record = reader.mapping(value, at)
            if record is not None:
                _read_record(reader, record, at, rows, split, found)
    if builder.kind is None:
        builder.kind = "det" if found.machine and not found.human else "gt"
    for box, score, more in found.boxes:
        reader.box(*box, score=score if builder.kind == "det" else NAN, **more)
    if len(found.jobs) > 1 and not options.job:
        jobs = ", ".join(map(printable, found.jobs))
        log.note(f"{printable(source.path)}: there are several jobs ({jobs}); -O job=NAME chooses one")
    reader.finish(field="confidence")


@dataclasses.dataclass(slots=True)
class _Found:
    """What the records were seen to hold."""

    job: str
    jobs: dict[str, None] = dataclasses.field(default_factory=dict)
    human: int = 0
    machine: int = 0
    """Boxes by who drew them."""
    boxes: list[tuple[tuple[int, int, Corners, At], float, dict[str, Any]]] = dataclasses.field(
        default_factory=list
    )
    """They wait until it is known whether their confidences are scores."""


def _job_of(record: dict[str, Any], found: _Found) -> str:
    """The name of the job whose boxes are read, empty where there is none."""
    jobs = [
        key[: -len(_METADATA)]
        for key, held in record.items()
        if key.endswith(_METADATA) and isinstance(held, dict)
    ]
    boxed = [key for key in jobs if isinstance(record.get(key), dict) and "annotations" in record[key]]
    found.jobs.update(dict.fromkeys(boxed))
    if found.job:
        return found.job if found.job in boxed else ""
    return boxed[0] if boxed else ""


def _name(reference: Any) -> Any:
    """The path of a picture without the bucket."""
    if isinstance(reference, str) and reference.startswith("s3://"):
        return reference.partition("://")[2].partition("/")[2]
    return reference


def _read_record(
    reader: Reader, record: dict[str, Any], at: At, rows: int, split: str, found: _Found
) -> None:
    job = _job_of(record, found)
    if not job:
        if "source-ref" in record:
            reader.count("records without boxes of a job")
        else:
            reader.missing(at, "source-ref")
        return
    labels, about = record[job], record[job + _METADATA]
    here = at / job
    sizes = reader.items(labels.get("image_size"), here / "image_size")
    size = None
    if sizes:
        first = reader.mapping(sizes[0], here / "image_size")
        if first is not None:
            size = reader.size(
                first.get("width"), first.get("height"), here / "image_size", ("width", "height")
            )
    classes = reader.mapping(about.get("class-map", {}), at / (job + _METADATA) / "class-map")
    boxes = reader.items(labels["annotations"], here / "annotations")
    objects = reader.items(about.get("objects"), at / (job + _METADATA) / "objects") or []
    image = None
    if sizes is not None and classes is not None:
        image = reader.image(
            _name(record.get("source-ref")),
            at,
            field="source-ref",
            size=size,
            split=split,
            file=rows,
            line=at.line,
        )
    if image is None or boxes is None or classes is None:
        reader.builder.skipped += len(boxes or ())
        return
    for key in sorted(classes, key=lambda key: (len(key), key)):
        reader.category(classes[key], at / "class-map", listed=True)
    if str(about.get("human-annotated", "yes")).lower() == "no":
        found.machine += len(boxes)
    else:
        found.human += len(boxes)
    for i, box in enumerate(boxes):
        about_box = objects[i] if i < len(objects) and isinstance(objects[i], dict) else {}
        if not _read_box(reader, box, about_box, here / "annotations" / i, image, classes, rows, found):
            reader.builder.skipped += 1


def _read_box(
    reader: Reader,
    value: Any,
    about: dict[str, Any],
    at: At,
    image: int,
    classes: dict[str, Any],
    rows: int,
    found: _Found,
) -> bool:
    """Read one annotation; False, and an issue, if it cannot be a box."""
    box = reader.mapping(value, at, row=True)
    if box is None:
        return False
    if "class_id" not in box:
        reader.missing(at, "class_id", row=True)
        return False
    name = classes.get(str(box["class_id"]))
    category = None
    if name is None:
        reader.log.report(
            UNKNOWN_CLASS,
            at.path,
            **at.where,
            field="class_id",
            value=Trusted(show(box["class_id"])),
            n=len(classes),
            where=Trusted("its class-map"),
        )
    else:
        category = reader.category(name, at / "class_id")
    values = reader.members(box, _PLACE, at)
    score = reader.score(about.get("confidence"), at / "confidence")
    if category is None or values is None or score is None:
        return False
    reader.count_unread(box, _BOX)
    left, top, width, height = values
    corners = left, top, left + width, top + height
    place = {"file": rows, "line": at.line, "wh": (width, height)}
    found.boxes.append(((image, category, corners, at), score, place))
    return True


# ----------------------------------------------------------------------------------------------- writing


def write(dataset: Dataset, target: Output, log: Log, options: SagemakerOptions) -> None:
    """Write one manifest."""
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories.name
    job, is_det = options.job or "labels", dataset.kind == "det"
    prefix = options.prefix.rstrip("/") + "/" if options.prefix else ""
    name = "" if target.single else "output.manifest"
    if not may_write(dataset, log) or (name and not target.plan([name], ["the records"], log)):
        return
    if classes and not len(images):
        return  # the classes stand in the records
    wh = short_wh(boxes)
    class_map = {str(i): name for i, name in enumerate(classes)}
    lines = []
    for row, members in enumerate(groups(dataset)):
        places = [
            dict(zip(_PLACE, map(number, [*boxes.xyxy[i, :2].tolist(), *wh[i].tolist()]), strict=True))
            for i in members
        ]
        size = {"width": int(images.width[row]), "height": int(images.height[row]), "depth": 3}
        record = {
            "source-ref": prefix + images.name[row],
            job: {
                "image_size": [size],
                "annotations": [
                    {"class_id": int(boxes.category[i]), **place}
                    for i, place in zip(members, places, strict=True)
                ],
            },
            job + _METADATA: {
                "objects": [{"confidence": number(float(boxes.score[i]))} if is_det else {} for i in members],
                "class-map": class_map,
                "type": "groundtruth/object-detection",
                "human-annotated": "no" if is_det else "yes",
                "job-name": f"labeling-job/{job}",
            },
        }
        lines.append(dump(record) + "\n")
    target.write(name, "".join(lines).encode())


FORMAT = Format(
    name="sagemaker",
    title="SageMaker Ground Truth manifest",
    use="annotation tools",
    written_by="SageMaker Ground Truth output manifest, Roboflow",
    doc=__doc__ or "",
    suffixes=(".manifest",),
    looks_at=_SUFFIXES,
    begins="[{",
    single=True,
    sniff=sniff,
    read=read,
    write=write,
    options=SagemakerOptions,
    keeps=frozenset({"size", "extension", "empty", "unused", "order", "score", "wh"}),
)
