"""CVAT XML 1.1: all images of a task in one file.

Syntax: https://docs.cvat.ai/docs/other/xml_format. In a task of images::

    <annotations>
      <version>1.1</version>
      <meta><task><labels><label><name>person</name></label></labels></task></meta>
      <image id="0" name="street.jpg" width="640" height="480">
        <box label="person" occluded="0" xtl="10" ytl="20" xbr="110" ybr="220" z_order="0">
          <attribute name="difficult">false</attribute>
        </box>
      </image>
    </annotations>

and in a task of a video ("CVAT for video")::

      <track id="0" label="car">
        <box frame="3" outside="0" occluded="0" keyframe="1" xtl="1" ytl="2" xbr="30" ybr="40"></box>
      </track>

Reading
-------
- A file, or a folder with ``annotations.xml`` (or any XML files with this root) and perhaps ``images/``.
- ``xtl ytl xbr ybr`` are the edges in pixels, from 0 at the top left, unchanged.
- Tracks are read frame by frame: each ``<box>`` that is not ``outside`` is an object of the image
  ``frame_000003``, the name that CVAT itself uses for frames, with the size of ``<original_size>``. Nothing
  is interpolated: CVAT writes a box for every frame. Tracks inside a track are the points of a skeleton and
  are counted. The video is named after the task (``<task><name>``, or else ``<source>``, or else the file).
- ``occluded`` is read as the flag of that name, and so are the attributes ``difficult``, ``truncated`` and
  ``is_crowd`` (``crowd``), which CVAT's own exports use; ``score`` (``confidence``) makes an object a
  detection. Other attributes are counted but not kept.
- Polygons, ellipses, masks and rotated boxes are read as their bounding boxes, with a warning. Polylines,
  points, cuboids, skeletons and tags are not boxes and are counted.
- Classes are those of ``<labels>``, in that order, followed by those that occur only in objects. ``subset``
  of an image is its split, and ``--split`` selects one. If images of two subsets have the same name, as in
  the export of a project, names are prefixed with the subset.
- A missing size, or 0, is taken from ``--image-sizes``, ``--image-size``, the picture (``--images``, or the
  folder itself) or the other side of an evaluation; otherwise it stays unknown.
- Encodings and restrictions are those of Pascal VOC XML.

Writing
-------
One file, as for a task of images, with all images, including those without objects. Frames of videos say so
(``video="street" frame="3"``), and a box names its track (``track_id="7"``); only odm reads these attributes.
Whole numbers have no decimal point, others all their digits. Flags and scores are written as attributes, only
where they are set.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from odm.files import Output, Source
from odm.formats._contract import LIKELY, SURE, Format, Sniff
from odm.formats._shared.class_lists import UNWRITABLE
from odm.formats._shared.codes import (
    BAD_FLAG,
    BAD_FRAME,
    BAD_IMAGE_SIZE,
    MISSING_BOX_KEY,
    NO_FILES,
    NOT_A_NUMBER,
    NOT_FINITE,
    OUTLINES,
    UNNAMED_IMAGE,
    WRONG_COUNT,
)
from odm.formats._shared.gather import At, Corners, Gather, own_folder
from odm.formats._shared.number_text import decimals
from odm.formats._shared.pictures import parse_pixels
from odm.formats._shared.safe_xml import BLANKS, DOCTYPE, WRONG_ROOT, SafeXmlParser, after_prolog, narrow
from odm.formats._shared.splits import SplitOptions, miss_split
from odm.formats._shared.text_tokens import NON_FINITE, NUMBER
from odm.issues import Log, printable
from odm.names import BAD_CLASS_NAME, BAD_NAME, refuse_class
from odm.tables import Builder, Dataset, Flag, Id

MARKS = {
    "difficult": Flag.DIFFICULT,
    "truncated": Flag.TRUNCATED,
    "is_crowd": Flag.CROWD,
    "crowd": Flag.CROWD,
}
_WRITTEN = (("difficult", Flag.DIFFICULT), ("truncated", Flag.TRUNCATED), ("is_crowd", Flag.CROWD))
_TRUE, _FALSE = frozenset(("1", "true", "yes")), frozenset(("", "0", "false", "no"))
_PLAIN = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?", re.ASCII)
"""Numbers that are surely finite, as nearly all are."""
_EDGES = ("xtl", "ytl", "xbr", "ybr")
_OTHER_SHAPES = frozenset(("polyline", "points", "cuboid", "skeleton", "tag"))
_ROOT = re.compile(r"<([^\s>/!?<]+)")
_NOT_XML = "[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
"""Compiled when it is needed, which takes a while."""
MOST_FRAMES = 100_000
"""Frames without objects that a video may claim to have before they are no longer listed."""


# ----------------------------------------------------------------------------------------------- sniffing


def sniff(source: Source) -> Sniff | None:
    """Claim XML whose root is <annotations>."""
    files = source.with_suffix(".xml") if source.is_dir else source.files
    for file in files[:20]:
        text = narrow(source.head(file)).decode("latin-1")
        at = after_prolog(text)
        if (doctype := DOCTYPE.match(text, at)) is not None:
            at = after_prolog(text, doctype.end())
        root = _ROOT.match(text, at)
        if root is not None and root[1] == "annotations":
            certain = any(f"<{tag}" in text for tag in ("version>", "meta>", "image ", "track "))
            return Sniff(SURE if certain else LIKELY, f"{file or 'the file'} has the root <annotations>")
    return None


# ------------------------------------------------------------------------------------------------ reading


def read(source: Source, builder: Builder, log: Log, options: SplitOptions) -> None:
    """Read a file, or every XML file of a folder."""
    files = source.with_suffix(".xml") if source.is_dir else source.files
    if not files:
        log.report(NO_FILES, source.path, expected="annotations.xml", n=len(source.files))
    reader = _Reader(source, builder, log, options)
    for file in log.track(files, "reading"):
        reader.read_file(file)
    if not miss_split(options.split, reader.splits, source, log):
        reader.finish()


class _Bad(Exception):
    """The object cannot be a box, and that was reported."""


class _Reader:
    def __init__(self, source: Source, builder: Builder, log: Log, options: SplitOptions) -> None:
        self.source, self.builder, self.log = source, builder, log
        self.split, self.splits = options.split, set[str]()
        self.gather = Gather(source, builder, log, options, own_folder(source), size_field="width")
        self.door = SafeXmlParser()
        self.outlines: list[tuple[str, int, str]] = []
        self.path, self.file = "", -1
        self.parts = False
        """Whether the subset of an image becomes a part of its name."""

    def count(self, what: str) -> None:
        self.builder.extras[what] = self.builder.extras.get(what, 0) + 1

    # -- one file

    def read_file(self, file: str) -> None:
        data = self.source.read(file, self.log)
        if data is None:
            return
        self.path = self.source.full(file)
        root = self.door.root(data, self.path, self.log)
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
        self.file = self.builder.file(self.path)
        for label in root.iterfind("meta//labels/label"):
            name = (label.findtext("name") or "").strip("\t\r\n")
            if label.find("parent") is None and refuse_class(name) is None:
                self.builder.category(name)
        self.parts |= self.shares_names(root)
        for element in root.iterchildren("image"):
            if not self.wants(element.get("subset") or ""):
                continue
            image = self.add_image(element)
            video = self.builder.video(element.get("video")) if element.get("video") else -1
            for shape in element:
                id_ = track_id(shape.get("track_id"))
                track = -1 if id_ is None else self.builder.track(video, id_)
                self.add_shape(shape, image, shape.get("label"), track)
        if (tracks := root.findall("track")) and self.wants(""):
            self.read_tracks(root, tracks)

    def shares_names(self, root: Any) -> bool:
        """Whether images of different subsets have one name, as in the export of a project."""
        subsets: dict[str, str] = {}
        for element in root.iterchildren("image"):
            subset = element.get("subset") or ""
            if subsets.setdefault(element.get("name", ""), subset) != subset:
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

    def add_image(self, element: Any) -> int | None:
        name, line = element.get("name", ""), element.sourceline or 0
        if not name.strip():
            self.log.report(UNNAMED_IMAGE, self.path, line=line, field="name")
            return None
        sizes = []
        for field in ("width", "height"):
            text = (element.get(field) or "").strip(BLANKS)
            try:
                zero = not text or (text.isascii() and NUMBER.fullmatch(text.encode()) and not float(text))
                sizes.append(0 if zero else parse_pixels(text))
            except ValueError:
                self.log.report(BAD_IMAGE_SIZE, self.path, line=line, field=field, value=text)
                return None
        split = element.get("subset") or ""
        shown = f"{split}/{name}" if self.parts and split else name
        return self.image(shown, (sizes[0], sizes[1]), line, split, self.place(element))

    def place(self, element: Any) -> tuple[int, int]:
        """Which frame of which video an image says to be, -1 for neither."""
        video, text = element.get("video"), (element.get("frame") or "").strip(BLANKS)
        frame = int(text) if re.fullmatch("[0-9]{1,9}", text, re.ASCII) else -1
        return (self.builder.video(video), frame) if video else (-1, -1)

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
                        BAD_FRAME, self.path, line=line, field="frame", value=text, among=", from 0"
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
            image = self.image(f"frame_{frame:06d}", size, line, place=(video, frame))
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
        left, top, right, bottom = self.numbers(shape, *_EDGES)
        turn = self.turn(shape)
        if not turn:
            return left, top, right, bottom
        sin, cos = abs(math.sin(turn)), abs(math.cos(turn))
        w, h = (right - left) / 2, (bottom - top) / 2
        return _around((left + right) / 2, (top + bottom) / 2, w * cos + h * sin, w * sin + h * cos)

    def ellipse(self, shape: Any) -> Corners:
        x, y, rx, ry = self.numbers(shape, "cx", "cy", "rx", "ry")
        turn = self.turn(shape)
        if not turn:
            return _around(x, y, rx, ry)
        sin, cos = math.sin(turn), math.cos(turn)
        return _around(x, y, math.hypot(rx * cos, ry * sin), math.hypot(rx * sin, ry * cos))

    def mask(self, shape: Any) -> Corners:
        left, top, width, height = self.numbers(shape, "left", "top", "width", "height")
        return left, top, left + width, top + height

    def polygon(self, shape: Any) -> Corners:
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


# ------------------------------------------------------------------------------------------------ writing


def write(dataset: Dataset, target: Output, log: Log, options: SplitOptions) -> None:
    """Write one file."""
    del options
    name = "" if target.single else "annotations.xml"
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories.name
    errors = log.errors
    if name:
        target.plan([name], ["the annotations"], log)
    for check in (_check_names, _check_video_names):
        check(dataset, log)
        if log.errors > errors:
            return
    frames, tracks = _frame_marks(dataset), _track_marks(dataset)
    labels = [_quote(text) for text in classes]
    lines = _head(len(images), classes)
    order = np.argsort(boxes.image, kind="stable")
    ends = np.searchsorted(boxes.image[order], np.arange(len(images)), side="right").tolist()
    texts = decimals(boxes.xyxy[order].ravel())
    scores = decimals(boxes.score[order]) if dataset.kind == "det" else []
    category, flags = boxes.category[order].tolist(), boxes.flags[order].tolist()
    at = 0
    for i, (text, width, height, split) in enumerate(
        zip(images.name, images.width.tolist(), images.height.tolist(), images.split, strict=True)
    ):
        said = (f" subset={_quote(split)}" if split else "", frames[i] if frames else "")
        lines.append(
            f'  <image id="{i}" name={_quote(text)}{said[0]} width="{width}" height="{height}"{said[1]}>'
        )
        for row in range(at, ends[i]):
            left, top, right, bottom = texts[4 * row : 4 * row + 4]
            occluded = 1 if flags[row] & Flag.OCCLUDED else 0
            lines.append(
                f'    <box label={labels[category[row]]} source="manual" occluded="{occluded}" xtl="{left}" '
                f'ytl="{top}" xbr="{right}" ybr="{bottom}" z_order="0"{tracks[order[row]] if tracks else ""}>'
            )
            for mark, bit in _WRITTEN:
                if flags[row] & bit:
                    lines.append(f'      <attribute name="{mark}">true</attribute>')
            if scores:
                lines.append(f'      <attribute name="score">{scores[row]}</attribute>')
            lines.append("    </box>")
        at = ends[i]
        lines.append("  </image>")
    lines.append("</annotations>\n")
    target.write(name, "\n".join(lines).encode())


def _check_names(dataset: Dataset, log: Log) -> None:
    for text in dataset.categories.name:
        reason = refuse_class(text) or (
            "XML does not allow one of its characters" if re.search(_NOT_XML, text) else None
        )
        if reason is not None:
            log.report(UNWRITABLE, "", value=text, reason=reason, way="rename the class")
    for i, text in enumerate(dataset.images.name):
        if re.search(_NOT_XML, text):
            path, line, pointer = dataset.image_place(i)
            reason = "XML does not allow one of its characters"
            log.report(BAD_NAME, path, line=line, pointer=pointer, value=text, reason=reason)


def _check_video_names(dataset: Dataset, log: Log) -> None:
    for text in (*dataset.videos.name, *map(str, dataset.tracks.source_id.tolist())):
        if re.search(_NOT_XML, text):
            log.report(BAD_NAME, "", value=text, reason="XML cannot hold one of its characters")


def _head(n_images: int, classes: tuple[str, ...]) -> list[str]:
    """The lines above the first image."""
    import html

    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<annotations>", "  <version>1.1</version>"]
    lines += ["  <meta>", "    <task>", f"      <size>{n_images}</size>", "      <mode>annotation</mode>"]
    lines.append("      <labels>")
    for text in classes:
        lines += ["        <label>", f"          <name>{html.escape(text, quote=False)}</name>"]
        lines += ["          <type>any</type>", "        </label>"]
    return [*lines, "      </labels>", "    </task>", "  </meta>"]


def _frame_marks(dataset: Dataset) -> list[str]:
    """What each image says of its video, with a blank before it; nothing at all where there are none."""
    images = dataset.images
    if images.video is None:
        return []
    names = [f" video={_quote(name)}" for name in (*dataset.videos.name,)] + [""]
    frames = np.full(len(images), -1) if images.frame is None else images.frame
    pairs = zip(images.video.tolist(), frames.tolist(), strict=True)
    return [names[video] + (f' frame="{frame}"' if min(video, frame) >= 0 else "") for video, frame in pairs]


def _track_marks(dataset: Dataset) -> list[str]:
    """What each box says of its track; nothing at all where there are none."""
    if dataset.boxes.track is None:
        return []
    ids = [f" track_id={_quote(str(id_))}" for id_ in dataset.tracks.source_id.tolist()] + [""]
    return [ids[track] for track in dataset.boxes.track.tolist()]


def _quote(text: str) -> str:
    import html

    return '"' + html.escape(text, quote=False).replace('"', "&quot;") + '"'


FORMAT = Format(
    name="cvat",
    title="CVAT XML 1.1",
    use="annotation tools",
    written_by="CVAT for images 1.1 and for video 1.1 (tasks and projects)",
    doc=__doc__ or "",
    suffixes=(".xml",),
    single=True,
    sniff=sniff,
    read=read,
    write=write,
    options=SplitOptions,
    keeps=frozenset(
        "size extension empty unused order score split difficult truncated occluded crowd video track".split()
    ),
)
