"""Prepare the pictures of a report: shrink, turn by EXIF, and encode again without metadata."""

from __future__ import annotations

import contextlib
import io
import math
import os
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec

from odm.files import Unreadable, open_binary
from odm.pictures import TURNED, open_picture, read_orientation

if TYPE_CHECKING:
    from PIL import Image

QUALITY = 75
"""Quality of JPEG, 1 to 95, as Pillow takes it."""

SAME_SHAPE = 0.02
"""By how much the ratio of width to height may differ where a picture is a scaled copy of an image."""

BUDGET = 384 * 2**20
"""Bytes of decoded pictures that all threads hold together; a picture that needs more alone is not shown.
So a page is made within 500 MB, and 100 million pixels (any number of a JPEG picture) can be shown."""
_BYTES = {"JPEG2000": 24, "WEBP": 8, "AVIF": 8, "GIF": 8}
"""What decoding takes for a pixel, by the type of the picture: of others 4, whatever the mode."""
_STRIP = 2**20
"""How many pixels are converted at once."""


class Picture(msgspec.Struct, frozen=True):
    """An image of the dataset, and the path of its image file."""

    name: str
    """As in the dataset, with ``/``."""
    path: str = ""
    """Empty where there is no picture."""
    width: int = 0
    """Pixels as the dataset gives them, 0 = unknown."""
    height: int = 0


class Shot(msgspec.Struct, frozen=True):
    """A picture as shown: its JPEG, the size of the image in pixels, and a remark."""

    jpeg: bytes
    """Empty where there is nothing to show."""
    width: int
    height: int
    remark: str = ""


def make_shots(pictures: Sequence[Picture], size: int) -> Iterator[Shot]:
    """Yield each picture in order, with a longest side of at most `size` pixels.

    Only a few are held at a time. A picture that cannot be shown has no JPEG, and a remark with the reason.
    """
    workers = min(4, os.cpu_count() or 1)
    pending: deque[Future[Shot]] = deque()
    with warnings.catch_warnings(), _shared_blocks(), ThreadPoolExecutor(workers) as pool:
        warnings.simplefilter("ignore")  # of large pictures, and of odd metadata
        for picture in pictures:
            pending.append(pool.submit(_make_shot, picture, size))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


