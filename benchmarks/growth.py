"""How time and memory grow with the number of images: `odm eval --protocol coco`, hotcoco and pycocotools, and odm's
other jobs on the ground truth.

    python benchmarks/growth.py                     # 10 000 to 10 million detections
    python benchmarks/growth.py 10000 100000 -n 5   # these sizes; the others keep what was measured before
    python benchmarks/growth.py --draw              # the picture only

Every run is a process of its own, from files to results: 100 detections and 7 objects an image, 80 classes. User and
system time of all its threads and copies is added up, so what runs beside it matters less than it does to wall time.
The least of the rounds is kept in ``benchmarks/work/growth.json``, written as a table into ``docs/speed.md`` and drawn
to ``docs/images/growth.svg`` (needs Matplotlib). pycocotools is left out above a million detections, which take it
minutes. An exponent of 1 in the table means that ten times the images cost ten times as much.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from compare import HERE, HOTCOCO, PYCOCOTOOLS, WORK, peers
from tubes import measure as run

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
SLOW = 1_000_000
FOUND = WORK / "growth.json"
PICTURE = HERE.parent / "docs" / "images" / "growth.svg"
PAGE = HERE.parent / "docs" / "speed.md"
JOBS = {"odm": "eval", "odm convert": "convert to yolo", "odm validate": "validate"}
LOOKS = {"odm": ("#0072b2", "o"), "hotcoco": ("#d55e00", "s"), "pycocotools": ("#666666", "^")}


def measure(size: int, rounds: int, peer: str, data: Path, slow: int) -> dict[str, list[float]]:
    """By tool, processor seconds and peak memory in MiB for one size; pycocotools up to `slow` detections."""
    folder = data / str(size)
    if not folder.exists():
        amounts = ["--images", size // 100, "--truths", size * 7 // 100, "--detections", size, "--no-txt"]
        subprocess.run([sys.executable, HERE / "generate.py", folder, *map(str, amounts)], check=True)
    files = [str(folder / "instances.json"), str(folder / "results.json")]
    commands = {
        "odm": [sys.executable, "-m", "odm", "eval", "--quiet", "--protocol", "coco", *files],
        "hotcoco": [peer, "-c", HOTCOCO, *files],
    }
    if size <= slow:
        commands["pycocotools"] = [peer, "-c", PYCOCOTOOLS, *files]
    convert = [sys.executable, "-m", "odm", "convert", "--quiet", "--to", "yolo", files[0]]
    commands["odm validate"] = [sys.executable, "-m", "odm", "validate", "--quiet", files[0]]
    runs: dict[str, list[list[float]]] = {who: [] for who in (*commands, "odm convert")}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=data) as target:
            for who, command in {**commands, "odm convert": [*convert, f"{target}/yolo"]}.items():
                _, processor, memory, _ = run(command)
                runs[who].append([processor, memory])
    return {who: [min(column) for column in zip(*own, strict=True)] for who, own in runs.items()}


def table(found: dict[str, dict[str, list[float]]]) -> str:
    """Processor time and memory of odm's jobs by the number of images, as Markdown, and how they grow."""
    sizes = sorted(int(size) for size, tools in found.items() if JOBS.keys() <= tools.keys())
    rows = ["| images | detections | " + " | ".join(f"{job} | MiB" for job in JOBS.values()) + " |"]
    rows.append("|---" * (2 + 2 * len(JOBS)) + "|")
    for size in sizes:
        cells = ["{:.2f} s | {:.0f}".format(*found[str(size)][who]) for who in JOBS]
        rows.append(f"| {size // 100:,} | {size:,} | {' | '.join(cells)} |".replace(",", " "))
    small, large = sizes[-2:]
    steps = [found[str(large)][who][0] / found[str(small)][who][0] for who in JOBS]
    exponents = [f"{math.log(step, large / small):.2f} | " for step in steps]
    rows.append(f"| exponent of the last step | | {'| '.join(exponents)}|")
    return "\n".join(rows)


def draw(found: dict[str, dict[str, list[float]]]) -> None:
    """Time and memory over the number of detections, on log axes."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "odm", "svg.fonttype": "path", "font.size": 9}
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, NullFormatter

    figure, both = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    for axes, at, title, ticks in (
        (both[0], 0, "processor time, seconds", (0.1, 0.3, 1, 3, 10, 30, 100)),
        (both[1], 1, "peak memory, MiB", (30, 100, 300, 1000, 3000, 10_000)),
    ):
        for who, (colour, marker) in LOOKS.items():
            points = sorted((int(n), tools[who][at]) for n, tools in found.items() if who in tools)
            if points:
                axes.plot(*zip(*points, strict=True), color=colour, marker=marker, label=who)
        axes.set(xscale="log", yscale="log", xlabel="detections", title=title, yticks=ticks)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    both[0].legend(frameon=False)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    """Measure what is asked for, and draw all that was ever measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="*", type=int)
    parser.add_argument("-n", "--rounds", type=int, default=3)
    parser.add_argument("--peers", metavar="PYTHON", help="a Python that has hotcoco and pycocotools")
    parser.add_argument("--data", type=Path, default=WORK / "growth", help="where the data are, or are made")
    parser.add_argument("--slow", type=int, default=SLOW, help="the most for pycocotools")
    parser.add_argument("--draw", action="store_true", help="measure nothing")
    given = parser.parse_args()
    found = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    for size in [] if given.draw else given.sizes or SIZES:
        own = measure(size, given.rounds, given.peers or peers(), given.data, given.slow)
        found.setdefault(str(size), {}).update(own)
        FOUND.parent.mkdir(exist_ok=True)
        FOUND.write_text(json.dumps(found))
        for who, (processor, memory) in own.items():
            print(f"{size:>10} {who:12} {processor:8.2f} s {memory:8.0f} MiB", flush=True)
    page, mark = PAGE.read_text(), r"(?<=<!-- growth -->\n).*?(?=<!-- end -->)"
    PAGE.write_text(re.sub(mark, table(found) + "\n", page, flags=re.DOTALL))
    draw(found)


if __name__ == "__main__":
    main()
