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
  is interpolated: CVAT writes a box for every frame. In a folder of several files, the names begin with that
  of the file (``street/frame_000003``). Tracks inside a track are the points of a skeleton and are counted.
  The video is named after the task (``<task><name>``, or else ``<source>``, or else the file).
- ``occluded`` is read as the flag of that name, and so are the attributes ``difficult``, ``truncated`` and
  ``is_crowd`` (``crowd``), which CVAT's own exports use; ``score`` (``confidence``) makes an object a
  detection. Other attributes are counted but not kept.
- Polygons and ellipses (64 corners) are outlines, rotated boxes are oriented boxes, masks are masks, and the
  points of a skeleton are keypoints, named as in ``<labels>``. Where only boxes are needed,
  all are read as their bounding boxes, with a warning or a note. The box of a mask is the one
  around its pixels, because the rectangle in the file may be larger, as in Datumaro's. Polylines, points,
  cuboids and tags are not boxes and are counted.
- Outlines and masks of one class and ``group_id`` (not 0) are the parts of one object, and a box of that
  group around them is its box, with a note; ``-O groups=ignore`` reads them one by one.
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
where they are set. Keypoints are not written.

``-O layout=video`` writes the tracks of videos, as CVAT imports them into a task of a video: one file per
video, with a ``<track>`` for each track and ``outside="1"`` where it ends or pauses. A box without a track
becomes a track of one frame. The names of the frames' pictures are lost.
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from odm.files import Output, Source
from odm.formats._contract import LIKELY, SURE, Sniff, format_of, option
from odm.formats._shared.class_lists import UNWRITABLE
from odm.formats._shared.codes import NO_FILES
from odm.formats._shared.frames import number_tracks, require_frames
from odm.formats._shared.shapes.box_shapes import split_rotation
from odm.formats._shared.shapes.groups import GroupSplitOptions
from odm.formats._shared.shapes.pixel_masks import decode_mask, encode_rows
from odm.formats._shared.shapes.written_groups import number_groups
from odm.formats._shared.split_names import report_missing_split
from odm.formats._shared.text.numbers import to_decimals
from odm.formats._shared.text.safe_xml import XML_BEGINS, find_root
from odm.issues import Log, UsageError, plural
from odm.names import BAD_NAME, refuse_class
from odm.tables import Builder, Dataset, Flag, Ints, Longs, ShapeKind, Shapes
from odm.tracks import refuse_contradictory


@dataclasses.dataclass(frozen=True, kw_only=True)
class CvatOptions(GroupSplitOptions):
    """Options of CVAT XML."""

    layout: str = option(
        "images",
        "all images in one file (images), or a file per video with tracks (video)",
        choices=("images", "video"),
        side="write",
    )


def sniff(source: Source) -> Sniff | None:
    """Claim XML whose root is <annotations>."""
    files = source.with_suffix(".xml") if source.is_dir else source.files
    for file in files[:20]:
        text, root = find_root(source.head(file))
        if root == "annotations":
            certain = any(f"<{tag}" in text for tag in ("version>", "meta>", "image ", "track "))
            return Sniff(SURE if certain else LIKELY, f"{file or 'the file'} has the root <annotations>")
    return None


def read(source: Source, builder: Builder, log: Log, options: CvatOptions) -> None:
    """Read a file, or every XML file of a folder."""
    from odm.formats.cvat.reader import Reader

    files = source.with_suffix(".xml") if source.is_dir else source.files
    if not files:
        log.report(NO_FILES, source.path, expected="annotations.xml", n=len(source.files))
    reader = Reader(source, builder, log, options)
    for file in log.track(files, "reading"):
        reader.read_file(file, has_folder=len(files) > 1)
    if not report_missing_split(options.split, reader.splits, source, log):
        reader.finish()


