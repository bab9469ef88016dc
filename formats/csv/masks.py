"""Masks of Open Images: a table beside the boxes, which names the picture of each mask and repeats its box.

FiftyOne's ``segmentations.csv`` is the same table. The picture of a mask may differ in size from the image.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from odm.files import Source
from odm.formats._shared.codes import WRONG_TYPE
from odm.formats._shared.shapes.pixel_masks import BadMask, encode_in_image, find_png, stretch
from odm.formats._shared.tables.csv_files import read_head_rows
from odm.issues import Log, Trusted
from odm.tables import Builder, Floats, Ints, Longs, Shapes

_SAME_EDGE = 2e-6
"""Fractions by which edges differ at most: the tables are written with six decimals or more."""
_KEY = {"MaskPath", "ImageID", "LabelName", "BoxXMin"}


def has_masks(source: Source, file: str) -> bool:
    """Whether a file is a table of masks, by its header."""
    return any(set(row) >= _KEY for row in read_head_rows(source, file, 1))


class ObjectMasks:
    """The masks that tables name, by the image, class and edges of their boxes."""

    def __init__(self, source: Source, builder: Builder, log: Log) -> None:
        self._source, self._builder, self._log = source, builder, log
        # Of all masks: PNG files; keys and edges, an array for each `add`; path and line in the table.
        self._names: list[str] = []
        self._keys: list[Longs] = []
        self._edges: list[Floats] = []
        self._locations: list[tuple[str, int]] = []
        self._by_name: dict[str, str] = {}
        """The PNG files below the source by their names."""

    def add(self, key: Longs, edges: Floats, names: Sequence[str], path: str, lines: Ints) -> None:
        """Add n masks.

        `key` (n,) stands for image and class, `edges` (n, 4) are those of the boxes as fractions, `names` the
        PNG files, and `path` and `lines` (n,) their rows in the table.
        """
        self._keys.append(key)
        self._edges.append(edges)
        self._names += names
        self._locations += [(path, line) for line in lines.tolist()]

    def match_shapes(self, key: Longs, edges: Floats, sizes: Longs) -> Shapes:
        """Return the masks of n boxes: each mask goes to one box with its key and edges.

        `key` (n,) and `edges` (n, 4) are of the boxes, as in `add`; `sizes` (n, 2) of their images, 1 if
        unknown. These masks no longer count as unread.
        """
        # the boxes with the image and class of mask m are order[first_boxes[m] : end_boxes[m]]
        order = np.argsort(key, kind="stable")
        key_of_mask = np.concatenate([np.zeros(0, np.int64), *self._keys])
        first_boxes, end_boxes = (
            np.searchsorted(key[order], key_of_mask, side=side) for side in ("left", "right")
        )
        all_edges = np.concatenate([np.zeros((0, 4)), *self._edges])
        texts: dict[int, bytes] = {}  # by the row of the box
        for mask in np.flatnonzero(end_boxes > first_boxes).tolist():
            rows = order[first_boxes[mask] : end_boxes[mask]]
            is_near = np.abs(edges[rows] - all_edges[mask]).max(axis=1) <= _SAME_EDGE
            row = next((row for row in rows[is_near].tolist() if row not in texts), None)
            if row is None or sizes[row].min() <= 1:  # no box, or one whose image has no known size
                continue
            if text := self._encode_mask(mask, *sizes[row].tolist()):
                texts[row] = text
        self._builder.extras["masks"] -= len(texts)
        data = np.frombuffer(b"".join(texts.values()), np.uint8)
        text_starts = np.cumsum([0, *map(len, texts.values())])
        return Shapes.none(len(key)).replace_rows(
            np.array([*texts], np.int64), Shapes.of_masks(data, text_starts)
        )

    def _encode_mask(self, mask: int, width: int, height: int) -> bytes:
        """Encode mask number `mask` in the size of its image as COCO's text; empty if it cannot be read."""
        name = self._names[mask]
        if (read_png := self._find_png(name)) is None:
            return b""
        try:
            pixels = stretch(read_png(None), width, height)  # `find_png` needs no argument here
            return encode_in_image(pixels, left=0, top=0, width=width, height=height)
        except BadMask as e:
            path, line = self._locations[mask]
            expected = Trusted(str(e))
            self._log.report(WRONG_TYPE, path, line=line, field="MaskPath", expected=expected, value=name)
            return b""

    def _find_png(self, name: str) -> Callable[[Any], Any] | None:
        """Find the PNG of a mask, anywhere below a folder source or beside a file.

        Returns a function that reads it, None if there is no such PNG.
        """
        if self._source.is_dir:
            if not self._by_name:
                self._by_name = {posixpath.basename(f): f for f in self._source.with_suffix(".png")}
            return find_png(self._source, self._by_name[name]) if name in self._by_name else None
        folders = ("", "masks/", f"masks/{name[:1].upper()}/")  # a folder for each first character
        return next((read for p in folders if (read := find_png(self._source, p + name)) is not None), None)
