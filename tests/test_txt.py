"""Plain text: the grammar, the decisions that are taken aloud, and the illustrated example."""

import contextlib
import functools
import re
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import one_format
import pytest
from corpus_base import lay as put
from hypothesis import HealthCheck, example, given, settings
from selection import examples

import odm
from odm.files import Source
from odm.formats import FORMATS, detect, make_options, txt
from odm.issues import DataError, Log, UsageError
from odm.tables import Builder, Dataset

TXT = FORMATS["txt"]
ILLUSTRATED = Path(__file__).resolve().parent.parent / "fixtures" / "illustrated"


def read_both(truth, detections):
    """Two sides of an evaluation, which decide together what their numbers mean, and one log."""
    log, sources = Log(), [Source(str(path)) for path in (truth, detections)]
    both = TXT.decide_together(*sources, log, make_options(TXT, {}))
    data = []
    for source, kind, options in zip(sources, ("gt", "det"), both, strict=True):
        builder = Builder()
        builder.kind = kind
        TXT.read(source, builder, log, options)
        data.append(builder.build())
    return *data, without_doubt(log)


def without_doubt(log):
    """The log without the doubt about the four numbers, which most of these few boxes raise."""
    log.counts.pop("box-layout-guessed", None)
    log.issues = [issue for issue in log.issues if issue.code != "box-layout-guessed"]
    return log


def read(path, kind=None, **options):
    data, log = one_format.read(path, "txt", kind, **options)
    return data, without_doubt(log)


write = functools.partial(one_format.write, name="txt")


def rows(data):
    boxes = data.boxes
    return [
        (
            data.images.name[boxes.image[i]],
            data.categories.name[boxes.category[i]],
            None if np.isnan(boxes.score[i]) else float(boxes.score[i]),
            *boxes.xyxy[i].tolist(),
            int(boxes.line[i]),
        )
        for i in range(len(boxes))
    ]


def codes(log):
    return sorted(log.counts.elements())


# ------------------------------------------------------------------------------------------- the grammar


