"""Whole commands under faults: a disk that fills up, a process that is stopped or killed, files that change meanwhile.

Every conversion is also run under another locale, hash seed and order of files, and must give the same bytes.
"""

import errno
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import corpus
import pytest
import test_files as seam  # which stands in for the operating system
from one_format import WRITTEN
from selection import one_of_each, params

from odm import files
from odm.files import opening
from odm.formats import FORMATS
from odm.issues import Log

CORE = list(corpus.BASE)
each_format = pytest.mark.parametrize("name", CORE)
each_target = pytest.mark.parametrize("name", params(WRITTEN, one_of_each()))


def target_of(name):
    return "out" + (FORMATS[name].suffixes[0] if FORMATS[name].single else "")


def arguments(home, name, det=False):
    """A small conversion from another format: CSV, or text where the target is CSV."""
    source = "txt" if name == "csv" else "csv"
    corpus.lay(home / "in", corpus.BASE[source](det))
    explicit = [f"--from-{t[2:]}" if t.startswith("--") else t for t in corpus.TOLD.get(source, ())]
    return [
        "convert",
        str(home / "in"),
        str(home / target_of(name)),
        "--from",
        source,
        "--to",
        name,
        *explicit,
    ]


def shown(home):
    """What a user sees below a folder: everything but staging folders."""
    return {k: v for k, v in seam.snapshot(home).items() if ".odm-" not in k}


def complete(home, name):
    run = corpus.Run(arguments(home, name))
    assert run.code == 0, str(run)
    return shown(home)


# ------------------------------------------------------------------------------- faults at every call that writes


@each_target
def test_a_full_disk_at_every_call_of_a_conversion(tmp_path, monkeypatch, name):
    (tmp_path / "whole").mkdir()
    after = complete(tmp_path / "whole", name)
    for at in itertools.count(1):
        home = tmp_path / str(at)
        home.mkdir()
        args = arguments(home, name)
        before = shown(home)
        faults = seam.Faults(at, seam.no_space)
        with monkeypatch.context() as m:
            seam.stand_in(faults, m.setattr)
            run = corpus.Run(args)
        assert run.code in (0, 3), str(run)
        assert "internal error" not in run.err
        if run.code == 3:
            assert "No space left" in run.err
            assert "nothing was changed" in run.err
            assert shown(home) == before
        else:
            assert shown(home) == after
        again = corpus.Run([*args, "--overwrite"])
        assert again.code == 0, str(again)
        assert shown(home) == after
        assert not seam.litter(home)
        if faults.count < at:
            break
    assert at > 8


KILLED = """
import os, signal, sys
sys.path[:0] = [os.path.dirname(sys.argv[1])]
import corpus
import test_faults as module
import test_files as seam
from odm import files
from pathlib import Path

name, top = sys.argv[2:]
warm = Path(top, "warm")
warm.mkdir()
module.complete(warm, name)  # so that the children find everything imported
at = 0
while True:
    at += 1
    home = Path(top, str(at))
    home.mkdir()
    args = module.arguments(home, name)
    child = os.fork()
    if child == 0:
        faults = seam.Faults(at, lambda name: os.kill(os.getpid(), signal.SIGKILL))
        seam.stand_in(faults)
        os._exit(100 + corpus.Run(args).code)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 100, (name, at, status)
        break
    assert os.WTERMSIG(status) == signal.SIGKILL
print(at)
"""


@each_target
def test_a_kill_at_every_call_of_a_conversion(tmp_path, name):
    """Right before its n-th call that changes the disk, for every n, without any chance to clean up."""
    (tmp_path / "kill.py").write_text(KILLED)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "kill.py"), __file__, name, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    runs = int(done.stdout)
    assert runs > 8
    whole = tmp_path / "whole"
    whole.mkdir()
    after = complete(whole, name)
    before = {k: v for k, v in after.items() if k.split("/")[0] == "in"}
    states = set()
    for at in range(1, runs + 1):
        home = tmp_path / str(at)
        now = shown(home)
        assert now in (before, after), at
        states.add(now == after)
        args = arguments(home, name)
        run = corpus.Run(args if now == before else [*args, "--overwrite"])
        assert run.code == 0, str(run)
        assert shown(home) == after
        assert not seam.litter(home)
    assert states == {True, False}


OVERWRITTEN = """
import os, signal, sys
sys.path[:0] = [os.path.dirname(sys.argv[1])]
import corpus
import test_faults as module
import test_files as seam
from pathlib import Path

at, top = 0, Path(sys.argv[2])
while True:
    at += 1
    home = top / str(at)
    args = module.overwriting(home)
    child = os.fork()
    if child == 0:
        seam.stand_in(seam.Faults(at, lambda name: os.kill(os.getpid(), signal.SIGKILL)))
        os._exit(100 + corpus.Run(args).code)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 100, (at, status)
        break
print(at)
"""


