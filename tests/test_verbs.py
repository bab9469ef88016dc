"""A function of Python for every command: the same names, the same defaults, the same refusals."""

import contextlib
import inspect
import json
import keyword
import re
import typing
from pathlib import Path

import click
import numpy as np
import pytest
from selection import of_each, slow
from test_report import read_page

import odm
from odm.cli import _app
from odm.evaluate import PROTOCOLS, SHAPE_PROTOCOLS, TUBE_PROTOCOLS
from odm.evaluate.analysis.analyses import ANALYSES
from odm.formats import FORMATS, make_options, option_specs
from odm.issues import AS_FLAGS, OdmError, spell, spell_setting
from odm.tables import Dataset
from odm.verbs import words

STREET = Path(__file__).parents[1] / "fixtures" / "street"
ILLUSTRATED = Path(__file__).parents[1] / "fixtures" / "illustrated"
NO_FUNCTION = ("formats", "example", "completion", "protocols")
"""Commands about the program; the package `odm.formats` is the other's counterpart."""

OF_THE_TERMINAL = {
    "help": "help() shows the function's",
    "output": "the value shows itself, and has to_dict",
    "wide": "of a table on a terminal",
    "markdown": "a file for a CI job",
    "quiet": "nothing is printed",
    "verbose": "nothing is printed",
    "max_errors": "nothing is printed",
    "max_per_code": "nothing is printed",
    "fail_under": "an exit code",
    "fail_on_regression": "an exit code",
    "require_no_worse": "an exit code",
    "fail_on_change": "an exit code",
    "open": "a notebook shows the page",
    "O": "the options of formats are keywords",
    "h": "help() shows the function's",
    "explain": "text about a code",
    "validate strict": "an exit code",
}
"""Options that have no keyword, and why."""

ONLY_IN_PYTHON = set(
    "log options images shapes edits selection more from_options source_options to_options".split()
)
"""The log and the options of formats, and what functions had before they had these keywords."""


def commands():
    return [name for name in _app.COMMANDS if name not in NO_FUNCTION]


def named(param):
    """The keyword that an option has in Python."""
    long = max(param.opts, key=len).lstrip("-").replace("-", "_")
    return f"{long}_" if keyword.iskeyword(long) else long


def same(value):
    """A default as both sides may write it: what is repeated is one value, or none."""
    if isinstance(value, (list, tuple)):
        return None if not value else same(value[0]) if len(value) == 1 else tuple(value)
    return None if value in ("", ()) else value


@pytest.mark.parametrize("name", commands())
def test_a_function_has_the_options_of_its_command_with_their_defaults(name):
    command = _app.app.get_command(click.Context(_app.app), name)
    found = inspect.signature(getattr(odm, name)).parameters
    expected = {named(p): p.to_info_dict()["default"] for p in command.params if isinstance(p, click.Option)}
    for option, default in expected.items():
        if option in OF_THE_TERMINAL or f"{name} {option}" in OF_THE_TERMINAL:
            assert option not in found
            continue
        assert option in found, f"odm.{name} lacks {option}"
        given = found[option].default
        assert given is not inspect.Parameter.empty, option
        assert same(given) == same(default), option
    arguments = sum(isinstance(p, click.Argument) for p in command.params)
    own = [n for n in found if n not in expected and n not in ONLY_IN_PYTHON]
    assert len(own) == arguments, f"of the command's {arguments} arguments: {own}"


@pytest.mark.parametrize("name", commands())
def test_every_keyword_is_described(name):
    described = [name, "eval"] if name == "compare" else [name]  # which refers to eval
    texts = [inspect.getdoc(getattr(odm, each)) for each in described]
    for param in inspect.signature(getattr(odm, name)).parameters:
        assert any(re.search(rf"\b{param}\b", text) for text in texts), param


def literal(of):
    return set(typing.get_args(of))


