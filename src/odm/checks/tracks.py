"""Rules of videos and tracks; data without them costs nothing."""

from __future__ import annotations

import numpy as np

from odm import tracks
from odm.checks.rules import NO_ROWS, BoxFindings, DerivedColumns, SetFindings, box_rule, set_rule
from odm.issues import Log


@box_rule(tracks.TRACK_TWICE, field="track_id", validate_only=True)
def twice(columns: DerivedColumns) -> BoxFindings:
    dataset = columns.dataset
    return tracks.find_repeated_boxes(dataset), lambda row: {"value": tracks.format_track(dataset, row)}


@box_rule(tracks.CLASS_CHANGES, field="category_id", validate_only=True)
def changes_class(columns: DerivedColumns) -> BoxFindings:
    """Find the first box of each class of a ground-truth track, except the class of its first box."""
    dataset = columns.dataset
    changed_rows, first_rows = (
        tracks.find_class_changes(dataset) if dataset.kind == "gt" else (NO_ROWS, NO_ROWS)
    )
    return changed_rows, lambda row: tracks.make_change_values(
        dataset, row, int(first_rows[changed_rows == row][0])
    )


@set_rule(tracks.DETECTIONS_CHANGE_CLASS, validate_only=True)
def detections_change_class(columns: DerivedColumns) -> SetFindings:
    """Report how many tracks have detections of several classes, and the first such detection."""
    dataset = columns.dataset
    if dataset.kind == "det":
        changed_rows, first_rows = tracks.find_class_changes(dataset)
        if len(changed_rows):
            row = int(changed_rows[0])
            # `first_rows` repeats the first box of a track for each further class: as many differ as tracks.
            values = tracks.make_change_values(dataset, row, int(first_rows[0]))
            yield dataset.location(row), {"n": len(np.unique(first_rows)), **values}


@set_rule(tracks.FRAME_TWICE, validate_only=True)
def frame_twice(columns: DerivedColumns) -> SetFindings:
    dataset = columns.dataset
    for earlier, later in tracks.find_same_frames(dataset):
        yield dataset.image_place(later), tracks.make_frame_values(dataset, earlier, later)


@set_rule(
    "frame-out-of-range",
    "warning",
    "frame {value} is beyond the end of the video {name!r}, whose {n} frames are numbered from {start}",
    "correct the number of the frame or the length of the video",
    "Either the frame belongs to another video, or the frames are numbered in another way.",
    validate_only=True,
)
def frame_beyond(columns: DerivedColumns) -> SetFindings:
    """Find frames beyond the length of their video; frames count from 0 if one is 0, otherwise from 1."""
    images, videos = columns.dataset.images, columns.dataset.videos
    if images.video is None or images.frame is None:
        return
    rows = np.flatnonzero((images.video >= 0) & (images.frame >= 0))
    video, frame = images.video[rows], images.frame[rows]
    first_frames = np.ones(len(videos), np.int64)
    first_frames[video[frame == 0]] = 0
    length = videos.length[video]
    for i in np.flatnonzero((length > 0) & (frame >= length + first_frames[video])).tolist():
        values = {
            "value": int(frame[i]),
            "name": videos.name[video[i]],
            "n": int(length[i]),
            "start": int(first_frames[video[i]]),
        }
        yield columns.dataset.image_place(int(rows[i])), values


@set_rule(
    "boxes-without-track",
    "warning",
    "{n} of {total} boxes have no track",
    "give them the id of the object that they show, if tracks are to be measured",
    "Where tracks are measured, a box without one is a track of a single frame.",
    validate_only=True,
)
def without_track(columns: DerivedColumns) -> SetFindings:
    track = columns.boxes.track
    if track is not None and (is_without := track < 0).any() and not is_without.all():
        values = {"n": int(np.count_nonzero(is_without)), "total": len(track)}
        yield columns.dataset.location(int(is_without.argmax())), values


@set_rule(
    "one-frame-tracks",
    "warning",
    "{n} of {total} tracks have a single box; the first is {value}",
    "check that an id is that of an object, the same in all frames, and not the number of a box",
    "Most objects are seen in more than one frame. If the ids number the boxes instead of the objects, "
    "every box is a track of its own.",
    validate_only=True,
)
def one_frame(columns: DerivedColumns) -> SetFindings:
    """Report how many tracks have a single box, if others have more."""
    track = columns.boxes.track
    if track is None:
        return
    counts = np.bincount(track[track >= 0], minlength=len(columns.dataset.tracks))
    single_box_tracks = np.flatnonzero(counts == 1)
    if len(single_box_tracks) and (counts > 1).any():
        row = int(np.isin(track, single_box_tracks).argmax())
        values = {
            "n": len(single_box_tracks),
            "total": int(np.count_nonzero(counts)),
            "value": tracks.format_track(columns.dataset, row),
        }
        yield columns.dataset.location(row), values


CONTRADICTIONS = (
    *(code.name for code in (tracks.TRACK_TWICE, tracks.CLASS_CHANGES, tracks.FRAME_TWICE)),
    "frame-out-of-range",
)
"""Codes of contradictions in tracks and videos, which a conversion passes on."""


def note_gaps(columns: DerivedColumns, log: Log) -> None:
    """Note that tracks are single boxes, or how many have gaps between their first and last boxes."""
    dataset, track = columns.dataset, columns.boxes.track
    images = dataset.images
    if track is not None and len(track) > 1 and np.bincount(track[track >= 0]).max(initial=0) == 1:
        log.note("no track has more than one box, so the ids may number the boxes, not the objects")
        return
    if track is None or images.video is None or images.frame is None:
        return
    # A track has a gap if it spans more frames (last rank - first rank + 1) than it has frames with a box.
    order = np.lexsort((images.frame, images.video))
    rank = np.empty(len(images), np.int64)
    rank[order] = np.arange(len(images))
    rows = np.flatnonzero((track >= 0) & (images.video[columns.boxes.image] >= 0))
    first_rank = np.full(len(dataset.tracks), len(images), np.int64)
    last_rank = np.full(len(dataset.tracks), -1, np.int64)
    rank_of_box = rank[columns.boxes.image[rows]]
    np.minimum.at(first_rank, track[rows], rank_of_box)
    np.maximum.at(last_rank, track[rows], rank_of_box)
    # Boxes of a track in one frame count once: a number for each pair, track * n_images + rank.
    track_and_rank = np.unique(track[rows].astype(np.int64) * max(len(images), 1) + rank_of_box)
    n_frames = np.bincount(track_and_rank // max(len(images), 1), minlength=len(dataset.tracks))
    n_gaps = int(np.count_nonzero((n_frames > 0) & (last_rank - first_rank + 1 > n_frames)))
    if n_gaps:
        total = int(np.count_nonzero(n_frames))
        log.note(f"tracks with gaps (frames between their first and last without a box): {n_gaps} of {total}")
