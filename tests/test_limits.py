"""Hostile input of a megabyte is answered soon and in bounded memory, each in a process of its own."""

import random
import re
import subprocess
import sys
import time

import pytest

SIZE = 10**6
MEMORY = 300
"""MiB of one process, as promised."""
PATIENCE = 20
"""Seconds: ten times what is promised, for a machine that does other things as well."""


def noise(seed):
    return random.Random(seed).randbytes(SIZE)


INPUTS = {
    "noise.txt": noise(1),
    "noise.json": noise(2),
    "noise.csv": noise(3),
    "noise.xml": noise(4),
    "one-line.txt": b"x " + b"1 " * (SIZE // 2),
    "blank-lines.txt": b"\n" * SIZE,
    "bad-lines.txt": b"a b c d e\n" * (SIZE // 10),
    "long-class.txt": b"c" * SIZE + b" 1 2 3 4\n",
    "brackets.json": b"[" * SIZE,
    "objects.json": b'{"a":' * (SIZE // 5),
    "keys.json": b'{"images":[],"annotations":[],"categories":[' + b'{"id":1,"id":1,"name":"x"},' * (SIZE // 27) + b"]}",
    "string.json": b'[{"image_id": "' + b"\\u0041" * (SIZE // 6) + b'"}]',
    "numbers.json": b'[{"image_id": 1, "category_id": 1, "score": 1, "bbox": [' + b"1," * (SIZE // 2) + b"1]}]",
    "open-quote.csv": b'image,class,left,top,right,bottom\n"a' + b",x,1,2,3,4\n" * (SIZE // 11),
    "columns.csv": b"a," * (SIZE // 2) + b"\n",
    "rows.csv": b"image,class,left,top,right,bottom\n" + b"a,x,1,2,3,q\n" * (SIZE // 12),
    "depth.xml": b"<annotation>" * (SIZE // 12),
    "attributes.xml": b"<annotation " + b"".join(b'a%d="" ' % i for i in range(SIZE // 12)) + b"/>",
    "bomb.xml": b'<!DOCTYPE a [<!ENTITY b "' + b"x" * (SIZE // 2) + b'">]><annotation>' + b"&b;" * (SIZE // 6) + b"</annotation>",
    "objects.xml": b"<annotation>" + b"<object><name>x</name></object>" * (SIZE // 31) + b"</annotation>",
}  # fmt: skip


# The peak of this program alone: that of the process would count what its parent had when it was started.
SCRIPT = """
import sys
from odm.cli import _app
code = _app.run(sys.argv[1:])
sys.stderr.write(open("/proc/self/status").read())
sys.exit(code)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize("name", INPUTS)
def test_a_megabyte_is_answered(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(INPUTS[name])
    suffix = name.rsplit(".", 1)[1]
    format_ = {"txt": "txt", "json": "coco", "csv": "csv", "xml": "voc"}[suffix]
    command = [sys.executable, "-c", SCRIPT, "validate", "--quiet", str(path), "--format", format_]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - start < PATIENCE
    assert int(re.findall(r"VmHWM:\s*([0-9]+) kB", done.stderr)[-1]) / 1024 < MEMORY
