"""The promises about the disk: what is read, what is refused, and that an output is whole or not there."""

import errno
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from cost import cost
from selection import params

from odm.files import (
    CASE_COLLISION,
    COLLISION,
    HIDDEN_NAME,
    LEADS_OUTSIDE,
    UNREADABLE,
    Output,
    Source,
    Unreadable,
    open_binary,
    read_bytes,
    read_head,
)
from odm.files import marker as marking
from odm.files import output as writing
from odm.files import scratch as staging
from odm.issues import Log, PathError
from odm.names import BAD_NAME, DEVICE_NAME, accept_name, refuse_name

NAMES = ["data.yaml", "labels/train/a.txt", "labels/train/b.txt", "labels/val/c.txt"]


def snapshot(top):
    """Every path below `top` with its content, links with where they lead."""
    found = {}
    for path in sorted(Path(top).rglob("*")):
        name = str(path.relative_to(top))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


def content(name):
    return f"new {name}\n".encode() * 10


def write_folder(target, *, overwrite=False, names=NAMES, dry_run=False):
    log = Log()
    output = Output(str(target), overwrite=overwrite, dry_run=dry_run)
    assert output.plan(names, names, log), log.issues
    with output:
        for name in names:
            output.write(name, content(name))
    return output


def write_single(target, *, overwrite=False):
    with Output(str(target), single=True, overwrite=overwrite) as output:
        output.write("", content("file"))
    return output


def litter(folder):
    return [name for name in os.listdir(folder) if name.startswith(".odm-")]


# ------------------------------------------------------------------------------------ faults, one by one


class Faults:
    """Stands in for the module `os` where odm.files writes: fails, or kills the process, at the n-th call that changes the disk."""

    CALLS = (
        "mkdir",
        "write",
        "fsync",
        "rename",
        "replace",
        "link",
        "symlink",
        "rmdir",
        "unlink",
        "close",
        "chmod",
    )

    def __init__(self, at, action):
        self.at, self.action, self.count = at, action, 0

    def __getattr__(self, name):
        real = getattr(os, name)
        if name == "open":
            return self._open
        if name not in self.CALLS:
            return real

        def call(*args, **kwargs):
            self.step(name)
            return real(*args, **kwargs)

        return call

    def _open(self, path, flags, *args, **kwargs):
        if flags & os.O_CREAT:
            self.step("open")
        return os.open(path, flags, *args, **kwargs)

    def step(self, name):
        self.count += 1
        if self.count == self.at:
            self.action(name)


def no_space(name):
    if name == "close":  # it must not hide the descriptor from the real one, and no disk answers so to it
        return
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Stopped(BaseException):
    """What a handler of SIGTERM raises."""


def interrupt(name):
    raise Stopped(name)


def tree(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "bystander").write_text("untouched")
    return folder


def new_folder(folder):
    write_folder(folder / "out")


def empty_folder(folder):
    (folder / "out").mkdir(exist_ok=True)
    write_folder(folder / "out")


def below_new_parents(folder):
    write_folder(folder / "made" / "for" / "out")


def new_file(folder):
    write_single(folder / "out.json")


def old_file(folder):
    (folder / "out.json").write_text("old")
    write_single(folder / "out.json", overwrite=True)


SCENES = [new_folder, empty_folder, below_new_parents, new_file, old_file]


def stand_in(faults, put=setattr):
    """Have all that writes go through `faults`."""
    for module in (writing, staging, marking):
        put(module, "os", faults)
    sync = staging.sync_file_system
    put(staging, "sync_file_system", lambda folder: (faults.step("syncfs"), sync(folder)))


def run_with(monkeypatch, scene, folder, at, action):
    faults = Faults(at, action)
    with monkeypatch.context() as m:
        stand_in(faults, m.setattr)
        try:
            scene(folder)
        except PathError as e:
            return e, faults
        except Stopped as e:
            return e, faults
    return None, faults


@pytest.mark.parametrize("action", [no_space, interrupt])
@pytest.mark.parametrize("scene", SCENES)
def test_a_fault_at_every_call_leaves_all_or_nothing(tmp_path, monkeypatch, scene, action):
    if scene is old_file:
        before = {"bystander": b"untouched", "out.json": b"old"}
    elif scene is empty_folder:
        before = {"bystander": b"untouched", "out": None}
    else:
        before = {"bystander": b"untouched"}
    whole = tree(tmp_path)
    scene(whole)
    after = snapshot(whole)
    total = 0
    at = 0
    while True:
        at += 1
        folder = tmp_path / f"run{at}"
        folder.mkdir()
        (folder / "bystander").write_text("untouched")
        failed, faults = run_with(monkeypatch, scene, folder, at, action)
        now = snapshot(folder)
        hidden = {k: v for k, v in now.items() if ".odm-" in k}
        shown = {k: v for k, v in now.items() if k not in hidden}
        if hidden and "made/for/out" not in shown:  # a second fault stopped the removal of the parents
            shown = {k: v for k, v in shown.items() if not k.startswith("made")}
        assert shown in (before, after), (at, failed)
        if failed is None:
            assert shown == after
        elif isinstance(failed, PathError):
            assert "No space left" in str(failed)
            assert shown == before
            # Only where the removal itself is what fails is something left, for the next run to remove.
        if faults.count < at:
            total = at - 1
            break
        if hidden:
            home = folder / "made" / "for" if (folder / "made").exists() else folder
            write_single(home / "next.json")
            assert not litter(home)
    assert total > 5  # the seam sees the calls


