"""Cutting images into tiles: wall time of `odm convert --tile` beside SAHI's `slice_coco`, and whether they agree.

    python benchmarks/tiles.py --sahi /path/to/an/environment/bin/python     # with SAHI installed
    python benchmarks/tiles.py --sahi ... --images 100 -n 5

Data are random: JPEG files of 1920 x 1080 with 200 boxes each, cut into tiles of 640 x 640 with an overlap of 0.2, of
which both programs write JPEG files. The runs of the two alternate.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

WIDTH, HEIGHT, BOXES = 1920, 1080, 200
SAHI = """
import sys
from sahi.slicing import slice_coco
slice_coco("truth.json", "photos", output_coco_annotation_file_name="sahi", output_dir="sahi", slice_height=640,
           slice_width=640, overlap_height_ratio=0.2, overlap_width_ratio=0.2, min_area_ratio=0.1, out_ext=".jpg",
           ignore_negative_samples=False, verbose=False)
"""
ODM = "convert truth.json odm --to coco --tile 640x640 --overlap 0.2 --tile-min 0.1 --images photos -q"


def write_data(folder: Path, n_images: int) -> None:
    """Write image files and ground truth with whole numbers."""
    rng = np.random.default_rng(5)
    (folder / "photos").mkdir()
    images, annotations = [], []
    for i in range(1, n_images + 1):
        name = f"p{i}.jpg"
        pixels = rng.integers(0, 255, (HEIGHT // 8, WIDTH // 8, 3), np.uint8)
        Image.fromarray(pixels).resize((WIDTH, HEIGHT)).save(folder / "photos" / name, quality=92)
        images.append({"id": i, "file_name": name, "width": WIDTH, "height": HEIGHT})
        wh = rng.integers(8, 120, (BOXES, 2))
        corner = rng.integers(0, [WIDTH - 120, HEIGHT - 120], (BOXES, 2))
        for box in np.hstack([corner, wh]).tolist():
            row = {"id": len(annotations) + 1, "image_id": i, "category_id": 1, "bbox": box, "iscrowd": 0}
            annotations.append({**row, "area": box[2] * box[3], "segmentation": []})
    data = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "a"}]}
    (folder / "truth.json").write_text(json.dumps(data))


def read_tiles(folder: Path, pattern: str) -> dict[tuple[str, ...], list[list[float]]]:
    """Return the sorted boxes of each tile by the image, left and top in its name."""
    data = json.loads(next(folder.glob("*.json")).read_text())
    keys = {}
    for image in data["images"]:
        match = re.search(pattern, image["file_name"])
        assert match
        keys[image["id"]] = match.groups()
    boxes: dict[tuple[str, ...], list[list[float]]] = {key: [] for key in keys.values()}
    for row in data["annotations"]:
        boxes[keys[row["image_id"]]].append([round(value, 6) for value in row["bbox"]])
    return {key: sorted(rows) for key, rows in boxes.items()}


def main() -> None:
    """Run both programs, and print their times and differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sahi", required=True, help="a Python with SAHI")
    parser.add_argument("--images", type=int, default=12)
    parser.add_argument("-n", type=int, default=3)
    options = parser.parse_args()
    commands = {
        "sahi": [options.sahi, "-c", SAHI],
        "odm": [sys.executable, "-m", "odm", *ODM.split()],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_data(folder, options.images)
        for _ in range(options.n):
            for name, command in commands.items():
                shutil.rmtree(folder / name, ignore_errors=True)
                start = time.perf_counter()
                subprocess.run(command, cwd=folder, check=True, capture_output=True)
                seconds[name].append(time.perf_counter() - start)
        sahi = read_tiles(folder / "sahi", r"^(p\d+)_.*?(\d+)_(\d+)_\d+_\d+\.jpg$")
        tiles = read_tiles(folder / "odm", r"(p\d+)_x(\d+)_y(\d+)")
    for name, values in seconds.items():
        print(f"{name:5} {statistics.median(values):6.2f} s")
    equal = sum(tiles[key] == sahi.get(key) for key in tiles)
    same = "the same" if tiles.keys() == sahi.keys() else "other"
    print(
        f"{len(tiles)} tiles, {same} places; {equal} with the same boxes; {sum(map(len, tiles.values()))} boxes"
    )


if __name__ == "__main__":
    main()
