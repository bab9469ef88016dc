"""Evaluating tracks: time and peak memory of `odm eval --protocol stt` and `tube`, from MOT and from COCO-video.

    python benchmarks/tubes.py                # 1 000 videos of 300 frames, 30 000 tubes, 1.5 million boxes
    python benchmarks/tubes.py --videos 100 -n 5

Half of the tubes are ground truth, half detections of them. Every run is a process of its own; processor time is that
of all its copies together, memory the peak of the largest of them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

FRAMES, TUBES, BOXES = 300, 15, 50
"""Frames of a video, tubes of each side in a video, and boxes of a tube."""


def tubes(n_videos: int, *, found: bool) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """For each video its number, (n, 2) frames from 1 and tracks, and (n, 5) left, top, width, height, score."""
    for video in range(n_videos):
        rng = np.random.default_rng(video)
        begin = rng.integers(1, FRAMES - BOXES, TUBES)
        corner, step = rng.uniform(0, 900, (TUBES, 2)), rng.normal(0, 2, (TUBES, 2))
        size = rng.uniform(20, 150, (TUBES, 2))
        score = rng.random(TUBES)
        at = np.arange(BOXES)
        place = corner[:, None] + step[:, None] * at[None, :, None]
        boxes = np.concatenate([place, np.repeat(size[:, None], BOXES, axis=1)], axis=2)
        if found:
            boxes += rng.normal(0, 8, boxes.shape)
            boxes[..., 2:] = np.maximum(boxes[..., 2:], 1)
        frames = begin[:, None] + at
        ids = np.repeat(np.arange(1, TUBES + 1)[:, None], BOXES, axis=1)
        order = np.argsort(frames.ravel(), kind="stable")
        numbers = np.stack([frames.ravel(), ids.ravel()], axis=1)[order]
        rest = np.concatenate([boxes.reshape(-1, 4), np.repeat(score, BOXES)[:, None]], axis=1)[order]
        yield video, numbers, rest.round(2)


def write_mot(folder: Path, n_videos: int) -> tuple[Path, Path]:
    """Two folders of sequences."""
    for name, found in (("gt", False), ("det", True)):
        for video, numbers, rest in tubes(n_videos, found=found):
            home = folder / f"mot-{name}" / f"v{video:04d}"
            (home / name).mkdir(parents=True)
            (home / "seqinfo.ini").write_text(
                f"[Sequence]\nname=v{video:04d}\nseqLength={FRAMES}\nimWidth=1920\nimHeight=1080\nimExt=.jpg\n"
            )
            lines = [
                f"{f},{t},{x},{y},{w},{h},{s if found else 1},1,1\n"
                for (f, t), (x, y, w, h, s) in zip(numbers.tolist(), rest.tolist(), strict=True)
            ]
            (home / name / f"{name}.txt").write_text("".join(lines))
    return folder / "mot-gt", folder / "mot-det"


def write_coco(folder: Path, n_videos: int) -> tuple[Path, Path]:
    """An instances file with videos, and results with tracks."""
    head = {
        "images": [
            f'{{"id":{v * FRAMES + f},"file_name":"v{v:04d}/{f:06d}.jpg","width":1920,"height":1080,'
            f'"video_id":{v},"frame_id":{f}}}'
            for v in range(n_videos)
            for f in range(1, FRAMES + 1)
        ],
        "videos": [f'{{"id":{v},"name":"v{v:04d}","length":{FRAMES}}}' for v in range(n_videos)],
        "categories": ['{"id":1,"name":"pedestrian"}'],
    }
    lists = [f'"{key}":[' + ",\n".join(rows) + "]" for key, rows in head.items()]
    paths = []
    for name, found in (("gt", False), ("det", True)):
        records = []
        for video, numbers, rest in tubes(n_videos, found=found):
            for (f, t), (x, y, w, h, s) in zip(numbers.tolist(), rest.tolist(), strict=True):
                own = f'"score":{s}' if found else f'"id":{len(records) + 1},"area":{w * h:.2f},"iscrowd":0'
                records.append(
                    f'{{"image_id":{video * FRAMES + f},"category_id":1,"bbox":[{x},{y},{w},{h}],"track_id":{t},{own}}}'
                )
        body = "[" + ",\n".join(records) + "]"
        path = folder / f"{name}.json"
        path.write_text(body if found else "{" + ",\n".join([*lists, f'"annotations":{body}']) + "}")
        paths.append(path)
    return paths[0], paths[1]


def measure(command: list[str]) -> tuple[float, float, float, str]:
    """Wall time, processor time, memory in MB, and the output of a command."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    output = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}: exit status {status}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output


def main() -> None:
    """Write the data, and measure each command the given number of times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--videos", type=int, default=1000)
    parser.add_argument("-n", type=int, default=3, help="how often; the least of each number counts")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        sides = {"mot": write_mot(Path(name), given.videos), "coco": write_coco(Path(name), given.videos)}
        for format_, (truth, found) in sides.items():
            for protocol in ("stt", "tube"):
                command = [
                    sys.executable,
                    "-m",
                    "odm",
                    "eval",
                    str(truth),
                    str(found),
                    "--protocol",
                    protocol,
                ]
                command += ["--gt-format", format_, "--det-format", format_, "--quiet"]
                runs = [measure(command) for _ in range(given.n)]
                wall, cpu, memory = (min(run[i] for run in runs) for i in range(3))
                line = runs[0][3].strip().splitlines()[-1].strip()
                print(
                    f"{format_:5} {protocol:5} {wall:6.2f} s wall {cpu:6.2f} s processor {memory:6.0f} MB  {line}"
                )


if __name__ == "__main__":
    main()
