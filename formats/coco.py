"""COCO JSON: instances, and lists of results.

An instances file is one object::

    {"images": [{"id": 1, "file_name": "a.jpg", "width": 640, "height": 480}],
     "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [x, y, w, h],
                      "area": 9, "iscrowd": 0}],
     "categories": [{"id": 1, "name": "person", "supercategory": "person"}]}

``bbox`` is left, top, width and height in pixels. If every annotation has a ``score`` the file holds
detections; if only some have one it is ground truth, the scores are ignored, and that is a warning.

A results file is a list of detections::

    [{"image_id": 1, "category_id": 1, "bbox": [x, y, w, h], "score": 0.9}]

Its images and categories come from the ground truth (``--gt GT.json``; in ``eval`` the other side), which may
have any format. All ids of the file are looked up in one way, said aloud where it is not the first:

- ``image_id``: the id of an image there; else the image's name or stem; else the number that the stem is
  (``000000123.jpg`` is 123).
- ``category_id``: the id of a category there; where it has no ids, the position in its order from 1, or the
  category's name.

Reading: ids may start at 0, have gaps, be text (``"7"`` is never 7), or be written ``1.0`` (a warning); whole
ids are exact to 64 bits. ``iscrowd``, ``area`` and an annotation's ``id`` may be missing, as may the image's
size (a warning; ``--images``, ``--image-size`` and ``--image-sizes`` supply it). A missing ``file_name`` is
replaced by the id (a warning). Categories of one name become one (a warning). ``segmentation`` and all other
keys are counted and not read. ``area`` stays beside the box: it is the mask's.

A folder is read at once, with one class order: all its ``instances_<split>.json``, or if there are none
every file that looks like COCO; ``<split>/_annotations.coco.json`` too names its split. ``--split`` takes
one of them.

Writing: a ``.json`` target is one file, another target a folder of ``instances_<split>.json``, or
``detections_<split>.json``. Ids of images and categories are kept where all are whole numbers, else they
count from 1; annotation ids are kept where they are unique and at least 1, for official tools mis-score an
annotation whose id is 0. Numbers are the shortest that read back the same; whole numbers have no point.
Detections are written as a results list with the ids of ``--gt`` where it is given, else as one object with a
``score`` per annotation; ``-O results=true`` and ``-O results=false`` decide by hand.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.files import UNREADABLE, Output, Source, Unreadable, accept_name, read_head
from odm.formats._classes import DUPLICATE_CLASS, refuse_class
from odm.formats._coco80 import IDS, NAMES
from odm.formats._contract import LIKELY, SURE, TABLES, Format, Sniff, option, parse_bool
from odm.formats._faults import (
    ALL_SCORED,
    BAD_CLASS_NAME,
    BAD_IMAGE_SIZE,
    CATEGORY_POSITION_GUESSED,
    DUPLICATE_BOX_ID,
    DUPLICATE_ID,
    DUPLICATE_IMAGE,
    MISSING_BOX_KEY,
    MISSING_KEY,
    NOT_FINITE,
    SCORE_MISSING,
    SIZE_FROM_PICTURE,
    SIZE_MISSING,
    SOME_SCORES,
    UNKNOWN_CATEGORY,
    UNKNOWN_IMAGE,
    UNKNOWN_SPLIT,
    WRONG_BOX_TYPE,
    WRONG_COUNT,
    WRONG_TYPE,
)
from odm.formats._images import ImageOptions, Pictures
from odm.formats._json import (
    DUPLICATE_KEY,
    DUPLICATE_ROW_KEY,
    NONE,
    Broken,
    Chunk,
    Document,
    Field,
    Glance,
    Repeated,
    Token,
    glance,
    load,
)
from odm.formats._numbers import short_wh
from odm.issues import KEPT_PER_CODE, Code, Log, Shown, UsageError, hint, printable, shorten
from odm.tables import NO_ID, Builder, Categories, Dataset, Flag, Floats, Id, Longs, stem

FLOAT_ID = Code(
    "id-written-as-float",
    "warning",
    "an id is written {value} and is read as a whole number",
    "write ids without a point",
    "Table programs turn columns with gaps into decimal numbers. Other tools may refuse such ids, or lose "
    "digits of large ones. Only the first one of each kind is reported.",
)
BAD_CROWD = Code(
    "bad-iscrowd",
    "error",
    "expected iscrowd to be 0 or 1, found {value}",
    "write 0 for a single object and 1 for a crowd",
    "A crowd stands for many objects and is evaluated otherwise, so it must be clear which boxes are one.",
    row=True,
)
NO_FILE_NAME = Code(
    "file-name-missing",
    "warning",
    "the image has no file_name, so it is called {value!r} after its id",
    "add the file_name",
    "Images are joined with other files by name.",
)
NO_REFERENCE = Code(
    "results-without-reference",
    "error",
    "a results list names neither images nor categories, only their ids",
    "give the ground truth that it belongs to with --gt GT.json",
    "The ids of a results list can be understood only with the ground truth that they come from.",
)
RESULTS_AS_TRUTH = Code(
    "results-as-ground-truth",
    "error",
    "expected ground truth, found a results list",
    "give an instances file",
    "A results list holds detections, and evaluating it as ground truth would give meaningless numbers.",
)
NO_ANNOTATIONS = Code(
    "no-annotations",
    "warning",
    "there is no list of annotations, so all images are without objects",
    "check that this is the right file",
    "Files that only list images have the same outline, and so has a file that was exported incompletely.",
)
NO_COCO_FILE = Code(
    "no-coco-file",
    "error",
    "no file here looks like COCO JSON",
    "name the file itself, or choose another format",
    "A folder is read by its .json files that have images, annotations and categories.",
)
NOT_IN_REFERENCE = Code(
    "not-in-reference",
    "error",
    "the {what} {value!r} is not in the ground truth whose ids are to be written{near}",
    "give the ground truth that these detections belong to",
    "A results list can say only the ids of the ground truth.",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CocoOptions(ImageOptions):
    """Options of COCO JSON."""

    split: str | None = option(None, "read only this split of a folder", flag="--split", side="read")
    results: bool | None = option(
        None,
        "write detections as a results list (true), or as one object with images and categories (false); "
        "left out, as a list where --gt says the ids",
        side="write",
        parse=parse_bool,
    )
    ids: str | None = option(
        None,
        "80: the category ids of results are positions among COCO's 80 classes, 0 to 79, as trainers count",
        choices=("80",),
        side="read",
    )
    reference: Dataset | None = None
    """The ground truth whose ids a results list is written with; the framework fills it in."""


_IMAGE = (
    Field("id", "id", required=True),
    Field("file_name", "text"),
    Field("width", "int"),
    Field("height", "int"),
)
_CATEGORY = (Field("id", "id", required=True), Field("name", "text", required=True))
_ANNOTATION = (
    Field("image_id", "id", required=True),
    Field("category_id", "id", required=True),
    Field("bbox", "numbers", required=True),
    Field("score", "number"),
    Field("area", "number"),
    Field("iscrowd", "int"),
    Field("id", "id"),
)
_RESULT = _ANNOTATION[:4]
_UNREAD_IN_RESULTS = frozenset({"id", "area", "iscrowd"})
"""Keys that some programs add to results; they say nothing of their own there."""

_MOST_EXTRAS = 30
"""Names of unread keys that are told apart."""


# ---------------------------------------------------------------------------------------------- sniffing


def _looks_like(look: Glance) -> tuple[int, str] | None:
    """What a glance at a file says: confidence and reason."""
    if look.top == "[]":
        return LIKELY, "it is an empty list, as results without detections are"
    if look.top == "[":
        first = look.first.get("", {})
        known = [key for key in ("image_id", "category_id", "bbox", "score") if key in first]
        if "image_id" in known and len(known) >= 2:
            return (SURE if len(known) >= 3 else LIKELY), f"it is a list of records with {_and(known)}"
        return None
    lists = [key for key in ("images", "annotations", "categories") if look.keys.get(key) == "["]
    wants = {
        "images": ({"id"}, {"file_name", "width", "height"}),
        "annotations": ({"image_id"}, {"bbox", "category_id", "segmentation", "id"}),
        "categories": ({"id"}, {"name"}),
    }
    fits = []
    for key in lists:
        record = look.first.get(key)
        if record is not None and not (wants[key][0] <= record.keys() or wants[key][1] & record.keys()):
            return None  # another format that uses the same word
        if record is not None and wants[key][0] <= record.keys() and wants[key][1] & record.keys():
            fits.append(key)
    if "annotations" in fits or len(lists) >= 2:
        return SURE, f"it has the {'list' if len(lists) == 1 else 'lists'} {_and(lists)}, as COCO has"
    if "images" in fits:
        return LIKELY, "it has a list of images with ids, as COCO has"
    # What is seen so far is how COCO begins.
    usual = {"info", "licenses", "type", "images", "annotations", "categories"}
    if look.cut and look.keys and look.keys.keys() <= usual:
        return LIKELY, f"it begins with {_and(list(look.keys))}, as COCO does"
    return None


def _judge(head: bytes) -> tuple[int, str] | None:
    """What the first bytes of a file say; a few are enough for most."""
    found = _looks_like(glance(head[:4096]))
    if (found is None or found[0] < SURE) and len(head) > 4096:
        found = _looks_like(glance(head))
    return found


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def sniff(source: Source) -> Sniff | None:
    """Look at the outermost keys of the first bytes."""
    if not source.is_dir:
        head = source.head()
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
            return None
        found = _judge(head)
        return Sniff(*found) if found else None
    chosen = _choose(source)
    if not chosen:
        return None
    names = [file for file, _ in chosen]
    shown = _and(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more files"
    found = _judge(source.head(names[0]))
    assert found
    return Sniff(found[0], f"of {shown}: {found[1]}")


_SPLIT = re.compile(r"(?:instances|detections|results|annotations)[-_](.+)\.json", re.IGNORECASE)
_SPLIT_NAMES = frozenset({"train", "val", "valid", "validation", "test", "dev", "minival", "trainval"})
_LOOKS = 50
"""Files of a folder that are looked at; a folder of one file per image has thousands, and is not COCO."""


def _choose(source: Source) -> list[tuple[str, str]]:
    """The files of a folder that are read, each with its split; answers from memory the second time."""
    if "coco" not in source.memo:
        found: dict[str, bytes] = {}
        listed = source.with_suffix(".json")
        for number, file in enumerate(listed):
            if number >= _LOOKS and not found:
                break
            head = source.head(file)
            if _judge(head):
                found[file] = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        objects = [file for file, top in found.items() if top == b"{"]
        named = [file for file in objects if file.rsplit("/", 1)[-1].lower().startswith("instances")]
        files = named or objects or list(found)
        source.memo["coco"] = [(file, _split_of(file)) for file in files]
        source.memo["coco-others"] = [file for file in listed if file not in files]
    chosen: list[tuple[str, str]] = source.memo["coco"]
    return chosen


def _unlike(source: Source, files: Sequence[str], log: Log) -> dict[str, bool]:
    """Of files that are not like COCO, whether each is read nevertheless, to say what is wrong with it,
    because its name says that it should be COCO.
    """
    found = {}
    for file in files:
        try:
            read_head(source.full(file), 1)
        except Unreadable as e:
            log.report(UNREADABLE, source.full(file), reason=str(e))
            continue
        found[file] = file.rsplit("/", 1)[-1].lower().startswith("instances_")
    return found


def _split_of(file: str) -> str:
    """The split that a path names, else nothing."""
    folder, _, name = file.rpartition("/")
    if match := _SPLIT.fullmatch(name):
        if match[1].lower() in ("coco", "coco.json"):
            return folder.rsplit("/", 1)[-1]
        return match[1]
    word = name[: -len(".json")]
    if word.lower() in _SPLIT_NAMES:
        return word
    parent = folder.rsplit("/", 1)[-1]
    return parent if name.startswith("_annotations") or parent.lower() in _SPLIT_NAMES else ""


# ----------------------------------------------------------------------------------------------- reading


def read(source: Source, builder: Builder, log: Log, options: CocoOptions) -> None:
    """Read one file, or the files of a folder with one class order."""
    if not source.is_dir:
        files = [("", "")]
        if options.split is not None and options.split != (own := _split_of(source.path)):
            log.report(
                UNKNOWN_SPLIT, source.path, value=options.split, found=own or "one file without a split"
            )
            return
    else:
        files = list(_choose(source))
        errors = log.errors
        others = _unlike(source, source.memo["coco-others"], log)
        files += [(file, _split_of(file)) for file in others if others[file]]
        if not files:
            if log.errors == errors:
                log.report(NO_COCO_FILE, source.path)
            return
        if passed := [file for file in others if not others[file]]:
            shown = ", ".join(passed[:5]) + (", ..." if len(passed) > 5 else "")
            log.note(f"{printable(source.path)}: not read: {printable(shown)}")
        if options.split is not None:
            splits = sorted({split for _, split in files} - {""})
            files = [(file, split) for file, split in files if split == options.split]
            if not files:
                log.report(
                    UNKNOWN_SPLIT, source.path, value=options.split, found=", ".join(splits) or "no splits"
                )
                return
    reader = _Reader(source, builder, log, options)
    for file, split in files:
        reader.read(file, split)
    reader.finish()


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class _Table:
    """The boxes of one file, as columns that grow, and what their ids mean."""

    path: str
    pointer: str
    n: int = 0
    seen: int = 0
    """Records of the list, bad ones included."""
    columns: dict[str, NDArray[Any]] = dataclasses.field(default_factory=dict)
    ids: dict[str, list[NDArray[Any] | list[Any]]] = dataclasses.field(default_factory=dict)
    rows: dict[str, NDArray[np.int32]] = dataclasses.field(default_factory=dict)
    """Row numbers for the ids of a key, where they were looked up already."""
    images: dict[Id, int] = dataclasses.field(default_factory=dict)
    categories: dict[Id, int] = dataclasses.field(default_factory=dict)
    unlisted: set[str] = dataclasses.field(default_factory=set)
    """``image_id`` or ``category_id`` where their list is missing, which one issue says for all boxes."""
    _room: int = 0

    def add(
        self,
        index: NDArray[Any],
        ids: Mapping[str, NDArray[Any] | list[Any]],
        ltwh: Floats,
        *,
        score: NDArray[Any] | None,
        area: NDArray[Any] | None,
        crowd: NDArray[Any] | None,
        expected: int = 0,
    ) -> None:
        """Append boxes, of which there will be some `expected`; None stands for all missing."""
        begin, end = self.n, self.n + len(index)
        self.n = end
        if end > self._room:
            self._room = max(end, expected, 2 * begin)
            for name in self.columns:
                self._allocate(name, begin)
        self._put("index", begin, index)
        self._put("wh", begin, ltwh[:, 2:])
        self._put("xyxy", begin, None)
        xyxy = self.columns["xyxy"][begin:end]
        xyxy[:, :2] = ltwh[:, :2]
        with np.errstate(over="ignore"):  # an infinite edge is for the checks to name
            np.add(ltwh[:, :2], ltwh[:, 2:], out=xyxy[:, 2:])
        for name, values in (("score", score), ("area", area)):
            if values is not None or name in self.columns:
                self._put(name, begin, np.nan if values is None else values)
        if "flags" in self.columns or (crowd is not None and bool((crowd == 1).any())):
            self._put("flags", begin, 0 if crowd is None else np.where(crowd == 1, np.uint16(Flag.CROWD), 0))
        for key in ("image_id", "category_id", "id"):
            part = ids.get(key)
            if key not in self.ids:
                if part is None:
                    continue
                self.ids[key] = [_none(begin)]
            self.ids[key].append(_none(len(index)) if part is None else part)

    def _put(self, name: str, begin: int, values: Any) -> None:
        if name not in self.columns:
            self._allocate(name, begin)
        if values is not None:
            self.columns[name][begin : self.n] = values

    def _allocate(self, name: str, used: int) -> None:
        """Make room in a column; a new one says of the boxes before it that it was missing."""
        inner, dtype, missing = _COLUMNS[name]
        column = np.empty((self._room, *inner), dtype)
        old = self.columns.get(name)
        column[:used] = missing if old is None else old[:used]
        self.columns[name] = column

    def column(self, name: str) -> NDArray[Any] | None:
        """One column without the room to grow, None if no box has it."""
        column = self.columns.get(name)
        return None if column is None else column[: self.n]

    def id_column(self, key: str) -> NDArray[Any] | list[Any] | None:
        """All ids of a key: int64, or a list where some are text; None if no box has it."""
        parts = self.ids.get(key)
        if parts is None:
            return None
        if len(parts) > 1:
            if all(isinstance(part, np.ndarray) for part in parts):
                joined: Any = np.concatenate(parts)
            else:
                joined = [i for part in parts for i in _listed(part)]
            parts[:] = [joined]
        return parts[0]


_COLUMNS: dict[str, tuple[tuple[int, ...], Any, float]] = {
    "index": ((), np.int32, 0),
    "xyxy": ((4,), np.float64, 0),
    "wh": ((2,), np.float64, 0),
    "score": ((), np.float64, np.nan),
    "area": ((), np.float64, np.nan),
    "flags": ((), np.uint16, 0),
}


def _none(n: int) -> Longs:
    return np.full(n, NONE, np.int64)


class _Reader:
    """Reads the files of one source; boxes wait until it is known whether they are detections."""

    def __init__(self, source: Source, builder: Builder, log: Log, options: CocoOptions) -> None:
        self.source = source
        self.builder = builder
        self.log = log
        self.counted = options.ids == "80"
        self.tables: list[_Table] = []
        self.lists = False
        self.fast = True
        self.slice_size: int | None = None
        asks = (options.images, options.image_size, options.image_sizes) != (None, None, None)
        self._pictures = Pictures(options, Builder(), log, source) if asks else None
        self._image_places: dict[str, tuple[str, str]] = {}
        self._float_ids: set[str] = set()
        self._reference_added = False

    # -- one file

    def read(self, file: str, split: str) -> None:
        """Read one file; a syntax error ends it."""
        path = self.source.full(file)
        data = self.source.read(file, self.log)
        if data is None:
            return
        self._float_ids.clear()
        sizes = {} if self.slice_size is None else {"slice_size": self.slice_size}
        try:
            data = load(data, self.log, path)
            document = Document(data, self.log, path, fast=self.fast, **sizes)
            if document.top == "{":
                self._read_object(document, path, split)
            elif document.top == "[":
                self._read_list(document, path)
            else:
                value = document.value()
                document.end()
                self._wrong(WRONG_TYPE, path, "", "", "an object or a list", value)
        except Broken:
            pass

    def finish(self) -> None:
        """Decide between ground truth and detections, and hand over the boxes."""
        builder = self.builder
        total = sum(table.n for table in self.tables)
        found = sum(
            int(np.count_nonzero(~np.isnan(score)))
            for table in self.tables
            if (score := table.column("score")) is not None
        )
        if builder.kind is None:
            builder.kind = "det" if self.lists or (total and found == total) else "gt"
        elif builder.kind == "gt" and self.lists:
            self.log.report(RESULTS_AS_TRUTH, self.source.path)
            return
        for table in self.tables:
            self._hand_over(table, found, total)

    def _hand_over(self, table: _Table, found: int, total: int) -> None:
        builder, log = self.builder, self.log
        if not table.n:
            return
        score, index = table.column("score"), table.column("index")
        assert index is not None
        good = np.ones(table.n, bool)
        if builder.kind == "det":
            bad = np.flatnonzero(np.isnan(score)) if score is not None else np.arange(table.n)
            self._tell(SCORE_MISSING, table, bad, "", lambda _: {})
            good[bad] = False
        elif score is not None:
            own = np.flatnonzero(~np.isnan(score))
            if len(own):
                pointer = f"{table.pointer}/{index[own[0]]}/score"
                if found < total:
                    values = {"found": found, "total": total}
                    log.report(SOME_SCORES, table.path, pointer=pointer, field="score", **values)
                elif not log.counts[ALL_SCORED.name]:  # once, however many files there are
                    log.report(ALL_SCORED, table.path, pointer=pointer, field="score", n=total)
            score = None
        image = self._rows_of(table, "image_id", table.images, UNKNOWN_IMAGE, good)
        category = self._rows_of(table, "category_id", table.categories, UNKNOWN_CATEGORY, good)
        ids = table.id_column("id")
        if ids is not None:
            self._find_repeated(table, ids, good)
            if isinstance(ids, list):
                ids = np.array([i if isinstance(i, int) else NO_ID for i in ids], np.int64)
        columns = {
            "image": image,
            "category": category,
            "xyxy": table.column("xyxy"),
            "wh": table.column("wh"),
            "score": score,
            "flags": table.column("flags"),
            "area": table.column("area"),
            "source_id": ids,
            "line": index,
        }
        if not good.all():
            builder.skipped += int(np.count_nonzero(~good))
            columns = {name: None if values is None else values[good] for name, values in columns.items()}
        given: dict[str, Any] = {name: values for name, values in columns.items() if values is not None}
        builder.boxes(**given, file=builder.file(table.path, table.pointer or "/"))

    def _tell(
        self, code: Code, table: _Table, rows: NDArray[Any], key: str, values: Callable[[int], dict[str, Any]]
    ) -> None:
        """Report the same fault of many boxes: all are counted, `values` is asked only for those kept."""
        index = table.column("index")
        assert index is not None
        room = max(0, KEPT_PER_CODE - self.log.counts[code.name])
        for row in rows[:room].tolist():
            pointer = f"{table.pointer}/{index[row]}"
            pointer = f"{pointer}/{key}" if key else pointer
            self.log.report(code, table.path, pointer=pointer, field=key, **values(row))
        if len(rows) > room:
            self.log.counts[code.name] += len(rows) - room

    def _rows_of(
        self, table: _Table, key: str, known: Mapping[Id, int], code: Code, good: NDArray[np.bool_]
    ) -> NDArray[np.int32]:
        """Row numbers for ids; unknown ones are reported and no longer good.

        A row of -2 is bad in silence: the entry with that id is in the log.
        """
        ids = table.id_column(key)
        assert ids is not None
        rows = table.rows[key] if key in table.rows else _look_up(ids, known)
        bad = np.flatnonzero(rows < 0)
        if len(bad):
            texts = [k for k in known if isinstance(k, str)]

            def values(row: int) -> dict[str, Any]:
                value = ids[row] if isinstance(ids, list) else int(ids[row])
                return {"value": Shown(_show(value)), "near": Shown(_near(value, known, texts))}

            if key not in table.unlisted:
                self._tell(code, table, np.flatnonzero(rows == -1), key, values)
            good[bad] = False
        return rows

    def _find_repeated(self, table: _Table, ids: NDArray[Any] | list[Any], good: NDArray[np.bool_]) -> None:
        if isinstance(ids, np.ndarray) and bool((ids[1:] > ids[:-1]).all()):
            return
        first: dict[Id, int] = {}
        index = table.column("index")
        assert index is not None
        repeated = [i for i, id_ in enumerate(_listed(ids)) if id_ != NONE and first.setdefault(id_, i) != i]

        def values(row: int) -> dict[str, Any]:
            id_ = ids[row] if isinstance(ids, list) else int(ids[row])
            return {"value": Shown(_show(id_)), "first": Shown(f"#{table.pointer}/{index[first[id_]]}")}

        rows = np.array(repeated, np.int64)
        self._tell(DUPLICATE_BOX_ID, table, rows, "id", values)
        good[rows] = False

    # -- an object with images, annotations and categories

    def _read_object(self, document: Document, path: str, split: str) -> None:
        table = _Table(path, "/annotations")
        lists: set[str] = set()
        for key, top in document.members():
            if key not in ("images", "annotations", "categories"):
                if key not in {"info", "licenses"}:
                    self._extra({key: 1})
                continue
            lists.add(key)
            if top != "[":
                value = document.value()
                self._wrong(WRONG_TYPE, path, f"/{key}", "", "a list", value)
                table.unlisted.add("image_id" if key == "images" else "category_id")
            elif key == "images":
                self._read_images(document, path, split, table)
            elif key == "categories":
                self._read_categories(document, path, table)
            else:
                self._read_boxes(document, table, _ANNOTATION)
        for key, id_key in (("images", "image_id"), ("categories", "category_id")):
            if key not in lists and (table.seen or key == "images"):
                self.log.report(MISSING_KEY, path, value=key)
                table.unlisted.add(id_key)
        if "annotations" not in lists and "images" in lists:
            self.log.report(NO_ANNOTATIONS, path)
        self.tables.append(table)

    def _read_images(self, document: Document, path: str, split: str, table: _Table) -> None:
        ids: list[Id] = []
        names: list[Any] = []
        sizes: list[tuple[Any, Any]] = []
        index: list[int] = []
        for chunk in document.records(_IMAGE):
            self._note_chunk(chunk, path, "/images")
            if chunk.records is None:
                n, columns = chunk.n, chunk.columns
                ids += _listed(columns["id"])
                names += columns.get("file_name") or [None] * n
                sizes += zip(
                    *(_listed(columns.get(key, _none(n))) for key in ("width", "height")), strict=True
                )
                index += range(chunk.start, chunk.start + n)
                continue
            for i, record in enumerate(chunk.records, chunk.start):
                place = f"/images/{i}"
                if not self._is_object(record, path, place, WRONG_TYPE, DUPLICATE_KEY, _IMAGE):
                    continue
                id_ = self._id(record, "id", path, place, "/images", (MISSING_KEY, WRONG_TYPE))
                name = record.get("file_name")
                if name is not None and not isinstance(name, str):
                    self._wrong(WRONG_TYPE, path, place, "file_name", "text", name)
                    name = False  # an error already; its boxes are left out without one of their own
                if id_ is not None:
                    ids.append(id_)
                    names.append(name)
                    sizes.append((record.get("width"), record.get("height")))
                    index.append(i)
        self._add_images(path, split, table, ids, names, sizes, index)

    def _add_images(
        self,
        path: str,
        split: str,
        table: _Table,
        ids: list[Id],
        names: list[Any],
        sizes: list[tuple[Any, Any]],
        index: list[int],
    ) -> None:
        log, builder = self.log, self.builder
        first_ids: dict[Id, int] = {}
        kept: list[tuple[str, int, int, Id, str, int]] = []
        first = builder.n_images
        for id_, name, size, i in zip(ids, names, sizes, index, strict=True):
            place = f"/images/{i}"
            if first_ids.setdefault(id_, i) != i:
                self._duplicate_id(path, place, id_, f"#/images/{first_ids[id_]}")
                continue
            if name is None:
                name = str(id_)  # noqa: PLW2901
                log.report(NO_FILE_NAME, path, pointer=place, value=name)
            table.images[id_] = -2
            if name is False:
                continue
            if not accept_name(name, log, path, pointer=f"{place}/file_name", field="file_name"):
                continue
            here = path, place
            there = self._image_places.setdefault(name, here)
            if there is not here:
                shown = f"{printable(there[0]) if there[0] != path else ''}#{there[1]}"
                log.report(
                    DUPLICATE_IMAGE, path, pointer=place, field="file_name", value=name, first=Shown(shown)
                )
                continue
            table.images[id_] = first + len(kept)
            width, height = size
            picture = ""
            usual = type(width) is int and type(height) is int and 0 < width < 2**31 and 0 < height < 2**31
            if not usual or self._pictures is not None:
                width, height, picture = self._size(name, size, path, place)
            kept.append((name, width, height, id_, picture, i))
        if kept:
            all_names, widths, heights, all_ids, pictures, lines = zip(*kept, strict=True)
            builder.add_images(
                all_names,
                width=np.array(widths, np.int32),
                height=np.array(heights, np.int32),
                source_id=all_ids,
                path=pictures,
                split=[split] * len(kept),
                file=builder.file(path, "/images"),
                line=lines,
            )

    def _size(self, name: str, given: tuple[Any, Any], path: str, place: str) -> tuple[int, int, str]:
        """Width and height, 0 where unknown, and the path of the picture where one was looked for."""
        log = self.log
        size = []
        wrong = False
        for key, value in zip(("width", "height"), given, strict=True):
            pixels = value
            if value is None or (type(value) is int and value in (0, NONE)):
                pixels = 0
            elif isinstance(value, float) and value.is_integer():
                pixels = int(value)
            if type(pixels) is not int or not 0 <= pixels < 2**31:
                pointer = f"{place}/{key}"
                log.report(BAD_IMAGE_SIZE, path, pointer=pointer, field=key, value=Shown(_show(value)))
                wrong, pixels = True, 0
            size.append(pixels)
        picture = self._pictures.named(name) if self._pictures is not None else None
        file = picture.path if picture else ""
        if min(size) > 0 or wrong:
            return size[0], size[1], file
        if self._pictures is not None:
            if told := self._pictures.size(name):
                return *told, file
            if picture and (found := self._pictures.size(name, picture)):
                log.report(SIZE_FROM_PICTURE, path, pointer=place, value=name, size=f"{found[0]}x{found[1]}")
                return *found, file
        log.report(SIZE_MISSING, path, pointer=place, value=name)
        return 0, 0, file

    def _read_categories(self, document: Document, path: str, table: _Table) -> None:
        entries: list[tuple[Any, Any, int]] = []
        for chunk in document.records(_CATEGORY):
            self._note_chunk(chunk, path, "/categories")
            if chunk.records is None:
                columns = chunk.columns
                entries += zip(
                    _listed(columns["id"]),
                    columns["name"],
                    range(chunk.start, chunk.start + chunk.n),
                    strict=True,
                )
                continue
            for i, record in enumerate(chunk.records, chunk.start):
                place = f"/categories/{i}"
                if not self._is_object(record, path, place, WRONG_TYPE, DUPLICATE_KEY, _CATEGORY):
                    continue
                id_ = self._id(record, "id", path, place, "/categories", (MISSING_KEY, WRONG_TYPE))
                name = record.get("name")
                if "name" not in record:
                    self.log.report(MISSING_KEY, path, pointer=place, value="name")
                elif not isinstance(name, str):
                    self._wrong(WRONG_TYPE, path, place, "name", "text", name)
                if id_ is not None:
                    entries.append((id_, name if isinstance(name, str) else None, i))
        log = self.log
        first_ids: dict[Id, int] = {}
        own: dict[str, str] = {}
        for id_, name, i in entries:
            place = f"/categories/{i}"
            if first_ids.setdefault(id_, i) != i:
                self._duplicate_id(path, place, id_, f"#/categories/{first_ids[id_]}")
                continue
            table.categories[id_] = -2
            if name is None:
                continue
            if reason := refuse_class(name):
                log.report(
                    BAD_CLASS_NAME, path, pointer=f"{place}/name", field="name", value=name, reason=reason
                )
                continue
            before = own.setdefault(name, f"id {_show(id_)}")
            if before != f"id {_show(id_)}":
                log.report(
                    DUPLICATE_CLASS,
                    path,
                    pointer=place,
                    value=name,
                    first=Shown(before),
                    second=Shown(f"id {_show(id_)}"),
                )
            table.categories[id_] = self.builder.category(name, source_id=id_)

    def _duplicate_id(self, path: str, place: str, id_: Id, first: str) -> None:
        self.log.report(
            DUPLICATE_ID,
            path,
            pointer=f"{place}/id",
            field="id",
            value=Shown(_show(id_)),
            first=Shown(first),
        )

    # -- boxes

    def _read_boxes(self, document: Document, table: _Table, fields: Sequence[Field]) -> None:
        for chunk in document.records(fields):
            self._note_chunk(chunk, table.path, table.pointer)
            table.seen = chunk.start + chunk.n
            if chunk.records is not None:
                self._add_slowly(chunk, table, fields)
                continue
            columns = chunk.columns
            crowd: Any = columns.get("iscrowd")
            index = np.arange(chunk.start, chunk.start + chunk.n, dtype=np.int32)
            if crowd is not None:
                bad = (crowd != 0) & (crowd != 1) & (crowd != NONE)
                if bad.any():
                    for i in np.flatnonzero(bad).tolist():
                        self._bad_crowd(table, f"{table.pointer}/{chunk.start + i}", int(crowd[i]))
                    self.builder.skipped += int(np.count_nonzero(bad))
                    keep = np.flatnonzero(~bad)
                    index = index[keep]
                    columns = {
                        k: [v[i] for i in keep.tolist()] if isinstance(v, list) else v[keep]
                        for k, v in columns.items()
                    }
            bbox = columns["bbox"]
            assert isinstance(bbox, np.ndarray)
            table.add(
                index,
                columns,
                bbox,
                score=columns.get("score"),  # type: ignore[arg-type]
                area=columns.get("area"),  # type: ignore[arg-type]
                crowd=columns.get("iscrowd"),  # type: ignore[arg-type]
                expected=chunk.expected,
            )

    def _add_slowly(self, chunk: Chunk, table: _Table, fields: Sequence[Field]) -> None:
        path = table.path
        codes = (MISSING_BOX_KEY, WRONG_BOX_TYPE)
        keys = {field.key for field in fields}
        rows: list[tuple[Any, ...]] = []
        assert chunk.records is not None
        for i, record in enumerate(chunk.records, chunk.start):
            place = f"{table.pointer}/{i}"
            if not self._is_object(record, path, place, WRONG_BOX_TYPE, DUPLICATE_ROW_KEY, fields):
                self.builder.skipped += 1
                continue
            errors = self.log.errors
            image = self._id(record, "image_id", path, place, table.pointer, codes)
            category = self._id(record, "category_id", path, place, table.pointer, codes)
            own: Id | None = NONE
            if "id" in keys and "id" in record:
                own = self._id(record, "id", path, place, table.pointer, codes)
            box = self._box(record, path, place)
            score = self._number(record, "score", path, place) if "score" in record else float("nan")
            area = float("nan")
            if "area" in keys and record.get("area") is not None:
                area = self._number(record, "area", path, place)
            crowd = record.get("iscrowd", 0) if "iscrowd" in keys else 0
            if isinstance(crowd, (bool, Repeated)) or crowd not in (0, 1):
                self._bad_crowd(table, place, crowd)
            if self.log.errors > errors:
                self.builder.skipped += 1
                continue
            rows.append((i, image, category, own, *box, score, area, int(crowd)))
        if not rows:
            return
        index, images, categories, own_ids, *numbers, crowds = zip(*rows, strict=True)
        table.add(
            np.array(index, np.int32),
            {"image_id": _packed(images), "category_id": _packed(categories), "id": _packed(own_ids)},
            np.array(numbers[:4], np.float64).T,
            score=np.array(numbers[4]),
            area=np.array(numbers[5]),
            crowd=np.array(crowds),
        )

    def _bad_crowd(self, table: _Table, place: str, value: Any) -> None:
        self.log.report(
            BAD_CROWD, table.path, pointer=f"{place}/iscrowd", field="iscrowd", value=Shown(_show(value))
        )

    # -- a results list

    def _read_list(self, document: Document, path: str) -> None:
        self.lists = True
        table = _Table(path, "")
        self._read_boxes(document, table, _RESULT)
        document.end()
        reference = self.builder.other()
        if reference is None:
            if table.seen:
                self.log.report(NO_REFERENCE, path)
            return
        if not self._reference_added:
            self._add_reference(reference)
            self._reference_added = True
        self.tables.append(table)
        if table.n:
            images, categories = reference.images, reference.categories
            table.images = self._choose_ids(
                table, "image_id", images.source_id, lambda: _image_readings(images.name), path
            )
            table.categories = self._choose_ids(
                table,
                "category_id",
                _trainers_ids(categories) if self.counted else categories.source_id,
                lambda: [] if self.counted else _category_readings(categories),
                path,
            )
            self._say_categories(table, reference, path)

    def _add_reference(self, reference: Dataset) -> None:
        images, categories = reference.images, reference.categories
        self.builder.add_images(
            images.name,
            width=images.width,
            height=images.height,
            source_id=images.source_id.tolist(),
            path=images.path,
            split=images.split,
            line=[0] * len(images),
        )
        self.builder.named = categories.named
        for name, id_, parent in zip(
            categories.name, categories.source_id.tolist(), categories.parent.tolist(), strict=True
        ):
            self.builder.category(name, source_id=id_, parent=parent)

    def _choose_ids(
        self,
        table: _Table,
        key: str,
        own: NDArray[Any],
        others: Callable[[], list[tuple[str, dict[Id, int]]]],
        path: str,
    ) -> dict[Id, int]:
        """The one reading of the ids that knows all of them, else the one that knows most."""
        column = table.id_column(key)
        assert column is not None
        by_id = {id_: row for row, id_ in enumerate(own.tolist()) if id_ != NO_ID}
        rows = _look_up(column, by_id)
        if bool((rows >= 0).all()):
            table.rows[key] = rows
            return by_id
        readings = [*([("the ids of the ground truth", by_id)] if by_id else []), *others()]
        ids = dict.fromkeys(_listed(column))
        hits = [sum(id_ in known for id_ in ids) for _, known in readings]
        what, known = readings[hits.index(max(hits))]
        if known is not by_id and max(hits):
            self.log.note(f"{printable(path)}: {key} is read as {what}")
        return known

    def _say_categories(self, table: _Table, reference: Dataset, path: str) -> None:
        """Say which class is which where the ids are only places in a list."""
        categories, known = reference.categories, table.categories
        if len(categories) < 2 or self.counted or not known or isinstance(next(iter(known)), str):
            return
        listed = [f"{id_} = {shorten(categories.name[row], 30)!r}" for id_, row in list(known.items())[:3]]
        shown = ", ".join(listed) + (", ..." if len(known) > 3 else "")
        if (categories.source_id == NO_ID).all():
            if not categories.ordered:
                self.log.report(CATEGORY_POSITION_GUESSED, path, field="category_id", order=Shown(shown))
        elif reference.files and not any(f.pointer for f in reference.files):  # lines: a list of names
            if list(known) != list(range(len(categories))):
                return
            self.log.note(
                f"{printable(path)}: category_id is read as the place in the ground truth's list, {shown}"
            )

    # -- values

    def _note_chunk(self, chunk: Chunk, path: str, pointer: str) -> None:
        self._extra(
            chunk.extras
            if pointer
            else {k: n for k, n in chunk.extras.items() if k not in _UNREAD_IN_RESULTS}
        )
        for key, i in chunk.written_float.items():
            self._float_id(path, pointer, i, key, "with a point, as in 1.0,")

    def _extra(self, counts: Mapping[str, int]) -> None:
        extras = self.builder.extras
        for key, n in counts.items():
            name = key if key in extras or len(extras) < _MOST_EXTRAS else "other keys"
            extras[name] = extras.get(name, 0) + n

    def _float_id(self, path: str, pointer: str, index: int, key: str, value: str) -> None:
        if f"{pointer}/{key}" not in self._float_ids:
            self._float_ids.add(f"{pointer}/{key}")
            self.log.report(FLOAT_ID, path, pointer=f"{pointer}/{index}/{key}", field=key, value=Shown(value))

    def _wrong(self, code: Code, path: str, place: str, key: str, expected: str, value: Any) -> None:
        pointer = f"{place}/{key}" if key else place
        self.log.report(
            code, path, pointer=pointer, field=key, expected=Shown(expected), value=Shown(_show(value))
        )

    def _is_object(
        self, record: Any, path: str, place: str, wrong: Code, repeated: Code, fields: Sequence[Field]
    ) -> bool:
        """Whether a record is an object without repeated keys; its unread keys are counted."""
        if not isinstance(record, dict):
            self._wrong(wrong, path, place, "", "an object", record)
            return False
        if isinstance(record, Repeated):
            self.log.report(repeated, path, pointer=place, value=record.repeated)
            return False
        known = {field.key for field in fields}
        if fields is _RESULT:
            known |= _UNREAD_IN_RESULTS
        self._extra({k: 1 for k, v in record.items() if k not in known and v not in _EMPTY})
        return True

    def _id(
        self, record: dict[str, Any], key: str, path: str, place: str, pointer: str, codes: tuple[Code, Code]
    ) -> Id | None:
        """An id, or None and an issue."""
        if key not in record:
            self.log.report(codes[0], path, pointer=place, value=key)
            return None
        value = record[key]
        if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**53:
            index = int(place.rsplit("/", 1)[-1])
            self._float_id(path, pointer, index, key, "with a point, as in 1.0,")
            return int(value)
        if type(value) is int and -(2**63) < value < 2**63:
            return value
        if type(value) is str:
            return value
        expected = "an id, a whole number of 64 bits or text"
        self._wrong(codes[1], path, place, key, expected, value)
        return None

    def _number(self, record: dict[str, Any], key: str, path: str, place: str) -> float:
        value = record[key]
        if isinstance(value, Token):
            self.log.report(NOT_FINITE, path, pointer=f"{place}/{key}", field=key, value=value)
            return float("nan")
        if type(value) not in (int, float):
            self._wrong(WRONG_BOX_TYPE, path, place, key, "a number", value)
            return float("nan")
        return float(value)

    def _box(self, record: dict[str, Any], path: str, place: str) -> tuple[float, ...]:
        if "bbox" not in record:
            self.log.report(MISSING_BOX_KEY, path, pointer=place, value="bbox")
            return ()
        box = record["bbox"]
        if not isinstance(box, list):
            self._wrong(WRONG_BOX_TYPE, path, place, "bbox", "a list of x, y, width and height", box)
            return ()
        if len(box) != 4:
            self.log.report(
                WRONG_COUNT,
                path,
                pointer=f"{place}/bbox",
                field="bbox",
                expected=Shown("4 numbers x, y, width and height"),
                found=len(box),
            )
            return ()
        values = []
        for k, value in enumerate(box):
            pointer = f"{place}/bbox/{k}"
            if isinstance(value, Token):
                self.log.report(NOT_FINITE, path, pointer=pointer, field="bbox", value=value)
            elif type(value) not in (int, float):
                self.log.report(
                    WRONG_BOX_TYPE,
                    path,
                    pointer=pointer,
                    field="bbox",
                    expected=Shown("a number"),
                    value=Shown(_show(value)),
                )
            else:
                values.append(float(value))
        return tuple(values)


_EMPTY: tuple[Any, ...] = (None, [], {}, "", [[]])


def _show(value: Any) -> str:
    """A value as JSON has it, shortened."""
    if isinstance(value, Token):
        return str(value)[:80]
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list" if len(value) > 8 or any(isinstance(v, (list, dict)) for v in value) else _list(value)
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _list(values: list[Any]) -> str:
    return f"[{', '.join(map(_show, values))}]"


def _near(id_: Id, known: Mapping[Id, int], texts: Sequence[str]) -> str:
    """What an unknown id may have meant, in brackets, or nothing."""
    if isinstance(id_, int):
        if str(id_) in known:
            return f" (there is the text {_show(str(id_))})"
        return "" if any(isinstance(key, int) for key in known) else " (no entry has a number for an id)"
    if id_.isascii() and id_.isdigit() and len(id_) < 19 and int(id_) in known:
        return f" (there is the number {int(id_)})"
    return hint(id_, texts)


def _listed(column: Any) -> list[Any]:
    values: list[Any] = column.tolist() if isinstance(column, np.ndarray) else column
    return values


def _packed(ids: Sequence[Id | None]) -> NDArray[Any] | list[Any]:
    return list(ids) if any(isinstance(i, str) for i in ids) else np.array(ids, np.int64)


def _look_up(ids: NDArray[Any] | list[Any], known: Mapping[Id, int]) -> NDArray[np.int32]:
    """(n,) row of each id, -1 for an unknown one."""
    if isinstance(ids, list):
        return np.array([known.get(i, -1) for i in ids], np.int32).reshape(-1)
    pairs = [(key, row) for key, row in known.items() if isinstance(key, int)]
    if not pairs:
        return np.full(len(ids), -1, np.int32)
    keys, rows = (np.array(part) for part in zip(*pairs, strict=True))
    low, high = int(keys.min()), int(keys.max())
    found: NDArray[np.int32]
    if high - low <= max(2**16, 4 * len(ids)):
        table = np.full(high - low + 1, -1, np.int32)
        table[keys - low] = rows
        inside = (ids >= low) & (ids <= high)
        if not inside.all():
            ids = np.where(inside, ids, low)
        found = table[ids - low]
        found[~inside] = -1
        return found
    order = np.argsort(keys)
    keys, rows = keys[order], rows[order]
    at = np.searchsorted(keys, ids)
    at[at == len(keys)] = 0
    return np.where(keys[at] == ids, rows[at], -1).astype(np.int32)


def _image_readings(names: Sequence[str]) -> list[tuple[str, dict[Id, int]]]:
    """What an image_id may mean besides an id, in order of preference."""
    last = [stem(name.rsplit("/", 1)[-1]) for name in names]
    by_name = {**_unique(last), **_unique(map(stem, names)), **_unique(names)}
    by_number = _unique(int(s) if s.isascii() and s.isdigit() and len(s) < 19 else None for s in last)
    return [
        ("the names of the images", by_name),
        ("the numbers that the names of the images are", by_number),
    ]


def _category_readings(categories: Categories) -> list[tuple[str, dict[Id, int]]]:
    """What a category_id may mean besides an id: where there are no ids, the position or the name."""
    if bool((categories.source_id != NO_ID).any()):
        return []
    by_position: dict[Id, int] = {row + 1: row for row in range(len(categories))}
    by_name: dict[Id, int] = {name: row for row, name in enumerate(categories.name)}
    return [
        ("the position in the order of the classes, from 1, for the ground truth has no ids", by_position),
        ("the names of the classes", by_name),
    ]


def _trainers_ids(categories: Categories) -> NDArray[np.int64]:
    """(n,) the position of each category among COCO's 80 classes, by its name, else by its id."""
    by_name = {name: at for at, name in enumerate(NAMES)}
    by_id = {number: at for at, number in enumerate(IDS)}
    pairs = zip(categories.name, categories.source_id.tolist(), strict=True)
    return np.array([by_name.get(name, by_id.get(number, NO_ID)) for name, number in pairs], np.int64)


