"""The quick way to read Pascal VOC XML.

A file is read by it only if all of it matches: the head below, then objects that are all written like the
first one, then the end. Text is printable ASCII without '&' and '<', so what the pattern captures is what an
XML parser would give. Everything else goes through `odm.formats.voc.elements`.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np

from odm.formats.voc.gather import Images, Rows
from odm.formats.voc.terms import EDGES, FLAGS, SCORES, WHITE
from odm.names import stem
from odm.tables import Builder

_TEXT = rb"[ -%'-;=?-~]*"
_GAP = rb"[ \t\r\n]*"


def _leafs(*tags: bytes) -> bytes:
    return b"|".join(b"<" + tag + b">" + _TEXT + b"</" + tag + b">" + _GAP for tag in tags)


_HEAD = re.compile(
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
    + rb")*(?=</annotation>|<object>)"
)
_LEAF = re.compile(rb"<([a-z]+)>(" + _TEXT + rb")</\1>")
_PATTERNS = {
    **dict.fromkeys(EDGES, rb"(-?[0-9]{1,15}(?:\.[0-9]{1,20})?)"),
    **dict.fromkeys(SCORES, rb"([0-9]{1,15}(?:\.[0-9]{1,20})?)"),
    **dict.fromkeys(FLAGS, rb"([01])"),
    "name": rb"([ -%'-;=?-~]+)",
    "pose": rb"(" + _TEXT + rb")",
}


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Shape:
    """How one object is written, blanks and line ends included; learnt from the first object of a file."""

    pattern: re.Pattern[bytes]
    columns: dict[str, int]
    """The position of each element's value among the pieces of one object."""
    step: int
    lines: int

    @classmethod
    def of_first(cls, body: bytes) -> _Shape | None:
        """The shape of the object that `body` begins with; None if it is not plain."""
        close = body.find(b"</object>", 0, 4000)
        if close < 0:
            return None
        parts = _LEAF.split(body[: close + 9])
        tags = [tag.decode() for tag in parts[1::3]]
        between = [part.split() for part in parts[0::3]]
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

    def cut(self, body: bytes) -> tuple[list[bytes], int] | None:
        """The pieces of all objects, and how many lines one takes; None if not all of `body` fits."""
        pieces = self.pattern.split(body)
        gaps = pieces[:: self.step]
        if gaps[0] or gaps[-1].strip(WHITE) != b"</annotation>":
            return None
        inner = set(gaps[1:-1])
        if len(inner) > 1:
            return None
        lines = 0
        if inner:
            (gap,) = inner
            if gap.strip(WHITE):
                return None
            lines = self.lines + gap.count(b"\n")
        return pieces, lines


class Shapes:
    """Reads files by the shapes of objects that it has learnt."""

    def __init__(self, builder: Builder, images: Images, rows: Rows) -> None:
        self._builder, self._images, self._rows = builder, images, rows
        self._categories: dict[bytes, int] = {}
        self._shapes: list[_Shape] = []
        self._lessons = 0

    def read(self, data: bytes, path: str, key: str) -> bool:
        """Read a file of the usual form; False, and nothing done, if it has another."""
        head = _HEAD.match(data)
        if head is None:
            return False
        end = head.end()
        filename, width, height = head.groups()
        if (
            filename is None
            or width is None
            or data.count(b"<filename>", 0, end) > 1
            or data.count(b"<size>", 0, end) > 1
            or (b"\r" in data and data.count(b"\r") != data.count(b"\r\n"))
        ):
            return False
        said = filename.decode("ascii")
        if stem(said) != key.rsplit("/", 1)[-1]:
            return False
        body = data[end:]
        if body.startswith(b"</annotation>"):
            if body.strip(WHITE) != b"</annotation>":
                return False
            self._images.add(path, key, said, (int(width), int(height)))
            return True
        found = self._match(body)
        return found is not None and self._take(data, end, found, path, key, said, (int(width), int(height)))

    def _take(
        self,
        data: bytes,
        end: int,
        found: tuple[_Shape, list[bytes], int],
        path: str,
        key: str,
        said: str,
        size: tuple[int, int],
    ) -> bool:
        """Add the image and its objects, which begin at `end`; False if one has no name, and nothing done."""
        shape, pieces, spread = found
        step = shape.step
        n = len(pieces) // step
        at = shape.columns
        categories = self._categories
        names = pieces[at["name"] :: step]
        for name in names:
            if name not in categories:
                if not name.strip(WHITE):
                    return False
                categories[name] = self._builder.category(name.decode("ascii"))
        row = self._images.add(path, key, said, size)
        if row is None:
            self._builder.skipped += n
            return True
        rows = self._rows
        rows.image.extend([row] * n)
        rows.category.extend([categories[name] for name in names])
        for column, edge in zip(rows.edges, EDGES, strict=True):
            column.extend(map(float, pieces[at[edge] :: step]))
        for flag, marks in rows.flags.items():
            marks.extend(pieces[at[flag] :: step] if flag in at else [b"0"] * n)
        if "score" in at:
            rows.score.extend(map(float, pieces[at["score"] :: step]))
        else:
            rows.score.extend([np.nan] * n)
        start = 1 + data.count(b"\n", 0, end)
        rows.line.extend(range(start, start + n * spread, spread) if spread else [start] * n)
        if "pose" in at:
            poses = pieces[at["pose"] :: step]
            for pose in set(poses):
                if pose.strip(WHITE).lower() not in (b"", b"unspecified"):
                    rows.count("pose", poses.count(pose))
        return True

    def _match(self, body: bytes) -> tuple[_Shape, list[bytes], int] | None:
        """The shape of all objects of a file, the pieces it cuts them into, and how many lines one has."""
        for i, shape in enumerate(self._shapes):
            found = shape.cut(body)
            if found is not None:
                if i:
                    self._shapes.insert(0, self._shapes.pop(i))
                return shape, *found
        if self._lessons < 12:  # each costs about a millisecond
            self._lessons += 1
            learnt = _Shape.of_first(body)
            if learnt is not None and (found := learnt.cut(body)) is not None:
                self._shapes.insert(0, learnt)
                return learnt, *found
        return None
