"""Validation: it agrees with the other commands, says where, and its reports can be read by machines."""

import contextlib
import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import fixture_cases as written
import numpy as np
import pytest
import write_examples
from corpus_base import tree
from msgspec.structs import replace
from one_format import WRITTEN
from selection import first_of, of_each, params

import odm
from odm import checks
from odm.cli import _app, _explain, _issue_formats
from odm.converters import Ledger, Request, chosen, load_pair, repair
from odm.converters.pending import SHAPE_WORDS
from odm.converters.repairs import REPAIRS, apply_repairs
from odm.converters.validation import sort_issues
from odm.formats import FORMATS, option_specs
from odm.issues import CODES, Code, DataError, Issue, Log, UsageError
from odm.names import stem
from odm.tables import Dataset

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"
Case = written.Case

CASES = written.cases(("bad/*/*", "validate/*"))
ONE_OF_EACH = first_of(CASES, lambda pair: pair[0])
"""One fixture for each code, where the format plays no part."""
bad = functools.partial(pytest.mark.parametrize, ("code", "folder"), ids=lambda value: Path(value).name)
MIXED = [p for p in sorted(FIXTURES.glob("mixed/*")) if p.is_dir()]
PLACED = [p for p in CASES if p[1].parent.name == "validate" and "place" in Case(p[1]).said]


def errors(log):
    return {name: n for name, n in log.counts.items() if CODES[name].severity == "error"}


def mixed_case(folder):
    case = Case(folder)
    fits = [name for name in FORMATS if folder.name == name or folder.name.startswith(name + "-")]
    case.format = case.said.get("format") or max(fits, key=len)
    return case


# --------------------------------------------------------------------------- agreement with the other jobs


@of_each(MIXED)
def test_clean_data_gives_no_errors_and_no_noise(folder):
    log = Log()
    case = mixed_case(folder)
    loaded = case.examine(log)
    assert set(log.counts) == set(case.said.get("doubts", ())), list(map(str, log))
    assert len(loaded[0].dataset) == 6


OTHER_KIND = {"gt": "no-scores", "det": "all-boxes-scored"}
HAVE_BOTH = (
    *("kili", "kili-detections", "labelstudio", "labelstudio-detections", "mot", "mot-detections"),
    *("encord", "encord-detections", "sagemaker", "sagemaker-detections"),  # a label has a confidence too
    "visdrone",  # in ground truth the score is 0 for what is ignored, else 1
)
"""Fixtures of formats in which each kind stands in a place of its own, or both have scores."""


@of_each([folder for folder in MIXED if folder.name not in HAVE_BOTH])
def test_the_other_kind_is_one_error_with_a_count(folder):
    case = mixed_case(folder)
    source, gt, _ = case.requests()
    (as_it_is,) = case.examine(Log())
    kind = as_it_is.dataset.kind
    log = Log()
    asked = replace(source, kind="det" if kind == "gt" else "gt")
    odm.converters.examine(asked, log, gt=gt)
    results = folder.name in ("coco-results", "coco-detectron2")
    expected = "results-as-ground-truth" if results else OTHER_KIND[kind]
    assert {expected} <= set(log.counts) <= {expected, *case.said.get("doubts", ())}
    (issue,) = [issue for issue in log if issue.code == expected]
    assert expected == "results-as-ground-truth" or "(6)" in issue.message


@pytest.mark.parametrize("code", ["gt", "det"])
def test_clean_pairs_give_no_errors_and_no_noise(code):
    log = Log()
    pairs = {"gt": "coco-detections", "det": "voc-detections"}
    truth, found = (mixed_case(FIXTURES / "mixed" / name).requests()[0] for name in ("voc", pairs[code]))
    odm.converters.examine(truth, log, against=found)
    assert [str(i) for i in log] == []


@bad(PLACED)
def test_what_only_validation_finds_has_its_place(code, folder):
    case = Case(folder)
    assert [i.location for i in case.log() if i.code == code] == [case.said["place"]]


ONE_SIDED = [case for case in CASES if "against" not in written.described(case[1])]


