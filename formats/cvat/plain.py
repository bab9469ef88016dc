"""The fast way to read CVAT XML: a file of images with nothing but boxes, as CVAT and odm write it.

A file is read this way only if all of it matches: what stands above the first image is left to the XML
parser, and from there on every image and every box, with its attributes, has the form below. Texts have no
references or line breaks, so what the patterns capture is what a parser would give. Everything else,
including every fault, is read element by element (`odm.formats.cvat.reader`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from odm.tables import Floats, Longs

_GAP = rb"[ \t\n]{0,9999}+"  # a parser has limits too
_TEXT = rb'"[^"<&\x00-\x1f]{0,9999}+"'
_GROUP = rb'"([^"<&\x00-\x1f]{0,9999}+)"'
_NUMBER = rb'"((?:-(?!0"))?[.0-9]{1,31}+)"'  # if JSON reads it too, which has no minus before a whole zero
_START = re.compile(
    rb"""\A(?:\xef\xbb\xbf)?(?:<\?xml version=["']1\.0["'](?: encoding=["'](?:utf-8|UTF-8)["'])?"""
    rb"""(?: standalone=["'](?:yes|no)["'])? ?\?>)?"""
)
_BOX = re.compile(
    rb"<box label=" + _GROUP + rb"(?: source=" + _TEXT + rb')? occluded="([01])"(?: source=' + _TEXT + rb")?"
    rb" xtl=" + _NUMBER + rb" ytl=" + _NUMBER + rb" xbr=" + _NUMBER + rb" ybr=" + _NUMBER
    + (rb"(?: z_order=" + _TEXT + rb")?(?: group_id=" + _TEXT + rb")? ?(?:/>|>" + _GAP)
    + (rb"((?:<attribute name=" + _TEXT + rb">[^<>&\x00-\x08\x0b-\x1f]{0,9999}</attribute>" + _GAP)
    + (rb")*)</box>)" + _GAP)
)  # fmt: skip
_IMAGE = re.compile(
    rb"<image(?: id=" + _TEXT + rb")? name=" + _GROUP + rb"(?: subset=" + _GROUP + rb")?(?: task_id=" + _TEXT
    + rb")? width=" + _GROUP + rb" height=" + _GROUP + rb" ?(?=/?>)"
)  # fmt: skip
_ATTRIBUTE = re.compile(rb"<attribute name=" + _GROUP + rb">([^<]*)<")
_NESTING = re.compile(rb"(?:I/>|I>\0*C)*A")
_NO_CHARACTER = re.compile(rb"\xef\xbf[\xbe\xbf]")
"""Characters of UTF-8 that XML does not allow."""
_PIECE = 2**18


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Plain:
    """The images and boxes of a file, in their order."""

    head: bytes
    """A document of what stands above the first image."""
    images: list[list[str]]
    """The names, subsets, widths and heights of the images, as lists."""
    lines: list[int]
    n_boxes: list[int]
    """How many boxes each image has."""
    labels: list[str]
    """The classes of the boxes, in the order of their first boxes."""
    label: Longs
    """(n,) which of those each box has."""
    occluded: NDArray[np.bool_]
    xyxy: Floats
    attributes: list[list[tuple[str, str]]]
    """What attributes boxes have: name and text of each."""
    which: Longs
    """(n,) which of those each box has."""
    box_lines: Longs


def plain(data: bytes) -> Plain | None:
    """A file as columns; None if it is not plain."""
    import msgspec

    start = data.find(b"<image ")
    head = _START.sub(b"", data[: max(start, 0)], count=1)
    if start < 0 or any(mark in head for mark in (b"<!", b"<?", b"\r")) or b"\0" in data:
        return None
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            return None
        if _NO_CHARACTER.search(data):
            return None
    found = _Found()
    try:
        for piece in _pieces(data, start):
            found.add(piece)
    except msgspec.DecodeError:
        return None
    images = _IMAGE.split(b"".join(found.between))
    nesting = b"I".join(images[::5]).translate(None, b" \t\n")
    nesting = nesting.replace(b"</image>", b"C").replace(b"</annotations>", b"A")
    if not _NESTING.fullmatch(nesting):
        return None
    above = data.count(b"\n", 0, start) + 1
    return Plain(
        data[:start] + b"</annotations>",
        [[(text or b"").decode() for text in images[k::5]] for k in range(1, 5)],
        (np.concatenate(found.image_lines) + above).tolist(),
        [len(boxes) for boxes in re.findall(rb"I(?:/|>(\0*)C)", nesting)],
        [text.decode() for text in found.labels],
        np.array(found.label, np.int64),
        np.frombuffer(b"".join(found.occluded), np.uint8) == ord("1"),
        np.ascontiguousarray(np.concatenate(found.edges, axis=1).T),
        [_attributes(text or b"") for text in found.held],
        np.array(found.which, np.int64),
        np.concatenate(found.box_lines) + above,
    )


def _pieces(data: bytes, start: int) -> Iterator[bytes]:
    """The text from the first image on, in pieces of some images that stay in the cache."""
    while start < len(data):
        end = data.find(b"<image ", start + _PIECE)
        yield data[start : end if end > 0 else len(data)]
        start = end if end > 0 else len(data)


class _Numbers(dict[bytes, int]):
    """Numbers texts in the order in which they are first asked for."""

    def __missing__(self, text: bytes) -> int:
        self[text] = number = len(self)
        return number


class _Found:
    """What is found piece by piece."""

    def __init__(self) -> None:
        import msgspec

        self.decode = msgspec.json.Decoder(list[float]).decode
        self.between: list[bytes] = []
        """What is left without the boxes, and a NUL for each of them."""
        self.labels, self.held = _Numbers(), _Numbers()
        self.label: list[int] = []
        self.which: list[int] = []
        self.occluded: list[bytes] = []
        self.edges: list[Floats] = []
        self.image_lines: list[Longs] = []
        self.box_lines: list[Longs] = []
        self.breaks = 0
        """How many lines have ended."""

    def add(self, piece: bytes) -> None:
        """Take a piece apart; `msgspec.DecodeError` where an edge is no number."""
        parts = _BOX.split(piece)
        self.between.append(b"\0".join(parts[::8]))
        self.label += map(self.labels.__getitem__, parts[1::8])
        self.occluded += parts[2::8]
        self.edges.append(np.array([self.decode(b"[%b]" % b",".join(parts[k::8])) for k in range(3, 7)]))
        self.which += map(self.held.__getitem__, parts[7::8])
        text = np.frombuffer(piece, np.uint8)
        tags = np.flatnonzero(text[:-1] == ord("<"))
        letter = text[tags + 1]
        breaks = np.flatnonzero(text == ord("\n"))
        for lines, first in ((self.image_lines, "i"), (self.box_lines, "b")):
            # No other tag begins with these letters.
            lines.append(np.searchsorted(breaks, tags[letter == ord(first)]) + self.breaks)
        self.breaks += len(breaks)


def _attributes(text: bytes) -> list[tuple[str, str]]:
    return [(name.decode(), value.decode()) for name, value in _ATTRIBUTE.findall(text)]
