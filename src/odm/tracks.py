"""Check what must hold of tracks and frames before they are measured, for checks and evaluation alike.

A track is an object that is followed through a video. Its boxes of one class are a *tube*: at most one box
in each frame, with or without gaps between them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.issues import Code, Log, Trusted
from odm.tables import Dataset

TRACK_TWICE = Code(
    "track-twice-in-frame",
    "warning",
    "track {value} has another box of this class in this frame",
    "give one of the two another id, or remove it",
    "A track follows one object, which is in one place at a time. Two boxes in one frame make its volume "
    "meaningless.",
)
CLASS_CHANGES = Code(
    "track-changes-class",
    "warning",
    "track {value} is {first!r} in an earlier box and {second!r} here",
    "correct the class, or give the second object another id",
    "In ground truth a track is one object, and an object has one class. Tracks are compared class by "
    "class, so this object would count once for each.",
)
DETECTIONS_CHANGE_CLASS = Code(
    "detections-change-class",
    "warning",
    "tracks with detections of several classes: {n}, such as track {value} with {first!r} and {second!r}",
    "give every track the class that it has most often, if the tracker is meant to decide",
    "Tracks are compared class by class, so such a track counts as one track for each of its classes.",
)
FRAME_TWICE = Code(
    "frame-twice",
    "warning",
    "the images {first!r} and {second!r} are both frame {value} of the video {name!r}",
    "correct the frame number of one of them",
    "Frames of two sides are joined by their numbers, so each number must stand for one image.",
)
CONTRADICTORY = Code(
    "contradictory-tracks",
    "error",
    "expected tracks with one class, and with one box in each frame, found {what}",
    "correct them; odm validate names each",
    "A conversion may pass contradictory tracks on, but they cannot be measured, nor written in a format in "
    "which a track has one box in each frame.",
)


def _find_boxes_in_videos(dataset: Dataset) -> NDArray[np.intp]:
    """Return the rows of boxes whose track is in a video, as ids in still images may count anything."""
    track = dataset.boxes.track
    assert track is not None
    video_of_track = np.append(dataset.tracks.video, -1)  # the last entry is for the track -1: none
    return np.flatnonzero(video_of_track[track] >= 0)


def find_repeated_boxes(dataset: Dataset) -> NDArray[np.intp]:
    """Return the rows of boxes in videos whose track has an earlier box of the same class on their image."""
    boxes = dataset.boxes
    if boxes.track is None:
        return np.zeros(0, np.intp)
    rows = _find_boxes_in_videos(dataset)
    tube = boxes.track[rows].astype(np.int64) * max(len(dataset.categories), 1) + boxes.category[rows]
    key = tube * max(len(dataset.images), 1) + boxes.image[rows]  # one number for track, class and image
    order = np.argsort(key, kind="stable")
    is_repeated = np.zeros(len(rows), np.bool_)
    is_repeated[order[1:]] = key[order][1:] == key[order][:-1]
    return rows[is_repeated]


def find_class_changes(dataset: Dataset) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find tracks in videos with several classes.

    Returns two arrays (n,), an entry for each class of a track but its first: the row of the first box of
    this class in the track, and the row of the first box of the track.
    """
    boxes = dataset.boxes
    if boxes.track is None or len(dataset.categories) < 2:
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    rows = _find_boxes_in_videos(dataset)
    tracks, first_positions = np.unique(boxes.track[rows], return_index=True)
    first_row_of_track = np.full(len(dataset.tracks), -1, np.intp)
    first_row_of_track[tracks] = rows[first_positions]
    # Boxes of another class than the first box of their track; of each track and class the first one.
    other_rows = rows[boxes.category[rows] != boxes.category[first_row_of_track[boxes.track[rows]]]]
    key = boxes.track[other_rows].astype(np.int64) * len(dataset.categories) + boxes.category[other_rows]
    changed_rows = np.sort(other_rows[np.unique(key, return_index=True)[1]])
    return changed_rows, first_row_of_track[boxes.track[changed_rows]]