@of_each(params(ONE_SIDED, ONE_OF_EACH))
def test_validate_convert_and_eval_agree_on_what_is_an_error(code, folder, tmp_path):
    case, log = Case(folder), Log()
    (loaded,) = case.examine(log)
    found = errors(log)
    if CODES[code].severity == "error":
        assert code in found
    source, gt, _ = case.requests()
    options = {k: v for k, v in source.shared.items() if k != "images" or "images" not in case.said}

    convert_log = Log()
    with contextlib.suppress(DataError):
        odm.convert(
            source.path,
            tmp_path / "out.json",
            from_=loaded.format.name,
            to="coco",
            kind=source.kind,
            gt=gt.path if gt else None,
            from_options=options,
            dry_run=True,
            log=convert_log,
        )
    assert errors(convert_log) == found

    if code == "results-without-reference":
        return  # an evaluation has one
    eval_log = Log()
    kind = source.kind or loaded.dataset.kind
    asked = {"options": options, "kind": kind, "wants": SHAPE_WORDS}
    request = Request(path=source.path, format=loaded.format.name, **asked)
    with contextlib.suppress(DataError):
        if kind == "gt":
            nothing = tmp_path / "nothing"
            nothing.mkdir()
            load_pair(request, Request(path=str(nothing), kind="det"), eval_log)
        else:
            empty = tmp_path / "empty.json"
            empty.write_text('{"images": [], "annotations": [], "categories": []}')
            truth = gt.path if gt else str(empty)
            load_pair(Request(path=truth, kind="gt"), request, eval_log)
    assert errors(eval_log) == found


RULES_OF_SHAPES = {rule.code.name for rule in checks.shapes.RULES} | {"mask-size", "outline-numbers"}
SHAPES_AND_TRACKS = RULES_OF_SHAPES | {*checks.tracks.CONTRADICTIONS}


@of_each([p for p in CASES if p[0] in SHAPES_AND_TRACKS and "against" not in Case(p[1]).said])
def test_validate_and_a_copy_in_the_same_format_agree_about_shapes_and_tracks(code, folder, tmp_path):
    case, log, copied = Case(folder), Log(), Log()
    (loaded,) = case.examine(log)
    source, _, _ = case.requests()
    assert loaded.format.name == "coco"
    with contextlib.suppress(DataError):
        odm.convert(source.path, tmp_path / "out.json", from_="coco", to="coco", kind=source.kind, log=copied)
    assert errors(copied) == errors(log)
    assert (tmp_path / "out.json").exists() == (not log.errors)
    if code in checks.tracks.CONTRADICTIONS:
        assert copied.counts[code] == log.counts[code]
    with contextlib.suppress(DataError):  # a repair reports what remains
        remaining = Log()
        odm.repair(
            source.path, tmp_path / "fixed.json", ["order"], format="coco", kind=source.kind, log=remaining
        )
    assert remaining.counts == log.counts


@bad([p for p in CASES if p[1].parent.name == "validate" and "against" in Case(p[1]).said])
def test_two_sides_agree_with_an_evaluation(code, folder, odm_run, monkeypatch):
    monkeypatch.chdir(folder)
    said = Case(folder).said
    refused = CODES[code].severity == "error"
    odm_run("validate", said["input"], "--against", said["against"], code=int(refused))
    odm_run("eval", said["input"], said["against"], code=int(refused))


def test_a_results_file_and_its_ground_truth(odm_run):
    gt = FIXTURES / "mixed" / "coco" / "input.json"
    results = FIXTURES / "mixed" / "coco-results" / "input.json"
    out, _ = odm_run("validate", results, "--gt", gt, "--strict")
    assert out == "no errors, no warnings in 6 boxes, 3 images, 3 classes (coco)\n"
    odm_run("validate", gt, "--against", results, "--strict")
    odm_run("validate", results, "--gt", gt, "--against", gt, code=2)


def test_a_ground_truth_that_is_not_needed_is_said(odm_run):
    detections = FIXTURES / "mixed" / "voc-detections" / "input"
    _, err = odm_run("validate", detections, "--gt", FIXTURES / "mixed" / "coco" / "input.json")
    assert "--against" in err


# ------------------------------------------------------------------------------------------- the command


BOXES = "dog 1 2 30 40\ndog 1 2 30 40\ncat 50 50 40 90\ncat 5 5 5 9\n"


@pytest.fixture
def labels(tmp_path):
    folder = tmp_path / "labels"
    folder.mkdir()
    for i in range(30):
        (folder / f"{i}.txt").write_text("dog 1 2 30 40\ncat 50 60 90 100\n")
    (folder / "a.txt").write_text(BOXES)
    return folder


ARGS = ("--format", "txt", "--box", "ltrb")


def test_the_text_report(odm_run, labels):
    out, err = odm_run("validate", labels, *ARGS, code=1)
    lines = out.splitlines()
    assert lines[0].startswith(f"{labels}/a.txt:3: error inverted-box [bbox] expected left <= right")
    assert [line.split() for line in lines[4:7]] == [
        ["1", "error", "inverted-box"],
        ["1", "warning", "duplicate-box"],
        ["1", "warning", "empty-box"],
    ]
    assert lines[-1] == "1 error, 2 warnings in 64 boxes, 31 images, 2 classes (txt)"
    assert "Traceback" not in err


