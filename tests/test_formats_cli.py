"""``odm formats``: the list and the pages fit the terminal and lose nothing."""

from pathlib import Path

import pytest

import odm
from odm.cli import _app, formats
from odm.cli._options import complete_format, complete_target
from odm.formats import FORMATS, WRITTEN
from odm.issues import UsageError

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"


def printed(capsys, *words):
    assert _app.run(["formats", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_the_list_fits_and_names_every_format(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    out = printed(capsys)
    assert columns - 12 < max(map(len, out.splitlines())) <= columns, "titles are broken only where they must"
    words = " ".join(out.split())
    for name, format_ in FORMATS.items():
        assert f"\n{name} " in out
        assert format_.title.split()[-1] in words


def test_the_wide_list_has_the_attributes(capsys):
    (line,) = [line for line in printed(capsys, "--wide").splitlines() if line.startswith("voc ")]
    assert "difficult, truncated, occluded" in line


@pytest.mark.parametrize("name", sorted(set(FORMATS) - set(WRITTEN)))
def test_a_format_that_is_only_read_is_offered_nowhere_as_a_target(tmp_path, capsys, name):
    """Neither by its name, nor by its suffix, nor by completion, nor for a repaired copy of a file in it."""
    folder = next(iter(sorted(FIXTURES.glob(f"tools/{name}-*"))))
    (source,) = [path for path in folder.iterdir() if path.name != "case.json"]
    target = tmp_path / "out"
    for words in (
        ["convert", FIXTURES / "mixed/coco/input.json", target, "--to", name],
        ["convert", FIXTURES / "mixed/coco/input.json", f"{target}{FORMATS[name].suffixes[0]}x"],
        ["validate", source, "--fix", "clip", "--out", target, "--format", name],
    ):
        assert _app.run(list(map(str, words))) == 2
        error = capsys.readouterr().err
        assert f"{name} is only read" in error or ("--to" in error and f" {name}," not in error)
    with pytest.raises(UsageError, match="only read"):
        odm.write(odm.read(FIXTURES / "mixed/coco/input.json"), target, name)
    assert not list(tmp_path.iterdir())
    assert name not in complete_target(None, None, name[:1])
    assert name in complete_format(None, None, name[:1])
    (line,) = [line for line in printed(capsys, "--wide").splitlines() if line.startswith(f"{name} ")]
    assert "read, write" not in line


@pytest.mark.parametrize("name", FORMATS)
def test_a_page_fits_and_loses_no_word(name):
    whole, narrow = formats.format_page(FORMATS[name]), formats.format_page(FORMATS[name], 80)
    assert narrow.split() == whole.split()
    assert "``" not in narrow
    assert not [line for line in narrow.splitlines() if line.endswith("::")]  # marks of reStructuredText
    rules = [line for line in whole.splitlines() if set(line) == {"-"}]
    assert [line for line in narrow.splitlines() if set(line) == {"-"}] == rules  # below headings
    long = [line for line in narrow.splitlines() if len(line) > 80]
    assert all(line in whole.splitlines() for line in long)  # code and tables only
    assert len(long) <= 0.5 * sum(len(line) > 80 for line in whole.splitlines())


@pytest.mark.parametrize("name", FORMATS)
def test_the_brief_page_has_the_options(capsys, name):
    brief = printed(capsys, name, "--brief")
    assert brief.startswith(f"{name}: {FORMATS[name].title}\n\n")
    assert len(brief.splitlines()) <= 45
    paragraphs = [
        " ".join(part.split()) for part in FORMATS[name].doc.strip().replace("``", "`").split("\n\n")
    ]
    first, *others = brief[brief.index("\n\n") + 2 : brief.index("\n\nOptions (")].split("\n\n")
    assert (" ".join(first.split()).removesuffix(":"), others) == (paragraphs[0].rstrip(":"), [])
    assert "Options (-O name=value):" in brief
    assert formats.format_page(FORMATS[name], 80).endswith(brief[brief.index("Options (") :].rstrip("\n"))
