"""Videos, frames and tracks as formats write them."""

from __future__ import annotations

import numpy as np

from odm.issues import Log, UsageError, plural, printable
from odm.tables import Dataset, Ints, Longs
from odm.tracks import FRAME_TWICE, refuse_contradictory


def number_tracks(dataset: Dataset, log: Log, *, id_min: int = 0, across_videos: bool = False) -> Longs:
    """Return (tracks,) int64 track ids of at least `id_min`, unique within each video.

    The ids of the source are kept if they fit; else the tracks of each video are numbered from 1, with a
    note. With `across_videos` the ids are unique among all videos.
    """
    tracks = dataset.tracks
    ids = tracks.source_id
    video = np.zeros(len(tracks), np.int32) if across_videos else tracks.video
    if ids.dtype != object and (ids >= id_min).all():
        source_ids: Longs = ids.astype(np.int64)
        # Each pair of video and id once.
        if len(np.unique(np.stack([video.astype(np.int64), source_ids]), axis=1).T) == len(source_ids):
            return source_ids
    order = np.argsort(video, kind="stable")
    video_starts = (
        np.flatnonzero(np.append(True, video[order][1:] != video[order][:-1])) if len(order) else order
    )
    numbers = np.empty(len(tracks), np.int64)
    # 6 tracks sorted by video, video_starts = [0, 3, 5]:
    #   arange               0 1 2 3 4 5
    #   repeat(video_starts) 0 0 0 3 3 5   (videos of 3, 2 and 1 tracks)
    #   difference + 1       1 2 3 1 2 1   the number of each track within its video
    numbers[order] = (
        np.arange(len(order)) - np.repeat(video_starts, np.diff(np.append(video_starts, len(order)))) + 1
    )
    log.note(f"{plural(len(tracks), 'track')}: numbered from 1, as their ids cannot be written here")
    return numbers


def find_box_tracks(dataset: Dataset, numbers: Longs) -> Longs | None:
    """Return (n,) int64, the track number of each box, -1 for none; None if no box has a track.

    `numbers` (tracks,) are the numbers of the tracks, from `number_tracks`.
    """
    track = dataset.boxes.track
    if track is None or not (track >= 0).any():
        return None
    return np.where(track >= 0, numbers[track], -1)


def require_frames(dataset: Dataset, layout: str) -> tuple[Ints, Ints]:
    """Return (images,) video rows and (images,) frame numbers. UsageError if an image is not a frame."""
    images = dataset.images
    columns = images.video, images.frame
    # Without a column no image is a frame; -1 is for an image that is none.
    lacks_frame = np.any([np.ones(len(images), bool) if c is None else c < 0 for c in columns], axis=0)
    video, frame = columns
    if video is None or frame is None or lacks_frame.any():
        name = printable(images.name[int(np.argmax(lacks_frame))]) if len(images) else ""
        raise UsageError(f"layout={layout} writes frames of videos, but image {name!r} is not a frame")
    return video, frame


def check_frames(dataset: Dataset, log: Log) -> bool:
    """Whether no two images are the same frame of a video; images that are get reported."""
    return not refuse_contradictory(dataset, log, (FRAME_TWICE,))
