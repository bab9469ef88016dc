"""Detections that do not fit into memory: time, processor time and peak memory of `odm eval`, three ways.

    python benchmarks/shards.py --detections 2400000 FOLDER

Makes ground truth in COCO JSON and detections in Parquet files of a million rows (kept in FOLDER and used
again), then evaluates them in one process, within --memory, and with --workers of Dask on this machine. The
three must print the same JSON, byte for byte. With --json the detections are one results list of COCO, of about
110 bytes each: 4 500 000 are 500 MB, 18 000 000 are 2 GB, 72 000 000 are 8 GB. Needs the extras [parquet] and, for Dask, [cluster].
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

ROWS_OF_FILE = 1_000_000
N_CLASSES = 80


def make(folder: Path, n: int, *, per_image: int = 100) -> None:
    """`n` detections, `per_image` of an image, of which a tenth lie near an object; classes are skewed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    n_images, classes = n // per_image, [f"class {k}" for k in range(N_CLASSES)]
    names = pa.array([f"image-{i:08d}.jpg" for i in range(n_images)])
    n_objects = n_images * 7
    weight = 1 / np.arange(2, N_CLASSES + 2)
    weight /= weight.sum()
    owner = np.sort(rng.integers(0, n_images, n_objects))
    category = rng.choice(N_CLASSES, n_objects, p=weight)
    boxes = np.round(
        np.c_[rng.uniform(0, 500, (n_objects, 2)), rng.lognormal(3.8, 0.8, (n_objects, 2)) + 2], 2
    )
    with (folder / "gt.json").open("w", encoding="utf-8") as out:
        images = [
            {"id": i, "file_name": f"image-{i:08d}.jpg", "width": 640, "height": 480} for i in range(n_images)
        ]
        annotations = [
            {"id": i + 1, "image_id": o, "category_id": c + 1, "bbox": b, "area": b[2] * b[3], "iscrowd": 0}
            for i, (o, c, b) in enumerate(zip(owner.tolist(), category.tolist(), boxes.tolist(), strict=True))
        ]
        categories = [{"id": k + 1, "name": name} for k, name in enumerate(classes)]
        json.dump({"images": images, "annotations": annotations, "categories": categories}, out)
    del annotations, images
    first = np.searchsorted(owner, np.arange(n_images + 1))
    (folder / "detections").mkdir()
    for start in range(0, n, ROWS_OF_FILE):
        rows = np.arange(start, min(start + ROWS_OF_FILE, n))
        image = rows // per_image
        n_here = first[image + 1] - first[image]
        near = (rng.random(len(rows)) < 0.1) & (n_here > 0)
        source = np.minimum(
            first[image] + rng.integers(0, 50, len(rows)) % np.maximum(n_here, 1), n_objects - 1
        )
        kinds = np.where(near, category[source], rng.choice(N_CLASSES, len(rows), p=weight))
        other = np.c_[rng.uniform(0, 500, (len(rows), 2)), rng.lognormal(3.8, 0.8, (len(rows), 2)) + 2]
        jitter = rng.normal(0, 3, (len(rows), 4))
        box = np.where(near[:, None], boxes[source] + jitter, other)
        box[:, 2:] = np.maximum(box[:, 2:], 1)
        score = np.where(near, rng.beta(4, 2, len(rows)), rng.beta(1, 8, len(rows))).astype(np.float32)
        table = pa.table(
            {
                "image": pa.DictionaryArray.from_arrays(
                    pa.array((image - image[0]).astype(np.int32)),
                    names.slice(int(image[0]), int(image[-1] - image[0]) + 1),
                ),
                "class": pa.DictionaryArray.from_arrays(pa.array(kinds.astype(np.int32)), pa.array(classes)),
                "score": score,
                **{
                    k: np.round(box[:, i], 2)
                    for i, k in enumerate(("left", "top", "box_width", "box_height"))
                },
            }
        )
        pq.write_table(
            table,
            folder / "detections" / f"part-{start // ROWS_OF_FILE:05d}.parquet",
            write_page_checksum=True,
        )