def overwriting(home):
    """A conversion of three images into a folder that has two of them with other boxes, and a foreign file."""
    rows = {name: f"cat {i} {i} 20 20\n" for i, name in enumerate(("a.txt", "sub/b.txt", "new/c.txt"))}
    source = corpus.lay(home / "in", rows)
    corpus.lay(home / "out", {"a.txt": "cat 5 5 9 9\n", "sub/b.txt": "cat 6 6 9 9\n", "notes.md": "by hand"})
    box = ["--from-box", "ltrb", "--to-box", "ltrb"]
    return ["convert", source, home / "out", "--from", "txt", "--to", "txt", "--overwrite", *map(str, box)]


def test_a_kill_while_a_folder_is_overwritten_is_recognised(tmp_path):
    """After a kill at any call the folder is old, new, or refused by all that read it until it is completed."""
    (tmp_path / "kill.py").write_text(OVERWRITTEN)
    words = [sys.executable, str(tmp_path / "kill.py"), __file__, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    runs = int(done.stdout)
    after = shown(tmp_path / str(runs))
    states = set()
    for at in range(1, runs):
        home = tmp_path / str(at)
        args = overwriting(tmp_path / f"before{at}")
        before, now = shown(tmp_path / f"before{at}"), shown(home)
        args = [str(word).replace(f"before{at}", str(at)) for word in args]
        marked = (home / "out" / ".odm-incomplete").exists()
        assert marked or now in (before, after), at
        assert now["out/notes.md"] == before["out/notes.md"]
        states.add("marked" if marked else "old" if now == before else "new")
        states.add("mixed" if now not in (before, after) else "")
        if marked:
            other = corpus.lay(home / "other", {"a.txt": "cat 1 1 2 2\n"})
            fewer = [str(other) if word.endswith("/in") else word for word in args]
            readers = [["stats", home / "out"], ["validate", home], ["eval", home / "out/sub", home / "in"]]
            readers += [["convert", home / "out", home / "copy.csv"], fewer, [*fewer, "--dry-run"]]
            for words in readers:
                run = corpus.Run([str(word) for word in words])
                assert (run.code, run.err.count("old and new files")) == (3, 1), str(run)
            assert shown(home) == now | {k: v for k, v in shown(home).items() if k.startswith("other")}
        run = corpus.Run(args)
        assert run.code == 0, str(run)
        assert {k: v for k, v in shown(home).items() if not k.startswith("other")} == after
        assert not seam.litter(home / "out")
        assert corpus.Run(["stats", str(home / "out"), "--box", "ltrb"]).code == 0
    assert states >= {"old", "new", "marked", "mixed"}


STOPPED = """
import os, signal, sys
from odm.cli import _app
number, root, moment = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
own, count = os.getpid(), 0
def hook(event, args):
    global count
    if event.startswith(("open", "os.")) and root in str(args) and os.getpid() == own:
        count += 1
        if count == moment:
            os.kill(own, number)
sys.addaudithook(hook)
code = _app.run(sys.argv[4:])
print("calls", count, file=sys.stderr)
sys.exit(code)
"""
"""Runs a command that gets a signal with its n-th call of the file system below a folder: no clock is asked."""


@pytest.mark.parametrize("number", params([signal.SIGINT, signal.SIGTERM], [signal.SIGINT]))
def test_a_signal_at_any_moment_leaves_all_or_nothing(tmp_path, number):
    """Of a conversion and of an evaluation that saves its results: the target is whole or not there."""
    rows = "".join(f"cat {i} {i} {i + 5} {i + 5}\n" for i in range(40))
    found = "".join(f"cat 0.5 {i} {i} {i + 5} {i + 5}\n" for i in range(40))
    source = corpus.lay(tmp_path / "in", {f"{i}.txt": rows for i in range(100)})
    detections = corpus.lay(tmp_path / "det", {f"{i}.txt": found for i in range(100)})
    old = corpus.lay(tmp_path / "old", {f"{i}.xml": "<annotation/>" for i in range(100)})
    convert = ["convert", str(source), "{}", "--from", "txt", "--to", "voc", "--from-box", "ltrb"]
    commands = {
        "convert": convert,
        "overwrite": [*convert, "--overwrite"],
        "eval": ["eval", str(source), str(detections), "--save", "{}", "--box", "ltrb"],
    }

    def run(args, home, moment):
        home.mkdir()
        if "--overwrite" in args:
            shutil.copytree(old, home / "out")
        words = [str(int(number)), str(tmp_path), str(moment), *(a.format(home / "out") for a in args)]
        return subprocess.run(
            [sys.executable, "-c", STOPPED, *words], capture_output=True, text=True, timeout=600, check=False
        )

    draw = random.Random(int(number))
    for command, args in commands.items():
        delay_signals = run(args, tmp_path / command, 0)
        assert delay_signals.returncode == 0, delay_signals.stderr
        calls = int(delay_signals.stderr.split()[-1])
        assert calls > 100
        for part in (0, 0.5, 0.98):  # while it reads, somewhere after, and while it puts its files in place
            home = tmp_path / f"{command}{part}"
            done = run(args, home, draw.randint(int(part * calls) + 1, calls))
            assert done.returncode == (130 if number == signal.SIGINT else -signal.SIGTERM), done.stderr
            assert "Traceback" not in done.stderr, done.stderr
            there = shown(home)
            assert not seam.litter(home)
            if there and command == "convert":
                assert len([k for k in there if k.endswith(".xml")]) == 100
            elif command == "overwrite":
                written = {b"<object>" in there[f"out/{i}.xml"] for i in range(100)}
                assert len(written) == 1, "old and new files"
            elif there:
                json.loads(there["out/results.json"])


@each_target
def test_a_small_disk_that_fills_up(tmp_path, name):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mount is not permitted")
    try:
        rng = random.Random(1)  # numbers that no format can pack into the little room there is
        corners = [(rng.uniform(0, 400), rng.uniform(0, 300)) for _ in range(300 * 50)]
        rows = [f"cat {x!r} {y!r} {x + 5 + y / 9!r} {y + 5 + x / 9!r}\n" for x, y in corners]
        source = corpus.lay(tmp_path / "in", {f"{i}.txt": "".join(rows[i::50]) for i in range(50)})
        explicit = ["--from-box", "ltrb", "--image-size", "640x480"]
        run = corpus.Run(
            ["convert", source, disk / target_of(name), "--from", "txt", "--to", name, *explicit]
        )
        assert run.code == 3, str(run)
        assert "No space left" in run.err
        assert os.listdir(disk) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else"
)
def test_a_read_only_target_and_an_unreadable_source_for_an_ordinary_user():
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        refused_to_an_ordinary_user(Path(top))


