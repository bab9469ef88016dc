"""Draws ``fixtures/street``: twelve pictures of streets, what is in them, and what two detectors found.

The example of the README: every kind of mistake is in it, and so are outlines, and keypoints of people.

python docs/street               # draws everything again
"""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from pictures import FINE, HEIGHT, WIDTH, Pixels, draw, placed
from scenes import SCENES, Scene, Thing
from things import CLASSES, KEYPOINTS, SKELETON, points_of

from odm import masks
from odm.checks.shapes import _crosses

ROOT = Path(__file__).resolve().parents[2]


def outlines(shown: Pixels) -> list[list[float]]:
    """The visible parts of a thing as polygons in pixels, each ``[x, y, ...]``, without their holes."""
    rows, columns = (np.flatnonzero(shown.any(axis)) for axis in (1, 0))
    corner = np.array([columns[0] - 1, rows[0] - 1])
    part = np.pad(shown[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1], 1)
    for hole in masks.outlines(masks.encode(~part)):
        if hole.min() > 0:
            part |= masks.decode(masks.rasterise([hole], *part.shape))
    found = []
    for outline in masks.outlines(masks.encode(part)):
        if area(outline) < 12 * FINE**2:
            continue
        for tolerance in (0.45, 0.3, 0.2, 0.1, 0):
            points = np.round((thinned(outline, tolerance * FINE) + corner) / FINE, 1)
            if not _crosses(points):
                break
        found.append(points.reshape(-1).tolist())
    return found


def thinned(points: Pixels, tolerance: float) -> Pixels:
    """A closed outline with the fewest corners that stay this near (Douglas and Peucker 1973)."""
    far = int(np.argmax(np.hypot(*(points - points[0]).T)))
    keep = np.zeros(len(points) + 1, bool)
    keep[[0, far, len(points)]] = True
    points = np.concatenate([points, points[:1]])
    open_ = [(0, far), (far, len(points) - 1)]
    while open_:
        first, last = open_.pop()
        start, along = points[first], points[last] - points[first]
        away = points[first + 1 : last] - start
        off = np.abs(along[0] * away[:, 1] - along[1] * away[:, 0]) / max(np.hypot(*along), 1e-9)
        if len(off) and off.max() > tolerance:
            middle = first + 1 + int(off.argmax())
            keep[middle] = True
            open_ += [(first, middle), (middle, last)]
    return points[:-1][keep[:-1]]


def area(points: Pixels) -> float:
    x, y = points.T
    return float(abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2)


def truth_of(thing: Thing, shown: Pixels) -> dict[str, object]:
    """The annotation of a thing, without its ids."""
    parts = outlines(shown)
    corners = np.array([xy for part in parts for xy in zip(part[::2], part[1::2], strict=True)])
    low, high = corners.min(0), corners.max(0)
    made: dict[str, object] = {
        "category_id": CLASSES.index(thing.name) + 1,
        "bbox": np.round([*low, *(high - low)], 1).tolist(),
        "area": round(sum(area(np.reshape(part, (-1, 2))) for part in parts), 1),
        "iscrowd": 0,
        "segmentation": parts,
    }
    if thing.name == "person":
        places = np.round(placed(thing, points_of(thing.look)), 1)
        rows = []
        for x, y in places.tolist():
            inside = 0 <= x < WIDTH and 0 <= y < HEIGHT
            seen = inside and shown[int(y * FINE), int(x * FINE)]
            rows += [x, y, 2 if seen else 1] if inside else [0, 0, 0]
        made |= {"keypoints": rows, "num_keypoints": sum(v > 0 for v in rows[2::3])}
    return made


def moved(truth: dict[str, object], box: Sequence[float], *, points: bool) -> dict[str, object]:
    """What a detector says: a box, and the outline and the points of the thing, stretched to it."""
    x, y, width, height = truth["bbox"]  # type: ignore[misc]
    k = np.array([box[2] / width, box[3] / height])

    def stretch(xy: object) -> Pixels:
        return np.round((np.reshape(xy, (-1, 2)) - (x, y)) * k + box[:2], 1)

    made: dict[str, object] = {
        "bbox": [round(float(v), 1) for v in box],
        "segmentation": [stretch(part).reshape(-1).tolist() for part in truth["segmentation"]],  # type: ignore[attr-defined]
    }
    if points and "keypoints" in truth:
        given = np.reshape(truth["keypoints"], (-1, 3))
        made["keypoints"] = np.column_stack([stretch(given[:, :2]), np.ones(len(given))]).reshape(-1).tolist()
    return made


