"""Read the size of an image file from its header, and open image files with Pillow."""

from __future__ import annotations

import threading
import warnings
from typing import IO, TYPE_CHECKING

from odm.files import Unreadable, open_binary, read_head
from odm.issues import Code, Log

if TYPE_CHECKING:
    from PIL import Image

BAD_PICTURE = Code(
    "unreadable-picture",
    "error",
    "cannot read the size of the picture: {reason}",
    "replace the picture, or give the size with --image-size or --image-sizes",
    "The size of the image should come from this picture, but its header is damaged or of an unknown type.",
    file=True,
)

TURNED = (5, 6, 7, 8)
"""EXIF orientations that exchange width and height."""
_LIMIT = threading.Lock()
_MOST_EXIF = 2**20
"""Bytes; in a JPEG file they are at most 64 KiB."""
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "WEBP", "TIFF", "MPO", "AVIF", "HEIF", "JPEG2000")
"""What Pillow calls the types of `odm.names.PICTURE_SUFFIXES`. It knows others whose plug-ins start programs,
such as Ghostscript for a file that begins as EPS does, whatever its name."""


def open_picture(stream: IO[bytes]) -> Image.Image:
    """Open a picture of a type that odm knows, and read only its header. Pillow's limit of sizes, which is
    global, is lifted meanwhile.

    Raises PIL.UnidentifiedImageError if it is of another type. A damaged header makes Pillow raise almost
    anything.
    """
    from PIL import Image, UnidentifiedImageError

    def known() -> list[str]:
        """List the formats of `_FORMATS` that Pillow has loaded so far."""
        return [name for name in _FORMATS if name in Image.OPEN]

    with _LIMIT, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            Image.preinit()
            try:
                return Image.open(stream, formats=known())
            except UnidentifiedImageError:
                if not Image.init():  # loads the rarer types, once
                    raise
                stream.seek(0)
                return Image.open(stream, formats=known())
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _read_late_exif(stream: IO[bytes]) -> bytes:
    """Return the EXIF data of a PNG file, which may be after the pixels; empty if there are none."""
    chunk_start = 8  # after the signature; a chunk is 4 bytes of length, 4 of kind, content, 4 of checksum
    while True:
        stream.seek(chunk_start)
        head = stream.read(8)
        length = int.from_bytes(head[:4], "big")
        if len(head) < 8 or head[4:] == b"IEND":
            return b""
        if head[4:] == b"eXIf":
            return stream.read(min(length, _MOST_EXIF))
        chunk_start += 12 + length


def read_orientation(image: Image.Image, stream: IO[bytes]) -> int:
    """Return the EXIF orientation of a picture, 1 to 8, without decoding any pixel; 1 if it has none."""
    from PIL import ExifTags, Image

    if image.format == "PNG" and "exif" not in image.info:
        exif = Image.Image.getexif(image)  # its own method decodes the picture to look behind it
        if late := _read_late_exif(stream):
            exif.load(late)
    else:
        exif = image.getexif()
    value = exif.get(ExifTags.Base.Orientation, 1)
    return value if isinstance(value, int) else 1


_HEAD = 4096
"""Bytes; the header of a JPEG file without EXIF data, a profile or a thumbnail takes some hundred."""
_FRAMES = (0xC0, 0xC1, 0xC2)
"""Segments of JPEG files that have the size: baseline, extended and progressive."""
_SKIPPED = (0xC4, 0xDD, 0xFE)
"""Segments of JPEG files that say nothing of the size: Huffman tables, restart intervals, comments."""


_latest_header: list[tuple[int, bytes]] = []
"""The latest plain header of a JPEG file, up to the pixels, and where the size begins in it."""


