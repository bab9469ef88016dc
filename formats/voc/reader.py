"""Reading Pascal VOC XML, file by file.

The objects of most files are written alike, element by element, with plain values in them. One pattern, that
of an object written like the first one, then splits the text of them all, and only what is left of the file
goes through the XML parser, once for all files of which the rest differs only in plain values. All other
objects are read one by one, and what is wrong with them is reported.

The format takes more lines than others because it is three: XML, the kit's result files, and its trees of
folders.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from odm.formats._shared.codes import (
    BAD_FLAG,
    BAD_IMAGE_SIZE,
    DUPLICATE_BOX_KEY,
    DUPLICATE_KEY,
    FILE_NAME_DIFFERS,
    FILE_NAME_MISSING,
    MISSING_BOX_KEY,
    OUTLINES,
    WRONG_BOX_TYPE,
)
from odm.formats._shared.gather import Gather, Location, add_extension, decide_kind
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import parse_pixels_or_unknown
from odm.formats._shared.shapes.box_shapes import rotate_box
from odm.formats._shared.text.safe_xml import (
    BLANKS,
    SafeXmlParser,
    parse_frame_number,
    parse_number,
    parse_track_id,
)
from odm.formats.voc.alike import LEAF, MOST_FORMS, Splitter, UniformObjects
from odm.formats.voc.dialects import CORNERS, HRSC, unify
from odm.formats.voc.masks import ObjectMasks
from odm.formats.voc.terms import EDGES, FLAGS, SCORES, count_from_zero, refuse_class
from odm.issues import Code, Trusted
from odm.names import BAD_CLASS_NAME, accept_name, is_usual, stem
from odm.tables import Floats, Id, Ints, ShapeKind, Shapes
from odm.tables.shapes import rectangle_corners

STRANGE_ELEMENT = Code(
    "voc-misplaced-element",
    "error",
    "<{value}> is not read {where}",
    "write {expected}",
    "An element of the format is in an unexpected place, or is written with capitals or a namespace. Its "
    "content would be lost.",
    file=True,
)

_MARK = "odm-objects"
"""The element that stands for all objects of a file, which are read without the parser."""
_PASSED = frozenset(("object", "folder", "path", "segmented", _MARK))
"""Elements of <annotation> that are passed over where its name and size are read."""
_KEYS = declare_keys(
    "annotation folder filename path segmented source database image flickrid owner* size width height depth "
    f"object* video frame verified {_MARK}"
)
_HEADER = frozenset(("filename", "size"))
_SIZE = frozenset(("width", "height"))
_OBJECT = frozenset(("name", "bndbox", "trackid", *FLAGS, *SCORES))
_TURNED_OBJECT = _OBJECT | {"robndbox", "type", "angle"}
_TURNED = ("cx", "cy", "w", "h", "angle")
_PARENTS = {
    **dict.fromkeys(_OBJECT, "object"),
    **dict.fromkeys(("object", *_HEADER), "annotation"),
    **dict.fromkeys(_SIZE, "size"),
    **dict.fromkeys(EDGES, "bndbox"),
}
"""Where each element belongs."""
_SAYS_NOTHING = frozenset(("", "unspecified"))
_TRUTH = {
    "": False, "0": False, "1": True, "0.0": False, "1.0": True, "unspecified": False,
    "false": False, "true": True, "no": False, "yes": True,
}  # fmt: skip

_PACKED = 10_000
"""Boxes after which what was read is put into arrays."""


class _Head(NamedTuple):
    """The name and size of the image in a file, with their lines."""

    name: str | None
    size: tuple[int, int]
    line: int
    size_line: int


class Reader:
    """Reads files one after the other; `splits` and `pictures` are those of the images by their keys."""

    def __init__(
        self,
        gather: Gather,
        splits: Mapping[str, str],
        pictures: Mapping[str, str],
        origin: int,
        masks: ObjectMasks,
    ) -> None:
        """Read into `gather`; with an `origin` of 1, pixels count from 1 and edges are shifted."""
        self._gather, self._splits, self._pictures, self._origin = gather, splits, pictures, origin
        self._masks = masks
        self._builder, self._log = gather.builder, gather.log
        self._parser = SafeXmlParser(
            "annotation",
            Trusted("Pascal VOC XML, with plain lower-case element names and no namespace"),
            [HRSC],
        )
        self._row_by_text: dict[str | bytes, int] = {}
        """The row of each class by the text that stands for it."""
        self._splitter = Splitter()
        self._heads: dict[tuple[bytes, ...], tuple[list[int], _Head]] = {}
        """By the text of a file without objects and values: the indices of name, width and height among the
        pieces of the text, and the head of the first such file."""
        self._trial_log = gather.log.fresh()  # of `_parse_without_objects`, which reports nothing
        self._values: list[float] = []
        """Nine numbers for each box: image, class, four edges, score, flags and line. `_pack` empties it."""
        self._alike: list[UniformObjects] = []
        """The objects of files with one layout, which follow the boxes in `_values`. `_pack` empties it."""
        self._alike_images: list[int] = []
        """The row of the image of each file in `_alike`."""
        self._n_alike = 0  # objects in `_alike`
        self._chunks: list[dict[str, Any]] = []  # arguments of `Gather.add`, and ids of tracks
        self._track_of: dict[int, Id] = {}
        """The id of the track of a box, by the number of the box among all."""
        self._corners_by_box: dict[int, Floats] = {}
        """(4, 2) corners of an oriented box, by the number of the box among all."""
        self._first_oriented: tuple[str, int, str] | None = None  # its path, line and element
        self._n_packed = 0  # boxes in `_chunks`
        self._frame_by_image: dict[int, tuple[str, int]] = {}
        """The video and the frame number of images, -1 = not given."""

    def read(self, data: bytes, path: str, key: str) -> None:
        """Take the image and the objects of a file; `key` is the name of the image without extension.

        Objects of one layout are split by a `Splitter`, and only the rest is parsed, or nothing if it is
        like the rest of an earlier file but for plain values.
        """
        uniform, root = self._splitter.split(data), None
        pieces: list[bytes] = []
        form: tuple[bytes, ...] = ()  # the text of the file without objects and values
        if uniform is not None:
            pieces = LEAF.split(uniform.before)  # text, tag, value, text, ...
            form = (*pieces[0::3], *pieces[1::3], uniform.after)
            if (head := self._find_known_head(form, pieces)) is not None:
                self._add_alike(uniform, path, self._add_image(path, key, head))
                return
            root = self._parse_without_objects(uniform, data, path)
        if root is None:
            uniform, root = None, self._parser.parse(data, path, self._log)
        if root is None:
            return

        # What is left is read from the elements, and kept if a later file may be like it. Not if something
        # unread was counted: that must be counted again in every such file.
        unify(root)
        n_extras = self._builder.extras.total()
        _KEYS.count_xml(root, self._builder.extras)
        head = self._read_head(root, path)
        image = None if head is None else self._add_image(path, key, head)
        if uniform is not None and head is not None and n_extras == self._builder.extras.total():
            self._keep_head(form, pieces, uniform.before, head)
        if image is not None and (video := (root.findtext("video") or "").strip(BLANKS)):
            frame = (root.findtext("frame") or "").strip(BLANKS)
            self._frame_by_image[image] = video, parse_frame_number(frame)
        if uniform is not None:
            self._add_alike(uniform, path, image)
        for object_number, element in enumerate(root.iterchildren("object"), 1):
            if self._alike:
                self._pack()  # these boxes come first
            if not self._read_object(element, path, image):
                self._builder.skipped += 1
                self._masks.leave_out(image, object_number)
        if len(self._values) >= 9 * _PACKED:
            self._pack()

    def _parse_without_objects(self, uniform: UniformObjects, data: bytes, path: str) -> Any | None:
        """Parse a file with a mark in place of its objects; None if this goes wrong or misses the mark.

        The mark is missing where the objects are, say, part of a comment. Nothing is reported.
        """
        # The mark has as many line ends as the objects, for the lines of what follows.
        n_lines = data.count(b"\n", len(uniform.before), len(data) - len(uniform.after))
        shortened = uniform.before + f"<{_MARK}/>".encode() + b"\n" * n_lines + uniform.after
        root = self._parser.parse(shortened, path, self._trial_log)
        marks = [] if root is None else [e.tag for e in root if e.tag in ("object", _MARK)]
        if self._trial_log.counts or marks != [_MARK]:
            self._trial_log = self._log.fresh()
            return None
        return root

    # -- elements

    def _take_members(
        self, element: Any, known_tags: Collection[str], path: str, field: str = ""
    ) -> tuple[dict[str, Any], bool]:
        """Return the children whose tag is in `known_tags`, by tag, and whether there was no fault.

        Repeated and misplaced elements are faults, and are reported; `field` is what messages put before
        their tags, such as ``object/``.
        """
        members: dict[str, Any] = {}
        is_sound = True
        for child in element:
            tag = child.tag
            if tag not in known_tags:
                if tag not in _PASSED or element.tag != "annotation":
                    is_sound &= self._count_unread(child, path, element.tag)
            # twice, where a score is one under either of its names
            elif tag in members or (tag in SCORES and not members.keys().isdisjoint(SCORES)):
                code = DUPLICATE_BOX_KEY if field.startswith("object") else DUPLICATE_KEY
                self._log.report(code, path, line=child.sourceline, field=field + tag, value=tag)
                is_sound = False
            else:
                members[tag] = child
        return members, is_sound

    def _read_text(self, element: Any, path: str, field: str) -> str | None:
        """Return the text of an element; None, after an issue, if it holds elements."""
        if not len(element):
            return element.text or ""
        tag = str(element[0].tag)
        if field.startswith("object"):
            line, expected = element.sourceline, f"text in <{element.tag}>"
            value = f"the element <{tag}>"
            self._log.report(WRONG_BOX_TYPE, path, line=line, field=field, expected=expected, value=value)
        else:  # a fault of the whole file
            about: dict[str, Any] = {"where": f"in <{element.tag}>", "expected": "the value alone"}
            self._log.report(
                STRANGE_ELEMENT, path, line=element[0].sourceline, field=field, value=tag, **about
            )
        return None

    def _count_unread(self, element: Any, path: str, parent: str) -> bool:
        """Count an element that is not read; False, after an issue, if it looks like one that should be.

        Such is an element of the format in another place, in capitals or with a namespace, or one with an
        object or a box in it. `parent` is the tag around it.
        """
        tag, expected = element.tag, ""
        local_name = tag.rsplit("}", 1)[-1].lower()
        if tag == "pose":
            if (element.text or "").strip(BLANKS).lower() not in _SAYS_NOTHING:
                self._builder.extras["pose"] += 1
            return True
        if local_name in _PARENTS and (tag != local_name or _PARENTS[local_name] != parent):
            expected = (
                f"<{local_name}> in <{_PARENTS[local_name]}>" if tag == local_name else f"<{local_name}>"
            )
        elif len(element) and parent != "object":
            inner = next((e for e in element.iter("object", "bndbox")), None)
            if inner is not None:
                parent, tag = tag, inner.tag
                expected = f"<{tag}> in <{_PARENTS[tag]}>"
        if expected:
            about: dict[str, Any] = {"where": f"in <{parent}>", "expected": expected}
            self._log.report(STRANGE_ELEMENT, path, line=element.sourceline, field=tag, value=tag, **about)
        elif parent == "object":
            self._builder.extras["part" if tag == "part" else "other elements of objects"] += 1
        return not expected

    # -- images

    def _find_known_head(self, form: tuple[bytes, ...], pieces: list[bytes]) -> _Head | None:
        """Return the head of a file from an earlier one whose text differs only in plain values, else None.

        `form` is the text of the file without objects and values, and `pieces` are the split text.
        """
        if form not in self._heads:
            return None
        value_indices, first_head = self._heads[form]
        name, width, height = (pieces[index].decode() for index in value_indices)
        # digits, and few enough that they are no wrong size
        are_plain = width.isdigit() and height.isdigit() and max(len(width), len(height)) < 8
        if not (are_plain and is_usual(name)):
            return None
        return first_head._replace(name=name, size=(int(width), int(height)))

    def _keep_head(self, form: tuple[bytes, ...], pieces: list[bytes], text: bytes, head: _Head) -> None:
        """Keep the head of a file for `_find_known_head`, if only plain values were read from its `text`.

        `form` is the text of the file without objects and values, and `pieces` are the split `text`, which is
        before the objects. Name, width and height must be in it once, as they were read.
        """
        tags, values = pieces[1::3], pieces[2::3]
        width, height = map(str, head.size)
        values_of_head = {b"filename": head.name, b"width": width, b"height": height}
        text_after = form[-1]
        # Not where comments and sections, which begin with <!, may hold these tags, or more values are read.
        if (
            len(self._heads) < MOST_FORMS
            and not any(mark in text + text_after for mark in (b"<!", b"<video", b"<frame", b"<pose"))
            and all(tag in tags and text.count(b"<" + tag) == 1 for tag in values_of_head)
            and all(values[tags.index(tag)].decode() == value for tag, value in values_of_head.items())
        ):
            # pieces: text, tag, value, text, tag, value, ...
            self._heads[form] = [3 * tags.index(tag) + 2 for tag in values_of_head], head

    def _read_head(self, root: Any, path: str) -> _Head | None:
        """Return the name and size of the image in a file; None, after an issue, if they cannot be used."""
        head, is_usable = self._take_members(root, _HEADER, path)
        filename, line = head.get("filename"), root.sourceline
        name: str | None = None
        if filename is not None:
            line = filename.sourceline
            text = self._read_text(filename, path, "filename")
            is_usable &= text is not None
            name = (text or "").strip(BLANKS)
        size, size_line = [0, 0], root.sourceline
        if "size" in head:
            size_line = head["size"].sourceline
            size_members, is_sound = self._take_members(head["size"], _SIZE, path, "size/")
            is_usable &= is_sound
            for i, tag in enumerate(("width", "height")):
                text = self._read_text(size_members[tag], path, f"size/{tag}") if tag in size_members else ""
                is_usable &= text is not None
                value = (text or "").strip(BLANKS)
                try:
                    size[i] = parse_pixels_or_unknown(value)
                except ValueError:
                    self._log.report(BAD_IMAGE_SIZE, path, line=size_line, field=f"size/{tag}", value=value)
                    is_usable = False
        if name:
            slashed = name.replace("\\", "/")
            is_usable &= accept_name(slashed, self._log, path, warn=False, line=line, field="filename")
        return _Head(name, (size[0], size[1]), line, size_line) if is_usable else None

    def _add_image(self, path: str, key: str, head: _Head) -> int | None:
        """Add the image of a file, named after it; return its row, or None, after an issue, if it cannot be.

        The extension is that of the name in the XML, else that of the image file. A name in the XML that
        differs from that of the file is reported.
        """
        gather, location, log, filename = self._gather, Location(path), self._log, head.name
        about: dict[str, Any] = {"line": head.line, "field": "filename", "where": "<filename>"}
        name = key
        if filename:
            # the name that stands in the file, and that of the file itself, without extension
            inner_name, key_name = filename.replace("\\", "/").rsplit("/", 1)[-1], key.rpartition("/")[2]
            if inner_name != key_name:
                name = key + inner_name[len(stem(inner_name)) :]
                if stem(inner_name) not in (key_name, stem(key_name)):
                    log.report(FILE_NAME_DIFFERS, path, **about, value=filename, name=name)
        picture = None
        if gather.pictures:
            picture_key = self._pictures[key]
            # the name in the XML, in the folder where this image file is looked for
            folder, slash, _ = picture_key.rpartition("/")
            picture = gather.find_picture(folder + slash + name.rpartition("/")[2], location, picture_key)
            if stem(name) == name:
                name = add_extension(name, picture)
        if not filename:
            log.report(FILE_NAME_MISSING, path, **about, name=name, source="the XML file")
        row = gather.image(
            name,
            location,
            size=head.size if min(head.size) > 0 else None,
            size_at=Location(path, line=head.size_line),
            picture=picture,
            split=self._splits.get(key, ""),
            file=self._builder.n_images,  # every image is a file
        )
        if row is not None:
            self._builder.file(path)
            self._masks.note_image(row, key)
        return row

    # -- objects

    def _add_alike(self, uniform: UniformObjects, path: str, image: int | None) -> None:
        """Keep the objects of a file with one layout until `_pack`, and add their classes.

        Without an image they are skipped and counted. Those of another layout are packed before.
        """
        names = uniform.names
        for name in dict.fromkeys(names):
            if name not in self._row_by_text:
                self._row_by_text[name] = self._find_category(name.decode(), path, uniform.line)
        if image is None:
            self._builder.skipped += len(names)
            return
        if self._n_alike >= _PACKED or (self._alike and self._alike[0].layout is not uniform.layout):
            self._pack()
        self._alike.append(uniform)
        self._alike_images.append(image)
        self._n_alike += len(names)

    def _take_alike_table(self) -> Floats:
        """Empty `_alike`, and return (n, 9) float64 of its objects, columns as in `_values`.

        These are image, class, four edges, score, flags and line. Poses, which are not read, are counted.
        """
        value_indices, files = self._alike[0].layout.value_indices, self._alike
        pieces = [piece for file in files for piece in file.pieces[:-1]]  # without the gap at the end

        def take_column(tag: str) -> list[bytes]:
            """Return the value of an element for each object; an object has its gap, then its values."""
            return pieces[value_indices[tag] :: len(value_indices) + 1] if tag in value_indices else []

        names = take_column("name")
        n_objects = [len(file.pieces) // (len(value_indices) + 1) for file in files]
        table = np.zeros((len(names), 9))
        table[:, 0] = np.repeat(self._alike_images, n_objects)
        table[:, 1] = [self._row_by_text[name] for name in names]
        for column_number, edge in enumerate(EDGES, 2):
            table[:, column_number] = list(map(float, take_column(edge)))
        table[:, 6] = list(map(float, take_column("score"))) if "score" in value_indices else np.nan
        for tag, flag in FLAGS.items():
            if b"1" in (marks := take_column(tag)):
                table[:, 7] += [(mark == b"1") * flag for mark in marks]
        # Files of 3 and 2 objects: arange 0 1 2 3 4, minus repeat([0, 3]) 0 0 0 3 3, is rank 0 1 2 0 1.
        rank = np.arange(len(names)) - np.repeat(np.cumsum(n_objects) - n_objects, n_objects)
        first_line = np.repeat([file.line for file in files], n_objects)
        table[:, 8] = first_line + rank * np.repeat([file.line_step for file in files], n_objects)
        for pose in take_column("pose"):
            if pose != b"Unspecified" and pose.strip().lower() not in (b"", b"unspecified"):
                self._builder.extras["pose"] += 1
        self._alike, self._alike_images, self._n_alike = [], [], 0
        return table

    def _read_object(self, element: Any, path: str, image: int | None) -> bool:
        """Add the box of one <object>; return False, after reporting its faults, if it has no valid box."""
        line = element.sourceline or 0
        known_tags = _OBJECT if element.find("robndbox") is None else _TURNED_OBJECT
        members, is_sound = self._take_members(element, known_tags, path, "object/")
        texts: dict[str, str] = {}
        edges: dict[str, Any] = {}
        for tag, member in members.items():
            if tag == "bndbox":
                edges, is_complete = self._take_members(member, EDGES, path, "object/bndbox/")
                is_sound &= is_complete
            elif tag not in ("robndbox", "angle"):
                text = self._read_text(member, path, f"object/{tag}")
                is_sound &= text is not None
                texts[tag] = text or ""
        if not is_sound:
            return False

        # The box: the edges, or those around an oriented box, whose corners are `turned`.
        for tag in ("name", "bndbox"):
            if tag not in members and not (tag == "bndbox" and "robndbox" in members):  # one box is enough
                field = f"object/{tag}"
                self._log.report(MISSING_BOX_KEY, path, line=line, field=field, value=tag)
                is_sound = False
        category = self._find_category(texts["name"], path, line) if "name" in texts else -1
        corners = [self._read_edge(edges.get(tag), tag, path, line) for tag in EDGES if "bndbox" in members]
        turned: Floats | None = None
        if "robndbox" in members:
            turned = self._read_turned_box(members["robndbox"], path, line)
            if turned is None:
                return False
            left_top, right_bottom = turned.min(axis=0), turned.max(axis=0)
            corners = corners or [*left_top.tolist(), *right_bottom.tolist()]
            if not self._builder.wants and ((turned == left_top) | (turned == right_bottom)).all():
                turned = None  # all its corners are those of its box

        score: float | None = np.nan
        for tag in SCORES:
            if value := texts.get(tag, "").strip(BLANKS):
                score = parse_number(value, self._log, path, line, f"object/{tag}")
        flags = self._parse_flags(texts, path, line)
        if flags is None or not is_sound or category < 0 or score is None or image is None or None in corners:
            return False

        field = "object/robndbox"
        if turned is None and (turn := self._find_turn(element)):
            left, top, right, bottom = map(float, corners)  # type: ignore[arg-type]
            o = self._origin  # with 1, pixels count from 1 and the last belongs to the box
            turned = o + rotate_box(left - o, top - o, right - left + o, bottom - top + o, turn)
            # `_pack` moves left and top by the origin, and not right and bottom
            corners = [*turned.min(axis=0).tolist(), *(turned.max(axis=0) - o).tolist()]
            field = "object/attributes"
        box_number = self._n_packed + len(self._values) // 9
        self._values += (image, category, *corners, score, flags, line)  # type: ignore[arg-type]
        if (id_ := parse_track_id(texts.get("trackid", "").strip(BLANKS))) is not None:
            self._track_of[box_number] = id_
        if turned is not None:
            self._corners_by_box[box_number] = turned
            self._first_oriented = self._first_oriented or (path, line, field)
        return True

    def _read_turned_box(self, element: Any, path: str, line: int) -> Floats | None:
        """Return the (4, 2) corners of a <robndbox>, which has them or a centre, a size and an angle.

        None, after an issue, if it is faulty.
        """
        tags = CORNERS if any(member.tag in CORNERS for member in element) else _TURNED
        members, is_complete = self._take_members(element, tags, path, "object/robndbox/")
        numbers = [self._read_edge(members.get(tag), tag, path, line, "robndbox") for tag in tags]
        if not is_complete or None in numbers:
            return None
        values = np.array(numbers, np.float64)
        return values.reshape(4, 2) if tags is CORNERS else rectangle_corners(values[None])[0]

    def _parse_flags(self, texts: Mapping[str, str], path: str, line: int) -> int | None:
        """Return the flags of an object, whose `texts` are by tag; None, after issues, if one is faulty."""
        flags, is_sound = 0, True
        for tag, flag in FLAGS.items():
            value = texts.get(tag, "0").strip(BLANKS)
            mark = _TRUTH.get(value.lower())
            if mark is None:
                expected, field = "0 or 1 (or no, yes, false, true)", f"object/{tag}"
                self._log.report(BAD_FLAG, path, line=line, field=field, value=value, expected=expected)
                is_sound = False
            flags |= flag if mark else 0
        return flags if is_sound else None

    def _find_turn(self, element: Any) -> float:
        """Return the radians by which CVAT's attributes of an object turn its box, 0 for none."""
        attributes = {
            attribute.findtext("name"): attribute.findtext("value")
            for attribute in element.iterfind("attributes/attribute")
        }
        if element.find("occluded") is not None:
            attributes["occluded"] = ""  # the sign of CVAT, which has it beside the attributes here
        return self._gather.parse_turn(attributes) if attributes else 0.0

    def _read_edge(self, edge: Any, tag: str, path: str, line: int, parent: str = "bndbox") -> float | None:
        """Parse a coordinate, the element `edge`; None, after an issue, if it is missing or no number."""
        field = f"object/{parent}/{tag}"
        if edge is None:
            self._log.report(MISSING_BOX_KEY, path, line=line, field=field, value=tag)
            return None
        text = self._read_text(edge, path, field)
        line = edge.sourceline
        return None if text is None else parse_number(text.strip(BLANKS), self._log, path, line, field)

    def _find_category(self, text: str, path: str, line: int) -> int:
        """Return the row of a class, which is added if new; -1, after an issue, for a bad name."""
        if text in self._row_by_text:
            return self._row_by_text[text]
        # A line break around the name is a printer's, a blank may be its own.
        name = text.strip(BLANKS) if "\n" in text or "\t" in text else text
        reason = refuse_class(name)
        if reason is not None:
            self._log.report(BAD_CLASS_NAME, path, line=line, field="object/name", value=name, reason=reason)
            return -1
        row = self._row_by_text[text] = self._builder.category(name)
        return row

    # -- all files

    def _pack(self) -> None:
        """Turn the boxes that wait in `_values` and `_alike`, which are emptied, into a chunk of columns."""
        # table: (n, 9) image, class, four edges, score, flags and line
        table = np.array(self._values, np.float64).reshape(-1, 9)
        self._values.clear()
        if self._alike:
            table = np.concatenate([table, self._take_alike_table()])
        n = len(table)
        xyxy = np.ascontiguousarray(table[:, 2:6])
        if self._origin:
            count_from_zero(xyxy)
        chunk: dict[str, Any] = {"xyxy": xyxy, "score": table[:, 6], "flags": table[:, 7].astype(np.uint16)}
        for key, column_number in (("image", 0), ("category", 1), ("line", 8)):
            chunk[key] = table[:, column_number].astype(np.int32)
        if self._track_of:
            chunk["source_track"] = [self._track_of.get(i) for i in range(self._n_packed, self._n_packed + n)]
        if (self._corners_by_box or self._masks) and self._builder.wants:
            chunk["shapes"] = self._make_shapes(chunk["image"])
        self._n_packed += n
        self._chunks.append(chunk)

    def _make_shapes(self, images: Ints) -> Shapes:
        """Return the masks and oriented boxes of the next n boxes; `images` (n,) are their image rows."""
        # Boxes are numbered through all chunks; `rows` are those of this chunk, from its first.
        first, n = self._n_packed, len(images)
        rows = np.array([i - first for i in self._corners_by_box if first <= i < first + n], int)
        corners = np.array([self._corners_by_box[first + row] for row in rows.tolist()]).reshape(-1, 2)
        turned = Shapes.of_outlines(corners - self._origin, np.full(len(rows), 4), ShapeKind.ORIENTED)
        return self._masks.make_shapes(images).replace_rows(rows, turned)

    def finish(self) -> None:
        """Pack what waits, and add all boxes, their tracks and frames to the builder.

        Then it is decided whether they are detections; those of the other kind are reported and left out.
        """
        builder = self._builder
        if self._values or self._alike:
            self._pack()
        if self._track_of:
            self._find_frames()
        for row, (video, frame) in self._frame_by_image.items():
            builder.set_frames(row, [builder.video(video)], [frame])
        if self._origin:
            self._exclude_last_pixels()
        for chunk in self._chunks:
            ids = chunk.pop("source_track", None)
            if ids is not None:
                chunk["track"] = builder.tracks_of_images(chunk["image"], ids)
            self._gather.add(**chunk, file=chunk["image"])  # every image is a file
        self._chunks.clear()
        n_scored, total = self._gather.count_boxes()
        if builder.kind is None and 0 < n_scored < total:
            kind_text = "detections" if decide_kind(builder, n_scored, total) else "ground truth"
            self._log.note(f"{n_scored} of {total} objects have a score, so they are taken as {kind_text}")
        if self._first_oriented is not None and not builder.wants:
            (path, line, field), n = self._first_oriented, len(self._corners_by_box)
            builder.extras["rotation"] = n
            about: dict[str, Any] = {"n": n, "total": total, "what": Trusted("rotated boxes")}
            self._log.report(OUTLINES, path, line=line, field=field, **about)
        self._gather.finish(field="object/confidence")

    def _find_frames(self) -> None:
        """Add the images in folders with tracks to `_frame_by_image`.

        As in ImageNet VID, the folder is the video, and a file name that is a number is the frame.
        """
        tracked_rows = {
            chunk["image"][i]
            for chunk in self._chunks
            for i, id_ in enumerate(chunk.get("source_track", ()))
            if id_ is not None
        }
        names = self._builder.image_names
        folders = {names[row].rpartition("/")[0] for row in tracked_rows} - {""}
        for row, name in enumerate(names):
            folder, _, file_name = name.rpartition("/")
            if folder in folders:
                self._frame_by_image.setdefault(row, (folder, parse_frame_number(stem(file_name))))

    def _exclude_last_pixels(self) -> None:
        """Move right and bottom of all boxes by -1, with a note, if they are counted as supervision does.

        Then one of them at least is exactly 1 beyond its image, none is further out, and no box begins
        before 0.
        """
        sizes = np.array(list(map(self._builder.image_size, range(self._builder.n_images))))
        min_edges, max_excess = [], []
        for chunk in self._chunks:
            size_of_box = sizes[chunk["image"]]  # (n, 2), 0 for an unknown size
            excess = (chunk["xyxy"][:, 2:] - size_of_box)[size_of_box > 0]
            min_edges.append(chunk["xyxy"][:, :2].min(initial=np.inf))
            max_excess.append(excess.max(initial=-np.inf))
        if max(max_excess, default=0) == 1 and min(min_edges, default=0) >= 0:
            for chunk in self._chunks:
                chunk["xyxy"][:, 2:] -= 1
            self._log.note(
                "origin=1: right and bottom edges reach one pixel beyond the images, so these too are moved "
                "by one pixel, as written by supervision"
            )