def _unique(keys: Iterable[Any]) -> dict[Id, int]:
    """The row of each key that is there once."""
    rows: dict[Id, int] = {}
    twice = set()
    for row, key in enumerate(keys):
        if key is not None and rows.setdefault(key, row) != row:
            twice.add(key)
    return {key: row for key, row in rows.items() if key not in twice}


# ----------------------------------------------------------------------------------------------- writing

_BATCH = 4096
"""Records that are encoded at once; what they take stays in the cache."""


def write(dataset: Dataset, target: Output, log: Log, options: CocoOptions) -> None:
    """Write one file, or one per split."""
    results = options.results
    if results is None:
        results = dataset.kind == "det" and options.reference is not None
    elif results and dataset.kind != "det":
        raise UsageError("results=true is for detections, and this is ground truth")
    if results and options.reference is None:
        log.note("a results list holds only the ids of images and classes, not their names: --gt says whose")
    ids = _result_ids(dataset, options.reference, log) if results else None
    if results and ids is None:
        return
    images = dataset.images
    splits = [""] if target.single else sorted(set(images.split)) or [""]
    word = "detections" if dataset.kind == "det" else "instances"
    names = (
        [""] if target.single else [f"{word}_{split}.json" if split else f"{word}.json" for split in splits]
    )
    if not target.single and not target.plan(
        names, [f"the split {s}" if s else "the images" for s in splits], log
    ):
        return
    for split, name in zip(splits, names, strict=True):
        image_rows = np.arange(len(images))
        box_rows = np.arange(len(dataset))
        if len(splits) > 1:
            chosen = np.array([s == split for s in images.split])
            image_rows = np.flatnonzero(chosen)
            box_rows = np.flatnonzero(chosen[dataset.boxes.image])
        if ids is not None:
            target.write(name, _results(dataset, box_rows, *ids, log))
        else:
            target.write(name, _object(dataset, image_rows, box_rows, log))


