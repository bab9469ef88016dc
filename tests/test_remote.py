"""Sources on S3, from a server on this machine; and nothing is fetched that the user did not name."""

import json
import os
import shutil
import subprocess
import sys
import types
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("pyarrow.fs", reason="object stores need pyarrow")
moto = pytest.importorskip(
    "moto.server", reason="the local S3 server is moto: pip install 'moto[server]' boto3"
)
boto3 = pytest.importorskip("boto3", reason="the local S3 server is filled with boto3")

pytestmark = pytest.mark.filterwarnings("ignore")
MIXED = Path(__file__).resolve().parent.parent / "fixtures" / "mixed"


@pytest.fixture(scope="module")
def store():
    """The environment of a server with the bucket ``data``."""
    server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
    url = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    client.create_bucket(Bucket="data")
    client.upload_file(str(MIXED / "coco" / "input.json"), "data", "gt/instances.json")
    for name in ("a.parquet", ".hidden.parquet"):
        client.upload_file(str(MIXED / "parquet-detections" / "input.parquet"), "data", f"det/{name}")
    cut = (MIXED / "parquet-detections" / "input.parquet").read_bytes()[:-30]
    client.put_object(Bucket="data", Key="bad/b.parquet", Body=cut)
    yield {
        **os.environ,
        **keys,
        "AWS_ENDPOINT_URL": url,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_COLOR": "1",
    }
    server.stop()


def odm(*words, env):
    return subprocess.run(
        [sys.executable, "-m", "odm", *map(str, words)],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=600,  # of a store that never answers
        env=env,
    )


def test_evaluating_a_bucket_gives_the_numbers_of_the_disk(store):
    here = odm(
        "eval", MIXED / "coco", MIXED / "parquet-detections" / "input.parquet", "--output", "json", env=store
    )
    there = [
        odm(
            "eval",
            "s3://data/gt/instances.json",
            "s3://data/det/",
            "--output",
            "json",
            "-v",
            *more,
            env=store,
        )
        for more in ([], ["--memory", "1GB"])
    ]
    for done in there:
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["results"] == json.loads(here.stdout)["results"]
        assert "1 hidden file" in done.stderr


def test_what_is_not_there_or_damaged_is_named(store):
    done = odm("stats", "s3://data/nothing", env=store)
    assert (done.returncode, "s3://data/nothing: there is no such file or folder" in done.stderr) == (3, True)
    done = odm("stats", "s3://data/bad/b.parquet", env=store)
    assert done.returncode == 1
    assert "s3://data/bad/b.parquet: error unreadable-file" in done.stderr + done.stdout
    done = odm("eval", "s3://data/gt/instances.json", "s3://data/bad", "--memory", "1GB", env=store)
    assert (done.returncode, "1 of 1 part" in done.stderr) == (1, True), done.stderr


def keys(store):
    client = boto3.client("s3", endpoint_url=store["AWS_ENDPOINT_URL"], region_name="us-east-1",
                          aws_access_key_id="a", aws_secret_access_key="b")  # fmt: skip
    return sorted(one["Key"] for one in client.list_objects_v2(Bucket="data")["Contents"])


@pytest.mark.slow
def test_scratch_in_a_bucket(store):
    sides, before = ("s3://data/gt/instances.json", "s3://data/det/", "--output", "json"), keys(store)
    whole = odm("eval", *sides, env=store)
    parts = odm("eval", *sides, "--memory", "1GB", "--scratch", "s3://data/tmp", env=store)
    assert (parts.returncode, parts.stdout) == (0, whole.stdout), parts.stderr
    assert not [key for key in keys(store) if "odm-scratch" in key]
    bad = odm("eval", "s3://data/gt/instances.json", "s3://data/bad", "--memory", "1GB",
              "--scratch", "s3://data/tmp", env=store)  # fmt: skip
    assert bad.returncode == 1
    assert [key for key in keys(store) if key not in (*before, "tmp/")] == []


@pytest.mark.slow
def test_a_scratch_that_cannot_be_used_is_refused_before_anything_is_read(store):
    sides = "s3://data/not-there.json", "s3://data/not-there/", "--memory", "1GB", "--scratch"
    done = odm("eval", *sides, "s3://no-such-bucket/tmp", env=store)
    assert done.returncode == 3
    assert "odm: error: s3://no-such-bucket/tmp" in done.stderr
    assert "check the address, the network and the credentials (AWS_PROFILE" in done.stderr
    done = odm("eval", *sides, "hdfs://host/tmp", env=store)
    assert (done.returncode, "hdfs:// is not read" in done.stderr) == (2, True)


