"""A cursor over the records of JSON files: readers ask for values by key, and get checked ones.

Each `Item` knows its location, so a fault is reported there. In place of a wrong value a neutral one is
returned (NaN, -1, no points), so a reader need not test for it; its `Row` is marked and adds no box. If a
record cannot be read any further, for example without a required key, `BadRecord` is raised::

    for image in read_items(reader, file, "a list of images"):
        boxes = image.rows("annotations")
        boxes.read(image.image("image"), _read_box)

    def _read_box(box: Row) -> None:
        box.need("label", "coordinates")
        x, y, width, height = box.object("coordinates").numbers("x", "y", "width", "height")
        box.add(box.category("label"), (x, y, x + width, y + height), score=box.score("confidence"))

`iter_images` is the counterpart for writing: every image with its boxes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from odm.codes import NO_SIZE
from odm.files import Output
from odm.formats._shared.codes import UNKNOWN_CLASS, WRONG_COUNT
from odm.formats._shared.gather import NAN, Corners, Location
from odm.formats._shared.json.row_shapes import DrawnRow
from odm.formats._shared.json.values import (
    FLAG_NAMES,
    NUMBER_TYPES,
    Nothing,
    Reader,
    check_classes,
    parse_flag,
    read_lines,
    simplify,
)
from odm.formats._shared.known_keys import EMPTY_VALUES
from odm.formats._shared.shapes.box_shapes import Drawn
from odm.formats._shared.shapes.pixel_masks import decode_mask
from odm.formats._shared.text.numbers import to_fixed_rows
from odm.formats._shared.text.tokens import count_decimals
from odm.issues import Code, Log, Trusted, printable
from odm.tables import Builder, Dataset, Flag, Keypoints, ShapeKind, Shapes

Size = tuple[int, int]
BAD_SIZE: Size = (0, 0)
"""The answer for the size of an image that is written and wrong; the log has the reason."""


class BadRecord(Exception):
    """A record cannot be read any further; the log has the reason."""


class Origin:
    """The file, or the list at a pointer, that rows come from; the builder numbers it at the first use."""

    __slots__ = ("_builder", "_number", "_pointer", "path")

    def __init__(self, builder: Builder, path: str, pointer: str = "") -> None:
        self._builder, self.path, self._pointer, self._number = builder, path, pointer, -1

    @property
    def number(self) -> int:
        """The number of the file in `Builder.file`."""
        if self._number < 0:
            self._number = self._builder.file(self.path, self._pointer)
        return self._number


class Item:
    """A JSON object and its location. Raises BadRecord, after an issue, if the value is no object.

    `origin` and `line` are recorded with the rows of tables that are made of it. Objects inside it inherit
    both, except for the elements of `rows`, which have their own. `row` is the box that it is part of.
    """

    __slots__ = ("line", "location", "origin", "reader", "record", "row")

    def __init__(
        self,
        reader: Reader,
        value: Any,
        location: Location,
        origin: Origin,
        line: int = 0,
        row: Row | None = None,
    ) -> None:
        self.reader, self.location, self.origin, self.line, self.row = reader, location, origin, line, row
        if type(value) is not dict:
            value = reader.check_object(value, location, in_box=row is not None)
        if value is None:
            raise BadRecord
        self.record: dict[str, Any] = value

    def __contains__(self, key: str) -> bool:
        return key in self.record

    def get(self, key: str, default: Any = None) -> Any:
        """The value under a key, unchecked."""
        return self.record.get(key, default)

    def first_key(self, *keys: str) -> str:
        """The first of these keys that is there, else the first."""
        return next((key for key in keys if key in self.record), keys[0])

    # -- faults

    def mark_bad(self) -> None:
        """Mark the row that this is part of, so that it adds no box."""
        if self.row is not None:
            self.row.is_bad = True

    def report(self, code: Code, key: str = "", **about: Any) -> None:
        """Report an issue about the value under a key, or about the object as a whole."""
        location, keywords = (self.location / key, {"field": key}) if key else (self.location, {})
        location.report(self.reader.log, code, **{**keywords, **about})

    def report_missing(self, key: str) -> None:
        """Report a key that is not there."""
        self.reader.report_missing(self.location, key, in_box=self.row is not None)
        self.mark_bad()

    def report_wrong(self, key: str, expected: str) -> None:
        """Report a value of the wrong type."""
        self.reader.report_wrong(self.location / key, expected, self.get(key), in_box=self.row is not None)
        self.mark_bad()

    def need(self, *keys: str) -> None:
        """`BadRecord`, and an issue, if one of these keys is not there."""
        for key in keys:
            if key not in self.record:
                self.report_missing(key)
                raise BadRecord

    # -- values

    def object(self, key: str, *, optional: bool = False) -> Item:
        """The object under a key; an empty one where it is optional and null, empty or not there."""
        if not optional:
            self.need(key)
        value = self.record.get(key)
        if optional and value in EMPTY_VALUES:
            value = {}
        return Item(self.reader, value, self.location / key, self.origin, self.line, self.row)

    def text(self, key: str) -> str:
        """The text under a key. Raises `BadRecord`, after an issue, if there is no text."""
        self.need(key)
        value = self.record[key]
        if type(value) is not str:
            self.report_wrong(key, "text")
            raise BadRecord
        return value

    def numbers(self, *keys: str) -> list[float]:
        """The numbers under these keys; all NaN, after an issue, if one is missing or wrong."""
        values: list[Any] = [self.record.get(key) for key in keys]
        if NUMBER_TYPES.issuperset(map(type, values)):
            return list(map(float, values))
        for key in keys:
            if key in self.record:
                self.reader.check_number(self.record[key], self.location / key)
            else:
                self.report_missing(key)
        self.mark_bad()
        return [NAN] * len(keys)

    def number(self, key: str, default: float) -> float:
        """The number under a key, `default` where it is null or not there; NaN, after an issue, if wrong."""
        value = self.record.get(key)
        if value is None:
            return default
        parsed = self.reader.check_number(value, self.location / key)
        if parsed is None:
            self.mark_bad()
            return NAN
        return parsed

    def number_list(self, key: str, count: int, expected: str) -> list[float]:
        """The list of `count` numbers under a required key, NaN if wrong; `expected` is for the message."""
        self.need(key)
        numbers = self.reader.check_numbers(self.record[key], count, expected, self.location / key)
        if numbers is None:
            self.mark_bad()
        return numbers or [NAN] * count

    def ltwh(self, key: str) -> tuple[Corners, tuple[float, float]]:
        """The corners, and (width, height), of the list [left, top, width, height] under a required key."""
        left, top, width, height = self.number_list(key, 4, "4 numbers: left, top, width, height")
        return (left, top, left + width, top + height), (width, height)

    def ltrb(self, key: str) -> Corners:
        """The corners of a box from the list [left, top, right, bottom] under a required key."""
        left, top, right, bottom = self.number_list(key, 4, "4 numbers: left, top, right, bottom")
        return left, top, right, bottom

    def any_numbers(self, key: str) -> list[float]:
        """The list of numbers under a key. Raises `BadRecord`, and reports an issue, for another value."""
        self.need(key)
        values = self.array(key)
        parsed = [self.reader.check_number(value, self.location / key / i) for i, value in enumerate(values)]
        numbers = [value for value in parsed if value is not None]
        if len(numbers) < len(parsed) or (self.row is not None and self.row.is_bad):  # if no list
            raise BadRecord
        return numbers

    def points(self, key: str, n_min: int) -> list[list[float]]:
        """The list of at least `n_min` points [x, y] under a required key; NaN, after an issue, if wrong."""
        self.need(key)
        value, location = self.record[key], self.location / key
        points: list[list[float]] = []
        if not isinstance(value, list):
            self.report_wrong(key, "a list of points")
        elif len(value) < n_min:
            expected = Trusted(f"at least {n_min} points [x, y]")
            location.report(self.reader.log, WRONG_COUNT, expected=expected, found=len(value))
        else:
            for i, point in enumerate(value):
                if type(point) is list and len(point) == 2 and NUMBER_TYPES.issuperset(map(type, point)):
                    points.append([float(point[0]), float(point[1])])
                else:
                    pair = self.reader.check_numbers(point, 2, "2 numbers, x and y", location / i)
                    points += [] if pair is None else [pair]
        if not points or len(points) < len(value):
            self.mark_bad()
            return [[NAN, NAN]] * max(n_min, 1)
        return points

    def flag(self, key: str, *, as_text: bool = False) -> bool:
        """Whether the flag under a key is 1 or true; with `as_text` also a word for it. Others are faults."""
        value = self.record.get(key)
        is_set = self.reader.check_flag(parse_flag(value) if as_text else value, self.location / key)
        if is_set is None:
            self.mark_bad()
        return bool(is_set)

    def score(self, key: str, *, as_text: bool = False) -> float:
        """The score under a key, NaN where it is null or not there; with `as_text` also a number in text."""
        value = self.record.get(key)
        if value is None:
            return NAN
        score = self.reader.check_score(value, self.location / key, as_text=as_text)
        if score is None:
            self.mark_bad()
            return NAN
        return score

    def category(self, key: str) -> int:
        """The row of the class that is named under a key, which must be there."""
        name = self.record.get(key)
        row = self.reader.classes.get(name) if type(name) is str else None
        if row is not None:
            return row
        self.need(key)
        return self.category_named(name, self.location / key)

    def category_named(self, name: Any, location: Location, **columns: Any) -> int:
        """The row of the class `name`, -1 after an issue; `columns` are those of `Reader.category`."""
        category_row = self.reader.category(name, location, **columns)
        if category_row is None:
            self.mark_bad()
            return -1
        return category_row

    def classes(self, key: str) -> dict[str, int]:
        """Category rows by class number as text, from ["car"] or {"0": "car"}; -1 for a bad name."""
        if isinstance(self.record.get(key), dict):
            names = self.object(key).record
        else:
            names = {str(id_): name for id_, name in enumerate(self.array(key))}
        rows, location = {}, self.location / key
        for id_ in sorted(names, key=lambda id_: (len(id_), id_)):  # 2 before 10
            row = self.reader.category(names[id_], location / id_, listed=True)
            rows[id_] = -1 if row is None else row
        return rows

    def category_with_id(self, key: str, id_key: str) -> int:
        """The row of the class that is named under a key; a new class takes the number under `id_key`."""
        name, id_ = self.record.get(key), self.record.get(id_key)
        is_new = isinstance(name, str) and name not in self.reader.classes
        if not is_new or type(id_) is not int or not 0 <= id_ < 2**31:
            return self.category(key)
        return self.category_named(name, self.location / key, source_id=id_)

    def category_number(self, value: Any, location: Location, classes: Mapping[str, int]) -> int:
        """The row of class `value` in `classes`, or, if these are empty, of that name; -1 after an issue."""
        id_ = self.reader.find_class_number(value, location, classes)
        if not classes:
            return self.category_named(id_, location)
        if id_ not in classes:
            about: dict[str, Any] = {"value": Trusted(id_), "n": len(classes), "where": Trusted("the file")}
            location.report(self.reader.log, UNKNOWN_CLASS, field=location.field, **about)
        row = classes.get(id_, -1)
        if row < 0:
            self.mark_bad()
        return row

    def flags(self, key: str, names: Mapping[str, Flag] = FLAG_NAMES, unsaid: Sequence[Any] = ()) -> int:
        """The flags in the attributes under a key, which may be null, empty or missing.

        Other attributes are counted as unread if the row is valid so far, unless their value is empty or in
        `unsaid`.
        """
        attributes = self.object(key, optional=True).record
        if self.row is not None and self.row.is_bad:
            return 0
        return self.reader.flags(attributes, names, unsaid)

    def size(self, width: str, height: str) -> Size | None:
        """The size of an image under two keys, None where it is not given, `BAD_SIZE` where it is wrong."""
        values = self.record.get(width), self.record.get(height)
        size = self.reader.check_size(*values, self.location, (width, height))
        if size == BAD_SIZE:
            self.mark_bad()
        return size

    def count_unread(self, known_keys: frozenset[str], *, free: bool = False) -> None:
        """Count the other keys (see `Reader.count_unread`), unless this is part of a row that adds no box."""
        if self.row is None or not self.row.is_bad:
            self.reader.count_unread(self.record, known_keys, free=free)

    def xywh(self, *keys: str) -> tuple[Corners, tuple[float, float]]:
        """The corners, and (width, height), of the box whose left, top, width and height are under `keys`."""
        left, top, width, height = self.numbers(*keys)
        return (left, top, left + width, top + height), (width, height)

    # -- images

    def image(self, key: str, name: Callable[[str], str] = str, **columns: Any) -> int | None:
        """Add the image that is named under a key, and return its row; None after an issue.

        `name` converts the text under the key to the name; `columns` are those of `Reader.image`.
        """
        value = self.record.get(key)
        return self.image_named(name(value) if type(value) is str else value, field=key, **columns)

    def image_named(self, name: Any, **columns: Any) -> int | None:
        """The row of a new image of this name; None, and an issue, if it cannot be one."""
        return self.reader.image(name, self.location, file=self.origin.number, line=self.line, **columns)

    # -- lists

    def array(self, key: str) -> list[Any]:
        """The list under a key; empty where it is null or not there, and, with an issue, if it is no list."""
        values = self.reader.check_list(self.get(key), self.location / key, in_box=self.row is not None)
        if values is None:
            self.mark_bad()
        return values or []

    def items(self, key: str, *, text_key: str = "") -> Iterator[Item]:
        """The objects of the list under a key; other values are reported and left out.

        With `text_key` a text in the list is read as an object with this text under the key `text_key`.
        """
        location = self.location / key
        origin = Origin(self.reader.builder, location.path, location.pointer)
        for i, value in enumerate(self.array(key)):
            record = {text_key: value} if text_key and isinstance(value, str) else value
            try:
                yield Item(self.reader, record, location / i, origin, i, self.row)
            except BadRecord:
                self.mark_bad()

    def objects(self) -> Iterator[tuple[str, Item]]:
        """The objects under all keys, of an object whose keys are data; other values are left out."""
        for key in self.record:
            try:
                yield key, self.object(key)
            except BadRecord:
                self.mark_bad()

    def all_objects(self, key: str, expected: str) -> list[Item]:
        """The objects of the list under a key. Raises BadRecord, after an issue, unless all are objects."""
        values = self.array(key)
        objects = list(self.items(key))
        if not values and not self.get(key):  # missing, null or empty, which `array` accepts
            self.report_wrong(key, expected)
        if not objects or len(objects) < len(values):
            raise BadRecord
        return objects

    def rows(self, key: str, *, keyed: bool = False) -> Rows:
        """The boxes of the list under a key; with `keyed` also of an object, whose values are the boxes."""
        value, location = self.record.get(key), self.location / key
        elements: Any
        if keyed and isinstance(value, dict):
            elements = self.reader.check_object(value, location)
        else:
            elements = self.reader.check_list(value, location)
        has_line = bool(location.line)  # of a record on a line: boxes have its line, not an index in the list
        return Rows(self.reader, location, elements, self.origin if has_line else None)


class Row(DrawnRow, Item):
    """A JSON object that should be a box; a fault in it sets `is_bad`, and `add` then adds nothing."""

    __slots__ = ("drawn", "is_bad", "outlined", "owner")

    def __init__(self, rows: Rows, value: Any, index: int | str) -> None:
        self.owner, self.is_bad, self.outlined = rows, False, ""
        self.drawn: Drawn | None = None
        location = rows.location / index if index != "" else rows.location  # "": of `make_rows`
        is_index = str(index).isdigit() and len(str(index)) < 9  # in a list, or a key like one
        line = location.line or (int(index) if is_index else 0)
        super().__init__(rows.reader, value, location, rows.origin, line, self)

    def add_labelled(
        self, labels: Sequence[Any], location: Location, note: str, corners: Corners, **columns: Any
    ) -> None:
        """Add a box for each valid label of a list; a wrong one marks the row, several log the `note`."""
        if self.is_bad:
            return
        categories = [self.reader.category(label, location / i) for i, label in enumerate(labels)]
        for category in categories:
            if category is not None:
                self.add(category, corners, **columns)
        self.is_bad = None in categories
        if len(labels) > 1:
            self.reader.log.note(f"{printable(self.reader.source.path)}: {note}")

    def add(self, category: int, corners: Corners, **columns: Any) -> None:
        """Add the box, unless there was a fault in this row; the columns are those of `Reader.box`."""
        if self.is_bad:
            return
        if self.outlined:
            self.reader.count_outline(self.outlined, self.location)
        columns |= {"file": self.origin.number, "line": self.line, "shape": self.drawn}
        if self.owner.track >= 0:
            columns["track"] = self.owner.track
        self.reader.box(self.owner.image, category, corners, self.location, **columns)


class Rows:
    """The values of a list or object that should be the boxes of one image.

    Each counts as skipped until it is read without a fault.
    """

    def __init__(
        self,
        reader: Reader,
        location: Location,
        values: Sequence[Any] | Mapping[Any, Any] | None,
        origin: Origin | None = None,
    ) -> None:
        self.reader, self.location, self.image, self.track = reader, location, -1, -1
        self.origin = origin or Origin(reader.builder, location.path, location.pointer or "/")
        self._values = values or ()
        self._rows: list[Row] | None = None  # once they were iterated over, and not only read
        reader.builder.skipped += len(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Row]:
        """Iterate over the records that are objects; other values are reported once."""
        if self._rows is None:
            self._rows = list(self._read())
        return iter(self._rows)

    def _read(self) -> Iterator[Row]:
        values = self._values
        for index, value in values.items() if isinstance(values, Mapping) else enumerate(values):
            try:
                yield Row(self, value, index)
            except BadRecord:
                continue

    def read(self, image: int | None, read: Callable[..., None], *more: Any) -> None:
        """Call ``read(row, *more)``, which adds a box of the image, for each row; none if `image` is None."""
        if image is None:
            return
        self.image = image
        for row in self._read() if self._rows is None else self._rows:
            if row.is_bad:
                continue
            try:
                read(row, *more)
            except BadRecord:
                continue
            self.reader.builder.skipped -= not row.is_bad  # all were counted when `Rows` was made

    def read_relative(
        self,
        image: int | None,
        item: Item,
        name: Any,
        size: Size | None,
        read: Callable[..., None],
        *more: Any,
    ) -> None:
        """Call ``read(row, size, *more)`` for each row of an image whose size its coordinates need.

        If no `size` is given, it is looked for by the image's name (`Reader.find_unit_size`).
        """
        if size is None and image is not None and len(self):
            size = self.reader.find_unit_size(image, str(name), item.location)
        self.read(image if size and size != BAD_SIZE else None, read, size, *more)


# ------------------------------------------------------------------------------------------------- files


def read_item(reader: Reader, file: str) -> Item:
    """The object that a file holds. Raises `BadRecord`, and reports an issue, if it holds none."""
    value = reader.read_value(file)
    if value is Nothing:
        raise BadRecord
    path = reader.source.full(file)
    return Item(reader, value, Location(path), Origin(reader.builder, path))


def read_items(reader: Reader, file: str, list_name: str, *, may_be_object: bool = False) -> Iterator[Item]:
    """The objects of the list that a file holds; other values are reported and left out.

    `list_name` describes the list for the message if it is none. With `may_be_object` one object will do.
    """
    path, value = reader.source.full(file), reader.read_value(file)
    location = Location(path)
    if isinstance(value, list):
        origin = Origin(reader.builder, path, "/")
        for i, record in enumerate(reader.log.track(value, "reading")):
            try:
                yield Item(reader, record, location / i, origin, i)
            except BadRecord:
                continue
    elif may_be_object and isinstance(value, dict):
        with contextlib.suppress(BadRecord):
            yield Item(reader, value, location, Origin(reader.builder, path))
    elif value is not Nothing:
        reader.report_wrong(location, list_name, value)


def read_line_items(reader: Reader, file: str) -> Iterator[Item]:
    """Yield the objects of a file: one a line, those of one list, or a single one; others are reported."""
    path = reader.source.full(file)
    lines, listed = Origin(reader.builder, path), Origin(reader.builder, path, "/")
    for location, _, value in read_lines(reader, file):
        line = location.line or int(location.pointer[1:] or 0)  # in a list its index: 3 of "/3"
        try:
            yield Item(reader, value, location, listed if location.pointer else lines, line)
        except BadRecord:
            continue


# ----------------------------------------------------------------------------------------------- writing


class Box(msgspec.Struct, eq=False):
    """A box to be written; whole numbers are ints, so that they are written without a point."""

    row: int
    label: str
    xyxy: list[float | int]
    wh: list[float | int]
    score: float | int | None
    """None in ground truth."""
    flags: int
    shapes: Shapes | None = None
    keypoints: Keypoints | None = None
    group: int = -1
    part: int | None = None  # the outline that is written, where each is a box

    @property
    def outlines(self) -> list[list[list[float | int]]]:
        """The points [x, y] of each outline; none of another shape."""
        return self._rings(ShapeKind.POLYGONS)

    @property
    def corners(self) -> list[list[float | int]]:
        """The four corners [x, y] of an oriented box; none of others."""
        rings = self._rings(ShapeKind.ORIENTED)
        return rings[0] if rings else []

    def pixels(self, image: Image) -> tuple[int, int, Any] | None:
        """Left and top of the rectangle around its mask in the image, and its pixels; None without a mask."""
        if self.shapes is None or self.shapes.kind[self.row] != ShapeKind.MASK:
            return None
        return decode_mask(self.shapes.counts(self.row), image.height)

    @property
    def points(self) -> list[list[float | int]]:
        """The keypoints: x, y and visibility of each."""
        points = [] if self.keypoints is None else self.keypoints.points(self.row).tolist()
        return [[*map(simplify, point)] for point in points]

    def _rings(self, kind: ShapeKind) -> list[list[list[float | int]]]:
        """The points of each ring of a shape of this kind, of `part` alone if it is set; none of others."""
        if self.shapes is None or self.shapes.kind[self.row] != kind:
            return []
        rings = self.shapes.polygons(self.row)[self.part : None if self.part is None else self.part + 1]
        return [[[*map(simplify, xy)] for xy in ring.tolist()] for ring in rings]

    def score_field(self, key: str) -> dict[str, float | int]:
        """The score under a key, nothing in ground truth."""
        return {} if self.score is None else {key: self.score}

    def list_flags(self, names: Sequence[str]) -> list[str]:
        """Those of `names` whose flag is set."""
        return [name for name in names if self.flags & FLAG_NAMES[name]] if self.flags else []


class Image(NamedTuple):
    """An image to be written, with its boxes in their order."""

    row: int
    name: str
    width: int
    height: int
    boxes: list[Box]

    @property
    def size(self) -> dict[str, int]:
        """``{"width": ..., "height": ...}`` of the image, empty if unknown."""
        return {"width": self.width, "height": self.height} if min(self.width, self.height) > 0 else {}


def iter_images(dataset: Dataset) -> Iterator[Image]:
    """Yield every image with its boxes."""
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories.name
    wh_of_boxes, is_det = boxes.short_wh(), dataset.kind == "det"
    order = np.argsort(boxes.image, kind="stable")
    # Boxes order[image_start:image_end] are those of an image.
    image_ends = np.searchsorted(boxes.image[order], np.arange(len(images)), side="right").tolist()
    image_start = 0
    columns: tuple[Any, ...] = boxes.category, boxes.xyxy, wh_of_boxes, boxes.score, boxes.flags
    for row, (name, image_end) in enumerate(zip(images.name, image_ends, strict=True)):
        rows, image_start = order[image_start:image_end], image_end
        cells = zip(rows.tolist(), *(column[rows].tolist() for column in columns), strict=True)
        image_boxes = [
            Box(
                i,
                classes[category],
                [*map(simplify, xyxy)],
                [*map(simplify, wh)],
                simplify(score) if is_det else None,
                flags,
                boxes.shapes,
                boxes.keypoints,
            )
            for i, category, xyxy, wh, score, flags in cells
        ]
        yield Image(row, name, int(images.width[row]), int(images.height[row]), image_boxes)


def list_class_ids(dataset: Dataset) -> dict[str, int]:
    """Return class ids by name: those of the source if all are different numbers from 0 on, else 0, 1, ..."""
    names, ids = dataset.categories.name, dataset.categories.source_id.tolist()
    are_numbers = all(isinstance(id_, int) and 0 <= id_ < 2**31 for id_ in ids)
    are_usable = are_numbers and len(set(ids)) == len(ids)
    return dict(zip(names, ids if are_usable else range(len(names)), strict=True))


def make_relative(
    dataset: Dataset, scale: int = 1, form: Literal["ltwh", "cxcywh", "ltrb"] = "ltwh"
) -> Callable[[int], list[float | int]]:
    """Return a function from the row of a box to its four numbers, relative to the image and times `scale`.

    `form` says which: left, top, width, height; centre, width, height; or the four edges. They have enough
    decimals to preserve pixels within 1e-6.
    """
    boxes, size = dataset.boxes, dataset.limits()
    first_pair, right_bottom = boxes.xyxy[:, :2], boxes.xyxy[:, 2:]
    first_pair = first_pair + boxes.wh / 2 if form == "cxcywh" else first_pair
    with np.errstate(invalid="ignore"):
        fractions = np.concatenate([first_pair, right_bottom if form == "ltrb" else boxes.wh], axis=1) * scale
        fractions = fractions / np.tile(size, 2)[boxes.image]
    # Finer than YOLO's centres, or edges made of these, centre - width / 2, would be rounded up or down.
    extra_decimals = 1 if scale == 100 else 3  # percent move the point by two
    n_decimals = np.array([count_decimals(*wh) + extra_decimals for wh in size.tolist()], np.int64)
    texts = to_fixed_rows(fractions, n_decimals[boxes.image])
    return lambda row: [simplify(float(text)) for text in texts[row]]


def check_sizes(dataset: Dataset, log: Log) -> bool:
    """Whether all images with boxes have a size; those without are reported."""
    rows = np.unique(dataset.boxes.image)
    unsized = rows[(dataset.limits()[rows] <= 0).any(axis=1)].tolist()
    for row in unsized:
        path, line, pointer = dataset.image_place(row)
        log.report(NO_SIZE, path, line=line, pointer=pointer, value=dataset.images.name[row])
    return not unsized


def plan_file(dataset: Dataset, target: Output, name: str, content_name: str, log: Log) -> str | None:
    """The path below the target of a format with one file: ``""`` for the target itself, `name` in a folder.

    None, after an issue, if this or a class cannot be written; `content_name` says in it what the file is.
    """
    if not check_classes(dataset, log):
        return None
    if target.single:
        return ""
    return name if target.plan([name], [f"the {content_name}"], log) else None
