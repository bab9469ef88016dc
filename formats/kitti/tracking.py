"""The labels of KITTI's tracking benchmark: a file for each sequence, every line with its frame and track."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.files import Output, Source
from odm.formats._shared.codes import BAD_FRAME
from odm.formats._shared.frames import box_tracks, check_frames, require_frames, track_numbers
from odm.formats._shared.gather import At, with_extension
from odm.formats._shared.text_rows import Labels, refuse_classes, sampled
from odm.formats._shared.text_tokens import NUMBER
from odm.issues import Log
from odm.tables import NO_ID, Dataset, Longs

LEAD = 2
"""Columns before the type: the frame and the track."""


def is_tracking(source: Source, files: Sequence[str]) -> bool:
    """Whether most lines begin with two whole numbers and a type."""
    lines = fits = 0
    for cells in sampled(source, files):
        lines += 1
        lead, rest = cells[:LEAD], cells[LEAD : LEAD + 1]
        fits += (
            len(cells) >= LEAD + 15
            and all(NUMBER.fullmatch(cell) and float(cell).is_integer() for cell in lead)
            and not any(map(NUMBER.fullmatch, rest))
        )
    return bool(lines) and 2 * fits > lines


def add_frames(labels: Labels, good: NDArray[np.bool_]) -> tuple[NDArray[np.int32], dict[str, Any]]:
    """Add an image for every frame; the image of each row (-1 = none), and columns of the boxes."""
    gather, builder, source = labels.gather, labels.builder, labels.source
    frame, id_ = labels.values[:, 0], labels.values[:, 1]
    wrong = good & ~((frame >= 0) & (frame < 2**31) & (frame == np.rint(frame)))
    labels.report(BAD_FRAME, wrong, 0, "frame", among=", from 0")
    paths = [source.full(file) for file in labels.files]
    numbers = np.array([builder.file(path) for path in paths], np.int64)
    names = [path.replace("\\", "/").rpartition("/")[2][: -len(".txt")] for path in paths]
    videos = np.array([builder.video(name) for name in names], np.int64)
    file = labels.rows.file
    image = np.full(len(labels), -1, np.int32)
    rows = np.flatnonzero(good & ~wrong)
    used, which = np.unique(np.stack([file[rows], frame[rows]]).astype(np.int64), axis=1, return_inverse=True)
    added = np.full(used.shape[1], -1, np.int32)
    for i, (of, n) in enumerate(used.T.tolist()):
        name = f"{names[of]}/{n:06d}"
        at = At(paths[of])
        picture = gather.picture(name, at, name, *(f"{p}/{name}" for p in ("image_02", "image_2")))
        columns = {"picture": picture, "file": int(numbers[of]), "video": int(videos[of]), "frame": n}
        row = gather.image(with_extension(name, picture), at, **columns)
        added[i] = -1 if row is None else row
    image[rows] = added[which.reshape(-1)]
    ids: Longs = np.where(id_ >= 0, id_, NO_ID).astype(np.int64)
    more: dict[str, Any] = {"file": numbers[file]} if len(file) else {"file": file}
    if (ids >= 0).any():
        more["track"] = builder.tracks(videos[file], ids)
    return image, more


def write_tracking(dataset: Dataset, target: Output, log: Log, columns: Sequence[Sequence[str]]) -> None:
    """Write a file for each video; `columns` are those of the boxes from the type on."""
    boxes, videos = dataset.boxes, dataset.videos
    video, numbers = require_frames(dataset, "tracking")
    refused = refuse_classes(dataset, log)
    files = [f"{name}.txt" for name in videos.name]
    if not target.plan(files, list(videos.name), log) or refused or not check_frames(dataset, log):
        return
    log.note("layout=tracking: images are named after their video and the number of their frame")
    frame = numbers[boxes.image]
    tracks = box_tracks(dataset, track_numbers(dataset, log), -1)
    ids = ["-1"] * len(boxes) if tracks is None else list(map(str, tracks.tolist()))
    rows = list(map(" ".join, zip(map(str, frame.tolist()), ids, *columns, strict=True)))
    order = np.lexsort((frame, video[boxes.image]))
    ends = np.searchsorted(video[boxes.image][order], np.arange(len(videos) + 1))
    for i, file in enumerate(files):
        lines = [rows[k] for k in order[ends[i] : ends[i + 1]].tolist()]
        target.write(file, "".join(f"{line}\n" for line in lines).encode())
