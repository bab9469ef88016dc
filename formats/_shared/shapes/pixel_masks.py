"""Convert masks between the files of tools (pixels of a rectangle) and COCO's run lengths of the image.

What is packed is unpacked only up to a limit, so that a small file cannot fill the memory.
"""

from __future__ import annotations

import base64
import binascii
import functools
import io
import os
import posixpath
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odm.files import NamedSource, Source, Unreadable
from odm.masks.runs import MOST_PIXELS, Runs, read_texts, write_texts

Pixels = NDArray[np.bool_]
Longs = NDArray[np.int64]
MOST = 2**28
"""Pixels of the largest rectangle that is unpacked."""
_PER_PIXEL, _HEADER = 16, 2**16
"""Bytes that a packed picture may take for each pixel, and besides."""


class BadMask(ValueError):
    """A mask cannot be read; the text says what was expected."""


def encode_in_image(pixels: Pixels, left: int, top: int, width: int, height: int) -> bytes:
    """Encode `pixels`, pasted at `left`, `top` into an image of this size and cut there, as COCO's text."""
    if min(width, height) < 1 or width * height >= MOST_PIXELS:
        raise BadMask("an image of known size, below 2^32 pixels")
    # What is far outside stays outside, and 64 bits hold all numbers below.
    left, top = (min(max(edge, -MOST_PIXELS), MOST_PIXELS) for edge in (left, top))
    pixels = pixels[max(0, -top) : max(0, height - top), max(0, -left) : max(0, width - left)]
    left, top = max(0, left), max(0, top)
    h, w = pixels.shape
    padded = np.zeros((w, h + 2), np.int8)
    padded[:, 1:-1] = pixels.T
    # Each column of pixels is a row of `padded`, between zeros, so diff is 1 where a run of it begins and -1
    # after its end: [0 0 1 1 0] -> [0 1 0 -1]. The keys of both, column by column, are the edges of the runs.
    column, row = np.nonzero(np.diff(padded, axis=1))
    runs = Runs.of_keys((column + left) * height + row + top, 1)  # of 1 mask, whose keys are positions
    text, _ = write_texts(*runs.counts(np.array([width * height])))
    return text.tobytes()


def decode_mask(text: bytes, height: int) -> tuple[int, int, Pixels]:
    """Decode COCO's text: left and top of the rectangle around the mask, and its (h, w) pixels.

    `height` is that of the image.
    """
    data = np.frombuffer(text, np.uint8)
    text_starts, counts, _ = read_texts(data, np.array([0, len(data)]))
    runs = Runs.of_counts(text_starts, counts)
    left, top, w, h = runs.boxes(np.array([height]))[0].tolist()
    # Along the columns of the mask: 1 where a run begins, -1 after its end, so the sum so far is 1 in a run.
    # `edge` has the start and end of each run in turn, as positions column by column in the image.
    step = np.zeros(w * height + 1, np.int8)
    step[runs.edge[0::2] - left * height] = 1
    step[runs.edge[1::2] - left * height] -= 1  # 0 where the next run begins at once
    pixels = np.cumsum(step[:-1], dtype=np.int8).reshape(w, height)[:, top : top + h].T > 0
    return left, top, pixels


def check_mask(text: Any, size: Any, width: int, height: int) -> tuple[bytes, tuple[int, int, int, int]]:
    """Check COCO's text of a mask in an image; return it and the mask's left, top, width and height.

    `size` is that beside the text. Raises BadMask if it is not [height, width], or the text not of that size.
    """
    if size != [height, width] or width * height >= MOST_PIXELS:
        raise BadMask(f"a mask of the image's size [{height}, {width}]")
    data = np.frombuffer(text.encode() if isinstance(text, str) else b"", np.uint8)
    text_starts, counts, is_invalid = read_texts(data, np.array([0, len(data)]))
    if not len(data) or is_invalid.any() or (counts < 0).any() or counts.sum() != width * height:
        raise BadMask(f"runs of {width} x {height} pixels in COCO's compressed text")
    left, top, w, h = Runs.of_counts(text_starts, counts).boxes(np.array([height]))[0].tolist()
    return data.tobytes(), (left, top, w, h)