@pytest.mark.parametrize(
    ("line", "name", "score", "box"),
    [
        ("person 1 2 3 4", "person", None, (1, 2, 3, 4)),
        ("traffic light 1 2 3 4", "traffic light", None, (1, 2, 3, 4)),
        ("a  b\tc 1 2 3 4", "a  b\tc", None, None),  # a tab inside a name is a control character
        ("person .88 1 2 3 4", "person", 0.88, (1, 2, 3, 4)),
        ("traffic light 1e-3 1 2 3 4", "traffic light", 1e-3, (1, 2, 3, 4)),
        ("route 66 .5 1 2 3 4", "route 66", 0.5, (1, 2, 3, 4)),
        ("  person\t1   2 3\t4  \t", "person", None, (1, 2, 3, 4)),
        ("person +1 -2.5 3e0 4.", "person", None, (1, -2.5, 3, 4)),
        ("1.0 1 2 3 4", "1.0", None, (1, 2, 3, 4)),
        ("007 1 2 3 4", "007", None, (1, 2, 3, 4)),
        ("null 1 2 3 4", "null", None, (1, 2, 3, 4)),
        ("3d scan 1 2 3 4", "3d scan", None, (1, 2, 3, 4)),
        ("scan 3d 1 2 3 4", "scan 3d", None, (1, 2, 3, 4)),
        ("- 1 2 3 4", "-", None, (1, 2, 3, 4)),
        ("under_score 1 2 3 4", "under_score", None, (1, 2, 3, 4)),
        ("straße 1 2 3 4", "straße", None, (1, 2, 3, 4)),
        ("no\u00a0break 1 2 3 4", "no\u00a0break", None, (1, 2, 3, 4)),
        ("6'' nail 1 2 3 4", "6'' nail", None, (1, 2, 3, 4)),
    ],
)
def test_lines(tmp_path, line, name, score, box):
    data, log = read(put(tmp_path, {"a.txt": f"{line}\n"}), box="ltrb", coords="abs")
    if box is None:
        assert codes(log) == ["bad-class-name"]
    else:
        assert [str(i) for i in log] == []
        assert rows(data) == [("a", name, score, *box, 1)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n", " \t\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_and_byte_order_marks(tmp_path, end, bom, last):
    text = bom + end.join(["person 1 2 3 4", "", "dog 5 6 7 8"]) + (end if last else "")
    data, log = read(put(tmp_path, {"a.txt": text, "b.txt": text}), coords="abs")
    assert not log.counts
    expected = [("person", None, 1, 2, 3, 4, 1), ("dog", None, 5, 6, 7, 8, 3)]
    assert rows(data) == [(name, *row) for name in "ab" for row in expected]


def test_empty_files_are_images_and_other_files_are_not(tmp_path):
    files = {
        "b.txt": "",
        "a.txt": "x 1 2 3 4",
        "classes.txt": "x\n",
        "README.txt": "?",
        "deep/er/c.v2.txt": " \n",
    }
    data, log = read(put(tmp_path, files))
    assert data.images.name == ("a", "b", "deep/er/c.v2")
    assert not log.counts
    assert any("README.txt" in note and "classes.txt" in note for note in log.notes)


def test_one_file_is_one_image(tmp_path):
    put(tmp_path, {"a.v1.txt": "x 1 2 3 4"})
    data, _ = read(tmp_path / "a.v1.txt")
    assert rows(data) == [("a.v1", "x", None, 1, 2, 3, 4, 1)]


def test_all_faults_are_found_in_one_run_at_their_place(tmp_path):
    lines = [
        ("person .9 1 2 3 4", None),
        ("person .9 1 2 3 4 5", "2:8 wrong-count"),
        ("person .9 1 two 3 4", "3:13 not-a-number"),
        ("person 1.5 1 2 3 4", "4:8 score-out-of-range"),
        ("straße 1 2 3 nan", "5:14 not-finite"),
        ("person 1 2 3 4", "6 score-missing"),
        ("'person' .9 1 2 3 4", "7:1 bad-class-name"),
        ("", None),
        ("per\x1bson .9 1 2 3 4", "9:1 bad-class-name"),
        ("1 2 3", "10:1 wrong-count"),
        ("person .9 1 2 3 0x4", "11:17 not-a-number"),
    ]
    put(tmp_path, {"a.txt": "\n".join(line for line, _ in lines), "b.txt": "person .9 1 2 3 4\n" * 9})
    data, log = read(tmp_path)
    found = {f"{i.line}{f':{i.column}' if i.column else ''} {i.code}" for i in log}
    assert found == {location for _, location in lines if location}
    assert data.skipped == len(found)
    assert len(data) == 10
    assert all(i.path.endswith("a.txt") for i in log)


def test_a_million_bad_lines_are_counted(tmp_path):
    data, log = read(put(tmp_path, {"a.txt": "x 1 2 3\n" * 50_000 + "x 2 1 2 3 4\n" * 50_000}), kind="gt")
    assert log.counts == {"wrong-count": 100_000}
    assert len(log.issues) == 100
    assert data.skipped == 100_000


def test_separators(tmp_path):
    text = "route 66 , .5,1,\t2,3,4\nx,,1,2,3,4\n,.5,1,2,3,4\n\ny,.5,1,2,3,\nz,.1,.2,1,2,3,4\n"
    data, log = read(put(tmp_path, {"a.txt": text}), sep="comma", kind="det")
    assert rows(data) == [("a", "route 66", 0.5, 1, 2, 3, 4, 1)]
    places = sorted((i.line, i.column, i.code) for i in log)
    assert places == [
        (2, 3, "not-a-number"),
        (3, 1, "bad-class-name"),
        (5, 12, "not-a-number"),
        (6, 1, "wrong-count"),
    ]


@pytest.mark.parametrize("sep", ["x", "1", ".", "-", "a,", "\x07"])
def test_separators_that_cannot_be(sep):
    with pytest.raises(UsageError):
        make_options(TXT, {"sep": sep})


def test_classes_give_numbers_their_names(tmp_path):
    put(
        tmp_path,
        {"in/a.txt": "1 1 2 3 4\n0.0 1 2 3 4\ncat 1 2 3 4\n", "names.txt": "\ufeffdog\r\ntraffic light\r\n"},
    )
    data, log = read(tmp_path / "in", classes=str(tmp_path / "names.txt"))
    assert not log.counts
    assert data.categories.name == ("dog", "traffic light", "cat")
    assert [row[1] for row in rows(data)] == ["traffic light", "dog", "cat"]


def test_a_class_list_among_the_labels_is_no_image(tmp_path):
    put(tmp_path, {"a.txt": "0 1 2 3 4", "my_list.txt": "dog\n"})
    data, log = read(tmp_path, classes=str(tmp_path / "my_list.txt"))
    assert data.images.name == ("a",)
    assert not log.counts


def test_numbers_as_names_are_said(tmp_path):
    data, log = read(put(tmp_path, {"a.txt": "10 1 2 3 4\n9 1 2 3 4\n"}))
    assert data.categories.name == ("9", "10")
    assert data.categories.source_id.tolist() == [9, 10]
    assert not data.categories.named
    assert any("only numbers" in note for note in log.notes)
    data, _ = read(put(tmp_path, {"a.txt": "10 1 2 3 4\n007 1 2 3 4\n"}))
    assert data.categories.named
    assert data.categories.name == ("10", "007")


# ------------------------------------------------------------------------------------- what numbers mean


def folder_of(tmp_path, boxes, name="in", start=""):
    return put(tmp_path / name, {"a.txt": "".join(f"x {start}{b}\n" for b in boxes)})


@pytest.mark.parametrize(
    ("good", "inverted", "expected"),
    [
        (10, 0, "ltrb"),
        (1, 0, "ltrb"),
        (57, 3, "ltwh"),
        (58, 3, None),
        (2, 2, None),
        (0, 1, "ltwh"),
        (0, 2, "ltwh"),
        (2, 3, "ltwh"),
        (100, 1, None),
        (1000, 49, None),
        (931, 49, "ltwh"),
    ],
)
def test_ltrb_or_ltwh(tmp_path, good, inverted, expected):
    folder = folder_of(tmp_path, ["10 20 30 40"] * good + ["50 60 30 40"] * inverted)
    data, log = read(folder)
    if expected is None:
        (issue,) = log
        assert issue.code == "box-layout-unclear"
        assert issue.line == good + 1
        assert f"{inverted} of {good + inverted} boxes" in issue.message
        assert len(data) == 0
    else:
        assert not log.counts
        assert any(f"read as {expected}" in note for note in log.notes)
        last = [50, 60, 80, 100] if inverted else [10, 20, 30, 40]
        assert data.boxes.xyxy[-1].tolist() == last


def test_both_sides_decide_together(tmp_path):
    truth = folder_of(tmp_path, ["10 20 30 40"], "gt")
    found = folder_of(tmp_path, ["50 60 30 40"] * 3, "det", start=".5 ")
    alone, _ = read(truth)
    assert alone.boxes.xyxy.tolist() == [[10, 20, 30, 40]]
    together, other, log = read_both(truth, found)
    assert together.boxes.xyxy.tolist() == [[10, 20, 40, 60]]
    assert other.boxes.xyxy[0].tolist() == [50, 60, 80, 100]
    assert not log.counts
    assert sum("both sides together" in note for note in log.notes) == 2


def test_an_unclear_pair_is_one_error(tmp_path):
    sides = (
        folder_of(tmp_path, ["10 20 30 40"] * 100, "gt"),
        folder_of(tmp_path, ["50 60 3 4"], "det", start="1 "),
    )
    *_, log = read_both(*sides)
    assert [(i.path, i.code) for i in log] == [(str(sides[1] / "a.txt"), "box-layout-unclear")]


def test_pixels_against_fractions_are_refused(tmp_path):
    sides = (
        folder_of(tmp_path, ["10 20 30 40"], "gt"),
        folder_of(tmp_path, [".5 .5 .2 .2"], "det", start="1 "),
    )
    *_, log = read_both(*sides)
    assert [(i.path, i.code) for i in log] == [(str(sides[1]), "coordinates-differ")]


def test_faults_of_both_sides_are_said_once(tmp_path):
    sides = (
        folder_of(tmp_path, ["1 2 3", "1 2 3 4"], "gt"),
        folder_of(tmp_path, ["1 2 3 4", "1 2 3 x"], "det", "1 "),
    )
    *_, log = read_both(*sides)
    assert codes(log) == ["not-a-number", "wrong-count"]


def test_relative_boxes(tmp_path):
    folder = folder_of(tmp_path, [".5 .5 .2 .4", "0 0 1 1"])
    data, log = read(folder, image_size="200x100")
    np.testing.assert_allclose(data.boxes.xyxy, [[80, 30, 120, 70], [-100, -50, 100, 50]], atol=1e-12)
    assert sum("relative" in note for note in log.notes) == 2
    data, _ = read(folder, image_size="200x100", box="ltrb")
    np.testing.assert_allclose(data.boxes.xyxy[0], [100, 50, 40, 40])
    data, _ = read(folder, image_size="200x100", box="ltwh")
    np.testing.assert_allclose(data.boxes.xyxy[0], [100, 50, 140, 90])
    data, _ = read(folder, coords="abs", box="ltrb")
    assert data.boxes.xyxy[1].tolist() == [0, 0, 1, 1]
    data, log = read(folder)
    assert data.relative
    assert not log.counts
    np.testing.assert_allclose(data.boxes.xyxy[0], [0.4, 0.3, 0.6, 0.7])


def test_told_relative_and_pixels_is_an_error_per_row(tmp_path):
    folder = folder_of(tmp_path, ["10 20 30 40", ".5 .5 1.2 .2"])
    data, log = read(folder, coords="rel", image_size="100x100")
    assert codes(log) == ["relative-out-of-range"]
    assert len(data) == 1


def test_pictures_beside_the_labels_give_names_and_sizes(tmp_path):
    from PIL import Image

    folder = folder_of(tmp_path, [".5 .5 .2 .4"])
    Image.new("L", (200, 100)).save(folder / "a.JPG", "JPEG")
    data, log = read(folder)
    assert not log.counts
    assert data.images.name == ("a.JPG",)
    assert (data.images.width[0], data.images.height[0]) == (200, 100)
    np.testing.assert_allclose(data.boxes.xyxy, [[80, 30, 120, 70]], atol=1e-12)


@pytest.mark.parametrize("kind", [None, "gt", "det"])
def test_the_kind(tmp_path, kind):
    put(tmp_path, {"a.txt": "x .5 1 2 3 4\n" * 3 + "x 1 2 3 4\n" * 2})
    data, log = read(tmp_path, kind=kind)
    assert data.kind == (kind or "det")
    assert log.counts == ({"score-unexpected": 3} if kind == "gt" else {"score-missing": 2})
    assert [issue.column for issue in log if issue.code == "score-unexpected"] == [3] * (
        3 if kind == "gt" else 0
    )


# -------------------------------------------------------------------- a slow and plain reader of the same

TEXT = st.text(
    st.sampled_from(
        [
            *"0123456789" * 2,
            *"..-+eE_",
            *"     ",
            *"\t\n\n\n",
            *"abné\"'",
            "\r",
            "\x0b",
            "\x0c",
            "\x7f",
            "\xa0",
        ]
    ),
    max_size=40,
)
NUMBER_TEXT = st.one_of(
    st.integers(-5, 700).map(str),
    st.floats(0, 640, allow_nan=False).map(lambda v: f"{v:.6g}"),
    st.sampled_from([".5", "1e2", "nan", "inf", "1_0", "1e999", "x", "1,5", "-0", "+.5e+1"]),
)
LINE = st.one_of(
    st.tuples(
        st.sampled_from(
            ["person", "traffic light", "route 66", "a  b", "é", '"q"', "7", "x nan", "x 1.5", "0 1"]
        ),
        st.one_of(st.just(""), st.sampled_from([".5", "1", "0.25", "2", "nan", "-1", "1_0"])),
        st.lists(NUMBER_TEXT, min_size=3, max_size=5),
    ).map(lambda t: " ".join([t[0], *([t[1]] if t[1] else []), *t[2]])),
    TEXT,
)
FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def slow(text, kind):
    """The rows of one file, one line at a time, or None where a line is at fault."""
    for number, raw in enumerate(re.split(r"\r*\n|\r", text), 1):
        line = raw.strip(" \t")
        if not line:
            continue
        yield number, slow_line(line, kind)


def slow_line(line, kind):
    spans = [m.span() for m in re.finditer(r"[^ \t]+", line)]
    tokens = [line[a:b] for a, b in spans]
    if len(tokens) < 5 or not all(is_number(t) for t in tokens[-4:]):
        return None
    scored = len(tokens) > 5 and FLOAT.fullmatch(tokens[-5]) is not None
    n = len(tokens) - 4 - scored
    name = line[: spans[n - 1][1]]
    words = tokens[:n]
    if any(ord(c) < 32 or ord(c) == 127 for c in name) or re.fullmatch(r"([\"']).*\1", name):
        return None
    if n > 1 and re.fullmatch(r"[+-]?(nan|inf|infinity)", words[-1], re.IGNORECASE):
        return None
    whole = re.fullmatch("[0-9]+", words[-1]) is not None
    if n > 1 and FLOAT.fullmatch(words[-1]) and (not whole or all(FLOAT.fullmatch(w) for w in words)):
        return None
    if scored != (kind == "det"):
        return None
    score = float(tokens[-5]) if scored else None
    if scored and not 0 <= score <= 1:
        return None
    return (name, score, *map(float, tokens[-4:]))


def is_number(token):
    return FLOAT.fullmatch(token) is not None and np.isfinite(float(token))


@settings(deadline=None, max_examples=examples(200), suppress_health_check=list(HealthCheck))
@given(
    files=st.lists(
        st.tuples(st.lists(LINE, max_size=6), st.sampled_from(["\n", "\r\n"])), min_size=1, max_size=4
    ),
    kind=st.sampled_from(["gt", "det"]),
)
@example(files=[(["person .5 1 2 3 4", "a\x0bb .5 1 2 3 4", "p 1 2 3 4\r5"], "\n")], kind="det")
def test_the_fast_reader_and_a_slow_one_agree(tmp_path_factory, files, kind):
    folder = tmp_path_factory.mktemp("slow")
    texts = {f"{i}.txt": end.join(lines) for i, (lines, end) in enumerate(files)}
    data, log = read(put(folder, texts), kind=kind, box="ltrb", coords="abs")
    expected, faults = [], set()
    for name, text in texts.items():
        for number, row in slow(text, kind):
            if row is None:
                faults.add((name, number))
            else:
                expected.append((name[:-4], *row, number))
    assert rows(data) == expected
    assert data.skipped == len(faults)
    assert {(i.path.rpartition("/")[2], i.line) for i in log if i.severity == "error"} == faults


VALID = [
    "person .9 10 20 30 40\ntraffic light 0.5 1 2 3 4\r\n",
    "route 66 1e-1 1.5 2 3 4",
    "\ufeffé .25 0 0 5 5\n",
]


@settings(deadline=None, max_examples=examples(100), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_mutation_gives_tables_or_issues(tmp_path_factory, data):
    text = bytearray(data.draw(st.sampled_from(VALID)).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        if data.draw(st.booleans()):
            text[at:at] = data.draw(st.binary(max_size=3))
        else:
            del text[at : at + data.draw(st.integers(1, 4))]
    folder = put(tmp_path_factory.mktemp("mutated"), {"a.txt": bytes(text), "b.txt": VALID[0]})
    options = data.draw(st.sampled_from([{}, {"sep": "comma"}, {"coords": "rel", "image_size": "9x9"}]))
    dataset, log = read(folder, **options)
    rows = [
        line
        for file in ("a.txt", "b.txt")
        for line in (folder / file).read_bytes().splitlines()
        if line.strip()
    ]
    assert log.errors or len(dataset) == len(rows)
    assert {issue.path for issue in log.issues} <= {
        str(folder),
        *(str(folder / f"{key}.txt") for key in "ab"),
    }
    answers = {name for name, format_ in FORMATS.items() if format_.sniff(Source(str(folder)))}
    assert answers <= {"txt"}


# ----------------------------------------------------------------------------------------------- writing


NAMES = st.one_of(
    st.from_regex(r"\A[a-zA-Z0-9_.%-]{1,6}( {1,2}[a-z(]{1,4}){0,2}\Z"),
    st.sampled_from(["traffic light", "007", "null", "route 66", "é \U0001f600", "a_1", '"', "#", "1.5"]),
)


@st.composite
def datasets(draw):
    kind = draw(st.sampled_from(["gt", "det"]))
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    n = draw(st.integers(0, 6))
    number = st.one_of(
        st.integers(-20, 3000), st.floats(-10, 4000, allow_nan=False), st.floats(0, 1).map(lambda v: v * 1e-7)
    )
    ltwh = [[draw(number), draw(number), abs(draw(number)), abs(draw(number))] for _ in range(n)]
    return Dataset.from_arrays(
        images=["a/1.jpg", "b.png", "c"],
        width=[draw(st.integers(1, 70000)) for _ in range(3)],
        height=[draw(st.integers(1, 70000)) for _ in range(3)],
        categories=names,
        image=sorted(draw(st.integers(0, 2)) for _ in range(n)),
        category=[draw(st.integers(0, len(names) - 1)) for _ in range(n)],
        ltwh=np.array(ltwh, float).reshape(-1, 4),
        score=[draw(st.floats(0, 1)) for _ in range(n)] if kind == "det" else None,
        kind=kind,
    )


@settings(deadline=None, max_examples=examples(120), suppress_health_check=list(HealthCheck))
@given(
    dataset=datasets(),
    box=st.sampled_from(["ltrb", "ltwh", "cxcywh"]),
    coords=st.sampled_from(["abs", "rel"]),
    sep=st.sampled_from(["", "tab", ";"]),
)
def test_there_and_back(tmp_path_factory, dataset, box, coords, sep):
    folder = tmp_path_factory.mktemp("back")
    log = write(dataset, folder / "one", box=box, coords=coords, sep=sep)
    if log.counts:
        assert set(log.counts) <= {"unwritable-class"} | (
            {"box-too-far-outside"} if coords == "rel" else set()
        )
        assert not (folder / "one").exists() or not list((folder / "one").iterdir())
        return
    used = sorted(set(dataset.boxes.category.tolist()))
    sizes = "".join(
        f"{n.rpartition('.')[0] or n},{w},{h}\n"
        for n, w, h in zip(dataset.images.name, dataset.images.width, dataset.images.height, strict=True)
    )
    (folder / "sizes.csv").write_text(sizes)
    how = {
        "box": box,
        "coords": coords,
        "sep": sep,
        "image_sizes": str(folder / "sizes.csv"),
        "kind": dataset.kind,
    }
    back, log = read(folder / "one", **how)
    assert set(log.counts) <= {"looks-like-comment"}
    assert back.images.name == ("a/1", "b", "c")
    assert len(back) == len(dataset)
    assert sorted({dataset.categories.name[c] for c in used}) == sorted(back.categories.name)
    assert [back.categories.name[c] for c in back.boxes.category] == [
        dataset.categories.name[c] for c in dataset.boxes.category
    ]
    np.testing.assert_array_equal(back.boxes.score, dataset.boxes.score)
    slack = 1e-6 if coords == "rel" else 1e-8 if box == "cxcywh" else 0
    np.testing.assert_allclose(back.boxes.xyxy, dataset.boxes.xyxy, rtol=0, atol=slack)
    if box != "ltrb":
        np.testing.assert_allclose(back.boxes.wh, dataset.boxes.wh, rtol=0, atol=slack or 1e-9)
    assert not write(back, folder / "two", box=box, coords=coords, sep=sep).counts
    for path in sorted((folder / "one").rglob("*.txt")):
        assert (folder / "two" / path.relative_to(folder / "one")).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("name", "kind", "sep", "fine"),
    [
        ("traffic light", "gt", "", True),
        ("route 66", "gt", "", False),
        ("route 66", "gt", "tab", True),
        ("route 66", "det", "", True),
        ("route 6.6", "det", "", False),
        ("0 1", "det", "", False),
        ("x nan", "gt", "", False),
        ("66", "gt", "", True),
        ('"x"', "gt", "", False),
        (" x", "gt", "", False),
        ("a\nb", "gt", "", False),
        ("a;b", "gt", ";", False),
        ("a;b", "gt", "", True),
    ],
)
def test_names_that_cannot_be_written(tmp_path, name, kind, sep, fine):
    data = Dataset.from_arrays(
        images=["a"],
        categories=[name],
        image=[0],
        category=[0],
        xyxy=[[1, 2, 3, 4]],
        score=[0.5] if kind == "det" else None,
    )
    log = write(data, tmp_path / "out", sep=sep)
    assert (not log.counts) == fine
    if fine:
        back, log = read(tmp_path / "out", sep=sep, kind=kind, coords="abs")
        assert back.categories.name == (name,)
        assert not log.counts


def test_relative_needs_sizes_before_anything_is_written(tmp_path):
    data = Dataset.from_arrays(
        images=["a", "b"], categories=["x"], image=[0], category=[0], xyxy=[[1, 2, 3, 4]]
    )
    log = write(data, tmp_path / "out", coords="rel")
    assert codes(log) == ["image-size-unknown"]
    assert not list((tmp_path / "out").glob("*"))
    with pytest.raises(odm.DataError, match="out2: not written, because of 1 error\n"):
        odm.write(data, str(tmp_path / "out2"), "txt", coords="rel")


def test_two_images_in_one_file_are_refused(tmp_path):
    data = Dataset.from_arrays(images=["a.jpg", "a.png"], categories=["x"], image=[], category=[], xyxy=[])
    assert codes(write(data, tmp_path / "out")) == ["name-collision"]


# ---------------------------------------------------------------------------------------------- sniffing


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("person 1 2 3 4\n", "its one line is a class and numbers"),
        ("person 1 2 3 4\n" * 2, "2 of 2 lines are a class and numbers"),
    ],
)
def test_one_line_has_no_plural(tmp_path, text, says):
    log = Log()
    detect(Source(str(put(tmp_path, {"a.txt": text}))), log)
    assert says in log.notes[0]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a.txt": "person 1 2 3 4"}, "txt"),
        ({"a.txt": "0 10 20 30 40"}, "txt"),
        ({"a.txt": "0 .5 .5 .1 .1"}, "yolo"),
        ({"a.txt": "person .5 .5 .1 .1"}, "txt"),
        ({"a.txt": "person,1,2,3,4"}, "txt"),
        ({"a.txt": "person 1 2 3"}, "txt"),
        ({"a.txt": "This is some text.\nIt has no boxes."}, None),
        ({"a.md": "person 1 2 3 4"}, None),
    ],
)
def test_sniffing(tmp_path, files, expected):
    source = Source(str(put(tmp_path, files)))
    if expected is None:
        with pytest.raises(UsageError, match="no format recognises"):
            detect(source, Log())
    else:
        assert detect(source, Log()).name == expected


