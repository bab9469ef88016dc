"""The commands in the pages: each is run in a folder that has the files it names, or else parsed by the real CLI."""

import contextlib
import glob
import json
import re
import shlex
import shutil
from pathlib import Path

import click
import pytest
from PIL import Image
from selection import SLOW, of_each

import odm
from odm.cli import _app

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "README.zh-CN.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
PLACES = re.compile(r"\b(SRC|DST|GT DET)\b")
"""Names in a synopsis in place of files."""
PLACEHOLDERS = {"FORMAT": "coco", "NAME": "yolo", "CODE": "bad-name"}
ELSEWHERE = ("--cluster", "--memory", "s3://", "boxlist")
"""What needs a cluster, large files, a network or the format of the guide: such commands are parsed only;
tests/test_shards.py and tests/test_new_format.py run some."""


def lines_of(block):
    """The odm commands of a block, without prompt, comment and redirection."""
    for line in block.replace("\\\n", " ").splitlines():
        line = line.strip().removeprefix("$ ")  # noqa: PLW2901
        if line.startswith("odm "):
            words = shlex.split(line, comments=True)
            ends = [i for i, word in enumerate(words) if word in (">", "|", "&&")]
            yield words[: ends[0]] if ends else words


def blocks():
    """Every block of a page with commands: they are run one after the other."""
    for page in PAGES:
        found = FENCE.findall(page.read_text(encoding="utf-8"))
        for number, (language, block) in enumerate(found, 1):
            commands = list(lines_of(block)) if language in ("", "sh", "bash", "console") else []
            if commands:
                yield pytest.param(commands, id=f"{page.name}-{number}")


def parsed(words):
    """The command line as click parses it; a usage error is raised."""
    words = [
        PLACEHOLDERS.get(word, word) for word in " ".join(words).replace("[", "").replace("]", "").split()
    ]
    with contextlib.suppress(click.exceptions.Exit):
        return _app.app.get_command(None, words[1]).make_context(words[1], words[2:])
    return None


PROGRAMS = {"--gtfolder", "--detfolder", "--threshold", "--savepath", "--noplot", "--save-media", "--workers"}
"""Options of other programs that the pages mention."""


# ------------------------------------------------------------------------------------- the files they name


