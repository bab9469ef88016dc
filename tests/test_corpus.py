"""Bad and odd input, by format and fault, through every command: what is refused, what is read, and what is never done."""

import contextlib
import json
import os
import re
import sys
from pathlib import Path

import corpus
import numpy as np
import pytest
from selection import SLOW, first_of, of_each, slow

import odm
from odm.formats import FORMATS
from odm.issues import DataError, PathError
from odm.names import stem

CORE = list(corpus.BASE)
PROMISED = {0, 1, 2, 3}
BOTH = ("--kind", "--follow-links")
"""Options that do not belong to one side."""
NOT_A_NUMBER = re.compile(rb"\b(?:nan|NaN|inf|Infinity)\b")

FIRST = first_of(corpus.CASES, lambda case: (type(case.expect), getattr(case.expect, "code", "")))
"""A case of each answer and code: the usual run has these alone, as the tests of each format go the same ways."""
EVERY = [case if case in FIRST else pytest.param(case, marks=slow) for case in corpus.CASES]
every_case = of_each(EVERY)


def in_turn(choices):
    """Each case with each choice; in the usual run those of each code with one of them."""
    pairs = [(case, choice) for case in corpus.CASES for choice in choices]
    usual = [(case, choices[number % len(choices)]) for number, case in enumerate(FIRST)]
    return of_each([pair if pair in usual else pytest.param(*pair, marks=slow) for pair in pairs])


@contextlib.contextmanager
def built(case, tmp_path):
    """The source of a case, seen from its folder."""
    home = tmp_path / "home"
    home.mkdir()
    source = case.build(home)
    with contextlib.chdir(home):
        yield source


def checked(args, codes=PROMISED):
    """Run a command; nothing may be said that is no line of the promised form."""
    run = corpus.Run(args)
    assert run.code in codes, str(run)
    assert "Traceback" not in run.err, str(run)
    assert "internal error" not in run.err, str(run)
    for line in run.err.split("\n"):
        assert corpus.LINE.fullmatch(line), f"{line!r}\n{run}"
        assert line.isprintable(), line
    return run


def plain_json(text):
    """JSON without the constants that are none."""

    def refuse(name):
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


def places(run, code):
    return [
        line.split(": error ")[0].split(": warning ")[0]
        for line in run.err.split("\n")
        if re.search(rf": (error|warning) {code or '[a-z]'}", line)
    ]


def check_head(case, run):
    """Whether a run on the case's own side answered as the case says."""
    expect = case.expect
    if isinstance(expect, corpus.Unusable):
        assert run.code == 3, str(run)
        assert expect.says in run.err, str(run)
        return
    if isinstance(expect, corpus.Refused):
        assert run.code == 1, str(run)
        assert re.search(rf": error {expect.code}\b", run.err + run.out), str(run)
        there = places(run, expect.code) or [line.split(": error ")[0] for line in run.out.split("\n")]
        assert any(
            p.startswith(expect.location)
            and (
                len(p) == len(expect.location)
                or not p[len(expect.location)].isalnum()
                or expect.location.endswith("/")
            )
            for p in there
        ), (there, str(run))
        return
    assert run.code == 0, str(run)
    if expect.code:
        assert re.search(rf": warning {expect.code}\b", run.err + run.out), str(run)


def boxes_of(data):
    return sorted(
        (stem(data.images.name[i]), data.categories.name[c], tuple(box))
        for i, c, box in zip(data.boxes.image, data.boxes.category, data.boxes.xyxy.tolist(), strict=True)
    )


def same_boxes(found, wanted, slack):
    wanted = sorted(wanted)
    assert [b[:2] for b in found] == [tuple(b[:2]) for b in wanted]
    np.testing.assert_allclose([b[2] for b in found], [b[2] for b in wanted], rtol=0, atol=slack)


def options_of(explicit, home):
    """Options of the command line as those of the Python interface."""
    options = {explicit[i][2:].replace("-", "_"): explicit[i + 1] for i in range(0, len(explicit), 2)}
    if "images" in options:
        options["images"] = str(home / options["images"])
    return options


@every_case
def test_validate_answers_as_the_case_says(case, tmp_path):
    with built(case, tmp_path) as source:
        before = corpus.state(".")
        with corpus.Watch() as watch:
            run = checked(["validate", source, "--format", case.format, *case.explicit])
        check_head(case, run)
        assert corpus.state(".") == before
        assert (watch.changed, watch.forbidden) == ([], [])
        assert not opened_outside(watch, source, case)
        if run.code != 3 and (SLOW or case in FIRST):
            report = plain_json(
                checked(["validate", source, "--format", case.format, *case.explicit, "--output", "json"]).out
            )
            assert bool(report["errors"]) == bool(run.code)


def opened_outside(watch, source, case):
    """Data files that were opened and that nobody named: neither the source, nor Python's own."""
    root = os.path.realpath(source)
    own = tuple(
        os.path.realpath(p) + os.sep
        for p in (*sys.path, sys.prefix, sys.base_prefix, Path(odm.__file__).parents[2])
        if p
    )
    strange = []
    for path in watch.opened:
        real = os.path.realpath(path)
        if real == root or real.startswith((root + os.sep, *own)) or real == os.devnull:
            continue
        if "photos" in real and {"--follow-links", "--images"} & set(case.explicit):
            continue
        if real.startswith(("/usr/share/zoneinfo", "/proc/self", "/etc/localtime")):
            continue
        strange.append(path)
    return strange