def test_empty_files_alone_are_anybodys(tmp_path):
    with pytest.raises(UsageError, match="more than one format fits"):
        detect(Source(str(put(tmp_path, {"a.txt": ""}))), Log())


# ------------------------------------------------------------------------------- the illustrated example

TABLE = "R Y J A U C M F D B H P E X N T K Q V I L S G O".split()
TRUE = [int(c) for c in "1 0 1 0 0 0 0 0 0 1 0 1 1 1 0 0 0 0 0 0 0 0 1 0".split()]
PERCENT = [int(c) for c in "95 95 91 88 84 80 78 74 71 70 67 62 54 48 45 45 44 44 43 38 35 23 18 14".split()]
IMAGE = [int(c) for c in "5 7 3 1 6 1 4 2 2 1 3 5 2 7 4 6 3 5 6 3 4 5 3 4".split()]


def iou(a, b, extra):
    width = min(a[2], b[2]) - max(a[0], b[0]) + extra
    height = min(a[3], b[3]) - max(a[1], b[1]) + extra
    if width <= 0 or height <= 0:
        return 0.0
    areas = sum((c[2] - c[0] + extra) * (c[3] - c[1] + extra) for c in (a, b))
    return width * height / (areas - width * height)


def check_head(truth, found, threshold, extra=1):
    """Score, image, whether it is a true positive, and whether its object was taken, by the rule of Pascal VOC."""
    order = sorted(range(len(found)), key=lambda i: -found.boxes.score[i])
    taken, table = set(), []
    for i in order:
        name = found.images.name[found.boxes.image[i]]
        best, which = 0.0, -1
        for k in range(len(truth)):
            if truth.images.name[truth.boxes.image[k]] == name:
                overlap = iou(found.boxes.xyxy[i], truth.boxes.xyxy[k], extra)
                if overlap > best:
                    best, which = overlap, k
        hit = best >= threshold
        table.append((float(found.boxes.score[i]), name, hit and which not in taken, hit and which in taken))
        if hit:
            taken.add(which)
    return table