def decode_rows(counts: Any, width: int, height: int) -> Pixels:
    """Decode run lengths along the rows of a rectangle, background first, to (height, width) pixels."""
    lengths = np.asarray(counts, np.int64)
    if min(width, height) < 1 or width * height > MOST:
        raise BadMask(f"a rectangle of 1 to {MOST} pixels")
    if (lengths < 0).any() or (lengths > MOST).any() or lengths.sum() != width * height:
        raise BadMask(f"runs of {width} x {height} pixels")
    inside = np.arange(len(lengths)) % 2 == 1
    return np.repeat(inside, lengths).reshape(height, width)


def unpack_bytes(data: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Unpack the `size` bytes that Label Studio packs as runs of one byte and runs of different bytes.

    A stream of bits, the highest of a byte first: 32 of the number of bytes, 5 of the bits of a byte less 1,
    four times 4 of the bits of a length less 1. Then for each run 1 for one byte or 0, 2 for which of the
    four lengths, its length less 1, and its byte or bytes.
    """
    bits, position = np.unpackbits(data), 0

    def take_number(n: int) -> int:
        """Return the next `n` bits as a number. packbits pads 5 bits with 3 zeros: >> 3, which is -5 % 8."""
        nonlocal position
        position += n
        if position > len(bits):
            raise BadMask("run lengths that are complete")
        return int.from_bytes(np.packbits(bits[position - n : position]).tobytes()) >> -n % 8

    if size > MOST or take_number(32) != size:
        raise BadMask(f"run lengths of {size} bytes, four for each pixel of the image")
    value_width, length_widths = take_number(5) + 1, [take_number(4) + 1 for _ in range(4)]
    if value_width > 8:
        raise BadMask("run lengths of bytes")
    unpacked, n_done = np.zeros(size, np.uint8), 0
    while n_done < size:
        is_one_byte = take_number(1)
        n = take_number(length_widths[take_number(2)]) + 1
        if is_one_byte:
            unpacked[n_done : n_done + n] = take_number(value_width)
        elif position + n * value_width > len(bits) or n_done + n > size:
            raise BadMask("run lengths that are complete")
        else:
            run_bits = bits[position : position + n * value_width].reshape(n, value_width)
            # packbits puts the bits of a value first in its byte, before zeros.
            unpacked[n_done : n_done + n] = np.packbits(run_bits, axis=1)[:, 0] >> (8 - value_width)
            position += n * value_width
        n_done += n
    return unpacked


def find_edges(pixels: Pixels) -> tuple[int, int, int, int]:
    """Left, top, right and bottom around pixels. Raises BadMask if there are none."""
    if not pixels.any():
        raise BadMask("a mask with at least one pixel")
    # Axis 1 leaves the rows that have pixels, axis 0 the columns; [0, -1] are the first and the last of them.
    (top, bottom), (left, right) = (np.flatnonzero(pixels.any(axis=k))[[0, -1]].tolist() for k in (1, 0))
    return left, top, right + 1, bottom + 1


def encode_rows(pixels: Pixels) -> list[int]:
    """Encode (h, w) pixels as run lengths along the rows, the first one (maybe 0) of background."""
    flat = np.concatenate([[False], pixels.ravel()])
    edges = np.flatnonzero(flat[1:] != flat[:-1])
    # [[1 1 0] [0 1 1]] is 1 1 0 0 1 1, which begins to differ at 0, 2 and 4: lengths 0 2 2 2.
    lengths: list[int] = np.diff(np.concatenate([[0], edges, [pixels.size]])).tolist()
    return lengths


def unpack(text: Any, pixels: int = MOST, *, packed: bool = False) -> bytes:
    """Decode base64, and if `packed` zlib, to bytes: the file of a mask of at most `pixels` pixels.

    Raises BadMask if the text is not so encoded or holds more than such a mask can take.
    """
    try:
        data = base64.b64decode(text, validate=True)
        if not packed:
            return data
        decompressor = zlib.decompressobj()
        n_bytes_limit = min(pixels, MOST) * _PER_PIXEL + _HEADER
        content = decompressor.decompress(data, n_bytes_limit)
    except (TypeError, ValueError, binascii.Error, zlib.error):
        raise BadMask("bytes in base64" + (", packed by zlib" if packed else "")) from None
    if decompressor.unconsumed_tail:
        raise BadMask(f"at most {n_bytes_limit} bytes")
    return content


def find_png(
    source: Source, file: str, decode: Callable[[bytes], Any] | None = None
) -> Callable[[Any], Any] | None:
    """Return a function that reads the mask in a PNG below a source, or beside a single file.

    `decode` decodes the content, `decode_png` by default. The argument of the function is ignored, as
    `paint` gives one to all decoders. None if there is no such file.
    """
    file = posixpath.normpath(file.replace("\\", "/"))
    folder_source = source if source.is_dir else source.once(NamedSource)  # one for all masks
    if file.split("/")[0] in ("", "..") or os.path.isabs(file) or not folder_source.holds(file):
        return None

    def read_pixels(_: Any) -> Any:
        try:
            with folder_source.open(file) as stream:
                return (decode or decode_png)(stream.read())
        except Unreadable as e:
            raise BadMask(f"a picture that can be read ({e})") from None

    return read_pixels


def decode_png(data: bytes) -> Pixels:
    """Decode a PNG to (h, w) bool: True where alpha is not 0, or in a PNG of one band where it is not 0."""
    bands = _decode_bands(data)
    pixels: Pixels = (bands if bands.ndim == 2 else bands[:, :, -1]) != 0
    return pixels


def decode_png_numbers(data: bytes) -> NDArray[np.uint8]:
    """Decode a PNG to (h, w) uint8 numbers: palette index, grey value, or number of the VOC colour."""
    bands: NDArray[np.uint8] = _decode_bands(data)
    if bands.dtype == np.uint8 and bands.ndim == 3 and bands.shape[2] == 3:
        return _find_colour_numbers(bands)
    if bands.ndim != 2 or bands.dtype != np.uint8:
        raise BadMask("a PNG with a palette, or in Pascal VOC's colours")
    return bands


def decode_png_colours(data: bytes) -> Longs:
    """Decode a PNG to (h, w) int64 colours 0xRRGGBB."""
    bands = _decode_bands(data)
    if bands.ndim != 3 or bands.dtype != np.uint8:
        raise BadMask("a PNG with colours")
    return _join_bands(bands)


def _join_bands(bands: NDArray[np.uint8]) -> Longs:
    """Join (h, w, 3 or more) bands to (h, w) int64 colours 0xRRGGBB."""
    return bands[..., 0].astype(np.int64) << 16 | bands[..., 1].astype(np.int64) << 8 | bands[..., 2]


@functools.cache
def _make_palette() -> tuple[Longs, Longs]:
    """Return (256,) Pascal VOC's colours, ascending, and (256,) their numbers.

    Bits 0, 3 and 6 of a number are the highest bits of red, bits 1, 4, 7 those of green and 2, 5 those of
    blue: 1 is 0x800000, 2 is 0x008000, 3 is 0x808000.
    """
    numbers, palette = np.arange(256), np.zeros(256, np.int64)
    for bit in range(8):
        for band, shift in enumerate((16, 8, 0)):
            if 3 * bit + band < 8:
                palette |= (numbers >> (3 * bit + band) & 1) << (shift + 7 - bit)
    order = np.argsort(palette)
    return palette[order], order


def _find_colour_numbers(bands: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert (h, w, bands) colours of Pascal VOC to (h, w) numbers."""
    palette, number_of_colour = _make_palette()
    colours = _join_bands(bands)
    palette_rows = np.minimum(np.searchsorted(palette, colours), 255)  # a colour above all is compared too
    if (palette[palette_rows] != colours).any():
        raise BadMask("a PNG with a palette, or in Pascal VOC's colours")
    return number_of_colour[palette_rows].astype(np.uint8)


def encode_numbers(pixels: NDArray[np.uint8], numbers: NDArray[np.int64]) -> tuple[NDArray[np.uint8], Longs]:
    """Encode the mask of each of (n,) ascending `numbers` in (h, w) `pixels` as COCO's text.

    Returns all texts, one after the other, and (n + 1,) where each begins.
    """
    flat = pixels.ravel(order="F")
    # flat = [7 7 9 9 9 7]: run_edges 0 2 5 6, run_numbers 7 9 7, runs_by_number 0 2 1. The runs of 7 are
    # runs_by_number[0:2], those of 9 are runs_by_number[2:3]; mask_starts, two edges for each run, are 0 4 6.
    run_edges = np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1]) + 1, [flat.size]]).astype(np.int64)
    run_numbers = flat[run_edges[:-1]]
    runs_by_number = np.argsort(run_numbers, kind="stable")
    number_slices = [
        np.searchsorted(run_numbers[runs_by_number], numbers, side=side) for side in ("left", "right")
    ]
    mask_runs = np.concatenate(
        [np.zeros(0, np.int64), *(runs_by_number[a:b] for a, b in zip(*number_slices, strict=True))]
    )
    mask_starts = 2 * np.concatenate([[0], np.cumsum(number_slices[1] - number_slices[0])]).astype(np.int64)
    runs = Runs(mask_starts, np.stack([run_edges[mask_runs], run_edges[mask_runs + 1]], axis=1).ravel())
    return write_texts(*runs.counts(np.full(len(numbers), flat.size)))