def test_the_words_for_editors_are_those_that_there_are():
    """An entry point of another package may add formats, which these do not list."""
    assert literal(words.ProtocolName) == {*PROTOCOLS, *SHAPE_PROTOCOLS, *TUBE_PROTOCOLS}
    assert literal(words.BoxProtocolName) == {*PROTOCOLS, *SHAPE_PROTOCOLS}
    assert literal(words.Analysis) == set(ANALYSES)
    own = {n: f for n, f in FORMATS.items() if f.read.__module__.startswith("odm.formats.")}
    assert literal(words.FormatName) == set(own)
    specs = [spec for f in own.values() for spec in option_specs(f.options)]
    reading = {spec.name for spec in specs if spec.side != "write"}
    writing = {spec.name for spec in specs if spec.side != "read"}
    assert set(words.ReadFormatOptions.__annotations__) == reading
    assert set(words.WriteFormatOptions.__annotations__) == writing
    of_pair = set(words.PairFormatOptions.__annotations__)
    assert of_pair == {f"{side}_{name}" for side in ("gt", "det") for name in reading}


def test_there_is_one_default_protocol_and_a_training_loop_names_its_own():
    from odm.evaluate.scores.protocols import DEFAULT
    from odm.sharding import evaluate_shards

    assert [rules.name for rules in odm.evaluate.resolve(None)] == [DEFAULT]
    for function in (odm.eval, odm.compare, odm.evaluate.evaluate, evaluate_shards):
        assert inspect.signature(function).parameters["protocol"].default is None
    assert inspect.signature(odm.evaluate.Metric).parameters["protocol"].default is inspect.Parameter.empty


def test_a_description_of_a_yolo_data_set_gets_a_note_about_yolo_val():
    def notes(**given):
        log = odm.issues.Log()
        odm.eval(STREET / "data.yaml", STREET / "predictions", log=log, **given)
        return [note for note in log.notes if "yolo val" in note]

    (note,) = notes()
    assert note.endswith(": protocol ultralytics gives the numbers of yolo val, and this is voc2012")
    assert notes(protocol="ultralytics") == notes(protocol="voc2012") == []


def default_doubts(log):
    """The advice of the doubts about a protocol that nobody chose."""
    return [re.search("give (.*)", str(i))[1] for i in log.issues if i.code == "default-protocol"]


@pytest.mark.parametrize("usual", ["coco", "lvis"])
def test_files_of_coco_and_lvis_under_no_chosen_protocol_are_doubted_in_all_outputs(usual, odm_run, tmp_path):
    mixed = STREET.parent / "mixed"
    sides = mixed / usual / "input.json", mixed / f"{usual}-detections" / "input.json"
    advice = f"--protocol {usual}, or --protocol voc2012 to confirm these"
    choices = {"protocol": None, "iou": 0.5}, {"protocol": usual}, {"protocol": "voc2012"}
    results = [odm.eval(*sides, **choice) for choice in choices]
    assert [default_doubts(result.log) for result in results] == [[advice], [], []]
    truth, found = odm.read(sides[0]), odm.read(sides[1])
    for protocol in (None, "voc2012"):
        log = odm.issues.Log()
        odm.evaluate.evaluate(truth, found, protocol, log=log)
        assert default_doubts(log) == [advice] * (protocol is None)
        log = odm.issues.Log()
        odm.compare(truth, {"a": found, "b": found}, protocol, log=log)
        assert default_doubts(log) == [advice] * (protocol is None)
    assert advice in results[0]._repr_html_()
    results[0].report(tmp_path / "page.html")
    assert advice in str(read_page(tmp_path / "page.html")[0]["doubts"])
    out, err = odm_run("eval", *sides, "-q", "--output", "json")
    assert f"give {advice}" in err
    assert [doubt["code"] for doubt in json.loads(out)["doubts"]].count("default-protocol") == 1
    assert "default-protocol" not in "".join(odm_run("eval", *sides, "-q", "--protocol", "voc2012"))
    other = odm.read(mixed / "voc" / "input")
    log = odm.issues.Log()
    odm.eval(other, sides[1], log=log)
    assert not default_doubts(log)


# ------------------------------------------------------------------------------------------- sources


def frame(make, *, score):
    rows = {
        "image": ["a.jpg", "a.jpg", "b.jpg"],
        "class": ["cat", "dog", "cat"],
        "left": [0.0, 20.0, 5.0],
        "top": [0.0, 20.0, 5.0],
        "right": [10.0, 40.0, 15.0],
        "bottom": [10.0, 40.0, 15.0],
    }
    return make({**rows, "score": [0.9, 0.8, 0.7]} if score else rows)


