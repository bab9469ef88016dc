"""Every code has a fixture that gives it and nothing else, and an example made from one.

What the families of fixtures are and how they are asked stands in `fixture_cases.py`. Dropping a folder adds its test.
"""

import fixture_cases as written
from selection import SLOW, of_each

from odm import checks
from odm.cli._explain import format_advice, format_message, load_examples
from odm.issues import Code
from odm.verbs.validation import all_codes

REGISTRY = all_codes()
CODES = [code for code in REGISTRY if not code.startswith("test-")]
FOLDERS = {code: [] for code in CODES}
for _code, _folder in written.cases():
    FOLDERS[_code].append(_folder)
COMMANDS = [f for folders in FOLDERS.values() for f in folders if f.parent.name in written.COMMANDS]


@of_each(CODES)
def test_every_code_has_fixtures_that_give_no_other(code):
    assert FOLDERS[code], "no fixture shows this code"
    for folder in FOLDERS[code] if SLOW else FOLDERS[code][:1]:  # test_fixtures.py reads the others
        case = written.fixture(folder)
        codes = case.codes()
        assert code in codes, folder
        assert codes <= {code, checks.FOLLOWS.get(code), *case.said.get("also", ())}, folder


@of_each(CODES)
def test_every_code_has_an_example(code):
    shown, printed = load_examples()[code]
    assert f" {code} " in printed
    assert not printed.startswith("-") or "Dataset" in shown, "the place is not said"


@of_each(COMMANDS)
def test_a_command_ends_as_the_fixture_says(folder):
    case = written.Command(folder)
    assert case.exit == case.said["exit"], case.err
    assert bool(case.out) == (case.exit == 0)


@of_each([f for folders in FOLDERS.values() for f in folders if "says" in written.described(f)])
def test_a_message_has_the_values_that_the_fixture_says(folder):
    """These are counted by hand: examples.json and the page of codes are what the messages are."""
    case = written.fixture(folder)
    text = case.out + case.err if isinstance(case, written.Command) else "\n".join(map(str, case.log()))
    assert case.said["says"] in text, text


ALL_VALUES = Code(
    "test-codes-values", "error", "expected {a}{b} in image{s}, found {c!r}", "{d}; correct it{s}", "A test."
)
ONE_VALUE = Code("test-codes-value", "error", "found {a}", "{d}", "A test.")


def test_values_are_left_out_where_a_code_is_explained():
    assert format_message(ALL_VALUES) == "expected … in image, found …"
    assert format_advice(ALL_VALUES) == "…; correct it"
    assert format_advice(ONE_VALUE) == ""


def of_family(name):
    return of_each([f for f in COMMANDS if f.parent.name == name])


SAID_TOO = {"image-size-out-of-reach": "image-only-in-detections"}
"""What an evaluation does not come to, for it stops before."""


# `arguments` are options of the evaluation alone, which validation does not have.
@of_each([f for f in COMMANDS if f.parent.name == "eval" and "arguments" not in written.described(f)])
def test_validation_and_evaluation_of_two_sides_have_the_same_errors(folder):
    case = written.Command(folder)
    _, gt, det, *options = case.words
    code, out, _ = case.run(["validate", gt, "--against", det, *options])
    ours, theirs = (
        {c for c in written.PRINTED.findall(text) if REGISTRY[c].severity == "error"}
        for text in (case.err, out)
    )
    assert ours | {SAID_TOO[c] for c in ours & SAID_TOO.keys()} == theirs
    assert code == case.exit


@of_family("convert")
def test_what_only_a_target_cannot_hold_is_no_fault_of_the_source(folder):
    case = written.Command(folder)
    _, source, _, *options = case.words
    read = [o for o in ("--box", "ltwh") if o in options]
    code, _, err = case.run(["validate", source, *read])
    assert code == 0, err