def _parse_plain_jpeg_size(head: bytes) -> tuple[int, int] | None:
    """Return width and height from the first bytes of a JPEG file; None unless its header is plain.

    What Pillow would look at further, such as EXIF data or a table of another length, is left to it. The
    header is kept in `_latest_header`: a next one that differs only in the size is not parsed.
    """
    for size_start, header in _latest_header:  # at most one; those of one program differ only in the size
        size_end = size_start + 4
        if head.startswith(header[:size_start]) and head[size_end : len(header)] == header[size_end:]:
            return _parse_jpeg_size(head, size_start)
    if not head.startswith(b"\xff\xd8\xff"):
        return None
    size_start, start = 0, 2
    # A segment: ff, its kind, two bytes with the length of what begins with them, the content. Kinds: e0
    # JFIF, db quantisation tables, c0 to c2 the frame, which has the size, da the start of the pixels.
    while start + 4 <= len(head) and head[start] == 0xFF:
        kind, length = head[start + 1], int.from_bytes(head[start + 2 : start + 4], "big")
        content, content_start = head[start + 4 : start + 2 + length], start + 4
        start += 2 + length
        if length < 2 or start > len(head):
            return None
        if kind == 0xDA:  # the pixels begin
            if not size_start:
                return None
            _latest_header[:] = [(size_start, head[:start])]
            return _parse_jpeg_size(head, size_start)
        if not _is_usual_segment(kind, content):
            return None
        if kind in _FRAMES:  # its content begins with a byte for the bits; then come height and width
            size_start = content_start + 1
            if _parse_jpeg_size(head, size_start) is None:
                return None
    return None


def _is_usual_segment(kind: int, content: bytes) -> bool:
    """Return whether a segment of a JPEG file is as nearly all programs write it."""
    if kind == 0xE0:
        return content.startswith(b"JFIF\0") and len(content) >= 14
    if kind == 0xDB:  # tables of 65 bytes
        # Their first byte is 16 * precision + number; precision 0 is one byte for each value.
        return len(content) % 65 == 0 and all(first_byte < 16 for first_byte in content[::65])
    if kind in _FRAMES:  # bits, height, width, number of channels (1, 3 or 4), and three bytes for each
        is_of_8_bits = content[:1] == b"\x08"
        return is_of_8_bits and len(content) in (9, 15, 18) and len(content) == 6 + 3 * content[5]
    return kind in _SKIPPED


def _parse_jpeg_size(head: bytes, start: int) -> tuple[int, int] | None:
    """Return width and height from the four bytes at `start`: height, then width. None if one is 0."""
    height, width = (
        int.from_bytes(head[start : start + 2], "big"),
        int.from_bytes(head[start + 2 : start + 4], "big"),
    )
    return (width, height) if width and height else None


def _read_size_by_pillow(stream: IO[bytes]) -> tuple[int, int]:
    """Return width and height of a picture as a viewer shows it; whatever Pillow raises is passed on."""
    with open_picture(stream) as image:
        width, height = image.size
        if image.format == "TIFF":  # of these, new versions of Pillow give the size turned already
            # As it is stored: the tags ImageWidth and ImageLength.
            width, height = image.tag_v2[256], image.tag_v2[257]  # type: ignore[attr-defined]
        return (height, width) if read_orientation(image, stream) in TURNED else (width, height)


def read_picture_size(path: str, log: Log) -> tuple[int, int] | None:
    """Return width and height in pixels from the header of a picture, turned as its EXIF orientation says.

    None, and an issue, if the header cannot be read.
    """
    try:
        is_jpeg = path[-5:].lower().endswith((".jpg", ".jpeg"))
        size = _parse_plain_jpeg_size(read_head(path, _HEAD)) if is_jpeg else None
        if size is None:
            with open_binary(path) as stream:
                size = _read_size_by_pillow(stream)
    except Unreadable as e:
        log.report(BAD_PICTURE, path, reason=str(e))
        return None
    except Exception as e:  # noqa: BLE001 -- a damaged header makes Pillow raise almost anything
        from PIL import UnidentifiedImageError

        reason = f"its header is damaged ({type(e).__name__})"
        if isinstance(e, UnidentifiedImageError):
            reason = "it is truncated or of an unknown type"
        log.report(BAD_PICTURE, path, reason=reason)
        return None
    width, height = size
    if not (0 < width < 2**31 and 0 < height < 2**31):
        log.report(BAD_PICTURE, path, reason=f"its header claims {width}x{height} pixels")
        return None
    return width, height
