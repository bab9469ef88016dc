"""Hostile input of a megabyte is answered soon and in bounded memory, in every format."""

import random
import re
import subprocess
import sys

import pytest

from odm.formats import FORMATS

SIZE = 10**6
MEMORY = 300
"""MiB of one process, as promised."""
SECONDS = 4
"""Of the processor's time, for which 2 are promised: it counts double where others use the same core."""


def noise(seed):
    return random.Random(seed).randbytes(SIZE)


def times(head, piece, tail=b"", sep=b""):
    """`piece` as often as a megabyte holds it."""
    n = SIZE // (len(piece) + len(sep))
    return head + sep.join([piece] * n) + tail


def numbered(head, piece, tail=b"", sep=b""):
    """`piece`, with a running number in it."""
    return head + sep.join(piece % i for i in range(SIZE // (len(piece) + 4))) + tail


JSON = {
    "noise": noise(2),
    "brackets": b"[" * SIZE,
    "objects": b'{"a":' * (SIZE // 5),
    "empty-objects": times(b"[", b"{}", b"]", b","),
    "numbers": times(b"[", b"1", b"]", b","),
    "string": times(b'["', b"\\u0041", b'"]'),
    "keys": numbered(b"{", b'"k%d":{}', b"}", b","),
    "one-key": times(b"{", b'"a":1', b"}", b","),
}
LINES = {
    "noise": noise(1),
    "one-line": b"x " + b"1 " * (SIZE // 2),
    "blank-lines": b"\n" * SIZE,
    "bad-lines": times(b"", b"a b c d e\n"),
    "numbers": times(b"", b"0\n"),
    "commas": b"," * SIZE,
    "names": times(b"", b"a.jpg\n"),
}
TABLE = {
    "noise": noise(3),
    "columns": b"a," * (SIZE // 2) + b"\n",
    "equal-columns": times(b"", b"null,"),
    "rows": times(b"", b"a.jpg,b,c,1,2,q,4\n"),
    "quotes": times(b"", b'"a,'),
    "blank-lines": b"\n" * SIZE,
}
XML = {
    "noise": noise(4),
    "depth": b"<annotation>" * (SIZE // 12),
    "attributes": numbered(b"<annotation ", b'a%d="" ', b"/>"),
    "bomb": b'<!DOCTYPE a [<!ENTITY b "' + b"x" * (SIZE // 2) + b'">]><annotation>' + b"&b;" * (SIZE // 6) + b"</annotation>",
}  # fmt: skip
KINDS = {".json": JSON, ".txt": LINES, ".csv": TABLE, ".xml": XML}
OWN = {
    "automl": {"far": times(b"", b"TRAIN,a.jpg,x,9,9,,,9,9,,\n")},
    "bdd100k": {"labels": times(b'[{"name":"a","labels":[', b"{}", b"]}]", b",")},
    "coco": {
        "keys-twice": times(b'{"images":[],"annotations":[],"categories":[', b'{"id":1,"id":1,"name":"x"}', b"]}", b","),
        "bbox": times(b'[{"image_id": 1, "category_id": 1, "score": 1, "bbox": [', b"1", b"]}]", b","),
        "annotations": times(
            b'{"images":[],"categories":[],"annotations":[',
            b'{"id":1,"image_id":1,"category_id":1,"bbox":[1,2,3]}',
            b"]}",
            b",",
        ),
    },
    "createml": {"annotations": times(b'[{"image":"a","annotations":[', b"{}", b"]}]", b",")},
    "csv": {
        "open-quote": b'image,class,left,top,right,bottom\n"a' + b",x,1,2,3,4\n" * (SIZE // 11),
        "bad-rows": times(b"image,class,left,top,right,bottom\n", b"a,x,1,2,3,q\n"),
    },
    "cvat": {
        "images": times(b"<annotations>", b'<image name="a" width="9" height="9"><box xtl="1"/></image>', b"</annotations>"),
        "tracks": times(b"<annotations>", b'<track label="x"><box frame="0" xtl="1"/></track>', b"</annotations>"),
    },
    "dota": {"rows": times(b"", b"1 1 2 1 2 2 1 q x 0\n")},
    "fiftyone": {"labels": numbered(b'{"classes":[],"labels":{', b'"%d":[{"label":1}]', b"}}", b",")},
    "kitti": {"rows": times(b"", b"Car 0 0 0 1 2 q 4 1 1 1 1 1 1 1\n")},
    "labelme": {"shapes": times(b'{"imagePath":"a.jpg","shapes":[', b"{}", b"]}", b",")},
    "labelstudio": {
        "tasks": times(b"[", b'{"data":{"image":"a"}}', b"]", b","),
        "results": times(b'[{"data":{"image":"a"},"annotations":[{"result":[', b"{}", b"]}]}]", b","),
    },
    "lvis": {
        "images": times(b'{"annotations":[],"categories":[],"images":[', b'{"id":1}', b"]}", b","),
        "absent": times(
            b'{"annotations":[],"categories":[],"images":[{"id":1,"width":9,"height":9,"neg_category_ids":[', b"1", b"]}]}", b","
        ),
    },
    "mot": {
        "frames": numbered(b"", b"%d,1,1,1,1,1,1,1,1\n"),
        "a-late-frame": times(b"", b"2000000000,1,1,1,1,1,1,1,1\n"),
    },
    "supervisely": {"objects": times(b'{"size":{"width":9,"height":9},"objects":[', b"{}", b"]}", b",")},
    "txt": {"long-class": b"c" * SIZE + b" 1 2 3 4\n"},
    "via": {"regions": times(b'{"a1":{"filename":"a","size":1,"regions":[', b"{}", b"]}}", b",")},
    "visdrone": {"classes": times(b"", b"1,1,1,1,1,99,0,0\n")},
    "voc": {"objects": times(b"<annotation>", b"<object><name>x</name></object>", b"</annotation>")},
    "vott": {"inverted": times(b'"image","xmin","ymin","xmax","ymax","label"\n', b'"a",5,2,1,4,"x"\n')},
    "wheat": {"images": numbered(b"image_id,width,height,bbox,source\n", b'%d,9,9,"[1,2,3]",x\n')},
    "widerface": {"images": times(b"", b"a.jpg\n0\n0 0 0 0 0 0 0 0 0 0\n")},
    "yolo": {"far": times(b"", b"0 5 5 1 1\n")},
}  # fmt: skip

# The peak of this program alone: that of the process would count what its parent had when it was started.
SCRIPT = """
import re, sys, time
from odm.cli import _app
for path in sys.argv[2:]:
    begin = time.process_time()
    code = _app.run(["validate", "--quiet", path, "--format", sys.argv[1]])
    peak = re.search(r"VmHWM:\\s*([0-9]+) kB", open("/proc/self/status").read())[1]
    sys.stderr.write(f"measured: {path} {code} {time.process_time() - begin} {peak}\\n")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize("name", FORMATS)
def test_a_megabyte_is_answered(tmp_path, name):
    """All inputs in one process, so the peak of the memory is that of the worst of them."""
    suffix = FORMATS[name].suffixes[0]
    inputs = KINDS[suffix] | OWN.get(name, {})
    for key, data in inputs.items():
        (tmp_path / (key + suffix)).write_bytes(data)
    paths = [str(tmp_path / (key + suffix)) for key in inputs]
    command = [sys.executable, "-c", SCRIPT, name, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    measured = re.findall(r"measured: (.+) (\d+) ([0-9.e-]+) (\d+)\n", done.stderr)
    assert [path for path, *_ in measured] == paths
    for path, code, seconds, peak in measured:
        assert code in "01", (path, code)
        assert float(seconds) < SECONDS, (path, seconds)
        assert int(peak) / 1024 < MEMORY, (path, peak)
