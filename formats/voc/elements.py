"""The careful way to read Pascal VOC XML: element by element, and what is wrong with each.

`odm.formats.voc.shapes` is the quick way; whatever it does not take comes here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from odm.formats._shared.codes import (
    BAD_FLAG,
    BAD_IMAGE_SIZE,
    DUPLICATE_BOX_KEY,
    DUPLICATE_KEY,
    MISSING_BOX_KEY,
    WRONG_BOX_TYPE,
)
from odm.formats._shared.pictures import parse_pixels
from odm.formats._shared.safe_xml import WRONG_ROOT, SafeXmlParser
from odm.formats._shared.text_tokens import NUMBER_TEXT
from odm.formats.voc.gather import Images, Rows
from odm.formats.voc.terms import BLANKS, EDGES, FLAGS, SCORES, number_of, refuse_class
from odm.issues import Code, Log, Trusted
from odm.names import BAD_CLASS_NAME, accept_name
from odm.tables import Builder

STRANGE_ELEMENT = Code(
    "voc-misplaced-element",
    "error",
    "<{value}> is not read {where}",
    "write {expected}",
    "An element of the format is in an unexpected place, or is written with capitals or a namespace. Its "
    "content would be lost.",
    file=True,
)

_HEADER = frozenset(("filename", "size", "object"))
_SIZE = frozenset(("width", "height"))
_OBJECT = frozenset(("name", "bndbox", "trackid", *FLAGS, *SCORES))
_OBJECT_TEXTS = _OBJECT - {"bndbox"}
_LOOKALIKES = _HEADER | _SIZE | _OBJECT | frozenset(EDGES)
_SAYS_NOTHING = frozenset(("", "unspecified"))
_TRUTH = {
    "": False, "0": False, "1": True, "0.0": False, "1.0": True, "unspecified": False,
    "false": False, "true": True, "no": False, "yes": True,
}  # fmt: skip
_PLAIN = re.compile(r"(?:-?[0-9]{1,15}(?:\.[0-9]{1,20})?(?:\0|\Z)){4}", re.ASCII)
"""Four numbers that are surely finite, as nearly all are."""


class Elements:
    """Reads files through an XML parser."""

    def __init__(self, builder: Builder, log: Log, images: Images, rows: Rows) -> None:
        self._builder, self._log, self._images, self._rows = builder, log, images, rows
        self._names: dict[str, int] = {}
        self._parser = SafeXmlParser()

    def read(self, data: bytes, path: str, key: str) -> None:
        """Take the image and the objects of a file; what is wrong with them is reported."""
        root = self._parse(data, path)
        if root is None:
            return
        log = self._log
        filename: str | None = None
        filename_line = size_line = root.sourceline or 0
        size: dict[str, str] | None = None
        objects: list[Any] = []
        place: dict[str, str] = {}
        seen_filename = False
        usable = True
        for child in root:
            tag = child.tag
            if tag == "object":
                objects.append(child)
            elif tag == "filename":
                if seen_filename:
                    log.report(DUPLICATE_KEY, path, line=child.sourceline, field=tag, value=tag)
                    usable = False
                    continue
                seen_filename = True
                filename_line = child.sourceline
                filename = self._text(child, path, tag)
                usable &= filename is not None
            elif tag == "size":
                if size is not None:
                    log.report(DUPLICATE_KEY, path, line=child.sourceline, field=tag, value=tag)
                    usable = False
                    continue
                size_line = child.sourceline
                size, sound = self._size(child, path)
                usable &= sound
            elif tag in ("video", "frame") and not len(child):
                place[tag] = (child.text or "").strip(BLANKS)
            elif tag not in ("folder", "path", "segmented"):
                usable &= self._unread(child, path, "in <annotation>")
        pixels, sound = self._pixels(size, path, size_line)
        name = filename.strip(BLANKS) if filename is not None else None
        if name:
            place_of = {"line": filename_line, "field": "filename"}
            usable &= accept_name(name.replace("\\", "/"), log, path, warn=False, **place_of)
        row: int | None = None
        if usable and sound:
            row = self._images.add(path, key, name, pixels, filename_line, size_line)
        if row is not None and place.get("video"):
            frame = place.get("frame", "")
            whole = frame.isascii() and frame.isdigit() and len(frame) < 10
            self._rows.set_frame(row, place["video"], int(frame) if whole else -1)
        for child in objects:
            if not self._object(child, path, row, child.sourceline or 0):
                self._builder.skipped += 1

    def _size(self, element: Any, path: str) -> tuple[dict[str, str], bool]:
        """The texts of the elements in <size>, and whether they can be used."""
        size: dict[str, str] = {}
        sound = True
        for part in element:
            tag, field = part.tag, f"size/{part.tag}"
            if tag not in _SIZE:
                sound &= self._unread(part, path, "in <size>")
            elif tag in size:
                self._log.report(DUPLICATE_KEY, path, line=part.sourceline, field=field, value=tag)
                sound = False
            else:
                text = self._text(part, path, field)
                size[tag] = text.strip(BLANKS) if text is not None else "0"
                sound &= text is not None
        return size, sound

    def _pixels(
        self, size: dict[str, str] | None, path: str, line: int
    ) -> tuple[tuple[int, int] | None, bool]:
        """Width and height as the file gives them, None for unknown; and whether they can be used."""
        values = []
        sound = True
        for tag in ("width", "height"):
            text = (size or {}).get(tag, "")
            try:
                if text == "" or (NUMBER_TEXT.fullmatch(text) and float(text) == 0):
                    values.append(0)
                else:
                    values.append(parse_pixels(text))
            except ValueError:
                self._log.report(BAD_IMAGE_SIZE, path, line=line, field=f"size/{tag}", value=text)
                sound = False
        if not sound or min(values) == 0:
            return None, sound
        return (values[0], values[1]), True

    def _object(self, element: Any, path: str, image: int | None, line: int) -> bool:
        """Add the box of one <object>; False, and its faults reported, if there is none."""
        texts, edges, sound = self._parts(element, path)
        if not sound:
            return False
        for tag, there in (("name", "name" in texts), ("bndbox", edges is not None)):
            if not there:
                self._log.report(MISSING_BOX_KEY, path, line=line, field=f"object/{tag}", value=tag)
                sound = False
        category = self._category(texts["name"], path, line) if "name" in texts else -1
        corners = [] if edges is None else self._corners(edges, path, line)
        score = self._score(texts, path, line)
        flags = self._flags(texts, path, line)
        if not sound or category < 0 or None in corners or score is None or flags is None or image is None:
            return False
        self._rows.add(image, category, corners, score, flags, line)  # type: ignore[arg-type]
        if (id_ := texts.get("trackid", "").strip(BLANKS)) not in ("", "-1"):
            plain = id_.isascii() and id_.isdigit() and len(id_) < 19 and (id_ == "0" or id_[0] != "0")
            self._rows.set_track(int(id_) if plain else id_)
        return True

    def _parts(self, element: Any, path: str) -> tuple[dict[str, str], dict[str, Any] | None, bool]:
        """The texts in an <object>, the edges of its <bndbox>, None without one, and whether all is sound."""
        texts: dict[str, str] = {}
        edges: dict[str, Any] | None = None
        sound = True
        for child in element:
            tag = child.tag
            if tag in _OBJECT_TEXTS and tag not in texts:
                if tag in SCORES and any(t in texts for t in SCORES):
                    sound = self._report_twice(child, f"object/{tag}", path)
                    continue
                text = child.text if not len(child) else self._text(child, path, f"object/{tag}")
                sound &= not len(child)
                texts[tag] = text or ""
            elif tag == "bndbox" and edges is None:
                edges = {}
                for edge in child:
                    field = edge.tag
                    if field in edges:
                        sound = self._report_twice(edge, f"object/bndbox/{field}", path)
                    elif field in EDGES:
                        edges[field] = edge
                    else:
                        sound &= self._unread(edge, path, "in <bndbox>")
            elif tag in texts or tag == "bndbox":
                sound = self._report_twice(child, f"object/{tag}", path)
            elif tag == "pose":
                if (child.text or "").strip(BLANKS).lower() not in _SAYS_NOTHING:
                    self._rows.count("pose")
            elif tag == "part":
                self._rows.count("part")
            else:
                sound &= self._unread(child, path, "in <object>")
        return texts, edges, sound

    def _report_twice(self, element: Any, field: str, path: str) -> bool:
        line = element.sourceline
        self._log.report(DUPLICATE_BOX_KEY, path, line=line, field=field, value=element.tag)
        return False

    def _corners(self, edges: dict[str, Any], path: str, line: int) -> Sequence[float | None]:
        """The numbers of the four edges; None, and an issue, for one that is missing or no number."""
        if len(edges) == 4 and not any(map(len, edges.values())):
            left, top, right, bottom = [edges[tag].text or "" for tag in EDGES]
            if _PLAIN.fullmatch(f"{left}\0{top}\0{right}\0{bottom}"):
                return float(left), float(top), float(right), float(bottom)
        corners: list[float | None] = []
        for tag in EDGES:
            edge, field = edges.get(tag), f"object/bndbox/{tag}"
            if edge is None:
                self._log.report(MISSING_BOX_KEY, path, line=line, field=field, value=tag)
                corners.append(None)
                continue
            text = self._text(edge, path, field)
            value = text and text.strip(BLANKS)
            corners.append(
                None if value is None else number_of(value, self._log, path, edge.sourceline, field)
            )
        return corners

    def _score(self, texts: dict[str, str], path: str, line: int) -> float | None:
        """The score, NaN where there is none; None, and an issue, where it is no number."""
        for tag in SCORES:
            if text := texts.get(tag, "").strip(BLANKS):
                return number_of(text, self._log, path, line, f"object/{tag}")
        return np.nan

    def _flags(self, texts: dict[str, str], path: str, line: int) -> int | None:
        """The flags that are set; None, and an issue, where one is neither set nor not."""
        flags, sound = 0, True
        for tag, flag in FLAGS.items():
            if (text := texts.get(tag, "0")) == "0":
                continue
            text = text.strip(BLANKS)
            if (mark := _TRUTH.get(text.lower())) is None:
                expected, field = "0 or 1 (or no, yes, false, true)", f"object/{tag}"
                self._log.report(BAD_FLAG, path, line=line, field=field, value=text, expected=expected)
                sound = False
            elif mark:
                flags |= flag
        return flags if sound else None

    def _category(self, text: str, path: str, line: int) -> int:
        """The row of a class, -1 and an issue if its name cannot be one."""
        if text in self._names:
            return self._names[text]
        name = _plain_class(text)
        reason = refuse_class(name)
        if reason is not None:
            self._log.report(BAD_CLASS_NAME, path, line=line, field="object/name", value=name, reason=reason)
            return -1
        row = self._names[text] = self._builder.category(name)
        return row

    def _text(self, element: Any, path: str, field: str) -> str | None:
        """The text of an element; None, and an issue, if it holds elements."""
        if len(element):
            found = str(element[0].tag)
            if not field.startswith("object"):  # a fault of the whole file
                self._log.report(
                    STRANGE_ELEMENT,
                    path,
                    line=element[0].sourceline,
                    field=field,
                    value=found,
                    where=f"in <{element.tag}>",
                    expected="the value alone",
                )
                return None
            self._log.report(
                WRONG_BOX_TYPE,
                path,
                line=element.sourceline,
                field=field,
                expected=f"text in <{element.tag}>",
                value=f"the element <{found}>",
            )
            return None
        return element.text or ""

    def _unread(self, element: Any, path: str, where: str) -> bool:
        """Count an element that is not read; False, and an issue, if it looks like one that should be."""
        tag = element.tag
        local = tag.rsplit("}", 1)[-1].lower()
        expected = ""
        if local in _LOOKALIKES and (tag != local or _homes(local) != where):
            expected = f"<{local}> {_homes(local)}" if tag == local else f"<{local}>"
        elif len(element) and where != "in <object>":
            inner = next((e for e in element.iter("object", "bndbox")), None)
            if inner is not None:
                tag, where, expected = inner.tag, f"in <{tag}>", f"<{inner.tag}> {_homes(inner.tag)}"
        if expected:
            self._log.report(
                STRANGE_ELEMENT,
                path,
                line=element.sourceline,
                field=tag,
                value=tag,
                where=where,
                expected=expected,
            )
            return False
        if where == "in <object>":
            self._rows.count("other elements of objects")
        return True

    def _parse(self, data: bytes, path: str) -> Any:
        """The root <annotation> of a harmless document; None, and an issue, if there is none."""
        root = self._parser.root(data, path, self._log)
        if root is not None and root.tag != "annotation":
            self._log.report(
                WRONG_ROOT,
                path,
                line=root.sourceline or 0,
                value=root.tag,
                expected="annotation",
                title=Trusted("Pascal VOC XML, with plain lower-case element names and no namespace"),
            )
            return None
        return root


def _homes(tag: str) -> str:
    """Where an element of the format belongs."""
    if tag in EDGES:
        return "in <bndbox>"
    if tag in _SIZE:
        return "in <size>"
    return "in <annotation>" if tag in _HEADER else "in <object>"


def _plain_class(text: str) -> str:
    """The name of a class as it is meant: a line break around it is a printer's, a blank may be its own."""
    return text.strip(BLANKS) if "\n" in text or "\t" in text else text