def write_list(folder: Path) -> Path:
    """The detections of the Parquet files as one results list."""
    import pyarrow.parquet as pq

    path, between = folder / "detections.json", "["
    with path.open("w", encoding="utf-8") as out:
        for file in sorted((folder / "detections").iterdir()):
            for batch in pq.ParquetFile(file).iter_batches(100_000):
                table = {name: batch.column(name).to_pylist() for name in batch.schema.names}
                for image, kind, score, *box in zip(*table.values(), strict=True):
                    record = {"image_id": int(image[6:-4]), "category_id": int(kind[6:]) + 1, "bbox": box}
                    out.write(between + json.dumps(record | {"score": round(score, 5)}))
                    between = ", "
        out.write("]\n")
    return path


def measured(command: list[str]) -> tuple[bytes, str]:
    """What a command prints, and its time and peak memory, its own or that of its largest child."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    peak = 0

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            try:
                text = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
            except OSError:
                return
            peak = max(
                [peak, *(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM"))]
            )
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, _ = process.communicate()
    watcher.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (
        out,
        f"{time.perf_counter() - begin:7.1f} s wall  {cpu:7.1f} s processor  {peak / 1e6:6.2f} GB peak",
    )


def processor_time(pid: int) -> float:
    """The seconds of processor time that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--detections", type=int, default=2_400_000)
    parser.add_argument("--memory", default="1.5GB")
    parser.add_argument("--workers", type=int, default=0, help="of Dask, on this machine")
    parser.add_argument("--json", action="store_true", help="detections as one results list")
    parser.add_argument("--skip-whole", action="store_true", help="where one process has not enough memory")
    parser.add_argument("--skip-memory", action="store_true", help="only one process, and Dask")
    given = parser.parse_args()
    folder = given.folder / f"{given.detections}"
    if not (folder / "done").exists():
        folder.mkdir(parents=True)
        make(folder, given.detections)
        (folder / "done").touch()
    detections = folder / "detections"
    if given.json:
        detections = folder / "detections.json"
        if not detections.exists():
            write_list(folder)
    command = [sys.executable, "-m", "odm", "eval", str(folder / "gt.json"), str(detections)]
    command += ["--protocol", "coco", "--output", "json", "--quiet"]
    ways = {} if given.skip_whole else {"one process": command}
    if not given.skip_memory:
        ways[f"--memory {given.memory}"] = [
            *command,
            "--memory",
            given.memory,
            "--scratch",
            str(folder / "scratch"),
        ]
    answers = []
    for name, words in ways.items():
        out, figures = measured(words)
        answers.append(out)
        print(f"{name:20} {figures}", flush=True)
    if given.workers:
        from distributed import LocalCluster

        os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", "33554432")  # see docs/scale.md
        options = {
            "n_workers": given.workers,
            "threads_per_worker": 1,
            "processes": True,
            "dashboard_address": None,
        }
        with LocalCluster(**options) as cluster:
            more = ["--cluster", cluster.scheduler_address, "--scratch", str(folder / "scratch")]
            out, figures = measured([*command, *more])
            answers.append(out)
            workers = [
                sum(
                    int(line.split()[1])
                    for line in Path(f"/proc/{w.pid}/status").read_text(encoding="ascii").splitlines()
                    if line.startswith("VmHWM")
                )
                for w in cluster.workers.values()
            ]
            peaks = ", ".join(f"{n / 1e6:.2f}" for n in workers)
            times = ", ".join(f"{processor_time(w.pid):.1f}" for w in cluster.workers.values())
            print(
                f"{given.workers} workers of Dask    {figures} (this process); workers {times} s, {peaks} GB",
                flush=True,
            )
    same = len(set(answers)) == 1 and answers[0]
    print("the same JSON" if same else "DIFFERENT JSON", os.cpu_count(), "cores")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