@pytest.mark.parametrize("scene", [s.__name__ for s in SCENES])
def test_a_kill_at_every_call_leaves_all_or_nothing(tmp_path, scene):
    """One child per call: it is killed, without any chance to clean up, right before its n-th call."""
    helper = tmp_path / "kill.py"
    helper.write_text(KILLED)
    whole = tree(tmp_path)
    globals()[scene](whole)
    after = snapshot(whole)
    reports = subprocess.run(
        [sys.executable, str(helper), str(Path(__file__)), scene, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert reports.returncode == 0, reports.stderr
    runs = int(reports.stdout)
    assert runs > 5
    for at in range(1, runs + 1):
        folder = tmp_path / f"run{at}"
        now = snapshot(folder)
        shown = {k: v for k, v in now.items() if ".odm-" not in k}
        target = {k: v for k, v in shown.items() if k.startswith(("out", "made/for/out"))}
        complete = {k: v for k, v in after.items() if k.startswith(("out", "made/for/out"))}
        untouched = {"old_file": {"out.json": b"old"}, "empty_folder": {"out": None}}.get(scene, {})
        assert target in (untouched, {}, complete) if scene != "old_file" else target in (untouched, complete)
        assert now["bystander"] == b"untouched"
        home = (
            folder / "made" / "for"
            if scene == "below_new_parents" and (folder / "made" / "for").exists()
            else folder
        )
        write_single(home / "next.json")
        assert not litter(home)


KILLED = """
import os, signal, sys
sys.path[:0] = [os.path.dirname(sys.argv[1])]
import test_files as module
from pathlib import Path

at = 0
while True:
    at += 1
    folder = Path(sys.argv[3], f"run{at}")
    folder.mkdir()
    (folder / "bystander").write_text("untouched")
    child = os.fork()
    if child == 0:
        module.stand_in(module.Faults(at, lambda name: os.kill(os.getpid(), signal.SIGKILL)))
        getattr(module, sys.argv[2])(folder)
        os._exit(7)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 7, status
        break
print(at)
"""


def test_a_kill_while_overwriting_leaves_whole_files(tmp_path):
    helper = tmp_path / "kill.py"
    helper.write_text(
        KILLED.replace('(folder / "bystander")', 'module.old_tree(folder); (folder / "bystander")')
    )
    run = subprocess.run(
        [sys.executable, str(helper), str(Path(__file__)), "overwritten", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for at in range(1, int(run.stdout) + 1):
        out = tmp_path / f"run{at}" / "out"
        for name in NAMES:
            there = (out / name).read_bytes() if (out / name).exists() else None
            assert there in (content(name), b"old" if name in OLD else None)
        assert (out / "keep.txt").read_bytes() == b"old"


OLD = ("data.yaml", "labels/train/a.txt", "keep.txt")


def old_tree(folder):
    for name in OLD:
        path = folder / "out" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"old")


def overwritten(folder):
    write_folder(folder / "out", overwrite=True)


def test_a_fault_while_overwriting_says_how_far_it_came(tmp_path, monkeypatch):
    at, messages = 0, []
    while True:
        at += 1
        folder = tmp_path / str(at)
        folder.mkdir()
        old_tree(folder)
        failed, faults = run_with(monkeypatch, overwritten, folder, at, no_space)
        new = [
            n
            for n in NAMES
            if (folder / "out" / n).exists() and (folder / "out" / n).read_bytes() == content(n)
        ]
        if failed:
            messages.append(str(failed))
            assert ("nothing was changed" in str(failed)) == (not new), failed
            assert not litter(folder)
        if faults.count < at:
            break
    assert any("are in place" in m for m in messages)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_writing_cleans_up(tmp_path, number):
    script = f"""
import os, signal, sys, time
from odm.files import Output
class Stopped(BaseException): pass
def stop(*_): raise Stopped
signal.signal({int(number)}, stop)
try:
    with Output({str(tmp_path / "made" / "out")!r}) as output:
        for i in range(10**9):
            output.write(f"a/{{i}}.txt", b"x" * 1000)
            if i == 5: print("ready", flush=True)
except Stopped:
    sys.exit(130)
"""
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    assert litter(tmp_path / "made")
    child.send_signal(number)
    assert child.wait(60) == 130
    child.stdout.close()
    assert os.listdir(tmp_path) == []


def test_left_overs_of_the_dead_go_and_those_of_the_living_stay(tmp_path):
    script = f"""
import sys
from odm.files import Output
with Output({str(tmp_path / "alive")!r}) as output:
    output.write("a", b"a")
    print("ready", flush=True)
    sys.stdin.read()
"""
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    dead = tmp_path / ".odm-out-0123456789ab.tmp"
    (dead / "tree" / "labels").mkdir(parents=True)
    (dead / "tree" / "labels" / "a.txt").write_text("half")
    foreign = tmp_path / ".odm-cache"
    foreign.mkdir()
    (foreign / "precious").write_text("not ours")
    odd = tmp_path / ".odm-out-0123456789ac.tmp"
    odd.mkdir()
    (odd / "precious").write_text("not ours either")
    link = tmp_path / ".odm-out-0123456789ad.tmp"
    link.symlink_to(foreign)
    write_folder(tmp_path / "out")
    assert not dead.exists()
    assert (foreign / "precious").exists()
    assert (odd / "precious").exists()
    assert link.is_symlink()
    assert len([n for n in litter(tmp_path) if "-alive-" in n]) == 1
    child.communicate(b"")
    assert child.returncode == 0
    assert (tmp_path / "alive" / "a").read_bytes() == b"a"


class Adversary:
    """Another user of the folder, who acts at one moment: right before the n-th call that the interpreter tells of.

    Such are the opening, listing and removing of files and folders, also within the standard library. The act is
    to put links to somebody's folder into the place of folders.
    """

    active = None
    EVENTS = ("open", "os.scandir", "os.listdir", "os.remove", "os.rmdir", "os.rename")

    def __init__(self, at, folders, victim):
        self.at, self.folders, self.victim, self.count = at, folders, victim, 0

    def __enter__(self):
        Adversary.active = self

    def __exit__(self, *_):
        Adversary.active = None

    def act(self):
        Adversary.active = None  # what follows is not odm's doing
        for i, folder in enumerate(self.folders):
            if folder.is_dir() and not folder.is_symlink():
                folder.rename(folder.with_name(f"aside{i}"))
                folder.symlink_to(self.victim)

    @staticmethod
    def hook(event, _):
        self = Adversary.active
        if self is not None and event in Adversary.EVENTS:
            self.count += 1
            if self.count == self.at:
                self.act()


sys.addaudithook(Adversary.hook)

PRECIOUS = ["x", "a/x", "b/x", "tree/x", "tree/a/x", "tree/b/x", "tree/labels/train/a.txt", "file"]


def plant(folder, names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def left_over(home, swapped, adversary):
    """A left-over of a process that died, in a folder into which the adversary may write, is removed."""
    stage = home / ".odm-out-0123456789ab.tmp"
    plant(stage / "tree", ["a/1", "a/2", "b/1", "b/2", "c"])
    adversary.folders = [stage / name for name in swapped]
    with adversary:
        write_single(home / "new.json")


def own_stage(home, swapped, adversary):
    """What was written before a failure is removed."""
    with pytest.raises(KeyError), Output(str(home / "out")) as output:
        for name in ("a/1", "a/2", "b/1", "b/2", "c"):
            output.write(name, b"x")
        (stage,) = home.glob(".odm-*")
        adversary.folders = [stage / name for name in swapped]
        adversary.__enter__()
        raise KeyError
    adversary.__exit__()


@pytest.mark.parametrize(
    "swapped", [["tree/a"], ["tree/b"], ["tree/a", "tree/b"], ["tree"], [""]], ids=",".join
)
@pytest.mark.parametrize("scene", [left_over, own_stage])
def test_no_link_is_followed_while_folders_are_removed(tmp_path, scene, swapped):
    """Whenever a link takes the place of a folder that is being removed, nothing behind it is touched."""
    acted = at = 0
    while True:
        at += 1
        home, victim = tmp_path / f"home{at}", tmp_path / f"victim{at}"
        home.mkdir()
        plant(victim, PRECIOUS)
        before = snapshot(victim)
        adversary = Adversary(at, [], victim)
        scene(home, swapped, adversary)
        assert snapshot(victim) == before, at
        if adversary.count < at:
            break
        acted += 1
    assert acted > 8
    assert not litter(home)  # nobody interfered with the last one


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make what belongs to somebody else")
def test_what_looks_like_a_left_over_of_another_user_stays(tmp_path):
    """The staging folder of somebody else is not for us to remove, whatever we may do as root."""
    theirs, ours = (tmp_path / f".odm-out-0123456789a{c}.tmp" for c in "bc")
    for folder in (theirs, ours):
        plant(folder / "tree", ["a/1", "b/1"])
    os.chown(theirs, 65534, 65534)
    before = snapshot(theirs)
    write_folder(tmp_path / "out")
    assert snapshot(theirs) == before
    assert not ours.exists()


def test_two_outputs_at_once_do_not_disturb_each_other(tmp_path):
    with Output(str(tmp_path / "new" / "a")) as first:
        first.write("x", b"1")
        with Output(str(tmp_path / "new" / "b")) as second:
            second.write("x", b"2")
    assert snapshot(tmp_path / "new") == {"a": None, "a/x": b"1", "b": None, "b/x": b"2"}


def test_a_file_system_without_locks_still_works(tmp_path, monkeypatch):
    import fcntl

    def refuse(*_):
        raise OSError(errno.EBADF, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    write_folder(tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["out"]


def test_a_system_without_syncfs_and_links_still_works(tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "syncfs", lambda: None)

    def refuse(*_):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    write_folder(tmp_path / "out")
    write_single(tmp_path / "out.json")
    assert (tmp_path / "out" / "data.yaml").read_bytes() == content("data.yaml")
    assert (tmp_path / "out.json").read_bytes() == content("file")
    assert not litter(tmp_path)


def test_a_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mount is not permitted")
    try:
        with (
            pytest.raises(PathError, match=r"No space left.*nothing was changed"),
            Output(str(disk / "out")) as output,
        ):
            for i in range(1000):
                output.write(f"{i}.txt", b"x" * 4096)
        with (
            pytest.raises(PathError, match="No space left"),
            Output(str(disk / "a.json"), single=True) as output,
        ):
            output.write("", b"x" * 2**20)
        assert os.listdir(disk) == []
        # A mount point is not replaced: the files go into it.
        output = write_folder(disk)
        assert snapshot(disk)["labels/val/c.txt"] == content("labels/val/c.txt")
        assert len(litter(disk)) + len(litter(tmp_path)) == 0
        assert output.stayed == []
        with pytest.raises(PathError, match="not empty"):
            Output(str(disk))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("has_syncfs", [True, False])
def test_what_was_written_is_durable_before_it_appears_and_its_name_after(
    tmp_path, monkeypatch, single, has_syncfs
):
    calls = []

    class Listening(Faults):
        def step(self, name):
            calls.append(name)

    stand_in(Listening(0, None), monkeypatch.setattr)
    if not has_syncfs:
        monkeypatch.setattr(staging, "syncfs", lambda: None)
    if single:
        write_single(tmp_path / "out")
    else:
        write_folder(tmp_path / "out")
    appears = calls.index("link" if single else "rename")
    if not single and has_syncfs:
        assert "syncfs" in calls[:appears]
        assert "write" not in calls[calls.index("syncfs") : appears]
    else:
        assert calls[:appears].count("fsync") == calls.count("write")
    assert "fsync" in calls[appears:]


# ------------------------------------------------------------------------------------------- the target


def test_a_target_must_be_free_or_said_to_be_overwritten(tmp_path):
    out = tmp_path / "out"
    write_folder(out)
    for dry_run in (False, True):
        with pytest.raises(PathError, match="not empty; use overwrite"):
            write_folder(out, dry_run=dry_run)
    single = tmp_path / "a.json"
    write_single(single)
    with pytest.raises(PathError, match="exists; use overwrite"):
        write_single(single)
    with pytest.raises(PathError, match="not a folder"):
        Output(str(single))
    with pytest.raises(PathError, match="is a folder, not a regular file"):
        Output(str(out), single=True, overwrite=True)
    with pytest.raises(PathError, match="Not a directory"):
        Output(str(single / "inside"))
    for target in ("", "a\0b"):
        with pytest.raises(PathError, match="not a usable target"):
            Output(target)
    with pytest.raises(PathError, match=r"standard output; give a path \(\./-"):
        Output("-", single=True)
    with pytest.raises(PathError, match=r"standard input; give a path"):
        Source("-")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(PathError, match="symbolic links"):
        Output(str(tmp_path / "loop"))
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for target in ("dangling", "dangling/inside"):
        with pytest.raises(PathError, match="broken link"):
            Output(str(tmp_path / target))
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(PathError, match="FIFO"):
        Output(str(tmp_path / "fifo"), single=True, overwrite=True)


def test_an_address_is_no_target(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for target in ("s3://bucket/out.json", "gs://bucket/out", "https://host/out.json"):
        with pytest.raises(PathError, match=r"cannot write to .*://"):
            Output(target)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")
def test_a_target_where_no_file_can_be_is_named():
    with (
        pytest.raises(PathError, match=r"/proc/x: cannot create files in /proc"),
        Output("/proc/x", single=True) as output,
    ):
        output.write("", b"x")
    ends = os.pipe()
    try:
        for single, wanted in ((True, "regular file"), (False, "folder")):
            with pytest.raises(PathError, match=rf"the target is a FIFO, not a {wanted}"):
                Output(f"/proc/self/fd/{ends[1]}", single=single)
    finally:
        for end in ends:
            os.close(end)


def test_missing_parts_of_a_path_do_not_hide_that_the_target_exists(tmp_path):
    (tmp_path / "a.json").write_text("old")
    with pytest.raises(PathError, match="exists"):
        Output(str(tmp_path / "missing" / ".." / "a.json"), single=True)
    assert (tmp_path / "a.json").read_text() == "old"


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path):
    with (
        pytest.raises(PathError, match="in the meantime"),
        Output(str(tmp_path / "a.json"), single=True) as output,
    ):
        output.write("", b"new")
        (tmp_path / "a.json").write_text("of another program")
    assert (tmp_path / "a.json").read_text() == "of another program"
    with pytest.raises(PathError, match="nothing was changed"), Output(str(tmp_path / "out")) as output:
        output.write("x", b"new")
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "y").write_text("of another program")
    assert snapshot(tmp_path / "out") == {"y": b"of another program"}
    assert not litter(tmp_path)


def test_overwriting_keeps_and_names_what_it_does_not_write(tmp_path):
    old_tree(tmp_path)
    (tmp_path / "out" / "labels" / "link").symlink_to(tmp_path)
    output = write_folder(tmp_path / "out", overwrite=True)
    assert output.stayed == ["keep.txt", "labels/link"]
    for name in NAMES:
        assert (tmp_path / "out" / name).read_bytes() == content(name)
    assert (tmp_path / "out" / "keep.txt").read_bytes() == b"old"
    assert not litter(tmp_path)


@pytest.mark.parametrize(
    ("obstacle", "match"),
    [
        ("folder", "in the way, a folder"),
        ("fifo", "in the way, a FIFO"),
        ("file", "not a folder"),
        ("link", "not a folder"),
    ],
)
def test_what_is_in_the_way_is_found_before_the_first_rename(tmp_path, obstacle, match):
    out = tmp_path / "out"
    out.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (out / "data.yaml").write_text("old")
    if obstacle == "folder":
        (out / "labels" / "val" / "c.txt").mkdir(parents=True)
    elif obstacle == "fifo":
        (out / "labels" / "val").mkdir(parents=True)
        os.mkfifo(out / "labels" / "val" / "c.txt")
    elif obstacle == "file":
        (out / "labels").write_text("a file")
    else:
        (out / "labels").symlink_to(outside)
    with pytest.raises(PathError, match=match):
        write_folder(out, overwrite=True)
    with pytest.raises(PathError, match=match):
        write_folder(out, overwrite=True, dry_run=True)
    output = Output(str(out), overwrite=True)  # without a plan it is found too
    with pytest.raises(PathError, match=match), output:
        for name in NAMES:
            output.write(name, b"new")
    assert (out / "data.yaml").read_text() == "old"
    assert os.listdir(outside) == []
    assert not litter(tmp_path)


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    out = tmp_path / "out"
    out.mkdir()
    (out / "data.yaml").symlink_to(victim)
    write_folder(out, overwrite=True)
    assert victim.read_text() == "precious"
    assert (out / "data.yaml").read_bytes() == content("data.yaml")


def test_a_target_that_is_a_link_is_written_where_it_leads(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    write_folder(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "data.yaml").exists()


def test_the_target_has_to_lie_apart_from_the_source(tmp_path, monkeypatch):
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "a.json").write_text("{}")
    (tmp_path / "link").symlink_to(source)
    os.link(source / "a.json", tmp_path / "hard.json")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(source)
    cases = [
        (source, source, False, "is the source"),
        (tmp_path / "link", source, False, "is the source"),
        (source, tmp_path / "link", False, "is the source"),
        (".", source, False, "is the source"),
        (source / "sub" / ".." / ".", source, False, "is the source"),
        (source / "new", source, False, "inside"),
        (tmp_path / "link" / "deep" / "new", source, False, "inside"),
        ("new", source, False, "inside"),
        (tmp_path / "other" / ".." / "source" / "new", tmp_path / "link", False, "inside"),
        (tmp_path, source, False, "contains"),
        ("..", source, False, "contains"),
        (tmp_path / "link" / "..", source / "sub", False, "contains"),
        (source / "a.json", source / "a.json", True, "is the source"),
        (tmp_path / "hard.json", source / "a.json", True, "is the source"),
        (source / "b.json", source, True, "inside"),
        (source, source / "a.json", False, "contains"),
    ]
    before = snapshot(tmp_path)
    for target, from_, single, match in cases:
        for overwrite in (False, True):
            with pytest.raises(PathError, match=match):
                Output(str(target), sources=[str(from_)], single=single, overwrite=overwrite)
    assert snapshot(tmp_path) == before
    Output(str(source / "b.json"), sources=[str(source / "a.json")], single=True)
    Output(str(tmp_path / "source2"), sources=[str(source)])


def test_an_empty_folder_keeps_its_mode_and_the_working_folder_its_place(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(0o2750)
    write_folder(out)
    assert stat.S_IMODE(out.stat().st_mode) == 0o2750
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    inode = here.stat().st_ino
    write_folder(".")
    assert here.stat().st_ino == inode
    assert sorted(os.listdir(".")) == ["data.yaml", "labels"]


def test_modes_follow_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        write_folder(tmp_path / "out")
        write_single(tmp_path / "a.json")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "out" / "data.yaml").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "out" / "labels").stat().st_mode) == 0o750


@pytest.mark.parametrize(
    ("mode", "owner", "then"),
    [(0o600, None, 0o600), (0o6755, None, 0o755), (0o6777, 65534, 0o644), (0o600, 65534, 0o644)],
)
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path, mode, owner, then):
    """Not its set-id bits, and not if it is another user's, which could be planted."""
    target = tmp_path / "a.json"
    target.write_bytes(b"old")
    if owner is not None and os.getuid() != 0:
        pytest.skip("only root can make what belongs to somebody else")
    os.chown(target, -1 if owner is None else owner, -1)
    target.chmod(mode)
    old = os.umask(0o022)
    try:
        write_single(target, overwrite=True)
    finally:
        os.umask(old)
    assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode)) == (content("file"), then)
    assert target.stat().st_uid == os.getuid()


