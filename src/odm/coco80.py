"""COCO's 80 classes: their names, in order, and their ids in the files, which run to 90 with gaps.

Trainers number the classes 0 to 79; the annotation files of COCO number them 1 to 90. The table is that of
``instances_val2017.json``.
"""

from __future__ import annotations

NAMES = tuple(
    (
        "person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant, "
        "stop sign, parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe, "
        "backpack, umbrella, handbag, tie, suitcase, frisbee, skis, snowboard, sports ball, kite, baseball "
        "bat, baseball glove, skateboard, surfboard, tennis racket, bottle, wine glass, cup, fork, knife, "
        "spoon, bowl, banana, apple, sandwich, orange, broccoli, carrot, hot dog, pizza, donut, cake, chair, "
        "couch, potted plant, bed, dining table, toilet, tv, laptop, mouse, remote, keyboard, cell phone, "
        "microwave, oven, toaster, sink, refrigerator, book, clock, vase, scissors, teddy bear, hair drier, "
        "toothbrush"
    ).split(", ")
)
"""By position, 0 to 79."""

_UNUSED = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}

IDS = tuple(number for number in range(1, 91) if number not in _UNUSED)
"""The id in COCO's files of each position."""
