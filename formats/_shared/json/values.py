"""Read JSON of nested records, one list of boxes per image, and check each value at its location.

`columns` turns long flat lists into columns. In the formats of annotation tools every image
has a small list of its own, so their values are decoded as Python values and looked at one by one. `Reader`
holds what all of them share: images and classes are added once, boxes wait until it is known whether they are
detections, and every fault is reported with its JSON pointer.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Literal

from odm.files import NOT_TEXT, UNREADABLE, Source, Unreadable, find_binary_kind, refuse_nuls
from odm.formats._shared.class_lists import UNWRITABLE
from odm.formats._shared.codes import (
    BAD_FLAG,
    BAD_IMAGE_SIZE,
    DUPLICATE_BOX_KEY,
    DUPLICATE_KEY,
    MISSING_BOX_KEY,
    MISSING_KEY,
    NOT_FINITE,
    NOT_UTF8,
    OTHER_TASK,
    OUTLINES,
    UNNAMED_IMAGE,
    WRONG_BOX_TYPE,
    WRONG_COUNT,
    WRONG_TYPE,
)
from odm.formats._shared.damaged_files import report_unread
from odm.formats._shared.gather import NAN, Corners, Gather, Location, find_folders
from odm.formats._shared.json.columns import _PYTHON, SYNTAX, Broken, Document, Repeated, Token, load, show
from odm.formats._shared.json.preview import (
    LOOKED_AT,
    MOST_LEVELS,
    TOO_DEEP,
    HeadCheck,
    check_head,
    find_recognised,
    glance,
    is_deeper,
    parse_syntax_error,
)
from odm.formats._shared.known_keys import EMPTY_VALUES, KnownKeys, count_extra
from odm.formats._shared.pictures import ImageOptions, Picture
from odm.formats._shared.text.tokens import NUMBER_TEXT, find_wide_encoding
from odm.issues import Log, Trusted, Verbatim, printable
from odm.names import refuse_class, stem
from odm.tables import Builder, Dataset, Flag

NUMBER_TYPES = frozenset({int, float})
FLAG_NAMES = {str(flag.name).lower(): flag for flag in Flag if flag is not Flag.REGION}


class Nothing:
    """A value that could not be read; the log has the reason."""


def choose_files(
    source: Source,
    recognise: HeadCheck,
    title: str,
    log: Log,
    suffixes: tuple[str, ...] = (".json",),
    unique_keys: frozenset[str] = frozenset(),
    among: Sequence[str] | None = None,
) -> list[str]:
    """Choose the files to read: the file itself, or those of a folder, or of `among`, that fit or should.

    A file should fit if it has an outermost key that only this format has (`unique_keys`), or at least half
    of the keys of a file that fits; so what it lacks is reported, and any other file is named as not read.
    """
    if not source.is_dir:
        return [""]  # the source itself
    candidates = source.with_suffix(*suffixes) if among is None else list(among)
    # `find_recognised` looks at the first fifty only.
    later_files = [file for file in candidates[LOOKED_AT:] if check_head(source.head(file), recognise)]
    fitting_files = {*find_recognised(source, recognise, suffixes), *later_files} & set(candidates)
    if len(fitting_files) == len(candidates):
        files = candidates
    else:
        key_sets = {_list_first_keys(source.head(file)) for file in fitting_files}

        def should_fit(file: str) -> bool:
            keys = _list_first_keys(source.head(file))
            is_half = any(
                keys and 2 * len(keys & fitting_keys) >= len(fitting_keys) for fitting_keys in key_sets
            )
            return is_half or not unique_keys.isdisjoint(keys)

        files = [file for file in candidates if file in fitting_files or should_fit(file)]
    report_unread(source, candidates, files, title, log)
    return files


def _list_first_keys(head: bytes) -> frozenset[str]:
    """The outermost keys that the first bytes of a file show, or those of the first record of its list."""
    look = glance(head)
    return frozenset(look.keys if look.top == "{" else look.first.get("", ()))


# ----------------------------------------------------------------------------------------------- reading


class Reader(Gather):
    """Gathers the values of JSON files, each checked at its location.

    Parameters
    ----------
    folders
        Folders of pictures that the format itself names; without them the source, if it holds any.
    sized
        Whether the files of the format have the sizes of images, so that a missing one is a warning.
    borrow_sizes
        Whether sizes come from the other side of an evaluation too.
    keys
        The names that the format knows; what has another is counted as its files are decoded.
    """

    def __init__(
        self,
        source: Source,
        builder: Builder,
        log: Log,
        options: ImageOptions,
        folders: tuple[str, ...] = (),
        *,
        sized: bool = False,
        borrow_sizes: bool = False,
        keys: KnownKeys | None = None,
    ) -> None:
        which_sizes: Literal["always", "never"] = "always" if borrow_sizes else "never"
        field = "" if sized else None  # "" expects a size, which is under no key of its own
        folders = folders or find_folders(source)
        # With `unanimous` scores of some boxes are those of ground truth, and ignored with one warning.
        super().__init__(
            source, builder, log, options, folders, borrow_sizes=which_sizes, size_field=field, unanimous=True
        )
        self.keys = keys
        self.other_tasks = set[str]()
        """Paths of files that were reported as those of another task."""
        self._outlines: Counter[str] = Counter()
        self._first_outline: Location | None = None

    # -- files

    def read_value(self, file: str) -> Any:
        """The decoded content of a file; `Nothing`, and an issue, if it cannot be read or is no JSON."""
        path, data = self.source.full(file), self.source.read(file, self.log)
        if data is None:
            return Nothing
        try:
            document = Document(load(data, self.log, path), self.log, path)
            content = document.read_value()
            document.check_end()
        except Broken:
            return Nothing
        self.count_unknown(content)
        return content

    def count_unknown(self, value: Any) -> None:
        """Count the keys of a decoded value that the format does not know."""
        if self.keys is not None:
            self.keys.count_json(value, self.builder.extras)

    def decode_cell(self, text: str, location: Location) -> Any:
        """The value of a cell of a table that holds JSON; `Nothing`, and an issue, if it is none."""
        try:
            return decode(text)
        except json.JSONDecodeError as e:
            position, reason_text = parse_syntax_error(e)
            reason = f"{reason_text[:1].lower()}{reason_text[1:]} at character {position + 1} of the cell"
            location.report(self.log, SYNTAX, field=location.field, reason=reason)
        except RecursionError:
            location.report(self.log, TOO_DEEP, field=location.field)
        return Nothing

    # -- values

    def report_wrong(self, location: Location, expected: str, value: Any, *, in_box: bool = False) -> None:
        """Report a value of the wrong type."""
        code = WRONG_BOX_TYPE if in_box else WRONG_TYPE
        if not self.log.keeps(code):  # a million of them are only counted
            self.log.counts[code.name] += 1
            return
        shown = Trusted(show(value))
        location.report(self.log, code, field=location.field, expected=Trusted(expected), value=shown)

    def report_task(self, path: str, task: str, remedy: str) -> None:
        """Report, once for each file, that it is one of another task."""
        if path not in self.other_tasks:
            self.log.report(OTHER_TASK, path, what=Trusted(task), remedy=Trusted(remedy))
        self.other_tasks.add(path)

    def report_missing(self, location: Location, key: str, *, in_box: bool = False) -> None:
        """Report a key that is not there."""
        code = MISSING_BOX_KEY if in_box else MISSING_KEY
        if self.log.keeps(code):
            location.report(self.log, code, value=key)
        else:  # a million of them are only counted
            self.log.counts[code.name] += 1

    def check_object(self, value: Any, location: Location, *, in_box: bool = False) -> dict[str, Any] | None:
        """Return an object without repeated keys; None, after an issue, for another value."""
        if type(value) is dict:
            return value
        if isinstance(value, Repeated):
            code = DUPLICATE_BOX_KEY if in_box else DUPLICATE_KEY
            key_location = location / value.repeated
            key_location.report(self.log, code, field=value.repeated, value=value.repeated)
        else:
            self.report_wrong(location, "an object", value, in_box=in_box)
        return None

    def check_list(self, value: Any, location: Location, *, in_box: bool = False) -> list[Any] | None:
        """Return a list, empty for null or a missing value; None, after an issue, for another value."""
        if value is None:
            return []
        if isinstance(value, list):
            return value
        self.report_wrong(location, "a list", value, in_box=in_box)
        return None

    def check_number(self, value: Any, location: Location) -> float | None:
        """Return a finite number as a float; None, after an issue, for another value."""
        if type(value) in NUMBER_TYPES:
            return float(value)
        if isinstance(value, Token):
            location.report(self.log, NOT_FINITE, field=location.field, value=value)
        else:
            self.report_wrong(location, "a number", value, in_box=True)
        return None

    def check_numbers(
        self, value: Any, n_expected: int, expected: str, location: Location
    ) -> list[float] | None:
        """Check a list of `n_expected` numbers, called `expected`; None, after an issue, for other values."""
        if not isinstance(value, list):
            self.report_wrong(location, expected, value, in_box=True)
            return None
        if len(value) != n_expected:
            location.report(self.log, WRONG_COUNT, expected=Trusted(expected), found=len(value))
            return None
        if NUMBER_TYPES.issuperset(map(type, value)):
            return list(map(float, value))
        numbers = [n for i, v in enumerate(value) if (n := self.check_number(v, location / i)) is not None]
        return numbers if len(numbers) == n_expected else None

    def check_score(self, value: Any, location: Location, *, as_text: bool = False) -> float | None:
        """A score, NaN where it is null or missing; None and an issue if it is something else.

        With `as_text` a number may stand in text, and empty text for none.
        """
        if as_text and isinstance(value, str):
            if not value.strip():
                return NAN
            if NUMBER_TEXT.fullmatch(value.strip(" \t")):
                parsed = float(value)
                value = parsed if abs(parsed) != float("inf") else Token(value)  # reported as not finite
        return NAN if value is None else self.check_number(value, location)

    def count_unread(self, record: dict[str, Any], known_keys: frozenset[str], *, free: bool = False) -> None:
        """Count the keys of a record that are not in `known_keys` and whose value is not empty.

        Keys that the format does not know at all were counted when the file was decoded, unless the keys of
        the record are `free`, that is data.
        """
        if known_keys.issuperset(record):
            return
        for key, content in record.items():
            is_counted = self.keys is not None and not free and key not in self.keys.names
            if key not in known_keys and content not in EMPTY_VALUES and not is_counted:
                self.count(key)

    def check_flag(self, value: Any, location: Location) -> bool | None:
        """Whether a flag is 1 or true, and not 0, false or null; None, and an issue, for another value."""
        if value in (None, 0, 1):
            return bool(value)
        shown = Verbatim(show(value))
        location.report(self.log, BAD_FLAG, field=location.field, value=shown, expected="0 or 1")
        return None

    def flags(
        self,
        attributes: Mapping[str, Any],
        flag_by_key: Mapping[str, Flag] = FLAG_NAMES,
        unsaid: Sequence[Any] = (),
    ) -> int:
        """The flags in attributes.

        Counts as unread the keys of flags with a value other than 0 and 1, and the keys of other attributes
        unless their value is empty or in `unsaid`.
        """
        flags = Flag(0)
        for key, content in attributes.items():
            if key in flag_by_key:
                flags |= flag_by_key[key] if is_set(content) else 0
                if parse_flag(content) not in (None, 0, 1):
                    self.count(key)
            elif content not in EMPTY_VALUES and content not in unsaid:
                self.count(key)
        return int(flags)

    def count(self, name: str, n: int = 1) -> None:
        """Count something that is not read."""
        count_extra(self.builder.extras, name, n)

    def count_outline(self, kind: str, location: Location) -> None:
        """Count a shape that is read as its box: ``polygons``, ``rotated boxes`` and the like."""
        self._outlines[kind] += 1
        if self._first_outline is None:
            self._first_outline = location

    # -- rows

    def category(self, name: Any, location: Location, *, listed: bool = False, **columns: Any) -> int | None:
        """The row of the class of that name; None, and an issue, if it is no text or cannot be a class."""
        if type(name) is not str:
            self.report_wrong(location, "the name of a class as text", name, in_box=not listed)
            return None
        return super().category(name, location, listed=listed, **columns)

    def find_class_number(self, value: Any, location: Location, classes: Mapping[str, int]) -> str:
        """The number of a class as text, as in the keys of `classes`; a note if the file has it as text."""
        if isinstance(value, str) and value in classes:
            note = f"{location.field} {show(value)} is read as the number {value}"
            self.log.note(f"{printable(self.source.path)}: {note}")
            return value
        is_whole = type(value) in NUMBER_TYPES and value == int(value)
        return str(int(value)) if is_whole else show(value)

    def image(
        self,
        name: Any,
        location: Location,
        *,
        field: str = "",
        picture: Picture | None = None,
        **columns: Any,
    ) -> int | None:
        """Add the image of that name; None, and an issue, if it is no text or cannot be an image."""
        if name is None:
            keywords = location.where if self.log.keeps(UNNAMED_IMAGE) else {}
            self.log.report(UNNAMED_IMAGE, location.path, **keywords, field=field)
            return None
        if type(name) is not str:
            self.report_wrong(location / field if field else location, "the name of an image as text", name)
            return None
        if picture is None and self.pictures:
            picture = self.find_picture(name, location, stem(name))  # of any extension
        return super().image(name, location, field=field, picture=picture, **columns)

    def check_size(
        self, width: Any, height: Any, location: Location, keys: tuple[str, str]
    ) -> tuple[int, int] | None:
        """The size of an image; None if a side is missing, null or 0; (0, 0), after an issue, if wrong."""
        if width is None and height is None:
            return None
        if type(width) is int and type(height) is int and 1 <= width < 2**31 and 1 <= height < 2**31:
            return width, height
        sides, n_errors = [], self.log.errors
        for value, key in zip((width, height), keys, strict=True):
            if value in (None, 0):
                continue
            if type(value) in NUMBER_TYPES and 1 <= value < 2**31 and value == int(value):
                sides.append(int(value))
            else:
                (location / key).report(self.log, BAD_IMAGE_SIZE, field=key, value=Trusted(show(value)))
        if self.log.errors > n_errors:
            return 0, 0
        return (sides[0], sides[1]) if len(sides) == 2 else None

    def find_unit_size(
        self, image: int, name: str, location: Location, picture: Picture | None = None
    ) -> tuple[int, int]:
        """Width and height in pixels by which relative coordinates of an image are multiplied.

        (1, 1) if the size is not known: all boxes of the source then stay relative, or `finish` reports it.
        """
        picture = picture or self.pictures.find_exact(name)
        size = self.pictures.find_size(name, picture)
        if size is None:
            self.keep_fractions(image, name, location, picture)
        return size or (1, 1)

    def finish(self, *, field: str = "score") -> None:
        """Decide between ground truth and detections, and hand over the boxes.

        Shapes that are read as their boxes are reported, and counted as the keys rotation and segmentation.
        """
        _, n_boxes = self.count_boxes()
        super().finish(field=field)
        if (location := self._first_outline) is None:
            return
        kinds, n = list(self._outlines), self._outlines.total()
        kind = Trusted(kinds[0] if len(kinds) == 1 else "outlines")
        # Shapes that were joined to objects of a group are more than the boxes.
        location.report(self.log, OUTLINES, n=n, total=max(n_boxes, n), what=kind)
        rotated = self._outlines["rotated boxes"]
        for key, n_of_kind in (("rotation", rotated), ("segmentation", n - rotated)):
            if n_of_kind:
                self.count(key, n_of_kind)


LONGEST = 2**27
"""Bytes of the longest line. Records with outlines take megabytes."""


_WHOLE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\[|\{(?:[^\r\n]*[\[{,])?[ \t]*\r?\n\s*+[^\s{])")
"""The beginning of a list, or of an object that goes on in the next line."""


def read_lines(reader: Reader, file: str, *, keyed: bool = False) -> Iterator[tuple[Location, str, Any]]:
    """Yield the location, key and value of each line that is not blank; lines that are no JSON are reported.

    A file that begins with ``[`` is a list of records, and one whose first line ends within an object is one
    record; both are read whole. The key is empty unless lines are `keyed`: then it is the text before the
    first tab, and the value is `Nothing` in a line without one.
    """
    source, log = reader.source, reader.log
    path = source.full(file)
    try:
        with source.open_text(file, log) as stream:
            head = stream.read(4096)
            refuse_nuls(head)
            if kind := find_binary_kind(head):
                log.report(NOT_TEXT, path, value=Trusted(kind))
            elif wide := find_wide_encoding(head):
                log.report(NOT_UTF8, path, line=1, value=wide)
            elif not keyed and _WHOLE.match(head):
                value, location = reader.read_value(file), Location(path)
                if isinstance(value, list):
                    yield from ((location / i, "", record) for i, record in enumerate(value))
                elif isinstance(value, dict):
                    yield location, "", value
                elif value is not Nothing:
                    reader.report_wrong(location, "a list of records", value)
            else:
                stream.seek(0)
                yield from _read_lines(reader, stream, path, keyed=keyed)
    except Unreadable as e:
        log.report(UNREADABLE, path, reason=str(e))
    except OSError as e:
        log.report(UNREADABLE, path, reason=e.strerror or "it cannot be read")


def _read_lines(
    reader: Reader, stream: IO[bytes], path: str, *, keyed: bool
) -> Iterator[tuple[Location, str, Any]]:
    """Yield location, key and value of each line of a file with one record a line; see `read_lines`.

    A line longer than `LONGEST` is reported and ends the file.
    """
    log, line_number, key = reader.log, 0, ""
    while line := stream.readline(LONGEST):
        line_number += 1
        if len(line) == LONGEST and not line.endswith(b"\n"):
            reason = "the line is longer than 128 MiB, so it cannot be one record"
            log.report(SYNTAX, path, line=line_number, reason=reason)
            return
        if line_number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.strip(b" \t\r\n"):
            continue
        try:
            text = line.decode()
            if keyed:
                key, tab, text = text.partition("\t")
                if not tab:
                    yield Location(path, line=line_number), key, Nothing
                    continue
            value = decode(text)
        except UnicodeDecodeError as e:
            column, value = (
                len(line[: e.start].decode(errors="replace")) + 1,
                f"the byte {line[e.start]:#04x}",
            )
            log.report(NOT_UTF8, path, line=line_number, column=column, value=value)
        except json.JSONDecodeError as e:
            reason = f"{e.msg[:1].lower()}{e.msg[1:]}"
            # The error counts from the tab on, so the key and the tab (`keyed`) are added.
            log.report(SYNTAX, path, line=line_number, column=len(key) + keyed + e.pos + 1, reason=reason)
        except RecursionError:
            log.report(TOO_DEEP, path, line=line_number)
        else:
            reader.count_unknown(value)
            yield Location(path, line=line_number), key, value


def decode(text: str) -> Any:
    """Decode a JSON text to Python values.

    Raises JSONDecodeError, or RecursionError if the values of its object have more than `MOST_LEVELS` levels.
    """
    value, error = None, None
    try:
        value = _PYTHON.decode(text)
    except json.JSONDecodeError as e:
        error = e
    # A text that is too deep before its syntax error counts as too deep, as for a parser that stops there. Of
    # so few characters none is; the outermost object is a level around the values that are limited.
    end = error.pos if error else len(text)
    if end > MOST_LEVELS and is_deeper(text[:end].encode("utf-8", "surrogatepass"), outer=1):
        raise RecursionError
    if error:
        raise error
    return value


def find_bounds(points: Sequence[Sequence[float]]) -> Corners:
    """Return the left, top, right and bottom of the box around points [x, y]."""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    return min(xs), min(ys), max(xs), max(ys)


def find_ellipse_bounds(x: float, y: float, rx: float, ry: float, turn: float = 0.0) -> Corners:
    """The box around an ellipse that is turned by so many radians."""
    if turn:
        cos, sin = math.cos(turn), math.sin(turn)
        # Half of the width and height of the box around it.
        rx, ry = math.hypot(rx * cos, ry * sin), math.hypot(rx * sin, ry * cos)
    return x - rx, y - ry, x + rx, y + ry


def is_upright(points: Sequence[Sequence[float]]) -> bool:
    """Whether an outline is exactly the rectangle around it: four corners, each once, in order."""
    if len(points) == 5 and points[0] == points[4]:
        points = points[:4]
    if len(points) != 4:
        return False
    left, top, right, bottom = find_bounds(points)
    ring = [tuple(p) for p in points]
    if set(ring) != {(left, top), (right, top), (right, bottom), (left, bottom)}:
        return False
    # Each side is vertical or horizontal, so the corners are in order.
    return all((a[0] == b[0]) or (a[1] == b[1]) for a, b in zip(ring, [*ring[1:], ring[0]], strict=True))


_FLAG_WORDS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off", ""), False),
}


def parse_flag(value: Any) -> Any:
    """True or false for a word that means it, else the value itself."""
    return _FLAG_WORDS.get(value.strip().lower(), value) if isinstance(value, str) else value


def is_set(value: Any) -> bool:
    """Whether an attribute is set: true, 1, or a word for it."""
    return bool(parse_flag(value) == 1)


_PREFIX = re.compile(r"(?:\.\.?[/\\])+")


def strip_parents(name: str) -> str:
    """Drop the leading ``../`` of pictures in another folder; without a ``/`` backslashes become ``/``."""
    path = name.replace("\\", "/") if "/" not in name else name
    return _PREFIX.sub("", path, count=1) if _PREFIX.match(path) else path


# ----------------------------------------------------------------------------------------------- writing


def simplify(value: float) -> float | int:
    """Return a number as it is written: a whole one as int, so without a point or a minus before zero."""
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def dump(value: Any, indent: int | None = None) -> str:
    """Return the JSON text of plain values, with `indent` spaces for each level."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if indent is None:
        return text
    import msgspec  # json.dumps with an indent is not the fast one

    return msgspec.json.format(text, indent=indent)


def join_records(records: Iterator[str]) -> str:
    """Write records, as JSON texts, as a list with one record a line."""
    body = ",\n".join(records)
    return f"[\n{body}\n]" if body else "[]"


def check_classes(dataset: Dataset, log: Log) -> bool:
    """Whether all class names can be written; those that cannot are reported."""
    are_valid = True
    for name in dataset.categories.name:
        if (reason := refuse_class(name)) is not None:
            log.report(UNWRITABLE, "", value=name, reason=reason, way="rename the class")
            are_valid = False
    return are_valid
