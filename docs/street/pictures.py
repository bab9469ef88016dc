"""Draws a scene, and says which pixels show each thing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFilter
from scenes import Scene, Thing
from things import GLASS, INK, LAMPS, THINGS, WHITE, Colour, mixed, oval, slab, van

WIDTH, HEIGHT = 640, 400
FINE = 3
"""Pixels are drawn this many times smaller, and averaged: smooth edges, and outlines of parts of a pixel."""
HORIZON, CAMERA = 168, 3.1
"""Where the ground ends, and the height from which it is seen, in metres: together they give the scale."""
SKIES: dict[str, tuple[Colour, Colour, float]] = {
    "day": ((112, 172, 226), (226, 238, 244), 1.0),
    "dawn": ((128, 160, 204), (252, 222, 190), 0.97),
    "dusk": ((84, 78, 140), (248, 170, 112), 0.84),
    "night": ((12, 18, 44), (44, 52, 92), 0.5),
    "rain": ((120, 132, 146), (186, 194, 200), 0.86),
    "snow": ((176, 190, 206), (230, 234, 238), 0.98),
}
"""By time of day: the sky above, the sky at the horizon, and how bright the rest is."""
GROUNDS: dict[str, tuple[Colour, Colour]] = {
    "road": ((176, 172, 166), (98, 102, 110)),
    "crossing": ((160, 160, 158), (84, 88, 96)),
    "promenade": ((206, 192, 168), (222, 208, 184)),
    "lawn": ((132, 172, 96), (206, 188, 150)),
    "snow": ((238, 242, 246), (196, 204, 214)),
}
"""The pavement or lawn, and the road or path across it."""
Pixels = np.ndarray


class Canvas:
    """A picture of fine pixels, on which outlines in pixels of the picture are drawn."""

    def __init__(self, image: Image.Image | None = None) -> None:
        self.image = image or Image.new("RGB", (WIDTH * FINE, HEIGHT * FINE))
        self.pen = ImageDraw.Draw(self.image)

    def fill(self, points: Iterable[tuple[float, float]], colour: object) -> None:
        self.pen.polygon([(round(x * FINE), round(y * FINE)) for x, y in points], fill=colour)  # type: ignore[arg-type]

    def rise(self, colours: tuple[Colour, Colour], top: float, bottom: float) -> None:
        """A band across the picture that goes from one colour to the other."""
        share = np.linspace(0, 1, round((bottom - top) * FINE))[:, None, None]
        band = np.array(colours[0]) * (1 - share) + np.array(colours[1]) * share
        wide = np.broadcast_to(band, (len(band), WIDTH * FINE, 3)).astype(np.uint8)
        self.image.paste(Image.fromarray(np.ascontiguousarray(wide)), (0, round(top * FINE)))

    def glow(self, x: float, y: float, radius: float, colour: Colour, strength: float = 0.7) -> None:
        """Light around a place."""
        box = [round(v * FINE) for v in (x - radius, y - radius, x + radius, y + radius)]
        rows, columns = np.mgrid[-1:1:64j, -1:1:64j]
        light_ = (strength * 255 * np.clip(1 - np.hypot(rows, columns), 0, 1) ** 2).astype(np.uint8)
        size = (box[2] - box[0], box[3] - box[1])
        self.image.paste(
            colour, (box[0], box[1]), Image.fromarray(light_).resize(size, Image.Resampling.BILINEAR)
        )


def clouds(paper: Canvas, rng: np.random.Generator, colour: Colour) -> None:
    for _ in range(4):
        x, y, size = rng.uniform(0, WIDTH), rng.uniform(18, 90), rng.uniform(16, 30)
        for dx, dy, r in ((-1.4, 0.25, 0.6), (-0.6, 0, 0.9), (0.4, -0.15, 1.0), (1.3, 0.2, 0.65)):
            paper.fill(oval(x + dx * size, y + dy * size, r * size, 0.5 * r * size), colour)


def city(paper: Canvas, rng: np.random.Generator, haze: Colour, night: bool) -> None:
    for far in (True, False):
        x = -20.0
        while x < WIDTH:
            width, height = rng.uniform(38, 84), rng.uniform(60, 140) if far else rng.uniform(34, 92)
            base = [(150, 118, 104), (128, 136, 150), (176, 160, 140), (112, 124, 132)][rng.integers(4)]
            wall = mixed(mixed(base, (40, 46, 70), 0.7 if night else 0), haze, 0.6 if far else 0.15)
            top = HORIZON + 20 - height
            paper.fill(slab(x, top, x + width, HORIZON + 22), wall)
            paper.fill(slab(x, top, x + width, top + 4), mixed(wall, INK, 0.25))
            for row in np.arange(top + 10, HORIZON + 8, 13):
                for column in np.arange(x + 6, x + width - 9, 12):
                    lit = rng.random() < (0.4 if night else 0.12)
                    glass = (250, 214, 130) if lit and night else mixed(wall, WHITE if lit else INK, 0.3)
                    paper.fill(slab(column, row, column + 6, row + 8), glass)
            x += width + (rng.uniform(0, 16) if far else rng.uniform(2, 40))


def houses(paper: Canvas, rng: np.random.Generator, haze: Colour, snow: bool) -> None:
    hills(paper, rng, haze, snow)
    x = -30.0
    while x < WIDTH:
        width, height = rng.uniform(70, 104), rng.uniform(44, 62)
        wall = mixed(
            [(232, 206, 170), (214, 150, 120), (236, 228, 210), (176, 190, 186)][rng.integers(4)], haze, 0.1
        )
        top, roof = HORIZON + 22 - height, (238, 242, 248) if snow else (158, 78, 60)
        paper.fill(slab(x, top, x + width, HORIZON + 22), wall)
        paper.fill([(x - 5, top), (x + width / 2, top - 30), (x + width + 5, top)], roof)
        paper.fill(slab(x + width * 0.42, HORIZON - 2, x + width * 0.58, HORIZON + 22), (110, 78, 60))
        for column in (0.12, 0.68):
            left = x + width * column
            paper.fill(slab(left - 2, top + 10, left + 18, top + 30), WHITE)
            paper.fill(slab(left, top + 12, left + 16, top + 28), GLASS)
        x += width + rng.uniform(8, 34)


def hills(paper: Canvas, rng: np.random.Generator, haze: Colour, snow: bool) -> None:
    x = np.linspace(0, WIDTH, 80)
    for n, colour in enumerate(((104, 136, 150), (96, 146, 112), (112, 164, 92))):
        phase, height = rng.uniform(0, 6), 60 - 18 * n
        crest = HORIZON + 14 - height * (0.6 + 0.4 * np.sin(x / (70 + 20 * n) + phase))
        shade = mixed(mixed(colour, WHITE, 0.75 if snow else 0), haze, 0.45 - 0.15 * n)
        paper.fill([*zip(x, crest, strict=True), (WIDTH, HORIZON + 24), (0, HORIZON + 24)], shade)


def trees(paper: Canvas, rng: np.random.Generator, haze: Colour, _: bool) -> None:
    hills(paper, rng, haze, snow=False)
    for x in np.arange(-10, WIDTH, 52):
        middle, crown, size = x + rng.uniform(-14, 14), HORIZON - rng.uniform(16, 34), rng.uniform(20, 32)
        green = mixed([(70, 128, 70), (94, 146, 66), (62, 112, 84)][rng.integers(3)], haze, 0.08)
        paper.fill(slab(middle - 3, crown, middle + 3, HORIZON + 24), (96, 72, 56))
        for dx, dy, r in ((-0.6, 0.25, 0.7), (0.6, 0.2, 0.7), (0, -0.35, 0.85), (0, 0.3, 0.8)):
            paper.fill(oval(middle + dx * size, crown + dy * size, r * size), green)
        paper.fill(oval(middle - 0.25 * size, crown - 0.4 * size, 0.45 * size), mixed(green, WHITE, 0.14))


def sea(paper: Canvas, rng: np.random.Generator, haze: Colour, _: bool) -> None:
    paper.rise(((64, 136, 176), (126, 190, 206)), HORIZON - 46, HORIZON + 24)
    for _n in range(60):
        x, y = rng.uniform(0, WIDTH), rng.uniform(HORIZON - 42, HORIZON + 18)
        paper.fill(slab(x, y, x + rng.uniform(8, 26), y + 1), mixed((126, 190, 206), WHITE, 0.4))
    for x, size in ((150, 16), (430, 11)):
        y = HORIZON - 26
        paper.fill(
            [(x - size, y), (x + size, y), (x + 0.7 * size, y + 5), (x - 0.7 * size, y + 5)], (120, 70, 58)
        )
        paper.fill([(x, y - 2), (x, y - 2.2 * size), (x + 0.9 * size, y - 2)], WHITE)
    paper.fill(slab(0, HORIZON + 18, WIDTH, HORIZON + 24), mixed((150, 140, 128), haze, 0.1))


BEHIND: dict[str, Callable[[Canvas, np.random.Generator, Colour, bool], None]] = {
    "city": city,
    "houses": houses,
    "hills": hills,
    "trees": trees,
    "sea": sea,
}


def street(paper: Canvas, kind: str, rng: np.random.Generator) -> None:
    """The ground from the far pavement to the near one."""
    beside, road = GROUNDS[kind]
    paper.rise((mixed(beside, WHITE, 0.15), beside), HORIZON + 22, HEIGHT)
    paper.fill(slab(0, 243, WIDTH, 247), mixed(beside, INK, 0.3))
    paper.rise((mixed(road, WHITE, 0.1), road), 246, 338)
    paper.fill(slab(0, 337, WIDTH, 342), mixed(beside, WHITE, 0.4))
    paper.fill(slab(0, 342, WIDTH, 344), mixed(beside, INK, 0.3))
    if kind == "road":
        for x in range(-20, WIDTH, 92):
            paper.fill([(x, 283), (x + 46, 283), (x + 44, 287), (x - 4, 287)], WHITE)
    if kind == "crossing":
        for x in range(170, 450, 40):
            paper.fill([(x + 14, 248), (x + 34, 248), (x + 24, 336), (x - 4, 336)], (222, 222, 216))
    if kind in ("promenade", "lawn", "snow"):
        for _ in range(140):
            x, y = rng.uniform(0, WIDTH), rng.uniform(HORIZON + 26, HEIGHT)
            shade = mixed(road if 246 < y < 338 else beside, INK, 0.1)
            paper.fill(slab(x, y, x + (y - HORIZON) / 24, y + 1), shade)


def scale(y: float) -> float:
    """Pixels of a metre at the height in the picture at which something stands."""
    return (y - HORIZON) / CAMERA


def placed(thing: Thing, points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """From metres to pixels."""
    k, turn = scale(thing.y), -1 if thing.left else 1
    return [(thing.x + turn * k * x, thing.y - k * y) for x, y in points]


def draw(scene: Scene, number: int) -> tuple[Image.Image, list[Pixels]]:
    """The picture, and which fine pixels show each thing."""
    rng = np.random.default_rng(number)
    above, below, bright = SKIES[scene.time]
    paper, dark = Canvas(), scene.time in ("night", "dusk")
    paper.rise((above, below), 0, HORIZON + 30)
    if scene.time == "night":
        for x, y in rng.uniform((0, 0), (WIDTH, 110), (60, 2)):
            paper.fill(oval(x, y, 0.8), (220, 224, 240))
        paper.fill(oval(540, 52, 20), (240, 238, 214))
    else:
        paper.glow(500, 150 if scene.time in ("dusk", "dawn") else 44, 120, (255, 246, 214))
        clouds(paper, rng, mixed(below, WHITE, 0.55 if scene.time in ("day", "dawn") else 0.12))
    BEHIND[scene.behind](paper, rng, below, dark or scene.time == "snow")
    street(paper, scene.ground, rng)
    order = sorted(range(len(scene.things)), key=lambda n: (scene.things[n].y, n))
    shows = {n: put(paper, scene.things[n]) for n in order}
    for n, nearer in ((n, m) for k, n in enumerate(order) for m in order[k + 1 :]):
        shows[n] &= ~shows[nearer]
    image = paper.image
    if bright < 1:
        top = (HORIZON + 22) * FINE
        image.paste(
            image.crop((0, top, *image.size)).point([round(v * bright) for v in range(256)] * 3), (0, top)
        )
    lights(Canvas(image), scene, [shows[n] for n in range(len(shows))], dark)
    small = np.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.BOX), float)
    small = weather(small, scene.time, rng)
    small += rng.normal(0, 1.6, (HEIGHT, WIDTH, 1))  # the grain of a sensor
    return Image.fromarray(small.clip(0, 255).astype(np.uint8)), [shows[n] for n in range(len(scene.things))]


def put(paper: Canvas, thing: Thing) -> Pixels:
    """Draw a thing with its shadow; the fine pixels that it covers."""
    parts = (van if thing.look == "van" else THINGS[thing.name])(thing.colour, thing.look)
    k = scale(thing.y)
    if thing.name == "traffic light":
        paper.fill(placed(thing, slab(-0.06, 0, 0.06, 2.6)), (70, 74, 82))
    elif (thing.name, thing.look) != ("person", "ride"):
        reach = max(abs(x) for _, points in parts for x, _ in points) * k
        shadow = Image.new("L", paper.image.size)
        Canvas(shadow).fill(oval(thing.x + 0.05 * k, thing.y, reach, 0.11 * k + 0.06 * reach), 120)
        paper.image.paste((24, 26, 36), (0, 0), shadow.filter(ImageFilter.GaussianBlur(0.1 * k * FINE)))
    covered = Image.new("1", paper.image.size)
    mask = Canvas(covered)
    for colour, points in parts:
        mask.fill(placed(thing, points), 1)
        if colour is not None:
            paper.fill(placed(thing, points), colour)
    shade(paper.image, covered)
    return np.array(covered)


def shade(image: Image.Image, covered: Image.Image) -> None:
    """Lighter above and darker below, as under a sky."""
    box = covered.getbbox()
    assert box is not None
    part = np.asarray(image.crop(box), float)
    bright = np.linspace(1.1, 0.86, part.shape[0])[:, None, None]
    image.paste(Image.fromarray((part * bright).clip(0, 255).astype(np.uint8)), box[:2], covered.crop(box))


def lights(paper: Canvas, scene: Scene, shows: Sequence[Pixels], dark: bool) -> None:
    """Lamps that are not hidden, and in the dark headlights and rear lights."""

    def lamp(
        n: int, place: tuple[float, float], radius: float, colour: Colour, strength: float = 0.7
    ) -> None:
        ((x, y),) = placed(scene.things[n], [place])
        here = around(x, y)
        hidden = any(np.any(other[here]) for m, other in enumerate(shows) if m != n)
        if not hidden:
            paper.glow(x, y, radius * scale(scene.things[n].y), colour, strength)

    for n, thing in enumerate(scene.things):
        if thing.name == "traffic light":
            k = list(LAMPS).index(thing.look)
            lamp(n, (0, 3.53 - 0.38 * k), 0.9 if dark else 0.35, mixed(LAMPS[thing.look], WHITE, 0.3))
        elif dark and thing.name in ("car", "bus", "truck"):
            end = 4.9 if thing.name == "bus" else 2.1
            lamp(n, (end, 0.72), 0.9, (255, 240, 190), 0.9)
            lamp(n, (end + 0.9, 0.3), 1.3, (255, 236, 180), 0.35)
            lamp(n, (-end, 0.75), 0.5, (255, 60, 50), 0.8)


def around(x: float, y: float) -> tuple[slice, slice]:
    """The fine pixels next to a place."""
    top, left = (max(0, round(v * FINE) - FINE) for v in (y, x))
    return slice(top, top + 2 * FINE), slice(left, left + 2 * FINE)


def weather(pixels: Pixels, time: str, rng: np.random.Generator) -> Pixels:
    """Rain, snow and the colour of the light."""
    if time in ("rain", "snow"):
        fall = Image.new("L", (WIDTH, HEIGHT))
        pen = ImageDraw.Draw(fall)
        for x, y in rng.uniform((0, 0), (WIDTH, HEIGHT), (260, 2)):
            end = (x - 3, y + 13) if time == "rain" else (x + 1, y + 1)
            pen.line([(x, y), end], fill=70 if time == "rain" else 190, width=1 if time == "rain" else 2)
        share = np.asarray(fall.filter(ImageFilter.GaussianBlur(0.5)), float)[..., None] / 255
        pixels = pixels * (1 - share) + 244 * share
    tint = {"dusk": (1.04, 0.96, 0.94), "night": (0.9, 0.96, 1.12), "dawn": (1.03, 1.0, 0.96)}.get(
        time, (1, 1, 1)
    )
    return pixels * np.array(tint)
