"""Processor time of reading annotation tools' formats and writing COCO, beside panlabel: least of several runs.

    python benchmarks/neighbours.py                  # all formats, five rounds
    python benchmarks/neighbours.py cvat via -n 9

Data and peers are those of ``compare.py`` (5 000 images, 36 781 boxes), converted once to each format. User and
system time of all processes is added up, so what runs beside it matters less than it does to wall time.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from compare import DATA, WORK, prepare

FORMATS = {
    "cvat": ("cvat", ".xml"),
    "labelstudio": ("label-studio", ".json"),
    "labelme": ("labelme", ""),
    "via": (None, ".json"),
    "supervisely": (None, ""),
    "createml": (None, ".json"),
    "bdd100k": ("bdd100k", ".json"),
    "fiftyone": (None, ".json"),
    "lvis": (None, ".json"),
}
"""Our name, panlabel's (None where it does not read the format, wants a nested form of it that
the tool does not write, or wants the pictures), and the suffix of a dataset in one file."""


def cpu(command: list[str]) -> float:
    """User and system seconds of a command and all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}\n{done.stderr[-2000:]}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def source_of(name: str) -> Path:
    """The data as this format, made if it is not there."""
    path = WORK / "neighbours" / f"{name}{FORMATS[name][1]}"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "odm", "convert", str(DATA / "instances.json"), str(path)]
        plain = ["-O", "to.prefix=images/"] if name == "labelstudio" else []  # panlabel wants a plain path
        cpu([*command, "--to", name, "--keep-groups", *plain])
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*FORMATS, []], help="formats; all if left out")
    parser.add_argument("-n", "--rounds", type=int, default=5)
    parser.add_argument("--panlabel", help="the program, if it is installed already")
    arguments = parser.parse_args()
    if arguments.panlabel is None:
        panlabel = str(Path(prepare([])).parent / "panlabel")
    else:
        panlabel = arguments.panlabel
        if not DATA.exists():
            subprocess.run(
                [sys.executable, str(Path(__file__).with_name("generate.py")), str(DATA)], check=True
            )
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(f"{'format':12} {'MB':>6} {'odm s':>7} {'panlabel s':>11} {'ratio':>6}")
    for name in arguments.names or FORMATS:
        theirs, _ = FORMATS[name]
        path = source_of(name)
        files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
        size = sum(p.stat().st_size for p in files) / 1e6
        our_times, their_times = [], []
        with tempfile.TemporaryDirectory(dir=WORK) as out:
            for i in range(arguments.rounds):
                target = f"{out}/{i}.json"
                command = [sys.executable, "-m", "odm", "convert", "--from", name, str(path), target]
                our_times.append(cpu([*command, "--to", "coco", "--image-size", "640x480"]))
                if theirs:
                    command = [panlabel, "convert", "--allow-lossy", "-f", theirs, "-t", "coco"]
                    their_times.append(cpu([*command, "-i", str(path), "-o", f"{out}/p{i}.json"]))
        ours = min(our_times)
        beside = f"{min(their_times):11.2f} {ours / min(their_times):6.2f}" if their_times else ""
        print(f"{name:12} {size:6.1f} {ours:7.2f} {beside}", flush=True)


if __name__ == "__main__":
    main()
