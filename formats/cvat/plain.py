"""The quick way to read CVAT XML: a file of images with nothing but boxes, as CVAT and odm write it.

A file is read by it only if all of it matches: what stands above the first image is left to the XML parser,
and from there on every image and every box, with its attributes, has the form below. Texts are without
references and line breaks, so what the patterns capture is what a parser would give. Everything else, every
fault among it, is read element by element (`odm.formats.cvat.reader`).
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np
from numpy.typing import NDArray

from odm.tables import Floats, Longs

_GAP = rb"[ \t\n]{0,9999}+"  # a parser has limits too
_TEXT = rb'"[^"<&\x00-\x1f]{0,9999}+"'
_GROUP = rb'"([^"<&\x00-\x1f]{0,9999}+)"'
_NUMBER = rb'"((?:-(?!0"))?(?:0|[1-9][0-9]{0,14}+)(?:\.[0-9]{1,15}+)?)"'  # as JSON reads them too
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
_IMAGE_TEXT = re.compile(_IMAGE.pattern.decode())
_ATTRIBUTE = re.compile(rb"<attribute name=" + _GROUP + rb">([^<]*)<")
_NESTING = re.compile(rb"(?:I/>|I>\0*C)*A")
_NO_CHARACTER = re.compile(rb"\xef\xbf[\xbe\xbf]")
"""What UTF-8 can say and XML may not."""


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Plain:
    """The images and boxes of a file, in their order."""

    head: bytes
    """A document of what stands above the first image."""
    images: list[tuple[str, str, str, str]]
    """Name, subset, width and height of each image."""
    lines: list[int]
    n_boxes: list[int]
    """How many boxes each image has."""
    labels: list[str]
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
    parts = _BOX.split(data[start:])
    between = b"\0".join(parts[::8])  # a NUL for each box
    nesting = _IMAGE.sub(b"I", between).translate(None, b" \t\n")
    nesting = nesting.replace(b"</image>", b"C").replace(b"</annotations>", b"A")
    if not _NESTING.fullmatch(nesting):
        return None
    image_lines, box_lines = _lines(data, start)
    decode = msgspec.json.Decoder(list[float]).decode
    edges = [np.array(decode(b"[%b]" % b",".join(parts[k::8])), np.float64) for k in range(3, 7)]
    names = {text: text.decode() for text in dict.fromkeys(parts[1::8])}
    held = {text: i for i, text in enumerate(dict.fromkeys(parts[7::8]))}
    return Plain(
        data[:start] + b"</annotations>",
        _IMAGE_TEXT.findall(between.decode()),
        image_lines.tolist(),
        [len(boxes) for boxes in re.findall(rb"I(?:/|>(\0*)C)", nesting)],
        [names[text] for text in parts[1::8]],
        np.array(parts[2::8], "S1") == b"1",
        np.stack(edges, axis=1),
        [_attributes(text or b"") for text in held],
        np.fromiter(map(held.__getitem__, parts[7::8]), np.int64),
        box_lines,
    )


def _attributes(text: bytes) -> list[tuple[str, str]]:
    return [(name.decode(), value.decode()) for name, value in _ATTRIBUTE.findall(text)]


def _lines(data: bytes, start: int) -> tuple[Longs, Longs]:
    """The lines of the images and the boxes from a byte on; no other tag there begins with their letters."""
    text = np.frombuffer(data, np.uint8)
    tags = np.flatnonzero(text[start:] == ord("<")) + start
    letter = text[tags + 1]
    breaks = np.flatnonzero(text == ord("\n"))
    images, boxes = (np.searchsorted(breaks, tags[letter == ord(c)]) + 1 for c in "ib")
    return images, boxes
