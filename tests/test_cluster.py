"""Evaluation in parts on a Dask cluster of this machine, whose workers are killed at every stage."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor

import numpy as np
import pytest
from selection import slow

from odm import write
from odm.evaluate import evaluate
from odm.evaluate.parts.cluster import _watch_workers, open_dask_executor, run_tasks
from odm.issues import Log, PathError
from odm.sharding import evaluate_shards
from odm.tables import Dataset

pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
distributed = pytest.importorskip("distributed", reason="a cluster needs Dask")
import pyarrow.parquet as pq  # noqa: E402 -- only where it is there

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(os.name != "posix", reason="workers are killed by a signal"),
]
PROTOCOLS = ["coco", "voc2012"]


def new_cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    return distributed.LocalCluster(**options, silence_logs=50)


@pytest.fixture(scope="module")
def cluster():
    with new_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Ground truth, a folder of detections whose images lie in several files, and the JSON of one process."""
    home = tmp_path_factory.mktemp("cluster")
    rng = np.random.default_rng(1)
    n_images, n_gt, n_det = 30, 100, 900
    names, classes = [f"{i}.jpg" for i in range(n_images)], ["a", "b", "c"]
    image, category = rng.integers(0, n_images, n_gt), rng.integers(0, 3, n_gt)
    boxes = np.c_[rng.uniform(0, 300, (n_gt, 2)), rng.uniform(20, 90, (n_gt, 2))]
    truth = Dataset.from_arrays(
        images=names, categories=classes, image=image, category=category, ltwh=boxes,
        width=[640] * n_images, height=[480] * n_images, image_ids=list(range(n_images)),
    )  # fmt: skip
    of = rng.integers(0, n_gt, n_det)
    found = boxes[of] + np.c_[rng.normal(0, 5, (n_det, 2)), np.zeros((n_det, 2))]
    score = np.round(rng.random(n_det), 2)
    (home / "det").mkdir()
    for k in range(6):
        own = slice(k * 150, (k + 1) * 150)
        columns = {
            "image": [names[i] for i in image[of][own]],
            "class": [classes[c] for c in category[of][own]],
        }
        columns["score"] = score[own]
        columns |= {name: found[own, j] for j, name in enumerate(("left", "top", "box_width", "box_height"))}
        pq.write_table(pa.table(columns), home / "det" / f"{k}.parquet", write_page_checksum=True)
    write(truth, str(home / "gt.json"), "coco")
    whole = Dataset.from_arrays(
        images=names, categories=classes, image=image[of], category=category[of], ltwh=found, score=score
    )
    return truth, home, numbers(evaluate(truth, whole, PROTOCOLS))


def numbers(evaluation):
    return json.dumps([result.to_dict() for result in evaluation.results])


class Killing(Executor):
    """Kills a worker of the cluster just after the first task of a stage was handed over."""

    def __init__(self, inner, cluster, kills):
        self.inner, self.cluster, self.kills = inner, cluster, dict(kills)
        self.killed = []

    def submit(self, fn, /, *args, **kwargs):
        future = self.inner.submit(fn, *args, **kwargs)
        worker = self.kills.pop(fn.__name__, None)
        if worker is not None:
            while not (pids := sorted(w.pid for w in self.cluster.workers.values() if w.pid)):
                time.sleep(0.1)  # those that were killed before are being started again
            pid = pids[worker % len(pids)]
            os.kill(pid, signal.SIGKILL)
            self.killed.append(pid)
        return future


@pytest.mark.parametrize(
    "kills",
    [
        {},
        {"survey": 0},
        {"match_part": 0},
        {"match_cut": 1},
        {"count_bucket": 0},
        {"count_down_to_scores": 1},
        pytest.param({"condense_range": 0, "count_ranges": 1}, marks=slow),
        {"match_part": 0, "count_bucket": 1},
    ],
    ids=lambda kills: "+".join(kills) or "none",
)
def test_a_worker_that_is_killed_changes_no_bit(cluster, data, tmp_path, kills):
    truth, home, expected = data
    with distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=600)
        with client.get_executor(pure=False, retries=2) as executor:
            killing = Killing(executor, cluster, kills)
            evaluation = evaluate_shards(
                truth,
                str(home / "det"),
                PROTOCOLS,
                executor=killing,
                scratch=str(tmp_path),
                rows_per_task=150 if "count_ranges" in kills else 300,
            )
    assert numbers(evaluation) == expected
    assert len(killing.killed) == len(kills)
    assert os.listdir(tmp_path) == []


