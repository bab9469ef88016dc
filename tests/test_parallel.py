"""Work that is shared with copies of the process is the same work."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from odm import parallel

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="copies are made on Linux only"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

ONE_THREAD = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
"""As the command line sets it, before NumPy is imported."""


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """As if the threads of the tests' own machinery were not there; none of them holds a lock of odm's."""
    monkeypatch.setattr(parallel, "_thread_count", lambda: 1)


def no_children():
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    return True


def test_arrays_and_values_come_back():
    big = np.arange(1000.0).reshape(10, 100)
    with parallel.Worker(lambda: (big * 2, ["a", None], np.zeros(0))) as copy:
        doubled, values, none = copy.result()
    assert np.array_equal(doubled, big * 2)
    assert (values, len(none)) == (["a", None], 0)
    doubled[0, 0] = 5  # it is the caller's own
    assert no_children()


@pytest.mark.parametrize(
    "work",
    [
        lambda: 1 // 0,
        lambda: bytearray(2**62),  # more than there is memory for
        lambda: lambda: 0,  # cannot be pickled
        lambda: sys.exit(0),
        lambda: os.kill(os.getpid(), signal.SIGKILL),
        lambda: os.kill(os.getpid(), signal.SIGINT),
    ],
)
def test_what_a_copy_cannot_do_is_none(work, capfd):
    with parallel.Worker(work) as copy:
        assert copy.result() is None
    assert no_children()
    assert capfd.readouterr() == ("", "")


def test_a_copy_that_nobody_waits_for_is_gone(tmp_path):
    with parallel.Worker(lambda: (time.sleep(30), (tmp_path / "waited for").touch())):
        pass
    assert no_children()
    assert not list(tmp_path.iterdir())


def test_a_copy_that_is_stopped_is_not_waited_for():
    with parallel.Worker(lambda: os.kill(os.getpid(), signal.SIGSTOP)) as copy:
        assert copy.result() is None
    assert no_children()


def test_a_copy_that_takes_far_too_long_is_not_waited_for(monkeypatch, tmp_path):
    monkeypatch.setattr(parallel, "PATIENCE", (0.3, 1.0))
    with parallel.Worker(lambda: (time.sleep(30), (tmp_path / "waited for").touch())) as copy:
        assert copy.result() is None
    assert no_children()
    assert not list(tmp_path.iterdir())


def test_the_work_of_a_copy_that_is_stopped_is_done(monkeypatch):
    monkeypatch.setattr(parallel, "worker_count", lambda: 2)
    parent = os.getpid()

    def work(item):
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.05)
        return item * item

    assert parallel.map_in_order(work, range(10)) == [n * n for n in range(10)]
    assert no_children()


@pytest.mark.parametrize("n_workers", [1, 3])
def test_threads_keep_the_order_and_tell_of_errors(monkeypatch, n_workers):
    monkeypatch.setattr(parallel, "worker_count", lambda: n_workers)
    used = set()

    n_threads = threading.active_count()

    def work(item):
        used.add(threading.get_ident())
        time.sleep(0.01)
        return 6 // item

    assert parallel.map_by_threads(work, [1, 2, 3, 6, 1]) == [6, 3, 2, 1, 6]
    assert len(used) == n_workers
    assert parallel.map_by_threads(work, []) == []
    with pytest.raises(ZeroDivisionError):
        parallel.map_by_threads(work, [1, 2, 0, 3, 6])
    assert threading.active_count() == n_threads


def spare_in(tmp_path, monkeypatch, files):
    """What is left to a process where the system's files say this."""
    for name, text in files.items():
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    read = parallel._read_text
    monkeypatch.setattr(parallel, "_read_text", lambda path: read(str(tmp_path) + path))
    return parallel._count_free_bytes()