def test_select_ignore_and_strict(odm_run, labels):
    assert "inverted-box" not in odm_run("validate", labels, *ARGS, "--ignore", "inverted-box")[0]
    odm_run("validate", labels, *ARGS, "--ignore", "inverted-*", "--strict", code=1)
    odm_run(
        "validate",
        labels,
        *ARGS,
        "--ignore",
        "inverted-box,duplicate-box",
        "--ignore",
        "empty-box",
        "--strict",
    )
    out, _ = odm_run("validate", labels, *ARGS, "--select", "empty-box,duplicate-*")
    assert "no errors, 2 warnings" in out
    out, err = odm_run("validate", labels, *ARGS, "--select", "inverted-bxo", code=2)
    assert "inverted-box" in err


def test_max_errors_prints_fewer_and_counts_all(odm_run, labels):
    out, _ = odm_run("validate", labels, *ARGS, "--max-errors", 1, code=1)
    assert "; 1 of 3 are printed" in out
    assert out.count("[bbox]") == 1
    data = json.loads(odm_run("validate", labels, *ARGS, "--max-errors", 0, "--output", "json", code=1)[0])
    assert (data["errors"], data["warnings"], data["issues"]) == (1, 2, [])


@pytest.fixture
def many(tmp_path):
    (tmp_path / "a.txt").write_text("x 1 2 3\n" * 300)
    return ("validate", tmp_path, "--format", "txt", "--box", "ltrb")


def test_people_get_ten_of_a_code_and_the_number_of_the_others(odm_run, many):
    out, _ = odm_run(*many, code=1)
    assert out.count("error wrong-count expected") == 10
    assert "... and 290 more wrong-count (--max-per-code N lists more)\n" in out
    assert out.endswith("; 10 of 300 are printed\n")
    out, _ = odm_run(*many, "--max-per-code", 60, code=1)
    assert out.count("error wrong-count expected") == 60
    out, _ = odm_run(*many, "--max-per-code", 400, code=1)
    assert out.count("error wrong-count expected") == 100  # --max-errors
    out, _ = odm_run(*many, "--max-per-code", 400, "--max-errors", 400, code=1)
    assert out.count("error wrong-count expected") == 300


def test_machines_get_all_unless_a_number_is_given(odm_run, many):
    for output, sign in (("json", '"code":'), ("sarif", '"ruleId":'), ("github", "::error ")):
        assert odm_run(*many, "--output", output, code=1)[0].count(sign) == 300, output
        assert odm_run(*many, "--output", output, "--max-errors", 250, code=1)[0].count(sign) == 250
        assert odm_run(*many, "--output", output, "--max-per-code", 7, code=1)[0].count(sign) == 7


def test_the_tolerance(odm_run, tmp_path):
    (tmp_path / "a.txt").write_text("dog 1 2 103 40\ndog 1 2 50 40\n")
    run = ("validate", tmp_path, "--format", "txt", "--box", "ltrb", "--image-size", "100x100", "--strict")
    odm_run(*run, code=1)
    odm_run(*run, "--tolerance", 3)
    odm_run(*run, "--tolerance", -1, code=2)
    odm_run(*run, "--tolerance", "nan", code=2)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "SRC"),
        (("{labels}", "--box", "corners"), "ltrb"),
        (("{labels}", *ARGS, "--det-box", "ltrb"), "--against"),
        (("{labels}", *ARGS, "-O", "bux=1"), "bux"),
        (("{labels}", *ARGS, "--out", "x"), "--fix"),
        (("{labels}", *ARGS, "--fix", "clip"), "--out"),
        (("{labels}", *ARGS, "--fix", "clop", "--out", "x"), "clip"),
        (("{labels}", *ARGS, "--fix", ",", "--out", "x"), "clip"),
        (("{labels}", *ARGS, "--fix", "clip", "--out", "x", "--against", "{labels}"), "--against"),
        (("--explain", "inverted-bxo"), "inverted-box"),
        (("--explain", "inverted-box", "--output", "sarif"), "sarif"),
    ],
)
def test_wrong_use(odm_run, labels, monkeypatch, tmp_path, args, says):
    monkeypatch.chdir(tmp_path)
    _, err = odm_run("validate", *(a.format(labels=labels) for a in args), code=2)
    assert says in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["labels"]


def test_missing_source(odm_run):
    odm_run("validate", "nowhere", code=3)


# ------------------------------------------------------------------------------------------- the reports


NASTY = [
    Issue("a,b:c%d\ne.txt", 3, 7, "x", "inverted-box", "error", "100 % wrong\r\n, really: yes"),
    Issue("/abs/ö #1.txt", 0, 0, "", "empty-box", "warning", "|a| `b` ``c``"),
    Issue("./x/d.json", 0, 0, "bbox", "inverted-box", "error", "m", "/annotations/2/bbox"),
    Issue("", 0, 0, "", "empty-box", "warning", "no place"),
]


@pytest.fixture
def nasty():
    log = Log()
    log.issues = list(NASTY)
    log.counts.update(i.code for i in NASTY)
    log.counts["inverted-box"] += 5
    log.note("a\nnote")
    return _issue_formats.Report(log, NASTY, [])


