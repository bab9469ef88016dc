"""The tracks of a video in a JSON file: an image for each frame, and a box of each track on it.

A format brings the object of a track in a frame into the form of one in an image, and reads it as such::

    records = {0: ("0", {"box": [1, 2, 3, 4]})}
    tracks = [Track(row.location, row.get("id"), records) for row in item.rows("tracks")]
    read_video(item, name, tracks, lambda rows, image, _: rows.read(image, _read_box), size=size, length=100)
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from odm.formats._shared.gather import Location
from odm.formats._shared.json.items import Item, Rows
from odm.tables import Id

MOST_FRAMES = 100_000
"""Frames without objects that a video may claim to have before they are no longer listed."""


class Track(NamedTuple):
    """An object of a video: its location in the file, its id, and by frame its key there and its record."""

    location: Location
    id_: Id
    objects: Mapping[int, tuple[int | str, dict[str, Any]]]


def read_video(
    item: Item,
    name: Any,
    tracks: Iterable[Track],
    read: Callable[[Rows, int | None, int], None],
    *,
    first_frame: int = 0,
    length: int = 0,
    frame_name: str = "frame_{:06d}",
    **columns: Any,
) -> None:
    """Add `length` frames of a video from `first_frame` on, and all others that have objects.

    If `length` is beyond `MOST_FRAMES`, only frames with objects are added. `read` is called with the object
    of each track in each frame, the row of the image and the frame number.

    Images are called as the video without its suffix, and `frame_name` in it; `columns` are those of
    `Item.image_named`. A name that is no text is reported, and nothing is added.
    """
    reader, builder = item.reader, item.reader.builder
    if not isinstance(name, str) or not name:
        item.image_named(name)  # which reports it
        return
    length = length if length <= MOST_FRAMES else 0
    video = builder.video(name, length=length)
    # The objects of each frame: for each track there, `Rows` of one record.
    objects: dict[int, list[Rows]] = {frame: [] for frame in range(first_frame, first_frame + length)}
    for track in tracks:
        track_row = builder.track(video, track.id_)
        for frame, (index, value) in track.objects.items():
            rows = Rows(reader, track.location, {index: value})
            rows.track = track_row
            objects.setdefault(frame, []).append(rows)
    for frame in sorted(objects):
        shown = f"{posixpath.splitext(name)[0]}/{frame_name.format(frame)}"
        image = item.image_named(shown, video=video, frame=frame, **columns)
        for rows in objects[frame]:
            read(rows, image, frame)


def parse_frame(item: Item, value: Any, key: str) -> int:
    """Parse the number of a frame, an integer or its text.

    Returns -1, and reports an issue, for another value.
    """
    text = str(value)
    if type(value) is not bool and text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text)
    item.report_wrong(key, "the number of a frame")
    return -1


def fill_frames(
    values: Mapping[int, list[float]], goes_on: Collection[int] = (), last: int = -1
) -> dict[int, list[float]]:
    """The numbers of a track in all its frames, from those in its key frames.

    Between a key frame that `goes_on` and the next they are interpolated; after the last key frame, if
    `goes_on` has it, they stay until the frame `last`. Only `values` are returned if their lengths differ, or
    for more than `MOST_FRAMES` frames.
    """
    frames = np.array(sorted(values))
    lengths = {*map(len, values.values())}
    if len(lengths) != 1 or 0 in lengths or max(last, frames[-1]) - frames[0] > MOST_FRAMES:
        return dict(values)
    # All frames from the first key frame on, without those behind a key frame after which nothing goes on:
    # 0 1 2 3 6 for the key frames 0, 3 and 6, if only that of 0 does.
    filled_frames = np.arange(frames[0], max(last, frames[-1]) + 1)
    key_frame_before = frames[np.searchsorted(frames, filled_frames, side="right") - 1]
    filled_frames = filled_frames[
        (key_frame_before == filled_frames) | np.isin(key_frame_before, list(goes_on))
    ]
    columns = np.array([values[frame] for frame in frames.tolist()], np.float64).T
    filled = np.stack([np.interp(filled_frames, frames, column) for column in columns], axis=1)
    # In key frames the numbers are exactly those of `values`.
    return dict(zip(filled_frames.tolist(), filled.tolist(), strict=True)) | dict(values)
