"""The values of COCO's records one by one: which are valid, and how others are reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from odm.formats._shared.codes import (
    BAD_FLAG,
    DUPLICATE_ID,
    MISSING_BOX_KEY,
    NOT_FINITE,
    WRONG_BOX_TYPE,
    WRONG_COUNT,
)
from odm.formats._shared.json_columns import NONE, Chunk, Field, Repeated, Token, show
from odm.issues import Code, Log, Trusted
from odm.tables import Builder, Id

FLOAT_ID = Code(
    "id-written-as-float",
    "warning",
    "the id {value} is read as a whole number",
    "write ids without a decimal point",
    "Table software turns columns with gaps into decimal numbers. Other tools may refuse such ids, or lose "
    "digits of large ones. Only the first of each kind is reported.",
)
IMAGE = (
    Field("id", "id", required=True),
    Field("file_name", "text"),
    Field("width", "int"),
    Field("height", "int"),
    Field("video_id", "id"),
    Field("frame_id", "int"),
    Field("frame_index", "int"),
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
CATEGORY = (Field("id", "id", required=True), Field("name", "text", required=True))
ANNOTATION = (
    Field("image_id", "id", required=True),
    Field("category_id", "id", required=True),
    Field("bbox", "numbers", required=True),
    Field("score", "number"),
    Field("area", "number"),
    Field("iscrowd", "int"),
    Field("id", "id"),
    Field("track_id", "id"),
    Field("instance_id", "id"),
    Field("attributes", "raw"),
)
RESULT = (*ANNOTATION[:4], *ANNOTATION[7:9])
TRACK_KEYS = ("track_id", "instance_id")
_UNREAD_IN_RESULTS = frozenset({"id", "area", "iscrowd", "video_id"})
"""Keys that some programs add to results, where they carry no information."""
_MOST_EXTRAS = 30
"""Names of unread keys that are counted separately."""
_EMPTY: tuple[Any, ...] = (None, [], {}, "", [[]])


class Values:
    """Takes values from the records of one file."""

    def __init__(self, path: str, builder: Builder, log: Log) -> None:
        self.path = path
        self._builder, self._log = builder, log
        self.log = log
        self._float_ids: set[str] = set()
        self.outlined = 0
        """How many boxes are those of outlines, because there is no bbox."""

    def note(self, chunk: Chunk, pointer: str) -> None:
        """Count the unread keys of a chunk, and return which of its ids are written with a decimal point."""
        self.count(
            {k: n for k, n in chunk.extras.items() if k != "video_id"}
            if pointer
            else {k: n for k, n in chunk.extras.items() if k not in _UNREAD_IN_RESULTS}
        )
        for key, i in chunk.written_float.items():
            self._float_id(pointer, i, key, "with a point, as in 1.0,")

    def count(self, counts: Mapping[str, int]) -> None:
        """Count keys that are not read."""
        extras = self._builder.extras
        for key, n in counts.items():
            name = key if key in extras or len(extras) < _MOST_EXTRAS else "other keys"
            extras[name] = extras.get(name, 0) + n

    def _float_id(self, pointer: str, index: int, key: str, value: str) -> None:
        if f"{pointer}/{key}" not in self._float_ids:
            self._float_ids.add(f"{pointer}/{key}")
            self._log.report(
                FLOAT_ID, self.path, pointer=f"{pointer}/{index}/{key}", field=key, value=Trusted(value)
            )

    def duplicate_id(self, location: str, id_: Id, first: str) -> None:
        """Report an id that an earlier entry has."""
        self._log.report(
            DUPLICATE_ID,
            self.path,
            pointer=f"{location}/id",
            field="id",
            value=Trusted(show(id_)),
            first=Trusted(first),
        )

    def bad_crowd(self, location: str, value: Any) -> None:
        """Report an ``iscrowd`` that is neither 0 nor 1."""
        self._log.report(
            BAD_FLAG,
            self.path,
            pointer=f"{location}/iscrowd",
            field="iscrowd",
            value=value,
            expected="0 or 1",
        )

    def wrong(self, code: Code, location: str, key: str, expected: str, value: Any) -> None:
        """Report a value of another type."""
        pointer = f"{location}/{key}" if key else location
        self._log.report(
            code,
            self.path,
            pointer=pointer,
            field=key,
            expected=Trusted(expected),
            value=Trusted(show(value)),
        )

    def is_object(
        self,
        record: Any,
        location: str,
        wrong: Code,
        repeated: Code,
        fields: Sequence[Field],
        *,
        count: bool = True,
    ) -> bool:
        """Whether a record is an object without repeated keys; its unread keys are counted."""
        if not isinstance(record, dict):
            self.wrong(wrong, location, "", "an object", record)
            return False
        if isinstance(record, Repeated):
            self._log.report(repeated, self.path, pointer=location, value=record.repeated)
            return False
        if not count:
            return True
        known = {field.key for field in fields if field.kind != "raw"} | {"video_id"}
        if fields is RESULT:
            known |= _UNREAD_IN_RESULTS
        self.count({k: 1 for k, v in record.items() if k not in known and v not in _EMPTY})
        return True

    def objects(
        self,
        chunk: Chunk,
        pointer: str,
        fields: Sequence[Field],
        codes: tuple[Code, Code, Code],
        *,
        count: bool = True,
    ) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """The records of a chunk that are objects, each with its number and place; the others are reported.

        `codes` are those of a missing key, a wrong type and a repeated key. Records without any key are only
        counted once enough of them were reported: a short file can hold millions.
        """
        missing, wrong, repeated = codes
        assert chunk.records is not None
        empty = 0 if self._log.keeps(missing) else chunk.records.count({})
        if empty:
            self._log.counts[missing.name] += empty * sum(field.required for field in fields)
        for i, record in enumerate(chunk.records if empty < chunk.n else (), chunk.start):
            if empty and record == {}:
                continue
            location = f"{pointer}/{i}"
            if self.is_object(record, location, wrong, repeated, fields, count=count):
                yield i, location, record

    def id(
        self, record: dict[str, Any], key: str, location: str, pointer: str, codes: tuple[Code, Code]
    ) -> Id | None:
        """An id, or None and an issue."""
        if key not in record:
            self._log.report(codes[0], self.path, pointer=location, value=key)
            return None
        value = record[key]
        if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**53:
            index = int(location.rsplit("/", 1)[-1])
            self._float_id(pointer, index, key, "with a point, as in 1.0,")
            return int(value)
        if type(value) is int and -(2**63) < value < 2**63:
            return value
        if type(value) is str:
            return value
        expected = "an id: a 64-bit whole number or text"
        self.wrong(codes[1], location, key, expected, value)
        return None

    def track(self, record: dict[str, Any], location: str, pointer: str, codes: tuple[Code, Code]) -> Id:
        """The id of the track of a box, `NONE` where there is none or, with an issue, where it is no id."""
        for key in TRACK_KEYS:
            if record.get(key) is not None:
                found = self.id(record, key, location, pointer, codes)
                return NONE if found is None else found
        attributes = record.get("attributes")
        if isinstance(attributes, dict) and attributes.get("track_id") is not None:
            found = self.id(attributes, "track_id", f"{location}/attributes", pointer, codes)
            return NONE if found is None else found
        return NONE

    def number(self, record: dict[str, Any], key: str, location: str) -> float:
        """A number, or NaN and an issue."""
        value = record[key]
        if isinstance(value, Token):
            self._log.report(NOT_FINITE, self.path, pointer=f"{location}/{key}", field=key, value=value)
            return float("nan")
        if type(value) not in (int, float):
            self.wrong(WRONG_BOX_TYPE, location, key, "a number", value)
            return float("nan")
        return float(value)

    def box(self, record: dict[str, Any], location: str) -> tuple[float, ...]:
        """The four numbers of a box, or fewer and an issue; where it is missing, those of the outline."""
        if not record.get("bbox") and record.get("bbox") in (None, []):
            outline = _around(record.get("segmentation"))
            if outline:
                self.outlined += 1
                return outline
        if "bbox" not in record:
            self._log.report(MISSING_BOX_KEY, self.path, pointer=location, value="bbox")
            return ()
        box = record["bbox"]
        if not isinstance(box, list):
            self.wrong(WRONG_BOX_TYPE, location, "bbox", "a list of x, y, width and height", box)
            return ()
        if len(box) != 4:
            self._log.report(
                WRONG_COUNT,
                self.path,
                pointer=f"{location}/bbox",
                field="bbox",
                expected=Trusted("4 numbers x, y, width and height"),
                found=len(box),
            )
            return ()
        values = []
        for k, value in enumerate(box):
            pointer = f"{location}/bbox/{k}"
            if isinstance(value, Token):
                self._log.report(NOT_FINITE, self.path, pointer=pointer, field="bbox", value=value)
            elif type(value) not in (int, float):
                self._log.report(
                    WRONG_BOX_TYPE,
                    self.path,
                    pointer=pointer,
                    field="bbox",
                    expected=Trusted("a number"),
                    value=Trusted(show(value)),
                )
            else:
                values.append(float(value))
        return tuple(values)


def _around(polygons: Any) -> tuple[float, ...]:
    """Left, top, width and height of the box around polygons; empty where these are none."""
    if not (isinstance(polygons, list) and all(isinstance(p, list) for p in polygons)):
        return ()
    numbers = [value for polygon in polygons for value in polygon]
    if any(len(p) < 6 or len(p) % 2 for p in polygons) or not {int, float}.issuperset(map(type, numbers)):
        return ()
    xs = [value for polygon in polygons for value in polygon[::2]]
    ys = [value for polygon in polygons for value in polygon[1::2]]
    return (min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)) if xs else ()