def _own_ids(given: NDArray[Any], least: int) -> list[int]:
    """The ids of the source if they can be written, else numbers from 1."""
    ids = given.tolist()
    fits = all(isinstance(i, int) and least <= i < 2**63 for i in ids) and len(set(ids)) == len(ids)
    return ids if fits else list(range(1, len(ids) + 1))


def _box_ids(given: Longs) -> list[int]:
    """Annotation ids: the source's where they are unique and at least 1, the others follow the highest."""
    has = given >= 1
    own = given[has]
    n = len(given) - len(own)
    if not len(own) or len(np.unique(own)) != len(own) or int(own.max()) > 2**53:
        return list(range(1, len(given) + 1))
    ids = given.copy()
    ids[~has] = np.arange(n) + int(own.max()) + 1
    listed: list[int] = ids.tolist()
    return listed


def _ltwh(dataset: Dataset, rows: NDArray[Any]) -> Floats:
    boxes = dataset.boxes
    # Adding zero turns -0.0 into 0, which is what a reader of "-0" sees.
    return np.concatenate([boxes.xyxy[rows, :2], short_wh(boxes)[rows]], axis=1) + 0.0


def _lines(
    columns: Mapping[str, NDArray[Any]], what: str, log: Log, heads: Sequence[bytes] = ()
) -> list[bytes]:
    """Records of numbers as JSON, one a line, separated by commas; in parts, which are to be joined.

    ``heads`` are the first members of every record as JSON, where they are not only numbers.
    """
    import msgspec

    record = msgspec.defstruct("Record", columns, gc=False)
    encode = msgspec.json.Encoder().encode_lines
    wholes = any(c.dtype.kind == "f" and bool((c == np.rint(c)).any()) for c in columns.values())
    parts: list[bytes] = []
    starts = range(0, len(next(iter(columns.values()))), _BATCH)
    for start in log.track(starts, what) if len(starts) > 1 else starts:
        batch = [column[start : start + _BATCH].tolist() for column in columns.values()]
        text = encode(list(map(record, *batch)))
        if wholes:
            # There is no text in these records, so a point and a zero before an end is a whole number.
            for mark in (b",", b"]", b"}"):
                text = text.replace(b".0" + mark, mark)
        text = text[:-1].replace(b"\n", b",\n")
        if heads:
            lines = zip(heads[start : start + _BATCH], text.split(b"\n"), strict=True)
            text = b"\n".join([b"{" + head + b"," + line[1:] for head, line in lines])
        parts += (b",\n", text) if parts else (text,)
    return parts