def test_two_that_overwrite_one_folder_do_not_mix(tmp_path):
    """The second is refused while the first lives, and what it would have written is not there."""
    out = tmp_path / "out"
    plant(out, ["mine"])
    with Output(str(out), overwrite=True) as first:
        first.write("a", b"1")
        with pytest.raises(PathError, match="another odm is writing into it"):
            write_folder(out, overwrite=True)
    assert sorted(snapshot(out)) == ["a", "mine"]
    write_folder(out, overwrite=True)
    assert "data.yaml" in snapshot(out)
    assert not litter(tmp_path)


def test_a_marker_that_odm_did_not_write_is_refused(tmp_path):
    plant(tmp_path / "out", ["mine"])
    with (tmp_path / "out" / marking.INCOMPLETE).open("wb") as marker:
        marker.truncate(2**31)  # a hole, which takes no room
    with pytest.raises(PathError, match="more than"):
        write_folder(tmp_path / "out", overwrite=True)


def test_a_dry_run_touches_nothing(tmp_path):
    output = write_folder(tmp_path / "made" / "out", dry_run=True)
    assert output.written == NAMES
    assert os.listdir(tmp_path) == []


def test_an_exception_of_the_caller_cleans_up(tmp_path):
    with pytest.raises(ZeroDivisionError), Output(str(tmp_path / "made" / "deep" / "out")) as output:
        output.write("a/b", b"x")
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []


def test_nothing_written_is_an_empty_folder_and_no_file(tmp_path):
    with Output(str(tmp_path / "out")):
        pass
    with Output(str(tmp_path / "made" / "a.json"), single=True):
        pass
    assert os.listdir(tmp_path) == ["out"]


def test_what_may_not_be_written_to_is_refused_at_once():
    script = """
import os, sys
from odm.files import Output, Source, read_bytes, Unreadable
from odm.issues import Log, PathError
os.setuid(65534)
def refused(text, **options):
    try:
        with Output(text, **options) as output: output.write("" if options.get("single") else "a", b"x")
    except PathError as e:
        print(str(e).replace(top, ""))
    else:
        print("written")
top = sys.argv[1]
refused(top + "/locked/new")
refused(top + "/locked")
refused(top + "/locked/deep/new.json", single=True)
refused(top + "/a.json", single=True, overwrite=True)
refused(top + "/open")
log = Log()
source = Source(top)
print(source.read("secret", log), log.issues[0].message.split(";")[0])
source.report_links(log)
print([i.path.replace(top, "") for i in log])
"""
    if os.getuid() != 0:
        pytest.skip("only root can become somebody else")
    with tempfile.TemporaryDirectory() as top:
        if any(not p.stat().st_mode & stat.S_IXOTH for p in Path(top).resolve().parents):
            pytest.skip("nobody else may enter the temporary folder")
        for name, mode in (("locked", 0o555), ("open", 0o777), ("private", 0o700)):
            os.mkdir(f"{top}/{name}")
            os.chmod(f"{top}/{name}", mode)
        for name, mode in (("a.json", 0o644), ("secret", 0o600)):
            Path(top, name).write_text("{}")
            os.chmod(f"{top}/{name}", mode)
        os.chmod(top, 0o755)
        run = subprocess.run([sys.executable, "-c", script, top], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        lines = run.stdout.splitlines()
        assert lines == [
            "/locked/new: no permission to write into /locked",
            "/locked: no permission to write to the target",
            "/locked/deep/new.json: no permission to write into /locked",
            "/a.json: no permission to write to the target",
            "written",  # though a folder beside it cannot be made: then it is made inside
            "None cannot read the file: Permission denied",
            "['/secret', '/private']",
        ]
        assert os.listdir(f"{top}/open") == ["a"]
        assert not litter(top)


def test_links_and_copies_of_pictures(tmp_path):
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG")
    with Output(str(tmp_path / "out")) as output:
        output.link("images/a.png", str(picture))
        output.copy("images/b.png", str(picture))
        with pytest.raises(PathError, match="refusing"):
            output.link("../c.png", str(picture))
        with pytest.raises(PathError, match="No such file"):
            output.copy("images/d.png", str(tmp_path / "missing.png"))
    assert (tmp_path / "out" / "images" / "a.png").is_symlink()
    assert (tmp_path / "out" / "images" / "a.png").read_bytes() == b"\x89PNG"
    assert (tmp_path / "out" / "images" / "b.png").read_bytes() == b"\x89PNG"
    assert sorted(os.listdir(tmp_path)) == ["a.png", "out"]


@pytest.mark.parametrize(
    "name", ["/etc/x", "../x", "a/../../x", "", ".", "a//b", "C:\\x", "\\x", "a\0b", "a/" * 500 + "b"]
)
def test_no_name_leads_out_of_the_target(tmp_path, name):
    home = tmp_path / "home"
    home.mkdir()
    log = Log()
    output = Output(str(home / "out"))
    assert not output.plan([name], ["image"], log)
    assert [i.code for i in log] == [BAD_NAME.name]
    with pytest.raises(PathError, match="refusing"), output:
        output.write(name, b"x")
    assert os.listdir(home) == []
    assert os.listdir(tmp_path) == ["home"]


def test_a_plan_finds_collisions():
    def codes(*names):
        log = Log()
        ok = Output("out-that-is-not-there", dry_run=True).plan(names, [f"of {n}" for n in names], log)
        assert ok == (log.errors == 0)
        return [i.code for i in log], [i.message for i in log]

    assert codes("a.txt", "b.txt") == ([], [])
    found, (message,) = codes("a.txt", "b.txt", "a.txt")
    assert found == [COLLISION.name]
    assert "'of a.txt' and 'of a.txt' would both be written to 'a.txt'" in message
    assert codes("a.txt", "A.txt")[0] == [CASE_COLLISION.name]
    assert codes("caf\u00e9", "cafe\u0301")[0] == [CASE_COLLISION.name]
    assert codes("a", "a/b", "a/c/d")[0] == [COLLISION.name]
    assert codes("a/b", "a")[0] == [COLLISION.name]


@pytest.mark.parametrize("name", [".a.txt", "a/.b.txt", ".git/a.txt", "a/.b/c.txt", "__MACOSX/a.txt"])
def test_a_plan_refuses_hidden_files_which_no_folder_gives_back(tmp_path, name):
    log = Log()
    assert not Output("out-that-is-not-there", dry_run=True).plan([name], ["the image"], log)
    assert [i.code for i in log] == [HIDDEN_NAME.name]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    assert Source(str(tmp_path)).files == []


# --------------------------------------------------------------------------------------------- the names

GOOD = """a a.jpg 000000000001.jpg train/a.jpg a-b_c.d.e .hidden ..a a.. a...b ...x Ünï.jpg 日本.png a\u00a0b a'b "a%20b" console
auxiliary.txt comedy lpt10 ~ $HOME `id` -rf *""".split() + ["a b.jpg", "x" * 255, "y" * 255 + "/" + "z" * 255]  # fmt: skip
BAD = {
    "empty": ["", " ", "\t"],
    "NUL": ["a\0b"],
    "control": ["a\nb", "a\rb", "a\tb", "\x1b[31m", "a\x7f", "a\u2028b", "a\u2029b", "a\x85b"],
    "surrogate": ["a\ud800b", "\udcff.txt"],
    "absolute": ["/a", "//a", "\\a", "\\\\server\\share", "/"],
    "drive": ["C:", "C:a", "c:\\a", "Z:/a"],
    "URL": ["http://a/b", "file:///etc/passwd", "s3://x"],
    "leads out": ["..", "../a", "a/..", "a/../b", "a\\..\\b", "..\\a"],
    "it has an empty part": ["a//b", "a/", ".", "./a", "a/./b", "a\\\\b"],
    "255": ["x" * 256, "a/" + "x" * 256 + "/b", "é" * 128],
    "4000": ["/".join(["x" * 250] * 17)],
    "parts": ["a/" * 100 + "b"],
}


@pytest.mark.parametrize("name", GOOD)
def test_good_names(name):
    log = Log()
    assert accept_name(name, log, "f")
    assert refuse_name(name) is None
    assert log.errors == 0


@pytest.mark.parametrize(
    ("reason", "name"), [(reason, name) for reason, names in BAD.items() for name in names]
)
def test_bad_names(reason, name):
    log = Log()
    assert not accept_name(name, log, "f.json", line=3)
    (issue,) = log
    assert (issue.code, issue.path, issue.line) == (BAD_NAME.name, "f.json", 3)
    assert reason in issue.message
    assert str(issue).isprintable()


@pytest.mark.parametrize(
    "name",
    "CON con.txt Aux/b a/nul.tar.gz COM1 lpt9.jpg CONIN$ a. a.jpg. b./c a?b a*b a<b a|b".split()
    + ["a ", "x /y", "aux .txt"],
)
def test_names_that_windows_cannot_hold_are_warned_of(name):
    log = Log()
    assert accept_name(name, log, "f")
    assert [i.code for i in log] == [DEVICE_NAME.name]


# --------------------------------------------------------------------------------------------- reading


def test_only_regular_files_are_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("socket")
    Path("folder").mkdir()
    Path("loop").symlink_to("loop")
    Path("dangling").symlink_to("nothing")
    cases = [
        ("fifo", "FIFO"),
        ("socket", "socket"),
        ("folder", "folder"),
        ("/dev/zero", "device"),
        ("/dev/null", "device"),
        ("loop", "symbolic links"),
        ("dangling", "No such file"),
        ("nothing", "No such file"),
        ("a\0b", "NUL"),
        ("", "No such file"),
    ]

    def refuse():
        for path, match in cases:
            for read in (read_bytes, read_head, open_binary):
                with pytest.raises(Unreadable, match=match):
                    read(path)
        for path, match in cases:
            if path != "folder":
                with pytest.raises(PathError, match=match.replace("NUL", "null")):
                    Source(path)

    assert cost(refuse, 100) < 100


def test_what_is_in_a_file_is_read(tmp_path):
    path = tmp_path / "a"
    for size in (0, 1, 4095, 4096, 2**16, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20):
        data = os.urandom(size)
        path.write_bytes(data)
        assert read_bytes(str(path)) == data
        assert read_head(str(path), 100) == data[:100]
        with open_binary(str(path)) as stream:
            assert stream.read() == data
    assert read_bytes(str(path), max_size=size) == data
    with pytest.raises(Unreadable, match="max_size"):
        read_bytes(str(path), max_size=size - 1)


def test_a_file_of_nuls_is_refused_at_once(tmp_path):
    path = tmp_path / "a"
    for size, bad in ((4095, False), (4096, True), (5000, True), (2**34, True)):
        with path.open("wb") as stream:
            stream.truncate(size)
        if not bad:
            assert read_bytes(str(path)) == bytes(size)
            continue

        def refuse():
            with pytest.raises(Unreadable, match="4096 NUL bytes"):
                read_bytes(str(path))

        assert cost(refuse, 50) < 50
    path.write_bytes(bytes(4095) + b"x" + bytes(10))
    assert len(read_bytes(str(path))) == 4106


@pytest.mark.parametrize("size", [0, 10, 5000, 2**20 + 5])
@pytest.mark.parametrize("change", [-1, 1, 100])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch, size, change):
    path = tmp_path / "a"
    path.write_bytes(b"x" * size)
    real = os.fstat

    def fstat(descriptor):
        status = real(descriptor)
        with path.open("ab") as stream:
            stream.truncate(max(0, size + change))
        return status

    monkeypatch.setattr(os, "fstat", fstat)
    if size + change < 0:
        assert read_bytes(str(path)) == b""
    else:
        with pytest.raises(Unreadable, match="changed while being read"):
            read_bytes(str(path))