_FLAG_NAMES = (("difficult", Flag.DIFFICULT), ("truncated", Flag.TRUNCATED), ("is_crowd", Flag.CROWD))
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(dataset: Dataset, target: Output, log: Log, options: CvatOptions) -> None:
    """Write one file of images, or with ``layout=video`` one of tracks per video; nothing after an issue."""
    if options.layout == "video":
        _write_videos(dataset, target, log)
        return
    name = "" if target.single else "annotations.xml"
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories.name
    n_errors = log.errors
    if name:
        target.plan([name], ["the annotations"], log)
    if not _check_names(dataset, log) or log.errors > n_errors:
        return
    # The attributes of each image and box that tell its video and frame, or its track.
    frame_texts, track_texts = _format_frames(dataset), []
    if boxes.track is not None:
        ids = [f" track_id={_quote(str(id_))}" for id_ in dataset.tracks.source_id.tolist()] + [""]
        track_texts = [ids[track] for track in boxes.track.tolist()]  # the last of `ids` is for -1
    labels = [_quote(text) for text in classes]
    lines = _format_head([f"      <size>{len(images)}</size>", "      <mode>annotation</mode>"], classes)

    # The boxes by image: those of image i end before position image_ends[i] of `order` and the lists below.
    order = np.argsort(boxes.image, kind="stable")
    image_ends = np.searchsorted(boxes.image[order], np.arange(len(images)), side="right").tolist()
    texts = to_decimals(boxes.xyxy[order].ravel())  # four for each box
    scores = to_decimals(boxes.score[order]) if dataset.kind == "det" else []
    category, flags = boxes.category[order].tolist(), boxes.flags[order].tolist()
    groups = number_groups(boxes, group_min=1)[order].tolist()  # 0 for none
    start = 0
    for i, (text, width, height, split) in enumerate(
        zip(images.name, images.width.tolist(), images.height.tolist(), images.split, strict=True)
    ):
        subset_text = f" subset={_quote(split)}" if split else ""
        frame_text = frame_texts[i] if frame_texts else ""
        size_text = f'width="{width}" height="{height}"'
        lines.append(f'  <image id="{i}" name={_quote(text)}{subset_text} {size_text}{frame_text}>')
        for k in range(start, image_ends[i]):
            row = int(order[k])
            # Several elements for an object of several outlines.
            tag, values_of_elements = "box", [_format_edges(texts[4 * k : 4 * k + 4])]
            if boxes.shapes is not None and boxes.shapes.kind[row]:  # 0 is no shape
                tag, values_of_elements = _format_shape(boxes.shapes, row, height)
            occluded = 1 if flags[k] & Flag.OCCLUDED else 0
            group = f' group_id="{groups[k]}"' if groups[k] > 0 else ""
            for xml_values in values_of_elements:
                lines.append(
                    f'    <{tag} label={labels[category[k]]} source="manual" occluded="{occluded}" '
                    f'{xml_values} z_order="0"{group}{track_texts[row] if track_texts else ""}>'
                )
                lines += _format_attributes(flags[k], scores[k] if scores else None)
                lines.append(f"    </{tag}>")
        start = image_ends[i]
        lines.append("  </image>")
    lines.append("</annotations>\n")
    target.write(name, "\n".join(lines).encode())


def _format_frames(dataset: Dataset) -> list[str]:
    """Return for each image the XML attributes that tell its video and frame; [] if no image has a video."""
    images = dataset.images
    if images.video is None:
        return []
    names = [f" video={_quote(video)}" for video in dataset.videos.name] + [""]  # the last is for -1
    frame_column = np.full(len(images), -1) if images.frame is None else images.frame
    pairs = zip(images.video.tolist(), frame_column.tolist(), strict=True)
    return [names[v] + (f' frame="{frame}"' if min(v, frame) >= 0 else "") for v, frame in pairs]


def _format_edges(texts: Sequence[str], rotation: str = "") -> str:
    """Write the edges of a box as XML attributes; `rotation` is one more attribute, or ""."""
    left, top, right, bottom = texts
    return f'xtl="{left}" ytl="{top}" xbr="{right}" ybr="{bottom}"{rotation}'


