"""Credentials in addresses are never shown, and a store that does not answer is given up, without a server."""

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import types
from collections import defaultdict

import pytest

from odm.cli import _app
from odm.converters.load import Request
from odm.files import Unreadable, conceal, open_source, reveal, stores
from odm.issues import Log, PathError

pa = pytest.importorskip("pyarrow", reason="object stores need pyarrow")
fs = pytest.importorskip("pyarrow.fs", reason="object stores need pyarrow")

ADDRESSES = [
    ("s3://KEYID:SEC@bucket/gt.json", "s3://***@bucket/gt.json"),
    ("S3://KEYID:SE/C+R:ET@bucket/a@b.json", "S3://***@b.json"),  # not encoded as it should be
    ("abfs://account:SEC@127.0.0.1:9/b/x?account_key=SEC2&x=y", "abfs://***@127.0.0.1:9/b/x?account_key=***&x=y"),
    ("hdfs://user:SEC@host/x", "hdfs://***@host/x"),
    ("abfss://c@a/x?client_secret=SEC&sig=SEC3", "abfss://c@a/x?client_secret=***&sig=***"),
    ("s3://bucket/a:b@c/x.json?region=eu", "s3://bucket/a:b@c/x.json?region=eu"),
    ("gs://anonymous@bucket/x", "gs://anonymous@bucket/x"),
    ("photos/a:b@c.jpg", "photos/a:b@c.jpg"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    monkeypatch.setattr(stores, "_waited", defaultdict(float))
    stores.connect.cache_clear()


@pytest.mark.parametrize(("address", "shown"), ADDRESSES)
def test_credentials_are_concealed_and_known_again(address, shown, monkeypatch):
    monkeypatch.setattr(stores, "_hidden", {})
    hidden = conceal(address)
    assert hidden.replace("***2", "***") == shown
    assert reveal(hidden) == address
    assert conceal(hidden) == hidden
    request = Request(path=address)
    assert request.path == hidden
    sent = pickle.dumps(request)
    stores._hidden.clear()  # another process
    assert reveal(pickle.loads(sent).path) == address


@pytest.mark.parametrize("words", [
    ["stats", "{}"], ["validate", "{}"], ["convert", "{}", "out", "--to", "coco"], ["convert", "a.json", "{}"],
    ["eval", "a.json", "{}", "--memory", "1GB", "--scratch", "{}"], ["formats", "{}"], ["stats", "--{}"],
])  # fmt: skip
@pytest.mark.parametrize("address", [address for address, _ in ADDRESSES[:5]])
def test_credentials_are_never_printed(words, address, monkeypatch, capfd):
    def refuse(uri):
        raise OSError(f"Cannot parse URI: '{uri}'")

    monkeypatch.setattr(fs, "FileSystem", types.SimpleNamespace(from_uri=refuse))
    monkeypatch.setattr(stores, "_hidden", {})
    conceal("abfss://c@a/x?client_secret=SEC")  # of an earlier call, and part of others
    assert _app.run([word.format(address) for word in words])
    shown = "".join(capfd.readouterr())
    assert "SE" not in shown.replace("SRC", "").replace("USE", "").replace("SET", ""), shown
    assert "KEYID" not in shown


def served(monkeypatch, files, **more):
    """A store with these files."""

    def info(what):
        if isinstance(what, str):
            return fs.FileInfo(what, fs.FileType.File, size=len(files[what]))
        return [fs.FileInfo(name, fs.FileType.File, size=len(data)) for name, data in files.items()]

    def opened(path):
        return pa.BufferReader(files[path])

    system = types.SimpleNamespace(get_file_info=info, open_input_file=opened, **more)
    factory = types.SimpleNamespace(from_uri=lambda uri: (system, uri.partition("://")[2]))
    monkeypatch.setattr(fs, "FileSystem", factory)
    return system


def test_the_limit_of_the_size_holds_for_what_is_opened_in_parts(monkeypatch):
    served(monkeypatch, {"b/x.parquet": b"x" * 100})
    source = open_source("s3://b/x.parquet", max_size=99)
    with pytest.raises(Unreadable, match="it has 100 bytes, more than the limit of 99"):
        source.open()
    log = Log()
    assert source.read("", log) is None
    assert "more than the limit of 99" in str(log.issues[0])
    assert open_source("s3://b/x.parquet", max_size=100).read("", log) == b"x" * 100


def test_a_file_that_is_cut_is_named(monkeypatch):
    system = served(monkeypatch, {"b/x.json": b"x" * 100})
    short = pa.BufferReader(b"x" * 50)
    system.open_input_file = lambda _: types.SimpleNamespace(
        size=lambda: 100, read=short.read, seek=short.seek, tell=short.tell, close=short.close
    )
    log = Log()
    assert open_source("s3://b/x.json").read("", log) is None
    assert "it is truncated" in str(log.issues[0])


@pytest.mark.parametrize("slow", ["from_uri", "get_file_info", "open_input_file"])
def test_a_store_that_does_not_answer_is_given_up_once(monkeypatch, slow, capfd):
    """However often it is asked: what follows the first wait is refused at once."""
    monkeypatch.setattr(stores, "PATIENCE", 0.2)
    monkeypatch.setattr(stores.ask, "__kwdefaults__", {"patience": 0.2})
    system = served(monkeypatch, {"b/x.json": b"{}"})
    asked, over = [], threading.Event()

    def silent(*_):
        asked.append(slow)
        over.wait()

    setattr(fs.FileSystem if slow == "from_uri" else system, slow, silent)
    assert _app.run(["stats", "s3://b/x.json"]) == 3
    assert "the store does not answer" in capfd.readouterr().err
    assert len(asked) == 1
    with pytest.raises(PathError, match="does not answer"):
        stores.ask("s3://b/other", silent)
    assert len(asked) == 1
    over.set()


STUCK = """
import ctypes, sys
from odm.files import end_soon
end_soon()
print("ready", flush=True)
ctypes.CDLL(None).sleep(60)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("stuck", ["store", "library"])
def test_a_signal_ends_a_command_that_waits(number, stuck):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"s3://a:b@b/x.json?scheme=http&endpoint_override=127.0.0.1:{server.getsockname()[1]}"
        words = ["-m", "odm", "stats", address] if stuck == "store" else ["-c", STUCK]
        process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if stuck == "store":
            server.accept()[0].recv(1)
        else:
            process.stdout.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=600)
    assert process.returncode in (128 + number, -number), err
    assert b"does not answer" not in err


TIDY = """
import signal, sys, time
def tidy(*_):
    time.sleep(0.5)
    print("tidied", flush=True)
    sys.exit(7)
signal.signal(int(sys.argv[1]), tidy)
from odm.files import end_soon
end_soon()
print("ready", flush=True)
while True: time.sleep(0.01)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_reaches_python_leaves_the_end_to_its_handler(number):
    words = [sys.executable, "-c", TIDY, str(int(number))]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert (*process.communicate(timeout=600), process.returncode) == (b"tidied\n", b"", 7)


@pytest.mark.parametrize("way", ["open", "read", "peek"])
def test_a_file_of_a_store_is_closed_after_each_way_to_read_it(way, monkeypatch):
    system = served(monkeypatch, {"b/x.json": b"{}"})
    streams, opened = [], system.open_input_file
    system.open_input_file = lambda path: streams.append(opened(path)) or streams[-1]
    source = open_source("s3://b/x.json")
    if way == "open":
        stream = source.open()
        assert [s.closed for s in streams] == [False]
        stream.close()
        stream.close()
    else:
        assert (source.read("", Log()) if way == "read" else source.peek()) == b"{}"
    assert streams
    assert all(s.closed for s in streams)
