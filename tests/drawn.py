"""A small drawn dataset for tests of reports: pictures, COCO ground truth and CSV detections with mistakes."""

import csv
import json

import numpy as np
from PIL import Image, ImageDraw

COLORS = {"circle": (212, 94, 64), "square": (236, 170, 68), "star": (72, 138, 124), "ring": (58, 92, 150)}


def draw_picture(size, shapes, rng):
    """A picture of a noisy ground with a shape in every box."""
    width, height = size
    ground = np.linspace(90, 150, height)[:, None, None] + rng.normal(0, 5, (height, width, 1))
    image = Image.fromarray(np.repeat(ground, 3, axis=2).clip(0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    for name, (x, y, w, h) in shapes:
        box, color = (x, y, x + w, y + h), COLORS.get(name, (150, 84, 140))
        if name in ("circle", "ring"):
            pen.ellipse(box, fill=color)
        else:
            pen.rectangle(box, fill=color)
        if name == "ring":
            pen.ellipse((x + w // 4, y + h // 4, x + 3 * w // 4, y + 3 * h // 4), fill=(110, 110, 110))
    return image


def make_data(
    folder, *, n=14, seed=5, names=None, classes=tuple(COLORS), scale=1.0, shift=0.0, size=(160, 120)
):
    """Write gt.json, det.csv and photos/ into `folder`; `scale` and `shift` change the scores.

    Every kind of mistake occurs: misses, boxes that are off, wrong classes, duplicates, noise; one class is
    only in the detections, some boxes are crowds, and one image has no objects.
    """
    rng = np.random.default_rng(seed)
    (folder / "photos").mkdir(parents=True)
    names = names or [f"photo{i:02d}.jpg" for i in range(n)]
    images, annotations, detections = [], [], []

    def detect(name, category, x, y, w, h, score):
        box = [round(float(v), 2) for v in (x, y, x + max(w, 2), y + max(h, 2))]
        detections.append([name, category, round(float(score) * scale + shift, 4), *box])

    for i, name in enumerate(names):
        shapes = []
        for _ in range(0 if i == 1 else int(rng.integers(1, 6))):
            w, h = (int(v) for v in rng.integers(10, 50, 2))
            x, y = int(rng.integers(0, size[0] - w)), int(rng.integers(0, size[1] - h))
            c = int(rng.choice(len(classes), p=np.array([4, 3, 2, 1]) / 10))
            shapes.append((classes[c], (x, y, w, h)))
            crowd = int(rng.random() < 0.08)
            annotations.append({"id": len(annotations) + 1, "image_id": i + 1, "category_id": c + 1,
                                "bbox": [x, y, w, h], "area": w * h, "iscrowd": crowd})  # fmt: skip
            score, what = np.round(rng.random(), 2), rng.random()
            other = classes[(c + 1) % len(classes)]
            if what < 0.55:
                detect(name, classes[c], x + rng.normal(0, 1), y + rng.normal(0, 1), w, h, score)
            if 0.4 < what < 0.7:
                detect(name, other, x, y + 1, w, h, score * 0.9)
            if 0.65 < what < 0.85:
                detect(name, classes[c], x + w * 0.45, y, w, h, score * 0.8)
            if what < 0.15:
                detect(name, classes[c], x + 1, y + 1, w, h, score * 0.6)
        for _ in range(int(rng.integers(0, 3))):
            w, h = rng.integers(6, 30, 2)
            category = "moon" if rng.random() < 0.2 else classes[int(rng.integers(len(classes)))]
            detect(name, category, rng.random() * 120, rng.random() * 80, w, h, rng.beta(1.3, 4))
        draw_picture(size, shapes, rng).save(
            folder / "photos" / name.replace("/", "_"), format="JPEG", quality=85
        )
        images.append({"id": i + 1, "file_name": name, "width": size[0], "height": size[1]})
    categories = [{"id": i + 1, "name": name} for i, name in enumerate(classes)]
    data = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "gt.json").write_text(json.dumps(data), encoding="utf-8")
    with (folder / "det.csv").open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows(
            [["image", "class", "score", "left", "top", "right", "bottom"], *detections]
        )
    return folder


HOSTILE_CLASSES = (
    '<img src=x onerror="alert(1)">',
    "</script><script>alert(2)</script>",
    "tri\u202eelgna",
    "a" * 180,
)
HOSTILE_NAMES = [
    'x" onerror="alert(3)".jpg',
    "<svg onload=alert(4)>.jpg",
    "name\u202egpj.jpg",
    "b" * 150 + ".jpg",
    "{{7*7}} &amp; '.jpg",
    "plain.jpg",
]
