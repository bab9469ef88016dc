"""MOTChallenge as it is written: a sequence for each video."""

from __future__ import annotations

import numpy as np

from odm.files import Output
from odm.formats._shared import text_rows
from odm.formats._shared.frames import box_tracks, check_frames, track_numbers
from odm.formats._shared.number_text import decimals, short_wh
from odm.formats.mot.sequences import CLASSES, NO_IMAGE
from odm.issues import Log
from odm.names import stem
from odm.tables import Dataset, Flag, Longs


def write_sequences(dataset: Dataset, target: Output, log: Log) -> None:
    """Write a sequence for each video."""
    sequences = _split_videos(dataset)
    names: dict[str, str] = {}
    for sequence in sequences:
        names |= dict.fromkeys(sequence.files, f"the sequence {sequence.name!r}")
    fits = check_frames(dataset, log)
    refused = text_rows.refuse_classes(dataset, log, words=False, unused=True)
    if not target.plan(list(names), list(names.values()), log) or refused or not fits:
        return
    numbers = track_numbers(dataset, log)
    tracks = box_tracks(dataset, numbers, -1)
    for sequence in sequences:
        for name, text in sequence.contents(tracks).items():
            target.write(name, text.encode())


class _Target:
    """A sequence that is written: the images at `rows` of a dataset.

    ``frames`` (rows,) are their numbers, which rise; ``shift`` is what was added to them.
    """

    def __init__(self, dataset: Dataset, rows: Longs, name: str, folder: str, frames: Longs | None) -> None:
        self.dataset, self.rows, self.name = dataset, rows, name
        self.shift = 1 if frames is not None and len(frames) and int(frames.min()) == 0 else 0
        self.frames = np.arange(1, len(rows) + 1) if frames is None else frames + self.shift
        self.length = len(rows) if frames is None else int(self.frames.max(initial=0))
        classes = dataset.categories.name
        self.official = set(classes) <= set(CLASSES[1:])
        self.images = [dataset.images.name[row] for row in rows.tolist()]
        self.full = not all(name.startswith(folder) for name in self.images)
        """Whether the list of images holds whole names, not names in the folder."""
        if not self.full:
            self.images = [name[len(folder) :] for name in self.images]
        suffixes = {name[len(stem(name)) :] for name in self.images}
        self.suffix = suffixes.pop() if len(suffixes) == 1 else ""
        pairs = zip(self.images, self.frames.tolist(), strict=True)
        self.numbered = not self.full and len(rows) == self.length
        self.numbered = self.numbered and all(name == f"{n:06d}{self.suffix}" for name, n in pairs)
        kind = dataset.kind
        labels = [f"{kind}/labels.txt"] * (not self.official)
        lists = ["images.txt"] * (not self.numbered)
        self.folder = folder
        self.files = [folder + name for name in (f"{kind}/{kind}.txt", "seqinfo.ini", *labels, *lists)]

    def contents(self, tracks: Longs | None) -> dict[str, str]:
        """The text of each file; `tracks` are the ids of the boxes' tracks."""
        folder, kind = self.folder, self.dataset.kind
        lines = {f"{folder}seqinfo.ini": self._info(), f"{folder}{kind}/{kind}.txt": self._boxes(tracks)}
        if not self.official:
            lines[f"{folder}{kind}/labels.txt"] = list(self.dataset.categories.name)
        if not self.numbered:
            listed = [NO_IMAGE] * self.length
            for frame, name in zip(self.frames.tolist(), self.images, strict=True):
                listed[frame - 1] = name
            lines[f"{folder}images.txt"] = listed
        return {name: "".join(f"{line}\n" for line in text) for name, text in lines.items()}

    def _info(self) -> list[str]:
        images = self.dataset.images
        info = ["[Sequence]"] + [f"name={self.name}"] * bool(self.name)
        info += ["imDir=img1", f"seqLength={self.length}"]
        pairs = zip(images.width[self.rows].tolist(), images.height[self.rows].tolist(), strict=True)
        sizes = set(pairs)
        if len(sizes) == 1 and min(size := sizes.pop()) > 0:
            info += [f"imWidth={size[0]}", f"imHeight={size[1]}"]
        info += [f"imExt={self.suffix}"] * bool(self.suffix)
        return info + ["firstFrame=0"] * self.shift + ["fullNames=1"] * self.full

    def _boxes(self, tracks: Longs | None) -> list[str]:
        dataset, boxes, classes = self.dataset, self.dataset.boxes, self.dataset.categories.name
        number = np.zeros(len(dataset.images), np.int64)
        number[self.rows] = self.frames
        frame = number[boxes.image] if len(boxes) else np.zeros(0, np.int64)
        order = np.argsort(frame, kind="stable")
        order = order[np.searchsorted(frame[order], 1) :]
        ids = [CLASSES.index(name) if self.official else i for i, name in enumerate(classes, 1)]
        texts = decimals(np.concatenate([boxes.xyxy[:, :2], short_wh(boxes)], axis=1)[order].ravel())
        n = len(order)
        category = [str(ids[c]) for c in boxes.category[order].tolist()]
        columns = [[str(i) for i in frame[order].tolist()]]
        columns += [["-1"] * n if tracks is None else [str(i) for i in tracks[order].tolist()]]
        columns += [texts[i::4] for i in range(4)]
        if dataset.kind == "gt":
            conf = ["0" if c else "1" for c in boxes.has(Flag.CROWD)[order].tolist()]
            columns += [conf, category, ["1"] * n]
        elif self.official and set(category) <= {"1"}:
            columns += [decimals(boxes.score[order]), ["-1,-1,-1"] * n]
        else:
            columns += [decimals(boxes.score[order]), category, ["-1"] * n]
        return list(map(",".join, zip(*columns, strict=True)))


def _split_videos(dataset: Dataset) -> list[_Target]:
    """The sequences to be written: one for each video, and one of the images without a video."""
    images, videos = dataset.images, dataset.videos
    every = np.arange(len(images))
    if images.video is None:
        return [_Target(dataset, every, "", "", None)]
    used = np.unique(images.video).tolist()
    found = []
    for video in used:
        rows = np.flatnonzero(images.video == video)
        name = videos.name[video] if video >= 0 else "images"
        frames = None
        if video >= 0 and images.frame is not None and (images.frame[rows] >= 0).all():
            rows = rows[np.argsort(images.frame[rows], kind="stable")]
            frames = images.frame[rows].astype(np.int64)
        folder = f"{name}/" if len(used) > 1 else ""
        found.append(_Target(dataset, rows, name if video >= 0 else "", folder, frames))
    return found
