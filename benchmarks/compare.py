"""Whole commands side by side with their peers, in one run: times and peak memory, medians and ratios.

    python benchmarks/compare.py            # all cases, five rounds
    python benchmarks/compare.py eval -n 9  # cases whose name contains "eval"
    python benchmarks/compare.py eval-coco --one-core

Processor time is that of all threads and child processes, memory the peak of the largest process.

The first call makes an environment of its own for the peers (``benchmarks/work/peers``) and the data
(``benchmarks/work/data``). In every round the contestants of a case run one after the other, so that a machine
whose speed drifts slows them alike; the ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
WORK = HERE / "work"
DATA = WORK / "data"
PEERS = ("hotcoco==1.3.0", "faster-coco-eval==1.8.0", "panlabel==0.7.0", "globox", "pycocotools", "msgspec")
SHAPES = {"segm": "segm", "keypoints": "keypoints", "obb": "obb-many"}
"""The data of `shapes` by the type of IoU."""

HOTCOCO = """
import sys
from hotcoco import COCO, COCOeval
truth = COCO(sys.argv[1])
iou_type, *style = *sys.argv[3:], "bbox"
run = COCOeval(truth, truth.load_res(sys.argv[2]), iou_type, lvis_style="lvis" in style)
run.evaluate(); run.accumulate(); run.summarize()
"""
PYCOCOTOOLS = """
import sys
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
truth = COCO(sys.argv[1])
run = COCOeval(truth, truth.loadRes(sys.argv[2]), "bbox")
run.evaluate(); run.accumulate(); run.summarize()
"""
MSGSPEC = """
import sys, msgspec
class Row(msgspec.Struct):
    image_id: int
    category_id: int
    bbox: list[float]
    score: float
print(len(msgspec.json.decode(open(sys.argv[1], "rb").read(), type=list[Row])))
"""
HOTCOCO_COMPARE = """
import sys
from hotcoco import COCO, COCOeval, compare
truth = COCO(sys.argv[1])
runs = [COCOeval(truth, truth.load_res(path), "bbox") for path in sys.argv[2:4]]
for run in runs:
    run.evaluate(); run.accumulate()