def check_sarif(text):
    """The parts of SARIF 2.1.0's schema that are used: which keys there may be, and what is required."""
    data = json.loads(text)
    assert set(data) == {"$schema", "version", "runs"}
    assert data["version"] == "2.1.0"
    (run,) = data["runs"]
    assert set(run) == {"tool", "columnKind", "invocations", "results", "properties"}
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    rules = run["tool"]["driver"]["rules"]
    assert len({r["id"] for r in rules}) == len(rules)
    for rule in rules:
        assert set(rule) == {"id", "shortDescription", "fullDescription", "help", "defaultConfiguration"}
        assert all(rule[k]["text"] for k in ("shortDescription", "fullDescription", "help"))
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
    for result in run["results"]:
        assert set(result) <= {"ruleId", "ruleIndex", "level", "message", "locations"}
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("warning", "error")
        assert result["message"]["text"]
        for location in result.get("locations", []):
            assert set(location) <= {"physicalLocation", "logicalLocations"}
            if "physicalLocation" in location:
                physical = location["physicalLocation"]
                assert re.fullmatch(r"(?:file:///)?[A-Za-z0-9._~%/-]+", physical["artifactLocation"]["uri"])
                region = physical.get("region", {"startLine": 1})
                assert region["startLine"] >= 1
                assert region.get("startColumn", 1) >= 1
            for logical in location.get("logicalLocations", []):
                assert logical["fullyQualifiedName"].startswith("/")
    return run