def tables(*, prefix="", found=False, tracks=False, shapes=""):
    """Ten small images with three objects each, one of them tiny; every detection fits."""
    names = [f"{prefix}clip{i // 5}_frame{i % 5 + 1:03d}.jpg" for i in range(10)]
    image = [i for i in range(10) for _ in range(3)]
    boxes = [
        box for i in range(10) for box in ([2, 28 + i, 10, 10], [4 + i, 4, 20, 20], [36 + i % 4, 6, 22, 30])
    ]
    columns = {"score": [0.3 + 0.02 * i for i in range(30)]} if found else {}
    if tracks:
        columns |= {"video": [f"clip{i // 5}" for i in range(10)], "frame": [i % 5 + 1 for i in range(10)]}
        columns |= {"track": [1, 2, 3] * 10}
    if shapes:
        quads = [[[x, y], [x + w, y + 2], [x + w, y + h], [x, y + h - 2]] for x, y, w, h in boxes]
        of = {"polygons": [[quad] for quad in quads], "oriented": quads,
              "keypoints": [[(*corner, 2) for corner in quad] for quad in quads]}  # fmt: skip
        columns[shapes] = of[shapes]
    return odm.Dataset.from_arrays(
        images=names, categories=["car", "person"], image=image, category=[0, 1, 1] * 10, ltwh=boxes,
        width=[64] * 10, height=[48] * 10, image_ids=list(range(1, 11)), kind="det" if found else "gt", **columns,
    )  # fmt: skip


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A folder with what the pages call gt/, labels/, instances.json and so on."""
    folder = tmp_path_factory.mktemp("files")
    truth, found = tables(), tables(found=True)

    def write(name, dataset, to, **options):
        odm.write(dataset, str(folder / name), to, **options)

    for name in ("gt", "groundtruths"):
        write(name, truth, "txt", box="ltwh")
    for name in ("det", "detections", "old", "new"):
        write(name, found, "txt", box="ltwh")
    for name in ("instances", "annotations", "alice", "bob", "main", "branch", "labels-v1", "labels-v2", "a"):
        write(f"{name}.json", truth, "coco")
    for name in ("results", "old", "new"):
        write(f"{name}.json", found, "coco")
    write("b", tables(prefix="b-"), "voc")
    write("b.json", tables(prefix="b-"), "coco")
    (folder / "Annotations").mkdir()
    for name, source in zip(("a.xml", "b.xml"), sorted((folder / "b").rglob("*.xml")), strict=False):
        shutil.copy(source, folder / "Annotations" / name)
    photos = [*truth.images.name, *(f"b-{name}" for name in truth.images.name)]
    (folder / "photos").mkdir()
    for name in photos:
        Image.new("RGB", (64, 48), "grey").save(folder / "photos" / name)
    write("yolo", truth, "yolo")
    write("a", truth, "yolo")
    shutil.copytree(folder / "photos", folder / "photos_a", ignore=shutil.ignore_patterns("b-*"))
    write("seen", found, "yolo")
    for source, *targets in (("yolo", "labels", "valset/labels"), ("seen", "runs/detect/val/labels")):
        for target in targets:
            shutil.copytree(folder / source / "labels", folder / target)
    shutil.copytree(folder / "photos", folder / "valset" / "images", ignore=shutil.ignore_patterns("b-*"))
    (folder / "data.yaml").write_text("path: .\nval: valset/images\nnames: [car, person]\n", encoding="utf-8")
    columns = zip(
        found.boxes.image.tolist(), found.boxes.category.tolist(), found.boxes.score.tolist(), strict=True
    )
    predictions = [
        {
            "image_id": found.images.name[i][:-4],
            "category_id": k,
            "bbox": [x, y, r - x, b - y],
            "score": score,
        }
        for (i, k, score), (x, y, r, b) in zip(columns, found.boxes.xyxy.tolist(), strict=True)
    ]
    (folder / "runs/detect/val/predictions.json").write_text(json.dumps(predictions), encoding="utf-8")
    for n, run in enumerate(("first", "second", "third"), 20):
        own = [{**prediction, "category_id": prediction["category_id"] + 1} for prediction in predictions[:n]]
        (folder / "experiments" / run).mkdir(parents=True)
        (folder / "experiments" / run / "predictions.json").write_text(json.dumps(own), encoding="utf-8")
    rows = [f"{name},{'rain' if i % 2 else 'sun'}" for i, name in enumerate(truth.images.name)]
    (folder / "weather.csv").write_text("\n".join(["image,weather", *rows]), encoding="utf-8")
    truth, found = tables(tracks=True), tables(tracks=True, found=True)
    write("MOT17/train", truth, "mot")
    write("results", found, "mot")
    write("gt.json", truth, "coco")
    write("detections.json", found, "coco")
    for ours, theirs, shapes in (("outlines", "segm", "polygons"), ("people", "poses", "keypoints")):
        write(f"{ours}.json", tables(shapes=shapes), "coco")
        write(f"{theirs}.json", tables(shapes=shapes, found=True), "coco")
    (folder / "sigmas.txt").write_text("0.05\n0.05\n0.1\n0.1\n", encoding="utf-8")
    write("DOTA/val", tables(shapes="oriented"), "dota")
    write("DOTA/results", tables(shapes="oriented", found=True), "dota", results=True)
    (folder / "fixtures").symlink_to(ROOT / "fixtures")
    return folder


# ---------------------------------------------------------------------------------------------- the tests


def is_run(words):
    """Whether a command is run here; the others are parsed only."""
    line = shlex.join(words)
    too_slow = not SLOW and (words[1] == "compare" or "--plots" in words)
    return not (too_slow or "[" in line or PLACES.search(line) or any(what in line for what in ELSEWHERE))


@of_each([(words,) for block in blocks() for words in block.values[0] if not is_run(words)])
def test_commands_that_are_not_run_are_parsed(words):
    parsed(words)


@pytest.mark.parametrize("commands", [block for block in blocks() if any(map(is_run, block.values[0]))])
def test_commands_run(commands, files, tmp_path, monkeypatch, capsys):
    shutil.copytree(files, tmp_path / "work", symlinks=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    for words in filter(is_run, commands):
        paths = [sorted(glob.glob(word)) if "*" in word else [] for word in words]  # as a shell does
        expanded = [path for word, files in zip(words, paths, strict=True) for path in files or [word]]
        code = _app.run(expanded[1:])
        assert code == 0, f"{shlex.join(words)}\n{capsys.readouterr().err}"


def options_of(name):
    """Every spelling of the options of a command, those of formats too."""
    command = _app.app.get_command(None, name)
    # click caches the help option of a command, so its names must be those that users have
    settings = _app.app.context_settings | command.context_settings
    context = click.Context(command, info_name=name, **settings)
    params = command.get_params(context)
    return {option for param in params for option in (*param.opts, *param.secondary_opts)} | {"--help"}


OPTIONS = {name: options_of(name) for name in _app.COMMANDS}
ALL = {"--version", *PROGRAMS}.union(*OPTIONS.values())
SPAN = re.compile(r"(?<!`)`((?:odm |--)[^`]+)`(?!`)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_in_the_text_exist(page):
    """``odm eval --save`` in a sentence, and ``--save`` that names no command."""
    for span in SPAN.findall(re.sub(FENCE, "", page.read_text(encoding="utf-8"))):
        first, *words = span.split()
        known = ALL if first != "odm" or words[0].startswith("-") else OPTIONS.get(words[0])
        assert known is not None, span
        for word in (first, *words):
            if word.startswith("--"):
                assert word.partition("=")[0].partition("|")[0].rstrip("\\") in known, span
