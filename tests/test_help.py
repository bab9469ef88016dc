"""The help: every option has a heading, fits 80 columns, and does something for its command."""

import re

import click
import pytest

from odm.cli import _app, _help
from odm.cli._common import _drop_side, _make_flags
from odm.formats import FORMATS, list_with_flags, option_specs
from odm.verbs.options import HEADINGS

COMMANDS = [name for name in _app.COMMANDS if name not in ("formats", "protocols", "example", "completion")]
BRIEF_LINES = 56


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def text_of(capsys, *words):
    assert _app.run(list(words)) == 0
    return capsys.readouterr().out


def command_of(name):
    return _app.app.get_command(click.Context(_app.app), name)


def long_options(text):
    return set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_heading(name):
    """A record states it, or the option."""
    options = [p for p in command_of(name).params if isinstance(p, click.Option)]
    assert {p.heading for p in options if p.name != _help.TEXTS} <= set(HEADINGS)


def test_each_heading_is_of_some_command():
    options = [p for name in COMMANDS for p in command_of(name).params if isinstance(p, click.Option)]
    assert {p.heading for p in options if p.name != _help.TEXTS} == set(HEADINGS)


@pytest.mark.parametrize("name", _app.COMMANDS)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_fits_eighty_columns(capsys, name, option):
    lines = text_of(capsys, name, option).splitlines()
    assert max(map(len, lines)) <= 80
    assert "Examples:" in "\n".join(lines)
    assert not re.search(r"x[<>]=?\d", "\n".join(lines)), "bounds as click writes them"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_help_is_short_and_names_the_long_one(capsys, name):
    brief, full = text_of(capsys, name, "-h"), text_of(capsys, name, "--help")
    assert len(brief.splitlines()) <= BRIEF_LINES
    assert re.search(r"^  --help +Show all options", brief, re.MULTILINE)
    assert long_options(brief) < long_options(full)
    context = click.Context(command_of(name), info_name=name)
    common = context.command.callback.record.common
    named = {f"fo____{n}" for n in common} | set(common) | {f"fo__{n.replace('_', '__', 1)}" for n in common}
    params = {p.name for p in context.command.get_params(context)}
    assert len(named & params) == len(common)


def test_the_short_help_shows_an_option_of_a_format_for_one_side(capsys):
    for option in ("-h", "--help"):
        text = text_of(capsys, "eval", option)
        assert re.search(r"^  --gt-split NAME +Read only this split \(GT only\)\.$", text, re.MULTILINE)
        assert {"--thresholds", "--area", "--plots"} <= long_options(text)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_full_help_has_every_option_once_and_the_formats_once(capsys, name):
    full = text_of(capsys, name, "--help")
    context = click.Context(command_of(name), info_name=name)
    for param in context.command.get_params(context):
        if isinstance(param, click.Option) and not param.hidden:
            own = max(param.opts, key=len)
            assert len(re.findall(rf"^  (?:-\w, )?{own}\b(?!-)", full, re.MULTILINE)) == 1, own
    assert "Other options" not in full
    assert full.count("bdd100k") == full.count("supervisely") == 1


def test_a_command_without_a_list_of_common_options_shows_all(capsys, monkeypatch):
    monkeypatch.setattr(command_of("stats").callback.record, "common", ())
    assert text_of(capsys, "stats", "-h") == text_of(capsys, "stats", "--help")


def write_only():
    flags = {}
    for format_ in FORMATS.values():
        for spec in option_specs(format_.options):
            flags.setdefault(spec.flag or f"-O {spec.name}", set()).add(spec.side)
    return {flag for flag, sides in flags.items() if sides == {"write"}}


@pytest.mark.parametrize("name", ["agree", "compare", "diff", "eval", "show", "stats"])
def test_a_command_that_writes_no_format_has_no_option_for_it(capsys, name):
    assert "--copy-images" in write_only()
    full = text_of(capsys, name, "--help")
    for flag in write_only():
        assert flag not in full
    side = {"agree": "--a-copy-images", "diff": "--new-copy-images", "eval": "--gt-copy-images"}.get(
        name, "--copy-images"
    )
    assert _app.run([name, "a", "b", side]) == 2
    assert re.search(f"No such option:? '?{side}", capsys.readouterr().err)


def test_an_option_of_writing_given_by_name_is_refused_where_nothing_is_written(capsys):
    assert _app.run(["eval", "a", "b", "-O", "copy_images=true"]) == 2
    assert "copy_images applies only when a format is written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (["-O", "box=ltwh", "-O", "box=ltrb"], True),
        (["--box", "ltwh", "-O", "box=ltrb"], True),
        (["-O", "image-size=9x9", "-O", "image_size=8x8"], True),
        (["-O", "box=ltwh", "-O", "box=ltwh"], False),
        (["-O", "box=ltwh", "-O", "gt.box=ltrb"], False),  # of one side goes before of both
    ],
)
def test_an_option_of_a_format_has_one_value(capsys, words, refused):
    assert (_app.run(["eval", "no-such-gt", "no-such-det", *words]) == 2) == refused
    assert ("is given twice" in capsys.readouterr().err) == refused


def test_convert_offers_each_side_what_it_does(capsys):
    full = text_of(capsys, "convert", "--help")
    assert "--copy-images" in full
    assert _app.run(["convert", "a", "b", "--from-copy-images"]) == 2
    assert _app.run(["convert", "a", "b", "--to-images", "c"]) == 2
    capsys.readouterr()


def test_a_flag_of_formats_is_the_same_whether_all_or_only_some_are_imported():
    def told(formats):
        found = [
            vars(option) | {"type": vars(option.type)}
            for option in _make_flags(tuple(formats), ("gt", "det"), ())
        ]
        return {option["opts"][0]: option | {"help": None} for option in found}

    everything = told(FORMATS)
    assert {"--box", "--images", "--det-split"} <= everything.keys()
    for name, option in everything.items():
        assert told(list_with_flags([_drop_side(name, ("gt", "det"))]))[name] == option, name