def test_sarif(nasty):
    run = check_sarif(_issue_formats.render(nasty, "sarif"))
    first, second, third, fourth = run["results"]
    location = first["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "a%2Cb%3Ac%25d%0Ae.txt"
    assert location["region"] == {"startLine": 3, "startColumn": 7}
    uri = second["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "file:///abs/%C3%B6%20%231.txt"
    assert third["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "/annotations/2/bbox"
    assert third["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "x/d.json"
    assert "/annotations/2/bbox" in third["message"]["text"]
    assert "locations" not in fourth
    assert run["properties"]["counts"] == {"inverted-box": 7, "empty-box": 2}


def test_github(nasty):
    lines = _issue_formats.render(nasty, "github").split("\n")
    assert lines[0] == (
        "::error file=a%2Cb%3Ac%25d%0Ae.txt,line=3,col=7,title=inverted-box::x: 100 %25 wrong\\r\\n, really: yes"
    )
    assert lines[1].startswith("::warning file=/abs/ö #1.txt,title=empty-box::|a|")
    assert lines[3] == "::warning title=empty-box::no place"
    assert lines[4].startswith("::notice ")
    assert "4 of 9" in lines[4]


def test_json(nasty):
    data = json.loads(_issue_formats.render(nasty, "json"))
    assert data["counts"] == {"inverted-box": 7, "empty-box": 2}
    assert data["issues"][0]["path"] == "a,b:c%d\\ne.txt"
    assert data["issues"][2] == {
        "path": "./x/d.json",
        "line": None,
        "column": None,
        "pointer": "/annotations/2/bbox",
        "field": "bbox",
        "code": "inverted-box",
        "severity": "error",
        "message": "m",
    }
    assert data["notes"] == ["a\\nnote"]


@pytest.mark.parametrize("boxes", [0, 1])
def test_what_is_no_box_is_named_where_nothing_else_is(tmp_path, boxes):
    line = '<polyline label="x" points="1,2;3,4"/>'
    box = '<box label="x" xtl="1" ytl="2" xbr="3" ybr="4"/>' * boxes
    path = tmp_path / "a.xml"
    path.write_text(
        f'<annotations><image name="a.jpg" width="9" height="9">{line * 2}{box}</image></annotations>'
    )
    said = "no boxes found, although the file is not empty; not read: 2 shapes that are not boxes; "
    assert [issue.message.startswith(said) for issue in odm.validate(path)] == [True] * (not boxes)


def test_markdown(nasty):
    text = _issue_formats.render(nasty, "markdown")
    assert "| `inverted-box` | error | 7 |" in text
    assert "- ``` /abs/ö #1.txt: warning empty-box |a| `b` ``c`` ```" in text


@of_each(ONE_OF_EACH)
def test_every_report_of_every_fault_can_be_parsed(code, folder):
    log, case = Log(), Case(folder)
    with contextlib.chdir(case.folder):
        case.examine(log)
        report = _issue_formats.Report(log, sort_issues(log.issues), [])
        names = ("text", "json", "sarif", "github", "markdown")
        text, data, sarif, github, markdown = (_issue_formats.render(report, name) for name in names)
    assert text.count("\n") == len(text.splitlines())
    assert sum(json.loads(data)[key] for key in ("errors", "warnings")) == sum(
        json.loads(data)["counts"].values()
    )
    check_sarif(sarif)
    for line in github.splitlines():
        assert re.fullmatch(r"::(error|warning|notice) [^:]*::.+", line)
    assert markdown.startswith("**")


def test_places_in_json_have_lines(tmp_path):
    path = tmp_path / "a.json"
    data = {"a/b": [1, {"c": [2]}], "é\n": "x"}
    for bom in ("", "\ufeff"):
        path.write_text(bom + json.dumps(data, indent=1, ensure_ascii=False), encoding="utf-8")
        lines = _issue_formats._PointerFinder(str(path)).find_line
        assert [lines(p) for p in ("/a~1b", "/a~1b/1", "/a~1b/1/c", "/a~1b/1/c/0", "/é\n")] == [
            2,
            4,
            5,
            6,
            10,
        ]
        assert lines("/a~1b/1/d") == 4  # what is missing is shown where it should be
        assert lines("/nothing") == 0
    path.write_text("[1, 2")
    assert _issue_formats._PointerFinder(str(path)).find_line("/0") == 0
    assert _issue_formats._PointerFinder(str(tmp_path / "none.json")).find_line("/0") == 0
    path.write_text("[" * 100_000)
    assert _issue_formats._PointerFinder(str(path)).find_line("/0/0") == 0


def test_lines_of_json_are_shown_beside_the_pointer(odm_run, tmp_path):
    data = json.loads((FIXTURES / "mixed" / "coco" / "input.json").read_text(encoding="utf-8"))
    data["annotations"][2]["bbox"] = [1, 2, 3]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(data, indent=1))
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if text.strip() == "3")
    (annotation,) = odm_run("validate", path, "--output", "github", code=1)[0].splitlines()
    assert f"line={line - 3}," in annotation
    run = check_sarif(odm_run("validate", path, "--output", "sarif", code=1)[0])
    assert run["results"][0]["locations"][0]["physicalLocation"]["region"] == {"startLine": line - 3}


# --------------------------------------------------------------------------------------------- explaining


def test_the_page_of_codes_is_what_the_command_prints(odm_run, monkeypatch):
    for code in [code for code in CODES if code.startswith("test-")]:  # of other tests in this process
        monkeypatch.delitem(CODES, code)
    out, _ = odm_run("validate", "--explain", "all", "--output", "markdown")
    page = (ROOT / "docs" / "codes.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## (\S+)$", page, re.MULTILINE)) == CODES.keys()
    assert out == page, "run python tests/write_examples.py"


def test_the_examples_are_those_of_the_fixtures():
    text = write_examples.text_of(write_examples.examples())
    held = (ROOT / "cli" / "examples.json").read_text(encoding="utf-8")
    assert held == text, "run python tests/write_examples.py"


def test_explain(odm_run):
    out, _ = odm_run("validate", "--explain", "inverted-box")
    code = CODES["inverted-box"]
    assert " ".join(out.split()).count(code.why) == 1
    assert "Example:" in out
    data = json.loads(odm_run("validate", "--explain", "inverted-box", "--output", "json")[0])
    assert data[0]["code"] == "inverted-box"
    assert data[0]["example"]["printed"]


def test_values_are_not_shown_in_an_explanation():
    for code in CODES.values():
        for text in (_explain.format_message(code), _explain.format_advice(code)):
            assert not re.search(r"\{\w*(![rs])?\}", text)


# ------------------------------------------------------------------------------------------------ repairs


def dataset(
    boxes,
    *,
    kind="gt",
    names=("a.jpg", "b.jpg"),
    classes=("x", "y"),
    image=None,
    score=None,
    size=(100, 50),
    **more,
):
    n = len(boxes)
    return Dataset.from_arrays(
        images=names,
        categories=classes,
        width=[size[0]] * len(names),
        height=[size[1]] * len(names),
        image=image or [0] * n,
        category=[0] * n,
        xyxy=np.array(boxes, float).reshape(-1, 4),
        score=score,
        kind=kind,
        **more,
    )


def apply(data, *repairs):
    log, ledger = Log(), Ledger("a", "a", read=len(data))
    before = data.boxes.xyxy.copy()
    made = apply_repairs(data, repairs, ledger, log)
    np.testing.assert_array_equal(data.boxes.xyxy, before)
    ledger.written = len(made)
    assert ledger.balances
    assert not made.boxes.xyxy.flags.writeable
    return made, ledger, log


def test_order_exchanges_edges():
    data = dataset([[30, 5, 10, 9], [1, 9, 2, 3], [1, 2, 3, 4]], area=[np.nan, -4, 3])
    made, ledger, _ = apply(data, "order")
    assert made.boxes.xyxy.tolist() == [[10, 5, 30, 9], [1, 3, 2, 9], [1, 2, 3, 4]]
    assert made.boxes.wh.tolist() == [[20, 4], [1, 6], [2, 2]]
    assert np.isnan(made.boxes.area[1])
    assert made.boxes.area[2] == 3
    assert ledger.changed == {"boxes whose edges were swapped": 2}


def test_clip_cuts_and_leaves_out():
    data = dataset([[-5, 1, 10.25, 60], [200, 0, 300, 10], [1, 2, 3, 4], [30, 5, -10, 9], [50, 0, 50, 9]])
    made, ledger, _ = apply(data, "clip")
    assert made.boxes.xyxy.tolist() == [[0, 1, 10.25, 50], [1, 2, 3, 4], [30, 5, -10, 9], [50, 0, 50, 9]]
    assert ledger.changed == {"boxes clipped to their image": 1}
    assert sum(ledger.left_out.values()) == 1
    unsized = dataset([[-5, 1, 10, 60]], size=(0, 0))
    made, ledger, log = apply(unsized, "clip")
    assert made.boxes.xyxy.tolist() == [[-5, 1, 10, 60]]
    assert log.notes


def test_drop_empty():
    made, ledger, _ = apply(dataset([[1, 1, 1, 5], [1, 1, 5, 1], [1, 1, 1.5, 5], [5, 1, 5, 0]]), "drop-empty")
    assert made.boxes.xyxy.tolist() == [[1, 1, 1.5, 5], [5, 1, 5, 0]]
    assert sum(ledger.left_out.values()) == 2


def test_dedupe():
    boxes = [[1, 1, 5, 5]] * 3 + [[1, 1, 5, 6]]
    made, _, _ = apply(dataset(boxes, image=[0, 1, 0, 0]), "dedupe")
    assert made.boxes.image.tolist() == [0, 1, 0]
    scored = dataset(boxes[:3], kind="det", score=[0.5, 0.5, 0.25])
    assert apply(scored, "dedupe")[0].boxes.score.tolist() == [0.5, 0.25]


def test_rename():
    names = (
        "a.jpg",
        "A.jpg",
        "a.png",
        "d/con.jpg",
        "e./e.jpg",
        "x?.jpg",
        "e\u0301.jpg",
        "é.png",
        "ok/b.v2.jpg",
    )
    data = Dataset.from_arrays(
        images=names,
        categories=["dog", "dog ", "a  b", "A b", "a b"],
        image=[0] * 5,
        category=[0, 1, 2, 3, 4],
        xyxy=[[i, 0, i + 1, 2] for i in range(5)],
    )
    made, ledger, log = apply(data, "rename")
    assert made.images.name == (
        "a.jpg",
        "A-2.jpg",
        "a-3.png",
        "d/con_.jpg",
        "e/e.jpg",
        "x_.jpg",
        "é-2.jpg",
        "é.png",
        "ok/b.v2.jpg",
    )
    assert made.categories.name == ("dog", "a b", "A b")
    assert made.boxes.category.tolist() == [0, 0, 1, 2, 1]
    assert ledger.changed["images renamed (rename)"] == 6
    assert "pictures" in log.notes[0]
    from odm import checks

    left = Log()
    checks.run(made, left, all_rules=True)
    assert "similar-image-names" not in left.counts
    again, ledger, _ = apply(made, "rename")
    assert again.images.name == made.images.name
    assert not ledger.changed


def test_what_is_not_finite_is_never_repaired():
    data = dataset([[np.nan, 5, 1, 9], [np.inf, 5, 1, 9], [1, np.nan, 1, 4], [np.nan, 5, 1, 9]])
    made, ledger, _ = apply(data, *REPAIRS)
    np.testing.assert_array_equal(made.boxes.xyxy, data.boxes.xyxy)
    assert not ledger.changed
    assert not ledger.left_out


def test_nothing_to_repair_changes_nothing():
    data = dataset([[1, 2, 3, 4], [2, 2, 3, 4]])
    made, ledger, log = apply(data, *REPAIRS)
    assert made is data
    assert not ledger.changed
    assert not log.notes


def test_an_empty_dataset_can_be_repaired():
    made, ledger, _ = apply(dataset([]), *REPAIRS)
    assert len(made) == 0
    assert not ledger.changed


def test_unknown_repairs_are_refused():
    with pytest.raises(UsageError, match="clip"):
        apply(dataset([]), "clop")


def test_fix_writes_a_repaired_copy(odm_run, labels, tmp_path):
    before = tree(labels)
    out = tmp_path / "mended"
    fix = ("validate", labels, *ARGS, "--fix", "order,drop-empty,dedupe", "--out", out)
    text, _ = odm_run(*fix, "--dry-run")
    assert not out.exists()
    text, _ = odm_run(*fix)
    assert re.search(r"\b64\s+boxes read", text)
    assert re.search(r"\b62\s+boxes written", text)
    assert "no errors, no warnings" in text
    assert tree(labels) == before
    assert (out / "a.txt").read_text() == "dog 1 2 30 40\ncat 40 50 50 90\n"
    odm_run("validate", out, *ARGS, "--strict")
    odm_run(*fix, code=3)
    odm_run(*fix, "--overwrite")
    odm_run("validate", labels, *ARGS, "--fix", "order", "--out", labels, "--overwrite", code=3)
    odm_run("validate", labels, *ARGS, "--fix", "order", "--out", labels / "in", code=3)
    assert tree(labels) == before


def test_fix_refuses_what_it_cannot_mend(odm_run, labels, tmp_path):
    (labels / "b.txt").write_text("dog 1 2 three 4\ndog 1 2 3 4\n")
    out = tmp_path / "mended"
    fix = ("validate", labels, *ARGS, "--out", out, "--fix")
    text, _ = odm_run(*fix, "order", code=1)
    assert "b.txt:1" in text
    assert not out.exists()
    text, _ = odm_run(*fix, "dedupe", "--skip-bad")  # the inverted box is left out too
    assert re.search(r"\b2\s+left out: rows with errors", text)
    assert re.search(r"\b63\s+boxes written", text)


def test_fix_can_change_the_format(odm_run, labels, tmp_path):
    out = tmp_path / "mended.json"
    stdout, err = odm_run(
        "validate", labels, *ARGS, "--fix", "order", "--to", "coco", "--out", out, "--output", "json"
    )
    assert json.loads(stdout)["errors"] == 0
    assert "boxes written (coco)" in err
    assert len(json.loads(out.read_text())["annotations"]) == 64


NO_COPY = {folder for folder in MIXED if mixed_case(folder).requests()[0].format not in WRITTEN}
NO_COPY |= {
    folder for folder in MIXED if folder.name == "megadetector-pixels"
}  # written in fractions, has no sizes


@of_each([folder for folder in MIXED if folder not in NO_COPY])
def test_a_copy_of_what_needs_no_repair_holds_the_same(folder, tmp_path):
    case = mixed_case(folder)
    source, gt, _ = case.requests()
    name = source.format
    target = tmp_path / ("copy" + (FORMATS[name].suffixes[0] if FORMATS[name].single else ""))
    reference = gt.path if gt else None
    log = Log()
    options = {"from_options": source.shared, "kind": source.kind, "gt": reference, "log": log}
    known = {spec.name for spec in option_specs(FORMATS[name].options)}
    written = {"spaces": "underscore"} if "spaces" in known else {}
    ledger = repair(source.path, target, list(REPAIRS), format=name, to_options=written, **options)
    assert (ledger.read, ledger.written, ledger.left_out) == (6, 6, {})
    assert set(log.counts) == set(case.said.get("doubts", ()))
    (one,) = case.examine(Log())
    sizes = tmp_path / "sizes.csv"
    rows = zip(one.dataset.images.name, one.dataset.images.width, one.dataset.images.height, strict=True)
    sizes.write_text("".join(f"{n},{w},{h}\n" for n, w, h in rows if w))
    given = {"image_sizes": str(sizes)} if "image_sizes" in known else {}
    two = odm.read(target, name, kind=source.kind, gt=reference, **given)
    ours, theirs = (
        sorted(
            (stem(d.images.name[i]).rpartition("/")[2], names[c], *map(float, xyxy))
            for names in [[n.replace(" ", "_") if written else n for n in d.categories.name]]
            for i, c, xyxy in zip(d.boxes.image, d.boxes.category, d.boxes.xyxy, strict=True)
        )
        for d in (one.dataset, two)
    )
    for a, b in zip(ours, theirs, strict=True):
        assert a[:2] == b[:2]
        np.testing.assert_allclose(a[2:], b[2:], rtol=0, atol=1e-5)


def test_a_repaired_results_list_keeps_its_ids(odm_run, tmp_path):
    gt, results = (FIXTURES / "mixed" / name / "input.json" for name in ("coco", "coco-results"))
    odm_run("validate", results, "--gt", gt, "--fix", "dedupe,clip", "--out", tmp_path / "out.json")
    first, second = (
        [(r["image_id"], r["category_id"]) for r in json.loads(p.read_text())]
        for p in (results, tmp_path / "out.json")
    )
    assert sorted(first) == sorted(second)


def test_repair_from_python(labels, tmp_path):
    log = Log()
    ledger = repair(labels, tmp_path / "out", ["order"], format="txt", options={"box": "ltrb"}, log=log)
    assert ledger.balances
    assert ledger.read == ledger.written == 64
    assert "inverted-box" not in log.counts
    assert log.counts["duplicate-box"] == 1


# --------------------------------------------------------------------------------------------- from Python


def test_validate_from_python(labels):
    log = Log()
    issues = odm.validate(labels, "txt", box="ltrb", log=log)
    assert issues[0].code == "inverted-box"
    assert issues[0].severity == "error"
    assert sorted(map(str, log.issues)) == sorted(map(str, issues))
    assert log.counts == issues.log.counts
    assert log.counts["duplicate-box"] == 1
    before, chosen = len(log.issues), log
    some = odm.validate(labels, "txt", box="ltrb", log=chosen, ignore=["empty-*"])
    assert some == [issue for issue in issues if not issue.code.startswith("empty-")]
    assert len(chosen.issues) == before + len(some)
    assert [i.code for i in odm.validate(labels, "txt", box="ltrb", select=["empty-*"])] == ["empty-box"]
    with pytest.raises(UsageError):
        odm.validate(labels, "txt", box="ltrb", ignore=["nonsense"])
    with pytest.raises(UsageError):
        odm.validate(labels, "txt", boxes="ltrb")


def test_issues_are_sorted_by_place():
    def issue(path, line=0, pointer="", severity="error"):
        return Issue(path, line, 0, "", "c", severity, "m", pointer)

    wanted = [
        issue("a", 2),
        issue("a", 10),
        issue("b", 0, "/x/2/y"),
        issue("b", 0, "/x/10/y"),
        issue("a", 1, severity="warning"),
    ]
    assert sort_issues(reversed(wanted)) == wanted


def test_what_is_not_wanted_is_neither_shown_nor_counted():
    log = Log()
    CODES.get("test-chosen") or Code("test-chosen", "warning", "t", "m", "w.")
    for name in ("inverted-box", "test-chosen"):
        log.report(CODES[name], "a", value="v", option="")
    assert set(chosen(log, ["inv*"], ()).counts) == {"inverted-box"}
    assert set(chosen(log, (), ["inv*"]).counts) == {"test-chosen"}
    assert len(chosen(log, (), ()).issues) == 2
    assert len(log.issues) == 2
    del CODES["test-chosen"]


@pytest.mark.parametrize("option", ["select", "ignore"])
def test_codes_of_modules_that_are_not_imported_yet(option):
    script = (
        "import sys, odm\n"
        "for code in ('voc-misplaced-element', 'bad-hierarchy', 'bad-label-file', 'likely-*'):\n"
        "    odm.validate(sys.argv[1], **{sys.argv[2]: code})\n"
        "try:\n"
        "    odm.validate(sys.argv[1], **{sys.argv[2]: 'likly-cause'})\n"
        "except odm.UsageError as e:\n"
        "    print(e)\n"
    )
    arguments = [str(FIXTURES / "street" / "truth.json"), option]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], check=False, capture_output=True, text=True
    )
    message = (
        "unknown code 'likly-cause' (did you mean 'likely-cause'?); odm validate --explain all lists them"
    )
    assert (done.stdout.strip(), done.stderr) == (message, "")


