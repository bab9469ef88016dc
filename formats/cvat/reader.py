"""Reading CVAT XML.

The format takes more lines than others because a task of images and a video are two layouts of one file.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from odm.files import Source
from odm.formats._shared.codes import (
    BAD_FLAG,
    BAD_FRAME,
    BAD_IMAGE_SIZE,
    MISSING_BOX_KEY,
    OUTLINES,
    UNNAMED_IMAGE,
    WRONG_COUNT,
)
from odm.formats._shared.gather import Corners, Gather, Location, find_folders
from odm.formats._shared.json.values import find_bounds, find_ellipse_bounds
from odm.formats._shared.known_keys import declare_keys
from odm.formats._shared.pictures import parse_pixels, parse_pixels_or_unknown
from odm.formats._shared.shapes.box_shapes import Drawn, rotate_box
from odm.formats._shared.shapes.pixel_masks import MOST, BadMask, decode_rows, encode_in_image
from odm.formats._shared.split_names import SplitOptions
from odm.formats._shared.text.safe_xml import (
    BLANKS,
    PLAIN_NUMBERS,
    SafeXmlParser,
    parse_frame_number,
    parse_number,
    parse_track_id,
)
from odm.formats._shared.text.tokens import NON_FINITE_TEXT, NUMBER_TEXT
from odm.issues import Log, printable
from odm.names import BAD_CLASS_NAME, refuse_class
from odm.tables import Builder, Flag, Id

MARKS = {
    "difficult": int(Flag.DIFFICULT),
    "truncated": int(Flag.TRUNCATED),
    "is_crowd": int(Flag.CROWD),
    "crowd": int(Flag.CROWD),
}
_OCCLUDED = int(Flag.OCCLUDED)
_TRUE, _FALSE = frozenset(("1", "true", "yes")), frozenset(("", "0", "false", "no"))
_EDGES = ("xtl", "ytl", "xbr", "ybr")
_KEYS = declare_keys(
    "annotations version meta task job project tasks dumped id name size mode overlap bugtracker created "
    "updated subset subsets start_frame stop_frame frame_filter segments segment start stop url owner "
    "assignee username email labels label color type attributes attribute mutable input_type default_value "
    "values svg* parent z_order original_size width height source flipped image_quality image video frame "
    "track track_id task_id job_id label_id shape box polygon polyline points ellipse mask skeleton cuboid "
    "tag* occluded outside keyframe group_id rotation xtl ytl xbr ybr cx cy rx ry rle left top",
    *(f"{axis}{edge}{k}" for axis in "xy" for edge in ("tl", "bl", "tr", "br") for k in (1, 2)),
)
_OTHER_SHAPES = frozenset(("polyline", "points", "cuboid", "skeleton", "tag"))
_SHAPES = _OTHER_SHAPES | {"box", "polygon", "ellipse", "mask"}
MAX_FRAMES = 100_000
"""Frames without objects that a video may claim to have before they are no longer listed."""


class _BadShape(Exception):
    """Raised for a shape that cannot be read, after an issue."""


class Reader:
    """Reads the files of a source, one after another."""

    def __init__(self, source: Source, builder: Builder, log: Log, options: SplitOptions) -> None:
        """Start without files; `options` may name one split, which alone is read."""
        self.source, self.builder, self.log = source, builder, log
        self.split, self.splits = options.split, set[str]()
        self.gather = Gather(source, builder, log, options, find_folders(source), size_field="width")
        self.parser = SafeXmlParser("annotations", "CVAT for images 1.1")
        self.categories: dict[str, int] = {}
        """The category row of each class that an object has."""
        self.shapes_read_as_boxes: list[tuple[str, int, str]] = []
        """Path, line and tag of each shape that is read as its box."""
        self.point_names: dict[str, list[str]] = {}
        """The names of the keypoints of a skeleton, by its class."""
        self.size = 0, 0
        """Width and height of the image whose shapes are being read, 0 if unknown."""
        self.path, self.file = "", -1  # of the file that is read, with its number in the builder
        self.folder = ""
        """The beginning of the image names of frames, if there are several files; else empty."""
        self.adds_subset = False
        """Whether image names begin with the subset, because two images have the same name."""

    # -- one file

    def read_file(self, file: str, *, has_folder: bool = False) -> None:
        """Read the wanted split of one file; with `has_folder` its frames are in a folder of its name."""
        self.folder = f"{file.rpartition('.')[0]}/" if has_folder else ""
        data = self.source.read(file, self.log)
        if data is None:
            return
        self.path = self.source.full(file)
        root = self.parser.parse(data, self.path, self.log)
        if root is None:
            return
        self.file = self.builder.file(self.path)
        _KEYS.count_xml(root, self.builder.extras)
        self.declare_labels(root)
        if not self.adds_subset and _have_same_name_in_subsets(root):
            self.adds_subset = True  # as in the export of a project
            self.log.note(
                f"{printable(self.path)}: images of different subsets have the same name, so the subset was "
                "put before the names"
            )
        n_outside = sum(child.tag in _SHAPES for child in root)
        if n_outside:
            self.builder.extras["shapes outside an image"] += n_outside
        for element in root.iterchildren("image"):
            if self.wants(element.get("subset") or ""):
                self.read_image(element)
        if (tracks := root.findall("track")) and self.wants(""):  # frames have no subset
            self.read_tracks(root, tracks)

    def declare_labels(self, root: Any) -> None:
        """Add the classes that a file declares; labels with a parent name the points of its skeleton."""
        for label in root.iterfind("meta//labels/label"):
            name = (label.findtext("name") or "").strip("\t\r\n")
            parent = (label.findtext("parent") or "").strip("\t\r\n")
            if label.find("parent") is None and refuse_class(name) is None:
                self.builder.category(name)
            elif parent and name not in self.point_names.get(parent, ()):
                self.point_names.setdefault(parent, []).append(name)

    def read_image(self, element: Any) -> None:
        """Add the image of an element <image>, and its shapes; shapes of an unusable image are skipped."""
        video, image = -1, self.add_image(element, element.sourceline or 0)
        if element.get("video"):
            video = self.builder.video(element.get("video"))
        for shape in element:
            id_ = parse_track_id(shape.get("track_id"))
            track = -1 if id_ is None else self.builder.track(video, id_)
            self.add_shape(shape, image, shape.get("label"), track, shape.get("group_id"))

    def wants(self, split: str) -> bool:
        """Whether images of a split are read. The split is noted as one that exists."""
        self.splits.add(split)
        return self.split in (None, split)

    def add_image(self, element: Any, line: int) -> int | None:
        """Add the image of an element and return its row; None, after an issue, for a bad name or size."""
        name = element.get("name", "")
        if not name.strip():
            self.log.report(UNNAMED_IMAGE, self.path, line=line, field="name")
            return None
        sizes = []
        for field in ("width", "height"):
            text = (element.get(field) or "").strip(BLANKS)
            try:
                sizes.append(parse_pixels_or_unknown(text))
            except ValueError:
                self.log.report(BAD_IMAGE_SIZE, self.path, line=line, field=field, value=text)
                return None
        split = element.get("subset") or ""
        image_name = f"{split}/{name}" if self.adds_subset and split else name
        width, height = sizes
        video, frame = -1, -1
        if video_name := element.get("video"):
            video = self.builder.video(video_name)
            frame = parse_frame_number((element.get("frame") or "").strip(BLANKS))
        return self.add_named_image(image_name, (width, height), line, split, (video, frame))

    def add_named_image(
        self,
        name: str,
        size: tuple[int, int],
        line: int,
        split: str = "",
        video_and_frame: tuple[int, int] = (-1, -1),
    ) -> int | None:
        """Add an image and return its row; None, after an issue, if the name is not usable.

        `size` is width and height, 0 if unknown, and `video_and_frame` are -1 for no video.
        """
        location = Location(self.path, line=line)
        return self.gather.image(
            name,
            location,
            field="name",
            size=size if min(size) else None,
            picture=self.gather.find_picture(name, location),
            split=split,
            file=self.file,
            line=line,
            video=video_and_frame[0],
            frame=video_and_frame[1],
        )

    def read_tracks(self, root: Any, tracks: list[Any]) -> None:
        """Read the boxes of all tracks of a file as those of one video.

        Each frame with a shape is an image. Frames without one are too, unless the file lists only some of
        its frames (``frame_filter``) or claims more than `MAX_FRAMES`.
        """
        shapes_of_frame = self.sort_by_frame(tracks)
        frames = set(shapes_of_frame)
        meta = {key: root.findtext(f"meta//{key}") or "" for key in ("size", "start_frame", "frame_filter")}
        start, length = (max(0, parse_frame_number(meta[key])) for key in ("start_frame", "size"))
        if length <= MAX_FRAMES and not meta["frame_filter"].strip(BLANKS):
            frames.update(range(start, start + length))
        size = self.read_video_size(root)
        # The length is known if all frames are listed and none lies beyond it.
        video = self.builder.video(self.find_video_name(root), length=length if len(frames) == length else 0)
        for frame in sorted(frames):
            frame_shapes = shapes_of_frame.get(frame, [])
            line = next((shape.sourceline or 0 for shape, *_ in frame_shapes), 0)
            image_name = f"{self.folder}frame_{frame:06d}"
            image = self.add_named_image(image_name, size, line, video_and_frame=(video, frame))
            for shape, element, id_ in frame_shapes:
                if not self.parse_flag(shape, "outside"):
                    track = -1 if id_ is None else self.builder.track(video, id_)
                    self.add_shape(shape, image, element.get("label"), track, element.get("group_id"))

    def sort_by_frame(self, tracks: list[Any]) -> dict[int, list[tuple[Any, Any, Id | None]]]:
        """Return by frame the shapes in it, each with its track and the id of the track.

        A shape with a bad frame number is reported and skipped.
        """
        shapes_of_frame: dict[int, list[tuple[Any, Any, Id | None]]] = {}
        for track in tracks:
            id_ = parse_track_id(track.get("id"))
            for shape in track:
                if shape.tag == "track":  # a point of a skeleton, whose track is read as a whole
                    continue
                text = (shape.get("frame") or "").strip(BLANKS)
                if (frame := parse_frame_number(text)) < 0:
                    values: dict[str, Any] = {"value": text, "among": " in 0..999999999"}
                    self.log.report(BAD_FRAME, self.path, line=shape.sourceline or 0, field="frame", **values)
                    self.builder.skipped += 1
                    continue
                shapes_of_frame.setdefault(frame, []).append((shape, track, id_))
        return shapes_of_frame

    def read_video_size(self, root: Any) -> tuple[int, int]:
        """Return width and height of the frames; (0, 0) if none are stated or, after an issue, bad ones."""
        element = root.find("meta//original_size")
        if element is None:
            return 0, 0
        width, height = element.findtext("width"), element.findtext("height")
        try:
            return parse_pixels(width or ""), parse_pixels(height or "")
        except ValueError:
            value, line = f"{width} x {height}", element.sourceline or 0
            self.log.report(BAD_IMAGE_SIZE, self.path, line=line, field="original_size", value=value)
            return 0, 0

    def find_video_name(self, root: Any) -> str:
        """Return the name of the video in a file, or that of the file if there is none or it is taken."""
        names = (root.findtext(f"meta//{key}") for key in ("task/name", "source", "job/name"))
        name = next((name.strip(BLANKS) for name in names if name and name.strip(BLANKS)), "")
        if name and name not in self.builder.video_names:
            return name
        return self.path.replace("\\", "/").rpartition("/")[2].rpartition(".")[0]

    # -- one object

    def add_shape(
        self, shape: Any, image: int | None, label: str | None, track: int = -1, group: str | None = None
    ) -> None:
        """Add the box of one object to an image, and its class if new.

        If anything is wrong, that is reported, and the object counted in ``builder.skipped``, as are all
        objects if `image` is None; a tag that is not read is only counted in ``builder.extras``. `track` is
        the row of its track, -1 for none, and `group` the text of its group.
        """
        tag, wants_shapes = shape.tag, bool(self.builder.wants)
        read_shape = _READERS.get(tag)
        if read_shape is None or (tag == "skeleton" and not _has_points(shape)):
            if tag in _OTHER_SHAPES:
                self.builder.extras["shapes that are not boxes"] += 1
            return
        line = shape.sourceline or 0
        try:
            category = self.find_category(label, line)
            self.size = self.builder.image_size(image) if image is not None else (0, 0)
            edges, drawn_shape = read_shape(self, shape)
            flags = _OCCLUDED if self.parse_flag(shape, "occluded") else 0
            attribute_flags, score = self.read_attributes(shape, line)
        except _BadShape:
            self.builder.skipped += 1
            return
        if image is None:  # only now, so that the faults of its objects are reported too
            self.builder.skipped += 1
            return

        # What is lost where only the box is read, as of a shape that is not wanted or has no value.
        if tag == "skeleton":
            self.gather.around_points += 1  # its box is that around its keypoints
            self.builder.extras.update(() if wants_shapes else ("keypoints",))
        elif drawn_shape is not None and not (wants_shapes and drawn_shape.value is not None):
            self.shapes_read_as_boxes.append((self.path, line, tag))

        if category < 0:  # which is first met here
            assert label is not None
            category = self.categories[label] = self.builder.category(label)
        if tag == "skeleton":
            self.builder.describe_points(category, self.point_names[label or ""])
        location = Location(self.path, line=line)
        group_number = parse_frame_number((group or "0").strip(BLANKS))  # -1 if it is no such number
        if group_number < 0:
            self.builder.extras["group_id"] += 1
        is_turned = drawn_shape is not None and drawn_shape.kind == "oriented"
        self.gather.box(
            image,
            category,
            edges,
            location,
            file=self.file,
            line=line,
            track=track,
            group=group_number or -1,  # CVAT's 0 is no group
            # In a group, outlines are parts of an object, and a box is its box; None for neither.
            is_part=None if is_turned or tag == "skeleton" else tag != "box",
            score=score,
            flags=flags | attribute_flags,
            shape=drawn_shape if wants_shapes else None,
        )

    def read_attributes(self, shape: Any, line: int) -> tuple[int, float]:
        """Return the flags and the score, NaN for none, in the attributes of a shape; count the others.

        Raises `_BadShape`, after an issue, for an infinite score.
        """
        flags, score = 0, math.nan
        for attribute in shape.iterchildren("attribute") if len(shape) else ():
            name, text = attribute.get("name"), (attribute.text or "").strip(BLANKS)
            if name in MARKS and text.lower() in _TRUE | _FALSE:
                flags |= MARKS[name] if text.lower() in _TRUE else 0
            elif name == "score" and (NUMBER_TEXT.fullmatch(text) or NON_FINITE_TEXT.fullmatch(text)):
                score = self.parse_finite(text, line, "score")
            else:
                self.builder.extras["attributes"] += 1
        return flags, score

    def find_category(self, label: str | None, line: int) -> int:
        """Return the row of a class, -1 if it has none yet. Raises `_BadShape`, after an issue, if bad."""
        if label is None:
            self.log.report(MISSING_BOX_KEY, self.path, line=line, field="label", value="label")
            raise _BadShape
        row = self.categories.get(label, -1)
        if row < 0 and (reason := refuse_class(label)) is not None:
            self.log.report(BAD_CLASS_NAME, self.path, line=line, field="label", value=label, reason=reason)
            raise _BadShape
        return row

    def parse_flag(self, shape: Any, name: str) -> bool:
        """Whether the attribute `name` is 1 or true. Another value than 0, 1, true, ... is reported.

        It then counts as not set; a wrong ``occluded`` raises `_BadShape` instead, and the shape is skipped.
        """
        text = shape.get(name, "0")
        if text == "0":
            return False
        text = text.strip(BLANKS).lower()
        if text not in _TRUE | _FALSE:
            line = shape.sourceline or 0
            self.log.report(BAD_FLAG, self.path, line=line, field=name, value=text, expected="0 or 1")
            if name == "occluded":
                raise _BadShape
        return text in _TRUE

    def parse_finite(self, text: str, line: int, field: str) -> float:
        """Parse a finite number. Raises `_BadShape`, and reports an issue, for any other text."""
        value = parse_number(text.strip(BLANKS), self.log, self.path, line, field)
        if value is None:
            raise _BadShape
        return value

    def parse_numbers(self, shape: Any, *fields: str) -> list[float]:
        """Parse the attributes `fields`. Raises `_BadShape`, after issues, if one is missing or no number."""
        words = list(map(shape.get, fields))
        # All at once, joined by a byte that XML cannot have; below one by one, to report what is wrong.
        if None not in words and PLAIN_NUMBERS.fullmatch("\0".join(words)):
            return list(map(float, words))
        line, numbers = shape.sourceline or 0, []
        for field, text in zip(fields, words, strict=True):
            if text is None:
                self.log.report(MISSING_BOX_KEY, self.path, line=line, field=field, value=field)
                continue
            with contextlib.suppress(_BadShape):
                numbers.append(self.parse_finite(text, line, field))
        if len(numbers) < len(fields):
            raise _BadShape
        return numbers

    def parse_turn(self, shape: Any) -> float:
        """Return the rotation of a shape in radians."""
        return math.radians(self.parse_numbers(shape, "rotation")[0]) if "rotation" in shape.attrib else 0.0

    def read_box(self, shape: Any) -> tuple[Corners, Drawn | None]:
        """Return the edges of a box and None; of a rotated box the edges around it and its oriented box."""
        left, top, right, bottom = self.parse_numbers(shape, *_EDGES)
        turn = self.parse_turn(shape)
        if not turn:
            return (left, top, right, bottom), None
        sin, cos = abs(math.sin(turn)), abs(math.cos(turn))
        half_width, half_height = (right - left) / 2, (bottom - top) / 2
        x, y = (left + right) / 2, (top + bottom) / 2
        oriented_box = Drawn("oriented", rotate_box(left, top, right - left, bottom - top, turn))
        # half the width and height of the upright box around the turned one
        half_x, half_y = half_width * cos + half_height * sin, half_width * sin + half_height * cos
        return (x - half_x, y - half_y, x + half_x, y + half_y), oriented_box

    def read_ellipse(self, shape: Any) -> tuple[Corners, Drawn | None]:
        """Return the edges around an ellipse, and its outline, which is empty if shapes are not wanted."""
        x, y, rx, ry = self.parse_numbers(shape, "cx", "cy", "rx", "ry")
        turn = self.parse_turn(shape)
        outline = self.gather.make_ellipse(x, y, rx, ry, turn) if self.builder.wants else Drawn()
        return find_ellipse_bounds(x, y, rx, ry, turn), outline

    def read_mask(self, shape: Any) -> tuple[Corners, Drawn | None]:
        """Return the edges around the pixels of a mask, and the mask; an empty shape if it is not wanted.

        The rectangle in its attributes may be the whole image, and counts only if no pixel is set.
        """
        left, top, width, height = self.parse_numbers(shape, "left", "top", "width", "height")
        edges = left, top, left + width, top + height
        texts = (shape.get("rle") or "").replace(",", " ").split()
        try:
            if not all(map(str.isdecimal, texts)):
                raise BadMask("whole numbers")
            # A longer number is more than MOST in its first 12 digits, and `int` refuses very long ones.
            pixels = decode_rows([min(int(text[:12]), MOST) for text in texts], int(width), int(height))
            columns, rows = np.flatnonzero(pixels.any(0)), np.flatnonzero(pixels.any(1))  # with a set pixel
            if columns.size:
                x, y, x2, y2 = (int(n) for n in (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))
                edges = left + x, top + y, left + x2, top + y2
            if not self.builder.wants or min(self.size) < 1:  # a mask needs the size of its image
                return edges, Drawn()
            return edges, Drawn("mask", encode_in_image(pixels, int(left), int(top), *self.size))
        except BadMask as e:
            if not self.builder.wants:
                return edges, Drawn()
            line, shown = shape.sourceline or 0, f"{len(texts)} runs"
            self.log.report(WRONG_COUNT, self.path, line=line, field="rle", expected=str(e), found=shown)
            raise _BadShape from None

    def read_skeleton(self, shape: Any) -> tuple[Corners, Drawn | None]:
        """Return the edges around the labelled points of a skeleton, and all of its keypoints.

        The first skeleton names the points of its class, if the labels do not. Raises `_BadShape`, after an
        issue, without a labelled point or with a point of another name.
        """
        points: dict[str, tuple[float, float, int]] = {}
        for point in shape.iterchildren("points"):
            coordinates = (point.get("points") or "").split(",")
            line = point.sourceline or 0
            if len(coordinates) != 2:
                values: dict[str, Any] = {"expected": "x,y", "found": repr(",".join(coordinates))}
                self.log.report(WRONG_COUNT, self.path, line=line, field="points", **values)
                raise _BadShape
            x, y = (self.parse_finite(text, line, "points") for text in coordinates)
            label = point.get("label") or str(len(points))
            if self.parse_flag(point, "outside"):
                points[label] = 0.0, 0.0, 0
            else:
                points[label] = x, y, 1 if self.parse_flag(point, "occluded") else 2
        names = self.point_names.setdefault(shape.get("label") or "", list(points))
        labelled = [(x, y, visibility) for x, y, visibility in points.values() if visibility]
        if not labelled or not set(points) <= set(names):
            values = {"expected": f"points called {', '.join(names)}", "found": ", ".join(points)}
            self.log.report(WRONG_COUNT, self.path, line=shape.sourceline or 0, field="points", **values)
            raise _BadShape
        keypoints = Drawn(points=[points.get(name, (0.0, 0.0, 0)) for name in names])
        return find_bounds(labelled), keypoints

    def read_polygon(self, shape: Any) -> tuple[Corners, Drawn | None]:
        """Return the edges around the points of a polygon, and its outline."""
        line = shape.sourceline or 0
        pairs = [point.split(",") for point in (shape.get("points") or "").split(";") if point.strip(BLANKS)]
        wrong_pair = next((pair for pair in pairs if len(pair) != 2), None)
        if wrong_pair is not None or not pairs:
            shown = repr(",".join(wrong_pair)) if wrong_pair else "no points"
            values: dict[str, Any] = {"expected": "x,y;x,y;...", "found": shown}
            self.log.report(WRONG_COUNT, self.path, line=line, field="points", **values)
            raise _BadShape
        xs, ys = ([self.parse_finite(pair[i], line, "points") for pair in pairs] for i in (0, 1))
        outline = Drawn("polygons", [list(zip(xs, ys, strict=True))] if self.builder.wants else None)
        return (min(xs), min(ys), max(xs), max(ys)), outline

    # -- all files

    def finish(self) -> None:
        """Report shapes that were read as boxes, decide between objects and detections, fill the builder."""
        _, total = self.gather.count_boxes()
        if self.shapes_read_as_boxes:
            path, line, tag = self.shapes_read_as_boxes[0]
            n = self.builder.extras["segmentation"] = len(self.shapes_read_as_boxes)
            is_one_kind = {tag} == {other_tag for _, _, other_tag in self.shapes_read_as_boxes}
            noun = _OUTLINES[tag] if is_one_kind else "outlines"
            self.log.report(OUTLINES, path, line=line, field=tag, n=n, total=total, what=noun)
        self.gather.finish()


_OUTLINES = {"box": "rotated boxes", "mask": "masks", "polygon": "polygons", "ellipse": "ellipses"}


def _have_same_name_in_subsets(root: Any) -> bool:
    """Whether two images of different subsets have the same name."""
    subset_of_name: dict[str, str] = {}
    images = [(e.get("name", ""), e.get("subset") or "") for e in root.iterchildren("image")]
    return any(subset_of_name.setdefault(name, subset) != subset for name, subset in images)


def _has_points(skeleton: Any) -> bool:
    """Whether a skeleton has a point in the picture; in a track, its points are tracks of their own."""
    return any(point.get("outside", "0").strip(BLANKS) == "0" for point in skeleton.iterchildren("points"))


_READERS = {
    "box": Reader.read_box,
    "polygon": Reader.read_polygon,
    "ellipse": Reader.read_ellipse,
    "mask": Reader.read_mask,
    "skeleton": Reader.read_skeleton,
}
"""The method that reads a shape, by tag: it returns the edges around it, and the shape (None for a box)."""
