"""What docs/stability.md promises is there: nothing that was recorded vanishes or changes its meaning."""

import copy

import pytest
import write_contract

RECORDED = write_contract.recorded()
HOW = "python tests/write_contract.py records it"


@pytest.fixture(scope="module")
def current():
    return write_contract.contract()


def test_nothing_that_was_promised_is_gone(current):
    gone = list(write_contract.lost(RECORDED, current))
    assert not gone, "\n".join(["a user may rely on this (docs/stability.md):", *gone])


def test_what_is_new_is_recorded(current):
    new = list(write_contract.added(RECORDED, current))
    assert not new, f"{len(new)} new names are not recorded yet, the first is {new[0]!r}: {HOW}"


REMOVED = [
    ("commands", "eval", "options", "--fail-under"),
    ("commands", "eval", "options", "--extra-images", "background"),
    ("commands", "eval", "sides with options of formats", "gt"),
    ("formats", "yolo", "options", "classes"),
    ("formats", "voc", "keeps", "difficult"),
    ("protocols", "coco"),
    ("codes", "inverted-box"),
    ("python", "odm", "convert", "parameters", "overwrite"),
    ("python", "odm", "Dataset", "members", "from_arrays", "parameters", "score"),
    ("python", "odm.evaluate.analysis.tide", "tide"),
    ("python", "odm.tables", "Flag", "members", "CROWD"),
    ("json", "eval", "results", "[coco]", "summary", "AP50"),
    ("json", "eval", "results", "[stt]", "summary", "mAP"),
    ("json", "eval", "results", "[coco]", "analysis", "tide", "Miss", "dap"),
    ("json", "validate", "issues", "[]", "pointer"),
    ("json", "compare", "deltas", "[AP]", "p_holm"),
    ("csv", "eval --save", "detections.csv", "reason"),
    ("csv", "compare --save", "images.csv"),
]


@pytest.mark.parametrize("path", REMOVED, ids=" > ".join)
def test_what_vanishes_is_noticed(path):
    less = copy.deepcopy(RECORDED)
    inner = less
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    assert list(write_contract.lost(RECORDED, less)) == [" > ".join(path) + ": gone"]
    assert not list(write_contract.lost(less, RECORDED)), "an addition is no loss"
    assert next(write_contract.added(less, RECORDED)) == " > ".join(path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("codes", "tiny-box"), "error"),
        (("python", "odm", "read", "required"), "path format"),
        (("python", "odm", "read", "parameters", "path"), "position 1"),
        (("json", "eval", "results", "[coco]", "summary", "AP"), "str"),
        (("python", "odm.issues", "DataError", "exit code"), 3),
    ],
    ids=str,
)
def test_what_changes_its_meaning_is_noticed(path, value):
    other = copy.deepcopy(RECORDED)
    inner = other
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    (line,) = write_contract.lost(RECORDED, other)
    assert line.startswith(" > ".join(path) + ": was ")
