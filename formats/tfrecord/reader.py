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
from odm.issues import Log, PathError, Trusted, first_few, printable
from odm.names import refuse_class, stem
from odm.tables import Builder, Floats

_OTHER_MESSAGE = Trusted("records that are not tf.train.Example, as frames of Waymo are")


class _Boxes(msgspec.Struct, eq=False):
    """The boxes of one record, before their classes have names."""

    image: int
    location: Location
    file: int
    line: int
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
    names = _read_names(source, log, options)
    reader = _Records(source, builder, log, options)
    for file in log.track(files, "reading"):
        reader.read_file(file, split_by_file[file])
    reader.hand_over(names)


def _read_names(
    source: Source, log: Log, options: TfrecordOptions
) -> tuple[str, dict[int, str] | None] | None:
    """Read the label map: its path, and the names by id, None if it is not usable. None without a map."""
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
    first_list: tuple[str, dict[int, str] | None] | None = None
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
                    try:
                        if isinstance(record, Damaged):
                            raise record
                        features, other_names = decode_example(record, READ_KEYS)
                        if not features and is_other_message(record):
                            raise Damaged("it is another message")
                    except Damaged as e:
                        if not isinstance(record, Damaged) and is_other_message(record):
                            remedy = "convert the records to tf.train.Example, or the boxes to COCO"
                            log.report(OTHER_TASK, path, what=_OTHER_MESSAGE, remedy=Trusted(remedy))
                            break
                        location.report(log, BAD_RECORD, reason=str(e))
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
        """Take the image of a record, the `index`-th of its file, and its boxes if the image is valid."""
        n_boxes = sum(len(features.get(f"{kind}bbox/xmin", ())) for kind in (TRUTH, DETECTION))
        source_id = _read_text(features, "image/source_id")
        name = _read_text(features, "image/filename") or source_id
        width, height = (_read_whole(features, key) for key in ("image/width", "image/height"))
        size = self.check_size(width, height, location, ("image/width", "image/height"))
        if size == (0, 0):
            self.builder.skipped += n_boxes
            return
        picture = None
        if self.pictures and name:
            picture = self.pictures.find_exact(name) or self.pictures.find(stem(name))
        size = size or (self.pictures.find_size(name, picture) if name else None)
        image = self.image(
            name or None,
            location,
            field="image/filename",
            size=size,
            picture=picture,
            split=split,
            source_id=int(source_id)
            if source_id.isdecimal() and len(source_id) < 19 and source_id != name
            else None,
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
        present_keys = {key for key, values in features.items() if len(values)}
        names, score = [f"{kind}bbox/{edge}" for edge in EDGES], f"{DETECTION}score"
        n = max(len(features.get(name, ())) for name in names)
        if not n:
            return
        label_key = next((key for key in LABELS if key.startswith(kind) and key in present_keys), "")
        text_key = next((key for key in TEXTS if key.startswith(kind) and key in present_keys), "")
        flag_keys = [key for key in FLAGS if kind == TRUTH and key in present_keys]
        classes = [key for key in (label_key, text_key) if key] or [f"{kind}class/label"]  # which lacks
        for key in (*names, *classes, *([score] if kind == DETECTION else []), *flag_keys):
            feature_values = features.get(key, ())
            has_right_type = isinstance(feature_values, list) == (key == text_key)  # texts are no array
            if len(feature_values) != n or not has_right_type:
                shown = f"{len(feature_values)}{' of another kind' if len(feature_values) == n else ''}"
                location.report(self.log, LENGTHS, n=n, value=key, found=shown)
                self.builder.skipped += n
                return
        relative = np.stack([np.asarray(features[name], np.float64) for name in names], axis=1)
        scores = np.full(n, np.nan)
        if kind == DETECTION:
            # Of the decimals that mean one number of 32 bits the shortest is mostly the one that was meant.
            scores = np.asarray(features[score], np.float32).astype(np.str_).astype(np.float64)
        is_valid = ~are_far(relative) & (np.isfinite(scores) | (kind == TRUTH))
        for row in np.flatnonzero(~is_valid).tolist():
            values = [*relative[row].tolist(), *([float(scores[row])] if kind == DETECTION else [])]
            farthest = int(np.argmax([abs(v - 0.5) if np.isfinite(v) else np.inf for v in values]))
            field = (*EDGES, "score")[farthest]
            location.report(self.log, RELATIVE_RANGE, field=field, value=values[farthest])
            self.builder.skipped += 1
        flags = np.zeros(n, np.uint16)
        for key in flag_keys:
            flags[np.asarray(features[key]) > 0] |= np.uint16(FLAGS[key])
        rows = np.flatnonzero(is_valid)
        labels: list[Any] = (
            np.asarray(features[label_key]).astype(np.int64).tolist() if label_key else [None] * n
        )
        texts: Any = features[text_key] if text_key else [b""] * n
        self.boxes[kind].append(
            _Boxes(
                image,
                location,
                *file_and_line,
                relative[rows] * np.array([*size, *size], np.float64),
                [labels[row] for row in rows.tolist()],
                [texts[row] for row in rows.tolist()],
                scores[rows],
                flags[rows],
            )
        )

    def hand_over(self, names: tuple[str, dict[int, str] | None] | None) -> None:
        """Decide whether the boxes are detections, name the classes, and give the boxes to the builder."""
        builder, (truth, detections) = self.builder, self.boxes.values()
        if builder.kind is None:
            builder.kind = "det" if detections and not truth else "gt"
            if detections and truth:
                path = printable(self.source.path)
                self.log.note(f"{path}: the objects are read, not the detections (--kind det)")
        else:
            truth_summary, detection_summary = (
                (sum(len(chunk.edges) for chunk in chunks), chunks[0].location if chunks else None)
                for chunks in (truth, detections)
            )
            report_other_kind(builder, self.log, truth_summary, detection_summary)
        chunks = detections if builder.kind == "det" else truth
        _, listed_names = names or ("", None)
        by_label = dict(listed_names or {})
        if names is None:  # labels are named by the texts beside them, or by themselves where no box has one
            unnamed_labels: set[int] = set()
            for chunk in chunks:
                for label, text in zip(chunk.label, chunk.text, strict=True):
                    if label is not None and text:
                        by_label.setdefault(label, text.decode("utf-8", "replace"))
                    elif label is not None:
                        unnamed_labels.add(label)
            if unnamed_labels := unnamed_labels - by_label.keys():
                builder.named = bool(by_label)
                by_label |= {label_id: str(label_id) for label_id in sorted(unnamed_labels)}
                self.log.report(
                    NUMBERED_CLASSES, self.source.path, value=first_few(sorted(unnamed_labels), 10), near=""
                )
        for label_id, name in sorted(by_label.items()):
            if refuse_class(name) is None:
                builder.category(name, source_id=label_id)
        for chunk in chunks:
            pairs = list(zip(chunk.text, chunk.label, strict=True))
            row_of_pair = {
                pair: self._find_class_row(*pair, chunk.location, by_label, names)
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

    def _find_class_row(
        self,
        text: bytes,
        label: int | None,
        location: Location,
        by_label: dict[int, str],
        names: tuple[str, dict[int, str] | None] | None,
    ) -> int:
        """Return the row of the class of a box, named by its text, else by its label; -1 if it has no name.

        That is reported, unless the label map is not usable, which is in the log already.
        """
        name = text.decode("utf-8", "replace") if text or label is None else by_label.get(label)
        if name is None:
            path, listed_names = names or ("", {})
            if listed_names is not None:
                value, n = str(label), len(listed_names)
                location.report(
                    self.log,
                    UNKNOWN_CLASS,
                    field="label",
                    value=value,
                    n=n,
                    where=path,
                )
            return -1
        row = self.category(name, location, field="class")
        return -1 if row is None else row


def _read_text(features: Features, key: str) -> str:
    """Return the first text of a feature, empty if there is none."""
    values = features.get(key)
    return values[0].decode("utf-8", "replace") if isinstance(values, list) and values else ""


def _read_whole(features: Features, key: str) -> int | None:
    """Return the first number of a feature as int; None if there is none, or it is not finite."""
    values = features.get(key)
    return (
        int(values[0]) if isinstance(values, np.ndarray) and len(values) and np.isfinite(values[0]) else None
    )
