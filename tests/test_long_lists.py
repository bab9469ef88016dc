"""Results lists that are decoded in parts by several processes: the same tables and issues as without that."""

import json
import os
import random

import numpy as np
import pytest

from odm import parallel
from odm.converters import Request, load_pair
from odm.formats.coco import long_lists
from odm.issues import Log

# The machinery of the tests has threads; none of them holds a lock of odm's.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

TRUTH = {
    "images": [{"id": i, "file_name": f"{i}.jpg", "width": 640, "height": 480} for i in range(1, 31)],
    "categories": [{"id": i, "name": f"c{i}"} for i in range(1, 6)],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 9, 9], "iscrowd": 0}],
}


def results(n=400):
    rng = random.Random(n)
    return [
        {"image_id": rng.randint(1, 30), "category_id": rng.randint(1, 5),
         "bbox": [round(rng.uniform(1, 99), 1) for _ in range(4)], "score": round(rng.uniform(0.1, 0.9), 3)}
        for _ in range(n)
    ]  # fmt: skip


def facts(truth, path, **request):
    log = Log()
    try:
        _, loaded = load_pair(Request(path=truth, kind="gt"), Request(path=path, kind="det", **request), log)
    except Exception as e:  # whatever it is, it must be the same
        return type(e), str(e), list(map(str, log))
    boxes, columns = loaded.dataset.boxes, {}
    for name in ("image", "category", "xyxy", "wh", "score", "line", "file", "source_id"):
        column = getattr(boxes, name)
        columns[name] = column.dtype, column.tolist()
    return repr(columns), dict(loaded.dataset.extras), list(map(str, log)), log.notes


@pytest.fixture
def both_ways(tmp_path, monkeypatch):
    """Reads a text alone and with the help of others; whether these could do it."""
    monkeypatch.setattr(long_lists, "LONG", 0)
    monkeypatch.setattr(long_lists, "SLICE", 2**11)
    monkeypatch.setattr(long_lists, "MARGIN", 2**8)
    (tmp_path / "gt.json").write_text(json.dumps(TRUTH))

    def compare(text, **request):
        truth, path = str(tmp_path / "gt.json"), tmp_path / "results.json"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        alone = facts(truth, str(path), **request)
        filled, fill, forked, fork = [], long_lists.LongList.fill, [], os.fork
        with monkeypatch.context() as patch:
            for module in (parallel, long_lists):
                patch.setattr(module, "worker_count", lambda: 2)
            patch.setattr(
                long_lists.LongList, "fill", lambda *given: filled.append(fill(*given)) or filled[-1]
            )
            patch.setattr(os, "fork", lambda: forked.append(fork()) or forked[-1])
            assert facts(truth, str(path), **request) == alone
        assert forked or len(text) < 2 * long_lists.SLICE or filled[-1:] != [True]
        for child in forked:
            with pytest.raises(ChildProcessError):
                os.waitpid(child, 0)
        return filled[-1:] == [True]

    return compare


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n\t", " : ")])
def test_records_are_decoded_by_several(both_ways, separators):
    for n in (1, 2, 30, 61, 400):
        assert both_ways(json.dumps(results(n), separators=separators))
    assert both_ways(" \n" + json.dumps(results()) + " \n")


def rows(change, at=333):
    found = results()
    change(found, at)
    return json.dumps(found)


UNUSUAL = {
    "a text in the first": rows(lambda r, _: r[0].update(score="x")),
    "a text later": rows(lambda r, i: r[i].update(score="x")),
    "an id that is text": rows(lambda r, i: r[i].update(image_id="7")),
    "an id with a point": rows(lambda r, i: r[i].update(image_id=7.0)),
    "no score": rows(lambda r, i: r[i].pop("score")),
    "no box": rows(lambda r, i: r[i].pop("bbox")),
    "three numbers": rows(lambda r, i: r[i].update(bbox=[1, 2, 3])),
    "another key": rows(lambda r, i: r[i].update(note="},{")),
    "a track": rows(lambda r, i: r[i].update(track_id=1)),
    "not a number": rows(lambda r, i: r[i].update(score=float("nan"))),
    "no object": rows(lambda r, i: r.insert(i, 7)),
    "an unknown image": rows(lambda r, i: r[i].update(image_id=99)),
    "a number too large": rows(lambda r, i: r[i].update(image_id=2**70)),
    "a key that stands twice": rows(lambda _, __: None).replace('"score"', '"score": 1, "score"', 1),
    "a list after the list": json.dumps(results()) + json.dumps(results()),
    "cut short": json.dumps(results())[:-9],
    "a comma too many": json.dumps(results())[:-1] + ",]",
    "a byte order mark": b"\xef\xbb\xbf" + json.dumps(results()).encode(),
    "UTF-16": json.dumps(results()).encode("utf-16"),
    "an object": json.dumps({"a": results()}),
    "an empty list": "[" + " " * 9000 + "]",
    "blanks": json.dumps(results())[:-1] + " " * 9000 + "]",
    "no text": "",
    "shorter records at the end": json.dumps(results())[:-1]
    + ',{"image_id":1,"category_id":1,"bbox":[1,1,1,1],"score":1}' * 999 + "]",
}  # fmt: skip


@pytest.mark.parametrize("what", UNUSUAL)
def test_anything_unusual_is_read_as_without_them(both_ways, what):
    assert both_ways(UNUSUAL[what]) == (what in ("no score", "an unknown image"))  # usual so far


@pytest.mark.parametrize(
    "request_", [{"options": {"boxes": "shapes"}}, {"wants": frozenset({"mask"})}, {"own_fields": True}]
)
def test_where_more_than_boxes_is_asked_for_they_are_left_alone(both_ways, request_):
    assert not both_ways(json.dumps(results()), **request_)


def test_a_file_that_changes_is_read_again(both_ways, tmp_path, monkeypatch):
    team, text = parallel.Team.results, json.dumps(results())

    def changed(self):
        found = team(self)
        os.utime(tmp_path / "results.json", ns=(1, 1))
        return found

    monkeypatch.setattr(parallel.Team, "results", changed)
    assert not both_ways(text)


def test_the_numbers_are_exact(both_ways):
    values = np.random.default_rng(0).uniform(0, 1e3, (300, 4)).tolist()
    found = [{"image_id": 1, "category_id": 1, "bbox": box, "score": box[0] / 1e3} for box in values]
    assert both_ways(json.dumps(found))