def test_a_file_system_that_reads_in_pieces(tmp_path, monkeypatch):
    path = tmp_path / "a"
    data = os.urandom(3_000_000)
    path.write_bytes(data)
    real = os.read
    monkeypatch.setattr(os, "read", lambda d, n: real(d, min(n, 65_536)))
    assert read_bytes(str(path)) == data
    assert read_head(str(path), 100_000) == data[:100_000]


def test_descriptors_are_not_leaked(tmp_path):
    (tmp_path / "a").write_bytes(bytes(5000))
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        for path in (str(tmp_path / "a"), str(tmp_path)):
            with pytest.raises(Unreadable):
                read_bytes(path)
        write_folder(tmp_path / "out", overwrite=True)
    assert len(os.listdir("/dev/fd")) == before


def test_a_source_lists_in_code_point_order_and_counts_what_is_hidden(tmp_path):
    for name in (
        "b.txt",
        "a/z.txt",
        "B.TXT",
        "é.txt",
        ".DS_Store",
        "._a.txt",
        "__MACOSX/c.txt",
        ".git/config",
        "a.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    source = Source(str(tmp_path))
    assert source.is_dir
    assert source.files == ["B.TXT", "a.txt", "a/z.txt", "b.txt", "é.txt"]
    assert sorted(source.hidden) == [".DS_Store", "._a.txt", ".git", "__MACOSX"]
    assert source.with_suffix(".txt") == source.files
    assert source.read("a/z.txt", Log()) == b"a/z.txt"
    assert source.head("a/z.txt") == b"a/z.txt"
    assert source.head("missing") == b""
    log = Log()
    assert source.read("missing.txt", log) is None
    assert [i.code for i in log] == [UNREADABLE.name]
    one = Source(str(tmp_path / "b.txt"))
    assert (one.is_dir, one.files, one.with_suffix(".txt")) == (False, [""], [""])
    assert one.read("", log) == b"b.txt"


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("fold/anotations.json", r" \(did you mean 'annotations.json'\?\)$"),
        ("fodl", r" \(did you mean 'fold'\?\)$"),
        ("fold/else.txt", "No such file or directory$"),
        ("not/there/at/all", "No such file or directory$"),
        ("lost", "lost: No such file or directory$"),
    ],
)
def test_a_source_that_is_not_there(path, near, tmp_path, monkeypatch):
    (tmp_path / "fold").mkdir()
    (tmp_path / "fold" / "annotations.json").touch()
    (tmp_path / "lost").symlink_to("nothing")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PathError, match="No such file or directory.*" + near if "mean" in near else near):
        Source(path)


