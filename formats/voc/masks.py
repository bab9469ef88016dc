"""Read the masks of objects of Pascal VOC: an image file per image, whose pixels are numbers of objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.files import Source
from odm.formats._shared.codes import WRONG_TYPE
from odm.formats._shared.image_names import Place
from odm.formats._shared.shapes.pixel_masks import BadMask, decode_png_numbers, encode_numbers, find_png
from odm.issues import Log, Trusted
from odm.tables import Builder, Ints, Shapes

_BORDER = 255
"""The number of pixels that belong to no object, around each."""


def find_masks(source: Source, file_images: Sequence[tuple[str, Place]]) -> dict[str, tuple[str, Any]]:
    """Find the file of masks of each image in a tree: by its key the path and a function that reads it."""
    masks = {}
    for file, image in file_images:
        if image.root is not None and source.is_dir:
            inner = file[len(image.root) :].partition("/")[2]  # Annotations/a/b.xml: a/b.xml
            mask_file = f"{image.root}SegmentationObject/{inner.rpartition('.')[0]}.png"
            if (read := find_png(source, mask_file, decode_png_numbers)) is not None:
                masks[image.key] = source.full(mask_file), read
    return masks


class ObjectMasks:
    """The masks of the objects of some images, read when their boxes are."""

    def __init__(
        self, pictures: Mapping[str, tuple[str, Callable[[Any], Any]]], builder: Builder, log: Log
    ) -> None:
        """Keep the files of masks: by the key of an image, the path and a function that reads it."""
        self._by_key, self._builder, self._log = pictures, builder, log
        self._of_image: dict[int, tuple[str, Callable[[Any], Any]]] = {}  # the same by row
        self._left_out: dict[int, list[int]] = {}  # numbers of objects without a box, by row

    def __bool__(self) -> bool:
        """Whether an image has masks."""
        return bool(self._by_key)

    def note_image(self, row: int, key: str) -> None:
        """Note the row of the image with this key."""
        if key in self._by_key:
            self._of_image[row] = self._by_key[key]

    def leave_out(self, row: int | None, object_number: int) -> None:
        """Note that an object of the image, by its number from 1, has no box."""
        if row is not None:
            self._left_out.setdefault(row, []).append(object_number)

    def make_shapes(self, images: Ints) -> Shapes:
        """Return the masks of n boxes; `images` (n,) are their image rows, ascending, with all their boxes.

        The k-th object of an image, with those that were left out, has the pixels with the number k. Numbers
        that no object has are counted as unread.
        """
        rows, shapes_of_images = [np.zeros(0, np.int64)], [Shapes.none(0)]
        for image in np.unique(images).tolist():
            if image not in self._of_image:
                continue
            # The boxes of the image, and the numbers of their objects: 3 boxes, object 2 left out: [1, 3, 4].
            box_begin, box_end = np.searchsorted(images, [image, image + 1]).tolist()
            left_out = self._left_out.get(image, ())
            numbers = np.setdiff1d(np.arange(1, box_end - box_begin + len(left_out) + 1), left_out)
            if (pixels := self._read_pixels(image)) is not None:
                text, run_starts = encode_numbers(pixels, numbers)
                is_drawn = np.isin(numbers, pixels) & (numbers < _BORDER)
                shapes_of_images.append(Shapes.of_masks(text, run_starts).take(is_drawn))
                rows.append(box_begin + np.flatnonzero(is_drawn))
                if unknown := {*np.unique(pixels).tolist()} - {0, _BORDER, *numbers.tolist(), *left_out}:
                    self._builder.extras["masks without an object"] += len(unknown)
        return Shapes.none(len(images)).replace_rows(
            np.concatenate(rows), Shapes.concatenate(shapes_of_images)
        )

    def _read_pixels(self, image: int) -> NDArray[np.uint8] | None:
        """Return the (h, w) object numbers in an image's pixels; None, after an issue, if they are faulty.

        They set the size of the image if it is unknown, and else must have it.
        """
        path, read = self._of_image[image]
        width, height = self._builder.image_size(image)
        try:
            pixels: NDArray[np.uint8] = read(None)
        except BadMask as e:
            self._log.report(WRONG_TYPE, path, expected=str(e), value=Trusted("another file"))
            return None
        h, w = pixels.shape
        if min(width, height) < 1:
            self._builder.size_image(image, w, h)
        elif (w, h) != (width, height):
            expected = Trusted(f"a picture of the image's size {width}x{height}")
            self._log.report(WRONG_TYPE, path, expected=expected, value=Trusted(f"{w}x{h}"))
            return None
        return pixels
