"""Other meanings of the four numbers of boxes, which `odm.evaluate.analysis.diagnosis` tries."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from odm.tables import Floats

BoxChange = Callable[[Floats, Floats], Floats]
"""Corners and the sizes of their images, (n, 4) and (n, 2), to other corners."""


class Reading(msgspec.Struct, frozen=True):
    """Another meaning of the four numbers of a box."""

    description: str
    remedy: str
    change: BoxChange
    option: str = ""
    """Advice to read all files of a side so, by the option `name`, which not all formats have."""
    name: str = ""


_MEANINGS = {
    "ltrb": "left, top, right and bottom",
    "ltwh": "left, top, width and height",
    "cxcywh": "centre, width and height",
}


def _split_numbers(xyxy: Floats, meaning: str) -> tuple[Floats, Floats]:
    """Return the two pairs of numbers, each (n, 2), that boxes of a `meaning` are written with."""
    corner, far_corner = xyxy[:, :2], xyxy[:, 2:]
    if meaning == "ltrb":
        return corner, far_corner
    return (corner if meaning == "ltwh" else (corner + far_corner) / 2), far_corner - corner


def _make_corners(first_pair: Floats, second_pair: Floats, meaning: str) -> Floats:
    """Return the corners, (n, 4), of boxes from their two pairs of numbers, both (n, 2), of a `meaning`."""
    if meaning == "cxcywh":
        return np.hstack([first_pair - second_pair / 2, first_pair + second_pair / 2])
    return np.hstack([first_pair, second_pair if meaning == "ltrb" else first_pair + second_pair])


def _list_box_readings() -> Iterator[Reading]:
    """List the meanings that the four numbers may have, whatever they were taken for.

    Boxes were read as `old` and mean `new`: the numbers are computed from the corners, and read again.
    """
    for old, new in itertools.product(_MEANINGS, repeat=2):
        for swapped in (False, True):
            # One meaning is the boxes as they are; with x and y swapped it is the same box for all three.
            if old == new and (not swapped or old != "ltrb"):
                continue

            # The default keeps the values of this turn of the loop, as `change` is called after the loop.
            def change(xyxy: Floats, _: Floats, rule: tuple[str, str, bool] = (old, new, swapped)) -> Floats:
                old_meaning, new_meaning, is_swapped = rule
                first_pair, second_pair = _split_numbers(xyxy, old_meaning)
                if is_swapped:
                    first_pair, second_pair = first_pair[:, ::-1], second_pair[:, ::-1]
                return _make_corners(first_pair, second_pair, new_meaning)

            description = _MEANINGS[new] if old != new else "y before x"
            if swapped and old != new:
                description += ", y before x"
            option = "" if swapped else f"give --{{side}}-box {new}, or "
            yield Reading(description, "correct the export of {whose}", change, option, "box")


Size = Callable[[Floats], Floats | float]
"""A function of the sizes of images, (n, 2), to numbers that fit them."""


def _make_scaling(factor: Size, shift: Size = lambda _: 0) -> BoxChange:
    """Return a function that takes a shift from coordinates and multiplies them by a factor.

    Both are functions of the sizes of the images.
    """
    cached: list[Floats] = []  # sizes, shifts and factors: many readings are tried with the same sizes

    def change(xyxy: Floats, size: Floats) -> Floats:
        if not cached or cached[0] is not size:
            cached[:] = size, *(np.tile(np.broadcast_to(of(size), size.shape), 2) for of in (shift, factor))
        _, shift_xyxy, factor_xyxy = cached  # each (n, 4), x and y twice
        scaled: Floats = (xyxy - shift_xyxy) * factor_xyxy
        return scaled

    return change


def _longer_side(size: Floats) -> Floats:
    """Return (n, 1) the longer side of images, from their widths and heights, (n, 2)."""
    longer: Floats = size.max(axis=1, keepdims=True)
    return longer


SCALES_WITHOUT_SIZE = 2
"""The first so many readings need no size of the image."""
SIDES_OF_NETWORKS = (320, 416, 512, 608, 640, 768, 800, 896, 960, 1024, 1280)


def _list_scale_readings() -> Iterator[Reading]:
    """List the units that coordinates may be measured in."""
    convert = "convert the coordinates of {whose} to those of the image"
    rel = "give --{side}-coords rel, or "
    # Fractions, percent and thousandths of the size s of an image were read as pixels.
    yield Reading("pixels of a picture of half the size", convert, _make_scaling(lambda _: 2))
    yield Reading("pixels of a picture of twice the size", convert, _make_scaling(lambda _: 0.5))
    yield Reading("fractions of the width and height", convert, _make_scaling(lambda s: s), rel, "coords")
    yield Reading("percent of the width and height", convert, _make_scaling(lambda s: s / 100))
    yield Reading("thousandths of the width and height", convert, _make_scaling(lambda s: s / 1000))
    yield Reading(
        "fractions times height and width, exchanged", convert, _make_scaling(lambda s: s / s[:, ::-1])
    )
    # A fraction f was read as f * s, with s the width or height; the picture is a square of the longer side L
    # with the image in its middle, so f * L - (L - s) / 2 was meant: (f * s - (1 - s / L) * s / 2) * L / s.
    letterboxed = _make_scaling(
        lambda s: _longer_side(s) / s, shift=lambda s: (1 - s / _longer_side(s)) * s / 2
    )
    yield Reading("fractions of the letterboxed picture", convert, letterboxed)
    for side in SIDES_OF_NETWORKS:

        def resized(size: Floats, side: int = side) -> Floats:
            return _longer_side(size) / side

        def border(size: Floats, side: int = side) -> Floats:
            return side * (1 - size / _longer_side(size)) / 2

        def stretched(size: Floats, side: int = side) -> Floats:
            return size / side

        boxed = f"pixels of the letterboxed picture of {side} x {side}"
        yield Reading(boxed, convert, _make_scaling(resized, shift=border))
        yield Reading(f"pixels of a picture stretched to {side} x {side}", convert, _make_scaling(stretched))
        yield Reading(f"pixels of a picture whose longer side is {side}", convert, _make_scaling(resized))


def _make_turn(x: int, y: int, *, mirrored: tuple[bool, bool]) -> BoxChange:
    """Return a function that turns or mirrors boxes in their images.

    `x` and `y` are the columns of a corner, 0 and 1 or 1 and 0, that become its new x and y. `mirrored` says
    of the new x and of the new y whether they are measured from the far edge of the image.
    """

    def change(xyxy: Floats, size: Floats) -> Floats:
        # size: (n, 2) width and height of the image of each box as the ground truth has it
        corner, far_corner = xyxy[:, [x, y]], xyxy[:, [2 + x, 2 + y]]
        low = np.where(mirrored, size - far_corner, corner)
        return np.hstack([low, np.where(mirrored, size - corner, far_corner)])

    return change


def _make_exchange(share: float) -> BoxChange:
    """Return a function that exchanges width and height of boxes, about the point at a `share` of both.

    With 0 the left top corner stays, with 0.5 the centre.
    """

    def change(xyxy: Floats, _: Floats) -> Floats:
        wh = xyxy[:, 2:] - xyxy[:, :2]
        low = xyxy[:, :2] + share * (wh - wh[:, ::-1])
        return np.hstack([low, low + wh[:, ::-1]])

    return change


def make_shift(x: float, y: float) -> BoxChange:
    """Return a function that moves boxes by `x` and `y`."""
    return lambda xyxy, _: xyxy + np.tile([x, y], 2)


def make_shrinking(factor: float) -> BoxChange:
    """Return a function that divides the width and height of boxes by a factor, about their centres."""

    def change(xyxy: Floats, _: Floats) -> Floats:
        centre, half_size = (xyxy[:, :2] + xyxy[:, 2:]) / 2, (xyxy[:, 2:] - xyxy[:, :2]) / 2 / factor
        return np.hstack([centre - half_size, centre + half_size])

    return change


def _list_turn_readings() -> Iterator[Reading]:
    """List the ways in which the image, or each box, may have been mirrored or rotated."""
    turn = "predict on the images as they are stored, or turn the boxes of {whose} back"
    yield Reading("those of the image mirrored left to right", turn, _make_turn(0, 1, mirrored=(True, False)))
    yield Reading("those of the image mirrored top to bottom", turn, _make_turn(0, 1, mirrored=(False, True)))
    yield Reading("those of the image rotated by 180 degrees", turn, _make_turn(0, 1, mirrored=(True, True)))
    # Clockwise, (x, y) of an image h high went to (h - y, x). Back: x is the new y, y is h less the new x.
    clockwise = _make_turn(1, 0, mirrored=(False, True))
    yield Reading("those of the image rotated by 90 degrees clockwise", turn, clockwise)
    counterclockwise = _make_turn(1, 0, mirrored=(True, False))
    yield Reading("those of the image rotated by 90 degrees counterclockwise", turn, counterclockwise)
    exchange = "exchange width and height of the boxes of {whose}"
    for share in (0, 0.5):  # about the left top corner, or about the centre
        yield Reading("boxes with width and height exchanged", exchange, _make_exchange(share))


@functools.cache
def list_readings() -> tuple[list[Reading], list[Reading], list[Reading]]:
    """List all readings: of the four numbers, of their scale, and of images or boxes that were turned."""
    return list(_list_box_readings()), list(_list_scale_readings()), list(_list_turn_readings())