@pytest.mark.parametrize("library", ["", "pandas", "polars", "pyarrow"])
def test_two_frames_are_evaluated(library):
    make = dict if not library else None
    if library:
        module = pytest.importorskip(library)
        make = module.table if library == "pyarrow" else module.DataFrame
    r = odm.eval(frame(make, score=False), frame(make, score=True), protocol="coco")
    assert r.summary["AP"] == pytest.approx(1)


def test_the_illustrated_example_has_its_known_numbers():
    truth, found = (str(ILLUSTRATED / side) for side in ("groundtruths", "detections"))
    r = odm.eval(truth, found, iou=0.3)
    assert r.summary["mAP"] == pytest.approx(0.24568668046928915, abs=1e-15)
    assert odm.eval(odm.read(truth), Path(found), iou=0.3).summary == r.summary
    assert odm.eval(Path(truth), odm.read(found), iou=[0.3]).summary == r.summary
    files = sorted(Path(truth).iterdir())
    assert odm.eval(files, odm.read(found), iou=0.3, gt_box="ltwh").summary == r.summary


def test_coco_in_memory_is_evaluated():
    from odm.converters.bridges import from_columns, to_coco

    truth = from_columns(frame(dict, score=False))
    data = to_coco(truth)
    results = [
        {k: r[k] for k in ("image_id", "category_id", "bbox")} | {"score": 0.5} for r in data["annotations"]
    ]
    assert odm.eval(data, results, protocol="coco").summary["AP"] == pytest.approx(1)
    with pytest.raises(odm.DataError) as refused:
        odm.stats(results)
    assert set(refused.value.log.counts) == {"results-without-reference"}


@pytest.mark.parametrize("wrong", [3, None, [1, 2], object(), {1}, np.zeros(3), [], ["a", 3], 1.5])
@pytest.mark.parametrize("name", ["eval", "agree", "compare", "stats", "show", "read", "validate"])
def test_a_wrong_object_is_refused_with_what_is_taken(name, wrong):
    function = getattr(odm, name)
    args = {"eval": (wrong, wrong), "agree": (wrong, wrong), "compare": (wrong, {"a": 1, "b": 2})}
    with pytest.raises(odm.UsageError, match=rf"{name} takes a path.* not {type(wrong).__name__}"):
        function(*args.get(name, (wrong,)))


def test_runs_that_are_no_runs_are_refused():
    truth = odm.read(str(ILLUSTRATED / "groundtruths"))
    for wrong, says in (
        (3, "compare takes runs by their names"),
        ({"a": truth}, "two runs or more"),
        (["a", "a"], "a run is given twice"),
        ([truth, truth], "by their names"),
    ):
        with pytest.raises(odm.UsageError, match=says):
            odm.compare(truth, wrong)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ious": 0.3}, "eval has no option 'ious' .did you mean 'iou'"),
        ({"det_boxs": "ltwh"}, "eval has no option 'det_boxs'"),
        ({"protocol": "coc"}, "did you mean 'coco'"),
        ({"tags": "a.csv"}, "^tags needs analyze slices"),
        ({"rows_per_task": 3}, "^rows_per_task is used with memory or cluster only"),
        ({"replicates": 0}, "^replicates"),
        ({"analyze": ["tides"]}, "^analyze tides"),
        ({"at_score": 0.5, "at_scores": "x.json"}, "^at_scores and at_score cannot be combined"),
        ({"report": "a.pdf"}, "a report is HTML"),
        ({"iou_type": "segm"}, "voc2012 does not define it; use protocol coco, lvis"),
        *(
            ({"protocol": "coco", "iou_type": "keypoints", "sigmas": wrong}, "^sigmas: expected numbers")
            for wrong in (["a"], np.zeros((17, 2)), [None], [-1.0])
        ),
    ],
)
def test_messages_name_keywords_and_not_flags(given, says):
    with pytest.raises(odm.UsageError, match=says):
        odm.eval("nowhere", "nowhere", **given)