def _results(
    dataset: Dataset, rows: NDArray[Any], image_ids: list[Id], category_ids: list[Id], log: Log
) -> bytes:
    import msgspec

    boxes = dataset.boxes
    image, category = boxes.image[rows], boxes.category[rows]
    columns: dict[str, NDArray[Any]] = {}
    heads: list[bytes] = []
    if any(isinstance(id_, str) for id_ in (*image_ids, *category_ids)):
        encode = msgspec.json.encode
        ours = [b'"image_id":' + encode(id_) for id_ in image_ids]
        theirs = [b',"category_id":' + encode(id_) for id_ in category_ids]
        heads = [ours[i] + theirs[k] for i, k in zip(image.tolist(), category.tolist(), strict=True)]
    else:
        columns["image_id"] = np.array(image_ids, np.int64)[image]
        columns["category_id"] = np.array(category_ids, np.int64)[category]
    columns["bbox"] = _ltwh(dataset, rows)
    columns["score"] = boxes.score[rows] + 0.0
    return b"".join([*_array(_lines(columns, "write detections", log, heads)), b"\n"])


def _object(dataset: Dataset, image_rows: NDArray[Any], box_rows: NDArray[Any], log: Log) -> bytes:
    import msgspec

    images, categories, boxes = dataset.images, dataset.categories, dataset.boxes
    image_ids = _own_ids(images.source_id[image_rows], 0)
    category_ids = _own_ids(categories.source_id, 0)
    image = msgspec.defstruct(
        "Image", ["id", "file_name", ("width", int, 0), ("height", int, 0)], omit_defaults=True, gc=False
    )
    category = msgspec.defstruct("Category", ["id", "name"], gc=False)
    lines = msgspec.json.Encoder().encode_lines
    image_lines = lines(
        list(
            map(
                image,
                image_ids,
                [images.name[row] for row in image_rows.tolist()],
                images.width[image_rows].tolist(),
                images.height[image_rows].tolist(),
            )
        )
    )
    category_lines = lines(list(map(category, category_ids, categories.name)))
    ids_by_row = np.zeros(len(images), np.int64)
    ids_by_row[image_rows] = image_ids
    ltwh = _ltwh(dataset, box_rows)
    area = boxes.area[box_rows]
    with np.errstate(over="ignore"):
        area = np.where(np.isnan(area), ltwh[:, 2] * ltwh[:, 3], area)
    area = np.nan_to_num(area) + 0.0  # an infinite product becomes the largest number
    columns: dict[str, NDArray[Any]] = {
        "id": np.array(_box_ids(boxes.source_id[box_rows]), np.int64),
        "image_id": ids_by_row[boxes.image[box_rows]],
        "category_id": np.array(category_ids, np.int64)[boxes.category[box_rows]],
        "bbox": ltwh,
        "area": area,
        "iscrowd": ((boxes.flags[box_rows] & np.uint16(Flag.CROWD)) != 0).astype(int),
    }
    if dataset.kind == "det":
        columns["score"] = boxes.score[box_rows] + 0.0
    return b"".join(
        [
            b'{"info":{},"licenses":[],\n"images":',
            *_array([image_lines[:-1].replace(b"\n", b",\n")]),
            b',\n"annotations":',
            *_array(_lines(columns, "write annotations", log)),
            b',\n"categories":',
            *_array([category_lines[:-1].replace(b"\n", b",\n")]),
            b"}\n",
        ]
    )