# ------------------------------------------------------------------------------------- time and memory


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_a_million_faults_are_counted_and_not_kept(tmp_path):
    labels = tmp_path / "labels"
    labels.mkdir()
    (labels / "a.txt").write_text("x 30 40 10 20\n" * 1_000_000)
    script = (
        "import re, sys, odm\n"
        "from odm.issues import Log\n"
        "log = Log()\n"
        "issues = odm.validate(sys.argv[1], 'txt', box='ltrb', log=log)\n"
        # resource.getrusage would count what the process had from which this one was forked
        "peak = re.search(r'VmHWM:\\s*([0-9]+) kB', open('/proc/self/status').read())[1]\n"
        "print(log.counts['inverted-box'], len(issues), peak)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(labels)], capture_output=True, text=True, check=True
    )
    count, kept, memory = map(int, done.stdout.split())
    assert count == 1_000_000
    assert kept <= 300
    assert memory < 900 * 1024


@pytest.mark.parametrize("command", ["validate", "stats"])
@pytest.mark.parametrize("flag", ["--format", "--from"])
def test_the_format_of_a_source_has_two_flags(command, flag, capsys):
    source = str(FIXTURES / "street" / "truth.json")
    assert _app.run([command, source, flag, "coco"]) == 0
    assert "89" in capsys.readouterr().out
    assert _app.run([command, source, flag, "coccco"]) == 2
    assert "unknown format 'coccco' (did you mean 'coco'?); odm formats lists them" in capsys.readouterr().err


@pytest.mark.parametrize(("row", "compared"), [("", True), ("a.jpg,cat,wide,2,3,4,.5\n", False)])
def test_detections_without_boxes_are_compared_unless_none_could_be_read(tmp_path, row, compared):
    truth = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 9, "height": 9}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}],
    }
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    (tmp_path / "det.csv").write_text(f"image,class,left,top,right,bottom,score\n{row}")
    found = odm.validate(tmp_path / "gt.json", against=tmp_path / "det.csv")
    assert ("class-only-in-ground-truth" in {issue.code for issue in found}) == compared
    assert bool(found.errors) != compared
