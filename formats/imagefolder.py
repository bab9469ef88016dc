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

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from odm.codes import NUMBERED_CLASSES
from odm.files import Output, Source
from odm.formats._contract import SURE, Sniff, format_of
from odm.formats._shared.class_lists import add_list, class_list_option, parse_names, read_list
from odm.formats._shared.codes import NO_FILES, UNKNOWN_CLASS, WRONG_COUNT
from odm.formats._shared.gather import Location
from odm.formats._shared.json.items import (
    BAD_SIZE,
    BadRecord,
    Item,
    Origin,
    Row,
    Rows,
    iter_images,
    read_line_items,
)
from odm.formats._shared.json.preview import glance
from odm.formats._shared.json.values import Nothing, Reader, check_classes, dump
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.split_names import SplitOptions, list_split_files, select_split, write_splits
from odm.formats._shared.tables.csv_files import NO_HEADER, read_head_rows, read_table
from odm.formats._shared.text.safe_yaml import load
from odm.issues import Log, Trusted, first_few
from odm.tables import Builder, Dataset, Flag

_KEYS = declare_keys(
    "file_name width height objects bbox categories category labels label score iscrowd is_crowd"
)
_NAMES = ("metadata.jsonl", "metadata.csv")
_CLASSES = ("categories", "category", "labels", "label")
_SPLITS = {
    **{name: name for name in ("train", "val", "test", "dev")},
    "valid": "val",
    "validation": "val",
    "eval": "val",
}

_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ImagefolderOptions(SplitOptions):
    """Options of imagefolder."""

    classes: str | None = class_list_option()


def _list_metadata_files(source: Source) -> list[str]:
    """The files of a folder that are called metadata.jsonl or metadata.csv."""
    return [file for file in source.files if file.rpartition("/")[2].lower() in _NAMES]


def _has_objects(source: Source, file: str) -> bool:
    """Whether the columns or the first record of a file have a file name and objects."""
    if (file or source.path).lower().endswith(".csv"):
        header = (read_head_rows(source, file) or [[]])[0]
        return "file_name" in header and ("objects" in header or "bbox" in header)
    preview = glance(source.head(file))
    has_file_name = preview.top == "{" and preview.keys.get("file_name") == '"'
    return has_file_name and not preview.keys.keys().isdisjoint(("objects", "bbox"))


def sniff(source: Source) -> Sniff | None:
    """Recognise metadata files by the columns, or the keys of the first record."""
    if not source.is_dir and not source.path.lower().endswith((".jsonl", ".csv")):
        return None
    for file in _list_metadata_files(source)[:20] if source.is_dir else [""]:
        if _has_objects(source, file):
            name = file or "it"
            return Sniff(SURE, f"{name} has a file_name and objects, as imagefolder of Hugging Face has")
    return None


def _split_of(file: str) -> str:
    """The split that the innermost folder called after one states; ``""`` for none."""
    folders = file.lower().split("/")[:-1]
    return next((_SPLITS[name] for name in reversed(folders) if name in _SPLITS), "")


def read(source: Source, builder: Builder, log: Log, options: ImagefolderOptions) -> None:
    """Read the records of each file. Without any metadata file, that is reported."""
    files = _list_metadata_files(source) if source.is_dir else [""]
    if not files:
        expected = Trusted("metadata.jsonl or metadata.csv")
        log.report(NO_FILES, source.path, expected=expected, n=len(source.files))
    folders_of_files = dict.fromkeys(file.rpartition("/")[0] for file in files)
    path = source.path.replace("\\", "/")
    folders: tuple[str, ...] = (path.rpartition("/")[0] or ".",)  # of the pictures
    if source.is_dir:
        folders = tuple(source.full(folder) for folder in folders_of_files)
    reader = Reader(source, builder, log, options, folders, keys=_KEYS)
    wanted_split = None if options.split is None else _SPLITS.get(options.split, options.split)
    files = select_split(files, lambda file: _split_of(file or path), wanted_split, source, log)
    classes = _Classes(reader, options)
    for file in log.track(files, "reading"):
        for record in _read_records(reader, file):
            _read_record(record, _split_of(file or path), classes)
    classes.finish()
    reader.finish()


