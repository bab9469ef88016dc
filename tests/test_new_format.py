"""A format is added by one file, or one folder, and two fixtures: the guide's own, with its commands."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from selection import slow

import odm

TESTS = Path(__file__).resolve().parent
GUIDE = TESTS.parent / "docs" / "adding-a-format.md"
BLOCK = re.compile(r"^`(\S+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.skipif(not GUIDE.exists(), reason="only in a checkout")


def save(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture(params=["boxlist.py", pytest.param("boxlist/__init__.py", marks=slow)])
def house(request, tmp_path):
    """A copy of the package with the format of the guide, as a file and as a folder, and fixtures of it alone."""
    shutil.copytree(
        Path(odm.__file__).parent, tmp_path / "src" / "odm", ignore=shutil.ignore_patterns("__pycache__")
    )
    for part in ("formats", "converters", "evaluate", "cli"):
        folder = tmp_path / "src" / "odm" / part
        if not folder.exists():  # a checkout without links
            shutil.copytree(TESTS.parent / part, folder)
    for name, text in BLOCK.findall(GUIDE.read_text(encoding="utf-8")):
        save(tmp_path / name.replace("formats/boxlist.py", f"src/odm/formats/{request.param}"), text)
    (tmp_path / "tests").mkdir()
    for name in ("test_fixtures.py", "fixture_cases.py", "conftest.py", "selection.py"):
        shutil.copy(TESTS / name, tmp_path / "tests")
    return tmp_path


def test_the_worked_example_of_the_guide_adds_a_format_everywhere(house):
    commands = COMMANDS.search(GUIDE.read_text(encoding="utf-8"))[1].splitlines()
    printed = []
    for command in commands:
        words = shlex.split(command)
        words = words[1:] if words[0] == "python" else ["-m", *words]
        done = subprocess.run(
            [sys.executable, *words],
            cwd=house,
            env={**os.environ, "PYTHONPATH": f"{house / 'src'}{os.pathsep}{house / 'tests'}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        printed.append(done.stdout)
    assert printed[0].startswith("boxlist: Boxlist JSON")
    assert re.search(
        r"\n[3-9] passed", printed[-1]
    )  # one is bad, and the others ask the same of every good one
    mixed, again = (
        json.loads((house / name).read_text(encoding="utf-8"))
        for name in ("fixtures/mixed/boxlist/input.json", "again.json")
    )
    assert again == mixed