def _array(lines: list[bytes]) -> list[bytes]:
    return [b"[\n", *lines, b"\n]"] if any(lines) else [b"[]"]


def _result_ids(dataset: Dataset, reference: Dataset | None, log: Log) -> tuple[list[Id], list[Id]] | None:
    """Ids of images and categories for a results list, by row; None, and issues, if one is not there."""
    if reference is None:
        return [*_own_ids(dataset.images.source_id, 0)], [*_own_ids(dataset.categories.source_id, 0)]
    errors = log.errors
    theirs = reference.images
    ids: list[Id] = [
        stem(name) if id_ == NO_ID else id_
        for name, id_ in zip(theirs.name, theirs.source_id.tolist(), strict=True)
    ]
    exact = {name: row for row, name in enumerate(theirs.name)}
    stems = _unique(map(stem, theirs.name))
    last = _unique(stem(name.rsplit("/", 1)[-1]) for name in theirs.name)
    used = set(np.unique(dataset.boxes.image).tolist())
    image_ids: list[Id] = []
    for row, name in enumerate(dataset.images.name):
        there = exact.get(name, stems.get(stem(name), last.get(stem(name.rsplit("/", 1)[-1]))))
        if there is None and row in used:
            near = Shown(hint(name, theirs.name))
            log.report(NOT_IN_REFERENCE, "", what="image", value=name, near=near)
        image_ids.append(0 if there is None else ids[there])
    classes = reference.categories
    numbers = classes.source_id.tolist()
    rows = {name: row for row, name in enumerate(classes.name)}
    used = set(np.unique(dataset.boxes.category).tolist())
    category_ids: list[Id] = []
    for row, name in enumerate(dataset.categories.name):
        there = rows.get(name)
        if there is None and row in used:
            near = Shown(hint(name, classes.name))
            log.report(NOT_IN_REFERENCE, "", what="class", value=name, near=near)
        number = there + 1 if there is not None else 0
        category_ids.append(numbers[there] if there is not None and numbers[there] != NO_ID else number)
    return (image_ids, category_ids) if log.errors == errors else None


FORMAT = Format(
    name="coco",
    title="COCO JSON",
    doc=__doc__,
    suffixes=(".json",),
    single=True,
    owns_suffix=True,
    sniff=sniff,
    read=read,
    write=write,
    options=CocoOptions,
    keeps=TABLES | {"split", "crowd"},
)
