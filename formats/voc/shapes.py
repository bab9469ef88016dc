"""The fast way to read Pascal VOC XML: many files at once.

The text of many files is split by one pattern, that of an object written like the first one. What is left of
a file, with a mark for each object, must have the form below. Text is printable ASCII without '&' and '<', so
what the patterns capture is what an XML parser would give. All other files go through
`odm.formats.voc.elements`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from odm.formats.voc.elements import Elements
from odm.formats.voc.gather import Images, Rows
from odm.formats.voc.terms import EDGES, FLAGS, SCORES, WHITE
from odm.names import stem
from odm.tables import Builder

_APART, _MARK = b"\0", b"\1"
"""The separator of files, and the mark for an object; neither occurs in XML."""
_TEXT = rb"[ -%'-;=?-~]*"
_GAP = rb"[ \t\r\n]*"


def _leafs(*tags: bytes) -> bytes:
    return b"|".join(b"<" + tag + b">" + _TEXT + b"</" + tag + b">" + _GAP for tag in tags)


_FILE = re.compile(
    rb"""(?:\xef\xbb\xbf)?(?:<\?xml version=["']1\.0["'](?: encoding=["'](?:utf-8|UTF-8)["'])?"""
    rb"""(?: standalone=["'](?:yes|no)["'])? ?\?>)?"""
    + (_GAP + rb"""<annotation(?: verified="(?:yes|no)")?>""" + _GAP + rb"(?:")
    + _leafs(b"folder", b"path", b"segmented")
    + (rb"|<source>" + _GAP + rb"(?:" + _leafs(b"database", b"annotation", b"image", b"flickrid"))
    + (rb")*</source>" + _GAP)
    + (rb"|<owner>" + _GAP + rb"(?:" + _leafs(b"flickrid", b"name") + rb")*</owner>" + _GAP)
    + (rb"|<filename>(" + _TEXT + rb")</filename>" + _GAP)
    + (rb"|<size>" + _GAP + rb"<width>([1-9][0-9]{0,8})</width>" + _GAP)
    + (rb"<height>([1-9][0-9]{0,8})</height>" + _GAP + rb"(?:" + _leafs(b"depth") + rb")?</size>" + _GAP)
    + (rb")*(?:\x01(?:(" + _GAP + rb")\x01(?:\4\x01)*)?" + _GAP + rb")?</annotation>" + _GAP)
)
"""What is left of a file. The last group is what lies between objects, everywhere the same."""
_LEAF = re.compile(rb"<([a-z]+)>(" + _TEXT + rb")</\1>")
_PATTERNS = {
    **dict.fromkeys(EDGES, rb"(-?[0-9]{1,15}+(?:\.[0-9]{1,20}+)?+)"),
    **dict.fromkeys(SCORES, rb"([0-9]{1,15}+(?:\.[0-9]{1,20}+)?+)"),
    **dict.fromkeys(FLAGS, rb"([01])"),
    "name": rb"( *+[!-%'-;=?-~][ -%'-;=?-~]*+)",  # not only blanks
    "pose": rb"(" + _TEXT + rb")",
}


class File(NamedTuple):
    """A file that was read; `key` is the name of its image without extension."""

    data: bytes
    path: str
    key: str


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Shape:
    """How one object is written, blanks and line ends included; learnt from the first object of a file."""

    pattern: re.Pattern[bytes]
    columns: dict[str, int]
    """The position of each element's value among the pieces of one object."""
    step: int
    lines: int

    @classmethod
    def of_first(cls, data: bytes) -> _Shape | None:
        """The shape of the first object of a file; None if it is not plain."""
        start = data.find(b"<object>")
        close = data.find(b"</object>", start, start + 4000)
        if start < 0 or close < 0:
            return None
        parts = _LEAF.split(data[start : close + 9])
        tags = [tag.decode() for tag in parts[1::3]]
        between = [part.replace(b">", b"> ").split() for part in parts[0::3]]
        if not between[0] or between[0][0] != b"<object>" or len(set(tags)) != len(tags):
            return None
        # Write down the elements in order, to see whether they are where they belong.
        order = []
        for i, marks in enumerate(between):
            order += [mark.decode("latin-1") for mark in marks]
            order += tags[i : i + 1]
        start = order.index("<bndbox>") if "<bndbox>" in order else -1
        outside = order[1:start] + order[start + 6 : -1]
        scores = [tag for tag in tags if tag in SCORES]
        if (
            start < 0
            or sorted(order[start + 1 : start + 5]) != sorted(EDGES)
            or order[start + 5 : start + 6] != ["</bndbox>"]
            or order[-1] != "</object>"
            or "name" not in outside
            or not set(outside) <= {"name", "pose", *FLAGS, *SCORES}
            or len(scores) > 1
        ):
            return None
        pattern = b""
        for i, literal in enumerate(parts[0::3]):
            pattern += re.escape(literal)
            if i < len(tags):
                tag = tags[i].encode()
                pattern += b"<" + tag + b">" + _PATTERNS[tags[i]] + b"</" + tag + b">"
        columns = {("score" if tag in SCORES else tag): i + 1 for i, tag in enumerate(tags)}
        lines = sum(literal.count(b"\n") for literal in parts[0::3])
        return cls(re.compile(pattern), columns, len(tags) + 1, lines)

    def cut(self, files: Sequence[File]) -> list[_Found | None]:
        """What each file holds, None where not all of it fits."""
        text = _APART.join([file.data for file in files])
        pieces = self.pattern.split(text)
        rests = _MARK.join(pieces[:: self.step]).split(_APART)
        lone = b"\r" in text and text.count(b"\r") > text.count(b"\r\n")
        if lone or _MARK in text or len(rests) > len(files):
            return [None] * len(files)
        found: list[_Found | None] = []
        last = 0
        for file, rest in zip(files, rests, strict=True):
            first, last = last, last + rest.count(_MARK)
            match = _FILE.fullmatch(rest)
            if match is None or rest.count(b"<filename>") != 1 or rest.count(b"<size>") != 1:
                found.append(None)
                continue
            filename, width, height, gap = match.groups()
            said = filename.decode("ascii")
            if stem(said) != file.key.rpartition("/")[2]:
                found.append(None)
                continue
            line = 1 + rest.count(b"\n", 0, rest.find(_MARK))
            lines = 0 if gap is None else self.lines + gap.count(b"\n")
            found.append(_Found(self, pieces, first, last, said, (int(width), int(height)), line, lines))
        return found


_NO_OBJECTS = _Shape(re.compile(rb"(?!)"), {}, 1, 0)


class _Found(NamedTuple):
    """What a file holds: the rows of its objects among those of many files, and what its head says."""

    shape: _Shape
    pieces: list[bytes]
    first: int
    last: int
    said: str
    size: tuple[int, int]
    line: int
    """Of the first object."""
    lines: int
    """From one object to the next."""

    def column(self, tag: str, last: int) -> list[bytes]:
        """The values of an element, from the first object of this file to the one before `last`."""
        step = self.shape.step
        return self.pieces[self.first * step + self.shape.columns[tag] : last * step : step]


class Shapes:
    """Reads files by the shapes of objects that it has learnt."""

    def __init__(self, builder: Builder, images: Images, rows: Rows, careful: Elements) -> None:
        self._builder, self._images, self._rows, self._careful = builder, images, rows, careful
        self._categories: dict[bytes, int] = {}
        self._shapes = [_NO_OBJECTS]
        self._lessons = 0

    def read(self, files: Sequence[File]) -> None:
        """Read files in their order, those that are not of the usual form element by element."""
        run: list[tuple[int, _Found]] = []
        for file, found in zip(files, self._find(files), strict=True):
            if found is None:
                run = self._take(run)
                self._careful.read(*file)
                continue
            row = self._images.add(file.path, file.key, found.said, found.size)
            if row is None:
                run = self._take(run)
                self._name(found, found.last)
                self._builder.skipped += found.last - found.first
                continue
            if run and run[-1][1].pieces is not found.pieces:
                run = self._take(run)
            run.append((row, found))
        self._take(run)

    def _find(self, files: Sequence[File]) -> list[_Found | None]:
        """What each file holds, None where it is not of the usual form."""
        found: list[_Found | None] = [None] * len(files)
        left = list(range(len(files)))

        def fits(shape: _Shape) -> bool:
            nonlocal left
            for i, one in zip(left, shape.cut([files[i] for i in left]), strict=True):
                found[i] = one
            before, left = len(left), [i for i in left if found[i] is None]
            return len(left) < before

        for shape in [*self._shapes]:
            if left and fits(shape):
                self._shapes.remove(shape)
                self._shapes.insert(0, shape)
        for i in left:
            if found[i] is None and self._lessons < 12:  # each costs about a millisecond
                self._lessons += 1
                learnt = _Shape.of_first(files[i].data)
                if learnt is not None and fits(learnt):
                    self._shapes.insert(0, learnt)
        return found

    def _take(self, run: Sequence[tuple[int, _Found]]) -> list[tuple[int, _Found]]:
        """Add the objects of images and their files, which lie side by side; begin another run."""
        if not run or run[0][1].first == run[-1][1].last:
            return []
        first, last = run[0][1], run[-1][1].last
        columns = first.shape.columns
        counts = np.array([found.last - found.first for _, found in run])
        of = np.repeat(np.arange(len(run)), counts)
        # Each object begins so many lines after the one before it in its file.
        place = np.arange(len(of)) - (np.cumsum(counts) - counts)[of]
        begin, step = np.array([(found.line, found.lines) for _, found in run])[of].T
        flags = np.zeros(len(of), np.uint16)
        for tag, flag in FLAGS.items():
            if tag in columns:
                flags |= (np.array(first.column(tag, last), "S1") == b"1") * np.uint16(flag)
        category = self._name(first, last)
        self._rows.add_all(
            image=np.array([row for row, _ in run], np.int32)[of],
            category=np.array(category, np.int32),
            xyxy=np.array([_numbers(first.column(edge, last)) for edge in EDGES]).T.copy(),
            score=np.array(
                _numbers(first.column("score", last)) if "score" in columns else [np.nan] * len(of)
            ),
            flags=flags,
            line=(begin + place * step).astype(np.int32),
        )
        if "pose" in columns:
            for pose, times in Counter(first.column("pose", last)).items():
                if pose.strip(WHITE).lower() not in (b"", b"unspecified"):
                    self._rows.count("pose", times)
        return []

    def _name(self, first: _Found, last: int) -> list[int]:
        """The rows of the classes of all objects from `first` on, added where they are new."""
        if first.first == last:
            return []
        names = first.column("name", last)
        for name in dict.fromkeys(names):
            if name not in self._categories:
                self._categories[name] = self._builder.category(name.decode("ascii"))
        return list(map(self._categories.__getitem__, names))


def _numbers(texts: Sequence[bytes]) -> list[float]:
    text = b",".join(texts)
    if b"-0" not in text:  # which JSON has as 0
        with contextlib.suppress(msgspec.DecodeError):  # it has no 007 either
            return _FLOATS.decode(b"[" + text + b"]")
    return list(map(float, texts))


_FLOATS = msgspec.json.Decoder(list[float])