def refused_to_an_ordinary_user(tmp_path):
    source = corpus.lay(tmp_path / "in", corpus.csv())
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    hidden = corpus.lay(tmp_path / "hidden", corpus.txt())
    os.chmod(hidden / "a.txt", 0)
    script = "import os, sys; from odm.cli import _app; _app.run(['formats', 'csv']); import ctypes, difflib, numpy.ma, odm.cli.convert, odm.cli.validate, odm.cli._issue_formats, odm.formats; os.setgid(65534); os.setuid(65534); sys.exit(_app.run(sys.argv[1:]))"

    def run(*args):
        return subprocess.run(
            [sys.executable, "-c", script, *map(str, args)],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    done = run("convert", source, locked / "out", "--to", "txt")
    assert done.returncode == 3, done.stderr
    assert "no permission to write" in done.stderr
    assert os.listdir(locked) == []
    done = run("validate", hidden, "--format", "txt", "--box", "ltrb")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "a.txt: error unreadable-file cannot read the file: Permission denied" in done.stdout


# -------------------------------------------------------------------------------- files that change meanwhile


@each_format
@pytest.mark.parametrize("change", ["vanishes", "grows", "shrinks", "becomes a folder", "becomes a FIFO"])
def test_a_file_that_changes_while_it_is_read(tmp_path, monkeypatch, name, change):
    source = corpus.lay(tmp_path / "in", corpus.BASE[name]())
    main = source / corpus.MAIN[name]
    real_open = opening._open
    armed = [True]

    def now():
        armed.clear()
        if change == "grows":
            with main.open("ab") as stream:
                stream.write(b" " * 10)
        elif change == "shrinks":
            os.truncate(main, 5)
        else:
            main.unlink()
            if "folder" in change:
                main.mkdir()
            elif "FIFO" in change:
                os.mkfifo(main)

    def opened(path, max_size):
        late = change in ("grows", "shrinks")
        ours = (
            armed and os.path.realpath(path) == os.path.realpath(main) and max_size != 2**63
        )  # not the first look
        if ours and not late:
            now()
        found = real_open(path, max_size)
        if ours and late:
            now()
        return found

    monkeypatch.setattr(opening, "_open", opened)
    run = corpus.Run(
        [
            "convert",
            source,
            tmp_path / target_of("txt"),
            "--from",
            name,
            "--to",
            "txt",
            *(f"--from-{t[2:]}" if t.startswith("--") else t for t in corpus.TOLD.get(name, ())),
        ]
    )
    assert not armed
    assert run.code == 1, str(run)
    assert f"{main}: error unreadable-file" in run.err, str(run)
    assert os.listdir(tmp_path) == ["in"]


def test_a_folder_that_vanishes_while_it_is_walked(tmp_path, monkeypatch):
    source = corpus.lay(tmp_path / "in", {f"{k}/{n}": v for k in "abc" for n, v in corpus.txt().items()})
    real = os.scandir

    def scandir(path):
        if str(path).endswith("b"):
            raise FileNotFoundError(errno.ENOENT, "gone")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    log = Log()
    found = files.Source(str(source))
    assert found.files == ["a/a.txt", "a/b.txt", "c/a.txt", "c/b.txt"]
    found.report_links(log)
    assert [i.code for i in log] == ["unreadable-file"]


# ------------------------------------------------------------------------------------------------ same bytes out

ENVIRONMENTS = [
    {"LC_ALL": "C", "PYTHONHASHSEED": "0"},
    {"LC_ALL": "de_DE.UTF-8", "PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1"},
    {
        "LC_ALL": "tr_TR.UTF-8",
        "PYTHONHASHSEED": "2",
        "OMP_NUM_THREADS": "7",
        "TZ": "Asia/Tokyo",
        "PYTHONIOENCODING": "latin-1",
    },
]

EVERYTHING = """
import os, random, sys
from odm.cli import _app

class scandir:  # file systems list folders in orders of their own
    order = random.Random(int(sys.argv[2]))

    def __init__(self, path=".", real=os.scandir):
        with real(path) as entries:
            found = list(entries)
        self.order.shuffle(found)
        self.left = iter(found)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.left)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

os.scandir = scandir
os.chdir(sys.argv[1])
for source, name, suffix, more in [line.split("|") for line in open("jobs")]:
    assert _app.run(["convert", source, f"out/{source}-{name}{suffix}", "--to", name, *more.split()]) == 0, (source, name)
assert _app.run(["eval", "gt-csv", "det-csv", "--output", "json", "--save", "out/saved"]) == 0
assert _app.run(["validate", "\\u0130 \\xe9"]) == 3
"""


def test_the_same_names_where_the_locale_is_not_utf_8(tmp_path):
    source = corpus.lay(tmp_path / "in", {"İ é.txt": "cat 1 2 3 4\n"})
    trees = []
    for more in ({}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        out = tmp_path / f"out{len(trees)}"
        done = subprocess.run(
            [sys.executable, "-m", "odm", "convert", source, out, "--to", "voc", "--from-box", "ltrb", "--rename", "cat=Kätzchen"],
            env={k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHONUTF8"))} | more,
            capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        trees.append(seam.snapshot(out))
    assert trees[0] == trees[1]
    assert "Kätzchen".encode() in trees[0]["İ é.xml"]


@pytest.mark.parametrize("every", params([False, True], [False]), ids=["each format", "all pairs"])
def test_the_same_bytes_for_any_locale_hash_seed_and_order_of_files(tmp_path, every):
    sources = [(kind, source) for kind in ("gt", "det") for source in corpus.BASE]
    jobs = []
    for number, name in enumerate(WRITTEN):
        for kind, source in sources if every else [sources[number % len(sources)]]:
            explicit = [f"--from-{t[2:]}" if t.startswith("--") else t for t in corpus.TOLD.get(source, ())]
            words = " ".join(["--from", source, "--kind", kind, *explicit])
            jobs.append(f"{kind}-{source}|{name}|{target_of(name)[3:]}|{words}")
    trees, prints = [], []
    for number, environment in enumerate(ENVIRONMENTS):
        home = tmp_path / str(number)
        for kind, source in sources:
            made = corpus.BASE[source](kind == "det")
            made |= {
                k.replace("a.", "İ é."): v.replace("a.jpg", "İ é.jpg")
                for k, v in made.items()
                if k in ("a.txt", "a.xml")
            }
            names = list(made)
            random.Random(number).shuffle(names)
            corpus.lay(home / f"{kind}-{source}", {k: made[k] for k in names})
        (home / "jobs").write_text("\n".join(jobs))
        done = subprocess.run(
            [sys.executable, "-c", EVERYTHING, str(home), str(number)],
            env={**os.environ, **environment},
            capture_output=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr.decode()
        trees.append(seam.snapshot(home / "out"))
        prints.append((done.stdout, done.stderr))
    assert len(trees[0]) > len(jobs)
    for tree, said in zip(trees[1:], prints[1:], strict=True):
        assert tree == trees[0]
        assert said == prints[0]
