"""Writing CVAT XML: the images of a task in one file, or the tracks of each video."""

from __future__ import annotations

import html
import re

import numpy as np

from odm.files import Output
from odm.formats._shared.class_lists import UNWRITABLE
from odm.formats._shared.frames import require_frames, track_numbers
from odm.formats._shared.number_text import decimals
from odm.issues import Log, UsageError, plural
from odm.names import BAD_NAME, refuse_class
from odm.tables import Dataset, Flag, Ints, Longs
from odm.tracks import report_tubes

_WRITTEN = (("difficult", Flag.DIFFICULT), ("truncated", Flag.TRUNCATED), ("is_crowd", Flag.CROWD))
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_file(dataset: Dataset, target: Output, log: Log) -> None:
    """Write one file."""
    name = "" if target.single else "annotations.xml"
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories.name
    errors = log.errors
    if name:
        target.plan([name], ["the annotations"], log)
    if not _allowed(dataset, log) or log.errors > errors:
        return
    frames, tracks = _frame_marks(dataset), []
    if boxes.track is not None:
        ids = [f" track_id={_quoted(str(id_))}" for id_ in dataset.tracks.source_id.tolist()] + [""]
        tracks = [ids[track] for track in boxes.track.tolist()]
    labels = [_quoted(text) for text in classes]
    lines = _head([f"      <size>{len(images)}</size>", "      <mode>annotation</mode>"], classes)
    order = np.argsort(boxes.image, kind="stable")
    ends = np.searchsorted(boxes.image[order], np.arange(len(images)), side="right").tolist()
    texts = decimals(boxes.xyxy[order].ravel())
    scores = decimals(boxes.score[order]) if dataset.kind == "det" else []
    category, flags = boxes.category[order].tolist(), boxes.flags[order].tolist()
    at = 0
    for i, (text, width, height, split) in enumerate(
        zip(images.name, images.width.tolist(), images.height.tolist(), images.split, strict=True)
    ):
        said = (f" subset={_quoted(split)}" if split else "", frames[i] if frames else "")
        lines.append(
            f'  <image id="{i}" name={_quoted(text)}{said[0]} width="{width}" height="{height}"{said[1]}>'
        )
        for row in range(at, ends[i]):
            left, top, right, bottom = texts[4 * row : 4 * row + 4]
            occluded = 1 if flags[row] & Flag.OCCLUDED else 0
            lines.append(
                f'    <box label={labels[category[row]]} source="manual" occluded="{occluded}" xtl="{left}" '
                f'ytl="{top}" xbr="{right}" ybr="{bottom}" z_order="0"{tracks[order[row]] if tracks else ""}>'
            )
            lines += _attributes(flags[row], scores[row] if scores else None)
            lines.append("    </box>")
        at = ends[i]
        lines.append("  </image>")
    lines.append("</annotations>\n")
    target.write(name, "\n".join(lines).encode())


def _attributes(flags: int, score: str | None) -> list[str]:
    lines = [f'      <attribute name="{mark}">true</attribute>' for mark, bit in _WRITTEN if flags & bit]
    return lines if score is None else [*lines, f'      <attribute name="score">{score}</attribute>']


def _allowed(dataset: Dataset, log: Log) -> bool:
    """Whether XML can hold all names; those that it cannot are reported."""
    errors = log.errors
    for text in dataset.categories.name:
        reason = refuse_class(text) or (
            "XML does not allow one of its characters" if _NOT_XML.search(text) else None
        )
        if reason is not None:
            log.report(UNWRITABLE, "", value=text, reason=reason, way="rename the class")
    for i, text in enumerate(dataset.images.name):
        if _NOT_XML.search(text):
            path, line, pointer = dataset.image_place(i)
            reason = "XML does not allow one of its characters"
            log.report(BAD_NAME, path, line=line, pointer=pointer, value=text, reason=reason)
    others = (*dataset.videos.name, *map(str, dataset.tracks.source_id.tolist()))
    for text in others if log.errors == errors else ():
        if _NOT_XML.search(text):
            log.report(BAD_NAME, "", value=text, reason="XML cannot hold one of its characters")
    return log.errors == errors