def _format_shape(shapes: Shapes, row: int, height: int) -> tuple[str, list[str]]:
    """Return the tag of a shape, and for each outline its attributes; `height` is that of the image."""
    if shapes.kind[row] == ShapeKind.MASK:
        left, top, pixels = decode_mask(shapes.counts(row), height)
        runs = ", ".join(map(str, encode_rows(pixels)))
        h, w = pixels.shape
        return "mask", [f'rle="{runs}" left="{left}" top="{top}" width="{w}" height="{h}"']
    outlines = shapes.polygons(row)
    if shapes.kind[row] == ShapeKind.ORIENTED:
        (x, y, width, box_height), degrees = split_rotation(outlines[0])
        *edges, turn = to_decimals(np.array([x, y, x + width, y + box_height, degrees]))
        return "box", [_format_edges(edges, f' rotation="{turn}"')]
    outline_attributes = []
    for outline in outlines:
        texts = to_decimals(outline.ravel())
        points = ";".join(f"{x},{y}" for x, y in zip(texts[::2], texts[1::2], strict=True))
        outline_attributes.append(f'points="{points}"')
    return "polygon", outline_attributes


def _format_attributes(flags: int, score: str | None) -> list[str]:
    """Return the lines of the elements <attribute> of a box: its flags that are set, and its score."""
    lines = [f'      <attribute name="{mark}">true</attribute>' for mark, bit in _FLAG_NAMES if flags & bit]
    return lines if score is None else [*lines, f'      <attribute name="score">{score}</attribute>']


def _check_names(dataset: Dataset, log: Log) -> bool:
    """Report names that XML cannot hold; return whether there are none."""
    n_errors = log.errors
    for text in dataset.categories.name:
        reason = refuse_class(text)
        if reason is None and _NOT_XML.search(text):
            reason = "XML does not allow one of its characters"
        if reason is not None:
            log.report(UNWRITABLE, "", value=text, reason=reason, way="rename the class")
    for i, text in enumerate(dataset.images.name):
        if _NOT_XML.search(text):
            path, line, pointer = dataset.image_place(i)
            reason = "XML does not allow one of its characters"
            log.report(BAD_NAME, path, line=line, pointer=pointer, value=text, reason=reason)
    other_names = (*dataset.videos.name, *map(str, dataset.tracks.source_id.tolist()))
    for text in other_names if log.errors == n_errors else ():
        if _NOT_XML.search(text):
            log.report(BAD_NAME, "", value=text, reason="XML cannot hold one of its characters")
    return log.errors == n_errors