def test_links_inside_a_source(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    source = tmp_path / "source"
    (source / "real").mkdir(parents=True)
    (source / "real" / "a.txt").write_text("a")
    (source / "folder").symlink_to("real")
    (source / "file.txt").symlink_to("real/a.txt")
    (source / "real" / "up").symlink_to("..")
    (source / "self").symlink_to(".")
    (source / "loop.txt").symlink_to("loop.txt")
    (source / "dangling.txt").symlink_to("nothing")
    (source / "out.txt").symlink_to(outside / "secret.txt")
    (source / "out").symlink_to(outside)
    (source / "passwd.txt").symlink_to("/etc/passwd")
    strict = Source(str(source))
    assert strict.files == ["file.txt", "folder/a.txt", "real/a.txt"]
    log = Log()
    strict.report_links(log)
    codes = {os.path.relpath(i.path, source): i.code for i in log}
    assert {k for k, v in codes.items() if v == LEADS_OUTSIDE.name} == {"out.txt", "out", "passwd.txt"}
    assert {k for k, v in codes.items() if v == UNREADABLE.name} >= {
        "self",
        "real/up",
        "loop.txt",
        "dangling.txt",
    }
    free = Source(str(source), follow_links=True)
    assert set(free.files) == {*strict.files, "out.txt", "out/secret.txt", "passwd.txt"}


@pytest.mark.parametrize("n", params([8, 12], [8]))
def test_links_to_each_other_end(tmp_path, n):
    names = [f"d{i}" for i in range(n)]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("")
    for one in names:
        for other in names:
            if one != other:
                (tmp_path / one / f"to_{other}").symlink_to(f"../{other}")
    source = Source(str(tmp_path))
    assert len(source.files) < 5000  # without a bound it would not end at all
    assert any("too many nested links" in reason for _, reason, _ in source.bad_links)


def test_a_tree_deeper_than_the_recursion_limit(tmp_path):
    here = os.open(tmp_path, os.O_RDONLY)
    descriptor = here
    made = []
    try:
        for _ in range(1200):
            os.mkdir("d", dir_fd=descriptor)
            descriptor = os.open("d", os.O_RDONLY, dir_fd=descriptor)
            made.append(descriptor)
        source = Source(str(tmp_path))
        assert source.files == []
    finally:
        for d in made:
            os.close(d)
        os.close(here)
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_file_names_that_no_image_can_have(tmp_path):
    for name in (b"\xff.txt", b"a\nb.txt", b"ok.txt"):
        Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name))).write_bytes(b"x")
    source = Source(str(tmp_path))
    log = Log()
    read = {file: source.read(file, log) for file in source.files}
    assert read["ok.txt"] == b"x"
    assert [v for v in read.values() if v is not None] == [b"x"]
    assert sorted(i.message.split("file name: ")[1].split(";")[0] for i in log) == [
        "it contains a control character",
        "it is not UTF-8",
    ]
    for issue in log:
        assert issue.code == BAD_NAME.name
        assert str(issue).isprintable()


def test_ten_thousand_files_are_read_in_a_moment(tmp_path):
    for i in range(10_000):
        with open(tmp_path / f"{i}.txt", "w") as stream:
            stream.write("0 0.5 0.5 0.1 0.1\n")

    def read_all():
        source, log = Source(str(tmp_path)), Log()
        assert all(source.read(file, log) for file in source.files)

    assert cost(read_all, 60) < 60


def test_the_parent_may_be_one_that_cannot_be_listed(tmp_path, monkeypatch):
    real = os.scandir

    def scandir(path):
        if str(path) == str(tmp_path):
            raise PermissionError(errno.EACCES, "no")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    write_folder(tmp_path / "out")
    assert (tmp_path / "out" / "data.yaml").exists()