def test_a_bad_part_is_named_and_not_retried_for_ever(cluster, data, tmp_path):
    truth, home, _ = data
    (tmp_path / "det").mkdir()
    for path in sorted((home / "det").iterdir()):
        whole = path.read_bytes()
        (tmp_path / "det" / path.name).write_bytes(
            whole[:-9] if path.name in ("1.parquet", "4.parquet") else whole
        )
    log = Log()
    with (
        distributed.Client(cluster, set_as_default=False) as client,
        client.get_executor(pure=False) as executor,
        pytest.raises(Exception, match="2 of 6 parts"),
    ):
        evaluate_shards(truth, str(tmp_path / "det"), executor=executor, scratch=str(tmp_path / "s"), log=log)
    assert [os.path.basename(issue.path) for issue in log if issue.severity == "error"] == [
        "1.parquet",
        "4.parquet",
    ]


@slow
def test_a_task_that_ends_every_worker_is_given_up():
    with (
        new_cluster() as own,  # Dask does not always start a worker again that has ended so often
        pytest.raises(PathError, match=r"one task ended \d workers, most likely for lack of memory: give"),
        open_dask_executor(own.scheduler_address, lambda _: None) as executor,
    ):
        list(run_tasks(executor, os._exit, [(1,)]))


@slow
def test_a_scheduler_that_goes_away_is_named(tmp_path):
    begin, where = [sys.executable, "-m"], tmp_path / "scheduler.json"
    options = ["--port", "0", "--no-dashboard", "--scheduler-file", str(where)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    scheduler = subprocess.Popen([*begin, "distributed.cli.dask_scheduler", *options], **quiet)
    worker = None
    try:
        while not where.exists() or not where.read_text():
            time.sleep(0.1)
        address = json.loads(where.read_text())["address"]
        worker = subprocess.Popen(
            [*begin, "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1"], **quiet
        )
        with distributed.Client(address, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=600)
        threading.Timer(1, scheduler.kill).start()
        with (
            pytest.raises(PathError, match="the scheduler is gone"),
            open_dask_executor(address, lambda _: None) as executor,
        ):
            list(run_tasks(executor, time.sleep, [(300,)]))
    finally:
        for process in (scheduler, worker):
            if process is not None:
                process.kill()
                process.wait()


def test_a_cluster_without_workers_is_told_once():
    told, answers = [], iter([["w"], [], [], ["w"], []])
    done = threading.Event()

    class Client:
        def scheduler_info(self, n_workers):
            del n_workers
            workers = next(answers, None)
            if workers is None:
                raise OSError("closed")
            return {"workers": workers}

    _watch_workers(Client(), "tcp://host:1", told.append, done, interval=0.001)
    assert [text.split(";")[0] for text in told] == ["tcp://host:1: no workers are left"] * 2


def test_the_command_prints_the_same_bytes_for_relative_paths_that_no_worker_knows(cluster, data, tmp_path):
    _, home, expected = data
    sizes = "image,width,height\n" + "".join(f"{i}.jpg,640,480\n" for i in range(30))
    (home / "sizes.csv").write_text(sizes)
    command = [
        sys.executable,
        "-m",
        "odm",
        "eval",
        "gt.json",
        "det",
        "--merge-runs",
        "--output",
        "json",
        "--quiet",
    ]
    for protocol in PROTOCOLS:
        command += ["--protocol", protocol]

    def run(*words):
        words = [*command, "--det-image-sizes", "sizes.csv", *words]
        return subprocess.run(words, check=True, capture_output=True, encoding="utf-8", cwd=home)

    whole = run()
    assert json.dumps(json.loads(whole.stdout)["results"]) == expected
    command.remove("--quiet")
    done = run("--cluster", cluster.scheduler_address, "--scratch", str(tmp_path))
    assert done.stdout == whole.stdout
    assert "2 workers at tcp://" in done.stderr
    assert "dashboard" in done.stderr


@pytest.mark.parametrize(
    ("address", "says"),
    [("tcp://127.0.0.1:9", "127.0.0.1:9"), ("tls://127.0.0.1:9", "tls:// needs certificates")],
)
def test_no_scheduler_and_no_cluster(data, tmp_path, address, says):
    _, home, _ = data
    command = [sys.executable, "-m", "odm", "eval", str(home / "gt.json"), str(home / "det")]
    done = subprocess.run(
        [*command, "--cluster", address, "--scratch", str(tmp_path)],
        check=False,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 3
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