def areas_under(table, total):
    """Average precision over all points and over eleven."""
    true = np.cumsum([row[2] for row in table])
    recall, precision = true / total, true / np.arange(1, len(table) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    steps = np.diff(np.concatenate([[0], recall]))
    eleven = [max(precision[recall >= r], default=0) for r in np.linspace(0, 1, 11)]
    return float((steps * envelope).sum()), float(np.mean(eleven))


def illustrated():
    truth, found, log = read_both(ILLUSTRATED / "groundtruths", ILLUSTRATED / "detections")
    assert not log.counts
    assert sum("read as ltwh" in note for note in log.notes) == 2
    return truth, found


def test_the_illustrated_example():
    truth, found = illustrated()
    assert (len(truth.images), len(truth), len(found)) == (7, 15, 24)
    assert truth.categories.name == found.categories.name == ("person",)
    assert (truth.boxes.xyxy == np.rint(truth.boxes.xyxy)).all()
    assert truth.boxes.xyxy.min() >= 0
    assert max(truth.boxes.xyxy.max(), found.boxes.xyxy.max()) <= 200
    table = check_head(truth, found, 0.3)
    assert [round(100 * row[0]) for row in table] == PERCENT
    assert [int(row[1]) for row in table] == IMAGE
    assert [int(row[2]) for row in table] == TRUE
    assert sum(row[3] for row in table) >= 2, "some false positives are second hits"
    every, eleven = areas_under(table, 15)
    assert every == pytest.approx(0.24568668046928915, abs=1e-12)
    assert eleven == pytest.approx(0.26839826839826836, abs=1e-12)
    without, _ = areas_under(check_head(truth, found, 0.3, extra=0), 15)
    assert abs(without - every) > 0.01, "the pixel rule decides"


def test_the_illustrated_example_through_the_public_interface():
    truth = odm.read(str(ILLUSTRATED / "groundtruths"))
    found = odm.read(str(ILLUSTRATED / "detections"))
    assert (truth.kind, found.kind) == ("gt", "det")


def test_the_module_describes_itself():
    assert TXT.doc == txt.__doc__
    for flag in ("--box", "--coords", "--sep", "--classes", "--image-size"):
        assert flag in TXT.doc


@pytest.mark.parametrize(
    ("rows", "size", "codes", "first"),
    [
        # half of the corners exchanged: as ltwh most boxes reach out of the image
        (["c 10 20 90 95", "c 50 30 95 90", "c 60 50 95 99", "c 90 80 60 70", "c 9 80 60 70", "c 99 8 60 70"], "100x100", {"inverted-box"}, (10, 20, 90, 95)),
        # left, top, width and height within the image
        (["c 10 20 30 40", "c 50 30 20 10", "c 60 70 20 20", "c 5 5 80 90", "c 70 80 9 9"], "100x100", set(), (10, 20, 40, 60)),
        # only bottom < top, everywhere, and both readings fit
        (["c 10 60 40 20", "c 20 70 50 10", "c 30 50 60 40"], "100x100", {"box-layout-guessed"}, (10, 60, 50, 80)),
        (["c 10 60 40 20", "c 20 70 50 10", "c 30 50 60 40"], None, {"box-layout-guessed"}, (10, 60, 50, 80)),
        # the same, but corners do not fit
        (["c 10 60 240 20", "c 20 70 250 10", "c 30 50 260 40"], "500x80", {"inverted-box"}, (10, 60, 240, 20)),
    ],
)  # fmt: skip
def test_sizes_of_images_decide_between_corners_and_sizes(tmp_path, rows, size, codes, first):
    (tmp_path / "a.txt").write_text("\n".join(rows))
    log = Log()
    odm.validate(tmp_path, "txt", log=log, **({} if size is None else {"image_size": size}))
    assert codes <= set(log.counts) <= codes | {"outside-image"}
    with contextlib.suppress(DataError):
        data = odm.read(tmp_path, "txt", **({} if size is None else {"image_size": size}))
        assert tuple(data.boxes.xyxy[0]) == first


DOUBT = "box-layout-guessed"
FEW = ["c 10 10 30 40"]


@pytest.mark.parametrize(
    ("rows", "options", "readings"),
    [
        # corners of few boxes, or sizes
        (["c 10 20 30 40"], {}, "ltrb or ltwh"),
        (["c 100 100 120 120"], {}, "ltrb, ltwh or cxcywh"),
        (["c 10 20 30 40"] * 19, {}, "ltrb or ltwh"),
        (["c 10 20 30 40"], {"image_size": "31x100"}, ""),  # 10 + 30 is outside
        (["c 10 20 30 40"] * 20, {}, ""),  # of so many sizes one would be less
        (["c 10 20 30 40"] * 20, {"image_size": "200x200"}, "ltrb or ltwh"),  # but here all sizes fit
        (["c 10 20 30 40"] * 20, {"image_size": "35x100"}, ""),
        (["c 10 20 30 40", "c 60 50 95 99"], {"image_size": "100x100"}, ""),
        # sizes, from the corner or the centre
        (["c 50 60 30 40"] * 3, {}, "ltwh or cxcywh"),
        (["c 50 60 30 40"] * 3 + ["c 5 60 30 40"], {}, ""),  # 5 - 30 / 2 is outside
        (["c 60 70 30 40"] * 3, {"image_size": "75x200"}, "ltrb or cxcywh"),  # as ltrb, all edges are exchanged
        # fractions
        (["c .5 .5 .2 .2"], {}, "cxcywh or ltwh"),
        (["c .9 .5 .2 .2"], {}, ""),  # .9 + .2 is outside
        (["c .4 .4 .5 .5"], {}, "cxcywh, ltrb or ltwh"),
        (["c .5 .5 .9 .9"], {}, "cxcywh or ltrb"),
        (["c .1 .1 .9 .9"], {}, "cxcywh, ltrb or ltwh"),
        (["c .5 .5 .8 .8", "c .7 .5 .2 .8"], {}, ""),
        # fractions, or tiny boxes in pixels
        (["c 0 0 1 1"], {}, "fractions (cxcywh) or pixels"),
        (["c 0 0 1 1"], {"coords": "abs", "box": "ltrb"}, ""),
        # no guess
        (FEW, {"box": "ltrb"}, ""),
        (FEW, {"box": "ltwh"}, ""),
        (["c .5 .5 .2 .2"], {"box": "cxcywh"}, ""),
        ([], {}, ""),
    ],
)  # fmt: skip
def test_a_guess_is_a_doubt_where_another_reading_is_possible(tmp_path, rows, options, readings):
    (tmp_path / "a.txt").write_text("\n".join(rows))
    log = Log()
    odm.validate(tmp_path, "txt", log=log, **options)
    assert log.counts[DOUBT] == bool(readings), list(map(str, log))
    if readings:
        (issue,) = (issue for issue in log if issue.code == DOUBT)
        assert f" fit as {readings}, and are read as " in issue.message


@pytest.mark.parametrize(
    ("verb", "rows"),
    [
        *(([verb], FEW) for verb in ("stats", "validate")),
        (["validate", "--output", "github"], FEW),
        (["convert", "--to", "csv"], FEW),
        (["convert", "--to", "yolo"], ["c .5 .5 .2 .2"]),
        (["eval"], FEW),
        (["agree"], FEW),
        (["diff"], FEW),
    ],
)
def test_quiet_hides_no_doubt(tmp_path, odm_run, verb, rows):
    lay = {"a/a.txt": "\n".join(rows), "b/a.txt": "\n".join(row.replace("c ", "c .5 ") for row in rows)}
    folder = put(tmp_path, lay)
    two = {
        "eval": ["a", "b"],
        "agree": ["a", "a"],
        "diff": ["a", "a"],
        "convert": ["a", "out.csv" if "csv" in verb else "out"],
    }
    sources = [str(folder / name) for name in two.get(verb[0], ["a"])]
    result = odm_run(*verb, *sources, "--quiet")
    assert DOUBT in result.out + result.err
    assert "note: " not in result.err
