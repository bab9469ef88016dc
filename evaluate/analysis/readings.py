"""Other meanings of the four numbers of boxes, which `odm.evaluate.analysis.diagnosis` tries."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from odm.tables import Floats

Boxes = Callable[[Floats, Floats], Floats]
"""Corners and the sizes of their images, (n, 4) and (n, 2), to other corners."""


class Reading(msgspec.Struct, frozen=True):
    """Another meaning of the four numbers of a box."""

    what: str
    remedy: str
    change: Boxes
    option: str = ""
    """What says so of all files of a side: the value of `name`, an option that not all formats have."""
    name: str = ""


_MEANINGS = {
    "ltrb": "left, top, right and bottom",
    "ltwh": "left, top, width and height",
    "cxcywh": "centre, width and height",
}


def _numbers(xyxy: Floats, meaning: str) -> tuple[Floats, Floats]:
    """Return the two pairs of numbers that boxes are written with."""
    first, second = xyxy[:, :2], xyxy[:, 2:]
    if meaning == "ltrb":
        return first, second
    return (first if meaning == "ltwh" else (first + second) / 2), second - first


def _corners(first: Floats, second: Floats, meaning: str) -> Floats:
    """Return the corners, (n, 4), of boxes from their two pairs of numbers, both (n, 2)."""
    if meaning == "cxcywh":
        return np.hstack([first - second / 2, first + second / 2])
    return np.hstack([first, second if meaning == "ltrb" else first + second])


def _box_readings() -> Iterator[Reading]:
    """List the meanings that the four numbers may have, whatever they were taken for."""
    for taken, meant in itertools.product(_MEANINGS, repeat=2):
        for swapped in (False, True):
            if taken == meant and (not swapped or taken != "ltrb"):
                continue  # as it is; and swapped is the same for all

            def change(
                xyxy: Floats, _: Floats, how: tuple[str, str, bool] = (taken, meant, swapped)
            ) -> Floats:
                taken, meant, swapped = how
                first, second = _numbers(xyxy, taken)
                if swapped:
                    first, second = first[:, ::-1], second[:, ::-1]
                return _corners(first, second, meant)

            what = _MEANINGS[meant] if taken != meant else "y before x"
            if swapped and taken != meant:
                what += ", y before x"
            option = "" if swapped else f"give --{{side}}-box {meant}, or "
            yield Reading(what, "correct the export of {whose}", change, option, "box")


Size = Callable[[Floats], Floats | float]
"""A function of the sizes of images, (n, 2), to numbers that fit them."""


def _scaled(factor: Size, shift: Size = lambda _: 0) -> Boxes:
    """Return a function that takes a shift from coordinates and multiplies them by a factor.

    Both are functions of the sizes of the images.
    """
    latest: list[Floats] = []  # sizes, shifts and factors: many readings are tried with the same sizes

    def change(xyxy: Floats, size: Floats) -> Floats:
        if not latest or latest[0] is not size:
            latest[:] = size, *(np.tile(np.broadcast_to(of(size), size.shape), 2) for of in (shift, factor))
        moved: Floats = (xyxy - latest[1]) * latest[2]
        return moved

    return change


def _longer(size: Floats) -> Floats:
    """Return (n, 1) the longer side of images, from their widths and heights, (n, 2)."""
    longer: Floats = size.max(axis=1, keepdims=True)
    return longer


SCALES_WITHOUT_SIZE = 2
"""The first so many readings need no size of the image."""
SIDES_OF_NETWORKS = (320, 416, 512, 608, 640, 768, 800, 896, 960, 1024, 1280)


def _scale_readings() -> Iterator[Reading]:
    """List the units that coordinates may be measured in."""
    convert = "convert the coordinates of {whose} to those of the image"
    rel = "give --{side}-coords rel, or "
    yield Reading("pixels of a picture of half the size", convert, _scaled(lambda _: 2))
    yield Reading("pixels of a picture of twice the size", convert, _scaled(lambda _: 0.5))
    yield Reading("fractions of the width and height", convert, _scaled(lambda s: s), rel, "coords")
    yield Reading("percent of the width and height", convert, _scaled(lambda s: s / 100))
    yield Reading("thousandths of the width and height", convert, _scaled(lambda s: s / 1000))
    yield Reading("fractions times height and width, exchanged", convert, _scaled(lambda s: s / s[:, ::-1]))
    letterboxed = _scaled(lambda s: _longer(s) / s, lambda s: (1 - s / _longer(s)) * s / 2)
    yield Reading("fractions of the letterboxed picture", convert, letterboxed)
    for side in SIDES_OF_NETWORKS:

        def resized(size: Floats, side: int = side) -> Floats:
            return _longer(size) / side

        def border(size: Floats, side: int = side) -> Floats:
            return side * (1 - size / _longer(size)) / 2

        def stretched(size: Floats, side: int = side) -> Floats:
            return size / side

        boxed = f"pixels of the letterboxed picture of {side} x {side}"
        yield Reading(boxed, convert, _scaled(resized, border))
        yield Reading(f"pixels of a picture stretched to {side} x {side}", convert, _scaled(stretched))
        yield Reading(f"pixels of a picture whose longer side is {side}", convert, _scaled(resized))


def _turned(x: int, y: int, *, mirrored: tuple[bool, bool]) -> Boxes:
    """Columns `x` and `y` of corners as the new x and y, from the far edge where they are mirrored."""

    def change(xyxy: Floats, size: Floats) -> Floats:
        first, second = xyxy[:, [x, y]], xyxy[:, [2 + x, 2 + y]]
        low = np.where(mirrored, size - second, first)
        return np.hstack([low, np.where(mirrored, size - first, second)])

    return change


def _exchanged(share: float) -> Boxes:
    """Exchange width and height, about the point at a share of both."""

    def change(xyxy: Floats, _: Floats) -> Floats:
        wh = xyxy[:, 2:] - xyxy[:, :2]
        low = xyxy[:, :2] + share * (wh - wh[:, ::-1])
        return np.hstack([low, low + wh[:, ::-1]])

    return change


def _turn_readings() -> Iterator[Reading]:
    """List the ways in which the image, or each box, may have been mirrored or rotated."""
    turn = "predict on the images as they are stored, or turn the boxes of {whose} back"
    yield Reading("those of the image mirrored left to right", turn, _turned(0, 1, mirrored=(True, False)))
    yield Reading("those of the image mirrored top to bottom", turn, _turned(0, 1, mirrored=(False, True)))
    yield Reading("those of the image rotated by 180 degrees", turn, _turned(0, 1, mirrored=(True, True)))
    clockwise, back = _turned(1, 0, mirrored=(False, True)), _turned(1, 0, mirrored=(True, False))
    yield Reading("those of the image rotated by 90 degrees clockwise", turn, clockwise)
    yield Reading("those of the image rotated by 90 degrees counterclockwise", turn, back)
    exchange = "exchange width and height of the boxes of {whose}"
    for share in (0, 0.5):
        yield Reading("boxes with width and height exchanged", exchange, _exchanged(share))


@functools.cache
def list_readings() -> tuple[list[Reading], list[Reading], list[Reading]]:
    """All readings: of the four numbers, of their scale, and of images or boxes that were turned."""
    return list(_box_readings()), list(_scale_readings()), list(_turn_readings())
