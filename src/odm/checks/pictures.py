"""Annotations against the pictures they describe."""

from __future__ import annotations

from collections.abc import Mapping

from odm.issues import Code, Log, Trusted
from odm.tables import Dataset

PICTURE_SIZE = Code(
    "picture-size-differs",
    "warning",
    "the annotations say {value} pixels, but the picture has {real}",
    "correct the size, or use the picture that was annotated",
    "If the picture was resized after annotation, every box is in the wrong place.",
)
PICTURE_TURNED = Code(
    "picture-size-swapped",
    "warning",
    "the annotations say {value} pixels, but the picture has {real}: width and height are swapped",
    "check the EXIF orientation of the picture",
    "Some tools annotate a picture as stored, others as displayed. If the two differ by a quarter turn, "
    "every box is in the wrong place.",
)


def compare_pictures(dataset: Dataset, sizes: Mapping[int, tuple[int, int]], log: Log) -> None:
    """Report images whose size differs from that of their picture.

    `sizes` gives width and height as a viewer shows the picture, by image row.
    """
    images = dataset.images
    for row, real in sizes.items():
        said = int(images.width[row]), int(images.height[row])
        if min(said) <= 0 or said == real:
            continue
        path, line, pointer = dataset.image_place(row)
        code = PICTURE_TURNED if said == real[::-1] else PICTURE_SIZE
        shown = [Trusted("x".join(map(str, size))) for size in (said, real)]
        log.report(code, path, line=line, pointer=pointer, value=shown[0], real=shown[1])
