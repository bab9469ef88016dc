"""The issue record, the log that counts and keeps, and text that cannot break a line of output."""

import numpy as np
import pytest
from msgspec.structs import replace

from odm.issues import (
    CODES,
    KEPT_PER_CODE,
    Code,
    DataError,
    Issue,
    Log,
    PathError,
    Trusted,
    UsageError,
    hint,
    nearest,
    printable,
    shorten,
)
from odm.tables import Dataset, SourceFile


def declare(name, severity="error", template="found {value!r}", advice="write {wanted}", *, row=False):
    return CODES.get(name) or Code(name, severity, template, advice, "why", row)


FAULT = declare("test-fault")
DOUBT = declare("test-doubt", "warning", "found {value}", "look at it", row=True)
ROW = declare("test-row", template="found {value}", advice="mend it", row=True)


def test_a_code_is_declared_once():
    with pytest.raises(ValueError, match="declared twice"):
        Code("test-fault", "error", "", "", "")


def test_the_printed_form():
    log = Log()
    log.report(FAULT, "a.txt", line=3, column=7, field="width", value="x", wanted="a number")
    log.report(FAULT, "a.json", pointer="/annotations/2/bbox", field="bbox", value="x", wanted="a number")
    log.report(FAULT, "", value="x", wanted="a number")
    log.report(FAULT, "a\nb\x1b[31m.txt", line=1, value="x", wanted="a number")
    assert [str(i) for i in log] == [
        "a.txt:3:7: error test-fault [width] found 'x'; write a number",
        "a.json#/annotations/2/bbox: error test-fault [bbox] found 'x'; write a number",
        "-: error test-fault found 'x'; write a number",
        "a\\nb\\x1b[31m.txt:1: error test-fault found 'x'; write a number",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a", "'a'"),
        ("it's", '"it\'s"'),
        ("a\nb\t\0", "'a\\nb\\t\\x00'"),
        ("{value} %s", "'{value} %s'"),
        ("\u202eevil", "'\\u202eevil'"),
        ("\ud800", "'\\ud800'"),
        (b"\xffa\n", "'\\xffa\\n'"),
        (1, "1"),
        (0.5, "0.5"),
        (np.float64(0.5), "0.5"),
        (697.8699999999999, "697.87"),
        (np.float64(640 / 3), "213.333333"),
        (1.0000000001, "1.0000000001"),  # not 1.0, which would be no fault
        (1e-9, "1e-09"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (np.int32(7), "7"),
        (True, "true"),
        (np.False_, "false"),
        (None, "null"),
        (Trusted("as it is"), "'as it is'"),
        ("x" * 200, "'" + "x" * 79 + "…'"),
    ],
)
def test_values_are_shown_on_one_line(value, shown):
    log = Log()
    log.report(FAULT, "f", value=value, wanted="y")
    assert log.issues[0].message == f"found {shown}; write y"


def test_all_are_counted_and_some_kept():
    log = Log()
    for i in range(KEPT_PER_CODE + 50):
        log.report(FAULT, "f", line=i + 1, value=i, wanted="y")
    log.report(DOUBT, "f", value=1)
    assert len(log.issues) == KEPT_PER_CODE + 1
    assert log.counts == {"test-fault": KEPT_PER_CODE + 50, "test-doubt": 1}
    assert (log.errors, log.warnings, log.fatal) == (KEPT_PER_CODE + 50, 1, KEPT_PER_CODE + 50)
    log.report(ROW, "f", value=1)
    assert (log.errors, log.fatal) == (KEPT_PER_CODE + 51, KEPT_PER_CODE + 50)
    assert list(log) == log.issues


def dataset(pointer=""):
    data = Dataset.from_arrays(
        images=["a"], categories=["c"], image=[0] * 300, category=[0] * 300, xyxy=np.zeros((300, 4))
    )
    boxes = replace(data.boxes, file=np.zeros(300, np.int32), line=np.arange(300, dtype=np.int32))
    return replace(data, boxes=boxes, files=(SourceFile("f.json", pointer),))


def test_rows_are_reported_at_their_places_and_only_the_kept_are_looked_at():
    asked = []

    def values(row):
        asked.append(row)
        return {"value": row}

    log = Log(keep=3)
    log.report_rows(ROW, dataset("/annotations"), np.arange(5, 300), values, field="bbox")
    assert asked == [5, 6, 7]
    assert log.counts["test-row"] == 295
    assert [i.location for i in log] == [f"f.json#/annotations/{i}/bbox" for i in (5, 6, 7)]
    log.report_rows(ROW, dataset(), np.arange(2), values)
    assert log.counts["test-row"] == 297
    assert asked == [5, 6, 7]
    log = Log(keep=1)
    log.report_rows(ROW, dataset(), np.array([4]), values, field="bbox")
    assert [i.location for i in log] == ["f.json:4"]
    log.report_rows(ROW, dataset(), np.zeros(0, np.intp), values)
    assert log.counts["test-row"] == 1


def test_a_log_takes_over_another():
    one, other = Log(keep=3), Log(keep=3)
    for i in range(2):
        one.report(FAULT, "f", value=i, wanted="y")
    for i in range(5):
        other.report(FAULT, "g", value=i, wanted="y")
    one.note("a")
    other.note("a")
    other.note("b")
    one.extend(other)
    assert one.counts["test-fault"] == 7
    assert len(one.issues) == 3
    assert one.notes == ["a", "b"]


def test_tracking_is_the_callers():
    seen = []

    def track(items, what):
        seen.append(what)
        return items

    assert list(Log(track=track).track([1, 2], "reading")) == [1, 2]
    assert list(Log().track([1, 2], "reading")) == [1, 2]
    assert seen == ["reading"]


def test_errors_carry_the_exit_code():
    log = Log()
    log.report(FAULT, "f", line=1, value=1, wanted="y")
    log.report(DOUBT, "f", line=2, value=1)
    error = DataError("2 faults", log)
    assert str(error) == "2 faults\nf:1: error test-fault found 1; write y"
    assert (DataError.exit_code, UsageError.exit_code, PathError.exit_code) == (1, 2, 3)


def test_printable_and_short():
    assert printable("Straße 日本") == "Straße 日本"
    assert printable("a\u2028b\x85\u200b") == "a\\u2028b\\x85\\u200b"
    assert shorten("x" * 80) == "x" * 80
    assert len(shorten("x" * 81)) == 80
    assert len(shorten("\n" * 200)) == 80
    assert len(shorten(b"\xff" * 10**6)) == 80


def test_the_nearest_name():
    assert nearest("Persn", ["car", "person"]) == "person"
    assert nearest("PERSON", ["person"]) == "person"
    assert nearest("zebra", ["person"]) is None
    assert nearest("x", []) is None
    assert nearest("y" * 10_000, ["y" * 10_000]) is None
    assert nearest("person", (f"class {i}" for i in range(10**6))) is None
    assert hint("Persn", ["person"]) == " (did you mean 'person'?)"
    assert hint("zebra", ["person"]) == ""


def test_an_issue_is_plain():
    issue = Issue("f", 1, 0, "", "test-fault", "error", "m")
    assert issue == Issue("f", 1, 0, "", "test-fault", "error", "m")
    assert issue.location == "f:1"