def test_memory_that_is_left(tmp_path, monkeypatch):
    groups = "/sys/fs/cgroup"
    version_1 = {
        "/proc/self/cgroup": "4:memory:/a/b\n3:cpu:/\n",
        f"{groups}/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
        f"{groups}/memory/a/memory.usage_in_bytes": "5\n",
        f"{groups}/memory/a/b/memory.limit_in_bytes": "1000\n",
        f"{groups}/memory/a/b/memory.usage_in_bytes": "400\n",
        f"{groups}/memory/a/b/memory.stat": "cache 200\ntotal_inactive_file 50\n",
    }
    assert spare_in(tmp_path / "1", monkeypatch, version_1) == 650
    monkeypatch.undo()
    version_2 = {
        "/proc/self/cgroup": "0::/a/b\n",
        f"{groups}/a/memory.max": "700\n",
        f"{groups}/a/memory.current": "600\n",
        f"{groups}/a/b/memory.max": "max\n",
        f"{groups}/a/b/memory.current": "400\n",
    }
    assert spare_in(tmp_path / "2", monkeypatch, version_2) == 100
    monkeypatch.undo()
    assert spare_in(tmp_path / "3", monkeypatch, {"/proc/meminfo": "MemAvailable:  3 kB\n"}) == 3072
    monkeypatch.undo()
    assert spare_in(tmp_path / "4", monkeypatch, {}) == float("inf")


def test_no_copy_where_memory_is_short(monkeypatch):
    monkeypatch.setattr(parallel, "_allowed", True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(parallel, "_count_free_bytes", lambda: 2.0**30)
    assert parallel.worker_count() == 2
    monkeypatch.setattr(parallel, "_thread_count", lambda: 2)
    assert parallel.worker_count() == 1
    monkeypatch.setattr(parallel, "_thread_count", lambda: 1)
    monkeypatch.setattr(parallel, "_count_free_bytes", lambda: 2.0**30 - 1)
    assert parallel.worker_count() == 1


def test_threads_of_libraries_count_too():
    """Python itself warns of a fork beside threads, and some programs turn warnings into errors."""
    code = """
import _thread, threading, odm.parallel
odm.parallel.allow()
odm.parallel.map_in_order(abs, range(4))
lock = _thread.allocate_lock()
lock.acquire()
_thread.start_new_thread(lock.acquire, ())
print(threading.active_count(), odm.parallel.worker_count(), odm.parallel._thread_count())
odm.parallel.map_in_order(abs, range(4))
"""
    words = [sys.executable, "-W", "error", "-c", code]
    run = subprocess.run(words, capture_output=True, text=True, check=False, env=ONE_THREAD)
    assert (run.stdout.split(), run.stderr) == (["1", "1", "2"], "")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core makes no copies")
def test_no_copy_in_a_small_address_space():
    code = """
import odm.parallel, resource
odm.parallel.allow()
print(odm.parallel.worker_count())
resource.setrlimit(resource.RLIMIT_AS, (420 * 2**20,) * 2)
print(odm.parallel.worker_count())
"""
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ONE_THREAD
    ).stdout
    assert out.split() == [str(min(len(os.sched_getaffinity(0)), parallel.MOST)), "1"]


def test_the_system_kills_a_copy_first():
    def own():
        with open("/proc/self/oom_score_adj", encoding="ascii") as file:
            return int(file.read())

    before = own()
    with parallel.Worker(own) as copy:
        assert copy.result() == 1000
    assert own() == before


def test_no_copy_can_be_made(monkeypatch):
    def fail():
        raise OSError

    monkeypatch.setattr(os, "fork", fail)
    with parallel.Worker(lambda: 1) as copy:
        assert copy.result() is None
    monkeypatch.setattr(parallel, "worker_count", lambda: 3)
    assert parallel.map_in_order(lambda n: n * n, range(10)) == [n * n for n in range(10)]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10])
def test_in_order(n, monkeypatch):
    monkeypatch.setattr(parallel, "worker_count", lambda: 3)
    assert parallel.map_in_order(lambda i: (i, os.getpid()) if i < 0 else i * i, range(n)) == [
        i * i for i in range(n)
    ]
    with pytest.raises(ZeroDivisionError):
        parallel.map_in_order(lambda i: 1 // (9 - i), range(10))
    assert no_children()


def test_a_program_that_imports_odm_is_not_copied():
    code = "import odm, odm.parallel; print(odm.parallel.worker_count()); odm.parallel.allow(); print(odm.parallel.worker_count())"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ONE_THREAD
    ).stdout
    assert out.split() == ["1", str(min(len(os.sched_getaffinity(0)), parallel.MOST))]


def test_ctrl_c_ends_the_copies_too(tmp_path):
    code = """
import os, signal, threading, time
from odm.parallel import Worker
def work():
    open("begun", "w").close()
    time.sleep(60)
try:
    with Worker(work) as copy:
        while not os.path.exists("begun"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        copy.result()
except KeyboardInterrupt:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        print("alone")
"""
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True
    )
    assert run.stdout == "alone\n"
