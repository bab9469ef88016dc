"""Collect the images that rows of tables name: first location, size and image file of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from odm.formats._shared.codes import SIZE_FROM_PICTURE, SIZE_MISSING
from odm.formats._shared.gather import Gather, Location, Unsized, add_extension, decide_relative
from odm.issues import Log
from odm.names import accept_name, stem
from odm.tables import NO_ID, Ints, Longs


class Origin(msgspec.Struct, frozen=True, eq=False):
    """A file that names images, and its column for them."""

    file: int
    """The builder's number."""
    path: str
    field: str
    has_ids: bool = False
    """Whether images are named by an id rather than by a file name."""


class _Rows(dict[str, int]):
    """Numbers of image names, in the order of their first rows."""

    def __missing__(self, name: str) -> int:
        row = self[name] = len(self)
        return row


class TableImages:
    """The images of all tables of a source, by the number of their name."""

    def __init__(self) -> None:
        self.rows = _Rows()
        self.is_usable = np.zeros(0, bool)
        """Whether the name of an image may be used; this and the next column have room to grow."""
        self.sizes = np.zeros((0, 2), np.int64)
        self.zeros: set[int] = set()
        """Images whose size is given as 0."""
        self.frames: dict[int, tuple[str, int]] = {}
        """Video and frame number of images that have them, -1 for a frame that is not given."""
        self.splits: dict[int, str] = {}
        self.ids: dict[int, Any] = {}
        self.origin: list[Origin] = []
        """The file that names each image first, and in the next column the line there."""
        self.line: list[int] = []

    def take(self, names: Sequence[str], lines: Ints, origin: Origin) -> tuple[Ints, list[int]]:
        """Number the images of n rows by their `names`; new names are checked.

        Returns (n,) image numbers, and the first rows of new names that are usable with a warning.
        """
        n_before = len(self.rows)  # looking a new name up adds it
        images = np.fromiter(map(self.rows.__getitem__, names), np.int32, len(names))
        n_new = len(self.rows) - n_before
        if not n_new:
            return images, []
        # From the last to the first, so that the first row of an image is the one that is written last.
        new_rows_backwards = np.nonzero(images >= n_before)[0][::-1]
        first_rows = np.zeros(n_new, np.int64)
        first_rows[images[new_rows_backwards] - n_before] = new_rows_backwards
        self.line += lines[first_rows].tolist()
        self.origin += [origin] * n_new
        n_missing = n_before + n_new - len(self.is_usable)
        if n_missing > 0:
            n_missing += len(self.is_usable)  # at least twice the room, so that it seldom grows
            self.is_usable = np.concatenate([self.is_usable, np.zeros(n_missing, bool)])
            self.sizes = np.concatenate([self.sizes, np.zeros((n_missing, 2), np.int64)])
        # What is wrong with a name is only counted here; the caller reports it with the row.
        scratch_log, n_reported = Log(keep=0), 0
        accepted: list[bool] = []
        warned_rows: list[int] = []
        for row in first_rows.tolist():
            accepted.append(accept_name(names[row], scratch_log, origin.path))
            if len(scratch_log.counts) and scratch_log.counts.total() > n_reported:
                n_reported = scratch_log.counts.total()
                warned_rows += [row] if accepted[-1] else []
        self.is_usable[n_before : n_before + n_new] = accepted
        return images, warned_rows

    def find_rows(self) -> NDArray[np.int64]:
        """Return (images,) the builder's row of each image whose name may be used; ignore it for others."""
        return np.cumsum(self.is_usable) - 1  # [True False True] -> [0 0 1]

    def settle(self, images: Ints, sizes: Longs) -> NDArray[np.bool_]:
        """Take the (n, 2) sizes of n rows, of (n,) `images`; return (n,) True for those unlike their image's.

        The most frequent size of an image counts, else the first. A size that was taken before stays.
        """
        is_new = self.sizes[images, 0] == 0
        # Backward, so that the first row of an image is written last.
        backward = np.nonzero(is_new)[0][::-1]
        self.sizes[images[backward]] = sizes[backward]
        differs: NDArray[np.bool_] = (self.sizes[images] != sizes).any(axis=1)
        if not differs.any():
            return differs
        # New images with several sizes, and how often each is.
        sizes_of_image: dict[int, Counter[tuple[int, ...]]] = {
            image: Counter() for image in images[differs & is_new].tolist()
        }
        in_doubt = np.isin(images, list(sizes_of_image))
        for image, size in zip(images[in_doubt].tolist(), sizes[in_doubt].tolist(), strict=True):
            sizes_of_image[image][tuple(size)] += 1
        for image, counts in sizes_of_image.items():
            ((size, _),) = counts.most_common(1)  # of equals the first one met
            self.sizes[image] = size
        differs[:] = (self.sizes[images] != sizes).any(axis=1)
        return differs

    def add_to(self, gather: Gather, needed: NDArray[np.bool_], *, pixels: bool = True) -> int:
        """Add the images to the builder with the sizes that are known, and look for the others.

        Images where `needed` is True must have a size; a size that is given as 0 and found nowhere is
        reported. Afterwards `sizes` holds all sizes: 0 where unknown, or 1 if all coordinates stay relative,
        which they cannot if any box is in `pixels`. Returns how many images have a size that no row has.
        """
        if gather.seeks_sizes or needed.any():
            return self._add_with_pictures(gather, needed, pixels=pixels)
        names, is_valid = list(self.rows), self.is_usable[: len(self.rows)]
        for i in sorted(self.zeros):
            if self.sizes[i, 0] == 0 and is_valid[i]:
                path, line = self.origin[i].path, self.line[i]
                gather.log.report(SIZE_MISSING, path, line=line, field="width", value=names[i])
        lines = np.array(self.line, np.int64)
        files = np.array([origin.file for origin in self.origin], np.int32)
        for file in np.unique(files).tolist():
            rows = np.nonzero((files == file) & is_valid)[0]
            listed = rows.tolist()
            gather.builder.add_images(
                [names[i] for i in listed],
                width=self.sizes[rows, 0],
                height=self.sizes[rows, 1],
                source_id=[self.ids.get(i, NO_ID) for i in listed] if self.ids else None,
                split=[self.splits.get(i, "") for i in listed] if self.splits else None,
                file=file,
                line=lines[rows].tolist(),
            )
        return 0

    def _add_with_pictures(self, gather: Gather, needed: NDArray[np.bool_], *, pixels: bool) -> int:
        """Do what `add_to` does one image at a time, with image files and sizes from elsewhere."""
        n_sizes, log = 0, gather.log
        unknown: list[Unsized] = []
        for i, name in enumerate(self.rows):
            if not self.is_usable[i]:
                continue
            origin, location = self.origin[i], Location(self.origin[i].path, line=self.line[i])
            lacks_extension = stem(name) == name
            find = gather.find_picture if origin.has_ids or lacks_extension else gather.find_exact
            picture = find(name, location) if gather.pictures else None
            # An id gets the extension of its picture, unless another image has that name.
            full_name = add_extension(name, picture)
            gets_extension = origin.has_ids and lacks_extension and full_name not in self.rows
            has_size = bool(self.sizes[i, 0])
            row = gather.image(
                full_name if gets_extension else name,
                location,
                size=(int(self.sizes[i, 0]), int(self.sizes[i, 1])) if has_size else None,
                picture=picture,
                needed=bool(needed[i]),
                accepted=True,
                split=self.splits.get(i, ""),
                source_id=self.ids.get(i),
                file=origin.file,
                line=location.line,
            )
            size = (0, 0) if row is None else gather.builder.image_size(row)
            if size[0] and not has_size:
                self.sizes[i] = size
                n_sizes += 1
                if i in self.zeros:
                    shown_size = f"{size[0]}x{size[1]}"
                    location.report(log, SIZE_FROM_PICTURE, field="width", value=name, size=shown_size)
            elif needed[i] and not has_size:
                unknown.append(Unsized(name, picture, gather.pictures, location, origin.field))
        if unknown and decide_relative(gather.builder, unknown, sized=pixels or bool(self.sizes.any())):
            self.sizes[:] = 1  # which leaves the fractions as they are
        return n_sizes
