"""The size of a picture comes from its header, however large it is."""

import struct
import time
import zlib

import pytest
from PIL import Image

from odm.issues import Log
from odm.pictures import picture_size

ORIENTATION = 0x0112


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, *, exif=None, late=False):
    """A whole PNG file of black pixels, one bit each."""
    packer = zlib.compressobj(1)
    row = bytes(1 + (width + 7) // 8)
    pixels = b"".join([*(packer.compress(row) for _ in range(height)), packer.flush()])
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    half = len(pixels) // 2
    parts = [chunk(b"IDAT", pixels[:half]), chunk(b"IDAT", pixels[half:])]
    if exif is not None:
        parts.insert(2 if late else 0, chunk(b"eXIf", exif))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(parts) + chunk(b"IEND", b"")


def turned():
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    return exif.tobytes().removeprefix(b"Exif\0\0")


def test_a_large_picture_is_no_bomb_where_only_its_header_is_read(tmp_path):
    path = tmp_path / "map.png"
    path.write_bytes(png(28_000, 27_000))
    limit, log = Image.MAX_IMAGE_PIXELS, Log()
    start = time.process_time()
    assert picture_size(str(path), log) == (28_000, 27_000)
    assert time.process_time() - start < 1, "no pixel is decoded"
    assert not log.issues
    assert limit == Image.MAX_IMAGE_PIXELS
    with pytest.raises(Image.DecompressionBombError):
        Image.open(path)


@pytest.mark.parametrize("late", [False, True])
def test_a_picture_is_turned_by_exif_before_or_after_its_pixels(tmp_path, late):
    path = tmp_path / "turned.png"
    path.write_bytes(png(40, 30, exif=turned(), late=late))
    with Image.open(path) as image:
        assert image.getexif()[ORIENTATION] == 6
    assert picture_size(str(path), Log()) == (30, 40)


@pytest.mark.parametrize("cut", [9, 20, 33, 40])
def test_a_header_that_is_cut_is_no_traceback(tmp_path, cut):
    path = tmp_path / "cut.png"
    path.write_bytes(png(40, 30)[:cut])
    log = Log()
    assert (picture_size(str(path), log) is None) == bool(log.issues)
