"""The memory of an evaluation in parts stays within what is given, and within what is printed."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
import pyarrow.parquet as pq  # noqa: E402 -- only where it is there

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc"),
]
N_IMAGES, PER_IMAGE, GROUP = 24_000, 100, 200_000


@pytest.fixture(scope="module", params=[1, 40], ids=["one class", "40 classes"])
def home(request, tmp_path_factory):
    """Two objects in each of many images, and 2.4 million detections, two of them near the objects."""
    home, n_classes, rng = tmp_path_factory.mktemp("memory"), request.param, np.random.default_rng(0)
    names = [f"image-{i:06d}.jpg" for i in range(N_IMAGES)]
    corner = rng.integers(0, 400, (N_IMAGES, 2, 2))
    category = rng.integers(0, n_classes, (N_IMAGES, 2))
    (home / "gt.json").write_text(
        json.dumps(
            {
                "images": [
                    {"id": i, "file_name": name, "width": 640, "height": 480} for i, name in enumerate(names)
                ],
                "categories": [{"id": k, "name": f"class {k}"} for k in range(n_classes)],
                "annotations": [
                    {"id": 2 * i + j + 1, "image_id": i, "category_id": int(category[i, j]), "iscrowd": 0,
                     "bbox": [*corner[i, j].tolist(), 60, 50], "area": 3000}
                    for i in range(N_IMAGES) for j in range(2)
                ],
            }
        )
    )  # fmt: skip
    image = np.repeat(np.arange(N_IMAGES), PER_IMAGE)
    box = rng.integers(0, 400, (len(image), 2))
    kinds = rng.integers(0, n_classes, len(image))
    near = np.arange(len(image)) % PER_IMAGE < 2
    box[near], kinds[near] = corner.reshape(-1, 2) + rng.integers(0, 9, (2 * N_IMAGES, 2)), category.ravel()
    columns = {
        "image": pa.DictionaryArray.from_arrays(pa.array(image.astype(np.int32)), names),
        "class": pa.DictionaryArray.from_arrays(
            pa.array(kinds.astype(np.int32)), [f"class {k}" for k in range(n_classes)]
        ),
        "score": rng.random(len(image)).astype(np.float32),
        **{name: box[:, k] for k, name in enumerate(("left", "top"))},
        **{name: np.full(len(image), size) for name, size in (("box_width", 60), ("box_height", 50))},
    }
    pq.write_table(pa.table(columns), home / "det.parquet", row_group_size=GROUP, write_page_checksum=True)
    return home


def peak_of(pid):
    """The most memory that a process has had, in bytes; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmHWM"))


def odm_eval(home, *options):
    """What the command prints, its messages, and its peak memory."""
    command = [sys.executable, "-m", "odm", "eval", "gt.json", "det.parquet", "--protocol", "coco"]
    process = subprocess.Popen(
        [*command, "--output", "json", *options],
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    peak = 0

    def watch():
        nonlocal peak
        while process.poll() is None:
            peak = max(peak, peak_of(process.pid))
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, messages = process.communicate()
    watcher.join()
    assert process.returncode == 0, messages
    return json.loads(out)["results"], messages, peak


def printed(text):
    """Bytes in a message such as ``about 460 MB``."""
    number, unit = re.search(r"([0-9.]+) ([MG])B", text).groups()
    return float(number) * {"M": 1e6, "G": 1e9}[unit]


def test_inline(home):
    whole, _, much = odm_eval(home)
    parts, messages, peak = odm_eval(home, "--memory", "500MB", "--scratch", str(home / "scratch"))
    assert parts == whole
    (line,) = [line for line in messages.splitlines() if "are read in" in line]
    assert peak < printed(line) <= 5e8
    assert peak < much, "the same as in one process, so that this test shows nothing"
    assert not list((home / "scratch").iterdir())


def test_workers(home):
    distributed = pytest.importorskip("distributed", reason="a cluster needs Dask")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options, silence_logs=50) as cluster:
        where = ["--cluster", cluster.scheduler_address, "--scratch", str(home / "scratch")]
        parts, messages, peak = odm_eval(home, *where, "--rows-per-task", "400000")
        peaks = [peak_of(worker.pid) for worker in cluster.workers.values()]
    assert parts == odm_eval(home)[0]
    (line,) = [line for line in messages.splitlines() if "are read in" in line]
    worker, own = line.split(", this process")
    assert max(peaks) < printed(worker)
    assert peak < printed(own)
