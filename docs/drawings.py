"""The drawings of docs/metrics-explained.md as SVG; ``docs/generate.py`` writes them.

Boxes and numbers are those of ``fixtures/illustrated`` as `odm.evaluate` returns them. Text is set in whatever
sans-serif font the reader has, so nothing depends on the length of a word, and the same data give the same bytes.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path

import numpy as np

import odm
from odm import masks
from odm.evaluate import Result, evaluate
from odm.tables.quadrilaterals import shared_areas
from odm.tables.shapes import rectangle_corners

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "docs/images/metrics"
BLUE, RED, GREEN, GREY, INK, PALE = "#1f5fa8", "#c43c2b", "#2f8f4e", "#8a8f98", "#20242b", "#e4e7ec"
LETTERS = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
MINUS = "\N{MINUS SIGN}"
GREATER_EQUAL = "\N{GREATER-THAN OR EQUAL TO}"
TIMES = "\N{MULTIPLICATION SIGN}"


# --------------------------------------------------------------------------------------------- the example


@functools.cache
def example(protocol: str = "voc2012", **options: float) -> Result:
    """The illustrated example under a protocol."""
    folder = ROOT / "fixtures" / "illustrated"
    truth = odm.read(str(folder / "groundtruths"), format="txt", box="ltwh")
    found = odm.read(str(folder / "detections"), format="txt", box="ltwh")
    return evaluate(truth, found, protocol, **options).result


def envelope(result: Result) -> tuple[list[float], list[float]]:
    """Recall at every true positive, and the highest precision at this recall or more."""
    (curve,) = result.curves.values()
    return curve.recall.tolist(), np.maximum.accumulate(curve.precision[::-1])[::-1].tolist()


# ----------------------------------------------------------------------------------------------- the paper


@dataclasses.dataclass
class Paper:
    """A white sheet that shapes are put on; lengths are in its own units."""

    width: float
    height: float
    title: str
    shapes: list[str] = dataclasses.field(default_factory=list)

    def add(self, tag: str, text: str = "", **attributes: object) -> None:
        """An element; ``_`` in the name of an attribute is a hyphen, numbers get two decimals at most."""
        parts = (
            f'{name.rstrip("_").replace("_", "-")}="{escape(shown(value))}"'
            for name, value in attributes.items()
        )
        body = f">{escape(text, quote=False)}</{tag}>" if text else "/>"
        self.shapes.append(f"<{tag} {' '.join(parts)}{body}")

    def text(
        self, x: float, y: float, text: str, *, size: float = 15, fill: str = INK, anchor: str = "start",
        bold: bool = False,
    ) -> None:  # fmt: skip
        weight = {"font_weight": 600} if bold else {}
        self.add("text", text, x=x, y=y, font_size=size, fill=fill, text_anchor=anchor, **weight)

    def rect(self, x: float, y: float, width: float, height: float, **style: object) -> None:
        self.add("rect", x=x, y=y, width=width, height=height, **{"fill": "none", **style})

    def line(self, points: Iterable[tuple[float, float]], **style: object) -> None:
        path = " ".join(f"{shown(x)},{shown(y)}" for x, y in points)
        self.add("polyline", points=path, **{"fill": "none", "stroke_linejoin": "round", **style})

    def svg(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {shown(self.width)} {shown(self.height)}"'
        )
        size = f'width="{shown(self.width)}" height="{shown(self.height)}"'
        lines = [
            f'{head} {size} role="img" font-family="{LETTERS}">',
            f"<title>{escape(self.title, quote=False)}</title>",
            f'<rect width="100%" height="100%" rx="8" fill="#ffffff" stroke="{PALE}"/>',
            *self.shapes,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def shown(value: object) -> str:
    """A number with two decimals at most, anything else as text."""
    if isinstance(value, (int, float, np.floating, np.integer)):
        return f"{float(value):.2f}".rstrip("0").rstrip(".") or "0"
    return str(value)


@dataclasses.dataclass
class Chart:
    """Axes from 0 to 1 on a paper, recall to the right and precision upwards."""

    paper: Paper
    left: float = 62
    top: float = 24
    width: float = 470
    height: float = 270

    def __call__(self, x: float, y: float) -> tuple[float, float]:
        return self.left + x * self.width, self.top + (1 - y) * self.height

    def axes(self, x_label: str = "recall", y_label: str = "precision") -> None:
        paper = self.paper
        for k in range(0, 11, 2):
            for (x, y), end, anchor, move in (
                (self(k / 10, 0), self(k / 10, 1), "middle", (0, 20)),
                (self(0, k / 10), self(1, k / 10), "end", (-8, 5)),
            ):
                paper.line([(x, y), end], stroke=PALE)
                paper.text(x + move[0], y + move[1], f"{k / 10:g}", size=13, fill=GREY, anchor=anchor)
        paper.line([self(0, 1), self(0, 0), self(1, 0)], stroke=GREY)
        x, y = self(0.5, 0)
        paper.text(x, y + 42, x_label, anchor="middle")
        x, y = self(0, 0.5)
        paper.add(
            "text", y_label, font_size=15, fill=INK, text_anchor="middle",
            transform=f"translate({shown(x - 42)} {shown(y)}) rotate(-90)",
        )  # fmt: skip

    def rect(self, x0: float, x1: float, height: float, **style: object) -> None:
        x, y = self(x0, height)
        self.paper.rect(x, y, (x1 - x0) * self.width, height * self.height, **style)

    def dot(self, x: float, y: float, fill: str, radius: float = 5) -> None:
        cx, cy = self(x, y)
        self.paper.add("circle", cx=cx, cy=cy, r=radius, fill=fill, stroke="#ffffff", stroke_width=1.2)


def chart(title: str) -> Chart:
    found = Chart(Paper(560, 350, title))
    found.axes()
    return found


def stairs(on: Chart, recall: Sequence[float], heights: Sequence[float], **style: object) -> None:
    """The line that AP is the area under."""
    points = [on(0, heights[0])]
    for i, (x, y) in enumerate(zip(recall, heights, strict=True)):
        points += [on(x, y), on(x, heights[i + 1] if i + 1 < len(heights) else 0)]
    on.paper.line(points, **{"stroke": BLUE, "stroke_width": 2.2, **style})


# -------------------------------------------------------------------------------------------- the drawings


def iou() -> Paper:
    """Two boxes and the two areas that are divided, then boxes at four values."""
    paper = Paper(560, 386, "IoU is the area of overlap divided by the area of union")
    truth, found = (0, 0, 110, 90), (34, 26, 110, 90)
    inner = (34, 26, 76, 64)

    def pair(x: float, y: float, k: float, *, outline: bool = True) -> None:
        for (left, top, width, height), stroke, dash in ((truth, GREEN, "6 4"), (found, BLUE, "none")):
            if outline:
                paper.rect(
                    x + left * k, y + top * k, width * k, height * k,
                    stroke=stroke, stroke_width=2.5, stroke_dasharray=dash,
                )  # fmt: skip

    pair(36, 52, 1.25)
    paper.text(36, 42, "object (ground truth)", fill=GREEN)
    paper.text(36 + 34 * 1.25, 52 + 116 * 1.25 + 20, "detection", fill=BLUE)
    paper.text(250, 126, "IoU  =", size=20, bold=True)
    paper.line([(326, 120), (526, 120)], stroke=INK, stroke_width=2)
    for y, label, overlap in ((40, "area of overlap", True), (136, "area of union", False)):
        x, k = 328, 0.55
        for box in [inner] if overlap else [truth, found]:
            left, top, width, height = (v * k for v in box)
            paper.rect(x + left, y + top, width, height, fill="#5d6470")
        pair(x, y, k)
        paper.text(x + 88, y + 38, label)
    size = 62.0
    for n, value in enumerate((0.25, 0.5, 0.75, 0.9)):
        x, y = 36 + n * 134, 276
        shift = size * (1 - value) / (1 + value)  # two squares, one moved to the right, have this IoU
        paper.rect(x + shift, y, size - shift, size, fill=BLUE, fill_opacity=0.15)
        paper.rect(x, y, size, size, stroke=GREEN, stroke_width=2.5, stroke_dasharray="6 4")
        paper.rect(x + shift, y, size, size, stroke=BLUE, stroke_width=2.5)
        paper.text(x + (size + shift) / 2, y + size + 26, f"IoU {value:g}", anchor="middle")
    return paper


def person(paper: Paper, x: float, y: float, height: float) -> None:
    """A figure in a box of `height` by half of that."""
    head = height * 0.14
    middle = x + height / 4
    paper.add("circle", cx=middle, cy=y + head, r=head, fill="#c9ced6")
    paper.rect(
        x + height * 0.06, y + height * 0.31, height * 0.38, height * 0.69, rx=height * 0.14, fill="#c9ced6"
    )


def outcomes() -> Paper:
    """One picture with three people: a hit, its duplicate, a box beside its object, and a miss."""
    paper = Paper(560, 330, "True positive, false positives and a false negative in one picture")
    paper.rect(20, 20, 520, 230, fill="#f4f6f9", stroke=PALE)

    def box(x: float, y: float, width: float, height: float, stroke: str, dash: str = "none") -> None:
        paper.rect(x, y, width, height, stroke=stroke, stroke_width=2.6, stroke_dasharray=dash)

    def tag(x: float, y: float, score: str, what: str, colour: str) -> None:
        paper.text(x, y, f"{score}  {what}", size=14, fill=colour, bold=True)

    for x, y, height in ((70, 80, 140), (258, 90, 120), (428, 100, 120)):
        person(paper, x, y, height)
        box(x, y, height / 2, height, GREEN, "6 4")
    box(76, 74, 68, 144, BLUE)
    tag(76, 64, "0.9", "TP", BLUE)
    box(56, 92, 72, 138, RED)
    tag(134, 240, "0.6", "FP (duplicate)", RED)
    box(296, 82, 62, 112, RED)
    tag(296, 72, "0.8", "FP (IoU too low)", RED)
    paper.text(428, 240, "FN (missed)", size=14, fill=GREEN, bold=True)
    for x, y, colour, dash, label in (
        (20, 276, GREEN, "6 4", "object"),
        (150, 276, BLUE, "none", "true positive"),
        (330, 276, RED, "none", "false positive"),
    ):
        box(x, y, 26, 20, colour, dash)
        paper.text(x + 36, y + 16, label)
    return paper


def counts() -> Paper:
    """The detections and the objects of the example as squares, and the two shares."""
    row = example(iou=0.3).overall
    paper = Paper(560, 240, "Precision is the share of correct detections, recall the share of found objects")

    def squares(y: float, groups: Sequence[tuple[int, str, str, bool]]) -> None:
        x = 24.0
        for n, label, colour, filled in groups:
            for k in range(n):
                paper.rect(
                    x + k * 21,
                    y,
                    16,
                    16,
                    rx=3,
                    fill=colour if filled else "none",
                    stroke=colour,
                    stroke_width=2,
                )
            paper.text(x, y - 10, f"{n} {label}", fill=colour)
            x += n * 21 + 12

    det, gt = row.tp + row.fp, row.gt
    squares(50, [(row.tp, "TP: correct", BLUE, True), (row.fp, "FP: wrong", RED, True)])
    paper.text(24, 94, f"precision = {row.tp} / {det} detections = {row.tp / det:.3f}", bold=True)
    squares(156, [(row.tp, "TP: found", BLUE, True), (row.fn, "FN: missed", GREEN, False)])
    paper.text(24, 200, f"recall = {row.tp} / {gt} objects = {row.tp / gt:.3f}", bold=True)
    return paper


def pictures() -> Paper:
    """The seven images with all boxes; detections have the numbers of the accumulated table."""
    result = example(iou=0.3)
    sides, table = result.sides, result.curve_table
    paper = Paper(600, 620, "The seven images of the example: objects dashed, detections by descending score")
    for n, name in enumerate(sides.images):
        x, y = 18 + n % 3 * 194, 38 + n // 3 * 196
        paper.rect(x, y, 176, 160, fill="#f4f6f9", stroke=PALE)
        paper.text(x, y - 7, f"image {name.lstrip('0')}", size=13, fill=GREY)
        k = 0.8

        def place(box: np.ndarray, *, x: float = x, y: float = y, k: float = k) -> tuple[float, ...]:
            left, top, right, bottom = (float(v) * k for v in box)
            return x + left, y + top, right - left, bottom - top

        for box in sides.truth.xyxy[sides.truth.image == n]:
            paper.rect(*place(box), stroke=GREEN, stroke_width=2, stroke_dasharray="5 3")
        for i in np.flatnonzero(table.image == n)[::-1].tolist():
            colour = BLUE if table.tp[i] else RED
            left, top, width, height = place(result.detections.xyxy[table.row[i]])
            paper.rect(left, top, width, height, stroke=colour, stroke_width=1.8)
            number = str(table.rank[i])
            size = 8 + 8 * len(number)
            if not table.tp[i]:  # below, because a duplicate lies close to its true positive
                left, top = left + width - size, top + height
            paper.rect(left, top, size, 16, fill=colour)
            paper.text(left + 4, top + 12.5, number, size=13, fill="#ffffff", bold=True)
    x, y = 18 + 194, 38 + 2 * 196
    for n, (colour, dash, label) in enumerate((
        (GREEN, "5 3", "object (15)"),
        (BLUE, "none", f"true positive, IoU {GREATER_EQUAL} 0.3 (7)"),
        (RED, "none", "false positive (17)"),
    )):  # fmt: skip
        paper.rect(x, y + 12 + n * 34, 24, 18, stroke=colour, stroke_width=2.2, stroke_dasharray=dash)
        paper.text(x + 36, y + 26 + n * 34, label)
    paper.text(x, y + 128, "numbers: rank by descending score", fill=GREY)
    return paper


def curve() -> Paper:
    """Precision over recall after each of the detections."""
    table = example(iou=0.3).curve_table
    on = chart("Precision over recall after each detection of the example")
    points = list(zip(table.recall.tolist(), table.precision.tolist(), strict=True))
    on.paper.line([on(*p) for p in points], stroke=GREY, stroke_width=1.2)
    for i in np.argsort(table.tp, kind="stable").tolist():  # true positives last, so that none is hidden
        hit = bool(table.tp[i])
        on.dot(*points[i], BLUE if hit else RED, 5 if hit else 3.6)
        if hit:
            x, y = on(*points[i])
            on.paper.text(x - 6, y - 7, str(table.rank[i]), size=14, fill=BLUE, anchor="end", bold=True)
    for n, (fill, label) in enumerate(
        ((BLUE, "true positive: up and to the right"), (RED, "false positive: down"))
    ):
        x, y = on(0.42, 0.92 - n * 0.09)
        on.paper.add("circle", cx=x, cy=y - 5, r=5, fill=fill)
        on.paper.text(x + 14, y, label)
    return on.paper


def all_points() -> Paper:
    """The area under the envelope as rectangles."""
    result = example(iou=0.3)
    recall, heights = envelope(result)
    on = chart("All points: AP is the area under the envelope")
    edges = [0, *(i + 1 for i in range(len(heights)) if i + 1 == len(heights) or heights[i + 1] < heights[i])]
    terms = []
    for n, (first, last) in enumerate(itertools.pairwise(edges)):
        x0, x1, height = recall[first - 1] if first else 0.0, recall[last - 1], heights[first]
        on.rect(x0, x1, height, fill=BLUE, fill_opacity=0.18 if n % 2 else 0.3)
        x, y = on((x0 + x1) / 2, height / 2)
        on.paper.text(x, y, f"A{n + 1}", size=14, anchor="middle", bold=True)
        terms.append(f"A{n + 1} = {x1 - x0:.4f} {TIMES} {height:.4f} = {(x1 - x0) * height:.4f}")
    raw(on, result)
    stairs(on, recall, heights)
    for n, term in enumerate([*terms, f"AP = {result.overall.ap:.4f}"]):
        x, y = on(0.5, 0.94 - n * 0.09)
        on.paper.text(x, y, term, bold=n == len(terms))
    return on.paper


def raw(on: Chart, result: Result) -> None:
    """The points of the curve, in grey."""
    (points,) = result.curves.values()
    for x, y in zip(points.recall.tolist(), points.precision.tolist(), strict=True):
        on.dot(x, y, GREY, 3.6)


def at_points(result: Result, n: int) -> list[tuple[float, float]]:
    """Recall and the highest precision at this recall or more, at `n` points."""
    recall, heights = envelope(result)
    points = np.linspace(0, 1, n).tolist()
    return [(x, next((h for r, h in zip(recall, heights, strict=True) if r >= x), 0.0)) for x in points]


def eleven_points() -> Paper:
    """Precision read at eleven recalls."""
    result = example("voc2007", iou=0.3)
    on = chart("11 points: AP is the mean of the precision at recall 0, 0.1, ... 1")
    recall, heights = envelope(result)
    stairs(on, recall, heights, stroke="#a9c3e2", stroke_width=1.6)
    raw(on, result)
    read = at_points(result, 11)
    for x, y in read:
        if y:
            on.paper.line([on(x, 0), on(x, y)], stroke=BLUE, stroke_dasharray="3 3")
        on.dot(x, y, BLUE, 6)
    values = [f"{y:.4f}" if y else "0" for _, y in read]
    grouped = [f"{v} {TIMES} {values.count(v)}" if values.count(v) > 1 else v for v in dict.fromkeys(values)]
    lines = [
        f"({' + '.join(grouped[:2])}",
        f"+ {' + '.join(grouped[2:])}) / 11",
        f"AP = {result.overall.ap:.4f}",
    ]
    for n, line in enumerate(lines):
        x, y = on(0.45, 0.92 - n * 0.1)
        on.paper.text(x, y, line, bold=n == 2)
    return on.paper


def hundred_and_one_points() -> Paper:
    """Precision read at 101 recalls, as thin bars."""
    result = example(iou=0.3, interpolation=101)
    on = chart("101 points: AP is the mean of the precision at recall 0, 0.01, ... 1")
    read = at_points(result, 101)
    for x, y in read:
        if y:
            on.paper.line([on(x, 0), on(x, y)], stroke=BLUE, stroke_width=2)
    on.paper.line([on(x, 0) for x, y in read if not y], stroke=BLUE, stroke_width=3, stroke_dasharray="2 2.7")
    raw(on, result)
    x, y = on(0.42, 0.92)
    on.paper.text(x, y, f"AP = {result.overall.ap:.4f}", bold=True)
    on.paper.text(x, y + 27, f"mean of {len(read)} values, {sum(y == 0 for _, y in read)} of them 0")
    return on.paper


def thresholds() -> Paper:
    """AP of the example at the ten IoU thresholds of COCO, and their mean."""
    result = example("coco")
    heights = result.classes[0].extra["ap_per_iou"]
    on = Chart(Paper(560, 350, "AP at the ten IoU thresholds of COCO, and their mean"))
    top = 0.2
    for k in range(5):
        (x, y), end = on(0, k / 4), on(1, k / 4)
        on.paper.line([(x, y), end], stroke=PALE)
        on.paper.text(x - 8, y + 5, f"{k * top / 4:g}", size=13, fill=GREY, anchor="end")
    for n, (iou, ap) in enumerate(zip(result.rules.ious, heights, strict=True)):
        on.rect(n / 10 + 0.015, n / 10 + 0.085, ap / top, fill=BLUE, fill_opacity=0.8)
        x, y = on(n / 10 + 0.05, 0)
        on.paper.text(x, y + 20, f"{iou:.2f}", size=13, fill=GREY, anchor="middle")
        on.paper.text(x, on(0, ap / top)[1] - 6, f"{ap:.3f}" if ap else "0", size=13, anchor="middle")
    on.paper.line([on(0, 0), on(1, 0)], stroke=GREY)
    x, y = on(0.5, 0)
    on.paper.text(x, y + 42, "IoU threshold", anchor="middle")
    mean = result.summary["AP"]
    on.paper.line([on(0, mean / top), on(1, mean / top)], stroke=RED, stroke_width=2, stroke_dasharray="7 4")
    x, y = on(1, 0.92)
    on.paper.text(x, y, f"mean of the ten: mAP50-95 = {mean:.4f}", fill=RED, anchor="end", bold=True)
    return on.paper


def pixels() -> Paper:
    """A box over four pixel columns: its width by edges and by whole pixels."""
    paper = Paper(560, 230, "The same two numbers give a width of 3 or of 4 pixels")
    for x0, title, cover, formula in (
        (30, "edges", (1, 4), f"right {MINUS} left = 4 {MINUS} 1 = 3"),
        (296, "inclusive pixels", (1, 5), f"right {MINUS} left + 1 = 4 {MINUS} 1 + 1 = 4"),
    ):
        paper.text(x0, 34, title, bold=True)
        step = 36
        for k in range(6):
            paper.rect(x0 + k * step, 54, step, step * 2, stroke=PALE, stroke_width=1.5)
            at = x0 + k * step + (0 if cover[1] == 4 else step / 2)
            paper.text(at, 54 + 2 * step + 20, str(k), size=13, fill=GREY, anchor="middle")
        left, right = (x0 + v * step for v in cover)
        paper.rect(
            left, 54, right - left, 2 * step, fill=BLUE, fill_opacity=0.2, stroke=BLUE, stroke_width=2.5
        )
        paper.text(x0, 190, formula)
    return paper


def mask_iou() -> Paper:
    """An object with a notch and a detection without: equal boxes, different masks."""
    paper = Paper(560, 214, "Two masks whose boxes are equal")
    notched = [(0, 0), (20, 0), (20, 10), (10, 10), (10, 20), (0, 20)]
    whole = [(0, 0), (20, 0), (20, 20), (0, 20)]
    one, other = (masks.rasterise([np.array(corners) + 5], 40, 40) for corners in (notched, whole))
    value = float(masks.iou([other], [one])[0, 0])
    k = 7
    for x, title, shapes in (
        (30, f"boxes: IoU {1:g}", (whole, whole)),
        (216, f"masks: IoU {value:g}", (notched, whole)),
    ):
        for corners, stroke, dash in zip(shapes, (GREEN, BLUE), ("6 4", "none"), strict=True):
            points = [(x + px * k, 56 + py * k) for px, py in [*corners, corners[0]]]
            fill = {"fill": stroke, "fill_opacity": 0.15}
            paper.line(points, stroke=stroke, stroke_width=2.5, stroke_dasharray=dash, **fill)
        paper.text(x, 40, title, bold=True)
    for row, (color, label, mask) in enumerate(((GREEN, "object", one), (BLUE, "detection", other))):
        paper.text(390, 84 + 26 * row, f"{label}: {masks.area(mask)} pixels", fill=color)
    paper.text(390, 146, f"{masks.area(one)} / {masks.area(other)} = {value:g}")
    return paper


def oks() -> Paper:
    """Five points of an object and of a detection, and what each adds."""
    paper = Paper(560, 270, "What each keypoint adds to OKS")
    truth = np.array([[100, 80], [70, 130], [135, 130], [80, 210], [125, 210]], float)
    found = truth + np.array([[2, 2], [-6, 4], [12, 9], [20, 14], [30, 4]])
    size, sigma = 90 * 150, 0.08
    far = ((found - truth) ** 2).sum(axis=1)
    each = np.exp(-far / (2 * sigma) ** 2 / size / 2)
    for (x, y), (u, v), value in zip(truth, found, each, strict=True):
        paper.line([(x, y), (u, v)], stroke=GREY)
        half = 2 * sigma * np.sqrt(2 * size * np.log(2))
        paper.add(
            "circle", cx=x, cy=y, r=half, fill=GREEN, fill_opacity=0.1, stroke=GREEN, stroke_dasharray="4 3"
        )
        paper.add("circle", cx=x, cy=y, r=4, fill="#ffffff", stroke=GREEN, stroke_width=2)
        paper.add("circle", cx=u, cy=v, r=4, fill=BLUE)
        paper.text(u + 8, v + 5, f"{value:.2f}", size=13, fill=BLUE)
    paper.text(280, 70, "point of the object", fill=GREEN)
    paper.text(280, 96, "point of the detection", fill=BLUE)
    paper.text(280, 122, "dashed circle: a point adds 0.5")
    paper.text(280, 166, f"OKS = {each.mean():.2f}, the mean", size=18, bold=True)
    return paper


def rotated_iou() -> Paper:
    """Rectangles and what they share, beside the IoU of the boxes around them."""
    paper = Paper(560, 270, "IoU of rectangles that are turned")
    k = 3.2
    for x, one, other in (
        (100, (0, 0, 40, 40, 0), (0, 0, 40, 40, np.pi / 4)),
        (280, (0, 0, 56, 14, 0.5), (2, 1, 54, 15, 0.7)),
        (460, (0, 0, 56, 14, np.pi / 4), (0, 0, 56, 14, -np.pi / 4)),
    ):
        quads = [rectangle_corners(np.array([values], float)) for values in (one, other)]
        both = shared_areas(*quads)[0]
        value = both / (one[2] * one[3] + other[2] * other[3] - both)
        low, high = (np.array([f(quad[0], axis=0) for quad in quads]) for f in (np.min, np.max))
        inner = np.prod(np.maximum(high.min(axis=0) - low.max(axis=0), 0))
        around = inner / (np.prod(high - low, axis=1).sum() - inner)
        for quad, stroke, dash in zip(quads, (GREEN, BLUE), ("6 4", "none"), strict=True):
            points = [(x + px * k, 112 + py * k) for px, py in [*quad[0], quad[0, 0]]]
            fill = {"fill": stroke, "fill_opacity": 0.15}
            paper.line(points, stroke=stroke, stroke_width=2.5, stroke_dasharray=dash, **fill)
        paper.text(x, 232, f"IoU {value:.2f}", anchor="middle", bold=True)
        paper.text(x, 254, f"boxes around them: {around:.2f}", size=13, fill=GREY, anchor="middle")
    return paper


DRAWINGS: dict[str, Callable[[], Paper]] = {
    "iou": iou,
    "outcomes": outcomes,
    "counts": counts,
    "pictures": pictures,
    "curve": curve,
    "all-points": all_points,
    "eleven-points": eleven_points,
    "101-points": hundred_and_one_points,
    "thresholds": thresholds,
    "mask-iou": mask_iou,
    "oks": oks,
    "rotated-iou": rotated_iou,
    "pixels": pixels,
}


WORDS: dict[str, str] = json.loads((ROOT / "docs" / "zh" / "words.json").read_text(encoding="utf-8"))
"""What is Chinese in drawings and tables, with ``#`` for every number."""
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def chinese(text: str) -> str:
    """A short text in Chinese, or as it is where `WORDS` lacks it."""
    numbers = iter(NUMBER.findall(text))
    return re.sub("#", lambda _: next(numbers), WORDS.get(NUMBER.sub("#", text), NUMBER.sub("#", text)))


def drawings() -> dict[str, str]:
    """Every drawing by its file, in English and in Chinese."""
    made = {f"{FOLDER}/{name}.svg": draw().svg() for name, draw in DRAWINGS.items()}
    for name in DRAWINGS:
        text = re.sub(r"(?<=>)[^<>\n]+(?=</t)", lambda m: chinese(m[0]), made[f"{FOLDER}/{name}.svg"])
        made[f"{FOLDER}/zh/{name}.svg"] = text
    return made