compare(*runs, n_bootstrap=int(sys.argv[4]), seed=0)
"""
IMPORT = "import numpy"
LOAD = """
import sys, odm
print(len(odm.read(sys.argv[2], "coco", kind="det", gt=sys.argv[1])))
"""


def cases(python: str, peer: str) -> dict[str, dict[str, list[str]]]:
    """Each case: contestants by name, the first is ours; ``{out}`` is a fresh target."""
    odm = [python, "-m", "odm"]
    bin_ = Path(peer).parent
    gt, dt = str(DATA / "instances.json"), str(DATA / "results.json")
    big, lvis, tiny = WORK / "big", WORK / "lvis", WORK / "tiny"
    txt = [str(DATA / "txt" / "groundtruths"), str(DATA / "txt" / "detections")]
    voc, linked = str(WORK / "voc"), str(WORK / "linked")
    federated = [str(WORK / "lvis" / "federated.json"), str(WORK / "lvis" / "results.json")]
    shapes = {
        iou_type: [str(WORK / f"shapes-{name}-5000" / side) for side in ("gt.json", "det.json")]
        for iou_type, name in SHAPES.items()
    }
    pan = [str(bin_ / "panlabel"), "convert", "--allow-lossy"]

    def globox(source: str, target: str, in_: str, out: str) -> list[str]:
        options = ["--coco_auto_ids"] if out == "coco" else []
        return [str(bin_ / "globox"), "convert", "--format", in_, "--save_fmt", out, *options, source, target]

    evaluate = [*odm, "eval", "--quiet", "--protocol", "coco"]
    other = str(WORK / "other.json")
    compare = [*odm, "compare", "--quiet", gt, dt, other, "--protocol"]
    return {
        "eval-coco": {
            "odm": [*evaluate, gt, dt],
            "hotcoco": [peer, "-c", HOTCOCO, gt, dt],
        },
        "eval-lvis": {
            "odm": [*evaluate, str(lvis / "instances.json"), str(lvis / "results.json")],
            "hotcoco": [peer, "-c", HOTCOCO, str(lvis / "instances.json"), str(lvis / "results.json")],
        },
        "eval-lvis-rules": {
            "odm": [*odm, "eval", "--quiet", "--protocol", "lvis", *federated],
            "hotcoco": [peer, "-c", HOTCOCO, *federated, "bbox", "lvis"],
        },
        **{
            f"eval-{iou_type}": {
                "odm": [*evaluate, "--iou-type", iou_type, *sides],
                "hotcoco": [peer, "-c", HOTCOCO, *sides, iou_type],
            }
            for iou_type, sides in shapes.items()
        },
        "eval-report": {
            "odm": [*evaluate, gt, dt, "--report", "{out}.html"],
            "without the page": [*evaluate, gt, dt],
        },
        "linked-to-coco": {
            "odm": [
                *odm,
                "convert",
                "--from",
                "yolo",
                "--to",
                "coco",
                "--follow-links",
                linked,
                "{out}.json",
            ],
            "panlabel": [*pan, "--from", "yolo", "--to", "coco", "-i", linked, "-o", "{out}.json"],
        },
        "start-help": {"odm": [*odm, "--help"], "import numpy": [python, "-c", IMPORT]},
        "start-eval": {
            "odm": [*evaluate, str(tiny / "instances.json"), str(tiny / "results.json")],
            "import numpy": [python, "-c", IMPORT],
        },
        "start-convert": {
            "odm": [*odm, "convert", "-q", "--to", "voc", str(tiny / "instances.json"), "{out}"],
            "import numpy": [python, "-c", IMPORT],
        },
        "eval-coco-big": {
            "odm": [*evaluate, str(big / "instances.json"), str(big / "results.json")],
            "hotcoco": [peer, "-c", HOTCOCO, str(big / "instances.json"), str(big / "results.json")],
        },
        "eval-coco-slow": {
            "odm": [*evaluate, gt, dt],
            "pycocotools": [peer, "-c", PYCOCOTOOLS, gt, dt],
        },
        "compare-voc": {"odm": [*compare, "voc2012"]},
        "compare-coco": {"odm": [*compare, "coco"]},
        "compare-coco-areas": {"odm": [*compare, "coco", "--bootstrap-areas"]},
        # 20 replicates of the peer: 1 000 take it some ten minutes.
        "compare-coco-slow": {
            "odm": [*compare, "coco"],
            "hotcoco, 20 draws": [peer, "-c", HOTCOCO_COMPARE, gt, dt, other, "20"],
        },
        "eval-coco-tide": {
            "odm": [*evaluate, gt, dt, "--analyze", "tide"],
            "without tide": [*evaluate, gt, dt],
        },
        "eval-txt": {"odm": [*odm, "eval", "--quiet", *txt]},
        "load-results": {
            "odm": [python, "-c", LOAD, gt, dt],
            "msgspec typed decode": [peer, "-c", MSGSPEC, dt],
        },
        "coco-to-yolo": {
            "odm": [*odm, "convert", "--from", "coco", "--to", "yolo", gt, "{out}"],
            "panlabel": [*pan, "--from", "coco", "--to", "yolo", "-i", gt, "-o", "{out}"],
            "globox": globox(gt, "{out}", "coco", "yolov5"),
        },
        "coco-to-voc": {
            "odm": [*odm, "convert", "--from", "coco", "--to", "voc", gt, "{out}"],
            "panlabel": [*pan, "--from", "coco", "--to", "voc", "-i", gt, "-o", "{out}"],
            "globox": globox(gt, "{out}", "coco", "pascalvoc"),
        },
        "voc-to-coco": {
            "odm": [*odm, "convert", "--from", "voc", "--to", "coco", voc, "{out}.json"],
            "panlabel": [*pan, "--from", "voc", "--to", "coco", "-i", voc, "-o", "{out}.json"],
            "globox": globox(f"{voc}/Annotations", "{out}.json", "pascalvoc", "coco"),
        },
    }


def once(
    command: list[str], out: Path, printed: int | IO[str] = subprocess.DEVNULL
) -> tuple[float, float, float]:
    """Wall and processor seconds, and peak memory in MiB, of one run of a command that may write to `out`."""
    command = [part.replace("{out}", str(out)) for part in command]
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=printed, stderr=subprocess.PIPE)
    assert child.stderr is not None
    error = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)[:300]}\nended with {child.returncode}\n{error.decode()[-2000:]}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def peers() -> str:
    """The Python of the peers' environment, which is made if it is not there."""
    peer = WORK / "peers" / "bin" / "python"
    if not peer.exists():
        venv.create(WORK / "peers", with_pip=True)
        subprocess.run([peer, "-m", "pip", "install", "-q", *PEERS], check=True)
    return str(peer)