def _decode_bands(data: bytes) -> NDArray[Any]:
    """Decode a PNG to (h, w) or (h, w, bands). Raises BadMask if it is none, or has too many pixels."""
    from PIL import Image, UnidentifiedImageError

    try:
        with (
            warnings.catch_warnings(action="ignore", category=Image.DecompressionBombWarning),
            Image.open(io.BytesIO(data), formats=["PNG"]) as picture,
        ):
            if picture.width * picture.height > MOST:
                raise BadMask(f"a picture of at most {MOST} pixels")
            return np.asarray(picture)
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError):
        raise BadMask("a PNG") from None


def decode_npy(data: bytes) -> Pixels:
    """Decode an ``.npy`` file of (h, w) bool or uint8 to (h, w) bool, True where it is not 0."""
    stream = io.BytesIO(data)
    try:
        is_version_1 = np.lib.format.read_magic(stream) == (1, 0)
        read_header = (
            np.lib.format.read_array_header_1_0 if is_version_1 else np.lib.format.read_array_header_2_0
        )
        shape, is_by_column, dtype = read_header(stream)
    except ValueError:
        raise BadMask("a file of NumPy") from None
    content = data[stream.tell() :]
    if len(shape) != 2 or dtype not in (np.bool_, np.uint8) or shape[0] * shape[1] != len(content):
        raise BadMask("two dimensions of bool or uint8")
    pixels: Pixels = np.frombuffer(content, np.uint8).reshape(shape, order="F" if is_by_column else "C") != 0
    return pixels


def encode_npy(pixels: Pixels) -> str:
    """Encode (h, w) pixels as an ``.npy`` file, packed by zlib, in base64."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, pixels, allow_pickle=False)
    return base64.b64encode(zlib.compress(stream.getvalue())).decode()


def stretch(pixels: Pixels, width: int, height: int) -> Pixels:
    """Resize pixels to `height` rows and `width` columns, each the nearest."""
    if not pixels.size or min(width, height) < 1 or width * height > MOST:
        raise BadMask(f"a rectangle of 1 to {MOST} pixels")
    # The row and column of `pixels` in which the centre of each new pixel lies.
    rows = (np.arange(height) + 0.5) * (pixels.shape[0] / height)
    columns = (np.arange(width) + 0.5) * (pixels.shape[1] / width)
    stretched_pixels: Pixels = pixels[rows.astype(np.int64)[:, None], columns.astype(np.int64)]
    return stretched_pixels


def encode_png(pixels: Pixels) -> str:
    """A PNG of black and white in base64."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode()
