"""``fixtures/eval/CODE``: two sides that an evaluation refuses or doubts, and the only code it says. Dropping one adds a test."""

import json
import re
from pathlib import Path

import pytest

from odm.cli import _app

CASES = sorted(p.parent for p in Path(__file__).resolve().parents[1].glob("fixtures/eval/*/case.json"))


@pytest.mark.parametrize("folder", CASES, ids=lambda p: p.name)
def test_an_evaluation_says_this_and_nothing_else(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    case = json.loads((folder / "case.json").read_text())
    code = _app.run(["eval", case.get("gt", "gt"), case.get("det", "det"), *case["arguments"]])
    out, err = capsys.readouterr()
    assert code == case["exit"], err
    assert bool(out) == (code == 0)
    said = set(re.findall(r"(?m)^\S+: (?:error|warning) ([a-z0-9-]+) ", err))
    assert said == {folder.name, *case.get("also", ())}


def test_there_are_cases():
    assert len(CASES) > 10