@every_case
def test_the_format_may_be_left_out(case, tmp_path):
    """Whatever detection makes of it, it answers with a promised exit code and in the promised form."""
    with built(case, tmp_path) as source:
        before = corpus.state(".")
        run = checked(["validate", source, *case.explicit])
        if isinstance(case.expect, corpus.Refused):
            assert run.code != 0, str(run)
        if getattr(case.expect, "code", "") in (
            "unreadable-file",
            "link-outside",
            "not-text",
            "not-utf8",
            "json-too-deep",
        ):
            check_head(case, run)
        assert corpus.state(".") == before


@in_turn(CORE)
def test_convert_all_or_nothing(case, name, tmp_path):
    with built(case, tmp_path) as source:
        explicit = [f"--from-{t[2:]}" if t.startswith("--") and t not in BOTH else t for t in case.explicit]
        before = corpus.state(".")
        target = f"out-{name}" + (FORMATS[name].suffixes[0] if FORMATS[name].single else "")
        with corpus.Watch() as watch:
            run = checked(["convert", source, target, "--from", case.format, "--to", name, *explicit])
        assert watch.forbidden == []
        home = os.path.realpath(".")
        inside = (target, os.path.join(target, ""), f".odm-{target}-")
        for path in watch.changed:
            assert os.path.relpath(os.path.realpath(path), home).startswith(inside), path
        strange = opened_outside(watch, source, case)
        assert [
            p for p in strange if not os.path.relpath(p, home).startswith((".odm-", target)) and p != home
        ] == []
        if name == "yolo" and case.expect == corpus.Read(code="image-size-missing"):
            assert run.code == 1
            assert "image-size-unknown" in run.err
        else:
            check_head(case, run)
        if run.code:
            assert corpus.state(".") == before, str(run)
            return
        assert {k: v for k, v in corpus.state(".").items() if k.split(os.sep)[0] != target} == before
        assert corpus.SECRET not in run.out + run.err
        read, written = (int(re.search(rf"(\d+)  boxes {w}", run.out)[1]) for w in ("read", "written"))
        left = sum(map(int, re.findall(r"(\d+)  left out", run.out)))
        assert read == written + left == len(case.expect.boxes)
        for path in [Path(target)] if Path(target).is_file() else Path(target).rglob("*.*"):
            data = path.read_bytes()
            assert not NOT_A_NUMBER.search(data), path
            assert corpus.SECRET.encode() not in data
        back = {"box": "ltrb"} if name == "txt" else {"image_size": "100x80"} if name == "yolo" else {}
        reference = {"gt": source} if name == "coco" and case.det and case.format == "coco" else {}
        data = odm.read(target, name, **back, **reference)
        same_boxes(boxes_of(data), case.expect.boxes, FORMATS[name].max_error_px + 1e-6)


EITHER = {
    "csv-empty",  # no detections
    "coco-det-score-missing",  # ground truth, if only some boxes have a score
}
"""Cases that are wrong on their own side and have a meaning on the other."""


def evaluated(case, source, other, side):
    """The words of an evaluation in which the case stands on one side and a small CSV file on the other."""
    explicit = [
        f"--{side}-{t[2:]}" if t.startswith("--") and t not in BOTH else t
        for t in case.explicit
        if t not in ("--kind", "gt", "det")
    ]
    sides = {side: (source, case.format), "det" if side == "gt" else "gt": (str(other), "csv")}
    formats = [word for name, (_, format_) in sides.items() for word in (f"--{name}-format", format_)]
    return ["eval", sides["gt"][0], sides["det"][0], *formats, *explicit]


@in_turn(["gt", "det"])
def test_eval_as_either_side(case, side, tmp_path):
    """On its own side it is judged as everywhere; on the other side it is refused, for it lacks or has scores."""
    with built(case, tmp_path) as source:
        other = corpus.lay(tmp_path / "other", corpus.csv(det=side == "gt"))
        before = corpus.state(".")
        words = evaluated(case, source, other, side)
        if (side == "det") != case.det:
            run = checked(words, {0} if str(case) in EITHER else {1, 3})
            assert (run.out == "") == (run.code != 0), str(run)
            assert corpus.state(".") == before
            return
        run = checked([*words, "--output", "json"])
        assert corpus.state(".") == before
        if not case.size:
            assert run.code == 0, str(run)  # the other side knows the sizes
        elif isinstance(case.expect, corpus.Read):
            classes = {b[1] for b in case.expect.boxes}
            if classes == {"cat", "dog"}:
                assert run.code == 0, str(run)
                assert plain_json(run.out)["results"][0]["summary"]["mAP"] == 1.0
            else:
                assert run.code in (0, 1)
        else:
            check_head(case, run)
            assert run.out == ""


@of_each(
    [each for each, case in zip(EVERY, corpus.CASES, strict=True) if "--follow-links" not in case.explicit]
)
def test_the_python_interface_raises_only_what_it_promises(case, tmp_path):
    source = tmp_path / case.build(tmp_path)
    try:
        data = odm.read(source, case.format, **options_of(case.explicit, tmp_path))
    except (DataError, PathError):
        assert not isinstance(case.expect, corpus.Read), str(case)
    else:
        assert isinstance(case.expect, corpus.Read), str(case)
        same_boxes(boxes_of(data), case.expect.boxes, 1e-6)