def prepare(names: list[str]) -> str:
    """Make the peers' environment and the data; the peers' Python is answered."""
    peer = peers()
    generate = [sys.executable, str(HERE / "generate.py")]
    if not DATA.exists():
        subprocess.run([*generate, str(DATA)], check=True)
    if any("compare" in name for name in names) and not (WORK / "other.json").exists():
        rows = json.loads((DATA / "results.json").read_bytes())
        rng = random.Random(1)
        for row in rows:  # a run that ranks its detections a little differently
            row["score"] = round(min(max(row["score"] + rng.gauss(0, 0.03), 0.001), 0.999), 5)
        (WORK / "other.json").write_text(json.dumps(rows))
    if any("big" in name for name in names) and not (WORK / "big").exists():
        size = ["--images", "80000", "--truths", "1200000", "--detections", "2400000", "--no-txt"]
        subprocess.run([*generate, str(WORK / "big"), *size], check=True)
    if any("lvis" in name for name in names) and not (WORK / "lvis").exists():
        size = ["--classes", "1203", "--truths", "75000", "--detections", "1500000", "--no-txt"]
        subprocess.run([*generate, str(WORK / "lvis"), *size], check=True)
    if any("rules" in name for name in names) and not (WORK / "lvis" / "federated.json").exists():
        make_federated()
    for iou_type, name in SHAPES.items():
        if f"eval-{iou_type}" in names:  # which stops if they are there; its memory would count as a peer's
            make = f"import shapes; shapes.make({name!r}, 5000)"
            subprocess.run([sys.executable, "-c", make], cwd=HERE, check=True)
    if any("linked" in name for name in names) and not (WORK / "linked").exists():
        make_linked()
    if not (WORK / "tiny").exists():
        size = ["--images", "2", "--truths", "4", "--detections", "9", "--no-txt"]
        subprocess.run([*generate, str(WORK / "tiny"), *size], check=True)
    if any("voc-to" in name for name in names) and not (WORK / "voc").exists():
        source = [str(DATA / "instances.json"), str(WORK / "voc")]
        command = [
            sys.executable,
            "-m",
            "odm",
            "convert",
            "--from",
            "coco",
            "--to",
            "voc",
            "-O",
            "layout=tree",
            "--keep-groups",
            *source,
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    # Compiled modules are what an installation has, and what the peers have.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return peer


def make_federated() -> None:
    """Write the ground truth of 1 203 classes with the classes that LVIS says are not in each image."""
    data = json.loads((WORK / "lvis" / "instances.json").read_bytes())
    rng, n_classes = random.Random(2), len(data["categories"])
    present: dict[int, set[int]] = {}
    for row in data["annotations"]:
        present.setdefault(row["image_id"], set()).add(row["category_id"])
        row["iscrowd"] = 0
    for image in data["images"]:
        absent = {*rng.sample(range(1, n_classes + 1), 60)} - present.get(image["id"], set())
        image |= {"neg_category_ids": sorted(absent), "not_exhaustive_category_ids": []}
    for category in data["categories"]:
        category["frequency"] = "fcr"[category["id"] * 3 // (n_classes + 1)]
    (WORK / "lvis" / "federated.json").write_text(json.dumps(data))


def make_linked() -> None:
    """Write a YOLO dataset whose images are links to image files in another folder."""
    from PIL import Image

    linked, pictures = WORK / "linked", WORK / "pictures"
    command = [
        sys.executable,
        "-m",
        "odm",
        "convert",
        "-q",
        "--to",
        "yolo",
        str(DATA / "instances.json"),
        str(linked),
    ]
    subprocess.run(command, check=True)
    for folder in (linked / "images", pictures):
        folder.mkdir(exist_ok=True)
    for label in sorted((linked / "labels").glob("*.txt")):
        picture = pictures / f"{label.stem}.jpg"
        Image.new("RGB", (640, 480)).save(picture)
        (linked / "images" / picture.name).symlink_to(picture)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", help="parts of case names; all cases but the slow and big ones if left out"
    )
    parser.add_argument("-n", "--rounds", type=int, default=5)
    parser.add_argument("--one-core", action="store_true", help="let each command use one processor only")
    arguments = parser.parse_args()
    if arguments.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    known = cases(sys.executable, "")
    wanted = [
        name
        for name in known
        if (
            any(part in name for part in arguments.names)
            if arguments.names
            else not name.endswith(("slow", "big"))
        )
    ]
    table = cases(sys.executable, prepare(wanted))
    print(
        f"{'case':16} {'contestant':22} {'wall s':>8} {'cpu s':>8} {'MiB':>7}   odm's part: wall   cpu  memory"
    )
    for name in wanted:
        contestants = table[name]
        runs: dict[str, list[tuple[float, float, float]]] = {who: [] for who in contestants}
        # Every run has a target of its own and all are removed at the end: a file system that has just
        # deleted thousands of files is slow to make new ones, and that would fall on whoever comes next.
        with tempfile.TemporaryDirectory(dir=WORK) as targets:
            for round_ in range(arguments.rounds + 1):
                for number, (who, command) in enumerate(contestants.items()):
                    figures = once(command, Path(targets, f"{round_}-{number}"))
                    if round_:  # the first round only warms the file cache
                        runs[who].append(figures)
        ours = runs["odm"]
        for who, figures in runs.items():
            wall, cpu, memory = (statistics.median(column) for column in zip(*figures, strict=True))
            pairs = list(zip(ours, figures, strict=True))
            ratios = [statistics.median(a[i] / b[i] for a, b in pairs) for i in range(3)]
            shown = "" if who == "odm" else "{:18.2f} {:5.2f} {:7.2f}".format(*ratios)
            print(f"{name:16} {who:22} {wall:8.3f} {cpu:8.3f} {memory:7.0f} {shown}", flush=True)


if __name__ == "__main__":
    main()
