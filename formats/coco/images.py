"""The list of images in a COCO file: ids, names and sizes, each checked, as rows of the builder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from odm.formats._shared.codes import (
    BAD_IMAGE_SIZE,
    DUPLICATE_IMAGE,
    FILE_NAME_MISSING,
    SIZE_FROM_PICTURE,
    SIZE_MISSING,
    UNNAMED_IMAGE,
    WRONG_TYPE,
)
from odm.formats._shared.json.columns import Document, show
from odm.formats._shared.json.record_types import Chunk
from odm.formats._shared.pictures import Pictures
from odm.formats.coco.boxes import Table
from odm.formats.coco.ids import add_ids, as_list
from odm.formats.coco.values import Values, as_text
from odm.formats.coco.videos import Frames
from odm.issues import Trusted, printable
from odm.names import accept_name, is_usual
from odm.tables import Builder, Id
from odm.tables.extra_fields import ExtraRows

Labels = Mapping[str, list[tuple[int, list[int]]]]
"""By key of `Dialect.labels`, the row of each image with such a list, and the class ids in the list."""


class ImageList:
    """The images of one file: `read` collects them, and adds them to the builder at once.

    Parameters
    ----------
    pictures, folders
        The image files, and the folders in which those of this file may be; None if the records alone give
        the sizes.
    location_of_name
        The file and index of the image that has a name, in all files of the source; it is added to.
    """

    def __init__(
        self,
        values: Values,
        builder: Builder,
        pictures: Pictures | None,
        folders: tuple[str, ...],
        location_of_name: dict[str, tuple[str, int]],
    ) -> None:
        """Start without images; their rows begin after those that the builder has."""
        self._values, self._builder, self._log, self._path = values, builder, values.log, values.path
        self._pictures, self._folders = pictures, folders
        self._location_of_name = location_of_name
        self._first_row = builder.n_images
        self._index_of_id: dict[Id, int] = {}
        self._repeated_names: set[str] = set()
        self._images: list[tuple[str, int, int, str, Id, int]] = []
        """Name, width, height, path of the image file, id and index in the list of each valid image."""

    def read(self, document: Document, split: str, table: Table, frames: Frames, labels: Labels) -> None:
        """Add the images of the list that begins here; invalid ones are reported and have no row.

        `table` gets the row of each id, `frames` the frame numbers, and `labels` the lists of class ids.
        """
        values, builder, dialect = self._values, self._builder, self._values.dialect
        extra_rows = ExtraRows() if builder.keeps_extra else None
        # `_take` takes chunks of usual records at once; the records of all others come one by one.
        for i, record in values.read_entries(
            document, "/images", dialect.image, extra_rows, take=lambda chunk: self._take(chunk, table)
        ):
            location = f"/images/{i}"
            id_ = values.parse_id(record, "id", location)
            key, name = dialect.name_of(record)
            name = as_text(name)
            if name is not None and not isinstance(name, str):
                values.report_wrong(WRONG_TYPE, location, key, "text", name)
            if id_ is None:
                continue
            if self._index_of_id.setdefault(id_, i) != i:
                values.report_duplicate_id(location, id_, f"#/images/{self._index_of_id[id_]}")
                continue
            table.images[id_] = -2  # until it is valid: boxes of this image are then not reported
            name = self._choose_name(name, key, id_, i)
            if name is None:
                continue
            row = table.images[id_] = self._first_row + len(self._images)
            self._images.append((name, *self._find_size(name, record, location), id_, i))
            if "video_id" in record:
                frames.note_frame(row, record)
            for list_key, pairs in labels.items():
                if classes := self._parse_whole_numbers(record.get(list_key), location, list_key):
                    pairs.append((row, classes))
        if self._repeated_names:
            add_ids(self._images, self._repeated_names, self._location_of_name, self._path, self._log)
        if self._images:
            table.file = builder.file(self._path, "/images")
            self._add_all(split, table.file, extra_rows)

    def _add_all(self, split: str, file: int, extra_rows: ExtraRows | None) -> None:
        """Add the images, with their rows of `extra_rows`, to the builder; `file` is its file number."""
        names, widths, heights, pictures, ids, indices = zip(*self._images, strict=True)
        n = len(names)
        self._builder.add_images(
            names,
            width=np.array(widths, np.int32),
            height=np.array(heights, np.int32),
            source_id=ids,
            path=pictures,
            split=[split] * n,
            file=file,
            line=indices,
        )
        if extra_rows is not None:
            rows = range(self._first_row, self._first_row + n)
            self._builder.add_extra("images", rows, extra_rows.take(indices))

    def _take(self, chunk: Chunk, table: Table) -> bool:
        """Take the images of a chunk at once; return False, taking none, if one may need an issue.

        All must have just an id, a name and a size, and new, usual names.
        """
        if chunk.columns.keys() != {"id", "file_name", "width", "height"} or self._pictures is not None:
            return False  # other keys, or image files to be found one by one
        ids, names, *sizes = (chunk.columns[key] for key in ("id", "file_name", "width", "height"))
        if any(isinstance(size, list) or ((size <= 0) | (size >= 2**31)).any() for size in sizes):
            return False
        indices = range(chunk.start, chunk.start + chunk.n)
        new_ids = dict(zip(as_list(ids), indices, strict=True))
        locations = {name: (table.path, i) for name, i in zip(names, indices, strict=True)}
        has_repeats = len(new_ids) < chunk.n or len(locations) < chunk.n
        are_new_ids = self._index_of_id.keys().isdisjoint(new_ids)
        are_new_names = self._location_of_name.keys().isdisjoint(locations)
        if has_repeats or not (are_new_ids and are_new_names):
            return False
        if None in locations or not all(map(is_usual, names)):
            return False
        first_row = self._first_row + len(self._images)
        table.images.update(zip(new_ids, range(first_row, first_row + chunk.n), strict=True))
        self._index_of_id.update(new_ids)
        self._location_of_name.update(locations)
        no_paths = [""] * chunk.n
        self._images += zip(names, *map(as_list, sizes), no_paths, new_ids, indices, strict=True)
        return True

    # -- values of an image

    def _choose_name(self, name: Any, key: str, id_: Id, i: int) -> str | None:
        """Return the name of image i, else its id if the dialect allows that; None if it cannot be used.

        `name` is the value under `key`. Names that are missing, cannot be those of files, or are also in
        another file are reported. A value of another type than text was reported before.
        """
        location = f"/images/{i}"
        if name is None and self._values.dialect.id_names:
            name = str(id_)
            self._values.report(FILE_NAME_MISSING, location, where="file_name", name=name, source="its id")
        elif name is None:
            self._log.report(UNNAMED_IMAGE, self._path, pointer=location, field=key)
        if not isinstance(name, str):
            return None
        pointer = f"{location}/{key}"
        if not is_usual(name) and not accept_name(name, self._log, self._path, pointer=pointer, field=key):
            return None
        return name if self._has_unique_name(name, i, key) else None

    def _has_unique_name(self, name: str, i: int, key: str) -> bool:
        """Whether no other file has this name, else report it; a repeat in this file is only noted."""
        first_path, first_index = self._location_of_name.setdefault(name, (self._path, i))
        if first_path != self._path:
            earlier = Trusted(f"{printable(first_path)}#/images/{first_index}")
            pointer = f"/images/{i}"
            self._log.report(
                DUPLICATE_IMAGE, self._path, pointer=pointer, field=key, value=name, first=earlier
            )
        elif first_index != i:
            self._repeated_names.add(name)
        return first_path == self._path

    def _find_size(self, name: str, record: Mapping[str, Any], location: str) -> tuple[int, int, str]:
        """Return width and height, 0 if unknown, and the path of the image file, "" if there is none.

        Without a size in the record, that of the options or, with an issue, of the image file is returned.
        """
        pictures = self._pictures
        width, height = record.get("width"), record.get("height")
        if type(width) is type(height) is int and 0 < width < 2**31 and 0 < height < 2**31 and not pictures:
            return width, height, ""  # the usual case, first because it is fast
        width, height, has_fault = self._parse_size(record, location)
        picture = pictures.find_exact(name, *self._folders) if pictures is not None else None
        file = picture.path if picture else ""
        if min(width, height) > 0 or has_fault:
            return width, height, file
        if pictures is not None:
            if explicit := pictures.find_size(name):  # without the image file: that of the options
                return *explicit, file
            if picture and (picture_size := pictures.find_size(name, picture)):
                shown = f"{picture_size[0]}x{picture_size[1]}"
                self._values.report(SIZE_FROM_PICTURE, location, value=name, size=shown)
                return *picture_size, file
        self._values.report(SIZE_MISSING, location, value=name)
        return 0, 0, file

    def _parse_size(self, record: Mapping[str, Any], location: str) -> tuple[int, int, bool]:
        """Return width and height of a record, 0 if missing or faulty, and whether a fault was reported."""
        size, has_fault = [], False
        for key in ("width", "height"):
            pixels = record.get(key)
            if pixels is None:
                pixels = 0
            elif isinstance(pixels, float) and pixels.is_integer():
                pixels = int(pixels)
            if type(pixels) is not int or not 0 <= pixels < 2**31:
                self._values.report(BAD_IMAGE_SIZE, location, key, value=Trusted(show(record[key])))
                has_fault, pixels = True, 0
            size.append(pixels)
        width, height = size
        return width, height, has_fault

    def _parse_whole_numbers(self, value: Any, location: str, key: str) -> list[int]:
        """Return a list of whole numbers, empty for null; empty after an issue for any other value."""
        values = self._values
        if value is None:
            return []
        if not isinstance(value, list):
            values.report_wrong(WRONG_TYPE, location, key, "a list of whole numbers", value)
            return []
        wrong_positions = [i for i, item in enumerate(value) if type(item) is not int]
        for i in wrong_positions:
            values.report_wrong(WRONG_TYPE, f"{location}/{key}/{i}", "", "a whole number", value[i])
        return [] if wrong_positions else value
