"""TFRecords as they are read: records become images, their lists become boxes."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.codes import NO_SIZE, NUMBERED_CLASSES
from odm.files import NOT_TEXT, UNREADABLE, Source, Unreadable, open_binary, other_kind
from odm.formats._shared.codes import NO_FILES, RELATIVE_RANGE, UNKNOWN_CLASS
from odm.formats._shared.gather import At, report_other_kind
from odm.formats._shared.json_values import Reader
from odm.formats._shared.pictures import are_far
from odm.formats._shared.splits import files_of_split
from odm.formats.tfrecord.label_map import read_label_map
from odm.formats.tfrecord.layout import (
    BAD_RECORD,
    EDGES,
    FLAGS,
    FOUND,
    LABELS,
    LENGTHS,
    PICTURE,
    SPLITS,
    TEXTS,
    TRUTH,
    WANTED,
    TfrecordOptions,
    files_of,
    split_of,
    stem_of,
)
from odm.formats.tfrecord.wire import Damaged, Features, example, records
from odm.issues import Log, PathError, Trusted, first_few, printable
from odm.names import BAD_CLASS_NAME, refuse_class, stem
from odm.tables import Builder, Floats


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class _Boxes:
    """The boxes of one record, before their classes have names."""

    image: int
    at: At
    file: int
    line: int
    edges: Floats
    """(n, 4) in pixels."""
    label: NDArray[np.int64] | None
    text: list[bytes] | None
    score: Floats
    flags: NDArray[np.uint16]


def read(source: Source, builder: Builder, log: Log, options: TfrecordOptions) -> None:
    """Read a file, or those of a folder."""
    path = source.path.replace("\\", "/")
    files = files_of(source) if source.is_dir else [""]
    if not files:
        log.report(NO_FILES, source.path, expected=Trusted("a TFRecord file"), n=len(source.files))
    several = len({stem_of(file) for file in files}) > 1
    given = {file: split_of(file or path, several=several) for file in files}
    wanted = None if options.split is None else SPLITS.get(options.split, options.split)
    files = files_of_split(files, given.__getitem__, wanted, source, log)
    reader = _Records(source, builder, log, options)
    names = reader.names(options)
    for file in log.track(files, "reading"):
        reader.read_file(file, given[file])
    reader.finish(names)


class _Records:
    def __init__(self, source: Source, builder: Builder, log: Log, options: TfrecordOptions) -> None:
        self.source, self.builder, self.log = source, builder, log
        self.values = Reader(source, builder, log, options, ask_other=True)
        self.truth: list[_Boxes] = []
        self.found: list[_Boxes] = []

    def names(self, options: TfrecordOptions) -> tuple[str, dict[int, str] | None] | None:
        """The path of the label map, and its content."""
        source = self.source
        home: Source | None
        if options.label_map is not None:
            home, files = Source(options.label_map, follow_links=True), [""]
        elif source.is_dir:
            home, files = source, source.with_suffix(".pbtxt")
        else:
            home, files = self._beside(), [""]
        found: tuple[str, dict[int, str] | None] | None = None
        for file in files if home else ():
            assert home is not None
            data, path = home.read(file, self.log), home.full(file)
            names = None if data is None else read_label_map(data, path, self.log)
            if names is None or found is None:
                found = path, names
            elif names != found[1]:
                self.log.note(f"{printable(path)}: not read, for {printable(found[0])} has other classes")
            if names is None:
                break
        return found

    def _beside(self) -> Source | None:
        """The label map beside the one file that is read."""
        source = self.source
        folder, name = os.path.split(source.path)
        for beside in ("label_map.pbtxt", f"{stem_of(name)}_label_map.pbtxt", "labelmap.pbtxt"):
            try:
                return Source(os.path.join(folder, beside), follow_links=source.follow_links)
            except PathError:
                continue
        return None

    def read_file(self, file: str, split: str) -> None:
        """Read the records of a file."""
        source, log = self.source, self.log
        path = source.full(file)
        try:
            with open_binary(path, max_size=source.max_size) as stream:
                if what := other_kind(stream.read(16)):
                    log.report(NOT_TEXT, path, value=Trusted(what))
                    return
                stream.seek(0)
                number = self.builder.file(path, "/")
                for i, record in enumerate(records(stream)):
                    at = At(path) / i
                    try:
                        if isinstance(record, Damaged):
                            raise record
                        features, others = example(record, WANTED)
                    except Damaged as e:
                        log.report(BAD_RECORD, path, **at.where, reason=str(e))
                        continue
                    for name in others:
                        if name not in PICTURE:
                            self.values.count(name)
                    self._record(features, at, number, i, split)
        except Unreadable as e:
            log.report(UNREADABLE, path, reason=str(e))
        except OSError as e:
            log.report(UNREADABLE, path, reason=e.strerror or "it cannot be read")

    def _record(self, features: Features, at: At, number: int, index: int, split: str) -> None:
        values, log = self.values, self.log
        name = _text(features, "image/filename") or _text(features, "image/source_id")
        width, height = (_first(features, key) for key in ("image/width", "image/height"))
        size = values.size(width, height, at, ("image/width", "image/height"))
        if size == (0, 0):
            self.builder.skipped += self._count(features)
            return
        picture = None
        if values.pictures and name:
            picture = values.pictures.named(name) or values.pictures.find(stem(name))
        size = size or (values.pictures.size(name, picture) if name else None)
        text = _text(features, "image/source_id")
        source_id = int(text) if text.isdecimal() and len(text) < 19 and text != name else None
        image = values.image(
            name or None,
            at,
            field="image/filename",
            size=size,
            picture=picture,
            split=split,
            source_id=source_id,
            file=number,
            line=index,
        )
        count = self._count(features)
        if image is None or not count:
            self.builder.skipped += count
            return
        if size is None:
            log.report(NO_SIZE, at.path, **at.where, value=name)
            self.builder.skipped += count
            return
        for kind, boxes in ((TRUTH, self.truth), (FOUND, self.found)):
            if found := self._boxes(features, kind, image, size, at, (number, index)):
                boxes.append(found)

    @staticmethod
    def _count(features: Features) -> int:
        """How many boxes a record has, whether they can be read or not."""
        return sum(len(features.get(f"{kind}bbox/xmin", ())) for kind in (TRUTH, FOUND))

    def _boxes(
        self, features: Features, kind: str, image: int, size: tuple[int, int], at: At, place: tuple[int, int]
    ) -> _Boxes | None:
        """The boxes of one kind; None where there is none, or they cannot be read."""
        names = [f"{kind}bbox/{edge}" for edge in EDGES]
        n = max(len(features.get(name, ())) for name in names)
        if not n:
            return None
        label = next((key for key in LABELS if key.startswith(kind) and len(features.get(key, ()))), "")
        text = next((key for key in TEXTS if key.startswith(kind) and len(features.get(key, ()))), "")
        score = f"{FOUND}score"
        needed = [*names, *filter(None, (label, text)), *([score] if kind == FOUND else [])]
        optional = [key for key in FLAGS if kind == TRUTH and len(features.get(key, ()))]
        for key in (*needed, *optional):
            found = features.get(key, ())
            if len(found) != n or isinstance(found, list) != (key == text):
                shown = f"{len(found)}{' of another kind' if len(found) == n else ''}"
                self.log.report(LENGTHS, at.path, **at.where, n=n, value=key, found=shown)
                self.builder.skipped += n
                return None
        if not label and not text:
            self.log.report(LENGTHS, at.path, **at.where, n=n, value=f"{kind}class/label", found="0")
            self.builder.skipped += n
            return None
        relative = np.stack([np.asarray(features[name], np.float64) for name in names], axis=1)
        # Of the decimals that mean one number of 32 bits the shortest is mostly the one that was meant.
        scores = np.full(n, np.nan)
        if kind == FOUND:
            scores = np.asarray(features[score], np.float32).astype(np.str_).astype(np.float64)
        good = ~are_far(relative) & (np.isfinite(scores) | (kind == TRUTH))
        for row in np.flatnonzero(~good).tolist():
            values = [*relative[row].tolist(), *([float(scores[row])] if kind == FOUND else [])]
            k = int(np.argmax([abs(v - 0.5) if np.isfinite(v) else np.inf for v in values]))
            field = (*EDGES, "score")[k]
            self.log.report(RELATIVE_RANGE, at.path, **at.where, field=field, value=values[k])
            self.builder.skipped += 1
        flags = np.zeros(n, np.uint16)
        for key in optional:
            flags[np.asarray(features[key]) > 0] |= np.uint16(FLAGS[key])
        labels: Any = features[label][good] if label else None
        texts = [t for t, g in zip(features[text], good.tolist(), strict=True) if g] if text else None
        edges = relative[good] * np.array([*size, *size], np.float64)
        return _Boxes(
            image,
            at,
            *place,
            edges,
            None if labels is None else labels.astype(np.int64),
            texts,
            scores[good],
            flags[good],
        )

    def finish(self, names: tuple[str, dict[int, str] | None] | None) -> None:
        """Decide on the kind, give the classes their names, and hand over the boxes."""
        builder = self.builder
        if builder.kind is None:
            builder.kind = "det" if self.found and not self.truth else "gt"
            if self.found and self.truth:
                path = printable(self.source.path)
                self.log.note(f"{path}: the objects are read, not the detections (--kind det)")
        else:
            report_other_kind(builder, self.log, _counted(self.truth), _counted(self.found))
        parts = self.found if builder.kind == "det" else self.truth
        table = _Classes(builder, self.log, parts, names, self.source.path)
        for part in parts:
            category = table.rows(part)
            good = category >= 0
            builder.skipped += int((~good).sum())
            builder.boxes(
                image=np.full(int(good.sum()), part.image, np.int32),
                category=category[good],
                xyxy=part.edges[good],
                score=part.score[good] if builder.kind == "det" else None,
                flags=part.flags[good],
                file=part.file,
                line=np.full(int(good.sum()), part.line, np.int32),
            )


def _counted(parts: list[_Boxes]) -> tuple[int, At | None]:
    """How many boxes there are, and the place of the first."""
    return sum(len(part.edges) for part in parts), parts[0].at if parts else None


class _Classes:
    """The classes by their labels and by their texts."""

    def __init__(
        self,
        builder: Builder,
        log: Log,
        parts: list[_Boxes],
        names: tuple[str, dict[int, str] | None] | None,
        source: str,
    ) -> None:
        self.builder, self.log = builder, log
        self.path, listed = names or ("", None)
        self.usable = names is None or listed is not None
        self.by_label: dict[int, str] = dict(listed or {})
        self.n = len(self.by_label)
        if names is None:
            self._learn(parts, source)
        for number, name in sorted(self.by_label.items()):
            if refuse_class(name) is None:
                builder.category(name, source_id=number)

    def _learn(self, parts: list[_Boxes], source: str) -> None:
        """Take the names of the labels from the texts beside them, or the labels where no box has one."""
        bare: set[int] = set()
        for part in parts:
            labels = [] if part.label is None else part.label.tolist()
            if part.text is None:
                bare.update(labels)
            for label, text in zip(labels, part.text or (), strict=False):
                if text:
                    self.by_label.setdefault(label, text.decode("utf-8", "replace"))
                else:
                    bare.add(label)
        bare -= self.by_label.keys()
        if bare and not self.by_label:
            self.builder.named = False
        if bare:
            numbers = sorted(bare)
            self.by_label |= {number: str(number) for number in numbers}
            shown = first_few(numbers, 10)
            self.log.report(NUMBERED_CLASSES, source, value=shown, near="")

    def rows(self, part: _Boxes) -> NDArray[np.int32]:
        """The category row of each box; -1, and an issue, for one that has none."""
        n = len(part.edges)
        texts = part.text or [b""] * n
        labels = [None] * n if part.label is None else part.label.tolist()
        known = {pair: self._row(*pair, part.at) for pair in dict.fromkeys(zip(texts, labels, strict=True))}
        return np.array([known[pair] for pair in zip(texts, labels, strict=True)], np.int32)

    def _row(self, text: bytes, label: int | None, at: At) -> int:
        name = (
            text.decode("utf-8", "replace") if text else self.by_label.get(label) if label is not None else ""
        )
        if name is None:
            if self.usable:
                self.log.report(
                    UNKNOWN_CLASS,
                    at.path,
                    **at.where,
                    field="label",
                    value=str(label),
                    n=self.n,
                    where=self.path,
                )
            return -1
        if (reason := refuse_class(name)) is not None:
            self.log.report(BAD_CLASS_NAME, at.path, **at.where, field="class", value=name, reason=reason)
            return -1
        return self.builder.category(name)


def _text(features: Features, key: str) -> str:
    """The first text of a feature, empty where there is none."""
    found = features.get(key)
    return found[0].decode("utf-8", "replace") if isinstance(found, list) and found else ""


def _first(features: Features, key: str) -> int | None:
    found = features.get(key)
    return int(found[0]) if isinstance(found, np.ndarray) and len(found) and np.isfinite(found[0]) else None
