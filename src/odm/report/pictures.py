"""The pictures of a report: made small, turned as a viewer shows them, and encoded again without metadata."""

from __future__ import annotations

import dataclasses
import io
import os
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from odm.files import Unreadable, open_binary

if TYPE_CHECKING:
    from PIL import Image

QUALITY = 75
"""Of JPEG."""

TURNED = (5, 6, 7, 8)
"""EXIF orientations that exchange width and height."""

SAME_SHAPE = 0.02
"""By how much the ratio of width to height may differ where a picture is a scaled copy of an image."""


@dataclasses.dataclass(frozen=True, slots=True)
class Picture:
    """An image of the data set, and where its picture lies."""

    name: str
    """As in the data set, with ``/``."""
    path: str = ""
    """Empty where there is no picture."""
    width: int = 0
    """Pixels as the data set gives them, 0 = unknown."""
    height: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Shot:
    """A picture as shown: its JPEG, the size of the image in pixels, and a remark."""

    jpeg: bytes
    """Empty where there is nothing to show."""
    width: int
    height: int
    remark: str = ""


def shots(pictures: Sequence[Picture], size: int) -> Iterator[Shot]:
    """The pictures with a longest side of at most `size` pixels, in order.

    Only a few are held at a time. A picture that cannot be shown is answered with the reason.
    """
    workers = min(4, os.cpu_count() or 1)
    pending: deque[Future[Shot]] = deque()
    with warnings.catch_warnings(), ThreadPoolExecutor(workers) as pool:
        warnings.simplefilter("ignore")  # of large pictures, and of odd metadata
        for picture in pictures:
            pending.append(pool.submit(_shot, picture, size))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _shot(picture: Picture, size: int) -> Shot:
    known = picture.width, picture.height
    if not picture.path:
        return Shot(b"", *known, "no picture")
    from PIL import Image, UnidentifiedImageError

    try:
        with open_binary(picture.path) as stream, Image.open(stream) as image:
            return _shrink(image, known, size)
    except Unreadable as e:
        reason = str(e)
    except UnidentifiedImageError:
        reason = "it is truncated or of an unknown type"
    except Image.DecompressionBombError:
        reason = "it has too many pixels"
    except Exception as e:  # noqa: BLE001 -- a damaged picture makes Pillow raise almost anything
        reason = f"it is damaged ({type(e).__name__})"
    return Shot(b"", *known, f"the picture cannot be read: {reason}")


def _shrink(image: Image.Image, known: tuple[int, int], size: int) -> Shot:
    from PIL import ExifTags, Image, ImageOps

    stored = image.size
    # Of a TIFF file Pillow turns the pixels itself.
    orientation = 1 if image.format == "TIFF" else image.getexif().get(ExifTags.Base.Orientation, 1)
    turned = stored[::-1] if orientation in TURNED else stored
    is_known = min(known) > 0
    turn = not is_known or known == turned or known != stored
    shape = turned if turn else stored
    remark = ""
    if is_known and known != shape:
        if not _same_shape(known, shape) and _same_shape(known, stored):
            turn, shape = False, stored
        text = f"{shape[0]} x {shape[1]}, but the data set says {known[0]} x {known[1]}"
        if not _same_shape(known, shape):
            return Shot(b"", *known, f"the picture is {text}")
        remark = f"scaled: the picture is {text}"
    image.draft("RGB", (size, size))
    small = _rgb(image)
    small.thumbnail((size, size), Image.Resampling.BILINEAR, reducing_gap=2.0)
    if turn and orientation != 1:
        small = ImageOps.exif_transpose(_with_orientation(small, orientation))
    out = io.BytesIO()
    small.info.clear()  # no profile, no comment, no place where it was taken
    small.save(out, "JPEG", quality=QUALITY)
    width, height = known if is_known else shape
    return Shot(out.getvalue(), width, height, remark)


def _same_shape(one: tuple[int, int], two: tuple[int, int]) -> bool:
    return abs(one[0] * two[1] / (one[1] * two[0]) - 1) <= SAME_SHAPE


def _with_orientation(image: Image.Image, orientation: int) -> Image.Image:
    from PIL import ExifTags

    image.getexif()[ExifTags.Base.Orientation] = orientation
    return image


def _rgb(image: Image.Image) -> Image.Image:
    """The picture in RGB; what is transparent becomes white, more than 8 bits are scaled to 8."""
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        low, high = image.convert("F").getextrema()
        scale = 255 / (high - low) if high > low else 1.0  # type: ignore[operator]
        return image.convert("F").point(lambda v: (v - low) * scale).convert("L").convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")