def _format_head(task_lines: list[str], classes: tuple[str, ...]) -> list[str]:
    """Return the lines above the first image or track; `task_lines` describe the task."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<annotations>", "  <version>1.1</version>"]
    lines += ["  <meta>", "    <task>", *task_lines, "      <labels>"]
    for text in classes:
        lines += ["        <label>", f"          <name>{html.escape(text, quote=False)}</name>"]
        lines += ["          <type>any</type>", "        </label>"]
    return [*lines, "      </labels>", "    </task>", "  </meta>"]


def _quote(text: str) -> str:
    """Return a text as the value of an XML attribute, with its quotes."""
    return '"' + html.escape(text, quote=False).replace('"', "&quot;") + '"'


def _write_videos(dataset: Dataset, target: Output, log: Log) -> None:
    """Write a file for each video. UsageError if an image is no frame, or one file would hold several."""
    videos = dataset.videos
    video_of_image, frame = require_frames(dataset, "video")
    if target.single and len(videos) > 1:
        raise UsageError(f"layout=video: one file cannot hold {plural(len(videos), 'video')}; name a folder")
    names = [""] if target.single else [f"{name}.xml" for name in videos.name]
    n_errors = log.errors
    if not target.single:
        target.plan(names, [*(f"the video {name!r}" for name in videos.name)], log)
    refuse_contradictory(dataset, log)
    if not _check_names(dataset, log) or log.errors > n_errors:
        return
    log.note("layout=video: images are named after their frame, as in frame_000000")
    writer = _Writer(dataset, video_of_image, frame, _choose_track_ids(dataset, log))
    for row, name in enumerate(names):
        if row < len(videos):  # a dataset without videos, and so without images, has no file
            target.write(name, writer.format_video(row).encode())
    if writer.n_regrouped:
        n_boxes = plural(writer.n_regrouped, "box", "boxes")
        note = "of another group than the first of the track: written with that of the first"
        log.note(f"layout=video: {n_boxes} {note}")
    if writer.n_unlisted:
        n_frames = plural(writer.n_unlisted, "frame")
        note = "of the videos without an image: read back as images without objects"
        log.note(f"layout=video: {n_frames} {note}")


def _choose_track_ids(dataset: Dataset, log: Log) -> Longs:
    """Return (n,) int64, the track of each box that is written.

    A box without a track gets a new one, and so does each further class of a track.
    """
    boxes = dataset.boxes
    numbers = number_tracks(dataset, log)
    next_id = int(numbers.max(initial=-1)) + 1  # above those of all tracks
    # Boxes without a track get new ids, the others those of their tracks.
    track = np.full(len(boxes), -1) if boxes.track is None else boxes.track
    trackless = np.flatnonzero(track < 0)
    if len(trackless):
        n_boxes = plural(len(trackless), "box")
        log.note(f"layout=video: {n_boxes} without a track: written as tracks of one frame")
    ids = np.where(track >= 0, np.append(numbers, -1)[track], -1)  # `numbers` may be empty
    ids[trackless] = next_id + np.arange(len(trackless))
    next_id += len(trackless)
    # Each further class of a track gets a new id; only detections have any: objects have one class.
    pairs = np.stack([track, boxes.category], axis=1)[track >= 0]
    unique_pairs = np.unique(pairs, axis=0)
    # Sorted by track, then class: of (0, 2) (0, 5) (1, 2) only (0, 5) has the track of the pair before.
    further_classes = unique_pairs[1:][unique_pairs[1:, 0] == unique_pairs[:-1, 0]]
    for i, (track_row, category) in enumerate(further_classes.tolist()):
        ids[(track == track_row) & (boxes.category == category)] = next_id + i
    return ids


class _Writer:
    """Writes the videos of a dataset.

    `video` and `frame` (images,) are the video row and frame number of each image, and `ids` (n,) the tracks
    of the boxes, from `_choose_track_ids`.
    """

    def __init__(self, dataset: Dataset, video: Ints, frame: Ints, ids: Longs) -> None:
        """Sort the boxes by video, track and frame, and format their numbers."""
        boxes = dataset.boxes
        self.dataset, self.video_of_image, self.ids = dataset, video, ids
        self.n_unlisted = 0
        """Frames that the videos have besides the images."""
        self.n_regrouped = 0
        """Boxes of another group than the first of their track."""
        self.frame = frame.astype(np.int64)  # of each image, all lists below of each box
        self.labels = [_quote(name) for name in dataset.categories.name]
        self.edges = to_decimals(boxes.xyxy.ravel())
        self.scores = to_decimals(boxes.score) if dataset.kind == "det" else []
        self.flags = boxes.flags.tolist()
        self.category = boxes.category.tolist()
        self.groups = number_groups(boxes, group_min=1).tolist()  # 0 for none
        self.order = np.lexsort((self.frame[boxes.image], ids, video[boxes.image]))  # the last key goes first
        video_of_box = video[boxes.image][self.order]
        # rows video_starts[v] to video_starts[v + 1] of `order` are the boxes of video v
        self.video_starts = np.searchsorted(video_of_box, np.arange(len(dataset.videos) + 1))

    def format_video(self, row: int) -> str:
        """Return the XML of the video of this row, and add its frames without an image to `n_unlisted`."""
        dataset, images = self.dataset, self.dataset.images
        # All frames from the first with an image to the last, or as many as the video is known to have.
        image_rows = np.flatnonzero(self.video_of_image == row)
        frames = np.sort(self.frame[image_rows])
        start, stop = (int(frames[0]), int(frames[-1])) if len(frames) else (0, -1)
        length = max(int(dataset.videos.length[row]), stop + 1 - start)
        self.n_unlisted += length - len(image_rows)
        task_lines = [
            f"      <name>{_quote(dataset.videos.name[row])[1:-1]}</name>",  # escaped, without quotes
            f"      <size>{length}</size>",
            "      <mode>interpolation</mode>",
            f"      <start_frame>{start}</start_frame>",
            f"      <stop_frame>{start + length - 1}</stop_frame>",
        ]
        width = int(images.width[image_rows].max(initial=0))
        height = int(images.height[image_rows].max(initial=0))
        if min(width, height) > 0:
            size = f"<width>{width}</width><height>{height}</height>"
            task_lines.append(f"      <original_size>{size}</original_size>")
        lines = _format_head(task_lines, dataset.categories.name)
        boxes = self.order[self.video_starts[row] : self.video_starts[row + 1]]
        ids = self.ids[boxes]  # ascending, so each track is a run of equal ids
        for rows in np.split(boxes, np.flatnonzero(ids[1:] != ids[:-1]) + 1) if len(boxes) else ():
            lines += self._format_track(rows, frames)
        return "\n".join([*lines, "</annotations>\n"])

    def _format_track(self, rows: Longs, frames: Longs) -> list[str]:
        """Return the lines of a track: its boxes `rows`, by frame; `frames` are all frames of the video.

        All boxes get the group of the first; those of another group are added to `n_regrouped`.
        CVAT shows a box until the next one, so after the last one before a gap a box is marked ``outside``.
        """
        first_row = int(rows[0])
        label, group = self.labels[self.category[first_row]], self.groups[first_row]
        in_group = f' group_id="{group}"' if group > 0 else ""
        self.n_regrouped += sum(self.groups[row] != group for row in rows.tolist())
        lines = [f'  <track id="{self.ids[first_row]}" label={label} source="manual"{in_group}>']
        positions = np.searchsorted(frames, self.frame[self.dataset.boxes.image[rows]])
        # Whether the track has no box in the next frame, though there is one.
        gaps = np.append(positions[1:] != positions[:-1] + 1, positions[-1] + 1 < len(frames)).tolist()
        for row, position, is_before_gap in zip(rows.tolist(), positions.tolist(), gaps, strict=True):
            lines += self._format_box(row, int(frames[position]), "0")
            if is_before_gap:
                lines += self._format_box(row, int(frames[position + 1]), "1")
        return [*lines, "  </track>"]

    def _format_box(self, row: int, frame: int, outside: str) -> list[str]:
        """Return the lines of a box of a track in a frame."""
        left, top, right, bottom = self.edges[4 * row : 4 * row + 4]
        occluded = 1 if self.flags[row] & Flag.OCCLUDED else 0
        line = (
            f'    <box frame="{frame}" keyframe="1" outside="{outside}" occluded="{occluded}" xtl="{left}" '
            f'ytl="{top}" xbr="{right}" ybr="{bottom}" z_order="0">'
        )
        score = self.scores[row] if self.scores else None
        return [line, *_format_attributes(self.flags[row], score), "    </box>"]


def adapt(options: CvatOptions) -> dict[str, Any]:
    """Return what the option ``layout`` changes about the format: videos keep less."""
    if options.layout != "video":
        return {}
    return {"keeps": _KEEPS - {"extension", "split", *_SHAPES} | {"group"}, "shape_is_box": False}


_SHAPES = frozenset({"polygon", "parts", "mask", "oriented", "rectangle", "group"})
_KEEPS = frozenset(
    "size extension empty unused order score split difficult truncated occluded crowd video track".split()
).union(_SHAPES)


FORMAT = format_of(
    __name__,
    title="CVAT XML 1.1",
    expects=("annotations", "image", "box"),
    use="annotation tools",
    written_by="CVAT for images 1.1 and for video 1.1 (tasks and projects)",
    suffixes=(".xml",),
    begins=XML_BEGINS,
    single=True,
    options=CvatOptions,
    keeps=_KEEPS,
    shape_is_box=True,
)