def find_same_frames(dataset: Dataset) -> list[tuple[int, int]]:
    """Return pairs of images that are the same frame of one video, the second later in the table."""
    images = dataset.images
    if images.video is None or images.frame is None:
        return []
    rows = np.flatnonzero((images.video >= 0) & (images.frame >= 0))
    key = images.video[rows] * np.int64(2**31) + images.frame[rows]  # one number for video and frame
    order = np.argsort(key, kind="stable")
    key, rows = key[order], rows[order]
    later_positions = np.flatnonzero(key[1:] == key[:-1]) + 1
    first_positions = np.searchsorted(key, key[later_positions])
    return list(zip(rows[first_positions].tolist(), rows[later_positions].tolist(), strict=True))


def format_track(dataset: Dataset, row: int) -> str:
    """Format the track of a box for messages: its id, and its video where there are several."""
    assert dataset.boxes.track is not None
    track = int(dataset.boxes.track[row])
    video = int(dataset.tracks.video[track])
    video_suffix = f" of {dataset.videos.name[video]!r}" if video >= 0 and len(dataset.videos) > 1 else ""
    return f"{dataset.tracks.source_id[track]!s}{video_suffix}"


def make_change_values(dataset: Dataset, row: int, first_row: int) -> dict[str, Any]:
    """Make the values of a message about the class of a box that is not that of the first box of its track.

    `row` and `first_row` are the two boxes.
    """
    names, category = dataset.categories.name, dataset.boxes.category
    return {
        "value": format_track(dataset, row),
        "first": names[category[first_row]],
        "second": names[category[row]],
    }


def make_frame_values(dataset: Dataset, first_row: int, second_row: int) -> dict[str, Any]:
    """Make the values of a message about two images that are one frame."""
    images = dataset.images
    assert images.video is not None
    assert images.frame is not None
    return {
        "first": images.name[first_row],
        "second": images.name[second_row],
        "value": int(images.frame[second_row]),
        "name": dataset.videos.name[images.video[second_row]],
    }


def refuse_contradictory(dataset: Dataset, log: Log, codes: Collection[Code] | None = None) -> bool:
    """Report how often tracks contradict themselves, and return whether any does.

    `codes` are those that count: of `TRACK_TWICE`, `FRAME_TWICE` and `CLASS_CHANGES`, None = all. Changes of
    class count in ground truth only.
    """
    counts = {
        TRACK_TWICE: len(find_repeated_boxes(dataset)),
        FRAME_TWICE: len(find_same_frames(dataset)),
        CLASS_CHANGES: len(find_class_changes(dataset)[0]) if dataset.kind == "gt" else 0,
    }
    faults = [f"{code.name} {n}" for code, n in counts.items() if n and (codes is None or code in codes)]
    if faults:
        log.report(CONTRADICTORY, dataset.path, what=Trusted(", ".join(faults)))
    return bool(faults)


def report_tubes(dataset: Dataset, log: Log) -> None:
    """Report what keeps the tracks of a dataset from being measured, as a whole and one by one; changes of
    class in detections are one warning with an example.
    """
    refuse_contradictory(dataset, log)
    log.report_rows(
        TRACK_TWICE, dataset, find_repeated_boxes(dataset), lambda row: {"value": format_track(dataset, row)}
    )
    for first_image, second_image in find_same_frames(dataset):
        log.report(
            FRAME_TWICE,
            dataset.image_place(second_image),
            **make_frame_values(dataset, first_image, second_image),
        )
    changed_rows, first_rows = find_class_changes(dataset)
    if not len(changed_rows):
        return
    if dataset.kind == "gt":
        first_row_of = dict(zip(changed_rows.tolist(), first_rows.tolist(), strict=True))
        log.report_rows(
            CLASS_CHANGES,
            dataset,
            changed_rows,
            lambda row: make_change_values(dataset, row, first_row_of[row]),
        )
    else:
        row, n = int(changed_rows[0]), len(np.unique(first_rows))  # each track has one first row
        values = make_change_values(dataset, row, int(first_rows[0]))
        log.report(DETECTIONS_CHANGE_CLASS, dataset.location(row), n=n, **values)
