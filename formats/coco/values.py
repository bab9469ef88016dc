"""The values of COCO's records one by one: which are valid, and how others are reported."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from odm.formats._shared.class_lists import DUPLICATE_CLASS
from odm.formats._shared.codes import (
    BAD_LISTED_CLASS,
    DUPLICATE_BOX_KEY,
    DUPLICATE_ID,
    DUPLICATE_KEY,
    MISSING_BOX_KEY,
    MISSING_KEY,
    NOT_FINITE,
    WRONG_BOX_TYPE,
    WRONG_COUNT,
    WRONG_TYPE,
)
from odm.formats._shared.json.columns import Document, Repeated, Token, show
from odm.formats._shared.json.preview import JsonPreview, glance
from odm.formats._shared.json.record_types import NONE, Chunk, Field
from odm.formats.coco.ids import as_list, to_other_type
from odm.issues import Code, Log, Trusted
from odm.names import refuse_class
from odm.tables import FREQUENCIES, Builder, Dataset, Flag, Id, LabelState
from odm.tables.extra_fields import ExtraRows, count_extra

FLOAT_ID = Code(
    "id-written-as-float",
    "warning",
    "the id {value} is read as a whole number",
    "write ids without a decimal point",
    "Table software turns columns with gaps into decimal numbers. Other tools may refuse such ids, or lose "
    "digits of large ones. Only the first of each kind is reported.",
)
VIDEO = (
    Field("id", "id", required=True),
    Field("name", "text"),
    Field("file_name", "text"),
    Field("length", "int"),
    Field("width", "int"),
    Field("height", "int"),
)
TRACK = (Field("id", "id", required=True), Field("video_id", "id"), Field("score", "number"))
RESULT = (
    Field("image_id", "id", required=True),
    Field("category_id", "id", required=True),
    Field("bbox", "numbers", required=True),
    Field("score", "number"),
    Field("track_id", "id"),
    Field("instance_id", "id"),
)
Codes = tuple[Code, Code, Code]
"""The codes of a key that is missing, of another type, or there twice."""
TRACK_KEYS = ("track_id", "instance_id")
ENTRY = MISSING_KEY, WRONG_TYPE, DUPLICATE_KEY
"""The codes for an entry of a list such as ``images``."""
ROW = MISSING_BOX_KEY, WRONG_BOX_TYPE, DUPLICATE_BOX_KEY
"""The codes for a record that should be a box."""
_UNREAD_IN_RESULTS = frozenset({"id", "area", "iscrowd"})
"""Keys that some programs add to results, where they carry no information."""
_MAX_EXTRA_NAMES = 30
"""Names of unread keys that are counted separately."""
_EMPTY: tuple[Any, ...] = (None, [], {}, "", [[]])


def _file_name(record: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the key that names an image in COCO, and its value; see `Dialect.name_of`."""
    return "file_name", record.get("file_name")


