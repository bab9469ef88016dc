"""Sources that no format recognises: the message says what they are, or how they differ from the nearest formats."""

import json
import re

import pytest
from fixture_cases import FIXTURES
from selection import of_each

import odm
from odm.formats import FORMATS

CASES = sorted(path for path in (FIXTURES / "unread").iterdir() if path.is_dir())


def message_of(folder):
    (path,) = [path for path in folder.iterdir() if path.stem == "input"]
    with pytest.raises(odm.UsageError) as raised:
        odm.read(path)
    return str(raised.value)


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_what_no_format_recognises_is_described(folder):
    message, case = message_of(folder), json.loads((folder / "case.json").read_text(encoding="utf-8"))
    assert case["says"] in message
    assert len([name for name in FORMATS if re.search(rf"\b{name}, but\b", message)]) <= 3
    assert len(message) < 700
    assert ("odm formats lists all" in message) == ("no format recognises" in message)


@pytest.mark.parametrize("names", [("a.md", "b.json"), ("a.json", "b.md")])
def test_of_several_files_one_that_a_format_could_have_is_described(names, tmp_path):
    (tmp_path / "input").mkdir()
    for name in names:
        (tmp_path / "input" / name).write_text('{"x": 1}' if name.endswith("json") else "# notes")
    (json_name,) = [name for name in names if name.endswith("json")]
    assert f"looked at {json_name} of 2 files" in message_of(tmp_path)


ROW_LENGTHS = {
    name: len(format_.expects[0].split())
    for name, format_ in FORMATS.items()
    if format_.expects and " " in format_.expects[0]
}


@of_each(ROW_LENGTHS)
def test_formats_whose_rows_have_as_many_values_are_the_nearest(name, tmp_path):
    (tmp_path / "input.txt").write_text(" ".join(["word"] * ROW_LENGTHS[name]) + "\n", encoding="utf-8")
    message = message_of(tmp_path)
    nearest = re.findall(r"([\w-]+), but its rows are", message)
    differences = [abs(ROW_LENGTHS[other] - ROW_LENGTHS[name]) for other in nearest]
    assert differences[0] == 0, message
    assert differences == sorted(differences), message
    assert name in nearest, message


def test_the_marks_of_a_format_are_in_its_files():
    """Marks that name keys, elements or columns are words that some fixture of the format has."""
    for name, format_ in FORMATS.items():
        marks = [mark for mark in format_.expects if " " not in mark]
        files = [
            p for p in (FIXTURES / "mixed").glob(f"{name}*/**/*") if p.is_file() and p.name != "case.json"
        ]
        texts = [file.read_bytes() for file in files if file.suffix in (*format_.suffixes, *format_.looks_at)]
        absent = [mark for mark in marks if not any(mark.encode() in text for text in texts)]
        assert not absent, f"{name}: {absent}"


@pytest.mark.parametrize(
    ("target", "options"),
    [("out", {}), ("out.xyz", {}), ("out.json", {"to": "coccco"})],
    ids=str,
)
def test_messages_about_the_target_format_name_the_command_that_lists_them(target, options, tmp_path):
    with pytest.raises(odm.UsageError, match="odm formats lists them") as raised:
        odm.convert(FIXTURES / "street" / "truth.json", tmp_path / target, **options)
    assert len(str(raised.value)) < 250
