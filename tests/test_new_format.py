"""A format is added by dropping in one file, or one folder, and two fixtures: nothing else is edited."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import odm

TESTS = Path(__file__).resolve().parent
READER = """
import numpy as np

from odm.formats._contract import SURE, Options, Sniff
from odm.formats._shared.codes import NOT_A_NUMBER


def sniff(source):
    found = source.with_suffix(".tabs") and all(map(source.head, source.with_suffix(".tabs")))
    return Sniff(SURE, "the files end in .tabs") if found else None


def read(source, builder, log, options):
    for file in source.with_suffix(".tabs"):
        data, path = source.read(file, log), source.full(file)
        number = builder.file(path)
        for line, text in enumerate(data.decode().splitlines() if data is not None else (), 1):
            name, category, *box = text.split("\\t")
            row = builder.image_row(name)
            row = builder.image(name, file=number, line=line) if row is None else row
            try:
                values = [float(value) for value in box]
            except ValueError:
                log.report(NOT_A_NUMBER, path, line=line, value=text)
                builder.skipped += 1
                continue
            if category:
                builder.boxes(
                    image=np.array([row]),
                    category=np.array([builder.category(category)]),
                    xyxy=np.array([values[:4]]),
                    score=np.array(values[4:]) if len(values) > 4 else None,
                    file=number,
                    line=line,
                )
"""
WRITER = """
from odm.formats._contract import Format, Options


def write(dataset, target, log, options):
    boxes, lines = dataset.boxes, []
    for row, name in enumerate(dataset.images.name):
        found = [i for i in range(len(boxes)) if boxes.image[i] == row]
        for i in found:
            box = [*boxes.xyxy[i], *([boxes.score[i]] if dataset.kind == "det" else [])]
            lines.append([name, dataset.categories.name[boxes.category[i]], *(repr(float(v)) for v in box)])
        lines += [] if found else [[name, ""]]
    target.write("", "".join("\\t".join(line) + "\\n" for line in lines).encode())
"""
CONSTANT = """
FORMAT = Format(
    name="tabs", title="Tabs", doc=__doc__, suffixes=(".tabs",), single=True, sniff=sniff, read=read,
    write=write, options=Options, keeps=frozenset({"extension", "empty", "score"}),
)
"""
DOC = (
    '"""Tabs: image, class and four edges in pixels, divided by tabs.\n\n'
    + "One box per line. " * 20
    + '"""\n'
)
FILES = {
    "file": {"tabs.py": DOC + READER + WRITER + CONSTANT},
    "folder": {
        "tabs/__init__.py": DOC
        + "from odm.formats._contract import Format, Options\n"
        + "from odm.formats.tabs.reader import read, sniff\nfrom odm.formats.tabs.writer import write\n"
        + CONSTANT,
        "tabs/reader.py": READER,
        "tabs/writer.py": WRITER,
    },
}
MIXED = """\
empty.jpg\t
street.jpg\tperson\t10\t20\t110\t220
street.jpg\tperson\t300.5\t40.25\t351\t141
street.jpg\ttraffic light\t600\t0\t640\t120
yard.png\t007\t0\t0\t500\t375
yard.png\tperson\t100\t50\t130\t110
yard.png\ttraffic light\t250\t300\t375\t375
"""
BAD = "a.jpg\tperson\t1\t2\tx\t4\n"


def save(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture(params=sorted(FILES))
def house(request, tmp_path):
    """A copy of the package with one format more, and fixtures of that format alone."""
    shutil.copytree(
        Path(odm.__file__).parent, tmp_path / "src" / "odm", ignore=shutil.ignore_patterns("__pycache__")
    )
    for part in ("formats", "converters", "evaluate", "cli"):
        folder = tmp_path / "src" / "odm" / part
        if not folder.exists():  # a checkout without links
            shutil.copytree(TESTS.parent / part, folder)
    for name, text in FILES[request.param].items():
        save(tmp_path / "src" / "odm" / "formats" / name, text)
    save(tmp_path / "fixtures" / "mixed" / "tabs" / "input.tabs", MIXED)
    save(tmp_path / "fixtures" / "bad" / "tabs" / "not-a-number" / "input.tabs", BAD)
    (tmp_path / "tests").mkdir()
    for name in ("test_fixtures.py", "conftest.py", "selection.py"):
        shutil.copy(TESTS / name, tmp_path / "tests")
    return tmp_path


def run(house, *words, code=0):
    done = subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        cwd=house,
        env={**os.environ, "PYTHONPATH": f"{house / 'src'}{os.pathsep}{house / 'tests'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_a_file_or_a_folder_adds_a_format_everywhere(house):
    assert run(house, "odm", "formats", "tabs").startswith("tabs: Tabs")
    shared = run(house, "pytest", "-q", "-p", "no:cacheprovider", "tests/test_fixtures.py")
    assert "4 passed" in shared  # one is bad, and three ask the same of every good one

    source = house / "fixtures" / "mixed" / "tabs" / "input.tabs"
    run(house, "odm", "convert", source, house / "coco.json")
    run(house, "odm", "convert", house / "coco.json", house / "again.tabs")
    again = (house / "again.tabs").read_text(encoding="utf-8")
    assert re.sub(r"\.0\b", "", again) == MIXED
    bad = house / "fixtures" / "bad" / "tabs" / "not-a-number" / "input.tabs"
    assert "not-a-number" in run(house, "odm", "validate", bad, code=1)