def test_addresses_that_cannot_be_listed_are_refused(store):
    done = odm("stats", "https://example.com/a.json", env=store)
    assert (done.returncode, "https:// is not read" in done.stderr) == (2, True)


@pytest.fixture(scope="module")
def google():
    """An address of the bucket ``data`` of a server on this machine, and what every address there ends with."""
    emulator = pytest.importorskip(
        "gcp_storage_emulator.server", reason="the local server of gs:// is gcp-storage-emulator"
    )
    server = emulator.create_server("127.0.0.1", 0, in_memory=True, default_bucket="data")
    server.start()
    port = server._api._httpd.server_address[1]
    for name, path in (
        ("gt%2Finstances.json", MIXED / "coco" / "input.json"),
        ("det%2Fa.parquet", MIXED / "parquet-detections" / "input.parquet"),
        ("det%2Fb.parquet", MIXED / "parquet-detections" / "input.parquet"),
    ):
        where = f"http://127.0.0.1:{port}/upload/storage/v1/b/data/o?uploadType=media&name={name}"
        kind = {"Content-Type": "application/octet-stream"}
        urllib.request.urlopen(urllib.request.Request(where, path.read_bytes(), kind, method="POST")).close()
    yield "gs://anonymous@data", f"?endpoint_override=127.0.0.1:{port}&scheme=http&retry_limit_seconds=3"
    server.stop()


@pytest.mark.slow
def test_google_storage_gives_the_numbers_of_the_disk(google, tmp_path):
    bucket, query = google
    (tmp_path / "det").mkdir()
    for name in ("a.parquet", "b.parquet"):
        shutil.copy(MIXED / "parquet-detections" / "input.parquet", tmp_path / "det" / name)
    words = "eval", "--merge-runs", "--output", "json"
    here = odm(*words, MIXED / "coco", tmp_path / "det", env=None)
    sides = f"{bucket}/gt/instances.json{query}", f"{bucket}/det{query}"
    there = [
        odm(*words, *sides, *more, env=None)
        for more in ([], ["--memory", "1GB", "--scratch", f"{bucket}/tmp{query}"])
    ]
    for done in there:
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["results"] == json.loads(here.stdout)["results"]
    missing = odm("stats", f"{bucket}/nothing{query}", env=None)
    assert (missing.returncode, "there is no such file or folder" in missing.stderr) == (3, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("gs://anonymous@b/x?endpoint_override=127.0.0.1:9&scheme=http&retry_limit_seconds=1", "GOOGLE_APPLICATION"),
        ("gs://b/x?endpoint_override=127.0.0.1:9&scheme=http&retry_limit_seconds=1", "GOOGLE_APPLICATION"),
        ("s3://b/x?endpoint_override=127.0.0.1:9&scheme=http", "AWS_PROFILE"),
        ("abfss://b@account.invalid/x", "AZURE_CLIENT_ID"),
        ("abfss://b@account.dfs.core.windows.net", "AZURE_CLIENT_ID"),
        ("abfs://account:a2V5@127.0.0.1:9/b/x", "AZURE_CLIENT_ID"),
        ("abfss://b/x", "valid account name"),
    ],
)  # fmt: skip
def test_a_store_that_does_not_answer_is_named_and_not_waited_for(address, says):
    done = odm("stats", address, env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"})
    assert done.returncode == 3, done.stderr
    shown = address.split("?")[0].replace("account:a2V5", "***")
    assert f"odm: error: {shown}" in done.stderr
    assert says in done.stderr


def test_googles_own_limit_of_a_quarter_of_an_hour_is_not_kept(monkeypatch):
    from pyarrow import fs

    from odm.files import stores

    asked = []
    system = types.SimpleNamespace(from_uri=lambda uri: asked.append(uri) or (None, ""))
    monkeypatch.setattr(fs, "FileSystem", system)
    stores.connect("gs://one/x")
    stores.connect("gs://one/x?retry_limit_seconds=99")
    assert asked == ["gs://one/x?retry_limit_seconds=15", "gs://one/x?retry_limit_seconds=99"]
    stores.connect.cache_clear()
