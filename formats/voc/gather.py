"""Images and boxes of Pascal VOC XML as they are gathered from one file after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from odm.codes import SCORE_MISSING, SCORE_UNEXPECTED
from odm.files import Source, accept_name
from odm.formats._shared.codes import (
    DUPLICATE_IMAGE,
    FILE_NAME_DIFFERS,
    FILE_NAME_MISSING,
    SIZE_FROM_PICTURE,
    SIZE_MISSING,
)
from odm.formats._shared.pictures import Picture, Pictures
from odm.formats.voc.terms import FLAGS, VocOptions, count_from_zero
from odm.issues import Log
from odm.tables import Builder, stem


class Images:
    """The images, each named after its XML file."""

    def __init__(
        self,
        source: Source,
        builder: Builder,
        log: Log,
        options: VocOptions,
        folders: tuple[str, ...],
        splits: Mapping[str, str],
    ) -> None:
        self.paths: list[str] = []
        """The XML file of each image."""
        self._builder, self._log = builder, log
        self._pictures = Pictures(options, builder, log, source, folders)
        self._told = options.image_size is not None or options.image_sizes is not None
        self._splits = splits
        self._first: dict[str, str] = {}

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
        log, pictures = self._log, self._pictures
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
        picture: Picture | None = None
        if pictures:
            picture = pictures.named(name) if stem(name) != name else None
            if picture is None:
                picture = pictures.find(key, path=path)
            if picture is None and "/" in key:
                picture = pictures.find(key.rsplit("/", 1)[-1], path=path)
            if picture is not None and stem(name) == name:
                name += picture.name[len(stem(picture.name)) :]
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
        if not accept_name(name, log, path):
            return None
        if size is None:
            size = self._other_size(path, name, picture, size_line)
        first = self._first.setdefault(name, path)
        if first != path:
            log.report(DUPLICATE_IMAGE, path, value=name, first=first)
            return None
        width, height = size or (0, 0)
        self.paths.append(path)
        return self._builder.image(
            name,
            width=width,
            height=height,
            path=picture.path if picture else "",
            split=self._splits.get(key, ""),
            file=self._builder.file(path),
        )

    def _other_size(self, path: str, name: str, picture: Picture | None, line: int) -> tuple[int, int] | None:
        errors = self._log.errors
        size = self._pictures.size(name, picture)
        if size is None and picture is not None and self._log.errors == errors:
            size = self._pictures.size(name)
        if size is None:
            if self._log.errors == errors:
                self._log.report(SIZE_MISSING, path, line=line, field="size", value=name)
        elif picture is not None and not self._told:
            shown = f"{size[0]}x{size[1]}"
            self._log.report(SIZE_FROM_PICTURE, path, line=line, field="size", value=name, size=shown)
        return size


class Rows:
    """Columns of boxes as flat lists, turned into arrays a few ten thousand at a time."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self.image: list[int] = []
        self.category: list[int] = []
        self.edges: tuple[list[float], list[float], list[float], list[float]] = ([], [], [], [])
        self.score: list[float] = []
        self.flags: dict[str, list[bytes]] = {name: [] for name in FLAGS}
        self.line: list[int] = []
        self._chunks: list[dict[str, Any]] = []

    def pack(self, least: int = 50_000) -> None:
        """Turn what was gathered into arrays, if it is worth it."""
        n = len(self.image)
        if n < max(least, 1):
            return
        flags = np.zeros(n, np.uint16)
        for name, marks in self.flags.items():
            if b"1" in marks:
                flags |= (np.array(marks, "S1") == b"1") * np.uint16(FLAGS[name])
            marks.clear()
        xyxy = np.empty((n, 4))
        for i, column in enumerate(self.edges):
            xyxy[:, i] = column
            column.clear()
        chunk: dict[str, Any] = {"xyxy": xyxy, "flags": flags, "score": np.array(self.score)}
        for key in ("image", "category", "line"):
            chunk[key] = np.array(getattr(self, key), np.int32)
            getattr(self, key).clear()
        chunk["file"] = chunk["image"]  # every image is a file
        self.score.clear()
        self._chunks.append(chunk)

    def count(self, what: str, n: int = 1) -> None:
        """Count additions that are not kept."""
        extras = self._builder.extras
        extras[what] = extras.get(what, 0) + n

    def finish(self, log: Log, paths: Sequence[str], origin: int) -> None:
        """Decide what the boxes are, report those of the other kind, and hand the rest to the builder."""
        self.pack(1)
        builder = self._builder
        scored = sum(int(np.count_nonzero(~np.isnan(c["score"]))) for c in self._chunks)
        total = sum(len(c["score"]) for c in self._chunks)
        if builder.kind is None:
            builder.kind = "det" if scored * 2 > total else "gt"
            if 0 < scored < total:
                what = "detections" if builder.kind == "det" else "ground truth"
                log.note(f"{scored} of {total} objects have a score, so they are taken as {what}")
        wanted = builder.kind == "det"
        for chunk in self._chunks:
            wrong = np.isnan(chunk["score"]) == wanted
            if wrong.any():
                builder.skipped += int(np.count_nonzero(wrong))
                for row in np.nonzero(wrong)[0].tolist():
                    path, line = paths[chunk["file"][row]], int(chunk["line"][row])
                    if wanted:
                        log.report(SCORE_MISSING, path, line=line, field="object/confidence")
                    else:
                        value = float(chunk["score"][row])
                        log.report(SCORE_UNEXPECTED, path, line=line, field="object/confidence", value=value)
                chunk = {key: column[~wrong] for key, column in chunk.items()}  # noqa: PLW2901
            if origin:
                count_from_zero(chunk["xyxy"])
            if not wanted:
                del chunk["score"]
            builder.boxes(**chunk)
