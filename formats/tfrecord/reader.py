"""Read TFRecords: a record becomes an image, its lists become boxes.

The format takes more lines than others because the records' own encoding is read and written here, without
TensorFlow.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.codes import NO_SIZE, NUMBERED_CLASSES
from odm.files import NOT_TEXT, UNREADABLE, Source, Unreadable, find_binary_kind, open_binary
from odm.formats._shared.codes import NO_FILES, OTHER_TASK, RELATIVE_RANGE, UNKNOWN_CLASS
from odm.formats._shared.gather import Location, report_other_kind
from odm.formats._shared.json.values import Reader
from odm.formats._shared.shapes.fractions import are_far
from odm.formats._shared.split_names import select_split
from odm.formats.tfrecord.layout import (
    BAD_RECORD,
    DETECTION,
    EDGES,
    FLAGS,
    LABELS,
    LENGTHS,
    PICTURE,
    READ_KEYS,
    SPLITS,
    TEXTS,
    TRUTH,
    TfrecordOptions,
    find_files,
    read_label_map,
    split_of,
    stem_of,
)
from odm.formats.tfrecord.wire import Damaged, Features, decode_example, is_other_message, read_records
from odm.issues import Log, PathError, Trusted, first_few, printable, spell
from odm.names import refuse_class, stem
from odm.tables import Builder, Floats

_LabelMap = tuple[str, dict[int, str] | None]
"""The path of a label map, and its names by id; None if it is not usable, which is in the log then."""

_OTHER_MESSAGE = Trusted("records that are not tf.train.Example, as frames of Waymo are")


class _Boxes(msgspec.Struct, eq=False):
    """The n boxes of one kind in one record, before their classes have names."""

    image: int
    location: Location
    file: int
    line: int
    """The number of the record in the file."""
    edges: Floats
    """(n, 4) in pixels."""
    label: list[int | None]
    text: list[bytes]
    """Empty where a box has only a label."""
    score: Floats
    flags: NDArray[np.uint16]


def read(source: Source, builder: Builder, log: Log, options: TfrecordOptions) -> None:
    """Read a file, or those of a folder."""
    path = source.path.replace("\\", "/")
    files = find_files(source) if source.is_dir else [""]
    if not files:
        log.report(NO_FILES, source.path, expected=Trusted("a TFRecord file"), n=len(source.files))
    several = len({stem_of(file) for file in files}) > 1
    split_by_file = {file: split_of(file or path, several=several) for file in files}
    requested = None if options.split is None else SPLITS.get(options.split, options.split)
    files = select_split(files, split_by_file.__getitem__, requested, source, log)
    label_map = _read_label_map(source, log, options)
    reader = _Records(source, builder, log, options)
    for file in log.track(files, "reading"):
        reader.read_file(file, split_by_file[file])
    reader.hand_over(label_map)


def _read_label_map(source: Source, log: Log, options: TfrecordOptions) -> _LabelMap | None:
    """Read the label map of the option, else of the folder or beside the file; None if there is none."""
    lists: list[tuple[Source, str]] = []
    if options.label_map is not None:
        lists = [(Source(options.label_map, follow_links=True, encoding=source.encoding), "")]
    elif source.is_dir:
        lists = [(source, file) for file in source.with_suffix(".pbtxt")]
    else:
        folder, name = os.path.split(source.path)
        for map_name in ("label_map.pbtxt", f"{stem_of(name)}_label_map.pbtxt", "labelmap.pbtxt"):
            try:
                lists = [(Source(os.path.join(folder, map_name), follow_links=source.follow_links), "")]
                break
            except PathError:
                continue
    first_list: _LabelMap | None = None
    for list_source, file in lists:
        data, path = list_source.read(file, log), list_source.full(file)
        names = None if data is None else read_label_map(data, path, log)
        if names is None:
            return path, None
        first_list = first_list or (path, names)
        first_path, first_names = first_list
        if names != first_names:
            log.note(f"{printable(path)}: not read, because {printable(first_path)} has other classes")
    return first_list


class _Records(Reader):
    """Reads records, and keeps their boxes, by kind, until `hand_over`."""

    def __init__(self, source: Source, builder: Builder, log: Log, options: TfrecordOptions) -> None:
        super().__init__(source, builder, log, options, borrow_sizes=True)
        self.boxes: dict[str, list[_Boxes]] = {TRUTH: [], DETECTION: []}

    def read_file(self, file: str, split: str) -> None:
        """Read the records of a file; damaged ones are reported, and other messages end it with an issue."""
        log, path = self.log, self.source.full(file)
        try:
            with open_binary(path, max_size=self.source.max_size) as stream:
                if other_format := find_binary_kind(stream.read(16)):
                    log.report(NOT_TEXT, path, value=Trusted(other_format))
                    return
                stream.seek(0)
                file_number = self.builder.file(path, "/")
                for i, record in enumerate(read_records(stream)):
                    location = Location(path) / i
                    if isinstance(record, Damaged):
                        location.report(log, BAD_RECORD, reason=str(record))
                        continue
                    try:
                        (features, other_names), fault = decode_example(record, READ_KEYS), ""
                    except Damaged as e:
                        features, other_names, fault = {}, [], str(e)
                    if not features and is_other_message(record):
                        remedy = "convert the records to tf.train.Example, or the boxes to COCO"
                        log.report(OTHER_TASK, path, what=_OTHER_MESSAGE, remedy=Trusted(remedy))
                        break
                    if fault:
                        location.report(log, BAD_RECORD, reason=fault)
                        continue
                    for name in other_names:
                        if name not in PICTURE:
                            self.count(name)
                    self._read_record(features, location, file_number, i, split)
        except Unreadable as e:
            log.report(UNREADABLE, path, reason=str(e))
        except OSError as e:
            log.report(UNREADABLE, path, reason=e.strerror or "it cannot be read")

    def _read_record(
        self, features: Features, location: Location, file_number: int, index: int, split: str
    ) -> None:
        """Take the image of a record, number `index` of its file, and its boxes.

        The boxes are skipped if the image is not valid, or, after an issue, if its size is not known.
        """
        n_boxes = sum(len(features.get(f"{kind}bbox/xmin", ())) for kind in (TRUTH, DETECTION))
        source_id = _read_text(features, "image/source_id")
        name = _read_text(features, "image/filename") or source_id
        width, height = (_read_whole(features, key) for key in ("image/width", "image/height"))
        size = self.check_size(width, height, location, ("image/width", "image/height"))
        if size == (0, 0):  # a wrong one, which has been reported
            self.builder.skipped += n_boxes
            return
        picture = None
        if self.pictures and name:
            picture = self.pictures.find_exact(name) or self.pictures.find(stem(name))
        size = size or (self.pictures.find_size(name, picture) if name else None)
        # An id of its own is a number that 64 bits hold, and not the name of the image.
        has_id = source_id.isdecimal() and len(source_id) < 19 and source_id != name
        image = self.image(
            name or None,
            location,
            field="image/filename",
            size=size,
            picture=picture,
            split=split,
            source_id=int(source_id) if has_id else None,
            file=file_number,
            line=index,
        )
        if image is None or size is None or not n_boxes:
            if image is not None and n_boxes:
                location.report(self.log, NO_SIZE, value=name)
            self.builder.skipped += n_boxes
            return
        for kind in (TRUTH, DETECTION):
            self._take_boxes(features, kind, image, size, location, (file_number, index))

    def _take_boxes(
        self,
        features: Features,
        kind: str,
        image: int,
        size: tuple[int, int],
        location: Location,
        file_and_line: tuple[int, int],
    ) -> None:
        """Take the boxes of one kind, `TRUTH` or `DETECTION`; `size` is the image's width and height.

        If a list has not one value for each box, that is reported and the boxes are skipped; so is a box with
        an edge far outside 0..1, or with a score that is not finite.
        """
        # The lists that the boxes have, each of which must have n values.
        edge_keys = [f"{kind}bbox/{edge}" for edge in EDGES]
        n = max(len(features.get(key, ())) for key in edge_keys)
        if not n:
            return
        present_keys = {key for key, values in features.items() if len(values)}
        label_key = next((key for key in LABELS if key.startswith(kind) and key in present_keys), "")
        text_key = next((key for key in TEXTS if key.startswith(kind) and key in present_keys), "")
        flag_keys = [key for key in FLAGS if kind == TRUTH and key in present_keys]
        # Without either key a label is expected, so that its absence is reported.
        class_keys = [key for key in (label_key, text_key) if key] or [f"{kind}class/label"]
        score_keys = [f"{DETECTION}score"] if kind == DETECTION else []
        keys = [*edge_keys, *class_keys, *score_keys, *flag_keys]
        if _report_length(features, keys, text_key, n, location, self.log):
            self.builder.skipped += n
            return

        # Edges as fractions, and scores; boxes with a wrong one are skipped.
        relative = np.stack([np.asarray(features[key], np.float64) for key in edge_keys], axis=1)
        scores = np.full(n, np.nan)
        if kind == DETECTION:
            # Of the decimals that mean one number of 32 bits the shortest is mostly the one that was meant.
            scores = np.asarray(features[f"{DETECTION}score"], np.float32).astype(np.str_).astype(np.float64)
        is_valid = ~are_far(relative) & (np.isfinite(scores) | (kind == TRUTH))
        for row in np.flatnonzero(~is_valid).tolist():
            values = [*relative[row].tolist(), *([float(scores[row])] if kind == DETECTION else [])]
            _report_range(values, location, self.log)
            self.builder.skipped += 1

        flags = np.zeros(n, np.uint16)
        for key in flag_keys:
            flags[np.asarray(features[key]) > 0] |= np.uint16(FLAGS[key])
        labels: list[Any] = [None] * n
        if label_key:
            labels = np.asarray(features[label_key]).astype(np.int64).tolist()
        texts: Any = features[text_key] if text_key else [b""] * n
        rows = np.flatnonzero(is_valid)
        file_number, index = file_and_line
        self.boxes[kind].append(
            _Boxes(
                image,
                location,
                file_number,
                index,
                edges=relative[rows] * np.array([*size, *size], np.float64),
                label=[labels[row] for row in rows.tolist()],
                text=[texts[row] for row in rows.tolist()],
                score=scores[rows],
                flags=flags[rows],
            )
        )

    def hand_over(self, label_map: _LabelMap | None) -> None:
        """Decide whether the boxes are detections, name the classes, and give the boxes to the builder."""
        builder, truth, detections = self.builder, self.boxes[TRUTH], self.boxes[DETECTION]
        if builder.kind is None:
            builder.kind = "det" if detections and not truth else "gt"
            if detections and truth:
                path = printable(self.source.path)
                self.log.note(f"{path}: the objects are read, not the detections ({spell('kind')} det)")
        else:
            # The number of boxes of each kind, and the location of the first.
            truth_summary, detection_summary = (
                (sum(len(chunk.edges) for chunk in chunks), chunks[0].location if chunks else None)
                for chunks in (truth, detections)
            )
            report_other_kind(builder, self.log, truth_summary, detection_summary)
        chunks = detections if builder.kind == "det" else truth

        _, listed_names = label_map or ("", None)
        name_of_label = self._name_labels(chunks) if label_map is None else dict(listed_names or {})
        for label_id, name in sorted(name_of_label.items()):
            if refuse_class(name) is None:  # other names are reported with their boxes
                builder.category(name, source_id=label_id)
        for chunk in chunks:
            pairs = list(zip(chunk.text, chunk.label, strict=True))
            row_of_pair = {
                pair: self._find_class_row(*pair, chunk.location, name_of_label, label_map)
                for pair in dict.fromkeys(pairs)
            }
            category = np.array([row_of_pair[pair] for pair in pairs], np.int32)
            has_class = category >= 0
            n = int(np.count_nonzero(has_class))
            builder.skipped += len(has_class) - n
            builder.boxes(
                image=np.full(n, chunk.image, np.int32),
                category=category[has_class],
                xyxy=chunk.edges[has_class],
                score=chunk.score[has_class] if builder.kind == "det" else None,
                flags=chunk.flags[has_class],
                file=chunk.file,
                line=np.full(n, chunk.line, np.int32),
            )

    def _name_labels(self, chunks: list[_Boxes]) -> dict[int, str]:
        """Name the labels by the first text beside each; without any, by the label itself, which is reported.

        Sets ``builder.named`` if labels are without a text.
        """
        name_of_label: dict[int, str] = {}
        labels_without_text: set[int] = set()
        for chunk in chunks:
            for label, text in zip(chunk.label, chunk.text, strict=True):
                if label is not None and text:
                    name_of_label.setdefault(label, text.decode("utf-8", "replace"))
                elif label is not None:
                    labels_without_text.add(label)
        if unnamed_labels := sorted(labels_without_text - name_of_label.keys()):
            self.builder.named = bool(name_of_label)
            name_of_label |= {label: str(label) for label in unnamed_labels}
            self.log.report(NUMBERED_CLASSES, self.source.path, value=first_few(unnamed_labels, 10), near="")
        return name_of_label

    def _find_class_row(
        self,
        text: bytes,
        label: int | None,
        location: Location,
        name_of_label: dict[int, str],
        label_map: _LabelMap | None,
    ) -> int:
        """Return the row of the class of a box, named by its text, else by its label; -1 if it has no name.

        That is reported, unless the label map is not usable, which is in the log already.
        """
        # A box with neither has the name "", which `category` refuses.
        name = text.decode("utf-8", "replace") if text or label is None else name_of_label.get(label)
        if name is None:
            path, listed_names = label_map or ("", {})
            if listed_names is not None:
                about = {"value": str(label), "n": len(listed_names), "where": path}
                location.report(self.log, UNKNOWN_CLASS, field="label", **about)
            return -1
        row = self.category(name, location, field="class")
        return -1 if row is None else row


def _report_length(
    features: Features, keys: list[str], text_key: str, n: int, location: Location, log: Log
) -> bool:
    """Report the first feature that has not `n` values, texts under `text_key` and numbers under others.

    Returns whether there is one.
    """
    for key in keys:
        values = features.get(key, ())
        is_text = isinstance(values, list)
        if len(values) != n or is_text != (key == text_key):
            shown = f"{len(values)}{' of another kind' if len(values) == n else ''}"
            location.report(log, LENGTHS, n=n, value=key, found=shown)
            return True
    return False


def _report_range(values: list[float], location: Location, log: Log) -> None:
    """Report the value farthest from 0..1, or not finite, among the edges of a box and maybe its score."""
    farthest = int(np.argmax([abs(v - 0.5) if np.isfinite(v) else np.inf for v in values]))
    field = (*EDGES, "score")[farthest]
    location.report(log, RELATIVE_RANGE, field=field, value=values[farthest])


def _read_text(features: Features, key: str) -> str:
    """Return the first text of a feature, empty if there is none."""
    values = features.get(key)
    return values[0].decode("utf-8", "replace") if isinstance(values, list) and values else ""


def _read_whole(features: Features, key: str) -> int | None:
    """Return the first number of a feature as int; None if there is none, or it is not finite."""
    values = features.get(key)
    has_number = isinstance(values, np.ndarray) and len(values) and np.isfinite(values[0])
    return int(values[0]) if values is not None and has_number else None
