"""What the shells complete, and where the scripts are put."""

import os
import shutil
import subprocess
import sys

import pytest
from selection import slow

from odm.cli import _app, completion
from odm.evaluate import PROTOCOLS
from odm.formats import FORMATS, option_specs

SHELLS = completion.SHELLS


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR", "SHELL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def complete(monkeypatch, capsys):
    """Answers (type, value) of what completes a line of words, the last of which may be empty."""

    def answers(line):
        words = line.split(" ")
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        monkeypatch.setenv("_ODM_COMPLETE", "bash_complete")
        assert _app.run([]) == 0
        monkeypatch.delenv("_ODM_COMPLETE")
        out, err = capsys.readouterr()
        assert err == ""
        return [tuple(row.split(",", 1)) for row in out.splitlines() if row]

    return answers


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("odm co", ["convert", "compare", "completion"]),
        ("odm --v", ["--version"]),
        ("odm formats vo", ["voc", "vott"]),
        ("odm completion ", list(SHELLS)),
        ("odm eval --protocol vo", [name for name in PROTOCOLS if name.startswith("vo")]),
        ("odm eval --protocol=cor", ["corloc"]),
        ("odm eval a b --gt-format vo", ["voc", "vott"]),
        ("odm eval a b --gt-f", ["--gt-format"]),
        ("odm eval --analyze tide,l", ["tide,lrp"]),
        ("odm eval --box lt", ["ltrb", "ltwh"]),
        ("odm convert --from yolo --ima", ["--images", "--image-size", "--image-sizes"]),
        ("odm convert --from yolo -O cl", ["classes="]),
        ("odm validate --explain inverted", ["inverted-box"]),
        ("odm validate --ignore rare-class,inverted", ["rare-class,inverted-box"]),
        ("odm validate --fix order,c", ["order,clip"]),
    ],
)
def test_a_word_is_completed(complete, line, values):
    assert [value for _, value in complete(line) if not value.startswith("--help")] == values


def test_files_and_folders_are_left_to_the_shell(complete):
    assert complete("odm eval gt") == [("file", "gt")]
    assert complete("odm validate a.xml ") == [("file", "")]
    assert complete("odm eval a b --images ") == [("dir", "")]
    assert complete("odm eval a b --classes ") == [("file", "")]


def test_every_option_of_formats_is_completed_by_name(complete):
    names = {spec.name for f in FORMATS.values() for spec in option_specs(f.options)}
    assert {value for _, value in complete("odm convert -O ")} == {f"{name}=" for name in names}


def test_what_cannot_be_completed_prints_nothing(monkeypatch, capsys):
    for instruction in ("bash_complete", "tcsh_complete", "bash_nonsense", "nonsense"):
        monkeypatch.setenv("_ODM_COMPLETE", instruction)  # without the words
        assert _app.run(["formats"]) == 1
        assert capsys.readouterr() == ("", "")


def loaded(line):
    words = line.split(" ")
    script = "import odm.cli._app as app, sys; app.run([]); print(*sys.modules, file=sys.stderr)"
    environment = {
        **os.environ,
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_ODM_COMPLETE": "bash_complete",
    }
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return set(run.stderr.split())


def test_completing_imports_only_what_is_needed():
    assert "numpy" not in loaded("odm ev")
    formats = {f"odm.formats.{name}" for name in FORMATS}
    assert not loaded("odm eval a b --protocol v") & formats
    assert loaded("odm stats --format yolo --im") & formats == {"odm.formats.yolo"}


