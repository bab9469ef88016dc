"""How large a picture is, from its header."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator
from typing import IO

from odm.files import Unreadable, open_binary
from odm.issues import Code, Log

BAD_PICTURE = Code(
    "unreadable-picture",
    "error",
    "cannot read the size of the picture: {reason}",
    "replace the picture, or give the size with --image-size or --image-sizes",
    "The size of the image should come from this picture, but its header is damaged or of an unknown type.",
    file=True,
)


_LIMIT = threading.Lock()
_MOST_EXIF = 2**20
"""Bytes; in a JPEG file they are at most 64 KiB."""


@contextlib.contextmanager
def _headers_only() -> Iterator[None]:
    """Lift Pillow's limit of the pixels of a picture, of which none is decoded here."""
    from PIL import Image

    with _LIMIT, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _late_exif(stream: IO[bytes]) -> bytes:
    """The EXIF data of a PNG file, which may stand after the pixels; empty where there are none."""
    at = 8
    while True:
        stream.seek(at)
        head = stream.read(8)
        length = int.from_bytes(head[:4], "big")
        if len(head) < 8 or head[4:] == b"IEND":
            return b""
        if head[4:] == b"eXIf":
            return stream.read(min(length, _MOST_EXIF))
        at += 12 + length


def picture_size(path: str, log: Log) -> tuple[int, int] | None:
    """Width and height in pixels as a viewer shows the picture (EXIF orientation counts), from its header.

    None, and an issue, if the header cannot be read.
    """
    from PIL import ExifTags, Image, UnidentifiedImageError

    try:
        with _headers_only(), open_binary(path) as stream, Image.open(stream) as image:
            width, height = image.size
            if image.format == "PNG" and "exif" not in image.info:
                # Pillow would decode the picture to look behind it.
                exif = Image.Image.getexif(image)
                if late := _late_exif(stream):
                    exif.load(late)
            else:
                exif = image.getexif()
            # Of a TIFF file Pillow gives the size as it is shown already.
            turned = image.format != "TIFF" and exif.get(ExifTags.Base.Orientation, 1) in (5, 6, 7, 8)
    except Unreadable as e:
        log.report(BAD_PICTURE, path, reason=str(e))
        return None
    except UnidentifiedImageError:
        log.report(BAD_PICTURE, path, reason="it is truncated or of an unknown type")
        return None
    except Exception as e:  # noqa: BLE001 -- a damaged header makes Pillow raise almost anything
        log.report(BAD_PICTURE, path, reason=f"its header is damaged ({type(e).__name__})")
        return None
    if not (0 < width < 2**31 and 0 < height < 2**31):
        log.report(BAD_PICTURE, path, reason=f"its header claims {width}x{height} pixels")
        return None
    return (height, width) if turned else (width, height)
