"""The drawings of docs/shapes.md as SVG; ``docs/generate.py`` writes them.

What is drawn is what odm makes of the same object: its mask, the outline traced around it, the smallest
rectangle.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from drawings import BLUE, GREEN, GREY, INK, PALE, RED, Paper

from odm import masks
from odm.converters.shapes import smallest_rectangle

FOLDER = "docs/images/shapes"

LEAF = [(2, 9), (5, 4), (10, 2), (15, 3.5), (18, 8), (16, 12), (11, 13.5), (8, 11), (5, 13), (3, 12)]
"""An object on a grid of 20 x 16 pixels."""


def mask_of(outline: Iterable[tuple[float, float]]) -> np.ndarray:
    return masks.decode(masks.rasterise([list(outline)], 16, 20))


def pixels(paper: Paper, mask: np.ndarray, x: float, y: float, step: float, fill: str) -> None:
    for row, column in np.argwhere(mask).tolist():
        paper.rect(x + column * step, y + row * step, step, step, fill=fill, fill_opacity=0.35)


def closed(
    paper: Paper, points: Iterable[tuple[float, float]], x: float, y: float, step: float, **style: object
) -> None:
    corners = [(x + px * step, y + py * step) for px, py in points]
    paper.line([*corners, corners[0]], **style)


def kinds() -> Paper:
    """A box, an outline, a mask, an oriented box and keypoints of one object."""
    paper = Paper(880, 214, "One object as a box, an outline, a mask, an oriented box and keypoints")
    step, top = 7.6, 20
    low, high = np.min(LEAF, axis=0), np.max(LEAF, axis=0)
    box = [(low[0], low[1]), (high[0], low[1]), (high[0], high[1]), (low[0], high[1])]
    for i, (name, note) in enumerate(
        (
            ("box", "4 numbers"),
            ("outline", f"{len(LEAF)} corners"),
            ("mask", "pixels"),
            ("oriented box", "4 corners"),
            ("keypoints", "named points"),
        )
    ):
        x = 14 + i * 172
        paper.rect(x, top, 20 * step, 16 * step, stroke=PALE)
        faint = name in ("box", "oriented box", "keypoints")
        closed(paper, LEAF, x, top, step, stroke=GREY if faint else BLUE, stroke_width=1 if faint else 2.2)
        if name == "box":
            closed(paper, box, x, top, step, stroke=BLUE, stroke_width=2.2)
        elif name == "mask":
            pixels(paper, mask_of(LEAF), x, top, step, BLUE)
        elif name == "oriented box":
            closed(paper, smallest_rectangle(np.array(LEAF)), x, top, step, stroke=BLUE, stroke_width=2.2)
        elif name == "keypoints":
            points = [(2, 9), (9, 7), (18, 8)]
            paper.line([(x + px * step, top + py * step) for px, py in points], stroke=GREEN, stroke_width=2)
            for px, py in points:
                paper.add("circle", cx=x + px * step, cy=top + py * step, r=4.5, fill=BLUE)
        paper.text(x + 10 * step, top + 16 * step + 26, name, anchor="middle", bold=True)
        paper.text(x + 10 * step, top + 16 * step + 46, note, anchor="middle", size=13, fill=GREY)
    return paper


def traced() -> Paper:
    """A mask with a hole, and the one outline that fills to the same pixels."""
    mask = np.zeros((12, 16), bool)
    mask[1:11, 2:14] = True
    mask[4:8, 6:11] = False
    (outline,) = masks.outlines(masks.encode(mask))
    paper = Paper(640, 260, "A mask with a hole, and the outline that is traced around it")
    step, top = 17, 18
    for x in (16, 344):
        pixels(paper, mask, x, top, step, BLUE)
        for column in range(17):
            paper.line([(x + column * step, top), (x + column * step, top + 12 * step)], stroke=PALE)
        for row in range(13):
            paper.line([(x, top + row * step), (x + 16 * step, top + row * step)], stroke=PALE)
    closed(paper, outline.tolist(), 344, top, step, stroke=RED, stroke_width=2.4)
    paper.text(16 + 8 * step, top + 12 * step + 26, "mask: 100 pixels", anchor="middle", fill=INK)
    paper.text(344 + 8 * step, top + 12 * step + 26, f"outline: {len(outline)} corners, a bridge to the hole",
               anchor="middle")  # fmt: skip
    return paper


def shape_drawings() -> dict[str, str]:
    """The text of every drawing by its path."""
    return {f"{FOLDER}/{of.__name__}.svg": of().svg() for of in (kinds, traced)}
