"""What is on the streets: outlines in metres from where a thing stands, y upwards, and keypoints of people."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Points = Sequence[tuple[float, float]]
Colour = tuple[int, int, int]
Part = tuple[Colour | None, Points]
"""A filled outline in metres from where a thing stands, y upwards; without a colour it counts, but is not seen."""
INK, GLASS, WHITE, TYRE, STEEL = (38, 42, 54), (64, 88, 112), (244, 244, 238), (44, 46, 54), (168, 174, 182)


def smooth(points: Points, times: int = 2) -> Points:
    """A closed outline with its corners cut (Chaikin 1974)."""
    for _ in range(times):
        array = np.array(points, float)
        after = np.roll(array, -1, axis=0)
        points = np.stack([0.75 * array + 0.25 * after, 0.25 * array + 0.75 * after], 1).reshape(-1, 2)
    return [(float(x), float(y)) for x, y in points]


def oval(x: float, y: float, rx: float, ry: float | None = None) -> Points:
    turn = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    return list(zip(x + rx * np.cos(turn), y + (ry or rx) * np.sin(turn), strict=True))


def ring(x: float, y: float, radius: float, width: float) -> Points:
    outer, inner = oval(x, y, radius), oval(x, y, radius - width)
    return [*outer, outer[0], inner[0], *reversed(inner)]


def slab(x0: float, y0: float, x1: float, y1: float, round_: float = 0) -> Points:
    r = round_
    if not r:
        return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
    corners = ((x1 - r, y1 - r, 0), (x0 + r, y1 - r, 1), (x0 + r, y0 + r, 2), (x1 - r, y0 + r, 3))
    quarters = [(x, y, (k + step / 6) * np.pi / 2) for x, y, k in corners for step in range(7)]
    return [(x + r * np.cos(turn), y + r * np.sin(turn)) for x, y, turn in quarters]


def limb(start: tuple[float, float], end: tuple[float, float], wide: float, narrow: float) -> Points:
    """A rounded stroke from one joint to the next."""
    (x0, y0), (x1, y1) = start, end
    turn = np.arctan2(y1 - y0, x1 - x0)
    half = np.linspace(np.pi / 2, 3 * np.pi / 2, 12)
    first = [(x0 + wide * np.cos(turn + a), y0 + wide * np.sin(turn + a)) for a in half]
    return first + [
        (x1 + narrow * np.cos(turn + a + np.pi), y1 + narrow * np.sin(turn + a + np.pi)) for a in half
    ]


def mixed(colour: Colour, other: Colour, share: float) -> Colour:
    return tuple(round(a + (b - a) * share) for a, b in zip(colour, other, strict=True))  # type: ignore[return-value]


def wheel(x: float, radius: float) -> list[Part]:
    return [
        (TYRE, oval(x, radius, radius)),
        (STEEL, oval(x, radius, 0.6 * radius)),
        (mixed(STEEL, INK, 0.5), oval(x, radius, 0.2 * radius)),
    ]


def car(colour: Colour, _: str) -> list[Part]:
    dark, light = mixed(colour, INK, 0.3), mixed(colour, WHITE, 0.35)
    body = [(-2.1, 0.3), (-2.18, 0.7), (-2.0, 0.95), (-1.4, 1.0), (-0.8, 1.46), (0.5, 1.48), (1.2, 1.0), (2.05, 0.86),
            (2.22, 0.6), (2.15, 0.3)]  # fmt: skip
    return [
        (colour, smooth(body)),
        (light, slab(-1.95, 0.78, 1.95, 0.82)),
        (dark, slab(-2.1, 0.3, 2.12, 0.46, 0.05)),
        (GLASS, smooth([(-1.24, 1.0), (-0.72, 1.38), (-0.14, 1.39), (-0.14, 1.0)], 1)),
        (GLASS, smooth([(-0.02, 1.0), (-0.02, 1.39), (0.44, 1.38), (1.0, 1.0)], 1)),
        (mixed(GLASS, WHITE, 0.5), [(0.1, 1.0), (0.32, 1.36), (0.42, 1.36), (0.2, 1.0)]),
        (dark, slab(-0.1, 0.45, -0.07, 0.98)),
        (dark, slab(0.1, 0.84, 0.3, 0.88)),
        ((255, 236, 170), oval(2.05, 0.7, 0.1, 0.08)),
        ((206, 48, 44), slab(-2.14, 0.68, -2.02, 0.86, 0.04)),
        *wheel(-1.3, 0.34),
        *wheel(1.32, 0.34),
    ]


def van(colour: Colour, _: str) -> list[Part]:
    body = [
        (-2.5, 0.34),
        (-2.55, 1.2),
        (-2.5, 2.15),
        (-1.9, 2.3),
        (1.0, 2.28),
        (1.7, 1.5),
        (2.45, 1.2),
        (2.5, 0.34),
    ]
    return [
        (colour, smooth(body)),
        (mixed(colour, INK, 0.2), slab(-2.48, 0.34, 2.42, 0.56, 0.05)),
        (GLASS, smooth([(0.55, 1.4), (0.55, 2.05), (0.95, 2.06), (1.5, 1.4)], 1)),
        (mixed(colour, INK, 0.25), slab(0.3, 0.6, 0.33, 2.1)),
        (mixed(colour, INK, 0.15), slab(-2.3, 1.42, 0.2, 1.48)),
        ((255, 236, 170), oval(2.32, 1.0, 0.12, 0.1)),
        ((206, 48, 44), slab(-2.53, 0.8, -2.42, 1.15, 0.04)),
        *wheel(-1.55, 0.38),
        *wheel(1.55, 0.38),
    ]


def truck(colour: Colour, _: str) -> list[Part]:
    cab = [(1.5, 0.5), (1.5, 2.75), (2.7, 2.75), (3.2, 1.75), (3.3, 0.5)]
    stripes = [(mixed(WHITE, INK, 0.14), slab(x, 0.95, x + 0.04, 3.3)) for x in np.arange(-3.2, 1.2, 0.5)]
    return [
        (INK, slab(-3.3, 0.45, 2.8, 0.75)),
        (WHITE, slab(-3.4, 0.8, 1.35, 3.4, 0.06)),
        *stripes,
        (colour, slab(-3.4, 1.5, 1.35, 2.1)),
        (colour, smooth(cab, 1)),
        (mixed(colour, INK, 0.25), slab(1.55, 0.55, 3.25, 0.85, 0.08)),
        (GLASS, smooth([(1.95, 1.75), (1.95, 2.5), (2.6, 2.5), (2.95, 1.75)], 1)),
        ((255, 236, 170), oval(3.16, 0.98, 0.12, 0.1)),
        *wheel(-2.5, 0.48),
        *wheel(-1.45, 0.48),
        *wheel(2.35, 0.48),
    ]


def bus(colour: Colour, _: str) -> list[Part]:
    windows = [(GLASS, slab(x, 1.5, x + 1.15, 2.45, 0.1)) for x in np.arange(-4.7, 2.6, 1.3)]
    shine = [
        (mixed(GLASS, WHITE, 0.3), [(x + 0.2, 1.5), (x + 0.6, 2.45), (x + 0.8, 2.45), (x + 0.4, 1.5)])
        for x in np.arange(-4.7, 2.6, 1.3)
    ]
    return [
        (colour, slab(-5.0, 0.35, 5.0, 2.95, 0.28)),
        (mixed(colour, WHITE, 0.7), slab(-5.0, 1.12, 4.98, 1.3)),
        (mixed(colour, INK, 0.3), slab(-4.98, 0.35, 4.98, 0.58, 0.08)),
        (mixed(colour, INK, 0.2), slab(-3.6, 2.95, -1.2, 3.1, 0.07)),
        *windows,
        *shine,
        (GLASS, slab(3.2, 0.55, 3.62, 2.45, 0.06)),
        (GLASS, slab(3.68, 0.55, 4.1, 2.45, 0.06)),
        (GLASS, smooth([(4.3, 1.4), (4.3, 2.6), (4.98, 2.55), (5.02, 1.4)], 1)),
        ((255, 186, 60), slab(2.0, 2.6, 4.0, 2.82, 0.04)),
        ((255, 236, 170), oval(4.86, 0.8, 0.1, 0.12)),
        *wheel(-3.1, 0.46),
        *wheel(2.45, 0.46),
    ]


def bicycle(colour: Colour, _: str) -> list[Part]:
    rear, front, crank, seat, head = (-0.52, 0.34), (0.54, 0.34), (-0.08, 0.32), (-0.24, 0.86), (0.4, 0.88)
    tubes = [(rear, crank), (rear, seat), (crank, seat), (crank, head), (seat, head), (head, front)]
    spokes = [
        (STEEL, limb(hub, (hub[0] + 0.3 * np.cos(a), hub[1] + 0.3 * np.sin(a)), 0.006, 0.006))
        for hub in (rear, front)
        for a in np.arange(0, 2 * np.pi, np.pi / 4)
    ]
    return [
        *((None, oval(*hub, 0.34)) for hub in (rear, front)),
        *spokes,
        *((TYRE, ring(*hub, 0.34, 0.045)) for hub in (rear, front)),
        *((colour, limb(a, b, 0.03, 0.03)) for a, b in tubes),
        (INK, limb(crank, (0.0, 0.18), 0.02, 0.02)),
        (INK, ring(*crank, 0.1, 0.03)),
        (INK, smooth([(-0.42, 0.93), (-0.4, 1.0), (-0.1, 0.98), (-0.12, 0.93)], 1)),
        (INK, limb(seat, (-0.26, 0.95), 0.025, 0.025)),
        (INK, limb(head, (0.38, 1.04), 0.025, 0.025)),
        (INK, limb((0.38, 1.04), (0.52, 1.06), 0.03, 0.03)),
    ]


def dog(colour: Colour, _: str) -> list[Part]:
    dark = mixed(colour, INK, 0.25)
    legs = [limb((x, 0.3), (x + lean, 0.03), 0.055, 0.04) for x, lean in ((-0.24, 0.06), (0.2, -0.05))]
    nearer = [limb((x, 0.32), (x + lean, 0.03), 0.06, 0.045) for x, lean in ((-0.3, -0.06), (0.27, 0.07))]
    body = [(-0.42, 0.3), (-0.42, 0.52), (0.0, 0.5), (0.34, 0.56), (0.4, 0.34), (0.1, 0.26)]
    return [
        *((dark, leg) for leg in legs),
        (colour, limb((-0.38, 0.48), (-0.58, 0.72), 0.05, 0.025)),
        (colour, smooth(body)),
        *((colour, leg) for leg in nearer),
        (colour, limb((0.32, 0.5), (0.44, 0.68), 0.11, 0.1)),
        (colour, oval(0.48, 0.72, 0.13, 0.115)),
        (colour, limb((0.52, 0.7), (0.66, 0.66), 0.075, 0.055)),
        (dark, smooth([(0.36, 0.82), (0.46, 0.84), (0.44, 0.62), (0.36, 0.6)])),
        (INK, oval(0.71, 0.68, 0.03)),
        (INK, oval(0.54, 0.75, 0.018)),
        ((196, 52, 52), limb((0.32, 0.6), (0.46, 0.56), 0.025, 0.025)),
    ]


def cone(colour: Colour, _: str) -> list[Part]:
    def band(low: float, high: float) -> Points:
        left, right = (0.2 - 0.17 * (y - 0.06) / 0.69 for y in (low, high))
        return [(-left, low), (left, low), (right, high), (-right, high)]

    return [
        (mixed(colour, INK, 0.3), slab(-0.28, 0.0, 0.28, 0.07, 0.03)),
        (colour, band(0.06, 0.75)),
        (WHITE, band(0.24, 0.38)),
        (WHITE, band(0.5, 0.6)),
        (mixed(colour, WHITE, 0.3), [(-0.13, 0.08), (-0.07, 0.08), (-0.015, 0.74), (-0.03, 0.74)]),
    ]


LAMPS: dict[str, Colour] = {"red": (236, 62, 52), "amber": (250, 180, 50), "green": (72, 206, 110)}


def light(_: Colour, shows: str) -> list[Part]:
    parts: list[Part] = [
        (INK, slab(-0.26, 2.5, 0.26, 3.8, 0.12)),
        (mixed(INK, WHITE, 0.2), slab(-0.2, 2.56, 0.2, 3.74, 0.1)),
    ]
    for n, (name, colour) in enumerate(LAMPS.items()):
        parts.append((colour if name == shows else mixed(colour, INK, 0.78), oval(0, 3.53 - 0.38 * n, 0.15)))
    return parts


POSES: dict[str, dict[str, tuple[float, float]]] = {
    "walk": {
        "hip": (0.0, 0.9), "neck": (0.03, 1.42), "head": (0.06, 1.62),
        "left elbow": (0.2, 1.16), "left wrist": (0.36, 1.0), "right elbow": (-0.16, 1.15), "right wrist": (-0.26, 0.92),
        "left knee": (-0.06, 0.5), "left ankle": (-0.3, 0.14), "right knee": (0.2, 0.52), "right ankle": (0.28, 0.08),
    },
    "stand": {
        "hip": (0.0, 0.92), "neck": (0.0, 1.44), "head": (0.01, 1.64),
        "left elbow": (0.2, 1.17), "left wrist": (0.22, 0.92), "right elbow": (-0.2, 1.17), "right wrist": (-0.2, 0.92),
        "left knee": (0.08, 0.5), "left ankle": (0.1, 0.08), "right knee": (-0.08, 0.5), "right ankle": (-0.1, 0.08),
    },
    "wave": {
        "hip": (0.0, 0.92), "neck": (0.0, 1.44), "head": (0.02, 1.64),
        "left elbow": (0.3, 1.5), "left wrist": (0.34, 1.8), "right elbow": (-0.22, 1.17), "right wrist": (-0.16, 0.94),
        "left knee": (0.08, 0.5), "left ankle": (0.12, 0.08), "right knee": (-0.08, 0.5), "right ankle": (-0.12, 0.08),
    },
    "ride": {
        "hip": (-0.24, 1.04), "neck": (0.1, 1.5), "head": (0.2, 1.68),
        "left elbow": (0.3, 1.24), "left wrist": (0.46, 1.1), "right elbow": (0.26, 1.26), "right wrist": (0.44, 1.08),
        "left knee": (0.12, 0.72), "left ankle": (0.0, 0.22), "right knee": (0.08, 0.84), "right ankle": (-0.16, 0.46),
    },
}  # fmt: skip
SKINS = ((240, 202, 172), (198, 142, 104), (122, 80, 58))
HAIRS = ((66, 46, 38), (34, 30, 34), (176, 122, 62))
TROUSERS = ((52, 66, 104), (74, 70, 74), (122, 98, 74))


def person(shirt: Colour, pose: str) -> list[Part]:
    at, kind = POSES[pose], sum(shirt)
    skin, hair, trousers = SKINS[kind % 3], HAIRS[kind // 3 % 3], TROUSERS[kind // 2 % 3]
    hip, neck, head = at["hip"], at["neck"], at["head"]

    def leg(side: str, shade: float) -> list[Part]:
        knee, ankle, colour = at[f"{side} knee"], at[f"{side} ankle"], mixed(trousers, INK, shade)
        toe = (ankle[0] + 0.13, ankle[1] - 0.04)
        return [
            (colour, limb(hip, knee, 0.1, 0.075)),
            (colour, limb(knee, ankle, 0.075, 0.05)),
            (INK, limb((ankle[0] - 0.02, ankle[1] - 0.03), toe, 0.055, 0.035)),
        ]

    def arm(side: str, shade: float) -> list[Part]:
        shoulder, elbow, wrist = (neck[0], neck[1] - 0.06), at[f"{side} elbow"], at[f"{side} wrist"]
        colour = mixed(shirt, INK, shade)
        return [
            (mixed(skin, INK, shade), oval(*wrist, 0.055)),
            (colour, limb(shoulder, elbow, 0.07, 0.055)),
            (colour, limb(elbow, wrist, 0.055, 0.04)),
        ]

    x, y = head
    return [
        *arm("right", 0.28),
        *leg("right", 0.28),
        *leg("left", 0.0),
        (shirt, limb(hip, (neck[0], neck[1] - 0.1), 0.13, 0.17)),
        (skin, limb((neck[0], neck[1] - 0.02), head, 0.055, 0.055)),
        (skin, oval(x, y, 0.115, 0.135)),
        (hair, smooth([(x - 0.13, y - 0.06), (x - 0.14, y + 0.14), (x + 0.1, y + 0.17), (x + 0.1, y + 0.05),
                       (x - 0.03, y + 0.06), (x - 0.06, y - 0.06)])),
        (INK, oval(x + 0.07, y + 0.0, 0.014)),
        *arm("left", 0.1),
    ]  # fmt: skip


KEYPOINTS = (
    "nose left_eye right_eye left_ear right_ear left_shoulder right_shoulder left_elbow right_elbow left_wrist "
    "right_wrist left_hip right_hip left_knee right_knee left_ankle right_ankle"
).split()
SKELETON = [
    [16, 14], [14, 12], [17, 15], [15, 13], [12, 13], [6, 12], [7, 13], [6, 7], [6, 8], [7, 9], [8, 10],
    [9, 11], [2, 3], [1, 2], [1, 3], [2, 4], [3, 5], [4, 6], [5, 7],
]  # fmt: skip
"""COCO's 17 points of a person, and which of them are joined."""


def points_of(pose: str) -> list[tuple[float, float]]:
    """The 17 points, in metres."""
    at = POSES[pose]
    (x, y), neck, hip = at["head"], at["neck"], at["hip"]
    places = {
        "nose": (x + 0.115, y - 0.03), "left_eye": (x + 0.08, y + 0.01), "right_eye": (x + 0.1, y + 0.01),
        "left_ear": (x - 0.02, y), "right_ear": (x + 0.02, y),
        "left_shoulder": (neck[0] + 0.04, neck[1] - 0.06), "right_shoulder": (neck[0] - 0.04, neck[1] - 0.06),
        "left_hip": (hip[0] + 0.03, hip[1]), "right_hip": (hip[0] - 0.03, hip[1]),
    }  # fmt: skip
    return [places.get(name) or at[name.replace("_", " ")] for name in KEYPOINTS]


THINGS: dict[str, Callable[[Colour, str], list[Part]]] = {
    "person": person,
    "bicycle": bicycle,
    "car": car,
    "truck": truck,
    "bus": bus,
    "dog": dog,
    "traffic light": light,
    "traffic cone": cone,
}
CLASSES = list(THINGS)