def found_by(
    run: str, scene: Scene, truths: Sequence[dict[str, object]], image: int
) -> list[dict[str, object]]:
    """What a detector finds on a picture."""
    rng = np.random.default_rng([image, run == "before"])
    spread, found = 0.022 if run == "now" else 0.04, []

    def add(name: str, truth: dict[str, object], box: Pixels, score: float) -> None:
        low = box[:2].clip(0)
        box = np.array([*low, *((box[:2] + box[2:]).clip(max=(WIDTH, HEIGHT)) - low)])
        same = CLASSES.index(name) + 1 == truth["category_id"]
        row = {"image_id": image, "category_id": CLASSES.index(name) + 1, "score": round(float(score), 3)}
        found.append(row | moved(truth, box, points=same))

    for thing, truth in zip(scene.things, truths, strict=True):
        box, says = np.array(truth["bbox"], float), getattr(thing, run)
        jitter = rng.normal(0, spread, 4) * [*box[2:], *box[2:]]
        sure = 0.62 + 0.35 * min(1, float(np.sqrt(box[2] * box[3])) / 110) - rng.uniform(0, 0.16)
        if says == "missed":
            continue
        if says == "off":
            add(
                thing.name,
                truth,
                box + jitter + [0.3 * box[2], -0.12 * box[3], 0.25 * box[2], 0],
                0.85 * sure,
            )
        else:
            add(says if says in CLASSES else thing.name, truth, box + jitter, sure)
        if says == "twice":
            shift = [0.1 * box[2], 0.06 * box[3], -0.05 * box[2], 0]
            add(thing.name, truth, box + shift, 0.9 * sure)
    ghosts = [ghost[:3] for ghost in scene.ghosts if ghost[3] in (run, "both")]
    for _ in range(5):  # what no detector is sure of, but every one lists
        x, y, size = rng.integers((0, 170, 14), (560, 300, 60)).tolist()
        ghosts.append((CLASSES[rng.integers(len(CLASSES))], (x, y, size, size), rng.uniform(0.01, 0.2)))
    for name, (x, y, width, height), score in ghosts:
        row = {"image_id": image, "category_id": CLASSES.index(name) + 1, "score": round(score, 3)}
        corners = [x, y, x + width, y, x + width, y + height, x, y + height]
        found.append(row | {"bbox": [x, y, width, height], "segmentation": [corners]})
    for row in found:
        if row["category_id"] == CLASSES.index("person") + 1 and "keypoints" not in row:
            row["keypoints"] = standing(row["bbox"])  # a detector of people lists points with every one
    return found


def standing(box: object) -> list[float]:
    """The keypoints of someone who stands and fills a box, as COCO's results list them."""
    places = np.array(points_of("stand")) * [1, -1]
    shares = (places - places.min(0)) / np.ptp(places, axis=0)
    x, y, width, height = box  # type: ignore[misc]
    xy = np.round(shares * [width, height] + [x, y], 1)
    return np.column_stack([xy, np.ones(len(xy))]).reshape(-1).tolist()


def files() -> dict[str, bytes]:
    """Every file of the example by its path in its folder."""
    made: dict[str, bytes] = {}
    coco: dict[str, list[dict[str, object]]] = {"images": [], "annotations": [], "categories": []}
    for n, name in enumerate(CLASSES, 1):
        points = {"keypoints": KEYPOINTS, "skeleton": SKELETON} if name == "person" else {}
        coco["categories"].append({"id": n, "name": name, **points})
    runs: dict[str, list[dict[str, object]]] = {"now": [], "before": []}
    tags = [("image", "time", "background")]
    for number, scene in enumerate(SCENES, 1):
        picture, shows = draw(scene, number)
        held = io.BytesIO()
        picture.save(held, "JPEG", quality=88, optimize=True)
        name = f"{scene.name}.jpg"
        made[f"images/{name}"] = held.getvalue()
        coco["images"].append({"id": number, "file_name": name, "width": WIDTH, "height": HEIGHT})
        truths = [truth_of(thing, shown) for thing, shown in zip(scene.things, shows, strict=True)]
        for truth in truths:
            coco["annotations"].append({"id": len(coco["annotations"]) + 1, "image_id": number, **truth})
        for run in runs:
            found = found_by(run, scene, truths, number)
            runs[run] += found
            if run == "now":
                made[f"predictions/{scene.name}.txt"] = yolo(found).encode()
        made[f"labels/{scene.name}.txt"] = yolo(truths).encode()
        tags.append((name, scene.time, scene.behind))
    made["truth.json"] = lines_of({"info": {"description": "odm: drawn streets"}, **coco})
    made["detections.json"], made["earlier.json"] = (lines_of(runs[run]) for run in ("now", "before"))
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(tags)
    made["tags.csv"] = table.getvalue().encode()
    names = "".join(f"  {n}: {name}\n" for n, name in enumerate(CLASSES))
    made["data.yaml"] = f"path: .\ntrain: images\nval: images\nnames:\n{names}".encode()
    return made


def yolo(boxes: Iterable[dict[str, object]]) -> str:
    """The boxes of a picture as lines of YOLO; detections with their score."""
    lines = []
    for box in boxes:
        x, y, width, height = box["bbox"]  # type: ignore[misc]
        shares = ((x + width / 2) / WIDTH, (y + height / 2) / HEIGHT, width / WIDTH, height / HEIGHT)
        cells = [str(box["category_id"] - 1), *(f"{v:.6f}" for v in shares)]  # type: ignore[operator]
        lines.append(" ".join([*cells, str(box["score"])] if "score" in box else cells) + "\n")
    return "".join(lines)


def lines_of(value: object) -> bytes:
    """JSON with an image, object or detection a line, so that changes can be read."""
    if isinstance(value, list):
        return ("[\n" + ",\n".join(json.dumps(row) for row in value) + "\n]\n").encode()
    assert isinstance(value, dict)
    parts = [
        f"{json.dumps(key)}: {lines_of(part).decode().rstrip() if isinstance(part, list) else json.dumps(part)}"
        for key, part in value.items()
    ]
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "fixtures" / "street")
    folder = parser.parse_args().out
    made = files()
    for name, data in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    print(f"{sum(map(len, made.values())) / 1000:.0f} kB in {folder}")


if __name__ == "__main__":
    main()
