"""Work that is shared with copies of the process is the same work."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odm import parallel
from odm.formats._shared import json_columns
from odm.formats._shared.json_columns import Document, Field
from odm.issues import Log

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="copies are made on Linux only"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
FIELDS = (Field("id", "id", required=True), Field("bbox", "numbers", required=True), Field("s", "number"))


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


def test_a_copy_that_nobody_waits_for_is_gone():
    start = time.monotonic()
    with parallel.Worker(lambda: time.sleep(60)):
        pass
    assert time.monotonic() - start < 30
    assert no_children()


def test_a_copy_that_is_stopped_is_not_waited_for():
    start = time.monotonic()
    with parallel.Worker(lambda: os.kill(os.getpid(), signal.SIGSTOP)) as copy:
        assert copy.result() is None
    assert time.monotonic() - start < 30
    assert no_children()


def test_a_copy_that_takes_far_too_long_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(parallel, "PATIENCE", (0.3, 1.0))
    start = time.monotonic()
    with parallel.Worker(lambda: time.sleep(60)) as copy:
        assert copy.result() is None
    assert time.monotonic() - start < 30
    assert no_children()


def test_the_work_of_a_copy_that_is_stopped_is_done(monkeypatch):
    monkeypatch.setattr(parallel, "worker_count", lambda: 2)
    parent = os.getpid()

    def work(item):
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.05)
        return item * item

    assert parallel.in_order(work, range(10)) == [n * n for n in range(10)]
    assert no_children()


def spare_in(tmp_path, monkeypatch, files):
    """What is left to a process where the system's files say this."""
    for name, text in files.items():
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    read = parallel._text
    monkeypatch.setattr(parallel, "_text", lambda path: read(str(tmp_path) + path))
    return parallel._spare()


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
    monkeypatch.setattr(parallel, "_spare", lambda: 2.0**30)
    assert parallel.worker_count() == 2
    monkeypatch.setattr(parallel, "_spare", lambda: 2.0**30 - 1)
    assert parallel.worker_count() == 1


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core makes no copies")
def test_no_copy_in_a_small_address_space():
    code = """
import odm.parallel, resource
odm.parallel.allow()
print(odm.parallel.worker_count())
resource.setrlimit(resource.RLIMIT_AS, (420 * 2**20,) * 2)
print(odm.parallel.worker_count())
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
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
    assert parallel.in_order(lambda n: n * n, range(10)) == [n * n for n in range(10)]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10])
def test_in_order(n, monkeypatch):
    monkeypatch.setattr(parallel, "worker_count", lambda: 3)
    assert parallel.in_order(lambda i: (i, os.getpid()) if i < 0 else i * i, range(n)) == [
        i * i for i in range(n)
    ]
    with pytest.raises(ZeroDivisionError):
        parallel.in_order(lambda i: 1 // (9 - i), range(10))
    assert no_children()


def test_a_program_that_imports_odm_is_not_copied():
    code = "import odm, odm.parallel; print(odm.parallel.worker_count()); odm.parallel.allow(); print(odm.parallel.worker_count())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
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
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=50, check=True
    )
    assert run.stdout == "alone\n"


# ------------------------------------------------------------------------------------------- lists of records

RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.one_of(st.integers(0, 9), st.sampled_from([1.0, "a", True, None])),
            "bbox": st.one_of(st.just([1, 2.5, 3, 4]), st.sampled_from([[1, 2, 3], None, "}, {", [[1]]])),
        },
        optional={"s": st.floats(0, 1), "note": st.sampled_from(["}, {", "]", {"a": {}}, [{}, {}], ":"])},
    ),
    max_size=30,
)


def plain(record):
    """A record with the fields alone, numbers as floats; a slice decides whether it comes typed or not."""
    if not isinstance(record, dict):
        return record
    row = {}
    for field in FIELDS:
        value = record.get(field.key)
        if type(value) in (int, float):
            value = float(value)
        elif isinstance(value, list):
            value = [float(v) if type(v) is int else v for v in value]
        if value is not None and str(value) != "nan":
            row[field.key] = value
    return row


def chunks_of(text, **options):
    """Every record and issue of a text."""
    log = Log()
    records = []
    try:
        document = Document(json_columns.load(text, log, "x"), log, "x", slice_size=40, **options)
        for key, _ in document.members():
            n = 0
            for chunk in document.records(FIELDS):
                assert chunk.start == n
                n += chunk.n
                columns = chunk.columns.items()
                found = chunk.records
                if found is None:
                    found = [{k: np.asarray(c)[i].tolist() for k, c in columns} for i in range(chunk.n)]
                records += [(key, plain(record)) for record in found]
    except json_columns.Broken:
        records = []  # how far it was read is of no use to anybody
    return repr(records), [str(issue) for issue in log.issues]


@settings(deadline=None)
@given(first=RECORDS, second=RECORDS, cut=st.integers(0, 10**6), blanks=st.booleans())
def test_shared_lists_are_read_alike(first, second, cut, blanks):
    text = json.dumps({"one": first, "two": second}, indent=1 if blanks else None).encode()
    if cut % 4 == 0:
        text = text[: cut % (len(text) + 1)]
    alone = chunks_of(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_columns, "worker_count", lambda: 3)
        assert chunks_of(text, worth_sharing=60) == alone
    assert no_children()


def test_the_copies_do_their_share(monkeypatch):
    monkeypatch.setattr(json_columns, "worker_count", lambda: 3)
    results = []
    result = parallel.Worker.result
    monkeypatch.setattr(parallel.Worker, "result", lambda copy: results.append(result(copy)) or results[-1])
    text = json.dumps({"one": [{"id": i, "bbox": [i, 1, 2, 3]} for i in range(300)], "two": []}).encode()
    document = Document(text, Log(), "x", slice_size=100)
    chunks = [chunk for _ in document.members() for chunk in document.records(FIELDS)]
    assert results == []  # too little to be worth it
    document = Document(text, Log(), "x", slice_size=100, worth_sharing=100)
    shared = [chunk for _ in document.members() for chunk in document.records(FIELDS)]
    assert [bool(r) for r in results] == [True, True]
    for found in (chunks, shared):
        assert np.concatenate([chunk.columns["id"] for chunk in found]).tolist() == list(range(300))


@pytest.mark.parametrize("location", [0, 10, 150, 298])
def test_a_place_in_a_share_is_one_in_the_list(location, monkeypatch):
    monkeypatch.setattr(json_columns, "worker_count", lambda: 3)
    records = [{"id": i, "bbox": [i, 1, 2, 3]} for i in range(300)]
    records[location]["id"] = float(location)
    text = json.dumps({"one": records}).encode()
    for worth_sharing in (100, 10**9):
        document = Document(text, Log(), "x", slice_size=100, worth_sharing=worth_sharing)
        chunks = [chunk for _ in document.members() for chunk in document.records(FIELDS)]
        assert [chunk.written_float for chunk in chunks if chunk.written_float] == [{"id": location}]
