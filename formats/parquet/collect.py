"""Collect images, classes and boxes over all files and row groups of a Parquet source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from odm.files import Source
from odm.formats._shared.codes import NO_IMAGE_NAME, UNKNOWN_CLASS
from odm.formats._shared.gather import Gather
from odm.formats._shared.pictures import ImageOptions
from odm.formats._shared.tables.images import Origin, TableImages
from odm.formats.parquet.arrow import encode_column
from odm.issues import Log, Trusted, shorten
from odm.names import BAD_CLASS_NAME, accept_name, refuse_class
from odm.tables import FREQUENCIES, Builder, Floats, Ints, Kind


class Collect:
    """The images, classes and boxes of one source, until all files have been read."""

    def __init__(self, source: Source, builder: Builder, log: Log, options: ImageOptions) -> None:
        """Start without images, classes and boxes."""
        self.source, self.builder, self.log = source, builder, log
        self.gather = Gather(source, builder, log, options, borrow_sizes="needed")
        self.images = TableImages()
        self.class_names: Sequence[str] | None = None
        """The class names of class numbers, where the file has them."""
        self.kind: Kind | None = None
        """Whether an empty file holds ground truth or detections, where its metadata state it."""
        self.nested_boxes: list[tuple[str, Floats, Floats, dict[str, Any]]] = []
        """Boxes whose form is open: path, (n, 4) numbers, (n, 2) sizes of the images, and other columns."""
        self.form: str | None = None
        """The form that a layout determines."""
        self._has_class_numbers = False
        """Whether a class is known only by its number."""
        self._classes: dict[Any, int] = {}
        """The row of each class name or number so far, -1 if it is not valid."""

    def find_images(self, column: Any, origin: Origin, first_line: int) -> Ints:
        """Return (n,) the image numbers of a column of names, -1 after an issue for a null or bad name.

        `first_line` is the number of its first row in the file, from 1.
        """
        names, codes = encode_column(column)
        for row in np.flatnonzero(codes < 0).tolist():
            self.log.report(NO_IMAGE_NAME, origin.path, line=first_line + row, field=origin.field)
        first_rows = np.zeros(len(names), np.int32)
        rows_backwards = np.flatnonzero(codes >= 0)[::-1]
        first_rows[codes[rows_backwards]] = rows_backwards  # the first row of a name is written last
        image_of_code = self.add_named([str(name) for name in names], first_rows + first_line, origin)
        return np.append(image_of_code, -1)[codes]  # the last is for the code -1, null

    def add_named(self, names: list[str], lines: Ints, origin: Origin) -> Ints:
        """Return (n,) image numbers of n names, -1 after an issue for a bad name; `lines` (n,) are rows."""
        n_known = len(self.images.rows)  # images from this number on are new
        images, warned = self.images.take(names, lines, origin)
        is_unusable = ~self.images.is_usable[images]
        # `accept_name` reports: each new name with a warning, and each new one that is not usable.
        for row in sorted({*warned, *np.flatnonzero(is_unusable & (images >= n_known)).tolist()}):
            accept_name(names[row], self.log, origin.path, line=int(lines[row]), field=origin.field)
        images[is_unusable] = -1
        return images

    # -- classes

    def declare_classes(self, classes: Sequence[Any]) -> None:
        """Add the classes that the metadata list: names, or mappings with name, id and frequency.

        Names that are not valid are left out. The first list also says what class numbers mean.
        """
        names = []
        for entry in classes:
            description = entry if isinstance(entry, dict) else {"name": entry}
            name = description.get("name")
            if not isinstance(name, str) or refuse_class(name) is not None:
                continue
            id_, frequency = description.get("id"), description.get("frequency")
            self._classes[name] = self.builder.category(
                name,
                source_id=id_ if isinstance(id_, int | str) and not isinstance(id_, bool) else None,
                frequency=frequency if frequency in FREQUENCIES else "",
            )
            names.append(name)
        self.class_names = self.class_names or names

    def find_category(self, value: Any, path: str, line: int, field: str) -> int:
        """Return the row of a class by its name or number; -1, after an issue, if it is not valid."""
        if value in self._classes:
            return self._classes[value]
        name = str(value)
        if isinstance(value, int):
            names = self.class_names
            if names and not 0 <= value < len(names):
                values: dict[str, Any] = {"n": len(names), "where": Trusted("the file's metadata")}
                self.log.report(UNKNOWN_CLASS, path, line=line, field=field, value=name, **values)
                self._classes[value] = -1
                return -1
            if names:
                name = names[value]
            else:
                self._has_class_numbers = True
        if (reason := refuse_class(name)) is not None:
            self.log.report(BAD_CLASS_NAME, path, line=line, field=shorten(field), value=name, reason=reason)
            self._classes[value] = -1
            return -1
        row = self._classes[value] = self.builder.category(name)
        return row

    # -- all files

    def finish(self) -> None:
        """Add images and boxes to the builder; without boxes the kind is that of the metadata."""
        gather, builder = self.gather, self.builder
        self.images.add_to(gather, needed=np.zeros(len(self.images.rows), bool))  # none must have a size
        builder.named = not self._has_class_numbers
        _, n_boxes = gather.count_boxes()
        if builder.kind is None and self.kind in ("gt", "det") and not n_boxes:
            builder.kind = self.kind
        gather.finish()
