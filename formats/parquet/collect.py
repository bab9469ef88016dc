"""What the rows and row groups of Parquet files have in common: images and classes by their first mention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.files import Source
from odm.formats._shared.codes import NO_IMAGE_NAME, UNKNOWN_CLASS
from odm.formats._shared.gather import At, Gather
from odm.formats._shared.pictures import ImageOptions
from odm.formats.parquet.arrow import codes_of
from odm.issues import Log, Trusted, shorten
from odm.names import BAD_CLASS_NAME, accept_name, refuse_class
from odm.tables import FREQUENCIES, NO_ID, Builder, Ints, Kind, Longs


class Collect:
    """Images, classes and boxes of one source, until all files have been read."""

    def __init__(self, source: Source, builder: Builder, log: Log, options: ImageOptions) -> None:
        self.source, self.builder, self.log = source, builder, log
        self.gather = Gather(source, builder, log, options, ask_other="needed")
        self._images: dict[str, int] = {}
        self._bad: set[str] = set()
        self._order: list[tuple[str, int, int]] = []
        """Name, file and row of every image, in order of first appearance."""
        self._sizes = np.zeros((0, 2), np.int64)
        self._ids: dict[int, Any] = {}
        self._splits: dict[int, str] = {}
        self.class_names: Sequence[str] | None = None
        """The class names of class numbers, where the file has them."""
        self.kind: Kind | None = None
        """Whether an empty file holds ground truth or detections, where its metadata state it."""
        self._numbered = False
        self._classes: dict[Any, int] = {}

    # -- images

    def images(
        self, names: Sequence[str], path: str, lines: Sequence[int], file: int, field: str = "image"
    ) -> Ints:
        """(n,) numbers of the images of these names, -1 where a name cannot be one, which is reported."""
        rows = []
        for name, line in zip(names, lines, strict=True):
            row = self._images.get(name, -1)
            if row < 0 and name not in self._bad:
                if accept_name(name, self.log, path, line=line, field=field):
                    row = self._images[name] = len(self._order)
                    self._order.append((name, file, line))
                else:
                    self._bad.add(name)
            rows.append(row)
        missing = len(self._order) - len(self._sizes)
        if missing > 0:
            self._sizes = np.concatenate([self._sizes, np.zeros((missing + len(self._sizes), 2), np.int64)])
        return np.array(rows, np.int32)

    def images_of(self, column: Any, path: str, first: int, file: int, field: str) -> Ints:
        """(n,) numbers of the images that a column names, the first row of which has the number `first`.

        -1 where a name is null or cannot be one, which is reported.
        """
        names, codes = codes_of(column)
        for row in np.flatnonzero(codes < 0).tolist():
            self.log.report(NO_IMAGE_NAME, path, line=first + row, field=field)
        met = np.zeros(len(names), np.int64)
        backward = np.flatnonzero(codes >= 0)[::-1]
        met[codes[backward]] = backward  # the last one written is the first one met
        rows = self.images([str(name) for name in names], path, (met + first).tolist(), file, field)
        return np.append(rows, -1).astype(np.int32)[codes]

    def builder_name(self, image: int) -> str:
        """The name of an image by its number."""
        return self._order[image][0]

    def settle(self, image: Ints, size: Longs) -> Mapping[int, tuple[Any, Any]]:
        """Take the (n, 2) sizes of images; answers for rows that differ their size and the one taken."""
        new = (self._sizes[image] == 0).all(axis=1)
        backward = np.flatnonzero(new)[::-1]
        self._sizes[image[backward]] = size[backward]
        taken = self._sizes[image]
        differs = np.flatnonzero((taken != size).any(axis=1))
        return {row: (size[row].tolist(), taken[row].tolist()) for row in differs.tolist()}

    def image_columns(self, image: Ints, ids: NDArray[Any] | None, splits: NDArray[Any] | None) -> None:
        """Take the image columns other than names and sizes from each image's first row."""
        if ids is None and splits is None:
            return
        some, first = np.unique(image, return_index=True)
        for row, at in zip(some.tolist(), first.tolist(), strict=True):
            if row < 0:
                continue
            if ids is not None and ids[at] != NO_ID:
                self._ids.setdefault(row, ids[at] if isinstance(ids[at], str) else int(ids[at]))
            if splits is not None and splits[at]:
                self._splits.setdefault(row, str(splits[at]))

    # -- classes

    def declare(self, classes: Sequence[Any]) -> None:
        """Add the classes that the metadata list: names, or mappings with name, id and frequency."""
        names = []
        for entry in classes:
            said = entry if isinstance(entry, dict) else {"name": entry}
            name = said.get("name")
            if not isinstance(name, str) or refuse_class(name) is not None:
                continue
            number, frequency = said.get("id"), said.get("frequency")
            self._classes[name] = self.builder.category(
                name,
                source_id=number if isinstance(number, int | str) and not isinstance(number, bool) else None,
                frequency=frequency if frequency in FREQUENCIES else "",
            )
            names.append(name)
        self.class_names = self.class_names or names

    def category(self, value: Any, path: str, line: int, field: str) -> int:
        """The row of a class by its name or number, -1 and an issue where it cannot be one."""
        if value in self._classes:
            return self._classes[value]
        name = str(value)
        if isinstance(value, int):
            names = self.class_names
            if names and not 0 <= value < len(names):
                self.log.report(
                    UNKNOWN_CLASS,
                    path,
                    line=line,
                    field=field,
                    value=name,
                    n=len(names),
                    where=Trusted("the file's metadata"),
                )
                self._classes[value] = -1
                return -1
            if names:
                name = names[value]
            else:
                self._numbered = True
        if (reason := refuse_class(name)) is not None:
            self.log.report(BAD_CLASS_NAME, path, line=line, field=shorten(field), value=name, reason=reason)
            self._classes[value] = -1
            return -1
        row = self._classes[value] = self.builder.category(name)
        return row

    # -- all files

    def finish(self) -> None:
        """Hand images and boxes to the builder."""
        gather, builder = self.gather, self.builder
        names = [name for name, _, _ in self._order]
        size = self._sizes[: len(names)]
        if gather.asks:
            for row in np.flatnonzero((size == 0).any(axis=1)).tolist():
                picture = gather.picture(names[row], _at(self.builder, self._order[row]))
                size[row] = gather.pictures.size(names[row], picture) or (0, 0)
        files = np.array([file for _, file, _ in self._order], np.int64)
        start = 0
        for stop in [*(np.flatnonzero(np.diff(files)) + 1).tolist(), len(files)]:
            if stop > start:
                rows = range(start, stop)
                builder.add_images(
                    names[start:stop],
                    width=size[start:stop, 0],
                    height=size[start:stop, 1],
                    source_id=[self._ids.get(row, NO_ID) for row in rows],
                    split=[self._splits.get(row, "") for row in rows],
                    file=int(files[start]),
                    line=[line for _, _, line in self._order[start:stop]],
                )
            start = stop
        builder.named = not self._numbered
        if builder.kind is None and self.kind in ("gt", "det") and not gather.counts()[1]:
            builder.kind = self.kind
        gather.finish()


def _at(builder: Builder, place: tuple[str, int, int]) -> At:
    return At(builder.location(place[1], place[2])[0], line=place[2])