# ------------------------------------------------------------------------------- values of a wrong type

ODD = (
    object(),
    5,
    -1,
    1.5,
    float("nan"),
    "x",
    "a\0b",
    b"x",
    True,
    None,
    [5],
    ["x"],
    [None],
    (),
    {"a": 1},
    {},
)
TAKE_MUCH = "gt det first other source path dataset old new runs against ignore_regions".split()
"""What is read may be many things; a test above has what is not."""
OPTIONS = sorted({spec.name for format_ in FORMATS.values() for spec in option_specs(format_.options)})


def keywords():
    """Each function and each name that it takes, with those of formats; not what they are called on."""
    each = []
    for name in [*commands(), "repair", "write", "read"]:
        found = inspect.signature(getattr(odm, name)).parameters.values()
        own = [p.name for p in found if p.kind != p.VAR_KEYWORD]
        more = OPTIONS if len(own) < len(found) else []
        each += ((name, keyword) for keyword in dict.fromkeys([*own, *more]))
    return each


def called(name, keyword, value, truth, found, out):
    """Call a function with one odd value, and with usual values of what it needs."""
    own = inspect.signature(getattr(odm, name)).parameters
    two = {"eval": (truth, found), "agree": (truth, truth), "diff": (truth, truth)}
    runs = {"compare": (truth, {"a": found, "b": found}), "repair": (truth, out, ["order"])}
    writes = {"write": (truth, out), "convert": (truth, out)}
    given = dict(zip(own, {**two, **runs, **writes}.get(name, (truth,)), strict=False))
    getattr(odm, name)(**{**given, keyword: value})


@of_each(keywords)
def test_a_value_of_a_wrong_type_is_refused_with_its_name(name, keyword):
    for wrong in (object(), "a\0b"):
        if keyword in TAKE_MUCH and not isinstance(wrong, str):
            continue
        with pytest.raises(odm.UsageError, match=rf"^{keyword}\b"):
            called(name, keyword, wrong, "nowhere", "nowhere", "nowhere/new.csv")


@slow
@of_each(keywords)
def test_no_value_is_a_traceback(name, keyword, tmp_path):
    truth, found = (str(ILLUSTRATED / side) for side in ("groundtruths", "detections"))
    for number, value in enumerate(ODD):
        with contextlib.chdir(tmp_path), contextlib.suppress(odm.issues.OdmError):
            called(name, keyword, value, truth, found, f"{number}.csv")


@of_each(lambda: [(f.name, spec.name) for f in FORMATS.values() for spec in option_specs(f.options)])
def test_an_option_of_a_format_of_a_wrong_type_is_refused(name, option):
    with pytest.raises(odm.UsageError, match=rf"^{option}: expected"):
        make_options(FORMATS[name], {option: object()})


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda d: odm.eval(d, d, iou="x"),
            "^iou x: expected an IoU above 0 and up to 1, as in 0.5, LOW:STEP:HIGH, as in 0.5:0.05:0.95, or CLASS=IOU",
        ),
        (lambda d: odm.eval(d, d, iou=[0.5, "x"]), "^iou x: expected an IoU above 0"),
        (lambda d: odm.eval(d, d, images=5), "^images: expected a path, found 5"),
        (lambda d: odm.compare(d, {"a": d, "b": d}, iou=[0.5, 0.6]), "^iou: expected a number or text"),
        (lambda d: odm.read("a", format=3), "^format: expected a name such as 'automl', found 3"),
        (lambda d: odm.read("a", kind="x"), "^kind: expected 'gt' or 'det', found 'x'"),
        (lambda d: odm.read("a", shapes="no"), "^shapes: expected True or False, found 'no'"),
        (lambda d: odm.read(["a", "b\0"]), "^path: .* has a null character"),
        (lambda d: odm.convert(d, "a.csv", options="x"), "^options: expected a mapping, found .x."),
        (lambda d: odm.convert(d, "a.csv", to_options={"sep": 5}), "^sep: expected text, found 5"),
        (lambda d: d.show(report_images="x"), "^report_images: expected a whole number"),
        (lambda d: d.show(columns=1.5), "^columns: expected a whole number"),
    ],
)
def test_a_wrong_value_is_answered_with_what_is_expected(call, says):
    dataset = odm.read(str(ILLUSTRATED / "groundtruths"))
    with pytest.raises(odm.UsageError, match=says):
        call(dataset)


