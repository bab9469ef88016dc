"""Writing the tracks of videos, as in a task of a video: a file for each video."""

from __future__ import annotations

import numpy as np

from odm.files import Output
from odm.formats._shared.frames import require_frames, track_numbers
from odm.formats._shared.number_text import decimals
from odm.formats.cvat.writer import allowed, attributes, head, quoted
from odm.issues import Log, UsageError, plural
from odm.tables import Dataset, Flag, Ints, Longs
from odm.tracks import report_tubes


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
    if not allowed(dataset, log) or log.errors > errors:
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
        self.labels = [quoted(name) for name in dataset.categories.name]
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
            f"      <name>{quoted(dataset.videos.name[row])[1:-1]}</name>",
            f"      <size>{length}</size>",
            "      <mode>interpolation</mode>",
            f"      <start_frame>{start}</start_frame>",
            f"      <stop_frame>{start + length - 1}</stop_frame>",
        ]
        width, height = int(images.width[own].max(initial=0)), int(images.height[own].max(initial=0))
        if min(width, height) > 0:
            size = f"<width>{width}</width><height>{height}</height>"
            about.append(f"      <original_size>{size}</original_size>")
        lines = head(about, dataset.categories.name)
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
        return [line, *attributes(self.flags[row], score), "    </box>"]