def _read_records(reader: Reader, file: str) -> Iterator[Item]:
    """The records of a file: lines of JSON, or rows of a table with JSON in the cells.

    Malformed ones are reported and left out, as is a table without a column ``file_name``.
    """
    source, log = reader.source, reader.log
    if not (file or source.path).lower().endswith(".csv"):
        yield from read_line_items(reader, file)
        return
    path = source.full(file)
    data = source.read(file, log)
    rows = None if data is None else read_table(data, path, log, reader.builder)
    if rows is None:
        return
    _, header = rows[0] if rows else (0, [])
    if "file_name" not in header:
        shown = repr(",".join(header)) if rows else "an empty file"
        log.report(NO_HEADER, path, line=1 if rows else 0, found=shown)
        return
    origin = Origin(reader.builder, path)
    for line, cells in rows[1:]:
        location = Location(path, line=line)
        if len(cells) != len(header):
            expected = f"{len(header)} cells as in the header"
            log.report(WRONG_COUNT, path, line=line, expected=expected, found=str(len(cells)))
            reader.builder.skipped += 1
            continue
        # Only the columns that are read: file_name as text, the others as JSON, empty cells as null.
        record: dict[str, Any] = {}
        reader.count_unknown([dict(zip(header, cells, strict=True))])
        for key, cell in zip(header, cells, strict=True):
            if key == "file_name" or not cell.strip():
                record[key] = cell or None
            elif key in ("objects", "bbox", "width", "height", *_CLASSES):
                record[key] = reader.decode_cell(cell, location / key)
        if not any(value is Nothing for value in record.values()):  # of cells that are no JSON
            yield Item(reader, record, location, origin, line)


class _Classes:
    """Turns the class names and numbers of boxes into rows of the dataset's categories."""

    def __init__(self, reader: Reader, options: ImagefolderOptions) -> None:
        """Find the list of names: of the option, else in ``classes.txt``, else in ``README.md``."""
        self.reader = reader
        self.numbers: set[int] = set()  # class numbers of boxes that no list gives a name
        self.names: list[str] | None = None  # [] if the list is not usable
        self.path = ""  # of the list, for messages
        source, log = reader.source, reader.log
        if options.classes is not None:
            self.path = options.classes
            list_source = Source(options.classes, follow_links=True, encoding=source.encoding)
            self.names = read_list(list_source, "", log) or []
        elif source.is_dir:
            at_root = {file.lower(): file for file in source.files if "/" not in file}
            if file := at_root.get("classes.txt"):
                self.path, self.names = source.full(file), read_list(source, file, log) or []
            elif file := at_root.get("readme.md"):
                self.path, self.names = source.full(file), self._read_front_matter(file)
        if self.names is not None:
            add_list(self.names, reader.builder, log, self.path)

    def _read_front_matter(self, file: str) -> list[str] | None:
        """The names under the first ``class_label`` in the YAML at the top of a README; None without one."""
        head = self.reader.source.head(file)
        match = re.match(rb"(?:\xef\xbb\xbf)?---\r?\n(.*?\n)---", head, re.DOTALL)  # between two lines ---
        log = self.reader.log.fresh()  # a page for people, whose faults are none of the data
        root = load(match[1], self.path, log) if match else None
        pending = [root] if root is not None else []  # nodes of the YAML, the next one to visit last
        while pending:
            node = pending.pop()
            content = node.value
            if isinstance(content, dict):
                if "class_label" in content and isinstance(content["class_label"].value, dict):
                    return parse_names(content["class_label"].value, self.path, log)
                pending += reversed(content.values())
            elif isinstance(content, list):
                pending += reversed(content)
        return None

    def find_row(self, box: Row, key: str) -> int:
        """The category row of the class name or number under a key; -1 after an issue for a bad name.

        Raises BadRecord, after an issue, for a number outside the list of names.
        """
        value = box.get(key)
        if type(value) is not int:
            return box.category(key)
        if self.names is None:
            self.numbers.add(value)
            return box.category_named(str(value), box.location / key)
        if 0 <= value < len(self.names):
            return box.category_named(self.names[value], box.location / key)
        box.report(UNKNOWN_CLASS, key, value=str(value), n=len(self.names), where=self.path)
        raise BadRecord

    def finish(self) -> None:
        """Warn where classes have numbers for names."""
        if self.numbers:
            self.reader.builder.named = False
            shown = first_few(sorted(self.numbers), 10)
            # near="": no hint at a file that has the names, as other formats can give.
            self.reader.log.report(NUMBERED_CLASSES, self.reader.source.path, value=shown, near="")