def test_numbers_of_numpy_and_lists_of_any_kind_are_taken():
    truth, found = sides()
    plain = odm.eval(truth, found, "coco", iou=[0.5, 0.25], max_dets=10, keep_difficult=True).summary
    of_numpy = {
        "iou": np.array([0.5, 0.25], np.float32),
        "max_dets": np.int64(10),
        "keep_difficult": np.True_,
    }
    assert odm.eval(truth, found, "coco", **of_numpy).summary == plain


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("area", ["small"]),
        ("area", [0, 1e4]),
        ("image_labels", [("2007_000032", "dog", True), ("2007_000032", "cat", False)]),
        ("only_images", ["2007_000032"]),
        ("only_images", []),
        ("tags", []),
    ],
)
def test_an_array_is_taken_as_the_list_of_its_values(option, values):
    """Also one that has several values or none, which has no truth value of its own."""
    answers = []
    for value in (values, np.array(values, dtype=object)):
        truth, found = sides()
        try:
            answers.append(odm.eval(truth, found, "coco", analyze="slices", **{option: value}).to_dict())
        except odm.UsageError as e:
            answers.append(str(e))
    assert answers[0] == answers[1]


def test_a_note_about_tags_names_the_keyword(tmp_path):
    truth, found = sides()
    image = truth.images.name[0]
    (tmp_path / "tags.csv").write_text(f"image,weather\n{image},fog\nnowhere.jpg,sun\n")
    log = odm.issues.Log()
    odm.eval(truth, found, analyze="slices", tags=[tmp_path / "tags.csv"], log=log)
    assert any(note.startswith("tags ") and "1 row refers to an image" in note for note in log.notes)


def test_json_on_one_line_is_no_list_of_pictures(tmp_path):
    (tmp_path / "a.json").write_text('[{"image_id": 1 , "score": 2 }]')
    from odm.files import open_source
    from odm.formats import opencv

    assert opencv.sniff(open_source(str(tmp_path / "a.json"))) is None


def test_an_option_of_a_format_means_something():
    truth = odm.read(str(ILLUSTRATED / "groundtruths"))
    with pytest.raises(odm.UsageError, match="shards"):
        odm.eval(truth, str(ILLUSTRATED / "detections"), shards=2)


# --------------------------------------------------------------------------------------------- answers


def sides():
    return (odm.read(str(ILLUSTRATED / side)) for side in ("groundtruths", "detections"))


def test_what_a_command_writes_a_function_writes(tmp_path):
    truth, found = sides()
    odm.eval(truth, found, save=tmp_path / "saved", report=tmp_path / "run.html", confusion="gt")
    assert {"results.json", "detections.csv"} <= {p.name for p in (tmp_path / "saved").iterdir()}
    assert (tmp_path / "run.html").stat().st_size > 10_000
    with pytest.raises(odm.PathError, match=r"run\.html"):
        odm.eval(truth, found, report=tmp_path / "run.html")
    odm.compare(truth, {"a": found, "b": found.take(found.boxes.score > 0.5)}, save=tmp_path / "compared")
    assert (tmp_path / "compared" / "classes.csv").exists()


def test_agree_stats_and_show_take_what_eval_takes(tmp_path):
    truth = odm.read(str(ILLUSTRATED / "groundtruths"))
    assert odm.agree(truth, truth).f1 == 1
    assert odm.stats(frame(dict, score=True)).boxes == 3
    page = odm.show(truth)
    assert "<iframe srcdoc=" in page._repr_html_()
    page = odm.show(truth, out=tmp_path / "page.html", report_images=2)
    assert Path(page).read_text().startswith("<!doctype html>")
    assert page._repr_html_() is None


