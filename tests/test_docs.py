"""The pages say what the program does: generated parts are up to date, commands run, links lead somewhere."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from odm.cli import _app
from odm.evaluate import PROTOCOLS
from odm.evaluate.outcomes import REASONS
from odm.formats import FORMATS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def generator():
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", list(generator().PARTS))
def test_generated_parts_are_up_to_date(file):
    assert (ROOT / file).read_text(encoding="utf-8") == generator().rewritten(file), (
        "run: python docs/generate.py"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def commands():
    for page in PAGES:
        for fence in re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in fence.splitlines():
                if line.startswith("odm ") and "SRC" not in line and "GT DET" not in line:
                    yield pytest.param(line, id=line[:60])


@pytest.mark.parametrize("line", list(commands()))
def test_commands_use_options_that_exist(line, capsys, tmp_path, monkeypatch):
    """A path that is not there may be refused; an option or a name that does not exist may not be shown."""
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line.split("  #")[0].split(" > ")[0])
    code = _app.run(words[1:])
    assert code in (0, 3), capsys.readouterr().err


def test_every_reason_of_a_false_positive_is_explained():
    text = (ROOT / "docs" / "evaluating.md").read_text(encoding="utf-8")
    for reason in REASONS:
        assert re.search(rf"`{reason}` \([^)]", text), reason


def test_every_protocol_has_its_keys_in_the_contract():
    text = (ROOT / "docs" / "evaluating.md").read_text(encoding="utf-8")
    table = text.split("keys of `summary`")[1]
    for name in PROTOCOLS:
        assert f"`{name}`" in table


def test_the_examples_of_the_training_page_run():
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(<!-- run -->\n)?```python\n(.*?)```", text, re.DOTALL)
    assert sum(bool(run) for run, _ in blocks) >= 3
    names = {}
    for run, code in blocks:
        compiled = compile(code, "training.md", "exec")
        if run:
            exec(compiled, names)


def test_the_page_of_formats_says_of_each_what_was_tried():
    """The column is made from fixtures, each of which is a test; a format without any would have a dash."""
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    cells = [line.split("|")[3].strip() for line in page.splitlines() if line.startswith("| [`")]
    assert len(cells) == len(FORMATS)
    assert "-" not in cells
