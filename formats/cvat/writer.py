"""Writing CVAT XML."""

from __future__ import annotations

import html
import re

import numpy as np

from odm.files import Output
from odm.formats._shared.class_lists import UNWRITABLE
from odm.formats._shared.number_text import decimals
from odm.issues import Log
from odm.names import BAD_NAME, refuse_class
from odm.tables import Dataset, Flag

_WRITTEN = (("difficult", Flag.DIFFICULT), ("truncated", Flag.TRUNCATED), ("is_crowd", Flag.CROWD))
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_file(dataset: Dataset, target: Output, log: Log) -> None:
    """Write one file."""
    name = "" if target.single else "annotations.xml"
    images, boxes, classes = dataset.images, dataset.boxes, dataset.categories.name
    errors = log.errors
    if name:
        target.plan([name], ["the annotations"], log)
    if not allowed(dataset, log) or log.errors > errors:
        return
    frames, tracks = _frame_marks(dataset), _track_marks(dataset)
    labels = [quoted(text) for text in classes]
    lines = head([f"      <size>{len(images)}</size>", "      <mode>annotation</mode>"], classes)
    order = np.argsort(boxes.image, kind="stable")
    ends = np.searchsorted(boxes.image[order], np.arange(len(images)), side="right").tolist()
    texts = decimals(boxes.xyxy[order].ravel())
    scores = decimals(boxes.score[order]) if dataset.kind == "det" else []
    category, flags = boxes.category[order].tolist(), boxes.flags[order].tolist()
    at = 0
    for i, (text, width, height, split) in enumerate(
        zip(images.name, images.width.tolist(), images.height.tolist(), images.split, strict=True)
    ):
        said = (f" subset={quoted(split)}" if split else "", frames[i] if frames else "")
        lines.append(
            f'  <image id="{i}" name={quoted(text)}{said[0]} width="{width}" height="{height}"{said[1]}>'
        )
        for row in range(at, ends[i]):
            left, top, right, bottom = texts[4 * row : 4 * row + 4]
            occluded = 1 if flags[row] & Flag.OCCLUDED else 0
            lines.append(
                f'    <box label={labels[category[row]]} source="manual" occluded="{occluded}" xtl="{left}" '
                f'ytl="{top}" xbr="{right}" ybr="{bottom}" z_order="0"{tracks[order[row]] if tracks else ""}>'
            )
            lines += attributes(flags[row], scores[row] if scores else None)
            lines.append("    </box>")
        at = ends[i]
        lines.append("  </image>")
    lines.append("</annotations>\n")
    target.write(name, "\n".join(lines).encode())


def attributes(flags: int, score: str | None) -> list[str]:
    """The lines inside a box."""
    lines = [f'      <attribute name="{mark}">true</attribute>' for mark, bit in _WRITTEN if flags & bit]
    return lines if score is None else [*lines, f'      <attribute name="score">{score}</attribute>']


def allowed(dataset: Dataset, log: Log) -> bool:
    """Whether XML can hold all names; those that it cannot are reported."""
    errors = log.errors
    _check_names(dataset, log)
    if log.errors == errors:
        _check_video_names(dataset, log)
    return log.errors == errors


def _check_names(dataset: Dataset, log: Log) -> None:
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


def _check_video_names(dataset: Dataset, log: Log) -> None:
    for text in (*dataset.videos.name, *map(str, dataset.tracks.source_id.tolist())):
        if _NOT_XML.search(text):
            log.report(BAD_NAME, "", value=text, reason="XML cannot hold one of its characters")


def head(about: list[str], classes: tuple[str, ...]) -> list[str]:
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
    names = [f" video={quoted(name)}" for name in (*dataset.videos.name,)] + [""]
    frames = np.full(len(images), -1) if images.frame is None else images.frame
    pairs = zip(images.video.tolist(), frames.tolist(), strict=True)
    return [names[video] + (f' frame="{frame}"' if min(video, frame) >= 0 else "") for video, frame in pairs]


def _track_marks(dataset: Dataset) -> list[str]:
    """The track attribute of each box; empty without tracks."""
    if dataset.boxes.track is None:
        return []
    ids = [f" track_id={quoted(str(id_))}" for id_ in dataset.tracks.source_id.tolist()] + [""]
    return [ids[track] for track in dataset.boxes.track.tolist()]


def quoted(text: str) -> str:
    """The text as the value of an attribute."""
    return '"' + html.escape(text, quote=False).replace('"', "&quot;") + '"'
