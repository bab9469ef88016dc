"""Images and boxes of Pascal VOC XML as they are gathered from one file after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.formats._shared.codes import FILE_NAME_DIFFERS, FILE_NAME_MISSING
from odm.formats._shared.gather import At, Corners, Gather, decide_kind, with_extension
from odm.formats.voc.terms import count_from_zero
from odm.names import stem
from odm.tables import Id


class Images:
    """The images, each named after its XML file."""

    def __init__(self, gather: Gather, splits: Mapping[str, str], pictures: Mapping[str, str]) -> None:
        self._gather, self._splits, self._pictures = gather, splits, pictures

    def add(
        self,
        path: str,
        key: str,
        filename: str | None,
        size: tuple[int, int] | None,
        line: int = 0,
        size_line: int = 0,
    ) -> int | None:
        """Add the image of one XML file; None, and an issue, if it cannot be."""
        gather, at = self._gather, At(path)
        log = gather.log
        name = key
        if filename:
            folder, _, base = key.rpartition("/")
            said = filename.replace("\\", "/").rsplit("/", 1)[-1]
            cut = stem(said)
            if cut == base:
                name = f"{folder}/{said}" if folder else said
            elif said != base:
                name = key + said[len(cut) :]
                if cut != stem(base):
                    log.report(
                        FILE_NAME_DIFFERS,
                        path,
                        line=line,
                        field="filename",
                        where="<filename>",
                        value=filename,
                        name=name,
                    )
        picture = None
        if gather.pictures:
            pictured = self._pictures[key]
            folder, slash, _ = pictured.rpartition("/")
            picture = gather.picture(folder + slash + name.rpartition("/")[2], at, pictured)
            if stem(name) == name:
                name = with_extension(name, picture)
        if filename is None or filename == "":
            log.report(
                FILE_NAME_MISSING,
                path,
                line=line,
                field="filename",
                where="<filename>",
                name=name,
                source="the XML file",
            )
        row = gather.image(
            name,
            at,
            size=size,
            size_at=At(path, line=size_line) if size is None else None,
            picture=picture,
            split=self._splits.get(key, ""),
            file=gather.builder.n_images,  # every image is a file
        )
        if row is not None:
            gather.builder.file(path)
        return row


class Rows:
    """Boxes as a flat list, turned into arrays a few ten thousand at a time."""

    def __init__(self, gather: Gather, origin: int) -> None:
        self._gather, self._origin = gather, origin
        self._values: list[float] = []
        """Image, class, edges, score, flags and line of each box, one after the other."""
        self._chunks: list[dict[str, Any]] = []
        self._tracks: dict[int, Id] = {}
        """Tracks of boxes, by the place of the box among all."""
        self._packed = 0
        self._frames: dict[int, tuple[str, int]] = {}

    def add(self, image: int, category: int, corners: Corners, score: float, flags: int, line: int) -> None:
        """Add one box."""
        self._values += (image, category, *corners, score, flags, line)

    def set_track(self, id_: Id) -> None:
        """Give the last box the track of that id."""
        self._tracks[self._packed + len(self._values) // 9 - 1] = id_

    def set_frame(self, image: int, video: str, frame: int) -> None:
        """Say which frame of which video an image is, -1 = not given."""
        self._frames[image] = video, frame

    def pack(self, least: int = 50_000) -> None:
        """Turn what was gathered into arrays, if it is worth it."""
        n = len(self._values) // 9
        if n < max(least, 1):
            return
        table = np.array(self._values, np.float64).reshape(n, 9)
        self._values.clear()
        xyxy = np.ascontiguousarray(table[:, 2:6])
        chunk: dict[str, Any] = {"xyxy": xyxy, "score": table[:, 6], "flags": table[:, 7].astype(np.uint16)}
        for key, k in (("image", 0), ("category", 1), ("line", 8)):
            chunk[key] = table[:, k].astype(np.int32)
        if self._tracks:
            chunk["source_track"] = [self._tracks.get(i) for i in range(self._packed, self._packed + n)]
        self._add(chunk)

    def add_all(self, **columns: NDArray[Any]) -> None:
        """Add n boxes: their columns as in `pack`."""
        self.pack(1)
        self._add(columns)

    def _add(self, chunk: dict[str, Any]) -> None:
        if self._origin:
            count_from_zero(chunk["xyxy"])
        self._packed += len(chunk["line"])
        self._chunks.append(chunk)

    def count(self, what: str, n: int = 1) -> None:
        """Count additions that are not kept."""
        extras = self._gather.builder.extras
        extras[what] = extras.get(what, 0) + n

    def _place_frames(self) -> None:
        """Tell the builder of which videos the images are frames.

        As in ImageNet VID, a folder with tracks is a video, and a name that is a number that of the frame.
        """
        builder = self._gather.builder
        if self._tracks:
            tracked = {chunk["image"][i] for chunk in self._chunks
                       for i, id_ in enumerate(chunk.get("source_track", ())) if id_ is not None}  # fmt: skip
            names = builder.image_names
            folders = {names[row].rpartition("/")[0] for row in tracked} - {""}
            for row, name in enumerate(names):
                folder, _, base = name.rpartition("/")
                number = stem(base)
                whole = number.isascii() and number.isdigit() and len(number) < 10
                if folder in folders:
                    self._frames.setdefault(row, (folder, int(number) if whole else -1))
        for row, (video, frame) in self._frames.items():
            builder.set_frames(row, [builder.video(video)], [frame])

    def _exclude_last_pixels(self) -> None:
        """Move right and bottom too where they are one pixel beyond the last one: supervision counts so."""
        sizes = np.array(list(map(self._gather.builder.image_size, range(self._gather.builder.n_images))))
        low = [chunk["xyxy"][:, :2].min(initial=np.inf) for chunk in self._chunks]
        beyond = [
            (chunk["xyxy"][:, 2:] - sizes[chunk["image"]])[sizes[chunk["image"]] > 0].max(initial=-np.inf)
            for chunk in self._chunks
        ]
        if max(beyond, default=0) == 1 and min(low, default=0) >= 0:
            for chunk in self._chunks:
                chunk["xyxy"][:, 2:] -= 1
            self._gather.log.note(
                "origin=1: right and bottom edges reach one pixel beyond the images, so these too are moved "
                "by one pixel, as written by supervision"
            )

    def finish(self) -> None:
        """Decide what the boxes are, report those of the other kind, and hand the rest to the builder."""
        self.pack(1)
        builder = self._gather.builder
        self._place_frames()
        if self._origin:
            self._exclude_last_pixels()
        for chunk in self._chunks:
            ids = chunk.pop("source_track", None)
            if ids is not None:
                chunk["track"] = builder.tracks_of_images(chunk["image"], ids)
            self._gather.add(**chunk, file=chunk["image"])  # every image is a file
        self._chunks.clear()
        scored, total = self._gather.counts()
        if builder.kind is None and 0 < scored < total:
            what = "detections" if decide_kind(builder, scored, total) else "ground truth"
            self._gather.log.note(f"{scored} of {total} objects have a score, so they are taken as {what}")
        self._gather.finish(field="object/confidence")
