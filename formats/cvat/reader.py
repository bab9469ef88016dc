"""Reading CVAT XML, element by element."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from odm.files import Source
from odm.formats._shared.codes import (
    BAD_FLAG,
    BAD_FRAME,
    BAD_IMAGE_SIZE,
    MISSING_BOX_KEY,
    NOT_A_NUMBER,
    NOT_FINITE,
    OUTLINES,
    UNNAMED_IMAGE,
    WRONG_COUNT,
)
from odm.formats._shared.gather import At, Corners, Gather, own_folder
from odm.formats._shared.pictures import parse_pixels
from odm.formats._shared.safe_xml import BLANKS, WRONG_ROOT, SafeXmlParser
from odm.formats._shared.splits import SplitOptions
from odm.formats._shared.text_tokens import NON_FINITE, NUMBER
from odm.formats.cvat.plain import Plain, plain
from odm.issues import Log, printable
from odm.names import BAD_CLASS_NAME, refuse_class
from odm.tables import Builder, Flag, Id

MARKS = {
    "difficult": Flag.DIFFICULT,
    "truncated": Flag.TRUNCATED,
    "is_crowd": Flag.CROWD,
    "crowd": Flag.CROWD,
}
_TRUE, _FALSE = frozenset(("1", "true", "yes")), frozenset(("", "0", "false", "no"))
_PLAIN = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?", re.ASCII)
"""Numbers that are surely finite, as nearly all are."""
_EDGES = ("xtl", "ytl", "xbr", "ybr")
_OTHER_SHAPES = frozenset(("polyline", "points", "cuboid", "skeleton", "tag"))
_SHAPES = _OTHER_SHAPES | {"box", "polygon", "ellipse", "mask"}
MOST_FRAMES = 100_000
"""Frames without objects that a video may claim to have before they are no longer listed."""


class _Bad(Exception):
    """The object cannot be a box, and that was reported."""


class Reader:
    """Reads the files of a source, one after another."""

    def __init__(self, source: Source, builder: Builder, log: Log, options: SplitOptions) -> None:
        self.source, self.builder, self.log = source, builder, log
        self.split, self.splits = options.split, set[str]()
        self.gather = Gather(source, builder, log, options, own_folder(source), size_field="width")
        self.parser = SafeXmlParser()
        self.outlines: list[tuple[str, int, str]] = []
        self.path, self.file = "", -1
        self.folder = ""
        """What the names of the frames of a file begin with, where there are several files."""
        self.parts = False
        """Whether the subset of an image becomes a part of its name."""

    def count(self, what: str, n: int = 1) -> None:
        """Count what is not read."""
        self.builder.extras[what] = self.builder.extras.get(what, 0) + n

    # -- one file

    def read_file(self, file: str, *, several: bool = False) -> None:
        """Read one file, which may be one of several."""
        self.folder = f"{file.rpartition('.')[0]}/" if several else ""
        data = self.source.read(file, self.log)
        if data is None:
            return
        self.path = self.source.full(file)
        if (found := plain(data)) is not None and self.read_plain(found):
            return
        root = self.parser.root(data, self.path, self.log)
        if root is None:
            return
        if root.tag != "annotations":
            self.log.report(
                WRONG_ROOT,
                self.path,
                line=root.sourceline or 0,
                value=root.tag,
                expected="annotations",
                title="CVAT for images 1.1",
            )
            return
        images = [(e.get("name", ""), e.get("subset") or "") for e in root.iterchildren("image")]
        self.begin(root, images)
        for element in root.iterchildren("image"):
            if not self.wants(element.get("subset") or ""):
                continue
            image = self.add_image(element, element.sourceline or 0)
            video = self.builder.video(element.get("video")) if element.get("video") else -1
            for shape in element:
                id_ = track_id(shape.get("track_id"))
                track = -1 if id_ is None else self.builder.track(video, id_)
                self.add_shape(shape, image, shape.get("label"), track)
        if (tracks := root.findall("track")) and self.wants(""):
            self.read_tracks(root, tracks)

    def begin(self, root: Any, images: Sequence[tuple[str, ...]]) -> None:
        """Take the classes of a file, and look at the names and subsets of its images."""
        self.file = self.builder.file(self.path)
        for label in root.iterfind("meta//labels/label"):
            name = (label.findtext("name") or "").strip("\t\r\n")
            if label.find("parent") is None and refuse_class(name) is None:
                self.builder.category(name)
        self.parts |= self.shares_names(images)
        stray = sum(child.tag in _SHAPES for child in root)
        if stray:
            self.count("shapes outside an image", stray)

    def read_plain(self, found: Plain) -> bool:
        """Add what a file holds; False, and nothing is done, if it needs a closer look."""
        aside = self.log.fresh()
        root = self.parser.root(found.head, self.path, aside)
        if root is None or aside.counts or root.tag != "annotations":
            return False
        marks = list(map(_plain_marks, found.attributes))
        bad = any(map(refuse_class, found.labels)) or None in marks
        if bad or any(root.find(tag) is not None for tag in ("image", "track")):
            return False
        self.begin(root, list(zip(*found.images[:2], strict=True)))
        rows = self.add_images(found)
        image = np.repeat([-1 if row is None else row for row, _ in rows], found.n_boxes)
        looked_at = np.repeat([wanted for _, wanted in rows], found.n_boxes)
        self.builder.skipped += int(np.count_nonzero(looked_at & (image < 0)))
        kept = image >= 0
        label = found.label[kept]
        known = np.zeros(len(found.labels), np.int64)
        for number in dict.fromkeys(label.tolist()):
            known[number] = self.builder.category(found.labels[number])
        table = np.array(marks, np.float64).reshape(-1, 3)[found.which]
        if unread := int(table[looked_at, 2].sum()):
            self.count("attributes", unread)
        flags = table[:, 1].astype(np.int64) | np.where(found.occluded, int(Flag.OCCLUDED), 0)
        self.gather.add(
            image=image[kept],
            category=known[label],
            xyxy=found.xyxy[kept],
            score=table[kept, 0],
            flags=flags[kept],
            file=self.file,
            line=found.box_lines[kept],
        )
        return True

    def add_images(self, found: Plain) -> list[tuple[int | None, bool]]:
        """Add the images of a file; the row of each, None without, and whether its subset is read."""
        names, subsets, widths, heights = found.images
        if self.split is None and not (self.parts and any(subsets)):
            self.splits.update(subsets)
            first = self.gather.usual_images(
                names,
                [At(self.path, line=line) for line in found.lines],
                *(list(map(_known_pixels, texts)) for texts in (widths, heights)),
                split=subsets,
                file=self.file,
                line=found.lines,
            )
            if first is not None:
                return [(row, True) for row in range(first, first + len(names))]
        rows: list[tuple[int | None, bool]] = []
        for line, *texts in zip(found.lines, *found.images, strict=True):
            element = dict(zip(("name", "subset", "width", "height"), texts, strict=True))
            wanted = self.wants(element["subset"])
            rows.append((self.add_image(element, line) if wanted else None, wanted))
        return rows

    def shares_names(self, images: Sequence[tuple[str, ...]]) -> bool:
        """Whether images of different subsets have one name, as in the export of a project."""
        subsets: dict[str, str] = {}
        if len({subset for _, subset, *_ in images}) < 2:
            return False
        for name, subset, *_ in images:
            if subsets.setdefault(name, subset) != subset:
                if not self.parts:
                    self.log.note(
                        f"{printable(self.path)}: images of different subsets have the same name, so the "
                        "subset was put before the names"
                    )
                return True
        return False

    def wants(self, split: str) -> bool:
        """Whether images of a split are read; it is then known that there is such a one."""
        self.splits.add(split)
        return self.split in (None, split)

    def add_image(self, element: Any, line: int) -> int | None:
        """Add the image of an element, or of its attributes; None, and an issue, if it cannot be."""
        name = element.get("name", "")
        if not name.strip():
            self.log.report(UNNAMED_IMAGE, self.path, line=line, field="name")
            return None
        sizes = []
        for field in ("width", "height"):
            text = (element.get(field) or "").strip(BLANKS)
            try:
                sizes.append(_pixels(text))
            except ValueError:
                self.log.report(BAD_IMAGE_SIZE, self.path, line=line, field=field, value=text)
                return None
        split = element.get("subset") or ""
        shown = f"{split}/{name}" if self.parts and split else name
        return self.image(shown, (sizes[0], sizes[1]), line, split, self.place(element))

    def place(self, element: Any) -> tuple[int, int]:
        """The video and frame number that an image states, -1 where it states none."""
        video = element.get("video")
        if not video:
            return -1, -1
        text = (element.get("frame") or "").strip(BLANKS)
        frame = int(text) if re.fullmatch("[0-9]{1,9}", text, re.ASCII) else -1
        return self.builder.video(video), frame

    def image(
        self,
        name: str,
        size: tuple[int, int],
        line: int,
        split: str = "",
        place: tuple[int, int] = (-1, -1),
    ) -> int | None:
        """Add an image; None, and an issue, if it cannot be."""
        at = At(self.path, line=line)
        return self.gather.image(
            name,
            at,
            field="name",
            size=size if min(size) else None,
            picture=self.gather.picture(name, at),
            split=split,
            file=self.file,
            line=line,
            video=place[0],
            frame=place[1],
        )

    def read_tracks(self, root: Any, tracks: list[Any]) -> None:
        """Read the boxes of all tracks; every frame is an image."""
        shapes: dict[int, list[tuple[Any, str | None, Id | None]]] = {}
        for track in tracks:
            id_ = track_id(track.get("id"))
            for shape in track:
                if shape.tag == "track":  # of one point of a skeleton, which counts as a whole
                    continue
                text = (shape.get("frame") or "").strip(BLANKS)
                if not re.fullmatch("[0-9]{1,9}", text, re.ASCII):
                    line = shape.sourceline or 0
                    self.log.report(
                        BAD_FRAME, self.path, line=line, field="frame", value=text, among=" in 0..999999999"
                    )
                    self.builder.skipped += 1
                    continue
                shapes.setdefault(int(text), []).append((shape, track.get("label"), id_))
        frames = set(shapes)
        meta = {key: root.findtext(f"meta//{key}") or "" for key in ("size", "start_frame", "frame_filter")}
        if re.fullmatch("[0-9]{1,9}", meta["size"], re.ASCII) and not meta["frame_filter"].strip(BLANKS):
            start = (
                int(meta["start_frame"]) if re.fullmatch("[0-9]{1,9}", meta["start_frame"], re.ASCII) else 0
            )
            if int(meta["size"]) <= MOST_FRAMES:
                frames.update(range(start, start + int(meta["size"])))
        size = (0, 0)
        if (given := root.find("meta//original_size")) is not None:
            try:
                size = (
                    parse_pixels(given.findtext("width") or ""),
                    parse_pixels(given.findtext("height") or ""),
                )
            except ValueError:
                value = f"{given.findtext('width')} x {given.findtext('height')}"
                line = given.sourceline or 0
                self.log.report(BAD_IMAGE_SIZE, self.path, line=line, field="original_size", value=value)
        length = int(meta["size"]) if re.fullmatch("[0-9]{1,9}", meta["size"], re.ASCII) else 0
        video = self.builder.video(self.video_name(root), length=length if len(frames) == length else 0)
        for frame in sorted(frames):
            found = shapes.get(frame, [])
            line = (found[0][0].sourceline or 0) if found else 0
            image = self.image(f"{self.folder}frame_{frame:06d}", size, line, place=(video, frame))
            for shape, label, id_ in found:
                if not self.flag(shape, "outside"):
                    track = -1 if id_ is None else self.builder.track(video, id_)
                    self.add_shape(shape, image, label, track)

    def video_name(self, root: Any) -> str:
        """The name of the video of a task."""
        names = (root.findtext(f"meta//{key}") for key in ("task/name", "source", "job/name"))
        given = next((name.strip(BLANKS) for name in names if name and name.strip(BLANKS)), "")
        if given and given not in self.builder.video_names:
            return given
        return self.path.replace("\\", "/").rpartition("/")[2].rpartition(".")[0]

    # -- one object

    def add_shape(self, shape: Any, image: int | None, label: str | None, track: int = -1) -> None:
        """Add the box of one object, or report what is wrong with it."""
        if shape.tag in _OTHER_SHAPES:
            self.count("shapes that are not boxes")
            return
        read = {"box": self.box, "polygon": self.polygon, "ellipse": self.ellipse, "mask": self.mask}.get(
            shape.tag
        )
        if read is None:
            if shape.tag != "attribute":
                self.count("unknown elements")
            return
        line = shape.sourceline or 0
        try:
            if label is None:
                self.log.report(MISSING_BOX_KEY, self.path, line=line, field="label", value="label")
                raise _Bad
            if (reason := refuse_class(label)) is not None:
                self.log.report(
                    BAD_CLASS_NAME, self.path, line=line, field="label", value=label, reason=reason
                )
                raise _Bad
            edges = read(shape)
            flags = Flag.OCCLUDED if self.flag(shape, "occluded") else Flag(0)
            score = math.nan
            for attribute in shape.iterchildren("attribute"):
                name, text = attribute.get("name"), (attribute.text or "").strip(BLANKS)
                if name in MARKS and text.lower() in _TRUE | _FALSE:
                    flags |= MARKS[name] if text.lower() in _TRUE else Flag(0)
                elif name == "score" and _is_number(text):
                    score = self.finite(text, line, "score")
                else:
                    self.count("attributes")
        except _Bad:
            self.builder.skipped += 1
            return
        if image is None:
            self.builder.skipped += 1
            return
        if shape.tag != "box" or self.turn(shape):
            self.outlines.append((self.path, line, shape.tag))
        at, category = At(self.path, line=line), self.builder.category(label)
        where: dict[str, Any] = {"file": self.file, "line": line, "track": track}
        self.gather.box(image, category, edges, at, **where, score=score, flags=int(flags))

    def flag(self, shape: Any, name: str) -> bool:
        """Whether a mark is set; what is neither 0 nor 1 is reported, and counts as not set."""
        text = shape.get(name, "0").strip(BLANKS).lower()
        if text not in _TRUE | _FALSE:
            line = shape.sourceline or 0
            self.log.report(BAD_FLAG, self.path, line=line, field=name, value=text, expected="0 or 1")
            if name == "occluded":
                raise _Bad
        return text in _TRUE

    def finite(self, text: str, line: int, field: str) -> float:
        """A finite number; `_Bad`, and an issue, if the text is none."""
        text = text.strip(BLANKS)
        if _is_number(text):
            value = float(text)
            if math.isfinite(value):
                return value
            self.log.report(NOT_FINITE, self.path, line=line, field=field, value=text)
        else:
            self.log.report(NOT_A_NUMBER, self.path, line=line, field=field, value=text)
        raise _Bad

    def numbers(self, shape: Any, *fields: str) -> list[float]:
        """The numbers of these attributes; all that is wrong with them is reported."""
        words = " ".join(shape.get(field, "") for field in fields).split(" ")
        if len(words) == len(fields) and all(map(_PLAIN.fullmatch, words)):
            return list(map(float, words))
        line, found = shape.sourceline or 0, []
        for field in fields:
            if (text := shape.get(field)) is None:
                self.log.report(MISSING_BOX_KEY, self.path, line=line, field=field, value=field)
                continue
            try:
                found.append(self.finite(text, line, field))
            except _Bad:
                continue
        if len(found) < len(fields):
            raise _Bad
        return found

    def turn(self, shape: Any) -> float:
        """The rotation of a shape in radians."""
        return math.radians(self.numbers(shape, "rotation")[0]) if "rotation" in shape.attrib else 0.0

    def box(self, shape: Any) -> Corners:
        """The edges of a box, or those around it if it is rotated."""
        left, top, right, bottom = self.numbers(shape, *_EDGES)
        turn = self.turn(shape)
        if not turn:
            return left, top, right, bottom
        sin, cos = abs(math.sin(turn)), abs(math.cos(turn))
        w, h = (right - left) / 2, (bottom - top) / 2
        return _around((left + right) / 2, (top + bottom) / 2, w * cos + h * sin, w * sin + h * cos)

    def ellipse(self, shape: Any) -> Corners:
        """The edges around an ellipse."""
        x, y, rx, ry = self.numbers(shape, "cx", "cy", "rx", "ry")
        turn = self.turn(shape)
        if not turn:
            return _around(x, y, rx, ry)
        sin, cos = math.sin(turn), math.cos(turn)
        return _around(x, y, math.hypot(rx * cos, ry * sin), math.hypot(rx * sin, ry * cos))

    def mask(self, shape: Any) -> Corners:
        """The edges of a mask."""
        left, top, width, height = self.numbers(shape, "left", "top", "width", "height")
        return left, top, left + width, top + height

    def polygon(self, shape: Any) -> Corners:
        """The edges around the points of a polygon."""
        line = shape.sourceline or 0
        pairs = [point.split(",") for point in (shape.get("points") or "").split(";") if point.strip(BLANKS)]
        odd = next((pair for pair in pairs if len(pair) != 2), None)
        if odd is not None or not pairs:
            found = f"{','.join(odd)!r}" if odd else "no points"
            self.log.report(
                WRONG_COUNT, self.path, line=line, field="points", expected="x,y;x,y;...", found=found
            )
            raise _Bad
        xs, ys = ([self.finite(pair[i], line, "points") for pair in pairs] for i in (0, 1))
        return min(xs), min(ys), max(xs), max(ys)

    # -- all files

    def finish(self) -> None:
        """Decide what the objects are, report those of the other kind, and fill the builder."""
        _, total = self.gather.counts()
        if self.outlines:
            path, line, tag = self.outlines[0]
            self.builder.extras["segmentation"] = len(self.outlines)
            same = all(o[2] == tag for o in self.outlines)
            what = {"box": "rotated boxes", "mask": "masks", "polygon": "polygons", "ellipse": "ellipses"}[
                tag
            ]
            self.log.report(
                OUTLINES,
                path,
                line=line,
                field=tag,
                n=len(self.outlines),
                total=total,
                what=what if same else "outlines",
            )
        self.gather.finish()


@functools.lru_cache(maxsize=1000)
def _pixels(text: str) -> int:
    """The width or height of an image, 0 where it is unknown. ValueError if it can be neither."""
    zero = not text or (text.isascii() and NUMBER.fullmatch(text.encode()) and not float(text))
    return 0 if zero else parse_pixels(text)


@functools.lru_cache(maxsize=1000)
def _known_pixels(text: str) -> int:
    """The same, 0 also if it can be neither."""
    try:
        return _pixels(text.strip(BLANKS))
    except ValueError:
        return 0


def _plain_marks(attributes: list[tuple[str, str]]) -> tuple[float, int, int] | None:
    """Score, flags and how many others of the attributes of a box are; None if the score is unusual."""
    score, flags, unread = math.nan, Flag(0), 0
    for name, given in attributes:
        text = given.strip(BLANKS)
        if name in MARKS and text.lower() in _TRUE | _FALSE:
            flags |= MARKS[name] if text.lower() in _TRUE else Flag(0)
        elif name == "score" and _is_number(text):
            score = float(text)
            if not math.isfinite(score):
                return None
        else:
            unread += 1
    return score, int(flags), unread


def track_id(text: str | None) -> Id | None:
    """The id of a track as a number where it is one; None where there is none."""
    if text is None or not text.strip(BLANKS) or text == "-1":
        return None
    plain = re.fullmatch("0|[1-9][0-9]{0,17}", text, re.ASCII)
    return int(text) if plain else text


def _is_number(text: str) -> bool:
    """Whether a text is a decimal number, or one of the words for what is none."""
    data = text.encode("utf-8", "replace")
    return NUMBER.fullmatch(data) is not None or NON_FINITE.fullmatch(data) is not None


def _around(x: float, y: float, w: float, h: float) -> Corners:
    return x - w, y - h, x + w, y + h