def test_convert_takes_what_is_in_memory_and_edits_it(tmp_path):
    table = frame(dict, score=True)
    ledger = odm.convert(table, tmp_path / "a.csv", rename={"cat": "animal"}, drop="dog", min_box=1)
    assert (ledger.read, ledger.written) == (3, 2)
    assert odm.read(tmp_path / "a.csv").categories.name == ("animal",)
    both = odm.convert(
        [tmp_path / "a.csv", odm.read(table)], tmp_path / "b.csv", only_classes=["animal"], same_image="join"
    )
    assert both.written == 2
    with pytest.raises(odm.UsageError, match="options for reading do not apply"):
        odm.convert(table, tmp_path / "c.csv", from_box="ltwh")
    assert odm.convert(table, tmp_path / "c.csv", dry_run=True).dry_run
    assert not (tmp_path / "c.csv").exists()


def test_read_merges_a_list_of_paths(tmp_path):
    for name in ("a", "b"):
        table = frame(dict, score=False)
        odm.write({**table, "image": [f"{name}{i}" for i in table["image"]]}, tmp_path / f"{name}.csv")
    assert len(odm.read([tmp_path / "a.csv", tmp_path / "b.csv"])) == 6


def test_validate_takes_tables_and_pairs_and_lists(tmp_path):
    table = frame(dict, score=False)
    table["right"][0] = -5.0
    found = odm.validate(table)
    assert "inverted-box" in {issue.code for issue in found}
    assert (found.errors, repr(found)) == (1, "<Validation: 1 error>")
    assert odm.validate(table, select="rare*") == []
    truth, detections = sides()
    assert odm.validate(truth, against=detections).errors == 0
    odm.write(truth, tmp_path / "a.csv")
    odm.write(truth, tmp_path / "b.csv")
    assert len(odm.validate([tmp_path / "a.csv", tmp_path / "b.csv"]).datasets) == 2
    copy = odm.validate(tmp_path / "a.csv", fix=["order"], out=tmp_path / "fixed.csv")
    assert copy.ledger.balances
    assert (tmp_path / "fixed.csv").exists()
    with pytest.raises(odm.UsageError, match="out is used with fix only"):
        odm.validate(tmp_path / "a.csv", out=tmp_path / "c.csv")
    odm.validate(tmp_path / "a.csv", report=tmp_path / "check.html")
    assert (tmp_path / "check.html").exists()


# ------------------------------------------------------------------------------------------ both doors


MISTAKES = [
    ("eval", {"iou": 2.0}),
    ("eval", {"iou": 0.5, "iou_type": "segm"}),
    ("eval", {"protocol": "coco", "max_dets": 0}),
    ("eval", {"protocol": "coco", "max_dets": 10, "recall_at": 11}),
    ("eval", {"protocol": "coco", "area": "tiny"}),
    ("eval", {"protocol": "stt", "ci": True}),
    ("eval", {"score_min": float("inf")}),
    ("eval", {"sigmas": "0.1"}),
    ("eval", {"replicates": 0}),
    ("eval", {"thresholds": "f3"}),
    ("eval", {"save_thresholds": "t.json"}),
    ("eval", {"tags": "t.csv"}),
    ("eval", {"bootstrap_areas": True}),
    ("eval", {"memory": "1GB", "ci": True}),
    ("eval", {"cluster": "tcp://x:1"}),
    ("eval", {"rows_per_task": 5}),
    ("eval", {"only_classes": "zebra"}),
    ("eval", {"report_title": "x"}),
    ("compare", {"level": 2.0}),
    ("agree", {"iou": 0.0}),
    ("diff", {"tolerance": -1.0}),
    ("validate", {"dry_run": True}),
    ("validate", {"fix": "all"}),
    ("validate", {"gt_box": "ltrb"}),
    ("convert", {"to": "coco", "seed": 1}),
    ("convert", {"to": "coco", "split_into": "train:1"}),
    ("convert", {"to": "coco", "min_box": -1.0}),
    ("convert", {"to": "coco", "class_list": "names.json"}),
    ("convert", {"to": "coco", "drop": "zebra"}),
    ("stats", {"report_title": "x"}),
]
"""A command, and options that it refuses: what a message says of them it says with flags or keywords."""


