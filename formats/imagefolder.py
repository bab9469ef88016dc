"""Hugging Face imagefolder: ``metadata.jsonl`` or ``metadata.csv`` beside the pictures.

Specification: "Object detection" in "Create an image dataset" of the documentation of Datasets
(https://huggingface.co/docs/datasets/image_dataset)::

    train/metadata.jsonl
        {"file_name": "0001.png", "objects": {"bbox": [[302.0, 109.0, 73.0, 52.0]], "categories": [0]}}
    train/0001.png

Each record is on one line. ``bbox`` is left, top, width and height in pixels, read and written unchanged; the
lists in ``objects`` run in parallel. The classes are ``categories``, ``category``, ``label`` or ``labels``:
names, or numbers from 0 in ``--classes FILE``, ``classes.txt`` or the list of ``names`` in the front matter
of ``README.md``; without these the numbers are used as names, with a warning. A list of objects, each with
its own ``bbox``, is read as well. In ``metadata.csv`` the column ``objects`` contains the same JSON.

A record without objects is an image without boxes. ``width`` and ``height`` are its size, which otherwise
comes from the picture, ``--images``, ``--image-size`` or ``--image-sizes``. ``file_name`` is relative to the
folder of the file. A folder called ``train``, ``validation``, ``test`` or similar gives the split.
``iscrowd`` 1 in the objects is read as the flag *crowd*.

Detections have a list of ``score`` in their objects, which Datasets itself does not have. If every box has
one, the file contains detections. If only some have one, it is read as ground truth without the scores, with
a warning.

Writing: ``metadata.jsonl``, or one in the folder of each split, with class names, and ``width`` and
``height`` if they are known. The pictures belong beside it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from odm.codes import NUMBERED_CLASSES
from odm.files import Output, Source
from odm.formats._contract import SURE, Format, Sniff
from odm.formats._shared.class_lists import add_list, class_list_option, described_names, read_list
from odm.formats._shared.codes import NO_FILES, UNKNOWN_CLASS, WRONG_COUNT
from odm.formats._shared.csv_tables import NO_HEADER, head_rows, table_rows
from odm.formats._shared.gather import NAN, At
from odm.formats._shared.json_lines import json_lines
from odm.formats._shared.json_preview import glance
from odm.formats._shared.json_values import Nothing, Reader, dump, groups, is_set, may_write, number
from odm.formats._shared.number_text import short_wh
from odm.formats._shared.safe_yaml import load
from odm.formats._shared.splits import SplitOptions, files_of_split
from odm.issues import Log, Trusted, first_few
from odm.tables import Builder, Dataset, Flag

_NAMES = ("metadata.jsonl", "metadata.csv")
_CLASSES = ("categories", "category", "labels", "label")
_KNOWN = frozenset({"bbox", *_CLASSES, "score", "iscrowd", "is_crowd"})
_SPLITS = {
    **{name: name for name in ("train", "val", "test", "dev")},
    "valid": "val",
    "validation": "val",
    "eval": "val",
}
_WHAT = "4 numbers: left, top, width, height"
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ImagefolderOptions(SplitOptions):
    """Options of imagefolder."""

    classes: str | None = class_list_option()


def _files(source: Source) -> list[str]:
    return [file for file in source.files if file.rpartition("/")[2].lower() in _NAMES]


def _fits(source: Source, file: str) -> bool:
    """Whether a file has names of pictures and objects."""
    if (file or source.path).lower().endswith(".csv"):
        header = (head_rows(source, file) or [[]])[0]
        return "file_name" in header and ("objects" in header or "bbox" in header)
    look = glance(source.head(file))
    return (
        look.top == "{"
        and look.keys.get("file_name") == '"'
        and ({"objects", "bbox"} & look.keys.keys()) != set()
    )


def sniff(source: Source) -> Sniff | None:
    """Look at the keys of the first record, or the columns."""
    if not source.is_dir and not source.path.lower().endswith((".jsonl", ".csv")):
        return None
    for file in _files(source)[:20] if source.is_dir else [""]:
        if _fits(source, file):
            return Sniff(
                SURE, f"{file or 'it'} has a file_name and objects, as imagefolder of Hugging Face has"
            )
    return None


def _split_of(file: str) -> str:
    folders = file.lower().split("/")[:-1]
    return next((_SPLITS[name] for name in reversed(folders) if name in _SPLITS), "")


# ------------------------------------------------------------------------------------------------ reading


def read(source: Source, builder: Builder, log: Log, options: ImagefolderOptions) -> None:
    """Read the records of each file."""
    files = _files(source) if source.is_dir else [""]
    if not files:
        log.report(
            NO_FILES, source.path, expected=Trusted("metadata.jsonl or metadata.csv"), n=len(source.files)
        )
    homes = dict.fromkeys(file.rpartition("/")[0] for file in files)
    path = source.path.replace("\\", "/")
    folders = (
        tuple(source.full(home) for home in homes) if source.is_dir else (path.rpartition("/")[0] or ".",)
    )
    reader = Reader(source, builder, log, options, folders)
    wanted = None if options.split is None else _SPLITS.get(options.split, options.split)
    files = files_of_split(files, lambda file: _split_of(file or path), wanted, source, log)
    classes = _Classes(reader, options)
    for file in log.track(files, "reading"):
        rows, split = builder.file(source.full(file)), _split_of(file or path)
        for at, value in _records(reader, file):
            record = reader.mapping(value, at)
            if record is not None:
                _read_record(reader, record, at, rows, split, classes)
    classes.finish()
    reader.finish()


def _records(reader: Reader, file: str) -> Iterator[tuple[At, Any]]:
    """The records of a file, whose cells are JSON in a table."""
    source, log = reader.source, reader.log
    if not (file or source.path).lower().endswith(".csv"):
        yield from json_lines(reader, file)
        return
    path = source.full(file)
    data = source.read(file, log)
    rows = None if data is None else table_rows(data, path, log, reader.builder)
    if not rows or "file_name" not in rows[0][1]:
        if rows is not None:
            found = repr(",".join(rows[0][1])) if rows else "an empty file"
            log.report(NO_HEADER, path, line=1 if rows else 0, found=found)
        return
    header = rows[0][1]
    for line, cells in rows[1:]:
        at = At(path, line=line)
        if len(cells) != len(header):
            expected = f"{len(header)} cells as in the header"
            log.report(WRONG_COUNT, path, line=line, expected=expected, found=str(len(cells)))
            reader.builder.skipped += 1
            continue
        record: dict[str, Any] = {}
        for key, cell in zip(header, cells, strict=True):
            if key == "file_name" or not cell.strip():
                record[key] = cell or None
            elif key in ("objects", "bbox", "width", "height", *_CLASSES):
                record[key] = reader.cell(cell, at / key)
        if not any(value is Nothing for value in record.values()):
            yield at, record


class _Classes:
    """The classes of the numbers and names that stand in records."""

    def __init__(self, reader: Reader, options: ImagefolderOptions) -> None:
        self.reader = reader
        self.numbers: set[int] = set()
        self.names: list[str] | None = None
        self.path = ""
        source, log = reader.source, reader.log
        if options.classes is not None:
            self.path = options.classes
            self.names = read_list(Source(options.classes, follow_links=True), "", log) or []
        elif source.is_dir:
            at_root = {file.lower(): file for file in source.files if "/" not in file}
            if file := at_root.get("classes.txt"):
                self.path, self.names = source.full(file), read_list(source, file, log) or []
            elif file := at_root.get("readme.md"):
                self.path, self.names = source.full(file), self._front_matter(file)
        if self.names is not None:
            add_list(self.names, reader.builder, log, self.path)

    def _front_matter(self, file: str) -> list[str] | None:
        """The ``names`` of a class label in the YAML at the top of ``README.md``."""
        head = self.reader.source.head(file)
        match = re.match(rb"\xef\xbb\xbf?---\r?\n(.*?\n)---|---\r?\n(.*?\n)---", head, re.DOTALL)
        log = self.reader.log.fresh()  # a page for people, whose faults are none of the data
        root = load(match[1] or match[2], self.path, log) if match else None
        pending = [root] if root is not None else []
        while pending:
            node = pending.pop()
            held = node.value
            if isinstance(held, dict):
                if "class_label" in held and isinstance(held["class_label"].value, dict):
                    return described_names(held["class_label"].value, self.path, log)
                pending += reversed(held.values())
            elif isinstance(held, list):
                pending += reversed(held)
        return None

    def row(self, value: Any, at: At) -> int | None:
        """The row of a class; None and an issue if it cannot be one."""
        if type(value) is not int:
            return self.reader.category(value, at)
        if self.names is None:
            self.numbers.add(value)
            return self.reader.category(str(value), at)
        if 0 <= value < len(self.names):
            return self.reader.category(self.names[value], at)
        self.reader.log.report(
            UNKNOWN_CLASS,
            at.path,
            **at.where,
            field=at.field,
            value=str(value),
            n=len(self.names),
            where=self.path,
        )
        return None

    def finish(self) -> None:
        """Warn where numbers are the names."""
        if self.numbers:
            self.reader.builder.named = False
            shown = first_few(sorted(self.numbers), 10)
            self.reader.log.report(NUMBERED_CLASSES, self.reader.source.path, value=shown, near="")


def _read_record(
    reader: Reader, record: dict[str, Any], at: At, rows: int, split: str, classes: _Classes
) -> None:
    objects, here = record, at
    if record.get("objects") is not None:
        objects, here = record["objects"], at / "objects"
        reader.count_unread(record, frozenset({"file_name", "objects", "width", "height"}))
    has_boxes = here is not at or "bbox" in record
    boxes = _objects(reader, objects, here) if has_boxes else []
    size = reader.size(record.get("width"), record.get("height"), at, ("width", "height"))
    image = None
    if size != (0, 0):
        image = reader.image(
            record.get("file_name"), at, field="file_name", size=size, split=split, file=rows, line=at.line
        )
    if image is None or boxes is None:
        reader.builder.skipped += len(boxes or ())
        return
    for box, place in boxes:
        if not _read_box(reader, box, place, image, rows, classes):
            reader.builder.skipped += 1


def _objects(reader: Reader, value: Any, at: At) -> list[tuple[Any, At]] | None:
    """The boxes of a record, each as an object of its own; None, and an issue, where they are none."""
    if value is None:
        return []
    if isinstance(value, list):
        return [(box, at / i) for i, box in enumerate(value)]
    record = reader.mapping(value, at)
    if record is None:
        return None
    if "bbox" not in record:
        reader.missing(at, "bbox")
        return None
    places = reader.items(record["bbox"], at / "bbox")
    if places is None:
        return None
    lists = {"bbox": places}
    for key in ("score", "iscrowd", "is_crowd", *_CLASSES):
        if key in record and record[key] is not None:
            column = reader.items(record[key], at / key)
            if column is None:
                return None
            if len(column) != len(places):
                expected = f"{len(places)} values, one for each bbox"
                reader.log.report(
                    WRONG_COUNT, at.path, **(at / key).where, field=key, expected=expected, found=len(column)
                )
                reader.builder.skipped += len(places)
                return None
            lists[key] = column
    reader.count_unread(record, _KNOWN)
    return [({key: column[i] for key, column in lists.items()}, at / "bbox" / i) for i in range(len(places))]


def _read_box(reader: Reader, value: Any, at: At, image: int, rows: int, classes: _Classes) -> bool:
    """Read one box; False, and an issue, if it cannot be one."""
    box = reader.mapping(value, at, row=True)
    if box is None:
        return False
    key = next((key for key in _CLASSES if key in box), "")
    for needed in ("bbox", key or "categories"):
        if needed not in box:
            reader.missing(at, needed, row=True)
            return False
    category = classes.row(box[key], at / key)
    values = reader.numbers(box["bbox"], 4, _WHAT, at / "bbox")
    score = reader.score(box.get("score", NAN), at / "score")
    if category is None or values is None or score is None:
        return False
    flags = Flag.CROWD if is_set(box.get("iscrowd")) or is_set(box.get("is_crowd")) else Flag(0)
    left, top, width, height = values
    corners = left, top, left + width, top + height
    place = {"file": rows, "line": at.line, "flags": int(flags)}
    reader.box(image, category, corners, at, wh=(width, height), score=score, **place)
    return True


# ------------------------------------------------------------------------------------------------ writing


def write(dataset: Dataset, target: Output, log: Log, options: ImagefolderOptions) -> None:
    """Write the records of each split."""
    del options
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories.name
    splits = list(dict.fromkeys(images.split)) or [""]
    folders = {s: f"{s or 'unsplit'}/" if any(splits) else "" for s in splits}
    files = {split: f"{folder}metadata.jsonl" for split, folder in folders.items()}
    fits = target.plan(list(files.values()), [f"the split {s}" for s in files], log)
    if not may_write(dataset, log) or not fits:
        return
    wh = short_wh(boxes)
    crowd = boxes.has(Flag.CROWD)
    parts: dict[str, list[str]] = {split: [] for split in splits}
    for row, members in enumerate(groups(dataset)):
        record: dict[str, Any] = {"file_name": images.name[row]}
        if min(images.width[row], images.height[row]) > 0:
            record |= {"width": int(images.width[row]), "height": int(images.height[row])}
        objects: dict[str, list[Any]] = {
            "bbox": [list(map(number, [*boxes.xyxy[i, :2].tolist(), *wh[i].tolist()])) for i in members],
            "categories": [classes[boxes.category[i]] for i in members],
        }
        if dataset.kind == "det":
            objects["score"] = [number(float(boxes.score[i])) for i in members]
        if crowd.any():
            objects["iscrowd"] = [int(crowd[i]) for i in members]
        parts[images.split[row]].append(dump(record | {"objects": objects}) + "\n")
    for split, file in files.items():
        target.write(file, "".join(parts[split]).encode())


FORMAT = Format(
    name="imagefolder",
    title="Hugging Face imagefolder",
    use="training",
    written_by="Hugging Face Datasets imagefolder (JSON lines and CSV; lists, and a list of objects)",
    doc=__doc__ or "",
    suffixes=(".jsonl",),
    looks_at=(".jsonl", ".csv"),
    single=False,
    sniff=sniff,
    read=read,
    write=write,
    options=ImagefolderOptions,
    keeps=frozenset({"size", "extension", "empty", "score", "wh", "split", "crowd"}),
)