def _read_record(record: Item, split: str, classes: _Classes) -> None:
    """Add an image and its boxes. The image is added even if the boxes are unusable."""
    boxes = Rows(record.reader, record.location, (), record.origin)
    with contextlib.suppress(BadRecord):
        boxes = _find_boxes(record)
    size = record.size("width", "height")
    if size != BAD_SIZE:
        boxes.read(record.image("file_name", size=size, split=split), _read_box, classes)


def _find_boxes(record: Item) -> Rows:
    """The boxes of a record as objects. Raises BadRecord, after an issue, if it has boxes of another form."""
    if record.get("objects") is None:
        no_boxes = Rows(record.reader, record.location, (), record.origin)
        return _transpose(record) if "bbox" in record else no_boxes  # the lists are beside the file name
    if isinstance(record.get("objects"), list):
        return record.rows("objects")  # an object for each box
    return _transpose(record.object("objects"))  # a list for each field


def _transpose(objects: Item) -> Rows:
    """Turn an object with one list per field, {"bbox": [b1, b2], "label": [0, 1]}, into one row per box.

    Raises BadRecord, after an issue, if the lists differ in length.
    """
    objects.need("bbox")
    lists = {"bbox": _read_column(objects, "bbox")}
    n_boxes = len(lists["bbox"])
    for key in ("score", "iscrowd", "is_crowd", *_CLASSES):
        if objects.get(key) is not None:
            lists[key] = _read_column(objects, key)
            if (n_values := len(lists[key])) != n_boxes:
                expected = f"{n_boxes} values, one for each bbox"
                objects.report(WRONG_COUNT, key, expected=expected, found=n_values)
                objects.reader.builder.skipped += n_boxes
                raise BadRecord
    boxes = [{key: column[i] for key, column in lists.items()} for i in range(n_boxes)]
    origin = objects.origin if objects.location.line else None  # the file, whose line is the record
    return Rows(objects.reader, objects.location / "bbox", boxes, origin)


def _read_column(objects: Item, key: str) -> list[Any]:
    """The list under a key. Raises BadRecord, after an issue, if it is none."""
    values = objects.reader.check_list(objects.get(key), objects.location / key)
    if values is None:
        raise BadRecord
    return values


def _read_box(box: Row, classes: _Classes) -> None:
    """Add a box, whose class is a name or a number under any of the usual keys."""
    key = box.first_key(*_CLASSES)
    box.need("bbox", key)
    category = classes.find_row(box, key)
    corners, wh = box.ltwh("bbox")
    flags = Flag.CROWD if box.flag("iscrowd") | box.flag("is_crowd") else Flag(0)
    box.add(category, corners, wh=wh, score=box.score("score"), flags=int(flags))


def write(dataset: Dataset, target: Output, log: Log, _: ImagefolderOptions) -> None:
    """Write a record for each image, in a file for each split."""
    files = list_split_files(dataset, lambda split: f"{f'{split}/' if split else ''}metadata.jsonl")
    is_writable = target.plan(list(files.values()), [f"the split {s}" for s in files], log)
    if not check_classes(dataset, log) or not is_writable:
        return
    has_crowd = bool(dataset.boxes.has(Flag.CROWD).any())
    lines = []
    for image in iter_images(dataset):
        record: dict[str, Any] = {"file_name": image.name}
        if min(image.width, image.height) > 0:
            record |= {"width": image.width, "height": image.height}
        objects: dict[str, list[Any]] = {
            "bbox": [[*box.xyxy[:2], *box.wh] for box in image.boxes],
            "categories": [box.label for box in image.boxes],
        }
        if dataset.kind == "det":
            objects["score"] = [box.score for box in image.boxes]
        if has_crowd:
            objects["iscrowd"] = [int(bool(box.flags & Flag.CROWD)) for box in image.boxes]
        lines.append(dump(record | {"objects": objects}) + "\n")
    write_splits(dataset, target, files, lines)


FORMAT = format_of(
    __name__,
    title="Hugging Face imagefolder",
    expects=("file_name", "objects"),
    use="training",
    written_by="Hugging Face Datasets imagefolder (JSON lines and CSV; lists, and a list of objects)",
    suffixes=(".jsonl",),
    looks_at=(".jsonl", ".csv"),
    split_names=frozenset(_SPLITS),
    keeps=frozenset({"size", "extension", "empty", "score", "wh", "split", "crowd"}),
)