def spelled(text, record, sides):
    """A message of Python with the flag of each option that its record has."""
    names = sorted({*record.fields(), *sides, "gt_...", "det_..."} - {"to"}, key=len, reverse=True)
    flags = {name: f"--{name.rstrip('_').replace('_', '-')}" for name in names}
    pattern = rf"(?<![\w'/.-])({'|'.join(map(re.escape, names))})(?![\w'/=-])"
    return re.sub(pattern, lambda match: flags[match[1]], text)


@pytest.mark.parametrize(("name", "options"), MISTAKES)
def test_a_message_has_flags_on_the_command_line_and_keywords_in_python(
    name, options, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for side, score in (("gt", ""), ("det", " 0.9"), ("other", " 0.8")):
        Path(side).mkdir()
        Path(side, "a.txt").write_text(f"car{score} 10 10 20 20\n")
    Path("names.json").write_text("[]")
    places = {"eval": ["gt", "det"], "compare": ["gt", "det", "other"], "convert": ["gt", "out.json"], "agree": ["gt", "gt"],
              "diff": ["gt", "gt"], "validate": ["gt"], "stats": ["gt"]}[name]  # fmt: skip
    takes = "gt_box" not in options and {"box": "ltrb"}
    words = [
        f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}")
        for key, value in options.items()
    ]
    assert _app.run([name, *places, *words, *(["--box=ltrb"] if takes else []), "-q"]) in (1, 2, 3)
    err = capsys.readouterr().err.splitlines()[-1].removeprefix("odm: error: ")
    arguments = [places[0], places[1:]] if name == "compare" else places
    values = {key: [value] if key == "recall_at" else value for key, value in options.items()}
    with pytest.raises(OdmError) as refused:
        getattr(odm, name)(*arguments, **values, **(takes or {}))
    message = str(refused.value)
    assert "--" not in message
    assert "--" in err, "the case names no option"
    record = _app.app.get_command(click.Context(_app.app), name).callback.record
    assert spelled(message, record, options) == err


def test_threads_and_workers_name_what_the_caller_names():
    from concurrent.futures import ThreadPoolExecutor

    from odm.evaluate.parts.cluster import run_tasks
    from odm.parallel import map_by_threads

    token = AS_FLAGS.set(True)
    try:
        with ThreadPoolExecutor(1) as executor:
            assert dict(run_tasks(executor, spell, [("at_score",)])) == {0: "--at-score"}
        assert map_by_threads(spell, ["at_score"] * 9) == ["--at-score"] * 9
        assert spell_setting("task=segment") == "-O task=segment"
        assert spell_setting("field=NAME", "det") == "--det-O field=NAME"
    finally:
        AS_FLAGS.reset(token)
    assert spell("at_score") == "at_score"
    assert spell_setting("task=segment") == "task='segment'"
    assert spell_setting("field=NAME", "det") == "det_field=NAME"


@pytest.mark.parametrize(("option", "value", "more"), [
    ("sigmas", [0.1, 0.2, 0.3], {"protocol": "coco", "iou_type": "keypoints"}),
    ("only_classes", ["x"], {}), ("only_images", ["a.jpg"], {}), ("recall_at", [1, 7], {"protocol": "coco"}),
    ("protocol", ["coco"], {}), ("rename", ["y=x"], {}),
])  # fmt: skip
def test_lists_of_options_may_be_tuples_and_arrays_and_are_not_used_up(option, value, more):
    points = np.array([[[5, 5, 2], [20, 20, 2], [9, 9, 2]]] * 2, float)
    table = {"images": ["a.jpg", "b.jpg"], "categories": ["x", "y"], "image": [0, 1], "category": [0, 1],
             "ltwh": [(0, 0, 30, 30)] * 2, "keypoints": points}  # fmt: skip
    sides = Dataset.from_arrays(**table), Dataset.from_arrays(**table, score=[0.9, 0.8])
    summaries = []
    for make in (list, tuple, np.array):
        values = make(value)
        summaries += [odm.eval(*sides, **more, **{option: values}).results[0].summary for _ in range(2)]
        assert list(values) == value
    assert all(str(summary) == str(summaries[0]) for summary in summaries)
    with pytest.raises(odm.UsageError, match=f"^{option}: expected "):
        odm.eval(*sides, **more, **{option: iter(value)})
