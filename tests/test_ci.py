"""What other projects run: the hooks of pre-commit and the action of GitHub, their scripts as they are written."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from selection import slow

from odm.cli import _app

ROOT = Path(__file__).resolve().parent.parent
VOC = ROOT / "fixtures/mixed/voc/input"
GT, DET = ROOT / "fixtures/illustrated/groundtruths", ROOT / "fixtures/illustrated/detections"

pytestmark = pytest.mark.skipif(not (ROOT / "action.yml").exists(), reason="only in a checkout")


def parsed(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


@pytest.fixture
def voc(tmp_path, monkeypatch):
    """A folder with a good and a bad file, the working folder."""
    folder = tmp_path / "Annotations"
    folder.mkdir()
    text = (VOC / "street.xml").read_text(encoding="utf-8")
    (folder / "street.xml").write_text(text, encoding="utf-8")
    (folder / "bad.xml").write_text(
        re.sub("<xmax>[0-9.]+", "<xmax>-5", text, count=1).replace("street.jpg", "bad.jpg"), encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ------------------------------------------------------------------------------------------- pre-commit

HOOKS = (
    {hook["id"]: hook for hook in parsed(".pre-commit-hooks.yaml")} if (ROOT / "action.yml").exists() else {}
)


def entry(name, *more):
    program, *words = shlex.split(HOOKS[name]["entry"])
    assert program == "odm"
    return [*words, *more]


def test_the_hook_names_the_fault_in_a_changed_file(voc, capsys):
    assert _app.run(entry("odm-validate", "Annotations/street.xml")) == 0
    capsys.readouterr()
    assert _app.run(entry("odm-validate", "Annotations/bad.xml", "Annotations/street.xml")) == 1
    out, err = capsys.readouterr()
    assert "Annotations/bad.xml:9: error inverted-box" in out
    assert "1 error" in out.splitlines()[-1]
    assert err == ""


def test_the_hook_of_a_data_set_needs_its_name(voc, capsys):
    assert HOOKS["odm-validate-dataset"]["pass_filenames"] is False
    assert _app.run(entry("odm-validate-dataset", "Annotations/")) == 1
    assert _app.run(entry("odm-validate-dataset")) == 2
    assert "Missing argument 'SRC'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "files", "dataset"),
    [
        ("Annotations/a.xml", True, True),
        ("VOC2012/Annotations/a.xml", True, True),
        ("labels/train/a.txt", True, True),
        ("data/annotations/instances_val2017.json", True, True),
        ("train/_annotations.coco.json", True, True),
        ("annotations.xml", True, True),
        ("labels/classes.txt", False, True),
        ("images/train/a.jpg", False, True),
        ("data.yaml", False, True),
        ("package.json", False, False),
        ("src/labels.py", False, False),
        ("ImageSets/Main/train.txt", False, False),
        ("README.md", False, False),
    ],
)
def test_which_files_a_hook_looks_at(path, files, dataset):
    for name, wanted in (("odm-validate", files), ("odm-validate-dataset", dataset)):
        hook = HOOKS[name]
        looked_at = re.search(hook["files"], path) and not re.search(hook.get("exclude", "^$"), path)
        assert bool(looked_at) == wanted, name


# --------------------------------------------------------------------------------------------- several SRC


def test_several_sources_are_all_checked_though_some_cannot_be_read(voc, capsys):
    (voc / "package.json").write_text("{}", encoding="utf-8")
    names = ["Annotations/bad.xml", "package.json", "gone.xml", "Annotations/street.xml"]
    assert _app.run(["validate", *names]) == 3
    out, err = capsys.readouterr()
    assert "bad.xml:9: error inverted-box" in out
    assert "6 boxes, 2 images, 2 sources (voc)" not in out  # two sources are listed each
    assert "package.json: no format recognises this file" in err
    assert err.splitlines()[-1] == "odm: error: gone.xml: No such file or directory"


def test_the_sum_of_many_sources(voc, capsys):
    shutil.copy("Annotations/street.xml", "Annotations/yard.xml")
    names = [f"Annotations/{name}.xml" for name in ("street", "yard", "bad", "street")]
    assert _app.run(["validate", "-q", *names]) == 1
    assert capsys.readouterr().out.endswith("9 boxes, 3 images, 3 sources (voc)\n")


def test_an_empty_text_file_is_an_image_without_objects(voc, capsys):
    (voc / "labels").mkdir()
    for name, text in {"a.txt": "0 0.5 0.5 0.25 0.25\n", "b.txt": "", "c.txt": "\n"}.items():
        (voc / "labels" / name).write_text(text, encoding="utf-8")
    (voc / "data.yaml").write_text("names: [cat]\n", encoding="utf-8")
    for names in (["a.txt", "b.txt", "c.txt"], ["b.txt"]):
        assert (
            _app.run(entry("odm-validate", *(f"labels/{name}" for name in names), "--image-size", "9x9")) == 0
        )
        assert capsys.readouterr().err == ""
    assert _app.run(["validate", "labels/b.txt"]) == 0
    assert "labels/b.txt: empty, as for an image without objects" in capsys.readouterr().err
    (voc / "empty.json").write_text("", encoding="utf-8")
    assert _app.run(["validate", "labels/b.txt", "empty.json"]) == 1, "an empty JSON file is a fault"


@pytest.mark.parametrize(
    "options", [("--gt", "a"), ("--against", "a"), ("--fix", "clip", "--out", "b"), ("--report", "r.html")]
)
def test_options_of_one_source_are_refused_for_several(voc, capsys, options):
    assert _app.run(["validate", "Annotations/bad.xml", "Annotations/street.xml", *options]) == 2
    assert f"{options[0]} needs a single SRC, found 2" in capsys.readouterr().err


def test_one_cause_is_one_message_for_all_sources(voc, capsys):
    assert _app.run(["validate", "Annotations/bad.xml", "Annotations/street.xml", "-O", "nonsense=1"]) == 2
    assert capsys.readouterr().err.count("nonsense") == 1


# ------------------------------------------------------------------------------------------- the Markdown


def test_the_markdown_file_has_the_results_and_the_failed_gates(tmp_path, capsys):
    file = tmp_path / "a.md"
    words = ["eval", str(GT), str(DET), "--iou", "0.3", "--fail-under", "mAP=0.6", "--markdown", str(file)]
    assert _app.run(words) == 1
    capsys.readouterr()
    text = file.read_text(encoding="utf-8")
    assert "| person  |   15 |" in text
    assert text.endswith("- **gate failed**: mAP 0.246 \\< 0.6\n")
    assert _app.run(words) == 3
    assert "--overwrite" in capsys.readouterr().err
    assert _app.run([*words, "--overwrite"]) == 1


def test_the_markdown_file_of_a_comparison(tmp_path, capsys):
    file = tmp_path / "a.md"
    other = tmp_path / "other"
    shutil.copytree(DET, other)
    sides = ["compare", str(GT), str(DET), str(other), "--replicates", "10"]
    assert _app.run([*sides, "--require-no-worse", "mAP=-1", "--markdown", str(file)]) in (0, 1, 2)
    capsys.readouterr()
    assert _app.run([*sides, "--markdown", str(file), "--overwrite", "--output", "markdown"]) == 0
    assert file.read_text(encoding="utf-8") == capsys.readouterr().out


def test_the_markdown_file_of_a_validation_is_what_that_output_prints(voc, capsys):
    assert _app.run(["validate", "Annotations", "--markdown", "a.md", "--output", "github"]) == 1
    assert capsys.readouterr().out.startswith("::error file=Annotations/bad.xml,line=9,title=inverted-box::")
    _app.run(["validate", "Annotations", "--output", "markdown"])
    assert (voc / "a.md").read_text(encoding="utf-8") == capsys.readouterr().out


# ---------------------------------------------------------------------------------------------- the action

ACTION = parsed("action.yml") if (ROOT / "action.yml").exists() else {}
STEPS = {step["name"]: step for step in ACTION.get("runs", {}).get("steps", []) if "name" in step}


def executable(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def act(tmp_path):
    """Runs a step of the action as GitHub does, with its inputs: exit code, output and summary."""
    runner = tmp_path / "runner"
    executable(runner / "odm/bin/odm", f'#!/bin/sh\nexec "{sys.executable}" -m odm "$@"\n')
    summary = runner / "summary.md"
    path = os.environ["PATH"]

    def run(name, cwd=tmp_path, **inputs):
        step = STEPS[name]
        values = {key: said["default"] for key, said in ACTION["inputs"].items()} | inputs
        context = {f"inputs.{key}": value for key, value in values.items()}
        context |= {"github.action_path": str(ROOT)}
        given = {
            key: re.sub(r"\$\{\{ (.*?) \}\}", lambda m: context[m[1]], value)
            for key, value in step["env"].items()
        }
        script = tmp_path / "script.sh"
        script.write_text(step["run"], encoding="utf-8")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
            cwd=cwd,
            env={
                **os.environ,
                **given,
                "PATH": f"{tmp_path / 'bin'}:{path}",
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "RUNNER_TEMP": str(runner),
                "GITHUB_STEP_SUMMARY": str(summary),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        text = summary.read_text(encoding="utf-8") if summary.exists() else ""
        return done.returncode, done.stdout + done.stderr, text

    return run


def test_no_input_is_a_part_of_a_script():
    scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    assert scripts
    assert not [script for script in scripts if "${{" in script]


def test_every_input_is_used_and_explained():
    used = set(re.findall(r"inputs\.([\w-]+)", str(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    assert all(said["description"] for said in ACTION["inputs"].values())


def test_the_action_annotates_the_lines_and_fills_the_summary(act, voc):
    code, out, summary = act("Run odm", voc, source="Annotations/\n", args="--ignore\nrare-class\n")
    assert code == 1, out
    assert "::error file=Annotations/bad.xml,line=9,title=inverted-box::" in out
    assert summary.startswith("### odm validate\n\n**1 error, no warnings in 6 boxes, 2 images")
    assert "| `inverted-box` | error | 1 |" in summary


@slow
def test_the_action_checks_several_sources_and_is_strict_on_request(act, voc):
    names = "Annotations/street.xml\nAnnotations/other.xml"
    shutil.copy("Annotations/street.xml", "Annotations/other.xml")  # its <filename> differs: a warning
    assert act("Run odm", voc, source=names)[0] == 0
    assert act("Run odm", voc, source=names, strict="true")[0] == 1


def test_the_action_holds_a_gate(act):
    sides = {"command": "eval", "gt": f"{GT}\n", "det": str(DET), "args": "--iou\n0.3"}
    code, out, summary = act("Run odm", **sides, **{"fail-under": "mAP=0.2\nAP[person]=0.6\n"})
    assert code == 1, out
    assert "::error title=gate failed::AP[person] 0.246 < 0.6" in out
    assert summary.startswith("### odm eval")
    assert "- mAP = 24.57 %" in summary
    assert summary.endswith("- **gate failed**: AP\\[person\\] 0.246 \\< 0.6\n")


@slow
def test_the_action_adds_to_the_summary(act):
    sides = {"command": "eval", "gt": str(GT), "det": str(DET), "protocol": "voc2012\nvoc2007"}
    for _ in range(2):
        code, out, summary = act("Run odm", **sides, **{"fail-under": "voc2012:mAP=0.1"})
        assert code == 0, out
    assert summary.count("### odm eval") == 2


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"command": "rm"}, "the input command is validate or eval"),
        ({"source": ""}, "validate needs the input source"),
        ({"command": "eval", "gt": "a"}, "eval needs the inputs gt and det"),
    ],
)
def test_wrong_inputs_are_usage_errors(act, inputs, message):
    code, out, _ = act("Run odm", **inputs)
    assert (code, out.strip()) == (2, f"::error title=odm::{message}")


def test_an_input_is_never_run(act, voc):
    text = '$(touch hacked) `touch hacked`; touch hacked "'
    code, out, summary = act("Run odm", voc, source=text, args=f"--images\n{text}")
    assert code == 3, out
    assert text in out
    assert "No results (exit code 3)" in summary
    assert not list(voc.rglob("hacked"))


def test_the_action_installs_its_own_checkout(act, tmp_path):
    told = tmp_path / "told"
    stub = f'#!/bin/sh\nprintf "%s\\n" "$@" >> "{told}"\n'
    executable(tmp_path / "bin/python", stub)
    executable(tmp_path / "runner/odm/bin/python", stub)
    code, out, _ = act("Install odm")
    assert code == 0, out
    *venv, m, pip, install, quiet, spec = told.read_text(encoding="utf-8").splitlines()
    assert [m, pip, install, quiet, spec] == ["-m", "pip", "install", "--quiet", str(ROOT)]
    assert venv[-3:] == ["-m", "venv", str(tmp_path / "runner/odm")]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only in a checkout")
def test_nothing_is_installed_by_a_name_that_is_not_published_yet():
    """Somebody else could publish a package of that name; one place holds it."""
    name = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    spelled = re.compile(rf"{name}|{name.replace('-', '_')}")
    found = [
        path
        for path in listed.splitlines()
        if (ROOT / path).is_file()
        and spelled.search((ROOT / path).read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == ["pyproject.toml"]


def test_what_contributors_run_is_what_is_checked_and_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tools = {re.match(r"[a-z-]+", word)[0] for word in project["optional-dependencies"]["dev"]}
    (local,) = parsed(".pre-commit-config.yaml")["repos"]
    hooks = [hook for hook in local["hooks"] if "stages" not in hook]
    commands = {hook["entry"].split()[0] for hook in hooks}
    assert {hook["language"] for hook in hooks} == {"system"}
    assert commands == {"ruff", "typos", "mypy"} <= tools
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert all(f'"$work/dev/bin/{command}"' in script for command in commands)
    for template in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        assert parsed(template), template


def test_every_step_of_the_checks_is_a_job():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    steps = re.search(r"^usual=\((.+)\)$", script, re.MULTILINE)[1].split()
    assert steps[0] == "quick"
    assert {f"run_{step}" for step in (*steps, "coverage")} == set(
        re.findall(r"^(run_\w+)\(\)", script, re.MULTILINE)
    )
    run = set()
    for job in parsed(".github/workflows/ci.yml")["jobs"].values():
        (command,) = [step["run"] for step in job["steps"] if step.get("run", "").startswith(".ci/run ")]
        choices = job.get("strategy", {}).get("matrix", {})
        assert len(choices) <= 1
        for key, values in choices.items() or [("", [""])]:
            run.update(command.replace(f"${{{{ matrix.{key} }}}}", value).split()[1] for value in values)
    smoke = {step for step in run if step.startswith("smoke-")}
    assert run - smoke == {*steps, "coverage"} - {"smoke"}
    versions = re.search(r"\$\{1:-(.+)\}; do", script)[1].split()
    assert smoke == {f"smoke-{each}" for each in versions}
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "classifiers"
    ]
    assert versions == [c.split(" :: ")[-1] for c in classifiers if re.search(r":: 3\.\d+$", c)]


def test_an_unknown_step_of_the_checks_is_refused():
    for step in ("suit", "quick-3.12", "smoke-2"):
        done = subprocess.run([ROOT / ".ci/run", step], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (2, f"unknown step: {step}\n")


@pytest.mark.parametrize("name", ["ci", "release", "benchmarks"])
def test_a_workflow_may_only_read_unless_a_job_says_more(name):
    workflow = parsed(f".github/workflows/{name}.yml")
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert "uses" in job or job["timeout-minutes"] <= 120
        for step in job.get("steps", ()):
            assert "${{ inputs" not in step.get("run", ""), "inputs reach a script through the environment"


def test_a_release_has_the_notes_of_its_version(tmp_path):
    def notes(tag, changelog, code="1.2.0", cited="1.2.0"):
        (tmp_path / ".ci").mkdir(exist_ok=True)
        (tmp_path / "src/odm").mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / ".ci/release_notes.py", tmp_path / ".ci")
        (tmp_path / "src/odm/version.py").write_text(f'VERSION = "{code}"\n')
        (tmp_path / "CITATION.cff").write_text(f"title: odm\nversion: {cited}\n")
        (tmp_path / "CHANGELOG.md").write_text(changelog)
        words = [sys.executable, tmp_path / ".ci/release_notes.py", tag]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout or done.stderr

    changelog = "# Changelog\n\n## Unreleased\n\n- new\n\n## 1.2.0 - 2026-12-01\n\n- a\n- b\n\n## 1.1.0 - 2026-11-01\n\n- old\n"
    assert notes("v1.2.0", changelog) == (0, "- a\n- b\n")
    assert notes("v1.2.0", changelog.replace("1.2.0", "1.2.1")) == (
        1,
        "CHANGELOG.md has no section for 1.2.0\n",
    )
    assert notes("v1.2.0", "## 1.2.0 - 2026-12-01\n\n## 1.1.0\n\n- old\n")[0] == 1
    refusal = "the tag is v1.2.0, but {} has the version 1.3.0\n"
    assert notes("v1.2.0", changelog, code="1.3.0") == (1, refusal.format("src/odm/version.py"))
    assert notes("v1.2.0", changelog, cited="1.3.0") == (1, refusal.format("CITATION.cff"))


@pytest.mark.parametrize(
    ("subject", "refused"),
    [
        ("x" * 72, False),
        ("x" * 73, True),
        ("ä→" * 36, False),
        ("ä→" * 36 + "b", True),
        ("fixup! " + "x" * 72, False),
    ],
)
def test_a_long_subject_of_a_commit_is_refused(subject, refused):
    (local,) = parsed(".pre-commit-config.yaml")["repos"]
    (hook,) = [hook for hook in local["hooks"] if hook.get("stages") == ["commit-msg"]]
    assert hook["args"] == ["--multiline"]
    message = f"{subject}\n\n{'A body with its reasons may have longer lines. ' * 3}\n".encode()
    # As pre-commit's pygrep compiles it.
    assert bool(re.search(hook["entry"].encode(), message, re.MULTILINE | re.DOTALL)) == refused


def test_no_bytes_of_fixtures_are_converted():
    words = ["git", "ls-files", "--eol", "fixtures", "tests/data"]
    listed = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(listed) > 3000
    assert not [line for line in listed if "attr/-text" not in line]