def _head(about: list[str], classes: tuple[str, ...]) -> list[str]:
    """The lines above the first image or track; `about` are those on the task."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<annotations>", "  <version>1.1</version>"]
    lines += ["  <meta>", "    <task>", *about, "      <labels>"]
    for text in classes:
        lines += ["        <label>", f"          <name>{html.escape(text, quote=False)}</name>"]
        lines += ["          <type>any</type>", "        </label>"]
    return [*lines, "      </labels>", "    </task>", "  </meta>"]


def _frame_marks(dataset: Dataset) -> list[str]:
    """The video attributes of each image, with a leading blank; empty without videos."""
    images = dataset.images
    if images.video is None:
        return []
    names = [f" video={_quoted(name)}" for name in (*dataset.videos.name,)] + [""]
    frames = np.full(len(images), -1) if images.frame is None else images.frame
    pairs = zip(images.video.tolist(), frames.tolist(), strict=True)
    return [names[video] + (f' frame="{frame}"' if min(video, frame) >= 0 else "") for video, frame in pairs]


def _quoted(text: str) -> str:
    return '"' + html.escape(text, quote=False).replace('"', "&quot;") + '"'


def write_videos(dataset: Dataset, target: Output, log: Log) -> None:
    """Write a file for each video. UsageError if an image is no frame, or one file is to hold several."""
    videos = dataset.videos
    of_image, frame = require_frames(dataset, "video")
    if target.single and len(videos) > 1:
        raise UsageError(f"layout=video: one file cannot hold {plural(len(videos), 'video')}; name a folder")
    names = [""] if target.single else [f"{name}.xml" for name in videos.name]
    errors = log.errors
    if not target.single:
        target.plan(names, [*(f"the video {name!r}" for name in videos.name)], log)
    report_tubes(dataset, log)
    if not _allowed(dataset, log) or log.errors > errors:
        return
    log.note("layout=video: images are named after their frame, as in frame_000000")
    writer = _Writer(dataset, of_image, frame, _ids(dataset, log))
    for row, name in enumerate(names):
        if row < len(videos):
            target.write(name, writer.video(row).encode())
    if writer.unlisted:
        log.note(
            f"layout=video: {plural(writer.unlisted, 'frame')} of the videos without an image: read back as "
            "images without objects"
        )


def _ids(dataset: Dataset, log: Log) -> Longs:
    """(n,) the written track of each box: one without a track, and each class of a track, has its own."""
    boxes = dataset.boxes
    numbers = track_numbers(dataset, log)
    free = int(numbers.max(initial=-1)) + 1
    track = np.full(len(boxes), -1) if boxes.track is None else boxes.track
    alone = np.flatnonzero(track < 0)
    if len(alone):
        log.note(f"layout=video: {plural(len(alone), 'box')} without a track: written as tracks of one frame")
    ids = np.where(track >= 0, np.append(numbers, -1)[track], -1)
    ids[alone] = free + np.arange(len(alone))
    free += len(alone)
    pairs = np.stack([track, boxes.category], axis=1)[track >= 0]
    found = np.unique(pairs, axis=0)
    again = found[1:][found[1:, 0] == found[:-1, 0]]
    for k, (one, category) in enumerate(again.tolist()):  # only of detections: objects have one class
        ids[(track == one) & (boxes.category == category)] = free + k
    return ids


class _Writer:
    """Writes the videos of a dataset: (images,) `video` and `frame`, (n,) the tracks `ids` of its boxes."""

    def __init__(self, dataset: Dataset, video: Ints, frame: Ints, ids: Longs) -> None:
        boxes = dataset.boxes
        self.dataset, self.of_image, self.ids = dataset, video, ids
        self.unlisted = 0
        """Frames that the videos have besides the images."""
        self.frame = frame.astype(np.int64)
        self.labels = [_quoted(name) for name in dataset.categories.name]
        self.edges = decimals(boxes.xyxy.ravel())
        self.scores = decimals(boxes.score) if dataset.kind == "det" else []
        self.flags = boxes.flags.tolist()
        self.category = boxes.category.tolist()
        self.order = np.lexsort((self.frame[boxes.image], ids, video[boxes.image]))
        of_box = video[boxes.image][self.order]
        self.ends = np.searchsorted(of_box, np.arange(len(dataset.videos) + 1))

    def video(self, row: int) -> str:
        """The XML of a video."""
        dataset, images = self.dataset, self.dataset.images
        own = np.flatnonzero(self.of_image == row)
        frames = np.sort(self.frame[own])
        start, stop = (int(frames[0]), int(frames[-1])) if len(frames) else (0, -1)
        length = max(int(dataset.videos.length[row]), stop + 1 - start)
        self.unlisted += length - len(own)
        about = [
            f"      <name>{_quoted(dataset.videos.name[row])[1:-1]}</name>",
            f"      <size>{length}</size>",
            "      <mode>interpolation</mode>",
            f"      <start_frame>{start}</start_frame>",
            f"      <stop_frame>{start + length - 1}</stop_frame>",
        ]
        width, height = int(images.width[own].max(initial=0)), int(images.height[own].max(initial=0))
        if min(width, height) > 0:
            size = f"<width>{width}</width><height>{height}</height>"
            about.append(f"      <original_size>{size}</original_size>")
        lines = _head(about, dataset.categories.name)
        boxes = self.order[self.ends[row] : self.ends[row + 1]]
        ids = self.ids[boxes]
        for rows in np.split(boxes, np.flatnonzero(ids[1:] != ids[:-1]) + 1) if len(boxes) else ():
            lines += self._track(rows, frames)
        return "\n".join([*lines, "</annotations>\n"])

    def _track(self, rows: Longs, frames: Longs) -> list[str]:
        """The lines of a track: CVAT shows a box until the next one, so ``outside`` ends it before a gap."""
        first = int(rows[0])
        lines = [
            f'  <track id="{self.ids[first]}" label={self.labels[self.category[first]]} source="manual">'
        ]
        at = np.searchsorted(frames, self.frame[self.dataset.boxes.image[rows]])
        gaps = np.append(at[1:] != at[:-1] + 1, at[-1] + 1 < len(frames)).tolist()
        for row, position, gap in zip(rows.tolist(), at.tolist(), gaps, strict=True):
            lines += self._box(row, int(frames[position]), "0")
            if gap:
                lines += self._box(row, int(frames[position + 1]), "1")
        return [*lines, "  </track>"]

    def _box(self, row: int, frame: int, outside: str) -> list[str]:
        left, top, right, bottom = self.edges[4 * row : 4 * row + 4]
        occluded = 1 if self.flags[row] & Flag.OCCLUDED else 0
        line = (
            f'    <box frame="{frame}" keyframe="1" outside="{outside}" occluded="{occluded}" xtl="{left}" '
            f'ytl="{top}" xbr="{right}" ybr="{bottom}" z_order="0">'
        )
        score = self.scores[row] if self.scores else None
        return [line, *_attributes(self.flags[row], score), "    </box>"]
