"""Split the objects of a Pascal VOC file that are all written alike into their values, without a parser."""

from __future__ import annotations

import re
from typing import NamedTuple

from odm.formats.voc.terms import EDGES, FLAGS, SCORES, WHITE
from odm.names import MOST_OF_CLASS

MOST_FORMS = 12
"""Ways of writing files that are remembered; a new one costs about a millisecond."""
_TEXT = rb"[ -%'-;=?-~]*+"
"""Printable ASCII without '&' and '<', which an XML parser takes as it is."""
LEAF = re.compile(rb"<([a-z]+)>(" + _TEXT + rb")</\1>")
"""An element with plain text. It splits a text into pieces: text, tag, value, text, tag, value, ..., text."""
_OUTLINE = re.compile(r"<object>([a-z,]*)<bndbox>([a-z,]*)</bndbox>([a-z,]*)</object>")
"""An object of which each inner element was replaced by its tag and a comma."""
_NUMBER = rb"[0-9]{1,15}+(?:\.[0-9]{1,20}+)?+"
_PLAIN = {
    **dict.fromkeys(EDGES, b"-?" + _NUMBER),
    **dict.fromkeys(SCORES, _NUMBER),
    **dict.fromkeys(FLAGS, b"[01]"),
    "name": b" *+[!-%'-;=?-~]" + _TEXT,  # not only blanks
    "pose": _TEXT,
}


class Layout(NamedTuple):
    """The text of an object without its values, blanks and line ends included."""

    pattern: re.Pattern[bytes]
    value_indices: dict[str, int]
    """The index of the value of each element, by tag, in the list into which `pattern` splits one object."""
    n_lines: int
    """The line breaks within an object."""


def _parse_layout(object_text: bytes) -> Layout | None:
    """Return the layout of an object, the first of its file, from its text; None if unusual."""
    # "<object> <name>dog</name> ..." is split into "<object> ", "name", "dog", " ", ...: literals are every
    # third piece from the first on, tags every third from the second on.
    literals, tags = LEAF.split(object_text)[0::3], [tag.decode() for tag in LEAF.split(object_text)[1::3]]
    # such as <object>name,difficult,<bndbox>xmin,ymin,xmax,ymax,</bndbox></object>
    unspaced_text = re.sub(rb">[ \t\r\n]+", b">", object_text)
    element_order = _OUTLINE.fullmatch(LEAF.sub(rb"\1,", unspaced_text).decode("latin-1"))
    if element_order is None:
        return None
    before, in_box, after = element_order.groups()
    if (
        before + in_box + after != "".join(f"{tag}," for tag in tags)  # text beside the elements
        or sorted(in_box.split(",")) != ["", *sorted(EDGES)]  # the last comma leaves a ""
        or not {"name", *EDGES} <= {*tags} <= _PLAIN.keys()  # a tag is missing, or unknown
        or len({*tags}) < len(tags)  # a tag is there twice
        or {*SCORES} <= {*tags}  # both names of the score
    ):
        return None
    pattern = re.escape(literals[0])
    for tag, literal in zip(tags, literals[1:], strict=True):
        pattern += b"<%b>(%b)</%b>" % (tag.encode(), _PLAIN[tag], tag.encode()) + re.escape(literal)
    value_indices = {("score" if tag in SCORES else tag): i for i, tag in enumerate(tags, 1)}
    return Layout(re.compile(pattern), value_indices, object_text.count(b"\n"))


class UniformObjects(NamedTuple):
    """The objects of a file with one layout, and the text before and after them."""

    layout: Layout
    pieces: list[bytes]
    """Of two objects of 5 values: gap, 5 values, gap, 5 values, gap; the outer gaps are empty."""
    before: bytes
    after: bytes
    line: int
    """The line of the first object."""
    line_step: int
    """How many lines below one object the next begins."""

    @property
    def names(self) -> list[bytes]:
        """The classes of the objects."""
        return self.pieces[self.layout.value_indices["name"] :: len(self.layout.value_indices) + 1]


class Splitter:
    """Splits the objects of files, and remembers the layouts that occurred."""

    def __init__(self) -> None:
        """Start without layouts."""
        self._layouts: dict[tuple[bytes, ...], Layout | None] = {}
        """The layouts of objects by what they hold besides values; None for those that are not usual."""
        self._last_layout: Layout | None = None

    def split(self, data: bytes) -> UniformObjects | None:
        """Split the objects of a file by the layout of the first; None if another occurs, or may occur.

        Layouts that are new are remembered. None also for other encodings than UTF-8, and for single carriage
        returns, after which lines are counted otherwise.
        """
        start, end = data.find(b"<object>"), data.rfind(b"</object>") + len(b"</object>")
        # An object of more than 4000 bytes is not usual: the text is then empty.
        first_text = data[start : data.find(b"</object>", start, start + 4000) + len(b"</object>")]
        if start < 0 or not first_text or (b"encoding" in data[:200] and b"utf-8" not in data[:200].lower()):
            return None
        if b"\r" in data and data.count(b"\r") > data.count(b"\r\n"):
            return None
        # The layout of the first object: the last one, or that of its text without values.
        layout = self._last_layout
        if layout is None or not layout.pattern.fullmatch(first_text):
            split_text = LEAF.split(first_text)
            key = (*split_text[0::3], *split_text[1::3])
            if key not in self._layouts and len(self._layouts) < MOST_FORMS:
                self._layouts[key] = _parse_layout(first_text)
            layout = self._last_layout = self._layouts.get(key)
        if layout is None:
            return None

        # The gaps between objects must be alike, and blank. Pieces: gap, values of an object, gap, ..., gap.
        pieces = layout.pattern.split(data[start:end])
        gaps = {*pieces[:: len(layout.value_indices) + 1][1:-1]}
        if pieces[0] or pieces[-1] or len(gaps) > 1 or any(gap.strip(WHITE) for gap in gaps):
            return None
        text_before, text_after = data[:start], data[end:]
        line_step = layout.n_lines + sum(gap.count(b"\n") for gap in gaps)
        uniform = UniformObjects(
            layout, pieces, text_before, text_after, 1 + text_before.count(b"\n"), line_step
        )
        return uniform if max(map(len, uniform.names)) <= MOST_OF_CLASS else None
