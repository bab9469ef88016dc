"""The twelve streets, and what the two detectors make of each thing. Places are in pixels of the picture."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from things import INK, Colour

RED, BLUE, TEAL, SAND, GREEN, ORANGE, PLUM, GREY, SNOW, YELLOW, BROWN = (
    (196, 62, 56), (56, 104, 176), (44, 140, 142), (214, 184, 140), (88, 142, 88), (240, 116, 38), (126, 76, 132),
    (116, 124, 136), (226, 228, 226), (240, 186, 60), (150, 100, 62),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Thing:
    """A thing in a picture, and what the two detectors make of it."""

    name: str
    x: float
    y: float
    colour: Colour = GREY
    look: str = ""
    """The pose of a person, the lamp of a traffic light, "van" for a car."""
    now: str = "found"
    """``found``, ``missed``, ``off`` (a box too far off), ``twice``, or the class it is taken for."""
    before: str = "found"
    """The same for the earlier detector."""
    left: bool = False
    """Whether it looks to the left."""


@dataclasses.dataclass(frozen=True)
class Scene:
    """A picture: the time of day, what is behind the street, what it is paved with, and what is on it."""

    name: str
    time: str
    behind: str
    ground: str
    things: Sequence[Thing]
    ghosts: Sequence[tuple[str, tuple[int, int, int, int], float, str]] = ()
    """Boxes where nothing is: class, (x, y, width, height), score, and which detector: now, before or both."""


T = Thing
SCENES = (
    Scene("avenue", "day", "city", "road", [
        T("car", 150, 292, RED), T("car", 452, 268, BLUE, left=True),
        T("person", 330, 232, TEAL, "walk"), T("person", 368, 233, SAND, "stand", before="missed"),
        T("traffic light", 560, 352, look="green"), T("bicycle", 316, 366, ORANGE), T("person", 316, 366, PLUM, "ride"),
    ], [("person", (28, 150, 17, 44), 0.34, "before")]),
    Scene("roadworks", "day", "houses", "road", [
        T("truck", 202, 284, ORANGE, before="bus"),
        T("traffic cone", 356, 290, ORANGE), T("traffic cone", 404, 308, ORANGE),
        T("traffic cone", 462, 330, ORANGE), T("traffic cone", 532, 356, ORANGE, before="missed"),
        T("person", 420, 252, YELLOW, "stand"), T("person", 580, 300, ORANGE, "wave", before="off"),
        T("car", 548, 244, TEAL, before="missed", left=True),
    ]),
    Scene("seafront", "day", "sea", "promenade", [
        T("person", 120, 318, RED, "walk"), T("dog", 190, 322, BROWN), T("person", 300, 262, BLUE, "walk", left=True),
        T("bicycle", 470, 300, TEAL), T("person", 470, 300, SAND, "ride"),
        T("bicycle", 380, 232, RED), T("person", 560, 238, GREEN, "stand"),
        T("dog", 596, 352, SAND, left=True),
    ], [("person", (236, 118, 16, 50), 0.22, "before")]),
    Scene("bus-stop", "day", "trees", "road", [
        T("bus", 250, 280, RED), T("person", 470, 236, BLUE, "stand"), T("person", 500, 238, YELLOW, "stand", now="off"),
        T("person", 530, 236, PLUM, "wave", left=True), T("person", 88, 352, TEAL, "walk", before="twice"),
        T("car", 560, 320, SNOW, before="missed", left=True), T("dog", 148, 360, BROWN, before="missed"),
    ]),
    Scene("sunset", "dusk", "city", "road", [
        T("car", 92, 254, GREY, left=True), T("car", 236, 262, YELLOW, before="truck"),
        T("bus", 526, 282, BLUE, now="truck", before="truck"), T("traffic light", 66, 356, look="amber"),
        T("person", 200, 348, RED, "walk", left=True), T("person", 322, 232, TEAL, "walk", before="missed"),
        T("bicycle", 590, 350, GREEN, before="off", left=True), T("person", 590, 350, BLUE, "ride", left=True),
    ], [("traffic light", (352, 92, 12, 28), 0.41, "both")]),
    Scene("night", "night", "city", "road", [
        T("car", 180, 288, BLUE), T("car", 420, 258, RED, now="missed", before="missed", left=True),
        T("traffic light", 300, 350, look="red", before="off"), T("person", 520, 340, SNOW, "walk", left=True),
        T("person", 576, 236, GREY, "stand", now="missed", before="missed"), T("bicycle", 90, 236, TEAL, now="missed", before="missed"),
        T("dog", 470, 352, SAND, now="missed", before="missed", left=True),
    ], [("person", (246, 196, 14, 42), 0.66, "now"), ("car", (8, 180, 74, 40), 0.61, "both")]),
    Scene("park", "day", "trees", "lawn", [
        T("dog", 250, 330, SAND), T("dog", 318, 300, BROWN, left=True), T("person", 150, 342, GREEN, "wave"),
        T("person", 452, 250, RED, "walk"), T("person", 478, 252, BLUE, "walk", before="missed"),
        T("bicycle", 560, 300, YELLOW, before="off"), T("dog", 540, 236, INK, before="missed"),
    ], [("dog", (30, 226, 38, 24), 0.45, "before")]),
    Scene("country-road", "day", "hills", "road", [
        T("truck", 470, 282, TEAL, left=True), T("car", 84, 252, ORANGE, now="off"),
        T("car", 236, 320, SNOW, "van", now="truck", before="truck"),
        T("bicycle", 575, 350, RED, before="missed"), T("person", 575, 350, YELLOW, "ride"), T("traffic cone", 52, 346, ORANGE, before="missed"),
    ]),
    Scene("crossing", "rain", "city", "crossing", [
        T("person", 200, 318, PLUM, "walk"), T("person", 256, 304, YELLOW, "walk"), T("person", 400, 296, BLUE, "walk", left=True),
        T("person", 424, 300, GREY, "walk", left=True, now="missed", before="missed"),
        T("car", 556, 268, RED, left=True, before="off"), T("car", 76, 250, GREEN, before="twice"),
        T("traffic light", 320, 352, look="red", before="missed"), T("traffic light", 520, 232, look="green", now="off", before="missed"),
    ]),
    Scene("winter", "snow", "houses", "snow", [
        T("person", 130, 300, RED, "walk"), T("dog", 186, 304, INK, now="twice"), T("car", 420, 268, SNOW, now="missed", before="missed", left=True),
        T("car", 250, 246, RED), T("person", 540, 340, BLUE, "stand", before="twice"), T("person", 330, 230, TEAL, "walk", before="missed"),
        T("truck", 560, 250, GREEN, now="off", before="off", left=True),
    ], [("dog", (300, 316, 44, 30), 0.63, "now")]),
    Scene("market", "day", "houses", "promenade", [
        T("person", 90, 300, YELLOW, "stand"), T("person", 128, 304, RED, "walk"), T("person", 240, 250, BLUE, "walk", left=True),
        T("person", 268, 252, SAND, "stand", now="off", before="missed"), T("person", 380, 342, GREEN, "walk", left=True),
        T("person", 420, 346, PLUM, "walk", left=True), T("bicycle", 520, 280, TEAL, now="twice", before="off"), T("bicycle", 572, 292, RED, before="missed"),
        T("dog", 330, 356, BROWN, now="person", before="missed", left=True),
    ], [("person", (604, 168, 18, 48), 0.52, "before")]),
    Scene("morning", "dawn", "hills", "road", [
        T("bus", 200, 262, YELLOW), T("car", 470, 300, TEAL, now="twice", left=True), T("car", 580, 254, GREY),
        T("traffic cone", 330, 350, ORANGE), T("traffic cone", 372, 352, ORANGE),
        T("person", 90, 350, BLUE, "walk"), T("traffic light", 396, 234, look="green", now="missed"),
    ]),
)  # fmt: skip