@contextlib.contextmanager
def _shared_blocks() -> Iterator[None]:
    """Let Pillow reuse the memory of one picture for the next, whatever thread decodes it.

    The system's allocator keeps what each thread has freed for that thread, which is as much once more.
    """
    from PIL import Image

    core = Image.core  # type: ignore[attr-defined]
    n_blocks = core.get_blocks_max()
    core.set_blocks_max(BUDGET // core.get_block_size() + 1)
    try:
        yield
    finally:
        core.set_blocks_max(n_blocks)
        core.clear_cache()


def _make_shot(picture: Picture, size: int) -> Shot:
    """Open, shrink and encode one picture, with a remark if that is not possible."""
    declared_size = picture.width, picture.height
    if not picture.path:
        return Shot(b"", *declared_size, "no picture")
    from PIL import UnidentifiedImageError

    try:
        with open_binary(picture.path) as stream, open_picture(stream) as image:
            # Pillow turns a TIFF picture itself when it is decoded.
            turns = 1 if image.format == "TIFF" else read_orientation(image, stream)
            return _shrink(image, turns, declared_size, size)
    except Unreadable as e:
        reason = str(e)
    except UnidentifiedImageError:
        reason = "it is truncated or of an unknown type"
    except Exception as e:  # noqa: BLE001 -- a damaged picture makes Pillow raise almost anything
        reason = f"it is damaged ({type(e).__name__})"
    return Shot(b"", *declared_size, f"the picture cannot be read: {reason}")


class _Budget:
    """A limit on the memory of the pictures that are decoded at one time."""

    def __init__(self) -> None:
        self._left = BUDGET
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def hold(self, image: Image.Image) -> Iterator[None]:
        """Wait until a picture fits, and close it at the end. Raises Unreadable if it never fits.

        ``image.info["stored"]`` has its size as it is stored, (width, height).
        """
        width, height = image.size  # of a JPEG picture after `draft`, which decodes it smaller
        n_bytes = width * height * _BYTES.get(image.format or "", 4)
        if image.info.get("progressive"):  # whose coefficients are held at full size, whatever is drawn
            n_bytes = math.prod(image.info["stored"]) * 6  # 2 bytes for each of 3 components
        if n_bytes > BUDGET:
            width, height = image.info["stored"]
            raise Unreadable(
                f"its {width} x {height} pixels take {n_bytes >> 20} MB to decode, "
                f"the limit is {BUDGET >> 20}"
            )
        with self._changed:
            self._changed.wait_for(lambda: self._left >= n_bytes)
            self._left -= n_bytes
        try:
            yield
        finally:
            image.close()  # lets go of the pixels
            with self._changed:
                self._left += n_bytes
                self._changed.notify_all()


_budget = _Budget()


def _shrink(image: Image.Image, turns: int, declared_size: tuple[int, int], size: int) -> Shot:
    """Shrink a picture to a longest side of at most `size` pixels, turned as its EXIF orientation says.

    `turns` is that orientation, 1 to 8, and `declared_size` the width and height in the dataset, 0 = unknown.
    A picture whose declared size is that before turning is left as it is stored. One of another shape than
    declared is not shown; a scaled one is, with a remark.
    """
    from PIL import ExifTags, ImageOps

    stored_size = image.size
    turned_size = stored_size[::-1] if turns in TURNED else stored_size
    is_known = min(declared_size) > 0
    is_turned = not is_known or _is_turned_in_dataset(declared_size, stored_size, turned_size)
    shown_size = turned_size if is_turned else stored_size
    remark = ""
    if is_known and declared_size != shown_size:
        sizes = (
            f"{shown_size[0]} x {shown_size[1]}, but the dataset says {declared_size[0]} x {declared_size[1]}"
        )
        if not _has_same_shape(declared_size, shown_size):
            return Shot(b"", *declared_size, f"the picture is {sizes}")
        remark = f"scaled: the picture is {sizes}"
    image.info["stored"] = stored_size  # for `_Budget.hold`: `draft` changes the size
    image.draft("RGB", (size, size))
    with _budget.hold(image):
        shrunk = _resize(image, size)
    if is_turned and turns != 1:
        # `_resize` drops the orientation, which `exif_transpose` reads.
        shrunk.getexif()[ExifTags.Base.Orientation] = turns
        shrunk = ImageOps.exif_transpose(shrunk)
    jpeg = io.BytesIO()
    shrunk.info.clear()  # no profile, no comment, no place where it was taken
    shrunk.save(jpeg, "JPEG", quality=QUALITY)
    width, height = declared_size if is_known else shown_size
    return Shot(jpeg.getvalue(), width, height, remark)


def _is_turned_in_dataset(
    declared_size: tuple[int, int], stored_size: tuple[int, int], turned_size: tuple[int, int]
) -> bool:
    """Whether the declared size is, or has the shape of, that after turning; also if it fits neither."""
    if declared_size in (turned_size, stored_size):
        return declared_size == turned_size
    return _has_same_shape(declared_size, turned_size) or not _has_same_shape(declared_size, stored_size)


def _has_same_shape(first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Whether two sizes have about the same ratio of width to height."""
    return abs(first[0] * second[1] / (first[1] * second[0]) - 1) <= SAME_SHAPE


def _resize(image: Image.Image, size: int) -> Image.Image:
    """Return the picture in RGB with a longest side of at most `size`.

    It is converted and averaged in strips, as each of these steps needs memory for all pixels it works on.
    """
    from PIL import Image

    # First each block of factor x factor pixels is averaged, which leaves at least twice the size asked for,
    # then the rest is resampled. The last blocks may reach beyond the picture: `kept_area` cuts them.
    width, height = image.size
    factor = max(1, max(width, height) // (2 * size))
    strip_height = max(1, _STRIP // (width * factor)) * factor
    tops = range(0, height, strip_height)
    strips = [(0, top, width, min(top + strip_height, height)) for top in tops]  # left, top, right, bottom
    # Of pictures of more than 8 bits, the values that become black and white.
    low, high = 0.0, 0.0
    if image.mode.startswith(("I", "F")):
        extrema: list[Any] = [image.crop(box).convert("F").getextrema() for box in strips]
        low, high = min(a for a, _ in extrema), max(b for _, b in extrema)
    reduced = Image.new("RGB", (-(-width // factor), -(-height // factor)))  # rounded up
    for top, box in zip(tops, strips, strict=True):
        reduced.paste(_convert_to_rgb(image.crop(box), low, high).reduce(factor), (0, top // factor))
    scale = min(1.0, size / max(width, height))
    new_size = max(1, round(width * scale)), max(1, round(height * scale))
    kept_area = 0.0, 0.0, width / factor, height / factor
    return reduced.resize(new_size, Image.Resampling.BILINEAR, kept_area)


def _convert_to_rgb(image: Image.Image, low: float, high: float) -> Image.Image:
    """Convert a strip to RGB: transparent pixels to white, `low` to `high` of more than 8 bits to 0..255."""
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        scale = 255 / (high - low) if high > low else 1.0  # `point` takes linear functions of such images
        return image.convert("F").point(lambda v: (v - low) * scale).convert("L").convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")