class Dialect(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The properties in which formats like COCO JSON differ; the defaults are those of COCO."""

    protocol: str = "coco"
    """The `protocol` of the dataset that is read."""
    image: tuple[Field, ...] = (
        Field("id", "id", required=True),
        Field("file_name", "text"),
        Field("width", "int"),
        Field("height", "int"),
        Field("video_id", "id"),
        Field("frame_id", "int"),
        Field("frame_index", "int"),
    )
    category: tuple[Field, ...] = (Field("id", "id", required=True), Field("name", "text", required=True))
    annotation: tuple[Field, ...] = (
        *RESULT,
        Field("area", "number"),
        Field("iscrowd", "flag"),
        Field("id", "id"),
        Field("attributes", "raw"),
    )
    flag: tuple[str, Flag] = "iscrowd", Flag.CROWD
    """The key of annotations that is 0 or 1, and what 1 means."""
    sparse: bool = False
    """Whether annotations leave out a flag that is 0, and an empty ``segmentation``; values may be null."""
    whole_ids: bool = False
    """Whether ids must be whole numbers."""
    results: bool = True
    """Whether a file may also be a list of results, or hold its boxes in tracks."""
    needs: frozenset[str] = frozenset({"images"})
    """The lists without which a file is at fault, and not only incomplete."""
    silent: frozenset[str] = frozenset({"num_keypoints"})
    """Keys that are not counted as lost when they are not read."""
    name_of: Callable[[Mapping[str, Any]], tuple[str, Any]] = _file_name
    """The key that names an image, and its value."""
    id_names: bool = True
    """Whether an image without a name is called by its id."""
    kept_keys: frozenset[str] = frozenset()
    """Keys that are read, and also kept for writing."""
    labels: Mapping[str, LabelState] = msgspec.field(default_factory=dict)
    """The keys of images that hold lists of class ids, and what each list says of its classes."""
    least_id: int = 0
    """The lowest id of an image, class, video or track that is written."""
    frame_key: str = "frame_id"
    """How the number of an image in its video is written."""
    all_tracks: bool = False
    """Whether the tracks without a score are listed, too, and their boxes name the video."""
    find_category_columns: Callable[[Dataset], dict[str, list[Any]]] = lambda _: {}
    """Returns more columns of categories to be written, by key."""


COCO = Dialect()


class Values:
    """Takes values from the records of one file."""

    def __init__(self, path: str, builder: Builder, log: Log, dialect: Dialect = COCO) -> None:
        """Report to `log` what is wrong in the file at `path`, and count unread keys in the builder."""
        self.path, self.dialect = path, dialect
        self._builder, self.log = builder, log
        self._float_ids: set[tuple[str, str]] = set()  # lists and keys of which such an id was reported

    def read_entries(
        self,
        document: Document,
        pointer: str,
        fields: Sequence[Field],
        extra_rows: ExtraRows | None = None,
        *,
        count: bool = True,
        take: Callable[[Chunk], bool] = lambda _: False,
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the index of each object in the list at `pointer`, and its values of `fields`.

        Other keys are kept in `extra_rows`, which gets a row for each entry, or else are counted as unread.
        Entries of a chunk for which `take` returns True are left out; it is asked only about columns, and not
        with `extra_rows`.
        """
        for chunk in document.records(fields, rest=extra_rows is not None):
            if count:
                self.note_unread(chunk, pointer)
            if chunk.records is None:
                if extra_rows is None and take(chunk):
                    continue
                columns = {key: as_list(column) for key, column in chunk.columns.items()}
                if extra_rows is not None:
                    kept_columns = {
                        key: [b"" if value is None else json.dumps(value).encode() for value in columns[key]]
                        for key in self.dialect.kept_keys & columns.keys()
                    }
                    extra_rows.extend(chunk.n, chunk.rest | kept_columns)
                for i, row in enumerate(zip(*columns.values(), strict=True), chunk.start):
                    pairs = zip(columns, row, strict=True)
                    yield i, {key: value for key, value in pairs if value is not None and value != NONE}
            else:
                yield from self._read_odd_entries(chunk, pointer, fields, extra_rows, count=count)
        if extra_rows is not None:
            self.count(extra_rows.lost)

    def _read_odd_entries(
        self,
        chunk: Chunk,
        pointer: str,
        fields: Sequence[Field],
        extra_rows: ExtraRows | None,
        *,
        count: bool,
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield index and read values of each object in a chunk of Python values, as `read_entries` does."""
        keys = {field.key for field in fields}
        kept_keys = self.dialect.kept_keys
        count &= extra_rows is None  # kept keys are not lost
        for i, _, record in self.read_objects(chunk, pointer, fields, ENTRY, count=count):
            if extra_rows is not None:
                extra_rows.extend(i - extra_rows.n, {})  # empty rows for entries that are no objects
                extra_rows.extend(1, encode_extra(record, keys - kept_keys, lambda k: self.count({k: 1})))
            yield i, {key: value for key, value in record.items() if key in keys}
        if extra_rows is not None:
            extra_rows.extend(chunk.start + chunk.n - extra_rows.n, {})

    def note_unread(self, chunk: Chunk, pointer: str) -> None:
        """Count the unread keys of a chunk, and report the first of its ids that have a decimal point.

        Keys that say nothing, or are read elsewhere, are not counted.
        """
        silent_keys = self.dialect.silent if pointer else _UNREAD_IN_RESULTS  # "" is that of results
        if pointer == "/categories":
            silent_keys |= {"keypoints", "skeleton"}  # which say what those of boxes are
        self.count({k: n for k, n in chunk.extras.items() if k not in silent_keys and k != "video_id"})
        for key, i in chunk.written_float.items():
            self._report_float_id(f"{pointer}/{i}", key)

    def count(self, counts: Mapping[str, int]) -> None:
        """Count keys that are not read in the builder's `extras`; beyond 30 names as "other keys"."""
        extras = self._builder.extras
        for key, n in counts.items():
            name = key if key in extras or len(extras) < _MAX_EXTRA_NAMES else "other keys"
            extras[name] += n

    def _report_float_id(self, location: str, key: str) -> None:
        """Report an id with a decimal point, only the first of each list and key."""
        list_and_key = re.sub("[0-9]+", "", location), key  # /images/ of /images/3
        if list_and_key not in self._float_ids:
            self._float_ids.add(list_and_key)
            self.report(FLOAT_ID, location, key, value=Trusted("with a decimal point, as in 1.0,"))

    # -- faults

    def report(self, code: Code, location: str, key: str = "", **values: Any) -> None:
        """Report an issue about a record, or about its value under a key."""
        pointer = f"{location}/{key}" if key else location
        self.log.report(code, self.path, pointer=pointer, field=key, **values)

    def report_duplicate_id(self, location: str, id_: Id, first_pointer: str) -> None:
        """Report an id that an earlier entry has."""
        self.report(DUPLICATE_ID, location, "id", value=Trusted(show(id_)), first=Trusted(first_pointer))

    def report_wrong(self, code: Code, location: str, key: str, expected: str, value: Any) -> None:
        """Report a value of another type."""
        self.report(code, location, key, expected=Trusted(expected), value=Trusted(show(value)))

    def is_object(self, record: Any, location: str, codes: Codes, fields: Sequence[Field] = ()) -> bool:
        """Whether a record is an object without repeated keys; if not, that is reported.

        With `fields` the keys that none of them names are counted as unread, unless their value is empty.
        """
        _, wrong_type_code, repeated_key_code = codes
        if not isinstance(record, dict):
            self.report_wrong(wrong_type_code, location, "", "an object", record)
            return False
        if isinstance(record, Repeated):
            self.report(repeated_key_code, location, value=record.repeated)
            return False
        if fields:
            # a raw field is a shape that is counted as unread all the same
            read_keys = {field.key for field in fields if field.kind != "raw"} | {"video_id"}
            read_keys |= _UNREAD_IN_RESULTS if fields is RESULT else self.dialect.silent
            self.count({k: 1 for k, v in record.items() if k not in read_keys and v not in _EMPTY})
        return True

    def read_objects(
        self, chunk: Chunk, pointer: str, fields: Sequence[Field], codes: Codes, *, count: bool = True
    ) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Yield the index, location and record of each object in a chunk; other values are reported.

        `codes` are `ENTRY` or `ROW`. Records without any key are only counted once enough of them were
        reported: a short file can hold millions.
        """
        missing_code, _, _ = codes
        assert chunk.records is not None
        n_empty = 0 if self.log.keeps(missing_code) else chunk.records.count({})
        if n_empty:
            n_required = sum(field.required for field in fields)  # an issue for each of these keys
            self.log.counts[missing_code.name] += n_empty * n_required
        for i, record in enumerate(chunk.records if n_empty < chunk.n else (), chunk.start):
            if n_empty and record == {}:
                continue
            location = f"{pointer}/{i}"
            if self.is_object(record, location, codes, fields if count else ()):
                yield i, location, record

    # -- values

    def parse_id(self, record: Mapping[str, Any], key: str, location: str, codes: Codes = ENTRY) -> Id | None:
        """Return the id under a key; None, after an issue, if there is none or it is not valid.

        A whole number in 64 bits, text, or, with a warning, a whole float; in dialects with `whole_ids` a
        number, or for references to images and classes also the text of one.
        """
        missing_code, wrong_type_code, _ = codes
        if key not in record:
            self.log.report(missing_code, self.path, pointer=location, value=key)
            return None
        value = record[key]
        if type(value) is int and -(2**63) < value < 2**63:
            return value
        is_number_text = type(value) is str and type(to_other_type(value)) is int
        if self.dialect.whole_ids and not (is_number_text and key in ("image_id", "category_id")):
            self.report_wrong(wrong_type_code, location, key, "a whole number", value)
            return None
        if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**53:
            self._report_float_id(location, key)
            return int(value)
        if type(value) is str:
            return value
        self.report_wrong(wrong_type_code, location, key, "an id: a 64-bit whole number or text", value)
        return None

    def parse_track_id(self, record: dict[str, Any], location: str) -> Id:
        """Return the id of the track of a box, from its record or its attributes; `NONE` without one.

        `NONE` is also returned after an issue.
        """
        attributes = record.get("attributes")
        candidates = [(record, location, key) for key in TRACK_KEYS]
        if isinstance(attributes, dict):
            candidates.append((attributes, f"{location}/attributes", "track_id"))
        for record_with_key, record_location, key in candidates:
            if record_with_key.get(key) is not None:
                track_id = self.parse_id(record_with_key, key, record_location, ROW)
                return NONE if track_id is None else track_id
        return NONE

    def parse_number(self, value: Any, location: str, key: str, field: str = "") -> float:
        """Return a number as float; NaN, after an issue, for another value.

        `key` is that of the value or its index in a list; then `field` is the key of the list.
        """
        if type(value) in (int, float):
            return float(value)
        issue_args: dict[str, Any] = {"pointer": f"{location}/{key}", "field": field or key}
        if isinstance(value, Token):
            self.log.report(NOT_FINITE, self.path, **issue_args, value=value)
        else:
            expected = Trusted("a number")
            self.log.report(
                WRONG_BOX_TYPE, self.path, **issue_args, expected=expected, value=Trusted(show(value))
            )
        return float("nan")

    def parse_box(self, record: dict[str, Any], location: str) -> tuple[float, ...]:
        """Return the four numbers of a box. After an issue they are NaN where wrong, or none at all."""
        if "bbox" not in record:
            self.report(MISSING_BOX_KEY, location, value="bbox")
            return ()
        box = record["bbox"]
        if not isinstance(box, list):
            self.report_wrong(WRONG_BOX_TYPE, location, "bbox", "a list of x, y, width and height", box)
            return ()
        if len(box) != 4:
            expected = Trusted("4 numbers x, y, width and height")
            self.report(WRONG_COUNT, location, "bbox", expected=expected, found=len(box))
            return ()
        return tuple(
            self.parse_number(value, f"{location}/bbox", str(k), "bbox") for k, value in enumerate(box)
        )

    # -- classes

    def read_categories(self, document: Document, *, count: bool = True) -> dict[Id, int]:
        """Add the classes of the list that begins here; return their rows by id, -2 for a bad class.

        Classes of one name are merged, with a warning. Their keypoint names, if wanted, and extra fields are
        added to the builder as well.
        """
        builder, fields = self._builder, self.dialect.category
        keeps_fields = builder.keeps_extra or "keypoints" in builder.wants
        extra_rows = ExtraRows() if keeps_fields else None
        index_of_id: dict[Id, int] = {}
        row_of_id: dict[Id, int] = {}
        first_id_of: dict[str, str] = {}
        """The first id of each class name, as it is shown."""
        index_of_row: dict[int, int] = {}
        """The index in the list of the entry that is each category row."""
        for i, record in self.read_entries(document, "/categories", fields, extra_rows, count=count):
            location = f"/categories/{i}"
            id_, name, frequency = self._parse_category(record, location)
            if id_ is None:
                continue
            if index_of_id.setdefault(id_, i) != i:
                self.report_duplicate_id(location, id_, f"#/categories/{index_of_id[id_]}")
                continue
            row_of_id[id_] = -2
            if name is None:
                continue
            if reason := refuse_class(name):
                self.report(BAD_LISTED_CLASS, location, "name", value=name, reason=reason)
                continue
            id_text = f"id {show(id_)}"
            first_id = Trusted(first_id_of.setdefault(name, id_text))
            if first_id != id_text:
                self.report(DUPLICATE_CLASS, location, value=name, first=first_id, second=Trusted(id_text))
            row = row_of_id[id_] = builder.category(name, source_id=id_, frequency=frequency)
            index_of_row.setdefault(row, i)
        if extra_rows is not None:
            self._add_fields_of_categories([*index_of_row], extra_rows.take([*index_of_row.values()]))
        return row_of_id

    def _parse_category(self, record: dict[str, Any], location: str) -> tuple[Id | None, str | None, str]:
        """Return id, name and frequency of a class; None, or an empty frequency, after an issue for each."""
        id_ = self.parse_id(record, "id", location)
        name, frequency = as_text(record.get("name")), record.get("frequency") or ""
        if "name" not in record:
            self.report(MISSING_KEY, location, value="name")
        elif not isinstance(name, str):
            self.report_wrong(WRONG_TYPE, location, "name", "text", name)
        if frequency and frequency not in FREQUENCIES:
            self.report_wrong(WRONG_TYPE, location, "frequency", "r, c or f", frequency)
            frequency = ""
        return id_, name if isinstance(name, str) else None, frequency

    def _add_fields_of_categories(self, rows: list[int], fields: dict[str, list[bytes]]) -> None:
        """Add the keypoint names of the classes, if wanted, and their other `fields`, JSON by key.

        `rows` are the category rows. If the builder keeps no extra fields, the others are counted as unread.
        """
        builder = self._builder
        if "keypoints" in builder.wants:
            no_values = [b""] * len(rows)
            take = fields.get if builder.passes_shapes_on else fields.pop  # passed on, they stay in `fields`
            names, skeletons = take("keypoints", no_values), take("skeleton", no_values)
            for row, point_names, lines in zip(rows, names, skeletons, strict=True):
                if points_and_lines := parse_points_of_class(point_names, lines):
                    builder.describe_points(row, *points_and_lines)
        if builder.keeps_extra:
            builder.add_extra("categories", rows, fields)
        else:
            self.count(count_extra({key: tuple(values) for key, values in fields.items()}))


def encode_extra(
    record: Mapping[str, Any], read_keys: Collection[str], count: Callable[[str], None]
) -> dict[str, list[bytes]]:
    """Return the JSON of the keys that are not in `read_keys`, each a list of this one record's.

    `count` is called with each key whose value JSON cannot hold. The number of keypoints is left out with the
    keypoints.
    """
    json_of: dict[str, list[bytes]] = {}
    for key, value in record.items():
        if key not in read_keys:
            if _is_json(value):
                json_of[key] = [json.dumps(value).encode()]
            else:  # under another name than that of a key that the target has
                count(f"{key} that are not valid JSON, as NaN")
    if "keypoints" in record and "keypoints" not in {*json_of, *read_keys}:
        json_of.pop("num_keypoints", None)
    return json_of


def _is_json(value: Any) -> bool:
    """Whether a value can be written as it was read: no NaN, no endless number, and no key twice."""
    if isinstance(value, dict):
        return not isinstance(value, Repeated) and all(map(_is_json, value.values()))
    return all(map(_is_json, value)) if isinstance(value, list) else not isinstance(value, Token)


def parse_points_of_class(names: bytes, skeleton: bytes) -> tuple[list[str], list[tuple[int, int]]] | None:
    """Decode the keypoint names of a class and its skeleton; None if there are no names.

    The skeleton is pairs of positions from 0; in the file they count from 1, and invalid pairs are left out.
    """
    point_names = json.loads(names or b"[]")
    skeleton_pairs = json.loads(skeleton or b"[]")
    if not point_names or not isinstance(point_names, list) or not isinstance(skeleton_pairs, list):
        return None
    pairs = [
        tuple(pair) for pair in skeleton_pairs if isinstance(pair, list) and [*map(type, pair)] == [int, int]
    ]
    valid_pairs = [
        (a - 1, b - 1) for a, b in pairs if 0 < a <= len(point_names) and 0 < b <= len(point_names)
    ]
    return [str(name) for name in point_names], valid_pairs


def has_instances(preview: JsonPreview) -> bool:
    """Whether the file begins like results with a list of instances for each image, as in Detectron2."""
    first_record = preview.first.get("", {})
    return preview.top == "[" and "image_id" in first_record and first_record.get("instances") == "["


def flatten_instances(data: bytes) -> bytes | None:
    """Join the lists of instances of all images to one JSON list of results; None for any other file."""
    if not has_instances(glance(data[: 2**16])):
        return None
    import msgspec

    raw_list = list[msgspec.Raw]
    try:
        images = msgspec.json.decode(data, type=list[dict[str, msgspec.Raw]])
        raw_instances = [image["instances"] for image in images if "instances" in image]
        lists = [msgspec.json.decode(raw, type=raw_list) for raw in raw_instances]
    except msgspec.MsgspecError:
        return None  # the reader of records says where it is wrong
    return b"[" + b",\n".join(bytes(instance) for instances in lists for instance in instances) + b"]"


def as_text(name: Any) -> Any:
    """Return a name that is a whole number as text, and any other value as it is."""
    return str(name) if type(name) is int else name


_FLAT_ANNOTATION = re.compile(rb'"annotations"\s*:\s*\[\s*\{([^{}\[\]]*"category_id"[^{}\[\]]*)\}')
"""The first annotation of a file, if it holds no list."""
_KEYS_OF_CLASSES = frozenset({b"id", b"image_id", b"category_id", b"score", b"confidence"})


_NESTED = re.compile(rb'^\s*\{\s*"images"\s*:\s*\[\s*\{[^{}\[\]]*"annotations"\s*:\s*\[')
"""The beginning of a file whose first image has a list of annotations."""


def find_other_task(data: bytes) -> tuple[str, str] | None:
    """Return the content of a file without boxes in COCO's lists, and the remedy; None for any other file."""
    # Each kind by its sign; a file with boxes or outlines is none of the others.
    if _NESTED.search(data):
        remedy = "give a file with a list annotations beside images, as ochuman_coco_format_*.json"
        return "images that hold their own annotations, as in OCHuman", remedy
    if b'"bbox"' in data or b'"segmentation"' in data:
        return None
    if b'"segments_info"' in data:
        return (
            "panoptic segments without bbox",
            "give a panoptic file with bbox in segments_info, or instances_*.json",
        )
    if b'"caption"' in data:
        return "captions of images", "give instances_*.json, which has the boxes of the same images"
    match = _FLAT_ANNOTATION.search(data)
    if match is not None and set(re.findall(rb'"(\w+)"\s*:', match[1])) <= _KEYS_OF_CLASSES:
        return "classes of whole images", "give a file whose annotations have a bbox"
    return None


_CATEGORIES = re.compile(rb'"categories"\s*:\s*(\[[^\[\]]*\])')


def find_root_class(head: bytes) -> tuple[Id, str] | None:
    """Find the first class if it is the supercategory of all others, as in Roboflow: its id and name."""
    match = _CATEGORIES.search(head)
    try:
        records = json.loads(match[1]) if match else []
        root, *children = [(record["id"], record["name"], record["supercategory"]) for record in records]
    except (ValueError, KeyError, TypeError):
        return None
    id_, name, supercategory = root
    is_root = isinstance(id_, int | str) and isinstance(name, str) and supercategory in ("none", "", None)
    is_parent_of_all = all(parent == name for _, _, parent in children)
    return (id_, name) if is_root and children and is_parent_of_all else None


def flatten_segments(data: bytes) -> tuple[bytes, int] | None:
    """Rewrite a panoptic file with its segments as annotations; return it and the number of segments.

    The ids of segments are left out, as they are colours and unique only within an image. None for any other
    file.
    """
    if b'"segments_info"' not in data:
        return None
    import msgspec

    record = dict[str, msgspec.Raw]
    try:
        members = msgspec.json.decode(data, type=record)
        images = msgspec.json.decode(members["annotations"], type=list[record])
        segments: list[dict[str, msgspec.Raw]] = [
            {"image_id": image["image_id"], **{key: segment[key] for key in segment if key != "id"}}
            for image in images
            for segment in msgspec.json.decode(image["segments_info"], type=list[record])
        ]
    except (KeyError, msgspec.MsgspecError):
        return None  # the reader of records says where it is wrong
    return msgspec.json.encode({**members, "annotations": segments}), len(segments)
