"""How large a picture is, from its header."""

from __future__ import annotations

import warnings

from odm.files import Unreadable, open_binary
from odm.issues import Code, Log

BAD_PICTURE = Code(
    "unreadable-picture",
    "error",
    "the picture's size cannot be read: {reason}",
    "replace the picture, or say the size with --image-size or --image-sizes",
    "The header of a picture that should tell the size of its image is damaged or of an unknown kind.",
    file=True,
)


def picture_size(path: str, log: Log) -> tuple[int, int] | None:
    """Width and height in pixels as a viewer shows the picture (EXIF orientation counts), from its header.

    None, and an issue, if the header cannot be read.
    """
    from PIL import ExifTags, Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large pictures: no pixel is decoded here
            with open_binary(path) as stream, Image.open(stream) as image:
                width, height = image.size
                turned = image.getexif().get(ExifTags.Base.Orientation, 1) in (5, 6, 7, 8)
    except Unreadable as e:
        log.report(BAD_PICTURE, path, reason=str(e))
        return None
    except UnidentifiedImageError:
        log.report(BAD_PICTURE, path, reason="it is cut or of no known kind")
        return None
    except Image.DecompressionBombError as e:
        log.report(BAD_PICTURE, path, reason=str(e))
        return None
    except Exception as e:  # noqa: BLE001 -- a damaged header makes Pillow raise almost anything
        log.report(BAD_PICTURE, path, reason=f"its header is damaged ({type(e).__name__})")
        return None
    if not (0 < width < 2**31 and 0 < height < 2**31):
        log.report(BAD_PICTURE, path, reason=f"its header claims {width}x{height} pixels")
        return None
    return (height, width) if turned else (width, height)