# --------------------------------------------------------------------------------------------- the scripts


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed_for_the_shell_that_is_used(home, monkeypatch, capsys, shell):
    assert _app.run(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert out == completion.make_script(shell)
    assert f"_ODM_COMPLETE={shell}_complete" in out
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert _app.run(["completion"]) == 0
    assert capsys.readouterr().out == out
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(("shell", "reason"), [("", "SHELL is not set"), ("/bin/tcsh", "SHELL=tcsh is none")])
def test_another_shell_is_a_usage_error(home, monkeypatch, capsys, shell, reason):
    monkeypatch.setenv("SHELL", shell)
    assert _app.run(["completion"]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("loader", [True, False])
@pytest.mark.parametrize("shell", SHELLS)
def test_installing_says_what_it_wrote_and_does_it_once(home, monkeypatch, capsys, shell, loader):
    monkeypatch.setattr(completion, "BASH_COMPLETION", ("/",) if loader else ("/no/such/file",))
    startup = home / f".{shell}rc"
    startup.write_text("# mine, without an end of line", encoding="utf-8")
    assert _app.run(["completion", shell, "--install"]) == 0
    first = capsys.readouterr().out
    (script,) = [p for p in home.rglob("*odm*") if p.is_file()] + list(home.rglob("completion.zsh"))
    assert script.read_text(encoding="utf-8") == completion.make_script(shell)
    assert f"completion script written to {script}" in first
    lines = startup.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# mine, without an end of line"
    if shell == "zsh" or (shell == "bash" and not loader):
        assert lines[1:] == [f"source {script}  # completion of odm"]
        assert f"added to {startup}: {lines[1]}" in first
    else:
        assert len(lines) == 1
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    assert _app.run(["completion", shell, "--install"]) == 0
    assert "up to date" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before


def test_a_startup_file_that_is_a_link_stays_one(home, capsys):
    (home / "dotfiles").mkdir()
    (home / "dotfiles" / "zshrc").write_text("", encoding="utf-8")
    (home / ".zshrc").symlink_to("dotfiles/zshrc")
    assert _app.run(["completion", "zsh", "--install"]) == 0
    assert (home / ".zshrc").is_symlink()
    assert "# completion of odm" in (home / "dotfiles" / "zshrc").read_text(encoding="utf-8")


def test_a_startup_file_keeps_its_permissions(home, capsys):
    (home / ".zshrc").write_text("export TOKEN=1", encoding="utf-8")
    (home / ".zshrc").chmod(0o600)
    assert _app.run(["completion", "zsh", "--install"]) == 0
    assert (home / ".zshrc").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("folder", ["", "relative", "/no/such/home"])
def test_a_home_that_is_no_folder_is_refused(home, monkeypatch, capsys, folder):
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", folder)
    assert _app.run(["completion", "zsh", "--install"]) == 3
    assert f"HOME={folder}: not an existing folder" in capsys.readouterr().err
    assert not list(home.iterdir())


def test_the_folders_of_xdg_are_respected(home, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "c"))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "d"))
    monkeypatch.setenv("ZDOTDIR", str(home / "z"))
    for shell in SHELLS:
        assert _app.run(["completion", shell, "--install"]) == 0
    assert (home / "c/fish/completions/odm.fish").exists()
    assert (home / "d/bash-completion/completions/odm").exists()
    assert (home / "d/odm/completion.zsh").exists()
    assert (home / "z/.zshrc").exists()


# ------------------------------------------------------------------------------------- in the shells themselves


@pytest.fixture
def shell_run(home):
    """Runs a script in a shell that finds `odm`."""
    program = home / "bin" / "odm"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m odm "$@"\n', encoding="utf-8")
    program.chmod(0o755)

    def run(shell, script, *options):
        if shutil.which(shell) is None:
            pytest.skip(f"no {shell} here")
        environment = {
            **os.environ,
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "TERM": "dumb",
        }
        done = subprocess.run(
            [shell, *options, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_bash_completes(shell_run, tmp_path):
    script = tmp_path / "script"
    script.write_text(completion.make_script("bash"), encoding="utf-8")
    ask = 'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _odm_completion odm; echo "${COMPREPLY[@]}"'
    out = shell_run(
        "bash", f"source '{script}'; complete -p odm; COMP_WORDS=(odm eval --protocol voc); {ask}", "--norc"
    )
    assert out.splitlines() == ["complete -o nosort -F _odm_completion odm", "voc2012 voc2007"]


def test_fish_completes_with_descriptions(shell_run, tmp_path):
    script = tmp_path / "script"
    script.write_text(completion.make_script("fish"), encoding="utf-8")
    out = shell_run(
        "fish", f"source '{script}'; complete -C 'odm conv'; complete -C 'odm formats vo'", "--no-config"
    )
    assert out.splitlines() == [f"convert\t{_app.COMMANDS['convert']}", "voc", "vott"]


@slow
def test_zsh_completes_what_is_typed(shell_run, tmp_path):
    script = tmp_path / "script"
    script.write_text(completion.make_script("zsh"), encoding="utf-8")
    typing = f"""
        zmodload zsh/zpty
        zpty -b z zsh -f -i
        wait_for() {{ local n; for n in {{1..200}}; do
          while zpty -r -t z part; do all+=$part; done; [[ $all == *$1* ]] && return; sleep 0.1; done; }}
        zpty -w z "source '{script}'; echo READ''Y"; wait_for READY
        zpty -w -n z $'odm formats --bri\\t'; wait_for brief
        print -r -- $all
    """
    assert "--brief" in shell_run("zsh", typing, "-f")
