"""``odm example``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

import click

from odm.cli._options import TARGET, switch
from odm.cli._streams import show
from odm.files import Output
from odm.issues import printable

EXAMPLES = """
\b
Examples:
  odm example
  odm example demo/ --overwrite
"""
NEXT = """\
written to {folder}: 12 pictures with 89 objects, and what two detectors found
  odm eval {shell}/truth.json {shell}/detections.json --protocol coco \\
    --images {shell}/images --report report.html
  odm compare {shell}/truth.json {shell}/earlier.json {shell}/detections.json \\
    --protocol coco"""


@click.command(epilog=EXAMPLES)
@click.argument("folder", default="street", type=TARGET)
@switch("--overwrite", "Replace existing files in FOLDER.")
def command(folder: str, overwrite: bool) -> None:
    """Write a small dataset with pictures into FOLDER (default: street), to try the other commands on.

    It has ground truth as COCO and as YOLO, with outlines and keypoints, and the detections of two detectors
    with every kind of mistake.
    """
    with Output(folder, overwrite=overwrite) as output:
        for name, file in _iter_files(files("odm").joinpath("example"), prefix=""):
            output.write(name, file.read_bytes())
    show(NEXT.format(folder=printable(folder), shell=shlex.quote(folder.rstrip("/"))))


def _iter_files(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    """Yield the files of the example, sorted by path: the path after `prefix`, and the file."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _iter_files(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry
